"""The risk of the prediction that is deployed: decompose(..., predictor=p)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import scorewise as sw
from scorewise.rules import DecisionRule
from support import (
    PRECISION,
    Library,
    all_rules,
    by_array,
    by_kernel,
    kernel_only,
    known_to_kernel,
    may_rechunk,
    members,
    softmax,
)

PATHS = {"array": by_array, "kernel": by_kernel}


def predictions(n: int, k: int, seed: int = 7) -> np.ndarray:
    """Random predictions (n, k)."""
    return members(n, 1, k, seed)[:, 0]


def normalized(p: np.ndarray) -> np.ndarray:
    return p / p.sum(axis=-1, keepdims=True)


def decisions(k: int) -> dict[str, sw.rules.ScoringRule]:
    return {n: r for n, r in all_rules(k).items() if isinstance(r, DecisionRule)}


def fused(k: int) -> dict[str, sw.rules.ScoringRule]:
    return {n: r for n, r in all_rules(k).items() if known_to_kernel(r)}


# -- laws -----------------------------------------------------------------------------------------


@st.composite
def cases(draw: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Members (5, M, K), predictions (5, K) and weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, k = draw(st.sampled_from([1, 2, 5])), draw(st.sampled_from([2, 3, 7]))
    spread = draw(st.sampled_from([0.0, 1e-6, 0.1, 3.0]))
    logits = 2 * rng.normal(size=(5, 1, k)) + spread * rng.normal(size=(5, m, k))
    distance = draw(st.sampled_from([0.0, 1e-5, 1.0]))
    q = logits[:, 0] + distance * rng.normal(size=(5, k))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    weights = rng.uniform(0.1, 1, (5, m)) if draw(st.booleans()) else None
    return softmax(logits).astype(dtype), softmax(q).astype(dtype), weights


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=25)
@given(cases())
def test_no_prediction_has_a_smaller_risk_than_the_mean(path: str, case: Any):
    probs, q, weights = case
    relative, unit = PRECISION[str(probs.dtype)]
    rules = all_rules(probs.shape[-1])
    plain = PATHS[path](probs, rules, weights)
    for name, d in PATHS[path](probs, rules, weights, predictor=q).items():
        assert d.total.dtype == probs.dtype
        assert (d.epistemic >= plain[name].epistemic * (1 - relative)).all(), name
        np.testing.assert_array_equal(d.total, d.aleatoric + d.epistemic)
        np.testing.assert_array_equal(d.aleatoric, plain[name].aleatoric, err_msg=name)
        loss = np.sum(rules[name].loss_vector(q)[:, None] * probs, axis=-1)
        total = np.average(loss, axis=-1, weights=weights)
        size = 1 + np.abs(rules[name].loss_vector(q)).max()
        np.testing.assert_allclose(d.total, total, rtol=0, atol=64 * unit * size, err_msg=name)


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=15)
@given(cases())
def test_the_mean_as_predictor_gives_the_usual_decomposition(path: str, case: Any):
    probs, _, weights = case
    relative, unit = PRECISION[str(probs.dtype)]
    rules = all_rules(probs.shape[-1])
    mean = sw.Samples(probs, weights).mean
    plain = PATHS[path](probs, rules, weights)
    for name, d in PATHS[path](probs, rules, weights, predictor=mean).items():
        size = 3 * probs.shape[-1] if name in {"cost-matrix", "quadratic"} else 1
        tied = 8 * unit * size if isinstance(rules[name], DecisionRule) else 1e-9 * relative
        for a, b, atol in zip(d, plain[name], (8 * unit * size, 0, tied), strict=True):
            np.testing.assert_allclose(a, b, rtol=3 * relative, atol=atol, err_msg=name)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("k", [2, 3, 40])
def test_epistemic_is_exactly_zero_where_all_members_equal_the_prediction(k, path, dtype):
    q = predictions(30, k).astype(dtype)
    probs = np.repeat(q[:, None], 4, axis=1)
    probs[::3, 1:] = members(10, 3, k).astype(dtype)
    options = {"check": dtype != "float16", "predictor": q}  # 40 rounded classes sum to less than 1
    for weights in (None, np.array([0.3, 1.7, 0.1, 5.0])):
        for name, d in PATHS[path](probs, all_rules(k), weights, **options).items():
            same = np.arange(30) % 3 > 0
            assert (d.epistemic[same] == 0).all(), name
            assert isinstance(all_rules(k)[name], DecisionRule) or (d.epistemic[~same] > 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_epistemic_is_exactly_zero_where_all_members_agree_with_the_decision(path, dtype, seed):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(4), (40, 5)).astype(dtype)
    q = rng.dirichlet(np.ones(4), 40).astype(dtype)
    for name, rule in decisions(4).items():
        own = np.sort(rule.loss_vector(q), axis=-1)
        agree = (np.sort(rule.loss_vector(probs), axis=-1) == own[:, None]).all(axis=-1)
        agree &= (rule.loss_vector(probs) == rule.loss_vector(q)[:, None]).all(axis=-1)
        chosen = np.where(agree[..., None], probs, q[:, None])  # others give way to q itself
        epistemic = PATHS[path](chosen, rule, predictor=q).epistemic
        assert agree.any(), name
        assert (epistemic == 0).all(), name


@pytest.mark.parametrize("path", PATHS)
def test_a_decision_that_is_tied_for_members_costs_them_nothing(path: str):
    rng = np.random.default_rng(0)
    tied = rng.uniform(0.35, 0.5, (400, 20))
    probs = np.stack([tied, tied, 1 - 2 * tied], axis=-1)
    first = 0.4 + 2.0**-54 * rng.integers(0, 3, 400)  # only this member prefers one of two classes
    probs[:, 0] = np.stack([first, 0.8 - first, np.full(400, 0.2)], axis=-1)
    for rule in ("zero-one", sw.rules.cost_matrix(1 - np.eye(3))):
        assert (PATHS[path](probs, rule, predictor=probs[:, 0]).epistemic == 0).all()


class Majority(DecisionRule):
    """Zero-one as a user may write it: by regrets, of which the package knows nothing more."""

    family = "majority"

    def _parameters(self) -> tuple[Any, ...]:
        return ()

    def _losses(self, xp: Any, p: Any) -> Any:
        return sw.rules.zero_one._losses(xp, p)

    def _entropy(self, xp: Any, p: Any) -> Any:
        return 1 - xp.max(p, axis=-1)

    def _divergence(self, xp: Any, q: Any, p: Any, d: Any) -> Any:
        return sw.rules.zero_one._divergence(xp, q, p, d)

    def _regret(self, xp: Any, p: Any) -> Any:
        return xp.max(p, axis=-1, keepdims=True) - p

    def _least_regret(self, xp: Any, mean_regret: Any) -> Any:
        return xp.min(mean_regret, axis=-1)


def test_a_decision_rule_of_the_user_averages_regrets_too():
    probs, q = members(40, 5, 3), predictions(40, 3)
    expected = sw.decompose(probs, "zero-one", predictor=q)
    for a, b in zip(sw.decompose(probs, Majority(), predictor=q), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    agree = (probs.argmax(axis=-1) == q.argmax(axis=-1)[:, None]).all(axis=-1)
    assert (sw.decompose(probs[agree], Majority(), predictor=q[agree]).epistemic == 0).all()


def test_the_first_of_tied_decisions_is_that_of_the_prediction():
    probs = np.array([[[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]]])
    q = np.array([[0.4, 0.4, 0.2]])
    costs = sw.rules.cost_matrix([[0.1, 0.3, 0.1], [0.3, 0.1, 0.3], [1, 1, 1]])
    for path in PATHS.values():
        for rule in ("zero-one", costs):
            expected = sw.get_rule(rule).divergence(q[:, None], probs).mean(axis=-1)
            np.testing.assert_allclose(path(probs, rule, predictor=q).epistemic, expected)


# -- numbers --------------------------------------------------------------------------------------


def exact(rule: sw.rules.ScoringRule, q: np.ndarray, theta: np.ndarray, w: np.ndarray) -> mp.mpf:
    """Epistemic uncertainty in 50 digits."""
    divergence, q = reference.divergence(rule), reference.row(q)
    shares = reference.row(w)
    values = [x * divergence(q, reference.row(p)) for x, p in zip(shares, theta, strict=True) if x]
    return mp.fsum(values) / mp.fsum(shares)


def kinds(k: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Members (2, 4, K) and predictions (2, K)."""
    rng = np.random.default_rng(k)
    probs = rng.dirichlet(np.full(k, 0.7), (2, 4))
    near = normalized(probs[:, :1] * (1 + 1e-4 * rng.normal(size=(2, 4, k))))
    return {
        "random": (probs, rng.dirichlet(np.ones(k), 2)),
        "one of the members": (probs, probs[:, 2]),
        "near members": (near, normalized(near[:, 0] * (1 + 3e-4 * rng.normal(size=(2, k))))),
        "far from near members": (near, rng.dirichlet(np.ones(k), 2)),
        "confident": (softmax(14 * np.eye(k)[[0, 1], None] + 0.1 * probs), probs[:, 0]),
        "mean": (probs, normalized(probs.mean(axis=1))),
    }


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("k", [2, 6])
def test_risks_match_mpmath(k: int, path: str, dtype: str):
    relative, unit = PRECISION[dtype]
    weights = np.array([1.0, 0.5, 0.0, 2.0])
    for kind, (probs, q) in kinds(k).items():
        probs, q = probs.astype(dtype), q.astype(dtype)
        for name, d in PATHS[path](probs, all_rules(k), weights, predictor=q).items():
            rule = all_rules(k)[name]
            for i in range(2):
                epistemic = exact(rule, q[i], probs[i], weights)
                error = abs(mp.mpf(float(d.epistemic[i])) - epistemic)
                assert error <= relative * max(epistemic, 1e-9), (name, kind)
                entropies = [reference.entropy(rule)(reference.row(p)) for p in probs[i]]
                total = mp.fdot(reference.row(weights), entropies) / 3.5 + epistemic
                error = abs(mp.mpf(float(d.total[i])) - total)
                assert error <= relative * total + 4 * unit * max(1, total), (name, kind)


@pytest.mark.parametrize("path", PATHS)
def test_a_loss_is_infinite_where_only_the_prediction_is_zero(path: str):
    probs = np.array([[[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]], [[0.5, 0.5, 0.0], [0.2, 0.7, 0.1]]])
    q = np.array([0.5, 0.5, 0.0])
    rules = {"log": "log", "weighted": sw.rules.weighted_log([1.0, 2.0, 3.0])}
    for name, d in PATHS[path](probs, rules, predictor=q).items():
        assert np.isfinite(d.aleatoric).all(), name
        for part in (d.total, d.epistemic):
            np.testing.assert_array_equal(np.isinf(part), [False, True], err_msg=name)
        np.testing.assert_allclose(
            d.epistemic[0], sw.get_rule(rules[name]).divergence(q, probs[0]).mean()
        )
    # a member without weight does not count
    d = PATHS[path](probs, "log", np.array([1.0, 0.0]), predictor=q)
    assert np.isfinite(d.total).all()


def test_logits_take_probabilities_as_predictor():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20, 5, 4))
    q = predictions(20, 4)
    expected = sw.decompose(softmax(logits), fused(4), predictor=q)
    for path in PATHS.values():
        for name, d in path(logits, fused(4), from_logits=True, predictor=q).items():
            for a, b in zip(d, expected[name], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-15, err_msg=name)
    masked = np.where(np.arange(4) == 3, -np.inf, logits)
    zero = normalized(q * (np.arange(4) < 3))
    for values, is_infinite in ((masked, False), (logits, True)):
        d = sw.decompose(values.astype(np.float32), "log", from_logits=True, predictor=zero)
        assert (np.isinf(d.total) == is_infinite).all()
        assert np.isfinite(d.aleatoric).all()


LAYOUTS = {
    "plain": (lambda p: p, {}),
    "members first": (lambda p: np.ascontiguousarray(p.swapaxes(0, 1)), {"member_axis": 0}),
    "classes first": (
        lambda p: np.ascontiguousarray(np.moveaxis(p, -1, 0)),
        {"member_axis": 2, "class_axis": 0},
    ),
    "strided": (lambda p: np.repeat(p, 2, axis=2)[:, :, ::2], {}),
    "backwards": (lambda p: p[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1], {}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("m", "k"), [(1, 2), (5, 2), (3, 9), (40, 17), (2, 225)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_kernel_and_the_array_path_agree(dtype: str, m: int, k: int, layout: str):
    move, options = LAYOUTS[layout]
    probs = members(33, m, k).astype(dtype)
    q = np.repeat(predictions(33, k).astype(dtype), 2, axis=0)[::2]
    options = {**options, "check": False, "predictor": q}
    got = by_kernel(move(probs), fused(k), **options)
    expected = by_array(probs, fused(k), check=False, predictor=q)
    rtol, atol = (1e-10, 1e-14) if dtype == "float64" else (2e-4, 2e-6)
    for name, d in got.items():
        for a, b in zip(d, expected[name], strict=True):
            assert a.dtype == (np.float64 if dtype == "float64" else np.float32)
            np.testing.assert_allclose(a, b, rtol, atol, err_msg=name)


def test_one_prediction_may_be_that_of_all_instances():
    probs, q = members(6, 5, 4).reshape(2, 3, 5, 4), predictions(1, 4)[0]
    for path in PATHS.values():
        got = path(probs, fused(4), predictor=q)
        expected = path(probs, fused(4), predictor=np.tile(q, (2, 3, 1)))
        for name, d in got.items():
            assert d.total.shape == (2, 3)
            np.testing.assert_array_equal(d.total, expected[name].total)
        assert path(probs[0, 0], "log", predictor=q).total.shape == ()
    assert sw.decompose(probs[:0], "log", predictor=q).total.shape == (0, 3)


def test_many_rules_take_both_paths_in_one_call():
    probs, q = members(9, 4, 3), predictions(9, 3)
    own = sw.rule_from_entropy(lambda p: 1 - (p * p).sum(-1), lambda p: -2 * p, name="own")
    rules = {"brier": "brier", "own": own, "zero-one": "zero-one"}
    assert "by the array path: 'own'" in sw.explain_kernel(probs, rules, predictor=q).reason
    with kernel_only():
        many = sw.decompose(probs, rules, predictor=q)
    np.testing.assert_allclose(many["own"].epistemic, many["brier"].epistemic, rtol=1e-9)
    np.testing.assert_allclose(many["own"].total, many["brier"].total, rtol=1e-12)


@pytest.mark.parametrize("path", PATHS)
def test_rules_of_users_keep_the_laws(path: str):
    def losses(p: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return -np.log(p)

    own = sw.rule_from_loss_vector(losses, name="own")
    same = np.repeat(members(9, 1, 3), 4, axis=1)
    assert (PATHS[path](same, own, predictor=same[:, 0]).epistemic == 0).all()
    probs, q = members(9, 4, 3), predictions(9, 3)
    expected = PATHS[path](probs, "log", predictor=q)
    for a, b in zip(PATHS[path](probs, own, predictor=q), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    sure = np.eye(3)[np.zeros(9, int)]
    d = PATHS[path](probs, own, predictor=sure)
    assert np.isinf(d.total).all()
    assert np.isfinite(d.aleatoric).all()


def test_kernels_leave_beta_of_small_parameters_to_the_array_path():
    probs, sure = members(5, 4, 2), np.array([0.0, 1.0])
    for a, b, path in ((0.5, 2, "cpu"), (1.5, 0.01, "array")):
        rule = sw.rules.beta(a, b)
        assert sw.explain_kernel(probs, rule, predictor=sure).path == path
        for got, p in zip(sw.decompose(probs, rule, predictor=sure).epistemic, probs, strict=True):
            np.testing.assert_allclose(got, float(exact(rule, sure, p, np.ones(4))), rtol=1e-12)


# -- libraries ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
def test_every_library_gives_numpys_numbers_in_its_own_arrays(xp: Library, k: int):
    probs, q = members(6, 5, k), predictions(6, k)
    expected = by_array(probs, all_rules(k), np.arange(5.0), predictor=q)
    for own in (xp.asarray(q), q):
        got = sw.decompose(xp.asarray(probs), all_rules(k), weights=np.arange(5.0), predictor=own)
        for name, d in got.items():
            for a, b in zip(d, expected[name], strict=True):
                assert xp.owns(a), name
                np.testing.assert_allclose(xp.to_numpy(a), b, rtol=1e-11, atol=1e-15, err_msg=name)


def test_torch_gradients_flow_to_members_and_to_the_prediction():
    import torch

    for name, rule in all_rules(3).items():
        logits = torch.asarray(members(2, 3, 3)).log().requires_grad_()
        z = torch.asarray(predictions(2, 3)).log().requires_grad_()

        def risk(logits, z, rule=rule):
            q = torch.softmax(z, dim=-1)
            d = sw.decompose(logits, rule, from_logits=True, predictor=q)
            return d.total + 2 * d.aleatoric + 3 * d.epistemic

        assert torch.autograd.gradcheck(risk, (logits, z)), name


def test_a_prediction_with_gradients_takes_the_array_path():
    import torch

    probs, z = torch.asarray(members(2, 3, 3)), torch.zeros(3, dtype=torch.float64)
    z.requires_grad_()
    q = torch.softmax(z, dim=-1)
    reason = sw.explain_kernel(probs, "log", predictor=q).reason
    assert reason == "not by the cpu kernel: it does not support 'log' with this predictor"
    sw.decompose(probs, "log", predictor=q).total.sum().backward()
    expected = (q.detach() - probs.mean(dim=1)).sum(dim=0)  # the cross entropy's
    torch.testing.assert_close(z.grad, expected)


def test_transforms_of_torch_take_members_and_predictions():
    import torch

    probs, q = torch.from_numpy(members(4, 5, 3)), torch.from_numpy(predictions(4, 3))
    for name, rule in all_rules(3).items():

        def risk(p, q, rule=rule):
            return tuple(sw.decompose(p, rule, predictor=q, check=False))

        expected = risk(probs, q)
        close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-13, msg=name)
        close(torch.func.vmap(risk)(probs, q), expected)
        close(torch.func.vmap(risk, in_dims=(0, None))(probs, q[0]), risk(probs, q[0]))
        close(torch.func.vmap(risk, in_dims=(None, 0))(probs[0], q)[0][0], expected[0][0])
        assert risk(probs.to("meta"), q.to("meta"))[0].shape == (4,)
        if name not in {"log", "top-k:2", "cost-matrix"}:
            continue
        torch._dynamo.reset()
        compiled = torch.compile(risk, fullgraph=True, backend="eager", dynamic=True)
        close(compiled(probs, q), expected)


def test_transforms_of_jax_take_members_and_predictions():
    import jax

    with jax.enable_x64(True):
        probs, q = jax.numpy.asarray(members(4, 5, 3)), jax.numpy.asarray(predictions(4, 3))
        for name in ("log", "cost-matrix"):
            rule = all_rules(3)[name]

            def epistemic(p, q, rule=rule):
                return sw.decompose(p, rule, predictor=q).epistemic

            expected = epistemic(probs, q)
            for got in (
                jax.jit(epistemic)(probs, q),
                jax.jit(jax.vmap(epistemic))(probs, q),
                jax.jit(jax.vmap(lambda q, rule=rule: epistemic(probs, q, rule)))(q[None])[0],
            ):
                np.testing.assert_allclose(got, expected, rtol=1e-11, err_msg=name)
            slopes = jax.jit(jax.grad(lambda *x: epistemic(*x).sum(), argnums=(0, 1)))(probs, q)
            assert all(bool(jax.numpy.isfinite(slope).all()) for slope in slopes), name
            same = jax.jit(epistemic)(jax.numpy.repeat(q[:, None], 3, axis=1), q)
            assert bool((same == 0).all()), name


@may_rechunk
def test_dask_arrays_stay_lazy_and_take_predictions_in_blocks():
    probs, q = members(50, 6, 3), predictions(50, 3)
    lazy = da.from_array(probs, chunks=(16, 2, 2))
    choices = (q, da.from_array(q, chunks=(7, 2)), q[0], da.from_array(q[0], chunks=2), q.tolist())
    for predictor in choices:
        for weights in (None, np.arange(1.0, 7), da.from_array(probs[..., 0], chunks=(9, 6))):
            got = sw.decompose(lazy, fused(3), weights=weights, predictor=predictor)
            w = None if weights is None else np.asarray(weights)
            expected = sw.decompose(probs, fused(3), weights=w, predictor=np.asarray(predictor))
            for name, d in got.items():
                assert isinstance(d.total, da.Array)
                for a, b in zip(da.compute(*d), expected[name], strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15, err_msg=name)


def test_dask_names_a_wrong_row_of_the_prediction_in_the_whole_array():
    probs, q = members(50, 6, 3), predictions(50, 3)
    q[37, 2] = np.nan
    lazy = da.from_array(probs, chunks=(16, 6, 3))
    for predictor in (q, da.from_array(q, chunks=(20, 3))):
        d = sw.decompose(lazy, "log", predictor=predictor)
        with pytest.raises(sw.InvalidInput, match=r"predictor\[37, 2\] is nan"):
            d.total.compute()
    with pytest.raises(sw.InvalidInput, match=r"predictor has shape \(50, 4\)"):
        sw.decompose(lazy, "log", predictor=np.ones((50, 4)) / 4)


def test_no_rule_holds_more_than_a_tenth_of_a_large_array_besides_it():
    k = 10
    large = np.tile(members(1000, 20, k).astype(np.float32), (60, 1, 1))
    q = large[:, 0].copy()
    for name in ("log", "zero-one", "top-k:2", "cost-matrix"):
        rule = all_rules(k)[name]
        tracemalloc.start()
        by_array(large, rule, predictor=q)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < large.nbytes / 10, name


# -- a Dirichlet ----------------------------------------------------------------------------------


def test_a_dirichlet_adds_the_divergence_of_its_mean():
    rng = np.random.default_rng(0)
    alpha, q = rng.uniform(0.5, 9, (5, 4)), predictions(5, 4)
    for name, rule in all_rules(4).items():
        plain = sw.decompose(sw.Dirichlet(alpha), rule)
        d = sw.decompose(sw.Dirichlet(alpha), rule, predictor=q)
        mean = sw.Dirichlet(alpha).mean
        np.testing.assert_allclose(d.total, rule.expected_loss(q, mean), rtol=1e-11, err_msg=name)
        np.testing.assert_array_equal(d.aleatoric, plain.aleatoric)
        assert (d.epistemic >= plain.epistemic).all(), name
        np.testing.assert_allclose(d.epistemic, d.total - d.aleatoric, rtol=1e-9, err_msg=name)
        assert (plain.standard_error is None) == (d.standard_error is None)
        one = sw.decompose(sw.Dirichlet(alpha), rule, predictor=q[0])
        np.testing.assert_array_equal(one.total[0], d.total[0])


def test_a_dirichlet_keeps_the_digits_of_a_small_epistemic_part():
    alpha = np.array([3e8, 2e8 + 1, 1e8])
    q = np.array([0.5, 0.3333, 0.1667])
    rows = reference.row(alpha)
    total = mp.fsum(rows)
    mean = [a / total for a in rows]
    for rule in (sw.rules.brier, sw.rules.rps):
        variance = reference.entropy(rule)(mean) / (total + 1)
        expected = variance + reference.divergence(rule)(reference.row(q), mean)
        epistemic = sw.decompose(sw.Dirichlet(alpha), rule, predictor=q).epistemic
        assert abs(mp.mpf(float(epistemic)) - expected) <= 1e-11 * expected
    near = sw.Dirichlet([1e12 + 1, 1e12])  # by 5e-13, which a rounded mean does not resolve
    plain = sw.decompose(near, "zero-one").epistemic
    excess = sw.decompose(near, "zero-one", predictor=[0.4, 0.6]).epistemic - plain
    np.testing.assert_allclose(excess, 1 / (2e12 + 1), rtol=1e-3)


def test_a_dirichlet_on_every_library(xp: Library):
    alpha, q = np.random.default_rng(0).uniform(0.5, 9, (3, 4)), predictions(3, 4)
    for name, rule in all_rules(4).items():
        expected = sw.decompose(sw.Dirichlet(alpha), rule, predictor=q)
        for own in (q, xp.asarray(q)):
            got = sw.decompose(sw.Dirichlet(xp.asarray(alpha)), rule, predictor=own)
            for a, b in zip(got, expected, strict=True):
                assert xp.owns(a), name
                np.testing.assert_allclose(xp.to_numpy(a), b, rtol=1e-11, err_msg=name)


def test_a_dirichlet_has_the_gradient_of_the_prediction():
    import jax
    import torch

    alpha, z = np.array([2.0, 3.0, 4.0]), np.array([0.1, -0.3, 0.2])
    expected = softmax(z) - alpha / alpha.sum()
    own = torch.tensor(z, requires_grad=True)
    q = torch.softmax(own, dim=-1)
    sw.decompose(sw.Dirichlet(torch.tensor(alpha)), "log", predictor=q).total.backward()
    np.testing.assert_allclose(own.grad, expected, rtol=1e-10)
    with jax.enable_x64(True):
        dirichlet = sw.Dirichlet(jax.numpy.asarray(alpha))
        slope = jax.jit(
            jax.grad(lambda z: sw.decompose(dirichlet, "log", predictor=jax.nn.softmax(z)).total)
        )
        np.testing.assert_allclose(slope(jax.numpy.asarray(z)), expected, rtol=1e-10)


# -- names, shapes and errors ---------------------------------------------------------------------


def test_predictions_with_names_must_have_those_of_the_members():
    probs, q = members(4, 3, 2), predictions(4, 2)
    named = sw.Samples(probs, class_names=["cat", "dog"])
    expected = sw.decompose(probs, "log", predictor=q).total
    frame = pd.DataFrame(q, columns=["cat", "dog"])
    own = sw.Samples(q[:, None], class_names=["cat", "dog"])
    for predictor in (q, q.tolist(), frame, own, pd.DataFrame(q), sw.Samples(q[:, None])):
        got = sw.decompose(named, "log", predictor=predictor).total
        np.testing.assert_array_equal(got, expected)
    got = sw.decompose(probs, "log", class_names=["cat", "dog"], predictor=frame).total
    np.testing.assert_array_equal(got, expected)
    dirichlet = sw.Dirichlet(1 + 9 * probs[:, 0], class_names=["dog", "cat"])
    for predictions_of_others in (sw.Samples(probs, class_names=["dog", "cat"]), dirichlet):
        with pytest.raises(sw.InvalidInput, match="class 0 is called 'dog' here and 'cat' in pred"):
            sw.decompose(predictions_of_others, "log", predictor=frame)
    with pytest.raises(sw.InvalidInput, match="no class names, and class 0 is called 'cat'"):
        sw.decompose(probs, "log", predictor=own)


def spoiled(index: tuple[int, ...], value: float) -> np.ndarray:
    q = predictions(20, 3)
    q[index] = value
    return q


class Model:
    def predict_proba(self) -> None: ...


PROBS = members(20, 4, 3)
WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "sum": (
        predictions(20, 3) * np.where(np.arange(20) == 17, 0.93, 1)[:, None],
        {},
        r"^predictor\[17\] sums to 0\.93, not 1; from_logits and normalize are for the members",
    ),
    "sum of one": ([0.5, 0.3, 0.1], {}, r"^predictor sums to 0\.9, not 1"),
    "nan": (spoiled((3, 1), np.nan), {}, r"^predictor\[3, 1\] is nan; probabilities must be fin"),
    "nan in one": ([0.5, np.nan, 0.5], {}, r"^predictor\[1\] is nan"),
    "negative": (spoiled((4, 2), -0.5), {}, r"^predictor\[4, 2\] is -0\.5, and a probability can"),
    "other rows": (predictions(19, 3), {}, r"has shape \(19, 3\); it must be \(20, 3\), .*\(3,\)"),
    "other classes": (predictions(20, 4), {}, r"has shape \(20, 4\); it must be \(20, 3\)"),
    "classes moved": (
        predictions(20, 3).T,
        {},
        r"has shape \(3, 20\); it must be \(20, 3\), .* its classes on the last axis",
    ),
    "members": (PROBS, {}, r"has shape \(20, 4, 3\); it must be \(20, 3\)"),
    "samples": (sw.Samples(PROBS), {}, r"these Samples have 4 members; pass their mean"),
    "dirichlet": (sw.Dirichlet(np.ones((6, 3))), {}, "not a Dirichlet; pass its mean"),
    "classes of one row": (predictions(20, 3)[:, 0], {}, r"has shape \(20,\)"),
    "integers": (np.eye(3, dtype=int)[np.zeros(20, int)], {}, "predictor has dtype int64; use fl"),
    "a number": (0.5, {}, r"predictor has shape \(\)"),
    "labels": ("cat", {}, "predictor has dtype"),
    "a model": (Model(), {}, "predictor is a Model; pass its probabilities, which its predict_pro"),
    "unbiased": (predictions(20, 3), {"unbiased": True}, "the predictor is fixed"),
    "errors": (predictions(20, 3), {"standard_errors": True}, r"standard deviation .*over √M"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_prediction_of_the_members_is_refused(wrong: str):
    predictor, options, message = WRONG[wrong]
    calls: list[Callable[..., Any]] = [partial(sw.decompose, PROBS)]
    if not options:
        calls.append(partial(sw.decompose, sw.Dirichlet(1 + PROBS[:, 0])))
    for call in calls:
        with pytest.raises(sw.InvalidInput, match=message):
            call("log", predictor=predictor, **options)


def test_what_needs_no_values_is_refused_by_explain_kernel_too():
    with pytest.raises(sw.InvalidInput, match=r"predictor has shape \(3, 20\)"):
        sw.explain_kernel(PROBS, "log", predictor=predictions(20, 3).T)
    with pytest.raises(sw.InvalidInput, match="unbiased=True"):
        sw.explain_kernel(PROBS, "log", predictor=predictions(20, 3), unbiased=True)
    assert sw.explain_kernel(PROBS, "log", predictor=spoiled((0, 0), np.nan)).path == "cpu"


def test_arrays_of_two_libraries_are_refused():
    import torch

    q = torch.from_numpy(predictions(20, 3))
    with pytest.raises(sw.InvalidInput, match=r"predictor is an array of torch .*of numpy; conver"):
        sw.decompose(PROBS, "log", predictor=q)


def test_an_unchecked_prediction_is_not_checked():
    q = predictions(20, 3) * 0.9
    assert np.isfinite(sw.decompose(PROBS, "log", predictor=q, check=False).total).all()


def test_options_of_members_are_not_those_of_the_prediction():
    q = predictions(20, 3)
    expected = sw.decompose(PROBS, "log", predictor=q).total
    got = sw.decompose(5 * PROBS, "log", normalize=True, predictor=q).total
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    with pytest.raises(sw.InvalidInput, match=r"predictor\[0\] sums to 2, not 1"):
        sw.decompose(5 * PROBS, "log", normalize=True, predictor=2 * q)
    moved = np.moveaxis(PROBS, 2, 0)
    got = sw.decompose(moved, "log", class_axis=0, member_axis=2, predictor=q).total
    np.testing.assert_allclose(got, expected, rtol=1e-12)
