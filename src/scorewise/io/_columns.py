"""The columns of predictions in a table.

A table may have one column per member and class, or one per class of one model, which
:func:`member_columns` recognises by their names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scorewise._fields import ClassNames, checked_labels
from scorewise._text import quoted, quoted_names
from scorewise.errors import InvalidInput, Remedy
from scorewise.io._read_options import (
    IDS,
    LABELS,
    LOGITS,
    MEMBER_NAMES,
    PREDICTIONS,
    PROBS,
    WEIGHTS,
    ReadOptions,
    exact_name,
    member_fields,
    with_requested_kind,
)

# -- names of columns ------------------------------------------------------------------------------

# member and class by number; a minus after another separator is the sign of the class
_NUMBERED = re.compile(r"(\D*)(\d{1,9})(\D*[\W_](?=-\d)|\D+)(-?\d{1,9})(\D*)")
_NAMED = re.compile(r"(\D*)(\d{1,9})([^0-9A-Za-z]+)(.+)")  # the class by name
_WEIGHT = re.compile(r"weights?_(\d{1,9})")
_ONE_MODEL = {"probs": ("p", "probability", *PROBS, *PREDICTIONS), "logits": LOGITS}
_MOST_CLASSES = 20  # that advice names; more columns are features
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


def member_columns(
    columns: Sequence[str], options: ReadOptions
) -> Mapping[str, str] | Mapping[str, ColumnGrid]:
    """Return the columns of ``"probs"`` and ``"logits"``: one of tensors or lists, or a grid."""
    _check_member_axis(options)
    if options.probs is not None and options.probs in columns:
        return {options.field: options.probs}
    fields = {}
    if options.probs is None:
        fields = member_fields(columns, MEMBER_NAMES)
    grids = {} if fields else grids_of(columns, options)
    if not fields and not grids:
        fields = member_fields(columns, {"probs": PREDICTIONS})
    return grids or with_requested_kind(fields, options)


def grids_of(columns: Sequence[str], options: ReadOptions) -> dict[str, ColumnGrid]:
    """Return the columns of ``"probs"`` and ``"logits"``, if there is one per member and class.

    Raises
    ------
    InvalidInput
        If columns are missing, more than one set of columns fits, or they may be of one model and
        the user does not say so.
    """
    _check_member_axis(options)
    if options.probs is not None:
        grids = {options.field: _named_by_user(columns, options.probs, options)}
    else:
        possible = {field: grid_of(_candidates(columns, field), field) for field in MEMBER_NAMES}
        if not any(possible.values()):
            possible = {
                field: _one_model_grid(columns, heads, options)
                for field, heads in _ONE_MODEL.items()
            }
        grids = {field: grid for field, grid in possible.items() if grid is not None}
    for grid in grids.values():
        if options.one_model and grid.shape[0] != 1:
            raise InvalidInput(
                f"columns {quoted_names(grid.columns)} are of {grid.shape[0]} members",
                Remedy("one_model", False),
            )
    return with_requested_kind(grids, options)


def _check_member_axis(options: ReadOptions) -> None:
    if options.member_axis not in {None, 1}:
        raise InvalidInput(
            f"axis {options.member_axis} is not that of the members: each row of a table has "
            "members and classes (M, K)",
            Remedy("member_axis", None),
        )


def _named_by_user(columns: Sequence[str], name: str, options: ReadOptions) -> ColumnGrid:
    """Return the grid of columns whose names begin with a name."""
    candidates = [column for column in columns if column.startswith(name)]
    grid = grid_of(candidates, name)
    reason = None if grid or options.one_model else _uneven_columns(candidates)
    if reason is not None:
        raise InvalidInput(reason)
    grid = grid or _one_model_grid(candidates, [name.rstrip("_- .")], options)
    if grid is None:
        exact_name(columns, name, "probs")
        raise InvalidInput(
            f"column {quoted(name)} has one number per row; predictions need one column per member "
            "and class, such as probs_0_1"
        )
    return grid


def _candidates(columns: Sequence[str], field: str) -> list[str]:
    other_fields = {*LABELS, *IDS, *WEIGHTS}
    are_logits = field == "logits"
    return [
        column
        for column in columns
        if column.lower() not in other_fields
        and ("logit" in column.lower()) == are_logits
        and not _WEIGHT.fullmatch(column)
    ]


def _one_model_grid(
    columns: Sequence[str], heads: Sequence[str], options: ReadOptions
) -> ColumnGrid | None:
    """Return the columns of one model, such as ``probs_0`` or ``p_cat``, or those of the classes.

    They count only if the user says that they are of one model.
    """
    pattern = re.compile(
        rf"({'|'.join(map(re.escape, heads))})([\W_]+(?=-\d)|[\W_]+|(?=\d))(.+)", re.I
    )
    groups: dict[tuple[str, str], dict[str, str]] = {}
    for column in columns:
        if match := pattern.fullmatch(column):
            groups.setdefault((match[1], match[2]), {})[match[3]] = column
    sets = [group for group in groups.values() if len(group) > 1]
    if not sets and options.class_names and {*options.class_names} <= {*columns}:
        sets = [{name: name for name in options.class_names}]
    if not sets:
        return None
    if len(sets) > 1:
        shown = " or ".join(quoted_names(group.values()) for group in sets)
        raise InvalidInput(
            f"several sets of columns could be the predictions: {shown}",
            Remedy("probs", "NAME", "for the beginning of the names"),
        )
    (group,) = sets
    if not options.one_model:
        raise InvalidInput(
            f"columns {quoted_names(group.values())} have classes, and no members",
            Remedy("one_model", True, "if they are the predictions of one model"),
        )
    if all(name.isdecimal() for name in group):
        group = dict(sorted(group.items(), key=lambda item: int(item[0])))
        numbers = [int(name) for name in group]
        if not _counts_up(numbers):
            raise InvalidInput(f"classes are missing: there are {quoted_names(group.values())}")
        return ColumnGrid(tuple(group.values()), (1, len(group)), None, numbers[0])
    return ColumnGrid(tuple(group.values()), (1, len(group)), tuple(group))


def no_predictions(
    columns: Sequence[str], numeric: Sequence[str], options: ReadOptions, problem: str
) -> InvalidInput:
    """Return the error for a table without predictions: the most likely reason, or the problem.

    ``numeric`` are the columns whose numbers may be probabilities.
    """
    for field in MEMBER_NAMES:
        if (reason := _uneven_columns(_candidates(columns, field))) is not None:
            return InvalidInput(reason)
    others = {*LABELS, *IDS, *WEIGHTS, options.labels, options.ids}
    classes = tuple(name for name in numeric if not {name, name.lower()} & others)
    remedies = [Remedy("probs", "NAME", "for the column, or the beginning of the columns' names")]
    if 2 <= len(classes) <= _MOST_CLASSES:
        effect = "if these are the classes of one model"
        remedies = [Remedy("one_model", True, effect, Remedy("class_names", classes))]
    return InvalidInput(f"{problem} {quoted_names(columns)}", *remedies)


def _uneven_columns(columns: Sequence[str]) -> str | None:
    """Return which column is missing, or is one too many, if there almost is a grid."""
    for group in sorted(_grouped(columns, _NAMED), key=len, reverse=True):
        by_name = {(int(parts[1]), parts[3]): column for column, parts in group}
        members = sorted({m for m, _ in by_name})
        names = [name for _, name in by_name]
        counts = {name: names.count(name) for name in names}
        is_almost_grid = len(members) > 1 and max(counts.values()) == len(members)
        if not is_almost_grid or not _counts_up(members):
            continue
        for name in sorted(counts, key=lambda name: counts[name]):
            absent = [m for m in members if (m, name) not in by_name]
            if not absent:
                continue
            column = next(by_name[m, name] for m in members if (m, name) in by_name)
            head, number, between, _ = dict(group)[column]
            counterpart = f"{head}{absent[0]:0{len(number)}}{between}{name}"
            return (
                f"there is a column {quoted(column)} and no {quoted(counterpart)}, and all members "
                "must have the same classes; add what is missing, or leave out what is no class"
            )
    return None


def weight_columns(columns: Sequence[str]) -> list[str]:
    """Return the columns ``weights_0``, ``weights_1``, … in their order."""
    by_member = {int(match[1]): match[0] for c in columns if (match := _WEIGHT.fullmatch(c))}
    if by_member and not _counts_up(sorted(by_member)):
        raise InvalidInput(
            f"weights of members are missing: there are {quoted_names(by_member.values())}"
        )
    return [by_member[m] for m in sorted(by_member)]


def grid_of(candidates: Sequence[str], field: str) -> ColumnGrid | None:
    """Return the columns of predictions, if there is one per member and class.

    Columns whose names begin with the field's come first, then the largest grid.

    Raises
    ------
    InvalidInput
        If columns are missing, or more than one set of columns fits.
    """
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
            f"several sets of columns could be the {field}: {shown}",
            Remedy("probs", "NAME", "for the beginning of the names"),
        )
    if best.missing is not None:
        raise InvalidInput(best.missing)
    signed = (column for column in candidates if column not in best.columns and "-" in column)
    for column in signed:
        if (other := column.replace("-", "", 1)) in best.columns:
            raise InvalidInput(
                f"columns {quoted(column)} and {quoted(other)} differ in a sign alone; call the "
                f"columns by member and class, such as {field}_0_-1, or rename them"
            )
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
    are_signed = classes == [-1, 1] or classes == list(range(-1, len(classes) - 1))
    if len(classes) < 2 or not (_counts_up(members) and (are_signed or _counts_up(classes))):
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
    shape = len(members), len(classes)
    if are_signed:
        return ColumnGrid(columns, shape, tuple(map(str, classes)), missing=problem)
    return ColumnGrid(columns, shape, None, classes[0], problem)


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


def labels_from(
    labels: np.ndarray,
    shape: Sequence[int],
    names: ClassNames,
    first_class: int,
    labels_are: str | None,
    locate: Callable[[int], str] = "labels[{}]".format,
) -> np.ndarray:
    """Return class indices; if classes are numbered from 1 in the columns, labels are too."""
    is_text = any(isinstance(label, str) for label in labels.tolist())
    if first_class and labels_are != "indices" and not is_text and not are_numbers(names):
        names, labels_are = tuple(str(k + first_class) for k in range(shape[-1])), "names"
    return checked_labels(labels, shape, names, locate, labels_are=labels_are)


def are_numbers(names: ClassNames) -> bool:
    """Return whether the names of classes are whole numbers, which labels may be too."""
    return names is not None and all(name.lstrip("-").isdecimal() for name in names)
