"""Tables of predictions in Arrow's memory format, which Arrow and Parquet files share.

A table has a column ``probs`` or ``logits`` of tensors or nested lists, or one column per member
and class. Class names and the members' weights are JSON in the schema's metadata.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scorewise import _validate as validate
from scorewise._fields import UNLABELLED, ClassNames, checked_ids, checked_names
from scorewise._numerics import evenly_spaced
from scorewise._text import one_line, quoted
from scorewise.errors import InvalidFile, InvalidInput, Remedy
from scorewise.io._columns import (
    ColumnGrid,
    are_numbers,
    labels_from,
    member_columns,
    no_predictions,
    weight_columns,
)
from scorewise.io._formats import TableReader
from scorewise.io._predictions import (
    Arrays,
    Predictions,
    check_shape,
    checked_weights,
    with_file_name,
)
from scorewise.io._read_options import ReadOptions, other_fields

LocateRow = Callable[[int], str]  # where a row of a batch is, for a message

_LABELS_AT_A_TIME = 1 << 20
_ROWS_AT_A_TIME = 1 << 14  # of text
_SHOWN_GROUPS, _SHOWN_ROWS = 4, 16  # whose lists show the numbers of members and classes
_KEY = b"scorewise"  # in the schema's metadata: class names and the members' weights, as JSON


# -- reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowGroup:
    """Rows that are stored together: a row group of Parquet, a record batch of Arrow.

    ``read(columns, n)`` yields them, at most n at a time.
    """

    name: str  # for messages
    n_rows: int
    read: Callable[[Sequence[str], int], Iterator[pa.RecordBatch]]


def without_rows(groups: Sequence[RowGroup], left_out: np.ndarray) -> list[RowGroup]:
    """Return row groups without some rows, whose numbers count over all groups and rise."""
    reduced_groups, first = [], 0
    for group in groups:
        inside = left_out[(left_out >= first) & (left_out < first + group.n_rows)] - first
        first += group.n_rows
        if len(inside):
            n_rows = group.n_rows - len(inside)
            # a group without rows is not read: perhaps it cannot be
            read = partial(_other_rows, group.read, inside) if n_rows else _no_rows
            group = RowGroup(group.name, n_rows, read)
        reduced_groups.append(group)
    return reduced_groups


def _no_rows(columns: Sequence[str], n: int) -> Iterator[pa.RecordBatch]:
    return iter(())


def _other_rows(
    read: Callable[[Sequence[str], int], Iterator[pa.RecordBatch]],
    left_out: np.ndarray,
    columns: Sequence[str],
    n: int,
) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in read(columns, n):
        rows = np.arange(first, first + batch.num_rows)
        first += batch.num_rows
        is_kept = ~np.isin(rows, left_out, assume_unique=True)
        if not is_kept.all():
            batch = batch.take(pa.array(np.flatnonzero(is_kept)))
        if batch.num_rows:
            yield batch


def original_number(row: int, left_out: np.ndarray) -> int:
    """Return the number that a row has in the file, with the rows that are left out."""
    n_before = np.searchsorted(left_out - np.arange(len(left_out)), row, side="right")
    return int(row + n_before)


def read_group(
    name: str, group: RowGroup, columns: Sequence[str], n: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a group of the file ``name``; raise InvalidFile if it is damaged."""
    place = f"{name!r}: {group.name}"
    n_read = 0
    with raise_if_damaged(f"{place} cannot be read"):
        for batch in group.read(columns, n):
            n_read += batch.num_rows
            yield batch
    if n_read < group.n_rows:
        raise InvalidFile(f"{place} should have {group.n_rows} rows, and {n_read} were read")


def table_reader(name: str, schema: pa.Schema, groups: Sequence[RowGroup]) -> TableReader:
    """Return the columns of the file ``name``, whose rows are read when they are used."""

    def rows(columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for group in groups:
            for batch in read_group(name, group, columns, _ROWS_AT_A_TIME):
                values = (batch.column(column).to_pylist() for column in columns)
                yield from zip(*values, strict=True)

    return TableReader(schema.names, rows)


class ArrowSource:
    """The rows of an Arrow or Parquet table, read by row groups.

    Of some rows of a table, ``place`` says where a row is in the whole table. If rows were left
    out of the groups, ``original`` returns the number that a row has in the file. ``shape`` is that
    of a row (M, K) if it is known; otherwise lists have the most common shape of some rows.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        groups: Sequence[RowGroup],
        options: ReadOptions,
        place: LocateRow | None = None,
        original: Callable[[int], int] | None = None,
        shape: tuple[int, int] | None = None,
    ) -> None:
        self._name, self._schema, self._groups = name, schema, groups
        self._original = original
        self._place = place or (lambda row: f"row {row} ({self.locate(row)})")
        self._ends = np.cumsum([group.n_rows for group in groups], dtype=np.int64)
        names, weights, labels_are = _metadata(schema)
        self._columns = ColumnDecoder(
            schema, self._first_rows, self._different_labels, names, labels_are, options, shape
        )
        m, k = self._columns.shape
        self.shape = (int(self._ends[-1]) if len(groups) else 0, m, k)
        self.class_names = checked_names(self._columns.class_names, k)
        self.member_weights = None if weights is None else checked_weights(weights, (0, m, k))
        self.dtype = self._columns.dtype
        self.fields = self._columns.fields
        self.labels_depend_on_all_rows = self._columns.labels_depend_on_all_rows
        self.row_group_starts: Sequence[int] = self._ends[:-1].tolist()

    def predictions(self) -> Predictions:
        """Return the predictions, with class names and weights."""
        return Predictions.from_source(self, self.class_names, self.member_weights)

    def _first_rows(self, column: str) -> list[pa.Array]:
        """Return the first values of a column in some row groups, of those that can be read."""
        groups = [group for group in self._groups if group.n_rows]
        values, problem = [], None
        for i in evenly_spaced(len(groups), _SHOWN_GROUPS):
            try:
                values.append(next(self._batches(groups[i], [column], _SHOWN_ROWS)).column(0))
            except InvalidFile as error:
                problem = problem or error
        if problem is not None and not values:
            raise problem
        return values

    def _different_labels(self, column: str) -> list[Any]:
        """Return each label of the table once."""
        return list(
            {
                label
                for group in self._groups
                for batch in self._batches(group, [column], _LABELS_AT_A_TIME)
                for label in pc.unique(_plain_values(batch.column(0))).to_pylist()
                if label is not None
            }
        )

    def locate(self, row: int) -> str:
        """Return the row group of a row, and its index in the group; or its number in the file."""
        if self._original is not None:
            return f"row {self._original(row)} of the file, with its invalid rows"
        i = int(np.searchsorted(self._ends, row, side="right"))
        first = int(self._ends[i - 1]) if i else 0
        return f"row {row - first} of {self._groups[i].name}"

    def chunks(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Arrays]:
        """Yield the rows, one group after the other."""
        columns = self._columns.needed(fields)
        if start >= stop:
            (empty,) = self._schema.empty_table().select(columns).to_batches() or [
                pa.RecordBatch.from_pylist([], schema=pa.schema(map(self._schema.field, columns)))
            ]
            yield self._columns.decode(empty, fields, self._place)
            return
        for i in range(int(np.searchsorted(self._ends, start, side="right")), len(self._groups)):
            group = self._groups[i]
            row = int(self._ends[i]) - group.n_rows
            if row >= stop:
                return
            for batch in self._batches(group, columns, n):
                first, last = max(0, start - row), min(batch.num_rows, stop - row)
                if first < last:
                    yield from self._decoded(batch.slice(first, last - first), fields, row + first)
                row += batch.num_rows
                if row >= stop:
                    break

    def _decoded(
        self, batch: pa.RecordBatch, fields: frozenset[str], first: int
    ) -> Iterator[Arrays]:
        """Yield the arrays of a batch; before an error, those of the rows before it."""
        try:
            arrays = self._decode(batch, fields, first)
        except InvalidInput as error:
            of_all = error
        else:
            yield arrays
            return

        def error_of(n_rows: int) -> InvalidInput | None:
            try:
                self._decode(batch.slice(0, n_rows), fields, first)
            except InvalidInput as error:
                return error
            return None

        n_valid = bisect_left(range(1, batch.num_rows), True, key=lambda n: bool(error_of(n)))
        if n_valid:
            yield self._decode(batch.slice(0, n_valid), fields, first)
        of_first = error_of(n_valid + 1)
        if of_first is None or of_first.problem == of_all.problem:
            raise of_all  # with the remedies that all rows suggest
        raise of_first

    def _decode(self, batch: pa.RecordBatch, fields: frozenset[str], first: int) -> Arrays:
        """Return the arrays of a batch; errors name the file and the row."""
        try:
            with raise_if_damaged(f"{self._name!r}: {self._place(first)} and after"):
                return self._columns.decode(batch, fields, lambda row: self._place(first + row))
        except InvalidInput as error:
            raise with_file_name(error, self._name) from None

    def _batches(self, group: RowGroup, columns: Sequence[str], n: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group."""
        return read_group(self._name, group, columns, n)


@contextmanager
def raise_if_damaged(problem: str) -> Iterator[None]:
    """Raise InvalidFile with the problem, and Arrow's reason, if Arrow cannot read the file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None):  # an error of the system, not of the file
            raise
        raise InvalidFile(f"{problem}: {one_line(error)}") from None


def metadata_of(schema: pa.Schema) -> bytes | None:
    """Return the metadata that scorewise writes, class names and weights as JSON; None if none."""
    return (schema.metadata or {}).get(_KEY)


def _metadata(schema: pa.Schema) -> tuple[ClassNames, np.ndarray | None, str | None]:
    """Return class names, the members' weights and what labels are, from a schema's metadata."""
    try:
        metadata = json.loads(metadata_of(schema) or b"{}")
        names, weights = metadata.get("class_names"), metadata.get("weights")
        if isinstance(names, str):
            raise TypeError("class_names is a string, not a list")
        return (
            None if names is None else tuple(map(str, names)),
            None if weights is None else np.array(weights["values"], np.dtype(weights["dtype"])),
            metadata.get("labels_are"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInput(f"the metadata {_KEY.decode()!r} cannot be read: {error}") from None


# -- columns as arrays -----------------------------------------------------------------------------


class ColumnDecoder:
    """The columns of each field of a table, and how to decode them.

    Parameters
    ----------
    schema : pa.Schema
    first_rows : callable
        Returns some values of a column, whose most common lengths are those of all lists.
    different_labels : callable
        Returns each label of a column once.
    class_names : tuple of str, optional
        From the table's metadata.
    labels_are : str, optional
        From the table's metadata: whether labels are names or indices.
    options : ReadOptions
        The class names are used where neither the metadata nor the columns have names.
    shape : tuple of int, optional
        Members and classes (M, K) of lists, if they are known.
    """

    def __init__(
        self,
        schema: pa.Schema,
        first_rows: Callable[[str], list[pa.Array]],
        different_labels: Callable[[str], list[Any]],
        class_names: ClassNames,
        labels_are: str | None,
        options: ReadOptions,
        shape: tuple[int, int] | None,
    ) -> None:
        names = list(schema.names)
        duplicate = validate.first_repeated(names)
        if duplicate is not None:
            raise InvalidInput(f"there are two columns {quoted(duplicate)}")
        self._values: dict[str, _TensorColumn | _ListColumn | _GridColumns] = {}
        self._first_class = 0
        for field, columns in member_columns(names, options).items():
            if isinstance(columns, str):
                column = schema.field(columns)
                self._values[field] = _member_column(column, first_rows, options.one_model, shape)
            else:
                self._values[field] = _GridColumns(columns, _shared_type(schema, columns))
                class_names = class_names or columns.class_names
                self._first_class = columns.first_class
        if not self._values:
            numeric = [field.name for field in schema if pa.types.is_floating(field.type)]
            problem = (
                "there is no column 'probs' or 'logits', and no column per member and class such "
                "as 'probs_0_1'; it has"
            )
            raise no_predictions(names, numeric, options, problem)
        self.class_names = class_names or options.class_names
        others = other_fields(names, options)
        self._labels, self._ids = others.get("labels"), others.get("ids")
        self._weights = weight_columns(names)
        if not self._weights and "weights" in others:
            self._weights = [others["weights"]]
        is_own = options.labels is None and options.labels_are is None
        self._stored_labels_are = labels_are if is_own else options.labels_are
        has_numbers = self._labels is not None and not _is_text(schema.field(self._labels).type)
        self.labels_depend_on_all_rows = (
            has_numbers and self._stored_labels_are is None and are_numbers(self.class_names)
        )
        self._different_labels = different_labels

    @cached_property
    def fields(self) -> frozenset[str]:
        """The fields that every row has."""
        others = {"labels": self._labels, "ids": self._ids, "weights": self._weights}
        return frozenset(self._values) | {name for name, column in others.items() if column}

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of members and classes (M, K)."""
        return next(iter(self._values.values())).shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the probabilities or logits."""
        return next(iter(self._values.values())).dtype

    def needed(self, fields: frozenset[str]) -> list[str]:
        """Return the columns to read for some fields."""
        columns = [c for name in self._values if name in fields for c in self._values[name].columns]
        for name, column in (("labels", self._labels), ("ids", self._ids)):
            if name in fields and column is not None:
                columns.append(column)
        return columns + self._weights * ("weights" in fields)

    def decode(self, batch: pa.RecordBatch, fields: frozenset[str], locate: LocateRow) -> Arrays:
        """Return the rows of a batch as arrays."""
        arrays = {
            name: values.decode(batch, locate)
            for name, values in self._values.items()
            if name in fields
        }
        shape = (batch.num_rows, *self.shape)
        if "labels" in fields:
            arrays["labels"] = self._decode_labels(batch.column(self._labels), shape, locate)
        if "ids" in fields:
            arrays["ids"] = self._decode_ids(batch.column(self._ids), locate)
        if "weights" in fields:
            arrays["weights"] = self._decode_weights(batch, locate)
        return arrays

    def _decode_labels(
        self, column: pa.Array, shape: tuple[int, ...], locate: LocateRow
    ) -> np.ndarray:
        if self._labels_are == "indices" and pa.types.is_integer(column.type):
            column = pc.fill_null(column.cast(pa.int64()), UNLABELLED)
        return labels_from(
            _label_values(column),
            shape,
            self.class_names,
            self._first_class,
            self._labels_are,
            lambda row: f"{locate(row)}: the label",
        )

    @cached_property
    def _labels_are(self) -> str | None:
        """What labels are, which all rows decide and not only those of a chunk."""
        if self._stored_labels_are is not None or self._labels is None:
            return self._stored_labels_are
        labels = np.array(self._different_labels(self._labels))
        if labels.dtype.kind not in "iufb":  # names, or no labels at all
            return None
        shape = (len(labels), *self.shape)
        try:
            indices = labels_from(
                labels, shape, self.class_names, self._first_class, None, lambda _: "a label"
            )
        except InvalidInput as error:
            if any(remedy.argument == "labels_are" for remedy in error.remedies):
                raise
            return None  # the chunk with the wrong label raises, and says where it is
        return "indices" if (indices == labels).all() else "names"

    def _decode_ids(self, column: pa.Array, locate: LocateRow) -> np.ndarray:
        column = _plain_values(column)
        _refuse_nulls(column, "ids", locate)
        if not (pa.types.is_integer(column.type) or _is_text(column.type)):
            raise InvalidInput(
                f"ids are of type {column.type}; they must be whole numbers or strings"
            )
        return checked_ids(column.to_numpy(zero_copy_only=False), len(column))

    def _decode_weights(self, batch: pa.RecordBatch, locate: LocateRow) -> np.ndarray:
        m = self.shape[0]
        if len(self._weights) > 1 or not _is_list(batch.schema.field(self._weights[0]).type):
            if len(self._weights) != m:
                raise InvalidInput(f"there are weights of {len(self._weights)} members, not {m}")
            return np.stack([_numbers(batch.column(w), w, locate) for w in self._weights], axis=-1)
        column = batch.column(self._weights[0])
        flat = _flatten(column, m, lambda row: f"{locate(row)}: weights")
        return _numbers(flat, "weights", lambda i: locate(i // m)).reshape(-1, m)


@dataclass(frozen=True)
class _TensorColumn:
    """A column of tensors (M, K), in Arrow's extension type."""

    columns: tuple[str]
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def decode(self, batch: pa.RecordBatch, locate: LocateRow) -> np.ndarray:
        name, (m, k) = self.columns[0], self.shape
        column = batch.column(name)
        _refuse_nulls(column, name, locate)
        flat = column.storage.flatten()
        permutation = column.type.permutation  # the logical order of the axes, if set
        swapped = permutation is not None and list(permutation) == [1, 0]

        def member(i: int) -> str:
            number = i % m if swapped else i % (m * k) // k
            return f"{locate(i // (m * k))}, member {number}"

        _refuse_nulls(flat, name, member)
        if swapped:
            return np.ascontiguousarray(flat.to_numpy().reshape(-1, k, m).transpose(0, 2, 1))
        return np.asarray(flat.to_numpy().reshape(-1, m, k))


@dataclass(frozen=True)
class _ListColumn:
    """A column of lists of M lists of K numbers, or of lists of K numbers."""

    columns: tuple[str]
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_nested: bool

    def decode(self, batch: pa.RecordBatch, locate: LocateRow) -> np.ndarray:
        name, (m, k) = self.columns[0], self.shape
        members = batch.column(name)
        if self.is_nested:
            members = _flatten(members, m, lambda row: f"{locate(row)}: {name}")

        def member(i: int) -> str:
            return f"{locate(i // m)}, member {i % m}"

        flat = _flatten(members, k, lambda i: f"{member(i)}: {name}")
        return _numbers(flat, name, lambda i: member(i // k)).reshape(-1, m, k)


@dataclass(frozen=True)
class _GridColumns:
    """One column per member and class."""

    grid: ColumnGrid
    dtype: np.dtype[Any]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.grid.columns

    @property
    def shape(self) -> tuple[int, int]:
        return self.grid.shape

    def decode(self, batch: pa.RecordBatch, locate: LocateRow) -> np.ndarray:
        m, k = self.shape
        values = np.empty((batch.num_rows, m, k), self.dtype)
        for (i, j), name in zip(product(range(m), range(k)), self.columns, strict=True):
            values[:, i, j] = _numbers(batch.column(name), name, locate)
        return values


def _member_column(
    field: pa.Field,
    first_rows: Callable[[str], list[pa.Array]],
    one_model: bool,
    shape: tuple[int, int] | None,
) -> _TensorColumn | _ListColumn:
    """The layout of a column of predictions, from its type and, for lists, their lengths."""
    name, kind = field.name, field.type
    if isinstance(kind, pa.FixedShapeTensorType):
        stored = list(kind.shape)
        order = range(len(stored)) if kind.permutation is None else kind.permutation
        shape = _members_and_classes([stored[axis] for axis in order], name, one_model)
        return _TensorColumn((name,), shape, _dtype(kind.value_type, name))
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if not _is_list(kind):
        raise InvalidInput(
            f"column {quoted(name)} is of type {kind}; each row must hold members and classes "
            "(M, K), as a tensor or as lists of lists"
        )
    is_nested = _is_list(kind.value_type)
    dtype = _dtype(kind.value_type.value_type if is_nested else kind.value_type, name)
    if shape is None:
        lengths = _fixed_lengths(kind) or _common_lengths(first_rows(name), name, is_nested)
        shape = _members_and_classes(lengths, name, one_model)
    return _ListColumn((name,), shape, dtype, is_nested)


def _fixed_lengths(kind: pa.DataType) -> tuple[int, ...] | None:
    """The lengths of lists that their type fixes; None if it does not fix all of them."""
    if not _is_list(kind):
        return ()
    inner = _fixed_lengths(kind.value_type)
    return (kind.list_size, *inner) if _is_fixed(kind) and inner is not None else None


def _common_lengths(columns: Sequence[pa.Array], name: str, is_nested: bool) -> tuple[int, ...]:
    """The most common lengths of lists, of the first in a row if they are nested."""
    counts = Counter(lengths for column in columns for lengths in _lengths(column, is_nested))
    if counts:
        return counts.most_common(1)[0][0]
    if columns:
        raise InvalidInput(f"row 0 of column {quoted(name)} is empty; it must hold members (M, K)")
    raise InvalidInput(f"column {quoted(name)} is empty, so the number of members is unknown")


def _lengths(column: pa.Array, is_nested: bool) -> Iterator[tuple[int, ...]]:
    """Yield the lengths of the lists in each row that is not empty."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    of_rows = pc.fill_null(pc.list_value_length(column), 0).to_pylist()
    if not is_nested:
        yield from ((length,) for length in of_rows if length)
        return
    of_members = pc.fill_null(pc.list_value_length(column.flatten()), 0).to_pylist()
    first = 0
    for length in of_rows:
        if length and of_members[first]:
            yield length, of_members[first]
        first += length


def _members_and_classes(shape: Sequence[int], name: str, one_model: bool) -> tuple[int, int]:
    """Return the shape (M, K) of a row, which is (K,) for one model if the user says so."""
    if len(shape) == 1 and not one_model:
        raise InvalidInput(
            f"each row of {quoted(name)} holds {shape[0]} numbers, and no members; it must hold "
            "members and classes (M, K)",
            Remedy("one_model", True, f"if these are the {shape[0]} classes of one model"),
        )
    m, k = (1, *shape) if len(shape) == 1 else shape
    check_shape((1, m, k), name)
    if one_model and m != 1:
        raise InvalidInput(
            f"each row of {quoted(name)} holds {m} members", Remedy("one_model", False)
        )
    return m, k


def _shared_type(schema: pa.Schema, grid: ColumnGrid) -> np.dtype[Any]:
    kinds = [_dtype(schema.field(name).type, name) for name in grid.columns]
    return np.dtype(np.result_type(*kinds))


def _dtype(kind: pa.DataType, name: str) -> np.dtype[Any]:
    if not pa.types.is_floating(kind):
        raise InvalidInput(
            f"column {quoted(name)} holds {kind}; predictions must be floating-point numbers"
        )
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)) or _is_fixed(kind)


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _label_values(column: pa.Array) -> np.ndarray:
    """Return labels as an array: numbers, or objects if they are names or some are missing."""
    column = _plain_values(column)
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not (is_number or _is_text(kind) or pa.types.is_null(kind)):
        raise InvalidInput(
            f"labels are of type {kind}; they must be whole numbers or names of classes"
        )
    if is_number and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.array(column.to_pylist(), dtype=object)


def _plain_values(column: pa.Array) -> pa.Array:
    """The plain values of a column that pandas stores as categories or string views."""
    if pa.types.is_dictionary(column.type):
        column = pa.array(column.to_pylist())
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column


def _flatten(lists: pa.Array, length: int, locate: LocateRow) -> pa.Array:
    """The values of lists, which must all have the same length."""
    if isinstance(lists.type, pa.BaseExtensionType):
        lists = lists.storage
    if lists.null_count:
        raise InvalidInput(f"{locate(int(np.argmax(lists.is_null())))} is missing")
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    wrong = lengths != length
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InvalidInput(
            f"{locate(i)} has {lengths[i]} entries, not {length}; all rows must have the same "
            "members and classes"
        )
    return lists.flatten()


def _numbers(values: pa.Array, name: str, locate: LocateRow) -> np.ndarray:
    _refuse_nulls(values, name, locate)
    _dtype(values.type, name)
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _refuse_nulls(values: pa.Array, name: str, locate: LocateRow) -> None:
    if values.null_count:
        first = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidInput(f"{locate(first)}: {name} is missing")


# -- writing ---------------------------------------------------------------------------------------


def schema_of(predictions: Predictions) -> pa.Schema:
    """Return the columns and the metadata of the file to write."""
    _, m, k = predictions.shape
    first = next(predictions.chunks(1))
    columns = []
    if first.ids is not None:
        kind = pa.string() if first.ids.dtype == object else pa.int64()
        columns.append(pa.field("ids", kind, nullable=False))
    if first.labels is not None:
        columns.append(pa.field("labels", pa.int64()))
    for name in ("probs", "logits"):
        if name in first.fields:
            value = pa.from_numpy_dtype(getattr(first, name).dtype)
            tensor = pa.fixed_shape_tensor(value, [m, k], dim_names=["member", "class"])
            columns.append(pa.field(name, tensor))
    if "weights" in first.fields and first.weights is not None:
        kind = pa.from_numpy_dtype(first.weights.dtype)
        columns.append(pa.field("weights", pa.list_(kind, m)))
    metadata: dict[str, Any] = {}
    if predictions.class_names is not None:
        metadata["class_names"] = list(predictions.class_names)
    if predictions.has_ambiguous_labels:
        metadata["labels_are"] = "indices"
    if predictions.member_weights is not None:
        weights = predictions.member_weights
        metadata["weights"] = {"values": weights.tolist(), "dtype": str(weights.dtype)}
    return pa.schema(columns, {_KEY: json.dumps(metadata)})


def batches_of(predictions: Predictions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of predictions, a chunk at a time."""
    for chunk in predictions.chunks():
        yield pa.record_batch([_column(chunk, field) for field in schema], schema=schema)


def _column(chunk: Predictions, field: pa.Field) -> pa.Array:
    values = getattr(chunk, field.name)
    if field.name == "labels":
        return pa.array(values, mask=values == UNLABELLED)
    if field.name == "ids":
        return pa.array(values, field.type)
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    if field.name == "weights":
        return pa.FixedSizeListArray.from_arrays(flat, field.type.list_size)
    size = int(np.prod(field.type.shape))
    storage = pa.FixedSizeListArray.from_arrays(flat, size)
    return pa.ExtensionArray.from_storage(field.type, storage)
