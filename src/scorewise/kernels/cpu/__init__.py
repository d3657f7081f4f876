"""The CPU kernel: a single pass over members in host memory computes all components of all rules.

The other modules of this folder are the compiled code. This one decides what the kernel can do, and
turns arrays of any library and layout into pieces (N, M, K) for it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from scorewise._array import (
    Array,
    as_dtype_of,
    dtype_name,
    host_view,
    in_host_memory,
    is_array,
    namespace,
    to_numpy,
    working_precision,
)
from scorewise._inputs import RawPredictions
from scorewise._threads import get_num_threads, run_in_threads
from scorewise._validate import SUM_TOLERANCE
from scorewise.errors import InvalidInput
from scorewise.kernels._kernel import JackknifeOptions, Usability
from scorewise.rules import Brier, Log, Pseudospherical, ScoringRule, Spherical, Tsallis, ZeroOne

if TYPE_CHECKING:
    from scorewise.kernels.cpu._launching import Job

# Below this size the array path is done before compiled code is loaded (measured).
SMALLEST = 1 << 18

_SLAB = 1 << 22  # numbers that are widened from half precision, or copied, at a time
_MANY_PIECES = 1000  # passed to the threads at a time

_MANY_STRIDED = 1 << 11  # classes, whose scratch memory side by side would not fit a cache
_MOST_CLASSES = 1 << 18  # that float32 sums with digits to spare
_LARGEST_POWER = 300  # the largest power of a rule that keeps enough digits in float32

_SIMPLE = (Log, Brier, ZeroOne, Spherical)  # in the order of Wanted


def is_usable(raw: RawPredictions, weights: Any) -> Usability:
    """Return whether the members are many and in host memory."""
    shape = raw.values.shape
    size = math.prod(shape)
    arrays = [x for x in (raw.values, weights) if is_array(x)]
    if not all(in_host_memory(x) for x in arrays):
        return Usability(False, "an array is lazy, traced, differentiated or not in host memory")
    if size < SMALLEST:
        return Usability(False, f"{size:,} numbers are fewer than {SMALLEST:,}")
    if shape[-1] > _MOST_CLASSES:
        return Usability(False, f"{shape[-1]:,} classes are more than {_MOST_CLASSES:,}")
    problem = _problem("float64" if dtype_name(raw.values) == "float64" else "float32")
    if problem is not None:
        return Usability(False, f"it cannot be compiled: {problem}")
    return Usability(True, f"{size:,} numbers are in host memory")


_FAILED: dict[str, str] = {}  # why compiling failed, by dtype


def _problem(dtype: str) -> str | None:
    """Why there is no compiled code; None if there is."""
    return _FAILED.get(dtype) or _import_problem(dtype)


@cache
def _import_problem(dtype: str) -> str | None:
    """Why nothing can be compiled: Numba may lag behind a new Python or NumPy."""
    try:
        from scorewise.kernels.cpu import _loading as loading

        if loading.kept(dtype) is None:
            import scorewise.kernels.cpu._compiling  # noqa: F401
    except Exception as error:
        return str(error)
    return None


def _can_load(dtype: str) -> bool:
    """Whether compiled code can be loaded or compiled on this processor."""
    from scorewise.kernels.cpu._loading import load

    try:
        load(dtype)
    except Exception as error:
        _FAILED[dtype] = str(error)
        message = "the fused kernel cannot be compiled, so the array path is used: %s"
        logging.getLogger("scorewise").warning(message, error)
    return dtype not in _FAILED


def supports(rule: ScoringRule, jackknife: JackknifeOptions) -> bool:
    """Return whether this is one of six rules, without the jackknife."""
    if jackknife:
        return False
    if isinstance(rule, Tsallis | Pseudospherical):
        return _power(rule) <= _LARGEST_POWER
    return type(rule) in _SIMPLE


def _power(rule: Tsallis | Pseudospherical) -> float:
    return rule.beta if isinstance(rule, Tsallis) else rule.alpha


def compute(
    raw: RawPredictions, weights: Any, rules: Sequence[ScoringRule], jackknife: JackknifeOptions
) -> list[Array] | None:
    """Return the components of each rule; None for invalid predictions or weights."""
    try:
        shares = raw.normalized_weights(weights)
    except InvalidInput:
        return None
    xp = namespace(raw.values)
    batch = raw.values.shape[:-2]
    values = raw.values if batch else raw.values[None, ...]
    like = working_precision(xp, values[..., :1, :1])
    if not _can_load(dtype_name(like)):
        return None
    job, starts = _plan(raw, rules)
    w = np.full(1, 1 / values.shape[-2]) if shares is None else to_numpy(shares)
    w = w.astype(dtype_name(like))
    results = np.empty((3 * len(starts), *values.shape[:-2]), dtype=w.dtype)
    for slab in _slabs(values):
        members = host_view(working_precision(xp, values[slab, ...]))
        own = w[slab] if w.ndim > 1 else w
        pieces = _pieces(members, own, results[:, slab])
        at_once = 1 if _must_be_copied(members) else _MANY_PIECES
        while some := list(islice(pieces, at_once)):
            if not run_in_threads(
                [task for piece in some for task in job.tasks(*piece)], get_num_threads()
            ):
                return None
    parts = [as_dtype_of(xp, part.reshape(batch), like)[()] for part in results]
    return [part for rule in rules for part in parts[starts[rule] : starts[rule] + 3]]


def _plan(raw: RawPredictions, rules: Sequence[ScoringRule]) -> tuple[Job, dict[ScoringRule, int]]:
    """The job of the compiled code, and the index of each rule's first result."""
    from scorewise.kernels.cpu._launching import Job
    from scorewise.kernels.cpu._records import LOGITS, MASSES, PROBABILITIES, Wanted

    simple = [rule for rule in dict.fromkeys(rules) if isinstance(rule, _SIMPLE)]
    others = [r for r in dict.fromkeys(rules) if isinstance(r, Tsallis | Pseudospherical)]
    starts: dict[ScoringRule, int] = {r: 3 * i for i, r in enumerate([*simple, *others])}
    by_type = {type(rule): starts[rule] for rule in simple}
    log, brier, zero_one, spherical = (by_type.get(kind, -1) for kind in _SIMPLE)
    powers = [(_power(rule) - 1, isinstance(rule, Pseudospherical)) for rule in others]
    job = Job(
        kind=LOGITS if raw.from_logits else MASSES if raw.normalize else PROBABILITIES,
        tolerance=SUM_TOLERANCE[dtype_name(raw.values)] if raw.check else -1.0,
        wanted=Wanted(log, brier, zero_one, spherical, powers=3 * len(simple)),
        powers=np.array(powers, dtype=np.float64).reshape(-1, 2),
    )
    return job, starts


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

    Instance axes that are evenly spaced in memory are merged; the others are iterated.
    """
    shape, strides, n_parts = members.shape[:-2], members.strides, len(results)
    breaks = [i for i in range(1, len(shape)) if strides[i - 1] != strides[i] * shape[i]]
    runs = list(pairwise([0, *breaks, len(shape)]))
    first, last = max(runs, key=lambda run: math.prod(shape[slice(*run)]))
    for before in np.ndindex(shape[:first]):
        for after in np.ndindex(shape[last:]):
            here = (*before, *(slice(None),) * (last - first), *after)
            own = weights[here] if weights.ndim > 1 else weights
            piece = members[here].reshape(-1, *members.shape[-2:])
            shares = np.ascontiguousarray(own.reshape(-1, own.shape[-1]))
            yield from _in_rows(piece, shares, results[(slice(None), *here)].reshape(n_parts, -1))


def _must_be_copied(members: np.ndarray) -> bool:
    return members.strides[-1] != members.itemsize and members.shape[-1] > _MANY_STRIDED


def _in_rows(
    members: np.ndarray, shares: np.ndarray, results: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The piece itself; many classes that are not contiguous are copied, a few rows at a time."""
    n, m, k = members.shape
    if not _must_be_copied(members):
        yield members, shares, results
        return
    step = max(1, _SLAB // (m * k))
    for i in range(0, n, step):
        few = slice(i, i + step)
        own = shares[few] if len(shares) > 1 else shares
        yield np.ascontiguousarray(members[few]), own, results[:, few]
