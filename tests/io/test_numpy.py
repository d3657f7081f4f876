"""``.npy`` and ``.npz`` files, also those that NumPy wrote."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given

import scorewise as sw
from io_support import assert_bits, assert_same, back, examples, predictions
from support import members


@examples
@given(x=predictions("npy"))
def test_read_is_the_inverse_of_write_for_npy(tmp_path, x):
    assert_same(back(tmp_path, "npy", x), x)


def test_an_array_of_64_mib_is_mapped_and_a_smaller_one_is_not(tmp_path):
    values = np.full((1 << 21, 2, 2), 0.5)
    assert values.nbytes == 64 << 20
    for array in (values, values[1:]):
        is_large = len(array) == len(values)
        np.save(tmp_path / "a.npy", array)
        np.savez(tmp_path / "a.npz", probs=array)
        for name in ("a.npy", "a.npz"):
            probs = sw.read_predictions(tmp_path / name).probs
            assert isinstance(probs, np.memmap) == is_large
            assert probs.flags.writeable != is_large
            np.testing.assert_array_equal(probs, array)


@pytest.mark.parametrize("dtype", ["<f8", ">f8", ">f4", "<f2", ">f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_numpy_are_read(tmp_path, dtype, order):
    values = members(9, 2, 3).astype(dtype)
    native = values.astype(values.dtype.newbyteorder("="))
    np.save(tmp_path / "a.npy", np.asarray(values, order=order))
    np.savez(tmp_path / "a.npz", probs=np.asarray(values, order=order))
    for name in ("a.npy", "a.npz"):
        stored = sw.read_predictions(tmp_path / name)
        assert stored.dtype.isnative
        assert_bits(np.ascontiguousarray(stored.probs), native, name)
        parts = [part.probs for part in stored.chunks(2)]
        assert_bits(np.concatenate(parts), native, name)


@pytest.mark.parametrize("dtype", ["<f8", pytest.param(">f8")])
def test_compressed_arrays_of_numpy_are_read(tmp_path, dtype):
    values = members(9, 2, 3)
    np.savez_compressed(
        tmp_path / "a.npz",
        probs=np.asfortranarray(values).astype(dtype),
        labels=np.arange(9, dtype=">i2") % 3,
        ids=np.array(list("abcdefghi"), ">U3"),
        class_names=np.array(["x", "y", "z"]),
        weights=np.array([1, 2], np.uint8),
    )
    stored = sw.read_predictions(tmp_path / "a.npz")
    np.testing.assert_array_equal(stored.probs, values)
    assert stored.labels.tolist() == [0, 1, 2] * 3
    assert stored.labels.dtype == np.int64
    assert stored.ids.tolist() == list("abcdefghi")
    assert stored.weights.tolist() == [1.0, 2.0]
    assert stored.probs.dtype.isnative
    assert "compressed" not in repr(stored)


def test_arrays_and_tensors_are_read_by_others(tmp_path, everything):
    sw.write_predictions(tmp_path / "a.npz", everything)
    sw.write_predictions(tmp_path / "a.npy", everything.probs)
    sw.write_predictions(tmp_path / "a.safetensors", everything)
    assert_bits(np.load(tmp_path / "a.npy", allow_pickle=False), everything.probs, "npy")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        result = dict(arrays)
    assert result["ids"].tolist() == everything.ids.tolist()
    assert result["class_names"].tolist() == ["x", "y", "z"]
    tensors = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    for name in ("probs", "logits", "labels", "weights"):
        assert_bits(result[name], getattr(everything, name), name)
        assert_bits(tensors[name], getattr(everything, name), name)


# -- files that grow -------------------------------------------------------------------------------


def write_archive(path: Path, header: bytes, n_bytes: int) -> None:
    """A compressed array: a header, and zeros, which take no space."""
    block = bytes(1 << 24)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("probs.npy", "w", force_zip64=True) as file,
    ):
        file.write(header)
        for _ in range(n_bytes >> 24):
            file.write(block)


def array_header(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(file, header)
    return file.getvalue()


def peak_of_refusal(path: Path, message: str) -> int:
    """How many bytes were taken at the most by reading a file that is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(sw.InvalidInput, match=message):
            sw.read_predictions(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_small_file_does_not_fill_the_memory(tmp_path):
    n_bytes = (1 << 30) + (1 << 24)
    write_archive(tmp_path / "a.npz", array_header((n_bytes // 32, 2, 2)), n_bytes)
    message = r"'a.npz' has [\d,]+ bytes and would take 1,090,519,\d+ in memory.*np.savez"
    assert peak_of_refusal(tmp_path / "a.npz", message) < 1 << 24


def test_a_header_does_not_fill_the_memory(tmp_path):
    n_bytes = 1 << 28
    write_archive(tmp_path / "a.npz", b"\x93NUMPY\2\0" + struct.pack("<I", n_bytes), n_bytes)
    assert peak_of_refusal(tmp_path / "a.npz", "is not an array in NumPy's format") < 1 << 24


def test_arrays_that_compress_well_are_read(tmp_path):
    values = np.zeros((1 << 16, 2, 8))
    values[..., 0] = 1
    np.savez_compressed(tmp_path / "a.npz", probs=values)
    assert (tmp_path / "a.npz").stat().st_size * 100 < values.nbytes
    np.testing.assert_array_equal(sw.read_predictions(tmp_path / "a.npz").probs, values)
