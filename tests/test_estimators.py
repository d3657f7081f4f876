"""Parameters of fit and metadata routing in meta-estimators: they reach the estimator inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

import scorewise as sw

# few rows are enough for what is tested
pytestmark = pytest.mark.filterwarnings("ignore:this SelectiveClassifier abstains")

IRIS, SPECIES = load_iris(return_X_y=True)
NUMBERED = np.c_[IRIS, np.arange(150)]
WEIGHTS = np.random.default_rng(0).uniform(0.1, 2, 150)
GROUPS = np.arange(150) % 50


class Records(ClassifierMixin, BaseEstimator):
    """A classifier that keeps what its fit gets; the last feature is the number of the row."""

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Records:
        self.rows_ = np.asarray(X)[:, -1].astype(int)
        self.sample_weight_, self.groups_ = sample_weight, groups
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile(self.shares_, (len(X), 1))

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def selective(estimator: Any) -> Any:
    return sw.SelectiveClassifier(estimator, max_loss=0.9, random_state=0)


def detector(estimator: Any) -> Any:
    return sw.OODDetector(estimator, component="total", random_state=0)


def bootstrap(estimator: Any) -> Any:
    return sw.BootstrapEnsemble(estimator, 3, random_state=0)


def without_bootstrap(estimator: Any) -> Any:
    return sw.BootstrapEnsemble(estimator, 3, bootstrap=False, random_state=0)


all_kinds = pytest.mark.parametrize("wrap", [selective, detector, bootstrap, without_bootstrap])


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def fitted_models(model: Any) -> list[Any]:
    return model.members_ if isinstance(model, sw.BootstrapEnsemble) else [model.estimator_]


def assert_weights_follow_rows(model: Any) -> None:
    for part in fitted_models(model):
        np.testing.assert_array_equal(part.sample_weight_, WEIGHTS[part.rows_])


@all_kinds
@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series])
def test_weights_reach_the_estimator_with_their_rows(wrap, kind):
    model = wrap(Records()).fit(NUMBERED, SPECIES, sample_weight=kind(WEIGHTS))
    assert_weights_follow_rows(model)
    assert all(part.groups_ is None for part in fitted_models(model))


@all_kinds
def test_weights_change_the_fit_and_equal_ones_do_not(wrap):
    lines = LogisticRegression(max_iter=1000)
    plain, equal, weighted = (
        wrap(lines).fit(IRIS, SPECIES, sample_weight=weights).predict_proba(IRIS)
        for weights in (None, np.ones(150), np.where(SPECIES == 1, 100.0, 1.0))
    )
    np.testing.assert_array_equal(equal, plain)
    assert weighted[:, 1].mean() > plain[:, 1].mean() + 0.01


@pytest.mark.parametrize("wrap", [selective, detector])
def test_weights_do_not_change_which_rows_are_held_out_or_how_they_count(wrap):
    plain = wrap(Records()).fit(NUMBERED, SPECIES)
    weighted = wrap(Records()).fit(NUMBERED, SPECIES, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(weighted.estimator_.rows_, plain.estimator_.rows_)
    np.testing.assert_array_equal(weighted.calibration_uncertainty_, plain.calibration_uncertainty_)


@all_kinds
def test_an_estimator_without_weights_refuses_them(wrap):
    message = "the fit of KNeighborsClassifier takes no sample_weight; leave it out, or use an"
    with pytest.raises(sw.InvalidInput, match=message):
        wrap(KNeighborsClassifier()).fit(IRIS, SPECIES, sample_weight=WEIGHTS)
    wrap(KNeighborsClassifier()).fit(IRIS, SPECIES, sample_weight=None)


@all_kinds
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (WEIGHTS[:-1], r"sample_weight.shape == \(149,\), expected \(150,\)"),
        (WEIGHTS[:, None], "Sample weights must be 1D"),
        (np.full(150, np.nan), "sample_weight contains NaN"),
    ],
    ids=["too few", "two axes", "nan"],
)
def test_wrong_weights_are_refused(wrap, weights, message):
    with pytest.raises(ValueError, match=message):
        wrap(Records()).fit(NUMBERED, SPECIES, sample_weight=weights)


@pytest.mark.parametrize("wrap", [selective, detector])
def test_weights_without_effect_are_refused(wrap):
    fitted = LogisticRegression(max_iter=1000).fit(IRIS, SPECIES)
    for model in (FrozenEstimator(fitted), [fitted]):
        with pytest.raises(sw.InvalidInput, match=r"sample_weight has no effect: the model \("):
            wrap(model).fit(IRIS, SPECIES, sample_weight=WEIGHTS)


@all_kinds
def test_other_parameters_reach_the_estimator_too(wrap):
    model = wrap(Records()).fit(NUMBERED, SPECIES, groups=GROUPS)
    for part in fitted_models(model):
        np.testing.assert_array_equal(part.groups_, GROUPS[part.rows_])
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), Records())
    model = wrap(pipeline).fit(NUMBERED, SPECIES, records__sample_weight=WEIGHTS)
    for part in fitted_models(model):
        np.testing.assert_array_equal(part[-1].sample_weight_, WEIGHTS[part[-1].rows_])
    search = GridSearchCV(Records(), {"random_state": [0]}, cv=GroupKFold(2))
    model = wrap(search).fit(NUMBERED, SPECIES, groups=GROUPS, sample_weight=WEIGHTS)
    for part in fitted_models(model):
        best = part.best_estimator_
        np.testing.assert_array_equal(best.sample_weight_, WEIGHTS[best.rows_])


def test_meta_estimators_pass_weights_on_to_one_another():
    model = selective(bootstrap(Records())).fit(NUMBERED, SPECIES, sample_weight=WEIGHTS)
    assert_weights_follow_rows(model.estimator_)


@all_kinds
def test_scikit_learn_sees_that_weights_are_accepted(wrap):
    assert has_fit_parameter(wrap(Records()), "sample_weight")
    assert_weights_follow_rows(wrap(Records()).fit(NUMBERED, SPECIES, WEIGHTS))
    lines = wrap(LogisticRegression(max_iter=1000))
    calibrated = CalibratedClassifierCV(lines, cv=3).fit(IRIS, SPECIES, sample_weight=WEIGHTS)
    boosted = AdaBoostClassifier(lines, n_estimators=5, random_state=0).fit(IRIS, SPECIES)
    assert min(calibrated.score(IRIS, SPECIES), boosted.score(IRIS, SPECIES)) > 0.8


@all_kinds
@pytest.mark.usefixtures("routing")
def test_weights_are_requested_of_the_estimator_and_not_of_what_is_around_it(wrap):
    assert not hasattr(wrap(Records()), "set_fit_request")
    weighted = wrap(LogisticRegression(max_iter=1000).set_fit_request(sample_weight=True))
    CalibratedClassifierCV(weighted, cv=3).fit(IRIS, SPECIES, sample_weight=WEIGHTS)
    with pytest.raises(UnsetMetadataPassedError, match=r"sample_weight.* not explicitly set"):
        make_pipeline(wrap(Records())).fit(NUMBERED, SPECIES, sample_weight=WEIGHTS)


@all_kinds
@pytest.mark.usefixtures("routing")
def test_metadata_are_routed_as_the_estimator_requests(wrap):
    requests = Records().set_fit_request(sample_weight="weights", groups=False)
    model = clone(wrap(requests)).fit(NUMBERED, SPECIES, weights=WEIGHTS)
    assert_weights_follow_rows(model)
    assert all(part.groups_ is None for part in fitted_models(model))
    with pytest.raises(UnsetMetadataPassedError, match=r"sample_weight.* not explicitly set"):
        wrap(Records()).fit(NUMBERED, SPECIES, sample_weight=WEIGHTS)
    with pytest.raises(TypeError, match="unexpected argument"):
        wrap(requests).fit(NUMBERED, SPECIES, groups=GROUPS)


@all_kinds
@pytest.mark.usefixtures("routing")
def test_metadata_are_routed_through_pipelines_searches_and_cross_validation(wrap):
    weighted = Records().set_fit_request(sample_weight=True, groups=False)
    scaler = StandardScaler(with_mean=False, with_std=False)
    scaler.set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scaler, wrap(weighted)).fit(NUMBERED, SPECIES, sample_weight=WEIGHTS)
    assert_weights_follow_rows(pipeline[-1])

    model = wrap(weighted).set_score_request(sample_weight=False)
    folds = GroupKFold(2)  # which request groups
    params = {"sample_weight": WEIGHTS, "groups": GROUPS}
    results = cross_validate(
        model, NUMBERED, SPECIES, cv=folds, params=params, return_estimator=True
    )
    for fitted in results["estimator"]:
        assert_weights_follow_rows(fitted)
    search = GridSearchCV(model, {"estimator__random_state": [0]}, cv=folds)
    search.fit(NUMBERED, SPECIES, **params)
    assert_weights_follow_rows(search.best_estimator_)


@pytest.mark.usefixtures("routing")
def test_metadata_reach_members_that_other_processes_fit():
    lines = LogisticRegression(max_iter=1000).set_fit_request(sample_weight=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    probs = [
        sw.BootstrapEnsemble(make_pipeline(scaler, lines), 3, n_jobs=n_jobs, random_state=0)
        .fit(IRIS, SPECIES, sample_weight=np.where(SPECIES == 1, 100.0, 1.0))
        .predict_proba(IRIS)
        for n_jobs in (None, 2)
    ]
    np.testing.assert_allclose(probs[0], probs[1], rtol=1e-9)
    assert probs[0][:, 1].mean() > 0.34


IS_VIRGINICA = SPECIES == 2
FOREST = RandomForestClassifier(5, max_depth=2, random_state=0)
THRESHOLD = FixedThresholdClassifier(FOREST, threshold=0.9)
UNDER_A_THRESHOLD = {
    "fixed": THRESHOLD,
    "tuned": TunedThresholdClassifierCV(FOREST, cv=2),
    "one classifier": FixedThresholdClassifier(LogisticRegression(), threshold=0.9),
    "pipeline": make_pipeline(StandardScaler(), THRESHOLD),
    "frozen": FrozenEstimator(clone(THRESHOLD).fit(IRIS, IS_VIRGINICA)),
    "search": GridSearchCV(THRESHOLD, {"threshold": [0.9]}, cv=2),
    "chosen by a search": GridSearchCV(
        make_pipeline(StandardScaler(), FOREST), {"randomforestclassifier": [THRESHOLD]}, cv=2
    ),
}


@all_kinds
@pytest.mark.parametrize("kind", UNDER_A_THRESHOLD)
def test_a_decision_threshold_is_refused_where_it_would_be_ignored(wrap, kind):
    model = wrap(UNDER_A_THRESHOLD[kind])
    message = rf"ThresholdClassifier.* which {type(model).__name__} would ignore.*cost_matrix"
    with pytest.raises(sw.InvalidInput, match=message):
        model.fit(IRIS, IS_VIRGINICA)


@pytest.mark.parametrize("wrap", [selective, detector])
def test_thresholds_in_a_list_are_refused_too(wrap):
    with pytest.raises(sw.InvalidInput, match="depend on a threshold"):
        wrap([clone(THRESHOLD).fit(IRIS, IS_VIRGINICA)]).fit(IRIS, IS_VIRGINICA)


@all_kinds
def test_a_threshold_may_be_put_around_them_and_its_labels_are_its_own(wrap):
    model = FixedThresholdClassifier(wrap(FOREST), threshold=0.9).fit(IRIS, IS_VIRGINICA)
    np.testing.assert_array_equal(model.predict(IRIS), model.predict_proba(IRIS)[:, 1] >= 0.9)


@pytest.mark.parametrize("threshold", [0.13, 0.5, 0.9])
def test_the_cost_matrix_of_a_threshold_gives_its_labels(threshold):
    costs = sw.rules.cost_matrix([[0, threshold], [1 - threshold, 0]])
    model = sw.SelectiveClassifier(FOREST, rule=costs, max_loss=0.1, random_state=0)
    model.fit(IRIS, IS_VIRGINICA)
    expected = FixedThresholdClassifier(FrozenEstimator(model.estimator_), threshold=threshold)
    labels = expected.fit(IRIS, IS_VIRGINICA).predict(IRIS)
    np.testing.assert_array_equal(model.predict(IRIS), labels)
    assert threshold == 0.5 or (labels != model.estimator_.predict(IRIS)).any()
