"""explain_model: which members a model has and why, or the ways to get some."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import all_estimators

import scorewise as sw
from boosting_support import gradient
from classifier_support import IRIS, KINDS, NAMES, SPECIES, Says, fitted, forest
from scorewise.models import (
    Adapter,
    has_members,
    member_sampler,
    register_adapter,
    unregister_adapter,
)


@pytest.mark.parametrize("kind", KINDS)
def test_it_has_the_members_of_predict_samples_and_says_what_they_are(kind):
    model = fitted(kind)
    explanation, samples = sw.explain_model(model), sw.predict_samples(model, IRIS)
    assert explanation.n_members == samples.shape[1]
    assert explanation.classes == tuple(samples.classes_.tolist())
    if samples.weights is None:
        assert explanation.weights is None
    else:
        np.testing.assert_array_equal(explanation.weights, samples.weights)
    assert explanation.reason


def test_it_prints_as_sentences():
    votes = [("a", GaussianNB()), ("b", forest())]
    model = VotingClassifier(votes, voting="soft", weights=[2, 1]).fit(IRIS, NAMES)
    lines = str(sw.explain_model(model)).splitlines()
    assert lines[0].startswith("VotingClassifier has 2 members: the estimators of the vote, fitted")
    assert lines[1:] == ["Weights: 2.0, 1.0.", "Classes: 'setosa', 'versicolor', 'virginica'."]
    assert str(sw.explain_model(GaussianNB())).startswith("GaussianNB has no members: scorewise.")


def test_fully_grown_trees_are_named_with_what_they_do_to_the_parts():
    grown, pruned = (
        RandomForestClassifier(5, min_samples_leaf=size, random_state=0).fit(IRIS, SPECIES)
        for size in (1, 5)
    )
    assert "which makes aleatoric uncertainty 0" in sw.explain_model(grown).reason
    assert "aleatoric" not in sw.explain_model(pruned).reason


WRAPPERS = {
    "RandomForestClassifier in Pipeline": lambda m: make_pipeline(StandardScaler(), m),
    "RandomForestClassifier in GridSearchCV": lambda m: GridSearchCV(m, {"max_depth": [2]}, cv=2),
    "RandomForestClassifier in FixedThresholdClassifier": FixedThresholdClassifier,
    "RandomForestClassifier in SelectiveClassifier": lambda m: sw.SelectiveClassifier(
        m, max_loss=0.5, random_state=0
    ),
    "RandomForestClassifier in FrozenEstimator in Pipeline": lambda m: make_pipeline(
        FrozenEstimator(m.fit(IRIS, SPECIES == 0))
    ),
}


@pytest.mark.parametrize("kind", WRAPPERS)
def test_what_is_around_a_model_describes_the_model_inside(kind):
    model = WRAPPERS[kind](forest(max_depth=2)).fit(IRIS, SPECIES == 0)
    explanation = sw.explain_model(model)
    assert explanation.model == kind
    assert explanation.n_members == 5
    assert explanation.reason.startswith("the trees of the forest, each grown on a bootstrap")
    alone = make_pipeline(WRAPPERS[kind](forest()))
    assert sw.explain_model(alone.set_params(**{alone.steps[0][0]: GaussianNB()})).n_members == 0


def test_without_members_the_ways_are_those_of_the_model_inside():
    inside = make_pipeline(StandardScaler(), FrozenEstimator(LogisticRegression()))
    explanation = sw.explain_model(inside)
    assert explanation.model == "LogisticRegression in FrozenEstimator in Pipeline"
    assert explanation.n_members == 0
    assert "scorewise.LaplaceClassifier" in explanation.reason
    with pytest.raises(sw.InvalidInput) as error:
        sw.predict_samples(inside, IRIS)
    assert f"{error.value}." == str(explanation)


@pytest.mark.parametrize("kind", [MultiOutputClassifier, OneVsRestClassifier])
def test_a_model_for_each_label_has_the_ways_of_the_model_inside(kind):
    labels = np.stack([SPECIES == 0, SPECIES == 1], axis=1)
    explanation = sw.explain_model(kind(LogisticRegression(max_iter=500)).fit(IRIS, labels))
    assert str(explanation).startswith(f"LogisticRegression in {kind.__name__} has no members: ")
    assert "scorewise.BootstrapEnsemble makes an ensemble of it" in explanation.reason


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (CalibratedClassifierCV(GaussianNB(), cv=3), "the classifiers of 3 folds"),
        (CalibratedClassifierCV(forest(), cv=3), "those of each of its 3 folds.*the trees of"),
        (CalibratedClassifierCV(GaussianNB(), ensemble=False), "epistemic uncertainty is 0"),
        (CalibratedClassifierCV(forest(), ensemble=False), "those of its classifier.*the trees"),
        (sw.LaplaceClassifier(LogisticRegression(max_iter=500)), "draws of the coefficients"),
        (sw.BootstrapEnsemble(GaussianNB(), 3), "fits of GaussianNB with bootstrap samples"),
    ],
)
def test_each_kind_describes_its_members(model, words):
    reason = sw.explain_model(model.fit(IRIS, SPECIES)).reason
    assert re.search(words, reason)


def test_torch_modules_have_draws_of_dropout_or_the_ways_to_members():
    plain = torch.nn.Linear(4, 3)
    dropout = torch.nn.Sequential(torch.nn.Dropout(0.2), plain)
    explanation = sw.explain_model(dropout)
    assert explanation.n_members == 20
    assert explanation.classes is None
    assert "draws of dropout with p = 0.2" in explanation.reason
    assert sw.explain_model([plain, plain]).n_members == 2
    explanation = sw.explain_model(plain)
    assert explanation.n_members == 0
    assert "scorewise.fit_laplace" in explanation.reason


def test_nothing_is_predicted():
    def answer(X: Any) -> Any:
        raise AssertionError("a member was called")

    assert sw.explain_model([Says(answer).fit(), Says(answer).fit()]).n_members == 2


def test_what_predict_samples_refuses_is_refused_alike():
    for model, message in (
        (RandomForestClassifier(), "is not fitted"),
        (LinearRegression(), "is a regressor"),
        (MultiOutputClassifier(LinearRegression()), "LinearRegression is a regressor"),
        ("model.pkl", "load it first"),
        ([], "the list of classifiers is empty"),
        (VotingClassifier([("a", GaussianNB())]).fit(IRIS, NAMES), "uses hard voting"),
        (gradient(n_estimators=3).fit(IRIS, NAMES), "too few boosting iterations"),
    ):
        with pytest.raises(sw.InvalidInput, match=message):
            sw.explain_model(model)


def test_an_adapter_of_ones_own_describes_its_members_or_not():
    class Panel:
        labels = ("no", "yes")

    def adapter(**options: Any) -> Adapter:
        return Adapter(
            matches=lambda model: isinstance(model, Panel),
            classes=lambda model: model.labels,
            sampler=lambda model, options: member_sampler([len, len], model.labels, options),
            **options,
        )

    for own, expected in (
        (adapter(), "Panel has 2 members.\nClasses: 'no', 'yes'."),
        (adapter(describe=lambda panel: "experts"), "Panel has 2 members: experts.\nClasses: "),
    ):
        register_adapter(own)
        try:
            assert str(sw.explain_model(Panel())).startswith(expected)
        finally:
            unregister_adapter(own)


@pytest.mark.filterwarnings("ignore:Class PassiveAggressiveClassifier is deprecated")
def test_every_classifier_of_scikit_learn_without_members_names_a_way():
    needs = {"estimator": GaussianNB(), "estimators": [("a", GaussianNB())], "param_grid": {}}
    for name, kind in all_estimators(type_filter="classifier"):
        if name in {"MultiOutputClassifier", "ClassifierChain"}:
            continue  # of several labels
        model = kind(
            **{key: needs[key] for key in inspect.signature(kind).parameters if key in needs}
        )
        if not has_members(model):
            explanation = sw.explain_model(model)
            assert explanation.n_members == 0, name
            assert "BootstrapEnsemble" in explanation.reason, name
