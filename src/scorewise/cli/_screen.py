"""What is shown on a terminal, and what is printed for machines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scorewise._json import dumps
from scorewise._text import shorten
from scorewise.compare import Comparison


class _Screen(Console):
    """A console that lets who calls it know that nobody reads any more."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def say(*things: Any) -> None:
    """Print sentences and tables; nothing in them is taken for a command to the terminal."""
    console = _Screen(highlight=False)
    for thing in things:
        if isinstance(thing, str):  # what is to be copied is not wrapped
            console.print(Text(_shown(thing)), soft_wrap=thing.startswith(("  ", "Written to ")))
        else:
            console.print(thing)


def complain(text: str) -> None:
    """The same for what goes wrong."""
    console = Console(stderr=True, highlight=False)
    console.print(Text(_shown(text), style="red" if text.startswith("Error") else "yellow"))


def print_json(value: Any) -> None:
    """One line of JSON."""
    sys.stdout.write(dumps(value) + "\n")


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def cell(value: object, width: int = 40) -> Text:
    """A name in one line of a table, the middle left out where it is long."""
    return Text(_shown(shorten(value, width)))


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], n_names: int = 1
) -> Table:
    """A table whose first columns are names, and the others numbers, aligned to the right."""
    made = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for i, column in enumerate(columns):
        made.add_column(column, justify="left" if i < n_names else "right", overflow="fold")
    for row in rows:
        made.add_row(*(cell(x) for x in row))
    return made


def comparison_table(found: Comparison, most: int | None = None) -> Table:
    """Measures from the best to the worst, the first so many."""
    of = f" of {found.task_loss} losses" if found.task == "selective" else ""
    return table(
        f"{found.task}: {found.metric}{of}",
        ["measure", "", found.metric, f"behind [{100 * found.confidence:.6g}% interval]"],
        (
            (
                row.name,
                row.verdict if row.same_order_as is None else f"as {row.same_order_as}",
                f"{row.value:.4f}",
                f"{row.behind:.4f} [{row.low:+.4f}, {row.high:+.4f}]",
            )
            for row in found.standings[:most]
        ),
        n_names=2,
    )
