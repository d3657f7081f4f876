"""Rows for torch modules: tensors, arrays, mappings of them, and loaders that bring batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset

from scorewise.errors import InvalidInput

Batch = Any  # a tensor (n, ...), or a mapping in which some entries are such tensors

_LABELS = ("labels", "label")  # entries of a batch that are no input


def count_rows(X: Any) -> int | None:
    """How many rows there are, where that is known beforehand."""
    if isinstance(X, DataLoader):
        plain = type(X.batch_sampler) is BatchSampler
        if isinstance(X.dataset, IterableDataset) or not plain:
            return None
        n = len(X.sampler)
        return n - n % X.batch_size if X.drop_last and X.batch_size else n
    if isinstance(X, Dataset):
        return None if isinstance(X, IterableDataset) else len(X)
    return None if _brings_batches(X) else length(as_batch(X))


def batches(X: Any) -> Iterator[Batch]:
    """The batches that a loader brings, without labels; anything else is one batch."""
    if isinstance(X, Dataset):
        X = DataLoader(X, batch_size=256)
    if not _brings_batches(X):
        yield as_batch(X)
        return
    for batch in X:
        yield inputs_and_labels(batch)[0]


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
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} has dtype {array.dtype}; a torch module takes numbers")
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


def take(batch: Batch, rows: Any) -> Batch:
    """Some rows of a batch."""
    if isinstance(batch, Tensor):
        return batch[rows]
    n = length(batch)
    return {
        name: entry[rows] if isinstance(entry, Tensor) and entry.ndim and len(entry) == n else entry
        for name, entry in batch.items()
    }


def move(batch: Batch, device: torch.device, dtype: torch.dtype | None) -> Batch:
    """A batch on the device of a module, real numbers in the module's precision."""
    if isinstance(batch, Mapping):
        return {name: move(entry, device, dtype) for name, entry in batch.items()}
    if not isinstance(batch, Tensor):
        return batch
    return batch.to(device, dtype if batch.is_floating_point() else None, non_blocking=True)
