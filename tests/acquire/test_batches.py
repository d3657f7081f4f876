"""Joint batches: gains as brute force computes them, copies, sampled outcomes."""

from __future__ import annotations

import itertools
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import scorewise as sw
from active_support import assert_drawn_with
from support import all_rules, members

# -- against brute force ---------------------------------------------------------------------------


def joint_outcomes(rows, prior):
    """Chances (S,) and members' weights (S, M) of every joint outcome of the labels of rows."""
    chances, weights = [], []
    for labels in itertools.product(range(rows.shape[-1]), repeat=len(rows)):
        joint = prior.copy()
        for row, label in zip(rows, labels, strict=True):
            joint = joint * row[:, label]
        if joint.sum() > 0:
            chances.append(joint.sum())
            weights.append(joint / joint.sum())
    return np.array(chances), np.array(weights)


def worth_after(pool, chosen, prior, rule):
    """E_y EU(row | y) of every row, from the decomposition under each joint outcome."""
    chances, weights = joint_outcomes(pool[chosen], prior)
    shape = (len(pool), len(chances), *pool.shape[1:])
    each = np.ascontiguousarray(np.broadcast_to(pool[:, None], shape))
    each_weights = np.ascontiguousarray(np.broadcast_to(weights, shape[:-1]))
    return sw.decompose(each, rule, weights=each_weights).epistemic @ chances


def assert_greedy(pool, batch, rule, prior=None, rtol=1e-8, atol=1e-12):
    """Each row is worth what it says, and no other that is no copy was worth more."""
    prior = np.ones(pool.shape[1]) if prior is None else np.asarray(prior, dtype=float)
    prior = prior / prior.sum()
    rows, gains = batch.rows, batch.gains
    assert batch.is_exact
    assert batch.starts[0] == 0
    assert (np.diff(batch.starts) > 0).all()
    assert len(rows) == len(gains) == len(set(rows.tolist()))
    alone = worth_after(pool, [], prior, rule)
    weighted = pool[:, prior > 0]
    since = 0  # rows from here on have copies that must wait

    def others(place):
        free = np.setdiff1d(np.arange(len(pool)), rows[:place])
        copy_of = (weighted[free, None] == weighted[rows[since:place]]).all(axis=(2, 3)).any(axis=1)
        return free[~copy_of]

    for start, end in itertools.pairwise([*batch.starts, len(rows)]):
        for place in range(start, end):
            worth = worth_after(pool, rows[start:place], prior, rule)
            np.testing.assert_allclose(gains[place], worth[rows[place]], rtol=rtol, atol=atol)
            assert rows[place] in others(place)
            assert gains[place] >= worth[others(place)].max() * (1 - rtol) - atol
        if end < len(rows):  # it began anew because next to nothing, or only copies, were left
            left = others(end)
            if len(left):
                worth = worth_after(pool, rows[start:end], prior, rule)
                assert worth[left].max() <= 0.01 * alone[left].max() + atol
            else:
                since = end


def rules_of(k):
    costs = np.random.default_rng(k).uniform(-1, 3, (k, k + 3))
    return all_rules(k) | {"more actions": sw.rules.cost_matrix(costs)}


@pytest.mark.parametrize("name", rules_of(3))
@pytest.mark.parametrize("weighted", [False, True])
def test_every_gain_is_the_expected_uncertainty_after_the_labels(name, weighted):
    rule = rules_of(3)[name]
    prior = np.array([0.1, 0.0, 2.0, 0.7, 1.3]) if weighted else None
    for seed in range(2):
        pool = members(7, 5, 3, seed)
        batch = sw.acquire_batch(pool, 5, rule, seed, weights=prior)
        assert_greedy(pool, batch, rule, prior)
        for start, end in itertools.pairwise([*batch.starts, 5]):
            assert (np.diff(batch.gains[start:end]) <= 1e-12).all()
        alone = sw.decompose(pool, rule, weights=prior).epistemic
        np.testing.assert_allclose(batch.gains[batch.starts[0]], alone.max(), rtol=1e-12)
        assert batch.gains[0] > 0


@pytest.mark.parametrize("name", rules_of(2))
def test_two_classes_under_every_rule(name):
    rule = rules_of(2)[name]
    pool = members(8, 4, 2, 1)
    assert_greedy(pool, sw.acquire_batch(pool, 6, rule, 0), rule)


def mutual_information(rows, prior):
    """Of all labels and the member: H(labels) − E H(labels | member), from the joint table."""

    def entropy(p):
        return -np.sum(p[p > 0] * np.log(p[p > 0]))

    tables = []
    for m in range(rows.shape[1]):
        table = np.ones(())
        for row in rows:
            table = np.multiply.outer(table, row[m])
        tables.append(table)
    mixture = sum(w * table for w, table in zip(prior, tables, strict=True))
    return entropy(mixture) - sum(
        w * entropy(table) for w, table in zip(prior, tables, strict=True)
    )


def batch_bald(pool, n, prior):
    """The greedy choice of Kirsch et al. (2019) and its mutual information, by brute force."""
    chosen, informations = [], []
    for _ in range(n):
        value = {
            i: mutual_information(pool[[*chosen, i]], prior)
            for i in range(len(pool))
            if i not in chosen
        }
        best = max(value, key=value.__getitem__)
        chosen.append(best)
        informations.append(value[best])
    return chosen, informations


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(2, 4), st.booleans())
def test_log_is_batch_bald(seed, m, k, weighted):
    rng = np.random.default_rng(seed)
    pool = rng.dirichlet(np.full(k, 3.0), (6, m))
    weights = rng.uniform(0.1, 3, m) if weighted else None
    prior = np.ones(m) / m if weights is None else weights / weights.sum()
    batch = sw.acquire_batch(pool, 3, "log", seed, weights=weights)
    end = [*batch.starts, 3][1]
    rows, informations = batch_bald(pool, end, prior)
    np.testing.assert_array_equal(batch.rows[:end], rows)
    np.testing.assert_allclose(batch.gains.cumsum()[:end], informations, rtol=1e-9)


def test_batch_bald_to_the_end_of_a_pool():
    pool, prior = members(5, 6, 3, 3, concentration=5.0), np.array([1, 2, 3, 4, 5, 6]) / 21
    batch = sw.acquire_batch(pool, 5, "log", 0, weights=prior)
    assert len(batch.starts) == 1
    rows, informations = batch_bald(pool, 5, prior)
    np.testing.assert_array_equal(batch.rows, rows)
    np.testing.assert_allclose(batch.gains.cumsum(), informations, rtol=1e-10)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["log", "brier", "zero-one", "rps", "top-k:2"]))
def test_small_problems_with_zeros_and_copies_are_greedy(seed, rule):
    """Coarse probabilities: many ties, zeros, certain members, rows that are there twice."""
    rng = np.random.default_rng(seed)
    pool = rng.multinomial(2, [0.4, 0.3, 0.3], (7, 3)) / 2
    weights = rng.integers(0, 3, 3) + np.array([1, 1, 0])
    batch = sw.acquire_batch(pool, 4, rule, seed, weights=weights)
    assert_greedy(pool, batch, rule, weights)


@pytest.mark.parametrize("name", rules_of(3))
def test_copies_are_not_chosen_together_but_have_the_top_scores(name):
    rule = rules_of(3)[name]
    different = members(12, 4, 3, 5)
    order = np.argsort(-sw.decompose(different, rule).epistemic)
    pool = np.concatenate([different, different[order[:1]], different[order[:1]]])
    copies = {int(order[0]), 12, 13}
    scores = sw.decompose(pool, rule).epistemic
    for seed in range(3):
        assert set(sw.acquire(scores, 3, random_state=seed)) == copies
        for n_outcomes in (1000, 5):
            rows = sw.acquire_batch(pool, 12, rule, seed, n_outcomes=n_outcomes).rows
            assert len(copies & set(rows)) == 1
            assert rows[0] in copies


def test_copies_are_taken_once_nothing_else_is_left():
    pool = np.repeat(members(3, 4, 2), [3, 1, 2], axis=0)
    for seed in range(5):
        batch = sw.acquire_batch(pool, 6, "log", seed)
        assert sorted(batch.rows) == [0, 1, 2, 3, 4, 5]
        assert_greedy(pool, batch, "log")
        assert {tuple(pool[i].ravel()) for i in batch.rows[:3]} == {
            tuple(row.ravel()) for row in pool
        }


def test_any_of_the_copies_is_chosen():
    pool = np.repeat(members(2, 4, 2), 4, axis=0)
    firsts = [sw.acquire_batch(pool, 2, "log", seed).rows for seed in range(500)]
    first = np.sort(firsts, axis=1)
    chances = np.zeros((8, 8))
    chances[:4, 4:] = 1 / 16
    assert_drawn_with(chances, first)


def test_members_without_weight_do_not_hide_copies():
    strong = [[0.9, 0.1], [0.2, 0.8]]
    pool = np.array(
        [[*strong, [0.5, 0.5]], [*strong, [0.4, 0.6]], [[0.5, 0.5], [0.55, 0.45], [0.5, 0.5]]]
    )
    rows = sw.acquire_batch(pool, 2, "log", 0, weights=[1, 1, 0]).rows
    without = sw.acquire_batch(pool[:, :2], 2, "log", 0).rows
    assert (2 in without) == (2 in rows)


def test_gains_do_not_rise_when_copies_are_taken_at_the_end():
    a, settled = [[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]
    batch = sw.acquire_batch(np.array([a, a, settled]), 3, "log", 0)
    for start, end in itertools.pairwise([*batch.starts, 3]):
        assert (np.diff(batch.gains[start:end]) <= 1e-12).all()


def test_a_batch_restarts_once_labels_identify_the_members():
    """One-hot members: a label names the member, and nothing is left."""
    pool = np.eye(2)[[[0, 1], [1, 0], [0, 1]]]
    pool[2] = [[0.9, 0.1], [0.1, 0.9]]
    batch = sw.acquire_batch(pool, 3, "log", 0)
    assert set(batch.rows[:2]) == {0, 1}
    np.testing.assert_array_equal(batch.starts, [0, 1, 2])
    alone = sw.decompose(pool, "log").epistemic
    np.testing.assert_allclose(batch.gains, alone[batch.rows])


def test_gains_after_a_start_are_those_of_a_batch_of_the_rest():
    pool = members(30, 3, 3, 2, concentration=0.2)
    batch = sw.acquire_batch(pool, 12, "log", 0, n_outcomes=10**5)
    assert len(batch.starts) > 2
    assert_greedy(pool, batch, "log")
    for start in batch.starts[1:]:
        rest = sw.acquire_batch(
            pool, 12 - start, "log", 1, labelled=batch.rows[:start], n_outcomes=10**5
        )
        np.testing.assert_array_equal(rest.rows, batch.rows[start:])
        np.testing.assert_allclose(rest.gains, batch.gains[start:], rtol=1e-12)
        np.testing.assert_array_equal(rest.starts, batch.starts[batch.starts >= start] - start)


def test_gains_are_compared_with_those_of_their_own_start():
    weak = [[[0.5, 0.5], [0.6 + i, 0.4 - i]] for i in (0.0, 0.001, 0.002)]
    batch = sw.acquire_batch(np.array([np.eye(2), *weak]), 4, "log", 0)
    assert batch.gains[1:].max() < 0.01 * batch.gains[0]
    np.testing.assert_array_equal(batch.starts, [0, 1])


def test_a_batch_restarts_below_a_hundredth_of_the_gains_alone():
    """Two members, and a first row whose label leaves just less or just more of the second."""
    for target, starts in ((0.0095, [0, 1]), (0.0105, [0])):
        low, high = 0.0, 0.5  # by bisection, rows at either side of the bound
        for _ in range(60):
            doubt = (low + high) / 2
            first = [[1 - doubt, doubt], [doubt, 1 - doubt]]
            pool = np.array([first, [[0.7, 0.3], [0.5, 0.5]]])
            left = worth_after(pool, [0], np.array([0.5, 0.5]), "log")[1]
            above = left > target * sw.decompose(pool, "log").epistemic[1]
            low, high = (low, doubt) if above else (doubt, high)
        np.testing.assert_array_equal(sw.acquire_batch(pool, 2, "log", 0).starts, starts)


def test_rows_of_little_gain_cause_no_restart():
    """The label of the first row leaves members at 0.6 and 0.4: neither is ruled out."""
    small = [[[0.5, 0.5], [0.51 + i, 0.49 - i]] for i in (0.0, 0.001, 0.002)]
    pool = np.array([[[0.6, 0.4], [0.4, 0.6]], *small])
    batch = sw.acquire_batch(pool, 4, "log", 0)
    rows, informations = batch_bald(pool, 4, np.array([0.5, 0.5]))
    np.testing.assert_array_equal(batch.rows, rows)
    np.testing.assert_array_equal(batch.starts, [0])
    np.testing.assert_allclose(batch.gains.sum(), informations[-1], rtol=1e-9)


@pytest.mark.parametrize("rule", ["log", "brier"])
def test_near_copies_of_a_chosen_row_cause_no_restart(rule):
    """The weak rows are worth all that they were: the strong one separated only two groups."""
    group, other = np.arange(4) % 2, np.arange(4) // 2
    strong = [np.where(group == 0, 1 - d, d) for d in (1e-6, 2e-6, 3e-6)]
    weak = np.where(other == 0, 0.52, 0.48)
    batch = sw.acquire_batch(sw.binary(np.array([*strong, weak])), 2, rule, 0)
    np.testing.assert_array_equal(batch.starts, [0])
    np.testing.assert_array_equal(batch.rows, [0, 3])


# -- sampled outcomes ------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["log", "brier", "zero-one", "top-k:2"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sampled_gains_are_near_the_exact_ones(rule, weighted):
    """3 ** 5 = 243 joint outcomes come before the last row."""
    pool = members(10, 6, 3, 4, concentration=3.0)
    prior = np.array([5, 1, 0, 2, 1, 3]) / 12 if weighted else np.full(6, 1 / 6)
    assert sw.acquire_batch(pool, 6, rule, 0, weights=prior, n_outcomes=243).is_exact
    for n_outcomes, n_counted in ((242, 5), (80, 4)):
        batch = sw.acquire_batch(pool, 6, rule, 0, n_outcomes=n_outcomes, weights=prior)
        assert not batch.is_exact
        for place in range(6):
            worth = worth_after(pool, batch.rows[:place], prior, rule)
            error = batch.gains[place] / worth[batch.rows[place]] - 1
            assert abs(error) < (1e-9 if place < n_counted else 0.25)
            others = np.setdiff1d(np.arange(10), batch.rows[:place])
            assert worth[batch.rows[place]] > 0.75 * worth[others].max()


def test_more_outcomes_are_nearer():
    pool, prior = members(10, 6, 3, 4, concentration=3.0), np.full(6, 1 / 6)
    spread = []
    for n_outcomes in (2, 26, 230):
        errors = []
        for seed in range(6):
            batch = sw.acquire_batch(pool, 6, "log", seed, n_outcomes=n_outcomes)
            end = [*batch.starts, 6][1]
            worth = worth_after(pool, batch.rows[: end - 1], prior, "log")
            errors.append(batch.gains[end - 1] / worth[batch.rows[end - 1]] - 1)
        spread.append(np.sqrt(np.mean(np.square(errors))))
    assert spread[0] > spread[1] > spread[2]
    assert spread[2] < 0.1


def settling(n_kinds_of_each):
    """Rows in which one kind of member always names class 0, the other half of the time."""
    rng = np.random.default_rng(0)
    pool = np.zeros((6, 2, 12))
    pool[:, 0, 0] = 1
    pool[:, 1, 0] = 0.5
    pool[:, 1, 1:] = rng.dirichlet(np.full(11, 5.0), 6) / 2
    return n_kinds_of_each(pool)


@pytest.mark.parametrize(
    "repeat",
    [
        pytest.param(lambda pool: np.repeat(pool, 100, axis=1), id="in turn"),
        pytest.param(lambda pool: np.tile(pool, (1, 100, 1)), id="alternating"),
    ],
)
def test_the_order_of_members_does_not_matter_to_samples(repeat):
    exact = sw.acquire_batch(settling(lambda pool: pool), 4, "log", 0, n_outcomes=10**5)
    for seed in range(4):
        batch = sw.acquire_batch(settling(repeat), 4, "log", seed, n_outcomes=100)
        assert not batch.is_exact
        np.testing.assert_allclose(batch.gains[:2], exact.gains[:2], rtol=1e-9)
        np.testing.assert_allclose(batch.gains[2], exact.gains[2], rtol=0.25)


@pytest.mark.parametrize("rule", ["log", "zero-one"])
def test_samples_of_a_second_start_know_its_own_labels_alone(rule):
    """All five rows are there twice: the copies are a batch of their own, of which 3 ** 4 = 81."""
    pool = np.repeat(members(5, 6, 3, 4), 2, axis=0)
    prior, errors = np.full(6, 1 / 6), []
    for seed in range(12):
        batch = sw.acquire_batch(pool, 10, rule, seed, n_outcomes=80)
        np.testing.assert_array_equal(batch.starts, [0, 5])
        assert not batch.is_exact
        np.testing.assert_allclose(batch.gains[5:9], batch.gains[:4], rtol=1e-9)
        for start in (0, 5):
            worth = worth_after(pool, batch.rows[start : start + 4], prior, rule)
            errors.append(batch.gains[start + 4] / worth[batch.rows[start + 4]] - 1)
    errors = np.array(errors)
    assert np.abs(errors).max() < 0.5
    assert abs(errors.mean()) < 0.1


@pytest.mark.parametrize("rule", ["log", "zero-one"])
def test_sampled_gains_never_rise_between_starts(rule):
    rises = []
    for seed in range(10):
        pool = members(30, 10, 3, seed)
        batch = sw.acquire_batch(pool, 8, rule, seed, n_outcomes=5)
        for start, end in itertools.pairwise([*batch.starts, 8]):
            rises.extend(np.diff(batch.gains[start:end]))
    assert max(rises) <= 0


def equidistant(certainty, k):
    """A row of k members, each of which prefers a class of its own."""
    return certainty * np.eye(k) + (1 - certainty) / k


@pytest.mark.parametrize(("m", "n_outcomes"), [(4, 1), (4, 3), (40, 3), (40, 25)])
@pytest.mark.parametrize("weighted", [False, True])
def test_sampled_gains_have_no_bias(m, n_outcomes, weighted):
    """On average over seeds they are the exact gain, with more members than outcomes or fewer.

    Under brier the second gain is proportional to 1 − E Σ w², so it tests the expected products of
    the members' weights after the first label.
    """
    pool = np.array([equidistant(0.97, m), equidistant(0.5, m)])
    prior = np.random.default_rng(3).uniform(1, 2, m) if weighted else np.ones(m)
    prior /= prior.sum()
    exact = worth_after(pool, [0], prior, "brier")[1]
    alone = worth_after(pool, [], prior, "brier")[1]
    _, weights = joint_outcomes(pool[:1], prior)
    after = sw.decompose(np.repeat(pool[1:], len(weights), 0), "brier", weights=weights).epistemic
    assert (after < alone).all()  # a gain is never taken to be more than alone, which would bias it
    batches = [
        sw.acquire_batch(pool, 2, "brier", seed, weights=prior, n_outcomes=n_outcomes)
        for seed in range(150)
    ]
    assert all(batch.rows.tolist() == [0, 1] and not batch.is_exact for batch in batches)
    gains = [batch.gains[1] for batch in batches]
    error = np.std(gains) / np.sqrt(len(gains))
    assert abs(np.mean(gains) - exact) < 4 * error + 1e-4 * exact


@pytest.mark.parametrize("n_outcomes", [1000, 4, 1])
@pytest.mark.parametrize(("total", "dtype", "check"), [(1 - 9e-5, "f4", True), (0.9, "f8", False)])
def test_rows_that_do_not_quite_sum_to_1(n_outcomes, total, dtype, check):
    """Labels that say nothing about a row leave it what it is worth alone."""
    a = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.2, 0.8]])
    b = np.array([[0.7, 0.3], [0.4, 0.6], [0.7, 0.3], [0.4, 0.6]])
    pool = (total * np.array([a, b])).astype(dtype)
    alone = sw.decompose(pool, "log", check=check).epistemic
    for seed in range(10):
        batch = sw.acquire_batch(pool, 2, "log", seed, n_outcomes=n_outcomes, check=check)
        np.testing.assert_array_equal(batch.rows, [0, 1])
        if n_outcomes == 1000:
            np.testing.assert_allclose(batch.gains, alone, rtol=1e-5)
        assert (batch.gains <= alone * (1 + 1e-6)).all()


@pytest.mark.parametrize("n_outcomes", [1000, 3])
def test_a_member_that_leaves_a_little_out_has_no_class_beyond_the_last(n_outcomes):
    pool = 0.6 * members(12, 5, 3, 1)
    batch = sw.acquire_batch(pool, 12, "brier", 0, n_outcomes=n_outcomes, check=False)
    assert sorted(batch.rows) == list(range(12))
    assert np.isfinite(batch.gains).all()


def test_one_outcome_is_enough_to_run():
    pool = members(10, 4, 3)
    batch = sw.acquire_batch(pool, 10, "brier", 0, n_outcomes=1)
    assert sorted(batch.rows) == list(range(10))
    assert not batch.is_exact
    assert (batch.gains >= 0).all()


# -- other kinds of input --------------------------------------------------------------------------


def assert_same_batch(first, second, rtol=1e-12):
    np.testing.assert_array_equal(first.rows, second.rows)
    np.testing.assert_array_equal(first.starts, second.starts)
    np.testing.assert_allclose(first.gains, second.gains, rtol=rtol)
    assert first.is_exact == second.is_exact


@pytest.mark.parametrize("n_outcomes", [1000, 10])
def test_logits_axes_and_libraries_give_the_same_batch(n_outcomes):
    logits = np.random.default_rng(0).normal(size=(20, 5, 3))
    pool = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    weights = np.array([1.0, 2.0, 0.0, 3.0, 1.0])
    common = {"rule": "log", "random_state": 3, "n_outcomes": n_outcomes}
    expected = sw.acquire_batch(pool, 6, weights=weights, **common)
    assert_same_batch(expected, sw.acquire_batch(pool, 6, weights=weights, **common))
    for given_pool, options in (
        (logits, {"from_logits": True}),
        (np.moveaxis(pool, 1, 0), {"member_axis": 0}),
        (np.moveaxis(pool, 2, 0), {"class_axis": 0, "member_axis": 2}),
        (7 * pool, {"normalize": True}),
        (torch.tensor(pool, requires_grad=True), {}),
        (pool.tolist(), {}),
    ):
        actual = sw.acquire_batch(given_pool, 6, weights=weights, **options, **common)
        assert_same_batch(expected, actual, rtol=1e-9)
    assert_same_batch(expected, sw.acquire_batch(sw.Samples(pool, weights), 6, **common))
    assert_same_batch(expected, sw.acquire_batch(pool, 6, weights=9 * weights, **common))
    for single in (pool.astype(np.float32), torch.tensor(pool, dtype=torch.float32)):
        assert_same_batch(
            expected, sw.acquire_batch(single, 6, weights=weights, **common), rtol=1e-3
        )


@pytest.mark.parametrize("n_outcomes", [1000, 10])
def test_a_member_without_weight_has_no_influence(n_outcomes):
    pool = members(15, 5, 3, 1)
    with_zero = sw.acquire_batch(pool, 6, "log", 0, weights=[0, 2, 1, 3, 0], n_outcomes=n_outcomes)
    without = sw.acquire_batch(pool[:, 1:4], 6, "log", 0, weights=[2, 1, 3], n_outcomes=n_outcomes)
    assert_same_batch(with_zero, without, rtol=1e-9)


def test_weights_are_as_if_members_were_repeated():
    pool = members(10, 3, 3, 1)
    weighted = sw.acquire_batch(pool, 5, "spherical", 0, weights=[1, 3, 2])
    repeated = sw.acquire_batch(np.repeat(pool, [1, 3, 2], axis=1), 5, "spherical", 0)
    assert_same_batch(weighted, repeated, rtol=1e-9)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, torch.bfloat16], ids=["float16", "float32", "bfloat16"]
)
def test_rows_of_low_precision_are_taken_as_decompose_takes_them(dtype):
    pool = members(10, 4, 3)
    if dtype is np.float32:
        pool = pool.round(5).astype(dtype)  # as read from a file
    else:
        pool = torch.tensor(pool).to(dtype) if dtype is torch.bfloat16 else pool.astype(dtype)
    sw.decompose(pool, "log")
    assert len(sw.acquire_batch(pool, 3, "log", 0).rows) == 3


def test_the_seed_decides():
    pool = np.repeat(members(10, 4, 3), 3, axis=0)
    for n_outcomes in (1000, 8):
        batches = [sw.acquire_batch(pool, 8, "log", 5, n_outcomes=n_outcomes) for _ in range(2)]
        assert_same_batch(*batches, rtol=0)
    assert len({tuple(sw.acquire_batch(pool, 8, "log", seed).rows) for seed in range(5)}) > 1


@pytest.mark.parametrize("rule", ["log", "zero-one"])
@pytest.mark.parametrize(
    "pool",
    [
        pytest.param(np.repeat(members(6, 1, 3), 4, axis=1), id="members alike"),
        pytest.param(np.full((6, 4, 3), 1 / 3), id="rows alike"),
    ],
)
def test_a_batch_without_gains_is_random(pool, rule):
    actual = [sw.acquire_batch(pool, 2, rule, seed) for seed in range(400)]
    assert all((batch.gains == 0).all() for batch in actual)
    assert_drawn_with((1 - np.eye(6)) / 30, np.array([batch.rows for batch in actual]))


@pytest.mark.parametrize("n_outcomes", [1000, 7])
def test_a_batch_may_be_the_whole_pool(n_outcomes):
    pool = members(12, 4, 3)
    labelled = [2, 3, 11]
    batch = sw.acquire_batch(pool, 9, "zero-one", 0, labelled=labelled, n_outcomes=n_outcomes)
    assert sorted([*batch.rows, *labelled]) == list(range(12))
    assert batch.gains.shape == (9,)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([1, 6, 1000]))
def test_labelled_rows_are_never_in_a_batch_and_have_no_influence(seed, n_outcomes):
    rng = np.random.default_rng(seed)
    pool = rng.dirichlet([1, 1, 1], (12, 3))
    mask = rng.random(12) < 0.5
    mask[rng.integers(12)] = False
    n = int(rng.integers(1, (~mask).sum() + 1))
    batch = sw.acquire_batch(pool, n, "brier", seed, labelled=mask, n_outcomes=n_outcomes)
    assert len(set(batch.rows)) == n
    assert not mask[batch.rows].any()
    assert (batch.gains >= 0).all()
    pool[mask] = 1 / 3
    by_index = np.flatnonzero(mask)
    same = sw.acquire_batch(pool, n, "brier", seed, labelled=by_index, n_outcomes=n_outcomes)
    assert_same_batch(batch, same, rtol=0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"predictions": sw.Dirichlet(np.ones((4, 3)))}, "which a Dirichlet does not have"),
        ({"weights": np.ones((4, 3))}, r"the same weights \(M,\) in all rows"),
        ({"predictions": sw.Samples(members(4, 3, 3), np.ones((4, 3)))}, "the same weights"),
        ({"predictions": members(4, 3, 3)[0]}, "members of one row"),
        ({"predictions": members(4, 3, 3)[None]}, "of several labels or pixels, pass those"),
        ({"predictions": members(4, 3, 3) * 2}, "sums to 2, not 1"),
        ({"predictions": members(4, 3, 3) * np.nan}, "is nan"),
        ({"predictions": members(4, 3, 3)[:0]}, "no unlabelled rows"),
        ({"weights": [1, 1]}, "weights have shape"),
        ({"weights": [0, 0, 0]}, "sums to 0"),
        ({"n": 0}, "n must be a whole number from 1 on"),
        ({"n": 5}, "there are only 4"),
        ({"labelled": [0, 1, 2, 3]}, "no unlabelled rows"),
        ({"labelled": [4]}, r"labelled\[0\] is 4; there are 4 rows"),
        ({"labelled": [1, 1]}, "it occurs twice"),
        ({"n_outcomes": 0}, "n_outcomes must be a whole number from 1 on"),
        ({"n_outcomes": 10.0}, "n_outcomes must be a whole number"),
        ({"rule": "nonsense"}, "nonsense"),
        ({"rule": ["log"]}, "is not a scoring rule"),
        ({"rule": sw.rules.cost_matrix(np.eye(2))}, "for 2 classes"),
    ],
)
def test_invalid_arguments_are_refused(changed, message):
    call = {"predictions": members(4, 3, 3), "n": 2, "rule": "log"} | changed
    with pytest.raises(sw.InvalidInput, match=message):
        sw.acquire_batch(**call)


@pytest.mark.parametrize("rule", ["log", "brier", "zero-one", "spherical", "tsallis:1.5", "rps"])
def test_zeros_and_tiny_probabilities(rule):
    pool = members(7, 4, 3, 2)
    pool[:2, ::2, 0] = 0
    pool[2:4, 1:, 1] = 1e-300
    pool[4, :, 2] = 5e-324
    pool[5] = np.eye(3)[[0, 1, 1, 2]]
    pool /= pool.sum(axis=-1, keepdims=True)
    batch = sw.acquire_batch(pool, 5, rule, 0)
    assert_greedy(pool, batch, rule)
    sampled = sw.acquire_batch(pool, 7, rule, 0, n_outcomes=4)
    assert sorted(sampled.rows) == list(range(7))
    assert np.isfinite(sampled.gains).all()


@pytest.mark.parametrize("weights", [[1, 1e-300, 1e-17, 0], [1, 1e-320, 0, 0], [1, 1e-6, 0, 1e-9]])
@pytest.mark.parametrize("n_outcomes", [1, 50, 10**5])
def test_tiny_weights(weights, n_outcomes):
    pool = members(6, 4, 3, 2)
    batch = sw.acquire_batch(pool, 6, "log", 0, weights=weights, n_outcomes=n_outcomes)
    assert sorted(batch.rows) == list(range(6))
    alone = sw.decompose(pool, "log", weights=weights).epistemic
    assert batch.rows[0] == np.argmax(alone)
    assert (batch.gains <= alone[batch.rows] * (1 + 1e-9)).all()


@pytest.mark.parametrize("rule", ["log", "brier", "zero-one"])
def test_members_that_are_nearly_alike(rule):
    """Labels tell them apart by next to nothing: all rows stay worth what they were."""
    pool = 1 / 3 + 1e-5 * (members(8, 4, 3, 2) - 1 / 3)
    batch = sw.acquire_batch(pool, 5, rule, 0)
    alone = sw.decompose(pool, rule).epistemic
    np.testing.assert_array_equal(batch.rows, np.argsort(-alone)[:5])
    np.testing.assert_array_equal(batch.starts, [0])
    np.testing.assert_allclose(batch.gains, alone[batch.rows], rtol=1e-3)


def test_members_that_are_nearly_equal_have_no_gain():
    pool = 1 / 3 + 1e-8 * (members(8, 4, 3, 2) - 1 / 3)
    batch = sw.acquire_batch(pool, 5, "brier", 0)
    alone = sw.decompose(pool, "brier").epistemic
    np.testing.assert_array_equal(batch.rows, np.argsort(-alone)[:5])


@pytest.mark.parametrize("scale", [2.0**40, 2.0**-20, pytest.param(2.0**-50)])
def test_scaling_the_costs_changes_no_choice(scale):
    pool, costs = members(10, 4, 3), np.random.default_rng(1).uniform(0, 3, (3, 4))
    first = sw.acquire_batch(pool, 6, sw.rules.cost_matrix(costs), 0)
    other = sw.acquire_batch(pool, 6, sw.rules.cost_matrix(scale * costs), 0)
    np.testing.assert_array_equal(first.rows, other.rows)
    np.testing.assert_array_equal(first.starts, other.starts)
    np.testing.assert_allclose(first.gains, other.gains / scale, rtol=1e-9)


@pytest.mark.parametrize("rule", ["log", "brier", "zero-one"])
def test_the_precision_of_the_pool_changes_no_choice(rule):
    """Rows that nearly agree are no gain because they were stored in fewer digits."""
    rng = np.random.default_rng(0)
    doubtful = rng.dirichlet(np.full(4, 0.3), (60, 6))
    agreeing = rng.dirichlet(np.ones(4), (120, 1)) * np.exp(1e-4 * rng.normal(size=(120, 6, 4)))
    pool = np.concatenate([doubtful, agreeing / agreeing.sum(axis=-1, keepdims=True)])
    wide = sw.acquire_batch(pool, 12, rule, 0)
    narrow = sw.acquire_batch(pool.astype(np.float32), 12, rule, 0)
    np.testing.assert_array_equal(narrow.starts, wide.starts)
    assert len(wide.starts) > 1
    assert (narrow.rows < 60).all()


@pytest.mark.parametrize(("m", "k"), [(500, 2), (500, 100), (3, 100)])
def test_many_members_and_classes(m, k):
    pool = members(12, m, k, 1)
    exact = sw.acquire_batch(pool, 2, "log", 0)
    assert_greedy(pool, exact, "log")
    batch = sw.acquire_batch(pool, 12, "log", 0, n_outcomes=150)
    assert sorted(batch.rows) == list(range(12))
    np.testing.assert_allclose(batch.gains[:2], exact.gains, rtol=1e-9)
    assert not batch.is_exact


def greedy(pool, n, rule, prior):
    """Rows and gains of a choice that computes every row every time, until it restarts."""
    alone = worth_after(pool, [], prior, rule)
    rows, gains = [int(np.argmax(alone))], [alone.max()]
    while len(rows) < n:
        worth = worth_after(pool, rows, prior, rule)
        worth[rows] = -np.inf
        left = np.delete(alone, rows).max()
        if worth.max() < 0.011 * left:
            break
        rows.append(int(np.argmax(worth)))
        gains.append(worth.max())
    return rows, gains


@pytest.mark.parametrize("rule", ["log", "brier", "zero-one", "costs"])
def test_rows_that_are_not_computed_again_would_not_have_been_chosen(rule, monkeypatch):
    """One row at a time, so that the bounds alone decide which are computed."""
    # the size of blocks has no public name, and pools of several blocks are too slow for a test
    monkeypatch.setattr(import_module("scorewise.acquire._greedy"), "_BLOCK", 1)
    n_places = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        own = sw.rules.cost_matrix(rng.uniform(-4, 1, (2, 4))) if rule == "costs" else rule
        pool = rng.dirichlet([2, 2], (25, 6))
        prior = rng.dirichlet(np.full(6, 3.0))
        batch = sw.acquire_batch(pool, 5, own, seed, weights=prior)
        rows, gains = greedy(pool, 5, own, prior)
        np.testing.assert_allclose(batch.gains[: len(rows)], gains, rtol=1e-8, atol=1e-12)
        clear = np.flatnonzero(np.array(gains) > 1e-9)  # rows that are worth nothing are tied
        np.testing.assert_array_equal(batch.rows[clear], np.array(rows)[clear])
        n_places += len(clear)
    assert n_places > 30


def test_blocks_of_rows_change_nothing(monkeypatch):
    """One row at a time, a few, and all; some rows are left out by their bounds."""
    for seed in range(4):
        pool = np.concatenate([members(20, 4, 3, seed), members(20, 4, 3, seed, 20.0)])
        whole = sw.acquire_batch(pool, 4, "log", 0)
        for size in (1, 100, 1000):
            with monkeypatch.context() as patch:
                patch.setattr(import_module("scorewise.acquire._greedy"), "_BLOCK", size)
                assert_same_batch(sw.acquire_batch(pool, 4, "log", 0), whole)


@pytest.mark.parametrize("rule", ["log", "brier", "spherical", "rps"])
def test_gains_within_rounding_are_zero(rule):
    """Members agree on all rows but one; the label of that one changes nothing for them."""
    agreed = np.repeat(members(6, 1, 3, 7), 5, axis=1)
    pool = np.concatenate([members(1, 5, 3, 8), agreed])
    actual = [sw.acquire_batch(pool, 3, rule, seed) for seed in range(300)]
    for batch in actual:
        assert batch.rows[0] == 0
        np.testing.assert_array_equal(batch.starts, [0])
        assert not batch.gains[1:].any()
    assert_drawn_with((1 - np.eye(6)) / 30, np.array([batch.rows[1:] - 1 for batch in actual]))


def test_a_users_rule_gives_the_batch_of_its_equal():
    rule = sw.rule_from_entropy(lambda p: 1 - (p**2).sum(-1), lambda p: -2 * p, name="own")
    pool = members(7, 4, 3)
    assert_same_batch(
        sw.acquire_batch(pool, 4, rule, 0), sw.acquire_batch(pool, 4, "brier", 0), rtol=1e-9
    )


def test_a_users_rule_gets_arrays_of_the_library_of_the_predictions():
    rule = sw.rule_from_loss_vector(lambda p: -torch.log(p), name="own")
    pool = torch.tensor(members(7, 4, 3))
    sw.decompose(pool, rule)
    assert len(sw.acquire_batch(pool, 4, rule, 0).rows) == 4


def test_progress_true_shows_a_bar(capsys):
    sw.acquire_batch(members(4, 3, 2), 2, "log", 0, progress=True)
    assert "choosing" in capsys.readouterr().err
    sw.acquire_batch(members(4, 3, 2), 2, "log", 0, progress=False)
    assert not capsys.readouterr().err


# -- copies in a real pool -------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["log", "zero-one"])
def test_a_copy_is_not_chosen_with_its_row_though_models_round_them_differently(rule):
    pool, y = load_digits(return_X_y=True)
    model = sw.BootstrapEnsemble(LogisticRegression(max_iter=50), 10, random_state=0)
    model.fit(pool[:60], y[:60])
    differed = 0
    for n in range(301, 321):
        first = int(np.argmax(sw.decompose(model.predict_samples(pool[60:n]), rule).epistemic))
        copied = np.vstack([pool[60:n], pool[60 + first]])
        probs = model.predict_samples(copied).probs
        differed += (probs[first] != probs[-1]).any()
        top = sw.acquire(sw.decompose(probs, rule).epistemic, 5, random_state=0)
        batch = sw.acquire_batch(probs, 5, rule, 0).rows
        pair = {first, len(copied) - 1}
        assert len(pair & set(batch.tolist())) == 1
        assert pair <= set(top.tolist())
    assert differed  # so that it says something


def test_one_member_gains_nothing_and_is_refused():
    with pytest.raises(sw.InvalidInput, match="one member, so the gain of every row is 0; pass"):
        sw.acquire_batch(members(5, 1, 3), 2)
    with pytest.raises(sw.InvalidInput, match="one member with a positive weight, so the gain"):
        sw.acquire_batch(members(5, 3, 3), 2, weights=[0, 1, 0])
