"""Files that are complete or absent, locks between processes, and progress bars."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filelock import FileLock
from tqdm import tqdm

Show = bool | None | Callable[[str, int, int], None]  # of progress: see progress_bar

_PATIENCE = 2.0  # seconds before a bar appears
_DIGEST_BYTES = hashlib.sha256().digest_size


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces ``path`` in one step at the end.

    What a killed run leaves behind is removed by the next one that writes to ``path``.
    """
    with _temporary(path) as partial:
        yield partial
        with partial.open("rb+") as file:  # or a power failure could leave a file without content
            os.fsync(file.fileno())
        os.replace(partial, path)


@contextmanager
def marked(path: Path) -> Iterator[Path]:
    """Yield a file near ``path`` that is there during the block, and is of no other process.

    What a killed process leaves behind is removed by the next one.
    """
    with _temporary(path) as mark:
        mark.touch()
        yield mark


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Yield a path in a temporary folder beside ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    with (
        TemporaryDirectory(".partial", f".{path.name}.", path.parent) as folder,
        _held(Path(folder), wait=True),
    ):
        yield Path(folder, path.name)


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary folders for ``path`` that no process holds, with the file in them."""
    for partial in path.parent.glob(f".{escape(path.name)}.*.partial/{escape(path.name)}"):
        with suppress(OSError), _held(partial.parent, wait=False) as is_held:
            if is_held and partial.is_file() and not partial.is_symlink():
                partial.unlink()
                partial.parent.rmdir()


@contextmanager
def _held(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a folder as long as this process lives; yield whether no other process holds it."""
    try:
        import fcntl
    except ImportError:  # Windows, where leftovers stay
        yield wait
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            is_held = True
        except OSError:  # another process has it, or a network folder has no locks
            is_held = wait
        yield is_held
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Exclude all other processes and threads that lock the same path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path, thread_local=False):
        yield


def progress_bar(task: str, total: int | None, show: Show, **options: Any) -> Any:
    """Return a progress bar on stderr for long work; ``show=None`` means only on a terminal.

    A function ``show`` is called with task, steps and total after each step instead.
    """
    if callable(show):
        return _ReportedSteps(task, total or 0, show)
    return tqdm(
        desc=task,
        total=total,
        disable=None if show is None else not show,
        delay=0 if show else _PATIENCE,
        leave=bool(show),
        **options,
    )


class _ReportedSteps:
    """A progress bar that another process shows."""

    def __init__(self, task: str, total: int, report: Callable[[str, int, int], None]) -> None:
        self._task, self._total, self._report, self._done = task, total, report, 0

    def __enter__(self) -> _ReportedSteps:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to close."""

    def update(self, n: int) -> None:
        """Report that ``n`` more steps are done."""
        self._done += n
        self._report(self._task, self._done, self._total)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and numbers and their digest, completely or not at all."""
    import torch

    content = BytesIO()
    torch.save(state, content)
    with replacing(path) as partial:
        partial.write_bytes(content.getvalue() + hashlib.sha256(content.getbuffer()).digest())


def load_checkpoint(path: Path, device: Any = "cpu") -> dict[str, Any] | None:
    """Return tensors and numbers from a file; None if it is missing or damaged."""
    import torch

    if not path.is_file():
        return None
    stored = path.read_bytes()
    content, digest = stored[:-_DIGEST_BYTES], stored[-_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        return None
    state: dict[str, Any] = torch.load(BytesIO(content), map_location=device, weights_only=True)
    return state
