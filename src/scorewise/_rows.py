"""Predictions for rows, with or without labels, as the tasks receive them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, is_array, namespace, to_numpy, working_precision
from scorewise._fields import UNLABELLED, as_array, checked_ids, checked_labels, checked_names
from scorewise._inputs import InputOptions, RawPredictions, StoredAs, raw_members
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.io import Predictions

_CHUNK_ELEMENTS = 1 << 21  # probabilities that are converted at a time


@dataclass(frozen=True, eq=False)
class LabelledSamples:
    """Samples with the labels and ids of their rows, and the names of the classes."""

    samples: Samples
    labels: np.ndarray
    ids: np.ndarray | None
    class_names: tuple[str, ...]


def receive_labelled(
    predictions: Any,
    y: Any,
    options: dict[str, Any],
    *,
    ids: Any = None,
    class_names: Sequence[str] | None = None,
    on_host: bool = False,
) -> LabelledSamples:
    """Return checked predictions and labels; arguments take precedence over those of a file."""
    if isinstance(predictions, Predictions):
        y = predictions.labels if y is None else y
        ids = predictions.ids if ids is None else ids
        class_names = predictions.class_names if class_names is None else class_names
    samples = receive_samples(predictions, "predictions", options, on_host=on_host)
    if not len(samples.probs):
        raise InvalidInput("there are no rows")
    if y is None:
        raise InvalidInput(
            "the predictions have no labels", Remedy("y", ..., "the labels of the rows")
        )
    shape = samples.probs.shape
    names = checked_names(class_names, shape[-1])
    labels = checked_labels(y, shape, names)
    missing = labels == UNLABELLED
    if missing.any():
        first = int(np.argmax(missing))
        where = f" ({predictions.locate(first)})" if isinstance(predictions, Predictions) else ""
        raise InvalidInput(
            f"labels[{first}]{where} is missing; {int(missing.sum())} of {len(labels)} rows "
            "have no label, and each row needs one here"
        )
    return LabelledSamples(
        samples,
        labels,
        None if ids is None else checked_ids(ids, shape[0]),
        names or tuple(str(k) for k in range(shape[-1])),
    )


def receive_samples(
    predictions: Any, name: str, options: dict[str, Any], *, on_host: bool = False
) -> Samples:
    """Return Samples (n, M, K) from the predictions of a file, an array, or Samples."""
    distribution = receive_rows(predictions, name, options, on_host=on_host)
    if not isinstance(distribution, Samples):
        raise InvalidInput(f"{name} must have members (n, M, K), which a Dirichlet does not have")
    return distribution


def receive_rows(
    predictions: Any, name: str, options: dict[str, Any], *, on_host: bool = False
) -> Samples | Dirichlet:
    """Return predictions for rows; arrays take the options of :class:`scorewise.Samples`.

    With ``on_host``, NumPy converts arrays of all libraries, so that all digits are the same.
    """
    validate.known_options(options, validate.options_of(Samples))
    if isinstance(predictions, Predictions):
        _refuse(set(options) - {"normalize"}, predictions)
        return predictions.to_samples(**options)
    if isinstance(predictions, Samples | Dirichlet):
        _refuse(set(options), predictions)
        array_ndim = (
            predictions.probs.ndim
            if isinstance(predictions, Samples)
            else predictions.alpha.ndim + 1
        )
        _check_rows(array_ndim, name)
        return predictions
    return RawRows.of(predictions, name, options, on_host=on_host).samples()


def receive_raw_rows(
    predictions: Any, name: str, options: dict[str, Any], *, on_host: bool
) -> Predictions | Samples | RawRows:
    """Return rows (n, M, K) that can still be rounded, or Samples; options as above."""
    if isinstance(predictions, Predictions):
        _refuse(set(options) - {"normalize"}, predictions)
        return predictions
    if isinstance(predictions, Samples | Dirichlet):
        return receive_samples(predictions, name, options)
    return RawRows.of(predictions, name, options, on_host=on_host)


@dataclass(frozen=True, eq=False)
class RawRows:
    """Rows (n, M, K) and the weights of their members, as arrays that the caller passed."""

    raw: RawPredictions
    weights: Array | None
    on_host: bool

    @classmethod
    def of(cls, values: Any, name: str, options: dict[str, Any], *, on_host: bool) -> RawRows:
        """Return the rows of an array; the options are those of :class:`scorewise.Samples`."""
        layout = {option: x for option, x in options.items() if option != "weights"}
        raw, weights = raw_members(values, InputOptions(**layout)), options.get("weights")
        _check_rows(raw.values.ndim, name)
        if weights is not None and not is_array(weights):
            weights = as_array(weights, "weights")
        return cls(raw, weights, on_host)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of rows, members and classes (n, M, K)."""
        n, m, k = self.raw.values.shape
        return n, m, k

    @property
    def stored_as(self) -> StoredAs:
        """The dtypes of members and weights, and whether the members are logits."""
        return self.raw.stored_as(self.weights)

    def samples(self, rounded_as: StoredAs | None = None) -> Samples:
        """Return the checked members of all rows, rounded first as if stored in these dtypes."""
        raw, weights = self.raw, self.weights
        if self.on_host:
            raw = raw.on_host()
            if weights is not None:
                weights = to_numpy(working_precision(namespace(weights), weights))
        if rounded_as is not None:
            raw, weights = raw.rounded(weights, rounded_as)
        samples = Samples.of(raw, weights)
        samples.stored_as = self.stored_as if rounded_as is None else rounded_as
        return samples

    def sample_chunks(self, rounded_as: StoredAs) -> Iterator[Samples]:
        """Yield the samples of some rows at a time; errors use row numbers of the whole array."""
        n, m, k = self.shape
        step = max(1, _CHUNK_ELEMENTS // (m * k))
        for first in range(0, max(n, 1), step):
            rows = slice(first, first + step)
            weights = self.weights
            if weights is not None and weights.ndim > 1:
                weights = weights[rows]
            block = self.raw.block(self.raw.values[rows], (first,))
            yield replace(self, raw=block, weights=weights).samples(rounded_as)


def _check_rows(n_axes: int, name: str) -> None:
    """Raise unless there are three axes (n, M, K)."""
    if n_axes == 2:
        raise InvalidInput(
            f"{name} are members of one row, (M, K); pass rows (n, M, K): {name}[None] for this "
            f"row, or {name}[:, None] if these are n rows of one member"
        )
    if n_axes != 3:
        raise InvalidInput(f"{name} must be rows (n, M, K); reshape arrays with more axes")


def check_same_dtype(predictions: Samples | Dirichlet, ood: Samples | Dirichlet) -> None:
    """Raise if two sets of rows, whose uncertainties are compared, were stored in other dtypes.

    A coarser dtype rounds confident rows to certainty, so that it would order the rows of one set
    before those of the other.
    """
    if not isinstance(predictions, Samples) or not isinstance(ood, Samples):
        return
    dtype, ood_dtype = predictions.stored_as.dtype, ood.stored_as.dtype
    if dtype != ood_dtype:
        raise InvalidInput(
            f"the predictions are {dtype} and the out-of-distribution ones {ood_dtype}, so that "
            "rounding would tell them apart; store both in the same dtype"
        )


def _refuse(options: set[str], predictions: Samples | Dirichlet | Predictions) -> None:
    """Raise if options are left that predictions of this kind do not take."""
    if options:
        raise InvalidInput(
            f"{', '.join(sorted(options))} cannot be passed with {type(predictions).__name__}, "
            "only with arrays"
        )
