"""scikit-learn's gradient boosting, by its staged predictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from scorewise._estimators import check_kind
from scorewise.models.boosting._truncation import BoostedModel, as_columns
from scorewise.models.sklearn._ensembles import check_fitted


def boosted_model(model: Any) -> BoostedModel:
    """Return a fitted gradient boosting classifier as a sum over its iterations."""
    name = type(model).__name__
    check_fitted(model, name)
    check_kind(model)

    def increments(rows: Any, edges: list[int]) -> Iterator[np.ndarray]:
        previous: Any = 0.0
        for stage, scores in enumerate(model.staged_decision_function(rows), start=1):
            if stage in edges:
                current = as_columns(scores)
                yield current - previous
                previous = current

    is_histogram = hasattr(model, "n_iter_")
    return BoostedModel(
        name,
        model.classes_,
        model.n_iter_ if is_histogram else model.n_estimators_,
        increments,
        slope=2.0 if model.loss == "exponential" else 1.0,
    )
