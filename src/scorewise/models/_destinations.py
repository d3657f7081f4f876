"""Destinations of predicted chunks: memory, a file or an array."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scorewise._files import is_real_file, is_real_folder, replacing
from scorewise.accumulate import Accumulator
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput

_WRITER = {"scorewise": "predict_samples"}  # attributes of our Zarr arrays

# each (n, M, K), or (n, L, M, 2) of L labels: all members of consecutive rows
Chunks = Iterator[np.ndarray]


def check_destination(out: Any, into: Any, n_rows: int | None) -> None:
    """Raise if the destination cannot be written to, before any work is done."""
    if into is not None and out is not None:
        raise InvalidInput("pass out= to store the members or into= to decompose them, not both")
    if into is not None and not isinstance(into, Accumulator):
        raise InvalidInput(f"into= must be a scorewise.Accumulator, not {type(into).__name__}")
    if not isinstance(out, str | os.PathLike):
        if out is not None:
            _check_array(out, n_rows)
        return
    if Path(out).suffix not in {".npy", ".zarr"}:
        raise InvalidInput(f"out={str(out)!r} must end in .npy or .zarr, or be an array")
    if not Path(out).parent.is_dir():
        raise InvalidInput(f"out={str(out)!r}: there is no folder {str(Path(out).parent)!r}")
    if Path(out).suffix == ".zarr" and not (find_spec("zarr") and find_spec("dask")):
        raise ImportError("out= with .zarr needs zarr and dask: pip install 'scorewise[dask]'")
    if Path(out).exists() and not _may_be_replaced(Path(out)):
        raise InvalidInput(
            f"out={str(out)!r} exists, and scorewise did not write it, or not everything in it; "
            "write to another path"
        )


def _may_be_replaced(path: Path) -> bool:
    """Return whether ``predict_samples`` can have written the file, or everything in the folder."""
    try:
        return _is_our_npy(path) if path.suffix == ".npy" else _is_our_zarr(path)
    except (OSError, ValueError, KeyError):  # it is no array
        return False


def _is_our_npy(path: Path) -> bool:
    stored = np.load(path, mmap_mode="r", allow_pickle=False)
    return isinstance(stored, np.ndarray) and stored.ndim in {3, 4} and stored.dtype.kind == "f"


def _is_our_zarr(path: Path) -> bool:
    import zarr

    stored = zarr.open(str(path), mode="r")
    if not isinstance(stored, zarr.Array) or dict(stored.attrs) != _WRITER:
        return False
    n_chunks = -(-stored.shape[0] // stored.chunks[0])
    zeros = "/0" * (stored.ndim - 1)
    names = {"zarr.json", *(f"c/{i}{zeros}" for i in range(n_chunks))}
    return all(
        is_real_folder(entry)
        or (is_real_file(entry) and entry.relative_to(path).as_posix() in names)
        for entry in path.rglob("*")
    )


def _check_array(out: Any, n_rows: int | None) -> None:
    if not hasattr(out, "shape") or not hasattr(out, "__setitem__"):
        raise InvalidInput(f"out= must be a path or an array (N, M, K), not {type(out).__name__}")
    if not re.fullmatch(r"float(32|64)", str(out.dtype)):
        raise InvalidInput(
            f"out= has dtype {out.dtype}; it must be a floating-point array of NumPy or Zarr, in "
            "float32 or float64"
        )
    if len(out.shape) not in {3, 4} or n_rows not in {None, out.shape[0]}:
        raise InvalidInput(f"out= has shape {tuple(out.shape)}; it must be ({n_rows or 'N'}, M, K)")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise InvalidInput("out= is read-only; open it for writing (mmap_mode='r+')")


def collect(chunks: Chunks, n_rows: int | None, out: Any, weights: np.ndarray | None) -> Samples:
    """Return the chunks as samples, in memory or in ``out``."""
    if out is None:
        probs = _in_memory(chunks, n_rows)
    elif not isinstance(out, str | os.PathLike):
        probs = _in_array(chunks, out)
    elif n_rows is None:
        raise InvalidInput(
            "the number of rows is not known beforehand, which a file needs; pass an array as "
            "out=, or X with a length"
        )
    else:
        write = _in_npy if Path(out).suffix == ".npy" else _in_zarr
        probs = write(chunks, n_rows, Path(out))
    return Samples(probs, weights, check=False)


def _in_memory(chunks: Chunks, n_rows: int | None) -> np.ndarray:
    if n_rows is None:
        return np.concatenate([chunk.copy() for chunk in chunks])
    first = next(chunks)
    whole = first if len(first) == n_rows else np.empty((n_rows, *first.shape[1:]), first.dtype)
    _fill(whole, first, chunks)
    return whole


def _in_array(chunks: Chunks, out: Any) -> Any:
    first = next(chunks)
    if tuple(out.shape[1:]) != first.shape[1:]:
        shape = ", ".join(map(str, first.shape[1:]))
        raise InvalidInput(f"out= has shape {tuple(out.shape)}; it must be (N, {shape})")
    _fill(out, first, chunks)
    return out if isinstance(out, np.ndarray) else _lazily(out)


def _in_npy(chunks: Chunks, n_rows: int, path: Path) -> np.ndarray:
    with replacing(path) as partial:
        first = next(chunks)
        shape = (n_rows, *first.shape[1:])
        whole = np.lib.format.open_memmap(partial, "w+", first.dtype, shape)
        _fill(whole, first, chunks)
        whole.flush()
        del whole  # Windows does not rename a file that is mapped
    return np.load(path, mmap_mode="r")


def _in_zarr(chunks: Chunks, n_rows: int, path: Path) -> Any:
    import zarr

    with replacing(path, folder=True) as partial:
        first = next(chunks)
        whole = zarr.create_array(
            str(partial),
            shape=(n_rows, *first.shape[1:]),
            chunks=(max(1, min(len(first), n_rows)), *first.shape[1:]),
            dtype=first.dtype,
            attributes=_WRITER,
            zarr_format=3,
        )
        _fill(whole, first, chunks)
    return _lazily(zarr.open_array(str(path), mode="r"))


def check_lazy_destination(out: Any) -> None:
    """Raise if workers cannot write to the destination, part by part."""
    if out is not None and not (isinstance(out, str | os.PathLike) and Path(out).suffix == ".zarr"):
        raise InvalidInput(
            "X is a collection of Dask, whose parts are predicted by several workers; out= must "
            "then be a path that ends in .zarr, in a folder that all workers share"
        )


def store(probs: Any, path: Path) -> Any:
    """Write a Dask array (N, M, K) to a Zarr array, and return that as a Dask array.

    Each chunk is written by the worker that computes it.
    """
    import dask
    import zarr

    size = max(1, *probs.chunks[0])
    probs = probs.rechunk((size, *probs.shape[1:]))
    with replacing(path, folder=True) as partial:
        stored = zarr.create_array(
            str(partial),
            shape=probs.shape,
            chunks=(size, *probs.shape[1:]),
            dtype=probs.dtype,
            attributes=_WRITER,
            zarr_format=3,
        )
        write = dask.delayed(_write_block)
        blocks = probs.to_delayed().reshape(-1) if probs.shape[0] else []
        starts = range(0, probs.shape[0], size)
        dask.compute([write(str(partial), x, i) for x, i in zip(blocks, starts, strict=True)])
        if stored.nchunks_initialized != (stored.nchunks if probs.shape[0] else 0):
            raise InvalidInput(
                f"out={str(path)!r}: the workers wrote to another place; use a folder that all of "
                "them share with this machine"
            )
    return _lazily(zarr.open_array(str(path), mode="r"))


def _write_block(folder: str, block: np.ndarray, start: int) -> None:
    import zarr

    if not Path(folder).is_dir():
        raise InvalidInput(
            f"a worker has no folder {folder!r}; write out= to a folder that all workers share"
        )
    zarr.open_array(folder, mode="r+")[start : start + len(block)] = block


def _lazily(stored: Any) -> Any:
    """Return an array on disk as a Dask array, which decompose reads a part at a time."""
    import dask.array as da

    return da.from_array(stored, chunks=getattr(stored, "chunks", "auto"))


def _fill(whole: Any, first: np.ndarray, chunks: Chunks) -> None:
    """Write the chunks one after the other; raise unless they fill the array exactly."""
    filled = 0
    chunk: np.ndarray | None = first
    while chunk is not None:
        end = filled + len(chunk)
        if end > whole.shape[0]:
            break
        if whole is not chunk:
            whole[filled:end] = chunk
        filled, chunk = end, next(chunks, None)
    if chunk is not None or filled != whole.shape[0]:
        more = "more rows" if chunk is not None else f"{filled} rows"
        raise InvalidInput(f"there is room for {whole.shape[0]} rows, but X has {more}")
