"""Deep ensembles: several modules asked about the same rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.modules.conv import _ConvNd

from scorewise.errors import InvalidInput
from scorewise.models.networks import (
    as_probs,
    ask,
    at_rest,
    check_output,
    check_shape,
    few_rows,
    logits_in,
    rows_that_fit,
    stream,
)
from scorewise.models.rows import Batch, count_rows, length

# Members of up to so many parameters keep a GPU busy only together. On a CPU, and for convolutions,
# one after the other is as fast or faster (benchmarks/models.py measures both).
_SMALL = 1 << 20


class NetworksSampler:
    """The members of a deep ensemble, by their place in it."""

    weights: np.ndarray | None = None

    def __init__(self, members: Mapping[int, nn.Module], output: str, device: Any) -> None:
        check_output(output)
        self._modules = list(members.values())
        self._names = [f"member {i} ({type(m).__name__})" for i, m in members.items()]
        self._output = output
        self._device = device
        self._stack: Stack | None = None
        self._tried_stack = False

    def n_rows(self, X: Any) -> int | None:
        """How many there are, where that is known."""
        return count_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """All members' answers ``(n, M, K)`` for further rows."""
        with at_rest(self._modules, self._device) as self._device:
            yield from stream(X, self._draw, self._rows_at_a_time, batch_size)

    def _rows_at_a_time(self, batch: Batch) -> int:
        few = few_rows(batch) if length(batch) else batch
        return rows_that_fit(lambda: self._draw(few, 0), self._modules[0], self._device)

    def _draw(self, batch: Batch, first_row: int) -> Tensor:
        if not self._tried_stack:
            self._stack, self._tried_stack = self._try_stack(batch), True
        if self._stack is None:
            values = self._one_by_one(batch)
        else:
            together = ask(self._stack, batch, self._device, "the ensemble")
            values = list(together.chunk(len(self._modules)))

        def who(name: str) -> Callable[[int], str]:
            return lambda i: f"{name}, row {first_row + i}"

        probs = [
            as_probs(own, self._output, who(name))
            for own, name in zip(values, self._names, strict=True)
        ]
        return torch.stack(probs, dim=1)

    def _try_stack(self, batch: Batch) -> Stack | None:
        """The members as one module, where that is faster and gives the same."""
        worth = isinstance(batch, Tensor) and is_worth_stacking(self._modules, self._device)
        if not worth or not len(batch):
            return None
        few = few_rows(batch)
        apart = torch.cat(self._one_by_one(few))
        try:
            stack = Stack(self._modules)
            together = ask(stack, few, self._device, "the ensemble")
        except (InvalidInput, RuntimeError):  # it does what cannot be vectorised
            return None
        same = together.shape == apart.shape and torch.allclose(together, apart, atol=1e-3)
        return stack if same else None

    def _one_by_one(self, batch: Batch) -> list[Tensor]:
        n = length(batch)
        answers: list[Tensor] = []
        for module, name in zip(self._modules, self._names, strict=True):
            values = ask(module, batch, self._device, name)
            check_shape(values, n, name)
            if answers and values.shape != answers[0].shape:
                raise InvalidInput(
                    f"{name} returns {values.shape[1]} classes, {self._names[0]} "
                    f"{answers[0].shape[1]}; all members must know the same"
                )
            answers.append(values)
        return answers


class Stack(nn.Module):
    """Modules of one architecture as one, whose answers ``(M · n, K)`` follow one another."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self._states = stack_module_state(list(modules))
        skeleton = copy.deepcopy(modules[0]).to("meta")

        def one(params: Any, buffers: Any, batch: Tensor) -> Tensor:
            values: Tensor = logits_in(functional_call(skeleton, (params, buffers), (batch,)))
            return values[:, None] if values.ndim == 1 else values

        self._all = vmap(one, in_dims=(0, 0, None), randomness="error")

    def forward(self, batch: Tensor) -> Tensor:
        """All members' answers."""
        return self._all(*self._states, batch).flatten(0, 1)


def is_worth_stacking(modules: Sequence[nn.Module], device: torch.device) -> bool:
    """Whether several small modules of one architecture would keep a GPU waiting one by one."""
    first = modules[0]
    shapes = [(name, p.shape) for name, p in first.named_parameters()]
    return (
        device.type == "cuda"
        and len(modules) > 1
        and sum(shape.numel() for _, shape in shapes) <= _SMALL
        and not any(isinstance(part, _ConvNd) for part in first.modules())
        and all(
            type(m) is type(first) and [(n, p.shape) for n, p in m.named_parameters()] == shapes
            for m in modules
        )
    )
