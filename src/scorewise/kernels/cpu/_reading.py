"""Members as the kernel reads them: a few instances side by side, or one instance at a time.

A vector holds one class of as many instances as it has lanes (*side by side*, for few classes), or
as many classes of one instance. Loops over a member's vectors are the same for both; only what they
gathered in lanes must then be combined *across* the lanes of the one instance.

``zero`` is always a vector of zeros, from which the dtype is known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scorewise.kernels.cpu._functions import exp, inlined, log1p, maximum, minimum
from scorewise.kernels.cpu._memory import (
    integer_at,
    load,
    load_some,
    n_lanes,
    number_at,
    prefetch,
    put,
    store,
    transpose,
)
from scorewise.kernels.cpu._records import BYTES, LOGITS, LONG_BLOCK, MASSES, PROBABILITIES
from scorewise.kernels.cpu._vectors import (
    fill,
    max_lanes,
    min_lanes,
    multiply_add,
    narrow,
    sum_lanes,
    where,
    widen,
)


class Row(NamedTuple):
    """Where the vectors of one member lie: ``step`` bytes apart, the last one anywhere."""

    address: int
    step: int
    last: int
    ahead: int  # from here to what will be read soon
    share: Any  # what turns masses into probabilities


@inlined
def across_sum(source, v):
    """The sum over an instance's lanes, in each of them."""
    return v if source.side_by_side else sum_lanes(v)


@inlined
def across_max(source, v):
    """The largest of an instance's lanes, in each of them."""
    return v if source.side_by_side else max_lanes(v)


@inlined
def across_min(source, v):
    """The least of an instance's lanes, in each of them."""
    return v if source.side_by_side else min_lanes(v)


@inlined
def vector(source, row, r, zero):
    """Vector number ``r`` of a member."""
    v = load(row.last if r == source.n_vectors - 1 else row.address + r * row.step, zero)
    return v if source.kind == PROBABILITIES else v * row.share


@inlined
def row_at(source, address, share):
    """A member whose vectors lie one after the other."""
    return Row(address, BYTES, address + (source.n_vectors - 1) * BYTES, 0, share)


@inlined
def locate(source, first, stop, memory, zero):
    """Find some instances, one per lane; lanes beyond the last repeat it."""
    for lane in range(n_lanes(zero)):
        n = min(first + lane, stop - 1)
        put(memory.addresses + 8 * lane, source.address + n * source.instance_stride)
    put(memory.copied, 0)
    put(memory.copied + 8, 0)


@inlined
def _after(source, heaviest, turn):
    """The member whose turn it is: the heaviest, then in order, after the last the first."""
    m = heaviest + turn
    return m - source.n_members if m >= source.n_members else m


@inlined
def next_member(source, weights, first, stop, turn, memory, zero):
    """Which member's turn it is, where it begins after its instance does, and its weight.

    Where instances have weights of their own, each lane has a member of its own: then the addresses
    of these are found, and the member is -1.
    """
    if weights.instance_stride == 0:
        m = _after(source, integer_at(weights.heaviest, zero), turn)
        w = number_at(weights.address + m * weights.member_stride, zero)
        return m, m * source.member_stride, fill(zero, w)
    for lane in range(n_lanes(zero)):
        n = min(first + lane, stop - 1) if source.side_by_side else first
        m = _after(source, integer_at(weights.heaviest + 8 * n, zero), turn)
        place = weights.address + n * weights.instance_stride + m * weights.member_stride
        put(memory.lanes + lane * (BYTES // n_lanes(zero)), number_at(place, zero))
        address = source.address + n * source.instance_stride + m * source.member_stride
        put(memory.addresses + 8 * lane, address)
    put(memory.copied, 0)
    put(memory.copied + 8, 0)
    return -1, 0, load(memory.lanes, zero)


@inlined
def _fetch(source, member, offset, full, memory, zero):
    """A member where it lies, if vectors can be read there, else a copy; and whether it is one.

    Lanes without a class are 0, or -inf among logits.
    """
    lanes = n_lanes(zero)
    size = BYTES // lanes
    stride, k = source.class_stride, source.n_classes
    start, one = integer_at(memory.addresses, zero) + offset, fill(zero, 1.0)
    if not source.side_by_side:
        last = (source.n_vectors - 1) * BYTES  # softmax writes over the others while it reads
        rest = k - (source.n_vectors - 1) * lanes
        none = -np.inf if source.kind == LOGITS else 0.0
        store(memory.member + last, load_some(start + last, rest, fill(zero, none)))
        return Row(start, BYTES, memory.member + last, source.member_stride, one), False
    if full and member >= 0 and source.instance_stride == size:
        return Row(start, stride, start + (k - 1) * stride, source.member_stride, one), False
    if stride == size:
        return _transposed(source, member, offset, memory, zero), True
    for lane in range(lanes):
        address = integer_at(memory.addresses + 8 * lane, zero) + offset
        for r in range(k):
            place = memory.member + r * BYTES + lane * size
            put(place, number_at(address + r * stride, zero))
    return row_at(source, memory.member, one), True


@inlined
def _transposed(source, member, offset, memory, zero):
    """A copy of classes that lie one after the other; members of few are copied several at once."""
    lanes = n_lanes(zero)
    size = BYTES // lanes
    k = source.n_classes
    first, after = integer_at(memory.copied, zero), integer_at(memory.copied + 8, zero)
    if not first <= member < after:
        even = member >= 0 and source.member_stride == k * size
        count = max(1, min(lanes // k, source.n_members - member)) if even else 1
        first = member
        put(memory.copied, first)
        put(memory.copied + 8, first + count)
        for lane in range(lanes):
            ahead = integer_at(memory.addresses + 8 * lane, zero) + lanes * source.instance_stride
            prefetch(ahead + offset)
            if count * k * size > BYTES:  # the processor itself sees what follows
                prefetch(ahead + offset + BYTES)
        for r in range(0, count * k, lanes):
            n = min(lanes, count * k - r)
            transpose(memory.addresses, offset + r * size, n, memory.member + r * BYTES, zero)
    return row_at(source, memory.member + (member - first) * k * BYTES, fill(zero, 1.0))


@inlined
def read(source, member, offset, full, memory, zero):
    """Probabilities of the member whose turn it is, which lanes can be so; of logits, Σp·log p."""
    row, is_copy = _fetch(source, member, offset, full, memory, zero)
    if source.kind == LOGITS:
        copy = row.address if is_copy else memory.member
        whole, negative = _exponentials(source, row, copy, zero)
        return row_at(source, copy, 1.0 / whole), whole < np.inf, negative
    if source.kind == MASSES:
        whole, low = _sum_and_least(source, row, zero)
        share = 1.0 / whole  # infinite for tiny masses, which the array path can divide
        good = (whole > 0.0) & (share > 0.0) & (share < np.inf) & (low >= 0.0)
        return Row(row.address, row.step, row.last, row.ahead, share), good, widen(zero)
    return row, zero == 0.0, widen(zero)


@inlined
def _exponentials(source, row, copy, zero):
    """Exponentials of logits to where the copy is to be, their sum, and Σp·log p.

    The sum is NaN where some logit is NaN or +inf, or all are -inf. With e = exp(z − max z) and
    S = Σe, log p is z − max z − log S: no logarithms of single classes are needed.
    """
    top = vector(source, row, 0, zero)
    for r in range(1, source.n_vectors):
        top = maximum(top, vector(source, row, r, zero))
        prefetch(row.address + r * row.step + row.ahead)
    top = across_max(source, top)
    total, weighted = widen(zero), widen(zero)
    for start in range(0, source.n_vectors, LONG_BLOCK):
        part_total, part_weighted = zero, zero
        for r in range(start, min(start + LONG_BLOCK, source.n_vectors)):
            z = vector(source, row, r, zero) - top
            e = exp(z)
            store(copy + r * BYTES, e)
            part_total = part_total + e
            part_weighted = multiply_add(e, where(e > 0.0, z, 0.0), part_weighted)
        total, weighted = total + widen(part_total), weighted + widen(part_weighted)
    total = across_sum(source, total)
    log_total = widen(log1p(narrow(total - 1.0, zero)))
    return narrow(total, zero), across_sum(source, weighted) / total - log_total


@inlined
def _sum_and_least(source, row, zero):
    """The sum and the least of masses."""
    total = widen(zero)
    low = vector(source, row, 0, zero)
    for start in range(0, source.n_vectors, LONG_BLOCK):
        part = zero
        for r in range(start, min(start + LONG_BLOCK, source.n_vectors)):
            p = vector(source, row, r, zero)
            part = part + p
            low = minimum(low, p)
        total = total + widen(part)
    return narrow(across_sum(source, total), zero), across_min(source, low)


@inlined
def silence(source, row, w, memory, zero):
    """A copy of a member in which lanes without weight say what the anchor says, not even NaN."""
    for r in range(source.n_vectors):
        anchor = load(memory.anchor + r * BYTES, zero)
        silent = where(w > 0.0, vector(source, row, r, zero), anchor)
        store(memory.silent + r * BYTES, silent)
    return row_at(source, memory.silent, fill(zero, 1.0))
