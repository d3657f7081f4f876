"""Classifiers that are calibrated on held-out rows, and the predictor of members that they use."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter
from sklearn.utils.validation import (
    _check_method_params,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
)

from scorewise import _validate as validate
from scorewise._estimators import (
    check_kind,
    check_no_threshold,
    check_targets,
    fit_router,
    indexable,
    passed_fit_params,
    routed_fit_params,
)
from scorewise._fields import class_text
from scorewise._inputs import StoredAs, add_missing_classes
from scorewise._losses import mean_and_uncertainty
from scorewise._progress import bar, counted
from scorewise._random import generator, seed_of
from scorewise._text import quoted
from scorewise.calibrate import METHODS, Calibration, fit_mean_calibration
from scorewise.decompose import COMPONENTS
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.models import (
    SamplingOptions,
    explain_model,
    has_members,
    known_classes,
    make_sampler,
    predict_samples,
)
from scorewise.rules import ScoringRule, get_rule

_ROWS_PER_CLASS = 25  # that "auto" needs to calibrate probabilities
_ENOUGH_ROWS_PER_CLASS, _ENOUGH_ROWS = 100, 1000  # with which more rows hardly calibrate better
_MOST_TRIED_ROWS = 1000  # of which the share that must be mixed is taken
_TIMES_FEWEST = 20  # the rows that a guarantee needs at least, so that "auto" leaves enough of them


@dataclass(frozen=True, eq=False)
class MeanPredictions:
    """Mean predictions and uncertainties of rows, made by :class:`MemberPredictor`.

    Attributes
    ----------
    mean : array (n, K)
        θ̄.
    uncertainty : array (n,)
        To ten digits, to be compared with that of other rows.
    n_members : int
    stored_as : StoredAs
        The dtype of the members' probabilities and weights.
    """

    mean: np.ndarray
    uncertainty: np.ndarray
    n_members: int
    stored_as: StoredAs

    def __getitem__(self, rows: np.ndarray) -> MeanPredictions:
        return replace(self, mean=self.mean[rows], uncertainty=self.uncertainty[rows])


@dataclass(frozen=True)
class MemberPredictor:
    """A fitted model with the rule and component to measure, and the classes to predict.

    Attributes
    ----------
    model : fitted model
        As :func:`scorewise.predict_samples` takes it; a single classifier is a list of one member.
    rule : ScoringRule
    component : "total", "aleatoric" or "epistemic"
    options : dict
        ``n_samples``, ``random_state``, ``batch_size`` and ``device`` of
        :func:`scorewise.predict_samples`; the seed is an integer.
    classes : array (K,) or None
        Labels of the model and of the rows, in rising order; None where classes are numbered.
    columns : array or None
        Indices of the classes that the model was fitted on; None where these are all classes.
    calibration : Calibration or None
        Applied to the members of every row.
    """

    model: Any
    rule: ScoringRule
    component: str
    options: dict[str, Any]
    classes: np.ndarray | None = None
    columns: np.ndarray | None = None
    calibration: Calibration | None = None

    @classmethod
    def of(
        cls, model: Any, rule: ScoringRule, component: str, options: dict[str, Any], y: np.ndarray
    ) -> MemberPredictor:
        """Return a predictor for all classes that occur in the model or among the labels y."""
        known = known_classes(model)
        if not has_members(model):
            if component != "total":
                raise InvalidInput(
                    f"{type(model).__name__} is one classifier, which has no {component} "
                    f"uncertainty: {explain_model(model).reason}"
                )
            model = [model]
        if known is None:
            return cls(model, rule, component, options)
        # a label that the model was not fitted on is a class that it never predicts
        classes = np.union1d(known, y)
        rule = rule.for_classes(classes)
        columns = None if np.array_equal(classes, known) else np.searchsorted(classes, known)
        return cls(model, rule, component, options, classes, columns)

    def mean_predictions(self, X: Any) -> MeanPredictions:
        """Return mean predictions and uncertainties to ten digits, some rows at a time."""
        means, uncertainties = [], []
        for samples in self._chunks(X):
            n_members, stored_as = int(samples.probs.shape[-2]), samples.stored_as
            if self.calibration is not None:
                samples = self.calibration.transform_for(samples, self.component)
            mean, uncertainty = mean_and_uncertainty(samples, self.rule, self.component)
            means.append(mean)
            uncertainties.append(uncertainty)
        return MeanPredictions(
            np.concatenate(means), np.concatenate(uncertainties), n_members, stored_as
        )

    def calibrated(self, rows: MeanPredictions, X: Any) -> MeanPredictions:
        """Return the calibrated predictions of rows X, from those without calibration."""
        if self.calibration is None or self.component != "total":
            return self.mean_predictions(X)
        means = Samples(rows.mean[:, None], check=False, class_names=self.classes)
        samples = self.calibration.transform_for(means, "total")
        mean, uncertainty = mean_and_uncertainty(samples, self.rule)
        return replace(rows, mean=mean, uncertainty=uncertainty)

    def samples(self, X: Any) -> Samples:
        """Return the members' probabilities of all classes."""
        if self._has_one_class:
            samples = self._one_class_predictions(X)
        else:
            predicted = predict_samples(self.model, X, **self.options)
            samples = self._of_all_classes(predicted.probs, predicted.weights)
        return samples if self.calibration is None else self.calibration.transform(samples)

    def _chunks(self, X: Any) -> Iterator[Samples]:
        """Yield the members' probabilities of all classes, some rows at a time."""
        if self._has_one_class:
            yield self._one_class_predictions(X)
            return
        batch_size = self.options.get("batch_size")
        if batch_size is not None:
            validate.whole(batch_size, "batch_size", at_least=1)
        options = SamplingOptions(
            self.options["n_samples"], self.options["random_state"], self.options["device"]
        )
        sampler = make_sampler(self.model, options)
        with (
            closing(sampler.chunks(X, batch_size)) as chunks,
            bar("predicting", sampler.n_rows(X), None) as advance,
        ):
            for probs in counted(chunks, advance):
                yield self._of_all_classes(probs, sampler.weights)

    @property
    def _has_one_class(self) -> bool:
        return self.columns is not None and len(self.columns) == 1

    def _one_class_predictions(self, X: Any) -> Samples:
        """Return the predictions of a model that was fitted on a single class: probability 1."""
        return self._of_all_classes(np.ones((_num_samples(X), 1, 1)), None)

    def _of_all_classes(self, probs: np.ndarray, weights: Any) -> Samples:
        """Return samples of all classes: 0 for those that the model was not fitted on."""
        n_classes = probs.shape[-1] if self.classes is None else len(self.classes)
        all_probs = add_missing_classes(probs, self.columns, n_classes)
        return Samples(all_probs, weights, check=False, class_names=self.classes)


def numbered_classes(n_classes: int, y: np.ndarray) -> np.ndarray:
    """Return the classes 0 to K − 1 of a model without labels; raises for other labels."""
    wrong = ~np.isin(y, np.arange(n_classes))
    if wrong.any():
        raise InvalidInput(
            f"y[{int(np.argmax(wrong))}] is {y[np.argmax(wrong)]!r}; the model gives {n_classes} "
            f"probabilities and no labels, so labels must be from 0 to {n_classes - 1}"
        )
    return np.arange(n_classes)


class HeldOutClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator, abc.ABC):
    """A classifier fitted on a part of the rows and calibrated on the rest, which it holds out.

    A subclass checks its parameters in ``_check``, and learns from the held-out rows in
    ``_learn``.

    Attributes
    ----------
    estimator_ : fitted model
    classes_ : array (K,)
    calibration_ : Calibration or None
        That of the probabilities, fitted on a part of the held-out rows.
    """

    estimator: Any
    rule: Any
    component: str
    calibrate: str | None
    calibration_size: float
    n_samples: int | None
    random_state: Any
    batch_size: int | None
    device: Any
    estimator_: Any
    classes_: np.ndarray
    calibration_: Calibration | None
    _predictor: MemberPredictor

    # weights are routed to the model, if it requests them, and used for nothing else
    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED}

    @abc.abstractmethod
    def _check(self, classes: np.ndarray | None) -> None:
        """Raise on invalid parameters, before fitting; the classes may be unknown."""

    @abc.abstractmethod
    def _fewest_rows(self, classes: np.ndarray) -> int:
        """Return how many held-out rows ``_learn`` needs to be of use."""

    @abc.abstractmethod
    def _learn(
        self,
        rows: MeanPredictions,
        labels: np.ndarray,
        classes: np.ndarray,
        calibration: Calibration | None,
    ) -> dict[str, Any]:
        """Return the attributes learned from held-out rows and the indices of their labels."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the model on a part of the rows, and calibrate it on the rest.

        Models that scikit-learn cannot clone (modules, lists, a DeepEnsemble, Laplace) and a
        ``sklearn.frozen.FrozenEstimator`` are used as they are, and all rows calibrate them. These
        rows must not have been used to fit the model.

        Parameters
        ----------
        X : array, sparse matrix, frame, list or tensor (n, ...)
            Rows, as the model takes them.
        y : array (n,)
            Labels.
        sample_weight : array (n,), optional
            Weights, passed to the model's ``fit``. They do not concern the held-out rows, which
            all count the same, as the guarantee is about rows that are exchangeable with them.
        **fit_params
            Other parameters of the model's ``fit``. Arrays of n values are restricted to the rows
            that it is fitted on. With scikit-learn's metadata routing the model gets what it
            requests.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If a parameter, the labels or the model are not valid, the model does not take a
            parameter, or its labels depend on a decision threshold.
        """
        rule = get_rule(self.rule)
        component = validate.choice(self.component, "component", COMPONENTS)
        methods = ("auto", *METHODS[1:])
        is_method = isinstance(self.calibrate, str) and self.calibrate in methods
        if self.calibrate is not None and not is_method:
            names = ", ".join(map(repr, methods))
            raise InvalidInput(
                f"calibrate must be one of {names} or None, not {quoted(self.calibrate)}"
            )
        check_kind(self.estimator)
        check_no_threshold(self.estimator, self)
        y = check_targets(y)
        X = indexable(X)
        check_consistent_length(X, y)
        self._check(None if self._model_is_fitted() else np.unique(y))
        seed = seed_of(self.random_state)
        model, X_held_out, y_held_out = self._fit_model(X, y, seed, sample_weight, fit_params)
        check_no_threshold(model, self)  # which a search may have chosen
        options = {
            "n_samples": self.n_samples,
            "random_state": seed,
            "batch_size": self.batch_size,
            "device": self.device,
        }
        predictor = MemberPredictor.of(model, rule, component, options, y)
        try:
            rows = predictor.mean_predictions(X_held_out)
        except InvalidInput as error:
            if isinstance(error.__cause__, TypeError) and rule.runs_on_any_library:
                raise error.__cause__ from None  # the error that fit raises for such rows
            raise
        classes = predictor.classes
        if classes is None:
            classes = numbered_classes(rows.mean.shape[-1], y)
        labels = np.searchsorted(classes, y_held_out)
        others = self._rows_to_calibrate(len(labels), classes, seed)
        calibration = None
        if others.any():
            # on other rows than the threshold, whose guarantee holds as for a model that was
            # calibrated before
            calibration = fit_mean_calibration(
                rows.mean[others],
                labels[others],
                predictor.rule,
                method=str(self.calibrate),
                class_names=tuple(map(class_text, classes.tolist())),
                seed=seed,
            )
            share = None  # the members are not moved for the total
            if component != "total":
                tried = np.flatnonzero(others)[:_MOST_TRIED_ROWS]
                members = predictor.samples(_safe_indexing(X_held_out, tried))
                share = float(calibration.mixed_rows(members).mean())
            calibration = replace(calibration, mixed_share=share)
            predictor = replace(predictor, calibration=calibration)
            rows, labels = predictor.calibrated(rows, X_held_out)[~others], labels[~others]
        learned = self._learn(rows, labels, classes, calibration)
        learned |= {"classes_": classes, "estimator_": model, "_predictor": predictor}
        learned |= {"calibration_": calibration}
        for name, value in learned.items():
            setattr(self, name, value)
        return self

    def _rows_to_calibrate(self, n: int, classes: np.ndarray, seed: int) -> np.ndarray:
        """Return which of n held-out rows calibrate the probabilities, ``(n,)`` of bool.

        These are at most a third, at random. With ``"auto"`` there are none if they, or the rest,
        would be too few; this depends on numbers of rows alone, so that guarantees hold.
        """
        others = np.zeros(n, bool)
        if self.calibrate is None:
            return others
        n_classes = len(classes)
        n_others = min(n // 3, max(_ENOUGH_ROWS, _ENOUGH_ROWS_PER_CLASS * n_classes))
        if self.calibrate == "auto":
            calibrates = n_others >= _ROWS_PER_CLASS * n_classes
            certifies = n - n_others >= _TIMES_FEWEST * self._fewest_rows(classes)
            n_others = n_others if calibrates and certifies else 0
        elif n_others < 2:
            raise InvalidInput(
                f"there are {n} held-out rows, and a third of them must be at least two rows to "
                f"calibrate on; hold out more, or leave calibrate={self.calibrate!r} out"
            )
        others[generator(seed, 1).permutation(n)[:n_others]] = True
        return others

    def _model_is_fitted(self) -> bool:
        """Return whether the model is used as it is."""
        return isinstance(self.estimator, FrozenEstimator) or not hasattr(
            self.estimator, "get_params"
        )

    def _fit_model(
        self, X: Any, y: np.ndarray, seed: int, sample_weight: Any, fit_params: dict[str, Any]
    ) -> tuple[Any, Any, np.ndarray]:
        """Return the fitted model, and the rows and labels that it was not fitted on."""
        if self._model_is_fitted():
            for name in passed_fit_params(sample_weight, fit_params):
                raise InvalidInput(
                    f"{name} has no effect: the model ({type(self.estimator).__name__}) "
                    "is used as it is and not fitted; leave it out"
                )
            return self.estimator, X, y
        params = routed_fit_params(self, X, sample_weight, fit_params)
        n, share = len(y), validate.proportion(self.calibration_size, "calibration_size")
        n_held_out = max(1, round(share * n))
        if n_held_out >= n:
            raise InvalidInput(
                f"{n} sample(s) cannot be split into rows to fit and rows to calibrate"
            )
        # at random and not by class, so that held-out rows and new rows are exchangeable
        rows = generator(seed, 0).permutation(n)
        train, held_out = np.sort(rows[n_held_out:]), np.sort(rows[:n_held_out])
        train_params = _check_method_params(X, params, train)
        model = clone(self.estimator).fit(_safe_indexing(X, train), y[train], **train_params)
        return model, _safe_indexing(X, held_out), y[held_out]

    def _mean_predictions(self, X: Any) -> MeanPredictions:
        check_is_fitted(self)
        return self._predictor.mean_predictions(X)

    def uncertainty(self, X: Any) -> np.ndarray:
        """Return the uncertainty under the chosen rule and component, to ten digits.

        Parameters
        ----------
        X : rows (n, ...)

        Returns
        -------
        array (n,)
        """
        return self._mean_predictions(X).uncertainty

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the mean of the members' probabilities, calibrated if there is a calibration.

        Parameters
        ----------
        X : rows (n, ...)

        Returns
        -------
        array (n, K)
        """
        return self._mean_predictions(X).mean

    def predict(self, X: Any) -> np.ndarray:
        """Return labels for all rows: the class of the largest mean probability.

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
        """Return the labels that mean predictions lead to."""
        return np.asarray(self.classes_[mean.argmax(axis=-1)])

    def __getattr__(self, name: str) -> Any:
        """Return names and number of the features, from the fitted model."""
        if name in {"n_features_in_", "feature_names_in_"} and "_predictor" in vars(self):
            return getattr(self.estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_metadata_routing(self) -> MetadataRouter:
        """Return scikit-learn's metadata routing: parameters of ``fit`` reach the model.

        Returns
        -------
        MetadataRouter
        """
        return fit_router(self)

    def __sklearn_is_fitted__(self) -> bool:
        return "_predictor" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
            tags.classifier_tags = get_tags(self.estimator).classifier_tags
        tags.classifier_tags.multi_label = False
        return tags
