"""Predictions as callers pass them, and their conversion to rows that sum to 1."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import (
    COARSER,
    Array,
    Namespace,
    contiguous_rows,
    dtype_name,
    ignoring_errors,
    ignoring_overflow,
    is_array,
    is_compiled,
    is_frame,
    namespace,
    rounded_to,
    to_numpy,
    working_precision,
)
from scorewise._fields import check_same_names, checked_classes, checked_names
from scorewise._text import quoted
from scorewise.errors import InvalidInput, Remedy


def softmax(xp: Namespace, logits: Array) -> Array:
    """Return the softmax of logits along the last axis; -inf is an impossible class."""
    with ignoring_overflow(logits):  # a difference of -inf is a probability of exactly 0
        shifted = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return shifted / _sums(xp, shifted, 1.0)


def _sums(xp: Namespace, rows: Array, largest: Array | float) -> Array:
    """Return the sums ``(..., 1)`` of rows whose largest entries are known.

    The others are summed alone: beside a large entry they lose digits, and an error of the sum
    moves all probabilities of a row together, which cumulative sums show.
    """
    is_largest = xp.astype(rows == largest, rows.dtype)
    others = xp.sum(rows - largest * is_largest, axis=-1, keepdims=True)
    return largest * xp.sum(is_largest, axis=-1, keepdims=True) + others


@dataclass(frozen=True)
class StoredAs:
    """How predictions were stored before they became probabilities in working precision.

    Attributes
    ----------
    dtype : str
        Of the probabilities or logits: ``"float16"``, ``"bfloat16"``, ``"float32"`` or
        ``"float64"``.
    from_logits : bool
        Whether they were logits.
    normalized : bool
        Whether rows were rescaled to sum to 1.
    weights_dtype : str or None
        Of the members' weights, ``"float64"`` for whole numbers; None without weights.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> samples = sw.Samples(np.zeros((4, 2), np.float16), from_logits=True)
    >>> samples.stored_as.dtype, samples.stored_as.from_logits, samples.probs.dtype
    ('float16', True, dtype('float32'))
    """

    dtype: str
    from_logits: bool
    normalized: bool
    weights_dtype: str | None


_MANY_MEMBERS = 1000


@dataclass(frozen=True)
class RawPredictions:
    """Predictions as the caller passed them: class axis last, values not checked.

    Kernels start from them, so that they can check values and take a softmax in their single pass.
    """

    values: Array  # (..., K), a view of the caller's array in its own dtype
    layout: validate.Layout
    from_logits: bool = False
    normalize: bool = False
    check: bool = True
    rounded_dtype: str | None = None  # whose precision the values have, if theirs is finer
    classes: np.ndarray | None = None  # (K,), the labels of the classes; None if not known

    @property
    def dtype(self) -> str:
        """The dtype whose precision the values have."""
        return self.rounded_dtype or dtype_name(self.values)

    def stored_as(self, weights: Any) -> StoredAs:
        """Return how the values, and these weights of the members, are stored."""
        return StoredAs(self.dtype, self.from_logits, self.normalize, weights_dtype(weights))

    def rounded(self, weights: Any, stored_as: StoredAs) -> tuple[RawPredictions, Any]:
        """Return the predictions and their weights as arrays of these dtypes hold them."""
        dtype = stored_as.dtype
        rounded = replace(self, values=rounded_to(self.values, dtype), rounded_dtype=dtype)
        if weights is None or stored_as.weights_dtype is None:
            return rounded, weights
        return rounded, rounded_to(weights, stored_as.weights_dtype)

    def on_host(self) -> RawPredictions:
        """Return the predictions in NumPy; libraries differ in the last digit of a softmax."""
        values = to_numpy(working_precision(namespace(self.values), self.values))
        return replace(self, values=values, rounded_dtype=self.dtype)

    def probabilities(self) -> Array:
        """Return checked rows that sum to 1, in working precision."""
        self.check_logits()
        p = self.rows()
        if self.must_sum_to_one:
            xp = namespace(p)
            with ignoring_errors(p):
                sums = xp.sum(p, axis=-1)
            self.check_rows(p, sums)
        return p

    @property
    def must_sum_to_one(self) -> bool:
        """Whether rows are checked to be probabilities, as they are not made by a division."""
        return self.check and not (self.from_logits or self.normalize)

    def rows(self) -> Array:
        """Return rows that sum to 1, in working precision; those of logits are checked."""
        xp = namespace(self.values)
        p = working_precision(xp, self.values)
        if self.from_logits:
            if self.check:
                validate.logits(xp, p, self.layout)
            return softmax(xp, contiguous_rows(xp, p))
        if self.normalize:
            if self.check:
                validate.unnormalized(xp, p, self.layout)
            p = contiguous_rows(xp, p)
            return p / _sums(xp, p, xp.max(p, axis=-1, keepdims=True))
        return p

    def check_rows(self, p: Array, sums: Array) -> tuple[float | None, float]:
        """Raise unless the rows ``p`` with these sums are probabilities.

        Return how far sums are from 1, at most, and the smallest probability; None and −∞ where
        values cannot be read.
        """
        tolerance = validate.SUM_TOLERANCE[self.dtype]
        return validate.probabilities(namespace(p), p, sums, self.layout, tolerance)

    def check_logits(self) -> None:
        """Raise if these are logits, and every row is a probability distribution already.

        Of a file or a Dask array that is read in blocks, the first block decides: a later one may
        be a single row, which sums to 1 by chance.
        """
        if self.from_logits and self.check and not any(self.layout.origin):
            tolerance = validate.SUM_TOLERANCE[self.dtype]
            validate.not_probabilities(namespace(self.values), self.values, tolerance)

    def warn_of_many_members(self) -> None:
        """Warn if thousands of members of one row are more likely rows of one model."""
        shape = self.values.shape
        if not self.check or len(shape) != 2 or is_compiled(self.values):
            return
        if shape[0] >= _MANY_MEMBERS:
            name = self.layout.name
            validate.warn(
                f"{name} of shape {tuple(shape)} are read as {shape[0]:,} members of one row; if "
                f"they are {shape[0]:,} rows of one model, pass {name}[:, None]"
            )

    def normalized_weights(self, weights: Any) -> Array | None:
        """Return member weights that sum to 1, in working precision; None for equal weights."""
        if weights is None:
            return None
        xp = namespace(self.values)
        like = working_precision(xp, self.values[..., :1])
        return validate.normalized_weights(weights, like, self.layout, check=self.check)

    def block(self, values: Array, origin: tuple[int, ...]) -> RawPredictions:
        """Return a block from the instance ``origin`` on; errors use indices of the whole."""
        return replace(self, values=values, layout=replace(self.layout, origin=origin))


def weights_dtype(weights: Any) -> str | None:
    """Return the dtype of weights; they are scaled in float64, whatever that of the members."""
    if weights is None:
        return None
    name = dtype_name(weights if is_array(weights) else np.asarray(weights))
    return name if name in COARSER else "float64"


def raw_predictions(
    values: Any,
    layout: Callable[[int, str], validate.Layout],
    *,
    from_logits: bool = False,
    normalize: bool = False,
    check: bool = True,
    class_names: Any = None,
) -> RawPredictions:
    """Return raw predictions from an array or a list; only type and shape are checked."""
    if from_logits and normalize:
        raise InvalidInput("from_logits=True already normalises", Remedy("normalize", False))
    name = "logits" if from_logits else "probs"
    values = validate.floating(values, name)
    validate.known_chunks(values, name)
    axes = layout(values.ndim, name)
    values = axes.canonical(values)
    validate.class_count(values.shape, name)
    classes = checked_classes(class_names, values.shape[-1])
    return RawPredictions(values, axes, from_logits, normalize, check, None, classes)


@dataclass(frozen=True)
class InputOptions:
    """The options of users for the layout and the preparation of members."""

    member_axis: int = -2
    class_axis: int = -1
    from_logits: bool = False
    normalize: bool = False
    check: bool = True
    class_names: Any = None


def raw_members(values: Any, options: InputOptions) -> RawPredictions:
    """Return the raw predictions of members ``(..., M, K)``, whose axes may be anywhere."""
    if not is_array(values):
        values, options = _from_list(values, options)

    def layout(ndim: int, name: str) -> validate.Layout:
        return validate.layout_of_members(ndim, options.member_axis, options.class_axis, name)

    predictions = raw_predictions(
        values,
        layout,
        from_logits=options.from_logits,
        normalize=options.normalize,
        check=options.check,
        class_names=options.class_names,
    )
    validate.member_count(predictions.values.shape)
    return predictions


def _from_list(values: Any, options: InputOptions) -> tuple[Any, InputOptions]:
    """Return a list of members as one array with its options, and a list of numbers unchanged.

    Raises for what has predictions, or makes them.
    """
    name = "logits" if options.from_logits else "probs"
    class_names = options.class_names
    if isinstance(values, str | os.PathLike):
        raise InvalidInput(
            f"{quoted(os.fspath(values))} is not an array; for a file of predictions, pass "
            f"scorewise.read_predictions({quoted(os.fspath(values))})"
        )
    if hasattr(values, "predict") or hasattr(values, "state_dict"):
        raise InvalidInput(
            f"{type(values).__name__} is a model, not its predictions; pass "
            "scorewise.predict_samples(model, X)"
        )
    if hasattr(values, "samples"):
        raise InvalidInput("these are Predictions; pass their samples: predictions.samples")
    if _is_samples(values) or (isinstance(values, list | tuple) and any(map(_is_samples, values))):
        raise InvalidInput(
            "these are Samples already, with weights and classes of their own; use them as they "
            "are, or pass their probs"
        )
    if is_frame(values):
        rows = f"{name}.to_numpy()"
        raise InvalidInput(
            f"{name} is a data frame of shape {tuple(values.shape)}, which may be rows of one "
            f"model or members of one row; pass {rows}[:, None] for rows of one model, {rows} for "
            "members of one row, or a list of data frames, one for each member"
        )
    if not _is_list_of_members(values):
        return values, options
    if options.member_axis not in {-2, 0} or options.class_axis >= 0:
        raise InvalidInput(
            "a list of arrays is a list of members, whose axis becomes the first; to choose "
            "other axes, pass a single array made by numpy.stack"
        )
    values, columns = _stacked(values, name)
    if columns is not None and class_names is not None:
        names = checked_names(columns, len(columns))
        check_same_names(names, checked_names(class_names, len(columns)))
    class_names = columns if class_names is None else class_names
    return values, replace(options, member_axis=0, class_names=class_names)


def _have_same_rows(frame: Any, other: Any) -> bool:
    """Return whether two data frames have the same index, if they have any."""
    index, other_index = getattr(frame, "index", None), getattr(other, "index", None)
    return index is None or other_index is None or bool(index.equals(other_index))


def _is_samples(values: Any) -> bool:
    return hasattr(values, "probs") and hasattr(values, "weights")


def _is_list_of_members(values: Any) -> bool:
    if not isinstance(values, list | tuple) or not values:
        return False
    are_members = [(is_array(x) and x.ndim > 0) or is_frame(x) for x in values]
    if any(are_members) and not all(are_members):
        raise InvalidInput(
            "a list of arrays is a list of members, and some items of this list are no arrays; "
            "convert all of them"
        )
    return all(are_members)


def _stacked(members: Sequence[Any], name: str) -> tuple[Array, Any]:
    """Return an array with the members along its first axis, and the columns of data frames."""
    columns = [tuple(member.columns) if is_frame(member) else None for member in members]
    for i, member in enumerate(members):
        if tuple(member.shape) != tuple(members[0].shape):
            raise InvalidInput(
                f"{name}[{i}] has shape {tuple(member.shape)}, {name}[0] "
                f"{tuple(members[0].shape)}; a list of arrays is a list of members, which must "
                "have the same rows and classes"
            )
        if is_frame(member) and not _have_same_rows(member, members[0]):
            raise InvalidInput(
                f"the rows of {name}[{i}] have another index than those of {name}[0]; put the rows "
                "of all members in the same order"
            )
        if columns[i] != columns[0]:
            raise InvalidInput(
                f"the columns of {name}[{i}] differ from those of {name}[0]; put the classes of "
                "all members in the same order"
            )
    is_numbered = columns[0] is None or columns[0] == tuple(range(len(columns[0])))
    arrays = [validate.floating(m.to_numpy() if is_frame(m) else m, name) for m in members]
    try:
        return namespace(*arrays).stack(arrays), None if is_numbered else columns[0]
    except TypeError as error:
        raise InvalidInput(f"members of {name} are arrays of several libraries: {error}") from None


def classes_last(ndim: int, name: str) -> validate.Layout:
    """Return the layout of first-order predictions ``(..., K)``."""
    return validate.Layout(tuple(range(ndim)), name)


def apply_floor(p: Array, floor: float | None, n_classes: int | None = None) -> Array:
    """Return (1 − K·floor)·p + floor: probabilities ``(..., K)`` of which none is below the floor.

    Use it before a loss that is infinite at 0. If ``floor`` is None, ``p`` is returned unchanged.
    ``n_classes`` is K, for an array that has only some of the classes.
    """
    if floor is None:
        return p
    k = p.shape[-1] if n_classes is None else n_classes
    return (1 - k * validate.floor(floor, k)) * p + floor


def add_missing_classes(
    probs: np.ndarray, columns: np.ndarray | None, n_classes: int
) -> np.ndarray:
    """Return probabilities (..., K) of all classes, 0 for those that the member does not have."""
    if columns is None:
        return probs
    all_probs = np.zeros((*probs.shape[:-1], n_classes), probs.dtype)
    all_probs[..., columns] = probs
    return all_probs
