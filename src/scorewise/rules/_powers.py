"""Tsallis's family: between the log loss (β → 1) and Brier's score (β = 2), and beyond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from scorewise._array import Array, Namespace
from scorewise._numerics import log_gamma_drop, power, power_deficit, power_excess
from scorewise.distributions import Dirichlet
from scorewise.rules._rule import ScoringRule, number_above, register


@final
@dataclass(frozen=True, eq=False, repr=False)
class Tsallis(ScoringRule):
    """See :func:`tsallis`."""

    beta: float
    family = "tsallis"

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", number_above(1, self.beta, "β of tsallis"))

    def _losses(self, xp: Namespace, p: Array) -> Array:
        # Σ_{k≠y} p_k^β + [1 − βp_y^{β−1} + (β−1)p_y^β]/(β−1): the last is how far x^β at 1 lies
        # above its tangent at p_y, so neither part is negative
        beta = self.beta
        powers = power(xp, p, beta)
        others = xp.maximum(xp.sum(powers, axis=-1, keepdims=True) - powers, 0.0)
        return others + power_excess(xp, p, xp.ones_like(p), 1 - p, beta)

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        return power_deficit(xp, p, xp.sum(p, axis=-1, keepdims=True), self.beta)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return xp.sum(power_excess(xp, q, p, d, self.beta), axis=-1)

    def _dirichlet_epistemic(self, xp: Namespace, q: Dirichlet) -> tuple[Array, None]:
        # E θ_k^β = m_k·E θ_k^ε with α_k + 1 in place of α_k, and = m_k^β·exp(gap) with gap ≥ 0
        rate, x = self.beta - 1, q.alpha
        total = q.concentration[..., None]
        drop = log_gamma_drop(xp, x + 1, q.others, rate)
        gap = drop + rate * xp.log1p(q.others / (x * (total + 1)))
        small = gap < 1
        slope = power(xp, q.mean, rate)
        near = slope * xp.expm1(xp.where(small, gap, 0.0))
        far = xp.exp(drop + rate * xp.log((x + 1) / (total + 1))) - slope
        return xp.sum(q.mean * xp.where(small, near, far), axis=-1) / rate, None


@register
def tsallis(beta: float) -> ScoringRule:
    """H(p) = (1 − Σ p^β)/(β − 1): a family from the log loss (β → 1) over Brier (β = 2) on.

    ℓ(p, y) = [1 + (β−1)Σp^β − βp_y^{β−1}]/(β−1) and
    D(q, p) = [Σp^β + (β−1)Σq^β − βΣp q^{β−1}]/(β−1). Larger β looks at likely classes only.

    Parameters
    ----------
    beta : float
        More than 1.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.tsallis(1.5)
    tsallis(1.5)
    >>> float(sw.rules.tsallis(2).entropy([0.5, 0.5]))
    0.5
    """
    return Tsallis(beta)
