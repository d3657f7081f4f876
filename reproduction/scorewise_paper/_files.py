"""Files that are complete or absent, locks between processes, and progress bars."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock
from tqdm import tqdm

_PATIENCE = 2.0  # seconds before a bar appears
_DIGEST_BYTES = hashlib.sha256().digest_size


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces ``path`` in one step at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid4().hex[:8]}.partial")
    try:
        yield partial
        with partial.open("rb+") as file:  # or a power failure could leave a file without content
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Exclude all other processes and threads that lock the same path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path, thread_local=False):
        yield


def progress_bar(task: str, total: int | None, show: bool | None, **options: Any) -> Any:
    """Return a progress bar on stderr for long work; ``show=None`` means only on a terminal."""
    return tqdm(
        desc=task,
        total=total,
        disable=None if show is None else not show,
        delay=0 if show else _PATIENCE,
        leave=bool(show),
        **options,
    )


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
