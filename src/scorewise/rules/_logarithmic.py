"""The log loss and its weighted form: uncertainty in nats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, Namespace, as_dtype_of
from scorewise._numerics import digamma_drop, neg_log, relative_entropy, sum_of_others
from scorewise.distributions import Dirichlet
from scorewise.errors import InvalidInput
from scorewise.rules._rule import ScoringRule, frozen_array, register


def _surprise(xp: Namespace, p: Array) -> Array:
    """−p·log(p/S) with S = Σp, elementwise: never negative, 0 at p = 0."""
    share = p / xp.sum(p, axis=-1, keepdims=True)
    return -p * xp.log(xp.where(p > 0, share, 1.0))


def _dirichlet_terms(xp: Namespace, q: Dirichlet) -> Array:
    """m_k·[ψ(α_k + 1) − log α_k − ψ(α₀ + 1) + log α₀], each the expected excess of its class."""
    return q.mean * digamma_drop(xp, q.alpha, q.others)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Log(ScoringRule):
    """ℓ(p, y) = −log p_y; H is Shannon's entropy, D Kullback–Leibler's, EU mutual information.

    Use its epistemic part to detect what is out of distribution.
    """

    family = "log"

    def _losses(self, xp: Namespace, p: Array) -> Array:
        return neg_log(xp, p)

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        return xp.sum(_surprise(xp, p), axis=-1)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return xp.sum(relative_entropy(xp, q, p, d), axis=-1)

    def _dirichlet_epistemic(self, xp: Namespace, q: Dirichlet) -> tuple[Array, None]:
        return xp.sum(_dirichlet_terms(xp, q), axis=-1), None


@final
@dataclass(frozen=True, eq=False, repr=False)
class WeightedLog(ScoringRule):
    """See :func:`weighted_log`."""

    weights: np.ndarray
    family = "weighted_log"

    def __post_init__(self) -> None:
        w = frozen_array(self.weights, "the class weights", ndim=1)
        if len(w) < 2 or (w <= 0).any():
            raise InvalidInput("class weights must be positive, one for each of K ≥ 2 classes")
        object.__setattr__(self, "weights", w)

    @property
    def name(self) -> str:
        return "weighted-log"

    def check_classes(self, n_classes: int) -> None:
        validate.same_classes(n_classes, len(self.weights), "weighted_log")

    def _losses(self, xp: Namespace, p: Array) -> Array:
        w = as_dtype_of(xp, self.weights, p)
        # w_y·(−log p_y − 1 + p_y) + Σ_{k≠y} w_k p_k: no term is negative
        own = relative_entropy(xp, p, xp.ones_like(p), 1 - p)
        others = xp.sum(w * p, axis=-1, keepdims=True) - w * p
        return w * own + xp.maximum(others, 0.0)

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        # A heavy class that is all but certain needs all digits of 1 − p.
        total = xp.sum(p, axis=-1, keepdims=True)
        missing = sum_of_others(xp, p) / total
        sure = missing < 0.5
        surprise = xp.where(sure, -p * xp.log1p(-xp.where(sure, missing, 0.0)), _surprise(xp, p))
        return xp.sum(as_dtype_of(xp, self.weights, p) * surprise, axis=-1)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        w = as_dtype_of(xp, self.weights, p)
        return xp.sum(w * relative_entropy(xp, q, p, d), axis=-1)

    def _dirichlet_epistemic(self, xp: Namespace, q: Dirichlet) -> tuple[Array, None]:
        w = as_dtype_of(xp, self.weights, q.alpha)
        return xp.sum(w * _dirichlet_terms(xp, q), axis=-1), None


log = register(Log())


@register
def weighted_log(weights: Any) -> ScoringRule:
    """ℓ(p, y) = −w_y log p_y + Σ_k w_k p_k − w_y: the log loss with classes that matter more.

    The naive −w_y log p_y is improper (it rewards shifting probability to heavy classes); the two
    added terms mend it. H(p) = −Σ w p log p and D(q, p) = Σ w [p log(p/q) − p + q].

    Parameters
    ----------
    weights : array (K,)
        Positive class weights.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.weighted_log([1, 1, 5])
    weighted_log([1., 1., 5.])
    """
    return WeightedLog(weights)
