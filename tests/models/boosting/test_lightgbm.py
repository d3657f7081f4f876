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


SETTINGS = {
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "rf": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
}


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("table", TABLES)
def test_a_list_of_boosters_that_are_no_sum_of_scores_has_each_as_a_member(kind, table):
    X, y = TABLES[table]
    objective = {} if table == "three classes" else {"objective": "binary", "num_class": 1}
    models = [light_booster(X, y, **SETTINGS[kind], **objective, seed=i) for i in range(2)]
    samples = sw.predict_samples(models, X)
    expected = np.stack([model.predict(X) for model in models], axis=1)
    probs = samples.probs if table == "three classes" else samples.probs[..., 1]
    np.testing.assert_allclose(probs, expected, rtol=1e-12)


def test_cross_entropy_has_log_odds():
    X, y = TABLES["two classes"]
    model = light(objective="cross_entropy").fit(X, y)
    assert sw.predict_samples(model, X, random_state=0).shape == (150, 20, 2)
    softened = light_booster(X, 0.1 + 0.8 * y, objective="cross_entropy", num_class=1)
    samples = sw.predict_samples([model.booster_, softened], X)
    expected = np.stack([model.booster_.predict(X), softened.predict(X)], axis=1)
    np.testing.assert_allclose(samples.probs[..., 1], expected, rtol=1e-12)


def test_a_cross_validated_booster_names_its_list_of_models():
    X, y = TABLES["two classes"]
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1}
    data = lightgbm.Dataset(X, y)
    several = lightgbm.cv(settings, data, 12, nfold=3, return_cvbooster=True)["cvbooster"]
    for model in (several, [several, several]):
        for use in (sw.explain_model, lambda model: sw.predict_samples(model, X)):
            with pytest.raises(sw.InvalidInput, match=r"predict_samples\(cv\.boosters, X\)"):
                use(model)
    assert sw.predict_samples(several.boosters, X).shape == (150, 3, 2)


def own_objective(labels: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return scores - labels, np.ones_like(scores)


@pytest.mark.parametrize("objective", [own_objective, "multiclassova"])
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
