"""Monte-Carlo dropout: draws of thinned networks.

A draw fixes what every chosen dropout layer drops, for all rows alike. So it is one network, and
its answers do not depend on how rows are batched. Everything before the first chosen layer is
computed once: that layer hands on the rows of all draws as one large batch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from scorewise.errors import InvalidInput
from scorewise.models.torch._answers import Answers
from scorewise.models.torch._masks import NOTHING, Choice, Masks, Plan, make_plan
from scorewise.models.torch._networks import ask, borrowed, check_rows
from scorewise.models.torch._rows import Batch, count_rows, few_rows, length, telling_rows
from scorewise.models.torch._streams import stream


@dataclass(frozen=True)
class Route:
    """How batches of one shape go through the module."""

    plan: Plan
    at_once: bool  # all draws in one pass, or one after the other


class DropoutSampler:
    """Draws from a module some of whose dropout layers are active."""

    weights: np.ndarray | None = None

    def __init__(
        self,
        module: nn.Module,
        n_draws: int,
        entropy: int,
        layers: Any,
        output: str | None,
        device: Any,
    ) -> None:
        self._module = module
        self._name = type(module).__name__
        self._n_draws = n_draws
        found = _dropout_layers(module)
        self._chosen = _choose(layers, found)
        self._masks = Masks(found, n_draws, entropy)
        names = [f"{self._name}, draw {m}" for m in range(n_draws)]
        self._answers = Answers(names, output, of_one_model=True)
        self._device = device
        self._home = torch.device("cpu")
        self._routes: dict[Any, Route] = {}

    def n_rows(self, X: Any) -> int | None:
        """How many there are, where that is known."""
        return count_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """All draws' answers ``(n, M, K)`` for further rows."""
        with (
            borrowed([self._module], self._device) as self._home,
            self._masks.attached(),
            _as_written(),
        ):
            yield from stream(X, self._draw, self._module, self._home, batch_size)
            self._answers.finish()

    def _draw(self, batch: Batch, first_row: int) -> Tensor:
        if not length(batch):
            return self._answers.samples(self._ask(batch), first_row)
        key = _shape_but_for_rows(batch)
        if key not in self._routes or not self._routes[key].plan.is_certain:
            self._routes[key] = self._find_route(batch)
        return self._answers.samples(self._values(key, batch), first_row)

    def _values(self, key: Any, batch: Batch) -> Tensor:
        """What the module returns in all draws ``(M · n, K)``, one draw after the other."""
        plan, draws = self._routes[key].plan, range(self._n_draws)
        if self._routes[key].at_once:
            try:
                return self._together(plan, draws, batch)
            except InvalidInput:
                # What the first rows did not show, such as the mask of a padded text; or it is
                # wrong whatever the way, and the other says so.
                self._routes[key] = Route(plan, at_once=False)
        return torch.cat([self._together(plan, [draw], batch) for draw in draws])

    def _ask(self, batch: Batch) -> Tensor:
        return ask(self._module, batch, self._home, self._name)

    def _together(self, plan: Plan, draws: Sequence[int], batch: Batch) -> Tensor:
        """What the module returns in these draws, in one pass."""
        with self._masks.drawing(plan, draws, length(batch)):
            values = self._ask(batch)
        check_rows(values, length(batch) * len(draws), self._name)
        return values

    def _find_route(self, batch: Batch) -> Route:
        """Find the layers that run, and whether all draws can go through them in one pass.

        They can unless the module goes around the first of them, as a skip connection does: then
        rows and draws do not fit, or the answers are not those of one draw at a time.
        """
        few = few_rows(batch)
        with self._masks.watching() as two:
            self._ask(telling_rows(batch, 2))
        with self._masks.watching() as three:
            self._ask(telling_rows(batch, 3))
        plan = make_plan(two, three, self._masks.layers, self._chosen)
        plain, nothing = self._ask(few), self._together(plan, [NOTHING], few)
        at_once = False
        if plan.can_share:
            apart = self._together(plan, [0], few)
            with suppress(InvalidInput):
                together, _ = self._together(plan, [0, NOTHING], few).chunk(2)
                at_once = _are_same(together, apart, nothing - plain)
        if bool(plain.isfinite().any()) and _are_same(nothing, plain):
            raise InvalidInput(f"the chosen dropout layers do not change what {self._name} returns")
        for name, alone in plan.in_place(self._masks.layers).items():
            if _are_same(self._together(alone, [NOTHING], few), plain):
                raise InvalidInput(
                    f"the dropout layer {name!r} works in place and nobody uses what it returns; "
                    "write x = dropout(x)"
                )
        return Route(plan, at_once)


def _shape_but_for_rows(batch: Batch) -> Any:
    """What batches that take one route have in common."""
    entries = batch.values() if isinstance(batch, Mapping) else [batch]
    shapes = tuple(tuple(entry.shape[1:]) for entry in entries if isinstance(entry, Tensor))
    return shapes, length(batch) > 1  # a single row does not tell how rows lie


def _are_same(x: Tensor, y: Tensor, usual: Tensor | None = None) -> bool:
    """Whether two answers are the same but for rounding.

    ``usual`` are differences that dropping makes; a hundredth of them is rounding, too.
    """
    if x.shape != y.shape or not bool((x.isfinite() == y.isfinite()).all()):
        return False
    x, y = (z.where(z.isfinite(), 0.0) for z in (x, y))
    rounding = 64 * torch.finfo(y.dtype).eps * y.abs().amax()
    if usual is not None:
        rounding = torch.maximum(rounding, 0.01 * usual.nan_to_num(0.0, 0.0, 0.0).abs().amax())
    return bool((x - y).abs().amax() <= rounding)


@contextmanager
def _as_written() -> Iterator[None]:
    """Hooks are no work for a compiler, and torch's fused attention does not call its layers."""
    compiler = getattr(torch.compiler, "set_stance", None)
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with nullcontext() if compiler is None else compiler("force_eager"):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def _dropout_layers(module: nn.Module) -> dict[str, _DropoutNd]:
    """The dropout layers of a module by name."""
    layers = {name: part for name, part in module.named_modules() if isinstance(part, _DropoutNd)}
    if not layers:
        raise InvalidInput(
            f"{type(module).__name__} has no dropout layer (torch.nn.functional.dropout is none), "
            "so all draws would be alike; pass a module with torch.nn.Dropout, a list of modules "
            "for an ensemble, or see scorewise.fit_laplace"
        )
    return layers


def _choose(chosen: Any, layers: Mapping[str, _DropoutNd]) -> Choice:
    """Which layers are to drop, as the user says it: by a word, a name or several."""
    if isinstance(chosen, str) and chosen in {"all", "last"}:
        return chosen
    names = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(names, list | tuple | set) or not names or not set(names) <= set(layers):
        raise InvalidInput(
            f"dropout={chosen!r} must be 'all', 'last' or a list of these layers: {list(layers)}"
        )
    return frozenset(names)
