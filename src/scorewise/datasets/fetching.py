"""From a publisher to the data folder: downloaded, verified, unpacked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from uuid import uuid4

from scorewise._files import locked
from scorewise.datasets.archives import unpack
from scorewise.datasets.downloads import download, forget
from scorewise.datasets.folders import data_folder
from scorewise.datasets.known import describe
from scorewise.datasets.registry import DataSet, Source
from scorewise.datasets.states import OFFICIAL, digests, state_of, write_manifest
from scorewise.errors import CorruptData, MissingData

_WORKSHOP = ".fetching"  # in the data folder: what is not complete, and never read


def folder(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of a data set, whether it is there or not.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    data_dir : path, optional
        As for :func:`data_folder`.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> from scorewise import datasets
    >>> datasets.folder("cifar-10", "my-data").as_posix()
    'my-data/cifar-10-batches-bin'
    """
    return data_folder(data_dir) / describe(name).folder


def fetch(
    name: str, data_dir: str | os.PathLike[str] | None = None, progress: bool | None = None
) -> Path:
    """Download a data set from its publisher, verify and unpack it.

    What is there and official is left alone. What is there and not official is kept beside, under
    a name that ends in ``.not-official``. A download that is cut off goes on with the next call.
    An archive that lies in its place already is taken instead of a download. Of a set that can only
    be had by hand, those splits are unpacked whose archives are there.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    data_dir : path, optional
        As for :func:`data_folder`.
    progress : bool, optional
        Show a bar; on terminals, unless told otherwise.

    Returns
    -------
    pathlib.Path
        The folder of the data set.

    Raises
    ------
    MissingData
        It can only be had by hand, and is not there; the message says how, and where to put it.
    FetchFailed
        The network or the server failed.
    CorruptData
        What came is not the official file.

    Examples
    --------
    >>> from scorewise import datasets
    >>> datasets.fetch("tiny-imagenet-32", "no-such-folder")
    Traceback (most recent call last):
    scorewise.errors.MissingData: Tiny ImageNet at 32 × 32 cannot be downloaded; ...
    """
    known = describe(name)
    root = data_folder(data_dir)
    missing = [source for source in known.files if not _is_there(known, source, root)]
    lacking = [source for source in known.lacking(root) if source in missing]
    _refuse_without(lacking, known, root)
    if missing == lacking:
        return root / known.folder  # which need not be writable
    workshop = root / _WORKSHOP / name
    workshop.mkdir(parents=True, exist_ok=True)  # it stays, so that all who fetch lock the same
    with locked(workshop):
        for source in missing:
            if source not in lacking and not _is_there(known, source, root):
                _bring(source, root, workshop, progress)
    return root / known.folder


def _refuse_without(lacking: list[Source], known: DataSet, root: Path) -> None:
    """Before anything is made: of what can only be had by hand, a split must be there."""
    has_a_split = any(
        not any(source.brings(part) for source in lacking for part in parts)
        for parts in known.splits.values()
    )
    if not (known.files and has_a_split):
        again = ", and run this again" if lacking else ""
        raise MissingData(
            f"{known.title} cannot be downloaded; {known.steps_by_hand(root, lacking)}{again}"
        )


def _is_there(known: DataSet, source: Source, root: Path) -> bool:
    """All that a source brings is there, and official."""
    brought = filter(source.brings, known.parts)
    return all(state_of(known, part, root).state == OFFICIAL for part in brought)


def _bring(source: Source, root: Path, workshop: Path, progress: bool | None) -> None:
    """One file, or what is in one archive, into its place."""
    target = root / source.path
    came = workshop / f"{target.name}.partial"
    if not source.unpacked:
        download(source, came, progress)
        _put(came, target)
        forget(came)
        return
    archive = target if target.exists() else came
    if archive is target:
        _check(archive, source)
    else:
        download(source, came, progress)
    unpacked = workshop / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)  # of a run that was killed
    try:
        unpack(archive, unpacked, tuple(source.unpacked), of_tars=source.of_tars, progress=progress)
        for inside, place in source.unpacked.items():
            new = unpacked / inside
            if not new.exists():
                raise CorruptData(f"{archive} has no {inside}")
            if new.is_dir():
                write_manifest(new, source.checksum)
            _put(new, root / place)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    forget(came)


def _check(archive: Path, source: Source) -> None:
    kind, expected = source.checksum.split(":")
    found = digests(archive)[kind]
    if found != expected:
        raise CorruptData(
            f"{archive} has the {kind} {found} instead of {expected}, so it is not the official "
            "file; remove it"
        )


def _put(new: Path, target: Path) -> None:
    """Into its place in one step; what was there is kept under a name that is never read."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        aside = target.with_name(f"{target.name}.not-official")
        while aside.exists():
            aside = aside.with_name(f"{target.name}.{uuid4().hex[:4]}.not-official")
        os.replace(target, aside)
    os.replace(new, target)
