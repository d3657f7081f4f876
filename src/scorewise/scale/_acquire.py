"""Rows chosen by scores that are spread over the workers of a cluster.

Every method chooses the n largest of some keys. The n best of each chunk of rows are merged by a
tree, so that no task has more than those of a few chunks. Noise comes from a generator that counts
rows, so that it does not depend on the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array
from scorewise.acquire import Preference
from scorewise.scale._ranks import keys_of
from scorewise.scale._tree import computed, merge_tree, persisted

_RANKS = 1 << 22  # ranks that a task draws from
_THRESHOLDS = 1 << 18  # scores at which all rows are counted at a time
_FEW_SCORES = 1 << 16  # that may be gathered, to find some of them by their rank

_NOISE, TIES = 0, 1  # streams of random numbers

Seed = int | tuple[int, ...]


def acquire_rows(
    scores: Array, n: int, preference: Preference, seed: int, labelled: np.ndarray
) -> np.ndarray:
    """Return the indices of the rows to label next, in the order of choice.

    ``scorewise.acquire`` calls it for a Dask array.

    Parameters
    ----------
    scores : Dask array (N,)
    n : int
        Number of rows to choose, at most as many as have no label.
    preference : Preference
    seed : int
    labelled : sorted integer array
        Rows that have a label.
    """
    blocks = list(_blocks(scores, labelled))
    if preference.method == "softrank":
        n_candidates = scores.shape[0] - len(labelled)
        ranks = _draw_ranks(n_candidates, n, preference, seed)
        return _rows_of_ranks(blocks, n_candidates, ranks, seed)
    best = [_delayed(_best_of_block)(block, n, preference, seed) for block in blocks]
    merge = partial(merge_best, n=n, preference=preference)
    chosen: BestRows = computed(merge_tree(best, merge))[0]
    preference.check(chosen.smallest)
    return chosen.rows


# -- tasks of Dask ---------------------------------------------------------------------------------


def _delayed(function: Callable[..., Any]) -> Any:
    import dask

    return dask.delayed(function)


@dataclass(frozen=True)
class _ScoreBlock:
    """Scores of consecutive rows."""

    scores: Array
    first_row: int
    labelled: np.ndarray  # those of the rows that have a label, counted from the first

    @property
    def rows(self) -> np.ndarray:
        """The rows that have no label."""
        return self.unlabelled(np.arange(self.first_row, self.first_row + self.scores.shape[0]))

    def unlabelled(self, values: np.ndarray) -> np.ndarray:
        return np.delete(values, self.labelled)

    def candidate_scores(self) -> np.ndarray:
        """Return the checked scores of the rows that have no label."""
        scores = validate.vector(self.scores, "scores", may_be_empty=True, first=self.first_row)
        return self.unlabelled(scores)


def _blocks(scores: Array, labelled: np.ndarray) -> Iterator[Any]:
    """Yield the blocks as tasks."""
    new_block = _delayed(_ScoreBlock)
    starts = [0, *accumulate(scores.chunks[0])]
    cuts = np.searchsorted(labelled, starts)
    for i, block in enumerate(scores.to_delayed()):
        yield new_block(block, starts[i], labelled[cuts[i] : cuts[i + 1]] - starts[i])


# -- random numbers that belong to a row -----------------------------------------------------------


def random_words(seed: Seed, stream: int, first: int, n: int) -> np.ndarray:
    """Return random 64-bit numbers of n consecutive rows, which depend on the row alone."""
    seeds = [seed] if isinstance(seed, int) else seed
    key = np.random.SeedSequence([*seeds, stream]).generate_state(2, np.uint64)
    generator = np.random.Philox(key=key)
    generator.advance(first // 4)  # it makes four numbers at a time
    return np.asarray(generator.random_raw(first % 4 + n)[first % 4 :])


def gumbel_noise(seed: Seed, first: int, n: int) -> np.ndarray:
    """Return the Gumbel noise of n consecutive rows or ranks."""
    uniform = ((random_words(seed, _NOISE, first, n) >> np.uint64(11)) + 0.5) * 2.0**-53
    return np.asarray(-np.log(-np.log(uniform)))


# -- the largest keys ------------------------------------------------------------------------------


@dataclass(frozen=True)
class BestRows:
    """The best rows of some, in the order of choice, and what is known of all of these.

    ``rows`` may be of any dtype.
    """

    rows: np.ndarray
    scores: np.ndarray
    noise: np.ndarray
    ties: np.ndarray  # the order of rows with equal keys
    top: float  # the largest finite score
    smallest: float

    @classmethod
    def of(
        cls, rows: np.ndarray, scores: np.ndarray, noise: np.ndarray, ties: np.ndarray
    ) -> BestRows:
        top = np.max(scores, initial=-np.inf, where=np.isfinite(scores))
        smallest = np.min(scores, initial=np.inf)
        return cls(rows, scores, noise, ties, float(top), float(smallest))

    def best(self, n: int, preference: Preference) -> BestRows:
        """Return those with the n largest keys."""
        with np.errstate(invalid="ignore"):  # negative scores raise once all are known
            keys = preference.keys(self.scores, self.top, self.noise)
        places = np.arange(len(keys))
        if len(keys) > n:
            places = np.flatnonzero(~(keys < np.partition(keys, len(keys) - n)[len(keys) - n]))
        places = places[np.lexsort((self.ties[places], -keys[places]))[:n]]
        rows, scores, noise, ties = (
            x[places] for x in (self.rows, self.scores, self.noise, self.ties)
        )
        return BestRows(rows, scores, noise, ties, self.top, self.smallest)


def _best_of_block(block: _ScoreBlock, n: int, preference: Preference, seed: int) -> BestRows:
    scores = block.candidate_scores()
    first, length = block.first_row, block.scores.shape[0]
    noise = block.unlabelled(gumbel_noise(seed, first, length))
    ties = block.unlabelled(random_words(seed, TIES, first, length))
    return BestRows.of(block.rows, scores, noise, ties).best(n, preference)


def merge_best(parts: Sequence[BestRows], n: int, preference: Preference) -> BestRows:
    """Return the best of all parts; keys are computed again, relative to the top of all."""
    names = ("rows", "scores", "noise", "ties")
    rows, scores, noise, ties = (
        np.concatenate([getattr(part, name) for part in parts]) for name in names
    )
    top, smallest = max(part.top for part in parts), min(part.smallest for part in parts)
    return BestRows(rows, scores, noise, ties, top, smallest).best(n, preference)


# -- ranks -----------------------------------------------------------------------------------------
#
# Which ranks softrank draws does not depend on the scores. So they are drawn first, and then the
# rows that have these ranks are looked up.


def _draw_ranks(n_candidates: int, n: int, preference: Preference, seed: int) -> np.ndarray:
    """Return n of the ranks 1, 2, ..., N, in the order of choice."""
    draw = _delayed(_best_ranks)
    starts = range(1, n_candidates + 1, _RANKS)
    parts = [
        draw(start, min(start + _RANKS, n_candidates + 1), n, preference, seed) for start in starts
    ]
    merge = partial(merge_best, n=n, preference=preference)
    chosen: BestRows = computed(merge_tree(parts, merge))[0]
    return chosen.rows


def _best_ranks(start: int, stop: int, n: int, preference: Preference, seed: int) -> BestRows:
    ranks = np.arange(start, stop)
    noise = gumbel_noise(seed, start, len(ranks))
    return BestRows.of(ranks, ranks.astype(np.float64), noise, ranks).best(n, preference)


def _rows_of_ranks(
    blocks: Sequence[Any], n_candidates: int, ranks: np.ndarray, seed: int
) -> np.ndarray:
    """Return the rows with these ranks, 1 for that of the largest score; ties in random order."""
    codes = [_delayed(_codes)(block) for block in blocks]
    in_order = [_delayed(np.sort)(x) for x in codes]
    codes, in_order = persisted(codes, in_order)  # every pass over the rows reads them
    code_of_rank = _order_statistics(in_order, n_candidates, n_candidates - ranks)
    wanted, n_of_each = np.unique(code_of_rank, return_counts=True)
    # Rows of one score are exchangeable: those that come first in a random order take its ranks.
    find, join = _delayed(_rows_with), partial(_joined_rows, n_of_each=n_of_each)
    parts = [
        find(block, own, wanted, n_of_each, seed) for block, own in zip(blocks, codes, strict=True)
    ]
    rows: _ScoredRows = computed(merge_tree(parts, join))[0]
    chosen = np.empty(len(ranks), np.int64)
    chosen[np.argsort(code_of_rank, kind="stable")] = rows.rows
    return chosen


def _codes(block: _ScoreBlock) -> np.ndarray:
    """Return the scores of the rows without a label as whole numbers in the same order."""
    return keys_of(block.candidate_scores())


def _order_statistics(in_order: Sequence[Any], n_codes: int, places: np.ndarray) -> np.ndarray:
    """Return the codes at some places of all codes in rising order, counted from 0.

    ``in_order`` are tasks that return the sorted codes of each block. Each round counts the codes
    up to some thresholds, and so narrows the interval in which the code of each place is.
    """
    count, collect = _delayed(_counts_up_to), _delayed(_codes_within)
    wanted, inverse = np.unique(places, return_inverse=True)
    # The code of a place is above low, of which and below which there are n_low codes, up to high.
    low, high = np.zeros_like(wanted, np.uint64), np.full_like(wanted, 2**64 - 1, np.uint64)
    n_low, n_high = np.zeros_like(wanted), np.full_like(wanted, n_codes)
    while (high - low > 1).any():
        intervals, where = np.unique(low, return_index=True)
        if (n_high - n_low)[where].sum() <= max(_FEW_SCORES, 8 * len(wanted)):
            ends = intervals, high[where]
            [some] = computed(merge_tree([collect(x, *ends) for x in in_order], np.concatenate))
            some = np.sort(some)
            high = some[np.searchsorted(some, low, "right") + wanted - n_low]
            break
        steps = max(2, _THRESHOLDS // len(intervals))
        step = (high[where] - intervals) // np.uint64(steps) + np.uint64(1)
        widths = np.minimum(
            step[:, None] * np.arange(1, steps, dtype=np.uint64), (high[where] - intervals)[:, None]
        )
        thresholds = np.concatenate([intervals[:, None] + widths, high[where][:, None]], axis=1)
        [counts] = computed(merge_tree([count(x, thresholds) for x in in_order], _sum))
        for u, (i, j) in enumerate(pairwise([*where, len(wanted)])):  # of the same interval
            first = np.searchsorted(counts[u], wanted[i:j], "right")
            rises, below = first > 0, np.maximum(first - 1, 0)
            low[i:j] = np.where(rises, thresholds[u, below], low[i:j])
            n_low[i:j] = np.where(rises, counts[u, below], n_low[i:j])
            high[i:j], n_high[i:j] = thresholds[u, first], counts[u, first]
    return np.asarray(high[inverse])


def _counts_up_to(codes: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return how many of the sorted codes are up to each threshold."""
    return np.searchsorted(codes, thresholds, "right")


def _sum(parts: Sequence[np.ndarray]) -> np.ndarray:
    return reduce(np.add, parts)


def _codes_within(codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the sorted codes that are in one of the intervals above low, up to high."""
    starts, stops = (np.searchsorted(codes, x, "right") for x in (low, high))
    parts = [codes[start:stop] for start, stop in zip(starts, stops, strict=True)]
    return np.concatenate(parts)


@dataclass(frozen=True)
class _ScoredRows:
    """Rows that have one of some scores, ordered by score and then at random."""

    which: np.ndarray  # which of the scores
    ties: np.ndarray
    rows: np.ndarray

    def first_of_each(self, n_of_each: np.ndarray) -> _ScoredRows:
        """Return the first rows of each score, as many as are needed of it."""
        order = np.lexsort((self.ties, self.which))
        which = self.which[order]
        place = np.arange(len(which)) - np.searchsorted(which, which)  # among those of its score
        order = order[place < n_of_each[which]]
        return _ScoredRows(self.which[order], self.ties[order], self.rows[order])


def _rows_with(
    block: _ScoreBlock, codes: np.ndarray, wanted: np.ndarray, n_of_each: np.ndarray, seed: int
) -> _ScoredRows:
    """Return the rows of a block that have one of the wanted codes."""
    which = np.minimum(np.searchsorted(wanted, codes), len(wanted) - 1)
    has_one = wanted[which] == codes
    ties = block.unlabelled(random_words(seed, TIES, block.first_row, block.scores.shape[0]))
    return _ScoredRows(which[has_one], ties[has_one], block.rows[has_one]).first_of_each(n_of_each)


def _joined_rows(parts: Sequence[_ScoredRows], n_of_each: np.ndarray) -> _ScoredRows:
    names = ("which", "ties", "rows")
    arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return _ScoredRows(*arrays).first_of_each(n_of_each)
