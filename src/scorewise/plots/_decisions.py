"""The expected cost of each action where it is taken, in two parts."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._text import percent, shorten
from scorewise.decide import Decisions, decide
from scorewise.decompose import COMPONENTS
from scorewise.errors import InvalidInput
from scorewise.plots.style import BLUE, GREY, ORANGE, Axes, Figure, add_legend, axes_for, despine

_HEIGHT = 0.62  # of a bar, in rows
_LEGEND_ROWS = 1.3  # left free above the first action
_MEANINGS = [
    "aleatoric: cannot be reduced",
    "epistemic: could be saved by knowing θ",
    "total: expected cost of the action",
]


class DecisionDisplay:
    """How often each action is taken, and its mean expected cost there, in two parts.

    Use it to see which actions are costly under a cost matrix, and how much of the cost a better
    model would save. Where costs are negative (gains), the epistemic part is a thin bar from the
    aleatoric part back to the total.

    Parameters
    ----------
    decisions : Decisions
        Made by :func:`scorewise.decide`, for rows of any shape.
    cost_name : str
        Name of the costs on the axis, such as "hours".

    Attributes
    ----------
    decisions : Decisions
    n_rows : integer array (A,)
        Number of rows in which each action is taken.
    total, aleatoric, epistemic : arrays (A,)
        Means over the rows with each action; NaN for actions that are never taken.
    ax_, figure_
        The Axes and the Figure that were drawn on, once ``plot`` was called.
    bars_ : dict of str to BarContainer
        The parts "aleatoric" and "epistemic" of the actions that are taken.
    totals_ : LineCollection
        The marks of their totals.

    Raises
    ------
    InvalidInput
        If ``decisions`` is not a Decisions, is empty, or a cost is not finite.

    Examples
    --------
    >>> import scorewise as sw
    >>> from matplotlib.figure import Figure
    >>> display = sw.plots.DecisionDisplay.from_predictions(
    ...     [[[0.99, 0.01], [0.995, 0.005]], [[0.99, 0.01], [0.04, 0.96]]],
    ...     [[0, 5], [50, 0]],
    ...     abstain_cost=1,
    ...     action_names=["dismiss", "treat"],
    ... )
    >>> display.epistemic
    array([0.  ,  nan, 0.65])
    >>> for label in display.plot(Figure().subplots()).ax_.get_yticklabels():
    ...     print(label.get_text())
    dismiss
    1 row (50.0 %)
    treat
    0 rows
    abstain
    1 row (50.0 %)
    """

    ax_: Axes
    figure_: Figure
    bars_: dict[str, Any]
    totals_: Any

    def __init__(self, decisions: Decisions, cost_name: str = "cost") -> None:
        if not isinstance(decisions, Decisions):
            raise InvalidInput(
                "only Decisions can be drawn; make them with sw.decide, or use "
                "DecisionDisplay.from_predictions"
            )
        for component in COMPONENTS:
            validate.finite(np.ravel(to_numpy(getattr(decisions, component))), component)
        self.n_rows, self.total, self.aleatoric, self.epistemic = (
            np.array([summary[name] for summary in decisions.by_action()])
            for name in ("rows", *COMPONENTS)
        )
        self.decisions = decisions
        self.cost_name = cost_name

    @classmethod
    def from_predictions(
        cls,
        probs: Any,
        cost_matrix: Any,
        abstain_cost: Any = None,
        *,
        cost_name: str = "cost",
        **options: Any,
    ) -> Self:
        """Return the display of the decisions that predictions lead to.

        Parameters
        ----------
        probs, cost_matrix, abstain_cost
            As for :func:`scorewise.decide`.
        cost_name : str
            Name of the costs on the axis.
        **options
            Those of :func:`scorewise.decide`.

        Returns
        -------
        DecisionDisplay

        Raises
        ------
        InvalidInput
            As :func:`scorewise.decide` does.
        """
        return cls(decide(probs, cost_matrix, abstain_cost, **options), cost_name)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw a bar for every action that is taken, the first of the matrix on top.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure, sized by the number of actions.

        Returns
        -------
        DecisionDisplay
            This display.
        """
        n_actions = len(self.n_rows)
        labels = [
            f"{shorten(name, 30)}\n{_rows(n, self.n_rows.sum())}"
            for name, n in zip(self.decisions.action_names, self.n_rows, strict=True)
        ]
        longest = max(len(line) for label in labels for line in label.splitlines())
        size = (5.4 + 0.09 * longest, 1.1 + 0.5 * (n_actions + _LEGEND_ROWS))
        self.figure_, (self.ax_,) = axes_for(ax, size)
        self._draw()
        # a caller's Axes may be low for many actions, and the legend needs some of the height
        free = _LEGEND_ROWS if ax is None else max(_LEGEND_ROWS, n_actions / 4)
        self.ax_.set_ylim(n_actions - 0.4, -0.6 - free)
        self._name_axes(labels)
        self._explain()
        return self

    def _draw(self) -> None:
        place = np.flatnonzero(self.n_rows)
        total, aleatoric, epistemic = (
            part[place] for part in (self.total, self.aleatoric, self.epistemic)
        )
        self.bars_ = {
            "aleatoric": self.ax_.barh(place, aleatoric, _HEIGHT, color=BLUE),
            "epistemic": self.ax_.barh(
                place,
                epistemic,
                np.where(aleatoric < 0, _HEIGHT / 2, _HEIGHT),
                left=aleatoric,
                facecolor=ORANGE,
                hatch="////",
                edgecolor="white",
                linewidth=0,
            ),
        }
        half = 0.58 * _HEIGHT
        self.totals_ = self.ax_.vlines(
            total, place - half, place + half, color="black", linewidth=2
        )
        self.ax_.axvline(0, color=GREY, linewidth=1, zorder=0.9)
        low, high = min(0, aleatoric.min()), max(0, total.max())
        margin = 0.05 * (high - low) or 0.05
        self.ax_.set_xlim(low - margin * (low < 0), high + margin)

    def _name_axes(self, labels: list[str]) -> None:
        self.ax_.set_yticks(range(len(labels)), labels)
        for text in self.ax_.get_yticklabels():
            text.set_parse_math(False)
        self.ax_.set_xlabel(
            f"mean expected {shorten(self.cost_name, 30)} where taken", parse_math=False
        )
        self.ax_.set_title("Expected cost of each action")
        despine(self.ax_)

    def _explain(self) -> None:
        from matplotlib.lines import Line2D

        mark = Line2D(
            [], [], color="black", linestyle="none", marker="|", markersize=10, markeredgewidth=2
        )
        add_legend(
            self.ax_,
            [self.bars_["aleatoric"], self.bars_["epistemic"], mark],
            _MEANINGS,
            loc="upper left",
            fontsize="small",
            framealpha=1,
            edgecolor="none",
        )


def _rows(n: int, n_all: int) -> str:
    if n == 0:
        return "0 rows"
    return f"{n:,} {'row' if n == 1 else 'rows'} ({percent(n / n_all, '.1f')})"
