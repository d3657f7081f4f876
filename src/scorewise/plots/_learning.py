"""Learning curves of several measures in one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._text import shorten
from scorewise.acquire import Round, is_list_of_runs, learning_curve
from scorewise.errors import InvalidInput
from scorewise.plots._style import GREY, Axes, Figure, add_legend, axes_for, despine, line_style

_BASELINE = "random"
_BASELINE_LOOK = {"color": GREY, "linestyle": "--"}
_BAND = "band: ± one standard deviation\nof the runs"


class LearningCurveDisplay:
    """The loss after so many labels, for each measure that chose what to label.

    Use it to see how few labels are enough, and which measure needs the fewest: the lower the
    curve, the better. Bands show how much runs differ; the measure called "random" is the baseline.

    Parameters
    ----------
    curves : mapping of str to (array (T,), array (R, T))
        By the name of the measure: numbers of labels, rising, and the losses of R runs there.
    loss_name : str
        What the losses are called on the axis.

    Attributes
    ----------
    curves : dict of str to (array (T,), array (R, T))
    means : dict of str to array (T,)
        Mean losses of the runs.
    deviations : dict of str to array (T,) or None
        Their standard deviations; None of a single run.
    ax_, figure_
        What was drawn on.
    lines_ : dict of str to Line2D
        The means of the runs, by the name of the measure.
    bands_ : dict of str to PolyCollection
        One standard deviation of the runs either side, of measures with more than one run.

    Raises
    ------
    InvalidInput
        If there is no curve, shapes do not fit, something is not finite, or numbers of labels do
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

    def __init__(self, curves: Mapping[str, tuple[Any, Any]], loss_name: str = "loss") -> None:
        if not isinstance(curves, Mapping) or not curves:
            raise InvalidInput(
                "curves must be a mapping of one or more names to pairs (n_labelled, losses)"
            )
        self.curves = {name: _checked(pair, f"curves[{name!r}]") for name, pair in curves.items()}
        self.loss_name = loss_name
        self.means = {name: losses.mean(axis=0) for name, (_, losses) in self.curves.items()}
        self.deviations = {
            name: losses.std(axis=0, ddof=1) if len(losses) > 1 else None
            for name, (_, losses) in self.curves.items()
        }

    @classmethod
    def from_rounds(
        cls, runs: Mapping[str, Sequence[Sequence[Round]]], loss_name: str = "loss"
    ) -> Self:
        """The display of repeated runs of active learning.

        Parameters
        ----------
        runs : mapping of str to sequence of lists of Round
            By the name of the measure: the rounds of each run, as of
            ``list(sw.active_learning(…))``. Numbers of labels that only some of its runs have come
            to are left out.
        loss_name : str
            What the losses are called on the axis.

        Raises
        ------
        InvalidInput
            If these are no rounds, rounds have no losses, or the runs of a measure have no number
            of labels in common.
        """
        if not isinstance(runs, Mapping):
            raise InvalidInput("runs must be a mapping of names to lists of runs")
        for name, several in runs.items():
            if not is_list_of_runs(several):
                raise InvalidInput(
                    f"runs[{name!r}] must be a list of runs, each a list of rounds, as "
                    "[list(sw.active_learning(…)), …] is"
                )
        return cls(
            {name: learning_curve(several, name) for name, several in runs.items()}, loss_name
        )

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the mean of the runs of every measure, and how much they differ.

        Parameters
        ----------
        ax : Axes, optional
            What to draw on; a new figure unless given.
        """
        self.figure_, (self.ax_,) = axes_for(ax, (7.6, max(4.0, 1.0 + 0.22 * len(self.curves))))
        measures = [name for name in self.curves if name != _BASELINE]
        looks = {name: line_style(i) for i, name in enumerate(measures)} | {
            _BASELINE: _BASELINE_LOOK
        }
        self.lines_, self.bands_ = {}, {}
        for name, (n_labelled, _) in self.curves.items():
            self._draw(name, n_labelled, looks[name])
        self._name_axes()
        self._explain(beside=ax is None)
        return self

    def _draw(self, name: str, n_labelled: np.ndarray, look: dict[str, Any]) -> None:
        mean, deviation = self.means[name], self.deviations[name]
        alone = len(n_labelled) == 1
        marker = {"marker": "o"} if alone else {}
        (self.lines_[name],) = self.ax_.plot(n_labelled, mean, linewidth=1.8, **look, **marker)
        if deviation is not None:
            self.bands_[name] = self.ax_.fill_between(
                n_labelled,
                mean - deviation,
                mean + deviation,
                color=look["color"],
                alpha=0.15,
                linewidth=5 if alone else 0,  # a band over one number of labels has no width
                zorder=1.5,
            )

    def _name_axes(self) -> None:
        from matplotlib.ticker import MaxNLocator

        self.ax_.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10], integer=True))
        self.ax_.margins(x=0.02)
        self.ax_.set_xlabel("number of labels")
        self.ax_.set_ylabel(shorten(self.loss_name), parse_math=False)
        self.ax_.set_title("What labels buy, by the measure that chose them")
        despine(self.ax_)

    def _explain(self, *, beside: bool) -> None:
        """A legend in the order in which the lines end, from the top."""
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
        # beside the Axes where the figure is ours to arrange
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if beside else {}
        add_legend(
            self.ax_,
            [
                (self.bands_[n], self.lines_[n]) if n in self.bands_ else self.lines_[n]
                for n in names
            ],
            labels,
            title=title,
            fontsize="small",
            title_fontsize="small",
            alignment="left",
            handlelength=3.4,
            frameon=not beside,
            **place,
        )


def _checked(pair: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of labels (T,) and losses (R, T)."""
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
