"""Member weights: of the right shape, not negative, not all 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise._array import (
    Array,
    Namespace,
    as_dtype_of,
    is_array,
    is_dask,
    namespace,
    on_device_of,
    to_numpy,
    widest,
)
from scorewise._validate._kinds import real
from scorewise._validate._places import Layout, first_false, own_axes
from scorewise.errors import InvalidInput


def _numbers(xp: Namespace, values: Any, like: Array, name: str) -> Array:
    """Weights in float64, on the device of ``like``, from whatever holds numbers."""
    return widest(xp, real(values, name, lambda x: on_device_of(xp, x, like)))


def weights(w: Any, members: Array) -> Array:
    """Weights ``(M,)`` or ``(..., M)`` of members ``(..., M, K)`` in float64.

    Only their shape is looked at. What is not of the members' own library stays on the host, as
    JAX may have no float64.
    """
    xp = namespace(members)
    if is_dask(members) or (is_array(w) and namespace(w) is xp):
        w = _numbers(xp, w, members, "weights")
    else:
        w = real(w, "weights", to_numpy).astype(np.float64)
    m_shape = tuple(members.shape[-2:-1])
    if tuple(w.shape) not in {m_shape, tuple(members.shape[:-1])}:
        raise InvalidInput(
            f"weights have shape {tuple(w.shape)}; with {m_shape[0]} members they must be "
            f"{m_shape} or {tuple(members.shape[:-1])}"
        )
    return w


def shares(w: Any, members: Array, layout: Layout, *, check: bool) -> Array:
    """The weights of members so laid out, as shares that sum to 1."""
    w = weights(w, members)
    xp, own = namespace(w), namespace(members)
    where = own_axes(w, "weights", layout.origin if w.ndim > 1 else ())
    top = xp.max(w, axis=-1, keepdims=True)
    if check:
        index = first_false((w >= 0) & (w < float("inf")))
        if index is not None:
            raise InvalidInput(
                f"{where.place(index)} is {float(w[index])}; weights must be finite and not "
                "negative",
                index=where.absolute(index) if w.ndim > 1 else None,
            )
        index = first_false(top[..., 0] > 0)
        if index is not None:
            raise InvalidInput(
                f"{where.place(index)} sums to 0; at least one member needs a positive weight",
                index=where.absolute(index) if w.ndim > 1 else None,
            )
    w = w / top
    w = w / xp.sum(w, axis=-1, keepdims=True)
    return xp.astype(w, members.dtype) if own is xp else as_dtype_of(own, w, members)


def member_weight(xp: Namespace, weight: Any, theta: Array, *, check: bool) -> Array:
    """The weight of one member ``(..., K)`` in every instance ``(...)``."""
    w = _numbers(xp, weight, theta, "weight")
    shape = tuple(theta.shape[:-1])
    if w.ndim and tuple(w.shape) != shape:
        raise InvalidInput(f"weight has shape {tuple(w.shape)}; it must be a number or {shape}")
    index = first_false((w >= 0) & (w < float("inf"))) if check else None
    if index is not None:
        place = own_axes(w, "weight").place(index)
        raise InvalidInput(f"{place} is {float(w[index])}; weights must be finite, not negative")
    return w * xp.ones_like(widest(xp, theta[..., 0]))


def some_weight(total: Array) -> None:
    """Every instance has a member with a positive weight, and their sum is finite."""
    index = first_false(total < float("inf"))
    if index is not None:
        raise InvalidInput(f"the weights of instance {list(index)} sum to infinity; scale them")
    index = first_false(total > 0)
    if index is not None:
        raise InvalidInput(
            f"the members of instance {list(index)} all have weight 0; at least one needs more"
        )


_COMPANY = "unbiased and standard_errors compare members, and need at least two with weight"


def several(n_members: int) -> None:
    """There is more than one member."""
    if n_members < 2:
        raise InvalidInput(f"{_COMPANY}; there is only one member")


def company(shares: Array | None, members: Layout) -> None:
    """At least two members of every instance have weight."""
    if shares is None:
        return
    xp = namespace(shares)
    index = first_false(xp.sum(xp.astype(shares > 0, shares.dtype), axis=-1) > 1)
    if index is not None:
        heavy = int(xp.argmax(shares[(*index, ...)]))
        place = f" of instance {list(members.absolute(index))}" if index else ""
        raise InvalidInput(f"{_COMPANY}; member {heavy}{place} has all of it")
