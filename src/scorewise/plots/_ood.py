"""Scores of familiar and of foreign rows, and how well a threshold parts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from scorewise import _validate as validate
from scorewise._numerics import spread
from scorewise._text import shorten
from scorewise.detect import OODMetrics, ood_metrics
from scorewise.plots._style import (
    BLUE,
    GREY,
    VERMILLION,
    Axes,
    Figure,
    add_legend,
    axes_for,
    despine,
    percent_axis,
)

_FEWEST_BINS, _MOST_BINS = 5, 40
_FOUND = 0.95  # share of the foreign rows, at which false alarms are marked


@dataclass(frozen=True, eq=False)
class OODHistogram:
    """Histograms of two sets of scores over the same bins.

    Attributes
    ----------
    edges : array (B + 1,)
    shares_in, shares_out : arrays (B,)
        Share of each set's scores in each bin.
    has_zero_bin : bool
        Whether the first bin is only for scores of exactly 0; the second is then an empty gap.
    """

    edges: np.ndarray
    shares_in: np.ndarray
    shares_out: np.ndarray
    has_zero_bin: bool


class OODDisplay:
    """Histograms of in- and out-of-distribution scores, and the ROC curve.

    Use it to see whether foreign rows are more uncertain, and what detecting them would cost in
    false alarms.

    Parameters
    ----------
    u_in : array (n,)
        Uncertainties of rows that are not foreign; finite.
    u_out : array (m,)
        Of foreign rows.
    metrics : OODMetrics, optional
        Of the same scores; computed unless given.
    score_name : str
        What the scores are called on the axis.

    Attributes
    ----------
    u_in, u_out : arrays
    metrics : OODMetrics
    fpr, tpr : arrays
        The ROC curve: a vertex per distinct score, from (0, 0) to (1, 1).
    axes_, figure_
        What was drawn on.
    histograms_ : dict of str to StepPatch
        ``"in"`` and ``"out"``.
    lines_ : dict of str to Line2D
        ``"roc"``, ``"chance"`` and ``"fpr95"``.

    Raises
    ------
    InvalidInput
        If one of the two is empty, or holds what is not finite.

    Examples
    --------
    >>> import scorewise as sw
    >>> from matplotlib.figure import Figure
    >>> display = sw.plots.OODDisplay.from_scores([0.1, 0.2, 0.2, 0.4], [0.2, 0.5, 0.9, 0.7])
    >>> display.fpr, display.tpr
    (array([0.  , 0.  , 0.  , 0.  , 0.25, 0.75, 1.  ]),
     array([0.  , 0.25, 0.5 , 0.75, 0.75, 1.  , 1.  ]))
    >>> display.plot(Figure().subplots(1, 2)).axes_[1].get_ylabel()
    'share of foreign rows found'
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
        """The display of scores, with the AUROC's interval at a confidence.

        Parameters
        ----------
        u_in, u_out : arrays (n,) and (m,)
            Uncertainties of rows that are not foreign, and of those that are; finite.
        confidence : float
            Of the interval.
        score_name : str
            What the scores are called on the axis.

        Raises
        ------
        InvalidInput
            If one of the two is empty, or holds what is not finite.
        """
        inside, outside = validate.finite(u_in, "u_in"), validate.finite(u_out, "u_out")
        return cls(inside, outside, ood_metrics(inside, outside, confidence), score_name)

    def plot(self, axes: Sequence[Axes] | None = None, bins: int | None = None) -> Self:
        """Draw the histograms on the first Axes and the ROC curve on the second.

        Parameters
        ----------
        axes : two Axes, optional
            What to draw on; a new figure unless given.
        bins : int, optional
            How many, shared by both histograms; 5 to 40 unless given.
        """
        if bins is not None:
            bins = validate.whole(bins, "bins", at_least=1)
        self.figure_, (left, right) = axes_for(axes, (9.2, 4.2), n=2)
        self.axes_ = (left, right)
        self._plot_histograms(left, bins)
        self._plot_roc(right)
        return self

    def histogram(self, bins: int | None = None) -> OODHistogram:
        """Return the histograms of both sets over shared bins, 5 to 40 by default."""
        edges, has_zero_bin = _edges(self.u_in, self.u_out, bins)
        shares_in, shares_out = (
            _shares(scores, edges, has_zero_bin) for scores in (self.u_in, self.u_out)
        )
        return OODHistogram(edges, shares_in, shares_out, has_zero_bin)

    def _plot_histograms(self, ax: Axes, bins: int | None) -> None:
        histogram = self.histogram(bins)
        edges, has_spike = histogram.edges, histogram.has_zero_bin
        looks: dict[str, dict[str, Any]] = {
            "in": {"facecolor": (BLUE, 0.45), "edgecolor": BLUE},
            "out": {"facecolor": "none", "edgecolor": VERMILLION, "hatch": "////"},
        }
        names = {"in": "familiar (in distribution)", "out": "foreign (out of distribution)"}
        self.histograms_, labels = {}, []
        for key, scores, shares in (
            ("in", self.u_in, histogram.shares_in),
            ("out", self.u_out, histogram.shares_out),
        ):
            self.histograms_[key] = ax.stairs(shares, edges, fill=True, linewidth=1.4, **looks[key])
            zeros = f", {shares[0]:.1%} of them exactly 0" if has_spike else ""
            labels.append(f"{names[key]}: {len(scores):,} rows{zeros}")
        top = max(float(np.max(patch.get_data().values)) for patch in self.histograms_.values())
        ax.set_ylim(0, top * 1.25)  # the legend's room
        percent_axis(ax.yaxis)
        if has_spike:
            ticks = [x for x in ax.get_xticks() if edges[2] < x <= edges[-1]]
            names_of_ticks = ["exactly\n0", *(f"{x:g}" for x in ticks)]
            ax.set_xticks([float(np.mean(edges[:2])), *ticks], names_of_ticks)
        ax.set_xlabel(shorten(self.score_name), parse_math=False)
        ax.set_ylabel("share of rows per bin")
        ax.set_title("How uncertain familiar and foreign rows are")
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
        at = spread(len(self.fpr))
        corner = int(np.argmax(self.tpr >= _FOUND * (1 - 1e-12)))
        fpr95, tpr95 = float(self.fpr[corner]), float(self.tpr[corner])
        chance = ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.2)[0]
        roc = ax.plot(self.fpr[at], self.tpr[at], color="black", linewidth=1.8)[0]
        ax.plot([fpr95, fpr95], [0, tpr95], color=VERMILLION, linewidth=1, linestyle="--")
        mark = ax.plot(
            [fpr95],
            [tpr95],
            color=VERMILLION,
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
        ax.set_xlabel("share of familiar rows called foreign (false alarms)")
        ax.set_ylabel("share of foreign rows found")
        ax.set_title("What finding foreign rows costs")
        despine(ax)
        low, high = self.metrics.auroc_interval
        labels = [
            f"AUROC {self.metrics.auroc:.3f}\n"
            f"({100 * self.metrics.confidence:.6g}% interval {low:.3f} to {high:.3f})",
            f"95% found: {fpr95:.1%} false alarms",
            "chance: AUROC 0.5",
        ]
        free = "lower right" if self.metrics.auroc >= 0.5 else "upper left"
        add_legend(ax, [roc, mark, chance], labels, loc=free, fontsize="small", framealpha=0.9)


def _roc(u_in: np.ndarray, u_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False and true positive rates as the threshold falls; tied rows are called together."""
    thresholds = np.unique(np.r_[u_in, u_out])[::-1]
    rates = (
        1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores)
        for scores in (u_in, u_out)
    )
    fpr, tpr = (np.r_[0.0, rate] for rate in rates)
    return fpr, tpr


def _edges(u_in: np.ndarray, u_out: np.ndarray, bins: int | None) -> tuple[np.ndarray, bool]:
    """Shared edges, and whether the first bin is only for scores of exactly 0, the least."""
    scores = np.r_[u_in, u_out]
    if bins is None:
        bins = int(np.clip(np.sqrt(min(len(u_in), len(u_out))), _FEWEST_BINS, _MOST_BINS))
    low, high = float(scores.min()), float(scores.max())
    has_spike = bool(low == 0 and np.count_nonzero(scores == 0) > 1)
    if low == high:
        low, high = (0.0, 1.0) if has_spike else (low - 0.5, high + 0.5)
    edges = np.linspace(low, high, bins + 1)
    # zeros stand apart, to the left of what is above 0, however little it is
    width = edges[1] - edges[0]
    return (np.r_[-1.5 * width, -0.5 * width, edges] if has_spike else edges), has_spike


def _shares(scores: np.ndarray, edges: np.ndarray, has_spike: bool) -> np.ndarray:
    """Share of the scores in each bin; zeros in the first one, where it is theirs."""
    if not has_spike:
        return np.asarray(np.histogram(scores, edges)[0] / len(scores))
    counts = np.histogram(scores[scores != 0], edges[2:])[0]
    return np.asarray(np.r_[np.count_nonzero(scores == 0), 0, counts] / len(scores))
