"""Adapters: a user's own kind of model is sampled wherever a built-in kind is."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.ensemble import IsolationForest, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators

import scorewise as sw
from scorewise.models import (
    Adapter,
    SamplingOptions,
    has_joint_rows,
    known_classes,
    make_sampler,
    member_sampler,
    register_adapter,
    unregister_adapter,
)

IRIS, SPECIES = load_iris(return_X_y=True)
NAMES = load_iris().target_names[SPECIES]


class Panel(ClassifierMixin, BaseEstimator):
    """An ensemble that no built-in adapter knows: one classifier for each part of the rows."""

    def __init__(self, n_experts: int = 3) -> None:
        self.n_experts = n_experts

    def fit(self, X: Any, y: Any) -> Panel:
        parts = [slice(i, None, self.n_experts) for i in range(self.n_experts)]
        self.experts_ = [GaussianNB().fit(X[part], y[part]) for part in parts]
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.mean([expert.predict_proba(X) for expert in self.experts_], axis=0)

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Plain:
    """The same without anything that scikit-learn knows."""

    def __init__(self, panel: Panel) -> None:
        self.experts = panel.experts_
        self.labels = panel.classes_


class Noisy:
    """A stochastic model with a sampler of its own, for two classes."""

    labels = ("no", "yes")


class NoisySampler:
    def __init__(self, options: SamplingOptions) -> None:
        self.n_members = options.n_draws
        self.weights: np.ndarray | None = None
        rng = np.random.default_rng(options.seed)
        self.slopes = rng.normal(size=self.n_members)

    def n_rows(self, X: Any) -> int | None:
        return len(X)

    def chunks(self, X: Any, batch_size: int | None) -> Iterator[np.ndarray]:
        size = batch_size or len(X)
        for start in range(0, len(X), size):
            p = 1 / (1 + np.exp(-np.asarray(X)[start : start + size, :1] * self.slopes))
            yield np.stack([1 - p, p], axis=-1)


def functions(model: Any) -> list[Any]:
    return [expert.predict_proba for expert in model]


ADAPTERS = [
    Adapter(
        matches=lambda model: isinstance(model, Panel),
        sampler=lambda model, options: member_sampler(
            functions(model.experts_), model.classes_, options
        ),
    ),
    Adapter(
        matches=lambda model: isinstance(model, Plain),
        classes=lambda model: model.labels,
        sampler=lambda model, options: member_sampler(
            functions(model.experts), model.labels, options
        ),
    ),
    Adapter(
        matches=lambda model: isinstance(model, Noisy),
        classes=lambda model: getattr(model, "classes_", model.labels),
        sampler=lambda model, options: NoisySampler(options),
        options=("device",),
    ),
]


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    for adapter in ADAPTERS:
        register_adapter(adapter)
    yield
    for adapter in ADAPTERS:
        unregister_adapter(adapter)


def panel(labels: Any = SPECIES) -> Panel:
    return Panel().fit(IRIS, labels)


def by_hand(fitted: Panel, X: Any = IRIS) -> np.ndarray:
    return np.stack([expert.predict_proba(X) for expert in fitted.experts_], axis=1)


# The registry


@pytest.mark.parametrize("batch_size", [None, 1, 7, 1000])
def test_a_registered_kind_of_model_is_sampled(batch_size):
    fitted = panel()
    for model in (fitted, Plain(fitted)):
        samples = sw.predict_samples(model, IRIS, batch_size=batch_size)
        np.testing.assert_array_equal(samples.probs, by_hand(fitted))
        assert samples.weights is None


def test_an_unregistered_kind_of_model_has_no_members():
    model = Plain(panel())
    unregister_adapter(ADAPTERS[1])
    try:
        with pytest.raises(sw.InvalidInput, match=r"Plain has no members: .*register_adapter"):
            sw.predict_samples(model, IRIS)
    finally:
        register_adapter(ADAPTERS[1])
    with pytest.raises(sw.InvalidInput, match="is not registered"):
        unregister_adapter(Adapter(lambda model: False, lambda model, options: None))
    with pytest.raises(sw.InvalidInput, match=r"takes a scorewise.models.Adapter, not str"):
        register_adapter("panel")


def test_the_adapter_that_was_registered_last_is_preferred_also_to_built_in_ones():
    forest = RandomForestClassifier(5, random_state=0).fit(IRIS, SPECIES)
    mean_only = Adapter(
        matches=lambda model: isinstance(model, RandomForestClassifier),
        sampler=lambda model, options: member_sampler(
            [model.predict_proba], model.classes_, options
        ),
    )
    register_adapter(mean_only)
    try:
        assert sw.predict_samples(forest, IRIS).probs.shape == (150, 1, 3)
    finally:
        unregister_adapter(mean_only)
    assert sw.predict_samples(forest, IRIS).probs.shape == (150, 5, 3)


def test_a_fallback_is_tried_after_the_adapters_that_are_not():
    everything = Adapter(
        matches=lambda model: True,
        classes=lambda model: [0, 1, 2],
        sampler=lambda model, options: member_sampler([lambda X: X[:, :3]], [0, 1, 2], options),
        is_fallback=True,
    )
    forest = RandomForestClassifier(5, random_state=0).fit(IRIS, SPECIES)
    rows = np.full((4, 4), 1 / 3)
    register_adapter(everything)
    try:
        assert sw.predict_samples(forest, rows).probs.shape == (4, 5, 3)
        assert sw.predict_samples("anything", rows).probs.shape == (4, 1, 3)
    finally:
        unregister_adapter(everything)


def test_classes_are_those_of_the_adapter_whatever_is_around_the_model():
    fitted = panel(NAMES)
    plain = Plain(fitted)
    pipeline = make_pipeline(StandardScaler(), plain)
    for model in (fitted, plain, FrozenEstimator(plain), pipeline, [plain, fitted]):
        np.testing.assert_array_equal(known_classes(model), np.unique(NAMES))


def test_fewer_samples_are_a_random_subset_of_the_members():
    model = Plain(panel())
    whole = by_hand(panel())
    for seed in range(5):
        some = sw.predict_samples(model, IRIS, 2, random_state=seed).probs
        chosen = [int((whole == some[:, [m]]).all(axis=(0, 2)).argmax()) for m in range(2)]
        assert chosen == sorted(set(chosen))
        np.testing.assert_array_equal(some, whole[:, chosen])
    with pytest.raises(sw.InvalidInput, match=r"has 3 members; pass n_samples=None") as error:
        sw.predict_samples(model, IRIS, 4)
    assert [remedy.argument for remedy in error.value.remedies] == ["n_samples"]


def test_options_that_an_adapter_does_not_take_are_refused():
    with pytest.raises(sw.InvalidInput, match=r"device= is for torch models; Plain runs on"):
        sw.predict_samples(Plain(panel()), IRIS, device="cpu")
    with pytest.raises(sw.InvalidInput, match=r"output= is for torch modules"):
        sw.predict_samples(Noisy(), IRIS, output="probs")
    assert sw.predict_samples(Noisy(), IRIS, device="anything").probs.shape == (150, 20, 2)


# What is put around a model


def test_a_pipeline_transforms_the_rows_of_an_adapted_model():
    pipeline = make_pipeline(StandardScaler(), Panel()).fit(IRIS, SPECIES)
    expected = by_hand(pipeline[-1], pipeline[0].transform(IRIS))
    for batch_size in (None, 7):
        samples = sw.predict_samples(pipeline, IRIS, batch_size=batch_size)
        np.testing.assert_array_equal(samples.probs, expected)
    scaler = StandardScaler().fit(IRIS)
    pipeline = make_pipeline(scaler, Noisy())
    expected = sw.predict_samples(Noisy(), scaler.transform(IRIS), 50, 3).probs
    for batch_size in (None, 7):
        samples = sw.predict_samples(pipeline, IRIS, 50, 3, batch_size)
        np.testing.assert_array_equal(samples.probs, expected)


def test_a_search_and_a_frozen_estimator_give_the_adapted_model_inside():
    search = GridSearchCV(Panel(), {"n_experts": [2]}, cv=2).fit(IRIS, SPECIES)
    np.testing.assert_array_equal(
        sw.predict_samples(search, IRIS).probs, by_hand(search.best_estimator_)
    )
    frozen = FrozenEstimator(panel())
    np.testing.assert_array_equal(sw.predict_samples(frozen, IRIS).probs, by_hand(panel()))


class Fixed(ClassifierMixin, BaseEstimator):
    """Returns probabilities that were computed before."""

    def __init__(self, probs: np.ndarray, classes_: np.ndarray) -> None:
        self.probs, self.classes_ = probs, classes_

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.probs


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_a_calibration_is_applied_to_each_member_of_an_adapted_model(method):
    model = CalibratedClassifierCV(
        make_pipeline(StandardScaler(), Panel(2)), method=method, cv=2
    ).fit(IRIS, NAMES)
    expected = []
    for fold in model.calibrated_classifiers_:
        scaler, fitted = fold.estimator
        for expert in fitted.experts_:
            probs = expert.predict_proba(scaler.transform(IRIS))
            fold_of_expert = type(fold)(
                Fixed(probs, fold.estimator.classes_), fold.calibrators, classes=fold.classes
            )
            expected.append(fold_of_expert.predict_proba(IRIS))
    for batch_size in (None, 40):
        samples = sw.predict_samples(model, IRIS, batch_size=batch_size)
        if batch_size is None:
            np.testing.assert_allclose(samples.probs, np.stack(expected, 1), atol=1e-12)
        assert samples.probs.shape == (150, 4, 3)
    with pytest.raises(sw.InvalidInput, match="device= is for torch models"):
        sw.predict_samples(model, IRIS, device="cpu")


class NoisyClassifier(ClassifierMixin, BaseEstimator, Noisy):
    """A stochastic model that scikit-learn can calibrate."""

    def fit(self, X: Any, y: Any) -> NoisyClassifier:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return sw.predict_samples(self, X, random_state=0).mean


def test_a_calibration_is_applied_to_each_draw_of_a_stochastic_model():
    y = (SPECIES == 0).astype(int)
    model = CalibratedClassifierCV(NoisyClassifier(), cv=2).fit(IRIS, y)
    whole = sw.predict_samples(model, IRIS, random_state=1)
    assert whole.probs.shape == (150, 40, 2)
    np.testing.assert_array_equal(
        sw.predict_samples(model, IRIS, random_state=1, batch_size=11).probs, whole.probs
    )
    fold = model.calibrated_classifiers_[1]
    draws = sw.predict_samples(Noisy(), IRIS, random_state=1).probs
    calibrated = type(fold)(
        Fixed(draws[:, 3], np.array([0, 1])), fold.calibrators, classes=fold.classes
    )
    np.testing.assert_allclose(whole.probs[:, 23], calibrated.predict_proba(IRIS), atol=1e-12)


def test_each_model_of_a_list_is_one_member():
    fitted = panel(NAMES)
    plain = Plain(fitted)
    models = [GaussianNB().fit(IRIS, NAMES), plain, fitted]
    probs = sw.predict_samples(models, IRIS).probs
    np.testing.assert_array_equal(probs[:, 0], models[0].predict_proba(IRIS))
    np.testing.assert_allclose(probs[:, 1], by_hand(fitted).mean(axis=1), atol=1e-15)
    np.testing.assert_array_equal(probs[:, 2], fitted.predict_proba(IRIS))


@pytest.mark.parametrize("around", ["nothing", "pipeline", "calibration", "list"])
def test_selective_classifiers_and_detectors_take_adapted_models(around):
    model: Any = Panel()
    if around == "pipeline":
        model = make_pipeline(StandardScaler(), model)
    elif around == "calibration":
        model = CalibratedClassifierCV(model, cv=2)
    elif around == "list":
        model = [Plain(Panel().fit(IRIS[::2], NAMES[::2])), Panel().fit(IRIS[::2], NAMES[::2])]
    copy = model if around == "list" else clone(model)
    selective = sw.SelectiveClassifier(model, max_loss=0.3, random_state=0).fit(IRIS, NAMES)
    np.testing.assert_array_equal(selective.classes_, np.unique(NAMES))
    samples = sw.predict_samples(selective.estimator_, IRIS)
    np.testing.assert_allclose(selective.predict_proba(IRIS), samples.mean, atol=1e-12)
    detector = sw.OODDetector(copy, random_state=0).fit(IRIS, NAMES)
    epistemic = sw.decompose(sw.predict_samples(detector.estimator_, IRIS), "log").epistemic
    np.testing.assert_allclose(detector.uncertainty(IRIS), epistemic, atol=1e-12)


# What a user's sampler returns is checked


class Wrong(NoisySampler):
    chunk: Any = None

    def chunks(self, X: Any, batch_size: int | None) -> Iterator[np.ndarray]:
        yield from super().chunks(X[:100], batch_size)
        yield self.chunk


@pytest.mark.parametrize(
    ("chunk", "words"),
    [
        (np.full((50, 20, 2), 0.7), r"member 0 returns probabilities for row 100 .*sum to 1.4"),
        (np.full((50, 20, 2), np.nan), r"member 0 returns nan for row 100, class 0"),
        (np.full((50, 3, 2), 0.5), r"shape \(50, 3, 2\); it must be \(rows, 20, classes\)"),
        (np.full((50, 20), 0.5), r"shape \(50, 20\)"),
        (np.ones((50, 20, 2), int), r"member 0 returns dtype int64"),
    ],
)
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_samplers_must_return_probabilities(chunk, words, in_pipeline):
    class Broken:
        pass

    class BrokenSampler(Wrong):
        pass

    BrokenSampler.chunk = chunk
    adapter = Adapter(
        matches=lambda model: isinstance(model, Broken),
        sampler=lambda model, options: BrokenSampler(options),
    )
    register_adapter(adapter)
    model = make_pipeline(StandardScaler().fit(IRIS), Broken()) if in_pipeline else Broken()
    try:
        with pytest.raises(sw.InvalidInput, match=words):
            sw.predict_samples(model, IRIS)
    finally:
        unregister_adapter(adapter)


def test_the_rows_of_a_wrong_chunk_inside_a_calibration_are_located():
    class Late(NoisyClassifier):
        def predict_proba(self, X: Any) -> np.ndarray:
            return np.tile([0.5, 0.5], (len(X), 1))

    class LateSampler(NoisySampler):
        def chunks(self, X: Any, batch_size: int | None) -> Iterator[np.ndarray]:
            for chunk in super().chunks(X, batch_size):
                chunk[(IRIS[77] == X).all(axis=1)] = np.nan
                yield chunk

    adapter = Adapter(
        matches=lambda model: isinstance(model, Late),
        sampler=lambda model, options: LateSampler(options),
    )
    register_adapter(adapter)
    try:
        model = CalibratedClassifierCV(Late(), cv=2).fit(IRIS, (SPECIES == 0).astype(int))
        with pytest.raises(sw.InvalidInput, match=r"nan for row 7, .*in the rows from 70 on"):
            sw.predict_samples(model, IRIS, batch_size=10)
    finally:
        unregister_adapter(adapter)


@pytest.mark.parametrize("weights", [[1.0, 2.0], [-1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
def test_weights_of_members_are_checked(weights):
    experts = functions(panel().experts_)
    with pytest.raises(sw.InvalidInput, match="weights"):
        member_sampler(experts, [0, 1, 2], SamplingOptions(), weights)
    with pytest.raises(sw.InvalidInput, match="no members"):
        member_sampler([], [0, 1], SamplingOptions())


def test_weights_of_members_weight_the_mean():
    experts = functions(panel().experts_)
    adapter = Adapter(
        matches=lambda model: model == "weighted",
        sampler=lambda model, options: member_sampler(experts, [0, 1, 2], options, [1, 2, 5]),
    )
    register_adapter(adapter)
    try:
        samples = sw.predict_samples("weighted", IRIS)
    finally:
        unregister_adapter(adapter)
    expected = np.average(by_hand(panel()), axis=1, weights=[1, 2, 5])
    np.testing.assert_allclose(samples.mean, expected, atol=1e-15)


def test_an_adapter_may_hand_a_model_inside_its_own_on():
    class Box:
        def __init__(self, model: Any) -> None:
            self.model = model

    adapter = Adapter(
        matches=lambda model: isinstance(model, Box),
        classes=lambda model: known_classes(model.model),
        sampler=lambda model, options: make_sampler(model.model, options),
    )
    register_adapter(adapter)
    try:
        forest = RandomForestClassifier(4, random_state=0).fit(IRIS, SPECIES)
        np.testing.assert_array_equal(
            sw.predict_samples(Box(forest), IRIS).probs, sw.predict_samples(forest, IRIS).probs
        )
        lines = LogisticRegression(max_iter=1000).fit(IRIS, SPECIES)
        with pytest.raises(sw.InvalidInput, match="LogisticRegression has no members"):
            sw.predict_samples(Box(lines), IRIS)
    finally:
        unregister_adapter(adapter)


# Libraries are imported only where their models are


def loaded_after(code: str) -> set[str]:
    """Which of the large libraries a program has imported in the end."""
    report = "print([m for m in ('torch', 'sklearn', 'laplace') if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\n{report}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(eval(run.stdout.splitlines()[-1]))


AROUND_A_PROCESS = {
    "nothing": lambda process: process,
    "pipeline": lambda process: make_pipeline(StandardScaler(), process),
    "search": lambda process: GridSearchCV(process, {"warm_start": [False]}, cv=2),
    "frozen": lambda process: FrozenEstimator(process.fit(IRIS, SPECIES == 1)),
    "calibration": lambda process: CalibratedClassifierCV(process, cv=2),
    "selective": lambda process: sw.SelectiveClassifier(process, max_loss=0.9, random_state=0),
    "labels": MultiOutputClassifier,
}


@pytest.mark.parametrize("around", AROUND_A_PROCESS)
def test_members_of_a_gaussian_process_are_no_draws_for_several_rows(around):
    model = AROUND_A_PROCESS[around](GaussianProcessClassifier(optimizer=None))
    assert not has_joint_rows(model)
    if around != "labels":
        assert not has_joint_rows(model.fit(IRIS, SPECIES == 1))


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(),
        make_pipeline(StandardScaler(), RandomForestClassifier()),
        CalibratedClassifierCV(GaussianNB()),
        CalibratedClassifierCV(),
        sw.LaplaceClassifier(LogisticRegression()),
        sw.BootstrapEnsemble(GaussianProcessClassifier()),
        [GaussianProcessClassifier(), GaussianProcessClassifier()],
        GaussianNB(),
        Panel(),
    ],
    ids=str,
)
def test_members_of_other_models_are_draws_for_all_rows(model):
    assert has_joint_rows(model)


def test_an_adapter_says_whether_its_members_are_draws_for_all_rows():
    adapter = Adapter(
        matches=lambda model: isinstance(model, Noisy),
        sampler=lambda model, options: NoisySampler(options),
        has_joint_rows=lambda model: False,
    )
    register_adapter(adapter)
    try:
        assert not has_joint_rows(Noisy())
    finally:
        unregister_adapter(adapter)


def test_sampling_from_scikit_learn_does_not_import_torch():
    code = """
import numpy as np, scorewise as sw
from sklearn.ensemble import RandomForestClassifier
X = np.arange(20.0).reshape(10, 2)
sw.predict_samples(RandomForestClassifier(3).fit(X, np.arange(10) % 2), X)
"""
    assert loaded_after(code) == {"sklearn"}


def test_finding_the_adapter_of_a_torch_model_does_not_import_scikit_learn():
    code = """
import torch, scorewise as sw
from scorewise.models import SamplingOptions, known_classes, make_sampler
net = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(2, 3))
make_sampler(net, SamplingOptions()); make_sampler([net, net], SamplingOptions())
sw.predict_samples(net, torch.ones(4, 2))
"""
    assert loaded_after(code) == {"torch"}


def test_finding_a_registered_adapter_imports_neither():
    code = """
import numpy as np
from scorewise.models import Adapter, SamplingOptions, make_sampler, member_sampler
from scorewise.models import known_classes, register_adapter
register_adapter(Adapter(
    matches=lambda model: model == "mine",
    classes=lambda model: ["a", "b"],
    sampler=lambda model, options: member_sampler([lambda X: X], ["a", "b"], options),
))
known_classes("mine"); make_sampler("mine", SamplingOptions())
"""
    assert loaded_after(code) == set()


# -- models that are no classifiers of one label per row -------------------------------------------


@pytest.mark.filterwarnings("ignore:Class PassiveAggressiveRegressor is deprecated")
def test_what_is_not_supported_is_said_of_every_regressor():
    for name, regressor in all_estimators(type_filter="regressor"):
        if name in {"VotingRegressor", "StackingRegressor"}:
            model = regressor([("a", LinearRegression())])
        else:
            takes_estimator = "estimator" in inspect.signature(regressor).parameters
            model = regressor(LinearRegression()) if takes_estimator else regressor()
        with pytest.raises(sw.InvalidInput, match="regression is not supported"):
            sw.predict_samples(model, np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (RandomForestRegressor(3), "is a regressor"),
        ([RandomForestRegressor(3)], "is a regressor"),
        (MultiOutputClassifier(GaussianNB()), "predicts several outputs"),
        (IsolationForest(), "detects outliers"),
        (KMeans(2), "learns without labels"),
        (RandomForestClassifier, "is a class; pass an object"),
        ("model.pkl", "load it first"),
    ],
)
def test_everything_that_takes_a_model_says_what_is_not_supported(model, problem):
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    for use in (
        lambda: sw.predict_samples(model, X),
        lambda: sw.SelectiveClassifier(model).fit(X, y),
        lambda: sw.OODDetector(model).fit(X, y),
        lambda: sw.BootstrapEnsemble(model).fit(X, y),
        lambda: sw.ActiveLearner(model, X),
    ):
        with pytest.raises(sw.InvalidInput, match=problem):
            use()


def test_a_model_of_several_labels_without_members_is_told_what_has_them():
    X, y = np.eye(4), np.array([[0, 1], [1, 0], [1, 1], [0, 1]])
    for model in (DecisionTreeClassifier(), OneVsRestClassifier(GaussianNB())):
        with pytest.raises(sw.InvalidInput, match="lists of multi-label models"):
            sw.predict_samples(model.fit(X, y), X)


@pytest.mark.parametrize("make", [sw.SelectiveClassifier, sw.OODDetector, sw.BootstrapEnsemble])
def test_targets_that_are_not_one_class_per_row_are_refused(make):
    X = np.eye(4)
    with pytest.raises(sw.InvalidInput, match="several labels or outputs per row"):
        make(GaussianNB()).fit(X, np.eye(4, dtype=int)[:, :2])
    with pytest.raises(sw.InvalidInput, match="regression is not supported"):
        make(GaussianNB()).fit(X, np.array([0.5, 1.2, 0.1, 2.2]))


@pytest.mark.parametrize("labels", [[-1, 1], [False, True], [1.0, 2.0]])
def test_labels_of_every_kind_come_back_as_they_are(labels):
    X, y = np.arange(80.0)[:, None], np.repeat(labels, 40)
    for model in (
        sw.SelectiveClassifier(GaussianNB(), max_loss=0.3, random_state=0),
        sw.OODDetector(sw.BootstrapEnsemble(GaussianNB(), 2, random_state=0), random_state=0),
        sw.BootstrapEnsemble(GaussianNB(), 2, random_state=0),
    ):
        predicted = model.fit(X, y).predict(X)
        assert predicted.dtype == y.dtype
        assert (predicted == y).mean() > 0.9
