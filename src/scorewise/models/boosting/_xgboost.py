"""XGBoost's classifiers and boosters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from scorewise.errors import InvalidInput
from scorewise.models.boosting._truncation import BoostedModel, as_columns
from scorewise.models.sklearn._ensembles import check_fitted

_NO_SUM = {
    "dart": "by DART, which rescales earlier trees as it adds others",
    "gblinear": "with booster='gblinear', which is one linear model",
}


def boosted_model(model: Any) -> BoostedModel:
    """Return a fitted XGBClassifier or Booster as a sum over its iterations."""
    from xgboost import Booster

    name = type(model).__name__
    check_fitted(model, name)
    booster = model if isinstance(model, Booster) else model.get_booster()
    n_classes = _count_classes(booster, name, callable(getattr(model, "objective", None)))
    return BoostedModel(
        name,
        getattr(model, "classes_", np.arange(n_classes)),
        _count_iterations(booster),
        partial(_increments, model, booster),
    )


def _count_iterations(booster: Any) -> int:
    try:
        return int(booster.best_iteration) + 1
    except AttributeError:  # no early stopping
        return int(booster.num_boosted_rounds())


def _increments(model: Any, booster: Any, rows: Any, edges: list[int]) -> Iterator[np.ndarray]:
    """Yield what each range of iterations adds to the margins; rows are converted once."""
    from xgboost import DMatrix

    first, *others = pairwise(edges)
    if model is booster:
        matrix = rows if isinstance(rows, DMatrix) else DMatrix(rows, enable_categorical=True)
        margins = booster.predict(matrix, output_margin=True, iteration_range=first)
    else:  # checks names and numbers of features as its predict_proba does
        margins = model.predict(rows, output_margin=True, iteration_range=first)
    yield as_columns(margins)
    if not others:
        return
    if model is not booster:
        matrix = DMatrix(
            rows,
            missing=model.missing,
            nthread=model.n_jobs,
            feature_types=model.feature_types,
            enable_categorical=True,
        )
    elif matrix is rows:
        matrix = rows.slice(np.arange(rows.num_row()))  # a copy, as the margin is stored in it
    matrix.set_base_margin(np.zeros_like(margins))
    for iterations in others:
        margins = booster.predict(
            matrix, output_margin=True, iteration_range=iterations, validate_features=False
        )
        yield as_columns(margins)


def _count_classes(booster: Any, name: str, is_custom: bool) -> int:
    """Return the number of classes; raises for boosters whose iterations are no sum of scores."""
    learner = json.loads(booster.save_config())["learner"]
    kind, objective = learner["gradient_booster"]["name"], learner["objective"]["name"]
    if kind in _NO_SUM:
        raise InvalidInput(
            f"{name} was trained {_NO_SUM[kind]}, so that parts of its iterations are no model; "
            "train it with booster='gbtree', or fit several by scorewise.BootstrapEnsemble"
        )
    if int(learner["learner_model_param"]["num_target"]) > 1:
        raise InvalidInput(
            f"{name} was trained on several labels, whose scores share their trees; "
            "sklearn.multioutput.MultiOutputClassifier fits a model for each label"
        )
    if objective == "binary:logistic" and not is_custom:
        return 2
    if objective in {"multi:softprob", "multi:softmax"} and not is_custom:
        return int(learner["learner_model_param"]["num_class"])
    raise InvalidInput(
        f"{name} has {'an objective of its own' if is_custom else f'the objective {objective!r}'}, "
        "from whose scores no probabilities that sum to 1 follow; train it with 'binary:logistic' "
        "or 'multi:softprob'"
    )
