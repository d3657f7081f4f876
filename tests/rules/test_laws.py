"""The laws: EU ≥ 0 everywhere, and exactly 0 where it is mathematically 0."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import scorewise as sw
from scorewise.rules import _decision as costs
from support import PATHS, all_rules, fill, members

DTYPES = ["float16", "float32", "float64"]


@st.composite
def second_order(draw, *, kind: str | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Members (N, M, K) of an awkward kind, with or without weights."""
    n, m, k = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = kind or draw(st.sampled_from(["random", "sparse", "one-hot", "ties", "near", "same"]))
    base = rng.dirichlet(np.full(k, draw(st.sampled_from([0.05, 1.0, 30.0]))), (n, 1))
    if kind == "random":
        p = rng.dirichlet(np.ones(k), (n, m))
    elif kind == "sparse":
        p = rng.dirichlet(np.full(k, 0.02), (n, m))
    elif kind == "one-hot":
        p = np.eye(k)[rng.integers(k, size=(n, m))]
    elif kind == "ties":
        p = rng.integers(0, 3, (n, m, k)) + 1.0
    elif kind == "near":
        p = base * np.exp(10.0 ** -rng.integers(1, 9) * rng.normal(size=(n, m, k)))
    else:
        p = np.repeat(base, m, axis=1)
    p = p / p.sum(axis=-1, keepdims=True)
    weights = None
    if draw(st.booleans()):
        weights = rng.uniform(size=draw(st.sampled_from([(m,), (n, m)]))) ** 8
        weights[..., rng.integers(m, size=m // 2)] = 0.0
        weights[..., rng.integers(m)] = 1.0
    return p.astype(draw(st.sampled_from(DTYPES))), weights


def every_path(probs: np.ndarray, rules: dict, weights: np.ndarray | None):
    return ((name, path(probs, rules, weights)) for name, path in PATHS.items())


@settings(max_examples=150)
@given(second_order())
def test_uncertainty_is_never_negative_and_adds_up(case):
    probs, weights = case
    unit = 1e-5 if probs.dtype != np.float64 else 1e-13
    unit *= 100 if probs.dtype == np.float16 else 1  # rows sum to 1 within 1e-3 only
    for path, results in every_path(probs, all_rules(probs.shape[-1]), weights):
        for name, (total, aleatoric, epistemic) in results.items():
            assert (epistemic >= 0).all(), (path, name)
            assert (aleatoric >= 0).all(), (path, name)
            assert (total >= 0).all(), (path, name)
            scale = 1 + total.max() * 10
            np.testing.assert_allclose(
                total, aleatoric + epistemic, atol=unit * scale, err_msg=f"{path} {name}"
            )


@settings(max_examples=100)
@given(second_order(kind="same"))
def test_epistemic_is_exactly_zero_for_identical_members(case):
    probs, weights = case
    for path, results in every_path(probs, all_rules(probs.shape[-1]), weights):
        for name, d in results.items():
            assert (d.epistemic == 0).all(), (path, name)


@settings(max_examples=100)
@given(second_order(kind="random"), st.integers(0, 10**6))
def test_epistemic_is_exactly_zero_where_members_agree(case, seed):
    probs, weights = case
    k = probs.shape[-1]
    favourite = np.random.default_rng(seed).integers(k, size=len(probs))
    # Give everyone the same favourite, sometimes only just: a tie is agreement too.
    for i, y in enumerate(favourite):
        for row in probs[i]:
            top = int(row.argmax())
            row[top], row[y] = row[y], row[top]
            if seed % 2:
                other = (y + 1) % k
                row[[y, other]] = (row[y] + row[other]) / 2
                row[other] = min(row[other], row[y])
                row[y] = max(row[y], row.max())
    probs /= probs.sum(axis=-1, keepdims=True)
    agreed = (probs == probs.max(axis=-1, keepdims=True)).all(axis=1).any(axis=-1)
    for path, results in every_path(probs, {"01": "zero-one"}, weights):
        assert (results["01"].epistemic[agreed] == 0).all(), path
    assert agreed.any()


@settings(max_examples=60)
@given(second_order(kind="random"), st.integers(1, 11))
def test_epistemic_is_exactly_zero_where_members_agree_on_the_set_or_action(case, size):
    probs, weights = case
    k = probs.shape[-1]
    size = min(size, k)
    probs = -np.sort(-probs, axis=-1)  # everyone ranks the classes alike
    costs = 1 - np.eye(k)  # and the first action is best for all
    rules = {"set": sw.rules.top_k(size), "action": sw.rules.cost_matrix(costs)}
    for path, results in every_path(probs, rules, weights):
        for name, d in results.items():
            assert (d.epistemic == 0).all(), (path, name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_rows_decide_alike_however_a_matrix_product_is_summed(dtype, monkeypatch):
    """Libraries sum the rows of one product in different orders; here every other row backwards."""

    def matmul(xp, a, b):
        product = a @ b
        product[..., 1::2, :] = a[..., 1::2, ::-1] @ b[::-1]
        return product

    monkeypatch.setattr(costs, "matmul", matmul)
    rng = np.random.default_rng(0)
    for k, actions in [(7, 5), (50, 20), (333, 7), (1000, 9)]:
        for row in (np.full(k, 1 / k), rng.dirichlet(np.ones(k))):
            probs = np.broadcast_to(row.astype(dtype), (30, 4, k))
            column = rng.uniform(size=k)  # permuted, it costs a uniform row the same
            columns = [rng.permutation(column) for _ in range(actions)]
            rule = sw.rules.cost_matrix(np.stack(columns, axis=1))
            assert (sw.decompose(probs, rule).epistemic == 0).all(), (k, actions)
            assert (fill(probs, rule).result().epistemic == 0).all(), (k, actions)


def test_a_tied_cost_is_no_disagreement():
    """0-1 costs of uniform members tie in theory; sums of different order must not untie them."""
    for k in (3, 7, 10, 50, 100):
        rng = np.random.default_rng(k)
        probs = np.full((200, 3, k), 1 / k)
        probs[:, 1] = -np.sort(-rng.dirichlet(np.ones(k), 200), axis=-1)
        rule = sw.rules.cost_matrix(1 - np.eye(k))
        assert (sw.decompose(probs, rule).epistemic == 0).all()


def own_rules() -> dict[str, sw.rules.ScoringRule]:
    def log_losses(p):
        return -np.log(p)

    return {
        "losses": sw.rule_from_loss_vector(log_losses, name="own log"),
        "entropy": sw.rule_from_entropy(
            lambda p: -(p * np.log(p)).sum(-1), lambda p: -1 - np.log(p), name="own entropy"
        ),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_own_rules_keep_the_laws_on_every_path(dtype):
    rng = np.random.default_rng(0)
    for trial in range(100):
        same, noise = trial % 2 == 0, 10.0 ** -rng.integers(1, 9)
        probs = rng.dirichlet(np.full(5, 3.0), (4, 1)) + 1e-3
        probs = probs * np.exp((0 if same else noise) * rng.normal(size=(4, 3, 5)))
        probs = (probs / probs.sum(axis=-1, keepdims=True)).astype(dtype)
        for path, results in every_path(probs, own_rules(), rng.uniform(size=3)):
            for name, d in results.items():
                assert (d.epistemic >= 0).all(), (path, name)
                assert not same or (d.epistemic == 0).all(), (path, name)


def test_a_quadratic_rule_is_exactly_zero_along_what_it_does_not_see():
    for matrix in (np.diag([1.0, 0, 0]), [[1, 0, 0], [0, 1, 1], [0, 1, 1]], np.ones((3, 3))):
        rule = sw.rules.quadratic(matrix)  # to confuse classes 1 and 2 costs nothing
        probs = np.array([[[0.25, 0.25, 0.5], [0.25, 0.5, 0.25], [0.25, 0.75, 0.0]]])
        for path, d in every_path(probs, {"": rule}, None):
            assert (d[""].epistemic == 0).all(), path


@settings(max_examples=100)
@given(second_order())
def test_divergence_is_exactly_zero_from_a_point_to_itself(case):
    p = case[0]
    for name, rule in all_rules(p.shape[-1]).items():
        assert (rule.divergence(p, p) == 0).all(), name


@settings(max_examples=60)
@given(second_order(), st.randoms(use_true_random=False))
def test_order_of_members_instances_and_classes_does_not_matter(case, random):
    probs, weights = case
    tolerance = (
        {"rtol": 2e-3, "atol": 1e-6}
        if probs.dtype != np.float64
        else {"rtol": 1e-10, "atol": 1e-15}
    )
    n, m, k = probs.shape
    i, j, c = (random.sample(range(size), size) for size in (n, m, k))
    rules = all_rules(k)
    expected = sw.decompose(probs, rules, weights=weights)
    moved = None if weights is None else (weights[i][:, j] if weights.ndim == 2 else weights[j])
    shuffled = sw.decompose(probs[i][:, j], rules, weights=moved)
    symmetric = {
        name: r
        for name, r in rules.items()
        if name.split(":")[0]
        in {"log", "brier", "zero-one", "spherical", "tsallis", "pseudospherical", "top-k"}
    }
    relabelled = sw.decompose(probs[..., c], symmetric, weights=weights)
    for name in rules:
        for a, b in zip(shuffled[name], expected[name], strict=True):
            np.testing.assert_allclose(a, b[i], **tolerance, err_msg=name)
    for name in symmetric:
        for a, b in zip(relabelled[name], expected[name], strict=True):
            np.testing.assert_allclose(a, b, **tolerance, err_msg=name)


@pytest.mark.parametrize(
    ("dtype", "off"), [("float32", 9e-5), ("float64", 9e-7), ("float16", 9e-4)]
)
@pytest.mark.parametrize("k", [2, 10, 500])
def test_rows_that_sum_to_one_only_within_tolerance_stay_nonnegative(dtype, off, k):
    rng = np.random.default_rng(0)
    one_hot = np.eye(k)[rng.integers(k, size=(30, 4))]
    for probs in (one_hot, rng.dirichlet(np.full(k, 0.02), (30, 4))):
        for sign in (-1, 1):
            x = (probs * (1 + sign * off)).astype(dtype)
            x /= (
                1
                if dtype != "float16"
                else (x.astype(float).sum(-1, keepdims=True) / (1 + sign * off))
            )
            for name, d in sw.decompose(x, all_rules(k), check=False).items():
                assert all((part >= 0).all() for part in d), name


def test_negative_zero_is_zero():
    probs = np.array([[[1.0, -0.0, 0.0], [0.5, -0.0, 0.5]]])
    clean = np.abs(probs)
    for name, d in sw.decompose(probs, all_rules(3)).items():
        for a, b in zip(d, sw.decompose(clean, all_rules(3)[name]), strict=True):
            assert (a == b).all(), name


def test_a_member_without_weight_does_not_count():
    probs = members(20, 5, 4)
    probs[:, 2] = np.eye(4)[0]
    weights = np.array([1.0, 2.0, 0.0, 0.5, 1.0])
    keep = weights > 0
    for path, results in every_path(probs, all_rules(4), weights):
        expected = sw.decompose(probs[:, keep], all_rules(4), weights=weights[keep])
        for name, d in results.items():
            for a, b in zip(d, expected[name], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-16, err_msg=f"{path} {name}")


def test_weights_work_in_any_scale():
    probs = members(20, 5, 4)
    weights = np.random.default_rng(0).uniform(size=5)
    expected = sw.decompose(probs, "log", weights=weights).epistemic
    for scale in (1e-300, 1e-5, 1e300):
        got = sw.decompose(probs, "log", weights=weights * scale).epistemic
        np.testing.assert_allclose(got, expected, rtol=1e-12)
        single = sw.decompose(probs.astype(np.float32), "log", weights=weights * scale)
        np.testing.assert_allclose(single.epistemic, expected, rtol=1e-4)


@settings(max_examples=60)
@given(second_order())
def test_merge_identity_holds_for_every_rule(case):
    """(W₁+W₂)·EU = W₁EU₁ + W₂EU₂ + W₁D(μ, μ₁) + W₂D(μ, μ₂)."""
    probs = case[0].astype(np.float64)
    probs /= probs.sum(axis=-1, keepdims=True)
    if probs.shape[1] < 2:
        return
    for name, rule in all_rules(probs.shape[-1]).items():
        first, second = sw.Samples(probs[:, :1]), sw.Samples(probs[:, 1:])
        all_members = sw.Samples(probs)
        w1, w2 = 1, probs.shape[1] - 1
        right = (
            w2 * sw.decompose(second, rule).epistemic
            + w1 * rule.divergence(all_members.mean, first.mean)
            + w2 * rule.divergence(all_members.mean, second.mean)
        )
        left = (w1 + w2) * sw.decompose(all_members, rule).epistemic
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-13, err_msg=name)
