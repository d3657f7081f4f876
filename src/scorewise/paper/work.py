"""Running experiments: what is not there yet is computed and kept, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType

from scorewise.errors import InvalidInput, MissingData
from scorewise.paper.cells import Cell, DamagedCell, Result
from scorewise.paper.setup import Setup

EXPERIMENTS = (
    "figure-1", "figure-sp-components", "figure-sp-poker", "figure-sp-cifar10", "table-1",
    "table-imagenet", "table-food101", "figure-2", "figure-al-more", "figure-al-spherical",
)  # fmt: skip

Compute = Callable[[Setup, Sequence[Cell]], Iterator[tuple[Cell, Result]]]

# Who computes cells of a kind: a module, which may need torch, and its function.
_COMPUTED_BY = {
    "forest-rejection": ("scorewise.paper.rejection", "compute_forests"),
    "active-learning": ("scorewise.paper.learning", "compute"),
    "resnet-ood": ("scorewise.paper.cifar", "compute"),
    "resnet-rejection": ("scorewise.paper.cifar", "compute"),
    "pretrained-ood": ("scorewise.paper.pretrained", "compute"),
}


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
    """The module of an experiment: its ``TITLE``, and its ``cells`` for a setup."""
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise InvalidInput(f"there is no experiment {name!r}; there are {known}")
    return import_module(f"scorewise.paper.{name.replace('-', '_')}")


def run(names: Iterable[str], setup: Setup) -> Outcome:
    """Run experiments, and keep every cell as soon as it is done.

    What was done before, by this run or another of the same setting, is not done again.

    Raises
    ------
    MissingData
        If nothing can be computed for want of data.
    """
    with extras_told():
        wanted = {cell.key: cell for name in names for cell in experiment(name).cells(setup)}
    outcome = Outcome(cells=len(wanted), gaps=setup.gaps)
    if not wanted:
        raise MissingData("; ".join(setup.gaps.values()))
    setup.store.prepare()
    todo: dict[Compute, list[Cell]] = {}
    for cell in wanted.values():
        try:
            if setup.store.read(cell) is not None:
                continue
        except DamagedCell as error:
            outcome.damaged.append(str(error))
        module, function = _COMPUTED_BY[cell.kind]
        todo.setdefault(getattr(import_module(module), function), []).append(cell)
    with extras_told():
        for compute, cells in todo.items():
            for cell, result in compute(setup, cells):
                setup.store.write(cell, result)
                outcome.computed += 1
    return outcome


@contextmanager
def extras_told() -> Iterator[None]:
    """A library that is not installed is named together with how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "scorewise":
            raise
        raise ImportError(f"this needs {error.name}: pip install 'scorewise[paper]'") from error
