"""The fields of predictions: their names in files, and checks of their values.

Fields are ``probs``, ``logits``, ``labels``, ``ids``, ``weights`` and ``class_names``. A table may
instead have one column per member and class, which :func:`grid_of` recognises by its names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import dtype_name, to_numpy
from scorewise.errors import InvalidInput, Remedy

ClassNames = tuple[str, ...] | None

UNLABELLED = -1
_FLOATS = ("float16", "float32", "float64")

# Names of each field in files; the first match counts, ignoring case.
PROBS = ("probs", "prob", "probabilities", "probas", "proba")
LOGITS = ("logits", "logit")
LABELS = ("labels", "label", "y", "target", "y_true")
IDS = ("ids", "id", "row_id", "sample_id")
WEIGHTS = ("weights",)  # "weight" is usually that of a row, not of a member
FIELD_NAMES = {
    "probs": PROBS,
    "logits": LOGITS,
    "labels": LABELS,
    "ids": IDS,
    "weights": WEIGHTS,
    "class_names": ("class_names", "classes", "classes_"),
}

# -- names of columns ------------------------------------------------------------------------------

_NUMBERED = re.compile(r"(\D*)(\d{1,9})(\D+)(\d{1,9})(\D*)")  # member and class by number
_NAMED = re.compile(r"(\D*)(\d{1,9})([^0-9A-Za-z]+)(.+)")  # the class by name
_WEIGHT = re.compile(r"weights?_(\d{1,9})")
# words before a number that show whether it is a class or a member
_CLASS_WORDS = {"class", "cls", "c", "k", "label", "category", "cat"}
_MEMBER_WORDS = {
    *("member", "m", "model", "net", "network", "tree", "estimator", "fold", "seed"),
    *("sample", "draw", "ensemble", "ens"),
}


@dataclass(frozen=True)
class ColumnGrid:
    """One column per member and class: all classes of the first member, then of the second, …"""

    columns: tuple[str, ...]
    shape: tuple[int, int]
    class_names: tuple[str, ...] | None
    first_class: int = 0  # labels have the same numbers
    missing: str | None = None  # message about a missing column


def named_column(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the column with the first name that matches, ignoring case, or None."""
    lower = {column.lower(): column for column in reversed(columns)}
    return next((lower[name] for name in names if name in lower), None)


def weight_columns(columns: Sequence[str]) -> list[str]:
    """Return the columns ``weights_0``, ``weights_1``, … in their order."""
    by_member = {int(match[1]): match[0] for c in columns if (match := _WEIGHT.fullmatch(c))}
    if by_member and not _counts_up(sorted(by_member)):
        raise InvalidInput(
            f"weights of members are missing: there are {', '.join(by_member.values())}"
        )
    return [by_member[m] for m in sorted(by_member)]


def grid_of(columns: Sequence[str], field: str) -> ColumnGrid | None:
    """Return the columns of ``"probs"`` or ``"logits"``, if there is one per member and class.

    Columns whose names begin with the field's come first, then the largest grid.

    Raises
    ------
    InvalidInput
        If columns are missing, or more than one set of columns fits.
    """
    other_fields = {*LABELS, *IDS, *WEIGHTS}
    are_logits = field == "logits"
    candidates = [
        column
        for column in columns
        if column.lower() not in other_fields
        and ("logit" in column.lower()) == are_logits
        and not _WEIGHT.fullmatch(column)
    ]
    possible = [_numbered_grid(group) for group in _grouped(candidates, _NUMBERED)]
    possible += [_named_grid(group, field) for group in _grouped(candidates, _NAMED)]
    grids = [grid for grid in possible if grid is not None]
    prefixed = [grid for grid in grids if grid.columns[0].lower().startswith(field[:4])]
    ranked = sorted(prefixed or grids, key=lambda grid: -len(grid.columns))
    if not ranked:
        return None
    best = ranked[0]
    others = [grid for grid in ranked if not set(grid.columns) & set(best.columns)]
    if others:
        shown = " or ".join(f"{grid.columns[0]!r}, …" for grid in (best, *others))
        raise InvalidInput(
            f"several sets of columns could be the {field}: {shown}; name them {field}_0_0, …"
        )
    if best.missing is not None:
        raise InvalidInput(best.missing)
    return best


_Group = list[tuple[str, tuple[str, ...]]]  # columns and the parts of their names


def _grouped(columns: Sequence[str], pattern: re.Pattern[str]) -> list[_Group]:
    """Columns whose names differ only in member and class."""
    groups: dict[tuple[str, ...], _Group] = {}
    for column in columns:
        if match := pattern.fullmatch(column):
            head, _, between, *tail = match.groups()
            key = (head, between, *tail[1:])
            groups.setdefault(key, []).append((column, match.groups()))
    return list(groups.values())


def _numbered_grid(group: _Group) -> ColumnGrid | None:
    """Members and classes that are numbered from 0 or 1."""
    head, _, between, _, _ = group[0][1]
    class_comes_first = _counts_classes_first(head, between)
    by_number: dict[tuple[int, int], str] = {}
    for column, (_, first, _, second, _) in group:
        m, k = (second, first) if class_comes_first else (first, second)
        number = int(m), int(k)
        if number in by_number:
            raise InvalidInput(
                f"columns {by_number[number]!r} and {column!r} have the same member and class"
            )
        by_number[number] = column
    members, classes = (sorted({number[axis] for number in by_number}) for axis in (0, 1))
    if len(classes) < 2 or not (_counts_up(members) and _counts_up(classes)):
        return None
    numbers = [(m, k) for m in members for k in classes]
    missing = next((number for number in numbers if number not in by_number), None)
    problem = None
    if missing is not None:
        problem = (
            f"there is no column for member {missing[0]} and class {missing[1]}, though there are "
            f"{group[0][0]!r} and {len(group) - 1} others like it"
        )
    columns = tuple(by_number[number] for number in numbers if number in by_number)
    return ColumnGrid(columns, (len(members), len(classes)), None, classes[0], problem)


def _counts_classes_first(head: str, between: str) -> bool:
    first, second = (re.findall("[a-z]+", text.lower()) or [""] for text in (head, between))
    return (first[-1] in _CLASS_WORDS and second[-1] not in _CLASS_WORDS) or (
        second[-1] in _MEMBER_WORDS and first[-1] not in _MEMBER_WORDS
    )


def _named_grid(group: _Group, field: str) -> ColumnGrid | None:
    """Members by number and classes by name, in the order of the first member's."""
    by_name = {(int(parts[1]), parts[3]): column for column, parts in group}
    members = sorted({m for m, _ in by_name})
    classes = list(dict.fromkeys(name for _, name in by_name))
    if len(classes) < 2 or not _counts_up(members):
        return None
    if len(by_name) != len(members) * len(classes):
        return None
    if len(members) == 1 and not group[0][0].lower().startswith(field[:4]):
        return None  # features are often called like this
    columns = tuple(by_name[m, name] for m in members for name in classes)
    return ColumnGrid(columns, (len(members), len(classes)), tuple(classes))


def _counts_up(numbers: list[int]) -> bool:
    """Whether numbers count up from 0 or 1."""
    return numbers[0] in {0, 1} and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


# -- values ----------------------------------------------------------------------------------------


def checked_members(values: Any, name: str) -> np.ndarray:
    """Return floats ``(N, M, K)``; whether they are probabilities is not checked."""
    floats = validate.floating(values, name)
    _check_float(dtype_name(floats), name)
    array = native(to_numpy(floats))
    check_shape(array.shape, name)
    return array


def _check_float(dtype: str, name: str) -> None:
    if dtype not in _FLOATS:
        raise InvalidInput(
            f"{name} has dtype {dtype}, which not every file can hold; convert it to float32 or "
            "float64"
        )


def native(array: np.ndarray) -> np.ndarray:
    """Return the array in native byte order."""
    if array.dtype.isnative:
        return array
    return array.astype(array.dtype.newbyteorder("="))


def check_shape(shape: Sequence[int], name: str) -> None:
    """Raise unless the shape is ``(N, M, K)``, with at least one member and two classes."""
    if len(shape) != 3:
        n_rows, n_classes = shape if len(shape) == 2 else ("N", "K")
        raise InvalidInput(
            f"{name} has shape {tuple(shape)}; it must be (N, M, K): rows, members, classes; "
            f"predictions of one model have shape ({n_rows}, 1, {n_classes})"
        )
    validate.class_count(tuple(shape), name)
    validate.member_count(tuple(shape))


def checked_names(names: Any, n_classes: int) -> tuple[str, ...] | None:
    """Return the names of the classes, all different; None if there are none."""
    if names is None:
        return None
    listed = names.tolist() if isinstance(names, np.ndarray) else names
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise InvalidInput(f"class_names must be {n_classes} names, not {names!r}")
    class_names = tuple(str(name) for name in listed)
    if len(class_names) != n_classes:
        raise InvalidInput(f"there are {len(class_names)} class_names for {n_classes} classes")
    duplicate = first_repeated(class_names)
    if duplicate is not None:
        raise InvalidInput(f"two classes are called {duplicate!r}; give each a different name")
    for i, name in enumerate(class_names):
        check_text(name, f"class_names[{i}]")
    return class_names


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs for the second time, or None."""
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
    locate: Callable[[int], str] = "labels[{}]".format,
) -> np.ndarray:
    """Return class indices ``(N,)`` from indices or names; −1 where a row has no label.

    ``locate`` names the label of a row in messages.
    """
    n, _, k = shape
    values = _array(labels, "labels")
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


def indices_from(numbers: Sequence[int | None], first_class: int) -> np.ndarray:
    """Return class indices from numbers that start at ``first_class``; None is no label."""
    below = [y for y in numbers if y is not None and y < first_class]
    if first_class and below:
        raise InvalidInput(
            f"a label is {below[0]}, and classes are numbered from {first_class} in the columns"
        )
    return np.array([UNLABELLED if y is None else y - first_class for y in numbers], np.int64)


def _array(values: Any, name: str) -> np.ndarray:
    try:
        return to_numpy(values) if hasattr(values, "dtype") else np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} are not an array: {error}") from None


def _indices_by_name(
    labels: list[Any], names: tuple[str, ...] | None, n_classes: int, locate: Callable[[int], str]
) -> np.ndarray:
    """Class indices from names; None is no label."""
    example = next((label for label in labels if label is not None), None)
    if names is None and example is not None:
        raise InvalidInput(
            f"labels are names, such as {example!r}, but the predictions have no class names",
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
        shown = ", ".join(names[:10]) + ", …" * (len(names) > 10)
        raise InvalidInput(
            f"{locate(row)} is {labels[row]!r}, which is not one of the classes {shown}"
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
            raise InvalidInput(f"ids[{i}] is {name!r}; ids must be whole numbers, or strings")
        check_text(name, f"ids[{i}]")
    names = np.empty(n, dtype=object)
    names[:] = listed
    return names


def check_text(text: str, name: str) -> None:
    """Raise unless every file format can store the text."""
    if "\0" in text:
        raise InvalidInput(f"{name} has a null character, which not every file can hold")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name} is not valid text: {error.reason}") from None


def checked_weights(weights: Any, shape: Sequence[int]) -> np.ndarray:
    """Return weights ``(M,)`` or ``(N, M)``; their values are checked where they are used."""
    n, m, _ = shape
    values = _array(weights, "weights")
    if values.dtype.kind in "iu":
        values = values.astype(np.float64)
    if values.dtype.kind != "f":
        raise InvalidInput(f"weights are {values.dtype}; they must be floating-point numbers")
    _check_float(dtype_name(values), "weights")
    values = native(values)
    if values.shape not in {(m,), (n, m)}:
        raise InvalidInput(
            f"weights have shape {values.shape}; they must be ({m},), one per member, or ({n}, {m})"
        )
    return values
