"""Rejection curves and their areas, from losses and scores; they depend on no scoring rule."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._groups import LossGroups
from scorewise._notebook import display, frame, html
from scorewise.errors import InvalidInput

__all__ = ["Curve", "augrc", "aulc", "rejection_curve"]

_AREAS = ("aulc", "augrc", "normalized_aulc")
_ROUNDING = 1e-12  # 0.3 * 10 is 3 rows, not 4, and losses of 0.1 have the mean 0.1


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean losses of accepted rows at every coverage; made by :func:`scorewise.rejection_curve`.

    Attributes
    ----------
    threshold : array (n,)
        The uncertainties in rising order: accepting up to ``threshold[k - 1]`` accepts k rows (or
        more, where rows are tied).
    total_loss : array (n,)
        Summed loss of the k most certain rows, an expected value where rows are tied.
    ranked_losses : array (n,)
        The losses in rising order, as an oracle would accept the rows.
    n_accepted : array (n,)
        The numbers k = 1, 2, …, n of accepted rows at which the curve is known.
    aulc_error, augrc_error : float
        By how much the areas can differ from those of the rows themselves: 0, or above 0 where
        rows of nearly equal uncertainty were counted together.
    oracle_errors : (float, float)
        The same for ``oracle_aulc`` and ``oracle_augrc``.
    groups, ranked_groups : LossGroups or None
        The groups of rows from which the curve was made, by uncertainty and by loss; None for a
        curve that was made from rows.

    Notes
    -----
    A curve of more rows than fit one machine has fewer points. Its rows are in groups of equal or
    nearly equal uncertainty: ``n_accepted``, ``threshold`` and ``total_loss`` are those at the ends
    of the groups, and in between the total loss is linear. ``len(curve)`` is the number of rows.

    Examples
    --------
    >>> import scorewise as sw
    >>> curve = sw.rejection_curve([0, 1, 0, 1], [0.1, 0.4, 0.2, 0.3])
    >>> curve
    Curve(4 rows, loss 0.5, aulc 0.2083, augrc 0.1250, normalized_aulc 0.0000)
    >>> curve.coverage, curve.loss.round(2)
    (array([0.25, 0.5 , 0.75, 1.  ]), array([0.  , 0.  , 0.33, 0.5 ]))
    >>> curve.coverage_at(0.4), curve.loss_at(0.5)
    (0.75, 0.0)
    """

    threshold: np.ndarray
    total_loss: np.ndarray
    ranked_losses: np.ndarray
    groups: LossGroups | None = field(default=None, repr=False)
    ranked_groups: LossGroups | None = field(default=None, repr=False)
    aulc_error: float = 0.0
    augrc_error: float = 0.0
    oracle_errors: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    @classmethod
    def of_groups(
        cls,
        threshold: np.ndarray,
        groups: LossGroups,
        ranked_losses: np.ndarray,
        ranked_groups: LossGroups,
        errors: tuple[float, float] = (0.0, 0.0),
        oracle_errors: tuple[float, float] = (0.0, 0.0),
    ) -> Curve:
        """Return the curve of rows in groups of equal or nearly equal uncertainty.

        Parameters
        ----------
        threshold : array (G,)
            The largest uncertainty of each group, rising.
        groups : LossGroups
            Sizes and summed losses of these groups.
        ranked_losses : array (H,)
            The largest loss of each group of equal or nearly equal losses, rising.
        ranked_groups : LossGroups
            Sizes and summed losses of those groups.
        errors, oracle_errors : (float, float)
            The largest errors of AULC and AUGRC, and of those of the best possible order.
        """
        return cls(
            threshold,
            groups.losses,
            ranked_losses,
            groups,
            ranked_groups,
            *errors,
            oracle_errors=oracle_errors,
        )

    def __repr__(self) -> str:
        rows, *numbers = self._numbers().items()
        return f"Curve({rows[1]} rows, {', '.join(' '.join(pair) for pair in numbers)})"

    def _repr_html_(self) -> str:
        numbers = self._numbers()
        return html([[*numbers], [*numbers.values()]], n_names=0)

    def _numbers(self) -> dict[str, str]:
        """The numbers that are shown, by name."""
        areas = {name: f"{getattr(self, name):.4f}" for name in _AREAS}
        return {"rows": str(len(self)), "loss": f"{self.loss[-1]:.4g}", **areas}

    def to_frame(self, library: str | None = None) -> Any:
        """Return a data frame with the columns coverage, threshold and loss.

        Parameters
        ----------
        library : "pandas" or "polars", optional
            By default pandas, or polars where pandas is not installed.

        Raises
        ------
        ImportError
            Without pandas and polars.

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.rejection_curve([0, 1, 0, 1], [0.1, 0.4, 0.2, 0.3]).to_frame().tail(2)
           coverage  threshold      loss
        2      0.75        0.3  0.333333
        3      1.00        0.4  0.500000
        """
        columns = {"coverage": self.coverage, "threshold": self.threshold, "loss": self.loss}
        return frame(columns, library)

    def plot(
        self, ax: Any = None, *, name: str = "uncertainty", loss_name: Any = "loss", **options: Any
    ) -> Any:
        """Draw the curve, and return the display.

        To draw several curves, pass them to :class:`scorewise.plots.RejectionCurveDisplay`.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.
        name : str
            Name of the measure in the legend.
        loss_name : str or Unit
            Name of the loss on the axis; the ``unit`` of a rule has one.
        **options
            Those of :meth:`scorewise.plots.RejectionCurveDisplay.plot`: ``view``, ….

        Returns
        -------
        scorewise.plots.RejectionCurveDisplay

        Examples
        --------
        >>> import scorewise as sw
        >>> from matplotlib.figure import Figure
        >>> curve = sw.rejection_curve([0, 1, 0, 1], [0.1, 0.4, 0.2, 0.3])
        >>> curve.plot(Figure().subplots(), view="accuracy").ax_.get_ylabel()
        'accuracy of accepted predictions'
        """
        return display("RejectionCurveDisplay", {name: self}, loss_name).plot(ax, **options)

    def __len__(self) -> int:
        return len(self.total_loss) if self.groups is None else self.groups.n_rows

    @cached_property
    def n_accepted(self) -> np.ndarray:
        """The numbers of accepted rows at which the curve is known: all, or the ends of groups."""
        return np.arange(1, len(self) + 1) if self.groups is None else self.groups.rows

    def total_loss_of(self, k: Any) -> np.ndarray:
        """Return the summed loss of the ``k`` most certain rows, for numbers from 1 to n."""
        k = np.asarray(k)
        return (
            np.asarray(self.total_loss[k - 1]) if self.groups is None else self.groups.total_loss(k)
        )

    def threshold_of(self, k: Any) -> np.ndarray:
        """Return the smallest thresholds that accept at least ``k`` rows."""
        return np.asarray(self.threshold[np.searchsorted(self.n_accepted, k)])

    def accepted_by_threshold(self, k: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the thresholds that accept ``k`` rows or more, and how many each accepts."""
        thresholds = self.threshold_of(k)
        last = np.searchsorted(self.threshold, thresholds, side="right") - 1
        return thresholds, self.n_accepted[last]

    @cached_property
    def oracle(self) -> Curve:
        """The curve of the best possible order; its thresholds are the losses themselves."""
        groups = self.ranked_groups
        total_loss = np.cumsum(self.ranked_losses) if groups is None else groups.losses
        ranked = self.ranked_losses
        return Curve(ranked, total_loss, ranked, groups, groups, *self.oracle_errors)

    @property
    def oracle_total_loss(self) -> np.ndarray:
        """Summed loss of the rows with the smallest losses."""
        return self.oracle.total_loss

    @cached_property
    def random(self) -> Curve:
        """The curve of a random order: all rows are tied."""
        k = self.n_accepted
        if self.groups is None:
            return replace(self, total_loss=self.coverage * self.total_loss[-1])
        groups = LossGroups(k[-1:], self.total_loss[-1:])
        return Curve.of_groups(
            self.threshold[-1:], groups, self.ranked_losses, self.ranked_groups or groups
        )

    def has_losses_of(self, other: Curve) -> bool:
        """Return whether the rows of the curve ``other`` have the same losses, in any order."""
        mine, others = self.ranked_losses, other.ranked_losses
        return len(self) == len(other) and len(mine) == len(others) and np.allclose(mine, others)

    @property
    def stable_coverage(self) -> float:
        """The smallest coverage whose mean loss is not mostly noise: 10 rows, and 2 %."""
        return min(1.0, max(10 / len(self), 0.02))

    @cached_property
    def coverage(self) -> np.ndarray:
        """Proportion of the rows that is accepted, k/n."""
        return self.n_accepted / len(self)

    @property
    def rejection(self) -> np.ndarray:
        """Proportion of the rows that is rejected, 1 − k/n."""
        return np.asarray((len(self) - self.n_accepted) / len(self))

    @cached_property
    def loss(self) -> np.ndarray:
        """Mean loss of the accepted rows."""
        return np.asarray(self.total_loss / self.n_accepted)

    @property
    def generalized_loss(self) -> np.ndarray:
        """Summed loss of the accepted rows over the number of all rows.

        AUGRC is the area under this curve, drawn from 0 at a coverage of 0.
        """
        return self.total_loss / len(self)

    @property
    def accuracy(self) -> np.ndarray:
        """1 − loss: the proportion of accepted rows that is right, where losses are 0 or 1."""
        self.require_binary_losses()
        return 1 - self.loss

    def require_binary_losses(self) -> None:
        """Raise if there is a loss that is neither 0 nor 1."""
        if not np.all((self.ranked_losses == 0) | (self.ranked_losses == 1)):
            raise InvalidInput("accuracy is defined only for losses of 0 or 1")

    @cached_property
    def aulc(self) -> float:
        """Area under the loss-rejection curve: the mean of ``loss``."""
        return float(np.mean(self.loss)) if self.groups is None else self.groups.aulc

    @cached_property
    def augrc(self) -> float:
        """Area under the generalised risk-coverage curve; see :func:`scorewise.augrc`."""
        if self.groups is not None:
            return self.groups.augrc
        n = len(self)  # straight lines from (0, 0)
        return float(np.mean(self.total_loss) - self.total_loss[-1] / (2 * n)) / n

    @property
    def oracle_aulc(self) -> float:
        """The least AULC that any order of these losses has."""
        return self.oracle.aulc

    @property
    def random_aulc(self) -> float:
        """The AULC of a random order: the mean loss."""
        return float(self.total_loss[-1]) / len(self)

    @property
    def oracle_augrc(self) -> float:
        """The least AUGRC that any order of these losses has."""
        return self.oracle.augrc

    @property
    def random_augrc(self) -> float:
        """The AUGRC of a random order: half the mean loss."""
        return self.random_aulc / 2

    @property
    def eaulc(self) -> float:
        """AULC − oracle, elsewhere called E-AURC: what a better order could save."""
        return self.aulc - self.oracle_aulc

    @property
    def normalized_aulc(self) -> float:
        """(AULC − oracle)/(random − oracle): 0 is the best order, 1 a random order.

        0 if all losses are equal, as all orders are then equally good.
        """
        return self._normalized(self.aulc, self.oracle_aulc, self.random_aulc)

    @property
    def normalized_augrc(self) -> float:
        """(AUGRC − oracle)/(random − oracle), as :attr:`normalized_aulc`."""
        return self._normalized(self.augrc, self.oracle_augrc, self.random_augrc)

    def _normalized(self, area: float, oracle: float, random: float) -> float:
        if self.ranked_losses[0] == self.ranked_losses[-1]:
            return 0.0
        return (area - oracle) / (random - oracle)

    def coverage_at(self, max_loss: float) -> float:
        """Return the largest coverage with a mean loss of at most ``max_loss``.

        0 if there is none. It describes these rows; for a guarantee about new rows see
        :func:`scorewise.certify_threshold`.
        """
        max_loss = validate.number(max_loss, "max_loss")
        rounding = max(_ROUNDING, len(self) * float(np.finfo(float).eps))
        limit = max_loss + rounding * abs(max_loss)
        within = np.flatnonzero(self.loss <= limit)
        if self.groups is None:
            return float(within[-1] + 1) / len(self) if len(within) else 0.0
        # part of the group after them, in which the mean loss rises without a step
        before = int(within[-1]) if len(within) else -1
        accepted = int(self.n_accepted[before]) if len(within) else 0
        if accepted and accepted < len(self):
            rise = float(self.groups.mean[before + 1]) - limit
            more = int((limit * accepted - float(self.total_loss[before])) / rise + _ROUNDING)
            accepted += min(max(more, 0), int(self.groups.sizes[before + 1]))
        return accepted / len(self)

    def loss_at(self, coverage: float) -> float:
        """Return the mean loss when at least this proportion of the rows is accepted.

        Parameters
        ----------
        coverage : float
            Above 0 and at most 1.

        Returns
        -------
        float

        Raises
        ------
        InvalidInput
            If the coverage is no such number.

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.rejection_curve([0, 1, 0, 1], [0.1, 0.4, 0.2, 0.3]).loss_at(0.5)
        0.0
        """
        coverage = validate.number(coverage, "coverage")
        if not 0 < coverage <= 1:
            raise InvalidInput(f"coverage is {coverage}; it must be above 0 and at most 1")
        k = max(1, int(np.ceil(coverage * len(self) * (1 - _ROUNDING))))
        return float(self.total_loss_of(k)) / k


def rejection_curve(losses: Any, uncertainty: Any) -> Curve:
    """Return the mean loss of the accepted rows at every coverage k/n, the most certain first.

    Use it to see how much abstaining lowers the loss. Tied uncertainties count as their expected
    value over random orders, so the order of the rows never matters. O(n log n).

    Parameters
    ----------
    losses : array (n,)
        The loss that each prediction incurred, finite, such as
        ``sw.task_losses(probs, y, "zero-one")``.
    uncertainty : array (n,)
        The score that orders the rows; the least uncertain are accepted first.

    Returns
    -------
    Curve
        With ``coverage``, ``loss``, ``aulc``, ``augrc``, ``oracle_aulc``, ``random_aulc``,
        ``normalized_aulc``, ``eaulc``, ``coverage_at(max_loss)``, ``loss_at(coverage)``.

    Raises
    ------
    InvalidInput
        If the two differ in length, are empty, or hold NaN, or a loss is infinite.

    Examples
    --------
    >>> import scorewise as sw
    >>> curve = sw.rejection_curve([0, 0, 1, 1], [0.1, 0.2, 0.2, 0.9])
    >>> curve.loss.round(3)
    array([0.   , 0.25 , 0.333, 0.5  ])
    >>> round(curve.aulc, 4), round(curve.normalized_aulc, 4)
    (0.2708, 0.2143)
    """
    loss, score = validate.losses_and_scores(losses, uncertainty, "uncertainty")
    order = np.argsort(score)
    threshold = score[order]
    return Curve(threshold, _expected_sums(loss[order], threshold), np.sort(loss))


def _expected_sums(loss: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Return sums of the first k losses, linear along ties: their mean over random orders."""
    sums = np.cumsum(loss)
    ends = np.flatnonzero(score[1:] != score[:-1]) + 1
    if len(ends) == len(score) - 1:
        return sums
    knots = np.r_[0, ends, len(score)]
    return np.interp(np.arange(1, len(score) + 1), knots, np.r_[0, sums[knots[1:] - 1]])


def aulc(losses: Any, uncertainty: Any) -> float:
    """Return the area under the loss-rejection curve: the mean of its losses over all coverages.

    Use it to compare measures for abstaining: lower is better, and the total uncertainty of the
    loss itself is the best order (Proposition 4.1 of the paper).

    AULC = (1/n) Σ_{k=1..n} (1/k) Σ_{j≤k} loss_π(j), the most certain first. Tied uncertainties
    count as their expected value over random orders, so the order of the rows never matters. For
    distinct uncertainties it is Geifman and El-Yaniv's AURC; libraries that use the trapezoidal
    rule differ from it by terms of size 1/n.

    Parameters
    ----------
    losses, uncertainty : arrays (n,)
        As for :func:`rejection_curve`, which raises the same errors.

    Returns
    -------
    float

    Examples
    --------
    >>> import scorewise as sw
    >>> round(sw.aulc([0, 0, 1], [0.1, 0.2, 0.9]), 4)
    0.1111
    >>> round(sw.aulc([0, 0, 1], [0.5, 0.5, 0.5]), 4)
    0.3333
    """
    return rejection_curve(losses, uncertainty).aulc


def augrc(losses: Any, uncertainty: Any) -> float:
    """Return the area under the generalised risk-coverage curve of Traub et al. (2024).

    Use it where a rejected row costs nothing and the scale should be that of the whole set: for
    0/1 losses it is the chance that a random row is wrong and accepted at a random coverage.

    AUGRC = (1/n²) Σ_{k=1..n} [Σ_{j≤k} loss_π(j) − loss_π(k)/2]: the trapezoidal rule, from 0 at a
    coverage of 0. For 0/1 losses it equals (1 − AUROC)·acc·(1 − acc) + (1 − acc)²/2, with the
    accuracy acc and the AUROC of uncertainty as a detector of errors.

    Parameters
    ----------
    losses, uncertainty : arrays (n,)
        As for :func:`rejection_curve`, which raises the same errors.

    Returns
    -------
    float

    Examples
    --------
    >>> import scorewise as sw
    >>> round(sw.augrc([0, 0, 1], [0.1, 0.2, 0.9]), 4)
    0.0556
    """
    return rejection_curve(losses, uncertainty).augrc
