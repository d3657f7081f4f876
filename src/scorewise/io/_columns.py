"""What columns mean, by the names that people give them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from scorewise.errors import InvalidInput

# the first of these names that is there
PROBS = ("probs", "prob", "probabilities", "probas", "proba")
LOGITS = ("logits", "logit")
LABEL = ("labels", "label", "y", "target", "y_true")
ID = ("ids", "id", "row_id", "sample_id")
WEIGHTS = ("weights",)  # "weight" is mostly that of a row
FIELDS = {
    "probs": PROBS,
    "logits": LOGITS,
    "labels": LABEL,
    "ids": ID,
    "weights": WEIGHTS,
    "class_names": ("class_names", "classes", "classes_"),
}

_NUMBERED = re.compile(r"(\D*)(\d{1,9})(\D+)(\d{1,9})(\D*)")  # member and class by number
_NAMED = re.compile(r"(\D*)(\d{1,9})([^0-9A-Za-z]+)(.+)")  # the class by name
_WEIGHT = re.compile(r"weights?_(\d{1,9})")
# words before a number that tell what it counts
_CLASS_WORDS = {"class", "cls", "c", "k", "label", "category", "cat"}
_MEMBER_WORDS = {
    "member",
    "m",
    "model",
    "net",
    "network",
    "tree",
    "estimator",
    "fold",
    "seed",
    "sample",
    "draw",
    "ensemble",
    "ens",
}


@dataclass(frozen=True)
class Grid:
    """One column per member and class: all classes of the first member, of the second, …"""

    columns: tuple[str, ...]
    shape: tuple[int, int]
    class_names: tuple[str, ...] | None
    first_class: int = 0  # from which labels count too
    incomplete: tuple[str, ...] = ()  # what is missing, in words


def named_column(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """The column of one of these names, whatever its capitals."""
    lower = {column.lower(): column for column in reversed(columns)}
    return next((lower[name] for name in names if name in lower), None)


def weight_columns(columns: Sequence[str]) -> list[str]:
    """The columns ``weights_0``, ``weights_1``, … in their order."""
    found = {int(match[1]): match[0] for c in columns if (match := _WEIGHT.fullmatch(c))}
    if found and not _run(sorted(found)):
        raise InvalidInput(f"weights of members are missing: there are {', '.join(found.values())}")
    return [found[m] for m in sorted(found)]


def grid_of(columns: Sequence[str], field: str) -> Grid | None:
    """The columns of ``"probs"`` or ``"logits"``, if there is one per member and class.

    Those whose names begin so count first, then those that explain most columns.

    Raises
    ------
    InvalidInput
        If columns are missing, or it is not clear which ones are meant.
    """
    known = {*LABEL, *ID, *WEIGHTS}
    are_logits = field == "logits"
    own = [
        column
        for column in columns
        if column.lower() not in known
        and ("logit" in column.lower()) == are_logits
        and not _WEIGHT.fullmatch(column)
    ]
    found = [_numbered(group) for group in _grouped(own, _NUMBERED)]
    found += [_named(group, field) for group in _grouped(own, _NAMED)]
    grids = [grid for grid in found if grid is not None]
    meant = [grid for grid in grids if grid.columns[0].lower().startswith(field[:4])]
    ranked = sorted(meant or grids, key=lambda grid: -len(grid.columns))
    if not ranked:
        return None
    others = [grid for grid in ranked if not set(grid.columns) & set(ranked[0].columns)]
    if others:
        shown = " or ".join(f"{grid.columns[0]!r}, …" for grid in (ranked[0], *others))
        raise InvalidInput(f"which columns are the {field}: {shown}? Call them {field}_0_0, …")
    for part in ranked[0].incomplete:
        raise InvalidInput(part)
    return ranked[0]


_Group = list[tuple[str, tuple[str, ...]]]  # columns and their parts, all of one pattern


def _grouped(columns: Sequence[str], pattern: re.Pattern[str]) -> list[_Group]:
    """Columns whose names differ in member and class alone."""
    groups: dict[tuple[str, ...], _Group] = {}
    for column in columns:
        if match := pattern.fullmatch(column):
            head, _, between, *tail = match.groups()
            key = (head, between, *tail[1:])
            groups.setdefault(key, []).append((column, match.groups()))
    return list(groups.values())


def _numbered(group: _Group) -> Grid | None:
    """Members and classes from 0 or 1 on."""
    head, _, between, _, _ = group[0][1]
    swapped = _counts_classes_first(head, between)
    places: dict[tuple[int, int], str] = {}
    for column, (_, one, _, two, _) in group:
        place = (int(two), int(one)) if swapped else (int(one), int(two))
        if place in places:
            raise InvalidInput(f"columns {places[place]!r} and {column!r} are the same by number")
        places[place] = column
    members, classes = (sorted({place[axis] for place in places}) for axis in (0, 1))
    if len(classes) < 2 or not (_run(members) and _run(classes)):
        return None
    missing = [(m, k) for m in members for k in classes if (m, k) not in places]
    wrong = [
        f"there is no column for member {m} and class {k}, though there are {group[0][0]!r} and "
        f"{len(group) - 1} others like it"
        for m, k in missing[:1]
    ]
    found = tuple(places[m, k] for m in members for k in classes if (m, k) in places)
    return Grid(found, (len(members), len(classes)), None, classes[0], tuple(wrong))


def _counts_classes_first(head: str, between: str) -> bool:
    first, second = (re.findall("[a-z]+", text.lower()) or [""] for text in (head, between))
    return (first[-1] in _CLASS_WORDS and second[-1] not in _CLASS_WORDS) or (
        second[-1] in _MEMBER_WORDS and first[-1] not in _MEMBER_WORDS
    )


def _named(group: _Group, field: str) -> Grid | None:
    """Members by number, the same names of classes for each, in the order of the first."""
    places = {(int(parts[1]), parts[3]): column for column, parts in group}
    members = sorted({m for m, _ in places})
    classes = list(dict.fromkeys(name for _, name in places))
    if len(classes) < 2 or not _run(members) or len(places) != len(members) * len(classes):
        return None
    if len(members) == 1 and not group[0][0].lower().startswith(field[:4]):
        return None  # such names are too common
    columns = tuple(places[m, name] for m in members for name in classes)
    return Grid(columns, (len(members), len(classes)), tuple(classes))


def _run(numbers: list[int]) -> bool:
    """Whether numbers count up from 0 or 1."""
    return numbers[0] in {0, 1} and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
