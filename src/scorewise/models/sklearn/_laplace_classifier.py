"""Logistic regression with draws of its coefficients: the Laplace approximation in closed form.

With probabilities p_i of the training rows x_i, weights w_i and the prior precision Λ, which is
1/C for each coefficient and 0 for the intercept, the posterior is approximated by N(v, H⁻¹) around
the fitted coefficients v, where H = Λ + Σ w_i A (diag p_i − p_i p_iᵀ) Aᵀ ⊗ x_i x_iᵀ.

Adding the same vector to the coefficients of all classes changes no probability, so with K > 2
classes H would be singular in the intercepts. The rows of A ``(K−1, K)`` are an orthonormal basis
of the contrasts between classes, and v are the K − 1 contrasts of the coefficients. The prior
is the same for each contrast, so nothing is lost. With two classes the only contrast is the
logit, as in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import LinAlgError, cholesky, helmert, solve_triangular
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing, gen_batches, get_tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from scorewise import _validate as validate
from scorewise._estimators import (
    check_kind,
    check_targets,
    fit_router,
    indexable,
    routed_fit_params,
)
from scorewise._random import generator
from scorewise._text import quoted_names
from scorewise.errors import InvalidInput
from scorewise.models._predict import predict_samples
from scorewise.models._samplers import Committee, Member, SamplingOptions
from scorewise.models.sklearn._ensembles import check_fitted

_MOST_COEFFICIENTS = 8000  # whose Hessian has 0.5 GB
_BLOCK = 1 << 22  # numbers of dense rows at a time
_FAR = 0.25  # posterior standard deviations from the maximum; converged fits are below 0.15


class LaplaceClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A logistic regression whose members are draws of its coefficients from their posterior.

    Use it to measure the uncertainty of a ``LogisticRegression`` at the cost of one fit. The
    posterior is approximated by a Gaussian around the fitted coefficients, with the Hessian of the
    log posterior at the training rows (Laplace). The prior is that of the L2 penalty: N(0, C) for
    each coefficient, and flat for the intercept. It is a scikit-learn estimator.

    Parameters
    ----------
    estimator : LogisticRegression or LogisticRegressionCV
        Or a pipeline, a search or a ``FrozenEstimator`` that ends in one. A frozen one is not
        fitted again: pass its training rows to ``fit``. Of a ``LogisticRegressionCV``, which must
        refit, the prior has the C that it chose.

    Attributes
    ----------
    classes_ : array (K,)
    estimator_ : fitted estimator
    posterior_ : CoefficientPosterior
    n_features_in_, feature_names_in_
        Of the estimator, where it has them.

    Examples
    --------
    >>> import scorewise as sw
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = sw.LaplaceClassifier(LogisticRegression(max_iter=1000)).fit(X, y)
    >>> model.predict_samples(X, random_state=0)
    Samples(20 members, 3 classes, batch (150,), float64)
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    # weights are routed to the estimator, if it requests them, and count in the Hessian
    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator, and the posterior of its coefficients.

        Parameters
        ----------
        X : array, sparse matrix, frame or list (n, ...)
            In a form that the estimator takes.
        y : array (n,)
            Labels.
        sample_weight : array (n,), optional
            Weights, passed to the estimator's ``fit``. A row of weight 2 counts as two rows.

        Raises
        ------
        InvalidInput
            If the estimator is no logistic regression, its penalty is not L2, it has more than
            8,000 coefficients, or there is no posterior.

        Warns
        -----
        ScorewiseWarning
            If the coefficients are not at the maximum of the posterior.
        """
        check_kind(self.estimator)
        y = check_targets(y)
        X = indexable(X)
        check_consistent_length(X, y)
        params = routed_fit_params(self, X, sample_weight, {})
        self.estimator_ = clone(self.estimator).fit(X, y, **params)
        model, prepare = _regression_in(self.estimator_)
        unknown = np.setdiff1d(y, model.classes_)
        if len(unknown):  # of a regression that was fitted before
            raise InvalidInput(
                f"y has the labels {quoted_names(unknown.tolist())}, and the regression was fitted "
                f"on {quoted_names(model.classes_.tolist())}; pass the rows of that fit"
            )
        self.posterior_ = _fit_posterior(model, prepare(X), y, params.get("sample_weight"))
        self.classes_ = model.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the fitted coefficients; the mean of draws is less certain.

        Parameters
        ----------
        X : array, sparse matrix, frame or list (n, ...)

        Returns
        -------
        array (n, K)
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels that the estimator predicts.

        Parameters
        ----------
        X : array, sparse matrix, frame or list (n, ...)

        Returns
        -------
        array (n,)
        """
        check_is_fitted(self)
        return self.estimator_.predict(X)

    def predict_samples(
        self, X: Any, n_samples: int | None = None, random_state: Any = None, **options: Any
    ) -> Any:
        """Return the draws' probabilities, as :func:`scorewise.predict_samples` does.

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
        """Return ``n_features_in_`` and ``feature_names_in_`` of the estimator."""
        if name in {"n_features_in_", "feature_names_in_"} and "estimator_" in vars(self):
            return getattr(self.estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_metadata_routing(self) -> MetadataRouter:
        """Return scikit-learn's metadata routing: weights reach the estimator.

        Returns
        -------
        MetadataRouter
        """
        return fit_router(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.classifier_tags = get_tags(self.estimator).classifier_tags
        return tags


def _regression_in(model: Any) -> tuple[LogisticRegression, Any]:
    """Return a fitted logistic regression, and the function from rows to those that it takes."""
    if isinstance(model, FrozenEstimator):
        return _regression_in(model.estimator)
    if hasattr(model, "best_estimator_"):
        return _regression_in(model.best_estimator_)
    if isinstance(model, Pipeline):
        regression, prepare = _regression_in(model[-1])
        if len(model.steps) == 1:
            return regression, prepare
        return regression, lambda X: prepare(model[:-1].transform(X))
    if isinstance(model, LogisticRegressionCV) and not model.refit:
        raise InvalidInput(
            "the LogisticRegressionCV averages the coefficients of its folds, which are at the "
            "maximum of no posterior; set refit=True"
        )
    if not isinstance(model, LogisticRegression):
        raise InvalidInput(
            "LaplaceClassifier takes a LogisticRegression, or a pipeline, GridSearchCV or "
            f"FrozenEstimator that ends in one, not {type(model).__name__}"
        )
    return model, partial(validate_data, model, accept_sparse="csr", reset=False)


# -- the posterior --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CoefficientPosterior:
    """The Gaussian N(v, H⁻¹) of the contrasts of coefficients.

    Attributes
    ----------
    mode : array (K − 1, d)
        The contrasts v, with the intercept last.
    factor : array (D, D)
        The lower triangular L with L Lᵀ = H, for the D = (K − 1) d contrasts in rising order.
    contrasts : array (K − 1, K)
        The matrix A from contrasts to the coefficients of the classes.
    """

    mode: np.ndarray
    factor: np.ndarray
    contrasts: np.ndarray

    def draw(self, n_draws: int, seed: int) -> np.ndarray:
        """Return draws of the coefficients of the classes ``(n_draws, d, K)``."""
        z = generator(seed).standard_normal((n_draws, self.mode.size))
        deviations = solve_triangular(self.factor, z.T, lower=True, trans="T").T
        drawn = self.mode + deviations.reshape(n_draws, *self.mode.shape)
        return drawn.swapaxes(1, 2) @ self.contrasts


def _fit_posterior(
    model: LogisticRegression, X: Any, y: np.ndarray, sample_weight: Any
) -> CoefficientPosterior:
    """Return the posterior of a fitted regression, from the rows that it was fitted on."""
    penalty = _penalty(model)
    contrasts = _contrasts(len(model.classes_))
    coefficients = np.column_stack([model.coef_, model.intercept_]).astype(np.float64)
    mode = coefficients if len(contrasts) == 1 else contrasts @ coefficients
    prior = np.full(mode.shape[1], penalty)
    prior[-1] = penalty / model.intercept_scaling**2 if model.solver == "liblinear" else 0
    if not model.fit_intercept:
        mode, prior = mode[:, :-1], prior[:-1]
    if mode.size > _MOST_COEFFICIENTS:
        raise InvalidInput(
            f"the regression has {mode.size:,} free coefficients, and their covariance "
            f"{mode.size**2:,} numbers; at most {_MOST_COEFFICIENTS:,} coefficients are supported. "
            "Reduce the features, for instance by TruncatedSVD, or use scorewise.BootstrapEnsemble"
        )
    weights = _weights_of_rows(model, X, y, sample_weight)
    is_separated = True
    hessian = np.zeros((*mode.shape, *mode.shape))
    gradient = prior * mode
    diagonal = np.einsum("aiai->ai", hessian)  # a view
    diagonal += prior
    for rows, design in _blocks_of_rows(X, model.fit_intercept):
        probs = softmax(design @ mode.T @ contrasts, axis=1)
        labels = y[rows, None] == model.classes_
        is_right = labels[np.arange(len(probs)), probs.argmax(axis=1)]
        is_separated &= bool(is_right[weights[rows] > 0].all())
        residuals = probs - labels
        gradient += (weights[rows, None] * residuals @ contrasts.T).T @ design
        means = probs @ contrasts.T
        for a, b in zip(*np.tril_indices(len(contrasts)), strict=True):
            curvature = probs @ (contrasts[a] * contrasts[b]) - means[:, a] * means[:, b]
            hessian[a, :, b] += design.T @ (design * (weights[rows] * curvature)[:, None])
    if is_separated and not penalty:
        raise InvalidInput(
            "the regression has no penalty and separates the classes, so its coefficients grow "
            "without bound and have no posterior; fit it with a finite C"
        )
    factor = _factor(hessian.reshape(mode.size, mode.size))
    _check_is_maximum(solve_triangular(factor, gradient.ravel(), lower=True))
    return CoefficientPosterior(mode, factor, contrasts)


def _penalty(model: LogisticRegression) -> float:
    """Return the precision of the prior; raises for a posterior of another form."""
    penalty = getattr(model, "penalty", "deprecated")  # as scikit-learn will remove it
    if isinstance(model, LogisticRegressionCV):  # alike for all classes
        c, l1_ratio = np.ravel(model.C_)[0], np.ravel(model.l1_ratio_)[0]
    else:
        c, l1_ratio = model.C, model.l1_ratio
    if penalty == "l1" or (penalty in {"deprecated", "elasticnet"} and l1_ratio):
        raise InvalidInput(
            "the L1 penalty has no Hessian where it sets coefficients to 0; fit the regression "
            "with the L2 penalty, or use scorewise.BootstrapEnsemble"
        )
    other_form = "multinomial" if len(model.classes_) == 2 else "ovr"
    if getattr(model, "multi_class", None) == other_form:  # until scikit-learn 1.7
        raise InvalidInput(f"multi_class={other_form!r} is not supported; leave out multi_class")
    return 0.0 if penalty is None else 1 / c


def _contrasts(n_classes: int) -> np.ndarray:
    """Return the matrix A ``(K − 1, K)``: the logit of two classes, or orthonormal contrasts."""
    return np.array([[0.0, 1.0]]) if n_classes == 2 else helmert(n_classes)


def _weights_of_rows(
    model: LogisticRegression, X: Any, y: np.ndarray, sample_weight: Any
) -> np.ndarray:
    """Return the weights ``(n,)`` with which rows counted in the fit."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if model.class_weight is None:
        return weights
    weighting = {} if sample_weight is None else {"sample_weight": weights}
    of_classes = compute_class_weight(model.class_weight, classes=model.classes_, y=y, **weighting)
    return weights * of_classes[np.searchsorted(model.classes_, y)]


def _blocks_of_rows(X: Any, fit_intercept: bool) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield some rows at a time, dense, with a 1 for the intercept."""
    for rows in gen_batches(X.shape[0], max(1, _BLOCK // X.shape[1])):
        block = _safe_indexing(X, rows)
        dense = block.toarray() if issparse(block) else block
        ones = np.ones((len(dense), int(fit_intercept)))
        yield rows, np.concatenate([dense, ones], axis=1)


def _factor(hessian: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor; only the lower half of the Hessian is read."""
    rounding = len(hessian) * np.finfo(hessian.dtype).eps * hessian.diagonal()
    try:
        factor = cholesky(hessian, lower=True)
    except LinAlgError:
        factor = None
    if factor is None or (factor.diagonal() ** 2 <= rounding).any():
        raise InvalidInput(
            "the Hessian of the log posterior is singular: some features are combinations of "
            "others, or constant; fit the regression with a smaller C, or leave features out"
        )
    return factor


def _check_is_maximum(distances: np.ndarray) -> None:
    """Warn if the coefficients are far from the maximum, in posterior standard deviations."""
    distance = float(np.sqrt((distances**2).mean()))
    if distance > _FAR:
        validate.warn(
            f"The coefficients are {distance:.2g} posterior standard deviations from their "
            "maximum, so draws around them are biased. Either the fit did not converge (scale the "
            "features, raise max_iter), or these are not the rows and weights of the fit"
        )


# -- draws ----------------------------------------------------------------------------------------


def committee_of_laplace(classifier: LaplaceClassifier, options: SamplingOptions) -> Committee:
    """Return draws of a fitted LaplaceClassifier as a committee."""
    check_fitted(classifier, type(classifier).__name__)
    model, prepare = _regression_in(classifier.estimator_)
    drawn = classifier.posterior_.draw(options.n_draws, options.seed)
    n_features = model.coef_.shape[1]  # a last row is the intercept; without it, its sum is 0
    draws = (
        Member(f"draw {m}", partial(_probabilities, draw[:n_features], draw[n_features:].sum(0)))
        for m, draw in enumerate(drawn)
    )
    return Committee(tuple(draws), classifier.classes_, prepare)


def _probabilities(coefficients: np.ndarray, intercept: np.ndarray, X: Any) -> np.ndarray:
    return softmax(X @ coefficients + intercept, axis=1)
