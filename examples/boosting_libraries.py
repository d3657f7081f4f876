"""Boosted trees of five libraries: the uncertainty of one fitted model of each.

    python examples/boosting_libraries.py

The models learn eight of the ten digits. Their uncertainty decides which test images to leave to a
person, and shows that the eights and nines are of no class that they know. The libraries are in the
extra "boosting"; the gallery has boosted_trees.py, which needs LightGBM only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import xgboost
from catboost import CatBoostClassifier
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw

X, y = load_digits(return_X_y=True)
X_known, y_known, X_new = X[y < 8], y[y < 8], X[y >= 8]
X_train, X_test, y_train, y_test = train_test_split(X_known, y_known, random_state=0)


def catboost() -> Any:
    """Its members are CatBoost's own virtual ensemble, thanks to posterior_sampling."""
    model = CatBoostClassifier(
        iterations=60, posterior_sampling=True, verbose=False, allow_writing_files=False
    )
    return model.fit(X_train, y_train)


def light_gbm() -> Any:
    """A classifier with the interface of scikit-learn; a Booster works, too."""
    return lightgbm.LGBMClassifier(n_estimators=30, verbose=-1).fit(X_train, y_train)


def xg_boost() -> Any:
    """A native Booster, which takes a DMatrix or, here, an array."""
    settings = {"objective": "multi:softprob", "num_class": 8}
    return xgboost.train(settings, xgboost.DMatrix(X_train, y_train), 30)


def histogram() -> Any:
    """scikit-learn's model for many rows."""
    return HistGradientBoostingClassifier(max_iter=30).fit(X_train, y_train)


def gradient() -> Any:
    """scikit-learn's model for few rows."""
    return GradientBoostingClassifier(n_estimators=20).fit(X_train, y_train)


def report(fit: Callable[[], Any]) -> None:
    """Fit a model, and print what its uncertainty is worth."""
    model = fit()
    known = sw.predict_samples(model, X_test, random_state=0)
    new = sw.predict_samples(model, X_new, random_state=0)
    errors = sw.task_losses(known, y_test, "zero-one")
    certain_first = np.argsort(sw.decompose(known, "zero-one").total)
    most_certain = certain_first[: len(errors) * 9 // 10]
    auroc = sw.ood_metrics(sw.decompose(known, "log").total, sw.decompose(new, "log").total).auroc
    print(
        f"{fit.__name__:10} error {errors.mean():6.2%}, of the most certain 90 % "
        f"{errors[most_certain].mean():6.2%}; unknown digits are noticed with AUROC {auroc:.3f}"
    )


if __name__ == "__main__":
    for fit in (catboost, light_gbm, xg_boost, histogram, gradient):
        report(fit)
