"""Checks of arguments.

A message says what is wrong, where (the first wrong index, in the caller's own axes) and what to
do; advice to pass an argument is a :class:`scorewise.errors.Remedy`. No check changes a value:
wrong input raises and is never repaired silently.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from numbers import Integral, Real
from types import FrameType
from typing import Any, TypeVar, cast

import numpy as np

from scorewise._array import (
    Array,
    Namespace,
    as_dtype_of,
    blocks,
    distance_and_least,
    dtype_name,
    ignoring_errors,
    is_array,
    is_compiled,
    is_dask,
    is_sparse,
    is_torch,
    is_traced,
    leave_graph,
    namespace,
    on_device_of,
    to_float64,
    to_numpy,
    working_precision,
)
from scorewise._text import did_you_mean, quoted
from scorewise.errors import InvalidInput, Remedy, ScorewiseWarning

Function = TypeVar("Function", bound=Callable[..., Any])

# How far a row's sum may be from 1, by the precision the row was stored in.
SUM_TOLERANCE = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-4, "float64": 1e-6}

_FROM_LOGITS = Remedy("from_logits", True, "if these are logits")
_NORMALIZE = Remedy("normalize", True, "to rescale rows")


# -- numbers and arrays ---------------------------------------------------------------------------


def real(values: Any, name: str, convert: Callable[[Any], Array]) -> Array:
    """Return an array of real numbers; a mask, a sparse layout or an imaginary part raises."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(
            f"{name} is a masked array, and masks are not supported; drop the masked entries or "
            "fill them: logits of -inf mask classes, weights of 0 mask members"
        )
    if is_sparse(values):
        raise InvalidInput(f"{name} is sparse; call .to_dense() (torch) or .toarray() (SciPy)")
    try:
        x = convert(values)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InvalidInput(f"{name} is not a rectangular array of numbers: {error}") from error
    kind = dtype_name(x)
    if not kind.startswith(("float", "bfloat", "int", "uint", "bool")):
        raise InvalidInput(f"{name} has dtype {kind}; it must hold real numbers")
    return x


def floating(x: Any, name: str) -> Array:
    """Return ``x`` as an array of floating-point numbers; lists become NumPy arrays."""
    is_plain = type(x) is np.ndarray or (is_torch(x) and not is_sparse(x))
    if is_plain and dtype_name(x) in SUM_TOLERANCE:
        return x  # as most are

    def plain(x: Any) -> Array:
        if isinstance(x, list | tuple) and x and all(is_array(part) for part in x):
            return namespace(*x).stack(list(x))  # a list of arrays of any library
        # memory maps, matrices and other subclasses become plain arrays
        return x if is_array(x) and not isinstance(x, np.ndarray) else np.asarray(x)

    x = real(x, name, plain)
    kind = dtype_name(x)
    if kind not in SUM_TOLERANCE:
        raise InvalidInput(
            f"{name} has dtype {kind}; use float16, bfloat16, float32 or float64, and convert "
            "other dtypes explicitly"
        )
    return x


def known_chunks(x: Array, name: str) -> None:
    """Raise for a Dask array that does not know how long its chunks are."""
    if is_dask(x) and any(math.isnan(n) for n in x.shape):
        raise InvalidInput(
            f"{name} is a Dask array of unknown chunk sizes, {x.shape}, as boolean indexing and "
            f"data frames make them; call {name}.compute_chunk_sizes() first"
        )


def whole(value: Any, name: str, at_least: int) -> int:
    """Return a whole number that is at least ``at_least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < at_least:
        raise InvalidInput(f"{name} must be a whole number from {at_least} on, not {quoted(value)}")
    return int(value)


def number(value: Any, name: str) -> float:
    """Return a finite real number."""
    try:
        if isinstance(value, Real) and not isinstance(value, bool) and abs(float(value)) < math.inf:
            return float(value)
    except OverflowError:
        pass
    raise InvalidInput(f"{name} must be a finite number, not {quoted(value)}")


def proportion(value: Any, name: str) -> float:
    """Return a number above 0 and below 1."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise InvalidInput(f"{name} must be above 0 and below 1, not {quoted(value)}")
    return float(value)


def floor(value: Any, n_classes: int) -> float:
    """Return a lower bound of probabilities that n_classes classes can all have."""
    if not 0 < number(value, "floor") < 1 / n_classes:
        raise InvalidInput(
            f"floor is {value}; it must be above 0 and below 1/{n_classes}, as there are "
            f"{n_classes} classes"
        )
    return float(value)


def choice(
    value: Any, name: str, known: Iterable[str], aliases: Mapping[str, str] | None = None
) -> str:
    """Return the value if it is one of the known strings, or the string that it is an alias of.

    Aliases are in lower case, with hyphens between words; values may then be written otherwise.
    """
    words, aliases = tuple(known), aliases or {}
    if isinstance(value, str):
        plain = "-".join(value.lower().replace("_", " ").split()) if aliases else str(value)
        word = aliases.get(plain, plain)
        if word in words:
            return word
    problem = f"{name} must be one of {', '.join(map(repr, words))}, not {quoted(value)}"
    hint = did_you_mean(value, (*words, *aliases)).strip()
    raise InvalidInput("; ".join(filter(None, (problem, hint))))


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs for the second time, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def read_only_array(values: Any, name: str, ndim: int) -> np.ndarray:
    """Return a read-only float64 copy of a rule's array parameter, of rank ``ndim``.

    Finite numbers beyond 1e30 would overflow float32 once they are multiplied.
    """
    array = np.array(real(values, name, to_numpy), dtype=np.float64)
    if array.ndim != ndim:
        raise InvalidInput(f"{name} has {array.ndim} dimensions and needs {ndim}")
    fits = np.abs(array) <= 1e30
    if not fits.all():
        index = tuple(int(i) for i in np.argwhere(~fits)[0])
        raise InvalidInput(
            f"{name}{list(index)} is {array[index]}; it must be finite, and at most 1e30 in size"
        )
    array += 0.0  # -0.0 is 0, also when rules are compared by their bytes
    array.flags.writeable = False
    return array


def same_library(q: Array, p: Array) -> Namespace:
    """Return the namespace of the array library that two arrays share."""
    try:
        return namespace(q, p)
    except TypeError:
        raise InvalidInput(
            f"the two arrays are of different libraries, {type(q).__module__} and "
            f"{type(p).__module__}; convert one of them (lists count as NumPy)"
        ) from None


# -- indices in the caller's array ----------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Where members and classes are in the caller's array, to move them and to name an index.

    ``order`` lists the caller's axes in the canonical order: instances, then members, then classes.
    ``origin`` is the first instance of a block of the caller's array, in the canonical order.
    """

    order: tuple[int, ...]
    name: str
    origin: tuple[int, ...] = ()

    def canonical(self, x: Array) -> Array:
        """Return a view with members and classes last."""
        if self.order == tuple(range(x.ndim)):
            return x
        return namespace(x).permute_dims(x, self.order)

    def absolute(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return a canonical index, counted from the start of the whole array."""
        starts = chain(self.origin, repeat(0))
        return tuple(start + i for i, start in zip(index, starts, strict=False))

    def place(self, index: Sequence[int]) -> str:
        """Return the name of a canonical index in the caller's axes, such as ``probs[:, 3]``."""
        entries = [":"] * len(self.order)
        for axis, i in zip(self.order, self.absolute(index), strict=False):
            entries[axis] = str(i)
        while entries and entries[-1] == ":":
            entries.pop()
        return f"{self.name}[{', '.join(entries)}]" if entries else self.name


def _own_axes(x: Array, name: str, origin: tuple[int, ...] = ()) -> Layout:
    """The layout of an array whose axes stay where they are."""
    return Layout(tuple(range(x.ndim)), name, origin)


CHECKS_VALUES = (
    "scorewise checks values, which a single graph cannot; pass check=False (labels, and weights "
    "for the jackknife, are always checked)"
)


def _first_false(ok: Array) -> tuple[int, ...] | None:
    """The first index at which ``ok`` is false; None if there is none, or under tracing."""
    if is_compiled(ok):
        leave_graph(CHECKS_VALUES)
    if is_traced(ok) or bool(namespace(ok).all(ok)):
        return None
    flags = to_numpy(ok)
    return tuple(int(i) for i in np.unravel_index(int(np.argmin(flags)), flags.shape))


def _axis(axis: Any, ndim: int, label: str, name: str) -> int:
    """Return an axis of an array, counted from the front."""
    if not isinstance(axis, int | Integral) or not -ndim <= int(axis) < ndim:
        raise InvalidInput(
            f"{label}={quoted(axis)} is not an axis of {name}, which has {ndim} dimensions"
        )
    return int(axis) % ndim


def layout_of_members(ndim: int, member_axis: int, class_axis: int, name: str) -> Layout:
    """Return the layout of members, whose two axes may be anywhere."""
    if ndim < 2:
        raise InvalidInput(
            f"{name} has {ndim} dimension{'s' * (ndim != 1)}; it needs at least a member axis and "
            "a class axis, as in (..., M, K); for probabilities of class 1 see scorewise.binary"
        )
    if (member_axis, class_axis) == (-2, -1):
        return Layout(tuple(range(ndim)), name)
    axes = (
        _axis(member_axis, ndim, "member_axis", name),
        _axis(class_axis, ndim, "class_axis", name),
    )
    if axes[0] == axes[1]:
        raise InvalidInput(f"member_axis={member_axis} and class_axis={class_axis} are the same")
    rest = [axis for axis in range(ndim) if axis not in axes]
    return Layout((*rest, *axes), name)


def layout_of_member(ndim: int, class_axis: int, name: str) -> Layout:
    """Return the layout of a single member's predictions, whose class axis may be anywhere."""
    last = _axis(class_axis, ndim, "class_axis", name)
    return Layout((*(axis for axis in range(ndim) if axis != last), last), name)


# -- predictions ----------------------------------------------------------------------------------


def member_count(shape: Sequence[int]) -> None:
    """Raise unless there is a member along the axis before the last."""
    if shape[-2] == 0:
        raise InvalidInput(f"there are no members: the shape (..., M, K) is {tuple(shape)}")


def class_count(shape: Sequence[int], name: str) -> None:
    """Raise unless there are at least two classes along the last axis."""
    if not shape or shape[-1] < 2:
        raise InvalidInput(
            f"{name} has {shape[-1] if shape else 0} class(es) along its class axis and needs at "
            "least 2; two classes have two probabilities, 1 - p and p",
            Remedy("probs", ..., "made by scorewise.binary from the probabilities of class 1"),
        )


def _first_entry(row: np.ndarray, wrong: np.ndarray) -> tuple[int, float]:
    k = int(np.argmax(wrong))
    return k, float(row[k])


def probabilities(
    xp: Namespace, p: Array, sums: Array, layout: Layout, tolerance: float
) -> tuple[float | None, float]:
    """Raise for NaN, infinities, negative entries and rows that do not sum to 1.

    ``sums`` are those of the rows. Return what distance_and_least does.
    """
    off, least = distance_and_least(xp, sums, p)
    if off is not None and off <= tolerance and least >= 0:
        return off, least
    with ignoring_errors(p):  # now find out where
        ok = (xp.abs(sums - 1) <= tolerance) & (xp.min(p, axis=-1) >= 0)
    _raise_for_row(p, _first_false(ok), layout, must_sum_to_one=True)
    return off, least


def unnormalized(xp: Namespace, p: Array, layout: Layout) -> None:
    """Raise for rows that cannot be normalised: NaN, infinities, negative entries, all zeros."""
    with ignoring_errors(p):
        total = xp.sum(p, axis=-1)
        ok = (total > 0) & (total < float("inf")) & (xp.min(p, axis=-1) >= 0)
    _raise_for_row(p, _first_false(ok), layout, must_sum_to_one=False)


def _raise_for_row(
    p: Array, index: tuple[int, ...] | None, layout: Layout, *, must_sum_to_one: bool
) -> None:
    """Raise the error that describes the row at an index; do nothing for None."""
    if index is None:
        return
    row = to_numpy(p[(*index, ...)]).astype(np.float64)
    if not np.isfinite(row).all():
        k, value = _first_entry(row, ~np.isfinite(row))
        raise InvalidInput(
            f"{layout.place((*index, k))} is {value}; probabilities must be finite: "
            "drop such rows, or fix the model that made them",
            index=layout.absolute((*index, k)),
        )
    if (row < 0).any():
        k, value = _first_entry(row, row < 0)
        raise InvalidInput(
            f"{layout.place((*index, k))} is {value:.6g}, and a probability cannot be negative",
            _FROM_LOGITS,
            index=layout.absolute((*index, k)),
        )
    with np.errstate(over="ignore"):
        total = row.sum()
    if must_sum_to_one:
        raise InvalidInput(
            f"{layout.place(index)} sums to {total:.9g}, not 1",
            _NORMALIZE,
            _FROM_LOGITS,
            index=layout.absolute(index),
        )
    raise InvalidInput(
        f"{layout.place(index)} sums to {total:.6g} and cannot be normalised",
        index=layout.absolute(index),
    )


def logits(xp: Namespace, z: Array, layout: Layout) -> None:
    """Raise for NaN, +inf and rows in which every class is masked by -inf."""
    top = xp.max(z, axis=-1)
    index = _first_false((top < float("inf")) & (top > -float("inf")))
    if index is None:
        return
    row = to_numpy(z[(*index, ...)]).astype(np.float64)
    if np.isneginf(row).all():
        raise InvalidInput(
            f"{layout.place(index)} is -inf for every class; at least one class must be possible",
            index=layout.absolute(index),
        )
    k, value = _first_entry(row, np.isnan(row) | np.isposinf(row))
    raise InvalidInput(
        f"{layout.place((*index, k))} is {value}; logits may be -inf (a masked class) but not "
        "NaN or +inf",
        index=layout.absolute((*index, k)),
    )


def not_probabilities(xp: Namespace, z: Array, tolerance: float) -> None:
    """Raise if every row of logits is a probability distribution; most calls read one row."""
    if is_traced(z) or is_compiled(z) or is_dask(z) or 0 in z.shape:
        return

    def all_sum_to_one(rows: Array) -> bool:
        if not xp.min(rows) >= 0:
            return False
        with ignoring_errors(rows):
            return bool(xp.all(xp.abs(xp.sum(rows, axis=-1) - 1) <= tolerance))

    first_row = z[(*(0,) * (z.ndim - 1), ...)]
    if not all_sum_to_one(working_precision(xp, first_row)):
        return
    if all(all_sum_to_one(working_precision(xp, z[block])) for block in blocks(z, 0)):
        raise InvalidInput(
            "every row of logits sums to 1 and has no negative entry, so these are probabilities, "
            "and a softmax would change them",
            Remedy("from_logits", False),
            Remedy("check", False, "if they are logits"),
        )


def concentrations(alpha: Array) -> None:
    """Raise for Dirichlet parameters that are not positive, or whose products would overflow."""
    ok = (alpha > 0) & (alpha < float("inf"))
    if dtype_name(alpha) == "float64":
        ok = ok & (alpha >= 1e-100) & (alpha <= 1e100)
    index = _first_false(ok)
    if index is not None:
        place = _own_axes(alpha, "alpha").place(index)
        raise InvalidInput(
            f"{place} is {float(alpha[index])}; Dirichlet parameters must be positive, "
            "from 1e-100 to 1e100 (evidence e is alpha = e + 1)"
        )


def unit_interval(xp: Namespace, p: Array, name: str) -> None:
    """Raise for numbers that are not from 0 to 1."""
    index = _first_false((p >= 0) & (p <= 1))
    if index is not None:
        place = _own_axes(p, name).place(index)
        raise InvalidInput(f"{place} is {float(p[index])}; a probability is between 0 and 1")


def same_instances(q: Array, p: Array) -> None:
    """Raise unless two arrays ``(..., K)`` have the same instances, or one is a single instance."""
    if q.shape[-1] != p.shape[-1]:
        raise InvalidInput(f"the prediction has {q.shape[-1]} classes, the truth {p.shape[-1]}")
    try:
        np.broadcast_shapes(tuple(q.shape), tuple(p.shape))
    except ValueError:
        raise InvalidInput(
            f"the prediction has shape {tuple(q.shape)}, the truth {tuple(p.shape)}; they must be "
            "of the same instances, or one of them of a single instance"
        ) from None


def same_classes(n_classes: int, expected: int, subject: object) -> None:
    """Raise unless the predictions have as many classes as the rule was made for."""
    if n_classes != expected:
        raise InvalidInput(
            f"{subject} is for {expected} classes, but the predictions have {n_classes}"
        )


# -- member weights -------------------------------------------------------------------------------


def _numbers(xp: Namespace, values: Any, like: Array, name: str) -> Array:
    """Return weights in float64, on the device of ``like``, from any array or list."""
    return to_float64(xp, real(values, name, lambda x: on_device_of(xp, x, like)))


def weights(w: Any, members: Array) -> Array:
    """Return weights ``(M,)`` or ``(..., M)`` of members ``(..., M, K)`` in float64.

    Only their shape is checked. Weights of another library than the members' stay on the host, as
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


def checked_weights(w: Any, members: Array, layout: Layout, *, check: bool) -> Array:
    """Return the weights of members in float64; those of an instance may all be 0."""
    w = weights(w, members)
    index = _first_false((w >= 0) & (w < float("inf"))) if check else None
    if index is not None:
        where = _layout_of_weights(w, members, layout)
        raise InvalidInput(
            f"{where.place(index)} is {float(w[index])}; weights must be finite and not negative",
            index=where.absolute(index) if w.ndim > 1 else None,
        )
    return w


def _layout_of_weights(w: Array, members: Array, layout: Layout) -> Layout:
    """Return where weights ``(M,)`` or ``(..., M)`` are in the caller's array."""
    origin = layout.origin if w.ndim > 1 else layout.origin[members.ndim - 2 :]
    return _own_axes(w, "weights", origin)


def normalized_weights(w: Any, members: Array, layout: Layout, *, check: bool) -> Array:
    """Return the weights of members, scaled to sum to 1."""
    w = checked_weights(w, members, layout, check=check)
    xp, members_xp = namespace(w), namespace(members)
    top = xp.max(w, axis=-1, keepdims=True)
    if check:
        where = _layout_of_weights(w, members, layout)
        index = _first_false(top[..., 0] > 0)
        if index is not None:
            raise InvalidInput(
                f"{where.place(index)} sums to 0; at least one member needs a positive weight",
                index=where.absolute(index) if w.ndim > 1 else None,
            )
    w = w / top
    w = w / xp.sum(w, axis=-1, keepdims=True)
    if members_xp is xp:
        return xp.astype(w, members.dtype)
    return as_dtype_of(members_xp, w, members)


def member_weight(xp: Namespace, weight: Any, theta: Array, *, check: bool) -> Array:
    """Return the weight of a single member ``(..., K)`` in every instance, ``(...)``."""
    w = _numbers(xp, weight, theta, "weight")
    _check_member_weight(w, tuple(theta.shape[:-1]), check=check)
    return w * xp.ones_like(to_float64(xp, theta[..., 0]))


def member_weight_on_host(weight: Any, shape: tuple[int, ...], *, check: bool) -> np.ndarray:
    """Return the weight of a single member of instances ``(...)``: one number, or one for each."""
    w = np.asarray(real(weight, "weight", to_numpy))
    w = np.ascontiguousarray(w).reshape(w.shape) if w.dtype.kind == "f" else w.astype(np.float64)
    is_valid = w.size == 0 or (w.min() >= 0 and w.max() < np.inf)  # without arrays of its size
    _check_member_weight(w, shape, check=check and not is_valid)
    return w


def _check_member_weight(w: Array, shape: tuple[int, ...], *, check: bool) -> None:
    if w.ndim and tuple(w.shape) != shape:
        raise InvalidInput(f"weight has shape {tuple(w.shape)}; it must be a number or {shape}")
    index = _first_false((w >= 0) & (w < float("inf"))) if check else None
    if index is not None:
        place = _own_axes(w, "weight").place(index)
        raise InvalidInput(f"{place} is {float(w[index])}; weights must be finite, not negative")


def require_positive_weight(total: Array, origin: tuple[int, ...] = ()) -> None:
    """Raise unless the weights of every instance's members sum to a positive finite number.

    ``origin`` is the first of these instances in the whole array.
    """
    where = _own_axes(total, "weights", origin)
    index = _first_false(total < float("inf"))
    if index is not None:
        instance = list(where.absolute(index))
        raise InvalidInput(f"the weights of instance {instance} sum to infinity; scale them")
    index = _first_false(total > 0)
    if index is not None:
        raise InvalidInput(
            f"the members of instance {list(where.absolute(index))} all have weight 0; give at "
            "least one of them a positive weight"
        )


_NEED_TWO = "unbiased and standard_errors compare members, and need at least two with weight"


def require_two_members(n_members: int) -> None:
    """Raise if there is only one member."""
    if n_members < 2:
        raise InvalidInput(f"{_NEED_TWO}; there is only one member")


def require_two_weighted_members(weights: Array | None, layout: Layout) -> None:
    """Raise if fewer than two members of an instance have weight."""
    if weights is None:
        return
    xp = namespace(weights)
    index = _first_false(xp.sum(xp.astype(weights > 0, weights.dtype), axis=-1) > 1)
    if index is not None:
        heavy = int(xp.argmax(weights[(*index, ...)]))
        place = f" of instance {list(layout.absolute(index))}" if index else ""
        raise InvalidInput(f"{_NEED_TWO}; member {heavy}{place} has all the weight")


# -- labels, losses and scores --------------------------------------------------------------------


def labels(xp: Namespace, y: Any, shape: tuple[int, ...], n_classes: int, like: Array) -> Array:
    """Return class indices of this shape, each from 0 to K - 1."""
    if isinstance(y, np.ndarray) and y.dtype.kind == "u":
        y = y.astype(np.int64)  # torch cannot compare wide unsigned integers
    if _are_names(y):
        raise InvalidInput(
            f"labels must be class indices from 0 to {n_classes - 1}, not names; "
            "np.searchsorted(model.classes_, y) gives them"
        )
    y = real(y, "labels", lambda values: on_device_of(xp, values, like))
    if not xp.isdtype(y.dtype, "integral"):
        raise InvalidInput(f"labels have dtype {dtype_name(y)}; they must be integer class indices")
    if tuple(y.shape) != shape:
        raise InvalidInput(f"labels have shape {tuple(y.shape)}, the predictions {shape}")
    last = min(n_classes - 1, int(xp.iinfo(y.dtype).max))  # a number that narrow integers can hold
    index = _first_false((y >= 0) & (y <= last))
    if index is not None:
        place = _own_axes(y, "labels").place(index)
        raise InvalidInput(f"{place} is {int(y[index])}; labels must be from 0 to {n_classes - 1}")
    return y


def _are_names(y: Any) -> bool:
    first = y[0] if isinstance(y, list | tuple) and y else None
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    return isinstance(first, str) or kind in {"U", "S", "O"}


def vector(values: Any, name: str, *, may_be_empty: bool = False, first: int = 0) -> np.ndarray:
    """Return real numbers (n,), at least one, none of them NaN.

    ``first`` is the number of the first of them in the whole vector.
    """
    x = np.asarray(real(values, name, _on_host), dtype=np.float64)
    if x.ndim != 1:
        raise InvalidInput(f"{name} has {x.ndim} dimensions; it must be a vector (n,)")
    if not len(x) and not may_be_empty:
        raise InvalidInput(f"{name} is empty; it must hold at least one number")
    advice = "drop such rows, or fix their source"
    _raise_for_entry(np.isnan(x), x, name, advice, first=first)
    return x


def _on_host(values: Any) -> np.ndarray:
    if is_array(values):  # NumPy has no bfloat16
        values = working_precision(namespace(values), values)
    return to_numpy(values)


def _raise_for_entry(
    wrong: np.ndarray, x: np.ndarray, name: str, advice: str, *remedies: Remedy, first: int = 0
) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        value = f"{x[index]:.6g}" if x.dtype.kind == "f" else str(x[index])
        raise InvalidInput(f"{name}[{first + index}] is {value}; {advice}", *remedies)


def finite(values: Any, name: str) -> np.ndarray:
    """Return finite numbers (n,)."""
    x = vector(values, name)
    _raise_for_entry(np.isinf(x), x, name, "it must be finite")
    return x


def loss_vector(values: Any, name: str = "losses") -> np.ndarray:
    """Return finite losses (n,)."""
    losses = vector(values, name)
    _raise_for_entry(
        np.isinf(losses),
        losses,
        name,
        "losses must be finite",
        Remedy("floor", 1e-6, "in task_losses to set the smallest probability that counts"),
    )
    return losses


def losses_and_scores(losses: Any, scores: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return finite losses, and scores of the same rows, which may be infinite."""
    loss, score = loss_vector(losses), vector(scores, name)
    if len(loss) != len(score):
        raise InvalidInput(
            f"losses has {len(loss)} entries, {name} {len(score)}; both must be for the same rows"
        )
    return loss, score


def groups(values: Any, n: int) -> np.ndarray:
    """Return a group for each of n rows, none of them missing."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput("groups is a masked array; drop the rows that are masked")
    names = np.asarray(values)
    if names.shape != (n,):
        raise InvalidInput(
            f"groups has shape {names.shape}; it must have a group for each of {n} rows"
        )
    missing = np.array([name is None or name != name for name in names.tolist()])
    if missing.any():
        raise InvalidInput(f"groups[{int(np.argmax(missing))}] is missing; give every row a group")
    try:
        np.sort(names)
    except TypeError as error:
        raise InvalidInput(f"groups are of several types and cannot be sorted: {error}") from None
    return names


def rows(values: Any, n_rows: int, name: str) -> np.ndarray:
    """Return indices of different rows, from indices or from a mask ``(n,)``."""
    entries = np.asarray(real(values, name, _on_host))
    if entries.dtype.kind == "b":
        if entries.shape != (n_rows,):
            raise InvalidInput(f"{name} is a mask of shape {entries.shape} for {n_rows} rows")
        return np.flatnonzero(entries)
    if entries.ndim != 1 or (entries.dtype.kind not in "iu" and len(entries)):
        raise InvalidInput(
            f"{name} must be indices of rows, or a mask, not {entries.dtype} of shape "
            f"{entries.shape}"
        )
    outside = (entries < 0) | (entries >= n_rows)
    _raise_for_entry(outside, entries, name, f"there are {n_rows} rows")
    indices = entries.astype(np.int64)
    repeated = np.ones(len(indices), dtype=bool)
    repeated[np.unique(indices, return_index=True)[1]] = False
    _raise_for_entry(repeated, indices, name, "it occurs twice")
    return indices


# -- labels by name -------------------------------------------------------------------------------

_KIND_OF_ARRAY = {str: "U", int: "i", float: "f", bool: "b"}  # by the type of a label


def class_labels(values: Any, name: str, n: int | None = None) -> np.ndarray:
    """Return class labels (n,): all whole numbers, all numbers, all strings or all booleans."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(f"{name} are a masked array; drop the rows that are masked")
    try:
        array = to_numpy(values) if is_array(values) else np.asarray(values, dtype=object)
        listed = array.tolist()
    except ValueError as error:
        raise InvalidInput(f"{name} are not a list of labels: {error}") from None
    if not isinstance(listed, list):
        raise InvalidInput(f"{name} must be a list of labels, not {type(values).__name__}")
    if n is not None and len(listed) != n:
        raise InvalidInput(f"{name} are {len(listed)} labels for {n} rows")
    listed = [label.item() if isinstance(label, np.generic) else label for label in listed]
    kinds = {type(label) for label in listed}
    wrong = [
        i for i, label in enumerate(listed) if type(label) not in _KIND_OF_ARRAY or label != label
    ]
    if wrong:
        raise InvalidInput(
            f"{name}[{wrong[0]}] is {quoted(listed[wrong[0]])}; labels must be numbers, strings or "
            "booleans, none of them missing"
        )
    if len(kinds) > 1:
        types = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidInput(
            f"{name} are of several types, {types}; all labels must have the same type"
        )
    labels = np.array(listed)
    if listed and (
        labels.dtype.kind != _KIND_OF_ARRAY[type(listed[0])] or labels.tolist() != listed
    ):
        raise InvalidInput(f"{name} are too large for 64-bit integers, or end in null characters")
    return labels


def same_kind(known: np.ndarray, labels: np.ndarray, name: str) -> None:
    """Raise unless labels have the same type as the known ones: numbers, strings or booleans."""
    if len(known) and len(labels) and known.dtype.kind != labels.dtype.kind:
        raise InvalidInput(f"{name} are of dtype {labels.dtype}, the other labels {known.dtype}")


def known_labels(classes: np.ndarray, labels: np.ndarray, name: str) -> None:
    """Raise unless every label is one of the classes."""
    same_kind(classes, labels, name)
    wrong = ~np.isin(labels, classes)
    if wrong.any():
        place = int(np.argmax(wrong))
        known = np.array2string(classes, separator=", ", threshold=20)
        raise InvalidInput(f"{name}[{place}] is {labels[place]}; the classes are {known}")


# -- warnings --------------------------------------------------------------------------------------


def warn(problem: str, *remedies: Remedy) -> None:
    """Warn at the line of the user's code that called scorewise."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(ScorewiseWarning(problem, *remedies), stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name == "scorewise" or name.startswith("scorewise.")


# -- options ---------------------------------------------------------------------------------------


def known_options(
    options: Iterable[str], documented: Sequence[str], others: Collection[str] = ()
) -> None:
    """Raise if an option is none of these names, as a misspelt one is; others are not listed."""
    known = {*documented, *others}
    unknown = next((option for option in options if option not in known), None)
    if unknown is not None:
        raise InvalidInput(
            f"there is no option {quoted(unknown)}; {did_you_mean(unknown, sorted(known))}the "
            f"options are {', '.join(sorted(documented))}"
        )


def options_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of all parameters of a function but the first."""
    return tuple(inspect.signature(function).parameters)[1:]


def takes_options_of(source: Callable[..., Any]) -> Callable[[Function], Function]:
    """Decorate a function whose ``**options`` are those of another: check the names of all."""

    def decorate(function: Function) -> Function:
        own = inspect.signature(function).parameters
        documented = [name for name in options_of(source) if name not in own]

        @functools.wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            known_options(options, documented, own)
            return function(*args, **options)

        return cast(Function, checked)

    return decorate
