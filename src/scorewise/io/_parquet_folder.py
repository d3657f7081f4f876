"""Predictions in a folder of Parquet files, in the order of their names."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from scorewise.errors import InvalidInput
from scorewise.io._arrow import Table, batches_of, schema_of, told_of
from scorewise.io._fields import ClassNames
from scorewise.io._parquet import open_parquet, write_batches
from scorewise.io._predictions import Predictions, Source

_BATCHES = 32  # of some 8 MiB in a file


def read(
    path: Path, class_names: ClassNames = None
) -> tuple[Source, ClassNames, np.ndarray | None]:
    """The rows of all files."""
    files = parquet_files(path)
    if not files:
        raise InvalidInput(f"the folder {path.name!r} has no Parquet files")
    names = [str(file.relative_to(path)) for file in files]
    found = [open_parquet(file, name) for file, name in zip(files, names, strict=True)]
    schema = found[0][0]
    for name, (other, _) in zip(names, found, strict=True):
        if (difference := _difference(schema, other)) is not None:
            raise InvalidInput(f"{name!r} has other columns than {names[0]!r}: {difference}")
        if told_of(other) != told_of(schema):
            raise InvalidInput(
                f"{name!r} has other class names or member weights than {names[0]!r}"
            )
    pieces = [piece for _, several in found for piece in several]
    table = Table(path.name, schema, pieces, class_names)
    return table, table.class_names, table.member_weights


def parquet_files(folder: Path) -> list[Path]:
    """Those in the folder and in folders within, but for hidden ones."""
    return sorted(
        file
        for file in folder.rglob("*.parquet")
        if file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    )


def _difference(one: pa.Schema, other: pa.Schema) -> str | None:
    mine, theirs = ({f"{f.name} ({f.type})" for f in schema} for schema in (one, other))
    if mine == theirs:
        return None
    gone, new = (", ".join(sorted(x)) or "none" for x in (mine - theirs, theirs - mine))
    return f"{new} instead of {gone}"


def write(predictions: Predictions, path: Path) -> None:
    """Files of some 256 MiB each."""
    schema = schema_of(predictions)
    batches = batches_of(predictions, schema)
    path.mkdir()
    for i in range(len(predictions) + 1):
        some = list(islice(batches, 1))
        if not some and i:
            return
        write_batches(
            chain(some, islice(batches, _BATCHES - 1)), schema, path / f"part-{i:05d}.parquet"
        )
