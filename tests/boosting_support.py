"""Boosted trees of all libraries that several test files share: small, fast and reproducible."""

from __future__ import annotations

from functools import cache
from typing import Any

import lightgbm
import numpy as np
import xgboost
from catboost import CatBoost, CatBoostClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

from classifier_support import IRIS, SPECIES

N_ITERATIONS = 20

# Labels with errors, so that no score grows without bound.
IS_VERSICOLOR = (SPECIES == 1) ^ (np.arange(len(SPECIES)) % 9 == 0)


def light(**settings: Any) -> lightgbm.LGBMClassifier:
    settings = {"n_estimators": N_ITERATIONS, "min_child_samples": 5, **settings}
    return lightgbm.LGBMClassifier(n_jobs=1, verbose=-1, **settings)


def extreme(**settings: Any) -> xgboost.XGBClassifier:
    settings = {"n_estimators": N_ITERATIONS, "max_depth": 3, **settings}
    return xgboost.XGBClassifier(n_jobs=1, **settings)


def cat(**settings: Any) -> CatBoostClassifier:
    return CatBoostClassifier(**cat_settings(**settings))


def native_cat(**settings: Any) -> CatBoost:
    return CatBoost(cat_settings(**settings))


def cat_settings(**settings: Any) -> dict[str, Any]:
    quiet = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
    return {"iterations": N_ITERATIONS, "depth": 3, "random_seed": 0, **quiet, **settings}


def histogram(**settings: Any) -> HistGradientBoostingClassifier:
    settings = {"max_iter": N_ITERATIONS, "early_stopping": False, **settings}
    return HistGradientBoostingClassifier(min_samples_leaf=5, random_state=0, **settings)


def gradient(**settings: Any) -> GradientBoostingClassifier:
    # subsample: no two trees are alike
    settings = {"n_estimators": N_ITERATIONS, "subsample": 0.8, **settings}
    return GradientBoostingClassifier(max_depth=2, random_state=0, **settings)


CLASSIFIERS = {
    "LightGBM": light,
    "XGBoost": extreme,
    "CatBoost": cat,
    "CatBoost, posterior sampling": lambda: cat(posterior_sampling=True),
    "HistGradientBoosting": histogram,
    "GradientBoosting": gradient,
}

TABLES = {"two classes": (IRIS, IS_VERSICOLOR.astype(int)), "three classes": (IRIS, SPECIES)}


@cache
def fitted_boosting(kind: str, table: str = "three classes") -> Any:
    return CLASSIFIERS[kind]().fit(*TABLES[table])


def light_booster(X: Any = IRIS, y: Any = SPECIES, **parameters: Any) -> lightgbm.Booster:
    defaults = {"objective": "multiclass", "num_class": 3, "min_child_samples": 5}
    quiet = {"verbose": -1, "num_threads": 1}
    data = lightgbm.Dataset(X, y)
    return lightgbm.train({**defaults, **quiet, **parameters}, data, N_ITERATIONS)


def extreme_booster(X: Any = IRIS, y: Any = SPECIES, **parameters: Any) -> xgboost.Booster:
    defaults = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "nthread": 1}
    data = xgboost.DMatrix(X, y)
    return xgboost.train({**defaults, **parameters}, data, N_ITERATIONS)
