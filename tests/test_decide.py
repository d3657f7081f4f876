"""Decisions under costs, against brute force over actions and members."""

from __future__ import annotations

import itertools
import json
import pickle
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import dask
import dask.array as da
import mpmath as mp
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import scorewise as sw
from scorewise.decide import Decisions
from support import PRECISION, Library, may_rechunk, members, softmax

TRIAGE = [[0.0, 5.0], [50.0, 0.0]]
PROBS = [[[0.99, 0.01], [0.995, 0.005]], [[0.1, 0.9], [0.2, 0.8]], [[0.99, 0.01], [0.04, 0.96]]]


def brute(probs: Any, costs: Any, abstain: Any = None, weights: Any = None) -> SimpleNamespace:
    """The definitions, in numbers that are as exact as the ones handed in: probs (M, K)."""
    number = type(probs[0][0])
    columns = [[row[a] for row in costs] for a in range(len(costs[0]))]
    if abstain is not None:
        columns.append([abstain] * len(costs))
    n, k = len(probs), len(costs)
    weights = [number(1)] * n if weights is None else weights
    weights = [w / sum(weights) for w in weights]

    def cost(p: Any, a: int) -> Any:
        return sum((p[y] * columns[a][y] for y in range(k)), number(0))

    mean = [
        sum((w * p[y] for w, p in zip(weights, probs, strict=True)), number(0)) for y in range(k)
    ]
    actions = range(len(columns))
    expected = [cost(mean, a) for a in actions]
    action = expected.index(min(expected))
    least = [min(cost(p, a) for a in actions) for p in probs]
    pairs = list(zip(weights, probs, least, strict=True))
    return SimpleNamespace(
        action=action,
        total=expected[action],
        aleatoric=sum((w * b for w, _, b in pairs), number(0)),
        epistemic=sum((w * (cost(p, action) - b) for w, p, b in pairs), number(0)),
        agree=any(all(cost(p, a) == b for _, p, b in pairs) for a in actions),
    )


def fractions(values: Any) -> Any:
    """Nested lists of the exact values of floats."""
    if np.ndim(values):
        return [fractions(v) for v in values]
    return Fraction(float(values))


def fast(probs: np.ndarray, costs: Any, weights: Any = None) -> SimpleNamespace:
    """Brute force in NumPy, for many rows; probs (..., M, K), costs with all actions."""
    w = np.ones(probs.shape[:-1]) if weights is None else np.broadcast_to(weights, probs.shape[:-1])
    w = w / w.sum(-1, keepdims=True)
    cost = np.einsum("...mk,ka->...ma", probs, np.asarray(costs, dtype=float))
    mean = (w[..., None] * cost).sum(-2)
    action = mean.argmin(-1)
    taken = np.take_along_axis(cost, action[..., None, None], axis=-1)[..., 0]
    least = cost.min(-1)
    return SimpleNamespace(
        action=action,
        total=mean.min(-1),
        aleatoric=(w * least).sum(-1),
        epistemic=(w * (taken - least)).sum(-1),
    )


def assert_same(d: Decisions, expected: Any, rtol: float = 1e-12, atol: float = 1e-14) -> None:
    np.testing.assert_array_equal(np.asarray(d.action), expected.action)
    for part in ("total", "aleatoric", "epistemic"):
        values = np.asarray(getattr(d, part), dtype=float)
        np.testing.assert_allclose(values, getattr(expected, part), rtol=rtol, atol=atol)


def some_costs(k: int, n_actions: int, seed: int = 0) -> np.ndarray:
    """Random costs under which each action has classes that it suits."""
    suits = np.arange(k)[:, None] % n_actions == np.arange(n_actions) % k
    noise = np.random.default_rng(seed).uniform(0, 0.2, (k, n_actions))
    return np.asarray(noise + np.where(suits, 0, 1.5))


def with_abstaining(costs: Any, abstain: Any) -> np.ndarray:
    costs = np.asarray(costs, dtype=float)
    return np.column_stack([costs, np.broadcast_to(abstain, len(costs))])


# -- the definitions ------------------------------------------------------------------------------


@st.composite
def dyadic(draw: st.DrawFn) -> tuple[Any, ...]:
    """Sixteenths as probabilities, whole costs: every sum is exact, and many actions tie."""
    k = draw(st.integers(2, 4))
    m = draw(st.sampled_from([1, 2, 4]))
    cuts = st.lists(st.integers(0, 16), min_size=k - 1, max_size=k - 1)
    probs = [np.diff([0, *sorted(draw(cuts)), 16]) / 16 for _ in range(m)]
    row = st.lists(st.integers(-3, 4), min_size=(n := draw(st.integers(1, 4))), max_size=n)
    costs = [draw(row) for _ in range(k)]
    abstain = draw(st.none() | st.integers(-2, 4))
    weights = draw(st.sampled_from([None, [1, 1, 2, 4][:m], [0, 1, 3, 4][:m]]))
    if weights is not None and m < 4:
        weights = [[5], [1, 3]][m // 2]
    return np.array(probs), costs, abstain, weights


@given(dyadic())
@settings(max_examples=300)
def test_everything_is_exact_where_arithmetic_is(case):
    probs, costs, abstain, weights = case
    d = sw.decide(probs, costs, abstain, weights=weights)
    exact = brute(fractions(probs), costs, abstain, None if weights is None else fractions(weights))
    assert d.action == exact.action  # the first of several, abstaining last
    assert (d.total, d.aleatoric) == (exact.total, exact.aleatoric)
    assert d.epistemic == exact.epistemic
    if exact.agree and (weights is None or 0 not in weights):
        assert d.epistemic == 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("abstain", [None, 0.4])
def test_random_rows_match_exact_fractions(weighted, abstain):
    rng = np.random.default_rng(1)
    probs, costs = members(40, 5, 4, seed=2), some_costs(4, 3) - 1
    weights = rng.uniform(0, 2, (40, 5)) if weighted else None
    d = sw.decide(probs, costs, abstain, weights=weights)
    for i, p in enumerate(probs):
        w = None if weights is None else fractions(weights[i])
        exact = brute(fractions(p), fractions(costs), abstain and Fraction(abstain), w)
        assert d.action[i] == exact.action
        assert d.total[i] == pytest.approx(float(exact.total), rel=1e-12, abs=1e-15)
        assert d.aleatoric[i] == pytest.approx(float(exact.aleatoric), rel=1e-12, abs=1e-15)
        assert d.epistemic[i] == pytest.approx(float(exact.epistemic), rel=1e-12, abs=1e-21)


def test_small_epistemic_parts_keep_their_digits():
    """Members that differ by 1e-8, around the probability at which two actions cost the same."""
    rng = np.random.default_rng(3)
    costs = [[0.0, 5.0, 1e6], [45.0, 0.0, 1e6]]  # indifferent at 0.1
    p = 0.1 + 1e-8 * rng.normal(size=(30, 6))
    probs = np.stack([1 - p, p], axis=-1)
    d = sw.decide(probs, costs)
    with mp.workdps(50):
        for i, rows in enumerate(probs):
            exact = brute(
                [[mp.mpf(x) for x in row.tolist()] for row in rows],
                [[mp.mpf(c) for c in row] for row in costs],
            )
            assert exact.epistemic > 1e-9
            assert abs(d.epistemic[i] - exact.epistemic) <= 1e-12 * exact.epistemic


def test_the_parts_add_up_and_none_is_negative():
    for k, n_actions, m in [(2, 2, 1), (3, 1, 4), (5, 8, 3), (40, 6, 20)]:
        probs, costs = members(100, m, k, seed=k), some_costs(k, n_actions)
        d = sw.decide(probs, costs, 1.2)
        assert (d.epistemic >= 0).all()
        np.testing.assert_allclose(d.total, d.aleatoric + d.epistemic, rtol=1e-13)
        assert_same(d, fast(probs, with_abstaining(costs, 1.2)))


def test_the_epistemic_part_is_exactly_zero_where_members_agree():
    probs, costs = members(2000, 3, 3, seed=5), some_costs(3, 3)
    d = sw.decide(probs, costs, 0.9)
    own = np.asarray(d.rule.predict(probs))
    agree = (own == own[:, :1]).all(axis=1)
    assert 100 < agree.sum() < 1900
    assert (d.epistemic[agree] == 0).all()
    assert (d.epistemic[~agree] > 0).all()
    np.testing.assert_array_equal(d.action[agree], own[agree, 0])
    alike = sw.decide(np.repeat(probs[:, :1], 3, axis=1), costs, 0.9, weights=[0.1, 0.2, 0.7])
    assert (alike.epistemic == 0).all()


def test_the_epistemic_part_is_the_value_of_learning_theta():
    """An oracle says which member is right before the action is chosen; it is worth EU."""
    rng = np.random.default_rng(7)
    probs, costs, w = members(30, 6, 3, seed=8), some_costs(3, 4), rng.uniform(0, 1, 6)
    d = sw.decide(probs, costs, weights=w)
    with_oracle = sum(
        share * sw.decide(probs[:, m : m + 1], costs).total for m, share in enumerate(w / w.sum())
    )
    np.testing.assert_allclose(d.epistemic, d.total - with_oracle, atol=1e-14)
    np.testing.assert_allclose(d.aleatoric, with_oracle, rtol=1e-13)


# -- Chow's rule, thresholds ----------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 10])
def test_zero_one_costs_and_abstaining_are_chows_rule(k):
    probs = members(500, 5, k, seed=k, concentration=0.5)
    largest = probs.mean(axis=1).max(axis=-1)
    for c in (0.0, 1e-6, 0.1, 0.25, 0.5, 0.75, 1 - 1 / k, 1.0, 1.5):
        d = sw.decide(probs, 1 - np.eye(k), c)
        np.testing.assert_array_equal(d.action == k, 1 - largest > c)
        np.testing.assert_allclose(d.total, np.minimum(1 - largest, c), rtol=1e-12, atol=1e-15)
        labels = probs.mean(axis=1).argmax(axis=-1)
        np.testing.assert_array_equal(d.action[d.action < k], labels[d.action < k])
        if c >= 1:
            assert (d.action < k).all()
        if c == 0:
            assert (d.action == k).all()
            assert not d.total.any()
            assert not d.epistemic.any()


@given(st.integers(0, 64), st.integers(0, 64), st.integers(0, 64), st.sampled_from(["f4", "f8"]))
def test_a_tie_with_abstaining_is_no_reason_to_abstain(a, b, c, dtype):
    probs = np.array([[a, 64 - a], [b, 64 - b]], dtype=dtype) / 64
    largest = probs.mean(axis=0).max()
    d = sw.decide(probs, 1 - np.eye(2), c / 64)
    assert (d.action == 2) == (1 - largest > c / 64)
    assert d.total == min(1 - largest, c / 64)


def test_abstaining_at_no_cost_is_not_needed_where_a_label_is_certain():
    d = sw.decide([[[1.0, 0.0]], [[0.5, 0.5]], [[0.0, 1.0]]], 1 - np.eye(2), 0)
    assert d.action.tolist() == [0, 2, 1]
    assert not d.total.any()


def test_cheaper_abstaining_is_chosen_more_often_and_lowers_the_cost():
    probs = members(300, 4, 4, seed=9)
    costs = some_costs(4, 4)
    ever = [sw.decide(probs, costs, c) for c in np.linspace(4, -1, 40)]
    for dear, cheap in itertools.pairwise(ever):
        assert (cheap.total <= dear.total).all()
        assert (cheap.aleatoric <= dear.aleatoric).all()
        assert ((cheap.action == 4) >= (dear.action == 4)).all()
    assert (ever[0].action == 4).sum() < 10
    assert (ever[-1].action == 4).all()
    without = sw.decide(probs, costs)
    assert (sw.decide(probs, costs, 9.0).action == without.action).all()
    assert (ever[0].total <= without.total).all()


@pytest.mark.parametrize(("false_alarm", "miss"), [(5, 50), (1, 1), (3, 1), (1e-3, 1e3)])
def test_two_classes_have_a_threshold(false_alarm, miss):
    ill = np.random.default_rng(11).beta(0.5, 0.5, (400, 3))
    threshold = false_alarm / (false_alarm + miss)
    d = sw.decide(sw.binary(ill), [[0, false_alarm], [miss, 0]])
    np.testing.assert_array_equal(d.action == 1, ill.mean(axis=1) > threshold)
    exactly = sw.decide([[0.75, 0.25]], [[0, 1], [3, 0]])
    assert exactly.action == 0  # at the threshold either will do


def test_abstaining_may_cost_differently_by_class():
    probs, costs = members(50, 3, 3, seed=12), some_costs(3, 2)
    each = np.array([0.2, 0.9, 0.4])
    for given_as in (each, each.tolist(), tuple(each), torch.asarray(each), each.astype("f4")):
        d = sw.decide(probs, costs, given_as)
        full = with_abstaining(costs, np.asarray(given_as, dtype=float))
        assert_same(d, fast(probs, full))
        np.testing.assert_array_equal(d.rule.costs, full)
    alike = sw.decide(probs, costs, [0.5, 0.5, 0.5])
    assert alike.rule == sw.decide(probs, costs, 0.5).rule
    gain = sw.decide(probs, costs, -2)
    assert (gain.action == 2).all()
    np.testing.assert_allclose(gain.total, -2, rtol=1e-15)


# -- relations ------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 5), st.booleans())
@settings(max_examples=40)
def test_shifting_scaling_and_permuting_costs_changes_decisions_accordingly(
    seed, k, n_actions, abstaining
):
    rng = np.random.default_rng(seed)
    probs, costs = rng.dirichlet(np.ones(k), (8, 4)), rng.normal(size=(k, n_actions))
    abstain = rng.normal(size=k) if abstaining else None
    d = sw.decide(probs, costs, abstain)

    shift = 100 * rng.normal(size=k)
    moved = sw.decide(probs, costs + shift[:, None], None if abstain is None else abstain + shift)
    by_row = probs.mean(axis=1) @ shift
    np.testing.assert_array_equal(moved.action, d.action)
    np.testing.assert_allclose(moved.epistemic, d.epistemic, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(moved.total, d.total + by_row, atol=1e-11)
    np.testing.assert_allclose(moved.aleatoric, d.aleatoric + by_row, atol=1e-11)

    for scale in (0.25, 3.0, 1e12, 1e-12):
        scaled = sw.decide(probs, scale * costs, None if abstain is None else scale * abstain)
        np.testing.assert_array_equal(scaled.action, d.action)
        for part in ("total", "aleatoric", "epistemic"):
            np.testing.assert_allclose(
                getattr(scaled, part) / scale, getattr(d, part), rtol=1e-11, atol=1e-14
            )

    twice = sw.decide(probs, np.hstack([costs, costs]))
    once = sw.decide(probs, costs)
    assert_same(twice, once)
    dearer = sw.decide(probs, np.hstack([costs, costs + 1]))  # never taken
    assert_same(dearer, once)

    order = rng.permutation(n_actions)
    permuted = sw.decide(probs, costs[:, order], abstain)
    where = np.append(order, n_actions)
    np.testing.assert_array_equal(where[permuted.action], d.action)
    np.testing.assert_allclose(permuted.epistemic, d.epistemic, rtol=1e-9, atol=1e-14)

    classes = rng.permutation(k)
    other = sw.decide(
        probs[..., classes], costs[classes], None if abstain is None else abstain[classes]
    )
    assert_same(other, d, rtol=1e-9)

    people = rng.permutation(4)
    assert_same(sw.decide(probs[:, people], costs, abstain), d, rtol=1e-9)


def test_one_action_leaves_nothing_to_decide():
    d = sw.decide(PROBS, [[1.0], [3.0]])
    assert d.action.tolist() == [0, 0, 0]
    assert d.epistemic.tolist() == [0, 0, 0]
    np.testing.assert_allclose(d.total, [1.015, 2.7, 1.97])
    np.testing.assert_array_equal(sw.decide(PROBS, [[1.0], [3.0]], 2).action, [0, 1, 0])


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e-300, "float64"), (1e-30, "float32"), (1e29, "float32"), (1e29, "float64")],
)
def test_costs_of_any_size(scale, dtype):
    probs = members(50, 3, 3, seed=14).astype(dtype)
    costs = some_costs(3, 4)
    d, unit = sw.decide(probs, scale * costs, scale), sw.decide(probs, costs, 1)
    np.testing.assert_array_equal(d.action, unit.action)
    assert len(np.unique(d.action)) > 2
    np.testing.assert_allclose(d.total / d.total.dtype.type(scale), unit.total, rtol=1e-4)


def test_costs_of_zero_choose_the_first_action():
    d = sw.decide(members(5, 3, 3), np.zeros((3, 2)), 0)
    assert d.action.tolist() == [0] * 5
    assert not d.total.any()
    assert not d.epistemic.any()


# -- beside the rest of the library ---------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, [3.0, 1.0, 0.0, 2.0]])
def test_the_numbers_are_those_of_decompose_under_its_rule(weights):
    probs, costs = members(60, 4, 3, seed=16), some_costs(3, 5)
    d = sw.decide(probs, costs, 0.8, weights=weights)
    same = sw.decompose(probs, d.rule, weights=weights)
    for part in ("total", "aleatoric", "epistemic"):
        np.testing.assert_array_equal(getattr(d, part), getattr(same, part))
    q = sw.Samples(probs, weights=weights)
    np.testing.assert_array_equal(d.action, d.rule.predict(q.mean))
    np.testing.assert_allclose(d.total, d.rule.entropy(q.mean), rtol=1e-13)
    assert d.rule == sw.rules.cost_matrix(with_abstaining(costs, 0.8), d.action_names)
    zero_one = sw.decompose(probs, "zero-one", weights=weights)
    plain = sw.decide(probs, 1 - np.eye(3), weights=weights)
    np.testing.assert_allclose(plain.epistemic, zero_one.epistemic, atol=1e-15)
    np.testing.assert_allclose(plain.total, zero_one.total, rtol=1e-13)


def test_the_loss_incurred_is_the_cost_of_the_action():
    probs, y = members(80, 3, 3, seed=18), np.random.default_rng(19).integers(0, 3, 80)
    d = sw.decide(probs, some_costs(3, 4), 0.9)
    np.testing.assert_array_equal(sw.task_losses(probs, y, d.rule), d.rule.costs[y, d.action])


def test_rows_are_labelled_where_learning_theta_is_worth_most():
    d = sw.decide(members(40, 5, 3, seed=21, concentration=0.3), 1 - np.eye(3), 0.6)
    chosen = sw.acquire(d.epistemic, 7, random_state=0)
    assert d.epistemic[chosen].min() > 0
    np.testing.assert_array_equal(chosen, np.argsort(-d.epistemic, kind="stable")[:7])


def test_a_selective_classifier_labels_as_decide_does():
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression

    X, y = make_classification(400, random_state=0)
    costs = [[0.0, 1.0], [4.0, 0.0]]
    plain = sw.decide(np.full((1, 1, 2), 0.5), costs).rule
    model = sw.SelectiveClassifier(LogisticRegression(), plain, 0.8, random_state=0).fit(X, y)
    d = sw.decide(model.estimator_.predict_proba(X)[:, None], costs)
    np.testing.assert_array_equal(model.predict(X), d.action)
    np.testing.assert_allclose(model.uncertainty(X), d.total, rtol=1e-9)
    abstaining = sw.decide(np.full((1, 1, 2), 0.5), costs, 0.5).rule
    with pytest.raises(sw.InvalidInput, match="a column for abstaining is not needed"):
        sw.SelectiveClassifier(LogisticRegression(), abstaining, 0.5).fit(X, y)


# -- what comes in and goes out -------------------------------------------------------------------


CASES = [
    ((2, 3), "float64", (2, 3)),
    ((6,), "float32", ()),
    ((), "float64", None),
    ((), "float32", ()),
    ((0,), "float32", (0,)),
    ((2, 0), "float64", None),
    ((6,), "float64", (6,)),
]


def test_every_library_gets_its_own_arrays_back(xp):
    rng, costs = np.random.default_rng(22), some_costs(3, 3)
    for batch, dtype, weighted in CASES[: 1 if xp.name == "jax" else None]:  # which compiles long
        probs = rng.dirichlet(np.ones(3), (*batch, 4)).astype(dtype)
        w = None if weighted is None else rng.uniform(0, 1, (*weighted, 4)).astype(dtype)
        d = sw.decide(xp.asarray(probs), costs, 0.9, weights=None if w is None else xp.asarray(w))
        for part in (d.action, d.total, d.aleatoric, d.epistemic):
            assert xp.owns(part)
            assert tuple(part.shape) == batch
        assert xp.to_numpy(d.action).dtype.kind == "i"
        assert xp.to_numpy(d.total).dtype == xp.to_numpy(d.epistemic).dtype == dtype
        tolerance = {"float32": 1e-5, "float64": 1e-12}[dtype]
        expected = fast(probs.astype(float), with_abstaining(costs, 0.9), w)
        assert_same(d, expected, rtol=tolerance, atol=tolerance)
        assert len(repr(d).split("\n")) == 1 + len(np.unique(expected.action))


def test_costs_may_come_from_any_library(xp):
    costs = np.array(TRIAGE)
    d = sw.decide(PROBS, xp.asarray(costs), xp.asarray([1.0, 1.0]))
    assert_same(d, sw.decide(PROBS, TRIAGE, 1))
    assert isinstance(d.total, np.ndarray)


def test_axes_logits_and_masses_are_read_as_by_decompose():
    rng = np.random.default_rng(23)
    logits, costs = 3 * rng.normal(size=(5, 4, 3)), some_costs(3, 4)
    logits[0, 0, 1] = -np.inf
    probs = softmax(logits)
    d = sw.decide(probs, costs, 0.7)
    assert_same(d, fast(probs, with_abstaining(costs, 0.7)))
    assert_same(sw.decide(logits, costs, 0.7, from_logits=True), d)
    assert_same(sw.decide(probs * 7, costs, 0.7, normalize=True), d)
    assert_same(sw.decide(np.moveaxis(probs, 1, 0), costs, 0.7, member_axis=0), d)
    turned = np.moveaxis(probs, 2, 0)
    assert_same(sw.decide(turned, costs, 0.7, class_axis=0, member_axis=2), d)
    assert_same(sw.decide(sw.Samples(logits, from_logits=True), costs, 0.7), d)
    w = rng.uniform(0, 1, (5, 4))
    weighted = fast(probs, with_abstaining(costs, 0.7), w)
    assert_same(sw.decide(probs, costs, 0.7, weights=w), weighted)
    assert_same(sw.decide(sw.Samples(probs, w), costs, 0.7), weighted)
    third = np.eye(4)[2]
    assert_same(sw.decide(probs, costs, 0.7, weights=third), sw.decide(probs[:, [2]], costs, 0.7))


@may_rechunk
def test_dask_in_dask_out():
    probs, costs = members(40, 6, 4, seed=24), some_costs(4, 3)
    weights = np.random.default_rng(26).uniform(0, 1, (40, 6))
    for w in (None, weights):
        lazy = sw.decide(da.from_array(probs, chunks=(9, 4, 3)), costs, 1.2, weights=w)
        for part in (lazy.action, lazy.total, lazy.aleatoric, lazy.epistemic):
            assert isinstance(part, da.Array)
            assert part.shape == (40,)
        eager = sw.decide(probs, costs, 1.2, weights=w)
        assert_same(lazy, eager)
        assert repr(lazy) == repr(eager)


def test_dask_is_lazy_as_in_decompose():
    computed = []

    def block(p: np.ndarray) -> np.ndarray:
        computed.append(p.shape)
        return p

    probs = da.from_array(members(8, 3, 2), chunks=(4, 3, 2))
    probs = probs.map_blocks(block, dtype=float, meta=np.empty((0, 0, 0)))
    with dask.config.set(scheduler="synchronous"):
        sw.decompose(probs, sw.rules.cost_matrix(TRIAGE))
        assert not computed
        sw.decide(probs, TRIAGE)
    assert not computed


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_single(kind):
    probs = torch.asarray(members(200, 3, 10, seed=27)).to(getattr(torch, kind))
    costs = some_costs(10, 4)
    d, exact = sw.decide(probs, costs), sw.decide(probs.double(), costs, check=False)
    assert d.total.dtype == torch.float32
    np.testing.assert_array_equal(d.action, exact.action)
    for part in ("total", "aleatoric", "epistemic"):
        np.testing.assert_allclose(getattr(d, part), getattr(exact, part), rtol=1e-4, atol=1e-6)


def test_unchecked_rows_are_trusted():
    probs = 1.5 * members(4, 3, 2)
    same = sw.decompose(probs, sw.rules.cost_matrix(TRIAGE), check=False)
    np.testing.assert_array_equal(sw.decide(probs, TRIAGE, check=False).total, same.total)


def test_gradients_flow_through_the_costs():
    probs = torch.asarray(members(5, 3, 3, seed=29)).requires_grad_()
    d = sw.decide(probs, 1 - np.eye(3), 0.5)
    assert "grad" not in repr(d)
    d.total.sum().backward()
    assert probs.grad is not None
    assert not d.action.requires_grad


def test_jax_compiles_a_decision():
    import jax

    probs = members(20, 3, 3, seed=30)

    def parts(p: Any) -> Any:
        d = sw.decide(p, 1 - np.eye(3), 0.4)
        return d.action, d.total, d.epistemic

    with jax.enable_x64(True):
        made = jax.jit(parts)(jax.numpy.asarray(probs))
    for own, plain in zip(made, parts(probs), strict=True):
        np.testing.assert_allclose(own, plain, rtol=1e-12, atol=1e-15)


# -- Dirichlets -----------------------------------------------------------------------------------


def test_a_dirichlet_is_close_to_its_draws():
    rng = np.random.default_rng(31)
    alpha = rng.gamma(1.0, 2.0, (8, 3)) + 0.2
    costs = some_costs(3, 3)
    d = sw.decide(sw.Dirichlet(alpha), costs, 0.9)
    mean = alpha / alpha.sum(-1, keepdims=True)
    expected = mean @ with_abstaining(costs, 0.9)
    np.testing.assert_array_equal(d.action, expected.argmin(-1))
    assert len(set(d.action.tolist())) > 1
    np.testing.assert_allclose(d.total, expected.min(-1), rtol=1e-12)
    np.testing.assert_allclose(d.total, d.aleatoric + d.epistemic, rtol=1e-12)
    for i, a in enumerate(alpha):
        cost = rng.dirichlet(a, 40_000) @ with_abstaining(costs, 0.9)
        regret = cost[:, d.action[i]] - cost.min(-1)
        error = regret.std() / np.sqrt(len(regret))
        assert abs(regret.mean() - d.epistemic[i]) <= 5 * error + 1e-3 * regret.mean() + 1e-6


def test_a_dirichlet_of_two_classes_has_an_exact_value_of_information():
    """Uniform θ and zero-one costs: E min(θ, 1 − θ) = 1/4."""
    d = sw.decide(sw.Dirichlet([1.0, 1.0]), 1 - np.eye(2), 0.75)
    assert (d.action, d.total) == (0, 0.5)
    assert d.epistemic == pytest.approx(0.25, abs=1e-3)
    # abstaining at c: E min(θ, 1 − θ, c) = c − c²
    d = sw.decide(sw.Dirichlet([1.0, 1.0]), 1 - np.eye(2), 0.25)
    assert (d.action, d.total) == (2, 0.25)
    assert d.aleatoric == pytest.approx(0.25 - 0.25**2, abs=1e-3)


@pytest.mark.parametrize(("batch", "dtype"), [((), "float64"), ((3,), "float32"), ((0,), "f8")])
def test_a_dirichlet_in_every_library(xp, batch, dtype):
    alpha = np.random.default_rng(32).gamma(2.0, size=(*batch, 2)) + 0.5
    d = sw.decide(sw.Dirichlet(xp.asarray(alpha, dtype)), TRIAGE, 1)
    for part in (d.action, d.total, d.aleatoric, d.epistemic):
        assert xp.owns(part)
        assert tuple(part.shape) == batch
    assert xp.to_numpy(d.epistemic).dtype == dtype
    plain = sw.decide(sw.Dirichlet(alpha.astype(dtype)), TRIAGE, 1)
    np.testing.assert_allclose(xp.to_numpy(d.epistemic), plain.epistemic, rtol=1e-4)


def test_a_dirichlet_in_dask():
    alpha = np.random.default_rng(33).gamma(2.0, size=(6, 2)) + 0.5
    q = sw.Dirichlet(da.from_array(alpha, chunks=(2, 2)))
    np.testing.assert_allclose(sw.decompose(q, "zero-one").total, alpha.min(-1) / alpha.sum(-1))
    assert_same(sw.decide(q, TRIAGE, 1), sw.decide(sw.Dirichlet(alpha), TRIAGE, 1))


# -- ties that rounding breaks --------------------------------------------------------------------


def test_members_that_all_take_the_first_of_tied_actions_are_followed():
    """Actions 0 and 1 cost 1/2 each, exactly, for every member; their mean is rounded."""
    u = np.random.default_rng(0).integers(1, 2**20, (200, 3)) / 2**22
    probs = np.stack([u, 0.5 - u, np.full_like(u, 0.5)], axis=-1)
    costs = [[0, 1], [0, 1], [1, 0]]
    d = sw.decide(probs, costs)
    assert not np.asarray(d.rule.predict(probs)).any()
    assert not d.epistemic.any()
    assert not d.action.any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_actions_that_tie_over_all_members_though_not_for_each(dtype):
    """For each member there is one with classes 0 and 1 exchanged; sums differ by their order."""
    rng = np.random.default_rng(40)
    half = rng.dirichlet([3, 3, 1], (300, 5)).astype(dtype)
    probs = np.concatenate([half, half[..., [1, 0, 2]]], axis=1)
    probs = np.take_along_axis(
        probs, rng.permuted(np.tile(np.arange(10), (300, 1)), axis=1)[..., None], axis=1
    )
    tied = (
        half[..., :2].astype(float).mean(axis=(1, 2))
        > half[..., 2].astype(float).mean(axis=1) + 0.01
    )
    assert tied.sum() > 200
    d = sw.decide(probs, 1 - np.eye(3))
    assert not d.action[tied].any()


@pytest.mark.parametrize(("dtype", "step"), [("float64", 1e-12), ("float32", 1e-5)])
def test_actions_that_nearly_tie_are_distinguished(dtype, step):
    """The second is cheaper by little, and one member would take the first."""
    probs = np.array([[0.75, 0.25], [0.25 - 2 * step, 0.75 + 2 * step]], dtype=dtype)
    d = sw.decide(probs, 1 - np.eye(2))
    assert d.action == 1
    assert sw.decide(probs[:, ::-1], 1 - np.eye(2)).action == 0
    assert sw.decide(probs, 1 - np.eye(2), 0.5 - step / 2).action == 1


@st.composite
def many_ties(draw: st.DrawFn) -> tuple[Any, ...]:
    """Up to 6 classes, 8 actions, 5 members of any whole weight; few different numbers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    k, n_actions, m = rng.integers(2, 7), rng.integers(1, 9), rng.integers(1, 6)
    whole = int(rng.choice([2, 4, 16, 1024]))
    probs = rng.multinomial(whole, rng.dirichlet(np.ones(k)), (4, m)) / whole
    costs = rng.integers(-3, 5, (k, n_actions)) / rng.choice([1, 8])
    abstain = None if rng.random() < 0.5 else float(rng.integers(-2, 5)) / 2
    weights = None if rng.random() < 0.3 else rng.integers(1, 8, m).astype(float)
    return probs.astype(rng.choice(["f4", "f8"])), costs, abstain, weights


@given(many_ties())
@settings(max_examples=100)
def test_ties_of_any_kind_go_to_the_first_and_the_parts_agree_with_the_action(case):
    probs, costs, abstain, weights = case
    d = sw.decide(probs, costs, abstain, weights=weights)
    relative, unit = PRECISION[probs.dtype.name][0], 8 * float(np.finfo(probs.dtype).eps)
    w = None if weights is None else fractions(weights)
    size = float(np.abs(d.rule.costs).max())
    for i, p in enumerate(probs):
        exact = brute(
            fractions(p), fractions(costs), None if abstain is None else Fraction(abstain), w
        )
        assert d.action[i] == exact.action
        assert (d.epistemic[i] == 0) == (exact.epistemic == 0)
        assert abs(float(d.epistemic[i]) - exact.epistemic) <= relative * exact.epistemic
        assert abs(float(d.total[i]) - exact.total) <= unit * size
        assert abs(float(d.aleatoric[i]) - exact.aleatoric) <= unit * size


@pytest.mark.parametrize(("dtype", "forbidding"), [("float32", 1e6), ("float64", 1e15)])
def test_an_action_that_is_forbidden_by_its_cost_does_not_blur_the_others(dtype, forbidding):
    """As the docs of cost_matrix advise; the second action costs 0.45, the first 0.55."""
    probs = np.array([[0.3, 0.7], [0.6, 0.4]], dtype=dtype)
    costs = np.column_stack([1 - np.eye(2), np.full(2, forbidding)])
    d = sw.decide(probs, costs)
    assert d.total == pytest.approx(0.45)
    assert d.action == 1


def test_a_costly_action_that_is_not_taken_does_not_change_single_precision():
    probs = members(3000, 20, 3, seed=41).astype("float32")
    d = sw.decide(probs, np.column_stack([1 - np.eye(3), np.full(3, 1e4)]))
    costs = (1 - probs.astype(float).mean(axis=1))[np.arange(3000), d.action]
    np.testing.assert_allclose(costs, d.total, rtol=1e-5)


# -- names and the table --------------------------------------------------------------------------


def test_costs_by_action_are_means_of_its_rows_and_nan_without_rows():
    d = sw.decide([[[1.0, 0.0]], [[0.9, 0.1]], [[0.0, 1.0]]], [[0, 9, 1], [2, 9, 0]])
    wait, never, act = d.by_action()
    assert (wait["action"], wait["rows"], wait["total"]) == ("0", 2, pytest.approx(0.1))
    assert (act["rows"], act["total"], act["epistemic"]) == (1, 0, 0)
    assert never["rows"] == 0
    assert np.isnan(never["total"])


def table(d: Decisions) -> dict[str, list[float]]:
    """The rows of the printed table, by name."""
    head, *lines = repr(d).split("\n")
    assert head.split() == ["action", "rows", "cost", "aleatoric", "epistemic"]
    cells = [line.rsplit(maxsplit=4) for line in lines]
    assert len({len(line) for line in (head, *lines)}) == 1, "columns are aligned"
    return {name.rstrip(): [float(x) for x in rest] for name, *rest in cells}


def test_actions_are_named_by_the_argument_the_matrix_or_their_numbers():
    named = sw.rules.cost_matrix(TRIAGE, ["dismiss", "treat"])
    assert sw.decide(PROBS, TRIAGE).action_names == ("0", "1")
    assert sw.decide(PROBS, TRIAGE, 1).action_names == ("0", "1", "abstain")
    assert sw.decide(PROBS, sw.rules.cost_matrix(TRIAGE)).action_names == ("0", "1")
    assert sw.decide(PROBS, named).action_names == ("dismiss", "treat")
    assert sw.decide(PROBS, named).rule == named
    assert sw.decide(PROBS, named, 1).action_names == ("dismiss", "treat", "abstain")
    d = sw.decide(PROBS, named, 1, action_names=("no", "yes"))
    assert d.action_names == d.rule.actions == ("no", "yes", "abstain")
    assert named.actions == ("dismiss", "treat")
    assert sw.decide(PROBS, TRIAGE, action_names=np.array(["a", "b"])).action_names == ("a", "b")
    assert sw.decide(PROBS, TRIAGE, action_names=iter(["a", "b"])).action_names == ("a", "b")
    for classes in ([1, 2], ["well", "ill"]):
        names = tuple(map(str, classes))
        d = sw.decide(PROBS, TRIAGE, class_names=classes)
        assert d.action_names == names
        assert d.to_frame()["action"].tolist() == [names[0], names[1], names[1]]
        assert sw.decide(sw.Samples(PROBS, class_names=classes), TRIAGE, 1).action_names == (
            *names,
            "abstain",
        )
        evidence = sw.Dirichlet([1.0, 2.0], class_names=classes)
        assert sw.decide(evidence, TRIAGE).action_names == names
    own = sw.decide(PROBS, with_abstaining(TRIAGE, 1), action_names=["a", "b", "abstain"])
    assert own.action_names == ("a", "b", "abstain")
    assert_same(own, sw.decide(PROBS, TRIAGE, 1))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "a"], "a different name"),
        ([1, "1"], "a different name"),
        (["a"], "1 action names for 2 actions"),
        (["a", "b", "c", "d"], "4 action names for 2 actions"),
        ([], "0 action names for 2 actions"),
        ("ab", "'ab' must be a sequence of names"),
        ("dismiss", "'dismiss' must be a sequence of names"),
        (["abstain", "b"], "has an action 'abstain' already; .*pass abstain_cost=None"),
    ],
)
def test_invalid_action_names_are_refused(names, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.decide(PROBS, TRIAGE, 1, action_names=names)
    if not isinstance(names, str):
        with pytest.raises(sw.InvalidInput, match=message):
            sw.decide(PROBS, sw.rules.cost_matrix(TRIAGE, names), 1)


def test_a_cost_matrix_takes_no_string_for_names():
    with pytest.raises(sw.InvalidInput, match="sequence of names"):
        sw.rules.cost_matrix(TRIAGE, "ab")


def test_a_number_is_no_sequence_of_names():
    with pytest.raises(sw.InvalidInput, match="sequence of names"):
        sw.decide(PROBS, TRIAGE, action_names=3)


def test_abstaining_may_have_another_name():
    d = sw.decide(PROBS, TRIAGE, 1, action_names=["dismiss", "treat", "refer"])
    assert d.action_names == ("dismiss", "treat", "refer") == d.rule.actions
    assert [d.action_names[a] for a in d.action] == ["dismiss", "treat", "refer"]
    own = sw.decide(PROBS, TRIAGE, 1, action_names=["abstain", "treat", "refer"])
    assert own.action_names == ("abstain", "treat", "refer")
    with pytest.raises(sw.InvalidInput, match="3 action names for 2 actions"):
        sw.decide(PROBS, TRIAGE, action_names=["dismiss", "treat", "refer"])


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_the_table_is_the_same_in_every_library(library):
    probs = Library(library).asarray(PROBS)
    d = sw.decide(probs, TRIAGE, 1, action_names=["dismiss", "treat at once"])
    assert repr(d) == (
        "action         rows   cost  aleatoric  epistemic\n"
        "dismiss           1  0.375      0.375          0\n"
        "treat at once     1   0.75       0.75          0\n"
        "abstain           1      1       0.35       0.65"
    )
    assert table(d)["treat at once"] == [1, 0.75, 0.75, 0]


def test_the_table_counts_rows_and_averages_their_costs():
    probs = members(60, 4, 3, seed=34).reshape(12, 5, 4, 3)
    costs = some_costs(3, 12)
    d = sw.decide(probs, costs, 0.8)
    shown = table(d)
    taken = [d.action_names[a] for a in np.unique(d.action)]
    assert list(shown) == taken
    assert 1 < len(taken) < 13
    for name, (rows, *means) in shown.items():
        here = d.action == d.action_names.index(name)
        assert rows == here.sum()
        for mean, part in zip(means, (d.total, d.aleatoric, d.epistemic), strict=True):
            assert mean == pytest.approx(part[here].mean(), rel=1e-3)


def test_the_table_of_few_rows():
    assert table(sw.decide(np.empty((0, 3, 2)), TRIAGE, 1)) == {}
    assert table(sw.decide(np.empty((4, 0, 3, 2)), TRIAGE, action_names=["a" * 30, "b"])) == {}
    assert table(sw.decide(PROBS[1], TRIAGE)) == {"1": [1, 0.75, 0.75, 0]}
    assert list(table(sw.decide(PROBS, np.ones((2, 50))))) == ["0"]


def test_the_table_is_aligned_for_large_gains():
    d = sw.decide(PROBS, [[-1.157e11, 0], [0, -2.34e10]])
    assert len(table(d)) == 2


def test_decisions_can_be_pickled():
    d = sw.decide(PROBS, TRIAGE, 1)
    back = pickle.loads(pickle.dumps(d))
    assert back.rule == d.rule
    assert repr(back) == repr(d)
    with pytest.raises(AttributeError):
        d.action = 1


def test_inputs_are_not_changed():
    probs, costs, abstain = np.array(PROBS), np.array(TRIAGE), np.array([1.0, 2.0])
    before = probs.copy(), costs.copy(), abstain.copy()
    d = sw.decide(probs, costs, abstain)
    for value, old in zip((probs, costs, abstain), before, strict=True):
        np.testing.assert_array_equal(value, old)
    costs[:] = abstain[:] = 9
    np.testing.assert_array_equal(d.rule.costs, with_abstaining(TRIAGE, [1.0, 2.0]))


# -- costs by name --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def screening():
    """Predictions of a forest that knows its classes, and costs in another order."""
    X, target = load_breast_cancer(return_X_y=True)
    y = np.array(["malignant", "benign"])[target]
    forest = RandomForestClassifier(5, max_depth=2, random_state=0).fit(X[:400], y[:400])
    frame = pd.DataFrame(
        [[100, 0], [0, 5]], index=["malignant", "benign"], columns=["send home", "operate"]
    )
    return sw.predict_samples(forest, X[400:]), frame


def test_costs_in_a_frame_are_put_in_the_order_of_the_classes(screening):
    samples, frame = screening
    assert samples.classes_.tolist() == ["benign", "malignant"]
    expected = sw.decide(samples, [[0, 5], [100, 0]], 3, action_names=["send home", "operate"])
    by_name = sw.decide(samples, frame, 3)
    assert_same(by_name, expected)
    assert by_name.action_names == ("send home", "operate", "abstain")
    assert "operate" in repr(by_name)
    array = np.asarray(samples.probs)
    assert_same(sw.decide(array, frame, 3, class_names=["benign", "malignant"]), expected)
    in_other_order = sw.decide(array[..., ::-1], frame, 3, class_names=["malignant", "benign"])
    np.testing.assert_array_equal(in_other_order.action, expected.action)


def test_costs_by_name_need_predictions_that_know_their_classes(screening):
    samples, frame = screening
    array = np.asarray(samples.probs)
    with pytest.raises(sw.InvalidInput, match=r"such as 'malignant', .* pass class_names="):
        sw.decide(array, frame)
    with pytest.raises(sw.InvalidInput, match="a row for 'malignant', and there is no such class"):
        sw.decide(array, frame, class_names=["healthy", "ill"])
    with pytest.raises(sw.InvalidInput, match="add abstaining to the cost matrix"):
        sw.decide(samples, frame, [1, 2])


@pytest.mark.parametrize(
    "use",
    [
        lambda rows, y, costs: sw.decompose(rows, costs).total,
        lambda rows, y, costs: sw.decompose(rows, {"own": costs})["own"].total,
        lambda rows, y, costs: sw.pairwise_epistemic(rows, costs),
        lambda rows, y, costs: sw.task_losses(rows, y, costs),
        lambda rows, y, costs: sw.acquire_batch(rows, 3, costs, 0).gains,
        lambda rows, y, costs: sw.certify(rows, y, max_loss=20, task_loss=costs).to_dict(),
        lambda rows, y, costs: sw.evaluate(
            rows, y, task_loss=costs, rules=["log", costs], n_resamples=100
        ).to_dict(),
        lambda rows, y, costs: sw.compare(
            rows, y, task_loss=costs, rules={"own": costs}, n_resamples=100, random_state=0
        ).to_dict(),
        lambda rows, y, costs: sw.compare(
            rows, task="detect", ood=rows[:9], rules=costs, n_resamples=100, random_state=0
        ).to_dict(),
    ],
    ids=[
        *("decompose", "several rules", "pairwise", "task losses", "batch", "certify"),
        *("evaluate", "compare", "ood"),
    ],
)
def test_every_function_puts_costs_in_the_order_of_the_classes(use, screening):
    samples, frame = screening
    y = samples.classes_[np.argmax(samples.mean, axis=-1)]
    aligned = sw.rules.cost_matrix([[0, 5], [100, 0]], ["send home", "operate"])
    expected, by_name = use(samples, y, aligned), use(samples, y, frame)
    if isinstance(expected, dict):
        assert json.dumps(by_name, default=str) == json.dumps(expected, default=str)
    else:
        np.testing.assert_array_equal(by_name, expected)
    with pytest.raises(sw.InvalidInput, match=r"such as 'malignant', .* pass class_names="):
        use(np.asarray(samples.probs), (y == "malignant").astype(int), frame)


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (1 - np.eye(3), "for 3 classes, but the predictions have 2"),
        (sw.rules.cost_matrix(1 - np.eye(3)), "for 3 classes, but the predictions have 2"),
        ([0, 1], "1 dimensions and needs 2"),
        (3, "0 dimensions and needs 2"),
        ([[[0, 1], [1, 0]]], "3 dimensions and needs 2"),
        ([[0, np.nan], [1, 0]], r"cost matrix\[0, 1\] is nan; it must be finite"),
        ([[0, 1], [-np.inf, 0]], r"cost matrix\[1, 0\] is -inf; it must be finite"),
        ([[0, 1], [1]], "not a rectangular array"),
        ([[], []], r"shape \(2, 0\)"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ([[0, 1j], [1, 0]], "real numbers"),
        (None, "real numbers"),
        ("zero-one", "is not a cost matrix"),
        (sw.rules.zero_one, "is not a cost matrix"),
        (np.ma.masked_array(TRIAGE, mask=np.eye(2)), "masked"),
    ],
)
@pytest.mark.parametrize("abstain", [None, 1, [1, 1]])
def test_invalid_costs_are_refused(costs, message, abstain):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.decide(PROBS, costs, abstain)


@pytest.mark.parametrize(
    ("abstain", "message"),
    [
        (np.nan, r"abstain_cost\[0\] is nan; it must be finite"),
        (np.inf, r"abstain_cost\[0\] is inf; it must be finite"),
        (-np.inf, r"abstain_cost\[0\] is -inf; it must be finite"),
        ("1", "abstain_cost has dtype .*real numbers"),
        (True, "abstain_cost must be a number.*not bool"),
        (1j, "abstain_cost has dtype complex128; it must hold real numbers"),
        ({}, "abstain_cost has dtype object"),
        ([], r"not float64 of shape \(0,\)"),
        ([1], r"a number, or one for each of 2 classes, not int64 of shape \(1,\)"),
        ([1, 2, 3], r"a number, or one for each of 2 classes, not int64 of shape \(3,\)"),
        ([1, np.nan], r"abstain_cost\[1\] is nan"),
        ([np.inf, 1], r"abstain_cost\[0\] is inf; it must be finite"),
        ([[1, 2]], r"of shape \(1, 2\)"),
        ([[1], [2]], r"of shape \(2, 1\)"),
        (["1", "2"], "abstain_cost has dtype .*real numbers"),
        ([1, None], "abstain_cost has dtype object"),
        (np.ma.masked_array([1, 2], mask=[0, 1]), "abstain_cost is a masked array"),
    ],
)
def test_invalid_abstain_costs_are_refused(abstain, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.decide(PROBS, TRIAGE, abstain)


def test_a_series_of_abstain_costs_is_read_by_its_names():
    series, names = pd.Series({"ill": 100, "well": 0.01}), ["well", "ill"]
    frame = pd.DataFrame([[50, 0], [0, 5]], ["ill", "well"], ["dismiss", "treat"])
    expected = sw.decide(PROBS, TRIAGE, [0.01, 100], class_names=names)
    for costs in (TRIAGE, frame):
        assert_same(sw.decide(PROBS, costs, series, class_names=names), expected)
        by_number = pd.Series({1: 100, 0: 0.01})
        assert_same(sw.decide(PROBS, costs, by_number, class_names=names), expected)
    assert_same(sw.decide(PROBS, TRIAGE, pd.Series([0.01, 100]), class_names=names), expected)
    with pytest.raises(sw.InvalidInput, match=r"abstain_cost: .*row for 'well'.*no such class"):
        sw.decide(PROBS, TRIAGE, series, class_names=["healthy", "ill"])
    with pytest.raises(sw.InvalidInput, match=r"abstain_cost: .*predictions do not.*class_names"):
        sw.decide(PROBS, TRIAGE, series)
    with pytest.raises(sw.InvalidInput, match="the cost matrix names its classes"):
        sw.decide(PROBS, frame, pd.Series([0.01, 100]), class_names=names)


def test_a_ragged_abstain_cost_is_refused():
    with pytest.raises(sw.InvalidInput, match="abstain_cost"):
        sw.decide(PROBS, TRIAGE, [[1], [1, 2]])


def test_an_abstain_cost_beyond_all_floats_is_refused():
    with pytest.raises(sw.InvalidInput, match="abstain_cost has dtype object"):
        sw.decide(PROBS, TRIAGE, 10**400)


@pytest.mark.parametrize(
    ("abstain", "message"),
    [
        (1e31, "abstain_cost.* at most 1e30"),
        ([1, 1e31], r"abstain_cost\[1\].* at most 1e30"),
        ([1, np.nan], r"abstain_cost\[1\] is nan; it must be finite"),
    ],
)
def test_messages_name_what_was_written(abstain, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.decide(PROBS, TRIAGE, abstain)


def test_invalid_predictions_are_refused():
    with pytest.raises(sw.InvalidInput, match=r"probs\[1, 0\] sums to 1.5"):
        sw.decide([[[0.5, 0.5]], [[0.5, 1.0]]], TRIAGE)
    with pytest.raises(sw.InvalidInput, match="is nan"):
        sw.decide([[[0.5, np.nan]]], TRIAGE)
    with pytest.raises(sw.InvalidInput, match="needs at least a member axis"):
        sw.decide([0.5, 0.5], TRIAGE)
    with pytest.raises(sw.InvalidInput, match="weights"):
        sw.decide(PROBS, TRIAGE, weights=[1, 2, 3])
    with pytest.raises(sw.InvalidInput, match=r"weights\[1\] is -1"):
        sw.decide(PROBS, TRIAGE, weights=[1.0, -1.0])
    with pytest.raises(sw.InvalidInput, match="there is no option 'colour'"):
        sw.decide(PROBS, TRIAGE, colour="red")
    with pytest.raises(sw.InvalidInput, match="'abstain_cots'; did you mean 'abstain_cost'"):
        sw.decide(PROBS, TRIAGE, abstain_cots=1)


@pytest.mark.parametrize(
    "options", [{"weights": [1, 2]}, {"from_logits": True}, {"member_axis": 0, "normalize": True}]
)
def test_samples_and_dirichlets_take_no_options(options):
    for q in (sw.Samples(PROBS), sw.Dirichlet([1.0, 2.0])):
        with pytest.raises(sw.InvalidInput, match=f"{', '.join(options)}: .*{type(q).__name__}"):
            sw.decide(q, TRIAGE, **options)
