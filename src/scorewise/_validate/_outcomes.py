"""What happened, and what it cost: labels and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise._array import (
    Array,
    Namespace,
    dtype_name,
    is_array,
    namespace,
    on_device_of,
    to_numpy,
    working_precision,
)
from scorewise._validate._kinds import real
from scorewise._validate._places import first_false, own_axes
from scorewise.errors import InvalidInput


def labels(xp: Namespace, y: Any, shape: tuple[int, ...], n_classes: int, like: Array) -> Array:
    """Class indices of the given shape, each from 0 to K - 1."""
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
    index = first_false((y >= 0) & (y <= last))
    if index is not None:
        place = own_axes(y, "labels").place(index)
        raise InvalidInput(f"{place} is {int(y[index])}; labels must be from 0 to {n_classes - 1}")
    return y


def _are_names(y: Any) -> bool:
    first = y[0] if isinstance(y, list | tuple) and y else None
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    return isinstance(first, str) or kind in {"U", "S", "O"}


def vector(values: Any, name: str, *, may_be_empty: bool = False) -> np.ndarray:
    """Real numbers (n,), at least one, none of them NaN."""
    x = np.asarray(real(values, name, _on_host), dtype=np.float64)
    if x.ndim != 1:
        raise InvalidInput(f"{name} has {x.ndim} dimensions; it must be a vector (n,)")
    if not len(x) and not may_be_empty:
        raise InvalidInput(f"{name} is empty; it must hold at least one number")
    _refuse(np.isnan(x), x, name, "drop such rows, or mend what made them")
    return x


def _on_host(values: Any) -> np.ndarray:
    if is_array(values):  # NumPy has no bfloat16
        values = working_precision(namespace(values), values)
    return to_numpy(values)


def _refuse(wrong: np.ndarray, x: np.ndarray, name: str, advice: str) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        raise InvalidInput(f"{name}[{index}] is {x[index]:.6g}; {advice}")


def finite(values: Any, name: str) -> np.ndarray:
    """Finite numbers (n,)."""
    x = vector(values, name)
    _refuse(np.isinf(x), x, name, "it must be finite")
    return x


def loss_vector(values: Any, name: str = "losses") -> np.ndarray:
    """Finite losses (n,)."""
    losses = vector(values, name)
    _refuse(
        np.isinf(losses),
        losses,
        name,
        "losses must be finite: the log loss of a probability of 0 is infinite, and no average of "
        "it means anything; choose the smallest probability that counts, as in "
        "sw.task_losses(probs, y, 'log', floor=1e-6), or a largest loss, as in "
        "np.minimum(losses, 20)",
    )
    return losses


def groups(values: Any, n: int) -> np.ndarray:
    """A name for each of n rows, none of them missing."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput("groups is a masked array; drop the rows that are masked")
    names = np.asarray(values)
    if names.shape != (n,):
        raise InvalidInput(f"groups has shape {names.shape}; it must name the group of {n} rows")
    missing = np.array([name is None or name != name for name in names.tolist()])
    if missing.any():
        raise InvalidInput(f"groups[{int(np.argmax(missing))}] is missing; give every row a group")
    try:
        np.sort(names)
    except TypeError as error:
        raise InvalidInput(f"groups are of several kinds and cannot be sorted: {error}") from None
    return names


def losses_and_scores(losses: Any, scores: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Finite losses, and scores of the same rows, which may be infinite."""
    loss, score = loss_vector(losses), vector(scores, name)
    if len(loss) != len(score):
        raise InvalidInput(
            f"losses has {len(loss)} entries, {name} {len(score)}; they must be about the same rows"
        )
    return loss, score


def rows(values: Any, n_rows: int, name: str) -> np.ndarray:
    """Indices of different rows, from indices or from a mask ``(n,)``."""
    given = np.asarray(real(values, name, _on_host))
    if given.dtype.kind == "b":
        if given.shape != (n_rows,):
            raise InvalidInput(f"{name} is a mask of shape {given.shape} for {n_rows} rows")
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.dtype.kind not in "iu" and len(given)):
        raise InvalidInput(
            f"{name} must be indices of rows, or a mask, not {given.dtype} of shape {given.shape}"
        )
    _refuse_index((given < 0) | (given >= n_rows), given, name, f"there are {n_rows} rows")
    indices = given.astype(np.int64)
    repeated = np.ones(len(indices), dtype=bool)
    repeated[np.unique(indices, return_index=True)[1]] = False
    _refuse_index(repeated, indices, name, "it is there twice")
    return indices


def _refuse_index(wrong: np.ndarray, indices: np.ndarray, name: str, reason: str) -> None:
    if wrong.any():
        place = int(np.argmax(wrong))
        raise InvalidInput(f"{name}[{place}] is {indices[place]}; {reason}")


def names(values: Any, name: str, n: int | None = None) -> np.ndarray:
    """Class labels (n,): all whole numbers, all numbers, all strings or all booleans."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(f"{name} are a masked array; drop the rows that are masked")
    try:
        given = to_numpy(values) if is_array(values) else np.asarray(values, dtype=object)
        listed = given.tolist()
    except ValueError as error:
        raise InvalidInput(f"{name} are no list of labels: {error}") from None
    if not isinstance(listed, list):
        raise InvalidInput(f"{name} must be a list of labels, not {type(values).__name__}")
    if n is not None and len(listed) != n:
        raise InvalidInput(f"{name} are {len(listed)} labels for {n} rows")
    listed = [label.item() if isinstance(label, np.generic) else label for label in listed]
    kinds = {type(label) for label in listed}
    wrong = [i for i, label in enumerate(listed) if type(label) not in _LABELS or label != label]
    if wrong:
        raise InvalidInput(
            f"{name}[{wrong[0]}] is {listed[wrong[0]]!r}; labels must be numbers, strings or "
            "booleans, none of them missing"
        )
    if len(kinds) > 1:
        found = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidInput(f"{name} are of several kinds, {found}; give all labels in one")
    kept = np.array(listed)
    if listed and (kept.dtype.kind != _LABELS[type(listed[0])] or kept.tolist() != listed):
        raise InvalidInput(f"{name} are too large for 64-bit integers, or end in null characters")
    return kept


_LABELS = {str: "U", int: "i", float: "f", bool: "b"}  # what labels may be, and its kind of array


def same_kind(known: np.ndarray, given: np.ndarray, name: str) -> None:
    """Labels are numbers, strings or booleans as others are."""
    if len(known) and len(given) and known.dtype.kind != given.dtype.kind:
        raise InvalidInput(f"{name} are of dtype {given.dtype}, the other labels {known.dtype}")


def among(classes: np.ndarray, given: np.ndarray, name: str) -> None:
    """Every label is one of the classes."""
    same_kind(classes, given, name)
    wrong = ~np.isin(given, classes)
    if wrong.any():
        place = int(np.argmax(wrong))
        known = np.array2string(classes, separator=", ", threshold=20)
        raise InvalidInput(f"{name}[{place}] is {given[place]}; the classes are {known}")
