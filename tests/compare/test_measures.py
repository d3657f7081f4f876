"""Measures of predictions: computed once, recognised where they order rows alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import scorewise as sw
from compare_support import QUICK, RULES, labels
from scorewise import kernels
from support import members, own_brier, softmax

# -- decomposed once ------------------------------------------------------------------------------


@pytest.fixture
def decomposed_rows(monkeypatch):
    """The number of rows of every decomposition, in the order in which they are computed."""
    sizes = []
    kernel = kernels.KERNELS["cpu"]
    compute = kernel.compute

    def count(received, *rest, **options):
        sizes.append(len(received.values))
        return compute(received, *rest, **options)

    monkeypatch.setattr(kernel, "compute", count)
    return sizes


@pytest.mark.parametrize("task_loss", ["zero-one", "brier", "tsallis:1.5"])
def test_evaluate_decomposes_members_once(decomposed_rows, task_loss):
    probs = members(40, 3, 4)
    sw.evaluate(probs, labels(probs), task_loss=task_loss, **QUICK)
    assert decomposed_rows == [40]


@pytest.mark.parametrize("rules", [RULES, ["brier"], {"log": "brier"}, []], ids=str)
def test_evaluate_with_ood_rows_decomposes_each_set_once(decomposed_rows, rules):
    probs, ood = members(40, 3, 4), members(30, 3, 4, seed=1)
    sw.evaluate(probs, labels(probs), ood=ood, rules=rules, **QUICK)
    assert decomposed_rows == [40, 30]


def test_evaluate_asks_a_rule_for_the_members_once():
    """The same by a rule of the user's, which sees every row that is computed."""
    seen = []

    def losses(p):
        if p.ndim == 3:
            seen.append(p.shape[0])
        return (p * p).sum(axis=-1, keepdims=True) + 1 - 2 * p

    rule = sw.rule_from_loss_vector(losses, name="own")
    probs, ood = members(40, 3, 4), members(30, 3, 4, seed=1)
    sw.decompose(probs, rule)
    per_pass = sum(seen) / 40
    seen.clear()
    sw.evaluate(probs, labels(probs), ood=ood, task_loss=rule, rules={"own": rule}, **QUICK)
    assert sum(seen) == per_pass * (40 + 30)


@pytest.mark.parametrize("task", ["selective", "ood"])
def test_compare_decomposes_each_set_once(decomposed_rows, task):
    probs, ood = members(40, 3, 4), members(30, 3, 4, seed=1)
    if task == "ood":
        sw.compare(probs, task="ood", ood=ood, **QUICK)
        assert decomposed_rows == [40, 30]
    else:
        sw.compare(probs, labels(probs), task_loss="rps", **QUICK)
        assert decomposed_rows == [40]


# -- a user's own rule, written for the library of the predictions ------------------------------

own_library = pytest.mark.parametrize("xp", ["torch", "jax"], indirect=True)


def assert_same_values(actual, expected):
    """Both compare the same measures; the rule "own" of the one is "brier" in the other."""
    values = {row.name.replace("own", "brier"): row.value for row in actual.standings}
    assert values == pytest.approx({row.name: row.value for row in expected.standings})


@own_library
def test_compare_takes_a_rule_written_for_the_library_of_the_predictions(xp):
    probs, ood, rule = members(40, 3, 4), members(30, 3, 4, seed=1), own_brier(xp.name)
    y, rules = labels(probs), {"own": rule, "log": "log"}
    arrays = {"probs": xp.asarray(probs), "ood": xp.asarray(ood)}
    for task_loss, same in (("zero-one", "zero-one"), (rule, "brier")):
        actual = sw.compare(arrays["probs"], y, rules=rules, task_loss=task_loss, **QUICK)
        expected = sw.compare(probs, y, rules=["brier", "log"], task_loss=same, **QUICK)
        assert_same_values(actual, expected)
    actual = sw.compare(**arrays, task="ood", rules=rules, **QUICK)
    expected = sw.compare(probs, task="ood", ood=ood, rules=["brier", "log"], **QUICK)
    assert_same_values(actual, expected)


@own_library
def test_evaluate_takes_a_rule_written_for_the_library_of_the_predictions(xp):
    probs, ood, rule = members(40, 3, 4), members(30, 3, 4, seed=1), own_brier(xp.name)
    y = labels(probs)
    actual = sw.evaluate(
        xp.asarray(probs),
        y,
        ood=xp.asarray(ood),
        rules={"own": rule},
        task_loss=rule,
        loss_bound=2.0,
        **QUICK,
    )
    expected = sw.evaluate(probs, y, ood=ood, rules=["brier"], task_loss="brier", **QUICK)
    assert_same_values(actual.comparison, expected.comparison)
    assert_same_values(actual.ood.comparison, expected.ood.comparison)
    np.testing.assert_allclose(actual.uncertainty.total, expected.uncertainty.total)
    thresholds = [[c.threshold for c in e.certificates] for e in (actual, expected)]
    assert thresholds[0] == pytest.approx(thresholds[1])


def test_epistemic_scores_of_a_jax_rule_without_float64_are_never_negative():
    import jax.numpy as jnp

    near = softmax(np.log(members(300, 1, 4)) + 1e-4 * members(300, 5, 4))
    probs = jnp.asarray(near, dtype="float32")
    evaluation = sw.evaluate(probs, labels(near), task_loss=own_brier("jax"), rules=[], **QUICK)
    assert (evaluation.uncertainty.epistemic >= 0).all()
    assert evaluation.uncertainty.epistemic.dtype == np.float64


def test_compare_takes_a_users_rule_with_a_dirichlet_of_torch():
    import torch

    alpha = 9 * members(20, 1, 3)[:, 0] + 0.1
    y, rules = np.arange(20) % 3, {"own": own_brier("torch")}
    actual = sw.compare(sw.Dirichlet(torch.asarray(alpha)), y, rules=rules, **QUICK)
    again = sw.compare(sw.Dirichlet(alpha), y, rules=["brier"], **QUICK)
    assert actual["total own"].value == pytest.approx(again["total brier"].value)


def test_compare_gives_a_users_rule_the_numpy_blocks_of_dask():
    import dask.array as da

    def losses(p):
        assert isinstance(p, np.ndarray)
        return (p * p).sum(axis=-1, keepdims=True) + 1 - 2 * p

    probs = members(40, 3, 4)
    rules = {"own": sw.rule_from_loss_vector(losses, name="own")}
    actual = sw.compare(da.from_array(probs, chunks=10), labels(probs), rules=rules, **QUICK)
    assert_same_values(actual, sw.compare(probs, labels(probs), rules=["brier"], **QUICK))


# -- the measures --------------------------------------------------------------------------------


def test_baselines_are_what_they_say():
    probs = members(150, 6, 4, concentration=0.5)
    weights = np.array([3.0, 1.0, 1.0, 0.0, 2.0, 0.5])
    for member_weights in (None, weights):
        w = np.ones(6) if member_weights is None else member_weights
        w = w / w.sum()
        samples = sw.Samples(probs, weights=member_weights)
        y = labels(probs)
        comparison = sw.compare(samples, y, rules=["log"], **QUICK)
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
            assert comparison[name].value == pytest.approx(sw.aulc(losses, scores), rel=1e-12), name


def test_own_scores_take_part():
    probs = members(200, 5, 4)
    y = labels(probs)
    energy = np.random.default_rng(0).normal(size=200)
    comparison = sw.compare(probs, y, scores={"energy": energy, "list": energy.tolist()}, **QUICK)
    assert comparison["energy"].value == pytest.approx(sw.aulc(sw.task_losses(probs, y), energy))
    assert comparison["list"].same_order_as == "energy"
    whole = sw.compare(probs, y, scores={"rounded": np.arange(200) // 20}, **QUICK)
    expected = sw.aulc(sw.task_losses(probs, y), np.arange(200) // 20)
    assert whole["rounded"].value == pytest.approx(expected)


def test_own_scores_may_be_infinite_once():
    probs = members(100, 5, 4)
    energy = np.r_[np.arange(99.0), np.inf]
    comparison = sw.compare(probs, labels(probs), scores={"energy": energy}, **QUICK)
    expected = sw.aulc(sw.task_losses(probs, labels(probs)), energy)
    assert comparison["energy"].value == pytest.approx(expected)


def test_own_scores_may_be_infinite_more_than_once():
    probs = members(100, 5, 4)
    energy = np.r_[np.arange(97.0), -np.inf, np.inf, np.inf]
    comparison = sw.compare(probs, labels(probs), scores={"energy": energy}, **QUICK)
    expected = sw.aulc(sw.task_losses(probs, labels(probs)), energy)
    assert comparison["energy"].value == pytest.approx(expected)


def test_member_weights_and_dirichlets_are_used():
    probs, weights = members(100, 3, 4), np.array([5.0, 1.0, 0.0])
    y = labels(probs)
    comparison = sw.compare(sw.Samples(probs, weights=weights), y, baselines=False, **QUICK)
    losses = sw.task_losses(probs, y, weights=weights)
    total = sw.decompose(probs, "zero-one", weights=weights).total
    assert comparison["total zero-one"].value == pytest.approx(sw.aulc(losses, total))
    plain = sw.compare(probs, y, baselines=False, **QUICK)
    assert comparison["total zero-one"].value != plain["total zero-one"].value

    dirichlet = sw.Dirichlet(np.random.default_rng(0).gamma(1.0, size=(100, 4)) * 5 + 0.1)
    comparison = sw.compare(dirichlet, y, task_loss="brier", rules=["log", "brier"], **QUICK)
    losses = sw.task_losses(dirichlet, y, "brier")
    for rule in ("log", "brier"):
        expected = sw.aulc(losses, sw.decompose(dirichlet, rule).epistemic)
        assert comparison[f"epistemic {rule}"].value == pytest.approx(expected)
    names = [row.name for row in comparison.standings]
    assert "max-softmax" in names
    assert "variation ratio" not in names  # there are no votes


# -- identical orders ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("k", [3, 10, 200])
@pytest.mark.parametrize("concentration", [0.05, 1.0, 50.0])
def test_totals_of_brier_and_spherical_always_order_alike(dtype, k, concentration):
    probs = members(400, 3, k, concentration=concentration).astype(dtype)
    samples = sw.Samples(probs, normalize=True)
    comparison = sw.compare(samples, labels(probs), rules=["brier", "spherical"], **QUICK)
    assert comparison["total spherical"].same_order_as == "total brier"
    shared = ("value", "distance_to_best", "low", "high", "p_value")
    for name in shared:
        assert getattr(comparison["total spherical"], name) == getattr(
            comparison["total brier"], name
        )
    assert comparison["max-softmax"].same_order_as == "total zero-one"


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
    comparison = sw.compare(
        probs, np.zeros(len(p), dtype=int), rules=rules, components=["total"], **QUICK
    )
    for rule in set(rules) - {"zero-one"}:
        assert comparison[f"total {rule}"].same_order_as == "total zero-one", rule
    assert comparison["margin"].same_order_as == "total zero-one"
    assert comparison["max-softmax"].same_order_as == "total zero-one"


def test_many_rows_of_two_classes_in_single_precision_are_ordered_alike_too():
    p = np.random.default_rng(0).uniform(size=10_000).astype("float32")
    comparison = sw.compare(sw.binary(p)[:, None], labels(sw.binary(p)[:, None]), **QUICK)
    for rule in ("log", "brier", "spherical"):
        assert comparison[f"total {rule}"].same_order_as == "total zero-one", rule


def test_measures_that_order_rows_differently_share_nothing():
    probs = members(300, 5, 3)
    comparison = sw.compare(probs, labels(probs), **QUICK)
    alike = {row.name for row in comparison.standings if row.same_order_as}
    assert alike == {"total spherical", "max-softmax"}


@pytest.mark.parametrize("gap", [1e-6, 1e-9])
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
    comparison = sw.compare(
        probs, rng.integers(2, size=3000), rules=[], scores=scores, baselines=False, **QUICK
    )
    assert comparison["same"].same_order_as == "total zero-one"
    assert comparison["swapped"].same_order_as is None
    assert comparison["tied"].same_order_as is None


def test_a_tie_that_one_measure_breaks_is_another_order():
    p = np.array([0.9, 0.8, 0.8, 0.6])
    probs = sw.binary(p)[:, None]
    comparison = sw.compare(
        probs,
        [0, 0, 1, 1],
        rules=[],
        baselines=False,
        scores={"broken": [0, 1, 1 + 1e-12, 2], "same": [1, 2, 2, 9]},
        **QUICK,
    )
    assert comparison["broken"].same_order_as is None
    assert comparison["same"].same_order_as == "total zero-one"


def test_an_order_that_is_reversed_in_small_steps_is_another_order():
    t = np.linspace(0, 0.005, 2000)
    probs = np.stack([0.5 + t, 0.4 - 2 * t, 0.1 + t], axis=-1)[:, None].astype(np.float32)
    d = sw.decompose(probs, ["log", "zero-one"])
    assert stats.spearmanr(d["log"].total, d["zero-one"].total)[0] < -0.999
    y = (np.arange(2000) > 600).astype(int)
    comparison = sw.compare(probs, y, rules=["log"], components=["total"], baselines=False, **QUICK)
    assert comparison["total log"].same_order_as is None


@pytest.mark.parametrize(("dtype", "noise"), [("float32", 1e-3), ("float64", 1e-7)])
def test_tiny_disagreements_of_different_order_are_not_alike(dtype, noise):
    rng = np.random.default_rng(0)
    logits = np.log(rng.dirichlet(np.ones(4), (500, 1)))
    probs = softmax(logits + noise * rng.normal(size=(500, 5, 4))).astype(dtype)
    d = sw.decompose(probs, ["log", "brier"])
    assert stats.spearmanr(d["log"].epistemic, d["brier"].epistemic)[0] < 0.95
    comparison = sw.compare(
        probs, labels(probs), rules=["log", "brier"], components=["epistemic"], **QUICK
    )
    assert comparison["epistemic brier"].same_order_as is None
