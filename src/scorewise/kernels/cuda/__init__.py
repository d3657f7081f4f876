"""The CUDA kernel: members on an NVIDIA GPU are read once, by CUDA C++ compiled when it is needed.

The kernel is in ``native/``; ``README.md`` explains it. It is compiled for each number of classes
by NVRTC, which comes with torch, in about a second. Arrays of CuPy and JAX are shared with torch
through DLPack, without a copy.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, dtype_name, is_torch, namespace, on_cuda
from scorewise._inputs import RawPredictions
from scorewise.errors import InvalidInput
from scorewise.kernels._kernel import Extras, Usability
from scorewise.kernels.cuda import _launch
from scorewise.kernels.cuda._plan import MemoryLayout, Needs, plan_of
from scorewise.kernels.cuda._rules import (
    Launch,
    derivatives_of_components,
    is_computed,
    launches_for,
    name_of_first_four,
    numbers_of,
)
from scorewise.rules import ScoringRule
from scorewise.rules.structures import Structure

_USABLE = Usability(True, "the members are on an NVIDIA GPU")
_ELSEWHERE = Usability(False, "an array is lazy, traced, differentiated or not on an NVIDIA GPU")
_NO_CUDA = "the libraries of CUDA come with torch, and torch with CUDA is not installed"
_WIDE = Usability(False, "the members are in float64")
_MANY_CLASSES = Usability(False, "a member has too many classes for the GPU's shared memory")

_ELEMENTS = {"float32": ("float", 4), "float16": ("Float16", 2), "bfloat16": ("BFloat16", 2)}
_WEIGHTS = {1: "SHARED_WEIGHTS", 2: "APART_WEIGHTS"}  # by their number of axes
_ALIGNMENT = 64  # of members in bytes, beyond which the plan is the same
_BYTES_OF_CLASS = 20  # of shared memory: a row, its mean and two columns
_GRADIENT_NEEDS = Needs(values=1, rules=5, columns=2, registers=128)
# EU is a difference if it is this part of what is subtracted. Rows of half precision do not sum to
# 1, on which differences depend and divergences do not.
_FAR = {"float32": 0.0075, "float16": 0.02, "bfloat16": 4.0}
_FAR_OF_TWO = 0.003  # float32, for two classes, whose sums have fewer rounding errors

_failures: list[str] = []  # why the kernel cannot run, once that was seen


def is_usable(raw: RawPredictions, weights: Any) -> Usability:
    """Return whether the arrays are on a GPU for which the kernel can be compiled."""
    values = raw.values
    if not on_cuda(values) or (is_torch(weights) and weights.requires_grad):
        return _ELSEWHERE
    if dtype_name(values) not in _ELEMENTS:
        return _WIDE
    if missing := _what_is_missing():
        return Usability(False, missing)
    if _failures:
        return Usability(False, f"the kernel cannot run on this GPU: {_failures[0]}")
    n_bytes = _launch.most_shared_bytes(_as_tensor(values).device)
    if values.shape[-1] > n_bytes // _BYTES_OF_CLASS:
        return _MANY_CLASSES
    return _USABLE


@lru_cache
def _what_is_missing() -> str | None:
    """Return what torch needs to use CUDA, or the kernel to be compiled; None if all is there."""
    if importlib.util.find_spec("torch") is None:
        return _NO_CUDA
    import torch

    if torch.version.cuda is None or not torch.cuda.is_available():
        return _NO_CUDA
    try:
        from cuda.bindings import nvrtc
    except ImportError:  # torch installs it from 2.10 on
        release = torch.version.cuda.split(".")[0]
        return (
            "the package cuda-bindings is missing, by which the kernel is compiled: "
            f"pip install 'cuda-bindings=={release}.*'"
        )
    try:
        status, *_ = nvrtc.nvrtcVersion()
    except RuntimeError as error:
        return f"the compiler NVRTC cannot be loaded: {error}"
    return f"the compiler NVRTC answers {status!r}" if status else None


def supports(rule: ScoringRule, extras: Extras) -> bool:
    """Return whether the rule has a structure that the kernel computes; it computes no extras."""
    return not extras and is_computed(rule.structure)


def compute(
    raw: RawPredictions, weights: Any, rules: Sequence[ScoringRule], extras: Extras
) -> list[Array] | None:
    """Return the components of the rules; None for invalid predictions or weights.

    None, too, with a warning, if the kernel cannot be compiled for this GPU or started on it. With
    ``check=False`` nothing is waited for, so that a CUDA graph can capture a call once its kernels
    are compiled.
    """
    try:
        shares = raw.normalized_weights(weights)
    except InvalidInput:
        return None
    values = _as_tensor(raw.values)
    n_classes = values.shape[-1]
    for rule in rules:
        assert rule.structure is not None
        if not rule.structure.fits(n_classes):  # numbers beyond its own would be read
            ScoringRule.check_classes(rule, n_classes)
    own_weights = None if shares is None else _as_tensor(shares).float().contiguous()
    flag = _launch.own_flag()
    flag.lower()
    results: list[Any] = [None] * (3 * len(rules))
    for launch in launches_for(rules):
        try:
            components = _components(launch, raw, values, own_weights, flag.address).unbind()
        except _launch.CannotRun as error:
            _report(error)
            return None
        for slot, places in enumerate(launch.places):
            of_rule = components[3 * slot : 3 * slot + 3]
            for i, place in enumerate(places):
                own = [x.clone() for x in of_rule] if i else of_rule
                results[3 * place : 3 * place + 3] = own
    if raw.check and flag.is_raised(values.device):
        return None
    if is_torch(raw.values):
        return results
    xp = namespace(raw.values)
    return [xp.from_dlpack(_aligned(part)) for part in results]


def _aligned(part: Any) -> Any:
    """Return the values at an address that all libraries take: XLA wants multiples of 16."""
    return part if part.data_ptr() % _ALIGNMENT == 0 else part.clone()


def _report(error: _launch.CannotRun) -> None:
    """Warn, and leave this call to the array path, and those to come if they would fail, too."""
    if isinstance(error, _launch.CannotCompile):
        _failures.append(str(error))
    validate.warn(f"the array path is used, as the CUDA kernel cannot run: {error}")


def _as_tensor(values: Array) -> Any:
    """Return an array as a torch tensor, in the same memory unless an axis runs backwards."""
    import torch

    if is_torch(values):
        return values
    if any(stride < 0 for stride in getattr(values, "strides", ())):  # which torch does not have
        values = values.copy()
    return torch.from_dlpack(values)


def _components(launch: Launch, raw: RawPredictions, values: Any, weights: Any, flag: int) -> Any:
    """Return the components (3 * rules, ...) of members ``(..., M, K)``; mark invalid ones."""
    import torch

    *batch, n_members, _ = values.shape
    n = math.prod(batch)
    members = values if len(batch) == 1 else _merged(values, n)
    are_shared = weights is None or weights.ndim == 1
    if members is None:  # instances that are not evenly spaced: one axis after the other
        parts = [
            _components(launch, raw, part, weights if are_shared else weights[i], flag)
            for i, part in enumerate(values)
        ]
        return torch.stack(parts, dim=1)
    results = values.new_empty((3 * len(launch.places), *batch), dtype=torch.float32)
    if n:
        own_weights = weights if are_shared else weights.reshape(-1, n_members)
        _run(launch, raw, members, own_weights, results, flag)
    return results


def _merged(values: Any, n: int) -> Any:
    """Return members ``(N, M, K)`` in the same memory; None if instances are not evenly spaced."""
    try:
        return values.view(n, *values.shape[-2:])
    except RuntimeError:
        return None


def _run(
    launch: Launch, raw: RawPredictions, values: Any, weights: Any, results: Any, flag: int
) -> None:
    """Run the kernel on members ``(N, M, K)`` of any strides."""
    import torch

    address = values.data_ptr() % _ALIGNMENT
    grid = _grid_for("Components", raw, values, weights, launch.constants, launch.needs, address)
    job = _launch.Job.from_buffer_copy(grid.job)
    job.members, job.results, job.invalid = values.data_ptr(), results.data_ptr(), flag
    job.parameter = launch.parameter
    job.inverse = 1 / launch.parameter if launch.parameter else 0.0
    job.tolerance = validate.SUM_TOLERANCE[raw.dtype] if raw.check else -1.0
    if weights is not None:
        job.weights = weights.data_ptr()
    numbers, singles = _numbers_on(launch.structure, values.device)
    if numbers is not None:
        job.numbers, job.singles = numbers.data_ptr(), singles.data_ptr()
        if values.is_cuda:  # the rule may be deleted while the kernel runs
            stream = torch.cuda.current_stream(values.device)
            numbers.record_stream(stream)
            singles.record_stream(stream)
    _start(grid, job, values.device)


class _Grid(NamedTuple):
    """What all runs on members of the same layout share; the job has no pointers yet."""

    constants: tuple[tuple[str, object], ...]
    job: _launch.Job
    n_blocks: int
    n_threads: int
    n_bytes: int


def _grid_for(
    work: str,
    raw: RawPredictions,
    values: Any,
    weights: Any,
    constants: tuple[tuple[str, object], ...],
    needs: Needs,
    address: int,
) -> _Grid:
    """Return what this run on members ``(N, M, K)`` shares with others."""
    return _grid_of(
        work,
        tuple(values.shape),
        values.stride(),
        address,
        dtype_name(values),
        "LOGITS" if raw.from_logits else "MASSES" if raw.normalize else "PROBABILITIES",
        "NO_WEIGHTS" if weights is None else _WEIGHTS[weights.ndim],
        constants,
        needs,
        _launch.most_shared_bytes(values.device),
    )


@lru_cache(maxsize=1024)
def _grid_of(
    work: str,  # "Components" or "Gradient"
    shape: tuple[int, int, int],
    strides: tuple[int, int, int],
    address: int,  # in bytes, of which only the alignment counts
    dtype: str,
    kind: str,
    weights: str,
    constants: tuple[tuple[str, object], ...],
    needs: Needs,
    most_shared_bytes: int,
) -> _Grid:
    element, n_bytes = _ELEMENTS[dtype]
    layout = MemoryLayout(shape, strides, address // n_bytes, n_bytes)
    changes_rows = kind != "PROBABILITIES" or work == "Gradient"
    plan = plan_of(layout, needs, most_shared_bytes, weights == "APART_WEIGHTS", changes_rows)
    assert plan is not None  # as is_usable says
    is_coarse = kind == "PROBABILITIES" and dtype != "float32"
    all_constants = (
        *plan.constants,
        ("WORK", ("Warp" if plan.is_of_warps else "Block") + work),
        ("GRADIENT", int(work == "Gradient")),
        ("KIND", kind),
        ("WEIGHTS", weights),
        ("Element", element),
        ("IS_COARSE", int(is_coarse)),
        *constants,
    )
    n, n_members, n_classes = shape
    instance, member, _ = strides
    far = _FAR[dtype] if is_coarse else _FAR_OF_TWO if n_classes == 2 else _FAR["float32"]
    job = _launch.Job(
        strides=_launch.Strides(*strides),
        n_instances=n,
        far=far * max(1.0, math.sqrt(n_members / 32)),
        share=1 / n_members,
        n_members=n_members,
        instances=plan.instances,
        stage=plan.stage,
        tile=plan.tile,
        spacing=plan.spacing,
        row_spacing=plan.row_spacing,
        is_by_instance=abs(member) <= abs(instance),
        rows=_launch.Divider.of(plan.rows),
        pieces=_launch.Divider.of(plan.pieces),
    )
    return _Grid(all_constants, job, plan.n_blocks, plan.n_threads, plan.n_bytes)


def _start(grid: _Grid, job: _launch.Job, device: Any) -> None:
    _launch.launch(grid.constants, job, grid.n_blocks, grid.n_threads, grid.n_bytes, device)


# -- gradients ------------------------------------------------------------------------------------


def supports_gradient(rule: ScoringRule) -> bool:
    """Return whether the kernel computes gradients under the rule: one of the first four."""
    return name_of_first_four(rule.structure) is not None


def gradient(
    raw: RawPredictions, weights: Any, rules: Sequence[ScoringRule], upstream: Sequence[Any]
) -> Array | None:
    """Return the gradient with respect to ``raw.values``; None where the array path computes it."""
    import torch

    values = _as_tensor(raw.values)
    n = math.prod(values.shape[:-2])
    derivatives = derivatives_of_components(rules, upstream)
    result = torch.empty_like(values)
    if not (values.numel() and derivatives):
        return result.zero_()
    members, flat = _merged(values, n), _merged(result, n)
    if raw.normalize or members is None or flat is None:
        return None
    if members.stride(0) == members.shape[-1] != flat.stride(0):
        return None  # members that overlap, whose gradients cannot be as close together
    shares = raw.normalized_weights(weights)
    own_weights = None if shares is None else _as_tensor(shares).float().contiguous()
    if own_weights is not None and own_weights.ndim > 1:
        own_weights = own_weights.reshape(n, -1)
    constants = (("UPSTREAM", sum(1 << component for component in derivatives)),)
    strides = () if flat.stride() == members.stride() else flat.stride()[:2]
    address = math.gcd(members.data_ptr(), *(x * flat.element_size() for x in strides))
    grid = _grid_for(
        "Gradient", raw, members, own_weights, constants, _GRADIENT_NEEDS, address % _ALIGNMENT
    )
    job = _launch.Job.from_buffer_copy(grid.job)
    if job.stage < job.n_members:  # members that do not fit in shared memory together
        return None
    if own_weights is not None:
        job.weights = own_weights.data_ptr()
    job.members, job.gradient = members.data_ptr(), flat.data_ptr()
    job.gradient_strides = _launch.Strides(*flat.stride())
    contiguous = {i: x.float().contiguous() for i, x in derivatives.items()}
    for component, derivative in contiguous.items():
        job.upstream[component] = derivative.data_ptr()
    try:
        _start(grid, job, values.device)
    except _launch.CannotRun as error:
        _report(error)
        return None
    return result


# -- numbers of rules on a device -----------------------------------------------------------------

_numbers: WeakKeyDictionary[Structure, dict[Any, tuple[Any, Any]]] = WeakKeyDictionary()


def _numbers_on(structure: Structure | None, device: Any) -> tuple[Any, Any]:
    """Return the numbers of a rule on a device, in double and in single precision."""
    if structure is None:
        return None, None
    by_device = _numbers.setdefault(structure, {})
    if device not in by_device:
        by_device[device] = _copied(numbers_of(structure), device)
    return by_device[device]


def _copied(numbers: np.ndarray | None, device: Any) -> tuple[Any, Any]:
    """Return numbers on a device in both precisions; copies have ended, for other streams too."""
    import torch

    if numbers is None:
        return None, None
    both = (np.asarray(numbers, dtype) for dtype in (np.float64, np.float32))
    doubles, singles = (torch.as_tensor(x, device=device) for x in both)
    return doubles, singles
