"""Torch modules: how they are asked, what they answer, and that they are left as they were."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from scorewise.errors import InvalidInput
from scorewise.models.rows import Batch, batches, describe, length, move, take
from scorewise.validate import SUM_TOLERANCE

_MOST_ROWS = 4096  # at a time; more gain nothing
_ON_HOST = 1 << 27  # bytes of the largest layer's input and output; more only waits for memory
_CHUNK = 1 << 26  # bytes of a chunk of samples
_FEW = 3  # rows for a trial
_ENOUGH = 32  # rows that sum to 1, and they are probabilities
_ROUNDING = 1e-3  # of the largest answer, in batches of other sizes

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


# -- asking ---------------------------------------------------------------------------------------


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
    batch = move(batch, own[0].device if own else device, {tensor.dtype: None for tensor in own})
    try:
        by_name = isinstance(batch, Mapping) and _takes_names(module, batch)
        returned = module(**batch) if by_name else module(batch)
    except Exception as error:
        refuse(error, who, batch)
        raise
    values = logits_in(returned)
    if not isinstance(values, Tensor) or not values.is_floating_point():
        kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise InvalidInput(f"{who} returns {kind}; it must return a tensor of real numbers")
    return values[:, None] if values.ndim == 1 else values


def refuse(error: Exception, who: str, batch: Batch) -> None:
    """Raise what a module says of its input as such, with the input; leave other errors alone."""
    if not isinstance(error, _REFUSALS) or isinstance(error, InvalidInput | torch.OutOfMemoryError):
        return
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


# -- answers --------------------------------------------------------------------------------------


class Answers:
    """What members return, as probabilities.

    Parameters
    ----------
    names : sequence of str
        Of the members, for messages.
    output : "logits", "probs" or None
        What they return. None stands for logits, unless all of them look like probabilities,
        which a softmax would flatten in silence.
    of_one_model : bool
        Whether the members are draws of one model, which returns the same kind of thing in all.
    """

    def __init__(
        self, names: Sequence[str], output: str | None, *, of_one_model: bool = False
    ) -> None:
        if output not in {None, "logits", "probs"}:
            raise InvalidInput(f"output={output!r} must be 'logits' or 'probs'")
        self._names = names
        self._output = output
        self._of_one_model = of_one_model
        self._suspects = set(names) if output is None else set()
        self._n_rows = 0

    def samples(self, values: Tensor, first_row: int) -> Tensor:
        """Samples ``(n, M, K)`` of what members returned, ``(M · n, K)`` one after the other."""
        n = len(values) // len(self._names)

        def who(i: int) -> str:
            return f"{self._names[i // n]}, row {first_row + i % n}"

        if self._output == "probs":
            probs = _given(values, who)
        else:
            tolerance = _tolerance(values)
            probs = self._softmax(_widened(values), tolerance, who)
        return probs.unflatten(0, (len(self._names), n)).transpose(0, 1)

    def finish(self) -> None:
        """Refuse logits of a member all of which could be probabilities."""
        if self._suspects and self._n_rows:
            first = next(name for name in self._names if name in self._suspects)
            raise InvalidInput(
                f"all that {first} returns could be probabilities; say which: output='probs' or "
                "output='logits'"
            )

    def _softmax(self, values: Tensor, tolerance: float, who: Callable[[int], str]) -> Tensor:
        logits = at_least_two(values)
        top = logits.amax(dim=-1)
        wrong = ~top.isfinite()  # a masked class of -inf is fine, unless all are
        if bool(wrong.any()):
            i = int(wrong.int().argmax())
            raise InvalidInput(
                f"{who(i)}: a logit is {float(top[i])}; mend the model or drop the row"
            )
        if self._suspects and len(values):
            self._suspect(values.unflatten(0, (len(self._names), -1)), tolerance)
        return logits.softmax(dim=-1)

    def _suspect(self, values: Tensor, tolerance: float) -> None:
        """Look whether what members returned, ``(M, n, K)``, could be probabilities."""
        several = values.shape[-1] > 1
        could = (values.amin(dim=(1, 2)) >= 0) & (values.amax(dim=(1, 2)) <= 1)
        if several:
            could &= (values.sum(dim=-1) - 1).abs().amax(dim=1) <= tolerance
        free = [name for name, may in zip(self._names, could.tolist(), strict=True) if not may]
        self._suspects.difference_update(self._names if free and self._of_one_model else free)
        self._n_rows += values.shape[1]
        if several and self._n_rows >= _ENOUGH:
            self.finish()


def at_least_two(logits: Tensor) -> Tensor:
    """Logits of all classes; a single one is that of class 1 against class 0."""
    if logits.shape[-1] > 1:
        return logits
    return torch.cat([torch.zeros_like(logits), logits], dim=-1)


def _given(values: Tensor, who: Callable[[int], str]) -> Tensor:
    """Probabilities that were returned as such; a single one is that of class 1."""
    tolerance, values = _tolerance(values), _widened(values)
    probs = torch.cat([1 - values, values], dim=-1) if values.shape[-1] == 1 else values
    wrong = ~(((probs.sum(-1) - 1).abs() <= tolerance) & (probs.amin(-1) >= 0))
    if bool(wrong.any()):
        i = int(wrong.int().argmax())
        row = np.array2string(values[i].cpu().numpy(), precision=4, threshold=8)
        raise InvalidInput(
            f"{who(i)}: {row} are no probabilities; pass output='logits' if these are logits"
        )
    return probs


def _tolerance(probs: Tensor) -> float:
    """How far the sum of probabilities may be from 1, in their precision."""
    return SUM_TOLERANCE[str(probs.dtype).removeprefix("torch.")]


def _widened(values: Tensor) -> Tensor:
    """Half precision is computed in float32."""
    return values.float() if values.dtype in {torch.float16, torch.bfloat16} else values


# -- some rows at a time --------------------------------------------------------------------------

Draw = Callable[[Batch, int], Tensor]  # from rows and the index of the first to (n, M, K)


def stream(
    X: Any, draw: Draw, module: nn.Module, device: torch.device, batch_size: int | None
) -> Generator[np.ndarray]:
    """Samples ``(n, M, K)`` for further rows, as many at a time as fit through the module.

    Where memory does not suffice nevertheless, half as many are tried.
    """
    most, first = 0, 0
    for batch in batches(X):
        n, start = length(batch), 0
        if n and not most:
            _check_steady(draw, batch, type(module).__name__)
            most = batch_size or _rows_that_fit(draw, batch, module, device)
        if n == 0:
            with torch.inference_mode():
                yield draw(batch, first).cpu().numpy()
        while start < n:
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


def _check_steady(draw: Draw, batch: Batch, name: str) -> None:
    """Refuse a module whose answers about a row depend on chance, or on the rows beside it.

    Without inference mode, as modules may keep what they make in their first pass.
    """
    with torch.no_grad():
        three, again, two = (draw(few_rows(batch, n), 0) for n in (3, 3, 2))
    size, spread = three.abs().amax(), (three.amax(dim=0) - three.amin(dim=0)).amax()
    rounding = max(_ROUNDING * float(size), 0.05 * float(spread))
    if float((three - again).abs().amax()) > rounding:
        raise InvalidInput(
            f"{name} answers the same rows differently, though it is in evaluation mode; use "
            "torch.nn.Dropout for torch.nn.functional.dropout, so that random_state rules it"
        )
    if float((three[:2] - two).abs().amax()) > rounding:
        raise InvalidInput(
            f"what {name} answers about a row depends on the other rows of its batch, as batch "
            "norm without running statistics does"
        )


def _rows_that_fit(draw: Draw, batch: Batch, module: nn.Module, device: torch.device) -> int:
    """How many rows to take at a time, from a trial with few of them."""
    largest = 0

    def look(part: nn.Module, given: Any, returned: Any) -> None:
        nonlocal largest
        largest = max(largest, _bytes(given) + _bytes(returned))

    with torch.no_grad(), ExitStack() as hooks:
        for part in module.modules():
            with suppress(RuntimeError):  # scripted modules take no hooks
                hooks.callback(part.register_forward_hook(look).remove)
        samples = draw(few_rows(batch), 0)
    budget = torch.cuda.mem_get_info(device)[0] // 8 if device.type == "cuda" else _ON_HOST
    at_most = (budget // max(1, largest), _CHUNK // max(1, _bytes(samples)))
    return max(1, min(_MOST_ROWS, *(_FEW * times for times in at_most)))


def few_rows(batch: Batch, n: int = _FEW) -> Batch:
    """The first rows of a batch, again from the start where it has not so many."""
    return take(batch, torch.arange(n) % length(batch))


def _bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, Mapping):
        value = tuple(value.values())
    return sum(map(_bytes, value)) if isinstance(value, tuple | list) else 0
