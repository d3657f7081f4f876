"""What dropout layers drop, the same for all rows of a draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from scorewise.errors import InvalidInput
from scorewise.models.choices import generator

_BY_CHANNEL = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_ALPHA = (nn.AlphaDropout, nn.FeatureAlphaDropout)
_SELU_FLOOR = -1.7580993408473766  # what SELU tends to, which alpha dropout puts in


class Call(NamedTuple):
    """A layer, and whether this is its first call in a pass, its second, and so on."""

    layer: str
    times: int


class Place(NamedTuple):
    """Where rows are in the input of a call; ``axis`` is None where it is the same for all."""

    axis: int | None
    per_row: int


class Masks:
    """Masks of the dropout layers of a module, which is in evaluation mode.

    Within :meth:`attached` the layers ask here. Outside of :meth:`drawing` they pass on what they
    get, as they do without.
    """

    def __init__(self, layers: Mapping[str, _DropoutNd], n_draws: int, entropy: int) -> None:
        self._layers = layers
        self._numbers = {name: i for i, name in enumerate(layers)}
        self._n_draws = n_draws
        self._entropy = entropy
        self._places: dict[Call, Place] = {}
        self._kept: dict[Call, Tensor] = {}
        self._calls: Counter[str] = Counter()
        self._seen: list[tuple[Call, tuple[int, ...]]] | None = None
        self._draws: Tensor | None = None
        self._n_rows = 0

    @contextmanager
    def attached(self) -> Iterator[None]:
        """The layers ask for their masks."""
        with ExitStack() as hooks:
            for name, layer in self._layers.items():
                hook = layer.register_forward_hook(partial(self._answer, name))
                hooks.callback(hook.remove)
            yield

    @contextmanager
    def drawing(self, draws: Sequence[int], n_rows: int) -> Iterator[None]:
        """One pass in which the chosen layers drop: all of these draws come out, one by one.

        The first layer that drops takes n rows and hands on n rows of each draw.
        """
        self._calls.clear()
        self._draws, self._n_rows = torch.tensor(draws), n_rows
        try:
            yield
        finally:
            self._draws = None

    def learn(self, run: Callable[[int], Any], choice: Any) -> None:
        """Find the calls and where their rows are, from runs with two rows and with three."""
        (two, three) = (self._watch(partial(run, n)) for n in (2, 3))
        if [call for call, _ in two] != [call for call, _ in three]:
            raise InvalidInput("which dropout layers run depends on the number of rows")
        calls = [call for call, _ in two if self._layers[call.layer].p > 0]
        if not calls:
            raise InvalidInput(
                "no dropout layer with p > 0 runs, so all draws would be alike; pass a module with "
                "torch.nn.Dropout, or a list of modules for an ensemble"
            )
        if choice == "last":
            chosen = set(calls[-1:])
        else:
            chosen = {call for call in calls if choice == "all" or call.layer in choice}
        idle = [] if isinstance(choice, str) else set(choice) - {call.layer for call in chosen}
        if idle:
            raise InvalidInput(f"the dropout layers {sorted(idle)} do not run, or have p = 0")
        self._places = {
            call: _find_rows(call, small, large)
            for (call, small), (_, large) in zip(two, three, strict=True)
            if call in chosen
        }

    @property
    def are_known(self) -> bool:
        """Whether :meth:`learn` was called."""
        return bool(self._places)

    @property
    def follow_rows(self) -> bool:
        """Whether every call has rows, so that several draws can go through one pass."""
        return all(place.axis is not None for place in self._places.values())

    def _watch(self, run: Callable[[], Any]) -> list[tuple[Call, tuple[int, ...]]]:
        self._calls.clear()
        self._seen = []
        try:
            run()
            return self._seen
        finally:
            self._seen = None

    def _answer(self, name: str, layer: nn.Module, given: Any, returned: Tensor) -> Tensor | None:
        """The forward hook of a layer, which in evaluation mode returned what it was given."""
        call = Call(name, self._calls[name])
        self._calls[name] += 1
        if self._seen is not None:
            self._seen.append((call, tuple(returned.shape)))
        if self._draws is None or call not in self._places:
            return None
        axis, per_row = self._places[call]
        if axis is None:
            kept = self._masks(call, tuple(returned.shape), returned.device)
            return _thin(layer, returned, kept[0])
        x = returned.unflatten(axis, (-1, self._n_rows, per_row))
        shape = (*returned.shape[:axis], per_row, *returned.shape[axis + 1 :])
        kept = self._masks(call, shape, returned.device)
        kept = kept.movedim(0, axis).unsqueeze(axis + 1)  # draws, all rows, what is in a row
        return _thin(layer, x, kept).flatten(axis, axis + 2)

    def _masks(self, call: Call, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """What the current draws keep of a row of this shape."""
        layer = self._layers[call.layer]
        if isinstance(layer, _BY_CHANNEL):
            shape = (*shape[:2], *(1 for _ in shape[2:]))
        kept = self._kept.get(call)
        if kept is None or tuple(kept.shape[1:]) != shape:
            kept = torch.stack([self._make(draw, call, shape) for draw in range(self._n_draws)])
            self._kept[call] = kept = kept.to(device)
        assert self._draws is not None
        return kept[self._draws.to(device)]

    def _make(self, draw: int, call: Call, shape: tuple[int, ...]) -> Tensor:
        rng = generator(self._entropy, draw, self._numbers[call.layer], call.times)
        return torch.from_numpy(rng.random(shape, dtype="float32") >= self._layers[call.layer].p)


def _find_rows(call: Call, two: tuple[int, ...], three: tuple[int, ...]) -> Place:
    """The axis that grew with the number of rows."""
    grown = [axis for axis, (a, b) in enumerate(zip(two, three, strict=True)) if a != b]
    if not grown:
        return Place(None, 1)
    axis = grown[0]
    per_row = three[axis] - two[axis]
    if len(grown) > 1 or three[axis] != 3 * per_row:
        raise InvalidInput(
            f"the dropout layer {call.layer!r} gets shapes {two} for two rows and {three} for "
            "three; which of its numbers belong to a row cannot be told"
        )
    return Place(axis, per_row)


def _thin(layer: Any, x: Tensor, kept: Tensor) -> Tensor:
    """What the layer makes of its input where only some of it is kept."""
    p = layer.p
    if not isinstance(layer, _ALPHA):
        return x * kept * (1 / (1 - p) if p < 1 else 0.0)
    scale = ((1 - p) * (1 + p * _SELU_FLOOR**2)) ** -0.5 if p < 1 else 0.0
    return torch.where(kept, x, _SELU_FLOOR) * scale - scale * _SELU_FLOOR * p
