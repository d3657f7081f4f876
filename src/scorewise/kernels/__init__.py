"""Fused kernels: compiled code that decomposes large arrays in a single pass over memory.

Every module of this folder without an underscore is a kernel: it has ``is_usable``, ``supports``
and ``compute``, as :class:`Kernel` describes. The first usable kernel is picked, and computes the
rules that it supports; the array path does the rest. A kernel repeats formulas of ``rules/`` only
because it is measured faster; it checks its input in the same pass, and tests compare it with the
array path.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, cast

from scorewise._inputs import RawPredictions
from scorewise.kernels._kernel import Extras, Kernel, State, Usability

__all__ = ["KERNELS", "Extras", "Kernel", "State", "Usability", "pick", "usability"]

KERNELS: dict[str, Kernel] = {
    module.name: cast(Kernel, importlib.import_module(f"{__name__}.{module.name}"))
    for module in pkgutil.iter_modules(__path__)
    if not module.name.startswith("_")
}


def usability(raw: RawPredictions, weights: Any) -> dict[str, Usability]:
    """Return whether each kernel is usable for these members, up to the first that is."""
    answers: dict[str, Usability] = {}
    for name, kernel in KERNELS.items():
        answers[name] = kernel.is_usable(raw, weights)
        if answers[name]:
            break
    return answers


def pick(raw: RawPredictions, weights: Any) -> Kernel | None:
    """Return the first usable kernel, or None for the array path."""
    for kernel in KERNELS.values():
        if kernel.is_usable(raw, weights):
            return kernel
    return None
