"""Rows and random states of scikit-learn's estimators."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from scorewise.errors import InvalidInput


def indexable(X: Any) -> Any:
    """Return X in a form that can be indexed by rows."""
    from scipy.sparse import issparse

    if issparse(X):
        return X.tocsr()
    return X if hasattr(X, "shape") or hasattr(X, "__len__") else np.asarray(X)


def count_rows(X: Any, name: str = "X") -> int:
    """Return the number of rows of an array, a frame or a list."""
    from sklearn.utils.validation import _num_samples

    try:
        return int(_num_samples(X))
    except TypeError as error:
        raise InvalidInput(f"{name} has no rows: {error}") from None


def set_seeds(estimator: Any, rng: np.random.Generator) -> None:
    """Set each random state in an estimator, including those of its splitters."""
    params: dict[str, Any] = {}
    for name, value in sorted(estimator.get_params(deep=True).items()):
        if name.rpartition("__")[2] == "random_state":
            params[name] = int(rng.integers(2**31 - 1))
        elif hasattr(value, "random_state") and not hasattr(value, "get_params"):
            params[name] = copy.copy(value)
            params[name].random_state = int(rng.integers(2**31 - 1))
    estimator.set_params(**params)
