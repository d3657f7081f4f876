"""Pipelines, searches and frozen estimators around an ensemble."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scorewise as sw
from classifier_support import IRIS, NAMES, SPECIES, digits, forest, stacked
from scorewise.models import known_classes

TEXTS = ["red apple", "green apple", "red car", "fast car", "slow train", "fast train"] * 4


TOPICS = ["fruit", "fruit", "road", "road", "rail", "rail"] * 4


def test_a_pipeline_transforms_rows_for_its_members():
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
def test_a_search_has_the_members_of_its_best_pipeline(search):
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
def test_a_frozen_model_has_the_members_of_the_model_inside(wrap):
    model = forest().fit(IRIS, SPECIES)
    np.testing.assert_array_equal(
        sw.predict_samples(wrap(model), IRIS).probs, stacked(model.estimators_, IRIS)
    )


def test_a_torch_module_may_end_a_pipeline():
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    scaler = StandardScaler().fit(IRIS)
    pipeline = make_pipeline(scaler, net)
    options = {"random_state": 0, "dropout": "last", "device": "cpu"}
    expected = sw.predict_samples(net, scaler.transform(IRIS), 30, **options).probs
    for batch_size in (None, 7):
        samples = sw.predict_samples(pipeline, IRIS, 30, batch_size=batch_size, **options)
        np.testing.assert_allclose(samples.probs, expected, atol=1e-6)


def test_a_deep_ensemble_is_fitted_and_sampled_within_a_pipeline():
    import torch

    deep = sw.DeepEnsemble(lambda: torch.nn.Linear(4, 3), 2, epochs=2, random_state=0)
    pipeline = make_pipeline(StandardScaler(), deep).fit(IRIS, NAMES)
    expected = deep.predict_samples(pipeline[0].transform(IRIS)).probs
    np.testing.assert_allclose(sw.predict_samples(pipeline, IRIS).probs, expected, atol=1e-6)
    np.testing.assert_array_equal(known_classes(pipeline), np.unique(NAMES))
