"""The look of the displays, for figures of your own: colours, lines, Axes, legends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from scorewise._text import PERCENT, shorten
from scorewise.errors import InvalidInput
from scorewise.rules import Unit

__all__ = [
    "BLUE",
    "COLORS",
    "GREY",
    "ORANGE",
    "VERDICT_MARKS",
    "VERMILION",
    "VerdictMark",
    "add_legend",
    "axes_for",
    "despine",
    "line_style",
    "loss_label",
    "percent_axis",
]

Axes = Any  # matplotlib is imported only when something is drawn
Figure = Any

# Okabe and Ito's, which the colour-blind can distinguish; their yellow is too pale for lines
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
BLUE, VERMILION, ORANGE = COLORS[0], COLORS[1], COLORS[4]
GREY = "#6E6E6E"
_DASHES = (
    "-",
    (0, (4, 1.5)),
    (0, (6, 2, 1.5, 2)),
    (0, (1.5, 1.5)),
    (0, (9, 2.5)),
    (0, (5, 2, 1, 2, 1, 2)),
)


class VerdictMark(NamedTuple):
    """The mark of a measure in a comparison; verdicts differ by shape, not only by colour.

    Attributes
    ----------
    color : str
    marker : str
        Marker of matplotlib.
    is_filled : bool
    symbol : str
        Marker of Plotly.
    character : str
        The mark within a text.

    Examples
    --------
    >>> from scorewise.plots.style import VERDICT_MARKS
    >>> mark = VERDICT_MARKS["worse"]
    >>> mark.character, mark.marker, mark.is_filled
    ('○', 'o', False)
    """

    color: str
    marker: str
    is_filled: bool
    symbol: str
    character: str


VERDICT_MARKS = {
    "best": VerdictMark(BLUE, "D", True, "diamond", "◆"),
    "indistinguishable": VerdictMark(BLUE, "o", True, "circle", "●"),
    "worse": VerdictMark(GREY, "o", False, "circle-open", "○"),
}


def axes_for(ax: Any, size: tuple[float, float], n: int = 1) -> tuple[Figure, list[Axes]]:
    """Return the figure and the Axes to draw on: those passed, or new ones.

    Parameters
    ----------
    ax : Axes, sequence of n Axes, or None
        None for a new figure.
    size : (float, float)
        Width and height of a new figure, in inches.
    n : int
        Number of Axes.

    Returns
    -------
    figure : Figure
    axes : list of n Axes

    Raises
    ------
    InvalidInput
        If ``ax`` does not hold n Axes.
    ImportError
        Without matplotlib: ``pip install 'scorewise[plots]'``.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scorewise.plots.style import axes_for
    >>> ax = Figure().subplots()
    >>> figure, axes = axes_for(ax, size=(6, 4))
    >>> axes == [ax], figure is ax.figure
    (True, True)
    """
    try:
        from matplotlib import axes
    except ImportError as error:
        raise ImportError(
            "scorewise's displays need matplotlib: pip install 'scorewise[plots]'"
        ) from error
    if ax is None:
        from matplotlib import pyplot

        figure, grid = pyplot.subplots(1, n, figsize=size, layout="constrained", squeeze=False)
        return figure, list(grid[0])
    passed_axes = [ax] if n == 1 else list(ax) if isinstance(ax, Iterable) else []
    if len(passed_axes) != n or not all(isinstance(item, axes.Axes) for item in passed_axes):
        expected = "one matplotlib Axes" if n == 1 else f"{n} matplotlib Axes"
        raise InvalidInput(f"{expected} can be drawn on, not {ax!r}")
    return passed_axes[0].figure, passed_axes


def add_legend(ax: Axes, handles: Sequence[Any], labels: Sequence[str], **options: Any) -> Any:
    """Return a new legend, which shows every label literally, without mathematical notation.

    Parameters
    ----------
    ax : Axes
    handles : sequence of artists
    labels : sequence of str
        One for each handle; they may begin with an underscore or contain dollar signs.
    **options
        Those of matplotlib's ``Axes.legend``.

    Returns
    -------
    Legend
        It is on ``ax`` already.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scorewise.plots.style import add_legend
    >>> ax = Figure().subplots()
    >>> legend = add_legend(ax, ax.plot([0.2, 0.1]), ["_cost in $"])
    >>> legend.get_texts()[0].get_text()
    '_cost in $'
    """
    # matplotlib leaves out labels that begin with "_", so they are put in afterwards
    box = ax.legend(handles, [str(i) for i in range(len(labels))], **options)
    for text, label in zip(box.get_texts(), labels, strict=True):
        text.set_parse_math(False)
        text.set_text(label)
    return box


def line_style(i: int) -> dict[str, Any]:
    """Return colour and dashes of the i-th line, as keywords of matplotlib's ``plot``.

    The first six differ in both; up to 36 lines no combination repeats.

    Parameters
    ----------
    i : int
        From 0.

    Returns
    -------
    dict
        With the keys ``"color"`` and ``"linestyle"``.

    Examples
    --------
    >>> from scorewise.plots.style import line_style
    >>> line_style(0), line_style(1)
    ({'color': '#0072B2', 'linestyle': '-'}, {'color': '#D55E00', 'linestyle': (0, (4, 1.5))})
    """
    n = len(COLORS)
    return {"color": COLORS[i % n], "linestyle": _DASHES[(i + i // n) % n]}


def loss_label(loss_name: str | Unit) -> str:
    """Return the name of a loss as an axis shows it, on one line.

    Parameters
    ----------
    loss_name : str or Unit
        A name, or the ``unit`` of a rule.

    Returns
    -------
    str

    Examples
    --------
    >>> import scorewise as sw
    >>> from scorewise.plots.style import loss_label
    >>> loss_label(sw.get_rule("zero-one").unit), loss_label("euros")
    ('error', 'euros')
    """
    return shorten(loss_name.label if isinstance(loss_name, Unit) else loss_name)


def percent_axis(axis: Any) -> None:
    """Show the proportions along a matplotlib axis as percentages, with the decimals they need.

    Parameters
    ----------
    axis : Axis of matplotlib
        Such as ``ax.xaxis``.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scorewise.plots.style import percent_axis
    >>> ax = Figure().subplots()
    >>> percent_axis(ax.xaxis)
    >>> ax.xaxis.get_major_formatter()(0.25)
    '25 %'
    """
    axis.set_major_formatter(lambda share, _: f"{round(100 * share, 6):g}{PERCENT}")


def despine(ax: Axes) -> None:
    """Remove the top and right sides of the frame.

    Parameters
    ----------
    ax : Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scorewise.plots.style import despine
    >>> ax = Figure().subplots()
    >>> despine(ax)
    >>> ax.spines["top"].get_visible(), ax.spines["left"].get_visible()
    (False, True)
    """
    ax.spines[["top", "right"]].set_visible(False)
