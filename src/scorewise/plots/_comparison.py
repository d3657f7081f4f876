"""Measures of uncertainty from the best to the worst, with intervals."""

from __future__ import annotations

from typing import Any, Self

from scorewise._text import percent, shorten
from scorewise.compare import VERDICTS, Comparison, Standing, compare
from scorewise.errors import InvalidInput
from scorewise.plots.style import GREY, VERDICT_MARKS, Axes, Figure, add_legend, axes_for, despine

_TITLE_WIDTH = 70  # characters
_LEGEND_ROWS = 2  # left free above the best measure
_MEANINGS = {"aulc": " (mean loss over all coverages)", "mean loss": " over the rounds"}


class ComparisonDisplay:
    """Measures from the best to the worst, each with its distance to the best.

    Use it to report :func:`scorewise.compare`: a measure whose interval reaches 0 is
    indistinguishable from the best. Dashed intervals mark measures that order all rows as another
    measure does.

    Parameters
    ----------
    comparison : Comparison
        Made by :func:`scorewise.compare`.

    Attributes
    ----------
    comparison : Comparison
    axis_label : str
        The metric, and that its distance to the best is shown.
    ax_, figure_
        The Axes and the Figure that were drawn on, once ``plot`` was called.
    intervals_ : dict of str to ErrorbarContainer
        By the name of the measure.

    Raises
    ------
    InvalidInput
        If ``comparison`` is not a Comparison, or is empty.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from matplotlib.figure import Figure
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([0.5] * 3, size=(200, 5))
    >>> y = rng.integers(3, size=200)
    >>> display = sw.plots.ComparisonDisplay.from_predictions(
    ...     probs, y, rules=["log", "zero-one"], baselines=False, random_state=0
    ... )
    >>> print(display.plot(Figure().subplots()).ax_.get_xlabel())
    AULC (mean loss over all coverages), distance to the best
    (best: 0.666; simultaneous 95 % intervals)
    """

    ax_: Axes
    figure_: Figure
    intervals_: dict[str, Any]

    def __init__(self, comparison: Comparison) -> None:
        if not isinstance(comparison, Comparison) or not comparison.standings:
            raise InvalidInput("only a Comparison can be drawn; make one with sw.compare")
        self.comparison = comparison
        meaning = _MEANINGS.get(comparison.metric, "")
        self.axis_label = f"{comparison.metric_name}{meaning}, distance to the best"

    @classmethod
    def from_predictions(cls, probs: Any = None, y: Any = None, **options: Any) -> Self:
        """Return the display of a new comparison.

        Parameters
        ----------
        probs, y, **options
            As for :func:`scorewise.compare`.

        Returns
        -------
        ComparisonDisplay

        Raises
        ------
        InvalidInput
            As :func:`scorewise.compare` does.
        """
        return cls(compare(probs, y, **options))

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw an interval for every measure, the best on top.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure, sized by the number of measures.

        Returns
        -------
        ComparisonDisplay
            This display.
        """
        standings = self.comparison.standings
        labels = [_label(row) for row in standings]
        size = (5.4 + 0.09 * max(map(len, labels)), 1.7 + 0.27 * (len(labels) + _LEGEND_ROWS))
        self.figure_, (self.ax_,) = axes_for(ax, size)
        self.ax_.axvline(0, color=GREY, linewidth=1, linestyle=":", zorder=1)
        self.intervals_ = {row.name: self._interval(i, row) for i, row in enumerate(standings)}
        self.ax_.set_yticks(range(len(labels)), labels)
        for text in self.ax_.get_yticklabels():
            text.set_parse_math(False)
        self.ax_.set_ylim(len(labels) - 0.4, -0.6 - _LEGEND_ROWS)
        self._name_axes()
        self._explain()
        return self

    def _interval(self, place: int, row: Standing) -> Any:
        drawn = self.ax_.errorbar(
            row.distance_to_best,
            place,
            xerr=[[row.distance_to_best - row.low], [row.high - row.distance_to_best]],
            capsize=3,
            elinewidth=1.6,
            markeredgewidth=1.6,
            **_marker_options(row.verdict),
        )
        if row.same_order_as is not None:
            for bar in drawn.lines[2]:
                bar.set_linestyle((0, (2, 1.5)))
        return drawn

    def _name_axes(self) -> None:
        comparison = self.comparison
        best = comparison.standings[0].value
        intervals = f"simultaneous {percent(comparison.confidence, '.6g')} intervals"
        self.ax_.set_xlabel(f"{self.axis_label}\n(best: {best:.3g}; {intervals})")
        self.ax_.set_title(shorten(comparison.title, _TITLE_WIDTH), parse_math=False)
        self.ax_.locator_params(axis="x", nbins=6)
        despine(self.ax_)

    def _explain(self) -> None:
        """Add a legend of the verdicts that occur."""
        from matplotlib.lines import Line2D

        rows = self.comparison.standings
        verdicts = {row.verdict for row in rows}
        shown = [verdict for verdict in VERDICTS if verdict in verdicts]
        handles = [
            Line2D([], [], linewidth=1.6, markeredgewidth=1.6, **_marker_options(verdict))
            for verdict in shown
        ]
        labels = [VERDICTS[verdict] for verdict in shown]
        if any(row.same_order_as for row in rows):
            handles.append(Line2D([], [], color="black", linewidth=1.6, linestyle=(0, (2, 1.5))))
            labels.append("same order as the measure after “=”")
        add_legend(
            self.ax_,
            handles,
            labels,
            loc="upper left",
            ncols=2,
            fontsize="small",
            framealpha=1,
            edgecolor="none",
        )


def _marker_options(verdict: str) -> dict[str, Any]:
    mark = VERDICT_MARKS[verdict]
    size = 7.5 if verdict == "best" else 6.5
    face = mark.color if mark.is_filled else "white"
    return {"marker": mark.marker, "markersize": size, "color": mark.color, "markerfacecolor": face}


def _label(row: Standing) -> str:
    if row.same_order_as is None:
        return shorten(row.name)
    return f"{shorten(row.name, 26)} = {shorten(row.same_order_as, 20)}"
