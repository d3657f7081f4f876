"""What dropout layers drop: the same for all rows of a draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from scorewise._random import generator
from scorewise.errors import InvalidInput

_BY_CHANNEL = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_ALPHA = (nn.AlphaDropout, nn.FeatureAlphaDropout)
_SELU_FLOOR = -1.7580993408473766  # what SELU tends to, which alpha dropout puts in


NOTHING = -1

Choice = str | frozenset[str]  # "all", "last", or the names of layers


class Call(NamedTuple):
    """A layer, and whether this is its first call in a pass, its second, and so on."""

    layer: str
    times: int


class Sight(NamedTuple):
    """A call that was watched, and what the layer was given."""

    call: Call
    given: Tensor


@dataclass(frozen=True)
class Place:
    """Where rows are in what a layer is given.

    Attributes
    ----------
    axis : int or None
        None where it is the same for all rows.
    per_row : int
        Entries of a row along that axis.
    rows_first : bool
        Whether they lie side by side, or one in each of ``per_row`` blocks of all rows.
    is_certain : bool
        Whether that could be seen; it cannot where all rows are alike.
    """

    axis: int | None
    per_row: int = 1
    rows_first: bool = True
    is_certain: bool = True


@dataclass(frozen=True)
class Plan:
    """The calls of a pass in their order, and the places of those that are to drop."""

    calls: tuple[Call, ...]
    places: Mapping[Call, Place]

    @property
    def can_share(self) -> bool:
        """Whether several draws may go through one pass, as so many times the rows."""
        return all(p.axis is not None and p.rows_first for p in self.places.values())

    def in_place(self, layers: Mapping[str, _DropoutNd]) -> dict[str, Plan]:
        """Plans in which one layer alone drops, for each that works in place."""
        names = {call.layer for call in self.places if layers[call.layer].inplace}
        return {
            name: replace(self, places={c: p for c, p in self.places.items() if c.layer == name})
            for name in sorted(names)
        }

    @property
    def is_certain(self) -> bool:
        """Whether all places could be seen."""
        return all(place.is_certain for place in self.places.values())


class Masks:
    """Masks for the dropout layers of a module.

    Within :meth:`attached` the layers ask here what to do, whatever they would do by themselves;
    outside of :meth:`drawing` they pass on what they are given.
    """

    def __init__(self, layers: Mapping[str, _DropoutNd], n_draws: int, entropy: int) -> None:
        self.layers = layers
        self._numbers = {name: i for i, name in enumerate(layers)}
        self._n_draws = n_draws
        self._entropy = entropy
        self._kept: dict[Call, Tensor] = {}
        self._made: list[Call] = []
        self._times: Counter[str] = Counter()
        self._seen: list[Sight] | None = None
        self._plan: Plan | None = None
        self._draws: Sequence[int] = ()
        self._n_rows = 0

    @contextmanager
    def attached(self) -> Iterator[None]:
        """The layers ask for their masks."""
        with ExitStack() as hooks:
            for name, layer in self.layers.items():
                hook = layer.register_forward_hook(partial(self._answer, name), with_kwargs=True)
                hooks.callback(hook.remove)
            yield

    @contextmanager
    def watching(self) -> Iterator[list[Sight]]:
        """One pass in which no layer drops, and the calls that it makes."""
        self._begin()
        seen: list[Sight] = []
        self._seen = seen
        try:
            yield seen
        finally:
            self._seen = None

    @contextmanager
    def drawing(self, plan: Plan, draws: Sequence[int], n_rows: int) -> Iterator[None]:
        """One pass in which the layers of the plan drop.

        With several draws, the first of these layers takes n rows and hands on n rows of each
        draw, one draw after the other. :data:`NOTHING` stands for a draw that keeps nothing.
        """
        self._begin()
        self._plan, self._n_rows, self._draws = plan, n_rows, draws
        try:
            yield
        finally:
            self._plan = None
        if tuple(self._made) != plan.calls:
            raise InvalidInput("which dropout layers run depends on the values of X")

    def _begin(self) -> None:
        self._times.clear()
        self._made.clear()

    def _answer(
        self, name: str, layer: nn.Module, args: Any, options: Any, returned: Tensor
    ) -> Tensor:
        """The forward hook of a layer."""
        given: Tensor = args[0] if args else next(iter(options.values()))
        call = Call(name, self._times[name])
        self._times[name] += 1
        self._made.append(call)
        if self._seen is not None:
            self._seen.append(Sight(call, given))
        if self._plan is None or call not in self._plan.places:
            return given
        place = self._plan.places[call]
        if place.axis is None:
            return _thin(layer, given, self._masks(call, tuple(given.shape), given.device)[0])
        axis, per_row = place.axis, place.per_row
        shape = (*given.shape[:axis], per_row, *given.shape[axis + 1 :])
        kept = self._masks(call, shape, given.device)
        if not place.rows_first:
            x = given.unflatten(axis, (per_row, self._n_rows))
            return _thin(layer, x, kept[0].unsqueeze(axis + 1)).flatten(axis, axis + 1)
        x = given.unflatten(axis, (-1, self._n_rows, per_row))
        kept = kept.movedim(0, axis).unsqueeze(axis + 1)  # draws, all rows, what is in a row
        return _thin(layer, x, kept).flatten(axis, axis + 2)

    def _masks(self, call: Call, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """What the current draws keep of a row of this shape."""
        if isinstance(self.layers[call.layer], _BY_CHANNEL):
            shape = (*shape[:2], *(1 for _ in shape[2:]))
        kept = self._kept.get(call)
        if kept is None or tuple(kept.shape[1:]) != shape:
            made = [self._make(draw, call, shape) for draw in range(self._n_draws)]
            nothing = torch.zeros(shape, dtype=torch.bool)
            self._kept[call] = kept = torch.stack([*made, nothing]).to(device)
        if list(self._draws) == list(range(self._n_draws)):
            return kept[:-1]
        return torch.stack([kept[draw] for draw in self._draws])

    def _make(self, draw: int, call: Call, shape: tuple[int, ...]) -> Tensor:
        rng = generator(self._entropy, draw, self._numbers[call.layer], call.times)
        return torch.from_numpy(rng.random(shape, dtype="float32") >= self.layers[call.layer].p)


def make_plan(
    two: Sequence[Sight], three: Sequence[Sight], layers: Mapping[str, _DropoutNd], choice: Choice
) -> Plan:
    """What to do in a pass, from what was seen in one with two rows and one with three."""
    calls = tuple(sight.call for sight in two)
    if calls != tuple(sight.call for sight in three):
        raise InvalidInput("which dropout layers run depends on the number of rows")
    active = [call for call in calls if layers[call.layer].p > 0]
    if not active:
        raise InvalidInput(
            "no dropout layer with p > 0 runs, so all draws would be alike; pass a module with "
            "torch.nn.Dropout, or a list of modules for an ensemble"
        )
    if choice == "last":
        chosen = set(active[-1:])
    else:
        chosen = {call for call in active if choice == "all" or call.layer in choice}
        running = {call.layer for call in chosen}
        idle = choice - running if isinstance(choice, frozenset) else frozenset()
        if idle:
            raise InvalidInput(f"the dropout layers {sorted(idle)} do not run, or have p = 0")
    places = {
        small.call: _find_place(small, large)
        for small, large in zip(two, three, strict=True)
        if small.call in chosen
    }
    return Plan(calls, places)


def _find_place(small: Sight, large: Sight) -> Place:
    """The axis that grows with the number of rows, and how rows lie along it."""
    two, three = small.given, large.given
    sizes = list(zip(two.shape, three.shape, strict=True)) if two.ndim == three.ndim else []
    grown = [axis for axis, (a, b) in enumerate(sizes) if a != b]
    if sizes and not grown:
        return Place(None)
    per_row = three.shape[grown[0]] - two.shape[grown[0]] if grown else 0
    if len(grown) == 1 and three.shape[grown[0]] == 3 * per_row:
        if per_row == 1:
            return Place(grown[0])
        two, three = two.movedim(grown[0], 0), three.movedim(grown[0], 0)
        side_by_side = _distance(three[: 2 * per_row], two)
        in_blocks = _distance(three.unflatten(0, (per_row, 3))[:, :2].flatten(0, 1), two)
        rounding = 1e-3 * float(two.abs().amax())
        if min(side_by_side, in_blocks) <= rounding:
            is_certain = max(side_by_side, in_blocks) > rounding
            return Place(grown[0], per_row, side_by_side <= in_blocks, is_certain)
    raise InvalidInput(
        f"the dropout layer {small.call.layer!r} gets shapes {tuple(small.given.shape)} for two "
        f"rows and {tuple(large.given.shape)} for three; which numbers belong to a row cannot be "
        "told"
    )


def _distance(x: Tensor, y: Tensor) -> float:
    return float((x - y).abs().amax())


def _thin(layer: Any, x: Tensor, kept: Tensor) -> Tensor:
    """What the layer makes of its input where only some of it is kept."""
    p = layer.p
    if not isinstance(layer, _ALPHA):
        return x * kept * (1 / (1 - p) if p < 1 else 0.0)
    scale = ((1 - p) * (1 + p * _SELU_FLOOR**2)) ** -0.5 if p < 1 else 0.0
    return torch.where(kept, x, _SELU_FLOOR) * scale - scale * _SELU_FLOOR * p
