"""Dirichlets: closed forms and quadrature against mpmath and large simulations."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import scorewise as sw
from support import all_rules

mp.mp.dps = 40
HARD = [
    (1.0, 1.0), (0.2, 0.3), (0.01, 0.02), (5.0, 3.0), (100.0, 1.0), (99.0, 98.0), (101.0, 99.0),
    (1e3, 5e2), (1e5, 1e5),
]  # fmt: skip


def epistemic(alpha, rule) -> mp.mpf:
    return mp.mpf(float(sw.decompose(sw.Dirichlet(np.array(alpha, float)), rule).epistemic))


def mean_over_beta(f, alpha) -> mp.mpf:
    """E f(θ₁, θ₂) for two classes, by the trapezoid rule in a doubly exponential variable."""
    a, b = map(mp.mpf, alpha)
    scale = min(mp.mpf(1), mp.sqrt(1 / a + 1 / b))
    step = mp.mpf(1) / 32
    reach = int((mp.asinh(90 / (scale * min(a, b, 1))) + 1) / step)
    total = mp.mpf(0)
    for i in range(-reach, reach + 1):
        z = mp.log(a / b) + scale * mp.sinh(i * step)
        x, y = 1 / (1 + mp.exp(-z)), 1 / (1 + mp.exp(z))
        density = mp.exp(a * mp.log(x) + b * mp.log(y)) / mp.beta(a, b)
        total += f(x, y) * density * scale * mp.cosh(i * step)
    return total * step


def log_reference(alpha) -> mp.mpf:
    a = [mp.mpf(x) for x in alpha]
    a0 = mp.fsum(a)
    total = -mp.fsum(x / a0 * mp.log(x / a0) for x in a)
    return total - mp.digamma(a0 + 1) + mp.fsum(x / a0 * mp.digamma(x + 1) for x in a)


def tsallis_reference(alpha, beta) -> mp.mpf:
    a, b = [mp.mpf(x) for x in alpha], mp.mpf(beta)
    a0 = mp.fsum(a)
    powers = (mp.gammaprod([x + b, a0], [x, a0 + b]) - (x / a0) ** b for x in a)
    return mp.fsum(powers) / (b - 1)


@pytest.mark.parametrize(
    "alpha", [*HARD, (60, 40, 30), (1e8, 3e8, 1e8), (1e12, 1e12), (1e5, 1e5, 1.0)]
)
def test_closed_forms_match_mpmath_also_where_plain_formulas_cancel(alpha):
    with mp.workdps(60):
        exact = log_reference(alpha)
        assert abs(epistemic(alpha, "log") - exact) <= 1e-12 * exact
        for beta in (1.01, 1.5, 3, 7):
            exact = tsallis_reference(alpha, beta)
            assert abs(epistemic(alpha, f"tsallis:{beta}") - exact) <= 2e-12 * exact, beta
        weighted = sw.rules.weighted_log(np.full(len(alpha), 2.0))
        exact = 2 * log_reference(alpha)
        assert abs(epistemic(alpha, weighted) - exact) <= 1e-12 * exact


@pytest.mark.parametrize("alpha", HARD)
def test_zero_one_and_spherical_match_mpmath(alpha):
    a, b = (mp.mpf(x) for x in sorted(alpha))
    # E(2x − 1)⁺ for the smaller parameter
    if a == b:
        exact = mp.mpf(2) ** (-2 * a) / (a * mp.beta(a, a))
    else:
        half = mp.betainc(a, b, mp.mpf(1) / 2, 1, regularized=True)
        up = mp.betainc(a + 1, b, mp.mpf(1) / 2, 1, regularized=True) * a / (a + b)
        exact = 2 * up - half
    assert abs(epistemic(alpha, "zero-one") - exact) <= 1e-12 * exact + 1e-40
    m = b / (a + b)
    norm = mp.sqrt(m**2 + (1 - m) ** 2)
    exact = mean_over_beta(lambda x, y: mp.sqrt(x * x + y * y), alpha) - norm
    smallest = 1e-11 if min(alpha) < 0.1 else 1e-15
    assert abs(epistemic(alpha, "spherical") - exact) <= smallest


@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k_of_three_and_four_classes_match_their_integral(k):
    for alpha in [(5, 3, 1), (0.3, 0.2, 0.4, 0.9), (7, 7, 7, 7)]:
        a = [mp.mpf(x) for x in alpha]
        order = sorted(range(len(a)), key=lambda j: -alpha[j])

        def overlap(x, a=a, order=order):
            def at_least(chances):
                counts = [mp.mpf(1)]
                for c in chances:
                    counts = [
                        (counts[i] * (1 - c) if i < len(counts) else 0)
                        + (counts[i - 1] * c if i else 0)
                        for i in range(len(counts) + 1)
                    ]
                return [mp.fsum(counts[i:]) for i in range(1, k + 1)]

            lower = [mp.gammainc(a[j], 0, x, regularized=True) for j in order]
            below, above = at_least(lower[:k]), at_least([1 - c for c in lower[k:]])
            return mp.fsum(x * y for x, y in zip(below, above, strict=True))

        with mp.workdps(20):
            points = [mp.mpf(0), *(mp.mpf(10) ** e for e in range(-20, 1)), 3, 6, 10, 15, 25, 60]
            exact = mp.quad(overlap, points) / mp.fsum(a) if k < len(a) else mp.mpf(0)
        assert abs(epistemic(alpha, f"top-k:{k}") - exact) <= 1e-10 * exact + 1e-30


@pytest.mark.parametrize("name", all_rules(4))
def test_every_rule_matches_a_large_simulation(name):
    rng = np.random.default_rng(5)
    rule = all_rules(4)[name]
    for alpha in ([3.0, 1.0, 0.5, 2.0], [40.0, 10.0, 12.0, 30.0], [0.3, 0.2, 0.4, 0.1]):
        simulated = rng.dirichlet(alpha, 400_000)
        mean = np.array(alpha) / sum(alpha)
        excess = rule.divergence(np.broadcast_to(mean, simulated.shape), simulated)
        d = sw.decompose(sw.Dirichlet(np.array(alpha)), rule)
        error = excess.std() / math.sqrt(len(excess))
        own = 0 if d.standard_error is None else float(d.standard_error.epistemic)
        assert abs(float(d.epistemic) - excess.mean()) <= 5 * math.hypot(error, own) + 1e-15
        np.testing.assert_allclose(d.total, rule.entropy(mean), rtol=1e-12)
        np.testing.assert_allclose(d.total, d.aleatoric + d.epistemic, rtol=1e-12)


def test_beta_rule_matches_a_large_simulation():
    simulated = np.random.default_rng(5).dirichlet([3.0, 2.0], 400_000)
    for name, rule in all_rules(2).items():
        mean = np.broadcast_to([0.6, 0.4], simulated.shape)
        excess = rule.divergence(mean, simulated)
        d = sw.decompose(sw.Dirichlet(np.array([3.0, 2.0])), rule)
        error = excess.std() / math.sqrt(len(excess))
        assert abs(float(d.epistemic) - excess.mean()) <= 5 * error, name


def test_simulated_rules_state_an_error_that_is_true():
    """Quasi-Monte-Carlo against the closed form it would replace, many times over."""
    rule = sw.rules.spherical
    alpha = np.random.default_rng(0).uniform(0.3, 20, (40, 4))
    q = sw.Dirichlet(alpha)
    exact = sw.decompose(q, rule).epistemic

    def excess(theta, center):
        return rule.divergence(np.broadcast_to(center, theta.shape), theta)

    estimate, error = q.estimate(excess)
    z = (estimate - exact) / error
    assert (error > 0).all()
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.9  # t-distributed with 7 degrees of freedom: 1.2
    assert (error / exact < 2e-3).all()


def test_closed_forms_state_no_error_and_simulations_do():
    q = sw.Dirichlet(np.array([[3.0, 2.0, 1.0]]))
    for name, rule in all_rules(3).items():
        simulated = rule.family in {"pseudospherical", "cost_matrix"}
        assert (sw.decompose(q, rule).standard_error is not None) == simulated, name


def test_expectations_of_tiny_parameters_do_not_underflow():
    q = sw.Dirichlet(np.array([[1e-4, 2e-4, 1e-4]]))
    mean = q.expect(lambda theta: theta)
    np.testing.assert_allclose(mean, [[0.25, 0.5, 0.25]], atol=5e-3)


def test_uncertainty_of_a_dirichlet_keeps_the_laws():
    rng = np.random.default_rng(0)
    for scale in (0.01, 1.0, 1e3, 1e7):
        alpha = rng.uniform(0.1, 5, (20, 4)) * scale
        for name, rule in all_rules(4).items():
            d = sw.decompose(sw.Dirichlet(alpha), rule)
            for part in d:
                assert (part >= 0).all(), name


def test_large_exponents_do_not_underflow():
    for alpha, beta in (([1000, 1e-3], 20), ([1, 1e-20], 3), ([10, 1e-7], 50), ([1000, 1e-3], 80)):
        for dtype in (np.float32, np.float64):
            d = sw.decompose(sw.Dirichlet(np.array(alpha, dtype)), f"tsallis:{beta}")
            assert all(np.isfinite(part) and part >= 0 for part in d)


def test_float32_parameters_give_float32():
    alpha = np.random.default_rng(0).uniform(0.5, 9, (5, 3))
    for name, rule in all_rules(3).items():
        got = sw.decompose(sw.Dirichlet(alpha.astype(np.float32)), rule).epistemic
        assert got.dtype == np.float32
        exact = sw.decompose(sw.Dirichlet(alpha), rule).epistemic
        np.testing.assert_allclose(got, exact, rtol=1e-4, err_msg=name)


def test_empty_batches_and_any_shape():
    for batch in [(), (0,), (2, 3)]:
        for rule in all_rules(3).values():
            assert sw.decompose(sw.Dirichlet(np.ones((*batch, 3))), rule).epistemic.shape == batch


def test_closed_forms_have_gradients_and_the_rest_says_it_has_none():
    import torch

    alpha = torch.tensor([3.0, 2.0, 1.5], dtype=torch.float64, requires_grad=True)
    for rule in ("log", "brier", "tsallis:1.5", "rps"):
        assert torch.autograd.gradcheck(
            lambda a, rule=rule: sw.decompose(sw.Dirichlet(a), rule).epistemic, (alpha,)
        )
    for rule in ("zero-one", "spherical", "pseudospherical:3"):
        with pytest.raises(sw.InvalidInput, match="cannot be differentiated or traced"):
            sw.decompose(sw.Dirichlet(alpha), rule)


@pytest.mark.parametrize(
    ("alpha", "message"),
    [
        ([1.0, 0.0], r"alpha\[1\] is 0.0"),
        ([[1.0, 2.0], [1.0, -1.0]], r"alpha\[1, 1\] is -1.0"),
        ([1.0, np.inf], "positive and finite"),
        ([1.0, np.nan], "positive and finite"),
        ([1.0], "at least 2"),
        ([1, 2], "dtype int64"),
        (1.0, "at least 2"),
    ],
)
def test_bad_parameters_are_refused(alpha, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.Dirichlet(alpha)
    assert repr(sw.Dirichlet([1.0, 2.0])) == "Dirichlet(2 classes, batch (), float64)"
