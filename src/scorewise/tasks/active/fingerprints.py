"""Names for rows, rules and models by their content, the same in every process."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scorewise._array import is_array, namespace, to_numpy, working_precision
from scorewise.rules import ScoringRule

# parameters of a model that do not change what it learns, or that are set anew in each round
_NO_MATTER = {"random_state", "n_jobs", "verbose", "progress", "device"}


def digest(X: Any) -> str | None:
    """A name for the content of rows or labels."""
    if X is None:
        return None
    found = hashlib.sha256()
    _feed(found, X)
    return found.hexdigest()[:32]


def _feed(found: Any, X: Any) -> None:
    parts = (X.data, X.indices, X.indptr) if issparse(X) else (_plain(X),)
    columns = [*map(str, X.columns)] if hasattr(X, "columns") else []
    found.update(repr((getattr(X, "shape", None), columns)).encode())
    for part in parts:
        found.update(repr((str(part.dtype), part.shape)).encode())
        if part.dtype.kind != "O":
            found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
            continue
        for entry in part.ravel().tolist():
            if hasattr(entry, "shape") or isinstance(entry, list | tuple):
                _feed(found, entry)
            else:
                found.update(repr(entry).encode())


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
    parameters = [getattr(rule, field.name) for field in dataclasses.fields(rule)]  # type: ignore[arg-type]
    tables = [str(digest(value)) for value in parameters if isinstance(value, np.ndarray)]
    return " ".join([repr(rule), *tables])


def describe(model: Any) -> str:
    """What a model is and how it is set; of a function, its name."""
    if isinstance(model, list | tuple):
        return f"[{', '.join(map(describe, model))}]"
    if isinstance(model, partial):
        return f"{describe(model.func)}({model.args!r}, {model.keywords!r})"
    if hasattr(model, "__qualname__"):
        return str(model.__qualname__)
    if hasattr(model, "get_params"):
        settings = model.get_params(deep=True)
    else:
        settings = {k: v for k, v in vars(model).items() if not (k[0] == "_" or k[-1] == "_")}
    shown = (
        f"{name}={_shown(value)}"
        for name, value in sorted(settings.items())
        if name.rpartition("__")[2] not in _NO_MATTER
    )
    return f"{type(model).__qualname__}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(digest(value))
    if hasattr(value, "get_params"):
        return type(value).__qualname__  # its own parameters are there as well
    # addresses in memory are of one process only
    return re.sub(r" at 0x[0-9a-fA-F]+", "", getattr(value, "__qualname__", None) or repr(value))
