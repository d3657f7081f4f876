"""A bar for work that takes long, on terminals."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PATIENCE = 2.0  # seconds without a bar

Advance = Callable[[int], None]


@contextmanager
def bar(task: str, total: int | None, show: bool | None) -> Iterator[Advance]:
    """A function to call with how much was done; the bar appears only if it takes long.

    ``show`` is None for "on a terminal only"; True shows it at once, False never.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    progress = Progress(console=Console(stderr=True), transient=True)
    row = progress.add_task(task, total=total)
    visible_from = time.monotonic() + (0 if show else _PATIENCE)
    started = False

    def advance(done: int) -> None:
        nonlocal started
        progress.advance(row, done)
        if not started and time.monotonic() >= visible_from:
            progress.start()
            started = True

    try:
        yield advance
    finally:
        if started:
            progress.stop()


def counted(items: Iterator[Any], advance: Advance) -> Iterator[Any]:
    """The same items, each reported by its length."""
    for item in items:
        yield item
        advance(len(item))
