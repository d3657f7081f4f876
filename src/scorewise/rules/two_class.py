"""Buja's beta family for two classes: which probabilities must be right?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

from scorewise import validate
from scorewise._array import Array, Namespace
from scorewise._numerics import power, sum_product
from scorewise.rules.rule import ScoringRule, number_above, register


@lru_cache(maxsize=64)
def _gauss(end_exponent: float, n: int = 32) -> tuple[tuple[float, float], ...]:
    """Nodes and weights for ∫₀¹ v^e f(v) dv."""
    from scipy.special import roots_jacobi

    x, w = roots_jacobi(n, 0.0, end_exponent)
    scale = 2.0 ** -(end_exponent + 1)
    return tuple(zip(((1 + x) / 2).tolist(), (w * scale).tolist(), strict=True))


def _partial(xp: Namespace, x: Array, y: Array, a: float, b: float) -> Array:
    """F = ∫₀ˣ c^a (1−c)^{b−1} dc for x + y = 1, a > −1, b > −1: ∞ at y = 0 where b ≤ 0."""
    lower = _below_half(xp, xp.where(x < 0.5, x, 0.5), a, b)
    rest = xp.where(y < 0.5, y, 0.5)
    if b > 0:  # ∫ u^{b−1}(1−u)^a du from y to ½, with u = 1 − c
        half = xp.full_like(y, 0.5)
        return lower + (_below_half(xp, half, b - 1, a + 1) - _below_half(xp, rest, b - 1, a + 1))
    # That integral has a pole at 0: ∫ u^{b−1} du, and ∫ u^{b−1}[(1−u)^a − 1] du, which is tame.
    log_rest = xp.log(xp.where(rest > 0, 2 * rest, 1.0))
    pole = -log_rest if b == 0 else -(0.5**b) / b * xp.expm1(b * log_rest)
    pole = xp.where(rest > 0, pole, math.inf)
    return lower + pole + (_tame(xp, xp.full_like(y, 0.5), a, b) - _tame(xp, rest, a, b))


def _below_half(xp: Namespace, x: Array, a: float, b: float) -> Array:
    """∫₀ˣ c^a (1−c)^{b−1} dc for x ≤ ½ and a > −1."""
    value = 0.0 * x
    for v, w in _gauss(a):
        value = value + w * (1 - x * v) ** (b - 1)
    return value * power(xp, x, a + 1)


def _tame(xp: Namespace, y: Array, a: float, b: float) -> Array:
    """∫₀ʸ u^{b−1}[(1−u)^a − 1] du for y ≤ ½."""
    value = 0.0 * y
    for v, w in _gauss(b):
        value = value + (w / v) * xp.expm1(a * xp.log1p(-y * v))
    return value * power(xp, y, b)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Beta(ScoringRule):
    """See :func:`beta`."""

    a: float
    b: float
    family = "beta"

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", number_above(-1, self.a, "a of beta"))
        object.__setattr__(self, "b", number_above(-1, self.b, "b of beta"))

    def check_classes(self, n_classes: int) -> None:
        validate.same_classes(n_classes, 2, repr(self))

    def _losses(self, xp: Namespace, p: Array) -> Array:
        zero, one = p[..., 0], p[..., 1]
        return xp.stack(
            [_partial(xp, one, zero, self.a, self.b), _partial(xp, zero, one, self.b, self.a)],
            axis=-1,
        )

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        return sum_product(xp, p, self._losses(xp, p))

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        # Near: d²∫₀¹(1−v)·ω(q + vd)dv, positive at every node. Far: the difference of losses.
        span = xp.max(xp.abs(d), axis=-1)
        near = span < 8 * xp.minimum(xp.min(q, axis=-1), xp.min(p, axis=-1))
        start = xp.where(near[..., None], q, 0.5)
        change = xp.where(near[..., None], d, 0.0)
        close = 0.0 * span
        for v, w in _gauss(1.0):
            c = start + (1 - v) * change
            low, high = xp.min(c, axis=-1), xp.max(c, axis=-1)
            one_is_low = c[..., 1] < c[..., 0]
            swing = (self.a - self.b) * xp.astype(one_is_low, c.dtype)
            at_low = low ** (self.b + swing + 1)
            at_high = high ** (self.a - swing - 1)
            # d²·ω(c), with d² divided by the square of what may be tiny
            close = close + w * at_low * at_high * (change[..., 1] / low) ** 2
        gain = self._losses(xp, q) - xp.where(p > 0, self._losses(xp, p), 0.0)
        far = sum_product(xp, p, gain)
        return xp.where(near, close, xp.where(span > 0, xp.maximum(far, 0.0), 0.0))


@register
def beta(a: float, b: float) -> ScoringRule:
    """The beta family for two classes, with p = p(class 1) and ω(c) = c^{a−1}(1−c)^{b−1}.

    ℓ₁ = ∫_p^1 (1−c)ω(c)dc, ℓ₀ = ∫_0^p c·ω(c)dc and D(q, p) = ∫_q^p (p−c)ω(c)dc: ω says how much it
    matters on which side of c a probability lies. a = b = 0 is the log loss, a = b = 1 a quarter
    of Brier's; a/(a + b) is where ω is centred, for errors of unequal cost.

    Parameters
    ----------
    a, b : float
        More than −1.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.get_rule("beta:0.5,2")
    beta(0.5, 2)
    """
    return Beta(a, b)
