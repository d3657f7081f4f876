"""All about saved predictions: the numbers of the single functions, and sentences that are true."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import scorewise as sw
from report_support import members
from scorewise import _json
from scorewise.abstain._certificate import Certificate, _Search
from scorewise.compare._evaluation import headline
from scorewise.compare._verdicts import listed, loss_text, share_text

parametrize = pytest.mark.parametrize
QUICK = {"n_resamples": 100, "progress": False}
NAMES = ["well", "doubtful", "ill"]
ACTIONS = ["dismiss", "treat", "refer"]
TRIAGE = sw.rules.cost_matrix([[0, 5, 1], [50, 0, 1], [3, 3, 0]], ACTIONS)
MORE = sw.rules.cost_matrix([[0, 5, 1, 2], [50, 0, 1, 2], [3, 3, 1, 0]])
GAINS = sw.rules.cost_matrix([[-1, 5, 1], [5, -1, 1], [3, 3, -3]])
PROBS, Y = members(300, 3)
RIGHT = PROBS.mean(axis=1).argmax(axis=1)
LADDER = np.array([0.2, 0.1, 0.05, 0.03, 0.02, 0.01])
CALM = sw.binary(np.full(2000, 0.01))[:, None]


def evaluate(probs: Any = PROBS, y: Any = Y, **options: Any) -> sw.Evaluation:
    return sw.evaluate(probs, y, **QUICK | options)


def own_rule(scale: float = 1.0) -> sw.ScoringRule:
    return sw.rule_from_loss_vector(
        lambda p: scale * ((p * p).sum(axis=-1, keepdims=True) + 1 - 2 * p), name="own"
    )


def numbers_in(text: str) -> list[float]:
    return [float(x.replace(",", "")) for x in re.findall(r"-?\d[\d,]*\.?\d*", text)]


# -- numbers ---------------------------------------------------------------------------------------

LOSSES = [
    ("zero-one", None, 1.0, LADDER),
    ("brier", None, 2.0, [0.13, 0.067, 0.033, 0.02, 0.013, 0.0067]),
    ("spherical", None, 1.0, None),
    ("top-k:2", None, 1.0, LADDER),
    ("log", 1e-6, -np.log(1e-6), [0.22, 0.11, 0.055, 0.033, 0.022, 0.011]),
    ("tsallis:1.5", None, 3.0, None),
    (TRIAGE, None, 50.0, None),
    (MORE, None, 50.0, None),
]


@parametrize(("rule", "floor", "bound", "targets"), LOSSES, ids=lambda x: str(x)[:12])
def test_numbers_are_those_of_the_single_functions(rule, floor, bound, targets):
    rules = ["log", "zero-one"]
    found = evaluate(task_loss=rule, floor=floor, rules=rules, confidence=0.9)
    name = rule if isinstance(rule, str) else "cost-matrix"
    losses = sw.task_losses(PROBS, Y, rule, floor=floor)
    own = sw.decompose(PROBS, rule)
    assert found.loss == losses.mean()
    assert (found.task_loss, found.measure) == (name, f"total {name}")
    compared = sw.compare(
        PROBS,
        Y,
        "selective",
        rule,
        rules=rules,
        floor=floor,
        confidence=0.9,
        random_state=0,
        **QUICK,
    )
    assert found.comparison == compared
    assert set(found.curves) == {row.name for row in compared.standings}
    for measure, scores in {
        f"total {name}": own.total,
        "epistemic log": sw.decompose(PROBS, "log").epistemic,
        "aleatoric zero-one": sw.decompose(PROBS, "zero-one").aleatoric,
        "max-softmax": 1 - PROBS.mean(axis=1).max(axis=-1),
    }.items():
        curve = sw.rejection_curve(losses, scores)
        np.testing.assert_allclose(found.curves[measure].loss, curve.loss, atol=1e-12)
        assert np.isclose(found.curves[measure].aulc, compared[measure].value, rtol=1e-9)
    blind = (
        sw.get_rule(rule).entropy(np.full(3, 1 / 3)) if name not in ("zero-one", "top-k:2") else 1
    )
    if targets is None:
        targets = [float(f"{t * blind:.2g}") for t in LADDER]
    np.testing.assert_allclose([one.max_loss for one in found.certificates], targets)
    for one in found.certificates:
        total = [float(f"{u:.9e}") for u in own.total]  # ten digits
        by_hand = sw.certify_threshold(
            losses, total, one.max_loss, 1 - (1 - 0.9) / len(targets), loss_bound=bound
        )
        np.testing.assert_equal(vars(one), vars(by_hand))
    mean = PROBS.mean(axis=1)
    raised = mean if floor is None else (1 - 3 * floor) * mean + floor
    expected = sw.get_rule(rule).expected_loss(raised, mean)
    calibration = sw.loss_calibration(losses, expected, confidence=0.9)
    np.testing.assert_allclose(found.calibration.predicted, calibration.predicted, rtol=1e-9)
    np.testing.assert_allclose(found.calibration.p_value, calibration.p_value, rtol=1e-6)
    if floor is None:
        np.testing.assert_allclose(found.calibration.predicted, own.total.mean(), rtol=1e-9)


@parametrize(
    "rule", ["zero-one", "brier", TRIAGE, MORE], ids=["zero-one", "brier", "square", "more"]
)
def test_the_table_of_classes_sums_up(rule):
    found = evaluate(task_loss=rule, max_loss=0.3 if rule != TRIAGE else 20, class_names=NAMES)
    losses, own = sw.task_losses(PROBS, Y, rule), sw.decompose(PROBS, rule)
    n = np.array([one.n_rows for one in found.classes])
    assert [one.name for one in found.classes] == NAMES
    np.testing.assert_array_equal(n, np.bincount(Y, minlength=3))
    for name, values in {
        "loss": losses,
        **{c: getattr(own, c) for c in ("total", "aleatoric", "epistemic")},
    }.items():
        by_class = np.array([getattr(one, name) for one in found.classes])
        np.testing.assert_allclose(by_class @ n / n.sum(), values.mean(), rtol=1e-12)
        np.testing.assert_allclose(by_class, [values[k == Y].mean() for k in range(3)])
    best = found.headline
    if best is not None:
        accepted = np.array([one.accepted for one in found.classes])
        assert np.isclose(accepted @ n / n.sum(), best.coverage)
        kept = np.array([one.accepted_loss or 0.0 for one in found.classes])
        assert np.isclose(kept @ (accepted * n), best.loss * best.coverage * n.sum())


def test_the_table_of_classes_sums_up_where_many_rows_are_tied():
    """As the threshold and the table are computed apart."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(4, 0.3), size=20_000)
    y = (truth.cumsum(axis=1) > rng.uniform(size=(20_000, 1))).argmax(axis=1)
    probs = np.stack([rng.multinomial(10, truth) / 10 for _ in range(7)], axis=1)
    found = evaluate(probs.astype(np.float32), y, n_doubtful=0)
    share = sum(one.n_rows * one.accepted for one in found.classes) / len(y)
    assert 0 < found.headline.coverage < 1
    assert np.isclose(share, found.headline.coverage, atol=1e-12)


def test_a_class_without_rows_has_no_numbers():
    found = evaluate(y=np.where(Y == 1, 0, Y), max_loss=0.5)
    empty = found.classes[1]
    assert empty.n_rows == 0
    assert np.isnan([empty.loss, empty.total, empty.aleatoric, empty.epistemic]).all()
    assert empty.accepted is None
    assert empty.accepted_loss is None
    assert all(one.accepted is None for one in evaluate(task_loss="log").classes)
    json.loads(_json.dumps(found.to_dict()))


@parametrize("rule", ["zero-one", "log", "brier", MORE], ids=["zero-one", "log", "brier", "costs"])
def test_doubtful_rows_are_the_most_uncertain(rule):
    found = evaluate(
        task_loss=rule, n_doubtful=20, ids=[f"id{i}" for i in range(300)], class_names=NAMES
    )
    own, losses = sw.decompose(PROBS, rule), sw.task_losses(PROBS, Y, rule)
    rows = [one.index for one in found.doubtful]
    assert len(set(rows)) == 20
    assert (np.diff(own.total[rows]) <= 0).all()
    assert own.total[rows[-1]] >= np.delete(own.total, rows).max()
    for one in found.doubtful:
        i = one.index
        assert one.id == f"id{i}"
        assert one.label == NAMES[Y[i]]
        numbers = (one.total, one.aleatoric, one.epistemic, one.loss)
        assert numbers == (own.total[i], own.aleatoric[i], own.epistemic[i], losses[i])
        order = [NAMES.index(name) for name in one.classes]
        assert (np.diff(one.mean) <= 0).all()
        np.testing.assert_array_equal(one.members, PROBS[i][:, order])
        np.testing.assert_allclose(one.mean, PROBS[i].mean(axis=0)[order])
        if rule is MORE:
            assert one.prediction == str(sw.decide(PROBS[i : i + 1], MORE).action[0])
        else:
            assert one.prediction == one.classes[0]


def test_of_tied_rows_those_that_teach_most_come_first_and_then_the_first():
    probs = np.full((40, 2, 2), 0.5)
    probs[[7, 31]] = np.eye(2)
    found = evaluate(probs, np.zeros(40, dtype=int), n_doubtful=5)
    assert [one.index for one in found.doubtful] == [7, 31, 0, 1, 2]
    assert evaluate(probs, np.zeros(40, dtype=int), n_doubtful=0).doubtful == ()
    assert len(evaluate(probs, np.zeros(40, dtype=int), n_doubtful=99).doubtful) == 40


def test_many_members_and_classes_are_shown_in_part():
    probs = np.random.default_rng(0).dirichlet(np.ones(12), size=(30, 100))
    one = evaluate(probs, np.zeros(30, dtype=int), n_doubtful=1).doubtful[0]
    assert one.members.shape == (40, 6)
    assert one.mean.shape == (6,)
    np.testing.assert_allclose(one.mean, np.sort(probs[one.index].mean(axis=0))[::-1][:6])


def test_predictions_are_called_by_class_or_action():
    assert {one.prediction for one in evaluate(class_names=NAMES).doubtful} <= set(NAMES)
    assert {one.prediction for one in evaluate(task_loss=TRIAGE).doubtful} <= set(ACTIONS)
    square = sw.rules.cost_matrix(1 - np.eye(3))
    found = evaluate(task_loss=square, class_names=NAMES)
    assert {one.prediction for one in found.doubtful} <= set(NAMES)
    assert {one.prediction for one in evaluate(task_loss=MORE).doubtful} <= set("0123")


def test_the_action_shown_is_the_one_that_is_paid_for():
    costs = sw.rules.cost_matrix([[0, 1], [1000, 0]], ["go", "stop"])
    found = evaluate(sw.binary(np.zeros(5))[:, None], [0] * 5, task_loss=costs, floor=0.01)
    one = found.doubtful[0]
    assert one.loss == 1  # of stopping
    assert one.prediction == "stop"


def test_the_simplex_is_for_three_classes():
    mean, labels = evaluate().simplex
    np.testing.assert_allclose(mean, PROBS.mean(axis=1))
    np.testing.assert_array_equal(labels, Y)
    assert evaluate(*members(50, 2)).simplex is None
    assert evaluate(*members(50, 4)).simplex is None
    many, y = members(5000, 3, m=2)
    mean, labels = evaluate(many, y).simplex
    assert mean.shape == (2000, 3)
    assert labels.shape == (2000,)


def test_foreign_rows():
    foreign = np.random.default_rng(1).dirichlet(np.ones(3), size=(80, 5))  # of fewer members
    found = evaluate(ood=foreign, confidence=0.9).ood
    inside, outside = (sw.decompose(rows, "log").epistemic for rows in (PROBS, foreign))
    np.testing.assert_array_equal(found.inside, inside)
    np.testing.assert_array_equal(found.outside, outside)
    by_hand = sw.ood_metrics(inside, outside, 0.9, n_resamples=QUICK["n_resamples"], random_state=0)
    np.testing.assert_equal(vars(found.metrics), vars(by_hand))
    compared = sw.compare(PROBS, task="ood", ood=foreign, confidence=0.9, random_state=0, **QUICK)
    assert found.comparison == compared
    sentences = evaluate(ood=foreign, confidence=0.9).verdict
    assert f"AUROC {by_hand.auroc:.3f}" in sentences[2]
    assert compared.best in sentences[3]


def test_foreign_rows_of_other_classes_are_refused():
    with pytest.raises(sw.InvalidInput, match="ood has 2 classes, the predictions 3"):
        evaluate(ood=np.full((5, 8, 2), 0.5))
    with pytest.raises(sw.InvalidInput, match="ood must have members"):
        evaluate(ood=sw.Dirichlet(np.ones((5, 3))))


def test_no_foreign_rows_are_named_as_the_caller_does():
    with pytest.raises(sw.InvalidInput, match="ood"):
        evaluate(ood=PROBS[:0])


# -- what is carried -------------------------------------------------------------------------------


def test_predictions_bring_labels_ids_names_and_weights():
    weights = np.random.default_rng(0).uniform(size=8)
    kept = sw.Predictions(
        PROBS, labels=Y, ids=np.arange(300) + 1000, class_names=NAMES, weights=weights
    )
    one = sw.evaluate(kept, **QUICK)
    two = evaluate(ids=np.arange(300) + 1000, class_names=NAMES, weights=weights)
    assert _json.dumps(one.to_dict()) == _json.dumps(two.to_dict())
    assert all(row.id == row.index + 1000 and type(row.id) is int for row in one.doubtful)
    assert one.class_names == tuple(NAMES)
    other = sw.evaluate(kept, y=RIGHT, **QUICK)
    assert other.loss == np.mean(sw.task_losses(kept.samples, RIGHT))
    names = sw.evaluate(PROBS, [NAMES[k] for k in Y], class_names=NAMES, **QUICK)
    assert names.loss == evaluate().loss


def test_logits_and_samples_will_do():
    logits = np.log(PROBS)
    one, two = evaluate(logits, from_logits=True), evaluate(sw.Samples(logits, from_logits=True))
    assert one.verdict == two.verdict == evaluate().verdict
    assert evaluate(3 * PROBS, normalize=True).verdict == evaluate().verdict


@parametrize(
    "options",
    [
        {},
        {"ood": PROBS[:50, ::-1]},
        {"task_loss": "log"},
        {"task_loss": TRIAGE},
        {"max_loss": 1e-4},
        {"rules": {"mine": "brier"}},
        {"class_names": NAMES},
    ],
)
def test_the_dictionary_is_json(options):
    found = evaluate(**options)
    kept = json.loads(_json.dumps(found.to_dict(), indent=1), parse_constant=pytest.fail)
    assert kept["verdict"] == list(found.verdict)
    assert kept["loss"] == found.loss
    assert len(kept["certificates"]) == len(found.certificates)
    assert kept["doubtful"][0]["members"] == found.doubtful[0].members.tolist()
    for name, curve in kept["curves"].items():
        whole = found.curves[name]
        assert curve["coverage"][-1] == 1
        assert curve["aulc"] == whole.aulc
        assert len(curve["coverage"]) == len(curve["loss"]) == 200
        assert curve["loss"][-1] == whole.loss[-1]
    assert (kept["ood"] is None) == ("ood" not in options)


@parametrize("seed", [0, 7, np.random.default_rng(3)], ids=str)
def test_a_seed_makes_it_again(seed):
    found = evaluate(random_state=seed, ood=PROBS[:50])
    again = evaluate(random_state=found.settings["seed"], ood=PROBS[:50])
    assert _json.dumps(found.to_dict()) == _json.dumps(again.to_dict())
    other = evaluate(random_state=12345, ood=PROBS[:50])
    assert other.comparison.standings != found.comparison.standings


def test_plain_json():
    value = {
        1: np.float64("nan"),
        "a": [np.inf, -np.inf, np.array([1.0, np.nan]), np.bool_(True)],
        "b": (np.int64(3), None, "ü", float("nan")),
    }
    assert json.loads(_json.dumps(value)) == {
        "1": None,
        "a": [None, None, [1.0, None], True],
        "b": [3, None, "ü", None],
    }


# -- sentences -------------------------------------------------------------------------------------


def check_sentences(found: sw.Evaluation) -> None:
    """What can be read off any verdict."""
    for sentence in found.verdict:
        assert sentence[0].isupper(), sentence
        assert sentence.endswith("."), sentence
        for wrong in ("nan", "None", "inf ", "  ", "..", "e-0"):
            assert wrong not in sentence or "(p = " in sentence, sentence


def test_some_is_accepted_and_the_loss_falls():
    found = evaluate(max_loss=0.2)
    cert = found.headline
    assert found.verdict[0] == (
        f"Abstain on {100 * (1 - cert.coverage):.3g} % and the error falls from "
        f"{100 * found.loss:.3g} % to under 20 %, with 95 % confidence."
    )
    check_sentences(found)


def test_some_is_accepted_at_a_loss_above_that_of_all():
    """Just above the loss of all rows not all of them can be promised."""
    losses = sw.task_losses(PROBS, Y)
    target = round(losses.mean() + 0.01, 2)
    found = evaluate(max_loss=target)
    assert 0 < found.headline.coverage < 1
    assert re.fullmatch(
        rf"The error is {100 * losses.mean():.3g} % on 300 rows; to promise at most "
        rf"{100 * target:.3g} %, with 95 % confidence, abstain on [\d.]+ %\.",
        found.verdict[0],
    )
    check_sentences(found)


def test_all_is_accepted():
    found = evaluate(CALM, np.zeros(2000, dtype=int))
    assert found.headline.coverage == 1
    assert found.verdict[0] == (
        "Accept everything: the error is 0 %, and under 1 % with 95 % confidence."
    )
    assert all(one.accepted in (1.0, None) for one in found.classes)
    check_sentences(found)


def test_nothing_is_certified():
    found = evaluate(y=(RIGHT + 1) % 3)
    assert found.headline is None
    assert "The error is 100 % on 300 rows, and nothing can be promised" in found.verdict[0]
    assert "More rows may not help" in found.verdict[0]
    assert all(one.accepted is None for one in found.classes)
    few = evaluate(PROBS[:5], RIGHT[:5])
    needed = few.certificates[0].needed
    assert f"About {needed} more labelled rows would be needed." in few.verdict[0]
    check_sentences(found)
    check_sentences(few)


def test_an_error_has_its_article():
    assert " a error" not in evaluate(y=(RIGHT + 1) % 3).verdict[0]


def test_one_row_is_one_row():
    assert "1 rows" not in " ".join(evaluate(PROBS[:1], Y[:1], task_loss="log").verdict)


def test_one_missing_label_is_not_several():
    with pytest.raises(sw.InvalidInput) as caught:
        evaluate(y=np.r_[Y[:4], -1, Y[5:]])
    assert "as are 1 of" not in str(caught.value)


@parametrize(("task_loss", "target"), [("zero-one", 0.2234), ("brier", 0.312349)])
def test_a_target_is_not_rounded_to_a_promise_that_was_not_made(task_loss, target):
    found = evaluate(task_loss=task_loss, max_loss=target)
    assert found.headline is not None
    said = numbers_in(found.verdict[0].split("under")[1])[0]
    assert (said / 100 if found.is_share else said) >= target


def test_a_confidence_is_not_rounded_up():
    found = evaluate(CALM, np.zeros(2000, dtype=int), confidence=0.9546)
    said = numbers_in(found.verdict[0].split(" with ")[1])[0]
    assert said <= 95.46


def test_a_fall_can_be_seen():
    n = 20_000
    y = (np.arange(n) % 10_000 < 1003).astype(int)  # 10.03 % errors, among the most uncertain
    u = np.where(y == 1, 0.4, 0.01)
    found = evaluate(sw.binary(u)[:, None], y, max_loss=0.1)
    before, after = numbers_in(found.verdict[0])[1:3]
    assert before > after, found.verdict[0]


def test_one_row_says_nothing_about_the_average():
    found = evaluate(np.array([[[1.0, 0.0]] * 2]), [1])
    assert "not on average" not in found.verdict[2]


def test_certificates_that_are_not_there_do_not_hold():
    found = evaluate(task_loss="log")
    assert not found.certificates
    assert "certificates hold" not in " ".join(found.verdict)


def test_more_rows_are_not_said_to_be_useless_where_they_help():
    options = {"task_loss": "log", "floor": 1e-6}
    few = evaluate(**options)
    many = evaluate(*members(10_000, 3, m=8), **options)
    assert many.headline is not None
    assert "More rows would not help" not in few.verdict[0]


def test_two_classes():
    """All symmetric totals order rows alike, and are said to be as good."""
    found = evaluate(*members(400, 2))
    alike = [s for s in found.comparison.standings if s.same_order_as is not None]
    assert len(alike) >= 4
    assert {s.value for s in alike if s.name.startswith("total")} == {
        found.comparison["total zero-one"].value
    }
    check_sentences(found)


@parametrize("rule", [TRIAGE, MORE])
def test_costs_have_no_per_cent(rule):
    found = evaluate(task_loss=rule)
    assert found.verdict[0].startswith(f"The cost is {found.loss:.4g} on 300 rows")
    assert not found.is_share
    check_sentences(found)
    big = evaluate(task_loss=rule, max_loss=20)
    assert re.match(
        r"(Abstain on [\d.]+ % and the cost|Accept everything: the cost)", big.verdict[0]
    )
    assert "under 20" in big.verdict[0]


def test_gains_are_told_to_have_no_certificate():
    found = evaluate(task_loss=GAINS)
    assert found.certificates == ()
    assert found.notes == ("No certificate: costs below 0 have no bound to be promised.",)
    assert found.verdict[0] == f"The cost is {found.loss:.4g} on 300 rows."
    check_sentences(found)


def test_no_certificate_without_a_reason():
    costs = sw.rules.cost_matrix([[-5, 5, 1], [-5, 5, 1], [3, 3, 1]])
    found = evaluate(y=np.full(300, 2), task_loss=costs)
    assert found.certificates or found.notes


def test_the_log_loss_needs_a_floor_for_a_promise():
    found = evaluate(task_loss="log")
    assert found.certificates == ()
    assert found.notes[0].startswith("No certificate: the loss 'log' can be infinite")
    assert "floor=1e-6" in found.notes[0]
    assert found.verdict[-1] == found.notes[0]
    check_sentences(found)
    certain = np.array([[[1.0, 0.0]] * 2, [[0.5, 0.5]] * 2])
    with pytest.raises(sw.InvalidInput, match=r"losses\[0\] is inf.*floor=1e-6"):
        evaluate(certain, [1, 0], task_loss="log")
    floored = evaluate(certain, [1, 0], task_loss="log", floor=1e-6)
    assert np.isclose(floored.loss, (-np.log(1e-6) - np.log(0.5)) / 2)
    assert len(floored.certificates) == 6


def test_a_custom_rule():
    found = evaluate(task_loss=own_rule())
    brier = evaluate(task_loss="brier")
    assert np.isclose(found.loss, brier.loss)
    assert found.loss_name == "own loss"
    assert found.notes[0].startswith("No certificate: the largest loss of ")
    check_sentences(found)


def test_what_a_note_advises_can_be_done():
    note = evaluate(task_loss=own_rule()).notes[0]
    assert "loss_bound=" not in note or evaluate(task_loss=own_rule(), loss_bound=2.0).certificates


def test_all_losses_are_equal():
    found = evaluate(y=RIGHT)
    assert found.loss == 0
    assert {s.verdict for s in found.comparison.standings} == {"best", "indistinguishable"}
    assert found.verdict[0].startswith("Accept everything: the error is 0 %, and under")
    check_sentences(found)


def test_one_row():
    for y in (0, 1, 2):
        for rule in ("zero-one", "brier", TRIAGE):
            found = evaluate(PROBS[:1], [y], task_loss=rule)
            assert found.n_rows == 1
            assert found.headline is None
            assert "on one row, and nothing can be promised" in found.verdict[0]
            json.loads(_json.dumps(found.to_dict()))


def test_a_measure_that_is_alone_at_the_top():
    found = evaluate(task_loss=TRIAGE)
    others = [name for name in found.comparison.as_good if name != found.comparison.best]
    sentence = found.verdict[1]
    assert sentence.startswith(f"For abstaining, {found.comparison.best} uncertainty is best here")
    assert ("better than every other measure" in sentence) == (not others)


def test_rules_may_be_none_but_the_task_s_own():
    found = evaluate(rules=[])
    assert "total zero-one" in found.curves
    assert set(found.curves) == {"total zero-one", "max-softmax", "margin", "variation ratio"}


@parametrize("rules", ["log", sw.rules.log, iter(["log"])], ids=["name", "rule", "iterator"])
def test_rules_may_be_one_or_an_iterator_or_are_refused(rules):
    with suppress(sw.InvalidInput):
        assert "total log" in evaluate(rules=rules).curves


def test_honesty():
    found = evaluate(y=(RIGHT + 1) % 3)
    assert found.verdict[2].startswith("The model is too sure of itself: it expected a mean error")
    found = evaluate(y=RIGHT)
    assert found.verdict[2].startswith("The model is less sure of itself than it could be")
    found = evaluate()
    assert found.calibration.is_calibrated
    assert found.verdict[2].startswith("Nothing speaks against what the model expects of itself")


@parametrize(
    ("value", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.5, "50 %"),
        (1e-9, "less than 0.1 %"),
        (0.0512, "5.12 %"),
        (1 - 1e-9, "more than 99.9 %"),
        (0.001, "0.1 %"),
        (0.999, "99.9 %"),
        (0.12345, "12.3 %"),
    ],
)
def test_shares_in_words(value, text):
    assert share_text(value) == text


@settings(max_examples=200)
@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_a_share_is_never_rounded_to_all_or_nothing(value):
    assert share_text(value) not in ("0 %", "100 %", "-0 %")
    assert "e" not in share_text(value).replace("less", "").replace("more", "")


def test_losses_in_words():
    assert loss_text(0.0512, True) == "5.12 %"
    assert loss_text(0.0512, False) == "0.0512"
    assert loss_text(12.34567, False) == "12.35"


def test_names_in_words():
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(list("abcde")) == "a, b, c, d and e"
    assert listed(list("abcdef")) == "a, b, c, d and 2 more"


# -- the certificate that is shown -----------------------------------------------------------------


def test_the_headline_is_the_least_loss_at_which_half_is_accepted():
    def cert(max_loss: float, coverage: float) -> Certificate:
        return Certificate(0.1, coverage, 0.1, 0.1, max_loss, 0.95, 100)

    some = (cert(0.2, 0.9), cert(0.1, 0.5), cert(0.05, 0.49))
    assert headline(some) is some[1]
    low = (cert(0.2, 0.4), cert(0.1, 0.3), cert(0.05, 0.0))
    assert headline(low) is low[0]
    assert headline((cert(0.2, 0.0),)) is None
    assert headline(()) is None


def test_several_targets_share_the_confidence():
    found = evaluate(max_loss=[0.1, 0.3, 0.3, 0.2], confidence=0.9)
    assert [one.max_loss for one in found.certificates] == [0.3, 0.2, 0.1]
    assert all(np.isclose(one.confidence, 1 - 0.1 / 3) for one in found.certificates)
    (alone,) = evaluate(max_loss=0.1, confidence=0.9).certificates
    assert alone.confidence == 0.9


@parametrize(
    ("task_loss", "n", "draws"),
    [("zero-one", 150, 300), ("zero-one", 600, 300), ("brier", 1000, 120)],
)
def test_the_promise_in_the_headline_is_kept(monkeypatch, task_loss, n, draws):
    """Chosen after seeing the data, of all steps of the ladder, at a model that is too sure."""
    monkeypatch.setattr(_Search, "needed", lambda *_: None)  # which take long
    monkeypatch.setattr(_Search, "bound", lambda self, *_: self.level)
    confidence = 0.8
    rng = np.random.default_rng(0)
    pool = np.sort(rng.beta(0.4, 2, 50_000)) / 2  # what the model says of the other class
    chance = np.minimum(0.6, 0.01 + 1.2 * pool)  # of that class
    rule = sw.get_rule(task_loss)
    two = sw.binary(pool)
    losses, scores = rule.loss_vector(two), rule.entropy(two)
    paid = (1 - chance) * losses[:, 0] + chance * losses[:, 1]
    true_mean = np.cumsum(paid) / np.arange(1, len(pool) + 1)
    bound, blind = (1.0, 1.0) if task_loss == "zero-one" else (2.0, 0.5)
    targets = [float(f"{t * blind:.2g}") for t in LADDER]
    broken = shown = 0
    for _ in range(draws):
        some = rng.integers(len(pool), size=n)
        y = (rng.uniform(size=n) < chance[some]).astype(int)
        found = tuple(
            sw.certify_threshold(
                losses[some, y], scores[some], t, 1 - (1 - confidence) / 6, loss_bound=bound
            )
            for t in targets
        )
        best = headline(found)
        if best is not None:
            shown += 1
            accepted = np.searchsorted(scores, best.threshold, side="right")
            broken += true_mean[accepted - 1] > best.max_loss
    assert shown > draws / 2
    assert broken <= binom.ppf(1 - 1e-4, draws, 1 - confidence)
    # and these are what evaluate shows
    same = evaluate(two[some][:, None], y, task_loss=task_loss, confidence=confidence)
    np.testing.assert_allclose(
        [one.threshold for one in same.certificates], [one.threshold for one in found], rtol=1e-9
    )


# -- what is wrong ---------------------------------------------------------------------------------


@parametrize(
    ("options", "told"),
    [
        ({"y": None}, "there are no labels"),
        ({"y": Y[:-1]}, r"labels have shape \(299,\) for 300 rows"),
        ({"y": Y.astype(float)}, "labels have dtype float64"),
        ({"y": np.r_[Y[:-1], 3]}, r"labels\[299\] is 3"),
        ({"y": np.r_[Y[:4], -1, -1, Y[6:]]}, r"labels\[4\] is missing; 2 of 300 rows"),
        ({"y": ["a"] * 300}, "labels are names"),
        ({"ids": [1, 2]}, "ids have shape"),
        ({"ids": [1.5] * 300}, r"ids\[0\] is 1.5"),
        ({"class_names": ["a"]}, "1 class_names for 3 classes"),
        ({"class_names": ["a", "a", "b"]}, "two classes are called 'a'"),
        ({"confidence": 95}, "confidence must be above 0 and below 1"),
        ({"n_doubtful": -1}, "n_doubtful must be a whole number"),
        ({"n_resamples": 10}, "n_resamples must be a whole number from 100"),
        ({"max_loss": 1.5}, "max_loss is 1.5"),
        ({"max_loss": [0.1, np.nan]}, "max_loss must be a finite number"),
        ({"max_loss": "0.1"}, "max_loss must be a finite number"),
        ({"task_loss": "nonsense"}, "no rule is called 'nonsense'"),
        ({"task_loss": sw.rules.cost_matrix(np.eye(2))}, "2 classes"),
        ({"rules": ["log", "log"]}, "two rules are called 'log'"),
        ({"rules": {"zero-one": "brier"}}, "both called 'zero-one'"),
        ({"probs": PROBS[:, 0]}, "member"),
        ({"probs": PROBS[:0], "y": Y[:0]}, "there are no rows to evaluate"),
        ({"probs": sw.Dirichlet(np.ones((300, 3)))}, "must have members"),
        ({"floor": 0.5, "task_loss": "log"}, "floor is 0.5"),
    ],
)
def test_what_does_not_fit_is_refused(options, told):
    with pytest.raises(sw.InvalidInput, match=told):
        evaluate(**options)


def test_predictions_know_their_own_weights():
    with pytest.raises(
        sw.InvalidInput, match="weights: not an option here, as the file decides it"
    ):
        evaluate(sw.Predictions(PROBS, labels=Y), weights=np.ones(8))


def test_weights_by_row_do_not_rule_out_foreign_rows():
    weights = np.linspace(1, 2, 300 * 8).reshape(300, 8)
    with pytest.raises(sw.InvalidInput, match="pass ood as Samples"):
        evaluate(weights=weights, ood=PROBS[:50])
    foreign = sw.Samples(PROBS[:50], weights[:50])
    found = evaluate(weights=weights, ood=foreign)
    np.testing.assert_array_equal(found.ood.outside, sw.decompose(foreign, "log").epistemic)


def test_half_precision_is_good_enough():
    evaluate(PROBS.astype(np.float16))
