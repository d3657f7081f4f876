"""The steps of a round: rows are chosen, models trained, losses measured."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import scorewise as sw
from active_support import (
    COSTS,
    EXAM,
    SHORT,
    X_TEST,
    Y_TEST,
    X,
    Y,
    assert_adds_up,
    assert_same,
    files_in,
    forest,
    rounds_of,
)
from scorewise.acquire import target_gains

# -- models ----------------------------------------------------------------------------------------


OWN = sw.rule_from_loss_vector(
    lambda p: ((p[..., None, :] - np.eye(p.shape[-1])) ** 2).sum(axis=-1), name="mine"
)


def dropout_net(X: Any, y: np.ndarray, seed: int, previous: Any = None) -> Any:

    torch.manual_seed(seed)
    net = copy.deepcopy(previous) or torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    rows, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)
    for _ in range(10):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(rows), labels).backward()
        optimizer.step()
    return net.eval()


def deep_ensemble() -> Any:

    return sw.DeepEnsemble(lambda: torch.nn.Linear(4, 3), 2, epochs=3, device="cpu")


MODELS = {
    "forest": forest,
    "extra trees": lambda: ExtraTreesClassifier(4),
    "bagging": lambda: BaggingClassifier(DecisionTreeClassifier(max_depth=2), 3),
    "bootstrap": lambda: sw.BootstrapEnsemble(GaussianNB(), 3),
    "list": lambda: [DecisionTreeClassifier(max_depth=2), GaussianNB()],
    "tuple": lambda: (DecisionTreeClassifier(max_features=1), DecisionTreeClassifier()),
    "pipeline": lambda: make_pipeline(StandardScaler(), forest()),
    "function": lambda: lambda X, y, seed: RandomForestClassifier(3, random_state=seed).fit(X, y),
    "deep ensemble": deep_ensemble,
    "dropout": lambda: dropout_net,
}


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_learns_and_stays_unchanged(name):
    model, pool, y = MODELS[name](), X.copy(), Y.copy()
    before = repr(vars(model)) if hasattr(model, "fit") else repr(model)
    rounds = rounds_of(model, pool, y, n_samples=2)
    assert_adds_up(rounds)
    assert (repr(vars(model)) if hasattr(model, "fit") else repr(model)) == before
    np.testing.assert_array_equal(pool, X)
    np.testing.assert_array_equal(y, Y)
    assert all(0 <= r.loss <= 1 for r in rounds)
    assert rounds[0].scores is None
    assert all((r.scores >= 0).all() for r in rounds[1:])
    assert len({id(r.model) for r in rounds}) == 4, "each round has a model of its own"
    assert_same(rounds_of(model, pool, y, n_samples=2), rounds)


def test_each_round_has_its_own_dropout_draws():

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5))
    rounds = rounds_of(lambda X, y, seed: net, task_loss="brier", n_samples=3)
    assert len({r.loss for r in rounds}) == len(rounds)


def test_a_single_classifier_has_total_uncertainty_only():
    assert_adds_up(rounds_of(GaussianNB(), component="total", rule="log"))
    assert_adds_up(rounds_of(GaussianNB(), method="random"))
    rounds = sw.active_learning(GaussianNB(), X, Y, **SHORT)
    with pytest.raises(sw.InvalidInput, match="no epistemic uncertainty") as caught:
        next(rounds)
    assert "training in round 0" in caught.value.__notes__[0]


def test_random_splitters_inside_a_model_are_seeded():
    search = GridSearchCV(
        RandomForestClassifier(4), {"max_depth": [1, 3]}, cv=StratifiedKFold(2, shuffle=True)
    )
    assert_same(rounds_of(search), rounds_of(search))
    assert search.cv.random_state is None


def test_changing_the_model_during_a_run_has_no_effect():
    model = forest()
    rounds = sw.active_learning(model, X, Y, **SHORT, **EXAM)
    actual = [next(rounds)]
    model.set_params(max_depth=1, n_estimators=1)
    assert_same(actual + list(rounds), rounds_of())


def test_a_train_function_that_returns_nothing_is_refused():
    with pytest.raises(sw.InvalidInput, match="must return the trained model"):
        next(sw.active_learning(lambda X, y, seed: None, X, Y, **SHORT))


def test_every_seed_is_set_and_none_is_shared():
    model = [sw.BootstrapEnsemble(DecisionTreeClassifier(), 2, random_state=5), forest(), forest()]
    expected = [clone(member).get_params() for member in model]
    first = rounds_of(model)[0].model
    seeds = [first[0].estimator.random_state, *(member.random_state for member in first)]
    assert len(set(seeds)) == 4
    assert [repr(m.get_params()) for m in model] == [repr(e) for e in expected]


# -- choosing rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("component", ["total", "aleatoric", "epistemic"])
@pytest.mark.parametrize("rule", ["zero-one", "log", "brier", COSTS, OWN], ids=str)
def test_the_rows_of_the_largest_scores_are_chosen(rule, component):
    rounds = rounds_of(rule=rule, component=component)
    assert_adds_up(rounds)
    for before, after in pairwise(rounds):
        known = np.concatenate([r.rows for r in rounds[: after.index]])
        free = np.setdiff1d(np.arange(len(X)), known)
        probs = sw.predict_samples(before.model, X[free])
        worth = dict(zip(free, getattr(sw.decompose(probs, rule), component), strict=True))
        np.testing.assert_allclose(after.scores, [worth[row] for row in after.rows], atol=1e-12)
        np.testing.assert_allclose(
            after.scores,
            sorted(worth.values())[: -len(free) - 1 : -1][: len(after.rows)],
            atol=1e-12,
        )


@pytest.mark.parametrize("method", ["power", "softmax", "softrank"])
def test_stochastic_methods_choose_other_rows_than_the_top(method):
    rounds = rounds_of(method=method, rule="brier")
    assert_adds_up(rounds)
    top = rounds_of(rule="brier")
    np.testing.assert_array_equal(rounds[0].rows, top[0].rows)
    assert set(rounds[1].rows) != set(top[1].rows)
    cold = rounds_of(method=method, rule="brier", coldness=1e9)
    np.testing.assert_allclose(cold[1].scores.sum(), top[1].scores.sum(), rtol=1e-9)


def test_random_choices_do_not_depend_on_the_model():
    rounds = rounds_of(method="random")
    assert_adds_up(rounds)
    assert all(r.scores is None for r in rounds)
    other = rounds_of(forest(2), method="random")
    for first, second in zip(rounds, other, strict=True):
        np.testing.assert_array_equal(first.rows, second.rows)
    again = rounds_of(method="random", random_state=1)
    assert set(again[1].rows) != set(rounds[1].rows)


def test_joint_batches_are_those_of_acquire_batch():
    rounds = rounds_of(method="joint", rule="brier")
    assert_adds_up(rounds)
    free = np.setdiff1d(np.arange(len(X)), rounds[0].rows)
    probs = sw.predict_samples(rounds[0].model, X[free])
    seed = int(np.random.default_rng([0, 1, 1]).integers(2**31 - 1))  # of the first choice
    batch = sw.acquire_batch(probs, 8, "brier", seed)
    np.testing.assert_array_equal(rounds[1].rows, free[batch.rows])
    np.testing.assert_array_equal(rounds[1].scores, batch.gains)


# -- a target --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["forest", "dropout"])
def test_the_first_joint_score_for_a_target_is_the_largest_gain(name):
    """The members of pool and target are the same, also the draws of a network."""
    rounds = rounds_of(MODELS[name](), rule="brier", target=X_TEST, method="joint")
    assert_adds_up(rounds)
    free = np.setdiff1d(np.arange(len(X)), rounds[0].rows)
    rng = np.random.default_rng([0, 1, 2])  # of the predictions for the first choice
    both = np.concatenate([X[free], X_TEST])
    samples = sw.predict_samples(rounds[0].model, both, random_state=int(rng.integers(2**31 - 1)))
    gains = target_gains(samples[: len(free)], samples[len(free) :], "brier")
    first = np.searchsorted(free, rounds[1].rows[0])
    np.testing.assert_allclose(rounds[1].scores[0], gains.max(), rtol=1e-4)
    np.testing.assert_allclose(gains[first], gains.max(), rtol=1e-4)


def test_rows_for_a_target_are_drawn_by_power_unless_a_method_is_passed():
    by_default = rounds_of(rule="log", target=X_TEST)
    assert_same(by_default, rounds_of(rule="log", target=X_TEST, method="power"))
    top = rounds_of(rule="log", target=X_TEST, method="top")
    assert set(by_default[1].rows.tolist()) != set(top[1].rows.tolist())
    assert_same(rounds_of(rule="log"), rounds_of(rule="log", method="top"))


@pytest.mark.parametrize("method", ["power", "top", "joint"])
def test_rows_for_a_target_are_those_of_acquire_for(method):
    rounds = rounds_of(method=method, coldness=3, rule="log", target=X_TEST)
    assert_adds_up(rounds)
    free = np.setdiff1d(np.arange(len(X)), rounds[0].rows)
    pool, target = (sw.predict_samples(rounds[0].model, rows) for rows in (X[free], X_TEST))
    seed = int(np.random.default_rng([0, 1, 1]).integers(2**31 - 1))  # of the first choice
    batch = sw.acquire_for(pool, target, "log", 8, seed, method=method, coldness=3)
    np.testing.assert_array_equal(rounds[1].rows, free[batch.indices])
    np.testing.assert_array_equal(rounds[1].scores, batch.scores)


def test_random_rows_take_no_account_of_a_target():
    assert_same(rounds_of(method="random", target=X_TEST), rounds_of(method="random"))


@pytest.mark.parametrize("method", ["top", "joint", "power"])
def test_with_a_target_classes_that_no_label_has_shown_yet_are_allowed(method):
    for first in (ONE_CLASS, TWO_CLASSES):
        rounds = rounds_of(initial=first, budget=24, method=method, target=X_TEST)
        assert rounds[-1].n_labelled == 24


def test_a_target_directs_labels_to_its_kind():
    """Of each eight rows, one is near the target; the labels of the others are noise."""
    rng = np.random.default_rng(0)
    is_relevant = np.arange(400) % 8 == 0
    rows = rng.uniform(size=(400, 2)) + np.where(is_relevant, 0.0, 5.0)[:, None]
    y = np.where(is_relevant, rows[:, 0] > 0.5, rng.random(400) < 0.5).astype(int)
    target = rng.uniform(size=(50, 2))

    def share(**options: Any) -> float:
        rounds = rounds_of(forest(20), rows, y, X_test=None, y_test=None, **options)
        return float(is_relevant[np.concatenate([r.rows for r in rounds[1:]])].mean())

    assert share(rule="log", target=target) > 2 * share(rule="log")


# -- initial rows ----------------------------------------------------------------------------------


def initial_rows(n: int, strata: np.ndarray, seed: int = 0) -> np.ndarray:
    """The first rows of a learner; no model is trained for them."""
    pool = np.zeros((len(strata), 1))
    return sw.ActiveLearner(print, pool, initial=n, strata=strata, random_state=seed).ask()


def test_runs_of_one_seed_have_the_same_initial_rows_and_model():
    runs = [
        rounds_of(rule=rule, method=method, component=component)
        for rule in ("zero-one", "log")
        for method in ("top", "random", "softrank")
        for component in ("total", "epistemic")
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run[0].rows, runs[0][0].rows)
        assert run[0].loss == runs[0][0].loss, "the same rows and seeds make the same model"
    assert set(rounds_of(random_state=1)[0].rows) != set(runs[0][0].rows)


def test_initial_rows_are_stratified_or_not():
    y = np.repeat([0, 1, 2], [80, 16, 4])
    stratified = rounds_of(y=y, initial=25)[0]
    assert np.bincount(stratified.labels).tolist() == [20, 4, 1]
    nearest = initial_rows(10, np.repeat([0, 1, 2], [77, 11, 12]))
    assert np.bincount(np.digitize(nearest, [77, 88])).tolist() == [8, 1, 1]
    few = [rounds_of(y=y, initial=3, budget=3, random_state=s)[0] for s in range(3)]
    assert all(sorted(r.labels) == [0, 1, 2] for r in few)
    plain = [
        rounds_of(y=y, initial=3, budget=3, random_state=s, stratified=False) for s in range(10)
    ]
    assert any(len(set(run[0].labels)) < 3 for run in plain)
    groups = np.arange(100) % 4
    own = rounds_of(y=y, strata=groups, initial=8)[0]
    assert np.bincount(groups[own.rows]).tolist() == [2, 2, 2, 2]


def test_initial_rows_may_be_indices_or_a_mask():
    rows = np.array([9, 3, 40, 41, 60])
    mask = np.isin(np.arange(100), rows)
    np.testing.assert_array_equal(rounds_of(initial=rows)[0].rows, rows)
    np.testing.assert_array_equal(rounds_of(initial=rows.tolist())[0].rows, rows)
    np.testing.assert_array_equal(rounds_of(initial=mask)[0].rows, np.sort(rows))
    assert rounds_of(initial=100, budget=None)[0].stop == "budget"


@settings(max_examples=150)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**31 - 1),
)
def test_initial_rows_are_in_proportion(sizes, share, seed):
    strata = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    n = max(1, round(share * len(strata)))
    rows = initial_rows(n, strata, seed)
    assert len(rows) == n == len(set(rows.tolist()))
    assert (rows >= 0).all()
    assert (rows < len(strata)).all()
    counts = np.bincount(strata[rows], minlength=len(sizes))
    if n >= len(sizes):
        assert counts.min() >= 1
    shares = n * np.array(sizes) / len(strata)
    if shares.min() >= 1 or n < len(sizes):  # else those that get one take it from the others
        assert np.abs(counts - shares).max() <= 1
    np.testing.assert_array_equal(rows, initial_rows(n, strata, seed))


def test_initial_rows_are_in_proportion_where_many_strata_are_alike():
    sizes = np.array([1000, *[140] * 9])
    strata = np.repeat(np.arange(10), sizes)
    for n in range(20, 200):
        counts = np.bincount(strata[initial_rows(n, strata)])
        shares = n * sizes / len(strata)
        assert shares.min() < 1 or np.abs(counts - shares).max() <= 1, n


def test_initial_rows_of_a_stratum_are_all_as_likely():
    strata = np.repeat([0, 1], [6, 3])
    drawn = np.concatenate([initial_rows(3, strata, seed) for seed in range(900)])
    np.testing.assert_allclose(np.bincount(drawn) / 900, np.full(9, 1 / 3), atol=0.06)


# -- measuring the loss ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task_loss", "floor"), [("zero-one", None), ("log", 1e-3), ("brier", None), (COSTS, None)]
)
def test_the_loss_is_that_of_the_test_rows(task_loss, floor):
    for r in rounds_of(task_loss=task_loss, floor=floor):
        probs = sw.predict_samples(r.model, X_TEST)
        expected = sw.task_losses(probs, Y_TEST, task_loss, floor=floor).mean()
        np.testing.assert_allclose(r.loss, expected, rtol=1e-9)


def test_an_infinite_loss_is_refused_with_the_floor_as_its_remedy():
    tree = DecisionTreeClassifier(random_state=0)  # its leaves are pure
    with pytest.raises(sw.InvalidInput, match="is infinite") as error:
        rounds_of(BaggingClassifier(tree, 2, random_state=0), task_loss="log")
    assert [remedy.argument for remedy in error.value.remedies] == ["floor"]


# -- continuing from the model before --------------------------------------------------------------


def test_functions_continue_from_the_model_before():
    calls = []

    def train(X: Any, y: Any, seed: int, *previous: Any) -> Any:
        calls.append((len(X), len(y), seed, previous))
        return RandomForestClassifier(3, random_state=seed).fit(X, y)

    warm = rounds_of(train, retrain="warm")
    assert [n for n, *_ in calls] == [n for _, n, *_ in calls] == [12, 20, 28, 30]
    assert [len(p) for *_, p in calls] == [0, 1, 1, 1]
    for (*_, (previous,)), r in zip(calls[1:], warm, strict=False):
        assert previous is not r.model  # which it may change
        np.testing.assert_array_equal(previous.predict_proba(X), r.model.predict_proba(X))
    seeds = [seed for _, _, seed, _ in calls]
    assert len(set(seeds)) == 4
    calls.clear()
    assert_same(rounds_of(train), warm)
    assert [(seed, p) for _, _, seed, p in calls] == [(seed, ()) for seed in seeds]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("form", ["alone", "list", "pipeline"])
def test_estimators_continue_from_the_model_before(form):
    net = MLPClassifier((4,), max_iter=3)
    made = {"alone": net, "list": [net, net], "pipeline": make_pipeline(StandardScaler(), net)}
    model = made[form]
    options = {"component": "total", "rule": "log"}
    warm, cold = (rounds_of(model, retrain=r, **options) for r in ("warm", "scratch"))
    last = {"alone": lambda m: m, "list": lambda m: m[1], "pipeline": lambda m: m[-1]}[form]
    assert [last(r.model).t_ for r in warm] == [36, 96, 180, 270]
    assert [last(r.model).t_ for r in cold] == [36, 60, 84, 90]
    assert not last(model).warm_start
    assert not hasattr(last(model), "coefs_")
    assert len({last(r.model).random_state for r in warm}) == 4


FIVE_OF_ONE_CLASS = np.flatnonzero(Y == 0)[:5]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        [MLPClassifier((4,), max_iter=3)],
        [LogisticRegression(max_iter=5)],
        [SGDClassifier(loss="log_loss", max_iter=2)],
        [make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=3))],
    ],
    ids=["network", "regression", "descent", "pipeline"],
)
def test_a_new_class_makes_a_warm_model_train_from_scratch(model):
    two = np.concatenate([FIVE_OF_ONE_CLASS, np.flatnonzero(Y == 1)[:5]])
    learner = sw.ActiveLearner(
        model, X, initial=two, per_round=5, retrain="warm", random_state=0, classes=[0, 1, 2]
    )
    learner.tell(learner.ask(), Y[learner.ask()])
    third = np.flatnonzero(Y == 2)[:5]
    learner.tell(third, Y[third])
    np.testing.assert_array_equal(learner.model[0].classes_, [0, 1, 2])
    learner.tell(learner.ask(), Y[learner.ask()])


# -- classes ---------------------------------------------------------------------------------------


ONE_CLASS = np.flatnonzero(Y == 1)[:6]


TWO_CLASSES = np.r_[ONE_CLASS, np.flatnonzero(Y == 2)[:6]]


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("method", ["top", "joint", "power"])
@pytest.mark.parametrize("rule", ["zero-one", COSTS], ids=str)
@pytest.mark.parametrize("name", ["forest", "bootstrap", "list", "function", "pipeline", "dropout"])
def test_classes_that_no_label_has_shown_yet_are_allowed(name, rule, method):
    for first in (ONE_CLASS, TWO_CLASSES):
        rounds = rounds_of(MODELS[name](), initial=first, budget=24, rule=rule, method=method)
        assert set(rounds[0].labels) < {0, 1, 2}
        assert rounds[-1].n_labelled == 24
        if name != "dropout":
            missed = ~np.isin(Y_TEST, rounds[0].labels)
            assert rounds[0].loss >= missed.mean()
    log = rounds_of(MODELS[name](), initial=TWO_CLASSES, task_loss="log", floor=1e-6)
    assert np.isfinite(log[0].loss)


def test_the_loss_of_an_unseen_class_is_that_of_never_predicting_it():
    first = rounds_of(initial=ONE_CLASS, task_loss="log", floor=1e-3)[0]
    hit = Y_TEST == 1
    expected = np.where(hit, -np.log(1 - 2e-3), -np.log(1e-3)).mean()
    np.testing.assert_allclose(first.loss, expected, rtol=1e-9)
    costs = rounds_of(initial=ONE_CLASS, task_loss=COSTS)[0]
    action = np.argmin(COSTS.costs[1])
    np.testing.assert_allclose(costs.loss, COSTS.costs[Y_TEST, action].mean(), rtol=1e-9)


def test_by_hand_the_first_labels_may_be_of_one_class():
    learner = sw.ActiveLearner(forest(), X, initial=ONE_CLASS, random_state=0, classes=[0, 1, 2])
    learner.tell(learner.ask(), Y[ONE_CLASS])
    assert not np.isin(learner.ask(), ONE_CLASS).any()


def test_by_hand_the_test_labels_are_classes_too():
    learner = sw.ActiveLearner(forest(), X, initial=ONE_CLASS, random_state=0, **EXAM)
    assert learner.tell(learner.ask(), Y[ONE_CLASS]).loss == (Y_TEST != 1).mean()
    assert not np.isin(learner.ask(), ONE_CLASS).any()


def test_by_hand_the_first_labels_may_be_of_one_class_without_classes():
    learner = sw.ActiveLearner(forest(), X, initial=ONE_CLASS, random_state=0)
    learner.tell(learner.ask(), Y[ONE_CLASS])
    assert not np.isin(learner.ask(), ONE_CLASS).any()


@pytest.mark.parametrize(
    "names",
    [["z", "a", "longer name"], [5, -3, 100], [2.0, 0.0, -1.0], [False, True, True]],
    ids=["strings", "integers", "floats", "bools"],
)
@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, tuple])
def test_classes_may_have_names_of_any_type(names, kind):
    y, y_test = ([names[k] for k in codes] for codes in (Y, Y_TEST))
    rounds = rounds_of(y=kind(y), y_test=kind(y_test))
    assert_adds_up(rounds, y)
    assert rounds[0].labels.dtype.kind == np.array(names).dtype.kind
    assert rounds[-1].loss < 0.3


def test_the_order_of_names_does_not_matter():
    names = np.array([7, 30, 200])  # in the order of the numbers
    assert [r.loss for r in rounds_of(y=names[Y], y_test=names[Y_TEST])] == [
        r.loss for r in rounds_of()
    ]


def test_labels_may_come_from_any_library():

    expected = rounds_of()
    assert_same(rounds_of(y=torch.as_tensor(Y), y_test=torch.as_tensor(Y_TEST)), expected)
    assert_same(rounds_of(y=Y.astype(np.uint8), y_test=Y_TEST.astype(np.int32)), expected)
    assert_same(rounds_of(y=Y.astype(object)), expected)


@pytest.mark.usefixtures("one_torch_thread")
def test_networks_need_class_indices_as_labels():

    model = sw.DeepEnsemble(lambda: torch.nn.Linear(4, 3), 2, epochs=1)
    two = np.concatenate([FIVE_OF_ONE_CLASS, np.flatnonzero(Y == 1)[:5]])
    with pytest.raises(sw.InvalidInput, match="the model has a class 0, which is none of"):
        next(sw.active_learning(model, X.astype("f4"), Y + 1, initial=two, random_state=0))


def test_a_model_of_other_classes_is_refused():
    def encoded(X: Any, y: Any, seed: int) -> Any:
        return RandomForestClassifier(3, random_state=seed).fit(X, y == y.max())

    learner = sw.ActiveLearner(encoded, X, initial=12)
    with pytest.raises(sw.InvalidInput, match="label 3 is none of the model's classes"):
        learner.tell(learner.ask(), Y[learner.ask()] + 1 + (Y[learner.ask()] > 0))
    assert learner.rounds == []


def test_the_loss_of_a_single_class_is_zero():
    assert [r.loss for r in rounds_of(y=np.zeros(100, int), y_test=np.zeros(50, int))] == [0.0] * 4


def test_a_model_that_cannot_learn_one_class_says_what_to_do():
    learner = sw.ActiveLearner([LogisticRegression()], X, initial=FIVE_OF_ONE_CLASS)
    with pytest.raises(ValueError, match="at least 2 classes") as caught:
        learner.tell(learner.ask(), Y[learner.ask()])
    assert "to the same call of tell" in caught.value.__notes__[0]
    both = np.concatenate([FIVE_OF_ONE_CLASS, np.flatnonzero(Y == 1)[:2]])
    assert learner.tell(both, Y[both]).n_labelled == 7


def test_rules_of_a_fixed_number_of_classes_need_to_know_them():
    for fixed in ({"rule": COSTS}, {"task_loss": COSTS, **EXAM}, {"rule": "beta:1,2"}):
        with pytest.raises(sw.InvalidInput, match="pass classes="):
            sw.ActiveLearner(forest(), X, **fixed)
    learner = sw.ActiveLearner(
        forest(), X, rule=COSTS, classes=[0, 1, 2], initial=FIVE_OF_ONE_CLASS
    )
    learner.tell(learner.ask(), Y[learner.ask()])
    assert len(learner.ask()) == 10


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("labels", [Y, Y.astype(str)], ids=["too many", "names"])
def test_networks_with_too_few_logits_are_refused(tmp_path, labels):

    learner = sw.ActiveLearner(
        lambda X, y, seed: torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.5)),
        X,
        **SHORT,
        state=tmp_path / "s.json",
    )
    rows = np.flatnonzero(Y == 2)[:3]
    before = files_in(tmp_path)
    with pytest.raises(sw.InvalidInput, match="2 probabilities"):
        learner.tell(rows, labels[rows])
    assert files_in(tmp_path) == before
    assert learner.rounds == []


def test_costs_of_fewer_classes_than_logits_are_refused():

    learner = sw.ActiveLearner(
        lambda X, y, seed: torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)),
        X,
        rule=COSTS,
        classes=[0, 1, 2],
        **SHORT,
    )
    with pytest.raises(sw.InvalidInput, match="classes"):
        learner.tell(learner.ask(), Y[learner.ask()])


# -- kinds of rows ---------------------------------------------------------------------------------


ROWS = {
    "float32": lambda X: X.astype(np.float32),
    "list": lambda X: X.tolist(),
    "csr": sp.csr_matrix,
    "coo": sp.coo_array,
    "frame": lambda X: pd.DataFrame(X, columns=list("abcd"), index=np.arange(len(X))[::-1] + 5),
}


@pytest.mark.parametrize("kind", ROWS)
def test_rows_may_be_of_any_container(kind):
    pool, tests = ROWS[kind](X), ROWS[kind](X_TEST)
    before = copy.deepcopy(pool)
    actual = rounds_of(X=pool, X_test=tests)
    assert_same(actual, rounds_of(X=X.astype(np.float32), X_test=X_TEST.astype(np.float32)))
    same = (before != pool).sum() == 0 if sp.issparse(pool) else np.all(before == pool)
    assert same


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("name", ["dropout", "deep ensemble"])
def test_rows_may_be_tensors(name):

    pool, tests = torch.as_tensor(X).float(), torch.as_tensor(X_TEST).float()
    actual = rounds_of(MODELS[name](), pool, X_test=tests)
    assert_adds_up(actual)
    expected = rounds_of(MODELS[name](), X.astype("f4"), X_test=X_TEST.astype("f4"))
    assert_same(actual, expected)


def test_rows_may_be_texts():
    words = np.array(["setosa", "versicolor", "virginica"])
    texts = [f"{words[k]} flower {i % 7} {words[i % 3]}" for i, k in enumerate(Y)]
    model = make_pipeline(CountVectorizer(), forest())
    rounds = rounds_of(model, texts, words[Y], X_test=texts, y_test=words[Y])
    assert_adds_up(rounds, words[Y])
    assert_same(rounds_of(model, np.array(texts), words[Y], X_test=texts, y_test=words[Y]), rounds)


@pytest.mark.parametrize(
    "pool", [{"input_ids": X}, "text", b"text", {1, 2}, iter([1])], ids=lambda x: type(x).__name__
)
def test_rows_that_cannot_be_indexed_are_refused(pool):
    with pytest.raises(sw.InvalidInput, match=r"X_pool (must|has no rows)"):
        sw.ActiveLearner(forest(), pool)


# -- models whose members are right in each row alone ---------------------------------------------


@pytest.mark.parametrize("options", [{"target": X_TEST}, {"method": "joint"}], ids=repr)
def test_members_that_are_right_in_each_row_alone_are_refused_where_rows_are_combined(options):
    process = make_pipeline(StandardScaler(), GaussianProcessClassifier())
    with pytest.raises(sw.InvalidInput, match=r"Pipeline have the right distribution in each row"):
        rounds_of(process, **options)

    def train(X, y, seed):  # what it returns is not known before
        return process.fit(X, y)

    with pytest.raises(sw.InvalidInput, match=r"BootstrapEnsemble, or choose rows by their own"):
        rounds_of(train, **options)


def test_they_are_chosen_by_their_own_scores():
    rounds = rounds_of(GaussianProcessClassifier(), budget=24)
    assert rounds[1].scores is not None
    assert rounds_of(GaussianProcessClassifier(), budget=24, target=X_TEST, method="random")
