"""Forests: the trees' answers are read from their leaves.

A tree's own ``predict_proba`` checks and converts its input each time. Here that is done once for
the whole forest, and each tree only has to find its leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data


def leaf_reader(tree: Any) -> Callable[..., np.ndarray]:
    """The class probabilities ``(n, K)`` of a fitted tree, for rows as :func:`rows_for` gives."""
    grown = tree.tree_
    values = grown.value[:, 0, :]  # a copy, made once

    def read(X: Any, out: np.ndarray | None = None) -> np.ndarray:
        # Leaves are in range, and clipping is what lets NumPy write where it is told.
        return np.take(values, grown.apply(X), axis=0, out=out, mode="clip")

    return read


def rows_for(forest: Any, X: Any) -> Any:
    """Rows in the form that trees read, checked as ``forest.predict_proba`` checks them."""
    may_have_gaps = get_tags(forest).input_tags.allow_nan and not issparse(X)
    rows = validate_data(
        forest,
        X,
        dtype=np.float32,
        accept_sparse="csr",
        ensure_all_finite="allow-nan" if may_have_gaps else True,
        reset=False,
    )
    if issparse(rows) and rows.indices.dtype != np.intc:  # which trees cannot read
        short = (rows.data, rows.indices.astype(np.intc), rows.indptr.astype(np.intc))
        return type(rows)(short, shape=rows.shape)
    return rows
