"""Rows through torch modules, as many at a time as fit."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scorewise.errors import InvalidInput
from scorewise.models.torch._rows import FEW, Batch, batches, few_rows, length, take

_MOST_ROWS = 4096  # at a time; more gain nothing
_ON_HOST = 1 << 27  # bytes of the largest layer's input and output; more only waits for memory
_CHUNK = 1 << 26  # bytes of a chunk of samples
_ROUNDING = 1e-3  # of the largest answer, in batches of other sizes

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
    return max(1, min(_MOST_ROWS, *(FEW * times for times in at_most)))


def _bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, Mapping):
        value = tuple(value.values())
    return sum(map(_bytes, value)) if isinstance(value, tuple | list) else 0
