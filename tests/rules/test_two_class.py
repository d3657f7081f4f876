"""The beta family: its whole range of parameters against 50-digit arithmetic, laws, gradients."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import torch

import reference
import scorewise as sw
from support import PRECISION

PARAMETERS = [
    (0, 0),
    (1, 1),
    (0.5, 2),
    (0, 5),
    (-0.5, -0.3),
    (0.01, -0.01),
    (-0.999, -0.999),
    (-0.99, 30),
    (-0.9, 100),
    (0.5, 128),
    (20, 1000),
    (300, 1),
    (1000, 1),
    (1000, -0.999),
    (100, 100),
]


def pairs(small: np.ndarray, first: np.ndarray | bool, dtype: str) -> np.ndarray:
    """Rows of a small probability, of class 0 where ``first``, and its complement."""
    small = small.astype(dtype)
    rows = np.stack([small, 1 - small], axis=-1)
    return np.where(np.broadcast_to(first, small.shape)[..., None], rows, rows[..., ::-1])


def cases(dtype: str, n: int = 2, m: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    unit, noise = PRECISION[dtype][1] / 2, 1e-4 if dtype == "float64" else 1e-3

    def rounded(p: np.ndarray) -> np.ndarray:  # so that rows sum to 1 exactly
        return np.round(p / unit) * unit

    soft = rounded(rng.uniform(0, 0.5, (n, m)))
    center = rng.uniform(0.02, 0.5, (n, 1))
    some, side = rng.random((n, m)) < 0.5, rng.random((n, 1)) < 0.5
    close = rng.normal(size=(n, m))
    return {
        "random": pairs(soft, some, dtype),
        "near-identical": pairs(rounded(center * (1 + noise * close)), side, dtype),
        "about a half": pairs(rounded(0.5 - noise * np.abs(close)), some, dtype),
        "confident 1e-6": pairs(1e-6 * np.exp(close / 2), side, dtype),
        "confident 1e-12": pairs(1e-12 * np.exp(close / 2), side, dtype),
        "confident and wrong": pairs(10.0 ** -rng.uniform(1, 30, (n, m)), some, dtype),
        "one-hot against soft": pairs(np.where(np.arange(m) < 1, 0.0, soft), some, dtype),
    }


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_decomposition_is_accurate(parameters: tuple[float, float], dtype: str):
    rule = sw.rules.beta(*parameters)
    relative, unit = PRECISION[dtype]
    losses = rule.loss_vector(np.array([[0.5, 0.5], [0.1, 0.9], [0.9, 0.1]]))
    tolerance = 4 * unit * losses.max() + np.finfo(dtype).tiny  # floats may be too coarse
    for case, probs in cases(dtype, n=2 if dtype == "float64" else 1).items():
        d = sw.decompose(probs, rule)
        for i in range(len(probs)):
            *parts, epistemic = reference.decompose(rule, probs[i])
            for got, exact in zip(d, parts, strict=False):
                error = abs(mp.mpf(float(got[i])) - exact)
                assert error <= relative * exact + tolerance, (case, i, exact, got[i])
            error = abs(mp.mpf(float(d.epistemic[i])) - epistemic)
            floor = 1e-9 if dtype == "float32" else 1e-60  # what the reference has digits for
            assert error <= relative * max(epistemic, floor), (case, i, epistemic, d.epistemic[i])


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_divergences_and_losses_have_relative_accuracy(parameters: tuple[float, float]):
    rule = sw.rules.beta(*parameters)
    small = np.array([1e-40, 1e-9, 0.003, 0.1, 0.25])
    rows = np.concatenate([pairs(small, True, "float64"), pairs(small, False, "float64")])
    exact_rows = [reference.row(r) for r in rows]
    divergence = reference.divergence(rule)
    for i, q in enumerate(exact_rows):
        exact = [*reference.beta_losses(rule, *q), *(divergence(q, p) for p in exact_rows[::5])]
        got = [*rule.loss_vector(rows[i]), *rule.divergence(rows[i], rows[::5])]
        for x, y in zip(got, exact, strict=True):
            assert abs(mp.mpf(float(x)) - y) <= 1e-12 * y + 1e-60, (rows[i], x, y)


def test_the_reference_is_the_integral_of_the_table():
    for a, b in [(0.5, 2), (-0.5, -0.3), (3, -0.4), (8, 5)]:
        q, p = reference.row([0.75, 0.25]), reference.row([0.375, 0.625])

        def omega(c, a=a, b=b):
            return c ** (mp.mpf(a) - 1) * (1 - c) ** (mp.mpf(b) - 1)

        exact = mp.quad(lambda c, f=omega: (p[1] - c) * f(c), mp.linspace(q[1], p[1], 5))  # noqa: B023
        rule = sw.rules.beta(a, b)
        assert abs(reference.divergence(rule)(q, p) - exact) < 1e-30 * exact
        loss = mp.quad(lambda c, f=omega: (1 - c) * f(c), [p[1], 0.8, 0.95, 1])
        assert abs(reference.beta_losses(rule, *p)[1] - loss) < 1e-12 * loss


@pytest.mark.parametrize("parameters", [*PARAMETERS, (1000, 1000)])
def test_the_rule_keeps_the_laws(parameters: tuple[float, float]):
    rule = sw.rules.beta(*parameters)
    sw.check_rule(rule, n_classes=2, n_samples=200)
    for dtype in PRECISION:
        for case, probs in cases(dtype).items():
            same = np.repeat(probs[:, :1], 4, axis=1)
            assert (sw.decompose(same, rule).epistemic == 0).all(), case
            assert (rule.loss_vector(probs) >= 0).all(), case
            assert (rule.divergence(probs, probs) == 0).all(), case
    corners = np.eye(2)
    assert (rule.divergence(corners, corners) == 0).all()
    assert (np.diag(rule.loss_vector(corners)) == 0).all()
    infinite = np.isinf(rule.loss_vector(corners))
    np.testing.assert_array_equal(
        infinite, [[False, parameters[0] <= 0], [parameters[1] <= 0, False]]
    )


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_gradients_are_right_and_finite_at_tiny_probabilities(parameters: tuple[float, float]):
    rule = sw.rules.beta(*parameters)

    def uncertainty(z):
        d = sw.decompose(z, rule, from_logits=True)
        return d.total + 2 * d.aleatoric + 3 * d.epistemic

    z = torch.asarray(np.random.default_rng(0).normal(size=(3, 2))).requires_grad_()
    assert torch.autograd.gradcheck(uncertainty, (z,), atol=1e-7)
    for e in (1.2e-38, 1e-30, 1e-12, 1e-6):
        for row in ([1, 3 * e], [0.5, 0.5], [e, 1], [1, e]):
            p = torch.tensor([[1, e], row], dtype=torch.float32, requires_grad=True)
            sw.decompose(p, rule).epistemic.backward()
            assert torch.isfinite(p.grad).all(), (e, row)


def test_jax_compiles_it_and_its_gradient():
    import jax

    rule = sw.rules.beta(-0.5, 30)
    with jax.enable_x64(True):
        probs = jax.numpy.asarray(cases("float64")["random"])
        value, slope = jax.jit(jax.value_and_grad(lambda p: sw.decompose(p, rule).epistemic.sum()))(
            probs
        )
    np.testing.assert_allclose(value, sw.decompose(np.asarray(probs), rule).epistemic.sum())
    assert np.isfinite(slope).all()
