"""LaplaceClassifier: draws of a logistic regression's coefficients from their posterior."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import scorewise as sw
from classifier_support import IRIS, NAMES, SPECIES
from scorewise.errors import ScorewiseWarning

X = StandardScaler().fit_transform(IRIS)
WEIGHTS = np.random.default_rng(0).integers(1, 4, 150).astype(float)
IS_VIRGINICA = NAMES == "virginica"


def regression(**options: Any) -> LogisticRegression:
    return LogisticRegression(**{"solver": "newton-cholesky", "tol": 1e-10} | options)


def laplace(y: Any = SPECIES, rows: Any = X, **options: Any) -> sw.LaplaceClassifier:
    return sw.LaplaceClassifier(regression(**options)).fit(rows, y)


@parametrize_with_checks([sw.LaplaceClassifier(LogisticRegression(max_iter=500))])
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    if "array_api" in check.func.__name__:
        return  # runs only where SCIPY_ARRAY_API was set before SciPy was imported
    with warnings.catch_warnings():  # of classes that are separated, where fits end early
        warnings.simplefilter("ignore", ScorewiseWarning)
        check(estimator)


# -- the posterior --------------------------------------------------------------------------------


def numerical_precision(
    model: LogisticRegression, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Differentiate the log posterior of all classes' coefficients, and take its contrasts."""
    n_classes, n_features = len(model.classes_), X.shape[1]
    codes = torch.tensor(np.searchsorted(model.classes_, labels))
    design = torch.tensor(np.column_stack([X, np.ones(len(X))]))
    prior = torch.ones(n_features + 1, dtype=torch.float64) / model.C
    prior[-1] = 1 / model.C / model.intercept_scaling**2 if model.solver == "liblinear" else 0

    def loss(flat: torch.Tensor) -> torch.Tensor:
        coef = flat.reshape(-1, n_features + 1)
        logits = design @ coef.T
        if n_classes == 2:
            logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
        losses = torch.nn.functional.cross_entropy(logits, codes, reduction="none")
        return (torch.tensor(weights) * losses).sum() + (prior * coef**2).sum() / 2

    mode = torch.tensor(np.column_stack([model.coef_, model.intercept_]).ravel())
    return torch.autograd.functional.hessian(loss, mode).numpy()


CASES = {
    "two classes": (IS_VIRGINICA, {}),
    "three classes": (NAMES, {"C": 0.3}),
    "penalised intercept": (IS_VIRGINICA, {"solver": "liblinear", "intercept_scaling": 2.0}),
    "class weights": (NAMES, {"class_weight": {"setosa": 1, "versicolor": 2, "virginica": 0.5}}),
    "balanced": (IS_VIRGINICA, {"class_weight": "balanced"}),
}


@pytest.mark.parametrize("as_rows", [np.asarray, csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("case", CASES)
def test_the_precision_is_the_hessian_of_the_log_posterior(case, as_rows):
    y, options = CASES[case]
    model = laplace(y, as_rows(X), **options)
    posterior, fitted = model.posterior_, model.estimator_
    weights = np.ones(len(y))
    if options.get("class_weight") == "balanced":
        weights = len(y) / 2 / np.where(y, y.sum(), (~y).sum())
    elif "class_weight" in options:
        weights = np.array([options["class_weight"][label] for label in y], float)
    of_classes = numerical_precision(fitted, y, weights)
    to_contrasts = np.eye(1)
    if len(fitted.classes_) > 2:
        to_contrasts = posterior.contrasts
    project = np.kron(to_contrasts, np.eye(X.shape[1] + 1))
    expected = project @ of_classes @ project.T
    np.testing.assert_allclose(
        posterior.factor @ posterior.factor.T, expected, atol=1e-9 * expected.max()
    )


def test_it_is_the_full_laplace_approximation_of_laplace_torch():
    laplace_torch = pytest.importorskip("laplace")
    model = laplace(C=2.0, fit_intercept=False)
    network = torch.nn.Sequential(torch.nn.Linear(4, 3, bias=False, dtype=torch.float64))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor(model.estimator_.coef_))
    reference = laplace_torch.Laplace(
        network,
        "classification",
        subset_of_weights="all",
        hessian_structure="full",
        prior_precision=torch.tensor(0.5, dtype=torch.float64),
    )
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(SPECIES))
    reference.fit(torch.utils.data.DataLoader(data, batch_size=50))
    project = np.kron(model.posterior_.contrasts, np.eye(4))
    expected = project @ reference.posterior_precision.numpy() @ project.T
    factor = model.posterior_.factor
    np.testing.assert_allclose(factor @ factor.T, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("y", [IS_VIRGINICA, SPECIES], ids=["two classes", "three"])
def test_draws_have_the_covariance_of_the_posterior(y):
    model = laplace(y)
    axes = np.vstack([np.eye(4), np.zeros(4)])  # their logits give all coefficients
    probs = sw.predict_samples(model, axes, 4000, random_state=0).probs
    posterior = model.posterior_
    to_contrasts = np.array([[-1.0, 1.0]]) if probs.shape[-1] == 2 else posterior.contrasts
    values = np.log(probs) @ to_contrasts.T  # (5, M, K − 1)
    drawn = np.concatenate([values[:4] - values[4], values[4:]]).transpose(1, 2, 0)
    drawn = drawn.reshape(len(drawn), -1)
    whitened = (drawn - posterior.mode.ravel()) @ posterior.factor
    np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=0.07)
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(drawn.shape[1]), atol=0.1)


def test_with_many_rows_draws_vary_as_fits_on_new_rows_do():
    rng = np.random.default_rng(0)
    truth = np.array([1.0, -1.0, 0.5])

    def new_fit() -> tuple[np.ndarray, np.ndarray, LogisticRegression]:
        rows = rng.normal(size=(2000, 3))
        y = rng.random(2000) < expit(rows @ truth - 0.3)
        return rows, y, regression(C=np.inf, tol=1e-6).fit(rows, y)

    logits = np.stack([new_fit()[2].decision_function(np.eye(3)) for _ in range(300)])
    rows, y, model = new_fit()
    samples = (
        sw.LaplaceClassifier(FrozenEstimator(model))
        .fit(rows, y)
        .predict_samples(np.eye(3), 2000, random_state=0)
    )
    drawn = np.log(samples.probs[..., 1] / samples.probs[..., 0]).T
    expected, covariance = np.cov(logits.T), np.cov(drawn.T)
    np.testing.assert_allclose(covariance, expected, atol=0.25 * expected.max())


def test_a_row_of_weight_2_is_two_rows():
    weighted = sw.LaplaceClassifier(regression()).fit(X, SPECIES, sample_weight=WEIGHTS)
    places = np.repeat(np.arange(150), WEIGHTS.astype(int))
    repeated = laplace(SPECIES[places], X[places])
    for name in ("mode", "factor"):
        np.testing.assert_allclose(
            getattr(weighted.posterior_, name), getattr(repeated.posterior_, name), atol=1e-6
        )


def test_without_a_penalty_the_prior_is_flat():
    y = SPECIES == 1  # not linear in the features
    flat, wide = laplace(y, C=np.inf), laplace(y, C=1e9)
    np.testing.assert_allclose(flat.posterior_.factor, wide.posterior_.factor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("y", [SPECIES == 1, SPECIES], ids=["two classes", "three"])
def test_a_cross_validated_regression_has_the_posterior_of_the_penalty_that_it_chose(y, legacy):
    model = sw.LaplaceClassifier(cross_validated(use_legacy_attributes=legacy)).fit(X, y)
    chosen = laplace(y, C=np.ravel(model.estimator_.C_)[0])
    for name in ("mode", "factor"):
        np.testing.assert_allclose(
            getattr(model.posterior_, name), getattr(chosen.posterior_, name), atol=1e-6
        )
    frozen = sw.LaplaceClassifier(FrozenEstimator(model.estimator_)).fit(X, y)
    np.testing.assert_array_equal(
        sw.predict_samples(frozen, X, random_state=0).probs,
        sw.predict_samples(model, X, random_state=0).probs,
    )


# -- samples --------------------------------------------------------------------------------------


def test_a_draw_is_one_set_of_coefficients_for_all_rows():
    model = laplace(NAMES)
    whole = sw.predict_samples(model, X, 7, random_state=3)
    assert whole.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    for batch_size in (1, 40):
        np.testing.assert_allclose(
            sw.predict_samples(model, X, 7, random_state=3, batch_size=batch_size).probs,
            whole.probs,
            rtol=1e-12,
        )
    np.testing.assert_allclose(model.predict_samples(X, 7, 3).probs, whole.probs)
    np.testing.assert_allclose(sw.predict_samples(model, csr_matrix(X), 7, 3).probs, whole.probs)
    assert not np.allclose(model.predict_samples(X, 7, 4).probs, whole.probs)
    assert model.predict_samples(X).shape == (150, 20, 3)
    np.testing.assert_array_equal(model.predict_proba(X), model.estimator_.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), model.estimator_.predict(X))


def test_draws_are_less_certain_where_there_were_fewer_rows():
    few, many = laplace(rows=X[::5], y=SPECIES[::5]), laplace()
    epistemic = [
        sw.decompose(model.predict_samples(X, 100, 0), "log").epistemic.mean()
        for model in (few, many)
    ]
    assert epistemic[0] > 1.5 * epistemic[1]


def test_pipelines_searches_and_frozen_models_may_be_around_or_inside():
    expected = laplace(NAMES).predict_samples(X, 5, 0).probs
    pipeline = make_pipeline(StandardScaler(), regression())
    models = [
        make_pipeline(StandardScaler(), sw.LaplaceClassifier(regression())),
        sw.LaplaceClassifier(pipeline),
        sw.LaplaceClassifier(make_pipeline(pipeline)),
        sw.LaplaceClassifier(FrozenEstimator(pipeline.fit(IRIS, NAMES))),
        GridSearchCV(sw.LaplaceClassifier(pipeline), {"estimator__logisticregression__C": [1.0]}),
        sw.LaplaceClassifier(GridSearchCV(pipeline, {"logisticregression__C": [1.0]})),
    ]
    for model in models:
        fitted = model.fit(IRIS, NAMES)
        np.testing.assert_allclose(sw.predict_samples(fitted, IRIS, 5, 0).probs, expected)


def test_it_works_wherever_an_ensemble_does():
    selective = sw.SelectiveClassifier(
        sw.LaplaceClassifier(regression()), component="epistemic", max_loss=0.5, random_state=0
    )
    assert selective.fit(X, NAMES).classes_.tolist() == np.unique(NAMES).tolist()
    calibrated = CalibratedClassifierCV(sw.LaplaceClassifier(regression()), cv=2).fit(X, NAMES)
    assert sw.predict_samples(calibrated, X, random_state=0).shape == (150, 40, 3)
    learner = sw.ActiveLearner(sw.LaplaceClassifier(regression()), X, random_state=0)
    rows = learner.ask()
    learner.tell(rows, SPECIES[rows])


def test_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = laplace(rows=frame)
    np.testing.assert_allclose(
        sw.predict_samples(model, frame, 3, 0, batch_size=50).probs,
        laplace().predict_samples(X, 3, 0).probs,
    )
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(sw.InvalidInput, match="feature names"):
        sw.predict_samples(model, frame[["b", "a", "c", "d"]])


def test_weights_are_routed_to_the_regression():
    expected = sw.LaplaceClassifier(regression()).fit(X, SPECIES, sample_weight=WEIGHTS)
    pipeline = make_pipeline(StandardScaler(), sw.LaplaceClassifier(regression()))
    pipeline.fit(IRIS, SPECIES, laplaceclassifier__sample_weight=WEIGHTS)
    np.testing.assert_allclose(pipeline[-1].posterior_.factor, expected.posterior_.factor)


# -- errors ---------------------------------------------------------------------------------------

SAGA = {"solver": "saga", "max_iter": 5000, "tol": 1e-3}


def cross_validated(**options: Any) -> LogisticRegressionCV:
    defaults = {
        "Cs": [0.1, 0.4],
        "l1_ratios": (0,),
        "scoring": "accuracy",
        "use_legacy_attributes": False,
        "solver": "newton-cholesky",
        "tol": 1e-10,
    }
    return LogisticRegressionCV(**defaults | options)


REFUSED = {
    "L1": (regression(l1_ratio=1.0, **SAGA), "the L1 penalty has no Hessian"),
    "elastic net": (regression(l1_ratio=0.5, **SAGA), "the L1 penalty has no Hessian"),
    "another classifier": (
        RandomForestClassifier(2),
        "takes a LogisticRegression, or a pipeline, GridSearchCV or FrozenEstimator that ends in "
        "one, not RandomForestClassifier",
    ),
    "a cross-validated mean": (cross_validated(refit=False), "set refit=True"),
    "a cross-validated L1": (cross_validated(l1_ratios=(1,), **SAGA), "L1 penalty has no Hessian"),
    "separated classes": (regression(C=np.inf, tol=1e-2), "has no penalty and separates"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_posterior_of_this_form_is_refused(case):
    estimator, message = REFUSED[case]
    with pytest.raises(sw.InvalidInput, match=message):
        sw.LaplaceClassifier(estimator).fit(X, SPECIES == 0)


def test_features_that_are_combinations_of_others_need_a_penalty():
    doubled = np.column_stack([X, X[:, 0] + X[:, 1]])
    model = LogisticRegression(C=np.inf, tol=1e-8).fit(doubled, SPECIES == 1)
    with pytest.raises(sw.InvalidInput, match="Hessian of the log posterior is singular"):
        sw.LaplaceClassifier(FrozenEstimator(model)).fit(doubled, SPECIES == 1)
    assert laplace(SPECIES == 1, doubled).posterior_.factor.shape == (6, 6)


def test_more_coefficients_than_their_covariance_has_room_for_are_refused():
    rows = csr_matrix(np.random.default_rng(0).normal(size=(12, 4500)))
    with pytest.raises(sw.InvalidInput, match=r"9,002 free coefficients.* at most 8,000 .*Truncat"):
        sw.LaplaceClassifier(LogisticRegression()).fit(rows, np.arange(12) % 3)


def test_labels_that_the_regression_does_not_know_are_refused():
    frozen = FrozenEstimator(regression().fit(X, NAMES))
    with pytest.raises(sw.InvalidInput, match=r"y has the labels 0, 1, 2, .* pass the rows of"):
        sw.LaplaceClassifier(frozen).fit(X, SPECIES)


def test_rows_that_the_regression_was_not_fitted_on_are_noticed():
    frozen = FrozenEstimator(regression(C=10.0).fit(X, SPECIES))
    sw.LaplaceClassifier(frozen).fit(X, SPECIES)
    for rows, y, weights in (
        (X, np.roll(SPECIES, 5), None),
        (X[::2], SPECIES[::2], None),
        (X, SPECIES, 3 * WEIGHTS),
    ):
        with pytest.warns(ScorewiseWarning, match="not the rows and weights of the fit"):
            sw.LaplaceClassifier(frozen).fit(rows, y, sample_weight=weights)


def test_a_fit_that_did_not_converge_is_noticed():
    with (
        pytest.warns(Warning, match="failed to converge"),
        pytest.warns(ScorewiseWarning, match="scale the features, raise max_iter"),
    ):
        sw.LaplaceClassifier(LogisticRegression(max_iter=3)).fit(IRIS, SPECIES)


def test_a_bare_regression_names_the_way_to_its_posterior():
    model = regression().fit(X, SPECIES)
    with pytest.raises(sw.InvalidInput, match=r"has no members: scorewise\.LaplaceClassifier"):
        sw.predict_samples(model, X)
    with pytest.raises(sw.InvalidInput, match=r"use scorewise\.LaplaceClassifier"):
        sw.fit_laplace(model, X, SPECIES)
    with pytest.raises(sw.InvalidInput, match=r"no epistemic uncertainty: .*LaplaceClassifier"):
        sw.OODDetector(model, random_state=0).fit(X, SPECIES)
    with pytest.raises(sw.InvalidInput, match="LaplaceClassifier is not fitted"):
        sw.predict_samples(sw.LaplaceClassifier(regression()), X)
