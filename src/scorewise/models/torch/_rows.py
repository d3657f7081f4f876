"""Rows for torch modules: tensors, arrays, mappings of them, and loaders that bring batches."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
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

Batch = Any  # a tensor (n, ...), or a mapping in which some entries are such tensors

FEW = 3  # rows for a trial

_SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_LABELS = ("labels", "label")  # entries of a batch that are no input


def count_rows(X: Any) -> int | None:
    """How many rows there are, where that is known beforehand."""
    if isinstance(X, DataLoader):
        plain = type(X.batch_sampler) is BatchSampler and not isinstance(X.dataset, IterableDataset)
        return _len(X.batch_sampler.sampler) if plain else None
    if isinstance(X, Dataset):
        return None if isinstance(X, IterableDataset) else _len(X)
    return None if _brings_batches(X) else length(as_batch(X))


def _len(sized: Any) -> int | None:
    try:
        return len(sized)
    except (TypeError, NotImplementedError):  # the latter is what torch's own samplers may raise
        return None


def _check_order(loader: DataLoader[Any]) -> None:
    """Refuse a loader whose answers could not be matched with its rows."""
    batched = loader.batch_sampler
    sampler = getattr(batched, "sampler", loader.sampler)
    if isinstance(sampler, _SHUFFLING):
        raise InvalidInput(
            "the DataLoader shuffles, so nobody could tell whose the answers are; pass one with "
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
    """The batches that a loader brings, without labels; anything else is one batch."""
    if isinstance(X, Dataset):
        X = DataLoader(X, batch_size=256)
    if not _brings_batches(X):
        yield inputs_and_labels(X)[0] if isinstance(X, Mapping) else as_batch(X)
        return
    if isinstance(X, DataLoader):
        _check_order(X)
    brought = False
    for batch in X:
        brought = True
        yield inputs_and_labels(batch)[0]
    if not brought:
        raise InvalidInput("X brings no batch, so there are no rows")


def inputs_and_labels(batch: Any) -> tuple[Batch, Any]:
    """What a loader brings: a pair, a mapping with ``labels``, or inputs alone (then None)."""
    inputs, labels = batch, None
    if isinstance(batch, list | tuple):
        inputs = batch[0]
        labels = batch[1] if len(batch) > 1 else None
    if isinstance(inputs, Mapping):
        labels = next((inputs[name] for name in _LABELS if name in inputs), labels)
        inputs = {name: value for name, value in inputs.items() if name not in _LABELS}
    return as_batch(inputs), labels


def check_labels(labels: Any, n_classes: int) -> Tensor:
    """Class indices (n,) of what a loader brought."""
    if labels is None:
        raise InvalidInput("the DataLoader brings no labels; it must bring pairs (rows, labels)")
    labels = torch.as_tensor(labels)
    fits = labels.ndim == 1 and not labels.is_floating_point()
    if not fits or not bool(((labels >= 0) & (labels < n_classes)).all()):
        raise InvalidInput(f"labels must be class indices (n,) from 0 to {n_classes - 1}")
    return labels.long()


def _brings_batches(X: Any) -> bool:
    if isinstance(X, DataLoader):
        return True
    has_rows = hasattr(X, "__array__") or isinstance(X, Mapping | Tensor | list | tuple | str)
    return hasattr(X, "__iter__") and not has_rows


def as_batch(X: Any) -> Batch:
    """A tensor, or a mapping of them, of what a caller handed in."""
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
        raise InvalidInput(f"{name} is no array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} has dtype {array.dtype}; a torch module takes numbers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody writes to it, so it may be read-only
        return torch.from_numpy(np.ascontiguousarray(array))


def length(batch: Batch) -> int:
    """The number of rows in a batch."""
    entries = batch.values() if isinstance(batch, Mapping) else [batch]
    for entry in entries:
        if isinstance(entry, Tensor) and entry.ndim:
            return len(entry)
    raise InvalidInput(
        f"X is {type(batch).__name__}; a torch module takes a tensor, an array, a mapping of "
        "tensors or a DataLoader"
    )


def few_rows(batch: Batch, n: int = FEW) -> Batch:
    """The first rows of a batch, again from the start where it has not so many."""
    return take(batch, torch.arange(n) % length(batch))


def telling_rows(batch: Batch, n: int) -> Batch:
    """So many rows as in a batch, but different ones, to see which numbers belong to which."""
    entries = list(batch.values()) if isinstance(batch, Mapping) else [batch]
    size = length(batch)
    rows = next(e for e in entries if isinstance(e, Tensor) and e.ndim and len(e) == size)
    others = (rows != rows[:1]).reshape(size, -1).any(dim=1).nonzero()[:, 0].tolist()
    chosen = take(batch, torch.tensor([0, *others[: n - 1], *range(n)][:n]) % size)
    if not others and isinstance(chosen, Tensor) and chosen.is_floating_point():
        return chosen + torch.arange(n).view(n, *(1 for _ in chosen.shape[1:])).to(chosen)
    return chosen


def describe(batch: Batch) -> str:
    """Shape and dtype, for messages."""
    if isinstance(batch, Mapping):
        return ", ".join(f"{name} {describe(entry)}" for name, entry in batch.items())
    if not isinstance(batch, Tensor):
        return type(batch).__name__
    return f"{tuple(batch.shape)} of {str(batch.dtype).removeprefix('torch.')}"


def take(batch: Batch, rows: Any) -> Batch:
    """Some rows of a batch."""
    if isinstance(batch, Tensor):
        return batch[rows]
    n = length(batch)
    return {
        name: entry[rows] if isinstance(entry, Tensor) and entry.ndim and len(entry) == n else entry
        for name, entry in batch.items()
    }


def move(batch: Batch, device: torch.device, dtypes: Collection[torch.dtype]) -> Batch:
    """A batch on the device of a module, real numbers in a precision that the module has."""
    if isinstance(batch, Mapping):
        return {name: move(entry, device, dtypes) for name, entry in batch.items()}
    if not isinstance(batch, Tensor):
        return batch
    fits = not batch.is_floating_point() or batch.dtype in dtypes
    dtype = batch.dtype if fits else next(iter(dtypes), batch.dtype)
    return batch.to(device, dtype, non_blocking=True)
