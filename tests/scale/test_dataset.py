"""Folders of Parquet files whose rows, row groups or files are not like the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from scale_support import N_CLASSES, N_MEMBERS, N_ROWS, local_cluster, random_members
from scorewise.scale import (
    Dataset,
    Partition,
    certify_dataset,
    evaluate_dataset,
    label_dataset,
    score_dataset,
)

PER_GROUP = 10  # rows of a row group


@pytest.fixture(scope="module")
def client() -> Any:
    with local_cluster(1, processes=False) as client:
        yield client


def write_lists(folder: Path, *changes: dict[int, Any]) -> Path:
    """A file of lists for each mapping from rows to what they hold instead."""
    folder.mkdir()
    for file, change in enumerate(changes):
        values = random_members(file).tolist()
        for row, value in change.items():
            values[row] = value
        table = pa.table({"probs": values, "labels": np.arange(N_ROWS) % N_CLASSES})
        pq.write_table(table, folder / f"{file}.parquet", row_group_size=PER_GROUP)
    return folder


MEMBER_LESS = random_members(9)[0].tolist()[1:]


@pytest.mark.parametrize("change", [None, [], MEMBER_LESS], ids=["null", "empty", "a member less"])
@pytest.mark.parametrize("n_files", [1, 2])
def test_first_row_of_the_first_file_need_not_be_valid(tmp_path, client, change, n_files):
    source = write_lists(tmp_path / "in", {0: change}, *[{}] * (n_files - 1))
    assert Dataset.of(source).members_and_classes == (N_MEMBERS, N_CLASSES)
    result = score_dataset(
        source, "log", tmp_path / "out", scheduler=client, on_bad_rows="quarantine"
    )
    assert (result.n_rows, result.n_quarantined) == (n_files * N_ROWS - 1, 1)
    bad = pq.read_table(tmp_path / "out/_quarantine/part-00000.parquet")
    assert bad["row"].to_pylist() == [0]
    with pytest.raises(sw.InvalidInput, match=r"'0\.parquet': row 0 \(row 0 of row group 0\)"):
        score_dataset(source, "log", tmp_path / "other", scheduler=client)


def test_first_row_of_a_later_file_need_not_be_valid(tmp_path, client):
    source = write_lists(tmp_path / "in", {}, {0: MEMBER_LESS})
    with pytest.raises(sw.InvalidInput, match=r"'1\.parquet': row 0 .*3 entries, not 4"):
        score_dataset(source, "log", tmp_path / "out", scheduler=client)
    result = score_dataset(
        source, "log", tmp_path / "out", scheduler=client, on_bad_rows="quarantine"
    )
    assert (result.n_rows, result.n_quarantined) == (2 * N_ROWS - 1, 1)


def test_members_are_those_of_most_files(tmp_path, client):
    of_other_members = dict.fromkeys(range(N_ROWS), MEMBER_LESS)
    source = write_lists(tmp_path / "in", of_other_members, {}, {})
    assert Dataset.of(source).members_and_classes == (N_MEMBERS, N_CLASSES)
    result = score_dataset(
        source, "log", tmp_path / "out", scheduler=client, on_bad_rows="quarantine"
    )
    assert (result.n_rows, result.n_quarantined) == (2 * N_ROWS, N_ROWS)


def test_first_wrong_row_is_named_whatever_is_wrong(tmp_path, client):
    impossible = [[2.0] * N_CLASSES] * N_MEMBERS
    source = write_lists(tmp_path / "in", {3: impossible, 5: None, 6: impossible})
    message = r"'0\.parquet': row 3 .* sums to 6"
    with pytest.raises(sw.InvalidInput, match=message):
        score_dataset(source, "log", tmp_path / "out", scheduler=client)
    remedy = ".*pass on_bad_rows='quarantine', quarantine='FOLDER' to set invalid rows aside"
    for work in (evaluate_dataset, label_dataset, certify_dataset):
        options: dict[str, Any] = {"n": 3} if work is label_dataset else {}
        options |= {"max_loss": 0.5} if work is certify_dataset else {}
        with pytest.raises(sw.InvalidInput, match=message + remedy):
            work(source, scheduler=client, **options)
    with pytest.raises(sw.InvalidInput, match=message):
        sw.score_file(source / "0.parquet", "log", tmp_path / "scores.parquet")


def test_numbers_of_rows_are_those_of_the_file():
    partition = Partition(0, "a.parquet", "/a.parquet", "1", left_out=np.array([1, 90, 91]))
    assert partition.row_numbers(4).tolist() == [0, 2, 3, 4]
    assert partition.row_numbers(90)[-2:].tolist() == [89, 92]


def test_rows_with_the_same_problem_in_other_places_have_one_reason(tmp_path, client):
    shorter = [random_members(9)[0].tolist() for _ in range(2)]
    for member, values in enumerate(shorter):
        del values[member][0]
    source = write_lists(tmp_path / "in", {3: shorter[0], 25: shorter[1]})
    result = score_dataset(
        source, "log", tmp_path / "out", scheduler=client, on_bad_rows="quarantine"
    )
    [(reason, n_rows)] = result.quarantined[0]["reasons"].items()
    assert (reason.partition(";")[0], n_rows) == ("probs has … entries, not …", 2)


# -- damaged row groups ----------------------------------------------------------------------------


def damage(path: Path, *groups: int) -> None:
    """Overwrite the predictions of row groups."""
    content = bytearray(path.read_bytes())
    for group in groups:
        column = pq.ParquetFile(path).metadata.row_group(group).column(0)
        start = column.data_page_offset
        if column.has_dictionary_page:
            start = min(start, column.dictionary_page_offset)
        content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(content)


def test_row_groups_beside_a_damaged_one_are_used(tmp_path, client):
    source = write_lists(tmp_path / "in", {}, {33: None, 35: None})
    damage(source / "1.parquet", 2)
    with pytest.raises(sw.InvalidInput, match=r"'1\.parquet': row group 2 cannot be read: "):
        score_dataset(source, "log", tmp_path / "out", scheduler=client)
    result = score_dataset(
        source, "log", tmp_path / "out", scheduler=client, on_bad_rows="quarantine"
    )
    assert (result.n_rows, result.n_quarantined) == (2 * N_ROWS - 12, 12)
    [entry] = result.quarantined
    [unread] = entry["unread"]
    assert (unread["first_row"], unread["rows"]) == (20, 10)
    assert unread["reason"].startswith("'1.parquet': row group 2 cannot be read: ")
    assert len(unread["reason"].splitlines()) == 1
    lines = "\n".join(result.quarantine_lines())
    assert lines.startswith("2 invalid rows of 1 file are in _quarantine (2: probs is missing)")
    assert "\n10 rows could not be read: '1.parquet': row group 2 cannot" in lines
    rows = pq.read_table(tmp_path / "out/part-00001.parquet")["row"].to_pylist()
    assert rows == [row for row in range(N_ROWS) if row not in {*range(20, 30), 33, 35}]


def test_rows_of_damaged_row_groups_are_left_out_and_counted(tmp_path, client):
    source = write_lists(tmp_path / "in", {}, {17: None})
    whole = evaluate_dataset(source / "0.parquet", rules="log", scheduler=client)
    damage(source / "0.parquet", 0, 3)
    damage(source / "1.parquet", 0, 1, 2, 3)
    with pytest.warns(match="could not be read") as warned:
        evaluation = evaluate_dataset(
            source,
            rules="log",
            n_uncertain=N_ROWS,
            scheduler=client,
            on_bad_rows="quarantine",
            quarantine=tmp_path / "bad",
        )
    assert [str(warning.message).partition(":")[0] for warning in warned] == [
        *["10 rows could not be read"] * 2,
        "'1.parquet' could not be read",
    ]
    assert evaluation.n_rows == 20
    assert sorted(row.index for row in evaluation.uncertain_rows) == [*range(10, 30)]
    sentence = "left out: 20 invalid rows and 1 unreadable file, see"
    assert sentence in " ".join(map(str, evaluation.notes))
    assert evaluation.n_members == whole.n_members
