"""An ensemble of any classifier, fitted with different seeds on different samples."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_consistent_length, check_is_fitted

from scorewise import _validate as validate
from scorewise._estimators import (
    check_kind,
    check_no_threshold,
    check_targets,
    fit_router,
    indexable,
    routed_fit_params,
    set_seeds,
)
from scorewise._random import generator, seed_of
from scorewise.models._predict import predict_mean, predict_samples
from scorewise.models._samplers import Committee
from scorewise.models.sklearn._ensembles import (
    check_fitted,
    check_gives_probabilities,
    committee_of_classifiers,
)


class BootstrapEnsemble(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """An ensemble of one classifier, fitted with different seeds on bootstrap samples.

    Use it to measure the uncertainty of a classifier that has no members: a logistic
    regression, nearest neighbours, a pipeline. It is a scikit-learn estimator.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        Cloned for each member; each ``random_state`` in it gets a different seed.
    n_members : int
        Number of members.
    bootstrap : bool
        Whether each member is fitted on rows drawn with replacement (within each class, so that
        every member has every class); otherwise members differ only by their seeds, and not at
        all if the estimator has none.
    n_jobs : int, optional
        Number of members fitted at a time, through joblib, with any of its backends.
    random_state : int, RandomState or Generator, optional
        Seed. The members do not depend on ``n_jobs``.
    verbose : int
        Passed to joblib.

    Attributes
    ----------
    classes_ : array (K,)
    members_ : list of fitted classifiers
    n_features_in_, feature_names_in_
        Of the members, where they have them.

    Examples
    --------
    >>> import scorewise as sw
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> ensemble = sw.BootstrapEnsemble(GaussianNB(), n_members=10, random_state=0).fit(X, y)
    >>> ensemble.predict_samples(X)
    Samples(10 members, 3 classes, batch (150,), float64)
    """

    def __init__(
        self,
        estimator: Any,
        n_members: int = 20,
        *,
        bootstrap: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.bootstrap = bootstrap
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # weights are routed to the members, if they request them, and used for nothing else
    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED}

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit all members.

        Parameters
        ----------
        X : array, sparse matrix, frame or list (n, ...)
            In a form that the estimator takes.
        y : array (n,)
            Labels.
        sample_weight : array (n,), optional
            Weights, passed to the estimator's ``fit``. They do not change which rows are drawn.
        **fit_params
            Other parameters of the estimator's ``fit``. Of arrays of n values each member gets
            those of the rows drawn for it. With scikit-learn's metadata routing the estimator gets
            what it requests.

        Raises
        ------
        InvalidInput
            If the estimator has no ``predict_proba``, does not take a parameter, or its labels
            depend on a decision threshold.
        """
        validate.whole(self.n_members, "n_members", at_least=1)
        check_kind(self.estimator)
        check_gives_probabilities(self.estimator, type(self.estimator).__name__)
        check_no_threshold(self.estimator, self)
        y = check_targets(y)
        X = indexable(X)
        check_consistent_length(X, y)
        params = routed_fit_params(self, X, sample_weight, fit_params)
        seed = seed_of(self.random_state)
        members = list(
            Parallel(n_jobs=self.n_jobs, verbose=self.verbose)(
                delayed(_fit_member)(
                    clone(self.estimator), X, y, params, seed, member, self.bootstrap
                )
                for member in range(self.n_members)
            )
        )
        check_no_threshold(members, self)  # which a search may have chosen
        if self.bootstrap:
            _check_unseen_rows(members, X, y, seed)
        self.members_, self.classes_ = members, np.unique(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the mean θ̄ of the members' probabilities.

        Parameters
        ----------
        X : array, sparse matrix, frame or list (n, ...)

        Returns
        -------
        array (n, K)
        """
        check_is_fitted(self)
        return predict_mean(self, X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels with the largest mean probability.

        Parameters
        ----------
        X : array, sparse matrix, frame or list (n, ...)

        Returns
        -------
        array (n,)
        """
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=-1)])

    def predict_samples(
        self, X: Any, n_samples: int | None = None, random_state: Any = None, **options: Any
    ) -> Any:
        """Return the members' probabilities, as :func:`scorewise.predict_samples` does.

        Parameters
        ----------
        X : rows
        n_samples, random_state, **options
            As for :func:`scorewise.predict_samples`.

        Returns
        -------
        Samples
        """
        check_is_fitted(self)
        return predict_samples(self, X, n_samples, random_state, **options)

    def __getattr__(self, name: str) -> Any:
        """Return ``n_features_in_`` and ``feature_names_in_`` of the members."""
        if name in {"n_features_in_", "feature_names_in_"} and "members_" in vars(self):
            return getattr(self.members_[0], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_metadata_routing(self) -> MetadataRouter:
        """Return scikit-learn's metadata routing: parameters of ``fit`` reach the estimator.

        Returns
        -------
        MetadataRouter
        """
        return fit_router(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.classifier_tags = get_tags(self.estimator).classifier_tags
        return tags


def _fit_member(
    estimator: Any,
    X: Any,
    y: np.ndarray,
    params: dict[str, Any],
    seed: int,
    member: int,
    bootstrap: bool,
) -> Any:
    set_seeds(estimator, generator(seed, member))
    if bootstrap:
        rows = _draw_rows(y, seed, member)
        params = _check_method_params(X, params, rows)
        X, y = _safe_indexing(X, rows), y[rows]
    return estimator.fit(X, y, **params)


def _check_unseen_rows(members: list[Any], X: Any, y: np.ndarray, seed: int) -> None:
    """Predict rows that no member was fitted on, so that an invalid row raises for every seed."""
    unseen = np.ones(len(y), dtype=bool)
    for member in range(len(members)):
        unseen[_draw_rows(y, seed, member)] = False
    if unseen.any():
        members[0].predict_proba(_safe_indexing(X, np.flatnonzero(unseen)))


def _draw_rows(y: np.ndarray, seed: int, member: int) -> np.ndarray:
    """Return rows drawn with replacement within each class, in rising order."""
    rng = generator(seed, member, 1)
    _, codes = np.unique(y, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    drawn = starts + rng.integers(np.repeat(counts, counts))
    return np.sort(order[drawn])


def committee_of_bootstrap(ensemble: BootstrapEnsemble) -> Committee:
    """Return a fitted bootstrap ensemble as a committee."""
    check_fitted(ensemble, type(ensemble).__name__)
    return committee_of_classifiers(ensemble.members_, ensemble.classes_)
