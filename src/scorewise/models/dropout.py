"""Monte-Carlo dropout: draws of thinned networks.

A draw fixes what every chosen dropout layer drops, for all rows alike. So it is one network, and
its answers do not depend on how rows are batched. Everything before the first chosen layer is
computed once: that layer hands on the rows of all draws as one large batch.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from scorewise.errors import InvalidInput
from scorewise.models.masks import Masks
from scorewise.models.networks import (
    as_probs,
    ask,
    at_rest,
    check_output,
    check_shape,
    few_rows,
    rows_that_fit,
    stream,
)
from scorewise.models.rows import Batch, count_rows, length


class DropoutSampler:
    """Draws from a module some of whose dropout layers are active."""

    weights: np.ndarray | None = None

    def __init__(
        self, module: nn.Module, n_draws: int, entropy: int, layers: Any, output: str, device: Any
    ) -> None:
        check_output(output)
        self._module = module
        self._name = type(module).__name__
        self._n_draws = n_draws
        self._entropy = entropy
        self._chosen = layers
        self._masks = Masks(_dropout_layers(module, layers), n_draws, entropy)
        self._output = output
        self._device = device
        self._at_once = False

    def n_rows(self, X: Any) -> int | None:
        """How many there are, where that is known."""
        return count_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """All draws' answers ``(n, M, K)`` for further rows."""
        with at_rest([self._module], self._device) as self._device, self._masks.attached():
            torch.manual_seed(self._entropy % 2**63)  # for what else may be random in the module
            yield from stream(X, self._draw, self._rows_at_a_time, batch_size)

    def _rows_at_a_time(self, batch: Batch) -> int:
        if length(batch) == 0:
            return 1
        few = few_rows(batch)
        return rows_that_fit(lambda: self._draw(few, 0), self._module, self._device)

    def _draw(self, batch: Batch, first_row: int) -> Tensor:
        n = length(batch)
        if n and not self._masks.are_known:
            self._prepare(batch)
        values = self._values(range(self._n_draws), batch, at_once=self._at_once)

        def who(i: int) -> str:
            return f"{self._name}, draw {i // n}, row {first_row + i % n}"

        probs = as_probs(values, self._output, who)
        return probs.unflatten(0, (self._n_draws, n)).transpose(0, 1)

    def _values(self, draws: Sequence[int], batch: Batch, *, at_once: bool) -> Tensor:
        """What the module returns ``(draws · n, K)``, one draw after the other."""
        if not at_once:
            return torch.cat([self._values([draw], batch, at_once=True) for draw in draws])
        n = length(batch)
        with self._masks.drawing(draws, n):
            values = ask(self._module, batch, self._device, self._name)
        check_shape(values, n * len(draws), self._name)
        return values

    def _prepare(self, batch: Batch) -> None:
        """Find the layers that run, and whether all draws can go through them in one pass.

        They can unless the module goes around the first of them, as a skip connection does: then
        rows and draws do not fit, or the answers are not those of one draw at a time.
        """

        def run(n: int) -> None:
            ask(self._module, few_rows(batch, n), self._device, self._name)

        self._masks.learn(run, self._chosen)
        if self._n_draws == 1 or not self._masks.follow_rows:
            return
        few = few_rows(batch)
        apart = self._values([0, 1], few, at_once=False)
        try:
            together = self._values([0, 1], few, at_once=True)
        except InvalidInput:
            return
        tolerance = float(apart.abs().amax()) * torch.finfo(apart.dtype).eps ** 0.5
        self._at_once = bool(torch.allclose(together, apart, rtol=0, atol=tolerance))


def _dropout_layers(module: nn.Module, chosen: Any) -> dict[str, _DropoutNd]:
    """The dropout layers of a module by name."""
    layers = {name: part for name, part in module.named_modules() if isinstance(part, _DropoutNd)}
    if not layers:
        raise InvalidInput(
            f"{type(module).__name__} has no dropout layer (torch.nn.functional.dropout is none), "
            "so all draws would be alike; pass a module with torch.nn.Dropout, a list of modules "
            "for an ensemble, or see scorewise.fit_laplace"
        )
    if isinstance(chosen, str):
        if chosen not in {"all", "last"}:
            raise InvalidInput(f"dropout={chosen!r} must be 'all', 'last' or a list of layer names")
        return layers
    unknown = [name for name in chosen if name not in layers]
    if unknown or not chosen:
        raise InvalidInput(f"dropout={chosen!r}: the dropout layers are {sorted(layers)}")
    return layers
