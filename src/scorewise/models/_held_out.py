"""What estimators share that fit a model on one part of the rows and calibrate it on the rest."""

from __future__ import annotations

import abc
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from scorewise import _validate as validate
from scorewise._random import entropy_of, generator
from scorewise.decompose import COMPONENTS
from scorewise.errors import InvalidInput
from scorewise.models._judge import Judge, numbered
from scorewise.models.sklearn._bootstrap import indexable
from scorewise.rules import get_rule


class HeldOut(MetaEstimatorMixin, ClassifierMixin, BaseEstimator, abc.ABC):
    """A classifier that keeps a part of its data to learn what its uncertainty is worth.

    Attributes
    ----------
    estimator_ : fitted model
    classes_ : array (K,)
    """

    estimator: Any
    rule: Any
    component: str
    calibration_size: float
    n_samples: int | None
    random_state: Any
    batch_size: int | None
    device: Any
    estimator_: Any
    classes_: np.ndarray
    _judge: Judge

    @abc.abstractmethod
    def _check(self, n_classes: int | None) -> None:
        """Refuse parameters before anything is fitted; the number of classes may not be known."""

    @abc.abstractmethod
    def _calibrate(
        self, mean: np.ndarray, uncertainty: np.ndarray, labels: np.ndarray
    ) -> dict[str, Any]:
        """What was learnt from held-out rows, by the names of attributes."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model on a part of the rows, and calibrate it on the rest.

        What scikit-learn cannot clone (modules, lists, a DeepEnsemble, Laplace) and a
        ``sklearn.frozen.FrozenEstimator`` is taken as it is, and all rows calibrate it: they must
        be rows that it has not seen.

        Parameters
        ----------
        X : array, sparse matrix, frame, list or tensor (n, ...)
            Whatever the model takes.
        y : array (n,)
            Labels.

        Raises
        ------
        InvalidInput
            If a parameter, the labels or the model are not what they must be.
        """
        rule = get_rule(self.rule)
        component = validate.choice(self.component, "component", COMPONENTS)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        X = indexable(X)
        check_consistent_length(X, y)
        self._check(None if self._model_is_fitted() else len(np.unique(y)))
        entropy = entropy_of(self.random_state)
        model, X_rest, y_rest = self._fitted(X, y, entropy)
        options = {
            "n_samples": self.n_samples,
            "random_state": entropy,
            "batch_size": self.batch_size,
            "device": self.device,
        }
        judge = Judge.of(model, rule, component, options, y)
        try:
            mean, uncertainty = judge(X_rest)
        except InvalidInput as error:
            if isinstance(error.__cause__, TypeError):
                raise error.__cause__ from None  # as fit does, had it been given these rows
            raise
        classes = numbered(mean.shape[-1], y) if judge.classes is None else judge.classes
        learnt = self._calibrate(mean, uncertainty, np.searchsorted(classes, y_rest))
        learnt |= {"classes_": classes, "estimator_": model, "_judge": judge}
        for name, value in learnt.items():
            setattr(self, name, value)
        return self

    def _model_is_fitted(self) -> bool:
        """Whether the model is taken as it is."""
        return isinstance(self.estimator, FrozenEstimator) or not hasattr(
            self.estimator, "get_params"
        )

    def _fitted(self, X: Any, y: np.ndarray, entropy: int) -> tuple[Any, Any, np.ndarray]:
        """The model, and the rows and labels that it has not seen."""
        if self._model_is_fitted():
            return self.estimator, X, y
        n, share = len(y), validate.share(self.calibration_size, "calibration_size")
        n_rest = max(1, round(share * n))
        if n_rest >= n:
            raise InvalidInput(
                f"{n} sample(s) cannot be split: some must be fitted on, others calibrate"
            )
        # At random and not by class: then new rows and the held-out ones are exchangeable.
        rows = generator(entropy, 0).permutation(n)
        train, rest = np.sort(rows[n_rest:]), np.sort(rows[:n_rest])
        model = clone(self.estimator).fit(_safe_indexing(X, train), y[train])
        return model, _safe_indexing(X, rest), y[rest]

    def _ask(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        return self._judge(X)

    def uncertainty(self, X: Any) -> np.ndarray:
        """How unsure the model is, by the rule and the component that were chosen.

        Parameters
        ----------
        X : rows (n, ...)

        Returns
        -------
        array (n,)
        """
        return self._ask(X)[1]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The mean θ̄ of the members' probabilities.

        Parameters
        ----------
        X : rows (n, ...)

        Returns
        -------
        array (n, K)
        """
        return self._ask(X)[0]

    def predict(self, X: Any) -> np.ndarray:
        """Labels for all rows: of the largest mean probability.

        Parameters
        ----------
        X : rows (n, ...)

        Returns
        -------
        array (n,)
        """
        mean = self.predict_proba(X)
        return self._labels(mean)

    def _labels(self, mean: np.ndarray) -> np.ndarray:
        return np.asarray(self.classes_[mean.argmax(axis=-1)])

    def __getattr__(self, name: str) -> Any:
        """What the model knows of its input is known of the estimator's."""
        if name in {"n_features_in_", "feature_names_in_"} and "_judge" in vars(self):
            return getattr(self.estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return "_judge" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
            tags.classifier_tags = get_tags(self.estimator).classifier_tags
        tags.classifier_tags.multi_label = False
        return tags
