"""The beta family by the CPU kernel: accuracy, laws, and what it declines."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import scorewise as sw
from support import (
    PATHS,
    PRECISION,
    assert_accurate,
    assert_same,
    by_array,
    by_kernel,
    known_to_kernel,
)

PARAMETERS = [
    (0, 0),
    (0.5, 2),
    (-0.5, -0.3),
    (1, 1),
    (0, 1),
    (2, 0),
    (0.01, -0.01),
    (1 / 64, -1 / 64),
    (-0.9, 2),
    (-0.99, 0.5),
    (0, 5),
    (8, 2),
    (50, 50),
    (0.5, 20),
    (20, 1),
]

GRID = (-0.9, 0, 0.5, 1, 2, 8, 20, 50)
TOO_SKEWED = [{-0.9, 20}, *({small, 50} for small in GRID[:4])]


def two(small: np.ndarray, is_first: np.ndarray, dtype: str) -> np.ndarray:
    """Rows (..., 2) of a small probability, of class 0 if it is first, and its complement."""
    small = small.astype(dtype)
    rows = np.stack([small, 1 - small], axis=-1)
    return np.where(is_first[..., None], rows, rows[..., ::-1])


def cases(dtype: str) -> np.ndarray:
    """Instances (N, 4, 2): doubtful, near-agreeing, about a half, confident, one-hot."""
    rng = np.random.default_rng(0)
    unit, noise = PRECISION[dtype][1] / 2, rng.normal(size=(2, 4))
    side, one_side = rng.random((2, 4)) < 0.5, np.array([[True], [False]]) & np.ones(4, bool)
    spread = 1e-4 if dtype == "float64" else 1e-3

    def exact(p: np.ndarray) -> np.ndarray:  # rows sum to 1
        return np.round(p / unit) * unit

    return np.concatenate(
        [
            two(exact(rng.uniform(0, 0.5, (2, 4))), side, dtype),
            two(exact(0.3 * (1 + spread * noise)), one_side, dtype),
            two(exact(0.5 - spread * np.abs(noise)), side, dtype),
            two(1e-6 * np.exp(noise), one_side, dtype),
            two(1e-12 * np.exp(noise / 9), one_side, dtype),
            two(10.0 ** -rng.uniform(1, 30, (2, 4)), side, dtype),
            two(np.array([[0, 0.1, 0.2, 0], [0, 0, 0, 0.0]]), side, dtype),
        ]
    )


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_components_are_accurate(parameters: tuple[float, float], dtype: str):
    rule, probs = sw.rules.beta(*parameters), cases(dtype)
    assert known_to_kernel(rule)
    weights = np.array([3.0, 1.0, 0.0, 0.5])
    for w in (None, weights):
        d = by_kernel(probs, rule, w)
        for i in range(len(probs)):
            expected = reference.decompose(rule, probs[i], w)
            assert_accurate(d, i, expected, dtype, f"{rule!r} {i} {w}")


@pytest.mark.parametrize("a", GRID)
@pytest.mark.parametrize("b", GRID)
def test_components_are_accurate_wherever_the_loss_is_centred(a: float, b: float):
    rule = sw.rules.beta(a, b)
    assert known_to_kernel(rule) == ({a, b} not in TOO_SKEWED)
    rng, center = np.random.default_rng(0), (a + 1) / (a + b + 2)
    spreads = np.array([1.0, 0.1, 1e-3])[:, None]
    p = np.round(np.clip(center * (1 + spreads * rng.normal(size=(3, 4))), 0, 1) * 2**20) / 2**20
    for dtype in PRECISION:
        probs = np.stack([1 - p, p], axis=-1).astype(dtype)
        d = by_kernel(probs, rule)
        for i in range(len(probs)):
            expected = reference.decompose(rule, probs[i], None)
            assert_accurate(d, i, expected, dtype, f"{rule!r} {i}")


@given(data=st.data(), dtype=st.sampled_from(list(PRECISION)))
@settings(max_examples=60, deadline=None)
def test_rows_that_sum_to_1_within_tolerance_mean_the_same_on_all_paths(data, dtype: str):
    rule = sw.rules.beta(*data.draw(st.sampled_from(PARAMETERS[:8])))
    center = data.draw(st.just(0.0) | st.floats(1e-20, 1))  # as far as the reference has digits
    spread = data.draw(st.sampled_from([1.0, 1e-2, 1e-4, 0.0]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    p = center + spread * (rng.uniform(size=(3, 4)) - center)
    off = 1 + {"float32": 9e-5, "float64": 9e-7}[dtype] * rng.uniform(-1, 1, (3, 4, 1))
    probs = (np.stack([1 - p, p], axis=-1) * off).astype(dtype)
    for name, decompose in PATHS.items():
        d = decompose(probs, rule)
        for i in range(3):
            total, aleatoric, epistemic = expected = reference.decompose(rule, probs[i])
            assert abs(total - aleatoric - epistemic) <= 1e-30 * (1 + total)
            assert_accurate(d, i, expected, dtype, name)
            assert min(part[i] for part in d) >= 0
    assert (rule.divergence(probs, probs) == 0).all()


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_identical_members_have_no_epistemic_uncertainty(parameters, dtype: str):
    rule, probs = sw.rules.beta(*parameters), cases(dtype)
    same = np.repeat(probs[:, :1], 5, axis=1)
    for weights in (None, np.array([1e-9, 0.0, 1.0, 3.0, 0.1])):
        assert (by_kernel(same, rule, weights).epistemic == 0).all()
    d = by_kernel(probs, rule)
    assert all((part >= 0).all() and np.isfinite(part).all() for part in d)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_logits_masses_and_layouts_are_read_as_by_the_array_path(parameters):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(37, 1, 2)) + rng.choice([1e-3, 2.0], (37, 1, 1)) * rng.normal(
        size=(37, 6, 2)
    )
    rule = {"": sw.rules.beta(*parameters)}
    scale = float(sw.rules.beta(*parameters).entropy([0.5, 0.5]))
    tolerance = {"rtol": 1e-9, "atol": 1e-15 * max(1, scale)}
    for values, options in (
        (logits, {"from_logits": True}),
        (np.exp(logits), {"normalize": True}),
        (logits.swapaxes(0, 1), {"from_logits": True, "member_axis": 0}),
        (np.repeat(logits, 2, axis=-1)[..., ::2], {"from_logits": True}),
    ):
        for w in (None, rng.uniform(size=6), rng.uniform(size=(37, 6))):
            got, right = (f(values, rule, w, **options) for f in (by_kernel, by_array))
            assert_same(got, right, **tolerance)


def test_tiny_probabilities_count_where_losses_are_nearly_infinite():
    """c^(a + 1) is far from 0 for a near −1, also where c is below the normal numbers."""
    for dtype, small in (("float32", 1e-40), ("float64", 1e-310)):
        rows = np.array([[[1.0, small]], [[small, 1.0]]], dtype)
        expected = float(rows[0, 0, 1]) ** 0.1 / 0.09
        for row, parameters in zip(rows, ((-0.9, 0.5), (0.5, -0.9)), strict=True):
            got = by_kernel(row[None], sw.rules.beta(*parameters)).total
            np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("path", [by_array, by_kernel])
@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_member_that_alone_gives_a_class_its_probability_can_be_left_out(path, dtype, is_first):
    """Its rest of the mean would be rounding errors, and c^0.1 is far from 0 at 1e-17."""
    small, shares = np.array([[0.25, 1e-25, 3e-24, 1e-30]]), np.array([1e-3, 1.0, 0.2, 0.0])
    probs = two(small, np.full(small.shape, is_first), dtype)
    rule = sw.rules.beta(-0.9, 1) if not is_first else sw.rules.beta(1, -0.9)
    weights, total_of = [mp.mpf(x) for x in shares], reference.entropy(rule)

    def total(left_out: int | None) -> mp.mpf:
        own = [0 if m == left_out else x for m, x in enumerate(weights)]
        columns = zip(*map(reference.row, probs[0]), strict=True)
        return total_of([mp.fdot(own, column) / mp.fsum(own) for column in columns])

    w = [x / mp.fsum(weights) for x in weights]
    psi = [(1 - x) * (total(None) - total(m)) for m, x in enumerate(w)]
    terms = [(i - x * mp.fsum(psi)) ** 2 / (1 - x) for i, x in zip(psi, w, strict=True)]
    expected = float(mp.sqrt(mp.fsum(terms)))
    got = path(probs, rule, shares, standard_errors=True).standard_error.total
    np.testing.assert_allclose(got, expected, rtol=PRECISION[dtype][0])


@pytest.mark.parametrize("parameters", [(-0.999, 0), (2, 100), (1000, 1000)])
def test_extreme_parameters_take_the_array_path(parameters):
    rule = sw.rules.beta(*parameters)
    assert not known_to_kernel(rule)
    assert sw.explain_kernel(np.full((3, 2, 2), 0.5), rule).path == "array"
    assert mp.isfinite(float(sw.decompose(np.full((3, 2, 2), 0.5), rule).total[0]))


@pytest.mark.parametrize("a", [1e-3, 0.01, 0.1])
def test_reverse_divergence_is_right_from_a_member_without_doubt(a):
    def antiderivative(p, x):  # of (p − x)·x^(a − 1)·(1 − x) in x
        return x**a * (p / a - (1 + p) * x / (a + 1) + x * x / (a + 2))

    mean, member = mp.mpf("0.15"), mp.mpf("0.3")
    expected = antiderivative(mean, mean) - antiderivative(mean, member) / 2
    probs = np.array([[[1.0, 0.0], [0.7, 0.3]]])
    got = sw.reverse_epistemic(probs, sw.rules.beta(a, 2))[0]
    assert float(got) == pytest.approx(float(expected), rel=1e-12)
