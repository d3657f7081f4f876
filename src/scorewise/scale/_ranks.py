"""Mergeable histograms of scores, from which metrics and influences of all rows follow.

A histogram has a bin for each distinct score, as long as there are few of them: it is then exact.
Of more distinct scores, those that share all but their last bits are in one bin, and count as tied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scorewise import _validate as validate
from scorewise._groups import LossGroups, Moments
from scorewise.curves import Curve

N_BINS = 1 << 16

_SIGN = np.uint64(1 << 63)
_ALL = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """The rows with each score, or with scores that are nearly equal: their number and values.

    Use it for the rejection curve of rows that do not fit one machine: make a histogram of each
    part of the rows, and merge them.

    The bins of scores are the leading bits of float64 numbers, in an order that is that of the
    scores. As many last bits are dropped as leave at most ``n_bins`` bins, and no more. That number
    of bits depends on the set of all scores alone, not on how histograms were merged. Dropping more
    bits only joins bins, so a part of the scores never has more bins than all, and no part drops
    more bits than all need. Each merge drops the fewest bits that suffice for its scores.

    Attributes
    ----------
    n_bins : int
        The largest number of bins.
    dropped_bits : int
    lowest, highest : uint64 arrays (G,)
        Keys of the smallest and of the largest score in each bin, in rising order.
    moments : Moments
        Of c values of each row, ``(c, G)``.
    smallest, largest : arrays (c, G)
        The smallest and the largest of these values in each bin.

    Examples
    --------
    >>> from scorewise.scale import ScoreHistogram
    >>> parts = [([0.1, 0.3], [0, 1]), ([0.2, 0.9], [0, 1])]
    >>> first, second = (ScoreHistogram.of(u, losses) for u, losses in parts)
    >>> losses = ScoreHistogram.of([0, 1], [0, 1]).merge(ScoreHistogram.of([0, 1], [0, 1]))
    >>> first.merge(second).rejection_curve(losses)
    Curve(4 rows, loss 0.5, aulc 0.2083, augrc 0.1250, normalized_aulc 0.0000)
    """

    n_bins: int
    dropped_bits: int
    lowest: np.ndarray
    highest: np.ndarray
    moments: Moments
    smallest: np.ndarray
    largest: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, values: np.ndarray, n_bins: int = N_BINS) -> ScoreHistogram:
        """Return the histogram of the scores of some rows.

        Parameters
        ----------
        scores : array (n,)
            None of them is NaN.
        values : array (n,) or (c, n)
            Values of the same rows, such as their losses.
        n_bins : int
            The largest number of bins.

        Returns
        -------
        ScoreHistogram
        """
        n_bins = validate.whole(n_bins, "n_bins", at_least=2)
        keys = keys_of(scores)
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], np.atleast_2d(np.asarray(values, dtype=np.float64))[:, order]
        ones = np.ones(len(keys), dtype=np.int64)
        rows = Moments(ones, values, np.zeros_like(values))
        return cls(n_bins, 0, keys, keys, rows, values, values)._joined()

    def merge(self, *others: ScoreHistogram) -> ScoreHistogram:
        """Return the histogram of the rows of this one and of ``others``, in whatever order."""
        parts = [part for part in (self, *others) if len(part.lowest)] or [self]
        lowest = np.concatenate([part.lowest for part in parts])
        order = np.argsort(lowest, kind="stable")

        def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
            return np.concatenate(arrays, axis=-1)[..., order]

        return ScoreHistogram(
            self.n_bins,
            max(part.dropped_bits for part in parts),
            lowest[order],
            joined([part.highest for part in parts]),
            Moments(
                joined([part.moments.sizes for part in parts]),
                joined([part.moments.sums for part in parts]),
                joined([part.moments.squares for part in parts]),
            ),
            joined([part.smallest for part in parts]),
            joined([part.largest for part in parts]),
        )._joined()

    def _joined(self) -> ScoreHistogram:
        """Return the histogram with one entry per bin, and as few bits dropped as suffice."""
        if not len(self.lowest):
            return self
        # Two neighbours are in one bin if their highest differing bit is dropped. With b bits
        # dropped there is a bin more than there are neighbours that differ above these bits.
        differing = _bit_length(self.lowest[1:] ^ self.lowest[:-1])
        n_dropped = self.dropped_bits
        if np.count_nonzero(differing > n_dropped) >= self.n_bins:
            n_dropped = int(-np.partition(-differing, self.n_bins - 1)[self.n_bins - 1])
        starts = np.flatnonzero(np.r_[True, differing > n_dropped])
        return ScoreHistogram(
            self.n_bins,
            n_dropped,
            self.lowest[starts],
            np.maximum.reduceat(self.highest, starts),
            self.moments.merged(starts),
            np.minimum.reduceat(self.smallest, starts, axis=-1),
            np.maximum.reduceat(self.largest, starts, axis=-1),
        )

    def __len__(self) -> int:
        return len(self.lowest)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.sizes.sum())

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows in each bin."""
        return self.moments.sizes

    @cached_property
    def has_one_score(self) -> np.ndarray:
        """Whether all rows of a bin have the same score, so that they are truly tied."""
        return np.asarray(self.lowest == self.highest)

    @property
    def is_exact(self) -> bool:
        """Whether each bin has a single score."""
        return bool(self.has_one_score.all())

    @property
    def thresholds(self) -> np.ndarray:
        """The largest score in each bin."""
        return scores_of(self.highest)

    @cached_property
    def groups(self) -> LossGroups:
        """The bins as groups of rows, with the first of the values as their losses."""
        return LossGroups(self.sizes, self.moments.sums[0])

    def place(self, scores: np.ndarray) -> np.ndarray:
        """Return the bin of each of ``scores`` (n,), which must all be in the histogram."""
        return place(scores, self.lowest)

    def area_errors(self) -> tuple[float, float]:
        """Return the largest differences of AULC and AUGRC from those of the rows themselves."""
        tied, mean = self.has_one_score, self.groups.mean
        lowest = np.where(tied, mean, self.smallest[0])
        return self.groups.area_errors(lowest, np.where(tied, mean, self.largest[0]))

    def rejection_curve(self, losses: ScoreHistogram) -> Curve:
        """Return the rejection curve of all rows, with bounds of the errors of its areas.

        Parameters
        ----------
        losses : ScoreHistogram
            Of the losses of the same rows, with the losses as values too.

        Returns
        -------
        Curve
        """
        return Curve.of_groups(
            self.thresholds,
            self.groups,
            losses.largest[0],
            losses.groups,
            self.area_errors(),
            losses.area_errors(),
        )


def place(scores: np.ndarray, lowest: np.ndarray) -> np.ndarray:
    """Return the bin of each score (n,), from the keys of the smallest score in each bin."""
    return np.asarray(np.searchsorted(lowest, keys_of(scores), side="right") - 1)


def keys_of(scores: np.ndarray) -> np.ndarray:
    """Return unsigned integers in the order of the scores; equal for −0 and 0."""
    bits = (np.asarray(scores, dtype=np.float64) + 0.0).view(np.uint64)
    return np.asarray(np.where(bits & _SIGN, bits ^ _ALL, bits | _SIGN))


def scores_of(keys: np.ndarray) -> np.ndarray:
    """Return the scores of keys."""
    return np.asarray(np.where(keys & _SIGN, keys ^ _SIGN, keys ^ _ALL).view(np.float64))


def _bit_length(x: np.ndarray) -> np.ndarray:
    """Return the number of bits of unsigned integers, 0 for 0."""
    halves = (x >> np.uint64(32), x & np.uint64(2**32 - 1))  # floats hold each of them exactly
    upper, lower = (np.frexp(half.astype(np.float64))[1] for half in halves)
    return np.asarray(np.where(upper > 0, upper + 32, lower))
