"""Temperature, vector and matrix scaling: the minimum of a penalized log loss, written plainly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import scorewise as sw
from calibrate_support import draw_labels, scaled
from scorewise.calibrate import Calibration

parametrize = pytest.mark.parametrize
both = parametrize("method", ["vector", "matrix"])
# labels are not those of the predictions
pytestmark = pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
FLOOR = 1e-6


def fit(p: np.ndarray, y: Any, method: str, **options: Any) -> Calibration:
    """Fitted on predictions (n, K), which are the only members."""
    return sw.fit_calibration(p[:, None], y, method=method, **options)


def features(p: np.ndarray, floor: float = FLOOR) -> np.ndarray:
    """Log probabilities with the floor, of mean 0 in each row."""
    z = np.log((1 - p.shape[1] * floor) * p + floor)
    return z - z.mean(axis=1, keepdims=True)


def log_loss(linear: np.ndarray, y: np.ndarray) -> float:
    largest = linear.max(axis=1, keepdims=True)
    sums = np.log(np.exp(linear - largest).sum(axis=1)) + largest[:, 0]
    return float((sums - linear[np.arange(len(y)), y]).sum())


def temperature_loss(log_factor: float, z: np.ndarray, y: np.ndarray) -> float:
    return log_loss(np.exp(log_factor) * z, y) + log_factor**2 / 2


def precision(k: int) -> np.ndarray:
    """That of the prior of W (K, K): the standard deviation is 1, and 1/K off the diagonal."""
    return np.where(np.eye(k, dtype=bool), 1.0, k**2)


def matrix_loss(w: np.ndarray, b: np.ndarray, factor: float, z: np.ndarray, y: np.ndarray) -> float:
    """The penalized log loss, and a normal prior of W around that of the temperature, and of b."""
    away = w - factor * np.eye(len(b))
    return log_loss(z @ w.T + b, y) + ((precision(len(b)) * away**2).sum() + (b**2).sum()) / 2


def matrix_gradient(
    w: np.ndarray, b: np.ndarray, factor: float, z: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    linear = z @ w.T + b
    p = np.exp(linear - linear.max(axis=1, keepdims=True))
    residual = p / p.sum(axis=1, keepdims=True) - np.eye(len(b))[y]
    away = w - factor * np.eye(len(b))
    return residual.T @ z + precision(len(b)) * away, residual.sum(axis=0) + b


def minimum(method: str, factor: float, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """W (K, K) and b of the smallest penalized loss, by another search from another start."""
    k = z.shape[1]
    is_matrix = method == "matrix"

    def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x[:-k].reshape(k, k) if is_matrix else np.diag(x[:-k]), x[-k:]

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        w, b = parts(x)
        by_w, by_b = matrix_gradient(w, b, factor, z, y)
        by_w = by_w.ravel() if is_matrix else np.diag(by_w)
        return matrix_loss(w, b, factor, z, y), np.concatenate([by_w, by_b])

    start = np.zeros(k * k + k if is_matrix else 2 * k)
    options = {"gtol": 1e-6, "maxiter": 5000}
    return parts(minimize(loss, start, jac=True, method="BFGS", options=options).x)


def rows(n: int, k: int, power: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Predictions that are overconfident by this power, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, 0.7), n) + 1e-9
    return scaled(truth, power), draw_labels(truth / truth.sum(axis=1, keepdims=True), rng)


problems = st.tuples(
    st.integers(2, 300), st.integers(2, 6), st.floats(0.3, 3), st.integers(0, 2**20)
)


@settings(max_examples=40)
@given(problems)
def test_the_temperature_has_the_smallest_penalized_loss(problem):
    p, y = rows(*problem)
    z = features(p)
    calibration = fit(p, y, "temperature")
    found = np.log(float(calibration.weights))
    grid = np.linspace(np.log(0.01), np.log(100), 400)
    start = min(grid, key=lambda x: temperature_loss(x, z, y))
    [best] = minimize(lambda x: temperature_loss(x[0], z, y), [start], tol=1e-10).x
    assert found == pytest.approx(best, abs=2e-3)
    assert temperature_loss(found, z, y) <= temperature_loss(best, z, y) + 1e-5 * len(y)
    assert not calibration.bias.any()


@both
@settings(max_examples=25)
@given(problems)
def test_vector_and_matrix_have_the_smallest_penalized_loss(method, problem):
    p, y = rows(*problem)
    n, z = len(p), features(p)
    factor = float(fit(p, y, "temperature").weights)
    calibration = fit(p, y, method)
    w, b = calibration.weights, calibration.bias
    w = w if method == "matrix" else np.diag(w)
    best = minimum(method, factor, z, y)
    assert matrix_loss(w, b, factor, z, y) <= matrix_loss(*best, factor, z, y) + 1e-6 * n
    by_w, by_b = matrix_gradient(w, b, factor, z, y)
    by_w = by_w if method == "matrix" else np.diag(by_w)
    assert max(np.abs(by_w).max(), np.abs(by_b).max()) < 1e-4 * n, "it is no minimum"
    np.testing.assert_allclose(w, best[0], atol=0.01)
    np.testing.assert_allclose(b, best[1], atol=0.01)


@parametrize("method", ["temperature", "vector", "matrix"])
def test_the_map_is_the_softmax_of_the_scaled_and_centred_logs(method):
    p, y = rows(200, 4, 2.0, 0)
    calibration = fit(p, y, method, floor=1e-3)
    w = np.broadcast_to(calibration.weights, (4,)) if method != "matrix" else calibration.weights
    expected = scaled((1 - 4e-3) * p + 1e-3, w, calibration.bias)
    np.testing.assert_allclose(calibration.predict_proba(p[:, None]), expected, rtol=1e-12)
    assert (
        calibration.weights.shape == {"temperature": (), "vector": (4,), "matrix": (4, 4)}[method]
    )
    assert calibration.bias.shape == (4,)


@parametrize("factor", [0.4, 1.0, 2.5])
def test_a_known_temperature_is_recovered(factor):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(5), 20_000)
    calibration = fit(p, draw_labels(scaled(p, factor), rng), "temperature")
    assert float(calibration.weights) == pytest.approx(factor, rel=0.03)


def test_a_known_diagonal_is_recovered():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(3), 30_000)
    w, b = np.array([0.5, 1.0, 2.0]), np.array([1.0, 0.0, -1.0])
    calibration = fit(p, draw_labels(scaled(p, w, b), rng), "vector")
    new = rng.dirichlet(np.ones(3), 2_000)
    ours = calibration.predict_proba(new[:, None])
    assert np.abs(ours - scaled(new, w, b)).mean() < 0.01
    np.testing.assert_allclose(calibration.weights, w, atol=0.15)


def test_a_known_matrix_is_recovered():
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(4), 30_000)
    w = np.eye(4) + 0.7 * np.roll(np.eye(4), 1, axis=0)
    truth = scaled(p, w, [0.5, 0, 0, -0.5])
    calibration = fit(p, draw_labels(truth, rng), "matrix")
    ours = calibration.predict_proba(p[:, None])
    assert np.abs(ours - truth).mean() < 0.01
    simpler = fit(p, draw_labels(truth, rng), "vector").predict_proba(p[:, None])
    assert np.abs(simpler - truth).mean() > 0.03, "a vector could do as much"


@parametrize("method", ["temperature", "vector", "matrix"])
@settings(max_examples=15)
@given(problems, st.randoms(use_true_random=False))
def test_permuting_classes_permutes_the_result(method, problem, random):
    p, y = rows(*problem)
    k = p.shape[1]
    order = np.array(random.sample(range(k), k))
    calibration = fit(p, y, method)
    permuted = fit(p[:, order], np.argsort(order)[y], method)
    ours, theirs = (
        x.predict_proba(q[:, None]) for x, q in ((calibration, p), (permuted, p[:, order]))
    )
    np.testing.assert_allclose(theirs, ours[:, order], atol=2e-3)


@both
def test_permuting_rows_changes_nothing(method):
    p, y = rows(300, 4, 2.0, 5)
    order = np.random.default_rng(0).permutation(300)
    ours, theirs = fit(p, y, method), fit(p[order], y[order], method)
    np.testing.assert_allclose(theirs.weights, ours.weights, atol=1e-3)
    np.testing.assert_allclose(theirs.bias, ours.bias, atol=1e-3)


@both
def test_a_class_without_labels_stays_possible(method):
    rng = np.random.default_rng(6)
    p = rng.dirichlet(np.ones(5), 2000)
    y = draw_labels(p[:, :3] / p[:, :3].sum(axis=1, keepdims=True), rng)
    y[0] = 3  # and one label of a rare class
    calibration = fit(p, y, method)
    assert np.isfinite(calibration.weights).all()
    assert np.abs(calibration.bias).max() < 10
    ours = calibration.predict_proba(p[:, None])
    assert (ours > 0).all()
    assert (ours[:, 3:].mean(axis=0) < 0.02).all()
    np.testing.assert_allclose(ours.mean(axis=0)[:3], np.bincount(y)[:3] / 2000, atol=0.01)


@both
@parametrize("n", [2, 3])
def test_few_rows_are_enough_for_finite_numbers(method, n):
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5]])[:n]
    calibration = fit(p, [0, 1, 1][:n], method)
    assert np.isfinite(calibration.weights).all()
    assert np.abs(calibration.bias).max() < 2
    assert np.isfinite(calibration.score.loss)


@parametrize("method", ["temperature", "vector", "matrix"])
def test_separable_labels_have_finite_numbers(method):
    p = np.random.default_rng(7).dirichlet(np.full(3, 0.3), 400)
    calibration = fit(p, p.argmax(axis=1), method)
    assert 1 < np.abs(calibration.weights).max() < 100
    ours = calibration.predict_proba(p[:, None])
    assert (ours.argmax(axis=1) == p.argmax(axis=1)).mean() > 0.98
    assert ours.max(axis=1).mean() > p.max(axis=1).mean()


@parametrize("method", ["temperature", "vector", "matrix"])
def test_labels_that_contradict_have_finite_numbers(method):
    p = np.random.default_rng(8).dirichlet(np.full(3, 0.3), 400)
    calibration = fit(p, p.argmin(axis=1), method)
    assert np.isfinite(calibration.weights).all()
    if method == "temperature":
        assert 0.01 <= float(calibration.weights) < 0.1
        np.testing.assert_allclose(calibration.predict_proba(p[:, None]), 1 / 3, atol=0.3)


@both
@parametrize("row", [[0.25, 0.25, 0.5], [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]])
def test_equal_predictions_become_the_frequencies_of_the_classes(method, row):
    y = np.repeat([0, 1, 2], [500, 300, 200])
    p = np.tile(row, (1000, 1))
    calibration = fit(p, y, method)
    ours = calibration.predict_proba(p[:, None])
    np.testing.assert_allclose(ours, np.tile([0.5, 0.3, 0.2], (1000, 1)), atol=0.01)
    factor = float(fit(p, y, "temperature").weights)
    w = calibration.weights if method == "matrix" else np.diag(calibration.weights)
    best = minimum(method, factor, features(p), y)
    np.testing.assert_allclose(w, best[0], atol=0.01)
    np.testing.assert_allclose(calibration.bias, best[1], atol=0.01)


@parametrize("method", ["temperature", "vector", "matrix"])
def test_certain_predictions_are_floored(method):
    rng = np.random.default_rng(9)
    votes = rng.integers(3, size=500)
    y = np.where(rng.uniform(size=500) < 0.8, votes, rng.integers(3, size=500))
    p = np.eye(3)[votes]
    ours = fit(p, y, method).predict_proba(p[:, None])
    hits = ours[np.arange(500), votes].mean()
    assert hits == pytest.approx((y == votes).mean(), abs=0.02)
