"""The CPU kernel's jackknife, reverse divergences and given predictors: as the array path."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import reference
import scorewise as sw
from scorewise._inputs import InputOptions
from scorewise._members import Members
from scorewise.kernels import Extras, cpu
from scorewise.rules import DecisionRule
from support import PRECISION, all_rules, by_array, by_kernel, kernel_only, known_to_kernel, members

RULES = {
    k: {name: rule for name, rule in all_rules(k).items() if known_to_kernel(rule)}
    for k in (2, 5, 70)
}
TOLERANCE = {"float32": 2e-4, "float64": 1e-9}
WEIGHTS = {
    "none": None,
    "shared": np.arange(6.0),
    "own": np.random.default_rng(0).uniform(0.1, 1, (33, 6)),
}


def smooth(k: int) -> dict:
    return {name: r for name, r in RULES[k].items() if not isinstance(r, DecisionRule)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("k", [2, 5, 70])
def test_the_jackknife_of_the_kernel_is_that_of_the_array_path(k, weights, dtype):
    probs = members(33, 6, k).astype(dtype)
    assert sw.explain_kernel(probs, RULES[k], standard_errors=True).path == "cpu"
    for rules, options in ((smooth(k), {"unbiased": True}), (RULES[k], {"standard_errors": True})):
        got = by_kernel(probs, rules, weights, **options)
        expected = by_array(probs, rules, weights, **options)
        for name in rules:
            pairs = [*zip(got[name], expected[name], strict=True)]
            if "standard_errors" in options:
                errors = got[name].standard_error, expected[name].standard_error
                pairs += zip(*errors, strict=True)
            for a, b in pairs:
                rtol = TOLERANCE[dtype]
                np.testing.assert_allclose(a, b, rtol, atol=rtol / 100, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [3, 17, 20])
def test_errors_under_a_rule_do_not_depend_on_the_other_rules(m: int, dtype: str):
    probs = members(5, m, 225).astype(dtype)  # classes of one instance are in the lanes
    rules = {"log": "log", "brier": "brier", "spherical": "spherical", "powers": "tsallis:1.5"}
    together = by_kernel(probs, rules, standard_errors=True)
    exact = by_array(probs.astype(np.float64), rules, standard_errors=True)
    for name in rules:
        pairs = zip(together[name].standard_error, exact[name].standard_error, strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a, b, 10 * TOLERANCE[dtype], atol=1e-6, err_msg=name)


@pytest.mark.parametrize("alpha", [1.3, 20])
def test_errors_of_total_keep_their_digits_where_the_norm_is_small(alpha: float):
    probs = members(5, 6, 1000).astype(np.float32)
    rule = sw.rules.pseudospherical(alpha)
    got = by_kernel(probs, rule, standard_errors=True).standard_error.total
    exact = by_array(probs.astype(np.float64), rule, standard_errors=True).standard_error.total
    np.testing.assert_allclose(got, exact, rtol=1e-4)


@pytest.mark.parametrize("options", [{"from_logits": True}, {"member_axis": 0}])
def test_the_jackknife_of_logits_and_of_other_layouts(options):
    probs = members(20, 4, 5)
    values = np.log(probs) if "from_logits" in options else probs.swapaxes(0, 1)
    jackknife = {"unbiased": True, "standard_errors": True}
    got, expected = (f(values, smooth(5), **options, **jackknife) for f in (by_kernel, by_array))
    for name in got:
        np.testing.assert_allclose(got[name].epistemic, expected[name].epistemic, rtol=1e-10)
        for a, b in zip(got[name].standard_error, expected[name].standard_error, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, err_msg=name)


@pytest.mark.parametrize("k", [5, 70])
@pytest.mark.parametrize("heavy", [0.9, 1 - 1e-6])
def test_the_jackknife_of_a_member_with_almost_all_the_weight(heavy, k):
    weights = np.array([heavy, *np.full(4, (1 - heavy) / 4)])
    probs = members(17, 5, k)
    got, expected = (f(probs, smooth(k), weights, unbiased=True) for f in (by_kernel, by_array))
    for name in got:
        expect = expected[name].epistemic
        np.testing.assert_allclose(got[name].epistemic, expect, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("rule", ["log", "tsallis:1.5", "tsallis:2.7", "pseudospherical:2.7"])
@pytest.mark.parametrize("n_members", [2, 3, 20])
def test_corrections_in_single_precision_have_their_digits(rule, n_members):
    for concentration in (0.05, 0.5, 50.0):
        probs = members(64, n_members, 20, concentration=concentration).astype(np.float32)
        exact = by_array(probs.astype(np.float64), rule, unbiased=True, normalize=True)
        got = by_kernel(probs, rule, unbiased=True)
        np.testing.assert_allclose(got.epistemic, exact.epistemic, rtol=1e-4)


def test_corrections_keep_their_digits_where_members_nearly_agree():
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.full(5, 2.0), (30, 1))
    probs = np.repeat(base, 6, axis=1) * (1 + 1e-4 * rng.normal(size=(30, 6, 5)))
    probs = (probs / probs.sum(axis=-1, keepdims=True)).astype(np.float32)
    exact = by_array(probs.astype(np.float64), smooth(5), unbiased=True)
    for name, d in by_kernel(probs, smooth(5), unbiased=True).items():
        np.testing.assert_allclose(d.epistemic, exact[name].epistemic, rtol=1e-3, err_msg=name)


@pytest.mark.parametrize("k", [2, 5, 70])
def test_errors_keep_their_digits_where_members_nearly_agree(k):
    probs = members(40, 1, k) * (1 + 1e-3 * np.random.default_rng(0).normal(size=(40, 20, k)))
    probs = (probs / probs.sum(axis=-1, keepdims=True)).astype(np.float32)
    rules = ["log", "brier", "spherical"]
    exact = by_array(probs.astype(np.float64), rules, standard_errors=True, normalize=True)
    for name, d in by_kernel(probs, rules, standard_errors=True).items():
        expected = exact[name].standard_error.epistemic
        got = d.standard_error.epistemic
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [2, 5, 70])
def test_reverse_and_pairwise_of_the_kernel_are_those_of_the_array_path(k, dtype, monkeypatch):
    near = 0.9 * members(17, 1, k) + 0.1 * members(17, 6, k)
    for probs in (members(17, 6, k).astype(dtype), near.astype(dtype)):
        with kernel_only():
            got = {name: sw.reverse_epistemic(probs, r) for name, r in RULES[k].items()}
            pairs = {name: sw.pairwise_epistemic(probs, r) for name, r in RULES[k].items()}
        with monkeypatch.context() as patch:
            patch.setattr(cpu, "_native", None)
            for name, rule in RULES[k].items():
                tolerance = {
                    "rtol": TOLERANCE[dtype],
                    "atol": 2e-7 if dtype == "float32" else 1e-15,
                }
                expected = sw.reverse_epistemic(probs, rule)
                np.testing.assert_allclose(got[name], expected, err_msg=name, **tolerance)
                expected = sw.pairwise_epistemic(probs, rule)
                np.testing.assert_allclose(pairs[name], expected, err_msg=name, **tolerance)


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize(
    "name",
    ["tsallis:1.25", "tsallis:1.7", "tsallis:2.5", "pseudospherical:1.5", "pseudospherical:5"],
)
def test_reverse_under_powers_is_accurate_for_members_that_differ_much_or_little(name, dtype):
    rule, rng = sw.get_rule(name), np.random.default_rng(0)
    base = rng.dirichlet(np.ones(5), (2, 1))
    near = base * (1 + 1e-3 * rng.normal(size=(2, 4, 5)))
    probs = np.concatenate(
        [rng.dirichlet(np.full(5, a), (2, 4)) for a in (0.05, 1.0, 5.0)] + [near]
    )
    probs = (probs / probs.sum(axis=-1, keepdims=True)).astype(dtype)
    weights = np.array([3.0, 1.0, 0.0, 0.5])
    with kernel_only():
        got = sw.reverse_epistemic(probs, rule, weights=weights)
    divergence = reference.divergence(rule)
    for value, own in zip(got, probs, strict=True):
        rows, shares = [reference.row(r) for r in own], [mp.mpf(w) / 4.5 for w in weights]
        mean = [mp.fdot(shares, column) for column in zip(*rows, strict=True)]
        exact = mp.fdot(shares, [divergence(row, mean) for row in rows])
        assert abs(mp.mpf(float(value)) - exact) <= PRECISION[dtype][0] * exact


def test_reverse_keeps_probabilities_below_the_normal_numbers():
    probs = np.array([[[1.0, 1e-40], [0.5, 0.5]]], dtype=np.float32)
    expected = sw.reverse_epistemic(probs.astype(np.float64), "log")
    np.testing.assert_allclose(sw.reverse_epistemic(probs, "log"), expected, rtol=1e-5)
    logits = np.array([[[0.0, -95.0], [0.0, 0.0]]], dtype=np.float32)
    assert np.isfinite(sw.reverse_epistemic(logits, "log", from_logits=True)).all()


@pytest.mark.parametrize("k", [2, 5, 70])
def test_the_risk_of_a_given_predictor_is_that_of_its_divergences(k):
    probs, weights = members(17, 6, k), np.arange(6.0)
    predictor = members(17, 1, k, seed=1)[:, 0]
    w = weights / weights.sum()
    m = Members.of(probs, weights, InputOptions())
    for name, rule in RULES[k].items():
        components = cpu.compute(m.raw, m.weights, [rule], Extras(predictor=predictor))
        divergence = np.average(rule.divergence(predictor[:, None], probs), axis=1, weights=w)
        loss = np.average(rule.expected_loss(predictor[:, None], probs), axis=1, weights=w)
        assert components is not None
        np.testing.assert_allclose(components[0], loss, rtol=1e-10, err_msg=name)
        np.testing.assert_allclose(components[2], divergence, rtol=1e-10, atol=1e-15, err_msg=name)


def test_a_predictor_that_all_members_share_has_no_excess_loss_and_one_of_zero_an_infinite_one():
    same = np.repeat(members(9, 1, 5), 4, axis=1)
    m = Members.of(same, None, InputOptions())
    rules = list(RULES[5].values())
    components = cpu.compute(m.raw, None, rules, Extras(predictor=same[:, 0]))
    assert components is not None
    assert all((epistemic == 0).all() for epistemic in components[2::3])
    sure = np.eye(5)[np.zeros(9, int)]
    components = cpu.compute(m.raw, None, [sw.rules.log], Extras(predictor=sure))
    assert components is not None
    assert np.isinf(components[2]).all()


def test_beta_predictions_of_zero_are_infinitely_wrong_where_the_loss_of_a_class_is():
    probs = np.array([[[0.3, 0.7], [0.2, 0.8]]])
    m = Members.of(probs, None, InputOptions())
    for a, b, is_infinite in ((0, 0, (True, True)), (0.5, -0.5, (False, True))):
        for sure, infinite in zip(np.eye(2), is_infinite, strict=True):
            rule = sw.rules.beta(a, b)
            components = cpu.compute(m.raw, None, [rule], Extras(predictor=sure[None]))
            assert components is not None
            expected = rule.divergence(sure, probs).mean()
            assert np.isinf(expected) == infinite
            np.testing.assert_allclose(components[2], expected, rtol=1e-12)
