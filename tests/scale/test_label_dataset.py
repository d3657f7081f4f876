"""Rows to label from a folder of files: those of acquire, with the names of their files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

import scorewise as sw
from scale_support import N_PARTITIONS, N_ROWS, local_cluster, random_members, write_dataset
from scorewise.scale import Dataset, label_dataset


@pytest.fixture(scope="module")
def threads():
    with local_cluster(1, processes=False) as client:
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("pool") / "in")


ALL = np.concatenate([random_members(i) for i in range(N_PARTITIONS)])


def numbers(chosen) -> np.ndarray:
    """The rows as they are counted over all files."""
    return chosen.partitions * N_ROWS + chosen.rows


@pytest.mark.parametrize("n", [1, 7, N_PARTITIONS * N_ROWS])
def test_top_is_the_rows_of_acquire(folder, threads, n):
    scores = sw.decompose(ALL, "log").total
    chosen = label_dataset(folder, n, "log", component="total", scheduler=threads)
    np.testing.assert_array_equal(numbers(chosen), sw.acquire(scores, n))
    np.testing.assert_allclose(chosen.scores, scores[numbers(chosen)], rtol=1e-6)
    assert chosen.score_name == "total_log"
    assert chosen.files == tuple(f"day-{i}.parquet" for i in chosen.partitions)
    assert chosen.ids.tolist() == [
        f"{i}-{row}" for i, row in zip(chosen.partitions, chosen.rows, strict=True)
    ]
    assert (chosen.n_rows, chosen.n_labelled) == (len(ALL), 0)


@pytest.mark.parametrize("method", ["top", "power", "softmax", "random"])
def test_rows_follow_from_the_seed_and_not_from_the_workers(folder, threads, client, method):
    options = {"method": method, "random_state": 3, "coldness": 2.0}
    here = label_dataset(folder, 20, scheduler=threads, **options)
    there = label_dataset(Dataset.of(folder), 20, scheduler=client, **options)
    np.testing.assert_array_equal(numbers(here), numbers(there))
    assert len(set(numbers(here).tolist())) == 20
    other = label_dataset(folder, 20, scheduler=threads, **(options | {"random_state": 4}))
    assert (method == "top") == (set(numbers(here)) == set(numbers(other)))


def test_chances_are_those_of_memory(tmp_path, threads):
    """One row in each file, with known scores: 1/2, 1/3 and 1/6 to be the first."""
    pool = tmp_path / "pool"
    pool.mkdir()
    for name, distance in zip("abc", np.sqrt([0.12, 0.08, 0.04]), strict=True):
        members = [[0.5 + distance, 0.5 - distance], [0.5 - distance, 0.5 + distance]]
        sw.write_predictions(pool / f"{name}.parquet", np.array([members]))
    source = Dataset.of(pool)
    first = [
        int(
            label_dataset(
                source, 1, "brier", method="power", random_state=i, scheduler=threads
            ).partitions[0]
        )
        for i in range(150)
    ]
    for i, chance in enumerate((1 / 2, 1 / 3, 1 / 6)):
        assert binomtest(first.count(i), len(first), chance).pvalue > 1e-3


def test_rows_with_a_label_are_left_out(tmp_path, threads):
    pool = tmp_path / "pool"
    pool.mkdir()
    for i in range(3):
        labels = np.full(N_ROWS, i if i < 2 else -1)
        labels[:5] = -1
        sw.write_predictions(pool / f"{i}.parquet", random_members(i), labels=labels)
    chosen = label_dataset(pool, 50, scheduler=threads)
    assert chosen.n_labelled == 2 * (N_ROWS - 5)
    free = {*range(5), *range(N_ROWS, N_ROWS + 5), *range(2 * N_ROWS, 3 * N_ROWS)}
    assert set(numbers(chosen).tolist()) == free
    assert chosen.ids is None
    with pytest.raises(sw.InvalidInput, match="only 50 rows to choose 51 from"):
        label_dataset(pool, 51, scheduler=threads)


def test_labels_of_all_rows_leave_out_none(tmp_path, threads):
    (tmp_path / "pool").mkdir()
    path = tmp_path / "pool" / "a.parquet"
    sw.write_predictions(path, random_members(0), labels=np.zeros(N_ROWS, int))
    assert label_dataset(tmp_path / "pool", 5, scheduler=threads).n_labelled == 0


def test_an_error_names_file_and_row(tmp_path, threads):
    def make_bad(partition, probs):
        if partition == 3:
            probs[17] = 2

    pool = write_dataset(tmp_path / "in", change=make_bad)
    with pytest.raises(sw.InvalidInput, match=r"'day-3.parquet': row 17"):
        label_dataset(pool, 5, scheduler=threads)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "softrank"}, "softrank needs the rank"),
        ({"method": "best"}, "method must be one of"),
        ({"component": "all"}, "component must be one of"),
        ({"n": 0}, "n must be a whole number from 1 on"),
        ({"n": 10_000}, "there are only 320 rows to choose 10000 from"),
        ({"rule": np.eye(2)}, "classes"),
        ({"scheduler": "cluster"}, "the scheduler must be"),
    ],
)
def test_what_cannot_be_is_refused(folder, threads, options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        label_dataset(folder, **({"n": 3, "scheduler": threads} | options))
