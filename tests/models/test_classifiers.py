"""Ensembles of scikit-learn become samples: each column is what that member says by itself."""

from __future__ import annotations

import copy
import time
from functools import cache
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import scorewise as sw

IRIS, SPECIES = load_iris(return_X_y=True)
NAMES = load_iris().target_names[SPECIES]
SHORT = np.r_[0:20, 50:70, 100:120]  # of the iris flowers, for what need not know all of them
TEXTS = ["red apple", "green apple", "red car", "fast car", "slow train", "fast train"] * 4
TOPICS = ["fruit", "fruit", "road", "road", "rail", "rail"] * 4


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:400], y[:400]


@cache
def wine() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def stacked(members: Any, X: Any) -> np.ndarray:
    """What each of them says by itself."""
    return np.stack([member.predict_proba(X) for member in members], axis=1)


def forest(n: int = 5, **options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(n, random_state=0, **options)


def bagged_lines(**options: Any) -> BaggingClassifier:
    lines = LogisticRegression(max_iter=1000)
    return BaggingClassifier(lines, 3, max_features=0.75, random_state=0, **options)


class Says(ClassifierMixin, BaseEstimator):
    """A classifier that answers what it is told to."""

    def __init__(self, answer: Any, classes: Any = (0, 1, 2)) -> None:
        self.answer = answer
        self.classes = classes

    def fit(self, X: Any = None, y: Any = None) -> Says:
        self.classes_ = np.asarray(self.classes)
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.answer(X)


def always(*row: float) -> Any:
    return lambda X: np.tile(np.array(row), (len(X), 1))


# What each kind says


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("data", [digits, wine])
def test_every_tree_of_a_forest_is_a_member(kind, data):
    X, y = data()
    model = kind(20, random_state=0, max_leaf_nodes=30, class_weight="balanced").fit(X, y)
    samples = sw.predict_samples(model, X)
    assert isinstance(samples, sw.Samples)
    assert samples.weights is None
    np.testing.assert_array_equal(samples.probs, stacked(model.estimators_, X))
    np.testing.assert_allclose(samples.mean, model.predict_proba(X), atol=1e-15)


def test_labels_may_be_words():
    words, numbers = (sw.predict_samples(forest().fit(IRIS, y), IRIS) for y in (NAMES, SPECIES))
    np.testing.assert_array_equal(words.probs, numbers.probs)


def test_two_classes_are_two_columns():
    model = forest().fit(IRIS, SPECIES == 1)
    samples = sw.predict_samples(model, IRIS)
    assert samples.probs.shape == (150, 5, 2)
    np.testing.assert_array_equal(samples.probs, stacked(model.estimators_, IRIS))


@pytest.mark.parametrize("bootstrap_features", [False, True])
def test_bagging_members_see_their_own_features(bootstrap_features):
    X, y = wine()
    model = BaggingClassifier(
        GaussianNB(), 8, max_features=0.4, bootstrap_features=bootstrap_features, random_state=0
    ).fit(X, y)
    assert len({tuple(features) for features in model.estimators_features_}) > 1
    expected = np.stack(
        [
            member.predict_proba(X[:, features])
            for member, features in zip(model.estimators_, model.estimators_features_, strict=True)
        ],
        axis=1,
    )
    samples = sw.predict_samples(model, X)
    np.testing.assert_array_equal(samples.probs, expected)
    np.testing.assert_allclose(samples.mean, model.predict_proba(X), atol=1e-15)


@pytest.mark.parametrize("labels", [SPECIES, SPECIES + 7, NAMES], ids=["0-2", "7-9", "words"])
def test_bagging_members_give_nothing_to_classes_they_never_saw(labels):
    model = BaggingClassifier(
        KNeighborsClassifier(1), 12, max_samples=3, max_features=2, random_state=0
    ).fit(IRIS, labels)
    assert {len(member.classes_) for member in model.estimators_} == {1, 2, 3}
    expected = np.zeros((150, 12, 3))
    drawn = zip(model.estimators_, model.estimators_features_, strict=True)
    for m, (member, features) in enumerate(drawn):
        for k, label in enumerate(member.classes_):
            expected[:, m, label] = member.predict_proba(IRIS[:, features])[:, k]
    samples = sw.predict_samples(model, IRIS)
    np.testing.assert_array_equal(samples.probs, expected)
    np.testing.assert_allclose(samples.mean, model.predict_proba(IRIS), atol=1e-15)


@pytest.mark.parametrize("labels", [SPECIES, NAMES], ids=["numbers", "words"])
def test_soft_voting_keeps_its_weights_and_forgets_who_was_dropped(labels):
    voting = VotingClassifier(
        [("bayes", GaussianNB()), ("gone", "drop"), ("tree", DecisionTreeClassifier(max_depth=2))],
        voting="soft",
        weights=[3, 5, 1],
    ).fit(IRIS, labels)
    samples = sw.predict_samples(voting, IRIS)
    np.testing.assert_array_equal(samples.probs, stacked(voting.estimators_, IRIS))
    np.testing.assert_allclose(samples.weights, [0.75, 0.25])
    np.testing.assert_allclose(samples.mean, voting.predict_proba(IRIS), atol=1e-15)
    for ours, expected in zip(
        sw.decompose(samples, "log"),
        sw.decompose(samples.probs, "log", weights=[3, 1]),
        strict=True,
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-15)


def test_voting_without_weights_counts_members_alike():
    voting = VotingClassifier([("a", GaussianNB()), ("b", forest())], voting="soft")
    assert sw.predict_samples(voting.fit(IRIS, SPECIES), IRIS).weights is None


def test_a_subset_of_voting_members_keeps_their_weights():
    kinds = [GaussianNB(), DecisionTreeClassifier(max_depth=1), KNeighborsClassifier(20)]
    voting = VotingClassifier(
        [(str(i), kind) for i, kind in enumerate(kinds)], voting="soft", weights=[1, 2, 4]
    ).fit(IRIS, SPECIES)
    full = sw.predict_samples(voting, IRIS).probs
    for seed in range(6):
        some = sw.predict_samples(voting, IRIS, 2, seed)
        chosen = columns_of(some.probs, full)
        expected = np.array([1, 2, 4])[chosen]
        np.testing.assert_allclose(some.weights, expected / expected.sum())


@pytest.mark.parametrize("labels", [SPECIES, SPECIES + 1, NAMES], ids=["0-2", "1-3", "words"])
def test_voting_asks_members_that_were_fitted_before(labels):
    frozen = FrozenEstimator(GaussianNB().fit(IRIS, labels))
    voting = VotingClassifier([("a", frozen), ("b", forest())], voting="soft").fit(IRIS, labels)
    samples = sw.predict_samples(voting, IRIS)
    np.testing.assert_array_equal(samples.probs, stacked(voting.estimators_, IRIS))


def test_a_pipeline_transforms_before_its_members_are_asked():
    X, y = digits()
    model = make_pipeline(StandardScaler(), PCA(5, random_state=0), forest()).fit(X, y)
    expected = stacked(model[-1].estimators_, model[:-1].transform(X))
    np.testing.assert_array_equal(sw.predict_samples(model, X).probs, expected)


def test_pipelines_may_hold_pipelines_or_nothing_else():
    inner = make_pipeline(StandardScaler(), forest())
    model = make_pipeline(PCA(2), "passthrough", inner).fit(IRIS, SPECIES)
    expected = stacked(inner[-1].estimators_, model[:-1].transform(IRIS) / inner[0].scale_)
    assert inner[0].mean_ == pytest.approx([0, 0], abs=1e-12)
    np.testing.assert_allclose(sw.predict_samples(model, IRIS).probs, expected, atol=1e-6)
    alone = make_pipeline(forest()).fit(IRIS, SPECIES)
    np.testing.assert_array_equal(
        sw.predict_samples(alone, IRIS).probs, stacked(alone[-1].estimators_, IRIS)
    )


@pytest.mark.parametrize(
    "search",
    [
        lambda model: GridSearchCV(model, {"randomforestclassifier__max_depth": [1, 3]}, cv=2),
        lambda model: RandomizedSearchCV(
            model, {"randomforestclassifier__max_depth": [1, 3]}, n_iter=1, cv=2, random_state=0
        ),
    ],
)
def test_a_search_is_asked_for_its_best_pipeline(search):
    model = search(make_pipeline(StandardScaler(), forest())).fit(IRIS, SPECIES)
    best = model.best_estimator_
    expected = stacked(best[-1].estimators_, best[0].transform(IRIS))
    np.testing.assert_array_equal(sw.predict_samples(model, IRIS).probs, expected)


def test_a_search_may_sit_at_the_end_of_a_pipeline_or_be_of_a_plain_forest():
    search = GridSearchCV(forest(), {"max_depth": [1, 3]}, cv=2)
    model = make_pipeline(StandardScaler(), search).fit(IRIS, SPECIES)
    expected = stacked(search.best_estimator_.estimators_, model[0].transform(IRIS))
    np.testing.assert_array_equal(sw.predict_samples(model, IRIS).probs, expected)
    search.fit(IRIS, SPECIES)
    expected = stacked(search.best_estimator_.estimators_, IRIS)
    np.testing.assert_array_equal(sw.predict_samples(search, IRIS).probs, expected)


@pytest.mark.parametrize("batch_size", [None, 1, 5])
def test_texts_go_through_their_pipeline(batch_size):
    model = make_pipeline(TfidfVectorizer(), forest()).fit(TEXTS, TOPICS)
    expected = stacked(model[-1].estimators_, model[0].transform(TEXTS))
    samples = sw.predict_samples(model, TEXTS, batch_size=batch_size)
    np.testing.assert_array_equal(samples.probs, expected)
    assert samples.probs.shape == (24, 5, 3)


@pytest.mark.parametrize("wrap", [FrozenEstimator, lambda m: FrozenEstimator(FrozenEstimator(m))])
def test_frozen_models_are_as_they_were(wrap):
    model = forest().fit(IRIS, SPECIES)
    np.testing.assert_array_equal(
        sw.predict_samples(wrap(model), IRIS).probs, stacked(model.estimators_, IRIS)
    )


# Calibration

METHODS = ["sigmoid", "isotonic", "temperature"]
LABELS = {"three classes": SPECIES, "two classes": SPECIES % 2, "words": NAMES}


def calibrated_by_hand(fold: Any, scores: np.ndarray, n_classes: int) -> np.ndarray:
    """A fold's calibration of what one member said."""
    if fold.method == "temperature":
        if n_classes == 2 and scores.ndim == 2:
            scores = np.stack([1 - scores[:, 1], scores[:, 1]], axis=1)
        return fold.calibrators[0].predict(scores)
    if n_classes == 2:
        (calibrator,) = fold.calibrators
        of_last = calibrator.predict(scores if scores.ndim == 1 else scores[:, 1])
        return np.stack([1 - of_last, of_last], axis=1)
    columns = [c.predict(s) for c, s in zip(fold.calibrators, scores.T, strict=True)]
    whole = np.stack(columns, axis=1)
    whole[whole.sum(axis=1) == 0] = 1
    return whole / whole.sum(axis=1, keepdims=True)


def of_trees(model: Any) -> list[np.ndarray]:
    return [tree.predict_proba(IRIS) for tree in model.estimators_]


def of_bags(model: Any) -> list[np.ndarray]:
    drawn = zip(model.estimators_, model.estimators_features_, strict=True)
    return [member.decision_function(IRIS[:, features]) for member, features in drawn]


AROUND = {
    "forest": (forest(4, max_depth=3), of_trees),
    "pipeline": (
        make_pipeline(StandardScaler(), forest(4, max_depth=3)),
        lambda model: [t.predict_proba(model[0].transform(IRIS)) for t in model[-1].estimators_],
    ),
    "search": (
        GridSearchCV(forest(3), {"max_depth": [2]}, cv=2),
        lambda model: of_trees(model.best_estimator_),
    ),
    "bagging": (bagged_lines(), of_bags),
    "plain": (LogisticRegression(max_iter=1000), lambda model: [model.decision_function(IRIS)]),
    "plain without scores": (GaussianNB(), lambda model: [model.predict_proba(IRIS)]),
    "voting": (
        VotingClassifier([("a", GaussianNB()), ("b", forest(3))], voting="soft", weights=[3, 1]),
        lambda model: [member.predict_proba(IRIS) for member in model.estimators_],
    ),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("around", AROUND)
def test_each_member_is_calibrated_as_its_fold_was(around, method, labels):
    model, scores_of = AROUND[around]
    calibrated = CalibratedClassifierCV(model, method=method, cv=2).fit(IRIS, labels)
    n_classes = len(np.unique(labels))
    expected = [
        calibrated_by_hand(fold, scores, n_classes)
        for fold in calibrated.calibrated_classifiers_
        for scores in scores_of(fold.estimator)
    ]
    samples = sw.predict_samples(calibrated, IRIS)
    np.testing.assert_allclose(samples.probs, np.stack(expected, axis=1), rtol=1e-12, atol=1e-15)
    if around == "voting":
        np.testing.assert_allclose(samples.weights, [3 / 8, 1 / 8, 3 / 8, 1 / 8])
    else:
        assert samples.weights is None
    if around.startswith("plain"):
        np.testing.assert_allclose(samples.mean, calibrated.predict_proba(IRIS), atol=1e-15)


def test_one_calibration_of_all_data_or_of_a_frozen_model_has_its_members_once():
    fitted = forest(4).fit(IRIS, SPECIES)
    for calibrated in (
        CalibratedClassifierCV(forest(4), cv=2, ensemble=False),
        CalibratedClassifierCV(FrozenEstimator(fitted)),
    ):
        calibrated.fit(IRIS, SPECIES)
        (fold,) = calibrated.calibrated_classifiers_
        trees = getattr(fold.estimator, "estimator", fold.estimator)  # of a frozen one
        trees = fold.estimator if isinstance(trees, DecisionTreeClassifier) else trees
        expected = [calibrated_by_hand(fold, scores, 3) for scores in of_trees(trees)]
        samples = sw.predict_samples(calibrated, IRIS)
        np.testing.assert_allclose(samples.probs, np.stack(expected, axis=1), rtol=1e-12)


def test_folds_of_different_sizes_weigh_the_same():
    calibrated = CalibratedClassifierCV(forest(2), cv=2).fit(IRIS, SPECIES)
    larger = CalibratedClassifierCV(forest(6), cv=2).fit(IRIS, SPECIES)
    calibrated.calibrated_classifiers_[1] = larger.calibrated_classifiers_[1]
    samples = sw.predict_samples(calibrated, IRIS)
    np.testing.assert_allclose(samples.weights, [1 / 4] * 2 + [1 / 12] * 6)


# Lists


def test_a_list_is_aligned_to_the_classes_of_who_knows_most():
    order = [2, 0, 1]
    model = GaussianNB().fit(IRIS, SPECIES)
    shuffled = Says(lambda X: model.predict_proba(X)[:, order], order).fit()
    some = SPECIES != 1
    without = GaussianNB().fit(IRIS[some], SPECIES[some])
    samples = sw.predict_samples([without, model, shuffled], IRIS)
    own = model.predict_proba(IRIS)
    np.testing.assert_array_equal(samples.probs[:, 1], own)
    np.testing.assert_array_equal(samples.probs[:, 2], own)
    np.testing.assert_array_equal(samples.probs[:, 0, [0, 2]], without.predict_proba(IRIS))
    np.testing.assert_array_equal(samples.probs[:, 0, 1], 0.0)
    turned = sw.predict_samples((shuffled, model, without), IRIS).probs
    np.testing.assert_array_equal(turned[:, ::-1][..., np.argsort(order)], samples.probs)


def test_a_member_that_knows_one_class_is_certain_of_it():
    model = GaussianNB().fit(IRIS, NAMES)
    single = DecisionTreeClassifier().fit(IRIS[50:100], NAMES[50:100])
    samples = sw.predict_samples([model, single], IRIS)
    np.testing.assert_array_equal(samples.probs[:, 1], np.tile([0.0, 1.0, 0.0], (150, 1)))


def test_members_of_a_list_may_be_of_any_kind():
    kinds = [
        forest(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-3]}, cv=2),
        FrozenEstimator(KNeighborsClassifier().fit(IRIS, NAMES)),
    ]
    fitted = [kind.fit(IRIS, NAMES) for kind in kinds]
    samples = sw.predict_samples(fitted, IRIS)
    np.testing.assert_array_equal(samples.probs, stacked(fitted, IRIS))


def test_members_may_answer_in_half_or_single_precision():
    model = GaussianNB().fit(IRIS, SPECIES)
    single = Says(lambda X: model.predict_proba(X).astype(np.float32)).fit()
    half = Says(lambda X: np.tile(np.array([0.25, 0.25, 0.5], np.float16), (len(X), 1))).fit()
    assert sw.predict_samples([single, half], IRIS).probs.dtype == np.float32
    assert sw.predict_samples([single, model], IRIS).probs.dtype == np.float64


# Input of every kind


def test_tables_with_named_columns_are_understood():
    names = ["a", "b", "c", "d"]
    table = pa.table({name: IRIS[:, i] for i, name in enumerate(names)})
    model = forest().fit(table, SPECIES)
    expected = stacked(model.estimators_, IRIS)
    for batch_size in (None, 7):
        samples = sw.predict_samples(model, table, batch_size=batch_size)
        np.testing.assert_array_equal(samples.probs, expected)
    with pytest.raises(sw.InvalidInput, match=r"(?s)refuses X: The feature names should match"):
        sw.predict_samples(model, table.select(names[::-1]))
    chooses = make_column_transformer((StandardScaler(), ["d", "a"]))
    model = make_pipeline(chooses, forest()).fit(table, SPECIES)
    expected = stacked(model[-1].estimators_, model[0].transform(table))
    for batch_size in (None, 7):
        samples = sw.predict_samples(model, table, batch_size=batch_size)
        np.testing.assert_array_equal(samples.probs, expected)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
@pytest.mark.parametrize("batch_size", [None, 33])
@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_input_is_as_dense_input(form, batch_size, make):
    X, y = digits()
    given_as = make(X).asformat(form)
    for model in (
        forest().fit(X, y),
        BaggingClassifier(DecisionTreeClassifier(), 3, max_features=0.5, random_state=0).fit(X, y),
        [DecisionTreeClassifier(max_features=5, random_state=i).fit(X, y) for i in range(2)],
    ):
        np.testing.assert_array_equal(
            sw.predict_samples(model, given_as, batch_size=batch_size).probs,
            sw.predict_samples(model, X).probs,
        )


def test_forests_read_sparse_rows_with_long_indices():
    X = sparse.csr_array(IRIS)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    expected = sw.predict_samples(fitted("forest"), IRIS).probs
    for batch_size in (None, 7):
        samples = sw.predict_samples(fitted("forest"), X, batch_size=batch_size)
        np.testing.assert_array_equal(samples.probs, expected)
    assert X.indices.dtype == np.int64


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("gaps_in_training", [False, True])
def test_forests_read_rows_with_gaps(kind, gaps_in_training):
    gaps = np.where(np.random.default_rng(0).uniform(size=IRIS.shape) < 0.2, np.nan, IRIS)
    model = kind(6, random_state=0).fit(gaps if gaps_in_training else IRIS, SPECIES)
    np.testing.assert_array_equal(
        sw.predict_samples(model, gaps).probs, stacked(model.estimators_, gaps)
    )


@pytest.mark.parametrize("convert", [np.ndarray.tolist, np.asfortranarray, np.float32])
def test_lists_and_other_layouts_are_understood(convert):
    model = forest().fit(IRIS, SPECIES)
    X = convert(IRIS)
    expected = stacked(model.estimators_, X)
    for batch_size in (None, 11):
        samples = sw.predict_samples(model, X, batch_size=batch_size)
        np.testing.assert_array_equal(samples.probs, expected)


KINDS = {
    "forest": lambda: forest(),
    "bagging": lambda: BaggingClassifier(GaussianNB(), 3, random_state=0),
    "voting": lambda: VotingClassifier([("a", GaussianNB()), ("b", forest())], voting="soft"),
    "pipeline": lambda: make_pipeline(StandardScaler(), forest()),
    "calibration": lambda: CalibratedClassifierCV(forest(3), method="isotonic", cv=2),
    "search": lambda: GridSearchCV(forest(), {"max_depth": [1]}, cv=2),
    "bootstrap": lambda: sw.BootstrapEnsemble(GaussianNB(), 3, random_state=0),
}


@cache
def fitted(kind: str) -> Any:
    return KINDS[kind]().fit(IRIS, SPECIES)


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_give_no_samples(kind):
    model = fitted(kind)
    m = sw.predict_samples(model, IRIS).probs.shape[1]
    samples = sw.predict_samples(model, IRIS[:0])
    assert samples.probs.shape == (0, m, 3)
    assert sw.decompose(samples, "log").epistemic.shape == (0,)


# What does not matter, and what does


@settings(max_examples=40)
@given(kind=st.sampled_from(list(KINDS)), size=st.integers(1, 200), n=st.integers(1, 150))
def test_any_batch_size_gives_the_same_bits(kind, size, n):
    model = fitted(kind)
    np.testing.assert_array_equal(
        sw.predict_samples(model, IRIS[:n], batch_size=size).probs,
        sw.predict_samples(model, IRIS[:n]).probs,
    )


@settings(max_examples=10)
@given(size=st.integers(1, 160))
def test_linear_members_depend_on_the_batch_size_by_rounding_alone(size):
    model = fitted_lines()
    np.testing.assert_allclose(
        sw.predict_samples(model, IRIS, batch_size=size).probs,
        sw.predict_samples(model, IRIS).probs,
        rtol=1e-12,
    )


@cache
def fitted_lines() -> Any:
    return bagged_lines().fit(IRIS, SPECIES)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_does_not_matter(kind):
    expected = sw.predict_samples(fitted(kind), IRIS).probs
    try:
        for n in (1, 2, 5):
            sw.set_num_threads(n)
            np.testing.assert_array_equal(sw.predict_samples(fitted(kind), IRIS).probs, expected)
    finally:
        sw.set_num_threads(None)


def test_a_bar_changes_nothing(capfd):
    expected = sw.predict_samples(fitted("forest"), IRIS, progress=False).probs
    assert capfd.readouterr() == ("", "")
    shown = sw.predict_samples(fitted("forest"), IRIS, batch_size=10, progress=True).probs
    np.testing.assert_array_equal(shown, expected)
    assert capfd.readouterr().out == ""


def test_the_model_is_left_as_it_was():
    model = fitted("calibration")
    before = model.predict_proba(IRIS)
    sw.predict_samples(model, IRIS)
    np.testing.assert_array_equal(model.predict_proba(IRIS), before)


def columns_of(some: np.ndarray, full: np.ndarray) -> list[int]:
    """Which members these are; each must be exactly one of them."""
    found = [np.flatnonzero((full == some[:, [m]]).all(axis=(0, 2))) for m in range(some.shape[1])]
    assert all(len(places) == 1 for places in found)
    return [int(places[0]) for places in found]


def test_fewer_samples_are_a_random_subset_in_the_members_order():
    X, y = digits()
    model = forest(12, max_features=2).fit(X, y)
    full = sw.predict_samples(model, X).probs
    subsets = set()
    for seed in range(40):
        some = sw.predict_samples(model, X, 4, seed)
        again = sw.predict_samples(model, X, n_samples=4, random_state=seed, batch_size=100)
        np.testing.assert_array_equal(some.probs, again.probs)
        chosen = columns_of(some.probs, full)
        assert chosen == sorted(set(chosen))
        subsets.add(tuple(chosen))
    assert len(subsets) > 20
    assert {m for subset in subsets for m in subset} == set(range(12))
    np.testing.assert_array_equal(sw.predict_samples(model, X, 12, 0).probs, full)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_random_states_of_numpy_move_on(make):
    X, y = digits()
    model = forest(30).fit(X, y)

    def draw(state):
        return sw.predict_samples(model, X[:50], 10, state).probs

    state = make(0)
    first, second = draw(state), draw(state)
    np.testing.assert_array_equal(first, draw(make(0)))
    assert (first != second).any()


def test_without_a_seed_the_subset_is_fresh():
    X, y = digits()
    model = forest(30).fit(X, y)
    draws = [sw.predict_samples(model, X[:50], 10).probs for _ in range(4)]
    assert any((draws[0] != other).any() for other in draws[1:])


def weighted(*weights: float) -> VotingClassifier:
    voting = VotingClassifier([("a", GaussianNB()), ("b", forest())], voting="soft")
    return voting.set_params(weights=weights).fit(IRIS, SPECIES)


def test_a_subset_has_weight_or_is_refused():
    def outcome(seed: int) -> Any:
        try:
            return sw.predict_samples(weighted(1, 0), IRIS, 1, seed).weights.tolist()
        except sw.InvalidInput as error:
            return str(error)

    assert all(found == [1.0] or "weight" in found for found in map(outcome, range(6)))


@pytest.mark.parametrize("weights", [(2, -1), (np.nan, 1), (0, 0)])
def test_weights_of_voting_are_checked(weights):
    for options in ({}, {"into": sw.Accumulator("log")}):
        with pytest.raises(sw.InvalidInput, match="weights"):
            sw.predict_samples(weighted(*weights), IRIS, **options)


# Bad input

UNFITTED = KINDS | {
    "extra trees": lambda: ExtraTreesClassifier(),
    "frozen": lambda: FrozenEstimator(forest()),
    "calibrated frozen": lambda: CalibratedClassifierCV(FrozenEstimator(forest())),
    "randomized search": lambda: RandomizedSearchCV(forest(), {"max_depth": [1]}),
}


@pytest.mark.parametrize("kind", UNFITTED)
def test_an_unfitted_model_is_refused(kind):
    with pytest.raises(sw.InvalidInput, match="is not fitted"):
        sw.predict_samples(UNFITTED[kind](), IRIS)


@pytest.mark.parametrize("make", [GaussianNB, lambda: make_pipeline(StandardScaler(), forest())])
def test_an_unfitted_member_of_a_list_is_named(make):
    model = make()
    name = type(model).__name__
    with pytest.raises(sw.InvalidInput, match=rf"member 1 \({name}\) is not fitted; call its fit"):
        sw.predict_samples([GaussianNB().fit(IRIS, SPECIES), model], IRIS)


def nan_at(row: int, k: int) -> Any:
    """Sure of everything but one row of the iris data."""

    def answer(X: Any) -> np.ndarray:
        probs = np.full((len(X), 3), 1 / 3)
        probs[(IRIS[row] == X).all(axis=1), k] = np.nan
        return probs

    return answer


def model_on(y: Any, rows: Any = slice(None)) -> GaussianNB:
    return GaussianNB().fit(IRIS[rows], np.asarray(y)[rows])


def tree_on(y: Any) -> DecisionTreeClassifier:
    return DecisionTreeClassifier().fit(IRIS, y)


def in_twos(answer: Any, **options: Any) -> list[Any]:
    """Second in a list, after a good one."""
    return [model_on(SPECIES), Says(answer, **options).fit()]


BAD_MODELS = {
    "hard voting": (
        lambda: VotingClassifier([("a", GaussianNB())], voting="hard").fit(IRIS, SPECIES),
        r"votes hard, on labels; set voting='soft'",
    ),
    "search without refit": (
        lambda: GridSearchCV(forest(), {"max_depth": [1]}, cv=2, refit=False).fit(IRIS, SPECIES),
        r"GridSearchCV is not fitted, or refit=False",
    ),
    "nan": (
        lambda: in_twos(nan_at(101, 2)),
        r"member 1 \(Says\) returns nan for row 101, class 2; .*must return probabilities",
    ),
    "infinity": (
        lambda: in_twos(always(0.0, np.inf, 0.0)),
        r"member 1 \(Says\) returns inf for row 0, class 1",
    ),
    "logits": (
        lambda: in_twos(always(2.5, -1.5, 0.5)),
        r"member 1 \(Says\) returns -1.5 for row 0, class 1, which is negative; .*probabilities",
    ),
    "positive logits": (
        lambda: in_twos(always(2.5, 1.5, 0.5)),
        r"member 1 \(Says\) returns probabilities for row 0 that sum to 4.5, not 1; .*prob",
    ),
    "a negative that is lost in the sum": (
        lambda: in_twos(always(-1e-9, 0.5, 0.5 + 1e-9)),
        r"member 1 \(Says\) returns -1e-09 for row 0, class 0, which is negative",
    ),
    "whole numbers": (lambda: in_twos(always(0, 1, 0)), r"member 1 \(Says\).*dtype int64"),
    "words for probabilities": (
        lambda: in_twos(lambda X: np.full((len(X), 3), "much")),
        r"member 1 \(Says\).*dtype",
    ),
    "too few columns": (
        lambda: in_twos(always(0.5, 0.5)),
        r"member 1 \(Says\) returns shape \(150, 2\); .*must be \(150, 3\)",
    ),
    "one number a row": (
        lambda: in_twos(lambda X: np.full(len(X), 0.5)),
        r"member 1 \(Says\) returns shape \(150,\)",
    ),
    "too few rows": (
        lambda: in_twos(lambda X: np.full((len(X) - 1, 3), 1 / 3)),
        r"member 1 \(Says\) returns shape \(149, 3\)",
    ),
    "other classes": (
        lambda: [model_on(SPECIES), model_on(SPECIES + 1)],
        r"member 1 \(GaussianNB\) knows the classes \[3\], which are not among \[0, 1, 2\]; "
        r"fit all members on the same classes",
    ),
    "overlapping classes": (
        lambda: [model_on(SPECIES, slice(0, 100)), model_on(SPECIES, slice(50, 150))],
        r"member 1 \(GaussianNB\) knows the classes \[2\], which are not among \[0, 1\]",
    ),
    "words and numbers": (
        lambda: [model_on(SPECIES), model_on(NAMES)],
        r"member 1 \(GaussianNB\) knows the classes \['setosa', 'versicolor', 'virginica'\]",
    ),
    "one class in all": (lambda: forest(2).fit(IRIS, np.zeros(150)), r"the model knows one class"),
    "several outputs of a forest": (
        lambda: forest(2).fit(IRIS, np.c_[SPECIES, SPECIES == 1]),
        r"the forest predicts 2 outputs; it must predict one",
    ),
    "several outputs": (
        lambda: [tree_on(SPECIES), tree_on(np.c_[SPECIES, SPECIES])],
        r"member 1 \(DecisionTreeClassifier\) predicts several outputs; it must predict one",
    ),
    "several outputs of different classes": (
        lambda: [tree_on(SPECIES), tree_on(np.c_[SPECIES, SPECIES == 1])],
        r"member 1 \(DecisionTreeClassifier\) predicts several outputs; it must predict one",
    ),
    "a regression forest": (
        lambda: RandomForestRegressor(2).fit(IRIS, SPECIES),
        r"RandomForestRegressor has no members: pass a forest",
    ),
    "a regression in a list": (
        lambda: [model_on(SPECIES), LinearRegression().fit(IRIS, SPECIES)],
        r"member 1 \(LinearRegression\) has no predict_proba",
    ),
    "labels only": (
        lambda: [RidgeClassifier().fit(IRIS, SPECIES)],
        r"member 0 \(RidgeClassifier\) has no predict_proba; .*CalibratedClassifierCV",
    ),
    "a classifier alone": (
        lambda: model_on(SPECIES),
        r"GaussianNB has no members: .*BootstrapEnsemble makes an ensemble",
    ),
    "a pipeline around no ensemble": (
        lambda: make_pipeline(StandardScaler(), GaussianNB()).fit(IRIS, SPECIES),
        r"Pipeline has no members",
    ),
    "a number": (lambda: 3, r"int has no members"),
    "nothing": (lambda: None, r"NoneType has no members"),
    "an empty list": (list, r"the list of classifiers is empty"),
    "a class in a list": (
        lambda: [GaussianNB],
        r"member 0 is the class GaussianNB; pass a fitted object of it",
    ),
    "an unknown object in a list": (
        lambda: [model_on(SPECIES), "forest"],
        r"member 1 \(str\) is no classifier; .*torch modules only",
    ),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_model_that_does_not_answer_as_it_must_is_refused(case):
    make, message = BAD_MODELS[case]
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(make(), IRIS)


def test_a_mixed_list_is_told_so():
    import torch

    with pytest.raises(sw.InvalidInput, match=r"member 1 \(Linear\)") as error:
        sw.predict_samples([model_on(SPECIES), torch.nn.Linear(4, 3)], IRIS)
    assert "no torch module" not in str(error.value), "it is one"


@pytest.mark.parametrize("size", [1, 7, 100, 102])
def test_the_row_is_named_in_the_whole_of_x(size):
    with pytest.raises(
        sw.InvalidInput, match=r"member 1 \(Says\) returns nan for row 101, class 2"
    ):
        sw.predict_samples(in_twos(nan_at(101, 2)), IRIS, batch_size=size)


def test_wrong_members_of_bagging_and_calibration_are_named():
    bagging = BaggingClassifier(GaussianNB(), 3, random_state=0).fit(IRIS, SPECIES)
    bagging.estimators_[2] = Says(always(0.5, np.nan, 0.5)).fit()
    with pytest.raises(sw.InvalidInput, match=r"member 2 \(Says\) returns nan for row 0, class 1"):
        sw.predict_samples(bagging, IRIS)
    calibrated = CalibratedClassifierCV(forest(3), cv=2).fit(IRIS, SPECIES)
    calibrated.calibrated_classifiers_[1].calibrators[0].a_ = np.nan
    with pytest.raises(sw.InvalidInput, match=r"fold 1, tree 0 returns nan for row 0"):
        sw.predict_samples(calibrated, IRIS)


WHO_REFUSES = {
    "forest": (forest, r"the model refuses X: X has 3 features, but RandomForest.* expecting 4"),
    "bagging": (bagged_lines, r"refuses X: X has 3 features, but BaggingClassifier"),
    "voting": (KINDS["voting"], r"member \d \(\w+\) refuses X: X has 3 features"),
    "pipeline": (KINDS["pipeline"], r"refuses X: X has 3 features, but StandardScaler"),
    "calibration": (KINDS["calibration"], r"refuses X: X has 3 features"),
    "bootstrap": (KINDS["bootstrap"], r"member \d \(GaussianNB\) refuses X: X has 3 features"),
}


@pytest.mark.parametrize("kind", WHO_REFUSES)
def test_a_wrong_width_is_refused_and_who_refuses_is_named(kind):
    make, message = WHO_REFUSES[kind]
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(make().fit(IRIS, SPECIES), IRIS[:, :3])


def test_the_first_member_that_is_wrong_is_named_whoever_answers_first():
    def slowly(X: Any) -> np.ndarray:
        time.sleep(0.1)
        return np.full((len(X), 3), np.nan)

    wrong = [Says(slowly).fit(), *(Says(always(1.0, 1.0, 1.0)).fit() for _ in range(7))]
    try:
        sw.set_num_threads(4)
        with pytest.raises(sw.InvalidInput, match=r"member 0 \(Says\) returns nan for row 0"):
            sw.predict_samples(wrong, IRIS)
    finally:
        sw.set_num_threads(None)


def test_the_member_of_another_width_is_named():
    narrow = GaussianNB().fit(IRIS[:, :2], SPECIES)
    with pytest.raises(sw.InvalidInput, match=r"member 1 \(GaussianNB\) refuses X: X has 4 feat"):
        sw.predict_samples([model_on(SPECIES), narrow], IRIS)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (None, "X has no rows"),
        (3.0, "X has no rows"),
        (IRIS[0], "refuses X: Expected 2D array, got 1D"),
        (IRIS[None], "refuses X: Found array with dim 3"),
        (NAMES, "refuses X: could not convert string to float"),
        (np.full((2, 4), np.inf), "refuses X: Input X contains infinity"),
    ],
)
@pytest.mark.parametrize("batch_size", [None, 1])
def test_what_is_no_table_of_numbers_is_refused(X, message, batch_size):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(fitted("forest"), X, batch_size=batch_size)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cpu"}, "device= is for torch models"),
        ({"dropout": "last"}, "dropout= is for a torch module"),
        ({"output": "probs"}, "output= is for torch modules"),
        (
            {"n_samples": 6},
            "n_samples=6, but the model has 5 members; pass n_samples=None for all of them",
        ),
        ({"n_samples": 0}, "n_samples must be a whole number from 1 on, not 0"),
        ({"n_samples": 2.5}, "n_samples must be a whole number from 1 on, not 2.5"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1 on, not 0"),
        ({"batch_size": 2.0}, "batch_size must be a whole number"),
        ({"random_state": -1}, "random_state must be a whole number from 0 on, not -1"),
        ({"random_state": "seed"}, "random_state must be a whole number"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(fitted("forest"), IRIS, **options)


def test_a_calibration_around_a_calibration_has_all_members():
    inner = CalibratedClassifierCV(forest(3), cv=2)
    model = CalibratedClassifierCV(inner, cv=2).fit(IRIS, SPECIES)
    for n in (1, 2, 7):
        samples = sw.predict_samples(model, IRIS[:n])
        assert samples.probs.shape == (n, 2 * 2 * 3, 3)
    outer = model.calibrated_classifiers_[1]
    middle = outer.estimator.calibrated_classifiers_[0]
    tree = middle.estimator.estimators_[2]
    stand_in = _Answers(tree.predict_proba(IRIS.astype(np.float32)), middle.estimator.classes_)
    bent = copy.copy(middle)
    bent.estimator = stand_in
    again = copy.copy(outer)
    again.estimator = _Answers(bent.predict_proba(IRIS), outer.estimator.classes_)
    expected = again.predict_proba(IRIS)
    found = sw.predict_samples(model, IRIS).probs[:, 2 * 3 + 2]
    np.testing.assert_allclose(found, expected, atol=1e-12)


class _Answers(ClassifierMixin, BaseEstimator):
    def __init__(self, probs: np.ndarray, classes_: np.ndarray) -> None:
        self.probs, self.classes_ = probs, classes_

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.probs
