"""Tables of results by row, and metadata about their input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scorewise._files import check_output_path, file_digest, replacing
from scorewise._version import __version__
from scorewise.errors import InvalidInput

TABLE_SUFFIXES = (".parquet", ".arrow", ".feather", ".csv")
_ROW_GROUP = 1 << 20  # rows of a row group

# -- the table -------------------------------------------------------------------------------------


class _TableWriter(Protocol):
    def write_table(self, table: Any) -> None: ...


def pyarrow() -> Any:
    """Return pyarrow; the error says how to install it."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ImportError("tables of results need pyarrow: pip install 'scorewise[io]'") from error
    return pyarrow


def check_table_path(path: Path) -> None:
    """Raise if no table can be written to the path, before any work is done."""
    pyarrow()
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise InvalidInput(f"{path.name!r} must end in {', '.join(TABLE_SUFFIXES)}")
    check_output_path(path)


def row_column(ids: np.ndarray | None, first_row: int, n: int) -> dict[str, np.ndarray]:
    """Return the column that identifies rows: ``id``, or ``row`` numbers if there are no ids."""
    return {"row": np.arange(first_row, first_row + n)} if ids is None else {"id": ids}


def record_batch(columns: Mapping[str, Any]) -> Any:
    """Return an Arrow record batch of arrays; object arrays hold text."""
    pa = pyarrow()
    return pa.record_batch(
        {
            name: pa.array(values, pa.string() if values.dtype == object else None)
            for name, values in columns.items()
        }
    )


def write_table(path: Path, columns: Mapping[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """Write columns to a Parquet, Arrow or CSV file, completely or not at all.

    The metadata goes into the schema as JSON, under the key ``scorewise``; a CSV file has none.
    Columns of objects are written as text.
    """
    write_batches(path, [record_batch(columns)], metadata)


def write_batches(path: Path, batches: Iterable[Any], metadata: dict[str, Any]) -> list[str]:
    """Write record batches of one schema as :func:`write_table` does; return the columns."""
    pa = pyarrow()
    batches = iter(batches)
    first = next(batches)
    schema = first.schema.with_metadata({"scorewise": json.dumps(metadata)})
    with replacing(path) as partial, _writer(partial, path.suffix.lower(), schema) as writer:
        for group in _row_groups(first, batches):
            writer.write_table(pa.Table.from_batches(group, first.schema).cast(schema))
    columns: list[str] = schema.names
    return columns


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


def parquet_writer(path: Path, schema: Any) -> Any:
    """Return a Parquet writer with dictionaries for text; floats do not gain from them."""
    import pyarrow.parquet as pq

    text = [field.name for field in schema if pyarrow().types.is_string(field.type)]
    return pq.ParquetWriter(path, schema, use_dictionary=text or False)


@contextmanager
def _writer(path: Path, suffix: str, schema: Any) -> Iterator[_TableWriter]:
    if suffix == ".parquet":
        with parquet_writer(path, schema) as writer:
            yield writer
    elif suffix == ".csv":
        from pyarrow import csv

        with csv.CSVWriter(path, schema.remove_metadata()) as writer:
            yield _SpreadsheetWriter(writer)
    else:
        with pyarrow().ipc.new_file(str(path), schema) as writer:
            yield writer


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


@dataclass(frozen=True)
class _SpreadsheetWriter:
    """Writes tables to a CSV file, with text that a spreadsheet does not run."""

    writer: _TableWriter

    def write_table(self, table: Any) -> None:
        pa = pyarrow()
        import pyarrow.compute as pc

        for i, field in enumerate(table.schema):
            if pa.types.is_string(field.type):
                column = table.column(i)
                if pc.any(pc.match_substring_regex(column, _FORMULA)).as_py():
                    texts = [spreadsheet_text(text) for text in column.to_pylist()]
                    table = table.set_column(i, field, pa.array(texts, field.type))
        self.writer.write_table(table)


# -- metadata about the input ----------------------------------------------------------------------


def input_metadata(path: Path, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Return metadata about a file of predictions ``(N, M, K)``, with its digest."""
    return {**input_summary(path, shape), "sha256": file_digest(path)}


def input_summary(path: Path, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Return the metadata without the digest, which needs a pass over the file."""
    n, m, k = shape
    return {"version": __version__, "input": path.name, "rows": n, "members": m, "classes": k}
