"""Output folders: files that are written completely or not at all, their digests, and one lock.

A folder is on this machine or on a filesystem of ``fsspec``. It holds ``part-00017.parquet`` for
partition 17; in ``_manifest`` one JSON file per partition, the settings and the summary; and in
``_quarantine`` the bad rows, if any. A folder with any other file is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from scorewise._files import flush, has_locks, locked
from scorewise._json import dumps
from scorewise._tables import TABLE_SUFFIXES
from scorewise._text import quoted
from scorewise.errors import InvalidInput, Remedy
from scorewise.scale._dataset import is_local, open_filesystem

MANIFEST = "_manifest"
SETTINGS = f"{MANIFEST}/settings.json"
SUMMARY = f"{MANIFEST}/summary.json"
QUARANTINE = "_quarantine"
_LOCK = f"{MANIFEST}/lock"
_RUN = f"{MANIFEST}/run.json"  # the token of the run that writes; there is none between runs
_PARTIAL = f"{MANIFEST}/partial"  # files that are being written
_KIND = "scorewise output in partitions"

RESTART = Remedy("restart", True, "to remove its outputs and begin again")

_OURS = re.compile(
    rf"(?:{QUARANTINE}/)?part-(?P<output>[0-9]{{5,}})\.parquet"
    rf"|{MANIFEST}/(?:part-(?P<entry>[0-9]{{5,}})|settings|summary|run)\.json"
    rf"|{_LOCK}|{_PARTIAL}/"
    r"(?:part-[0-9]{5,}\.(?:parquet|json)|(?:settings|summary|run)\.json)\.[0-9a-f]{8}"
)


@dataclass(frozen=True)
class Store:
    """An output folder, which can be sent to workers.

    Attributes
    ----------
    address : str
        With its protocol.
    storage_options : dict
        Options of the filesystem.
    """

    address: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def at(
        cls, address: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
    ) -> Store:
        """Return the folder at a path or an address, which need not exist."""
        filesystem, root = open_filesystem(address, storage_options)
        if Path(root).suffix.lower() in TABLE_SUFFIXES:
            raise InvalidInput(
                f"{os.fspath(address)!r} is the name of a file; the output in partitions is a "
                "folder, so choose a name without a suffix"
            )
        return cls(filesystem.unstrip_protocol(root), dict(storage_options or {}))

    def _open(self) -> tuple[Any, str]:
        return open_filesystem(self.address, self.storage_options)

    @property
    def folder(self) -> Path | None:
        """The folder, if it is on this machine."""
        filesystem, root = self._open()
        return Path(root) if is_local(filesystem) else None

    @property
    def shown(self) -> str:
        """The folder for messages: a path, or an address."""
        return self.address if self.folder is None else str(self.folder)

    # -- files -------------------------------------------------------------------------------------

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is no such file."""
        filesystem, root = self._open()
        try:
            content: bytes = filesystem.cat_file(f"{root}/{name}")
        except FileNotFoundError:
            return None
        return content

    def read_json(self, name: str) -> Any:
        """Return the content of a JSON file; None if it is missing or damaged."""
        content = self.read(name)
        try:
            return None if content is None else json.loads(content)
        except (ValueError, RecursionError):
            return None

    def digest(self, name: str) -> str | None:
        """Return the SHA-256 of a file; None if there is no such file."""
        filesystem, root = self._open()
        sha = hashlib.sha256()
        try:
            with filesystem.open(f"{root}/{name}", "rb") as file:
                while block := file.read(8 << 20):
                    sha.update(block)
        except FileNotFoundError:
            return None
        return sha.hexdigest()

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a path of this machine to write to; its file is put in place at the end.

        Readers see no file, or the complete one.
        """
        filesystem, root = self._open()
        target = f"{root}/{name}"
        if not is_local(filesystem):
            with TemporaryDirectory() as temporary:
                partial = Path(temporary) / "partial"
                yield partial
                filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
                filesystem.put_file(str(partial), target)
            return
        folder = Path(root) / _PARTIAL
        folder.mkdir(parents=True, exist_ok=True)
        Path(target).parent.mkdir(exist_ok=True)
        partial = folder / f"{Path(name).name}.{uuid4().hex[:8]}"
        try:
            yield partial
            # Flushed to the disk at the end of the run, all at once. What a power failure damages
            # before does not match its digest.
            os.replace(partial, target)
        finally:
            with suppress(FileNotFoundError):
                partial.unlink()

    def write(self, name: str, content: str) -> None:
        """Write a file, completely or not at all."""
        with self.writing(name) as partial:
            partial.write_text(content, encoding="utf-8")

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file, completely or not at all."""
        self.write(name, dumps(content, indent=1) + "\n")

    def flush(self) -> None:
        """Write all files from the system's memory to the disk, if the folder is on one."""
        if self.folder is not None:
            with suppress(PermissionError):  # workers may belong to another user
                flush(self.folder)

    def names(self) -> list[str]:
        """Return the names of all files and empty folders, relative to the folder."""
        filesystem, root = self._open()
        if not filesystem.exists(root):
            return []
        if filesystem.isfile(root):
            raise InvalidInput(f"{self.shown!r} is a file; the output needs a folder")
        filesystem.invalidate_cache(root)
        paths = filesystem.find(root, withdirs=True)
        names = [path.removeprefix(root).lstrip("/") for path in paths]
        return sorted(n for n in names if n not in ("", MANIFEST, _PARTIAL, QUARANTINE))

    def remove(self, names: Iterator[str] | list[str]) -> None:
        """Remove files of ours."""
        filesystem, root = self._open()
        for name in names:
            with suppress(FileNotFoundError):
                filesystem.rm_file(f"{root}/{name}")

    # -- one run at a time -------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[list[str]]:
        """Hold the folder's lock, and yield the names of its files, which are all ours.

        The folder is made if it does not exist. On this machine, the lock ends with its process.
        On other filesystems, and where the system has no locks, it is a file, which a killed run
        leaves behind.

        Raises
        ------
        InvalidInput
            If another run holds the lock, or the folder has a file that is not ours; nothing is
            changed.
        """
        names = self.names()
        self._check_ours(names)
        folder = self.folder
        existed = folder is None or folder.is_dir()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        if folder is None or not has_locks(folder):
            with self._lock_file():
                names = [name for name in self.names() if name != _LOCK]
                self._check_ours(names)
                yield names
            return
        with locked(folder, wait=False) as is_ours:
            if not is_ours:
                raise InvalidInput(
                    f"another run is writing to {self.shown!r}; wait until it has ended, or choose "
                    "another folder"
                )
            names = self.names()
            self._check_ours(names)
            (folder / _PARTIAL).mkdir(parents=True, exist_ok=True)
            try:
                yield names
            finally:
                self._remove_partial(folder, also_folder=not existed)

    @contextmanager
    def _lock_file(self) -> Iterator[None]:
        filesystem, root = self._open()
        path = f"{root}/{_LOCK}"
        holder = f"process {os.getpid()} on {platform.node()}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        filesystem.makedirs(f"{root}/{MANIFEST}", exist_ok=True)
        content = {"holder": holder, "since": now, "run": uuid4().hex}
        try:
            filesystem.pipe_file(path, dumps(content).encode(), mode="create")
        except FileExistsError:
            other = self.read_json(_LOCK) or {}
            raise InvalidInput(
                f"another run is writing to {self.shown!r}: {other.get('holder', 'a process')}, "
                f"since {other.get('since', 'an unknown time')}; if it has ended, remove the file "
                f"{_LOCK!r} there and repeat the command"
            ) from None
        try:
            yield
        finally:
            if self.read_json(_LOCK) == content:  # nobody has removed it and begun another run
                filesystem.rm_file(path)

    @contextmanager
    def run(self) -> Iterator[str]:
        """Yield the token of a new run, which is in the folder until the run ends.

        A killed run leaves its token, and the next one replaces it. So tasks of a run that is no
        more, which workers may still compute, can see that it is not theirs. A run that fails
        leaves a file without a token.
        """
        token = uuid4().hex
        self.write_json(_RUN, {"run": token})
        try:
            yield token
        except BaseException:
            if self.has_run(token):
                self.write_json(_RUN, {"run": None})
            raise
        if self.has_run(token):
            self.remove([_RUN])

    @staticmethod
    def has_unfinished_run(names: list[str]) -> bool:
        """Return whether the last run did not end, by the ``names`` of files before the next."""
        return _RUN in names

    def has_run(self, token: str) -> bool:
        """Return whether a run has not ended, and no other has begun."""
        return bool(self.read_json(_RUN) == {"run": token})

    @staticmethod
    def _remove_partial(folder: Path, *, also_folder: bool) -> None:
        """Remove what killed workers have left, and folders of ours that are empty."""
        partial = folder / _PARTIAL
        for file in partial.iterdir() if partial.is_dir() else ():
            if _OURS.fullmatch(f"{_PARTIAL}/{file.name}"):
                with suppress(FileNotFoundError):
                    file.unlink()
        for empty in (partial, folder / MANIFEST, folder / QUARANTINE, *[folder] * also_folder):
            with suppress(OSError):  # it has files
                empty.rmdir()

    def _check_ours(self, names: list[str]) -> None:
        """Raise if the folder holds anything that scorewise did not put there."""
        others = [name for name in names if not _OURS.fullmatch(name)]
        has_settings = SETTINGS in names
        if has_settings and not others and not self.is_output:
            others = [SETTINGS]
        if not has_settings and not others:
            others = [n for n in names if n != _LOCK and not n.startswith(f"{_PARTIAL}/")]
        if others:
            raise InvalidInput(
                f"the folder {self.shown!r} holds {quoted(others[0])}, which scorewise did not put "
                "there; nothing was changed: choose a new or empty folder"
            )

    @property
    def is_output(self) -> bool:
        """Whether outputs in partitions were written to the folder."""
        stored = self.read_json(SETTINGS)
        return isinstance(stored, dict) and stored.get("kind") == _KIND

    # -- settings ----------------------------------------------------------------------------------

    def prepare(
        self, names: list[str], settings: Mapping[str, Any], *, restart: bool, n_partitions: int
    ) -> list[int]:
        """Store the settings; return the numbers of partitions that have an entry.

        Parameters
        ----------
        names : list of str
            Of all files, under the lock.
        settings : mapping
            What makes the outputs the same another time.
        restart : bool
            Whether to remove all files of an earlier run first.
        n_partitions : int
            Of the input; a folder with outputs for more is refused.
        """
        settings = _marked(settings)
        stored = self.read_json(SETTINGS) if SETTINGS in names else None
        if restart and stored is not None:
            # the settings last: without them no file is recognised as ours
            self.remove([name for name in names if name != SETTINGS])
            self.remove([SETTINGS])
            names, stored = [], None
        matches = [match for name in names if (match := _OURS.fullmatch(name))]
        numbers = [int(n) for match in matches if (n := match["entry"] or match["output"])]
        if not numbers:  # nothing depends on them
            stored = None
        if stored is not None and stored != settings:
            raise InvalidInput(
                f"the folder {self.shown!r} was written with other settings: "
                f"{_differences(stored, settings)}; choose another folder",
                RESTART,
            )
        if max(numbers, default=0) >= n_partitions:
            raise InvalidInput(
                f"the folder {self.shown!r} has the output of partition {max(numbers)}, and the "
                f"input has only {n_partitions} partitions; choose another folder",
                RESTART,
            )
        if stored is None:
            self.write_json(SETTINGS, settings)
        self.remove([SUMMARY] if SUMMARY in names else [])  # it is written when all is done
        return [int(match["entry"]) for match in matches if match["entry"]]


def _marked(settings: Mapping[str, Any]) -> dict[str, Any]:
    marked: dict[str, Any] = json.loads(dumps({"kind": _KIND, **settings}))
    return marked


def digest_of(content: Any) -> str:
    """Return the SHA-256 of a JSON value, whatever the order of its names."""
    text = json.dumps(json.loads(dumps(content)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def entry_name(number: int) -> str:
    """Return the name of the entry of a partition in the manifest."""
    return f"{MANIFEST}/part-{number:05d}.json"


def output_name(number: int) -> str:
    """Return the name of the output of a partition."""
    return f"part-{number:05d}.parquet"


def quarantine_name(number: int) -> str:
    """Return the name of the file with the bad rows of a partition.

    Readers of Parquet folders ignore what begins with an underscore: it has other columns.
    """
    return f"{QUARANTINE}/{output_name(number)}"


def _differences(stored: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    names = [n for n in {**stored, **settings} if stored.get(n) != settings.get(n)]
    return ", ".join(
        f"{name} was {quoted(stored.get(name))} and is {quoted(settings.get(name))}"
        for name in names
    )
