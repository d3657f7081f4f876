"""From NumPy arrays to the fused pass: addresses, scratch memory, tasks for threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from scorewise._threads import get_num_threads
from scorewise.kernels.cpu._loading import load
from scorewise.kernels.cpu._records import (
    BYTES,
    Memory,
    Output,
    Powers,
    Source,
    Span,
    Wanted,
    Weights,
)

# Up to so many classes instances are laid side by side (measured), by the size of a number.
_FEW_CLASSES = {4: 224, 8: 80}
_CHUNK = 1 << 19  # numbers that are worth handing to a thread
_CHUNKS_PER_THREAD = 8


@dataclass(frozen=True)
class Job:
    """What is asked of all pieces of an array."""

    kind: int  # PROBABILITIES, LOGITS or MASSES
    tolerance: float  # how far sums may be from 1; negative to check nothing
    wanted: Wanted
    powers: np.ndarray  # (P, 2)

    def tasks(
        self, members: np.ndarray, shares: np.ndarray, results: np.ndarray
    ) -> list[Callable[[], bool]]:
        """To decompose members (N, M, K) with shares (N or 1, M or 1) into results (parts, N).

        A task comes out false if some of its members are no predictions.
        """
        fused = load(str(members.dtype))
        n, m, k = members.shape
        lanes = BYTES // members.itemsize
        even = members.strides[-1] == members.itemsize
        side_by_side = not even or k <= _FEW_CLASSES[members.itemsize]
        n_vectors = k if side_by_side else -(-k // lanes)
        to_instance, to_member, to_class = members.strides
        heaviest = shares.argmax(axis=-1)
        # strides of 0 give all instances, or members, the same weight
        by_instance, by_member = np.where(np.array(shares.shape) > 1, shares.strides, 0).tolist()
        records = (
            Source(
                _address(members),
                to_instance,
                to_member,
                to_class,
                m,
                k,
                n_vectors,
                self.kind,
                int(side_by_side),
            ),
            Weights(_address(shares), by_instance, by_member, _address(heaviest)),
            self.wanted,
            Powers(_address(self.powers), len(self.powers)),
            Output(_address(results), results.strides[0], results.strides[1]),
        )
        arrays = members, shares, heaviest, results, self.powers  # live as long as a task does

        def task(start: int, stop: int, alive: Any = arrays) -> bool:
            scratch, memory = _scratch(n_vectors, lanes, len(self.powers))
            good = fused(self.tolerance, *records, memory, Span(start, stop))
            del scratch  # not before the work is done
            return good

        parts = max(1, min(get_num_threads() * _CHUNKS_PER_THREAD, members.size // _CHUNK))
        step = -(-n // parts)
        step += -step % (lanes if side_by_side else 1)
        return [partial(task, i, min(i + step, n)) for i in range(0, n, step)]


def _scratch(n_vectors: int, lanes: int, n_powers: int) -> tuple[np.ndarray, Memory]:
    """Memory for the instances at hand, and addresses in it."""
    row, wide = n_vectors * BYTES, lanes * 8
    sizes = Memory(
        member=row + lanes * BYTES,  # a transposed block may reach beyond the last vector
        anchor=row,
        silent=row,
        mean=row,
        sums=row,
        wide_sums=n_vectors * wide,
        lost=n_vectors * wide,
        lanes=BYTES,
        addresses=lanes * 8,
        copied=16,
        aleatoric=n_powers * wide,
        epistemic=n_powers * wide,
    )
    array = np.empty(sum(sizes) + BYTES, dtype=np.uint8)
    start = -(-_address(array) // BYTES) * BYTES
    return array, Memory(*(start + sum(sizes[:i]) for i in range(len(sizes))))


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
