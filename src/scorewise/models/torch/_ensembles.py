"""Deep ensembles: several modules asked about the same rows."""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.modules.conv import _ConvNd

from scorewise.errors import InvalidInput
from scorewise.models.torch._answers import Answers
from scorewise.models.torch._networks import ask, borrowed, check_rows, logits_in
from scorewise.models.torch._rows import Batch, count_rows, few_rows, length
from scorewise.models.torch._streams import stream

# So many members of up to so many parameters keep a GPU busy only together. On a CPU, for fewer and
# for convolutions, one after the other is as fast or faster (benchmarks/models.py measures both).
_SEVERAL, _SMALL = 10, 1 << 20


class NetworksSampler:
    """The members of a deep ensemble, by their place in it."""

    weights: np.ndarray | None = None

    def __init__(self, members: Mapping[int, nn.Module], output: str | None, device: Any) -> None:
        self._modules = list(members.values())
        self._names = [f"member {i} ({type(m).__name__})" for i, m in members.items()]
        self._answers = Answers(self._names, output)
        self._device = device
        self._home = torch.device("cpu")
        self._stack: Stack | None = None
        self._tried_stack = False

    def n_rows(self, X: Any) -> int | None:
        """How many there are, where that is known."""
        return count_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """All members' answers ``(n, M, K)`` for further rows."""
        with borrowed(self._modules, self._device) as self._home:
            yield from stream(X, self._draw, self._modules[0], self._home, batch_size)
            self._answers.finish()

    def _draw(self, batch: Batch, first_row: int) -> Tensor:
        if not self._tried_stack:
            self._stack, self._tried_stack = self._try_stack(batch), True
        if self._stack is None:
            values = self._one_by_one(batch)
        else:
            values = ask(self._stack, batch, self._home, "the ensemble")
        return self._answers.samples(values, first_row)

    def _try_stack(self, batch: Batch) -> Stack | None:
        """The members as one module, where that is faster and gives the same."""
        worth = isinstance(batch, Tensor) and is_worth_stacking(self._modules, self._home)
        if not worth or not len(batch):
            return None
        few = few_rows(batch)
        apart = self._one_by_one(few)
        try:
            stack = Stack(self._modules)
            together = ask(stack, few, self._home, "the ensemble")
        except (InvalidInput, RuntimeError):  # it does what cannot be vectorised
            return None
        same = together.shape == apart.shape and torch.allclose(together, apart, 1e-3, 1e-3)
        return stack if same else None

    def _one_by_one(self, batch: Batch) -> Tensor:
        """What the members return ``(M · n, K)``, one after the other."""
        n = length(batch)
        answers: list[Tensor] = []
        for module, name in zip(self._modules, self._names, strict=True):
            values = ask(module, batch, self._home, name)
            check_rows(values, n, name)
            if answers and values.shape != answers[0].shape:
                raise InvalidInput(
                    f"{name} returns {values.shape[1]} classes, {self._names[0]} "
                    f"{answers[0].shape[1]}; all members must know the same"
                )
            answers.append(values)
        return torch.cat(answers)


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
        self._dtype = next(iter(self._states[0].values())).dtype

    def forward(self, batch: Tensor) -> Tensor:
        """All members' answers."""
        batch = batch.to(self._dtype) if batch.is_floating_point() else batch
        return self._all(*self._states, batch).flatten(0, 1)


def is_worth_stacking(modules: Sequence[nn.Module], device: torch.device) -> bool:
    """Whether several small modules of one architecture would keep a GPU waiting one by one."""
    sizes = [parameter.numel() for parameter in modules[0].parameters()]
    return (
        device.type == "cuda"
        and len(modules) >= _SEVERAL
        and 0 < sum(sizes) <= _SMALL
        and not any(isinstance(part, _ConvNd) for part in modules[0].modules())
        and len({_architecture(module) for module in modules}) == 1
    )


def _architecture(module: nn.Module) -> Any:
    """What modules of one architecture have in common."""
    state = module.state_dict(keep_vars=True).items()
    tensors = tuple((name, value.shape, value.dtype) for name, value in state)
    return type(module), repr(module), tensors
