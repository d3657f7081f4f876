"""Bias correction and standard errors, shown by simulation."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import reference
import scorewise as sw
from scorewise.rules import DecisionRule
from support import all_rules, members

ALPHA = np.array([4.0, 3.0, 2.0, 1.0])


def draws(n: int, m: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(ALPHA, (n, m))


def truth(rule: str) -> float:
    return float(sw.decompose(sw.Dirichlet(ALPHA), rule).epistemic)


@pytest.mark.parametrize(
    ("rule", "factor"), [("brier", 10), ("log", 5), ("spherical", 5), ("tsallis:1.5", 5)]
)
def test_the_bias_of_five_members_falls_by_at_least(rule, factor):
    probs = draws(200_000, 5)
    plain = sw.decompose(probs, rule).epistemic
    corrected = sw.decompose(probs, rule, unbiased=True).epistemic
    bias, rest = plain.mean() - truth(rule), corrected.mean() - truth(rule)
    noise = corrected.std() / np.sqrt(len(corrected))
    assert bias < -20 * noise  # there is something to correct
    assert abs(rest) <= abs(bias) / factor


@pytest.mark.parametrize("rule", ["brier", "log"])
def test_the_bias_of_weighted_members_falls_too(rule):
    weights = np.array([3.0, 1.0, 1.0, 0.5, 2.0, 0.0, 1.0, 2.0])
    probs = draws(200_000, 8, seed=1)
    plain = sw.decompose(probs, rule, weights=weights).epistemic.mean() - truth(rule)
    corrected = sw.decompose(probs, rule, weights=weights, unbiased=True).epistemic.mean()
    assert abs(corrected - truth(rule)) <= abs(plain) / 5


def test_quadratic_rules_are_corrected_by_exactly_m_over_m_minus_one():
    probs = members(50, 5, 4)
    for name in ("brier", "quadratic", "rps"):
        rule = all_rules(4)[name]
        plain = sw.decompose(probs, rule)
        d = sw.decompose(probs, rule, unbiased=True)
        np.testing.assert_allclose(d.epistemic, plain.epistemic * 5 / 4, rtol=1e-13)
        np.testing.assert_allclose(d.aleatoric, plain.aleatoric, rtol=1e-14)
        np.testing.assert_allclose(d.total, d.aleatoric + d.epistemic, rtol=1e-15)


def test_corrected_epistemic_is_never_below_the_plain_one_and_keeps_exact_zeros():
    for probs in (members(50, 3, 4), np.repeat(members(50, 1, 4), 5, axis=1)):
        for name, rule in all_rules(4).items():
            if isinstance(rule, sw.rules.DecisionRule):
                continue
            d = sw.decompose(probs, rule, unbiased=True, standard_errors=True)
            plain = sw.decompose(probs, rule).epistemic
            assert (d.epistemic >= plain).all(), name
            if (plain == 0).all():
                assert (d.epistemic == 0).all()
                assert (d.standard_error.epistemic == 0).all()


def test_the_jackknife_is_quenouilles():
    """By its definition: M·TU − (M − 1)·mean TU₋ₘ, for every smooth rule."""
    probs = members(20, 6, 4)
    for name, rule in all_rules(4).items():
        if isinstance(rule, sw.rules.DecisionRule):
            continue
        left_out = [sw.decompose(np.delete(probs, m, axis=1), rule) for m in range(6)]
        d = sw.decompose(probs, rule, unbiased=True, standard_errors=True)
        total = sw.decompose(probs, rule).total
        expected = 6 * total - 5 * np.mean([x.total for x in left_out], axis=0)
        np.testing.assert_allclose(d.total, expected, rtol=1e-10, err_msg=name)
        for part in ("total", "aleatoric", "epistemic"):
            values = np.stack([getattr(x, part) for x in left_out])
            tukey = np.sqrt(5 / 6 * ((values - values.mean(0)) ** 2).sum(0))
            got = getattr(d.standard_error, part)
            np.testing.assert_allclose(got, tukey, rtol=1e-8, err_msg=f"{name} {part}")


@pytest.mark.parametrize("rule", ["log", "brier", "spherical"])
@pytest.mark.parametrize("part", ["total", "aleatoric", "epistemic"])
def test_standard_errors_are_calibrated(rule, part):
    probs = draws(20_000, 20)
    d = sw.decompose(probs, rule, standard_errors=True)
    values, errors = getattr(d, part), getattr(d.standard_error, part)
    ratio = np.mean(errors**2) / np.var(values)
    assert 0.85 < ratio < 1.3
    inside = np.abs(values - values.mean()) <= 1.96 * errors
    assert 0.87 < inside.mean() < 0.98


def test_standard_errors_of_weighted_members_are_calibrated():
    weights = np.tile([0.5, 1.0, 2.0, 1.5], 6)
    d = sw.decompose(draws(20_000, 24), "log", weights=weights, standard_errors=True)
    for part in ("total", "aleatoric", "epistemic"):
        values, errors = getattr(d, part), getattr(d.standard_error, part)
        assert 0.85 < np.mean(errors**2) / np.var(values) < 1.3, part


def test_a_member_without_weight_does_not_spoil_the_errors():
    probs = np.array([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0], [0.2, 0.3, 0.5]])
    got = sw.decompose(probs, "log", weights=[1, 1, 0], standard_errors=True).standard_error
    expected = sw.decompose(probs[:2], "log", standard_errors=True).standard_error
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("light", [1e-3, 1e-9, 1e-17, 1e-30])
@mp.workdps(100)
def test_a_member_of_nearly_all_weight_keeps_the_digits_of_the_others(light):
    probs, weights = members(1, 3, 4)[0], np.array([1.0, light, light / 2])
    rows, shares = [reference.row(r) for r in probs], reference.row(weights)
    total = mp.fsum(shares)

    def mean(chosen):
        weight = mp.fsum(shares[m] for m in chosen)
        return weight / total, [
            mp.fsum(shares[m] * rows[m][k] for m in chosen) / weight for k in range(4)
        ]

    _, center = mean(range(3))
    for name, rule in all_rules(4).items():
        if isinstance(rule, DecisionRule):
            continue
        divergence = reference.divergence(rule)
        exact = mp.fsum(
            s / total * divergence(center, r) for s, r in zip(shares, rows, strict=True)
        )
        for left_out in range(3):
            rest, without = mean([m for m in range(3) if m != left_out])
            exact += rest * divergence(center, without)
        got = sw.decompose(probs, rule, weights=weights, unbiased=True).epistemic
        assert abs(mp.mpf(float(got)) - exact) <= 1e-12 * exact, name


def test_standard_errors_of_zero_one_are_of_the_right_size():
    d = sw.decompose(draws(20_000, 20), "zero-one", standard_errors=True)
    for part in ("total", "aleatoric", "epistemic"):
        values, errors = getattr(d, part), getattr(d.standard_error, part)
        assert 0.5 < np.sqrt(np.mean(errors**2) / np.var(values)) < 1.6, part


@pytest.mark.parametrize("rule", ["zero-one", "top-k:2", sw.rules.cost_matrix(np.eye(3))])
def test_decision_rules_are_not_corrected_and_the_error_says_why(rule):
    with pytest.raises(sw.InvalidInput, match=r"estimates worse.*a decision jumps"):
        sw.decompose(members(3, 4, 3), ["log", rule], unbiased=True)


@pytest.mark.parametrize("options", [{"unbiased": True}, {"standard_errors": True}])
def test_one_member_cannot_be_compared_with_itself(options):
    with pytest.raises(sw.InvalidInput, match="at least two"):
        sw.decompose(members(3, 1, 3), "log", **options)
    with pytest.raises(sw.InvalidInput, match="at least two"):
        sw.decompose(members(3, 4, 3), "log", weights=[0, 1, 0, 0], **options)
    weights = np.ones((3, 4))
    weights[2] = [0, 1, 0, 0]
    with pytest.raises(sw.InvalidInput, match=r"member 1 of instance \[2\] has all the weight"):
        sw.decompose(members(3, 4, 3), "log", weights=weights, **options)


def test_a_dirichlet_has_no_members_to_leave_out():
    for options in ({"unbiased": True}, {"standard_errors": True}, {"weights": [1]}):
        with pytest.raises(sw.InvalidInput, match="a Dirichlet has no members"):
            sw.decompose(sw.Dirichlet(ALPHA), "log", **options)


def test_a_rest_of_hardly_any_weight_gives_numbers_and_numpy_booleans_count():
    probs = np.array([[0.9, 0.1], [0.2, 0.8]], dtype=np.float32)
    options = {"unbiased": np.True_, "standard_errors": np.True_}
    d = sw.decompose(probs, "log", weights=[1, 1e-39], **options)
    assert 0 < d.epistemic < 1e-38
    assert 0 < d.standard_error.epistemic < 1e-18
