"""Files that cannot be read are refused by name."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from scorewise.errors import CorruptData, ScorewiseError


@contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """A damaged file, or one of another kind, can raise nearly anything."""
    try:
        yield
    except (ScorewiseError, MemoryError, ImportError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's fault
            raise
        raise CorruptData(f"{path} cannot be read, so it is damaged: {error}") from None


def content(path: Path, most: int) -> bytes:
    """All bytes, those that are packed where the name ends in .gz, and no more than so many."""
    with damage_told(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        found: bytes = file.read(most + 1)
    if len(found) > most:
        raise CorruptData(f"{path} has more than the {most:,} bytes that were expected")
    return found


def checked_labels(values: np.ndarray, n_classes: int, path: Path, first: int = 0) -> np.ndarray:
    """Class numbers from 0 on, where the file counts from ``first``."""
    if values.dtype.kind not in "iu":
        raise CorruptData(f"{path} has labels of {values.dtype}")
    labels = values.astype(np.int64) - first
    wrong = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if wrong.size:
        row = int(wrong[0])
        raise CorruptData(
            f"{path} has the label {int(labels[row]) + first} in row {row}; labels are "
            f"{first} to {first + n_classes - 1}"
        )
    return labels
