"""Chunks of instances, which threads compute at the same time."""

from __future__ import annotations

LANE_BLOCK = 16  # the most instances that the kernel takes at a time; as in native/dispatch.hpp
_CHUNKS_PER_THREAD = 8


def chunks(
    n: int, n_numbers: int, numbers_per_chunk: int, n_threads: int, first: int = 0
) -> list[tuple[int, int]]:
    """Return ranges of n instances with so many numbers, each worth handing to a thread.

    Two of them never have the same block of LANE_BLOCK instances, which are counted from ``first``.
    """
    n_chunks = max(1, min(n_numbers // numbers_per_chunk, n_threads * _CHUNKS_PER_THREAD))
    if n_chunks > n_threads:
        n_chunks += -n_chunks % n_threads  # as many for each thread
    step = rounded_up(-(-n // n_chunks))
    stops = [*range(step - first % LANE_BLOCK, n, step), n] if n else []
    return list(zip([0, *stops], stops, strict=False))


def rounded_up(n: int) -> int:
    """Return the number of instances, or of classes, in whole blocks."""
    return n + -n % LANE_BLOCK
