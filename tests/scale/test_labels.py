"""What labels mean is decided by all rows, so it does not depend on the blocks."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import scorewise as sw
from scorewise import scale

QUICK = {"n_resamples": 100, "random_state": 0, "progress": False}
N = 150
CHUNKS = [5, 10, 50]


def rows(k=3, n=N, seed=0, *, in_order=False):
    """Members and labels of rows, which may be in the order of their labels."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, 0.3), size=n)
    y = (truth.cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1)
    probs = truth[:, None] * np.exp(rng.normal(scale=0.3, size=(n, 4, k))) + 1e-6
    probs /= probs.sum(axis=-1, keepdims=True)
    order = np.argsort(y, kind="stable") if in_order else np.arange(n)
    return probs[order], y[order]


def error_of(function, *args, **options):
    with pytest.raises(sw.InvalidInput) as raised:
        function(*args, **options, **QUICK)
    return str(raised.value)


def numbers(comparison):
    """The value of each measure, and its test of calibration."""
    values = {row.name: row.value for row in comparison.standings}
    return values | {"expected": comparison.calibration.expected}


def assert_same_as_memory(probs, y, chunk, **options):
    lazy = da.from_array(probs, chunks=(chunk, *probs.shape[1:]))
    expected = sw.evaluate(probs, y, **options, **QUICK)
    for labels in (y, da.from_array(np.asarray(y), chunks=chunk)):
        evaluation = sw.evaluate(lazy, labels, **options, **QUICK)
        assert evaluation.loss == pytest.approx(expected.loss, rel=1e-12)
        mine, others = (
            [(row.name, row.n_rows) for row in x.classes] for x in (evaluation, expected)
        )
        assert mine == others
        comparison = sw.compare(lazy, labels, **options, **QUICK)
        for result in (evaluation.comparison, comparison):
            assert numbers(result) == pytest.approx(numbers(expected.comparison), rel=1e-9)


def assert_same_error_as_memory(probs, y, chunk, match, **options):
    lazy = da.from_array(probs, chunks=(chunk, *probs.shape[1:]))
    for function in (sw.evaluate, sw.compare):
        expected = error_of(function, probs, y, **options)
        assert match in expected
        for labels in (y, da.from_array(np.asarray(y), chunks=chunk)):
            assert error_of(function, lazy, labels, **options) == expected


@pytest.mark.parametrize("chunk", CHUNKS)
def test_labels_numbered_from_one_are_refused_by_all_rows(chunk):
    probs, y = rows(k=4)
    few = y < 3  # so that all labels are indices of classes
    assert_same_error_as_memory(probs[few], y[few] + 1, chunk, "no label is 0")
    assert_same_error_as_memory(probs, y + 1, chunk, "labels must be from 0 to 3")


@pytest.mark.parametrize("chunk", CHUNKS)
def test_rows_in_the_order_of_their_labels_are_valid(chunk):
    assert_same_as_memory(*rows(in_order=True), chunk)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_signs_are_two_classes_where_a_block_has_one_of_them(chunk):
    probs, y = rows(k=2, in_order=True)
    assert_same_as_memory(probs, 2 * y - 1, chunk)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("dtype", [int, float, object, np.uint8])
def test_numbers_are_names_where_a_block_has_few_of_them(chunk, dtype):
    probs, y = rows(in_order=True)
    assert_same_as_memory(probs, (y + 1).astype(dtype), chunk, class_names=[1, 2, 3])


@pytest.mark.parametrize("dtype", [str, object])
def test_names_are_those_of_memory(dtype):
    probs, y = rows()
    names = ["ant", "bee", "cat"]
    assert_same_as_memory(probs, np.array(names)[y].astype(dtype), 50, class_names=names)


def replaced(y, values):
    """Labels as objects, of which some rows have others."""
    changed = y.astype(object)
    for row, value in values.items():
        changed[row] = value
    return changed


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({70: None, 120: None}, "labels[70] is missing; 2 of 150 rows"),
        ({70: float("nan"), 20: -1}, "labels[20] is missing; 2 of 150 rows"),
        ({101: 7, 100: 9}, "labels[100] is 9; labels must be from 0 to 2"),
        ({33: 0.5}, "labels[33] is 0.5; labels must be class indices"),
        ({77: "cat"}, "labels are names"),
    ],
)
def test_wrong_labels_are_named_as_in_memory(values, match):
    probs, y = rows()
    assert_same_error_as_memory(probs, replaced(y, values), 50, match)


def test_numbers_that_may_be_names_or_indices_are_refused_as_in_memory():
    probs, y = rows(in_order=True)
    one_or_two = y > 0
    y, probs = y[one_or_two], probs[one_or_two]
    message = "which may be the class called"
    assert_same_error_as_memory(probs, y, 10, message, class_names=[1, 2, 3])
    for labels_are in ("names", "indices"):
        assert_same_as_memory(probs, y, 10, class_names=[1, 2, 3], labels_are=labels_are)


def test_labels_have_one_axis():
    probs, y = rows()
    assert_same_error_as_memory(probs, np.eye(3)[y], 50, "labels have shape (150, 3)")


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0"
    ) as client:
        yield client


def write(folder, probs, y, chunk, **options):
    folder.mkdir()
    for start in range(0, len(y), chunk):
        part = slice(start, start + chunk)
        path = folder / f"{start:05}.parquet"
        sw.write_predictions(path, probs[part], labels=y[part], **options)
    return folder


@pytest.mark.parametrize("chunk", CHUNKS)
def test_labels_numbered_from_one_are_refused_by_all_files(chunk, client, tmp_path):
    probs, y = rows(k=4)
    few = y < 3
    folder = write(tmp_path / "rows", probs[few], y[few] + 1, chunk)
    own = {"progress": False}
    with pytest.raises(sw.InvalidInput) as raised:
        sw.certify(sw.read_predictions(folder), max_loss=0.5)
    expected = str(raised.value).partition(": ")[2]
    assert "no label is 0" in expected
    for function in (
        lambda: scale.evaluate_dataset(folder, scheduler=client, **QUICK),
        lambda: scale.compare_dataset(folder, scheduler=client, **QUICK),
        lambda: scale.certify_dataset(folder, max_loss=0.5, scheduler=client, **own),
        lambda: scale.calibrate_dataset(folder, scheduler=client, **own),
    ):
        with pytest.raises(sw.InvalidInput) as raised:
            function()
        assert str(raised.value) == expected
    policy = scale.certify_dataset(
        folder, max_loss=0.9, labels_are="indices", scheduler=client, **own
    )
    assert policy.metadata["rows"] == few.sum()


@pytest.mark.parametrize("chunk", CHUNKS)
def test_files_in_the_order_of_their_labels_are_valid(chunk, client, tmp_path):
    probs, y = rows(in_order=True)
    folder = write(tmp_path / "rows", probs, y, chunk)
    expected = sw.evaluate(probs, y, **QUICK)
    evaluation = scale.evaluate_dataset(folder, scheduler=client, **QUICK)
    assert str(evaluation) == str(expected)
    comparison = scale.compare_dataset(folder, scheduler=client, **QUICK)
    assert str(comparison) == str(sw.compare(probs, y, **QUICK))
    policy = scale.certify_dataset(folder, max_loss=0.6, scheduler=client, progress=False)
    assert policy.certificate == sw.certify(probs, y, max_loss=0.6).certificate


def test_folders_ask_whether_numbers_are_names_or_indices(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    probs = np.full((4, 1, 3), 1 / 3).reshape(4, -1)
    folder = tmp_path / "rows"
    folder.mkdir()
    for name, labels in {"a": [0, 1, 2, 1], "b": [1, 2, 1, 2]}.items():
        columns = {f"probs_0_{k}": probs[:, k] for k in range(3)}
        pq.write_table(pa.table({**columns, "labels": labels}), folder / f"{name}.parquet")
    for function in (scale.evaluate_dataset, scale.calibrate_dataset):
        with pytest.raises(sw.InvalidInput, match=r"whether they are names or indices.*labels_are"):
            function(folder, class_names=[1, 2, 3])
    for options in (
        {"class_names": [1, 2, 3], "labels_are": "indices"},
        {"class_names": ["ant", "bee", "cat"]},
        {},
    ):
        scale.Dataset.of(folder, **options).require_labels()
