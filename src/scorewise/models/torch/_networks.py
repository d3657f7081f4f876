"""Calling torch modules: on a device, in evaluation mode, with outputs read as probabilities."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from scorewise import _validate as validate
from scorewise._validate import SUM_TOLERANCE
from scorewise.errors import InvalidInput, Remedy
from scorewise.models.torch._row_batches import Batch, describe_batch, move

_MODULE_ERRORS = (
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    AssertionError,
)

OUTPUTS = ("logits", "probs", "label-logits", "label-probs")

_ENOUGH_ROWS = 32  # if so many rows could be probabilities, they are

_PIXELS = (
    "a prediction for every pixel or token, as of a segmentation network, is not supported here: "
    "scorewise.segment takes such a network and an image, and scorewise.decompose takes members "
    "(N, M, K, H, W) with member_axis=1, class_axis=2"
)

_lock = threading.RLock()


def _reset_lock() -> None:
    """Make a new lock in a forked child, where the parent's threads do not exist."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock)


@contextmanager
def evaluation_mode(modules: Sequence[nn.Module], device: Any) -> Iterator[torch.device]:
    """Put modules in evaluation mode on a device, and restore everything afterwards.

    Modes, devices and the global random states are restored, also after an error. Without a device
    they run on CUDA if it is available, or stay where they are if that is an accelerator. Only one
    thread at a time, as hooks and random states are shared by all threads.
    """
    with _lock, ExitStack() as restored:
        for module in modules:
            if any(is_lazy(parameter) for parameter in module.parameters()):
                raise InvalidInput(f"{type(module).__name__} is not initialised; train it first")
            modes = {part: part.training for part in module.modules()}
            restored.callback(_set_modes, modes)
            # Not module.eval(): some modules override it with changes that cannot be undone.
            _set_modes(dict.fromkeys(modes, False))
        devices = [_device_of(module) for module in modules]
        target = choose_device(device, devices)
        for module, before in zip(modules, devices, strict=True):
            if before is not None and before != target:
                restored.callback(module.to, before)
                module.to(target)
        restored.enter_context(preserved_randomness(target))
        yield target


@contextmanager
def preserved_randomness(device: torch.device, seed: int | None = None) -> Iterator[None]:
    """Restore the random states of the CPU and the device afterwards; seed them first if set.

    torch.manual_seed would change all devices.
    """
    on_cuda = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_cuda else []):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        if seed is not None and on_cuda:
            torch.cuda.default_generators[device.index or 0].manual_seed(seed)
        yield


def _set_modes(modes: Mapping[nn.Module, bool]) -> None:
    for part, training in modes.items():
        part.training = training


def _tensors(module: nn.Module) -> Iterable[Tensor]:
    return chain(module.parameters(), module.buffers())


def _device_of(module: nn.Module) -> torch.device | None:
    """The device of a module; None if it has no tensors or is on several devices."""
    devices = {tensor.device for tensor in _tensors(module)}
    return devices.pop() if len(devices) == 1 else None


def choose_device(device: Any, devices: Sequence[torch.device | None] = ()) -> torch.device:
    """Return the device that was passed, or the modules' accelerator, or the fastest."""
    if device is not None:
        try:
            chosen = torch.device(device)
            if chosen.type == "meta":
                raise RuntimeError("it has no values")
            torch.empty(0, device=chosen)
        except (RuntimeError, TypeError, AssertionError) as error:
            raise InvalidInput(
                f"device={device!r} cannot be used: {error}", Remedy("device", "cpu")
            ) from error
    else:
        accelerators = [x for x in devices if x is not None and x.type != "cpu"]
        fastest = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        chosen = accelerators[0] if accelerators else fastest
    if chosen.type == "cuda" and chosen.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return chosen


def call_module(module: nn.Module, batch: Batch, device: torch.device, name: str) -> Tensor:
    """Return the output ``(n, K)`` of a module for a batch of n rows.

    They are read from tensors, ``.logits`` of objects, ``"logits"`` of mappings, or the first
    entry of tuples. A single value per row, that of class 1 of two, becomes ``(n, 1)``.
    """
    values = _output(module, batch, device, name)
    if isinstance(values, Mapping) and "out" in values:
        raise InvalidInput(f"{name} returns a mapping with 'out'; {_PIXELS}")
    _check_floats(values, name)
    return values[:, None] if values.ndim == 1 else values


def call_on_image(module: nn.Module, image: Tensor, device: torch.device, name: str) -> Tensor:
    """Return the output ``(K, H, W)`` of a segmentation network for an image ``(C, H, W)``.

    It is read as that of other modules, or from ``"out"`` of mappings (torchvision).
    """
    values = _output(module, image[None], device, name)
    if isinstance(values, Mapping) and "out" in values:
        values = values["out"]
    _check_floats(values, name)
    if values.ndim != 4 or len(values) != 1 or values.shape[2:] != image.shape[1:]:
        raise InvalidInput(
            f"{name} returns shape {tuple(values.shape)} for {(1, *image.shape)}; it must be (1, "
            "classes, height, width) of the same size. Put a network of another size into a module "
            "that resizes its output with torch.nn.functional.interpolate"
        )
    return values[0]


def _output(module: nn.Module, batch: Batch, device: torch.device, name: str) -> Any:
    """Return the logits in the output of a module, unchecked."""
    tensors = [tensor for tensor in _tensors(module) if tensor.is_floating_point()]
    device = tensors[0].device if tensors else device
    batch = move(batch, device, [tensor.dtype for tensor in tensors])
    with errors_named(name, batch):
        by_name = isinstance(batch, Mapping) and _takes_names(module, batch)
        return logits_in(module(**batch) if by_name else module(batch))


def _check_floats(values: Any, name: str) -> None:
    if not isinstance(values, Tensor) or not values.is_floating_point():
        kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise InvalidInput(f"{name} returns {kind}; it must return a tensor of floats")


@contextmanager
def errors_named(name: str, batch: Batch) -> Iterator[None]:
    """Add the module's name and the shape of its input to its errors."""
    try:
        yield
    except (InvalidInput, torch.OutOfMemoryError):
        raise
    except _MODULE_ERRORS as error:
        hint = ""
        if isinstance(batch, Tensor) and not batch.is_floating_point():
            hint = "; if it takes floats, convert X to float32"
        raise InvalidInput(f"{name} fails on X ({describe_batch(batch)}): {error}{hint}") from error


def check_rows(values: Tensor, n_rows: int, name: str) -> None:
    """Raise unless there are values ``(n, K)`` for n rows."""
    if values.ndim != 2 or len(values) != n_rows or not values.shape[1]:
        shape = f"{name} returns shape {tuple(values.shape)} for {n_rows} rows"
        if values.ndim > 2 and len(values) == n_rows:
            raise InvalidInput(f"{shape}; {_PIXELS}")
        raise InvalidInput(f"{shape}; it must be (rows, classes)")


def _takes_names(module: nn.Module, batch: Mapping[str, Any]) -> bool:
    """Return whether the module takes a mapping as keyword arguments, as Hugging Face's do."""
    parameters = inspect.signature(module.forward).parameters
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return any_name or set(batch) <= set(parameters)


def logits_in(output: Any) -> Any:
    """Return the tensor of logits in the output of a module."""
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, Mapping):
        return output.get("logits", output)
    return output[0] if isinstance(output, tuple | list) and output else output


# -- outputs as probabilities ---------------------------------------------------------------------


class OutputReader:
    """Converts the outputs of members to probabilities.

    Parameters
    ----------
    names : sequence of str
        Of the members, for messages.
    output : "logits", "probs", "label-logits", "label-probs" or None
        What members return: of classes, or of labels, each a problem of two classes. None means
        logits of classes, but outputs that could all be probabilities raise, because a softmax
        would flatten them silently.
    of_one_model : bool
        Whether the members are draws of one model, all of which return the same kind of output.
    may_have_labels : bool
        Whether outputs may be those of labels. Pixels have none, and many of them may be equal.
    """

    def __init__(
        self,
        names: Sequence[str],
        output: str | None,
        *,
        of_one_model: bool = False,
        may_have_labels: bool = True,
    ) -> None:
        if output is not None:
            validate.choice(output, "output", OUTPUTS)
        self._names = names
        self._output = output
        self._has_labels = output in {"label-logits", "label-probs"}
        self._of_one_model = of_one_model
        self._maybe_probabilities = set(names) if output is None else set()
        self._maybe_label_probabilities = (
            set(self._maybe_probabilities) if may_have_labels else set()
        )
        self._n_rows = 0

    def samples(
        self, values: Tensor, first_row: int = 0, locate: Callable[[int], str] = "row {}".format
    ) -> Tensor:
        """Return samples ``(n, M, K)`` from outputs ``(M · n, K)``, one member after the other.

        Of L labels they are ``(n, L, M, 2)``, from outputs ``(M · n, L)``. ``locate`` names a row
        in messages.
        """
        shape: tuple[int, ...] = (len(self._names), len(values) // len(self._names))
        if self._has_labels:
            shape = (*shape, values.shape[1])
            values = values.reshape(-1, 1)  # the logit or the probability of class 1

        def position(i: int) -> str:
            member, row, *label = map(int, np.unravel_index(i, shape))
            place = f"{self._names[member]}, {locate(first_row + row)}"
            return "".join([place, *(f", label {j}" for j in label)])

        if self._output in {"probs", "label-probs"}:
            probs = _as_probabilities(values, position)
        else:
            tolerance = _tolerance(values)
            probs = self._softmax(widened(values), tolerance, position)
        return probs.unflatten(0, shape).movedim(0, -2)

    def finish(self) -> None:
        """Raise if all logits of some member could be probabilities, of classes or of labels."""
        if self._maybe_probabilities and self._n_rows:
            raise InvalidInput(
                f"all values that {self._first(self._maybe_probabilities)} returns could be "
                "probabilities",
                Remedy("output", "probs", "if they are"),
                Remedy("output", "logits", "if they are logits"),
            )
        if self._maybe_label_probabilities and self._n_rows >= _ENOUGH_ROWS:
            raise InvalidInput(
                f"all values that {self._first(self._maybe_label_probabilities)} returns are "
                "between 0 and 1, as the probabilities of several labels are",
                Remedy("output", "label-probs", "if they are"),
                Remedy("output", "logits", "if they are logits of classes"),
            )

    def _first(self, names: set[str]) -> str:
        """Return the first member that is among these names."""
        return next(name for name in self._names if name in names)

    def _softmax(self, values: Tensor, tolerance: float, position: Callable[[int], str]) -> Tensor:
        logits = with_two_logits(values)
        top = logits.amax(dim=-1)
        wrong = ~top.isfinite()  # a class may be masked by -inf, but not all classes
        if bool(wrong.any()):
            i = int(wrong.int().argmax())
            raise InvalidInput(
                f"{position(i)}: a logit is {float(top[i])}; correct the model or drop the row"
            )
        if (self._maybe_probabilities or self._maybe_label_probabilities) and len(values):
            self._update_maybe_probabilities(values.unflatten(0, (len(self._names), -1)), tolerance)
        return logits.softmax(dim=-1)

    def _update_maybe_probabilities(self, values: Tensor, tolerance: float) -> None:
        """Drop members whose outputs ``(M, n, K)`` cannot be probabilities of classes or labels."""
        has_columns = values.shape[-1] > 1
        of_labels = (values.amin(dim=(1, 2)) >= 0) & (values.amax(dim=(1, 2)) <= 1)
        of_classes = of_labels
        if has_columns:
            of_classes = of_labels & ((values.sum(dim=-1) - 1).abs().amax(dim=1) <= tolerance)
        self._drop_others(self._maybe_probabilities, of_classes)
        self._drop_others(self._maybe_label_probabilities, of_labels)
        self._n_rows += values.shape[1]
        if has_columns and self._n_rows >= _ENOUGH_ROWS:
            self.finish()

    def _drop_others(self, names: set[str], may_be: Tensor) -> None:
        """Drop the members that may not be; of one model all, if one may not be."""
        others = [name for name, may in zip(self._names, may_be.tolist(), strict=True) if not may]
        if others and self._of_one_model:
            others = list(self._names)
        names.difference_update(others)


def with_two_logits(logits: Tensor) -> Tensor:
    """Return logits of at least two classes; a single logit is that of class 1."""
    if logits.shape[-1] > 1:
        return logits
    return torch.cat([torch.zeros_like(logits), logits], dim=-1)


def _as_probabilities(values: Tensor, position: Callable[[int], str]) -> Tensor:
    """Return outputs that are probabilities; a single one is that of class 1."""
    tolerance, values = _tolerance(values), widened(values)
    probs = torch.cat([1 - values, values], dim=-1) if values.shape[-1] == 1 else values
    wrong = ~(((probs.sum(-1) - 1).abs() <= tolerance) & (probs.amin(-1) >= 0))
    if bool(wrong.any()):
        i = int(wrong.int().argmax())
        row = np.array2string(values[i].cpu().numpy(), precision=4, threshold=8)
        raise InvalidInput(
            f"{position(i)}: {row} are not probabilities",
            Remedy("output", "logits", "if these are logits"),
            Remedy("output", "label-probs", "if each is the probability of a label"),
        )
    return probs


def _tolerance(probs: Tensor) -> float:
    """The largest deviation of a sum from 1 in this precision."""
    return SUM_TOLERANCE[str(probs.dtype).removeprefix("torch.")]


def widened(values: Tensor) -> Tensor:
    """Return half precision values in float32, others unchanged."""
    return values.float() if values.dtype in {torch.float16, torch.bfloat16} else values
