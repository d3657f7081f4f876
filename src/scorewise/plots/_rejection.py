"""Loss-rejection curves of several measures in one picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from scorewise import _validate as validate
from scorewise._numerics import spread
from scorewise._text import shorten
from scorewise.curves import Curve, rejection_curve
from scorewise.errors import InvalidInput
from scorewise.plots._style import (
    GREY,
    Axes,
    Figure,
    add_legend,
    axes_for,
    despine,
    line_style,
    percent_axis,
)

# by view: the attribute of a Curve, its area, and the axis
_VIEWS = {
    "loss": ("loss", "aulc", "mean {} of the accepted"),
    "accuracy": ("accuracy", "aulc", "accuracy of the accepted"),
    "generalized": ("generalized_loss", "augrc", "{} of the accepted, per row of all"),
}
_STEADY_ROWS, _STEADY_SHARE = 10, 0.02  # fewer rows make means that jump about


class RejectionCurveDisplay:
    """What rejecting the most uncertain predictions buys, for one measure or several.

    Use it to see which measure of uncertainty tells costly predictions best: the lower the curve,
    the better. Grey curves show the best possible and a random order.

    Parameters
    ----------
    curves : mapping of str to Curve
        By the name of the measure; see :func:`scorewise.rejection_curve`.
    loss_name : str
        What the losses are called on the axis.

    Attributes
    ----------
    curves : dict of str to Curve
    ax_, figure_
        What was drawn on.
    lines_ : dict of str to Line2D
        By the name of the measure.
    oracle_, random_ : Line2D or None
        The grey references.

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

    def __init__(self, curves: Mapping[str, Curve], loss_name: str = "loss") -> None:
        if not isinstance(curves, Mapping) or not curves:
            raise InvalidInput("curves must be a mapping of one or more names to curves")
        for name, curve in curves.items():
            if not isinstance(curve, Curve):
                raise InvalidInput(
                    f"curves[{name!r}] is no Curve; make one with sw.rejection_curve, or use "
                    "RejectionCurveDisplay.from_uncertainty"
                )
        self.curves = dict(curves)
        self.loss_name = loss_name

    @classmethod
    def from_uncertainty(cls, losses: Any, uncertainty: Any, loss_name: str = "loss") -> Self:
        """The display of the same losses, ordered by one measure or several.

        Parameters
        ----------
        losses : array (n,)
            What each prediction cost; finite.
        uncertainty : array (n,), or mapping of str to array (n,)
            What to order them by; infinite ones are just the largest.
        loss_name : str
            What the losses are called on the axis.

        Raises
        ------
        InvalidInput
            If lengths differ, or something is empty, NaN, or an infinite loss.
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
            What to draw on; a new figure unless given.
        view : "loss", "accuracy" or "generalized"
            Mean loss of the accepted rows, 1 minus it (for losses of 0 and 1), or their loss shared
            among all rows.
        show_oracle, show_random : bool
            Draw the best possible and a random order of these losses.

        Raises
        ------
        InvalidInput
            If the view does not fit the losses, or references are asked for although the curves
            are not about the same losses.
        """
        view = validate.choice(view, "view", _VIEWS)
        attribute, area, label = _VIEWS[view]
        references = self._references() if show_oracle or show_random else {}
        shown = {"oracle": show_oracle, "random": show_random}
        references = {name: curve for name, curve in references.items() if shown[name]}
        drawn = {
            curve: _points(curve, attribute)
            for curve in [*self.curves.values(), *references.values()]
        }
        entries = len(drawn)  # of the legend beside the curves
        self.figure_, (self.ax_,) = axes_for(ax, (7.6, max(4.0, 1.0 + 0.22 * entries)))
        self.lines_ = {
            name: self._line(*drawn[curve], linewidth=1.8, label=shorten(name), **line_style(i))
            for i, (name, curve) in enumerate(self.curves.items())
        }
        grey = {
            name: self._line(*drawn[curve], color=GREY, linewidth=1.2, zorder=1.5, linestyle=dash)
            for (name, curve), dash in zip(references.items(), ("-", ":"), strict=False)
        }
        self.oracle_, self.random_ = grey.get("oracle"), grey.get("random")
        self._name_axes(label)
        self.ax_.set_ylim(*_limits(drawn, within_one=view == "accuracy"))
        names = [shorten(name, 30) for name in self.curves]
        names += [{"oracle": "best possible", "random": "random"}[name] for name in grey]
        subject = "1 − accuracy" if view == "accuracy" else "the loss"
        areas = [f"{getattr(curve, area):.3g}" for curve in drawn]
        # beside the Axes where the figure is ours to arrange
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if ax is None else {}
        add_legend(
            self.ax_,
            [*self.lines_.values(), *grey.values()],
            [f"{name}: {value}" for name, value in zip(names, areas, strict=True)],
            title=f"{area.upper()}, the mean over all shares\nof {subject} (lower is better)",
            fontsize="small",
            title_fontsize="small",
            handlelength=3.4,
            frameon=ax is not None,
            **place,
        )
        return self

    def _references(self) -> dict[str, Curve]:
        """Curves of the best and of a random order."""
        first, *others = self.curves.values()
        for other in others:
            if len(other) != len(first) or not np.allclose(
                other.ranked_losses, first.ranked_losses
            ):
                raise InvalidInput(
                    "the curves are not about the same losses, so no best or random order is "
                    "common to them; pass show_oracle=False, show_random=False"
                )
        return {
            "oracle": replace(first, total_loss=first.oracle_total_loss),
            "random": replace(first, total_loss=first.coverage * first.total_loss[-1]),
        }

    def _line(self, x: np.ndarray, y: np.ndarray, **options: Any) -> Any:
        alone = {"marker": "o"} if len(x) == 1 else {}
        return self.ax_.plot(x, y, **options, **alone)[0]

    def _name_axes(self, label: str) -> None:
        self.ax_.set_xlim(0, 1)
        percent_axis(self.ax_.xaxis)
        self.ax_.set_xlabel("share of predictions rejected, the most uncertain first")
        self.ax_.set_ylabel(label.format(shorten(self.loss_name)), parse_math=False)
        self.ax_.set_title("What rejecting uncertain predictions buys")
        despine(self.ax_)


def _points(curve: Curve, attribute: str) -> tuple[np.ndarray, np.ndarray]:
    """Shares rejected and heights, at few enough places to draw."""
    at = spread(len(curve))
    return curve.rejection[at], getattr(curve, attribute)[at]


def steady_coverage(n_rows: int) -> float:
    """The coverage from which on enough rows are accepted for their mean loss to be steady."""
    return min(1.0, max(_STEADY_ROWS / n_rows, _STEADY_SHARE))


def _limits(
    drawn: Mapping[Curve, tuple[np.ndarray, np.ndarray]], *, within_one: bool
) -> tuple[float, float]:
    """The range of the heights where enough rows are accepted for a steady mean."""
    steady = []
    for curve, (rejected, height) in drawn.items():
        steady.append(height[1 - rejected >= steady_coverage(len(curve)) * (1 - 1e-9)])
    heights = np.concatenate(steady)
    low, high = float(np.min(heights)), float(np.max(heights))
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    if within_one:
        return low - margin, 1 + 0.2 * margin
    return (low - margin if low < 0 else -0.2 * margin), high + margin
