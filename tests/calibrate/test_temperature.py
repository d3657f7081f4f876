"""Temperature scaling: one temperature for all members, fitted by the log loss of their mean."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import scorewise as sw
from support import softmax


def data(n=400, m=4, k=4, seed=0, spread=0.5, size=1.5):
    """Logits of members, and labels drawn from their mean."""
    rng = np.random.default_rng(seed)
    logits = size * (rng.normal(size=(n, 1, k)) + spread * rng.normal(size=(n, m, k)))
    mean = softmax(logits).mean(axis=1)
    y = (mean.cumsum(axis=-1) > rng.uniform(size=(n, 1))).argmax(axis=-1)
    return logits, y


def naive_loss(logits, y, temperature, weights=None):
    p = softmax(logits / temperature)
    mean = np.average(p, axis=1, weights=weights)
    with np.errstate(divide="ignore"):
        return -np.mean(np.log(mean[np.arange(len(y)), y]))


@pytest.mark.parametrize("true", [0.4, 1.0, 3.0])
def test_a_known_temperature_is_recovered(true):
    # without spread the members are one model, whose temperature is the truth
    logits, y = data(n=20_000, spread=0.0, m=2)
    fitted = sw.fit_temperature(softmax(true * logits), y)
    assert fitted.value == pytest.approx(true, rel=0.04)


@pytest.mark.parametrize("weights", [None, [3.0, 1.0, 0.0, 0.5]])
@pytest.mark.parametrize("sharper", [0.3, 1.0, 4.0])
def test_it_is_where_the_log_loss_is_least(weights, sharper):
    logits, y = data()
    logits = sharper * logits
    best = minimize_scalar(
        lambda t: naive_loss(logits, y, np.exp(t), weights),
        bounds=(-3, 3),
        method="bounded",
        options={"xatol": 1e-8},
    )
    fitted = sw.fit_temperature(softmax(logits), y, weights=weights)
    assert fitted.value == pytest.approx(np.exp(best.x), rel=1e-4)
    assert fitted.loss_after == pytest.approx(best.fun, abs=1e-9)
    assert fitted.loss_before == pytest.approx(naive_loss(logits, y, 1.0, weights), rel=1e-12)
    if weights is not None:
        assert fitted.value != pytest.approx(sw.fit_temperature(softmax(logits), y).value, rel=1e-3)


def test_logits_samples_and_single_precision_give_the_same():
    logits, y = data()
    value = sw.fit_temperature(softmax(logits), y).value
    assert sw.fit_temperature(logits, y, from_logits=True).value == pytest.approx(value, rel=1e-5)
    samples = sw.Samples(logits, from_logits=True, weights=[1, 1, 2, 0])
    weighted = sw.fit_temperature(samples, y).value
    again = sw.fit_temperature(softmax(logits), y, weights=[1, 1, 2, 0]).value
    assert weighted == pytest.approx(again, rel=1e-5)
    single = softmax(logits).astype(np.float32)
    assert sw.fit_temperature(single, y).value == pytest.approx(value, rel=1e-4)
    members_first = softmax(logits).transpose(1, 0, 2)
    fitted = sw.fit_temperature(members_first, y.astype(np.uint8), member_axis=0)
    assert fitted.value == pytest.approx(value, rel=1e-9)


@settings(max_examples=80)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.3, 1.0, 5.0, 30.0]), st.integers(1, 6))
def test_the_loss_never_gets_worse_on_the_rows_it_was_fitted_on(seed, size, n):
    logits, y = data(n=n, m=3, k=3, seed=seed, size=size)
    y = np.random.default_rng(seed).permutation(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = sw.fit_temperature(logits, y, from_logits=True)
    assert fitted.loss_after <= fitted.loss_before + 1e-9
    assert fitted.loss_after == pytest.approx(naive_loss(logits, y, fitted.value), abs=1e-9)
    grid = np.geomspace(0.05, 20, 60)
    assert fitted.loss_after <= min(naive_loss(logits, y, t) for t in grid) + 1e-3


def test_the_temperature_is_the_global_minimum():
    grid = np.geomspace(0.05, 20, 100)
    several = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n, m = rng.integers(1, 4, size=2)
        sizes = 2 * np.exp(1.5 * rng.normal(size=(n, m, 1)))  # members of very different minds
        logits, y = sizes * rng.normal(size=(n, m, 3)), rng.integers(3, size=n)
        losses = np.array([naive_loss(logits, y, t) for t in grid])
        padded = np.r_[np.inf, losses, np.inf]
        several += np.sum((losses < padded[:-2]) & (losses < padded[2:])) > 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            fitted = sw.fit_temperature(logits, y, from_logits=True)
        assert fitted.loss_after <= losses.min() + 1e-3, seed
    assert several > 5


def test_calling_it_gives_members_at_that_temperature():
    logits, y = data(n=50)
    fitted = sw.fit_temperature(softmax(3 * logits), y)
    got = fitted(softmax(3 * logits))
    np.testing.assert_allclose(got, softmax(3 * logits / fitted.value), rtol=1e-12)
    np.testing.assert_array_equal(got.argmax(axis=-1), logits.argmax(axis=-1))
    np.testing.assert_allclose(got.sum(axis=-1), 1, rtol=1e-14)
    assert fitted(softmax(logits).astype("float32")).dtype == np.float32


def test_calling_it_keeps_the_weights_of_samples_and_the_input_as_it_was():
    logits, y = data(n=50)
    samples = sw.Samples(softmax(logits), weights=[1.0, 2.0, 0.0, 1.0])
    before = np.array(samples.probs)
    fitted = sw.fit_temperature(samples, y)
    tempered = fitted(samples)
    assert isinstance(tempered, sw.Samples)
    np.testing.assert_array_equal(tempered.weights, samples.weights)
    np.testing.assert_array_equal(samples.probs, before)
    losses = sw.task_losses(tempered, y, "log")
    assert losses.mean() == pytest.approx(fitted.loss_after, rel=1e-9)
    assert sw.task_losses(samples, y, "log").mean() == pytest.approx(fitted.loss_before, rel=1e-9)


def test_results_are_arrays_of_the_input_library(xp):
    logits, y = data(n=30)
    probs = softmax(logits)
    expected = sw.fit_temperature(probs, y)
    fitted = sw.fit_temperature(xp.asarray(probs), xp.asarray(y))
    assert fitted.value == pytest.approx(expected.value, rel=1e-9)
    tempered = fitted(xp.asarray(probs))
    assert xp.owns(tempered)
    np.testing.assert_allclose(xp.to_numpy(tempered), expected(probs), rtol=1e-9)


def test_zeros_stay_zeros_and_certainty_stays():
    logits, y = data(n=60)
    probs = softmax(logits)
    probs[:, :, 0] *= (y == 0)[:, None]  # impossible where it did not happen
    probs[5:8] = np.eye(4)[y[5:8]][:, None]
    probs /= probs.sum(axis=-1, keepdims=True)
    fitted = sw.fit_temperature(probs, y)
    tempered = fitted(probs)
    np.testing.assert_array_equal(tempered == 0, probs == 0)
    np.testing.assert_array_equal(tempered[5:8], probs[5:8])
    assert np.isfinite(tempered).all()
    masked = np.where(probs == 0, -np.inf, np.log(np.maximum(probs, 1e-300)))
    again = sw.fit_temperature(masked, y, from_logits=True)
    assert again.value == pytest.approx(fitted.value, rel=1e-6)


def test_a_label_that_no_member_thinks_possible_needs_a_floor():
    logits, y = data()
    probs = softmax(logits)
    probs[3] = np.eye(4)[(y[3] + 1) % 4]
    with pytest.raises(sw.InvalidInput, match=rf"y\[3\] = {y[3]} has probability 0.*floor=1e-06"):
        sw.fit_temperature(probs, y)
    floored = sw.fit_temperature(probs, y, floor=1e-4)
    others = np.arange(len(y)) != 3
    rest = sw.fit_temperature(probs[others], y[others])
    assert floored.value == pytest.approx(rest.value, rel=1e-3)  # no temperature changes that row
    n = len(y)
    by_hand = ((n - 1) * rest.loss_after - np.log(1e-4)) / n
    assert floored.loss_after == pytest.approx(by_hand, rel=1e-4)
    # one member that does is enough
    probs[3, 0] = 0.25
    assert np.isfinite(sw.fit_temperature(probs, y).loss_before)


def all_alike(sure: float, right: bool):
    """Logits that say one class of four, and labels that are all right or all wrong."""
    said = np.arange(40) % 4
    logits = np.repeat(sure * np.eye(4)[said][:, None], 3, axis=1)
    return logits, said if right else (said + 1) % 4


@pytest.mark.parametrize("right", [True, False])
def test_rows_that_are_all_right_or_all_wrong_warn(right):
    logits, y = all_alike(0.5, right)
    with pytest.warns(UserWarning, match="at the end of the searched range"):
        fitted = sw.fit_temperature(logits, y, from_logits=True)
    assert fitted.value < 0.06 if right else fitted.value > 19


@pytest.mark.parametrize("sure", [5.0, 20.0, 100.0])
def test_rows_that_are_all_right_warn_also_where_the_model_is_very_sure(sure):
    logits, y = all_alike(sure, right=True)
    with pytest.warns(UserWarning, match="at the end of the searched range"):
        sw.fit_temperature(logits, y, from_logits=True)


def test_held_out_rows_are_recalibrated():
    logits, y = data(n=6000, spread=0.2)
    fit, rest = slice(0, 3000), slice(3000, None)
    sure = softmax(3 * logits)
    fitted = sw.fit_temperature(sure[fit], y[fit])
    recalibrated = fitted(sure[rest])
    for rule in ("log", "brier", "zero-one"):
        before, after = (
            sw.loss_calibration(sw.task_losses(p, y[rest], rule), sw.decompose(p, rule).total)
            for p in (sure[rest], recalibrated)
        )
        assert not before.is_calibrated
        assert after.calibration_error < before.calibration_error / 4, rule
        assert abs(after.gap) < abs(before.gap) / 4, rule


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(9, dtype=int)}, r"\(9,\).*\(10,\)"),
        ({"y": np.full(10, 4)}, r"labels\[0\] is 4"),
        ({"y": np.full(10, 0.5)}, "regression is not supported"),
        ({"probs": np.full((10, 4), 0.25)}, r"rows \(n, M, K\)"),
        ({"probs": np.full((0, 2, 4), 0.25), "y": np.zeros(0, dtype=int)}, "probs is empty"),
        ({"probs": np.full((10, 2, 4), np.nan)}, "nan|NaN"),
        ({"floor": 0.0}, "floor"),
        ({"floor": 1.0}, "floor"),
        (
            {"probs": sw.Samples(np.full((10, 2, 4), 0.25)), "weights": [1, 2]},
            "weights cannot be passed",
        ),
        ({"weights": [1, 2, 3]}, "weights"),
    ],
)
def test_bad_input_is_refused(change, message):
    full = {"probs": np.full((10, 2, 4), 0.25), "y": np.zeros(10, dtype=int), **change}
    with pytest.raises(sw.InvalidInput, match=message):
        sw.fit_temperature(**full)


def test_a_dirichlet_has_no_members_to_temper():
    with pytest.raises(sw.ScorewiseError):
        sw.fit_temperature(sw.Dirichlet(np.ones((3, 4))), [0, 1, 2])
