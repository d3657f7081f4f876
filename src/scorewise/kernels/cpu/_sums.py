"""Sums over members, in memory: for each vector of a member, and for each rule with a parameter.

A few members are summed in the dtype of the predictions; then their sum moves on to float64, and in
float64 what rounding loses there is kept, too. One member that differs from all others would else
leave its place in the mean to the roundings of many equal terms.
"""

from __future__ import annotations

from scorewise.kernels.cpu._functions import inlined
from scorewise.kernels.cpu._memory import load, n_lanes, store
from scorewise.kernels.cpu._records import BYTES
from scorewise.kernels.cpu._vectors import narrow, widen

SOME = 16  # members, whose sum then moves on


@inlined
def clear(source, memory, zero):
    """Begin sums over members."""
    for r in range(source.n_vectors):
        store(memory.sums + r * BYTES, zero)
        store(memory.wide_sums + r * 8 * n_lanes(zero), widen(zero))
        store(memory.lost + r * 8 * n_lanes(zero), widen(zero))


@inlined
def flush(source, memory, zero):
    """Move sums over members to where they do not drown: to float64, with what rounding loses."""
    is_double = BYTES // n_lanes(zero) == 8
    for r in range(source.n_vectors):
        place, lost = memory.wide_sums + r * 8 * n_lanes(zero), memory.lost + r * 8 * n_lanes(zero)
        part = widen(load(memory.sums + r * BYTES, zero))
        whole = load(place, part)
        new = whole + part
        store(place, new)
        if is_double:
            taken = new - whole
            rest = (whole - (new - taken)) + (part - taken)
            store(lost, load(lost, part) + rest)
        store(memory.sums + r * BYTES, zero)


@inlined
def finish(source, memory, zero):
    """Bring sums over all members together."""
    for r in range(source.n_vectors):
        place, lost = memory.wide_sums + r * 8 * n_lanes(zero), memory.lost + r * 8 * n_lanes(zero)
        part = widen(load(memory.sums + r * BYTES, zero)) + load(lost, widen(zero))
        store(memory.sums + r * BYTES, narrow(load(place, part) + part, zero))


@inlined
def add(sums, j, value, zero):
    """Add to the sum of rule number j."""
    place = sums + j * 8 * n_lanes(zero)
    store(place, load(place, widen(zero)) + widen(value))
