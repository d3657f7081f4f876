"""Helpers for arrays; the only module that treats array libraries differently.

All other code is written against the array API standard through the namespace ``xp``, so that
NumPy, torch, JAX, CuPy and array-api-strict run the same formulas on their own devices.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import array_api_compat as compat
import array_api_compat.numpy
import numpy as np

Array = Any  # any array of a library that follows the array API standard
Namespace = Any  # its module of functions
Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")

# Blocks whose temporaries on the array path fit in the caches of two cores: the least and the most.
_BLOCK_ELEMENTS = 1 << 17, 1 << 18
_DEVICE_ELEMENTS = 1 << 20
_SMALL_DEVICE_ELEMENTS = 1 << 19  # of tensors whose operations on a GPU take as long as their calls
_SMALL_ELEMENTS = 1 << 12  # of arrays whose operations take as long as their calls
_FEW_MEMBERS, _MANY_MEMBERS = 16, 256
_FEW_CLASSES, _MANY_CLASSES, _MANY_ROWS = 32, 4096, 64


if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801 - as that of functools
        """A property that is computed once; torch cannot compile the lock that functools takes."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self.function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = self.function(instance)
            instance.__dict__[self.name] = value
            return value


# NumPy's arrays and torch's tensors are recognised first, by their type: it is fast, and torch's
# compiler warns about the functions of array_api_compat that recognise arrays, as they are cached.


def is_torch(x: object) -> bool:
    """Return whether ``x`` is a torch tensor."""
    torch = sys.modules.get("torch")  # if it is not imported, there are no tensors
    return torch is not None and isinstance(x, torch.Tensor)


def namespace(*arrays: Array) -> Namespace:
    """The array API namespace that the arrays share."""
    xp = _known_namespace(arrays[0])
    if xp is not None and (len(arrays) == 1 or all(_known_namespace(x) is xp for x in arrays)):
        return xp
    return compat.array_namespace(*arrays)


def _known_namespace(x: Array) -> Namespace | None:
    """The namespace of NumPy or torch, or None for another library."""
    if isinstance(x, np.ndarray):
        return array_api_compat.numpy
    if not is_torch(x):
        return None
    import array_api_compat.torch as xp

    return xp


def _device(x: Array) -> Any:
    """The device of an array."""
    return x.device if is_torch(x) else compat.device(x)


def is_array(x: object) -> bool:
    """Return whether ``x`` is an array of some library, rather than a list, a number or a frame."""
    return isinstance(x, np.ndarray) or is_torch(x) or bool(compat.is_array_api_obj(x))


def is_frame(x: object) -> bool:
    """Return whether ``x`` is a data frame, of pandas, polars or a library like them."""
    return hasattr(x, "columns") and hasattr(x, "to_numpy")


def is_numpy(x: object) -> bool:
    """Return whether ``x`` is an array of NumPy."""
    return bool(compat.is_numpy_array(x))


def is_jax(x: object) -> bool:
    """Return whether ``x`` is an array of JAX, with values or without."""
    return not (isinstance(x, np.ndarray) or is_torch(x)) and bool(compat.is_jax_array(x))


def is_dask(x: object) -> bool:
    """Return whether ``x`` is a lazy Dask array."""
    return not (isinstance(x, np.ndarray) or is_torch(x)) and bool(compat.is_dask_array(x))


def is_dask_collection(x: object) -> bool:
    """Return whether ``x`` is a lazy array, frame or bag of Dask."""
    base = sys.modules.get("dask.base")  # if it is not imported, there are no collections
    return base is not None and bool(base.is_dask_collection(x))


def is_sparse(x: object) -> bool:
    """Return whether ``x`` stores only some of its entries."""
    if is_torch(x):
        return x.layout is not sys.modules["torch"].strided  # type: ignore[attr-defined]
    return not is_array(x) and hasattr(x, "toarray")


def is_traced(x: Array) -> bool:
    """Return whether ``x`` has no values that can be read.

    JAX is tracing (``jit``, ``vmap``, ``grad``), torch is in ``vmap``, or has the meta device.
    """
    if is_torch(x):
        return x.device.type == "meta" or (not is_compiled(x) and _is_batched(x))
    if not is_jax(x):
        return False
    import jax

    return isinstance(x, jax.core.Tracer)


def is_compiled(x: Array) -> bool:
    """Return whether torch compiles or exports the operations on ``x``."""
    return is_torch(x) and bool(sys.modules["torch"].compiler.is_compiling())


def constant_in_graphs(function: Function) -> Function:
    """Return the function, which torch calls while it compiles and whose result is a constant.

    The mark is that of ``torch.compiler.assume_constant_result``, without an import of torch.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def leave_graph(reason: str) -> None:
    """End the graph that torch compiles; if it must be the only one, raise with the reason."""
    import torch._dynamo

    torch._dynamo.graph_break(msg=reason)


def in_graph() -> bool:
    """Return whether torch compiles or exports the function that runs."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def outside_graph(function: Callable[..., Result], *arguments: Any) -> Result:
    """Return what a function returns, which torch does not compile."""
    import torch

    result: Result = torch.compiler.disable(function)(*arguments)
    return result


def is_differentiated_backwards(x: Array) -> bool:
    """Return whether torch differentiates ``x`` backwards only, as :func:`with_backward` can."""
    torch = sys.modules.get("torch")
    if torch is None or type(x) not in {torch.Tensor, torch.nn.Parameter}:
        return False
    return (
        x.requires_grad
        and torch.is_grad_enabled()
        and not x.is_meta
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
    )


def with_backward(
    x: Array,
    function: Callable[[Array], list[Array]],
    backward: Callable[[Array, list[Array | None]], Array],
) -> list[Array]:
    """Return the arrays ``function(x)`` of a torch tensor, whose gradient ``backward`` computes.

    The arrays are ``(...)`` for x ``(..., M, K)``. ``backward(x, upstream)`` returns the gradient
    of a scalar from its gradients with respect to the arrays, which are None where they are 0. It
    is recorded, if this gradient will be differentiated; ``function`` is not.
    """
    return list(_closed_form_gradient().apply(x, function, backward))


@lru_cache
def _closed_form_gradient() -> Any:
    import torch

    class ClosedFormGradient(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Array, function: Any, backward: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.set_materialize_grads(False)
            ctx.gradient = backward
            # parts of one tensor as tensors of their own, which the caller may change in place
            return tuple(y.data if y._is_view() else y for y in function(x.detach()))

        @staticmethod
        def backward(ctx: Any, *upstream: Array | None) -> Any:
            [x] = ctx.saved_tensors
            x = x if torch.is_grad_enabled() else x.detach()  # as hooks may have stored it anew
            used = [(i, g) for i, g in enumerate(upstream) if g is not None]
            if not used:
                return None, None, None
            if not any(_stands_for_many(g) for _, g in used):
                return ctx.gradient(x, list(upstream)), None, None
            # The gradient is linear in those of each instance, so one for each component will do.
            parts = []
            for i, g in used:
                alone: list[Array | None] = [None] * len(upstream)
                alone[i] = torch.ones(g.shape, dtype=g.dtype, device=g.device)
                parts.append(g[..., None, None] * ctx.gradient(x, alone))
            return sum(parts), None, None

    return ClosedFormGradient


def _stands_for_many(x: Array) -> bool:
    """Return whether a torch tensor is wrapped, as gradients are that torch computes together."""
    functorch = sys.modules["torch"]._C._functorch
    return bool(functorch.is_legacy_batchedtensor(x) or functorch.is_functorch_wrapped_tensor(x))


def needs_gradient(x: object) -> bool:
    """Return whether torch records operations on ``x`` to differentiate them."""
    return bool(is_torch(x) and x.requires_grad)  # type: ignore[attr-defined]


def is_recorded(x: Array) -> bool:
    """Return whether operations on ``x`` are recorded: to differentiate, trace or compile them."""
    if isinstance(x, np.ndarray):
        return False
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return x.is_meta or torch.compiler.is_compiling() or _is_differentiated(x)
    return is_traced(x)


def has_fixed_shapes(x: Array) -> bool:
    """Return whether arrays of shapes that depend on values are slow: JAX compiles for each."""
    return is_jax(x)


def is_on_device(x: Array) -> bool:
    """Return whether ``x`` is a torch tensor that is not in host memory."""
    return is_torch(x) and x.device.type != "cpu"


def is_small_on_device(x: Array) -> bool:
    """Return whether ``x`` is on a device, and takes longer to wait for than to compute with."""
    return is_on_device(x) and math.prod(x.shape) <= _SMALL_DEVICE_ELEMENTS


def in_host_memory(x: Array) -> bool:
    """Return whether the array has plain values in host memory, which other code may read."""
    if isinstance(x, np.ndarray):
        return bool(x.dtype.isnative)
    if is_torch(x):
        if x.device.type != "cpu" or is_compiled(x):
            return False
        return not x.is_neg() and not _is_differentiated(x)
    if is_jax(x) and not is_traced(x):
        return {device.platform for device in x.devices()} == {"cpu"}
    return False


def on_cuda(x: Array) -> bool:
    """Return whether the array has plain values on an NVIDIA GPU, which other code may read."""
    if isinstance(x, np.ndarray):
        return False
    if is_torch(x):
        return bool(x.device.type == "cuda") and has_plain_values(x)
    if is_jax(x) and not is_traced(x):
        return [device.platform for device in x.devices()] == ["gpu"]  # all of it on one
    return bool(compat.is_cupy_array(x))


def has_plain_values(x: Array) -> bool:
    """Return whether a torch tensor is just its values, which other code may read."""
    torch = sys.modules["torch"]
    if type(x) not in {torch.Tensor, torch.nn.Parameter}:  # may stand for parts elsewhere
        return False
    return not (x.is_meta or is_compiled(x) or x.is_neg() or _is_differentiated(x))


def is_small_in_host_memory(x: Array) -> bool:
    """Return whether NumPy may read ``x``, of which an operation takes the time of its call."""
    return math.prod(x.shape) <= _SMALL_ELEMENTS and in_host_memory(x)


def _is_batched(x: Array) -> bool:
    """Return whether a torch tensor stands for many, in ``torch.func.vmap``."""
    import torch

    return any(torch._C._functorch.is_batchedtensor(layer) for layer in _layers(x))


def _layers(x: Array) -> Iterator[Array]:
    """Yield a torch tensor and those inside of it, which transforms such as ``grad`` wrap."""
    import torch

    yield x
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        x = torch._C._functorch.get_unwrapped(x)
        yield x


def _is_differentiated(x: Array) -> bool:
    """Return whether torch differentiates ``x``: backwards, forwards, or in a transform."""
    torch = sys.modules["torch"]
    if x.requires_grad and torch.is_grad_enabled():
        return True
    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        return True
    forward_ad = torch.autograd.forward_ad
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None


def copied(x: Any) -> Array:
    """Return a copy of an array; that of NumPy for what is none."""
    return x.detach().clone() if is_torch(x) else np.array(x)


def host_view(x: Array) -> np.ndarray:
    """Return a NumPy view of an array in host memory, without a copy."""
    return np.asarray(x.detach() if is_torch(x) else x)


# NumPy takes 2 µs to find the name of a dtype, longer than all other checks of a small array.
_NUMPY_DTYPES = {np.dtype(name): name for name in ("float16", "float32", "float64")}


def dtype_name(x: Array) -> str:
    """The plain name of an array's dtype, such as ``"float32"``, in every library."""
    if isinstance(x, np.ndarray) and x.dtype in _NUMPY_DTYPES:
        return _NUMPY_DTYPES[x.dtype]
    return str(getattr(x.dtype, "name", x.dtype)).rpartition(".")[2]


def working_precision(xp: Namespace, x: Array) -> Array:
    """The array in float32 if it is in half precision; unchanged otherwise."""
    return xp.astype(x, xp.float32) if dtype_name(x) in {"float16", "bfloat16"} else x


def working_dtype(x: Array) -> Any:
    """The dtype of a Dask array in working precision."""
    return np.dtype(np.float32) if dtype_name(x) in {"float16", "bfloat16"} else x.dtype


# The dtypes to which a dtype can be rounded, as if the values had been stored in them at once. This
# holds for values that were not rounded before: float64 to float32 to float16 can differ from
# float64 to float16 in the last digit.
COARSER = {
    "float64": ("float32", "float16", "bfloat16"),
    "float32": ("float16", "bfloat16"),
    "float16": (),
    "bfloat16": (),
}


def rounded_to(x: Array, dtype: str) -> Array:
    """Return the values as an array of this dtype holds them.

    NumPy has no bfloat16, so that its values are in float32.
    """
    xp = namespace(x)
    with np.errstate(over="ignore"):  # beyond its range they are infinite, which raises later
        if dtype != "bfloat16" or not isinstance(x, np.ndarray):
            return xp.astype(x, getattr(xp, dtype), copy=False)
        single = x.astype(np.float32)
    bits = single.view(np.uint32)
    # half a unit of the upper 16 bits, or just less where these are even: to the nearest even
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    upper = ((bits + half) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isfinite(single), upper, single)


def _wide_dtype(xp: Namespace, x: Array) -> Any:
    """Return float64, or the array's dtype where there is no float64."""
    if is_jax(x):
        import jax

        return jax.dtypes.canonicalize_dtype("float64")
    return x.dtype if is_torch(x) and x.device.type == "mps" else xp.float64


def to_float64(xp: Namespace, x: Array) -> Array:
    """The array in float64, for sums that lose digits in float32, where there is float64."""
    return xp.astype(x, _wide_dtype(xp, x))


def sum_members(xp: Namespace, x: Array, axis: int) -> Array:
    """The sum over members (a negative axis), by groups, and in float64 for many members.

    Rounding errors of equal terms have the same sign, so that a plain long sum drifts.
    """
    n = x.shape[axis]
    dtype = x.dtype if n <= _MANY_MEMBERS else _wide_dtype(xp, x)
    if n <= 2 * _FEW_MEMBERS:
        return xp.sum(x, axis=axis, dtype=dtype)
    group_size = max(_FEW_MEMBERS, n // 64)
    trailing_axes = (slice(None),) * (-1 - axis)
    sums = [
        xp.sum(x[(..., slice(i, i + group_size), *trailing_axes)], axis=axis, dtype=dtype)
        for i in range(0, n, group_size)
    ]
    return xp.astype(sum_members(xp, xp.stack(sums, axis=axis), axis), x.dtype)


def mean_members(xp: Namespace, x: Array, axis: int) -> Array:
    """The mean over members (a negative axis), with the sums of :func:`sum_members`."""
    n = x.shape[axis]
    if is_torch(x) and n <= 2 * _FEW_MEMBERS:
        return x.mean(axis)  # in one call, which counts for small arrays
    return sum_members(xp, x, axis) / n


def side_by_side(xp: Namespace, x: Array) -> Array:
    """The array in the order of memory in which sums over its last axes are fast and accurate.

    NumPy adds up few classes fastest if many instances are next to each other.
    """
    if isinstance(x, np.ndarray):
        *batch, _, k = x.shape
        native = x.dtype.newbyteorder("=")  # NumPy cannot sum other byte orders
        if k <= _FEW_CLASSES and math.prod(batch) >= _MANY_ROWS:
            return np.asfortranarray(x, native)
        return np.ascontiguousarray(x, native)
    return contiguous_rows(xp, x)


def contiguous_rows(xp: Namespace, x: Array) -> Array:
    """The array with the last axis contiguous, so that equal rows have equal, accurate sums.

    NumPy sums strided rows term by term, and torch in an order that depends on the row.
    """
    if is_torch(x):
        return x.contiguous()
    if isinstance(x, np.ndarray) and x.flags.f_contiguous and x.shape[-1] <= _FEW_CLASSES:
        return x
    return xp.ascontiguousarray(x) if hasattr(x, "strides") else x


def eps(xp: Namespace, x: Array) -> float:
    """The spacing of floats at 1 in the array's dtype."""
    return float(xp.finfo(x.dtype).eps)


def smallest_normal(xp: Namespace, x: Array) -> float:
    """The smallest positive number with full precision in the array's dtype."""
    return float(xp.finfo(x.dtype).smallest_normal)


def on_device_of(xp: Namespace, values: Any, like: Array) -> Array:
    """Return values as an array of the library and device of ``like``."""
    if is_dask(like) and not is_dask(values):
        values = to_numpy(values)  # the library that Dask handles best
    if not is_array(values):
        values = np.asarray(values)
    if isinstance(like, np.ndarray):  # values may be on a device, which NumPy cannot read
        return to_numpy(values)
    if is_torch(values) and is_torch(like):
        return values.to(like.device)
    if is_traced(values):  # JAX knows where they will be
        return values
    # values beyond JAX's range become infinite, which raises later
    with np.errstate(over="ignore"):
        return xp.asarray(_shareable(values), device=_device(like))


def as_dtype_of(xp: Namespace, values: Any, like: Array) -> Array:
    """Return values as an array of the library, device and dtype of ``like``."""
    values = values if is_compiled(like) else _shareable(values)
    return xp.asarray(values, dtype=like.dtype, device=_device(like))


def _shareable(values: Any) -> Any:
    """The values, copied if read-only or of negative strides, which not all libraries share."""
    if not isinstance(values, np.ndarray):
        return values
    forwards = min(values.strides, default=0) >= 0
    return values if values.flags.writeable and forwards else values.copy()


def difference(xp: Namespace, p: Array, q: Array) -> Array:
    """The difference p − q, exactly 0 where the two are equal, with the gradient of p − q.

    A compiler may fuse the subtraction with the division that made p, and round only once.
    """
    d = p - q
    if not is_recorded(d) or not (is_compiled(d) or is_traced(d)):
        return d
    return xp.where(p == q, d - _constant(d), d)


def _constant(x: Array) -> Array:
    """The same values, as constants to be differentiated."""
    if is_torch(x):
        return x.detach()
    if not is_jax(x):
        return x
    import jax

    return jax.lax.stop_gradient(x)


def ignoring_overflow(x: Array) -> AbstractContextManager[Any]:
    """A context in which NumPy does not warn of infinite results; no other library does."""
    return np.errstate(over="ignore") if isinstance(x, np.ndarray) else nullcontext()


def ignoring_errors(x: Array) -> AbstractContextManager[Any]:
    """A context in which NumPy warns of no result; no other library does."""
    return np.errstate(all="ignore") if isinstance(x, np.ndarray) else nullcontext()


def distance_from_one(xp: Namespace, x: Array) -> float | None:
    """The largest distance of a number from 1; NaN if one is, None if no values can be read."""
    return distance_and_least(xp, x)[0]


def distance_and_least(
    xp: Namespace, x: Array, p: Array | None = None
) -> tuple[float | None, float]:
    """The largest distance of x from 1, as distance_from_one has it, and the smallest p."""
    if is_recorded(x):
        return None, -math.inf
    if not math.prod(x.shape):
        return 0.0, math.inf
    low, high, *least = _read(*_ends(xp, x), *(() if p is None else (xp.min(p),)))
    return max(high - 1, 1 - low), min(least, default=math.inf)


def all_finite(xp: Namespace, x: Array) -> bool:
    """Return whether all numbers are finite; False if no values can be read."""
    if is_recorded(x):
        return False
    return not math.prod(x.shape) or all(map(math.isfinite, ends(xp, x)))


def ends(xp: Namespace, x: Array) -> tuple[float, float]:
    """The smallest and the largest number; NaN if one is, infinities of none."""
    if not math.prod(x.shape):
        return math.inf, -math.inf
    low, high = _read(*_ends(xp, x))
    return low, high


def _ends(xp: Namespace, x: Array) -> tuple[Array, Array]:
    return x.aminmax() if is_torch(x) else (xp.min(x), xp.max(x))


def _read(*numbers: Array) -> list[float]:
    """The values of arrays of a single number; a GPU is waited for once."""
    if is_on_device(numbers[0]):
        return sys.modules["torch"].stack(numbers).tolist()  # type: ignore[no-any-return]
    return list(map(float, numbers))


def at_least(xp: Namespace, x: Array, bound: float) -> Array:
    """The larger of x and a number, elementwise; NaN where x is NaN."""
    if is_torch(x):  # torch cannot compile the maximum of an array and a number
        return x.clamp(min=bound)
    return xp.maximum(x, bound)


def where_above(xp: Namespace, x: Array, bound: float) -> Array:
    """Those x that are above a number, and 0 elsewhere."""
    if is_torch(x):  # five times as fast as a condition
        return sys.modules["torch"].threshold(x, bound, 0.0)
    return xp.where(x > bound, x, 0.0)


def cumulative_sum(xp: Namespace, x: Array) -> Array:
    """The sums of the first entries of the last axis."""
    return x.cumsum(-1) if is_torch(x) else xp.cumulative_sum(x, axis=-1)


def matmul(xp: Namespace, a: Array, b: Array) -> Array:
    """The product a @ b in the full precision of its arrays, whatever the library's settings."""
    if is_jax(a):
        return xp.matmul(a, b, precision="highest")
    if is_torch(a) and a.dtype != xp.float64:  # neither autocast nor TF32 touches float64
        return xp.astype(_matmul(to_float64(xp, a), to_float64(xp, b)), a.dtype)
    return _matmul(a, b)


def _matmul(a: Array, b: Array) -> Array:
    """The product a @ b of members (..., M, K) and a matrix, as one product of two matrices.

    Its columns are next to each other, so that sums and minima over them are fast.
    """
    *rows, k = a.shape
    if is_torch(a):
        return (b.T @ a.reshape(-1, k).T).reshape(b.shape[-1], *rows).movedim(0, -1)
    if isinstance(a, np.ndarray) and a.flags.f_contiguous:
        return (b.T @ a.T.reshape(k, -1)).reshape(b.shape[-1], *reversed(rows)).T
    return a @ b


def sum_products(xp: Namespace, terms: Array, factors: Array) -> Array:
    """The sum Σ_k terms_k·factors_k over the last axis; the terms may be overwritten."""
    if isinstance(terms, np.ndarray):
        return dot(xp, terms, factors)
    return xp.sum(times(terms, factors), axis=-1)


def has_xlogy(*arrays: Array) -> bool:
    """Return whether ``xlogy`` is fast, and its gradient, which is infinite at 0, not recorded."""
    return all(is_on_device(x) and not is_recorded(x) for x in arrays)


def sum_times_log(xp: Namespace, p: Array) -> Array:
    """The sum Σ_k p_k·log p_k over the last axis, where 0·log 0 is 0."""
    if has_xlogy(p):
        return p.xlogy(p).sum(-1)
    return sum_products(xp, xp.log(p + smallest_normal(xp, p)), p)


# Where operations are not recorded, the result takes the memory of a temporary array ``x``: new
# memory takes longer to get than a sum or a product to compute.


def _must_stay(x: Array, y: Array | float) -> bool:
    """Return whether torch needs ``x`` as it is, to record what is computed from it and y."""
    return is_torch(x) and (is_recorded(x) or (is_torch(y) and is_recorded(y)))


def times(x: Array, y: Array | float) -> Array:
    """The product x·y, of the shape of ``x``, which may be overwritten."""
    if _must_stay(x, y):
        return x * y
    x *= y
    return x


def plus(x: Array, y: Array | float) -> Array:
    """The sum x + y, of the shape of ``x``, which may be overwritten."""
    if _must_stay(x, y):
        return x + y
    x += y
    return x


def times_plus(x: Array, y: Array, number: Array | float) -> Array:
    """The sum x·y + number, of the shape of ``x``, which may be overwritten."""
    if is_small_on_device(x) and isinstance(number, float) and not _must_stay(x, y):
        torch = sys.modules["torch"]
        if type(x) is torch.Tensor:  # numbers of a mode of other tensors must not be kept
            return torch.addcmul(_number_on_device(number, x.dtype, x.device), x, y)
    return plus(times(x, y), number)


@lru_cache(maxsize=1024)
def _number_on_device(number: float, dtype: Any, device: Any) -> Array:
    """A number as a tensor, which one operation on a device can take besides two others.

    It is kept for calls to come: nothing writes to it or records it, so that tensors of torch's
    inference mode serve outside of it, too.
    """
    return sys.modules["torch"].tensor(number, dtype=dtype, device=device)


def minus(x: Array, y: Array | float) -> Array:
    """The difference x − y, of the shape of ``x``, which may be overwritten."""
    if _must_stay(x, y):
        return x - y
    x -= y
    return x


def largest(xp: Namespace, x: Array) -> float:
    """The largest of numbers from 0 on; NaN if one is, infinite if no values can be read."""
    if is_recorded(x):
        return math.inf
    return float(xp.max(x)) if math.prod(x.shape) else 0.0


def smallest(xp: Namespace, x: Array) -> float:
    """The smallest number, infinite of none; NaN if one is, −infinite if no values can be read."""
    if is_recorded(x):
        return -math.inf
    return float(xp.min(x)) if math.prod(x.shape) else math.inf


def dot(xp: Namespace, a: Array, b: Array) -> Array:
    """The sum Σ_k a_k·b_k over the last axis."""
    if isinstance(a, np.ndarray) and _FEW_CLASSES < a.shape[-1] <= _MANY_CLASSES:
        return np.vecdot(a, b)  # twice as fast, but less accurate for very many classes
    return xp.sum(a * b, axis=-1)


def of_largest(xp: Namespace, x: Array, p: Array) -> Array:
    """The entry of x where p is largest, ``(..., 1)``; the mean of those if it is in many places.

    NumPy takes ten times as long to find the first of these places.
    """
    is_largest = xp.astype(p == xp.max(p, axis=-1, keepdims=True), x.dtype)
    n = xp.sum(is_largest, axis=-1, keepdims=True)
    return xp.sum(times(is_largest, x), axis=-1, keepdims=True) / n


def kth_largest(xp: Namespace, x: Array, k: int) -> Array:
    """The k-th largest entry of the last axis, ``(..., 1)``."""
    rank = x.shape[-1] - k
    if isinstance(x, np.ndarray):
        return np.partition(x, rank, axis=-1)[..., rank : rank + 1]
    if is_torch(x):
        return x.topk(k, dim=-1).values[..., -1:]
    return xp.sort(x, axis=-1)[..., rank : rank + 1]


def index_of(mask: Array) -> Any:
    """An index of where a boolean array is true; torch would search for it at each use."""
    return mask.nonzero(as_tuple=True) if is_torch(mask) else mask


def one_hot(xp: Namespace, index: Array, n: int) -> Array:
    """Return a boolean array ``(..., n)``, true at ``index``."""
    return xp.arange(n, device=_device(index)) == index[..., None]


def to_numpy(x: Array) -> np.ndarray:
    """The values as a NumPy array on the host."""
    if is_torch(x):
        import torch

        *_, values = _layers(x)
        with torch._C._DisableFuncTorch():
            return np.asarray(values.detach().cpu())
    if compat.is_cupy_array(x):
        return np.asarray(x.get())
    return np.asarray(x)


def blocks(x: Array, axis: int, most: int | None = None) -> Iterator[Any]:
    """Yield indices of blocks along an axis, at most so many, or one of the whole while tracing."""
    n, size = x.shape[axis], math.prod(x.shape)
    is_whole = not size or is_compiled(x) or is_traced(x)
    rows = n if is_whole else max(1, _block_size(x) * n // size)
    if most is not None:
        rows = max(rows, -(-n // most))
    if rows >= n:
        yield ...
        return
    for start in range(0, n, rows):
        yield (*(slice(None),) * axis, slice(start, start + rows))


def map_blocks(
    work: Callable[[tuple[slice, ...]], list[Array]],
    x: Array,
    index: tuple[slice, ...] = (),
    *,
    parts: int = 1,
) -> list[Array]:
    """Return the arrays that ``work`` returns for blocks of an array ``(..., M, K)``, joined.

    ``work`` takes the index of a block of instances; blocks follow the order of the instances. They
    are smaller if one is divided into parts.
    """
    axis = len(index)
    if axis == x.ndim - 2 or is_compiled(x) or is_traced(x):
        return work(index)
    n_blocks = parts * math.prod(x.shape[axis:]) // _block_size(x)
    if n_blocks <= 1:
        return work(index)
    n = x.shape[axis]
    rows = n // n_blocks
    if rows:
        results = (work((*index, slice(i, i + rows))) for i in range(0, n, rows))
    else:
        results = (map_blocks(work, x, (*index, slice(i, i + 1)), parts=parts) for i in range(n))
    return _joined(namespace(x), results, axis, n)


def _joined(xp: Namespace, results: Iterator[list[Array]], axis: int, n: int) -> list[Array]:
    """Return the arrays of all blocks, joined along an axis, on which they have n entries.

    Where memory can be written to, no block outlives the next one.
    """
    first = next(results)
    if not all(map(is_writable, first)):
        return [xp.concat(pieces, axis=axis) for pieces in zip(first, *results, strict=True)]
    wholes = [empty_rows(x, n, axis) for x in first]
    start = 0
    for pieces in chain([first], results):
        # blocks that only write return no arrays
        stop = start + pieces[0].shape[axis] if pieces else n
        for whole, piece in zip(wholes, pieces, strict=True):
            whole[(*(slice(None),) * axis, slice(start, stop))] = piece
        start = stop
    return wholes


def is_writable(x: Array) -> bool:
    """Return whether arrays like ``x`` can be written to: NumPy's, and torch's without records."""
    if not is_torch(x):
        return isinstance(x, np.ndarray)
    torch = sys.modules["torch"]
    # tensors of torch's inference mode can be written to in that mode only
    return not is_recorded(x) and (not x.is_inference() or torch.is_inference_mode_enabled())


def empty_rows(x: Array, n: int, axis: int = 0) -> Array:
    """Return an array like ``x`` with n entries along an axis, whose values are not set."""
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    return namespace(x).empty(shape, dtype=x.dtype, device=_device(x))


def _block_size(x: Array) -> int:
    """The number of elements of a block: a part of the array that leaves room for temporaries.

    Those of a block on a CPU fit in its caches. On a device each operation costs time however few
    elements it has.
    """
    part: int = math.prod(x.shape) // 80
    if isinstance(x, np.ndarray) or (is_torch(x) and not is_on_device(x)):
        least, most = _BLOCK_ELEMENTS
        return min(max(least, part), most)
    return max(_DEVICE_ELEMENTS, part)


def map_dask_rows(
    function: Callable[..., Array],
    x: Array,
    w: Array | None,
    n_results: int,
    *rows: Array,
    keep_classes: bool = False,
) -> Array:
    """Apply ``function`` lazily to blocks of instances of a Dask array ``(..., M, K)``.

    All members and classes of a row are in one chunk.
    ``function`` takes a block, its weights (``w`` is None, ``(M,)`` or ``(..., M)``), the index of
    its first instance, and its part of the other arrays, ``(K,)`` or ``(..., K)``. It returns a
    stack of ``n_results`` arrays ``(...)``, or ``(..., K)`` with ``keep_classes``; the returned
    Dask array has the same form.
    """
    import dask.array as da
    from dask.array.utils import meta_from_array

    batch = x.ndim - 2
    # blocks are aligned from the last axis on, as in broadcasting
    weights = [] if w is None else [w[..., None].rechunk((*x.chunks[-1 - w.ndim : -1], (1,)))]
    others = [
        row[..., None, :].rechunk((*x.chunks[batch + 1 - row.ndim : batch], (1,), x.chunks[-1]))
        for row in rows
    ]

    def block(p: Array, *arrays: Array, block_info: Any = None) -> Array:
        origin = tuple(first for first, _ in block_info[0]["array-location"][:batch])
        own_weights = arrays[0][..., 0] if weights else None
        results = function(p, own_weights, origin, *(a[..., 0, :] for a in arrays[len(weights) :]))
        return results[..., None, :] if keep_classes else results[..., None, None]

    # The axes of members and classes stay, with length 1, until the end: to drop an axis, Dask
    # copies each block, by functions that not all libraries have.
    dtype = working_dtype(x)
    mapped = da.map_blocks(
        block,
        x,
        *weights,
        *others,
        new_axis=0,
        chunks=((n_results,), *x.chunks[:batch], (1,), x.chunks[-1] if keep_classes else (1,)),
        dtype=dtype,
        meta=meta_from_array(x, ndim=1 + x.ndim, dtype=dtype),
    )
    return mapped[..., 0, :] if keep_classes else mapped[..., 0, 0]
