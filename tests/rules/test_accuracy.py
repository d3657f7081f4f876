"""Numbers that can be trusted: every path against 50-digit arithmetic."""

from __future__ import annotations

import math
from functools import cache

import mpmath as mp
import numpy as np
import pytest

import reference
import scorewise as sw
from scorewise.decompose import Decomposition
from support import PATHS, PRECISION, all_rules, assert_accurate, by_array, softmax

K = 5


def cases(k: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    center = rng.normal(size=(12, 1, k)) * 2
    confident = center + 12 * np.eye(k)[rng.integers(k, size=(12, 1))]
    one_hot = np.eye(k)[rng.integers(k, size=(12, 6))]
    return {
        "random": rng.dirichlet(np.ones(k), (12, 6)),
        "sparse": rng.dirichlet(np.full(k, 0.05), (12, 6)),
        "near-identical": softmax(center + 1e-4 * rng.normal(size=(12, 6, k))),
        "nearly equal": softmax(center + 0.05 * rng.normal(size=(12, 6, k))),
        "confident": softmax(confident + 0.05 * rng.normal(size=(12, 6, k))),
        "one-hot": one_hot,
        "one-hot against soft": np.concatenate(
            [one_hot[:, :3], rng.dirichlet(np.ones(k), (12, 3))], 1
        ),
    }


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("case", cases(K))
def test_decomposition_is_accurate(case: str, dtype: str, path: str):
    probs = cases(K)[case].astype(dtype)
    for name, rule in all_rules(K).items():
        d = PATHS[path](probs, rule)
        for i in range(0, len(probs), 3):
            expected = reference.decompose(rule, probs[i])
            assert_accurate(d, i, expected, dtype, f"{case} {name} row {i}")


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("distance", [1e-3, 0.05, 0.1, 0.2, 0.3, 0.4])
def test_divergences_are_accurate_at_every_distance(distance: float, dtype: str):
    # at which of them a series is used depends on the largest distance in the array
    rng = np.random.default_rng(3)
    center = 2 * rng.normal(size=(4, K))
    p, q = softmax(center + distance * rng.uniform(-1, 1, (2, 4, K))).astype(dtype)
    compared = 0
    for rule in [*all_rules(K).values(), *extreme_rules(K)]:
        for row, got in enumerate(rule.divergence(q, p)):
            exact = reference.divergence(rule)(reference.row(q[row]), reference.row(p[row]))
            if exact > 1e-9:
                error = abs(mp.mpf(float(got)) - exact)
                assert error <= PRECISION[dtype][0] * exact, f"{rule!r} row {row}"
                compared += 1
    assert compared > 40


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_regrets_next_to_a_tie_of_costs_are_accurate(offset: float, path: str):
    rng = np.random.default_rng(0)
    costs = offset + rng.uniform(size=(K, K + 1))
    rule = sw.rules.cost_matrix(costs)
    compared = 0
    for _ in range(60):
        p, q = rng.dirichlet(np.ones(K), 2)
        first, last = (p @ costs).argmin(), (q @ costs).argmin()
        if first == last:
            continue
        low, high = 0.0, 1.0  # bisect for the point where the best action changes
        for _ in range(40):
            middle = (low + high) / 2
            same = (((1 - middle) * p + middle * q) @ costs).argmin() == first
            low, high = (middle, high) if same else (low, middle)
        for noise in (1e-3, 1e-5, 1e-6):
            members = (1 - low) * p + low * q + noise * rng.normal(size=(4, 1)) * (q - p)
            members = np.abs(members) / np.abs(members).sum(axis=-1, keepdims=True)
            exact = reference.decompose(rule, members)[2]
            if exact > 1e-9:
                got = mp.mpf(float(PATHS[path](members[None], rule).epistemic[0]))
                assert abs(got - exact) <= 1e-12 * exact
                compared += 1
    assert compared > 10


def extreme_rules(k: int) -> list[sw.rules.ScoringRule]:
    return [
        sw.rules.weighted_log([1.0] * (k - 1) + [1e6]),
        *(sw.rules.tsallis(beta) for beta in (1 + 1e-12, 1.0001, 20, 300, 1000)),
        *(sw.rules.pseudospherical(alpha) for alpha in (1 + 1e-6, 1.001, 20, 300, 1000)),
        sw.rules.quadratic(np.diag([1.0] + [0.0] * (k - 1))),
        sw.rules.weighted_log(10.0 ** np.arange(k)),
    ]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("case", cases(K))
def test_extreme_parameters_are_accurate(case: str, dtype: str, path: str):
    probs = cases(K)[case].astype(dtype)
    for rule in extreme_rules(K):
        d = PATHS[path](probs, rule)
        scale = float(max(1, rule.loss_vector(np.eye(K)).max()))
        for i in (0, 5):
            expected = reference.decompose(rule, probs[i])
            scaled = Decomposition(d.total / scale, d.aleatoric / scale, d.epistemic)
            expected = (expected[0] / scale, expected[1] / scale, expected[2])
            assert_accurate(scaled, i, expected, dtype, f"{case} {rule!r} row {i}")


@pytest.mark.parametrize("path", PATHS)
def test_a_light_first_member_does_not_spoil_the_mean(path: str):
    """The first member says 1 where all others say 0, with next to no weight."""
    rows = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
    for heavy in ([0.0, 0.2, 0.8], [0.0, 0.5, 0.5]):
        probs = np.array([[*rows, heavy]])
        for light in (1e-6, 1e-7, 1e-12, 1e-20, 1e-200):
            weights = np.array([light, 1.0, 1.0])
            for name, rule in all_rules(3).items():
                d = PATHS[path](probs, rule, weights)
                expected = reference.decompose(rule, probs[0], weights)
                relative = 1e-12 * max(expected[2], 1e-30)
                assert abs(mp.mpf(float(d.epistemic[0])) - expected[2]) <= relative, (name, light)
                assert_accurate(d, 0, expected, "float64", f"{name} {light}")


@pytest.mark.parametrize("path", PATHS)
def test_what_a_light_member_thinks_possible_stays_so(path: str):
    probs = np.array([[[1e-200, 1.0], [0.0, 1.0]]])
    assert PATHS[path](probs, "log", np.array([1e-200, 1.0])).epistemic[0] < 1e-190


@pytest.mark.parametrize("dtype", PRECISION)
def test_a_light_doubtful_member_does_not_spoil_the_aleatoric_part(dtype: str):
    for name, rule in (all_rules(2) | {"heavy": sw.rules.weighted_log([1e-4, 1e4])}).items():
        probs = np.array([[[0.5, 0.5], [1 - 2.0**-20, 2.0**-20]]], dtype=dtype)
        weights = np.array([1e-9, 1.0])
        exact = reference.decompose(rule, probs[0], weights)[1]
        for path in PATHS.values():
            got = mp.mpf(float(path(probs, rule, weights).aleatoric[0]))
            assert abs(got - exact) <= 10 * PRECISION[dtype][1] * exact, name


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("case", ["random", "near-identical", "one-hot against soft"])
def test_weighted_decomposition_is_accurate(case: str, dtype: str, path: str):
    probs = cases(K)[case].astype(dtype)
    weights = np.array([0.0, 1e-8, 3.0, 0.5, 1.0, 1e-3])
    for name, rule in all_rules(K).items():
        d = PATHS[path](probs, rule, weights)
        for i in range(0, len(probs), 4):
            expected = reference.decompose(rule, probs[i], weights)
            assert_accurate(d, i, expected, dtype, f"{case} {name} row {i}")


@cache  # to make the quadratic rule takes seconds
def rules_of_a_thousand_classes() -> dict[str, sw.rules.ScoringRule]:
    costs = np.random.default_rng(0).uniform(0, 3, (1000, 3))
    rules = all_rules(1000) | {"cost-matrix": sw.rules.cost_matrix(costs)}
    slow = {"quadratic", "tsallis:3", "pseudospherical:1.3"}  # in 50 digits
    return {name: rule for name, rule in rules.items() if name not in slow}


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("noise", [3e-4, 0.05, 1.0, "confident", "one-hot"])
def test_a_thousand_classes_are_accurate(dtype: str, noise: float | str):
    rng = np.random.default_rng(0)
    center = rng.normal(size=(1, 1, 1000)) * 2
    if isinstance(noise, str):
        center[0, 0, 7] += 18
        probs = softmax(center + 0.05 * rng.normal(size=(1, 3, 1000)))
        probs = (np.eye(1000)[[[3, 3, 900]]] if noise == "one-hot" else probs).astype(dtype)
    else:
        probs = softmax(center + noise * rng.normal(size=(1, 3, 1000))).astype(dtype)
    for name, rule in rules_of_a_thousand_classes().items():
        expected = reference.decompose(rule, probs[0])
        for path in PATHS:
            d = PATHS[path](probs, rule)
            assert_accurate(d, 0, expected, dtype, f"K = 1000 {path} {name}")


@pytest.mark.parametrize("member_axis", [1, 2])
def test_sums_over_strided_classes_are_as_accurate(member_axis: int):
    probs = np.random.default_rng(0).dirichlet(np.ones(20_000), (2, 3)).astype(np.float32)
    exact = sw.decompose(probs.astype(np.float64), all_rules_of_many_classes())
    moved = np.ascontiguousarray(np.moveaxis(np.moveaxis(probs, 2, 0), 2, member_axis))
    got = sw.decompose(moved, all_rules_of_many_classes(), class_axis=0, member_axis=member_axis)
    for name, d in got.items():
        for a, b in zip(d, exact[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=name)


def all_rules_of_many_classes() -> list[str]:
    return ["log", "brier", "zero-one", "spherical", "tsallis:1.5", "top-k:5"]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_million_members_do_not_drown_in_rounding(weighted: bool):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([3.0, 2.0, 1.0], (1, 1_000_000)).astype(np.float32)
    weights = rng.uniform(size=1_000_000) if weighted else None
    exact = by_array(probs.astype(np.float64), "log", weights)
    for a, b in zip(by_array(probs, "log", weights), exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("m", [20, 150, 200, 255, 256, 257, 1000])
def test_one_member_unlike_all_others_does_not_spoil_the_mean(m: int, dtype: str):
    """Many equal terms round the same way, and what is left of the first member is small."""
    for others, first in (
        ([0.998, 0.001, 0.001], [0.01, 0.98, 0.01]),
        ([1 - 2e-10, 1e-10, 1e-10], [0, 1, 0]),
    ):
        probs = np.tile(others, (m, 1)).astype(dtype)
        probs[0] = first
        for name in ("log", "brier", "zero-one", "spherical"):
            expected = reference.decompose(sw.get_rule(name), probs)
            for path in ("array", "kernel"):
                d = PATHS[path](probs[None], name)
                assert_accurate(d, 0, expected, dtype, f"{path} {name}")


@pytest.mark.parametrize(("dtype", "tail"), [("float32", 2.9e-8), ("float64", 5e-17)])
@pytest.mark.parametrize("k", [33, 100, 128, 1000, 10_000])
def test_many_small_entries_beside_a_large_one_are_not_lost(k: int, dtype: str, tail: float):
    row = np.full(k, tail, dtype=dtype)
    row[0] = 1 - (k - 1) * tail
    for p in (row, row[::-1].copy()):
        probs = np.stack([p, p])
        wide = probs.astype(np.longdouble)
        expected = {
            "zero-one": (wide.sum(axis=-1) - wide.max(axis=-1))[0],
            "log": -(wide * np.log(wide / wide.sum(axis=-1, keepdims=True))).sum(axis=-1)[0],
        }
        for name, exact in expected.items():
            for path in ("array", "kernel"):
                d = PATHS[path](probs[None], name)
                assert_accurate(d, 0, (float(exact), float(exact), 0.0), dtype, f"{path} {name}")


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("k", [5_000, 50_000, 200_000])
def test_very_many_equal_classes_are_accurate(k: int, dtype: str):
    """One member spreads over the first half, one over the second: they share nothing."""
    probs = np.zeros((1, 2, k), dtype=dtype)
    probs[0, 0, : k // 2] = probs[0, 1, k // 2 :] = 2 / k
    for path in ("array", "kernel"):
        d = PATHS[path](probs, "log")
        expected = (np.log(k), np.log(k // 2), np.log(2) * float(probs[0, 0].sum(dtype=float)))
        assert_accurate(d, 0, expected, dtype, path)


@pytest.mark.parametrize("path", ["array", "kernel"])
def test_rows_that_sum_to_one_within_tolerance_do_not_move_the_epistemic_part(path: str):
    probs = np.array([[0.9, 0.1], [0.6, 0.4]]) * np.array([[1 + 9e-7], [1 - 9e-7]])
    for name in ("log", "brier", "zero-one", "spherical"):
        exact = reference.decompose(sw.get_rule(name), probs)[2]
        got = mp.mpf(float(PATHS[path](probs[None], name).epistemic[0]))
        assert abs(got - exact) <= 1e-12 * exact, name


def test_a_quadratic_rule_does_not_see_what_all_entries_share():
    """Where rows sum to 1, A and A + c say the same, but c must not drown A."""
    probs = cases(K)["near-identical"]
    root = np.random.default_rng(0).integers(-5, 5, (K, K))
    for matrix in (np.eye(K), root @ root.T, np.diag([1.0] + [0.0] * (K - 1))):
        for offset in (1e8, 2.0**40):
            rule = sw.rules.quadratic(matrix + offset)
            d = sw.decompose(probs, rule)
            for i in range(0, len(probs), 4):
                exact = reference.decompose(rule, probs[i])[2]
                assert abs(mp.mpf(float(d.epistemic[i])) - exact) <= 1e-12 * max(exact, 1e-9)


def test_the_check_of_accuracy_can_fail():
    probs = cases(K)["near-identical"]
    d = sw.decompose(probs, "log")
    expected = reference.decompose(sw.rules.log, probs[0])
    plain = Decomposition(d.total, d.aleatoric, d.total - d.aleatoric)
    with pytest.raises(AssertionError, match="epistemic"):
        assert_accurate(plain, 0, expected, "float64", "textbook")


def test_weighted_log_of_equal_weights_is_log_where_two_classes_are_almost_tied():
    p = np.array([0.5000000000000001, 0.5])
    assert sw.rules.weighted_log([1.0, 1.0]).entropy(p) == pytest.approx(math.log(2), rel=1e-15)


def test_entropies_of_rows_with_strides_are_accurate():
    """NumPy sums such rows term by term."""
    rng = np.random.default_rng(0)
    confident = 12 * np.eye(1000)[rng.integers(1000, size=200)] + 0.05 * rng.normal(
        size=(200, 1000)
    )
    rows = np.asfortranarray(softmax(confident).astype(np.float32))
    exact = rows.astype(np.float64).sum(axis=-1) - rows.max(axis=-1)
    error = np.abs(sw.rules.zero_one.entropy(rows) - exact)
    assert (error <= 1e-4 * exact + 4 * PRECISION["float32"][1]).all()
