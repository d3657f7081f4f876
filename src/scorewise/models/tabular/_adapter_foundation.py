"""Adapters for foundation models of tabular data: TabPFN and TabICL.

Each is one trained network that is called several times, with the training rows as context: with
features and classes in another order each time, and after another preprocessing. These calls, the
estimators of its ensemble, are the members. Both networks treat new rows one by one.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from scorewise.errors import InvalidInput
from scorewise.models._adapters import Adapter, instance_of
from scorewise.models._samplers import CommitteeSampler, Sampler, SamplingOptions, joint_committee

_PRESENTATIONS = (
    "calls of one network with features and classes in other orders and with other preprocessing; "
    "they show how much the prediction depends on that alone, not what new rows could teach"
)


# -- TabPFN, from 6.0 on --------------------------------------------------------------------------


def _sample_tabpfn(model: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._ensembles import check_fitted

    check_fitted(model, type(model).__name__)
    if not hasattr(model, "predict_raw_logits"):
        raise InvalidInput(
            "this version of tabpfn does not return its estimators; use 6.0 or later"
        )
    chosen = options.choose_members(getattr(model, "n_estimators_", model.n_estimators))

    def predict(X: Any) -> np.ndarray:
        logits = model.predict_raw_logits(X)
        probs = [np.asarray(model.logits_to_probabilities(logits[i])) for i in chosen]
        return np.stack(probs, axis=1)

    return CommitteeSampler(joint_committee(predict, len(chosen), model.classes_))


def _describe_tabpfn(model: Any) -> str:
    changes = {
        "average_before_softmax": model.average_before_softmax,
        "balance_probabilities": model.balance_probabilities,
        "tuned thresholds": getattr(model, "tuned_classification_thresholds_", None) is not None,
        "downsampling": getattr(model, "downsample_correction_weights_", None) is not None,
    }
    reasons = [name for name, is_set in changes.items() if is_set]
    if not reasons:
        return f"{_PRESENTATIONS}; their mean is predict_proba"
    return f"{_PRESENTATIONS}; their mean is not predict_proba, because of {', '.join(reasons)}"


# -- TabICL, from 2.0 on --------------------------------------------------------------------------


def _sample_tabicl(model: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._ensembles import check_fitted

    check_fitted(model, type(model).__name__)
    if not hasattr(model.ensemble_generator_, "class_shuffles_"):
        raise InvalidInput("this version of tabicl is not supported; use 2.0 or later")
    configs = model.ensemble_generator_.ensemble_configs_
    places = [(method, i) for method in configs for i in range(len(configs[method]))]
    members = [_member(model, *places[m]) for m in options.choose_members(len(places))]

    def predict(X: Any) -> np.ndarray:
        return np.stack([member.predict_proba(X) for member in members], axis=1)

    return CommitteeSampler(joint_committee(predict, len(members), model.classes_))


def _member(model: Any, method: str, i: int) -> Any:
    """Return the classifier with a single estimator: number i of a normalization method."""
    generator = copy.copy(model.ensemble_generator_)
    for name in ("ensemble_configs_", "feature_shuffles_", "class_shuffles_"):
        setattr(generator, name, {method: getattr(generator, name)[method][i : i + 1]})
    member = copy.copy(model)
    member.ensemble_generator_ = generator
    if model.model_kv_cache_ is not None:
        member.model_kv_cache_ = {method: model.model_kv_cache_[method].slice_batch(i, i + 1)}
    return member


def _describe_tabicl(model: Any) -> str:
    if not model.average_logits:
        return f"{_PRESENTATIONS}; their mean is predict_proba"
    return (
        f"{_PRESENTATIONS}; their mean is not predict_proba, which averages logits: fit with "
        "average_logits=False if it must be"
    )


ADAPTERS = (
    Adapter(
        matches=instance_of("tabpfn.TabPFNClassifier"),
        sampler=_sample_tabpfn,
        describe=_describe_tabpfn,
    ),
    Adapter(
        matches=instance_of("tabicl.TabICLClassifier"),
        sampler=_sample_tabicl,
        describe=_describe_tabicl,
    ),
)
