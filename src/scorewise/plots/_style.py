"""What the displays share: colours, names that show as they are written, and few vertices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from scorewise.errors import InvalidInput

Axes = Any  # matplotlib is imported where something is drawn
Figure = Any

# Okabe and Ito's, which the colour-blind can tell; their yellow is too pale for lines
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
BLUE, VERMILLION = COLORS[:2]
GREY = "#6E6E6E"
DASHES = (
    "-",
    (0, (4, 1.5)),
    (0, (6, 2, 1.5, 2)),
    (0, (1.5, 1.5)),
    (0, (9, 2.5)),
    (0, (5, 2, 1, 2, 1, 2)),
)


def axes_for(ax: Any, size: tuple[float, float], n: int = 1) -> tuple[Figure, list[Axes]]:
    """The ``n`` Axes that were given, or those of a new figure of ``size`` inches."""
    try:
        from matplotlib import axes
    except ImportError as error:
        raise ImportError(
            "scorewise's displays need matplotlib: pip install 'scorewise[plots]'"
        ) from error
    if ax is None:
        from matplotlib import pyplot

        figure, made = pyplot.subplots(1, n, figsize=size, layout="constrained", squeeze=False)
        return figure, list(made[0])
    given = [ax] if n == 1 else list(ax) if isinstance(ax, Iterable) else []
    if len(given) != n or not all(isinstance(one, axes.Axes) for one in given):
        wanted = "one matplotlib Axes" if n == 1 else f"{n} matplotlib Axes"
        raise InvalidInput(f"{wanted} can be drawn on, not {ax!r}")
    return given[0].figure, given


def add_legend(ax: Axes, handles: Sequence[Any], labels: Sequence[str], **options: Any) -> Any:
    """A legend that shows every label as it is written."""
    # matplotlib leaves out labels that begin with "_", so they are put in afterwards
    made = ax.legend(handles, [str(i) for i in range(len(labels))], **options)
    for text, label in zip(made.get_texts(), labels, strict=True):
        text.set_parse_math(False)
        text.set_text(label)
    return made


def line_style(i: int) -> dict[str, Any]:
    """Colour and dashes of the i-th line: six that differ in both, then pairs that are new."""
    n = len(COLORS)
    return {"color": COLORS[i % n], "linestyle": DASHES[(i + i // n) % n]}


def percent_axis(axis: Any) -> None:
    """Show the shares along an axis in per cent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0))


def despine(ax: Axes) -> None:
    """Leave out the two sides of the frame that carry no numbers."""
    ax.spines[["top", "right"]].set_visible(False)
