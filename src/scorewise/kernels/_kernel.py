"""The interface of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scorewise._array import Array
from scorewise._inputs import RawPredictions
from scorewise.rules import ScoringRule

Components = tuple[Array, Array, Array]  # total, aleatoric, epistemic


@dataclass(frozen=True)
class Usability:
    """Whether a kernel is usable for some input, and why."""

    usable: bool
    reason: str

    def __bool__(self) -> bool:
        return self.usable


class Kernel(Protocol):
    """The functions of a kernel, for members ``(..., M, K)`` as the caller passed them."""

    def is_usable(
        self, raw: RawPredictions, weights: Any, rules: Sequence[ScoringRule]
    ) -> Usability:
        """Return whether this kernel can decompose these members under all of these rules."""

    def compute(
        self, raw: RawPredictions, weights: Any, rules: Sequence[ScoringRule]
    ) -> list[Components] | None:
        """Return the three components of each rule, checked and computed in a single pass.

        None for invalid predictions or weights, and if the kernel cannot run: the array path then
        raises the error, or computes the result.
        """
