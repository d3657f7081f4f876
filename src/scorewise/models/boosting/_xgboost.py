"""XGBoost's classifiers and boosters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from scorewise.errors import InvalidInput
from scorewise.models.boosting._truncation import SEVERAL_LABELS, BoostedModel, as_columns
from scorewise.models.sklearn._ensembles import check_fitted

_ONLY_WHOLE = {
    "dart": "by DART, which rescales earlier trees as it adds others",
    "gblinear": "with booster='gblinear', which is one linear model",
}
_LOG_ODDS = {"binary:logistic", "binary:logitraw", "reg:logistic"}


def boosted_model(model: Any) -> BoostedModel:
    """Return a fitted XGBClassifier or Booster as a sum over its iterations."""
    from xgboost import Booster

    name = type(model).__name__
    check_fitted(model, name)
    booster = model if isinstance(model, Booster) else model.get_booster()
    check_one_label(booster, name)
    learner = _learner(booster)
    n_classes = _count_classes(learner, name, callable(getattr(model, "objective", None)))
    n_iterations = _count_iterations(booster)
    return BoostedModel(
        name,
        getattr(model, "classes_", np.arange(n_classes)),
        n_iterations,
        partial(_increments, model, booster),
        only_whole=_only_whole(learner["gradient_booster"], n_iterations),
    )


def check_one_label(booster: Any, name: str) -> None:
    """Raise if a booster was trained on several labels."""
    if int(_learner(booster)["learner_model_param"]["num_target"]) > 1:
        raise InvalidInput(f"{name} {SEVERAL_LABELS}")


def _learner(booster: Any) -> Any:
    return json.loads(booster.save_config())["learner"]


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


def _count_classes(learner: Any, name: str, is_custom: bool) -> int:
    """Return the number of classes; raises for scores that are no log-odds."""
    objective = learner["objective"]["name"]
    if objective in _LOG_ODDS and not is_custom:
        return 2
    if objective in {"multi:softprob", "multi:softmax"} and not is_custom:
        return int(learner["learner_model_param"]["num_class"])
    raise InvalidInput(
        f"{name} has {'an objective of its own' if is_custom else f'the objective {objective!r}'}, "
        "from whose scores no probabilities that sum to 1 follow; train it with 'binary:logistic' "
        "or 'multi:softprob'"
    )


def _only_whole(gradient_booster: Any, n_iterations: int) -> str:
    """Return how a booster was trained whose iterations are no sum of scores, or only one."""
    trees = gradient_booster.get("gbtree_model_param", {})
    if n_iterations == 1 and int(trees.get("num_parallel_tree", 1)) > 1:
        return "as a random forest, whose trees are all of one iteration"
    return _ONLY_WHOLE.get(gradient_booster["name"], "")
