"""Several arrays in a ``.npz`` file, by the names of the fields."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from scorewise.errors import InvalidInput
from scorewise.io._columns import FIELDS, LOGITS, PROBS, named_column
from scorewise.io._fields import ClassNames
from scorewise.io._mapped import Mapped, MappedArray
from scorewise.io._predictions import Predictions, Source

_MOST_TEXT = 256 << 20  # bytes of ids
_LOCAL_HEADER = 30  # bytes before the name of a member of an archive


def read(
    path: Path, class_names: ClassNames = None
) -> tuple[Source, ClassNames, np.ndarray | None]:
    """What the arrays hold; large ones that were not compressed stay in the file."""
    arrays: dict[str, Any] = {}
    mapped = {}
    with path.open("rb") as file, _damage_told(path), zipfile.ZipFile(file) as archive:
        there = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if named_column(list(there), (*PROBS, *LOGITS)) is None:
            raise InvalidInput(
                f"{path.name!r} has no array 'probs' (nor 'logits'), only "
                f"{', '.join(map(repr, sorted(there))) or 'nothing'}"
            )
        for name, known in FIELDS.items():
            key = named_column(list(there), known)
            if key is None:
                continue
            found = _array(archive, there[key], path)
            arrays[name] = found.whole() if isinstance(found, MappedArray) else found
            if isinstance(found, MappedArray) and name in {"probs", "logits"}:
                mapped[name] = found
    arrays.setdefault("class_names", class_names)
    kept = Predictions(**arrays)
    source: Source = kept.source
    if set(mapped) == {"probs", "logits"} & set(arrays):
        beside = {name: kept.whole(name) for name in kept.fields - set(mapped)}
        source = Mapped(mapped, {name: x for name, x in beside.items() if x is not None})
    return source, kept.class_names, kept.member_weights


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """A damaged or encrypted archive, or one of another kind, can raise nearly anything."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(f"{path.name!r} is no .npz file, or it is damaged: {error}") from None


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> MappedArray | np.ndarray:
    """Where an array lies in the file, or the array itself if it was compressed."""
    name = f"{info.filename!r} in {path.name!r}"
    with archive.open(info) as member:
        found = MappedArray.of_header(member, path, name)
        if info.file_size != found.offset + found.nbytes:
            raise InvalidInput(
                f"{name} is damaged: {found.shape} of {found.dtype} are {found.nbytes:,} bytes, "
                f"and {info.file_size - found.offset:,} are there"
            )
        if info.compress_type != zipfile.ZIP_STORED:
            values = np.frombuffer(member.read(), found.dtype)
            return values.reshape(found.shape, order="F" if found.is_fortran else "C")
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
        skipped = sum(int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    start = info.header_offset + _LOCAL_HEADER + skipped + found.offset
    return MappedArray(path, start, found.dtype, found.shape, found.is_fortran)


def write(predictions: Predictions, path: Path) -> None:
    """All arrays, not compressed, so that they can be mapped."""
    arrays: dict[str, Any] = {}
    for name in ("probs", "logits", "labels", "ids"):
        if name in predictions.fields:
            arrays[name] = getattr(predictions, name)
    if "ids" in arrays and arrays["ids"].dtype == object:
        longest = max(map(len, arrays["ids"]), default=0)
        if 4 * longest * len(predictions) > _MOST_TEXT:
            raise InvalidInput(
                f"the longest id has {longest:,} characters, and .npz would take as many for every "
                "row; use .parquet"
            )
        arrays["ids"] = arrays["ids"].astype(np.str_)
    if predictions.class_names is not None:
        arrays["class_names"] = np.array(predictions.class_names, dtype=np.str_)
    if predictions.weights is not None:
        arrays["weights"] = predictions.weights
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
