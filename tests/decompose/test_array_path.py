"""The array path: rows of every kind in one array, work in blocks, and little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np
import pytest

import scorewise as sw
from support import Library, all_rules, by_array, members, softmax, torch_peak


def mixed(n: int, m: int, k: int) -> np.ndarray:
    """Members of which those of every third row are identical, and of the next nearly so."""
    probs = members(n, m, k)
    probs[::3] = probs[::3, :1]
    close = probs[1::3, :1] * np.exp(1e-5 * np.random.default_rng(0).normal(size=(m, k)))
    probs[1::3] = close / close.sum(axis=-1, keepdims=True)
    return probs


@pytest.mark.parametrize("library", ["numpy", "array_api_strict", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [3, 40])
def test_rows_do_not_depend_on_the_rows_beside_them(library, dtype, k):
    xp = Library(library)
    probs = mixed(90, 4, k).astype(dtype)
    weights = np.random.default_rng(1).uniform(size=(90, 4))
    tolerance = {"rtol": 1e-4 if dtype == "float32" else 1e-11, "atol": 1e-13}
    for name, rule in all_rules(k).items():
        got = xp.to_numpy(by_array(xp.asarray(probs), rule, xp.asarray(weights)).epistemic)
        assert (got[::3] == 0).all(), name
        for row in (0, 1, 2, 89):
            alone = by_array(probs[row], rule, weights[row]).epistemic
            np.testing.assert_allclose(got[row], alone, **tolerance, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sets_of_classes_that_are_tied_in_the_mean_are_all_compared(dtype):
    rng = np.random.default_rng(0)
    n, m, k, size = 40, 3, 6, 2
    probs = softmax(np.log([0.3, 0.2, 0.2, 0.2, 0.05, 0.05]) + 1e-6 * rng.normal(size=(n, m, k)))
    probs = np.concatenate(
        [probs, probs[..., [0, 2, 3, 1, 4, 5]], probs[..., [0, 3, 1, 2, 4, 5]]], 1
    )
    probs = probs.astype(dtype)
    epistemic = by_array(probs, sw.rules.top_k(size)).epistemic
    exact = probs.astype(np.longdouble)
    best = np.sort(exact, axis=-1)[..., -size:].sum(axis=-1).mean(axis=-1)
    chosen = [exact[..., list(s)].sum(axis=-1).mean(axis=-1) for s in combinations(range(k), size)]
    tolerance = 1e-4 if dtype == "float32" else 1e-9  # the reference has few digits more
    np.testing.assert_allclose(epistemic, best - np.max(chosen, axis=0), rtol=tolerance)


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("noise", [0.0, 1e-4])
def test_rows_that_need_divergences_stay_in_the_library_of_the_array(library, noise):
    xp = Library(library)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(900, 1, 5)) + noise * rng.normal(size=(900, 4, 5))
    probs = xp.asarray(softmax(logits).astype(np.float32))
    for name, rule in all_rules(5).items():
        for few in (probs, probs[:6]):  # few rows take NumPy
            result = by_array(few, rule, standard_errors=True)
            for component in (*result, *result.standard_error):
                assert xp.owns(component), name
        if not isinstance(rule, sw.rules.DecisionRule):
            assert xp.owns(by_array(probs[:6], rule, unbiased=True).epistemic), name


def test_a_large_array_needs_little_memory_besides_it():
    probs = members(100, 20, 100).astype(np.float32)
    large = np.tile(probs, (60, 1, 1))
    for options in ({}, {"from_logits": True, "check": False}, {"normalize": True}):
        tracemalloc.start()
        by_array(large, ["log", "brier"], **options)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < large.nbytes / 10, options


def numpy_peak(work: Callable[[], object]) -> int:
    """The most bytes that NumPy held at once beyond what it had."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


PEAKS = {"numpy": numpy_peak, "torch": torch_peak}


@pytest.mark.parametrize("library", PEAKS)
@pytest.mark.parametrize("noise", [0.05, 2.0])
@pytest.mark.parametrize("k", [10, 100])
def test_no_rule_holds_more_than_a_tenth_of_a_large_array_besides_it(k, noise, library):
    rng = np.random.default_rng(0)
    n = 10_000 // k
    logits = 2 * rng.normal(size=(n, 1, k)) + noise * rng.normal(size=(n, 20, k))
    large = np.tile(softmax(logits).astype(np.float32), (60, 1, 1))  # 48 MB
    probs = Library(library).asarray(large)
    own = {
        "own losses": sw.rule_from_loss_vector(lambda p: -p, name="own losses"),
        "own entropy": sw.rule_from_entropy(
            lambda p: 1 - (p * p).sum(-1), lambda p: -2 * p, name="own entropy"
        ),
    }
    for name, rule in {**all_rules(k), **own}.items():
        assert PEAKS[library](partial(by_array, probs, rule)) < large.nbytes / 10, name


def test_the_first_wrong_row_is_named_whatever_the_blocks():
    probs = members(2 * 2000, 20, 10).reshape(2, 2000, 20, 10)
    probs[0, 1500, 7] = probs[1, 3, 0] = 0.5
    with pytest.raises(sw.InvalidInput, match=r"probs\[0, 1500, 7\] sums to 5, not 1"):
        by_array(probs, "log")
    moved = np.moveaxis(probs, 2, 0)
    with pytest.raises(sw.InvalidInput, match=r"probs\[7, 0, 1500\] sums to 5, not 1"):
        by_array(moved, "log", member_axis=0)
