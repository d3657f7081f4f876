"""Members of one boosted model: what they are made of, in every library, and where they work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scorewise as sw
from boosting_support import (
    CLASSIFIERS,
    N_ITERATIONS,
    TABLES,
    extreme_booster,
    fitted_boosting,
    gradient,
    light_booster,
    native_cat,
)
from classifier_support import IRIS, NAMES, SPECIES
from scorewise.models import known_classes

TRUNCATED = [kind for kind in CLASSIFIERS if kind != "CatBoost, posterior sampling"]

# What a model predicts after some iterations, by the interface of each library.
AFTER: dict[str, Callable[[Any, Any, int], np.ndarray]] = {
    "LightGBM": lambda model, X, n: model.predict_proba(X, num_iteration=n),
    "XGBoost": lambda model, X, n: model.predict_proba(X, iteration_range=(0, n)),
    "CatBoost": lambda model, X, n: model.predict_proba(X, ntree_end=n),
    "HistGradientBoosting": lambda model, X, n: list(model.staged_predict_proba(X))[n - 1],
    "GradientBoosting": lambda model, X, n: list(model.staged_predict_proba(X))[n - 1],
}


def scores_of(probs: np.ndarray) -> np.ndarray:
    """Logarithms, less their mean over the classes: scores up to a constant of the row."""
    logs = np.log(np.asarray(probs, dtype=np.float64))
    return logs - logs.mean(axis=-1, keepdims=True)


def counts_of(members: np.ndarray, stages: Sequence[np.ndarray]) -> np.ndarray:
    """How often each member (columns) has each segment, from the predictions at its ends."""
    segments = np.diff([scores_of(stage).ravel() for stage in stages], axis=0, prepend=0).T
    targets = np.stack([scores_of(member).ravel() for member in np.moveaxis(members, 1, 0)], axis=1)
    counts, *_ = np.linalg.lstsq(segments, targets)
    np.testing.assert_allclose(segments @ counts, targets, atol=1e-5)
    np.testing.assert_allclose(counts, counts.round(), atol=0.05)
    return counts.round().astype(int)


@pytest.mark.parametrize("kind", TRUNCATED)
@pytest.mark.parametrize("table", TABLES)
def test_a_member_stops_in_the_second_half_and_has_a_bootstrap_of_what_is_before(kind, table):
    model, (X, _) = fitted_boosting(kind, table), TABLES[table]
    members = sw.predict_samples(model, X, 10, random_state=0).probs
    counts = counts_of(members, [AFTER[kind](model, X, n) for n in range(1, N_ITERATIONS + 1)])
    stops = np.arange(20, 10, -1)
    np.testing.assert_array_equal(counts[0], 1)
    np.testing.assert_array_equal(counts.sum(axis=0), stops)
    assert (counts >= 0).all()
    assert (counts.max(axis=0) > 1).all()
    for column, stop in zip(counts.T, stops, strict=True):
        assert not column[stop:].any()


def test_a_long_sequence_has_fifty_segments():
    X, y = TABLES["two classes"]
    model = gradient(n_estimators=100).fit(X, y)
    members = sw.predict_samples(model, X, 5, random_state=0).probs
    counts = counts_of(members, list(model.staged_predict_proba(X))[1::2])
    np.testing.assert_array_equal(counts[0], 1)
    np.testing.assert_array_equal(counts.sum(axis=0), [50, 45, 40, 35, 30])


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_samples_do_not_depend_on_batches_and_leave_the_model_as_it_was(kind):
    model = fitted_boosting(kind)
    before = model.predict_proba(IRIS)
    samples = sw.predict_samples(model, IRIS, random_state=0)
    assert samples.probs.shape == (150, 10 if "posterior" in kind else 20, 3)
    in_batches = sw.predict_samples(model, IRIS, random_state=0, batch_size=7)
    np.testing.assert_allclose(in_batches.probs, samples.probs, rtol=1e-5)
    np.testing.assert_array_equal(model.predict_proba(IRIS), before)
    assert sw.predict_samples(model, IRIS[:0]).probs.shape == (0, *samples.probs.shape[1:])


@pytest.mark.parametrize("kind", TRUNCATED)
def test_the_seed_decides_and_n_samples_is_the_number_of_members(kind):
    model = fitted_boosting(kind)
    first = sw.predict_samples(model, IRIS, 5, random_state=1).probs
    assert first.shape == (150, 5, 3)
    np.testing.assert_array_equal(sw.predict_samples(model, IRIS, 5, random_state=1).probs, first)
    assert (sw.predict_samples(model, IRIS, 5, random_state=2).probs != first).any()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_labels_are_those_of_the_model(kind):
    if kind == "XGBoost":  # takes classes from 0 on only
        assert known_classes(fitted_boosting(kind)).tolist() == [0, 1, 2]
        return
    model = CLASSIFIERS[kind]().fit(IRIS, NAMES)
    samples = sw.predict_samples(model, IRIS)
    np.testing.assert_array_equal(samples.classes_, np.unique(NAMES))
    assert sw.task_losses(samples, NAMES, "zero-one").mean() < 0.1


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_list_of_classifiers_has_each_as_a_member(kind):
    models = [fitted_boosting(kind), CLASSIFIERS[kind]().fit(IRIS[::2], SPECIES[::2])]
    expected = np.stack([model.predict_proba(IRIS) for model in models], axis=1)
    np.testing.assert_allclose(sw.predict_samples(models, IRIS).probs, expected, rtol=1e-6)


FRAME = pd.DataFrame(IRIS, columns=list("abcd")).mask(IRIS.max(axis=0) == IRIS)
FRAME["size"] = pd.cut(IRIS[:, 0], 4, labels=list("wxyz"))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("LightGBM", {}),
        ("XGBoost", {"enable_categorical": True}),
        ("HistGradientBoosting", {"categorical_features": "from_dtype"}),
    ],
)
def test_frames_with_categories_and_missing_values_reach_the_library(kind, settings):
    model = CLASSIFIERS[kind]().set_params(**settings).fit(FRAME, SPECIES)
    samples = sw.predict_samples(model, FRAME, random_state=0, batch_size=40)
    assert np.isnan(FRAME["b"]).any()
    assert sw.task_losses(samples, SPECIES, "zero-one").mean() < 0.1
    moved = FRAME.assign(size=FRAME["size"].cat.set_categories(list("zyxw")))
    np.testing.assert_allclose(
        sw.predict_samples(model, moved, random_state=0).probs, samples.probs, rtol=1e-5
    )


NATIVE: dict[str, Callable[[Any, Any], Any]] = {
    "LightGBM": light_booster,
    "XGBoost": extreme_booster,
    "CatBoost": lambda X, y: native_cat(loss_function="MultiClass").fit(X, y),
}


@pytest.mark.parametrize("kind", NATIVE)
def test_native_models_have_members_alone_and_are_members_of_a_list(kind):
    model, other = NATIVE[kind](IRIS, SPECIES), NATIVE[kind](IRIS[::2], SPECIES[::2])
    samples = sw.predict_samples(model, IRIS, random_state=0)
    assert samples.probs.shape == (150, 20, 3)
    assert sw.task_losses(samples, SPECIES, "zero-one").mean() < 0.1
    together = sw.predict_samples([model, other], IRIS)
    assert together.probs.shape == (150, 2, 3)
    assert sw.predict_samples([model, other, model], IRIS, 2).probs.shape == (150, 2, 3)
    settings = {"prediction_type": "Probability"} if kind == "CatBoost" else {}
    rows = xgboost.DMatrix(IRIS) if kind == "XGBoost" else IRIS
    expected = np.stack([m.predict(rows, **settings) for m in (model, other)], axis=1)
    np.testing.assert_allclose(together.probs, expected, rtol=1e-5)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("kind", ["LightGBM", "XGBoost"])
def test_native_models_without_labels_must_have_as_many_classes(kind, order):
    X, y = TABLES["two classes"]
    make, objective = {
        "LightGBM": (light_booster, {"objective": "binary", "num_class": 1}),
        "XGBoost": (extreme_booster, {"objective": "binary:logistic", "num_class": 0}),
    }[kind]
    models = [make(X, SPECIES), make(X, y, **objective)]
    message = rf"member {order.index(1)} \(Booster\) has 2 classes and another member 3"
    for use in (sw.explain_model, lambda models: sw.predict_samples(models, X)):
        with pytest.raises(sw.InvalidInput, match=message):
            use([models[i] for i in order])


AROUND = {
    "pipeline": lambda model: make_pipeline(StandardScaler(), model),
    "search": lambda model: GridSearchCV(model, {"learning_rate": [0.2]}, cv=2),
    "frozen": lambda model: FrozenEstimator(model.fit(IRIS, SPECIES == 2)),
    "threshold": lambda model: FixedThresholdClassifier(model, threshold=0.9),
    "calibration": lambda model: CalibratedClassifierCV(model, cv=2),
    "selective": lambda model: sw.SelectiveClassifier(model, max_loss=0.5, random_state=0),
    "detector": lambda model: sw.OODDetector(model, random_state=0),
}


@pytest.mark.parametrize("kind", ["LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting"])
@pytest.mark.parametrize("around", AROUND)
def test_members_are_available_inside_other_models(kind, around):
    model = AROUND[around](clone(CLASSIFIERS[kind]())).fit(IRIS, SPECIES == 2)
    samples = sw.predict_samples(model, IRIS, random_state=0)
    assert samples.probs.shape == (150, 40 if around == "calibration" else 20, 2)
    assert sw.decompose(samples, "log").epistemic.max() > 0
    assert sw.task_losses(samples, SPECIES == 2, "zero-one").mean() < 0.15


def test_a_model_of_few_iterations_is_refused():
    with pytest.raises(sw.InvalidInput, match=r"GradientBoostingClassifier has too few.* 9\. Its"):
        sw.predict_samples(gradient(n_estimators=9).fit(IRIS, SPECIES), IRIS)
    samples = sw.predict_samples(gradient(n_estimators=10).fit(IRIS, SPECIES), IRIS)
    assert samples.probs.shape == (150, 20, 3)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_model_that_is_not_fitted_is_refused(kind):
    with pytest.raises(sw.InvalidInput, match="is not fitted"):
        sw.predict_samples(CLASSIFIERS[kind](), IRIS)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_rows_with_too_few_features_are_refused(kind):
    with pytest.raises(sw.InvalidInput, match="the model fails on X"):
        sw.predict_samples(fitted_boosting(kind), IRIS[:, :2])


def test_the_exponential_loss_has_its_own_link():
    model = gradient(loss="exponential").fit(*TABLES["two classes"])
    scores = model.decision_function(IRIS)
    np.testing.assert_allclose(model.predict_proba(IRIS)[:, 1], expit(2 * scores))
    members = sw.predict_samples(model, IRIS, 200, random_state=0).probs[..., 1]
    ratio = logit(members).mean(axis=1) / (2 * scores)
    assert 0.6 < np.median(ratio) < 0.9


def test_a_regressor_is_no_classifier():
    model = HistGradientBoostingRegressor(max_iter=20).fit(IRIS, IRIS[:, 0])
    with pytest.raises(sw.InvalidInput, match="is a regressor"):
        sw.predict_samples(model, IRIS)
