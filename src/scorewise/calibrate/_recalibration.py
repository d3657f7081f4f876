"""Recalibrate a total uncertainty with the losses that were incurred."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import KFold
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from scorewise import _validate as validate
from scorewise._random import seed_of


class LossRecalibrator(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """A map from total uncertainty to the mean loss that rows with this uncertainty incur.

    Use it where :func:`scorewise.loss_calibration` shows a miscalibrated model and the value of the
    uncertainty matters. Fit it on held-out rows, never on the rows that are evaluated. The map is
    monotone, so the order of rows stays the same, up to ties. It is the mean of isotonic
    regressions that each leave out a fold, which smooths their steps.

    Parameters
    ----------
    cv : int
        Number of folds.
    random_state : int, RandomState or Generator, optional
        Seed of the folds.

    Attributes
    ----------
    maps_ : list of lists of IsotonicRegression
        By column, then by the fold that was left out.
    n_features_in_, feature_names_in_
        Of the data passed to ``fit``.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> chance = rng.uniform(0, 0.5, 4000)
    >>> wrong = rng.uniform(size=4000) < chance
    >>> total = chance / 2  # overconfident
    >>> recalibrator = sw.LossRecalibrator(random_state=0).fit(total[:2000, None], wrong[:2000])
    >>> recalibrated = recalibrator.transform(total[2000:, None])[:, 0]
    >>> round(sw.loss_calibration(wrong[2000:], total[2000:]).calibration_error, 3)
    0.147
    >>> round(sw.loss_calibration(wrong[2000:], recalibrated).calibration_error, 3)
    0.0
    """

    def __init__(self, cv: int = 5, *, random_state: Any = None) -> None:
        self.cv = cv
        self.random_state = random_state

    maps_: list[list[IsotonicRegression]]

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the mean loss at each total uncertainty.

        Parameters
        ----------
        X : array or frame (n, p)
            Total uncertainty; each column is mapped by itself.
        y : array (n,)
            Losses of the same rows.

        Raises
        ------
        InvalidInput
            If there are fewer than two rows, or a loss is not finite.
        """
        self._fit(X, y)
        return self

    def cross_fit(self, X: Any, y: Any) -> np.ndarray:
        """Return the recalibrated uncertainty of the rows of the fit, each by a map without it.

        Use it to estimate the effect of recalibration without further rows.

        Parameters
        ----------
        X : array or frame (n, p)
        y : array (n,)

        Returns
        -------
        array (n, p)
        """
        X, folds = self._fit(X, y)
        mapped = np.empty(X.shape)
        for column, maps in enumerate(self.maps_):
            for isotonic, (_, left_out) in zip(maps, folds, strict=True):
                mapped[left_out, column] = isotonic.predict(X[left_out, column])
        return mapped

    def _fit(self, X: Any, y: Any) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        cv = validate.whole(self.cv, "cv", at_least=2)
        fresh = copy.copy(self)  # self stays unchanged if the rows are invalid
        X, y = validate_data(fresh, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        losses = validate.loss_vector(y, "y")
        shuffled = KFold(
            min(cv, len(X)), shuffle=True, random_state=seed_of(self.random_state) % 2**32
        )
        folds = list(shuffled.split(X))
        fresh.maps_ = [
            [
                IsotonicRegression(out_of_bounds="clip").fit(X[fold, column], losses[fold])
                for fold, _ in folds
            ]
            for column in range(X.shape[1])
        ]
        self.__dict__ = fresh.__dict__
        return X, folds

    def transform(self, X: Any) -> np.ndarray:
        """Return the mean loss at each total uncertainty.

        Parameters
        ----------
        X : array or frame (n, p)

        Returns
        -------
        array (n, p)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        columns = [
            np.mean([isotonic.predict(X[:, column]) for isotonic in maps], axis=0)
            for column, maps in enumerate(self.maps_)
        ]
        return np.stack(columns, axis=1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
