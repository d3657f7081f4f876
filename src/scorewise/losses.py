"""What predictions cost, in the currency of a rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise._array import namespace, to_numpy
from scorewise._numerics import sum_product
from scorewise._rows import rows_of
from scorewise.decompose import RuleLike, rule_name
from scorewise.distributions import apply_floor
from scorewise.errors import InvalidInput, Remedy
from scorewise.rules import get_rule

_NOTHING = 1e-290  # what cannot be told from 0


def task_losses(
    predictions: Any,
    y: Any,
    rule: RuleLike = "zero-one",
    *,
    floor: float | None = None,
    **options: Any,
) -> np.ndarray:
    """What the mean prediction of the members cost, row by row.

    Use it to get the losses that :func:`scorewise.rejection_curve`,
    :func:`scorewise.certify_threshold` and :func:`scorewise.loss_calibration` take.

    Parameters
    ----------
    predictions : array (n, M, K), Samples or Dirichlet
        As for :func:`scorewise.decompose`.
    y : integer array (n,)
        What happened, as class indices.
    rule : str or ScoringRule
        The loss that is paid.
    floor : float, optional
        The smallest probability that a prediction may give, by p → (1 − K·floor)·p + floor. The
        log loss of a probability of 0 is infinite; with a floor it is −log(floor). Keep it small:
        a large one makes another prediction, with another loss.
    **options
        Those of :class:`scorewise.Samples`: ``weights``, ``from_logits``, ``member_axis``, …

    Returns
    -------
    array (n,)
        ℓ(θ̄, y).

    Raises
    ------
    InvalidInput
        If predictions, labels or the floor are not what they must be.

    Examples
    --------
    >>> import scorewise as sw
    >>> probs = [[[0.9, 0.1], [0.7, 0.3]], [[1.0, 0.0], [1.0, 0.0]]]
    >>> sw.task_losses(probs, [0, 1], "zero-one")
    array([0., 1.])
    >>> sw.task_losses(probs, [0, 1], "log", floor=1e-6).round(3)
    array([ 0.223, 13.816])
    """
    rows = rows_of(predictions, "predictions", options)
    return losses_of_mean(to_numpy(rows.mean), y, rule, floor)


def losses_of_mean(
    mean: np.ndarray, y: Any, rule: RuleLike, floor: float | None = None
) -> np.ndarray:
    """ℓ(θ̄, y), with all probabilities at least ``floor``; θ̄ was checked with its members."""
    rule = get_rule(rule)
    rule.check_classes(mean.shape[-1])
    prediction = apply_floor(mean, floor)
    return np.asarray(rule._loss(namespace(prediction), prediction, y), dtype=np.float64)


def expected_of_mean(mean: np.ndarray, rule: RuleLike, floor: float | None = None) -> np.ndarray:
    """What the members expect to pay: L(θ̄, θ̄), or more with a floor."""
    prediction = apply_floor(mean, floor)
    losses = get_rule(rule)._losses(namespace(prediction), prediction)
    return np.asarray(sum_product(namespace(mean), mean, losses), dtype=np.float64)


def total_of_mean(mean: np.ndarray, rule: RuleLike) -> np.ndarray:
    """H(θ̄) in ten digits, to be compared with a threshold.

    Whether a row is accepted must not depend on the rows it comes with: the last digits of a total
    do, and where many rows are tied at the threshold, as those of votes are, they would decide.
    """
    wide = mean.astype(np.float64)
    total = np.asarray(get_rule(rule)._entropy(namespace(wide), wide))
    size = np.abs(total)
    some = size > _NOTHING
    unit = 10.0 ** (9 - np.floor(np.log10(size, where=some, out=np.zeros_like(total))))
    return np.where(some, np.round(total * unit) / unit, 0.0)


def promised_bound(
    rule: RuleLike, n_classes: int, floor: float | None, loss_bound: float | None = None
) -> float:
    """The largest loss that can occur, if a mean of it can be promised."""
    get_rule(rule).check_classes(n_classes)
    bound = get_rule(rule).largest_loss(n_classes, floor) if loss_bound is None else loss_bound
    if not np.isfinite(bound):
        raise InvalidInput(
            f"the loss {rule_name(rule)!r} can be infinite, and no mean of it can be guaranteed",
            Remedy("floor", 1e-6, "as the smallest probability that counts"),
        )
    return float(bound)
