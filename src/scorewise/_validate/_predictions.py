"""Probabilities, logits and parameters of distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scorewise._array import Array, Namespace, dtype_name, to_numpy
from scorewise._validate._kinds import number
from scorewise._validate._places import Layout, first_false, own_axes
from scorewise.errors import InvalidInput


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


def _entry(row: np.ndarray, wrong: np.ndarray) -> tuple[int, float]:
    k = int(np.argmax(wrong))
    return k, float(row[k])


def probabilities(xp: Namespace, p: Array, where: Layout, tolerance: float) -> None:
    """Refuse NaN, infinities, negative entries and rows that do not sum to 1."""
    with np.errstate(all="ignore"):
        ok = (xp.abs(xp.sum(p, axis=-1) - 1) <= tolerance) & (xp.min(p, axis=-1) >= 0)
    _raise_for_row(p, first_false(ok), where, must_sum_to_one=True)


def masses(xp: Namespace, p: Array, where: Layout) -> None:
    """Refuse what cannot be normalised: NaN, infinities, negative entries, rows of zeros."""
    with np.errstate(all="ignore"):
        total = xp.sum(p, axis=-1)
        ok = (total > 0) & (total < float("inf")) & (xp.min(p, axis=-1) >= 0)
    _raise_for_row(p, first_false(ok), where, must_sum_to_one=False)


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
            "drop such rows, or mend the model that made them",
            index=where.absolute((*index, k)),
        )
    if (row < 0).any():
        k, value = _entry(row, row < 0)
        raise InvalidInput(
            f"{where.place((*index, k))} is {value:.6g}, and a probability cannot be negative; "
            "pass from_logits=True if these are logits",
            index=where.absolute((*index, k)),
        )
    with np.errstate(over="ignore"):
        total = row.sum()
    if must_sum_to_one:
        raise InvalidInput(
            f"{where.place(index)} sums to {total:.9g}, not 1; pass normalize=True to rescale "
            "rows, or from_logits=True if these are logits",
            index=where.absolute(index),
        )
    raise InvalidInput(
        f"{where.place(index)} sums to {total:.6g} and cannot be normalised",
        index=where.absolute(index),
    )


def logits(xp: Namespace, z: Array, where: Layout) -> None:
    """Refuse NaN, +inf and rows in which every class is masked by -inf."""
    top = xp.max(z, axis=-1)
    index = first_false((top < float("inf")) & (top > -float("inf")))
    if index is None:
        return
    row = to_numpy(z[(*index, ...)]).astype(np.float64)
    if np.isneginf(row).all():
        raise InvalidInput(
            f"{where.place(index)} is -inf for every class; at least one class must be possible",
            index=where.absolute(index),
        )
    k, value = _entry(row, np.isnan(row) | np.isposinf(row))
    raise InvalidInput(
        f"{where.place((*index, k))} is {value}; logits may be -inf (a masked class) but not "
        "NaN or +inf",
        index=where.absolute((*index, k)),
    )


def concentrations(alpha: Array) -> None:
    """Refuse Dirichlet parameters that are not positive, or whose products would overflow."""
    ok = (alpha > 0) & (alpha < float("inf"))
    if dtype_name(alpha) == "float64":
        ok = ok & (alpha >= 1e-100) & (alpha <= 1e100)
    index = first_false(ok)
    if index is not None:
        place = own_axes(alpha, "alpha").place(index)
        raise InvalidInput(
            f"{place} is {float(alpha[index])}; Dirichlet parameters must be positive, "
            "from 1e-100 to 1e100 (evidence e is alpha = e + 1)"
        )


def unit_interval(xp: Namespace, p: Array, name: str) -> None:
    """Refuse what is not between 0 and 1."""
    index = first_false((p >= 0) & (p <= 1))
    if index is not None:
        place = own_axes(p, name).place(index)
        raise InvalidInput(f"{place} is {float(p[index])}; a probability is between 0 and 1")


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


def same_classes(n_classes: int, expected: int, what: str) -> None:
    """The predictions have as many classes as the rule was made for."""
    if n_classes != expected:
        raise InvalidInput(
            f"{what} is for {expected} classes, but the predictions have {n_classes}"
        )


def floor(value: Any, n_classes: int) -> float:
    """A smallest probability that leaves something to be predicted."""
    if not 0 < number(value, "floor") < 1 / n_classes:
        raise InvalidInput(
            f"floor is {value}; it must be above 0 and below 1/{n_classes}, as there are "
            f"{n_classes} classes"
        )
    return float(value)
