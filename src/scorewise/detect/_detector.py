"""A classifier that detects out-of-distribution inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scorewise import _validate as validate
from scorewise._held_out import HeldOutClassifier, MeanPredictions
from scorewise.calibrate import Calibration


class OODDetector(HeldOutClassifier):
    """A classifier that detects out-of-distribution (OOD) inputs.

    Use it where inputs may come from another distribution than the training data. Held-out rows
    turn uncertainties into conformal p-values, so in-distribution rows are reported as OOD at most
    at the stated rate, in samples of any size. Epistemic uncertainty under log (mutual
    information) is the recommended score. A ``sample_weight`` passed to ``fit`` reaches the
    estimator only: all held-out rows count the same.

    Parameters
    ----------
    estimator : model
        A forest, a :class:`scorewise.BootstrapEnsemble` or another ensemble of scikit-learn, which
        is cloned and fitted; or a fitted model that :func:`scorewise.predict_samples` takes, which
        the data only calibrate.
    rule : str or ScoringRule
        The rule whose uncertainty is the score.
    false_alarm_rate : float
        How often an in-distribution row may be reported as OOD.
    component : "total", "aleatoric" or "epistemic"
        The component of the uncertainty that is the score.
    calibrate : "auto", "temperature", "vector", "matrix" or None
        How to calibrate the probabilities, as for :class:`scorewise.SelectiveClassifier`. Not by
        default: calibrating serves expected losses, and did not help to detect OOD rows.
    calibration_size : float
        Proportion of the rows that is held out.
    n_samples, random_state, batch_size, device
        As for :class:`scorewise.SelectiveClassifier`.

    Attributes
    ----------
    calibration_ : Calibration or None
        The calibration of the probabilities; None if they are used as they are.
    calibration_uncertainty_ : array
        Uncertainties of the held-out rows, in rising order.
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
    >>> X, y = load_digits(return_X_y=True)
    >>> known = y < 8  # eights and nines are out of distribution
    >>> X_fit, X_new, y_fit, _ = train_test_split(X[known], y[known], random_state=0)
    >>> forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0)
    >>> detector = sw.OODDetector(forest, random_state=0).fit(X_fit, y_fit)
    >>> detector.is_outlier(X_new).mean().round(2)  # false alarms
    np.float64(0.05)
    >>> detector.is_outlier(X[~known]).mean().round(2)
    np.float64(0.91)
    """

    def __init__(
        self,
        estimator: Any,
        rule: Any = "log",
        false_alarm_rate: float = 0.05,
        *,
        component: str = "epistemic",
        calibrate: str | None = None,
        calibration_size: float = 0.25,
        n_samples: int | None = None,
        random_state: Any = None,
        batch_size: int | None = None,
        device: Any = None,
    ) -> None:
        self.estimator = estimator
        self.rule = rule
        self.false_alarm_rate = false_alarm_rate
        self.component = component
        self.calibrate = calibrate
        self.calibration_size = calibration_size
        self.n_samples = n_samples
        self.random_state = random_state
        self.batch_size = batch_size
        self.device = device

    calibration_uncertainty_: np.ndarray

    def _check(self, classes: np.ndarray | None) -> None:
        validate.proportion(self.false_alarm_rate, "false_alarm_rate")

    def _fewest_rows(self, classes: np.ndarray) -> int:
        return int(np.ceil(1 / self.false_alarm_rate)) - 1

    def _learn(
        self,
        rows: MeanPredictions,
        labels: np.ndarray,
        classes: np.ndarray,
        calibration: Calibration | None,
    ) -> dict[str, Any]:
        return {"calibration_uncertainty_": np.sort(rows.uncertainty)}

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the negative uncertainty, so that OOD rows have lower scores, as in scikit-learn.

        Parameters
        ----------
        X : rows (n, ...)

        Returns
        -------
        array (n,)
        """
        return -self.uncertainty(X)

    def p_values(self, X: Any) -> np.ndarray:
        """Return conformal p-values.

        p = (1 + number of held-out rows at least as uncertain) / (1 + number of held-out rows).

        The p-value of an in-distribution row is at most α with probability at most α. Ties count
        in favour of in-distribution.

        Parameters
        ----------
        X : rows (n, ...)

        Returns
        -------
        array (n,)
        """
        check_is_fitted(self)
        held_out = self.calibration_uncertainty_
        n_below = np.searchsorted(held_out, self.uncertainty(X), side="left")
        return (1 + len(held_out) - n_below) / (1 + len(held_out))

    def is_outlier(self, X: Any, false_discovery_rate: float | None = None) -> np.ndarray:
        """Return which rows are reported as out of distribution.

        Parameters
        ----------
        X : rows (n, ...)
        false_discovery_rate : float, optional
            Limit the expected proportion of false alarms among the reported rows of this batch,
            instead of the rate of false alarms among in-distribution rows (Benjamini and Hochberg;
            valid for conformal p-values: Bates et al., 2023).

        Returns
        -------
        array of bool (n,)
        """
        p_values = self.p_values(X)
        if false_discovery_rate is None:
            rate = validate.proportion(self.false_alarm_rate, "false_alarm_rate")
        else:
            rate = validate.proportion(false_discovery_rate, "false_discovery_rate")
        n = len(self.calibration_uncertainty_)
        if 1 / (1 + n) > rate:
            validate.warn(
                f"{n} held-out rows are too few to detect OOD rows at a rate of {rate:g}; hold out "
                f"{int(np.ceil(1 / rate)) - 1} or more"
            )
        if false_discovery_rate is not None and len(p_values):
            from scipy.stats import false_discovery_control

            p_values = false_discovery_control(p_values) * (1 - 1e-12)  # undo its rounding up
        return np.asarray(p_values <= rate)
