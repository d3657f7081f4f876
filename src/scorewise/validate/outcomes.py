"""What happened, and what it cost: labels and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise._array import Array, Namespace, dtype_name, on_device_of, to_numpy
from scorewise.errors import InvalidInput
from scorewise.validate.kinds import real
from scorewise.validate.places import first_false, own_axes


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
    index = first_false((y >= 0) & (y <= last))
    if index is not None:
        place = own_axes(y, "labels").place(index)
        raise InvalidInput(f"{place} is {int(y[index])}; labels must be from 0 to {n_classes - 1}")
    return y


def losses_and_scores(losses: Any, scores: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors of the same length, at least one long, without NaN or losses of −∞."""
    pair = []
    for values, label in ((losses, "losses"), (scores, name)):
        vector = real(values, label, to_numpy).astype(np.float64)
        if vector.ndim != 1:
            raise InvalidInput(f"{label} has {vector.ndim} dimensions; it must be a vector (n,)")
        wrong = np.isnan(vector) | (np.isneginf(vector) if label == "losses" else False)
        if wrong.any():
            index = int(np.argmax(wrong))
            raise InvalidInput(f"{label}[{index}] is {vector[index]}")
        pair.append(vector)
    if len(pair[0]) != len(pair[1]) or not len(pair[0]):
        raise InvalidInput(
            f"losses has {len(pair[0])} entries, {name} {len(pair[1])}; they must be of the same "
            "length and not empty"
        )
    return pair[0], pair[1]
