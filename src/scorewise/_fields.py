"""Checks of the labels, ids and class names of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from numbers import Integral, Real
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._text import quoted, quoted_names
from scorewise.errors import InvalidInput, Remedy

ClassNames = tuple[str, ...] | None

UNLABELLED = -1
LABEL_KINDS = ("names", "indices")

_UNKNOWN = -2  # the index of a label that is no class
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.0*)?")


def class_text(label: Any) -> str:
    """Return the name of a class as text: of 1, 1.0 and "1" it is the same.

    Examples
    --------
    >>> class_text(1), class_text(1.0), class_text("cat"), class_text(True)
    ('1', '1', 'cat', 'True')
    """
    label = label.item() if isinstance(label, np.generic) else label
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def checked_names(names: Any, n_classes: int) -> tuple[str, ...] | None:
    """Return the names of the classes as text, all different; None if there are none."""
    if names is None:
        return None
    class_names = tuple(class_text(name) for name in _listed(names, n_classes))
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


def _listed(names: Any, n_classes: int) -> list[Any]:
    """Return the names of classes in their order; of a mapping, by the indices that it has."""
    if isinstance(names, Mapping):
        for by_index in (names, {index: name for name, index in names.items()}):
            if set(by_index) == set(range(n_classes)):
                return [by_index[k] for k in range(n_classes)]
    listed = names.tolist() if isinstance(names, np.ndarray) else names
    if isinstance(listed, str | Set | Mapping) or not isinstance(listed, Iterable):
        raise InvalidInput(
            f"class_names must be {n_classes} names in the order of the predictions, not "
            f"{quoted(names)}"
        )
    return list(listed)


def check_same_names(names: ClassNames, others: ClassNames, subject: str = "class_names") -> None:
    """Raise if the classes of the subject are not those of the predictions, in the same order."""
    if names == others:
        return
    pairs = enumerate(zip(names or (), others or (), strict=True))
    k, name, other = next((k, a, b) for k, (a, b) in pairs if a != b)
    raise InvalidInput(
        f"class {k} is called {quoted(name)} in the predictions and {quoted(other)} in {subject}; "
        "the classes must be the same, in the same order"
    )


def check_names_of_model(names: ClassNames, expected: ClassNames, subject: str, why: str) -> None:
    """Raise if predictions lack the class names that the subject was made with, or have others.

    Predictions without names have classes that are called by their numbers.
    """
    for k, other in enumerate(expected or ()):
        name = str(k) if names is None else names[k]
        if name == other:
            continue
        if names is None:
            raise InvalidInput(
                f"these predictions have no class names, and class {k} is called {quoted(other)} "
                f"in {subject}",
                Remedy("class_names", ..., "the names in the order of the predictions"),
            )
        raise InvalidInput(
            f"class {k} is called {quoted(name)} here and {quoted(other)} in {subject}: {why}"
        )


def checked_classes(names: Any, n_classes: int) -> np.ndarray | None:
    """Return the labels of the classes, read-only and of their own type; None if unknown."""
    if names is None:
        return None
    checked_names(names, n_classes)
    classes = validate.class_labels(_listed(names, n_classes), "class_names")
    classes.flags.writeable = False
    return classes


def checked_labels(
    labels: Any,
    shape: Sequence[int],
    names: tuple[str, ...] | None,
    locate: Callable[[int], str] = "labels[{}]".format,
    *,
    labels_are: str | None = None,
    all_labelled: bool = False,
) -> np.ndarray:
    """Return class indices ``(N,)`` from labels as in ``y``; −1 where a row has no label.

    Labels are names of classes, or indices. Whole numbers are names if a class has a number as its
    name, and raise if they could be either; ``labels_are`` decides then. Booleans, −1 and 1, and
    floats that are whole numbers are read where they have a single meaning.

    Parameters
    ----------
    labels : array (N,)
        None and NaN are rows without a label, as is −1 unless it is a class.
    shape : sequence of int
        Of the predictions, rows first and classes last.
    names : tuple of str, optional
        Of the classes.
    locate : callable
        Names the label of a row in messages.
    labels_are : "names" or "indices", optional
    all_labelled : bool
        Whether every row must have a label, so that −1 and 1 are two classes.
    """
    n, k = shape[0], shape[-1]
    if labels_are is not None:
        validate.choice(labels_are, "labels_are", LABEL_KINDS)
    values = as_array(labels, "labels")
    if values.shape != (n,):
        raise InvalidInput(f"labels have shape {values.shape} for {n} rows; they must be ({n},)")
    if not n:
        return np.empty(0, dtype=np.int64)
    listed, missing = _without_missing(values)
    numbers = _whole_numbers(listed, missing, locate)
    if numbers is None:
        return _indices_by_name(listed, missing, names, locate)
    if names is not None and labels_are is None and _are_truth_values(listed, names):
        if set(names) == {"False", "True"}:
            numbers_or_bools = np.array(listed.tolist()).astype(bool)
            return _indices_by_name(numbers_or_bools, missing, names, locate)
        raise InvalidInput(
            f"labels are True and False, and the classes are {quoted_names(names)}",
            Remedy("labels_are", "indices", f"if True is {quoted(names[-1])}"),
        )
    return _indices_of_numbers(numbers, missing, k, names, locate, labels_are, all_labelled)


def _are_truth_values(values: np.ndarray, names: tuple[str, ...]) -> bool:
    """Return whether labels are booleans, or the classes are True and False."""
    if set(names) == {"False", "True"}:
        return set(values.tolist()) <= {0, 1}
    are_bools = values.dtype.kind == "b" or (
        values.dtype.kind == "O" and all(isinstance(x, bool | np.bool_) for x in values)
    )
    return bool(len(values)) and are_bools and _numbers_of(names) is None


def as_array(values: Any, name: str) -> np.ndarray:
    try:
        return to_numpy(values) if hasattr(values, "dtype") else np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} are not an array: {error}") from None


def _without_missing(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels that are not None or NaN, and where they are missing."""
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    elif values.dtype.kind == "O":
        missing = np.array([_is_missing(x) for x in values.tolist()])
    else:
        missing = np.zeros(len(values), dtype=bool)
    return values[~missing], missing


def _is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, or the missing value of pandas, which has no truth."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def _whole_numbers(
    values: np.ndarray, missing: np.ndarray, locate: Callable[[int], str]
) -> np.ndarray | None:
    """Return labels as 64-bit integers, or None if they are names."""
    if values.dtype.kind == "O":
        kinds = {type(x) for x in values.tolist()}
        if not all(issubclass(kind, Integral | Real) for kind in kinds):
            return None
        values = np.array(values.tolist(), dtype=None if kinds else np.int64)
    if values.dtype.kind == "U":
        return None
    if values.dtype.kind not in "iufb":
        raise InvalidInput(f"labels have dtype {values.dtype}; they must be numbers or names")
    with np.errstate(invalid="ignore"):  # infinite labels are no whole numbers
        whole = values.astype(np.int64)
    wrong = whole != values
    if wrong.any():
        place = int(np.flatnonzero(~missing)[np.argmax(wrong)])
        raise InvalidInput(
            f"{locate(place)} is {values[np.argmax(wrong)]}; labels must be class indices or names "
            "of classes (regression is not supported)"
        )
    return whole


def _indices_of_numbers(
    numbers: np.ndarray,
    missing: np.ndarray,
    n_classes: int,
    names: tuple[str, ...] | None,
    locate: Callable[[int], str],
    labels_are: str | None,
    all_labelled: bool,
) -> np.ndarray:
    """Return class indices from whole numbers, which are class names or indices."""
    rows = np.flatnonzero(~missing)
    class_numbers = _numbers_of(names)
    by_index = np.where((numbers >= UNLABELLED) & (numbers < n_classes), numbers, _UNKNOWN)
    if class_numbers is None and labels_are == "names":
        raise InvalidInput(
            f"{locate(int(rows[0]))} is {numbers[0]}, and no class has a number as its name; the "
            f"classes are {quoted_names(names or ())}",
            Remedy("labels_are", "indices", "if labels are indices"),
        )
    if class_numbers is None:
        if labels_are is None and names is None and _are_signs(numbers):
            by_index = _of_signs(numbers, n_classes, all_labelled)
        return _all_known(
            by_index, missing, lambda i: _outside(numbers, i, rows, n_classes, locate)
        )
    order = np.argsort(class_numbers)  # classes that are no numbers, NaN, come last
    place = np.searchsorted(class_numbers[order], numbers).clip(max=n_classes - 1)
    by_name = np.where(class_numbers[order][place] == numbers, order[place], _UNKNOWN)
    if UNLABELLED not in class_numbers:
        by_name = np.where(numbers == UNLABELLED, UNLABELLED, by_name)
    elif labels_are is None:
        by_index = np.where(by_index == UNLABELLED, _UNKNOWN, by_index)
    if labels_are == "indices":
        return _all_known(
            by_index, missing, lambda i: _outside(numbers, i, rows, n_classes, locate)
        )
    are_indices = labels_are is None and bool((by_index != _UNKNOWN).all())
    if are_indices and (by_name != _UNKNOWN).all() and (by_name != by_index).any():
        row = int(np.argmax(by_name != by_index))
        raise InvalidInput(
            f"{locate(int(rows[row]))} is {numbers[row]}, which may be the class called "
            f"{numbers[row]} or the class of index {numbers[row]}, called "
            f"{quoted((names or ())[by_index[row]])}",
            Remedy("labels_are", "names"),
            Remedy("labels_are", "indices"),
        )
    remedies = [Remedy("labels_are", "indices", "if labels are indices")] if are_indices else []
    return _all_known(
        by_name,
        missing,
        lambda i: InvalidInput(
            f"{locate(int(rows[i]))} is {numbers[i]}, which is not one of the classes "
            f"{quoted_names(names or ())}",
            *remedies,
        ),
    )


def _numbers_of(names: tuple[str, ...] | None) -> np.ndarray | None:
    """Return the names of classes as numbers, NaN for other names; None if no name is a number."""
    if names is None or not any(map(_NUMBER.fullmatch, names)):
        return None
    return np.array([float(name) if _NUMBER.fullmatch(name) else np.nan for name in names])


def _are_signs(numbers: np.ndarray) -> bool:
    """Return whether numbers are −1 and 1, both of them."""
    return bool((np.abs(numbers) == 1).all() and np.ptp(numbers) == 2) if numbers.size else False


def _of_signs(numbers: np.ndarray, n_classes: int, all_labelled: bool) -> np.ndarray:
    """Return class indices from −1 and 1, where these are two classes."""
    if n_classes != 2:
        return numbers
    if not all_labelled:
        raise InvalidInput(
            "labels are -1 and 1, and -1 may be a class or a row without a label",
            Remedy("class_names", (-1, 1), "if it is a class"),
            Remedy("labels_are", "indices", "if it is a row without a label"),
        )
    return (numbers + 1) // 2


def _outside(
    numbers: np.ndarray, i: int, rows: np.ndarray, n_classes: int, locate: Callable[[int], str]
) -> InvalidInput:
    from_one = numbers.min() == 1 and numbers.max() == n_classes
    names = Remedy("class_names", range(1, n_classes + 1), "if classes are numbered from 1")
    return InvalidInput(
        f"{locate(int(rows[i]))} is {numbers[i]}; labels must be from 0 to {n_classes - 1}, or "
        f"{UNLABELLED} where there is none",
        *([names] if from_one else []),
    )


def _all_known(
    indices: np.ndarray, missing: np.ndarray, error: Callable[[int], InvalidInput]
) -> np.ndarray:
    """Return class indices of all rows; raises the error of the first label that is unknown."""
    unknown = indices == _UNKNOWN
    if unknown.any():
        raise error(int(np.argmax(unknown)))
    all_rows = np.full(len(missing), UNLABELLED, dtype=np.int64)
    all_rows[~missing] = indices
    return all_rows


def _indices_by_name(
    labels: np.ndarray,
    missing: np.ndarray,
    names: tuple[str, ...] | None,
    locate: Callable[[int], str],
) -> np.ndarray:
    """Return class indices from names."""
    listed = labels.tolist()
    if names is None and listed:
        raise InvalidInput(
            f"labels are names, such as {quoted(listed[0])}, but the predictions have no class "
            "names",
            Remedy("class_names", ..., "the names in the order of the predictions"),
        )
    names = names or ()
    index_of: dict[Any, int] = {name: k for k, name in enumerate(names)}
    try:
        text = [x if isinstance(x, str) else class_text(x) for x in listed]
        indices = np.array([index_of.get(x, _UNKNOWN) for x in text], dtype=np.int64)
    except TypeError as error:
        raise InvalidInput(f"labels are neither numbers nor names: {error}") from None
    rows = np.flatnonzero(~missing)
    return _all_known(
        indices,
        missing,
        lambda i: InvalidInput(
            f"{locate(int(rows[i]))} is {quoted(listed[i])}, which is not one of the classes "
            f"{quoted_names(names)}"
        ),
    )


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
