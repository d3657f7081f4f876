"""States of accumulators that take over other members, or hand theirs to another accumulator."""

from __future__ import annotations

import numpy as np
import pytest

import scorewise as sw
from support import assert_same, fill, members

# One instance, or many classes: the classes of an instance lie across vectors.
ACROSS = [(1, 64), (1, 130), (16, 416), (33, 405)]


@pytest.mark.parametrize(("n", "k"), ACROSS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_members_after_chunks_are_added_under_decisions_too(n, k, dtype):
    probs = members(n, 6, k).astype(dtype)
    rules = ["zero-one", "log", "top-k:3"]
    for some in (rules, rules[:1], rules[:2]):
        acc = sw.Accumulator(some)
        acc.update_chunks([probs[:, :4]])
        acc.update(probs[:, 4])
        acc.update(probs[:, 5])
        rtol, atol = (1e-11, 1e-14) if dtype == "float64" else (2e-4, 1e-6)
        assert_same(acc.result(), sw.decompose(probs, some), rtol=rtol, atol=atol)


@pytest.mark.parametrize(("n", "k"), ACROSS)
def test_a_member_that_is_added_later_does_not_change_what_was_merged_before(n, k):
    probs = members(n, 6, k)
    first, second = fill(probs[:, :2], ["log", "zero-one"]), sw.Accumulator(["log", "zero-one"])
    second.merge(first)
    mean = np.array(second.mean)
    for m in range(2, 6):
        first.update(probs[:, m])
    np.testing.assert_array_equal(second.mean, mean)
    expected = sw.decompose(probs[:, :2], ["log", "zero-one"])
    assert_same(second.result(), expected, rtol=1e-11, atol=1e-14)
