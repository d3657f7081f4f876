"""Uncertainties and losses of rows and images, from those of their labels and pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    Namespace,
    is_array,
    largest,
    namespace,
    on_device_of,
    smallest,
    to_float64,
)
from scorewise.decompose import Decomposition, Decompositions
from scorewise.errors import InvalidInput

__all__ = ["aggregate"]

_ROUNDING = 1e-9  # 0.1 of 30 pixels are 3, not 4


def aggregate(
    values: Any,
    axis: int | Sequence[int],
    how: str = "mean",
    *,
    weights: Any = None,
    where: Any = None,
    top: float | None = None,
) -> Any:
    """Return the uncertainty or loss of each row or image, from those of its labels or pixels.

    Use it to abstain from whole rows or images, and to order them. The mean over labels is the
    default: that of zero-one losses is the Hamming loss, and that of totals the Hamming loss to
    expect. The expectation of a mean is the mean of expectations, so total = aleatoric + epistemic
    holds for rows and images too, whether labels and pixels depend on each other or not.

    Parameters
    ----------
    values : array, Decomposition or Decompositions
        Of labels ``(N, L)``, of pixels ``(H, W)`` or ``(N, H, W)``, …; booleans count as 0 and 1,
        so that ``total > 0.3`` gives the share of pixels above 0.3.
    axis : int or sequence of int
        The axes of the labels or pixels: −1 for labels, ``(-2, -1)`` for pixels.
    how : "mean" or "sum"
        With ``"sum"`` a row incurs the losses of all its labels, such as costs.
    weights : array, optional
        Weights of labels or pixels, not negative, that broadcast to the values: those of
        ``(N, L)`` may be ``(L,)``. A weighted mean is divided by their sum.
    where : boolean array, optional
        Where values count, such as ``y != 255``; it broadcasts to them.
    top : float, optional
        Average only the largest values, this share of those that count (at least one), for small
        objects in large images. Not for a decomposition, whose components would not add up.

    Returns
    -------
    array, Decomposition or Decompositions
        Without these axes, in the library, dtype and on the device of the values (float64 where
        they are no floats).

    Raises
    ------
    InvalidInput
        If a value that counts is NaN, nothing counts in a row, or options do not fit.

    Examples
    --------
    >>> import scorewise as sw
    >>> probs = sw.binary([[[0.9, 0.1], [0.5, 0.5]]])  # (1, 2, 2, 2): a row of 2 labels, 2 members
    >>> sw.aggregate(sw.decompose(probs, "zero-one"), -1)
    Decomposition(
      total     = [0.5]
      aleatoric = [0.3]
      epistemic = [0.2]
    )
    >>> losses = sw.task_losses(probs, [[1, 1]], "zero-one")
    >>> sw.aggregate(losses, -1, weights=[3, 1])
    array([1.])
    """
    validate.choice(how, "how", ("mean", "sum"))
    if isinstance(values, Decompositions):
        return Decompositions(
            (name, aggregate(d, axis, how, weights=weights, where=where, top=top))
            for name, d in values.items()
        )
    if isinstance(values, Decomposition):
        if values.standard_error is not None:
            raise InvalidInput(
                "the standard error of a mean does not follow from those of its terms, which have "
                "the same members; decompose without standard_errors"
            )
        if top is not None:
            raise InvalidInput(
                "top= of a decomposition: its components have their largest values at different "
                "places, and would not add up; pass one of them, such as decomposition.total"
            )
        parts = (aggregate(x, axis, how, weights=weights, where=where) for x in values)
        return Decomposition(*parts)
    if top is not None:
        validate.proportion(top, "top")
        if how == "sum" or weights is not None:
            raise InvalidInput("top= is a mean of single values; leave out how and weights")
    x = validate.real(values, "values", lambda v: v if is_array(v) else np.asarray(v))
    xp = namespace(x)
    axes = _checked_axes(axis, x.ndim)
    w = _axes_last(xp, _checked_weights(xp, weights, where, x), axes)
    v = xp.where(w > 0, _axes_last(xp, to_float64(xp, x), axes), 0.0)
    if bool(xp.any(xp.isnan(v))):
        raise InvalidInput(
            "values have NaN, as the losses of ignored pixels; pass where= with the values that "
            "count, such as y != 255"
        )
    if top is not None:
        v, w = _largest(xp, v, w, top)
    result = xp.sum(w * v, axis=-1)
    if how == "mean":
        total_weight = xp.sum(w, axis=-1)
        if not bool(xp.all(total_weight > 0)):
            raise InvalidInput("nothing counts in a row, so it has no mean; leave such rows out")
        result = result / total_weight
    return xp.astype(result, x.dtype) if xp.isdtype(x.dtype, "real floating") else result


def _checked_axes(axis: int | Sequence[int], ndim: int) -> list[int]:
    """Return the axes from the first to the last, none negative."""
    axes = list(axis) if isinstance(axis, Sequence) else [axis]
    are_axes = all(isinstance(a, Integral) and -ndim <= a < ndim for a in axes)
    if not axes or not are_axes or len({a % ndim for a in axes}) < len(axes):
        raise InvalidInput(f"axis={axis!r} must be one or several axes of {ndim}")
    return sorted(a % ndim for a in axes)


def _axes_last(xp: Namespace, x: Array, axes: list[int]) -> Array:
    """Return the array with these axes as a single one, the last."""
    others = [a for a in range(x.ndim) if a not in axes]
    size = math.prod(x.shape[a] for a in axes)
    moved = xp.permute_dims(x, (*others, *axes))
    return xp.reshape(moved, (*(x.shape[a] for a in others), size))


def _checked_weights(xp: Namespace, weights: Any, where: Any, like: Array) -> Array:
    """Return the weight of each value in float64, 0 where it does not count."""
    w = xp.ones_like(to_float64(xp, like))
    if weights is not None:
        w = to_float64(xp, _broadcast(xp, weights, like, "weights"))
        if smallest(xp, w) < 0 or not math.isfinite(largest(xp, w)):
            raise InvalidInput("weights must be finite and not negative")
    if where is None:
        return w
    counts = _broadcast(xp, where, like, "where")
    if not xp.isdtype(counts.dtype, "bool"):
        raise InvalidInput("where must be a boolean array, such as y != 255")
    return xp.where(counts, w, 0.0)


def _broadcast(xp: Namespace, values: Any, like: Array, name: str) -> Array:
    """Return an array of the shape, library and device of ``like``, in its own dtype."""
    array = on_device_of(xp, values, like)
    try:
        return xp.broadcast_to(array, like.shape)
    except (ValueError, RuntimeError):
        raise InvalidInput(
            f"{name} has shape {tuple(array.shape)}, which does not broadcast to that of the "
            f"values, {tuple(like.shape)}"
        ) from None


def _largest(xp: Namespace, v: Array, w: Array, top: float) -> tuple[Array, Array]:
    """Return the values from the largest on, and weights of 1 for this share of them."""
    n = xp.sum(w, axis=-1, keepdims=True)
    n_largest = xp.minimum(n, xp.maximum(xp.ceil(top * n - _ROUNDING), xp.ones_like(n)))
    ranked = xp.sort(xp.where(w > 0, v, -math.inf), axis=-1, descending=True)
    is_largest = on_device_of(xp, np.arange(v.shape[-1]), v) < n_largest
    return xp.where(is_largest, ranked, 0.0), xp.astype(is_largest, v.dtype)
