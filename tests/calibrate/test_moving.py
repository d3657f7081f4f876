"""Members moved onto a calibrated mean: exact means, least change, and the laws of EU."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import scorewise as sw
from calibrate_support import calibration_by, calibration_to
from scorewise.calibrate import Calibration
from support import all_rules, members, softmax

parametrize = pytest.mark.parametrize
RULES = ["log", "brier", "zero-one", "spherical", "tsallis:1.5", "rps", "top-k:2"]


def random_map(k: int, seed: int, size: float = 1.0) -> Calibration:
    """A matrix near the identity, and a bias."""
    rng = np.random.default_rng(seed)
    w = np.eye(k) * rng.uniform(0.4, 1.5) + size * 0.3 / k * rng.normal(size=(k, k))
    return calibration_by(w, size * rng.normal(size=k))


def one_hot(n: int, m: int, k: int, seed: int = 0) -> np.ndarray:
    return np.eye(k)[np.random.default_rng(seed).integers(k, size=(n, m))]


def nearly_equal(n: int, m: int, k: int, size: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return softmax(rng.normal(size=(n, 1, k)) + size * rng.normal(size=(n, m, k)))


def weights_of(kind: str, n: int, m: int, seed: int = 0) -> np.ndarray | None:
    rng = np.random.default_rng(seed)
    if kind == "equal":
        return None
    w = rng.uniform(0.1, 3, size=(n, m) if "row" in kind else m)
    if "zero" in kind:
        w[..., 1] = 0
        w[..., -1] = 0
    return w


def weighted_mean(probs: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    probs = probs.astype(float)
    w = np.ones(probs.shape[1]) if weights is None else np.asarray(weights, dtype=float)
    w = np.broadcast_to(w / w.sum(axis=-1, keepdims=True), probs.shape[:2])
    return np.einsum("nm,nmk->nk", w, probs)


def assert_moved(probs: np.ndarray, weights: Any, calibration: Calibration) -> np.ndarray:
    """The members are distributions, and their mean is p̂."""
    before = probs.copy()
    samples = sw.Samples(probs, weights)
    moved = calibration.transform(samples)
    assert moved.probs.dtype == probs.dtype
    assert moved.probs.shape == probs.shape
    double = probs.dtype == np.float64
    expected = calibration.predict_proba(samples)
    mean = weighted_mean(moved.probs, weights)
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-12 if double else 1e-6)
    sums = moved.probs.sum(axis=-1, dtype=float)
    np.testing.assert_allclose(sums, 1, rtol=0, atol=1e-12 if double else 1e-6)
    assert (moved.probs >= 0).all()
    np.testing.assert_array_equal(probs, before)
    return moved.probs


MEMBERS = {
    "random": lambda: members(60, 5, 4),
    "sharp": lambda: members(60, 5, 4, concentration=0.05),
    "nearly equal": lambda: nearly_equal(60, 5, 4, 1e-7),
    "equal": lambda: np.repeat(members(60, 1, 4), 5, axis=1),
    "one-hot": lambda: one_hot(60, 5, 4),
    "two classes": lambda: members(60, 5, 2),
    "one member": lambda: members(60, 1, 4),
    "1,000 classes": lambda: members(12, 5, 1000, concentration=0.1),
}


@parametrize("dtype", ["float64", "float32"])
@parametrize("kind", ["equal", "members", "rows", "zero members", "zero rows"])
@parametrize("name", MEMBERS)
def test_the_mean_of_the_moved_members_is_the_calibrated_prediction(name, kind, dtype):
    probs = MEMBERS[name]().astype(dtype)
    n, m, k = probs.shape
    weights = None if m == 1 else weights_of(kind, n, m)
    for seed in range(3):
        assert_moved(probs, weights, random_map(k, seed))


@settings(max_examples=80)
@given(
    st.integers(1, 6),
    st.integers(2, 6),
    st.floats(0.02, 5),
    st.floats(0, 6),
    st.booleans(),
    st.integers(0, 2**20),
)
def test_the_mean_is_exact_whatever_the_members_and_the_map(m, k, sharpness, size, weighted, seed):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(k, sharpness), (7, m))
    probs[0] = np.eye(k)[rng.integers(k, size=m)]
    probs[1, 0] = np.eye(k)[0]
    weights = rng.uniform(0.05, 1, size=(7, m)) if weighted else None
    calibration = random_map(k, seed, size)
    moved = assert_moved(probs, weights, calibration)
    d = sw.decompose(moved, ["log", "brier"], weights=weights)
    for rule, (total, aleatoric, epistemic) in d.items():
        expected = sw.get_rule(rule).entropy(calibration.predict_proba(probs, weights=weights))
        np.testing.assert_allclose(total, expected, rtol=0, atol=1e-11)
        np.testing.assert_allclose(aleatoric + epistemic, total, rtol=0, atol=1e-11)
        assert (epistemic >= 0).all()


@parametrize("dtype", ["float64", "float32"])
def test_weights_of_any_dtype_leave_the_same_rows_as_they_can_be_scaled(dtype):
    """Weights of float32 sum to 1 in its digits only."""
    probs, weights = members(200, 6, 4), weights_of("rows", 200, 6)
    samples = sw.Samples(probs.astype("float32"), weights.astype(dtype))
    calibration = random_map(4, 0)
    assert not calibration.mixed_rows(samples).any()
    expected = calibration.transform(sw.Samples(probs, weights)).probs
    np.testing.assert_allclose(calibration.transform(samples).probs, expected, atol=1e-5)


def odds_ratios(probs: np.ndarray) -> np.ndarray:
    """log θ_mk θ_0l / (θ_ml θ_0k) for neighbouring classes k and l."""
    return np.diff(np.diff(np.log(probs), axis=-1), axis=1)


@settings(max_examples=40)
@given(st.integers(2, 6), st.integers(2, 8), st.floats(0.3, 3), st.integers(0, 2**20))
def test_odds_ratios_between_members_stay(m, k, sharpness, seed):
    probs = 0.98 * members(20, m, k, seed, sharpness) + 0.02 / k
    weights = np.random.default_rng(seed).uniform(0.1, 1, m)
    calibration = random_map(k, seed)
    moved = calibration.transform(sw.Samples(probs, weights)).probs
    scaled_rows = ~calibration.mixed_rows(probs, weights=weights)
    assert scaled_rows.any()
    np.testing.assert_allclose(
        odds_ratios(moved)[scaled_rows], odds_ratios(probs)[scaled_rows], atol=1e-6
    )


def test_the_map_that_changes_nothing_leaves_members_where_they_are():
    probs = members(50, 5, 4)
    moved = calibration_by(1.0, np.zeros(4), floor=1e-15).transform(probs).probs
    np.testing.assert_allclose(moved, probs, atol=1e-9)


def least_change(old: np.ndarray, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Members (M, K) with the target as their mean that are closest in relative entropy."""
    m, k = old.shape

    def change(x: np.ndarray) -> tuple[float, np.ndarray]:
        ratio = np.log(x.reshape(m, k) / old)
        loss = weights @ (x.reshape(m, k) * ratio).sum(axis=1)
        return loss, (weights[:, None] * (ratio + 1)).ravel()

    constraints = [
        {"type": "eq", "fun": lambda x: x.reshape(m, k).sum(axis=1) - 1},
        {"type": "eq", "fun": lambda x: (weights @ x.reshape(m, k) - target)[:-1]},
    ]
    start = np.tile(target, m)
    result = minimize(
        change,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(1e-12, 1)] * (m * k),
        constraints=constraints,
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert result.success
    return result.x.reshape(m, k)


@parametrize("seed", range(6))
def test_no_other_members_with_this_mean_are_closer_in_relative_entropy(seed):
    rng = np.random.default_rng(seed)
    probs, weights = members(1, 3, 3, seed, 2.0), rng.dirichlet(np.full(3, 3.0))
    calibration = calibration_to(rng.dirichlet(np.full(3, 2.0)))
    target = calibration.predict_proba(probs, weights=weights)[0]
    moved = calibration.transform(probs, weights=weights).probs[0]
    expected = least_change(probs[0], target, weights)
    np.testing.assert_allclose(moved, expected, atol=1e-5)


# -- the laws of EU --------------------------------------------------------------------------------


@parametrize("dtype", ["float64", "float32"])
@parametrize("kind", ["equal", "members", "rows"])
@parametrize("k", [2, 4, 1000])
def test_equal_members_stay_equal_and_their_epistemic_uncertainty_is_zero(k, kind, dtype):
    n, m = 30, 5
    first = members(n, 1, k, concentration=0.2)
    first[0, 0] = np.eye(k)[1]
    probs = np.repeat(first, m, axis=1).astype(dtype)
    weights = weights_of(kind, n, m)
    samples = sw.Samples(probs, weights)
    moved = random_map(k, 0).transform(samples)
    expected = random_map(k, 0).predict_proba(samples).astype(dtype)
    np.testing.assert_array_equal(moved.probs, np.repeat(expected[:, None], m, axis=1))
    rules = all_rules(k) if k < 10 else ["log", "brier", "zero-one", "spherical"]
    for name, d in sw.decompose(moved, rules).items():
        assert not d.epistemic.any(), name


def test_members_without_weight_do_not_disturb_equal_ones():
    probs = np.repeat(members(40, 1, 4), 5, axis=1)
    probs[:, [1, 4]] = members(40, 2, 4, seed=1)
    probs[0, 1] = [0, 0, 0, 1]
    samples = sw.Samples(probs, [1, 0, 2, 1, 0])
    calibration = random_map(4, 0)
    moved = calibration.transform(samples)
    for d in sw.decompose(moved, RULES).values():
        assert not d.epistemic.any()
    others = sw.Samples(probs[:, [0, 2, 3]], [1, 2, 1])
    expected = calibration.transform(others).probs
    np.testing.assert_allclose(moved.probs[:, [0, 2, 3]], expected, rtol=1e-9)


@parametrize("k", [2, 5])
@parametrize("name", ["random", "sharp", "nearly equal", "one-hot"])
def test_the_parts_add_up_to_the_uncertainty_of_the_calibrated_prediction(name, k):
    make = {
        "random": members(80, 6, k),
        "sharp": members(80, 6, k, concentration=0.05),
        "nearly equal": nearly_equal(80, 6, k, 1e-6),
        "one-hot": one_hot(80, 6, k),
    }
    calibration = random_map(k, 1)
    moved = calibration.transform(make[name])
    prediction = calibration.predict_proba(make[name])
    for rule_name, rule in all_rules(k).items():
        d = sw.decompose(moved, rule)
        np.testing.assert_allclose(
            d.total, rule.entropy(prediction), atol=1e-10, rtol=1e-9, err_msg=rule_name
        )
        np.testing.assert_allclose(d.aleatoric + d.epistemic, d.total, atol=1e-10, rtol=1e-9)
        assert (d.epistemic >= 0).all()


def exact_epistemic(
    probs: np.ndarray, weights: np.ndarray, target: np.ndarray, rule: str
) -> mp.mpf:
    """EU of members (M, K) scaled onto the target, in 50 digits."""
    m, k = probs.shape
    with mp.workdps(50):
        theta = [[mp.mpf(float(x)) for x in row] for row in probs]
        w = [mp.mpf(float(x)) for x in weights]
        w = [x / sum(w) for x in w]
        t = [mp.mpf(float(x)) for x in target]
        t = [x / sum(t) for x in t]
        v = [mp.mpf(1)] * k
        for _ in range(2000):
            sums = [sum(a * b for a, b in zip(row, v, strict=True)) for row in theta]
            mean = [sum(w[i] * theta[i][j] * v[j] / sums[i] for i in range(m)) for j in range(k)]
            if max(abs(a / b - 1) for a, b in zip(mean, t, strict=True)) < mp.mpf(10) ** -40:
                break
            v = [v[j] * t[j] / mean[j] for j in range(k)]
        moved = [[theta[i][j] * v[j] / sums[i] for j in range(k)] for i in range(m)]
        if rule == "log":
            return sum(
                w[i] * moved[i][j] * mp.log(moved[i][j] / mean[j])
                for i in range(m)
                for j in range(k)
            )
        return sum(w[i] * (moved[i][j] - mean[j]) ** 2 for i in range(m) for j in range(k))


@parametrize("size", [1e-2, 1e-4, 1e-6])
@parametrize("rule", ["log", "brier"])
def test_the_tiny_epistemic_uncertainty_of_members_that_nearly_agree_is_accurate(rule, size):
    probs = nearly_equal(5, 4, 3, size)
    weights = np.array([0.1, 0.4, 0.2, 0.3])
    calibration = random_map(3, 2)
    target = calibration.predict_proba(probs, weights=weights)
    d = sw.decompose(calibration.transform(probs, weights=weights), rule)
    for i in range(5):
        expected = exact_epistemic(probs[i], weights, target[i], rule)
        assert 0 < expected < 100 * size**2
        assert float(d.epistemic[i]) == pytest.approx(float(expected), rel=1e-6)


# -- members that scaling cannot move --------------------------------------------------------------


def test_a_class_that_no_member_considers_has_one_probability_in_all_of_them():
    probs = members(40, 5, 4)
    probs[..., 2] = 0
    probs /= probs.sum(axis=-1, keepdims=True)
    calibration = calibration_by(0.3, np.array([0, 0, 6.0, 0]))
    moved = assert_moved(probs, None, calibration)
    assert (calibration.predict_proba(probs)[:, 2] > 0.01).all()
    assert (moved[..., 2] > 0).all()
    assert not calibration.mixed_rows(probs).any()
    some = [0, 1, 3]
    np.testing.assert_allclose(
        odds_ratios(moved[..., some]), odds_ratios(probs[..., some]), atol=1e-6
    )


def test_members_that_are_certain_are_mixed_with_the_prediction_and_reported():
    probs = members(6, 4, 3)
    probs[2] = np.eye(3)[[0, 0, 1, 2]]
    probs[4] = np.eye(3)[2]  # equal, so all of them become p̂
    calibration = calibration_to([0.3, 0.3, 0.4])
    np.testing.assert_array_equal(
        calibration.mixed_rows(probs), [False, False, True, False, False, False]
    )
    moved = assert_moved(probs, None, calibration)
    target = calibration.predict_proba(probs)
    np.testing.assert_array_equal(moved[4], np.tile(target[4], (4, 1)))
    # members that agree still agree, and the one that differs still differs
    np.testing.assert_array_equal(moved[2, 0], moved[2, 1])
    assert moved[2, 0, 0] > moved[2, 2, 0]
    assert moved[2, 0, 1] < moved[2, 2, 1]
    assert calibration.mixed_rows(probs).dtype == bool


def test_one_hot_members_that_have_the_right_mean_stay():
    probs = np.tile(np.eye(2), (3, 1, 1))
    moved = calibration_to([0.5, 0.5]).transform(probs).probs
    np.testing.assert_allclose(moved, probs, atol=1e-8)


@parametrize("smallest", [1e-12, 1e-100, 1e-300])
def test_tiny_probabilities_are_moved_or_mixed_without_a_warning(smallest):
    probs = np.array([[[1 - 2 * smallest, smallest, smallest], [0.2, 0.3, 0.5], [0, 1, 0]]])
    for target in ([0.1, 0.1, 0.8], [1e-30, 0.5, 0.5], [1e-90, 1e-60, 1.0]):
        assert_moved(probs, None, calibration_to(target))


# -- independence ----------------------------------------------------------------------------------


@parametrize("name", ["random", "one-hot"])
@parametrize("kind", ["equal", "rows"])
def test_a_row_is_moved_alike_in_whatever_rows_it_stands(name, kind):
    n, m, k = 9000, 5, 4  # several blocks
    probs = members(n, m, k) if name == "random" else one_hot(n, m, k)
    probs[::7] = one_hot(n, m, k, 1)[::7]
    weights = weights_of(kind, n, m)
    calibration = random_map(k, 0)
    whole = calibration.transform(sw.Samples(probs, weights)).probs
    for rows in (slice(0, 1), slice(5, 9), slice(6000, 8000), np.arange(n)[::-997]):
        samples = sw.Samples(probs, weights)[rows]
        np.testing.assert_allclose(
            calibration.transform(samples).probs, whole[rows], rtol=1e-11, atol=1e-300
        )


def test_the_order_of_members_does_not_matter():
    probs, weights = members(50, 6, 4), weights_of("members", 50, 6)
    probs[:5] = one_hot(5, 6, 4)
    order = np.random.default_rng(0).permutation(6)
    calibration = random_map(4, 0)
    expected = calibration.transform(probs, weights=weights).probs[:, order]
    ours = calibration.transform(probs[:, order], weights=weights[order]).probs
    np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-12)


@parametrize("n_threads", [1, 2])
def test_the_number_of_threads_changes_nothing(n_threads):
    probs = members(9000, 5, 4)
    calibration = random_map(4, 0)
    expected = calibration.transform(probs).probs
    before = sw.get_num_threads()
    sw.set_num_threads(n_threads)
    try:
        np.testing.assert_array_equal(calibration.transform(probs).probs, expected)
    finally:
        sw.set_num_threads(before)
