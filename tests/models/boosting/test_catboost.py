"""CatBoost: virtual ensembles as CatBoost computes them, pools, what gives no probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catboost import CatBoostClassifier, CatBoostRegressor, Pool, sum_models

import scorewise as sw
from boosting_support import TABLES, cat, fitted_boosting, native_cat
from classifier_support import IRIS, NAMES, SPECIES

SAMPLING = {"posterior sampling": {"posterior_sampling": True}, "SGLB": {"langevin": True}}


@pytest.mark.parametrize("settings", SAMPLING.values(), ids=SAMPLING)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("n", [None, 5])
def test_uncertainties_are_those_that_catboost_computes(settings, table, n):
    X, y = TABLES[table]
    model = cat(**settings).fit(X, y)
    uncertainty = sw.decompose(sw.predict_samples(model, X, n), "log")
    data, total = model.virtual_ensembles_predict(
        X, prediction_type="TotalUncertainty", virtual_ensembles_count=n or 10
    ).T
    np.testing.assert_allclose(uncertainty.aleatoric, data, rtol=1e-12)
    np.testing.assert_allclose(uncertainty.total, total, rtol=1e-12)


def test_a_virtual_ensemble_has_no_randomness_and_ends_with_the_model():
    model = fitted_boosting("CatBoost, posterior sampling")
    samples = sw.predict_samples(model, IRIS, random_state=0)
    np.testing.assert_array_equal(
        sw.predict_samples(model, IRIS, random_state=1).probs, samples.probs
    )
    np.testing.assert_allclose(samples.probs[:, -1], model.predict_proba(IRIS), rtol=1e-12)


def test_a_virtual_ensemble_has_at_most_half_as_many_members_as_iterations():
    model = cat(iterations=9, posterior_sampling=True).fit(IRIS, SPECIES)
    assert sw.predict_samples(model, IRIS).probs.shape == (150, 4, 3)
    with pytest.raises(sw.InvalidInput, match=r"9 iterations, .* 4 members, not of 5"):
        sw.predict_samples(model, IRIS, 5)
    with pytest.raises(sw.InvalidInput, match="1 iterations"):
        sw.predict_samples(cat(iterations=1, posterior_sampling=True).fit(IRIS, SPECIES), IRIS)


def test_several_sampling_models_are_members_each():
    models = [cat(posterior_sampling=True, random_seed=i).fit(IRIS, SPECIES) for i in range(3)]
    expected = np.stack([model.predict_proba(IRIS) for model in models], axis=1)
    np.testing.assert_array_equal(sw.predict_samples(models, IRIS).probs, expected)


@pytest.mark.parametrize("kind", ["CatBoost", "CatBoost, posterior sampling"])
def test_a_pool_gives_what_its_rows_give(kind):
    model, pool = fitted_boosting(kind), Pool(IRIS)
    expected = sw.predict_samples(model, IRIS, random_state=0).probs
    for batch_size in (None, 40):
        samples = sw.predict_samples(model, pool, random_state=0, batch_size=batch_size)
        np.testing.assert_allclose(samples.probs, expected, rtol=1e-12)
    several = sw.predict_samples([model, model, cat().fit(IRIS[::2], SPECIES[::2])], pool)
    assert several.probs.shape == (150, 3, 3)


def test_categories_pass_through():
    rows: Any = [[x, name] for x, name in zip(IRIS[:, 0], NAMES, strict=True)]
    model = cat(cat_features=[1], posterior_sampling=True).fit(rows, NAMES)
    samples = sw.predict_samples(model, rows)
    np.testing.assert_array_equal(samples.classes_, np.unique(NAMES))
    assert sw.task_losses(samples, NAMES, "zero-one").mean() < 0.05


@pytest.mark.parametrize("settings", [{}, {"posterior_sampling": True}])
def test_a_saved_model_has_the_same_members(settings, tmp_path: Path):
    model = cat(**settings).fit(IRIS, SPECIES)
    model.save_model(tmp_path / "model.cbm")
    loaded = CatBoostClassifier().load_model(tmp_path / "model.cbm")
    expected = sw.predict_samples(model, IRIS, random_state=0).probs
    np.testing.assert_allclose(sw.predict_samples(loaded, IRIS, random_state=0).probs, expected)


def test_the_initial_score_counts_once():
    X, y = TABLES["two classes"]
    model = cat(boost_from_average=True).fit(X, y)
    assert model.get_scale_and_bias()[1] != 0
    with_bias = sw.predict_samples([model, cat().fit(X, y)], X).probs[:, 0]
    np.testing.assert_allclose(with_bias, model.predict_proba(X))
    mean = sw.predict_samples(model, X, 100, random_state=0).probs.mean(axis=1)
    assert np.abs(mean - with_bias).max() < 0.2


def test_losses_without_probabilities_that_sum_to_1_are_refused():
    model = cat(loss_function="MultiClassOneVsAll").fit(IRIS, SPECIES)
    with pytest.raises(sw.InvalidInput, match="CatBoostClassifier has the loss function 'MultiCla"):
        sw.predict_samples(model, IRIS)
    settings = {"iterations": 2, "verbose": False, "allow_writing_files": False}
    for regressor in (CatBoostRegressor(**settings), native_cat(loss_function="RMSE")):
        with pytest.raises(sw.InvalidInput, match=f"{type(regressor).__name__} is a regressor"):
            sw.predict_samples(regressor.fit(IRIS, IRIS[:, 0]), IRIS)


@pytest.mark.parametrize("settings", [{}, {"posterior_sampling": True}])
def test_cross_entropy_has_log_odds(settings):
    X, y = TABLES["two classes"]
    model = cat(loss_function="CrossEntropy", **settings).fit(X, 0.1 + 0.8 * y)
    n_members = 10 if settings else 20
    assert sw.predict_samples(model, X, random_state=0).shape == (150, n_members, 2)
    native = native_cat(loss_function="CrossEntropy", **settings).fit(X, 0.1 + 0.8 * y)
    whole = sw.predict_samples([native], X).probs[:, 0]
    np.testing.assert_allclose(whole, model.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("loss", ["MultiLogloss", "MultiCrossEntropy"])
def test_models_of_several_labels_are_refused(loss):
    y = np.stack([SPECIES == 0, SPECIES < 2, SPECIES == 1], axis=1).astype(int)
    model, native = (make(loss_function=loss).fit(IRIS, y) for make in (cat, native_cat))
    for same in (model, native, [model, model], [native, native]):
        with pytest.raises(sw.InvalidInput, match=r"trained on several labels.*MultiOutputClass"):
            sw.predict_samples(same, IRIS)


def test_a_sum_of_models_names_the_models_that_it_is_made_from():
    models = [cat(random_seed=i).fit(IRIS, SPECIES) for i in range(2)]
    both = sum_models(models)
    for model in (both, [both, both]):
        with pytest.raises(sw.InvalidInput, match=r"sum_models do not; pass the models that it is"):
            sw.predict_samples(model, IRIS)
    assert sw.predict_samples(models, IRIS).shape == (150, 2, 3)


def test_classes_of_native_models_are_aligned_by_their_labels():
    y = np.where(SPECIES == 0, "yes", "no")
    forward, backward = (
        native_cat(loss_function="Logloss", class_names=names).fit(IRIS, y)
        for names in (["no", "yes"], ["yes", "no"])
    )
    samples = sw.predict_samples([forward, backward], IRIS)
    np.testing.assert_array_equal(samples.classes_, ["no", "yes"])
    [alone] = sw.predict_samples([backward], IRIS).probs[:, :1].swapaxes(0, 1)
    np.testing.assert_array_equal(samples.probs[:, 1], alone[:, ::-1])
    others = native_cat(loss_function="Logloss").fit(IRIS, np.where(y == "no", "maybe", y))
    with pytest.raises(sw.InvalidInput, match=r"member 1 .*has the classes \['maybe'\]"):
        sw.predict_samples([forward, others], IRIS)
