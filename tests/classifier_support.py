"""Classifiers of scikit-learn that several test files share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scorewise as sw

IRIS, SPECIES = load_iris(return_X_y=True)


NAMES = load_iris().target_names[SPECIES]


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:400], y[:400]


def stacked(members: Any, X: Any) -> np.ndarray:
    """What each of them says by itself."""
    return np.stack([member.predict_proba(X) for member in members], axis=1)


def forest(n: int = 5, **options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(n, random_state=0, **options)


def bagged_lines(**options: Any) -> BaggingClassifier:
    lines = LogisticRegression(max_iter=1000)
    return BaggingClassifier(lines, 3, max_features=0.75, random_state=0, **options)


class Says(ClassifierMixin, BaseEstimator):
    """A classifier that returns what a function returns."""

    def __init__(self, answer: Any, classes: Any = (0, 1, 2)) -> None:
        self.answer = answer
        self.classes = classes

    def fit(self, X: Any = None, y: Any = None) -> Says:
        self.classes_ = np.asarray(self.classes)
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.answer(X)


KINDS = {
    "forest": lambda: forest(),
    "bagging": lambda: BaggingClassifier(GaussianNB(), 3, random_state=0),
    "voting": lambda: VotingClassifier([("a", GaussianNB()), ("b", forest())], voting="soft"),
    "pipeline": lambda: make_pipeline(StandardScaler(), forest()),
    "calibration": lambda: CalibratedClassifierCV(forest(3), method="isotonic", cv=2),
    "search": lambda: GridSearchCV(forest(), {"max_depth": [1]}, cv=2),
    "bootstrap": lambda: sw.BootstrapEnsemble(GaussianNB(), 3, random_state=0),
    "selective": lambda: sw.SelectiveClassifier(forest(), max_loss=0.5, random_state=0),
    "detector": lambda: sw.OODDetector(forest(), random_state=0),
}


@cache
def fitted(kind: str) -> Any:
    return KINDS[kind]().fit(IRIS, SPECIES)


def columns_of(some: np.ndarray, full: np.ndarray) -> list[int]:
    """Which members these are; each must be exactly one of them."""
    matches = [
        np.flatnonzero((full == some[:, [m]]).all(axis=(0, 2))) for m in range(some.shape[1])
    ]
    assert all(len(places) == 1 for places in matches)
    return [int(places[0]) for places in matches]


def model_on(y: Any, rows: Any = slice(None)) -> GaussianNB:
    return GaussianNB().fit(IRIS[rows], np.asarray(y)[rows])
