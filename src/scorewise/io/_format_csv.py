"""One column per member and class in a ``.csv`` file, for small files.

The first line may be a comment with metadata: the dtype, whether ids are text, the names of the
classes and the members' weights.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._fields import UNLABELLED, ClassNames
from scorewise.errors import InvalidFile, InvalidInput
from scorewise.io._columns import (
    IDS,
    LABELS,
    ColumnGrid,
    grid_of,
    indices_from,
    named_column,
    weight_columns,
)
from scorewise.io._formats import FileFormat
from scorewise.io._predictions import Predictions

_COMMENT = "# scorewise "
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")

_Cells = dict[str, tuple[str, ...]]  # by column


def _read(path: Path, class_names: ClassNames) -> Predictions:
    """Return the predictions of the whole table."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path.name!r} is not UTF-8 text: {error}") from None
    metadata, start = _comment(text, path)
    longest = csv.field_size_limit(len(text) + 1)
    try:
        lines = list(csv.reader(StringIO(text[start:], newline=""), strict=True))
    except csv.Error as error:
        raise InvalidFile(f"{path.name!r} is not valid CSV: {error}") from None
    finally:
        csv.field_size_limit(longest)
    lines = [line for line in lines if line]
    if not lines:
        raise InvalidFile(f"{path.name!r} is empty; its first line must name the columns")
    header, *table = lines
    if (duplicate := validate.first_repeated(header)) is not None:
        raise InvalidFile(f"{path.name!r} has two columns {duplicate!r}")
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
    columns = zip(*table, strict=True) if table else [()] * len(header)
    try:
        return _predictions(dict(zip(header, columns, strict=True)), metadata, class_names, path)
    except InvalidInput:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidFile(f"the first line of {path.name!r} is invalid: {error}") from None


def _comment(text: str, path: Path) -> tuple[dict[str, Any], int]:
    """The metadata of the comment in the first line, and where the table begins."""
    if not text.startswith(_COMMENT):
        return {}, 0
    line, _, _ = text.partition("\n")
    try:
        metadata = json.loads(line.removeprefix(_COMMENT))
        if not isinstance(metadata, dict):
            raise ValueError(f"{metadata!r} is not a mapping")
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"the first line of {path.name!r} is not valid JSON: {error}") from None
    return metadata, len(line) + 1


def _predictions(
    columns: _Cells, metadata: dict[str, Any], class_names: ClassNames, path: Path
) -> Predictions:
    fields: dict[str, Any] = {}
    first_class = 0
    names = metadata.get("class_names")
    for name in ("probs", "logits"):
        grid = grid_of(list(columns), name)
        if grid is not None:
            dtype = np.dtype(metadata.get(name, "float64"))
            fields[name] = _grid_values(columns, grid, dtype, path)
            names = grid.class_names if names is None else names
            first_class = grid.first_class
    if not fields:
        raise InvalidFile(
            f"{path.name!r} has no columns of predictions, one per member and class, such as "
            f"probs_0_1; it has {', '.join(list(columns)[:8])}"
        )
    labels = named_column(list(columns), LABELS)
    if labels is not None:
        fields["labels"] = _labels(columns[labels], first_class)
    ids = named_column(list(columns), IDS)
    if ids is not None:
        cells = columns[ids]
        are_text = metadata.get("ids") == "text" or not all(map(_is_whole, cells))
        fields["ids"] = np.array(cells, object) if are_text else np.array(cells, np.int64)
    dtype = np.dtype(metadata.get("weights_dtype", "float64"))
    if "weights" in metadata:
        fields["weights"] = np.array(metadata["weights"], dtype)
    elif weights := weight_columns(list(columns)):
        values = [_column_values(columns[name], name, dtype, path) for name in weights]
        fields["weights"] = np.stack(values, axis=-1)
    return Predictions(class_names=class_names if names is None else names, **fields)


def _is_whole(text: str) -> bool:
    """Return whether text is a 64-bit integer without leading zeros; 007 is a name."""
    return bool(_WHOLE.fullmatch(text)) and -(2**63) <= int(text) < 2**63


def _labels(cells: tuple[str, ...], first_class: int) -> np.ndarray:
    """Return class indices, or names; an empty cell is a row without a label."""
    # pandas writes whole numbers with gaps as 1.0
    numbers = [cell.removesuffix(".0") for cell in cells]
    if all(_is_whole(cell) for cell in numbers if cell):
        return indices_from([int(cell) if cell else None for cell in numbers], first_class)
    return np.array([cell or None for cell in cells], dtype=object)


def _grid_values(columns: _Cells, grid: ColumnGrid, dtype: np.dtype[Any], path: Path) -> np.ndarray:
    m, k = grid.shape
    values = np.empty((len(columns[grid.columns[0]]), m, k), dtype)
    for (i, j), name in zip(product(range(m), range(k)), grid.columns, strict=True):
        values[:, i, j] = _column_values(columns[name], name, dtype, path)
    return values


def _column_values(
    cells: tuple[str, ...], name: str, dtype: np.dtype[Any], path: Path
) -> np.ndarray:
    try:
        values = np.array(cells, dtype=np.float64)
        with np.errstate(over="raise"):
            return values.astype(dtype)
    except FloatingPointError:
        raise InvalidFile(
            f"{path.name!r}: column {name!r} has numbers too large for {dtype}"
        ) from None
    except ValueError:
        row = next(i for i, cell in enumerate(cells) if not _is_number(cell))
        raise InvalidFile(
            f"{path.name!r}: row {row}, column {name!r} is {cells[row]!r}, which is not a number"
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _write(predictions: Predictions, path: Path) -> None:
    """Write a comment, a header, and a line for each row."""
    _, m, k = predictions.shape
    first = next(predictions.chunks(1))
    members = [name for name in ("probs", "logits") if name in predictions.fields]
    metadata: dict[str, Any] = {name: str(getattr(first, name).dtype) for name in members}
    if predictions.class_names is not None:
        metadata["class_names"] = list(predictions.class_names)
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
        file.write(_COMMENT + json.dumps(metadata) + "\n")
        writer = csv.writer(file)  # its lines end in "\r\n", so that "\r" in a cell is quoted
        writer.writerow(header)
        for chunk in predictions.chunks():
            writer.writerows(_lines(chunk))


def _lines(chunk: Predictions) -> Iterator[list[Any]]:
    columns: list[list[Any]] = []
    if not len(chunk):
        return
    if chunk.ids is not None:
        columns.append(chunk.ids.tolist())
    if chunk.labels is not None:
        columns.append(["" if y == UNLABELLED else y for y in chunk.labels.tolist()])
    for name in ("probs", "logits", "weights"):
        if name in chunk.fields:
            values = getattr(chunk, name).reshape(len(chunk), -1)
            # the shortest text that is read back exactly, in the array's precision
            columns += [[str(x) for x in column] for column in values.T]
    yield from map(list, zip(*columns, strict=True))


FORMATS = (FileFormat((".csv",), _read, _write),)
