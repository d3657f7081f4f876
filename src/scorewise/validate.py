"""Every check of an argument, once, at the door.

A message says what is wrong, where (the first offending index, in the caller's own axes) and what
to do. Nothing here changes a value: what is wrong is refused, never mended in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from numbers import Integral
from typing import Any

import numpy as np

from scorewise._array import (
    Array,
    Namespace,
    dtype_name,
    is_array,
    is_sparse,
    is_traced,
    namespace,
    on_device_of,
    to_numpy,
    widest,
)
from scorewise.errors import InvalidInput

# How far a row's sum may be from 1, by the precision the row was stored in.
SUM_TOLERANCE = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-4, "float64": 1e-6}


@dataclass(frozen=True)
class Layout:
    """Where members and classes sit in the caller's array, to move them and to name a place.

    ``order`` lists the caller's axes in the canonical order: instances, then members, then classes.
    ``origin`` is the first instance of a block of the caller's array, in the canonical order.
    """

    order: tuple[int, ...]
    name: str
    origin: tuple[int, ...] = ()

    def canonical(self, xp: Namespace, x: Array) -> Array:
        """A view with members and classes last."""
        return x if self.order == tuple(range(x.ndim)) else xp.permute_dims(x, self.order)

    def absolute(self, index: Sequence[int]) -> list[int]:
        """A canonical index, counted from the start of the whole array."""
        starts = chain(self.origin, repeat(0))
        return [start + i for i, start in zip(index, starts, strict=False)]

    def place(self, index: Sequence[int]) -> str:
        """The caller's own index of a canonical one; missing trailing axes are whole."""
        entries = [":"] * len(self.order)
        for axis, i in zip(self.order, self.absolute(index), strict=False):
            entries[axis] = str(i)
        while entries and entries[-1] == ":":
            entries.pop()
        return f"{self.name}[{', '.join(entries)}]" if entries else self.name


def _own_axes(x: Array, name: str, origin: tuple[int, ...] = ()) -> Layout:
    return Layout(tuple(range(x.ndim)), name, origin)


def real(values: Any, name: str, convert: Callable[[Any], Array]) -> Array:
    """An array of real numbers; masks, gaps and imaginary parts would be lost, so are refused."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(
            f"{name} is a masked array, and a mask cannot be honoured here; drop what is masked, "
            "or fill it: logits of -inf mask classes (from_logits=True), weights of 0 members"
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
    """``x`` as an array of floating-point numbers; lists become NumPy arrays."""

    def plain(x: Any) -> Array:  # also of a memory map, a matrix and the like
        return x if is_array(x) and not isinstance(x, np.ndarray) else np.asarray(x)

    x = real(x, name, plain)
    kind = dtype_name(x)
    if kind not in SUM_TOLERANCE:
        raise InvalidInput(
            f"{name} has dtype {kind}; use float16, bfloat16, float32 or float64, and convert "
            "other numbers on purpose"
        )
    return x


def whole(value: Any, name: str, at_least: int) -> int:
    """A whole number from ``at_least`` on."""
    if not isinstance(value, Integral) or int(value) < at_least:
        raise InvalidInput(f"{name} must be a whole number from {at_least} on, not {value!r}")
    return int(value)


def _axis(axis: Any, ndim: int, label: str, name: str) -> int:
    """An axis of an array, counted from the front."""
    if not isinstance(axis, Integral) or not -ndim <= int(axis) < ndim:
        raise InvalidInput(f"{label}={axis!r} is no axis of {name}, which has {ndim} dimensions")
    return int(axis) % ndim


def layout(ndim: int, member_axis: int, class_axis: int, name: str) -> Layout:
    """Check the two axes and say how to bring them to the end."""
    if ndim < 2:
        raise InvalidInput(
            f"{name} has {ndim} dimension{'s' * (ndim != 1)}; it needs at least a member axis and "
            "a class axis, as in (..., M, K); for probabilities of class 1 see scorewise.binary"
        )
    axes = (
        _axis(member_axis, ndim, "member_axis", name),
        _axis(class_axis, ndim, "class_axis", name),
    )
    if axes[0] == axes[1]:
        raise InvalidInput(f"member_axis={member_axis} and class_axis={class_axis} are the same")
    rest = [axis for axis in range(ndim) if axis not in axes]
    return Layout((*rest, *axes), name)


def moved_classes(ndim: int, class_axis: int, name: str) -> Layout:
    """The layout of one member's predictions, class axis anywhere."""
    last = _axis(class_axis, ndim, "class_axis", name)
    return Layout((*(axis for axis in range(ndim) if axis != last), last), name)


def member_count(shape: Sequence[int]) -> None:
    """At least one member along the axis before the last."""
    if shape[-2] == 0:
        raise InvalidInput(f"there are no members: the shape (..., M, K) is {tuple(shape)}")


def class_count(shape: Sequence[int], name: str) -> None:
    """At least two classes along the last axis."""
    if not shape or shape[-1] < 2:
        raise InvalidInput(
            f"{name} has {shape[-1] if shape else 0} class(es) along its class axis and needs at "
            "least 2; for probabilities of class 1 see scorewise.binary"
        )


def _first(ok: Array) -> tuple[int, ...] | None:
    """The first index at which ``ok`` is false; None when nowhere, or when tracing."""
    if is_traced(ok) or bool(namespace(ok).all(ok)):
        return None
    flags = to_numpy(ok)
    return tuple(int(i) for i in np.unravel_index(int(np.argmin(flags)), flags.shape))


def _entry(row: np.ndarray, wrong: np.ndarray) -> tuple[int, float]:
    k = int(np.argmax(wrong))
    return k, float(row[k])


def probabilities(xp: Namespace, p: Array, where: Layout, tolerance: float) -> None:
    """Refuse NaN, infinities, negative entries and rows that do not sum to 1."""
    with np.errstate(all="ignore"):
        ok = (xp.abs(xp.sum(p, axis=-1) - 1) <= tolerance) & (xp.min(p, axis=-1) >= 0)
    _raise_for_row(p, _first(ok), where, must_sum_to_one=True)


def masses(xp: Namespace, p: Array, where: Layout) -> None:
    """Refuse what cannot be normalised: NaN, infinities, negative entries, rows of zeros."""
    with np.errstate(all="ignore"):
        total = xp.sum(p, axis=-1)
        ok = (total > 0) & (total < float("inf")) & (xp.min(p, axis=-1) >= 0)
    _raise_for_row(p, _first(ok), where, must_sum_to_one=False)


def _raise_for_row(
    p: Array, index: tuple[int, ...] | None, where: Layout, *, must_sum_to_one: bool
) -> None:
    if index is None:
        return
    row = to_numpy(p[(*index, ...)]).astype(np.float64)
    if not np.isfinite(row).all():
        k, value = _entry(row, ~np.isfinite(row))
        raise InvalidInput(
            f"{where.place((*index, k))} is {value}; probabilities must be finite: "
            "drop such rows, or mend the model that made them"
        )
    if (row < 0).any():
        k, value = _entry(row, row < 0)
        raise InvalidInput(
            f"{where.place((*index, k))} is {value:.6g}, and a probability cannot be negative; "
            "pass from_logits=True if these are logits"
        )
    with np.errstate(over="ignore"):
        total = row.sum()
    if must_sum_to_one:
        raise InvalidInput(
            f"{where.place(index)} sums to {total:.9g}, not 1; pass normalize=True to rescale "
            "rows, or from_logits=True if these are logits"
        )
    raise InvalidInput(f"{where.place(index)} sums to {total:.6g} and cannot be normalised")


def logits(xp: Namespace, z: Array, where: Layout) -> None:
    """Refuse NaN, +inf and rows in which every class is masked by -inf."""
    top = xp.max(z, axis=-1)
    index = _first((top < float("inf")) & (top > -float("inf")))
    if index is None:
        return
    row = to_numpy(z[(*index, ...)]).astype(np.float64)
    if np.isneginf(row).all():
        raise InvalidInput(
            f"{where.place(index)} is -inf for every class; at least one class must be possible"
        )
    k, value = _entry(row, np.isnan(row) | np.isposinf(row))
    raise InvalidInput(
        f"{where.place((*index, k))} is {value}; logits may be -inf (a masked class) but not "
        "NaN or +inf"
    )


def _numbers(xp: Namespace, values: Any, like: Array, name: str) -> Array:
    """Weights in float64, on the device of ``like``, from whatever holds numbers."""
    return widest(xp, real(values, name, lambda x: on_device_of(xp, x, like)))


def same_library(q: Array, p: Array) -> Namespace:
    """The namespace that two arrays share."""
    try:
        return namespace(q, p)
    except TypeError:
        raise InvalidInput(
            f"the two arrays are of different libraries, {type(q).__module__} and "
            f"{type(p).__module__}; convert one of them (lists count as NumPy)"
        ) from None


def same_instances(q: Array, p: Array) -> None:
    """Two arrays ``(..., K)`` hold the same instances, or one of them holds one for all."""
    if q.shape[-1] != p.shape[-1]:
        raise InvalidInput(f"the prediction has {q.shape[-1]} classes, the truth {p.shape[-1]}")
    try:
        np.broadcast_shapes(tuple(q.shape), tuple(p.shape))
    except ValueError:
        raise InvalidInput(
            f"the prediction has shape {tuple(q.shape)}, the truth {tuple(p.shape)}; they must be "
            "of the same instances, or one of them of a single one"
        ) from None


def weights(xp: Namespace, w: Any, theta: Array) -> Array:
    """Member weights ``(M,)`` or ``(..., M)`` in float64, in any scale; no value is looked at."""
    w = _numbers(xp, w, theta, "weights")
    m_shape = tuple(theta.shape[-2:-1])
    if tuple(w.shape) not in {m_shape, tuple(theta.shape[:-1])}:
        raise InvalidInput(
            f"weights have shape {tuple(w.shape)}; with {m_shape[0]} members they must be "
            f"{m_shape} or {tuple(theta.shape[:-1])}"
        )
    return w


def shares(xp: Namespace, w: Any, theta: Array, members: Layout, *, check: bool) -> Array:
    """The weights of members so laid out, as shares that sum to 1."""
    w = weights(xp, w, theta)
    where = _own_axes(w, "weights", members.origin if w.ndim > 1 else ())
    top = xp.max(w, axis=-1, keepdims=True)
    if check:
        index = _first((w >= 0) & (w < float("inf")))
        if index is not None:
            raise InvalidInput(
                f"{where.place(index)} is {float(w[index])}; weights must be finite and not "
                "negative"
            )
        index = _first(top[..., 0] > 0)
        if index is not None:
            raise InvalidInput(
                f"{where.place(index)} sums to 0; at least one member needs a positive weight"
            )
    w = w / top
    return xp.astype(w / xp.sum(w, axis=-1, keepdims=True), theta.dtype)


def member_weight(xp: Namespace, weight: Any, theta: Array, *, check: bool) -> Array:
    """The weight of one member ``(..., K)`` in every instance ``(...)``."""
    w = _numbers(xp, weight, theta, "weight")
    shape = tuple(theta.shape[:-1])
    if w.ndim and tuple(w.shape) != shape:
        raise InvalidInput(f"weight has shape {tuple(w.shape)}; it must be a number or {shape}")
    index = _first((w >= 0) & (w < float("inf"))) if check else None
    if index is not None:
        place = _own_axes(w, "weight").place(index)
        raise InvalidInput(f"{place} is {float(w[index])}; weights must be finite, not negative")
    return w * xp.ones_like(widest(xp, theta[..., 0]))


def some_weight(total: Array) -> None:
    """Every instance has a member with a positive weight, and their sum is finite."""
    index = _first(total < float("inf"))
    if index is not None:
        raise InvalidInput(f"the weights of instance {list(index)} sum to infinity; scale them")
    index = _first(total > 0)
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
    index = _first(xp.sum(xp.astype(shares > 0, shares.dtype), axis=-1) > 1)
    if index is not None:
        heavy = int(xp.argmax(shares[(*index, ...)]))
        place = f" of instance {members.absolute(index)}" if index else ""
        raise InvalidInput(f"{_COMPANY}; member {heavy}{place} has all of it")


def concentrations(xp: Namespace, alpha: Array) -> None:
    """Refuse Dirichlet parameters that are not positive, or whose products would overflow."""
    alpha = widest(xp, alpha)
    index = _first((alpha >= 1e-100) & (alpha <= 1e100) & (alpha < float("inf")))
    if index is not None:
        place = _own_axes(alpha, "alpha").place(index)
        raise InvalidInput(
            f"{place} is {float(alpha[index])}; Dirichlet parameters must be positive, "
            "from 1e-100 to 1e100 (evidence e is alpha = e + 1)"
        )


def unit_interval(xp: Namespace, p: Array, name: str) -> None:
    """Refuse what is not between 0 and 1."""
    index = _first((p >= 0) & (p <= 1))
    if index is not None:
        place = _own_axes(p, name).place(index)
        raise InvalidInput(f"{place} is {float(p[index])}; a probability is between 0 and 1")


def labels(xp: Namespace, y: Any, shape: tuple[int, ...], n_classes: int, like: Array) -> Array:
    """Class indices of the given shape, each from 0 to K - 1."""
    if isinstance(y, np.ndarray) and y.dtype.kind == "u":
        y = y.astype(np.int64)  # torch cannot compare wide unsigned integers
    y = real(y, "labels", lambda values: on_device_of(xp, values, like))
    if not xp.isdtype(y.dtype, "integral"):
        raise InvalidInput(f"labels have dtype {dtype_name(y)}; they must be integer class indices")
    if tuple(y.shape) != shape:
        raise InvalidInput(f"labels have shape {tuple(y.shape)}, the predictions {shape}")
    last = min(n_classes - 1, int(xp.iinfo(y.dtype).max))  # a number that narrow integers can hold
    index = _first((y >= 0) & (y <= last))
    if index is not None:
        place = _own_axes(y, "labels").place(index)
        raise InvalidInput(f"{place} is {int(y[index])}; labels must be from 0 to {n_classes - 1}")
    return y


def losses_and_scores(losses: Any, scores: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors of the same length, at least one long, without NaN."""
    pair = []
    for values, label in ((losses, "losses"), (scores, name)):
        vector = real(values, label, to_numpy).astype(np.float64)
        if vector.ndim != 1:
            raise InvalidInput(f"{label} has {vector.ndim} dimensions; it must be a vector (n,)")
        if np.isnan(vector).any():
            raise InvalidInput(f"{label}[{int(np.argmax(np.isnan(vector)))}] is nan")
        pair.append(vector)
    if len(pair[0]) != len(pair[1]) or not len(pair[0]):
        raise InvalidInput(
            f"losses has {len(pair[0])} entries, {name} {len(pair[1])}; they must be of the same "
            "length and not empty"
        )
    return pair[0], pair[1]


def same_classes(n_classes: int, expected: int, what: str) -> None:
    """The predictions have as many classes as the rule was made for."""
    if n_classes != expected:
        raise InvalidInput(
            f"{what} is for {expected} classes, but the predictions have {n_classes}"
        )
