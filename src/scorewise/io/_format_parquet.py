"""Predictions in a Parquet file, or in a folder of Parquet files in the order of their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from scorewise._files import parquet_files
from scorewise._tables import parquet_writer
from scorewise._text import quoted_names
from scorewise.errors import InvalidFile
from scorewise.io._formats import FileFormat, TableReader
from scorewise.io._predictions import Predictions
from scorewise.io._read_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from scorewise.io._arrow_tables import RowGroup

_BUFFER = 1 << 17  # bytes of a column read at a time, rather than all of a row group
_ROW_GROUP_BYTES = 64 << 20
_BATCHES = 32  # of 8 MiB in a file of a folder


def _read(path: Path, options: ReadOptions) -> Predictions:
    """Return the predictions in a file, whose rows are read when they are used."""
    from scorewise.io._arrow_tables import ArrowSource

    schema, groups = _open(path, path.name)
    return ArrowSource(path.name, schema, groups, options).predictions()


def _table(path: Path) -> TableReader:
    """Return the columns of a file, whose rows are read when they are used."""
    from scorewise.io._arrow_tables import table_reader

    return table_reader(path.name, *_open(path, path.name))


def _open(path: Path, name: str, of_file: str = "") -> tuple[pa.Schema, list[RowGroup]]:
    """The columns and row groups of a file; ``of_file`` names the file in messages."""
    import pyarrow.parquet as pq

    from scorewise.io._arrow_tables import RowGroup, raise_if_damaged

    def open_file() -> pq.ParquetFile:
        return pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)

    problem = f"{name!r} is not a valid Parquet file, or it is truncated"
    with raise_if_damaged(problem), open_file() as file:
        schema, metadata = file.schema_arrow, file.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def group(i: int) -> RowGroup:
        def rows(columns: Sequence[str], n: int) -> Iterator[pa.RecordBatch]:
            with open_file() as reopened:
                yield from reopened.iter_batches(n, row_groups=[i], columns=list(columns))

        return RowGroup(f"row group {i}{of_file}", sizes[i], rows)

    return schema, [group(i) for i in range(len(sizes))]


def _write(predictions: Predictions, path: Path) -> None:
    """Write all rows, in row groups of 64 MiB."""
    from scorewise.io._arrow_tables import batches_of, schema_of

    schema = schema_of(predictions)
    _write_batches(batches_of(predictions, schema), schema, path)


def _write_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path) -> None:
    import pyarrow as pa

    with parquet_writer(path, schema) as writer:
        pending: list[pa.RecordBatch] = []
        for batch in batches:
            pending.append(batch)
            if sum(b.nbytes for b in pending) >= _ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(pending))
                pending = []
        if pending:
            writer.write_table(pa.Table.from_batches(pending))


# -- a folder of files -----------------------------------------------------------------------------


def _read_folder(path: Path, options: ReadOptions) -> Predictions:
    """Return the predictions in all files."""
    from scorewise.io._arrow_tables import ArrowSource

    schema, groups = _open_folder(path)
    return ArrowSource(path.name, schema, groups, options).predictions()


def _table_of_folder(path: Path) -> TableReader:
    """Return the columns of all files."""
    from scorewise.io._arrow_tables import table_reader

    return table_reader(path.name, *_open_folder(path))


def _open_folder(path: Path) -> tuple[pa.Schema, list[RowGroup]]:
    """The columns and row groups of all files, which must have the same columns."""
    from scorewise.io._arrow_tables import metadata_of

    files = parquet_files(path)
    if not files:
        raise InvalidFile(f"the folder {path.name!r} has no Parquet files")
    names = [str(file.relative_to(path)) for file in files]
    opened_files = [
        _open(file, name, f" of {name!r}") for file, name in zip(files, names, strict=True)
    ]
    schema = opened_files[0][0]
    for name, (other, _) in zip(names, opened_files, strict=True):
        if (difference := _difference(schema, other)) is not None:
            raise InvalidFile(f"{name!r} has different columns from {names[0]!r}: {difference}")
        if (metadata_of(other) or b"{}") != (metadata_of(schema) or b"{}"):
            raise InvalidFile(
                f"{name!r} has different class names or member weights from {names[0]!r}"
            )
    return schema, [group for _, groups in opened_files for group in groups]


def _difference(schema: pa.Schema, other: pa.Schema) -> str | None:
    columns, other_columns = ({f"{f.name} ({f.type})" for f in s} for s in (schema, other))
    if columns == other_columns:
        return None
    missing, new = sorted(columns - other_columns), sorted(other_columns - columns)
    return f"{quoted_names(new)} instead of {quoted_names(missing)}"


def _write_folder(predictions: Predictions, path: Path) -> None:
    """Write files of 256 MiB each."""
    from scorewise.io._arrow_tables import batches_of, schema_of

    schema = schema_of(predictions)
    batches = batches_of(predictions, schema)
    path.mkdir()
    for i in range(len(predictions) + 1):
        first = list(islice(batches, 1))
        if not first and i:
            return
        of_file = chain(first, islice(batches, _BATCHES - 1))
        _write_batches(of_file, schema, path / _part(i))


def _part(i: int) -> str:
    return f"part-{i:05d}.parquet"


def _is_ours(path: Path) -> bool:
    """Return whether a folder holds nothing but the files that ``_write_folder`` writes."""
    from scorewise.io._arrow_tables import metadata_of

    files = sorted(path.iterdir())
    return all(
        file.name == _part(i)
        and file.is_file()
        and not file.is_symlink()
        and metadata_of(_open(file, file.name)[0]) is not None
        for i, file in enumerate(files)
    )


FORMATS = (
    FileFormat((".parquet",), _read, _write, extra="io", table=_table),
    FileFormat(
        ("",), _read_folder, _write_folder, extra="io", is_ours=_is_ours, table=_table_of_folder
    ),
)
