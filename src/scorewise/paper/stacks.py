"""Small networks trained all at once: their weights are stacked, and a step is one step of each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional

from scorewise.paper.networks import Headed


class Stack:
    """L networks of one architecture, each with rows of its own from the same images.

    Parameters
    ----------
    make : callable
        Makes a fresh network.
    n_networks : int
        How many, L.
    images, labels : tensors (n, channels, height, width) and (n,), on the device
        What the networks learn from.
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
        make: Callable[[], Headed],
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
        # for every step of an epoch the rows, which of them are there not only to fill the last
        # step, and which features dropout keeps
        self._order = torch.zeros(steps, n_networks, batch, dtype=torch.int64, device=self._device)
        self._real = torch.zeros(steps, n_networks, batch, device=self._device)
        width = self._pattern.head.in_features
        self._kept = torch.zeros(*self._order.shape, width, dtype=torch.bool, device=self._device)
        self._next = torch.zeros(1, dtype=torch.int64, device=self._device)
        self._step = self._captured() if on_cuda else self._learn

    def __len__(self) -> int:
        return self._order.shape[1]

    def begin(self, seeds: Sequence[int]) -> None:
        """Fresh random weights for each network, as its seed has them."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for i, seed in enumerate(seeds):
                torch.manual_seed(seed)
                for name, x in self._make().named_parameters():
                    self._weights[name][i].copy_(x)
        self._forget()

    def fit(self, rows: Tensor, epochs: int, seeds: Sequence[int]) -> None:
        """Train each network on its own rows, ``(L, n)`` indices of images.

        A seed makes the orders and the dropout of a network the same in any company.
        """
        rows = rows.to(self._device)
        n = rows.shape[1]
        n_steps = -(-n // self._order.shape[2])
        order, kept = self._order[:n_steps], self._kept[:n_steps]
        filled = torch.arange(n_steps * order.shape[2], device=self._device)
        self._real[:n_steps] = (filled < n).float().view(n_steps, 1, -1)
        draws = [torch.Generator(self._device).manual_seed(seed) for seed in seeds]
        for _ in range(epochs):
            for i, own in enumerate(draws):
                shuffled = rows[i][torch.randperm(n, generator=own, device=self._device)]
                order[:, i] = shuffled[filled % n].view(n_steps, -1)
                chances = torch.rand(kept[:, i].shape, generator=own, device=self._device)
                kept[:, i] = chances >= self._pattern.dropout.p
            self._next.zero_()
            for _ in range(n_steps):
                self._step()

    def network(self, i: int) -> Headed:
        """One of the networks, in evaluation mode; its weights are those of the stack."""
        found = copy.deepcopy(self._bare)
        for name, x in self._weights.items():
            owner, _, leaf = name.rpartition(".")
            setattr(found.get_submodule(owner), leaf, nn.Parameter(x[i].detach()))
        return found.eval()

    def _learn(self) -> None:
        """One step of every network on its next rows."""
        rows, real, kept = (
            x.index_select(0, self._next)[0] for x in (self._order, self._real, self._kept)
        )
        self._next += 1
        logits = vmap(self._logits)(self._weights, self._images[rows], kept)
        losses = functional.cross_entropy(
            logits.flatten(0, 1), self._labels[rows].flatten(), reduction="none"
        ).view_as(real)
        self._optimizer.zero_grad(set_to_none=True)
        ((losses * real).sum(1) / real.sum(1)).sum().backward()
        self._optimizer.step()

    def _logits(self, weights: dict[str, Tensor], x: Tensor, kept: Tensor) -> Tensor:
        found: Tensor = functional_call(self._bare, weights, (x, kept))
        return found

    def _captured(self) -> Callable[[], None]:
        """A step as a graph, which costs one launch instead of dozens; products in TF32."""
        self._real.fill_(1)
        beside = torch.cuda.Stream(self._device)
        beside.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with _faster_products():
            with torch.cuda.stream(beside):
                for _ in range(3):  # also makes the optimizer's buffers
                    self._next.zero_()
                    self._learn()
            beside.synchronize()
            self._next.zero_()
            with torch.cuda.graph(graph, stream=beside):
                self._learn()
        torch.cuda.synchronize()
        return graph.replay

    def _forget(self) -> None:
        """Let the optimizer begin anew, in the buffers that it has."""
        for state in self._optimizer.state.values():
            buffers: dict[str, Any] = state
            for buffer in buffers.values():
                if isinstance(buffer, Tensor):
                    buffer.zero_()


@contextmanager
def _faster_products() -> Iterator[None]:
    """Products of matrices in TF32, in what is captured."""
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
