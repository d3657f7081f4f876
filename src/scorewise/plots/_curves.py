"""Curves of the loss, one line per measure: when rejecting predictions, or when adding labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._numerics import MOST_POINTS, evenly_spaced
from scorewise._text import shorten
from scorewise.acquire import Round, learning_curves
from scorewise.curves import Curve, rejection_curve
from scorewise.errors import InvalidInput, Remedy
from scorewise.plots.style import (
    GREY,
    Axes,
    Figure,
    add_legend,
    axes_for,
    despine,
    line_style,
    loss_label,
    percent_axis,
)
from scorewise.rules import Unit

# by view: the area under a Curve, and the label of the axis
_VIEWS = {
    "loss": ("aulc", "mean {} of accepted predictions"),
    "accuracy": ("aulc", "accuracy of accepted predictions"),
    "generalized": ("augrc", "summed {} of accepted predictions / number of rows"),
}
_BEST_POSSIBLE, _RANDOM_ORDER = "best possible", "random order"
_REFERENCE_STYLES: dict[str, dict[str, Any]] = {
    name: {"color": GREY, "linewidth": 1.2, "zorder": 1.5, "linestyle": dash}
    for name, dash in ((_BEST_POSSIBLE, "-"), (_RANDOM_ORDER, ":"))
}
_BASELINE = "random"
_BASELINE_STYLE = {"color": GREY, "linestyle": "--"}
_FLAT = 0.05  # of a curve's range, by which a flat part may vary
_MARGIN = 0.25  # of the shown coverages, before the first curve changes
_LARGEST_START = 0.95  # of the shown coverages
_SHORTEST_CUT = 0.3  # of the coverages; a shorter flat part is shown
_BAND = "band: ± one standard deviation\nof the runs"


class RejectionCurveDisplay:
    """The loss of the accepted predictions when the most uncertain are rejected.

    Use it to compare measures of uncertainty for abstaining: the lower the curve, the better. Grey
    curves show the best possible and a random order.

    Parameters
    ----------
    curves : mapping of str to Curve
        By the name of the measure; see :func:`scorewise.rejection_curve`.
    loss_name : str or Unit
        Name of the loss on the axis; the ``unit`` of a rule has one.

    Attributes
    ----------
    curves : dict of str to Curve
    references : dict of str to Curve
        The curves of the "best possible" and of a "random order" of the same losses.
    limits : (float, float)
        The range of mean losses that is shown.
    smallest_coverage : float
        Where the shown range of coverages begins; it ends at 1.
    ax_, figure_
        The Axes and the Figure that were drawn on, once ``plot`` was called.
    lines_ : dict of str to Line2D
        By the name of the measure.
    oracle_, random_ : Line2D or None
        The grey curves of the best possible and of a random order.

    Raises
    ------
    InvalidInput
        If there is no curve.

    Examples
    --------
    >>> import scorewise as sw
    >>> from matplotlib.figure import Figure
    >>> losses = [0, 0, 1, 0, 1]
    >>> display = sw.plots.RejectionCurveDisplay.from_uncertainty(
    ...     losses, {"total": [0.1, 0.3, 0.5, 0.2, 0.9], "epistemic": [0.1, 0.3, 0.1, 0.2, 0.4]}
    ... )
    >>> display.plot(Figure().subplots()).lines_["total"].get_ydata().round(2)
    array([0.  , 0.  , 0.  , 0.25, 0.4 ])
    """

    ax_: Axes
    figure_: Figure
    lines_: dict[str, Any]
    oracle_: Any
    random_: Any

    def __init__(self, curves: Mapping[str, Curve], loss_name: str | Unit = "loss") -> None:
        if not isinstance(curves, Mapping) or not curves:
            raise InvalidInput("curves must be a mapping of one or more names to curves")
        for name, curve in curves.items():
            if not isinstance(curve, Curve):
                raise InvalidInput(
                    f"curves[{name!r}] is not a Curve; make one with sw.rejection_curve, or use "
                    "RejectionCurveDisplay.from_uncertainty"
                )
        self.curves = dict(curves)
        self.loss_name = loss_name

    @classmethod
    def from_uncertainty(
        cls, losses: Any, uncertainty: Any, loss_name: str | Unit = "loss"
    ) -> Self:
        """Return the display of the same losses, ordered by one or several measures of uncertainty.

        Parameters
        ----------
        losses : array (n,)
            The loss that each prediction incurred; finite.
        uncertainty : array (n,), or mapping of str to array (n,)
            Uncertainties, by the name of the measure; they may be infinite.
        loss_name : str or Unit
            Name of the loss on the axis.

        Returns
        -------
        RejectionCurveDisplay

        Raises
        ------
        InvalidInput
            If lengths differ, an array is empty or has NaN, or a loss is infinite.
        """
        named = uncertainty if isinstance(uncertainty, Mapping) else {"uncertainty": uncertainty}
        return cls({name: rejection_curve(losses, u) for name, u in named.items()}, loss_name)

    def plot(
        self,
        ax: Axes | None = None,
        view: str = "loss",
        show_oracle: bool = True,
        show_random: bool = True,
    ) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.
        view : "loss", "accuracy" or "generalized"
            Mean loss of the accepted rows, 1 minus it (for losses of 0 and 1), or the sum of their
            losses divided by the number of all rows.
        show_oracle, show_random : bool
            Whether to draw the best possible and a random order of these losses.

        Returns
        -------
        RejectionCurveDisplay
            This display.

        Raises
        ------
        InvalidInput
            If the view does not fit the losses, or the best possible and random order are to be
            drawn for curves of different losses.
        """
        view = validate.choice(view, "view", _VIEWS)
        area, label = _VIEWS[view]
        shown = {_BEST_POSSIBLE: show_oracle, _RANDOM_ORDER: show_random}
        references = self.references if any(shown.values()) else {}
        references = {name: curve for name, curve in references.items() if shown[name]}
        curves = [*self.curves.values(), *references.values()]
        limits = _limits([*self.curves.values()], view, self.smallest_coverage)
        self.figure_, (self.ax_,) = axes_for(ax, _size(n_legend_entries=len(curves)))
        self.lines_ = {
            name: self._line(curve, view, linewidth=1.8, label=shorten(name), **line_style(i))
            for i, (name, curve) in enumerate(self.curves.items())
        }
        grey = {
            name: self._line(curve, view, **_REFERENCE_STYLES[name])
            for name, curve in references.items()
        }
        self.oracle_, self.random_ = grey.get(_BEST_POSSIBLE), grey.get(_RANDOM_ORDER)
        self._name_axes(label)
        self.ax_.set_ylim(*limits)
        names = [shorten(name, 30) for name in (*self.curves, *references)]
        loss = "1 − accuracy" if view == "accuracy" else "the loss"
        areas = [f"{getattr(curve, area):.3g}" for curve in curves]
        add_legend(
            self.ax_,
            [*self.lines_.values(), *grey.values()],
            [f"{name}: {value}" for name, value in zip(names, areas, strict=True)],
            title=f"{area.upper()}: mean of {loss} over\nall coverages (lower is better)",
            **_legend_options(is_own_figure=ax is None),
        )
        return self

    @cached_property
    def references(self) -> dict[str, Curve]:
        """The curves of the best possible and of a random order, by these names.

        Raises
        ------
        InvalidInput
            If the curves are not of the same losses.
        """
        first, *others = self.curves.values()
        for other in others:
            if not first.has_losses_of(other):
                raise InvalidInput(
                    "the curves are not of the same losses, so they share no best possible or "
                    "random order",
                    Remedy("show_oracle", False, "together with show_random=False"),
                )
        return {_BEST_POSSIBLE: first.oracle, _RANDOM_ORDER: first.random}

    @property
    def limits(self) -> tuple[float, float]:
        """The range of mean losses where enough rows are accepted, with a margin."""
        return _limits([*self.curves.values()], "loss", self.smallest_coverage)

    @cached_property
    def smallest_coverage(self) -> float:
        """The coverage a little before the first curve leaves the loss with which it begins.

        It is 0 unless all curves are flat over a large part of the coverages.
        """
        start = min(map(_end_of_flat_part, self.curves.values()))
        start = np.floor(20 * (start - _MARGIN * (1 - start))) / 20
        return min(float(start), _LARGEST_START) if start >= _SHORTEST_CUT else 0.0

    @staticmethod
    def points(
        curve: Curve, view: str = "loss", most: int = MOST_POINTS
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the coverages and heights of a curve, at no more points than can be seen.

        Parameters
        ----------
        curve : Curve
        view : "loss", "accuracy" or "generalized"
            As for :meth:`plot`.
        most : int
            The largest number of points.

        Returns
        -------
        coverage : array (p,)
        heights : array (p,)
        """
        view = validate.choice(view, "view", _VIEWS)
        k = evenly_spaced(len(curve), most) + 1
        # not curve.loss, which would store an array of all rows for each curve
        heights = curve.total_loss_of(k) / (len(curve) if view == "generalized" else k)
        if view == "accuracy":
            curve.require_binary_losses()
            heights = 1 - heights
        return k / len(curve), heights

    def _line(self, curve: Curve, view: str, **options: Any) -> Any:
        coverage, heights = self.points(curve, view)
        marker = {"marker": "o"} if len(heights) == 1 else {}
        return self.ax_.plot(1 - coverage, heights, **options, **marker)[0]

    def _name_axes(self, label: str) -> None:
        self.ax_.set_xlim(0, 1 - self.smallest_coverage)
        percent_axis(self.ax_.xaxis)
        self.ax_.set_xlabel("share of predictions rejected (most uncertain first)")
        self.ax_.set_ylabel(label.format(loss_label(self.loss_name)), parse_math=False)
        self.ax_.set_title("Loss after rejecting uncertain predictions")
        despine(self.ax_)


def _end_of_flat_part(curve: Curve) -> float:
    """Return the coverage up to which the mean loss is about that of the most certain rows."""
    coverage, losses = _stable_points(curve, "loss")
    is_away = np.abs(losses - losses[0]) > _FLAT * np.ptp(losses)
    return float(coverage[np.argmax(is_away)]) if is_away.any() else 0.0


def _stable_points(curve: Curve, view: str, start: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the points from ``start`` on where enough rows are accepted for a stable mean."""
    coverage, heights = RejectionCurveDisplay.points(curve, view)
    first = max(start, min(curve.stable_coverage, 0.5))
    is_stable = coverage >= first * (1 - 1e-9)
    return coverage[is_stable], heights[is_stable]


def _limits(curves: Sequence[Curve], view: str, start: float) -> tuple[float, float]:
    """Return the range of the heights; it begins at 0 unless that would squeeze the curves."""
    # a random order has the loss at full coverage throughout; the best possible may be lower
    heights = np.concatenate([_stable_points(curve, view, start)[1] for curve in curves])
    low, high = float(heights.min()), float(heights.max())
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    if view == "accuracy":
        return low - margin, (1 + 0.2 * margin if high > 1 - (high - low) else high + margin)
    from_zero = 0 <= low <= high - low
    return (-0.2 * margin if from_zero else low - margin), high + margin


class LearningCurveDisplay:
    """The loss by the number of labels, for each measure that chose the rows to label.

    Use it to see how few labels are enough, and which measure needs the fewest: the lower the
    curve, the better. Bands show how much runs differ. The measure called "random" is drawn as the
    baseline.

    Parameters
    ----------
    curves : mapping of str to (array (T,), array (R, T))
        By the name of the measure: rising numbers of labels, and the losses of R runs there.
    loss_name : str or Unit
        Name of the loss on the axis; the ``unit`` of a rule has one.

    Attributes
    ----------
    curves : dict of str to (array (T,), array (R, T))
    means : dict of str to array (T,)
        Mean losses of the runs, by the name of the measure.
    deviations : dict of str to array (T,) or None
        Their standard deviations; None for a single run.
    line_styles : dict of str to dict
        Colour and dashes of the lines, as keywords of matplotlib's ``plot``.
    ax_, figure_
        The Axes and the Figure that were drawn on, once ``plot`` was called.
    lines_ : dict of str to Line2D
        Means of the runs, by the name of the measure.
    bands_ : dict of str to PolyCollection
        One standard deviation of the runs either side, of measures with more than one run.

    Raises
    ------
    InvalidInput
        If there is no curve, shapes do not fit, a value is not finite, or numbers of labels do
        not rise.

    Examples
    --------
    >>> import scorewise as sw
    >>> from matplotlib.figure import Figure
    >>> display = sw.plots.LearningCurveDisplay({
    ...     "epistemic": ([10, 20, 30], [[0.5, 0.3, 0.2], [0.4, 0.2, 0.2]]),
    ...     "random": ([10, 20, 30], [[0.5, 0.4, 0.3], [0.4, 0.4, 0.3]]),
    ... })
    >>> display.plot(Figure().subplots()).lines_["epistemic"].get_ydata()
    array([0.45, 0.25, 0.2 ])
    """

    ax_: Axes
    figure_: Figure
    lines_: dict[str, Any]
    bands_: dict[str, Any]

    def __init__(
        self, curves: Mapping[str, tuple[Any, Any]], loss_name: str | Unit = "loss"
    ) -> None:
        if not isinstance(curves, Mapping) or not curves:
            raise InvalidInput(
                "curves must be a mapping of one or more names to pairs (n_labelled, losses)"
            )
        self.curves = {
            name: _check_curve(pair, f"curves[{name!r}]") for name, pair in curves.items()
        }
        self.loss_name = loss_name
        self.means = {name: losses.mean(axis=0) for name, (_, losses) in self.curves.items()}
        self.deviations = {
            name: losses.std(axis=0, ddof=1) if len(losses) > 1 else None
            for name, (_, losses) in self.curves.items()
        }
        measures = [name for name in self.curves if name != _BASELINE]
        self.line_styles = {
            name: _BASELINE_STYLE if name == _BASELINE else line_style(measures.index(name))
            for name in self.curves
        }

    @classmethod
    def from_rounds(
        cls, runs: Mapping[str, Sequence[Sequence[Round]]], loss_name: str | Unit = "loss"
    ) -> Self:
        """Return the display of repeated runs of active learning.

        Parameters
        ----------
        runs : mapping of str to sequence of lists of Round
            By the name of the measure: the rounds of each run, as from
            ``list(sw.active_learning(…))``. Numbers of labels that not all of its runs reached are
            left out.
        loss_name : str or Unit
            Name of the loss on the axis.

        Returns
        -------
        LearningCurveDisplay

        Raises
        ------
        InvalidInput
            If these are not rounds, rounds have no losses, or the runs of a measure share no
            number of labels.
        """
        return cls(learning_curves(runs), loss_name)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the mean of the runs of every measure, and a band of one standard deviation.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        LearningCurveDisplay
            This display.
        """
        self.figure_, (self.ax_,) = axes_for(ax, _size(len(self.curves)))
        self.lines_, self.bands_ = {}, {}
        for name, (n_labelled, _) in self.curves.items():
            self._draw(name, n_labelled)
        self._name_axes()
        self._explain(is_own_figure=ax is None)
        return self

    def _draw(self, name: str, n_labelled: np.ndarray) -> None:
        mean, deviation = self.means[name], self.deviations[name]
        style = self.line_styles[name]
        is_point = len(n_labelled) == 1
        marker = {"marker": "o"} if is_point else {}
        (self.lines_[name],) = self.ax_.plot(n_labelled, mean, linewidth=1.8, **style, **marker)
        if deviation is not None:
            self.bands_[name] = self.ax_.fill_between(
                n_labelled,
                mean - deviation,
                mean + deviation,
                color=style["color"],
                alpha=0.15,
                linewidth=5 if is_point else 0,  # a band over one number of labels has no width
                zorder=1.5,
            )

    def _name_axes(self) -> None:
        from matplotlib.ticker import MaxNLocator

        self.ax_.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10], integer=True))
        self.ax_.margins(x=0.02)
        self.ax_.set_xlabel("number of labels")
        self.ax_.set_ylabel(loss_label(self.loss_name), parse_math=False)
        self.ax_.set_title("Loss by number of labels")
        despine(self.ax_)

    def _explain(self, *, is_own_figure: bool) -> None:
        """Add a legend in the order in which the lines end, from the top."""
        names = sorted(self.lines_, key=lambda name: -self.lines_[name].get_ydata()[-1])
        n_runs = {name: len(losses) for name, (_, losses) in self.curves.items()}
        labels = [shorten(name, 30) for name in names]
        if len(set(n_runs.values())) > 1:
            labels = [
                f"{label} ({_runs(n_runs[name])})"
                for name, label in zip(names, labels, strict=True)
            ]
            title = f"mean of the runs\n{_BAND},\nwhere there are several"
        elif self.bands_:
            title = f"mean of {_runs(n_runs[names[0]])}\n{_BAND}"
        else:
            title = "one run, so no band"
        add_legend(
            self.ax_,
            [
                (self.bands_[n], self.lines_[n]) if n in self.bands_ else self.lines_[n]
                for n in names
            ],
            labels,
            title=title,
            alignment="left",
            **_legend_options(is_own_figure=is_own_figure),
        )


def _check_curve(pair: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of labels (T,) and the losses (R, T), if they are valid."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidInput(f"{name} must be a pair (n_labelled, losses)")
    n_labelled = validate.finite(pair[0], f"{name}[0]")
    if not (np.diff(n_labelled) > 0).all():
        raise InvalidInput(f"{name}[0], the numbers of labels, must rise")
    losses = validate.real(pair[1], f"{name}[1]", to_numpy)
    if losses.ndim != 2 or not len(losses) or losses.shape[1] != len(n_labelled):
        raise InvalidInput(
            f"{name}[1] has shape {losses.shape}; losses must be (R, T), of one or more runs, with "
            f"T = {len(n_labelled)} numbers of labels"
        )
    return n_labelled, np.stack(
        [validate.loss_vector(run, f"{name}[1][{r}]") for r, run in enumerate(losses)]
    )


def _runs(n: int) -> str:
    return "one run" if n == 1 else f"{n} runs"


def _size(n_legend_entries: int) -> tuple[float, float]:
    """Return width and height in inches of a figure with the legend beside the curves."""
    return 7.6, max(4.0, 1.0 + 0.22 * n_legend_entries)


def _legend_options(*, is_own_figure: bool) -> dict[str, Any]:
    """Return options of a legend, which is beside the curves in a figure created here."""
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if is_own_figure else {}
    return {
        "fontsize": "small",
        "title_fontsize": "small",
        "handlelength": 3.4,
        "frameon": not is_own_figure,
        **place,
    }
