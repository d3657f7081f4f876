"""One prediction for three classes, as points in a triangle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._numerics import spread
from scorewise._text import shorten
from scorewise.decompose import RuleLike, decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.plots._style import BLUE, VERMILLION, Axes, Figure, add_legend, axes_for
from scorewise.rules import get_rule

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
_GRID = 60  # steps along an edge


class SimplexDisplay:
    """The members' probabilities of one instance, over the level sets of a total uncertainty.

    Use it to explain what a rule calls uncertain: the total is the height at the members' mean, the
    aleatoric part the mean of their own heights, and the epistemic part what lies between.

    Parameters
    ----------
    predictions : array (M, 3) or Samples
        Member probabilities of one instance.
    rule : str or ScoringRule
        Whose entropy H(p) is drawn.
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
        What was drawn on.
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
    >>> display = sw.plots.SimplexDisplay.from_predictions(probs, "brier", ["cat", "dog", "fox"])
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
        samples = predictions if isinstance(predictions, Samples) else Samples(predictions)
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

    @classmethod
    def from_predictions(
        cls, predictions: Any, rule: RuleLike = "log", class_names: Sequence[str] | None = None
    ) -> Self:
        """The display of one instance's members; the same as the class itself.

        Parameters
        ----------
        predictions, rule, class_names
            As for the class.
        """
        return cls(predictions, rule, class_names)

    def plot(self, ax: Axes | None = None, levels: int = 8, colorbar: bool = True) -> Self:
        """Draw the triangle.

        Parameters
        ----------
        ax : Axes, optional
            What to draw on; a new figure unless given.
        levels : int
            About how many level sets.
        colorbar : bool
            Say beside the triangle what the shades mean; it takes its room from ``ax``.
        """
        self.figure_, (self.ax_,) = axes_for(ax, (6.2, 4.8))
        self._plot_levels(validate.whole(levels, "levels", at_least=1))
        self.ax_.fill(*_CORNERS.T, fill=False, edgecolor="black", linewidth=1.2, zorder=2.5)
        members = _CORNERS.T @ self.probs[spread(len(self.probs))].T
        self.points_ = self.ax_.scatter(
            *members, s=26, color=BLUE, edgecolors="white", linewidths=0.7, zorder=3, clip_on=False
        )
        self.mean_ = self.ax_.scatter(
            *(_CORNERS.T @ self.mean),
            s=95,
            marker="D",
            color=VERMILLION,
            edgecolors="black",
            linewidths=1.2,
            zorder=4,
            clip_on=False,
        )
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(self.contours_, ax=self.ax_, shrink=0.8)
            self.colorbar_.set_label(f"total uncertainty: expected {shorten(self.rule.unit.label)}")
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
