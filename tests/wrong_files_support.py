"""Files that are wrong in every way, and sources that break off."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy

import scorewise as sw
from support import members

GOOD = members(7, 2, 3)

MORE: dict[str, Any] = {
    "labels": [0, 1, 2, -1, 0, 1, 2],
    "ids": ["a", "bb\n", "c", "ü", "", "f", "g"],
    "class_names": ["x", "y", "z"],
    "weights": members(7, 1, 2)[:, 0],
}


def use(path: Path) -> sw.io.Predictions:
    """All that can be read of a file, in every way."""
    stored = sw.read_predictions(path)
    for part in stored.chunks(2):
        _ = part.probs if "probs" in part.fields else part.logits
    for name in (*stored.fields, "weights"):
        getattr(stored, name)
    return stored


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


class BreaksOff:
    """Rows of which only the first chunk can be read."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.shape, self.dtype, self.fields = (100, 2, 3), np.dtype("f8"), frozenset({"probs"})

    def chunks(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Any]:
        yield {"probs": members(min(n, 50), 2, 3)}
        if n > 1:
            raise self.error

    def locate(self, row: int) -> None:
        return None


def table(path: Path, rows: int = 2, metadata: Any = None, **columns: Any) -> None:
    """In row groups of two rows."""
    columns = {"probs": GOOD.tolist()} | columns
    made = pa.table({name: column for name, column in columns.items() if column is not None})
    pq.write_table(made.replace_schema_metadata(metadata), path, row_group_size=rows)


def nested(at: int, row: Any) -> pa.Array:
    rows: list[Any] = GOOD.tolist()
    rows[at] = row
    return pa.array(rows, pa.list_(pa.list_(pa.float64())))


def tensors(at: int, permutation: list[int] | None = None) -> pa.Array:
    shape = [2, 3] if permutation is None else [3, 2]
    kind = pa.fixed_shape_tensor(pa.float64(), shape, permutation=permutation)
    flat = GOOD.ravel().tolist()
    flat[at] = None
    storage = pa.FixedSizeListArray.from_arrays(pa.array(flat), 6)
    return pa.ExtensionArray.from_storage(kind, storage)


def text(content: str) -> Callable[[Path], Any]:
    return lambda path: path.write_text(content, encoding="utf-8")


def npz(mode: int = zipfile.ZIP_STORED, **arrays: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", mode) as archive:
            for name, array in arrays.items():
                buffer = io.BytesIO()
                np.save(buffer, array)
                archive.writestr(f"{name}.npy", buffer.getvalue())

    return write


def npy(header: str, data: bytes = bytes(48)) -> Callable[[Path], Any]:
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
    return lambda path: path.write_bytes(start + header.encode("latin1") + data)


def shaped(shape: Any, descr: str = "'<f8'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n"


def columns(**source: Any) -> Callable[[Path], None]:
    return lambda path: table(path, **source)


def tensors_file(metadata: dict[str, str] | None = None, **source: Any) -> Callable[[Path], None]:
    return lambda path: safetensors.numpy.save_file(source, path, metadata)


PLACE = r"row 3 \(row 1 of row group 1\)"

CELLS = "probs_0_0,probs_0_1\n0.5,0.5\n"


def write_kind(kind: str, path: Path) -> None:
    """A small file of a kind, ours or somebody else's."""
    with_lists = pa.table(
        {
            "probs": GOOD.tolist(),
            "ids": MORE["ids"],
            "labels": pa.array(["x", "y", None, "z", "x", "y", "x"]).dictionary_encode(),
        }
    ).replace_schema_metadata({"scorewise": '{"class_names": ["x", "y", "z"]}'})
    if kind == "nested.parquet":
        pq.write_table(with_lists, path, row_group_size=3)
    elif kind in ("nested.arrow", "lz4.arrow"):
        options = pa.ipc.IpcWriteOptions(compression="lz4" if kind == "lz4.arrow" else None)
        with pa.ipc.new_file(str(path), with_lists.schema, options=options) as writer:
            writer.write_table(with_lists, 3)
    elif kind == "compressed.npz":
        np.savez_compressed(path, probs=GOOD, labels=np.zeros(7, int))
    else:
        sw.write_predictions(path, GOOD, **{} if kind == "npy" else MORE)


KINDS = [
    "npy",
    "npz",
    "compressed.npz",
    "csv",
    "safetensors",
    "parquet",
    "nested.parquet",
    "arrow",
    "nested.arrow",
    "lz4.arrow",
]
