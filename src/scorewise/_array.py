"""The only place that asks which array library is at hand.

Everything else is written against the array API standard through the namespace ``xp`` found here,
so that NumPy, torch, JAX, CuPy and array-api-strict run the same formulas on their own devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat as compat
import numpy as np

from scorewise.errors import InvalidInput

Array = Any  # any array of a library that follows the array API standard
Namespace = Any  # its module of functions

# About what two cores keep in their caches while the array path makes its temporaries.
_BLOCK_ELEMENTS = 1 << 17


def namespace(*arrays: Array) -> Namespace:
    """The array API namespace that the arrays share."""
    return compat.array_namespace(*arrays)


def is_array(x: object) -> bool:
    """Whether ``x`` is an array of some library, rather than a list, a number or a frame."""
    return bool(compat.is_array_api_obj(x))


def is_dask(x: object) -> bool:
    """Whether ``x`` is a lazy Dask array."""
    return bool(compat.is_dask_array(x))


def is_traced(x: object) -> bool:
    """Whether ``x`` has no values yet because JAX is tracing (``jit``, ``vmap``, ``grad``)."""
    if not compat.is_jax_array(x):
        return False
    import jax

    return isinstance(x, jax.core.Tracer)


def needs_gradient(x: object) -> bool:
    """Whether torch records operations on ``x`` to differentiate them."""
    return bool(compat.is_torch_array(x) and x.requires_grad)  # type: ignore[attr-defined]


def dtype_name(x: Array) -> str:
    """The plain name of an array's dtype, such as ``"float32"``, in every library."""
    return str(getattr(x.dtype, "name", x.dtype)).rpartition(".")[2]


def working_precision(xp: Namespace, x: Array) -> Array:
    """Half precision is computed in float32; everything else stays what it is."""
    return xp.astype(x, xp.float32) if dtype_name(x) in {"float16", "bfloat16"} else x


def widest(xp: Namespace, x: Array) -> Array:
    """The array in float64, for sums that float32 would drown, or as it is where there is none."""
    if compat.is_jax_array(x):
        import jax

        return xp.astype(x, jax.dtypes.canonicalize_dtype("float64"))
    if compat.is_torch_array(x) and x.device.type == "mps":
        return x
    return xp.astype(x, xp.float64)


def eps(xp: Namespace, x: Array) -> float:
    """The spacing of floats at 1 in the array's dtype."""
    return float(xp.finfo(x.dtype).eps)


def smallest(xp: Namespace, x: Array) -> float:
    """The smallest positive number with full precision in the array's dtype."""
    return float(xp.finfo(x.dtype).smallest_normal)


def on_device_of(xp: Namespace, values: Any, like: Array) -> Array:
    """Values as an array of the library and device of ``like``."""
    return xp.asarray(_shareable(values), device=compat.device(like))


def as_dtype_of(xp: Namespace, values: Any, like: Array) -> Array:
    """Values as an array of the library, device and dtype of ``like``."""
    return xp.asarray(_shareable(values), dtype=like.dtype, device=compat.device(like))


def _shareable(values: Any) -> Any:
    """Not every library shares memory that it must not write to."""
    read_only = isinstance(values, np.ndarray) and not values.flags.writeable
    return values.copy() if read_only else values


def difference(xp: Namespace, p: Array, q: Array) -> Array:
    """P − q, and exactly 0 where the two are equal.

    A compiler may fuse the subtraction with the division that made p, and round only once.
    """
    return xp.where(p == q, 0.0, p - q)


def one_hot(xp: Namespace, index: Array, n: int) -> Array:
    """Boolean ``(..., n)``, true at ``index``."""
    return xp.arange(n, device=compat.device(index)) == index[..., None]


def to_numpy(x: Array) -> np.ndarray:
    """The array's values on the host."""
    if compat.is_torch_array(x):
        return np.asarray(x.detach().cpu())
    if compat.is_cupy_array(x):
        return np.asarray(x.get())
    return np.asarray(x)


def on_host(function: Callable[[np.ndarray], np.ndarray], x: Array) -> Array:
    """Run a NumPy function on the values of any array and hand the result back in its library."""
    return as_dtype_of(namespace(x), function(to_numpy(x).astype(np.float64)), like=x)


def row_blocks(x: Array, axis_free: int) -> Iterator[slice] | None:
    """Slices of the first axis whose temporaries stay in cache, or None to take all at once.

    ``axis_free`` is how many trailing axes must stay whole. Only eager arrays on the host gain
    from blocks; on a device, or while tracing, one large operation is the fast way.
    """
    on_cpu = compat.is_numpy_array(x) or (compat.is_torch_array(x) and x.device.type == "cpu")
    if not on_cpu or x.ndim <= axis_free or compat.size(x) <= _BLOCK_ELEMENTS:
        return None
    rows = max(1, _BLOCK_ELEMENTS * x.shape[0] // compat.size(x))
    return (slice(i, i + rows) for i in range(0, x.shape[0], rows))


def map_dask_rows(
    function: Callable[[Array, Array | None], Array], x: Array, w: Any, n_parts: int
) -> Array:
    """Apply ``function`` lazily to blocks of instances of a Dask array ``(..., M, K)``.

    ``function`` takes a block and its weights, None or ``(M,)`` or ``(..., M)``, and stacks
    ``n_parts`` results of the instances' shape; so does the Dask array that comes back.
    """
    import dask.array as da

    x = x.rechunk({x.ndim - 2: -1, x.ndim - 1: -1})
    batch = x.ndim - 2
    arrays = [x]
    if w is not None and np.ndim(w) < 2:
        w = np.asarray(w)
    elif w is not None:
        arrays.append(
            da.broadcast_to(da.asarray(w), x.shape[:-1])[..., None].rechunk((*x.chunks[:-1], (1,)))
        )

    def block(p: Array, *own: Array, block_info: Any = None) -> Array:
        try:
            return function(p, own[0][..., 0] if own else w)
        except InvalidInput as error:
            start = [first for first, _ in block_info[0]["array-location"][:batch]]
            raise InvalidInput(f"{error} (counted from instance {start} on)") from None

    kind = np.float32 if dtype_name(x) in {"float16", "bfloat16"} else x.dtype
    return da.map_blocks(
        block,
        *arrays,
        drop_axis=[batch, batch + 1],
        new_axis=0,
        chunks=((n_parts,), *x.chunks[:batch]),
        dtype=kind,
        meta=np.empty((0,) * (batch + 1), dtype=kind),
    )
