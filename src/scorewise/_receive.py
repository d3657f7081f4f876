"""Predictions at the door: from whatever a caller hands in to rows that sum to 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    Namespace,
    contiguous_rows,
    dtype_name,
    namespace,
    working_precision,
)
from scorewise.errors import InvalidInput


def softmax(xp: Namespace, logits: Array) -> Array:
    """Probabilities of logits along the last axis; -inf stands for an impossible class."""
    with np.errstate(over="ignore"):  # a difference of -inf is an honest probability of 0
        shifted = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return shifted / xp.sum(shifted, axis=-1, keepdims=True)


@dataclass(frozen=True)
class Unchecked:
    """Predictions as they were handed in: class axis last, nothing looked at yet.

    Kernels start from here, so that they can check values and take a softmax in their one pass.
    """

    values: Array  # (..., K), a view of the caller's array in its own dtype
    layout: validate.Layout
    from_logits: bool = False
    normalize: bool = False
    check: bool = True

    def probabilities(self) -> Array:
        """Rows that sum to 1, in working precision."""
        xp = namespace(self.values)
        p = working_precision(xp, self.values)
        if self.from_logits:
            if self.check:
                validate.logits(xp, p, self.layout)
            return softmax(xp, contiguous_rows(xp, p))
        if self.normalize:
            if self.check:
                validate.masses(xp, p, self.layout)
            p = contiguous_rows(xp, p)
            return p / xp.sum(p, axis=-1, keepdims=True)
        if self.check:
            tolerance = validate.SUM_TOLERANCE[dtype_name(self.values)]
            validate.probabilities(xp, p, self.layout, tolerance)
        return p

    def shares(self, weights: Any) -> Array | None:
        """Member weights that sum to 1, in working precision; None stands for equal ones."""
        if weights is None:
            return None
        xp = namespace(self.values)
        like = working_precision(xp, self.values[..., :1])
        return validate.normalized_weights(weights, like, self.layout, check=self.check)

    def block(self, values: Array, origin: tuple[int, ...]) -> Unchecked:
        """A part of the same, from the instance ``origin`` on; places are named in the whole."""
        return replace(self, values=values, layout=replace(self.layout, origin=origin))


def receive(
    values: Any,
    layout: Callable[[int, str], validate.Layout],
    *,
    from_logits: bool = False,
    normalize: bool = False,
    check: bool = True,
) -> Unchecked:
    """Predictions from whatever a caller hands in; only their type and shape are looked at."""
    if from_logits and normalize:
        raise InvalidInput("from_logits=True already normalises; do not pass normalize=True too")
    name = "logits" if from_logits else "probs"
    values = validate.floating(values, name)
    where = layout(values.ndim, name)
    values = where.canonical(namespace(values), values)
    validate.class_count(values.shape, name)
    return Unchecked(values, where, from_logits, normalize, check)


@dataclass(frozen=True)
class Options:
    """How members are laid out and what to do with them, as users say it."""

    member_axis: int = -2
    class_axis: int = -1
    from_logits: bool = False
    normalize: bool = False
    check: bool = True


def receive_members(values: Any, options: Options) -> Unchecked:
    """The same for members ``(..., M, K)``, whose axes may sit anywhere."""

    def layout(ndim: int, name: str) -> validate.Layout:
        return validate.layout(ndim, options.member_axis, options.class_axis, name)

    given = receive(
        values,
        layout,
        from_logits=options.from_logits,
        normalize=options.normalize,
        check=options.check,
    )
    validate.member_count(given.values.shape)
    return given


def classes_last(ndim: int, name: str) -> validate.Layout:
    """The layout of first-order predictions ``(..., K)``."""
    return validate.Layout(tuple(range(ndim)), name)
