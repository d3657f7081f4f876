"""Active learning as in the paper: fifty rounds, from few labels, by epistemic uncertainty."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure as Canvas
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional

import scorewise as sw
from scorewise_paper import datasets
from scorewise_paper._files import load_checkpoint, progress_bar, save_checkpoint
from scorewise_paper.datasets import Rows
from scorewise_paper.networks import NetworkWithHead, dropout_probabilities, features, lenet, mlp
from scorewise_paper.published import published
from scorewise_paper.results import Cell, Result, Stored
from scorewise_paper.runs import Setup, labels_of, random_numbers
from scorewise_paper.sections import (
    RULES,
    Advantage,
    Claim,
    Figure,
    Group,
    Section,
    Table,
    draw_mean,
    groups,
    mean_and_deviation,
)
from scorewise_paper.workers import in_groups

RANDOM = "random"
MEASURES = (*RULES, RANDOM)
DROPOUT = 0.5
BEST = "For active learning, epistemic uncertainty under zero-one is best"

_ZERO_ONE = "zero-one"
_BATCH = 20_000  # images in one forward pass
_ORDERS, _WEIGHTS, _DRAWS, _TIES, _FIRST = range(5)  # purposes of random numbers


@dataclass(frozen=True)
class Choices:
    """How small networks learn, where the paper does not say.

    Parameters
    ----------
    optimizer : "adam" or "sgd"
        The paper states a learning rate only; "sgd" has momentum 0.9.
    batch : int
        Rows per step.
    wide : bool
        Whether the MLP has a first layer as wide as the image (see :func:`networks.mlp`).
    """

    optimizer: str = "adam"
    batch: int = 64
    wide: bool = True

    def __str__(self) -> str:
        names = {"adam": "Adam", "sgd": "SGD with momentum 0.9"}
        wide = "" if self.wide else ", no 784-wide layer"
        return f"{names[self.optimizer]}, batches of {self.batch}{wide}"


# -- results ---------------------------------------------------------------------------------------


def learning_cells(
    setup: Setup, experiment: str, revision: int, data: str, choices: Choices
) -> list[Cell]:
    """Return a cell for each measure and run, as in the paper's table; none without the data."""
    if not setup.has(data):
        return []
    (plan,) = (row for row in published("tab:alconfig")["rows"] if row["data"] == data)
    protocol = setup.protocol
    shared = {
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
        Cell(experiment, revision, {**shared, "measure": measure, "run": run})
        for run in range(protocol.runs)
        for measure in MEASURES
    ]


def compute(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Yield learning curves; cells that differ only by measure and run learn together."""
    together: dict[Path, list[Cell]] = {}
    for cell in cells:
        together.setdefault(_checkpoint(setup, cell), []).append(cell)
    yield from in_groups(setup, _learn_together, [*together.values()], _forget_checkpoint)


def _checkpoint(setup: Setup, cell: Cell) -> Path:
    """Return the file of the learners that learn together with that of a cell."""
    shared = {k: v for k, v in cell.setting.items() if k not in {"measure", "run"}}
    name = Cell(cell.experiment, cell.revision, {**shared, "run": "all"}).name
    return setup.store.checkpoint_path(name)


def _forget_checkpoint(setup: Setup, cells: Sequence[Cell]) -> None:
    _checkpoint(setup, cells[0]).unlink(missing_ok=True)


@dataclass
class _Progress:
    """The state of learners between rounds: their labelled rows, and their errors so far."""

    settings: list[Any]
    rows: Tensor  # (learners, labels)
    errors: list[list[float]]  # by round
    seconds: float

    @classmethod
    def restored(cls, cells: Sequence[Cell], checkpoint: Path, n: int) -> _Progress:
        """Return the state in a checkpoint, or that of the first round.

        All learners of the checkpoint continue, also those whose results are stored already.
        """
        state = load_checkpoint(checkpoint)
        if state and state.keys() == {field.name for field in fields(cls)}:
            learners = {_key(setting) for setting in state["settings"]}
            if {_key(cell.setting) for cell in cells} <= learners:
                return cls(**state)
        settings = [dict(cell.setting) for cell in cells]
        return cls(settings, torch.stack([_first_rows(x, n) for x in settings]), [], 0.0)


def _key(setting: Any) -> tuple[str, int]:
    """Return the measure and the run, which identify a learner of a group."""
    return setting["measure"], setting["run"]


def _learn_together(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Yield the results of learners that learn side by side, with a checkpoint after each round."""
    started = time.perf_counter()
    checkpoint = _checkpoint(setup, cells[0])
    setting, device = cells[0].setting, setup.torch_device
    train, test = (setup.load(setting["data"], split) for split in ("train", "test"))
    x, y = _to_device(device, train, setting["train_rows"])
    x_test, y_test = _to_device(device, test)
    state = _Progress.restored(cells, checkpoint, len(x))
    started -= state.seconds
    stack = Stack(
        lambda: network_for(train, setting["wide"]),
        len(state.settings),
        x,
        y,
        batch=setting["batch"],
        optimizer=setting["optimizer"],
        lr=setting["lr"],
        most_rows=min(setting["initial"] + setting["rounds"] * setting["budget"], len(x)),
    )
    task = f"active learning on {setting['data']}, {len(stack)} learners"
    first, last = len(state.errors), setting["rounds"]
    members: list[np.ndarray] = []
    with progress_bar(task, last + 1 - first, setup.progress) as bar:
        for number in range(first, last + 1):
            stack.begin([_seed(x, _WEIGHTS, number) for x in state.settings])
            seeds = [_seed(x, _ORDERS, number) for x in state.settings]
            stack.fit(state.rows, setting["epochs"], seeds)
            learners = [
                _RoundLearner(stack.network(i), own, number) for i, own in enumerate(state.settings)
            ]
            predictions = [learner.members(x_test) for learner in learners]
            state.errors.append([_error(probs, y_test) for probs in predictions])
            if number < last:
                state.rows = torch.stack(
                    [
                        learner.acquire(x, rows)
                        for learner, rows in zip(learners, state.rows, strict=True)
                    ]
                )
                state.seconds = time.perf_counter() - started
                save_checkpoint(checkpoint, vars(state))
            else:
                members = [probs.cpu().numpy() for probs in predictions]
            bar.update(1)
    seconds = (time.perf_counter() - started) / len(stack)
    labels = np.minimum(setting["initial"] + setting["budget"] * np.arange(last + 1), len(x))
    cells_by_key = {_key(cell.setting): cell for cell in cells}
    errors_of_learners = np.transpose(state.errors)
    for own, errors, probs in zip(state.settings, errors_of_learners, members, strict=True):
        cell = cells_by_key.get(_key(own))
        if cell is not None:
            numbers = {"labels": labels, "error": errors.round(6)}
            arrays = {"probs": probs, "y": labels_of(test)}
            yield cell, Result(numbers, arrays, seconds, str(device))


class _RoundLearner:
    """The trained network of a round, and the rows it acquires labels for."""

    def __init__(self, network: NetworkWithHead, setting: Any, number: int) -> None:
        self.network, self.setting, self.number = network, setting, number
        device = network.head.weight.device
        self.draws = torch.Generator(device).manual_seed(_seed(setting, _DRAWS, number))

    def members(self, images: Tensor) -> Tensor:
        """Return probabilities ``(n, draws, K)`` by dropout."""
        values = features(self.network, images, batch=_BATCH)
        return dropout_probabilities(
            values, self.network.head, self.setting["samples"], DROPOUT, self.draws
        )

    def acquire(self, pool: Tensor, labelled: Tensor) -> Tensor:
        """Return the labelled rows, and those that are chosen from the pool."""
        budget = min(self.setting["budget"], len(pool) - len(labelled))
        if budget == 0:
            return labelled
        measure = self.setting["measure"]
        scores = np.zeros(len(pool))
        if measure != RANDOM:
            parts = sw.decompose(self.members(pool), measure, check=False)
            scores = parts.epistemic.double().cpu().numpy()
        chosen = sw.acquire(
            scores,
            budget,
            "random" if measure == RANDOM else "top",
            labelled=labelled.numpy(),
            random_state=_seed(self.setting, _TIES, self.number),
        )
        return torch.cat([labelled, torch.from_numpy(chosen)])


def _error(probs: Tensor, y: Tensor) -> float:
    """Return the zero-one loss of the mean of the members."""
    return float((probs.mean(1).argmax(1) != y).double().mean())


def network_for(rows: Rows, wide: bool) -> NetworkWithHead:
    """Return an MLP for grey images, a LeNet for coloured ones."""
    _, channels, height, width = rows.x.shape
    if channels == 1:
        return mlp(height * width, rows.n_classes, wide=wide, dropout=DROPOUT)
    return lenet(channels, height, rows.n_classes, dropout=DROPOUT)


def _to_device(device: torch.device, rows: Rows, most: int | None = None) -> tuple[Tensor, Tensor]:
    """Return images, as numbers from 0 to 1, and labels on the device."""
    x, y = rows.x[:most], labels_of(rows)[:most]
    return torch.from_numpy(x).to(device).float() / 255, torch.from_numpy(y).to(device)


def _first_rows(setting: Any, n: int) -> Tensor:
    """Return the rows that are labelled at the beginning, the same for all measures of a run."""
    rows = random_numbers(setting["run"], _FIRST, 0).permutation(n)[: setting["initial"]]
    return torch.from_numpy(rows)


def _seed(setting: Any, purpose: int, number: int) -> int:
    """Return a seed for a purpose and a round, the same for all measures of a run."""
    return int(random_numbers(setting["run"], purpose, number).integers(2**62))


# -- networks that learn together ------------------------------------------------------------------


class Stack:
    """L networks of one architecture, trained together, each on its own rows of the same images.

    Their weights are stacked, and a step is one step of each.

    Parameters
    ----------
    make : callable
        Makes a new network.
    n_networks : int
        Number of networks, L.
    images, labels : tensors (n, channels, height, width) and (n,), on the device
        The training data.
    batch : int
        Rows per step and network.
    most_rows : int
        The most rows that a network will learn from.
    optimizer : "adam" or "sgd"
        Adam, or gradient descent with momentum 0.9.
    lr : float
        Learning rate.
    """

    def __init__(
        self,
        make: Callable[[], NetworkWithHead],
        n_networks: int,
        images: Tensor,
        labels: Tensor,
        *,
        batch: int,
        most_rows: int,
        optimizer: str,
        lr: float,
    ) -> None:
        self._make, self._images, self._labels = make, images, labels
        self._device = images.device
        self._pattern = make().train()
        self._bare = copy.deepcopy(self._pattern).to("meta")
        self._weights = {
            name: torch.zeros(n_networks, *x.shape, device=self._device, requires_grad=True)
            for name, x in self._pattern.named_parameters()
        }
        on_cuda = self._device.type == "cuda"
        self._optimizer = _optimizer(optimizer, list(self._weights.values()), lr, on_cuda)
        steps = -(-most_rows // batch)
        # for every step of an epoch: its rows, which of them are not padding of the last step, and
        # which features dropout retains
        self._order = torch.zeros(steps, n_networks, batch, dtype=torch.int64, device=self._device)
        self._real = torch.zeros(steps, n_networks, batch, device=self._device)
        width = self._pattern.head.in_features
        self._masks = torch.zeros(*self._order.shape, width, dtype=torch.bool, device=self._device)
        self._next = torch.zeros(1, dtype=torch.int64, device=self._device)
        self._step = self._captured() if on_cuda else self._learn

    def __len__(self) -> int:
        return self._order.shape[1]

    def begin(self, seeds: Sequence[int]) -> None:
        """Give each network new random weights, which follow from its seed."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for i, seed in enumerate(seeds):
                torch.manual_seed(seed)
                for name, x in self._make().named_parameters():
                    self._weights[name][i].copy_(x)
        self._reset_optimizer()

    def fit(self, rows: Tensor, epochs: int, seeds: Sequence[int]) -> None:
        """Train each network on its own rows, ``(L, n)`` indices of images.

        A network's orders and dropout depend on its seed only, not on the other networks.
        """
        rows = rows.to(self._device)
        n = rows.shape[1]
        n_steps = -(-n // self._order.shape[2])
        order, masks = self._order[:n_steps], self._masks[:n_steps]
        filled = torch.arange(n_steps * order.shape[2], device=self._device)
        self._real[:n_steps] = (filled < n).float().view(n_steps, 1, -1)
        draws = [torch.Generator(self._device).manual_seed(seed) for seed in seeds]
        for _ in range(epochs):
            for i, own in enumerate(draws):
                shuffled = rows[i][torch.randperm(n, generator=own, device=self._device)]
                order[:, i] = shuffled[filled % n].view(n_steps, -1)
                chances = torch.rand(masks[:, i].shape, generator=own, device=self._device)
                masks[:, i] = chances >= self._pattern.dropout.p
            self._next.zero_()
            for _ in range(n_steps):
                self._step()

    def network(self, i: int) -> NetworkWithHead:
        """Return the i-th network, in evaluation mode; it shares the stack's weights."""
        network = copy.deepcopy(self._bare)
        for name, x in self._weights.items():
            owner, _, leaf = name.rpartition(".")
            setattr(network.get_submodule(owner), leaf, nn.Parameter(x[i].detach()))
        return network.eval()

    def _learn(self) -> None:
        """Train every network by one step on its next rows."""
        rows, real, masks = (
            x.index_select(0, self._next)[0] for x in (self._order, self._real, self._masks)
        )
        self._next += 1
        logits = vmap(self._logits)(self._weights, self._images[rows], masks)
        losses = functional.cross_entropy(
            logits.flatten(0, 1), self._labels[rows].flatten(), reduction="none"
        ).view_as(real)
        self._optimizer.zero_grad(set_to_none=True)
        ((losses * real).sum(1) / real.sum(1)).sum().backward()
        self._optimizer.step()

    def _logits(self, weights: dict[str, Tensor], x: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = functional_call(self._bare, weights, (x, mask))
        return logits

    def _captured(self) -> Callable[[], None]:
        """Return the step as a CUDA graph, one launch instead of dozens, with products in TF32."""
        self._real.fill_(1)
        stream = torch.cuda.Stream(self._device)
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with _faster_products():
            with torch.cuda.stream(stream):
                for _ in range(3):  # also makes the optimizer's buffers
                    self._next.zero_()
                    self._learn()
            stream.synchronize()
            self._next.zero_()
            with torch.cuda.graph(graph, stream=stream):
                self._learn()
        torch.cuda.synchronize()
        return graph.replay

    def _reset_optimizer(self) -> None:
        """Zero the optimizer's buffers in place, as the captured step refers to them."""
        for state in self._optimizer.state.values():
            buffers: dict[str, Any] = state
            for buffer in buffers.values():
                if isinstance(buffer, Tensor):
                    buffer.zero_()


@contextmanager
def _faster_products() -> Iterator[None]:
    """Use TF32 for matrix products while a step is captured."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _optimizer(
    name: str, weights: list[Tensor], lr: float, capturable: bool
) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.Adam(weights, lr=lr, fused=True, capturable=capturable)
    return torch.optim.SGD(weights, lr=lr, momentum=0.9, fused=True)


# -- the page --------------------------------------------------------------------------------------


def learning_section(
    results: Iterable[Stored],
    experiment: str,
    sets: Sequence[str],
    measures: Sequence[str],
    name: str,
) -> Section:
    """Return mean errors over all rounds for each set that was run, and which sets were not."""
    results = list(results)
    settings = [group for data in sets for group in groups(results, experiment, data)]
    settings.sort(key=lambda group: (_choices(group) != Choices(), str(_choices(group))))
    were_run = {group.setting["data"] for group in settings}
    missing = [datasets.describe(data).title for data in sets if data not in were_run]
    notes = list(dict.fromkeys(mark for group in settings for mark in group.marks))
    if missing:
        notes.append(f"Not run, because the data were not available: {', '.join(missing)}.")
    if not settings:
        return Section(notes)
    tables = [
        _table("Zero-one loss on the test set, mean over rounds", settings, measures, _mean, notes),
        _table("Zero-one loss after the last round", settings, measures, _last, notes),
    ]
    main = [group for group in settings if _choices(group) == Choices()]
    figures = [
        Figure(
            "-".join([name, group.setting["data"], *([str(i + 1)] if _repeats(main, i) else [])]),
            f"{_title(group)}: zero-one loss on the test set against labels; {group.over_runs}.",
            partial(learning_figure, group, measures),
        )
        for i, group in enumerate(main)
    ]
    claims = [claim for group in settings for claim in _zero_one_is_best(group, measures)]
    return Section((), tables, figures, claims)


def _choices(group: Group) -> Choices:
    return Choices(*(group.setting[name] for name in ("optimizer", "batch", "wide")))


def _title(group: Group) -> str:
    return f"{group.title()}: {_choices(group)}"


def _repeats(main: Sequence[Group], i: int) -> bool:
    """Return whether an earlier group has the same data set, in another size or version."""
    return main[i].setting["data"] in {group.setting["data"] for group in main[:i]}


def _mean(stored: Stored) -> float:
    return float(np.mean(stored.numbers["error"]))


def _last(stored: Stored) -> float:
    return float(stored.numbers["error"][-1])


def _table(
    title: str,
    settings: Sequence[Group],
    measures: Sequence[str],
    number: Callable[[Stored], float],
    notes: Sequence[str],
) -> Table:
    rows, best = [], set()
    for i, group in enumerate(settings):
        by_measure = [list(group.by_run(number, measure=measure).values()) for measure in measures]
        means = [float(np.mean(values)) if values else np.inf for values in by_measure]
        best.add((i, 1 + int(np.argmin(means))))
        shown = (mean_and_deviation(values, 4) if values else "not run" for values in by_measure)
        rows.append([_title(group), *shown])
    columns = ["data and choices", *measures]
    return Table(f"{title} (lower is better)", columns, rows, frozenset(best), notes)


def _zero_one_is_best(group: Group, measures: Sequence[str]) -> Iterator[Claim]:
    values = group.by_run(_mean, measure=_ZERO_ONE)
    for measure in measures:
        advantage = Advantage.smaller(values, group.by_run(_mean, measure=measure))
        if measure != _ZERO_ONE and advantage.values:
            yield Claim(
                BEST,
                f"{_title(group)}; against {measure}",
                advantage.verdict,
                str(advantage),
                "mean error over all rounds",
                counts=not group.is_shortened and _choices(group) == Choices(),
            )


def learning_figure(group: Group, measures: Sequence[str]) -> Canvas:
    """Return a figure of the error against the number of labels, with a line for each measure."""
    canvas = Canvas(figsize=(6, 4), layout="constrained")
    ax = canvas.subplots()
    for measure in measures:
        runs = group.select(measure=measure)
        if runs:
            errors = np.array([stored.numbers["error"] for stored in runs])
            labels = np.array(runs[0].numbers["labels"])
            draw_mean(ax, labels, errors, MEASURES.index(measure), measure)
    ax.set_yscale("log")
    for set_formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        set_formatter("{x:g}")
    ax.set_xlabel("labels")
    ax.set_ylabel("zero-one loss on the test set")
    ax.legend(fontsize=8, frameon=False)
    return canvas
