"""The CUDA kernel, run on a processor: as float64 arrays, laws, bad input, layouts, plans."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import scorewise as sw
from cuda_support import (
    COMPILER,
    FIRST_FOUR,
    LAYOUTS,
    MOST_SHARED_BYTES,
    OF_ANY_CLASSES,
    OTHERS,
    PLAIN,
    ROUNDING,
    SPOILED,
    KernelForNumpy,
    amid_nan,
    assert_right,
    awkward,
    emulated_gpu,
    exact,
    identical,
    launch,
    supported,
)
from scorewise.kernels import Extras, cuda
from scorewise.kernels.cuda import _launch
from scorewise.kernels.cuda._plan import MemoryLayout, Needs, plan_of
from support import all_rules, members, own_brier, softmax

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
FEW_SHARED_BYTES = 16 << 10


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The folder of compiled kernels, which the workers of pytest-xdist share."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent
    folder = folder / "cuda"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def gpu(compiled: Path) -> Iterator[list[dict[str, Any]]]:
    with emulated_gpu(compiled) as launched:
        yield launched


# -- as the array path ----------------------------------------------------------------------------


ALL, SOME, OTHER = slice(None), slice(0, None, 2), slice(1, None, 2)  # of all rules


@needs_compiler
@pytest.mark.parametrize(
    ("m", "k", "some"),
    [
        (20, 2, ALL),
        (1, 3, SOME),
        (70, 5, OTHER),
        (20, 10, ALL),
        (2, 17, SOME),
        (20, 33, OTHER),
        (5, 100, SOME),
        (20, 130, ALL),
    ],
)
def test_every_rule_is_as_accurate_as_stated_and_obeys_the_laws(m: int, k: int, some: slice, gpu):
    probs = softmax(awkward(m, k)).astype(np.float32)
    rules = all_rules(k)
    unsupported = {"cost-matrix"} if k > 31 else set()
    assert set(rules) - set(supported(rules)) == unsupported
    rules = dict(list(supported(rules).items())[some])
    assert sw.explain_kernel(amid_nan(probs), rules).path == "cuda"
    results = sw.decompose(amid_nan(probs), rules)
    assert gpu
    assert_right(results, exact(probs, rules))
    for name, d in results.items():
        assert (d.epistemic[identical()] == 0).all(), name


@needs_compiler
def test_rules_of_a_thousand_classes(gpu):
    probs = softmax(awkward(3, 1000, n_each=1)).astype(np.float32)
    rules = [*FIRST_FOUR, *OTHERS]
    assert_right(sw.decompose(amid_nan(probs), rules), exact(probs, rules))


@needs_compiler
@pytest.mark.parametrize(("m", "k"), [(70, 100), (3000, 2)])
@pytest.mark.parametrize("weighted", [False, True])
def test_members_that_do_not_fit_into_shared_memory_come_in_stages(m, k, weighted, compiled: Path):
    probs = softmax(awkward(m, k, n_each=1)).astype(np.float32)
    rules = {name: sw.get_rule(name) for name in [*FIRST_FOUR, "tsallis:1.5", "top-k:2"]}
    rules["cost-matrix"] = OF_ANY_CLASSES[0](k)
    weights = None
    if weighted:
        weights = np.random.default_rng(0).uniform(size=m)
        weights[: m // 2] = 0  # of all members of the first stages
    with emulated_gpu(compiled, FEW_SHARED_BYTES) as launched:
        results = sw.decompose(amid_nan(probs), rules, weights=weights)
    assert all(constants["HAS_STAGES"] for constants in launched)
    assert_right(results, exact(probs, rules, weights=weights), m=m)
    for name, d in results.items():
        assert (d.epistemic[identical(1)] == 0).all(), name


@needs_compiler
@pytest.mark.parametrize("seed", range(2))
def test_the_kernel_agrees_with_the_array_path_on_awkward_arrays(seed: int, gpu):
    sw.check_kernel(KernelForNumpy(), FIRST_FOUR, n_trials=12, random_state=seed)
    assert {constants["GRADIENT"] for constants in gpu} == {0, 1}


@needs_compiler
def test_other_rules_agree_with_the_array_path_on_awkward_arrays(gpu):
    rules = ["tsallis:20", "top-k:2", "rps", *OF_ANY_CLASSES]
    sw.check_kernel(KernelForNumpy(), rules, n_trials=8, random_state=3)


@needs_compiler
@pytest.mark.parametrize("parameters", ["-0.9,1", "50,50", "0.5,20", "0.01,0"])
def test_extreme_parameters_of_the_beta_family(parameters: str, gpu):
    rng = np.random.default_rng(0)
    p = 10.0 ** -rng.uniform(0, 30, (40, 1)) * 10 ** (
        rng.normal(size=(40, 5)) * 10.0 ** -rng.integers(0, 5, (40, 1))
    )
    p = np.minimum(p, 1).astype(np.float32)
    p[:3] = [[0, 0, 1e-36, 0, 0], [0, 1, 0, 1, 0], [1, 1, 1, 1, 0.5]]
    probs = np.stack([1 - p, p], axis=-1)
    probs = np.concatenate([probs, probs[..., ::-1]])
    rules = {parameters: sw.get_rule(f"beta:{parameters}")}
    results = sw.decompose(amid_nan(probs), rules)
    assert gpu
    assert_right(results, exact(probs, rules))


# -- layouts and numbers --------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("k", [6, 40])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, k: int, gpu):
    probs = softmax(awkward(9, k)).astype(np.float32)
    array, axes = LAYOUTS[layout](probs)
    tensor = amid_nan(array)
    if layout == "shifted":  # addresses are multiples of 4 bytes, not of 16
        tensor = torch.nn.functional.pad(tensor.reshape(-1), (1, 0))[1:].reshape(tensor.shape)
    results = sw.decompose(tensor, FIRST_FOUR, **axes)
    assert gpu
    assert_right(results, exact(probs, FIRST_FOUR))


@needs_compiler
@pytest.mark.parametrize(
    ("layout", "k"), [*((layout, 6) for layout in LAYOUTS), ("(M, N, K)", 40), ("shifted", 40)]
)
def test_gradients_of_layouts_that_gradients_may_not_have(layout: str, k: int, gpu):
    rng = np.random.default_rng(0)
    array, axes = LAYOUTS[layout](softmax(2 * rng.normal(size=(35, 3, k))).astype(np.float32))
    gradients = []
    for x in (amid_nan(array), torch.as_tensor(array.astype(float))):
        x.requires_grad_()
        results = sw.decompose(x, FIRST_FOUR, check=False, **axes)
        parts = [part.sum() for d in results.values() for part in d]
        sum(scale * part for scale, part in enumerate(parts, 1)).backward()
        moved = x.grad.double().movedim(axes.get("class_axis", -1), -1)
        gradients.append(moved - moved.mean(-1, keepdim=True))  # constants of a row do not count
    assert sum(constants["GRADIENT"] for constants in gpu) == 1
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("k", [140, 1100])  # rows in registers, and too many classes for that
def test_gradients_of_large_instances(k: int, from_logits: bool, gpu):
    values = 2 * np.random.default_rng(0).normal(size=(5, 3, k))
    array = (values if from_logits else softmax(values)).astype(np.float32)
    gradients = []
    for x in (torch.as_tensor(array), torch.as_tensor(array.astype(float))):
        x.requires_grad_()
        results = sw.decompose(x, FIRST_FOUR, check=False, from_logits=from_logits)
        parts = [part.sum() for d in results.values() for part in d]
        sum(scale * part for scale, part in enumerate(parts, 1)).backward()
        gradients.append(x.grad.double() - x.grad.double().mean(-1, keepdim=True))
    assert [constants["WORK"] for constants in gpu if constants["GRADIENT"]] == ["BlockGradient"]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def first_four_gradient(values: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the sum of all epistemic parts, without constants of rows."""
    x = values.detach().requires_grad_()
    parts = [d.epistemic.sum() for d in sw.decompose(x, FIRST_FOUR, check=False).values()]
    (gradient,) = torch.autograd.grad(parts, x)
    return gradient.double() - gradient.double().mean(-1, keepdim=True)


@needs_compiler
@pytest.mark.parametrize("kind", ["logits", "softmax"])
@pytest.mark.parametrize("k", [2, 5, 40])
def test_gradients_keep_their_digits_where_members_are_sure(k: int, kind: str, gpu):
    z = np.random.default_rng(0).normal(size=(9, 4, k))
    z[:, :, 0] += np.arange(3, 12)[:, None]
    z[4:, 1] = np.roll(z[4:, 1], 1, axis=-1)  # a member that is sure of another class
    logits = torch.as_tensor(z.astype(np.float32)).requires_grad_()
    probs = logits.softmax(-1) if kind == "softmax" else logits
    wide = probs.detach().double().requires_grad_()
    options = {"from_logits": kind == "logits", "check": False}
    # members are rounded by a softmax, and EU is of their differences
    parts = ["total", "aleatoric", *(["epistemic"] if kind == "softmax" else [])]

    def check(ours: Any, right: Any, which: Any) -> None:
        (gradient,) = torch.autograd.grad(ours, logits, retain_graph=True)
        (expected,) = torch.autograd.grad(right, wide, retain_graph=True)
        if kind == "softmax":
            top = expected.gather(-1, wide.argmax(-1, keepdim=True))
            expected = expected - top
            expected = wide.detach() * (expected - (wide * expected).sum(-1, keepdim=True))
        size = expected.abs().amax(-1, keepdim=True).clamp(min=1e-30)
        assert ((gradient - expected).abs() / size).max() < 2e-5, which

    results, right = (sw.decompose(x, FIRST_FOUR, **options) for x in (probs, wide))
    nothing = sum(part.sum() for d in results.values() for part in d) * 0
    for names in (FIRST_FOUR, *([name] for name in FIRST_FOUR)):
        for part in parts:
            ours, theirs = (
                sum(getattr(r[name], part).sum() for name in names) for r in (results, right)
            )
            check(ours + nothing, theirs, (names, part))
    if (k, kind) == (5, "softmax"):  # each component alone, compiled without the others
        for name in FIRST_FOUR:
            for part in parts:
                check(getattr(results[name], part).sum(), getattr(right[name], part).sum(), part)
    variants = {constants["UPSTREAM"] for constants in gpu if constants["GRADIENT"]}
    assert len(variants) == (13 if (k, kind) == (5, "softmax") else 1)


@needs_compiler
def test_results_of_members_with_gradients_are_tensors_of_their_own(gpu):
    probs = torch.as_tensor(softmax(np.random.default_rng(0).normal(size=(9, 5, 4)))).float()
    probs.requires_grad_()
    (right,) = torch.autograd.grad(sw.decompose(probs, "brier").epistemic.sum(), probs)
    d = sw.decompose(probs, {"a": "brier", "log": "log", "b": "brier"})
    before = d["b"].epistemic.detach().clone()
    d["a"].epistemic.mul_(2)
    d["a"].total[d["a"].total > 0] += 1
    assert torch.equal(d["b"].epistemic, before)
    loss = d["a"].epistemic.sum() + 3 * d["b"].epistemic.sum()
    (gradient,) = torch.autograd.grad(loss, probs)
    torch.testing.assert_close(gradient, 5 * right)


@needs_compiler
def test_a_rule_that_is_there_twice_has_results_of_its_own(gpu):
    probs = torch.full((9, 5, 4), 0.25)
    d = sw.decompose(probs, {"a": "brier", "b": "brier", "c": "brier"})
    d["a"].total.add_(1)
    d["b"].total.add_(2)
    assert [float(x.total[0]) for x in d.values()] == [1.75, 2.75, 0.75]


@needs_compiler
def test_members_that_overlap_have_gradients_of_their_own(gpu):
    rows = torch.as_tensor(softmax(np.random.default_rng(0).normal(size=(44, 4)))).float()
    windows = rows.unfold(0, 5, 1).transpose(1, 2)
    for overlapping in (rows[:, None].expand(44, 5, 4), windows):
        right = first_four_gradient(overlapping.contiguous())
        torch.testing.assert_close(first_four_gradient(overlapping), right, rtol=1e-4, atol=1e-6)


@needs_compiler
@pytest.mark.parametrize("k", [4, 36])
def test_a_row_of_nan_has_no_gradient_and_leaves_the_others_theirs(k: int, gpu):
    probs = torch.as_tensor(softmax(2 * np.random.default_rng(0).normal(size=(9, 5, k)))).float()
    right = first_four_gradient(probs)
    spoiled = probs.clone()
    spoiled[3] = float("nan")
    others = [0, 1, 2, 4, 5, 6, 7, 8]
    torch.testing.assert_close(first_four_gradient(spoiled)[others], right[others])


@needs_compiler
def test_arrays_of_another_library_that_run_backwards(gpu):
    probs = softmax(awkward(6, 5)).astype(np.float32)
    backwards = np.ascontiguousarray(probs[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]
    for array in (probs, backwards):
        d = sw.decompose(array, "log")
        assert isinstance(d.total, np.ndarray)
        np.testing.assert_allclose(d.epistemic, exact(probs, ["log"])["log"].epistemic, rtol=1e-4)
    assert len(gpu) == 2


@needs_compiler
def test_axes_of_instances_of_any_number_and_spacing(gpu):
    probs = softmax(awkward(4, 5)).astype(np.float32)  # 12 instances
    expected = exact(probs, FIRST_FOUR)
    weights = np.random.default_rng(0).uniform(size=(12, 4))
    weighted = exact(probs, FIRST_FOUR, weights=weights)

    def shaped(results: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
        return {name: [x.reshape(shape) for x in d] for name, d in results.items()}

    for shape in [(12,), (3, 4), (2, 3, 2), (1, 12, 1)]:
        array = probs.reshape(*shape, 4, 5)
        tensors = [amid_nan(array), amid_nan(np.asfortranarray(array))]  # not evenly spaced
        for tensor in tensors:
            assert_right(sw.decompose(tensor, FIRST_FOUR), shaped(expected, shape))
            w = weights.reshape(*shape, 4)
            results = sw.decompose(tensor, FIRST_FOUR, weights=w)
            assert_right(results, shaped(weighted, shape))
    single = sw.decompose(amid_nan(probs[0]), FIRST_FOUR)
    assert_right(single, {name: [x[0] for x in d] for name, d in expected.items()})
    for d in sw.decompose(amid_nan(probs[:0]), FIRST_FOUR).values():
        assert [tuple(x.shape) for x in d] == [(0,)] * 3


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("k", [10, 100])
def test_half_precision(dtype: str, k: int, gpu):
    logits = torch.as_tensor(awkward(7, k))
    rules = [*FIRST_FOUR, "rps"]
    rounded = amid_nan(logits.softmax(-1).numpy(), dtype)
    results = sw.decompose(rounded, rules)
    assert_right(results, exact(rounded, rules))
    rounded = amid_nan(logits.numpy(), dtype)
    results = sw.decompose(rounded, rules, from_logits=True)
    assert_right(results, exact(softmax(rounded.double().numpy()), rules), ROUNDING)
    assert all(constants["Element"] != "float" for constants in gpu)


@needs_compiler
@pytest.mark.parametrize("k", [3, 60, 140])
def test_logits_and_masses(k: int, gpu):
    logits = awkward(6, k, seed=1).astype(np.float32)
    logits[0, :, 1] = -np.inf  # a class that is impossible
    shifted = logits + np.float32(1024)
    for values in (logits, shifted):
        results = sw.decompose(amid_nan(values), FIRST_FOUR, from_logits=True)
        expected = exact(softmax(values.astype(float)), FIRST_FOUR)
        assert_right(results, expected, ROUNDING)
    masses = (5 * softmax(logits)).astype(np.float32)
    wide = masses.astype(float) / masses.astype(float).sum(-1, keepdims=True)
    results = sw.decompose(amid_nan(masses), FIRST_FOUR, normalize=True)
    assert_right(results, exact(wide, FIRST_FOUR), ROUNDING)


@needs_compiler
@pytest.mark.parametrize("k", [9, 140])
def test_logits_of_any_size(k: int, gpu):
    logits = np.zeros((5, 4, k), np.float32)
    logits[:] = np.array([3993904128, 1517800192, -3e9, -1e12, 2.5e38])[:, None, None]
    expected = exact(np.full((5, 4, k), 1 / k), FIRST_FOUR)
    for rules in (FIRST_FOUR, ["brier"]):
        results = sw.decompose(amid_nan(logits), rules, from_logits=True)
        assert_right(results, expected)
        for d in results.values():
            assert (d.epistemic == 0).all()


@needs_compiler
@pytest.mark.parametrize("k", [4, 50])
@pytest.mark.parametrize("per_row", [False, True])
def test_weights_and_members_without_any(k: int, per_row: bool, gpu):
    probs = softmax(awkward(8, k)).astype(np.float32)
    rng = np.random.default_rng(1)
    weights = rng.uniform(size=(len(probs), 8) if per_row else 8) ** 4
    weights[..., [3, 7]] = 0
    rules = [*FIRST_FOUR, "top-k:2", "tsallis:1.5"]
    results = sw.decompose(amid_nan(probs), rules, weights=weights)
    assert_right(results, exact(probs, rules, weights=weights))
    others = [0, 1, 2, 4, 5, 6]  # of as many the kernel is compiled alike
    some = amid_nan(np.ascontiguousarray(probs[:, others]))
    without = sw.decompose(some, rules, weights=weights[..., others])
    assert_right(results, {name: [x.double().numpy() for x in d] for name, d in without.items()})
    for name, d in results.items():
        assert (d.epistemic[identical()] == 0).all(), name


# -- rules ----------------------------------------------------------------------------------------


@needs_compiler
@settings(max_examples=8)
@given(names=st.lists(st.sampled_from([*FIRST_FOUR, "rps", "top-k:2"]), min_size=1, max_size=6))
def test_rules_in_any_order_and_repeated_give_the_same_numbers(names: list[str], compiled: Path):
    probs = softmax(awkward(5, 4)).astype(np.float32)
    with emulated_gpu(compiled):
        together = sw.decompose(amid_nan(probs), {str(i): name for i, name in enumerate(names)})
        for i, name in enumerate(names):
            alone = sw.decompose(amid_nan(probs), name)
            for a, b in zip(together[str(i)], alone, strict=True):
                assert (a == b).all(), name


@needs_compiler
def test_rules_that_the_kernel_does_not_know_are_computed_beside_it(gpu):
    probs = amid_nan(members(4, 3, 5).astype(np.float32))
    results = sw.decompose(probs, {"own": own_brier("torch"), "brier": "brier"})
    assert len(gpu) == 1
    for a, b in zip(results["own"], results["brier"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@needs_compiler
@pytest.mark.parametrize("k", [3, 40])
def test_epistemic_is_exactly_zero_where_members_agree_on_the_decision(k: int, gpu):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(k), (30, 6))
    probs[..., 0] += 2  # class 0 is the largest
    probs = (probs / probs.sum(-1, keepdims=True)).astype(np.float32)
    cheap = np.full((k, 4), 2.0) + rng.uniform(size=(k, 4))
    cheap[:, 2] = rng.uniform(size=k)  # action 2 costs least, whatever the class
    rules = {"zero-one": "zero-one", "costs": sw.rules.cost_matrix(cheap)}
    for name, d in sw.decompose(amid_nan(probs), rules).items():
        assert (d.epistemic == 0).all(), name


@needs_compiler
def test_choices_that_are_almost_tied_keep_their_digits(gpu):
    steps = 2.0 ** -np.arange(1, 22)[:, None] * [1, -0.5]  # 21 pairs that disagree about the action
    probs = np.stack([0.5 + steps, 0.5 - steps], axis=-1).astype(np.float32)
    for costs in ([[0, 1], [1, 0]], [[7, 8, 9], [8, 7, 9]], [[-1e3, -999], [-999, -1e3]]):
        rules = {"costs": sw.rules.cost_matrix(costs), "zero-one": "zero-one"}
        results = sw.decompose(amid_nan(probs), rules)
        np.testing.assert_allclose(results["costs"].epistemic, np.abs(steps[:, 1]), rtol=1e-5)
        np.testing.assert_allclose(results["zero-one"].epistemic, np.abs(steps[:, 1]), rtol=1e-5)


@needs_compiler
def test_choices_that_only_double_precision_tells_apart(gpu):
    rng = np.random.default_rng(0)
    costs = rng.uniform(0, 3, (7, 2))
    ends, gains = np.eye(7), costs[:, 0] - costs[:, 1]
    a, b = ends[np.argmin(gains)], ends[np.argmax(gains)]
    base = rng.dirichlet(np.ones(7), (200, 1))
    towards = np.where((base @ gains)[..., None] > 0, a, b)
    tie = (base @ gains)[..., None] / ((base - towards) @ gains)[..., None]
    steps = rng.uniform(-1e-7, 1e-7, (200, 2, 1))
    probs = (base + (tie + steps) * (towards - base)).astype(np.float32)
    rules = {"costs": sw.rules.cost_matrix(costs)}
    expected = exact(probs, rules)
    assert ((expected["costs"].epistemic > 0) & (expected["costs"].epistemic < 1e-7)).sum() > 50
    assert_right(sw.decompose(amid_nan(probs), rules), expected)


@needs_compiler
@pytest.mark.parametrize("parameters", ["0.5,2", "-0.5,-0.3", "0.5,20", "0,0"])
def test_beta_of_members_of_little_weight_that_are_far_from_the_others(parameters: str, gpu):
    p = np.array([0.001, 0.05, 0.2, 0.45, 0.55, 0.8, 0.999])
    far = np.array([0, 1e-6, 0.1, 0.4, 0.6, 0.9, 1 - 1e-6, 1])
    ones = np.ones((7, 8, 1))
    p_1 = np.concatenate(
        [p[:, None, None] * ones, 0.999 * p[:, None, None] * ones, far[:, None] * ones], -1
    )
    probs = np.stack([1 - p_1, p_1], axis=-1).astype(np.float32)
    rules, weights = {parameters: sw.get_rule(f"beta:{parameters}")}, [1, 1, 1e-4]
    results = sw.decompose(amid_nan(probs), rules, weights=weights)
    assert gpu
    assert_right(results, exact(probs, rules, weights=weights))


@needs_compiler
def test_a_root_with_more_columns_than_classes(gpu):
    root = np.random.default_rng(0).normal(size=(4, 9))
    form = root @ root.T
    diagonal = np.diagonal(form)
    rule = sw.rules.quadratic(form)
    wide = sw.rules.structures.QuadraticForm(diagonal[:, None] + diagonal - 2 * form, root)
    own = type("Own", (type(rule),), {"structure": wide})(form)
    probs = softmax(awkward(3, 4)).astype(np.float32)
    assert_right(sw.decompose(amid_nan(probs), {"own": own}), exact(probs, {"own": rule}))
    assert gpu


# -- bad input ------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("kind", SPOILED)
@pytest.mark.parametrize("k", [3, 40])
@pytest.mark.parametrize("rule", ["log", "brier", "zero-one", *OTHERS, "quadratic", "cost-matrix"])
def test_bad_entries_are_found_wherever_they_are(kind: str, k: int, rule: str, gpu):
    options, values = SPOILED[kind]
    if k > 31 and (rule == "cost-matrix" or (kind == "masses" and rule not in FIRST_FOUR)):
        rule = "log"
    rules = [all_rules(k).get(rule) or sw.get_rule(rule)]
    logits = 2 * np.random.default_rng(0).normal(size=(50, 4, k))
    good = (logits if kind == "logits" else softmax(logits)).astype(np.float32)
    places = [(0, 0, 0), (49, 3, k - 1), (17, 2, 1)]
    for value in values:
        for place in places:
            bad = good.copy()
            bad[place] = value
            with pytest.raises(sw.InvalidInput) as error:
                sw.decompose(amid_nan(bad), rules, **options)
            assert error.value.index[:2] == place[:2]
    assert len(gpu) == len(values) * len(places)


@needs_compiler
def test_rows_that_do_not_sum_to_one_and_bad_weights_are_declined(gpu):
    good = softmax(awkward(4, 5)).astype(np.float32)
    for bad in (np.float32(1.01) * good, np.zeros_like(good)):
        with pytest.raises(sw.InvalidInput):
            sw.decompose(amid_nan(bad), "brier")
    with pytest.raises(sw.InvalidInput):
        sw.decompose(amid_nan(np.zeros_like(good)), "brier", normalize=True)
    with pytest.raises(sw.InvalidInput):
        sw.decompose(amid_nan(good), "brier", weights=[1, -1, 1, 1])
    with pytest.raises(sw.InvalidInput):
        sw.decompose(amid_nan(good), "brier", weights=[0, 0, 0, 0])
    with pytest.raises(sw.InvalidInput, match="classes"):
        sw.decompose(amid_nan(good), sw.rules.weighted_log([1, 2, 3]))


@needs_compiler
def test_without_a_check_bad_rows_are_no_error(gpu):
    bad = softmax(awkward(4, 5)).astype(np.float32)
    bad[3, 2, 1] = np.nan
    results = sw.decompose(amid_nan(bad), FIRST_FOUR, check=False)
    for name, d in results.items():
        for part in d:
            assert torch.isnan(part[3]), name
            assert not torch.isnan(part[[0, 1, 2, 4, 5]]).any(), name


# -- which path runs ------------------------------------------------------------------------------


def reason(values: Any, **options: Any) -> str:
    explanation = sw.explain_kernel(values, "log", **options)
    assert explanation.path == "array"
    return explanation.reason


def test_the_kernel_says_why_it_declines(compiled: Path):
    probs = torch.full((3, 2, 4), 0.25)
    assert not cuda.is_usable(sw.Samples(probs).raw(), None)  # in host memory
    with emulated_gpu(compiled):
        assert sw.explain_kernel(probs, "log").path == "cuda"
        assert "float64" in reason(probs.double())
        assert "too many classes" in reason(torch.full((1, 2, 9_000), 1 / 9_000))
        weights = torch.ones(2, requires_grad=True)
        assert "differentiated" in reason(probs, weights=weights)
    assert cuda.supports(sw.rules.log, PLAIN)
    for extras in (Extras(unbiased=True), Extras(reverse=True), Extras(actions=True)):
        assert not cuda.supports(sw.rules.log, extras)


@pytest.mark.parametrize("has_cuda", [False, True])
def test_the_kernel_says_which_package_is_missing(has_cuda: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda, "on_cuda", lambda values: True)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_cuda)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    cuda._what_is_missing.cache_clear()
    usability = cuda.is_usable(sw.Samples(torch.full((3, 2, 4), 0.25)).raw(), None)
    cuda._what_is_missing.cache_clear()
    assert not usability
    expected = "pip install 'cuda-bindings==12.*'" if has_cuda else "with CUDA is not installed"
    assert expected in usability.reason


@pytest.mark.parametrize(
    "rule",
    [
        sw.rules.tsallis(65),
        sw.rules.pseudospherical(100),
        sw.rules.top_k(17),
        sw.rules.cost_matrix(np.ones((3, 33))),
        sw.rules.beta(400, 1),
        own_brier("torch"),
    ],
    ids=repr,
)
def test_rules_that_are_left_to_the_array_path(rule: Any):
    assert not cuda.supports(rule, PLAIN)


# -- plans ----------------------------------------------------------------------------------------


@st.composite
def layouts(draw: st.DrawFn) -> MemoryLayout:
    n, m, k = (
        draw(st.integers(1, most)) for most in (10_000, draw(st.sampled_from([3, 40, 3_000])), 700)
    )
    gaps = draw(st.sampled_from([(0, 0), (0, 3), (8, 0), (5, 4)]))
    match draw(st.sampled_from(["by instance", "by member", "classes apart"])):
        case "by instance":
            member = k + gaps[0]
            strides = (m * member + gaps[1], member, 1)
        case "by member":
            instance = k + gaps[0]
            strides = (instance, n * instance + gaps[1], 1)
        case _:
            strides = (1, n * k, n)
    return MemoryLayout((n, m, k), strides, draw(st.integers(0, 15)), draw(st.sampled_from([2, 4])))


needs = st.builds(
    Needs,
    values=st.integers(1, 34),
    rules=st.sampled_from([1, 4]),
    columns=st.integers(0, 2),
    registers=st.sampled_from([128, 168]),
)
shared_bytes = st.sampled_from([48 << 10, MOST_SHARED_BYTES, 227 << 10])


@settings(max_examples=300)
@given(layouts(), needs, shared_bytes, st.booleans())
def test_a_plan_covers_all_instances_with_what_a_block_has(
    layout: MemoryLayout, needs: Needs, most: int, changes_rows: bool
):
    plan = plan_of(layout, needs, most, changes_rows=changes_rows)
    assert plan is not None
    constants = dict(plan.constants)
    n, m, _ = layout.shape
    assert 0 < plan.n_bytes <= most
    assert plan.n_threads % 32 == 0
    assert plan.n_threads <= constants["MOST_THREADS"] <= 1024
    warps = plan.n_threads // 32 if constants["CLASS_LANES"] else 1
    assert (
        (plan.n_blocks - 1) * plan.instances * warps < n <= plan.n_blocks * plan.instances * warps
    )
    assert plan.stage == m or constants["HAS_STAGES"]
    assert 1 <= plan.stage <= m


@settings(max_examples=300)
@given(layouts(), needs, shared_bytes, st.booleans())
def test_what_is_copied_at_once_is_aligned_in_both_memories(
    layout: MemoryLayout, needs: Needs, most: int, changes_rows: bool
):
    plan = plan_of(layout, needs, most, changes_rows=changes_rows)
    assert plan is not None
    constants = dict(plan.constants)
    (n, m, k), (instance, member, of_class) = layout.shape, layout.strides
    together, n_bytes = constants["COPY"], layout.n_bytes
    assert together * n_bytes in {2, 4, 8, 16}
    if together == 1:
        return
    assert of_class == 1
    assert layout.address % together == 0
    if constants["ORDER"] == "APART":
        assert k % together == 0
        assert all(stride % together == 0 for stride in (instance, member))
    assert plan.instances >= n or plan.instances * instance % together == 0
    if changes_rows and not constants["CLASS_LANES"]:
        assert plan.row_spacing == k or (plan.row_spacing % together == k % together == 0)
    if not constants["CLASS_LANES"]:
        assert plan.stage * k % together == 0 or plan.stage == m


@given(st.integers(1, 1 << 16), st.integers(0, (1 << 16) - 1))
def test_divisions_by_multiplying_are_exact(divisor: int, x: int):
    divider = _launch.Divider.of(divisor)
    assert divisor == 1 or x * divider.magic >> 32 == x // divisor


@needs_compiler
def test_the_readme_explains_all_constants(gpu):
    for m, k in [(3, 4), (3, 40)]:
        x = amid_nan(members(4, m, k).astype(np.float32)).requires_grad_()
        sw.decompose(x, "log").epistemic.sum().backward()
    text = Path(cuda.__file__).with_name("README.md").read_text(encoding="utf-8")
    explained = {
        name
        for line in text.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert explained == {name for constants in gpu for name in constants}


# -- the emulation --------------------------------------------------------------------------------


@needs_compiler
def test_the_emulation_notices_writes_beyond_shared_memory(compiled: Path):
    def with_too_little(
        constants: Any, job: Any, n_blocks: int, n_threads: int, n_bytes: int, *_: Any
    ) -> None:
        launch(constants, job, n_blocks, n_threads, n_bytes // 2, None, compiled)

    probs = torch.full((1, 7, 40), 1 / 40)
    with emulated_gpu(compiled), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_launch, "launch", with_too_little)
        with pytest.raises(AssertionError, match="beyond the shared memory"):
            sw.decompose(probs, FIRST_FOUR)


def test_a_kernel_that_cannot_run_leaves_its_work_to_the_array_path(
    monkeypatch: pytest.MonkeyPatch, compiled: Path
):
    probs = softmax(awkward(4, 5)).astype(np.float32)
    right = sw.decompose(probs, FIRST_FOUR)
    with emulated_gpu(compiled):
        monkeypatch.setattr(cuda, "_failures", [])
        for error in (_launch.CannotRun("no memory"), _launch.CannotCompile("no such GPU")):
            assert sw.explain_kernel(torch.asarray(probs), "log").path == "cuda"
            monkeypatch.setattr(_launch, "launch", Mock(side_effect=error))
            with pytest.warns(sw.errors.ScorewiseWarning, match=str(error)):
                results = sw.decompose(torch.asarray(probs), FIRST_FOUR)
            for name, d in right.items():
                for part, ours in zip(d, results[name], strict=True):
                    np.testing.assert_allclose(ours.numpy(), part, rtol=2e-4, atol=2e-6)
        assert "no such GPU" in reason(torch.asarray(probs))  # which may be tried no more
        sw.decompose(torch.asarray(probs), "log")  # without another warning
