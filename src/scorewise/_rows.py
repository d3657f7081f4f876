"""Predictions for rows, with or without labels, as the tasks receive them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, is_array, is_dask, namespace, to_numpy, working_precision
from scorewise._fields import (
    UNLABELLED,
    ClassNames,
    as_array,
    check_same_names,
    checked_classes,
    checked_ids,
    checked_labels,
    checked_names,
    class_text,
)
from scorewise._inputs import InputOptions, RawPredictions, StoredAs, raw_members
from scorewise._text import percent
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.io import Predictions

_NO_LABELS = "the predictions have no labels"
_LABELS = Remedy("y", ..., "the labels of the rows")
_ROWS_TO_JUDGE = 20  # so that the agreement of labels and predictions is no accident
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
    labels_are: str | None = None,
    on_host: bool = False,
) -> LabelledSamples:
    """Return checked predictions and labels; arguments take precedence over those of a file."""
    if isinstance(predictions, Predictions) and ids is None:
        ids = predictions.ids
    if y is not None:
        check_member_axis(predictions, y, options)
    samples = receive_samples(predictions, "predictions", options, on_host=on_host)
    if not len(samples.probs):
        raise InvalidInput("there are no rows")
    labels = label_indices(predictions, samples, y, labels_are)
    return LabelledSamples(
        samples,
        labels,
        None if ids is None else checked_ids(ids, len(labels)),
        class_names_of(samples) or tuple(str(k) for k in range(samples.n_classes)),
    )


def label_indices(
    predictions: Any,
    distribution: Samples | Dirichlet,
    y: Any,
    labels_are: str | None,
    locate: Callable[[int], str] = "labels[{}]".format,
) -> np.ndarray:
    """Return class indices (n,), from ``y`` or from the file of the predictions.

    ``distribution`` are the predictions after :func:`receive_rows`; ``locate`` names the label of a
    row in messages.
    """
    file = predictions if isinstance(predictions, Predictions) else None
    if y is None and file is not None:
        try:
            return _labels_of_file(file, distribution, labels_are or file.labels_are)
        except InvalidInput as error:
            raise file.with_location(error) from None
    if y is None:
        raise InvalidInput(_NO_LABELS, _LABELS)
    names = class_names_of(distribution)
    shape = _shape_of_mean(distribution)
    labels = checked_labels(y, shape, names, locate, labels_are=labels_are, all_labelled=True)
    _check_complete(labels, locate)
    if names is None and labels_are is None:
        _check_numbered_from_zero(distribution, labels)
    return labels


def _shape_of_mean(distribution: Samples | Dirichlet) -> tuple[int, ...]:
    """Return the shape (n, K) of the mean, without computing it."""
    if isinstance(distribution, Dirichlet):
        return tuple(distribution.alpha.shape)
    *batch, _, k = distribution.probs.shape
    return (*batch, k)


def _labels_of_file(
    file: Predictions, distribution: Samples | Dirichlet, labels_are: str | None
) -> np.ndarray:
    """Return the class indices of all rows of a file."""
    if file.labels is None:
        raise InvalidInput(_NO_LABELS, _LABELS)
    _check_complete(file.labels)
    if file.class_names is not None:
        return file.labels
    names = class_names_of(distribution)
    if names is not None:  # which the user passed, so the labels have not been read by them
        shape = _shape_of_mean(distribution)
        return checked_labels(file.labels, shape, names, labels_are=labels_are, all_labelled=True)
    if labels_are is None:
        _check_numbered_from_zero(distribution, file.labels)
    return file.labels


def _check_complete(labels: np.ndarray, locate: Callable[[int], str] = "labels[{}]".format) -> None:
    """Raise if a row has no label."""
    missing = labels == UNLABELLED
    if missing.any():
        raise missing_label(int(np.argmax(missing)), int(missing.sum()), len(labels), locate)


def missing_label(
    first: int, n_missing: int, n_rows: int, locate: Callable[[int], str] = "labels[{}]".format
) -> InvalidInput:
    """Return the error of rows without labels, of which ``first`` is the first."""
    return InvalidInput(
        f"{locate(first)} is missing; {n_missing} of {n_rows} rows have no label, and each row "
        "needs one here",
        index=(first,),
    )


def _check_numbered_from_zero(distribution: Samples | Dirichlet, labels: np.ndarray) -> None:
    """Raise if no label is 0 and the model is right if classes are numbered from 1."""
    if len(labels) and labels.min() > 0:
        predicted = np.argmax(to_numpy(distribution.mean), axis=-1)
        LabelAgreement.of(predicted, labels).check(distribution.n_classes)


@dataclass(frozen=True)
class LabelAgreement:
    """How many rows have the label that the model predicts; of parts of the rows, they are added.

    Attributes
    ----------
    n_rows : int
    smallest, largest : int
        Of the labels.
    right, right_from_one : int
        Number of rows whose label is the predicted class, and the predicted class plus one.
    """

    n_rows: int
    smallest: int
    largest: int
    right: int
    right_from_one: int

    @classmethod
    def of(cls, predicted: np.ndarray, labels: np.ndarray) -> LabelAgreement:
        """Return the agreement of at least one row."""
        right, right_from_one = (predicted == labels).sum(), (predicted == labels - 1).sum()
        limits = int(labels.min()), int(labels.max())
        return cls(len(labels), *limits, int(right), int(right_from_one))

    def __add__(self, other: LabelAgreement) -> LabelAgreement:
        return LabelAgreement(
            self.n_rows + other.n_rows,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
            self.right + other.right,
            self.right_from_one + other.right_from_one,
        )

    def check(self, n_classes: int) -> None:
        """Raise if no label is 0 and the model is right if classes are numbered from 1."""
        n = self.n_rows
        if n < _ROWS_TO_JUDGE or self.smallest == 0 or self.smallest == self.largest:
            return
        right, right_from_one = self.right / n, self.right_from_one / n
        if right_from_one > max(0.5, 2 * right):
            raise InvalidInput(
                f"no label is 0, and the model predicts the labels in {percent(right)} of the "
                f"rows, but in {percent(right_from_one)} if classes are numbered from 1",
                Remedy("class_names", range(1, n_classes + 1), "if they are"),
                Remedy("labels_are", "indices", "if they are numbered from 0"),
            )


def class_names_of(predictions: Samples | Dirichlet | RawRows | Predictions) -> ClassNames:
    """Return the names of the classes as text, or None if they are not known."""
    if isinstance(predictions, Predictions):
        return predictions.class_names
    classes = predictions.raw.classes if isinstance(predictions, RawRows) else predictions.classes_
    return None if classes is None else tuple(map(class_text, classes.tolist()))


def is_lazy(predictions: Any) -> bool:
    """Return whether predictions are a Dask array, or Samples of one."""
    return is_dask(predictions.probs if isinstance(predictions, Samples) else predictions)


def check_member_axis(predictions: Any, y: Any, options: dict[str, Any]) -> None:
    """Raise if the labels are as many as the members: these are on the axis of the rows."""
    shape = tuple(getattr(predictions, "shape", ()))
    moved = {"member_axis", "class_axis"} & set(options)
    n_labels = len(y) if hasattr(y, "__len__") else None
    if n_labels is None or moved or len(shape) != 3:
        return
    if n_labels == shape[1] != shape[0]:
        raise InvalidInput(
            f"there are {n_labels:,} labels, and predictions of shape {shape} are read as "
            f"{shape[0]:,} rows of {shape[1]:,} members",
            Remedy("member_axis", 0, "if members are on the first axis"),
        )


def receive_samples(
    predictions: Any, name: str, options: dict[str, Any], *, on_host: bool = False
) -> Samples:
    """Return Samples (n, M, K) from the predictions of a file, an array, or Samples."""
    distribution = receive_rows(predictions, name, options, on_host=on_host)
    if not isinstance(distribution, Samples):
        raise InvalidInput(
            f"{name} must have members (n, M, K), which a Dirichlet does not have; where only its "
            "mean matters, as for calibrating and abstaining, pass dirichlet.mean[:, None]"
        )
    return distribution


def receive_rows(
    predictions: Any, name: str, options: dict[str, Any], *, on_host: bool = False
) -> Samples | Dirichlet:
    """Return predictions for rows; arrays take the options of :class:`scorewise.Samples`.

    With ``on_host``, NumPy converts arrays of all libraries, so that all digits are the same.
    """
    validate.known_options(options, validate.options_of(Samples))
    if isinstance(predictions, Predictions):
        _refuse(set(options) - {"normalize", "class_names"}, predictions)
        samples = predictions.to_samples(normalize=options.get("normalize", False))
        return _with_class_names(samples, options.get("class_names"))
    if isinstance(predictions, Samples | Dirichlet):
        _refuse(set(options) - {"class_names"}, predictions)
        array_ndim = (
            predictions.probs.ndim
            if isinstance(predictions, Samples)
            else predictions.alpha.ndim + 1
        )
        _check_rows(array_ndim, name)
        return _with_class_names(predictions, options.get("class_names"))
    return RawRows.of(predictions, name, options, on_host=on_host).samples()


def receive_raw_rows(
    predictions: Any, name: str, options: dict[str, Any], *, on_host: bool
) -> Predictions | Samples | RawRows:
    """Return rows (n, M, K) that can still be rounded, or Samples; options as above."""
    if isinstance(predictions, Predictions):
        _refuse(set(options) - {"normalize", "class_names"}, predictions)
        return predictions.with_class_names(options.get("class_names"))
    if isinstance(predictions, Samples | Dirichlet):
        return receive_samples(predictions, name, options)
    return RawRows.of(predictions, name, options, on_host=on_host)


def _with_class_names(predictions: Samples | Dirichlet, class_names: Any) -> Samples | Dirichlet:
    """Return the predictions with these names of classes; raises if they have others."""
    names = checked_names(class_names, predictions.n_classes)
    if names is None:
        return predictions
    if predictions.classes_ is not None:
        check_same_names(class_names_of(predictions), names)
        return predictions
    named = copy.copy(predictions)
    named.classes_ = checked_classes(class_names, predictions.n_classes)
    return named


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
            f"{name} have two axes, which may be rows of one model or members of one row, and this "
            f"needs rows (n, M, K): pass {name}[:, None] for n rows of one model, {name}[None] for "
            f"the members of one row, or scorewise.binary({name}) for the probabilities of class 1 "
            "of n rows and M members"
        )
    if n_axes != 3:
        raise InvalidInput(
            f"{name} must be rows (n, M, K); of several labels or pixels, pass those of one label "
            "(scorewise.by_label), or reshape them"
        )


def check_comparable(predictions: Samples | Dirichlet, ood: Samples | Dirichlet) -> None:
    """Raise if two sets of rows, whose uncertainties are compared, cannot be of the same model.

    With fewer members the epistemic uncertainty is smaller, and a coarser dtype rounds confident
    rows to certainty, so that the rows of one set would come before those of the other.
    """
    if ood.n_classes != predictions.n_classes:
        raise InvalidInput(
            f"the predictions have {predictions.n_classes} classes, and the out-of-distribution "
            f"ones {ood.n_classes}; they must be those of the same model"
        )
    names, ood_names = class_names_of(predictions), class_names_of(ood)
    if names is not None and ood_names is not None:
        check_same_names(names, ood_names, "the out-of-distribution predictions")
    if not isinstance(predictions, Samples) or not isinstance(ood, Samples):
        return
    m, ood_m = predictions.shape[-2], ood.shape[-2]
    if m != ood_m:
        raise InvalidInput(
            f"the predictions have {m:,} members, and the out-of-distribution ones {ood_m:,}, so "
            "that their epistemic uncertainties differ for that reason alone; use the same members "
            "for both",
            Remedy("member_axis", 0, "if members are on the first axis"),
        )
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
