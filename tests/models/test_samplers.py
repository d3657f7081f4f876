"""Samplers of committees: chunks, threads, subsets, and checks of what members return."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, RidgeClassifier
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import scorewise as sw
from classifier_support import (
    IRIS,
    KINDS,
    NAMES,
    SPECIES,
    Says,
    bagged_lines,
    columns_of,
    digits,
    fitted,
    forest,
    model_on,
)


def always(*row: float) -> Any:
    return lambda X: np.tile(np.array(row), (len(X), 1))


def test_members_may_return_half_or_single_precision():
    model = GaussianNB().fit(IRIS, SPECIES)
    single = Says(lambda X: model.predict_proba(X).astype(np.float32)).fit()
    half = Says(lambda X: np.tile(np.array([0.25, 0.25, 0.5], np.float16), (len(X), 1))).fit()
    assert sw.predict_samples([single, half], IRIS).probs.dtype == np.float32
    assert sw.predict_samples([single, model], IRIS).probs.dtype == np.float64


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_give_no_samples(kind):
    model = fitted(kind)
    m = sw.predict_samples(model, IRIS).probs.shape[1]
    samples = sw.predict_samples(model, IRIS[:0])
    assert samples.probs.shape == (0, m, 3)
    assert sw.decompose(samples, "log").epistemic.shape == (0,)


@settings(max_examples=40)
@given(kind=st.sampled_from(list(KINDS)), size=st.integers(1, 200), n=st.integers(1, 150))
def test_any_batch_size_gives_the_same_bits(kind, size, n):
    model = fitted(kind)
    np.testing.assert_array_equal(
        sw.predict_samples(model, IRIS[:n], batch_size=size).probs,
        sw.predict_samples(model, IRIS[:n]).probs,
    )


@settings(max_examples=10)
@given(size=st.integers(1, 160))
def test_linear_members_depend_on_the_batch_size_by_rounding_alone(size):
    model = fitted_lines()
    np.testing.assert_allclose(
        sw.predict_samples(model, IRIS, batch_size=size).probs,
        sw.predict_samples(model, IRIS).probs,
        rtol=1e-12,
    )


@cache
def fitted_lines() -> Any:
    return bagged_lines().fit(IRIS, SPECIES)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_does_not_matter(kind):
    expected = sw.predict_samples(fitted(kind), IRIS).probs
    try:
        for n in (1, 2, 5):
            sw.set_num_threads(n)
            np.testing.assert_array_equal(sw.predict_samples(fitted(kind), IRIS).probs, expected)
    finally:
        sw.set_num_threads(None)


def test_a_bar_changes_nothing(capfd):
    expected = sw.predict_samples(fitted("forest"), IRIS, progress=False).probs
    assert capfd.readouterr() == ("", "")
    shown = sw.predict_samples(fitted("forest"), IRIS, batch_size=10, progress=True).probs
    np.testing.assert_array_equal(shown, expected)
    assert capfd.readouterr().out == ""


def test_the_model_is_not_changed():
    model = fitted("calibration")
    before = model.predict_proba(IRIS)
    sw.predict_samples(model, IRIS)
    np.testing.assert_array_equal(model.predict_proba(IRIS), before)


def test_fewer_samples_are_a_random_subset_in_the_members_order():
    X, y = digits()
    model = forest(12, max_features=2).fit(X, y)
    full = sw.predict_samples(model, X).probs
    subsets = set()
    for seed in range(40):
        some = sw.predict_samples(model, X, 4, seed)
        again = sw.predict_samples(model, X, n_samples=4, random_state=seed, batch_size=100)
        np.testing.assert_array_equal(some.probs, again.probs)
        chosen = columns_of(some.probs, full)
        assert chosen == sorted(set(chosen))
        subsets.add(tuple(chosen))
    assert len(subsets) > 20
    assert {m for subset in subsets for m in subset} == set(range(12))
    np.testing.assert_array_equal(sw.predict_samples(model, X, 12, 0).probs, full)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_random_states_of_numpy_move_on(make):
    X, y = digits()
    model = forest(30).fit(X, y)

    def draw(state):
        return sw.predict_samples(model, X[:50], 10, state).probs

    state = make(0)
    first, second = draw(state), draw(state)
    np.testing.assert_array_equal(first, draw(make(0)))
    assert (first != second).any()


def test_without_a_seed_the_subset_is_fresh():
    X, y = digits()
    model = forest(30).fit(X, y)
    draws = [sw.predict_samples(model, X[:50], 10).probs for _ in range(4)]
    assert any((draws[0] != other).any() for other in draws[1:])


def weighted(*weights: float) -> VotingClassifier:
    voting = VotingClassifier([("a", GaussianNB()), ("b", forest())], voting="soft")
    return voting.set_params(weights=weights).fit(IRIS, SPECIES)


def test_a_subset_has_weight_or_is_refused():
    def outcome(seed: int) -> Any:
        try:
            return sw.predict_samples(weighted(1, 0), IRIS, 1, seed).weights.tolist()
        except sw.InvalidInput as error:
            return str(error)

    assert all(result == [1.0] or "weight" in result for result in map(outcome, range(6)))


@pytest.mark.parametrize("weights", [(2, -1), (np.nan, 1), (0, 0)])
def test_weights_of_voting_are_checked(weights):
    for options in ({}, {"into": sw.Accumulator("log")}):
        with pytest.raises(sw.InvalidInput, match="weights"):
            sw.predict_samples(weighted(*weights), IRIS, **options)


UNFITTED = KINDS | {
    "extra trees": lambda: ExtraTreesClassifier(),
    "frozen": lambda: FrozenEstimator(forest()),
    "calibrated frozen": lambda: CalibratedClassifierCV(FrozenEstimator(forest())),
    "randomized search": lambda: RandomizedSearchCV(forest(), {"max_depth": [1]}),
    "fixed threshold": lambda: FixedThresholdClassifier(forest()),
    "tuned threshold": lambda: TunedThresholdClassifierCV(forest()),
}


@pytest.mark.parametrize("kind", UNFITTED)
def test_an_unfitted_model_is_refused(kind):
    with pytest.raises(sw.InvalidInput, match="is not fitted"):
        sw.predict_samples(UNFITTED[kind](), IRIS)


def nan_at(row: int, k: int) -> Any:
    """Sure of everything but one row of the iris data."""

    def answer(X: Any) -> np.ndarray:
        probs = np.full((len(X), 3), 1 / 3)
        probs[(IRIS[row] == X).all(axis=1), k] = np.nan
        return probs

    return answer


def tree_on(y: Any) -> DecisionTreeClassifier:
    return DecisionTreeClassifier().fit(IRIS, y)


def in_twos(answer: Any, **options: Any) -> list[Any]:
    """Second in a list, after a good one."""
    return [model_on(SPECIES), Says(answer, **options).fit()]


BAD_MODELS = {
    "hard voting": (
        lambda: VotingClassifier([("a", GaussianNB())], voting="hard").fit(IRIS, SPECIES),
        r"uses hard voting, on labels; set voting='soft'",
    ),
    "search without refit": (
        lambda: GridSearchCV(forest(), {"max_depth": [1]}, cv=2, refit=False).fit(IRIS, SPECIES),
        r"GridSearchCV is not fitted, or refit=False",
    ),
    "nan": (
        lambda: in_twos(nan_at(101, 2)),
        r"member 1 \(Says\) returns nan for row 101, class 2; .*must return probabilities",
    ),
    "infinity": (
        lambda: in_twos(always(0.0, np.inf, 0.0)),
        r"member 1 \(Says\) returns inf for row 0, class 1",
    ),
    "logits": (
        lambda: in_twos(always(2.5, -1.5, 0.5)),
        r"member 1 \(Says\) returns -1.5 for row 0, class 1, which is negative; .*probabilities",
    ),
    "positive logits": (
        lambda: in_twos(always(2.5, 1.5, 0.5)),
        r"member 1 \(Says\) returns probabilities for row 0 that sum to 4.5, not 1; .*prob",
    ),
    "a negative that is lost in the sum": (
        lambda: in_twos(always(-1e-9, 0.5, 0.5 + 1e-9)),
        r"member 1 \(Says\) returns -1e-09 for row 0, class 0, which is negative",
    ),
    "whole numbers": (lambda: in_twos(always(0, 1, 0)), r"member 1 \(Says\).*dtype int64"),
    "words for probabilities": (
        lambda: in_twos(lambda X: np.full((len(X), 3), "much")),
        r"member 1 \(Says\).*dtype",
    ),
    "too few columns": (
        lambda: in_twos(always(0.5, 0.5)),
        r"member 1 \(Says\) returns shape \(150, 2\); .*must be \(150, 3\)",
    ),
    "one number a row": (
        lambda: in_twos(lambda X: np.full(len(X), 0.5)),
        r"member 1 \(Says\) returns shape \(150,\)",
    ),
    "too few rows": (
        lambda: in_twos(lambda X: np.full((len(X) - 1, 3), 1 / 3)),
        r"member 1 \(Says\) returns shape \(149, 3\)",
    ),
    "other classes": (
        lambda: [model_on(SPECIES), model_on(SPECIES + 1)],
        r"member 1 \(GaussianNB\) has the classes \[3\], which are not among \[0, 1, 2\]; "
        r"fit all members on the same classes",
    ),
    "overlapping classes": (
        lambda: [model_on(SPECIES, slice(0, 100)), model_on(SPECIES, slice(50, 150))],
        r"member 1 \(GaussianNB\) has the classes \[2\], which are not among \[0, 1\]",
    ),
    "words and numbers": (
        lambda: [model_on(SPECIES), model_on(NAMES)],
        r"member 1 \(GaussianNB\) has the classes \['setosa', 'versicolor', 'virginica'\]",
    ),
    "one class in all": (
        lambda: forest(2).fit(IRIS, np.zeros(150)),
        r"the model has only one class",
    ),
    "several outputs of a forest": (
        lambda: forest(2).fit(IRIS, np.c_[SPECIES, SPECIES == 1]),
        r"output 0 of RandomForestClassifier has the classes \[0, 1, 2\]",
    ),
    "several outputs": (
        lambda: [tree_on(np.c_[SPECIES, SPECIES]), tree_on(np.c_[SPECIES, SPECIES])],
        r"output 0 of member 0 \(DecisionTreeClassifier\) has the classes \[0, 1, 2\]",
    ),
    "several outputs of different classes": (
        lambda: [tree_on(SPECIES), tree_on(np.c_[SPECIES, SPECIES == 1])],
        r"member 0 \(DecisionTreeClassifier\) predicts one label per row, and another member",
    ),
    "a regression forest": (
        lambda: RandomForestRegressor(2).fit(IRIS, SPECIES),
        r"RandomForestRegressor .*regress",
    ),
    "a regression in a list": (
        lambda: [model_on(SPECIES), LinearRegression().fit(IRIS, SPECIES)],
        r"member 1 \(LinearRegression\) is a regressor",
    ),
    "labels only": (
        lambda: [RidgeClassifier().fit(IRIS, SPECIES)],
        r"member 0 \(RidgeClassifier\) has no predict_proba; .*CalibratedClassifierCV",
    ),
    "a classifier alone": (
        lambda: model_on(SPECIES),
        r"GaussianNB has no members: .*BootstrapEnsemble makes an ensemble",
    ),
    "a pipeline around no ensemble": (
        lambda: make_pipeline(StandardScaler(), GaussianNB()).fit(IRIS, SPECIES),
        r"Pipeline has no members",
    ),
    "a number": (lambda: 3, r"int has no members"),
    "nothing": (lambda: None, r"NoneType has no members"),
    "an empty list": (list, r"the list of classifiers is empty"),
    "a class in a list": (
        lambda: [GaussianNB],
        r"member 0 is the class GaussianNB; pass a fitted object of it",
    ),
    "an unknown object in a list": (
        lambda: [model_on(SPECIES), "forest"],
        r"path or name 'forest'; load it first",
    ),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_model_that_does_not_return_probabilities_is_refused(case):
    make, message = BAD_MODELS[case]
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(make(), IRIS)


@pytest.mark.parametrize("size", [1, 7, 100, 102])
def test_errors_count_rows_from_the_start_of_x(size):
    with pytest.raises(
        sw.InvalidInput, match=r"member 1 \(Says\) returns nan for row 101, class 2"
    ):
        sw.predict_samples(in_twos(nan_at(101, 2)), IRIS, batch_size=size)


def test_wrong_members_of_bagging_and_calibration_are_named():
    bagging = BaggingClassifier(GaussianNB(), 3, random_state=0).fit(IRIS, SPECIES)
    bagging.estimators_[2] = Says(always(0.5, np.nan, 0.5)).fit()
    with pytest.raises(sw.InvalidInput, match=r"member 2 \(Says\) returns nan for row 0, class 1"):
        sw.predict_samples(bagging, IRIS)
    calibrated = CalibratedClassifierCV(forest(3), cv=2).fit(IRIS, SPECIES)
    calibrated.calibrated_classifiers_[1].calibrators[0].a_ = np.nan
    with pytest.raises(sw.InvalidInput, match=r"fold 1, tree 0 returns nan for row 0"):
        sw.predict_samples(calibrated, IRIS)


WHO_REFUSES = {
    "forest": (forest, r"the model fails on X: X has 3 features, but RandomForest.* expecting 4"),
    "bagging": (bagged_lines, r"fails on X: X has 3 features, but BaggingClassifier"),
    "voting": (KINDS["voting"], r"member \d \(\w+\) fails on X: X has 3 features"),
    "pipeline": (KINDS["pipeline"], r"fails on X: X has 3 features, but StandardScaler"),
    "calibration": (KINDS["calibration"], r"fails on X: X has 3 features"),
    "bootstrap": (KINDS["bootstrap"], r"member \d \(GaussianNB\) fails on X: X has 3 features"),
}


@pytest.mark.parametrize("kind", WHO_REFUSES)
def test_a_wrong_number_of_columns_is_refused_with_the_name_of_the_member(kind):
    make, message = WHO_REFUSES[kind]
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(make().fit(IRIS, SPECIES), IRIS[:, :3])


def test_the_error_of_the_first_member_is_raised_whichever_thread_is_fastest():
    others = threading.Semaphore(0)

    def last(X: Any) -> np.ndarray:
        assert all(others.acquire(timeout=600) for _ in range(7))
        return np.full((len(X), 3), np.nan)

    def earlier(X: Any) -> np.ndarray:
        others.release()
        return np.ones((len(X), 3))

    wrong = [Says(last).fit(), *(Says(earlier).fit() for _ in range(7))]
    X = np.zeros((1 << 15, 1))  # enough rows for threads
    try:
        sw.set_num_threads(4)
        with pytest.raises(sw.InvalidInput, match=r"member 0 \(Says\) returns nan for row 0"):
            sw.predict_samples(wrong, X)
    finally:
        sw.set_num_threads(None)


def test_a_member_with_another_number_of_columns_is_named():
    narrow = GaussianNB().fit(IRIS[:, :2], SPECIES)
    with pytest.raises(sw.InvalidInput, match=r"member 1 \(GaussianNB\) fails on X: X has 4 feat"):
        sw.predict_samples([model_on(SPECIES), narrow], IRIS)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (None, "X has no rows"),
        (3.0, "X has no rows"),
        (IRIS[0], "fails on X: Expected 2D array, got 1D"),
        (IRIS[None], "fails on X: Found array with dim 3"),
        (NAMES, "fails on X: could not convert string to float"),
        (np.full((2, 4), np.inf), "fails on X: Input X contains infinity"),
    ],
)
@pytest.mark.parametrize("batch_size", [None, 1])
def test_inputs_that_are_no_tables_of_numbers_are_refused(X, message, batch_size):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(fitted("forest"), X, batch_size=batch_size)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cpu"}, "device= is for torch models"),
        ({"dropout": "last"}, "dropout= is for a torch module"),
        ({"output": "probs"}, "output= is for torch modules"),
        (
            {"n_samples": 6},
            "n_samples=6, but the model has 5 members; pass n_samples=None for all of them",
        ),
        ({"n_samples": 0}, "n_samples must be a whole number from 1 on, not 0"),
        ({"n_samples": 2.5}, "n_samples must be a whole number from 1 on, not 2.5"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1 on, not 0"),
        ({"batch_size": 2.0}, "batch_size must be a whole number"),
        ({"random_state": -1}, "random_state must be a whole number from 0 on, not -1"),
        ({"random_state": "seed"}, "random_state must be a whole number"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.predict_samples(fitted("forest"), IRIS, **options)
