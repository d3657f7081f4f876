"""Active learning as the paper has it: fifty rounds, from few labels, by epistemic uncertainty."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scorewise._files import replacing
from scorewise._progress import bar
from scorewise._random import generator
from scorewise.datasets import Rows
from scorewise.decompose import decompose
from scorewise.paper.cells import Cell, Result
from scorewise.paper.networks import Headed, features, lenet, mlp, thinned
from scorewise.paper.setup import Setup, labels_of
from scorewise.paper.stacks import Stack
from scorewise.tasks.acquire import acquire

KIND = "active-learning"
RULES = ("log", "brier", "zero-one", "spherical")
RANDOM = "random"
DROPOUT = 0.5
_ORDERS, _WEIGHTS, _DRAWS, _TIES, _FIRST = range(5)  # what random numbers are for


@dataclass(frozen=True)
class Choices:
    """Where the paper is silent: what we chose, and what else to try.

    Parameters
    ----------
    optimizer : "adam" or "sgd"
        The paper gives a learning rate only.
    batch : int
        Rows per step.
    wide : bool
        Whether the MLP has a first layer as wide as the image (see :func:`networks.mlp`).
    """

    optimizer: str = "adam"
    batch: int = 64
    wide: bool = True


@dataclass(frozen=True)
class Plan:
    """A row of the paper's table of settings."""

    data: str
    initial: int
    budget: int
    lr: float
    epochs: int


def learning_cells(
    setup: Setup, plan: Plan, measures: Sequence[str], choices: Choices
) -> list[Cell]:
    """One for each measure and run, where the data set is there."""
    if not setup.has(plan.data):
        return []
    train, test = (setup.load(plan.data, split) for split in ("train", "test"))
    protocol = setup.protocol
    common = {
        **asdict(plan),
        **asdict(choices),
        **protocol.sizes("samples", "rounds", "train_rows"),
        "epochs": protocol.epochs or plan.epochs,
        "initial": protocol.budget or plan.initial,
        "budget": protocol.budget or plan.budget,
        "papers": {"epochs": plan.epochs, "budget": plan.budget},
        "sets": setup.described(train, test),
    }
    return [
        Cell(KIND, {**common, "measure": measure, "run": run})
        for run in range(protocol.runs)
        for measure in measures
    ]


def compute(setup: Setup, wanted: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """The learning curves; all cells that differ by measure and run alone learn together."""
    groups: dict[str, list[Cell]] = {}
    for cell in wanted:
        alike = {k: v for k, v in cell.setting.items() if k not in {"measure", "run"}}
        groups.setdefault(Cell(KIND, {**alike, "run": "all"}).key, []).append(cell)
    for key, group in groups.items():
        yield from _learn_together(setup, key, group)


def _learn_together(setup: Setup, key: str, group: list[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Rounds of all learners side by side, kept after each."""
    started = time.perf_counter()
    checkpoint = setup.store.checkpoint_path(f"{KIND}-{key}")
    kept: dict[str, Any] = {"keys": [], "rows": None, "errors": [], "seconds": 0.0}
    if checkpoint.is_file():
        found = torch.load(checkpoint, weights_only=True)
        # those that were finished before the others could be written learn once more
        if {cell.key for cell in group} <= set(found["keys"]):
            kept = found
    settings = [cell.setting for cell in group]
    if kept["keys"]:
        settings = kept["settings"]
    setting = settings[0]
    device = setup.torch_device
    train = setup.load(setting["data"], "train")
    test = setup.load(setting["data"], "test")
    x, y = _on(device, train, setting["train_rows"])
    x_test, y_test = _on(device, test, None)
    stack = Stack(
        lambda: network_for(train, setting["wide"]), len(settings), x, y, batch=setting["batch"],
        most_rows=min(setting["initial"] + setting["rounds"] * setting["budget"], len(x)),
        optimizer=setting["optimizer"], lr=setting["lr"],
    )  # fmt: skip
    rows = kept["rows"]
    if rows is None:
        rows = torch.stack([_first_rows(one, len(x)) for one in settings])
    before = kept["seconds"]
    first = len(kept["errors"])
    about = f"active learning on {setting['data']}, {len(settings)} learners"
    with bar(about, setting["rounds"] + 1 - first, setup.progress) as advance:
        for number in range(first, setting["rounds"] + 1):
            stack.begin([_seed(one, _WEIGHTS, number) for one in settings])
            stack.fit(rows, setting["epochs"], _seed(setting, _ORDERS, number))
            asked = [
                _ask(stack.network(i), one, number, rows[i], x, x_test, y_test)
                for i, one in enumerate(settings)
            ]
            kept["errors"].append([error for error, _ in asked])
            rows = torch.stack([row for _, row in asked])
            spent = before + time.perf_counter() - started
            kept |= {"keys": [Cell(KIND, one).key for one in settings], "settings": settings}
            kept |= {"rows": rows, "seconds": spent}
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            with replacing(checkpoint) as partial:
                torch.save(kept, partial)
            advance(1)
    spent = before + time.perf_counter() - started
    errors = np.asarray(kept["errors"])
    labels = [setting["initial"] + i * setting["budget"] for i in range(len(errors))]
    wanted = {cell.key: cell for cell in group}
    for i, found_key in enumerate(kept["keys"]):
        if found_key in wanted:
            numbers = {"labels": labels, "error": errors[:, i].round(6).tolist()}
            yield (
                wanted[found_key],
                Result(numbers, seconds=spent / len(settings), device=str(device)),
            )
    checkpoint.unlink(missing_ok=True)


def _ask(
    network: Headed, setting: Any, number: int, labelled: Tensor, x: Tensor, x_test: Tensor,
    y_test: Tensor,
) -> tuple[float, Tensor]:  # fmt: skip
    """The test error of a learner (of the mean of its draws), and its rows with those it asks."""
    draws = torch.Generator(x.device).manual_seed(_seed(setting, _DRAWS, number))

    def members(images: Tensor) -> Tensor:
        found = features(network, images, batch=20_000)
        return thinned(found, network.head, setting["samples"], DROPOUT, draws)

    error = float((members(x_test).mean(1).argmax(1) != y_test).double().mean())
    if number == setting["rounds"]:
        return error, labelled
    budget = min(setting["budget"], len(x) - len(labelled))
    measure = setting["measure"]
    if measure == RANDOM:
        scores, method = np.zeros(len(x)), "random"
    else:
        scores = decompose(members(x), measure, check=False).epistemic.double().cpu().numpy()
        method = "top"
    chosen = acquire(
        scores, budget, method, random_state=_seed(setting, _TIES, number),
        labelled=labelled.numpy(),
    )  # fmt: skip
    return error, torch.cat([labelled, torch.from_numpy(chosen)])


def network_for(rows: Rows, wide: bool) -> Headed:
    """An MLP for grey images, a LeNet for coloured ones."""
    _, channels, height, width = rows.x.shape
    if channels == 1:
        return mlp(height * width, rows.n_classes, wide=wide, dropout=DROPOUT)
    return lenet(channels, height, rows.n_classes, dropout=DROPOUT)


def _on(device: torch.device, rows: Rows, most: int | None) -> tuple[Tensor, Tensor]:
    """Images from 0 to 1 and labels, on the device."""
    x, y = rows.x[:most], labels_of(rows)[:most]
    return torch.from_numpy(x).to(device).float() / 255, torch.from_numpy(y).to(device)


def _first_rows(setting: Any, n: int) -> Tensor:
    """The labels at the beginning: the same for all measures of a run."""
    drawn = generator(setting["run"], _FIRST, 0).permutation(n)[: setting["initial"]]
    return torch.from_numpy(drawn)


def _seed(setting: Any, purpose: int, number: int) -> int:
    """A seed for a purpose and a round, the same for all measures of a run."""
    return int(generator(setting["run"], purpose, number).integers(2**62))
