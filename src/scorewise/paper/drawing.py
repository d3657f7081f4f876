"""The paper's figures, from stored results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scorewise.decompose import RULES
from scorewise.paper.cells import Stored
from scorewise.paper.results import Group
from scorewise.plots import add_legend, axes_for, despine, line_style, percent_axis


def rejection_figure(results: Sequence[Stored], components: Sequence[str]) -> Any:
    """A row of panels for each component, a panel for each task loss, a line for each rule."""
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        len(components),
        len(RULES),
        figsize=(3 * len(RULES), 2.7 * len(components)),
        layout="constrained",
        squeeze=False,
        sharex=True,
        sharey="col",
    )
    for row, component in zip(panels, components, strict=True):
        for ax, loss in zip(row, RULES, strict=True):
            handles = [
                _line(ax, [one.numbers["curves"][loss][component][rule] for one in results], i)
                for i, rule in enumerate(RULES)
            ]
            ax.set_title(f"{loss} loss, {component}", fontsize=9)
            percent_axis(ax.xaxis)
            despine(ax)
        row[0].set_ylabel("loss of what is accepted")
    for ax in panels[-1]:
        ax.set_xlabel("rejected")
    add_legend(panels[0][0], handles, list(RULES), fontsize=8, frameon=False)
    return figure


def _line(ax: Any, curves: Sequence[Sequence[float]], i: int) -> Any:
    """Mean of curves by share rejected, with their spread."""
    values = np.array(curves)[:, ::-1]  # from all accepted to the most certain alone
    rejected = 1 - np.arange(values.shape[1], 0, -1) / values.shape[1]
    return _mean_line(ax, rejected, values, i)


def _mean_line(ax: Any, x: np.ndarray, values: np.ndarray, i: int) -> Any:
    mean = values.mean(0)
    (drawn,) = ax.plot(x, mean, linewidth=1.3, **line_style(i))
    if len(values) > 1:
        spread = values.std(0, ddof=1)
        ax.fill_between(
            x, mean - spread, mean + spread, color=drawn.get_color(), alpha=0.15, linewidth=0
        )
    return drawn


def learning_figure(group: Group, measures: Sequence[str]) -> Any:
    """The error against the number of labels, a line for each measure."""
    figure, (ax,) = axes_for(None, (6, 4))
    handles = []
    there = [measure for measure in measures if group.of(measure=measure)]
    for measure in there:
        runs = group.of(measure=measure)
        errors = np.array([one.numbers["error"] for one in runs])
        look = (*RULES, "random").index(measure)  # the same in all figures
        handles.append(_mean_line(ax, np.array(runs[0].numbers["labels"]), errors, look))
    ax.set_yscale("log")
    for axis_formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        axis_formatter("{x:g}")
    ax.set_xlabel("labels")
    ax.set_ylabel("zero-one loss on the test set")
    despine(ax)
    add_legend(ax, handles, there, fontsize=8, frameon=False)
    return figure
