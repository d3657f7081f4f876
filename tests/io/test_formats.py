"""Predictions in files: what is read is what was written, by us and by others, part by part."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings

import scorewise as sw
from scorewise.io import _predictions as in_memory
from support import members

FORMATS = ["npz", "npy", "parquet", "arrow", "feather", "folder", "csv", "safetensors"]
DTYPES = ["float16", "float32", "float64"]
PER_ROW = ("probs", "logits", "labels", "ids")
examples = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
fewer = settings(examples, max_examples=15)


def path_of(folder: Path, kind: str) -> Path:
    return folder / ("all" if kind == "folder" else f"all.{kind}")


def read(kind: str, path: Path) -> sw.io.Predictions:
    return sw.read_predictions(path_of(path, kind))


def back(folder: Path, kind: str, *values: Any, **beside: Any) -> sw.io.Predictions:
    """What a file gives back."""
    path = path_of(folder, kind)
    sw.write_predictions(path, *values, **beside)
    assert not [file.name for file in folder.iterdir() if file.name.startswith(".")]
    return sw.read_predictions(path)


def assert_bits(one: Any, other: Any, name: str, payload: bool = True) -> None:
    """The same to the last bit, but that text has one NaN only."""
    assert (one is None) == (other is None), name
    if one is None:
        return
    assert one.dtype == other.dtype, name
    assert one.shape == other.shape, name
    if one.dtype == object:
        assert one.tolist() == other.tolist(), name
        assert {type(x) for x in one} == {type(x) for x in other}, name
        return
    if not payload and one.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other), name)
        one, other = (np.where(np.isnan(x), x.dtype.type(np.nan), x) for x in (one, other))
    assert one.tobytes() == other.tobytes(), name


def assert_same(found: sw.io.Predictions, expected: sw.io.Predictions, kind: str = "") -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert found.fields == expected.fields
    assert found.class_names == expected.class_names
    payload = kind != "csv"
    for name in PER_ROW:
        if name in expected.fields:
            exact = payload or name in ("labels", "ids")
            assert_bits(getattr(found, name), getattr(expected, name), name, exact)
    shared = expected.member_weights is not None
    assert (found.member_weights is not None) == shared
    # the shared weights are text in Arrow's metadata too
    of_text = not payload or (shared and kind in ("parquet", "arrow", "feather", "folder"))
    assert_bits(found.weights, expected.weights, "weights", not of_text)


SPECIAL = [0.0, -0.0, 1.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, 1e-45, 6e-8, 0.1, -1e30]
TEXTS = [
    "",
    " ",
    "\n",
    "\r",
    "\r\n",
    '"',
    ",",
    "a,b",
    "'",
    "007",
    "-1",
    "nan",
    "# scorewise {}",
    "\ufeff",
    "ü",
    "日本",
    "\U0001f984",
    "\u202eleft",
    "<script>",
    "\t",
    "\x1f",
    "\x85",
    "\u2028",
    "NULL",
    "x" * 10_000,
]
PLAIN = [one for one in TEXTS if one != "\r"]  # see test_a_carriage_return_is_kept
text = st.sampled_from(TEXTS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5
)
whole = st.sampled_from([-(2**63), 2**63 - 1, 0, -1]) | st.integers(-(2**63), 2**63 - 1)


def numbers(draw: Any, *shape: int) -> np.ndarray:
    """Any bits at all, and those that are often wrong."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    bits = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL).astype(dtype)
    return np.where(rng.random(shape) < 0.5, bits, rng.choice(special, shape))


@st.composite
def predictions(draw: Any, kind: str = "", n: int | None = None) -> sw.io.Predictions:
    if n is None:
        n = draw(st.sampled_from([0, 1, 2, 5, 19]))
    m, k = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    if kind == "npy":
        return sw.io.Predictions(numbers(draw, n, m, k))
    values = draw(st.sampled_from([("probs",), ("logits",), ("probs", "logits")]))
    given: dict[str, Any] = {name: numbers(draw, n, m, k) for name in values}
    if draw(st.booleans()):
        given["labels"] = draw(st.lists(st.integers(-1, k - 1), min_size=n, max_size=n))
    of = draw(st.sampled_from([None, text, whole]))
    if of is not None:
        ids = draw(st.lists(of, min_size=n, max_size=n))
        if of is text and kind == "csv":  # see test_a_carriage_return_is_kept
            ids = [one.replace("\r", "") for one in ids]
        given["ids"] = np.array(ids, dtype=object if of is text else np.int64)
    if draw(st.booleans()):
        given["class_names"] = draw(st.lists(text, min_size=k, max_size=k, unique=True))
    weights = draw(st.sampled_from([None, (m,), (n, m)]))
    if weights is not None:
        given["weights"] = numbers(draw, *weights)
    return sw.io.Predictions(**given)


# -- exact inverses --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind not in ("npy", "safetensors")])
@examples
@given(data=st.data())
def test_read_is_the_inverse_of_write(tmp_path, kind, data):
    x = data.draw(predictions(kind))
    assert_same(back(tmp_path, kind, x), x, kind)


@examples
@given(x=predictions("npy"))
def test_read_is_the_inverse_of_write_for_npy(tmp_path, x):
    assert_same(back(tmp_path, "npy", x), x)


@examples
@given(x=predictions().filter(lambda x: not x.from_logits))
def test_read_is_the_inverse_of_write_for_safetensors(tmp_path, x):
    assert_same(back(tmp_path, "safetensors", x), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_alone_are_written_as_they_are(tmp_path, dtype, value):
    x = sw.io.Predictions(logits=np.full((3, 1, 2), value, dtype))
    assert_same(back(tmp_path, "safetensors", x), x)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_half_is_kept(tmp_path, kind):
    values = np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(-1, 4, 8)
    x = sw.io.Predictions(values)
    assert_same(back(tmp_path, kind, x), x, kind)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_text_keeps_every_number(tmp_path, dtype):
    rng = np.random.default_rng(0)
    kind = {"float32": np.uint32, "float64": np.uint64}[dtype]
    values = rng.integers(0, np.iinfo(kind).max, 30_000, kind).view(dtype).reshape(-1, 3, 10)
    x = sw.io.Predictions(np.where(np.isnan(values), np.zeros((), dtype), values))
    assert_same(back(tmp_path, "csv", x), x)


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_not_there_is_not_there(tmp_path, kind):
    found = back(tmp_path, kind, members(3, 2, 4))
    assert found.fields == {"probs"}
    assert found.logits is None
    assert found.labels is None
    assert found.ids is None
    assert found.weights is None
    assert found.class_names is None
    assert repr(found) == "Predictions(3 rows, 2 members, 4 classes, float64)"


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "npy"])
def test_samples_are_written_with_their_weights(tmp_path, kind):
    samples = sw.Samples(members(4, 3, 2), [0.5, 0.25, 0.25])
    found = back(tmp_path, kind, samples, labels=[0, 1, -1, 0])
    np.testing.assert_array_equal(found.weights, samples.weights)
    np.testing.assert_array_equal(found.samples.probs, samples.probs)


@pytest.mark.parametrize("kind", FORMATS)
def test_arrays_in_another_order_of_memory_are_written_as_they_are_meant(tmp_path, kind):
    values = members(6, 3, 4)
    for other in (np.asfortranarray(values), values[::-1][::-1], values.transpose(2, 0, 1).copy()):
        if other.shape != values.shape:
            other = other.transpose(1, 2, 0)
        np.testing.assert_array_equal(back(tmp_path, kind, other).probs, values)


@pytest.mark.parametrize("kind", FORMATS)
def test_arrays_in_another_order_of_bytes_are_written_as_they_are_meant(tmp_path, kind):
    values = members(6, 3, 4).astype("f4")
    weights = {} if kind == "npy" else {"weights": np.ones((6, 3), ">f4")}
    found = back(tmp_path, kind, values.astype(">f4"), **weights)
    assert_bits(found.probs, values, "probs")
    assert found.probs.dtype.isnative


@pytest.mark.parametrize("kind", FORMATS)
def test_brain_floats_are_kept_or_refused(tmp_path, kind):
    import ml_dtypes

    values = members(3, 2, 2).astype(ml_dtypes.bfloat16)
    path = path_of(tmp_path, kind)
    try:
        sw.write_predictions(path, values)
    except sw.InvalidInput:
        assert not path.exists()
    else:
        assert_bits(sw.read_predictions(path).probs, values, "probs")


@pytest.mark.parametrize("kind", ["npz", "parquet", "csv", "safetensors"])
def test_weights_of_every_file_are_kept_or_refused(tmp_path, kind):
    with pytest.raises(sw.InvalidInput, match="weights"):
        back(tmp_path, kind, members(3, 2, 2), weights=np.ones(2, np.longdouble))


@pytest.mark.parametrize("text", ["\r", "a\rb", "\ra", "a\r"])
def test_a_carriage_return_is_kept(tmp_path, text):
    assert back(tmp_path, "csv", members(2, 1, 2), ids=[text, "b"]).ids.tolist() == [text, "b"]


def test_long_ids_are_text_too(tmp_path):
    assert back(tmp_path, "csv", members(1, 1, 2), ids=["x" * 140_000]).ids[0] == "x" * 140_000


def test_a_file_can_be_written_from_itself(tmp_path):
    for kind in FORMATS:
        x = sw.io.Predictions(members(30, 2, 3, seed=1))
        back(tmp_path, kind, x)
        assert_same(back(tmp_path, kind, read(kind, tmp_path)), x)


# -- a part at a time ------------------------------------------------------------------------------


class Fails:
    """A source that must not be read as a whole."""

    def __init__(self, kept: sw.io.Predictions, most: int) -> None:
        self._inner, self._most = kept.source, most
        self.shape, self.dtype, self.fields = kept.shape, kept.dtype, kept.fields
        self.locate = self._inner.locate

    def parts(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Any]:
        assert n <= self._most, f"{n} rows at a time"
        for part in self._inner.parts(fields, start, stop, n):
            assert len(next(iter(part.values()))) <= n
            yield part


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_every_kind_of_file_becomes_every_other(tmp_path, monkeypatch, source, target):
    x = sw.io.Predictions(
        members(41, 2, 3),
        **{}
        if "npy" in (source, target)
        else {
            "logits": np.full((41, 2, 3), -np.inf, "f4"),
            "labels": np.arange(41) % 4 - 1,
            "ids": [PLAIN[i % len(PLAIN)] for i in range(41)],
            "weights": members(41, 1, 2, seed=1)[:, 0].astype("f4"),
            "class_names": ['"', "\n", ","],
        },
    )
    back(tmp_path, source, x)
    monkeypatch.setattr(in_memory, "CHUNK_BYTES", 7 * 2 * 3 * 8)
    kept = read(source, tmp_path)
    if target not in ("npz", "safetensors"):
        kept = sw.io.Predictions.from_source(Fails(kept, 7), kept.class_names, kept.member_weights)
    (tmp_path / "b").mkdir()
    assert_same(back(tmp_path / "b", target, kept), x, target)


def in_pieces(x: sw.io.Predictions, path: Path, sizes: list[int]) -> None:
    """Written by us, and then divided as others would."""
    sw.write_predictions(path, x)
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        with pq.ParquetWriter(path, table.schema) as writer:
            write_all(table, sizes, lambda part, size: writer.write_table(part, max(1, size)))
    elif path.suffix in (".arrow", ".feather"):
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
        options = pa.ipc.IpcWriteOptions(compression="lz4" if path.suffix == ".feather" else None)
        with pa.ipc.new_file(str(path), table.schema, options=options) as writer:
            empty = pa.RecordBatch.from_pylist([], schema=table.schema.remove_metadata())
            empty = empty.replace_schema_metadata(table.schema.metadata)
            write_all(
                table,
                sizes,
                lambda part, _: writer.write(part) if len(part) else writer.write_batch(empty),
            )
    elif not path.suffix:
        (path / "part-00000.parquet").rename(path / "whole")
        table = pq.read_table(path / "whole")
        (path / "whole").unlink()
        (path / "_SUCCESS").touch()
        numbers = iter(range(1000))
        write_all(
            table,
            sizes,
            lambda part, _: pq.write_table(
                part, path / f"{next(numbers):03d}.parquet", row_group_size=2
            ),
        )


def write_all(table: pa.Table, sizes: list[int], write: Any) -> None:
    start = 0
    for size in [*sizes, table.num_rows]:
        write(table.slice(start, size), size)
        start = min(start + size, table.num_rows)


@pytest.mark.parametrize("kind", FORMATS)
@fewer
@given(
    data=st.data(),
    n=st.integers(0, 12),
    sizes=st.lists(st.integers(0, 5), max_size=5),
    rows=st.integers(1, 14),
)
def test_chunks_together_are_the_whole_from_everywhere_to_everywhere(
    tmp_path, kind, data, n, sizes, rows
):
    x = data.draw(predictions(kind, n).filter(lambda x: kind != "safetensors" or not x.from_logits))
    path = path_of(tmp_path, kind)
    if path.is_dir():
        for file in path.iterdir():
            file.unlink()
    in_pieces(x, path, sizes)
    kept = sw.read_predictions(path)
    assert_same(kept, x, kind)
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    parts = list(kept.chunks(rows, start=start, stop=stop))
    assert parts
    assert all(0 < len(part) <= rows for part in parts) or (start == stop and len(parts) == 1)
    for name in x.fields:
        together = np.concatenate([getattr(part, name) for part in parts])
        assert_bits(together, getattr(x, name)[start:stop], name, kind != "csv" or name == "ids")
    assert all(part.class_names == x.class_names for part in parts)
    assert all(part.fields == x.fields for part in parts)


@pytest.mark.parametrize("kind", ["npz", "parquet", "csv"])
@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (0, 6), (3, 2), (0, -1)])
def test_rows_that_are_not_there_are_refused(tmp_path, kind, start, stop):
    # more rows after the array in the .npz, so that the map does not reach the end of the file
    more = {} if kind == "npy" else {"labels": np.zeros(5, int), "weights": np.ones((5, 2))}
    kept = back(tmp_path, kind, members(5, 2, 3), **more)
    with pytest.raises(sw.InvalidInput, match=r"start|stop"):
        list(kept.chunks(2, start=start, stop=stop))


@pytest.mark.parametrize("rows", [0, -1, 2.5, "2"])
def test_chunks_have_a_row_at_least(tmp_path, rows):
    with pytest.raises(sw.InvalidInput, match="n_rows"):
        list(back(tmp_path, "npy", members(3, 2, 2)).chunks(rows))


MEGABYTE = 1 << 20
READING = """
import sys, tracemalloc
import pandas
import pyarrow as pa
import scorewise as sw
import scorewise.io._arrow_tables, pyarrow.parquet
tracemalloc.start()  # after all that is imported
for path in sys.argv[1:]:
    total = 0.0
    for part in sw.read_predictions(path).chunks(1000):
        total += part.probs.sum()
    print(total)
print(tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory())
"""


def peak_of(*paths: Path) -> tuple[list[float], int]:
    """The sum of the numbers of each file, and how many bytes NumPy and Arrow had at the most."""
    ran = subprocess.run(
        [sys.executable, "-c", READING, *paths], capture_output=True, text=True, check=True
    )
    *totals, peak = ran.stdout.split()
    return [float(total) for total in totals], int(peak)


def test_files_are_read_in_bounded_memory(tmp_path):
    values = np.random.default_rng(0).random((60_000, 10, 5))  # 23 MiB
    np.save(tmp_path / "big-endian.npy", values.astype(">f8"))
    for name in ("a.npy", "a.parquet", "a.arrow"):
        sw.write_predictions(tmp_path / name, values)
    groups = pq.read_table(tmp_path / "a.parquet")
    (tmp_path / "folder").mkdir()
    for file in ("a.parquet", "folder/a.parquet"):
        pq.write_table(groups, tmp_path / file, row_group_size=2000)
    totals, peak = peak_of(*tmp_path.iterdir())
    np.testing.assert_allclose(totals, [values.sum()] * 5)
    assert peak < 8 * MEGABYTE


def test_row_groups_larger_than_memory_are_read_in_bounded_memory(tmp_path):
    values = np.random.default_rng(0).random((100_000, 10, 5))  # 38 MiB
    columns = {f"p_{i}_{j}": values[:, i, j] for i in range(10) for j in range(5)}
    wide = tmp_path / "wide.parquet"
    pq.write_table(pa.table(columns), wide, use_dictionary=False, data_page_size=1 << 16)
    sw.write_predictions(tmp_path / "tensors.parquet", values)
    for path in tmp_path.iterdir():
        assert pq.ParquetFile(path).metadata.num_row_groups == 1
    _, peak = peak_of(*tmp_path.iterdir())
    assert peak < 16 * MEGABYTE


def test_only_what_is_asked_for_is_read(tmp_path, monkeypatch):
    x = sw.io.Predictions(members(40, 2, 3), labels=np.zeros(40, int), ids=np.arange(40))
    path = tmp_path / "a.parquet"
    in_pieces(x, path, [10, 10, 10, 10])
    asked = []
    plain = pq.ParquetFile.iter_batches

    def iter_batches(self: Any, n: int, row_groups: Any, columns: Any) -> Any:
        asked.append((row_groups, columns))
        return plain(self, n, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    kept = sw.read_predictions(path)
    assert not asked
    assert kept.labels.sum() == 0
    assert asked == [([i], ["labels"]) for i in range(4)]
    asked.clear()
    next(kept.chunks(5, start=22))
    assert [groups for groups, _ in asked] == [[2]]


def test_a_large_array_is_mapped_and_a_small_one_is_not(tmp_path, monkeypatch):
    from scorewise.io import _numpy as mapped

    values = members(50, 2, 3)
    for large in (True, False):
        monkeypatch.setattr(mapped, "_LARGE", 0 if large else 1 << 30)
        for kind in ("npy", "npz"):
            found = back(tmp_path, kind, values).probs
            assert isinstance(found, np.memmap) == large
            np.testing.assert_array_equal(found, values)
            assert found.flags.writeable != large


# -- what others write -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<f8", ">f8", ">f4", "<f2", ">f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_numpy_are_read(tmp_path, dtype, order):
    values = members(9, 2, 3).astype(dtype)
    native = values.astype(values.dtype.newbyteorder("="))
    np.save(tmp_path / "a.npy", np.asarray(values, order=order))
    np.savez(tmp_path / "a.npz", probs=np.asarray(values, order=order))
    for name in ("a.npy", "a.npz"):
        kept = sw.read_predictions(tmp_path / name)
        assert kept.dtype.isnative
        assert_bits(np.ascontiguousarray(kept.probs), native, name)
        parts = [part.probs for part in kept.chunks(2)]
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
    kept = sw.read_predictions(tmp_path / "a.npz")
    np.testing.assert_array_equal(kept.probs, values)
    assert kept.labels.tolist() == [0, 1, 2] * 3
    assert kept.labels.dtype == np.int64
    assert kept.ids.tolist() == list("abcdefghi")
    assert kept.weights.tolist() == [1.0, 2.0]
    assert kept.probs.dtype.isnative
    assert "compressed" not in repr(kept)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("dtype", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    "nested",
    [
        lambda dtype: pa.list_(pa.list_(dtype)),
        lambda dtype: pa.large_list(pa.large_list(dtype)),
        lambda dtype: pa.list_(pa.list_(dtype, 3), 2),
        lambda dtype: pa.large_list(pa.list_(dtype, 3)),
        lambda dtype: pa.list_(pa.list_(dtype), 2),
    ],
)
def test_lists_of_every_kind_are_read(tmp_path, suffix, dtype, nested):
    values = members(11, 2, 3).astype(dtype.to_pandas_dtype())
    weights = pa.array(np.arange(22.0).reshape(11, 2).tolist(), pa.large_list(pa.float64()))
    table = pa.table({"proba": pa.array(values.tolist(), nested(dtype)), "Weights": weights})
    write_table(table, tmp_path / f"a.{suffix}", 4)
    kept = sw.read_predictions(tmp_path / f"a.{suffix}")
    assert_bits(kept.probs, values, "probs")
    assert kept.weights.tolist() == weights.to_pylist()
    for start in range(11):
        parts = [part.probs for part in kept.chunks(3, start=start)]
        assert_bits(np.concatenate(parts), values[start:], "chunks")


def write_table(table: pa.Table, path: Path, rows: int = 1 << 20) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, rows)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("permutation", [None, [0, 1], [1, 0]])
def test_tensors_are_read_as_they_are_meant(tmp_path, suffix, permutation):
    kind = pa.fixed_shape_tensor(pa.float32(), [4, 3], permutation=permutation)
    flat = pa.array(np.random.default_rng(0).random(10 * 12, np.float32))
    column = pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(flat, 12))
    write_table(pa.table({"logits": column}), tmp_path / f"a.{suffix}", 4)
    kept = sw.read_predictions(tmp_path / f"a.{suffix}")
    meant = column.to_numpy_ndarray()
    assert kept.shape == meant.shape
    assert_bits(kept.logits, np.ascontiguousarray(meant), "logits")
    parts = [part.logits for part in kept.chunks(3, start=2, stop=9)]
    assert_bits(np.concatenate(parts), np.ascontiguousarray(meant[2:9]), "logits")


TOLD = {b"scorewise": json.dumps({"class_names": ["a", "b", "c"]}).encode()}
LABELS = {
    "int8": pa.array([0, None, 2, -1, 1], pa.int8()),
    "uint64": pa.array([0, 1, 2, 0, 1], pa.uint64()),
    "names": pa.array(["a", None, "c", "b", "a"]),
    "large names": pa.array(["a", None, "c", "b", "a"], pa.large_string()),
    "categories": pa.array(["a", None, "c", "b", "a"]).dictionary_encode(),
    "numbers as categories": pa.array([0, None, 2, 1, 0]).dictionary_encode(),
    "unsigned with gaps": pa.array([0, None, 2, 1, 0], pa.uint8()),
    "none at all": pa.nulls(5),
    "none at all, of text": pa.nulls(5, pa.string()),
}


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind_are_read(tmp_path, suffix, kind):
    table = pa.table({"probs": members(5, 2, 3).tolist(), "Label": LABELS[kind]})
    write_table(table.replace_schema_metadata(TOLD), tmp_path / f"a.{suffix}", 2)
    known = {"a": 0, "b": 1, "c": 2, None: -1}
    expected = [known.get(y, y) for y in LABELS[kind].to_pylist()]
    found = sw.read_predictions(tmp_path / f"a.{suffix}").labels
    assert found.tolist() == expected
    assert found.dtype == np.int64


def test_a_column_without_any_label_is_no_mistake(tmp_path):
    table = pa.table({"probs": members(5, 2, 3).tolist(), "label": pa.nulls(5)})
    write_table(table, tmp_path / "a.parquet")
    assert sw.read_predictions(tmp_path / "a.parquet").labels.tolist() == [-1] * 5


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
        pytest.param(pa.dictionary(pa.int32(), pa.string_view())),
    ],
    ids=str,
)
def test_ids_of_every_kind_are_read(tmp_path, kind):
    values = pa.array(["a", "", "ü", "a", "e"], pa.string())
    if pa.types.is_dictionary(kind):
        dictionary = pa.array(["a", "", "ü", "e"], kind.value_type)
        index = pa.array([0, 1, 2, 0, 3], kind.index_type)
        column: Any = pa.DictionaryArray.from_arrays(index, dictionary)
    else:
        column = values.cast(kind)
    write_table(pa.table({"probs": members(5, 2, 3).tolist(), "ID": column}), tmp_path / "a.arrow")
    assert sw.read_predictions(tmp_path / "a.arrow").ids.tolist() == values.to_pylist()


@pytest.mark.parametrize("suffix", ["parquet", "feather", "csv"])
def test_tables_of_pandas_are_read(tmp_path, suffix):
    values = members(6, 2, 2)
    names = [f"tree{i}_{name}" for i in range(2) for name in ("big cat", "dog")]
    frame = pd.DataFrame(values.reshape(6, 4), columns=names)
    frame.insert(0, "row_id", [f"r{i}" for i in range(6)])
    labels = ["dog", "big cat", None, "dog", "dog", "big cat"]
    frame["target"] = labels if suffix == "csv" else pd.Categorical(labels)
    path = tmp_path / f"a.{suffix}"
    if suffix == "csv":
        frame.to_csv(path)
    else:
        getattr(frame, f"to_{suffix}")(path)
    kept = sw.read_predictions(path)
    np.testing.assert_array_equal(kept.probs, values)
    assert kept.class_names == ("big cat", "dog")
    assert kept.labels.tolist() == [1, 0, -1, 1, 1, 0]
    assert kept.ids.tolist() == frame["row_id"].tolist()


def test_lists_of_pandas_are_read(tmp_path):
    values = members(6, 2, 3)
    frame = pd.DataFrame({"probs": values.tolist(), "y": pd.array([0, None, 2, 1, 0, 1], "Int32")})
    frame.index = pd.Index(list("fedcba"))
    frame.to_parquet(tmp_path / "a.parquet")
    kept = sw.read_predictions(tmp_path / "a.parquet")
    np.testing.assert_array_equal(kept.probs, values)
    assert kept.labels.tolist() == [0, -1, 2, 1, 0, 1]


def test_tensors_of_safetensors_are_read(tmp_path):
    values = members(4, 2, 3).astype("f2")
    safetensors.numpy.save_file(
        {"logits": values, "labels": np.array([0, 1, 2, 0], np.uint8), "other": np.ones(3)},
        tmp_path / "a.safetensors",
    )
    kept = sw.read_predictions(str(tmp_path / "a.safetensors"))
    assert kept.from_logits
    assert_bits(kept.logits, values, "logits")
    assert kept.labels.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("name", ["A.NPZ", "a.Parquet", "with space.npz", "ü.csv", "a.b.c.npy"])
def test_names_are_anything(tmp_path, name):
    sw.write_predictions(str(tmp_path / name), members(3, 1, 2))
    np.testing.assert_array_equal(sw.read_predictions(tmp_path / name).probs, members(3, 1, 2))
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path):
    values = members(8, 2, 3)
    (tmp_path / "all" / "b").mkdir(parents=True)
    for name, rows in (("c", slice(4, 8)), ("a", slice(0, 2)), ("b/x", slice(2, 4))):
        write_table(
            pa.table({"probs": values[rows].tolist()}), tmp_path / "all" / f"{name}.parquet"
        )
    for name in ("_metadata", ".hidden.parquet", "_tmp.parquet", "notes.txt"):
        (tmp_path / "all" / name).write_text("no Parquet")
    np.testing.assert_array_equal(sw.read_predictions(tmp_path / "all").probs, values)


def test_a_folder_within_may_be_called_as_a_file(tmp_path):
    (tmp_path / "all" / "x.parquet").mkdir(parents=True)
    values = members(3, 2, 3)
    write_table(pa.table({"probs": values.tolist()}), tmp_path / "all/x.parquet/part-0.parquet")
    np.testing.assert_array_equal(sw.read_predictions(tmp_path / "all").probs, values)


@pytest.mark.parametrize("how", [pytest.param(how) for how in ("order", "nullable")])
def test_files_of_a_folder_may_differ_in_what_does_not_matter(tmp_path, how):
    (tmp_path / "all").mkdir()
    values = members(6, 2, 3)
    table = pa.table({"probs": values.tolist(), "labels": [0, 1, 2, 0, 1, 2]})
    write_table(table.slice(0, 3), tmp_path / "all" / "a.parquet")
    other = table.slice(3)
    if how == "order":
        other = other.select(["labels", "probs"])
    else:
        other = other.cast(pa.schema([f.with_nullable(False) for f in table.schema]))
    write_table(other, tmp_path / "all" / "b.parquet")
    kept = sw.read_predictions(tmp_path / "all")
    np.testing.assert_array_equal(kept.probs, values)
    assert kept.labels.tolist() == [0, 1, 2, 0, 1, 2]


# -- one column per member and class ---------------------------------------------------------------

MEMBER_FIRST = [
    "probs_{m}_{k}",
    "prob_m{m}_c{k}",
    "tree{m}_class{k}",
    "p[{m},{k}]",
    "{m}_{k}",
    "model_{m}_proba_{k}",
    "member{m}.class{k}.prob",
    "Probs-{m}-{k}",
    "m{m:02d}_c{k:03d}",
]
CLASS_FIRST = ["class{k}_tree{m}", "prob_class_{k}_member_{m}", "label{k}_model{m}"]


def wide(folder: Path, names: list[str], suffix: str, **more: Any) -> tuple[Any, dict[str, Any]]:
    """A table whose columns have these names, and what is read from it."""
    rng = np.random.default_rng(0)
    columns = {name: rng.random(4) for name in names}
    path = folder / f"a.{suffix}"
    table = pa.table({name: columns[name] for name in rng.permutation(names)} | more)
    if suffix == "csv":
        table.to_pandas().to_csv(path, index=False)
    else:
        write_table(table, path)
    return sw.read_predictions(path), columns


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("pattern", MEMBER_FIRST + CLASS_FIRST)
def test_wide_columns_by_number(tmp_path, suffix, first, pattern):
    names = [[pattern.format(m=m + first, k=k + first) for k in range(11)] for m in range(3)]
    kept, columns = wide(
        tmp_path, [name for of_member in names for name in of_member], suffix, note=list("abcd")
    )
    assert kept.shape == (4, 3, 11)
    assert kept.class_names is None
    for m in range(3):
        for k in range(11):
            np.testing.assert_array_equal(kept.probs[:, m, k], columns[names[m][k]])


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("pattern", ["tree{m}_{k}", "probs_{m}_{k}", "model {m}: {k}", "m{m}.{k}"])
def test_wide_columns_by_name(tmp_path, suffix, pattern):
    classes = ["cat", "big dog", "a_b", "covid-19", "ü"]
    names = [pattern.format(m=m, k=k) for m in range(3) for k in classes]
    kept, columns = wide(tmp_path, names, suffix, id=[7, 8, 9, 10])
    assert kept.shape == (4, 3, 5)
    assert set(kept.class_names) == set(classes)
    for m in range(3):
        for k, name in enumerate(kept.class_names):
            expected = columns[pattern.format(m=m, k=name)]
            np.testing.assert_array_equal(kept.probs[:, m, k], expected)


def test_wide_logits_beside_wide_probabilities_and_weights(tmp_path):
    names = [f"{of}_{m}_{k}" for of in ("probs", "logits") for m in range(2) for k in range(3)]
    names += ["weights_1", "weights_0"]
    for suffix in ("parquet", "csv"):
        kept, columns = wide(tmp_path, names, suffix, y=[0, 1, 2, 0])
        for of in ("probs", "logits"):
            np.testing.assert_array_equal(getattr(kept, of)[:, 1, 2], columns[f"{of}_1_2"])
        np.testing.assert_array_equal(kept.weights[:, 1], columns["weights_1"])
        assert kept.labels.tolist() == [0, 1, 2, 0]


def test_probabilities_by_number_are_told_from_features(tmp_path):
    names = [f"{of}_{m}_{k}" for of in ("pixel", "probs") for m in range(3) for k in range(3)]
    kept, columns = wide(tmp_path, names, "parquet")
    np.testing.assert_array_equal(kept.probs[:, 2, 1], columns["probs_2_1"])


# what people have, which is read as something else without a word
MISREAD = {
    "the word classifier": (
        [f"classifier{m}_prob{k}" for m in range(4) for k in range(3)],
        (4, 3),
        "'class' within 'classifier' is taken for a class: members and classes are exchanged",
    ),
    "predicted label": (
        [f"label_probs_{m}_{k}" for m in range(4) for k in range(3)],
        (4, 3),
        "'label' anywhere before the numbers exchanges members and classes",
    ),
    "classes by other words": (
        [f"digit{k}_fold{m}" for m in range(4) for k in range(3)],
        (4, 3),
        "digit0_fold1 is read as member 0, class 1, though 'fold', 'tree', 'model', 'member', "
        "'seed' after the first number say the opposite",
    ),
    "classes with and without numbers": (
        [f"m{m}_{k}" for m in range(2) for k in ("healthy", "type1", "type2")],
        (2, 3),
        "the class 'healthy' is dropped: the numbered columns alone are a grid",
    ),
    "features by number beside probabilities by name": (
        [f"pixel_{i}_{j}" for i in range(4) for j in range(4)]
        + [f"probs_{m}_{k}" for m in range(2) for k in ("cat", "dog", "cow")],
        (2, 3),
        "the pixels are read as the probabilities, since numbers are tried before names",
    ),
    "a number before": (
        [f"v1_m{m}_c{k}" for m in range(4) for k in range(3)],
        (4, 3),
        "one member with 12 classes, called m0_c0, m0_c1, …",
    ),
    "the same column twice": (
        ["probs_0_0", "probs_0_1", "probs_00_1"],
        None,
        "one of probs_0_1 and probs_00_1 is left out without a word",
    ),
}


@pytest.mark.parametrize("case", [pytest.param(case) for case, (_, _, reason) in MISREAD.items()])
def test_wide_columns_are_understood_or_refused(tmp_path, case):
    names, shape, _ = MISREAD[case]
    try:
        kept, _ = wide(tmp_path, names, "parquet")
    except sw.InvalidInput:
        return
    assert kept.shape[1:] == shape


def test_classes_from_1_have_labels_from_1(tmp_path):
    names = [f"probs_{m}_{k}" for m in (1, 2) for k in (1, 2, 3)]
    try:
        kept, _ = wide(tmp_path, names, "parquet", label=[1, 2, 2, 1])
        found = kept.labels.tolist()
    except sw.InvalidInput:
        return
    assert found == [0, 1, 1, 0]


def test_ids_in_text_keep_their_zeros(tmp_path):
    (tmp_path / "a.csv").write_text("id,probs_0_0,probs_0_1\n007,0.5,0.5\n010,0.5,0.5\n")
    assert sw.read_predictions(tmp_path / "a.csv").ids.tolist() == ["007", "010"]


# -- what others read ------------------------------------------------------------------------------


@pytest.fixture
def everything() -> sw.io.Predictions:
    return sw.io.Predictions(
        members(5, 2, 3).astype("f4"),
        labels=[0, 1, 2, -1, 0],
        ids=["a", "b\n", '"c"', "ü,", ""],
        class_names=["x", "y", "z"],
        weights=members(5, 1, 2)[:, 0],
        logits=np.log(members(5, 2, 3)),
    )


def test_arrow_tables_are_read_by_others(tmp_path, everything):
    sw.write_predictions(tmp_path / "a.parquet", everything)
    sw.write_predictions(tmp_path / "a.arrow", everything)
    sw.write_predictions(tmp_path / "a", everything)
    with pa.memory_map(str(tmp_path / "a.arrow")) as file:
        tables = [
            pq.read_table(tmp_path / "a.parquet"),
            pa.ipc.open_file(file).read_all(),
            pq.read_table(tmp_path / "a"),
        ]
    for table in tables:
        kind = table.schema.field("probs").type
        assert isinstance(kind, pa.FixedShapeTensorType)
        assert kind.dim_names == ["member", "class"]
        tensor = table["probs"].combine_chunks()
        assert_bits(tensor.to_numpy_ndarray(), everything.probs, "probs")
        assert table["labels"].to_pylist() == [0, 1, 2, None, 0]
        assert table["ids"].to_pylist() == everything.ids.tolist()
        assert table["weights"].to_pylist() == everything.weights.tolist()
        assert json.loads(table.schema.metadata[b"scorewise"])["class_names"] == ["x", "y", "z"]
    frame = pd.read_parquet(tmp_path / "a.parquet", columns=["ids", "labels"])
    assert frame["ids"].tolist() == everything.ids.tolist()


def test_arrays_and_tensors_are_read_by_others(tmp_path, everything):
    sw.write_predictions(tmp_path / "a.npz", everything)
    sw.write_predictions(tmp_path / "a.npy", everything.probs)
    sw.write_predictions(tmp_path / "a.safetensors", everything)
    assert_bits(np.load(tmp_path / "a.npy", allow_pickle=False), everything.probs, "npy")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        found = dict(arrays)
    assert found["ids"].tolist() == everything.ids.tolist()
    assert found["class_names"].tolist() == ["x", "y", "z"]
    tensors = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    for name in ("probs", "logits", "labels", "weights"):
        assert_bits(found[name], getattr(everything, name), name)
        assert_bits(tensors[name], getattr(everything, name), name)


def test_text_is_read_by_others(tmp_path, everything):
    sw.write_predictions(tmp_path / "a.csv", everything)
    frame = pd.read_csv(tmp_path / "a.csv", comment="#", keep_default_na=False)
    assert frame["ids"].tolist() == everything.ids.tolist()
    assert frame["labels"].tolist() == ["0", "1", "2", "", "0"]
    assert frame.filter(like="logits_").shape == (5, 6)
    np.testing.assert_array_equal(frame["logits_1_2"], everything.logits[:, 1, 2])


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_labels_as_pandas_saves_them(tmp_path, suffix):
    frame = pd.DataFrame({f"p_{m}_{k}": [0.5] * 3 for m in range(2) for k in range(2)})
    frame["label"] = [1.0, np.nan, 0.0]
    path = tmp_path / f"a.{suffix}"
    frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
    assert sw.read_predictions(path).labels.tolist() == [1, -1, 0]
    if suffix == "parquet":
        frame.assign(label=[True, False, True]).to_parquet(path)
        assert sw.read_predictions(path).labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize("kind", ["npz", "parquet", "arrow", "csv", "folder", "safetensors", "npy"])
def test_classes_can_be_named_by_hand(tmp_path, kind):
    path = path_of(tmp_path, kind)
    sw.write_predictions(path, members(4, 2, 3))
    kept = sw.read_predictions(path, ["a", "b", "c"])
    assert kept.class_names == ("a", "b", "c")
    assert [part.class_names for part in kept.chunks(2)] == [("a", "b", "c")] * 2
    with pytest.raises(sw.InvalidInput, match="2 class_names for 3 classes"):
        sw.read_predictions(path, ["a", "b"])


def test_names_by_hand_make_labels_of_names(tmp_path):
    columns = {"probs": members(3, 2, 2).tolist(), "label": ["no", "yes", None]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    kept = sw.read_predictions(tmp_path / "a.parquet", ["no", "yes"])
    assert kept.labels.tolist() == [0, 1, -1]


@pytest.mark.parametrize("kind", ["npz", "parquet", "csv", "safetensors"])
def test_names_by_hand_do_not_rename_the_classes_of_a_file(tmp_path, kind):
    path = path_of(tmp_path, kind)
    sw.write_predictions(path, members(4, 2, 2), class_names=["cat", "dog"])
    assert sw.read_predictions(path, ["cat", "dog"]).class_names == ("cat", "dog")
    with pytest.raises(sw.InvalidInput, match="has class names of its own"):
        sw.read_predictions(path, ["dog", "cat"])


def test_tensors_may_have_the_other_names_too(tmp_path):
    tensors = {"proba": members(3, 2, 2), "y": np.array([0, 1, 1]), "id": np.arange(3)}
    safetensors.numpy.save_file(tensors, tmp_path / "a.safetensors")
    kept = sw.read_predictions(tmp_path / "a.safetensors")
    assert (kept.labels.tolist(), kept.ids.tolist()) == ([0, 1, 1], [0, 1, 2])
