"""Gradients of torch: of values that any path computed, by the loss vectors of mean and members."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch

import reference
import scorewise as sw
from scorewise.decompose import gradient_by_arrays
from scorewise.kernels import KERNELS, cpu
from support import all_rules, kernel_only, known_to_kernel, members

OF_PAPER = list(sw.rules.DEFAULT_RULES)
CASES = [(k, name) for k in (2, 5) for name in all_rules(k)]
every_rule = pytest.mark.parametrize(("k", "name"), CASES)


def leaf(*shape: int, dtype: torch.dtype = torch.float64, **options: Any) -> torch.Tensor:
    return torch.from_numpy(members(*shape, **options)).to(dtype).requires_grad_()


def upstream_of(parts: Any, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in parts]


def recorded(function: Callable[[Any], Any], x: torch.Tensor, upstream: Any) -> torch.Tensor:
    """The gradient that torch records on the array path, which transforms take."""
    _, pull_back = torch.func.vjp(function, x.detach())
    return pull_back(tuple(upstream))[0]


def along_simplex(gradient: torch.Tensor) -> torch.Tensor:
    """A gradient with respect to probabilities, of which only differences in a row count."""
    return gradient - gradient.mean(-1, keepdim=True)


def largest_difference(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative to the largest entry."""
    return float((got - expected).abs().max() / expected.abs().max().clamp(min=1e-30))


WEIGHTS = {
    "equal": None,
    "of members": np.array([1.0, 0.0, 2.0]),
    "of rows": np.random.default_rng(1).uniform(size=(4, 3)),
}
OPTIONS = {"probabilities": {}, "logits": {"from_logits": True}, "masses": {"normalize": True}}


@every_rule
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", OPTIONS)
def test_the_closed_form_is_the_gradient_that_torch_records(k, name, weights, kind):
    probs, rule, options = leaf(4, 3, k), all_rules(k)[name], OPTIONS[kind]
    x = probs.detach().log() if kind == "logits" else 1.7 * probs.detach()
    x = (x if options else probs.detach()).requires_grad_()

    def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(sw.decompose(x, rule, weights=WEIGHTS[weights], **options))

    components = parts(x)
    upstream = upstream_of(components)
    for chosen in (slice(0, 1), slice(1, 2), slice(2, 3), slice(0, 3)):
        some = upstream[chosen]
        (got,) = torch.autograd.grad(components[chosen], x, some, retain_graph=True)
        expected = recorded(lambda x, chosen=chosen: parts(x)[chosen], x, some)
        if kind == "probabilities":
            got, expected = along_simplex(got), along_simplex(expected)
        assert largest_difference(got, expected) < 1e-11


@every_rule
def test_first_and_second_derivatives_are_those_of_finite_differences(k, name):
    rule, weights = all_rules(k)[name], torch.tensor([2.0, 1.0, 1.0])
    logits = leaf(2, 3, k).detach().log().requires_grad_()

    def from_logits(z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(sw.decompose(z, rule, weights=weights, from_logits=True))

    def behind_softmax(z: torch.Tensor) -> torch.Tensor:
        d = sw.decompose(torch.softmax(z, -1).transpose(0, 1), rule, member_axis=0)
        return d.total + 2 * d.aleatoric + 3 * d.epistemic

    assert torch.autograd.gradcheck(from_logits, (logits,))
    assert torch.autograd.gradcheck(behind_softmax, (logits,))
    assert torch.autograd.gradgradcheck(from_logits, (logits,))
    assert torch.autograd.gradgradcheck(behind_softmax, (logits,))


def test_members_that_need_gradients_take_the_kernel_and_get_its_numbers():
    probs = leaf(50, 5, 4)
    rules = {name: rule for name, rule in all_rules(4).items() if known_to_kernel(rule)}
    with kernel_only():
        got, plain = sw.decompose(probs, rules), sw.decompose(probs.detach(), rules)
    for name, d in got.items():
        for a, b in zip(d, plain[name], strict=True):
            assert a.requires_grad
            assert torch.equal(a, b), name
    reason = "the members are in host memory; gradients in closed form"
    assert str(sw.explain_kernel(probs, rules)) == f"cpu: {reason}"


def test_without_the_kernel_the_array_path_computes_the_values(monkeypatch):
    probs = leaf(6, 5, 4)
    (expected,) = torch.autograd.grad(sw.decompose(probs, "log").epistemic.sum(), probs)
    monkeypatch.setattr(cpu, "_native", None)
    explanation = sw.explain_kernel(probs, "log")
    assert explanation.path == "array"
    assert explanation.reason.startswith("not by the cpu kernel: it was not compiled")
    (got,) = torch.autograd.grad(sw.decompose(probs, "log").epistemic.sum(), probs)
    assert torch.equal(got, expected)


def test_no_gradient_is_kept_where_torch_records_none():
    probs = leaf(6, 5, 4)
    with torch.no_grad(), kernel_only():
        assert not sw.decompose(probs, "log").total.requires_grad


def test_several_rules_add_up_and_unused_parts_do_not_count():
    logits = leaf(7, 4, 5).detach().log().requires_grad_()
    rules = all_rules(5)
    many = sw.decompose(logits, rules, from_logits=True)
    chosen = {name: ("total", "aleatoric", "epistemic")[i % 3] for i, name in enumerate(rules)}
    del chosen["log"]  # no part of it is used
    loss = sum(getattr(many[name], part).square().sum() for name, part in chosen.items())
    (together,) = torch.autograd.grad(loss, logits)
    alone = torch.zeros_like(logits)
    for name, part in chosen.items():
        d = sw.decompose(logits, rules[name], from_logits=True)
        alone += torch.autograd.grad(getattr(d, part).square().sum(), logits)[0]
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("shape", [(3,), (1, 4), (0, 3, 4), (2, 1, 3), (2, 3, 4, 5)])
def test_members_have_any_shape(shape):
    k = shape[-1]
    probs = torch.softmax(torch.randn(*shape[:-1], 3, k, dtype=torch.float64), -1)
    for moved, options in ((probs, {}), (probs.movedim(-2, 0), {"member_axis": 0})):
        x = moved.contiguous().requires_grad_()
        d = sw.decompose(x, "log", **options)
        (gradient,) = torch.autograd.grad(d.epistemic.sum() + d.total.sum(), x)
        mean = x.mean(options.get("member_axis", -2), keepdim=True)
        expected = (x / mean).log() / 3 - mean.log() / 3
        torch.testing.assert_close(along_simplex(gradient), along_simplex(expected))
        assert gradient.is_contiguous()


def test_samples_and_lists_of_members_have_gradients():
    first, second = leaf(6, 3, 4).detach().unbind(1)[:2]
    for wrap in (list, lambda x: sw.Samples(x)):
        leaves = [first.clone().requires_grad_(), second.clone().requires_grad_()]
        sw.decompose(wrap(leaves), "brier").epistemic.sum().backward()
        for own, d in zip(leaves, (first - second, second - first), strict=True):
            torch.testing.assert_close(along_simplex(own.grad), d / 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_gradient_has_the_dtype_of_the_members(dtype):
    logits = 3 * torch.randn(20, 5, 6, generator=torch.Generator().manual_seed(0))
    tolerance = 1e-5 if dtype == torch.float32 else torch.finfo(dtype).eps
    for values, options in (
        (logits.to(dtype), {"from_logits": True}),
        (logits.exp().clamp(1e-3, 1e3).to(dtype), {"normalize": True}),
    ):
        for name, rule in all_rules(6).items():
            gradients = []
            for x in (values.clone(), values.double()):
                d = sw.decompose(x.requires_grad_(), rule, **options)
                gradients += torch.autograd.grad(sum(part.sum() for part in d), x)
            assert gradients[0].dtype == dtype
            assert largest_difference(gradients[0].double(), gradients[1]) < tolerance, name


# -- digits ---------------------------------------------------------------------------------------


def below_top(gradient: np.ndarray, p: np.ndarray) -> np.ndarray:
    """A gradient with respect to probabilities, 0 in the largest class of each row."""
    top = p.argmax(-1)[..., None]
    return gradient - np.take_along_axis(gradient, top, -1)


def error_of_rows(gradient: np.ndarray, expected: np.ndarray) -> float:
    """The largest error of a member, relative to its largest entry."""
    size = np.abs(expected).max(-1, keepdims=True)
    return float(np.max(np.abs(gradient - expected) / np.where(size > 1e-30, size, 1.0)))


def more_rules(k: int) -> dict[str, sw.rules.ScoringRule]:
    """All rules, and some whose gradients are harder to compute."""
    names = ["pseudospherical:3", "pseudospherical:30", "pseudospherical:1.00001", "tsallis:1.0001"]
    names += ["tsallis:1.000001", *(["beta:2,3", "beta:1,1", "beta:20,0.5"] if k == 2 else [])]
    diagonal = sw.rules.quadratic(np.diag(np.random.default_rng(1).uniform(0.1, 2, k)))
    return all_rules(k) | {name: sw.get_rule(name) for name in names} | {"diagonal": diagonal}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("k", [2, 6])
def test_gradients_keep_their_digits_where_members_nearly_agree(k, noise, dtype):
    near = members(3, 1, k) * (1 + noise * np.random.default_rng(1).uniform(size=(3, 4, k)))
    near[0] *= np.where(np.arange(k) == 1, 1.0, 1e-3)
    probs = (near / near.sum(-1, keepdims=True)).astype(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    for name, rule in more_rules(k).items():
        x = torch.from_numpy(probs).requires_grad_()
        (gradient,) = torch.autograd.grad(sw.decompose(x, rule).epistemic.sum(), x)
        for got, theta in zip(below_top(gradient.numpy(), probs), probs, strict=True):
            *_, expected = reference.gradients(rule, theta)
            assert error_of_rows(got, expected) < tolerance, name


def sure_logits(k: int) -> np.ndarray:
    """Logits (2, 3, k) in float32 of members that are sure of a class, not always the same."""
    z = np.random.default_rng(0).normal(size=(2, 3, k))
    z[0, :, 0] += 12
    z[1, [0, 1, 2], [1, 1, 0]] += [9, 14, 7]
    return z.astype(np.float32)


@pytest.mark.parametrize("kind", ["logits", "masses", "softmax"])
@pytest.mark.parametrize("k", [2, 4])
def test_gradients_of_float32_keep_their_digits_where_members_are_sure(k, kind):
    z = torch.from_numpy(sure_logits(k))
    options = {"logits": {"from_logits": True}, "masses": {"normalize": True}}.get(kind, {})
    x = (z.softmax(-1) * 2 if kind == "masses" else z).requires_grad_()
    for name, rule in more_rules(k).items():
        probs = x.softmax(-1) if kind == "softmax" else x
        theta = probs.detach().numpy()
        parts = sw.decompose(probs, rule, **options)
        gradients = [torch.autograd.grad(p.sum(), x, retain_graph=True)[0].numpy() for p in parts]
        for i in range(len(theta)):
            expected = reference.gradients(rule, theta[i], kind)
            # members that are divided by their sum are rounded, and EU is of their differences
            for j in range(3 if kind == "softmax" else 2):
                assert error_of_rows(gradients[j][i], expected[j]) < 5e-6, (name, j)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [2, 3, 10, 33])
def test_identical_members_have_no_epistemic_gradient(dtype, k):
    same = torch.from_numpy(members(40, 1, k)).to(dtype).repeat(1, 7, 1)
    same[0] = 0.0
    same[0, :, 0] = 1.0
    same[1] = 1 / k
    for options in ({"normalize": True}, {"from_logits": True}):
        x = (same.log() if "from_logits" in options else same).requires_grad_()
        for weights in (None, np.arange(7.0), np.random.default_rng(0).uniform(size=(40, 7))):
            for name, rule in all_rules(k).items():
                d = sw.decompose(x, rule, weights=weights, **options)
                (gradient,) = torch.autograd.grad(d.epistemic.sum(), x)
                assert not gradient.any(), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [2, 4])
def test_gradients_are_finite_at_probabilities_of_zero(dtype, k):
    one_hot = torch.eye(k, dtype=dtype)[torch.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 1]])]
    some = torch.cat([one_hot, one_hot.roll(1, -1) * 1e-30 + one_hot * (1 - 1e-30)])
    for name, rule in all_rules(k).items():
        for options in ({}, {"normalize": True}, {"from_logits": True}):
            x = (some.log() if "from_logits" in options else some.clone()).requires_grad_()
            for part in sw.decompose(x, rule, **options):
                (gradient,) = torch.autograd.grad(part.sum(), x, retain_graph=True)
                assert gradient.isfinite().all(), (name, options)
                if "from_logits" in options:
                    assert not gradient[some == 0].any(), name


@pytest.mark.parametrize("k", [2, 4])
def test_gradients_in_half_precision_are_finite_behind_a_softmax(k):
    places = torch.tensor([[0, 0, 1], [1, 0, 0]])
    z = (20 * torch.eye(k, dtype=torch.float16)[places]).requires_grad_()
    rules = all_rules(k) | ({"beta:-0.9,-0.9": sw.rules.beta(-0.9, -0.9)} if k == 2 else {})
    for name, rule in rules.items():
        for part in sw.decompose(torch.softmax(z, -1), rule):
            (gradient,) = torch.autograd.grad(part.sum(), z, retain_graph=True)
            assert gradient.isfinite().all(), name


def test_a_gradient_beyond_half_precision_is_infinite_for_loss_scaling_to_see():
    probs = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]], dtype=torch.float16, requires_grad=True)
    (gradient,) = torch.autograd.grad(1e6 * sw.decompose(probs, "log").total.float().sum(), probs)
    assert not gradient.isfinite().all()


def test_ties_have_the_gradient_of_the_first_decision():
    tied = torch.tensor([[[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]], dtype=torch.float64)
    d = sw.decompose(tied.requires_grad_(), "zero-one")
    (of_total,) = torch.autograd.grad(d.total.sum(), tied, retain_graph=True)
    (of_aleatoric,) = torch.autograd.grad(d.aleatoric.sum(), tied)
    second, first = torch.tensor([0.0, -0.5, 0.0]), torch.tensor([-0.5, 0.0, 0.0])
    expected = torch.stack([second, second])[None].double()  # the mean's largest is the second
    torch.testing.assert_close(along_simplex(of_total), along_simplex(expected))
    expected = torch.stack([first, second])[None].double()
    torch.testing.assert_close(along_simplex(of_aleatoric), along_simplex(expected))


@pytest.mark.parametrize("library", ["jax.numpy", "array_api_strict", "torch"])
def test_the_gradient_by_arrays_is_of_the_library_of_the_members(library):
    xp = pytest.importorskip(library)
    probs, upstream = members(6, 3, 4).astype(np.float32), np.ones(6, np.float32)
    for name, rule in all_rules(4).items():
        gradients = [
            gradient_by_arrays(
                sw.Samples(asarray(probs)).raw(), None, [rule], 3 * [asarray(upstream)]
            )
            for asarray in (np.asarray, xp.asarray)
        ]
        assert type(gradients[1]) is type(xp.asarray(probs))
        np.testing.assert_allclose(np.asarray(gradients[1]), gradients[0], 1e-5, 1e-6, err_msg=name)


@pytest.mark.parametrize("shape", [(40_000, 20, 10), (4_000, 20, 100)])
def test_a_backward_pass_holds_little_besides_the_gradient(shape):
    samples = sw.Samples(members(*shape).astype(np.float32))
    g = np.ones(shape[0], np.float32)
    rules = [sw.get_rule(rule) for rule in OF_PAPER]
    tracemalloc.start()
    gradient = gradient_by_arrays(samples.raw(), None, rules, [g] * 3 * len(rules))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.25 * gradient.nbytes


# -- gradients of gradients, and many at once -----------------------------------------------------


@every_rule
def test_a_gradient_that_is_differentiated_is_the_same(k, name):
    probs = members(6, 3, k, concentration=0.3)
    probs[0] = np.eye(k)[[0, 1, 1]]
    probs[1] = 1 / k
    probs[2] = np.where(np.arange(k) < 2, 0.5, 0.0)
    for kind, options in OPTIONS.items():
        values = torch.from_numpy(probs)
        x = (values.log() if kind == "logits" else values.clone()).requires_grad_()
        for part in sw.decompose(x, all_rules(k)[name], **options):
            (once,) = torch.autograd.grad(part.sum(), x, retain_graph=True)
            (twice,) = torch.autograd.grad(part.sum(), x, create_graph=True)
            torch.testing.assert_close(twice.detach(), once)


@every_rule
def test_a_jacobian_of_many_gradients_at_once_is_that_of_each(k, name):
    logits = leaf(3, 3, k).detach().log()

    def parts(z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(sw.decompose(z, all_rules(k)[name], from_logits=True))

    jacobian = torch.autograd.functional.jacobian
    each = jacobian(parts, logits)
    for got, expected in zip(jacobian(parts, logits, vectorize=True), each, strict=True):
        torch.testing.assert_close(got, expected)
    x = logits.requires_grad_()
    total = parts(x)[0]
    gradient = lambda g: torch.autograd.grad(total, x, g, retain_graph=True)[0]  # noqa: E731
    got = torch.func.vmap(gradient)(torch.eye(3, dtype=x.dtype))
    torch.testing.assert_close(got, each[0])


def test_many_gradients_at_once_pass_the_check_of_torch():
    x = leaf(2, 3, 4)
    decompose = lambda p: tuple(sw.decompose(p.softmax(-1), "log"))  # noqa: E731
    assert torch.autograd.gradcheck(decompose, (x,), check_batched_grad=True)
    hessian = torch.autograd.functional.hessian
    of_one = lambda p: decompose(p)[2].sum()  # noqa: E731
    torch.testing.assert_close(hessian(of_one, x, vectorize=True), hessian(of_one, x))


class WithoutGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> None:
        return None


@pytest.mark.parametrize("create_graph", [False, True])
def test_components_that_pass_on_no_gradient_have_none(create_graph):
    probs = leaf(4, 3, 5)
    loss = WithoutGradient.apply(sw.decompose(probs, "log").epistemic).sum()
    (gradient,) = torch.autograd.grad(loss, probs, create_graph=create_graph, allow_unused=True)
    assert gradient is None


# -- rules of users -------------------------------------------------------------------------------


def test_a_rule_with_parameters_to_learn_is_recorded():
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    own = sw.rule_from_loss_vector(
        lambda p: scale * ((p * p).sum(-1, keepdim=True) + 1 - 2 * p), name="own"
    )
    logits = leaf(4, 3, 5).detach().log().requires_grad_()
    d = sw.decompose(logits, [own, "brier"], from_logits=True)
    loss = d["own"].epistemic.sum()
    own_gradients = torch.autograd.grad(loss, (logits, scale), retain_graph=True)
    (of_brier,) = torch.autograd.grad(d["brier"].epistemic.sum(), logits)
    torch.testing.assert_close(own_gradients[0], 2 * of_brier)
    torch.testing.assert_close(own_gradients[1], d["brier"].epistemic.sum())


class ScaledBrier(sw.rules.ScoringRule):
    """A rule of a user, which has no structure, and a scale that may be learnt."""

    family = name = "scaled_brier"

    def __init__(self, scale: torch.Tensor) -> None:
        self.scale = scale

    def _losses(self, xp: Any, p: Any) -> Any:
        return self.scale * (xp.sum(p * p, axis=-1, keepdims=True) + 1 - 2 * p)

    def _entropy(self, xp: Any, p: Any) -> Any:
        return self.scale * (1 - xp.sum(p * p, axis=-1))

    def _divergence(self, xp: Any, q: Any, p: Any, d: Any) -> Any:
        return self.scale * xp.sum(d * d, axis=-1)


def test_parameters_of_a_class_of_rules_have_gradients_too():
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    logits = leaf(4, 3, 5).detach().log().requires_grad_()
    d = sw.decompose(logits, {"own": ScaledBrier(scale), "brier": "brier"}, from_logits=True)
    assert sw.explain_kernel(logits, ScaledBrier(scale)).path == "array"
    for own, brier in zip(d["own"], d["brier"], strict=True):
        gradients = torch.autograd.grad(own.sum(), (logits, scale), retain_graph=True)
        (of_brier,) = torch.autograd.grad(brier.sum(), logits, retain_graph=True)
        torch.testing.assert_close(gradients[0], 2 * of_brier)
        torch.testing.assert_close(gradients[1], brier.sum())


def test_a_class_of_rules_may_declare_that_its_losses_are_gradients():
    class Proper(ScaledBrier):
        losses_are_gradients = True

    probs = leaf(4, 3, 5)
    d = sw.decompose(probs, Proper(torch.tensor(1.0, dtype=torch.float64)))
    (gradient,) = torch.autograd.grad(d.epistemic.sum(), probs)
    (of_brier,) = torch.autograd.grad(sw.decompose(probs, "brier").epistemic.sum(), probs)
    torch.testing.assert_close(gradient, of_brier)
    assert type(d.epistemic.grad_fn).__name__.startswith("ClosedFormGradient")


def test_an_improper_rule_has_the_gradient_of_its_own_formula():
    improper = sw.rule_from_loss_vector(
        lambda p: (1 - p).abs() + p.sum(-1, keepdim=True), name="l1"
    )
    logits = leaf(2, 3, 4).detach().log().requires_grad_()
    total = lambda z: sw.decompose(z, improper, from_logits=True).total  # noqa: E731
    assert torch.autograd.gradcheck(total, (logits,))


# -- kernels that differentiate -------------------------------------------------------------------


def differentiating(calls: list[Any], supported: set[str], result: Any = None) -> SimpleNamespace:
    """The CPU kernel with gradients of the supported rules, ones unless told otherwise."""

    def gradient(raw: Any, weights: Any, rules: Any, upstream: Any) -> Any:
        calls.append(([rule.name for rule in rules], upstream))
        return result(raw) if result else torch.ones_like(raw.values)

    return SimpleNamespace(
        is_usable=cpu.is_usable,
        supports=cpu.supports,
        compute=cpu.compute,
        supports_gradient=lambda rule: rule.name in supported,
        gradient=gradient,
    )


def test_a_kernel_computes_the_gradients_that_it_supports_and_arrays_the_others(monkeypatch):
    probs = leaf(4, 3, 5)
    (of_brier,) = torch.autograd.grad(sw.decompose(probs, "brier").total.sum(), probs)
    calls: list[Any] = []
    monkeypatch.setitem(KERNELS, "cpu", differentiating(calls, {"log", "rps"}))
    d = sw.decompose(probs, ["log", "brier", "rps"])
    loss = d["log"].epistemic.sum() + d["brier"].total.sum() + 3 * d["rps"].aleatoric.sum()
    (gradient,) = torch.autograd.grad(loss, probs)
    torch.testing.assert_close(gradient, of_brier + 1)
    [(rules, upstream)] = calls
    assert rules == ["log", "rps"]
    assert [None if g is None else g.tolist() for g in upstream] == [
        *(None, None, [1.0] * 4),
        *(None, [3.0] * 4, None),
    ]


def test_a_kernel_that_declines_a_gradient_leaves_it_to_arrays(monkeypatch):
    probs, calls = leaf(4, 3, 5), []
    (expected,) = torch.autograd.grad(sw.decompose(probs, "log").total.sum(), probs)
    kernel = differentiating(calls, {"log"}, lambda raw: None)
    monkeypatch.setitem(KERNELS, "cpu", kernel)
    (gradient,) = torch.autograd.grad(sw.decompose(probs, "log").total.sum(), probs)
    assert calls
    torch.testing.assert_close(gradient, expected)


# -- what may go wrong ----------------------------------------------------------------------------


def test_invalid_members_are_refused_as_without_gradients():
    wrong = torch.full((2, 5, 3), 0.5, requires_grad=True)
    for rule in ("log", OF_PAPER):
        with pytest.raises(sw.InvalidInput, match=r"probs\[0, 0\] sums to 1\.5"):
            sw.decompose(wrong, rule)
    with pytest.raises(sw.InvalidInput, match="weights"):
        sw.decompose(leaf(2, 3, 4), "log", weights=[1.0, -1.0, 1.0])


def test_members_that_are_overwritten_before_the_backward_pass_are_refused():
    probs = leaf(4, 3, 5)
    masses = probs * 1.0
    total = sw.decompose(masses, "log").total.sum()
    with torch.no_grad():
        masses.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_weights_that_change_later_leave_the_gradient_as_it_was(library):
    gradients = []
    for is_changed in (False, True):
        weights: Any = np.array([1.0, 2.0, 3.0])
        if library == "torch":
            weights = torch.asarray(weights)
        x = leaf(4, 3, 5)
        epistemic = sw.decompose(x.softmax(-1), "log", weights=weights).epistemic
        if is_changed:
            weights[:] = 1.0
        gradients += torch.autograd.grad(epistemic.sum(), x)
    assert torch.equal(*gradients)


def test_a_result_keeps_no_members_that_torch_stores_elsewhere():
    stored = []

    def store(x: torch.Tensor) -> int:
        stored.append(x.numpy().copy())
        return len(stored) - 1

    x = leaf(4, 3, 5)
    with torch.autograd.graph.saved_tensors_hooks(store, lambda i: torch.asarray(stored[i])):
        probs = x.softmax(-1)
        total = sw.decompose(probs, "log").total
    members_themselves = ref(probs)
    del probs
    assert members_themselves() is None
    assert torch.isfinite(torch.autograd.grad(total.sum(), x)[0]).all()


def test_options_without_a_closed_form_are_recorded():
    logits = leaf(2, 3, 4).detach().log().requires_grad_()
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)

    def uncertainty(z: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        d = sw.decompose(z, "log", from_logits=True, weights=w)
        corrected = sw.decompose(z, "log", from_logits=True, unbiased=True, standard_errors=True)
        return (*d, *corrected, *corrected.standard_error)

    assert torch.autograd.gradcheck(uncertainty, (logits, weights))


# -- torch.compile --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # of torch
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_function_leaves_its_graph_at_most_once(backend):
    weight = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    x = torch.randn(8, 5, 3, dtype=torch.float64)

    def loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        probs = torch.softmax(x @ weight, -1)
        d = sw.decompose(probs, OF_PAPER)
        return sum(part.sum() for parts in d.values() for part in parts) * 2

    torch._dynamo.reset()
    report = torch._dynamo.explain(loss)(x, weight)
    assert report.graph_break_count <= 1
    torch._dynamo.reset()
    with kernel_only():  # between the two graphs
        compiled = torch.compile(loss, backend=backend)(x, weight)
    expected = loss(x, weight)
    torch.testing.assert_close(compiled, expected)
    for got, right in zip(
        torch.autograd.grad(compiled, weight), torch.autograd.grad(expected, weight), strict=True
    ):
        torch.testing.assert_close(got, right)


def test_an_epistemic_term_makes_an_ensemble_agree():
    torch.manual_seed(0)
    x, y = torch.randn(64, 2), torch.arange(64) % 3
    nets = torch.nn.ModuleList(torch.nn.Linear(2, 3) for _ in range(4))
    optimizer = torch.optim.SGD(nets.parameters(), lr=0.5)
    history = []
    for _ in range(30):
        logits = torch.stack([net(x) for net in nets], dim=1)
        epistemic = sw.decompose(logits, "log", from_logits=True).epistemic.mean()
        fit = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.repeat_interleave(4))
        optimizer.zero_grad()
        (fit + 2 * epistemic).backward()
        optimizer.step()
        history.append(float(epistemic.detach()))
    assert history[-1] < history[0] / 10


def test_gradients_of_many_rows_are_those_of_each_row():
    x = leaf(20_000, 10, 10, dtype=torch.float32)
    sw.decompose(x, "rps").epistemic.sum().backward()
    assert x.grad is not None
    for i in (0, 12_345, 19_999):
        row = x.detach()[i].clone().requires_grad_()
        sw.decompose(row, "rps").epistemic.backward()
        torch.testing.assert_close(x.grad[i], row.grad)
