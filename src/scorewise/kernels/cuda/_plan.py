"""How members are laid over blocks, warps and lanes, for which the kernel is compiled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_CLASSES_IN_REGISTERS = 16  # of a row, that a lane has at most
_MOST_CLASS_LANES = 2  # beyond which blocks are faster
_MOST_LANES_OF_CHANGED = 8  # the same for rows that change
_WARPS = (4, 2)  # of a block, where warps work alone
_WARP_TILE = 8 << 10  # bytes of members that such a warp works on best
_LARGEST_WARP_TILE = 16 << 10

_TILE = 32 << 10  # bytes of members that a block works on best
_MOST_WARPS = 16
_MOST_INSTANCES = 32
_CLASSES_OF_LANE = 64  # of a row in shared memory
_CLASSES_IN_OWN_REGISTERS = 32  # of a row that changes, as in native/block_tiles.cuh
_VALUE, _TOTALS = 4, 2  # bytes of a value; numbers of an instance besides three of each rule
_SHARED, _THREADS = 228 << 10, 1024  # bytes, and threads with 64 registers, of a processor
_REGISTERS = 1 << 16  # of a processor
_BANKS = 32  # of shared memory, of 4 bytes each


@dataclass(frozen=True)
class Needs:
    """What a rule needs of shared memory: numbers of a row, rules, and columns of an instance.

    As many warps that work alone run as shared memory allows, if threads have at least so many
    registers.
    """

    values: int
    rules: int
    columns: int
    registers: int = 168


@dataclass(frozen=True)
class MemoryLayout:
    """Members ``(N, M, K)`` in memory; strides are in numbers."""

    shape: tuple[int, int, int]
    strides: tuple[int, int, int]
    address: int  # in numbers, of which only the alignment counts
    n_bytes: int  # of a number

    @property
    def is_by_instance(self) -> bool:
        """Whether the members of an instance are closer to each other than its neighbours."""
        (_, m, _), (instance, member, _) = self.shape, self.strides
        return m == 1 or abs(member) <= abs(instance)

    @property
    def order(self) -> str:
        """What follows what in memory, as native/prelude.cuh calls it."""
        (n, m, k), (instance, member, of_class) = self.shape, self.strides
        if of_class == 1 and (m == 1 or member == k) and (n == 1 or instance == m * k):
            return "BY_INSTANCE"
        return "BY_MEMBER" if of_class == 1 and instance == k else "APART"

    def copied_together(self, *starts: int) -> int:
        """Return how many numbers are copied at once, up to 16 bytes, all of them aligned.

        Pieces start at multiples of ``starts``.
        """
        if self.strides[2] != 1:
            return 1
        return math.gcd(16 // self.n_bytes, self.address, *starts)


@dataclass(frozen=True)
class TilePlan:
    """The numbers of one launch; ``constants`` are compiled in."""

    n_blocks: int  # that have work
    n_threads: int
    n_bytes: int  # of shared memory of a block
    instances: int
    stage: int
    tile: int  # numbers of a warp's
    spacing: int
    row_spacing: int
    rows: int  # by which rows are divided
    pieces: int
    is_of_warps: bool  # whether each warp has a tile of its own
    constants: tuple[tuple[str, object], ...]


@lru_cache
def plan_of(
    layout: MemoryLayout,
    needs: Needs,
    most_bytes: int,
    has_own_weights: bool = False,
    changes_rows: bool = False,
) -> TilePlan | None:
    """Return the plan of a launch; None if a member has too many classes for shared memory.

    Lanes that change rows, as from logits to probabilities, have them in registers meanwhile.
    """
    plan = _plan_of_warps(layout, needs, has_own_weights, changes_rows)
    if plan is not None and plan.n_bytes <= most_bytes:
        return plan
    return _plan_of_blocks(layout, needs, most_bytes, changes_rows)


# -- small instances: a warp has a tile, of which a lane has some classes of some members ----------


def _plan_of_warps(
    layout: MemoryLayout, needs: Needs, has_own_weights: bool, changes_rows: bool
) -> TilePlan | None:
    n, m, k = layout.shape
    class_lanes = 1
    while k > _CLASSES_IN_REGISTERS * class_lanes:
        class_lanes *= 2
    most_lanes = _MOST_LANES_OF_CHANGED if changes_rows else _MOST_CLASS_LANES
    if class_lanes > most_lanes or m * k * layout.n_bytes > _LARGEST_WARP_TILE:
        return None
    lanes = class_lanes
    while lanes < min(32, m * class_lanes) and 32 // lanes * m * k * layout.n_bytes > _WARP_TILE:
        lanes *= 2
    # one more choice of lanes may read shared memory with fewer conflicts
    choices = [_best_reading(layout, x, class_lanes) for x in (lanes, 2 * lanes) if x <= 32]
    _, lanes, spacing, row_spacing, read = min(choices)
    instances, order = 32 // lanes, layout.order
    starts: tuple[int, ...]
    match order:
        case "BY_INSTANCE":
            starts = (m * k, spacing) if spacing > m * k else (instances * m * k,)
        case "BY_MEMBER":
            starts = (instances * k, layout.strides[1])
        case _:
            starts = (k, spacing, row_spacing, *layout.strides[:2])
    together = layout.copied_together(*starts)
    constants = {
        "N_CLASSES": k,
        "CLASS_LANES": class_lanes,
        "INSTANCE_LANES": lanes,
        "READ": read,
        "COPY": together,
        "ORDER": order,
    }
    tile = _rounded(max(instances * spacing, m * row_spacing), 16 // layout.n_bytes)
    n_bytes = 2 * (tile * layout.n_bytes + has_own_weights * instances * m * _VALUE)
    n_warps = max(_WARPS, key=lambda warps: (warps * _blocks_that_fit(warps * n_bytes), warps))
    n_threads = 32 * n_warps
    most_blocks = _REGISTERS // (needs.registers * n_threads)
    constants["MOST_THREADS"] = n_threads
    constants["LEAST_BLOCKS"] = min(_blocks_that_fit(n_warps * n_bytes), most_blocks)
    return TilePlan(
        n_blocks=-(-n // (instances * n_warps)),
        n_threads=n_threads,
        n_bytes=n_warps * n_bytes,
        instances=instances,
        stage=m,
        tile=tile,
        spacing=spacing,
        row_spacing=row_spacing,
        rows=m,
        pieces=max(1, m * k // together),
        is_of_warps=True,
        constants=tuple(constants.items()),
    )


class _Reading(NamedTuple):
    """How lanes read rows from shared memory; the least cost comes first."""

    cost: float
    lanes: int  # of an instance
    spacing: int
    row_spacing: int
    read: int  # numbers at once


def _best_reading(layout: MemoryLayout, lanes: int, class_lanes: int) -> _Reading:
    """Return how so many lanes for an instance read best."""
    m = layout.shape[1]
    member_lanes = lanes // class_lanes
    idle = -(-m // member_lanes) * member_lanes / m
    readings = []
    for spacing, row_spacing in _spacings(layout, lanes):
        read = _read_at_once(layout, spacing, class_lanes)
        conflicts = _wavefronts(layout, lanes, class_lanes, spacing, row_spacing, read) / read
        readings.append(_Reading(idle * (conflicts + 1), lanes, spacing, row_spacing, read))
    return min(readings)


def _spacings(layout: MemoryLayout, lanes: int) -> Iterator[tuple[int, int]]:
    """Yield distances of instances and of their rows in shared memory."""
    _, m, k = layout.shape
    size, step = m * k, 16 // layout.n_bytes
    if layout.order == "BY_MEMBER":
        yield k, 32 // lanes * k
        return
    for pad in [0, *range(step - size % step, 9 * step, step)]:
        yield size + pad, k


def _read_at_once(layout: MemoryLayout, spacing: int, class_lanes: int) -> int:
    """Return how many numbers of a row a lane reads at once, so that it has few idle places."""
    k = layout.shape[2]
    aligned = math.gcd(k, spacing, 16 // max(layout.n_bytes, 4))

    def places(read: int) -> int:
        return -(-k // (read * class_lanes)) * read

    return min((x for x in (4, 2, 1) if aligned % x == 0), key=places)


def _wavefronts(
    layout: MemoryLayout, lanes: int, class_lanes: int, spacing: int, row_spacing: int, read: int
) -> int:
    """Return how often shared memory answers while a warp reads the first numbers of its rows."""
    n_bytes, total = layout.n_bytes, 0
    at_once = max(1, min(32, 128 // (read * n_bytes)))  # lanes
    for first in range(0, 32, at_once):
        words: dict[int, set[int]] = {}
        for lane in range(first, first + at_once):
            row = lane // lanes * spacing + lane % lanes // class_lanes * row_spacing
            start = (row + lane % class_lanes * read) * n_bytes
            for word in range(start // 4, (start + read * n_bytes - 1) // 4 + 1):
                words.setdefault(word % _BANKS, set()).add(word)
        total += max(map(len, words.values()))
    return total


# -- large instances: a block has a tile, of which some lanes share a row --------------------------


def _plan_of_blocks(
    layout: MemoryLayout, needs: Needs, most_bytes: int, changes_rows: bool
) -> TilePlan | None:
    n, m, k = layout.shape
    lanes = _row_lanes(k, _CLASSES_IN_OWN_REGISTERS if changes_rows else _CLASSES_OF_LANE)
    rows_per_warp = 32 // lanes
    row_spacing = _row_spacing(k, lanes) if changes_rows else k

    def n_bytes(instances: int, stage: int) -> int:
        rows = _rounded(instances * stage, rows_per_warp)
        columns = max(needs.columns, int(stage < m))
        numbers = (
            rows * needs.values,
            instances * needs.values,
            instances * (3 * needs.rules + _TOTALS),
            rows * row_spacing,
            *[instances * k] * (1 + columns),
        )
        return sum(_rounded(_VALUE * x, 16) for x in numbers)

    instances = max(1, min(_TILE // (_VALUE * m * k), _MOST_INSTANCES, n))
    instances = _for_alignment(instances, m * k, layout.n_bytes) if instances < n else instances
    while instances > 1 and n_bytes(instances, m) > most_bytes:
        instances //= 2
    stage = m
    if n_bytes(instances, stage) > most_bytes:
        stage = _largest(lambda rows: n_bytes(1, rows) <= most_bytes, m)
        if stage == 0:
            return None
        instances, stage = 1, stage - stage % 4 if stage > 4 else stage
    n_warps = _warps(-(-instances * stage // rows_per_warp))
    order = "BY_INSTANCE" if layout.order == "BY_INSTANCE" else "APART"
    starts: tuple[int, ...] = (instances * m * k, stage * k, rows_per_warp * k)
    if order == "APART":
        starts = (k, *layout.strides[:2])
    elif row_spacing != k:
        starts = (k, row_spacing)
    constants = {
        "N_CLASSES": k,
        "CLASS_LANES": 0,
        "ROW_LANES": lanes,
        "ROW_SPACING": row_spacing,
        "TOTAL_LANES": min(32, max(4, 1 << max(0, (k // 4).bit_length() - 1))),
        "COPY": layout.copied_together(*starts),
        "ORDER": order,
        "HAS_STAGES": int(stage < m),
        "MOST_THREADS": 32 * n_warps,
        "LEAST_BLOCKS": _blocks_of_processor(n_bytes(instances, stage), 32 * n_warps),
    }
    return TilePlan(
        n_blocks=-(-n // instances),
        n_threads=32 * n_warps,
        n_bytes=n_bytes(instances, stage),
        instances=instances,
        stage=stage,
        tile=instances * stage * row_spacing,
        spacing=stage * row_spacing,
        row_spacing=row_spacing,
        rows=stage,
        pieces=1,
        is_of_warps=False,
        constants=tuple(constants.items()),
    )


def _row_spacing(n_classes: int, lanes: int) -> int:
    """Return from where to where rows of some lanes are, so that at most two read the same bank."""
    read = math.gcd(n_classes, 4)  # numbers at once
    at_once = 32 // read  # lanes

    def conflicts(spacing: int) -> int:
        starts = [i // lanes * spacing + i % lanes * read for i in range(at_once)]
        banks = [(start + j) % _BANKS for start in starts for j in range(read)]
        return max(map(banks.count, banks))

    candidates = range(n_classes, n_classes + _BANKS, read)
    return min(candidates, key=lambda spacing: max(conflicts(spacing), 2))


def _blocks_of_processor(n_bytes: int, n_threads: int) -> int:
    """Return how many blocks a processor has shared memory and enough registers for."""
    return max(1, min(_blocks_that_fit(n_bytes), _THREADS // n_threads))


def _blocks_that_fit(n_bytes: int) -> int:
    """Return for how many blocks a processor has shared memory."""
    return _SHARED // (n_bytes + 1024)


def _row_lanes(n_classes: int, of_lane: int) -> int:
    """Return how many lanes of a warp share a row, of which each has at most so many classes."""
    return min(32, 1 << max(0, math.ceil(math.log2(n_classes / of_lane))))


def _warps(n_chunks: int) -> int:
    """Return how many warps of a block take its chunks of rows in as few and as full rounds."""
    if n_chunks <= _MOST_WARPS:
        return max(1, n_chunks)
    return min(range(_MOST_WARPS, _MOST_WARPS // 2, -1), key=lambda w: (-n_chunks % w) / n_chunks)


def _for_alignment(instances: int, size: int, n_bytes: int) -> int:
    """Return at most so many instances, of which blocks start at aligned addresses if they can."""
    step = (16 // n_bytes) // math.gcd(16 // n_bytes, size)
    return max(instances - instances % step, 1)


def _largest(fits: object, most: int) -> int:
    """Return the largest number up to ``most`` that fits, 0 if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)  # type: ignore[operator]
    return low


def _rounded(n: int, step: int) -> int:
    return n + -n % step
