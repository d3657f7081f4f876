"""Norm rules, H(p) = 1 − ‖p‖_α: spherical and pseudo-spherical; only p's direction counts.

Their losses 1 − (p_y/‖p‖)^{α−1} are largest where another class is certain: p_y/‖p‖ is smallest at
a corner e_j, j ≠ y, also where a floor moves the corners inwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from scorewise._array import (
    Array,
    Namespace,
    at_least,
    cached_property,
    dot,
    has_fixed_shapes,
    index_of,
    is_recorded,
    is_small_on_device,
    minus,
    plus,
    smallest,
    smallest_normal,
    sum_products,
    times,
)
from scorewise._numerics import (
    FEW_FACTORS,
    expm1_minus,
    log_ratio,
    power,
    power_excess,
    sum_of_others,
)
from scorewise.distributions import Dirichlet
from scorewise.rules._rule import RuleBySum, ScoringRule, norm_order, number_above, register
from scorewise.rules._separable import tsallis_total
from scorewise.rules.structures import Norm

_CONFIDENT = 2.0**-7  # entropies below it would lose digits in the difference S − ‖p‖
_FEW = 8  # confident members alone are computed again if at most one in so many is


class _NormRule(RuleBySum):
    is_symmetric = True

    def _without_norm(
        self, xp: Namespace, p: Array, total: Array, norm: Array, accurate: Callable[..., Array]
    ) -> Array:
        """Return S − ‖p‖; of confident members by the formula ``accurate(xp, p, total, norm)``."""
        if is_small_on_device(p) and not is_recorded(p):
            return accurate(xp, p, total, norm)
        missing = total - norm
        if smallest(xp, missing) > _CONFIDENT:
            return missing
        if p.ndim == 1 or is_recorded(p) or has_fixed_shapes(p):
            return accurate(xp, p, total, norm)
        places = index_of(missing < _CONFIDENT)
        if _FEW * missing[places].shape[0] > math.prod(missing.shape):
            return accurate(xp, p, total, norm)
        missing[places] = accurate(xp, p[places], total[places], norm[places])
        return missing

    def _divergence_by_factors(self, xp: Namespace, q: Array, p: Array, d: Array, n: int) -> Array:
        """Return D for a whole α = n.

        D does not change when q is scaled. Scaled so that the tangent of Σx^n at q meets p at the
        height of q, D = ‖p‖ − ‖q‖ is (Σp^n − Σq^n)/Σ_j ‖q‖^{n−1−j}·‖p‖^j, with a numerator that is
        the height of p above that tangent.
        """
        slope = q if n == 2 else q ** (n - 1)
        powers = dot(xp, q, slope)
        parallel = dot(xp, d, slope) / powers
        if n == 2:
            rest = minus(q * parallel[..., None], d)
            excess = dot(xp, rest, rest)
        else:
            rest = plus(q * -parallel[..., None], d)
            excess = (n - 1) * xp.sum(power_excess(xp, p - rest, p, rest, n), axis=-1)
        start = at_least(xp, 1 + parallel, 0.0) * powers ** (1 / n)
        end = (start**n + excess) ** (1 / n)
        quotient = start + end
        for j in range(2, n):
            quotient = quotient * start + end**j
        return excess / quotient

    def _largest_loss(self, corners: np.ndarray) -> float:
        return self._largest_at(corners)

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> float:
        return unit  # S − ‖p‖ is linear in S


@final
@dataclass(frozen=True, eq=False, repr=False)
class Spherical(_NormRule):
    """ℓ(p, y) = 1 − p_y/‖p‖₂; H(p) = 1 − ‖p‖₂, D(q, p) = ‖p‖₂ − ⟨p, q⟩/‖q‖₂.

    Its total uncertainty orders instances as Brier's does; its losses are at most 1.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.spherical.loss([[0.5, 0.5], [1.0, 0.0]], [1, 1]).round(3)
    array([0.293, 1.   ])
    """

    family = "spherical"
    structure = Norm(2.0)

    def _order_of_totals(self) -> Hashable:
        return norm_order(2.0)

    def _losses(self, xp: Namespace, p: Array) -> Array:
        # 1 − p_y/‖p‖ = (‖p‖² − p_y²)/(‖p‖·(‖p‖ + p_y))
        squares = xp.sum(p * p, axis=-1, keepdims=True)
        norm = xp.sqrt(squares)
        return at_least(xp, squares - p * p, 0.0) / (norm * (norm + p))

    def _entropy_by_sum(self, xp: Namespace, p: Array, total: Array) -> Array:
        def accurate(xp: Namespace, p: Array, total: Array, norm: Array) -> Array:
            # (S² − ‖p‖²)/(S + ‖p‖), and S² − ‖p‖² = Σ p·(S − p)
            return sum_products(xp, total[..., None] - p, p) / (norm + total)

        return self._without_norm(xp, p, total, xp.sqrt(dot(xp, p, p)), accurate)

    def _entropy_gradient(self, xp: Namespace, p: Array) -> Array:
        return p / -xp.sqrt(dot(xp, p, p))[..., None]

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        # p/‖p‖ − q/‖q‖ = [d − q·(‖p‖ − ‖q‖)/‖q‖]/‖p‖, and ‖p‖² − ‖q‖² = ⟨d, p + q⟩
        of_p, of_q = xp.sqrt(dot(xp, p, p)), xp.sqrt(dot(xp, q, q))
        longer = (dot(xp, d, p) + xp.sum(d * q, axis=-1)) / (of_p + of_q)
        change = plus(q * -(longer / of_q)[..., None], d)
        return times(change, 1 / of_p[..., None])

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return self._divergence_by_factors(xp, q, p, d, 2)

    def _dirichlet_total(self, xp: Namespace, q: Dirichlet) -> Array:
        norm = xp.sqrt(xp.sum(q.mean * q.mean, axis=-1))
        return xp.sum(q.mean * q.missing, axis=-1) / (1 + norm)

    def _dirichlet_parts(
        self, xp: Namespace, q: Dirichlet, total: Array
    ) -> tuple[Array, Array, None]:
        parts = q.integrate(_expected_norm_parts)
        aleatoric, epistemic = parts[..., 0], parts[..., 1]
        return xp.where(epistemic < total / 2, total - epistemic, aleatoric), epistemic, None


@final
@dataclass(frozen=True, eq=False, repr=False)
class Pseudospherical(_NormRule):
    """The pseudo-spherical rule, which :func:`scorewise.rules.pseudospherical` makes.

    Parameters
    ----------
    alpha : float
        More than 1.

    Examples
    --------
    >>> import scorewise as sw
    >>> rule = sw.rules.pseudospherical(3)
    >>> isinstance(rule, sw.rules.Pseudospherical), rule.alpha
    (True, 3.0)
    """

    alpha: float
    family = "pseudospherical"
    n_block_parts = 2  # gradients hold 17 arrays of the size of the members

    @property
    def has_slow_divergence(self) -> bool:  # type: ignore[override]
        """Whether powers of α are no products."""
        return self.alpha not in FEW_FACTORS

    @property
    def needs_much_memory(self) -> bool:  # type: ignore[override]
        """Whether powers of α are no products."""
        return self.alpha not in FEW_FACTORS

    @cached_property
    def structure(self) -> Norm:  # type: ignore[override]
        """The form of its entropy, by which kernels compute it."""
        return Norm(self.alpha)

    def _order_of_totals(self) -> Hashable:
        return norm_order(self.alpha)

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", number_above(1, self.alpha, "α of pseudospherical"))

    def _norm(self, xp: Namespace, p: Array) -> Array:
        top = xp.max(p, axis=-1, keepdims=True)
        top = xp.where(top > 0, top, 1.0)
        logs = xp.log(p / top + smallest_normal(xp, p))
        return top[..., 0] * xp.sum(xp.exp(self.alpha * logs), axis=-1) ** (1 / self.alpha)

    def _losses(self, xp: Namespace, p: Array) -> Array:
        share = p / self._norm(xp, p)[..., None]
        log_share = xp.log(xp.where(p > 0, share, 1.0))
        return xp.where(p > 0, at_least(xp, -xp.expm1((self.alpha - 1) * log_share), 0.0), 1.0)

    def _gradient_change(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        # (p/‖p‖)^ε − (q/‖q‖)^ε with ε = α − 1 is (q/‖q‖)^ε·[exp(εr) − 1], where r is log(p/q) less
        # log(‖p‖/‖q‖). Both are close to log(p_t/q_t) where a class t is almost certain, so that is
        # taken from both: r is rise − log(g)/α with g = Σ a·exp(α·rise) and shares a = (q/‖q‖)^α.
        # Shares b = (p/‖p‖)^α are a·exp(α·rise)/g, which serves where the exponent is large.
        rate = self.alpha - 1
        of_q, of_p = q / self._norm(xp, q)[..., None], p / self._norm(xp, p)[..., None]
        slope_q, slope_p = of_q**rate, of_p**rate
        a, b = slope_q * of_q, slope_p * of_p
        top = xp.argmax(p, axis=-1)[..., None]
        rise = log_ratio(xp, q, p, d)
        rise = rise - xp.take_along_axis(rise, top, axis=-1)
        near = xp.abs(rise) * self.alpha < 1
        terms = xp.where(near, xp.expm1(xp.where(near, rise * self.alpha, 0.0)) * a, b - a)
        of_near = xp.sum(xp.where(near, b, 0.0), axis=-1, keepdims=True)
        beyond_one = xp.sum(terms, axis=-1, keepdims=True) / of_near  # g − 1
        near = xp.abs(beyond_one) < 0.5
        q_t, p_t = xp.take_along_axis(of_q, top, axis=-1), xp.take_along_axis(of_p, top, axis=-1)
        log_g = xp.log1p(xp.where(near, beyond_one, 0.0))
        r = rise - xp.where(near, log_g / self.alpha, xp.log(q_t / p_t))
        near = xp.abs(r) * rate < 1
        return xp.where(near, xp.expm1(xp.where(near, r * rate, 0.0)) * slope_q, slope_p - slope_q)

    def _entropy_by_sum(self, xp: Namespace, p: Array, total: Array) -> Array:
        if self.alpha in FEW_FACTORS:
            return self._entropy_by_factors(xp, p, total)
        # With Σ(p/S)^α = 1 − T, S − ‖p‖ = S·(1 − (1 − T)^{1/α}) is accurate for small T.
        share = p / total[..., None]
        log_share = xp.log(share + smallest_normal(xp, p))
        deficit = -sum_products(xp, xp.expm1((self.alpha - 1) * log_share), share)
        top = xp.max(log_share, axis=-1, keepdims=True)
        powers = xp.sum(xp.exp(times(log_share - top, self.alpha)), axis=-1)
        norm = xp.exp(top[..., 0] + xp.log(powers) / self.alpha)
        return total * self._missing_norm(xp, norm, deficit)

    def _entropy_by_factors(self, xp: Namespace, p: Array, total: Array) -> Array:
        """Return S − ‖p‖ for a whole α: S^n − x^n is S − x times Σ_j S^{n−1−j}·x^j."""
        n = int(self.alpha)

        def accurate(xp: Namespace, p: Array, total: Array, norm: Array) -> Array:
            terms = times(total[..., None] - p, p)
            missing, quotient = xp.sum(terms, axis=-1), total + norm
            for j in range(2, n):
                terms = times(terms, p)
                missing = missing * total + xp.sum(terms, axis=-1)
                quotient = quotient * norm + total**j
            return missing / quotient

        squares = p * p
        powers = sum_products(xp, squares, p if n == 3 else squares)
        return self._without_norm(xp, p, total, powers ** (1 / n), accurate)

    def _missing_norm(self, xp: Namespace, norm: Array, deficit: Array) -> Array:
        """Return 1 − ‖p‖ from the norm, or from the deficit T = 1 − Σp^α if it is small."""
        near = deficit < 0.5
        by_deficit = -xp.expm1(xp.log1p(-xp.where(near, deficit, 0.0)) / self.alpha)
        return xp.where(near, by_deficit, 1 - norm)

    def _dirichlet_total(self, xp: Namespace, q: Dirichlet) -> Array:
        deficit = (self.alpha - 1) * tsallis_total(xp, q, self.alpha)
        return self._missing_norm(xp, self._norm(xp, q.mean), deficit)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        if self.alpha in FEW_FACTORS:
            return self._divergence_by_factors(xp, q, p, d, int(self.alpha))
        # D does not change when q is scaled. Scaled so that the tangent of Σx^α at q meets p at
        # the height of q, D = ‖p‖ − ‖q‖ = ‖q‖·((1 + T/Σq^α)^{1/α} − 1), with T the height of p
        # above that tangent.
        slope = power(xp, q / xp.max(q, axis=-1, keepdims=True), self.alpha - 1)
        parallel = xp.sum(d * slope, axis=-1) / xp.sum(q * slope, axis=-1)
        top = xp.max(p, axis=-1, keepdims=True)  # powers of small numbers underflow
        rest = (d - q * parallel[..., None]) / top
        q = at_least(xp, q * (1 + parallel[..., None]), 0.0) / top
        p = p / top
        excess = (self.alpha - 1) * xp.sum(power_excess(xp, q, p, rest, self.alpha), axis=-1)
        powers = xp.sum(power(xp, q, self.alpha), axis=-1)
        near = excess < powers
        lift = xp.where(near, excess, 0.0) / xp.where(near, powers, 1.0)
        difference = powers ** (1 / self.alpha) * xp.expm1(xp.log1p(lift) / self.alpha)
        if is_recorded(near) or not bool(xp.all(near)):
            far = self._norm(xp, p) - self._norm(xp, q)
            difference = xp.where(near, difference, far)
        return top[..., 0] * difference


spherical = register(Spherical())


@register
def pseudospherical(alpha: float) -> ScoringRule:
    """Return the rule ℓ(p, y) = 1 − (p_y/‖p‖_α)^{α−1}, which is ``spherical`` at α = 2.

    H(p) = 1 − ‖p‖_α and D(q, p) = ‖p‖_α − Σ p q^{α−1}/‖q‖_α^{α−1}.

    Parameters
    ----------
    alpha : float
        More than 1.

    Returns
    -------
    ScoringRule

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.pseudospherical(3)
    pseudospherical(3)
    """
    return Pseudospherical(alpha)


# -- under a Dirichlet ----------------------------------------------------------------------------


_LARGE = 64.0  # a gamma of a larger parameter is narrow, and is integrated around its own peak
_S = np.arange(-85, 86) / 16
_TAU = np.exp(np.sinh(_S))  # both ends of the integrals fall exponentially in log t, doubly so in s
_D_LOG_TAU = np.cosh(_S) / 16
_Y = np.arange(-748, 63) / 11  # log x, as close as the narrowest small gamma needs, to both ends
_X = np.exp(_Y)
_BLOCK = 128  # parameters at a time


def _expected_norm_parts(alpha: np.ndarray) -> np.ndarray:
    """Return 1 − E‖θ‖₂ and E‖θ‖₂ − ‖m‖₂ for θ ~ Dirichlet(α), ``(..., K)`` to ``(..., 2)``.

    Rows whose largest parameters are alike share their nodes t.
    """
    k = alpha.shape[-1]
    rows = -np.sort(-alpha.reshape(-1, k), axis=-1)
    scale = np.round(np.log2(np.maximum(rows[:, 0], 1.0)))
    result = np.zeros((len(rows), 2))
    for exponent in np.unique(scale):
        index = np.flatnonzero(scale == exponent)
        for start in range(0, len(index), max(1, 8 * _BLOCK // k)):
            block = index[start : start + max(1, 8 * _BLOCK // k)]
            result[block] = _norm_parts(rows[block], int(exponent))
    return np.maximum(result, 0.0).reshape((*alpha.shape[:-1], 2))


def _norm_parts(alpha: np.ndarray, exponent: int) -> np.ndarray:
    """The same for rows ``(B, K)`` in falling order, with nodes t around 4^−exponent.

    θ is a vector of independent gammas G divided by their independent sum, and ‖θ‖ = Σ θ_k²/‖θ‖.
    Taking one θ_k as a weight turns α_k into α_k + 1, so that E‖θ‖ = Σ_k m_k s_k with

        s_k = E G_k/‖G‖ = (1/√π)∫ t^{−1/2} ω_k(t) Π_{j≠k} φ_j(t) dt,   φ(t) = E exp(−tG²),

    ω_k(t) = E G exp(−tG²) for the parameter α_k + 1; ‖m‖ = Σ_k m_k u_k with u = m/‖m‖. For the
    largest class 1 − s and 1 − u are compared instead, as both may be close to 1. An integral of
    1 − Π φ in place of Π φ gives 1 − s.

    Where several parameters are large s and u are close, and √x = (1/2√π)∫ t^{−3/2}(1 − e^{−tx})dt
    gives E‖G‖ − ‖α‖ as the integral of (1/2√π)·t^{−3/2}·e^{−t‖α‖²}·(1 − Π_k e^{tα_k²}φ_k(t)).
    """
    t = _TAU * 4.0**-exponent
    log_phi, log_change, omega = _gamma_transforms(alpha, exponent)
    total = alpha.sum(axis=-1)
    m = alpha / total[:, None]
    norm = np.sqrt((m * m).sum(axis=-1))
    rest = (m[:, 1:] ** 2).sum(axis=-1) / norm

    others = sum_of_others(np, log_phi.swapaxes(1, 2)).swapaxes(1, 2)
    dt = _D_LOG_TAU * np.sqrt(t / math.pi)
    missing = (omega * -np.expm1(others)) @ dt  # 1 − s
    s = (omega * np.exp(others)) @ dt
    missing[:, 1:] = np.where(s[:, 1:] < 0.5, 1 - s[:, 1:], missing[:, 1:])
    aleatoric = (m * missing).sum(axis=-1)
    apart = m[:, 0] * (rest / (norm + m[:, 0]) - missing[:, 0])
    apart += (m[:, 1:] * (s[:, 1:] - m[:, 1:] / norm[:, None])).sum(axis=-1)

    squares = t * (norm * total)[:, None] ** 2
    log_change = np.where(squares < 500, log_change.sum(axis=1), 0.0)
    dt = _D_LOG_TAU / np.sqrt(4 * math.pi * t)
    close = (np.exp(-squares) * -np.expm1(log_change)) @ dt / total
    excess = np.where((alpha[:, 0] > _LARGE) & (rest * total > 1), close, apart)
    return np.stack([aleatoric, excess], axis=-1)


def _gamma_transforms(alpha: np.ndarray, exponent: int) -> tuple[np.ndarray, ...]:
    """Return log φ_a(t), log φ_a(t) + ta² and ω_a(t), each ``(B, K, T)``."""
    a = alpha.reshape(-1)
    transformed = np.empty((3, len(a), len(_TAU)))
    for transforms, chosen in ((_small_gammas, a <= _LARGE), (_large_gammas, a > _LARGE)):
        index = np.flatnonzero(chosen)
        for start in range(0, len(index), _BLOCK):
            block = index[start : start + _BLOCK]
            transformed[:, block] = transforms(a[block, None], exponent)
    return tuple(transformed.reshape(3, *alpha.shape, -1))


def _log(phi: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return log φ from φ or from 1 − φ, whichever is more accurate."""
    near = missing < 0.5
    return np.where(near, np.log1p(-np.where(near, missing, 0.0)), np.log(np.maximum(phi, 1e-300)))


@lru_cache(maxsize=4)
def _kernel(exponent: int) -> tuple[np.ndarray, np.ndarray]:
    exponents = -(_X[:, None] ** 2) * (_TAU * 4.0**-exponent)
    return np.exp(exponents), -np.expm1(exponents)


def _small_gammas(a: np.ndarray, exponent: int) -> tuple[np.ndarray, ...]:
    """Return the transforms by the trapezoid rule in log x, with the same nodes for all parameters.

    1 − φ_a = (a/Γ(a+1))∫x^{a−1}e^{−x}(1 − e^{−tx²})dx keeps its digits however small a is, and
    φ_a(t) is E (1 + 2tG)exp(−tG²) for the parameter a + 1, by parts.
    """
    falling, rising = _kernel(exponent)
    t = _TAU * 4.0**-exponent
    density = np.exp(-a * expm1_minus(np, _Y - np.log(a)))  # x^a e^{−x}, up to a factor
    mass = (density * _X).sum(axis=-1, keepdims=True)
    missing = a * (density @ rising) / mass
    omega = (density * _X**2) @ falling / mass
    log_phi = _log((density * _X) @ falling / mass + 2 * t * omega, missing)
    return log_phi, log_phi + t * a * a, omega


def _large_gammas(a: np.ndarray, exponent: int) -> tuple[np.ndarray, ...]:
    """Return the transforms by the trapezoid rule around the peak of the density of log(G/a)."""
    t = (_TAU * 4.0**-exponent)[:, None]
    y = np.arange(-26, 18) / (2 * np.sqrt(a))
    mass = np.exp(-a * expm1_minus(np, y))
    mass /= mass.sum(axis=-1, keepdims=True)
    mass, y, a = mass[:, None], y[:, None], a[:, None]
    squares = t * a * a
    falling = mass * np.exp(-squares * np.exp(2 * y))
    missing = -(mass * np.expm1(-squares * np.exp(2 * y))).sum(axis=-1)
    omega = (falling * a * np.exp(2 * y)).sum(axis=-1)
    # E G² − a² is exactly a; only terms beyond the first order in t are summed.
    bend = expm1_minus(np, np.minimum(-squares * np.expm1(2 * y), 600.0))
    change = (mass * bend).sum(axis=-1) - (t * a)[..., 0]
    log_change = np.log1p(np.maximum(change, -1 + 1e-15))
    return _log(falling.sum(axis=-1), missing), log_change, omega
