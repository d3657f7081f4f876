"""Forests, bagging, soft voting and lists: each column is what that member returns by itself."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import scorewise as sw
from classifier_support import (
    IRIS,
    NAMES,
    SPECIES,
    Says,
    columns_of,
    digits,
    fitted,
    forest,
    model_on,
    stacked,
)


@cache
def wine() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


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
def test_soft_voting_has_the_weights_of_members_that_were_not_dropped(labels):
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


def test_voting_without_weights_has_equal_members():
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
def test_voting_takes_members_that_were_fitted_before(labels):
    frozen = FrozenEstimator(GaussianNB().fit(IRIS, labels))
    voting = VotingClassifier([("a", frozen), ("b", forest())], voting="soft").fit(IRIS, labels)
    samples = sw.predict_samples(voting, IRIS)
    np.testing.assert_array_equal(samples.probs, stacked(voting.estimators_, IRIS))


def test_a_list_is_aligned_to_the_classes_of_the_member_with_most():
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


def test_tables_with_named_columns_are_rows():
    names = ["a", "b", "c", "d"]
    table = pa.table({name: IRIS[:, i] for i, name in enumerate(names)})
    model = forest().fit(table, SPECIES)
    expected = stacked(model.estimators_, IRIS)
    for batch_size in (None, 7):
        samples = sw.predict_samples(model, table, batch_size=batch_size)
        np.testing.assert_array_equal(samples.probs, expected)
    with pytest.raises(sw.InvalidInput, match=r"(?s)fails on X: The feature names should match"):
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
def test_lists_and_other_memory_layouts_are_rows(convert):
    model = forest().fit(IRIS, SPECIES)
    X = convert(IRIS)
    expected = stacked(model.estimators_, X)
    for batch_size in (None, 11):
        samples = sw.predict_samples(model, X, batch_size=batch_size)
        np.testing.assert_array_equal(samples.probs, expected)


@pytest.mark.parametrize("make", [GaussianNB, lambda: make_pipeline(StandardScaler(), forest())])
def test_an_unfitted_member_of_a_list_is_named(make):
    model = make()
    name = type(model).__name__
    with pytest.raises(sw.InvalidInput, match=rf"member 1 \({name}\) is not fitted; call its fit"):
        sw.predict_samples([GaussianNB().fit(IRIS, SPECIES), model], IRIS)


def test_a_list_of_classifiers_and_modules_is_refused():
    import torch

    with pytest.raises(sw.InvalidInput, match=r"member 1 \(Linear\)") as error:
        sw.predict_samples([model_on(SPECIES), torch.nn.Linear(4, 3)], IRIS)
    assert "no torch module" not in str(error.value), "it is one"
