"""The same claims with far more draws: run by `make test-full`."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
import scorewise as sw
from support import PATHS, all_rules, assert_accurate, softmax

pytestmark = pytest.mark.long


@pytest.mark.parametrize("k", [2, 3, 10, 40])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_accuracy_over_many_random_members(k: int, dtype: str):
    rng = np.random.default_rng(k)
    for trial in range(60):
        m = int(rng.integers(1, 15))
        center = rng.normal(size=(1, 1, k)) * 10.0 ** rng.uniform(-1, 1)
        noise = 10.0 ** rng.uniform(-4.5, 1) * rng.normal(size=(1, m, k))
        probs = softmax(center + noise).astype(dtype)
        for name, rule in all_rules(k, seed=trial).items():
            expected = reference.decompose(rule, probs[0])
            for path, decompose in PATHS.items():
                d = decompose(probs, rule)
                assert_accurate(d, 0, expected, dtype, f"{path} {name} trial {trial}")


@pytest.mark.parametrize("name", all_rules(6))
def test_dirichlets_against_ten_million_draws(name: str):
    rng = np.random.default_rng(11)
    rule = all_rules(6)[name]
    for alpha in (rng.uniform(0.1, 2, 6), rng.uniform(1, 50, 6), rng.uniform(100, 900, 6)):
        mean = alpha / alpha.sum()
        d = sw.decompose(sw.Dirichlet(alpha), rule)
        own = 0.0 if d.standard_error is None else float(d.standard_error.epistemic)
        sums = np.zeros(2)
        for _ in range(20):
            theta = rng.dirichlet(alpha, 500_000)
            excess = rule.divergence(np.broadcast_to(mean, theta.shape), theta)
            sums += excess.sum(), (excess**2).sum()
        average, square = sums / 1e7
        error = math.sqrt(max(square - average**2, 0) / 1e7)
        assert abs(float(d.epistemic) - average) <= 5 * math.hypot(error, own) + 1e-15


@pytest.mark.parametrize(("rule", "factor"), [("brier", 100), ("log", 5)])
def test_the_bias_of_five_members_over_five_million_instances(rule: str, factor: float):
    rng = np.random.default_rng(2)
    plain, corrected = [], []
    for _ in range(50):
        probs = rng.dirichlet([4.0, 3.0, 2.0, 1.0], (100_000, 5))
        plain.append(sw.decompose(probs, rule).epistemic.mean())
        corrected.append(sw.decompose(probs, rule, unbiased=True).epistemic.mean())
    truth = float(sw.decompose(sw.Dirichlet([4.0, 3.0, 2.0, 1.0]), rule).epistemic)
    bias, rest = np.mean(plain) - truth, np.mean(corrected) - truth
    assert abs(rest) <= abs(bias) / factor
