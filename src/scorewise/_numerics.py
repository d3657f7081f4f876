"""Numerical primitives: differences that plain formulas lose to rounding, and rounded numbers.

Each part of a formula is exact where its value is 0, never has the wrong sign, and is accurate to a
few units of rounding on its whole domain. ``q`` is where a function is expanded, ``p`` the point it
is compared with, ``d`` the difference p - q, which callers often have with more digits than
``p - q``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scorewise._array import (
    Array,
    Namespace,
    all_finite,
    cumulative_sum,
    dot,
    eps,
    has_xlogy,
    ignoring_errors,
    is_jax,
    is_small_on_device,
    is_traced,
    largest,
    minus,
    plus,
    smallest_normal,
    sum_products,
    times,
    times_plus,
)


def allowed_error(xp: Namespace, x: Array) -> float:
    """Return the relative error that EU may have in the array's dtype."""
    return 1e-12 if eps(xp, x) < 1e-10 else 1e-4


def polynomial(x: Array, coefficients: Sequence[Array]) -> Array:
    """Return c₀ + c₁x + c₂x² + … with at least two terms, by Horner's scheme."""
    value = plus(coefficients[-1] * x, coefficients[-2])
    for c in coefficients[-3::-1]:
        value = times_plus(value, x, c)
    return value


def sum_product(xp: Namespace, p: Array, values: Array) -> Array:
    """Return Σ_k p_k·values_k over the last axis, where 0 · ∞ is 0."""
    if all_finite(xp, values):
        return dot(xp, values, p)
    return sum_products(xp, xp.where(p > 0, values, 0.0), p)


def sum_of_others(xp: Namespace, x: Array) -> Array:
    """Return Σ_{j≠k} x_j for every k of the last axis, as a sum, not a difference."""
    none = xp.zeros_like(x[..., :1])
    before = cumulative_sum(xp, xp.concat([none, x[..., :-1]], axis=-1))
    after = cumulative_sum(xp, xp.concat([none, xp.flip(x[..., 1:], axis=-1)], axis=-1))
    return before + xp.flip(after, axis=-1)


def gini_terms(xp: Namespace, p: Array) -> Array:
    """Return p_k·(S − p_k) with S = Σp, elementwise; their sum is S² − Σp²."""
    return p * (xp.sum(p, axis=-1, keepdims=True) - p)


def square_root(xp: Namespace, x: Array) -> Array:
    """Return √x for x ≥ 0, with a gradient that is finite at 0."""
    return xp.where(x > 0, xp.sqrt(xp.where(x > 0, x, 1.0)), 0.0)


def neg_log(xp: Namespace, p: Array) -> Array:
    """Return −log p, and ∞ at 0 without a warning."""
    return xp.where(p > 0, -xp.log(xp.where(p > 0, p, 1.0)), math.inf)


def log_ratio(xp: Namespace, q: Array, p: Array, d: Array) -> Array:
    """Return log(p/q) for p, q > 0, with d = p − q: accurate for p near q, and 0 at d = 0."""
    change = d / q
    near = xp.abs(change) < 0.5
    return xp.where(near, xp.log1p(xp.where(near, change, 0.0)), xp.log(p / q))


def quotient(xp: Namespace, a: Array, b: Array) -> Array:
    """Return a/b for b > 0, scaled where 1/b² would overflow in the gradient of JAX."""
    if not (is_jax(b) and is_traced(b)):
        return a / b
    tiny = smallest_normal(xp, b)
    lift = xp.where(b < tiny ** (1 / 3), tiny**-0.5, 1.0)
    return (a * lift) / (b * lift)


def _terms(xp: Namespace, x: Array, in_float64: int) -> int:
    """The number of terms of a series that the array's dtype can resolve."""
    return in_float64 if eps(xp, x) < 1e-10 else (in_float64 + 1) // 2


def _terms_within(xp: Namespace, x: Array, bound: float) -> int:
    """The same for powers of numbers that are at most the bound, if coefficients do not grow."""
    return max(2, math.ceil(math.log(eps(xp, x)) / math.log(max(bound, 1e-30))))


def relative_entropy(xp: Namespace, q: Array, p: Array, d: Array) -> Array:
    """Return p·log(p/q) − p + q, elementwise: 0 at p = q, q at p = 0, ∞ at q = 0 < p.

    With c = p + q and s = (p − q)/c this is c·[(1 + s)·atanh s − s], whose series has only one
    sign of leading term; the textbook form cancels for p near q.
    """
    s = quotient(xp, d, plus(p + q, smallest_normal(xp, p)))
    square = s * s
    top = math.inf if is_small_on_device(s) else largest(xp, square)
    all_near = top < 0.09
    bound = top if all_near else 0.01
    near = None if all_near else square < bound
    # Σ s^{2j}/(2j+1) = 1 + s²·Σ s^{2j}/(2j+3): one series serves both parts
    odd = polynomial(square, [1 / (2 * j + 3) for j in range(_terms_within(xp, s, bound))])
    close = times(times(times_plus(odd, plus(square, s), 1.0), s), d)  # c·s = d
    if near is None:  # as they often are where EU is small
        return close
    if has_xlogy(p, q):
        return xp.where(near, close, minus(minus(xp.xlogy(p, p), xp.xlogy(p, q)), d))
    log_ratio = xp.log(xp.where(p > 0, p, 1.0)) + neg_log(xp, q)
    apart = (p > 0) & ~near
    return xp.where(near, close, xp.where(apart, p * xp.where(apart, log_ratio, 0.0), 0.0) - d)


def log1p_minus(xp: Namespace, u: Array) -> Array:
    """Return log(1 + u) − u, for u > −1."""
    near = xp.abs(u) < 0.5
    v = xp.where(near, u, 0.0)
    s = v / (2 + v)  # log(1 + u) = 2 atanh s, and u − 2s = u·s
    series = polynomial(s * s, [2 / (2 * j + 3) for j in range(_terms(xp, u, 15))])
    far = xp.where(near, 0.0, u)
    return xp.where(near, s * s * s * series - v * s, xp.log1p(far) - far)


def expm1_minus(xp: Namespace, z: Array) -> Array:
    """Return exp(z) − 1 − z."""
    near = xp.abs(z) < 0.7
    v = xp.where(near, z, 0.0)
    series = polynomial(v, [1 / math.factorial(j + 2) for j in range(_terms(xp, z, 15))])
    far = xp.where(near, 0.0, z)
    return xp.where(near, v * v * series, xp.expm1(far) - far)


def power(xp: Namespace, x: Array, exponent: float) -> Array:
    """Return x^exponent for x ≥ 0, with a gradient that is finite at 0."""
    return xp.where(x > 0, xp.where(x > 0, x, 1.0) ** exponent, 0.0)


_POWER_ERROR_UNITS = 8  # that a difference of powers may have, in parts of the error allowed
FEW_FACTORS = (3.0, 4.0)  # powers that are products, and underflow only where they may


def power_excess(xp: Namespace, q: Array, p: Array, d: Array, beta: float) -> Array:
    """Return [p^β − q^β − β q^{β−1}(p − q)]/(β − 1), elementwise, for β > 1.

    How far x^β lies above its tangent. With ε = β − 1 and r = log(p/q) it is the sum of

        q^ε·[p log(p/q) − p + q]   and   p·q^ε·[exp(εr) − 1 − εr]/ε,

    neither of which is ever negative, so nothing cancels, however close β is to 1. For a whole β
    it is (p − q)²·Σ_j (j + 1)·q^j·p^{β−2−j}/(β − 1).
    """
    rate = beta - 1
    if beta in FEW_FACTORS:
        factor = p + 2 * q
        for j in range(2, int(beta) - 1):
            factor = plus(times(factor, p), times(q**j, j + 1))
        return times(times(times(factor, d), d), 1 / rate)
    far_from = math.sqrt(_POWER_ERROR_UNITS * eps(xp, q) / allowed_error(xp, q) / (beta * rate))
    if far_from < 0.4 and is_small_on_device(d) and has_xlogy(p, q):  # in few calls
        u = d / q
        series = _binomial_coefficients(beta, _terms_within(xp, u, max(1, beta - 2) * far_from))
        near = times(times(times(polynomial(u, series), u), u), q**beta)
        far = times(minus(p**beta, times(plus(beta * d, q), q**rate)), 1 / rate)
        return xp.where(xp.abs(u) < far_from, near, far)
    with ignoring_errors(q):
        u = d / q
        growth = max(1.0, (beta - 2) / 3) * largest(xp, xp.abs(u))
        if growth < 0.4:  # the powers of u from the second on, of (1 + u)^β = (p/q)^β
            series = _binomial_coefficients(beta, _terms_within(xp, u, growth))
            return times(times(times(polynomial(u, series), u), u), q**beta)
    slope = power(xp, q, rate)
    nonzero_slope = slope > 0  # q^ε may underflow; then only p^ε counts
    q, d = xp.where(nonzero_slope, q, 1.0), xp.where(nonzero_slope, d, 0.0)
    p_near = xp.where(nonzero_slope, p, 1.0)
    near = xp.abs(d) < 0.5 * q
    apart = ~near & (p_near > 0)
    log_ratio = xp.where(
        near,
        xp.log1p(quotient(xp, xp.where(near, d, 0.0), q)),
        xp.log(xp.where(apart, p_near, 1.0)) - xp.log(xp.where(apart, q, 1.0)),
    )
    z = rate * log_ratio
    small_exponent = nonzero_slope & (p > 0) & (xp.abs(z) < 0.7)
    excess_near = slope * expm1_minus(xp, xp.where(small_exponent, z, 0.0))
    excess = xp.where(small_exponent, excess_near, power(xp, p, rate) - slope * (1 + z))
    first_term = slope * relative_entropy(xp, q, p_near, d)
    return first_term + xp.where(p > 0, p * excess, 0.0) / rate


def _binomial_coefficients(beta: float, n: int) -> list[float]:
    """Return n coefficients of [(1 + u)^β − 1 − βu]/(β − 1)/u² in powers of u."""
    coefficients = [beta / 2]
    for j in range(2, n + 1):
        coefficients.append(coefficients[-1] * (beta - j) / (j + 1))
    return coefficients


def power_deficit(xp: Namespace, p: Array, total: Array, beta: float) -> Array:
    """Return Σ_k p_k·[1 − (p_k/S)^{β−1}] / (β − 1) for S = Σp; no term is negative."""
    decay = times(xp.log(p / total[..., None] + smallest_normal(xp, p)), beta - 1)
    return sum_products(xp, xp.expm1(decay), p) / (1 - beta)


def divided_difference(coefficients: Sequence[float], *points: Array) -> Array:
    """Return Q[x₀, x₁, …] of the polynomial c₀ + c₁x + …, by Horner's scheme."""
    values: list[Array] = [0.0] * len(points)
    for c in reversed(coefficients):
        for j in range(len(points) - 1, 0, -1):
            values[j] = values[j] * points[j] + values[j - 1]
        values[0] = values[0] * points[0] + c
    return values[-1]


# In powers of 1/x: log Γ(x) − [(x − ½) log x − x + ½ log 2π], and ψ(x + 1) − log x
_STIRLING = (0, 1 / 12, 0, -1 / 360, 0, 1 / 1260, 0, -1 / 1680, 0, 1 / 1188, 0, -691 / 360360)
_DIGAMMA = (0, 1 / 2, -1 / 12, 0, 1 / 120, 0, -1 / 252, 0, 1 / 240, 0, -1 / 132, 0, 691 / 32760)
_SHIFT = 12  # these series are exact to rounding from here on


# Every part of these differences has r, and e, as a factor, so nothing is lost where r is small.


def digamma_rise(xp: Namespace, x: Array, r: Array) -> Array:
    """Return ψ(x + r + 1) − ψ(x + 1) ≥ 0, for x > 0, r ≥ 0."""
    return xp.log1p(r / (x + _SHIFT)) + _digamma_steps(x, r)


def digamma_drop(xp: Namespace, x: Array, r: Array) -> Array:
    """Return g(x) − g(x + r) ≥ 0 for g(x) = ψ(x + 1) − log x, about 1/(2x); for x > 0, r ≥ 0."""
    return xp.log1p(_SHIFT * r / (x * (x + r + _SHIFT))) - _digamma_steps(x, r)


def _digamma_steps(x: Array, r: Array) -> Array:
    """Return ψ(x + r + 1) − ψ(x + 1), less the difference of the logarithms 12 steps above."""
    end = x + r
    y, z = x + _SHIFT, end + _SHIFT
    steps = -r / (y * z) * divided_difference(_DIGAMMA, 1 / y, 1 / z)
    for i in range(1, _SHIFT + 1):
        steps = steps + r / ((x + i) * (end + i))
    return steps


def log_gamma_rise(xp: Namespace, x: Array, r: Array, e: float) -> Array:
    """Return h(x + r) − h(x) ≥ 0 for h(x) = log Γ(x + e) − log Γ(x), for x ≥ 1, r ≥ 0, e > 0."""
    return e * xp.log1p(r / (x + _SHIFT)) + _log_gamma_steps(xp, x, r, e)


def log_gamma_drop(xp: Namespace, x: Array, r: Array, e: float) -> Array:
    """Return g(x) − g(x + r) for g(x) = log Γ(x + e) − log Γ(x) − e log x, about e(e − 1)/(2x).

    For x ≥ 1, r ≥ 0, e > 0.
    """
    return e * xp.log1p(_SHIFT * r / (x * (x + r + _SHIFT))) - _log_gamma_steps(xp, x, r, e)


def _log_gamma_steps(xp: Namespace, x: Array, r: Array, e: float) -> Array:
    """Return h(x + r) − h(x), less e times the difference of the logarithms 12 steps above."""
    end = x + r
    y, z = x + _SHIFT, end + _SHIFT
    # (y + e − ½) log(1 + e/y) at y and z, less their common terms
    tail = (y + e - 0.5) * log1p_minus(xp, e * r / (y * (z + e)))
    tail = tail - r * log1p_minus(xp, e / z) + e * r * (e * r - z / 2) / (y * z * (z + e))
    # the Stirling series at y, y + e, z and z + e
    a, b, c, d = 1 / y, 1 / (y + e), 1 / z, 1 / (z + e)
    near, far = divided_difference(_STIRLING, a, b, c), divided_difference(_STIRLING, b, c, d)
    slope = (y + z + e) * a * b * divided_difference(_STIRLING, a, b) + a * c * near + b * d * far
    steps = e * r * c * d * slope - tail
    for i in range(_SHIFT):
        steps = steps + xp.log1p(e * r / ((x + i) * (end + i + e)))
    return steps


MOST_POINTS = 2000  # of a drawn line; no figure resolves more


def evenly_spaced(n: int, most: int = MOST_POINTS) -> np.ndarray:
    """Return at most ``most`` evenly spaced indices of n items, with both ends."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(int)


_TINY, _HUGE = 1e-290, 1e290  # only numbers between these sizes are rounded


def ten_digits(values: Array) -> np.ndarray:
    """Return the numbers rounded to ten significant digits, in which they meet thresholds.

    The last digits of an uncertainty depend on the rows that are computed together. Where many rows
    are tied at a threshold, as rows with equal votes are, these digits would decide which of them
    are accepted. Rounding twice gives the same numbers. Numbers below 1e-290 become 0.
    """
    x = np.asarray(values, dtype=np.float64)
    size = np.abs(x)
    ordinary = (size > _TINY) & (size < _HUGE)
    safe = np.where(ordinary, x, 1.0)
    power = 9 - np.floor(np.log10(np.abs(safe)))
    digits = np.round(safe * 10.0**power)
    # 10 and its powers are written in one way only, so that rounding again changes nothing
    carried = np.abs(digits) >= 1e10
    rounded = np.where(carried, digits / 10, digits) / 10.0 ** (power - carried)
    return np.where(ordinary, rounded, np.where(size > _TINY, x, 0.0))
