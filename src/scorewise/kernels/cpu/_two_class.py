"""The beta family as the kernel reads it: numbers that are found once for each pair (a, b).

With c the smaller of the two probabilities, α the parameter of its class and β that of the other,
the entropy is H = L·c − φ(c), where φ'' = c^(α−1)·(1 − c)^(β−1). With r_n the coefficients of
(1 − c)^(β−1) in powers of c,

    φ(c) = Σ_n r_n·c^(α+n+1)/((α + n)·(α + n + 1)).

So φ and φ' are powers of c times functions that are smooth up to c = ½, which become polynomials. L
is what makes H smooth where both classes are equally likely. The series are summed with many
digits, as their terms may alternate and be large.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np

_SMALLEST, _LARGEST = -0.99, 300.0  # parameters for which a table is tried
_FLAT = 1 / 64  # up to which c^α/α is nearly a constant, which is taken out of it
_POINTS = (20, 32, 48, 64)  # numbers of points that are tried for a polynomial
_LEAST_BEND = 2e-4  # of φ, at which differences of it keep enough digits
_ACCURACY = {np.float32: 1e-9, np.float64: 4e-16}
_NODES = {np.float32: 5, np.float64: 9}
_ZERO, _HALF, _ONE = Decimal(0), Decimal("0.5"), Decimal(1)


@lru_cache(maxsize=64)
def two_class_numbers(a: float, b: float) -> np.ndarray | None:
    """Return what native/two_class.hpp calls the numbers of a rule; None for extreme parameters."""
    if not (min(a, b) >= _SMALLEST and max(a, b) <= _LARGEST):
        return None
    near = min(0.5, 3 / max(abs(a - 1), abs(b - 1), 1))
    with localcontext() as context:
        context.prec = 60 + int(0.7 * (abs(a) + abs(b)))
        sides = [_Side.of(b, a), _Side.of(a, b)]
        (phi_0, slope_0), (phi_1, slope_1) = (side.at_half() for side in sides)
        fits = [side.polynomials(near) for side in sides]
    if any(fit is None for fit in fits):
        return None
    middle, difference = (slope_0 + slope_1) / 2, phi_0 - phi_1
    linear = [float(middle + difference), float(middle - difference)]
    size = max(*(abs(x) / 2 for x in linear), abs(float(phi_0)), abs(float(phi_1)))
    header = [size, near]
    tables: list[np.ndarray] = []
    for dtype, accuracy in _ACCURACY.items():
        short = [_shortened(c, accuracy) for fit in fits for c in fit or ()]
        n = max(map(len, short))
        n += n % 2
        x, w = np.polynomial.legendre.leggauss(_NODES[dtype])
        v = (1 + x) / 2
        tables += [v, w / 2 * (1 - v), *(np.pad(c, (0, n - len(c))) for c in short)]
        header += [n, len(v)]
    for side, slope in zip(sides, linear, strict=True):
        header += [float(side.alpha), float(side.is_flat), side.factor, side.bend, slope]
    return np.concatenate([header, *tables])


@dataclass(frozen=True)
class _Side:
    """φ and φ' where the class of parameter α is the less likely one.

    φ = c^(α+1)·(1 − c)^bend·F(c) and φ' = c^α·(1 − c)^bend·G(c). Near α = 0, where these powers
    would be large and cancel, φ = c·(c^α − 1)/(α·(α + 1)) + c^(α+2)·F(c) and
    φ' = (c^α − 1)/α + 1/(α + 1) + c^(α+1)·G(c).
    """

    alpha: Decimal
    beta: float
    coefficients: tuple[tuple[Decimal, Decimal], ...]  # of F and G in powers of c, for bend = 0
    is_flat: bool
    bend: float

    @classmethod
    def of(cls, alpha: float, beta: float) -> _Side:
        is_flat = abs(alpha) < _FLAT
        a, r = Decimal(alpha if abs(alpha) > 1e-20 else 0.0), _ONE
        coefficients = []
        n, smallest = 0, Decimal(10) ** -int(25 + 0.35 * max(beta, 0.0))
        while n <= beta + 1 or abs(r) * _HALF**n > smallest:
            if n or not is_flat:
                coefficients.append((r / ((a + n) * (a + n + 1)), r / (a + n)))
            n += 1
            r *= (n - Decimal(beta)) / n
        side = cls(a, beta, tuple(coefficients), is_flat, 0.0)
        if is_flat or beta < 4:
            return side
        # powers of 1 − c that make F as large at ½ as at 0
        ratio = coefficients[0][0] / side.series(_HALF)[0]
        return cls(
            a, beta, side.coefficients, is_flat, max(0.0, float(ratio.ln() / Decimal(2).ln()))
        )

    @property
    def factor(self) -> float:
        """1/(α·(α + 1)), by which c^α − 1 is multiplied; at α = 0 it is log c, and times 1."""
        return float(1 / (self.alpha * (self.alpha + 1))) if self.alpha else 1.0

    def series(self, c: Decimal) -> tuple[Decimal, Decimal]:
        """Return F and G without the power of 1 − c."""
        power, f, g = _ONE, _ZERO, _ZERO
        for of_f, of_g in self.coefficients:
            f += of_f * power
            g += of_g * power
            power *= c
        return f, g

    def at_half(self) -> tuple[Decimal, Decimal]:
        """Return φ and φ' at ½."""
        a, (f, g) = self.alpha, self.series(_HALF)
        power = _HALF**a if a else _ONE
        if not self.is_flat:
            return power * f / 2, power * g
        grown = (power - 1) / a if a else _HALF.ln()  # (c^α − 1)/α
        return grown / (2 * (a + 1)) + power * f / 4, grown + 1 / (a + 1) + power * g / 2

    def polynomials(self, near: float) -> list[np.ndarray] | None:
        """Return Chebyshev coefficients of F and G in 4c − 1; None if they would lose digits."""
        for n in _POINTS:
            j = 2 * np.arange(n) + 1
            c = (1 + np.cos(np.pi * j / (2 * n))) / 4
            values = np.array([[float(x) for x in self.series(Decimal(float(y)))] for y in c]).T
            values *= np.exp(-self.bend * np.log1p(-c))
            sizes = np.abs(values)
            # D(q, p) of what is just not near, and φ, of whose values it is then a difference
            divergence = (1 - c) ** (self.beta - 1 - self.bend) * near**2 / 2
            parts = np.maximum(sizes[0] * c, -np.log(c)) if self.is_flat else sizes[0]
            if (divergence < _LEAST_BEND * parts).any():
                return None
            turns = np.outer(j, np.arange(n)) % (4 * n)  # as large angles are rounded
            chebyshev = 2 / n * values @ np.cos(np.pi * turns / (2 * n))
            chebyshev[:, 0] /= 2
            if (np.abs(chebyshev[:, -4:]) <= 5e-16 * sizes.max(axis=1, keepdims=True)).all():
                return list(chebyshev)
        return None


def _shortened(chebyshev: np.ndarray, accuracy: float) -> np.ndarray:
    """Return the coefficients of a polynomial in powers, without terms below the accuracy."""
    sizes = np.abs(chebyshev)
    n = 1 + int(np.flatnonzero(sizes >= accuracy * sizes.max())[-1])
    return np.asarray(np.polynomial.chebyshev.cheb2poly(chebyshev[:n]))
