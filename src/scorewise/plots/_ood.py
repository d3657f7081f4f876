"""Uncertainty in and out of distribution, and how well a threshold separates the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from scorewise import _validate as validate
from scorewise._numerics import evenly_spaced
from scorewise._text import percent, shorten
from scorewise.detect import OODMetrics, ood_metrics
from scorewise.plots.style import (
    BLUE,
    GREY,
    VERMILION,
    Axes,
    Figure,
    add_legend,
    axes_for,
    despine,
    percent_axis,
)

_FEWEST_BINS, _MOST_BINS = 5, 40
_TRUE_POSITIVE_RATE = 0.95  # at which the rate of false alarms is marked


@dataclass(frozen=True, eq=False)
class OODHistogram:
    """Histograms of two sets of scores over the same bins; see :meth:`OODDisplay.histogram`.

    Attributes
    ----------
    edges : array (B + 1,)
    shares_in, shares_out : arrays (B,)
        Share of each set's scores in each bin.
    has_zeros : bool
        Whether the first bin is only for scores of exactly 0; the second is then an empty gap.
    """

    edges: np.ndarray
    shares_in: np.ndarray
    shares_out: np.ndarray
    has_zeros: bool


class OODDisplay:
    """Histograms of in- and out-of-distribution scores, and the ROC curve.

    Use it to see whether out-of-distribution (OOD) rows are more uncertain, and how many false
    alarms their detection causes.

    Parameters
    ----------
    u_in : array (n,)
        Uncertainties of in-distribution rows; finite.
    u_out : array (m,)
        Uncertainties of out-of-distribution rows; finite.
    metrics : OODMetrics, optional
        Metrics of the same scores, or of all rows if the scores are a sample of them; by default
        they are computed.
    score_name : str
        Name of the scores on the axis.

    Attributes
    ----------
    u_in, u_out : arrays
    metrics : OODMetrics
    fpr, tpr : arrays
        The ROC curve: a vertex per distinct score, from (0, 0) to (1, 1).
    axes_, figure_
        The two Axes and the Figure that were drawn on, once ``plot`` was called.
    histograms_ : dict of str to StepPatch
        ``"in"`` and ``"out"``.
    lines_ : dict of str to Line2D
        ``"roc"``, ``"chance"`` and ``"fpr95"``.

    Raises
    ------
    InvalidInput
        If ``u_in`` or ``u_out`` is empty or not finite.

    Examples
    --------
    >>> import scorewise as sw
    >>> from matplotlib.figure import Figure
    >>> display = sw.plots.OODDisplay.from_scores([0.1, 0.2, 0.2, 0.4], [0.2, 0.5, 0.9, 0.7])
    >>> display.fpr, display.tpr
    (array([0.  , 0.  , 0.  , 0.  , 0.25, 0.75, 1.  ]),
     array([0.  , 0.25, 0.5 , 0.75, 0.75, 1.  , 1.  ]))
    >>> display.plot(Figure().subplots(1, 2)).axes_[1].get_ylabel()
    'share of OOD rows detected'
    """

    axes_: tuple[Axes, Axes]
    figure_: Figure
    histograms_: dict[str, Any]
    lines_: dict[str, Any]

    def __init__(
        self,
        u_in: Any,
        u_out: Any,
        metrics: OODMetrics | None = None,
        score_name: str = "uncertainty",
    ) -> None:
        self.u_in, self.u_out = validate.finite(u_in, "u_in"), validate.finite(u_out, "u_out")
        self.metrics = ood_metrics(self.u_in, self.u_out) if metrics is None else metrics
        self.score_name = score_name
        self.fpr, self.tpr = _roc(self.u_in, self.u_out)

    @classmethod
    def from_scores(
        cls, u_in: Any, u_out: Any, confidence: float = 0.95, score_name: str = "uncertainty"
    ) -> Self:
        """Return the display of scores, with an interval of the AUROC.

        Parameters
        ----------
        u_in, u_out : arrays (n,) and (m,)
            Uncertainties of in- and of out-of-distribution rows; finite.
        confidence : float
            Confidence of the interval.
        score_name : str
            Name of the scores on the axis.

        Returns
        -------
        OODDisplay

        Raises
        ------
        InvalidInput
            If ``u_in`` or ``u_out`` is empty or not finite.
        """
        u_in, u_out = validate.finite(u_in, "u_in"), validate.finite(u_out, "u_out")
        return cls(u_in, u_out, ood_metrics(u_in, u_out, confidence), score_name)

    def plot(self, axes: Sequence[Axes] | None = None, bins: int | None = None) -> Self:
        """Draw the histograms on the first Axes and the ROC curve on the second.

        Parameters
        ----------
        axes : two Axes, optional
            Axes to draw on; by default those of a new figure.
        bins : int, optional
            Number of bins, shared by both histograms; by default 5 to 40.

        Returns
        -------
        OODDisplay
            This display.
        """
        if bins is not None:
            bins = validate.whole(bins, "bins", at_least=1)
        self.figure_, (left, right) = axes_for(axes, (9.2, 4.2), n=2)
        self.axes_ = (left, right)
        self._plot_histograms(left, bins)
        self._plot_roc(right)
        return self

    def histogram(self, bins: int | None = None) -> OODHistogram:
        """Return the histograms of both sets over shared bins.

        Epistemic uncertainty is often exactly 0. Where 0 is the smallest score and occurs more than
        once, the zeros have a separate bin.

        Parameters
        ----------
        bins : int, optional
            Number of bins, without that of the zeros; by default 5 to 40.

        Returns
        -------
        OODHistogram
            With the attributes ``edges`` (B + 1,), ``shares_in`` and ``shares_out`` (B,), and
            ``has_zeros``: whether the first bin is only for scores of exactly 0.
        """
        edges, has_zeros = _edges(self.u_in, self.u_out, bins)
        shares_in, shares_out = (
            _shares(scores, edges, has_zeros) for scores in (self.u_in, self.u_out)
        )
        return OODHistogram(edges, shares_in, shares_out, has_zeros)

    def _plot_histograms(self, ax: Axes, bins: int | None) -> None:
        histogram = self.histogram(bins)
        edges, has_zeros = histogram.edges, histogram.has_zeros
        looks: dict[str, dict[str, Any]] = {
            "in": {"facecolor": (BLUE, 0.45), "edgecolor": BLUE},
            "out": {"facecolor": "none", "edgecolor": VERMILION, "hatch": "////"},
        }
        names = {"in": "in-distribution", "out": "out-of-distribution"}
        self.histograms_, labels = {}, []
        for key, n_rows, shares in (
            ("in", self.metrics.n_in, histogram.shares_in),
            ("out", self.metrics.n_out, histogram.shares_out),
        ):
            self.histograms_[key] = ax.stairs(shares, edges, fill=True, linewidth=1.4, **looks[key])
            zeros = f", {percent(shares[0], '.1f')} exactly 0" if has_zeros else ""
            labels.append(f"{names[key]}: {n_rows:,} rows{zeros}")
        top = max(float(np.max(patch.get_data().values)) for patch in self.histograms_.values())
        ax.set_ylim(0, top * 1.25)  # room for the legend
        percent_axis(ax.yaxis)
        if has_zeros:
            ticks = [x for x in ax.get_xticks() if edges[2] < x <= edges[-1]]
            tick_labels = ["exactly\n0", *(f"{x:g}" for x in ticks)]
            ax.set_xticks([float(np.mean(edges[:2])), *ticks], tick_labels)
        ax.set_xlabel(shorten(self.score_name), parse_math=False)
        ax.set_ylabel("share of rows per bin")
        ax.set_title("Uncertainty in and out of distribution")
        despine(ax)
        add_legend(
            ax,
            list(self.histograms_.values()),
            labels,
            loc="upper center",
            fontsize="small",
            frameon=False,
        )

    def _plot_roc(self, ax: Axes) -> None:
        vertices = evenly_spaced(len(self.fpr))
        corner = int(np.argmax(self.tpr >= _TRUE_POSITIVE_RATE * (1 - 1e-12)))
        fpr95, tpr95 = self.metrics.fpr95, float(self.tpr[corner])
        chance = ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.2)[0]
        roc = ax.plot(self.fpr[vertices], self.tpr[vertices], color="black", linewidth=1.8)[0]
        ax.plot([fpr95, fpr95], [0, tpr95], color=VERMILION, linewidth=1, linestyle="--")
        mark = ax.plot(
            [fpr95],
            [tpr95],
            color=VERMILION,
            marker="D",
            linestyle="--",
            linewidth=1,
            clip_on=False,
            zorder=5,
        )[0]
        self.lines_ = {"roc": roc, "chance": chance, "fpr95": mark}
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        percent_axis(ax.xaxis)
        percent_axis(ax.yaxis)
        ax.set_xlabel("share of in-distribution rows flagged (false alarms)")
        ax.set_ylabel("share of OOD rows detected")
        ax.set_title("ROC curve of OOD detection")
        despine(ax)
        low, high = self.metrics.auroc_interval
        labels = [
            f"AUROC {self.metrics.auroc:.3f}\n"
            f"({percent(self.metrics.confidence, '.6g')} interval {low:.3f} to {high:.3f})",
            f"95 % detected: {percent(fpr95, '.1f')} false alarms",
            "chance: AUROC 0.5",
        ]
        free = "lower right" if self.metrics.auroc >= 0.5 else "upper left"
        add_legend(ax, [roc, mark, chance], labels, loc=free, fontsize="small", framealpha=0.9)


def _roc(u_in: np.ndarray, u_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return false and true positive rates as the threshold falls; ties are flagged together."""
    thresholds = np.unique(np.r_[u_in, u_out])[::-1]
    rates = (
        1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores)
        for scores in (u_in, u_out)
    )
    fpr, tpr = (np.r_[0.0, rate] for rate in rates)
    return fpr, tpr


def _edges(u_in: np.ndarray, u_out: np.ndarray, bins: int | None) -> tuple[np.ndarray, bool]:
    """Return edges of bins for both sets, and whether the first bin is for exact zeros."""
    scores = np.r_[u_in, u_out]
    if bins is None:
        bins = int(np.clip(np.sqrt(min(len(u_in), len(u_out))), _FEWEST_BINS, _MOST_BINS))
    low, high = float(scores.min()), float(scores.max())
    has_zeros = bool(low == 0 and np.count_nonzero(scores == 0) > 1)
    if low == high:
        low, high = (0.0, 1.0) if has_zeros else (low - 0.5, high + 0.5)
    edges = np.linspace(low, high, bins + 1)
    width = edges[1] - edges[0]
    return (np.r_[-1.5 * width, -0.5 * width, edges] if has_zeros else edges), has_zeros


def _shares(scores: np.ndarray, edges: np.ndarray, has_zeros: bool) -> np.ndarray:
    """The share of the scores in each bin."""
    if not has_zeros:
        return np.asarray(np.histogram(scores, edges)[0] / len(scores))
    counts = np.histogram(scores[scores != 0], edges[2:])[0]
    return np.asarray(np.r_[np.count_nonzero(scores == 0), 0, counts] / len(scores))
