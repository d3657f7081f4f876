"""Transforms of torch: vmap, grad, the meta device, and compiling into a single graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import scorewise as sw
from support import all_rules, members

RULES = {**all_rules(3), **{n: r for n, r in all_rules(2).items() if n.startswith("beta")}}


def rule_and_probs(name: str) -> tuple[sw.rules.ScoringRule, torch.Tensor]:
    return RULES[name], torch.from_numpy(members(4, 5, 2 if name.startswith("beta") else 3))


def parts(rule: Any, **options: Any) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    return lambda probs: tuple(sw.decompose(probs, rule, **options))


def assert_same(got: Any, expected: Any) -> None:
    for x, y in zip(got, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-13)


def compile_whole(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **{"backend": "eager", **options})


@pytest.mark.parametrize("name", RULES)
def test_vmap_gives_the_parts_of_each_instance(name):
    rule, probs = rule_and_probs(name)
    expected = parts(rule)(probs)
    assert_same(torch.func.vmap(parts(rule))(probs), expected)
    assert_same(torch.func.vmap(parts(rule, check=False))(probs), expected)


@pytest.mark.parametrize("name", RULES)
def test_meta_device_gives_shapes(name):
    rule, probs = rule_and_probs(name)
    for part in parts(rule)(probs.to("meta")):
        assert part.device.type == "meta"
        assert part.shape == (4,)
        assert part.dtype == torch.float64


def test_options_are_accepted_in_transforms():
    logits, w = torch.randn(5, 4, 3, dtype=torch.float64), torch.rand(5, dtype=torch.float64)
    work = parts("log", from_logits=True, weights=w, member_axis=0, unbiased=True)
    assert_same(torch.func.vmap(work, in_dims=1)(logits), work(logits))
    assert work(logits.to("meta"))[0].shape == (4,)


def along_simplex(gradient: Any) -> Any:
    """A gradient with respect to probabilities, of which only differences in a row count."""
    return gradient - gradient.mean(-1, keepdims=True)


def test_gradients_of_transforms_are_those_of_backward():
    probs = torch.from_numpy(members(4, 5, 3)).requires_grad_()
    for rule in ("log", "brier", "spherical", "tsallis:1.5"):
        (expected,) = torch.autograd.grad(sw.decompose(probs, rule).epistemic.sum(), probs)
        of_each = torch.func.grad(lambda p, rule=rule: sw.decompose(p, rule).epistemic)
        jacobian = torch.func.jacrev(lambda p, rule=rule: sw.decompose(p, rule).epistemic)
        for got in (torch.func.vmap(of_each)(probs.detach()), jacobian(probs.detach()).sum(0)):
            assert_same(along_simplex(got), along_simplex(expected))


def test_identical_members_share_the_gradient_of_their_mean():
    import jax

    row = np.array([0.2, 0.3, 0.5])
    for rule, slope in (("log", -np.log(row) - 1), ("brier", 1 - 2 * row)):
        probs = torch.from_numpy(np.tile(row, (4, 1))).requires_grad_()
        total = sw.decompose(probs, rule, check=False).total
        (gradient,) = torch.autograd.grad(total, probs)
        expected = np.tile(along_simplex(slope), (4, 1)) / 4
        np.testing.assert_allclose(along_simplex(gradient), expected, rtol=1e-9)
        of_jax = jax.grad(lambda p, rule=rule: sw.decompose(p, rule).total)
        with jax.enable_x64(True):
            slopes = along_simplex(of_jax(jax.numpy.asarray(probs.detach())))
            np.testing.assert_allclose(slopes, expected, rtol=1e-9)


def test_invalid_rows_are_still_found_where_there_are_values():
    probs = torch.full((2, 5, 3), 0.5, dtype=torch.float64)
    with pytest.raises(sw.InvalidInput, match=r"probs\[0, 0\] sums to 1\.5"):
        torch.func.grad(lambda p: sw.decompose(p, "log").total.sum())(probs)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_compiles_into_a_single_graph_of_dynamic_shapes(name):
    rule, probs = rule_and_probs(name)
    compiled = compile_whole(parts(rule, check=False), dynamic=True)
    for batch in (probs, probs[:3]):
        assert_same(compiled(batch), parts(rule)(batch))


@pytest.mark.parametrize("rule", ["log", "tsallis:1.5", "beta:0.5,2"])
def test_rules_by_name_compile_for_a_second_batch_size(rule):
    probs = torch.from_numpy(members(12, 5, 2))
    compiled = compile_whole(parts(rule, check=False))
    for batch in (probs, probs[:5], probs.reshape(3, 4, 5, 2), probs.reshape(4, 3, 5, 2)):
        assert_same(compiled(batch), parts(rule)(batch))


def test_a_check_in_a_single_graph_raises_with_the_remedy():
    probs = torch.from_numpy(members(4, 5, 3))
    for options in ({}, {"normalize": True}, {"from_logits": True}):
        with pytest.raises(torch._dynamo.exc.Unsupported, match="pass check=False"):
            compile_whole(parts("log", **options))(probs)


def of_paper(logits: torch.Tensor) -> dict[str, Any]:
    return sw.decompose(logits, sw.rules.DEFAULT_RULES, from_logits=True, check=False)


def test_compiled_rules_of_the_paper_have_gradients():
    def every_part(probs):
        return tuple(part for d in of_paper(probs).values() for part in d)

    compiled = compile_whole(every_part, backend="aot_eager")
    logits = torch.randn(4, 5, 3, dtype=torch.float64)
    results = []
    for function in (compiled, every_part):
        leaf = logits.clone().requires_grad_()
        values = function(leaf)
        sum(x.sum() for x in values).backward()
        results.append([*(x.detach() for x in values), leaf.grad])
    assert_same(*results)


def test_large_arrays_compile_into_the_same_graph():
    probs = torch.from_numpy(members(2000, 5, 20))  # the array path would cut them into blocks
    compiled = compile_whole(parts("log", check=False))
    assert_same(compiled(probs), parts("log")(probs))


def test_epistemic_is_exactly_zero_where_members_agree_also_when_compiled():
    work = compile_whole(lambda z: [d.epistemic for d in of_paper(z).values()], backend="aot_eager")
    for epistemic in work(torch.randn(6, 1, 3).expand(6, 4, 3)):
        assert not epistemic.any()


def test_a_dirichlet_in_a_transform():
    alpha = torch.from_numpy(np.random.default_rng(0).uniform(0.5, 9, (4, 3)))
    for rule in ("log", "brier", "tsallis:1.5"):
        work = torch.func.vmap(lambda a, rule=rule: tuple(sw.decompose(sw.Dirichlet(a), rule)))
        assert_same(work(alpha), tuple(sw.decompose(sw.Dirichlet(alpha), rule)))
    with pytest.raises(sw.InvalidInput, match="cannot be differentiated or traced"):
        torch.func.vmap(lambda a: sw.decompose(sw.Dirichlet(a), "zero-one").total)(alpha)
