"""A progress bar for long tasks, on terminals and in notebooks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

_DELAY = 2.0  # seconds before a bar is shown
_INTERVAL = 0.2  # seconds between two texts in a notebook
_WIDTH = 30  # characters of a bar in a notebook

_showing = threading.Lock()  # held by the outermost task, so that nested tasks show no bar

Advance = Callable[[int], None]


@contextmanager
def bar(task: str, total: int | None, show: bool | None) -> Iterator[Advance]:
    """Yield a function that advances the bar by an amount of work.

    ``show`` is True for a bar, False for none, and None for a bar on terminals and in notebooks if
    the task takes more than two seconds. Nested tasks show no bar.
    """
    in_notebook = _in_notebook()
    is_hidden = show is None and not (in_notebook or sys.stderr.isatty())
    # show=False takes the lock too, so that nested tasks show no bar
    if is_hidden or not _showing.acquire(blocking=False):
        yield _ignore
        return
    try:
        visible = _notebook_bar if in_notebook else _terminal_bar
        with nullcontext(_ignore) if show is False else visible(task, total, bool(show)) as advance:
            yield advance
    finally:
        _showing.release()


def _in_notebook() -> bool:
    """Return whether the code runs in a kernel of Jupyter, Colab or an editor."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def _ignore(done: int) -> None:
    """Do nothing, where no bar is shown."""


@contextmanager
def _terminal_bar(task: str, total: int | None, at_once: bool) -> Iterator[Advance]:
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


@contextmanager
def _notebook_bar(task: str, total: int | None, at_once: bool) -> Iterator[Advance]:
    """Show a line of text that is overwritten; the bars of rich need ipywidgets in notebooks."""
    n_done, line = 0, ""
    next_time = time.monotonic() + _DELAY * (not at_once)

    def write() -> None:
        nonlocal line
        width = len(line)
        line = f"{task} {n_done:,}" if total is None else _drawn(task, n_done / max(total, 1))
        print(f"\r{line.ljust(width)}", end="", file=sys.stderr, flush=True)

    def advance(done: int) -> None:
        nonlocal n_done, next_time
        n_done += done
        if (now := time.monotonic()) >= next_time:
            next_time = now + _INTERVAL
            write()

    try:
        yield advance
    finally:
        if at_once:
            write()
            print(file=sys.stderr)
        elif line:
            print(f"\r{' ' * len(line)}\r", end="", file=sys.stderr, flush=True)


def _drawn(task: str, share: float) -> str:
    n_full = int(_WIDTH * min(share, 1.0))
    return f"{task} {'█' * n_full}{'░' * (_WIDTH - n_full)} {share:.0%}"


def counted(items: Iterator[Any], advance: Advance) -> Iterator[Any]:
    """Yield the items, and advance the bar by the length of each."""
    for item in items:
        yield item
        advance(len(item))
