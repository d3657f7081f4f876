"""Ensembles of scikit-learn, taken apart into members that answer for the same classes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from scorewise.errors import InvalidInput
from scorewise.models.sklearn._bootstrap import BootstrapEnsemble, check_gives_probabilities
from scorewise.models.sklearn._forests import leaf_reader, rows_for

Answer = Callable[[Any], np.ndarray]


def _same(X: Any) -> Any:
    return X


@dataclass(frozen=True)
class Member:
    """One classifier of a committee.

    Attributes
    ----------
    name : str
        For messages, such as ``"member 3 (GaussianNB)"``.
    answer : callable
        From prepared rows to the probabilities ``(n, k)`` of the classes that it knows.
    columns : array (k,), optional
        Which classes of the committee these are; all of them unless given.
    score : callable, optional
        Its ``decision_function``, where it has one.
    is_tree : bool
        Whether it answers with float64 probabilities that need no check, into ``out=`` if given.
    """

    name: str
    answer: Callable[..., np.ndarray]
    columns: np.ndarray | None = None
    score: Answer | None = None
    is_tree: bool = False


@dataclass(frozen=True)
class Committee:
    """Members that vote on the same classes, about the same prepared rows."""

    members: tuple[Member, ...]
    classes: np.ndarray
    prepare: Callable[[Any], Any] = _same
    weights: np.ndarray | None = None


def take_apart(model: Any) -> Committee | None:
    """The committee in a fitted model, or None where there is none.

    Raises
    ------
    InvalidInput
        If the model is not fitted, or its members do not agree on the classes.
    """
    if isinstance(model, list | tuple):
        return of_classifiers(model)
    for kind, take in _KINDS:
        if isinstance(model, kind):
            return take(model)
    return _search(model) if hasattr(model, "best_estimator_") else None


def of_classifiers(classifiers: Sequence[Any], classes: np.ndarray | None = None) -> Committee:
    """Fitted classifiers as one committee, about the classes of whoever knows most of them."""
    if not classifiers:
        raise InvalidInput("the list of classifiers is empty")
    members = [_classifier(model, f"member {i}") for i, model in enumerate(classifiers)]
    known = [_classes(model, m.name) for model, m in zip(classifiers, members, strict=True)]
    if classes is None:
        classes = max(known, key=len)
    columns = [_align(own, classes, m.name) for own, m in zip(known, members, strict=True)]
    aligned = [replace(m, columns=own) for m, own in zip(members, columns, strict=True)]
    return Committee(tuple(aligned), classes)


def _classes(model: Any, name: str) -> np.ndarray:
    if isinstance(model.classes_, list) and np.ndim(model.classes_[0]):
        raise InvalidInput(f"{name} predicts several outputs; it must predict one")
    return np.asarray(model.classes_)


def _align(own: np.ndarray, classes: np.ndarray, name: str) -> np.ndarray | None:
    """Where a member's classes are among those of the committee."""
    if len(own) == len(classes) and bool(np.all(own == classes)):
        return None
    place = {label: k for k, label in enumerate(classes.tolist())}
    foreign = [label for label in own.tolist() if label not in place]
    if foreign:
        raise InvalidInput(
            f"{name} knows the classes {foreign}, which are not among {classes.tolist()}; fit all "
            "members on the same classes"
        )
    return np.array([place[label] for label in own.tolist()])


def _classifier(model: Any, place: str) -> Member:
    name = f"{place} ({type(model).__name__})"
    if isinstance(model, type):
        raise InvalidInput(f"{place} is the class {model.__name__}; pass a fitted object of it")
    if not hasattr(model, "fit") and not hasattr(model, "predict_proba"):
        raise InvalidInput(
            f"{name} is no classifier; a list must hold fitted classifiers only, or torch modules "
            "only (for state dicts see scorewise.DeepEnsemble.from_state_dicts)"
        )
    _check_fitted(model, name)
    check_gives_probabilities(model, name)
    if not hasattr(model, "classes_"):
        raise InvalidInput(f"{name} has no classes_; it must be a fitted classifier")
    return Member(name, model.predict_proba, score=getattr(model, "decision_function", None))


def _check_fitted(model: Any, name: str) -> None:
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise InvalidInput(f"{name} is not fitted; call its fit first") from None
    except (TypeError, AttributeError):  # no estimator of scikit-learn, so nobody knows
        return


def _bootstrap(ensemble: BootstrapEnsemble) -> Committee:
    _check_fitted(ensemble, type(ensemble).__name__)
    return of_classifiers(ensemble.members_, ensemble.classes_)


def _search(search: Any) -> Committee | None:
    if not hasattr(search, "best_estimator_"):
        raise InvalidInput(f"{type(search).__name__} is not fitted, or refit=False was set")
    return take_apart(search.best_estimator_)


def _pipeline(pipeline: Any) -> Committee | None:
    last = pipeline.steps[-1][1] if pipeline.steps else None
    inner = take_apart(last)
    if inner is None or len(pipeline.steps) == 1:
        return inner
    transform = pipeline[:-1].transform

    def prepare(X: Any) -> Any:
        return inner.prepare(transform(X))

    return replace(inner, prepare=prepare)


def _forest(forest: Any) -> Committee:
    _check_fitted(forest, type(forest).__name__)
    if forest.n_outputs_ > 1:
        raise InvalidInput(f"the forest predicts {forest.n_outputs_} outputs; it must predict one")
    members = tuple(
        Member(f"tree {i}", leaf_reader(tree), is_tree=True)
        for i, tree in enumerate(forest.estimators_)
    )
    return Committee(members, forest.classes_, partial(rows_for, forest))


def _bagging(bagging: Any) -> Committee:
    _check_fitted(bagging, type(bagging).__name__)

    def prepare(X: Any) -> Any:
        return validate_data(
            bagging,
            X,
            accept_sparse=["csr", "csc"],
            dtype=None,
            ensure_all_finite=False,
            reset=False,
        )

    def of_features(method: Answer | None, features: np.ndarray) -> Answer | None:
        return None if method is None else lambda X: method(X[:, features])

    members = []
    drawn = zip(bagging.estimators_, bagging.estimators_features_, strict=True)
    for i, (model, features) in enumerate(drawn):
        member = _classifier(model, f"member {i}")
        answer = of_features(member.answer, features)
        assert answer is not None
        score = of_features(member.score, features)
        columns = _indices(model, bagging.classes_, member.name)
        members.append(Member(member.name, answer, columns, score))
    return Committee(tuple(members), bagging.classes_, prepare)


def _indices(model: Any, classes: np.ndarray, name: str) -> np.ndarray | None:
    """The columns of a member that was fitted on the indices of the classes.

    One that was fitted before, on the classes themselves, knows them all.
    """
    own = _classes(model, name)
    return None if np.array_equal(own, classes) else _align(own, np.arange(len(classes)), name)


def _voting(voting: Any) -> Committee:
    _check_fitted(voting, type(voting).__name__)
    if voting.voting != "soft":
        raise InvalidInput(
            "the VotingClassifier votes hard, on labels; set voting='soft' so that its members "
            "give probabilities"
        )
    members = []
    for i, model in enumerate(voting.estimators_):
        member = _classifier(model, f"member {i}")
        members.append(replace(member, columns=_indices(model, voting.classes_, member.name)))
    weights = None
    if voting.weights is not None:
        used = [model != "drop" for _, model in voting.estimators]
        weights = np.asarray(voting.weights, dtype=np.float64)[used]
    return Committee(tuple(members), voting.classes_, weights=weights)


def _calibrated(calibrated: Any) -> Committee:
    """Every member of every fold's classifier, each passed through that fold's calibration.

    A fold whose classifier is no ensemble is one member.
    """
    _check_fitted(calibrated, type(calibrated).__name__)
    folds = calibrated.calibrated_classifiers_
    inner = [take_apart(fold.estimator) for fold in folds]
    members: list[Member] = []
    weights: list[float] = []
    for i, (fold, committee) in enumerate(zip(folds, inner, strict=True)):
        if committee is None:
            members.append(Member(f"fold {i}", _of_fold(fold.predict_proba, i)))
            weights.append(1.0)
            continue
        shares = committee.weights
        shares = np.ones(len(committee.members)) if shares is None else shares
        weights.extend((shares / shares.sum()).tolist())
        for member in committee.members:
            own = copy.copy(fold)
            own.estimator = _stand_in(member, committee.classes, fold.estimator)
            members.append(Member(f"fold {i}, {member.name}", _of_fold(own.predict_proba, i)))

    def prepare(X: Any) -> _PerFold:
        prepared = [X if committee is None else committee.prepare(X) for committee in inner]
        return _PerFold(prepared, (_num_samples(X),))

    equal = len(set(weights)) == 1
    return Committee(
        tuple(members), calibrated.classes_, prepare, None if equal else np.array(weights)
    )


@dataclass(frozen=True)
class _PerFold:
    """The same rows as each fold's committee takes them; as long as they are, for scikit-learn."""

    rows: list[Any]
    shape: tuple[int]


def _of_fold(answer: Answer, fold: int) -> Answer:
    return lambda prepared: answer(prepared.rows[fold])


class _StandIn(ClassifierMixin, BaseEstimator):
    """A member in the place of its ensemble, so that a fitted calibration can be asked about it."""

    def __init__(self, member: Member, classes_: np.ndarray) -> None:
        self.member = member
        self.classes_ = classes_

    def predict_proba(self, X: Any) -> np.ndarray:
        """The member's answer for all classes."""
        return spread(self.member.answer(X), self.member.columns, len(self.classes_))


class _ScoringStandIn(_StandIn):
    """The same where the calibration was fitted on scores."""

    def decision_function(self, X: Any) -> np.ndarray:
        """The member's score."""
        if self.member.score is None or self.member.columns is not None:
            raise InvalidInput(
                f"{self.member.name} has no decision_function for all classes, on which the "
                "calibration was fitted; calibrate an ensemble whose members saw all classes"
            )
        return self.member.score(X)


def _stand_in(member: Member, classes: np.ndarray, ensemble: Any) -> _StandIn:
    scored = hasattr(ensemble, "decision_function")
    return (_ScoringStandIn if scored else _StandIn)(member, classes)


def spread(probs: np.ndarray, columns: np.ndarray | None, n_classes: int) -> np.ndarray:
    """Probabilities of some classes among all of them; the others are impossible."""
    if columns is None:
        return probs
    whole = np.zeros((len(probs), n_classes), probs.dtype)
    whole[:, columns] = probs
    return whole


_KINDS: list[tuple[type | tuple[type, ...], Callable[[Any], Committee | None]]] = [
    (Pipeline, _pipeline),
    ((GridSearchCV, RandomizedSearchCV), _search),
    (FrozenEstimator, lambda frozen: take_apart(frozen.estimator)),
    ((RandomForestClassifier, ExtraTreesClassifier), _forest),
    (BaggingClassifier, _bagging),
    (VotingClassifier, _voting),
    (CalibratedClassifierCV, _calibrated),
    (BootstrapEnsemble, _bootstrap),
]
