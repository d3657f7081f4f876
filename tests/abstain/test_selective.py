"""SelectiveClassifier: its guarantee, where it abstains, and when the guarantee does not hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import scorewise as sw
from scorewise.errors import ScorewiseWarning

# few rows are enough for what is tested
pytestmark = pytest.mark.filterwarnings("ignore:this SelectiveClassifier abstains")

X, Y = load_digits(return_X_y=True)
NUMBERED = np.c_[X, np.arange(len(X))]


class Remembers(ClassifierMixin, BaseEstimator):
    """A tree of all features but the last, which is the number of the row."""

    def fit(self, X: Any, y: Any) -> Remembers:
        self.rows_ = X[:, -1].astype(int)
        self.tree_ = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(X[:, :-1], y)
        self.classes_ = self.tree_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.tree_.predict_proba(X[:, :-1])


class Says(ClassifierMixin, BaseEstimator):
    """A fitted classifier that gives the first feature as the probability of the second class."""

    def __init__(self, labels: tuple = (0, 1)) -> None:
        self.labels = labels
        self.classes_ = np.array(labels)

    def fit(self, X: Any, y: Any) -> Says:
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        p = np.asarray(X, dtype=float)[:, 0]
        return np.stack([1 - p, p], axis=1)


def calibrated(rows: np.ndarray, y: Any, labels: tuple = (0, 1), **options: Any) -> Any:
    """A frozen classifier that predicts ``rows``, calibrated on all of them."""
    model = sw.SelectiveClassifier(FrozenEstimator(Says(labels)), **{"random_state": 0, **options})
    return model.fit(np.asarray(rows, dtype=float)[:, None], y)


def half_sure(labels: tuple = (0, 1)) -> Any:
    """Accepts what is said with 0.9, abstains from 0.5; and rows of both kinds."""
    p = np.repeat([0.9, 0.1, 0.5], 60)
    codes = np.r_[np.ones(60, int), np.zeros(60, int), np.arange(60) % 2]
    model = calibrated(p, np.array(labels)[codes], labels)
    return model, np.array([[0.9], [0.5], [0.1], [0.5]])


def brier_by_hand(p: Any) -> np.ndarray:
    return ((p[..., None, :] - np.eye(p.shape[-1])) ** 2).sum(axis=-1)


@pytest.mark.parametrize(
    ("rule", "max_loss", "options", "bound"),
    [
        ("zero-one", 0.2, {}, 1.0),
        ("brier", 0.4, {}, 2.0),
        ("spherical", 0.2, {}, 1.0),
        ("top-k:2", 0.2, {}, 1.0),
        ("log", 2.5, {"floor": 1e-4}, -np.log(1e-4)),
        ("zero-one", 0.4, {"loss_bound": 3.0}, 3.0),
        (sw.rules.cost_matrix(np.abs(np.subtract.outer(range(10), range(10)))), 1.5, {}, 9.0),
        (sw.rule_from_loss_vector(brier_by_hand, name="mine"), 0.4, {"loss_bound": 2.0}, 2.0),
    ],
    ids=["zero-one", "brier", "spherical", "top-k", "log", "own bound", "costs", "custom"],
)
def test_the_certificate_is_that_of_the_held_out_rows(rule, max_loss, options, bound):
    model = sw.SelectiveClassifier(
        Remembers(), rule, max_loss, confidence=0.8, random_state=0, **options
    ).fit(NUMBERED, Y)
    rest = np.setdiff1d(np.arange(len(X)), model.estimator_.rows_)
    probs = model.estimator_.predict_proba(NUMBERED[rest])[:, None]
    losses = sw.task_losses(probs, Y[rest], rule, floor=options.get("floor"))
    uncertainty = [float(f"{u:.9e}") for u in sw.decompose(probs, rule).total]  # ten digits
    expected = sw.certify_threshold(losses, uncertainty, max_loss, 0.8, loss_bound=bound)
    certificate = model.certificate_
    assert certificate.n_calibration == len(rest) == 449
    assert certificate.coverage == expected.coverage > 0.1
    np.testing.assert_allclose(
        [certificate.threshold, certificate.bound, certificate.loss],
        [expected.threshold, expected.bound, expected.loss],
        rtol=1e-9,
    )
    assert (certificate.max_loss, certificate.confidence) == (max_loss, 0.8)


@pytest.mark.parametrize("component", ["total", "aleatoric", "epistemic"])
def test_it_accepts_up_to_the_threshold(component):
    ensemble = sw.BootstrapEnsemble(DecisionTreeClassifier(min_samples_leaf=3), 5, random_state=0)
    model = sw.SelectiveClassifier(
        ensemble, "brier", max_loss=0.15, component=component, random_state=0
    ).fit(X, Y)
    mask, threshold = model.accepts(X), model.certificate_.threshold
    np.testing.assert_array_equal(mask, model.uncertainty(X) <= threshold)
    assert mask.dtype == bool
    assert 0.1 < mask.mean() < 0.99
    assert threshold in model.calibration_uncertainty_, "the last row that is accepted"
    on_held_out = (model.calibration_uncertainty_ <= threshold).mean()
    assert on_held_out == model.certificate_.coverage
    np.testing.assert_array_equal(
        model.predict_or_abstain(X, -1), np.where(mask, model.predict(X), -1)
    )


def test_predict_always_gives_labels():
    never = calibrated([0.9] * 20, [0, 1] * 10)
    assert never.certificate_.coverage == 0
    assert never.certificate_.threshold == -np.inf
    np.testing.assert_array_equal(never.predict([[0.9], [0.5], [0.1]]), [1, 0, 0])
    assert not never.accepts([[1.0], [0.0]]).any()
    assert str(never.certificate_).startswith("Nothing can be accepted: 20 certification rows")
    np.testing.assert_array_equal(never.predict_or_abstain([[0.9], [0.5]]), [None, None])


@pytest.mark.parametrize(
    ("labels", "marker", "dtype"),
    [
        ((0, 1), -1, np.int64),
        ((0, 1), None, object),
        ((0, 1), np.nan, object),
        ((0, 1), "ask a human", object),
        ((0, 1), 0.5, object),
        (("a", "b"), "ask a human", "<U11"),
        (("cat", "dog"), "", "<U3"),
        (("cat", "dog"), None, object),
        (("cat", "dog"), -1, object),
        ((0.0, 1.0), np.nan, float),
        ((0.0, 1.0), -1.0, float),
        ((False, True), None, object),
        ((False, True), -1, object),
        ((-1, 1), 0, np.int64),
    ],
)
def test_the_marker_is_of_the_users_choice(labels, marker, dtype):
    model, rows = half_sure(labels)
    answers = model.predict_or_abstain(rows, abstain=marker)
    assert answers.dtype == dtype
    assert answers.shape == (4,)
    assert (answers[0], answers[2]) == (labels[1], labels[0])
    for answer in (answers[1], answers[3]):
        if isinstance(marker, float) and np.isnan(marker):
            assert np.isnan(answer)
        else:
            assert answer == marker or answer is marker
    everything = model.predict_or_abstain(rows[[0, 2]], abstain=marker)
    np.testing.assert_array_equal(everything, [labels[1], labels[0]])


def test_pandas_own_gap_may_be_the_marker():
    import pandas as pd

    model, rows = half_sure()
    answers = model.predict_or_abstain(rows, abstain=pd.NA)
    assert answers[0] == 1
    assert answers[1] is pd.NA


@pytest.mark.parametrize("marker", [(7, 8), [7, 8], np.zeros(2)])
def test_a_marker_is_one_thing(marker):
    model, rows = half_sure()
    with pytest.raises(sw.InvalidInput, match="must be one marker, not several"):
        model.predict_or_abstain(rows, abstain=marker)


@pytest.mark.parametrize(
    ("labels", "marker"),
    [((0, 1), 1), ((0, 1), 1.0), ((0, 1), True), ((False, True), 0), (("a", "b"), "a")],
)
def test_a_label_cannot_be_the_marker(labels, marker):
    model, rows = half_sure(labels)
    with pytest.raises(sw.InvalidInput, match="is one of the labels; choose another marker"):
        model.predict_or_abstain(rows, abstain=marker)


def test_costs_in_a_frame_are_those_of_the_labels_they_name():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.permutation(["a", "b"] * 200)
    X[y == "b"] += 2
    frame = pd.DataFrame([[0, 9], [1, 0]], ["b", "a"], ["b", "a"])
    options = {"max_loss": 0.9, "random_state": 0}
    expected = sw.SelectiveClassifier(GaussianNB(), rule=[[0, 1], [9, 0]], **options).fit(X, y)
    model = clone(sw.SelectiveClassifier(GaussianNB(), rule=frame, **options)).fit(X, y)
    assert model.get_params()["rule"].equals(frame)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.certificate_ == expected.certificate_
    detector = sw.OODDetector(GaussianNB(), rule=frame, component="total", random_state=0)
    in_order = clone(detector).set_params(rule=[[0, 1], [9, 0]]).fit(X, y)
    np.testing.assert_array_equal(detector.fit(X, y).uncertainty(X), in_order.uncertainty(X))
    by_number = pd.DataFrame([[0, 1], [9, 0]])
    for costs in (by_number.iloc[[1, 0]], by_number.iloc[:, [1, 0]], by_number.iloc[::-1, ::-1]):
        numbered = clone(model).set_params(rule=costs).fit(X, y)
        np.testing.assert_array_equal(numbered.predict(X), expected.predict(X))
    renamed = frame.set_axis(["yes", "no"], axis=1)
    with pytest.raises(sw.InvalidInput, match="'yes', 'no', are not the classes"):
        sw.SelectiveClassifier(GaussianNB(), rule=renamed, **options).fit(X, y)


def test_a_cost_matrix_has_no_action_of_its_own_for_abstaining():
    costs = sw.rules.cost_matrix([[0, 10, 1.0], [10, 0, 1.0]])
    with pytest.raises(sw.InvalidInput, match="one action per class"):
        calibrated([0.9, 0.1], [1, 0], rule=costs, max_loss=0.6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_loss": 0}, "max_loss is 0; "),
        ({"max_loss": 1}, "max_loss is 1, and this loss is never above 1"),
        ({"max_loss": -0.1}, "max_loss is -0.1"),
        ({"max_loss": np.nan}, "max_loss must be a finite number"),
        ({"max_loss": 2.5, "rule": "brier"}, "max_loss is 2.5, and this loss is never above 2"),
        ({"confidence": 1.0}, "confidence must be above 0 and below 1"),
        ({"rule": "log"}, "can be infinite.*floor=1e-06"),
        ({"rule": "log", "floor": 0.0}, "floor"),
        ({"rule": "log", "floor": 0.6}, "floor is 0.6; it must be above 0 and below 1/2"),
        ({"rule": "brier", "loss_bound": 0.5}, "must be from 0 to loss_bound=0.5"),
        (
            {"rule": sw.rule_from_loss_vector(brier_by_hand, name="mine")},
            "the largest loss of .*mine.* is not known; pass loss_bound=",
        ),
    ],
)
def test_impossible_guarantees_are_refused_and_the_old_policy_stays(options, message):
    model, rows = half_sure()
    before, answers = model.certificate_, model.predict_or_abstain(rows, -1)
    model.set_params(**options)
    with pytest.raises(sw.InvalidInput, match=message):
        model.fit([[0.9], [0.2], [0.1]], [1, 1, 0])
    assert model.certificate_ is before
    assert len(model.calibration_uncertainty_) == 180
    np.testing.assert_array_equal(model.predict_or_abstain(rows, -1), answers)


def test_the_log_loss_can_be_certified_with_a_floor():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=3000)
    y = (rng.uniform(size=3000) < p).astype(int)
    p[:2], y[:2] = 0, [1, 0]  # the first loses as much as can be
    model = calibrated(p, y, rule="log", floor=1e-3, max_loss=0.45)
    assert 0.05 < model.certificate_.coverage < 0.9
    assert np.isfinite(model.certificate_.bound)


def true_loss(threshold: float) -> float:
    """Mean error where u <= threshold, for u uniform to 0.5 and an error of 0.02 + 1.6 u²."""
    t = min(threshold, 0.5)
    return 0.02 + 1.6 * t**2 / 3


@pytest.mark.parametrize("ties", [None, 0.05], ids=["distinct", "ties"])
def test_the_guarantee_holds_for_a_fitted_model(ties):
    rng = np.random.default_rng(5)
    n_broken, coverages, n_fits = 0, [], 400
    for _ in range(n_fits):
        p = rng.uniform(size=400)
        if ties:  # the middle of its group, whose error is that of the group
            p = (np.floor(p / ties) + 0.5) * ties
        u = np.minimum(p, 1 - p)
        wrong = rng.uniform(size=400) < 0.02 + 1.6 * u**2
        cert = calibrated(p, (p > 0.5) ^ wrong, (False, True), max_loss=0.08, confidence=0.9)
        cert = cert.certificate_
        if ties:
            groups = (np.arange(10) + 0.5) * ties
            accepted = groups <= cert.threshold + 1e-9
            truth = np.mean(0.02 + 1.6 * groups[accepted] ** 2) if accepted.any() else 0
        else:
            truth = true_loss(cert.threshold) if cert.coverage else 0
        n_broken += truth > 0.08
        coverages.append(cert.coverage)
    assert n_broken / n_fits <= 0.1 + 3 * np.sqrt(0.09 / n_fits)
    assert np.mean(coverages) > 0.12  # the best is about 0.67


@pytest.mark.parametrize(
    "estimator",
    [GaussianNB(), DecisionTreeClassifier(min_samples_leaf=12)],
    ids=["well-fitted", "overfitted"],
)
def test_the_guarantee_holds_for_a_model_that_is_fitted_on_a_part_of_the_rows(estimator):
    rng = np.random.default_rng(6)

    def chance(rows: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-4 * rows[:, 0] + 2 * rows[:, 1] * rows[:, 0]))

    new = rng.normal(size=(4000, 2))
    truth = chance(new)
    n_broken, coverages, n_fits = 0, [], 250
    for seed in range(n_fits):
        rows = rng.normal(size=(600, 2))
        y = rng.uniform(size=600) < chance(rows)
        model = sw.SelectiveClassifier(
            estimator, max_loss=0.15, confidence=0.9, calibration_size=0.5, random_state=seed
        ).fit(rows, y)
        mask = model.accepts(new)
        error = np.where(model.predict(new), 1 - truth, truth)
        n_broken += mask.any() and error[mask].mean() > 0.15
        coverages.append(mask.mean())
    assert n_broken / n_fits <= 0.1 + 3 * np.sqrt(0.09 / n_fits)
    assert np.mean(coverages) > 0.15


def drift_of(before: np.ndarray, now: np.ndarray, false_alarm_rate: float) -> sw.abstain.Drift:
    """Drift of uncertainties, by a policy with these calibration uncertainties."""
    policy = sw.certify(np.full((20, 1, 2), 0.5), np.zeros(20, dtype=int), max_loss=0.2)
    return replace(policy, calibration_uncertainty=before).check_drift(now, false_alarm_rate)


DRIFT_SHAPES = {
    "distinct": lambda rng, n: rng.uniform(size=n),
    "mostly zero": lambda rng, n: np.maximum(rng.normal(-1.5, 1, size=n), 0),
    "two values": lambda rng, n: rng.integers(2, size=n) / 2,
    "rounded": lambda rng, n: np.round(rng.exponential(size=n), 1),
    "all the same": lambda rng, n: np.zeros(n),
}


@pytest.mark.parametrize("shape", DRIFT_SHAPES)
@pytest.mark.parametrize(("n_before", "n_now"), [(100, 30), (40, 200), (7, 3)])
def test_unchanged_inputs_rarely_raise_an_alarm(shape, n_before, n_now):
    rng = np.random.default_rng(7)
    draw = DRIFT_SHAPES[shape]
    alarms = [bool(drift_of(draw(rng, n_before), draw(rng, n_now), 0.1)) for _ in range(1000)]
    assert np.mean(alarms) <= 0.1 + 3 * np.sqrt(0.09 / 1000)
    if shape == "distinct" and n_before > 7:
        assert np.mean(alarms) > 0.05, "it is no needlessly deaf test either"


@settings(max_examples=50)
@given(
    before=st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5]), min_size=1, max_size=20),
    now=st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.9]), min_size=1, max_size=20),
    rate=st.floats(0.01, 0.99),
)
def test_a_comparison_reports_what_it_saw(before, now, rate):
    drift = drift_of(np.array(before), np.array(now), rate)
    assert drift.has_drifted == bool(drift) == (drift.p_value <= rate)
    assert 0 <= drift.p_value <= 1
    assert drift.n_now == len(now)
    assert drift.mean_before == pytest.approx(np.mean(before))
    assert drift.mean_now == pytest.approx(np.mean(now))
    assert ("do not look like" in str(drift)) == drift.has_drifted


def test_more_rows_than_an_exact_test_can_count_are_compared():
    rng = np.random.default_rng(8)
    before, now = rng.uniform(size=20_001), rng.uniform(size=10_001)
    assert drift_of(before, now, 0.05).p_value > 0.01
    assert drift_of(before, now + 0.1, 0.05).p_value < 1e-6


def test_the_certificate_warns_of_changed_inputs_until_it_is_made_anew():
    rng = np.random.default_rng(9)
    p = rng.beta(0.2, 0.2, size=1000)
    y = rng.uniform(size=1000) < p
    model = calibrated(p, y, (False, True), max_loss=0.1)
    guarantee = str(model.certificate_)
    assert not model.certificate_.has_drifted
    assert model.certificate_.drift is None
    same = model.check_drift(rng.beta(0.2, 0.2, size=(300, 1)))
    assert not same
    assert model.certificate_.drift is same
    assert not model.certificate_.has_drifted
    assert str(model.certificate_) == guarantee
    other = model.check_drift(rng.uniform(size=(300, 1)))
    assert other
    assert other.p_value < 1e-6
    assert model.certificate_.has_drifted
    said = str(model.certificate_)
    assert said.startswith(guarantee)
    assert "WARNING: new inputs do not look like the certification data" in said
    assert "the guarantee may not hold" in said
    assert model.certificate_.coverage > 0, "the threshold stays known"
    assert not model.check_drift(rng.uniform(size=(300, 1)), false_alarm_rate=1e-200)
    assert str(model.certificate_) == guarantee
    model.check_drift(rng.uniform(size=(300, 1)))
    assert not model.fit(p[:, None], y).certificate_.has_drifted


@pytest.mark.parametrize("rate", [0, 1, -0.1, "often"])
def test_an_impossible_false_alarm_rate_is_refused(rate):
    model, rows = half_sure()
    with pytest.raises(sw.InvalidInput, match="false_alarm_rate must be above 0 and below 1"):
        model.check_drift(rows, rate)
    assert model.certificate_.drift is None


# -- ties ------------------------------------------------------------------------------------------


def test_no_row_tied_at_the_threshold_is_rejected_by_rounding():
    """Votes of 40 trees, counted as integers, say which rows are tied, and decide on every route.

    Without rounding the classifier rejects 55 of them; ``accepts`` 38, and certifying by hand 67.
    """
    n_tied, n_rejected, n_other_thresholds = Counter(), Counter(), Counter()
    for seed in range(20):
        X_fit, X_new, y_fit, y_new = train_test_split(X, Y, test_size=0.5, random_state=seed)
        forest = RandomForestClassifier(40, random_state=seed)
        model = sw.SelectiveClassifier(forest, max_loss=0.03, random_state=seed).fit(X_fit, y_fit)
        probs = sw.predict_samples(model.estimator_, X_new).probs
        votes = np.round(probs.sum(axis=1)).astype(int)
        assert np.abs(probs.sum(axis=1) - votes).max() < 1e-9, "leaves are pure"

        total, single = sw.decompose(probs, "zero-one").total, probs.astype(np.float32)
        policy, first, rest = model.policy_, slice(450), slice(450, None)
        certified = sw.certify(probs[first], y_new[first], max_loss=0.03).certificate
        of_single = sw.certify(single[first], y_new[first], max_loss=0.03)
        in_single = of_single.certificate
        by_hand = sw.certify_threshold(
            sw.task_losses(probs[first], y_new[first]),
            sw.decompose(probs[first], "zero-one").total,
            max_loss=0.03,
            unit=sw.rules.zero_one.unit,
        )
        for route, certificate, rows, accepted in (
            ("classifier", policy.certificate, slice(None), model.accepts(X_new)),
            ("apply", policy.certificate, slice(None), policy.apply(probs).accepted),
            ("apply float32", in_single, rest, of_single.apply(probs[rest]).accepted),
            ("accepts", policy.certificate, slice(None), policy.accepts(total)),
            ("by hand", by_hand, rest, by_hand.accepts(total[rest])),
        ):
            if certificate.coverage:
                against = 40 - votes[rows].max(axis=1)
                tied = against == round(40 * certificate.threshold)
                n_tied[route] += int(tied.sum())
                n_rejected[route] += int((tied & ~accepted).sum())

        quick = {"max_loss": 0.03, "rules": ["zero-one"], "n_resamples": 100}
        for route, certificate in {
            "by hand": by_hand,
            "certify float32": in_single,
            "evaluate": sw.evaluate(probs[first], y_new[first], **quick).headline,
            "evaluate float32": sw.evaluate(single[first], y_new[first], **quick).headline,
        }.items():
            rounded = replace(certificate, threshold=float(f"{certificate.threshold:.9e}"))
            n_other_thresholds[route] += rounded != certified
    assert min(n_tied.values()) > 150
    assert not +n_rejected
    assert not +n_other_thresholds


@pytest.mark.parametrize("component", ["total", "aleatoric", "epistemic"])
@pytest.mark.parametrize("rule", ["zero-one", "brier", "log"])
def test_the_policy_and_its_file_decide_as_the_classifier_does(tmp_path, rule, component):
    forest = RandomForestClassifier(20, min_samples_leaf=3, random_state=0)
    model = sw.SelectiveClassifier(
        forest,
        rule,
        {"zero-one": 0.1, "brier": 0.2, "log": 1.0}[rule],
        component=component,
        floor=1e-3,
        random_state=0,
    ).fit(X[:900], Y[:900])
    model.policy_.save(tmp_path / "policy.json")
    policy = sw.load_policy(tmp_path / "policy.json")
    samples = sw.predict_samples(model.estimator_, X[900:])
    expected = model.accepts(X[900:])
    assert 0.05 < expected.mean() < 1
    whole = policy.apply(samples)
    np.testing.assert_array_equal(whole.accepted, expected)
    np.testing.assert_array_equal(whole.uncertainty, model.uncertainty(X[900:]))
    labels = np.array(whole.prediction_names)[whole.prediction].astype(int)
    np.testing.assert_array_equal(labels, model.predict(X[900:]))
    sw.write_predictions(tmp_path / "new.npz", samples.probs)
    from_file = policy.apply(sw.read_predictions(tmp_path / "new.npz"))
    np.testing.assert_array_equal(from_file.accepted, expected)
    for size in (1, 7, 300):
        batches = np.split(np.arange(900, len(X)), range(size, len(X) - 900, size))[:8]
        rows = np.concatenate(batches)
        by_model = np.concatenate([model.accepts(X[batch]) for batch in batches])
        np.testing.assert_array_equal(by_model, expected[rows - 900])
        by_policy = [policy.apply(samples.probs[batch - 900]).accepted for batch in batches]
        np.testing.assert_array_equal(np.concatenate(by_policy), expected[rows - 900])


def test_a_policy_of_networks_decides_as_the_classifier_does():
    torch.manual_seed(0)
    scaled, labels = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(Y)
    networks = [torch.nn.Linear(64, 10) for _ in range(5)]
    for network in networks:
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        for _ in range(50):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(scaled[:500]), labels[:500]).backward()
            optimizer.step()
    model = sw.SelectiveClassifier(networks, "brier", max_loss=0.2, random_state=0)
    model.fit(scaled[500:1200], Y[500:1200])
    result = model.policy_.apply(sw.predict_samples(networks, scaled[1200:]))
    assert 0.05 < result.accepted.mean() < 0.95
    np.testing.assert_array_equal(result.accepted, model.accepts(scaled[1200:]))


def rows_of_a_rare_class(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """Rows, labels, and weights under which the classes are equally frequent."""
    y = (rng.random(n) < 0.1).astype(int)
    return rng.normal(size=(n, 2)) + 1.5 * y[:, None], y, np.where(y == 1, 9.0, 1.0)


@pytest.mark.parametrize(
    ("choose", "holds"),
    [
        (lambda rng, w: np.full(len(w), True), False),
        (lambda rng, w: rng.choice(len(w), len(w), p=w / w.sum()), False),
        (lambda rng, w: rng.random(len(w)) < w / 9, True),
    ],
    ids=["all", "with replacement", "each once"],
)
def test_rows_kept_once_in_proportion_to_weights_have_a_guarantee_for_the_weighted_mean(
    choose, holds
):
    """Copies of a row on both sides of the split void it, and so do rows of another frequency."""
    X_new, y_new, w_new = rows_of_a_rare_class(np.random.default_rng(99), 20_000)
    n_accepted = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y, w = rows_of_a_rare_class(rng, 4_000)
        rows = choose(rng, w)
        forest = RandomForestClassifier(10, random_state=seed)
        model = sw.SelectiveClassifier(forest, max_loss=0.15, random_state=seed)
        model.fit(X[rows], y[rows])
        accepted = model.accepts(X_new)
        is_wrong = model.predict(X_new) != y_new
        weighted_loss = (is_wrong * w_new)[accepted].sum() / max(w_new[accepted].sum(), 1)
        assert (weighted_loss <= 0.15) == holds
        n_accepted += accepted.sum()
    assert n_accepted > 0


def test_a_classifier_that_certifies_nothing_warns_that_it_abstains_on_every_row():
    with pytest.warns(ScorewiseWarning, match="abstains on every row") as warned:
        model = calibrated([0.9] * 10, [1] * 10, max_loss=0.05)
    assert [Path(warning.filename).name for warning in warned] == ["test_selective.py"]
    assert "max_loss" in str(warned[0].message)
    assert not model.certificate_.coverage
