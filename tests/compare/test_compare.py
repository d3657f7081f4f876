"""Which measure is best here: values by their definition, verdicts by simulation."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

import scorewise as sw
from scorewise._resampling import ResampledAulc, ResampledAuroc, Resamples
from scorewise.compare._contrasts import by_resampling
from support import all_rules, members, softmax

RULES = ("log", "brier", "zero-one", "spherical")
COMPONENTS = ("total", "aleatoric", "epistemic")
QUICK = {"n_resamples": 100, "random_state": 0, "progress": False}


def labels(probs: np.ndarray, seed: int = 1) -> np.ndarray:
    """Drawn from the mean of the members: the model is calibrated."""
    mean = np.asarray(probs).mean(axis=1)
    u = np.random.default_rng(seed).uniform(size=(len(mean), 1))
    return (mean.cumsum(axis=-1) > u).argmax(axis=-1)


def by_name(comparison: sw.Comparison) -> dict[str, float]:
    return {row.name: row.value for row in comparison.standings}


# -- metrics of resamples ---------------------------------------------------------------------


@st.composite
def drawn_rows(draw):
    """Losses or kinds, scores with many ties, and how often each row was drawn."""
    n = draw(st.integers(1, 12))
    losses = draw(st.lists(st.sampled_from([0.0, 1.0, 0.25, 3.5, -1.0]), min_size=n, max_size=n))
    scores = draw(st.lists(st.sampled_from([0.0, 0.1, 0.2, 7.0]), min_size=n, max_size=n))
    drawn = draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    return np.array(losses), np.array(scores), np.bincount(drawn, minlength=n)


@given(drawn_rows(), st.booleans())
def test_the_aulc_of_a_resample_is_that_of_its_rows(rows, distinct):
    losses, scores, counts = rows
    if distinct:
        scores = np.random.default_rng(0).permutation(len(scores)).astype(float)
    expected = sw.aulc(np.repeat(losses, counts), np.repeat(scores, counts))
    got = ResampledAulc(losses, scores)(np.stack([counts, np.ones_like(counts)]))
    np.testing.assert_allclose(got, [expected, sw.aulc(losses, scores)], rtol=1e-12, atol=1e-14)


@given(drawn_rows(), st.integers(1, 12))
def test_the_auroc_of_a_resample_is_that_of_its_rows(rows, n_in):
    _, scores, counts = rows
    n_in = min(n_in, len(scores) - 1)
    if n_in < 1 or not counts[:n_in].any() or not counts[n_in:].any():
        return
    is_out = np.arange(len(scores)) >= n_in
    expected = roc_auc_score(np.repeat(is_out, counts), np.repeat(scores, counts))
    assert np.isclose(ResampledAuroc(n_in, scores)(counts[None])[0], expected, rtol=1e-12)


def test_resamples_are_draws_with_replacement_of_all_rows():
    counts = np.concatenate(list(Resamples(50, 1001, np.random.default_rng(0)).counts(300)))
    assert counts.shape == (1001, 50)
    assert (counts.sum(axis=1) == 50).all()
    assert abs(counts.var() - (1 - 1 / 50)) < 0.03


# -- abstaining ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_value_is_the_aulc_of_that_measure(dtype):
    probs = members(200, 5, 4).astype(dtype)
    y = labels(probs)
    for task_loss in RULES:
        losses = sw.task_losses(probs, y, task_loss)
        found = sw.compare(probs, y, task_loss=task_loss, baselines=False, **QUICK)
        assert len(found.standings) == 12
        same = {row.name: row.same_order_as for row in found.standings}
        for rule, d in sw.decompose(probs, list(RULES)).items():
            for component in COMPONENTS:
                name = f"{component} {rule}"
                expected = sw.aulc(losses, getattr(d, component))
                # those that order alike up to rounding share one value
                rtol = 1e-12 if same[name] is None else 1e-3
                np.testing.assert_allclose(found[name].value, expected, rtol=rtol, err_msg=name)


def test_the_best_comes_first_and_the_distances_are_from_it():
    probs = members(300, 5, 4)
    found = sw.compare(probs, labels(probs), **QUICK)
    values = [row.value for row in found.standings]
    assert values == sorted(values)
    assert found.best == found.standings[0].name
    assert found.standings[0].verdict == "best"
    assert [row.verdict for row in found.standings].count("best") == 1
    for row in found.standings:
        assert row.behind == pytest.approx(row.value - values[0], abs=1e-15)
        assert row.low <= row.behind <= row.high
        assert row.high - row.behind == pytest.approx(row.behind - row.low, abs=1e-12)
        assert (row.name in found.as_good) == (row.low <= 0)
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
    found = sw.compare(
        probs,
        y,
        task_loss=task_loss,
        rules=["log"],
        components=["epistemic"],
        baselines=False,
        **QUICK,
    )
    name = f"total {task_loss if isinstance(task_loss, str) else task_loss.name}"
    assert {row.name for row in found.standings} == {name, "epistemic log"}
    total = sw.decompose(probs, task_loss).total
    assert found[name].value == pytest.approx(sw.aulc(sw.task_losses(probs, y, task_loss), total))
    assert name in found.notes[0]


def test_every_rule_can_be_the_loss():
    probs = members(80, 4, 3)
    y = labels(probs)
    for name, rule in all_rules(3).items():
        found = sw.compare(
            probs,
            y,
            task_loss=rule,
            rules={"this": rule},
            components=["total"],
            baselines=False,
            **QUICK,
        )
        expected = sw.aulc(sw.task_losses(probs, y, rule), sw.decompose(probs, rule).total)
        assert found["total this"].value == pytest.approx(expected), name
        # the loss by its own name, and the rule by the user's: one measure
        others = [row for row in found.standings if row.name != found.best]
        assert all(row.same_order_as == found.best for row in others), name
        assert found.as_good == [row.name for row in found.standings], name


def test_rules_may_have_names_of_their_own():
    probs = members(100, 4, 3)
    costs = sw.rules.cost_matrix([[0, 1, 5], [1, 0, 5], [1, 1, 0]])
    found = sw.compare(
        probs,
        labels(probs),
        task_loss=costs,
        rules={"triage": costs, "accuracy": "zero-one"},
        baselines=False,
        **QUICK,
    )
    names = {f"{c} {r}" for c in COMPONENTS for r in ("triage", "accuracy")}
    assert {row.name for row in found.standings} == names | {"total cost-matrix"}
    assert found["total triage"].same_order_as == "total cost-matrix"


def test_baselines_are_what_they_say():
    probs = members(150, 6, 4, concentration=0.5)
    weights = np.array([3.0, 1.0, 1.0, 0.0, 2.0, 0.5])
    for given_weights in (None, weights):
        w = np.ones(6) if given_weights is None else given_weights
        w = w / w.sum()
        samples = sw.Samples(probs, weights=given_weights)
        y = labels(probs)
        found = by_name(sw.compare(samples, y, rules=["log"], **QUICK))
        losses = sw.task_losses(samples, y)
        expected = {"max-softmax": [], "margin": [], "variation ratio": []}
        for row in probs:
            mean = sum(w[m] * row[m] for m in range(6))
            first, second = sorted(mean)[::-1][:2]
            votes = [sum(w[m] for m in range(6) if row[m].argmax() == k) for k in range(4)]
            expected["max-softmax"].append(1 - first)
            expected["margin"].append(second - first)
            expected["variation ratio"].append(round(1 - max(votes), 12))
        for name, scores in expected.items():
            assert found[name] == pytest.approx(sw.aulc(losses, scores), rel=1e-12), name


def test_own_scores_take_part():
    probs = members(200, 5, 4)
    y = labels(probs)
    energy = np.random.default_rng(0).normal(size=200)
    found = sw.compare(probs, y, scores={"energy": energy, "list": energy.tolist()}, **QUICK)
    assert found["energy"].value == pytest.approx(sw.aulc(sw.task_losses(probs, y), energy))
    assert found["list"].same_order_as == "energy"
    whole = sw.compare(probs, y, scores={"rounded": np.arange(200) // 20}, **QUICK)
    expected = sw.aulc(sw.task_losses(probs, y), np.arange(200) // 20)
    assert whole["rounded"].value == pytest.approx(expected)


def test_own_scores_may_be_infinite_once():
    probs = members(100, 5, 4)
    energy = np.r_[np.arange(99.0), np.inf]
    found = sw.compare(probs, labels(probs), scores={"energy": energy}, **QUICK)
    expected = sw.aulc(sw.task_losses(probs, labels(probs)), energy)
    assert found["energy"].value == pytest.approx(expected)


def test_own_scores_may_be_infinite_more_than_once():
    probs = members(100, 5, 4)
    energy = np.r_[np.arange(97.0), -np.inf, np.inf, np.inf]
    found = sw.compare(probs, labels(probs), scores={"energy": energy}, **QUICK)
    expected = sw.aulc(sw.task_losses(probs, labels(probs)), energy)
    assert found["energy"].value == pytest.approx(expected)


def test_weights_of_members_and_dirichlets_are_understood():
    probs, weights = members(100, 3, 4), np.array([5.0, 1.0, 0.0])
    y = labels(probs)
    found = sw.compare(sw.Samples(probs, weights=weights), y, baselines=False, **QUICK)
    losses = sw.task_losses(probs, y, weights=weights)
    total = sw.decompose(probs, "zero-one", weights=weights).total
    assert found["total zero-one"].value == pytest.approx(sw.aulc(losses, total))
    plain = sw.compare(probs, y, baselines=False, **QUICK)
    assert found["total zero-one"].value != plain["total zero-one"].value

    dirichlet = sw.Dirichlet(np.random.default_rng(0).gamma(1.0, size=(100, 4)) * 5 + 0.1)
    found = sw.compare(dirichlet, y, task_loss="brier", rules=["log", "brier"], **QUICK)
    losses = sw.task_losses(dirichlet, y, "brier")
    for rule in ("log", "brier"):
        expected = sw.aulc(losses, sw.decompose(dirichlet, rule).epistemic)
        assert found[f"epistemic {rule}"].value == pytest.approx(expected)
    assert "max-softmax" in by_name(found)
    assert "variation ratio" not in by_name(found)  # there are no votes


def test_an_infinite_log_loss_is_refused_and_a_floor_admits_it():
    probs = members(60, 3, 4)
    probs[7] = [1, 0, 0, 0]
    y = labels(probs)
    y[7] = 2
    with pytest.raises(sw.InvalidInput, match=r"losses\[7\] is inf.*floor"):
        sw.compare(probs, y, task_loss="log", **QUICK)
    found = sw.compare(probs, y, task_loss="log", floor=1e-4, **QUICK)
    losses = sw.task_losses(probs, y, "log", floor=1e-4)
    assert losses[7] == pytest.approx(-np.log(1e-4))
    total = sw.decompose(probs, "log").total
    assert found["total log"].value == pytest.approx(sw.aulc(losses, total))


# -- identical orders ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("k", [3, 10, 200])
@pytest.mark.parametrize("concentration", [0.05, 1.0, 50.0])
def test_totals_of_brier_and_spherical_always_order_alike(dtype, k, concentration):
    probs = members(400, 3, k, concentration=concentration).astype(dtype)
    samples = sw.Samples(probs, normalize=True)
    found = sw.compare(samples, labels(probs), rules=["brier", "spherical"], **QUICK)
    assert found["total spherical"].same_order_as == "total brier"
    shared = ("value", "behind", "low", "high", "p_value")
    for name in shared:
        assert getattr(found["total spherical"], name) == getattr(found["total brier"], name)
    assert found["max-softmax"].same_order_as == "total zero-one"


@settings(max_examples=60)
@given(
    p=st.lists(
        # not so near 1/2 that most totals are level there
        st.one_of(st.integers(0, 1000).map(lambda i: i / 1000), st.floats(0, 1e-9)),
        min_size=2,
        max_size=30,
    ),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_with_two_classes_all_symmetric_totals_order_alike(p, dtype):
    probs = sw.binary(np.array(p, dtype=dtype))[:, None]
    rules = [*RULES, "tsallis:1.5", "tsallis:3", "pseudospherical:3"]
    found = sw.compare(
        probs, np.zeros(len(p), dtype=int), rules=rules, components=["total"], **QUICK
    )
    for rule in set(rules) - {"zero-one"}:
        assert found[f"total {rule}"].same_order_as == "total zero-one", rule
    assert found["margin"].same_order_as == "total zero-one"
    assert found["max-softmax"].same_order_as == "total zero-one"


def test_many_rows_of_two_classes_in_single_precision_are_ordered_alike_too():
    p = np.random.default_rng(0).uniform(size=10_000).astype("float32")
    found = sw.compare(sw.binary(p)[:, None], labels(sw.binary(p)[:, None]), **QUICK)
    for rule in ("log", "brier", "spherical"):
        assert found[f"total {rule}"].same_order_as == "total zero-one", rule


def test_measures_that_order_rows_differently_are_told_apart():
    probs = members(300, 5, 3)
    found = sw.compare(probs, labels(probs), **QUICK)
    alike = {row.name for row in found.standings if row.same_order_as}
    assert alike == {"total spherical", "max-softmax"}


@pytest.mark.parametrize("gap", [1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("where", [0, 250, 2999])
def test_one_swapped_pair_of_rows_is_another_order(gap, where):
    rng = np.random.default_rng(0)
    p = 0.5 + 0.5 * rng.permutation(np.arange(1, 6001, 2)) / 6002
    i, j = where, (where + 1) % 3000
    p[j] = p[i] + gap
    probs = sw.binary(p)[:, None]
    total = sw.decompose(probs, "zero-one").total
    swapped = total.copy()
    swapped[[i, j]] = total[[j, i]]
    tied = total.copy()
    tied[j] = tied[i]
    scores = {"same": np.exp(3 * total), "swapped": swapped, "tied": tied}
    found = sw.compare(
        probs, rng.integers(2, size=3000), rules=[], scores=scores, baselines=False, **QUICK
    )
    assert found["same"].same_order_as == "total zero-one"
    assert found["swapped"].same_order_as is None
    assert found["tied"].same_order_as is None


def test_a_tie_that_one_measure_breaks_is_another_order():
    p = np.array([0.9, 0.8, 0.8, 0.6])
    probs = sw.binary(p)[:, None]
    found = sw.compare(
        probs,
        [0, 0, 1, 1],
        rules=[],
        baselines=False,
        scores={"broken": [0, 1, 1 + 1e-12, 2], "kept": [1, 2, 2, 9]},
        **QUICK,
    )
    assert found["broken"].same_order_as is None
    assert found["kept"].same_order_as == "total zero-one"


def test_an_order_that_is_reversed_in_small_steps_is_another_order():
    t = np.linspace(0, 0.005, 2000)
    probs = np.stack([0.5 + t, 0.4 - 2 * t, 0.1 + t], axis=-1)[:, None].astype(np.float32)
    d = sw.decompose(probs, ["log", "zero-one"])
    assert stats.spearmanr(d["log"].total, d["zero-one"].total)[0] < -0.999
    y = (np.arange(2000) > 600).astype(int)
    found = sw.compare(probs, y, rules=["log"], components=["total"], baselines=False, **QUICK)
    assert found["total log"].same_order_as is None


@pytest.mark.parametrize(("dtype", "noise"), [("float32", 1e-3), ("float64", 1e-7)])
def test_tiny_disagreements_of_different_order_are_told_apart(dtype, noise):
    rng = np.random.default_rng(0)
    logits = np.log(rng.dirichlet(np.ones(4), (500, 1)))
    probs = softmax(logits + noise * rng.normal(size=(500, 5, 4))).astype(dtype)
    d = sw.decompose(probs, ["log", "brier"])
    assert stats.spearmanr(d["log"].epistemic, d["brier"].epistemic)[0] < 0.95
    found = sw.compare(
        probs, labels(probs), rules=["log", "brier"], components=["epistemic"], **QUICK
    )
    assert found["epistemic brier"].same_order_as is None


# -- what is foreign ----------------------------------------------------------------------------


def test_ood_ranks_by_auroc():
    inside, outside = members(150, 5, 4, concentration=0.2), members(90, 5, 4, seed=1)
    inside, outside = inside.round(2) + 0.01, outside.round(2) + 0.01  # with ties
    inside /= inside.sum(axis=-1, keepdims=True)
    outside /= outside.sum(axis=-1, keepdims=True)
    rng = np.random.default_rng(0)
    own = rng.integers(5, size=150), rng.integers(7, size=90)
    found = sw.compare(inside, task="ood", ood=outside, scores={"own": own}, **QUICK)
    assert found.metric == "auroc"
    values = [row.value for row in found.standings]
    assert values == sorted(values, reverse=True)
    assert found["own"].value == pytest.approx(sw.ood_metrics(*own).auroc, rel=1e-12)
    one, two = (sw.decompose(p, list(RULES)) for p in (inside, outside))
    for rule in RULES:
        for component in COMPONENTS:
            expected = sw.ood_metrics(getattr(one[rule], component), getattr(two[rule], component))
            got = found[f"{component} {rule}"]
            assert got.value == pytest.approx(expected.auroc, abs=1e-3), got
            assert got.behind == pytest.approx(values[0] - got.value)
    assert "epistemic log" in found.notes[0]


def test_a_measure_that_does_not_see_what_is_foreign_is_worse():
    rng = np.random.default_rng(0)
    u_in, u_out = rng.normal(size=400), rng.normal(loc=1.5, size=300)
    blind = rng.normal(size=400), rng.normal(size=300)
    scores = {"good": (u_in, u_out), "blind": blind, "nearly": [u_in + 1e-3 * blind[0], u_out]}
    found = sw.compare(
        members(400, 1, 2),
        task="ood",
        ood=members(300, 1, 2, seed=1),
        rules=[],
        scores=scores,
        baselines=False,
        **QUICK,
    )
    assert found["blind"].verdict == "worse"
    assert found["good"].verdict in ("best", "indistinguishable")
    assert found["nearly"].verdict in ("best", "indistinguishable")
    assert "did not take part" in found.notes[0]


def test_foreign_rows_are_resampled_by_themselves():
    """Against a score that knows nothing, the interval is about DeLong's."""
    u_in = np.random.default_rng(0).normal(size=300)
    u_out = u_in + 0.5  # row by row, which means nothing
    scores = {"good": (u_in, u_out), "blind": (np.zeros(300), np.zeros(300))}
    found = sw.compare(
        members(300, 1, 2),
        task="ood",
        ood=members(300, 1, 2, seed=1),
        rules=[],
        scores=scores,
        baselines=False,
        **QUICK | {"n_resamples": 1000},
    )
    assert found["blind"].value == 0.5
    low, high = sw.ood_metrics(u_in, u_out).auroc_interval
    assert found["blind"].high - found["blind"].low == pytest.approx(high - low, rel=0.1)


# -- what to label next -------------------------------------------------------------------------


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
    found = sw.compare(task="active", runs=runs, confidence=0.9)
    means = {name: curves.mean(axis=1) for name, curves in runs.items()}
    best = min(means, key=lambda name: means[name].mean())
    assert found.best == best
    assert found.metric == "mean loss"
    for name, row in ((row.name, row) for row in found.standings):
        assert row.value == pytest.approx(runs[name].mean())
        if name == best:
            continue
        test = stats.ttest_rel(means[name], means[best])
        assert row.p_value == pytest.approx(min(1.0, 3 * test.pvalue))
        low, high = test.confidence_interval(1 - 0.1 / 3)
        assert (row.low, row.high) == pytest.approx((low, high))
        assert row.verdict == ("worse" if 3 * test.pvalue < 0.1 else "indistinguishable")
    assert found["random"].verdict == "worse"


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
        found = sw.compare(task="active", runs=runs, confidence=0.9)
        wrong += any(row.verdict == "worse" for row in found.standings)
    assert 0 < wrong <= stats.binom(400, 0.1).ppf(0.999)


def test_verdict_and_p_value_agree_where_runs_always_differ_by_the_same():
    found = sw.compare(task="active", runs={"a": np.full((5, 3), 0.25), "b": np.full((5, 3), 0.5)})
    assert (found["b"].verdict, found["b"].p_value) == ("worse", pytest.approx(0))
    runs = {"a": [[1.0], [2.0]], "b": [[2.0], [1.0]], "c": [[1.0], [2.0]]}
    found = sw.compare(task="active", runs=runs)
    assert {row.verdict for row in found.standings} == {"best", "indistinguishable"}
    assert {row.p_value for row in found.standings} == {1.0}


# -- what the notes say -------------------------------------------------------------------------


def test_the_notes_say_when_theory_is_right():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.5), (3000, 1))
    y = labels(probs)
    total = sw.decompose(probs, "zero-one").total
    scores = {"noise": rng.normal(size=3000)}
    found = sw.compare(probs, y, rules=[], scores=scores, baselines=False, **QUICK)
    assert found.notes == ("Theory recommends total zero-one: it is the best here.",)
    assert found["noise"].verdict == "worse"
    losses = sw.task_losses(probs, y)
    noisy = (total + 0.01 * rng.normal(size=3000) for _ in range(50))
    lucky = next(s for s in noisy if sw.aulc(losses, s) < sw.aulc(losses, total))
    found = sw.compare(probs, y, rules=[], scores={"mine": lucky}, baselines=False, **QUICK)
    assert found.best == "mine"
    assert found["total zero-one"].verdict == "indistinguishable"
    expected = "Theory recommends total zero-one: it is indistinguishable from mine, the best here."
    assert found.notes == (expected,)


def test_the_notes_blame_miscalibration_where_it_is_to_blame():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(3), 3000)
    honest = truth[:, None]
    y = labels(honest)
    # of rows that look like class 0 the model is far too sure
    power = np.where(truth.argmax(axis=-1) == 0, 6.0, 1.0)[:, None]
    reported = truth**power / np.sum(truth**power, axis=-1, keepdims=True)
    scores = {"honest": 1 - truth.max(axis=-1)}
    found = sw.compare(reported[:, None], y, scores=scores, **QUICK)
    assert found.best == "honest"
    assert found["total zero-one"].verdict == "worse"
    assert found.notes[0].startswith("Theory recommends total zero-one, but here honest is better")
    assert "Miscalibration may explain it" in found.notes[1]
    assert "fit_temperature" in found.notes[1]
    assert str(found).endswith(found.notes[1])


def test_the_notes_do_not_blame_miscalibration_of_a_model_that_merely_knows_less():
    rng = np.random.default_rng(0)
    wrong = rng.uniform(0, 0.5, 4000)
    y = (rng.uniform(size=4000) < wrong).astype(int)
    coarse = np.where(wrong < 0.25, 0.125, 0.375)  # the mean of each half: calibrated
    found = sw.compare(
        sw.binary(coarse)[:, None], y, rules=["log"], scores={"fine": wrong}, **QUICK
    )
    assert found.best == "fine"
    assert found["total zero-one"].verdict == "worse"
    assert found.notes[1].startswith("Miscalibration does not explain it: predicted loss 0.2")


# -- the verdicts hold --------------------------------------------------------------------------

N, SETS, MEASURES, CONFIDENCE = 300, 400, 5, 0.95


def outcomes(noise: np.ndarray, seed: int) -> list[tuple]:
    """Of many data sets: the comparison and what it knew of the differences.

    All measures see one signal, each with noise of its own; the first is the model's total.
    """
    module = importlib.import_module("scorewise.compare._compare")
    seen, found = [], []
    original = module.by_resampling

    def spy(*given):
        seen.append(original(*given))
        return seen[-1]

    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "by_resampling", spy)
        for i in range(SETS):
            signal = rng.normal(size=N)
            y = (rng.uniform(size=N) < 1 / (1 + np.exp(1 - 1.5 * signal))).astype(int)
            scores = signal[:, None] + noise * rng.normal(size=(N, len(noise)))
            top = 1 - 0.5 / (1 + np.exp(-scores[:, 0]))  # label 0 is always predicted
            found.append(
                sw.compare(
                    np.stack([top, 1 - top], axis=-1)[:, None],
                    y,
                    rules=[],
                    baselines=False,
                    scores={f"m{j}": scores[:, j] for j in range(1, len(noise))},
                    confidence=CONFIDENCE,
                    n_resamples=200,
                    random_state=i,
                    progress=False,
                )
            )
    return list(zip(found, seen, strict=True))


@pytest.fixture(scope="module")
def equally_good() -> list[tuple]:
    return outcomes(np.ones(MEASURES), seed=0)


@pytest.fixture(scope="module")
def of_different_quality() -> list[tuple]:
    return outcomes(np.array([0.5, 0.5, 1.0, 1.5, 6.0]), seed=1)


def test_none_of_equally_good_measures_is_called_worse_more_often_than_stated(equally_good):
    wrong = sum(any(row.verdict == "worse" for row in c.standings) for c, _ in equally_good)
    assert wrong <= stats.binom(SETS, 1 - CONFIDENCE).ppf(0.99)
    # nor is the correction needlessly timid
    assert wrong >= 1 or all(known.critical < 3 for _, known in equally_good)


def test_uncorrected_intervals_against_the_best_would_be_wrong_too_often(equally_good):
    order = ["total zero-one", *(f"m{j}" for j in range(1, MEASURES))]
    wrong = 0
    for comparison, known in equally_good:
        values = np.array([comparison[name].value for name in order])
        best = values.argmin()
        wrong += bool(np.any(values - values[best] > 1.96 * known.standard_errors[best]))
    assert wrong > stats.binom(SETS, 1 - CONFIDENCE).ppf(0.9999)


def test_critical_values_are_below_bonferronis_and_above_one_tests(equally_good):
    critical = np.mean([known.critical for _, known in equally_good])
    pairs = MEASURES * (MEASURES - 1) / 2
    bonferroni = stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / pairs, N / 6 - 1)
    assert 2.3 < critical < bonferroni


@pytest.mark.parametrize("task", ["selective", "ood"])
def test_few_rows_do_not_make_measures_worse_by_chance(task):
    """Scores that are noise, for 50 losses of which many are 1, or for 10 foreign rows."""
    rng = np.random.default_rng(3)
    n_sets, n, n_out, wrong = 150, 50, 10, 0
    for _ in range(n_sets):
        if task == "selective":
            losses = (rng.uniform(size=n) < 0.4).astype(float)
            metrics = [ResampledAulc(losses, rng.uniform(size=n)) for _ in range(6)]
            counts = [next(Resamples(n, 200, rng).counts(200))]
        else:
            metrics = [ResampledAuroc(n, rng.uniform(size=n + n_out)) for _ in range(6)]
            counts = [next(Resamples(size, 200, rng).counts(200)) for size in (n, n_out)]
        counts = np.concatenate(counts, axis=1)
        drawn = np.stack([metric(counts) for metric in metrics], axis=1)
        values = np.array([metric(np.ones_like(counts[:1]))[0] for metric in metrics])
        known = by_resampling(values, drawn, CONFIDENCE, metrics[0].effective_rows, rng)
        best = values.argmax() if task == "ood" else values.argmin()
        half = known.critical * known.standard_errors[best]
        wrong += bool(np.any(np.abs(values - values[best]) > half))
    assert wrong <= stats.binom(n_sets, 1 - CONFIDENCE).ppf(0.999)


def test_a_truly_worse_measure_is_found(of_different_quality):
    found = np.mean([c["m4"].verdict == "worse" for c, _ in of_different_quality])
    assert found > 0.9
    spared = np.mean([c["m1"].verdict != "worse" for c, _ in of_different_quality])
    assert spared > 0.97


def test_intervals_cover_the_true_differences_together(of_different_quality):
    names = [row.name for row in of_different_quality[0][0].standings]
    truth = {n: np.mean([c[n].value for c, _ in of_different_quality]) for n in names}
    covered = sum(
        all(row.low <= truth[row.name] - truth[c.best] <= row.high for row in c.standings)
        for c, _ in of_different_quality
    )
    assert covered >= stats.binom(SETS, CONFIDENCE).ppf(0.01)


def test_intervals_are_of_the_size_of_the_noise(of_different_quality):
    """Their standard errors are those of the differences from data set to data set."""
    comparisons = [c for c, _ in of_different_quality]
    differences = [c["m3"].value - c["m2"].value for c in comparisons]
    order = ["total zero-one", *(f"m{j}" for j in range(1, MEASURES))]
    i, j = order.index("m3"), order.index("m2")
    errors = [known.standard_errors[i, j] for _, known in of_different_quality]
    assert 0.85 < np.mean(errors) / np.std(differences) < 1.2


# -- forms and seeds ----------------------------------------------------------------------------


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


def test_the_order_of_measures_and_batches_changes_nothing(monkeypatch):
    probs = members(200, 5, 4)
    y = labels(probs)
    one = sw.compare(probs, y, rules=["log", "brier"], **QUICK)
    two = sw.compare(probs, y, rules=["brier", "log"], components=COMPONENTS[::-1], **QUICK)
    for row in one.standings:
        assert row.value == pytest.approx(two[row.name].value)
        assert row.high == pytest.approx(two[row.name].high, rel=0.03)
    monkeypatch.setattr(importlib.import_module("scorewise.compare._compare"), "_BATCH", 1000)
    assert sw.compare(probs, y, rules=["log", "brier"], **QUICK) == one


def test_a_comparison_as_a_dictionary_a_frame_and_text():
    probs = members(100, 5, 4)
    found = sw.compare(probs, labels(probs), confidence=0.9, **QUICK)
    again = json.loads(json.dumps(found.to_dict()))
    assert again["task"] == "selective"
    assert again["confidence"] == 0.9
    assert [row["name"] for row in again["standings"]] == [row.name for row in found.standings]
    frame = found.to_frame()
    assert frame["name"].tolist() == [row.name for row in found.standings]
    assert frame["value"].tolist() == [row.value for row in found.standings]
    lines = str(found).splitlines()
    assert lines[0] == "selective: aulc of zero-one losses"
    assert "90% interval" in lines[1]
    for line, row in zip(lines[2:], found.standings, strict=False):
        assert line.startswith(row.name)
        alike = f"same order as {row.same_order_as}"
        assert line.endswith(alike if row.same_order_as else row.verdict)
        assert row.verdict in line
    assert lines[-1] == found.notes[-1]
    with pytest.raises(KeyError, match="nothing"):
        found["nothing"]


def test_a_bar_is_shown_only_where_wanted(capsys):
    probs = members(50, 3, 3)
    sw.compare(probs, labels(probs), **QUICK)
    assert capsys.readouterr() == ("", "")
    sw.compare(probs, labels(probs), **QUICK | {"progress": True})
    assert "resampling" in capsys.readouterr().err


# -- few rows, equal losses, bad input ----------------------------------------------------------


def test_one_row_and_one_measure_are_compared():
    found = sw.compare(members(1, 3, 4), [0], **QUICK)
    assert {row.same_order_as for row in found.standings} == {None, found.best}
    assert {row.verdict for row in found.standings} == {"best", "indistinguishable"}
    found = sw.compare(members(9, 3, 4), [0] * 9, rules=[], baselines=False, **QUICK)
    assert [(row.name, row.verdict) for row in found.standings] == [("total zero-one", "best")]
    found = sw.compare(
        members(9, 3, 4),
        task="ood",
        ood=members(1, 3, 4),
        rules=["log"],
        components=["epistemic"],
        baselines=False,
        **QUICK,
    )
    assert found.notes == ("Theory recommends epistemic log: it is the best here.",)
    found = sw.compare(task="active", runs={"total log": [[1.0], [2.0]]})
    assert [row.verdict for row in found.standings] == ["best"]


@pytest.mark.parametrize("wrong", [False, True])
def test_where_all_pay_alike_nothing_is_worse(wrong):
    probs = members(100, 5, 4)
    mean = probs.mean(axis=1)
    y = mean.argmin(axis=-1) if wrong else mean.argmax(axis=-1)
    found = sw.compare(probs, y, **QUICK)
    assert not any(row.verdict == "worse" for row in found.standings)
    assert {row.value for row in found.standings} == {float(wrong)}


def test_where_all_pay_the_same_fraction_nothing_is_worse():
    probs = members(200, 5, 4)
    flat = sw.rules.cost_matrix(np.full((4, 4), 0.3))
    found = sw.compare(probs, labels(probs), task_loss=flat, **QUICK)
    assert not any(row.verdict == "worse" for row in found.standings)


PROBS, Y = members(20, 3, 4), np.arange(20) % 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "pass probs="),
        ({"probs": PROBS}, "needs y=, the labels"),
        ({"probs": PROBS, "y": Y, "ood": PROBS}, "no use for ood="),
        ({"probs": PROBS, "y": Y, "runs": {}}, "no use for runs="),
        ({"probs": PROBS, "y": Y[:-1]}, r"\(19,\).*\(20,\)"),
        ({"probs": PROBS, "y": Y + 1}, r"labels\[3\] is 4"),
        ({"probs": PROBS, "y": Y - 1}, r"labels\[0\] is -1"),
        ({"probs": PROBS, "y": Y / 1}, "integer class indices"),
        ({"probs": PROBS[:0], "y": Y[:0]}, "probs is empty"),
        ({"probs": PROBS[0], "y": Y[:1]}, r"probs\[:, None\] if these are n rows"),
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
        ({"probs": PROBS, "y": Y, "scores": {"margin": [0.0] * 20}}, "called so already"),
        ({"probs": PROBS, "y": Y, "scores": {"total log": [0.0] * 20}}, "called so already"),
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
        ({"task": "active"}, "runs= must map"),
        ({"task": "active", "runs": {}}, "runs= must map"),
        ({"task": "active", "runs": [[1.0], [2.0]]}, "runs= must map"),
        ({"probs": PROBS, "y": Y, "scores": [Y]}, "scores must map"),
        ({"probs": PROBS, "y": Y, "rules": {"zero-one": "log"}}, "both called 'zero-one'"),
        ({"task": "active", "probs": PROBS, "runs": {"a": [[1.0], [2.0]]}}, "no use for probs="),
        ({"task": "active", "runs": {"a": [[1.0, 2.0]]}}, "at least two runs"),
        ({"task": "active", "runs": {"a": [1.0, 2.0]}}, "must be \\(R, T\\)"),
        ({"task": "active", "runs": {"a": [[1.0], [np.nan]]}}, "is nan"),
        ({"task": "active", "runs": {"a": [[1.0], [2.0]], "b": [[1.0, 2.0]] * 2}}, "one shape"),
    ],
)
def test_bad_input_is_refused(given, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.compare(**{"progress": False, "n_resamples": 100, **given})


@pytest.mark.parametrize(
    "given",
    [
        # ValueError of zip(): members on one side only, so no votes on the other
        {"probs": PROBS, "task": "ood", "ood": sw.Dirichlet(np.ones((5, 4)))},
        # four classes against three
        {"probs": PROBS, "task": "ood", "ood": members(5, 3, 3)},
    ],
    ids=["Dirichlet as ood", "other classes"],
)
def test_more_bad_input_is_refused(given):
    with pytest.raises(sw.InvalidInput):
        sw.compare(**{"progress": False, "n_resamples": 100, **given})


def test_a_single_rule_keeps_its_name_or_is_refused():
    try:
        found = sw.compare(PROBS, Y, rules="log", **QUICK)
    except sw.InvalidInput:
        return
    assert "epistemic log" in by_name(found)


def test_measures_that_are_equal_in_all_resamples_do_not_spoil_the_intervals_of_others():
    rng = np.random.default_rng(12)
    probs = rng.dirichlet(np.full(3, 0.15), size=(60, 4)).round(1)
    probs[..., 2] = 1 - probs[..., 0] - probs[..., 1]
    probs = np.abs(probs.round(1))
    probs /= probs.sum(-1, keepdims=True)
    y = probs.mean(1).argmax(1)
    y[:2] = (y[:2] + 1) % 3
    found = sw.compare(probs, y, n_resamples=200, random_state=0)
    assert all(row.high - row.low < 1 for row in found.standings)
