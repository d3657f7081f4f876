"""Sums over the classes of one prediction."""

from __future__ import annotations

from typing import Any, NamedTuple

from scorewise.kernels.cpu._functions import inlined, log, log1p, minimum, positive
from scorewise.kernels.cpu._memory import load, prefetch, store
from scorewise.kernels.cpu._reading import across_max, across_sum, vector
from scorewise.kernels.cpu._records import BLOCK, BYTES
from scorewise.kernels.cpu._vectors import (
    from_bits,
    multiply_add,
    narrow,
    sqrt,
    to_bits,
    where,
    widen,
)


class Tally(NamedTuple):
    """Sums over the classes of one prediction p, an instance's in each of its lanes.

    All but the largest are in float64.
    """

    top: Any  # max p
    total: Any  # Σp
    squares: Any  # Σp²
    gini: Any  # (Σp)² − Σp²
    negative: Any  # Σp·log p
    nonnegative: Any


@inlined
def _gathered(whole, lost, part):
    """A sum and what it has lost to rounding, with one more part.

    Many small entries beside a large one, or many equal ones, would else add up to less.
    """
    wide = widen(part)
    new = whole + wide
    return new, lost + (wide - (new - whole))


@inlined
def tally(source, row, anchor, shift, w, with_log, zero):
    """Sum over the classes of one member, and add w·(p − anchor) to the shift."""
    none = widen(zero)
    total, squares, doubt, negative = none, none, none, none
    lost_total, lost_squares, lost_negative = none, none, none
    # Bits of numbers that are not negative are ordered as these are, and cheaper to compare.
    top = to_bits(zero)
    signs = top
    for start in range(0, source.n_vectors, BLOCK):
        part_total, part_squares, part_doubt, part_negative = zero, zero, zero, zero
        for r in range(start, min(start + BLOCK, source.n_vectors)):
            p = vector(source, row, r, zero)
            prefetch(row.address + r * row.step + row.ahead)
            moved = load(shift + r * BYTES, zero)
            store(shift + r * BYTES, multiply_add(w, p - load(anchor + r * BYTES, zero), moved))
            bits = to_bits(p)
            signs = signs | bits
            top = where(bits > top, bits, top)
            part_total = part_total + p
            part_squares = multiply_add(p, p, part_squares)
            part_doubt = multiply_add(p, 1.0 - p, part_doubt)  # digits that 1 − Σp² would lose
            if with_log:
                part_negative = multiply_add(p, log(p), part_negative)
        total, lost_total = _gathered(total, lost_total, part_total)
        squares, lost_squares = _gathered(squares, lost_squares, part_squares)
        negative, lost_negative = _gathered(negative, lost_negative, part_negative)
        doubt = doubt + widen(part_doubt)
    total = across_sum(source, total) + across_sum(source, lost_total)
    return Tally(
        across_max(source, from_bits(top)),
        total,
        across_sum(source, squares + lost_squares),
        positive(multiply_add(total, total - 1.0, across_sum(source, doubt))),
        across_sum(source, negative + lost_negative),
        signs >= 0,
    )


@inlined
def surprise_of(total, negative, zero):
    """−Σp·log(p/Σp) from Σp and Σp·log p."""
    beyond = narrow(total - 1.0, zero)  # with all digits of what is more than 1
    return positive(widen((beyond + 1.0) * log1p(beyond)) - negative)


@inlined
def nonnegative(source, row, zero):
    """Which lanes have no entry below 0: what has the sign of one may be -0.0."""
    low = zero
    for r in range(source.n_vectors):
        low = minimum(low, vector(source, row, r, zero))
    return low >= 0.0


@inlined
def norm_of(t, zero):
    """‖p‖, in float64."""
    return widen(sqrt(narrow(t.squares, zero)))
