"""Stored results: one file for each experiment, one line with a digest for each result."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from scorewise_paper._files import locked, replacing
from scorewise_paper.datasets import digests_of
from scorewise_paper.errors import DamagedResult, InvalidInput

_LIBRARIES = (
    "scorewise",
    "numpy",
    "scikit-learn",
    "torch",
    "laplace-torch",
    "transformers",
    "efficientnet-lite-pytorch",
)
_NAMED = ("data", "ood", "method", "measure")  # the parts of a setting that are in a cell's name


@dataclass(frozen=True)
class Cell:
    """A part of an experiment; its fields determine its result.

    Parameters
    ----------
    experiment : str
        The experiment that computes it, such as ``"figure-1"``.
    revision : int
        The experiment's ``REVISION``, the number of its code. It is raised when the code's numbers
        change, so that results of older code do not count.
    setting : mapping
        Everything else that the result depends on, as JSON: data and their digest, method, run.

    Examples
    --------
    >>> from scorewise_paper import Cell
    >>> cell = Cell("figure-1", 1, {"data": "covtype", "run": 0, "depth": 5})
    >>> cell.name
    'figure-1-covtype-run0-09079b596fe2d136'
    """

    experiment: str
    revision: int
    setting: Mapping[str, Any]

    @property
    def key(self) -> str:
        """A digest that is the same for the same work, on every machine."""
        return _digest([self.experiment, self.revision, self.setting])[:16]

    @property
    def name(self) -> str:
        """The name of files that belong to the cell."""
        words = [str(self.setting[part]) for part in _NAMED if self.setting.get(part) is not None]
        return "-".join([self.experiment, *words, f"run{self.setting['run']}", self.key])


@dataclass(frozen=True)
class Result:
    """Numbers (as JSON) and the members' probabilities that they were computed from."""

    numbers: Mapping[str, Any]
    members: Mapping[str, np.ndarray] = field(default_factory=dict)
    seconds: float = 0.0
    device: str = "cpu"

    def compact(self) -> Result:
        """Return the result with members in half precision, in which they are stored."""
        return replace(self, members={name: _compact(x) for name, x in self.members.items()})


@dataclass(frozen=True)
class Stored:
    """A result as it was read, with its provenance: time, device, versions."""

    cell: Cell
    numbers: Mapping[str, Any]
    provenance: Mapping[str, Any]


class Store:
    """A folder of results: a file of JSON lines for each experiment, and files of members.

    A line has a digest of itself. Writing replaces a file in one step, so that a crash loses no
    finished result; several processes may write at the same time.

    Parameters
    ----------
    folder : path
        The folder; it is created when something is written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from scorewise_paper import Cell, Result, Store
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.write(Cell("figure-1", 1, {"data": "covtype", "run": 0}), Result({"area": 0.7}))
    ...     [stored.numbers for stored in store.results("figure-1")]
    [{'area': 0.7}]
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def prepare(self) -> None:
        """Create the folder, and raise before anything is computed if it cannot be written to."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=self.folder):
            pass

    @contextmanager
    def lock(self, work: str) -> Iterator[None]:
        """Exclude other processes that do the same kind of work on these results."""
        with locked(self.folder / ".locks" / work):
            yield

    def path(self, experiment: str) -> Path:
        """Return the file of an experiment's results."""
        return self.folder / f"{experiment}.jsonl"

    def members_path(self, cell: Cell) -> Path:
        """Return the file of a cell's members, an NPZ file that scorewise reads."""
        return self.folder / "members" / f"{cell.name}.npz"

    def checkpoint_path(self, name: str) -> Path:
        """Return the file of work that is not finished."""
        return self.folder / "unfinished" / f"{name}.pt"

    def network_path(self, name: str) -> Path:
        """Return the file of a trained network's weights."""
        return self.folder / "networks" / f"{name}.pt"

    def read(self, experiment: str) -> tuple[list[Stored], list[str]]:
        """Return the results of an experiment, and messages that name its damaged lines."""
        path = self.path(experiment)
        results, damaged = [], []
        lines = path.read_bytes().splitlines() if path.is_file() else []
        for number, line in enumerate(lines, start=1):
            try:
                results.append(_parse(line, experiment))
            except DamagedResult as error:
                damaged.append(f"line {number} of {path.name} is damaged: {error}")
        return results, damaged

    def results(self, experiment: str) -> list[Stored]:
        """Return the results of an experiment.

        Raises
        ------
        InvalidInput
            If there is no folder of results.
        DamagedResult
            If a line is damaged.
        """
        if not self.folder.is_dir():
            raise InvalidInput(f"there is no folder of results {str(self.folder)!r}")
        results, damaged = self.read(experiment)
        if damaged:
            raise DamagedResult(f"{damaged[0]}; run {experiment} again to repair it")
        return results

    def members_problem(self, stored: Stored) -> str | None:
        """Return a message if a result's members are damaged, else None; they may be deleted."""
        path = self.members_path(stored.cell)
        if not path.is_file() or digests_of(path)["sha256"] == stored.provenance.get("members"):
            return None
        return f"{path.name} is damaged: its content does not match its digest"

    def write(self, cell: Cell, result: Result) -> None:
        """Store a result: first the members, then, in one step, the numbers.

        It replaces a result of the same setting, of any revision, and damaged lines.
        """
        provenance: dict[str, Any] = {
            "seconds": round(result.seconds, 3),
            "device": result.device,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": _versions(),
        }
        _dumps([cell.setting, result.numbers])  # raises before anything is written
        if result.members:
            path = self.members_path(cell)
            with replacing(path) as partial, partial.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **result.compact().members)
            provenance["members"] = digests_of(path)["sha256"]
        path = self.path(cell.experiment)
        with locked(self.folder / ".locks" / path.name), replacing(path) as partial:
            results = [x for x in self.read(cell.experiment)[0] if not _is_same_work(x.cell, cell)]
            results.append(Stored(cell, result.numbers, provenance))
            results.sort(key=lambda stored: _order(stored.cell))
            partial.write_text("".join(map(_line, results)), encoding="utf-8")


def _parse(line: bytes, experiment: str) -> Stored:
    try:
        content = json.loads(line.decode())
        is_whole = content.pop("digest") == _digest(content)
        cell = Cell(content["experiment"], content["revision"], content["setting"])
        stored = Stored(cell, content["result"], content["provenance"])
        _order(cell)  # has a run
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedResult("it cannot be read") from error
    if not is_whole:
        raise DamagedResult("its content does not match its digest")
    if cell.experiment != experiment:
        raise DamagedResult(f"it is a result of {cell.experiment}")
    return stored


def _line(stored: Stored) -> str:
    content = {
        "experiment": stored.cell.experiment,
        "revision": stored.cell.revision,
        "setting": stored.cell.setting,
        "result": stored.numbers,
        "provenance": stored.provenance,
    }
    return _dumps({**content, "digest": _digest(content)}) + "\n"


def _is_same_work(cell: Cell, other: Cell) -> bool:
    return _digest(cell.setting) == _digest(other.setting)


def _order(cell: Cell) -> tuple[str, int, str]:
    """Return the sort key of a line, so that files of the same results are the same."""
    words, _, _ = cell.name.rpartition("-run")
    return words, int(cell.setting["run"]), cell.key


def _dumps(value: Any) -> str:
    return json.dumps(value, default=_plain, allow_nan=False)


def _plain(value: Any) -> Any:
    """Return NumPy's arrays and numbers as lists and numbers of Python, for JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be stored")


def _digest(value: Any) -> str:
    plain = json.dumps(json.loads(_dumps(value)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


def _compact(array: np.ndarray) -> np.ndarray:
    """Return an array in half precision, which is enough to inspect probabilities."""
    return array.astype(np.float16) if array.dtype.kind == "f" else array


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return versions
