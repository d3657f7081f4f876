"""Samples of multi-label models: one problem of two classes per label."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scorewise as sw

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 4))
Y = (X[:, :3] + 0.5 * RNG.normal(size=(80, 3)) > 0).astype(int)
CONSTANT = np.c_[Y[:, :2], np.ones(80, dtype=int)]  # a label that all rows have

FOREST = RandomForestClassifier(7, min_samples_leaf=3, random_state=0)
ENSEMBLE = sw.BootstrapEnsemble(GaussianNB(), 4, random_state=0)
MODELS = [
    FOREST,
    ExtraTreesClassifier(5, min_samples_leaf=3, random_state=0),
    MultiOutputClassifier(FOREST),
    MultiOutputClassifier(ENSEMBLE),
    OneVsRestClassifier(FOREST),
    make_pipeline(StandardScaler(), MultiOutputClassifier(FOREST)),
]


def positives(model, rows=X) -> np.ndarray:
    """The probabilities (n, L) of class 1, of all kinds of multi-label models."""
    probs = model.predict_proba(rows)
    if not isinstance(probs, list):
        return probs
    classes = model.classes_
    return np.stack([p[:, list(c).index(1)] for p, c in zip(probs, classes, strict=True)], axis=1)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_the_mean_of_the_members_is_the_models_own_probability(model):
    fitted = clone(model).fit(X, Y)
    samples = sw.predict_samples(fitted, X)
    assert samples.shape[:2] == (80, 3)
    assert samples.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(samples.mean[..., 1], positives(fitted))


def test_members_of_a_forest_are_its_trees():
    forest = clone(FOREST).fit(X, Y)
    samples = sw.predict_samples(forest, X)
    for m, tree in enumerate(forest.estimators_):
        expected = np.stack(tree.predict_proba(X), axis=1)
        np.testing.assert_array_equal(samples.probs[:, :, m], expected)


@pytest.mark.parametrize("model", [FOREST, MultiOutputClassifier(FOREST)])
@pytest.mark.filterwarnings("ignore:Label not")
def test_a_label_that_is_the_same_in_all_rows_is_certain(model):
    samples = sw.predict_samples(clone(model).fit(X, CONSTANT), X)
    assert (samples.probs[:, 2] == [0, 1]).all()
    assert samples.classes_.tolist() == [0, 1]


def test_a_constant_label_of_one_vs_rest_is_certain():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sklearn warns of it
        model = OneVsRestClassifier(FOREST).fit(X, CONSTANT)
    assert (sw.predict_samples(model, X).probs[:, 2] == [0, 1]).all()


def test_each_model_of_a_list_is_a_member():
    models = [
        *(ClassifierChain(LogisticRegression(), order="random", random_state=i) for i in range(2)),
        KNeighborsClassifier(7),
        OneVsRestClassifier(LogisticRegression()),
        MLPClassifier((4,), max_iter=5, random_state=0),
        clone(FOREST),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the network has not converged
        fitted = [model.fit(X, Y) for model in models]
    samples = sw.predict_samples(fitted, X)
    for m, model in enumerate(fitted):
        np.testing.assert_allclose(samples.probs[:, :, m, 1], positives(model), atol=1e-15)


def test_rows_do_not_depend_on_batches_and_subsets_are_seeded(tmp_path):
    forest = clone(FOREST).fit(X, Y)
    samples = sw.predict_samples(forest, X)
    np.testing.assert_array_equal(sw.predict_samples(forest, X, batch_size=7).probs, samples.probs)
    few = sw.predict_samples(forest, X, n_samples=3, random_state=1)
    assert few.shape == (80, 3, 3, 2)
    for _ in range(2):  # the second replaces the first
        on_disk = sw.predict_samples(forest, X, out=tmp_path / "members.npy")
    np.testing.assert_array_equal(on_disk.probs, samples.probs)
    assert sw.predict_samples(forest, X[:0]).shape == (0, 3, 7, 2)


def test_labels_are_named_and_decomposed_one_by_one_or_together():
    samples = sw.predict_samples(clone(FOREST).fit(X, Y), X)
    by_label = sw.by_label(samples, ["sports", "politics", "science"])
    together = sw.decompose(samples, "log").epistemic
    for j, of_label in enumerate(by_label.values()):
        np.testing.assert_allclose(together[:, j], sw.decompose(of_label, "log").epistemic)
    policy = sw.certify(by_label["politics"], Y[:, 1], max_loss=0.3)
    assert policy.apply(by_label["politics"]).accepted.shape == (80,)


TERNARY = np.c_[Y[:, 0], Y[:, 1] + Y[:, 2]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: clone(FOREST).fit(X, TERNARY),
            r"output 0 of RandomForestClassifier has the classes \[0, 1\], .* fit a model for each",
        ),
        (lambda: clone(FOREST).fit(X, 0 * Y), "nothing is uncertain"),
        (
            lambda: MultiOutputClassifier(LogisticRegression()).fit(X, Y),
            "MultiOutputClassifier predicts several outputs; .*BootstrapEnsemble makes one",
        ),
        (lambda: ClassifierChain(FOREST).fit(X, Y), "lists of multi-label models"),
        (lambda: MultiOutputClassifier(FOREST), "MultiOutputClassifier is not fitted"),
        (
            lambda: [clone(FOREST).fit(X, Y), GaussianNB().fit(X, Y[:, 0])],
            r"member 1 \(GaussianNB\) predicts one label per row, and another member several",
        ),
        (
            lambda: [clone(FOREST).fit(X, Y), clone(FOREST).fit(X, Y[:, :2])],
            r"member 1 \(RandomForestClassifier\) has 2 labels .* 3 with",
        ),
        (
            lambda: [clone(FOREST).fit(X, Y), clone(FOREST).fit(X, 2 * Y)],
            r"member 1 \(RandomForestClassifier\) has 3 labels with the classes \[0, 2\]",
        ),
        (
            lambda: [MultiOutputClassifier(GaussianNB())],
            r"member 0 \(MultiOutputClassifier\) is not fitted",
        ),
    ],
)
def test_what_is_no_multi_label_model_with_members_is_refused(make, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(make(), X)


def test_members_are_as_many_for_each_label():
    model = MultiOutputClassifier(FOREST).fit(X, Y)
    model.estimators_[1] = RandomForestClassifier(3, random_state=0).fit(X, Y[:, 1])
    with pytest.raises(sw.InvalidInput, match=r"have \[3, 7\] members"):
        sw.predict_samples(model, X)


def test_a_member_without_probabilities_is_named_with_row_and_label():
    class Broken(KNeighborsClassifier):
        def predict_proba(self, rows):
            probs = super().predict_proba(rows)
            probs[1][5] = [0.5, 0.6]
            return probs

    with pytest.raises(sw.InvalidInput, match=r"member 0 \(Broken\) .*for row 5, label 1 that sum"):
        sw.predict_samples([Broken().fit(X, Y), clone(FOREST).fit(X, Y)], X)


@pytest.mark.parametrize("make", [sw.BootstrapEnsemble, sw.SelectiveClassifier])
def test_what_needs_one_label_per_row_says_what_takes_several(make):
    with pytest.raises(sw.InvalidInput, match=r"not supported here.*scorewise\.by_label"):
        make(RandomForestClassifier(3)).fit(X, Y)
