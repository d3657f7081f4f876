"""A bar for work that takes long, on terminals."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

_PATIENCE = 2.0  # seconds without a bar

_shown = threading.Lock()  # held by the work that has a bar; what it calls shows none of its own

Advance = Callable[[int], None]


@contextmanager
def bar(task: str, total: int | None, show: bool | None) -> Iterator[Advance]:
    """A function to call with how much was done; the bar appears only if it takes long.

    ``show`` is None for "on a terminal only"; True shows it at once, False never.
    """
    # who asks for no bar wants none of what is called either, and so holds the lock
    if (show is None and not sys.stderr.isatty()) or not _shown.acquire(blocking=False):
        yield _nothing
        return
    try:
        with nullcontext(_nothing) if show is False else _drawn(task, total, bool(show)) as advance:
            yield advance
    finally:
        _shown.release()


def _nothing(done: int) -> None:
    """Where nothing is shown."""


@contextmanager
def _drawn(task: str, total: int | None, at_once: bool) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import Progress

    progress = Progress(console=Console(stderr=True), transient=not at_once)
    row = progress.add_task(task, total=total)
    later = threading.Timer(_PATIENCE, progress.start)
    later.daemon = True
    if at_once:
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
