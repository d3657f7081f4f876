"""The page's figures, as Plotly's plain dictionaries and thinned to what a screen resolves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from scorewise._numerics import spread
from scorewise.compare import Comparison, Evaluation, ForeignRows, LabelsBought, Standing
from scorewise.plots import BLUE, COLORS, GREY, VERMILLION, histogram_edges, histogram_shares
from scorewise.report import _words as words
from scorewise.report._looks import (
    DASHES,
    LEGEND,
    PALE,
    SYMBOLS,
    Figure,
    Trace,
    axis,
    faint,
    layout,
    line,
)

MARKS = {"best": "◆", "indistinguishable": "●", "worse": "○"}
METRICS = {"aulc": "AULC", "auroc": "AUROC", "mean loss": "mean loss"}
_MEANINGS = {
    "best": (BLUE, "diamond", "best here"),
    "indistinguishable": (BLUE, "circle", "cannot be told from the best"),
    "worse": (GREY, "circle-open", "worse than the best"),
}
_ROUNDS = 200  # of a learning curve
_TABLE = 40  # rows behind a figure


def comparison_figure(found: Comparison) -> Figure:
    """Measures from the best down, each with how far it is behind."""
    metric = METRICS.get(found.metric, found.metric)
    places = {row.name: i for i, row in enumerate(found.standings)}
    traces = []
    for verdict, (color, symbol, meaning) in _MEANINGS.items():
        rows = [row for row in found.standings if row.verdict == verdict]
        if rows:
            traces.append(_dots(rows, places, color, symbol, meaning))
    worse = sum(row.verdict == "worse" for row in found.standings)
    n = len(places)
    spec = {
        "data": traces,
        "layout": layout(
            120 + 26 * n,
            xaxis=axis(f"{metric} behind the best", zeroline=True, zerolinecolor=PALE, nticks=6),
            yaxis=axis(
                "",
                tickmode="array",
                tickvals=list(range(n)),
                ticktext=[words.label(row.name, 26) for row in found.standings],
                range=[n - 0.4, -0.6],
                showgrid=False,
            ),
        ),
    }
    together = ", of all measures together" if n > 1 else ""
    return Figure(
        f"comparison-{found.task}",
        f"How far each measure is behind the best, with {words.share(found.confidence)} "
        f"intervals{together}. One that reaches 0 belongs to a measure that cannot be told from "
        "the best.",
        f"Dot chart of {words.count(n, 'measure')}: {words.shown(found.best)} is best with "
        f"{metric} {words.number(found.standings[0].value)}, {worse} of the others "
        f"{'is' if worse == 1 else 'are'} worse. The table below has all numbers.",
        spec,
    )


def _dots(
    rows: list[Standing], places: dict[str, int], color: str, symbol: str, meaning: str
) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": meaning,
        "x": [row.behind for row in rows],
        "y": [places[row.name] for row in rows],
        "text": [words.label(row.name) for row in rows],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "color": color,
            "thickness": 1.6,
            "width": 4,
            "array": [row.high - row.behind for row in rows],
            "arrayminus": [row.behind - row.low for row in rows],
        },
        "marker": {"color": color, "symbol": symbol, "size": 10, "line": {"color": color}},
        "hovertemplate": "%{text}: %{x:.3g} behind<extra></extra>",
    }


def calibration_figure(found: Evaluation) -> Figure:
    """The loss that was paid against the one that was expected."""
    bins, scale = found.calibration, 100 if found.is_share else 1
    x, y, low, high = (
        scale * np.asarray(v)
        for v in (bins.bin_predicted, bins.bin_realized, bins.bin_low, bins.bin_high)
    )
    low, high = (np.where(np.isfinite(limit), limit, y) for limit in (low, high))
    ends = [min(0.0, *x.tolist(), *low.tolist()), max(*x.tolist(), *high.tolist(), 1e-9)]
    unit = " %" if found.is_share else ""
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": "rows of like uncertainty",
        "x": x,
        "y": y,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": high - y,
            "arrayminus": y - low,
            "color": BLUE,
            "thickness": 1.5,
            "width": 4,
        },
        "marker": {"color": BLUE, "size": 9},
        "hovertemplate": f"expected %{{x:.3g}}{unit}, paid %{{y:.3g}}{unit}<extra></extra>",
    }
    honest = line("as expected", ends, ends, GREY, width=1.4, dash="dash", hoverinfo="skip")
    name = words.label(found.loss_name, LEGEND)
    return Figure(
        "calibration",
        "Each point is a group of rows of like uncertainty, with its "
        f"{words.share(bins.confidence)} interval. Above the dashed line rows cost more than "
        "expected: there the model is too sure of itself.",
        f"Scatter chart of paid against expected {words.shown(found.loss_name)} in "
        f"{words.count(len(x), 'group')}: on average {words.loss(bins.predicted, found.is_share)} "
        f"expected, {words.loss(bins.realized, found.is_share)} paid.",
        {
            "data": [points, honest],
            "layout": layout(
                440,
                xaxis=axis(f"mean {name} that was expected", percent=found.is_share),
                yaxis=axis(f"mean {name} that was paid", percent=found.is_share),
            ),
        },
        ("Rows", "Expected", "Paid", "Interval of paid"),
        tuple(
            (
                f"{n:,}",
                *(words.loss(v / scale, found.is_share) for v in (one, two)),
                f"{words.loss(a, found.is_share)} to {words.loss(b, found.is_share)}",
            )
            for n, one, two, a, b in zip(
                bins.bin_count.tolist(),
                x.tolist(),
                y.tolist(),
                bins.bin_low.tolist(),
                bins.bin_high.tolist(),
                strict=True,
            )
        ),
    )


def ood_figure(found: ForeignRows) -> Figure:
    """Histograms of both sets over the same bins."""
    inside, outside = (np.asarray(u)[np.isfinite(u)] for u in (found.inside, found.outside))
    edges, has_zeros = histogram_edges(inside, outside, None)
    sets = {
        "familiar rows": (inside, BLUE, {"shape": ""}),
        "foreign rows": (outside, VERMILLION, {"shape": "/", "size": 6, "fgcolor": VERMILLION}),
    }
    width = edges[1] - edges[0]
    x = (edges[:-1] + edges[1:]) / 2
    names = [f"{a:.3g} to {b:.3g}" for a, b in pairwise(edges.tolist())]
    names = ["exactly 0", *names[1:]] if has_zeros else names
    shares = {name: histogram_shares(u, edges, has_zeros) for name, (u, *_) in sets.items()}
    bars = [
        {
            "type": "bar",
            "name": f"{name} ({len(u):,})",
            "x": x,
            "y": 100 * shares[name],
            "width": 0.94 * width,
            "text": names,
            "textposition": "none",
            "marker": {
                "color": faint(color),
                "line": {"color": color, "width": 1.4},
                "pattern": look,
            },
            "hovertemplate": "%{text}: %{y:.3g} %<extra>" + name + "</extra>",
        }
        for name, (u, color, look) in sets.items()
    ]
    ticks: dict[str, Any] = {}
    if has_zeros:
        marks = np.linspace(0, edges[-1], 5)[1:]
        ticks = {
            "tickvals": [x[0], *marks],
            "ticktext": ["exactly 0", *(f"{m:.2g}" for m in marks)],
        }
    zeros = [float(s[0]) for s in shares.values()] if has_zeros else []
    exactly = (
        f" Exactly 0 are {words.share(zeros[0])} of the familiar and {words.share(zeros[1])} of "
        "the foreign rows."
        if zeros
        else ""
    )
    measure = words.shown(found.measure)
    return Figure(
        "ood",
        f"How {measure} uncertainty is spread over familiar and foreign rows: the less the two "
        f"overlap, the better foreign rows are told.{exactly}",
        f"Two histograms of {measure} uncertainty: its median is "
        f"{words.number(float(np.median(inside)))} in familiar and "
        f"{words.number(float(np.median(outside)))} in foreign rows; AUROC "
        f"{found.metrics.auroc:.3f}.{exactly}",
        {
            "data": bars,
            "layout": layout(
                400,
                barmode="overlay",
                xaxis=axis(f"{words.label(found.measure)} uncertainty", **ticks),
                yaxis=axis("share of the set's rows", percent=True),
            ),
        },
        ("Uncertainty", *(name.capitalize() for name in sets)),
        tuple(
            (name, *(words.share(float(s[i])) for s in shares.values()))
            for i, name in enumerate(names)
            if not (has_zeros and i == 1)  # the gap between zeros and what is above
        ),
    )


def learning_figure(found: Evaluation, learning: LabelsBought) -> Figure:
    """The mean loss of the runs after so many labels, and one standard deviation."""
    scale = 100 if found.is_share else 1
    traces: list[Trace] = []
    rows, said = [], []
    measures = [name for name in learning.curves if name != "random"]
    for name, (labels, losses) in learning.curves.items():
        i = measures.index(name) if name != "random" else -1
        color = COLORS[i % len(COLORS)] if i >= 0 else GREY
        at = spread(len(labels), _ROUNDS)
        x, several = labels[at], scale * losses[:, at]
        mean = several.mean(axis=0)
        sd = several.std(axis=0, ddof=1) if len(several) > 1 else np.zeros(len(at))
        group = {"legendgroup": f"run{i}"}
        if len(several) > 1:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "x": np.r_[x, x[::-1]],
                    "y": np.r_[mean + sd, (mean - sd)[::-1]],
                    "fill": "toself",
                    "fillcolor": faint(color),
                    "line": {"width": 0},
                    "hoverinfo": "skip",
                    "showlegend": False,
                    **group,
                }
            )
        dash = DASHES[i % len(DASHES)] if i >= 0 else "dash"
        traces.append(line(words.shown(name, LEGEND), x, mean, color, dash=dash, width=2.5) | group)
        last = words.loss(float(mean[-1]) / scale, found.is_share)
        said.append(f"{words.shown(name)} ends at {last}")
        some = spread(len(x), max(2, _TABLE // len(learning.curves)))
        rows += [
            (
                words.shown(name),
                f"{labels_:,.0f}",
                words.loss(m / scale, found.is_share),
                words.loss(s / scale, found.is_share) if len(several) > 1 else words.NOTHING,
            )
            for labels_, m, s in zip(
                x[some].tolist(), mean[some].tolist(), sd[some].tolist(), strict=True
            )
        ]
    loss_name = words.label(found.loss_name, LEGEND)
    return Figure(
        "learning",
        "Mean of the runs, with a band of one standard deviation either side where there are "
        "several: the lower, the fewer labels are needed.",
        f"Line chart of the {words.shown(found.loss_name)} against the number of labels, by the "
        f"measure that chose them: {'; '.join(said)}.",
        {
            "data": traces,
            "layout": layout(
                400, xaxis=axis("number of labels"), yaxis=axis(loss_name, percent=found.is_share)
            ),
        },
        ("Chosen by", "Labels", "Mean", "Standard deviation"),
        tuple(rows),
    )


def simplex_figure(found: Evaluation, points: tuple[np.ndarray, np.ndarray]) -> Figure:
    """Where mean predictions lie between three classes."""
    mean, y = points
    traces, rows = [], []
    for k, name in enumerate(found.class_names):
        here = mean[y == k]
        a, b, c = (np.round(here[:, j], 4) for j in range(3))
        traces.append(
            {
                "type": "scatterternary",
                "mode": "markers",
                "name": words.label(name, 24),
                "a": a,
                "b": b,
                "c": c,
                "marker": {"color": COLORS[k], "symbol": SYMBOLS[k], "size": 7, "opacity": 0.75},
                "hovertemplate": "%{a:.2f}, %{b:.2f}, %{c:.2f}",
            }
        )
        centre = here.mean(axis=0) if len(here) else np.full(3, np.nan)
        rows.append(
            (words.shown(name), f"{len(here):,}", *(words.number(v, ".3f") for v in centre))
        )
    corner: dict[str, Any] = {"gridcolor": PALE, "linecolor": GREY, "nticks": 5, "min": 0}
    a, b, c = ({"title": {"text": words.label(name, 14)}, **corner} for name in found.class_names)
    shape = {"sum": 1, "aaxis": a, "baxis": b, "caxis": c, "bgcolor": "rgba(0, 0, 0, 0)"}
    return Figure(
        "simplex",
        f"Mean predictions of {words.count(len(y), 'row')} between the three classes; colour and "
        "shape tell the label. Near a corner the model is sure; a point at a corner that is not "
        "its own is a confident mistake.",
        f"Triangle of {words.count(len(y), 'mean prediction')}, one corner per class; the table "
        "has the mean position of each label's points.",
        {
            "data": traces,
            "layout": layout(480, ternary=shape, margin={"l": 60, "r": 60, "t": 40, "b": 40}),
        },
        ("Label", "Points", *(f"Mean of {words.shown(name, 24)}" for name in found.class_names)),
        tuple(rows),
    )
