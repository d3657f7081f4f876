"""Multi-label models of scikit-learn as committees: each label is a problem of two classes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from scorewise._estimators import has_several_outputs
from scorewise._inputs import add_missing_classes
from scorewise.errors import InvalidInput
from scorewise.models._adapters import known_classes, make_sampler
from scorewise.models._samplers import Committee, Member, SamplingOptions, committee_of
from scorewise.models.sklearn._ensembles import (
    check_fitted,
    check_gives_probabilities,
    committee_of_trees,
)


def _classes_of_labels(classes: Sequence[Any], name: str) -> np.ndarray:
    """Return the two classes that all labels have; one may be missing where a label is constant."""
    every = np.unique(np.concatenate([np.asarray(of_label) for of_label in classes]))
    for j, of_label in enumerate(classes):
        if len(of_label) > 2 or len(every) > 2:
            raise InvalidInput(
                f"output {j} of {name} has the classes {np.asarray(of_label).tolist()}, and all "
                f"outputs together {every.tolist()}; several outputs must be labels with the same "
                "two classes: fit a model for each output"
            )
    if len(every) < 2:
        raise InvalidInput(f"all labels of {name} are {every.tolist()}, so nothing is uncertain")
    return every


def _with_both_classes(probs: np.ndarray, of_label: Any, classes: np.ndarray) -> np.ndarray:
    """Return probabilities ``(..., 2)`` of both classes, of which a label may have only one."""
    columns = None if len(of_label) == 2 else np.searchsorted(classes, of_label)
    return add_missing_classes(probs, columns, 2)


# -- forests --------------------------------------------------------------------------------------


def classes_of_outputs(model: Any) -> np.ndarray:
    """Return the two classes of a model whose ``classes_`` are those of each label."""
    return _classes_of_labels(model.classes_, type(model).__name__)


def committee_of_multi_label_forest(forest: Any) -> Committee:
    """Return a forest that was fitted on several labels as a committee."""
    classes = classes_of_outputs(forest)

    def values(tree: Any) -> np.ndarray:
        by_label = [
            _with_both_classes(tree.value[:, j, : len(of_label)], of_label, classes)
            for j, of_label in enumerate(forest.classes_)
        ]
        return np.stack(by_label, axis=1)

    return committee_of_trees(forest, classes, values, len(forest.classes_))


# -- a model for each label -----------------------------------------------------------------------


def classes_of_estimators(model: Any) -> np.ndarray:
    """Return the two classes of a model with an estimator for each label."""
    return _classes_of_labels(_labels_of_estimators(model), type(model).__name__)


def _labels_of_estimators(model: Any) -> list[Any]:
    return [[0, 1] if _is_constant(e) else known_classes(e) for e in model.estimators_]


def _is_constant(estimator: Any) -> bool:
    """Return whether OneVsRestClassifier saw a label in all rows, or in none."""
    return type(estimator).__name__ == "_ConstantPredictor"


def committee_of_estimators(model: Any, options: SamplingOptions) -> Committee:
    """Return a model with an estimator for each label as a committee.

    Member m of all labels is one member. Labels are separate problems, so it does not matter which
    members are put together.
    """
    name, estimators = type(model).__name__, model.estimators_
    labels = _labels_of_estimators(model)
    classes = _classes_of_labels(labels, name)
    committees = {
        j: committee_of(make_sampler(estimator, options), np.asarray(labels[j]))
        for j, estimator in enumerate(estimators)
        if not _is_constant(estimator)
    }
    sizes = {len(committee.members) for committee in committees.values()}
    weights = {None if c.weights is None else tuple(c.weights) for c in committees.values()}
    if len(sizes) != 1 or len(weights) > 1:
        raise InvalidInput(
            f"the labels of {name} have {sorted(sizes)} members, and must have as many, of the "
            "same weights; sample from each of its estimators_ alone"
        )

    def predict_label(j: int, m: int, rows: Any) -> np.ndarray:
        if j not in committees:
            return np.asarray(estimators[j].predict_proba(rows), dtype=np.float64)
        member = committees[j].members[m]
        probs = add_missing_classes(member.predict(rows), member.columns, len(labels[j]))
        return _with_both_classes(probs, labels[j], classes)

    def predict(m: int, prepared: list[Any]) -> np.ndarray:
        return np.stack([predict_label(j, m, rows) for j, rows in enumerate(prepared)], axis=1)

    def prepare(X: Any) -> list[Any]:
        return [committees[j].prepare(X) if j in committees else X for j in range(len(estimators))]

    members = tuple(Member(f"member {m}", partial(predict, m)) for m in range(sizes.pop()))
    of_members = next(iter(committees.values())).weights
    return Committee(members, classes, prepare, of_members, len(estimators))


# -- lists ----------------------------------------------------------------------------------------


def committee_of_multi_label_models(models: Sequence[Any]) -> Committee:
    """Return fitted multi-label models as a committee; each is one member."""
    names = [f"member {i} ({type(model).__name__})" for i, model in enumerate(models)]
    labels = [_labels_of_model(model, name) for model, name in zip(models, names, strict=True)]
    own = [_classes_of_labels(x, name) for x, name in zip(labels, names, strict=True)]
    for i, name in enumerate(names):
        if len(labels[i]) != len(labels[0]) or not np.array_equal(own[i], own[0]):
            raise InvalidInput(
                f"{name} has {len(labels[i])} labels with the classes {own[i].tolist()}, "
                f"{names[0]} {len(labels[0])} with {own[0].tolist()}; fit all members on the same "
                "labels"
            )

    def predict(i: int, X: Any) -> np.ndarray:
        probs = models[i].predict_proba(X)
        if not isinstance(probs, list):  # the probability (n, L) of class 1
            return np.stack([1 - probs, probs], axis=-1)
        by_label = zip(probs, labels[i], strict=True)
        return np.stack([_with_both_classes(p, c, own[0]) for p, c in by_label], axis=1)

    members = tuple(Member(name, partial(predict, i)) for i, name in enumerate(names))
    return Committee(members, own[0], n_labels=len(labels[0]))


def _labels_of_model(model: Any, name: str) -> Sequence[Any]:
    """Return the classes of each label of a multi-label model."""
    if not has_several_outputs(model):
        raise InvalidInput(
            f"{name} predicts one label per row, and another member several; pass members of one "
            "kind"
        )
    check_fitted(model, name)
    check_gives_probabilities(model, name)
    classes: Sequence[Any] = model.classes_
    return classes if np.ndim(classes[0]) else [[0, 1]] * len(classes)
