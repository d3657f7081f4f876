"""Losses of the mean prediction θ̄, and uncertainties in digits that can be compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise import kernels
from scorewise._array import (
    Array,
    as_dtype_of,
    is_array,
    is_dask,
    is_recorded,
    namespace,
    on_device_of,
    to_float64,
    to_numpy,
)
from scorewise._fields import as_array
from scorewise._inputs import InputOptions, apply_floor
from scorewise._members import Members
from scorewise._numerics import sum_product, ten_digits
from scorewise._rows import (
    RawRows,
    check_member_axis,
    label_indices,
    receive_raw_rows,
    receive_rows,
)
from scorewise.decompose import Decomposition, decompose
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.rules import RuleLike, ScoringRule, get_rule

FLOOR_REMEDY = Remedy("floor", 1e-6, "to set the smallest probability that counts")

_CHUNK_ELEMENTS = 1 << 23  # probabilities that are decomposed at a time


@validate.takes_options_of(Samples)
def task_losses(
    predictions: Any,
    y: Any,
    rule: RuleLike = "zero-one",
    *,
    floor: float | None = None,
    labels_are: str | None = None,
    ignore_label: Any = None,
    **options: Any,
) -> Array:
    """Return the loss that the mean prediction of the members incurs in each row.

    Use it to get the losses that :func:`scorewise.rejection_curve`,
    :func:`scorewise.certify_threshold` and :func:`scorewise.loss_calibration` take. With several
    labels or pixels per row it returns the loss of each; :func:`scorewise.aggregate` makes losses
    of rows or images from them.

    If another prediction p is deployed, ``rule.loss(p, y)`` is what it incurs, and
    ``decompose(..., predictor=p).total`` what it is expected to.

    Parameters
    ----------
    predictions : array (n, M, K) or (..., M, K), Samples or Dirichlet
        As for :func:`scorewise.decompose`.
    y : array (n,) or (...)
        Observed classes: names of classes, or indices.
    rule : str or ScoringRule
        The loss.
    floor : float, optional
        The smallest probability that a prediction may have, by p → (1 − K·floor)·p + floor. The
        log loss of a probability of 0 is infinite; with a floor it is −log(floor). A large floor
        changes the prediction and its loss, so use a small one.
    labels_are : "names" or "indices", optional
        What ``y`` holds, where numbers could be either.
    ignore_label : optional
        A value in ``y`` that is no class, such as 255 in segmentations; the loss there is NaN.
    **options
        Options of :class:`scorewise.Samples`: ``class_names``, ``weights``, ``from_logits``,
        ``member_axis``, …

    Returns
    -------
    array (n,) or (...)
        ℓ(θ̄, y), in float64 where the library has it, in the library and on the device of the
        predictions; of Dask arrays, in NumPy. Torch and JAX can differentiate it.

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

    Two rows of three labels, by two members, and a pixel that does not count:

    >>> labels = sw.binary([[[0.9, 0.7], [0.1, 0.3], [0.2, 0.2]]] * 2)
    >>> sw.task_losses(labels, [[1, 0, 0], [0, 0, 255]], ignore_label=255)
    array([[ 0.,  0.,  0.],
           [ 1.,  0., nan]])

    Losses of tensors are tensors, with their gradient:

    >>> import torch
    >>> logits = torch.zeros(1, 2, 2, requires_grad=True)
    >>> sw.task_losses(logits, [0], "log", from_logits=True).mean().backward()
    >>> logits.grad
    tensor([[[-0.2500,  0.2500],
             [-0.2500,  0.2500]]])
    """
    if ignore_label is not None:
        y, counts = without_ignored(y, ignore_label)
        losses = task_losses(predictions, y, rule, floor=floor, labels_are=labels_are, **options)
        xp = namespace(losses)
        return xp.where(on_device_of(xp, counts, losses), losses, math.nan)
    if _n_axes(predictions) > 3:
        return _losses_by_instance(predictions, y, rule, floor, labels_are, options)
    check_member_axis(predictions, y, options)
    distribution = _mean_of_rows(predictions, options) or receive_rows(
        predictions, "predictions", options
    )
    return _losses_of_rows(predictions, distribution, y, rule, floor, labels_are)


def _losses_of_rows(
    predictions: Any,
    distribution: Samples | Dirichlet,
    y: Any,
    rule: RuleLike,
    floor: float | None,
    labels_are: str | None,
    locate: Callable[[int], str] = "labels[{}]".format,
) -> Array:
    """Return ℓ(θ̄, y) of rows; ``distribution`` are the predictions, received."""
    rule = get_rule(rule).for_classes(distribution.classes_)
    recorded = _is_recorded(distribution)
    if recorded and distribution.classes_ is None:
        return _loss(_mean_where_it_is(distribution), y, rule, floor)
    labels = label_indices(predictions, distribution, y, labels_are, locate)
    if recorded:
        return _loss(_mean_where_it_is(distribution), labels, rule, floor)
    losses = losses_of_mean(mean_in_float64(distribution), labels, rule, floor, like=distribution)
    array = _array_of(distribution)
    if is_dask(array):
        return losses
    xp = namespace(array)
    return as_dtype_of(xp, losses, to_float64(xp, array[:0, ...]))


def without_ignored(y: Any, ignore_label: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return labels, some label of ``y`` in place of the ignored one, and where they count."""
    y = as_array(y, "y")
    counts = np.asarray(y != ignore_label)
    if counts.all():
        return y, counts
    return np.where(counts, y, y[counts][0] if counts.any() else 0), counts


# -- several axes of instances: labels of rows, pixels of images -----------------------------------


def _n_axes(predictions: Any) -> int:
    """Return the number of axes with those of members and classes, of arrays and of lists."""
    if isinstance(predictions, Dirichlet):
        return len(predictions.alpha.shape) + 1
    if isinstance(predictions, Samples):
        return len(predictions.shape)
    if isinstance(predictions, list | tuple) and len(predictions):
        return 1 + _n_axes(predictions[0])
    return len(getattr(predictions, "shape", ()))


def _losses_by_instance(
    predictions: Any,
    y: Any,
    rule: RuleLike,
    floor: float | None,
    labels_are: str | None,
    options: dict[str, Any],
) -> Array:
    """Return ℓ(θ̄, y) of instances with several axes: those of their means, as rows."""
    means = _means_of_instances(predictions, options)
    array = _array_of(means)
    shape = tuple(array.shape[: -1 if isinstance(means, Dirichlet) else -2])
    y = y if is_array(y) else as_array(y, "y")
    if tuple(y.shape) != shape:
        raise InvalidInput(
            f"y has shape {tuple(y.shape)}, and the predictions are for {shape}; there must be a "
            "label for each"
        )

    def locate(i: int) -> str:
        return f"y[{', '.join(map(str, np.unravel_index(i, shape)))}]"

    xp = namespace(array)
    rows = xp.reshape(array, (-1, *array.shape[len(shape) :]))
    flat = type(means)(rows, check=False, class_names=means.classes_)
    losses = _losses_of_rows(flat, flat, y.reshape(-1), rule, floor, labels_are, locate)
    return losses.reshape(shape)


def _means_of_instances(predictions: Any, options: dict[str, Any]) -> Samples | Dirichlet:
    """Return the means θ̄ as the only members ``(..., 1, K)``; a Dirichlet unchanged."""
    if isinstance(predictions, Dirichlet):
        return predictions
    rest = {name: value for name, value in options.items() if name != "weights"}
    members = Members.of(predictions, options.get("weights"), InputOptions(**rest))

    def mean(block: Members) -> list[Array]:
        on_host = isinstance(block.raw.values, np.ndarray)
        by_kernel = kernels.mean(block.raw, block.weights) if on_host else None
        return [_mean_where_it_is(block.samples) if by_kernel is None else by_kernel]

    [means] = members.compute(mean, 1, keep_classes=True)
    means = to_numpy(means) if is_dask(means) else means
    return Samples(means[..., None, :], check=False, class_names=members.raw.classes)


def _mean_of_rows(predictions: Any, options: dict[str, Any]) -> Samples | None:
    """Return the mean of a NumPy array's members as the only member, by a kernel; or None."""
    if not isinstance(predictions, np.ndarray):
        return None
    validate.known_options(options, validate.options_of(Samples))
    rows = receive_raw_rows(predictions, "predictions", options, on_host=False)
    assert isinstance(rows, RawRows)
    mean = kernels.mean(rows.raw, rows.weights)
    if mean is None:
        return None
    return Samples(mean[:, None], check=False, class_names=rows.raw.classes)


def _array_of(predictions: Samples | Dirichlet) -> Array:
    return predictions.alpha if isinstance(predictions, Dirichlet) else predictions.probs


def _is_recorded(predictions: Samples | Dirichlet) -> bool:
    """Return whether a library records what is computed from the predictions or their weights."""
    weights = getattr(predictions, "weights", None)
    arrays = (_array_of(predictions),) if weights is None else (_array_of(predictions), weights)
    return any(map(is_recorded, arrays))


def _mean_where_it_is(predictions: Samples | Dirichlet) -> Array:
    """Return θ̄ (n, K) in float64, by operations of the array's own library."""
    array = _array_of(predictions)
    wide = to_float64(namespace(array), array)
    if isinstance(predictions, Dirichlet):
        return Dirichlet(wide, check=False).mean
    return Samples(wide, predictions.weights, check=False).mean


def _loss(mean: Array, y: Any, rule: ScoringRule, floor: float | None) -> Array:
    """Return ℓ(θ̄, y), with all probabilities at least ``floor``; θ̄ itself is not checked."""
    rule.check_classes(mean.shape[-1])
    return rule._loss(namespace(mean), apply_floor(mean, floor), y)


def mean_in_float64(predictions: Samples | Dirichlet) -> np.ndarray:
    """Return θ̄ (n, K), averaged in float64.

    Files often hold float32. Rows with equal votes have equal means to ten digits only in float64.
    """
    if isinstance(predictions, Dirichlet):
        return np.asarray(_in_float64(predictions).mean)
    weights = None if predictions.weights is None else to_numpy(predictions.weights)
    probs = to_numpy(predictions.probs)
    if probs.shape[-2] == 1:
        return probs[..., 0, :].astype(np.float64)
    by_kernel = kernels.mean(replace(predictions.raw(), values=probs), weights)
    if by_kernel is not None:
        return by_kernel
    on_host = Samples(probs, weights, check=False)
    [mean] = on_host.by_blocks(lambda block: [_in_float64(block).mean])
    return np.asarray(mean)


def _in_float64(
    predictions: Samples | Dirichlet, rule: ScoringRule | None = None
) -> Samples | Dirichlet:
    """Return the same predictions in float64, on the host or where the rule takes them."""

    def convert(values: Array) -> Array:
        values = to_numpy(values).astype(np.float64, copy=False)
        return values if rule is None else in_library_of_rule(rule, values, predictions)

    if isinstance(predictions, Dirichlet):
        return Dirichlet(convert(predictions.alpha), check=False, class_names=predictions.classes_)
    weights = None if predictions.weights is None else to_numpy(predictions.weights)
    return Samples(
        convert(predictions.probs), weights, check=False, class_names=predictions.classes_
    )


def in_library_of_rule(
    rule: ScoringRule, values: np.ndarray, like: Samples | Dirichlet | None
) -> Array:
    """Return values as the rule takes them: a user's own rule, as arrays of the user's library.

    ``like`` are the user's predictions, which have the library and the device; None for NumPy.
    """
    if rule.runs_on_any_library or like is None:
        return values
    array = _array_of(like)
    if is_dask(array):  # whose blocks are NumPy arrays
        return values
    return on_device_of(namespace(array), values, array)


def row_chunks(samples: Samples) -> Iterator[Samples]:
    """Yield the samples (n, M, K), some rows at a time."""
    n, m, k = samples.shape
    step = max(1, _CHUNK_ELEMENTS // (m * k))
    for start in range(0, max(n, 1), step):  # a single chunk without rows, if there are none
        yield samples[start : min(start + step, n)]


def losses_of_mean(
    mean: np.ndarray,
    y: Any,
    rule: RuleLike,
    floor: float | None = None,
    *,
    like: Samples | Dirichlet | None = None,
) -> np.ndarray:
    """Return ℓ(θ̄, y), with all probabilities at least ``floor``; θ̄ itself is not checked.

    ``like`` are the predictions, whose library a user's own rule is written for.
    """
    rule = get_rule(rule)
    losses = _loss(in_library_of_rule(rule, mean, like), y, rule, floor)
    return to_numpy(losses).astype(np.float64)


def finite_losses_of_mean(
    mean: np.ndarray,
    y: Any,
    rule: RuleLike,
    floor: float | None = None,
    *,
    like: Samples | Dirichlet | None = None,
    first_row: int = 0,
) -> np.ndarray:
    """Return ℓ(θ̄, y); raises if a loss is infinite, as its mean would be.

    The row of the first infinite loss is counted from ``first_row`` on.
    """
    losses = losses_of_mean(mean, y, rule, floor, like=like)
    infinite = np.isinf(losses)
    if infinite.any():
        raise InvalidInput(
            f"the {get_rule(rule).unit.noun} of row {first_row + int(np.argmax(infinite))} is "
            "infinite, as its label has probability 0",
            FLOOR_REMEDY,
        )
    return losses


def expected_of_mean(
    mean: np.ndarray, rule: ScoringRule, floor: float | None, *, like: Samples | Dirichlet
) -> np.ndarray:
    """Return L(p, θ̄), the expected loss of the deployed prediction p: θ̄ with the floor."""
    prediction = in_library_of_rule(rule, apply_floor(mean, floor), like)
    losses = to_numpy(rule._losses(namespace(prediction), prediction))
    return np.asarray(sum_product(namespace(mean), mean, losses), dtype=np.float64)


# -- uncertainties that can be compared ------------------------------------------------------------
#
# All uncertainties that order rows, or are compared with a threshold, are computed here. Rows with
# equal votes differ in the last digits of float64, and in more digits of float32. They are tied
# only if their uncertainties are computed in float64 and rounded to ten digits.


def mean_and_uncertainty(
    samples: Samples, rule: RuleLike, component: str = "total"
) -> tuple[np.ndarray, np.ndarray]:
    """Return θ̄ (n, K) in float64, and the uncertainty (n,) to ten digits."""
    rule = get_rule(rule)
    rule.check_classes(samples.n_classes)
    mean = mean_in_float64(samples)
    if component == "total":
        return mean, total_of_mean(mean, rule, samples)
    [uncertainty] = comparable_decompositions(samples, mean, [rule])
    return mean, np.asarray(getattr(uncertainty, component))


def total_of_mean(mean: np.ndarray, rule: ScoringRule, like: Samples | Dirichlet) -> np.ndarray:
    """Return H(θ̄) to ten digits."""
    prediction = in_library_of_rule(rule, mean, like)
    return ten_digits(to_numpy(rule._entropy(namespace(prediction), prediction)))


def comparable_decompositions(
    predictions: Samples | Dirichlet, mean: np.ndarray, rules: Iterable[ScoringRule]
) -> list[Decomposition]:
    """Return the uncertainty of rows under each rule, to ten digits.

    Totals of members are those of θ̄, averaged in float64. A Dirichlet has more digits than its θ̄.
    """
    by_key = {str(i): rule for i, rule in enumerate(rules)}
    chunks = [predictions] if isinstance(predictions, Dirichlet) else row_chunks(predictions)
    results = [_decompositions_in_float64(chunk, by_key) for chunk in chunks]
    return [
        Decomposition(
            ten_digits(to_numpy(results[0][key].total))
            if isinstance(predictions, Dirichlet)
            else total_of_mean(mean, rule, predictions),
            ten_digits(np.concatenate([to_numpy(result[key].aleatoric) for result in results])),
            ten_digits(np.concatenate([to_numpy(result[key].epistemic) for result in results])),
        )
        for key, rule in by_key.items()
    ]


def _decompositions_in_float64(
    predictions: Samples | Dirichlet, rules: Mapping[str, ScoringRule]
) -> dict[str, Decomposition]:
    """Return the uncertainty under each rule: in one pass, and one for each user's own rule."""
    shared = {key: rule for key, rule in rules.items() if rule.runs_on_any_library}
    results = decompose(_in_float64(predictions), shared) if shared else {}
    for key, rule in rules.items():
        if key not in shared:
            results[key] = decompose(_in_float64(predictions, rule), rule)
    return results


# -- bounds ----------------------------------------------------------------------------------------


def certifiable_bound(
    losses: np.ndarray,
    rule: ScoringRule,
    n_classes: int,
    floor: float | None,
    loss_bound: float | None,
) -> float:
    """Return the largest loss that can occur; raises if no guarantee on these losses exists."""
    bound = finite_loss_bound(rule, n_classes, floor, loss_bound)
    if (losses < 0).any():
        raise InvalidInput(
            "a cost is below 0, and a guarantee needs losses from 0 on; add a constant to the costs"
        )
    return bound


def finite_loss_bound(
    rule: RuleLike, n_classes: int, floor: float | None, loss_bound: float | None = None
) -> float:
    """Return the largest loss that can occur; raises if it is infinite or unknown.

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
