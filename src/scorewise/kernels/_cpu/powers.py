"""Tsallis's and the pseudospherical family on members: sums of powers, and what becomes of them."""

from __future__ import annotations

from scorewise.kernels._cpu.functions import (
    compiled,
    exp,
    expm1,
    inlined,
    log,
    log1p,
    maximum,
    power_excess,
)
from scorewise.kernels._cpu.memory import load
from scorewise.kernels._cpu.reading import across_max, across_sum, vector
from scorewise.kernels._cpu.records import BYTES
from scorewise.kernels._cpu.vectors import multiply_add, where


@inlined
def _deficit(source, row, total, rate, zero):
    """Σ p·[1 − (p/S)^{β−1}]/(β − 1): Tsallis's entropy."""
    log_total = log(total)
    missing = zero
    for r in range(source.n_vectors):
        p = vector(source, row, r, zero)
        missing = missing - p * expm1((log(p) - log_total) * rate)
    return maximum(across_sum(source, missing) / rate, zero)


@inlined
def _norm(source, row, top, rate, zero):
    """‖p‖_α, scaled by the largest entry, as powers of small numbers underflow."""
    powers = zero
    log_top = log(top)
    for r in range(source.n_vectors):
        p = vector(source, row, r, zero)
        powers = powers + where(p > 0.0, exp((log(p) - log_top) * (rate + 1.0)), 0.0)
    return top * exp(log(across_sum(source, powers)) / (rate + 1.0))


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
    return maximum(where(near, by_deficit, by_norm), zero)


@compiled
def power_divergence(source, row, mean, mean_top, rate, pseudospherical, zero):
    """D(q, p) of a member p from the mean q."""
    if pseudospherical:
        return _pseudospherical_divergence(source, row, mean, mean_top, rate, zero)
    excess = zero
    for r in range(source.n_vectors):
        p, q = vector(source, row, r, zero), load(mean + r * BYTES, zero)
        excess = excess + power_excess(q, p, p - q, rate)
    return across_sum(source, excess)


@inlined
def _pseudospherical_divergence(source, row, mean, mean_top, rate, zero):
    """D(q, p), which does not change when q is scaled.

    Scaled so that the tangent of Σx^α at q meets p at the height of q, it is ‖p‖ − ‖q‖, that is
    ‖q‖·((1 + T/Σq^α)^{1/α} − 1) with T the height of p above that tangent.
    """
    alpha = rate + 1.0
    log_top = log(mean_top)
    along, own, top = zero, zero, zero
    for r in range(source.n_vectors):
        p, q = vector(source, row, r, zero), load(mean + r * BYTES, zero)
        slope = where(q > 0.0, exp((log(q) - log_top) * rate), 0.0)
        along = multiply_add(p - q, slope, along)
        own = multiply_add(q, slope, own)
        top = maximum(top, p)
    own, top = across_sum(source, own), across_max(source, top)
    parallel = across_sum(source, along) / own
    lift = maximum(parallel + 1.0, zero)
    excess, powers, own_powers = zero, zero, zero
    for r in range(source.n_vectors):
        p, q = vector(source, row, r, zero), load(mean + r * BYTES, zero)
        rest = ((p - q) - q * parallel) / top
        p, q = p / top, q * lift / top  # powers of small numbers underflow
        excess = excess + power_excess(q, p, rest, rate)
        powers = powers + where(q > 0.0, exp(log(q) * alpha), 0.0)
        own_powers = own_powers + where(p > 0.0, exp(log(p) * alpha), 0.0)
    excess, powers = across_sum(source, excess) * rate, across_sum(source, powers)
    near = excess < powers
    rise = log1p(where(near, excess, 0.0) / where(near, powers, 1.0)) / alpha
    close = exp(log(powers) / alpha) * expm1(rise)
    norm = exp(log(across_sum(source, own_powers)) / alpha)
    mean_norm = lift * mean_top / top * exp(log(own / mean_top) / alpha)
    return top * where(near, close, norm - mean_norm)
