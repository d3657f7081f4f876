"""Atomic writing of files, and locks on folders."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces ``path`` at the end.

    An interrupted run leaves an older file unchanged. A folder is replaced only with
    ``folder=True``.
    """
    path = path.resolve()
    if path.exists() and not (path.is_file() or (folder and path.is_dir())):
        kind = "a folder" if path.is_dir() else "a device"
        raise FileExistsError(EEXIST, f"cannot write a file over {kind}", str(path))
    run = uuid4().hex[:8]
    partial, old = (path.with_name(f".{path.name}.{run}.{x}") for x in ("partial", "old"))
    try:
        yield partial
        if path.is_dir():  # a folder cannot be replaced in one step
            os.replace(path, old)
        os.replace(partial, path)
    finally:
        if old.exists() and not path.exists():
            os.replace(old, path)
        _remove(partial)
        _remove(old)


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold an exclusive lock on a folder, where the system has such locks.

    Yields whether the folder is still there: the process that held the lock before may have
    removed it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield True
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network folders have none
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder.is_dir() and os.path.samestat(folder.stat(), os.fstat(handle))
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    """Remove a file or a folder; retry, as threads of Zarr may still be writing to it."""
    for _ in range(20):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()
        if not path.exists():
            return
        time.sleep(0.05)
