"""A classifier that says when it would rather not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scorewise import _validate as validate
from scorewise.abstain._certificate import Certificate, certify_threshold
from scorewise.abstain._drift import Drift, compare_with_calibration
from scorewise.distributions import apply_floor
from scorewise.errors import InvalidInput
from scorewise.losses import losses_of_mean, promised_bound
from scorewise.models import HeldOut
from scorewise.rules import get_rule


class SelectiveClassifier(HeldOut):
    """A classifier that abstains where its loss could be larger than promised.

    Use it to put a model to work whose mistakes cost: a part of the data certifies a threshold of
    uncertainty below which new rows lose at most ``max_loss`` on average, with that confidence.
    All rows weigh alike: there is no ``sample_weight``.

    Parameters
    ----------
    estimator : model
        A classifier of scikit-learn, cloned and fitted; or what
        :func:`scorewise.predict_samples` takes, fitted, then the data only calibrate it. (Searches
        clone what they are given: put fitted classifiers in a ``sklearn.frozen.FrozenEstimator``.)
    rule : str or ScoringRule
        The loss that the mean prediction pays, and whose uncertainty decides. Under a cost matrix
        labels are the least costly ones, so its actions must be the classes.
    max_loss : float
        The mean loss to allow where the classifier does not abstain.
    confidence : float
        Of the promise.
    component : "total", "aleatoric" or "epistemic"
        Which part of the uncertainty decides; for abstaining the total is the right one.
    floor : float, optional
        The smallest probability that counts in the loss, needed for the log loss; see
        :func:`scorewise.task_losses`.
    loss_bound : float, optional
        The largest loss that can occur; known of all rules but your own.
    calibration_size : float
        Share of the rows that is held out.
    n_samples : int, optional
        Members or draws to ask; see :func:`scorewise.predict_samples`.
    random_state : int, RandomState or Generator, optional
        Seed of the split and of the draws.
    batch_size : int, optional
        Rows at a time.
    device : str or torch.device, optional
        For torch models.

    Attributes
    ----------
    certificate_ : Certificate
        The promise; printing it says it in words.
    calibration_uncertainty_ : array
        Uncertainties of the held-out rows, in rising order.
    estimator_ : fitted model
    classes_ : array (K,)
    n_features_in_, feature_names_in_
        Of the model, where it has them.

    Examples
    --------
    >>> import scorewise as sw
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.model_selection import train_test_split
    >>> X, X_new, y, y_new = train_test_split(*load_digits(return_X_y=True), random_state=0)
    >>> forest = RandomForestClassifier(50, random_state=0)
    >>> model = sw.SelectiveClassifier(forest, max_loss=0.02, random_state=0).fit(X, y)
    >>> print(model.certificate_)
    Accept where uncertainty <= 0.48: 88.4% of 337 calibration rows, which lost 0.003356 on
    average; new ones lose at most 0.02, with 95% confidence.
    >>> model.predict_or_abstain(X_new[44:50], abstain=-1)
    array([ 1,  0, -1, -1,  2,  1])
    >>> accepted = model.accepts(X_new)
    >>> accepted.mean().round(3), (model.predict(X_new) != y_new)[accepted].mean()
    (np.float64(0.853), np.float64(0.0))
    """

    def __init__(
        self,
        estimator: Any,
        rule: Any = "zero-one",
        max_loss: float = 0.05,
        confidence: float = 0.95,
        *,
        component: str = "total",
        floor: float | None = None,
        loss_bound: float | None = None,
        calibration_size: float = 0.25,
        n_samples: int | None = None,
        random_state: Any = None,
        batch_size: int | None = None,
        device: Any = None,
    ) -> None:
        self.estimator = estimator
        self.rule = rule
        self.max_loss = max_loss
        self.confidence = confidence
        self.component = component
        self.floor = floor
        self.loss_bound = loss_bound
        self.calibration_size = calibration_size
        self.n_samples = n_samples
        self.random_state = random_state
        self.batch_size = batch_size
        self.device = device

    certificate_: Certificate
    calibration_uncertainty_: np.ndarray
    _floor: float | None

    def _check(self, n_classes: int | None) -> None:
        validate.share(self.confidence, "confidence")
        if validate.number(self.max_loss, "max_loss") <= 0:
            raise InvalidInput(f"max_loss is {self.max_loss}; only a loss above 0 can be promised")
        if n_classes is not None and n_classes > 1:
            self._bound(n_classes)

    def _bound(self, n_classes: int) -> float:
        """The largest loss that can occur, if something can be promised about it."""
        rule = get_rule(self.rule)
        rule.check_classes(n_classes)
        n_predictions = rule.n_predictions(n_classes)
        if n_predictions != n_classes:
            raise InvalidInput(
                f"the cost matrix has {n_predictions} actions for {n_classes} classes, and "
                "predictions are labels: give it one action per class; a column for abstaining is "
                "not needed, as the certificate decides that"
            )
        bound = promised_bound(self.rule, n_classes, self.floor, self.loss_bound)
        if self.max_loss >= bound:
            raise InvalidInput(
                f"max_loss is {self.max_loss:g}, and this loss is never above {bound:g}: nothing "
                "needs to be promised"
            )
        return bound

    def _calibrate(
        self, mean: np.ndarray, uncertainty: np.ndarray, labels: np.ndarray
    ) -> dict[str, Any]:
        bound = self._bound(mean.shape[-1])
        certificate = certify_threshold(
            losses_of_mean(mean, labels, self.rule, self.floor),
            uncertainty,
            self.max_loss,
            self.confidence,
            loss_bound=bound,
        )
        return {
            "certificate_": certificate,
            "calibration_uncertainty_": np.sort(uncertainty),
            "_floor": self.floor,
        }

    def _labels(self, mean: np.ndarray) -> np.ndarray:
        # the losses that were certified are those of the prediction with the floor
        return np.asarray(self.classes_[self._judge.rule.predict(apply_floor(mean, self._floor))])

    def accepts(self, X: Any) -> np.ndarray:
        """Whether the promise covers a row.

        Parameters
        ----------
        X : rows (n, ...)

        Returns
        -------
        array of bool (n,)
        """
        check_is_fitted(self)
        return self.certificate_.accepts(self.uncertainty(X))

    def predict_or_abstain(self, X: Any, abstain: Any = None) -> np.ndarray:
        """Labels where the promise covers a row, ``abstain`` elsewhere.

        Parameters
        ----------
        X : rows (n, ...)
        abstain : object
            What to return instead of a label; no label itself.

        Returns
        -------
        array (n,)
            Of the labels' dtype where the marker fits into it, else of objects.
        """
        check_is_fitted(self)
        if np.ndim(abstain):
            raise InvalidInput(f"abstain={abstain!r} must be one marker, not several")
        if any(_is(abstain, label) for label in self.classes_.tolist()):
            raise InvalidInput(f"abstain={abstain!r} is one of the labels; choose another marker")
        mean, uncertainty = self._ask(X)
        labels = self._labels(mean)
        marker = np.asarray(abstain)
        fits = marker.dtype.kind == labels.dtype.kind
        kind = np.result_type(marker, labels) if fits else np.dtype(object)
        answers = labels.astype(kind)
        answers[~self.certificate_.accepts(uncertainty)] = abstain
        return answers

    def check_drift(self, X: Any, false_alarm_rate: float = 0.05) -> Drift:
        """Whether new inputs are still like those that the promise was made for.

        Compares their uncertainties with those of the held-out rows; ``certificate_.drift`` keeps
        the answer, so that the certificate warns when it is printed.

        Parameters
        ----------
        X : rows (n, ...)
            New inputs, the more the better; no labels are needed.
        false_alarm_rate : float
            How often inputs that have not changed may be called changed.

        Returns
        -------
        Drift
            True in an ``if`` where inputs have changed.
        """
        check_is_fitted(self)
        drift = compare_with_calibration(
            self.calibration_uncertainty_,
            validate.vector(self.uncertainty(X), "the uncertainty of X"),
            validate.share(false_alarm_rate, "false_alarm_rate"),
        )
        self.certificate_ = replace(self.certificate_, drift=drift)
        return drift


def _is(marker: Any, label: Any) -> bool:
    same = marker == label
    return isinstance(same, bool | np.bool_) and bool(same)  # pandas.NA knows no answer
