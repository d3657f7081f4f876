"""The CPU kernel: as the array path, which path runs, bad input, threads, forks, memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import reference
import scorewise as sw
from scorewise import _threads
from scorewise import _validate as validate
from scorewise.kernels import KERNELS, cpu
from scorewise.rules import structures
from support import (
    PRECISION,
    all_rules,
    assert_accurate,
    assert_same,
    by_array,
    by_kernel,
    kernel_only,
    known_to_kernel,
    members,
    softmax,
)

ROOT = Path(__file__).parents[2]
RULES = ["log", "brier", "zero-one", "spherical", "tsallis:1.5", "pseudospherical:3", "rps"]
OF_FIVE_CLASSES = {name: rule for name, rule in all_rules(5).items() if known_to_kernel(rule)}
# Rules whose parameters are of the number of classes.
OF_ANY_CLASSES = [
    lambda k: sw.rules.cost_matrix(np.random.default_rng(k).uniform(0, 3, (k, 5))),
    lambda k: sw.rules.cost_matrix(1 - np.eye(k)[:, :9]),
    lambda k: sw.rules.weighted_log(np.random.default_rng(k).uniform(0.2, 3, k)),
    lambda k: all_rules(min(k, 31))["quadratic"],
]
OF_TWO_CLASSES = ["beta:0,0", "beta:0.5,2", "beta:-0.5,-0.3", "beta:-0.9,1", "beta:50,50"]
OF_TWO_CLASSES += ["beta:0.5,20"]  # whose middle is near a corner
EXTREME = ["tsallis:1.0001", "tsallis:20", "pseudospherical:1.001", "pseudospherical:20", "top-k:2"]
LARGE = (2_700, 10, 10)


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT / "tests",
        env=os.environ | environment,
    )


# -- as the array path ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_agrees_with_the_array_path_on_awkward_arrays(seed: int):
    rules = [*RULES, *EXTREME, *OF_TWO_CLASSES, *OF_ANY_CLASSES]
    sw.check_kernel(cpu, rules, n_trials=150, random_state=seed)


@pytest.mark.parametrize("rule", OF_FIVE_CLASSES)
def test_any_subset_of_rules_gives_the_same_numbers(rule: str):
    probs = members(40, 5, 5).astype(np.float32)
    together = by_kernel(probs, OF_FIVE_CLASSES)[rule]
    alone = by_kernel(probs, OF_FIVE_CLASSES[rule])
    for a, b in zip(alone, together, strict=True):
        assert (a == b).all()


def test_the_same_rule_under_two_names_is_computed_for_both():
    both = by_kernel(members(20, 3, 4), {"mine": "log", "yours": sw.rules.log})
    assert (both["mine"].epistemic == both["yours"].epistemic).all()


def test_more_rules_than_the_kernel_takes_at_a_time():
    probs = members(3, 4, 5)
    rules = {str(i): sw.rules.tsallis(1.1 + i / 50) for i in range(70)}
    assert_same(by_kernel(probs, rules), by_array(probs, rules), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logits_far_apart_do_not_overflow(dtype: str):
    z = np.array([[[1e4, 0.0, -1e4], [0.0, 1e4, -np.inf]], [[-1e30, 0.0, 1e30], [1e30, -1e30, 0]]])
    d = by_kernel(z.astype(dtype), ["log", "zero-one"], from_logits=True)
    np.testing.assert_allclose(d["log"].epistemic, np.log(2), rtol=1e-6)
    np.testing.assert_allclose(d["zero-one"].total, 0.5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [3, 300])
def test_softmax_is_as_accurate_as_the_array_path(dtype: str, k: int):
    """Both against float64 (or longdouble) members from the same logits."""
    rng = np.random.default_rng(0)
    z = (rng.normal(size=(50, 1, k)) * 3 + rng.normal(size=(50, 8, k))).astype(dtype)
    exact = sw.decompose(softmax(z.astype(np.longdouble)).astype(np.float64), RULES)
    by_array = sw.decompose(z, RULES, from_logits=True)
    unit = np.finfo(dtype).eps
    for name, d in by_kernel(z, RULES, from_logits=True).items():
        for got, array, right in zip(d, by_array[name], exact[name], strict=True):
            assert np.abs(got - right).max() <= 2 * np.abs(array - right).max() + 16 * unit, name


@pytest.mark.parametrize("decompose", [by_array, by_kernel])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("option", ["from_logits", "normalize"])
def test_sums_of_many_classes_that_rows_are_divided_by_are_accurate(option, dtype, decompose):
    """Their errors move all cumulative sums beyond the largest class, so that rps shows them."""
    rng = np.random.default_rng(0)
    logits = 12.0 * np.eye(500)[rng.integers(500, size=(200, 1))] + 0.05 * rng.normal(
        size=(200, 2, 500)
    )
    members = (logits if option == "from_logits" else 3 * softmax(logits)).astype(dtype)
    wide = members.astype(np.longdouble)
    probs = softmax(wide) if option == "from_logits" else wide / wide.sum(-1, keepdims=True)
    exact = (np.cumsum((probs[:, 0] - probs[:, 1]) / 2, axis=-1) ** 2).sum(axis=-1)
    error = np.abs(decompose(members, "rps", **{option: True}).epistemic - exact)
    assert (error <= 36 * np.finfo(dtype).eps * np.sqrt(exact)).all()


def test_a_mask_of_classes_counts_as_impossible():
    z = np.random.default_rng(0).normal(size=(30, 5, 6))
    masked = np.concatenate([z, np.full((30, 5, 3), -np.inf)], axis=-1)
    a, b = (by_kernel(x, RULES, from_logits=True) for x in (z, masked))
    for name in RULES:
        for got, right in zip(b[name], a[name], strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
def test_many_members_do_not_drown_in_rounding(weighted: bool):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([3.0, 2.0, 1.0], (1, 250_000)).astype(np.float32)
    weights = rng.uniform(size=250_000) if weighted else None
    exact = by_array(probs.astype(np.float64), RULES, weights)
    for name, d in by_kernel(probs, RULES, weights).items():
        for a, b in zip(d, exact[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6, err_msg=name)


def test_instances_of_several_axes_that_do_not_lie_evenly():
    """A segmentation (M, N, K, H, W), cropped: no copy makes it a matrix."""
    probs = np.moveaxis(members(3 * 8 * 9, 4, 5).reshape(3, 8, 9, 4, 5), (3, 4), (0, 2))
    crop = probs[:, :, :, 1:7, 2:8]
    weights = np.random.default_rng(0).uniform(size=(3, 6, 6, 4))
    for w in (None, weights[0, 0, 0], weights):
        expected = sw.decompose(crop, RULES, weights=w, member_axis=0, class_axis=2)
        got = by_kernel(crop, RULES, w, member_axis=0, class_axis=2)
        for name in RULES:
            for a, b in zip(got[name], expected[name], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [20, 150, 300])
def test_epistemic_is_exactly_zero_where_many_classes_are_agreed_on(k: int, dtype: str):
    probs = members(33, 7, k).astype(dtype)
    best = probs.argmax(axis=-1)
    for i, m in np.ndindex(best.shape):  # everyone likes class 1 best, some only just
        row = probs[i, m]
        row[[1, best[i, m]]] = row[[best[i, m], 1]]
        row[2] = row[1]
    probs /= probs.sum(axis=-1, keepdims=True)
    agreed = (probs == probs.max(axis=-1, keepdims=True)).all(axis=1).any(axis=-1)
    assert agreed.sum() > 20
    for weights in (None, np.arange(7.0), np.random.default_rng(0).uniform(size=(33, 7))):
        assert (by_kernel(probs, "zero-one", weights).epistemic[agreed] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spread", [1e-5, 1e-3, 0.1, 1.0])
def test_two_classes_are_accurate_however_far_the_heaviest_member_is(spread: float, dtype: str):
    """EU under brier and spherical is first a difference of distances from that member."""
    rng = np.random.default_rng(0)
    light = np.arange(20, 0, -1.0)
    heavy = np.where(np.arange(20) == 0, 1e4, 1.0)
    cases = [(2, 0.0, None), (20, 0.0, light), (20, 3.0, None), (20, 8.0, heavy), (99, 8.0, None)]
    for m, outlier, weights in cases:
        score = rng.normal(size=(20, 1)) * 2 + spread * rng.normal(size=(20, m))
        score[:, 0] += outlier
        first = 1 / (1 + np.exp(-score))
        probs = np.stack([first, 1 - first], axis=-1).astype(dtype)
        results = by_kernel(probs, RULES[:4], weights)
        for name, result in results.items():
            for i in range(len(probs)):
                expected = reference.decompose(sw.get_rule(name), probs[i], weights)
                assert_accurate(result, i, expected, dtype, f"{name}, {m} members")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quadratic_rules_are_accurate_where_members_are_sure_but_for_an_outlier(dtype: str):
    probs = np.tile([1 - 3e-5, 2e-5, 1e-5], (3, 600, 1))
    probs[:, 0] = [[0.9, 0.07, 0.03], [0.1, 0.2, 0.7], [0.5, 0.3, 0.2]]
    probs = probs.astype(dtype)
    for rule in (sw.rules.quadratic(np.diag([1, 2, 3.0])), sw.get_rule("rps")):
        exact = [float(reference.decompose(rule, row)[2]) for row in probs]
        got = by_kernel(probs, rule).epistemic
        np.testing.assert_allclose(got, exact, rtol=PRECISION[dtype][0], err_msg=repr(rule))


def test_rows_that_do_not_quite_sum_to_one_are_as_on_the_array_path():
    """Entropy and divergence disagree there; EU is always the divergence."""
    rows = np.array([[[0.7, 0.3], [0.2, 0.8]], [[0.9, 0.1], [0.4, 0.6]]])
    rows = rows * (1 + np.array([8e-7, -5e-7])[:, None])
    for rule in [all_rules(2)["quadratic"], *map(sw.get_rule, OF_TWO_CLASSES[:3])]:
        got, expected = by_kernel(rows, rule).epistemic, by_array(rows, rule).epistemic
        np.testing.assert_allclose(got, expected, rtol=2e-6)
        if rule.name == "quadratic":
            np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_one_instance_without_an_axis_gives_numbers():
    probs = members(1, 6, 4)[0]
    got, right = by_kernel(probs, "log"), sw.decompose(probs, "log")
    assert type(got.total) is type(right.total)
    np.testing.assert_allclose(list(got), list(right), rtol=1e-12)


def test_misaligned_and_swapped_bytes_are_read_right():
    probs = members(50, 5, 4)
    packed = np.zeros(50 * 5 * 4, dtype=[("flag", "u1"), ("p", "f8")])
    packed["p"] = probs.ravel()
    odd = packed["p"].reshape(50, 5, 4)
    assert not odd.flags.aligned
    expected = by_kernel(probs, "log").epistemic
    assert (by_kernel(odd, "log").epistemic == expected).all()
    swapped = probs.astype(probs.dtype.newbyteorder())
    assert "host memory" in sw.explain_kernel(swapped, "log").reason
    np.testing.assert_allclose(sw.decompose(swapped, "log").epistemic, expected, rtol=1e-12)


def test_memory_beside_the_array_is_never_read_as_part_of_it():
    """A view in a larger array of NaN, which would show in every sum."""
    for k in (3, 16, 17, 130):
        larger = np.full((40, 9, k + 7), np.nan)
        larger[4:-3, 2:-2, 3:-4] = members(33, 5, k)
        view = larger[4:-3, 2:-2, 3:-4]
        d = by_kernel(view, RULES)
        assert all(np.isfinite(part).all() for parts in d.values() for part in parts), k


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 9, 17, 130])
def test_members_between_those_of_a_view_do_not_count(k: int, dtype: str):
    """They are read with the others where that is fast; as NaN they would show in every sum."""
    for step in (2, 3, 7):
        larger = np.full((37, 5 * step, k), np.nan, dtype)  # two groups of instances, and a rest
        larger[:, ::step] = members(37, 5, k)
        view = larger[:, ::step]
        for options in ({}, {"weights": np.arange(5.0)}, {"normalize": True}):
            rtol, unit = PRECISION[dtype]
            expected = by_kernel(view.copy(), RULES, **options)
            assert_same(by_kernel(view, RULES, **options), expected, rtol=rtol, atol=4 * unit)


def test_results_do_not_depend_on_neighbours():
    """Nearly agreeing instances among doubtful ones, one by one and all at once."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 1, 5)) + rng.choice([1e-3, 2.0], (60, 1, 1)) * rng.normal(
        size=(60, 4, 5)
    )
    probs = softmax(logits)
    together = by_kernel(probs, RULES)
    for i in (0, 7, 31, 59):
        for name, d in by_kernel(probs[i : i + 1], RULES).items():
            for a, b in zip(d, together[name], strict=True):
                assert a[0] == b[i], name


@dataclass(frozen=True, eq=False, repr=False)
class PowersWithWeights(sw.rules.ScoringRule):
    """A rule made outside the package: H = Σ w·p·(1 − √p)/½, for probabilities that sum to 1."""

    weights: np.ndarray
    family = "powers_with_weights"
    name = "powers"

    @property
    def structure(self):
        return structures.Separable(1.5, self.weights)

    def _losses(self, xp, p):
        return (self.weights * p**1.5).sum(-1, keepdims=True) + self.weights * (2 - 3 * p**0.5)

    def _entropy(self, xp, p):
        return 2 * (self.weights * p * (1 - p**0.5)).sum(-1)

    def _divergence(self, xp, q, p, d):
        a, b = p**0.5, q**0.5
        return (self.weights * (d / np.maximum(a + b, 1e-30)) ** 2 * (2 * a + b)).sum(-1)


@dataclass(frozen=True, eq=False, repr=False)
class CheapestOffer(sw.rules.ScoringRule):
    """Another: the least of a few prices, (K, A)."""

    prices: np.ndarray
    family = "cheapest_offer"
    name = "offers"

    @property
    def structure(self):
        return structures.Costs(self.prices)

    def _losses(self, xp, p):
        return self.prices.T[(p @ self.prices).argmin(-1)]

    def _entropy(self, xp, p):
        return (p @ self.prices).min(-1)

    def _divergence(self, xp, q, p, d):
        prices = p @ self.prices
        choice = (q @ self.prices).argmin(-1)[..., None]
        chosen = np.take_along_axis(prices, np.broadcast_to(choice, (*p.shape[:-1], 1)), -1)
        return chosen[..., 0] - prices.min(-1)


@pytest.mark.parametrize("k", [3, 60])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_rule_from_outside_the_package_takes_the_kernel_by_its_structure(dtype: str, k: int):
    rng = np.random.default_rng(0)
    rules = {
        "separable": PowersWithWeights(rng.uniform(0.5, 2, k)),
        "costs": CheapestOffer(rng.uniform(0, 3, (k, 4))),
    }
    for rule in rules.values():
        sw.check_rule(rule, n_classes=k)
    probs = members(40, 6, k).astype(dtype)
    relative, unit = PRECISION[dtype]
    for weights in (None, rng.uniform(size=(40, 6))):
        with kernel_only() as calls:
            results = sw.decompose(probs, rules, weights=weights)
        assert [list(call[2]) for call in calls] == [list(rules.values())]
        assert_same(results, by_array(probs, rules, weights), rtol=relative, atol=8 * unit)


@dataclass(frozen=True, eq=False, repr=False)
class OutsideRule(sw.rules.ScoringRule):
    """A rule that declares a structure, and does not look at the number of classes."""

    structure: structures.Structure
    family = "outside"
    name = "outside"

    def _losses(self, xp, p):
        return -p

    def _entropy(self, xp, p):
        return -(p * p).sum(-1)

    def _divergence(self, xp, q, p, d):
        return (d * d).sum(-1)


@pytest.mark.parametrize(
    "use",
    [
        sw.decompose,
        sw.reverse_epistemic,
        lambda probs, rule: sw.Accumulator(rule).update(probs[:, 0]),
    ],
    ids=["decompose", "reverse", "accumulate"],
)
def test_a_structure_of_other_classes_is_refused(use):
    probs = members(40, 3, 5)
    for structure in (
        structures.Separable(2.0, np.ones(3)),
        structures.Costs(np.ones((3, 2))),
        structures.LargestClasses(9),
        structures.TwoClass(1.0, 1.0),
    ):
        with pytest.raises(sw.InvalidInput, match="is not for 5 classes"):
            use(probs, OutsideRule(structure))


# -- which path runs ------------------------------------------------------------------------------


def test_a_kernel_computes_the_rules_that_it_supports_among_others():
    probs = members(20, 3, 4)
    own = sw.rule_from_loss_vector(lambda p: 1 - p + (p * p).sum(-1, keepdims=True) / 2, name="own")
    mixed = {"own": own, "log": "log", "extreme": "tsallis:1e6", "brier": "brier"}
    with kernel_only() as calls:
        results = sw.decompose(probs, mixed)
    assert [list(rules) for _, _, rules, _ in calls] == [[sw.rules.log, sw.rules.brier]]
    assert list(results) == list(mixed)
    assert_same(results, by_array(probs, mixed), rtol=1e-12)


def test_invalid_members_raise_the_same_error_under_rules_of_both_paths():
    probs = members(5, 3, 4)
    probs[3, 1, 2] = np.nan
    with pytest.raises(sw.InvalidInput, match=r"probs\[3, 1, 2\] is nan"):
        sw.decompose(probs, ["log", "tsallis:1e6"])


def test_explain_kernel_names_the_path_and_the_reason():
    import dask.array as da
    import jax
    import torch

    large = np.broadcast_to(np.float32(0.1), LARGE)

    def why(x, rule="log", **options):
        return str(sw.explain_kernel(x, rule, **options))

    assert why(large, RULES) == "cpu: the members are in host memory"
    assert why(large, member_axis=0).startswith("cpu")
    assert why(np.array(large).T, class_axis=0, member_axis=1).startswith("cpu")
    assert why(torch.asarray(np.array(large))).startswith("cpu")
    assert why(jax.numpy.asarray(large)).startswith("cpu")
    assert why(large.astype(np.float16)).startswith("cpu")
    assert why(large[0, 0][None]).startswith("cpu")
    extreme = "tsallis:1e6"
    reason = f"array: not by the cpu kernel: it does not support {extreme!r}"
    assert why(large, [extreme]) == reason
    mixed = {"mine": "tsallis:1e5", "fused": "log", "extreme": extreme}
    assert why(large, mixed).startswith("cpu: the members")
    assert why(large, mixed).endswith("; by the array path: 'mine', 'extreme'")
    leaf = torch.asarray(np.array(large)).requires_grad_()
    assert why(leaf) == "cpu: the members are in host memory; gradients in closed form"
    own = sw.rule_from_loss_vector(lambda p: -p.log(), name="own")
    assert why(leaf, ["log", own]).endswith("by the array path: 'own'; gradients in closed form")
    assert "differentiated" in why(leaf, unbiased=True)
    with torch.no_grad():
        assert why(leaf) == "cpu: the members are in host memory"
    assert why(large, unbiased=True).startswith("cpu")
    assert "block" in why(da.from_array(np.array(large)))
    assert "closed forms" in why(sw.Dirichlet(np.ones((4, 3))))
    with pytest.raises(sw.InvalidInput, match="not an axis"):
        sw.explain_kernel(large, "log", member_axis=7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", range(2, 11))
def test_rows_of_few_classes_count_the_same_in_either_order_of_axes(k, dtype):
    probs = members(37, 5, k).astype(dtype)  # two groups of instances, and a rest
    other = np.ascontiguousarray(probs.swapaxes(0, 1))
    rules = [*RULES, "tsallis:2.7"]
    swapped = by_kernel(other, rules, member_axis=0)
    for name, d in by_kernel(probs, rules).items():
        np.testing.assert_array_equal([*swapped[name]], [*d], err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("power", [1.5, 2.5, 3.0, 5.0])
def test_powers_by_products_and_by_logarithms_meet(power, dtype):
    probs = members(33, 6, 12, concentration=0.5).astype(dtype)
    for family in ("tsallis", "pseudospherical"):
        exact, next_to_it = (f"{family}:{x!r}" for x in (power, power * (1 + 1e-13)))
        results = by_kernel(probs, [exact, next_to_it])
        rtol = 1e-4 if dtype == "float32" else 1e-11
        for a, b in zip(results[exact], results[next_to_it], strict=True):
            np.testing.assert_allclose(a, b, rtol, atol=rtol / 100)


def test_half_precision_is_computed_in_single_and_a_part_at_a_time(monkeypatch):
    monkeypatch.setattr(cpu, "_SLAB", 200)
    probs = members(50, 5, 4).astype(np.float16)
    probs /= probs.sum(axis=-1, keepdims=True, dtype=np.float32).astype(np.float16)
    weights = np.random.default_rng(0).uniform(size=(50, 5))
    for w in (None, weights[0], weights):
        got, right = by_kernel(probs, RULES, w), sw.decompose(probs, RULES, weights=w)
        for name in RULES:
            assert got[name].total.dtype == np.float32
            for a, b in zip(got[name], right[name], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_torch_arrays_take_the_kernel_and_come_back_as_such(kind: str):
    import torch

    probs = torch.asarray(members(50, 5, 4)).to(getattr(torch, kind))
    got = by_kernel(probs, RULES, normalize=True)
    right = sw.decompose(probs, RULES, normalize=True)
    for name in RULES:
        for a, b in zip(got[name], right[name], strict=True):
            assert a.dtype == b.dtype
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)


def test_jax_arrays_take_the_kernel_and_come_back_as_such():
    import jax

    probs = jax.numpy.asarray(members(50, 5, 4), dtype="float32")
    got, right = by_kernel(probs, RULES), by_array(np.asarray(probs), RULES)
    for name in RULES:
        for a, b in zip(got[name], right[name], strict=True):
            assert isinstance(a, jax.Array)
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_transformed_and_traced_arrays_take_the_array_path():
    import jax
    import torch
    from torch.autograd import forward_ad

    probs = torch.asarray(members(5, 3, 4))

    def epistemic(x):
        return sw.decompose(x, "brier").epistemic.sum()

    slope = 2 * (probs - probs.mean(dim=1, keepdim=True)) / 3
    transformed = torch.func.grad(epistemic)(probs)
    torch.testing.assert_close(transformed, slope)
    tangent = torch.ones_like(probs)
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(epistemic(forward_ad.make_dual(probs, tangent))).tangent
    torch.testing.assert_close(moved, (slope * tangent).sum())
    traced = jax.grad(epistemic)(jax.numpy.asarray(np.asarray(probs), dtype="float32"))
    np.testing.assert_allclose(traced, slope, atol=1e-6)


def test_differentiated_weights_take_the_array_path():
    import jax
    import torch

    probs = members(5, 3, 4).astype(np.float32)
    weights = torch.ones(3, requires_grad=True)
    sw.decompose(torch.asarray(probs), "log", weights=weights).total.sum().backward()
    assert weights.grad is not None
    assert (
        "differentiated" in sw.explain_kernel(torch.asarray(probs), "log", weights=weights).reason
    )
    x = jax.numpy.asarray(probs)
    traced = jax.jit(lambda w: sw.decompose(x, "log", weights=w).total)(jax.numpy.ones(3))
    np.testing.assert_allclose(traced, by_kernel(probs, "log").total, rtol=1e-5)


def test_a_lazily_negated_torch_array_takes_the_array_path():
    import torch

    probs = torch.asarray(members(5, 3, 4))
    negated = torch.complex(torch.zeros_like(probs), -probs).conj().imag
    assert negated.is_neg()
    got, right = (sw.decompose(x, "log").total for x in (negated, probs))
    torch.testing.assert_close(got, right)


def test_dask_blocks_take_the_kernel():
    import dask
    import dask.array as da

    probs = members(64, 5, 4)
    blocks = da.from_array(probs, chunks=(16, 5, 4))
    with kernel_only():
        got = dask.compute(*sw.decompose(blocks, "log"), scheduler="threads")
    for a, b in zip(got, by_kernel(probs, "log"), strict=True):
        assert (a == b).all()


def test_samples_are_not_checked_again(monkeypatch):
    samples = sw.Samples(members(20, 3, 4))
    monkeypatch.setattr(validate, "probabilities", None)
    assert (by_kernel(samples, "log").epistemic > 0).all()


# -- bad input ------------------------------------------------------------------------------------


def messages(*arguments, **options) -> list[str]:
    """The array path's message, and that of decompose after the kernel itself has declined."""
    texts, declined = [], []
    for path in ("array", "cpu"):
        with pytest.MonkeyPatch.context() as patch:
            compute = cpu.compute

            def spy(*work, compute=compute):
                declined.append(compute(*work) is None)

            if path == "array":
                patch.setattr(cpu, "_native", None)
            patch.setattr(cpu, "compute", spy)
            with pytest.raises(sw.InvalidInput) as caught:
                sw.decompose(*arguments, **options)
            texts.append(str(caught.value))
    assert declined == [True], "the kernel does not detect it"
    return texts


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.25, 0.75])
@pytest.mark.parametrize("k", [3, 20, 150])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bad_probabilities_are_reported_as_on_the_array_path(value: float, k: int, dtype: str):
    probs = members(50, 4, k).astype(dtype)
    probs[[17, 40], [2, 1], [1, 0]] = value
    array, kernel = messages(probs, "brier")
    assert kernel == array
    assert kernel.startswith("probs[17, 2")
    array, kernel = messages(np.moveaxis(probs, 1, 0), "brier", member_axis=0)
    assert kernel == array
    assert kernel.startswith("probs[2, 17")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("k", [3, 150])
def test_bad_logits_are_reported_as_on_the_array_path(value: float, k: int):
    logits = np.random.default_rng(0).normal(size=(50, 4, k))
    masked = logits.copy()
    masked[30, 1] = -np.inf
    logits[17, 2, 1] = value
    for x in (logits, masked):
        array, kernel = messages(x, "brier", from_logits=True)
        assert kernel == array


def test_bad_masses_and_weights_are_reported_as_on_the_array_path():
    probs = members(50, 4, 3)
    empty = probs.copy()
    empty[11, 1] = 0.0
    array, kernel = messages(empty, "log", normalize=True)
    assert kernel == array
    assert "cannot be normalised" in kernel
    weights = np.ones((50, 4))
    weights[3, 2] = -1
    array, kernel = messages(probs, "log", weights=weights)
    assert kernel == array == "weights[3, 2] is -1.0; weights must be finite and not negative"
    probs[2, 2, 2] = np.nan
    array, kernel = messages(probs, "log", weights=weights)
    assert kernel == array


def kernel_accepts(row: np.ndarray) -> bool:
    try:
        with kernel_only():
            sw.decompose(row, "brier")
    except (AssertionError, sw.InvalidInput):  # it left the row to the array path
        return False
    return True


def array_path_accepts(row: np.ndarray) -> bool:
    try:
        by_array(row, "brier")
    except sw.InvalidInput:
        return False
    return True


def test_the_kernel_accepts_only_rows_whose_sum_the_array_path_accepts():
    probs = members(300, 4, 40).astype(np.float32)
    excess = np.concatenate([np.linspace(0.9999e-4, 1.0001e-4, 298), [0.95e-4, 1.05e-4]])
    probs *= (1 + excess).astype(np.float32)[:, None, None]
    rows = [probs[i : i + 1] for i in range(300)]
    by_kernel_itself = np.array([kernel_accepts(row) for row in rows])
    by_array_path = np.array([array_path_accepts(row) for row in rows])
    assert not (by_kernel_itself & ~by_array_path).any()
    assert 0 < by_array_path.sum() < 300
    assert by_kernel_itself[298]
    assert not by_kernel_itself[299]


def test_masses_too_small_to_be_inverted_are_left_to_the_array_path():
    probs = members(20, 3, 4).astype(np.float32)
    expected = by_array(probs, "log")
    got = sw.decompose(probs * np.float32(1e-40), "log", normalize=True)
    np.testing.assert_allclose(got.total, expected.total, rtol=1e-3)


def test_valid_input_is_not_checked_again_by_the_array_path(monkeypatch):
    for name in ("probabilities", "logits", "unnormalized"):
        monkeypatch.setattr(validate, name, None)
    by_kernel(members(20, 3, 4), "log")
    by_kernel(-members(20, 3, 4), "log", from_logits=True)
    by_kernel(members(20, 3, 4), "log", normalize=True)


def test_negative_zero_is_no_negative_number():
    probs = np.array([[[1.0, -0.0, 0.0], [0.5, -0.0, 0.5]]] * 20)
    near_two = [f"{family}:{x}" for family in ("tsallis", "pseudospherical") for x in (1.99, 1.999)]
    for k, dtype in ((0, "float32"), (0, "float64"), (150, "float32")):
        padded = np.concatenate([probs, np.full((20, 2, k), -0.0)], axis=-1).astype(dtype)
        expected = by_kernel(np.abs(padded), RULES + near_two)
        for name, d in by_kernel(padded, RULES + near_two).items():
            for a, b in zip(d, expected[name], strict=True):
                assert (a == b).all(), name


def test_check_false_skips_the_check():
    probs = 2 * members(20, 3, 4)
    assert np.isfinite(by_kernel(probs, "brier", check=False).total).all()


@pytest.mark.parametrize("k", [2, 150])
@pytest.mark.parametrize("per_instance", [False, True])
def test_a_member_without_weight_does_not_count_even_if_it_is_nan(k: int, per_instance: bool):
    probs = members(20, 3, k)
    weights = np.tile([1.0, 0.0, 1.0], (20, 1))
    if per_instance:
        weights[::2] = [1.0, 1.0, 0.0]
    expected = by_kernel(probs, RULES, weights)
    probs[weights == 0] = np.nan
    w = weights if per_instance else weights[0]
    for name, d in by_kernel(probs, RULES, w, check=False).items():
        for a, b in zip(d, expected[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15, err_msg=name)


def test_logits_without_weight_say_nothing_unchecked():
    logits = np.random.default_rng(0).normal(size=(20, 3, 4))
    weights = np.array([1.0, 0.0, 1.0])
    expected = by_kernel(logits, RULES, weights, from_logits=True)
    logits[:, 1] = -np.inf
    for name, d in by_kernel(logits, RULES, weights, from_logits=True, check=False).items():
        for a, b in zip(d, expected[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("k", [2, 150])
def test_unchecked_nan_stays_nan(k: int):
    """It must not become 0, which would say that all is certain."""
    probs = members(20, 3, k)
    probs[3, 1] = np.nan
    for name, d in by_kernel(probs, RULES, check=False).items():
        for part in d:
            assert np.isnan(part[3]), name
            assert np.isfinite(np.delete(part, 3)).all(), name


# -- threads, forks, memory -----------------------------------------------------------------------


def large_members() -> np.ndarray:
    """Enough for several threads."""
    return np.tile(members(220, 100, 10).astype(np.float32), (10, 1, 1))


def test_results_do_not_depend_on_the_number_of_threads():
    probs = large_members()
    try:
        results = []
        for n in (1, 2, 5):
            sw.set_num_threads(n)
            assert sw.get_num_threads() == n
            _threads._pools.clear()
            results.append(sw.decompose(probs, "log"))
            assert list(_threads._pools) == ([n] if n > 1 else [])
    finally:
        sw.set_num_threads(None)
    for d in results[1:]:
        for a, b in zip(d, results[0], strict=True):
            assert (a == b).all()


def test_both_of_two_threads_work(monkeypatch):
    names = set()
    fused = cpu._native.decompose

    def spy(*work):
        names.add(threading.current_thread().name)
        return fused(*work)

    monkeypatch.setattr(cpu, "_native", SimpleNamespace(decompose=spy))
    sw.set_num_threads(2)
    try:
        for _ in range(20):
            sw.decompose(large_members(), "log")
    finally:
        sw.set_num_threads(None)
    assert len(names) == 2


def test_several_threads_may_decompose_at_once():
    probs = large_members()
    expected = sw.decompose(probs, RULES[:4])
    failures = []

    def work() -> None:
        for _ in range(3):
            got = sw.decompose(probs, RULES[:4])
            if any(
                (a != b).any() for r in expected for a, b in zip(got[r], expected[r], strict=True)
            ):
                failures.append("different")

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=600)
        assert not worker.is_alive()
    assert not failures


def test_a_forked_child_can_decompose_too():
    """In a process of its own, with a pool that is warm, and one that is in use."""
    code = """
import os, threading, numpy as np, scorewise as sw
from support import members
probs = np.tile(members(220, 100, 10).astype(np.float32), (10, 1, 1))
expected = sw.decompose(probs, "log").epistemic
stop = threading.Event()
def busy():
    while not stop.is_set():
        sw.decompose(probs, "log")
other = threading.Thread(target=busy)
other.start()
for _ in range(4):
    child = os.fork()
    if child == 0:
        same = (sw.decompose(probs, "log").epistemic == expected).all()
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
other.join()
print("done")
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=ROOT / "tests",
    )
    assert run.stdout.strip() == "done", run.stderr


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 8),
        ({"OMP_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "3,2"}, 3),
        ({"OMP_THREAD_LIMIT": "1"}, 1),
        ({"SCOREWISE_NUM_THREADS": "2", "OMP_NUM_THREADS": "3"}, 2),
        ({"OMP_NUM_THREADS": "many"}, 8),
        ({"OMP_NUM_THREADS": "²"}, 8),
        ({"OMP_NUM_THREADS": "1000"}, 8),
    ],
)
def test_limits_of_the_environment_are_respected(monkeypatch, environment, expected):
    monkeypatch.setattr(_threads, "processors", lambda: 8)
    for name in _threads._LIMITS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert sw.get_num_threads() == expected


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("1600000 100000", 8), ("?", 8)],
)
def test_affinity_and_the_quota_of_a_container_are_respected(
    monkeypatch, tmp_path, quota, expected
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(_threads, "_QUOTA", tmp_path / "cpu.max")
    assert _threads.processors() == 8
    (tmp_path / "cpu.max").write_text(quota)
    assert _threads.processors() == expected


@pytest.mark.parametrize("n", [0, -1, 1.5, "two"])
def test_a_number_of_threads_that_is_none_is_refused(n):
    with pytest.raises(sw.InvalidInput, match="number of threads"):
        sw.set_num_threads(n)


@pytest.mark.parametrize("layout", ["plain", "members first", "strided", "logits"])
def test_nothing_of_the_size_of_the_input_is_allocated(layout: str):
    probs = large_members()
    options = {}
    if layout == "members first":
        probs, options = np.ascontiguousarray(probs.swapaxes(0, 1)), {"member_axis": 0}
    elif layout == "strided":
        probs = np.repeat(probs, 2, axis=-1)[..., ::2]
    elif layout == "logits":
        probs, options = -probs, {"from_logits": True}
    sw.decompose(probs, RULES[:4], **options)
    tracemalloc.start()
    sw.decompose(probs, RULES[:4], **options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.05 * probs.size * probs.itemsize


# -- the compiled module --------------------------------------------------------------------------


def test_without_the_compiled_module_the_array_path_answers_and_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
):
    probs = members(20, 3, 4)
    expected = by_kernel(probs, "log")
    monkeypatch.setattr(cpu, "_native", None)
    explanation = sw.explain_kernel(probs, "log")
    assert explanation.path == "array"
    assert "C++ compiler" in explanation.reason
    np.testing.assert_allclose(sw.decompose(probs, "log").epistemic, expected.epistemic)


def test_every_public_module_of_the_folder_is_a_kernel():
    modules = {path.stem for path in (ROOT / "src/scorewise/kernels").glob("[!_]*")}
    assert set(KERNELS) == modules
