"""Rows in blocks that are read when they are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import is_array, is_dask, to_numpy
from scorewise._fields import as_array, checked_ids
from scorewise._inputs import InputOptions, RawPredictions, raw_members
from scorewise._rows import RawRows, check_member_axis, class_names_of
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.scale._dataset import Dataset, Partition
from scorewise.scale._labels import (
    checked_rows,
    index_parts,
    may_be_numbered_from_one,
    suggesting_quarantine,
)
from scorewise.scale._tree import computed

_BLOCK_ELEMENTS = 1 << 25  # probabilities of a file that are in memory at a time


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows that are computed together.

    Attributes
    ----------
    samples : Samples
        Of n rows.
    first_row : int
        The number of the first of them, counted over all blocks.
    labels : integer array (n,), or None
    ids : array (n,), or None
    scores : dict of str to array (n,)
        The user's own scores.
    file : str or None
        The name of the file that has the rows, for messages.
    row_in_file : int
        The number of the first row in this file, without invalid rows that are left out.
    numbers : integer array (n,), or None
        The numbers of the rows over all blocks, where invalid rows in between are left out.
    """

    samples: Samples
    first_row: int
    labels: np.ndarray | None = None
    ids: np.ndarray | None = None
    scores: dict[str, Any] = field(default_factory=dict)
    file: str | None = None
    row_in_file: int = 0
    numbers: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """All rows, in blocks that Dask reads.

    Attributes
    ----------
    blocks : list of dask.delayed.Delayed
        Each computes a RowBlock, of at least one row.
    n_rows : int
    template : Samples
        Of a single row, with the members, the classes and the dtype of all rows.
    judges_labels : bool
        Whether labels are refused if all rows show that classes are numbered from 1.
    """

    blocks: list[Any]
    n_rows: int
    template: Samples
    judges_labels: bool

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, or their indices as text."""
        k = self.template.n_classes
        return class_names_of(self.template) or tuple(str(i) for i in range(k))

    @classmethod
    def of(
        cls,
        predictions: Any,
        name: str,
        options: Mapping[str, Any],
        *,
        y: Any = None,
        ids: Any = None,
        labels_are: str | None = None,
        scores: Mapping[str, Any] | None = None,
    ) -> RowBlocks:
        """Return the blocks of a Dask array (n, M, K), or of Samples of one.

        Labels, ids and scores (n,) are arrays of Dask or of NumPy. Labels are computed and checked
        now; errors in the others and in the predictions are raised when their block is computed.
        """
        import dask

        if y is not None:
            check_member_axis(predictions, y, dict(options))
        raw, weights = _lazy_members(predictions, name, options)
        values = raw.values.rechunk({1: -1, 2: -1})
        sizes = values.chunks[0]
        n_rows = sum(sizes)
        if not n_rows:
            raise InvalidInput(f"{name} has no rows")
        first_rows = np.cumsum([0, *sizes[:-1]]).tolist()
        raw = replace(raw, values=None)
        has_own_weights = np.ndim(weights) == 2
        template = _template(
            raw,
            values,
            np.ones((1, values.shape[1]), weights.dtype) if has_own_weights else weights,
        )
        shared = dask.delayed((raw, None if has_own_weights else weights), traverse=False)
        columns = {
            "weights": weights if has_own_weights else None,
            "ids": ids,
            **{f"scores[{own!r}]": column for own, column in (scores or {}).items()},
        }
        parts = [_parts(column, sizes, what) for what, column in columns.items()]
        if y is not None and not is_dask(y):
            y = as_array(y, "labels")
        labels_of = _parts(y, sizes, "labels")
        if y is not None:
            labels_of = index_parts(y, labels_of, sizes, template, labels_are)
        read = dask.delayed(_read_block)
        blocks = [
            read(
                block,
                shared,
                first_row,
                own_weights,
                labels,
                row_ids,
                dict(zip(scores or (), own_scores, strict=True)),
            )
            for block, size, first_row, labels, own_weights, row_ids, *own_scores in zip(
                values.to_delayed().ravel(), sizes, first_rows, labels_of, *parts, strict=True
            )
            if size
        ]
        judges_labels = may_be_numbered_from_one(class_names_of(template), labels_are)
        return cls(blocks, n_rows, template, judges_labels)

    @classmethod
    def of_dataset(
        cls,
        dataset: Dataset,
        name: str,
        *,
        normalize: bool = False,
        fields: frozenset[str] = frozenset({"labels", "ids"}),
    ) -> RowBlocks:
        """Return the blocks of the files of a data set; large files have several.

        ``fields`` are read besides the members; all rows must have a label if labels are among
        them. The numbers of rows are read from the files by the current Dask scheduler.
        """
        import dask

        if "labels" in fields:
            dataset.require_labels()
        shared = dask.delayed(dataset.for_workers(), traverse=False)
        count, read = dask.delayed(_count_rows), dask.delayed(_read_rows)
        (sizes,) = computed([count(shared, part) for part in dataset.partitions])
        if not (n_rows := sum(sizes)):
            raise InvalidInput(f"{name} has no rows")
        m, k = dataset.members_and_classes
        step = max(1, _BLOCK_ELEMENTS // (m * k))
        first_rows = np.cumsum([0, *sizes[:-1]]).tolist()
        n_left_out = [0 if p.left_out is None else len(p.left_out) for p in dataset.partitions]
        n_before = np.cumsum([0, *n_left_out[:-1]]).tolist()  # invalid rows of earlier files
        blocks = [
            read(
                shared,
                part,
                range(start, min(start + step, size)),
                first + start,
                first + before if sum(n_left_out) else None,
                normalize,
                fields,
            )
            for part, size, first, before in zip(
                dataset.partitions, sizes, first_rows, n_before, strict=True
            )
            for start in range(0, size, step)
        ]
        labels_are = dataset.reading.get("labels_are")
        judges_labels = may_be_numbered_from_one(dataset.class_names, labels_are)
        return cls(blocks, n_rows, dataset.empty(1).to_samples(), judges_labels)


def _count_rows(dataset: Dataset, partition: Partition) -> int:
    """Return the number of rows of a file."""
    with suggesting_quarantine():
        return len(dataset.read(partition))


def _read_rows(
    dataset: Dataset,
    partition: Partition,
    chosen: range,
    first_row: int,
    first_number: int | None,
    normalize: bool,
    fields: frozenset[str],
) -> RowBlock:
    """Return some valid rows of a file; errors name the file and the row.

    ``first_row`` is the number of the first over all valid rows, and ``first_number`` that of the
    file's first row over all rows, if they differ.
    """
    with suggesting_quarantine():
        file = dataset.read(partition)
        rows, samples = checked_rows(file, chosen, fields, normalize=normalize)
    labels = rows.labels if "labels" in fields else None
    ids = rows.ids if "ids" in fields else None
    numbers = None
    if first_number is not None:
        numbers = first_number + partition.row_numbers(chosen.stop)[chosen.start :]
    where: dict[str, Any] = {"file": partition.name, "row_in_file": chosen.start}
    return RowBlock(samples, first_row, labels, ids, numbers=numbers, **where)


def _lazy_members(
    predictions: Any, name: str, options: Mapping[str, Any]
) -> tuple[RawPredictions, Any]:
    """Return lazy members as they were passed, and their weights."""
    validate.known_options(dict(options), validate.options_of(Samples))
    if isinstance(predictions, Samples) and is_dask(predictions.probs):
        if set(options) - {"class_names"}:
            names = ", ".join(sorted(set(options) - {"class_names"}))
            raise InvalidInput(f"{names} cannot be passed with Samples, only with arrays")
        return predictions.raw(), predictions.weights
    if not is_dask(predictions):
        raise InvalidInput(
            f"{name} must be a Dask array (n, M, K) here, as the other predictions are one: pass "
            "dask.array.from_array(...)"
        )
    layout = {option: value for option, value in options.items() if option != "weights"}
    raw, weights = raw_members(predictions, InputOptions(**layout)), options.get("weights")
    if raw.values.ndim != 3:
        raise InvalidInput(f"{name} must be rows (n, M, K), and has {raw.values.ndim} axes")
    return raw, weights if weights is None or is_dask(weights) else _on_host(weights)


def _template(raw: RawPredictions, values: Any, weights: Any) -> Samples:
    """Return a row like all others; a row of logits or probabilities that is valid as either."""
    row = np.zeros((1, *values.shape[1:]), dtype=values.dtype)
    row[..., 0] = 1
    return RawRows(raw.block(row, (1,)), weights, on_host=False).samples()


def _parts(column: Any, sizes: Sequence[int], name: str) -> list[Any]:
    """Return the part of a column (n, ...) that each block has."""
    if column is None:
        return [None] * len(sizes)
    if not is_dask(column):
        column = _on_host(column)
    n_rows = sum(sizes)
    if not column.ndim or column.shape[0] != n_rows:
        raise InvalidInput(f"{name} have shape {column.shape} for {n_rows:,} rows")
    if is_dask(column):
        column = column.rechunk({0: tuple(sizes), **dict.fromkeys(range(1, column.ndim), -1)})
        return list(column.to_delayed().ravel())
    ends = np.cumsum(sizes).tolist()
    return [column[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def _on_host(values: Any) -> np.ndarray:
    """Return a column in memory, perhaps of a GPU, as an array of NumPy."""
    return to_numpy(values) if is_array(values) else np.asarray(values)


def _read_block(
    values: np.ndarray,
    shared: tuple[RawPredictions, Any],
    first_row: int,
    own_weights: Any,
    labels: np.ndarray | None,
    ids: Any,
    scores: dict[str, Any],
) -> RowBlock:
    """Return a block of a Dask array; errors number rows over all blocks."""
    raw, weights = shared
    weights = weights if own_weights is None else own_weights
    samples = RawRows(raw.block(values, (first_row,)), weights, on_host=False).samples()
    ids = None if ids is None else checked_ids(ids, len(values))
    return RowBlock(samples, first_row, labels, ids, scores)
