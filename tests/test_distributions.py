"""Dirichlets: closed forms and quadrature against mpmath and large simulations."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import roots_jacobi

import scorewise as sw
from reference import entropy
from support import all_rules

PAIRS = [
    (1.0, 1.0),
    (0.2, 0.3),
    (0.01, 0.02),
    (5.0, 3.0),
    (100.0, 1.0),
    (99.0, 98.0),
    (101.0, 99.0),
    (1e3, 5e2),
    (1e5, 1e5),
    (64.0, 63.0),
    (65.0, 9.0),
    (1e4, 9.5e3),
    (1e6, 2e4),
    (1e8, 1e8),
    (1e12, 1e12),
    (10.0, 1e-7),
    (100.0, 1e-4),
    (1e4, 1.0),
    (1e-10, 1e-10),
    (1e-10, 1e-3),
    (1e-90, 1e-90),
]


def epistemic(alpha, rule) -> mp.mpf:
    return mp.mpf(float(sw.decompose(sw.Dirichlet(np.array(alpha, float)), rule).epistemic))


def assert_accurate(got: mp.mpf, exact: mp.mpf) -> None:
    assert abs(got - exact) <= 1e-12 * max(exact, 1e-9), float(abs(got - exact) / exact)


def mean_over_beta(f, alpha) -> mp.mpf:
    """E f(θ₁, θ₂) for two classes, by the trapezoid rule in a doubly exponential variable."""
    a, b = (mp.mpf(x) for x in alpha)
    scale = min(mp.mpf(1), mp.sqrt(1 / a + 1 / b))
    # fine where one class dominates: poles at log odds of ±iπ are then near the real axis
    step = mp.mpf(1) / (150 if min(alpha) < 1e-3 and a != b else 32)
    reach = int((mp.asinh(90 / (scale * min(a, b, 1))) + 1) / step)
    log_beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    total = mp.mpf(0)
    for i in range(-reach, reach + 1):
        z = mp.log(a / b) + scale * mp.sinh(i * step)
        log_x, log_y = -mp.log1p(mp.exp(-z)), -mp.log1p(mp.exp(z))
        density = mp.exp(a * log_x + b * log_y - log_beta)
        total += f(mp.exp(log_x), mp.exp(log_y)) * density * scale * mp.cosh(i * step)
    return total * step


def log_reference(alpha) -> mp.mpf:
    a = [mp.mpf(x) for x in alpha]
    a0 = mp.fsum(a)
    total = -mp.fsum(x / a0 * mp.log(x / a0) for x in a)
    return total - mp.digamma(a0 + 1) + mp.fsum(x / a0 * mp.digamma(x + 1) for x in a)


def brier_reference(alpha) -> mp.mpf:
    a = [mp.mpf(x) for x in alpha]
    a0 = mp.fsum(a)
    return (1 - mp.fsum((x / a0) ** 2 for x in a)) / (a0 + 1)


def tsallis_reference(alpha, beta) -> mp.mpf:
    a, b = [mp.mpf(x) for x in alpha], mp.mpf(beta)
    a0 = mp.fsum(a)
    shared = mp.loggamma(a0) - mp.loggamma(a0 + b)
    powers = (mp.exp(mp.loggamma(x + b) - mp.loggamma(x) + shared) - (x / a0) ** b for x in a)
    return mp.fsum(powers) / (b - 1)


@pytest.mark.parametrize(
    "alpha",
    [*PAIRS, (60, 40, 30), (1e8, 3e8, 1e8), (1e5, 1e5, 1.0), (1e40, 1e20, 1e-30), (1e6, 1e-6, 3)],
)
def test_closed_forms_match_mpmath_also_where_plain_formulas_cancel(alpha):
    k = len(alpha)
    with mp.workdps(250):
        log, brier = log_reference(alpha), brier_reference(alpha)
        assert_accurate(epistemic(alpha, "log"), log)
        assert_accurate(epistemic(alpha, sw.rules.weighted_log(np.full(k, 2.0))), 2 * log)
        assert_accurate(epistemic(alpha, "brier"), brier)
        assert_accurate(epistemic(alpha, sw.rules.quadratic(np.eye(k))), brier)
        if k == 2:
            assert_accurate(epistemic(alpha, "rps"), brier / 2)
        for beta in (1 + 1e-9, 1.01, 1.5, 2, 7, 80, 1000):
            assert_accurate(
                epistemic(alpha, sw.rules.tsallis(beta)), tsallis_reference(alpha, beta)
            )


@pytest.mark.parametrize("alpha", PAIRS)
def test_zero_one_and_spherical_of_two_classes_match_mpmath(alpha):
    a, b = (mp.mpf(x) for x in alpha)
    m = a / (a + b)
    norm = mp.sqrt(m**2 + (1 - m) ** 2)

    def spherical(x, y):
        return (x * (1 - m) - y * m) ** 2 / (
            norm**2 * mp.hypot(x, y) + norm * (x * m + y * (1 - m))
        )

    with mp.workdps(50):
        assert_accurate(epistemic(alpha, "spherical"), mean_over_beta(spherical, alpha))
    with mp.workdps(120):
        if a == b:
            log_beta = 2 * mp.loggamma(a) - mp.loggamma(2 * a)
            exact = mp.exp(-2 * a * mp.log(2) - mp.log(a) - log_beta)
        elif max(alpha) > 5e3:
            return  # mpmath's incomplete beta function does not converge; see below
        else:
            low, high = sorted((a, b))
            half = mp.betainc(low, high, mp.mpf(1) / 2, 1, regularized=True)
            up = mp.betainc(low + 1, high, mp.mpf(1) / 2, 1, regularized=True)
            exact = 2 * up * low / (a + b) - half
        assert_accurate(epistemic(alpha, "zero-one"), exact)


# -- total and aleatoric, also where one class dominates ------------------------------------------

EXTREME = [
    (1.0, 1e-20),
    (1e12, 1.0),
    (1e-8, 1e8, 1.0),
    (1e-20, 1e-20),
    (1e-100, 1e100),
    (1e100, 1e-100, 1.0),
    (1e-100, 1e-90, 1e-95),
]


def aleatoric_reference(alpha, rule) -> mp.mpf | None:
    """E H(θ) of the rules that have a closed form."""
    a = [mp.mpf(x) for x in alpha]
    a0 = mp.fsum(a)
    if rule.family in {"brier", "quadratic", "rps"}:
        return entropy(rule)([x / a0 for x in a]) * a0 / (a0 + 1)
    if rule.family in {"log", "weighted_log"}:
        w = [mp.mpf(float(x)) for x in getattr(rule, "weights", np.ones(len(a)))]
        top = mp.digamma(a0 + 1)
        terms = zip(w, a, strict=True)
        return mp.fsum(v * x / a0 * (top - mp.digamma(x + 1)) for v, x in terms)
    if rule.family == "tsallis":
        b = mp.mpf(rule.beta)
        shared = mp.loggamma(a0) - mp.loggamma(a0 + b)
        powers = mp.fsum(mp.exp(mp.loggamma(x + b) - mp.loggamma(x) + shared) for x in a)
        return (1 - powers) / (b - 1)
    return None


def relative_error(got, exact: mp.mpf) -> float:
    return float(abs(mp.mpf(float(got)) - exact) / exact) if exact else float(got != 0)


def assert_twelve_digits(alpha, rules, digits: int) -> None:
    with mp.workdps(digits):
        a = [mp.mpf(x) for x in alpha]
        mean = [x / mp.fsum(a) for x in a]
        for name, rule in rules.items():
            d = sw.decompose(sw.Dirichlet(np.array(alpha)), rule)
            total, aleatoric = entropy(rule)(mean), aleatoric_reference(alpha, rule)
            assert relative_error(d.total, total) < 1e-12, name
            if aleatoric is not None:
                assert relative_error(d.aleatoric, aleatoric) < 1e-12, name
                assert relative_error(d.epistemic, total - aleatoric) < 1e-12, name


@pytest.mark.parametrize("alpha", EXTREME)
def test_parts_keep_their_digits_where_one_class_dominates(alpha):
    rules = all_rules(len(alpha))
    if max(alpha) / min(alpha) > 1e40:  # beyond the digits of the reference
        rules = {name: rule for name, rule in rules.items() if rule.family != "beta"}
    assert_twelve_digits(alpha, rules, digits=650 if min(alpha) < 1e-21 else 150)


@settings(max_examples=20)
@given(st.lists(st.floats(-20, 12), min_size=2, max_size=10))
@example([12.0, 0.0])
def test_parts_of_closed_forms_have_twelve_digits(exponents):
    alpha = tuple(10.0**x for x in exponents)
    names = ("log", "brier", "tsallis:1.5", "tsallis:3", "rps", "zero-one", "spherical")
    rules = {name: sw.get_rule(name) for name in (*names, "pseudospherical:4")}
    assert_twelve_digits(alpha, rules, digits=150)


def chance_below_half(a: mp.mpf, b: mp.mpf) -> mp.mpf:
    """P(X < ½) for X ~ Beta(a, b), by a series of positive terms."""
    log_beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    term = mp.exp(-(a + b) * mp.log(2) - log_beta) / a
    total, n = term, 0
    while term > total * mp.mpf(10) ** -30 or n < b:
        term *= (a + b + n) / (a + 1 + n) / 2
        total, n = total + term, n + 1
    return total


@pytest.mark.parametrize("alpha", [pair for pair in PAIRS if max(pair) < 2e3] + EXTREME[3:4])
def test_aleatoric_of_zero_one_of_two_classes_matches_mpmath(alpha):
    a, b = (mp.mpf(x) for x in alpha)
    with mp.workdps(50):
        # E min(θ₁, θ₂): taking θ_k as a weight turns α_k into α_k + 1
        exact = (a * chance_below_half(a + 1, b) + b * chance_below_half(b + 1, a)) / (a + b)
        d = sw.decompose(sw.Dirichlet(np.array(alpha)), "zero-one")
        assert relative_error(d.aleatoric, exact) < 1e-12


@pytest.mark.parametrize(
    "alpha", [(1.0, 1.0), (0.2, 0.3), (5.0, 3.0), (64.0, 63.0), (10.0, 1e-7), (1e12, 1.0)]
)
def test_aleatoric_of_spherical_of_two_classes_matches_mpmath(alpha):
    with mp.workdps(50):
        exact = mean_over_beta(lambda x, y: 2 * x * y / (1 + mp.hypot(x, y)), alpha)
        d = sw.decompose(sw.Dirichlet(np.array(alpha)), "spherical")
        assert relative_error(d.aleatoric, exact) < 1e-12


@pytest.mark.parametrize("rule", ["zero-one", "spherical", "top-k:2"])
def test_integrals_of_the_parts_add_up_to_the_total(rule):
    """They are computed apart from each other where the aleatoric part is the smaller."""
    rng = np.random.default_rng(0)
    for k in (3, 10):
        d = sw.decompose(sw.Dirichlet(10 ** rng.uniform(-4, 0, (200, k)) / k), rule)
        assert (d.aleatoric < d.epistemic).mean() > 0.2
        np.testing.assert_allclose(d.aleatoric + d.epistemic, d.total, rtol=1e-12)


@pytest.mark.parametrize("rule", ["zero-one", "spherical"])
def test_aleatoric_of_tiny_parameters_is_that_of_pairs_of_classes(rule):
    """Three classes are never likely together, so that E H is a sum over pairs."""
    alpha = np.array([3e-18, 1e-20, 4e-19, 2e-20])

    def scaled(a):
        return a.sum() * sw.decompose(sw.Dirichlet(a), rule).aleatoric

    pairs = [alpha[[i, j]] for i in range(4) for j in range(i)]
    np.testing.assert_allclose(scaled(alpha), sum(scaled(pair) for pair in pairs), rtol=1e-12)


@pytest.mark.parametrize(
    "alpha", [(1e4, 9500.0), (1e5, 98_000.0), (1e6, 995_000.0), (1e8, 99_980_000.0)]
)
def test_zero_one_of_large_and_unequal_parameters_matches_a_sum(alpha):
    high, low = (mp.mpf(x) for x in alpha)
    with mp.workdps(40):
        # E (θ₂ − θ₁)⁺ over z = log θ₂/θ₁ > 0, where the density falls within a few σ
        log_beta = mp.loggamma(high) + mp.loggamma(low) - mp.loggamma(high + low)
        step, exact = mp.mpf(1) / 40, mp.mpf(0)
        for i in range(-200, 160):
            z = mp.exp(mp.pi / 2 * mp.sinh(i * step)) / mp.sqrt(high)
            density = mp.exp(-low * mp.log1p(mp.exp(-z)) - high * mp.log1p(mp.exp(z)) - log_beta)
            exact += mp.tanh(z / 2) * density * z * mp.pi / 2 * mp.cosh(i * step) * step
        assert_accurate(epistemic(alpha, "zero-one"), exact)


@pytest.mark.parametrize(
    "alpha",
    [
        (3.0, 2.0, 0.5),
        (0.3, 0.2, 0.4, 0.9),
        (70.0, 60.0, 5.0),
        (80.0, 2.0, 0.1),
        (900.0, 30.0, 20.0),
    ],
)
def test_spherical_of_more_classes_matches_nested_gauss_quadrature(alpha):
    theta, weights = np.zeros((1, 0)), np.ones(1)
    rest = np.ones(1)  # of a stick that is broken class by class
    for j, a in enumerate(alpha[:-1]):
        nodes, w = roots_jacobi(60, sum(alpha[j + 1 :]) - 1, a - 1)
        share, w = (1 + nodes) / 2, w / w.sum()
        piece = rest[:, None] * share
        theta = np.concatenate([np.repeat(theta, len(share), axis=0), piece.reshape(-1, 1)], axis=1)
        rest, weights = (rest[:, None] * (1 - share)).ravel(), (weights[:, None] * w).ravel()
    theta = np.concatenate([theta, rest[:, None]], axis=1)
    mean = np.broadcast_to(np.array(alpha) / sum(alpha), theta.shape)
    exact = weights @ sw.rules.spherical._divergence(np, mean, theta, theta - mean)
    np.testing.assert_allclose(float(epistemic(alpha, "spherical")), exact, rtol=1e-11)


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


def test_no_disagreement_among_the_draws_is_no_certainty():
    """The regret is 8e-7, from decisions so rare that no draw may take them."""
    alpha = np.array([19.028, 1.095, 1.789, 1.042])
    exact = sw.decompose(sw.Dirichlet(alpha), "zero-one").epistemic
    d = sw.decompose(sw.Dirichlet(alpha), sw.rules.cost_matrix(1 - np.eye(4)))
    assert d.standard_error is not None
    assert abs(d.epistemic - exact) <= d.standard_error.epistemic
    dominated = sw.rules.cost_matrix([[0, 1], [0, 2], [0, 1], [0, 1]])
    assert sw.decompose(sw.Dirichlet(alpha), dominated).standard_error.epistemic == 0


@pytest.mark.parametrize(
    "alpha", [(1e-6, 1.0), (1e-5, 1.0), (50.0, 1e-5), (1e-6, 1e-6, 1.0), (1e14,) * 3, (1e33, 2e33)]
)
def test_standard_errors_cover_the_errors_of_extreme_parameters(alpha):
    """Rare classes show in no draw, and huge parameters differ from the mean by rounding only."""
    q = sw.Dirichlet(np.array(alpha))
    exact = sw.decompose(q, "spherical").epistemic
    d = sw.decompose(q, "pseudospherical:2")
    assert abs(d.epistemic - exact) <= 4 * d.standard_error.epistemic


@pytest.mark.parametrize("library", ["numpy", "jax"])
@pytest.mark.parametrize("alpha", [(3.0, 2.0), (1e-5, 1.0), (20.0, 1.0, 0.5)])
def test_own_rules_are_simulated_in_the_arrays_they_are_written_for(alpha, library):
    import jax.numpy as jnp

    own = np if library == "numpy" else jnp
    q = sw.Dirichlet(own.asarray(alpha))
    exact = float(sw.decompose(sw.Dirichlet(np.array(alpha)), "log").epistemic)

    def log(p):  # draws of tiny parameters are 0, others are not
        return own.log(p if min(alpha) > 0.01 else own.maximum(p, 1e-30))

    for rule in (
        sw.rule_from_loss_vector(lambda p: -log(p), name="own log"),
        sw.rule_from_entropy(
            lambda p: -(p * log(p)).sum(-1), lambda p: -1 - log(p), name="own entropy"
        ),
    ):
        d = sw.decompose(q, rule)
        assert isinstance(d.total, type(q.alpha[0]))
        assert abs(d.epistemic - exact) <= 4 * d.standard_error.epistemic + 1e-6


def test_simulated_regrets_do_not_overstate_their_error():
    for scale in (1e6, 1e14):
        q = sw.Dirichlet(np.full(3, scale))
        d = sw.decompose(q, sw.rules.cost_matrix(1 - np.eye(3)))
        exact = sw.decompose(q, "zero-one").epistemic
        assert d.standard_error.epistemic < 1e-2 * exact
        assert abs(d.epistemic - exact) <= 4 * d.standard_error.epistemic


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


@pytest.mark.parametrize(
    "alpha", [(2.0, 1.0, 3.0), (10.0, 1e-7, 1e-6), (1e7, 3.0, 1e6), (1.0, 1e-20, 1e-15)]
)
def test_float32_parameters_give_float32(alpha):
    alpha = np.random.default_rng(0).uniform(0.5, 9, (5, 3)) * np.float32(alpha)
    alpha = alpha.astype(np.float32).astype(np.float64)
    for name, rule in all_rules(3).items():
        narrow = sw.decompose(sw.Dirichlet(alpha.astype(np.float32)), rule)
        for got, exact in zip(narrow, sw.decompose(sw.Dirichlet(alpha), rule), strict=True):
            assert got.dtype == np.float32
            exact = exact.astype(np.float32)  # a simulated value of 1e-60 is 0
            np.testing.assert_allclose(got, exact, rtol=1e-6, err_msg=name)


def test_empty_batches_and_any_shape():
    for batch in [(), (0,), (2, 3)]:
        for rule in all_rules(3).values():
            assert sw.decompose(sw.Dirichlet(np.ones((*batch, 3))), rule).epistemic.shape == batch


def test_closed_forms_have_gradients_and_the_rest_says_it_has_none():
    import torch

    alpha = torch.tensor([3.0, 2.0, 1.5], dtype=torch.float64, requires_grad=True)
    for rule in ("log", "brier", "tsallis:1.5", "rps"):
        assert torch.autograd.gradcheck(
            lambda a, rule=rule: tuple(sw.decompose(sw.Dirichlet(a), rule)), (alpha,)
        )
    for rule in ("zero-one", "spherical", "pseudospherical:3"):
        with pytest.raises(sw.InvalidInput, match="cannot be differentiated or traced"):
            sw.decompose(sw.Dirichlet(alpha), rule)


@pytest.mark.parametrize(
    ("alpha", "message"),
    [
        ([1.0, 0.0], r"alpha\[1\] is 0.0"),
        ([[1.0, 2.0], [1.0, -1.0]], r"alpha\[1, 1\] is -1.0"),
        ([1.0, np.inf], r"alpha\[1\] is inf"),
        ([1.0, np.nan], r"alpha\[1\] is nan"),
        ([1e-310, 1.0], "from 1e-100 to 1e100"),
        ([1.0, 1e300], "from 1e-100 to 1e100"),
        ([1.0], "at least 2"),
        ([1, 2], "dtype int64"),
        (1.0, "at least 2"),
    ],
)
def test_bad_parameters_are_refused(alpha, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.Dirichlet(alpha)
    assert repr(sw.Dirichlet([1.0, 2.0])) == "Dirichlet(2 classes, batch (), float64)"


# -- labels ----------------------------------------------------------------------------------------


def test_each_label_has_its_members_and_weights():
    probs = sw.binary(np.random.default_rng(0).random((5, 3, 4)))  # 5 rows, 3 labels, 4 members
    weights = np.random.default_rng(1).random((5, 3, 4))
    samples = sw.by_label(probs, "xyz", weights=weights, class_names=["no", "yes"])
    assert list(samples) == ["x", "y", "z"]
    whole = sw.decompose(probs, "log", weights=weights)
    for j, of_label in enumerate(samples.values()):
        assert of_label.shape == (5, 4, 2)
        assert of_label.classes_.tolist() == ["no", "yes"]
        np.testing.assert_allclose(sw.decompose(of_label, "log").total, whole.total[:, j])
    assert list(sw.by_label(sw.Samples(probs, weights=[1, 2, 3, 4]))) == [0, 1, 2]


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((5, 4, 2), {}, r"shape \(5, 4, 2\) with members before classes"),
        ((5, 3, 4, 3), {}, r"those of several labels have \(N, L, M, 2\)"),
        ((5, 3, 4, 2), {"names": ["x", "y"]}, "there are 3 labels, and names are 'x', 'y'"),
        ((5, 3, 4, 2), {"names": ["x", "y", "x"]}, "each label needs a name of its own"),
    ],
)
def test_predictions_that_are_not_of_labels_are_refused(shape, options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.by_label(np.full(shape, 1 / shape[-1]), **options)


def test_samples_of_labels_take_no_options():
    samples = sw.Samples(np.full((5, 3, 4, 2), 0.5))
    with pytest.raises(sw.InvalidInput, match="not together with Samples"):
        sw.by_label(samples, weights=[1, 1, 1, 1])
