"""One pass over members in host memory: every component of every rule it knows, and the checks.

Compiled code does the work (:mod:`scorewise.kernels._cpu`). Here stands what it can do, and how an
array is split between threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from scorewise._array import (
    Array,
    as_dtype_of,
    dtype_name,
    host_view,
    in_host_memory,
    namespace,
    to_numpy,
    working_precision,
)
from scorewise.errors import InvalidInput
from scorewise.kernels._kernel import Answer, Components
from scorewise.kernels._threads import get_num_threads, run
from scorewise.receive import Unchecked
from scorewise.rules import ScoringRule
from scorewise.rules.logarithmic import Log
from scorewise.rules.norms import Pseudospherical, Spherical
from scorewise.rules.powers import Tsallis
from scorewise.rules.quadratics import Brier
from scorewise.rules.sets import ZeroOne
from scorewise.validate import SUM_TOLERANCE

# Below so many numbers the array path has answered before compiled code is loaded (measured).
SMALLEST = 1 << 21

_CHUNK = 1 << 19  # numbers that are worth handing to a thread
_CHUNKS_PER_THREAD = 8
_SLAB = 1 << 22  # numbers in half precision that are widened at a time

_FEW_CLASSES = 128  # up to which instances are laid side by side (measured)
_MOST_CLASSES = 1 << 18  # that float32 sums with digits to spare
_LARGEST_POWER = 1e4  # of a rule with one

_SIMPLE = (Log, Brier, ZeroOne, Spherical)  # in the order of Wanted


def is_usable(given: Unchecked, weights: Any, rules: Sequence[ScoringRule]) -> Answer:
    """Whether it knows all rules, and these members are many and lie in host memory."""
    shape = given.values.shape
    size = math.prod(shape)
    unknown = next((rule for rule in rules if not _is_known(rule)), None)
    if unknown is not None:
        return Answer(False, f"it does not know {unknown!r}")
    if not in_host_memory(given.values):
        return Answer(False, "the array is lazy, traced, differentiated or not in host memory")
    if size < SMALLEST:
        return Answer(False, f"{size:,} numbers are fewer than {SMALLEST:,}, and soon done")
    if shape[-1] > _MOST_CLASSES:
        return Answer(False, f"{shape[-1]:,} classes are more than {_MOST_CLASSES:,}")
    problem = _import_problem()
    if problem is not None:
        return Answer(False, f"Numba cannot be imported ({problem})")
    return Answer(True, f"it knows all rules, and {size:,} numbers lie in host memory")


@cache
def _import_problem() -> str | None:
    """Why there is no compiled code: Numba may lag behind a new Python or NumPy."""
    try:
        import scorewise.kernels._cpu.fused  # noqa: F401
    except ImportError as error:
        return str(error)
    return None


def _is_known(rule: ScoringRule) -> bool:
    if isinstance(rule, Tsallis | Pseudospherical):
        return _power(rule) <= _LARGEST_POWER
    return isinstance(rule, _SIMPLE)


def _power(rule: Tsallis | Pseudospherical) -> float:
    return rule.beta if isinstance(rule, Tsallis) else rule.alpha


def compute(
    given: Unchecked, weights: Any, rules: Sequence[ScoringRule]
) -> list[Components] | None:
    """The components of each rule; None where predictions or weights are no good."""
    try:
        shares = given.shares(weights)
    except InvalidInput:
        return None
    xp = namespace(given.values)
    batch = given.values.shape[:-2]
    values = given.values if batch else given.values[None, ...]
    like = working_precision(xp, values[..., :1, :1])
    job = _Job.of(given, rules, dtype_name(like))
    w = np.full(1, 1 / values.shape[-2]) if shares is None else to_numpy(shares)
    w = w.astype(job.dtype)
    results = np.empty((job.n_parts, *values.shape[:-2]), dtype=job.dtype)
    for slab in _slabs(values):
        members = host_view(working_precision(xp, values[slab, ...]))
        own = w[slab] if w.ndim > 1 else w
        if not all(job.run(*piece) for piece in _pieces(members, own, results[:, slab])):
            return None
    parts = [as_dtype_of(xp, part.reshape(batch), like)[()] for part in results]
    starts = [job.starts[rule] for rule in rules]
    return [(parts[i], parts[i + 1], parts[i + 2]) for i in starts]


def _slabs(values: Array) -> Iterator[slice]:
    """Parts of the instances: a few at a time where they must be widened, else all."""
    n, size = values.shape[0], math.prod(values.shape)
    half = dtype_name(values) in {"float16", "bfloat16"}
    step = n if not half else max(1, _SLAB * n // max(1, size))
    return (slice(start, start + step) for start in range(0, n if size else 0, max(1, step)))


def _pieces(
    members: np.ndarray, weights: np.ndarray, results: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Views (N, M, K) of members, with their weights (N or 1, M or 1) and results (parts, N).

    Instance axes that lie evenly in memory become one; others are gone through one by one.
    """
    shape, strides = members.shape[:-2], members.strides
    breaks = [i for i in range(1, len(shape)) if strides[i - 1] != strides[i] * shape[i]]
    runs = list(pairwise([0, *breaks, len(shape)]))
    first, last = max(runs, key=lambda run: math.prod(shape[slice(*run)]))
    for before in np.ndindex(shape[:first]):
        for after in np.ndindex(shape[last:]):
            here = (*before, *(slice(None),) * (last - first), *after)
            own = weights[here] if weights.ndim > 1 else weights
            yield (
                members[here].reshape(-1, *members.shape[-2:]),
                np.ascontiguousarray(own.reshape(-1, own.shape[-1])),
                results[(slice(None), *here)].reshape(len(results), -1),
            )


@dataclass(frozen=True)
class _Job:
    """What is the same for all pieces of an array."""

    dtype: str
    starts: dict[ScoringRule, int]  # where the three results of each rule begin
    powers: np.ndarray
    tolerance: float
    kind: int

    @classmethod
    def of(cls, given: Unchecked, rules: Sequence[ScoringRule], dtype: str) -> _Job:
        from scorewise.kernels._cpu.reading import LOGITS, MASSES, PROBABILITIES

        ordered = sorted(dict.fromkeys(rules), key=lambda rule: not isinstance(rule, _SIMPLE))
        powers = [
            (_power(rule) - 1, isinstance(rule, Pseudospherical))
            for rule in ordered
            if isinstance(rule, Tsallis | Pseudospherical)
        ]
        kind = LOGITS if given.from_logits else MASSES if given.normalize else PROBABILITIES
        return cls(
            dtype,
            {rule: 3 * i for i, rule in enumerate(ordered)},
            np.array(powers, dtype=np.float64).reshape(-1, 2),
            SUM_TOLERANCE[dtype_name(given.values)] if given.check else -1.0,
            kind,
        )

    @property
    def n_parts(self) -> int:
        return 3 * len(self.starts)

    def run(self, members: np.ndarray, shares: np.ndarray, results: np.ndarray) -> bool:
        """Fill the results of one piece; False if some of it is no prediction."""
        from scorewise.kernels._cpu.fused import Output, Powers, Wanted
        from scorewise.kernels._cpu.reading import Source, Weights
        from scorewise.kernels._cpu.vectors import BYTES

        fused = _compiled(self.dtype)
        n, m, k = members.shape
        lanes = BYTES // members.itemsize
        side_by_side = k <= _FEW_CLASSES or members.strides[-1] != members.itemsize
        n_vectors = k if side_by_side else -(-k // lanes)
        heaviest = shares.argmax(axis=-1)
        # strides of 0 give all instances, or members, the same weight
        by_instance, by_member = np.where(np.array(shares.shape) > 1, shares.strides, 0).tolist()
        by_type = {type(rule): start for rule, start in self.starts.items()}
        log, brier, zero_one, spherical = (by_type.get(kind, -1) for kind in _SIMPLE)
        to_instance, to_member, to_class = members.strides
        arguments = (
            members.dtype.type(0),
            Source(
                _address(members), to_instance, to_member, to_class, m, k, n_vectors, self.kind,
                side_by_side,
            ),
            Weights(_address(shares), by_instance, by_member, _address(heaviest)),
            Wanted(log, brier, zero_one, spherical, self.n_parts - 3 * len(self.powers)),
            Powers(_address(self.powers), len(self.powers)),
            self.tolerance,
            Output(_address(results), results.strides[0], results.strides[1]),
        )  # fmt: skip
        arrays = members, shares, heaviest, results, self.powers

        def task(start: int, stop: int, alive: Any = arrays) -> bool:
            with _scratch(n_vectors, lanes, len(self.powers)) as memory:
                return bool(fused(*arguments, memory, start, stop))

        threads = get_num_threads()
        parts = max(1, min(threads * _CHUNKS_PER_THREAD, members.size // _CHUNK))
        step = -(-n // parts)
        step += -step % lanes
        return run([partial(task, i, min(i + step, n)) for i in range(0, n, step)], threads)


@contextmanager
def _scratch(n_vectors: int, lanes: int, n_powers: int) -> Iterator[Any]:
    """Memory for the instances at hand."""
    from scorewise.kernels._cpu.reading import Memory
    from scorewise.kernels._cpu.vectors import BYTES

    row, wide = n_vectors * BYTES, lanes * 8
    sizes = Memory(
        member=row + lanes * BYTES,  # a transposed block may reach beyond the last vector
        anchor=row,
        mean=row,
        sums=row,
        wide_sums=n_vectors * wide,
        lanes=BYTES,
        addresses=lanes * 8,
        copied=16,
        aleatoric=n_powers * wide,
        epistemic=n_powers * wide,
    )
    array = np.empty(sum(sizes) + BYTES, dtype=np.uint8)
    start = -(-_address(array) // BYTES) * BYTES
    yield Memory(*(start + sum(sizes[:i]) for i in range(len(sizes))))
    del array  # not before the work is done


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


@cache
def _compiled(dtype: str) -> Any:
    """The fused pass for float32 or float64, ready to run."""
    from scorewise.kernels._cpu.caching import told
    from scorewise.kernels._cpu.fused import Output, Powers, Wanted, fused
    from scorewise.kernels._cpu.reading import Memory, Source, Weights

    nothing = (
        np.dtype(dtype).type(0),
        Source(0, 0, 0, 0, 0, 0, 0, 0, True),
        Weights(0, 0, 0, 0),
        Wanted(0, 0, 0, 0, 0),
        Powers(0, 0),
        0.0,
        Output(0, 0, 0),
        Memory(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    )
    what = f"compiling the fused kernel for {dtype}: once after installation, some ten seconds"
    with told(what), suppress(OSError):  # a full disk keeps only the next process from it
        fused(*nothing, 0, 0)
    return fused
