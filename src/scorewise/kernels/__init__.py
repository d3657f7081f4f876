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

import numpy as np

from scorewise._array import Array, is_compiled
from scorewise._inputs import RawPredictions
from scorewise.kernels._kernel import AccumulatorState, Extras, Kernel, Usability

__all__ = [
    "KERNELS",
    "AccumulatorState",
    "Extras",
    "Kernel",
    "Usability",
    "components_by_class",
    "mean",
    "pick",
    "usability",
]

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


def mean(raw: RawPredictions, weights: Any) -> np.ndarray | None:
    """Return θ̄ ``(..., K)`` in float64 by a kernel that has ``mean``; None for the array path."""
    return cast("np.ndarray | None", _by_kernel("mean", raw, weights))


def components_by_class(raw: RawPredictions, weights: Any) -> list[Array] | None:
    """Return TU, AU and EU of each class against the rest by a kernel; None for the array path."""
    return cast("list[Array] | None", _by_kernel("components_by_class", raw, weights))


def _by_kernel(name: str, raw: RawPredictions, weights: Any) -> Any:
    kernel = None if is_compiled(raw.values) else pick(raw, weights)
    function = getattr(kernel, name, None)
    if function is None:
        return None
    raw.check_logits()
    return function(raw, weights)
