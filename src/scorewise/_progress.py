"""A bar for work that takes long, on terminals."""

from __future__ import annotations

import sys
import threading
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

    progress = Progress(console=Console(stderr=True), transient=show is None)
    row = progress.add_task(task, total=total)
    later = threading.Timer(_PATIENCE, progress.start)
    later.daemon = True
    if show:
        progress.start()
    else:
        later.start()
    try:
        yield lambda done: progress.advance(row, done)
    finally:
        later.cancel()
        progress.stop()


def counted(items: Iterator[Any], advance: Advance) -> Iterator[Any]:
    """The same items, each reported by its length."""
    for item in items:
        yield item
        advance(len(item))
