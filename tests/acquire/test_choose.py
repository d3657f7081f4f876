"""Rows chosen by their scores: which ones, with what chances, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import scorewise as sw
from active_support import assert_drawn_with
from support import members

# -- one score for each row ------------------------------------------------------------------------


METHODS = ["top", "power", "softmax", "softrank", "random"]


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


finite_scores = st.lists(
    st.one_of(st.integers(0, 3).map(float), st.floats(0, 1e300)), min_size=1, max_size=30
)


any_scores = st.lists(
    st.one_of(st.integers(-2, 2).map(float), st.floats(allow_nan=False)), min_size=1, max_size=30
)


@st.composite
def partly_labelled(draw, scores):
    """Scores, rows that have labels, and how many of the others to choose."""
    given_scores = np.array(draw(scores))
    free = draw(
        st.lists(st.booleans(), min_size=len(given_scores), max_size=len(given_scores)).filter(any)
    )
    free = np.flatnonzero(free)
    labelled = np.setdiff1d(np.arange(len(given_scores)), free)
    return given_scores, labelled, draw(st.integers(1, len(free)))


@given(partly_labelled(finite_scores), st.sampled_from(METHODS), st.integers(0, 5))
def test_rows_are_different_unlabelled_and_follow_from_the_seed(case, method, seed):
    scores, labelled, n = case
    rows = sw.acquire(scores, n, method, seed, labelled=labelled)
    assert rows.shape == (n,)
    assert rows.dtype.kind == "i"
    assert len(set(rows.tolist())) == n
    assert set(rows.tolist()) <= set(range(len(scores))) - set(labelled.tolist())
    np.testing.assert_array_equal(rows, sw.acquire(scores, n, method, seed, labelled=labelled))


@given(partly_labelled(any_scores), st.integers(0, 5))
def test_top_is_the_largest_scores_in_falling_order(case, seed):
    scores, labelled, n = case
    rows = sw.acquire(scores, n, "top", seed, labelled=labelled)
    expected = np.sort(np.delete(scores, labelled))[::-1][:n]
    np.testing.assert_array_equal(scores[rows], expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_labelled_rows_may_be_named_by_any_kind_of_integer(dtype):
    scores = np.arange(6.0)
    rows = sw.acquire(scores, 3, labelled=np.array([5, 0, 3], dtype=dtype))
    np.testing.assert_array_equal(rows, [4, 2, 1])


@pytest.mark.parametrize(
    "labelled",
    [
        [5, 0, 3],
        (3, 0, 5),
        torch.tensor([5, 0, 3]),
        torch.tensor([5, 0, 3], dtype=torch.uint8),
        torch.tensor([True, False, False, True, False, True]),
        [True, False, False, True, False, True],
        np.array([1, 0, 0, 1, 0, 1], dtype=bool),
    ],
)
def test_labelled_rows_come_as_indices_or_a_mask_of_any_library(labelled):
    for scores in (range(6), list(range(6)), np.arange(6), torch.arange(6.0, requires_grad=True)):
        np.testing.assert_array_equal(sw.acquire(scores, 3, labelled=labelled), [4, 2, 1])
    pool = members(6, 3, 2)
    assert set(sw.acquire_batch(pool, 3, "log", 0, labelled=labelled).rows) == {1, 2, 4}


def test_no_labels_yet_is_no_labels():
    for nothing in ([], np.array([], dtype=int), np.zeros(3, dtype=bool), None):
        np.testing.assert_array_equal(sw.acquire([3, 1, 2], 3, labelled=nothing), [0, 2, 1])


def test_low_precision_scores_are_read():
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        np.testing.assert_array_equal(sw.acquire(torch.tensor([1, 3, 2], dtype=dtype), 2), [1, 2])
    np.testing.assert_array_equal(sw.acquire(np.float16([1, 3, 2]), 2), [1, 2])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scores": [0, np.nan, 1, 2]}, r"scores\[1\] is nan"),
        ({"scores": [[0, 1, 2, 3]]}, "scores has 2 dimensions"),
        ({"scores": 3.0}, "scores has 0 dimensions"),
        ({"scores": ["a", "b"]}, "real numbers"),
        ({"scores": [], "n": 1}, "no unlabelled rows"),
        ({"n": 0}, "n must be a whole number from 1 on, not 0"),
        ({"n": -1}, "n must be a whole number from 1 on, not -1"),
        ({"n": 2.0}, "n must be a whole number from 1 on, not 2.0"),
        ({"n": True}, "n must be a whole number from 1 on, not True"),
        ({"n": 5}, "only 4 rows to choose 5 from"),
        ({"n": 3, "labelled": [0, 2]}, "only 2 rows to choose 3 from"),
        ({"n": 1, "labelled": [3, 1, 2, 0]}, "no unlabelled rows"),
        ({"n": 1, "labelled": [True] * 4}, "no unlabelled rows"),
        ({"labelled": [0, 4]}, r"labelled\[1\] is 4; there are 4 rows"),
        ({"labelled": [-1]}, r"labelled\[0\] is -1; there are 4 rows"),
        ({"labelled": [0, 2, 2]}, r"labelled\[2\] is 2; it occurs twice"),
        ({"labelled": [1.0]}, "indices of rows, or a mask, not float64"),
        ({"labelled": [[0, 1]]}, r"indices of rows, or a mask, not int64 of shape \(1, 2\)"),
        ({"labelled": 1}, r"not int64 of shape \(\)"),
        ({"labelled": [True, False]}, r"mask of shape \(2,\) for 4 rows"),
        ({"labelled": np.zeros((4, 1), bool)}, r"mask of shape \(4, 1\) for 4 rows"),
        ({"labelled": np.ma.array([0], mask=[True])}, "labelled is a masked array"),
        ({"labelled": ["a"]}, "labelled has dtype"),
        ({"method": "best"}, "method must be one of 'top', .*not 'best'"),
        ({"method": None}, "method must be one of"),
        ({"random_state": -1}, "random_state must be a whole number from 0 on"),
        ({"coldness": 0}, "coldness must be above 0.* not 0"),
        ({"coldness": -1.5}, "coldness must be above 0.* not -1.5"),
        ({"coldness": np.nan}, "coldness must be a finite number, not nan"),
        ({"coldness": np.inf}, "coldness must be a finite number, not inf"),
        ({"coldness": "1"}, "coldness must be a finite number"),
        ({"scores": [1, -0.5, 2, 3], "method": "power"}, "the smallest score is -0.5"),
        ({"scores": [1, -np.inf, 2, 3], "method": "power"}, "the smallest score is -inf"),
    ],
)
def test_invalid_arguments_are_refused(changed, message):
    call = {"scores": [0.0, 1.0, 2.0, 3.0], "n": 2} | changed
    with pytest.raises(sw.InvalidInput, match=message):
        sw.acquire(**call)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_n_may_be_any_kind_of_integer(dtype):
    np.testing.assert_array_equal(
        sw.acquire(np.arange(1000.0), np.dtype(dtype).type(3)), [999, 998, 997]
    )


# -- the chances of the draws ----------------------------------------------------------------------


N_DRAWS = 3000


def draws(scores, n, method, seed=0, **options):
    rng = np.random.default_rng(seed)
    return np.array([sw.acquire(scores, n, method, rng, **options) for _ in range(N_DRAWS)])


def pair_chances(worth):
    """Of the first two picks of draws without replacement with chances in proportion to worth."""
    chances = np.zeros((len(worth), len(worth)))
    for i, j in itertools.permutations(range(len(worth)), 2):
        chances[i, j] = worth[i] / worth.sum() * worth[j] / (worth.sum() - worth[i])
    return chances


RANKS = np.array([4.0, 2.0, 1.0, 5.0, 3.0])


SCORES = np.array([0.4, 1.0, 2.5, 0.3, 0.9])


@pytest.mark.parametrize("coldness", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    ("method", "worth"),
    [
        ("power", lambda c: SCORES**c),
        ("softmax", lambda c: np.exp(c * SCORES)),
        ("softrank", lambda c: RANKS**-c),
        ("random", lambda c: np.ones(5)),
    ],
)
def test_stochastic_methods_draw_without_replacement(method, worth, coldness):
    chances = pair_chances(worth(coldness))
    pairs = draws(SCORES, 2, method, coldness=coldness)
    assert_drawn_with(chances, pairs)
    assert_drawn_with(chances.sum(axis=1), pairs[:, :1])


def test_draws_are_among_the_unlabelled_rows_alone():
    free = np.array([0, 2, 3])
    chances = np.zeros((5, 5))
    chances[np.ix_(free, free)] = pair_chances(1 / np.array([2.0, 1.0, 3.0]))
    assert_drawn_with(chances, draws(SCORES, 2, "softrank", labelled=[1, 4]))


def test_whole_orders_have_the_right_chances():
    """The whole order, not only its beginning: by brute force over all of them."""
    worth = np.array([1.0, 2.0, 4.0])
    orders = draws(worth, 3, "power")
    chances = np.zeros((3, 3, 3))
    for order in itertools.permutations(range(3)):
        w = worth[list(order)]
        chances[order] = w[0] / w.sum() * w[1] / w[1:].sum()
    assert_drawn_with(chances, orders)


def test_ties_come_in_a_random_order():
    """Where they are cut off, and where all of them are taken."""
    chances = np.zeros((5, 5))
    chances[np.ix_([1, 3], [1, 3])] = (1 - np.eye(2)) / 2
    assert_drawn_with(chances, draws([0, 2, 1, 2, 1], 3, "top")[:, :2])
    third = draws([0, 2, 1, 2, 1], 3, "top", seed=1)[:, 2:]
    assert_drawn_with(np.array([0, 0, 0.5, 0, 0.5]), third)
    some = np.zeros((5, 5))
    some[np.ix_([0, 2, 4], [0, 2, 4])] = (1 - np.eye(3)) / 6
    assert_drawn_with(some, draws([1, 0, 1, 0, 1], 2, "top", seed=2))
    inner = draws([1, 2, 2, 2, 0], 4, "top", seed=3)
    three = np.zeros((5, 5))
    three[1:4, 1:4] = (1 - np.eye(3)) / 6
    assert_drawn_with(three, inner[:, :2])
    assert (inner[:, 3] == 0).all()


def test_tied_scores_share_their_ranks_at_random():
    worth = np.array([1.0, 1 / 2, 1 / 3])
    chances = np.mean([pair_chances(worth[[0, *order]]) for order in ([1, 2], [2, 1])], axis=0)
    assert_drawn_with(chances, draws([7.0, 3.0, 3.0], 2, "softrank"))


def test_scores_of_0_come_last_under_power_in_a_random_order():
    scores = [0.0, 3.0, 0.0, 1e-300, 0.0]
    actual = draws(scores, 5, "power")
    assert set(map(tuple, actual[:, :2])) == {(1, 3)}
    some = np.zeros((5, 5))
    some[np.ix_([0, 2, 4], [0, 2, 4])] = (1 - np.eye(3)) / 6
    assert_drawn_with(some, actual[:, 2:4])
    assert sorted(sw.acquire([-0.0, 0.0, 0.0], 3, "power", 0)) == [0, 1, 2]


@pytest.mark.parametrize("method", ["top", "softmax", "softrank"])
def test_infinite_scores_are_first_or_last(method):
    coldness = 1000.0 if method == "softrank" else 1.0
    scores = [-np.inf, 0.0, np.inf, 1.0, -np.inf, np.inf]
    firsts, lasts = set(), set()
    for seed in range(40):
        rows = sw.acquire(scores, 6, method, seed, coldness=coldness)
        assert set(rows[:2]) == {2, 5}
        assert set(rows[4:]) == {0, 4}
        firsts.add(rows[0])
        lasts.add(rows[5])
    assert (firsts, lasts) == ({2, 5}, {0, 4})
    assert sw.acquire([1.0, np.inf, 3.0], 1, "power", 0) == 1


@pytest.mark.parametrize("method", ["power", "softmax", "softrank"])
def test_large_coldness_is_the_top_and_small_is_random(method):
    scores = np.random.default_rng(0).permutation(np.arange(1, 21.0))
    for seed in range(10):
        np.testing.assert_array_equal(
            sw.acquire(scores, 20, method, seed, coldness=1e6), sw.acquire(scores, 20)
        )
    firsts = draws(SCORES, 1, method, coldness=1e-9)
    assert_drawn_with(np.full(5, 0.2), firsts)


@pytest.mark.parametrize("method", ["power", "softmax", "softrank"])
def test_the_largest_coldness_is_the_top(method):
    scores = 10 + 10 * np.array([2.0, 9, 4, 6, 0, 3, 1, 5, 8, 7])
    rows = sw.acquire(scores, 10, method, 0, coldness=1e308)
    np.testing.assert_array_equal(rows, sw.acquire(scores, 10))


def test_a_coldness_beyond_floats_is_refused():
    with pytest.raises(sw.InvalidInput, match="coldness must be a finite number"):
        sw.acquire([1.0, 2.0], 1, "softmax", 0, coldness=10**400)


def test_softmax_looks_at_differences_alone():
    pairs = draws(2.0**53 + np.array([0.0, 2.0]), 2, "softmax")
    assert_drawn_with(pair_chances(np.exp([0.0, 2.0])), pairs)


def test_generators_advance_and_seeds_repeat():
    scores = np.zeros(1000)
    rng = np.random.default_rng(0)
    first, second = sw.acquire(scores, 5, random_state=rng), sw.acquire(scores, 5, random_state=rng)
    assert set(first) != set(second)
    old = np.random.RandomState(0)
    assert set(sw.acquire(scores, 5, "random", old)) != set(sw.acquire(scores, 5, "random", old))
    assert set(sw.acquire(scores, 5, "random")) != set(sw.acquire(scores, 5, "random"))
    assert set(sw.acquire(scores, 5, "random", 1)) != set(sw.acquire(scores, 5, "random", 2))


@pytest.mark.parametrize("method", METHODS)
def test_a_small_part_of_a_large_pool_is_chosen(method):
    scores = np.random.default_rng(0).random(1_000_000)
    rows = sw.acquire(scores, 1000, method, 0, labelled=np.arange(100_000))
    assert len(np.unique(rows)) == 1000
    assert rows.min() >= 100_000
