"""SelectiveClassifier and OODDetector pass the checks of scikit-learn."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import scorewise as sw

# few rows are enough for what is tested
pytestmark = pytest.mark.filterwarnings("ignore:this SelectiveClassifier abstains")

IRIS, SPECIES = load_iris(return_X_y=True)
NAMES = load_iris().target_names[SPECIES]
FOREST = RandomForestClassifier(5, min_samples_leaf=3, random_state=0)
SOME = RandomForestClassifier(5, min_samples_leaf=3, random_state=0).fit(IRIS[::2], SPECIES[::2])
REST = IRIS[1::2], SPECIES[1::2]


def selective(estimator: Any = FOREST, **options: Any) -> Any:
    return sw.SelectiveClassifier(estimator, **({"max_loss": 0.3, "random_state": 0} | options))


def detector(estimator: Any = FOREST, **options: Any) -> Any:
    return sw.OODDetector(estimator, **({"random_state": 0} | options))


both = pytest.mark.parametrize("wrap", [selective, detector])


class Remembers(ClassifierMixin, BaseEstimator):
    """A naive Bayes of all features but the last, which is the number of the row."""

    def fit(self, X: Any, y: Any) -> Remembers:
        self.rows_ = np.asarray(X)[:, -1].astype(int)
        self.y_ = np.asarray(y)
        self.bayes_ = GaussianNB().fit(np.asarray(X)[:, :-1], y)
        self.classes_ = self.bayes_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.bayes_.predict_proba(np.asarray(X)[:, :-1])


NUMBERED = np.c_[IRIS, np.arange(150)]


def held_out(**options: Any) -> np.ndarray:
    """Rows of iris that calibrate."""
    seen = selective(Remembers(), **options).fit(NUMBERED, SPECIES).estimator_.rows_
    return np.setdiff1d(np.arange(150), seen)


class Backwards(ClassifierMixin, BaseEstimator):
    """A classifier whose classes are not in rising order."""

    def fit(self, X: Any, y: Any) -> Backwards:
        self.bayes_ = GaussianNB().fit(X, y)
        self.classes_ = self.bayes_.classes_[::-1]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.bayes_.predict_proba(X)[:, ::-1]


def networks(n: int, n_classes: int = 3, seed: int = 0) -> list[torch.nn.Module]:
    torch.manual_seed(seed)
    return [torch.nn.Linear(4, n_classes) for _ in range(n)]


def dropout_network(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 3)
    )


def failing_checks(_: Any) -> dict[str, str]:
    reason = "copies of a row are held out or not, each by itself; a row with a weight is one row"
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


# naive Bayes, where the weights of a class are 0
@pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning")
@parametrize_with_checks(
    [
        sw.SelectiveClassifier(FOREST, max_loss=0.3),
        sw.SelectiveClassifier(LogisticRegression(max_iter=300), max_loss=0.3),
        sw.SelectiveClassifier(sw.BootstrapEnsemble(GaussianNB(), 3, random_state=0), max_loss=0.3),
        sw.OODDetector(FOREST),
        sw.OODDetector(sw.BootstrapEnsemble(GaussianNB(), 3, random_state=0)),
    ],
    expected_failed_checks=failing_checks,
)
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    if "array_api" in check.func.__name__:
        return  # runs only where SCIPY_ARRAY_API was set before SciPy was imported
    check(estimator)


@both
@pytest.mark.parametrize(
    "labels",
    [
        SPECIES,
        SPECIES - 5,
        SPECIES.astype(np.uint8),
        SPECIES.astype(float),
        SPECIES > 0,
        NAMES,
        NAMES.astype(object),
        NAMES.tolist(),
        pd.Series(NAMES, index=range(500, 350, -1)),
        pd.Series(NAMES).astype("category"),
    ],
    ids=lambda labels: f"{type(labels).__name__}-{getattr(labels, 'dtype', 'str')}",
)
def test_labels_may_be_called_anything(wrap, labels):
    model = wrap(calibration_size=0.4).fit(IRIS, labels)
    expected = np.unique(np.asarray(labels))
    np.testing.assert_array_equal(model.classes_, expected)
    assert model.classes_.dtype == expected.dtype
    np.testing.assert_array_equal(
        model.predict(IRIS), expected[model.predict_proba(IRIS).argmax(axis=1)]
    )
    assert model.predict(IRIS).dtype == expected.dtype
    assert model.score(IRIS, labels) > 0.9


@both
def test_the_order_in_which_a_model_holds_its_classes_does_not_matter(wrap):
    model = wrap(Backwards(), component="total").fit(IRIS, NAMES)
    np.testing.assert_array_equal(model.classes_, np.unique(NAMES))
    assert model.score(IRIS, NAMES) > 0.9


@both
def test_probabilities_are_the_mean_of_the_members_and_uncertainty_is_theirs(wrap):
    for component in ("total", "aleatoric", "epistemic"):
        for rule in ("log", "brier", "zero-one"):
            model = (
                wrap(rule=rule, component=component, floor=1e-3)
                if wrap is selective
                else wrap(rule=rule, component=component)
            )
            model.fit(IRIS, NAMES)
            samples = sw.predict_samples(model.estimator_, IRIS)
            np.testing.assert_allclose(
                model.predict_proba(IRIS), samples.probs.mean(axis=1), rtol=1e-12, atol=1e-15
            )
            np.testing.assert_allclose(model.predict_proba(IRIS).sum(axis=1), 1, rtol=1e-12)
            expected = getattr(sw.decompose(samples, rule), component)
            np.testing.assert_allclose(model.uncertainty(IRIS), expected, rtol=1e-9, atol=1e-15)
            assert expected.max() > 0


@both
def test_n_samples_limits_the_members_that_predict(wrap):
    model = wrap(n_samples=2, batch_size=7).fit(IRIS, SPECIES)
    some = sw.predict_samples(model.estimator_, IRIS, 2, 0).probs.mean(axis=1)
    np.testing.assert_allclose(model.predict_proba(IRIS), some, rtol=1e-12, atol=1e-15)
    assert (some != sw.predict_samples(model.estimator_, IRIS).probs.mean(axis=1)).any()


@both
def test_rows_are_split_once_at_random_and_by_the_seed(wrap):
    def seen(**options: Any) -> list[int]:
        model = wrap(Remembers(), component="total", **options).fit(NUMBERED, SPECIES)
        assert len(model.calibration_uncertainty_) == 150 - len(model.estimator_.rows_)
        np.testing.assert_array_equal(model.estimator_.y_, SPECIES[model.estimator_.rows_])
        return model.estimator_.rows_.tolist()

    assert len(seen()) == 112
    assert len(seen(calibration_size=0.6)) == 60
    assert len(seen(calibration_size=0.001)) == 149, "at least one row calibrates"
    assert seen() == seen(random_state=0) != seen(random_state=1)
    assert seen(random_state=None) != seen(random_state=None)
    assert seen(random_state=np.random.default_rng(3)) == seen(
        random_state=np.random.default_rng(3)
    )
    often = np.bincount(
        np.concatenate([seen(random_state=seed) for seed in range(200)]), minlength=150
    )
    assert often.min() > 0.55 * 200  # on average 0.747, sd 0.031
    assert often.max() < 0.92 * 200


@both
def test_held_out_rows_calibrate_and_no_others(wrap):
    model = wrap(Remembers(), component="total").fit(NUMBERED, SPECIES)
    rest = np.setdiff1d(np.arange(150), model.estimator_.rows_)
    np.testing.assert_array_equal(
        model.calibration_uncertainty_, np.sort(model.uncertainty(NUMBERED[rest]))
    )


@both
@pytest.mark.parametrize("kind", ["frozen", "list", "tuple", "frozen list"])
def test_a_fitted_model_is_calibrated_on_all_rows(wrap, kind):
    other = RandomForestClassifier(3, max_depth=2, random_state=1).fit(IRIS[::2], SPECIES[::2])
    estimator = {
        "frozen": FrozenEstimator(SOME),
        "list": [SOME, other],
        "tuple": (SOME, other),
        "frozen list": [FrozenEstimator(SOME), FrozenEstimator(other)],
    }[kind]
    before = pickle.dumps([SOME, other])
    model = wrap(estimator).fit(*REST)
    assert model.estimator_ is estimator
    assert len(model.calibration_uncertainty_) == 75
    np.testing.assert_array_equal(
        model.calibration_uncertainty_, np.sort(model.uncertainty(REST[0]))
    )
    mean = sw.predict_samples(estimator, IRIS).probs.mean(axis=1)
    np.testing.assert_allclose(model.predict_proba(IRIS), mean, rtol=1e-12, atol=1e-15)
    assert pickle.dumps([SOME, other]) == before


@both
def test_a_frozen_model_stays_fitted_through_clones_and_searches(wrap):
    frozen = wrap(FrozenEstimator(SOME))
    assert clone(frozen).fit(*REST).score(IRIS, SPECIES) > 0.9
    assert cross_val_score(frozen, *REST, cv=3).min() > 0.8
    assert clone(wrap([FrozenEstimator(SOME)])).fit(*REST).score(IRIS, SPECIES) > 0.9


@both
def test_draws_of_dropout_are_the_same_in_calibration_and_prediction(wrap):
    network = dropout_network()
    for seed in (7, None, np.random.default_rng(0)):
        options = {"max_loss": 0.95} if wrap is selective else {}
        model = wrap(network, random_state=seed, **options).fit(IRIS, SPECIES)
        np.testing.assert_allclose(
            model.calibration_uncertainty_, np.sort(model.uncertainty(IRIS)), rtol=1e-6
        )
        np.testing.assert_array_equal(model.uncertainty(IRIS), model.uncertainty(IRIS))
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(model.predict_proba(IRIS), again.predict_proba(IRIS))
        if seed == 7:
            expected = sw.predict_samples(network, IRIS, random_state=7).probs.mean(axis=1)
            np.testing.assert_allclose(model.predict_proba(IRIS), expected, rtol=1e-5)
    few = wrap(network, n_samples=2, **options).fit(IRIS, SPECIES)
    assert (few.predict_proba(IRIS) != model.predict_proba(IRIS)).any()


@both
@pytest.mark.parametrize("as_tensor", [False, True])
def test_modules_are_calibrated_on_tensors_and_arrays(wrap, as_tensor):
    modules = networks(3)
    X = torch.tensor(IRIS, dtype=torch.float32) if as_tensor else IRIS
    y = torch.tensor(SPECIES) if as_tensor else SPECIES
    model = wrap(modules).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert len(model.calibration_uncertainty_) == 150
    mean = sw.predict_samples(modules, X).probs.mean(axis=1)
    np.testing.assert_allclose(model.predict_proba(X), mean, rtol=1e-5)
    np.testing.assert_array_equal(model.predict(X), mean.argmax(axis=1))
    assert clone(model).fit(X, y).score(X, SPECIES) == model.score(X, SPECIES)


@both
def test_modules_may_know_classes_that_no_row_has(wrap):
    first = SPECIES < 2
    model = wrap(networks(3)).fit(IRIS[first], SPECIES[first])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.predict_proba(IRIS).shape == (150, 3)


@both
@pytest.mark.parametrize("y", [SPECIES - 1, NAMES, SPECIES + 1], ids=["-1", "words", "too large"])
def test_labels_that_a_module_cannot_mean_are_refused(wrap, y):
    with pytest.raises(sw.InvalidInput, match="labels must be from 0 to 2"):
        wrap(networks(3)).fit(IRIS, y)


@both
def test_sparse_rows_and_texts_are_split_as_others_are(wrap):
    tree = sw.BootstrapEnsemble(DecisionTreeClassifier(), 3, random_state=0)
    dense = wrap(tree).fit(IRIS, SPECIES)
    for kind in (sparse.csr_array, sparse.coo_array, sparse.csc_matrix):
        thin = wrap(tree).fit(kind(IRIS), SPECIES)
        np.testing.assert_array_equal(thin.calibration_uncertainty_, dense.calibration_uncertainty_)
        np.testing.assert_array_equal(thin.predict_proba(kind(IRIS)), dense.predict_proba(IRIS))
    texts = ["red apple", "green apple", "fast car", "slow car"] * 10
    topics = ["fruit", "fruit", "road", "road"] * 10
    reader = make_pipeline(TfidfVectorizer(), RandomForestClassifier(5, random_state=0))
    model = wrap(reader).fit(texts, topics)
    np.testing.assert_array_equal(model.predict(["red apple", "slow car"]), ["fruit", "road"])


@both
def test_named_columns_are_remembered_and_checked(wrap):
    frame = pd.DataFrame(IRIS, columns=list("abcd"), index=range(1000, 1150))
    model = wrap().fit(frame, SPECIES)
    np.testing.assert_array_equal(model.feature_names_in_, list("abcd"))
    assert model.n_features_in_ == 4
    plain = wrap().fit(IRIS, SPECIES)
    assert not hasattr(plain, "feature_names_in_")
    np.testing.assert_array_equal(model.uncertainty(frame), plain.uncertainty(IRIS))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])
    assert not hasattr(wrap(networks(2)).fit(IRIS, SPECIES), "n_features_in_")


@both
def test_it_is_cloned_pickled_and_set_as_others_are(wrap):
    model = wrap(RandomForestClassifier(4, max_depth=2, random_state=0))
    assert is_classifier(model)
    twin = clone(model).set_params(estimator__max_depth=1, calibration_size=0.5)
    assert (model.estimator.max_depth, model.calibration_size) == (2, 0.25)
    fitted = model.fit(IRIS, NAMES)
    assert not hasattr(model.estimator, "classes_"), "the user's estimator is left as it was"
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.uncertainty(IRIS), fitted.uncertainty(IRIS))
    np.testing.assert_array_equal(again.predict(IRIS), fitted.predict(IRIS))
    assert twin.fit(IRIS, NAMES).estimator_.max_depth == 1
    assert len(twin.calibration_uncertainty_) == 75
    for name in ("classes_", "estimator_", "calibration_uncertainty_", "n_features_in_"):
        assert hasattr(fitted, name)
        assert not hasattr(clone(fitted), name)


@both
def test_a_search_tunes_what_is_inside_and_around(wrap):
    stump = RandomForestClassifier(5, max_features=1, random_state=0)
    search = GridSearchCV(
        wrap(stump), {"estimator__max_depth": [1, 6], "calibration_size": [0.25, 0.95]}, cv=3
    ).fit(IRIS, SPECIES)
    assert search.best_params_ == {"estimator__max_depth": 6, "calibration_size": 0.25}
    assert search.best_estimator_.estimator_.max_depth == 6
    inside = wrap(GridSearchCV(stump, {"max_depth": [1, 6]}, cv=3)).fit(IRIS, SPECIES)
    assert inside.estimator_.best_params_ == {"max_depth": 6}


@both
def test_it_works_inside_and_around_pipelines(wrap):
    outside = make_pipeline(StandardScaler(), wrap()).fit(IRIS, NAMES)
    assert cross_val_score(outside, IRIS, NAMES, cv=3).min() > 0.85
    around = wrap(make_pipeline(StandardScaler(), FOREST)).fit(IRIS, NAMES)
    assert around.n_features_in_ == 4
    expected = sw.predict_samples(around.estimator_, IRIS).probs.mean(axis=1)
    np.testing.assert_allclose(around.predict_proba(IRIS), expected, rtol=1e-12, atol=1e-15)


@both
def test_a_class_that_no_row_to_fit_on_had_gets_probability_zero(wrap):
    rest = held_out()
    y = np.where(SPECIES == 2, "a", "c")
    y[rest[:3]] = "b"
    for rule, options in (("zero-one", {}), ("brier", {}), ("log", {"floor": 1e-3})):
        if wrap is detector:
            options = {}
        model = wrap(rule=rule, **options).fit(IRIS, y)
        np.testing.assert_array_equal(model.classes_, ["a", "b", "c"])
        probs = model.predict_proba(IRIS)
        np.testing.assert_array_equal(probs[:, 1], 0)
        np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-12)
        assert set(model.predict(IRIS)) == {"a", "c"}
        assert model.score(IRIS, y) > 0.85


@both
def test_a_cost_matrix_knows_the_class_that_no_row_to_fit_on_had(wrap):
    y = (SPECIES == 2).astype(int)
    y[held_out()[:3]] = 2
    model = wrap(rule=sw.rules.cost_matrix(1 - np.eye(3))).fit(IRIS, y)
    zero_one = wrap(rule="zero-one").fit(IRIS, y)
    np.testing.assert_allclose(model.uncertainty(IRIS), zero_one.uncertainty(IRIS), atol=1e-12)


def test_one_classifier_alone_has_a_total_but_nothing_epistemic():
    model = selective(GaussianNB()).fit(IRIS, SPECIES)
    assert isinstance(model.estimator_, GaussianNB)
    probs = model.estimator_.predict_proba(IRIS)
    np.testing.assert_allclose(model.uncertainty(IRIS), 1 - probs.max(axis=1), atol=1e-12)
    with pytest.raises(sw.InvalidInput, match=r"GaussianNB is one classifier, .*Bootstrap"):
        detector(GaussianNB()).fit(IRIS, SPECIES)
    ensemble = sw.BootstrapEnsemble(GaussianNB(), 5)
    assert detector(ensemble).fit(IRIS, SPECIES).uncertainty(IRIS).max() > 0


@both
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"component": "guess"}, "component must be one of 'total', 'aleatoric', 'epistemic'"),
        ({"rule": "guess"}, "no rule is called 'guess'"),
        ({"rule": ["log", "brier"]}, "is not a scoring rule"),
        ({"calibration_size": 0}, "calibration_size must be above 0 and below 1"),
        ({"calibration_size": 1.0}, "calibration_size must be above 0 and below 1"),
        ({"random_state": -1}, "random_state must be a whole number"),
        ({"n_samples": 0}, "n_samples"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1 on"),
        ({"device": "cpu"}, "device= is for torch models"),
        ({"estimator": RidgeClassifier(), "component": "total"}, "has no predict_proba"),
        ({"estimator": None, "component": "total"}, "is not a classifier"),
        ({"estimator": FrozenEstimator(GaussianNB()), "component": "total"}, "not fitted"),
        ({"estimator": [GaussianNB()]}, "not fitted"),
    ],
)
def test_bad_parameters_are_refused_and_nothing_is_lost(wrap, options, message):
    model = wrap().fit(IRIS, SPECIES)
    before, state = model.uncertainty(IRIS), set(vars(model))
    model.set_params(**options)
    with pytest.raises(sw.InvalidInput, match=message):
        model.fit(IRIS, NAMES)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    np.testing.assert_array_equal(model.uncertainty(IRIS), before)
    assert set(vars(model)) == state
    fresh = wrap(**options)
    with pytest.raises(sw.InvalidInput, match=message):
        fresh.fit(IRIS, SPECIES)
    with pytest.raises(NotFittedError):
        fresh.predict(IRIS)


@both
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (IRIS[:100], SPECIES, r"inconsistent numbers of samples: \[100, 150\]"),
        (IRIS, np.linspace(0, 1, 150), "Unknown label type"),
        (IRIS, np.c_[SPECIES, SPECIES], "1d array"),
        (IRIS, np.where(SPECIES == 0, np.nan, SPECIES), "NaN"),
        (IRIS, np.where(SPECIES == 0, np.nan, NAMES.astype(object)), "NaN"),
        (np.where(IRIS > 7, np.inf, IRIS), SPECIES, "infinity"),
        (IRIS, np.zeros(150), "the model has only one class"),
        (IRIS[:1], SPECIES[:1], r"1 sample\(s\) cannot be split"),
        (IRIS[:0], SPECIES[:0], "sample"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_lost(wrap, X, y, message):
    model = wrap().fit(IRIS, SPECIES)
    before = model.uncertainty(IRIS)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    np.testing.assert_array_equal(model.uncertainty(IRIS), before)
    np.testing.assert_array_equal(model.predict(IRIS[:50]), SPECIES[:50])


@both
def test_a_bad_row_is_refused_wherever_it_falls(wrap):
    X = IRIS.copy()
    X[17, 1] = np.inf
    for seed in range(10):
        with pytest.raises(ValueError, match="infinity"):
            wrap(random_state=seed).fit(X, SPECIES)


@both
def test_one_row_or_one_class_can_calibrate_a_fitted_model(wrap):
    single = wrap(FrozenEstimator(SOME)).fit(IRIS[1:2], SPECIES[1:2])
    assert len(single.calibration_uncertainty_) == 1
    same = wrap(FrozenEstimator(SOME)).fit(IRIS[1:50:2], SPECIES[1:50:2])
    np.testing.assert_array_equal(same.classes_, [0, 1, 2])
    assert same.score(IRIS, SPECIES) > 0.9


@both
def test_an_unfitted_model_raises_not_fitted(wrap):
    model = wrap()
    for name in (
        "predict",
        "predict_proba",
        "uncertainty",
        "accepts",
        "predict_or_abstain",
        "check_drift",
        "p_values",
        "is_outlier",
        "score_samples",
    ):
        if hasattr(type(model), name):
            with pytest.raises(NotFittedError):
                getattr(model, name)(IRIS)
    with pytest.raises(AttributeError, match=f"'{type(model).__name__}' object has no attribute"):
        _ = model.fit(IRIS, SPECIES).xyz


@both
def test_no_rows_give_empty_answers(wrap):
    model = wrap().fit(IRIS, NAMES)
    for name in (
        "predict",
        "uncertainty",
        "p_values",
        "is_outlier",
        "score_samples",
        "accepts",
        "predict_or_abstain",
    ):
        if hasattr(model, name):
            assert len(getattr(model, name)(IRIS[:0])) == 0
    assert model.predict_proba(IRIS[:0]).shape == (0, 3)
