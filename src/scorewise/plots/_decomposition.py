"""Total uncertainty and its two parts: of many instances in bars, of one on a triangle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._inputs import InputOptions, raw_members
from scorewise._numerics import evenly_spaced
from scorewise._text import shorten
from scorewise.decompose import Decomposition, decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.plots.style import (
    BLUE,
    ORANGE,
    VERMILION,
    Axes,
    Figure,
    add_legend,
    axes_for,
    despine,
    loss_label,
    percent_axis,
)
from scorewise.rules import RuleLike, Unit, get_rule

_MOST_BARS = 150
_PARTS = {
    "aleatoric": "aleatoric: cannot be reduced",
    "epistemic": "epistemic: disagreement of members",
}
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
_GRID = 60  # steps along an edge


class DecompositionDisplay:
    """Total uncertainty split into aleatoric and epistemic, instances in rising order of the total.

    Use it to see how much of the uncertainty more data could remove, and in which instances.

    Parameters
    ----------
    decomposition : Decomposition
        Made by :func:`scorewise.decompose`, of instances of any shape; finite.
    loss_name : str or Unit
        Name of the loss on the axis; the ``unit`` of a rule has one.

    Attributes
    ----------
    total, aleatoric, epistemic : arrays (n,)
        In rising order of the total.
    ax_, figure_
        The Axes and the Figure that were drawn on, once ``plot`` was called.
    patches_ : dict of str to StepPatch
        The parts "aleatoric" and "epistemic".
    line_ : StepPatch
        The outline of the total.

    Raises
    ------
    InvalidInput
        If the decomposition is empty, not finite, or of several rules.

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

    def __init__(self, decomposition: Decomposition, loss_name: str | Unit = "loss") -> None:
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
        """Return the display of predictions under a rule.

        Parameters
        ----------
        predictions : array (..., M, K), Samples or Dirichlet
            As for :func:`scorewise.decompose`.
        rule : str or ScoringRule
            The loss in whose units uncertainty is measured.
        **options
            Those of :func:`scorewise.decompose`.

        Returns
        -------
        DecompositionDisplay

        Raises
        ------
        InvalidInput
            As :func:`scorewise.decompose` does.
        """
        rule = get_rule(rule)
        return cls(decompose(predictions, rule, **options), rule.unit)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the parts as stacked bars; many instances are averaged with their neighbours.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        DecompositionDisplay
            This display.
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
                total, edges, baseline=aleatoric, facecolor=ORANGE, hatch="////", **look
            ),
        }
        self.line_ = self.ax_.stairs(total, edges, color="black", linewidth=1.2, baseline=None)
        self.ax_.set_xlim(0, 1)
        self.ax_.margins(y=0.03)
        percent_axis(self.ax_.xaxis)
        self.ax_.set_xlabel(_describe(n, n_bars))
        self.ax_.set_ylabel(f"expected {loss_label(self.loss_name)}", parse_math=False)
        self.ax_.set_title("Total uncertainty and its two parts")
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


class SimplexDisplay:
    """The members' probabilities for one instance of three classes, on a triangle.

    Use it to explain a rule: shades show its entropy H(p). The total is H at the members' mean, the
    aleatoric part is the mean of H at the members, and the epistemic part is the difference.

    Parameters
    ----------
    predictions : array (M, 3) or Samples
        Member probabilities of one instance.
    rule : str or ScoringRule
        The rule whose entropy H(p) is drawn.
    class_names : sequence of 3 str, optional
        Names of the corners.

    Attributes
    ----------
    probs : array (M, 3)
    mean : array (3,)
    rule : ScoringRule
    total, aleatoric, epistemic : float
    class_names : tuple of str
    ax_, figure_
        The Axes and the Figure that were drawn on, once ``plot`` was called.
    points_, mean_ : PathCollection
        The members and their mean.
    contours_ : TriContourSet
        The level sets.
    colorbar_ : Colorbar or None

    Raises
    ------
    InvalidInput
        If there are not three classes, or more than one instance.

    Examples
    --------
    >>> import scorewise as sw
    >>> from matplotlib.figure import Figure
    >>> probs = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.4, 0.4, 0.2]]
    >>> display = sw.plots.SimplexDisplay(probs, "brier", ["cat", "dog", "fox"])
    >>> display.mean.round(2), round(display.total, 3)
    (array([0.4 , 0.47, 0.13]), 0.604)
    >>> display.plot(Figure().subplots()).points_.get_offsets().shape
    (3, 2)
    """

    ax_: Axes
    figure_: Figure
    points_: Any
    mean_: Any
    contours_: Any
    colorbar_: Any

    def __init__(
        self, predictions: Any, rule: RuleLike = "log", class_names: Sequence[str] | None = None
    ) -> None:
        if not isinstance(predictions, Samples):
            predictions = Samples.of(raw_members(predictions, InputOptions()))
        samples = predictions
        self.probs, self.mean = to_numpy(samples.probs), to_numpy(samples.mean)
        if self.probs.ndim != 2 or self.probs.shape[1] != 3:
            raise InvalidInput(
                f"predictions have shape {self.probs.shape}; a triangle shows one instance with "
                "three classes, (M, 3)"
            )
        self.rule = get_rule(rule)
        self.total, self.aleatoric, self.epistemic = map(float, decompose(samples, self.rule))
        names = [f"class {k}" for k in range(3)] if class_names is None else class_names
        if isinstance(names, str) or len(names) != 3:
            raise InvalidInput(f"class_names is {names!r}; it must hold three names")
        self.class_names = tuple(str(name) for name in names)

    def plot(self, ax: Axes | None = None, levels: int = 8, colorbar: bool = True) -> Self:
        """Draw the triangle with the members and their mean.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.
        levels : int
            Approximate number of shades.
        colorbar : bool
            Whether to explain the shades beside the triangle, in a part of ``ax``.

        Returns
        -------
        SimplexDisplay
            This display.
        """
        self.figure_, (self.ax_,) = axes_for(ax, (6.2, 4.8))
        self._plot_levels(validate.whole(levels, "levels", at_least=1))
        self.ax_.fill(*_CORNERS.T, fill=False, edgecolor="black", linewidth=1.2, zorder=2.5)
        members = _CORNERS.T @ self.probs[evenly_spaced(len(self.probs))].T
        self.points_ = self.ax_.scatter(
            *members, s=26, color=BLUE, edgecolors="white", linewidths=0.7, zorder=3, clip_on=False
        )
        self.mean_ = self.ax_.scatter(
            *(_CORNERS.T @ self.mean),
            s=95,
            marker="D",
            color=VERMILION,
            edgecolors="black",
            linewidths=1.2,
            zorder=4,
            clip_on=False,
        )
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(self.contours_, ax=self.ax_, shrink=0.8)
            self.colorbar_.set_label(f"total uncertainty: expected {loss_label(self.rule.unit)}")
            self.colorbar_.ax.yaxis.label.set_parse_math(False)
        self._name_corners()
        return self

    def _plot_levels(self, levels: int) -> None:
        i, j = (index.ravel() for index in np.indices((_GRID + 1, _GRID + 1)))
        keep = i + j <= _GRID
        p = np.stack([i, j, _GRID - i - j], axis=-1)[keep] / _GRID
        heights = to_numpy(self.rule.entropy(p))
        x, y = _CORNERS.T @ p.T
        self.contours_ = self.ax_.tricontourf(x, y, heights, levels, cmap="Greys", alpha=0.5)
        self.ax_.tricontour(
            x, y, heights, self.contours_.levels[1:-1], colors="white", linewidths=0.8
        )

    def _name_corners(self) -> None:
        for name, (x, y) in zip(self.class_names, _CORNERS, strict=True):
            away, side = (-0.03, "top") if y == 0 else (0.03, "bottom")
            self.ax_.text(x, y + away, shorten(name, 20), ha="center", va=side, parse_math=False)
        self.ax_.set(xlim=(-0.12, 1.12), ylim=(-0.3, 0.98), aspect="equal")
        self.ax_.axis("off")
        self.ax_.set_title(f"One prediction of {len(self.probs):,} members, for three classes")
        add_legend(
            self.ax_,
            [self.points_, self.mean_],
            [
                "members",
                f"their mean: total {self.total:.3g} = {self.aleatoric:.3g} aleatoric "
                f"+ {self.epistemic:.3g} epistemic",
            ],
            loc="lower center",
            fontsize="small",
            frameon=False,
        )
