"""Metrics of many bootstrap resamples at once, from how often each row is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Resamples:
    """Bootstrap resamples of n rows, drawn with replacement."""

    n: int
    n_resamples: int
    rng: np.random.Generator

    def rows(self, batch_size: int) -> Iterator[np.ndarray]:
        """Yield the indices of drawn rows ``(B, n)``, of at most ``batch_size`` resamples."""
        for start in range(0, self.n_resamples, batch_size):
            n_resamples = min(batch_size, self.n_resamples - start)
            yield self.rng.integers(self.n, size=(n_resamples, self.n))

    def counts(self, batch_size: int) -> Iterator[np.ndarray]:
        """Yield how often each row is drawn, ``(B, n)``, in at most ``batch_size`` resamples."""
        for rows in self.rows(batch_size):
            yield np.stack([np.bincount(drawn, minlength=self.n) for drawn in rows])


class Metric(Protocol):
    """The metric of one measure, computed on resamples.

    The standard error of the metric is as uncertain as that of a mean of ``effective_rows`` rows.
    """

    effective_rows: float

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        """Return the metric (B,) of resamples, from how often each row is drawn, ``(B, n)``."""


@dataclass(frozen=True)
class Groups:
    """Rows in the order of a score, tied rows in one group."""

    order: np.ndarray
    starts: np.ndarray | None  # of the groups; None where no scores are tied

    @classmethod
    def of(cls, scores: np.ndarray) -> Groups:
        """Return the groups of scores, sorted once for all resamples."""
        order = np.argsort(scores, kind="stable")
        ranked = scores[order]
        starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
        return cls(order, None if len(starts) == len(order) else starts)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sums within groups of values ``(B, n)``, which are in the order of scores."""
        return values if self.starts is None else np.add.reduceat(values, self.starts, axis=1)


class ResampledAulc:
    """AULC of resamples; copies of a row count as tied.

    Within a group of c rows with summed loss s, after C rows with summed loss S, the sums of the
    first k losses are S + (k − C)·s/c on average. With H the harmonic numbers, the group adds
    (S − C·s/c)·(H(C+c) − H(C)) + s to n·AULC.
    """

    def __init__(self, losses: np.ndarray, scores: np.ndarray) -> None:
        self.effective_rows = len(losses) / 6  # the first accepted rows weigh most; by simulation
        self._groups = Groups.of(scores)
        self._losses = losses[self._groups.order]
        self._harmonic = np.r_[0.0, np.cumsum(1 / np.arange(1, len(losses) + 1))]

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        """Return the AULC (B,) of resamples, from how often each row is drawn, ``(B, n)``."""
        drawn = counts[:, self._groups.order]
        loss_sums = drawn * self._losses
        if self._groups.starts is None:
            mean = self._losses
        else:
            drawn, loss_sums = self._groups.sums(drawn), self._groups.sums(loss_sums)
            mean = loss_sums / np.maximum(drawn, 1)
        rows, loss = np.cumsum(drawn, axis=1), np.cumsum(loss_sums, axis=1)
        harmonic = self._harmonic[rows]
        growth = np.diff(harmonic, axis=1, prepend=0.0)
        # S and C are sums before the group: S − C·s/c = (S + s) − (C + c)·s/c
        total = np.einsum("bg,bg->b", loss - rows * mean, growth)
        return np.asarray((total + loss[:, -1]) / rows[:, -1])


def auroc_of_counts(c_in: np.ndarray, c_out: np.ndarray) -> np.ndarray:
    """Return the AUROC from the number of rows with each score, in rising order, ``(B, G)``."""
    up_to_in = np.cumsum(c_in, axis=1)
    pairs = np.einsum("bg,bg->b", c_out, up_to_in - c_in / 2)
    return np.asarray(pairs / (up_to_in[:, -1] * c_out.sum(axis=1)))


class ResampledAuroc:
    """AUROC of resamples of in-distribution rows, followed by out-of-distribution rows."""

    def __init__(self, n_in: int, scores: np.ndarray) -> None:
        self.effective_rows = min(n_in, len(scores) - n_in) / 2  # the smaller set; by simulation
        self._groups = Groups.of(scores)
        self._is_out = self._groups.order >= n_in

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        """Return the AUROC (B,) of resamples, from how often each row is drawn, ``(B, n)``."""
        drawn = counts[:, self._groups.order]
        c_out = self._groups.sums(drawn * self._is_out)
        c_in = self._groups.sums(drawn * ~self._is_out)
        return auroc_of_counts(c_in, c_out)
