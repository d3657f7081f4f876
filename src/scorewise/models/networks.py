"""Torch modules: how they are asked, what they answer, and that they are left as they were."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scorewise.errors import InvalidInput
from scorewise.models.rows import Batch, batches, length, move, take
from scorewise.validate import SUM_TOLERANCE

OUTPUTS = ("logits", "probs")
_MOST_ROWS = 4096  # at a time; more gain nothing
_ON_HOST = 1 << 27  # bytes of the largest layer's input and output; more only waits for memory
_CHUNK = 1 << 26  # bytes of a chunk of samples
FEW = 3  # rows for a trial


def check_output(output: str, known: Sequence[str] = OUTPUTS) -> None:
    """Refuse a word that nobody knows."""
    if output not in known:
        words = ", ".join(repr(word) for word in known)
        raise InvalidInput(f"output={output!r} must be one of {words}")


# -- asking ---------------------------------------------------------------------------------------


@contextmanager
def at_rest(modules: Sequence[nn.Module], device: Any) -> Iterator[torch.device]:
    """Modules in evaluation mode on a device; afterwards, whatever happens, all is as before.

    Modes, devices and the global random states are restored. Without a device they run on CUDA
    where there is one, or stay where they are if they are on an accelerator already.
    """
    with ExitStack() as restored:
        for module in modules:
            restored.callback(_set_modes, {part: part.training for part in module.modules()})
            module.eval()
        homes = [_home(module) for module in modules]
        target = choose_device(device, homes)
        for module, home in zip(modules, homes, strict=True):
            if home is not None and home != target and home.type != "meta":
                restored.callback(module.to, home)
                module.to(target)
        restored.enter_context(preserved_randomness(target))
        yield target


def preserved_randomness(device: torch.device) -> AbstractContextManager[None]:
    """Within it torch may be seeded and draw; afterwards its global states are as before."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


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
            torch.empty(0, device=chosen)
        except (RuntimeError, TypeError, AssertionError) as error:
            raise InvalidInput(f"device={device!r} cannot be used: {error}") from error
        return (
            torch.device("cuda", torch.cuda.current_device())
            if chosen == torch.device("cuda")
            else chosen
        )
    for home in homes:
        if home is not None and home.type != "cpu":
            return home
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def ask(module: nn.Module, batch: Batch, device: torch.device, who: str) -> Tensor:
    """The numbers ``(n, K)`` that a module returns for a batch of n rows.

    Objects with ``.logits``, mappings with ``"logits"`` and tuples that begin with them are
    understood; one number per row is that of class 1 of two, ``(n, 1)``.
    """
    own = next((tensor for tensor in _tensors(module) if tensor.is_floating_point()), None)
    home, dtype = (device, None) if own is None else (own.device, own.dtype)
    batch = move(batch, home, dtype)
    try:
        by_name = isinstance(batch, Mapping) and _takes_names(module, batch)
        returned = module(**batch) if by_name else module(batch)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if isinstance(error, InvalidInput | torch.OutOfMemoryError):
            raise
        raise InvalidInput(f"{who} refuses X: {error}") from error
    values = logits_in(returned)
    if not isinstance(values, Tensor) or not values.is_floating_point():
        kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise InvalidInput(f"{who} returns {kind}; it must return a tensor of real numbers")
    return values[:, None] if values.ndim == 1 else values


def check_shape(values: Tensor, n_rows: int, who: str) -> None:
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


# -- answers --------------------------------------------------------------------------------------


def as_probs(values: Tensor, output: str, who: Callable[[int], str]) -> Tensor:
    """Probabilities ``(n, K)`` of what modules returned; ``who`` names the one behind a row."""
    values = values.float() if values.dtype in {torch.float16, torch.bfloat16} else values
    if output == "probs":
        probs = torch.cat([1 - values, values], dim=-1) if values.shape[-1] == 1 else values
        _check_sums(probs, who)
        return probs
    values = at_least_two(values)
    top = values.amax(dim=-1)
    wrong = ~(top.isfinite())  # a masked class of -inf is fine, unless all are
    if bool(wrong.any()):
        i = int(wrong.int().argmax())
        raise InvalidInput(
            f"{who(i)} returns logits of {float(top[i])}; mend or drop what makes them"
        )
    if len(values) > 1 and bool((values.amin() >= 0) & ((values.sum(-1) - 1).abs().amax() < 1e-5)):
        raise InvalidInput(
            f"{who(0)} returns what look like probabilities, not logits; pass output='probs'"
        )
    return values.softmax(dim=-1)


def at_least_two(logits: Tensor) -> Tensor:
    """Logits of all classes; a single one is that of class 1 against class 0."""
    if logits.shape[-1] > 1:
        return logits
    return torch.cat([torch.zeros_like(logits), logits], dim=-1)


def _check_sums(probs: Tensor, who: Callable[[int], str]) -> None:
    name = str(probs.dtype).removeprefix("torch.")
    wrong = ~(((probs.sum(-1) - 1).abs() <= SUM_TOLERANCE[name]) & (probs.amin(-1) >= 0))
    if bool(wrong.any()):
        i = int(wrong.int().argmax())
        row = probs[i].cpu().numpy()
        raise InvalidInput(
            f"{who(i)} returns {np.array2string(row, precision=4, threshold=8)}, which are no "
            "probabilities; pass output='logits' if these are logits"
        )


# -- some rows at a time --------------------------------------------------------------------------

Draw = Callable[[Batch, int], Tensor]  # from rows and the index of the first to (n, M, K)


def stream(
    X: Any, draw: Draw, size: Callable[[Batch], int], batch_size: int | None
) -> Generator[np.ndarray]:
    """Samples ``(n, M, K)`` for further rows, fewer at a time where memory does not suffice."""
    most, first = batch_size, 0
    for batch in batches(X):
        n, start = length(batch), 0
        most = most or size(batch)
        while start < n or n == 0:
            try:
                with torch.inference_mode():
                    drawn = draw(take(batch, slice(start, start + most)), first)
            except torch.OutOfMemoryError:
                if most == 1:
                    raise
                most //= 2
                torch.cuda.empty_cache()
                continue
            yield drawn.cpu().numpy()
            start, first = start + len(drawn), first + len(drawn)
            if n == 0:
                break


def rows_that_fit(trial: Callable[[], Tensor], module: nn.Module, device: torch.device) -> int:
    """How many rows to take at a time, from a ``trial`` with :data:`FEW` of them."""
    largest = 0

    def look(part: nn.Module, given: Any, returned: Any) -> None:
        nonlocal largest
        largest = max(largest, _bytes(given) + _bytes(returned))

    with torch.inference_mode(), ExitStack() as hooks:
        for part in module.modules():
            hooks.callback(part.register_forward_hook(look).remove)
        samples = trial()
    budget = torch.cuda.mem_get_info(device)[0] // 8 if device.type == "cuda" else _ON_HOST
    at_most = (budget // max(1, largest), _CHUNK // max(1, _bytes(samples)))
    return max(1, min(_MOST_ROWS, *(FEW * times for times in at_most)))


def few_rows(batch: Batch, n: int = FEW) -> Batch:
    """The first rows of a batch, again from the start where it has not so many."""
    return take(batch, torch.arange(n) % length(batch))


def _bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, Mapping):
        value = tuple(value.values())
    return sum(map(_bytes, value)) if isinstance(value, tuple | list) else 0
