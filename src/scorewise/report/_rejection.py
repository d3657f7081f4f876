"""The figure of rejection curves, and the sentences of its slider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise._numerics import evenly_spaced
from scorewise._text import PERCENT
from scorewise.compare import Evaluation
from scorewise.curves import Curve
from scorewise.plots.style import BLUE, GREY, VERMILLION
from scorewise.report import _format as text
from scorewise.report._plotly import LEGEND_WIDTH, PALE, PageFigure, Trace, axis, layout, line

_POINTS = 400  # of a curve
_STEPS = 100  # of the slider, in per cent
_START = 90  # of the slider, unless a certificate sets it


@dataclass(frozen=True)
class Step:
    """The threshold that accepts at least a certain percentage of the rows.

    Attributes
    ----------
    coverage, loss, threshold : float
        Share of the rows that it accepts, tied rows included, and their mean loss.
    abstained : int
        Rows that it does not accept.
    """

    coverage: float
    loss: float
    threshold: float
    abstained: int


@dataclass(frozen=True)
class Slider:
    """What each position of the slider shows.

    Attributes
    ----------
    steps : dict of str to list of Step
        For 1 % to 100 %, of the recommended measure and of the best one, by their names.
    start : int
        The percentage to begin with.
    sentences : list of list of str
        For every position: one sentence for each measure, and one for a random order.
    points : list of dict of str to list of float
        For every position: the marks on the curves, as ``x`` and ``y`` of the figure.
    """

    steps: dict[str, list[Step]]
    start: int
    sentences: list[list[str]]
    points: list[dict[str, list[float]]]


def slider_of(evaluation: Evaluation) -> Slider:
    """The slider, with the sentences of all its positions."""
    # the recommended measure and the best one, which may be the same
    names = dict.fromkeys([evaluation.measure, evaluation.comparison.best])
    steps = {name: _steps(evaluation.curves[name]) for name in names if name in evaluation.curves}
    certificate = evaluation.headline
    start = _START
    if certificate is not None:
        start = int(np.clip(np.floor(100 * certificate.coverage), 1, _STEPS))
    noun, scale = text.name_text(evaluation.unit.noun), evaluation.unit.scale
    random_order = f"In random order: {noun} {text.loss_text(evaluation.loss, evaluation.unit)}."
    return Slider(
        steps,
        start,
        [
            [*(_sentence(evaluation, name, s[i]) for name, s in steps.items()), random_order]
            for i in range(_STEPS)
        ],
        [
            {"x": [100 * step.coverage for step in at], "y": [scale * step.loss for step in at]}
            for at in zip(*steps.values(), strict=True)
        ],
    )


def rejection_figure(evaluation: Evaluation, slider: Slider) -> PageFigure:
    """The mean loss of the accepted rows at every coverage, for all measures."""
    unit, scale = evaluation.unit, evaluation.unit.scale
    curves = evaluation.distinct_curves
    curves |= {name: evaluation.curves[name] for name in slider.steps}
    first = next(iter(curves.values()))
    n = len(first)
    at = evenly_spaced(n, _POINTS)
    coverage = 100 * (at + 1) / n
    heights = {name: scale * _mean_loss(curve, at) for name, curve in curves.items()}
    oracle = scale * first.oracle_total_loss[at] / (at + 1)
    others = [name for name in curves if name not in slider.steps]
    other_lines = _other_lines(others, coverage, heights)
    references = [
        line("random order", coverage, np.full(len(at), scale * evaluation.loss), GREY, dash="dot"),
        line("best possible", coverage, oracle, GREY, width=1.2),
    ]
    followed = _followed_lines(evaluation, list(slider.steps), coverage, heights)
    for rank, trace in enumerate([*followed, *references, *other_lines]):
        trace["legendrank"] = rank  # first in the legend, drawn last
        trace["hovertemplate"] = f"%{{x:.3g}}{PERCENT} accepted: %{{y:.3g}}{unit.suffix}"
    steady = coverage >= 100 * first.steady_coverage * (1 - 1e-9)
    visible = np.r_[*(h[steady] for h in heights.values()), oracle[steady], scale * evaluation.loss]
    noun = text.plotly_name(unit.noun, LEGEND_WIDTH)
    spec = {
        "data": [*other_lines, *references, *followed, _marks(slider)],
        "layout": layout(
            440,
            shapes=[_vertical_line(slider.start)],
            xaxis=axis("coverage: share of rows accepted", suffix=PERCENT, range=[0, 101]),
            yaxis=axis(f"mean {noun} of accepted rows", suffix=unit.suffix, range=_range(visible)),
        ),
    }
    pale = f" The pale lines are {text.count(len(others), 'other measure')}." if others else ""
    return PageFigure(
        "rejection",
        f"Mean {text.name_text(unit.noun)} of the accepted rows, the most certain accepted first. "
        f"Lower is better.{pale}",
        _alternative(evaluation, slider),
        spec,
        *_table(evaluation, slider, first),
    )


def _role(evaluation: Evaluation, name: str) -> str:
    if name != evaluation.measure:
        return "best here"
    return "recommended, best here" if name == evaluation.comparison.best else "recommended"


def _mean_loss(curve: Curve, at: np.ndarray) -> np.ndarray:
    # not curve.loss, which would cache an array of n values for each curve
    return np.asarray(curve.total_loss[at] / (at + 1))


def _rows_at(n: int, percentages: np.ndarray) -> np.ndarray:
    """The fewest rows that are at least these percentages of n."""
    return np.ceil(percentages * n / _STEPS - 1e-9).astype(int)


def _steps(curve: Curve) -> list[Step]:
    n = len(curve)
    fewest = _rows_at(n, np.arange(1, _STEPS + 1))
    # a threshold accepts all rows that are tied with the last one
    accepted = np.searchsorted(curve.threshold, curve.threshold[fewest - 1], side="right")
    losses = _mean_loss(curve, accepted - 1)
    return [
        Step(int(k) / n, float(mean), float(curve.threshold[k - 1]), n - int(k))
        for k, mean in zip(accepted, losses, strict=True)
    ]


def _sentence(evaluation: Evaluation, name: str, step: Step) -> str:
    rows = text.count(evaluation.n_rows, "row")
    action = (
        f"abstain on {step.abstained:,} of {rows}, those above {text.number(step.threshold)}"
        if step.abstained
        else f"accept {'all ' if evaluation.n_rows > 1 else ''}{rows}"
    )
    return (
        f"By {text.name_text(name)} ({_role(evaluation, name)}): "
        f"{text.name_text(evaluation.unit.noun)} {text.loss_text(step.loss, evaluation.unit)}; "
        f"{action}."
    )


def _followed_lines(
    evaluation: Evaluation, names: list[str], coverage: np.ndarray, heights: dict[str, np.ndarray]
) -> list[Trace]:
    """The lines of the measures that the slider follows."""
    return [
        line(
            f"{text.name_text(name, LEGEND_WIDTH)} ({_role(evaluation, name)})",
            coverage,
            heights[name],
            color,
            width=3,
            dash=dash,
        )
        for name, color, dash in zip(names, (BLUE, VERMILLION), ("solid", "dash"), strict=False)
    ]


def _other_lines(
    names: list[str], coverage: np.ndarray, heights: dict[str, np.ndarray]
) -> list[Trace]:
    """Pale lines, which the legend shows or hides together."""
    if not names:
        return []
    entry = text.count(len(names), "other measure")
    key = line(entry, [None, None], [None, None], PALE, legendgroup="others")
    hidden = {"legendgroup": "others", "showlegend": False}
    return [
        key,
        *(
            line(text.name_text(name, LEGEND_WIDTH), coverage, heights[name], PALE, width=1.3)
            | hidden
            for name in names
        ),
    ]


def _marks(slider: Slider) -> Trace:
    """The slider's position on the lines; page.js expects it to be the last trace."""
    points = slider.points[slider.start - 1] if slider.points else {"x": [], "y": []}
    return {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "hoverinfo": "skip",
        **points,
        "marker": {"size": 11, "color": [BLUE, VERMILLION], "symbol": ["circle", "diamond"]},
    }


def _vertical_line(percent: int) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": percent,
        "x1": percent,
        "y0": 0,
        "y1": 1,
        "line": {"color": GREY, "width": 1, "dash": "dot"},
    }


def _range(heights: np.ndarray) -> list[float]:
    low, high = min(0.0, float(heights.min())), float(heights.max())
    room = 0.05 * (high - low) or 0.05
    return [low - 0.3 * room, high + room]


def _alternative(evaluation: Evaluation, slider: Slider) -> str:
    unit = evaluation.unit
    details = "; ".join(
        f"by {text.name_text(name)} it is {text.loss_text(steps[49].loss, unit)} at half of the "
        f"rows and {text.loss_text(steps[89].loss, unit)} at {text.share_text(0.9)}"
        for name, steps in slider.steps.items()
    )
    return (
        f"Line chart of the mean {text.name_text(unit.noun)} of the accepted rows against the "
        f"coverage, for {text.count(len(evaluation.curves), 'measure')}: "
        f"{text.loss_text(evaluation.loss, unit)} where all are accepted; {details}."
    )


def _table(evaluation: Evaluation, slider: Slider, first: Curve) -> tuple[Any, ...]:
    tens, unit = np.arange(10, _STEPS + 1, 10), evaluation.unit
    accepted = _rows_at(len(first), tens)
    oracle = first.oracle_total_loss[accepted - 1] / accepted
    rows = [
        (
            text.share_text(percentage / 100),
            *(text.loss_text(steps[percentage - 1].loss, unit) for steps in slider.steps.values()),
            text.loss_text(float(least), unit),
            text.loss_text(evaluation.loss, unit),
        )
        for percentage, least in zip(tens.tolist(), oracle, strict=True)
    ]
    names = [f"By {text.name_text(name)}" for name in slider.steps]
    return ("Coverage of at least", *names, "Best possible", "Random order"), tuple(rows)
