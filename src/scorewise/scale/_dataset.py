"""Data sets: a folder of Parquet files with predictions, of which each file is a partition."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._numerics import evenly_spaced
from scorewise._text import counted, one_line, quoted, shape_text
from scorewise.errors import InvalidFile, InvalidInput, Remedy
from scorewise.io import Predictions, parquet_schema, read_parquet_file, read_predictions

_VERSION_KEYS = (  # of what filesystems say about a file; the first that is there
    ("ETag", "etag", "md5Hash", "content_md5", "generation"),
    ("mtime", "LastModified", "last_modified", "updated", "created"),
)
_SHOWN_FILES = 5  # whose lists show the numbers of members and classes


@dataclass(frozen=True)
class Partition:
    """A file of a data set.

    Attributes
    ----------
    number : int
        From 0, in the order of the names.
    name : str
        The path of the file relative to the folder.
    path : str
        The path of the file on its filesystem.
    version : str
        Size and time of the last change, or the digest that the filesystem stores; it changes when
        the file is replaced or edited.
    left_out : integer array (r,), or None
        Numbers of invalid rows, in rising order, that are left out when the file is read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.scale import Dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("monday", "tuesday"):
    ...     sw.write_predictions(folder / f"{name}.parquet", np.full((4, 3, 2), 0.5))
    >>> [(partition.number, partition.name) for partition in Dataset.of(folder).partitions]
    [(0, 'monday.parquet'), (1, 'tuesday.parquet')]
    """

    number: int
    name: str
    path: str
    version: str
    left_out: np.ndarray | None = field(default=None, repr=False, compare=False)

    def row_numbers(self, n_rows: int) -> np.ndarray:
        """Return the numbers of the first ``n_rows`` in the file, without those left out.

        Parameters
        ----------
        n_rows : int

        Returns
        -------
        integer array (n_rows,)
        """
        if self.left_out is None:
            return np.arange(n_rows)
        numbers = np.arange(n_rows + len(self.left_out))
        return np.setdiff1d(numbers, self.left_out, assume_unique=True)[:n_rows]


@dataclass(frozen=True)
class Dataset:
    """Predictions in a folder of Parquet files, which workers of a cluster read.

    Use it for folders that are larger than one machine. Making it lists the folder once and reads
    the columns of the first file; where predictions are lists, also some rows of five files. The
    files are checked when they are read.

    Attributes
    ----------
    address : str
        Where the folder is, with its protocol: ``file:///data/predictions``, ``s3://bucket/x``.
    partitions : tuple of Partition
        The files in the order of their names; hidden ones are left out.
    reading : dict
        Options of :func:`scorewise.read_predictions`.
    storage_options : dict
        Options of the filesystem, such as credentials. They are in no file that scorewise writes.
    schema : pyarrow.Schema
        The columns of the first file, which all files must have.
    members_and_classes : tuple of int
        M and K. Of lists, most of those that were looked at.
    dtype : dtype
        Of the members' predictions.
    class_names : tuple of str or None
    member_weights : array (M,) or None
        Weights that all rows share.
    fields : frozenset of str
        What the files have: ``"probs"`` or ``"logits"``, ``"labels"``, ``"ids"``, ``"weights"``.
    labels_depend_on_all_rows : bool
        Whether labels are numbers that could be names or indices of classes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.scale import Dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "predictions"
    >>> folder.mkdir()
    >>> for name in ("a", "b"):
    ...     sw.write_predictions(folder / f"{name}.parquet", np.full((4, 3, 2), 0.5))
    >>> dataset = Dataset.of(folder)
    >>> dataset
    Dataset(2 partitions, 3 members, 2 classes, float64)
    >>> dataset.read(dataset.partitions[1]).shape
    (4, 3, 2)
    """

    address: str
    partitions: tuple[Partition, ...] = field(repr=False)
    reading: Mapping[str, Any]
    storage_options: Mapping[str, Any] = field(repr=False)
    schema: Any = field(repr=False)
    members_and_classes: tuple[int, int]
    dtype: np.dtype[Any]
    class_names: tuple[str, ...] | None
    member_weights: np.ndarray | None = field(repr=False)
    fields: frozenset[str]
    labels_depend_on_all_rows: bool = field(repr=False)

    @classmethod
    def of(
        cls,
        address: str | os.PathLike[str] | Dataset,
        *,
        storage_options: Mapping[str, Any] | None = None,
        **reading: Any,
    ) -> Dataset:
        """Return the data set at an address.

        Parameters
        ----------
        address : str, path or Dataset
            A folder, or a single Parquet file: a path, or an address of any filesystem of
            ``fsspec``, such as ``s3://bucket/folder``. A data set is returned as it is, with its
            own options.
        storage_options : dict, optional
            Options of the filesystem.
        **reading
            As for :func:`scorewise.read_predictions`: ``class_names``, ``labels``, …

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidInput
            If there are no Parquet files, or the first one has no predictions.
        FileNotFoundError
            If there is nothing at the address.
        """
        if isinstance(address, Dataset):
            _refuse_options(reading)
            return address
        known = [name for name in validate.options_of(read_predictions) if name != "path"]
        validate.known_options(reading, known, ["address", "storage_options"])
        reading = {name: x for name, x in reading.items() if x is not None and x is not False}
        filesystem, root = open_filesystem(address, storage_options)
        partitions = tuple(_partitions(filesystem, root, str(address)))
        first, schema = _first_columns(filesystem, partitions, reading)
        return cls(
            filesystem.unstrip_protocol(root),
            partitions,
            reading,
            dict(storage_options or {}),
            schema,
            first.shape[1:],
            first.dtype,
            first.class_names,
            first.member_weights,
            first.fields,
            first.labels_depend_on_all_rows,
        )

    def __repr__(self) -> str:
        of_row = shape_text((1, *self.members_and_classes)).partition(", ")[2]
        return f"Dataset({counted(len(self), 'partition')}, {of_row}, {self.dtype})"

    def __len__(self) -> int:
        return len(self.partitions)

    def require_labels(self) -> None:
        """Raise if there are no labels, or if each file could read them in another way."""
        name = self.partitions[0].name
        if "labels" not in self.fields:
            remedy = Remedy("labels", ..., "the name of the column with the labels")
            raise InvalidInput(f"{name!r} has no labels", remedy)
        if self.labels_depend_on_all_rows and len(self.partitions) > 1:
            raise InvalidInput(
                f"labels in {name!r} are numbers, and so are the names of the classes; whether "
                "they are names or indices cannot be seen in each file of a folder",
                Remedy("labels_are", "names"),
                Remedy("labels_are", "indices", "if 0 is the first class"),
            )

    @property
    def filesystem(self) -> Any:
        """The filesystem of ``fsspec`` that the files are on."""
        return open_filesystem(self.address, self.storage_options)[0]

    def read(self, partition: Partition) -> Predictions:
        """Return the predictions of a partition, whose rows are read as they are used.

        Rows that the partition leaves out are not among them. Errors name the partition, the row
        group and the row.

        Parameters
        ----------
        partition : Partition

        Returns
        -------
        Predictions

        Raises
        ------
        InvalidInput
            If it is not a Parquet file, or differs from the others in its columns.
        """
        return read_parquet_file(
            partition.path,
            filesystem=self._remote(),
            name=partition.name,
            schema=self.schema,
            left_out=partition.left_out,
            shape=self.members_and_classes,
            **self.reading,
        )

    def empty(self, n_rows: int = 0) -> Predictions:
        """Return uniform predictions of the same members and classes for ``n_rows`` rows."""
        m, k = self.members_and_classes
        name, value = ("probs", 1 / k) if "probs" in self.fields else ("logits", 0)
        arrays = {name: np.full((n_rows, m, k), value, self.dtype)}
        weights = np.ones((n_rows, m)) if "weights" in self.fields else self.member_weights
        ids = (
            np.array([f"row-{i}" for i in range(n_rows)], object) if "ids" in self.fields else None
        )
        labels = np.zeros(n_rows, np.int64) if "labels" in self.fields else None
        return Predictions(
            **arrays,
            labels=labels,
            ids=ids,
            class_names=self.class_names,
            weights=weights,
            labels_are="indices",
        )

    def read_rows(self, partition: Partition, rows: np.ndarray) -> Any:
        """Return some rows of a partition with all their columns, as a pyarrow table.

        Parameters
        ----------
        partition : Partition
        rows : integer array (r,)
            Numbers of the rows in the file, in rising order.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        InvalidInput
            If the file cannot be read.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        place = repr(partition.name)
        try:
            with pq.ParquetFile(partition.path, filesystem=self._remote()) as file:
                tables, first = [file.schema_arrow.empty_table()], 0
                for i in range(file.num_row_groups):
                    place = f"{partition.name!r}: row group {i}"
                    stop = first + file.metadata.row_group(i).num_rows
                    inside = rows[(rows >= first) & (rows < stop)]
                    if len(inside):
                        tables.append(file.read_row_group(i).take(pa.array(inside - first)))
                    first = stop
                return pa.concat_tables(tables)
        except (pa.ArrowException, OSError) as error:
            if getattr(error, "errno", None):  # of the system, not of the file
                raise
            raise InvalidFile(f"{place} cannot be read: {one_line(error)}") from None

    def for_workers(self) -> Dataset:
        """Return the data set without its list of files, of which each task gets one."""
        return replace(self, partitions=self.partitions[:1])

    def _remote(self) -> Any:
        """The filesystem, unless the files are on this machine, where pyarrow reads faster."""
        filesystem = self.filesystem
        return None if is_local(filesystem) else filesystem


# -- filesystems -----------------------------------------------------------------------------------


def open_filesystem(
    address: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> tuple[Any, str]:
    """Return the filesystem of ``fsspec`` for an address, and the path on it."""
    import fsspec

    text = os.fspath(address)
    try:
        filesystem, path = fsspec.core.url_to_fs(text, **(storage_options or {}))
    except ValueError as error:  # an unknown protocol
        raise InvalidInput(f"{quoted(text)} is no address that fsspec knows: {error}") from None
    return filesystem, path.rstrip("/") or path


def is_local(filesystem: Any) -> bool:
    """Whether a filesystem is that of this machine."""
    return "file" in _protocols(filesystem)


def _protocols(filesystem: Any) -> Collection[str]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else protocol


def _partitions(filesystem: Any, root: str, address: str) -> Iterator[Partition]:
    """The Parquet files under a path, in the order of their names, without hidden ones."""
    if filesystem.isfile(root):
        files = {root: filesystem.info(root)}
        base = root.rpartition("/")[0]
    elif filesystem.exists(root):
        files = filesystem.find(root, detail=True)
        base = root
    else:
        raise FileNotFoundError(f"there is no folder {address!r}")
    names = {
        path: path.removeprefix(base).lstrip("/")
        for path, info in files.items()
        if info["type"] == "file"
    }
    shown = [
        path
        for path, name in names.items()
        if name.lower().endswith(".parquet")
        and not any(part.startswith((".", "_")) for part in name.split("/"))
    ]
    if not shown:
        raise InvalidFile(f"{address!r} has no Parquet files")
    # as paths sort: by folder, then by name
    for number, path in enumerate(sorted(shown, key=lambda path: names[path].split("/"))):
        yield Partition(number, names[path], path, _version(files[path]))


def _version(info: Mapping[str, Any]) -> str:
    """What a filesystem says about a file that changes with its content."""
    parts = [str(info.get("size"))]
    for keys in _VERSION_KEYS:
        value = next((info[key] for key in keys if info.get(key) is not None), None)
        parts += [] if value is None else [str(value)]
    return " ".join(parts)


def _first_columns(
    filesystem: Any, partitions: tuple[Partition, ...], reading: dict[str, Any]
) -> tuple[Predictions, Any]:
    """The first file that has rows, and its columns; the lists of most files have its shape."""

    def read(partition: Partition, **options: Any) -> Predictions:
        return read_parquet_file(partition.path, name=partition.name, **where, **options, **reading)

    where = {"filesystem": None if is_local(filesystem) else filesystem}
    problem = None
    for partition in partitions:
        try:
            schema = parquet_schema(partition.path, name=partition.name, **where)
            first = read(partition)
        except InvalidInput as error:  # corrupt, or empty: others may be valid
            problem = problem or error
            continue
        if not any(_has_any_length(column.type) for column in schema):
            return first, schema
        shapes = Counter([first.shape[1:]])
        for i in evenly_spaced(len(partitions), _SHOWN_FILES):
            if i != partition.number:
                with suppress(InvalidInput):
                    shapes[read(partitions[i], schema=schema).shape[1:]] += 1
        return read(partition, shape=shapes.most_common(1)[0][0]), schema
    assert problem is not None
    raise problem


def _has_any_length(kind: Any) -> bool:
    """Whether lists of this type, or lists in them, can have different lengths."""
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        return _has_any_length(kind.value_type)
    return bool(types.is_list(kind) or types.is_large_list(kind))


def _refuse_options(options: Mapping[str, Any]) -> None:
    passed = [name for name, value in options.items() if value is not None]
    if passed:
        raise InvalidInput(
            f"{', '.join(passed)}: cannot be passed with a Dataset; pass them to Dataset.of"
        )


def local_path(address: str | os.PathLike[str]) -> Path | None:
    """The path of an address on this machine; None if it is on another filesystem."""
    filesystem, path = open_filesystem(address)
    return Path(path) if is_local(filesystem) else None
