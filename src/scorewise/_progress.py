"""A progress bar for long tasks, on terminals."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

_DELAY = 2.0  # seconds before a bar is shown

_showing = threading.Lock()  # held by the outermost task, so that nested tasks show no bar

Advance = Callable[[int], None]


@contextmanager
def bar(task: str, total: int | None, show: bool | None) -> Iterator[Advance]:
    """Yield a function that advances the bar by an amount of work.

    ``show`` is True for a bar, False for none, and None for a bar on terminals if the task takes
    more than two seconds. Nested tasks show no bar.
    """
    # show=False takes the lock too, so that nested tasks show no bar
    if (show is None and not sys.stderr.isatty()) or not _showing.acquire(blocking=False):
        yield _ignore
        return
    try:
        shown = nullcontext(_ignore) if show is False else _visible_bar(task, total, bool(show))
        with shown as advance:
            yield advance
    finally:
        _showing.release()


def _ignore(done: int) -> None:
    """Do nothing, where no bar is shown."""


@contextmanager
def _visible_bar(task: str, total: int | None, at_once: bool) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import Progress

    progress = Progress(console=Console(stderr=True), transient=not at_once)
    task_id = progress.add_task(task, total=total)
    timer = threading.Timer(_DELAY, progress.start)
    timer.daemon = True
    if at_once:
        progress.start()
    else:
        timer.start()
    try:
        yield lambda done: progress.advance(task_id, done)
    finally:
        timer.cancel()
        progress.stop()


def counted(items: Iterator[Any], advance: Advance) -> Iterator[Any]:
    """Yield the items, and advance the bar by the length of each."""
    for item in items:
        yield item
        advance(len(item))
