"""Compiling once: results are kept on disk, and whoever has to wait is told why."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba import njit

_PATIENCE = 1.0  # seconds


def cached(function: Callable[..., Any]) -> Any:
    """Compile a function, and keep the result on disk where there is a place for it.

    Numba looks for changes only in the file of the function itself. With a digest of all files here
    in its name, it sees changes in what the function calls, too.
    """
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    function.__qualname__ += f"_{digest.hexdigest()[:16]}"
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written to
        return njit(**options)(function)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Say what is being done, if it takes longer than one would wait without a word."""
    logger = logging.getLogger("scorewise")
    timer = threading.Timer(_PATIENCE, logger.warning, [what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
