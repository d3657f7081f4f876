"""What calibrating first would change: measured on rows left out, and stated in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

import scorewise as sw

RULES = ("log", "brier", "zero-one", "spherical")


def rows(n: int, seed: int = 0, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities (n, K), and labels drawn from them."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, 0.5), size=n)
    return truth, (truth.cumsum(axis=-1) > rng.uniform(size=(n, 1))).argmax(axis=-1)


def distorted(truth: np.ndarray) -> np.ndarray:
    """Probabilities of a model that favours the first class and is too sure of the last."""
    skewed = np.maximum(truth, 1e-6) ** [0.6, 1.0, 1.0, 2.5] * [3.0, 1.0, 1.0, 1.0]
    return skewed / skewed.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("rule", RULES)
def test_calibrating_helps_where_probabilities_are_wrong_in_some_classes(rule):
    truth, y = rows(6000)
    probs = distorted(truth)[:, None]
    effect = sw.compare(probs, y, task_loss=rule, floor=1e-6, rules=RULES).calibrating
    assert effect.method != "none"
    assert effect.helps
    assert not effect.harms
    low, high = effect.gain_interval
    assert low < effect.gain < high
    assert effect.gain == pytest.approx(effect.before.aulc - effect.after.aulc)
    assert effect.sentence().startswith("Calibrate first (")
    assert effect.unit == sw.get_rule(rule).unit
    incurred = effect.after.loss[-1]
    assert abs(effect.expected_after - incurred) < abs(effect.expected_before - incurred) / 3


def test_the_curve_after_calibrating_is_not_flattered_by_the_rows_of_the_fit():
    """Labels that no probability can predict: a map fitted on its own rows would seem to help."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(10), size=(200, 1))
    effects = [
        sw.compare(probs, rng.integers(10, size=200), task_loss="log").calibrating
        for _ in range(20)
    ]
    losses_after = [effect.after.loss[-1] for effect in effects if effect.method != "none"]
    assert len(losses_after) >= 10
    assert np.mean(losses_after) > np.log(10)


def test_the_curve_after_calibrating_is_not_worse_than_that_of_one_map():
    """Of two classes a temperature keeps the order, though each fold has its own temperature."""
    rng = np.random.default_rng(0)
    n_temperatures = 0
    for _ in range(20):
        logits = rng.normal(scale=1.5, size=(300, 2))
        p = np.exp(0.5 * logits) / np.exp(0.5 * logits).sum(axis=-1, keepdims=True)
        truth = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        y = (rng.uniform(size=300) < truth[:, 1]).astype(int)
        effect = sw.compare(p[:, None], y, rules=["zero-one"], baselines=False).calibrating
        if effect.method == "temperature":
            n_temperatures += 1
            assert effect.gain == pytest.approx(0, abs=1e-12)
            assert effect.changed_share == 0
        assert not effect.harms
    assert n_temperatures >= 10


def test_expected_losses_have_the_floor_of_the_task():
    truth, y = rows(2000)
    probs = distorted(truth)
    effect = sw.compare(probs[:, None], y, task_loss="log", floor=0.02).calibrating
    floored = 0.92 * probs + 0.02
    assert effect.expected_before == pytest.approx(-(probs * np.log(floored)).sum(1).mean())


def test_decisions_under_costs_are_actions():
    """A temperature changes no most probable class, and yet the cheapest action."""
    truth, y = rows(3000)
    sharp = truth**3 / (truth**3).sum(axis=-1, keepdims=True)
    costs = [[0, 1, 2, 3], [1, 0, 1, 2], [5, 1, 0, 1], [9, 3, 1, 0]]
    effect = sw.compare(sharp[:, None], y, task_loss=costs, rules=["log"]).calibrating
    assert effect.method == "temperature"
    assert effect.changed_share > 0.05
    assert effect.after.loss[-1] < effect.before.loss[-1]
    assert "of the decisions." in effect.sentence()


def test_rows_of_one_class_tell_nothing():
    truth, _ = rows(200)
    assert sw.compare(truth[:, None], np.zeros(200, int), rules=["log"]).calibrating is None


def test_some_of_many_rows_are_drawn():
    truth, y = rows(60_000)
    effect = sw.compare(distorted(truth)[:, None], y, rules=["log"], n_resamples=100).calibrating
    assert (effect.n_rows, effect.n_drawn) == (60_000, 50_000)
    assert effect.method == "matrix"
    assert "(cross-fitted on 50,000 rows)" in effect.sentence()


def test_the_verdict_recommends_no_calibration_that_would_change_nothing():
    """The smaller log odds are too small and the larger ones too large, which no scaling mends."""
    rng = np.random.default_rng(0)
    group = rng.integers(4, size=2000)
    p, truth = np.array([0.1, 0.3, 0.7, 0.9])[group], np.array([0.16, 0.18, 0.82, 0.84])[group]
    y = (rng.uniform(size=2000) < truth).astype(int)
    evaluation = sw.evaluate(sw.binary(p)[:, None], y, n_resamples=100)
    assert not evaluation.calibration.is_calibrated
    assert evaluation.comparison.calibrating.method == "none"
    text = evaluation.verdict.calibration_test
    assert "No scaling of the probabilities that was tried mends it." in text
    assert "fit_calibration" not in text


def test_the_interval_covers_the_gain_on_new_rows_about_as_often_as_it_says():
    truth, y = rows(60_000, seed=1)
    probs = distorted(truth)
    calibration = sw.fit_calibration(probs[:20_000, None], y[:20_000], method="matrix")

    def aulc(p: np.ndarray, labels: np.ndarray) -> float:
        return sw.aulc(sw.task_losses(p[:, None], labels, "brier"), sw.rules.brier.entropy(p))

    rest, labels = probs[20_000:], y[20_000:]
    true_gain = aulc(rest, labels) - aulc(calibration.predict_proba(rest[:, None]), labels)
    covered = 0
    for i in range(20):
        part = slice(1000 * i, 1000 * (i + 1))
        effect = sw.compare(
            probs[part, None], y[part], task_loss="brier", rules=["brier"], baselines=False
        ).calibrating
        low, high = effect.gain_interval
        covered += low <= true_gain <= high
    assert covered >= 15  # each at 95 %; folds of 1,000 rows fit a little worse than 20,000 do


def test_calibrated_probabilities_are_left_or_hardly_changed():
    truth, y = rows(5000, seed=2)
    effect = sw.compare(truth[:, None], y, rules=["log"]).calibrating
    assert not effect.helps
    assert effect.sentence().startswith(("Calibrating first would not help", "Calibrating first m"))


def test_few_rows_tell_nothing():
    truth, y = rows(40)
    comparison = sw.compare(truth[:, None], y)
    assert comparison.calibrating is None
    assert not any("alibrating" in note for note in comparison.notes)


def test_an_evaluation_has_the_effect_in_its_verdict_and_its_dictionary():
    truth, y = rows(3000)
    evaluation = sw.evaluate(distorted(truth)[:, None], y, n_resamples=100)
    effect = evaluation.comparison.calibrating
    assert evaluation.verdict.calibrating == effect.sentence()
    stored = evaluation.to_dict()["calibrating"]
    assert stored["method"] == effect.method
    assert stored["after"]["aulc"] == effect.after.aulc < stored["before"]["aulc"]


def test_a_dirichlet_has_a_mean_that_can_be_calibrated():
    truth, y = rows(2000)
    alpha = 20 * distorted(truth) + 1e-3
    assert sw.compare(sw.Dirichlet(alpha), y).calibrating.method != "none"


def test_advice_with_predictions_has_evidence():
    truth, y = rows(3000)
    probs = distorted(truth)[:, None]
    advice = sw.advise("selective", "zero-one", probs, y)
    assert advice.evidence[0].startswith("Theory recommends total zero-one")
    assert advice.evidence[-1].startswith("Calibrate first (")
    assert str(advice).endswith(advice.evidence[-1])
    assert sw.advise("selective", "zero-one").evidence == ()
    ood = np.random.default_rng(0).dirichlet(np.full(4, 5.0), size=(500, 1))
    [sentence] = sw.advise("ood", predictions=probs, ood=ood).evidence
    assert sentence.startswith("Theory recommends total log")  # one member has no epistemic part


def test_labels_without_predictions_are_refused():
    with pytest.raises(sw.InvalidInput, match="y has no effect without predictions"):
        sw.advise("selective", y=[0, 1])
