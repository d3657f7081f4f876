"""Labels of rows in blocks, which all rows decide together.

What a label means can depend on the others: whole numbers may be names or indices of classes, and
−1 and 1 may be two classes. So the distinct labels of all blocks are interpreted once, and blocks
look theirs up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from scorewise._array import is_dask
from scorewise._fields import UNLABELLED, as_array, checked_labels, class_text
from scorewise._rows import LabelAgreement, class_names_of, missing_label
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.io import Predictions
from scorewise.scale._dataset import Dataset, Partition
from scorewise.scale._tree import computed, merge_tree, persisted

_MOST = 1 << 16  # distinct labels that are merged, besides two for each class

Key = tuple[type, str]


@dataclass(frozen=True, eq=False)
class DistinctLabels:
    """Each label of some rows once, in the order in which they come first.

    Attributes
    ----------
    values : array (u,)
        Of the dtype of the labels.
    first_rows : integer array (u,)
        The row in which each comes first.
    counts : integer array (u,)
        The number of rows with each.
    """

    values: np.ndarray
    first_rows: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, labels: Any, first_row: int) -> DistinctLabels:
        """Return the distinct labels of consecutive rows."""
        values = as_array(labels, "labels")
        first, _, counts = _distinct(values)
        return cls(values[first], first + first_row, counts)

    @classmethod
    def merged(cls, parts: list[DistinctLabels], most: int) -> DistinctLabels:
        """Return the distinct labels of all parts, which are in the order of the rows.

        If there are more than ``most``, those that come first; one of them is then no class.
        """
        values, rows, counts = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("values", "first_rows", "counts")
        )
        first, which, _ = _distinct(values)
        sums = np.bincount(which, weights=counts, minlength=len(first)).astype(np.int64)
        return cls(values[first][:most], rows[first][:most], sums[:most])


def _distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where each label comes first, which of these each row has, and their counts."""
    if values.dtype.kind != "O":
        _, first, which, counts = np.unique(
            values, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return first[order], rank[which.reshape(-1)], counts[order]
    places: dict[Key, int] = {}
    which = np.array([places.setdefault(key, len(places)) for key in _keys(values)], np.int64)
    first = np.full(len(places), len(values))
    np.minimum.at(first, which, np.arange(len(values)))
    return first, which, np.bincount(which, minlength=len(places))


def _keys(values: np.ndarray) -> Iterator[Key]:
    """Yield what tells labels apart: 1 and 1.0 are the same, "1" and True are others."""
    for label in values.tolist():
        kind = next((kind for kind in (bool, str) if isinstance(label, kind)), float)
        yield kind, class_text(label)


@dataclass(frozen=True, eq=False)
class ClassOfLabel:
    """The index of the class that each label means."""

    index_of: dict[Key, int]

    def __call__(self, labels: Any) -> np.ndarray:
        """Return class indices (n,)."""
        values = as_array(labels, "labels")
        first, which, _ = _distinct(values)
        indices = np.array([self.index_of[key] for key in _keys(values[first])], np.int64)
        return np.asarray(indices[which])


def class_of_labels(
    labels: DistinctLabels, n_rows: int, template: Samples, labels_are: str | None
) -> ClassOfLabel:
    """Return what the labels of all rows mean; raises as for labels in memory."""

    def locate(i: int) -> str:
        return f"labels[{labels.first_rows[i]}]"

    shape = (len(labels.values), template.n_classes)
    names = class_names_of(template)
    indices = checked_labels(
        labels.values, shape, names, locate, labels_are=labels_are, all_labelled=True
    )
    missing = np.flatnonzero(indices == UNLABELLED)
    if len(missing):
        n_missing = int(labels.counts[missing].sum())
        raise missing_label(int(labels.first_rows[missing[0]]), n_missing, n_rows)
    return ClassOfLabel(dict(zip(_keys(labels.values), indices.tolist(), strict=True)))


def index_parts(
    labels: Any, parts: Sequence[Any], sizes: Sequence[int], template: Samples, labels_are: Any
) -> list[Any]:
    """Return the class indices of each block.

    Labels in memory are interpreted here. The blocks of a Dask array stay on the workers, which
    return their distinct labels.
    """
    import dask

    if np.ndim(labels) != 1:
        n = sum(sizes)
        raise InvalidInput(
            f"labels have shape {np.shape(labels)} for {n} rows; they must be ({n},)"
        )
    interpret = partial(
        class_of_labels, n_rows=sum(sizes), template=template, labels_are=labels_are
    )
    if not is_dask(labels):
        class_of = interpret(DistinctLabels.of(labels, 0))
        return [class_of(part) for part in parts]
    parts = list(persisted(*parts))
    first_rows = np.cumsum([0, *sizes[:-1]]).tolist()
    distinct, most = dask.delayed(DistinctLabels.of), _MOST + 2 * template.n_classes
    of_blocks = [
        distinct(part, first)
        for part, size, first in zip(parts, sizes, first_rows, strict=True)
        if size
    ]
    [of_all] = computed(merge_tree(of_blocks, partial(DistinctLabels.merged, most=most)))
    class_of = dask.delayed(interpret(of_all))
    return [class_of(part) for part in parts]


def may_be_numbered_from_one(names: Any, labels_are: str | None) -> bool:
    """Return whether the agreement of labels and predictions decides what labels are."""
    return names is None and labels_are is None


def check_numbering(agreement: LabelAgreement, dataset: Dataset) -> None:
    """Raise if all rows of a data set show that its classes are numbered from 1."""
    if may_be_numbered_from_one(dataset.class_names, dataset.reading.get("labels_are")):
        agreement.check(dataset.members_and_classes[1])


# -- labels of files -------------------------------------------------------------------------------


def sample_chunks(
    dataset: Dataset, partition: Partition, normalize: bool
) -> Iterator[tuple[int, Predictions, Samples]]:
    """Yield labelled rows of a file with the number of the first, and their checked members.

    Labels are class indices. Errors name the file and the row.
    """
    with suggesting_quarantine():
        file = dataset.read(partition)
        start = 0
        for chunk in file.chunks(fields=file.member_fields | {"labels"}):
            if len(chunk):
                samples = checked_samples(file, chunk, start, normalize=normalize, is_labelled=True)
                yield start, chunk, samples
                start += len(chunk)


def checked_rows(
    file: Predictions, rows: range, fields: frozenset[str], *, normalize: bool
) -> tuple[Predictions, Samples]:
    """Return rows of a file with their checked members; errors name the file and the first row.

    ``fields`` are read besides the members; with labels, all rows must have one.
    """
    options: dict[str, Any] = {"normalize": normalize, "is_labelled": "labels" in fields}
    fields |= file.member_fields
    try:
        chosen = file.slice(rows.start, rows.stop, fields=fields)
    except InvalidInput:  # but the numbers of an earlier row may be wrong
        first = rows.start
        for chunk in file.chunks(start=rows.start, stop=rows.stop, fields=fields):
            checked_samples(file, chunk, first, **options)
            first += len(chunk)
        raise
    return chosen, checked_samples(file, chosen, rows.start, **options)


def checked_samples(
    file: Predictions, chunk: Predictions, start: int, *, normalize: bool, is_labelled: bool
) -> Samples:
    """Return the checked members of rows of a file from ``start`` on; errors name file and row.

    With ``is_labelled``, all rows must have a label.
    """
    try:
        samples = chunk.chunk_samples(start, normalize=normalize)
        if is_labelled:
            check_complete(chunk, start)
    except InvalidInput as error:
        raise file.with_location(error) from None
    return samples


@contextmanager
def suggesting_quarantine() -> Iterator[None]:
    """Let errors about the rows of a file, for work that writes no folder, say what to do."""
    try:
        yield
    except InvalidInput as error:
        where = Remedy("quarantine", "FOLDER")
        remedy = Remedy("on_bad_rows", "quarantine", "to set invalid rows aside", also=where)
        raise type(error)(error.problem, *error.remedies, remedy, index=error.index) from None


def check_complete(chunk: Predictions, first_row: int) -> None:
    """Raise if a row of a chunk has no label; its number is counted from ``first_row`` on."""
    assert chunk.labels is not None
    missing = np.flatnonzero(chunk.labels == UNLABELLED)
    if len(missing):
        row = first_row + int(missing[0])
        raise InvalidInput("there is no label, and each row needs one here", index=(row,))
