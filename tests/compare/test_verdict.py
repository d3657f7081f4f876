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


# of specialists, of functions and of tests, without the nouns of losses
JARGON = re.compile(
    r"\bp [=<]|_|=|scorewise|aleatoric|epistemic|total|zero-one|spherical|softmax|AULC|AUROC"
    r"|calibrat|coverage|certificate|threshold|member|distribution|measure",
    re.IGNORECASE,
)


def check_sentences(evaluation: Evaluation) -> None:
    """What can be read off any verdict."""
    assert len(evaluation.verdict.plain) == 3
    for sentence in evaluation.verdict.plain:
        assert not JARGON.search(sentence), sentence
        assert len(sentence) < 300, sentence
    for sentence in evaluation.verdict:
        assert sentence[0].isupper(), sentence
        assert sentence.endswith("."), sentence
        for wrong in ("nan", "None", "inf ", "  ", "..", "e-0"):
            assert wrong not in sentence or "(p = " in sentence or "floor=" in sentence, sentence


def test_a_verdict_is_a_sequence_of_its_sentences():
    verdict = evaluate().verdict
    assert verdict[:3] == verdict.plain == (verdict.abstain, verdict.ood, verdict.calibration)
    details = (verdict.measures, verdict.calibration_test, verdict.calibrating)
    assert verdict[3:] == verdict.details == details
    assert len(verdict) == 6


def test_what_abstaining_buys_is_stated_in_everyday_numbers():
    evaluation = evaluate(max_loss=0.2)
    cert = evaluation.headline
    assert evaluation.verdict.abstain == (
        f"If the model passes on the {100 * (1 - cert.coverage):.0f} % of cases it is least sure "
        f"of, {100 * cert.loss:.0f} % of the rest are wrong instead of "
        f"{100 * evaluation.loss:.0f} %; on new cases like these at most 20 % of the answers will "
        "be wrong, with 95 % confidence."
    )
    check_sentences(evaluation)


def test_some_is_accepted_at_a_loss_above_that_of_all():
    """Just above the loss of all rows not all of them can be certified."""
    losses = sw.task_losses(PROBS, Y)
    target = round(losses.mean() + 0.01, 2)
    evaluation = evaluate(max_loss=target)
    assert 0 < evaluation.headline.coverage < 1
    assert f"at most {100 * target:.3g} % of the answers" in evaluation.verdict.abstain
    check_sentences(evaluation)


def test_all_is_accepted():
    evaluation = evaluate(CALM, np.zeros(2000, dtype=int))
    assert evaluation.headline.coverage == 1
    assert evaluation.verdict.abstain == (
        "If the model answers all 2,000 cases, 0 % are wrong; on new cases like these at most 1 % "
        "of the answers will be wrong, with 95 % confidence."
    )
    assert all(summary.coverage in (1.0, None) for summary in evaluation.classes)
    check_sentences(evaluation)


def test_nothing_is_certified():
    evaluation = evaluate(y=(RIGHT + 1) % 3)
    assert evaluation.headline is None
    sentence = evaluation.verdict.abstain
    assert "100 % of the rest are wrong, no fewer than of all (100 %). Nothing can be" in sentence
    assert "not even that at most 20 % are wrong: more labelled cases may not help" in sentence
    assert all(summary.coverage is None for summary in evaluation.classes)
    few = evaluate(PROBS[:5], RIGHT[:5])
    needed = few.certificates[0].n_more_rows
    assert f"about {needed} more labelled cases would be needed." in few.verdict.abstain
    wrong = evaluate(PROBS[:5], (RIGHT[:5] + 1) % 3)
    needed = wrong.certificates[0].fewest_rows
    assert f"at least {needed} labelled cases are needed." in wrong.verdict.abstain
    check_sentences(evaluation)
    check_sentences(few)


def test_one_row_is_one_row():
    assert " 1 cases" not in " ".join(evaluate(PROBS[:1], Y[:1], task_loss="log").verdict)


@parametrize(("task_loss", "target"), [("zero-one", 0.2234), ("brier", 0.312349)])
def test_a_guarantee_is_never_rounded_to_less(task_loss, target):
    evaluation = evaluate(task_loss=task_loss, max_loss=target)
    assert evaluation.headline is not None
    stated = numbers_in(evaluation.verdict.abstain.split("at most")[1])[0]
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
    after, before = numbers_in(evaluation.verdict.abstain)[1:3]
    assert before > after, evaluation.verdict.abstain


def test_one_row_says_nothing_about_the_average():
    evaluation = evaluate(np.array([[[1.0, 0.0]] * 2]), [1])
    assert "not on average" not in evaluation.verdict.calibration_test
    assert "do not fit the outcomes" in evaluation.verdict.calibration


def test_certificates_that_are_not_there_do_not_hold():
    evaluation = evaluate(task_loss="log")
    assert not evaluation.certificates
    assert "certificates stay valid" not in evaluation.verdict.calibration_test


def test_more_rows_are_not_called_useless_where_they_help():
    options = {"task_loss": "log", "floor": 1e-6}
    few = evaluate(**options)
    many = evaluate(*members(10_000, 3, m=8), **options)
    assert many.headline is not None
    assert "More rows would not help" not in few.verdict.abstain


@parametrize("rule", [TRIAGE, MORE])
def test_costs_are_no_percentages(rule):
    evaluation = evaluate(task_loss=rule)
    assert f" {evaluation.loss:.3g}" in evaluation.verdict.abstain
    assert " on average" in evaluation.verdict.abstain
    assert not evaluation.unit.is_proportion
    check_sentences(evaluation)
    big = evaluate(task_loss=rule, max_loss=20)
    assert "the cost will be at most 20 on average" in big.verdict.abstain


def test_gains_have_no_certificate():
    evaluation = evaluate(task_loss=GAINS)
    assert evaluation.certificates == ()
    assert evaluation.verdict.notes == (
        "No certificate: a cost is below 0, and a guarantee needs losses from 0 on; add a constant "
        "to the costs.",
    )
    assert evaluation.verdict.abstain.endswith(f" on average instead of {evaluation.loss:.3g}.")
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
    assert evaluation.verdict.abstain.startswith(
        "If the model answers all 300 cases, 0 % are wrong"
    )
    assert evaluation.verdict.measures == (
        "The choice of measure hardly matters here: for abstaining, 300 rows show no difference "
        "between the 15 measures."
    )
    check_sentences(evaluation)


def test_one_row():
    for y in (0, 1, 2):
        for rule in ("zero-one", "brier", TRIAGE):
            evaluation = evaluate(PROBS[:1], [y], task_loss=rule)
            assert evaluation.n_rows == 1
            assert evaluation.headline is None
            assert "Nothing can be guaranteed for new cases" in evaluation.verdict.abstain
            check_sentences(evaluation)
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
    wrong = evaluate(y=(RIGHT + 1) % 3).verdict
    assert wrong.calibration_test.startswith("The model is overconfident: the expected error is ")
    assert "and 100 % were wrong" in wrong.calibration_test
    assert "Calibrate the probabilities before using the expected loss" in wrong.calibration_test
    assert wrong.calibration.startswith("The probabilities are too confident to be taken at face")
    assert (
        "of the answers would be wrong, and 100 % are; after a correction by known outcomes, "
        in (wrong.calibration)
    )
    right = evaluate(y=RIGHT).verdict
    assert right.calibration_test.startswith("The model is underconfident: the expected error is ")
    assert right.calibration.startswith("The probabilities are too cautious to be taken at face")
    calibrated = evaluate().verdict
    assert calibrated.calibration_test.startswith("The model shows no miscalibration: the expected")
    assert calibrated.calibration.startswith(
        "The probabilities can be believed, as far as 300 cases can show: by them 25 % of "
    )


def test_ood_detection_is_stated():
    similar = np.random.default_rng(2).permutation(PROBS)
    certain = np.broadcast_to(np.eye(3)[[0, 1, 2] * 30][:, None], (90, 8, 3))
    members_disagree = np.random.default_rng(1).dirichlet(np.ones(3), size=(80, 8))
    measure = "Epistemic uncertainty under the log rule"
    unlike = "inputs unlike those it was trained on"
    separates, same, lower = (evaluate(ood=x) for x in (members_disagree, similar, certain))
    verdict, metrics = separates.verdict, separates.ood.metrics
    assert verdict.ood_metrics.startswith(f"{measure} separates out-of-distribution inputs (AUROC ")
    assert f"AUROC {metrics.auroc:.3f}" in verdict.ood_metrics
    assert "raises false alarms on" in verdict.ood_metrics
    assert verdict.ood.startswith(f"The model notices {unlike}: catching 95 % of them means false ")
    best = separates.ood.comparison.best
    assert verdict.ood_measures.startswith(f"For OOD detection, {best} uncertainty is best here")
    assert f"{measure} does not separate" in same.verdict.ood_metrics
    assert same.verdict.ood.startswith(f"The model does not notice {unlike}: it is about as sure")
    assert lower.verdict.ood_metrics.startswith(
        f"{measure} is lower for out-of-distribution inputs"
    )
    assert lower.verdict.ood.startswith(f"The model is surer of {unlike} than of ordinary ones")
    untested = evaluate().verdict
    assert untested.ood.startswith(f"It was not tested whether the model notices {unlike}")
    assert untested.ood_metrics is untested.ood_measures is None
    for evaluation in (separates, same, lower):
        check_sentences(evaluation)


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
        verdict.ood,
        verdict.calibration,
        *verdict.notes,
        verdict.measures,
        verdict.ood_metrics,
        verdict.ood_measures,
        verdict.learning,
        verdict.calibration_test,
        verdict.calibrating,
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
    assert "the LOG LOSS of the rest is" in shouted.abstain
    assert "under the LOG rule" in shouted.ood_metrics


def test_rows_that_are_too_few_to_compare_measures_are_not_said_to_show_that_all_are_alike():
    rows = tuple(
        Standing(name, 0.1 + 0.1 * i, 0.1 * i, -1.0, 1.0, 0.5, "indistinguishable")
        for i, name in enumerate("abcdefg")
    )
    evaluation = evaluate()
    comparison = replace(evaluation.comparison, standings=rows)
    sentence = replace(evaluation, comparison=comparison).verdict.measures
    assert sentence.startswith("There are too few rows (300) to tell 7 of the 7 measures apart")


@parametrize(
    ("others", "sentence"),
    [
        ("b", "For abstaining, a uncertainty is best here; b is indistinguishable from it."),
        (
            "bcde",
            "For abstaining, a uncertainty is best here; b, c, d and e are indistinguishable ",
        ),
        (
            "bcdefg",
            "The choice among 7 of 8 measures hardly matters here: for abstaining, they are ",
        ),
    ],
)
def test_many_indistinguishable_measures_are_counted_rather_than_listed(others, sentence):
    rows = tuple(
        Standing(name, 0.1 + 0.001 * i, 0.001 * i, -1.0, 1.0, 0.5, "indistinguishable")
        for i, name in enumerate("a" + others)
    )
    worse = Standing("z", 0.9, 0.8, 0.7, 0.9, 0.01, "worse")
    evaluation = evaluate()
    comparison = replace(evaluation.comparison, standings=(*rows, worse))
    assert replace(evaluation, comparison=comparison).verdict.measures.startswith(sentence)


def test_certificates_of_one_threshold_are_one_guarantee():
    evaluation = evaluate(y=RIGHT)
    accepting, *others = evaluation.guarantees
    assert [cert.max_loss for cert in accepting] == [0.02, 0.03, 0.05, 0.1, 0.2]
    assert len({cert.threshold for cert in accepting}) == 1
    assert [cert.max_loss for group in others for cert in group] == [0.01]
    nothing = evaluate(y=(RIGHT + 1) % 3)
    assert [len(group) for group in nothing.guarantees] == [5, 1]  # 1 % needs more rows
