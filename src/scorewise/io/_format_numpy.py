"""NumPy's files: ``.npy`` with one array, ``.npz`` with several by the names of the fields.

Arrays that are not compressed stay in the file and are mapped when they are used.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import SEEK_CUR, BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np

from scorewise import _validate as validate
from scorewise._fields import checked_names
from scorewise._text import quoted
from scorewise.errors import InvalidFile, InvalidInput, Remedy
from scorewise.io._formats import FileFormat, TableReader
from scorewise.io._predictions import Arrays, Predictions, check_shape, native
from scorewise.io._read_options import (
    ReadOptions,
    axes_of,
    fields_of,
    predictions_of,
    rows_members_classes,
    warn_of_many_members,
)

_LARGE = 64 << 20  # bytes from which an array is mapped rather than read
_INFLATED_BYTES = 1 << 30  # of compressed arrays that are read, however small their file is
_MOST_INFLATED = 100  # times the size of the file, for larger arrays
_LONGEST_HEADER = 10_000  # characters, as in NumPy
_HEADERS: dict[tuple[int, int], tuple[int, Callable[..., Any]]] = {  # bytes of its length, reader
    (1, 0): (2, np.lib.format.read_array_header_1_0),
    (2, 0): (4, np.lib.format.read_array_header_2_0),
}
_MOST_TEXT = 256 << 20  # bytes of ids
_LOCAL_HEADER = 30  # bytes before the name of a file in an archive


# -- arrays in a file ------------------------------------------------------------------------------


@dataclass(frozen=True)
class MappedArray:
    """The position, dtype and shape of an array in a file."""

    path: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool

    @classmethod
    def from_header(cls, file: IO[bytes], path: Path, name: str) -> MappedArray:
        """Return the array whose header, in NumPy's format, is at the beginning of a file."""
        beginning = BytesIO(file.read(2 * _LONGEST_HEADER))
        try:
            version = np.lib.format.read_magic(beginning)
            if version not in _HEADERS:
                raise ValueError(f"format version {version} is not supported")
            n_length_bytes, read_header = _HEADERS[version]
            length = int.from_bytes(beginning.read(n_length_bytes), "little")
            if length > _LONGEST_HEADER:
                raise ValueError(f"its header has {length:,} bytes")
            beginning.seek(-n_length_bytes, SEEK_CUR)
            shape, is_fortran, dtype = read_header(beginning)
            if any(isinstance(n, bool) or n < 0 for n in shape):
                raise ValueError(f"the shape {quoted(shape)} is invalid")
        except Exception as error:  # NumPy parses the header as Python, so any error may occur
            raise InvalidFile(f"{name} is not an array in NumPy's format: {error}") from None
        if dtype.hasobject:
            raise InvalidFile(
                f"{name} holds Python objects, and unpickling them can run any "
                "code; save numbers, or strings with dtype=str"
            )
        return cls(path, beginning.tell(), dtype, shape, is_fortran)

    @property
    def nbytes(self) -> int:
        """The size of the values in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return some rows in a separate memory map, so that its memory can be released."""
        if self.is_fortran or not self.nbytes:
            return self.mapped()[start:stop]
        row = self.nbytes // self.shape[0]
        shape = (stop - start, *self.shape[1:])
        return np.memmap(self.path, self.dtype, "r", self.offset + start * row, shape)

    def mapped(self) -> np.ndarray:
        """Return a memory map of all rows."""
        if not self.nbytes:
            return np.empty(self.shape, self.dtype)
        order: Any = "F" if self.is_fortran else "C"
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)

    def whole(self) -> np.ndarray:
        """Return all rows, in memory or, if large, memory-mapped."""
        mapped = self.mapped()
        return native(mapped) if self.nbytes >= _LARGE else native(np.array(mapped))


@dataclass(frozen=True)
class MappedMembers:
    """Predictions in a file; ``axes`` are those of rows, members and classes as stored."""

    array: MappedArray
    axes: tuple[int, ...]

    @classmethod
    def of(cls, array: MappedArray, name: str, options: ReadOptions) -> MappedMembers:
        """Return the predictions whose axes are where the user says."""
        return cls(array, axes_of(array.shape, name, options))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of rows, members and classes (N, M, K)."""
        n, k = (self.array.shape[self.axes[i]] for i in (0, -1))
        return n, 1 if len(self.axes) == 2 else self.array.shape[self.axes[1]], k

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return a view ``(n, M, K)`` of some rows in a separate memory map."""
        if self.axes[0] == 0:
            return native(rows_members_classes(self.array.rows(start, stop), self.axes))
        return native(rows_members_classes(self.array.mapped(), self.axes)[start:stop])

    def whole(self) -> np.ndarray:
        """Return all rows ``(N, M, K)``, in memory or, if large, memory-mapped."""
        return rows_members_classes(self.array.whole(), self.axes)


class MappedSource:
    """Rows of one or two mapped arrays, and of other fields in memory."""

    def __init__(self, mapped: dict[str, MappedMembers], in_memory: Arrays) -> None:
        self._mapped, self._in_memory = mapped, in_memory
        first = next(iter(mapped.values()))
        self.shape = first.shape
        self.dtype = first.array.dtype.newbyteorder("=")
        self.fields = frozenset(mapped) | frozenset(in_memory)
        self.row_group_starts: Sequence[int] = ()

    def chunks(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Arrays]:
        """Yield memory maps of the rows."""
        is_whole = (start, stop) == (0, self.shape[0]) and n >= stop
        for first in range(start, max(stop, start + 1), n):
            rows = first, min(first + n, stop)
            arrays = {}
            for name in fields:
                if name in self._in_memory:
                    arrays[name] = self._in_memory[name][slice(*rows)]
                elif is_whole:
                    arrays[name] = self._mapped[name].whole()
                else:
                    arrays[name] = self._mapped[name].rows(*rows)
            yield arrays

    def locate(self, row: int) -> None:
        """Return None: the number of a row identifies it."""


# -- .npy ------------------------------------------------------------------------------------------


def _read_npy(path: Path, options: ReadOptions) -> Predictions:
    """Return the predictions in the array, memory-mapped."""
    for argument in ("probs", "labels", "ids"):
        if getattr(options, argument) is not None:
            raise InvalidInput(
                "a .npy file holds one array, without a name; save what belongs together in one "
                'file: np.savez("test.npz", probs=…, labels=…)',
                Remedy(argument, None),
            )
    with path.open("rb") as file:
        array = MappedArray.from_header(file, path, repr(path.name))
    validate.floating(np.empty(0, array.dtype), options.field)
    members = MappedMembers.of(array, options.field, options)
    check_shape(members.shape, options.field)
    n_bytes = path.stat().st_size - array.offset
    if n_bytes < array.nbytes:
        raise InvalidFile(
            f"{path.name!r} is truncated: {array.shape} of {array.dtype} are {array.nbytes:,} "
            f"bytes, but the file has {n_bytes:,}"
        )
    warn_of_many_members(members.shape, options)
    source = MappedSource({options.field: members}, {})
    return Predictions.from_source(source, checked_names(options.class_names, members.shape[-1]))


def _write_npy(predictions: Predictions, path: Path) -> None:
    """Write the probabilities alone, a chunk at a time."""
    others = sorted(predictions.fields - {"probs"})
    others += ["class_names"] * (predictions.class_names is not None)
    others += ["weights"] * (predictions.member_weights is not None)
    if others:
        raise InvalidInput(
            f"a .npy file holds probs alone, and there are {', '.join(others)} too; use .npz or "
            ".parquet"
        )
    with path.open("wb") as file:
        header = {
            "descr": np.lib.format.dtype_to_descr(predictions.dtype),
            "fortran_order": False,
            "shape": predictions.shape,
        }
        np.lib.format.write_array_header_2_0(file, header)
        for chunk in predictions.chunks():
            np.ascontiguousarray(chunk.probs).tofile(file)


# -- .npz ------------------------------------------------------------------------------------------


def _read_npz(path: Path, options: ReadOptions) -> Predictions:
    """Return all arrays; probabilities and logits stay in the file if not compressed."""
    arrays: dict[str, Any] = {}
    mapped = {}
    with path.open("rb") as file, _raise_if_damaged(path), zipfile.ZipFile(file) as archive:
        entries = _entries(archive)
        named = fields_of(list(entries), options)
        of_fields = {field: entries[name] for field, name in named.items()}
        _refuse_to_inflate(of_fields.values(), path)
        for field, entry in of_fields.items():
            array = _read_archived(archive, entry, path)
            arrays[field] = array.whole() if isinstance(array, MappedArray) else array
            if isinstance(array, MappedArray) and field in {"probs", "logits"}:
                mapped[field] = array
    predictions = predictions_of(arrays, options)
    if set(mapped) != {"probs", "logits"} & set(arrays):
        return predictions
    in_memory = {name: getattr(predictions, name) for name in predictions.fields - set(mapped)}
    members = {name: MappedMembers.of(array, name, options) for name, array in mapped.items()}
    source = MappedSource(members, in_memory)
    return Predictions.from_source(source, predictions.class_names, predictions.member_weights)


def _table(path: Path) -> TableReader:
    """Return the arrays with one value for each row."""

    def rows(names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        with path.open("rb") as file, _raise_if_damaged(path), zipfile.ZipFile(file) as archive:
            entries = _entries(archive)
            _refuse_to_inflate([entries[name] for name in names], path)
            arrays = [_read_archived(archive, entries[name], path) for name in names]
        columns = [x.mapped() if isinstance(x, MappedArray) else x for x in arrays]
        shapes = {name: column.shape for name, column in zip(names, columns, strict=True)}
        if len({*shapes.values()}) > 1 or columns[0].ndim != 1:
            raise InvalidFile(
                f"{path.name!r} has arrays of the shapes {shapes}; they must be (N,), for each row"
            )
        return zip(*(column.tolist() for column in columns), strict=True)

    with path.open("rb") as file, _raise_if_damaged(path), zipfile.ZipFile(file) as archive:
        return TableReader(list(_entries(archive)), rows)


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the arrays in an archive by name."""
    return {info.filename.removesuffix(".npy"): info for info in archive.infolist()}


@contextmanager
def _raise_if_damaged(path: Path) -> Iterator[None]:
    """Raise InvalidFile for a damaged or encrypted archive, which can raise any error."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidFile(f"{path.name!r} is not a valid .npz file: {error}") from None


def _refuse_to_inflate(entries: Iterable[zipfile.ZipInfo], path: Path) -> None:
    """Raise if arrays are much larger than their file, and too large to read them nevertheless."""
    n_bytes, n_stored = sum(entry.file_size for entry in entries), path.stat().st_size
    if n_bytes > max(_INFLATED_BYTES, _MOST_INFLATED * n_stored):
        raise InvalidFile(
            f"{path.name!r} has {n_stored:,} bytes and would take {n_bytes:,} in memory, more than "
            f"{_MOST_INFLATED} times as much; if that is right, save it with np.savez, which does "
            "not compress"
        )


def _read_archived(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path
) -> MappedArray | np.ndarray:
    """The position of an array in the file, or the array itself if it is compressed."""
    name = f"{quoted(info.filename)} in {path.name!r}"
    with archive.open(info) as entry:
        array = MappedArray.from_header(entry, path, name)
        if info.file_size != array.offset + array.nbytes:
            raise InvalidFile(
                f"{name} is damaged: {array.shape} of {array.dtype} are {array.nbytes:,} bytes, "
                f"but the file has {info.file_size - array.offset:,}"
            )
        if info.compress_type != zipfile.ZIP_STORED:
            entry.seek(array.offset)
            values = np.frombuffer(entry.read(), array.dtype)
            return values.reshape(array.shape, order="F" if array.is_fortran else "C")
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
        skipped = sum(int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    start = info.header_offset + _LOCAL_HEADER + skipped + array.offset
    return MappedArray(path, start, array.dtype, array.shape, array.is_fortran)


def _write_npz(predictions: Predictions, path: Path) -> None:
    """Write all arrays, not compressed, so that they can be memory-mapped."""
    arrays: dict[str, Any] = {
        name: getattr(predictions, name)
        for name in ("probs", "logits", "labels", "ids")
        if name in predictions.fields
    }
    if "ids" in arrays and arrays["ids"].dtype == object:
        longest = max(map(len, arrays["ids"]), default=0)
        if 4 * longest * len(predictions) > _MOST_TEXT:
            raise InvalidInput(
                f"the longest id has {longest:,} characters, and .npz would store as many for "
                "every row; use .parquet"
            )
        arrays["ids"] = arrays["ids"].astype(np.str_)
    if predictions.class_names is not None:
        arrays["class_names"] = np.array(predictions.class_names, dtype=np.str_)
    if predictions.has_ambiguous_labels:
        arrays["labels_are"] = np.array("indices")
    if predictions.weights is not None:
        arrays["weights"] = predictions.weights
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


FORMATS = (
    FileFormat((".npz",), _read_npz, _write_npz, table=_table),
    FileFormat((".npy",), _read_npy, _write_npy),
)
