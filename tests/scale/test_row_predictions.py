"""Models applied to Dask arrays and frames: the samples of predict_samples, where the rows are."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import scorewise as sw
from scale_support import local_cluster
from support import assert_same, members

FOUR = ["log", "brier", "zero-one", "spherical"]
X, Y = load_iris(return_X_y=True)
FRAME = pd.DataFrame(X, columns=list("abcd"))
N, K = len(X), 3


@pytest.fixture(autouse=True, scope="module")
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


@cache
def forest() -> RandomForestClassifier:
    return RandomForestClassifier(6, max_depth=3, random_state=0).fit(X, Y)


def voting() -> VotingClassifier:
    kinds = [("bayes", GaussianNB()), ("forest", forest())]
    return VotingClassifier(kinds, voting="soft", weights=[2, 1]).fit(X, Y)


def bootstrap() -> sw.BootstrapEnsemble:
    return sw.BootstrapEnsemble(LogisticRegression(max_iter=500), 4, random_state=0).fit(X, Y)


def dropout() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, K)
    return torch.nn.Sequential(*layers).double()


def booster() -> lgb.Booster:
    parameters = {"objective": "multiclass", "num_class": K, "verbose": -1, "min_data_in_leaf": 2}
    return lgb.train(parameters, lgb.Dataset(X, Y), 24)


def boosted_trees() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=24, min_samples_leaf=3, random_state=0).fit(X, Y)


MODELS = {
    "random forest": forest,
    "HistGradientBoosting": boosted_trees,
    "LightGBM booster": booster,
    "BootstrapEnsemble": bootstrap,
    "weighted voting": voting,
    "list": lambda: [forest(), GaussianNB().fit(X, Y)],
    "dropout": dropout,
}


def lazy(rows=X, chunks=(40, -1)):
    return da.from_array(rows, chunks=chunks)


def same_samples(got: sw.Samples, expected: sw.Samples, **tolerance: float) -> None:
    assert isinstance(got.probs, da.Array)
    assert got.shape == expected.shape
    assert got.probs.dtype == expected.probs.dtype
    values = got.probs.compute()
    assert values.dtype == expected.probs.dtype
    np.testing.assert_allclose(values, expected.probs, **(tolerance or {"rtol": 0}))
    if expected.weights is None:
        assert got.weights is None
    else:
        np.testing.assert_allclose(got.weights, expected.weights)
    np.testing.assert_array_equal(got.classes_, expected.classes_)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chunks", [40, (1, 0, 100, 49)])
def test_the_same_seed_gives_the_samples_of_memory_whatever_the_chunks(name, chunks):
    model = MODELS[name]()
    expected = sw.predict_samples(model, X, random_state=3)
    got = sw.predict_samples(model, lazy(chunks=(chunks, 4)), random_state=3)
    assert got.probs.chunks[0] == lazy(chunks=(chunks, 4)).chunks[0]
    # products of matrices are rounded differently in blocks of different sizes
    exact = name not in {"dropout", "BootstrapEnsemble", "weighted voting", "list"}
    same_samples(got, expected, **({"rtol": 0} if exact else {"rtol": 1e-9, "atol": 1e-15}))


def test_a_random_subset_of_the_members_is_that_of_memory():
    expected = sw.predict_samples(forest(), X, 3, random_state=5)
    same_samples(sw.predict_samples(forest(), lazy(), 3, random_state=5), expected)


@pytest.mark.parametrize("n_partitions", [1, 4])
def test_a_frame_is_predicted_in_its_partitions(n_partitions):
    model = RandomForestClassifier(6, max_depth=3, random_state=0).fit(FRAME, Y)
    frame = dd.from_pandas(FRAME, npartitions=n_partitions)
    got = sw.predict_samples(model, frame)
    same_samples(got, sw.predict_samples(model, FRAME))
    assert got.probs.chunks[0] == tuple(frame.map_partitions(len).compute())


def test_partitions_that_a_filter_shortens_are_counted():
    model = RandomForestClassifier(6, max_depth=3, random_state=0).fit(FRAME, Y)
    frame = dd.from_pandas(FRAME, npartitions=4)
    got = sw.predict_samples(model, frame[frame.a > 7])
    same_samples(got, sw.predict_samples(model, FRAME[FRAME.a > 7]))
    assert 0 in got.probs.chunks[0]


def test_only_the_first_row_is_predicted_before_the_result_is_computed():
    blocks = []

    def block(rows):
        blocks.append(len(rows))
        return rows

    rows = lazy().map_blocks(block, meta=np.empty((0, 0)))
    samples = sw.predict_samples(forest(), rows)
    many = sw.decompose(samples, FOUR)
    assert blocks == [40]
    expected = sw.decompose(sw.predict_samples(forest(), X), FOUR)
    got = dict(zip(many, dask.compute(*(tuple(d) for d in many.values())), strict=True))
    assert_same(got, expected, rtol=1e-12, atol=1e-15)
    assert sorted(blocks) == [30, 40, 40, 40, 40]


def test_weights_of_members_reach_decompose():
    got = sw.decompose(sw.predict_samples(voting(), lazy()), "log").total.compute()
    expected = sw.decompose(sw.predict_samples(voting(), X), "log").total
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_no_rows_give_no_samples():
    got = sw.predict_samples(forest(), lazy(X[:0], chunks=(10, 4)))
    assert got.shape == got.probs.compute().shape == (0, 6, K)


def test_several_labels_are_predicted_in_blocks():
    labels = np.stack([Y == 0, Y == 1], axis=1).astype(int)
    model = RandomForestClassifier(6, max_depth=3, random_state=0).fit(X, labels)
    same_samples(sw.predict_samples(model, lazy()), sw.predict_samples(model, X))


def test_the_graph_holds_the_model_once():
    model = RandomForestClassifier(50, random_state=0).fit(X, Y)
    size = len(pickle.dumps(model))

    def sizes(n):
        probs = sw.predict_samples(model, da.zeros((n, 4), chunks=(1, 4))).probs
        total = sw.decompose(sw.Samples(probs, check=False), "log").total
        collections = probs, dask.optimize(probs)[0], dask.optimize(total)[0]
        return np.array([len(cloudpickle.dumps(dict(x.dask))) for x in collections])

    few, many = sizes(10), sizes(210)
    assert (few < 1.5 * size).all()
    assert (many - few < 200 * 2000).all()


def test_threads_that_share_a_model_predict_one_chunk_at_a_time():
    module = dropout()
    expected = sw.predict_samples(module, X, random_state=3)
    samples = sw.predict_samples(module, lazy(chunks=(10, 4)), random_state=3)
    with dask.config.set(scheduler="threads", num_workers=4):
        same_samples(samples, expected, rtol=1e-9)


def test_columns_in_several_chunks_are_put_together_with_a_warning():
    with pytest.warns(sw.errors.ScorewiseWarning, match="X has its columns in 2 chunks"):
        got = sw.predict_samples(forest(), lazy(chunks=(40, 2)))
    same_samples(got, sw.predict_samples(forest(), X))


def test_rows_of_unknown_number_are_refused_with_the_remedy():
    rows = lazy()
    with pytest.raises(sw.InvalidInput, match=r"call X.compute_chunk_sizes\(\) first"):
        sw.predict_samples(forest(), rows[rows[:, 0] > 5])


def test_a_collection_that_is_neither_array_nor_frame_is_refused():
    import dask.bag

    with pytest.raises(sw.InvalidInput, match="X is a Bag of Dask; it must be an array or a data"):
        sw.predict_samples(forest(), dask.bag.from_sequence([1, 2]))


def test_a_model_without_members_is_refused_at_once():
    with pytest.raises(sw.InvalidInput, match="GaussianNB has no members"):
        sw.predict_samples(GaussianNB().fit(X, Y), lazy())


class Fails(ClassifierMixin, BaseEstimator):
    """Returns NaN for rows whose first column is negative."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        probs = np.full((len(X), K), 1 / K)
        probs[np.asarray(X)[:, 0] < 0] = np.nan
        return probs


def failing():
    rows = X.copy()
    rows[97, 0] = -1
    return [GaussianNB().fit(X, Y), Fails().fit(X, Y)], rows


def test_an_error_names_member_and_row_of_the_whole_array():
    models, rows = failing()
    samples, into = sw.predict_samples(models, lazy(rows)), sw.Accumulator("log")
    message = r"member 1 \(Fails\) returns nan for row 97, class 0"
    with pytest.raises(sw.InvalidInput, match=message):
        samples.probs.compute()
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(models, lazy(rows), into=into)
    assert into.n_members == 0


def test_an_error_names_the_row_of_a_frame():
    models, rows = failing()
    frame = dd.from_pandas(pd.DataFrame(rows), npartitions=3)
    assert tuple(frame.map_partitions(len).compute()) == (50, 50, 50)
    with pytest.raises(sw.InvalidInput, match="for row 97, class 0"):
        sw.predict_samples(models, frame).probs.compute()
    into = sw.Accumulator("log")
    message = "for row 47, class 0.*rows are counted from the start of partition 1"
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(models, frame, into=into)
    assert into.n_members == 0


def test_an_error_of_a_network_names_the_row_of_the_whole_array():
    rows = X.copy()
    rows[97, 2] = np.nan
    with pytest.raises(sw.InvalidInput, match="row 97"):
        sw.predict_samples(dropout(), lazy(rows), random_state=0).probs.compute()


# -- into= and out= --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_into_decomposes_all_members_as_in_memory(name):
    model = MODELS[name]()
    expected, got = (sw.Accumulator(FOUR) for _ in range(2))
    sw.predict_samples(model, X, random_state=3, into=expected)
    assert sw.predict_samples(model, lazy(), random_state=3, into=got) is got
    assert got.n_members == expected.n_members
    assert_same(got.result(), expected.result(), rtol=1e-7, atol=1e-12)


def test_into_adds_to_the_members_before_in_their_precision():
    other = sw.predict_samples(bootstrap(), X).probs.astype(np.float32)
    expected, got = (sw.Accumulator({"mine": "log", "z": "zero-one"}) for _ in range(2))
    for accumulator, rows in ((expected, X), (got, lazy())):
        accumulator.update_members(other)
        sw.predict_samples(forest(), rows, into=accumulator)
    assert got.dtype == np.float32
    assert got.n_members == 10
    assert_same(got.result(), expected.result(), rtol=1e-4, atol=1e-7)


def test_into_takes_a_frame_without_counting_its_rows():
    model = RandomForestClassifier(6, max_depth=3, random_state=0).fit(FRAME, Y)
    got = sw.Accumulator("log")
    sw.predict_samples(model, dd.from_pandas(FRAME, npartitions=4), into=got)
    expected = sw.decompose(sw.predict_samples(model, FRAME), "log")
    assert_same({"": got.result()}, {"": expected}, rtol=1e-12, atol=1e-15)


def test_into_of_other_instances_is_refused_and_adds_nothing():
    into = sw.Accumulator("log")
    into.update_members(members(10, 2, K))
    with pytest.raises(sw.InvalidInput, match="must be of the same instances"):
        sw.predict_samples(forest(), lazy(), into=into)
    assert into.n_members == 2


@pytest.mark.filterwarnings("default::scorewise.errors.ScorewiseWarning")
def test_into_warns_of_fully_grown_trees_and_of_copies():
    trees = [DecisionTreeClassifier(random_state=0).fit(X[i::2], Y[i::2]) for i in range(2)]
    with pytest.warns(sw.errors.ScorewiseWarning, match="0 or 1 in all 150 rows"):
        sw.predict_samples(trees, lazy(), into=sw.Accumulator("log"))
    copies = [LogisticRegression(max_iter=500).fit(X, Y) for _ in range(3)]
    with pytest.warns(sw.errors.ScorewiseWarning, match="All 3 members predict the same"):
        sw.predict_samples(copies, lazy(), into=sw.Accumulator("log"))


def test_out_is_written_by_chunks_and_read_lazily(tmp_path):
    path = tmp_path / "members.zarr"
    for _ in range(2):  # scorewise replaces what it wrote
        got = sw.predict_samples(forest(), lazy(chunks=((10, 0, 100, 40), 4)), out=path)
        same_samples(got, sw.predict_samples(forest(), X))
        assert [entry.name for entry in tmp_path.iterdir()] == ["members.zarr"]
    same_samples(sw.predict_samples(forest(), X, out=path), sw.predict_samples(forest(), X))


def test_out_is_absent_after_an_error(tmp_path):
    models, rows = failing()
    with pytest.raises(sw.InvalidInput, match="for row 97"):
        sw.predict_samples(models, lazy(rows), out=tmp_path / "members.zarr")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", ["members.npy", np.empty((N, 6, K))])
def test_out_that_workers_cannot_write_is_refused(tmp_path, out):
    out = tmp_path / out if isinstance(out, str) else out
    with pytest.raises(sw.InvalidInput, match=r"must then be a path that ends in .zarr"):
        sw.predict_samples(forest(), lazy(), out=out)


def test_out_never_replaces_what_others_wrote(tmp_path):
    (tmp_path / "members.zarr").mkdir()
    (tmp_path / "members.zarr" / "mine.txt").write_text("mine")
    with pytest.raises(sw.InvalidInput, match="scorewise did not write it"):
        sw.predict_samples(forest(), lazy(), out=tmp_path / "members.zarr")
    assert (tmp_path / "members.zarr" / "mine.txt").read_text() == "mine"


def test_worker_processes_predict_decompose_and_write(tmp_path):
    expected = sw.predict_samples(forest(), X)
    with local_cluster():
        samples = sw.predict_samples(forest(), lazy())
        epistemic = sw.decompose(samples, "log").epistemic.compute()
        into = sw.predict_samples(forest(), lazy(), into=sw.Accumulator("log"))
        stored = sw.predict_samples(forest(), lazy(), out=tmp_path / "members.zarr")
        same_samples(stored, expected)
    in_memory = sw.decompose(expected, "log").epistemic
    np.testing.assert_allclose(epistemic, in_memory, rtol=1e-12)
    np.testing.assert_allclose(into.result().epistemic, in_memory, rtol=1e-10)
    assert isinstance(tmp_path, Path)
