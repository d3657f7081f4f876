"""What an argument is made of: real numbers, floats, whole numbers, one library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from scorewise._array import Array, Namespace, dtype_name, is_array, is_sparse, namespace
from scorewise.errors import InvalidInput

# How far a row's sum may be from 1, by the precision the row was stored in.
SUM_TOLERANCE = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-4, "float64": 1e-6}


def real(values: Any, name: str, convert: Callable[[Any], Array]) -> Array:
    """An array of real numbers; masks, gaps and imaginary parts would be lost, so are refused."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(
            f"{name} is a masked array, and a mask cannot be honoured here; drop what is masked, "
            "or fill it: logits of -inf mask classes (from_logits=True), weights of 0 members"
        )
    if is_sparse(values):
        raise InvalidInput(f"{name} is sparse; call .to_dense() (torch) or .toarray() (SciPy)")
    try:
        x = convert(values)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InvalidInput(f"{name} is not a rectangular array of numbers: {error}") from error
    kind = dtype_name(x)
    if not kind.startswith(("float", "bfloat", "int", "uint", "bool")):
        raise InvalidInput(f"{name} has dtype {kind}; it must hold real numbers")
    return x


def floating(x: Any, name: str) -> Array:
    """``x`` as an array of floating-point numbers; lists become NumPy arrays."""

    def plain(x: Any) -> Array:
        if isinstance(x, list | tuple) and x and all(is_array(part) for part in x):
            return namespace(*x).stack(list(x))  # members of any library, one by one
        # a memory map, a matrix and the like become plain arrays
        return x if is_array(x) and not isinstance(x, np.ndarray) else np.asarray(x)

    x = real(x, name, plain)
    kind = dtype_name(x)
    if kind not in SUM_TOLERANCE:
        raise InvalidInput(
            f"{name} has dtype {kind}; use float16, bfloat16, float32 or float64, and convert "
            "other numbers on purpose"
        )
    return x


def whole(value: Any, name: str, at_least: int) -> int:
    """A whole number from ``at_least`` on."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < at_least:
        raise InvalidInput(f"{name} must be a whole number from {at_least} on, not {value!r}")
    return int(value)


def number(value: Any, name: str) -> float:
    """A finite real number."""
    try:
        if isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value)):
            return float(value)
    except OverflowError:
        pass
    raise InvalidInput(f"{name} must be a finite number, not {value!r}")


def share(value: Any, name: str) -> float:
    """A number above 0 and below 1."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise InvalidInput(f"{name} must be above 0 and below 1, not {value!r}")
    return float(value)


def choice(value: Any, name: str, known: Iterable[str]) -> str:
    """One of the words that are known."""
    words = tuple(known)
    if not isinstance(value, str) or value not in words:
        raise InvalidInput(f"{name} must be one of {', '.join(map(repr, words))}, not {value!r}")
    return str(value)


def same_library(q: Array, p: Array) -> Namespace:
    """The namespace that two arrays share."""
    try:
        return namespace(q, p)
    except TypeError:
        raise InvalidInput(
            f"the two arrays are of different libraries, {type(q).__module__} and "
            f"{type(p).__module__}; convert one of them (lists count as NumPy)"
        ) from None
