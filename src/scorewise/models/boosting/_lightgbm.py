"""LightGBM's classifiers and boosters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from scorewise.errors import InvalidInput
from scorewise.models.boosting._truncation import BoostedModel, as_columns
from scorewise.models.sklearn._ensembles import check_fitted

_ONLY_WHOLE = {
    "[boosting: dart]": "by DART, which rescales earlier trees as it adds others",
    "[boosting: rf]": "as a random forest, whose trees are averaged",
}


def boosted_model(model: Any) -> BoostedModel:
    """Return a fitted LGBMClassifier or Booster as a sum over its iterations."""
    from lightgbm import Booster
    from lightgbm.basic import LightGBMError

    name = type(model).__name__
    check_fitted(model, name)
    booster = model if isinstance(model, Booster) else model.booster_
    header = booster.model_to_string(num_iteration=1).splitlines()
    n_classes, slope = _classes_and_slope(header, name)
    is_average = "average_output" in header  # of which raw scores are the sum

    def increments(rows: Any, edges: list[int]) -> Iterator[np.ndarray]:
        for start, stop in pairwise(edges):
            try:
                scores = model.predict(
                    rows, raw_score=True, start_iteration=start, num_iteration=stop - start
                )
            except LightGBMError as error:
                raise ValueError(error) from error
            yield as_columns(scores) / (stop - start if is_average else 1)

    return BoostedModel(
        name,
        getattr(model, "classes_", np.arange(n_classes)),
        # positive after early stopping
        booster.best_iteration if booster.best_iteration > 0 else booster.current_iteration(),
        increments,
        slope,
        next((reason for line, reason in _ONLY_WHOLE.items() if line in header), ""),
    )


def _classes_and_slope(header: list[str], name: str) -> tuple[int, float]:
    """Read the number of classes and the slope of the sigmoid from a line of the model's text.

    Such as ``objective=binary sigmoid:1`` or ``objective=multiclass num_class:3``.
    """
    line = next((line for line in header if line.startswith("objective=")), "objective=custom")
    objective, *parameters = line.removeprefix("objective=").split()
    values = dict(parameter.split(":") for parameter in parameters if ":" in parameter)
    if objective == "binary":
        return 2, float(values["sigmoid"])
    if objective == "cross_entropy":
        return 2, 1.0
    if objective == "multiclass":
        return int(values["num_class"]), 1.0
    raise InvalidInput(
        f"{name} has the objective {objective!r}, from whose scores no probabilities that sum to 1 "
        "follow; train it with 'binary' or 'multiclass'"
    )
