"""Segmentation networks: the uncertainty of every pixel, tile by tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scorewise import _validate as validate
from scorewise._array import is_array, to_numpy
from scorewise._fields import checked_labels
from scorewise._losses import losses_of_mean, mean_in_float64, without_ignored
from scorewise._member_checks import MemberChecks
from scorewise._progress import bar
from scorewise._random import seed_of
from scorewise.decompose import COMPONENTS, Decomposition, Decompositions, decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.models._samplers import SamplingOptions
from scorewise.models.torch._deep_ensembles import DeepEnsemble
from scorewise.models.torch._dropout import (
    DropoutMasks,
    DropoutPlan,
    Window,
    choose_layers,
    dropout_layers,
    layer_by_layer,
    plan_of_one_row,
)
from scorewise.models.torch._networks import OutputReader, call_on_image, evaluation_mode
from scorewise.models.torch._row_batches import random_in_evaluation_mode
from scorewise.rules import RuleLike, ScoringRule, get_rules, is_single_rule

_VISIBLE = 0.01  # difference of a probability that a wider halo may make
_ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class Segmentation:
    """The uncertainty of the pixels of an image; returned by :func:`scorewise.segment`.

    Attributes
    ----------
    prediction : array (H, W)
        The class of the largest mean probability, an index.
    uncertainty : Decomposition or Decompositions
        Of maps ``(H, W)``; by the names of the rules if there are several.
    losses : array (H, W), dict of them, or None
        What the mean prediction incurs under the rule, or under each; NaN at the ignored label,
        None without labels.

    Examples
    --------
    >>> import scorewise as sw, torch
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 1), torch.nn.Dropout2d())
    >>> pixels = sw.segment(net, torch.rand(3, 20, 30), ["log", "zero-one"], random_state=0)
    >>> pixels
    Segmentation(20 × 30 pixels, rules ['log', 'zero-one'])
    >>> pixels.uncertainty["log"].epistemic.shape, pixels.prediction.shape
    ((20, 30), (20, 30))
    """

    prediction: np.ndarray
    uncertainty: Decomposition | Decompositions
    losses: Any = None

    def __repr__(self) -> str:
        height, width = self.prediction.shape
        several = isinstance(self.uncertainty, Decompositions)
        rules = f", rules {list(self.uncertainty)}" if several else ""
        labelled = "" if self.losses is None else ", with losses"
        return f"Segmentation({height} × {width} pixels{rules}{labelled})"


def segment(
    model: Any,
    image: Any,
    rule: RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike],
    n_samples: int | None = None,
    random_state: Any = None,
    *,
    y: Any = None,
    ignore_label: Any = None,
    tile: int = 512,
    halo: int = 64,
    device: Any = None,
    dropout: Any = "all",
    output: str | None = None,
    progress: bool | None = None,
) -> Segmentation:
    """Return the uncertainty of every pixel of an image, by a segmentation network.

    Use it where the members' predictions for all pixels do not fit in memory. The network runs on
    one tile of the image at a time, with a halo of further pixels around it, and the members of a
    tile are decomposed together. A draw drops the same units in all tiles, and with the same
    ``random_state`` in all images: it is one network.

    A pixel is predicted as from the whole image if the halo reaches as far as the network sees to
    one side (half its receptive field), and tile and halo are multiples of its stride, such as 32.
    Networks that pool over the whole image, or attend to all of it, depend on the tiles. The first
    member predicts the first tile a second time, with a halo twice as wide, which shows most such
    networks, and not all.

    Parameters
    ----------
    model : torch module with dropout, list of modules, or DeepEnsemble
        Takes images ``(1, C, h, w)`` and returns logits ``(1, K, h, w)``: as a tensor, in
        ``.logits``, or under ``"out"`` as torchvision's. It is not changed.
    image : array or tensor (C, H, W)
        Prepared as the network takes it; may be memory-mapped.
    rule : str, ScoringRule, costs (K, A), or several in a list or a mapping
        As for :func:`scorewise.decompose`.
    n_samples : int, optional
        Number of members, a random subset, or of draws; all members, or 20 draws, by default.
    random_state : int, RandomState or Generator, optional
        Seed of the subset or the draws.
    y : array (H, W), optional
        The true classes, for ``losses``.
    ignore_label : optional
        A value in ``y`` that is no class, such as 255; the loss there is NaN.
    tile, halo : int
        Side of a tile, and width of the halo, in pixels. Memory grows with M · K · tile².
    device, dropout, output, progress
        As for :func:`scorewise.predict_samples`; ``output`` is ``"logits"`` or ``"probs"``.

    Returns
    -------
    Segmentation
        Maps ``(H, W)`` in host memory; :func:`scorewise.aggregate` makes numbers of images from
        them.

    Warns
    -----
    ScorewiseWarning
        If a wider halo changes a probability of the first tile by more than 0.01, or if members
        are copies of each other.

    Raises
    ------
    InvalidInput
        If the model, the image, the labels or an output do not fit.

    Examples
    --------
    >>> import scorewise as sw, torch
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(
    ...     torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Dropout2d(), torch.nn.Conv2d(8, 5, 1)
    ... )
    >>> image, y = torch.rand(3, 100, 120), torch.zeros(100, 120, dtype=int)
    >>> pixels = sw.segment(net, image, "zero-one", random_state=0, y=y, tile=64, halo=8)
    >>> pixels
    Segmentation(100 × 120 pixels, with losses)
    >>> pixels.uncertainty.total.shape
    (100, 120)
    >>> float(sw.aggregate(pixels.losses, (0, 1))) == float((pixels.prediction != 0).mean())
    True
    """
    validate.whole(tile, "tile", at_least=1)
    validate.whole(halo, "halo", at_least=0)
    if output is not None:
        validate.choice(output, "output", ("logits", "probs"))
    options = SamplingOptions(n_samples, seed_of(random_state), device, dropout, output)
    pixels = _checked_image(image)
    height, width = pixels.shape[1:]
    tiles = _tiles(height, width, tile, halo)
    maps = _Maps((height, width), get_rules(rule), y, ignore_label)
    checks = MemberChecks()
    with (
        _running(model, options) as members,
        torch.no_grad(),
        bar("segmenting", len(tiles), progress) as advance,
    ):
        for place in tiles:
            probs = members.probabilities(pixels, place)
            if place is tiles[0]:
                wider = _tiles(height, width, tile, 2 * halo or tile)[0]
                _check_first_tile(members, pixels, place, wider, probs[:, 0])
            checks.see(probs)
            maps.add(place, probs)
            del probs  # before those of the next tile are made
            advance(1)
        members.finish()
    for problem in checks.problems():
        validate.warn(problem)
    return maps.segmentation(is_single_rule(rule))


def _checked_image(image: Any) -> Any:
    """Return an image (C, H, W) with pixels."""
    image = image if is_array(image) else np.asarray(image)
    if image.ndim != 3 or 0 in image.shape:
        raise InvalidInput(
            f"the image has shape {tuple(image.shape)}; it must be (channels, height, width), one "
            "image at a time"
        )
    return image


# -- tiles ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tile:
    """A part of an image that is predicted at once, and the window that the network sees."""

    rows: range
    columns: range
    window: Window

    @property
    def place(self) -> tuple[slice, slice]:
        """The index of the tile in the image."""
        return _index(self.rows), _index(self.columns)

    @property
    def within(self) -> tuple[slice, slice]:
        """The index of the tile in its window."""
        top, left = self.window.rows.start, self.window.columns.start
        return _index(self.rows, top), _index(self.columns, left)

    def locate(self, i: int) -> str:
        """Name the pixel with this number in the tile."""
        row, column = divmod(i, len(self.columns))
        return f"pixel ({self.rows[row]}, {self.columns[column]})"


def _index(pixels: range, origin: int = 0) -> slice:
    return slice(pixels.start - origin, pixels.stop - origin)


def _tiles(height: int, width: int, tile: int, halo: int) -> list[_Tile]:
    """Return the tiles of an image, from its origin on; windows end at its edges."""

    def spans(n: int) -> list[tuple[range, range]]:
        starts = range(0, n, tile)
        return [
            (range(i, min(i + tile, n)), range(max(i - halo, 0), min(i + tile + halo, n)))
            for i in starts
        ]

    alignment = math.gcd(tile, halo)
    return [
        _Tile(rows, columns, Window(window_rows, window_columns, alignment))
        for (rows, window_rows), (columns, window_columns) in product(spans(height), spans(width))
    ]


def _check_first_tile(
    members: _PixelMembers, image: Any, place: _Tile, wider: _Tile, probs: np.ndarray
) -> None:
    """Raise if a member is random; warn if what it predicts depends on the width of the halo."""
    repeated = members.probabilities_of(0, image, place)
    if np.abs(repeated - probs).max() > _ROUNDING:
        raise random_in_evaluation_mode(members.names[0])
    if wider.window[:2] == place.window[:2]:
        return
    change = float(np.abs(members.probabilities_of(0, image, wider) - probs).max())
    if change > _VISIBLE:
        validate.warn(
            f"a wider halo changes a probability of the first tile by {change:.2g}, so predictions "
            "depend on where tiles end: pass a larger halo, which reaches as far as the network "
            "sees, in multiples of its stride; or a larger tile, if it pools over whole images"
        )


# -- members --------------------------------------------------------------------------------------

Call = Callable[[int, Tensor, Window], Tensor]  # a member's output (K, h, w) for a window


@dataclass(frozen=True)
class _PixelMembers:
    """Networks, or draws of one, that are called with a window of an image."""

    names: list[str]
    call: Call
    readers: list[OutputReader]  # one for each network, or one for all draws

    def probabilities(self, image: Any, place: _Tile) -> np.ndarray:
        """Return the probabilities ``(n, M, K)`` of the pixels of a tile."""
        first = self.probabilities_of(0, image, place)
        probs = np.empty((len(first), len(self.names), first.shape[1]), first.dtype)
        probs[:, 0] = first
        for m in range(1, len(self.names)):
            of_member = self.probabilities_of(m, image, place)
            if of_member.shape != first.shape:
                raise InvalidInput(
                    f"{self.names[m]} returns {of_member.shape[1]} classes, {self.names[0]} "
                    f"{first.shape[1]}; all members must return the same classes"
                )
            probs[:, m] = of_member
        return probs

    def probabilities_of(self, m: int, image: Any, place: _Tile) -> np.ndarray:
        """Return the probabilities ``(n, K)`` of a member for the pixels of a tile."""
        window = image[:, _index(place.window.rows), _index(place.window.columns)]
        if not isinstance(window, Tensor):
            window = torch.from_numpy(np.array(window))
        values = self.call(m, window, place.window)[(slice(None), *place.within)]
        by_pixel = values.flatten(1).T.contiguous()
        samples = self.readers[m % len(self.readers)].samples(by_pixel, locate=place.locate)
        return samples[:, 0].cpu().numpy()

    def finish(self) -> None:
        """Raise if outputs that were read as logits could be probabilities."""
        for reader in self.readers:
            reader.finish()


@contextmanager
def _running(model: Any, options: SamplingOptions) -> Iterator[_PixelMembers]:
    """Yield the members of a model, on their device and in evaluation mode."""
    if isinstance(model, nn.Module):
        with _running_draws(model, options) as members:
            yield members
        return
    if isinstance(model, DeepEnsemble):
        options = replace(options, output=options.output or "logits")  # as in training
        model = model.fitted_members()
    modules = list(model) if isinstance(model, list | tuple) else []
    if not modules or not all(isinstance(module, nn.Module) for module in modules):
        raise InvalidInput(
            "segment takes a torch module with dropout, a list of torch modules or a "
            "scorewise.DeepEnsemble; for saved predictions of members (M, K, H, W) pass "
            "member_axis=0, class_axis=1 to scorewise.decompose"
        )
    chosen = options.choose_members(len(modules))
    names = [f"member {i} ({type(modules[i]).__name__})" for i in chosen]
    modules = [modules[i] for i in chosen]
    with evaluation_mode(modules, options.device) as device:
        yield _PixelMembers(
            names,
            lambda m, window, _: call_on_image(modules[m], window, device, names[m]),
            [OutputReader([name], options.output, may_have_labels=False) for name in names],
        )


@contextmanager
def _running_draws(module: nn.Module, options: SamplingOptions) -> Iterator[_PixelMembers]:
    """Yield draws of a module with dropout."""
    name, n_draws = type(module).__name__, options.n_draws
    layers = dropout_layers(module)
    choice = choose_layers(options.dropout, layers)
    masks = DropoutMasks(layers, n_draws, options.seed)
    plan: DropoutPlan | None = None

    with ExitStack() as stack:
        device = stack.enter_context(evaluation_mode([module], options.device))
        stack.enter_context(masks.attached())
        stack.enter_context(layer_by_layer())

        def call(m: int, window: Tensor, pixels: Window) -> Tensor:
            nonlocal plan
            if plan is None:
                with masks.observing() as calls:
                    call_on_image(module, window, device, name)
                plan = plan_of_one_row(calls, layers, choice)
            with masks.drawing(plan, [m], 1, pixels):
                return call_on_image(module, window, device, name)

        names = [f"{name}, draw {m}" for m in range(n_draws)]
        reader = OutputReader([name], options.output, may_have_labels=False)
        yield _PixelMembers(names, call, [reader])


# -- maps -----------------------------------------------------------------------------------------


class _Maps:
    """The maps of an image, which are filled tile by tile."""

    def __init__(
        self, shape: tuple[int, int], rules: Mapping[str, ScoringRule], y: Any, ignore_label: Any
    ) -> None:
        self._rules = rules
        self._shape = shape
        self._prediction = np.empty(shape, dtype=np.int64)
        self._uncertainty: dict[str, Decomposition] = {}
        self._losses: dict[str, np.ndarray] = {}
        self._y: np.ndarray | None = None
        if y is not None:
            self._y, self._counts = without_ignored(y, ignore_label)
            if self._y.shape != shape:
                raise InvalidInput(f"y has shape {self._y.shape} for an image of {shape} pixels")

    def add(self, place: _Tile, probs: np.ndarray) -> None:
        """Fill a tile from the members' probabilities ``(n, M, K)`` of its pixels."""
        if not self._uncertainty:
            self._begin(probs.dtype, probs.shape[-1])
        index = place.place
        shape = self._prediction[index].shape
        mean = mean_in_float64(Samples(probs, check=False))
        self._prediction[index] = mean.argmax(axis=-1).reshape(shape)
        for name, decomposition in decompose(probs, self._rules, check=False).items():
            parts = zip(self._uncertainty[name], decomposition, strict=True)
            for whole, of_tile in parts:
                whole[index] = to_numpy(of_tile).reshape(shape)
        if self._y is not None:
            labels = self._y[index].ravel()
            for name, rule in self._rules.items():
                losses = losses_of_mean(mean, labels, rule).reshape(shape)
                self._losses[name][index] = np.where(self._counts[index], losses, np.nan)

    def _begin(self, dtype: Any, n_classes: int) -> None:
        """Make the maps, and check the rules and the labels for this number of classes."""
        for name, rule in self._rules.items():
            rule.check_classes(n_classes)
            total, aleatoric, epistemic = (np.empty(self._shape, dtype) for _ in COMPONENTS)
            self._uncertainty[name] = Decomposition(total, aleatoric, epistemic)
        if self._y is not None:
            width = self._shape[1]
            labels = checked_labels(
                self._y.ravel(),
                (self._y.size, n_classes),
                None,
                lambda i: f"y[{i // width}, {i % width}]",
                all_labelled=True,
            )
            if (labels < 0).any():
                i = int(np.argmax(labels < 0))
                raise InvalidInput(
                    f"y[{i // width}, {i % width}] is {labels[i]}, which is no class",
                    Remedy("ignore_label", int(labels[i]), "to leave such pixels out"),
                )
            self._y = labels.reshape(self._shape)
            self._losses = {name: np.empty(self._shape) for name in self._rules}

    def segmentation(self, is_single: bool) -> Segmentation:
        """Return the maps, those of a single rule without its name."""
        losses = self._losses or None
        if is_single:
            [uncertainty] = self._uncertainty.values()
            return Segmentation(
                self._prediction, uncertainty, losses and next(iter(losses.values()))
            )
        return Segmentation(self._prediction, Decompositions(self._uncertainty), losses)
