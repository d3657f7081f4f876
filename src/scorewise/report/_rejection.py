"""The figure of rejection curves, and the sentences of its slider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise._text import PERCENT
from scorewise.compare import CalibrationEffect, Evaluation
from scorewise.curves import Curve
from scorewise.plots import RejectionCurveDisplay
from scorewise.plots.style import BLUE, GREY, VERMILION
from scorewise.report import _format as text
from scorewise.report._plotly import LEGEND_WIDTH, PALE, PageFigure, Trace, axis, layout, line
from scorewise.rules import Unit

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
        For every position: one sentence for each measure, and one for abstaining at random.
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
    at_random = f"Abstaining at random: {noun} {text.loss_text(evaluation.loss, evaluation.unit)}."
    return Slider(
        steps,
        start,
        [
            [*(_sentence(evaluation, name, s[i]) for name, s in steps.items()), at_random]
            for i in range(_STEPS)
        ],
        [
            {"x": [100 * s.coverage for s in marks], "y": [scale * s.loss for s in marks]}
            for marks in zip(*steps.values(), strict=True)
        ],
    )


def rejection_figure(
    display: RejectionCurveDisplay, evaluation: Evaluation, slider: Slider
) -> PageFigure:
    """Return the figure of the mean loss of the accepted rows at every coverage."""
    unit = evaluation.unit
    others = {name: curve for name, curve in display.curves.items() if name not in slider.steps}
    other_lines = _other_lines(others, unit)
    references = [
        _curve_line(name, curve, unit, GREY, dash=dash, width=1.5)
        for (name, curve), dash in zip(display.references.items(), ("solid", "dot"), strict=True)
    ]
    followed = _followed_lines(evaluation, list(slider.steps))
    for rank, trace in enumerate([*followed, *references, *other_lines]):
        trace["legendrank"] = rank  # first in the legend, drawn last
        trace["hovertemplate"] = f"%{{x:.3g}}{PERCENT} accepted: %{{y:.3g}}{unit.suffix}"
    followed_curves = {name: evaluation.curves[name] for name in slider.steps}
    shown = RejectionCurveDisplay(followed_curves or display.curves, unit)
    x_start = min(100 * shown.smallest_coverage, max(0, slider.start - 2))
    y_range = unit.scale * np.array(shown.limits)
    noun = text.plotly_name(unit.noun, LEGEND_WIDTH)
    spec = {
        "data": [*other_lines, *references, *followed, _marks(slider)],
        "layout": layout(
            440,
            shapes=[_vertical_line(slider.start)],
            xaxis=axis("coverage: share of rows accepted", suffix=PERCENT, range=[x_start, 100.5]),
            yaxis=axis(f"mean {noun} of accepted rows", suffix=unit.suffix, range=y_range),
        ),
    }
    pale = f" The pale lines are {text.count(len(others), 'other measure')}." if others else ""
    return PageFigure(
        "rejection",
        f"Mean {text.name_text(unit.noun)} of the accepted rows, the most certain accepted first. "
        f"Lower is better.{pale}",
        _alternative(evaluation, slider),
        spec,
        *_table(evaluation, slider, display.references),
    )


def calibrating_figure(effect: CalibrationEffect, unit: Unit) -> PageFigure:
    """Return the figure of the rejection curves before and after calibrating."""
    curves = effect.curves
    shown = RejectionCurveDisplay(curves, unit)
    styles = zip((BLUE, VERMILION), ("solid", "dash"), strict=True)
    noun = text.plotly_name(unit.noun, LEGEND_WIDTH)
    rows = tuple(
        (
            text.share_text(percentage / 100),
            *(
                text.loss_text(
                    float(curve.total_loss_of(k := _rows_at(len(curve), percentage))) / k, unit
                )
                for curve in curves.values()
            ),
        )
        for percentage in range(10, _STEPS + 1, 10)
    )
    return PageFigure(
        "calibrating",
        f"Mean {text.name_text(unit.noun)} of the accepted rows, the most certain accepted first, "
        "by the total uncertainty under the task's loss. Each row is calibrated by a map that was "
        "fitted on other rows. Lower is better.",
        f"Line chart of the mean {text.name_text(unit.noun)} of the accepted rows against the "
        f"coverage: the area under the curve is {text.number(effect.before.aulc, '.4g')} before "
        f"and {text.number(effect.after.aulc, '.4g')} after calibrating.",
        {
            "data": [
                _curve_line(name, curve, unit, color, width=3, dash=dash)
                for (name, curve), (color, dash) in zip(curves.items(), styles, strict=True)
            ],
            "layout": layout(
                360,
                xaxis=axis("coverage: share of rows accepted", suffix=PERCENT, range=[0, 100.5]),
                yaxis=axis(
                    f"mean {noun} of accepted rows",
                    suffix=unit.suffix,
                    range=unit.scale * np.array(shown.limits),
                ),
            ),
        },
        ("Coverage of at least", *(name.capitalize() for name in curves)),
        rows,
    )


def _role(evaluation: Evaluation, name: str) -> str:
    if name != evaluation.measure:
        return "best here"
    return "recommended, best here" if name == evaluation.comparison.best else "recommended"


def _rows_at(n: int, percentage: int) -> int:
    """The fewest rows that are at least this percentage of n."""
    return -(-percentage * n // _STEPS)


def _steps(curve: Curve) -> list[Step]:
    n = len(curve)
    fewest = np.array([_rows_at(n, percentage) for percentage in range(1, _STEPS + 1)])
    # a threshold accepts all rows that are tied with the last one
    thresholds, accepted = curve.accepted_by_threshold(fewest)
    losses = curve.total_loss_of(accepted) / accepted
    return [
        Step(int(k) / n, float(mean), float(threshold), n - int(k))
        for k, mean, threshold in zip(accepted, losses, thresholds, strict=True)
    ]


def _sentence(evaluation: Evaluation, name: str, step: Step) -> str:
    rows = text.count(evaluation.n_rows, "row")
    noun, loss = text.name_text(evaluation.unit.noun), text.loss_text(step.loss, evaluation.unit)
    measure = f"By {text.name_text(name)} uncertainty ({_role(evaluation, name)})"
    if not step.abstained:
        all_rows = f"all {rows}" if evaluation.n_rows > 1 else rows
        return f"{measure}: accept {all_rows}; {noun} {loss}."
    return (
        f"{measure}: abstain on the {step.abstained:,} of {rows} with an uncertainty above "
        f"{text.threshold(step.threshold)}; {noun} of the others {loss}."
    )


def _curve_line(name: str, curve: Curve, unit: Unit, color: str, **style: Any) -> Trace:
    coverage, losses = RejectionCurveDisplay.points(curve, most=_POINTS)
    return line(name, 100 * coverage, unit.scale * losses, color, **style)


def _followed_lines(evaluation: Evaluation, names: list[str]) -> list[Trace]:
    """The lines of the measures that the slider follows."""
    return [
        _curve_line(
            f"{text.name_text(name, LEGEND_WIDTH)} ({_role(evaluation, name)})",
            evaluation.curves[name],
            evaluation.unit,
            color,
            width=3,
            dash=dash,
        )
        for name, color, dash in zip(names, (BLUE, VERMILION), ("solid", "dash"), strict=False)
    ]


def _other_lines(curves: dict[str, Curve], unit: Unit) -> list[Trace]:
    """Return pale lines, which the legend shows or hides together."""
    if not curves:
        return []
    entry = text.count(len(curves), "other measure")
    key = line(entry, [None, None], [None, None], PALE, legendgroup="others")
    hidden = {"legendgroup": "others", "showlegend": False}
    return [
        key,
        *(
            _curve_line(text.name_text(name, LEGEND_WIDTH), curve, unit, PALE, width=1.3) | hidden
            for name, curve in curves.items()
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
        "marker": {"size": 11, "color": [BLUE, VERMILION], "symbol": ["circle", "diamond"]},
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


def _table(evaluation: Evaluation, slider: Slider, references: dict[str, Curve]) -> tuple[Any, ...]:
    unit = evaluation.unit
    rows = []
    for percentage in range(10, _STEPS + 1, 10):
        accepted = _rows_at(evaluation.n_rows, percentage)
        losses = [
            *(steps[percentage - 1].loss for steps in slider.steps.values()),
            *(float(curve.total_loss_of(accepted)) / accepted for curve in references.values()),
        ]
        rows.append(
            (text.share_text(percentage / 100), *(text.loss_text(loss, unit) for loss in losses))
        )
    names = [f"By {text.name_text(name)}" for name in slider.steps]
    names += [name.capitalize() for name in references]
    return ("Coverage of at least", *names), tuple(rows)
