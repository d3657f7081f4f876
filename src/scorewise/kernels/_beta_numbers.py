"""The beta family as kernels read it: numbers that are computed once for each pair (a, b).

Where class 1 has less than a certain probability, c is that, else that of class 0. With α the
parameter of its class and β that of the other, the entropy is H = L·c − φ(c), where
φ'' = c^(α−1)·(1 − c)^(β−1). With r_n the coefficients of (1 − c)^(β−1) in powers of c,

    φ(c) = Σ_n r_n·c^(α+n+1)/((α + n)·(α + n + 1)).

So φ and φ' are powers of c times functions that are smooth up to the largest c, which become
polynomials. L is what makes H smooth there. Sides change at ½, or nearer to where φ'' is largest if
one parameter is several times the other: φ must bend enough on both sides. The series are summed
with many digits, as their terms may alternate and be large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np

_SMALLEST, _LARGEST = -0.99, 300.0  # parameters for which a table is tried
_FLAT = 1 / 64  # up to which c^α/α is nearly a constant, which is taken out of it
_POINTS = (20, 32, 48, 64)  # numbers of points that are tried for a polynomial
_LARGEST_TERMS = 200  # sum of a polynomial's terms, in parts of its largest value
_LEAST_BEND = 2e-4  # of φ, at which differences of it keep enough digits
_ACCURACY = {np.float32: 1e-9, np.float64: 4e-16}
_NODES = {np.float32: 5, np.float64: 9}
_ZERO, _ONE = Decimal(0), Decimal(1)
_MIDDLES = 0.5, 0.3, 0.2, 0.15, 0.1  # least probabilities at which sides change, tried in turn


@lru_cache(maxsize=64)
def two_class_numbers(a: float, b: float) -> np.ndarray | None:
    """Return what kernels call the numbers of a rule; None for extreme parameters."""
    if not (min(a, b) >= _SMALLEST and max(a, b) <= _LARGEST):
        return None
    middles = (min(max((a + 1) / (a + b + 2), least), 1 - least) for least in _MIDDLES)
    tried = (_numbers(a, b, middle) for middle in dict.fromkeys(middles))
    return next((numbers for numbers in tried if numbers is not None), None)


def _numbers(a: float, b: float, middle: float) -> np.ndarray | None:
    """Return the numbers with sides that change at a probability of class 1."""
    near = min(0.5, 3 / max(abs(a - 1), abs(b - 1), 1))
    with localcontext() as context:
        context.prec = 60 + int(0.7 * (abs(a) + abs(b)))
        sides = [_Side.of(b, a, 1 - middle), _Side.of(a, b, middle)]
        if not all(side.bends(np.array([side.top]), near) for side in sides):
            return None  # before more series are summed, which takes long
        fits = []
        for side in sides:
            fit = side.polynomials(near)
            if fit is None:
                return None
            fits += fit
        (phi_0, slope_0), (phi_1, slope_1) = (side.at_top() for side in sides)
    slopes, difference = slope_0 + slope_1, phi_0 - phi_1
    linear = [
        float(slopes * Decimal(middle) + difference),
        float(slopes * Decimal(1 - middle) - difference),
    ]
    products = (abs(x) * side.top for x, side in zip(linear, sides, strict=True))
    size = max(*products, abs(float(phi_0)), abs(float(phi_1)))
    header = [size, near, middle]
    tables: list[np.ndarray] = []
    for dtype, accuracy in _ACCURACY.items():
        short = [_shortened(c, accuracy) for c in fits]
        n = max(map(len, short))
        n += n % 2
        x, w = np.polynomial.legendre.leggauss(_NODES[dtype])
        v = (1 + x) / 2
        tables += [v, w / 2 * (1 - v), *(np.pad(c, (0, n - len(c))) for c in short)]
        header += [n, len(v)]
    for side, slope in zip(sides, linear, strict=True):
        header += [float(side.alpha), float(side.is_flat), side.factor, side.bend, slope]
        header += [2 / side.top]
    return np.concatenate([header, *tables])


@dataclass(frozen=True)
class _Side:
    """φ and φ' where c, the probability of the class of parameter α, is at most ``top``.

    φ = c^(α+1)·(1 − c)^bend·F(c) and φ' = c^α·(1 − c)^bend·G(c). Near α = 0, where these powers
    would be large and cancel, φ = c·(c^α − 1)/(α·(α + 1)) + c^(α+2)·F(c) and
    φ' = (c^α − 1)/α + 1/(α + 1) + c^(α+1)·G(c).
    """

    alpha: Decimal
    beta: float
    top: float
    coefficients: tuple[tuple[Decimal, Decimal], ...]  # of F and G in powers of c, for bend = 0
    is_flat: bool
    bend: float

    @classmethod
    def of(cls, alpha: float, beta: float, top: float) -> _Side:
        is_flat, largest = abs(alpha) < _FLAT, Decimal(top)
        a, r = Decimal(alpha if abs(alpha) > 1e-20 else 0.0), _ONE
        coefficients = []
        n, smallest = 0, Decimal(10) ** -int(25 + 0.35 * max(beta, 0.0))
        while n <= beta + 1 or abs(r) * largest**n > smallest:
            if n or not is_flat:
                coefficients.append((r / ((a + n) * (a + n + 1)), r / (a + n)))
            n += 1
            r *= (n - Decimal(beta)) / n
        side = cls(a, beta, top, tuple(coefficients), is_flat, 0.0)
        if is_flat or beta < 4:
            return side
        # powers of 1 − c that make F as large at the top as at 0
        ratio = coefficients[0][0] / side.series(largest)[0]
        return replace(side, bend=max(0.0, float(-ratio.ln() / (1 - largest).ln())))

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

    def at_top(self) -> tuple[Decimal, Decimal]:
        """Return φ and φ' at the top."""
        a, c = self.alpha, Decimal(self.top)
        f, g = self.series(c)
        power = c**a if a else _ONE
        if not self.is_flat:
            return power * f * c, power * g
        grown = (power - 1) / a if a else c.ln()  # (c^α − 1)/α
        return c * (grown / (a + 1) + power * f * c), grown + 1 / (a + 1) + power * g * c

    def _values(self, c: np.ndarray) -> np.ndarray:
        """Return F and G, (2, n)."""
        values = np.array([[float(x) for x in self.series(Decimal(float(y)))] for y in c]).T
        return np.asarray(values * np.exp(-self.bend * np.log1p(-c)))

    def bends(self, c: np.ndarray, near: float, values: np.ndarray | None = None) -> bool:
        """Return whether D(q, p) of what is just not near is large enough for a difference of φ."""
        values = self._values(c) if values is None else values
        step = near * np.minimum(1, (1 - c) / c)
        divergence = (1 - c) ** (self.beta - 1 - self.bend) * step**2 / 2
        size = np.abs(values[0])
        parts = np.maximum(size * c, -np.log(c)) if self.is_flat else size
        return bool((divergence >= _LEAST_BEND * parts).all())

    def polynomials(self, near: float) -> list[np.ndarray] | None:
        """Return Chebyshev coefficients of F and G, which are functions of 2c/top − 1.

        None if they would lose digits.
        """
        for n in _POINTS:
            j = 2 * np.arange(n) + 1
            c = (1 + np.cos(np.pi * j / (2 * n))) / 2 * self.top
            values = self._values(c)
            if not self.bends(c, near, values):
                return None
            turns = np.outer(j, np.arange(n)) % (4 * n)  # as large angles are rounded
            chebyshev = 2 / n * values @ np.cos(np.pi * turns / (2 * n))
            chebyshev[:, 0] /= 2
            largest = np.abs(values).max(axis=1, keepdims=True)
            if (np.abs(chebyshev[:, -4:]) <= 5e-16 * largest).all():
                terms = [np.abs(_shortened(x, _ACCURACY[np.float64])).sum() for x in chebyshev]
                return list(chebyshev) if (terms <= _LARGEST_TERMS * largest[:, 0]).all() else None
        return None


def _shortened(chebyshev: np.ndarray, accuracy: float) -> np.ndarray:
    """Return the coefficients of a polynomial in powers, without terms below the accuracy."""
    sizes = np.abs(chebyshev)
    n = 1 + int(np.flatnonzero(sizes >= accuracy * sizes.max())[-1])
    return np.asarray(np.polynomial.chebyshev.cheb2poly(chebyshev[:n]))
