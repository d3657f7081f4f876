"""JAX: traced, compiled, differentiated, and without float64."""

import numpy as np
import pytest

import scorewise as sw
from scorewise.rules import DecisionRule
from support import all_rules, members


def test_bfloat16_of_jax_and_numpy():
    import jax.numpy as jnp

    probs = jnp.asarray(members(5, 4, 3), dtype=jnp.bfloat16)
    for x in (probs, np.asarray(probs)):
        assert str(sw.decompose(x, "brier").total.dtype) == "float32"


@pytest.mark.parametrize("k", [2, 3])
def test_jax_differentiates_float32_logits_as_torch_does_in_float64(k: int):
    import jax
    import torch

    low = np.array([-5.0, -20.0, -50.0, -75.0, -87.0, -np.inf])  # of an instance each
    z = np.random.default_rng(0).normal(size=(2, k)) * np.ones((len(low), 1, 1))
    z[:, 0, 1] += low
    z[:, 1, 1] += np.maximum(low, -1e3)
    for name, rule in all_rules(k).items():
        if isinstance(rule, DecisionRule):
            continue
        for part in ("total", "aleatoric", "epistemic"):

            def value(logits, rule=rule, part=part):
                return getattr(sw.decompose(logits, rule, from_logits=True), part).sum()

            wide = torch.tensor(z, requires_grad=True)
            (exact,) = torch.autograd.grad(value(wide), wide)
            got = jax.grad(value)(jax.numpy.asarray(z, dtype="float32"))
            for row, row_exact, of in zip(got, exact, low, strict=True):
                scale = max(float(row_exact.abs().max()), 1e-6)
                message = f"{name} {part} {of}"
                np.testing.assert_allclose(
                    row, row_exact, rtol=1e-3, atol=1e-3 * scale, err_msg=message
                )


@pytest.mark.parametrize("option", ["normalize", "from_logits"])
@pytest.mark.parametrize("x64", [False, True])
def test_compiled_identical_members_have_no_epistemic_uncertainty_on_any_path(option, x64):
    """A compiler fuses the division that makes a row with the difference of two rows."""
    import jax

    def accumulated(x, rules):
        acc = sw.Accumulator(rules)
        for m in range(2):
            acc.update(x[:, m], **{option: True})
        return acc.result()

    def decomposed(x, rules):
        return sw.decompose(x, rules, **{option: True})

    def rules_for(k):
        # rules of the family beta are slow to compile, and one code: with logits the first will do
        left_out = {"beta:0,0", "beta:-0.5,-0.3"} if option == "from_logits" else set()
        return {name: rule for name, rule in all_rules(k).items() if name not in left_out}

    with jax.enable_x64(x64):
        for k in (2, 3):
            rows = np.random.default_rng(k).uniform(0.1, 4, (100, 1, k)).repeat(2, axis=1)
            x = jax.numpy.asarray(rows, dtype="float64" if x64 else "float32")
            for path in (accumulated, decomposed):
                results = jax.jit(
                    lambda x, path=path, k=k: {
                        name: d.epistemic for name, d in path(x, rules_for(k)).items()
                    }
                )(x)
                for name, epistemic in results.items():
                    assert bool((epistemic == 0).all()), (path.__name__, name, k)
            for name, rule in all_rules(k).items():
                if rule.family != "beta":  # slow to compile, and the same code as above
                    apart = jax.jit(
                        lambda z, rule=rule: rule.divergence(
                            jax.nn.softmax(z[:, 0]), jax.nn.softmax(z[:, 1])
                        )
                    )(x)
                    assert bool((apart == 0).all()), name


def test_jax_without_float64_weighs_and_decides_as_numpy_does():
    import jax.numpy as jnp

    probs = members(20, 5, 3).astype(np.float32)
    for weights in ([1e39, 1, 2e38, 0, 5e38], [1e-60, 2e-60, 0, 1e-61, 1e-60]):
        got = sw.decompose(jnp.asarray(probs), "log", weights=weights).epistemic
        exact = sw.decompose(probs.astype(np.float64), "log", weights=weights).epistemic
        np.testing.assert_allclose(got, exact, rtol=1e-4)
    rng = np.random.default_rng(0)
    close = np.array([0.4, 0.4, 0.2]) + 1e-6 * rng.normal(size=(200, 4, 3))
    close = (close / close.sum(axis=-1, keepdims=True)).astype(np.float32)
    rule = sw.rules.cost_matrix(1 - np.eye(3))
    exact = sw.decompose(close.astype(np.float64), rule).epistemic
    np.testing.assert_allclose(
        sw.decompose(jnp.asarray(close), rule).epistemic, exact, rtol=1e-4, atol=1e-13
    )


@pytest.mark.parametrize("alpha", [[2.0, 3.0, 1.0], [1e20, 3e20, 1e20], [1e-30, 1.0, 1.0]])
def test_jax_without_float64_takes_a_dirichlet_apart_as_numpy_does(alpha):
    import jax
    import jax.numpy as jnp

    single = np.array(alpha, dtype=np.float32)
    for name, rule in all_rules(3).items():
        got = sw.decompose(sw.Dirichlet(jnp.asarray(single)), rule)
        exact = sw.decompose(sw.Dirichlet(single.astype(np.float64)), rule)
        for a, b in zip(got, exact, strict=True):
            assert isinstance(a, jax.Array)
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-37, err_msg=name)
    with pytest.raises(sw.InvalidInput, match=r"alpha\[0\] is 0.0"):
        sw.Dirichlet(jnp.asarray([0.0, 1.0]))


def test_identical_members_have_no_epistemic_uncertainty_when_jax_compiles():
    import jax

    same = np.repeat(np.random.default_rng(0).normal(size=(37, 1, 7)), 5, axis=1)
    logits = jax.numpy.asarray(same)
    for rule in ("log", "brier", "spherical", "rps"):
        epistemic = jax.jit(lambda z, r=rule: sw.decompose(z, r, from_logits=True).epistemic)
        assert bool((epistemic(logits) == 0).all()), rule


def test_jax_without_x64_works_in_float32():
    import jax

    probs = members(6, 5, 4)
    for name, d in sw.decompose(jax.numpy.asarray(probs), all_rules(4)).items():
        assert d.epistemic.dtype == "float32"
        expected = sw.decompose(probs, all_rules(4)[name]).epistemic
        np.testing.assert_allclose(d.epistemic, expected, rtol=1e-4, atol=1e-7, err_msg=name)
    jax.jit(lambda p: sw.decompose(p, "log", unbiased=True).epistemic)(jax.numpy.asarray(probs))


def test_jax_jit_vmap_and_grad_skip_the_check_and_agree():
    import jax

    with jax.enable_x64(True):
        probs = jax.numpy.asarray(members(4, 5, 3))
        for name, rule in all_rules(3).items():

            def epistemic(p, rule=rule):
                return sw.decompose(p, rule).epistemic

            expected = epistemic(probs)
            for got in (jax.jit(epistemic)(probs), jax.vmap(epistemic)(probs)):
                np.testing.assert_allclose(got, expected, rtol=1e-11, err_msg=name)
            slope = jax.grad(lambda p: epistemic(p).sum())(probs)
            assert bool(jax.numpy.isfinite(slope).all()), name
            assert not bool(jax.numpy.isnan(jax.jit(epistemic)(probs * 2)).all())
