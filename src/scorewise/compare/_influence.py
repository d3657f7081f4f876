"""Metrics of a measure of uncertainty, and the influence of every row on them.

The influence of a row is the derivative of the metric with respect to the weight of the row. With
random weights of mean and variance 1 instead of rows that are drawn again, a metric varies by the
weighted sum of the influences: a bootstrap that needs one pass over the rows.

Rows of equal scores are a group. A metric and its coefficients need the groups alone, and the
influence of a row follows from the coefficients of its group. Rows that do not fit one machine
therefore have the same formulas: their groups are merged, and their influences never meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scorewise._groups import LossGroups, SortedRows

_BLOCK = 1 << 16  # rows whose influences are reduced at a time


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


@dataclass(frozen=True, eq=False)
class AulcOfGroups:
    """The AULC of rows in groups, and the coefficients of the influences of their rows.

    With a group's coefficients a, b, d and mean loss m, a row of loss l has the influence
    (l·a + b − d·(l − m) − centre)/n.
    """

    value: float
    per_loss: np.ndarray
    others: np.ndarray
    own: np.ndarray
    mean: np.ndarray
    centre: float
    n_rows: int

    @classmethod
    def of(cls, groups: LossGroups) -> AulcOfGroups:
        """Return the AULC; the coefficients are the derivatives of the formula of the groups.

        Between whole numbers the harmonic numbers are H(x) = ψ(x + 1) + γ.
        """
        from scipy.special import zeta

        growth, excess, mean = groups.growth, groups.excess, groups.mean
        slope = zeta(2, groups.rows + 1.0)  # H′ after the group
        slope_before = np.r_[zeta(2, 1.0), slope[:-1]]
        # a row changes the sums before all later groups, and the mean and the size of its own
        per_loss = 1 + _sums_after(growth)
        others = _sums_after(excess * (slope - slope_before) - mean * growth) + excess * slope
        own = groups.rows_before * growth / groups.sizes
        summed = np.dot(groups.summed, per_loss) + np.dot(groups.sizes, others)
        n = groups.n_rows
        return cls(groups.aulc, per_loss, others, own, mean, float(summed) / n, n)

    @property
    def effective_rows(self) -> float:
        """As in :class:`Estimate`; the first rows weigh most; by simulation."""
        return self.n_rows / 6

    def influence(self, group: np.ndarray, losses: np.ndarray) -> np.ndarray:
        """Return the influences of rows, from their groups and losses."""
        influence = losses * self.per_loss[group] + self.others[group]
        influence -= self.own[group] * (losses - self.mean[group])
        return np.asarray((influence - self.centre) / self.n_rows)


@dataclass(frozen=True, eq=False)
class AurocOfGroups:
    """The AUROC of rows in groups, and the coefficients of the influences of their rows.

    The influence is that of DeLong: how many rows of the other set a row is on the right side of.
    """

    value: float
    of_in: np.ndarray
    of_out: np.ndarray
    effective_rows: float

    @classmethod
    def of(cls, c_in: np.ndarray, c_out: np.ndarray) -> AurocOfGroups:
        """Return the AUROC from the number of in-distribution and of OOD rows of each group."""
        n_in, n_out = int(c_in.sum()), int(c_out.sum())
        below = (np.cumsum(c_in) - c_in / 2) / n_in  # share of in-distribution rows below a group
        above = 1 - (np.cumsum(c_out) - c_out / 2) / n_out
        value = float(np.dot(c_out, below) / n_out)
        effective_rows = min(n_in, n_out) / 2  # the smaller set; by simulation
        return cls(value, (above - value) / n_in, (below - value) / n_out, effective_rows)

    def influence(self, group: np.ndarray, is_out: np.ndarray) -> np.ndarray:
        """Return the influences of rows, from their groups and whether they are OOD rows."""
        return np.asarray(np.where(is_out, self.of_out[group], self.of_in[group]))


def aulc(losses: np.ndarray, scores: np.ndarray) -> Estimate:
    """Return the AULC of scores and its influences; tied rows count as in random order."""
    rows = SortedRows.of(scores)
    metric = AulcOfGroups.of(LossGroups(rows.sizes, rows.sums(losses)))
    return Estimate(metric.value, metric.influence(rows.groups, losses), metric.effective_rows)


def auroc(n_in: int, scores: np.ndarray) -> Estimate:
    """Return the AUROC of ``n_in`` in-distribution rows and the OOD rows after them."""
    rows = SortedRows.of(scores)
    is_out = np.arange(len(scores)) >= n_in
    c_out = rows.sums(is_out.astype(np.int64))
    metric = AurocOfGroups.of(rows.sizes - c_out, c_out)
    return Estimate(metric.value, metric.influence(rows.groups, is_out), metric.effective_rows)


def _sums_after(values: np.ndarray) -> np.ndarray:
    """Return for each group the sum of the values of all later groups."""
    return np.append(np.cumsum(values[:0:-1])[::-1], 0.0)


def root_of_covariance(influences: np.ndarray) -> np.ndarray:
    """Return R with RᵀR the covariance of m metrics, from influences of rows (n, m).

    It is not computed from the covariance, which would lose half of the digits. The roots of parts
    of the rows, one below the other, have the same R as all rows together: the diagonal of R is not
    negative, so that neither the order nor the parts of the rows change it beyond rounding.
    """
    root = np.empty((0, influences.shape[1]))
    for start in range(0, len(influences), _BLOCK):
        block = np.concatenate([root, influences[start : start + _BLOCK]])
        root = np.asarray(np.linalg.qr(block, mode="r"))
    return root * np.where(np.diagonal(root) < 0, -1.0, 1.0)[:, None]
