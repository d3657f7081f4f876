"""Scores of data sets: the same as those of files, with bad rows, on all filesystems."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from scale_support import (
    N_PARTITIONS,
    N_ROWS,
    RULES,
    contents,
    local_cluster,
    random_members,
    write_dataset,
)
from scorewise.scale import Dataset, score_dataset

COLUMNS = [f"{part}_{rule}" for rule in RULES for part in ("total", "aleatoric", "epistemic")]


def read_folder(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data") / "in")


def make_bad(partition: int, probs: np.ndarray) -> None:
    """Three bad rows in partition 3, and one in partition 5."""
    if partition == 3:
        probs[0, 1] = 2
        probs[17, 0, 0] = np.nan
        probs[18, 0, 0] = -1
    if partition == 5:
        probs[39] = 0


# -- values ----------------------------------------------------------------------------------------


def test_scores_equal_those_of_score_file(tmp_path, source, client):
    result = score_dataset(source, RULES, tmp_path / "out", scheduler=client)
    sw.score_file(source, RULES, tmp_path / "U.parquet")
    expected = pd.read_parquet(tmp_path / "U.parquet")
    pd.testing.assert_frame_equal(read_folder(tmp_path / "out"), expected, check_exact=True)
    assert (result.n_rows, result.n_partitions) == (N_PARTITIONS * N_ROWS, N_PARTITIONS)
    assert [*result.columns] == ["id", *COLUMNS]


def test_rows_without_ids_have_their_partition_and_number(tmp_path, client):
    source = write_dataset(tmp_path / "in", ids=False)
    result = score_dataset(source, RULES, tmp_path / "out", scheduler=client)
    frame = read_folder(tmp_path / "out")
    assert [*result.columns] == ["partition", "row", *COLUMNS] == [*frame.columns]
    assert (frame["partition"] == np.repeat(np.arange(N_PARTITIONS), N_ROWS)).all()
    assert (frame["row"] == np.tile(np.arange(N_ROWS), N_PARTITIONS)).all()


def test_calibrated_scores_equal_those_of_score_file(tmp_path, source, client):
    probs = random_members(0, 500)
    labels = probs.mean(axis=1).argmax(axis=-1)
    calibration = sw.fit_calibration(probs, labels, method="temperature")
    options = {"calibration": calibration, "normalize": True}
    score_dataset(source, "brier", tmp_path / "out", scheduler=client, **options)
    sw.score_file(source, "brier", tmp_path / "U.parquet", **options)
    expected = pd.read_parquet(tmp_path / "U.parquet")
    pd.testing.assert_frame_equal(read_folder(tmp_path / "out"), expected, check_exact=True)
    settings = json.loads((tmp_path / "out/_manifest/settings.json").read_text())
    assert len(settings["calibration_sha256"]) == 64


def test_scores_with_weights_per_row_equal_those_of_score_file(tmp_path, client):
    source = tmp_path / "in"
    source.mkdir()
    for i in range(3):
        probs = random_members(i)
        weights = np.random.default_rng(i).random(probs.shape[:2])
        sw.write_predictions(source / f"{i}.parquet", sw.io.Predictions(probs, weights=weights))
    result = score_dataset(source, RULES, tmp_path / "out", scheduler=client)
    assert result.n_rows == 3 * N_ROWS
    sw.score_file(source, RULES, tmp_path / "U.parquet")
    expected = pd.read_parquet(tmp_path / "U.parquet")[COLUMNS]
    pd.testing.assert_frame_equal(
        read_folder(tmp_path / "out")[COLUMNS], expected, check_exact=True
    )


def test_files_with_other_numbers_of_weights_are_refused(tmp_path, client):
    source = tmp_path / "in"
    source.mkdir()
    for i, n_members in enumerate((4, 3)):
        probs = random_members(i)[:, :n_members]
        weights = np.ones(probs.shape[:2])
        sw.write_predictions(source / f"{i}.parquet", sw.io.Predictions(probs, weights=weights))
    with pytest.raises(sw.InvalidInput, match=r"'1\.parquet' has different columns.*\[3\]"):
        score_dataset(source, RULES, tmp_path / "out", scheduler=client)


def test_dask_reads_the_scores_without_the_manifest(tmp_path, source, client):
    import dask.dataframe as dd

    score_dataset(source, RULES, tmp_path / "out", scheduler=client)
    assert len(dd.read_parquet(tmp_path / "out")) == N_PARTITIONS * N_ROWS


def test_the_summary_has_exact_means_and_close_quantiles(tmp_path, source, client):
    result = score_dataset(source, RULES, tmp_path / "out", scheduler=client)
    frame = read_folder(tmp_path / "out")
    for name in COLUMNS:
        values = np.sort(frame[name].to_numpy(np.float64))
        summary = result.summary[name]
        assert summary.n == len(values)
        assert summary.mean == np.float64(np.sum(values.astype(np.longdouble))) / len(values)
        assert (summary.minimum, summary.maximum) == (values[0], values[-1])
        for p, quantile in summary.quantiles.items():
            assert np.searchsorted(values, quantile) / len(values) == pytest.approx(p, abs=0.02)
    stored = json.loads((tmp_path / "out/_manifest/summary.json").read_text())
    assert stored["rows"] == result.n_rows
    assert stored["columns"]["total_log"]["mean"] == result.summary["total_log"].mean


@pytest.mark.parametrize("cuts", [[0, 320], [0, 1, 50, 51, 200, 320]])
def test_means_are_exact_however_rows_are_divided(tmp_path, source, client, cuts):
    """Sums of floats depend on their order; these do not."""
    whole = sw.read_predictions(source)
    (tmp_path / "in").mkdir()
    for i, (start, stop) in enumerate(pairwise(cuts)):
        sw.write_predictions(tmp_path / f"in/{i}.parquet", whole.probs[start:stop])
    result = score_dataset(tmp_path / "in", RULES, tmp_path / "out", scheduler=client)
    frame = read_folder(tmp_path / "out")
    for name in COLUMNS:
        assert result.summary[name].mean == math.fsum(frame[name].tolist()) / len(frame)


def test_the_result_prints_means(tmp_path, source, client):
    text = repr(score_dataset(source, "log", tmp_path / "out", scheduler=client))
    assert text.startswith("320 rows of 8 files scored")
    assert "epistemic_log" in text


def test_a_single_file_is_a_data_set(tmp_path, source, client):
    result = score_dataset(source / "day-0.parquet", "log", tmp_path / "out", scheduler=client)
    assert (result.n_rows, result.n_partitions) == (N_ROWS, 1)


def test_an_empty_file_is_a_partition_without_rows(tmp_path, client):
    source = tmp_path / "in"
    source.mkdir()
    lists = pa.array(random_members(0).tolist(), pa.list_(pa.list_(pa.float32())))
    table = pa.table({"probs": lists})
    for i, part in enumerate([table[:0], table[:10], table[10:], table[:0]]):
        pq.write_table(part, source / f"{i}.parquet")
    result = score_dataset(source, "log", tmp_path / "out", scheduler=client)
    assert (result.n_rows, result.n_partitions) == (N_ROWS, 4)
    assert len(read_folder(tmp_path / "out")) == N_ROWS


def test_a_file_with_other_columns_is_an_error_that_names_it(tmp_path, client):
    source = write_dataset(tmp_path / "in")
    sw.write_predictions(source / "day-4.parquet", random_members(0))
    with pytest.raises(sw.InvalidInput, match=r"'day-4\.parquet' has different columns"):
        score_dataset(source, "log", tmp_path / "out", scheduler=client)


def test_options_of_reading_are_used(tmp_path, client):
    source = tmp_path / "in"
    source.mkdir()
    pq.write_table(pa.table({"p": random_members(0)[:, 0].tolist()}), source / "a.parquet")
    with pytest.raises(sw.InvalidInput, match="'probs'"):
        score_dataset(source, "log", tmp_path / "out", scheduler=client)
    reading = {"probs": "p", "one_model": True}
    assert score_dataset(source, "log", tmp_path / "out", scheduler=client, **reading).n_rows == 40


def test_unknown_options_are_errors(tmp_path, source):
    with pytest.raises(sw.InvalidInput, match="there is no option 'clas_names'"):
        score_dataset(source, "log", tmp_path / "out", clas_names=["a"])
    with pytest.raises(sw.InvalidInput, match=r"\.jsonl"):
        score_dataset(source, "log", tmp_path / "out", missing="other")
    with pytest.raises(sw.InvalidInput, match="cannot be passed with a Dataset"):
        score_dataset(Dataset.of(source), "log", tmp_path / "out", ids="ids")
    assert not (tmp_path / "out").exists()


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Dataset.of(tmp_path / "missing")
    with pytest.raises(sw.InvalidInput, match="has no Parquet files"):
        Dataset.of(tmp_path)


# -- bad rows --------------------------------------------------------------------------------------


def test_a_bad_row_is_an_error_that_names_it(tmp_path, client):
    source = write_dataset(tmp_path / "in", change=make_bad)
    message = r"'day-3\.parquet': row 0 \(row 0 of row group 0\).*sums to 6.*quarantine"
    with pytest.raises(sw.InvalidInput, match=message):
        score_dataset(source, RULES, tmp_path / "out", scheduler=client)
    assert not (tmp_path / "out/_manifest/summary.json").exists()
    assert (tmp_path / "out/part-00000.parquet").exists()


@pytest.mark.parametrize("ids", [True, False])
def test_bad_rows_are_quarantined_with_reasons(tmp_path, client, ids):
    source, out = write_dataset(tmp_path / "in", ids=ids, change=make_bad), tmp_path / "out"
    result = score_dataset(source, RULES, out, scheduler=client, on_bad_rows="quarantine")
    assert result.n_quarantined == 4
    assert result.n_rows == N_PARTITIONS * N_ROWS - 4
    assert "4 invalid rows of 2 files" in repr(result)

    bad = pq.read_table(out / "_quarantine/part-00003.parquet")
    reasons = bad["reason"].to_pylist()
    for reason, row, text in zip(reasons, (0, 17, 18), ("sums", "nan", "negative"), strict=True):
        assert f"row {row} (row {row} of row group 0)" in reason
        assert text in reason
    original = pq.read_table(source / "day-3.parquet").take([0, 17, 18])
    assert bad["partition"].to_pylist() == [3, 3, 3]
    assert bad["row"].to_pylist() == [0, 17, 18]
    assert str(bad.select(original.column_names).to_pydict()) == str(original.to_pydict())  # NaN

    good = pq.read_table(out / "part-00003.parquet")
    rows = [row for row in range(N_ROWS) if row not in (0, 17, 18)]
    if ids:
        assert good["id"].to_pylist() == [f"3-{row}" for row in rows]
    else:
        assert good["row"].to_pylist() == rows
    expected = sw.decompose(random_members(3)[rows], "log").total
    np.testing.assert_allclose(good["total_log"].to_numpy(), expected, rtol=1e-6)

    summary = json.loads((out / "_manifest/summary.json").read_text())
    assert summary["quarantined_rows"] == 4
    assert [x["input"] for x in summary["quarantined"]] == ["day-3.parquet", "day-5.parquet"]
    assert summary["columns"]["total_log"]["n"] == result.n_rows


def test_quarantined_rows_are_not_read_with_the_scores(tmp_path, client):
    source, out = write_dataset(tmp_path / "in", change=make_bad), tmp_path / "out"
    score_dataset(source, RULES, out, scheduler=client, on_bad_rows="quarantine")
    assert len(read_folder(out)) == N_PARTITIONS * N_ROWS - 4


def test_rows_beside_a_missing_first_one_are_scored(tmp_path, client):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for file, bad in enumerate([(), (0,), (10, 12)]):  # first of the file, first of a row group
        values = random_members(file).tolist()
        for row in bad:
            values[row] = None
        pq.write_table(pa.table({"probs": values}), source / f"{file}.parquet", row_group_size=10)
    result = score_dataset(source, "log", out, scheduler=client, on_bad_rows="quarantine")
    assert (result.n_quarantined, result.n_rows) == (3, 3 * N_ROWS - 3)
    assert [entry["reasons"] for entry in result.quarantined] == [
        {"probs is missing": 1},
        {"probs is missing": 2},
    ]


def test_missing_values_are_bad_rows(tmp_path, client):
    source = tmp_path / "in"
    source.mkdir()
    values = random_members(0).tolist()
    values[3] = None
    values[7][1] = values[7][1][:2]
    pq.write_table(pa.table({"probs": values}), source / "a.parquet", row_group_size=5)
    out = tmp_path / "out"
    result = score_dataset(source, "log", out, scheduler=client, on_bad_rows="quarantine")
    reasons = pq.read_table(out / "_quarantine/part-00000.parquet")["reason"].to_pylist()
    assert "row 3 (row 3 of row group 0)" in reasons[0]
    assert "row 7 (row 2 of row group 1)" in reasons[1]
    assert (result.n_rows, result.n_quarantined) == (N_ROWS - 2, 2)


def test_a_partition_of_bad_rows_only_has_an_output_without_rows(tmp_path, client):
    def make_all_bad(partition: int, probs: np.ndarray) -> None:
        probs[:] = 2 if partition == 2 else probs

    source, out = write_dataset(tmp_path / "in", change=make_all_bad), tmp_path / "out"
    result = score_dataset(source, "log", out, scheduler=client, on_bad_rows="quarantine")
    assert (result.n_quarantined, result.n_rows) == (N_ROWS, (N_PARTITIONS - 1) * N_ROWS)
    output = pq.read_table(out / "part-00002.parquet")
    assert output.num_rows == 0
    assert output.schema.equals(pq.read_schema(out / "part-00000.parquet"))


def test_quarantined_rows_are_errors_when_the_run_is_repeated_without(tmp_path, client):
    source, out = write_dataset(tmp_path / "in", change=make_bad), tmp_path / "out"
    score_dataset(source, "log", out, scheduler=client, on_bad_rows="quarantine")
    with pytest.raises(sw.InvalidInput, match=r"day-3\.parquet"):
        score_dataset(source, "log", out, scheduler=client)


def test_quarantine_goes_on_where_a_bad_row_stopped_the_run(tmp_path, client):
    source, out = write_dataset(tmp_path / "in", change=make_bad), tmp_path / "out"
    with pytest.raises(sw.InvalidInput):
        score_dataset(source, RULES, out, scheduler=client)
    result = score_dataset(source, RULES, out, scheduler=client, on_bad_rows="quarantine")
    assert result.resumed
    fresh = tmp_path / "fresh"
    score_dataset(source, RULES, fresh, scheduler=client, on_bad_rows="quarantine")
    assert contents(out) == contents(fresh)


@pytest.mark.parametrize("damage", ["truncated", "another format", "pages"])
def test_a_corrupt_file_is_named_or_quarantined(tmp_path, client, damage):
    source, out = write_dataset(tmp_path / "in"), tmp_path / "out"
    path = source / "day-6.parquet"
    content = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "another format":
        path.write_text("no Parquet")
    else:
        path.write_bytes(content[:8] + bytes(len(content) // 2) + content[len(content) // 2 + 8 :])
    with pytest.raises(sw.InvalidInput, match=r"'day-6\.parquet'"):
        score_dataset(source, "log", out, scheduler=client)
    result = score_dataset(source, "log", out, scheduler=client, on_bad_rows="quarantine")
    assert result.n_rows == (N_PARTITIONS - 1) * N_ROWS
    (entry,) = result.quarantined
    n_rows = N_ROWS if damage == "pages" else 0  # which the footer says, if there is one
    assert (entry["input"], entry["rows"]) == ("day-6.parquet", n_rows)
    assert "day-6.parquet" in entry["reason"]
    assert len(entry["reason"].splitlines()) == 1
    assert "could not be read" in repr(result)
    assert not (out / "part-00006.parquet").exists()


def test_a_rule_that_does_not_fit_the_classes_is_no_bad_row(tmp_path, source, client):
    with pytest.raises(sw.InvalidInput, match="2 classes"):
        score_dataset(
            source, "beta:1,1", tmp_path / "out", scheduler=client, on_bad_rows="quarantine"
        )
    assert not (tmp_path / "out").exists()


# -- other filesystems -----------------------------------------------------------------------------


@pytest.fixture
def memory(source: Path) -> Any:
    filesystem = fsspec.filesystem("memory")
    for path in source.iterdir():
        filesystem.pipe_file(f"/bucket/in/{path.name}", path.read_bytes())
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


@pytest.fixture(scope="module")
def threads() -> Any:
    """A cluster in this process, as its memory is no filesystem of others."""
    with local_cluster(1, processes=False) as client:
        yield client


def test_addresses_of_fsspec_are_read_and_written(tmp_path, memory, threads, source):
    for _ in range(2):
        result = score_dataset(
            "memory://bucket/in", RULES, "memory://bucket/out", scheduler=threads
        )
    assert (result.n_rows, result.resumed) == (N_PARTITIONS * N_ROWS, N_PARTITIONS)
    score_dataset(source, RULES, tmp_path / "out", scheduler=threads)
    for i in range(N_PARTITIONS):
        name = f"part-{i:05d}.parquet"
        with memory.open(f"/bucket/out/{name}") as file:
            assert pq.read_table(file).equals(pq.read_table(tmp_path / "out" / name))
    assert not memory.exists("/bucket/out/_manifest/lock")


def test_a_lock_on_another_filesystem_says_who_holds_it(memory, threads):
    lock = {"holder": "process 7 on node-3", "since": "2026-01-01T00:00:00+00:00", "run": "x"}
    memory.pipe_file("/bucket/out/_manifest/lock", json.dumps(lock).encode())
    with pytest.raises(sw.InvalidInput, match=r"process 7 on node-3.*remove the file"):
        score_dataset("memory://bucket/in", RULES, "memory://bucket/out", scheduler=threads)
    assert memory.find("/bucket/out") == ["/bucket/out/_manifest/lock"]
    memory.rm_file("/bucket/out/_manifest/lock")
    score_dataset("memory://bucket/in", RULES, "memory://bucket/out", scheduler=threads)


def test_files_of_the_user_on_another_filesystem_are_not_changed(memory, threads):
    memory.pipe_file("/bucket/out/notes.txt", b"mine")
    with pytest.raises(sw.InvalidInput, match="did not put there"):
        score_dataset("memory://bucket/in", RULES, "memory://bucket/out", scheduler=threads)
    assert memory.find("/bucket/out") == ["/bucket/out/notes.txt"]


def test_an_address_of_an_unknown_kind_is_an_error():
    with pytest.raises(sw.InvalidInput, match="no address that fsspec knows"):
        Dataset.of("nowhere://bucket/in")
