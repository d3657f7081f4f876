"""loss_calibration: bins by brute force, tests by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import scorewise as sw
from support import softmax

RULES = ("zero-one", "brier", "log", "spherical")
FLOOR = 1e-6


def drawn(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels by probabilities (n, K)."""
    return (p.cumsum(axis=-1) > rng.uniform(size=(len(p), 1))).argmax(axis=-1)


def bins_by_hand(total: np.ndarray, n_bins: int) -> list[np.ndarray]:
    """Rows of each bin: every n/n_bins rows a new one starts, with all that are tied."""
    order = sorted(range(len(total)), key=lambda i: total[i])
    starts = {int(b * len(total) / n_bins) for b in range(n_bins)}
    first = {total[order[s]] for s in starts}
    bins: list[list[int]] = []
    for position, i in enumerate(order):
        tied = position and total[order[position - 1]] == total[i]
        if total[i] in first and not tied:
            bins.append([])
        bins[-1].append(i)
    return [np.array(rows) for rows in bins]


numbers = st.sampled_from([0.0, 0.1, 0.25, 0.25, 0.5, 0.9, 1.0, 2.0])


@settings(max_examples=60)
@given(
    st.integers(1, 40).flatmap(
        lambda n: st.tuples(arrays(float, n, elements=numbers), arrays(float, n, elements=numbers))
    ),
    st.integers(1, 12),
)
def test_bins_are_of_equal_mass_and_tied_rows_stay_together(data, n_bins):
    losses, total = data
    calibration = sw.loss_calibration(losses, total, n_bins=n_bins)
    bins = bins_by_hand(total, n_bins)
    np.testing.assert_array_equal(calibration.bin_count, [len(rows) for rows in bins])
    np.testing.assert_allclose(calibration.bin_expected, [total[rows].mean() for rows in bins])
    np.testing.assert_allclose(calibration.bin_incurred, [losses[rows].mean() for rows in bins])
    assert (np.diff(calibration.bin_expected) > 0).all()
    assert calibration.expected == pytest.approx(total.mean())
    assert calibration.incurred == pytest.approx(losses.mean())
    assert calibration.gap == pytest.approx(losses.mean() - total.mean())
    assert calibration.calibration_error >= 0
    assert 0 <= calibration.p_value <= 1


def test_intervals_of_zero_one_losses_are_clopper_and_pearsons():
    rng = np.random.default_rng(0)
    total = rng.uniform(size=200)
    losses = (rng.uniform(size=200) < total).astype(float)
    losses[total < 0.2], losses[total > 0.8] = 0, 1  # bins without a loss, and full of it
    calibration = sw.loss_calibration(losses, total, confidence=0.9)
    assert calibration.bin_incurred[0] == 0
    assert calibration.bin_incurred[-1] == 1
    for low, high, realized, n in zip(
        calibration.bin_low,
        calibration.bin_high,
        calibration.bin_incurred,
        calibration.bin_count,
        strict=True,
    ):
        expected = stats.binomtest(round(realized * n), n).proportion_ci(0.9, method="exact")
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_other_intervals_are_students():
    rng = np.random.default_rng(0)
    total = rng.uniform(size=105)
    losses = total + rng.normal(size=105)
    calibration = sw.loss_calibration(losses, total, n_bins=4, confidence=0.8)
    for b, rows in enumerate(bins_by_hand(total, 4)):
        interval = stats.ttest_1samp(losses[rows], 0).confidence_interval(0.8)
        assert (calibration.bin_low[b], calibration.bin_high[b]) == pytest.approx(tuple(interval))
    interval = stats.ttest_rel(losses, total).confidence_interval(0.8)
    assert calibration.gap_interval == pytest.approx(tuple(interval))


def test_the_error_is_the_root_mean_square_gap_less_its_noise():
    rng = np.random.default_rng(0)
    total = rng.uniform(size=500)
    losses = 0.5 * total + 0.3 * rng.normal(size=500)
    squares = 0.0
    for rows in bins_by_hand(total, 10):
        gap = losses[rows] - total[rows]
        squares += len(rows) / 500 * (gap.mean() ** 2 - gap.var(ddof=1) / len(rows))
    assert sw.loss_calibration(losses, total).calibration_error == pytest.approx(np.sqrt(squares))


def naive_error(losses: np.ndarray, total: np.ndarray) -> float:
    gaps = [(len(rows), (losses - total)[rows].mean()) for rows in bins_by_hand(total, 10)]
    return float(np.sqrt(sum(n * gap**2 for n, gap in gaps) / len(total)))


def test_the_error_of_a_calibrated_model_is_near_zero_and_the_naive_one_is_not():
    rng = np.random.default_rng(0)
    corrected, naive = [], []
    for _ in range(200):
        total = rng.uniform(0, 0.5, 500)
        losses = (rng.uniform(size=500) < total).astype(float)
        corrected.append(sw.loss_calibration(losses, total).calibration_error ** 2)
        naive.append(naive_error(losses, total) ** 2)
    assert np.mean(naive) > 0.002  # an error of 0.045 that is not there
    assert np.mean(corrected) < np.mean(naive) / 3
    assert np.mean(np.equal(corrected, 0)) > 0.4


def test_the_error_of_a_miscalibrated_model_is_the_true_one():
    rng = np.random.default_rng(0)
    levels = np.linspace(0.05, 0.5, 10)
    shift = 0.15 * np.where(np.arange(10) % 2, 1, -0.3)
    true = np.mean(shift**2)
    corrected, naive = [], []
    for _ in range(300):
        which = np.repeat(np.arange(10), 60)
        losses = (rng.uniform(size=600) < levels[which] + shift[which]).astype(float)
        corrected.append(sw.loss_calibration(losses, levels[which]).calibration_error ** 2)
        naive.append(naive_error(losses, levels[which]) ** 2)
    noise = np.std(corrected) / np.sqrt(len(corrected))
    assert abs(np.mean(corrected) - true) < 3 * noise
    assert np.mean(naive) - true > 6 * noise


def exceedance(x: float) -> float:
    """P(sup |B| > x) of a Brownian motion B on [0, 1], by the series of the heat equation."""
    j = np.arange(200)
    inside = (-1.0) ** j / (2 * j + 1) * np.exp(-(((2 * j + 1) * np.pi) ** 2) / (8 * x**2))
    return float(1 - 4 / np.pi * inside.sum())


@pytest.mark.parametrize("k", [201, 206, 207, 210, 220, 230, 245, 280, 360])
def test_the_p_value_is_that_of_a_brownian_motion(k):
    """Of 400 tied rows with a total of 1/2, k losses of 1 are (k − 200)/10 standard deviations."""
    losses = np.repeat([1.0, 0.0], [k, 400 - k])
    p_value = sw.loss_calibration(losses, np.full(400, 0.5)).p_value
    assert p_value == pytest.approx(exceedance((k - 200) / 10), abs=3e-6)


def test_a_random_walk_exceeds_a_bound_as_often_as_a_brownian_motion():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(4000, 1000)), axis=1) / np.sqrt(1000)
    largest = np.abs(walk).max(axis=1)
    for x in (0.8, 1.2, 1.9):
        assert abs(np.mean(largest > x) - exceedance(x)) < 0.04
    assert exceedance(2.2414) == pytest.approx(0.05, abs=1e-4)


def rejections(n: int, draws: int, temperature: float, seed: int) -> dict[str, float]:
    """How often each rule's total is called miscalibrated, by the temperature of the truth."""
    rng = np.random.default_rng(seed)
    count = dict.fromkeys(RULES, 0)
    for _ in range(draws):
        logits = 1.5 * rng.normal(size=(n, 4))
        y = drawn(softmax(temperature * logits), rng)
        p = softmax(logits)
        for name in RULES:
            rule = sw.get_rule(name)
            losses = sw.task_losses(p[:, None], y, rule, floor=FLOOR if name == "log" else None)
            count[name] += not sw.loss_calibration(losses, rule.entropy(p)).is_calibrated
    return {name: hits / draws for name, hits in count.items()}


def test_calibrated_models_are_seldom_called_miscalibrated():
    for rule, rate in rejections(1000, 600, temperature=1.0, seed=0).items():
        assert 0.01 < rate < 0.07, (rule, rate)


def test_overconfident_models_are_called_miscalibrated():
    for rule, rate in rejections(1000, 60, temperature=0.7, seed=1).items():
        assert rate > 0.95, (rule, rate)


def test_gaps_that_cancel_on_average_are_detected():
    rng = np.random.default_rng(0)
    total = rng.uniform(0.1, 0.9, 4000)
    losses = rng.uniform(size=4000) < 0.5 + 0.3 * (total - 0.5)
    calibration = sw.loss_calibration(losses, total)
    low, high = calibration.gap_interval
    assert low < 0 < high
    assert calibration.p_value < 1e-6
    assert not calibration.is_calibrated
    assert "miscalibrated (p = " in str(calibration)


def test_a_p_value_by_hand():
    """Of 0/1 losses by the variance that the totals imply, of others by their own."""
    losses = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    total = np.array([0.1, 0.2, 0.2, 0.4, 0.7])
    sums = np.abs(np.cumsum([-0.1, 1.6, -0.4, 0.3]))
    expected = exceedance(sums.max() / np.sqrt(np.sum(total * (1 - total))))
    assert sw.loss_calibration(losses, total).p_value == pytest.approx(expected)
    gaps = 3 * losses - total
    sums = np.abs(np.cumsum([gaps[0], gaps[1] + gaps[2], gaps[3], gaps[4]]))
    variance = np.sum(gaps**2) + 2 * np.max(np.abs(gaps)) ** 2
    expected = exceedance(sums.max() / np.sqrt(variance))
    assert sw.loss_calibration(3 * losses, total).p_value == pytest.approx(expected)


def test_the_order_of_rows_changes_nothing():
    rng = np.random.default_rng(0)
    total = rng.integers(1, 8, 300) / 10  # many ties
    for losses in ((rng.uniform(size=300) < total).astype(float), rng.exponential(total)):
        first = sw.loss_calibration(losses, total)
        for _ in range(5):
            rows = rng.permutation(300)
            second = sw.loss_calibration(losses[rows], total[rows])
            for name in ("calibration_error", "p_value", "expected", "incurred", "gap_interval"):
                assert getattr(first, name) == pytest.approx(getattr(second, name), rel=1e-9), name
            for name in ("bin_expected", "bin_incurred", "bin_low", "bin_high", "bin_count"):
                np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=1e-9)


def test_a_single_row():
    calibration = sw.loss_calibration([1.0], [0.3])
    assert calibration.bin_count.tolist() == [1]
    assert calibration.gap == pytest.approx(0.7)
    assert calibration.gap_interval == (-np.inf, np.inf)
    assert calibration.bin_low[0] == pytest.approx(0.025)
    assert calibration.bin_high[0] == 1
    assert calibration.is_calibrated
    calibration = sw.loss_calibration([1.7], [0.3])
    assert (calibration.bin_low[0], calibration.bin_high[0]) == (-np.inf, np.inf)
    assert "nan" not in str(calibration)


def test_rows_that_are_all_tied_are_one_bin():
    losses = np.array([0, 1, 0, 0] * 25)
    calibration = sw.loss_calibration(losses, np.full(100, 0.25))
    assert calibration.bin_count.tolist() == [100]
    assert calibration.calibration_error == 0
    assert calibration.p_value == 1
    calibration = sw.loss_calibration(losses, np.full(100, 0.6))
    assert not calibration.is_calibrated
    error = np.sqrt(0.35**2 - losses.var(ddof=1) / 100)
    assert calibration.calibration_error == pytest.approx(error)


def test_losses_that_are_all_zero():
    nothing = np.zeros(50)
    calibration = sw.loss_calibration(nothing, nothing)
    assert (calibration.calibration_error, calibration.p_value, calibration.is_calibrated) == (
        0.0,
        1.0,
        True,
    )
    calibration = sw.loss_calibration(nothing, np.full(50, 0.3))  # underconfident
    assert calibration.gap == pytest.approx(-0.3)
    assert calibration.calibration_error == pytest.approx(0.3)
    assert not calibration.is_calibrated
    calibration = sw.loss_calibration(
        np.ones(50), nothing
    )  # a loss that was predicted to be impossible
    assert calibration.p_value == 0


def test_totals_above_one_are_not_taken_for_probabilities():
    rng = np.random.default_rng(0)
    total = rng.uniform(0.5, 3, 400)
    losses = rng.integers(2, size=400)
    calibration = sw.loss_calibration(losses, total)
    assert not calibration.is_calibrated
    assert calibration.calibration_error == pytest.approx(
        np.sqrt(np.mean((total - 0.5) ** 2)), rel=0.1
    )
    assert sw.loss_calibration(losses, np.full(400, -0.5)).p_value < 1e-6
    losses, total = np.array([1, 0, 1, 1]), np.array([0.5, 0.9, 1.1, 1.2])
    gaps = losses - total
    variance = np.sum(gaps**2) + 2 * np.max(np.abs(gaps)) ** 2
    expected = exceedance(np.abs(np.cumsum(gaps)).max() / np.sqrt(variance))
    assert sw.loss_calibration(losses, total).p_value == pytest.approx(expected)


@pytest.mark.parametrize("rule", ["log", "brier", "spherical"])
def test_a_uniform_prediction_of_balanced_classes_is_calibrated(rule):
    for k in (3, 5, 7, 10):
        p = np.full((1000, 1, k), 1 / k)
        y = np.arange(1000) % k
        calibration = sw.loss_calibration(sw.task_losses(p, y, rule), sw.decompose(p, rule).total)
        assert abs(calibration.gap) < 1e-14
        assert calibration.is_calibrated, k


@pytest.mark.parametrize(
    ("losses", "total", "options", "message"),
    [
        ([0, 1], [0.5], {}, "2 entries, total 1"),
        ([], [], {}, "losses is empty"),
        ([0, np.nan], [0, 1], {}, r"losses\[1\] is nan"),
        ([0, np.inf], [0, 1], {}, r"losses\[1\] is inf.*floor"),
        ([0, 1], [0, np.inf], {}, r"total\[1\] is inf"),
        ([0, 1], [np.nan, 0], {}, r"total\[0\] is nan"),
        ([[0, 1]], [0, 1], {}, "2 dimensions"),
        ([0, 1], [0, 1], {"n_bins": 0}, "n_bins"),
        ([0, 1], [0, 1], {"n_bins": 2.5}, "n_bins"),
        ([0, 1], [0, 1], {"confidence": 1}, "confidence"),
        (["a", "b"], [0, 1], {}, "losses"),
    ],
)
def test_bad_input_is_refused(losses, total, options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.loss_calibration(losses, total, **options)
