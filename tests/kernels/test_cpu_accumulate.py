"""The CPU kernel's accumulator: as decompose, exact zeros, accuracy, and nothing added halfway."""

from __future__ import annotations

import copy
import tracemalloc
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import reference
import scorewise as sw
from scorewise.kernels import cpu
from support import (
    accumulated_by_kernel,
    all_rules,
    assert_accurate,
    assert_same,
    fill,
    known_to_kernel,
    members,
    softmax,
)

TOLERANCE = {"float64": (1e-11, 1e-14), "float32": (2e-4, 1e-6)}
FOUR = ["log", "brier", "zero-one", "spherical"]


def known_rules(k: int) -> dict[str, Any]:
    return {name: rule for name, rule in all_rules(k).items() if known_to_kernel(rule)}


def laid_out(probs: np.ndarray, layout: str) -> np.ndarray:
    """The same members (N, M, K), elsewhere in memory."""
    if layout == "members first":
        return np.ascontiguousarray(probs.swapaxes(0, 1)).swapaxes(0, 1)
    if layout == "classes first":
        return np.ascontiguousarray(np.moveaxis(probs, 2, 0)).transpose(1, 2, 0)
    if layout == "backwards":
        return probs[::-1].copy()[::-1]
    return probs


@settings(max_examples=60)
@given(
    n=st.sampled_from([1, 2, 15, 16, 17, 40]),
    k=st.sampled_from([2, 3, 5, 17, 40]),
    dtype=st.sampled_from(["float32", "float64"]),
    layout=st.sampled_from(["plain", "members first", "classes first", "backwards"]),
    weighted=st.sampled_from(["no", "members", "instances"]),
    concentration=st.sampled_from([0.05, 1.0, 1e4]),
    kind=st.sampled_from(["probabilities", "logits", "masses"]),
)
def test_the_kernel_agrees_with_decompose(n, k, dtype, layout, weighted, concentration, kind):
    rng = np.random.default_rng(n * k)
    probs = laid_out(members(n, 7, k, n + k, concentration).astype(dtype), layout)
    weights = {"no": None, "members": rng.uniform(size=7), "instances": rng.uniform(size=(n, 7))}
    options: dict[str, bool] = {}
    if kind == "logits":
        probs = laid_out(np.log(np.maximum(probs, 1e-30)) + 1, layout)
        options = {"from_logits": True}
    elif kind == "masses":
        probs, options = laid_out(3 * probs, layout), {"normalize": True}
    with accumulated_by_kernel():
        acc = fill(probs, known_rules(k), weights[weighted], **options)
    expected = sw.decompose(probs, known_rules(k), weights=weights[weighted], **options)
    rtol, atol = TOLERANCE[dtype]
    assert_same(acc.result(), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rules", [FOUR, ["log"], ["tsallis:1.5", "zero-one"]])
def test_many_classes_of_few_instances_agree_with_decompose(dtype, rules):
    for n, k in ((1, 10), (1, 1001), (33, 405), (2, 2000)):
        probs = members(n, 5, k).astype(dtype)
        with accumulated_by_kernel():
            acc = fill(probs, rules)
        rtol, atol = TOLERANCE[dtype]
        assert_same(acc.result(), sw.decompose(probs, rules), rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spread", [1e-4, 1e-3, 1e-2, 0.3])
@pytest.mark.parametrize("k", [2, 7])
def test_accuracy_against_50_digits(dtype, spread, k):
    rng = np.random.default_rng(k)
    z = rng.normal(size=(17, 1, k)) + spread * rng.normal(size=(17, 6, k))
    probs = softmax(z).astype(dtype)
    probs /= probs.sum(-1, keepdims=True)
    weights = rng.uniform(0.2, 2, 6)
    with accumulated_by_kernel():
        results = fill(probs, known_rules(k), weights).result()
    for name, rule in known_rules(k).items():
        for i in (0, 8, 16):
            exact = reference.decompose(rule, probs[i], weights)
            assert_accurate(results[name], i, exact, dtype, f"{name} row {i}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [3, 500])
def test_identical_members_have_no_epistemic_uncertainty_whatever_their_weights(dtype, k):
    rng = np.random.default_rng(0)
    rules = known_rules(k) if k < 10 else FOUR
    probs = np.repeat(members(33, 1, k).astype(dtype), 9, axis=1)
    for weights in (None, rng.uniform(size=9), 10.0 ** rng.uniform(-30, 30, (33, 9))):
        with accumulated_by_kernel():
            acc = fill(probs, rules, weights)
        for name, d in acc.result().items():
            assert (d.epistemic == 0).all(), name
        np.testing.assert_array_equal(acc.mean, probs[:, 0])


def test_members_that_agree_on_the_decision_have_none_under_zero_one():
    probs = members(64, 12, 6, concentration=0.5).astype(np.float32)
    probs.sort(axis=-1)
    with accumulated_by_kernel():
        results = fill(probs, ["zero-one", "top-k:2", "log"]).result()
    assert (results["zero-one"].epistemic == 0).all()
    assert (results["top-k:2"].epistemic == 0).all()
    assert (results["log"].epistemic > 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ask_often", [False, True])
@pytest.mark.parametrize("k", [4, 410])
def test_rows_may_turn_from_far_to_near_and_back(dtype, ask_often, k):
    """Few members that disagree, many that agree, and disagreement again."""
    rng = np.random.default_rng(0)
    apart = members(20, 3, k, 1, 0.2)
    near = np.repeat(members(20, 1, k, 2), 150, axis=1)
    near = near * (1 + 1e-3 * rng.normal(size=near.shape))
    probs = np.concatenate([apart, near, members(20, 60, k, 3, 0.1)], axis=1)
    probs = (probs / probs.sum(-1, keepdims=True)).astype(dtype)
    weights = np.r_[np.full(3, 1e-2), np.full(150, 1.0), np.full(60, 5.0)]
    rules = known_rules(k) if k < 10 else FOUR
    acc = sw.Accumulator(rules)
    with accumulated_by_kernel():
        for m in range(probs.shape[1]):
            acc.update(probs[:, m], weight=weights[m])
            if ask_often:
                acc.result()
            if m in {2, 40, 152, 160, 212}:
                expected = sw.decompose(probs[:, : m + 1], rules, weights=weights[: m + 1])
                rtol, atol = TOLERANCE[dtype]
                assert_same(acc.result(), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("row", [0, 20, 49])
@pytest.mark.parametrize("wrong", [np.nan, -0.5, np.inf])
@pytest.mark.parametrize("k", [2, 5, 9, 700])
def test_nothing_is_added_after_an_invalid_member(row, wrong, k):
    """Not even to the rows before the wrong one."""
    probs = members(50, 4, k)
    acc = fill(probs[:, :3], FOUR)
    before, mean = copy.deepcopy(acc.result()), acc.mean
    bad = probs[:, 3].copy()
    bad[row, 1] = wrong
    for weight in (1.0, 7.0, np.linspace(0, 3, 50)):
        with pytest.raises(sw.InvalidInput, match=rf"probs\[{row}"):
            acc.update(bad, weight=weight)
        assert acc.n_members == 3
        assert_same(acc.result(), before, rtol=0)
        np.testing.assert_array_equal(acc.mean, mean)
    acc.update(probs[:, 3])
    assert_same(acc.result(), sw.decompose(probs, FOUR), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("k", [2, 5, 17, 700])
@pytest.mark.parametrize("layout", ["plain", "classes first"])
@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("from_logits", [np.nan]),
        ("from_logits", [np.inf]),
        ("from_logits", "all -inf"),
        ("normalize", [-0.5]),
        ("normalize", [np.nan]),
        ("normalize", "all 0"),
    ],
)
def test_nothing_is_added_after_invalid_logits_or_masses(k, layout, option, wrong):
    masses = laid_out(np.random.default_rng(0).uniform(1, 2, (40, 3, k)), layout)
    options = {option: True}
    acc = fill(masses[:, :2], FOUR, **options)
    before = copy.deepcopy(acc.result())
    bad = masses[:, 2].copy(order="K")
    if isinstance(wrong, str):
        bad[33] = {"all -inf": -np.inf, "all 0": 0.0}[wrong]
    else:
        bad[33, k - 1] = wrong[0]
    with pytest.raises(sw.InvalidInput, match=r"\[33"):
        acc.update(bad, **options)
    assert_same(acc.result(), before, rtol=0)
    with accumulated_by_kernel():
        acc.update(masses[:, 2], **options)
    assert_same(acc.result(), sw.decompose(masses, FOUR, **options), rtol=1e-11, atol=1e-14)


def test_negative_zeros_and_impossible_classes_are_added():
    probs, logits = np.array([[-0.0, 1.0], [0.5, 0.5]]), np.array([[-np.inf, 0.0], [0.0, 0.0]])
    acc = sw.Accumulator(FOUR)
    with accumulated_by_kernel():
        acc.update(probs)
        acc.update(logits, from_logits=True)
    assert all((d.epistemic == 0).all() for d in acc.result().values())


def test_an_accumulator_whose_update_was_interrupted_is_not_used(monkeypatch):
    """Some instances have a member more than others."""
    member = members(60_000, 1, 10)[:, 0]

    def in_a_task(stages: Any, n_threads: int) -> bool:
        for tasks in stages:
            tasks[0]()
        raise KeyboardInterrupt

    def before_the_weights(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    for place, interrupted in (
        ("scorewise.kernels.cpu._accumulator_state.run_in_stages", in_a_task),
        ("numpy.maximum", before_the_weights),
    ):
        acc = fill(members(60_000, 2, 10), FOUR)
        with monkeypatch.context() as patch:
            patch.setattr(place, interrupted)
            with pytest.raises(KeyboardInterrupt):
                acc.update(member)
        uses = acc.result, lambda a=acc: a.mean, lambda a=acc: a.update(member)
        for use in (*uses, lambda a=acc: sw.Accumulator(FOUR).merge(a)):
            with pytest.raises(sw.ScorewiseError, match="interrupted"):
                use()


def test_an_invalid_first_member_leaves_an_empty_accumulator():
    acc = sw.Accumulator("log")
    bad = members(50, 1, 5)[:, 0]
    bad[-1] = 0.3
    with pytest.raises(sw.InvalidInput, match=r"probs\[49\] sums to"):
        acc.update(bad)
    assert acc.n_members == 0
    assert acc.dtype is None
    acc.update(members(3, 1, 4)[:, 0])
    assert (acc.result().epistemic == 0).all()


def test_no_temporary_has_the_size_of_a_member():
    member = members(20_000, 1, 50)[:, 0]
    acc = sw.Accumulator(FOUR)
    acc.update(member)
    tracemalloc.start()
    with accumulated_by_kernel():
        acc.update(member)
        acc.update(member.astype(np.float64)[:, ::-1])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.3 * member.nbytes  # of which the second member is one


@pytest.mark.parametrize("batch", [(), (3,), (5, 7), (2, 3, 4), (0,), (4, 0)])
@pytest.mark.parametrize("class_axis", [0, -1])
def test_instances_of_any_shape(batch, class_axis):
    logits = np.random.default_rng(0).normal(size=(4, *batch, 3))
    acc = sw.Accumulator(FOUR)
    with accumulated_by_kernel():
        for member in logits:
            acc.update(np.moveaxis(member, -1, class_axis), class_axis=class_axis, from_logits=True)
    expected = sw.decompose(logits, FOUR, member_axis=0, from_logits=True)
    assert_same(acc.result(), expected, rtol=1e-11, atol=1e-14)


def test_large_planes_that_do_not_follow_each_other():
    """Segmentations (N, K, H, W), whose instances are not evenly spaced."""
    logits = np.random.default_rng(0).normal(size=(3, 3, 4, 67, 45))  # (M, N, K, H, W)
    acc = sw.Accumulator(FOUR)
    with accumulated_by_kernel():
        for member in logits:
            acc.update(member, class_axis=1, from_logits=True)
    expected = sw.decompose(logits, FOUR, member_axis=0, class_axis=2, from_logits=True)
    assert_same(acc.result(), expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_give_the_same_numbers(n_threads):
    probs = members(30_000, 3, 20).astype(np.float32)
    alone = fill(probs, FOUR).result()
    sw.set_num_threads(n_threads)
    try:
        assert_same(fill(probs, FOUR).result(), alone, rtol=0)
    finally:
        sw.set_num_threads(None)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_come_back_as_tensors(dtype):
    import torch

    probs = torch.asarray(members(20, 5, 4)).to(getattr(torch, dtype))
    acc = sw.Accumulator(FOUR)
    with accumulated_by_kernel():
        for m in range(5):
            acc.update(probs[:, m])
    wide = torch.float64 if dtype == "float64" else torch.float32
    assert acc.mean.dtype == acc.dtype == wide
    for name, d in sw.decompose(probs, FOUR).items():
        for ours, theirs in zip(acc.result()[name], d, strict=True):
            assert isinstance(ours, torch.Tensor)
            assert ours.dtype == wide
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_rules_without_a_structure_are_accumulated_beside_the_kernel():
    own = sw.rule_from_loss_vector(lambda p: (p * p).sum(-1, keepdims=True) + 1 - 2 * p, name="own")
    rules = {"own": own, "log": "log", "zero-one": "zero-one"}
    probs = members(20, 6, 4)
    acc = fill(probs[:, :2], rules)
    acc.merge(fill(probs[:, 2:4], rules))
    acc.update(probs[:, 4])
    acc.update(probs[:, 5])
    assert list(acc.result()) == list(rules)
    assert_same(acc.result(), sw.decompose(probs, rules), rtol=1e-11, atol=1e-14)


def test_members_of_both_paths_may_be_mixed(monkeypatch):
    probs = members(40, 12, 5)
    acc = sw.Accumulator(all_rules(5))
    for m in range(12):
        with monkeypatch.context() as patch:
            if m % 4 == 3:
                patch.setattr(cpu, "_native", None)
            acc.update(probs[:, m])
    assert_same(acc.result(), sw.decompose(probs, all_rules(5)), rtol=1e-11, atol=1e-14)


def test_the_same_rule_under_two_names_is_accumulated_for_both():
    probs = members(20, 3, 4)
    acc = fill(probs, {"mine": "zero-one", "yours": sw.rules.zero_one, "top": sw.rules.top_k(1)})
    mine, yours, top = acc.result().values()
    assert (mine.epistemic == yours.epistemic).all()
    assert (mine.epistemic == top.epistemic).all()


def test_a_member_of_weight_0_that_is_not_checked_changes_nothing():
    probs = members(20, 3, 4)
    acc = fill(probs, FOUR)
    acc.update(np.full((20, 4), np.nan), weight=0.0, check=False)
    assert_same(acc.result(), sw.decompose(probs, FOUR), rtol=1e-11, atol=1e-14)


def test_many_members_do_not_drown_in_rounding():
    probs = members(16, 4, 3).astype(np.float32)
    acc = sw.Accumulator(FOUR)
    for m in range(4000):
        acc.update(probs[:, m % 4])
    expected = sw.decompose(probs.astype(np.float64), FOUR)
    assert_same(acc.result(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [2, 10, 450])
@pytest.mark.parametrize("heaviest", [1.0, 5.0])
def test_members_that_agree_may_follow_others_that_are_far_apart(dtype, k, heaviest):
    """The anchor is 0 where members are far apart; those that follow need its digits no more."""
    rng = np.random.default_rng(k)
    rules = [*FOUR, "tsallis:1.5", "pseudospherical:3"]
    apart = rng.dirichlet(np.full(k, 0.5), size=(33, 12))
    agreeing = np.repeat(rng.dirichlet(np.ones(k), size=(33, 1)), 60, axis=1)
    probs = np.concatenate([apart, agreeing * (1 + 1e-3 * rng.uniform(size=(33, 60, 1)))], axis=1)
    probs = (probs / probs.sum(axis=-1, keepdims=True)).astype(dtype)
    weights = np.ones(probs.shape[1])
    weights[20] = heaviest  # which becomes the anchor
    with accumulated_by_kernel():
        acc = fill(probs, rules, weights)
    exact = probs.astype(np.float64)
    exact /= exact.sum(axis=-1, keepdims=True)
    expected = sw.decompose(exact, rules, weights=weights)
    rtol = {"float32": 1e-4, "float64": 1e-12}[dtype]
    for name, d in acc.result().items():
        np.testing.assert_allclose(d.epistemic, expected[name].epistemic, rtol=rtol, err_msg=name)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(40_000, 20), (1_000_000, 2)])
def test_weights_of_instances_take_less_memory_than_a_member(shape, kind):
    member = members(shape[0], 1, shape[1])[:, 0].astype(np.float32)
    weight = np.random.default_rng(0).uniform(size=len(member)).astype(kind)
    acc = sw.Accumulator(FOUR)
    for _ in range(2):
        acc.update(member, weight)
    tracemalloc.start()
    with accumulated_by_kernel():
        acc.update(member, weight)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.4 * member.nbytes
