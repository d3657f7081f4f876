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
from errno import EEXIST, EINVAL, ENOLCK, ENOSYS, ENOTSUP
from glob import escape
from pathlib import Path
from stat import S_IMODE
from uuid import uuid4

from scorewise.errors import InvalidInput

_BLOCK = 8 << 20  # bytes
_NO_LOCKS = (EINVAL, ENOLCK, ENOSYS, ENOTSUP)


def check_output_path(path: Path, *, is_folder: bool = False) -> None:
    """Raise for a path in a missing folder, and for a folder in place of a file."""
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    if path.is_dir() and not is_folder:
        raise InvalidInput(f"{str(path)!r} is a folder, which a file cannot replace")


def check_not_input(path: Path, source: Path) -> None:
    """Raise if an output is an input, by whatever name, or is in an input that is a folder."""
    output = path.resolve()
    pairs = [(source, place) for place in (output, *output.parents)]
    pairs += [(file, output) for file in _files_of(source)]
    if any(place.exists() and os.path.samefile(file, place) for file, place in pairs):
        raise InvalidInput(
            f"{str(path)!r} is, or is in, the input {str(source)!r}; write to another file"
        )


def check_no_link(path: Path) -> None:
    """Raise if a path whose name the user did not choose is a link, which would be followed."""
    if path.is_symlink():
        raise InvalidInput(
            f"{str(path)!r} is a link, and its target would be replaced; remove the link, or "
            "choose another output"
        )


@contextmanager
def replacing(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces ``path`` at the end.

    An interrupted run leaves an older file unchanged; what a killed run leaves behind is removed by
    the next one that writes to ``path``. If ``path`` is a link, its target is replaced. A folder is
    replaced only with ``folder=True``. What replaces an older file or folder has its permissions.
    """
    path = path.resolve()
    remove_leftovers(path, folder=folder)
    if path.exists() and not (path.is_file() or (folder and path.is_dir())):
        kind = "a folder" if path.is_dir() else "a device"
        raise FileExistsError(EEXIST, f"cannot write a file over {kind}", str(path))
    with _temporary_folder(path) as temporary:
        partial, old = temporary / path.name, _old(temporary, path)
        try:
            yield partial
            flush(partial)  # or a power failure could leave a file without its content
            if path.exists():
                partial.chmod(S_IMODE(path.stat().st_mode))
            if path.is_dir():  # a folder cannot be replaced in one step
                os.replace(path, old)
            os.replace(partial, path)
            _flush_entry(path.parent)
        finally:
            _restore(old, path)


# The temporary folder is locked as long as its process lives: one that is not locked is a leftover.


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Make a locked folder beside ``path``, and remove it with its content at the end."""
    while True:
        folder = path.with_name(f".{path.name}.{uuid4().hex[:8]}.partial")
        folder.mkdir(mode=0o700)
        with locked(folder) as exists:
            if not exists:  # another process has taken it for a leftover, before it was locked
                continue
            try:
                yield folder
            finally:
                if path.exists() or not _old(folder, path).exists():  # nothing is lost with it
                    _remove(folder)
            return


def remove_leftovers(path: Path, *, folder: bool = False) -> None:
    """Remove the temporary folders for ``path`` of processes that were killed."""
    for temporary in path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 8}.partial"):
        if not is_real_folder(temporary):
            continue
        with suppress(OSError), locked(temporary, wait=False) as is_unused:
            if is_unused and holds_only(temporary, path.name, folder=folder):
                _restore(_old(temporary, path), path)
                _remove(temporary)


def holds_only(temporary: Path, name: str, *, folder: bool = False) -> bool:
    """Return whether a temporary folder holds nothing but what :func:`replacing` puts into it."""
    entries = [*temporary.iterdir()]
    if folder:
        return all(is_real_folder(x) and x.name in (name, f"{name}.old") for x in entries)
    return all(is_real_file(x) and x.name == name for x in entries)


def _old(temporary: Path, path: Path) -> Path:
    """The place of a folder while it is replaced."""
    return temporary / f"{path.name}.old"


def _restore(old: Path, path: Path) -> None:
    if old.exists() and not path.exists():
        os.replace(old, path)


def flush(path: Path) -> None:
    """Write a file, or a folder and all files in it, from the system's memory to the disk."""
    for inner in path.iterdir() if path.is_dir() else ():
        flush(inner)
    _flush_entry(path)


def _flush_entry(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    try:
        handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    except PermissionError:
        if path.is_dir():  # Windows opens no folders
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (EINVAL, ENOSYS, ENOTSUP):  # of some network folders
            raise
    finally:
        os.close(handle)


def is_real_folder(path: Path) -> bool:
    """Return whether the path is a folder, and not a link to one."""
    return path.is_dir() and not path.is_symlink()


def is_real_file(path: Path) -> bool:
    """Return whether the path is a file, and not a link to one."""
    return path.is_file() and not path.is_symlink()


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold an exclusive lock on a folder, where the system has such locks.

    Yields whether the folder is still there, as a real folder: the process that held the lock
    before may have removed it. Without ``wait``, also whether the lock could be had at once.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield wait
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        is_locked = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:  # another process has it, or a network folder has no locks
            is_locked = wait
        is_there = is_real_folder(folder) and os.path.samestat(folder.stat(), os.fstat(handle))
        yield is_locked and is_there
    finally:
        os.close(handle)


def has_locks(folder: Path) -> bool:
    """Return whether the system can lock a folder; Windows and some network folders cannot."""
    try:
        import fcntl
    except ImportError:
        return False
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS  # another process may have it
    finally:
        os.close(handle)
    return True


def _remove(folder: Path) -> None:
    """Remove a folder of ours; retry, as threads of Zarr may still be writing to it."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
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
