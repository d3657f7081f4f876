"""Dask arrays: lazy, served by every measure of members, and as clear in their errors as others."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import scorewise as sw
from support import all_rules, may_rechunk, members

pytestmark = may_rechunk


def lazy(probs: np.ndarray) -> da.Array:
    return da.from_array(probs, chunks=tuple(max(1, n // 3) for n in probs.shape))


MEASURES = {
    "decompose": lambda p, **options: sw.decompose(p, "log", **options).total,
    "pairwise": lambda p, **options: sw.pairwise_epistemic(p, "log", **options),
    "reverse": lambda p, **options: sw.reverse_epistemic(p, "log", **options),
    "label-wise": lambda p, **options: sw.label_wise(p, **options).total,
}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
@pytest.mark.parametrize(
    ("order", "axes", "place"),
    [
        ((0, 1, 2, 3), {}, "13, 4, 3, 2"),
        ((2, 0, 1, 3), {"member_axis": 0}, "3, 13, 4, 2"),
        ((2, 0, 3, 1), {"member_axis": 0, "class_axis": 2}, "3, 13, 2, 4"),
    ],
)
def test_dask_names_the_place_in_the_whole_array_and_the_callers_axes(measure, order, axes, place):
    probs = np.full((20, 6, 5, 4), 0.25)
    probs[13, 4, 3, 2] = np.nan
    result = measure(lazy(np.transpose(probs, order)), **axes)
    with pytest.raises(sw.InvalidInput, match=rf"probs\[{place}\] is nan"):
        result.compute()


def test_dask_names_weights_in_the_whole_array():
    probs, weights = members(20, 5, 3), np.ones((20, 5))
    weights[13, 2] = -1
    for w in (weights, lazy(weights)):
        with pytest.raises(sw.InvalidInput, match=r"weights\[13, 2\] is -1.0"):
            sw.decompose(lazy(probs), "log", weights=w).total.compute()
        with pytest.raises(sw.InvalidInput, match=r"weights\[2\] is -1.0"):
            sw.decompose(lazy(probs), "log", weights=w[13]).total.compute()
    weights[13] = [0, 0, 1, 0, 0]
    with pytest.raises(sw.InvalidInput, match=r"member 2 of instance \[13\] has all the weight"):
        sw.decompose(lazy(probs), "log", weights=weights, unbiased=True).total.compute()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": np.ones((1, 5))}, r"weights have shape \(1, 5\).*\(5,\) or \(20, 5\)"),
        ({"weights": np.ones((3, 5))}, r"weights have shape \(3, 5\)"),
        ({"weights": lazy(np.ones((20, 4)))}, r"weights have shape \(20, 4\)"),
        ({"weights": 1.0}, r"weights have shape \(\)"),
        ({"weights": ["a"] * 5}, "weights has dtype str"),
        ({"weights": [[1], [1, 2]]}, "weights is not a rectangular array"),
    ],
)
@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_dask_refuses_weights_at_once(measure, options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        measure(lazy(members(20, 5, 3)), **options)


def test_dask_refuses_at_once_what_the_jackknife_cannot_do():
    with pytest.raises(sw.InvalidInput, match="a decision jumps"):
        sw.decompose(lazy(members(20, 5, 3)), "zero-one", unbiased=True)
    with pytest.raises(sw.InvalidInput, match="only one member"):
        sw.decompose(lazy(members(20, 1, 3)), "log", standard_errors=True)


@pytest.mark.parametrize("name", all_rules(3))
def test_dask_serves_every_measure_of_members(name):
    probs, rule = members(20, 5, 3), all_rules(3)[name]
    for weights in (None, np.arange(1.0, 6), lazy(np.arange(1.0, 6)), lazy(probs[..., 0])):
        eager = None if weights is None else np.asarray(weights)
        for measure in (sw.pairwise_epistemic, sw.reverse_epistemic):
            got = measure(lazy(probs), rule, weights=weights)
            assert got.shape == (20,)
            np.testing.assert_allclose(
                got.compute(), measure(probs, rule, weights=eager), rtol=1e-12, atol=1e-15
            )
    for a, b in zip(sw.label_wise(lazy(probs)), sw.label_wise(probs), strict=True):
        np.testing.assert_allclose(a.compute(), b, rtol=1e-12)
