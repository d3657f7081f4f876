"""The CPU kernel: a single pass over members in host memory computes all components of all rules.

The kernel is C++, in ``native/``, and the compiled module is ``_native``. This module decides what
the kernel can do, and turns arrays of any library and layout into pieces (N, M, K) for it.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Any
from weakref import WeakKeyDictionary

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
from scorewise.errors import InvalidInput
from scorewise.kernels._beta_numbers import two_class_numbers
from scorewise.kernels._kernel import Extras, Usability
from scorewise.kernels.cpu._accumulator_state import State
from scorewise.kernels.cpu._chunks import chunks
from scorewise.kernels.cpu._codes import Code, Extra, NativeRule, kind_and_tolerance
from scorewise.rules import ScoringRule
from scorewise.rules.structures import (
    Costs,
    CumulativeSums,
    LargestClasses,
    Norm,
    QuadraticForm,
    Separable,
    Structure,
    TwoClass,
)

NOT_COMPILED = Usability(
    False,
    "it was not compiled when scorewise was installed; install a wheel, or a C++ compiler (g++ or "
    "clang) and Python's headers, and then scorewise again (make extension in an editable clone)",
)
try:
    _native: Any = importlib.import_module(f"{__name__}._native")
except ModuleNotFoundError:
    _native = None

_USABLE = Usability(True, "the members are in host memory")
_ELSEWHERE = Usability(False, "an array is lazy, traced, differentiated or not in host memory")

_NEAR_ZERO = 0.5  # parameters of beta, with which powers of tiny numbers are far from 0
_LARGEST_POWER = 300  # the largest power of a rule that keeps enough digits in float32

_CHUNK = 1 << 19  # numbers that are worth handing to a thread
MOST_RULES = 64  # that the kernel takes at a time
_MANY_PIECES = 1000  # passed to the threads at a time
_SLAB = 1 << 22  # numbers that are widened from half precision at a time


def is_compiled() -> bool:
    """Return whether the extension is there."""
    return _native is not None


def is_usable(raw: RawPredictions, weights: Any) -> Usability:
    """Return whether the kernel was compiled, and the arrays are in host memory."""
    if _native is None:
        return NOT_COMPILED
    if not in_host_memory(raw.values):
        return _ELSEWHERE
    if weights is not None and is_array(weights) and not in_host_memory(weights):
        return _ELSEWHERE
    return _USABLE


def supports(rule: ScoringRule, extras: Extras) -> bool:
    """Return whether the rule has a structure that the kernel computes."""
    if extras.actions and not isinstance(rule.structure, Costs):
        return False
    if extras.predictor is not None and not in_host_memory(extras.predictor):
        return False
    if (extras.reverse or extras.predictor is not None) and isinstance(rule.structure, TwoClass):
        # Predictions of 0 need its power, and the kernel has that of a tiny number.
        parameters = rule.structure.a, rule.structure.b
        if any(0 < x < _NEAR_ZERO for x in parameters):
            return False
    return rule.structure is not None and _is_computed(rule.structure)


def _is_computed(structure: Structure) -> bool:
    if isinstance(structure, Separable | Norm):
        return structure.power <= _LARGEST_POWER
    if isinstance(structure, TwoClass):
        return two_class_numbers(structure.a, structure.b) is not None
    return isinstance(structure, Costs | LargestClasses | QuadraticForm | CumulativeSums)


def compute(
    raw: RawPredictions, weights: Any, rules: Sequence[ScoringRule], extras: Extras
) -> list[Array] | None:
    """Return the components of the rules; None for invalid predictions or weights."""
    results: list[Array] = []
    for i in range(0, len(rules), MOST_RULES):
        some = _compute(raw, weights, rules[i : i + MOST_RULES], extras)
        if some is None:
            return None
        results += some
    return results


def _compute(
    raw: RawPredictions, weights: Any, rules: Sequence[ScoringRule], extras: Extras
) -> list[Array] | None:
    """As compute, for at most as many rules as the kernel takes at a time."""
    try:
        shares = raw.normalized_weights(weights)
    except InvalidInput:
        return None
    values = raw.values
    xp = namespace(values)
    batch = values.shape[:-2]
    if not batch:
        values = values[None, ...]
    native_rules = tuple(_native_rule(rule, values.shape[-1]) for rule in rules)
    kind, tolerance = kind_and_tolerance(raw)
    flags = (extras.unbiased, extras.standard_errors, extras.reverse, extras.actions)
    code = sum(extra for extra, flag in zip(Extra, flags, strict=True) if flag)
    dtype = np.float64 if dtype_name(values) == "float64" else np.float32
    own_weights = None if shares is None else to_numpy(shares).astype(dtype, copy=False)
    if (
        extras.jackknife
        and own_weights is not None
        and (np.count_nonzero(own_weights, -1) < 2).any()
    ):
        return None
    q = None
    if extras.predictor is not None:
        q = host_view(extras.predictor).reshape(*values.shape[:-2], values.shape[-1])
    results = np.empty((extras.n_components * len(rules), *values.shape[:-2]), dtype)
    for slab in _slabs(values):
        members = host_view(working_precision(xp, values[slab, ...]))
        w = own_weights[slab] if own_weights is not None and own_weights.ndim > 1 else own_weights
        pieces = _pieces(members, w, None if q is None else q[slab], results[:, slab])
        while some := list(islice(pieces, _MANY_PIECES)):
            tasks = [
                task
                for piece in some
                for task in _tasks(*piece, native_rules, kind, tolerance, code)
            ]
            if not run_in_threads(tasks, get_num_threads() if len(tasks) > 1 else 1):
                return None
    # The kernel's softmax has no numbers below the normal ones, of which the array path has some.
    if extras.reverse and raw.from_logits and np.isinf(results).any():
        return None
    if xp is namespace(results):
        return [part.reshape(batch)[()] for part in results]
    like = working_precision(xp, values[..., :1, :1])
    return [as_dtype_of(xp, part.reshape(batch), like) for part in results]


def mean(raw: RawPredictions, weights: Any) -> np.ndarray | None:
    """Return θ̄ ``(..., K)``, averaged in float64; None for invalid predictions or weights."""
    batch, n_classes = raw.values.shape[:-2], raw.values.shape[-1]
    means = np.empty((math.prod(batch), n_classes))
    if not _average(raw, weights, means, None):
        return None
    return means.reshape(*batch, n_classes)


def components_by_class(raw: RawPredictions, weights: Any) -> list[Array] | None:
    """Return TU, AU and EU of each class against the rest, ``(..., K)``; None as for mean."""
    values = raw.values
    xp = namespace(values)
    batch, n_classes = values.shape[:-2], values.shape[-1]
    dtype = np.float64 if dtype_name(values) == "float64" else np.float32
    parts = np.empty((3, math.prod(batch), n_classes), dtype)
    if not _average(raw, weights, None, parts):
        return None
    like = working_precision(xp, values[..., :1, :1])
    shaped = parts.reshape(3, *batch, n_classes)
    return [part if xp is namespace(parts) else as_dtype_of(xp, part, like) for part in shaped]


def _average(
    raw: RawPredictions, weights: Any, means: np.ndarray | None, parts: np.ndarray | None
) -> bool:
    """Write means (N, K) or parts (3, N, K) of members; False if they or weights are invalid."""
    values = raw.values if raw.values.ndim > 2 else raw.values[None, ...]
    kind, tolerance = kind_and_tolerance(raw)
    dtype = np.float64 if dtype_name(values) == "float64" else np.float32
    try:
        shares = raw.normalized_weights(weights)
    except InvalidInput:
        return False
    own_weights = None if shares is None else to_numpy(shares).astype(dtype, copy=False)
    batch = values.shape[:-2]
    rows = np.arange(math.prod(batch)).reshape(1, *batch)  # the row of means or parts
    for slab in _slabs(values):
        members = host_view(working_precision(namespace(values), values[slab, ...]))
        w = own_weights[slab] if own_weights is not None and own_weights.ndim > 1 else own_weights
        for piece, piece_weights, _, own_rows in _pieces(members, w, None, rows[:, slab]):
            first, *others = own_rows[0][:2].tolist()
            here = slice(first, own_rows[0, -1] + 1, others[0] - first if others else 1)
            arrays = (
                piece,
                piece_weights,
                None if means is None else means[here],
                None if parts is None else parts[:, here],
            )
            call = partial(_native.average, *arrays, kind, tolerance)
            tasks = _in_chunks(call, piece)
            if not run_in_threads(tasks, get_num_threads() if len(tasks) > 1 else 1):
                return False
    return True


def new_state(shape: Sequence[int], dtype: str, rules: Sequence[ScoringRule]) -> State:
    """Return the state of an accumulator of members ``(..., K)``, without any member yet."""
    return State(shape, dtype, [_native_rule(rule, shape[-1]) for rule in rules])


# -- rules as the kernel reads them ---------------------------------------------------------------

_native_rules: WeakKeyDictionary[Structure, NativeRule] = WeakKeyDictionary()


def _native_rule(rule: ScoringRule, n_classes: int) -> NativeRule:
    """Return the code, the parameter and the numbers of a rule's structure."""
    structure = rule.structure
    assert structure is not None
    if not structure.fits(n_classes):  # numbers beyond its own would be read
        ScoringRule.check_classes(rule, n_classes)
    if structure not in _native_rules:
        _native_rules[structure] = _translated(structure)
    return _native_rules[structure]


def _translated(structure: Structure) -> NativeRule:
    match structure:
        case Separable(power=1.0, weights=None):
            return Code.LOG, 0.0, None
        case Separable(power=2.0, weights=None):
            return Code.BRIER, 0.0, None
        case Separable(power=power, weights=None):
            return Code.SEPARABLE, power - 1, None
        case Separable(power=power, weights=weights):
            return Code.SEPARABLE, power - 1, np.append(weights, weights.max())
        case Norm(power=2.0):
            return Code.SPHERICAL, 0.0, None
        case Norm(power=power):
            return Code.NORM, power, None
        case LargestClasses(k=1):
            return Code.ZERO_ONE, 0.0, None
        case LargestClasses(k=k):
            return Code.LARGEST, float(k), None
        case Costs(costs=costs):
            least = costs.min(axis=1)
            excess = costs - least[:, None]
            return Code.COSTS, float(costs.shape[1]), np.concatenate([excess.ravel(), least])
        case QuadraticForm(distances=distances, root=root):
            return Code.QUADRATIC, 0.0, np.concatenate([distances.ravel() / 2, root.ravel()])
        case TwoClass(a=a, b=b):
            return Code.TWO_CLASS, 0.0, two_class_numbers(a, b)
        case _:
            return Code.CUMULATIVE, 0.0, None


# -- arrays as the kernel reads them --------------------------------------------------------------

_Piece = tuple[np.ndarray, np.ndarray | None, np.ndarray | None, np.ndarray]


def _slabs(values: Array) -> Iterator[slice]:
    """Yield parts of the instances: a few at a time where they must be widened, else all."""
    n, size = values.shape[0], math.prod(values.shape)
    half = dtype_name(values) in {"float16", "bfloat16"}
    step = n if not half else max(1, _SLAB * n // max(1, size))
    return (slice(start, start + step) for start in range(0, n if size else 0, max(1, step)))


def _pieces(
    members: np.ndarray,
    weights: np.ndarray | None,
    predictor: np.ndarray | None,
    results: np.ndarray,
) -> Iterator[_Piece]:
    """Yield views (N, M, K) of members, with weights (N or 1, M), predictor and results (parts, N).

    Instance axes that are evenly spaced in memory are merged; the others are iterated.
    """
    if weights is not None and weights.ndim == 1:
        weights = weights[None]
    if members.ndim == 3:
        yield members, weights, predictor, results
        return
    shape, strides, n_parts = members.shape[:-2], members.strides, len(results)
    breaks = [i for i in range(1, len(shape)) if strides[i - 1] != strides[i] * shape[i]]
    runs = list(pairwise([0, *breaks, len(shape)]))
    first, last = max(runs, key=lambda run: math.prod(shape[slice(*run)]))
    for before in np.ndindex(shape[:first]):
        for after in np.ndindex(shape[last:]):
            here = (*before, *(slice(None),) * (last - first), *after)
            w = weights
            if w is not None and w.ndim > 2:
                w = w[here].reshape(-1, w.shape[-1])
            piece = members[here].reshape(-1, *members.shape[-2:])
            q = None if predictor is None else predictor[here].reshape(-1, members.shape[-1])
            yield piece, w, q, results[(slice(None), *here)].reshape(n_parts, -1)


def _tasks(
    members: np.ndarray,
    weights: np.ndarray | None,
    predictor: np.ndarray | None,
    results: np.ndarray,
    rules: tuple[NativeRule, ...],
    kind: int,
    tolerance: float,
    extras: int,
) -> list[Callable[[], bool]]:
    """Return calls that decompose a piece; one is false if some members are no predictions."""
    arrays = (members, weights, predictor, results)
    return _in_chunks(partial(_native.decompose, *arrays, rules, kind, tolerance, extras), members)


def _in_chunks(call: Callable[..., bool], members: np.ndarray) -> list[Callable[[], bool]]:
    """Return calls for chunks of instances, from the first to the one after the last."""
    n_threads = get_num_threads() if members.size >= 2 * _CHUNK else 1
    ranges = chunks(len(members), members.size, _CHUNK, n_threads)
    return [partial(call, start, stop) for start, stop in ranges]
