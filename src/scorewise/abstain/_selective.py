"""A classifier that abstains where it is too uncertain."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scorewise import _validate as validate
from scorewise._fields import class_text
from scorewise._held_out import HeldOutClassifier, MeanPredictions
from scorewise._losses import finite_loss_bound, losses_of_mean
from scorewise._text import quoted_names
from scorewise.abstain._certificate import Certificate
from scorewise.abstain._drift import Drift
from scorewise.abstain._policy import Policy, certify_rows
from scorewise.calibrate import Calibration
from scorewise.errors import InvalidInput
from scorewise.rules import CostMatrix, ScoringRule, get_rule


class SelectiveClassifier(HeldOutClassifier):
    """A classifier that abstains, with a guarantee on the mean loss of the rows that it accepts.

    Use it where mistakes are costly. A part of the data certifies a threshold of uncertainty up to
    which new rows incur a mean loss of at most ``max_loss``, with that confidence. The guarantee
    is about the mean over rows that all count the same: a ``sample_weight`` passed to ``fit``
    reaches the estimator only.

    Parameters
    ----------
    estimator : model
        A classifier of scikit-learn, which is cloned and fitted; or a fitted model that
        :func:`scorewise.predict_samples` takes, which the data only calibrate. (Searches clone
        their estimators: put fitted classifiers in a ``sklearn.frozen.FrozenEstimator``.) A
        classifier with a decision threshold is refused; set a cost matrix instead.
    rule : str or ScoringRule
        The loss that the mean prediction incurs, and whose uncertainty is compared. Under a cost
        matrix labels are the least costly ones, so its actions must be the classes. With
        ``scorewise.rules.cost_matrix([[0, t], [1 - t, 0]])`` the label is the second of two
        classes where its probability is at least t.
    max_loss : float
        The largest mean loss to allow where the classifier does not abstain.
    confidence : float
        Confidence of the guarantee.
    component : "total", "aleatoric" or "epistemic"
        The component of the uncertainty to compare; theory recommends the total for abstaining.
    floor : float, optional
        The smallest probability that counts in the loss, needed for the log loss; see
        :func:`scorewise.task_losses`.
    loss_bound : float, optional
        The largest loss that can occur; needed for rules of your own.
    calibrate : "auto", "temperature", "vector", "matrix" or None
        How to calibrate the probabilities, as in :func:`scorewise.fit_calibration`, on at most a
        third of the held-out rows; the rest certify the threshold. ``"auto"`` leaves all rows to
        the certificate where they are few, which depends on their number and on ``max_loss``.
    calibration_size : float
        Proportion of the rows that is held out.
    n_samples : int, optional
        Number of members or draws; see :func:`scorewise.predict_samples`.
    random_state : int, RandomState or Generator, optional
        Seed of the split and of the draws.
    batch_size : int, optional
        Rows at a time.
    device : str or torch.device, optional
        For torch models.

    Attributes
    ----------
    policy_ : Policy
        Decides about rows. ``policy_.save(path)`` writes it to a file, and ``policy_.apply`` takes
        predictions of ``estimator_`` as arrays or files.
    certificate_ : Certificate
        The guarantee of ``policy_``, in words when printed.
    calibration_ : Calibration or None
        The calibration of the probabilities; None if they are used as they are.
    calibration_uncertainty_ : array
        That of ``policy_``: uncertainties of the held-out rows, in rising order.
    estimator_ : fitted model
    classes_ : array (K,)
    n_features_in_, feature_names_in_
        As in the model, where it has them.

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
    Accept where uncertainty <= 0.48: 88.4 % of 337 certification rows, with a mean error of
    0.336 %. The mean error of new rows that are accepted is at most 2 %, with 95 % confidence.
    >>> model.predict_or_abstain(X_new[44:50], abstain=-1)
    array([ 1,  0, -1, -1,  2,  1])
    >>> accepted = model.accepts(X_new)
    >>> accepted.mean().round(3), (model.predict(X_new) != y_new)[accepted].mean()
    (np.float64(0.856), np.float64(0.0))
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
        calibrate: str | None = "auto",
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
        self.calibrate = calibrate
        self.calibration_size = calibration_size
        self.n_samples = n_samples
        self.random_state = random_state
        self.batch_size = batch_size
        self.device = device

    policy_: Policy

    @property
    def certificate_(self) -> Certificate:
        """The guarantee of ``policy_``."""
        return self.policy_.certificate

    @property
    def calibration_uncertainty_(self) -> np.ndarray:
        """The uncertainties of the held-out rows, in rising order."""
        return self.policy_.calibration_uncertainty

    def _check(self, classes: np.ndarray | None) -> None:
        validate.proportion(self.confidence, "confidence")
        if validate.number(self.max_loss, "max_loss") <= 0:
            raise InvalidInput(f"max_loss is {self.max_loss}; it must be above 0")
        if classes is not None and len(classes) > 1:
            self._loss(classes)

    def _loss(self, classes: np.ndarray) -> ScoringRule:
        """Return the loss for these classes; raises if no guarantee exists, or none is needed."""
        n_classes, named_rule = len(classes), get_rule(self.rule)
        rule = named_rule.for_classes(classes)
        rule.check_classes(n_classes)
        n_predictions = rule.n_predictions(n_classes)
        if n_predictions != n_classes:
            raise InvalidInput(
                f"the cost matrix has {n_predictions} actions for {n_classes} classes, and "
                "predictions are labels: pass one action per class; a column for abstaining is "
                "not needed, as the certificate decides that"
            )
        names = tuple(class_text(label) for label in classes.tolist())
        if isinstance(rule, CostMatrix):
            rule = _with_actions_of(names, rule)
        actions = rule.prediction_names(names)
        if rule is not named_rule and actions != names:
            raise InvalidInput(
                f"the actions of the cost matrix, {quoted_names(actions)}, are not the classes, "
                "and predictions are labels; name each column by the class that it predicts"
            )
        bound = finite_loss_bound(rule, n_classes, self.floor, self.loss_bound)
        if self.max_loss >= bound:
            raise InvalidInput(
                f"max_loss is {self.max_loss:g}, and this loss is never above {bound:g}: no "
                "guarantee is needed"
            )
        return rule

    def _fewest_rows(self, classes: np.ndarray) -> int:
        rule = self._loss(classes)
        bound = finite_loss_bound(rule, len(classes), self.floor, self.loss_bound)
        without_loss = Certificate.of(
            [0.0], [0.0], self.max_loss, self.confidence, loss_bound=bound, unit=rule.unit
        )
        return without_loss.fewest_rows

    def _learn(
        self,
        rows: MeanPredictions,
        labels: np.ndarray,
        classes: np.ndarray,
        calibration: Calibration | None,
    ) -> dict[str, Any]:
        rule = self._loss(classes)
        policy = certify_rows(
            losses_of_mean(rows.mean, labels, rule, self.floor),
            rows.uncertainty,
            rule,
            max_loss=self.max_loss,
            confidence=self.confidence,
            component=self.component,
            floor=self.floor,
            loss_bound=self.loss_bound,
            n_members=rows.n_members,
            n_classes=len(classes),
            stored_as=rows.stored_as,
            class_names=tuple(map(class_text, classes.tolist())),
            calibration=calibration,
        )
        certificate = policy.certificate
        if not certificate.coverage:
            advice = ""
            if certificate.n_more_rows is not None or certificate.has_too_few_rows:
                advice = " Hold out more rows (calibration_size), allow a larger max_loss, "
                if calibration is not None:
                    advice += "let all held-out rows certify (calibrate=None), "
                advice += "or use a better model"
            validate.warn(f"this SelectiveClassifier abstains on every row. {certificate}{advice}")
        return {"policy_": policy}

    def _labels(self, mean: np.ndarray) -> np.ndarray:
        return np.asarray(self.classes_[self.policy_.predict(mean)])

    def accepts(self, X: Any) -> np.ndarray:
        """Return which rows are accepted, so that the guarantee covers them.

        Parameters
        ----------
        X : rows (n, ...)

        Returns
        -------
        array of bool (n,)
        """
        uncertainty = self.uncertainty(X)
        return self.policy_.accepts(uncertainty)

    def predict_or_abstain(self, X: Any, abstain: Any = None) -> np.ndarray:
        """Return labels where rows are accepted, ``abstain`` elsewhere.

        Parameters
        ----------
        X : rows (n, ...)
        abstain : object
            Marker to return instead of a label; it must not be a label itself.

        Returns
        -------
        array (n,)
            With the labels' dtype where the marker fits into it, else of objects.
        """
        check_is_fitted(self)
        if np.ndim(abstain):
            raise InvalidInput(f"abstain={abstain!r} must be one marker, not several")
        if any(_is_same_label(abstain, label) for label in self.classes_.tolist()):
            raise InvalidInput(f"abstain={abstain!r} is one of the labels; choose another marker")
        rows = self._mean_predictions(X)
        labels = self._labels(rows.mean)
        marker = np.asarray(abstain)
        fits = marker.dtype.kind == labels.dtype.kind
        kind = np.result_type(marker, labels) if fits else np.dtype(object)
        marked = labels.astype(kind)
        marked[~self.policy_.accepts(rows.uncertainty)] = abstain
        return marked

    def check_drift(self, X: Any, false_alarm_rate: float = 0.05) -> Drift:
        """Return a test of whether new inputs differ from the held-out rows.

        It compares their uncertainties. ``certificate_.drift`` holds
        the result, so that the certificate warns when it is printed.

        Parameters
        ----------
        X : rows (n, ...)
            New inputs, the more the better; no labels are needed.
        false_alarm_rate : float
            How often unchanged inputs may be reported as changed.

        Returns
        -------
        Drift
            True in an ``if`` where inputs have changed.
        """
        check_is_fitted(self)
        drift = self.policy_.check_drift(self.uncertainty(X), false_alarm_rate)
        self.policy_ = self.policy_.with_drift(drift)
        return drift


def _is_same_label(marker: Any, label: Any) -> bool:
    same = marker == label
    return isinstance(same, bool | np.bool_) and bool(same)  # pandas.NA == x is neither


def _with_actions_of(names: tuple[str, ...], rule: CostMatrix) -> CostMatrix:
    """Return the cost matrix with its columns in the order of the classes that they predict."""
    if rule.actions is None:
        return rule
    numbers = tuple(map(str, range(len(names))))
    for order in (names, numbers):
        if set(rule.actions) == set(order):
            columns = [list(rule.actions).index(name) for name in order]
            return CostMatrix(rule.costs[:, columns], names)
    return rule
