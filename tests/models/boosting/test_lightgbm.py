"""LightGBM: early stopping, what is no sum of scores, saved models."""

from __future__ import annotations

from pathlib import Path

import lightgbm
import numpy as np
import pytest

import scorewise as sw
from boosting_support import IS_VERSICOLOR, TABLES, light, light_booster
from classifier_support import IRIS, SPECIES


def test_iterations_after_the_best_are_left_out():
    data = lightgbm.Dataset(IRIS, IS_VERSICOLOR)
    quiet = {"objective": "binary", "verbose": -1, "num_threads": 1}
    held_out = data.create_valid(IRIS[::3], SPECIES[::3] == 1)
    stop = lightgbm.early_stopping(5, verbose=False)
    model = lightgbm.train(quiet, data, 60, valid_sets=[held_out], callbacks=[stop])
    assert 10 <= model.best_iteration < 60
    best = lightgbm.Booster(model_str=model.model_to_string(num_iteration=model.best_iteration))
    expected = sw.predict_samples(best, IRIS, random_state=0).probs
    np.testing.assert_allclose(sw.predict_samples(model, IRIS, random_state=0).probs, expected)


def test_the_slope_of_the_sigmoid_is_that_of_the_model():
    X, y = TABLES["two classes"]
    booster = light_booster(X, y, objective="binary", num_class=1, sigmoid=2.5)
    other = light_booster(X[::2], y[::2], objective="binary", num_class=1, sigmoid=2.5)
    samples = sw.predict_samples([booster, other], X)
    np.testing.assert_allclose(samples.probs[:, 0, 1], booster.predict(X))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"boosting_type": "dart"}, "by DART, which rescales earlier trees"),
        (
            {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
            "as a random forest, whose trees are averaged",
        ),
    ],
)
def test_trees_that_are_no_sum_of_scores_are_refused(settings, problem, tmp_path: Path):
    model = light(**settings).fit(IRIS, SPECIES)
    model.booster_.save_model(tmp_path / "model.txt")
    for same in (model, model.booster_, lightgbm.Booster(model_file=tmp_path / "model.txt")):
        with pytest.raises(sw.InvalidInput, match=problem):
            sw.predict_samples(same, IRIS)


def own_objective(labels: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return scores - labels, np.ones_like(scores)


@pytest.mark.parametrize("objective", [own_objective, "cross_entropy", "multiclassova"])
def test_objectives_without_probabilities_that_sum_to_1_are_refused(objective):
    y = SPECIES if objective == "multiclassova" else TABLES["two classes"][1]
    model = light(objective=objective).fit(IRIS, y)
    name = "custom" if objective is own_objective else objective
    with pytest.raises(sw.InvalidInput, match=f"LGBMClassifier has the objective '{name}'"):
        sw.predict_samples(model, IRIS)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_list_of_boosters_and_classifiers_says_what_it_may_hold(order):
    model = light().fit(IRIS, SPECIES)
    mixed = [(model.booster_, model)[i] for i in order]
    message = r"\(Booster\) is not a classifier, .* native boosters only \(booster_ or get_booster"
    for use in (sw.explain_model, lambda models: sw.predict_samples(models, IRIS)):
        with pytest.raises(sw.InvalidInput, match=message):
            use(mixed)


def test_a_saved_booster_has_the_same_members(tmp_path: Path):
    model = light().fit(IRIS, SPECIES)
    model.booster_.save_model(tmp_path / "model.txt")
    loaded = lightgbm.Booster(model_file=tmp_path / "model.txt")
    expected = sw.predict_samples(model, IRIS, random_state=0).probs
    np.testing.assert_allclose(sw.predict_samples(loaded, IRIS, random_state=0).probs, expected)
