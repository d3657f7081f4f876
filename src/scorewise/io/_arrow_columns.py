"""Arrow columns as arrays: tensors, nested lists, one column per member and class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scorewise.errors import InvalidInput
from scorewise.io._columns import (
    ID,
    LABEL,
    LOGITS,
    PROBS,
    WEIGHTS,
    Grid,
    grid_of,
    named_column,
    weight_columns,
)
from scorewise.io._fields import (
    UNLABELLED,
    ClassNames,
    check_shape,
    checked_ids,
    checked_labels,
    first_repeated,
    indices,
)
from scorewise.io._predictions import Fields

Place = Callable[[int], str]  # where a row of a batch is, for a message


class Columns:
    """Which columns of a table are which fields, and how to decode them.

    Parameters
    ----------
    schema : pa.Schema
    first_row : callable
        Gives one row of the table, to see how long nested lists are; None where there is none.
    class_names : tuple of str, optional
        From the table's metadata.
    by_hand : tuple of str, optional
        Names of the classes where neither the metadata nor the columns tell.
    """

    def __init__(
        self,
        schema: pa.Schema,
        first_row: Callable[[list[str]], pa.RecordBatch | None],
        class_names: ClassNames,
        by_hand: ClassNames,
    ) -> None:
        names = list(schema.names)
        twice = first_repeated(names)
        if twice is not None:
            raise InvalidInput(f"there are two columns {twice!r}")
        self._values: dict[str, _Tensors | _Nested | _Wide] = {}
        self._first_class = 0
        for field, known in (("probs", PROBS), ("logits", LOGITS)):
            column = named_column(names, known)
            if column is not None:
                self._values[field] = _one_column(schema.field(column), first_row)
            elif grid := grid_of(names, field):
                self._values[field] = _Wide(grid, _shared_type(schema, grid))
                class_names = class_names or grid.class_names
                self._first_class = grid.first_class
        if not self._values:
            there = ", ".join(names[:8]) + ", …" * (len(names) > 8)
            raise InvalidInput(
                "there is no column 'probs' or 'logits', and no column per member and class such "
                f"as 'probs_0_1' (of one model 'probs_0_cat'); there are {there or 'no columns'}"
            )
        self.class_names = class_names or by_hand
        self._labels = named_column(names, LABEL)
        self._ids = named_column(names, ID)
        self._weights = weight_columns(names)
        if not self._weights and (weights := named_column(names, WEIGHTS)) is not None:
            self._weights = [weights]

    @cached_property
    def fields(self) -> frozenset[str]:
        """What is known of every row."""
        beside = {"labels": self._labels, "ids": self._ids, "weights": self._weights}
        return frozenset(self._values) | {name for name, column in beside.items() if column}

    @property
    def shape(self) -> tuple[int, int]:
        """M, K."""
        return next(iter(self._values.values())).shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the probabilities or logits."""
        return next(iter(self._values.values())).dtype

    def needed(self, fields: frozenset[str]) -> list[str]:
        """The columns to read for some fields."""
        found = [c for name in self._values if name in fields for c in self._values[name].columns]
        for name, column in (("labels", self._labels), ("ids", self._ids)):
            if name in fields and column is not None:
                found.append(column)
        return found + self._weights * ("weights" in fields)

    def decode(self, batch: pa.RecordBatch, fields: frozenset[str], place: Place) -> Fields:
        """The rows of a batch as arrays."""
        found = {
            name: values.decode(batch, place)
            for name, values in self._values.items()
            if name in fields
        }
        shape = (batch.num_rows, *self.shape)
        if "labels" in fields:
            found["labels"] = self._decode_labels(batch.column(self._labels), shape, place)
        if "ids" in fields:
            found["ids"] = self._decode_ids(batch.column(self._ids), place)
        if "weights" in fields:
            found["weights"] = self._decode_weights(batch, place)
        return found

    def _decode_labels(self, column: pa.Array, shape: tuple[int, ...], place: Place) -> np.ndarray:
        column = _as_integers(_decoded(column))
        labels: np.ndarray
        if pa.types.is_integer(column.type) and not self._first_class:
            labels = pc.fill_null(column.cast(pa.int64()), UNLABELLED).to_numpy()
        elif pa.types.is_integer(column.type):
            labels = indices(column.to_pylist(), self._first_class)
        elif _is_text(column.type) or pa.types.is_null(column.type):
            labels = np.array(column.to_pylist(), dtype=object)
        else:
            raise InvalidInput(
                f"labels are of type {column.type}; they must be whole numbers or names of classes"
            )
        return checked_labels(
            labels, shape, self.class_names, lambda row: f"{place(row)}: the label"
        )

    def _decode_ids(self, column: pa.Array, place: Place) -> np.ndarray:
        column = _decoded(column)
        _refuse_nulls(column, "ids", place)
        if not (pa.types.is_integer(column.type) or _is_text(column.type)):
            raise InvalidInput(
                f"ids are of type {column.type}; they must be whole numbers or strings"
            )
        return checked_ids(column.to_numpy(zero_copy_only=False), len(column))

    def _decode_weights(self, batch: pa.RecordBatch, place: Place) -> np.ndarray:
        m = self.shape[0]
        if len(self._weights) > 1 or not _is_list(batch.schema.field(self._weights[0]).type):
            if len(self._weights) != m:
                raise InvalidInput(f"there are weights of {len(self._weights)} members, not {m}")
            return np.stack([_numbers(batch.column(w), w, place) for w in self._weights], axis=-1)
        column = batch.column(self._weights[0])
        flat = _flatten(column, m, lambda row: f"{place(row)}: weights")
        return _numbers(flat, "weights", lambda i: place(i // m)).reshape(-1, m)


@dataclass(frozen=True)
class _Tensors:
    """A column of tensors (M, K), in Arrow's own extension type."""

    columns: tuple[str]
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def decode(self, batch: pa.RecordBatch, place: Place) -> np.ndarray:
        name, (m, k) = self.columns[0], self.shape
        column = batch.column(name)
        _refuse_nulls(column, name, place)
        flat = column.storage.flatten()
        permutation = column.type.permutation  # of the axes as they are meant, if not as they lie
        swapped = permutation is not None and list(permutation) == [1, 0]

        def member(i: int) -> str:
            one = i % m if swapped else i % (m * k) // k
            return f"{place(i // (m * k))}, member {one}"

        _refuse_nulls(flat, name, member)
        values = flat.to_numpy().reshape(-1, *column.type.shape)
        return np.ascontiguousarray(values.transpose(0, 2, 1)) if swapped else np.asarray(values)


@dataclass(frozen=True)
class _Nested:
    """A column of lists of M lists of K numbers."""

    columns: tuple[str]
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def decode(self, batch: pa.RecordBatch, place: Place) -> np.ndarray:
        name, (m, k) = self.columns[0], self.shape
        members = _flatten(batch.column(name), m, lambda row: f"{place(row)}: {name}")

        def member(i: int) -> str:
            return f"{place(i // m)}, member {i % m}"

        flat = _flatten(members, k, lambda i: f"{member(i)}: {name}")
        return _numbers(flat, name, lambda i: member(i // k)).reshape(-1, m, k)


@dataclass(frozen=True)
class _Wide:
    """One column per member and class."""

    grid: Grid
    dtype: np.dtype[Any]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.grid.columns

    @property
    def shape(self) -> tuple[int, int]:
        return self.grid.shape

    def decode(self, batch: pa.RecordBatch, place: Place) -> np.ndarray:
        m, k = self.shape
        values = np.empty((batch.num_rows, m, k), self.dtype)
        for (i, j), name in zip(product(range(m), range(k)), self.columns, strict=True):
            values[:, i, j] = _numbers(batch.column(name), name, place)
        return values


def _one_column(
    field: pa.Field, first_row: Callable[[list[str]], pa.RecordBatch | None]
) -> _Tensors | _Nested:
    """How a column of predictions is laid out, from its type and, for lists, its first row."""
    name, kind = field.name, field.type
    if isinstance(kind, pa.FixedShapeTensorType):
        shape = list(kind.shape)
        if kind.permutation is not None:
            shape = [shape[axis] for axis in kind.permutation]
        check_shape((1, *shape), name)
        return _Tensors((name,), (shape[0], shape[1]), _dtype(kind.value_type, name))
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if not _is_list(kind) or not _is_list(kind.value_type):
        hint = "; for one model wrap each list in another" if _is_list(kind) else ""
        raise InvalidInput(
            f"column {name!r} is of type {kind}; each row must hold members and classes (M, K), as "
            f"a tensor or as lists of lists{hint}"
        )
    dtype = _dtype(kind.value_type.value_type, name)
    row = first_row([name])
    if row is None:
        if not (_is_fixed(kind) and _is_fixed(kind.value_type)):
            raise InvalidInput(
                f"column {name!r} is empty: nothing tells how many members there are"
            )
        lengths = (kind.list_size, kind.value_type.list_size)
    else:
        first = row.column(0)[0].as_py()
        if not first or not first[0]:
            raise InvalidInput(f"row 0 of column {name!r} is empty; it must hold members (M, K)")
        lengths = (len(first), len(first[0]))
    check_shape((1, *lengths), name)
    return _Nested((name,), lengths, dtype)


def _shared_type(schema: pa.Schema, grid: Grid) -> np.dtype[Any]:
    kinds = [_dtype(schema.field(name).type, name) for name in grid.columns]
    return np.dtype(np.result_type(*kinds))


def _dtype(kind: pa.DataType, name: str) -> np.dtype[Any]:
    if not pa.types.is_floating(kind):
        raise InvalidInput(
            f"column {name!r} holds {kind}; predictions must be floating-point numbers"
        )
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)) or _is_fixed(kind)


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _as_integers(labels: pa.Array) -> pa.Array:
    """Truth values, and whole numbers that pandas stores as floating-point ones to have gaps."""
    if pa.types.is_boolean(labels.type):
        return labels.cast(pa.int64())
    if pa.types.is_floating(labels.type):
        gaps = pc.if_else(pc.is_nan(labels), None, labels)
        if pc.all(pc.equal(gaps, pc.floor(gaps)), min_count=0).as_py():
            return gaps.cast(pa.int64())
    return labels


def _decoded(column: pa.Array) -> pa.Array:
    """What pandas stores as categories, or as views."""
    if pa.types.is_dictionary(column.type):
        column = pa.array(column.to_pylist())
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column


def _flatten(lists: pa.Array, length: int, place: Place) -> pa.Array:
    """What lists of one length hold."""
    if isinstance(lists.type, pa.BaseExtensionType):
        lists = lists.storage
    if lists.null_count:
        raise InvalidInput(f"{place(int(np.argmax(lists.is_null())))} is missing")
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    wrong = lengths != length
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InvalidInput(
            f"{place(i)} has {lengths[i]} entries, and the first row has {length}; all rows must "
            "have the same members and classes"
        )
    return lists.flatten()


def _numbers(values: pa.Array, name: str, place: Place) -> np.ndarray:
    _refuse_nulls(values, name, place)
    _dtype(values.type, name)
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _refuse_nulls(values: pa.Array, name: str, place: Place) -> None:
    if values.null_count:
        first = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidInput(f"{place(first)}: {name} is missing")
