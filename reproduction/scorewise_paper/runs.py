"""Run experiments: results that are not stored yet are computed and stored one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from typing import Protocol as Interface

import numpy as np

from scorewise_paper import datasets
from scorewise_paper._files import Show
from scorewise_paper.datasets import Rows
from scorewise_paper.errors import CorruptData, InvalidInput, MissingData, Remedy, ScorewiseError
from scorewise_paper.results import Cell, Result, Store, Stored

# In the order of the page. The file of an experiment has its name, with underscores.
EXPERIMENTS = {
    "figure-1": "Figure 1: rejecting by total uncertainty, CoverType",
    "figure-sp-components": "Appendix: rejecting by aleatoric and epistemic uncertainty, CoverType",
    "figure-sp-poker": "Appendix: rejecting by all three components, Poker Hand",
    "figure-sp-cifar10": "Appendix: rejecting by total uncertainty, CIFAR-10",
    "table-1": "Table 1: OOD detection on CIFAR-10, by epistemic uncertainty",
    "table-imagenet": "Table: OOD detection on ImageNet, by epistemic uncertainty",
    "table-food101": "Table: OOD detection on Food-101, by epistemic uncertainty",
    "figure-2": "Figure 2: active learning by epistemic uncertainty",
    "figure-al-more": "Appendix: active learning on further sets",
    "figure-al-spherical": "Appendix: active learning with the spherical loss",
    "alignment": "Beyond the paper: alignment needs calibration",
}


# -- sizes, folders and devices --------------------------------------------------------------------


@dataclass(frozen=True)
class Protocol:
    """The sizes of an experiment; by default those of the paper.

    Parameters
    ----------
    runs : int
        Number of repetitions, with new seeds.
    test_rows : int
        Rows drawn from the test set (and from each out-of-distribution set).
    train_rows : int, optional
        Rows of the training set or the pool; all by default.
    samples : int
        Draws from dropout or a Laplace approximation.
    epochs : int, optional
        Passes over the training data; by default those of the paper's tables.
    rounds : int
        Rounds of active learning.
    budget : int, optional
        Labels that active learning starts with, and acquires in each round; by default those of
        the paper's table.
    width : int
        Channels of the ResNets' first stage.

    Examples
    --------
    >>> from scorewise_paper import Protocol
    >>> Protocol(epochs=10).sizes("samples", "epochs")
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
        """Return the sizes that a cell depends on, for its setting."""
        return {name: getattr(self, name) for name in names}


QUICK = Protocol(
    runs=2, test_rows=200, train_rows=400, samples=5, epochs=1, rounds=2, budget=20, width=4
)

_SIZE_NAMES = {
    "test_rows": "test rows",
    "train_rows": "training rows",
    "samples": "samples",
    "rounds": "rounds",
    "budget": "labels per round",
    "width": "channels",
    "epochs": "epochs",
}


def shortened(setting: Mapping[str, Any]) -> str:
    """Return how a setting differs in size from the paper's, in words; empty if it does not."""
    paper_sizes = {**asdict(Protocol()), **setting.get("papers", {})}
    return ", ".join(
        f"{title}: {setting[name]:,}"
        + (f" instead of {paper_sizes[name]:,}" if paper_sizes[name] else "")
        for name, title in _SIZE_NAMES.items()
        if name in setting and setting[name] != paper_sizes[name]
    )


@dataclass(frozen=True)
class Setup:
    """The folders, sizes and devices of experiments.

    Parameters
    ----------
    store : Store or path
        The results.
    protocol : Protocol
        The sizes of everything.
    data_dir : path, optional
        The data sets; by default :func:`scorewise_paper.datasets.data_folder`.
    as_is : bool
        Whether to use files that are not the official ones; every result is marked.
    device : str, optional
        For networks; by default CUDA where it is available.
    n_jobs : int, optional
        Number of forests that joblib trains in parallel; by default as joblib is configured.
    scheduler : str, optional
        The Dask cluster that trains forests and networks: ``"local"``, ``"local:N"`` or the address
        of a scheduler, as for :func:`scorewise.scale.cluster`. Its workers need this package and
        the data sets, at the same path, and have ``device``.
    weights_dir : path, optional
        Weights of pretrained networks; by default ``weights`` in the data folder.
    progress : bool or callable, optional
        Show bars; by default on terminals and for long work. Or what is called after each step
        instead, with the name of the work, the steps that are done, and all steps.
    gaps : dict of errors
        Data and weights that are missing, by name, with how to get them; filled by the experiments.
    """

    store: Store
    protocol: Protocol = field(default_factory=Protocol)
    data_dir: Path | None = None
    as_is: bool = False
    device: str | None = None
    n_jobs: int | None = None
    scheduler: str | None = None
    weights_dir: Path | None = None
    progress: Show = None
    gaps: dict[str, ScorewiseError] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Accept strings as paths; workers run in another folder, and need the whole path."""
        if not isinstance(self.store, Store):
            object.__setattr__(self, "store", Store(self.store))
        for name in ("data_dir", "weights_dir"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, Path(getattr(self, name)))
        if self.scheduler is not None:
            if self.n_jobs is not None:
                raise InvalidInput(
                    f"n_jobs={self.n_jobs} is for this machine; with a scheduler, its workers "
                    "decide how many forests are trained in parallel",
                    Remedy("jobs", None),
                )
            root = datasets.data_folder(self.data_dir).absolute()
            object.__setattr__(self, "data_dir", root)

    def has(self, name: str, *splits: str) -> bool:
        """Return whether a data set is available and may be used; if not, note the gap."""
        try:
            for split in splits or ("train", "test"):
                self.load(name, split)
        except (MissingData, CorruptData) as error:
            self.gaps[name] = error
            return False
        return True

    def load(self, name: str, split: str, run: int = 0) -> Rows:
        """Return the rows of a data set, read once; ``run`` is the seed that splits pooled sets.

        Raises
        ------
        MissingData
            If the set is missing.
        """
        return _load(name, split, self.data_dir, self.as_is, run)

    def described(self, *sets: tuple[str, str]) -> dict[str, dict[str, Any]]:
        """Return the digests and sizes of data sets and splits, for the setting of a cell.

        Pooled sets are described by their split with seed 0, in all runs.
        """
        return {
            f"{name}/{split}": _described(name, split, self.data_dir, self.as_is)
            for name, split in sets
        }

    @cached_property
    def torch_device(self) -> Any:
        """The device of networks.

        Raises
        ------
        InvalidInput
            If it cannot be used.
        """
        import torch

        name = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.empty(0, device=name).device
        except (RuntimeError, AssertionError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInput(f"the device {name!r} cannot be used: {reason}") from None
        if device.type == "cuda":
            torch.cuda.set_device(device)
        return device


@lru_cache(maxsize=8)
def _load(name: str, split: str, data_dir: Path | None, as_is: bool, seed: int) -> Rows:
    return datasets.load(name, split, data_dir=data_dir, as_is=as_is, seed=seed)


@cache
def _described(name: str, split: str, data_dir: Path | None, as_is: bool) -> dict[str, Any]:
    rows = _load(name, split, data_dir, as_is, 0)
    return {"digest": _content_digest(rows), "official": rows.official, "rows": len(rows)}


def _content_digest(rows: Rows) -> str:
    """Return a digest of the content of rows, which does not depend on their files."""
    if not isinstance(rows.x, np.ndarray):  # large images, too many to read them all
        return rows.digest
    digest = hashlib.sha256(rows.x.tobytes())
    digest.update(b"" if rows.y is None else rows.y.tobytes())
    return digest.hexdigest()


def random_numbers(seed: int, *keys: int) -> np.random.Generator:
    """Return a random generator, an independent one for each seed and each tuple of keys."""
    return np.random.default_rng(np.random.SeedSequence([seed, *keys]))


def labels_of(rows: Rows) -> np.ndarray:
    """Return the classes of rows that must have labels."""
    if rows.y is None:
        raise InvalidInput(f"{rows.name} has no labels")
    return rows.y


def drawn_rows(rows: Rows, most: int | None, run: int) -> np.ndarray:
    """Return the indices of up to ``most`` rows, drawn at random for a run."""
    indices: np.ndarray = random_numbers(run, 0).permutation(len(rows))[:most]
    return indices


# -- running ---------------------------------------------------------------------------------------


class Experiment(Interface):
    """The interface of an experiment's module.

    ``EXPERIMENT`` is its name, or that of the experiment whose results it shows.
    """

    EXPERIMENT: str
    REVISION: int
    cells: Callable[[Setup], list[Cell]]
    compute: Callable[[Setup, Sequence[Cell]], Iterator[tuple[Cell, Result]]]
    section: Callable[[Sequence[Stored]], Any]


@dataclass
class Outcome:
    """A summary of a run of experiments.

    Attributes
    ----------
    cells : int
        Cells of the experiments.
    computed : int
        Cells that were computed now; the results of the others were stored.
    damaged : list of str
        Damaged results, which do not count.
    gaps : dict of errors
        Data and weights that are missing, with how to get them; their cells are left out.
    """

    cells: int = 0
    computed: int = 0
    damaged: list[str] = field(default_factory=list)
    gaps: dict[str, ScorewiseError] = field(default_factory=dict)


def experiment(name: str) -> Experiment:
    """Return the module of an experiment.

    Parameters
    ----------
    name : str
        A name of ``EXPERIMENTS``.

    Returns
    -------
    module
        Its ``REVISION``, its ``cells`` for a setup, ``compute`` for cells, its ``section``.

    Examples
    --------
    >>> from scorewise_paper import experiment
    >>> experiment("figure-1").REVISION
    1
    """
    if name not in EXPERIMENTS:
        raise InvalidInput(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return cast(Experiment, import_module(f"scorewise_paper.{name.replace('-', '_')}"))


def is_stale(cell: Cell) -> bool:
    """Return whether a result is of another revision of its experiment, and does not count."""
    return cell.revision != experiment(cell.experiment).REVISION


def run(names: str | Iterable[str], setup: Setup) -> Outcome:
    """Run experiments, and store every result as soon as it is computed.

    Stored results are not computed again, unless they are damaged or of another revision. Two
    runs at the same time wait for each other.

    Parameters
    ----------
    names : str or iterable of str
        Names of ``EXPERIMENTS``.
    setup : Setup
        Folders, devices and sizes.

    Returns
    -------
    Outcome

    Raises
    ------
    MissingData
        If nothing can be computed for lack of data or weights.

    Examples
    --------
    >>> from scorewise_paper import Setup, run
    >>> run("figure-1", Setup("results", data_dir="none"))
    Traceback (most recent call last):
    scorewise_paper.errors.MissingData: CoverType is not in none (covtype.data is missing); ...
    """
    _load.cache_clear()  # files may have changed
    _described.cache_clear()
    by_key: dict[str, Cell] = {}
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        by_key |= {cell.key: cell for cell in experiment(name).cells(setup)}
    if not by_key:
        problems = "; ".join(gap.problem for gap in setup.gaps.values())
        remedies = dict.fromkeys(x for gap in setup.gaps.values() for x in gap.remedies)
        raise MissingData(problems, *remedies)
    setup.store.prepare()
    outcome = Outcome(cells=len(by_key), gaps=setup.gaps)
    for name in dict.fromkeys(cell.experiment for cell in by_key.values()):
        cells = [cell for cell in by_key.values() if cell.experiment == name]
        compute = experiment(name).compute
        with setup.store.lock(compute.__module__):  # experiments may share networks
            missing = _missing(setup.store, name, cells, outcome)
            for cell, result in compute(setup, missing) if missing else ():
                setup.store.write(cell, result)
                outcome.computed += 1
    return outcome


def _missing(store: Store, name: str, cells: Sequence[Cell], outcome: Outcome) -> list[Cell]:
    """Return the cells without a result; damaged results are noted."""
    results, damaged = store.read(name)
    outcome.damaged += damaged
    stored = {x.cell.key: x for x in results}
    missing = []
    for cell in cells:
        problem = store.members_problem(stored[cell.key]) if cell.key in stored else None
        if problem is not None:
            outcome.damaged.append(problem)
        if problem is not None or cell.key not in stored:
            missing.append(cell)
    return missing
