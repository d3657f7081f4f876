"""Training the ResNets of the paper: several at once, on a GPU in mixed precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from scorewise._progress import bar
from scorewise._random import generator
from scorewise.paper.checkpoints import keep, kept
from scorewise.paper.images import normalized as by_channel
from scorewise.paper.networks import Headed, resnet18

LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.001, 0.9, 5e-4
BATCH = 128  # the paper does not say; that of the implementation it took the network from
_PADDING = 4  # pixels on each side before a random crop
_EVERY = 10  # epochs between two checkpoints

# Channel means and deviations of CIFAR-10's training images.
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)


@dataclass(frozen=True)
class Recipe:
    """What a trained network follows from, besides its training data."""

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
    """As CIFAR-10's training images are, whatever the images are."""
    return by_channel(images, MEAN, DEVIATION)


def train(
    recipes: Sequence[Recipe],
    images: Tensor,
    labels: Tensor,
    device: torch.device,
    checkpoints: Sequence[Path],
    progress: bool | None = None,
) -> list[Headed]:
    """The trained networks, on the device in evaluation mode.

    On CUDA the steps of all networks run side by side: each is a graph on a stream of its own, in
    bfloat16 with channels last, and images are kept, cropped and flipped on the device. A network
    whose training was cut off goes on from its checkpoint, in whatever company.

    Parameters
    ----------
    images : uint8 tensor (n, 3, 32, 32)
        The training images.
    labels : int64 tensor (n,)
        Their classes.
    checkpoints : sequence of Path
        One for each network; they stay until the caller has kept the network.
    """
    images, labels = images.to(device), labels.to(device)
    learners = [_Learner(recipe, device, images.shape) for recipe in recipes]
    for learner, checkpoint in zip(learners, checkpoints, strict=True):
        learner.restore(checkpoint)
    first = min(learner.done for learner in learners)
    last = max(recipe.epochs for recipe in recipes)
    with bar(f"train {len(recipes)} networks", last - first, progress) as advance:
        for epoch in range(first, last):
            active = [one for one in learners if one.done == epoch < one.recipe.epochs]
            _train_epoch(active, images, labels, epoch, device)
            advance(1)
            if (epoch + 1) % _EVERY == 0:
                for learner, checkpoint in zip(learners, checkpoints, strict=True):
                    learner.keep(checkpoint)
    return [learner.network.eval() for learner in learners]


class _Learner:
    """A network with its optimizer, and the one step that it repeats."""

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
        """The step as a graph, which costs one launch instead of hundreds."""
        beginning = {k: x.clone() for k, x in self.network.state_dict().items()}
        self.stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            with torch.cuda.stream(self.stream):
                for _ in range(3):  # finds the fastest algorithms, and makes the momentum's buffers
                    self._step()
            self.stream.synchronize()
            with torch.cuda.graph(graph, stream=self.stream):
                self._step()
        self.network.load_state_dict(beginning)
        for state in self.optimizer.state.values():
            state["momentum_buffer"].zero_()
        torch.cuda.synchronize()
        return graph.replay

    def keep(self, checkpoint: Path) -> None:
        """Write where the network stands."""
        momenta = self.optimizer.state_dict()["state"]
        state = {"done": self.done, "network": self.network.state_dict(), "momenta": momenta}
        keep(checkpoint, state)

    def restore(self, checkpoint: Path) -> None:
        """Go on from what is written there, if something is."""
        state = kept(checkpoint, self.device)
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
        """The images of an epoch in random order, cropped and flipped at random."""
        rate = self.recipe.lr * (1 + math.cos(math.pi * epoch / self.recipe.epochs)) / 2
        self.rate.fill_(rate)
        draws = torch.Generator().manual_seed(_seed(self.recipe, 1 + epoch))
        order = torch.randperm(len(images), generator=draws)
        rows, columns = torch.randint(0, 2 * _PADDING + 1, (2, len(images)), generator=draws)
        flipped = torch.rand(len(images), generator=draws) < 0.5
        order = order.to(images.device)
        changed = _cropped(images[order], rows, columns, flipped)
        return normalized(changed).to(self.x.dtype), labels[order]


def _cropped(images: Tensor, rows: Tensor, columns: Tensor, flipped: Tensor) -> Tensor:
    """Each image moved by some pixels, black where it had none, and some mirrored."""
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
    learners: Sequence[_Learner], images: Tensor, labels: Tensor, epoch: int, device: torch.device
) -> None:
    """One pass over whole batches; the rows that are left over are others each time."""
    batch = len(learners[0].y)
    epochs = [learner.begin(images, labels, epoch) for learner in learners]
    for learner in learners:
        learner.done += 1
    steps = range(0, len(images) - batch + 1, batch)

    def take(learner: _Learner, x: Tensor, y: Tensor, start: int) -> None:
        learner.x.copy_(x[start : start + batch])
        learner.y.copy_(y[start : start + batch])
        learner.step()

    if device.type != "cuda":
        for learner, (x, y) in zip(learners, epochs, strict=True):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(_seed(learner.recipe, 1 + epoch))
                for start in steps:
                    take(learner, x, y, start)
        return
    drawing = [one.recipe for one in learners if one.recipe.dropout] or [learners[0].recipe]
    torch.cuda.manual_seed(_seed(drawing[0], 1 + epoch))  # of dropout
    torch.cuda.synchronize()
    for start in steps:  # side by side
        for learner, (x, y) in zip(learners, epochs, strict=True):
            with torch.cuda.stream(learner.stream):
                take(learner, x, y, start)
    torch.cuda.synchronize()


def _seed(recipe: Recipe, place: int) -> int:
    return int(generator(recipe.seed, place).integers(2**62))


def restored(recipe: Recipe, path: Path, device: torch.device) -> Headed | None:
    """A network whose weights were kept, in evaluation mode; None where there are none."""
    weights = kept(path)
    if weights is None:
        return None
    network = resnet18(recipe.n_classes, dropout=recipe.dropout, width=recipe.width)
    network.load_state_dict(weights)
    return network.to(device, memory_format=torch.channels_last).eval()
