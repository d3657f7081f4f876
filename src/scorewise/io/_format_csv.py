"""One column per member and class in a ``.csv`` file, for small files.

The first line may be a comment with metadata: the dtype, whether ids are text, the names of the
classes and the members' weights.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._fields import UNLABELLED, checked_names
from scorewise._tables import from_spreadsheet_text, spreadsheet_text
from scorewise._text import quoted
from scorewise.errors import InvalidFile, InvalidInput
from scorewise.io._columns import (
    ColumnGrid,
    grids_of,
    labels_from,
    no_predictions,
    parse_number,
    weight_columns,
)
from scorewise.io._formats import FileFormat, TableReader
from scorewise.io._predictions import Predictions
from scorewise.io._read_options import ReadOptions, other_fields

_COMMENT = "# scorewise "
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")

# the strings of JSON, and characters that matter to a spreadsheet, as JSON can write them
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in ",;=+-@"}

_BOOLEANS = {"True": True, "False": False, "TRUE": True, "FALSE": False}

_Cells = dict[str, tuple[str, ...]]  # by column


def _read(path: Path, options: ReadOptions) -> Predictions:
    """Return the predictions of the whole table."""
    columns, separator, metadata = _columns(path)
    try:
        return _predictions(columns, separator, metadata, options, path)
    except InvalidInput:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidFile(f"the first line of {path.name!r} is invalid: {error}") from None


def _table(path: Path) -> TableReader:
    """Return the columns of the table as text."""
    columns, _, _ = _columns(path)
    return TableReader(
        list(columns), lambda names: zip(*(columns[name] for name in names), strict=True)
    )


def _columns(path: Path) -> tuple[_Cells, str, dict[str, Any]]:
    """Return the cells of the whole table, what separates them, and the metadata."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path.name!r} is not UTF-8 text: {error}") from None
    metadata, start = _comment(text, path)
    separator = _separator(text[start:])
    longest = csv.field_size_limit(len(text) + 1)
    try:
        table_text = StringIO(text[start:], newline="")
        lines = list(csv.reader(table_text, delimiter=separator, strict=True))
    except csv.Error as error:
        raise InvalidFile(f"{path.name!r} is not valid CSV: {error}") from None
    finally:
        csv.field_size_limit(longest)
    lines = [line for line in lines if line]
    if not lines:
        raise InvalidFile(f"{path.name!r} is empty; its first line must name the columns")
    header, *table = lines
    if (duplicate := validate.first_repeated(header)) is not None:
        raise InvalidFile(f"{path.name!r} has two columns {quoted(duplicate)}")
    if "rows" in metadata and (len(table) != metadata["rows"] or not text.endswith("\n")):
        raise InvalidFile(
            f"{path.name!r} is truncated: it has {len(table)} of {metadata['rows']} rows"
        )
    for row, cells in enumerate(table):
        if len(cells) != len(header):
            raise InvalidFile(
                f"{path.name!r}: row {row} has {len(cells)} cells, and the first line names "
                f"{len(header)} columns"
            )
    cells_of_columns = zip(*table, strict=True) if table else [()] * len(header)
    return dict(zip(header, cells_of_columns, strict=True)), separator, metadata


def _comment(text: str, path: Path) -> tuple[dict[str, Any], int]:
    """The metadata of the comment in the first line, and where the table begins."""
    if not text.startswith(_COMMENT):
        return {}, 0
    line, _, _ = text.partition("\n")
    try:
        metadata = json.loads(line.removeprefix(_COMMENT))
        if not isinstance(metadata, dict):
            raise ValueError(f"{quoted(metadata)} is not a mapping")
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"the first line of {path.name!r} is not valid JSON: {error}") from None
    return metadata, len(line) + 1


def _separator(text: str) -> str:
    """Return what separates the columns: the only one of comma, semicolon and tab in the header.

    If there are several of them, or none, it is the comma.
    """
    header = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").partition("\n")[0])
    separators = [separator for separator in ",;\t" if separator in header]
    return separators[0] if len(separators) == 1 else ","


def _with_decimal_points(columns: _Cells, names: Iterable[str], path: Path) -> _Cells:
    """Return the columns with decimal points in the numbers of some of them."""
    numbers = {name: columns[name] for name in names}
    if not any("," in cell for cells in numbers.values() for cell in cells):
        return columns
    for name, cells in numbers.items():
        if point := next((cell for cell in cells if "." in cell), None):
            raise InvalidFile(
                f"{path.name!r}: column {quoted(name)} has {quoted(point)}, and other numbers have "
                "a decimal comma; write all with a point or all with a comma"
            )
    return columns | {
        name: tuple(cell.replace(",", ".") for cell in cells) for name, cells in numbers.items()
    }


def _predictions(
    columns: _Cells, separator: str, metadata: dict[str, Any], options: ReadOptions, path: Path
) -> Predictions:
    fields: dict[str, Any] = {}
    first_class = 0
    names = metadata.get("class_names")
    grids = grids_of(list(columns), options)
    if not grids:
        numeric = [name for name, cells in columns.items() if all(map(_may_be_probability, cells))]
        problem = (
            "there are no columns of predictions, one per member and class, such as probs_0_1; "
            f"with the separator {quoted(separator)} it has"
        )
        raise no_predictions(list(columns), numeric, options, problem)
    others = other_fields(list(columns), options)
    weights = weight_columns(list(columns))
    if separator != ",":
        used = [column for grid in grids.values() for column in grid.columns]
        columns = _with_decimal_points(columns, [*used, *weights], path)
    for name, grid in grids.items():
        dtype = np.dtype(metadata.get(name, "float64"))
        fields[name] = _grid_values(columns, grid, dtype, path)
        names = grid.class_names if names is None else names
        first_class = grid.first_class
    names = checked_names(options.class_names if names is None else names, grid.shape[-1])
    if "labels" in others and options.reads_labels:
        is_own = options.labels is None and options.labels_are is None
        labels_are = metadata.get("labels_are") if is_own else options.labels_are
        labels = _labels(columns[others["labels"]])
        shape = (len(labels), *grid.shape)
        fields["labels"] = labels_from(labels, shape, names, first_class, labels_are)
    if "ids" in others:
        cells = columns[others["ids"]]
        if metadata.get("ids") == "text":
            fields["ids"] = np.array([from_spreadsheet_text(cell) for cell in cells], object)
        else:
            are_text = not all(map(_is_whole, cells))
            fields["ids"] = np.array(cells, object if are_text else np.int64)
    dtype = np.dtype(metadata.get("weights_dtype", "float64"))
    if "weights" in metadata:
        fields["weights"] = np.array(metadata["weights"], dtype)
    elif weights:
        values = [_column_values(columns[name], name, dtype, path) for name in weights]
        fields["weights"] = np.stack(values, axis=-1)
    return Predictions(class_names=names, labels_are="indices", **fields)


def _may_be_probability(cell: str) -> bool:
    number = parse_number(cell.replace(",", "."))
    return number is not None and 0 <= number <= 1


def _is_whole(text: str) -> bool:
    """Return whether text is a 64-bit integer without leading zeros; 007 is a name."""
    return bool(_WHOLE.fullmatch(text)) and -(2**63) <= int(text) < 2**63


def _labels(cells: tuple[str, ...]) -> np.ndarray:
    """Return whole numbers, booleans or names; an empty cell is a row without a label."""
    # pandas writes whole numbers with gaps as 1.0
    numbers = [cell.removesuffix(".0").removesuffix(",0") for cell in cells]
    labels: list[Any] = [cell or None for cell in cells]
    if all(_is_whole(cell) for cell in numbers if cell):
        labels = [int(cell) if cell else None for cell in numbers]
    elif all(cell in _BOOLEANS for cell in cells if cell):
        labels = [_BOOLEANS[cell] if cell else None for cell in cells]
    are_objects = not labels or None in labels or isinstance(labels[0], str)
    return np.array(labels, dtype=object if are_objects else None)


def _grid_values(columns: _Cells, grid: ColumnGrid, dtype: np.dtype[Any], path: Path) -> np.ndarray:
    m, k = grid.shape
    values = np.empty((len(columns[grid.columns[0]]), m, k), dtype)
    for (i, j), name in zip(product(range(m), range(k)), grid.columns, strict=True):
        values[:, i, j] = _column_values(columns[name], name, dtype, path)
    return values


def _column_values(
    cells: tuple[str, ...], name: str, dtype: np.dtype[Any], path: Path
) -> np.ndarray:
    numbers = [parse_number(cell) for cell in cells]
    if None in numbers:
        row = numbers.index(None)
        raise InvalidFile(
            f"{path.name!r}: row {row}, column {quoted(name)} is {quoted(cells[row])}, which is "
            "not a number"
        )
    try:
        with np.errstate(over="raise"):
            return np.array(numbers, dtype=np.float64).astype(dtype)
    except FloatingPointError:
        raise InvalidFile(
            f"{path.name!r}: column {quoted(name)} has numbers too large for {dtype}"
        ) from None


def _write(predictions: Predictions, path: Path) -> None:
    """Write a comment, a header, and a line for each row."""
    _, m, k = predictions.shape
    first = next(predictions.chunks(1))
    members = [name for name in ("probs", "logits") if name in predictions.fields]
    metadata: dict[str, Any] = {name: str(getattr(first, name).dtype) for name in members}
    if predictions.class_names is not None:
        metadata["class_names"] = list(predictions.class_names)
    if predictions.has_ambiguous_labels:
        metadata["labels_are"] = "indices"
    if predictions.member_weights is not None:
        metadata["weights"] = predictions.member_weights.tolist()
        metadata["weights_dtype"] = str(predictions.member_weights.dtype)
    elif first.weights is not None:
        metadata["weights_dtype"] = str(first.weights.dtype)
    if first.ids is not None and first.ids.dtype == object:
        metadata["ids"] = "text"
    metadata["rows"] = len(predictions)
    header: list[str] = [name for name in ("ids", "labels") if name in predictions.fields]
    header += [f"{name}_{i}_{j}" for name in members for i in range(m) for j in range(k)]
    if "weights" in predictions.fields:
        header += [f"weights_{i}" for i in range(m)]
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(_COMMENT + _escaped(json.dumps(metadata)) + "\n")
        csv.writer(file).writerow(header)
        # text in quotes, as programs differ in the characters that separate cells
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        for chunk in predictions.chunks():
            writer.writerows(_lines(chunk))


def _escaped(text: str) -> str:
    """Return JSON whose strings have no character that starts a cell or a formula."""
    return _STRING.sub(lambda match: match[0].translate(_ESCAPES), text)


def _lines(chunk: Predictions) -> Iterator[list[Any]]:
    columns: list[Iterable[Any]] = []
    if not len(chunk):
        return
    if chunk.ids is not None:
        ids = chunk.ids.tolist()
        columns.append(ids if chunk.ids.dtype != object else [*map(spreadsheet_text, ids)])
    if chunk.labels is not None:
        columns.append(["" if y == UNLABELLED else y for y in chunk.labels.tolist()])
    for name in ("probs", "logits", "weights"):
        if name in chunk.fields:
            values = getattr(chunk, name).reshape(len(chunk), -1)
            # written as the shortest text that is read back exactly, in the array's precision
            columns.extend(values.T)
    yield from map(list, zip(*columns, strict=True))


FORMATS = (FileFormat((".csv",), _read, _write, table=_table),)
