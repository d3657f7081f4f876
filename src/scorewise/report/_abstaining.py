"""Rejection curves, and what each position of the page's slider says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise._numerics import spread
from scorewise.compare import Evaluation
from scorewise.curves import Curve
from scorewise.plots import BLUE, GREY, VERMILLION
from scorewise.report import _words as words
from scorewise.report._looks import LEGEND, PALE, Figure, Trace, axis, layout, line

_POINTS = 400  # of a curve
_STEPS = 100  # of the slider, in per cent
_FIRST = 90  # where it stands unless a certificate says better
_STEADY_ROWS, _STEADY_SHARE = 10, 0.02  # fewer rows make means that jump about


@dataclass(frozen=True)
class Step:
    """What a threshold does that accepts at least so many per cent of the rows.

    Attributes
    ----------
    coverage, loss, threshold : float
        Share of the rows that it accepts, all of the tied ones too, and what they lost.
    abstained : int
        Rows that it does not accept.
    """

    coverage: float
    loss: float
    threshold: float
    abstained: int


@dataclass(frozen=True)
class Slider:
    """Steps of the measures worth following, by their names.

    Attributes
    ----------
    steps : dict of str to list of Step
        Of the recommended measure and of the best one, for 1 % to 100 %.
    start : int
        The per cent to begin with.
    sentences : list of list of str
        For every position: one sentence for each measure, and one for a random order.
    """

    steps: dict[str, list[Step]]
    start: int
    sentences: list[list[str]]


def slider_of(found: Evaluation) -> Slider:
    """All that the slider can say, put in words beforehand."""
    steps = {name: _steps(found.curves[name]) for name in _followed(found)}
    best = found.headline
    start = _FIRST if best is None else int(np.clip(np.floor(100 * best.coverage), 1, _STEPS))
    name = words.shown(found.loss_name)
    at_random = f"In random order: {name} {words.loss(found.loss, found.is_share)}."
    sentences = [
        [*(_sentence(found, one, several[i]) for one, several in steps.items()), at_random]
        for i in range(_STEPS)
    ]
    return Slider(steps, start, sentences)


def rejection_figure(found: Evaluation, slider: Slider) -> Figure:
    """The loss of what is accepted at every coverage, for all measures."""
    first = next(iter(found.curves.values()))
    n, scale = len(first), 100 if found.is_share else 1
    at = spread(n, _POINTS)
    shares = 100 * (at + 1) / n
    heights = {name: scale * _loss(curve, at) for name, curve in found.curves.items()}
    oracle = scale * np.cumsum(first.ranked_losses)[at] / (at + 1)
    others = [name for name in found.curves if name not in slider.steps]
    quiet = _others(others, shares, heights)
    references = [
        line("random order", shares, np.full(len(at), scale * found.loss), GREY, dash="dot"),
        line("best possible", shares, oracle, GREY, width=1.2),
    ]
    followed = _lines(found, list(slider.steps), shares, heights)
    unit = " %" if found.is_share else ""
    for rank, one in enumerate([*followed, *references, *quiet]):
        one["legendrank"] = rank  # told first, drawn last
        one["hovertemplate"] = f"%{{x:.3g}} % accepted: %{{y:.3g}}{unit}"
    steady = shares >= 100 * min(1.0, max(_STEADY_ROWS / n, _STEADY_SHARE)) - 1e-9
    seen = np.r_[*(h[steady] for h in heights.values()), oracle[steady], scale * found.loss]
    name = words.label(found.loss_name, LEGEND)
    spec = {
        "data": [*quiet, *references, *followed, _marks(slider, scale)],
        "layout": layout(
            440,
            shapes=[_upright(slider.start)],
            xaxis=axis("share of rows accepted", percent=True, range=[0, 101]),
            yaxis=axis(f"mean {name} of the accepted", percent=found.is_share, range=_range(seen)),
        ),
    }
    pale = f" The pale lines are {words.count(len(others), 'other measure')}." if others else ""
    return Figure(
        "rejection",
        f"Mean {words.shown(found.loss_name)} of the accepted rows, the most certain first: the "
        f"lower, the better.{pale}",
        _alternative(found, slider),
        spec,
        *_table(found, slider, first),
    )


def _followed(found: Evaluation) -> list[str]:
    """The recommended measure and the best one, which may be the same."""
    names = dict.fromkeys([found.measure, found.comparison.best])
    return [name for name in names if name in found.curves]


def _role(found: Evaluation, name: str) -> str:
    if name != found.measure:
        return "best here"
    return "recommended, best here" if name == found.comparison.best else "recommended"


def _loss(curve: Curve, at: np.ndarray) -> np.ndarray:
    # not curve.loss, which would keep another array as long as the data for each of the curves
    return np.asarray(curve.total_loss[at] / (at + 1))


def _steps(curve: Curve) -> list[Step]:
    n = len(curve)
    asked = np.ceil(np.arange(1, _STEPS + 1) * n / _STEPS - 1e-9).astype(int)
    # a threshold takes all rows that are tied with the last one
    accepted = np.searchsorted(curve.threshold, curve.threshold[asked - 1], side="right")
    losses = _loss(curve, accepted - 1)
    return [
        Step(int(k) / n, float(mean), float(curve.threshold[k - 1]), n - int(k))
        for k, mean in zip(accepted, losses, strict=True)
    ]


def _sentence(found: Evaluation, name: str, step: Step) -> str:
    abstain = (
        f"abstain on {step.abstained:,} of {words.count(found.n_rows, 'row')}, those above "
        f"{words.number(step.threshold)}"
        if step.abstained
        else f"accept {'all ' if found.n_rows > 1 else ''}{words.count(found.n_rows, 'row')}"
    )
    return (
        f"By {words.shown(name)} ({_role(found, name)}): {words.shown(found.loss_name)} "
        f"{words.loss(step.loss, found.is_share)}; {abstain}."
    )


def _lines(
    found: Evaluation, names: list[str], shares: np.ndarray, heights: dict[str, np.ndarray]
) -> list[Trace]:
    """The lines of the measures that the slider follows."""
    return [
        line(
            f"{words.shown(name, LEGEND)} ({_role(found, name)})",
            shares,
            heights[name],
            color,
            width=3,
            dash=dash,
        )
        for name, color, dash in zip(names, (BLUE, VERMILLION), ("solid", "dash"), strict=False)
    ]


def _others(names: list[str], shares: np.ndarray, heights: dict[str, np.ndarray]) -> list[Trace]:
    """Quiet lines, which the legend shows or hides together."""
    if not names:
        return []
    told = words.count(len(names), "other measure")
    key = line(told, [None, None], [None, None], PALE, legendgroup="others")
    hidden = {"legendgroup": "others", "showlegend": False}
    return [
        key,
        *(
            line(words.shown(name, LEGEND), shares, heights[name], PALE, width=1.3) | hidden
            for name in names
        ),
    ]


def _marks(slider: Slider, scale: int) -> Trace:
    """Where the slider stands on the lines; the page's script knows it as the last trace."""
    now = [several[slider.start - 1] for several in slider.steps.values()]
    return {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "hoverinfo": "skip",
        "x": [100 * step.coverage for step in now],
        "y": [scale * step.loss for step in now],
        "marker": {"size": 11, "color": [BLUE, VERMILLION], "symbol": ["circle", "diamond"]},
    }


def _upright(percent: int) -> dict[str, Any]:
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


def _alternative(found: Evaluation, slider: Slider) -> str:
    said = "; ".join(
        f"by {words.shown(name)} it is {words.loss(steps[49].loss, found.is_share)} at half of the "
        f"rows and {words.loss(steps[89].loss, found.is_share)} at 90\u00a0%"
        for name, steps in slider.steps.items()
    )
    return (
        f"Line chart of the mean {words.shown(found.loss_name)} of the accepted rows against the "
        f"share accepted, for {words.count(len(found.curves), 'measure')}: "
        f"{words.loss(found.loss, found.is_share)} where all are accepted; {said}."
    )


def _table(found: Evaluation, slider: Slider, first: Curve) -> tuple[Any, ...]:
    tens = np.arange(10, _STEPS + 1, 10)
    asked = np.ceil(tens * len(first) / _STEPS - 1e-9).astype(int)
    oracle = np.cumsum(first.ranked_losses)[asked - 1] / asked
    rows = [
        (
            f"{per_cent}\u00a0%",
            *(words.loss(s[per_cent - 1].loss, found.is_share) for s in slider.steps.values()),
            words.loss(float(least), found.is_share),
            words.loss(found.loss, found.is_share),
        )
        for per_cent, least in zip(tens.tolist(), oracle, strict=True)
    ]
    names = [f"By {words.shown(name)}" for name in slider.steps]
    return ("At least accepted", *names, "Best possible", "Random order"), tuple(rows)
