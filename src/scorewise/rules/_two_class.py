"""Buja's beta family for two classes.

Everything here is an integral over the log odds x = log(c/(1−c)), where the weight of c is smooth
and its tails are exponential. With x running from q to p > q, and t = x_p − x,

    D(q, p) = ∫_q^p (p−c) ω(c) dc = p·∫ (1 − e^{−t})·c^a (1−c)^{b+1} dx:

no factor is ever negative, so nothing cancels. For p < q the classes change places, and the loss
ℓ(q, y) is D(q, e_y).

Rows may sum to S instead of 1, within tolerance. Losses follow from the odds p₁/p₀ alone, and so
H(p) = Σ p_y·ℓ(p, y) is S times that of p/S. D(q, p) = Σ p_y·ℓ(q, y) − H(p) then is S times that of
p/S from q/Σq, and TU = AU + EU for all rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    Namespace,
    as_dtype_of,
    at_least,
    cached_property,
    constant_in_graphs,
    eps,
    is_compiled,
    is_traced,
)
from scorewise._numerics import quotient
from scorewise.rules._rule import ScoringRule, number_above, register
from scorewise.rules.structures import TwoClass

_DEPTH = 45.0  # integrands below e^−45 of their maximum are neglected
_FLAT = 1e-8  # the smallest rate of decay that is assumed for an integrand
_Quadrature = tuple[list[float], list[float]]  # nodes and weights


_legendre = lru_cache(maxsize=8)(np.polynomial.legendre.leggauss)


@constant_in_graphs
def _gauss(n: int) -> _Quadrature:
    """Return nodes and weights for ∫₀¹ f(v) dv."""
    x, w = _legendre(n)
    return ((1 + x) / 2).tolist(), (w / 2).tolist()


class _OddsWeight(NamedTuple):
    """The weight c^α (1−c)^β of the log odds x: numbers, or an array of each.

    On a logarithmic scale it is nearly a straight line on either side of its bend.
    """

    alpha: Any
    beta: Any
    bend: Any  # the log odds at which the slope changes
    width: Any  # range of log odds within which the slope changes
    left: Any  # range to the left of the bend outside of which the weight is negligible
    right: Any  # range to the right of the bend outside of which the weight is negligible

    @classmethod
    def of(cls, alpha: float, beta: float) -> _OddsWeight:
        rise = max(alpha, 0.0)
        width = math.sqrt(1 / (rise + 1) + 1 / (beta + 1))

        def reach(rate: float) -> float:  # y, where rate·y²/(y + 2·rate·width²) is the depth
            if rate == 0:
                return 2000.0  # no two floats are farther apart
            half = _DEPTH / 2 / max(rate, _FLAT)
            return half + math.sqrt(half**2 + 2 * _DEPTH * width**2)

        bend = math.log((rise + 1) / (beta + 1))
        return cls(alpha, beta, bend, width, reach(abs(alpha)), reach(beta))


class _Interval(NamedTuple):
    """An interval of log odds: its start and its length."""

    start: Array
    span: Array
    has_start: Array  # False where the interval starts at −∞


def _log_ratio(xp: Namespace, p: Array, q: Array, d: Array, valid: Array) -> Array:
    """Return log(p/q) for p = q + d where valid, to full precision however small d is."""
    near = valid & (xp.abs(d) < xp.minimum(p, q))
    far = valid & ~near
    ratio = xp.log1p(quotient(xp, xp.where(near, d, 0.0), xp.where(near, q, 1.0)))
    return ratio + xp.log(xp.where(far, p, 1.0)) - xp.log(xp.where(far, q, 1.0))


def _integral(
    xp: Namespace,
    odds_weight: _OddsWeight,
    over: _Interval,
    log_factor: Array,
    quadratures: Sequence[_Quadrature],
    *,
    falls: bool = True,
) -> Array:
    """Return e^factor·∫ (1 − e^{x−end})·c^α (1−c)^β dx over an interval of log odds x.

    Without the factor 1 − e^{x−end} unless it ``falls`` so towards the end.
    ∞ where it starts at −∞ and α ≤ 0. In four pieces: both halves of the part to the left and of
    the part to the right of the bend, each by Gauss's rule on y = width·sinh s, whose nodes are
    dense at the outer end and at the bend, and geometrically sparser in between.
    """
    alpha, beta, bend, width, left_reach, right_reach = odds_weight
    finite = over.has_start | (alpha > 0) | (over.span == 0)
    apart = finite & (over.span > 0)
    start, span = xp.where(apart, over.start, 0.0), xp.where(apart, over.span, 0.0)
    left = xp.minimum(at_least(xp, bend - start, 0.0), span)
    right = span - left
    middle = start + left
    # Integrate only where the integrand is not negligible. On the left that is the outer end if
    # the weight rises outwards, α < 0.
    decay = xp.exp(-xp.abs(middle))
    slope = xp.where(middle > 0, alpha * decay - beta, alpha - beta * decay) / (1 + decay)
    left_length = xp.minimum(left, xp.minimum(left_reach, _DEPTH / at_least(xp, slope, _FLAT)))
    fall = at_least(xp, xp.minimum(-slope, beta), _FLAT)
    right_length = xp.minimum(right, xp.minimum(right_reach, _DEPTH / fall))
    skipped = xp.where(alpha < 0, left - left_length, 0.0)
    inner, outer = middle - skipped, middle - skipped - left_length
    # In each piece x = origin + sign·y and end − x = rest − sign·y for y from 0 to its length.
    origin = xp.stack([outer, inner, middle, middle + right_length], axis=-1)
    rest = [right + skipped + left_length, right + skipped, right, right - right_length]
    rest = xp.stack(rest, axis=-1)
    length = xp.stack([left_length, left_length, right_length, right_length], axis=-1) / 2
    sign = as_dtype_of(xp, [1.0, -1.0, 1.0, -1.0], like=start)
    alpha, beta, width, log_factor = (x[..., None, None] for x in (alpha, beta, width, log_factor))
    origin, rest, sign = origin[..., None], rest[..., None], sign[:, None]
    scale = xp.asinh(length[..., None] / width)
    v, w = quadratures[0 if eps(xp, start) < 1e-10 else 1]
    # One node at a time saves memory; all at once saves a compiler from unrolling the loop.
    step = len(v) if is_traced(start) or is_compiled(start) else 1
    total = 0.0
    for i in range(0, len(v), step):
        node, weight = (as_dtype_of(xp, z[i : i + step], like=start) for z in (v, w))
        grown = xp.expm1(scale * node)
        y = sign * width * (grown + grown / (1 + grown)) / 2  # width·sinh
        x = origin + y
        log_weight = -alpha * at_least(xp, -x, 0.0) - beta * at_least(xp, x, 0.0)
        log_weight = log_weight - (alpha + beta) * xp.log1p(xp.exp(-xp.abs(x)))
        density = xp.exp(log_weight + log_factor) * (1 + grown + 1 / (1 + grown)) / 2
        total = total + weight * density * (-xp.expm1(y - rest) if falls else 1.0)
    return xp.where(finite, xp.sum(total * scale * width, axis=(-2, -1)), math.inf)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Beta(ScoringRule):
    """See :func:`beta`."""

    a: float
    b: float
    family = "beta"
    n_block_parts = 16  # integrals hold 90 arrays of the size of the members

    @cached_property
    def structure(self) -> TwoClass:  # type: ignore[override]
        return TwoClass(self.a, self.b)

    @property
    def is_symmetric(self) -> bool:  # type: ignore[override]
        """Whether swapping the two classes changes nothing."""
        return self.a == self.b

    def _largest_loss(self, corners: np.ndarray) -> float:
        return self._largest_at(corners)  # ℓ₁ falls in p, ℓ₀ rises

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", number_above(-1, self.a, "a of beta"))
        object.__setattr__(self, "b", number_above(-1, self.b, "b of beta"))

    def check_classes(self, n_classes: int) -> None:
        validate.same_classes(n_classes, 2, self)

    @cached_property
    def _odds_weights(self) -> list[_OddsWeight]:
        """The weights of the log odds for class 0 and for class 1."""
        return [_OddsWeight.of(self.b, self.a + 1), _OddsWeight.of(self.a, self.b + 1)]

    @cached_property
    def _far(self) -> float:
        """The log odds used for certainty, outside the range that contributes."""
        return 1000.0 + 2 * float(max(max(w.left, w.right) for w in self._odds_weights))

    @cached_property
    def _quadratures(self) -> tuple[_Quadrature, _Quadrature]:
        """Nodes of a piece of an integral in float64 and in float32: more for longer pieces."""
        longest = max(max(w.left, w.right) / w.width for w in self._odds_weights)
        n = min(math.ceil(13 + 3 * math.asinh(longest / 2)), 56)
        return _gauss(n), _gauss(max(n // 2, 16))

    def _log_odds(self, xp: Namespace, p: Array, other: Array) -> Array:
        x = xp.log(xp.where(p > 0, p, 1.0)) - xp.log(xp.where(other > 0, other, 1.0))
        return xp.where(p > 0, xp.where(other > 0, x, self._far), -self._far)

    def _losses(self, xp: Namespace, p: Array) -> Array:
        return self._scaled_losses(xp, p, 0.0 * p)

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        log_p = xp.log(xp.where(p > 0, p, 1.0))
        return xp.sum(xp.where(p > 0, self._scaled_losses(xp, p, log_p), 0.0), axis=-1)

    def _scaled_losses(self, xp: Namespace, p: Array, log_factor: Array) -> Array:
        """Return e^factor·ℓ(p, ·) as D(p, e_y): for each class up to its own certainty."""
        other = xp.flip(p, axis=-1)
        start = self._log_odds(xp, p, other)
        over = _Interval(start, xp.where(other > 0, self._far - start, 0.0), p > 0)
        return _integral(xp, self._of_classes(xp, p), over, log_factor, self._quadratures)

    def _of_classes(self, xp: Namespace, p: Array) -> _OddsWeight:
        """Return the weights of the log odds for both classes, ``(..., 2)`` each."""
        both = zip(*self._odds_weights, strict=True)
        return _OddsWeight(*(as_dtype_of(xp, x, like=p) + 0.0 * p for x in both))

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        # ℓ₁(q) − ℓ₁(p) = ∫_q^p (1−c) ω(c) dc; with the classes swapped it is ℓ₀, of the other sign
        ratios = _log_ratio(xp, p, q, d, q > 0)
        change = ratios - xp.flip(ratios, axis=-1)
        start = self._log_odds(xp, q, xp.flip(q, axis=-1)) - at_least(xp, -change, 0.0)
        over = _Interval(start, xp.abs(change), q > 0)
        weights, no_factor = self._of_classes(xp, q + 0.0 * p), 0.0 * p
        integral = _integral(xp, weights, over, no_factor, self._quadratures, falls=False)
        return xp.where(change > 0, integral, -integral)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        inner = (q[..., 0] > 0) & (q[..., 1] > 0) & (p[..., 0] > 0) & (p[..., 1] > 0)
        ratios = _log_ratio(xp, p, q, d, inner[..., None])
        start, end = (self._log_odds(xp, r[..., 1], r[..., 0]) for r in (q, p))
        change = xp.where(inner, ratios[..., 1] - ratios[..., 0], end - start)
        # The class that rises from q to p takes the place of class 1.
        up, span = change > 0, xp.abs(change)
        is_up = xp.astype(up, span.dtype)
        odds_weight = _OddsWeight(
            *(x * (1 - is_up) + y * is_up for x, y in zip(*self._odds_weights, strict=True))
        )
        start = xp.where(up, start, -start)
        q1, p1 = (xp.where(up, r[..., 1], r[..., 0]) for r in (q, p))
        log_factor = xp.log(xp.where(p1 > 0, p1, 1.0))
        return _integral(
            xp, odds_weight, _Interval(start, span, q1 > 0), log_factor, self._quadratures
        )


@register
def beta(a: float, b: float) -> ScoringRule:
    """Return a rule of the beta family for two classes.

    With p = p(class 1) and the weight ω(c) = c^{a−1}(1−c)^{b−1} of being on the wrong side of c,
    ℓ₁ = ∫_p^1 (1−c)ω(c)dc, ℓ₀ = ∫_0^p c·ω(c)dc and D(q, p) = ∫_q^p (p−c)ω(c)dc. a = b = 0 is the
    log loss, a = b = 1 a quarter of Brier's. ω is centred at a/(a + b), for errors of unequal cost.
    Of a row that sums to S instead of 1, within tolerance, p is p₁/(p₀ + p₁), and H and D are
    multiplied by S.

    Parameters
    ----------
    a, b : float
        More than −1.

    Returns
    -------
    ScoringRule

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.get_rule("beta:0.5,2")
    beta(0.5, 2)
    """
    return Beta(a, b)
