"""Rows for torch modules: as tensors, in batches that fit in memory.

Rows come as tensors, arrays, mappings of them (Hugging Face), data sets, or loaders that yield
batches.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from scorewise.errors import InvalidInput
from scorewise.models._samplers import number_of_first_row

Batch = Any  # a tensor (n, ...), or a mapping in which some entries are such tensors

FEW = 3  # rows for a trial

_MOST_ROWS = 4096  # at a time; more are not faster
_ON_HOST = 1 << 27  # bytes of the largest layer's input and output; more is not faster
_CHUNK = 1 << 26  # bytes of a chunk of samples
_ROUNDING = 1e-3  # of the largest value, between batches of different sizes

Draw = Callable[[Batch, int], Tensor]  # from rows and the index of the first to (n, M, K)

_SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_LABELS = ("labels", "label")  # entries of a batch that are not input


def count_rows(X: Any) -> int | None:
    """Return the number of rows, or None if it is not known beforehand."""
    if isinstance(X, DataLoader):
        plain = type(X.batch_sampler) is BatchSampler and not isinstance(X.dataset, IterableDataset)
        return _len(X.batch_sampler.sampler) if plain else None
    if isinstance(X, Dataset):
        return None if isinstance(X, IterableDataset) else _len(X)
    return None if _yields_batches(X) else length(as_batch(X))


def _len(sized: Any) -> int | None:
    try:
        return len(sized)
    except (TypeError, NotImplementedError):  # the latter by some of torch's own samplers
        return None


def _check_order(loader: DataLoader[Any]) -> None:
    """Raise if a loader's predictions could not be matched with its rows."""
    batched = loader.batch_sampler
    sampler = getattr(batched, "sampler", loader.sampler)
    if isinstance(sampler, _SHUFFLING):
        raise InvalidInput(
            "the DataLoader shuffles, so predictions could not be matched with rows; pass one with "
            "shuffle=False"
        )
    n = _len(sampler)
    if not isinstance(batched, BatchSampler) or n is None:
        return
    if batched.drop_last and n % batched.batch_size:
        raise InvalidInput(
            f"the DataLoader drops the last {n % batched.batch_size} rows; pass one with "
            "drop_last=False"
        )


def batches(X: Any) -> Iterator[Batch]:
    """Yield the batches of a loader, without labels; anything else is a single batch."""
    if isinstance(X, Dataset):
        X = DataLoader(X, batch_size=256)
    if not _yields_batches(X):
        yield inputs_and_labels(X)[0] if isinstance(X, Mapping) else as_batch(X)
        return
    if isinstance(X, DataLoader):
        _check_order(X)
    is_empty = True
    for batch in X:
        is_empty = False
        yield inputs_and_labels(batch)[0]
    if is_empty:
        raise InvalidInput("X yields no batch, so there are no rows")


def inputs_and_labels(batch: Any) -> tuple[Batch, Any]:
    """Return inputs and labels of a pair or of a mapping; labels are None if there are none."""
    inputs, labels = batch, None
    if isinstance(batch, list | tuple):
        inputs = batch[0]
        labels = batch[1] if len(batch) > 1 else None
    if isinstance(inputs, Mapping):
        labels = next((inputs[name] for name in _LABELS if name in inputs), labels)
        inputs = {name: value for name, value in inputs.items() if name not in _LABELS}
    return as_batch(inputs), labels


def check_labels(labels: Any, n_classes: int) -> Tensor:
    """Return the labels of a loader as class indices (n,)."""
    if labels is None:
        raise InvalidInput("the DataLoader yields no labels; it must yield pairs (rows, labels)")
    labels = torch.as_tensor(labels)
    fits = labels.ndim == 1 and not labels.is_floating_point()
    if not fits or not bool(((labels >= 0) & (labels < n_classes)).all()):
        raise InvalidInput(f"labels must be class indices (n,) from 0 to {n_classes - 1}")
    return labels.long()


def _yields_batches(X: Any) -> bool:
    if isinstance(X, DataLoader):
        return True
    has_rows = hasattr(X, "__array__") or isinstance(X, Mapping | Tensor | list | tuple | str)
    return hasattr(X, "__iter__") and not has_rows


def as_batch(X: Any) -> Batch:
    """Return the caller's rows as a tensor, or as a mapping of tensors."""
    if isinstance(X, Mapping):
        return {name: _as_tensor(value, name) for name, value in X.items()}
    return _as_tensor(X, "X")


def _as_tensor(values: Any, name: str) -> Any:
    if isinstance(values, Tensor) or not (hasattr(values, "__array__") or isinstance(values, list)):
        return values
    if isinstance(values, list) and values and all(isinstance(v, Tensor) for v in values):
        return torch.stack(values)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} is not an array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} has dtype {array.dtype}; a torch module takes numbers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the array may be read-only; it is not written to
        return torch.from_numpy(np.ascontiguousarray(array))


def length(batch: Batch) -> int:
    """Return the number of rows in a batch."""
    entries = batch.values() if isinstance(batch, Mapping) else [batch]
    for entry in entries:
        if isinstance(entry, Tensor) and entry.ndim:
            return len(entry)
    raise InvalidInput(
        f"X is {type(batch).__name__}; a torch module takes a tensor, an array, a mapping of "
        "tensors or a DataLoader"
    )


def few_rows(batch: Batch, n: int = FEW) -> Batch:
    """Return the first n rows of a batch, repeated if it has fewer."""
    return take(batch, torch.arange(n) % length(batch))


def distinct_rows(batch: Batch, n: int) -> Batch:
    """Return n rows of a batch that differ from the first where possible.

    Two such batches of different sizes show the layout of rows in the input of a layer.
    """
    entries = list(batch.values()) if isinstance(batch, Mapping) else [batch]
    size = length(batch)
    rows = next(e for e in entries if isinstance(e, Tensor) and e.ndim and len(e) == size)
    different = (rows != rows[:1]).reshape(size, -1).any(dim=1).nonzero()[:, 0].tolist()
    chosen = take(batch, torch.tensor([0, *different[: n - 1], *range(n)][:n]) % size)
    if not different and isinstance(chosen, Tensor) and chosen.is_floating_point():
        return chosen + torch.arange(n).view(n, *(1 for _ in chosen.shape[1:])).to(chosen)
    return chosen


def describe_batch(batch: Batch) -> str:
    """Return shape and dtype, for messages."""
    if isinstance(batch, Mapping):
        return ", ".join(f"{name} {describe_batch(entry)}" for name, entry in batch.items())
    if not isinstance(batch, Tensor):
        return type(batch).__name__
    return f"{tuple(batch.shape)} of {str(batch.dtype).removeprefix('torch.')}"


def take(batch: Batch, rows: Any) -> Batch:
    """Return some rows of a batch."""
    if isinstance(batch, Tensor):
        return batch[rows]
    n = length(batch)
    return {
        name: entry[rows] if isinstance(entry, Tensor) and entry.ndim and len(entry) == n else entry
        for name, entry in batch.items()
    }


def move(batch: Batch, device: torch.device, dtypes: Collection[torch.dtype]) -> Batch:
    """Return the batch on a module's device, with floats in a precision of the module."""
    if isinstance(batch, Mapping):
        return {name: move(entry, device, dtypes) for name, entry in batch.items()}
    if not isinstance(batch, Tensor):
        return batch
    fits = not batch.is_floating_point() or batch.dtype in dtypes
    dtype = batch.dtype if fits else next(iter(dtypes), batch.dtype)
    return batch.to(device, dtype, non_blocking=True)


# -- streaming ------------------------------------------------------------------------------------


def in_host_memory(chunks: Generator[Tensor]) -> Generator[np.ndarray]:
    """Yield the chunks as NumPy arrays."""
    with closing(chunks):
        for chunk in chunks:
            yield chunk.cpu().numpy()


def stream(
    X: Any, draw: Draw, module: nn.Module, device: torch.device, batch_size: int | None
) -> Generator[Tensor]:
    """Yield samples ``(n, M, K)`` of consecutive rows, in batches that fit in memory.

    They are where they were computed. If memory still runs out, batches are halved.
    """
    max_rows, first = 0, number_of_first_row()
    for batch in batches(X):
        n, start = length(batch), 0
        if n and not max_rows:
            _check_deterministic(draw, batch, type(module).__name__)
            max_rows = batch_size or _rows_that_fit(draw, batch, module, device)
        if n == 0:
            with torch.inference_mode():
                yield draw(batch, first)
        while start < n:
            try:
                with torch.inference_mode():
                    drawn = draw(take(batch, slice(start, start + max_rows)), first)
            except torch.OutOfMemoryError:
                if max_rows == 1:
                    raise
                max_rows //= 2
                torch.cuda.empty_cache()
                continue
            yield drawn
            start, first = start + len(drawn), first + len(drawn)


def _check_deterministic(draw: Draw, batch: Batch, name: str) -> None:
    """Raise if a row's samples are random, or depend on the other rows of its batch.

    Not in inference mode, as modules may store tensors that they make in their first pass.
    """
    with torch.no_grad():
        samples, repeated, of_fewer_rows = (draw(few_rows(batch, n), 0) for n in (3, 3, 2))
    size, variation = samples.abs().amax(), (samples.amax(dim=0) - samples.amin(dim=0)).amax()
    rounding = max(_ROUNDING * float(size), 0.05 * float(variation))
    if float((samples - repeated).abs().amax()) > rounding:
        raise random_in_evaluation_mode(name)
    if float((samples[:2] - of_fewer_rows).abs().amax()) > rounding:
        raise InvalidInput(
            f"the output of {name} for a row depends on the other rows of its batch, as with batch "
            "norm without running statistics"
        )


def random_in_evaluation_mode(name: str) -> InvalidInput:
    """Return the error for a module that draws random numbers in evaluation mode."""
    return InvalidInput(
        f"{name} returns different values for the same rows in evaluation mode; use "
        "torch.nn.Dropout instead of torch.nn.functional.dropout, which random_state controls"
    )


def _rows_that_fit(draw: Draw, batch: Batch, module: nn.Module, device: torch.device) -> int:
    """The number of rows per batch that fit in memory, from a trial with few rows."""
    largest = 0

    def measure(part: nn.Module, inputs: Any, outputs: Any) -> None:
        nonlocal largest
        largest = max(largest, _bytes(inputs) + _bytes(outputs))

    with torch.no_grad(), ExitStack() as hooks:
        for part in module.modules():
            with suppress(RuntimeError):  # scripted modules take no hooks
                hooks.callback(part.register_forward_hook(measure).remove)
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
