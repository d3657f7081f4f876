"""What the tests of active learning share; processes that are killed import it too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chisquare
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import scorewise as sw
from scorewise.acquire import Round

IRIS, SPECIES = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(150)
X, Y = IRIS[ORDER[:100]], SPECIES[ORDER[:100]]
X_TEST, Y_TEST = IRIS[ORDER[100:]], SPECIES[ORDER[100:]]
COSTS = sw.rules.cost_matrix([[0, 1, 5], [2, 0, 1], [1, 3, 0]])
EXAM = {"X_test": X_TEST, "y_test": Y_TEST}
SHORT = {"initial": 12, "per_round": 8, "budget": 30, "random_state": 0}


def forest(n: int = 5) -> Any:
    return RandomForestClassifier(n, min_samples_leaf=2)


def rounds_of(model: Any = None, X: Any = X, y: Any = Y, **options: Any) -> list[Round]:
    model = forest() if model is None else model
    return list(sw.active_learning(model, X, y, **(SHORT | EXAM | options)))


def assert_same(actual: list[Round], expected: list[Round]) -> None:
    assert len(actual) == len(expected)
    for first, second in zip(actual, expected, strict=True):
        assert (first.index, first.n_labelled, first.loss, first.stop) == (
            second.index,
            second.n_labelled,
            second.loss,
            second.stop,
        )
        np.testing.assert_array_equal(first.rows, second.rows)
        np.testing.assert_array_equal(first.labels, second.labels)
        assert first.labels.dtype.kind == second.labels.dtype.kind
        assert (first.scores is None) == (second.scores is None)
        if first.scores is not None:
            np.testing.assert_array_equal(first.scores, second.scores)


def assert_adds_up(rounds: list[Round], y: Any = Y, sizes: tuple = (12, 8, 8, 2)) -> None:
    rows = np.concatenate([r.rows for r in rounds])
    assert len(set(rows.tolist())) == len(rows), "a row was labelled twice"
    assert [r.index for r in rounds] == list(range(len(rounds)))
    assert tuple(len(r.rows) for r in rounds) == sizes
    assert [r.n_labelled for r in rounds] == np.cumsum(sizes).tolist()
    assert [r.stop for r in rounds] == [None] * (len(rounds) - 1) + ["budget"]
    np.testing.assert_array_equal(np.concatenate([r.labels for r in rounds]), np.asarray(y)[rows])


def assert_drawn_with(chances: np.ndarray, drawn: np.ndarray) -> None:
    """Ordered pairs (or single picks) are as frequent as they should be; none that may not be."""
    counts = np.zeros(chances.shape)
    np.add.at(counts, tuple(drawn.T), 1)
    assert counts[chances == 0].sum() == 0
    possible = chances > 0
    assert chisquare(counts[possible], len(drawn) * chances[possible]).pvalue > 1e-3


class Softmax(ClassifierMixin, BaseEstimator):
    """A few steps of softmax regression, from where another one is."""

    def __init__(self, seed: int, before: Any = None) -> None:
        self.seed, self.before = seed, before

    def fit(self, X: Any, y: Any) -> Softmax:
        self.classes_ = np.arange(3)
        start = np.random.default_rng(self.seed).normal(size=(X.shape[1], 3))
        self.w_ = start if self.before is None else self.before.w_ + 0.1 * start
        for _ in range(20):
            self.w_ = self.w_ - 0.02 * X.T @ (self.predict_proba(X) - np.eye(3)[y]) / len(X)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        e = np.exp(X @ self.w_ - (X @ self.w_).max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)


def train(X: Any, y: Any, seed: int, previous: Any = (None, None)) -> list[Any]:
    return [Softmax(seed + i, before).fit(X, y) for i, before in enumerate(previous)]


def at(moment: str, callback: Any) -> Any:
    """A ``train`` that calls a function at a named moment of round 2, after 20 labels."""

    class Watched(Softmax):
        def predict_proba(self, X: Any) -> np.ndarray:
            if hasattr(self, "n_") and (self.n_, len(X)) == {
                "choosing": (20, len(Y) - 20),
                "judging": (28, len(Y_TEST)),
            }.get(moment):
                callback()
            return super().predict_proba(X)

    def watched(X: Any, y: Any, seed: int, previous: Any = (None, None)) -> list[Any]:
        if (len(X), moment) == (28, "fitting"):
            callback()
        models = [Watched(seed + i, before).fit(X, y) for i, before in enumerate(previous)]
        for model in models:
            model.n_ = len(X)
        return models

    watched.__qualname__ = "train"
    return watched


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
