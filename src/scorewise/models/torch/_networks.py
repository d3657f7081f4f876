"""Torch modules: how they are asked, what they answer, and that they are left as they were."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from scorewise.errors import InvalidInput
from scorewise.models.torch._rows import Batch, describe, move

_REFUSALS = (
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    AssertionError,
)

_lock = threading.RLock()


def _forget_lock() -> None:
    """A forked child has none of its parent's threads, and must not wait for them."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)


@contextmanager
def borrowed(modules: Sequence[nn.Module], device: Any) -> Iterator[torch.device]:
    """Modules in evaluation mode on a device; afterwards, whatever happens, all is as before.

    Modes, devices and the global random states are restored. Without a device they run on CUDA
    where there is one, or stay where they are if they are on an accelerator already. One thread at
    a time, as hooks and random states are everybody's.
    """
    with _lock, ExitStack() as restored:
        for module in modules:
            if any(is_lazy(parameter) for parameter in module.parameters()):
                raise InvalidInput(f"{type(module).__name__} is not initialised; train it first")
            modes = {part: part.training for part in module.modules()}
            restored.callback(_set_modes, modes)
            # Not module.eval(), of which some make more than a flag, and nobody takes that back.
            _set_modes(dict.fromkeys(modes, False))
        homes = [_home(module) for module in modules]
        target = choose_device(device, homes)
        for module, home in zip(modules, homes, strict=True):
            if home is not None and home != target:
                restored.callback(module.to, home)
                module.to(target)
        restored.enter_context(preserved_randomness(target))
        yield target


@contextmanager
def preserved_randomness(device: torch.device, seed: int | None = None) -> Iterator[None]:
    """Within it torch may draw, from a seed if given; afterwards its global states are as before.

    Those of the CPU and the device; torch.manual_seed would reach for all others, too.
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


def _home(module: nn.Module) -> torch.device | None:
    """Where all of a module is; None where it has nothing, or is spread over several devices."""
    homes = {tensor.device for tensor in _tensors(module)}
    return homes.pop() if len(homes) == 1 else None


def choose_device(device: Any, homes: Sequence[torch.device | None] = ()) -> torch.device:
    """The one that was asked for, or where modules are already, or the fastest."""
    if device is not None:
        try:
            chosen = torch.device(device)
            if chosen.type == "meta":
                raise RuntimeError("it has no values")
            torch.empty(0, device=chosen)
        except (RuntimeError, TypeError, AssertionError) as error:
            raise InvalidInput(f"device={device!r} cannot be used: {error}") from error
    else:
        elsewhere = [home for home in homes if home is not None and home.type != "cpu"]
        fastest = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        chosen = elsewhere[0] if elsewhere else fastest
    if chosen.type == "cuda" and chosen.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return chosen


def ask(module: nn.Module, batch: Batch, device: torch.device, who: str) -> Tensor:
    """The numbers ``(n, K)`` that a module returns for a batch of n rows.

    Objects with ``.logits``, mappings with ``"logits"`` and tuples that begin with them are
    understood; one number per row is that of class 1 of two, ``(n, 1)``.
    """
    own = [tensor for tensor in _tensors(module) if tensor.is_floating_point()]
    home = own[0].device if own else device
    batch = move(batch, home, [tensor.dtype for tensor in own])
    with refusals_named(who, batch):
        by_name = isinstance(batch, Mapping) and _takes_names(module, batch)
        returned = module(**batch) if by_name else module(batch)
    values = logits_in(returned)
    if not isinstance(values, Tensor) or not values.is_floating_point():
        kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise InvalidInput(f"{who} returns {kind}; it must return a tensor of real numbers")
    return values[:, None] if values.ndim == 1 else values


@contextmanager
def refusals_named(who: str, batch: Batch) -> Iterator[None]:
    """What a module says of its input, with the module's name and what the input was."""
    try:
        yield
    except (InvalidInput, torch.OutOfMemoryError):
        raise
    except _REFUSALS as error:
        hint = ""
        if isinstance(batch, Tensor) and not batch.is_floating_point():
            hint = "; if it takes real numbers, convert X to float32"
        raise InvalidInput(f"{who} refuses X ({describe(batch)}): {error}{hint}") from error


def check_rows(values: Tensor, n_rows: int, who: str) -> None:
    """Refuse what is not one number or several for each row."""
    if values.ndim != 2 or len(values) != n_rows or not values.shape[1]:
        raise InvalidInput(
            f"{who} returns shape {tuple(values.shape)} for {n_rows} rows; it must be (rows, "
            "classes)"
        )


def _takes_names(module: nn.Module, batch: Mapping[str, Any]) -> bool:
    """Whether the entries of a mapping are arguments of the module, as with Hugging Face."""
    parameters = inspect.signature(module.forward).parameters
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return any_name or set(batch) <= set(parameters)


def logits_in(returned: Any) -> Any:
    """The tensor in what a module returned."""
    if hasattr(returned, "logits"):
        return returned.logits
    if isinstance(returned, Mapping):
        return returned.get("logits", returned)
    return returned[0] if isinstance(returned, tuple | list) and returned else returned
