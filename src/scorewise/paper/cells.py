"""The results of experiments, kept one cell at a time: whole or absent, and never mixed up."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from os import PathLike
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from scorewise._files import locked, replacing
from scorewise._json import dumps
from scorewise._version import __version__
from scorewise.errors import InvalidInput, ScorewiseError
from scorewise.io import digest

_LIBRARIES = ("numpy", "scikit-learn", "torch", "laplace-torch", "transformers")
_FORMAT = 1
_NAME = re.compile(r"[a-z].*-[0-9a-f]{16}\.json")


@dataclass(frozen=True)
class Cell:
    """One piece of an experiment: its result follows from what is written here.

    Parameters
    ----------
    kind : str
        What is done, such as ``"forest-rejection"``.
    setting : mapping
        Everything that it is done with, as JSON has it: data and their digest, method, run, ….

    Examples
    --------
    >>> from scorewise import paper
    >>> cell = paper.Cell("forest-rejection", {"data": "covtype", "run": 0, "depth": 5})
    >>> cell.name
    'forest-rejection-covtype-run0-2f019e542ecbc91e'
    """

    kind: str
    setting: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The same for the same work, on every machine."""
        return _digest({"kind": self.kind, "setting": self.setting})[:16]

    @property
    def name(self) -> str:
        """What the files of the cell are called."""
        known = (self.setting.get(part) for part in ("data", "ood", "method", "measure"))
        words = [str(word) for word in known if word is not None]
        return "-".join([self.kind, *words, f"run{self.setting['run']}", self.key])


@dataclass(frozen=True)
class Result:
    """What came out: numbers (as JSON has them), and the members' probabilities they came from."""

    numbers: Mapping[str, Any]
    members: Mapping[str, np.ndarray] = field(default_factory=dict)
    seconds: float = 0.0
    device: str = "cpu"


@dataclass(frozen=True)
class Stored:
    """A result as it was read back, with what is known of its making."""

    cell: Cell
    numbers: Mapping[str, Any]
    made: Mapping[str, Any]


class DamagedCell(ScorewiseError):
    """A file of results is not what was written."""


class Store:
    """A folder of results: a JSON file for each cell, and the members beside in ``members/``.

    Parameters
    ----------
    folder : path
        Where; it is made when something is written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from scorewise import paper
    >>> cell = paper.Cell("forest-rejection", {"data": "covtype", "run": 0})
    >>> with TemporaryDirectory() as folder:
    ...     store = paper.Store(folder)
    ...     store.write(cell, paper.Result({"accuracy": 0.7}))
    ...     store.read(cell).numbers
    {'accuracy': 0.7}
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)

    def prepare(self) -> None:
        """Make the folder, and see that it can be written to, before anything is computed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=self.folder):
            pass

    @contextmanager
    def alone(self, work: str) -> Iterator[None]:
        """Nobody else does the same kind of work on these results at the same time."""
        folder = self.folder / ".locks" / work
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            yield

    def path(self, cell: Cell) -> Path:
        """Where the result of a cell is or will be."""
        return self.folder / f"{cell.name}.json"

    def members_path(self, cell: Cell) -> Path:
        """Where the members of a cell are or will be, an NPZ file that scorewise reads."""
        return self.folder / "members" / f"{cell.name}.npz"

    def checkpoint_path(self, name: str) -> Path:
        """Where work that is not finished is kept."""
        return self.folder / "unfinished" / f"{name}.pt"

    def network_path(self, name: str) -> Path:
        """Where the weights of a trained network are kept."""
        return self.folder / "networks" / f"{name}.pt"

    def read(self, cell: Cell) -> Stored | None:
        """The result of a cell; None where there is none yet.

        Raises
        ------
        DamagedCell
            If there is one, but not as it was written.
        """
        path = self.path(cell)
        if not path.is_file():
            return None
        found = read_result(path)
        if found.cell.key != cell.key:
            raise DamagedCell(f"{path.name} holds the result of another setting")
        members = self.members_path(cell)  # which are large, and may have been thrown away
        if members.is_file() and digest(members) != found.made.get("members"):
            raise DamagedCell(f"{members.name} is damaged: its content does not have its digest")
        return found

    def write(self, cell: Cell, result: Result) -> None:
        """Keep a result: first the members, then, in one step, the numbers."""
        made: dict[str, Any] = {
            "seconds": round(result.seconds, 3),
            "device": result.device,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": _versions(),
        }
        if result.members:
            path = self.members_path(cell)
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as partial, partial.open("wb") as file:
                arrays = {name: _compact(x) for name, x in result.members.items()}
                np.savez_compressed(file, allow_pickle=False, **arrays)
            made["members"] = digest(path)
        written = {
            "format": _FORMAT,
            "kind": cell.kind,
            "setting": cell.setting,
            "result": result.numbers,
            "made": made,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.path(cell)) as partial:
            text = dumps({**written, "digest": _digest(written)})
            partial.write_text(f"{text}\n", encoding="utf-8")

    def results(self) -> Iterator[Stored]:
        """Everything that is there, in the order of the names.

        Raises
        ------
        DamagedCell
            If a result is not as it was written.
        """
        if not self.folder.is_dir():
            raise InvalidInput(f"there is no folder of results {str(self.folder)!r}")
        for path in sorted(self.folder.glob("*.json")):
            if not _NAME.fullmatch(path.name) or not path.is_file():
                continue  # it is not one of ours
            try:
                yield read_result(path)
            except DamagedCell as error:
                raise DamagedCell(f"{error}; run its experiment again to mend it") from error


def read_result(path: Path) -> Stored:
    """A result from its file.

    Raises
    ------
    DamagedCell
        If the file is not as it was written.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        digest = found.pop("digest")
        whole = digest == _digest(found) and found["format"] == _FORMAT
        stored = Stored(Cell(found["kind"], found["setting"]), found["result"], found["made"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedCell(f"{path.name} is damaged: it cannot be read") from error
    if not whole:
        raise DamagedCell(f"{path.name} is damaged: its content does not have its digest")
    return stored


def _digest(value: Any) -> str:
    plain = json.dumps(json.loads(dumps(value)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


def _compact(array: np.ndarray) -> np.ndarray:
    """Half the bits are plenty for probabilities that are looked at again."""
    return array.astype(np.float16) if array.dtype.kind == "f" else array


def _versions() -> dict[str, str]:
    found = {"scorewise": __version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found
