"""What the page's figures share: colours for two themes, axes, margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scorewise.plots import BLUE, COLORS, GREY, VERMILLION
from scorewise.report._words import escaped

Trace = dict[str, Any]

INK, PAPER, GRID, PALE = "#1C2128", "#FFFFFF", "#E4E7EB", "#C3C9D1"
DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot")
SYMBOLS = ("circle", "diamond-open", "triangle-up-open")
LEGEND = 26  # characters of a name, so that a telephone has room for it
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

# Figures are made for the light theme; the page exchanges these colours in the dark.
_IN_THE_DARK = {
    BLUE: "#56B4E9",
    VERMILLION: "#FF9657",
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
class Figure:
    """A figure with what it says in words and in numbers.

    Attributes
    ----------
    name : str
    caption, alternative : str
        What to see, and what those who see nothing hear.
    spec : dict
        Plotly's data and layout.
    head : tuple of str
    rows : list of tuple of str
        The table behind the figure; none where the page has one already.
    """

    name: str
    caption: str
    alternative: str
    spec: dict[str, Any]
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def faint(color: str) -> str:
    """The same colour for an area through which others are seen."""
    return f"rgba({', '.join(str(int(color[i : i + 2], 16)) for i in (1, 3, 5))}, 0.18)"


def dark_colors() -> dict[str, str]:
    """By the colour in the light theme: the one in the dark."""
    return _IN_THE_DARK | {faint(one): faint(two) for one, two in _IN_THE_DARK.items()}


def axis(title: str, *, percent: bool = False, **more: Any) -> dict[str, Any]:
    """An axis with a quiet grid."""
    suffix = {"ticksuffix": " %"} if percent else {}
    look = {
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
        **look,
        **suffix,
        **more,
    }


def layout(height: int, **more: Any) -> dict[str, Any]:
    """A layout with the legend above the plot, where it has room on a telephone too."""
    return {
        "height": height,
        "autosize": True,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8, "pad": 0},
        "font": {"family": FONT, "size": 13, "color": INK},
        "paper_bgcolor": PAPER,
        "plot_bgcolor": PAPER,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": PALE, "font": {"color": INK}},
        "dragmode": False,  # so that a finger on the figure moves the page
        "uirevision": "kept",  # what a reader has hidden stays hidden in the other theme
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        **more,
    }


def line(name: str, x: Any, y: Any, color: str, **more: Any) -> Trace:
    """A line, or a point where it is one; its name is fit to be shown."""
    look = {"width": more.pop("width", 2), "color": color, "dash": more.pop("dash", "solid")}
    mode = "lines" if len(x) > 1 else "markers"
    return {
        "type": "scatter",
        "mode": mode,
        "name": escaped(name),
        "x": x,
        "y": y,
        "line": look,
        "marker": {"color": color, "size": 8},
        **more,
    }
