"""The spherical loss and its family: only the direction of a prediction counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from scorewise._array import Array, Namespace, is_traced, needs_gradient, on_host
from scorewise._numerics import (
    expm1_minus,
    log1p_minus,
    power,
    power_deficit,
    power_excess,
    stirling_error,
)
from scorewise.distributions import Dirichlet
from scorewise.errors import InvalidInput
from scorewise.rules.quadratics import gini_terms
from scorewise.rules.rule import ScoringRule, number_above, register


@final
@dataclass(frozen=True, eq=False, repr=False)
class Spherical(ScoringRule):
    """ℓ(p, y) = 1 − p_y/‖p‖₂; H(p) = 1 − ‖p‖₂, D(q, p) = ‖p‖₂ − ⟨p, q⟩/‖q‖₂."""

    family = "spherical"

    def _losses(self, xp: Namespace, p: Array) -> Array:
        # 1 − p_y/‖p‖ = (‖p‖² − p_y²)/(‖p‖·(‖p‖ + p_y))
        squares = xp.sum(p * p, axis=-1, keepdims=True)
        norm = xp.sqrt(squares)
        return xp.maximum(squares - p * p, 0.0) / (norm * (norm + p))

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        # S − ‖p‖ = (S² − ‖p‖²)/(S + ‖p‖)
        norm = xp.sqrt(xp.sum(p * p, axis=-1))
        return xp.sum(gini_terms(xp, p), axis=-1) / (xp.sum(p, axis=-1) + norm)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        # D does not change when q is scaled; of p only what is not parallel to q counts.
        qq = xp.sum(q * q, axis=-1)
        parallel = xp.sum(d * q, axis=-1) / qq
        rest = d - q * parallel[..., None]
        norms = xp.sqrt(xp.sum(p * p, axis=-1)) + xp.sqrt(qq) * (1 + parallel)
        return xp.sum(rest * rest, axis=-1) / norms

    def _dirichlet_epistemic(self, xp: Namespace, q: Dirichlet) -> tuple[Array, None]:
        if needs_gradient(q.alpha) or is_traced(q.alpha):
            raise InvalidInput(
                "spherical of a Dirichlet is integrated numerically, which cannot be "
                "differentiated or traced; pass detached values of alpha"
            )
        return on_host(_expected_norm_excess, q.alpha), None


@final
@dataclass(frozen=True, eq=False, repr=False)
class Pseudospherical(ScoringRule):
    """See :func:`pseudospherical`."""

    alpha: float
    family = "pseudospherical"

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", number_above(1, self.alpha, "α of pseudospherical"))

    def _norm(self, xp: Namespace, p: Array) -> Array:
        top = xp.max(p, axis=-1, keepdims=True)
        top = xp.where(top > 0, top, 1.0)
        return top[..., 0] * xp.sum(power(xp, p / top, self.alpha), axis=-1) ** (1 / self.alpha)

    def _losses(self, xp: Namespace, p: Array) -> Array:
        share = p / self._norm(xp, p)[..., None]
        log_share = xp.log(xp.where(p > 0, share, 1.0))
        return xp.where(p > 0, xp.maximum(-xp.expm1((self.alpha - 1) * log_share), 0.0), 1.0)

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        # With Σ(p/S)^α = 1 − T, S − ‖p‖ = S·(1 − (1 − T)^{1/α}) is accurate for small T.
        total = xp.sum(p, axis=-1, keepdims=True)
        deficit = (self.alpha - 1) * power_deficit(xp, p, total, self.alpha) / total[..., 0]
        near = deficit < 0.5
        by_deficit = -xp.expm1(xp.log1p(-xp.where(near, deficit, 0.0)) / self.alpha)
        by_norm = 1 - self._norm(xp, p) / total[..., 0]
        return total[..., 0] * xp.where(near, by_deficit, by_norm)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        # D does not change when q is scaled. Scaled so that the tangent of Σx^α at q meets p at
        # the height of q, D = ‖p‖ − ‖q‖ = ‖q‖·((1 + T/Σq^α)^{1/α} − 1), with T the height of p
        # above that tangent.
        slope = power(xp, q / xp.max(q, axis=-1, keepdims=True), self.alpha - 1)
        parallel = xp.sum(d * slope, axis=-1) / xp.sum(q * slope, axis=-1)
        top = xp.max(p, axis=-1, keepdims=True)  # powers of small numbers underflow
        rest = (d - q * parallel[..., None]) / top
        q = xp.maximum(q * (1 + parallel[..., None]), 0.0) / top
        p = p / top
        excess = (self.alpha - 1) * xp.sum(power_excess(xp, q, p, rest, self.alpha), axis=-1)
        powers = xp.sum(power(xp, q, self.alpha), axis=-1)
        near = excess < powers
        lift = xp.where(near, excess, 0.0) / xp.where(near, powers, 1.0)
        close = powers ** (1 / self.alpha) * xp.expm1(xp.log1p(lift) / self.alpha)
        far = self._norm(xp, p) - self._norm(xp, q)
        return top[..., 0] * xp.where(near, close, far)


spherical = register(Spherical())


@register
def pseudospherical(alpha: float) -> ScoringRule:
    """ℓ(p, y) = 1 − (p_y/‖p‖_α)^{α−1}: the spherical family, with ``spherical`` at α = 2.

    H(p) = 1 − ‖p‖_α and D(q, p) = ‖p‖_α − Σ p q^{α−1}/‖q‖_α^{α−1}.

    Parameters
    ----------
    alpha : float
        More than 1.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.pseudospherical(3)
    pseudospherical(3)
    """
    return Pseudospherical(alpha)


# -- under a Dirichlet ----------------------------------------------------------------------------


def _expected_norm_excess(alpha: np.ndarray) -> np.ndarray:
    """E‖θ‖₂ − ‖m‖₂ for θ ~ Dirichlet(α), ``(..., K)`` to ``(...)``, to about 1e-15.

    θ is a vector of independent gammas G divided by their independent sum, so E‖θ‖ = E‖G‖/α₀, and
    √x = (1/2√π)∫ t^{−3/2}(1 − e^{−tx})dt makes E‖G‖ − ‖α‖ the integral over log t of

        (1/2√π)·t^{−1/2}·e^{−t‖α‖²}·(1 − exp Σ_k c_k(t)),   c_k(t) = log E exp(−t(G_k² − α_k²)).
    """
    rows = alpha.reshape(-1, alpha.shape[-1])
    # Both ends fall exponentially in log t, hence doubly so in s.
    step = 1 / 16
    s = np.arange(-82, 83) * step
    tau = np.exp(np.sinh(s))
    weight = np.cosh(s) * step / np.sqrt(tau)
    size = max(1, (1 << 20) // (len(s) * 100 * rows.shape[-1]))
    result = np.zeros(len(rows))
    for start in range(0, len(rows), size):
        a = rows[start : start + size, None, :]
        scale = (a * (a + 1)).sum(axis=-1)  # E‖G‖², what t is measured by
        t = tau / scale
        at_mean = np.exp(-t * (a * a).sum(axis=-1))
        small = _log_laplace_change(a, t[:, tau <= 1, None]).sum(axis=-1)
        large = _log_laplace(a, t[:, tau > 1, None]).sum(axis=-1)
        value = np.concatenate(
            [-at_mean[:, tau <= 1] * np.expm1(small), at_mean[:, tau > 1] - np.exp(large)], axis=1
        )
        integral = (value * weight).sum(axis=-1) / (2 * math.sqrt(math.pi))
        result[start : start + size] = np.sqrt(scale[:, 0]) * integral / a[:, 0].sum(axis=-1)
    return np.maximum(result, 0.0).reshape(alpha.shape[:-1])


def _peak_nodes(sigma: np.ndarray, rise: np.ndarray, fall: np.ndarray) -> tuple[np.ndarray, ...]:
    """Nodes y and weights dy of a trapezoid rule around a peak as wide as sigma.

    The integrand rises like e^{rise·y} and falls like e^{−fall·e^y}; a slow rise is squeezed into
    fewer nodes, which must then be closer.
    """
    step = 1 / 12 if rise.min() > 10 else 1 / 20 if rise.min() > 0.2 else 1 / 40
    left = math.asinh(max(9.0, float((40 / (rise * sigma)).max())))
    right = math.asinh(max(9.0, float((np.log1p(45 / fall) / sigma).max())))
    w = np.arange(-math.ceil(left / step), math.ceil(right / step) + 1) * step
    y = np.minimum(sigma[..., None] * np.sinh(w), 300.0)
    return y, sigma[..., None] * np.cosh(w) * step


def _log_laplace_change(a: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Log E exp(−t(G² − a²)) for G ~ Gamma(a), accurate relative to its size as t → 0.

    In y = log(x/a) the density of G is exp(−a(e^y − 1 − y)), up to a constant.
    """
    y, dy = _peak_nodes(1 / np.sqrt(a + 4), a, a)
    mass = np.exp(-a[..., None] * expm1_minus(np, y)) * dy
    mass /= mass.sum(axis=-1, keepdims=True)
    excess = (a * a)[..., None] * np.expm1(2 * y)  # x² − a²
    return np.asarray(np.log1p((mass * np.expm1(-t[..., None] * excess)).sum(axis=-1)))


def _log_laplace(a: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Log E exp(−tG²) for G ~ Gamma(a), accurate to rounding of 1.

    In y = log x the integrand is exp of ay − x − tx², concave with its peak at x* = a(1 + v).
    """
    t, a = np.broadcast_arrays(t, a)
    root = np.sqrt(1 + 8 * t * a)
    linear = 2 * a / (1 + root)  # x*, and with the next the weights of the two falling terms
    square = t * linear**2
    curvature = linear + 4 * square
    y, dy = _peak_nodes(1 / np.sqrt(curvature + 4), a, linear + square)
    drop = linear[..., None] * expm1_minus(np, y) + square[..., None] * expm1_minus(np, 2 * y)
    area = (np.exp(-drop) * dy).sum(axis=-1) * np.sqrt(curvature / (2 * math.pi))
    v = -8 * t * a / (1 + root) ** 2
    bend = np.where(v > -0.5, log1p_minus(np, np.maximum(v, -0.5)), np.log(2 / (1 + root)) - v)
    height = a * bend - square + 0.5 * np.log1p(-2 * square / curvature)
    return np.asarray(height + np.log(area) - _stirling_error(a))


def _stirling_error(a: np.ndarray) -> np.ndarray:
    """Log Γ(a) − [(a − ½) log a − a + ½ log 2π], for every a > 0."""
    from scipy.special import gammaln

    small = np.where(a < 12, a, 12.0)
    direct = gammaln(small) - (small - 0.5) * np.log(small) + small - 0.5 * math.log(2 * math.pi)
    return np.asarray(np.where(a < 12, direct, stirling_error(np.maximum(a, 12.0))))
