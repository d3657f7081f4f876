"""What the fields of predictions must be: shapes, labels, ids, names, weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scorewise import validate
from scorewise._array import to_numpy
from scorewise.errors import InvalidInput

UNLABELLED = -1


def checked_members(values: Any, name: str) -> np.ndarray:
    """Floating-point numbers (N, M, K), which may be probabilities or not."""
    array = to_numpy(validate.floating(values, name))
    check_shape(array.shape, name)
    return array


def check_shape(shape: Sequence[int], name: str) -> None:
    """Predictions are (N, M, K), with a member and two classes at least."""
    if len(shape) != 3:
        hint = f"; for one model pass {name}[:, None]" if len(shape) == 2 else ""
        raise InvalidInput(
            f"{name} has shape {tuple(shape)}; it must be (N, M, K): rows, members, classes{hint}"
        )
    validate.class_count(tuple(shape), name)
    validate.member_count(tuple(shape))


def checked_names(names: Any, n_classes: int) -> tuple[str, ...] | None:
    """A different name for each class."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidInput(f"class_names must be {n_classes} names, not {names!r}")
    found = tuple(str(name) for name in names)
    if len(found) != n_classes:
        raise InvalidInput(f"there are {len(found)} class_names for {n_classes} classes")
    twice = next((name for i, name in enumerate(found) if name in found[:i]), None)
    if twice is not None:
        raise InvalidInput(f"two classes are called {twice!r}; give each a name of its own")
    for i, name in enumerate(found):
        check_text(name, f"class_names[{i}]")
    return found


def checked_labels(
    labels: Any, shape: Sequence[int], names: tuple[str, ...] | None, first_row: int = 0
) -> np.ndarray:
    """Class indices (N,), −1 for none, from indices or from names."""
    n, _, k = shape
    given = to_numpy(labels) if hasattr(labels, "dtype") else np.asarray(labels)
    if given.shape != (n,):
        raise InvalidInput(f"labels have shape {given.shape} for {n} rows; they must be ({n},)")
    if given.dtype.kind in "UOS" and n:
        return _indices_of(given, names, k, first_row)
    if given.dtype.kind not in "iu" and n:
        raise InvalidInput(
            f"labels have dtype {given.dtype}; they must be class indices from 0 to {k - 1}, or "
            "names of classes"
        )
    wrong = (given < UNLABELLED) | (given >= k)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"labels[{first_row + row}] is {given[row]}; labels must be from 0 to {k - 1}, or "
            f"{UNLABELLED} where there is none"
        )
    return given.astype(np.int64)


def _indices_of(
    labels: np.ndarray, names: tuple[str, ...] | None, n_classes: int, first_row: int
) -> np.ndarray:
    if names is None:
        raise InvalidInput(
            f"labels are names, such as {str(labels[0])!r}; class_names must say which classes "
            "they are"
        )
    known: dict[Any, int] = {name: k for k, name in enumerate(names)} | {None: UNLABELLED}
    found = np.array([known.get(label, n_classes) for label in labels.tolist()], dtype=np.int64)
    if (found == n_classes).any():
        row = int(np.argmax(found == n_classes))
        shown = ", ".join(names[:10]) + ", …" * (len(names) > 10)
        raise InvalidInput(
            f"labels[{first_row + row}] is {labels[row]!r}, which is none of the classes {shown}"
        )
    return found


def checked_ids(ids: Any, n: int) -> np.ndarray:
    """Whole numbers, or strings, (N,)."""
    given = to_numpy(ids) if hasattr(ids, "dtype") else np.asarray(ids, dtype=object)
    if given.shape != (n,):
        raise InvalidInput(f"ids have shape {given.shape} for {n} rows; they must be ({n},)")
    if given.dtype.kind in "iu":
        wide = given.astype(np.int64)
        if (wide != given).any() or (given.dtype.kind == "u" and (wide < 0).any()):
            raise InvalidInput("ids are too large for 64-bit integers; make them strings")
        return wide
    listed = given.tolist()
    if listed and all(isinstance(one, int) and not isinstance(one, bool) for one in listed):
        try:
            return np.array(listed, dtype=np.int64)
        except OverflowError:
            raise InvalidInput("ids are too large for 64-bit integers; make them strings") from None
    for i, one in enumerate(listed):
        if not isinstance(one, str):
            raise InvalidInput(f"ids[{i}] is {one!r}; ids must be whole numbers, or strings")
        check_text(one, f"ids[{i}]")
    kept = np.empty(n, dtype=object)
    kept[:] = listed
    return kept


def check_text(text: str, name: str) -> None:
    """Text that every kind of file can hold."""
    if "\0" in text:
        raise InvalidInput(f"{name} has a null character, which not every file can hold")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name} is no valid text: {error.reason}") from None


def checked_weights(weights: Any, shape: Sequence[int]) -> np.ndarray:
    """Weights (M,) or (N, M); their values are checked where they are used."""
    n, m, _ = shape
    given = np.asarray(to_numpy(weights) if hasattr(weights, "dtype") else weights)
    if given.dtype.kind in "iu":
        given = given.astype(np.float64)
    if given.dtype.kind != "f":
        raise InvalidInput(f"weights have dtype {given.dtype}; they must be numbers")
    if given.shape not in {(m,), (n, m)}:
        raise InvalidInput(
            f"weights have shape {given.shape}; they must be ({m},), one per member, or ({n}, {m})"
        )
    return given
