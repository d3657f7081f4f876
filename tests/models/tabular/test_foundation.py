"""TabPFN and TabICL: the estimators of their ensembles are members.

Tests download no weights, so stand-ins have the interface of the packages: of tabpfn 9.2.0
and of tabicl 2.2.0. Both were compared with the packages themselves, on random weights;
``test_tabicl.py`` does so for TabICL.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scorewise as sw
from classifier_support import IRIS, NAMES
from support import softmax

TEMPERATURE = 0.9


class TabPFNClassifier(ClassifierMixin, BaseEstimator):
    """The public interface of tabpfn 9.2.0, with linear maps for estimators."""

    def __init__(
        self,
        n_estimators: Any = "auto",
        average_before_softmax: bool = False,
        balance_probabilities: bool = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.average_before_softmax = average_before_softmax
        self.balance_probabilities = balance_probabilities

    def fit(self, X: Any, y: Any) -> TabPFNClassifier:
        self.n_estimators_ = 8 if self.n_estimators == "auto" else self.n_estimators
        self.classes_, self.class_counts_ = np.unique(y, return_counts=True)
        shape = (self.n_estimators_, X.shape[1], len(self.classes_))
        self.maps_ = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        return self

    def predict_raw_logits(self, X: Any) -> np.ndarray:
        return np.stack([np.asarray(X, np.float32) @ each for each in self.maps_])

    def logits_to_probabilities(self, raw_logits: np.ndarray) -> np.ndarray:
        logits = raw_logits / TEMPERATURE
        if logits.ndim == 3:
            before = self.average_before_softmax
            probs = softmax(logits.mean(axis=0)) if before else softmax(logits).mean(axis=0)
        else:
            probs = softmax(logits)
        if self.balance_probabilities:
            probs = probs / self.class_counts_
        return probs / probs.sum(axis=-1, keepdims=True)

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.logits_to_probabilities(self.predict_raw_logits(X))


class EnsembleGenerator:
    """That of tabicl 2.2.0: two normalisations, with some orders of features and classes each."""

    def __init__(self, n_features: int, n_classes: int, n_estimators: int) -> None:
        rng = np.random.default_rng(0)
        methods = {"none": (n_estimators + 1) // 2, "power": n_estimators // 2}
        methods = {method: n for method, n in methods.items() if n}
        self.feature_shuffles_ = {
            method: [rng.permutation(n_features).tolist() for _ in range(n)]
            for method, n in methods.items()
        }
        self.class_shuffles_ = {
            method: [rng.permutation(n_classes).tolist() for _ in range(n)]
            for method, n in methods.items()
        }
        self.ensemble_configs_ = {
            method: list(zip(shuffles, self.class_shuffles_[method], strict=True))
            for method, shuffles in self.feature_shuffles_.items()
        }

    def transform(self, X: np.ndarray) -> dict[str, np.ndarray]:
        return {
            method: np.stack([(X if method == "none" else np.sqrt(X))[:, f] for f, _ in configs])
            for method, configs in self.ensemble_configs_.items()
        }


class Cache:
    """A TabICLCache: what is kept of the training rows, for each estimator of a normalisation."""

    def __init__(self, shifts: np.ndarray) -> None:
        self.shifts = shifts

    def slice_batch(self, start: int, end: int) -> Cache:
        return Cache(self.shifts[start:end])


class TabICLClassifier(ClassifierMixin, BaseEstimator):
    """The public interface of tabicl 2.2.0, with one linear map as the network."""

    def __init__(
        self, n_estimators: int = 8, average_logits: bool = True, kv_cache: bool = False
    ) -> None:
        self.n_estimators = n_estimators
        self.average_logits = average_logits
        self.kv_cache = kv_cache

    def fit(self, X: Any, y: Any) -> TabICLClassifier:
        self.classes_ = np.unique(y)
        n_features, n_classes = X.shape[1], len(self.classes_)
        self.model_ = np.random.default_rng(1).normal(size=(n_features, n_classes))
        self.ensemble_generator_ = EnsembleGenerator(n_features, n_classes, self.n_estimators)
        shuffles = self.ensemble_generator_.class_shuffles_
        self.model_kv_cache_ = None
        if self.kv_cache:
            self.model_kv_cache_ = {m: Cache(np.arange(len(s)) / 9.0) for m, s in shuffles.items()}
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        outputs, class_shuffles = [], []
        for method, views in self.ensemble_generator_.transform(np.asarray(X)).items():
            logits = np.tanh(views) @ self.model_
            if self.model_kv_cache_ is not None:
                shifts = self.model_kv_cache_[method].shifts
                assert len(shifts) == len(views)
                logits[..., 0] += shifts[:, None]
            outputs.extend(logits if self.average_logits else softmax(logits / TEMPERATURE))
        for shuffles in self.ensemble_generator_.class_shuffles_.values():
            class_shuffles.extend(shuffles)
        pairs = zip(outputs, class_shuffles, strict=True)
        mean = np.mean([output[:, shuffle] for output, shuffle in pairs], axis=0)
        return softmax(mean / TEMPERATURE) if self.average_logits else mean


@pytest.fixture(autouse=True)
def _packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (TabPFNClassifier, TabICLClassifier):
        package = ModuleType(kind.__name__.removesuffix("Classifier").lower())
        setattr(package, kind.__name__, kind)
        monkeypatch.setitem(sys.modules, package.__name__, package)


MEAN_IS_PREDICTION = [
    TabPFNClassifier(),
    TabPFNClassifier(3),
    TabPFNClassifier(1),
    TabICLClassifier(average_logits=False),
    TabICLClassifier(5, average_logits=False),
    TabICLClassifier(1, average_logits=False),
    TabICLClassifier(5, average_logits=False, kv_cache=True),
]
MEAN_IS_NOT = [
    (TabPFNClassifier(average_before_softmax=True), "because of average_before_softmax"),
    (TabPFNClassifier(balance_probabilities=True), "because of balance_probabilities"),
    (TabICLClassifier(), "which averages logits"),
]


@pytest.mark.parametrize("model", MEAN_IS_PREDICTION)
def test_members_are_the_estimators_and_their_mean_is_the_prediction(model):
    model.fit(IRIS, NAMES)
    samples = sw.predict_samples(model, IRIS)
    n_estimators = 8 if model.n_estimators == "auto" else model.n_estimators
    assert samples.shape == (150, n_estimators, 3)
    assert samples.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    np.testing.assert_allclose(samples.mean, model.predict_proba(IRIS), atol=1e-6)
    by_batches = sw.predict_samples(model, IRIS, batch_size=7).probs
    np.testing.assert_allclose(by_batches, samples.probs, atol=1e-6)
    explanation = sw.explain_model(model)
    assert explanation.n_members == n_estimators
    assert explanation.reason.endswith("their mean is predict_proba")


@pytest.mark.parametrize(("model", "reason"), MEAN_IS_NOT)
def test_where_the_library_averages_otherwise_the_explanation_says_so(model, reason):
    model.fit(IRIS, np.where(np.arange(150) < 20, "virginica", NAMES))
    samples = sw.predict_samples(model, IRIS)
    assert np.abs(samples.mean - model.predict_proba(IRIS)).max() > 0.01
    assert reason in sw.explain_model(model).reason


def test_members_of_tabpfn_have_its_temperature_and_balance():
    model = TabPFNClassifier(3, balance_probabilities=True).fit(IRIS[:120], NAMES[:120])
    probs = softmax(model.predict_raw_logits(IRIS) / TEMPERATURE) / model.class_counts_
    expected = (probs / probs.sum(axis=-1, keepdims=True)).swapaxes(0, 1)
    np.testing.assert_allclose(sw.predict_samples(model, IRIS).probs, expected, rtol=1e-5)


@pytest.mark.parametrize("make", [TabPFNClassifier, TabICLClassifier])
def test_they_may_be_in_a_pipeline_and_sampled_in_part(make):
    model = make_pipeline(StandardScaler(with_mean=False), make(4)).fit(IRIS, NAMES)
    rows = model[0].transform(IRIS)
    whole = sw.predict_samples(model[-1], rows).probs
    np.testing.assert_array_equal(sw.predict_samples(model, IRIS).probs, whole)
    some = sw.predict_samples(model, IRIS, 2, random_state=0).probs
    places = [np.flatnonzero((whole == some[:, [m]]).all(axis=(0, 2))) for m in range(2)]
    assert all(len(place) == 1 for place in places)
    assert model[-1].predict_proba(rows).shape == (150, 3)  # the model is as it was
    with pytest.raises(sw.InvalidInput, match="has 4 members"):
        sw.predict_samples(model, IRIS, 5)


def test_versions_without_this_interface_are_named(monkeypatch: pytest.MonkeyPatch):
    tabicl = TabICLClassifier().fit(IRIS, NAMES)
    del tabicl.ensemble_generator_.class_shuffles_
    with pytest.raises(sw.InvalidInput, match=r"this version of tabicl .* use 2\.0 or later"):
        sw.predict_samples(tabicl, IRIS)
    tabpfn = TabPFNClassifier().fit(IRIS, NAMES)
    monkeypatch.delattr(TabPFNClassifier, "predict_raw_logits")
    with pytest.raises(sw.InvalidInput, match=r"this version of tabpfn .* use 6\.0 or later"):
        sw.predict_samples(tabpfn, IRIS)
    with pytest.raises(sw.InvalidInput, match="TabICLClassifier is not fitted"):
        sw.predict_samples(TabICLClassifier(), IRIS)
