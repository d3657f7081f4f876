"""Sentences of an evaluation: each is true, by name, and rounds nothing to less."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import scorewise as sw
from evaluate_support import MORE, PROBS, RIGHT, TRIAGE, Y, evaluate
from report_support import members, with_learning
from scorewise.compare import Evaluation, Standing
from support import as_json

parametrize = pytest.mark.parametrize
GAINS = sw.rules.cost_matrix([[-1, 5, 1], [5, -1, 1], [3, 3, -3]])
CALM = sw.binary(np.full(2000, 0.01))[:, None]


def own_rule(scale: float = 1.0) -> sw.rules.ScoringRule:
    return sw.rule_from_loss_vector(
        lambda p: scale * ((p * p).sum(axis=-1, keepdims=True) + 1 - 2 * p), name="own"
    )


def numbers_in(text: str) -> list[float]:
    return [float(x.replace(",", "")) for x in re.findall(r"-?\d[\d,]*\.?\d*", text)]


def check_sentences(evaluation: Evaluation) -> None:
    """What can be read off any verdict."""
    for sentence in evaluation.verdict:
        assert sentence[0].isupper(), sentence
        assert sentence.endswith("."), sentence
        for wrong in ("nan", "None", "inf ", "  ", "..", "e-0"):
            assert wrong not in sentence or "(p = " in sentence or "floor=" in sentence, sentence


def test_a_verdict_is_a_sequence_of_its_sentences():
    verdict = evaluate().verdict
    assert list(verdict) == [verdict.abstain, verdict.measures, verdict.calibration]
    assert len(verdict) == 3
    assert verdict[0] == verdict.abstain
    assert verdict[1:] == (verdict.measures, verdict.calibration)


def test_some_is_accepted_and_the_loss_falls():
    evaluation = evaluate(max_loss=0.2)
    cert = evaluation.headline
    assert evaluation.verdict.abstain == (
        f"Abstain on {100 * (1 - cert.coverage):.3g} % and the error falls from "
        f"{100 * evaluation.loss:.3g} % to under 20 %, with 95 % confidence."
    )
    check_sentences(evaluation)


def test_some_is_accepted_at_a_loss_above_that_of_all():
    """Just above the loss of all rows not all of them can be certified."""
    losses = sw.task_losses(PROBS, Y)
    target = round(losses.mean() + 0.01, 2)
    evaluation = evaluate(max_loss=target)
    assert 0 < evaluation.headline.coverage < 1
    assert re.fullmatch(
        rf"The error is {100 * losses.mean():.3g} % on 300 rows; to guarantee at most "
        rf"{100 * target:.3g} %, with 95 % confidence, abstain on [\d.]+ %\.",
        evaluation.verdict.abstain,
    )
    check_sentences(evaluation)


def test_all_is_accepted():
    evaluation = evaluate(CALM, np.zeros(2000, dtype=int))
    assert evaluation.headline.coverage == 1
    assert evaluation.verdict.abstain == (
        "Accept all rows: the error is 0 %, and under 1 % with 95 % confidence."
    )
    assert all(summary.coverage in (1.0, None) for summary in evaluation.classes)
    check_sentences(evaluation)


def test_nothing_is_certified():
    evaluation = evaluate(y=(RIGHT + 1) % 3)
    assert evaluation.headline is None
    sentence = evaluation.verdict.abstain
    assert "The error is 100 % on 300 rows, and no threshold guarantees" in sentence
    assert "More rows may not help" in sentence
    assert all(summary.coverage is None for summary in evaluation.classes)
    few = evaluate(PROBS[:5], RIGHT[:5])
    needed = few.certificates[0].n_more_rows
    assert f"About {needed} more labelled rows would be needed." in few.verdict.abstain
    check_sentences(evaluation)
    check_sentences(few)


def test_an_error_has_its_article():
    assert " a error" not in evaluate(y=(RIGHT + 1) % 3).verdict.abstain


def test_one_row_is_one_row():
    assert "1 rows" not in " ".join(evaluate(PROBS[:1], Y[:1], task_loss="log").verdict)


@parametrize(("task_loss", "target"), [("zero-one", 0.2234), ("brier", 0.312349)])
def test_a_guarantee_is_never_rounded_to_less(task_loss, target):
    evaluation = evaluate(task_loss=task_loss, max_loss=target)
    assert evaluation.headline is not None
    stated = numbers_in(evaluation.verdict.abstain.split("under")[1])[0]
    assert (stated / 100 if evaluation.unit.is_proportion else stated) >= target


def test_a_confidence_is_not_rounded_up():
    evaluation = evaluate(CALM, np.zeros(2000, dtype=int), confidence=0.9546)
    stated = numbers_in(evaluation.verdict.abstain.split(" with ")[1])[0]
    assert stated <= 95.46


def test_a_fall_can_be_seen():
    n = 20_000
    y = (np.arange(n) % 10_000 < 1003).astype(int)  # 10.03 % errors, among the most uncertain
    u = np.where(y == 1, 0.4, 0.01)
    evaluation = evaluate(sw.binary(u)[:, None], y, max_loss=0.1)
    before, after = numbers_in(evaluation.verdict.abstain)[1:3]
    assert before > after, evaluation.verdict.abstain


def test_one_row_says_nothing_about_the_average():
    evaluation = evaluate(np.array([[[1.0, 0.0]] * 2]), [1])
    assert "not on average" not in evaluation.verdict.calibration


def test_certificates_that_are_not_there_do_not_hold():
    evaluation = evaluate(task_loss="log")
    assert not evaluation.certificates
    assert "certificates stay valid" not in evaluation.verdict.calibration


def test_more_rows_are_not_called_useless_where_they_help():
    options = {"task_loss": "log", "floor": 1e-6}
    few = evaluate(**options)
    many = evaluate(*members(10_000, 3, m=8), **options)
    assert many.headline is not None
    assert "More rows would not help" not in few.verdict.abstain


@parametrize("rule", [TRIAGE, MORE])
def test_costs_are_no_percentages(rule):
    evaluation = evaluate(task_loss=rule)
    assert evaluation.verdict.abstain.startswith(f"The cost is {evaluation.loss:.4g} on 300 rows")
    assert not evaluation.unit.is_proportion
    check_sentences(evaluation)
    big = evaluate(task_loss=rule, max_loss=20)
    assert re.match(
        r"(Abstain on [\d.]+ % and the cost|Accept all rows: the cost)", big.verdict.abstain
    )
    assert "under 20" in big.verdict.abstain


def test_gains_have_no_certificate():
    evaluation = evaluate(task_loss=GAINS)
    assert evaluation.certificates == ()
    assert evaluation.verdict.notes == (
        "No certificate: a cost is below 0, and a guarantee needs losses from 0 on; add a constant "
        "to the costs.",
    )
    assert evaluation.verdict.abstain == f"The cost is {evaluation.loss:.4g} on 300 rows."
    check_sentences(evaluation)


def test_no_certificate_without_a_reason():
    costs = sw.rules.cost_matrix([[-5, 5, 1], [-5, 5, 1], [3, 3, 1]])
    evaluation = evaluate(y=np.full(300, 2), task_loss=costs)
    assert evaluation.certificates or evaluation.notes


def test_the_log_loss_needs_a_floor_for_a_certificate():
    evaluation = evaluate(task_loss="log")
    assert evaluation.certificates == ()
    (note,) = evaluation.notes
    assert note.problem.startswith("No certificate: the loss 'log' can be infinite")
    assert [(remedy.argument, remedy.value) for remedy in note.remedies] == [("floor", 1e-6)]
    assert evaluation.verdict.notes == (str(note),)
    assert "pass floor=1e-06" in str(note)
    check_sentences(evaluation)
    certain = np.array([[[1.0, 0.0]] * 2, [[0.5, 0.5]] * 2])
    with pytest.raises(sw.InvalidInput, match=r"row 0 is infinite.*floor=1e-0?6"):
        evaluate(certain, [1, 0], task_loss="log")
    floored = evaluate(certain, [1, 0], task_loss="log", floor=1e-6)
    assert np.isclose(floored.loss, (-np.log(1e-6) - np.log(0.5)) / 2)
    assert len(floored.certificates) == 6


def test_a_custom_rule():
    evaluation = evaluate(task_loss=own_rule())
    brier = evaluate(task_loss="brier")
    assert np.isclose(evaluation.loss, brier.loss)
    assert evaluation.unit.noun == "own loss"
    assert str(evaluation.notes[0]).startswith("No certificate: the largest loss of ")
    check_sentences(evaluation)


def test_what_a_note_advises_can_be_done():
    (note,) = evaluate(task_loss=own_rule()).notes
    assert [remedy.argument for remedy in note.remedies] == ["loss_bound"]
    assert evaluate(task_loss=own_rule(), loss_bound=2.0).certificates
    (note,) = evaluate(task_loss="log").notes
    (remedy,) = note.remedies
    assert evaluate(task_loss="log", **{remedy.argument: remedy.value}).certificates


def test_all_losses_are_equal():
    evaluation = evaluate(y=RIGHT)
    assert evaluation.loss == 0
    assert {s.verdict for s in evaluation.comparison.standings} == {"best", "indistinguishable"}
    assert evaluation.verdict.abstain.startswith("Accept all rows: the error is 0 %, and under")
    check_sentences(evaluation)


def test_one_row():
    for y in (0, 1, 2):
        for rule in ("zero-one", "brier", TRIAGE):
            evaluation = evaluate(PROBS[:1], [y], task_loss=rule)
            assert evaluation.n_rows == 1
            assert evaluation.headline is None
            assert "on one row, and no threshold guarantees" in evaluation.verdict.abstain
            as_json(evaluation.to_dict())


def test_a_measure_that_is_alone_at_the_top():
    evaluation = evaluate(task_loss=TRIAGE)
    others = [
        name
        for name in evaluation.comparison.indistinguishable
        if name != evaluation.comparison.best
    ]
    sentence = evaluation.verdict.measures
    assert sentence.startswith(
        f"For abstaining, {evaluation.comparison.best} uncertainty is best here"
    )
    assert ("better than every other measure" in sentence) == (not others)


def test_calibration_is_stated():
    wrong = evaluate(y=(RIGHT + 1) % 3).verdict.calibration
    assert wrong.startswith("The model is overconfident: the expected error is ")
    assert "and 100 % were wrong" in wrong
    assert "Recalibrate before using the expected loss" in wrong
    right = evaluate(y=RIGHT).verdict.calibration
    assert right.startswith("The model is underconfident: the expected error is ")
    assert "and 0 % were wrong" in right
    calibrated = evaluate()
    sentence = calibrated.verdict.calibration
    assert sentence.startswith("The model shows no miscalibration: the expected error is ")
    assert "Recalibrate" not in sentence


def test_ood_detection_is_stated():
    similar = np.random.default_rng(2).permutation(PROBS)
    certain = np.broadcast_to(np.eye(3)[[0, 1, 2] * 30][:, None], (90, 8, 3))
    members_disagree = np.random.default_rng(1).dirichlet(np.ones(3), size=(80, 8))
    measure = "Epistemic uncertainty under the log rule"
    separates = evaluate(ood=members_disagree)
    verdict, metrics = separates.verdict, separates.ood.metrics
    assert verdict.ood.startswith(f"{measure} separates out-of-distribution inputs (AUROC ")
    assert f"AUROC {metrics.auroc:.3f}" in verdict.ood
    assert "raises false alarms on" in verdict.ood
    best = separates.ood.comparison.best
    assert verdict.ood_measures.startswith(f"For OOD detection, {best} uncertainty is best here")
    assert f"{measure} does not separate" in evaluate(ood=similar).verdict.ood
    lower = evaluate(ood=certain).verdict.ood
    assert lower.startswith(f"{measure} is lower for out-of-distribution inputs than for others")
    assert evaluate().verdict.ood is evaluate().verdict.ood_measures is None


@parametrize("best", ["epistemic zero-one", "random"])
def test_active_learning_is_stated(best):
    other = {"random": "epistemic zero-one", "epistemic zero-one": "random"}[best]
    sentence = with_learning(evaluate(), best, other).verdict.learning
    if best == "random":
        assert sentence.startswith("Labels chosen at random did best here: error ")
    else:
        assert sentence.startswith("With labels chosen by epistemic zero-one, the error is ")
        assert "; chosen at random, " in sentence
    assert "at 50 labels" in sentence
    assert evaluate().verdict.learning is None


def test_the_verdict_is_read_in_order_and_by_name():
    evaluation = with_learning(evaluate(ood=PROBS[:50], task_loss="log"), "total log", "random")
    verdict = evaluation.verdict
    assert list(verdict) == [
        verdict.abstain,
        verdict.measures,
        verdict.ood,
        verdict.ood_measures,
        verdict.learning,
        verdict.calibration,
        *verdict.notes,
    ]
    assert len(verdict.notes) == 1
    assert str(evaluation) == str(verdict) == "\n".join(verdict)


def test_remedies_and_names_can_be_rendered_by_the_caller():
    evaluation = evaluate(task_loss="log", ood=PROBS[:50])
    shell = evaluation.sentences(lambda remedy: f"use --{remedy.argument} {remedy.value}")
    assert shell.notes[0].endswith("use --floor 1e-06.")
    assert "floor=" not in str(shell)
    shouted = evaluation.sentences(name_text=str.upper)
    assert evaluation.comparison.best.upper() in shouted.measures
    assert "The LOG LOSS is" in shouted.abstain
    assert "under the LOG rule" in shouted.ood


@parametrize(
    ("others", "listed"),
    [
        ("b", "b is"),
        ("bc", "b and c are"),
        ("bcdef", "b, c, d, e and f are"),
        ("bcdefg", "b, c, d, e and 2 more are"),
    ],
)
def test_names_are_listed_up_to_a_few(others, listed):
    rows = tuple(
        Standing(name, 0.1 + 0.01 * i, 0.01 * i, -1.0, 1.0, 0.5, "indistinguishable")
        for i, name in enumerate("a" + others)
    )
    evaluation = evaluate()
    comparison = replace(evaluation.comparison, standings=rows)
    assert replace(evaluation, comparison=comparison).verdict.measures == (
        f"For abstaining, a uncertainty is best here; {listed} indistinguishable from it."
    )
