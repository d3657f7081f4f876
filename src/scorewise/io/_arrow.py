"""Tables of predictions in Arrow's formats, read a part at a time, and written so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from scorewise.errors import InvalidInput
from scorewise.io._arrow_columns import Columns
from scorewise.io._fields import UNLABELLED, ClassNames, checked_names, checked_weights
from scorewise.io._predictions import Fields, Predictions, with_name

T = TypeVar("T")

_KEY = b"scorewise"  # in the schema's metadata: class names and the members' weights, as JSON


@dataclass(frozen=True)
class Piece:
    """Rows that are stored together: a row group of Parquet, a batch of Arrow.

    ``read(columns, n)`` gives its rows, at most n of them at a time.
    """

    name: str  # for messages
    n_rows: int
    read: Callable[[Sequence[str], int], Iterator[pa.RecordBatch]]


class Table:
    """A source of predictions in pieces."""

    def __init__(
        self, name: str, schema: pa.Schema, pieces: Sequence[Piece], class_names: ClassNames
    ) -> None:
        self._name, self._schema, self._pieces = name, schema, pieces
        self._ends = np.cumsum([piece.n_rows for piece in pieces], dtype=np.int64)
        told = _told(schema)
        self._columns = Columns(schema, self._first_row, told.class_names, class_names)
        m, k = self._columns.shape
        self.shape = (int(self._ends[-1]) if len(pieces) else 0, m, k)
        self.class_names = checked_names(self._columns.class_names, k)
        self.member_weights = None
        if told.weights is not None:
            self.member_weights = checked_weights(told.weights, (0, m, k))
        self.dtype = self._columns.dtype
        self.fields = self._columns.fields
        self.joints: Sequence[int] = self._ends[:-1].tolist()

    def _first_row(self, columns: list[str]) -> pa.RecordBatch | None:
        for piece in self._pieces:
            for batch in _whole_batches(piece, columns, 1):
                if batch.num_rows:
                    return batch
        return None

    def place(self, row: int) -> str:
        """The piece in which a row is stored, and its number there."""
        i = int(np.searchsorted(self._ends, row, side="right"))
        first = int(self._ends[i - 1]) if i else 0
        return f"row {row} ({self._pieces[i].name}, row {row - first} there)"

    def parts(self, fields: frozenset[str], start: int, stop: int, n: int) -> Iterator[Fields]:
        """The rows of one piece after the other."""
        columns = self._columns.needed(fields)
        if start >= stop:
            (nothing,) = self._schema.empty_table().select(columns).to_batches() or [
                pa.RecordBatch.from_pylist([], schema=pa.schema(map(self._schema.field, columns)))
            ]
            yield self._columns.decode(nothing, fields, self.place)
            return
        for i in range(int(np.searchsorted(self._ends, start, side="right")), len(self._pieces)):
            piece = self._pieces[i]
            row = int(self._ends[i]) - piece.n_rows
            if row >= stop:
                return
            for batch in _whole_batches(piece, columns, n):
                before, after = max(0, start - row), min(batch.num_rows, stop - row)
                if before < after:
                    yield self._decoded(batch.slice(before, after - before), fields, row + before)
                row += batch.num_rows
                if row >= stop:
                    break

    def _decoded(self, batch: pa.RecordBatch, fields: frozenset[str], first: int) -> Fields:
        """The rows of a batch, or where they are wrong."""
        try:
            return self._columns.decode(batch, fields, lambda row: self.place(first + row))
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise InvalidInput(f"{self.place(first)} and after: {_first_line(error)}") from None
        except InvalidInput as error:
            raise with_name(error, self._name) from None


def _whole_batches(piece: Piece, columns: Sequence[str], n: int) -> Iterator[pa.RecordBatch]:
    """The rows of a piece, or where it is damaged."""
    found = 0
    try:
        for batch in piece.read(columns, n):
            found += batch.num_rows
            yield batch
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None):  # the system's, not the file's fault
            raise
        raise InvalidInput(f"{piece.name} cannot be read: {_first_line(error)}") from None
    if found < piece.n_rows:
        raise InvalidInput(f"{piece.name} should have {piece.n_rows} rows, and {found} were read")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def told_of(schema: pa.Schema) -> bytes | None:
    """What the metadata of a schema says of all rows, as it is written."""
    return (schema.metadata or {}).get(_KEY)


def opened(name: str, kind: str, open_it: Callable[[], T]) -> T:
    """A file that has been opened, or what is wrong with it."""
    try:
        return open_it()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None):  # the system's, not the file's fault
            raise
        raise InvalidInput(
            f"{name!r} is no {kind} file, or it is cut off: {_first_line(error)}"
        ) from None


# -- the schema and its metadata -------------------------------------------------------------------


@dataclass(frozen=True)
class _Told:
    """What the metadata of a schema says of all rows."""

    class_names: tuple[str, ...] | None = None
    weights: np.ndarray | None = None


def _told(schema: pa.Schema) -> _Told:
    try:
        told = json.loads(told_of(schema) or b"{}")
        names, weights = told.get("class_names"), told.get("weights")
        if isinstance(names, str):
            raise TypeError("class_names are one text, not several")
        return _Told(
            None if names is None else tuple(map(str, names)),
            None if weights is None else np.array(weights["values"], np.dtype(weights["dtype"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInput(f"the metadata {_KEY.decode()!r} cannot be read: {error}") from None


def schema_of(predictions: Predictions) -> pa.Schema:
    """The columns that predictions are written to, and what holds for all rows."""
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
    told: dict[str, Any] = {}
    if predictions.class_names is not None:
        told["class_names"] = list(predictions.class_names)
    if predictions.member_weights is not None:
        weights = predictions.member_weights
        told["weights"] = {"values": weights.tolist(), "dtype": str(weights.dtype)}
    return pa.schema(columns, {_KEY: json.dumps(told)} if told else None)


def batches_of(predictions: Predictions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of predictions, a part at a time."""
    for part in predictions.chunks():
        yield pa.record_batch([_column(part, field) for field in schema], schema=schema)


def _column(part: Predictions, field: pa.Field) -> pa.Array:
    values = getattr(part, field.name)
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
