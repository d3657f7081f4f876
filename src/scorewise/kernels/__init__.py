"""Fused kernels: compiled code that decomposes large arrays in a single pass over memory.

Every module of this folder without an underscore is a kernel: it has ``is_usable``, ``supports``
and ``compute``, as :class:`Kernel` describes, and may have what :class:`AveragingKernel`,
:class:`DifferentiatingKernel` and :class:`AccumulatingKernel` have. The first usable kernel is
picked, and computes the rules that it supports; the array path does the rest. A kernel repeats
formulas of ``rules/`` only because it is measured faster; it checks its input in the same pass, and
tests compare it with the array path.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from scorewise._array import Array, is_compiled
from scorewise._inputs import RawPredictions
from scorewise.kernels._kernel import (
    AccumulatingKernel,
    AccumulatorState,
    AveragingKernel,
    DifferentiatingKernel,
    Extras,
    Kernel,
    Usability,
    accumulates,
    averages,
    differentiates,
)

__all__ = [
    "KERNELS",
    "AccumulatingKernel",
    "AccumulatorState",
    "AveragingKernel",
    "DifferentiatingKernel",
    "Extras",
    "Kernel",
    "Usability",
    "accumulates",
    "averages",
    "components_by_class",
    "differentiates",
    "mean",
    "pick",
    "usability",
]

KERNELS: dict[str, Kernel] = {
    module.name: cast(Kernel, importlib.import_module(f"{__name__}.{module.name}"))
    for module in pkgutil.iter_modules(__path__)
    if not module.name.startswith("_")
}
if TYPE_CHECKING:  # they are found by name, so the type checker is shown what each of them is
    from scorewise.kernels import cpu, cuda

    _averaging: AveragingKernel = cpu
    _accumulating: AccumulatingKernel = cpu
    _differentiating: DifferentiatingKernel = cuda


def usability(raw: RawPredictions, weights: Any) -> dict[str, Usability]:
    """Return whether each kernel is usable for these members, up to the first that is.

    Use it to see why a kernel is not picked; :func:`scorewise.explain_kernel` puts it in words.

    Parameters
    ----------
    raw : RawPredictions (..., M, K)
        Members as the caller passed them, such as ``samples.raw()``.
    weights : array (M,) or (..., M), or None
        Member weights as the caller passed them.

    Returns
    -------
    dict of str to Usability
        By the names in ``KERNELS``, in the same order.

    Examples
    --------
    >>> import scorewise as sw
    >>> raw = sw.Samples([[0.9, 0.1], [0.5, 0.5]]).raw()
    >>> sw.kernels.usability(raw, None)
    {'cpu': Usability(usable=True, reason='the members are in host memory')}
    """
    answers: dict[str, Usability] = {}
    for name, kernel in KERNELS.items():
        answers[name] = kernel.is_usable(raw, weights)
        if answers[name]:
            break
    return answers


def pick(raw: RawPredictions, weights: Any) -> Kernel | None:
    """Return the first usable kernel, or None for the array path.

    Parameters
    ----------
    raw : RawPredictions (..., M, K)
        Members as the caller passed them, such as ``samples.raw()``.
    weights : array (M,) or (..., M), or None
        Member weights as the caller passed them.

    Returns
    -------
    Kernel or None

    Examples
    --------
    >>> import scorewise as sw
    >>> raw = sw.Samples([[0.9, 0.1], [0.5, 0.5]]).raw()
    >>> sw.kernels.pick(raw, None) is sw.kernels.KERNELS["cpu"]
    True
    """
    for kernel in KERNELS.values():
        if kernel.is_usable(raw, weights):
            return kernel
    return None


def mean(raw: RawPredictions, weights: Any) -> np.ndarray | None:
    """Return θ̄ ``(..., K)`` in float64 by a kernel that averages; None for the array path.

    Parameters
    ----------
    raw : RawPredictions (..., M, K)
        Members as the caller passed them, such as ``samples.raw()``.
    weights : array (M,) or (..., M), or None
        Member weights as the caller passed them.

    Returns
    -------
    array (..., K) or None
        None if no usable kernel averages, or the members are invalid.

    Examples
    --------
    >>> import scorewise as sw
    >>> raw = sw.Samples([[0.9, 0.1], [0.5, 0.5]]).raw()
    >>> sw.kernels.mean(raw, None)
    array([0.7, 0.3])
    """
    kernel = _averaging_kernel(raw, weights)
    return None if kernel is None else kernel.mean(raw, weights)


def components_by_class(raw: RawPredictions, weights: Any) -> list[Array] | None:
    """Return TU, AU and EU of each class against the rest by a kernel; None for the array path.

    They are those of :func:`scorewise.label_wise`.

    Parameters
    ----------
    raw : RawPredictions (..., M, K)
        Members as the caller passed them, such as ``samples.raw()``.
    weights : array (M,) or (..., M), or None
        Member weights as the caller passed them.

    Returns
    -------
    list of three arrays (..., K), or None
        None if no usable kernel averages, or the members are invalid.

    Examples
    --------
    >>> import scorewise as sw
    >>> raw = sw.Samples([[0.9, 0.1], [0.5, 0.5]]).raw()
    >>> sw.kernels.components_by_class(raw, None)
    [array([0.21, 0.21]), array([0.17, 0.17]), array([0.04, 0.04])]
    """
    kernel = _averaging_kernel(raw, weights)
    return None if kernel is None else kernel.components_by_class(raw, weights)


def _averaging_kernel(raw: RawPredictions, weights: Any) -> AveragingKernel | None:
    """Return the first usable kernel if it averages; raises for logits that are no logits."""
    kernel = None if is_compiled(raw.values) else pick(raw, weights)
    if not averages(kernel):
        return None
    raw.check_logits()
    return kernel
