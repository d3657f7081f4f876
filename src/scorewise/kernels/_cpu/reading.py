"""Members as the kernel reads them: a few instances side by side, or one instance at a time.

A vector holds one class of as many instances as it has lanes (*side by side*, for few classes), or
as many classes of one instance. Loops over a member's vectors are the same for both; only what they
gathered in lanes must then be combined *across* the lanes of the one instance.

``zero`` is always a vector of zeros, from which the dtype is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorewise.kernels._cpu.functions import exp, inlined, maximum, minimum
from scorewise.kernels._cpu.memory import (
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
from scorewise.kernels._cpu.records import BYTES, LOGITS, PROBABILITIES
from scorewise.kernels._cpu.vectors import fill, max_lanes, min_lanes, sum_lanes


class Row(NamedTuple):
    """Where the vectors of one member lie: ``step`` bytes apart, the last one anywhere."""

    address: int
    step: int
    last: int


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
    return load(row.last if r == source.n_vectors - 1 else row.address + r * row.step, zero)


@inlined
def row_at(source, address):
    """A member whose vectors lie one after the other."""
    return Row(address, BYTES, address + (source.n_vectors - 1) * BYTES)


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
    start = integer_at(memory.addresses, zero) + offset
    if not source.side_by_side:
        last = (source.n_vectors - 1) * BYTES  # softmax writes over the others while it reads
        rest = k - (source.n_vectors - 1) * lanes
        none = -np.inf if source.kind == LOGITS else 0.0
        store(memory.member + last, load_some(start + last, rest, fill(zero, none)))
        return Row(start, BYTES, memory.member + last), False
    if full and member >= 0 and source.instance_stride == size:
        return Row(start, stride, start + (k - 1) * stride), False
    if stride == size:
        return _transposed(source, member, offset, memory, zero), True
    for lane in range(lanes):
        address = integer_at(memory.addresses + 8 * lane, zero) + offset
        for r in range(k):
            place = memory.member + r * BYTES + lane * size
            put(place, number_at(address + r * stride, zero))
    return row_at(source, memory.member), True


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
            address = integer_at(memory.addresses + 8 * lane, zero)
            prefetch(address + offset + lanes * source.instance_stride)
        for r in range(0, count * k, lanes):
            n = min(lanes, count * k - r)
            transpose(memory.addresses, offset + r * size, n, memory.member + r * BYTES, zero)
    return row_at(source, memory.member + (member - first) * k * BYTES)


@inlined
def read(source, member, offset, full, memory, zero):
    """Probabilities of the member whose turn it is, and which lanes can be so."""
    row, is_copy = _fetch(source, member, offset, full, memory, zero)
    if source.kind == PROBABILITIES:
        return row, zero == 0.0
    copy = row_at(source, row.address if is_copy else memory.member)
    if source.kind == LOGITS:
        return copy, _softmax(source, row, copy, zero)
    return copy, _normalize(source, row, copy, zero)


@inlined
def _softmax(source, row, copy, zero):
    """Put probabilities of logits into the copy; which lanes had no NaN, no +inf, not only -inf."""
    top = vector(source, row, 0, zero)
    for r in range(1, source.n_vectors):
        top = maximum(top, vector(source, row, r, zero))
    top = across_max(source, top)
    total = zero
    for r in range(source.n_vectors):
        e = exp(vector(source, row, r, zero) - top)
        store(copy.address + r * BYTES, e)
        total = total + e
    total = across_sum(source, total)
    for r in range(source.n_vectors):
        place = copy.address + r * BYTES
        store(place, load(place, zero) / total)
    return total < np.inf


@inlined
def _normalize(source, row, copy, zero):
    """Put masses divided by their sum into the copy; which lanes could be divided."""
    total = zero
    low = vector(source, row, 0, zero)
    for r in range(source.n_vectors):
        p = vector(source, row, r, zero)
        total = total + p
        low = minimum(low, p)
    total = across_sum(source, total)
    for r in range(source.n_vectors):
        store(copy.address + r * BYTES, vector(source, row, r, zero) / total)
    return (total > 0.0) & (total < np.inf) & (across_min(source, low) >= 0.0)
