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
WEIGHTS = ("weights", "weight")

_NUMBERED = re.compile(r"(\D*)(\d+)(\D+)(\d+)(\D*)")  # member and class by number
_NAMED = re.compile(r"(\D*)(\d+)([^0-9A-Za-z]+)(.+)")  # the class by name
_CLASS_FIRST = re.compile(r"class|label", re.IGNORECASE)


@dataclass(frozen=True)
class Grid:
    """One column per member and class: all classes of the first member, of the second, …"""

    columns: tuple[str, ...]
    shape: tuple[int, int]
    class_names: tuple[str, ...] | None


def named_column(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """The column of one of these names, whatever its capitals."""
    lower = {column.lower(): column for column in reversed(columns)}
    return next((lower[name] for name in names if name in lower), None)


def weight_columns(columns: Sequence[str]) -> list[str]:
    """The columns ``weights_0``, ``weights_1``, … in their order."""
    found = {}
    for column in columns:
        if match := re.fullmatch(r"weights?_(\d+)", column):
            found[int(match[1])] = column
    return [found[m] for m in sorted(found)]


def grid_of(columns: Sequence[str], field: str) -> Grid | None:
    """The columns of ``"probs"`` or ``"logits"``, if there is one per member and class.

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
        and not re.fullmatch(r"weights?_\d+", column)
    ]
    numbered = [_numbered(group) for group in _grouped(own, _NUMBERED)]
    found = [grid for grid in numbered if grid is not None]
    if not found:
        named = [_named(group) for group in _grouped(own, _NAMED)]
        found = [grid for grid in named if grid is not None]
    meant = [grid for grid in found if grid.columns[0].lower().startswith(field[:4])]
    candidates = meant or found
    if len(candidates) > 1:
        shown = " or ".join(f"{grid.columns[0]!r}, …" for grid in candidates)
        raise InvalidInput(f"which columns are the {field}: {shown}? Call them {field}_0_0, …")
    return candidates[0] if candidates else None


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
    """Members and classes from 0 or 1 on, none of them missing."""
    head, _, between, _, _ = group[0][1]
    places = {}
    for column, (_, one, _, two, _) in group:
        member, label = int(one), int(two)
        if _CLASS_FIRST.search(head) and not _CLASS_FIRST.search(between):
            member, label = label, member
        places[member, label] = column
    members, classes = (sorted({place[axis] for place in places}) for axis in (0, 1))
    if len(classes) < 2 or not (_run(members) and _run(classes)):
        return None
    missing = [(m, k) for m in members for k in classes if (m, k) not in places]
    if missing:
        m, k = missing[0]
        raise InvalidInput(
            f"there is no column for member {m} and class {k}, though there are "
            f"{group[0][0]!r} and {len(group) - 1} others like it"
        )
    shape = (len(members), len(classes))
    return Grid(tuple(places[m, k] for m in members for k in classes), shape, None)


def _named(group: _Group) -> Grid | None:
    """Members by number, the same names of classes for each, in the order of the first."""
    places = {(int(parts[1]), parts[3]): column for column, parts in group}
    members = sorted({m for m, _ in places})
    classes = list(dict.fromkeys(name for _, name in places))
    if len(classes) < 2 or not _run(members) or len(places) != len(members) * len(classes):
        return None
    columns = tuple(places[m, name] for m in members for name in classes)
    return Grid(columns, (len(members), len(classes)), tuple(classes))


def _run(numbers: list[int]) -> bool:
    """Whether numbers count up from 0 or 1."""
    return numbers[0] in {0, 1} and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
