"""SelectiveClassifier, OODDetector and LossRecalibrator are estimators of scikit-learn."""

from __future__ import annotations

from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import scorewise as sw

FOREST = RandomForestClassifier(5, random_state=0)


@parametrize_with_checks(
    [
        sw.SelectiveClassifier(FOREST, max_loss=0.3),
        sw.SelectiveClassifier(LogisticRegression(max_iter=300), max_loss=0.3),
        sw.OODDetector(FOREST),
        sw.LossRecalibrator(),
    ]
)
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    if "array_api" in check.func.__name__:
        return  # runs only where SCIPY_ARRAY_API was set before SciPy was imported
    check(estimator)
