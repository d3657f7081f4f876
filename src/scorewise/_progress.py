"""A progress bar for long work, on terminals."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

_PATIENCE = 2.0  # seconds of work without a bar

_showing = threading.Lock()  # held by the outermost work, so that what it calls shows no bar

Advance = Callable[[int], None]


@contextmanager
def bar(task: str, total: int | None, show: bool | None) -> Iterator[Advance]:
    """A function to call with the amount of work that was done.

    ``show`` is True for a bar, False for none, and None for one on terminals if the work takes
    more than two seconds. Within this work no other bar is shown.
    """
    # False holds the lock too: what is called shall not show a bar either
    if (show is None and not sys.stderr.isatty()) or not _showing.acquire(blocking=False):
        yield _ignore
        return
    try:
        with nullcontext(_ignore) if show is False else _drawn(task, total, bool(show)) as advance:
            yield advance
    finally:
        _showing.release()


def _ignore(done: int) -> None:
    """Show nothing."""


@contextmanager
def _drawn(task: str, total: int | None, at_once: bool) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import Progress

    progress = Progress(console=Console(stderr=True), transient=not at_once)
    task_id = progress.add_task(task, total=total)
    later = threading.Timer(_PATIENCE, progress.start)
    later.daemon = True
    if at_once:
        progress.start()
    else:
        later.start()
    try:
        yield lambda done: progress.advance(task_id, done)
    finally:
        later.cancel()
        progress.stop()


def counted(items: Iterator[Any], advance: Advance) -> Iterator[Any]:
    """The same items; each advances the bar by its length."""
    for item in items:
        yield item
        advance(len(item))
