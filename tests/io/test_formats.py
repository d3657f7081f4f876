"""Reading is the inverse of writing, in every format and between formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import scorewise as sw
from io_support import (
    DTYPES,
    FORMATS,
    PLAIN,
    assert_bits,
    assert_same,
    back,
    examples,
    path_of,
    predictions,
    read,
    set_chunk_bytes,
)
from support import members


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind not in ("npy", "safetensors")])
@examples
@given(data=st.data())
def test_read_is_the_inverse_of_write(tmp_path, kind, data):
    x = data.draw(predictions(kind))
    assert_same(back(tmp_path, kind, x), x, kind)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_alone_are_written_as_they_are(tmp_path, dtype, value):
    x = sw.io.Predictions(logits=np.full((3, 1, 2), value, dtype))
    assert_same(back(tmp_path, "safetensors", x), x)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_half_precision_number_survives(tmp_path, kind):
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
def test_missing_fields_are_none(tmp_path, kind):
    result = back(tmp_path, kind, members(3, 2, 4))
    assert result.fields == {"probs"}
    assert result.logits is None
    assert result.labels is None
    assert result.ids is None
    assert result.weights is None
    assert result.class_names is None
    assert repr(result) == "Predictions(3 rows, 2 members, 4 classes, float64)"


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "npy"])
def test_samples_are_written_with_their_weights(tmp_path, kind):
    samples = sw.Samples(members(4, 3, 2), [0.5, 0.25, 0.25])
    result = back(tmp_path, kind, samples, labels=[0, 1, -1, 0])
    np.testing.assert_array_equal(result.weights, samples.weights)
    np.testing.assert_array_equal(result.samples.probs, samples.probs)


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
    result = back(tmp_path, kind, values.astype(">f4"), **weights)
    assert_bits(result.probs, values, "probs")
    assert result.probs.dtype.isnative


@pytest.mark.parametrize("kind", FORMATS)
def test_brain_floats_survive_or_are_refused(tmp_path, kind):
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
def test_weights_survive_or_are_refused(tmp_path, kind):
    with pytest.raises(sw.InvalidInput, match="weights"):
        back(tmp_path, kind, members(3, 2, 2), weights=np.ones(2, np.longdouble))


@pytest.mark.parametrize("text", ["\r", "a\rb", "\ra", "a\r"])
def test_a_carriage_return_survives(tmp_path, text):
    assert back(tmp_path, "csv", members(2, 1, 2), ids=[text, "b"]).ids.tolist() == [text, "b"]


def test_long_ids_are_text_too(tmp_path):
    assert back(tmp_path, "csv", members(1, 1, 2), ids=["x" * 140_000]).ids[0] == "x" * 140_000


def test_a_file_can_be_written_from_itself(tmp_path):
    for kind in FORMATS:
        x = sw.io.Predictions(members(30, 2, 3, seed=1))
        back(tmp_path, kind, x)
        assert_same(back(tmp_path, kind, read(kind, tmp_path)), x)


class Fails:
    """A source that must not be read as a whole."""

    def __init__(self, stored: sw.io.Predictions, most: int) -> None:
        self._inner, self._most = stored.source, most
        self.shape, self.dtype, self.fields = stored.shape, stored.dtype, stored.fields
        self.locate = self._inner.locate

    def chunks(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Any]:
        assert n <= self._most, f"{n} rows at a time"
        for part in self._inner.chunks(fields, start, stop, n):
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
    set_chunk_bytes(monkeypatch, 7 * 2 * 3 * 8)
    stored = read(source, tmp_path)
    if target not in ("npz", "safetensors"):
        stored = sw.io.Predictions.from_source(
            Fails(stored, 7), stored.class_names, stored.member_weights
        )
    (tmp_path / "b").mkdir()
    assert_same(back(tmp_path / "b", target, stored), x, target)


@pytest.mark.parametrize("name", ["A.NPZ", "a.Parquet", "with space.npz", "ü.csv", "a.b.c.npy"])
def test_names_are_anything(tmp_path, name):
    sw.write_predictions(str(tmp_path / name), members(3, 1, 2))
    np.testing.assert_array_equal(sw.read_predictions(tmp_path / name).probs, members(3, 1, 2))
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("kind", ["npz", "parquet", "arrow", "csv", "folder", "safetensors", "npy"])
def test_classes_can_be_named_by_the_user(tmp_path, kind):
    path = path_of(tmp_path, kind)
    sw.write_predictions(path, members(4, 2, 3))
    stored = sw.read_predictions(path, ["a", "b", "c"])
    assert stored.class_names == ("a", "b", "c")
    assert [part.class_names for part in stored.chunks(2)] == [("a", "b", "c")] * 2
    with pytest.raises(sw.InvalidInput, match="2 class_names for 3 classes"):
        sw.read_predictions(path, ["a", "b"])


def test_class_names_of_the_user_make_labels_of_names(tmp_path):
    columns = {"probs": members(3, 2, 2).tolist(), "label": ["no", "yes", None]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    stored = sw.read_predictions(tmp_path / "a.parquet", ["no", "yes"])
    assert stored.labels.tolist() == [0, 1, -1]


@pytest.mark.parametrize("kind", ["npz", "parquet", "csv", "safetensors"])
def test_class_names_of_the_user_do_not_rename_the_classes_of_a_file(tmp_path, kind):
    path = path_of(tmp_path, kind)
    sw.write_predictions(path, members(4, 2, 2), class_names=["cat", "dog"])
    assert sw.read_predictions(path, ["cat", "dog"]).class_names == ("cat", "dog")
    with pytest.raises(sw.InvalidInput, match="class_names are 'dog', 'cat'"):
        sw.read_predictions(path, ["dog", "cat"])
