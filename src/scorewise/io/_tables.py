"""Tables of results by row, and metadata that says which input they came from."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scorewise._files import replacing
from scorewise._version import __version__
from scorewise.errors import InvalidInput
from scorewise.io._format_parquet import parquet_files
from scorewise.io._predictions import Predictions

TABLE_SUFFIXES = (".parquet", ".arrow", ".feather", ".csv")
_ROW_GROUP = 1 << 20  # rows of a row group
_BLOCK = 8 << 20  # bytes

# -- the table -------------------------------------------------------------------------------------


class _TableWriter(Protocol):
    def write_table(self, table: Any) -> None: ...


def pyarrow() -> Any:
    """The library; an error says how to install it."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ImportError("tables of results need pyarrow: pip install 'scorewise[io]'") from error
    return pyarrow


def check_table_path(path: Path, *inputs: Path) -> None:
    """Refuse a path that no table can be written to, before any work is done."""
    pyarrow()
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise InvalidInput(f"{path.name!r} must end in {', '.join(TABLE_SUFFIXES)}")
    check_output_path(path, *inputs)


def check_output_path(path: Path, *inputs: Path) -> None:
    """Refuse a path in a missing folder, an existing folder, and a path of or within an input."""
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    if path.is_dir():
        raise InvalidInput(f"{str(path)!r} is a folder; a file cannot take its place")
    for source in inputs:
        if source.resolve() in (path.resolve(), *path.resolve().parents):
            raise InvalidInput(f"{str(path)!r} is, or is in, the input {str(source)!r}")


def row_column(ids: np.ndarray | None, first_row: int, n: int) -> dict[str, np.ndarray]:
    """The column that identifies rows: ``id``, or ``row`` with their numbers where none has one."""
    return {"row": np.arange(first_row, first_row + n)} if ids is None else {"id": ids}


def record_batch(columns: Mapping[str, Any]) -> Any:
    """An Arrow record batch of arrays; those of objects hold text."""
    pa = pyarrow()
    return pa.record_batch(
        {
            name: pa.array(values, pa.string() if values.dtype == object else None)
            for name, values in columns.items()
        }
    )


def write_table(path: Path, columns: Mapping[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """Write columns to a Parquet, Arrow or CSV file, whole or not at all.

    The metadata goes into the schema as JSON, under the key ``scorewise``; a CSV file has none.
    Columns of objects are written as text.
    """
    write_batches(path, [record_batch(columns)], metadata)


def write_batches(path: Path, batches: Iterable[Any], metadata: dict[str, Any]) -> None:
    """Write record batches of one schema as :func:`write_table` does."""
    pa = pyarrow()
    batches = iter(batches)
    first = next(batches)
    schema = first.schema.with_metadata({"scorewise": json.dumps(metadata)})
    with replacing(path) as partial, _writer(partial, path.suffix.lower(), schema) as writer:
        for group in _row_groups(first, batches):
            writer.write_table(pa.Table.from_batches(group, first.schema).cast(schema))


def _row_groups(first: Any, others: Iterator[Any]) -> Iterator[list[Any]]:
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
def _writer(path: Path, suffix: str, schema: Any) -> Iterator[_TableWriter]:
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


# -- which input -----------------------------------------------------------------------------------


def input_metadata(predictions: Predictions, path: Path) -> dict[str, Any]:
    """What results say about the file of predictions that they came from, with its digest."""
    return {**input_summary(predictions, path), "sha256": digest(path)}


def input_summary(predictions: Predictions, path: Path) -> dict[str, Any]:
    """The same without the digest, for which the file must be read."""
    n, m, k = predictions.shape
    return {"version": __version__, "input": path.name, "rows": n, "members": m, "classes": k}


def _files_of(path: Path) -> list[Path]:
    """The file itself, or the Parquet files of a folder."""
    return parquet_files(path) if path.is_dir() else [path]


def stamp(path: Path) -> list[list[str | int]]:
    """Sizes, inodes and times, which differ where a file was replaced or changed."""
    stamps: list[list[str | int]] = []
    for file in _files_of(path):
        now = file.stat()
        times = (now.st_mtime_ns, now.st_ctime_ns)
        stamps.append([str(file.relative_to(path)), now.st_size, now.st_ino, *times])
    return stamps


def digest(path: Path, stop: threading.Event | None = None) -> str:
    """SHA-256 of a file as hexadecimal digits; of a folder, that of its files' names and digests.

    ``stop`` ends it early, with a meaningless number.
    """
    if path.is_dir():
        lines = [f"{digest(file, stop)}  {file.relative_to(path)}\n" for file in _files_of(path)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while (block := file.read(_BLOCK)) and not (stop and stop.is_set()):
            sha.update(block)
    return sha.hexdigest()


@contextmanager
def digest_in_background(path: Path) -> Iterator[Future[str]]:
    """The digest of a file, computed beside other work."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        try:
            yield executor.submit(digest, path, stop)
        finally:
            stop.set()
