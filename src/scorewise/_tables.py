"""Tables of results by row, and metadata about their input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from scorewise._files import check_output_path, file_digest, replacing
from scorewise._version import __version__
from scorewise.errors import InvalidInput

TABLE_SUFFIXES = (".parquet", ".arrow", ".feather", ".csv")
_ROW_GROUP = 1 << 20  # rows of a row group

# -- the table -------------------------------------------------------------------------------------


Columns = Mapping[str, np.ndarray]  # object arrays hold text


def pyarrow() -> Any:
    """Return pyarrow; the error says how to install it."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ImportError(
            "Parquet and Arrow files need pyarrow: pip install 'scorewise[io]', or write a .csv "
            "file instead"
        ) from error
    return pyarrow


def check_table_path(path: Path) -> None:
    """Raise if no table can be written to the path, before any work is done."""
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise InvalidInput(f"{path.name!r} must end in {', '.join(TABLE_SUFFIXES)}")
    if path.suffix.lower() != ".csv":
        pyarrow()
    check_output_path(path)


def row_column(ids: np.ndarray | None, first_row: int, n: int) -> dict[str, np.ndarray]:
    """Return the column that identifies rows: ``id``, or ``row`` numbers if there are no ids."""
    return {"row": np.arange(first_row, first_row + n)} if ids is None else {"id": ids}


def write_table(path: Path, columns: Columns, metadata: dict[str, Any]) -> None:
    """Write columns to a Parquet, Arrow or CSV file, completely or not at all.

    The metadata goes into the schema as JSON, under the key ``scorewise``; a CSV file has none.
    Columns of objects are written as text.
    """
    write_batches(path, [columns], metadata)


def write_batches(path: Path, batches: Iterable[Columns], metadata: dict[str, Any]) -> list[str]:
    """Write batches of rows as :func:`write_table` does; return the names of the columns."""
    batches = iter(batches)
    first = next(batches)
    with replacing(path) as partial:
        if path.suffix.lower() == ".csv":
            _write_csv(partial, chain([first], batches))
        else:
            write_arrow(partial, path.suffix.lower(), first, batches, metadata)
    return list(first)


def write_arrow(
    path: Path, suffix: str, first: Columns, others: Iterator[Columns], metadata: dict[str, Any]
) -> None:
    """Write batches to a new file in the format of the suffix; an error leaves part of it."""
    pa = pyarrow()
    start = _record_batch(first)
    schema = start.schema.with_metadata({"scorewise": json.dumps(metadata)})
    make_writer = parquet_writer if suffix == ".parquet" else pa.ipc.new_file
    with make_writer(str(path), schema) as writer:
        for group in _row_groups(start, map(_record_batch, others)):
            writer.write_table(pa.Table.from_batches(group, start.schema).cast(schema))


def _record_batch(columns: Columns) -> Any:
    pa = pyarrow()
    return pa.record_batch(
        {
            name: pa.array(values, pa.string() if values.dtype == object else None)
            for name, values in columns.items()
        }
    )


def _row_groups(first: Any, others: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield the batches of each row group; all groups but the last have the same size."""
    pending, n = [first], first.num_rows
    for batch in others:
        rest = batch
        while n + rest.num_rows > _ROW_GROUP:
            pending.append(rest.slice(0, _ROW_GROUP - n))
            yield pending
            rest = rest.slice(_ROW_GROUP - n)
            pending, n = [], 0
        pending.append(rest)
        n += rest.num_rows
    yield pending


def parquet_writer(path: str | Path, schema: Any) -> Any:
    """Return a Parquet writer with dictionaries for text; floats do not gain from them."""
    import pyarrow.parquet as pq

    text = [field.name for field in schema if pyarrow().types.is_string(field.type)]
    return pq.ParquetWriter(path, schema, use_dictionary=text or False)


def _write_csv(path: Path, batches: Iterable[Columns]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for i, columns in enumerate(batches):
            if i == 0:
                file.write(",".join(map(_in_quotes, columns)) + "\n")
            cells = map(_cells, columns.values())
            file.writelines(f"{','.join(line)}\n" for line in zip(*cells, strict=True))


def _cells(values: np.ndarray) -> Iterable[str]:
    """Return numbers as the shortest text that is read back exactly, and text in quotes."""
    if values.dtype.kind in "OU":
        return (_in_quotes(spreadsheet_text(text)) for text in values)
    if values.dtype == bool:
        return np.where(values, "true", "false")
    if values.dtype == np.float32:
        return values.astype(str)
    return map(repr, values.tolist())


def _in_quotes(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


# -- text that a spreadsheet could take for a formula ----------------------------------------------

# also after spaces and quotes, and full-width, as some spreadsheets read them; control characters
_FORMULA = "^[\\s']*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\\x00-\\x1f\\x7f-\u009f]"
_FORMULA_TEXT = re.compile(_FORMULA, re.ASCII)  # ASCII, as Arrow searches
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def spreadsheet_text(text: str) -> str:
    """Return text for a CSV file, with an apostrophe before what a spreadsheet could run.

    That is text that begins with ``=``, ``+``, ``-`` or ``@`` and is not a plain number, and text
    with control characters. :func:`from_spreadsheet_text` returns the text itself.

    Examples
    --------
    >>> [spreadsheet_text(text) for text in ("cat", "-5", "=1+1")]
    ['cat', '-5', "'=1+1"]
    """
    return f"'{text}" if _could_run(text) else text


def from_spreadsheet_text(cell: str) -> str:
    """Return the text that :func:`spreadsheet_text` wrote."""
    return cell[1:] if cell.startswith("'") and _could_run(cell[1:]) else cell


def _could_run(text: str) -> bool:
    return bool(_FORMULA_TEXT.search(text)) and not _NUMBER.fullmatch(text)


# -- metadata about the input ----------------------------------------------------------------------


def input_metadata(path: Path, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Return metadata about a file of predictions ``(N, M, K)``, with its digest."""
    return {**input_summary(path, shape), "sha256": file_digest(path)}


def input_summary(path: Path, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Return the metadata without the digest, which needs a pass over the file."""
    n, m, k = shape
    return {"version": __version__, "input": path.name, "rows": n, "members": m, "classes": k}
