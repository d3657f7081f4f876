"""Names for rows, rules and models by their content, the same in every process."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scorewise._array import is_array, namespace, to_numpy, working_precision
from scorewise.rules import ScoringRule

# parameters of a model that do not change what it learns, or that are set anew in each round
_NO_MATTER = {"random_state", "n_jobs", "verbose", "progress", "device", "memory"}
_DEPTH = 6  # objects within objects are looked into so far


def digest(X: Any) -> str | None:
    """A name for the content of rows or labels."""
    if X is None:
        return None
    found = hashlib.sha256()
    if issparse(X) and not X.has_sorted_indices:
        X = X.sorted_indices()
    parts = (X.data, X.indices, X.indptr) if issparse(X) else (_plain(X),)
    kinds = [*map(repr, X.dtypes)] if hasattr(X, "columns") else []
    columns = [*map(str, X.columns)] if hasattr(X, "columns") else []
    found.update(repr((getattr(X, "shape", None), columns, kinds)).encode())
    for part in parts:
        found.update(repr((str(part.dtype), part.shape)).encode())
        if part.dtype.kind != "O":
            found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        else:
            found.update("\n".join(map(_text, part.ravel().tolist())).encode())
    return found.hexdigest()[:32]


def _plain(X: Any) -> np.ndarray:
    if is_array(X):
        return to_numpy(working_precision(namespace(X), X))  # NumPy has no bfloat16
    try:
        return np.asarray(X)
    except ValueError:  # rows of several sizes
        rows = np.empty(len(X), dtype=object)
        rows[:] = list(X)
        return rows


def identity(rule: ScoringRule) -> str:
    """A rule with all its digits, which its repr leaves out where there are many."""
    fields = dataclasses.fields(rule)  # type: ignore[arg-type]
    return f"{rule!r} {[_text(getattr(rule, field.name)) for field in fields]}"


def describe(model: Any) -> str:
    """What a model is and how it is set; of a function, its name."""
    return _text(model)


def _text(value: Any, depth: int = 0, listed: bool = False) -> str:
    """A value as text: no addresses in memory, no order that is not its own.

    ``listed`` says that the parameters of estimators in it stand beside it.
    """

    def within(inner: Any) -> str:
        return _text(inner, depth + 1, listed)

    if value is None or isinstance(value, str | bytes | int | float | complex | np.generic):
        return repr(value)
    if hasattr(value, "__qualname__"):
        return str(value.__qualname__)  # a function that was mended after a crash is the same
    if hasattr(value, "shape"):
        return str(digest(value))
    if depth == _DEPTH or (listed and hasattr(value, "get_params")):
        return type(value).__qualname__
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(within, value))}]"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(within, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{within(k)}: {within(v)}' for k, v in value.items()))}}}"
    if isinstance(value, partial):
        return within([value.func, value.args, value.keywords])
    if hasattr(value, "get_params") or getattr(value, "__dict__", {}):
        return f"{type(value).__qualname__}({_settings(value, depth)})"
    # a date, a decimal number and the like; of others the repr is only where they are in memory
    return type(value).__qualname__ if " at 0x" in repr(value) else repr(value)


def _settings(thing: Any, depth: int) -> str:
    listed = hasattr(thing, "get_params")
    values = thing.get_params(deep=True) if listed else vars(thing)
    named = {
        name: _text(value, depth + 1, listed)
        for name, value in sorted(values.items())
        if "_" not in name[0] + name[-1] and name.rpartition("__")[2] not in _NO_MATTER
    }
    return ", ".join(f"{name}={text}" for name, text in named.items())
