"""Rows in groups of equal scores: the areas that depend on sizes and summed losses alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scorewise._numerics import digamma_rise


@dataclass(frozen=True, eq=False)
class LossGroups:
    """Groups of rows, in the order in which they are accepted; rows of a group in random order.

    Attributes
    ----------
    sizes : integer array (G,)
        Number of rows of each group, at least 1.
    summed : array (G,)
        Their summed losses.
    """

    sizes: np.ndarray
    summed: np.ndarray

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.rows[-1])

    @cached_property
    def rows(self) -> np.ndarray:
        """The number of rows up to each group."""
        return np.asarray(np.cumsum(self.sizes))

    @property
    def rows_before(self) -> np.ndarray:
        """The number of rows before each group."""
        return np.asarray(self.rows - self.sizes)

    @cached_property
    def losses(self) -> np.ndarray:
        """The summed losses of all rows up to each group."""
        return np.asarray(np.cumsum(self.summed))

    @property
    def losses_before(self) -> np.ndarray:
        """The summed losses of all rows before each group."""
        return np.asarray(np.r_[0.0, self.losses[:-1]])

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean loss of each group."""
        return np.asarray(self.summed / self.sizes)

    @cached_property
    def excess(self) -> np.ndarray:
        """Losses before each group, less those of as many rows with the mean loss of the group."""
        return np.asarray(self.losses_before - self.rows_before * self.mean)

    @cached_property
    def growth(self) -> np.ndarray:
        """H(C + c) − H(C), with the harmonic numbers H, of a group of c rows after C rows."""
        growth, larger = 1 / self.rows, self.sizes > 1
        before = self.rows_before[larger].astype(float)
        growth[larger] = digamma_rise(np, before, self.sizes[larger])
        return np.asarray(growth)

    @property
    def aulc(self) -> float:
        """The area under the loss-rejection curve.

        Within a group of c rows with summed loss s, after C rows with summed loss S, the sums of
        the first k losses are S + (k − C)·s/c on average. The group therefore adds
        (S − C·s/c)·(H(C + c) − H(C)) + s to n·AULC.
        """
        return float((np.dot(self.excess, self.growth) + self.losses[-1]) / self.n_rows)

    @property
    def augrc(self) -> float:
        """The area under the generalised risk-coverage curve."""
        sums = self.sizes * self.losses_before + self.summed * (self.sizes + 1) / 2
        return float(np.sum(sums) - self.losses[-1] / 2) / self.n_rows**2

    def total_loss(self, k: np.ndarray) -> np.ndarray:
        """Return the summed loss of the first k rows, linear within groups."""
        return np.asarray(np.interp(k, np.r_[0, self.rows], np.r_[0.0, self.losses]))

    def area_errors(self, lowest: np.ndarray, highest: np.ndarray) -> tuple[float, float]:
        """Return by how much AULC and AUGRC can differ from those of the best and worst orders.

        The sum of the first j of c losses between ``lowest`` l and ``highest`` h, with the sum s,
        is at least max(j·l, s − (c − j)·h) and at most min(j·h, s − (c − j)·l). Losses of 0 and 1
        reach both. A group whose rows are in random order has lowest and highest equal to its mean.

        Parameters
        ----------
        lowest, highest : arrays (G,)
            The smallest and the largest loss of each group.
        """
        n, c, s = self.n_rows, self.sizes, self.summed
        width = np.where(highest > lowest, highest - lowest, 1.0)
        n_lowest = np.clip(np.floor((c * highest - s) / width), 0, c)  # l first, h after them
        n_highest = np.clip(np.floor((s - c * lowest) / width), 0, c)  # h first, l after them
        deviations = []
        for j, first, last in ((n_lowest, lowest, highest), (n_highest, highest, lowest)):
            after = c - j
            # up to the j-th row: i·first; from there on: s − (c − i)·last; each less i·s/c
            rises, offset = (first - self.mean, last - self.mean), s - c * last
            before = self.rows_before.astype(float)
            first_growth = digamma_rise(np, before, j)
            last_growth = digamma_rise(np, before + j, after)
            in_mean = (
                rises[0] * (j - before * first_growth)
                + rises[1] * (after - (before) * last_growth)
                + offset * last_growth
            )
            in_sum = (
                rises[0] * j * (j + 1) / 2
                + rises[1] * (c * (c + 1) - j * (j + 1)) / 2
                + offset * after
            )
            varies = highest > lowest
            deviations.append(
                (abs(float(np.sum(in_mean[varies]))) / n, abs(float(np.sum(in_sum[varies]))) / n**2)
            )
        (aulc_best, augrc_best), (aulc_worst, augrc_worst) = deviations
        return max(aulc_best, aulc_worst), max(augrc_best, augrc_worst)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sizes, sums, and summed squares about the mean, of values in G groups.

    Attributes
    ----------
    sizes : integer array (G,)
    sums : array (..., G)
    squares : array (..., G)
        Sums of (value − mean of the group)².
    """

    sizes: np.ndarray
    sums: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, starts: np.ndarray) -> Moments:
        """Return the moments of values ``(..., n)`` in groups that begin at ``starts``."""
        ones = np.ones(values.shape[-1], dtype=np.int64)
        return cls(ones, values, np.zeros_like(values)).merged(starts)

    @property
    def mean(self) -> np.ndarray:
        """The mean of each group."""
        return np.asarray(self.sums / self.sizes)

    @property
    def error_of_mean(self) -> np.ndarray:
        """The standard error of each mean; NaN for a single value."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.sqrt(self.squares / (self.sizes - 1) / self.sizes))

    def merged(self, starts: np.ndarray) -> Moments:
        """Return the moments of larger groups, each of the groups from a start to the next."""
        if len(starts) == len(self.sizes):
            return self
        sizes = np.add.reduceat(self.sizes, starts)
        sums = np.add.reduceat(self.sums, starts, axis=-1)
        n_parts = np.diff(starts, append=len(self.sizes))
        shifts = self.mean - np.repeat(sums / sizes, n_parts, axis=-1)
        squares = np.add.reduceat(self.squares + self.sizes * shifts**2, starts, axis=-1)
        return Moments(sizes, sums, squares)


@dataclass(frozen=True, eq=False)
class SortedRows:
    """Rows in the order of a score, tied rows in one group."""

    order: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray) -> SortedRows:
        """Return the order of the scores, and its groups."""
        order = np.argsort(scores)
        ranked = scores[order]
        starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
        return cls(order, starts, np.diff(starts, append=len(scores)))

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sums within groups of values ``(n,)``, which are in the order of the rows."""
        return np.asarray(np.add.reduceat(values[self.order], self.starts))

    @property
    def groups(self) -> np.ndarray:
        """The group of each row ``(n,)``, in the order of the rows."""
        groups = np.empty(len(self.order), dtype=np.intp)
        groups[self.order] = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return groups
