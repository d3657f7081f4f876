"""Is it the official file? Digests, and the list of what a verified archive held."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scorewise._json import dumps
from scorewise.datasets.folders import data_folder
from scorewise.datasets.image_files import SUFFIXES, listed
from scorewise.datasets.known import describe
from scorewise.datasets.registry import DataSet
from scorewise.io import stamp

OFFICIAL, NOT_OFFICIAL, MISSING, CORRUPT = "official", "not official", "missing", "corrupt"
MANIFEST = ".scorewise.json"  # beside what a verified archive held

_BLOCK = 8 << 20


@dataclass(frozen=True)
class FileState:
    """Whether a file or folder is the official one; made by :func:`scorewise.datasets.verify`.

    Attributes
    ----------
    path : pathlib.Path
    state : str
        ``"official"``, ``"not official"``, ``"missing"``, or ``"corrupt"``: it was official when
        it was fetched, and has changed since.
    digest : str or None
        SHA-256 of the file; of a folder, that of the names and sizes of its files.
    message : str
        Why, in a phrase; empty where it is official.
    """

    path: Path
    state: str
    digest: str | None
    message: str


def verify(name: str, data_dir: str | os.PathLike[str] | None = None) -> tuple[FileState, ...]:
    """Compare the files of a data set with the official checksums.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    data_dir : path, optional
        As for :func:`data_folder`.

    Returns
    -------
    tuple of FileState
        One for each file or folder that is read.

    Examples
    --------
    >>> from scorewise import datasets
    >>> [found.state for found in datasets.verify("covtype", "no-such-folder")]
    ['missing']
    """
    known = describe(name)
    root = data_folder(data_dir)
    return tuple(state_of(known, part, root) for part in known.parts)


def state_of(known: DataSet, part: str, root: Path) -> FileState:
    """Of a file as it is or packed, whichever is official, else whichever is there."""
    there = _forms(part, root)
    if not there:
        return FileState(root / part, MISSING, None, "is not there")
    found = [_state(known, path, root) for path in there]
    return next((one for one in found if one.state == OFFICIAL), found[0])


def splits_here(known: DataSet, root: Path) -> tuple[str, ...]:
    """The splits all of whose files are there, official or not."""
    return tuple(
        split for split, parts in known.splits.items() if all(_forms(part, root) for part in parts)
    )


def _forms(part: str, root: Path) -> list[str]:
    """A file as it is and packed, where these are there."""
    return [path for path in (part, f"{part}.gz") if (root / path).exists()]


def _state(known: DataSet, path: str, root: Path) -> FileState:
    file = root / path
    if file.is_dir():
        return _folder_state(known, path, file)
    found = digests(file)
    expected = known.checksum_of(path)
    recorded = _manifest(known, path, file.parent).get(file.name)
    packed = ", only that of the packed file" if known.checksum_of(f"{path}.gz") else ""
    if expected is not None:
        kind, value = expected.split(":")
        is_official = found[kind] == value
        message = f"has the {kind} {found[kind]}, and the official file {value}"
    elif recorded is not None:
        is_official = found["sha256"] == recorded[1]
        message = f"has the sha256 {found['sha256']}, and had {recorded[1]} when it was fetched"
    else:
        is_official = False
        message = f"has the sha256 {found['sha256']}, and no official one is known{packed}"
    state = OFFICIAL if is_official else NOT_OFFICIAL if recorded is None else CORRUPT
    return FileState(file, state, found["sha256"], "" if is_official else message)


def _folder_state(known: DataSet, path: str, folder: Path) -> FileState:
    """By the names and sizes of its files, and the digests of those that are no images."""
    sizes = listed(folder)
    lines = "".join(f"{name} {size}\n" for name, size in sizes.items())
    digest = hashlib.sha256(lines.encode()).hexdigest()
    recorded = _manifest(known, path, folder)
    if not recorded:
        message = "was not unpacked by scorewise, so that there is nothing to compare it with"
        return FileState(folder, NOT_OFFICIAL, digest, message)
    for name in sorted(set(sizes) | set(recorded)):
        if name not in sizes:
            problem = f"lacks {name}"
        elif name not in recorded:
            problem = f"has {name}, which the official archive lacks"
        elif sizes[name] != recorded[name][0] or (
            recorded[name][1] and digests(folder / name)["sha256"] != recorded[name][1]
        ):
            problem = f"has {name}, which has changed since it was fetched"
        else:
            continue
        return FileState(folder, CORRUPT, digest, problem)
    return FileState(folder, OFFICIAL, digest, "")


def digests(path: Path) -> dict[str, str]:
    """SHA-256 and MD5 of a file, computed again only when it has changed."""
    return _digests(path, str(stamp(path)))


@functools.lru_cache(maxsize=1024)
def _digests(path: Path, stamped: str) -> dict[str, str]:
    sums = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            for one in sums.values():
                one.update(block)
    return {kind: one.hexdigest() for kind, one in sums.items()}


def write_manifest(folder: Path, checksum: str) -> None:
    """Record what a verified archive held; of images their sizes only."""
    files = {
        name: [size, None if name.lower().endswith(SUFFIXES) else digests(folder / name)["sha256"]]
        for name, size in listed(folder).items()
    }
    (folder / MANIFEST).write_text(dumps({"checksum": checksum, "files": files}))


def _manifest(known: DataSet, path: str, folder: Path) -> dict[str, Any]:
    """What the archive held that this folder is from; empty where it is from none."""
    source = known.source_of(path)
    try:
        told = json.loads((folder / MANIFEST).read_text())
        is_ours = source is not None and told["checksum"] == source.checksum
        return dict(told["files"]) if is_ours else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
