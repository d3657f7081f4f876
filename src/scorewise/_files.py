"""Files: checks of output paths, atomic writing, locks on folders, and digests."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from errno import EEXIST
from pathlib import Path
from uuid import uuid4

from scorewise.errors import InvalidInput

_BLOCK = 8 << 20  # bytes


def check_output_path(path: Path, *inputs: Path, is_folder: bool = False) -> None:
    """Raise for a path in a missing folder, a folder in place of a file, and a path in an input."""
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    if path.is_dir() and not is_folder:
        raise InvalidInput(f"{str(path)!r} is a folder, which a file cannot replace")
    for source in inputs:
        if source.resolve() in (path.resolve(), *path.resolve().parents):
            raise InvalidInput(f"{str(path)!r} is, or is in, the input {str(source)!r}")


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
    unique = uuid4().hex[:8]
    partial, old = (path.with_name(f".{path.name}.{unique}.{x}") for x in ("partial", "old"))
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


# -- contents --------------------------------------------------------------------------------------


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and its subfolders, except hidden ones."""
    return sorted(
        file
        for file in folder.rglob("*.parquet")
        if file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    )


def _files_of(path: Path) -> list[Path]:
    """The file itself, or the Parquet files of a folder."""
    return parquet_files(path) if path.is_dir() else [path]


def file_versions(path: Path) -> list[list[str | int]]:
    """Return names, sizes, inodes and times, which change when a file is replaced or edited."""
    versions: list[list[str | int]] = []
    for file in _files_of(path):
        status = file.stat()
        times = (status.st_mtime_ns, status.st_ctime_ns)
        versions.append([str(file.relative_to(path)), status.st_size, status.st_ino, *times])
    return versions


def file_digest(path: Path, stop: threading.Event | None = None) -> str:
    """Return the SHA-256 of a file in hexadecimal, or of the names and digests in a folder.

    If ``stop`` is set, it returns early, with a meaningless value.
    """
    if path.is_dir():
        lines = [
            f"{file_digest(file, stop)}  {file.relative_to(path)}\n" for file in _files_of(path)
        ]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while (block := file.read(_BLOCK)) and not (stop and stop.is_set()):
            sha.update(block)
    return sha.hexdigest()


@contextmanager
def file_digest_in_background(path: Path) -> Iterator[Future[str]]:
    """Yield the digest of a file as a future, computed in a thread."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        try:
            yield executor.submit(file_digest, path, stop)
        finally:
            stop.set()
