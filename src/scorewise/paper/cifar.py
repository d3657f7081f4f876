"""CIFAR-10 and its ResNets: trained a run at a time, asked by dropout, ensemble and Laplace."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scorewise.models import predict_samples
from scorewise.paper.cells import Cell, Result
from scorewise.paper.checkpoints import keep
from scorewise.paper.detection import detection_numbers
from scorewise.paper.images import squares
from scorewise.paper.kinds import RESNET_OOD, RESNET_REJECTION
from scorewise.paper.networks import Headed, features
from scorewise.paper.rejection import rejection_numbers
from scorewise.paper.resnets import (
    BATCH,
    LEARNING_RATE,
    MOMENTUM,
    WEIGHT_DECAY,
    Recipe,
    normalized,
    restored,
    train,
)
from scorewise.paper.setup import Setup, drawn_rows, labels_of

DATA = "cifar-10"
MEMBERS = 5
DROPOUT = 0.5
EPOCHS = 100
_SIDE = 32
_BATCH = 1000  # images asked at a time


def ood_cells(setup: Setup, sets: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    """One for each set out of distribution, method and run."""
    if "laplace" in methods:
        import_module("scorewise.models.torch._laplace")  # fail before the training
    return [
        Cell(RESNET_OOD, {**_setting(setup, method, run, name), "ood": name})
        for run in range(setup.protocol.runs)
        for method in methods
        for name in sets
    ]


def rejection_cells(setup: Setup, method: str) -> list[Cell]:
    """One for each run."""
    return [
        Cell(RESNET_REJECTION, _setting(setup, method, run)) for run in range(setup.protocol.runs)
    ]


def _setting(setup: Setup, method: str, run: int, *others: str) -> dict[str, Any]:
    protocol = setup.protocol
    read = [(DATA, "train"), (DATA, "test"), *((name, "test") for name in others)]
    return {
        "data": DATA,
        "method": method,
        "run": run,
        "members": MEMBERS if method == "ensemble" else 1,
        "batch": BATCH,
        "lr": LEARNING_RATE,
        "momentum": MOMENTUM,
        "weight_decay": WEIGHT_DECAY,
        "epochs": protocol.epochs or EPOCHS,
        "papers": {"epochs": EPOCHS},
        **protocol.sizes("test_rows", "train_rows", "samples", "width"),
        "sets": setup.described(*read),
    }


def compute(setup: Setup, wanted: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Run by run: all networks of a run are trained at once, unless they were before."""
    for run in sorted({cell.setting["run"] for cell in wanted}):
        cells = [cell for cell in wanted if cell.setting["run"] == run]
        started = time.perf_counter()
        asked = _Run(setup, cells)
        share = (time.perf_counter() - started) / len(cells)
        for cell in sorted(cells, key=lambda cell: str(cell.setting["method"])):
            began = time.perf_counter()
            numbers, members = asked.answer(cell)
            seconds = share + time.perf_counter() - began
            yield cell, Result(numbers, members, seconds, str(setup.torch_device))


class _Run:
    """The networks of a run, and what they say."""

    def __init__(self, setup: Setup, cells: Sequence[Cell]) -> None:
        self.setup, self.setting = setup, cells[0].setting
        self.device = setup.torch_device
        self.run = int(self.setting["run"])
        needed = {i for cell in cells for i in _networks_of(cell.setting["method"])}
        self.networks = _trained(setup, self.setting, sorted(needed))
        self._said: dict[tuple[str, str], np.ndarray] = {}

    def answer(self, cell: Cell) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Numbers, and the members they come from."""
        method = cell.setting["method"]
        inside, y = self._members(method, DATA), self._labels
        accuracy = float((inside.mean(1).argmax(1) == y).mean())
        if cell.kind == RESNET_REJECTION:
            top = np.sort(inside.mean(1), axis=1)[:, -2:].sum(1)
            mass = {"top_2_mass": float(top.mean()), "top_2_mass_sd": float(top.std())}
            return {**rejection_numbers(inside, y), **mass}, {"probs": inside, "y": y}
        outside = self._members(method, cell.setting["ood"])
        numbers = {"accuracy": accuracy, **detection_numbers(inside, outside)}
        return numbers, {"probs": inside, "y": y, "outside": outside}

    @cached_property
    def _labels(self) -> np.ndarray:
        rows = self.setup.load(DATA, "test")
        return labels_of(rows)[drawn_rows(rows, self.setting["test_rows"], self.run)]

    def _images(self, name: str) -> Tensor:
        rows = self.setup.load(name, "test")
        chosen = drawn_rows(rows, self.setting["test_rows"], self.run)
        found = torch.cat(list(squares(rows, chosen, _SIDE)))
        return normalized(found.to(self.device))

    def _members(self, method: str, name: str) -> np.ndarray:
        """Probabilities ``(n, M, K)``, in double precision."""
        if (method, name) not in self._said:
            said = self._ask(method, self._images(name))
            self._said[method, name] = said.astype(np.float64)
        return self._said[method, name]

    def _ask(self, method: str, x: Tensor) -> np.ndarray:
        asked: dict[str, Any] = {"batch_size": _BATCH, "device": self.device, "progress": False}
        draws = {"n_samples": self.setting["samples"], "random_state": self.run}
        if method == "ensemble":
            networks = [self.networks[i] for i in _networks_of(method)]
            return np.asarray(predict_samples(networks, x, **asked).probs)
        network = self.networks[_networks_of(method)[0]]
        if method == "dropout":
            return np.asarray(predict_samples(network, x, **draws, **asked).probs)
        found = features(network, x)
        return np.asarray(predict_samples(self._laplace, found, **draws, **asked).probs)

    @cached_property
    def _laplace(self) -> Any:
        """A Gaussian over the last layer, fitted to the features of the training images."""
        from scorewise.models import fit_laplace

        network = self.networks[_networks_of("laplace")[0]]
        images, labels = _training(self.setup, self.setting)
        found = torch.cat(
            [features(network, normalized(part.to(self.device))) for part in images.split(_BATCH)]
        )
        head = nn.Sequential(nn.Identity(), network.head)
        return fit_laplace(head, found, labels, progress=False)


def _networks_of(method: str) -> list[int]:
    """Which of a run's networks a method asks: five make the ensemble, one was made for dropout.

    The Laplace approximation is one around the ensemble's first.
    """
    return {"ensemble": list(range(MEMBERS)), "laplace": [0], "dropout": [MEMBERS]}[method]


def _training(setup: Setup, setting: Any) -> tuple[Tensor, Tensor]:
    rows = setup.load(DATA, "train")
    most = setting["train_rows"]
    return torch.from_numpy(rows.x[:most]), torch.from_numpy(labels_of(rows)[:most])


def _trained(setup: Setup, setting: Any, needed: Sequence[int]) -> dict[int, Headed]:
    """The networks of a run by number; those that are not there yet are trained together."""
    device = setup.torch_device
    recipes = {
        i: Recipe(
            seed=100 * int(setting["run"]) + i,
            dropout=DROPOUT if i == MEMBERS else 0.0,
            epochs=setting["epochs"],
            width=setting["width"],
            batch=setting["batch"],
            lr=setting["lr"],
            momentum=setting["momentum"],
            weight_decay=setting["weight_decay"],
        )
        for i in needed
    }
    trained_on = {"sets": {f"{DATA}/train": setting["sets"][f"{DATA}/train"]}}
    sizes = {"train_rows": setting["train_rows"], "data": DATA}
    names = {
        i: Cell("resnet18", {**asdict(recipe), **trained_on, **sizes, "run": recipe.seed}).name
        for i, recipe in recipes.items()
    }
    paths = {i: setup.store.network_path(name) for i, name in names.items()}
    found = {i: restored(recipe, paths[i], device) for i, recipe in recipes.items()}
    missing = [i for i in needed if found[i] is None]
    if missing:
        checkpoints = [setup.store.checkpoint_path(names[i]) for i in missing]
        made = train(
            [recipes[i] for i in missing],
            *_training(setup, setting),
            device,
            checkpoints,
            setup.progress,
        )
        for i, network, checkpoint in zip(missing, made, checkpoints, strict=True):
            keep(paths[i], network.state_dict())
            checkpoint.unlink(missing_ok=True)
            found[i] = network
    return {i: network for i, network in found.items() if network is not None}
