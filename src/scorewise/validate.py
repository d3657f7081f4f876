"""Every check of an argument, once, at the door.

A message says what is wrong, where (the first offending index, in the caller's own axes) and what
to do. Nothing here changes a value: what is wrong is refused, never mended in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise._array import (
    Array,
    Namespace,
    dtype_name,
    is_array,
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
    """

    order: tuple[int, ...]
    name: str

    def canonical(self, xp: Namespace, x: Array) -> Array:
        """A view with members and classes last."""
        return x if self.order == tuple(range(x.ndim)) else xp.permute_dims(x, self.order)

    def place(self, index: Sequence[int]) -> str:
        """The caller's own index of a canonical one; missing trailing axes are whole."""
        entries = [":"] * len(self.order)
        for axis, i in zip(self.order, index, strict=False):
            entries[axis] = str(i)
        while entries and entries[-1] == ":":
            entries.pop()
        return f"{self.name}[{', '.join(entries)}]" if entries else self.name


def floating(x: Any, name: str) -> Array:
    """``x`` as an array of floating-point numbers; lists become NumPy arrays."""
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidInput(
            f"{name} is a masked array, and a mask cannot be honoured here; "
            "drop the masked rows, or pass logits of -inf for masked classes with from_logits=True"
        )
    if isinstance(x, np.ndarray):
        x = np.asarray(x)  # a plain view of a memory map, a matrix and the like
    elif not is_array(x):
        try:
            x = np.asarray(x)
        except ValueError as error:
            raise InvalidInput(f"{name} is not a rectangular array: {error}") from error
    kind = dtype_name(x)
    if kind not in SUM_TOLERANCE:
        raise InvalidInput(
            f"{name} has dtype {kind}; use float16, bfloat16, float32 or float64, and convert "
            "other numbers on purpose"
        )
    return x


def layout(ndim: int, member_axis: int, class_axis: int, name: str) -> Layout:
    """Check the two axes and say how to bring them to the end."""
    if ndim < 2:
        raise InvalidInput(
            f"{name} has {ndim} dimension{'s' * (ndim != 1)}; it needs at least a member axis and "
            "a class axis, as in (..., M, K); for probabilities of class 1 see scorewise.binary"
        )
    axes = []
    for label, axis in (("member_axis", member_axis), ("class_axis", class_axis)):
        if not -ndim <= axis < ndim:
            raise InvalidInput(f"{label}={axis} is out of range for {name} with {ndim} dimensions")
        axes.append(axis % ndim)
    if axes[0] == axes[1]:
        raise InvalidInput(f"member_axis={member_axis} and class_axis={class_axis} are the same")
    rest = [axis for axis in range(ndim) if axis not in axes]
    return Layout((*rest, *axes), name)


def moved_classes(ndim: int, class_axis: int, name: str) -> Layout:
    """The layout of one member's predictions, class axis anywhere."""
    if not -ndim <= class_axis < ndim:
        raise InvalidInput(f"class_axis={class_axis} is out of range for {name} with {ndim} axes")
    rest = [axis for axis in range(ndim) if axis != class_axis % ndim]
    return Layout((*rest, class_axis % ndim), name)


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
    if must_sum_to_one:
        raise InvalidInput(
            f"{where.place(index)} sums to {row.sum():.9g}, not 1; pass normalize=True to rescale "
            "rows, or from_logits=True if these are logits"
        )
    raise InvalidInput(f"{where.place(index)} sums to {row.sum():.6g} and cannot be normalised")


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
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(f"{name} is a masked array; give masked members a weight of 0")
    try:
        return widest(xp, on_device_of(xp, values, like))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(f"{name} is not an array of numbers: {error}") from error


def same_library(q: Array, p: Array) -> Namespace:
    """The namespace that two arrays share."""
    try:
        return namespace(q, p)
    except TypeError:
        raise InvalidInput(
            f"the two arrays are of different libraries, {type(q).__module__} and "
            f"{type(p).__module__}; convert one of them (lists count as NumPy)"
        ) from None


def weights(xp: Namespace, w: Any, theta: Array, *, check: bool) -> Array:
    """Member weights ``(M,)`` or ``(..., M)`` as shares that sum to 1."""
    w = _numbers(xp, w, theta, "weights")
    m_shape = tuple(theta.shape[-2:-1])
    if tuple(w.shape) not in {m_shape, tuple(theta.shape[:-1])}:
        raise InvalidInput(
            f"weights have shape {tuple(w.shape)}; with {m_shape[0]} members they must be "
            f"{m_shape} or {tuple(theta.shape[:-1])}"
        )
    where = Layout(tuple(range(w.ndim)), "weights")
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
        place = Layout(tuple(range(w.ndim)), "weight").place(index)
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


def company(n_members: int, shares: Array | None) -> None:
    """No member has all the weight of an instance, so that it can be compared with others."""
    needs = "unbiased and standard_errors compare members, and need at least two with weight"
    if n_members < 2:
        raise InvalidInput(f"{needs}; there is only one member")
    index = None if shares is None else _first(shares < 1)
    if index is not None:
        place = f" of instance {list(index[:-1])}" if len(index) > 1 else ""
        raise InvalidInput(f"{needs}; member {index[-1]}{place} has all of it")


def concentrations(xp: Namespace, alpha: Array) -> None:
    """Refuse Dirichlet parameters that are not positive and finite."""
    index = _first((alpha > 0) & (alpha < float("inf")))
    if index is not None:
        place = Layout(tuple(range(alpha.ndim)), "alpha").place(index)
        raise InvalidInput(
            f"{place} is {float(alpha[index])}; Dirichlet parameters must be positive and finite "
            "(evidence e is alpha = e + 1)"
        )


def unit_interval(xp: Namespace, p: Array, name: str) -> None:
    """Refuse what is not between 0 and 1."""
    index = _first((p >= 0) & (p <= 1))
    if index is not None:
        place = Layout(tuple(range(p.ndim)), name).place(index)
        raise InvalidInput(f"{place} is {float(p[index])}; a probability is between 0 and 1")


def labels(xp: Namespace, y: Any, shape: tuple[int, ...], n_classes: int, like: Array) -> Array:
    """Class indices of the given shape, each from 0 to K - 1."""
    y = on_device_of(xp, y, like)
    if not xp.isdtype(y.dtype, "integral"):
        raise InvalidInput(f"labels have dtype {dtype_name(y)}; they must be integer class indices")
    if tuple(y.shape) != shape:
        raise InvalidInput(f"labels have shape {tuple(y.shape)}, the predictions {shape}")
    index = _first((y >= 0) & (y < n_classes))
    if index is not None:
        place = Layout(tuple(range(y.ndim)), "labels").place(index)
        raise InvalidInput(f"{place} is {int(y[index])}; labels must be from 0 to {n_classes - 1}")
    return y


def losses_and_scores(losses: Any, scores: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors of the same length, at least one long, without NaN."""
    pair = []
    for values, label in ((losses, "losses"), (scores, name)):
        vector = np.asarray(to_numpy(values), dtype=np.float64)
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
