"""The names of fields and columns in files.

Fields are ``probs``, ``logits``, ``labels``, ``ids``, ``weights`` and ``class_names``. A table may
instead have one column per member and class, which :func:`grid_of` recognises by its names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scorewise._fields import UNLABELLED
from scorewise._text import quoted, quoted_names
from scorewise.errors import InvalidInput

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
            f"weights of members are missing: there are {quoted_names(by_member.values())}"
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
        shown = " or ".join(f"{quoted(grid.columns[0])}, …" for grid in (best, *others))
        raise InvalidInput(
            f"several sets of columns could be the {field}: {shown}; name them {field}_0_0, …"
        )
    if best.missing is not None:
        raise InvalidInput(best.missing)
    return best


_Group = list[tuple[str, tuple[str, ...]]]  # columns and the parts of their names


def _grouped(columns: Sequence[str], pattern: re.Pattern[str]) -> list[_Group]:
    """Return columns whose names differ only in member and class."""
    groups: dict[tuple[str, ...], _Group] = {}
    for column in columns:
        if match := pattern.fullmatch(column):
            head, _, between, *tail = match.groups()
            key = (head, between, *tail[1:])
            groups.setdefault(key, []).append((column, match.groups()))
    return list(groups.values())


def _numbered_grid(group: _Group) -> ColumnGrid | None:
    """Return the grid of members and classes that are numbered from 0 or 1, or None."""
    head, _, between, _, _ = group[0][1]
    class_comes_first = _counts_classes_first(head, between)
    by_number: dict[tuple[int, int], str] = {}
    for column, (_, first, _, second, _) in group:
        m, k = (second, first) if class_comes_first else (first, second)
        number = int(m), int(k)
        if number in by_number:
            raise InvalidInput(
                f"columns {quoted(by_number[number])} and {quoted(column)} have the same member "
                "and class"
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
            f"{quoted(group[0][0])} and {len(group) - 1} others like it"
        )
    columns = tuple(by_number[number] for number in numbers if number in by_number)
    return ColumnGrid(columns, (len(members), len(classes)), None, classes[0], problem)


def _counts_classes_first(head: str, between: str) -> bool:
    first, second = (re.findall("[a-z]+", text.lower()) or [""] for text in (head, between))
    return (first[-1] in _CLASS_WORDS and second[-1] not in _CLASS_WORDS) or (
        second[-1] in _MEMBER_WORDS and first[-1] not in _MEMBER_WORDS
    )


def _named_grid(group: _Group, field: str) -> ColumnGrid | None:
    """Return the grid of members by number and classes by name, or None."""
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
    """Return whether numbers count up from 0 or 1."""
    return numbers[0] in {0, 1} and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def parse_number(text: str) -> float | None:
    """Return the number that a cell holds, or None.

    Only what every program reads as this number counts: Python alone takes ``0.1_5`` for 0.15, and
    ``1e400`` is too large to be one.
    """
    if "_" in text or not text.isascii():
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isinf(number) and "inf" not in text.lower() else number


def indices_from(numbers: Sequence[int | None], first_class: int) -> np.ndarray:
    """Return class indices from numbers that start at ``first_class``; None is no label."""
    below = [y for y in numbers if y is not None and y < first_class]
    if first_class and below:
        raise InvalidInput(
            f"a label is {below[0]}, and classes are numbered from {first_class} in the columns"
        )
    return np.array([UNLABELLED if y is None else y - first_class for y in numbers], np.int64)
