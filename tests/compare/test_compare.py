"""Which measure is best here: values by their definition, for all three tasks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import scorewise as sw
from compare_support import COMPONENTS, QUICK, RULES, labels
from scorewise.compare import Comparison
from support import all_rules, members

PROBS, Y = members(20, 3, 4), np.arange(20) % 4


def by_name(comparison: Comparison) -> dict[str, float]:
    return {row.name: row.value for row in comparison.standings}


# -- abstaining ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_value_is_the_aulc_of_that_measure(dtype):
    probs = members(200, 5, 4).astype(dtype)
    y = labels(probs)
    for task_loss in RULES:
        losses = sw.task_losses(probs, y, task_loss)
        comparison = sw.compare(probs, y, task_loss=task_loss, baselines=False, **QUICK)
        assert len(comparison.standings) == 12
        same = {row.name: row.same_order_as for row in comparison.standings}
        for rule, d in sw.decompose(probs, list(RULES)).items():
            for component in COMPONENTS:
                name = f"{component} {rule}"
                expected = sw.aulc(losses, getattr(d, component))
                # those that order alike up to rounding share one value
                rtol = 1e-12 if same[name] is None else 1e-3
                np.testing.assert_allclose(
                    comparison[name].value, expected, rtol=rtol, err_msg=name
                )


def test_the_best_comes_first_and_the_distances_are_from_it():
    probs = members(300, 5, 4)
    comparison = sw.compare(probs, labels(probs), **QUICK)
    values = [row.value for row in comparison.standings]
    assert values == sorted(values)
    assert comparison.best == comparison.standings[0].name
    assert comparison.standings[0].verdict == "best"
    assert [row.verdict for row in comparison.standings].count("best") == 1
    for row in comparison.standings:
        assert row.distance_to_best == pytest.approx(row.value - values[0], abs=1e-15)
        assert row.low <= row.distance_to_best <= row.high
        assert row.high - row.distance_to_best == pytest.approx(
            row.distance_to_best - row.low, abs=1e-12
        )
        assert (row.name in comparison.indistinguishable) == (row.low <= 0)
        if row.verdict == "worse":
            assert row.low > 0
            assert row.p_value <= 0.06
        if row.verdict == "indistinguishable":
            assert row.low <= 0
            assert row.p_value >= 0.04


@pytest.mark.parametrize("task_loss", ["brier", "tsallis:1.5", sw.rules.rps])
def test_the_total_of_the_tasks_own_loss_always_takes_part(task_loss):
    probs = members(50, 3, 4)
    y = labels(probs)
    comparison = sw.compare(
        probs,
        y,
        task_loss=task_loss,
        rules=["log"],
        components=["epistemic"],
        baselines=False,
        **QUICK,
    )
    name = f"total {task_loss if isinstance(task_loss, str) else task_loss.name}"
    assert {row.name for row in comparison.standings} == {name, "epistemic log"}
    total = sw.decompose(probs, task_loss).total
    assert comparison[name].value == pytest.approx(
        sw.aulc(sw.task_losses(probs, y, task_loss), total)
    )
    assert name in comparison.notes[0]


def test_every_rule_can_be_the_loss():
    probs = members(80, 4, 3)
    y = labels(probs)
    for name, rule in all_rules(3).items():
        comparison = sw.compare(
            probs,
            y,
            task_loss=rule,
            rules={"this": rule},
            components=["total"],
            baselines=False,
            **QUICK,
        )
        expected = sw.aulc(sw.task_losses(probs, y, rule), sw.decompose(probs, rule).total)
        assert comparison["total this"].value == pytest.approx(expected), name
        # the loss by its own name, and the rule by the user's: one measure
        others = [row for row in comparison.standings if row.name != comparison.best]
        assert all(row.same_order_as == comparison.best for row in others), name
        assert comparison.indistinguishable == [row.name for row in comparison.standings], name


def test_rules_may_have_names_of_their_own():
    probs = members(100, 4, 3)
    costs = sw.rules.cost_matrix([[0, 1, 5], [1, 0, 5], [1, 1, 0]])
    comparison = sw.compare(
        probs,
        labels(probs),
        task_loss=costs,
        rules={"triage": costs, "accuracy": "zero-one"},
        baselines=False,
        **QUICK,
    )
    names = {f"{c} {r}" for c in COMPONENTS for r in ("triage", "accuracy")}
    assert {row.name for row in comparison.standings} == names | {"total cost-matrix"}
    assert comparison["total triage"].same_order_as == "total cost-matrix"


def test_an_infinite_log_loss_is_refused_without_a_floor():
    probs = members(60, 3, 4)
    probs[7] = [1, 0, 0, 0]
    y = labels(probs)
    y[7] = 2
    with pytest.raises(sw.InvalidInput, match=r"log loss of row 7 is infinite.*floor"):
        sw.compare(probs, y, task_loss="log", **QUICK)
    comparison = sw.compare(probs, y, task_loss="log", floor=1e-4, **QUICK)
    losses = sw.task_losses(probs, y, "log", floor=1e-4)
    assert losses[7] == pytest.approx(-np.log(1e-4))
    total = sw.decompose(probs, "log").total
    assert comparison["total log"].value == pytest.approx(sw.aulc(losses, total))


def test_predictions_of_a_file_are_compared_like_arrays():
    probs = members(100, 5, 4)
    y = labels(probs)
    weights = np.arange(1.0, 6.0)
    file = sw.io.Predictions(probs, labels=y, weights=weights)
    assert sw.compare(file, **QUICK) == sw.compare(probs, y, weights=weights, **QUICK)
    other = (y + 1) % 4
    assert sw.compare(file, other, **QUICK) == sw.compare(probs, other, weights=weights, **QUICK)
    ood = members(40, 5, 4, seed=1)
    arrays = sw.compare(probs, task="ood", ood=ood, weights=weights, **QUICK)
    assert (
        sw.compare(file, task="ood", ood=sw.io.Predictions(ood, weights=weights), **QUICK) == arrays
    )
    scaled = sw.io.Predictions(3 * probs, labels=y, weights=weights)
    by_name = {row.name: row.value for row in sw.compare(file, **QUICK).standings}
    for row in sw.compare(scaled, normalize=True, **QUICK).standings:
        assert row.value == pytest.approx(by_name[row.name])


def test_predictions_of_a_file_without_labels_are_refused():
    probs = members(10, 3, 4)
    with pytest.raises(sw.InvalidInput, match="have no labels; pass y=…, the labels of the rows"):
        sw.compare(sw.io.Predictions(probs), **QUICK)
    with pytest.raises(sw.InvalidInput, match=r"labels\[1\].* is missing"):
        sw.compare(sw.io.Predictions(probs, labels=[0, -1, *[2] * 8]), **QUICK)


# -- OOD detection ---------------------------------------------------------------------------------


def test_ood_ranks_by_auroc():
    inside, outside = members(150, 5, 4, concentration=0.2), members(90, 5, 4, seed=1)
    inside, outside = inside.round(2) + 0.01, outside.round(2) + 0.01  # with ties
    inside /= inside.sum(axis=-1, keepdims=True)
    outside /= outside.sum(axis=-1, keepdims=True)
    rng = np.random.default_rng(0)
    own = rng.integers(5, size=150), rng.integers(7, size=90)
    comparison = sw.compare(inside, task="ood", ood=outside, scores={"own": own}, **QUICK)
    assert comparison.metric == "auroc"
    values = [row.value for row in comparison.standings]
    assert values == sorted(values, reverse=True)
    assert comparison["own"].value == pytest.approx(sw.ood_metrics(*own).auroc, rel=1e-12)
    own, other = (sw.decompose(p, list(RULES)) for p in (inside, outside))
    for rule in RULES:
        for component in COMPONENTS:
            expected = sw.ood_metrics(
                getattr(own[rule], component), getattr(other[rule], component)
            )
            got = comparison[f"{component} {rule}"]
            assert got.value == pytest.approx(expected.auroc, abs=1e-3), got
            assert got.distance_to_best == pytest.approx(values[0] - got.value)
    assert "epistemic log" in comparison.notes[0]


def test_a_measure_that_does_not_separate_ood_rows_is_worse():
    rng = np.random.default_rng(0)
    u_in, u_out = rng.normal(size=400), rng.normal(loc=1.5, size=300)
    blind = rng.normal(size=400), rng.normal(size=300)
    scores = {"good": (u_in, u_out), "blind": blind, "nearly": [u_in + 1e-3 * blind[0], u_out]}
    comparison = sw.compare(
        members(400, 1, 2),
        task="ood",
        ood=members(300, 1, 2, seed=1),
        rules=[],
        scores=scores,
        baselines=False,
        **QUICK,
    )
    assert comparison["blind"].verdict == "worse"
    assert comparison["good"].verdict in ("best", "indistinguishable")
    assert comparison["nearly"].verdict in ("best", "indistinguishable")
    assert "was not compared" in comparison.notes[0]


def test_ood_rows_are_resampled_by_themselves():
    """Against a score that knows nothing, the interval is about DeLong's."""
    u_in = np.random.default_rng(0).normal(size=300)
    u_out = u_in + 0.5  # row by row, which means nothing
    scores = {"good": (u_in, u_out), "blind": (np.zeros(300), np.zeros(300))}
    comparison = sw.compare(
        members(300, 1, 2),
        task="ood",
        ood=members(300, 1, 2, seed=1),
        rules=[],
        scores=scores,
        baselines=False,
        **QUICK | {"n_resamples": 1000},
    )
    assert comparison["blind"].value == 0.5
    low, high = sw.ood_metrics(u_in, u_out).auroc_interval
    assert comparison["blind"].high - comparison["blind"].low == pytest.approx(high - low, rel=0.1)


# -- active learning -------------------------------------------------------------------------------


def learning_runs(seed: int = 0, n_runs: int = 8) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    luck = rng.normal(scale=0.1, size=(n_runs, 1))
    curve = np.linspace(0.6, 0.2, 12)
    better = {"epistemic zero-one": 0.0, "random": 0.05, "total log": 0.002}
    return {
        name: curve + luck + by + rng.normal(scale=0.02, size=(n_runs, 12))
        for name, by in better.items()
    }


def test_active_compares_paired_runs_by_students_t():
    runs = learning_runs()
    comparison = sw.compare(task="active", runs=runs, confidence=0.9)
    means = {name: curves.mean(axis=1) for name, curves in runs.items()}
    best = min(means, key=lambda name: means[name].mean())
    assert comparison.best == best
    assert comparison.metric == "mean loss"
    for name, row in ((row.name, row) for row in comparison.standings):
        assert row.value == pytest.approx(runs[name].mean())
        if name == best:
            continue
        test = stats.ttest_rel(means[name], means[best])
        assert row.p_value == pytest.approx(min(1.0, 3 * test.pvalue))
        low, high = test.confidence_interval(1 - 0.1 / 3)
        assert (row.low, row.high) == pytest.approx((low, high))
        assert row.verdict == ("worse" if 3 * test.pvalue < 0.1 else "indistinguishable")
    assert comparison["random"].verdict == "worse"


def test_the_pairing_of_runs_is_used():
    runs = learning_runs()
    paired = sw.compare(task="active", runs=runs)["random"]
    runs["random"] = runs["random"][np.random.default_rng(1).permutation(8)]
    unpaired = sw.compare(task="active", runs=runs)["random"]
    assert unpaired.value == pytest.approx(paired.value)
    assert unpaired.high - unpaired.low > 2 * (paired.high - paired.low)


@pytest.mark.parametrize("n_runs", [3, 10])
def test_equal_runs_are_called_worse_no_more_often_than_stated(n_runs):
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        luck = rng.normal(size=(n_runs, 1))
        runs = {f"m{j}": luck + rng.normal(size=(n_runs, 2)) for j in range(4)}
        comparison = sw.compare(task="active", runs=runs, confidence=0.9)
        wrong += any(row.verdict == "worse" for row in comparison.standings)
    assert 0 < wrong <= stats.binom(400, 0.1).ppf(0.999)


def test_verdict_and_p_value_agree_where_runs_always_differ_by_the_same():
    comparison = sw.compare(
        task="active", runs={"a": np.full((5, 3), 0.25), "b": np.full((5, 3), 0.5)}
    )
    assert (comparison["b"].verdict, comparison["b"].p_value) == ("worse", pytest.approx(0))
    runs = {"a": [[1.0], [2.0]], "b": [[2.0], [1.0]], "c": [[1.0], [2.0]]}
    comparison = sw.compare(task="active", runs=runs)
    assert {row.verdict for row in comparison.standings} == {"best", "indistinguishable"}
    assert {row.p_value for row in comparison.standings} == {1.0}


# -- seeds -----------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_comparison_again():
    probs = members(200, 5, 4)
    y = labels(probs)

    def compared(random_state):
        return sw.compare(probs, y, n_resamples=100, random_state=random_state, progress=False)

    assert compared(3) == compared(3)
    assert compared(3) != compared(4)
    assert by_name(compared(3)) == by_name(compared(4))
    make = np.random.default_rng
    assert compared(make(0)) == compared(make(0))
    old = np.random.RandomState
    assert compared(old(0)) == compared(old(0))
    assert compared(None) != compared(None)


def test_more_resamples_change_the_critical_value_only():
    probs = members(4_000, 3, 3)
    y = labels(probs)
    few, many = (
        sw.compare(probs, y, rules=["log", "brier"], n_resamples=n, random_state=0)
        for n in (100, 10_000)
    )
    for row in few.standings:
        assert row.standard_error == many[row.name].standard_error
        assert row.high == pytest.approx(many[row.name].high, rel=0.15)


def test_the_order_of_measures_changes_nothing():
    probs = members(200, 5, 4)
    y = labels(probs)
    first = sw.compare(probs, y, rules=["log", "brier"], **QUICK)
    second = sw.compare(probs, y, rules=["brier", "log"], components=COMPONENTS[::-1], **QUICK)
    for row in first.standings:
        assert row.value == pytest.approx(second[row.name].value)
        assert row.high == pytest.approx(second[row.name].high, rel=0.03)


def test_a_progress_bar_is_shown_only_on_request(capsys):
    probs = members(50, 3, 3)
    sw.compare(probs, labels(probs), **QUICK)
    assert capsys.readouterr() == ("", "")
    sw.compare(probs, labels(probs), **QUICK | {"progress": True})
    assert "comparing" in capsys.readouterr().err


# -- few rows, equal losses, bad input -------------------------------------------------------------


def test_one_row_and_one_measure_are_compared():
    comparison = sw.compare(members(1, 3, 4), [0], **QUICK)
    assert {row.same_order_as for row in comparison.standings} == {None, comparison.best}
    assert {row.verdict for row in comparison.standings} == {"best", "indistinguishable"}
    comparison = sw.compare(members(9, 3, 4), [0] * 9, rules=[], baselines=False, **QUICK)
    assert [(row.name, row.verdict) for row in comparison.standings] == [("total zero-one", "best")]
    comparison = sw.compare(
        members(9, 3, 4),
        task="ood",
        ood=members(1, 3, 4),
        rules=["log"],
        components=["epistemic"],
        baselines=False,
        **QUICK,
    )
    assert comparison.notes == ("Theory recommends epistemic log: it is the only measure here.",)
    comparison = sw.compare(task="active", runs={"total log": [[1.0], [2.0]]})
    assert [row.verdict for row in comparison.standings] == ["best"]


@pytest.mark.parametrize("wrong", [False, True])
def test_nothing_is_worse_where_all_losses_are_equal(wrong):
    probs = members(100, 5, 4)
    mean = probs.mean(axis=1)
    y = mean.argmin(axis=-1) if wrong else mean.argmax(axis=-1)
    comparison = sw.compare(probs, y, **QUICK)
    assert not any(row.verdict == "worse" for row in comparison.standings)
    assert {row.value for row in comparison.standings} == {float(wrong)}


def test_nothing_is_worse_where_all_costs_are_the_same_fraction():
    probs = members(200, 5, 4)
    flat = sw.rules.cost_matrix(np.full((4, 4), 0.3))
    comparison = sw.compare(probs, labels(probs), task_loss=flat, **QUICK)
    assert not any(row.verdict == "worse" for row in comparison.standings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": Y}, "pass probs="),
        ({"probs": PROBS}, "needs labels; pass y="),
        ({"probs": PROBS, "y": Y, "ood": PROBS}, "does not use ood="),
        ({"probs": PROBS, "y": Y, "runs": {}}, "does not use runs="),
        ({"probs": PROBS, "y": Y[:-1]}, r"\(19,\).*\(20,\)"),
        ({"probs": PROBS, "y": Y + 1}, r"labels\[3\] is 4"),
        ({"probs": PROBS, "y": Y - 1}, r"labels\[0\] is missing"),
        ({"probs": PROBS, "y": Y / 2}, "regression is not supported"),
        ({"probs": PROBS[:0], "y": Y[:0]}, "probs is empty"),
        ({"probs": PROBS[0], "y": Y[:1]}, r"probs\[:, None\] for n rows of one model"),
        ({"probs": PROBS * 2, "y": Y}, "sum"),
        ({"probs": PROBS, "y": Y, "task": "rank"}, "'selective', 'ood', 'active', not 'rank'"),
        ({"probs": PROBS, "y": Y, "task_loss": "nope"}, "no rule is called 'nope'"),
        ({"probs": PROBS, "y": Y, "rules": ["nope"]}, "no rule is called 'nope'"),
        ({"probs": PROBS, "y": Y, "rules": ["log", "log"]}, "two rules are called 'log'"),
        ({"probs": PROBS, "y": Y, "components": ["all"]}, "not 'all'"),
        ({"probs": PROBS, "y": Y, "confidence": 1.0}, "confidence"),
        ({"probs": PROBS, "y": Y, "n_resamples": 10}, "n_resamples .* 100"),
        ({"probs": PROBS, "y": Y, "random_state": -1}, "random_state"),
        ({"probs": PROBS, "y": Y, "floor": 0.25}, "below 1/4"),
        ({"probs": PROBS, "y": Y, "scores": {"a": [0.0] * 19}}, "19 entries for 20 rows"),
        ({"probs": PROBS, "y": Y, "scores": {"a": [np.nan] * 20}}, r"scores\['a'\]\[0\] is nan"),
        ({"probs": PROBS, "y": Y, "scores": {"a": [[0.0]] * 20}}, "2 dimensions"),
        ({"probs": PROBS, "y": Y, "scores": {"margin": [0.0] * 20}}, "already has this name"),
        ({"probs": PROBS, "y": Y, "scores": {"total log": [0.0] * 20}}, "already has this name"),
        ({"probs": PROBS, "task": "ood"}, "pass ood="),
        ({"probs": PROBS, "task": "ood", "ood": PROBS[:0]}, "ood is empty"),
        ({"probs": PROBS, "task": "ood", "ood": PROBS, "scores": {"a": Y}}, "must be a pair"),
        (
            {"probs": PROBS, "task": "ood", "ood": PROBS[:3], "scores": {"a": (Y, Y)}},
            r"20 entries for 3 rows \(out\)",
        ),
        (
            {"probs": PROBS, "task": "ood", "ood": PROBS, "rules": [], "baselines": False},
            "nothing to compare",
        ),
        ({"task": "active"}, "pass runs="),
        ({"task": "active", "runs": {}}, "pass runs="),
        ({"task": "active", "runs": [[1.0], [2.0]]}, "pass runs="),
        ({"probs": PROBS, "y": Y, "scores": [Y]}, "scores must map"),
        ({"probs": PROBS, "y": Y, "rules": {"zero-one": "log"}}, "both called 'zero-one'"),
        ({"task": "active", "probs": PROBS, "runs": {"a": [[1.0], [2.0]]}}, "does not use probs="),
        ({"task": "active", "runs": {"a": [[1.0, 2.0]]}}, "at least two runs"),
        ({"task": "active", "runs": {"a": [1.0, 2.0]}}, "must be \\(R, T\\)"),
        ({"task": "active", "runs": {"a": [[1.0], [np.nan]]}}, "is nan"),
        ({"task": "active", "runs": {"a": [[1.0], [2.0]], "b": [[1.0, 2.0]] * 2}}, "one shape"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.compare(**{"progress": False, "n_resamples": 100, **arguments})


@pytest.mark.parametrize(
    "arguments",
    [
        # ValueError of zip(): members on one side only, so no votes on the other
        {"probs": PROBS, "task": "ood", "ood": sw.Dirichlet(np.ones((5, 4)))},
        # four classes against three
        {"probs": PROBS, "task": "ood", "ood": members(5, 3, 3)},
    ],
    ids=["Dirichlet as ood", "other classes"],
)
def test_ood_of_another_kind_is_refused(arguments):
    with pytest.raises(sw.InvalidInput):
        sw.compare(**{"progress": False, "n_resamples": 100, **arguments})


def test_a_single_rule_keeps_its_name():
    comparison = sw.compare(PROBS, Y, rules="log", **QUICK)
    assert "epistemic log" in by_name(comparison)
