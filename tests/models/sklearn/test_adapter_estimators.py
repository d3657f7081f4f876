"""Pipelines, searches, frozen estimators, thresholds and held-out rows around an ensemble."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scorewise as sw
from classifier_support import IRIS, NAMES, SPECIES, digits, forest, stacked
from scorewise.models import known_classes

TEXTS = ["red apple", "green apple", "red car", "fast car", "slow train", "fast train"] * 4


IS_VIRGINICA = NAMES == "virginica"


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


THRESHOLDS = [
    lambda model: FixedThresholdClassifier(model, threshold=0.9),
    lambda model: TunedThresholdClassifierCV(model, cv=2, random_state=0),
]


@pytest.mark.parametrize("wrap", THRESHOLDS)
def test_a_threshold_changes_labels_but_no_member(wrap):
    model = wrap(forest(max_depth=2)).fit(IRIS, IS_VIRGINICA)
    samples = sw.predict_samples(model, IRIS)
    np.testing.assert_array_equal(samples.probs, stacked(model.estimator_.estimators_, IRIS))
    np.testing.assert_allclose(samples.probs.mean(axis=1), model.predict_proba(IRIS), atol=1e-12)
    np.testing.assert_array_equal(known_classes(model), [False, True])


@pytest.mark.parametrize("wrap", THRESHOLDS)
def test_a_threshold_may_sit_around_a_fitted_model(wrap):
    model = forest().fit(IRIS, IS_VIRGINICA)
    expected = stacked(model.estimators_, IRIS)
    np.testing.assert_array_equal(sw.predict_samples(wrap(model), IRIS).probs, expected)


def test_a_threshold_around_one_classifier_has_no_members():
    model = FixedThresholdClassifier(GaussianNB()).fit(IRIS, IS_VIRGINICA)
    with pytest.raises(sw.InvalidInput, match="FixedThresholdClassifier has no members"):
        sw.predict_samples(model, IRIS)


HELD_OUT = [
    lambda model: sw.SelectiveClassifier(model, max_loss=0.5, random_state=0),
    lambda model: sw.OODDetector(model, component="total", random_state=0),
]


@pytest.mark.parametrize("wrap", HELD_OUT)
def test_a_classifier_with_held_out_rows_has_the_members_of_its_model(wrap):
    model = wrap(forest()).fit(IRIS, NAMES)
    samples = sw.predict_samples(model, IRIS)
    np.testing.assert_array_equal(samples.probs, stacked(model.estimator_.estimators_, IRIS))
    np.testing.assert_allclose(samples.probs.mean(axis=1), model.predict_proba(IRIS), atol=1e-12)


@pytest.mark.parametrize("wrap", HELD_OUT)
@pytest.mark.parametrize("batch_size", [None, 7])
def test_classes_of_held_out_rows_alone_have_probability_0_in_all_members(wrap, batch_size):
    only_one_row = np.where(np.arange(len(SPECIES)) == 5, "held out", NAMES)
    frozen = forest().fit(np.delete(IRIS, 5, axis=0), np.delete(NAMES, 5))
    model = wrap(FrozenEstimator(frozen)).fit(IRIS, only_one_row)
    assert model.classes_.tolist() == ["held out", "setosa", "versicolor", "virginica"]
    samples = sw.predict_samples(model, IRIS, batch_size=batch_size)
    assert (samples.probs[..., 0] == 0).all()
    np.testing.assert_array_equal(samples.probs[..., 1:], stacked(frozen.estimators_, IRIS))


@pytest.mark.parametrize("wrap", HELD_OUT)
def test_one_classifier_with_held_out_rows_has_no_members(wrap):
    model = wrap(GaussianNB()).fit(IRIS, SPECIES)
    with pytest.raises(sw.InvalidInput, match=f"{type(model).__name__} has no members"):
        sw.predict_samples(model, IRIS)


@pytest.mark.parametrize("wrap", [*THRESHOLDS, *HELD_OUT])
@pytest.mark.parametrize(
    "around",
    [
        lambda model: make_pipeline(StandardScaler(), model),
        lambda model: GridSearchCV(model, {"estimator__max_depth": [2]}, cv=2),
        lambda model: FrozenEstimator(model.fit(IRIS, IS_VIRGINICA)),
        lambda model: FixedThresholdClassifier(model, threshold=0.2),
        lambda model: CalibratedClassifierCV(model, cv=2, ensemble=False),
    ],
    ids=["pipeline", "search", "frozen", "threshold", "calibration"],
)
def test_thresholds_and_held_out_rows_may_be_inside_other_models(wrap, around):
    model = around(wrap(forest())).fit(IRIS, IS_VIRGINICA)
    samples = sw.predict_samples(model, IRIS)
    assert samples.probs.shape == (150, 5, 2)
    if not isinstance(model, CalibratedClassifierCV):  # the calibration is of the mean
        mean = samples.probs.mean(axis=1)
        np.testing.assert_allclose(mean, model.predict_proba(IRIS), atol=1e-12)


@pytest.mark.parametrize("wrap", HELD_OUT)
@pytest.mark.parametrize("around", HELD_OUT)
def test_models_with_held_out_rows_may_be_inside_one_another(wrap, around):
    model = around(wrap(forest())).fit(IRIS, IS_VIRGINICA)
    mean = sw.predict_samples(model, IRIS).probs.mean(axis=1)
    np.testing.assert_allclose(mean, model.predict_proba(IRIS), atol=1e-12)


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
