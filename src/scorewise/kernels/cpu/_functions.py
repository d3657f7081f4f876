"""Logarithms, exponentials and what is made of them, on vectors.

Errors are stated in units in the last place of the result; tests hold the functions to them.
"""

from __future__ import annotations

import math

from numba import njit

from scorewise.kernels.cpu._vectors import (
    absolute,
    any_lane,
    constant,
    fill,
    from_bits,
    multiply_add,
    polynomial,
    to_bits,
    to_floats,
    where,
)

compiled = njit(error_model="numpy")
inlined = njit(error_model="numpy", forceinline=True)  # where calls would cost

LN2 = math.log(2)
_MANTISSA_BITS = constant(23, 52)
_ROOT_HALF = constant(0x3F3504F3, 0x3FE6A09E667F3BCD)  # the bits of √½
_MAGNITUDE = constant(0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF)  # all bits but the sign
_ONE = constant(0x3F800000, 0x3FF0000000000000)  # the bits of 1
TINY = constant(2.0**-126, 2.0**-1022)

# (2 atanh(s) − 2s)/s³ in powers of s², for |s| ≤ tan(π/8)²
_ATANH = polynomial(
    (0.66666685, 0.39988781, 0.29579949),
    (
        0.666666666665872,
        0.40000000052274975,
        0.2857141712958009,
        0.2222337169839756,
        0.1812364207926407,
        0.16819827739478954,
    ),
)


@inlined
def maximum(a, b):
    """The larger of two; the second where either is NaN."""
    return where(a > b, a, b)


@inlined
def minimum(a, b):
    """The smaller of two; the second where either is NaN."""
    return where(a < b, a, b)


@inlined
def positive(v):
    """The larger of a number and 0; NaN stays NaN."""
    return where(v < 0.0, 0.0, v)


@inlined
def log(v):
    """The natural logarithm of |v|, to 2 units in the last place (float64: 3.2).

    About −88 (float64: −709) at ±0, not far from there below the normal numbers, and not for NaN.
    """
    bits = to_bits(v) & _MAGNITUDE(v)
    exponent = (bits - _ROOT_HALF(v)) >> _MANTISSA_BITS(v)
    mantissa = from_bits(bits - (exponent << _MANTISSA_BITS(v)))  # from √½ to √2
    s = (mantissa - 1.0) / (mantissa + 1.0)
    u = s * s
    return multiply_add(to_floats(exponent), LN2, multiply_add(s * u, _ATANH(u), s + s))


_LOWEST = constant(-127 * LN2, -1023 * LN2)  # where exp is 0
_HIGHEST = constant(127 * LN2, 1023 * LN2)
_SHIFTER = constant(1.5 * 2.0**23, 1.5 * 2.0**52)  # adding it rounds to a whole number
_LN2_HIGH = constant(0.693145751953125, 6.93147180369123816490e-01)  # a few bits less than ln 2
_LN2_LOW = constant(LN2 - 0.693145751953125, 1.90821492927058770002e-10)

# (exp(r) − 1 − r)/r² in powers of r, for |r| ≤ ln(2)/2
_EXP = polynomial(
    (0.5, 0.16666576845993977, 0.04166655443768594, 0.008363202971575855, 0.0013926213466332444),
    (
        0.5000000000000001,
        0.16666666666666669,
        0.04166666666662399,
        0.008333333333330051,
        0.0013888888917281794,
        0.00019841269863105968,
        2.480152119021773e-05,
        2.7557268378684192e-06,
        2.7620138719733994e-07,
        2.5100424157005067e-08,
    ),
)


@inlined
def _exp_parts(z):
    """2ⁿ and exp(r) − 1, for z = n·ln 2 + r."""
    z = where(z < _LOWEST(z), _LOWEST(z), z)  # NaN stays NaN
    z = where(z > _HIGHEST(z), _HIGHEST(z), z)
    shifted = multiply_add(z, 1 / LN2, _SHIFTER(z))
    n = shifted - _SHIFTER(z)
    r = multiply_add(n, -_LN2_LOW(z), multiply_add(n, -_LN2_HIGH(z), z))
    scale = from_bits((to_bits(shifted) << _MANTISSA_BITS(z)) + _ONE(z))
    return scale, multiply_add(r * r, _EXP(r), r)


@inlined
def exp(z):
    """The exponential, to 1.1 units in the last place; between −87.7 and 88 (float64: −708.7, 709).

    0 below, and what it is at 88 (709) above.
    """
    scale, rest = _exp_parts(z)
    return multiply_add(scale, rest, scale)


@inlined
def expm1(z):
    """The exponential less 1, to 2 units in the last place, also near 0."""
    scale, rest = _exp_parts(z)
    return multiply_add(scale, rest, scale - 1.0)


# Σ s^{2j}/(2j + 3) in powers of s², for |s| ≤ 0.1
_ODD = polynomial(
    tuple(1 / (2 * j + 3) for j in range(4)), tuple(1 / (2 * j + 3) for j in range(7))
)
_NEAR = 0.01  # the largest s² for which the series is used
# (exp(z) − 1 − z)/z² in powers of z, for |z| < 0.7
_BEND = polynomial(
    tuple(1 / math.factorial(j + 2) for j in range(8)),
    tuple(1 / math.factorial(j + 2) for j in range(15)),
)


@inlined
def _at_least_tiny(v):
    return maximum(v, fill(v, TINY(v)))


@inlined
def log1p(x):
    """The logarithm of 1 + x for x from −½ to 1, to 5.5 units in the last place."""
    s = x / (x + 2.0)
    u = s * s
    return where(u < _NEAR, (s + s) * multiply_add(u, _ODD(u), 1.0), log(x + 1.0))


@inlined
def relative_entropy(q, p, d):
    """p·log(p/q) − p + q with d = p − q: 0 at d = 0, q at p = 0, finite at q = 0.

    With c = p + q and s = d/c it is c·[(1 + s)·atanh s − s], a series in which nothing cancels,
    right to 5 units in the last place for |s| < 0.1; beyond, logarithms do, to 80 units.
    """
    c = p + q
    s = d / _at_least_tiny(c)
    u = s * s
    value = c * u * multiply_add(s + u, _ODD(u), 1.0)
    apart = u > _NEAR
    if any_lane(apart):
        ratio = where(apart, p, 1.0) / _at_least_tiny(q)
        value = where(apart, multiply_add(p, log(ratio), -d), value)
    return value


@inlined
def power_excess(q, p, d, rate):
    """[p^β − q^β − β·q^{β−1}·d]/(β − 1) with d = p − q and rate = β − 1.

    How far x^β lies above its tangent, as a sum of two parts that are never negative; see
    ``scorewise._numerics.power_excess``. Right to 72 units in the last place, and 6.5 more
    (float64: 12.5) for each unit of rate·(|log q| + |log p|).
    """
    slope = where(q > 0.0, exp(log(q) * rate), 0.0)
    s = d / _at_least_tiny(p + q)
    u = s * s
    near = (s + s) * multiply_add(u, _ODD(u), 1.0)
    log_ratio = where(u < _NEAR, near, log(p / _at_least_tiny(q)))
    z = log_ratio * rate
    gentle = (absolute(z) < 0.7) & (slope > 0.0)
    v = where(gentle, z, 0.0)
    bend = where(gentle, slope * v * v * _BEND(v), exp(log(p) * rate) - slope * (z + 1.0))
    return slope * relative_entropy(q, p, d) + p * bend / rate
