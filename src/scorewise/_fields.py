"""Checks of the labels, ids and class names of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._text import quoted, quoted_names
from scorewise.errors import InvalidInput, Remedy

ClassNames = tuple[str, ...] | None

UNLABELLED = -1


def checked_names(names: Any, n_classes: int) -> tuple[str, ...] | None:
    """Return the names of the classes, all different; None if there are none."""
    if names is None:
        return None
    listed = names.tolist() if isinstance(names, np.ndarray) else names
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise InvalidInput(f"class_names must be {n_classes} names, not {quoted(names)}")
    class_names = tuple(str(name) for name in listed)
    if len(class_names) != n_classes:
        raise InvalidInput(f"there are {len(class_names)} class_names for {n_classes} classes")
    duplicate = validate.first_repeated(class_names)
    if duplicate is not None:
        raise InvalidInput(
            f"two classes are called {quoted(duplicate)}; give each a different name"
        )
    for i, name in enumerate(class_names):
        check_text(name, f"class_names[{i}]")
    return class_names


def checked_labels(
    labels: Any,
    shape: Sequence[int],
    names: tuple[str, ...] | None,
    locate: Callable[[int], str] = "labels[{}]".format,
) -> np.ndarray:
    """Return class indices ``(N,)`` from indices or names; −1 where a row has no label.

    ``locate`` names the label of a row in messages.
    """
    n, _, k = shape
    values = as_array(labels, "labels")
    if values.shape != (n,):
        raise InvalidInput(f"labels have shape {values.shape} for {n} rows; they must be ({n},)")
    if not n:
        return np.empty(0, dtype=np.int64)
    if values.dtype.kind in "UO":
        return _indices_by_name(values.tolist(), names, k, locate)
    if values.dtype.kind not in "iu":
        raise InvalidInput(
            f"labels have dtype {values.dtype}; they must be class indices from 0 to {k - 1}, or "
            "names of classes"
        )
    wrong = (values < UNLABELLED) | (values >= k)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"{locate(row)} is {values[row]}; labels must be from 0 to {k - 1}, or {UNLABELLED} "
            "where there is none"
        )
    return values.astype(np.int64)


def as_array(values: Any, name: str) -> np.ndarray:
    try:
        return to_numpy(values) if hasattr(values, "dtype") else np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} are not an array: {error}") from None


def _indices_by_name(
    labels: list[Any], names: tuple[str, ...] | None, n_classes: int, locate: Callable[[int], str]
) -> np.ndarray:
    """Return class indices from names; None is no label."""
    example = next((label for label in labels if label is not None), None)
    if names is None and example is not None:
        raise InvalidInput(
            f"labels are names, such as {quoted(example)}, but the predictions have no class names",
            Remedy("class_names", ..., "the names in the order of the predictions"),
        )
    names = names or ()
    index_of: dict[Any, int] = {name: k for k, name in enumerate(names)} | {None: UNLABELLED}
    try:
        indices = np.array([index_of.get(label, n_classes) for label in labels], dtype=np.int64)
    except TypeError as error:
        raise InvalidInput(f"labels are neither numbers nor names: {error}") from None
    if (indices == n_classes).any():
        row = int(np.argmax(indices == n_classes))
        raise InvalidInput(
            f"{locate(row)} is {quoted(labels[row])}, which is not one of the classes "
            f"{quoted_names(names)}"
        )
    return indices


def checked_ids(ids: Any, n: int) -> np.ndarray:
    """Return ids ``(N,)``, whole numbers or strings."""
    values = to_numpy(ids) if hasattr(ids, "dtype") else np.asarray(ids, dtype=object)
    if values.shape != (n,):
        raise InvalidInput(f"ids have shape {values.shape} for {n} rows; they must be ({n},)")
    if values.dtype.kind in "iu":
        wide = values.astype(np.int64)
        if (wide != values).any() or (values.dtype.kind == "u" and (wide < 0).any()):
            raise InvalidInput("ids are too large for 64-bit integers; convert them to strings")
        return wide
    listed = values.tolist()
    if listed and all(isinstance(x, int) and not isinstance(x, bool) for x in listed):
        try:
            return np.array(listed, dtype=np.int64)
        except OverflowError:
            raise InvalidInput(
                "ids are too large for 64-bit integers; convert them to strings"
            ) from None
    for i, name in enumerate(listed):
        if not isinstance(name, str):
            raise InvalidInput(f"ids[{i}] is {quoted(name)}; ids must be whole numbers, or strings")
        check_text(name, f"ids[{i}]")
    names = np.empty(n, dtype=object)
    names[:] = listed
    return names


def check_text(text: str, name: str) -> None:
    """Raise unless every file format can store the text."""
    if "\0" in text:
        raise InvalidInput(f"{name} has a null character, which some file formats cannot store")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name} is not valid text: {error.reason}") from None


# -- tables of costs -------------------------------------------------------------------------------

# possible heads of a column with the names of the classes; pandas calls a column without one so
_CLASS_HEADS = {
    *("", "class", "classes", "class_name", "label", "y", "truth", "true", "unnamed: 0")
}


def class_text(label: Any) -> str:
    """Return the name of a class as files keep it, in which 1, 1.0 and "1" are the same class.

    Examples
    --------
    >>> class_text(1), class_text(np.float64(1)), class_text("1"), class_text(1.5)
    ('1', '1', '1', '1.5')
    """
    is_whole = isinstance(label, float | np.floating) and float(label).is_integer()
    return str(int(label) if is_whole else label)


def names_classes(head: Any, cells: Sequence[Any]) -> bool:
    """Return whether the first column of a table of costs has the names of the classes.

    Raises for a column of numbers that could be either: numbers of the classes, or costs.

    Examples
    --------
    >>> names_classes("kind", ["ill", "healthy"]), names_classes("class", [1, 2])
    (True, True)
    >>> names_classes("dismiss", [50, 0])
    False
    """
    if not all(isinstance(cell, Real) for cell in cells):
        return True
    if str(head).strip().lower() in _CLASS_HEADS:
        return True
    n = len(cells)
    if isinstance(head, str) and sorted(cells) in (list(range(n)), list(range(1, n + 1))):
        raise InvalidInput(
            f"the first column of the costs, {quoted(head)}, may number the classes or hold costs; "
            'call it "class" if it numbers them, otherwise put a column "class" with the names of '
            "the classes before it"
        )
    return False
