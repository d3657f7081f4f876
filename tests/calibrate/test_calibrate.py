"""fit_calibration: which method is chosen, what is reported, what is transformed, and files."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import scorewise as sw
from calibrate_support import draw_labels, scaled, simulated
from io_support import set_chunk_bytes
from scorewise.calibrate import METHODS
from support import members, own_brier

parametrize = pytest.mark.parametrize
SHIFT = np.array([1.0, -1.0, 0.5, 0.0])
MIX = np.eye(4) + 0.8 * np.roll(np.eye(4), 1, axis=0)
NAMES = ["well", "doubtful", "ill", "dead"]
COSTS = sw.rules.cost_matrix(np.arange(16).reshape(4, 4))
SAMPLES, Y = simulated(600, 4, 0.5)
PROBS = SAMPLES.probs
FITTED = {method: sw.fit_calibration(SAMPLES, Y, method=method) for method in METHODS}


# -- which method ----------------------------------------------------------------------------------


@parametrize(
    ("weights", "bias", "methods"),
    [
        (1.0, 0.0, {"none"}),
        (0.5, 0.0, {"temperature"}),
        (2.0, 0.0, {"temperature"}),
        (1.0, SHIFT, {"vector"}),
        (MIX, 0.0, {"matrix"}),
    ],
    ids=["calibrated", "overconfident", "underconfident", "shifted", "mixed"],
)
@parametrize("rule", ["log", "brier", "zero-one"])
def test_auto_takes_the_simplest_method_that_is_right(weights, bias, methods, rule):
    chosen = Counter(
        sw.fit_calibration(*simulated(1500, 4, weights, bias, seed=seed), task_loss=rule).method
        for seed in range(5)
    )
    assert sum(chosen[method] for method in methods) >= 4, chosen


@parametrize(
    ("n", "n_classes", "n_methods"),
    [(49, 4, 1), (50, 4, 2), (99, 4, 2), (100, 100, 4), (200, 101, 3)],
)
def test_auto_tries_what_so_many_rows_of_so_many_classes_can_decide(n, n_classes, n_methods):
    scores = sw.fit_calibration(*simulated(n, n_classes)).scores
    assert tuple(score.method for score in scores) == METHODS[:n_methods]


def test_few_rows_are_left_as_they_are():
    calibration = sw.fit_calibration(*simulated(40, 4, 0.2))
    assert calibration.method == "none"
    assert repr(calibration).endswith("; fewer than 50 are too few to choose a method.")


def test_a_loss_of_decisions_is_chosen_for_by_log_and_reported_by_itself():
    """Temperatures do not change labels, and yet the probabilities are worth calibrating."""
    calibration = sw.fit_calibration(*simulated(1500, 4, 0.5), task_loss="zero-one")
    assert calibration.method == "temperature"
    assert calibration.chosen_by == "log"
    assert calibration.score.gain_interval[0] > 0
    assert calibration.task_loss == "zero-one"
    assert calibration.task_scores[1].gain == 0
    assert calibration.task_scores[1].gain_interval == (0, 0)
    error = f"{100 * calibration.task_scores[0].loss:.3g} %"
    assert repr(calibration).startswith("Temperature scaling by 2.05: on 1,500 rows the mean log ")
    assert repr(calibration).endswith(f"The mean error is {error}, with and without it.")


def test_a_changed_loss_of_decisions_is_in_percentage_points():
    calibration = sw.fit_calibration(*simulated(1500, 4, 1.0, 2 * SHIFT), task_loss="zero-one")
    assert calibration.method == "vector"
    _, score = (x for x in calibration.task_scores if x.method in ("none", "vector"))
    low, high = (100 * x for x in score.gain_interval)
    assert repr(calibration).endswith(
        f"calibrating lowers it to {100 * score.loss:.3g} %, by {100 * score.gain:.3g} "
        f"[{low:.3g}, {high:.3g}] percentage points (cross-validated)."
    )


def test_a_method_that_raises_the_loss_of_decisions_is_not_taken():
    """The line through the log odds of most rows gives the rest the wrong labels."""
    rng = np.random.default_rng(0)
    group = rng.choice(3, size=4000, p=[0.5, 0.4, 0.1])
    p, truth = np.array([0.02, 0.4, 0.7])[group], np.array([0.3, 0.1, 0.7])[group]
    samples, y = sw.binary(p)[:, None], (rng.uniform(size=4000) < truth).astype(int)
    assert sw.fit_calibration(samples, y).method == "vector"
    calibration = sw.fit_calibration(samples, y, task_loss="zero-one")
    harmful = [score.method for score in calibration.task_scores if score.gain_interval[1] < 0]
    assert harmful == ["vector", "matrix"]
    assert calibration.method == "temperature"


def test_it_says_where_only_harmful_methods_would_gain():
    calibration = replace(
        FITTED["vector"], method="none", task_loss="zero-one", unit=sw.get_rule("zero-one").unit
    )
    assert FITTED["vector"].score.gain_interval[0] > 0
    assert "(cross-validated), but raise the mean error. The mean error is" in repr(calibration)


@parametrize("method", METHODS)
def test_a_method_may_be_chosen_and_is_compared_with_none(method):
    calibration = FITTED[method]
    assert calibration.method == calibration.score.method == method
    assert [score.method for score in calibration.scores] == list(dict.fromkeys(["none", method]))
    assert calibration.scores[0].gain == 0
    assert calibration.n_rows == 600
    assert calibration.n_classes == 4


# -- what is reported ------------------------------------------------------------------------------


@parametrize(
    "rule", ["log", "brier", "zero-one", sw.rules.cost_matrix(np.arange(16).reshape(4, 4))]
)
def test_scores_are_losses_of_rows_that_were_not_fitted(rule):
    """By hand, for as many folds as rows, which needs no order."""
    samples, y = SAMPLES[:30], Y[:30]
    calibration = sw.fit_calibration(samples, y, method="vector", task_loss=rule, cv=1000)
    before = sw.task_losses(samples, y, rule, floor=1e-6)
    after = np.empty(30)
    for i in range(30):
        others = np.arange(30) != i
        fitted = sw.fit_calibration(samples[others], y[others], method="vector")
        p = fitted.predict_proba(samples[[i]])
        [after[i]] = sw.task_losses(p[:, None], y[[i]], rule, floor=1e-6)
    none, vector = calibration.task_scores
    assert none.loss == pytest.approx(before.mean(), abs=1e-12)
    assert vector.loss == pytest.approx(after.mean(), rel=1e-6)
    assert vector.gain == pytest.approx((before - after).mean(), abs=1e-6)
    half = 1.959964 * np.std(before - after, ddof=1) / np.sqrt(30)
    np.testing.assert_allclose(vector.gain_interval, vector.gain + half * np.array([-1, 1]), 1e-4)


def test_intervals_contain_the_gain_about_as_often_as_they_state():
    rng = np.random.default_rng(1)
    new = rng.dirichlet(np.ones(3), 20_000)
    truth = scaled(new, 0.6)

    def expected_loss(p: np.ndarray) -> float:
        return float(-(truth * np.log(p)).sum(axis=1).mean())

    n_draws, hits = 200, 0
    for _ in range(n_draws):
        p = rng.dirichlet(np.ones(3), 1000)
        calibration = sw.fit_calibration(
            p[:, None], draw_labels(scaled(p, 0.6), rng), method="temperature"
        )
        gain = expected_loss(new) - expected_loss(calibration.predict_proba(new[:, None]))
        low, high = calibration.score.gain_interval
        hits += low <= gain <= high
    # the losses are skewed, so the intervals fall a little short
    assert binom.cdf(hits, n_draws, 0.93) > 1e-3, hits
    assert binom.sf(hits - 1, n_draws, 0.97) > 1e-3, hits


def test_it_says_what_it_gains():
    text = repr(FITTED["temperature"])
    score = FITTED["temperature"].score
    assert text.startswith("Temperature scaling by 1.94: on 600 rows the mean log loss is ")
    assert f"lowers it to {score.loss:.4g}, by {score.gain:.4g} [" in text
    assert repr(FITTED["none"]).startswith("Predictions are left as they are: on 600 rows")
    harm = sw.fit_calibration(*simulated(20, 4), method="vector")
    assert "calibrating raises it to" in repr(harm)
    assert harm.score.gain < 0
    left = sw.fit_calibration(*simulated(300, 4))
    assert left.method == "none"
    best = min(left.scores[1:], key=lambda score: score.loss)
    verb = "would lower" if best.gain > 0 else "would raise"
    assert f", and {best.method} scaling {verb} it to {best.loss:.4g}" in repr(left)
    assert repr(left).endswith("which may be chance.") == (best.gain > 0)


def reordered(samples: sw.Samples, order: list[int]) -> sw.Samples:
    return sw.Samples(samples.probs[..., order])


def test_classes_in_another_order_are_noticed():
    """A matrix would mend them, with a splendid gain."""
    with pytest.warns(sw.errors.ScorewiseWarning, match="if the classes were in another order"):
        calibration = sw.fit_calibration(reordered(SAMPLES, [3, 2, 1, 0]), Y)
    assert calibration.score.gain > 1


def test_labels_of_other_rows_are_noticed():
    y = np.random.default_rng(0).permutation(Y)
    with pytest.warns(sw.errors.ScorewiseWarning, match="no better than the frequencies of the cl"):
        sw.fit_calibration(SAMPLES, y)


@parametrize("method", ["auto", "matrix"])
def test_labels_of_one_class_are_noticed(method):
    with pytest.warns(sw.errors.ScorewiseWarning, match="all 600 rows have the same label, which"):
        calibration = sw.fit_calibration(SAMPLES, np.full(600, 2), method=method)
    assert calibration.method == ("none" if method == "auto" else "matrix")


def test_calibrating_lowers_the_loss_of_new_rows_and_makes_totals_what_is_incurred():
    samples, y = simulated(6000, 4, MIX, SHIFT, seed=3)
    calibration = sw.fit_calibration(samples[:3000], y[:3000])
    new, y_new = samples[3000:], y[3000:]
    moved = calibration.transform(new)
    for rule in ("log", "brier", "zero-one", "spherical"):
        before, after = (sw.task_losses(x, y_new, rule).mean() for x in (new, moved))
        assert after < before
        total = sw.decompose(moved, rule).total
        assert sw.loss_calibration(sw.task_losses(moved, y_new, rule), total).p_value > 1e-3
    wrong = sw.loss_calibration(sw.task_losses(new, y_new, "log"), sw.decompose(new, "log").total)
    assert wrong.p_value < 1e-6


def test_rows_that_must_be_mixed_are_reported():
    rng = np.random.default_rng(0)
    votes = np.eye(3)[rng.integers(3, size=(400, 5))]
    probs = np.concatenate([votes[:100], members(300, 5, 3)])
    y = draw_labels(scaled(np.maximum(probs.mean(1), 1e-6), 0.5, [0.5, 0, -0.5]), rng)
    calibration = sw.fit_calibration(probs, y, method="matrix")
    assert calibration.mixed_share == calibration.mixed_rows(probs).mean() > 0.1
    assert "cannot be moved to the calibrated prediction and are mixed with 1 %" in repr(
        calibration
    )
    assert FITTED["matrix"].mixed_share == 0
    assert "mixed" not in repr(FITTED["matrix"])
    assert not FITTED["none"].mixed_rows(probs[..., [0, 1, 2, 2]] / 2, normalize=True).any()


# -- transform -------------------------------------------------------------------------------------


@parametrize("method", METHODS)
def test_the_mean_of_the_transformed_members_is_predict_proba(method):
    calibration = FITTED[method]
    moved = calibration.transform(SAMPLES)
    assert isinstance(moved, sw.Samples)
    np.testing.assert_allclose(
        moved.probs.mean(axis=1), calibration.predict_proba(PROBS), atol=1e-12
    )
    if method == "none":
        np.testing.assert_array_equal(moved.probs, PROBS)
    assert calibration.predict_proba(PROBS).dtype == np.float64


@parametrize("dtype", ["float64", "float32"])
def test_arrays_of_every_library(xp, dtype):
    calibration = FITTED["matrix"]
    values = PROBS.astype(dtype)
    expected = calibration.transform(values).probs
    array = xp.asarray(values)
    for predictions in (array, sw.Samples(array)):
        moved = calibration.transform(predictions)
        assert xp.owns(moved.probs)
        assert str(moved.probs.dtype).endswith(dtype)
        tolerance = 1e-13 if dtype == "float64" else 1e-6
        np.testing.assert_allclose(xp.to_numpy(moved.probs), expected, atol=tolerance)
        mean = calibration.predict_proba(predictions)
        np.testing.assert_allclose(mean, calibration.predict_proba(values), atol=1e-12)
    np.testing.assert_array_equal(xp.to_numpy(array), values)
    fitted = sw.fit_calibration(array, Y, method="matrix")
    np.testing.assert_allclose(fitted.weights, calibration.weights, atol=1e-2)


@parametrize("xp", ["torch", "jax"], indirect=True)
def test_a_rule_of_the_user_gets_arrays_of_the_library_of_the_predictions(xp):
    calibration = sw.fit_calibration(xp.asarray(PROBS), Y, task_loss=own_brier(xp.name))
    expected = sw.fit_calibration(PROBS, Y, task_loss="brier")
    assert calibration.method == expected.method
    assert calibration.score.loss == pytest.approx(expected.score.loss, abs=1e-5)


def test_logits_members_in_front_and_lists_of_members():
    calibration = FITTED["vector"]
    expected = calibration.transform(PROBS).probs
    logits = np.log(PROBS) + 3
    from_logits = calibration.transform(logits, from_logits=True)
    np.testing.assert_allclose(from_logits.probs, expected, atol=1e-12)
    in_front = calibration.transform(np.moveaxis(PROBS, 1, 0), member_axis=0)
    np.testing.assert_allclose(in_front.probs, expected, atol=1e-12)
    fitted = sw.fit_calibration(logits, Y, from_logits=True, method="vector")
    np.testing.assert_allclose(fitted.weights, calibration.weights, atol=1e-6)
    listed = sw.fit_calibration(list(np.moveaxis(PROBS, 1, 0)), Y, method="vector")
    np.testing.assert_allclose(listed.weights, calibration.weights, atol=1e-6)


@parametrize("shape", [(4,), (600, 4)])
def test_weights_of_members_count(shape):
    weights = np.random.default_rng(0).uniform(0.1, 2, shape)
    samples = sw.Samples(PROBS, weights)
    calibration = sw.fit_calibration(samples, Y, method="matrix")
    by_mean = sw.fit_calibration(samples.mean[:, None], Y, method="matrix")
    np.testing.assert_allclose(calibration.weights, by_mean.weights, atol=1e-6)
    moved = calibration.transform(PROBS, weights=weights)
    np.testing.assert_allclose(moved.mean, calibration.predict_proba(samples), atol=1e-12)
    np.testing.assert_allclose(moved.weights, samples.weights)
    assert np.abs(moved.mean - FITTED["matrix"].transform(PROBS).mean).max() > 1e-3


def test_half_precision_computes_in_single():
    moved = FITTED["matrix"].transform(PROBS.astype(np.float16))
    assert moved.probs.dtype == np.float32
    expected = FITTED["matrix"].transform(PROBS).probs
    np.testing.assert_allclose(moved.probs, expected, atol=0.01)


def test_predictions_and_files_in_chunks(tmp_path, monkeypatch):
    predictions = sw.io.Predictions(PROBS, labels=Y, class_names=NAMES)
    calibration = sw.fit_calibration(predictions, method="matrix")
    np.testing.assert_array_equal(calibration.weights, FITTED["matrix"].weights)
    assert calibration.class_names == tuple(NAMES)
    whole = calibration.transform(predictions)
    np.testing.assert_array_equal(whole.classes_, NAMES)
    sw.write_predictions(tmp_path / "rows.parquet", predictions)
    set_chunk_bytes(monkeypatch, 70 * 4 * 4 * 8)
    chunks = list(sw.read_predictions(tmp_path / "rows.parquet").chunks())
    assert len(chunks) > 3
    probs = np.concatenate([calibration.transform(chunk).probs for chunk in chunks])
    np.testing.assert_allclose(probs, whole.probs, rtol=1e-12)


@parametrize("by_row", [False, True])
def test_a_file_is_fitted_a_part_at_a_time(tmp_path, monkeypatch, by_row):
    weights = np.random.default_rng(0).uniform(0.1, 1, size=(600, 4) if by_row else 4)
    path = tmp_path / "rows.parquet"
    votes = np.eye(4)[PROBS.argmax(axis=-1)]
    probs = np.where(np.arange(600)[:, None, None] % 5, PROBS, votes)  # a fifth must be mixed
    sw.write_predictions(path, probs=probs, labels=Y, weights=weights, class_names=NAMES)
    whole = sw.fit_calibration(probs, Y, weights=weights, class_names=NAMES)
    assert whole.mixed_share > 0.05
    set_chunk_bytes(monkeypatch, 70 * 4 * 4 * 8)
    in_parts = sw.fit_calibration(sw.read_predictions(path))
    assert in_parts.to_dict() == whole.to_dict()


def test_no_rows_are_no_rows():
    empty = PROBS[:0]
    assert FITTED["matrix"].transform(empty).probs.shape == (0, 4, 4)
    assert FITTED["matrix"].predict_proba(empty).shape == (0, 4)
    assert FITTED["matrix"].mixed_rows(empty).shape == (0,)


def test_nothing_that_is_passed_is_changed():
    probs, y, weights = PROBS.copy(), Y.copy(), np.arange(1.0, 5)
    calibration = sw.fit_calibration(probs, y, method="matrix", weights=weights)
    state = copy.deepcopy(calibration.to_dict())
    calibration.transform(probs, weights=weights)
    calibration.predict_proba(probs, weights=weights)
    np.testing.assert_array_equal(probs, PROBS)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(weights, np.arange(1.0, 5))
    assert calibration.to_dict() == state


# -- classes ---------------------------------------------------------------------------------------


def test_labels_may_be_names_of_classes():
    by_name = sw.fit_calibration(PROBS, np.array(NAMES)[Y], class_names=NAMES)
    by_index = sw.fit_calibration(PROBS, Y)
    np.testing.assert_array_equal(by_name.weights, by_index.weights)
    assert by_name.class_names == tuple(NAMES)
    assert by_index.class_names is None
    numbers = sw.fit_calibration(PROBS, Y + 1, class_names=[1, 2, 3, 4], labels_are="names")
    np.testing.assert_array_equal(numbers.weights, by_index.weights)


def test_predictions_of_other_classes_are_refused():
    calibration = sw.fit_calibration(PROBS, Y, class_names=NAMES)
    for use in (calibration.transform, calibration.predict_proba, calibration.mixed_rows):
        with pytest.raises(sw.InvalidInput, match=r"have 3 classes, and .* was fitted on 4"):
            use(members(5, 2, 3))
        with pytest.raises(sw.InvalidInput, match=r"class 0 is called 'dead' .* calibration"):
            use(PROBS, class_names=NAMES[::-1])
        with pytest.raises(sw.InvalidInput, match=r"have no class names, .* pass class_names="):
            use(PROBS)
        use(PROBS, class_names=NAMES)
    FITTED["vector"].transform(PROBS, class_names=NAMES)  # fitted without names


def test_costs_in_another_order_are_those_of_the_classes():
    import pandas as pd

    costs = np.array([[0, 1, 2, 3], [4, 0, 1, 2], [9, 4, 0, 1], [20, 9, 4, 0]])
    frame = pd.DataFrame(costs, NAMES, NAMES).iloc[::-1]
    named = sw.fit_calibration(PROBS, Y, task_loss=frame, class_names=NAMES)
    plain = sw.fit_calibration(PROBS, Y, task_loss=sw.rules.cost_matrix(costs))
    assert named.method == plain.method
    assert named.score.loss == pytest.approx(plain.score.loss)


# -- bad input -------------------------------------------------------------------------------------


@parametrize(
    ("change", "message"),
    [
        ({"samples": sw.Dirichlet(np.ones((600, 4)))}, "must have members"),
        ({"samples": PROBS[:1], "y": Y[:1]}, "there is one row; calibration needs at least two"),
        ({"samples": PROBS[:0], "y": Y[:0]}, "no rows"),
        ({"samples": PROBS[:, 0]}, "two axes"),
        ({"samples": 2 * PROBS}, r"sums to 2"),
        ({"y": None}, "no labels"),
        ({"y": Y[:5]}, r"labels have shape \(5,\) for 600 rows"),
        ({"y": Y + 4}, r"labels\[0\] is "),
        ({"floor": 0}, "floor is 0; it must be above 0 and below 1/4"),
        ({"floor": 0.25}, "floor is 0.25"),
        ({"floor": np.nan}, "floor"),
        ({"method": "platt"}, "method must be one of 'auto', 'none', 'temperature', 'vector', 'm"),
        ({"cv": 1}, "cv must be a whole number from 2 on, not 1"),
        ({"cv": 2.5}, "cv must be a whole number from 2 on, not 2.5"),
        ({"task_loss": "nonsense"}, "no rule is called 'nonsense'"),
        ({"task_loss": "beta:1,1"}, "2 classes"),
        ({"nonsense": 1}, "no option 'nonsense'"),
    ],
)
def test_arguments_that_are_wrong_are_refused(change, message):
    options = {"samples": PROBS, "y": Y} | change
    with pytest.raises(sw.InvalidInput, match=message):
        sw.fit_calibration(options.pop("samples"), options.pop("y"), **options)


def test_predictions_that_are_no_members_are_not_transformed():
    for use in (FITTED["matrix"].transform, FITTED["matrix"].predict_proba):
        with pytest.raises(sw.InvalidInput, match="must have members"):
            use(sw.Dirichlet(np.ones((5, 4))))
        with pytest.raises(sw.InvalidInput, match="sums to 2"):
            use(2 * PROBS)


# -- hard cases ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
@parametrize("method", ["auto", "temperature", "vector"])
def test_a_thousand_classes_of_few_rows(method):
    samples, y = simulated(250, 1000, 0.5, m=3)
    calibration = sw.fit_calibration(samples, y, method=method)
    assert np.isfinite(calibration.weights).all()
    assert np.isfinite(calibration.bias).all()
    assert (calibration.score.gain > 0) == (method != "vector"), (
        "250 rows are too few for 2,000 numbers"
    )
    moved = calibration.transform(samples[:20])
    np.testing.assert_allclose(moved.mean, calibration.predict_proba(samples[:20]), atol=1e-12)


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")
@parametrize("method", ["auto", *METHODS])
def test_equal_predictions_in_all_rows(method):
    y = np.repeat([0, 1, 2], [60, 30, 10])
    calibration = sw.fit_calibration(np.full((100, 3, 3), 1 / 3), y, method=method)
    assert np.isfinite(calibration.weights).all()
    assert np.isfinite([score.loss for score in calibration.scores]).all()
    if method == "auto":
        assert calibration.method in ("vector", "matrix"), "the classes are not equally frequent"


@parametrize("method", ["auto", *METHODS])
def test_two_rows(method):
    calibration = sw.fit_calibration(PROBS[:2], Y[:2], method=method)
    assert np.isfinite(calibration.predict_proba(PROBS)).all()
    assert np.isfinite([score.loss for score in calibration.scores]).all()


def test_a_label_of_probability_zero_has_a_finite_loss():
    probs = np.eye(3)[[0, 1, 2] * 20][:, None]
    y = np.array([0, 1, 2] * 20)
    y[0] = 1
    calibration = sw.fit_calibration(probs, y)
    assert calibration.scores[0].loss == pytest.approx(-np.log(1e-6) / 60, rel=1e-3)
    y[:20] = [1, 2, 0, 0] * 5
    assert sw.fit_calibration(probs, y).score.gain > 1


# -- repeatability ---------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_and_another_other_folds():
    first, again, other = (
        sw.fit_calibration(PROBS, Y, random_state=seed).to_dict() for seed in (0, 0, 1)
    )
    assert first == again
    assert first["weights"] == other["weights"]
    assert first["scores"] != other["scores"]


def test_the_number_of_threads_changes_nothing():
    before = sw.get_num_threads()
    results = []
    try:
        for n_threads in (1, 2):
            sw.set_num_threads(n_threads)
            results.append(sw.fit_calibration(PROBS, Y).to_dict())
    finally:
        sw.set_num_threads(before)
    assert results[0] == results[1]


# -- files -----------------------------------------------------------------------------------------


@parametrize("method", METHODS)
def test_a_loaded_calibration_is_the_saved_one(tmp_path, method):
    names = ["<b>", "ü\u202e", "c" * 100, ""]
    calibration = sw.fit_calibration(
        PROBS, Y, method=method, class_names=names, task_loss="brier", floor=1e-7 / 3
    )
    calibration.save(tmp_path / "calibration.json")
    again = sw.load_calibration(tmp_path / "calibration.json")
    assert again.to_dict() == calibration.to_dict()
    assert repr(again) == repr(calibration)
    for name in ("weights", "bias"):
        np.testing.assert_array_equal(getattr(again, name), getattr(calibration, name))
    assert again.class_names == tuple(names)
    assert (again.unit, again.scores, again.floor) == (
        calibration.unit,
        calibration.scores,
        1e-7 / 3,
    )
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "calibration.json").read_bytes()
    moved = again.transform(PROBS, class_names=names).probs
    np.testing.assert_array_equal(moved, calibration.transform(PROBS, class_names=names).probs)


def test_a_pickled_calibration_is_the_same():
    again = pickle.loads(pickle.dumps(FITTED["matrix"]))
    assert again.to_dict() == FITTED["matrix"].to_dict()


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("calibrations") / "calibration.json"
    sw.fit_calibration(PROBS, Y, method="vector", class_names=NAMES).save(path)
    return json.loads(path.read_text())


def resealed(content: dict[str, Any]) -> dict[str, Any]:
    """The content with digests of its fields as they are, which everyone can compute."""
    leaves = {}
    for name, value in content.items():
        if name != "sha256":
            nested = isinstance(value, dict)
            leaves |= {f"{name}.{k}": x for k, x in value.items()} if nested else {name: value}
    texts = {name: json.dumps(value, sort_keys=True) for name, value in leaves.items()}
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    return content | {"sha256": digests}


def refused(path: Path, content: Any) -> str:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(text)
    with pytest.raises(sw.InvalidInput) as caught:
        sw.load_calibration(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


EDITS = [
    ("method", "temperature"),
    ("weights", [1.0] * 4),
    ("bias", [0.0] * 4),
    ("floor", 1e-3),
    ("class_names", NAMES[::-1]),
    ("task_loss", "brier"),
    ("scores", []),
    ("rows", 10_000),
    ("mixed_share", 0.5),
    ("all_rows_digest", ""),
    ("result", "It is perfect."),
]


@parametrize(("name", "value"), EDITS, ids=[name for name, _ in EDITS])
def test_an_edited_field_is_refused_by_its_name(tmp_path, content, name, value):
    assert resealed(content) == content
    said = refused(tmp_path / "calibration.json", content | {name: value})
    assert said.startswith(
        f"'calibration.json' is a damaged calibration: {name} does not match its digest"
    )
    assert said.endswith("; restore the file, or calibrate again")


@parametrize(
    ("name", "value", "message"),
    [
        ("method", "matrix", r"weights have shape \(4,\), which matrix scaling has not"),
        ("method", "platt", "method must be one of"),
        ("weights", [1.0] * 3, r"weights have shape \(3,\)"),
        ("weights", [[1.0] * 4] * 4, r"weights have shape \(4, 4\)"),
        ("weights", None, "weights"),
        ("weights", "x", "damaged"),
        ("bias", [], "damaged"),
        ("bias", [None] * 4, "damaged"),
        ("floor", 0.5, "floor is 0.5"),
        ("floor", None, "damaged"),
        ("class_names", ["a"], "damaged"),
        ("unit", {}, "damaged"),
        ("scores", None, "damaged"),
        ("scores", [], "damaged"),
        ("scores", [{"method": "none"}], "damaged"),
        ("rows", -1, "rows must be a whole number"),
        ("rows", "many", "rows must be a whole number"),
        ("format", 99, "another version of scorewise"),
    ],
)
def test_fields_that_no_calibration_has_are_refused(tmp_path, content, name, value, message):
    """Also where the digests were computed again."""
    said = refused(tmp_path / "calibration.json", resealed(content | {name: value}))
    assert re.search(message, said), said


@parametrize(
    "name", ["method", "weights", "bias", "scores", "unit", "rows", "row_digests", "sha256"]
)
def test_a_missing_field_is_refused(tmp_path, content, name):
    damaged = {key: value for key, value in content.items() if key != name}
    said = refused(tmp_path / "c.json", damaged)
    assert "damaged calibration" in said
    assert name in said


def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "c.json"
    policy = sw.certify(PROBS, Y, max_loss=0.6)
    policy.save(path)
    with pytest.raises(sw.InvalidInput, match=r"'c\.json' is not a calibration; scorewise cal"):
        sw.load_calibration(path)
    with pytest.raises(sw.InvalidInput, match=r"'c\.json' exists and is not a calibration, so it"):
        FITTED["vector"].save(path)
    assert sw.load_policy(path).to_dict() == policy.to_dict()
    path.unlink()
    FITTED["vector"].save(path)
    FITTED["matrix"].save(path)  # replaces its like
    with pytest.raises(sw.InvalidInput, match=r"'c\.json' is not a policy"):
        sw.load_policy(path)
    assert "is not a calibration" in refused(path, [1, 2])
    assert "is not a calibration" in refused(path, {})
    assert "is not a calibration" in refused(path, b"\xff\xfe\x00")
    assert "is not a JSON file" in refused(path, b"")
    text = json.dumps(content).encode()
    assert "is not a JSON file" in refused(path, text[: len(text) // 2])
    assert "NaN" in refused(path, text.replace(b"1e-06", b"NaN"))
    with pytest.raises(FileNotFoundError):
        sw.load_calibration(tmp_path / "absent.json")


def test_every_changed_number_is_refused(tmp_path, content):
    text = json.dumps(content)
    numbers = [x for x in content["weights"] + content["bias"] if x]
    assert len(numbers) == 8
    for number in numbers:
        changed = text.replace(repr(number), repr(float(np.nextafter(number, np.inf))), 1)
        assert changed != text
        refused(tmp_path / "calibration.json", changed.encode())


def test_the_old_file_stays_where_the_new_one_cannot_be_written(tmp_path):
    path = tmp_path / "calibration.json"
    FITTED["vector"].save(path)
    before = path.read_bytes()
    with pytest.raises(OSError, match=r"."):
        FITTED["matrix"].save(path / "no" / "folder.json")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["calibration.json"]


def test_rows_of_the_fit_are_recognised():
    """In any order, most of them, with others, and in single precision; not those of others."""
    calibration = FITTED["vector"]
    order = np.random.default_rng(0).permutation(600)
    other, y_other = simulated(600, 4, 0.5, seed=1)
    with_others = sw.Samples(np.concatenate([PROBS, other.probs])), np.r_[Y, y_other]
    narrow = sw.Samples(PROBS.astype(np.float32)), Y
    for samples, y in [
        (SAMPLES, Y),
        (SAMPLES[order], Y[order]),
        (SAMPLES[:599], Y[:599]),
        (SAMPLES[:100], Y[:100]),
        with_others,
        narrow,
    ]:
        assert calibration.shares_rows_with(samples, y)
    assert not calibration.shares_rows_with(other, y_other)
    assert not calibration.shares_rows_with(SAMPLES, (Y + 1) % 4)


def test_rows_of_a_large_fit_are_recognised_by_some_of_them():
    samples, y = simulated(5000, 3, 0.5)
    calibration = sw.fit_calibration(samples[:3000], y[:3000], method="temperature")
    assert len(calibration.row_digests) == 1000
    assert calibration.shares_rows_with(samples[:300], y[:300])
    assert calibration.shares_rows_with(samples[1000:], y[1000:])
    assert not calibration.shares_rows_with(samples[3000:], y[3000:])
    assert not calibration.shares_rows_with(samples[2500:], y[2500:])  # a fifth of them


@parametrize("n_predictions", [10, 300, 1000, 3000])
def test_rows_that_only_look_alike_are_not_mistaken_for_those_of_the_fit(n_predictions):
    """A model that makes few different predictions, one for each row of a set or fewer."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), n_predictions)[rng.integers(n_predictions, size=2000)]
    samples, y = sw.Samples(p[:, None]), draw_labels(scaled(p, 0.5), rng)
    calibration = sw.fit_calibration(samples[:1000], y[:1000])
    assert not calibration.shares_rows_with(samples[1000:], y[1000:])
    assert calibration.shares_rows_with(samples[:1000][::-1], y[:1000][::-1])
