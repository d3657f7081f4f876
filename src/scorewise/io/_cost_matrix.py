"""A cost matrix in a CSV file."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scorewise._text import quoted
from scorewise.errors import InvalidFile, Remedy
from scorewise.io._columns import parse_number

# possible headers of a column with the names of the classes
_HEADS = {"", "class", "classes", "class_name", "label", "y", "truth", "true"}


def read_cost_matrix(
    path: str | os.PathLike[str], class_names: Sequence[str] | None = None, *, ordered: bool = True
) -> tuple[np.ndarray, list[str]]:
    r"""Return costs ``(K, A)`` and the names of the actions, from a CSV file.

    The first line names the actions; each further line is for a class. If the first column has the
    names of the classes, or their numbers from 0 on, lines are put in the order of the classes.

    Parameters
    ----------
    path : str or path
    class_names : sequence of str, optional
        Names of the classes in the order of the predictions.
    ordered : bool
        Put lines in the order of the classes; False where that order does not matter.

    Raises
    ------
    InvalidFile
        If the file is no such table, or its classes are not those of the predictions.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import scorewise as sw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "costs.csv"
    >>> _ = path.write_text("class,dismiss,treat\nill,50,0\nhealthy,0,5\n")
    >>> sw.io.read_cost_matrix(path, class_names=["healthy", "ill"])
    (array([[ 0.,  5.],
           [50.,  0.]]), ['dismiss', 'treat'])
    """
    path = Path(path)
    class_names = None if class_names is None else tuple(class_names)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [line for line in csv.reader(file, strict=True) if any(line)]
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path.name!r} is not a valid CSV file: {error}") from None
    if len(lines) < 3 or min(map(len, lines)) != max(map(len, lines)):
        raise InvalidFile(
            f"{path.name!r} must have a line with the names of the actions, and then one line of "
            "costs for each class, all of the same length"
        )
    header, *table = lines
    first_cells = [line[0].strip() for line in table]
    if (
        any(parse_number(cell) is None for cell in first_cells)
        or header[0].strip().lower() in _HEADS
        or set(first_cells) == set(class_names or ())
    ):
        header = header[1:]
        table = _in_order(table, class_names, path) if ordered else [line[1:] for line in table]
    actions = [name.strip() for name in header]
    costs = [
        [_cost(cell, action, path) for cell, action in zip(line, actions, strict=True)]
        for line in table
    ]
    return np.array(costs), actions


def _in_order(
    table: list[list[str]], class_names: tuple[str, ...] | None, path: Path
) -> list[list[str]]:
    """The lines without their names, in the order of the classes."""
    by_class = {name.strip(): cells for name, *cells in table}
    if len(by_class) != len(table):
        raise InvalidFile(f"{path.name!r} has two lines for the same class")
    by_number = [str(k) for k in range(len(table))]
    if class_names is None or set(by_class) != set(class_names):
        if set(by_class) == set(by_number):
            return [by_class[number] for number in by_number]
        if class_names is None:
            raise InvalidFile(
                f"{path.name!r} names classes, such as {quoted(table[0][0])}, and the predictions "
                f"do not (lines may also be numbered, from 0 to {len(table) - 1})",
                Remedy("class_names", ..., "the names in the order of the predictions"),
            )
        _refuse_other_classes(by_class, class_names, path)
    return [by_class[name] for name in class_names]


def _refuse_other_classes(
    by_class: dict[str, list[str]], class_names: tuple[str, ...], path: Path
) -> None:
    for name in by_class:
        if name not in class_names:
            raise InvalidFile(
                f"{path.name!r} has a line for {quoted(name)}, and there is no such class; the "
                f"first class is {quoted(class_names[0])}"
            )
    missing = next(name for name in class_names if name not in by_class)
    raise InvalidFile(f"{path.name!r} has no line for the class {quoted(missing)}")


def _cost(cell: str, action: str, path: Path) -> float:
    value = parse_number(cell)
    if value is None:
        raise InvalidFile(
            f"{path.name!r}: a cost of the action {quoted(action)} is {quoted(cell)}, which is "
            "not a number"
        )
    return value
