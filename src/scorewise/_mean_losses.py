"""Losses and totals of the mean prediction θ̄, in digits that can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise._array import namespace, to_numpy
from scorewise._inputs import apply_floor
from scorewise._numerics import sum_product, ten_digits
from scorewise.decompose import decompose
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.rules import RuleLike, get_rule

FLOOR_REMEDY = Remedy("floor", 1e-6, "to set the smallest probability that counts")


def mean_in_float64(predictions: Samples | Dirichlet) -> np.ndarray:
    """θ̄ (n, K), averaged in float64 in one pass over the members.

    Files often hold float32. Rows with equal votes have equal means to ten digits only in float64.
    """
    if isinstance(predictions, Dirichlet):
        alpha = to_numpy(predictions.alpha).astype(np.float64)
        return np.asarray(Dirichlet(alpha, check=False).mean)
    weights = None if predictions.weights is None else to_numpy(predictions.weights)
    on_host = Samples(to_numpy(predictions.probs), weights, check=False)
    [mean] = on_host.by_blocks(lambda block: [_in_float64(block).mean])
    return np.asarray(mean)


def _in_float64(samples: Samples) -> Samples:
    """The same members on the host, in float64."""
    probs = to_numpy(samples.probs).astype(np.float64, copy=False)
    weights = None if samples.weights is None else to_numpy(samples.weights)
    return Samples(probs, weights, check=False)


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


def mean_and_uncertainty(
    samples: Samples, rule: RuleLike, component: str = "total"
) -> tuple[np.ndarray, np.ndarray]:
    """θ̄ (n, K) in float64, and the uncertainty (n,) to ten digits.

    Such uncertainties can be compared with those of other rows and with a threshold. The total is
    that of θ̄.
    """
    mean = mean_in_float64(samples)
    if component == "total":
        return mean, total_of_mean(mean, rule)
    parts = decompose(_in_float64(samples), get_rule(rule))
    return mean, ten_digits(getattr(parts, component))


def total_of_mean(mean: np.ndarray, rule: RuleLike) -> np.ndarray:
    """H(θ̄) to ten digits, to be compared with a threshold."""
    return ten_digits(get_rule(rule)._entropy(namespace(mean), mean))


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
