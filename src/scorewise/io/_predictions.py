"""Predictions with labels, ids, class names and weights, in memory or in a file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scorewise import _validate as validate
from scorewise._array import dtype_name, to_numpy
from scorewise._fields import as_array, check_same_names, checked_ids, checked_labels, checked_names
from scorewise._inputs import InputOptions, RawPredictions, StoredAs, raw_members, weights_dtype
from scorewise._notebook import TextInNotebooks
from scorewise._text import shape_text
from scorewise.distributions import Samples
from scorewise.errors import InvalidFile, InvalidInput

CHUNK_BYTES = 8 << 20  # of predictions at a time: more than a cache, much less than memory

CLASS_1_ALONE = (
    "probabilities of class 1 alone, (N, M), are not enough: two classes need two probabilities, "
    "as scorewise.binary makes them in Python"
)

Arrays = dict[str, np.ndarray]  # by field: "probs", "logits", "labels", "ids" and "weights"


class RowSource(Protocol):
    """Rows of predictions that can be read a chunk at a time."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of rows, members and classes (N, M, K)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the probabilities or logits."""

    @property
    def fields(self) -> frozenset[str]:
        """The fields that every row has."""

    @property
    def row_group_starts(self) -> Sequence[int]:
        """The rows, in rising order, at which reading can start without earlier rows."""

    def chunks(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Arrays]:
        """Yield rows ``start`` to ``stop``, at most ``n`` at a time; one empty chunk for none."""

    def locate(self, row: int) -> str | None:
        """Return where a row is stored, for a message; None if its number identifies it."""


class Predictions(TextInNotebooks):
    """Predictions of M members for N rows and K classes, with labels, ids, names and weights.

    Use it to keep these fields together. :func:`scorewise.read_predictions` returns one whose rows
    are read from the file when they are needed.

    Parameters
    ----------
    probs : array (N, M, K), optional
        Member probabilities; optional if there are logits.
    labels : array (N,), optional
        Class indices, or names of classes; −1 where a row has no label.
    ids : array (N,), optional
        Whole numbers or strings.
    class_names : sequence of K strings, optional
    weights : array (M,) or (N, M), optional
        Member weights.
    logits : array (N, M, K), optional
        Logits of the members.
    labels_are : {"names", "indices"}, optional
        What whole numbers are among the labels, if they may be names of classes or indices.

    Attributes
    ----------
    shape : tuple of int
        Rows, members and classes (N, M, K).
    dtype : numpy dtype
        Of the probabilities, or of the logits if there are no probabilities.
    probs : array (N, M, K)
        A memory map if the file is a large ``.npy`` or ``.npz``; the softmax of the logits where
        there are no probabilities.
    logits, labels, ids, weights : arrays or None
    class_names : tuple of str or None
    fields : frozenset of str
        The fields that every row has, of ``"probs"``, ``"logits"``, ``"labels"``, ``"ids"`` and
        ``"weights"``.

    Raises
    ------
    InvalidInput
        If shapes or dtypes do not fit. Probabilities themselves are checked where they are used.

    Examples
    --------
    >>> import scorewise as sw
    >>> predictions = sw.io.Predictions([[[0.9, 0.1], [0.8, 0.2]]], labels=["ill"],
    ...                              class_names=["well", "ill"])
    >>> predictions
    Predictions(1 row, 2 members, 2 classes, float64, with labels, class_names)
    >>> predictions.labels
    array([1])
    >>> sw.decompose(predictions.samples, "zero-one").total
    array([0.15])
    """

    def __init__(
        self,
        probs: Any = None,
        *,
        labels: Any = None,
        ids: Any = None,
        class_names: Sequence[str] | None = None,
        weights: Any = None,
        logits: Any = None,
        labels_are: str | None = None,
    ) -> None:
        if probs is None and logits is None:
            raise InvalidInput("there are neither probs nor logits")
        members = {"probs": probs, "logits": logits}
        arrays = {name: checked_members(x, name) for name, x in members.items() if x is not None}
        shape = next(iter(arrays.values())).shape
        if len({x.shape for x in arrays.values()}) > 1:
            raise InvalidInput(f"probs have shape {shape}, logits {arrays['logits'].shape}")
        names = checked_names(class_names, shape[-1])
        if labels is not None:
            arrays["labels"] = checked_labels(labels, shape, names, labels_are=labels_are)
        if ids is not None:
            arrays["ids"] = checked_ids(ids, shape[0])
        member_weights = None
        if weights is not None:
            w = checked_weights(weights, shape)
            if w.ndim == 1:
                member_weights = w
            else:
                arrays["weights"] = w
        self._set(ArraySource(arrays), names, member_weights, labels_are)

    @classmethod
    def from_source(
        cls,
        source: RowSource,
        class_names: tuple[str, ...] | None = None,
        member_weights: np.ndarray | None = None,
    ) -> Predictions:
        """Return predictions whose rows are read from ``source``, a chunk at a time.

        ``class_names`` are those of its K classes, and ``member_weights``, ``(M,)``, those of all
        rows; None if there are none, or rows have weights of their own.
        """
        predictions = object.__new__(cls)
        predictions._set(source, class_names, member_weights, None)
        return predictions

    def _set(
        self,
        source: RowSource,
        class_names: tuple[str, ...] | None,
        member_weights: np.ndarray | None,
        labels_are: str | None,
    ) -> None:
        self.source = source
        self.class_names = class_names
        self.member_weights = member_weights  # (M,), the same for all rows
        self.path: Path | None = None  # of the file or folder that the rows are read from
        self.file_name: str | None = None  # in messages, if it is not the name of the path
        self.labels_are = labels_are  # "names" or "indices", if the user said so

    def with_class_names(self, class_names: Any) -> Predictions:
        """Return the same predictions with names of their classes, if they have none.

        Parameters
        ----------
        class_names : sequence of K strings, optional
            None changes nothing.

        Raises
        ------
        InvalidInput
            If the predictions have other names.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> predictions = sw.io.Predictions(np.full((4, 3, 2), 0.5))
        >>> predictions.with_class_names(["well", "ill"]).class_names
        ('well', 'ill')
        """
        names = checked_names(class_names, self.shape[-1])
        if names is None:
            return self
        if self.class_names is not None:
            check_same_names(self.class_names, names)
            return self
        named = Predictions.from_source(self.source, names, self.member_weights)
        named.path, named.labels_are = self.path, self.labels_are
        named.file_name = self.file_name
        return named

    def __repr__(self) -> str:
        extras: list[str] = [name for name in ("logits", "labels", "ids") if name in self.fields]
        if self.class_names is not None:
            extras.append("class_names")
        if self.member_weights is not None or "weights" in self.fields:
            extras.append("weights")
        return (
            f"Predictions({shape_text(self.shape)}, {self.dtype}"
            f"{', with ' * bool(extras)}{', '.join(extras)})"
        )

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of rows, members and classes (N, M, K)."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the probabilities, or of the logits if there are none."""
        return self.source.dtype

    @property
    def fields(self) -> frozenset[str]:
        """The fields that every row has."""
        return self.source.fields

    def _field(self, name: str) -> np.ndarray | None:
        """Return a field of all rows, or None if it is missing."""
        if name not in self.fields:
            return None
        if isinstance(self.source, ArraySource):
            return self.source.arrays[name]
        n = len(self)
        chunks = self.source.chunks(frozenset({name}), 0, n, max(1, n))
        arrays = [chunk[name] for chunk in chunks]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    @cached_property
    def logits(self) -> np.ndarray | None:
        """The logits ``(N, M, K)``, or None."""
        return self._field("logits")

    @cached_property
    def probs(self) -> np.ndarray:
        """The probabilities ``(N, M, K)``."""
        probs = self._field("probs")
        return to_numpy(self.samples.probs) if probs is None else probs

    @cached_property
    def labels(self) -> np.ndarray | None:
        """The class indices ``(N,)``, −1 for rows without a label; None if there are no labels."""
        return self._field("labels")

    @property
    def labels_depend_on_all_rows(self) -> bool:
        """Whether numbers in a file are names or indices of classes, as all its rows decide."""
        return getattr(self.source, "labels_depend_on_all_rows", False)

    @property
    def has_ambiguous_labels(self) -> bool:
        """Whether indices in a file could be read as names of classes, or −1 as a class."""
        return "labels" in self.fields and (self.class_names is not None or self.shape[-1] == 2)

    @cached_property
    def ids(self) -> np.ndarray | None:
        """The ids ``(N,)``, integers or strings, or None."""
        return self._field("ids")

    @cached_property
    def weights(self) -> np.ndarray | None:
        """The member weights, ``(M,)`` or ``(N, M)``, or None."""
        return self._field("weights") if self.member_weights is None else self.member_weights

    @property
    def from_logits(self) -> bool:
        """Whether there are logits and no probabilities."""
        return "probs" not in self.fields

    @cached_property
    def samples(self) -> Samples:
        """The members of all rows as :class:`scorewise.Samples`, checked."""
        return self.to_samples()

    def to_samples(self, *, normalize: bool = False) -> Samples:
        """Return the members of all rows as :class:`scorewise.Samples`, checked.

        Parameters
        ----------
        normalize : bool
            Rescale probabilities to sum to 1.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> sw.io.Predictions(np.full((4, 3, 2), 2.0)).to_samples(normalize=True).probs.max()
        np.float64(0.5)
        """
        try:
            return Samples.of(self.raw(0, normalize), self.weights)
        except InvalidInput as error:
            raise self.with_location(error) from None

    def chunks(
        self,
        n_rows: int | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        fields: Collection[str] | None = None,
    ) -> Iterator[Predictions]:
        """Yield consecutive rows in memory, in chunks; a file is read as the chunks are used.

        Parameters
        ----------
        n_rows : int, optional
            Largest number of rows of a chunk; by default, chunks of 8 MiB. If there are no rows,
            one empty chunk is yielded.
        start, stop : int
            The first row, and the one after the last; by default, all rows.
        fields : collection of str
            Fields to read; by default, all.

        Yields
        ------
        Predictions

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> predictions = sw.io.Predictions(np.full((5, 3, 2), 0.5))
        >>> [len(chunk) for chunk in predictions.chunks(2)]
        [2, 2, 1]
        """
        if n_rows is None:
            n_rows = self.rows_of_chunk
        n_rows = validate.whole(n_rows, "n_rows", at_least=1)
        stop = len(self) if stop is None else validate.whole(stop, "stop", at_least=0)
        if not 0 <= validate.whole(start, "start", at_least=0) <= stop <= len(self):
            raise InvalidInput(f"start={start}, stop={stop}: there are {len(self)} rows, from 0 on")
        selected = self.fields if fields is None else self.fields & frozenset(fields)
        for arrays in self.source.chunks(selected, start, stop, n_rows):
            yield Predictions.from_source(
                ArraySource(arrays), self.class_names, self.member_weights
            )

    def slice(self, start: int, stop: int, *, fields: Collection[str] | None = None) -> Predictions:
        """Return consecutive rows, in memory; of a file, no others are kept.

        Parameters
        ----------
        start, stop : int
            The first row, and the one after the last.
        fields : collection of str
            Fields to read; by default, all.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> predictions = sw.io.Predictions(np.full((5, 3, 2), 0.5), ids=list("abcde"))
        >>> predictions.slice(1, 3).ids.tolist()
        ['b', 'c']
        """
        # one chunk for each row group of a file
        chunks = [*self.chunks(max(1, stop - start), start=start, stop=stop, fields=fields)]
        if len(chunks) == 1:
            return chunks[0]
        names = chunks[0].fields
        arrays = {name: np.concatenate([getattr(x, name) for x in chunks]) for name in names}
        return Predictions.from_source(ArraySource(arrays), self.class_names, self.member_weights)

    @property
    def rows_of_chunk(self) -> int:
        """The largest number of rows of a chunk, by default."""
        _, m, k = self.shape
        return max(1, CHUNK_BYTES // (m * k * self.dtype.itemsize))

    def take(self, rows: Any) -> Predictions:
        """Return some rows, in memory; a file is read a chunk at a time.

        Parameters
        ----------
        rows : integer array (n,)
            Numbers of different rows, from 0, in any order.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> predictions = sw.io.Predictions(np.full((5, 3, 2), 0.5), ids=list("abcde"))
        >>> predictions.take([4, 0]).ids.tolist()
        ['e', 'a']
        """
        numbers = validate.rows(rows, len(self), "rows")
        in_file_order = np.sort(numbers)
        parts: list[Arrays] = []
        first = 0
        for chunk in self.chunks():
            start, stop = np.searchsorted(in_file_order, (first, first + len(chunk)))
            inside = in_file_order[start:stop] - first
            parts.append({name: getattr(chunk, name)[inside] for name in chunk.fields})
            first += len(chunk)
        places = np.searchsorted(in_file_order, numbers)
        arrays = {
            name: np.concatenate([part[name] for part in parts])[places] for name in self.fields
        }
        return Predictions.from_source(ArraySource(arrays), self.class_names, self.member_weights)

    def sample_chunks(
        self,
        *,
        normalize: bool = False,
        rounded_as: StoredAs | None = None,
        fields: Collection[str] = (),
    ) -> Iterator[tuple[int, Predictions, Samples]]:
        """Yield for each chunk the number of its first row, the chunk and its checked members.

        Errors use row numbers of the whole file.

        Parameters
        ----------
        normalize : bool
            Rescale probabilities to sum to 1.
        rounded_as : StoredAs, optional
            Members and weights are rounded as if they had been stored in these dtypes.
        fields : collection of str
            Fields of the chunks besides the members.

        Yields
        ------
        first_row : int
        chunk : Predictions
        samples : Samples

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> predictions = sw.io.Predictions(np.full((5, 3, 2), 0.5))
        >>> for first_row, chunk, samples in predictions.sample_chunks():
        ...     print(first_row, samples)
        0 Samples(3 members, 2 classes, batch (5,), float64)
        """
        row = 0
        for chunk in self.chunks(fields=self.member_fields | frozenset(fields)):
            try:
                samples = chunk.chunk_samples(row, normalize=normalize, rounded_as=rounded_as)
            except InvalidInput as error:
                raise self.with_location(error) from None
            yield row, chunk, samples
            row += len(chunk)

    def chunk_samples(
        self, first_row: int, *, normalize: bool = False, rounded_as: StoredAs | None = None
    ) -> Samples:
        """Return the checked members of a chunk; errors count rows from ``first_row``.

        ``normalize`` and ``rounded_as`` are as for :meth:`sample_chunks`.
        """
        raw, weights = self.raw(first_row, normalize), self.weights
        if rounded_as is not None:
            raw, weights = raw.rounded(weights, rounded_as)
        return Samples.of(raw, weights)

    @property
    def stored_as(self) -> StoredAs:
        """The dtypes of members and weights, and whether the members are logits."""
        weights = self.member_weights
        if "weights" in self.fields:
            [first_row] = self.chunks(1, stop=min(1, len(self)), fields=self.member_fields)
            weights = first_row.weights
        dtype = self.dtype.name
        return StoredAs(dtype, self.from_logits, False, weights_dtype(weights))

    @property
    def member_fields(self) -> frozenset[str]:
        """The fields that the uncertainty of a row depends on."""
        return frozenset({"logits" if self.from_logits else "probs", "weights"})

    def raw(self, first_row: int, normalize: bool) -> RawPredictions:
        """Return the members as kernels take them; errors count rows from ``first_row``.

        With ``normalize``, probabilities are rescaled to sum to 1 where they are used.
        """
        values = self.logits if self.from_logits else self.probs
        normalize = normalize and not self.from_logits  # a softmax sums to 1
        options = InputOptions(
            from_logits=self.from_logits, normalize=normalize, class_names=self.class_names
        )
        members = raw_members(values, options)
        return members.block(members.values, (first_row,))

    @property
    def row_group_starts(self) -> Sequence[int]:
        """The rows, in rising order, at which reading can start without earlier rows."""
        return self.source.row_group_starts

    def locate(self, row: int) -> str:
        """Return the place of ``row`` for a message: its number, and its row group if any."""
        stored = self.source.locate(row)
        return f"row {row}" if stored is None else f"row {row} ({stored})"

    def with_location(self, error: InvalidInput) -> InvalidInput:
        """Return the ``error`` with the name of the file and the place of the wrong row."""
        sums_are_wrong = any(remedy.argument == "normalize" for remedy in error.remedies)
        if sums_are_wrong and self.shape[1] == 1:
            problem = f"{error.problem}; {CLASS_1_ALONE}"
            error = InvalidInput(problem, *error.remedies, index=error.index)
        if error.index is not None:
            problem = f"{self.locate(error.index[0])}: {error.problem}"
            error = InvalidInput(problem, *error.remedies, index=error.index)
        name = None if self.path is None else self.path.name
        return with_file_name(error, self.file_name or name)


def with_file_name(error: InvalidInput, name: str | None) -> InvalidInput:
    """Return the error with the name of the file, unless the message has it already."""
    if name is None or isinstance(error, InvalidFile):
        return error
    return InvalidFile(f"{name!r}: {error.problem}", *error.remedies, index=error.index)


class ArraySource:
    """Rows of arrays in memory."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        values = arrays.get("probs", arrays.get("logits"))
        assert values is not None
        self.shape: tuple[int, int, int] = values.shape
        self.dtype = values.dtype
        self.fields = frozenset(arrays)
        self.row_group_starts: Sequence[int] = ()

    def chunks(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Arrays]:
        """Yield views of the rows."""
        for first in range(start, max(stop, start + 1), n):
            rows = slice(first, min(first + n, stop))
            yield {name: self.arrays[name][rows] for name in fields}

    def locate(self, row: int) -> None:
        """Return None: the number of a row identifies it."""


# -- checks of members and weights -----------------------------------------------------------------

_FLOATS = ("float16", "float32", "float64")


def checked_members(values: Any, name: str) -> np.ndarray:
    """Return floats ``(N, M, K)``; whether they are probabilities is not checked."""
    floats = validate.floating(values, name)
    _check_float(dtype_name(floats), name)
    array = native(to_numpy(floats))
    check_shape(array.shape, name)
    return array


def _check_float(dtype: str, name: str) -> None:
    if dtype not in _FLOATS:
        raise InvalidInput(
            f"{name} has dtype {dtype}, which some file formats cannot store; convert it "
            "to float32 or float64"
        )


def native(array: np.ndarray) -> np.ndarray:
    """Return the array in native byte order."""
    if array.dtype.isnative:
        return array
    return array.astype(array.dtype.newbyteorder("="))


def check_shape(shape: Sequence[int], name: str) -> None:
    """Raise unless the shape is ``(N, M, K)``, with at least one member and two classes."""
    if len(shape) != 3:
        n_rows, n_classes = shape if len(shape) == 2 else ("N", "K")
        raise InvalidInput(
            f"{name} has shape {tuple(shape)}; it must be (N, M, K): rows, members, classes; "
            f"predictions of one model have shape ({n_rows}, 1, {n_classes})"
        )
    validate.class_count(tuple(shape), name)
    validate.member_count(tuple(shape))


def checked_weights(weights: Any, shape: Sequence[int]) -> np.ndarray:
    """Return weights ``(M,)`` or ``(N, M)``; their values are checked where they are used."""
    n, m, _ = shape
    values = as_array(weights, "weights")
    if values.dtype.kind in "iu":
        values = values.astype(np.float64)
    if values.dtype.kind != "f":
        raise InvalidInput(f"weights are {values.dtype}; they must be floating-point numbers")
    _check_float(dtype_name(values), "weights")
    values = native(values)
    if values.shape not in {(m,), (n, m)}:
        raise InvalidInput(
            f"weights have shape {values.shape}; they must be ({m},), one per member, or ({n}, {m})"
        )
    return values
