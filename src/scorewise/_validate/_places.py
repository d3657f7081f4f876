"""Where something is in the caller's own array, to move axes and to name a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from numbers import Integral
from typing import Any

import numpy as np

from scorewise._array import Array, Namespace, is_traced, namespace, to_numpy
from scorewise.errors import InvalidInput


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

    def absolute(self, index: Sequence[int]) -> tuple[int, ...]:
        """A canonical index, counted from the start of the whole array."""
        starts = chain(self.origin, repeat(0))
        return tuple(start + i for i, start in zip(index, starts, strict=False))

    def place(self, index: Sequence[int]) -> str:
        """The caller's own index of a canonical one; missing trailing axes are whole."""
        entries = [":"] * len(self.order)
        for axis, i in zip(self.order, self.absolute(index), strict=False):
            entries[axis] = str(i)
        while entries and entries[-1] == ":":
            entries.pop()
        return f"{self.name}[{', '.join(entries)}]" if entries else self.name


def own_axes(x: Array, name: str, origin: tuple[int, ...] = ()) -> Layout:
    """The layout of an array whose axes stay where they are."""
    return Layout(tuple(range(x.ndim)), name, origin)


def first_false(ok: Array) -> tuple[int, ...] | None:
    """The first index at which ``ok`` is false; None when nowhere, or when tracing."""
    if is_traced(ok) or bool(namespace(ok).all(ok)):
        return None
    flags = to_numpy(ok)
    return tuple(int(i) for i in np.unravel_index(int(np.argmin(flags)), flags.shape))


def axis_of(axis: Any, ndim: int, label: str, name: str) -> int:
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
        axis_of(member_axis, ndim, "member_axis", name),
        axis_of(class_axis, ndim, "class_axis", name),
    )
    if axes[0] == axes[1]:
        raise InvalidInput(f"member_axis={member_axis} and class_axis={class_axis} are the same")
    rest = [axis for axis in range(ndim) if axis not in axes]
    return Layout((*rest, *axes), name)


def moved_classes(ndim: int, class_axis: int, name: str) -> Layout:
    """The layout of one member's predictions, class axis anywhere."""
    last = axis_of(class_axis, ndim, "class_axis", name)
    return Layout((*(axis for axis in range(ndim) if axis != last), last), name)
