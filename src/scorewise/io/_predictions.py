"""Predictions and what is known about their rows, in memory or in a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._receive import Options, Unchecked, receive_members
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.io._fields import (
    checked_ids,
    checked_labels,
    checked_members,
    checked_names,
    checked_weights,
)

CHUNK_BYTES = 8 << 20  # of predictions at a time: more than a cache, much less than memory

Fields = dict[str, np.ndarray]  # of "probs", "logits", "labels", "ids" and "weights", by row


class Source(Protocol):
    """Rows that can be read a part at a time."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """N, M, K."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the probabilities or logits."""

    @property
    def fields(self) -> frozenset[str]:
        """What is known of every row."""

    def parts(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Fields]:
        """The rows from ``start`` to ``stop``, at most ``n`` at a time; one empty part for none."""

    @property
    def joints(self) -> Sequence[int]:
        """Rows at which reading can begin without reading what is before, rising."""

    def place(self, row: int) -> str:
        """Where a row is, for a message."""


class Predictions:
    """Predictions of M members for N rows and K classes, and what is known about the rows.

    Use it to keep together what belongs together; :func:`scorewise.read_predictions` gives one
    whose rows are read from the file when they are asked for.

    Parameters
    ----------
    probs : array (N, M, K), optional
        Member probabilities; may be left out where there are logits.
    labels : array (N,), optional
        Class indices, or names of classes; −1 where a row has no label.
    ids : array (N,), optional
        Whole numbers or strings.
    class_names : sequence of K strings, optional
    weights : array (M,) or (N, M), optional
        Of the members.
    logits : array (N, M, K), optional
        What the probabilities were computed from.

    Attributes
    ----------
    shape : tuple of int
        N, M, K.
    dtype : numpy dtype
        Of the probabilities, or of the logits where there are only these.
    probs : array (N, M, K)
        A memory map where the file is a large ``.npy`` or ``.npz``; the softmax of the logits where
        there are no probabilities.
    logits, labels, ids, weights : arrays or None
    class_names : tuple of str or None
    fields : frozenset of str
        What there is for every row: ``"probs"``, ``"logits"``, ``"labels"``, ``"ids"``,
        ``"weights"``.

    Raises
    ------
    InvalidInput
        If shapes or kinds do not fit. Probabilities themselves are checked where they are used.

    Examples
    --------
    >>> import scorewise as sw
    >>> kept = sw.Predictions([[[0.9, 0.1], [0.8, 0.2]]], labels=["ill"],
    ...                       class_names=["well", "ill"])
    >>> kept
    Predictions(1 row, 2 members, 2 classes, float64, with labels, class_names)
    >>> kept.labels
    array([1])
    >>> sw.decompose(kept.samples, "zero-one").total
    array([0.15])
    """

    name: str | None = None  # of the file, for messages

    def __init__(
        self,
        probs: Any = None,
        *,
        labels: Any = None,
        ids: Any = None,
        class_names: Sequence[str] | None = None,
        weights: Any = None,
        logits: Any = None,
    ) -> None:
        if probs is None and logits is None:
            raise InvalidInput("there are neither probs nor logits")
        given = {"probs": probs, "logits": logits}
        arrays = {name: checked_members(x, name) for name, x in given.items() if x is not None}
        shape = next(iter(arrays.values())).shape
        if len({x.shape for x in arrays.values()}) > 1:
            raise InvalidInput(f"probs have shape {shape}, logits {arrays['logits'].shape}")
        names = checked_names(class_names, shape[-1])
        if labels is not None:
            arrays["labels"] = checked_labels(labels, shape, names)
        if ids is not None:
            arrays["ids"] = checked_ids(ids, shape[0])
        shared = None
        if weights is not None:
            w = checked_weights(weights, shape)
            if w.ndim == 1:
                shared = w
            else:
                arrays["weights"] = w
        self._set(InMemory(arrays), names, shared)

    @classmethod
    def of(
        cls,
        source: Source,
        class_names: tuple[str, ...] | None = None,
        member_weights: np.ndarray | None = None,
        name: str | None = None,
    ) -> Predictions:
        """Predictions whose rows are somewhere else."""
        made = object.__new__(cls)
        made.name = name
        made._set(source, class_names, member_weights)
        return made

    def _set(
        self, source: Source, class_names: tuple[str, ...] | None, member_weights: np.ndarray | None
    ) -> None:
        self.source = source
        self.class_names = class_names
        self.member_weights = member_weights  # (M,), the same for all rows

    def __repr__(self) -> str:
        n, m, k = self.shape
        also: list[str] = [name for name in ("logits", "labels", "ids") if name in self.fields]
        if self.class_names is not None:
            also.append("class_names")
        if self.member_weights is not None or "weights" in self.fields:
            also.append("weights")
        return (
            f"Predictions({n:,} row{'s' * (n != 1)}, {m} member{'s' * (m != 1)}, {k} classes, "
            f"{self.dtype}{', with ' * bool(also)}{', '.join(also)})"
        )

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, int, int]:
        """N, M, K."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the probabilities, or of the logits where there are only these."""
        return self.source.dtype

    @property
    def fields(self) -> frozenset[str]:
        """What there is for every row."""
        return self.source.fields

    def whole(self, name: str) -> np.ndarray | None:
        """One of the fields, of all rows, if there is such a field."""
        if name not in self.fields:
            return None
        if isinstance(self.source, InMemory):
            return self.source.arrays[name]
        parts = [
            p[name] for p in self.source.parts(frozenset({name}), 0, len(self), max(1, len(self)))
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @cached_property
    def logits(self) -> np.ndarray | None:
        """``(N, M, K)``, if there are any."""
        return self.whole("logits")

    @cached_property
    def probs(self) -> np.ndarray:
        """``(N, M, K)``."""
        found = self.whole("probs")
        return to_numpy(self.samples.probs) if found is None else found

    @cached_property
    def labels(self) -> np.ndarray | None:
        """Class indices ``(N,)``, −1 where a row has none; None where none has."""
        return self.whole("labels")

    @cached_property
    def ids(self) -> np.ndarray | None:
        """``(N,)``, integers or strings, if there are any."""
        return self.whole("ids")

    @cached_property
    def weights(self) -> np.ndarray | None:
        """Of the members, ``(M,)`` or ``(N, M)``, if there are any."""
        return self.whole("weights") if self.member_weights is None else self.member_weights

    @property
    def from_logits(self) -> bool:
        """Whether there are only logits."""
        return "probs" not in self.fields

    @cached_property
    def samples(self) -> Samples:
        """The same as :class:`scorewise.Samples`, checked."""
        return self.checked()

    def checked(self, *, normalize: bool = False) -> Samples:
        """The same as :class:`scorewise.Samples`, rescaled to sum to 1 on request."""
        try:
            return Samples.of(self.unchecked(0, normalize), self.weights)
        except InvalidInput as error:
            raise self.placed(error) from None

    @property
    def joints(self) -> Sequence[int]:
        """Rows at which reading can begin without reading what is before, rising."""
        return self.source.joints

    def place(self, row: int) -> str:
        """Where a row is, for a message: its file and row group, or its number."""
        return self.source.place(row)

    def chunks(
        self,
        n_rows: int | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        fields: Collection[str] | None = None,
    ) -> Iterator[Predictions]:
        """The same rows a part at a time, in memory; a file is read as far as it is asked for.

        Parameters
        ----------
        n_rows : int, optional
            At most so many at a time; some 8 MiB unless given. Without rows, one empty part.
        start, stop : int
            The first row, and the one after the last; all unless given.
        fields : collection of str
            What to read of the rows, of ``fields``; all unless given.

        Yields
        ------
        Predictions

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> kept = sw.Predictions(np.full((5, 3, 2), 0.5))
        >>> [len(part) for part in kept.chunks(2)]
        [2, 2, 1]
        """
        _, m, k = self.shape
        if n_rows is None:
            n_rows = max(1, CHUNK_BYTES // (m * k * self.dtype.itemsize))
        n_rows = validate.whole(n_rows, "n_rows", at_least=1)
        stop = len(self) if stop is None else validate.whole(stop, "stop", at_least=0)
        if not 0 <= validate.whole(start, "start", at_least=0) <= stop <= len(self):
            raise InvalidInput(f"start={start}, stop={stop}: there are {len(self)} rows, from 0 on")
        wanted = self.fields if fields is None else self.fields & frozenset(fields)
        for arrays in self.source.parts(wanted, start, stop, n_rows):
            yield Predictions.of(InMemory(arrays), self.class_names, self.member_weights)

    def checked_chunks(
        self, *, normalize: bool = False
    ) -> Iterator[tuple[int, Predictions, Samples]]:
        """Parts of the rows with the number of the first, checked; messages name places in all."""
        row = 0
        for part in self.chunks(fields=self.scored_fields):
            try:
                yield row, part, Samples.of(part.unchecked(row, normalize), part.weights)
            except InvalidInput as error:
                raise self.placed(error) from None
            row += len(part)

    @property
    def scored_fields(self) -> frozenset[str]:
        """What the uncertainty of a row comes from."""
        return frozenset({"logits" if self.from_logits else "probs", "weights"})

    def unchecked(self, first_row: int, normalize: bool) -> Unchecked:
        """The same as a kernel takes them, as rows from ``first_row`` on."""
        values = self.logits if self.from_logits else self.probs
        normalize = normalize and not self.from_logits  # a softmax sums to 1
        given = receive_members(values, Options(from_logits=self.from_logits, normalize=normalize))
        return given.block(given.values, (first_row,))

    def placed(self, error: InvalidInput) -> InvalidInput:
        """The message with the place in the file of the row that it names."""
        named = re.match(r"(?:probs|logits)\[(\d+)|weights\[(\d+), ", str(error))
        if named is None:
            return with_name(error, self.name)
        place = self.place(int(named[1] or named[2]))
        found = InvalidInput(f"{place}: {error}")
        return found if "'" in place else with_name(found, self.name)  # the file's name is quoted


def with_name(error: InvalidInput, name: str | None) -> InvalidInput:
    """The same message with the name of the file, if it has none."""
    if name is None or repr(name) in str(error):
        return error
    return InvalidInput(f"{name!r}: {error}")


class InMemory:
    """Arrays that are all there."""

    def __init__(self, arrays: Fields) -> None:
        self.arrays = arrays
        values = arrays.get("probs", arrays.get("logits"))
        assert values is not None
        self.shape: tuple[int, int, int] = values.shape
        self.dtype = values.dtype
        self.fields = frozenset(arrays)
        self.joints: Sequence[int] = ()

    def parts(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Fields]:
        """Views of the rows."""
        for first in range(start, max(stop, start + 1), n):
            rows = slice(first, min(first + n, stop))
            yield {name: self.arrays[name][rows] for name in fields}

    def place(self, row: int) -> str:
        """The number of the row."""
        return f"row {row}"
