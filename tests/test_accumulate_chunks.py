"""Accumulator.update_chunks: all members of some rows at a time, and all chunks or none."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import scorewise as sw
from support import accumulated_by_kernel, all_rules, assert_same, fill, known_to_kernel, members

FOUR = ["log", "brier", "zero-one", "spherical"]


@settings(max_examples=30)
@given(
    cuts=st.lists(st.integers(0, 30), max_size=6),
    k=st.sampled_from([2, 4]),
    weighted=st.booleans(),
    sized=st.booleans(),
    library=st.sampled_from(["numpy", "torch"]),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_any_chunking_gives_the_same(cuts, k, weighted, sized, library, dtype):
    import torch

    probs = members(30, 5, k).astype(dtype)
    weights = np.array([0.5, 3.0, 1.0, 0.0, 2.0]) if weighted else None
    convert = torch.asarray if library == "torch" else np.asarray
    chunks = (convert(part.copy()) for part in np.split(probs, sorted(cuts)))
    acc = sw.Accumulator(all_rules(k))
    acc.update_chunks(chunks, weights, n_instances=30 if sized else None)
    assert acc.n_members == 5
    results = acc.result()
    for d in results.values():
        assert isinstance(d.total, torch.Tensor if library == "torch" else np.ndarray)
    stored = sw.decompose(probs, all_rules(k), weights=weights)
    tolerance = {"float64": (1e-12, 1e-14), "float32": (1e-4, 1e-6)}[dtype]
    for name, d in results.items():
        for a, b in zip(d, stored[name], strict=True):
            assert np.asarray(a).dtype == dtype
            np.testing.assert_allclose(np.asarray(a), b, *tolerance, err_msg=name)


def test_chunks_members_and_merges_may_be_mixed():
    probs = members(30, 12, 4)
    rules = all_rules(4)
    acc = sw.Accumulator(rules)
    acc.update(probs[:, 0])
    acc.update_chunks(np.split(probs[:, 1:5], 3), n_instances=30)
    other = sw.Accumulator(rules)
    other.update_chunks(iter([probs[:, 5:9]]), [3.0, 1.0, 1.0, 0.5])
    acc.merge(other)
    acc.merge(fill(probs[:, 9:], rules))
    assert acc.n_members == 12
    stored = sw.decompose(probs, rules, weights=[1] * 5 + [3, 1, 1, 0.5] + [1] * 3)
    assert_same(acc.result(), stored, rtol=1e-11, atol=1e-13)


def test_weights_may_be_of_any_scale():
    probs, weights = members(30, 4, 3), np.array([3.0, 1.0, 2.0, 1.0])
    stored = sw.decompose(probs, all_rules(3), weights=weights)
    for scale in (1e-200, 1e200):
        acc = sw.Accumulator(all_rules(3))
        acc.update_chunks([probs], (weights * scale).tolist())
        assert_same(acc.result(), stored, rtol=1e-12, atol=1e-14)


def test_buffers_may_be_used_again():
    probs = members(30, 5, 4)
    buffer = np.empty((10, 5, 4))

    def chunks():
        for part in np.split(probs, 3):
            buffer[:] = part
            yield buffer
        buffer[:] = np.nan

    for n_instances in (None, 30):
        acc = sw.Accumulator(FOUR)
        acc.update_chunks(chunks(), n_instances=n_instances)
        assert_same(acc.result(), sw.decompose(probs, FOUR), rtol=1e-12, atol=1e-15)


def test_logits_and_masses_are_understood_as_decompose_does():
    logits = np.random.default_rng(0).normal(size=(30, 5, 4))
    for values, option in ((logits, "from_logits"), (np.exp(logits), "normalize")):
        acc = sw.Accumulator(RULES_OF_FOUR)
        acc.update_chunks(np.split(values, 3), **{option: True})
        stored = sw.decompose(values, RULES_OF_FOUR, **{option: True})
        assert_same(acc.result(), stored, rtol=1e-12, atol=1e-14)


RULES_OF_FOUR = all_rules(4)


GOOD = members(20, 3, 4)


def tensor(values: np.ndarray) -> Any:
    import torch

    return torch.asarray(values.copy())


def breaking_off() -> Any:
    yield GOOD[:5]
    raise RuntimeError("the source dried up")


def poisoned() -> np.ndarray:
    probs = GOOD.copy()
    probs[13, 1, 2] = np.nan
    return probs


BAD_CHUNKS = {
    "none": (lambda: [], {}, "there are no chunks; pass at least one"),
    "the array itself": (lambda: GOOD, {}, r"a chunk has shape \(3, 4\); it must be \(n, M, K\)"),
    "four dimensions": (lambda: [GOOD[None]], {}, r"a chunk has shape \(1, 20, 3, 4\)"),
    "other members": (
        lambda: [GOOD[:9], GOOD[9:, :2]],
        {},
        r"from instance 9 on has \(2, 4\) members and classes .*, the first \(3, 4\)",
    ),
    "other classes": (lambda: [GOOD, members(3, 3, 5)], {}, r"from instance 20 on has \(3, 5\)"),
    "too many": (lambda: [GOOD], {"n_instances": 19}, "n_instances=19, but the chunks have 20"),
    "too few": (lambda: [GOOD], {"n_instances": 21}, "n_instances=21, but the chunks have 20"),
    "far too many": (
        lambda: [GOOD] * 3,
        {"n_instances": 20},
        "n_instances=20, but the chunks have 60",
    ),
    "too few tensors": (
        lambda: [tensor(GOOD)],
        {"n_instances": 21},
        "n_instances=21, but the chunks have 20",
    ),
    "a negative number": (lambda: [GOOD], {"n_instances": -1}, "n_instances must be a whole"),
    "a broken number": (lambda: [GOOD], {"n_instances": 20.0}, "n_instances must be a whole"),
    "nan": (lambda: [poisoned()], {}, r"probs\[13, 1, 2\] is nan"),
    "negative weights": (lambda: [GOOD], {"weights": [1, -1, 1]}, r"weights\[1\] is -1.0"),
    "too few weights": (lambda: [GOOD], {"weights": [1, 1]}, r"weights have shape \(2,\)"),
    "weights of rows": (
        lambda: [GOOD],
        {"weights": np.ones((20, 3))},
        r"weights have shape \(20, 3\); .*\(3,\)",
    ),
    "one weight": (lambda: [GOOD], {"weights": 2.0}, r"weights have shape \(\); .*\(3,\)"),
    "no weight": (lambda: [GOOD], {"weights": [0, 0, 0]}, "weights sums to 0"),
    "ragged weights": (
        lambda: [GOOD],
        {"weights": [[1], [1, 2], 3]},
        "weights is not a rectangular array",
    ),
    "other dtype": (lambda: [GOOD[:9], GOOD[9:].astype("f4")], {}, "of float32, the first"),
    "other dtype, sized": (
        lambda: [GOOD[:9].astype("f4"), GOOD[9:]],
        {"n_instances": 20},
        "of float64, the first",
    ),
    "other library": (lambda: [GOOD[:9], tensor(GOOD[9:])], {}, "different libraries"),
    "other library, sized": (
        lambda: [GOOD[:9], tensor(GOOD[9:])],
        {"n_instances": 20},
        "different libraries",
    ),
    "a tensor first": (lambda: [tensor(GOOD[:9]), GOOD[9:]], {}, "different libraries"),
}


BAD_AFTER_OTHERS = {
    "other instances": (lambda: [GOOD[:9]], {}, r"this one \(9, 4\)"),
    "other classes": (lambda: [members(20, 3, 5)], {}, r"this one \(20, 5\)"),
    "other precision": (lambda: [GOOD.astype("f4")], {}, "float64 so far, this one float32"),
    "tensors": (lambda: [tensor(GOOD)], {}, "different libraries"),
}


@pytest.mark.parametrize("case", BAD_CHUNKS)
def test_chunks_that_do_not_fit_are_refused_and_nothing_is_added(case):
    make, options, message = BAD_CHUNKS[case]
    acc = sw.Accumulator(["log", "zero-one"])
    with pytest.raises(sw.InvalidInput, match=message):
        acc.update_chunks(make(), **options)
    assert acc.n_members == 0
    with pytest.raises(sw.InvalidInput, match="no member was added yet"):
        acc.result()


@pytest.mark.parametrize("case", BAD_CHUNKS | BAD_AFTER_OTHERS)
def test_a_refused_chunk_leaves_the_accumulator_unchanged(case):
    make, options, _ = (BAD_CHUNKS | BAD_AFTER_OTHERS)[case]
    acc = fill(GOOD, ["log", "zero-one"])
    before = copy.deepcopy(acc.result())
    with pytest.raises((ValueError, TypeError)):
        acc.update_chunks(make(), **options)
    assert acc.n_members == 3
    assert_same(acc.result(), before, rtol=0)


@pytest.mark.parametrize("case", BAD_AFTER_OTHERS)
def test_chunks_that_do_not_fit_what_was_added_before_are_refused(case):
    make, options, message = BAD_AFTER_OTHERS[case]
    with pytest.raises(sw.InvalidInput, match=message):
        fill(GOOD, ["log", "zero-one"]).update_chunks(make(), **options)


def test_a_source_that_breaks_off_adds_nothing():
    acc = sw.Accumulator("log")
    with pytest.raises(RuntimeError, match="dried up"):
        acc.update_chunks(breaking_off(), n_instances=20)
    assert acc.n_members == 0
    with pytest.raises(sw.InvalidInput, match="no member was added yet"):
        acc.result()


@pytest.mark.parametrize("name", ["cost-matrix", "quadratic", "weighted-log", "beta:0.5,2"])
def test_a_rule_for_other_classes_is_refused(name):
    rule = (all_rules(2) if name.startswith("beta") else all_rules(3))[name]
    with pytest.raises(sw.InvalidInput, match="classes") as refusal:
        sw.decompose(GOOD, rule)
    acc = sw.Accumulator(rule)
    with pytest.raises(sw.InvalidInput) as error:
        acc.update_chunks([GOOD])
    assert str(error.value) == str(refusal.value)
    assert acc.n_members == 0


def test_a_wrong_row_of_a_later_chunk_is_named_in_the_whole():
    acc = sw.Accumulator("log")
    with pytest.raises(sw.InvalidInput, match=r"probs\[13, 1, 2\] is nan"):
        acc.update_chunks(np.split(poisoned(), 4))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [3, 100, 500])
@pytest.mark.parametrize("option", ["from_logits", "normalize"])
def test_equal_members_have_no_epistemic_uncertainty_however_they_are_added(option, k, dtype):
    """A softmax has the same rounding errors on every way in."""
    rng = np.random.default_rng(k)
    rules = ["log", "brier", "zero-one", "spherical", "tsallis:1.5"]
    options = {option: True}
    for n in (1, 7, 50):
        z = 3 * rng.normal(size=(n, 1, k)).astype(dtype)
        values = z if option == "from_logits" else np.exp(z)
        acc, other = sw.Accumulator(rules), sw.Accumulator(rules)
        acc.update(values[:, 0], **options)
        chunks = np.array_split(np.repeat(values, 3, axis=1), min(n, 3))
        acc.update_chunks(chunks, weights=[0.3, 2.0, 1.0], **options)
        acc.update(values[:, 0], weight=3.0, **options)
        other.update_chunks([np.repeat(values, 2, axis=1)], **options)
        acc.merge(other)
        for name, d in acc.result().items():
            assert (d.epistemic == 0).all(), name


def test_members_of_chunks_are_added_by_the_kernel():
    probs = members(300, 5, 7).astype(np.float32)
    weights = np.array([0.0, 2.0, 1.0, 0.5, 2.0])
    rules = {name: rule for name, rule in all_rules(7).items() if known_to_kernel(rule)}
    acc = sw.Accumulator(rules)
    with accumulated_by_kernel():
        acc.update_chunks(np.array_split(probs, 4), weights=weights)
    assert_same(acc.result(), sw.decompose(probs, rules, weights=weights), rtol=2e-4, atol=1e-6)
