"""Active learning as the paper has it: fifty rounds, from few labels, by epistemic uncertainty."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scorewise._progress import bar
from scorewise._random import generator
from scorewise.acquire import acquire
from scorewise.datasets import Rows
from scorewise.decompose import RULES, decompose
from scorewise.paper.cells import Cell, Result
from scorewise.paper.checkpoints import keep, kept
from scorewise.paper.kinds import LEARNING, Choices
from scorewise.paper.networks import Headed, features, lenet, mlp, thinned
from scorewise.paper.published import published
from scorewise.paper.setup import Setup, labels_of
from scorewise.paper.stacks import Stack

RANDOM = "random"
MEASURES = (*RULES, RANDOM)
DROPOUT = 0.5
_TOGETHER = 20_000  # images that a network looks at at once
_ORDERS, _WEIGHTS, _DRAWS, _TIES, _FIRST = range(5)  # what random numbers are for


def learning_cells(setup: Setup, data: str, choices: Choices) -> list[Cell]:
    """One for each measure and run, as the paper's table has it, where the data set is there."""
    if not setup.has(data):
        return []
    (plan,) = (row for row in published("tab:alconfig")["rows"] if row["data"] == data)
    protocol = setup.protocol
    common = {
        **plan,
        **asdict(choices),
        **protocol.sizes("samples", "rounds", "train_rows"),
        "epochs": protocol.epochs or plan["epochs"],
        "initial": protocol.budget or plan["initial"],
        "budget": protocol.budget or plan["budget"],
        "papers": {"epochs": plan["epochs"], "budget": plan["budget"]},
        "sets": setup.described((data, "train"), (data, "test")),
    }
    return [
        Cell(LEARNING, {**common, "measure": measure, "run": run})
        for run in range(protocol.runs)
        for measure in MEASURES
    ]


def compute(setup: Setup, wanted: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """The learning curves; all cells that differ by measure and run alone learn together."""
    groups: dict[str, list[Cell]] = {}
    for cell in wanted:
        alike = {k: v for k, v in cell.setting.items() if k not in {"measure", "run"}}
        groups.setdefault(Cell(LEARNING, {**alike, "run": "all"}).key, []).append(cell)
    for key, group in groups.items():
        checkpoint = setup.store.checkpoint_path(f"{LEARNING}-{key}")
        yield from _learn_together(setup, checkpoint, group)


@dataclass
class _Learners:
    """Where learners stand: the rows that each has labels for, and their errors so far."""

    settings: list[Any]
    rows: Tensor  # (learners, labels)
    errors: list[list[float]]  # by round
    seconds: float

    @classmethod
    def of(cls, group: Sequence[Cell], checkpoint: Path, n: int) -> _Learners:
        """As they were left, or at the beginning.

        Learners go on together as they began: some may have been written already, and are wanted
        no more.
        """
        found = kept(checkpoint)
        if found and found.keys() == {one.name for one in fields(cls)}:
            there = {Cell(LEARNING, setting).key for setting in found["settings"]}
            if {cell.key for cell in group} <= there:
                return cls(**found)
        settings = [dict(cell.setting) for cell in group]
        return cls(settings, torch.stack([_first_rows(one, n) for one in settings]), [], 0.0)


def _learn_together(
    setup: Setup, checkpoint: Path, group: Sequence[Cell]
) -> Iterator[tuple[Cell, Result]]:
    """Rounds of all learners side by side, kept after each."""
    started = time.perf_counter()
    setting, device = group[0].setting, setup.torch_device
    train, test = (setup.load(setting["data"], split) for split in ("train", "test"))
    x, y = _on(device, train, setting["train_rows"])
    x_test, y_test = _on(device, test)
    learners = _Learners.of(group, checkpoint, len(x))
    started -= learners.seconds
    stack = Stack(
        lambda: network_for(train, setting["wide"]),
        len(learners.settings),
        x,
        y,
        batch=setting["batch"],
        optimizer=setting["optimizer"],
        lr=setting["lr"],
        most_rows=min(setting["initial"] + setting["rounds"] * setting["budget"], len(x)),
    )
    about = f"active learning on {setting['data']}, {len(stack)} learners"
    first, last = len(learners.errors), setting["rounds"]
    members: list[np.ndarray] = []
    with bar(about, last + 1 - first, setup.progress) as advance:
        for number in range(first, last + 1):
            stack.begin([_seed(one, _WEIGHTS, number) for one in learners.settings])
            seeds = [_seed(one, _ORDERS, number) for one in learners.settings]
            stack.fit(learners.rows, setting["epochs"], seeds)
            asked = [
                _Learner(stack.network(i), one, number) for i, one in enumerate(learners.settings)
            ]
            told = [one.members(x_test) for one in asked]
            learners.errors.append([_error(probs, y_test) for probs in told])
            if number < last:
                learners.rows = torch.stack(
                    [one.ask(x, rows) for one, rows in zip(asked, learners.rows, strict=True)]
                )
                learners.seconds = time.perf_counter() - started
                keep(checkpoint, vars(learners))
            else:
                members = [probs.cpu().numpy() for probs in told]
            advance(1)
    seconds = (time.perf_counter() - started) / len(stack)
    labels = np.minimum(setting["initial"] + setting["budget"] * np.arange(last + 1), len(x))
    wanted = {cell.key: cell for cell in group}
    for one, errors, probs in zip(
        learners.settings, np.transpose(learners.errors), members, strict=True
    ):
        if (cell := wanted.get(Cell(LEARNING, one).key)) is not None:
            numbers = {"labels": labels, "error": errors.round(6)}
            kept_members = {"probs": probs, "y": labels_of(test)}
            yield cell, Result(numbers, kept_members, seconds, str(device))
    checkpoint.unlink(missing_ok=True)


class _Learner:
    """A trained network of a round, and whom it would ask."""

    def __init__(self, network: Headed, setting: Any, number: int) -> None:
        self.network, self.setting, self.number = network, setting, number
        device = network.head.weight.device
        self.draws = torch.Generator(device).manual_seed(_seed(setting, _DRAWS, number))

    def members(self, images: Tensor) -> Tensor:
        """Probabilities ``(n, draws, K)`` by dropout."""
        found = features(self.network, images, batch=_TOGETHER)
        return thinned(found, self.network.head, self.setting["samples"], DROPOUT, self.draws)

    def ask(self, pool: Tensor, labelled: Tensor) -> Tensor:
        """The rows with labels, and those it wants labels for."""
        budget = min(self.setting["budget"], len(pool) - len(labelled))
        if budget == 0:
            return labelled
        measure = self.setting["measure"]
        scores = np.zeros(len(pool))
        if measure != RANDOM:
            parts = decompose(self.members(pool), measure, check=False)
            scores = parts.epistemic.double().cpu().numpy()
        chosen = acquire(
            scores,
            budget,
            "random" if measure == RANDOM else "top",
            labelled=labelled.numpy(),
            random_state=_seed(self.setting, _TIES, self.number),
        )
        return torch.cat([labelled, torch.from_numpy(chosen)])


def _error(probs: Tensor, y: Tensor) -> float:
    """The zero-one loss of the mean of the members."""
    return float((probs.mean(1).argmax(1) != y).double().mean())


def network_for(rows: Rows, wide: bool) -> Headed:
    """An MLP for grey images, a LeNet for coloured ones."""
    _, channels, height, width = rows.x.shape
    if channels == 1:
        return mlp(height * width, rows.n_classes, wide=wide, dropout=DROPOUT)
    return lenet(channels, height, rows.n_classes, dropout=DROPOUT)


def _on(device: torch.device, rows: Rows, most: int | None = None) -> tuple[Tensor, Tensor]:
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
