"""Predictions in a Parquet file, or in a folder of Parquet files in the order of their names.

A file may be on any filesystem of ``fsspec``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scorewise import _validate as validate
from scorewise._fields import class_text
from scorewise._files import parquet_files
from scorewise._tables import parquet_writer
from scorewise._text import quoted_names
from scorewise.errors import InvalidFile, InvalidInput
from scorewise.io._formats import (
    FileFormat,
    TableReader,
    check_class_names,
    read_predictions,
    refuse_answer_options,
)
from scorewise.io._predictions import Predictions, with_file_name
from scorewise.io._read_options import ReadOptions

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from scorewise.io._arrow_tables import ArrowSource, RowGroup

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


def _open(
    path: Path | str, name: str, of_file: str = "", filesystem: Any = None
) -> tuple[pa.Schema, list[RowGroup]]:
    """The columns and row groups of a file; ``of_file`` names the file in messages."""
    import pyarrow.parquet as pq

    from scorewise.io._arrow_tables import RowGroup, raise_if_damaged

    def open_file() -> pq.ParquetFile:
        if filesystem is None:
            return pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
        # a request for each column would be slow over a network
        return pq.ParquetFile(path, pre_buffer=True, filesystem=filesystem)

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


# -- one file of a data set ------------------------------------------------------------------------


def parquet_schema(path: str | Path, *, filesystem: Any = None, name: str | None = None) -> Any:
    """Return the columns of a Parquet file, as pyarrow describes them.

    Use it for :func:`scorewise.io.read_parquet_file`, to require the same of other files.

    Parameters
    ----------
    path : str or path
    filesystem : fsspec or pyarrow filesystem, optional
        Where the file is; by default, on this machine.
    name : str, optional
        Of the file in messages; by default, that of the path.

    Returns
    -------
    pyarrow.Schema

    Raises
    ------
    InvalidInput
        If it is not a Parquet file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.parquet"
    >>> sw.write_predictions(path, np.full((4, 3, 2), 0.5), ids=list("abcd"))
    >>> sw.io.parquet_schema(path).names
    ['ids', 'probs']
    """
    return _open(path, name or Path(path).name, filesystem=filesystem)[0]


@validate.takes_options_of(read_predictions)
def read_parquet_file(
    path: str | Path,
    *,
    filesystem: Any = None,
    name: str | None = None,
    schema: Any = None,
    left_out: np.ndarray | None = None,
    shape: tuple[int, int] | None = None,
    **options: Any,
) -> Predictions:
    """Return the predictions in a Parquet file on any filesystem; rows are read as they are used.

    Use it for one of many files that must have the same columns.

    Parameters
    ----------
    path : str or path
    filesystem : fsspec or pyarrow filesystem, optional
        Where the file is; by default, on this machine.
    name : str, optional
        Of the file in messages; by default, that of the path.
    schema : pyarrow.Schema, optional
        Columns that the file must have, made by :func:`scorewise.io.parquet_schema`.
    left_out : integer array (r,), optional
        Numbers of rows, in rising order, that the predictions do not have.
    shape : tuple of int, optional
        Members and classes of a row (M, K), where the type of the columns does not say them; by
        default, those that most of some rows have.
    **options
        As for :func:`scorewise.read_predictions`: ``class_names``, ``probs``, ``labels``, …

    Returns
    -------
    Predictions

    Raises
    ------
    InvalidInput
        If it is not a Parquet file, or has other columns.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from fsspec.implementations.memory import MemoryFileSystem
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.parquet"
    >>> sw.write_predictions(path, np.full((4, 3, 2), 0.5))
    >>> memory = MemoryFileSystem()
    >>> memory.pipe_file("/example/test.parquet", path.read_bytes())
    >>> sw.io.read_parquet_file("/example/test.parquet", filesystem=memory).shape
    (4, 3, 2)
    """
    from scorewise.io._arrow_tables import ArrowSource, original_number, without_rows

    name = name or Path(path).name
    columns, groups = _open(path, name, filesystem=filesystem)
    if schema is not None:
        _check_same_columns(schema, columns, "the first file", name)
    original = None
    if left_out is not None:
        groups = without_rows(groups, left_out)
        original = partial(original_number, left_out=left_out)
    return _with_options(
        lambda o: ArrowSource(name, columns, groups, o, original=original, shape=shape),
        name,
        options,
    )


def predictions_of_table(
    table: Any, whole: Predictions, first_row: int = 0, **options: Any
) -> Predictions:
    """Return the predictions in some rows of a Parquet file that were read with all columns.

    Use it to look for the invalid rows of a chunk without reading the file again and again.

    Parameters
    ----------
    table : pyarrow.Table
    whole : Predictions
        The predictions of the file, by which errors locate a row.
    first_row : int
        The number of the first row in the file.
    **options
        As for :func:`scorewise.read_predictions`.

    Returns
    -------
    Predictions

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, pyarrow.parquet as pq, scorewise as sw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.parquet"
    >>> sw.write_predictions(path, np.full((4, 3, 2), 0.5))
    >>> rows = pq.read_table(path).slice(2)
    >>> sw.io.predictions_of_table(rows, sw.read_predictions(path), first_row=2).shape
    (2, 3, 2)
    """
    from scorewise.io._arrow_tables import ArrowSource, RowGroup

    name = whole.file_name or ("the file" if whole.path is None else whole.path.name)

    in_memory = table.combine_chunks()

    def rows(columns: Sequence[str], n: int) -> Iterator[pa.RecordBatch]:
        yield from in_memory.select(list(columns)).to_batches(n)

    def locate(row: int) -> str:
        return whole.locate(first_row + row)

    group = RowGroup("these rows", table.num_rows, rows)
    return _with_options(
        lambda o: ArrowSource(name, table.schema, [group], o, locate, shape=whole.shape[1:]),
        name,
        options,
    )


def _with_options(
    source: Callable[[ReadOptions], ArrowSource], name: str, options: dict[str, Any]
) -> Predictions:
    """Return the predictions of a source; errors name the file."""
    if options.get("class_names") is not None:
        options["class_names"] = tuple(map(class_text, options["class_names"]))
    chosen = ReadOptions(**options)
    refuse_answer_options(chosen, name)
    try:
        predictions = source(chosen).predictions()
    except InvalidInput as error:
        raise with_file_name(error, name) from None
    check_class_names(predictions, options.get("class_names"), name)
    predictions.file_name, predictions.labels_are = name, options.get("labels_are")
    return predictions


# -- writing ---------------------------------------------------------------------------------------


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
    files = parquet_files(path)
    if not files:
        raise InvalidFile(f"the folder {path.name!r} has no Parquet files")
    names = [str(file.relative_to(path)) for file in files]
    opened_files = [
        _open(file, name, f" of {name!r}") for file, name in zip(files, names, strict=True)
    ]
    schema = opened_files[0][0]
    for name, (other, _) in zip(names, opened_files, strict=True):
        _check_same_columns(schema, other, repr(names[0]), name)
    return schema, [group for _, groups in opened_files for group in groups]


def _check_same_columns(schema: pa.Schema, other: pa.Schema, first: str, name: str) -> None:
    from scorewise.io._arrow_tables import metadata_of

    if (difference := _difference(schema, other)) is not None:
        raise InvalidFile(f"{name!r} has different columns from {first}: {difference}")
    if (metadata_of(other) or b"{}") != (metadata_of(schema) or b"{}"):
        raise InvalidFile(f"{name!r} has different class names or member weights from {first}")


def _difference(schema: pa.Schema, other: pa.Schema) -> str | None:
    columns, other_columns = ({f"{f.name} ({_shown(f.type)})" for f in s} for s in (schema, other))
    if columns == other_columns:
        return None
    missing, new = sorted(columns - other_columns), sorted(other_columns - columns)
    return f"{quoted_names(new)} instead of {quoted_names(missing)}"


def _shown(column_type: pa.DataType) -> str:
    """A type as text, without the names of the elements of lists, which mean nothing."""
    import pyarrow.types as kinds

    if kinds.is_fixed_size_list(column_type):
        return f"{_shown(column_type.value_type)}[{column_type.list_size}]"
    if kinds.is_list(column_type) or kinds.is_large_list(column_type):
        return f"{_shown(column_type.value_type)}[]"
    return str(column_type)


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
