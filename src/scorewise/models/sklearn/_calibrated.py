"""A calibration of scikit-learn as a committee; the model inside may be of any kind."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import _num_samples

from scorewise._inputs import add_missing_classes
from scorewise.errors import InvalidInput
from scorewise.models._adapters import check_options, has_members, known_classes, make_sampler
from scorewise.models._samplers import Committee, Member, SamplingOptions, committee_of
from scorewise.models.sklearn._ensembles import check_fitted


def committee_of_calibrated(calibrated: Any, options: SamplingOptions) -> Committee:
    """Return all members of all folds' classifiers, each passed through its fold's calibration.

    A fold whose classifier has no members is one member.
    """
    check_fitted(calibrated, type(calibrated).__name__)
    folds = calibrated.calibrated_classifiers_
    committees = [_committee_of_fold(fold.estimator, options) for fold in folds]
    members: list[Member] = []
    weights: list[float] = []
    for i, (fold, committee) in enumerate(zip(folds, committees, strict=True)):
        if committee is None:
            members.append(Member(f"fold {i}", _on_fold(fold.predict_proba, i)))
            weights.append(1.0)
            continue
        fold_weights = committee.weights
        if fold_weights is None:
            fold_weights = np.ones(len(committee.members))
        weights.extend((fold_weights / fold_weights.sum()).tolist())
        for member in committee.members:
            calibration = copy.copy(fold)
            calibration.estimator = _stand_in(member, committee.classes, fold.estimator)
            name = f"fold {i}, {member.name}"
            members.append(Member(name, _on_fold(calibration.predict_proba, i)))

    def prepare(X: Any) -> _RowsPerFold:
        prepared = [X if committee is None else committee.prepare(X) for committee in committees]
        return _RowsPerFold(prepared, (_num_samples(X),))

    are_equal = len(set(weights)) == 1
    return Committee(
        tuple(members), calibrated.classes_, prepare, None if are_equal else np.array(weights)
    )


def _committee_of_fold(model: Any, options: SamplingOptions) -> Committee | None:
    """Return all members of a fold's classifier, or None if it has none."""
    if not has_members(model):
        check_options(type(model).__name__, (), options)
        return None
    classes = known_classes(model)
    if classes is None:
        classes = model.classes_
    return committee_of(make_sampler(model, replace(options, n_samples=None)), classes)


@dataclass(frozen=True)
class _RowsPerFold:
    """The rows as prepared by each fold's committee, with the number of rows as shape."""

    rows: list[Any]
    shape: tuple[int]


def _on_fold(
    predict: Callable[[Any], np.ndarray], fold: int
) -> Callable[[_RowsPerFold], np.ndarray]:
    return lambda prepared: predict(prepared.rows[fold])


class _StandIn(ClassifierMixin, BaseEstimator):
    """A member that replaces its ensemble in a calibration, which is then applied to it."""

    def __init__(self, member: Member, classes_: np.ndarray) -> None:
        self.member = member
        self.classes_ = classes_

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the member's probabilities of all classes."""
        return add_missing_classes(self.member.predict(X), self.member.columns, len(self.classes_))


class _ScoringStandIn(_StandIn):
    """A stand-in for calibrations that were fitted on scores."""

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the member's scores."""
        if self.member.decision_function is None or self.member.columns is not None:
            raise InvalidInput(
                f"the calibration was fitted on decision_function, but {self.member.name} has none "
                "for all classes; calibrate an ensemble without decision_function, or one whose "
                "members have it and saw all classes"
            )
        return self.member.decision_function(X)


def _stand_in(member: Member, classes: np.ndarray, ensemble: Any) -> _StandIn:
    has_scores = hasattr(ensemble, "decision_function")
    return (_ScoringStandIn if has_scores else _StandIn)(member, classes)
