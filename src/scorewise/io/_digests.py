"""Which file was it? What its bytes come to, and how to tell at a glance that it has changed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

_BLOCK = 8 << 20


def files_of(path: Path) -> list[Path]:
    """The file itself, or the Parquet files of a folder."""
    if not path.is_dir():
        return [path]
    from scorewise.io._parquet_folder import parquet_files

    return parquet_files(path)


def stamp(path: Path) -> list[list[str | int]]:
    """What tells a file that was replaced or changed, also by one of the same size and time."""
    found: list[list[str | int]] = []
    for file in files_of(path):
        now = file.stat()
        times = (now.st_mtime_ns, now.st_ctime_ns)
        found.append([str(file.relative_to(path)), now.st_size, now.st_ino, *times])
    return found


def digest(path: Path, stop: threading.Event | None = None) -> str:
    """SHA-256 of a file as hexadecimal digits; of a folder, that of its files' names and digests.

    ``stop`` ends it early, with a number that means nothing.
    """
    if path.is_dir():
        lines = [f"{digest(file, stop)}  {file.relative_to(path)}\n" for file in files_of(path)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    found = hashlib.sha256()
    with path.open("rb") as file:
        while (block := file.read(_BLOCK)) and not (stop and stop.is_set()):
            found.update(block)
    return found.hexdigest()


@contextmanager
def digesting(path: Path) -> Iterator[Future[str]]:
    """The digest of a file, computed beside other work."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as beside:
        try:
            yield beside.submit(digest, path, stop)
        finally:
            stop.set()
