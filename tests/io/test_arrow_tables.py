"""Arrow and Parquet tables of others: lists, tensors, labels and ids of every type."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from io_support import MEGABYTE, METADATA, assert_bits, peak_of, write_table
from support import members


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
    stored = sw.read_predictions(tmp_path / f"a.{suffix}")
    assert_bits(stored.probs, values, "probs")
    assert stored.weights.tolist() == weights.to_pylist()
    for start in range(11):
        parts = [part.probs for part in stored.chunks(3, start=start)]
        assert_bits(np.concatenate(parts), values[start:], "chunks")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("permutation", [None, [0, 1], [1, 0]])
def test_tensors_are_read_as_they_are_meant(tmp_path, suffix, permutation):
    kind = pa.fixed_shape_tensor(pa.float32(), [4, 3], permutation=permutation)
    flat = pa.array(np.random.default_rng(0).random(10 * 12, np.float32))
    column = pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(flat, 12))
    write_table(pa.table({"logits": column}), tmp_path / f"a.{suffix}", 4)
    stored = sw.read_predictions(tmp_path / f"a.{suffix}")
    meant = column.to_numpy_ndarray()
    assert stored.shape == meant.shape
    assert_bits(stored.logits, np.ascontiguousarray(meant), "logits")
    parts = [part.logits for part in stored.chunks(3, start=2, stop=9)]
    assert_bits(np.concatenate(parts), np.ascontiguousarray(meant[2:9]), "logits")


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
    write_table(table.replace_schema_metadata(METADATA), tmp_path / f"a.{suffix}", 2)
    known = {"a": 0, "b": 1, "c": 2, None: -1}
    expected = [known.get(y, y) for y in LABELS[kind].to_pylist()]
    result = sw.read_predictions(tmp_path / f"a.{suffix}").labels
    assert result.tolist() == expected
    assert result.dtype == np.int64


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
    stored = sw.read_predictions(path)
    np.testing.assert_array_equal(stored.probs, values)
    assert stored.class_names == ("big cat", "dog")
    assert stored.labels.tolist() == [1, 0, -1, 1, 1, 0]
    assert stored.ids.tolist() == frame["row_id"].tolist()


def test_lists_of_pandas_are_read(tmp_path):
    values = members(6, 2, 3)
    frame = pd.DataFrame({"probs": values.tolist(), "y": pd.array([0, None, 2, 1, 0, 1], "Int32")})
    frame.index = pd.Index(list("fedcba"))
    frame.to_parquet(tmp_path / "a.parquet")
    stored = sw.read_predictions(tmp_path / "a.parquet")
    np.testing.assert_array_equal(stored.probs, values)
    assert stored.labels.tolist() == [0, -1, 2, 1, 0, 1]


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
