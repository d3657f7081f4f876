"""Helpers for arrays; the only module that treats array libraries differently.

All other code is written against the array API standard through the namespace ``xp``, so that
NumPy, torch, JAX, CuPy and array-api-strict run the same formulas on their own devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat as compat
import numpy as np

Array = Any  # any array of a library that follows the array API standard
Namespace = Any  # its module of functions

# A block whose temporaries on the array path fit in the caches of two cores.
_BLOCK_ELEMENTS = 1 << 17
_FEW_MEMBERS, _MANY_MEMBERS = 16, 256


def namespace(*arrays: Array) -> Namespace:
    """The array API namespace that the arrays share."""
    return compat.array_namespace(*arrays)


def is_array(x: object) -> bool:
    """Return whether ``x`` is an array of some library, rather than a list, a number or a frame."""
    return bool(compat.is_array_api_obj(x))


def is_numpy(x: object) -> bool:
    """Return whether ``x`` is an array of NumPy."""
    return bool(compat.is_numpy_array(x))


def is_jax(x: object) -> bool:
    """Return whether ``x`` is an array of JAX, with values or without."""
    return bool(compat.is_jax_array(x))


def is_dask(x: object) -> bool:
    """Return whether ``x`` is a lazy Dask array."""
    return bool(compat.is_dask_array(x))


def is_sparse(x: object) -> bool:
    """Return whether ``x`` stores only some of its entries."""
    if compat.is_torch_array(x):
        return str(x.layout) != "torch.strided"  # type: ignore[attr-defined]
    return not is_array(x) and hasattr(x, "toarray")


def is_traced(x: object) -> bool:
    """Return whether ``x`` has no values yet: JAX is tracing (``jit``, ``vmap``, ``grad``)."""
    if not compat.is_jax_array(x):
        return False
    import jax

    return isinstance(x, jax.core.Tracer)


def needs_gradient(x: object) -> bool:
    """Return whether torch records operations on ``x`` to differentiate them."""
    return bool(compat.is_torch_array(x) and x.requires_grad)  # type: ignore[attr-defined]


def in_host_memory(x: Array) -> bool:
    """Return whether the array has plain values in host memory, which other code may read."""
    if compat.is_numpy_array(x):
        return bool(x.dtype.isnative)
    if compat.is_torch_array(x):
        return x.device.type == "cpu" and not x.is_neg() and not _is_differentiated(x)
    if compat.is_jax_array(x) and not is_traced(x):
        return {device.platform for device in x.devices()} == {"cpu"}
    return False


def _is_differentiated(x: Array) -> bool:
    """Return whether torch differentiates ``x``: backwards, forwards, or in a transform."""
    import torch

    wrapped = getattr(torch._C, "_functorch", None)
    if x.requires_grad or (wrapped and wrapped.is_functorch_wrapped_tensor(x)):
        return True
    return torch.autograd.forward_ad.unpack_dual(x).tangent is not None


def host_view(x: Array) -> np.ndarray:
    """Return a NumPy view of an array in host memory, without a copy."""
    return np.asarray(x.detach() if compat.is_torch_array(x) else x)


def dtype_name(x: Array) -> str:
    """The plain name of an array's dtype, such as ``"float32"``, in every library."""
    return str(getattr(x.dtype, "name", x.dtype)).rpartition(".")[2]


def working_precision(xp: Namespace, x: Array) -> Array:
    """The array in float32 if it is in half precision; unchanged otherwise."""
    return xp.astype(x, xp.float32) if dtype_name(x) in {"float16", "bfloat16"} else x


# The dtypes to which a dtype can be rounded as if the values had been stored in them at once.
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
    if compat.is_jax_array(x):
        import jax

        return jax.dtypes.canonicalize_dtype("float64")
    return x.dtype if compat.is_torch_array(x) and x.device.type == "mps" else xp.float64


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


def contiguous_rows(xp: Namespace, x: Array) -> Array:
    """The array with the last axis contiguous, so that equal rows have equal, accurate sums.

    NumPy sums strided rows term by term, and torch in an order that depends on the row.
    """
    if compat.is_torch_array(x):
        return x.contiguous()
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
    if compat.is_torch_array(values) and compat.is_torch_array(like):
        return values.to(like.device)
    # values beyond JAX's range become infinite, which raises later
    with np.errstate(over="ignore"):
        return xp.asarray(_shareable(values), device=compat.device(like))


def as_dtype_of(xp: Namespace, values: Any, like: Array) -> Array:
    """Return values as an array of the library, device and dtype of ``like``."""
    return xp.asarray(_shareable(values), dtype=like.dtype, device=compat.device(like))


def _shareable(values: Any) -> Any:
    """The values, copied if read-only or of negative strides, which not all libraries share."""
    if not isinstance(values, np.ndarray):
        return values
    forwards = min(values.strides, default=0) >= 0
    return values if values.flags.writeable and forwards else values.copy()


def difference(xp: Namespace, p: Array, q: Array) -> Array:
    """The difference p − q, exactly 0 where the two are equal.

    A compiler may fuse the subtraction with the division that made p, and round only once.
    """
    if isinstance(p, np.ndarray):  # NumPy is never compiled
        return p - q
    return xp.where(p == q, 0.0, p - q)


def matmul(xp: Namespace, a: Array, b: Array) -> Array:
    """The product a @ b in the full precision of its arrays, whatever the library's settings."""
    if compat.is_jax_array(a):
        return xp.matmul(a, b, precision="highest")
    if compat.is_torch_array(a):  # neither autocast nor TF32 touches float64
        return xp.astype(to_float64(xp, a) @ to_float64(xp, b), a.dtype)
    return a @ b


def one_hot(xp: Namespace, index: Array, n: int) -> Array:
    """Return a boolean array ``(..., n)``, true at ``index``."""
    return xp.arange(n, device=compat.device(index)) == index[..., None]


def to_numpy(x: Array) -> np.ndarray:
    """The values as a NumPy array on the host."""
    if compat.is_torch_array(x):
        return np.asarray(x.detach().cpu())
    if compat.is_cupy_array(x):
        return np.asarray(x.get())
    return np.asarray(x)


def blocks(x: Array, axis: int) -> Iterator[Any]:
    """Yield indices of blocks along an axis that fit in a cache, or one index of the whole array.

    Only eager arrays on the host gain from them; on a device, or while tracing, a single large
    operation is faster.
    """
    on_cpu = compat.is_numpy_array(x) or (compat.is_torch_array(x) and x.device.type == "cpu")
    if not on_cpu or compat.size(x) <= _BLOCK_ELEMENTS:
        yield ...
        return
    rows = max(1, _BLOCK_ELEMENTS * x.shape[axis] // compat.size(x))
    for start in range(0, x.shape[axis], rows):
        yield (*(slice(None),) * axis, slice(start, start + rows))


def map_dask_rows(
    function: Callable[[Array, Array | None, tuple[int, ...]], Array],
    x: Array,
    w: Array | None,
    n_results: int,
    *,
    keep_classes: bool = False,
) -> Array:
    """Apply ``function`` lazily to blocks of instances of a Dask array ``(..., M, K)``.

    ``function`` takes a block, its weights (``w`` is None, ``(M,)`` or ``(..., M)``) and the index
    of its first instance. It returns a stack of ``n_results`` arrays ``(...)``, or ``(..., K)``
    with ``keep_classes``; the returned Dask array has the same form.
    """
    import dask.array as da

    batch = x.ndim - 2
    x = x.rechunk({batch: -1, batch + 1: -1})
    arrays = [x]
    if w is not None:  # blocks are aligned from the last axis on, as in broadcasting
        arrays.append(w[..., None].rechunk((*x.chunks[-1 - w.ndim : -1], (1,))))

    def block(p: Array, *weights: Array, block_info: Any = None) -> Array:
        origin = tuple(first for first, _ in block_info[0]["array-location"][:batch])
        return function(p, weights[0][..., 0] if weights else None, origin)

    dtype = np.float32 if dtype_name(x) in {"float16", "bfloat16"} else x.dtype
    rest = x.chunks[-1:] if keep_classes else ()
    return da.map_blocks(
        block,
        *arrays,
        drop_axis=[batch] if keep_classes else [batch, batch + 1],
        new_axis=0,
        chunks=((n_results,), *x.chunks[:batch], *rest),
        dtype=dtype,
        meta=np.empty((0,) * (1 + batch + len(rest)), dtype=dtype),
    )
