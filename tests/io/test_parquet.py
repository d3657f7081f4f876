"""Parquet files and folders: only what is needed is read, in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from io_support import MEGABYTE, in_pieces, peak_of, write_table
from support import members


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


def test_only_the_needed_columns_are_read(tmp_path, monkeypatch):
    x = sw.io.Predictions(members(40, 2, 3), labels=np.zeros(40, int), ids=np.arange(40))
    path = tmp_path / "a.parquet"
    in_pieces(x, path, [10, 10, 10, 10])
    requests = []
    plain = pq.ParquetFile.iter_batches

    def iter_batches(self: Any, n: int, row_groups: Any, columns: Any) -> Any:
        requests.append((row_groups, columns))
        return plain(self, n, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    stored = sw.read_predictions(path)
    assert not requests
    assert stored.labels.sum() == 0
    assert all(columns == ["labels"] for _, columns in requests)
    requests.clear()
    next(stored.chunks(5, start=22))
    assert [groups for groups, _ in requests] == [[2]]


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
    stored = sw.read_predictions(tmp_path / "all")
    np.testing.assert_array_equal(stored.probs, values)
    assert stored.labels.tolist() == [0, 1, 2, 0, 1, 2]
