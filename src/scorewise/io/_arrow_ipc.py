"""Predictions in an Arrow file (also called Feather)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from scorewise.io._arrow import Piece, Table, batches_of, opened, schema_of
from scorewise.io._fields import ClassNames
from scorewise.io._predictions import Predictions, Source


def read(
    path: Path, class_names: ClassNames = None
) -> tuple[Source, ClassNames, np.ndarray | None]:
    """The rows of one file, which is mapped."""
    file = opened(path.name, "Arrow", lambda: pa.ipc.open_file(pa.memory_map(str(path))))

    def piece(i: int) -> Piece:
        def rows(columns: Sequence[str], n: int) -> Iterator[pa.RecordBatch]:
            batch = file.get_batch(i).select(list(columns))
            batch.validate(full=True)  # a damaged one could crash the process
            for start in range(0, batch.num_rows, n):
                yield batch.slice(start, n)

        return Piece(f"batch {i} of {path.name!r}", file.get_batch(i).num_rows, rows)

    pieces = opened(path.name, "Arrow", lambda: [piece(i) for i in range(file.num_record_batches)])
    table = Table(path.name, file.schema, pieces, class_names)
    return table, table.class_names, table.member_weights


def write(predictions: Predictions, path: Path) -> None:
    """All rows, a batch at a time."""
    schema = schema_of(predictions)
    with pa.ipc.new_file(str(path), schema) as writer:
        for batch in batches_of(predictions, schema):
            writer.write_batch(batch)
