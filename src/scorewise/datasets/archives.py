"""Archives, unpacked without trusting them."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENAMETOOLONG
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, cast

from scorewise._progress import bar
from scorewise.datasets.damage import damage_told
from scorewise.errors import CorruptData

_MOST_GROWTH = 10  # times the archive's own size; the packed sets grow less than twice
_SOME = 1 << 20  # bytes that even a tiny archive may hold

# Of a file: its path, which is safe, its size, and what opens it.
_Member = tuple[PurePosixPath, int, Callable[[], IO[bytes]]]


def unpack(
    archive: Path,
    folder: Path,
    wanted: tuple[str, ...],
    *,
    of_tars: bool = False,
    progress: bool | None = None,
) -> None:
    """Write those files of an archive that lie in the ``wanted`` folders of it.

    One member with an absolute path, with ``..`` in it, or that is no plain file (a link, a
    device), is enough to refuse the archive. Where it is one ``of_tars``, what each of them holds
    is written to a folder of its name.
    """
    most = _MOST_GROWTH * archive.stat().st_size + _SOME
    left = most
    with (
        damage_told(archive),
        _members(archive) as members,
        bar(f"unpacking {archive.name.removesuffix('.partial')}", None, progress) as advance,
    ):
        for path, size, opened in _inner_members(members, archive) if of_tars else members:
            left -= size
            if left < 0 or size < 0:
                raise CorruptData(f"{archive} holds more than {most:,} bytes, so it is refused")
            if not any(path.is_relative_to(place) for place in wanted):
                continue
            target = folder / path
            with _written(target, archive, path) as file, opened() as content:
                shutil.copyfileobj(content, file)
            advance(size)


@contextmanager
def _written(target: Path, archive: Path, path: PurePosixPath) -> Iterator[IO[bytes]]:
    """A new file, whose name must be one that the system takes."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("xb")
    except (FileExistsError, NotADirectoryError) as error:
        raise CorruptData(
            f"{archive} has {str(path)!r} twice, or as a file and a folder"
        ) from error
    except OSError as error:
        if error.errno != ENAMETOOLONG:
            raise
        raise CorruptData(f"{archive} has a name of {len(str(path)):,} characters") from error
    with file:
        yield file


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[_Member]]:
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive) as opened:
            yield _tar_members(opened, archive)
    else:
        with zipfile.ZipFile(archive) as opened_zip:
            yield _zip_members(opened_zip, archive)


def _inner_members(tars: Iterator[_Member], archive: Path) -> Iterator[_Member]:
    """What the tars in an archive hold, read as it comes."""
    for path, _, opened in tars:
        if path.suffix != ".tar":
            raise CorruptData(f"{archive} has {str(path)!r}, which is no tar")
        with opened() as content, tarfile.open(fileobj=content, mode="r|") as inner:
            for inside, size, opened_inside in _tar_members(inner, archive / path):
                yield path.with_suffix("") / inside, size, opened_inside


def _tar_members(archive: tarfile.TarFile, path: Path) -> Iterator[_Member]:
    for member in archive:
        safe = _safe(member.name, path)
        if member.isfile():
            yield safe, member.size, partial(_content, archive, member)
        elif not member.isdir():
            raise CorruptData(f"{path} has {member.name!r}, which is a link or a device")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    return cast(IO[bytes], archive.extractfile(member))  # None only for what is no file


def _zip_members(archive: zipfile.ZipFile, path: Path) -> Iterator[_Member]:
    for member in archive.infolist():
        safe = _safe(member.filename, path)
        kind = member.external_attr >> 28  # of Unix: 0 unknown, 4 folder, 8 file, 10 link
        if kind not in (0, 4, 8):
            raise CorruptData(f"{path} has {member.filename!r}, which is a link or a device")
        if not member.is_dir():
            yield safe, member.file_size, partial(archive.open, member)


def _safe(name: str, archive: Path) -> PurePosixPath:
    """A path that stays in the folder on every system; Windows has most ways out of it."""
    path = PureWindowsPath(name)
    if path.drive or path.root or ".." in path.parts:
        raise CorruptData(f"{archive} has {name!r}, which would be written outside its folder")
    return PurePosixPath(name)
