"""CIFAR-10's ResNets: trained together for a run, then sampled by dropout, ensemble and Laplace."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from scorewise import fit_laplace, predict_samples
from scorewise_paper import networks
from scorewise_paper._files import Show, load_checkpoint, progress_bar, save_checkpoint
from scorewise_paper.detection import detection_numbers
from scorewise_paper.networks import NetworkWithHead, features, resnet18, square_batches
from scorewise_paper.rejection import rejection_numbers
from scorewise_paper.results import Cell, Result
from scorewise_paper.runs import Setup, drawn_rows, labels_of, random_numbers
from scorewise_paper.workers import in_groups

DATA = "cifar-10"
MEMBERS = 5
DROPOUT = 0.5
EPOCHS = 100
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.001, 0.9, 5e-4
BATCH = 128  # not in the paper; that of the implementation from which it took the network
CHECKPOINT_EVERY = 10  # epochs
# Of the stored networks: raise it when training changes, with those of table-1, figure-sp-cifar10.
REVISION = 1

# Channel means and deviations of CIFAR-10's training images.
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)

_SIDE = 32
_PADDING = 4  # pixels on each side before a random crop
_PREDICTED = 1000  # images in a batch of predictions


# -- results ---------------------------------------------------------------------------------------


def cifar_cells(
    setup: Setup, experiment: str, revision: int, methods: Sequence[str], sets: Sequence[str] = ()
) -> list[Cell]:
    """Return a cell for each run, method and, if there are any, out-of-distribution set."""
    out_of_distribution: Sequence[str | None] = sets or [None]
    return [
        Cell(experiment, revision, _setting(setup, method, run, ood))
        for run in range(setup.protocol.runs)
        for method in methods
        for ood in out_of_distribution
    ]


def _setting(setup: Setup, method: str, run: int, ood: str | None) -> dict[str, Any]:
    protocol = setup.protocol
    read = [(DATA, "train"), (DATA, "test"), *([(ood, "test")] if ood else [])]
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
        **({"ood": ood} if ood else {}),
    }


def compute(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Yield the results of cells, run by run."""
    runs = sorted({cell.setting["run"] for cell in cells})
    groups = [[cell for cell in cells if cell.setting["run"] == run] for run in runs]
    yield from in_groups(setup, _compute_run, groups)


def _compute_run(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Yield the results of a run, whose networks are trained together unless they are stored."""
    started = time.perf_counter()
    predictions = _Run(setup, cells)
    share = (time.perf_counter() - started) / len(cells)
    for cell in sorted(cells, key=lambda cell: str(cell.setting["method"])):
        began = time.perf_counter()
        numbers, members = predictions.result(cell)
        seconds = share + time.perf_counter() - began
        yield cell, Result(numbers, members, seconds, str(setup.torch_device))


class _Run:
    """The networks of a run, and their predictions."""

    def __init__(self, setup: Setup, cells: Sequence[Cell]) -> None:
        self.setup, self.setting = setup, cells[0].setting
        self.device = setup.torch_device
        self.run = int(self.setting["run"])
        needed = {i for cell in cells for i in _networks_of(cell.setting["method"])}
        self.networks = _trained(setup, self.setting, sorted(needed))
        self._predicted: dict[tuple[str, str], np.ndarray] = {}

    def result(self, cell: Cell) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the numbers of a cell, and the members that they are computed from."""
        method, ood = cell.setting["method"], cell.setting.get("ood")
        members_in, y = self._members(method, DATA), self._labels
        if ood is None:
            top = np.sort(members_in.mean(1), axis=1)[:, -2:].sum(1)
            mass = {"top_2_mass": float(top.mean()), "top_2_mass_sd": float(top.std())}
            return {**rejection_numbers(members_in, y), **mass}, {"probs": members_in, "y": y}
        members_out = self._members(method, ood)
        accuracy = float((members_in.mean(1).argmax(1) == y).mean())
        numbers = {"accuracy": accuracy, **detection_numbers(members_in, members_out)}
        return numbers, {"probs": members_in, "y": y, "outside": members_out}

    @cached_property
    def _labels(self) -> np.ndarray:
        rows = self.setup.load(DATA, "test")
        return labels_of(rows)[drawn_rows(rows, self.setting["test_rows"], self.run)]

    def _images(self, name: str) -> Tensor:
        rows = self.setup.load(name, "test")
        chosen = drawn_rows(rows, self.setting["test_rows"], self.run)
        return normalized(torch.cat(list(square_batches(rows, chosen, _SIDE))).to(self.device))

    def _members(self, method: str, name: str) -> np.ndarray:
        """Return probabilities ``(n, M, K)`` in double precision."""
        if (method, name) not in self._predicted:
            probs = self._predict(method, self._images(name))
            self._predicted[method, name] = probs.astype(np.float64)
        return self._predicted[method, name]

    def _predict(self, method: str, x: Tensor) -> np.ndarray:
        options: dict[str, Any] = {
            "batch_size": _PREDICTED,
            "device": self.device,
            "progress": False,
        }
        draws = {"n_samples": self.setting["samples"], "random_state": self.run}
        if method == "ensemble":
            ensemble = [self.networks[i] for i in _networks_of(method)]
            return np.asarray(predict_samples(ensemble, x, **options).probs)
        network = self.networks[_networks_of(method)[0]]
        if method == "dropout":
            return np.asarray(predict_samples(network, x, **draws, **options).probs)
        values = features(network, x)
        return np.asarray(predict_samples(self._laplace, values, **draws, **options).probs)

    @cached_property
    def _laplace(self) -> Any:
        """A Gaussian over the last layer, fitted to the features of the training images."""
        network = self.networks[_networks_of("laplace")[0]]
        images, labels = _training(self.setup, self.setting)
        parts = images.split(_PREDICTED)
        values = torch.cat([features(network, normalized(x.to(self.device))) for x in parts])
        head = nn.Sequential(nn.Identity(), network.head)
        return fit_laplace(head, values, labels, progress=False)


def _networks_of(method: str) -> list[int]:
    """Return which of a run's networks a method uses: five are the ensemble, the sixth has dropout.

    The Laplace approximation is around the ensemble's first network.
    """
    return {"ensemble": list(range(MEMBERS)), "laplace": [0], "dropout": [MEMBERS]}[method]


def _training(setup: Setup, setting: Any) -> tuple[Tensor, Tensor]:
    rows = setup.load(DATA, "train")
    most = setting["train_rows"]
    return torch.from_numpy(rows.x[:most]), torch.from_numpy(labels_of(rows)[:most])


def _trained(setup: Setup, setting: Any, needed: Sequence[int]) -> dict[int, NetworkWithHead]:
    """Return the networks of a run by number; those that are not stored are trained together."""
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
        i: Cell("resnet18", REVISION, {**asdict(x), **trained_on, **sizes, "run": x.seed}).name
        for i, x in recipes.items()
    }
    paths = {i: setup.store.network_path(name) for i, name in names.items()}
    available = {i: restored(recipe, paths[i], device) for i, recipe in recipes.items()}
    missing = [i for i in needed if available[i] is None]
    if missing:
        checkpoints = [setup.store.checkpoint_path(names[i]) for i in missing]
        trained = train(
            [recipes[i] for i in missing],
            *_training(setup, setting),
            device,
            checkpoints,
            setup.progress,
        )
        for i, network, checkpoint in zip(missing, trained, checkpoints, strict=True):
            save_checkpoint(paths[i], network.state_dict())
            checkpoint.unlink(missing_ok=True)
            available[i] = network
    return {i: network for i, network in available.items() if network is not None}


# -- training --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a trained network, except its training data."""

    seed: int
    dropout: float
    epochs: int
    n_classes: int = 10
    width: int = 64
    batch: int = BATCH
    lr: float = LEARNING_RATE
    momentum: float = MOMENTUM
    weight_decay: float = WEIGHT_DECAY


def normalized(images: Tensor) -> Tensor:
    """Return images of any set, normalised by the channels of CIFAR-10's training images."""
    return networks.normalized(images, MEAN, DEVIATION)


def train(
    recipes: Sequence[Recipe],
    images: Tensor,
    labels: Tensor,
    device: torch.device,
    checkpoints: Sequence[Path],
    progress: Show = None,
) -> list[NetworkWithHead]:
    """Return trained networks, on the device and in evaluation mode.

    On CUDA the steps of all networks run side by side: each is a graph on its own stream, in
    bfloat16 with channels last, and images are cropped and flipped on the device. A network
    whose training was interrupted continues from its checkpoint, with any other networks.

    Parameters
    ----------
    images : uint8 tensor (n, 3, 32, 32)
        The training images.
    labels : int64 tensor (n,)
        Their classes.
    checkpoints : sequence of Path
        One for each network; the caller deletes them when it has stored the network.
    """
    images, labels = images.to(device), labels.to(device)
    trainers = [_Trainer(recipe, device, images.shape) for recipe in recipes]
    for trainer, checkpoint in zip(trainers, checkpoints, strict=True):
        trainer.restore(checkpoint)
    first = min(trainer.done for trainer in trainers)
    last = max(recipe.epochs for recipe in recipes)
    with progress_bar(f"train {len(recipes)} networks", last - first, progress) as bar:
        for epoch in range(first, last):
            active = [x for x in trainers if x.done == epoch < x.recipe.epochs]
            _train_epoch(active, images, labels, epoch, device)
            bar.update(1)
            if (epoch + 1) % CHECKPOINT_EVERY == 0:
                for trainer, checkpoint in zip(trainers, checkpoints, strict=True):
                    trainer.save(checkpoint)
    return [trainer.network.eval() for trainer in trainers]


class _Trainer:
    """A network with its optimizer, and the step that training repeats."""

    def __init__(self, recipe: Recipe, device: torch.device, shape: Sequence[int]) -> None:
        self.recipe, self.device = recipe, device
        self.done = 0  # epochs
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_seed(recipe, 0))
            network = resnet18(recipe.n_classes, dropout=recipe.dropout, width=recipe.width)
        self.network = network.to(device, memory_format=torch.channels_last).train()
        self.rate = torch.tensor(recipe.lr, device=device)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(),
            lr=self.rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        batch = min(recipe.batch, shape[0])
        self.x = torch.zeros(batch, *shape[1:], device=device).to(memory_format=torch.channels_last)
        self.y = torch.zeros(batch, dtype=torch.int64, device=device)
        self.cuda = device.type == "cuda"
        self.logits: Callable[[Tensor], Tensor] = self.network
        if self.cuda:
            self.x = self.x.bfloat16()
            self.logits = torch.compile(self.network)
            self.stream = torch.cuda.Stream(device)
            self.step = self._captured()
        else:
            self.step = self._step

    def _step(self) -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=self.cuda):
            loss = functional.cross_entropy(self.logits(self.x), self.y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def _captured(self) -> Callable[[], None]:
        """Return the step as a CUDA graph, which is one launch instead of hundreds."""
        beginning = {k: x.clone() for k, x in self.network.state_dict().items()}
        self.stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            with torch.cuda.stream(self.stream):
                for _ in range(3):  # selects the fastest algorithms, makes the momentum's buffers
                    self._step()
            self.stream.synchronize()
            with torch.cuda.graph(graph, stream=self.stream):
                self._step()
        self.network.load_state_dict(beginning)
        for state in self.optimizer.state.values():
            state["momentum_buffer"].zero_()
        torch.cuda.synchronize()
        return graph.replay

    def save(self, checkpoint: Path) -> None:
        """Write the state of the training."""
        momenta = self.optimizer.state_dict()["state"]
        state = {"done": self.done, "network": self.network.state_dict(), "momenta": momenta}
        save_checkpoint(checkpoint, state)

    def restore(self, checkpoint: Path) -> None:
        """Continue from a checkpoint, if there is one."""
        state = load_checkpoint(checkpoint, self.device)
        if state is None:
            return
        self.network.load_state_dict(state["network"])
        self.done = state["done"]
        parameters = list(self.network.parameters())
        for i, momentum in state["momenta"].items():
            own = self.optimizer.state[parameters[i]]
            # a captured step writes to the buffers that it was captured with
            if "momentum_buffer" in own:
                own["momentum_buffer"].copy_(momentum["momentum_buffer"])
            else:
                own["momentum_buffer"] = momentum["momentum_buffer"]

    def begin(self, images: Tensor, labels: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """Return the images of an epoch in random order, cropped and flipped at random."""
        rate = self.recipe.lr * (1 + math.cos(math.pi * epoch / self.recipe.epochs)) / 2
        self.rate.fill_(rate)
        draws = torch.Generator().manual_seed(_seed(self.recipe, 1 + epoch))
        order = torch.randperm(len(images), generator=draws)
        rows, columns = torch.randint(0, 2 * _PADDING + 1, (2, len(images)), generator=draws)
        flipped = torch.rand(len(images), generator=draws) < 0.5
        order = order.to(images.device)
        changed = cropped(images[order], rows, columns, flipped)
        return normalized(changed).to(self.x.dtype), labels[order]


def cropped(images: Tensor, rows: Tensor, columns: Tensor, flipped: Tensor) -> Tensor:
    """Return images shifted by some pixels, with black beyond their edges, and some mirrored."""
    n, channels, height, width = images.shape
    device = images.device
    padded = functional.pad(images, (_PADDING,) * 4)
    down = torch.arange(height, device=device) + rows.to(device)[:, None]  # (n, height)
    along = torch.arange(width, device=device).expand(n, width)
    along = torch.where(flipped.to(device)[:, None], width - 1 - along, along)
    along = along + columns.to(device)[:, None]
    flat = padded.flatten(2)
    place = down[:, :, None] * padded.shape[3] + along[:, None, :]  # (n, height, width)
    index = place.flatten(1)[:, None, :].expand(n, channels, height * width)
    return flat.gather(2, index).view(n, channels, height, width)


def _train_epoch(
    trainers: Sequence[_Trainer], images: Tensor, labels: Tensor, epoch: int, device: torch.device
) -> None:
    """Train for one pass over full batches; the rows left out differ between epochs."""
    batch = len(trainers[0].y)
    epochs = [trainer.begin(images, labels, epoch) for trainer in trainers]
    for trainer in trainers:
        trainer.done += 1
    steps = range(0, len(images) - batch + 1, batch)

    def take(trainer: _Trainer, x: Tensor, y: Tensor, start: int) -> None:
        trainer.x.copy_(x[start : start + batch])
        trainer.y.copy_(y[start : start + batch])
        trainer.step()

    if device.type != "cuda":
        for trainer, (x, y) in zip(trainers, epochs, strict=True):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(_seed(trainer.recipe, 1 + epoch))
                for start in steps:
                    take(trainer, x, y, start)
        return
    drawing = [x.recipe for x in trainers if x.recipe.dropout] or [trainers[0].recipe]
    torch.cuda.manual_seed(_seed(drawing[0], 1 + epoch))  # of dropout
    torch.cuda.synchronize()
    for start in steps:  # side by side
        for trainer, (x, y) in zip(trainers, epochs, strict=True):
            with torch.cuda.stream(trainer.stream):
                take(trainer, x, y, start)
    torch.cuda.synchronize()


def _seed(recipe: Recipe, place: int) -> int:
    return int(random_numbers(recipe.seed, place).integers(2**62))


def restored(recipe: Recipe, path: Path, device: torch.device) -> NetworkWithHead | None:
    """Return a network with stored weights, in evaluation mode; None if none are stored."""
    weights = load_checkpoint(path)
    if weights is None:
        return None
    network = resnet18(recipe.n_classes, dropout=recipe.dropout, width=recipe.width)
    network.load_state_dict(weights)
    return network.to(device, memory_format=torch.channels_last).eval()
