"""The fused kernel: as the array path, which path runs, threads, forks, compiled code on disk."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import scorewise as sw
from cli_support import run_process, table_of
from scorewise import _threads
from scorewise import _validate as validate
from scorewise.kernels import KERNELS, cpu
from scorewise.kernels.cpu import _launching as launching
from scorewise.kernels.cpu import _loading as loading
from support import (
    all_rules,
    assert_same,
    by_array,
    by_kernel,
    kernel_only,
    known_to_kernel,
    members,
    softmax,
)

ROOT = Path(__file__).parents[2]
RULES = [name for name, rule in all_rules(5).items() if known_to_kernel(rule)]
EXTREME = ["tsallis:1.0001", "tsallis:20", "pseudospherical:1.001", "pseudospherical:20"]
LARGE = (2_700, 10, 10)  # just enough for the kernel


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


def test_the_kernel_knows_the_six_families():
    assert {sw.get_rule(name).family for name in RULES} == {
        "log",
        "brier",
        "zero_one",
        "spherical",
        "tsallis",
        "pseudospherical",
    }


@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_agrees_with_the_array_path_on_awkward_arrays(seed: int):
    sw.check_kernel(cpu, [*RULES, *EXTREME], n_trials=150, random_state=seed)


@pytest.mark.parametrize("rule", RULES)
def test_any_subset_of_rules_gives_the_same_numbers(rule: str):
    probs = members(40, 5, 7).astype(np.float32)
    together = by_kernel(probs, RULES)[rule]
    alone = by_kernel(probs, rule)
    for a, b in zip(alone, together, strict=True):
        assert (a == b).all()


def test_the_same_rule_under_two_names_is_computed_for_both():
    both = by_kernel(members(20, 3, 4), {"mine": "log", "yours": sw.rules.log})
    assert (both["mine"].epistemic == both["yours"].epistemic).all()


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


def test_many_strided_classes_are_copied_a_few_instances_at_a_time(monkeypatch):
    monkeypatch.setattr(cpu, "_SLAB", 100_000)
    probs = members(11, 3, 5_000)
    moved = np.ascontiguousarray(np.moveaxis(probs, -1, 0))
    weights = np.random.default_rng(0).uniform(size=(11, 3))
    for w in (None, weights[0], weights):
        expected = by_kernel(probs, RULES, w)
        got = by_kernel(moved, RULES, w, class_axis=0, member_axis=2)
        for name in RULES:
            for a, b in zip(got[name], expected[name], strict=True):
                assert (a == b).all(), name


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


# -- which path runs ------------------------------------------------------------------------------


def test_large_arrays_take_the_kernel_and_small_ones_the_array_path(monkeypatch):
    calls = []
    compute = cpu.compute
    monkeypatch.setattr(cpu, "compute", lambda *work: calls.append(work) or compute(*work))
    probs = np.broadcast_to(np.float32(0.1), LARGE)
    sw.decompose(probs, "log")
    assert len(calls) == 1
    sw.decompose(probs[:10], "log")
    sw.decompose(probs, "rps", check=False)
    assert len(calls) == 1


def test_a_kernel_computes_the_rules_that_it_supports_among_others():
    probs = members(20, 3, 4)
    own = sw.rule_from_loss_vector(lambda p: 1 - p + (p * p).sum(-1, keepdims=True) / 2, name="own")
    mixed = {"own": own, "log": "log", "rps": "rps", "brier": "brier"}
    with kernel_only() as calls:
        results = sw.decompose(probs, mixed)
    assert [list(rules) for _, _, rules, _ in calls] == [[sw.rules.log, sw.rules.brier]]
    assert list(results) == list(mixed)
    assert_same(results, by_array(probs, mixed), rtol=1e-12)


def test_invalid_members_raise_the_same_error_under_rules_of_both_paths(monkeypatch):
    monkeypatch.setattr(cpu, "SMALLEST", 0)
    probs = members(5, 3, 4)
    probs[3, 1, 2] = np.nan
    with pytest.raises(sw.InvalidInput, match=r"probs\[3, 1, 2\] is nan"):
        sw.decompose(probs, ["log", "rps"])


def test_explain_kernel_names_the_path_and_the_reason():
    import dask.array as da
    import jax
    import torch

    large = np.broadcast_to(np.float32(0.1), LARGE)

    def why(x, rule="log", **options):
        return str(sw.explain_kernel(x, rule, **options))

    assert why(large, RULES) == "cpu: 270,000 numbers are in host memory"
    assert why(large, member_axis=0).startswith("cpu")
    assert why(np.array(large).T, class_axis=0, member_axis=1).startswith("cpu")
    assert why(torch.asarray(np.array(large))).startswith("cpu")
    assert why(jax.numpy.asarray(large)).startswith("cpu")
    assert why(large.astype(np.float16)).startswith("cpu")
    assert "fewer than 262,144" in why(large[:10])
    assert why(large, ["rps"]) == "array: not by the cpu kernel: it does not support 'rps'"
    mixed = {"mine": "rps", "fused": "log", "extreme": "tsallis:1e6"}
    assert why(large, mixed).startswith("cpu: 270,000")
    assert why(large, mixed).endswith("; by the array path: 'mine', 'extreme'")
    assert "differentiated" in why(torch.asarray(np.array(large)).requires_grad_())
    assert "jackknife" in why(large, unbiased=True)
    assert "block" in why(da.from_array(np.array(large)))
    assert "closed forms" in why(sw.Dirichlet(np.ones((4, 3))))
    assert "classes" in why(np.broadcast_to(np.float32(0.1), (5, 2, 300_000)))
    with pytest.raises(sw.InvalidInput, match="not an axis"):
        sw.explain_kernel(large, "log", member_axis=7)


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
def test_differentiated_and_traced_arrays_take_the_array_path(monkeypatch):
    import jax
    import torch
    from torch.autograd import forward_ad

    monkeypatch.setattr(cpu, "SMALLEST", 0)
    probs = torch.asarray(members(5, 3, 4))

    def epistemic(x):
        return sw.decompose(x, "brier").epistemic.sum()

    leaf = probs.clone().requires_grad_()
    epistemic(leaf).backward()
    transformed = torch.func.grad(epistemic)(probs)
    assert (leaf.grad == transformed).all()
    tangent = torch.ones_like(probs)
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(epistemic(forward_ad.make_dual(probs, tangent))).tangent
    torch.testing.assert_close(moved, (leaf.grad * tangent).sum())
    traced = jax.grad(epistemic)(jax.numpy.asarray(np.asarray(probs), dtype="float32"))
    np.testing.assert_allclose(traced, leaf.grad, atol=1e-6)


def test_differentiated_weights_take_the_array_path(monkeypatch):
    import jax
    import torch

    monkeypatch.setattr(cpu, "SMALLEST", 0)
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


def test_a_lazily_negated_torch_array_takes_the_array_path(monkeypatch):
    import torch

    monkeypatch.setattr(cpu, "SMALLEST", 0)
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
    for smallest in (10**12, 0):
        with pytest.MonkeyPatch.context() as patch:
            compute = cpu.compute

            def spy(*work, compute=compute):
                declined.append(compute(*work) is None)

            patch.setattr(cpu, "SMALLEST", smallest)
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "SMALLEST", 0)
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "SMALLEST", 0)
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
    fused = loading.load("float32")

    def spy(*work):
        names.add(threading.current_thread().name)
        return fused(*work)

    monkeypatch.setattr(launching, "load", lambda dtype: spy)
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
    monkeypatch.setattr(_threads, "_processors", lambda: 8)
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
    assert _threads._processors() == 8
    (tmp_path / "cpu.max").write_text(quota)
    assert _threads._processors() == expected


@pytest.mark.parametrize("n", [0, -1, 1.5, "two"])
def test_a_number_of_threads_that_is_none_is_refused(n):
    with pytest.raises(sw.InvalidInput, match="number of threads"):
        sw.set_num_threads(n)


def test_copies_of_strided_classes_are_small(monkeypatch):
    monkeypatch.setattr(cpu, "_SLAB", 1 << 16)
    probs = np.full((4_000, 60, 5), 1 / 4_000, dtype=np.float32)
    sw.decompose(probs, "log", class_axis=0, member_axis=2)
    tracemalloc.start()
    sw.decompose(probs, "log", class_axis=0, member_axis=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.2 * probs.nbytes


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


# -- compiled code --------------------------------------------------------------------------------


def test_a_small_decomposition_imports_nothing_slow(tmp_path: Path):
    """A thousand rows take the array path: nothing is compiled or loaded, so they are quick."""
    code = """
import numpy as np
probs = np.random.default_rng(0).dirichlet(np.ones(10), (1000, 20)).astype(np.float32)
import sys, scorewise as sw
sw.decompose(probs, ["log", "brier", "zero-one", "spherical"])
print({"llvmlite", "numba", "scipy", "sklearn", "torch", "pyarrow"} & set(sys.modules))
"""
    assert python(code, SCOREWISE_CACHE_DIR=str(tmp_path)).stdout.strip() == "set()"
    assert list(tmp_path.iterdir()) == []


def damaged(folder: Path) -> Path:
    """A copy of the compiled code in this folder, with one bit changed."""
    by_kernel(members(2, 2, 2).astype(np.float32), "brier")  # compiled, if it was not
    name = loading._file_name("float32")
    files = [path / name for path in loading.cache_folders() if (path / name).is_file()]
    content = bytearray(files[0].read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    return folder / name


def test_code_is_compiled_by_one_thread_logged_and_stored_on_disk(tmp_path: Path):
    """In place of a file that is not whole, which is not loaded; the next process compiles none."""
    code = """
import sys, threading, numpy as np, scorewise as sw
probs = np.random.default_rng(0).dirichlet(np.ones(10), (2_700, 10)).astype(np.float32)
values = []
def work():
    values.append(sw.decompose(probs, "log").epistemic.tobytes().hex())
workers = [threading.Thread(target=work) for _ in range(4)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(*set(values), "numba" in sys.modules)
"""
    stored = damaged(tmp_path)
    before = stored.read_bytes()
    first = python(code, SCOREWISE_CACHE_DIR=str(tmp_path))
    assert first.stderr.count("compiling the fused kernel for float32") == 1
    assert list(tmp_path.iterdir()) == [stored]
    assert stored.read_bytes() != before
    second = python(code, SCOREWISE_CACHE_DIR=str(tmp_path))
    assert second.stderr == ""
    values, compiled = first.stdout.split()
    assert second.stdout.split() == [values, "False"]
    assert compiled == "True"


def test_where_nothing_can_be_written_the_kernel_works_all_the_same(tmp_path: Path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SCOREWISE_CACHE_DIR", str(tmp_path / "file" / "folder"))
    monkeypatch.setattr(loading, "_compile", lambda dtype, machine: b"code")
    assert loading._machine_code("float32", None) == b"code"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with machine code that an earlier process stored; the compiler returns other code.

    Whoever may write to a file could put any code into it, with the digest of that code.
    """
    folder = tmp_path / "parent" / "cache"
    monkeypatch.setenv("SCOREWISE_CACHE_DIR", str(folder))
    monkeypatch.setattr(loading, "_compile", lambda dtype, machine: b"stored")
    assert loading._machine_code("float32", None) == b"stored"
    monkeypatch.setattr(loading, "_compile", lambda dtype, machine: b"compiled")
    return folder


def stored_in(folder: Path) -> Path:
    return folder / loading._file_name("float32")


def only_others_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a file or a folder to another user, or let it seem so where only root may do that."""
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        return
    inode, genuine = path.lstat().st_ino, {name: getattr(os, name) for name in ("fstat", "stat")}

    def status(name: str):
        def of(*args: object, **options: object) -> os.stat_result:
            values = genuine[name](*args, **options)
            owner = 65534 if values.st_ino == inode else values.st_uid
            return os.stat_result((*values[:4], owner, *values[5:]))

        return of

    for name in genuine:
        monkeypatch.setattr(os, name, status(name))


def make_file_of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    only_others_own(stored_in(folder), monkeypatch)
    return f"{stored_in(folder)} belongs to another user"


def make_file_writable_by_the_group(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    stored_in(folder).chmod(0o664)
    return f"others can write to {stored_in(folder)}"


def make_file_a_link(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    stored_in(folder).rename(folder / "elsewhere")
    stored_in(folder).symlink_to(folder / "elsewhere")
    return f"{stored_in(folder)} is not a regular file"


def make_file_a_pipe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Nobody writes to it."""
    stored_in(folder).unlink()
    os.mkfifo(stored_in(folder))
    return f"{stored_in(folder)} is not a regular file"


def make_folder_writable_by_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder.chmod(0o1777)
    return f"others can write to {folder}"


def make_folder_of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    only_others_own(folder, monkeypatch)
    return f"{folder} belongs to another user"


def make_parent_writable_by_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder.parent.chmod(0o777)
    return f"others can write to {folder.parent}"


def make_folder_a_link_in_a_writable_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The link itself, the folder that it leads to and that one's parents are only the user's."""
    writable = folder.parents[1] / "writable"
    writable.mkdir()
    writable.chmod(0o777)
    (writable / "link").symlink_to(folder)
    (folder.parent / "link").symlink_to("../writable/link")
    monkeypatch.setenv("SCOREWISE_CACHE_DIR", str(folder.parent / "link"))
    return f"others can write to {folder.parent}/../writable"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has access lists")
@pytest.mark.parametrize(
    "make_unsafe",
    [
        make_file_of_another_user,
        make_file_writable_by_the_group,
        make_file_a_link,
        make_file_a_pipe,
        make_folder_writable_by_all,
        make_folder_of_another_user,
        make_parent_writable_by_all,
        make_folder_a_link_in_a_writable_folder,
    ],
)
def test_code_that_others_could_have_written_is_not_loaded(make_unsafe, cache, monkeypatch, caplog):
    """It is compiled for this process, nothing on disk changes, and one warning says why."""
    reason = make_unsafe(cache, monkeypatch)
    files = [(path, path.lstat()) for path in sorted(cache.iterdir())]
    for _ in range(2):
        assert loading.kept("float32") is None
        assert loading._machine_code("float32", None) == b"compiled"
    assert len(caplog.records) == 1
    assert f"as {reason}. " in caplog.text
    assert "set SCOREWISE_CACHE_DIR to a folder of your own" in caplog.text
    assert [(path, path.lstat()) for path in sorted(cache.iterdir())] == files


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has access lists")
def test_a_command_compiles_where_others_could_have_written_the_code_and_says_so(tmp_path: Path):
    """Loading this file, whose digest is right, would crash the interpreter."""
    cache = tmp_path / "cache"
    cache.mkdir()
    stored = stored_in(cache)
    stored.write_bytes(hashlib.sha256(b"no machine code").digest() + b"no machine code")
    cache.chmod(0o777)
    probs = members(2_700, 10, 10).astype(np.float32)
    np.save(tmp_path / "test.npy", probs)
    environment = os.environ | {"SCOREWISE_CACHE_DIR": str(cache)}
    options = ("--rules", "log", "--out", "U.parquet")
    result = run_process("score", "test.npy", *options, cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stderr
    assert "some ten seconds, up to a minute on a busy machine" in result.stderr
    assert f"others can write to {cache}" in result.stderr
    assert list(cache.iterdir()) == [stored]
    epistemic = table_of(tmp_path / "U.parquet")["epistemic_log"].to_numpy()
    np.testing.assert_allclose(epistemic, by_array(probs, "log").epistemic, rtol=1e-4)


def test_code_is_loaded_from_folders_of_the_user_below_sticky_ones_and_through_links(
    cache, monkeypatch, caplog
):
    cache.parent.chmod(0o1777)
    (cache.parent / "link").symlink_to("cache")
    monkeypatch.setenv("SCOREWISE_CACHE_DIR", str(cache.parent / "link" / ".." / "link"))
    assert loading._machine_code("float32", None) == b"stored"
    assert not caplog.records


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has access lists")
def test_no_warning_where_the_code_is_stored_in_the_next_folder(cache, monkeypatch, caplog):
    cache.chmod(0o775)
    other = cache.parent / "other"
    monkeypatch.setattr(loading, "cache_folders", lambda: [cache, other])
    assert loading._machine_code("float32", None) == b"compiled"
    assert loading.kept("float32") == b"compiled"
    assert stored_in(other).is_file()
    assert not caplog.records


def test_a_link_to_itself_is_no_cache(tmp_path: Path, monkeypatch):
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("SCOREWISE_CACHE_DIR", str(tmp_path / "loop"))
    monkeypatch.setattr(loading, "_compile", lambda dtype, machine: b"compiled")
    assert loading._machine_code("float32", None) == b"compiled"


def test_others_cannot_write_what_is_stored_whatever_the_umask(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SCOREWISE_CACHE_DIR", str(tmp_path / "parent" / "cache"))
    monkeypatch.setattr(loading, "_compile", lambda dtype, machine: b"stored")
    umask = os.umask(0)
    try:
        loading._machine_code("float32", None)
    finally:
        os.umask(umask)
    assert loading.kept("float32") == b"stored"
    assert all(path.lstat().st_mode & 0o022 == 0 for path in tmp_path.rglob("*"))


def test_where_the_compiler_fails_the_array_path_answers_and_says_so(monkeypatch, caplog):
    def fail(dtype: str) -> None:
        raise RuntimeError("no such processor")

    monkeypatch.setattr(loading, "load", fail)
    monkeypatch.setattr(cpu, "_FAILED", {})
    probs = np.broadcast_to(np.float32(0.1), LARGE)
    for _ in range(2):
        assert (sw.decompose(probs, "brier").epistemic == 0).all()
    assert "no such processor" in sw.explain_kernel(probs, "brier").reason
    assert len(caplog.records) == 1
    assert "no such processor" in caplog.text


def test_a_file_that_cannot_be_written_leaves_nothing_behind(monkeypatch, tmp_path):
    def fail(*paths: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="full"):
        loading._write(tmp_path / "folder" / "code.o", b"code")
    assert not list((tmp_path / "folder").iterdir())


def test_machine_code_is_for_one_processor_and_one_state_of_the_sources(monkeypatch, tmp_path):
    before = loading._file_name("float32")
    assert loading._file_name("float32") == before != loading._file_name("float64")
    monkeypatch.setattr(loading, "_features", lambda: "+nothing")
    assert loading._file_name("float32") != before
    monkeypatch.undo()
    for path in Path(loading.__file__).parent.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text())
    monkeypatch.setattr(loading, "__file__", str(tmp_path / "loading.py"))
    assert loading._file_name("float32") == before
    with (tmp_path / "functions.py").open("a") as file:
        file.write("# changed")
    assert loading._file_name("float32") != before


def test_machine_code_is_stored_beside_the_package_or_in_the_cache_of_the_user(monkeypatch):
    monkeypatch.delenv("SCOREWISE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    beside, user = loading.cache_folders()
    assert beside == ROOT / "src/scorewise/kernels/cpu/__pycache__"
    assert user == Path("/somewhere/scorewise")


def test_where_numba_cannot_be_imported_only_what_was_compiled_before_runs(tmp_path: Path):
    code = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numba":
            raise ImportError("Numba needs another NumPy")

sys.meta_path.insert(0, Missing())
import numpy as np, scorewise as sw
probs = np.broadcast_to(np.float32(0.1), (2_700, 10, 10))
print(sw.explain_kernel(probs, "brier"))
print(float(sw.decompose(probs, "brier").epistemic.max()))
"""
    by_kernel(members(2, 2, 2).astype(np.float32), "brier")  # compiled, if it was not
    reason, epistemic = python(code).stdout.splitlines()
    assert reason.startswith("cpu: ")
    assert float(epistemic) == 0
    reason, epistemic = python(code, SCOREWISE_CACHE_DIR=str(tmp_path)).stdout.splitlines()
    assert reason.startswith("array: ")
    assert "it cannot be compiled: Numba needs another NumPy" in reason
    assert float(epistemic) == 0


def test_every_public_module_of_the_folder_is_a_kernel():
    modules = {path.stem for path in (ROOT / "src/scorewise/kernels").glob("[!_]*")}
    assert set(KERNELS) == modules
