"""Tsallis's and the pseudospherical family on members: sums of powers, and what becomes of them."""

from __future__ import annotations

from scorewise.kernels.cpu._functions import (
    compiled,
    exp,
    expm1,
    inlined,
    log,
    log1p,
    maximum,
    positive,
    power_excess,
)
from scorewise.kernels.cpu._memory import load
from scorewise.kernels.cpu._reading import across_max, across_sum, vector
from scorewise.kernels.cpu._records import BYTES, LONG_BLOCK
from scorewise.kernels.cpu._vectors import multiply_add, narrow, where, widen


@inlined
def _deficit(source, row, total, rate, zero):
    """Σ p·[1 − (p/S)^{β−1}]/(β − 1): Tsallis's entropy."""
    log_total = log(total)
    missing = widen(zero)
    for start in range(0, source.n_vectors, LONG_BLOCK):
        part = zero
        for r in range(start, min(start + LONG_BLOCK, source.n_vectors)):
            p = vector(source, row, r, zero)
            part = part - p * expm1((log(p) - log_total) * rate)
        missing = missing + widen(part)
    return positive(narrow(across_sum(source, missing) / rate, zero))


@inlined
def _norm(source, row, top, rate, zero):
    """‖p‖_α, scaled by the largest entry, as powers of small numbers underflow."""
    powers = widen(zero)
    log_top = log(top)
    for start in range(0, source.n_vectors, LONG_BLOCK):
        part = zero
        for r in range(start, min(start + LONG_BLOCK, source.n_vectors)):
            p = vector(source, row, r, zero)
            part = part + where(p > 0.0, exp((log(p) - log_top) * (rate + 1.0)), 0.0)
        powers = powers + widen(part)
    return top * exp(log(narrow(across_sum(source, powers), zero)) / (rate + 1.0))


@compiled
def power_entropy(source, row, total, top, rate, pseudospherical, zero):
    """H(p) of one member or mean."""
    deficit = _deficit(source, row, total, rate, zero)
    if not pseudospherical:
        return deficit
    # With Σ(p/S)^α = 1 − T, S − ‖p‖ = S·(1 − (1 − T)^{1/α}) is accurate for small T.
    missing = deficit * rate / total
    near = missing < 0.5
    by_deficit = -expm1(log1p(where(near, -missing, 0.0)) / (rate + 1.0)) * total
    by_norm = total - _norm(source, row, top, rate, zero)
    return positive(where(near, by_deficit, by_norm))


@compiled
def power_divergence(source, row, mean, mean_top, rate, pseudospherical, zero):
    """D(q, p) of a member p from the mean q."""
    if pseudospherical:
        return _pseudospherical_divergence(source, row, mean, mean_top, rate, zero)
    excess = widen(zero)
    for start in range(0, source.n_vectors, LONG_BLOCK):
        part = zero
        for r in range(start, min(start + LONG_BLOCK, source.n_vectors)):
            p, q = vector(source, row, r, zero), load(mean + r * BYTES, zero)
            part = part + power_excess(q, p, p - q, rate)
        excess = excess + widen(part)
    return narrow(across_sum(source, excess), zero)


@inlined
def _pseudospherical_divergence(source, row, mean, mean_top, rate, zero):
    """D(q, p), which does not change when q is scaled.

    Scaled so that the tangent of Σx^α at q meets p at the height of q, it is ‖p‖ − ‖q‖, that is
    ‖q‖·((1 + T/Σq^α)^{1/α} − 1) with T the height of p above that tangent.
    """
    alpha = rate + 1.0
    log_top = log(mean_top)
    along, own, top = widen(zero), widen(zero), zero
    for start in range(0, source.n_vectors, LONG_BLOCK):
        part_along, part_own = zero, zero
        for r in range(start, min(start + LONG_BLOCK, source.n_vectors)):
            p, q = vector(source, row, r, zero), load(mean + r * BYTES, zero)
            slope = where(q > 0.0, exp((log(q) - log_top) * rate), 0.0)
            part_along = multiply_add(p - q, slope, part_along)
            part_own = multiply_add(q, slope, part_own)
            top = maximum(top, p)
        along, own = along + widen(part_along), own + widen(part_own)
    own, top = across_sum(source, own), across_max(source, top)
    parallel = narrow(across_sum(source, along) / own, zero)
    lift = positive(parallel + 1.0)
    excess, powers, own_powers = widen(zero), widen(zero), widen(zero)
    for start in range(0, source.n_vectors, LONG_BLOCK):
        part_excess, part_powers, part_own = zero, zero, zero
        for r in range(start, min(start + LONG_BLOCK, source.n_vectors)):
            p, q = vector(source, row, r, zero), load(mean + r * BYTES, zero)
            rest = ((p - q) - q * parallel) / top
            p, q = p / top, q * lift / top  # powers of small numbers underflow
            part_excess = part_excess + power_excess(q, p, rest, rate)
            part_powers = part_powers + where(q > 0.0, exp(log(q) * alpha), 0.0)
            part_own = part_own + where(p > 0.0, exp(log(p) * alpha), 0.0)
        excess = excess + widen(part_excess)
        powers = powers + widen(part_powers)
        own_powers = own_powers + widen(part_own)
    rise = narrow(across_sum(source, excess) * rate, zero)
    height = narrow(across_sum(source, powers), zero)
    near = rise < height
    step = log1p(where(near, rise, 0.0) / where(near, height, 1.0)) / alpha
    close = exp(log(height) / alpha) * expm1(step)
    norm = exp(log(narrow(across_sum(source, own_powers), zero)) / alpha)
    mean_norm = lift * mean_top / top * exp(log(narrow(own, zero) / mean_top) / alpha)
    return top * where(near, close, norm - mean_norm)
