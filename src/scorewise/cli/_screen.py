"""Output: sentences and tables on a terminal, JSON for programs."""

from __future__ import annotations

import os
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
    """A console that goes on where the reader has closed the pipe."""

    def on_broken_pipe(self) -> None:
        _discard_output()


def _discard_output() -> None:
    """Discard what is printed from now on, as nobody reads it; the exit code still counts."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_text(*items: Any, wrap: bool = True) -> None:
    """Print sentences and tables; control characters and markup in them have no effect.

    Lines that users copy, such as paths and commands, are printed with ``wrap=False``.
    """
    console = _Screen(highlight=False)
    for item in items:
        if isinstance(item, str):
            console.print(Text(_printable(item)), soft_wrap=not wrap)
        else:
            console.print(item)


def print_error(text: str, color: str = "yellow") -> None:
    """Print an error or a warning on stderr."""
    console = Console(stderr=True, highlight=False)
    console.print(Text(_printable(text), style=color))


def print_json(value: Any) -> None:
    """Print one line of JSON."""
    try:
        sys.stdout.write(dumps(value) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def cell(value: object, width: int = 40) -> Text:
    """A name on one line of a table, shortened in the middle."""
    return Text(_printable(shorten(value, width)))


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], n_names: int = 1
) -> Table:
    """A table whose first ``n_names`` columns are names; the others are numbers."""
    rich_table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for i, column in enumerate(columns):
        is_name = i < n_names
        rich_table.add_column(
            column, justify="left" if is_name else "right", overflow="fold", no_wrap=not is_name
        )
    for row in rows:
        rich_table.add_row(*(cell(x) for x in row))
    return rich_table


def comparison_table(comparison: Comparison, most: int | None = None) -> Table:
    """Return the measures from the best to the worst, at most ``most`` of them."""
    heading, *rows = comparison.table()
    return table(comparison.title, heading, rows[:most], n_names=2)
