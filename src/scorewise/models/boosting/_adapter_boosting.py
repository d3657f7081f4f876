"""Adapters for boosted trees: one fitted model, or a list of native ones.

A list of models with ``predict_proba`` is a list of classifiers, which another adapter takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scorewise.errors import InvalidInput
from scorewise.models._adapters import Adapter, instance_of
from scorewise.models._samplers import Committee, CommitteeSampler, Sampler, SamplingOptions

if TYPE_CHECKING:
    from scorewise.models.boosting._truncation import BoostedModel

_is_of_lightgbm = instance_of("lightgbm.LGBMClassifier", "lightgbm.Booster")
_is_cross_validated = instance_of("lightgbm.CVBooster")
_is_of_xgboost = instance_of("xgboost.XGBClassifier", "xgboost.Booster")
_is_of_catboost = instance_of("catboost.CatBoost")
_is_of_sklearn = instance_of(
    "sklearn.ensemble.HistGradientBoostingClassifier", "sklearn.ensemble.GradientBoostingClassifier"
)


def _is_boosted(model: Any) -> bool:
    kinds = (_is_of_lightgbm, _is_of_xgboost, _is_of_catboost, _is_of_sklearn)
    return _is_cross_validated(model) or any(is_of_kind(model) for is_of_kind in kinds)


def _is_native(model: Any) -> bool:
    # a CVBooster has every attribute
    return _is_boosted(model) and (
        _is_cross_validated(model) or not hasattr(model, "predict_proba")
    )


def _are_native(model: Any) -> bool:
    return isinstance(model, list | tuple) and len(model) > 0 and all(map(_is_native, model))


def _boosted_model(model: Any) -> BoostedModel:
    """Return a fitted model of any of the libraries as a sum over its iterations."""
    if _is_cross_validated(model):
        raise InvalidInput(
            "a CVBooster has a model for each fold; pass the list of them, as in "
            "predict_samples(cv.boosters, X)"
        )
    if _is_of_lightgbm(model):
        from scorewise.models.boosting import _lightgbm

        return _lightgbm.boosted_model(model)
    if _is_of_xgboost(model):
        from scorewise.models.boosting import _xgboost

        return _xgboost.boosted_model(model)
    if _is_of_catboost(model):
        from scorewise.models.boosting import _catboost

        return _catboost.boosted_model(model)
    from scorewise.models.boosting import _staged

    return _staged.boosted_model(model)


def _sample_model(model: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.boosting import _catboost, _truncation

    boosted = _boosted_model(model)
    if _is_of_catboost(model) and _catboost.samples_its_posterior(model):
        return CommitteeSampler(_catboost.virtual_ensemble(model, boosted, options))
    return CommitteeSampler(_truncation.truncated_models(boosted, options))


def _classes_of_model(model: Any) -> Any:
    """Return the labels of a model that has some; raises if it was trained on several at once."""
    labels = getattr(model, "classes_", None)
    if labels is not None and _is_of_xgboost(model):
        from scorewise.models.boosting import _xgboost

        _xgboost.check_one_label(model.get_booster(), type(model).__name__)
    elif labels is not None and _is_of_catboost(model):
        from scorewise.models.boosting import _catboost

        _catboost.check_one_label(model)
    return labels


def _committee_of_list(models: Any) -> Committee:
    from scorewise.models.boosting._truncation import whole_models

    boosted = [_boosted_model(model) for model in models]
    n_classes = max(len(member.classes) for member in boosted)
    for i, (model, member) in enumerate(zip(models, boosted, strict=True)):
        if not hasattr(model, "classes_") and len(member.classes) < n_classes:
            raise InvalidInput(
                f"member {i} ({member.name}) has {len(member.classes)} classes and another member "
                f"{n_classes}, and a {member.name} does not know which; fit all members on the "
                "same classes"
            )
    return whole_models(boosted)


def _classes_of_list(models: Any) -> Any:
    """Return the labels of models that have some; native boosters number their classes."""
    has_labels = any(hasattr(model, "classes_") for model in models)
    return _committee_of_list(models).classes if has_labels else None


def _describe_model(model: Any) -> str:
    from scorewise.models.boosting import _catboost

    if _is_of_catboost(model) and _catboost.samples_its_posterior(model):
        return (
            "its virtual ensemble, states of its training with noise; they approximate samples "
            "from a posterior, and have most trees in common"
        )
    return (
        "its boosting sequence, truncated and resampled; they are no samples from a posterior, so "
        "epistemic uncertainty ranks rows and its size means little, and their mean is less "
        "confident than predict_proba"
    )


ADAPTERS = (
    Adapter(
        matches=_is_boosted,
        classes=_classes_of_model,
        sampler=_sample_model,
        describe=_describe_model,
    ),
    Adapter(
        matches=_are_native,
        classes=_classes_of_list,
        sampler=lambda models, options: CommitteeSampler.of(_committee_of_list(models), options),
        describe=lambda models: (
            "the models in the list, an ensemble by its mean; what they approximate depends on how "
            "they were fitted"
        ),
    ),
)
