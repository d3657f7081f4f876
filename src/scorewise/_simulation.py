"""Expectations over a Dirichlet by randomised quasi-Monte-Carlo, for rules without closed forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_POINTS, _REPEATS = 1024, 8  # of a Sobol sequence, which wants a power of 2, and sequences
N_DRAWS = _POINTS * _REPEATS
RARE = 0.01  # a class of a smaller parameter shows in too few draws to count on
_BLOCK_ELEMENTS = 1 << 22


def simulate(
    f: Callable[[np.ndarray, slice], np.ndarray], alpha: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return E f(θ) for θ ~ Dirichlet(α) and its standard error, for parameters ``(B, K)``.

    ``f`` takes points ``(b, n, K)`` and the rows that they are for, and returns ``(b, n)`` or
    ``(b, n, R)``. Independently scrambled Sobol sequences give the estimate and, by their spread,
    its error, which is at least what the rounding of the points themselves would make of f.
    """
    k = alpha.shape[-1]
    sequences = _sobol(k)
    rows = max(1, _BLOCK_ELEMENTS // (_POINTS * k))
    estimates, errors = [], []
    for start in range(0, max(len(alpha), 1), rows):
        block = slice(start, min(start + rows, len(alpha)))
        means = np.stack([f(_points(alpha[block], u), block).mean(axis=1) for u in sequences])
        noise = np.abs(f(_rounded_mean(alpha[block]), block)).max(axis=1)
        estimates.append(means.mean(axis=0))
        errors.append(np.maximum(means.std(axis=0, ddof=1) / np.sqrt(_REPEATS), noise))
    return np.concatenate(estimates), np.concatenate(errors)


def _sobol(k: int) -> list[np.ndarray]:
    from scipy.stats import qmc  # half a second to import, so only where it is used

    rng = np.random.default_rng(0)
    sequences = (qmc.Sobol(k, scramble=True, rng=rng) for _ in range(_REPEATS))
    # Points on the edge of the cube have infinite quantiles.
    return [np.clip(s.random(_POINTS), 2.0**-53, 1 - 2.0**-53) for s in sequences]


def _points(alpha: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """θ ``(B, n, K)`` for parameters ``(B, K)`` and uniforms ``(n, K)``: normalised gammas.

    Gamma quantiles of small parameters underflow, so they are normalised by their logarithms.
    """
    from scipy.special import gammaincinv, gammaln

    a = alpha[:, None, :]
    with np.errstate(divide="ignore"):
        log_g = np.log(gammaincinv(a, uniforms))
    # P(a, x) = x^a / Γ(a + 1) near 0
    lower_tail = (np.log(uniforms) + gammaln(a + 1)) / a
    return _normalised(np.where(log_g < -200, lower_tail, log_g))


def _rounded_mean(alpha: np.ndarray) -> np.ndarray:
    """The mean as far off as rounding may leave a point, ``(B, 2, K)``."""
    log_alpha = np.log(alpha)[:, None, :]
    off = 4 * np.finfo(float).eps * (1 + np.abs(log_alpha))
    sign = (-1.0) ** np.arange(alpha.shape[-1])
    return _normalised(np.concatenate([log_alpha + sign * off, log_alpha - sign * off], axis=1))


def _normalised(log_masses: np.ndarray) -> np.ndarray:
    masses = np.exp(log_masses - log_masses.max(axis=-1, keepdims=True))
    return np.asarray(masses / masses.sum(axis=-1, keepdims=True))
