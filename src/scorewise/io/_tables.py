"""Results by row, in a Parquet, Arrow or CSV file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scorewise._files import replacing
from scorewise.errors import InvalidInput

SUFFIXES = (".parquet", ".arrow", ".feather", ".csv")
_ROW_GROUP = 1 << 20  # rows of a row group


class _Writer(Protocol):
    def write_table(self, table: Any) -> None: ...


def pyarrow() -> Any:
    """The library, or how to get it."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ImportError("tables of results need pyarrow: pip install 'scorewise[io]'") from error
    return pyarrow


def check_table_path(path: Path, *inputs: Path) -> None:
    """Refuse what no table can be written to, before any work is done."""
    pyarrow()
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"{path.name!r} must end in {', '.join(SUFFIXES)}")
    check_file_path(path, *inputs)


def check_file_path(path: Path, *inputs: Path) -> None:
    """Refuse to write to a place that is none, over an input, or into a folder that is one."""
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    if path.is_dir():
        raise InvalidInput(f"{str(path)!r} is a folder; a file cannot take its place")
    for one in inputs:
        if one.resolve() in (path.resolve(), *path.resolve().parents):
            raise InvalidInput(f"{str(path)!r} is, or is in, the input {str(one)!r}")


def row_names(ids: np.ndarray | None, first_row: int, n: int) -> tuple[str, Any]:
    """The column that tells rows apart: their ids, or their numbers."""
    pa = pyarrow()
    if ids is None:
        return "row", pa.array(np.arange(first_row, first_row + n))
    return "id", pa.array(ids, pa.string() if ids.dtype == object else pa.int64())


def write_table(path: Path, batches: Iterable[Any], metadata: dict[str, Any]) -> None:
    """Write record batches of one schema, whole or not at all; the metadata goes into the schema.

    A CSV file has no place for metadata.
    """
    pa = pyarrow()
    batches = iter(batches)
    first = next(batches)
    schema = first.schema.with_metadata({"scorewise": json.dumps(metadata)})
    with replacing(path) as partial, _writer(partial, path.suffix.lower(), schema) as writer:
        for table in _gathered(first, batches):
            writer.write_table(pa.Table.from_batches(table, first.schema).cast(schema))


def _gathered(first: Any, others: Iterator[Any]) -> Iterator[list[Any]]:
    """Batches for one row group after the other, each of the same number of rows."""
    waiting, n = [first], first.num_rows
    for batch in others:
        rest = batch
        while n + rest.num_rows > _ROW_GROUP:
            waiting.append(rest.slice(0, _ROW_GROUP - n))
            yield waiting
            rest = rest.slice(_ROW_GROUP - n)
            waiting, n = [], 0
        waiting.append(rest)
        n += rest.num_rows
    yield waiting


@contextmanager
def _writer(path: Path, suffix: str, schema: Any) -> Iterator[_Writer]:
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        text = [field.name for field in schema if pyarrow().types.is_string(field.type)]
        with pq.ParquetWriter(path, schema, use_dictionary=text or False) as writer:
            yield writer
    elif suffix == ".csv":
        from pyarrow import csv

        with csv.CSVWriter(path, schema.remove_metadata()) as writer:
            yield writer
    else:
        with pyarrow().ipc.new_file(str(path), schema) as writer:
            yield writer
