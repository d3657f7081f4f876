"""Rows, random states and fit parameters of scikit-learn's estimators."""

from __future__ import annotations

import copy
import inspect
import os
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
    """Return the number of rows of an array, a frame, a list, or the data of a boosting library."""
    from sklearn.utils.validation import _num_samples

    if _is_boosting_data(X):
        return int(X.num_row())
    try:
        return int(_num_samples(X))
    except TypeError as error:
        raise InvalidInput(f"{name} has no rows: {error}") from None


def select_rows(X: Any, rows: slice) -> Any:
    """Return some rows of an array, a frame, a list, or the data of a boosting library."""
    from sklearn.utils import _safe_indexing

    if _is_boosting_data(X):
        return X.slice(list(range(*rows.indices(X.num_row()))))
    return _safe_indexing(X, rows)


def _is_boosting_data(X: Any) -> bool:
    """Return whether this is a DMatrix of XGBoost or a Pool of CatBoost."""
    return hasattr(X, "num_row") and hasattr(X, "slice")


# -- models and targets that are not of one class per row -----------------------------------------

_ONE_PROBLEM_PER_LABEL = (
    "several labels or outputs per row are not supported here. scorewise.predict_samples takes a "
    "forest fitted on several labels, MultiOutputClassifier or OneVsRestClassifier around a model "
    "with members (scorewise.BootstrapEnsemble makes one), and lists of multi-label models; "
    "scorewise.by_label makes one problem of two classes per label"
)
_NO_REGRESSION = (
    "regression is not supported: scorewise measures the uncertainty of class probabilities. Sort "
    "the target into classes and use a classifier"
)


def check_kind(model: Any, name: str = "") -> None:
    """Raise for what is no classifier, fitted or not: a regressor, a multi-label model, a path.

    Models of unknown kinds pass.
    """
    name = name or type(model).__name__
    if isinstance(model, str | os.PathLike):
        raise InvalidInput(
            f"the model is the path or name {os.fspath(model)!r}; load it first, with joblib.load "
            "or torch.load, and pass the model"
        )
    if isinstance(model, type):
        raise InvalidInput(f"{model.__name__} is a class; pass an object: {model.__name__}(...)")
    if isinstance(model, list | tuple):
        for i, member in enumerate(model):
            if not isinstance(member, str | os.PathLike | type):
                check_kind(member, f"member {i} ({type(member).__name__})")
        return
    if hasattr(model, "__sklearn_tags__"):
        _check_tags(model, name)
    if has_several_outputs(model):
        raise InvalidInput(f"{name} predicts several outputs; {_ONE_PROBLEM_PER_LABEL}")


def has_several_outputs(model: Any) -> bool:
    """Return whether an estimator of scikit-learn predicts several labels or outputs per row."""
    classes = getattr(model, "classes_", None)
    return bool(
        (isinstance(classes, list) and len(classes) and np.ndim(classes[0]))
        or getattr(model, "multilabel_", False)
        or getattr(model, "n_outputs_", 1) not in {1, len(() if classes is None else classes)}
        or type(model).__name__ in {"MultiOutputClassifier", "ClassifierChain"}
        or (getattr(model, "out_activation_", None) == "logistic" and model.n_outputs_ > 1)
    )


def _check_tags(model: Any, name: str) -> None:
    """Raise for an estimator that scikit-learn does not take for a classifier."""
    from sklearn.utils import get_tags

    kind = get_tags(model).estimator_type
    if kind == "regressor":
        raise InvalidInput(f"{name} is a regressor; {_NO_REGRESSION}")
    if kind == "outlier_detector":
        raise InvalidInput(
            f"{name} detects outliers and has no class probabilities; scorewise.OODDetector "
            "detects them by the uncertainty of a classifier"
        )
    if kind in {"clusterer", "density_estimator"}:
        raise InvalidInput(
            f"{name} learns without labels and is no classifier; use one that is fitted on labels "
            "and gives probabilities"
        )


def check_targets(y: Any) -> np.ndarray:
    """Return labels ``(n,)`` to fit on; raises for several per row and for a continuous target."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import assert_all_finite, column_or_1d

    try:
        y = column_or_1d(y, warn=True)
    except ValueError as error:
        if np.asarray(y).ndim < 2:
            raise
        problem = str(error).rstrip(".")
        raise InvalidInput(f"{problem}; {_ONE_PROBLEM_PER_LABEL}") from None
    assert_all_finite(y, input_name="y")
    try:
        check_classification_targets(y)
    except ValueError as error:
        if "continuous" not in str(error):
            raise
        raise InvalidInput(
            f"Unknown label type: y holds numbers that are not whole; {_NO_REGRESSION}"
        ) from None
    return np.asarray(y)


# -- seeds and parameters of fit -------------------------------------------------------------------


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


def routed_fit_params(
    meta_estimator: Any, X: Any, sample_weight: Any, fit_params: dict[str, Any]
) -> dict[str, Any]:
    """Return what the estimator's ``fit`` gets of the parameters of a meta-estimator's ``fit``.

    With scikit-learn's metadata routing it gets what it requests, otherwise everything.
    """
    from sklearn import get_config
    from sklearn.utils.metadata_routing import process_routing
    from sklearn.utils.validation import _check_sample_weight

    params = passed_fit_params(sample_weight, fit_params)
    if not params:
        return {}
    if get_config()["enable_metadata_routing"]:
        params = dict(process_routing(meta_estimator, "fit", **params)["estimator"]["fit"])
    else:
        _check_accepted(meta_estimator.estimator, params)
    if "sample_weight" in params:
        params["sample_weight"] = _check_sample_weight(params["sample_weight"], X)
    return params


def passed_fit_params(sample_weight: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of ``fit`` that were passed and are not None."""
    params = {"sample_weight": sample_weight, **fit_params}
    return {name: value for name, value in params.items() if value is not None}


def _check_accepted(estimator: Any, params: dict[str, Any]) -> None:
    """Raise if an estimator's ``fit`` does not take a parameter."""
    accepted = inspect.signature(estimator.fit).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()):
        return
    unknown = [name for name in params if name not in accepted]
    if unknown:
        raise InvalidInput(
            f"the fit of {type(estimator).__name__} takes no {unknown[0]}; leave it out, or use an "
            "estimator that takes it"
        )


def check_no_threshold(model: Any, meta_estimator: Any) -> None:
    """Raise if the labels of a model, fitted or not, depend on a decision threshold.

    A meta-estimator that predicts from probabilities would ignore it.
    """
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import (
        FixedThresholdClassifier,
        GridSearchCV,
        RandomizedSearchCV,
        TunedThresholdClassifierCV,
    )
    from sklearn.pipeline import Pipeline

    if isinstance(model, FixedThresholdClassifier | TunedThresholdClassifierCV):
        owner = type(meta_estimator).__name__
        raise InvalidInput(
            f"the labels of {type(model).__name__} depend on a threshold, which {owner} would "
            "ignore, as it predicts from probabilities; pass the classifier inside. "
            "scorewise.SelectiveClassifier with "
            "rule=scorewise.rules.cost_matrix([[0, t], [1 - t, 0]]) has the threshold t"
        )
    if isinstance(model, list | tuple):
        inside = list(model)
    elif isinstance(model, Pipeline):
        inside = [step for _, step in model.steps[-1:]]
    elif hasattr(model, "best_estimator_"):
        inside = [model.best_estimator_]
    elif isinstance(model, FrozenEstimator | GridSearchCV | RandomizedSearchCV):
        inside = [model.estimator]
    else:
        inside = []
    for part in inside:
        check_no_threshold(part, meta_estimator)


def fit_router(meta_estimator: Any) -> Any:
    """Return the metadata routing of a meta-estimator whose ``fit`` fits its estimator."""
    from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping

    return (
        MetadataRouter(owner=type(meta_estimator).__name__)
        .add_self_request(meta_estimator)
        .add(
            estimator=meta_estimator.estimator,
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )
    )
