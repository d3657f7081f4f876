"""Separable rules, H(p) = c − Σ_k w_k f(p_k): log and weighted log, Brier, Tsallis.

A loss falls in p_y and rises in the others, as Σ_{k≠y} w_k g(p_k) with g(p) = p·f′(p) − f(p).
It is largest where another class is certain if g is convex; each rule below names its g.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    Namespace,
    as_dtype_of,
    at_least,
    cached_property,
    dot,
    one_hot,
    plus,
    smallest_normal,
    sum_products,
    sum_times_log,
    times,
    where_above,
)
from scorewise._numerics import (
    digamma_drop,
    digamma_rise,
    log_gamma_drop,
    log_gamma_rise,
    log_ratio,
    neg_log,
    power,
    power_deficit,
    power_excess,
    relative_entropy,
)
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.rules._quadratic import quadratic_parts
from scorewise.rules._rule import RuleBySum, ScoringRule, Unit, norm_order, number_above, register
from scorewise.rules.structures import Separable

_SURE = 0.52  # no two classes are above it, whatever the rounding of a row's sum


def _log_parts(xp: Namespace, q: Dirichlet, weights: Array | float) -> tuple[Array, Array, None]:
    """Return AU and EU of log: m_k times ψ(α₀ + 1) − ψ(α_k + 1), and the rest of −log m_k."""
    w, r = weights * q.mean, q.alpha_of_others
    aleatoric = xp.sum(w * digamma_rise(xp, q.alpha, r), axis=-1)
    return aleatoric, xp.sum(w * digamma_drop(xp, q.alpha, r), axis=-1), None


def tsallis_total(xp: Namespace, q: Dirichlet, beta: float) -> Array:
    """Return (1 − Σ m^β)/(β − 1) for the mean m of a Dirichlet."""
    rate = beta - 1
    return xp.sum(q.mean * -xp.expm1(-rate * q.surprise), axis=-1) / rate


@final
@dataclass(frozen=True, eq=False, repr=False)
class Log(RuleBySum):
    """ℓ(p, y) = −log p_y; H is Shannon's entropy, D Kullback–Leibler's, EU mutual information.

    Use its epistemic uncertainty to detect inputs that are out of distribution.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.log.loss([[0.5, 0.5], [0.9, 0.1]], [1, 1]).round(3)
    array([0.693, 2.303])
    """

    family = "log"
    structure = Separable(1.0)
    is_symmetric = True

    @property
    def unit(self) -> Unit:
        return Unit("log loss", label="log loss (nats)")

    def _largest_loss(self, corners: np.ndarray) -> float:
        return self._largest_at(corners)  # g(p) = p

    def _losses(self, xp: Namespace, p: Array) -> Array:
        return neg_log(xp, p)

    def _loss(self, xp: Namespace, p: Array, y: Any) -> Array:
        y = validate.labels(xp, y, tuple(p.shape[:-1]), p.shape[-1], like=p)
        return neg_log(xp, xp.sum(xp.where(one_hot(xp, y, p.shape[-1]), p, 0.0), axis=-1))

    def _entropy_by_sum(self, xp: Namespace, p: Array, total: Array) -> Array:
        # −Σ p log(p/S)
        return at_least(xp, total * xp.log(total) - sum_times_log(xp, p), 0.0)

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> Array:
        return (1 + total) * (unit + off * off)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return xp.sum(relative_entropy(xp, q, p, d), axis=-1)

    def _entropy_gradient(self, xp: Namespace, p: Array) -> Array:
        return -xp.log(p)

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return log_ratio(xp, q, p, d)

    def _dirichlet_total(self, xp: Namespace, q: Dirichlet) -> Array:
        return xp.sum(q.mean * q.surprise, axis=-1)

    def _dirichlet_parts(
        self, xp: Namespace, q: Dirichlet, total: Array
    ) -> tuple[Array, Array, None]:
        return _log_parts(xp, q, 1.0)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Brier(RuleBySum):
    """ℓ(p, y) = Σ_k (p_k − [k = y])²; H is Gini's impurity, D the squared distance.

    Use it where all probabilities matter, and a confident error must not cost infinitely much.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.brier.loss([[0.5, 0.5], [0.9, 0.1]], [1, 1])
    array([0.5 , 1.62])
    """

    family = "brier"
    structure = Separable(2.0)
    is_symmetric = True

    @property
    def unit(self) -> Unit:
        return Unit("Brier loss")

    def _order_of_totals(self) -> Hashable:
        return norm_order(2.0)

    def _largest_loss(self, corners: np.ndarray) -> float:
        return self._largest_at(corners)  # g(p) = p²

    def _losses(self, xp: Namespace, p: Array) -> Array:
        squares = xp.sum(p * p, axis=-1, keepdims=True)
        return at_least(xp, squares - p * p, 0.0) + (1 - p) ** 2

    def _entropy_by_sum(self, xp: Namespace, p: Array, total: Array) -> Array:
        return sum_products(xp, total[..., None] - p, p)  # S² − Σp²

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> Array:
        return unit + 4 * off * off

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return dot(xp, d, d)

    def _entropy_gradient(self, xp: Namespace, p: Array) -> Array:
        return -2 * p

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return 2 * d

    def _epistemic(self, xp: Namespace, samples: Samples) -> Array:
        d = samples.deviations
        return samples.average(dot(xp, d, d))  # which needs no mean

    def _dirichlet_total(self, xp: Namespace, q: Dirichlet) -> Array:
        return xp.sum(q.mean * q.missing, axis=-1)

    def _dirichlet_parts(
        self, xp: Namespace, q: Dirichlet, total: Array
    ) -> tuple[Array, Array, None]:
        return quadratic_parts(q, total)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Tsallis(RuleBySum):
    """The rule of Tsallis' entropy; :func:`scorewise.rules.tsallis` makes it, and has formulas.

    Parameters
    ----------
    beta : float
        More than 1.

    Examples
    --------
    >>> import scorewise as sw
    >>> rule = sw.rules.tsallis(1.5)
    >>> isinstance(rule, sw.rules.Tsallis), rule.beta
    (True, 1.5)
    """

    beta: float
    family = "tsallis"
    is_symmetric = True

    @cached_property
    def structure(self) -> Separable:  # type: ignore[override]
        """The form of its entropy, by which kernels compute it."""
        return Separable(self.beta)

    def _order_of_totals(self) -> Hashable:
        return norm_order(self.beta)

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", number_above(1, self.beta, "β of tsallis"))

    def _largest_loss(self, corners: np.ndarray) -> float:
        return self._largest_at(corners)  # g(p) = p^β, up to a constant

    def _losses(self, xp: Namespace, p: Array) -> Array:
        # Σ_{k≠y} p_k^β + [1 − βp_y^{β−1} + (β−1)p_y^β]/(β−1): the last is how far x^β at 1 lies
        # above its tangent at p_y, so neither part is negative
        beta = self.beta
        powers = power(xp, p, beta)
        others = at_least(xp, xp.sum(powers, axis=-1, keepdims=True) - powers, 0.0)
        return others + power_excess(xp, p, xp.ones_like(p), 1 - p, beta)

    def _entropy_by_sum(self, xp: Namespace, p: Array, total: Array) -> Array:
        return power_deficit(xp, p, total, self.beta)

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> Array:
        return (1 + total) * (unit + 4 * off)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return xp.sum(power_excess(xp, q, p, d, self.beta), axis=-1)

    def _entropy_gradient(self, xp: Namespace, p: Array) -> Array:
        # β/(1 − β)·(p^{β−1} − 1): without a constant that hides the digits for β near 1
        rate = self.beta - 1
        return xp.expm1(xp.log(p) * rate) * (-self.beta / rate)

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        # β/(β − 1) times p^{β−1} − q^{β−1}, whose digits are in the exponent where it is small
        rate = self.beta - 1
        exponent, slope = times(log_ratio(xp, q, p, d), rate), q**rate
        near = xp.abs(exponent) < 1
        close = xp.expm1(xp.where(near, exponent, 0.0)) * slope
        return xp.where(near, close, p**rate - slope) * (self.beta / rate)

    def _dirichlet_total(self, xp: Namespace, q: Dirichlet) -> Array:
        return tsallis_total(xp, q, self.beta)

    def _dirichlet_parts(
        self, xp: Namespace, q: Dirichlet, total: Array
    ) -> tuple[Array, Array, None]:
        # E θ_k^β = m_k·E θ_k^ε with α_k + 1 in place of α_k, and = m_k^β·exp(gap) with gap ≥ 0
        rate, x, r = self.beta - 1, q.alpha, q.alpha_of_others
        rise = log_gamma_rise(xp, x + 1, r, rate)  # −log of that E θ_k^ε
        gap = log_gamma_drop(xp, x + 1, r, rate)
        gap = gap + rate * xp.log1p(r / (x * (q.concentration[..., None] + 1)))
        small = gap < 1
        slope = power(xp, q.mean, rate)
        near = slope * xp.expm1(xp.where(small, gap, 0.0))
        excess = xp.where(small, near, xp.exp(-rise) - slope)
        aleatoric = xp.sum(q.mean * -xp.expm1(-rise), axis=-1) / rate
        return aleatoric, xp.sum(q.mean * excess, axis=-1) / rate, None


@final
@dataclass(frozen=True, eq=False, repr=False)
class WeightedLog(RuleBySum):
    """See :func:`weighted_log`."""

    weights: np.ndarray
    family = "weighted_log"

    @cached_property
    def structure(self) -> Separable:  # type: ignore[override]
        return Separable(1.0, self.weights)

    def __post_init__(self) -> None:
        w = validate.read_only_array(self.weights, "the class weights", ndim=1)
        if len(w) < 2 or (w <= 0).any():
            raise InvalidInput("class weights must be positive, one for each of K ≥ 2 classes")
        object.__setattr__(self, "weights", w)

    @property
    def name(self) -> str:
        return "weighted-log"

    def check_classes(self, n_classes: int) -> None:
        validate.same_classes(n_classes, len(self.weights), "weighted_log")

    def _largest_loss(self, corners: np.ndarray) -> float:
        return self._largest_at(corners)  # g(p) = p

    def _losses(self, xp: Namespace, p: Array) -> Array:
        w = as_dtype_of(xp, self.weights, p)
        # w_y·(−log p_y − 1 + p_y) + Σ_{k≠y} w_k p_k: no term is negative
        label_term = relative_entropy(xp, p, xp.ones_like(p), 1 - p)
        others = xp.sum(w * p, axis=-1, keepdims=True) - w * p
        return w * label_term + at_least(xp, others, 0.0)

    def _entropy_by_sum(self, xp: Namespace, p: Array, total: Array) -> Array:
        # A heavy class that is almost certain needs all digits of 1 − p.
        w = as_dtype_of(xp, self.weights, p)
        sure = where_above(xp, p, _SURE)  # one class at most
        others = p - sure
        missing = xp.sum(others, axis=-1) / total
        log_of_sure = xp.log1p(-xp.where(missing < 0.75, missing, 0.0))  # 0 where none is sure
        of_sure = sum_products(xp, sure, w) * log_of_sure
        log_share = xp.log(plus(others / total[..., None], smallest_normal(xp, p)))
        return -(of_sure + sum_products(xp, times(log_share, others), w))

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> Array:
        return (float(self.weights.max()) + total) * (unit + 2 * off)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        w = as_dtype_of(xp, self.weights, p)
        return xp.sum(w * relative_entropy(xp, q, p, d), axis=-1)

    def _entropy_gradient(self, xp: Namespace, p: Array) -> Array:
        return -(xp.log(p) + 1) * as_dtype_of(xp, self.weights, p)

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return log_ratio(xp, q, p, d) * as_dtype_of(xp, self.weights, p)

    def _dirichlet_total(self, xp: Namespace, q: Dirichlet) -> Array:
        return xp.sum(as_dtype_of(xp, self.weights, q.alpha) * q.mean * q.surprise, axis=-1)

    def _dirichlet_parts(
        self, xp: Namespace, q: Dirichlet, total: Array
    ) -> tuple[Array, Array, None]:
        return _log_parts(xp, q, as_dtype_of(xp, self.weights, q.alpha))


log = register(Log())
brier = register(Brier())


@register
def tsallis(beta: float) -> ScoringRule:
    """Return the rule of Tsallis' entropy: the log loss for β → 1, and Brier at β = 2.

    H(p) = (1 − Σ p^β)/(β − 1), ℓ(p, y) = [1 + (β−1)Σp^β − βp_y^{β−1}]/(β−1) and
    D(q, p) = [Σp^β + (β−1)Σq^β − βΣp q^{β−1}]/(β−1). A larger β puts more weight on likely classes.

    Parameters
    ----------
    beta : float
        More than 1.

    Returns
    -------
    ScoringRule

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.tsallis(1.5)
    tsallis(1.5)
    >>> float(sw.rules.tsallis(2).entropy([0.5, 0.5]))
    0.5
    """
    return Tsallis(beta)


@register
def weighted_log(weights: Any) -> ScoringRule:
    """Return the rule ℓ(p, y) = −w_y log p_y + Σ_k w_k p_k − w_y: log loss with class weights.

    The naive −w_y log p_y is improper (it rewards shifting probability to heavy classes); the two
    added terms make it proper. H(p) = −Σ w p log p and D(q, p) = Σ w [p log(p/q) − p + q].

    Parameters
    ----------
    weights : array (K,)
        Positive class weights.

    Returns
    -------
    ScoringRule

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.weighted_log([1, 1, 5])
    weighted_log([1., 1., 5.])
    """
    return WeightedLog(weights)
