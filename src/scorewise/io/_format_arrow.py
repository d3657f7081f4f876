"""Predictions in an Arrow file (also called Feather)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scorewise.io._formats import FileFormat, TableReader
from scorewise.io._predictions import Predictions
from scorewise.io._read_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from scorewise.io._arrow_tables import RowGroup


def _read(path: Path, options: ReadOptions) -> Predictions:
    """Return the predictions in a file, which is memory-mapped."""
    from scorewise.io._arrow_tables import ArrowSource

    schema, groups = _open(path)
    return ArrowSource(path.name, schema, groups, options).predictions()


def _table(path: Path) -> TableReader:
    """Return the columns of a file, which is memory-mapped."""
    from scorewise.io._arrow_tables import table_reader

    return table_reader(path.name, *_open(path))


def _open(path: Path) -> tuple[pa.Schema, list[RowGroup]]:
    """The columns and record batches of a file."""
    import pyarrow as pa

    from scorewise.io._arrow_tables import RowGroup, raise_if_damaged

    def group(i: int) -> RowGroup:
        def rows(columns: Sequence[str], n: int) -> Iterator[pa.RecordBatch]:
            batch = file.get_batch(i).select(list(columns))
            batch.validate(full=True)  # a damaged batch could crash the process
            for start in range(0, batch.num_rows, n):
                yield batch.slice(start, n)

        return RowGroup(f"batch {i}", file.get_batch(i).num_rows, rows)

    with raise_if_damaged(f"{path.name!r} is not a valid Arrow file, or it is truncated"):
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        return file.schema, [group(i) for i in range(file.num_record_batches)]


def _write(predictions: Predictions, path: Path) -> None:
    """Write all rows, a batch at a time."""
    import pyarrow as pa

    from scorewise.io._arrow_tables import batches_of, schema_of

    schema = schema_of(predictions)
    with pa.ipc.new_file(str(path), schema) as writer:
        for batch in batches_of(predictions, schema):
            writer.write_batch(batch)


FORMATS = (FileFormat((".arrow", ".feather"), _read, _write, extra="io", table=_table),)
