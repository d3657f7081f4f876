"""Calibrations around an ensemble: each member is calibrated as its fold was."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import scorewise as sw
from classifier_support import IRIS, NAMES, SPECIES, bagged_lines, forest

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
    probs = sw.predict_samples(model, IRIS).probs[:, 2 * 3 + 2]
    np.testing.assert_allclose(probs, expected, atol=1e-12)


class _Answers(ClassifierMixin, BaseEstimator):
    def __init__(self, probs: np.ndarray, classes_: np.ndarray) -> None:
        self.probs, self.classes_ = probs, classes_

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.probs
