"""What a decomposition is: three numbers that add up, for every instance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scorewise._array import Array

COMPONENTS = ("total", "aleatoric", "epistemic")
RULES = ("log", "brier", "zero-one", "spherical")  # of the paper, and what is compared by default


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Total, aleatoric and epistemic uncertainty; ``tu, au, eu = decomposition`` unpacks them.

    Attributes
    ----------
    total, aleatoric, epistemic : arrays (...)
        In the units of the rule's loss, in the library and on the device of the input.
    standard_error : Decomposition or None
        Standard errors of the three, where they were asked for or where numbers were simulated.
    """

    total: Array
    aleatoric: Array
    epistemic: Array
    standard_error: Decomposition | None = None

    def __iter__(self) -> Iterator[Array]:
        return iter((self.total, self.aleatoric, self.epistemic))

    def __repr__(self) -> str:
        lines = [
            f"  {name:9} = {np.array2string(np.asarray(value), precision=4, threshold=6)}"
            if isinstance(value, np.ndarray | np.floating)
            else f"  {name:9} = {value!r}"
            for name, value in zip(COMPONENTS, self, strict=True)
        ]
        if self.standard_error is not None:
            lines.append("  standard_error = Decomposition(...)")
        return "\n".join(["Decomposition(", *lines, ")"])
