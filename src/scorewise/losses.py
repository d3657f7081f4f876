"""Predictions with labels, and the losses that the mean prediction incurs.

``task_losses`` is for users. The other functions are shared by the tasks: they receive predictions
from arrays, :class:`scorewise.Samples` or files, and compute losses and totals of the mean θ̄.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise._array import namespace, to_numpy
from scorewise._fields import LABELS, UNLABELLED, checked_ids, checked_labels, checked_names
from scorewise._numerics import sum_product
from scorewise.decompose import RuleLike, decompose
from scorewise.distributions import Dirichlet, Samples, apply_floor
from scorewise.errors import InvalidInput, Remedy
from scorewise.io import Predictions
from scorewise.rules import get_rule

__all__ = [
    "FLOOR_REMEDY",
    "LabelledSamples",
    "expected_of_mean",
    "finite_loss_bound",
    "finite_losses_of_mean",
    "losses_of_mean",
    "measure",
    "receive_labelled",
    "receive_rows",
    "receive_samples",
    "task_losses",
    "total_of_mean",
]

_TINY = 1e-290  # smaller values count as 0
FLOOR_REMEDY = Remedy("floor", 1e-6, "to set the smallest probability that counts")


def task_losses(
    predictions: Any,
    y: Any,
    rule: RuleLike = "zero-one",
    *,
    floor: float | None = None,
    **options: Any,
) -> np.ndarray:
    """Return the loss that the mean prediction of the members incurs in each row.

    Use it to get the losses that :func:`scorewise.rejection_curve`,
    :func:`scorewise.certify_threshold` and :func:`scorewise.loss_calibration` take.

    Parameters
    ----------
    predictions : array (n, M, K), Samples or Dirichlet
        As for :func:`scorewise.decompose`.
    y : integer array (n,)
        Observed classes, as indices.
    rule : str or ScoringRule
        The loss.
    floor : float, optional
        The smallest probability that a prediction may have, by p → (1 − K·floor)·p + floor. The
        log loss of a probability of 0 is infinite; with a floor it is −log(floor). A large floor
        changes the prediction and its loss, so use a small one.
    **options
        Options of :class:`scorewise.Samples`: ``weights``, ``from_logits``, ``member_axis``, …

    Returns
    -------
    array (n,)
        ℓ(θ̄, y).

    Raises
    ------
    InvalidInput
        If the predictions, the labels or the floor are not valid.

    Examples
    --------
    >>> import scorewise as sw
    >>> probs = [[[0.9, 0.1], [0.7, 0.3]], [[1.0, 0.0], [1.0, 0.0]]]
    >>> sw.task_losses(probs, [0, 1], "zero-one")
    array([0., 1.])
    >>> sw.task_losses(probs, [0, 1], "log", floor=1e-6).round(3)
    array([ 0.223, 13.816])
    """
    distribution = receive_rows(predictions, "predictions", options)
    return losses_of_mean(to_numpy(distribution.mean), y, rule, floor)


# -- losses and uncertainties of the mean prediction -----------------------------------------------


def losses_of_mean(
    mean: np.ndarray, y: Any, rule: RuleLike, floor: float | None = None
) -> np.ndarray:
    """ℓ(θ̄, y), with all probabilities at least ``floor``; θ̄ was checked with its members."""
    rule = get_rule(rule)
    rule.check_classes(mean.shape[-1])
    prediction = apply_floor(mean, floor)
    return np.asarray(rule._loss(namespace(prediction), prediction, y), dtype=np.float64)


def finite_losses_of_mean(
    mean: np.ndarray, y: Any, rule: RuleLike, floor: float | None = None
) -> np.ndarray:
    """ℓ(θ̄, y); raises where a loss is infinite, since every mean of it is then."""
    losses = losses_of_mean(mean, y, rule, floor)
    infinite = np.isinf(losses)
    if infinite.any():
        raise InvalidInput(
            f"the {get_rule(rule).unit.noun} of row {int(np.argmax(infinite))} is infinite, as its "
            "label has probability 0",
            FLOOR_REMEDY,
        )
    return losses


def expected_of_mean(mean: np.ndarray, rule: RuleLike, floor: float | None = None) -> np.ndarray:
    """The expected loss of the mean prediction: L(θ̄, θ̄), or more with a floor."""
    prediction = apply_floor(mean, floor)
    losses = get_rule(rule)._losses(namespace(prediction), prediction)
    return np.asarray(sum_product(namespace(mean), mean, losses), dtype=np.float64)


def measure(
    samples: Samples, rule: RuleLike, component: str = "total"
) -> tuple[np.ndarray, np.ndarray]:
    """θ̄ (n, K) in float64, and the uncertainty (n,) to ten digits.

    Such uncertainties can be compared with those of other rows and with a threshold. The total is
    that of θ̄. Members are averaged in float64, also those of float32 files: otherwise rows with
    equal votes would differ within ten digits.
    """
    probs = to_numpy(samples.probs).astype(np.float64, copy=False)
    weights = None if samples.weights is None else to_numpy(samples.weights)
    samples = Samples(probs, weights, check=False)
    mean = to_numpy(samples.mean)
    if component == "total":
        return mean, total_of_mean(mean, rule)
    parts = decompose(samples, get_rule(rule))
    return mean, _ten_digits(to_numpy(getattr(parts, component)))


def total_of_mean(mean: np.ndarray, rule: RuleLike) -> np.ndarray:
    """H(θ̄) to ten digits, to be compared with a threshold."""
    wide = mean.astype(np.float64)
    return _ten_digits(np.asarray(get_rule(rule)._entropy(namespace(wide), wide)))


def _ten_digits(uncertainty: np.ndarray) -> np.ndarray:
    """Uncertainties rounded to ten significant digits, to be compared with a threshold.

    The last digits of an uncertainty depend on the rows that are computed together. Where many rows
    are tied at a threshold, as rows with equal votes are, these digits would decide which of them
    are accepted.
    """
    values = np.asarray(uncertainty, dtype=np.float64)
    size = np.abs(values)
    large = size > _TINY
    unit = 10.0 ** (9 - np.floor(np.log10(size, where=large, out=np.zeros_like(values))))
    return np.where(large, np.round(values * unit) / unit, 0.0)


def finite_loss_bound(
    rule: RuleLike, n_classes: int, floor: float | None, loss_bound: float | None = None
) -> float:
    """The largest loss that can occur; raises where it is infinite or unknown.

    No guarantee on a mean loss exists without such a bound.
    """
    rule = get_rule(rule)
    rule.check_classes(n_classes)
    bound = rule.largest_loss(n_classes, floor) if loss_bound is None else loss_bound
    if not np.isfinite(bound):
        raise InvalidInput(
            f"the loss {rule.name!r} can be infinite, and no guarantee on its mean exists",
            FLOOR_REMEDY,
        )
    return float(bound)


# -- predictions, with or without labels -----------------------------------------------------------


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
) -> LabelledSamples:
    """Predictions and labels, checked; arguments take precedence over what a file contains."""
    if isinstance(predictions, Predictions):
        y = predictions.labels if y is None else y
        ids = predictions.ids if ids is None else ids
        class_names = predictions.class_names if class_names is None else class_names
    samples = receive_samples(predictions, "predictions", options)
    if not len(samples.probs):
        raise InvalidInput("there are no rows to evaluate")
    if y is None:
        raise InvalidInput(
            "there are no labels, and they are needed here; in files they are called "
            f"{', '.join(LABELS)}"
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


def receive_samples(predictions: Any, name: str, options: dict[str, Any]) -> Samples:
    """Samples (n, M, K) from the predictions of a file, an array, or Samples."""
    distribution = receive_rows(predictions, name, options)
    if not isinstance(distribution, Samples):
        raise InvalidInput(f"{name} must have members (n, M, K), which a Dirichlet does not have")
    return distribution


def receive_rows(predictions: Any, name: str, options: dict[str, Any]) -> Samples | Dirichlet:
    """Predictions for rows; the options are those of :class:`scorewise.Samples` for arrays."""
    _check_known(options)
    if isinstance(predictions, Predictions):
        _refuse(set(options) - {"normalize"}, "the file decides it")
        return predictions.to_samples(**options)
    if isinstance(predictions, Samples | Dirichlet):
        _refuse(set(options), f"the {predictions!r} was made before")
        distribution = predictions
    else:
        distribution = Samples(predictions, **options)
    n_axes = len(distribution.mean.shape)
    if n_axes == 1:
        raise InvalidInput(
            f"{name} are members of one row, (M, K); pass rows (n, M, K): {name}[None] for this "
            f"row, or {name}[:, None] if these are n rows of one member"
        )
    if n_axes != 2:
        raise InvalidInput(f"{name} must be rows (n, M, K); reshape arrays with more axes")
    return distribution


def _refuse(options: set[str], reason: str) -> None:
    """Raise if options are left that predictions of this kind do not take."""
    if options:
        raise InvalidInput(f"{', '.join(sorted(options))}: not an option here, as {reason}")


def _check_known(options: Iterable[str]) -> None:
    """Raise if an option is none of :class:`scorewise.Samples`, as a misspelt one is."""
    known = set(inspect.signature(Samples).parameters) - {"probs"}
    unknown = next((option for option in options if option not in known), None)
    if unknown is not None:
        raise InvalidInput(
            f"there is no option {unknown!r}; predictions take {', '.join(sorted(known))}"
        )
