"""Adapters for scikit-learn: ensembles, lists of classifiers, and what may be put around a model.

The model in a pipeline, a search, a frozen estimator, a calibration, a classifier with a threshold
or one that is calibrated on held-out rows may be of any kind that has an adapter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise._estimators import has_several_outputs
from scorewise.errors import InvalidInput
from scorewise.models._adapters import (
    ALL_OPTIONS,
    Adapter,
    describe_members,
    has_joint_rows,
    has_members,
    instance_of,
    kind_of,
    known_classes,
    make_sampler,
)
from scorewise.models._samplers import (
    Committee,
    CommitteeSampler,
    Sampler,
    SamplingOptions,
    WidenedSampler,
    prepared_sampler,
)

# -- ensembles ------------------------------------------------------------------------------------


def _sample_forest(forest: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._ensembles import committee_of_forest
    from scorewise.models.sklearn._multi_label import committee_of_multi_label_forest

    of_labels = has_several_outputs(forest)
    committee = committee_of_multi_label_forest if of_labels else committee_of_forest
    return CommitteeSampler.of(committee(forest), options)


def _classes_of_forest(forest: Any) -> Any:
    if not has_several_outputs(forest):
        return getattr(forest, "classes_", None)
    from scorewise.models.sklearn._multi_label import classes_of_outputs

    return classes_of_outputs(forest)


def _describe_forest(forest: Any) -> str:
    rows = "a bootstrap sample of the rows" if forest.bootstrap else "all rows"
    trees = (
        f"the trees of the forest, each grown on {rows} with random splits; they differ "
        "as forests differ that are fitted again, not as draws from a posterior"
    )
    leaves = (tree.tree_.impurity[tree.tree_.children_left < 0] for tree in forest.estimators_)
    if any(impurity.any() for impurity in leaves):
        return trees
    return (
        f"{trees}; all are fully grown, which makes aleatoric uncertainty 0 in every row: set "
        "min_samples_leaf=5 if you need the parts"
    )


def _sample_bagging(bagging: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._ensembles import committee_of_bagging

    return CommitteeSampler.of(committee_of_bagging(bagging), options)


def _sample_voting(voting: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._ensembles import committee_of_voting

    return CommitteeSampler.of(committee_of_voting(voting), options)


def _sample_bootstrap(ensemble: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._bootstrap import committee_of_bootstrap

    return CommitteeSampler.of(committee_of_bootstrap(ensemble), options)


def _describe_bootstrap(ensemble: Any) -> str:
    samples = "bootstrap samples of the rows and " if ensemble.bootstrap else ""
    return (
        f"fits of {kind_of(ensemble.estimator)} with {samples}different seeds; they differ "
        "as such fits differ, and agree on what the classifier cannot learn"
    )


def _committee_of_list(models: Any) -> Committee:
    from scorewise.models.sklearn._ensembles import committee_of_classifiers
    from scorewise.models.sklearn._multi_label import committee_of_multi_label_models

    of_labels = any(map(has_several_outputs, models))
    return (committee_of_multi_label_models if of_labels else committee_of_classifiers)(models)


# -- a model for each label -----------------------------------------------------------------------

_is_by_label = instance_of(
    "sklearn.multioutput.MultiOutputClassifier", "sklearn.multiclass.OneVsRestClassifier"
)


def _sample_by_label(model: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._ensembles import check_fitted
    from scorewise.models.sklearn._multi_label import committee_of_estimators

    check_fitted(model, type(model).__name__)
    return CommitteeSampler(committee_of_estimators(model, options))


def _classes_by_label(model: Any) -> Any:
    from scorewise.models.sklearn._multi_label import classes_of_estimators

    return classes_of_estimators(model)


def _describe_by_label(model: Any) -> str:
    members = next(filter(has_members, model.estimators_), None)
    return "" if members is None else f"for each label, {describe_members(members)}"


# -- pipelines, frozen estimators, searches, calibrations, thresholds ------------------------------

_is_search_of_sklearn = instance_of(
    "sklearn.model_selection.GridSearchCV", "sklearn.model_selection.RandomizedSearchCV"
)


def _last_step(pipeline: Any) -> Any:
    return pipeline.steps[-1][1] if pipeline.steps else None


def _sample_pipeline(pipeline: Any, options: SamplingOptions) -> Sampler:
    sampler = make_sampler(_last_step(pipeline), options)
    if len(pipeline.steps) == 1:
        return sampler
    return prepared_sampler(sampler, pipeline[:-1].transform)


def _is_search(model: Any) -> bool:
    """Return whether a model is a search, fitted or not, including those of other libraries."""
    return hasattr(model, "best_estimator_") or _is_search_of_sklearn(model)


def _best_estimator(search: Any) -> Any:
    """Return the best model of a search; of one that is not fitted, the model that it fits."""
    return getattr(search, "best_estimator_", getattr(search, "estimator", None))


def _sample_search(search: Any, options: SamplingOptions) -> Sampler:
    if not hasattr(search, "best_estimator_"):
        raise InvalidInput(f"{type(search).__name__} is not fitted, or refit=False was set")
    return make_sampler(search.best_estimator_, options)


def _sample_calibrated(calibrated: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._calibrated import committee_of_calibrated

    return CommitteeSampler.of(committee_of_calibrated(calibrated, options), options)


def _describe_calibrated(calibrated: Any) -> str:
    folds = calibrated.calibrated_classifiers_
    classifier = folds[0].estimator
    if has_members(classifier):
        classifiers = "its classifier" if len(folds) == 1 else f"each of its {len(folds)} folds"
        return (
            f"those of {classifiers}, each with the calibration applied, so that their mean is not "
            f"the calibrated prediction; before it, they are {describe_members(classifier)}"
        )
    if len(folds) == 1:
        return "the calibrated classifier itself, so epistemic uncertainty is 0"
    return (
        f"the classifiers of {len(folds)} folds, each fitted without its fold and calibrated on "
        "it; they have most of their rows in common, so they differ too little"
    )


def _estimator_in(model: Any) -> Any:
    """Return the fitted model inside; where there is none, the one that was passed."""
    return getattr(model, "estimator_", model.estimator)


def _sample_threshold(classifier: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._ensembles import check_fitted

    model = _estimator_in(classifier)
    check_fitted(model, type(classifier).__name__)
    return make_sampler(model, options)


def _sample_held_out(classifier: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._ensembles import check_fitted

    check_fitted(classifier, type(classifier).__name__)
    sampler = make_sampler(classifier.estimator_, options)
    labels, classes = known_classes(classifier.estimator_), classifier.classes_
    if labels is None or np.array_equal(labels, classes):
        return sampler
    return WidenedSampler(sampler, np.searchsorted(classes, labels), len(classes))


ADAPTERS = (
    Adapter(
        matches=instance_of(
            "sklearn.ensemble.RandomForestClassifier", "sklearn.ensemble.ExtraTreesClassifier"
        ),
        classes=_classes_of_forest,
        sampler=_sample_forest,
        describe=_describe_forest,
    ),
    Adapter(
        matches=instance_of("sklearn.ensemble.BaggingClassifier"),
        sampler=_sample_bagging,
        describe=lambda bagging: (
            "the estimators of the bagging, each fitted on its own sample of rows and features; "
            "they differ as fits on new samples of the rows differ"
        ),
    ),
    Adapter(
        matches=instance_of("sklearn.ensemble.VotingClassifier"),
        sampler=_sample_voting,
        describe=lambda voting: (
            "the estimators of the vote, fitted on the same rows; they differ as methods differ, "
            "and agree where all methods err alike"
        ),
    ),
    Adapter(
        matches=instance_of("scorewise.models.sklearn._bootstrap.BootstrapEnsemble"),
        sampler=_sample_bootstrap,
        describe=_describe_bootstrap,
    ),
    Adapter(
        matches=lambda model: _is_by_label(model) and has_several_outputs(model),
        classes=_classes_by_label,
        sampler=_sample_by_label,
        options=ALL_OPTIONS,
        describe=_describe_by_label,
        inside=lambda model: model.estimator,
    ),
    Adapter(
        matches=instance_of("sklearn.pipeline.Pipeline"),
        classes=lambda pipeline: known_classes(_last_step(pipeline)),
        sampler=_sample_pipeline,
        options=ALL_OPTIONS,
        inside=_last_step,
    ),
    Adapter(
        matches=instance_of("sklearn.frozen.FrozenEstimator"),
        classes=lambda frozen: known_classes(frozen.estimator),
        sampler=lambda frozen, options: make_sampler(frozen.estimator, options),
        options=ALL_OPTIONS,
        inside=lambda frozen: frozen.estimator,
    ),
    Adapter(
        matches=instance_of("sklearn.calibration.CalibratedClassifierCV"),
        sampler=_sample_calibrated,
        options=ALL_OPTIONS,
        describe=_describe_calibrated,
        has_joint_rows=lambda calibrated: has_joint_rows(calibrated.estimator),
    ),
    Adapter(
        matches=instance_of(
            "sklearn.model_selection.FixedThresholdClassifier",
            "sklearn.model_selection.TunedThresholdClassifierCV",
        ),
        classes=lambda classifier: known_classes(_estimator_in(classifier)),
        sampler=_sample_threshold,
        options=ALL_OPTIONS,
        inside=_estimator_in,
    ),
    Adapter(
        matches=instance_of("scorewise._held_out.HeldOutClassifier"),
        sampler=_sample_held_out,
        options=ALL_OPTIONS,
        inside=_estimator_in,
    ),
    Adapter(
        matches=_is_search,
        classes=lambda search: known_classes(_best_estimator(search)),
        sampler=_sample_search,
        options=ALL_OPTIONS,
        inside=_best_estimator,
        is_fallback=True,
    ),
    Adapter(
        matches=lambda model: isinstance(model, list | tuple),
        classes=lambda models: _committee_of_list(models).classes,
        sampler=lambda models, options: CommitteeSampler.of(_committee_of_list(models), options),
        describe=lambda classifiers: (
            "the classifiers in the list, an ensemble by its mean; what they approximate depends "
            "on how they were fitted"
        ),
        is_fallback=True,
    ),
)
