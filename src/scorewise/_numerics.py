"""Stable primitives: the differences that plain formulas lose to rounding.

Each is exact where its value is exactly 0, never of the wrong sign, and accurate to a few units of
rounding on its whole domain. ``q`` is where a function is expanded, ``p`` the point it is compared
with, ``d`` the difference p - q, which callers often know better than ``p - q`` would give it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scorewise._array import Array, Namespace, eps


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """c₀ + c₁x + c₂x² + … with at least two terms, by Horner's scheme."""
    value = coefficients[-1] * x + coefficients[-2]
    for c in coefficients[-3::-1]:
        value = value * x + c
    return value


def sum_product(xp: Namespace, p: Array, values: Array) -> Array:
    """Σ_k p_k·values_k over the last axis, where 0 · ∞ is 0."""
    return xp.sum(xp.where(p > 0, p * xp.where(p > 0, values, 0.0), 0.0), axis=-1)


def neg_log(xp: Namespace, p: Array) -> Array:
    """−log p, and ∞ at 0 without a warning."""
    return xp.where(p > 0, -xp.log(xp.where(p > 0, p, 1.0)), math.inf)


def _terms(xp: Namespace, x: Array, in_float64: int) -> int:
    """How many terms of a series the array's dtype can see."""
    return in_float64 if eps(xp, x) < 1e-10 else (in_float64 + 1) // 2


def relative_entropy(xp: Namespace, q: Array, p: Array, d: Array) -> Array:
    """p·log(p/q) − p + q, elementwise: 0 at p = q, q at p = 0, ∞ at q = 0 < p.

    With c = p + q and s = (p − q)/c this is c·[(1 + s)·atanh s − s], whose series has only one
    sign of leading term; the textbook form cancels for p near q.
    """
    c = p + q
    s = d / xp.where(c > 0, c, 1.0)
    near = xp.abs(s) < 0.3
    u = xp.where(near, s, 0.0)
    # Σ s^{2j}/(2j+1) = 1 + s²·Σ s^{2j}/(2j+3): one series serves both parts
    odd = polynomial(u * u, [1 / (2 * j + 3) for j in range(_terms(xp, p, 14))])
    apart = (p > 0) & ~near
    log_ratio = xp.log(xp.where(apart, p, 1.0)) + neg_log(xp, xp.where(apart, q, 1.0))
    far = xp.where(apart, p * log_ratio, 0.0) - d
    return xp.where(near, c * u * u * (1 + (u + u * u) * odd), far)


def log1p_minus(xp: Namespace, u: Array) -> Array:
    """log(1 + u) − u, for u > −1."""
    near = xp.abs(u) < 0.5
    v = xp.where(near, u, 0.0)
    s = v / (2 + v)  # log(1 + u) = 2 atanh s, and u − 2s = u·s
    series = polynomial(s * s, [2 / (2 * j + 3) for j in range(_terms(xp, u, 15))])
    far = xp.where(near, 0.0, u)
    return xp.where(near, s * s * s * series - v * s, xp.log1p(far) - far)


def expm1_minus(xp: Namespace, z: Array) -> Array:
    """exp(z) − 1 − z."""
    near = xp.abs(z) < 0.7
    v = xp.where(near, z, 0.0)
    series = polynomial(v, [1 / math.factorial(j + 2) for j in range(_terms(xp, z, 15))])
    far = xp.where(near, 0.0, z)
    return xp.where(near, v * v * series, xp.expm1(far) - far)


def power(xp: Namespace, x: Array, exponent: float) -> Array:
    """x^exponent for x ≥ 0, with a gradient that is finite at 0."""
    return xp.where(x > 0, xp.where(x > 0, x, 1.0) ** exponent, 0.0)


def power_excess(xp: Namespace, q: Array, p: Array, d: Array, beta: float) -> Array:
    """[p^β − q^β − β q^{β−1}(p − q)]/(β − 1), elementwise, for β > 1.

    How far x^β lies above its tangent. With ε = β − 1 and r = log(p/q) it is the sum of

        q^ε·[p log(p/q) − p + q]   and   p·q^ε·[exp(εr) − 1 − εr]/ε,

    neither of which is ever negative, so nothing cancels, however close β is to 1.
    """
    rate = beta - 1
    slope = power(xp, q, rate)
    active = slope > 0  # q^ε may underflow; then only p^ε counts
    q, d = xp.where(active, q, 1.0), xp.where(active, d, 0.0)
    p_near = xp.where(active, p, 1.0)
    near = xp.abs(d) < 0.5 * q
    apart = ~near & (p_near > 0)
    log_ratio = xp.where(
        near,
        xp.log1p(xp.where(near, d, 0.0) / q),
        xp.log(xp.where(apart, p_near, 1.0)) - xp.log(xp.where(apart, q, 1.0)),
    )
    z = rate * log_ratio
    gentle = active & (p > 0) & (xp.abs(z) < 0.7)
    soft = slope * expm1_minus(xp, xp.where(gentle, z, 0.0))
    bend = xp.where(gentle, soft, power(xp, p, rate) - slope * (1 + z))
    own = slope * relative_entropy(xp, q, p_near, d)
    return own + xp.where(p > 0, p * bend, 0.0) / rate


def power_deficit(xp: Namespace, p: Array, total: Array, beta: float) -> Array:
    """Σ_k p_k·[1 − (p_k/S)^{β−1}] / (β − 1) for S = Σp: no term is negative, none cancels."""
    share = p / total
    positive = p > 0
    decay = -xp.expm1((beta - 1) * xp.log(xp.where(positive, share, 1.0))) / (beta - 1)
    return xp.sum(p * xp.where(positive, decay, 0.0), axis=-1)


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
_SHIFT = 12  # the asymptotic series below are exact to rounding from here on


def stirling_error(x: Array) -> Array:
    """Log Γ(x) − [(x − ½) log x − x + ½ log 2π], for x ≥ 12."""
    return polynomial(1 / (x * x), _STIRLING) / x


def digamma_gap(xp: Namespace, x: Array) -> Array:
    """ψ(x + 1) − log x for x > 0, about 1/(2x): what two digammas share is never computed."""
    y = x + _SHIFT
    asymptotic = 0.5 / y + polynomial(1 / (y * y), _DIGAMMA) / (y * y)
    gap = asymptotic + xp.log1p(_SHIFT / x)
    for i in range(1, _SHIFT + 1):
        gap = gap - 1 / (x + i)
    return gap


def log_gamma_ratio_gap(xp: Namespace, x: Array, beta: float) -> Array:
    """Log Γ(x + β) − log Γ(x) − β log x for x > 0: about β(β − 1)/(2x)."""
    small = x < 2 * _SHIFT
    y = xp.where(small, x + 2 * _SHIFT, x)
    u = beta / y
    gap = (y + beta - 0.5) * log1p_minus(xp, u) + (beta - 0.5) * u
    gap = gap + stirling_error(y + beta) - stirling_error(y)
    near = xp.where(small, x, 1.0)
    climb = beta * xp.log(1 + 2 * _SHIFT / near)
    for i in range(2 * _SHIFT):
        climb = climb - xp.log1p(beta / (near + i))
    return gap + xp.where(small, climb, 0.0)
