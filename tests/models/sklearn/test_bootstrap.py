"""BootstrapEnsemble: an estimator of scikit-learn like any other; its members are reproducible."""

from __future__ import annotations

import pickle
from typing import Any

import hypothesis.strategies as st
import joblib
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sparse
from distributed import Client
from hypothesis import given, settings
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import scorewise as sw

IRIS, SPECIES = load_iris(return_X_y=True)
WINE, CULTIVAR = load_wine(return_X_y=True)
NAMES = load_iris().target_names[SPECIES]


class Remembers(ClassifierMixin, BaseEstimator):
    """A classifier that keeps what it was fitted on."""

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Remembers:
        self.X_, self.y_ = np.array(X), np.array(y)
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        counts = np.array([(self.y_ == label).sum() for label in self.classes_])
        return np.tile(counts / counts.sum(), (len(X), 1))


def lines() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression())


def probs_of(ensemble: Any, X: Any = IRIS) -> np.ndarray:
    return ensemble.predict_samples(X).probs


def failing_checks(ensemble: sw.BootstrapEnsemble) -> dict[str, str]:
    if not ensemble.bootstrap:
        return {}
    reason = "copies of a row are drawn each by itself; a row with a weight is one row"
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@parametrize_with_checks(
    [
        sw.BootstrapEnsemble(LogisticRegression(max_iter=300), n_members=3),
        sw.BootstrapEnsemble(LogisticRegression(max_iter=300), n_members=1, bootstrap=False),
    ],
    expected_failed_checks=failing_checks,
)
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    if "array_api" in check.func.__name__:
        return  # runs only where SCIPY_ARRAY_API was set before SciPy was imported
    check(estimator)


@pytest.mark.parametrize("labels", [SPECIES, NAMES], ids=["numbers", "words"])
def test_the_mean_of_the_members_is_its_probability_and_the_largest_its_label(labels):
    ensemble = sw.BootstrapEnsemble(lines(), 5, random_state=0).fit(IRIS, labels)
    by_hand = np.stack([member.predict_proba(IRIS) for member in ensemble.members_], axis=1)
    samples = ensemble.predict_samples(IRIS)
    np.testing.assert_array_equal(samples.probs, by_hand)
    np.testing.assert_array_equal(sw.predict_samples(ensemble, IRIS).probs, by_hand)
    assert samples.weights is None
    mean = by_hand.mean(axis=1)
    np.testing.assert_allclose(ensemble.predict_proba(IRIS), mean, rtol=1e-12)
    np.testing.assert_array_equal(ensemble.predict(IRIS), np.unique(labels)[mean.argmax(axis=1)])
    np.testing.assert_array_equal(ensemble.classes_, np.unique(labels))
    assert len(ensemble.members_) == 5
    assert (by_hand != by_hand[:, :1]).any(), "members are fitted on other samples"
    assert ensemble.score(IRIS, labels) > 0.9


def test_n_samples_chooses_a_subset_of_its_members():
    ensemble = sw.BootstrapEnsemble(lines(), 6, random_state=0).fit(IRIS, SPECIES)
    some = ensemble.predict_samples(IRIS, 2, 7).probs
    np.testing.assert_array_equal(some, ensemble.predict_samples(IRIS, 2, random_state=7).probs)
    places = [
        [m for m in range(6) if (probs_of(ensemble)[:, m] == some[:, i]).all()] for i in range(2)
    ]
    assert all(len(place) == 1 for place in places)
    assert places[0] < places[1]


def test_members_do_not_depend_on_the_joblib_backend():
    def fitted(n_jobs: int | None) -> np.ndarray:
        tree = DecisionTreeClassifier(max_features=1)
        ensemble = sw.BootstrapEnsemble(tree, 6, n_jobs=n_jobs, random_state=3)
        return probs_of(ensemble.fit(IRIS, SPECIES))

    expected = fitted(None)
    for n_jobs in (1, 2, -1):
        with joblib.parallel_config("threading"):
            np.testing.assert_array_equal(fitted(n_jobs), expected)
    with joblib.parallel_config("loky", n_jobs=2):
        np.testing.assert_array_equal(fitted(2), expected)
        np.testing.assert_array_equal(fitted(None), expected)
    client = Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0")
    with client, joblib.parallel_config("dask"):
        np.testing.assert_array_equal(fitted(None), expected)


@pytest.mark.parametrize("make", [int, np.random.RandomState, np.random.default_rng])
def test_the_seed_decides(make):
    def fitted(seed: int) -> np.ndarray:
        ensemble = sw.BootstrapEnsemble(GaussianNB(), 3, random_state=make(seed))
        return probs_of(ensemble.fit(IRIS, SPECIES))

    np.testing.assert_array_equal(fitted(1), fitted(1))
    assert (fitted(1) != fitted(2)).any()


def test_without_a_seed_each_fit_is_fresh():
    ensemble = sw.BootstrapEnsemble(GaussianNB(), 2)
    assert (probs_of(ensemble.fit(IRIS, SPECIES)) != probs_of(ensemble.fit(IRIS, SPECIES))).any()


def test_more_members_are_the_same_and_some_more():
    few, many = (
        sw.BootstrapEnsemble(GaussianNB(), n, random_state=0).fit(IRIS, SPECIES) for n in (3, 6)
    )
    np.testing.assert_array_equal(probs_of(many)[:, :3], probs_of(few))


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (DecisionTreeClassifier(random_state=5), "random_state"),
        (
            make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=5)),
            "decisiontreeclassifier__random_state",
        ),
        (
            GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2]}, cv=2),
            "estimator__random_state",
        ),
    ],
    ids=["alone", "pipeline", "search"],
)
def test_every_member_has_a_seed_of_its_own(estimator, name):
    before = estimator.get_params()[name]
    ensemble = sw.BootstrapEnsemble(estimator, 4, bootstrap=False, random_state=0)
    ensemble.fit(IRIS, SPECIES)
    seeds = [member.get_params()[name] for member in ensemble.members_]
    assert len(set(seeds)) == 4
    assert all(isinstance(seed, int) for seed in seeds)
    assert estimator.get_params()[name] == before, "the user's estimator is left as it was"


def test_steps_of_a_pipeline_do_not_share_a_seed():
    model = make_pipeline(PCA(2), DecisionTreeClassifier())
    ensemble = sw.BootstrapEnsemble(model, 4, random_state=0).fit(IRIS, SPECIES)
    seeds = {step.random_state for member in ensemble.members_ for _, step in member.steps}
    assert len(seeds) == 8


@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=5),
    seed=st.integers(0, 2**32),
    words=st.booleans(),
)
def test_a_bootstrap_keeps_the_counts_of_the_classes_and_pairs_rows_with_labels(
    counts, seed, words
):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    y = np.array(list("abcde"))[codes] if words else codes * 3 - 1
    X = np.arange(len(y), dtype=float)[:, None]
    ensemble = sw.BootstrapEnsemble(Remembers(), 2, random_state=seed).fit(X, y)
    for member in ensemble.members_:
        rows = member.X_[:, 0].astype(int)
        np.testing.assert_array_equal(y[rows], member.y_)
        np.testing.assert_array_equal(
            np.unique(member.y_, return_counts=True)[1], np.bincount(codes)
        )


def test_a_bootstrap_draws_with_replacement_and_uniformly():
    X = np.arange(40, dtype=float)[:, None]
    y = np.repeat([0, 1], [30, 10])
    ensemble = sw.BootstrapEnsemble(Remembers(), 300, random_state=0).fit(X, y)
    rows = np.stack([member.X_[:, 0].astype(int) for member in ensemble.members_])
    distinct = np.mean([len(set(member[member < 30])) for member in rows])
    assert distinct / 30 == pytest.approx(1 - (1 - 1 / 30) ** 30, abs=0.02)
    drawn = np.bincount(rows.ravel(), minlength=40) / 300  # on average 1, sd 0.057
    assert drawn.min() > 0.7
    assert drawn.max() < 1.3


def test_without_bootstrap_members_differ_by_their_seeds_alone():
    same = sw.BootstrapEnsemble(lines(), 4, bootstrap=False, random_state=0).fit(WINE, CULTIVAR)
    probs = probs_of(same, WINE)
    np.testing.assert_array_equal(probs, np.repeat(probs[:, :1], 4, axis=1))
    assert (sw.decompose(same.predict_samples(WINE), "log").epistemic == 0).all()
    tree = DecisionTreeClassifier(max_features=1, max_depth=2)
    other = sw.BootstrapEnsemble(tree, 4, bootstrap=False, random_state=0).fit(WINE, CULTIVAR)
    assert sw.decompose(other.predict_samples(WINE), "log").epistemic.max() > 0.01
    ensemble = sw.BootstrapEnsemble(Remembers(), 2, bootstrap=False).fit(IRIS, SPECIES)
    for member in ensemble.members_:
        np.testing.assert_array_equal(member.X_, IRIS)


def test_it_is_cloned_pickled_and_set_as_others_are():
    ensemble = sw.BootstrapEnsemble(
        LogisticRegression(C=2.0, max_iter=1000, tol=1e-2), 3, random_state=0
    )
    assert is_classifier(ensemble)
    assert ensemble.get_params()["estimator__C"] == 2.0
    twin = clone(ensemble).set_params(estimator__C=0.5, n_members=2)
    assert (ensemble.estimator.C, ensemble.n_members) == (2.0, 3)
    assert (twin.estimator.C, twin.n_members) == (0.5, 2)
    fitted = ensemble.fit(IRIS, SPECIES)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(probs_of(again), probs_of(fitted))
    assert again.n_features_in_ == 4
    assert not hasattr(clone(fitted), "members_")
    assert [member.C for member in twin.fit(IRIS, SPECIES).members_] == [0.5, 0.5]


def test_a_search_tunes_the_estimator_inside_and_has_its_members():
    X = StandardScaler().fit_transform(IRIS)
    ensemble = sw.BootstrapEnsemble(LogisticRegression(), 3, random_state=0)
    search = GridSearchCV(ensemble, {"estimator__C": [1e-6, 1.0]}, cv=2).fit(X, SPECIES)
    assert search.best_params_ == {"estimator__C": 1.0}
    np.testing.assert_array_equal(
        sw.predict_samples(search, X).probs, probs_of(search.best_estimator_, X)
    )


def test_it_works_inside_and_around_pipelines():
    outside = make_pipeline(
        StandardScaler(), sw.BootstrapEnsemble(LogisticRegression(), 3, random_state=0)
    ).fit(WINE, CULTIVAR)
    expected = probs_of(outside[-1], outside[0].transform(WINE))
    np.testing.assert_array_equal(sw.predict_samples(outside, WINE).probs, expected)
    around = sw.BootstrapEnsemble(lines(), 3, random_state=0)
    assert cross_val_score(around, WINE, CULTIVAR, cv=2).min() > 0.9
    assert around.fit(WINE, CULTIVAR).n_features_in_ == 13


def test_gradient_boosting_becomes_an_ensemble_also_with_gaps():
    gaps = np.where(np.random.default_rng(0).uniform(size=IRIS.shape) < 0.1, np.nan, IRIS)
    boosting = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4)
    with threadpool_limits(1):
        ensemble = sw.BootstrapEnsemble(boosting, 3, random_state=0).fit(gaps, SPECIES)
        expected = np.stack([member.predict_proba(gaps) for member in ensemble.members_], axis=1)
        np.testing.assert_array_equal(probs_of(ensemble, gaps), expected)
    assert (expected != expected[:, :1]).any()


def test_texts_and_sparse_rows_are_resampled():
    texts = ["red apple", "green apple", "fast car", "slow car"] * 5
    topics = ["fruit", "fruit", "road", "road"] * 5
    reader = make_pipeline(TfidfVectorizer(), LogisticRegression())
    ensemble = sw.BootstrapEnsemble(reader, 3, random_state=0).fit(texts, topics)
    np.testing.assert_array_equal(ensemble.predict(["red apple", "slow car"]), ["fruit", "road"])
    X = sparse.csr_array(WINE)
    dense, thin = (
        sw.BootstrapEnsemble(DecisionTreeClassifier(), 3, random_state=0).fit(rows, CULTIVAR)
        for rows in (WINE, X)
    )
    np.testing.assert_array_equal(probs_of(dense, WINE), probs_of(thin, X))


def test_named_columns_are_remembered_and_checked():
    names = ["a", "b", "c", "d"]
    table = pa.table({name: IRIS[:, i] for i, name in enumerate(names)})
    ensemble = sw.BootstrapEnsemble(lines(), 2, random_state=0).fit(table, SPECIES)
    np.testing.assert_array_equal(ensemble.feature_names_in_, names)
    plain = sw.BootstrapEnsemble(lines(), 2, random_state=0).fit(IRIS, SPECIES)
    np.testing.assert_allclose(probs_of(ensemble, table), probs_of(plain), rtol=1e-9)
    assert not hasattr(plain, "feature_names_in_")
    with pytest.raises(sw.InvalidInput, match="feature names"):
        ensemble.predict_proba(table.select(names[::-1]))


def test_predicting_before_fit_raises_not_fitted():
    ensemble = sw.BootstrapEnsemble(GaussianNB(), 2)
    for ask in (ensemble.predict, ensemble.predict_proba, ensemble.predict_samples):
        with pytest.raises(NotFittedError):
            ask(IRIS)
    for name in ("n_features_in_", "feature_names_in_", "classes_", "members_"):
        assert not hasattr(ensemble, name)
    with pytest.raises(AttributeError, match="'BootstrapEnsemble' object has no attribute 'xyz'"):
        _ = ensemble.fit(IRIS, SPECIES).xyz


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_members": 0}, "n_members must be a whole number from 1 on, not 0"),
        ({"n_members": 2.5}, "n_members must be a whole number from 1 on, not 2.5"),
        ({"random_state": -3}, "random_state must be a whole number from 0 on, not -3"),
        ({"random_state": "x"}, "random_state must be a whole number"),
        (
            {"estimator": RidgeClassifier()},
            "RidgeClassifier has no predict_proba; .*CalibratedClassifierCV",
        ),
        ({"estimator": LinearRegression()}, "LinearRegression is a regressor"),
        ({"estimator": None}, "NoneType has no predict_proba"),
    ],
)
def test_invalid_options_are_refused_by_fit(options, message):
    ensemble = sw.BootstrapEnsemble(**{"estimator": GaussianNB(), "n_members": 2} | options)
    with pytest.raises(sw.InvalidInput, match=message):
        ensemble.fit(IRIS, SPECIES)
    assert not hasattr(ensemble, "members_")


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (IRIS[:100], SPECIES, r"inconsistent numbers of samples: \[100, 150\]"),
        (IRIS, np.linspace(0, 1, 150), "Unknown label type"),
        (IRIS, np.c_[SPECIES, SPECIES], "1d array"),
        (IRIS, np.where(SPECIES == 0, np.nan, SPECIES), "NaN"),
    ],
)
def test_labels_that_do_not_fit_are_refused_as_scikit_learn_refuses_them(X, y, message):
    with pytest.raises(ValueError, match=message):
        sw.BootstrapEnsemble(GaussianNB(), 2).fit(X, y)


def test_a_member_that_fails_is_not_hidden():
    with pytest.raises(ValueError, match="Input X contains NaN"):
        sw.BootstrapEnsemble(GaussianNB(), 2).fit(np.full((150, 4), np.nan), SPECIES)


@pytest.mark.parametrize("n_members", [1, 3])
def test_a_bad_row_is_refused_whatever_is_drawn(n_members):
    X = IRIS.copy()
    X[7, 2] = np.nan
    for seed in range(10):
        with pytest.raises(ValueError, match="NaN"):
            sw.BootstrapEnsemble(lines(), n_members, random_state=seed).fit(X, SPECIES)


def test_ways_to_split_rows_get_a_seed_too():
    search = GridSearchCV(
        DecisionTreeClassifier(), {"max_depth": [1, 2]}, cv=StratifiedKFold(2, shuffle=True)
    )
    ensembles = [
        sw.BootstrapEnsemble(search, 3, random_state=0).fit(IRIS, SPECIES) for _ in range(2)
    ]
    seeds = [[member.cv.random_state for member in ensemble.members_] for ensemble in ensembles]
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 3
    assert search.cv.random_state is None
