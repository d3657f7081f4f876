"""With what, where and how large the experiments are run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import datasets
from scorewise._random import generator
from scorewise.datasets import Rows
from scorewise.errors import CorruptData, InvalidInput, MissingData
from scorewise.paper.cells import Store


@dataclass(frozen=True)
class Protocol:
    """How large an experiment is; the paper's sizes unless told.

    Parameters
    ----------
    runs : int
        How often everything is repeated, with new seeds.
    test_rows : int
        Rows drawn from the test set (and from each set out of distribution).
    train_rows : int, optional
        Rows of the training set or the pool; all unless given.
    samples : int
        Draws from dropout or a Laplace approximation.
    epochs : int, optional
        Passes over the training data; those of the paper's tables unless given.
    rounds : int
        Rounds of active learning.
    budget : int, optional
        Labels that active learning begins with and gets in each round; those of the paper's table
        unless given.
    width : int
        Channels of the ResNets' first stage.

    Examples
    --------
    >>> from scorewise import paper
    >>> paper.Protocol(epochs=10).sizes("samples", "epochs")
    {'samples': 20, 'epochs': 10}
    """

    runs: int = 3
    test_rows: int = 10_000
    train_rows: int | None = None
    samples: int = 20
    epochs: int | None = None
    rounds: int = 50
    budget: int | None = None
    width: int = 64

    def sizes(self, *names: str) -> dict[str, int | None]:
        """Those that a cell depends on, for its setting."""
        return {name: getattr(self, name) for name in names}


QUICK = Protocol(
    runs=2, test_rows=200, train_rows=400, samples=5, epochs=1, rounds=2, budget=20, width=4
)


_WORDS = {
    "test_rows": "test rows",
    "train_rows": "training rows",
    "samples": "samples",
    "rounds": "rounds",
    "budget": "labels a round",
    "width": "channels",
    "epochs": "epochs",
}


def shortened(setting: Mapping[str, Any]) -> str:
    """How a setting differs in size from the paper's, in words; empty where it does not."""
    papers = {**asdict(Protocol()), **setting.get("papers", {})}
    return ", ".join(
        f"{word}: {setting[name]:,}" + (f" instead of {papers[name]:,}" if papers[name] else "")
        for name, word in _WORDS.items()
        if name in setting and setting[name] != papers[name]
    )


@dataclass(frozen=True)
class Setup:
    """Where experiments find their data and keep their results, and what they run on.

    Parameters
    ----------
    store : Store or path
        The results.
    protocol : Protocol
        How large everything is.
    data_dir : path, optional
        The data sets; as :func:`scorewise.datasets.data_folder` says unless given.
    as_is : bool
        Whether to take files that are not the official ones; every result is marked.
    device : str, optional
        For networks: CUDA where there is one unless given.
    n_jobs : int, optional
        Cells at a time on the CPU, through joblib; as joblib is told elsewhere unless given, so
        that a Dask cluster serves too.
    weights_dir : path, optional
        Weights of pretrained networks; ``weights`` in the data folder unless given.
    progress : bool, optional
        Show bars; on terminals and for long work unless told.
    gaps : dict
        What was missing, by name, with how to get it; filled by the experiments.
    """

    store: Store
    protocol: Protocol = field(default_factory=Protocol)
    data_dir: Path | None = None
    as_is: bool = False
    device: str | None = None
    n_jobs: int | None = None
    weights_dir: Path | None = None
    progress: bool | None = None
    gaps: dict[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Paths may be given as strings."""
        if not isinstance(self.store, Store):
            object.__setattr__(self, "store", Store(self.store))
        for name in ("data_dir", "weights_dir"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, Path(getattr(self, name)))

    def has(self, name: str, *splits: str) -> bool:
        """Whether a data set is there and may be taken; if not, it is noted among the gaps."""
        try:
            for split in splits or ("train", "test"):
                self.load(name, split)
        except (MissingData, CorruptData) as error:
            self.gaps[name] = str(error)
            return False
        return True

    def load(self, name: str, split: str, run: int = 0) -> Rows:
        """The rows of a data set, read once; ``run`` splits those that have no split of their own.

        Raises
        ------
        MissingData
            If the set is not there.
        """
        return _load(name, split, self.data_dir, self.as_is, run)

    def described(self, *sets: tuple[str, str]) -> dict[str, dict[str, Any]]:
        """What identifies data sets and splits, for the setting of a cell.

        Those that are split by the run's seed are described by their first split, in all runs.
        """
        return {
            f"{name}/{split}": _described(name, split, self.data_dir, self.as_is)
            for name, split in sets
        }

    @cached_property
    def torch_device(self) -> Any:
        """Where networks are trained."""
        from scorewise.models import choose_device

        chosen = choose_device(self.device)
        if chosen.type == "cuda":
            import torch

            torch.cuda.set_device(chosen)
        return chosen


def look_again() -> None:
    """Forget what was read: files may have changed since."""
    _load.cache_clear()
    _described.cache_clear()


@lru_cache(maxsize=8)
def _load(name: str, split: str, data_dir: Path | None, as_is: bool, seed: int) -> Rows:
    return datasets.load(name, split, data_dir=data_dir, as_is=as_is, seed=seed)


def labels_of(rows: Rows) -> np.ndarray:
    """The classes of rows that must have them."""
    if rows.y is None:
        raise InvalidInput(f"{rows.name} has no labels")
    return rows.y


def drawn_rows(rows: Rows, most: int | None, run: int) -> np.ndarray:
    """Indices of rows drawn at random for a run, all of them where there are no more."""
    chosen: np.ndarray = generator(run, 0).permutation(len(rows))[:most]
    return chosen


@cache
def _described(name: str, split: str, data_dir: Path | None, as_is: bool) -> dict[str, Any]:
    rows = _load(name, split, data_dir, as_is, 0)
    return {"digest": content_digest(rows), "official": rows.official, "rows": len(rows)}


def content_digest(rows: Rows) -> str:
    """The same for the same rows, whatever kind of file they were in."""
    if not isinstance(rows.x, np.ndarray):  # large images, too many to read them all
        return rows.digest
    found = hashlib.sha256(rows.x.tobytes())
    found.update(b"" if rows.y is None else rows.y.tobytes())
    return found.hexdigest()
