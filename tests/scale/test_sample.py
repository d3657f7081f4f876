"""A sample of rows is the same whatever the parts in which the rows come."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scorewise as sw
from scorewise.scale import RowSample


def parts_of(n, size, cuts, seed=0):
    columns = {"row": np.arange(n), "square": np.arange(n)[:, None] ** [1, 2]}
    bounds = [0, *sorted(min(c, n) for c in cuts), n]
    return [
        RowSample.of({k: v[a:b] for k, v in columns.items()}, size, seed, first_row=a)
        for a, b in pairwise(bounds)
    ]


@given(
    st.integers(0, 80),
    st.integers(0, 30),
    st.lists(st.integers(0, 80), max_size=4),
    st.randoms(use_true_random=False),
)
def test_neither_the_parts_nor_the_order_of_merging_matters(n, size, cuts, random):
    [whole] = parts_of(n, size, [])
    parts = parts_of(n, size, cuts)
    while len(parts) > 1:
        random.shuffle(parts)
        parts = [parts[0].merge(parts[1]), *parts[2:]]
    np.testing.assert_array_equal(parts[0].rows, whole.rows)
    np.testing.assert_array_equal(parts[0].columns["row"], whole.rows)
    np.testing.assert_array_equal(parts[0].columns["square"][:, 1], whole.rows**2)
    assert (parts[0].n_rows, len(whole)) == (n, min(n, size))
    assert whole.has_all_rows == (n <= size)


def test_every_row_is_as_likely_as_another():
    counts = np.zeros(40)
    for seed in range(2000):
        counts[parts_of(40, 10, [], seed)[0].rows] += 1
    # binomial with mean 500 and standard deviation 19.4
    assert np.all(np.abs(counts - 500) < 4.5 * 19.4)
    assert counts.sum() == 20_000


def test_pairs_of_neighbours_are_drawn_independently():
    together = sum({3, 4} <= set(parts_of(40, 10, [], seed)[0].rows) for seed in range(2000))
    assert abs(together - 2000 * (10 * 9) / (40 * 39)) < 4.5 * 10.5


def test_a_smaller_sample_is_part_of_a_larger_one():
    [small], [large] = parts_of(5000, 100, []), parts_of(5000, 700, [])
    assert set(small.rows) < set(large.rows)


def test_another_seed_draws_other_rows():
    [first], [second] = parts_of(5000, 100, []), parts_of(5000, 100, [], seed=1)
    assert set(first.rows) != set(second.rows)


def test_samples_of_different_seeds_are_not_merged():
    [first], [second] = parts_of(50, 10, []), parts_of(50, 10, [], seed=1)
    with pytest.raises(sw.InvalidInput, match="seeds"):
        first.merge(second)
