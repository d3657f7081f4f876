"""Is the uncertainty calibrated? Bins by brute force, tests by simulation; recalibration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import scorewise as sw
from support import all_rules, members, softmax

RULES = ("zero-one", "brier", "log", "spherical")
FLOOR = 1e-6


def drawn(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels by probabilities (n, K)."""
    return (p.cumsum(axis=-1) > rng.uniform(size=(len(p), 1))).argmax(axis=-1)


# -- bins ---------------------------------------------------------------------------------------


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
    found = sw.loss_calibration(losses, total, n_bins=n_bins)
    bins = bins_by_hand(total, n_bins)
    np.testing.assert_array_equal(found.bin_count, [len(rows) for rows in bins])
    np.testing.assert_allclose(found.bin_predicted, [total[rows].mean() for rows in bins])
    np.testing.assert_allclose(found.bin_realized, [losses[rows].mean() for rows in bins])
    assert (np.diff(found.bin_predicted) > 0).all()
    assert found.predicted == pytest.approx(total.mean())
    assert found.realized == pytest.approx(losses.mean())
    assert found.gap == pytest.approx(losses.mean() - total.mean())
    assert found.error >= 0
    assert 0 <= found.p_value <= 1


def test_intervals_of_zero_one_losses_are_clopper_and_pearsons():
    rng = np.random.default_rng(0)
    total = rng.uniform(size=200)
    losses = (rng.uniform(size=200) < total).astype(float)
    losses[total < 0.2], losses[total > 0.8] = 0, 1  # bins without a loss, and full of it
    found = sw.loss_calibration(losses, total, confidence=0.9)
    assert found.bin_realized[0] == 0
    assert found.bin_realized[-1] == 1
    for low, high, realized, n in zip(
        found.bin_low, found.bin_high, found.bin_realized, found.bin_count, strict=True
    ):
        expected = stats.binomtest(round(realized * n), n).proportion_ci(0.9, method="exact")
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_other_intervals_are_students():
    rng = np.random.default_rng(0)
    total = rng.uniform(size=105)
    losses = total + rng.normal(size=105)
    found = sw.loss_calibration(losses, total, n_bins=4, confidence=0.8)
    for b, rows in enumerate(bins_by_hand(total, 4)):
        interval = stats.ttest_1samp(losses[rows], 0).confidence_interval(0.8)
        assert (found.bin_low[b], found.bin_high[b]) == pytest.approx(tuple(interval))
    interval = stats.ttest_rel(losses, total).confidence_interval(0.8)
    assert found.gap_interval == pytest.approx(tuple(interval))


def test_the_error_is_the_root_mean_square_gap_less_its_noise():
    rng = np.random.default_rng(0)
    total = rng.uniform(size=500)
    losses = 0.5 * total + 0.3 * rng.normal(size=500)
    squares = 0.0
    for rows in bins_by_hand(total, 10):
        gap = losses[rows] - total[rows]
        squares += len(rows) / 500 * (gap.mean() ** 2 - gap.var(ddof=1) / len(rows))
    assert sw.loss_calibration(losses, total).error == pytest.approx(np.sqrt(squares))


def naive_error(losses: np.ndarray, total: np.ndarray) -> float:
    gaps = [(len(rows), (losses - total)[rows].mean()) for rows in bins_by_hand(total, 10)]
    return float(np.sqrt(sum(n * gap**2 for n, gap in gaps) / len(total)))


def test_the_error_of_a_calibrated_model_is_near_zero_and_the_naive_one_is_not():
    rng = np.random.default_rng(0)
    found, naive = [], []
    for _ in range(200):
        total = rng.uniform(0, 0.5, 500)
        losses = (rng.uniform(size=500) < total).astype(float)
        found.append(sw.loss_calibration(losses, total).error ** 2)
        naive.append(naive_error(losses, total) ** 2)
    assert np.mean(naive) > 0.002  # an error of 0.045 that is not there
    assert np.mean(found) < np.mean(naive) / 3
    assert np.mean(np.equal(found, 0)) > 0.4


def test_the_error_of_a_miscalibrated_model_is_the_true_one():
    rng = np.random.default_rng(0)
    levels = np.linspace(0.05, 0.5, 10)
    shift = 0.15 * np.where(np.arange(10) % 2, 1, -0.3)
    true = np.mean(shift**2)
    found, naive = [], []
    for _ in range(300):
        which = np.repeat(np.arange(10), 60)
        losses = (rng.uniform(size=600) < levels[which] + shift[which]).astype(float)
        found.append(sw.loss_calibration(losses, levels[which]).error ** 2)
        naive.append(naive_error(losses, levels[which]) ** 2)
    noise = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - true) < 3 * noise
    assert np.mean(naive) - true > 6 * noise


# -- the test of no miscalibration --------------------------------------------------------------


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
    found = sw.loss_calibration(losses, total)
    low, high = found.gap_interval
    assert low < 0 < high
    assert found.p_value < 1e-6
    assert not found.is_calibrated
    assert "miscalibrated (p = " in str(found)


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
        one = sw.loss_calibration(losses, total)
        for _ in range(5):
            rows = rng.permutation(300)
            two = sw.loss_calibration(losses[rows], total[rows])
            for name in ("error", "p_value", "predicted", "realized", "gap_interval"):
                assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-9), name
            for name in ("bin_predicted", "bin_realized", "bin_low", "bin_high", "bin_count"):
                np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9)


# -- awkward data -------------------------------------------------------------------------------


def test_a_single_row():
    found = sw.loss_calibration([1.0], [0.3])
    assert found.bin_count.tolist() == [1]
    assert found.gap == pytest.approx(0.7)
    assert found.gap_interval == (-np.inf, np.inf)
    assert found.bin_low[0] == pytest.approx(0.025)
    assert found.bin_high[0] == 1
    assert found.is_calibrated
    found = sw.loss_calibration([1.7], [0.3])
    assert (found.bin_low[0], found.bin_high[0]) == (-np.inf, np.inf)
    assert "nan" not in str(found)


def test_rows_that_are_all_tied_are_one_bin():
    losses = np.array([0, 1, 0, 0] * 25)
    found = sw.loss_calibration(losses, np.full(100, 0.25))
    assert found.bin_count.tolist() == [100]
    assert found.error == 0
    assert found.p_value == 1
    found = sw.loss_calibration(losses, np.full(100, 0.6))
    assert not found.is_calibrated
    error = np.sqrt(0.35**2 - losses.var(ddof=1) / 100)
    assert found.error == pytest.approx(error)


def test_losses_that_are_all_zero():
    nothing = np.zeros(50)
    found = sw.loss_calibration(nothing, nothing)
    assert (found.error, found.p_value, found.is_calibrated) == (0.0, 1.0, True)
    found = sw.loss_calibration(nothing, np.full(50, 0.3))  # underconfident
    assert found.gap == pytest.approx(-0.3)
    assert found.error == pytest.approx(0.3)
    assert not found.is_calibrated
    found = sw.loss_calibration(np.ones(50), nothing)  # a loss that was predicted to be impossible
    assert found.p_value == 0


def test_totals_above_one_are_not_taken_for_probabilities():
    rng = np.random.default_rng(0)
    total = rng.uniform(0.5, 3, 400)
    losses = rng.integers(2, size=400)
    found = sw.loss_calibration(losses, total)
    assert not found.is_calibrated
    assert found.error == pytest.approx(np.sqrt(np.mean((total - 0.5) ** 2)), rel=0.1)
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
        found = sw.loss_calibration(sw.task_losses(p, y, rule), sw.decompose(p, rule).total)
        assert abs(found.gap) < 1e-14
        assert found.is_calibrated, k


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


# -- losses -------------------------------------------------------------------------------------


def test_task_losses_are_those_of_the_mean():
    probs, weights = members(40, 5, 4), np.array([1.0, 0.0, 2.0, 3.0, 0.5])
    y = np.arange(40) % 4
    mean = np.average(probs, axis=1, weights=weights)
    dirichlet = sw.Dirichlet(10 * probs[:, 0] + 0.1)
    for name, rule in all_rules(4).items():
        got = sw.task_losses(probs, y, rule, weights=weights)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, rule.loss(mean, y), rtol=1e-9, err_msg=name)
        again = sw.task_losses(sw.Samples(probs, weights=weights), y, rule)
        np.testing.assert_array_equal(got, again)
        got = sw.task_losses(dirichlet, y, rule)
        alpha = np.asarray(dirichlet.alpha)
        expected = rule.loss(alpha / alpha.sum(axis=-1, keepdims=True), y)
        np.testing.assert_allclose(got, expected, rtol=1e-9, err_msg=name)
    np.testing.assert_array_equal(sw.task_losses(probs, y), sw.task_losses(probs, y, "zero-one"))
    logits = np.log(probs)
    got = sw.task_losses(logits.transpose(1, 0, 2), y, "brier", from_logits=True, member_axis=0)
    np.testing.assert_allclose(got, sw.task_losses(probs, y, "brier"), rtol=1e-9)


def test_the_mean_loss_of_a_calibrated_model_is_its_total():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 20_000)
    y = drawn(p, rng)
    for name, rule in all_rules(4).items():
        gap = sw.task_losses(p[:, None], y, rule) - sw.decompose(p[:, None], rule).total
        assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(gap)), name


def test_task_losses_of_every_array_library(xp):
    probs, y = members(10, 3, 4), np.arange(10) % 4
    got = sw.task_losses(xp.asarray(probs), xp.asarray(y), "log")
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, sw.task_losses(probs, y, "log"), rtol=1e-12)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("floor", [1e-12, 1e-6, 0.01, 0.19])
def test_a_floor_bounds_the_log_loss_at_exactly_minus_its_logarithm(k, floor):
    sure = np.eye(k)[:, None]
    wrong = np.roll(np.arange(k), 1)
    assert np.isinf(sw.task_losses(sure, wrong, "log")).all()
    np.testing.assert_array_equal(sw.task_losses(sure, wrong, "log", floor=floor), -np.log(floor))
    assert sw.rules.log.largest_loss(k, floor) == -np.log(floor)
    right = sw.task_losses(sure, np.arange(k), "log", floor=floor)
    np.testing.assert_allclose(right, -np.log1p(-(k - 1) * floor), rtol=1e-9, atol=1e-15)
    probs, y = members(50, 3, k, concentration=0.1), np.arange(50) % k
    mean = (1 - k * floor) * probs.mean(axis=1) + floor
    got = sw.task_losses(probs, y, "log", floor=floor)
    np.testing.assert_allclose(got, -np.log(mean[np.arange(50), y]), rtol=1e-10)
    assert got.max() <= -np.log(floor)
    got = sw.task_losses(probs, y, "zero-one", floor=floor)
    np.testing.assert_array_equal(got, sw.task_losses(probs, y, "zero-one"))


@pytest.mark.parametrize("rule", ["log", "brier", "spherical", "tsallis:1.5"])
def test_losses_of_single_precision_are_above_the_largest_by_rounding_alone(rule):
    p = np.concatenate([members(1000, 1, 5, concentration=0.05)[:, 0], np.eye(5)])
    p = p.astype(np.float32)[:, None]
    for floor in (1e-6, 1e-3):
        for label in range(5):
            losses = sw.task_losses(p, np.full(len(p), label), rule, floor=floor)
            assert losses.max() <= sw.get_rule(rule).largest_loss(5, floor) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": [0, 1]}, r"\(2,\).*\(3,\)"),
        ({"y": [0, 1, 4]}, r"labels\[2\] is 4"),
        ({"y": [0, 1, -1]}, r"labels\[2\] is -1"),
        ({"y": [0.0, 1.0, 2.0]}, "integer"),
        ({"floor": 0}, "above 0 and below 1/4"),
        ({"floor": 0.25}, "above 0 and below 1/4"),
        ({"floor": -1e-6}, "above 0"),
        ({"floor": np.nan}, "floor must be a finite number"),
        ({"rule": "nope"}, "no rule is called"),
        ({"predictions": members(2, 3, 4)[0]}, "one row"),
        ({"predictions": members(6, 3, 4).reshape(3, 2, 3, 4)}, "reshape arrays with more axes"),
        (
            {"predictions": sw.Samples(members(3, 3, 4)), "weights": [1, 1, 1]},
            "weights: not an option",
        ),
        ({"predictions": sw.Dirichlet(np.ones((3, 4))), "from_logits": True}, "not an option"),
        ({"predictions": members(3, 3, 4) * 2}, "sum"),
    ],
)
def test_bad_predictions_labels_and_floors_are_refused(given, message):
    full = {"predictions": members(3, 3, 4), "y": [0, 1, 2], **given}
    with pytest.raises(sw.InvalidInput, match=message):
        sw.task_losses(**full)


# -- recalibration ------------------------------------------------------------------------------


def too_sure(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Totals that are half of what they should be, and losses of 0 and 1."""
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0, 0.8, n)
    return chance / 2, (rng.uniform(size=n) < chance).astype(float)


def test_the_map_never_falls_and_is_level_beyond_what_was_seen():
    total, losses = too_sure(400)
    recalibrator = sw.LossRecalibrator(random_state=0).fit(total[:, None], losses)
    x = np.linspace(total.min(), total.max(), 1000)
    mapped = recalibrator.transform(x[:, None])[:, 0]
    assert (np.diff(mapped) >= 0).all()
    assert mapped[-1] - mapped[0] > 0.5
    outside = recalibrator.transform([[-5.0], [total.min()], [total.max()], [99.0]])[:, 0]
    assert outside[0] == outside[1]
    assert outside[2] == outside[3]
    assert losses.min() <= mapped.min() <= mapped.max() <= losses.max()


def test_it_is_the_mean_of_isotonic_maps_that_each_leave_out_a_fold():
    total, losses = too_sure(200)
    recalibrator = sw.LossRecalibrator(cv=4, random_state=0).fit(total[:, None], losses)
    assert [len(maps) for maps in recalibrator.maps_] == [4]
    expected = np.mean([m.predict(total) for m in recalibrator.maps_[0]], axis=0)
    np.testing.assert_allclose(recalibrator.transform(total[:, None])[:, 0], expected)


def test_an_overconfident_total_is_recalibrated_on_other_rows():
    total, losses = too_sure()
    fit, rest = slice(0, 2000), slice(2000, None)
    recalibrator = sw.LossRecalibrator(random_state=0).fit(total[fit, None], losses[fit])
    recalibrated = recalibrator.transform(total[rest, None])[:, 0]
    before = sw.loss_calibration(losses[rest], total[rest])
    after = sw.loss_calibration(losses[rest], recalibrated)
    assert before.error > 0.15
    assert after.error < 0.05
    assert abs(after.gap) < 0.04
    # the order is kept up to ties, and so is what it is good for
    order = np.argsort(total[rest])
    assert (np.diff(recalibrated[order]) >= 0).all()
    one, two = (sw.aulc(losses[rest], u) for u in (total[rest], recalibrated))
    assert two == pytest.approx(one, rel=0.02)
    assert one < 0.8 * losses.mean()


def test_cross_fitted_rows_never_saw_their_own_loss():
    total, losses = too_sure(300)
    recalibrator = sw.LossRecalibrator(random_state=7)
    plain = recalibrator.cross_fit(total[:, None], losses)
    for row in (0, 131, 299):
        heavy = losses.copy()
        heavy[row] = 1e6
        mapped = sw.LossRecalibrator(random_state=7).cross_fit(total[:, None], heavy)
        assert mapped[row, 0] == plain[row, 0]
        assert mapped.max() > 1e3  # others did see it
        seen = sw.LossRecalibrator(random_state=7).fit(total[:, None], heavy)
        assert seen.transform(total[[row], None])[0, 0] > 1e3


def test_cross_fitting_measures_without_flattery():
    """Isotonic maps of pure noise look good on their own rows; cross-fitted ones do not."""
    rng = np.random.default_rng(0)
    on_itself, cross_fitted = [], []
    for seed in range(30):
        total, losses = rng.uniform(size=60), rng.normal(size=60)
        recalibrator = sw.LossRecalibrator(random_state=seed)
        cross_fitted.append(
            np.mean((recalibrator.cross_fit(total[:, None], losses)[:, 0] - losses) ** 2)
        )
        on_itself.append(np.mean((recalibrator.transform(total[:, None])[:, 0] - losses) ** 2))
    assert np.mean(cross_fitted) > 1
    assert np.mean(on_itself) < 0.97


def test_a_seed_gives_the_same_map_and_columns_are_mapped_by_themselves():
    total, losses = too_sure(200)
    both = np.stack([total, 1 - total], axis=1)
    one = sw.LossRecalibrator(random_state=3).fit(both, losses).transform(both)
    two = sw.LossRecalibrator(random_state=3).fit(both, losses).transform(both)
    np.testing.assert_array_equal(one, two)
    alone = sw.LossRecalibrator(random_state=3).fit(both[:, :1], losses).transform(both[:, :1])
    np.testing.assert_array_equal(one[:, 0], alone[:, 0])
    other = sw.LossRecalibrator(random_state=4).fit(both, losses).transform(both)
    assert not np.array_equal(one, other)


def test_few_rows_and_bad_losses():
    recalibrator = sw.LossRecalibrator(random_state=0).fit([[0.1], [0.2]], [0.0, 1.0])
    assert len(recalibrator.maps_[0]) == 2
    for y in ([0.0, np.nan], [0.0, np.inf]):
        with pytest.raises(ValueError, match=r"NaN|nan|inf"):
            sw.LossRecalibrator().fit([[0.1], [0.2]], y)
    with pytest.raises(ValueError, match=r"minimum of 2|at least two|1 sample"):
        sw.LossRecalibrator().fit([[0.1]], [0.0])
    with pytest.raises(sw.InvalidInput, match="cv"):
        sw.LossRecalibrator(cv=1).fit([[0.1], [0.2]], [0.0, 1.0])
    with pytest.raises(ValueError, match="features"):
        recalibrator.transform([[0.1, 0.2]])
