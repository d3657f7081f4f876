"""XGBoost: early stopping, its own matrices, what is no sum of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.special import expit
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline

import scorewise as sw
from boosting_support import TABLES, extreme, extreme_booster
from classifier_support import IRIS, SPECIES


@pytest.mark.parametrize("table", TABLES)
def test_a_matrix_gives_what_its_rows_give_and_is_left_as_it_was(table):
    X, y = TABLES[table]
    objective = {} if table == "three classes" else {"objective": "binary:logistic"}
    booster = extreme_booster(
        X, y, **objective, num_class=len(np.unique(y)) if not objective else 0
    )
    matrix = xgboost.DMatrix(X)
    samples = sw.predict_samples(booster, matrix, random_state=0)
    assert matrix.get_base_margin().size == 0
    expected = sw.predict_samples(booster, X, random_state=0).probs
    np.testing.assert_array_equal(samples.probs, expected)
    in_batches = sw.predict_samples(booster, matrix, random_state=0, batch_size=40).probs
    np.testing.assert_allclose(in_batches, expected, rtol=1e-5)
    model = extreme(max_depth=3).fit(X, y)
    expected = sw.predict_samples(model.get_booster(), matrix, random_state=0).probs
    np.testing.assert_array_equal(sw.predict_samples(model, X, random_state=0).probs, expected)


def test_the_base_margin_of_a_matrix_counts_once():
    X, y = TABLES["two classes"]
    model = extreme().fit(X, y)
    matrix = xgboost.DMatrix(X, base_margin=np.full(len(X), 3.0))
    shifted = sw.predict_samples([model.get_booster()] * 2, matrix).probs[:, 0]
    np.testing.assert_allclose(shifted[:, 1], model.get_booster().predict(matrix), rtol=1e-5)
    logits = [
        np.log(probs[..., 1] / probs[..., 0])
        for probs in (
            sw.predict_samples(model.get_booster(), rows, random_state=0).probs
            for rows in (matrix, X)
        )
    ]
    offset = 3.0 - float(np.log(y.mean() / (1 - y.mean())))
    np.testing.assert_allclose(logits[0] - logits[1], offset, atol=1e-3)


def test_rows_are_read_as_the_classifier_reads_them():
    X, y = TABLES["two classes"]
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    model = extreme().fit(frame, y)
    expected = sw.predict_samples(model, frame, random_state=0).probs
    np.testing.assert_array_equal(sw.predict_samples(model, X, random_state=0).probs, expected)
    with pytest.raises(sw.InvalidInput, match="feature_names mismatch"):
        sw.predict_samples(model, frame.rename(columns={"x0": "other"}))
    with_gaps = np.where(np.quantile(X, 0.9, axis=0) < X, np.nan, X)
    expected = sw.predict_samples(extreme().fit(with_gaps, y), with_gaps, random_state=0).probs
    marked = np.where(np.isnan(with_gaps), -1.0, with_gaps)
    model = extreme(missing=-1.0).fit(marked, y)
    np.testing.assert_array_equal(sw.predict_samples(model, marked, random_state=0).probs, expected)


def test_rounds_after_the_best_are_left_out():
    model = extreme(n_estimators=200, early_stopping_rounds=5, learning_rate=0.1)
    X, y = TABLES["two classes"]
    model.fit(X, y, eval_set=[(X[::3], SPECIES[::3] == 1)], verbose=False)
    booster = model.get_booster()
    assert 10 <= model.best_iteration + 1 < booster.num_boosted_rounds()
    best = booster[: model.best_iteration + 1]
    expected = sw.predict_samples(best, X, random_state=0).probs
    np.testing.assert_allclose(
        sw.predict_samples(model, X, random_state=0).probs, expected, rtol=1e-5
    )
    np.testing.assert_allclose(
        sw.predict_samples(booster, X, random_state=0).probs, expected, rtol=1e-5
    )


def trained_by(kind: str, X: Any, y: Any) -> xgboost.XGBClassifier:
    settings = {"max_depth": None} if kind == "gblinear" else {"rate_drop": 0.3}
    return extreme(booster=kind, **settings).fit(X, y)


@pytest.mark.parametrize("kind", ["dart", "gblinear"])
def test_boosters_that_are_no_sum_of_scores_are_refused(kind):
    model = trained_by(kind, IRIS, SPECIES)
    for same in (model, model.get_booster()):
        for use in (sw.explain_model, lambda model: sw.predict_samples(model, IRIS)):
            with pytest.raises(sw.InvalidInput, match=f"was trained (by|with).*{kind}|DART"):
                use(same)


@pytest.mark.parametrize("kind", ["dart", "gblinear"])
@pytest.mark.parametrize("table", TABLES)
def test_a_list_of_boosters_that_are_no_sum_of_scores_has_each_as_a_member(kind, table):
    X, y = TABLES[table]
    models = [trained_by(kind, X, y), trained_by(kind, X[::2], y[::2])]
    expected = np.stack([model.predict_proba(X) for model in models], axis=1)
    samples = sw.predict_samples([model.get_booster() for model in models], X)
    np.testing.assert_allclose(samples.probs, expected, rtol=1e-5)


def own_objective(labels: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return scores - labels, np.ones_like(scores)


@pytest.mark.parametrize(
    ("objective", "name"),
    [(own_objective, "an objective of its own"), ("binary:hinge", "the objective 'binary:hinge'")],
)
def test_objectives_without_probabilities_that_sum_to_1_are_refused(objective, name):
    model = extreme(objective=objective).fit(*TABLES["two classes"])
    with pytest.raises(sw.InvalidInput, match=f"XGBClassifier has {name}"):
        sw.predict_samples(model, IRIS)


@pytest.mark.parametrize("objective", ["binary:logitraw", "reg:logistic"])
def test_scores_that_are_log_odds_give_probabilities(objective):
    X, y = TABLES["two classes"]
    model = extreme(objective=objective).fit(X, y)
    assert sw.predict_samples(model, X, random_state=0).shape == (150, 20, 2)
    whole = sw.predict_samples([model.get_booster()], X).probs[:, 0, 1]
    np.testing.assert_allclose(whole, expit(model.predict(X, output_margin=True)), rtol=1e-5)


def test_models_of_several_labels_are_refused():
    y = np.stack([SPECIES == 0, SPECIES < 2, SPECIES == 1], axis=1).astype(int)
    model = extreme().fit(IRIS, y)
    booster = model.get_booster()
    in_pipeline = make_pipeline(model)
    for same in (model, booster, [model, model], [booster, booster], [in_pipeline, in_pipeline]):
        with pytest.raises(sw.InvalidInput, match=r"trained on several labels.*MultiOutputClass"):
            sw.predict_samples(same, IRIS)
    several = MultiOutputClassifier(extreme()).fit(IRIS, y)
    assert sw.predict_samples([several, several], IRIS).shape == (150, 3, 2, 2)


def test_a_random_forest_of_one_round_is_refused():
    model = xgboost.XGBRFClassifier(n_estimators=5, n_jobs=1).fit(IRIS, SPECIES)
    for same in (model, model.get_booster()):
        with pytest.raises(sw.InvalidInput, match=r"trained as a random forest.*BootstrapEnsemble"):
            sw.predict_samples(same, IRIS)
    assert sw.predict_samples([model, model], IRIS).shape == (150, 2, 3)
    ensemble = sw.BootstrapEnsemble(model, 2, random_state=0).fit(IRIS, SPECIES)
    assert sw.predict_samples(ensemble, IRIS).shape == (150, 2, 3)


def test_probabilities_near_0_keep_their_digits():
    X, y = TABLES["two classes"]
    booster = extreme().fit(X, y).get_booster()
    offsets = np.linspace(-600, 600, len(X))
    matrix = xgboost.DMatrix(X, base_margin=offsets)
    margins = booster.predict(matrix, output_margin=True).astype(float)
    expected = np.stack([expit(-margins), expit(margins)], axis=-1)
    probs = sw.predict_samples([booster], matrix).probs[:, 0]
    np.testing.assert_allclose(probs, expected, rtol=1e-14)
    far = xgboost.DMatrix(X, base_margin=np.full(len(X), 1e4))
    np.testing.assert_array_equal(sw.predict_samples([booster], far).probs[:, 0], [[0, 1]] * 150)
