"""Running experiments: what is not there yet is computed and kept, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType

from scorewise.errors import InvalidInput, MissingData
from scorewise.paper.cells import Cell, DamagedCell, Result, Store
from scorewise.paper.kinds import COMPUTED_BY
from scorewise.paper.setup import Setup, look_again

EXPERIMENTS = (
    "figure-1",
    "figure-sp-components",
    "figure-sp-poker",
    "figure-sp-cifar10",
    "table-1",
    "table-imagenet",
    "table-food101",
    "figure-2",
    "figure-al-more",
    "figure-al-spherical",
)

Compute = Callable[[Setup, Sequence[Cell]], Iterator[tuple[Cell, Result]]]

# Libraries whose names are others than those of their packages.
_PACKAGES = {"laplace": "laplace-torch", "PIL": "pillow"}


@dataclass
class Outcome:
    """What running experiments came to.

    Attributes
    ----------
    cells : int
        Cells of the experiments.
    computed : int
        Those that were computed now; the others were there.
    damaged : list of str
        What was found damaged, and computed again.
    gaps : dict
        Data and weights that are missing, with how to get them; their cells are left out.
    """

    cells: int = 0
    computed: int = 0
    damaged: list[str] = field(default_factory=list)
    gaps: dict[str, str] = field(default_factory=dict)


def experiment(name: str) -> ModuleType:
    """The module of an experiment: its ``TITLE``, its ``cells`` for a setup, its ``section``."""
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise InvalidInput(f"there is no experiment {name!r}; there are {known}")
    return import_module(f"scorewise.paper.{name.replace('-', '_')}")


def run(names: str | Iterable[str], setup: Setup) -> Outcome:
    """Run experiments, and keep every cell as soon as it is done.

    What was done before, by this run or another of the same setting, is not done again; two runs at
    once wait for one another.

    Parameters
    ----------
    names : str or iterable of str
        Of ``EXPERIMENTS``.
    setup : Setup
        With what, where and how large.

    Returns
    -------
    Outcome

    Raises
    ------
    MissingData
        If nothing can be computed for want of data, weights or libraries.

    Examples
    --------
    >>> from scorewise import paper
    >>> paper.run("figure-1", paper.Setup(paper.Store("results"), data_dir="none"))
    Traceback (most recent call last):
    scorewise.errors.MissingData: CoverType is not in none (covtype.data is missing); ...
    """
    look_again()
    wanted: dict[str, Cell] = {}
    for name in [names] if isinstance(names, str) else names:
        try:
            with extras_told():
                wanted |= {cell.key: cell for cell in experiment(name).cells(setup)}
        except ImportError as error:
            setup.gaps[name] = str(error)
    if not wanted:
        raise MissingData("; ".join(setup.gaps.values()))
    setup.store.prepare()
    outcome = Outcome(cells=len(wanted), gaps=setup.gaps)
    for kind in dict.fromkeys(COMPUTED_BY[cell.kind] for cell in wanted.values()):
        cells = [cell for cell in wanted.values() if COMPUTED_BY[cell.kind] == kind]
        with extras_told(), setup.store.alone(kind[0]):
            todo = _missing(setup.store, cells, outcome)
            compute: Compute = getattr(import_module(kind[0]), kind[1])
            for cell, result in compute(setup, todo) if todo else ():
                setup.store.write(cell, result)
                outcome.computed += 1
    return outcome


def _missing(store: Store, cells: Sequence[Cell], outcome: Outcome) -> list[Cell]:
    """Those without a result; what is damaged is noted, and has none."""
    found = []
    for cell in cells:
        try:
            if store.read(cell) is not None:
                continue
        except DamagedCell as error:
            outcome.damaged.append(str(error))
        found.append(cell)
    return found


@contextmanager
def extras_told() -> Iterator[None]:
    """A library that is not installed is named together with how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library in {"", "scorewise"}:
            raise
        raise ImportError(
            f"this needs {_PACKAGES.get(library, library)}: pip install 'scorewise[paper]'"
        ) from error
