"""Arrays that stay in their file until they are looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from scorewise.errors import InvalidInput
from scorewise.io._fields import native
from scorewise.io._predictions import Fields

_LARGE = 64 << 20  # bytes from which an array is mapped rather than read


@dataclass(frozen=True)
class MappedArray:
    """Where an array's numbers lie in a file."""

    path: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool

    @classmethod
    def of_header(cls, file: IO[bytes], path: Path, name: str) -> MappedArray:
        """From the header of an array in NumPy's format, with which the file begins."""
        try:
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                header = np.lib.format.read_array_header_1_0(file)
            elif version == (2, 0):
                header = np.lib.format.read_array_header_2_0(file)
            else:
                raise ValueError(f"format version {version} is for structured arrays")
            shape, is_fortran, dtype = header
            if min(shape, default=0) < 0:
                raise ValueError(f"the shape {shape} cannot be")
        except Exception as error:  # NumPy reads the header as Python, so anything may come
            raise InvalidInput(f"{name} is no array in NumPy's format: {error}") from None
        if dtype.hasobject:
            raise InvalidInput(
                f"{name} holds Python objects, which would have to be unpickled, and that can run "
                "anything; save numbers, or strings with dtype=str"
            )
        return cls(path, file.tell(), dtype, shape, is_fortran)

    @property
    def nbytes(self) -> int:
        """How long it is."""
        return math.prod(self.shape) * self.dtype.itemsize

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Some of the rows. Each map is a new one, so that memory is given back with it."""
        if self.is_fortran or not self.nbytes:
            return native(self.whole()[start:stop])
        row = self.nbytes // self.shape[0]
        return native(
            np.memmap(
                self.path,
                self.dtype,
                "r",
                self.offset + start * row,
                (stop - start, *self.shape[1:]),
            )
        )

    def whole(self) -> np.ndarray:
        """All of it: in memory, or mapped where it is large."""
        if not self.nbytes:
            return np.empty(self.shape, self.dtype)
        mapped = np.memmap(
            self.path, self.dtype, "r", self.offset, self.shape, "F" if self.is_fortran else "C"
        )
        return native(mapped) if self.nbytes >= _LARGE else native(np.array(mapped))


class Mapped:
    """A source of predictions in one or two mapped arrays, beside what is in memory."""

    def __init__(self, values: dict[str, MappedArray], beside: Fields) -> None:
        self._values, self._beside = values, beside
        first = next(iter(values.values()))
        n, m, k = first.shape
        self.shape = (n, m, k)
        self.dtype = first.dtype.newbyteorder("=")
        self.fields = frozenset(values) | frozenset(beside)
        self.joints: Sequence[int] = ()

    def parts(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Fields]:
        """Maps of the rows."""
        whole = (start, stop) == (0, self.shape[0]) and n >= stop
        for first in range(start, max(stop, start + 1), n):
            rows = first, min(first + n, stop)
            yield {
                name: (self._values[name].whole() if whole else self._values[name].rows(*rows))
                if name in self._values
                else self._beside[name][slice(*rows)]
                for name in fields
            }

    def place(self, row: int) -> str:
        """The number of the row."""
        return f"row {row}"
