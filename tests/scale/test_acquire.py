"""Rows chosen from scores on workers: the chances of memory, whatever the chunks."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scorewise as sw
from active_support import assert_drawn_with
from scale_support import local_cluster
from support import members

METHODS = ["top", "power", "softmax", "softrank", "random"]
SCORES = np.array([2.0, 5.0, 1.0, 3.0, 4.0])
RANKS = np.array([4.0, 1, 5, 3, 2])


@pytest.fixture(autouse=True, scope="module")
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(scores, chunks=-1):
    return da.from_array(np.asarray(scores, dtype=float), chunks=chunks)


scores_of_pools = st.lists(
    st.one_of(st.integers(0, 3).map(float), st.floats(0, allow_nan=False)), min_size=1, max_size=40
)


@settings(max_examples=60)
@given(scores_of_pools, st.data())
def test_rows_are_different_unlabelled_and_do_not_depend_on_the_chunks(scores, data):
    n_rows = len(scores)
    labelled = np.flatnonzero(
        data.draw(
            st.lists(st.booleans(), min_size=n_rows, max_size=n_rows).filter(lambda x: not all(x))
        )
    )
    n = data.draw(st.integers(1, n_rows - len(labelled)))
    method, seed = data.draw(st.sampled_from(METHODS)), data.draw(st.integers(0, 2**70))
    chunkings = [data.draw(st.integers(1, n_rows)), (0, n_rows - n_rows // 3, n_rows // 3, 0), -1]
    mask = np.isin(np.arange(n_rows), labelled)
    one, other, third = (
        sw.acquire(lazy(scores, (chunks,)), n, method, seed, labelled=kind)
        for chunks, kind in zip(chunkings, (labelled, mask, labelled[::-1]), strict=True)
    )
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, third)
    assert one.dtype.kind == "i"
    assert one.shape == (n,)
    assert len(set(one.tolist())) == n
    assert not set(one.tolist()) & set(labelled.tolist())


@settings(max_examples=60)
@given(
    st.lists(st.one_of(st.integers(-2, 2).map(float), st.floats(allow_nan=False)), min_size=1),
    st.data(),
)
def test_top_is_the_largest_scores_in_falling_order(scores, data):
    n = data.draw(st.integers(1, len(scores)))
    rows = sw.acquire(lazy(scores, data.draw(st.integers(1, len(scores)))), n)
    np.testing.assert_array_equal(np.array(scores)[rows], np.sort(scores)[::-1][:n])


@settings(max_examples=40)
@given(
    st.sampled_from(["normal", "rounded", "close", "wide", "infinite"]),
    st.integers(1, 3000),
    st.integers(0, 9),
    st.data(),
)
def test_a_cold_softrank_finds_the_row_of_every_rank(kind, n_rows, seed, data):
    rng = np.random.default_rng(seed)
    scores = {
        "normal": rng.normal(size=n_rows),
        "rounded": rng.normal(size=n_rows).round(1),
        "close": 1 + 1e-13 * rng.uniform(size=n_rows),
        "wide": 10 ** rng.uniform(-300, 300, n_rows) * rng.choice([-1, 1], n_rows),
        "infinite": rng.choice([-np.inf, -0.0, 0.0, 1, np.inf], n_rows),
    }[kind]
    n = data.draw(st.sampled_from([1, -(-n_rows // 7), n_rows]))
    rows = sw.acquire(lazy(scores, -(-n_rows // 3)), n, "softrank", seed, coldness=1e12)
    np.testing.assert_array_equal(scores[rows], np.sort(scores)[::-1][:n])
    assert len(set(rows.tolist())) == n


@pytest.mark.parametrize("kind", ["far apart", "in a narrow band"])
def test_softrank_finds_ranks_of_more_rows_than_it_gathers(kind):
    n_rows = 200_000
    scores = np.random.default_rng(0).uniform(size=n_rows)
    scores = scores if kind == "far apart" else 1 + 1e-12 * scores
    rows = sw.acquire(lazy(scores, 60_000), 1000, "softrank", 0, coldness=1e12)
    np.testing.assert_array_equal(scores[rows], np.sort(scores)[::-1][:1000])
    spread = sw.acquire(lazy(scores, 60_000), 1000, "softrank", 0, coldness=0.2)
    ranks = np.argsort(np.argsort(-scores))[spread]
    assert len(set(ranks.tolist())) == 1000
    assert ranks.min() < 5000
    assert ranks.max() > 150_000


def pair_chances(worth):
    """The chances of each ordered pair, drawn one after the other without replacement."""
    first = worth / worth.sum()
    second = worth[None, :] / (worth.sum() - worth)[:, None]
    chances = first[:, None] * second
    np.fill_diagonal(chances, 0)
    return chances


def draws(scores, n, method, n_draws=600, seed=0, chunks=-1, **options):
    pool = lazy(scores, chunks).persist()
    return np.array([sw.acquire(pool, n, method, seed + i, **options) for i in range(n_draws)])


@pytest.mark.parametrize("coldness", [1.0, 3.0])
@pytest.mark.parametrize(
    ("method", "worth"),
    [
        ("power", lambda c: SCORES**c),
        ("softmax", lambda c: np.exp(c * SCORES)),
        ("softrank", lambda c: RANKS**-c),
        ("random", lambda c: np.ones(5)),
    ],
)
def test_stochastic_methods_draw_with_the_chances_of_memory(method, worth, coldness):
    chances = pair_chances(worth(coldness))
    pairs = draws(SCORES, 2, method, coldness=coldness)
    assert_drawn_with(chances, pairs)
    in_memory = np.array([sw.acquire(SCORES, 2, method, i, coldness=coldness) for i in range(600)])
    assert_drawn_with(chances, in_memory)


@pytest.mark.parametrize("chunks", [1, 2])
def test_chances_in_several_chunks_are_those_of_one(chunks):
    chances = pair_chances(np.exp(SCORES))
    assert_drawn_with(chances, draws(SCORES, 2, "softmax", n_draws=400, chunks=chunks))


def test_draws_are_among_the_unlabelled_rows_alone():
    free = np.array([0, 2, 3])
    chances = np.zeros((5, 5))
    chances[np.ix_(free, free)] = pair_chances(1 / np.array([2.0, 1.0, 3.0]))
    scores = np.array([2.0, 9.0, 3.0, 1.0, 9.0])
    assert_drawn_with(chances, draws(scores, 2, "softrank", labelled=[1, 4]))


def test_tied_scores_come_in_a_random_order():
    top = draws([0, 2, 1, 2, 1], 3, "top")
    chances = np.zeros((5, 5))
    chances[np.ix_([1, 3], [1, 3])] = (1 - np.eye(2)) / 2
    assert_drawn_with(chances, top[:, :2])
    assert_drawn_with(np.array([0, 0, 0.5, 0, 0.5]), top[:, 2:])
    worth = np.array([1.0, 1 / 2, 1 / 3])
    chances = np.mean([pair_chances(worth[[0, *order]]) for order in ([1, 2], [2, 1])], axis=0)
    assert_drawn_with(chances, draws([7.0, 3.0, 3.0], 2, "softrank"))


def test_softmax_looks_at_differences_alone():
    pairs = draws(2.0**53 + np.array([0.0, 2.0]), 2, "softmax")
    assert_drawn_with(pair_chances(np.exp([0.0, 2.0])), pairs)


def test_only_the_best_rows_of_each_chunk_are_merged():
    """The largest thing that a task returns, apart from the scores themselves."""
    from dask.callbacks import Callback

    sizes = []

    class Sizes(Callback):
        def _posttask(self, key, result, *_):
            if hasattr(result, "noise"):
                sizes.append(len(result.rows))

    with Sizes():
        sw.acquire(da.random.default_rng(0).uniform(size=100_000, chunks=1000), 7, "softmax", 0)
    assert len(sizes) == 100 + 13 + 2 + 1
    assert max(sizes) == 7


def test_epistemic_uncertainty_of_a_dask_array_is_a_pool():
    probs = members(60, 5, 3)
    d = sw.decompose(da.from_array(probs, chunks=(17, 5, 3)), "zero-one")
    expected = sw.decompose(probs, "zero-one").epistemic
    rows = sw.acquire(d.epistemic, 5)
    np.testing.assert_allclose(expected[rows], np.sort(expected)[::-1][:5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((lazy([1.0, 2, 3], 2), 4), "there are only 3 rows to choose 4 from"),
        ((lazy([1.0, 2, np.nan, 3], 2), 1), r"scores\[2\] is nan; drop such rows"),
        ((lazy([1.0, 2, -3, -1], 2), 1, "power"), "the smallest score is -3; method='power'"),
        ((lazy([[1.0, 2]]), 1), "scores has 2 dimensions"),
        ((lazy([1.0, 2], 1), 1, "best"), "method must be one of"),
        ((da.from_array(np.array(["a", "b"])), 1), "scores has dtype"),
    ],
)
def test_what_is_refused_in_memory_is_refused_here(arguments, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.acquire(*arguments)


def test_labelled_rows_are_checked_and_their_scores_may_be_negative_but_not_nan():
    with pytest.raises(sw.InvalidInput, match=r"labelled\[0\] is 9; there are 3 rows"):
        sw.acquire(lazy([1.0, 2, 3], 2), 1, labelled=[9])
    with pytest.raises(sw.InvalidInput, match="only 2 rows to choose 3 from"):
        sw.acquire(lazy([1.0, 2, 3], 2), 3, labelled=[0])
    assert sw.acquire(lazy([-1.0, 2, 3], 2), 2, "power", 0, labelled=[0]).tolist() in [
        [1, 2],
        [2, 1],
    ]
    scores = lazy([1.0, 2, 3])
    with pytest.raises(sw.InvalidInput, match=r"call scores.compute_chunk_sizes\(\) first"):
        sw.acquire(scores[scores > 1], 1)


# -- joint batches from a short list ---------------------------------------------------------------


def pool_of(n=80):
    probs = members(n, 6, 3, concentration=0.7)
    return probs, da.from_array(probs, chunks=(23, 6, 3))


@pytest.mark.parametrize("rule", ["log", "zero-one"])
def test_a_list_of_all_rows_gives_the_batch_of_memory(rule):
    probs, pool = pool_of()
    expected = sw.acquire_batch(probs, 6, rule, 3, labelled=[1, 5])
    for batch in (
        sw.acquire_batch(pool, 6, rule, 3, labelled=[1, 5]),
        sw.acquire_batch(pool.rechunk((9, 2, 3)), 6, rule, 3, labelled=[1, 5]),
        sw.acquire_batch(sw.Samples(pool, check=False), 6, rule, 3, labelled=[1, 5]),
        sw.acquire_batch(probs, 6, rule, 3, labelled=[1, 5], n_candidates=78),
    ):
        assert len(set(batch.rows.tolist())) == 6
        assert not {1, 5} & set(batch.rows.tolist())
        if rule == "log":  # no ties
            np.testing.assert_array_equal(batch.rows, expected.rows)
        np.testing.assert_allclose(batch.gains, expected.gains, rtol=1e-9, atol=1e-12)


def test_a_short_list_has_the_rows_of_the_largest_uncertainty():
    probs, pool = pool_of()
    epistemic = sw.decompose(probs, "log").epistemic
    best = np.argsort(-epistemic)[:10]
    of_list = sw.acquire_batch(probs[np.sort(best)], 4, "log", 3)
    for predictions in (probs, pool):
        batch = sw.acquire_batch(predictions, 4, "log", 3, n_candidates=10)
        np.testing.assert_array_equal(batch.rows, np.sort(best)[of_list.rows])
        np.testing.assert_allclose(batch.gains, of_list.gains)


def test_a_lazy_pool_takes_the_options_of_samples():
    probs, _ = pool_of()
    weights = np.arange(1.0, 7)
    expected = sw.acquire_batch(probs, 4, "log", 3, weights=weights)
    logits = da.from_array(np.moveaxis(np.log(probs), 1, 0), chunks=(6, 30, 3))
    options = {"weights": weights, "member_axis": 0, "from_logits": True}
    batch = sw.acquire_batch(logits, 4, "log", 3, **options)
    np.testing.assert_array_equal(batch.rows, expected.rows)
    np.testing.assert_allclose(batch.gains, expected.gains, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_candidates": 3}, "n_candidates must be a whole number from 4 on"),
        ({"n_candidates": 4.5}, "n_candidates must be a whole number"),
        ({"labelled": range(78)}, "only 2 rows to choose 4 from"),
        ({"weights": np.ones((80, 6))}, "the same weights"),
    ],
)
def test_a_short_list_that_cannot_be_is_refused(options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.acquire_batch(pool_of()[1], 4, "log", 3, **options)


def test_a_lazy_pool_must_be_rows_of_members():
    with pytest.raises(sw.InvalidInput, match=r"must be rows \(N, M, K\)"):
        sw.acquire_batch(da.ones((6, 3)) / 3, 1)


def test_worker_processes_choose_the_rows_of_this_process():
    pool = pool_of()[1]
    scores = sw.decompose(pool, "log").epistemic
    expected = [sw.acquire(scores, 9, method, 4) for method in METHODS]
    batch = sw.acquire_batch(pool, 5, "log", 4, n_candidates=20)
    with local_cluster():
        rows = [sw.acquire(scores, 9, method, 4) for method in METHODS]
        same = sw.acquire_batch(pool, 5, "log", 4, n_candidates=20)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(same.rows, batch.rows)
