"""Predictions in a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scorewise.io._arrow import Piece, Table, batches_of, opened, schema_of
from scorewise.io._fields import ClassNames
from scorewise.io._predictions import Predictions, Source

_BUFFER = 1 << 17  # bytes of a column read at a time, rather than all of a row group
_ROW_GROUP_BYTES = 64 << 20


def read(
    path: Path, class_names: ClassNames = None
) -> tuple[Source, ClassNames, np.ndarray | None]:
    """The rows of one file, which stay there until they are asked for."""
    schema, pieces = open_parquet(path, path.name)
    table = Table(path.name, schema, pieces, class_names)
    return table, table.class_names, table.member_weights


def open_parquet(path: Path, name: str) -> tuple[pa.Schema, list[Piece]]:
    """The columns of a file, and its row groups."""

    def open_it() -> pq.ParquetFile:
        return pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)

    with opened(name, "Parquet", open_it) as file:
        schema, metadata = file.schema_arrow, file.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def piece(i: int) -> Piece:
        def rows(columns: Sequence[str], n: int) -> Iterator[pa.RecordBatch]:
            with open_it() as again:
                yield from again.iter_batches(n, row_groups=[i], columns=list(columns))

        return Piece(f"row group {i} of {name!r}", sizes[i], rows)

    return schema, [piece(i) for i in range(len(sizes))]


def write(predictions: Predictions, path: Path) -> None:
    """All rows, in row groups of some 64 MiB."""
    schema = schema_of(predictions)
    write_batches(batches_of(predictions, schema), schema, path)


def write_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path) -> None:
    """Batches gathered into row groups of some size."""
    # tensors of floating-point numbers have nothing to gain from dictionaries
    text = [field.name for field in schema if pa.types.is_string(field.type)]
    with pq.ParquetWriter(path, schema, use_dictionary=text or False) as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(one.nbytes for one in waiting) >= _ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
