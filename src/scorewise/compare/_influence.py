"""Metrics of a measure of uncertainty, and the influence of every row on them.

The influence of a row is the derivative of the metric with respect to the weight of the row. With
random weights of mean and variance 1 instead of rows that are drawn again, a metric varies by the
weighted sum of the influences: a bootstrap that needs one pass over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Estimate:
    """A metric on n rows.

    Attributes
    ----------
    value : float
    influence : array (n,)
        The change of the metric with the weight of each row, if the weights keep their sum. Its
        norm is the standard error.
    effective_rows : float
        The standard error is as uncertain as that of a mean of so many rows.
    """

    value: float
    influence: np.ndarray
    effective_rows: float


@dataclass(frozen=True)
class _Groups:
    """Rows in the order of a score, tied rows in one group."""

    order: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray) -> _Groups:
        order = np.argsort(scores)
        ranked = scores[order]
        starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
        return cls(order, starts, np.diff(starts, append=len(scores)))

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sums within groups of values ``(n,)``, which are in the order of scores."""
        return np.asarray(np.add.reduceat(values, self.starts))

    def by_row(self, values: np.ndarray) -> np.ndarray:
        """Return the value of each row's group, in the order of scores."""
        return np.repeat(values, self.sizes)

    def in_order_of_rows(self, ranked: np.ndarray) -> np.ndarray:
        """Return values in the order of the rows, from those in the order of scores."""
        values = np.empty_like(ranked)
        values[self.order] = ranked
        return values


def aulc(losses: np.ndarray, scores: np.ndarray) -> Estimate:
    """Return the AULC of scores and its influences; tied rows count as in random order.

    Within a group of c rows with summed loss s, after C rows with summed loss S, the sums of the
    first k losses are S + (k − C)·s/c on average. With H the harmonic numbers, the group adds
    (S − C·s/c)·(H(C + c) − H(C)) + s to n·AULC. The derivatives are those of this expression, with
    H(x) = ψ(x + 1) + γ between whole numbers.
    """
    from scipy.special import zeta

    n = len(losses)
    groups = _Groups.of(scores)
    loss = losses[groups.order]
    rows, summed = np.cumsum(groups.sizes), np.cumsum(groups.sums(loss))
    rows_before, summed_before = np.r_[0, rows[:-1]], np.r_[0.0, summed[:-1]]
    mean = groups.sums(loss) / groups.sizes
    excess = summed_before - rows_before * mean
    harmonic = np.cumsum(1 / np.arange(1, n + 1))[rows - 1]
    growth = np.diff(harmonic, prepend=0.0)
    slope = zeta(2, rows + 1.0)  # H′ after the group
    slope_before = np.r_[zeta(2, 1.0), slope[:-1]]
    value = (np.dot(excess, growth) + summed[-1]) / n

    # a row changes the sums before all later groups, and the mean and the size of its own
    per_loss = _sums_after(growth)
    others = _sums_after(excess * (slope - slope_before) - mean * growth) + excess * slope
    own = rows_before * growth / groups.sizes
    influence = loss * (1 + groups.by_row(per_loss)) + groups.by_row(others)
    influence -= groups.by_row(own) * (loss - groups.by_row(mean))
    influence = groups.in_order_of_rows(influence - influence.mean()) / n
    return Estimate(float(value), influence, n / 6)  # the first rows weigh most; by simulation


def _sums_after(values: np.ndarray) -> np.ndarray:
    """Return for each group the sum of the values of all later groups."""
    return np.append(np.cumsum(values[:0:-1])[::-1], 0.0)


def auroc(n_in: int, scores: np.ndarray) -> Estimate:
    """Return the AUROC of ``n_in`` in-distribution rows and the OOD rows after them.

    The influence is that of DeLong: how many rows of the other set a row is on the right side of.
    """
    n_out = len(scores) - n_in
    groups = _Groups.of(scores)
    is_out = groups.order >= n_in
    c_out = groups.sums(is_out.astype(np.int64))
    c_in = groups.sizes - c_out
    below = (np.cumsum(c_in) - c_in / 2) / n_in  # share of in-distribution rows below a group
    above = 1 - (np.cumsum(c_out) - c_out / 2) / n_out
    value = np.dot(c_out, below) / n_out
    influence = np.where(
        is_out, groups.by_row((below - value) / n_out), groups.by_row((above - value) / n_in)
    )
    # the smaller set; by simulation
    return Estimate(float(value), groups.in_order_of_rows(influence), min(n_in, n_out) / 2)
