"""Gaussian processes: draws of the latent function, at the same quantile in every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, ndtri
from sklearn.datasets import make_moons
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scorewise as sw
from classifier_support import IRIS, NAMES

MOONS, SIDES = make_moons(80, noise=0.3, random_state=0)
GRID = np.random.default_rng(0).uniform(-6, 6, (200, 2))  # most rows are far from the moons


def process(X: Any = MOONS, y: Any = SIDES, **options: Any) -> GaussianProcessClassifier:
    return GaussianProcessClassifier(1.0 * RBF(1.0), optimizer=None, **options).fit(X, y)


def test_a_member_is_one_quantile_of_the_latent_function_in_every_row():
    model = process()
    mean, variance = model.latent_mean_and_variance(GRID)
    quantiles = ndtri((np.arange(9) + 0.5) / 9)
    expected = expit(mean[:, None] + np.sqrt(variance)[:, None] * quantiles)
    probs = sw.predict_samples(model, GRID, 9, random_state=0).probs[..., 1]
    order = probs[0].argsort()
    np.testing.assert_allclose(probs[:, order], expected, rtol=1e-9)


def test_members_of_several_classes_are_sigmoids_divided_by_their_sum():
    model = process(IRIS[::3], NAMES[::3])
    samples = sw.predict_samples(model, IRIS, 1, random_state=0)  # the medians
    latent = [one.latent_mean_and_variance(IRIS)[0] for one in model.base_estimator_.estimators_]
    sigmoids = expit(np.stack(latent, axis=-1))
    expected = sigmoids / sigmoids.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(samples.probs[:, 0], expected, rtol=1e-9)
    assert samples.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert sw.predict_samples(model, IRIS).shape == (150, 20, 3)


def test_the_mean_of_two_classes_is_close_to_predict_proba():
    model = process()
    for n_samples, tolerance in ((20, 0.01), (200, 0.001)):
        mean = sw.predict_samples(model, GRID, n_samples, random_state=0).mean
        np.testing.assert_allclose(mean, model.predict_proba(GRID), atol=tolerance)


def test_the_mean_of_more_classes_differs_as_each_draw_is_normalised():
    model = process(IRIS[::3], NAMES[::3])
    rows = IRIS[::3] + np.random.default_rng(0).normal(size=IRIS[::3].shape)
    mean = sw.predict_samples(model, rows, 200, random_state=0).mean
    difference = np.abs(mean - model.predict_proba(rows))
    assert 0.001 < difference.max() < 0.1
    assert (mean.argmax(axis=1) == model.predict_proba(rows).argmax(axis=1)).mean() > 0.95


def test_epistemic_uncertainty_grows_away_from_the_training_rows():
    model = process()
    inside, outside = (
        sw.decompose(sw.predict_samples(model, rows, 50, random_state=0), "log").epistemic
        for rows in (MOONS, MOONS + 20)
    )
    assert inside.max() < outside.min()


def test_samples_of_a_row_do_not_depend_on_its_batch_or_pipeline():
    model = process()
    whole = sw.predict_samples(model, GRID, 5, random_state=1).probs
    for batch_size in (1, 60):
        some = sw.predict_samples(model, GRID, 5, random_state=1, batch_size=batch_size).probs
        np.testing.assert_allclose(some, whole, rtol=1e-9)
    scaled = make_pipeline(StandardScaler(), GaussianProcessClassifier(optimizer=None))
    scaled.fit(MOONS, SIDES)
    expected = sw.predict_samples(scaled[-1], scaled[0].transform(GRID), 5, random_state=1).probs
    np.testing.assert_array_equal(
        sw.predict_samples(scaled, GRID, 5, random_state=1).probs, expected
    )


def test_what_gives_no_probabilities_is_refused():
    with pytest.raises(sw.InvalidInput, match="fit it with multi_class='one_vs_rest'"):
        sw.predict_samples(process(IRIS[::5], NAMES[::5], multi_class="one_vs_one"), IRIS)
    with pytest.raises(sw.InvalidInput, match="is not fitted"):
        sw.predict_samples(GaussianProcessClassifier(), IRIS)
    with pytest.raises(sw.InvalidInput, match="fails on X: X has 4 features"):
        sw.predict_samples(process(), IRIS)
