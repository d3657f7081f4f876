"""What the theory says: which measure, why, and when it may not hold."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import scorewise as sw
from scorewise.compare import Advice
from support import all_rules, members

SYMMETRIC = ("log", "brier", "zero-one", "spherical")
TWO_CLASSES, ALWAYS = "With two classes", "any number of classes"
CALIBRATION, OWN_DATA = "if the probabilities are calibrated", "compare"


def says(advice: Advice, words: str) -> bool:
    return any(words in caveat for caveat in advice.caveats)


@pytest.mark.parametrize("k", [2, 3])
def test_abstaining_wants_the_total_of_the_task_loss(k):
    for name, rule in all_rules(k).items():
        needs_numbers = name in ("cost-matrix", "quadratic", "weighted-log")
        for task_loss in (rule,) if needs_numbers else (rule, rule.name):
            advice = sw.advise("selective", task_loss)
            assert (advice.task, advice.component) == ("selective", "total")
            assert advice.rule == advice.task_loss == rule.name
            assert advice.measure == f"total {rule.name}"
            assert "Proposition 4.1" in advice.reason
            assert says(advice, CALIBRATION)
            alike = rule.family in {"tsallis", "pseudospherical"} or name == "beta:0,0"
            assert says(advice, TWO_CLASSES) == (rule.name in SYMMETRIC or alike)
            assert says(advice, ALWAYS) == (rule.name in ("brier", "spherical"))


@pytest.mark.parametrize(
    ("task", "measure", "why"),
    [
        ("ood", "epistemic log", "mutual information"),
        ("active", "epistemic zero-one", "wrong decision"),
    ],
)
def test_other_tasks_want_one_measure_whatever_the_loss(task, measure, why):
    for rule in all_rules(3).values():
        advice = sw.advise(task, rule)
        assert (advice.measure, advice.task_loss) == (measure, rule.name)
        assert why in advice.reason
        assert not says(advice, CALIBRATION)
        assert says(advice, OWN_DATA)
        assert says(advice, "members")
        assert says(advice, "depends on the model") == (task == "ood")
        assert not says(advice, TWO_CLASSES)
        assert says(advice, "exactly 0") == (task == "active")


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("selective", ["abstain", "abstention", "rejection", "selective prediction"]),
        ("ood", ["detect", "OOD", "out-of-distribution", "ood_detection"]),
        ("active", ["label", "active learning"]),
    ],
)
def test_other_names_of_a_task_are_understood(task, names):
    assert [sw.advise(name) for name in names] == [sw.advise(task)] * len(names)


def test_a_misspelt_task_is_guessed():
    with pytest.raises(sw.InvalidInput, match="'active', not 'abstian'; did you mean 'abstain'"):
        sw.advise("abstian")


def test_the_loss_has_its_own_name():
    assert sw.advise("abstain", "cross-entropy") == sw.advise("selective", "log")
    assert sw.advise("abstain", [[0, 1], [5, 0]]).measure == "total cost-matrix"


def test_the_loss_is_zero_one_by_default():
    for task in ("selective", "ood", "active"):
        assert sw.advise(task) == sw.advise(task, "zero-one")


def test_advice_reads_as_text_and_cannot_be_changed():
    advice = sw.advise("selective", "brier")
    lines = str(advice).splitlines()
    assert lines[0] == f"Use total brier uncertainty. {advice.reason}"
    assert lines[1:] == [f"- {caveat}" for caveat in advice.caveats]
    assert len(lines) == 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        advice.rule = "log"


def test_the_advised_rule_is_in_the_table_of_the_comparison():
    probs, y = members(30, 3, 3), np.arange(30) % 3
    options = {"n_resamples": 100, "random_state": 0, "progress": False}
    for rule in [*all_rules(3).values(), "tsallis:1.5", "top-k:2"]:
        advice = sw.advise("selective", rule)
        assert sw.compare(probs, y, task_loss=rule, **options)[advice.measure].name
    comparison = sw.compare(probs, task="ood", ood=probs, **options)
    assert comparison[sw.advise("ood").measure].name
    measure = sw.advise("active").measure
    comparison = sw.compare(task="active", runs={measure: [[1.0], [2.0]], "random": [[2.0], [2.5]]})
    assert measure in comparison.notes[0]
    assert "was not compared" not in comparison.notes[0]


def test_the_caveats_are_true():
    """Two classes, and Brier with spherical: the orders that are said to be alike are."""
    two = sw.decompose(members(300, 4, 2), list(SYMMETRIC))
    order = np.argsort(two["log"].total)
    for rule in SYMMETRIC:
        assert (np.diff(two[rule].total[order]) >= -1e-12).all(), rule
    three = sw.decompose(members(300, 4, 3), list(SYMMETRIC))
    order = np.argsort(three["brier"].total)
    assert (np.diff(three["spherical"].total[order]) >= -1e-12).all()
    assert not (np.diff(three["log"].total[order]) >= -1e-12).all()


@pytest.mark.parametrize(
    ("task", "loss", "message"),
    [
        ("rank", "log", "'selective', 'ood', 'active', not 'rank'"),
        (None, "log", "not None"),
        ("selective", "nope", "no rule is called 'nope'"),
        ("ood", "nope", "no rule is called 'nope'"),
        ("selective", None, "None"),
        ("selective", "top-k", "top-k"),
    ],
)
def test_bad_input_is_refused(task, loss, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.advise(task, loss)
