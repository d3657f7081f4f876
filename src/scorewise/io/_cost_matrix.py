"""A cost matrix in a CSV file."""

from __future__ import annotations

import csv
import os
from io import StringIO
from pathlib import Path

from scorewise._fields import names_classes
from scorewise._text import quoted
from scorewise.errors import InvalidFile, InvalidInput
from scorewise.io._columns import parse_number
from scorewise.rules import CostMatrix


def read_cost_matrix(path: str | os.PathLike[str]) -> CostMatrix:
    r"""Return the cost matrix of a CSV file, with the names of its actions and classes.

    The first line names the actions; each further line is for a class. The first column may have
    the names of the classes, or their numbers from 0 on: lines are then put in the order of the
    classes of the predictions. Cells are separated by commas; or by semicolons or tabs, and then
    numbers may have decimal commas.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    CostMatrix
        A rule for :func:`scorewise.decide`, and for every argument that takes a rule.

    Raises
    ------
    InvalidFile
        If the file is no such table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import scorewise as sw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "costs.csv"
    >>> _ = path.write_text("class,dismiss,treat\nill,50,0\nhealthy,0,5\n")
    >>> costs = sw.io.read_cost_matrix(path)
    >>> costs.class_names, costs.actions
    (('ill', 'healthy'), ('dismiss', 'treat'))
    >>> costs.for_classes(["healthy", "ill"]).costs
    array([[ 0.,  5.],
           [50.,  0.]])
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
        header_line = text.partition("\n")[0]
        separator = max(",;\t", key=header_line.count)
        reader = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True)
        lines = [[cell.strip() for cell in line] for line in reader if any(line)]
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path.name!r} is not a valid CSV file: {error}") from None
    if len(lines) < 3 or min(map(len, lines)) != max(map(len, lines)):
        raise InvalidFile(
            f"{path.name!r} must have a line with the names of the actions, and then one line of "
            "costs for each class, all of the same length"
        )
    header, *table = lines
    if separator != ",":
        table = _with_decimal_points(table, path)
    try:
        first_cells = [_number_or_text(line[0]) for line in table]
        class_names = None
        if names_classes(header[0], first_cells):
            class_names = [line[0] for line in table]
            header, table = header[1:], [line[1:] for line in table]
        costs = [
            [_cost(cell, action) for cell, action in zip(line, header, strict=True)]
            for line in table
        ]
        return CostMatrix(costs, header, class_names)  # type: ignore[arg-type]
    except InvalidInput as error:
        raise InvalidFile(f"{path.name!r}: {error.problem}", *error.remedies) from None


def _with_decimal_points(table: list[list[str]], path: Path) -> list[list[str]]:
    """Return the cells of a European file, with points in place of decimal commas."""
    converted = [
        [
            cell.replace(",", ".") if parse_number(cell.replace(",", ".", 1)) is not None else cell
            for cell in line
        ]
        for line in table
    ]
    if converted != table and any("." in cell for line in table for cell in line[1:]):
        raise InvalidFile(f"{path.name!r} has numbers with decimal commas and others with points")
    return converted


def _number_or_text(cell: str) -> float | str:
    number = parse_number(cell)
    return cell if number is None else number


def _cost(cell: str, action: str) -> float:
    value = parse_number(cell)
    if value is None:
        raise InvalidInput(
            f"a cost of the action {quoted(action)} is {quoted(cell)}, which is not a number"
        )
    return value
