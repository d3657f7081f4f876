"""Labels for a target: gains as brute force computes them, EPIG, batches, what is refused."""

from __future__ import annotations

import itertools
import tracemalloc
from importlib import import_module

import jax
import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import scorewise as sw
from active_support import assert_drawn_with
from scorewise.acquire import target_gains
from support import all_rules, members, own_brier

# on the labels of earlier rows, however few members they leave
CONDITIONED = {"method": "joint", "least_members": 1, "n_outcomes": 100}
WEIGHTS = np.array([0.1, 0.0, 2.0, 0.7, 1.3])


def normalized(weights, m):
    weights = np.ones(m) if weights is None else np.asarray(weights, dtype=float)
    return weights / weights.sum()


# -- against brute force ---------------------------------------------------------------------------


def expected_total(rows, target, rule, prior):
    """The target's mean total uncertainty, expected over all joint labels of the rows."""
    expected = 0.0
    for labels in itertools.product(range(target.shape[-1]), repeat=len(rows)):
        joint = prior.copy()
        for row, label in zip(rows, labels, strict=True):
            joint = joint * row[:, label]
        if joint.sum() > 0:
            mean = np.einsum("m,tmk->tk", joint / joint.sum(), target)
            expected += joint.sum() * rule.entropy(mean).mean()
    return expected


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("name", all_rules(3))
def test_a_gain_is_the_expected_reduction_of_the_total_uncertainty(name, weights):
    rule, prior = all_rules(3)[name], normalized(weights, 5)
    pool, target = members(6, 5, 3, 1), members(4, 5, 3, 2)
    before = expected_total([], target, rule, prior)
    expected = [before - expected_total([row], target, rule, prior) for row in pool]
    gains = target_gains(pool, target, rule, weights=weights)
    np.testing.assert_allclose(gains, expected, rtol=1e-9, atol=1e-14)
    batch = sw.acquire_for(pool, target, rule, 1, 0, method="joint", weights=weights)
    assert gains[batch.indices[0]] == gains.max()
    assert batch.gains[0] == pytest.approx(gains.max(), rel=1e-12)


@pytest.mark.parametrize("name", all_rules(2))
def test_two_classes_under_every_rule(name):
    rule, prior = all_rules(2)[name], normalized(None, 4)
    pool, target = members(5, 4, 2, 1), members(3, 4, 2, 2)
    before = expected_total([], target, rule, prior)
    expected = [before - expected_total([row], target, rule, prior) for row in pool]
    np.testing.assert_allclose(target_gains(pool, target, rule), expected, rtol=1e-8, atol=1e-14)


def epig(pool, target, prior):
    """Bickford Smith et al. (2023): the mutual information of the labels of x and x*, averaged.

    From the joint table p(y, y*) = Σ_m w_m θ_m,y(x) θ_m,y*(x*), by its definition.
    """
    gains = np.zeros(len(pool))
    for i, row in enumerate(pool):
        for other in target:
            joint = sum(w * np.outer(a, b) for w, a, b in zip(prior, row, other, strict=True))
            product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
            occurs = joint > 0
            gains[i] += np.sum(joint[occurs] * np.log(joint[occurs] / product[occurs]))
    return gains / len(target)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(2, 4), st.booleans())
def test_log_is_epig(seed, m, k, weighted):
    rng = np.random.default_rng(seed)
    pool, target = rng.dirichlet(np.ones(k), (5, m)), rng.dirichlet(np.ones(k), (3, m))
    weights = rng.uniform(0.1, 3, m) if weighted else None
    gains = target_gains(pool, target, "log", weights=weights)
    np.testing.assert_allclose(gains, epig(pool, target, normalized(weights, m)), rtol=1e-10)


def exact_gain(rule, row, target, prior):
    """Σ_y θ̄_y(x) D(θ̄(x*), θ̄(x* | x, y)), averaged over the target, in 50 digits."""
    divergence = reference.divergence(rule)
    weights = reference.row(prior)
    total = mp.mpf(0)
    for other in target:
        thetas = [reference.row(theta) for theta in other]
        mean = [mp.fsum(w * t[k] for w, t in zip(weights, thetas, strict=True)) for k in range(3)]
        for y in range(3):
            joint = [w * mp.mpf(float(p)) for w, p in zip(weights, row[:, y], strict=True)]
            chance = mp.fsum(joint)
            after = [
                mp.fsum(j * t[k] for j, t in zip(joint, thetas, strict=True)) / chance
                for k in range(3)
            ]
            total += chance * divergence(mean, after)
    return total / len(target)


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-3], ids=str)
@pytest.mark.parametrize("name", ["log", "brier", "spherical", "rps", "tsallis:1.5"])
def test_small_gains_keep_their_digits(name, spread):
    """Members that nearly agree: gains down to 1e-13, far below the rounding of an entropy."""
    rule = all_rules(3)[name]
    prior = np.full(4, 0.25)

    def near(n, seed):
        return members(n, 1, 3, seed) * (1 - spread) + spread * members(n, 4, 3, seed + 10)

    pool, target = near(3, 0), near(2, 1)
    gains = target_gains(pool, target, rule)
    for gain, row in zip(gains, pool, strict=True):
        exact = float(exact_gain(rule, row, target, prior))
        # a prediction is rounded by 1e-16, and a gain is like the square of a difference of them
        assert abs(gain - exact) <= 1e-12 * exact + 4e-16 * np.sqrt(exact)


# -- laws ------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([*all_rules(3)]))
def test_gains_are_never_negative_also_with_zeros_and_certain_members(seed, name):
    rng = np.random.default_rng(seed)
    pool = rng.multinomial(2, [0.4, 0.3, 0.3], (6, 3)) / 2
    target = rng.multinomial(2, [0.4, 0.3, 0.3], (4, 3)) / 2
    weights = rng.integers(0, 3, 3) + np.array([1, 1, 0])
    rule, prior = all_rules(3)[name], normalized(weights, 3)
    gains = target_gains(pool, target, rule, weights=weights)
    assert (gains >= 0).all()
    before = expected_total([], target, rule, prior)
    expected = [before - expected_total([row], target, rule, prior) for row in pool]
    np.testing.assert_allclose(gains, expected, atol=1e-12)


@pytest.mark.parametrize("name", all_rules(3))
def test_a_gain_is_exactly_zero_where_members_agree_about_the_row_or_the_target(name):
    rule = all_rules(3, seed=1)[name]
    different, alike = members(8, 5, 3), np.repeat(members(8, 1, 3, 1), 5, axis=1)
    for weights in (None, WEIGHTS):
        assert not target_gains(alike, different, rule, weights=weights).any()
        assert not target_gains(different, alike, rule, weights=weights).any()
        mixed = target_gains(np.concatenate([alike, different]), different, rule, weights=weights)
        assert not mixed[:8].any()
        assert mixed[8:].any()


def test_zero_one_gains_are_exactly_zero_where_no_label_changes_the_prediction():
    pool = members(20, 6, 3)
    settled = 0.8 * np.eye(3)[[0, 1]][:, None] + 0.2 * members(2, 6, 3, 1)
    assert not target_gains(pool, settled, "zero-one").any()
    assert target_gains(pool, settled, "log").all()


@pytest.mark.parametrize("rule", ["log", "brier", "zero-one", "spherical"])
def test_the_order_of_members_rows_and_classes_has_no_influence(rule):
    rng = np.random.default_rng(0)
    pool, target, weights = members(7, 5, 3, 1), members(6, 5, 3, 2), WEIGHTS
    gains = target_gains(pool, target, rule, weights=weights)
    order = rng.permutation(5)
    same = target_gains(pool[:, order], target[:, order], rule, weights=weights[order])
    np.testing.assert_allclose(same, gains, rtol=1e-10, atol=1e-16)
    same = target_gains(pool[::-1], target[::-1], rule, weights=weights)[::-1]
    np.testing.assert_allclose(same, gains, rtol=1e-10, atol=1e-16)
    # labels are names: those of the pool and those of the target may be permuted separately
    same = target_gains(pool[..., [2, 0, 1]], target[..., ::-1], rule, weights=weights)
    np.testing.assert_allclose(same, gains, rtol=1e-10, atol=1e-16)
    assert not np.allclose(target_gains(pool[:, order], target, rule), gains)


def test_copies_of_members_or_of_target_rows_have_no_influence():
    pool, target = members(7, 3, 3, 1), members(6, 3, 3, 2)
    gains = target_gains(pool, target, "log", weights=[1, 3, 2])
    repeated = (np.repeat(x, [1, 3, 2], axis=1) for x in (pool, target))
    np.testing.assert_allclose(target_gains(*repeated, "log"), gains, rtol=1e-10)
    twice = np.repeat(target, 2, axis=0)
    np.testing.assert_allclose(target_gains(pool, twice, "log", weights=[1, 3, 2]), gains, 1e-10)


@pytest.mark.parametrize("name", all_rules(3))
def test_a_row_as_its_own_target_gives_a_lower_bound_of_its_epistemic_uncertainty(name):
    rule = all_rules(3)[name]
    rows = members(6, 3, 3)
    gains = np.array([target_gains(row[None], row[None], rule)[0] for row in rows])
    epistemic = sw.decompose(rows, rule).epistemic
    assert (gains <= epistemic * (1 + 1e-12)).all()
    assert (gains < 0.9 * epistemic).any()
    # a label that identifies the member leaves no epistemic uncertainty
    certain = np.eye(3)[[[0, 1, 2]]]
    uncertainty = sw.decompose(rows, rule).epistemic.mean()
    np.testing.assert_allclose(target_gains(certain, rows, rule), uncertainty, rtol=1e-12)


# -- adjusted for chance ---------------------------------------------------------------------------


def test_adjusted_brier_gains_subtract_the_mean_over_all_orders_of_the_targets_members():
    """That mean has a closed form: disagreement about the row times that about the target."""
    pool, target = members(6, 4, 3, 1), members(2, 4, 3, 2)
    disagreement = (pool.var(axis=1) / pool.mean(axis=1)).sum(axis=-1)
    chance = disagreement * sw.decompose(target, "brier").epistemic.mean() / (4 - 1)
    orders = [list(order) for order in itertools.permutations(range(4))]
    shuffled = np.mean([target_gains(pool, target[:, o], "brier") for o in orders], axis=0)
    np.testing.assert_allclose(shuffled, chance, rtol=1e-10)
    gains = target_gains(pool, target, "brier")
    adjusted = [
        target_gains(pool, target, "brier", adjusted=True, random_state=seed) for seed in range(100)
    ]
    np.testing.assert_allclose(np.mean(adjusted, axis=0), gains - chance, atol=0.01 * chance.max())


@pytest.mark.parametrize("rule", ["log", "brier", "zero-one", "spherical"])
@pytest.mark.parametrize("weights", [None, [1, 3, 2, 2, 1]], ids=["equal", "weighted"])
def test_adjusted_gains_of_independent_members_are_zero_on_average(rule, weights):
    options = {"weights": weights, "adjusted": True}
    pool, target = members(50, 5, 3, 1), members(300, 5, 3, 2)
    plain = target_gains(pool, target, rule, weights=weights)
    means = [
        target_gains(pool, members(300, 5, 3, seed), rule, random_state=seed, **options).mean()
        for seed in range(2, 32)
    ]
    assert plain.mean() > 0.005
    assert abs(np.mean(means)) < 0.03 * plain.mean()


def test_adjusted_gains_approach_the_gains_as_members_become_many():
    """What is due to chance falls as 1/(M − 1)."""

    def chance(m):
        """The pool's first row has all to do with the target, the second nothing."""
        x = np.random.default_rng(0).uniform(0.2, 0.8, (2, m))
        pool, target = sw.binary(x), sw.binary(x[:1])
        gains = target_gains(pool, target, "brier")
        adjusted = target_gains(pool, target, "brier", adjusted=True, random_state=0)
        return gains - adjusted, gains

    (few, _), (many, gains) = chance(21), chance(2001)
    np.testing.assert_allclose(many / few, 1 / 100, rtol=0.6)
    assert many[0] < 0.001 * gains[0]


def test_adjusted_gains_are_exactly_zero_where_members_agree():
    different, alike = members(8, 5, 3), np.repeat(members(8, 1, 3, 1), 5, axis=1)
    for weights in (None, WEIGHTS):
        options = {"weights": weights, "adjusted": True, "random_state": 0}
        assert not target_gains(alike, different, "log", **options).any()
        assert not target_gains(different, alike, "log", **options).any()


def test_few_rows_of_a_target_are_shuffled_several_times():
    """One order of six members would leave most of the chance in it, or take too much away."""
    pool, target = members(20, 6, 3, 1), members(1, 6, 3, 2)
    adjusted = [
        target_gains(pool, target, "brier", adjusted=True, random_state=seed) for seed in range(2)
    ]
    gains = target_gains(pool, target, "brier")
    assert np.abs(np.diff(adjusted, axis=0)).mean() < 0.2 * (gains - adjusted[0]).mean()


def test_the_seed_of_the_shuffles_decides_adjusted_gains_and_no_others():
    pool, target = members(5, 4, 3, 1), members(6, 4, 3, 2)
    calls = [
        [target_gains(pool, target, "log", adjusted=adjusted, random_state=seed).tolist()]
        for adjusted in (False, True)
        for seed in (0, 0, 1)
    ]
    assert calls[0] == calls[1] == calls[2]
    assert calls[3] == calls[4] != calls[5]


def test_rows_are_drawn_by_the_adjusted_gains_and_the_batch_has_both():
    pool, target = members(30, 8, 3, 1), members(12, 8, 3, 2)
    gains = target_gains(pool, target, "log")
    labelled = [3, 4]
    for method in ("power", "softmax", "softrank", "top"):
        adjusted = target_gains(pool, target, "log", adjusted=True, random_state=5)
        scores = np.maximum(adjusted, 0)
        rows = sw.acquire(scores, 9, method, 5, labelled=labelled, coldness=2)
        options = {"labelled": labelled, "coldness": 2}
        batch = sw.acquire_for(pool, target, "log", 9, 5, method=method, **options)
        np.testing.assert_array_equal(batch.indices, rows)
        np.testing.assert_allclose(batch.gains, gains[rows], rtol=1e-12)
        np.testing.assert_allclose(batch.scores, scores[rows], rtol=1e-9, atol=1e-15)
        np.testing.assert_array_equal(batch.starts, range(9))
        assert batch.is_exact
        if method == "power":
            by_default = sw.acquire_for(pool, target, "log", 9, 5, **options)
            np.testing.assert_array_equal(by_default.indices, rows)


def test_most_drawn_rows_have_to_do_with_the_target_where_most_of_the_pool_has_not():
    """One row of ten predicts what members predict for the target; the others are independent."""
    rng = np.random.default_rng(0)
    common = rng.uniform(0.1, 0.9, (1, 20))
    x = rng.uniform(0.1, 0.9, (400, 20))
    x[::10] = np.clip(common + 0.3 * rng.normal(size=(40, 20)), 0.05, 0.95)
    pool, target = sw.binary(x), sw.binary(np.repeat(common, 5, axis=0))

    def share(batches):
        return np.mean(np.concatenate(batches) % 10 == 0)

    drawn = [sw.acquire_for(pool, target, "log", 10, seed).indices for seed in range(20)]
    gains = target_gains(pool, target, "log")
    unadjusted = [sw.acquire(gains, 10, "power", seed) for seed in range(20)]
    assert share(drawn) > 0.77
    assert share(unadjusted) < 0.72


# -- batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("rule", ["log", "brier", "zero-one", "top-k:2"])
def test_the_gains_of_a_batch_add_up_to_what_all_its_labels_lower(rule, weights):
    prior, scoring_rule = normalized(weights, 5), sw.get_rule(rule)
    pool, target = members(8, 5, 3, 1, 3.0), members(4, 5, 3, 2)
    batch = sw.acquire_for(pool, target, rule, 4, 0, weights=weights, **CONDITIONED)
    assert batch.is_exact
    np.testing.assert_array_equal(batch.scores, batch.gains)
    assert len(set(batch.indices.tolist())) == 4
    [*_, end] = [*batch.starts[1:2], 4]
    totals = [
        expected_total(pool[batch.indices[:i]], target, scoring_rule, prior) for i in range(end + 1)
    ]
    np.testing.assert_allclose(batch.gains[:end], -np.diff(totals), rtol=1e-8, atol=1e-13)
    assert end > 1


def test_rows_about_which_members_agree_have_exactly_no_gain_after_labels_either():
    """All labels of such a row lead to one prediction, however a matrix product rounds it."""
    for m in (5, 7, 33):
        alike = np.repeat(members(7, 1, 3), m, axis=1)
        pool = np.concatenate([members(1, m, 3, 1), alike])
        batch = sw.acquire_for(pool, members(9, m, 3, 2), "log", 6, 0, **CONDITIONED)
        assert batch.indices[0] == 0
        assert batch.gains[0] > 0
        assert not batch.gains[1:].any()


def test_labels_of_other_rows_may_raise_a_gain():
    """Each label alone says nothing of the target, whose class is whether the two are equal."""
    first, second = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    pool, target = (
        sw.binary(np.abs(0.02 - x)) for x in (np.array([first, second]), first != second)
    )
    alone = target_gains(pool, target[None], "log")
    np.testing.assert_allclose(alone, 0, atol=1e-15)
    batch = sw.acquire_for(pool, target[None], "log", 2, 0, **CONDITIONED)
    assert batch.gains[1] > 0.4


def test_the_second_row_tells_what_the_first_has_not():
    """Two kinds of rows of the pool and of the target; the better kind is there many times."""
    left, right = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    better = sw.binary(np.abs(left - np.linspace(0.1, 0.101, 5)[:, None]))
    pool = np.concatenate([better, sw.binary(np.abs(right - 0.15))[None]])
    target = sw.binary(np.abs(np.array([left, right]) - 0.1))
    assert set(np.argsort(-target_gains(pool, target, "log"))[:2]) < {0, 1, 2, 3, 4}
    assert 5 in sw.acquire_for(pool, target, "log", 2, 0, **CONDITIONED).indices


def test_sampled_gains_are_near_the_exact_ones():
    pool, target = members(10, 6, 3, 4, 3.0), members(5, 6, 3, 5)
    exact = sw.acquire_for(pool, target, "log", 4, 0, **CONDITIONED)
    sampled = sw.acquire_for(pool, target, "log", 4, 0, **CONDITIONED | {"n_outcomes": 26})
    assert exact.is_exact
    assert not sampled.is_exact
    np.testing.assert_allclose(sampled.gains[:3], exact.gains[:3], rtol=1e-9)
    assert sampled.gains[3] == pytest.approx(exact.gains[3], rel=0.5)


def test_later_rows_are_chosen_among_the_candidates():
    pool, target = members(30, 6, 3, 4, 3.0), members(5, 6, 3, 5)
    best = np.argsort(-target_gains(pool, target, "log"))
    for n_candidates in (2, 4):
        batch = sw.acquire_for(
            pool, target, "log", n_candidates, 0, method="joint", n_candidates=n_candidates
        )
        assert set(batch.indices) == set(best[:n_candidates])
    batch = sw.acquire_for(pool, target, "log", 3, 0, method="joint", n_candidates=1)
    np.testing.assert_array_equal(batch.indices, best[:3])
    np.testing.assert_array_equal(batch.starts, [0, 1, 2])  # each as if it were the first


def test_a_batch_restarts_where_labels_leave_few_members():
    """A label of the first row leaves one half of the members, effectively 10 of 20."""
    half, other = np.arange(20) % 2, np.arange(20) // 10
    pool = sw.binary(np.abs(np.array([half, other]) - [[1e-9], [0.1]]))
    target = sw.binary(np.abs(np.array([half, other]) - 0.1))
    for least_members, starts in ((10, [0]), (11, [0, 1])):
        batch = sw.acquire_for(
            pool, target, "log", 2, 0, method="joint", least_members=least_members
        )
        np.testing.assert_array_equal(batch.indices, [0, 1])
        np.testing.assert_array_equal(batch.starts, starts)


def test_joint_batches_of_few_members_are_the_largest_gains_less_copies():
    pool, target = members(20, 6, 3, 1), members(5, 6, 3, 2)
    best = np.argsort(-target_gains(pool, target, "log"))
    batch = sw.acquire_for(np.repeat(pool, 2, axis=0), target, "log", 4, 0, method="joint")
    np.testing.assert_array_equal(batch.indices // 2, best[:4])


def test_a_batch_may_be_the_whole_pool_and_has_no_labelled_rows():
    pool, target = members(12, 4, 3), members(3, 4, 3, 1)
    conditioned = [CONDITIONED | changed for changed in ({"n_outcomes": 5}, {"n_candidates": 2})]
    for options in ({}, {"method": "top"}, {"method": "joint"}, CONDITIONED, *conditioned):
        batch = sw.acquire_for(pool, target, "zero-one", 9, 0, labelled=[2, 3, 11], **options)
        assert sorted([*batch.indices, 2, 3, 11]) == list(range(12))
        assert (batch.gains >= 0).all()


def test_ties_are_broken_at_random():
    pool = np.repeat(members(4, 1, 3), 4, axis=1)
    for method in ("power", "top", "joint"):
        actual = [
            sw.acquire_for(pool, members(2, 4, 3), "zero-one", 2, seed, method=method)
            for seed in range(120)
        ]
        assert not any(batch.gains.any() for batch in actual)
        assert_drawn_with((1 - np.eye(4)) / 12, np.array([batch.indices for batch in actual]))


# -- sizes -----------------------------------------------------------------------------------------


def assert_same_batch(first, second, rtol=1e-10):
    np.testing.assert_array_equal(first.indices, second.indices)
    np.testing.assert_array_equal(first.starts, second.starts)
    np.testing.assert_allclose(first.gains, second.gains, rtol=rtol)
    assert first.is_exact == second.is_exact


@pytest.mark.parametrize("rule", ["log", "zero-one"])
def test_blocks_and_threads_change_nothing(rule, monkeypatch):
    pool, target = members(40, 4, 3, 1), members(11, 4, 3, 2)
    expected = sw.acquire_for(pool, target, rule, 3, 0, **CONDITIONED)
    for block, n_threads in ((1, 1), (30, 2), (200, 3)):
        with monkeypatch.context() as patch:
            # a block has no public size, and pools of several blocks are too slow for a test
            patch.setattr(import_module("scorewise.acquire._targets"), "_BLOCK", block)
            sw.set_num_threads(n_threads)
            try:
                batch = sw.acquire_for(pool, target, rule, 3, 0, **CONDITIONED)
                assert_same_batch(batch, expected)
            finally:
                sw.set_num_threads(None)


def test_memory_does_not_grow_with_the_product_of_pool_and_target():
    """All conditional predictions would be 1.6 GB."""
    pool = members(1000, 4, 20).astype(np.float32)
    target = members(500, 4, 20, 1).astype(np.float32)
    sw.set_num_threads(2)
    try:
        target_gains(pool[:1], target[:1], "brier")  # imports
        tracemalloc.start()
        target_gains(pool, target, "brier")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        sw.set_num_threads(None)
    assert peak < 40e6


@pytest.mark.parametrize(("m", "k"), [(300, 2), (3, 60), (2, 900)])
def test_many_members_and_classes(m, k):
    pool, target = members(3, m, k, 1), members(2, m, k, 2)
    gains = target_gains(pool, target, "log")
    np.testing.assert_allclose(gains, epig(pool, target, np.full(m, 1 / m)), rtol=1e-8)


# -- other kinds of input --------------------------------------------------------------------------


def test_logits_axes_and_libraries_give_the_same_batch():
    logits = np.random.default_rng(0).normal(size=(20, 5, 3))
    probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    expected = sw.acquire_for(probs[:12], probs[12:], "log", 4, 3, weights=WEIGHTS)
    for x, options in (
        (logits, {"from_logits": True}),
        (7 * probs, {"normalize": True}),
        (torch.tensor(probs, requires_grad=True), {}),
        ([sw.Samples(probs[:12], WEIGHTS), sw.Samples(probs[12:], 3 * WEIGHTS)], None),
    ):
        pair = x if options is None else (x[:12], x[12:])
        options = {} if options is None else {"weights": WEIGHTS, **options}
        assert_same_batch(sw.acquire_for(*pair, "log", 4, 3, **options), expected)
    members_first = [np.moveaxis(x, 1, 0) for x in (probs[:12], probs[12:])]
    batch = sw.acquire_for(*members_first, "log", 4, 3, weights=WEIGHTS, member_axis=0)
    assert_same_batch(batch, expected)
    narrow = probs.astype(np.float32)
    batch = sw.acquire_for(narrow[:12], probs[12:], "log", 4, 3, weights=WEIGHTS)
    assert_same_batch(batch, expected, rtol=1e-4)


def test_arrays_of_jax():
    pool, target = (members(4, 3, 3, seed).astype(np.float32) for seed in (0, 1))
    gains = target_gains(jax.numpy.asarray(pool), jax.numpy.asarray(target), "brier")
    assert isinstance(gains, np.ndarray)
    np.testing.assert_allclose(gains, target_gains(pool, target, "brier"), rtol=1e-12)


def test_a_users_rule_gets_arrays_of_the_library_of_the_predictions():
    pool, target = members(4, 3, 3), members(4, 3, 3, 1)
    gains = target_gains(torch.tensor(pool), torch.tensor(target), own_brier("torch"))
    assert isinstance(gains, np.ndarray)
    np.testing.assert_allclose(gains, target_gains(pool, target, "brier"), rtol=1e-6, atol=1e-14)


def test_weights_may_differ_by_rounding():
    pool, target = members(5, 3, 3), members(4, 3, 3, 1)
    exact = target_gains(pool, target, "log", weights=[1, 2, 0])
    rounded = sw.Samples(target, [1 + 1e-8, 2, 1e-8])
    gains = target_gains(sw.Samples(pool, [1, 2, 0]), rounded, "log")
    np.testing.assert_array_equal(gains, exact)


def test_costs_are_put_in_the_order_of_the_classes():
    pool, target = members(5, 4, 2), members(3, 4, 2, 1)
    by_name = sw.rules.cost_matrix([[0, 1], [20, 0]], class_names=["well", "ill"])
    in_order = sw.rules.cost_matrix([[20, 0], [0, 1]])
    named = sw.Samples(pool, class_names=["ill", "well"])
    np.testing.assert_array_equal(
        target_gains(named, target, by_name), target_gains(pool, target, in_order)
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"target": members(3, 4, 3)}, "the pool has 3 members, and the target 4; both must be"),
        ({"target": members(3, 3, 2)}, "the pool has 3 classes, and the target 2"),
        ({"target": members(0, 3, 3)}, "the target is empty"),
        ({"target": members(3, 3, 3)[0]}, "target have two axes"),
        ({"target": sw.Dirichlet(np.ones((4, 3)))}, "which a Dirichlet does not have"),
        ({"target": sw.Samples(members(3, 3, 3), [1, 2, 1])}, "member 1 has the weight 0.333333"),
        ({"pool": members(4, 1, 3), "target": members(2, 1, 3)}, "one member, so the gain"),
        ({"weights": [0, 1, 0]}, "one member with a positive weight, so the gain"),
        ({"pool": members(0, 3, 3)}, "no unlabelled rows"),
        ({"weights": np.ones((4, 3))}, "weights"),
        ({"n": 5}, "there are only 4"),
        ({"method": "largest"}, "method must be one of 'top', 'power'"),
        ({"coldness": 0}, "coldness must be above 0"),
        ({"n_outcomes": 0}, "n_outcomes must be a whole number from 1 on"),
        ({"n_candidates": 0}, "n_candidates must be a whole number from 1 on"),
        ({"least_members": 0}, "least_members must be a whole number from 1 on"),
        ({"rule": "nonsense"}, "nonsense"),
        ({"member_axes": 0}, "member_axis"),
    ],
)
def test_invalid_arguments_are_refused(changed, message):
    pool = members(4, 3, 3)
    call = {"pool": pool, "target": members(2, 3, 3), "rule": "log", "n": 2} | changed
    with pytest.raises(sw.InvalidInput, match=message):
        sw.acquire_for(**call)


@pytest.mark.parametrize("name", ["pool", "target"])
def test_an_error_says_which_predictions_have_the_wrong_number(name: str):
    arrays = {"pool": members(5, 4, 3, 1), "target": members(6, 4, 3, 2)}
    arrays[name][2, 1, 0] = np.nan
    with pytest.raises(
        sw.InvalidInput, match=rf"^the {name} is invalid: probs\[2, 1, 0\]"
    ) as error:
        sw.acquire_for(arrays["pool"], arrays["target"], "log", 2)
    assert error.value.index == (2, 1, 0)


def test_classes_in_another_order_are_refused():
    pool = sw.Samples(members(4, 3, 2), class_names=["cat", "dog"])
    target = sw.Samples(members(4, 3, 2), class_names=["dog", "cat"])
    with pytest.raises(sw.InvalidInput, match="'dog' in the target; the classes must be the same"):
        sw.acquire_for(pool, target, "log", 1)


def test_progress_true_shows_a_bar(capsys):
    pool, target = members(4, 3, 2), members(2, 3, 2)
    sw.acquire_for(pool, target, "log", 2, 0, method="joint", progress=True)
    shown = capsys.readouterr().err
    assert "scoring" in shown
    assert "choosing" in shown
    sw.acquire_for(pool, target, "log", 2, 0, progress=False)
    assert not capsys.readouterr().err
