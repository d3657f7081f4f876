"""Ensembles of scikit-learn as committees: forests, bagging, soft voting, lists of classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from scorewise._estimators import check_kind
from scorewise.errors import InvalidInput
from scorewise.models._adapters import find_adapter, known_classes, make_sampler
from scorewise.models._samplers import Committee, Member, SamplingOptions, mean_of

# -- lists of classifiers -------------------------------------------------------------------------


def committee_of_classifiers(
    classifiers: Sequence[Any], classes: np.ndarray | None = None
) -> Committee:
    """Return fitted classifiers as a committee; classes are those of the member with most."""
    if not classifiers:
        raise InvalidInput("the list of classifiers is empty")
    members = [_member(model, f"member {i}") for i, model in enumerate(classifiers)]
    labels = list(map(_labels, classifiers))
    if classes is None:
        classes = max(labels, key=len)
    aligned = tuple(
        replace(member, columns=align(member_labels, classes, member.name))
        for member, member_labels in zip(members, labels, strict=True)
    )
    return Committee(aligned, classes)


def _member(model: Any, position: str) -> Member:
    """Return a fitted classifier as a single member, even if it is an ensemble."""
    name = f"{position} ({type(model).__name__})"
    if isinstance(model, type):
        raise InvalidInput(f"{position} is the class {model.__name__}; pass a fitted object of it")
    check_kind(model, name)
    if not hasattr(model, "predict_proba"):
        adapter = find_adapter(model)
        if adapter is not None and adapter.classes(model) is not None:
            return Member(name, partial(mean_of, make_sampler(model, SamplingOptions())))
        if not hasattr(model, "fit"):
            raise InvalidInput(
                f"{name} is not a classifier, as it has no predict_proba; a list must hold fitted "
                "classifiers only, native boosters only (booster_ or get_booster() of a boosted "
                "classifier is its own), or torch modules only (for state dicts see "
                "scorewise.DeepEnsemble.from_state_dicts)"
            )
    check_fitted(model, name)
    check_gives_probabilities(model, name)
    if not hasattr(model, "classes_"):
        raise InvalidInput(f"{name} has no classes_; it must be a fitted classifier")
    scores = getattr(model, "decision_function", None)
    return Member(name, model.predict_proba, decision_function=scores)


def _labels(model: Any) -> np.ndarray:
    labels = known_classes(model)  # raises for boosted models of several labels
    return np.asarray(getattr(model, "classes_", labels))


def align(labels: np.ndarray, classes: np.ndarray, name: str) -> np.ndarray | None:
    """Return the indices of a member's labels among the classes; None if they are the same."""
    if len(labels) == len(classes) and bool(np.all(labels == classes)):
        return None
    index = {label: k for k, label in enumerate(classes.tolist())}
    unknown = [label for label in labels.tolist() if label not in index]
    if unknown:
        raise InvalidInput(
            f"{name} has the classes {unknown}, which are not among {classes.tolist()}; fit all "
            "members on the same classes"
        )
    return np.array([index[label] for label in labels.tolist()])


def check_fitted(model: Any, name: str) -> None:
    """Raise if an estimator of scikit-learn is not fitted."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise InvalidInput(f"{name} is not fitted; call its fit first") from None
    except (TypeError, AttributeError):  # not an estimator of scikit-learn
        return


def check_gives_probabilities(model: Any, name: str) -> None:
    """Raise if a model, fitted or not, has no predict_proba."""
    if not hasattr(model, "predict_proba"):
        raise InvalidInput(
            f"{name} has no predict_proba; use a classifier that gives probabilities, or wrap it "
            "in sklearn.calibration.CalibratedClassifierCV"
        )


# -- forests --------------------------------------------------------------------------------------

# A tree's own predict_proba checks and converts its input each time. Here that is done
# once for the whole forest, and each tree only looks up its leaves.


def committee_of_forest(forest: Any) -> Committee:
    """Return a fitted forest as a committee."""
    check_fitted(forest, type(forest).__name__)
    return committee_of_trees(forest, forest.classes_, lambda tree: tree.value[:, 0, :])


def committee_of_trees(
    forest: Any,
    classes: np.ndarray,
    values: Callable[[Any], np.ndarray],
    n_labels: int | None = None,
) -> Committee:
    """Return the trees of a forest as a committee; ``values`` are those of a tree's nodes."""
    members = tuple(
        Member(f"tree {i}", _leaf_reader(tree.tree_, values(tree.tree_)), is_tree=True)
        for i, tree in enumerate(forest.estimators_)
    )
    return Committee(members, classes, partial(_rows_for_trees, forest), n_labels=n_labels)


def _leaf_reader(tree: Any, values: np.ndarray) -> Callable[..., np.ndarray]:
    """Return a function from :func:`_rows_for_trees` to the values of a tree's leaves."""

    def read(X: Any, out: np.ndarray | None = None) -> np.ndarray:
        # Leaves are in range; mode="clip" lets NumPy write into out without a buffer.
        return np.take(values, tree.apply(X), axis=0, out=out, mode="clip")

    return read


def _rows_for_trees(forest: Any, X: Any) -> Any:
    """Return rows in the form that trees read, checked as ``forest.predict_proba`` checks them."""
    may_have_nan = get_tags(forest).input_tags.allow_nan and not issparse(X)
    rows = validate_data(
        forest,
        X,
        dtype=np.float32,
        accept_sparse="csr",
        ensure_all_finite="allow-nan" if may_have_nan else True,
        reset=False,
    )
    if issparse(rows) and rows.indices.dtype != np.intc:  # which trees cannot read
        parts = (rows.data, rows.indices.astype(np.intc), rows.indptr.astype(np.intc))
        return type(rows)(parts, shape=rows.shape)
    return rows


# -- bagging and voting ---------------------------------------------------------------------------


def committee_of_bagging(bagging: Any) -> Committee:
    """Return a fitted bagging classifier as a committee."""
    check_fitted(bagging, type(bagging).__name__)

    def prepare(X: Any) -> Any:
        return validate_data(
            bagging,
            X,
            accept_sparse=["csr", "csc"],
            dtype=None,
            ensure_all_finite=False,
            reset=False,
        )

    def on_features(
        function: Callable[..., np.ndarray], features: np.ndarray
    ) -> Callable[[Any], np.ndarray]:
        return lambda X: function(X[:, features])

    members = []
    drawn = zip(bagging.estimators_, bagging.estimators_features_, strict=True)
    for i, (model, features) in enumerate(drawn):
        member = _member(model, f"member {i}")
        scores = member.decision_function
        members.append(
            Member(
                member.name,
                on_features(member.predict, features),
                _columns_of_indices(model, bagging.classes_, member.name),
                None if scores is None else on_features(scores, features),
            )
        )
    return Committee(tuple(members), bagging.classes_, prepare)


def _columns_of_indices(model: Any, classes: np.ndarray, name: str) -> np.ndarray | None:
    """The columns of a member that was fitted on the indices of the classes.

    A member that was fitted beforehand, on the classes themselves, has all of them.
    """
    labels = _labels(model)
    if np.array_equal(labels, classes):
        return None
    return align(labels, np.arange(len(classes)), name)


def committee_of_voting(voting: Any) -> Committee:
    """Return a fitted soft-voting classifier as a committee."""
    check_fitted(voting, type(voting).__name__)
    if voting.voting != "soft":
        raise InvalidInput(
            "the VotingClassifier uses hard voting, on labels; set voting='soft' so that its "
            "members give probabilities"
        )
    members = []
    for i, model in enumerate(voting.estimators_):
        member = _member(model, f"member {i}")
        columns = _columns_of_indices(model, voting.classes_, member.name)
        members.append(replace(member, columns=columns))
    weights = None
    if voting.weights is not None:
        used = [model != "drop" for _, model in voting.estimators]
        weights = np.asarray(voting.weights, dtype=np.float64)[used]
    return Committee(tuple(members), voting.classes_, weights=weights)
