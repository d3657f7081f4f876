"""One pass over members: total, aleatoric and epistemic uncertainty under many rules.

EU is the difference TU − AU where that is well conditioned, and the mean divergence elsewhere. For
the latter the same few instances, which are still in cache, are looked at a second time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from scorewise.kernels._cpu.functions import (
    compiled,
    inlined,
    log,
    maximum,
    minimum,
    relative_entropy,
)
from scorewise.kernels._cpu.memory import (
    double_at,
    load,
    n_lanes,
    number_at,
    prefetch,
    put,
    store,
    vector_like,
)
from scorewise.kernels._cpu.powers import power_divergence, power_entropy
from scorewise.kernels._cpu.reading import (
    across_max,
    across_min,
    across_sum,
    locate,
    next_member,
    read,
    row_at,
    vector,
)
from scorewise.kernels._cpu.records import BYTES, PROBABILITIES
from scorewise.kernels._cpu.vectors import (
    absolute,
    all_lanes,
    from_bits,
    multiply_add,
    narrow,
    sqrt,
    to_bits,
    where,
    widen,
)

_MANY = 256  # members, after which sums in float32 move to float64

# EU as a difference keeps enough digits where it is at least this part of what is subtracted.
_FAR = 0.02


class Tally(NamedTuple):
    """Sums over the classes of one prediction p, an instance's in each of its lanes."""

    total: Any  # Σp
    top: Any  # max p
    squares: Any  # Σp²
    gini: Any  # (Σp)² − Σp²
    surprise: Any  # −Σp·log(p/Σp)
    nonnegative: Any


class Means(NamedTuple):
    """Averages over members, in float64."""

    surprise: Any
    gini: Any
    miss: Any
    gap: Any
    squares: Any
    top: Any
    norm: Any


@inlined
def _tally(source, row, ahead, anchor, shift, w, with_log, zero):
    """Sum over one member, and add w·(p − anchor) to the shift; ``ahead`` lies the next member."""
    total, squares, doubt, negative = zero, zero, zero, zero
    # Bits of numbers that are not negative are ordered as these are, and cheaper to compare.
    top = to_bits(zero)
    signs = top
    for r in range(source.n_vectors):
        p = vector(source, row, r, zero)
        prefetch(row.address + r * row.step + ahead)
        moved = load(shift + r * BYTES, zero)
        store(shift + r * BYTES, multiply_add(w, p - load(anchor + r * BYTES, zero), moved))
        bits = to_bits(p)
        signs = signs | bits
        top = where(bits > top, bits, top)
        total = total + p
        squares = multiply_add(p, p, squares)
        doubt = multiply_add(p, 1.0 - p, doubt)  # keeps the digits that 1 − Σp² would lose
        if with_log:
            negative = multiply_add(p, log(p), negative)
    total = across_sum(source, total)
    return Tally(
        total,
        across_max(source, from_bits(top)),
        across_sum(source, squares),
        maximum(multiply_add(total, total - 1.0, across_sum(source, doubt)), zero),
        maximum(total * log(total) - across_sum(source, negative), zero),
        signs >= 0,
    )


@inlined
def _nonnegative(source, row, zero):
    """Which lanes have no entry below 0: what has the sign of one may be -0.0."""
    low = zero
    for r in range(source.n_vectors):
        low = minimum(low, vector(source, row, r, zero))
    return low >= 0.0


@inlined
def _gap(t):
    """Σp − ‖p‖."""
    return t.gini / (t.total + sqrt(t.squares))


@inlined
def _clear(source, memory, zero):
    wide = widen(zero)
    for r in range(source.n_vectors):
        store(memory.sums + r * BYTES, zero)
        store(memory.wide_sums + r * 8 * n_lanes(zero), wide)


@inlined
def _flush(source, memory, zero):
    """Move sums over members to where they do not drown."""
    for r in range(source.n_vectors):
        place = memory.wide_sums + r * 8 * n_lanes(zero)
        part = load(memory.sums + r * BYTES, zero)
        store(place, load(place, widen(zero)) + widen(part))
        store(memory.sums + r * BYTES, zero)


@inlined
def _finish(source, memory, zero):
    """Bring sums over all members together."""
    for r in range(source.n_vectors):
        whole = load(memory.wide_sums + r * 8 * n_lanes(zero), widen(zero))
        part = load(memory.sums + r * BYTES, zero)
        store(memory.sums + r * BYTES, narrow(whole + widen(part), zero))


@inlined
def _add(sums, j, value, zero):
    """Add to the sum of rule number j."""
    place = sums + j * 8 * n_lanes(zero)
    store(place, load(place, widen(zero)) + widen(value))


@inlined
def _first_look(source, weights, first, stop, wanted, powers, tolerance, memory, zero):
    """Averages over members and, in memory, the anchor and how far the mean is from it."""
    none = widen(zero)
    means = Means(none, none, none, none, none, none, none)
    full = stop - first >= n_lanes(zero)
    _clear(source, memory, zero)
    for j in range(powers.n):
        store(memory.aleatoric + j * 8 * n_lanes(zero), none)
    locate(source, first, stop, memory, zero)
    for turn in range(source.n_members):
        member, offset, w = next_member(source, weights, first, stop, turn, memory, zero)
        row, good = read(source, member, offset, full, memory, zero)
        if turn == 0:
            for r in range(source.n_vectors):
                store(memory.anchor + r * BYTES, vector(source, row, r, zero))
        ahead = source.member_stride
        with_log = wanted.log >= 0
        t = _tally(source, row, ahead, memory.anchor, memory.sums, w, with_log, zero)
        if tolerance >= 0:
            if source.kind == PROBABILITIES:
                good = absolute(t.total - 1.0) <= tolerance
                if not all_lanes(t.nonnegative):
                    good = good & _nonnegative(source, row, zero)
            if not all_lanes(good):
                return False, means
        wide = widen(w)
        means = Means(
            multiply_add(wide, widen(t.surprise), means.surprise),
            multiply_add(wide, widen(t.gini), means.gini),
            multiply_add(wide, widen(t.total - t.top), means.miss),
            multiply_add(wide, widen(_gap(t)), means.gap),
            multiply_add(wide, widen(t.squares), means.squares),
            multiply_add(wide, widen(t.top), means.top),
            multiply_add(wide, widen(sqrt(t.squares)), means.norm),
        )
        for j in range(powers.n):
            h = _power_entropy(source, row, t, powers, j, zero)
            _add(memory.aleatoric, j, w * h, zero)
        if turn % _MANY == _MANY - 1:
            _flush(source, memory, zero)
    _finish(source, memory, zero)
    return True, means


@inlined
def _power_entropy(source, row, t, powers, j, zero):
    rate = double_at(powers.address + 16 * j, zero)
    pseudospherical = double_at(powers.address + 16 * j + 8, zero) > 0
    return power_entropy(source, row, t.total, t.top, rate, pseudospherical, zero)


@inlined
def _center(source, memory, zero):
    """Put the mean into memory."""
    for r in range(source.n_vectors):
        mean = load(memory.anchor + r * BYTES, zero) + load(memory.sums + r * BYTES, zero)
        store(memory.mean + r * BYTES, maximum(mean, zero))


class Divergences(NamedTuple):
    """Averages over members of D(mean, p), in float64."""

    log: Any
    brier: Any
    zero_one: Any
    spherical: Any


@compiled
def _second_look(source, weights, first, stop, with_log, powers, mean, memory, zero):
    """Divergences of members from the mean, whose tally is given."""
    by_log, by_brier, by_spherical = widen(zero), widen(zero), widen(zero)
    regret = memory.sums
    full = stop - first >= n_lanes(zero)
    _clear(source, memory, zero)
    for j in range(powers.n):
        store(memory.epistemic + j * 8 * n_lanes(zero), widen(zero))
    locate(source, first, stop, memory, zero)
    for turn in range(source.n_members):
        member, offset, w = next_member(source, weights, first, stop, turn, memory, zero)
        row, _ = read(source, member, offset, full, memory, zero)
        entropy, distance, along, squares, top = zero, zero, zero, zero, zero
        for r in range(source.n_vectors):
            p, q = vector(source, row, r, zero), load(memory.mean + r * BYTES, zero)
            d = p - q
            distance = multiply_add(d, d, distance)
            along = multiply_add(d, q, along)
            squares = multiply_add(p, p, squares)
            top = maximum(p, top)
            if with_log:
                entropy = entropy + relative_entropy(q, p, d)
        # Under spherical only what of p is not parallel to q counts.
        parallel = across_sum(source, along) / mean.squares
        top = across_max(source, top)
        rest = zero
        for r in range(source.n_vectors):
            p, q = vector(source, row, r, zero), load(memory.mean + r * BYTES, zero)
            d = (p - q) - q * parallel
            rest = multiply_add(d, d, rest)
            place = regret + r * BYTES
            store(place, multiply_add(w, top - p, load(place, zero)))
        norms = sqrt(across_sum(source, squares)) + sqrt(mean.squares) * (parallel + 1.0)
        wide = widen(w)
        by_log = multiply_add(wide, widen(across_sum(source, entropy)), by_log)
        by_brier = multiply_add(wide, widen(across_sum(source, distance)), by_brier)
        by_spherical = multiply_add(wide, widen(across_sum(source, rest) / norms), by_spherical)
        for j in range(powers.n):
            rate = double_at(powers.address + 16 * j, zero)
            pseudospherical = double_at(powers.address + 16 * j + 8, zero) > 0
            d = power_divergence(source, row, memory.mean, mean.top, rate, pseudospherical, zero)
            _add(memory.epistemic, j, w * d, zero)
        if turn % _MANY == _MANY - 1:
            _flush(source, memory, zero)
    _finish(source, memory, zero)
    least = load(regret, zero)
    for r in range(1, source.n_vectors):
        least = minimum(least, load(regret + r * BYTES, zero))
    return Divergences(by_log, by_brier, widen(across_min(source, least)), by_spherical)


@inlined
def _put(out, part, first, count, memory, value, zero):
    """Write one component of some instances; none is ever negative."""
    store(memory.lanes, maximum(narrow(value, zero), zero))
    start = out.address + part * out.part_stride + first * out.instance_stride
    for lane in range(count):
        number = number_at(memory.lanes + lane * (BYTES // n_lanes(zero)), zero)
        put(start + lane * out.instance_stride, number)


@inlined
def _put_rule(out, part, first, count, memory, total, aleatoric, epistemic, zero):
    """Write the three components of a rule, if it was asked for."""
    if part >= 0:
        _put(out, part, first, count, memory, total, zero)
        _put(out, part + 1, first, count, memory, aleatoric, zero)
        _put(out, part + 2, first, count, memory, epistemic, zero)


def fused(number, tolerance, source, weights, wanted, powers, out, memory, span):
    """Decompose a span of instances; False if some are no predictions.

    Parameters
    ----------
    number : float32 or float64
        Any number of the dtype of the predictions.
    tolerance : float
        How far sums may be from 1; negative to check nothing.
    """
    zero = vector_like(number)
    group = n_lanes(zero) if source.side_by_side else 1
    with_log = wanted.log >= 0
    stop = span.stop
    for first in range(span.start, stop, group):
        count = min(group, stop - first)
        good, m = _first_look(source, weights, first, stop, wanted, powers, tolerance, memory, zero)
        if not good:
            return False
        _center(source, memory, zero)
        mean = row_at(source, memory.mean)
        t = _tally(source, mean, 0, memory.mean, memory.sums, zero, with_log, zero)
        surprise, squares, top = widen(t.surprise), widen(t.squares), widen(t.top)
        eu = Divergences(
            surprise - m.surprise, m.squares - squares, m.top - top, m.norm - widen(sqrt(t.squares))
        )
        far = Divergences(
            eu.log > (surprise + 1.0) * _FAR,
            eu.brier > m.squares * _FAR,
            eu.zero_one > m.top * _FAR,
            eu.spherical > m.norm * _FAR,
        )
        see_log = with_log and not all_lanes(far.log)
        if (
            see_log
            or (wanted.brier >= 0 and not all_lanes(far.brier))
            or (wanted.zero_one >= 0 and not all_lanes(far.zero_one))
            or (wanted.spherical >= 0 and not all_lanes(far.spherical))
            or powers.n > 0
        ):
            d = _second_look(source, weights, first, stop, see_log, powers, t, memory, zero)
            eu = Divergences(
                where(far.log, eu.log, d.log),
                where(far.brier, eu.brier, d.brier),
                where(far.zero_one, eu.zero_one, d.zero_one),
                where(far.spherical, eu.spherical, d.spherical),
            )
        total = widen(t.gini)
        _put_rule(out, wanted.log, first, count, memory, surprise, m.surprise, eu.log, zero)
        _put_rule(out, wanted.brier, first, count, memory, total, m.gini, eu.brier, zero)
        total = widen(t.total - t.top)
        _put_rule(out, wanted.zero_one, first, count, memory, total, m.miss, eu.zero_one, zero)
        total = widen(_gap(t))
        _put_rule(out, wanted.spherical, first, count, memory, total, m.gap, eu.spherical, zero)
        for j in range(powers.n):
            total = widen(_power_entropy(source, mean, t, powers, j, zero))
            aleatoric = load(memory.aleatoric + j * 8 * n_lanes(zero), widen(zero))
            epistemic = load(memory.epistemic + j * 8 * n_lanes(zero), widen(zero))
            part = wanted.powers + 3 * j
            _put_rule(out, part, first, count, memory, total, aleatoric, epistemic, zero)
    return True
