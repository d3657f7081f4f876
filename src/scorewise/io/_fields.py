"""What the fields of predictions must be: shapes, labels, ids, names, weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import dtype_name, to_numpy
from scorewise.errors import InvalidInput

ClassNames = tuple[str, ...] | None

UNLABELLED = -1
_FLOATS = ("float16", "float32", "float64")


def checked_members(values: Any, name: str) -> np.ndarray:
    """Floating-point numbers (N, M, K), which may be probabilities or not."""
    given = validate.floating(values, name)
    _check_float(dtype_name(given), name)
    array = native(to_numpy(given))
    check_shape(array.shape, name)
    return array


def _check_float(kind: str, name: str) -> None:
    if kind not in _FLOATS:
        raise InvalidInput(
            f"{name} has dtype {kind}, which not every file can hold; convert it to float32 or "
            "float64"
        )


def native(array: np.ndarray) -> np.ndarray:
    """The same numbers in this machine's order of bytes."""
    if array.dtype.isnative:
        return array
    return array.astype(array.dtype.newbyteorder("="))


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
    listed = names.tolist() if isinstance(names, np.ndarray) else names
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise InvalidInput(f"class_names must be {n_classes} names, not {names!r}")
    found = tuple(str(name) for name in listed)
    if len(found) != n_classes:
        raise InvalidInput(f"there are {len(found)} class_names for {n_classes} classes")
    twice = first_repeated(found)
    if twice is not None:
        raise InvalidInput(f"two classes are called {twice!r}; give each a name of its own")
    for i, name in enumerate(found):
        check_text(name, f"class_names[{i}]")
    return found


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that is there already."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def checked_labels(
    labels: Any,
    shape: Sequence[int],
    names: tuple[str, ...] | None,
    place: Callable[[int], str] = "labels[{}]".format,
) -> np.ndarray:
    """Class indices (N,), −1 for none, from indices or from names.

    ``place`` says for a message which label is meant.
    """
    n, _, k = shape
    given = _array(labels, "labels")
    if given.shape != (n,):
        raise InvalidInput(f"labels have shape {given.shape} for {n} rows; they must be ({n},)")
    if not n:
        return np.empty(0, dtype=np.int64)
    if given.dtype.kind in "UO":
        return _indices_of(given.tolist(), names, k, place)
    if given.dtype.kind not in "iu":
        raise InvalidInput(
            f"labels have dtype {given.dtype}; they must be class indices from 0 to {k - 1}, or "
            "names of classes"
        )
    wrong = (given < UNLABELLED) | (given >= k)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"{place(row)} is {given[row]}; labels must be from 0 to {k - 1}, or {UNLABELLED} "
            "where there is none"
        )
    return given.astype(np.int64)


def indices(numbers: Sequence[int | None], first_class: int) -> np.ndarray:
    """Class indices of numbers that count from ``first_class``; None is for no label."""
    found = [UNLABELLED if y is None else y - first_class for y in numbers]
    below = [y for y in numbers if y is not None and y < first_class]
    if first_class and below:
        raise InvalidInput(
            f"a label is {below[0]}, and classes are numbered from {first_class} in the columns"
        )
    return np.array(found, dtype=np.int64)


def _array(values: Any, name: str) -> np.ndarray:
    try:
        return to_numpy(values) if hasattr(values, "dtype") else np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} are no array: {error}") from None


def _indices_of(
    labels: list[Any], names: tuple[str, ...] | None, n_classes: int, place: Callable[[int], str]
) -> np.ndarray:
    """Which classes are named; None is for a row without a label."""
    if names is None and any(label is not None for label in labels):
        raise InvalidInput(
            f"labels are names, such as {_first(labels)!r}; class_names must say which classes "
            "they are"
        )
    names = names or ()
    known: dict[Any, int] = {name: k for k, name in enumerate(names)} | {None: UNLABELLED}
    try:
        found = np.array([known.get(label, n_classes) for label in labels], dtype=np.int64)
    except TypeError as error:
        raise InvalidInput(f"labels are neither numbers nor names: {error}") from None
    if (found == n_classes).any():
        row = int(np.argmax(found == n_classes))
        shown = ", ".join(names[:10]) + ", …" * (len(names) > 10)
        raise InvalidInput(f"{place(row)} is {labels[row]!r}, which is none of the classes {shown}")
    return found


def _first(labels: list[Any]) -> Any:
    return next(label for label in labels if label is not None)


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
    given = _array(weights, "weights")
    if given.dtype.kind in "iu":
        given = given.astype(np.float64)
    if given.dtype.kind != "f":
        raise InvalidInput(f"weights are {given.dtype}; they must be floating-point numbers")
    _check_float(dtype_name(given), "weights")
    given = native(given)
    if given.shape not in {(m,), (n, m)}:
        raise InvalidInput(
            f"weights have shape {given.shape}; they must be ({m},), one per member, or ({n}, {m})"
        )
    return given
