"""The displays that the page shows, as plain Plotly dictionaries."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from scorewise._numerics import evenly_spaced
from scorewise._text import PERCENT
from scorewise.compare import VERDICTS, Evaluation, Standing
from scorewise.plots import CalibrationDisplay, ComparisonDisplay, LearningCurveDisplay, OODDisplay
from scorewise.plots.style import BLUE, COLORS, GREY, VERDICT_MARKS, VERMILION
from scorewise.report import _format as text
from scorewise.rules import Unit

Trace = dict[str, Any]

INK, PAPER, GRID, PALE = "#1C2128", "#FFFFFF", "#E4E7EB", "#C3C9D1"
LEGEND_WIDTH = 26  # characters of a name, so that it fits on a phone
_SYMBOLS = ("circle", "diamond-open", "triangle-up-open")
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
_DASHES = {"-": "solid", "--": "dash"}  # of matplotlib's line styles that have a name
_ROUNDS = 200  # of a learning curve
_TABLE_ROWS = 40  # below a figure of learning curves

# Figures are made for the light theme; in the dark theme the page replaces these colours.
_DARK = {
    BLUE: "#56B4E9",
    VERMILION: "#FF9657",
    COLORS[2]: "#3CC9A0",
    COLORS[3]: "#E8A6C8",
    COLORS[4]: "#F2BE4E",
    COLORS[5]: "#B5E0F8",
    GREY: "#A6AEB9",
    INK: "#E8EBEF",
    PAPER: "#15191F",
    GRID: "#2B323C",
    PALE: "#4C5561",
}


@dataclass(frozen=True)
class PageFigure:
    """A figure with its caption, its description and its numbers.

    Attributes
    ----------
    name : str
    caption, alternative : str
        What to look for, and the description for screen readers.
    spec : dict
        Plotly's data and layout.
    head : tuple of str
    rows : tuple of tuple of str
        The table below the figure; empty where the page has one already.
    """

    name: str
    caption: str
    alternative: str
    spec: dict[str, Any]
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


# -- colours, axes and lines -----------------------------------------------------------------------


def faint(color: str) -> str:
    """The same colour, transparent enough for an area that lies over others."""
    return f"rgba({', '.join(str(int(color[i : i + 2], 16)) for i in (1, 3, 5))}, 0.18)"


def dark_colors() -> dict[str, str]:
    """The colours of the dark theme, by those of the light theme."""
    return _DARK | {faint(light): faint(dark) for light, dark in _DARK.items()}


def axis(title: str, *, suffix: str = "", **more: Any) -> dict[str, Any]:
    """An axis with a pale grid, whose numbers are followed by the suffix."""
    style = {
        "automargin": True,
        "gridcolor": GRID,
        "linecolor": PALE,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": PALE,
        "ticklen": 4,
    }
    return {
        "title": {"text": title, "standoff": 10, "font": {"size": 13}},
        **style,
        "ticksuffix": suffix,
        **more,
    }


def layout(height: int, **more: Any) -> dict[str, Any]:
    """A layout with the legend above the plot, where a phone has room for it too."""
    return {
        "height": height,
        "autosize": True,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8, "pad": 0},
        "font": {"family": _FONT, "size": 13, "color": INK},
        "paper_bgcolor": PAPER,
        "plot_bgcolor": PAPER,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": PALE, "font": {"color": INK}},
        "dragmode": False,  # so that a finger on the figure scrolls the page
        "uirevision": "same",  # what a reader has hidden stays hidden in the other theme
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        **more,
    }


def line(name: str, x: Any, y: Any, color: str, **more: Any) -> Trace:
    """A line, or a marker for a single point; the name is already rendered."""
    style = {"width": more.pop("width", 2), "color": color, "dash": more.pop("dash", "solid")}
    return {
        "type": "scatter",
        "mode": "lines" if len(x) > 1 else "markers",
        "name": text.plotly_text(name),
        "x": x,
        "y": y,
        "line": style,
        "marker": {"color": color, "size": 8},
        **more,
    }


# -- the figures -----------------------------------------------------------------------------------


def comparison_figure(display: ComparisonDisplay) -> PageFigure:
    """Return the figure of measures, from the best down, with their distances to the best."""
    comparison, standings = display.comparison, display.comparison.standings
    places = {row.name: i for i, row in enumerate(standings)}
    groups = {v: [row for row in standings if row.verdict == v] for v in VERDICTS}
    n_worse, n = len(groups["worse"]), len(places)
    spec = {
        "data": [_dots(rows, places, verdict) for verdict, rows in groups.items() if rows],
        "layout": layout(
            120 + 26 * n,
            xaxis=axis(display.axis_label, zeroline=True, zerolinecolor=PALE, nticks=6),
            yaxis=axis(
                "",
                tickmode="array",
                tickvals=list(range(n)),
                ticktext=[text.plotly_name(row.name, LEGEND_WIDTH) for row in standings],
                range=[n - 0.4, -0.6],
                showgrid=False,
            ),
        ),
    }
    together = ", which hold for all measures together" if n > 1 else ""
    return PageFigure(
        f"comparison-{comparison.task}",
        f"Distance of each measure to the best, with {text.share_text(comparison.confidence)} "
        f"intervals{together}. A measure whose interval reaches 0 is indistinguishable from the "
        "best.",
        f"Dot chart of {text.count(n, 'measure')}: {text.name_text(comparison.best)} is best with "
        f"{comparison.metric_name} {text.number(standings[0].value)}, {n_worse} of the others "
        f"{'is' if n_worse == 1 else 'are'} worse. The table below has all numbers.",
        spec,
    )


def _dots(rows: list[Standing], places: dict[str, int], verdict: str) -> Trace:
    mark = VERDICT_MARKS[verdict]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": VERDICTS[verdict],
        "x": [row.distance_to_best for row in rows],
        "y": [places[row.name] for row in rows],
        "text": [text.plotly_name(row.name) for row in rows],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "color": mark.color,
            "thickness": 1.6,
            "width": 4,
            "array": [row.high - row.distance_to_best for row in rows],
            "arrayminus": [row.distance_to_best - row.low for row in rows],
        },
        "marker": {
            "color": mark.color,
            "symbol": mark.symbol,
            "size": 10,
            "line": {"color": mark.color},
        },
        "hovertemplate": "%{text}: %{x:.3g} from the best<extra></extra>",
    }


def calibration_figure(display: CalibrationDisplay, unit: Unit) -> PageFigure:
    """Return the figure of the incurred against the expected loss, in bins."""
    bins = display.calibration
    below, above = unit.scale * display.errors
    x_range, y_range = unit.scale * np.array(display.limits)
    ends = [min(x_range[0], y_range[0]), max(x_range[1], y_range[1])]
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": "rows of similar uncertainty",
        "x": unit.scale * bins.bin_expected,
        "y": unit.scale * bins.bin_incurred,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": above,
            "arrayminus": below,
            "color": BLUE,
            "thickness": 1.5,
            "width": 4,
        },
        "marker": {"color": BLUE, "size": 9},
        "hovertemplate": f"expected %{{x:.3g}}{unit.suffix}, incurred %{{y:.3g}}{unit.suffix}"
        "<extra></extra>",
    }
    diagonal = line("calibrated", ends, ends, GREY, width=1.4, dash="dash", hoverinfo="skip")
    noun = text.plotly_name(unit.noun, LEGEND_WIDTH)
    return PageFigure(
        "calibration",
        "Each point is a group of rows of similar uncertainty, with its "
        f"{text.share_text(bins.confidence)} interval. Above the dashed line rows incur more loss "
        "than expected: the model is overconfident there. Below it the model is underconfident.",
        f"Scatter chart of incurred against expected {text.name_text(unit.noun)} in "
        f"{text.count(len(bins.bin_count), 'group')}: on average "
        f"{text.loss_text(bins.expected, unit)} expected, {text.loss_text(bins.incurred, unit)} "
        "incurred.",
        {
            "data": [points, diagonal],
            "layout": layout(
                440,
                xaxis=axis(f"mean expected {noun}", suffix=unit.suffix, range=x_range),
                yaxis=axis(f"mean incurred {noun}", suffix=unit.suffix, range=y_range),
            ),
        },
        ("Rows", "Expected", "Incurred", "Interval of the incurred loss"),
        tuple(
            (
                f"{n:,}",
                text.loss_text(expected, unit),
                text.loss_text(incurred, unit),
                f"{text.loss_text(lower, unit)} to {text.loss_text(upper, unit)}",
            )
            for n, expected, incurred, lower, upper in zip(
                bins.bin_count.tolist(),
                bins.bin_expected.tolist(),
                bins.bin_incurred.tolist(),
                bins.bin_low.tolist(),
                bins.bin_high.tolist(),
                strict=True,
            )
        ),
    )


def ood_figure(display: OODDisplay) -> PageFigure:
    """Return the figure of in- and out-of-distribution scores, in histograms."""
    histogram = display.histogram()
    edges = histogram.edges
    centers = (edges[:-1] + edges[1:]) / 2
    bin_names = [f"{a:.3g} to {b:.3g}" for a, b in pairwise(edges.tolist())]
    if histogram.has_zeros:
        bin_names[0] = "exactly 0"
    sets: dict[str, tuple[np.ndarray, int, str, dict[str, Any]]] = {
        "in-distribution rows": (histogram.shares_in, display.metrics.n_in, BLUE, {"shape": ""}),
        "out-of-distribution rows": (
            histogram.shares_out,
            display.metrics.n_out,
            VERMILION,
            {"shape": "/", "size": 6, "fgcolor": VERMILION},
        ),
    }
    bars = [
        {
            "type": "bar",
            "name": f"{name} ({n:,})",
            "x": centers,
            "y": 100 * shares,
            "width": 0.94 * (edges[1] - edges[0]),
            "text": bin_names,
            "textposition": "none",
            "marker": {
                "color": faint(color),
                "line": {"color": color, "width": 1.4},
                "pattern": pattern,
            },
            "hovertemplate": "%{text}: %{y:.3g} %<extra>" + name + "</extra>",
        }
        for name, (shares, n, color, pattern) in sets.items()
    ]
    ticks: dict[str, Any] = {}
    zeros = ""
    if histogram.has_zeros:
        marks = np.linspace(0, edges[-1], 5)[1:]
        ticks = {
            "tickvals": [centers[0], *marks],
            "ticktext": ["exactly 0", *(f"{mark:.2g}" for mark in marks)],
        }
        zeros = (
            f" {text.share_text(float(histogram.shares_in[0]))} of the in-distribution and "
            f"{text.share_text(float(histogram.shares_out[0]))} of the out-of-distribution rows "
            "are exactly 0."
        )
    score = text.name_text(display.score_name)
    return PageFigure(
        "ood",
        f"Distribution of {score} in both sets. The less the histograms overlap, the better "
        f"out-of-distribution rows are detected.{zeros}",
        f"Two histograms of {score}: its median is "
        f"{text.number(float(np.median(display.u_in)))} in-distribution and "
        f"{text.number(float(np.median(display.u_out)))} out-of-distribution; AUROC "
        f"{display.metrics.auroc:.3f}.{zeros}",
        {
            "data": bars,
            "layout": layout(
                400,
                barmode="overlay",
                xaxis=axis(text.plotly_name(display.score_name), **ticks),
                yaxis=axis("share of the set's rows", suffix=PERCENT),
            ),
        },
        ("Uncertainty", *(name.capitalize() for name in sets)),
        tuple(
            (name, *(text.share_text(float(shares[i])) for shares, *_ in sets.values()))
            for i, name in enumerate(bin_names)
            if not (histogram.has_zeros and i == 1)  # the gap between zeros and the others
        ),
    )


def learning_figure(display: LearningCurveDisplay, unit: Unit) -> PageFigure:
    """Return the figure of the mean loss by the number of labels, with standard deviations."""
    scale = unit.scale
    traces: list[Trace] = []
    rows, ends = [], []
    for i, (name, (labels, _)) in enumerate(display.curves.items()):
        color, linestyle = display.line_styles[name].values()
        group = {"legendgroup": f"run{i}"}
        rounds = evenly_spaced(len(labels), _ROUNDS)
        x, mean = labels[rounds], display.means[name][rounds]
        deviation = display.deviations[name]
        if deviation is not None:
            deviation = deviation[rounds]
            traces.append(_band(x, scale * mean, scale * deviation, color) | group)
        curve_name, dash = text.name_text(name, LEGEND_WIDTH), _dash(linestyle, 2.5)
        traces.append(line(curve_name, x, scale * mean, color, dash=dash, width=2.5) | group)
        ends.append(f"{text.name_text(name)} ends at {text.loss_text(float(mean[-1]), unit)}")
        rows += [
            (
                text.name_text(name),
                f"{x[k]:,.0f}",
                text.loss_text(float(mean[k]), unit),
                text.MISSING if deviation is None else text.loss_text(float(deviation[k]), unit),
            )
            for k in evenly_spaced(len(x), max(2, _TABLE_ROWS // len(display.curves)))
        ]
    noun = text.plotly_name(unit.noun, LEGEND_WIDTH)
    return PageFigure(
        "learning",
        "Mean of the runs, with a band of one standard deviation on either side where there are "
        "several. Lower is better: fewer labels are needed.",
        f"Line chart of the {text.name_text(unit.noun)} against the number of labels, by the "
        f"measure that chose them: {'; '.join(ends)}.",
        {
            "data": traces,
            "layout": layout(
                400, xaxis=axis("number of labels"), yaxis=axis(noun, suffix=unit.suffix)
            ),
        },
        ("Chosen by", "Labels", "Mean", "Standard deviation"),
        tuple(rows),
    )


def _dash(linestyle: Any, width: float) -> str:
    """Return Plotly's dashes for a line style of matplotlib, which counts in line widths."""
    if isinstance(linestyle, str):
        return _DASHES[linestyle]
    _, lengths = linestyle
    return ",".join(f"{width * length:g}px" for length in lengths)


def _band(x: np.ndarray, mean: np.ndarray, deviation: np.ndarray, color: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": np.r_[x, x[::-1]],
        "y": np.r_[mean + deviation, (mean - deviation)[::-1]],
        "fill": "toself",
        "fillcolor": faint(color),
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def simplex_figure(evaluation: Evaluation, points: tuple[np.ndarray, np.ndarray]) -> PageFigure:
    """Return the figure of mean predictions in the triangle of three classes."""
    mean, y = points
    traces, rows = [], []
    for k, name in enumerate(evaluation.class_names):
        of_class = mean[y == k]
        a, b, c = (np.round(of_class[:, j], 4) for j in range(3))
        traces.append(
            {
                "type": "scatterternary",
                "mode": "markers",
                "name": text.plotly_name(name, 24),
                "a": a,
                "b": b,
                "c": c,
                "marker": {"color": COLORS[k], "symbol": _SYMBOLS[k], "size": 7, "opacity": 0.75},
                "hovertemplate": "%{a:.2f}, %{b:.2f}, %{c:.2f}",
            }
        )
        center = of_class.mean(axis=0) if len(of_class) else np.full(3, np.nan)
        rows.append(
            (text.name_text(name), f"{len(of_class):,}", *(text.number(v, ".3f") for v in center))
        )
    style: dict[str, Any] = {"gridcolor": PALE, "linecolor": GREY, "nticks": 5, "min": 0}
    a, b, c = (
        {"title": {"text": text.plotly_name(name, 12)}, **style} for name in evaluation.class_names
    )
    shape = {"sum": 1, "aaxis": a, "baxis": b, "caxis": c, "bgcolor": "rgba(0, 0, 0, 0)"}
    return PageFigure(
        "simplex",
        f"Mean predictions of {text.count(len(y), 'row')} for the three classes; colour and shape "
        "show the label. Near a corner the model is certain; a point near the corner of another "
        "class is a confident mistake.",
        f"Triangle of {text.count(len(y), 'mean prediction')}, one corner per class; the table "
        "has the mean position of each label's points.",
        {
            "data": traces,
            "layout": layout(480, ternary=shape, margin={"l": 75, "r": 75, "t": 40, "b": 40}),
        },
        (
            "Label",
            "Points",
            *(f"Mean of {text.name_text(name, 24)}" for name in evaluation.class_names),
        ),
        tuple(rows),
    )
