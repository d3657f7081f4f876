"""Monte-Carlo dropout: draws of thinned networks.

A draw fixes the units that every chosen dropout layer drops, the same for all rows. So it is one
network, and its outputs do not depend on how rows are batched. Everything before the first chosen
layer is computed once: that layer returns the rows of all draws as one large batch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from scorewise._random import generator
from scorewise.errors import InvalidInput, Remedy
from scorewise.models._samplers import SamplingOptions
from scorewise.models.torch._networks import OutputReader, call_module, check_rows, evaluation_mode
from scorewise.models.torch._row_batches import (
    Batch,
    count_rows,
    distinct_rows,
    few_rows,
    in_host_memory,
    length,
    stream,
)

_BY_CHANNEL = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_ALPHA = (nn.AlphaDropout, nn.FeatureAlphaDropout)
_SELU_FLOOR = -1.7580993408473766  # the limit of SELU, which alpha dropout inserts

_DROP_ALL = -1  # index of a draw that drops everything

_BLOCK = 32  # positions whose masks are drawn together, in each direction

LayerChoice = str | frozenset[str]  # "all", "last", or the names of layers


class Window(NamedTuple):
    """The part of an image that a network sees; all windows start at multiples of a number."""

    rows: range
    columns: range
    alignment: int


class LayerCall(NamedTuple):
    """A layer, and the number of its calls before this one in a pass."""

    layer: str
    n_before: int


class ObservedCall(NamedTuple):
    """A call in a trial pass, and the input of the layer."""

    call: LayerCall
    input: Tensor


@dataclass(frozen=True)
class RowLayout:
    """The layout of rows in the input of a layer.

    Attributes
    ----------
    axis : int or None
        The axis of the rows; None if the input is the same for all rows.
    per_row : int
        Entries of a row along that axis.
    rows_first : bool
        Whether a row's entries are adjacent, or one in each of ``per_row`` blocks of all rows.
    is_certain : bool
        Whether the trial could distinguish the two; it cannot if all rows are equal.
    """

    axis: int | None
    per_row: int = 1
    rows_first: bool = True
    is_certain: bool = True


@dataclass(frozen=True)
class DropoutPlan:
    """The calls of a pass in order, and the layouts of those that drop."""

    calls: tuple[LayerCall, ...]
    layouts: Mapping[LayerCall, RowLayout]

    @property
    def can_share(self) -> bool:
        """Whether one pass can hold several draws, each as further rows."""
        layouts = self.layouts.values()
        return all(layout.axis is not None and layout.rows_first for layout in layouts)

    @property
    def is_certain(self) -> bool:
        """Whether all layouts are certain."""
        return all(layout.is_certain for layout in self.layouts.values())

    def of_in_place_layers(self, layers: Mapping[str, _DropoutNd]) -> dict[str, DropoutPlan]:
        """Return, for each layer that works in place, the plan in which only it drops."""
        names = {call.layer for call in self.layouts if layers[call.layer].inplace}
        return {
            name: replace(
                self, layouts={call: x for call, x in self.layouts.items() if call.layer == name}
            )
            for name in sorted(names)
        }


# -- the sampler ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BatchRoute:
    """How batches of one shape go through the module."""

    plan: DropoutPlan
    in_one_pass: bool  # all draws, or one pass per draw


class DropoutSampler:
    """Draws from a module in which the chosen dropout layers drop."""

    weights: np.ndarray | None = None

    def __init__(self, module: nn.Module, options: SamplingOptions) -> None:
        self.n_members = options.n_draws
        self._module = module
        self._name = type(module).__name__
        layers = dropout_layers(module)
        self._choice = choose_layers(options.dropout, layers)
        self._masks = DropoutMasks(layers, self.n_members, options.seed)
        names = [f"{self._name}, draw {m}" for m in range(self.n_members)]
        self._reader = OutputReader(names, options.output, of_one_model=True)
        self._requested_device = options.device
        self._device = torch.device("cpu")
        self._routes: dict[Any, BatchRoute] = {}

    def n_rows(self, X: Any) -> int | None:
        """Return the number of rows of X, or None if it is not known."""
        return count_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """Yield all draws' probabilities ``(n, M, K)`` of consecutive rows."""
        return in_host_memory(self.tensors(X, batch_size))

    def tensors(self, X: Any, batch_size: int | None) -> Generator[Tensor]:
        """Yield the chunks where they are computed."""
        with (
            evaluation_mode([self._module], self._requested_device) as self._device,
            self._masks.attached(),
            layer_by_layer(),
        ):
            yield from stream(X, self._draw, self._module, self._device, batch_size)
            self._reader.finish()

    def _draw(self, batch: Batch, first_row: int) -> Tensor:
        if not length(batch):
            return self._reader.samples(self._call(batch), first_row)
        key = _route_key(batch)
        if key not in self._routes or not self._routes[key].plan.is_certain:
            self._routes[key] = self._find_route(batch)
        return self._reader.samples(self._values(key, batch), first_row)

    def _values(self, key: Any, batch: Batch) -> Tensor:
        """The module's outputs in all draws ``(M · n, K)``, one draw after the other."""
        plan, draws = self._routes[key].plan, range(self.n_members)
        if self._routes[key].in_one_pass:
            try:
                return self._thinned(plan, draws, batch)
            except InvalidInput:
                # The trial rows may not show that it fails, as with the mask of a padded text. If
                # one pass per draw fails too, its error is raised.
                self._routes[key] = BatchRoute(plan, in_one_pass=False)
        return torch.cat([self._thinned(plan, [draw], batch) for draw in draws])

    def _call(self, batch: Batch) -> Tensor:
        return call_module(self._module, batch, self._device, self._name)

    def _thinned(self, plan: DropoutPlan, draws: Sequence[int], batch: Batch) -> Tensor:
        """The module's outputs in these draws, in one pass."""
        with self._masks.drawing(plan, draws, length(batch)):
            values = self._call(batch)
        check_rows(values, length(batch) * len(draws), self._name)
        return values

    def _find_route(self, batch: Batch) -> BatchRoute:
        """Find the layers that run, and whether one pass can hold all draws.

        It can unless a connection bypasses the first of them: then shapes do not fit, or outputs
        differ from those of one draw at a time.
        """
        trial_rows = few_rows(batch)
        with self._masks.observing() as calls_of_two_rows:
            self._call(distinct_rows(batch, 2))
        with self._masks.observing() as calls_of_three_rows:
            self._call(distinct_rows(batch, 3))
        plan = _make_plan(calls_of_two_rows, calls_of_three_rows, self._masks.layers, self._choice)
        output = self._call(trial_rows)
        output_without_units = self._thinned(plan, [_DROP_ALL], trial_rows)
        in_one_pass = False
        if plan.can_share:
            output_of_draw = self._thinned(plan, [0], trial_rows)
            with suppress(InvalidInput):
                output_of_first, _ = self._thinned(plan, [0, _DROP_ALL], trial_rows).chunk(2)
                effect = output_without_units - output
                in_one_pass = _are_same(output_of_first, output_of_draw, effect)
        if bool(output.isfinite().any()) and _are_same(output_without_units, output):
            raise InvalidInput(
                f"the chosen dropout layers do not change the output of {self._name}"
            )
        for name, plan_of_layer in plan.of_in_place_layers(self._masks.layers).items():
            if _are_same(self._thinned(plan_of_layer, [_DROP_ALL], trial_rows), output):
                raise InvalidInput(
                    f"the dropout layer {name!r} works in place, but its output is not used; write "
                    "x = dropout(x)"
                )
        return BatchRoute(plan, in_one_pass)


def _route_key(batch: Batch) -> Any:
    """Return a key that is equal for batches of the same route: their shapes without rows."""
    entries = batch.values() if isinstance(batch, Mapping) else [batch]
    shapes = tuple(tuple(entry.shape[1:]) for entry in entries if isinstance(entry, Tensor))
    return shapes, length(batch) > 1  # a single row does not show the layout


def _are_same(x: Tensor, y: Tensor, effect: Tensor | None = None) -> bool:
    """Return whether two outputs are equal up to rounding.

    ``effect`` is the change by dropping everything; a hundredth of it counts as rounding too.
    """
    if x.shape != y.shape or not bool((x.isfinite() == y.isfinite()).all()):
        return False
    x, y = (z.where(z.isfinite(), 0.0) for z in (x, y))
    rounding = 64 * torch.finfo(y.dtype).eps * y.abs().amax()
    if effect is not None:
        rounding = torch.maximum(rounding, 0.01 * effect.nan_to_num(0.0, 0.0, 0.0).abs().amax())
    return bool((x - y).abs().amax() <= rounding)


@contextmanager
def layer_by_layer() -> Iterator[None]:
    """Turn off the compiler, which skips hooks, and fused attention, which skips layers."""
    compiler = getattr(torch.compiler, "set_stance", None)
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with nullcontext() if compiler is None else compiler("force_eager"):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def dropout_layers(module: nn.Module) -> dict[str, _DropoutNd]:
    """The dropout layers of a module by name."""
    return {name: part for name, part in module.named_modules() if isinstance(part, _DropoutNd)}


def choose_layers(chosen: Any, layers: Mapping[str, _DropoutNd]) -> LayerChoice:
    """The user's choice of layers: "all", "last", or a set of names."""
    if isinstance(chosen, str) and chosen in {"all", "last"}:
        return chosen
    names = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(names, list | tuple | set) or not names or not set(names) <= set(layers):
        raise InvalidInput(
            f"dropout={chosen!r} must be 'all', 'last' or a list of these layers: {list(layers)}",
            Remedy("dropout", "all", "for all layers"),
        )
    return frozenset(names)


# -- masks ----------------------------------------------------------------------------------------


class DropoutMasks:
    """The masks of a module's dropout layers.

    Within :meth:`attached` a hook replaces the outputs of the layers: within :meth:`drawing` by
    their thinned input, otherwise by their input.
    """

    def __init__(self, layers: Mapping[str, _DropoutNd], n_draws: int, seed: int) -> None:
        self.layers = layers
        self._numbers = {name: i for i, name in enumerate(layers)}
        self._n_draws = n_draws
        self._seed = seed
        self._masks: dict[LayerCall, Tensor] = {}  # True where a unit is not dropped
        self._calls: list[LayerCall] = []
        self._counts: Counter[str] = Counter()
        self._observed: list[ObservedCall] | None = None
        self._plan: DropoutPlan | None = None
        self._draws: Sequence[int] = ()
        self._n_rows = 0
        self._window: Window | None = None
        # numbers of pixels, and of positions in the input of a layer, in each direction
        self._first_windows: dict[LayerCall, tuple[tuple[int, int], ...]] = {}

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Replace the outputs of the layers."""
        with ExitStack() as hooks:
            for name, layer in self.layers.items():
                hook = layer.register_forward_hook(partial(self._replace, name), with_kwargs=True)
                hooks.callback(hook.remove)
            yield

    @contextmanager
    def observing(self) -> Iterator[list[ObservedCall]]:
        """Run a pass in which no layer drops; yield the list of its calls."""
        self._begin()
        observed: list[ObservedCall] = []
        self._observed = observed
        try:
            yield observed
        finally:
            self._observed = None

    @contextmanager
    def drawing(
        self, plan: DropoutPlan, draws: Sequence[int], n_rows: int, window: Window | None = None
    ) -> Iterator[None]:
        """Run a pass in which the layers of the plan drop.

        With several draws, the first of these layers gets n rows and returns n rows of each draw,
        one draw after the other. A window is the part of an image that the only row is.
        """
        self._begin()
        self._plan, self._n_rows, self._draws, self._window = plan, n_rows, draws, window
        try:
            yield
        finally:
            self._plan = self._window = None
        if tuple(self._calls) != plan.calls:
            raise InvalidInput("which dropout layers run depends on the values of X")

    def _begin(self) -> None:
        self._counts.clear()
        self._calls.clear()

    def _replace(
        self, name: str, layer: nn.Module, args: Any, options: Any, output: Tensor
    ) -> Tensor:
        """The forward hook of a layer."""
        x: Tensor = args[0] if args else next(iter(options.values()))
        call = LayerCall(name, self._counts[name])
        self._counts[name] += 1
        self._calls.append(call)
        if self._observed is not None:
            self._observed.append(ObservedCall(call, x))
        if self._plan is None or call not in self._plan.layouts:
            return x
        layout = self._plan.layouts[call]
        if layout.axis is None:
            return _thin(layer, x, self._current_masks(call, tuple(x.shape), x.device)[0])
        axis, per_row = layout.axis, layout.per_row
        shape = (*x.shape[:axis], per_row, *x.shape[axis + 1 :])
        masks = self._current_masks(call, shape, x.device)
        if not layout.rows_first:
            x = x.unflatten(axis, (per_row, self._n_rows))
            return _thin(layer, x, masks[0].unsqueeze(axis + 1)).flatten(axis, axis + 1)
        x = x.unflatten(axis, (-1, self._n_rows, per_row))
        masks = masks.movedim(0, axis).unsqueeze(axis + 1)  # draws, rows, entries of a row
        return _thin(layer, x, masks).flatten(axis, axis + 2)

    def _current_masks(
        self, call: LayerCall, shape: tuple[int, ...], device: torch.device
    ) -> Tensor:
        """The masks of the current draws for a row of this shape."""
        if isinstance(self.layers[call.layer], _BY_CHANNEL):
            shape = (*shape[:2], *(1 for _ in shape[2:]))
        if self._window is not None and math.prod(shape[2:]) > 1:
            drawn = [self._draw_window(draw, call, shape, self._window) for draw in self._draws]
            return torch.stack(drawn).to(device)
        masks = self._masks.get(call)
        if masks is None or tuple(masks.shape[1:]) != shape:
            drawn = [self._draw_mask(draw, call, shape) for draw in range(self._n_draws)]
            drops_all = torch.zeros(shape, dtype=torch.bool)
            self._masks[call] = masks = torch.stack([*drawn, drops_all]).to(device)
        if list(self._draws) == list(range(self._n_draws)):
            return masks[:-1]
        return torch.stack([masks[draw] for draw in self._draws])

    def _draw_mask(self, draw: int, call: LayerCall, shape: tuple[int, ...], *block: int) -> Tensor:
        rng = generator(self._seed, draw, self._numbers[call.layer], call.n_before, *block)
        return torch.from_numpy(rng.random(shape, dtype="float32") >= self.layers[call.layer].p)

    def _draw_window(
        self, draw: int, call: LayerCall, shape: tuple[int, ...], window: Window
    ) -> Tensor:
        """Return the part of a draw's mask for the whole image that a window sees.

        The mask is drawn in blocks of positions, each from its own seed, so that all windows see
        the same draw.
        """
        if len(shape) != 4:
            raise InvalidInput(
                f"the dropout layer {call.layer!r} gets shape {shape}, which does not show the "
                "positions of pixels; use torch.nn.Dropout2d there, or pass a list of networks"
            )
        rows, columns = self._cells(call, shape[2:], window)
        blocks = [
            torch.cat(
                [
                    self._draw_mask(draw, call, (1, shape[1], _BLOCK, _BLOCK), i, j)
                    for j in range(columns.start // _BLOCK, -(-columns.stop // _BLOCK))
                ],
                dim=3,
            )
            for i in range(rows.start // _BLOCK, -(-rows.stop // _BLOCK))
        ]
        top, left = rows.start % _BLOCK, columns.start % _BLOCK
        height, width = shape[2:]
        return torch.cat(blocks, dim=2)[:, :, top : top + height, left : left + width]

    def _cells(self, call: LayerCall, sizes: tuple[int, ...], window: Window) -> list[range]:
        """Return the rows and columns of a layer's input for the whole image that a window sees.

        The first window, at the origin, shows how many pixels a cell is wide.
        """
        ranges = (window.rows, window.columns)
        firsts = self._first_windows.setdefault(
            call, tuple((len(pixels), n) for pixels, n in zip(ranges, sizes, strict=True))
        )
        cells = []
        for pixels, n, first in zip(ranges, sizes, firsts, strict=True):
            start = 0 if pixels.start == 0 else pixels.start // self._stride(call, *first, window)
            cells.append(range(start, start + n))
        return cells

    def _stride(self, call: LayerCall, n_pixels: int, n_cells: int, window: Window) -> int:
        """Return how many pixels a cell is wide: a number at whose multiples windows start.

        Networks round up or down where their stride does not divide the pixels.
        """
        for stride in range(window.alignment, 0, -1):
            rounding = abs(n_pixels / stride - n_cells)
            if window.alignment % stride == 0 and rounding < 1:
                return stride
        raise InvalidInput(
            f"the dropout layer {call.layer!r} sees {n_cells} positions of {n_pixels} pixels, and "
            "windows start between two of them; pass a tile and a halo that are multiples of the "
            "network's stride, such as 512 and 64"
        )


def _make_plan(
    calls_of_two_rows: Sequence[ObservedCall],
    calls_of_three_rows: Sequence[ObservedCall],
    layers: Mapping[str, _DropoutNd],
    choice: LayerChoice,
) -> DropoutPlan:
    """Return the plan, from the calls of a pass with two rows and of a pass with three."""
    calls = tuple(observed.call for observed in calls_of_two_rows)
    if calls != tuple(observed.call for observed in calls_of_three_rows):
        raise InvalidInput("which dropout layers run depends on the number of rows")
    chosen = _chosen_calls(calls, layers, choice)
    layouts = {
        small.call: _find_layout(small, large)
        for small, large in zip(calls_of_two_rows, calls_of_three_rows, strict=True)
        if small.call in chosen
    }
    return DropoutPlan(calls, layouts)


def plan_of_one_row(
    observed: Sequence[ObservedCall], layers: Mapping[str, _DropoutNd], choice: LayerChoice
) -> DropoutPlan:
    """Return the plan for passes of a single row, such as a part of an image."""
    calls = tuple(call for call, _ in observed)
    chosen = _chosen_calls(calls, layers, choice)
    return DropoutPlan(calls, {call: RowLayout(0) for call in calls if call in chosen})


def _chosen_calls(
    calls: Sequence[LayerCall], layers: Mapping[str, _DropoutNd], choice: LayerChoice
) -> set[LayerCall]:
    """Return the calls that drop; raises if there are none, or a chosen layer has none."""
    active = [call for call in calls if layers[call.layer].p > 0]
    if not active:
        raise InvalidInput(
            "no dropout layer with p > 0 runs, so all draws would be equal; pass a module with "
            "torch.nn.Dropout, or a list of modules for an ensemble"
        )
    if choice == "last":
        return set(active[-1:])
    chosen = {call for call in active if choice == "all" or call.layer in choice}
    running = {call.layer for call in chosen}
    idle = choice - running if isinstance(choice, frozenset) else frozenset()
    if idle:
        raise InvalidInput(f"the dropout layers {sorted(idle)} do not run, or have p = 0")
    return chosen


def _find_layout(small: ObservedCall, large: ObservedCall) -> RowLayout:
    """The axis that grows with the number of rows, and the layout of rows along it."""
    two, three = small.input, large.input
    sizes = list(zip(two.shape, three.shape, strict=True)) if two.ndim == three.ndim else []
    grown = [axis for axis, (a, b) in enumerate(sizes) if a != b]
    if sizes and not grown:
        return RowLayout(None)
    per_row = three.shape[grown[0]] - two.shape[grown[0]] if grown else 0
    if len(grown) == 1 and three.shape[grown[0]] == 3 * per_row:
        if per_row == 1:
            return RowLayout(grown[0])
        two, three = two.movedim(grown[0], 0), three.movedim(grown[0], 0)
        side_by_side = _distance(three[: 2 * per_row], two)
        in_blocks = _distance(three.unflatten(0, (per_row, 3))[:, :2].flatten(0, 1), two)
        rounding = 1e-3 * float(two.abs().amax())
        if min(side_by_side, in_blocks) <= rounding:
            is_certain = max(side_by_side, in_blocks) > rounding
            return RowLayout(grown[0], per_row, side_by_side <= in_blocks, is_certain)
    raise InvalidInput(
        f"the dropout layer {small.call.layer!r} gets shapes {tuple(small.input.shape)} for two "
        f"rows and {tuple(large.input.shape)} for three, which does not show its layout of rows"
    )


def _distance(x: Tensor, y: Tensor) -> float:
    return float((x - y).abs().amax())


def _thin(layer: Any, x: Tensor, mask: Tensor) -> Tensor:
    """The layer's output for a mask that is True where x is not dropped."""
    p = layer.p
    if not isinstance(layer, _ALPHA):
        return x * mask * (1 / (1 - p) if p < 1 else 0.0)
    scale = ((1 - p) * (1 + p * _SELU_FLOOR**2)) ** -0.5 if p < 1 else 0.0
    return torch.where(mask, x, _SELU_FLOOR) * scale - scale * _SELU_FLOOR * p
