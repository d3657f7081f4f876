"""OODDetector: conformal p-values, and false alarms as rare as stated."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw


class Fitted(sw.OODDetector):
    """A fitted detector whose rows are their own uncertainties."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def uncertainty(self, X: Any) -> np.ndarray:
        return np.asarray(X, dtype=float)


def detector(calibration: Any, false_alarm_rate: float = 0.05) -> sw.OODDetector:
    """A detector with these uncertainties of held-out rows."""
    fitted = Fitted(None, false_alarm_rate=false_alarm_rate)
    fitted.calibration_uncertainty_ = np.sort(np.asarray(calibration, dtype=float))
    return fitted


@given(
    calibration=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    rows=st.lists(st.integers(-1, 10), min_size=1, max_size=10),
)
def test_a_p_value_counts_held_out_rows_at_least_as_uncertain(calibration, rows):
    expected = [
        (1 + sum(held_out >= row for held_out in calibration)) / (1 + len(calibration))
        for row in rows
    ]
    np.testing.assert_array_equal(detector(calibration).p_values(rows), expected)


def test_ties_count_as_in_distribution():
    made = detector(np.zeros(99))
    assert made.p_values([0.0])[0] == 1
    assert made.p_values([1e-300])[0] == 0.01
    assert made.p_values([-1.0])[0] == 1
    np.testing.assert_array_equal(made.is_outlier([0.0, 1e-300]), [False, True])


SHAPES = {
    "distinct": lambda rng, size: rng.uniform(size=size),
    "mostly zero": lambda rng, size: np.maximum(rng.normal(-1, 1, size=size), 0),
    "five values": lambda rng, size: rng.integers(5, size=size),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [9, 19, 33])
def test_false_alarms_are_as_rare_as_stated(shape, n):
    rng = np.random.default_rng(5)
    alarms = []
    for _ in range(3000):
        u = SHAPES[shape](rng, n + 1)
        alarms.append(detector(u[:-1], 0.1).is_outlier(u[-1:])[0])
    limit = np.floor(0.1 * (n + 1)) / (n + 1)
    error = np.sqrt(limit / 3000)
    assert np.mean(alarms) <= limit + 3 * error
    if shape == "distinct":
        assert np.mean(alarms) >= limit - 3 * error, "exact where nothing is tied"


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.37])
def test_too_few_held_out_rows_raise_a_warning(rate):
    enough = next(n for n in range(1, 100) if Fraction(1, 1 + n) <= Fraction(str(rate)))
    with pytest.warns(
        UserWarning, match=f"{enough - 1} held-out rows .* hold out {enough} or more"
    ):
        assert not detector(np.zeros(enough - 1), rate).is_outlier([1.0]).any()
    assert detector(np.zeros(enough), rate).is_outlier([1.0]).all()


@settings(max_examples=200)
@given(
    calibration=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    rows=st.lists(st.integers(0, 12), min_size=1, max_size=25),
    percent=st.integers(1, 99),
)
def test_a_false_discovery_rate_is_that_of_benjamini_and_hochberg(calibration, rows, percent):
    m, rate = len(rows), Fraction(percent, 100)
    p = [Fraction(1 + sum(c >= r for c in calibration), 1 + len(calibration)) for r in rows]
    passed = [i for i, value in enumerate(sorted(p), start=1) if value <= i * rate / m]
    limit = sorted(p)[passed[-1] - 1] if passed else -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of too few held-out rows
        outliers = detector(calibration).is_outlier(rows, false_discovery_rate=percent / 100)
    assert outliers.tolist() == [value <= limit for value in p]


@pytest.mark.parametrize("shape", ["distinct", "five values"])
def test_false_discoveries_are_as_rare_as_stated(shape):
    rng = np.random.default_rng(6)
    n_in, n_out, shares, detected = 20, 15, [], []
    for _ in range(2000):
        calibration = SHAPES[shape](rng, 100)
        rows = np.r_[SHAPES[shape](rng, n_in), SHAPES[shape](rng, n_out) + 3.6]
        called = detector(calibration).is_outlier(rows, false_discovery_rate=0.3)
        shares.append(called[:n_in].sum() / max(called.sum(), 1))
        detected.append(called[n_in:].mean())
    error = np.std(shares) / np.sqrt(2000)
    assert np.mean(shares) <= 0.3 * n_in / (n_in + n_out) + 3 * error
    assert np.mean(detected) > 0.2
    if shape == "distinct":
        assert np.mean(shares) > 0.1, "no needlessly timid rule either"


def test_it_finds_most_digits_that_it_has_never_seen():
    X, y = load_digits(return_X_y=True)
    known = y < 8
    X_fit, X_new, y_fit, y_new = train_test_split(X[known], y[known], random_state=0)
    forest = RandomForestClassifier(60, min_samples_leaf=5, random_state=0)
    made = sw.OODDetector(forest, random_state=0).fit(X_fit, y_fit)
    assert made.is_outlier(X[~known]).mean() > 0.8
    assert made.is_outlier(X_new).mean() < 0.12
    assert made.score(X_new, y_new) > 0.9
    np.testing.assert_array_equal(made.score_samples(X_new), -made.uncertainty(X_new))
    members = sw.predict_samples(made.estimator_, X_new)
    np.testing.assert_allclose(
        made.uncertainty(X_new), sw.decompose(members, "log").epistemic, rtol=1e-9, atol=1e-14
    )
    batch = np.r_[X_new, X[~known]]
    called = made.is_outlier(batch, false_discovery_rate=0.1)
    assert called[: len(X_new)].sum() / called.sum() < 0.2
    assert called[len(X_new) :].mean() > 0.7
    assert sw.ood_metrics(made.uncertainty(X_new), made.uncertainty(X[~known])).auroc > 0.9


def test_alarms_of_a_fitted_model_are_as_rare_as_stated():
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(8, min_samples_leaf=3, random_state=0)
    rng = np.random.default_rng(7)
    alarms = []
    for seed in range(40):
        rows = rng.permutation(len(X))
        made = sw.OODDetector(forest, false_alarm_rate=0.1, random_state=seed)
        made.fit(X[rows[:500]], y[rows[:500]])
        alarms.append(made.is_outlier(X[rows[500:]]).mean())
    assert np.mean(alarms) <= 0.1 + 3 * np.std(alarms) / np.sqrt(40)
    assert np.mean(alarms) > 0.05


@pytest.mark.parametrize("rate", [0, 1, -0.1, "often"])
def test_an_impossible_rate_is_refused(rate):
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(3, random_state=0)
    made = sw.OODDetector(forest, false_alarm_rate=0.2, random_state=0).fit(X[:100], y[:100])
    before = made.p_values(X)
    with pytest.raises(sw.InvalidInput, match="false_alarm_rate must be above 0 and below 1"):
        made.set_params(false_alarm_rate=rate).fit(X, y)
    np.testing.assert_array_equal(made.p_values(X), before)
    with pytest.raises(sw.InvalidInput, match="false_discovery_rate must be above 0 and below 1"):
        made.is_outlier(X, false_discovery_rate=rate)


# -- calibrated probabilities ----------------------------------------------------------------------


def calibrating(**options: Any) -> sw.OODDetector:
    forest = RandomForestClassifier(20, min_samples_leaf=5, random_state=0)
    return sw.OODDetector(forest, random_state=0, calibration_size=0.5, **options)


@pytest.mark.parametrize("component", ["total", "epistemic"])
def test_a_detector_scores_the_calibrated_members(component):
    X, y = load_digits(return_X_y=True)
    made = calibrating(calibrate="temperature", component=component).fit(X[:1200], y[:1200])
    assert made.calibration_.method == "temperature"
    assert made.calibration_.n_rows == 200
    assert len(made.calibration_uncertainty_) == 400, "rows that calibrated are no reference"
    share = made.calibration_.mixed_share
    assert share is None if component == "total" else share > 0.1, "fully grown trees are certain"
    raw = sw.predict_samples(made.estimator_, X[1200:])
    moved = made.calibration_.transform(raw)
    expected = getattr(sw.decompose(moved, "log"), component)
    np.testing.assert_allclose(made.uncertainty(X[1200:]), expected, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(made.predict_proba(X[1200:]), moved.mean, atol=1e-12)
    plain = calibrating(component=component).fit(X[:1200], y[:1200])
    assert plain.calibration_ is None
    assert len(plain.calibration_uncertainty_) == 600
    assert np.abs(plain.uncertainty(X[1200:]) - expected).max() > 0.01


def test_false_alarms_of_a_calibrated_detector_are_as_rare_as_stated():
    X, y = load_digits(return_X_y=True)
    alarms = []
    for seed in range(5):
        rows = np.random.default_rng(seed).permutation(len(X))
        made = calibrating(calibrate="temperature", false_alarm_rate=0.1)
        made.fit(X[rows[:1200]], y[rows[:1200]])
        alarms.append(made.is_outlier(X[rows[1200:]]).mean())
    assert np.mean(alarms) == pytest.approx(0.1, abs=0.04)
