"""Total uncertainty and its two parts, stacked, instance by instance."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._text import shorten
from scorewise.decompose import Decomposition, RuleLike, decompose
from scorewise.errors import InvalidInput
from scorewise.plots._style import (
    BLUE,
    COLORS,
    Axes,
    Figure,
    add_legend,
    axes_for,
    despine,
    percent_axis,
)
from scorewise.rules import get_rule

_MOST_BARS = 150
_ORANGE = COLORS[4]
_PARTS = {
    "aleatoric": "aleatoric: stays, whatever the model learns",
    "epistemic": "epistemic: the members disagree",
}


class DecompositionDisplay:
    """Total uncertainty split into aleatoric and epistemic, instances in rising order of the total.

    Use it to see how much of the uncertainty more data could remove, and where.

    Parameters
    ----------
    decomposition : Decomposition
        Of instances of any shape; finite.
    loss_name : str
        The rule's loss, for the axis.

    Attributes
    ----------
    total, aleatoric, epistemic : arrays (n,)
        In rising order of the total.
    ax_, figure_
        What was drawn on.
    patches_ : dict of str to StepPatch
        The two parts.
    line_ : StepPatch
        The outline of the total.

    Raises
    ------
    InvalidInput
        If it is no decomposition, empty, or not finite.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from matplotlib.figure import Figure
    >>> probs = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.6, 0.4], [0.6, 0.4]]])
    >>> display = sw.plots.DecompositionDisplay.from_predictions(probs, "zero-one")
    >>> display.total
    array([0.4, 0.5])
    >>> display.plot(Figure().subplots()).ax_.get_ylabel()
    'expected error'
    """

    ax_: Axes
    figure_: Figure
    patches_: dict[str, Any]
    line_: Any

    def __init__(self, decomposition: Decomposition, loss_name: str = "loss") -> None:
        if not isinstance(decomposition, Decomposition):
            raise InvalidInput(
                "only a Decomposition of one rule can be drawn; make it with "
                "sw.decompose(probs, rule)"
            )
        total, aleatoric, epistemic = (
            validate.finite(np.ravel(to_numpy(part)), name)
            for part, name in zip(decomposition, ("total", *_PARTS), strict=True)
        )
        order = np.argsort(total, kind="stable")
        self.total, self.aleatoric, self.epistemic = (
            total[order],
            aleatoric[order],
            epistemic[order],
        )
        self.loss_name = loss_name

    @classmethod
    def from_predictions(cls, predictions: Any, rule: RuleLike, **options: Any) -> Self:
        """The display of predictions under a rule.

        Parameters
        ----------
        predictions : array (..., M, K), Samples or Dirichlet
            As for :func:`scorewise.decompose`.
        rule : str or ScoringRule
            One rule.
        **options
            Those of :func:`scorewise.decompose`.

        Raises
        ------
        InvalidInput
            If predictions, rule or options are not what they must be.
        """
        rule = get_rule(rule)
        return cls(decompose(predictions, rule, **options), rule.unit.label)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the parts, stacked; means of neighbours where there are many instances.

        Parameters
        ----------
        ax : Axes, optional
            What to draw on; a new figure unless given.
        """
        self.figure_, (self.ax_,) = axes_for(ax, (6.4, 4.0))
        n = len(self.total)
        n_bars = min(n, _MOST_BARS)
        starts = np.arange(n_bars) * n // n_bars
        edges = np.r_[starts, n] / n
        sizes = np.diff(np.r_[starts, n])
        aleatoric, total = (
            np.add.reduceat(part, starts) / sizes for part in (self.aleatoric, self.total)
        )
        look = {"fill": True, "edgecolor": "white", "linewidth": 0.0}
        self.patches_ = {
            "aleatoric": self.ax_.stairs(aleatoric, edges, facecolor=BLUE, **look),
            "epistemic": self.ax_.stairs(
                total, edges, baseline=aleatoric, facecolor=_ORANGE, hatch="////", **look
            ),
        }
        self.line_ = self.ax_.stairs(total, edges, color="black", linewidth=1.2, baseline=None)
        self.ax_.set_xlim(0, 1)
        self.ax_.margins(y=0.03)
        percent_axis(self.ax_.xaxis)
        self.ax_.set_xlabel(_describe(n, n_bars))
        self.ax_.set_ylabel(f"expected {shorten(self.loss_name)}", parse_math=False)
        self.ax_.set_title("How uncertain the predictions are, and why")
        despine(self.ax_)
        add_legend(
            self.ax_,
            [self.line_, self.patches_["epistemic"], self.patches_["aleatoric"]],
            ["total", _PARTS["epistemic"], _PARTS["aleatoric"]],
            loc="upper left",
            fontsize="small",
        )
        return self


def _describe(n: int, n_bars: int) -> str:
    if n == 1:
        return "one prediction"
    neighbours = "" if n == n_bars else f" (means of {_about(n / n_bars)} neighbours)"
    return f"{n:,} predictions, from the most certain to the least{neighbours}"


def _about(size: float) -> str:
    return f"{size:,.0f}" if size == int(size) else f"about {size:,.0f}"
