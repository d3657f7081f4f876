"""The losses that mean predictions incur."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise._mean_losses import losses_of_mean, mean_in_float64
from scorewise._rows import receive_rows
from scorewise.rules import RuleLike

__all__ = ["task_losses"]


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
    return losses_of_mean(mean_in_float64(distribution), y, rule, floor)
