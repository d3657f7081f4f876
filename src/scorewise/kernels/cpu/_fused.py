"""One pass over members: total, aleatoric and epistemic uncertainty under many rules.

EU is the difference TU − AU where that is well conditioned, and the mean divergence elsewhere. For
the latter the same few instances, which are still in cache, are looked at a second time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from scorewise.kernels.cpu._functions import (
    compiled,
    inlined,
    maximum,
    minimum,
    positive,
    relative_entropy,
)
from scorewise.kernels.cpu._memory import (
    double_at,
    load,
    n_lanes,
    number_at,
    put,
    store,
    vector_like,
)
from scorewise.kernels.cpu._powers import power_divergence, power_entropy
from scorewise.kernels.cpu._reading import (
    across_max,
    across_min,
    across_sum,
    locate,
    next_member,
    read,
    row_at,
    silence,
    vector,
)
from scorewise.kernels.cpu._records import BYTES, LOGITS, LONG_BLOCK, PROBABILITIES
from scorewise.kernels.cpu._sums import SOME, add, clear, finish, flush
from scorewise.kernels.cpu._tallies import nonnegative, norm_of, surprise_of, tally
from scorewise.kernels.cpu._vectors import (
    absolute,
    all_lanes,
    fill,
    multiply_add,
    narrow,
    sqrt,
    where,
    widen,
)

# EU as a difference keeps enough digits where it is at least this part of what is subtracted.
_FAR = 0.02


class Means(NamedTuple):
    """Averages over members, in float64."""

    surprise: Any
    negative: Any
    gini: Any
    squares: Any
    miss: Any  # Σp − max p
    top: Any
    gap: Any  # Σp − ‖p‖
    norm: Any  # ‖p‖


class Divergences(NamedTuple):
    """Averages over members of D(mean, p), in float64, for each simple rule."""

    log: Any
    brier: Any
    zero_one: Any
    spherical: Any


@inlined
def _added(a, b):
    """Averages over more members."""
    return Means(
        a.surprise + b.surprise,
        a.negative + b.negative,
        a.gini + b.gini,
        a.squares + b.squares,
        a.miss + b.miss,
        a.top + b.top,
        a.gap + b.gap,
        a.norm + b.norm,
    )


@inlined
def _begin(source, first, stop, powers, power_sums, memory, zero):
    """Find the instances of a look, and clear its sums over members."""
    clear(source, memory, zero)
    for j in range(powers.n):
        store(power_sums + j * 8 * n_lanes(zero), widen(zero))
    locate(source, first, stop, memory, zero)


@inlined
def _power(powers, j, zero):
    """β − 1 of rule number j with a parameter, and whether it is pseudospherical."""
    place = powers.address + 16 * j
    return double_at(place, zero), double_at(place + 8, zero) > 0


@inlined
def _first_look(source, weights, first, stop, wanted, powers, tolerance, memory, zero):
    """Averages over members and, in memory, the anchor and how far the mean is from it."""
    none = widen(zero)
    nothing = Means(none, none, none, none, none, none, none, none)
    means, recent = nothing, nothing
    full = stop - first >= n_lanes(zero)
    _begin(source, first, stop, powers, memory.aleatoric, memory, zero)
    for turn in range(source.n_members):
        member, offset, w = next_member(source, weights, first, stop, turn, memory, zero)
        row, good, negative = read(source, member, offset, full, memory, zero)
        if turn == 0:
            for r in range(source.n_vectors):
                store(memory.anchor + r * BYTES, vector(source, row, r, zero))
        if tolerance < 0 and not all_lanes(w > 0.0):
            row = silence(source, row, w, memory, zero)
            negative = where(w > 0.0, negative, 0.0)
        with_log = wanted.log >= 0 and source.kind != LOGITS
        t = tally(source, row, memory.anchor, memory.sums, w, with_log, zero)
        if source.kind != LOGITS:
            negative = t.negative
        if tolerance >= 0:
            if source.kind == PROBABILITIES:
                good = absolute(t.total - 1.0) <= tolerance
                if not all_lanes(t.nonnegative):
                    good = good & nonnegative(source, row, zero)
            if not all_lanes(good):
                return False, means
        wide, top, norm = widen(w), widen(t.top), norm_of(t, zero)
        recent = Means(
            multiply_add(wide, surprise_of(t.total, negative, zero), recent.surprise),
            multiply_add(wide, negative, recent.negative),
            multiply_add(wide, t.gini, recent.gini),
            multiply_add(wide, t.squares, recent.squares),
            multiply_add(wide, t.total - top, recent.miss),
            multiply_add(wide, top, recent.top),
            multiply_add(wide, t.gini / (t.total + norm), recent.gap),
            multiply_add(wide, norm, recent.norm),
        )
        for j in range(powers.n):
            h = _power_entropy(source, row, t, powers, j, zero)
            add(memory.aleatoric, j, w * h, zero)
        if turn % SOME == SOME - 1:
            flush(source, memory, zero)
            means, recent = _added(means, recent), nothing
    finish(source, memory, zero)
    return True, _added(means, recent)


@inlined
def _power_entropy(source, row, t, powers, j, zero):
    rate, pseudospherical = _power(powers, j, zero)
    total = narrow(t.total, zero)
    return power_entropy(source, row, total, t.top, rate, pseudospherical, zero)


@inlined
def _center(source, memory, zero):
    """Put the mean into memory."""
    for r in range(source.n_vectors):
        mean = load(memory.anchor + r * BYTES, zero) + load(memory.sums + r * BYTES, zero)
        store(memory.mean + r * BYTES, positive(mean))


@compiled
def _second_look(source, weights, first, stop, tolerance, with_log, powers, mean, memory, zero):
    """Divergences of members from the mean, whose tally is given."""
    none = widen(zero)
    by_log, by_brier, by_spherical = none, none, none
    mean_squares = narrow(mean.squares, zero)
    regret = memory.sums
    full = stop - first >= n_lanes(zero)
    _begin(source, first, stop, powers, memory.epistemic, memory, zero)
    for turn in range(source.n_members):
        member, offset, w = next_member(source, weights, first, stop, turn, memory, zero)
        row, _, _ = read(source, member, offset, full, memory, zero)
        if tolerance < 0 and not all_lanes(w > 0.0):
            row = silence(source, row, w, memory, zero)
        entropy, distance, along, squares, top = none, none, none, none, zero
        for start in range(0, source.n_vectors, LONG_BLOCK):
            part_entropy, part_distance, part_along, part_squares = zero, zero, zero, zero
            for r in range(start, min(start + LONG_BLOCK, source.n_vectors)):
                p, q = vector(source, row, r, zero), load(memory.mean + r * BYTES, zero)
                d = p - q
                part_distance = multiply_add(d, d, part_distance)
                part_along = multiply_add(d, q, part_along)
                part_squares = multiply_add(p, p, part_squares)
                top = maximum(p, top)
                if with_log:
                    part_entropy = part_entropy + relative_entropy(q, p, d)
            entropy = entropy + widen(part_entropy)
            distance = distance + widen(part_distance)
            along = along + widen(part_along)
            squares = squares + widen(part_squares)
        # Under spherical only what of p is not parallel to q counts.
        parallel = narrow(across_sum(source, along), zero) / mean_squares
        top = across_max(source, top)
        rest = none
        for start in range(0, source.n_vectors, LONG_BLOCK):
            part_rest = zero
            for r in range(start, min(start + LONG_BLOCK, source.n_vectors)):
                p, q = vector(source, row, r, zero), load(memory.mean + r * BYTES, zero)
                d = (p - q) - q * parallel
                part_rest = multiply_add(d, d, part_rest)
                place = regret + r * BYTES
                store(place, multiply_add(w, top - p, load(place, zero)))
            rest = rest + widen(part_rest)
        norm = sqrt(narrow(across_sum(source, squares), zero))
        norms = widen(norm + sqrt(mean_squares) * (parallel + 1.0))
        wide = widen(w)
        by_log = multiply_add(wide, across_sum(source, entropy), by_log)
        by_brier = multiply_add(wide, across_sum(source, distance), by_brier)
        by_spherical = multiply_add(wide, across_sum(source, rest) / norms, by_spherical)
        for j in range(powers.n):
            rate, pseudospherical = _power(powers, j, zero)
            d = power_divergence(source, row, memory.mean, mean.top, rate, pseudospherical, zero)
            add(memory.epistemic, j, w * d, zero)
        if turn % SOME == SOME - 1:
            flush(source, memory, zero)
    finish(source, memory, zero)
    least = load(regret, zero)
    for r in range(1, source.n_vectors):
        least = minimum(least, load(regret + r * BYTES, zero))
    return Divergences(by_log, by_brier, widen(across_min(source, least)), by_spherical)


@inlined
def _put(out, part, first, count, memory, value, zero):
    """Write one component of some instances; none is ever negative."""
    store(memory.lanes, positive(narrow(value, zero)))
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
        mean = row_at(source, memory.mean, fill(zero, 1.0))
        # With a weight of 0 the sums stay as they are.
        t = tally(source, mean, memory.mean, memory.sums, zero, with_log, zero)
        surprise, top, norm = surprise_of(t.total, t.negative, zero), widen(t.top), norm_of(t, zero)
        eu = Divergences(m.negative - t.negative, m.squares - t.squares, m.top - top, m.norm - norm)
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
            d = _second_look(
                source, weights, first, stop, tolerance, see_log, powers, t, memory, zero
            )
            eu = Divergences(
                where(far.log, eu.log, d.log),
                where(far.brier, eu.brier, d.brier),
                where(far.zero_one, eu.zero_one, d.zero_one),
                where(far.spherical, eu.spherical, d.spherical),
            )
        spoilt = t.total - t.total  # 0, or NaN where a member that was not checked is
        components = (
            (wanted.log, surprise, m.surprise, eu.log),
            (wanted.brier, t.gini, m.gini, eu.brier),
            (wanted.zero_one, t.total - top, m.miss, eu.zero_one),
            (wanted.spherical, t.gini / (t.total + norm), m.gap, eu.spherical),
        )
        for part, total, aleatoric, epistemic in components:
            _put_rule(out, part, first, count, memory, total, aleatoric, epistemic + spoilt, zero)
        for j in range(powers.n):
            total = widen(_power_entropy(source, mean, t, powers, j, zero))
            aleatoric = load(memory.aleatoric + j * 8 * n_lanes(zero), widen(zero))
            epistemic = load(memory.epistemic + j * 8 * n_lanes(zero), widen(zero))
            part = wanted.powers + 3 * j
            _put_rule(out, part, first, count, memory, total, aleatoric, epistemic + spoilt, zero)
    return True
