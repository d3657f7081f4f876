"""Active learning as people use it: odd models and rows, threads, other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scorewise as sw
from active_support import COSTS, EXAM, SHORT, X, Y, assert_same, forest, rounds_of
from scorewise.acquire._fingerprints import describe, digest

ONE_CLASS = np.flatnonzero(Y == 0)[:5]


# -- copies in a real pool ------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["log", "zero-one"])
def test_a_copy_in_the_pool_is_not_chosen_with_its_row_though_sums_are_rounded_otherwise(rule):
    pool, y = load_digits(return_X_y=True)
    model = sw.BootstrapEnsemble(LogisticRegression(max_iter=50), 10, random_state=0)
    model.fit(pool[:60], y[:60])
    differed = 0
    for n in range(301, 321):
        first = int(np.argmax(sw.decompose(model.predict_samples(pool[60:n]), rule).epistemic))
        copied = np.vstack([pool[60:n], pool[60 + first]])
        probs = model.predict_samples(copied).probs
        differed += (probs[first] != probs[-1]).any()
        top = sw.acquire(sw.decompose(probs, rule).epistemic, 5, random_state=0)
        batch = sw.acquire_batch(probs, 5, rule, 0).rows
        pair = {first, len(copied) - 1}
        assert len(pair & set(batch.tolist())) == 1
        assert pair <= set(top.tolist())
    assert differed  # so that it says something


# -- models ---------------------------------------------------------------------------------------


def test_what_splits_rows_at_random_gets_a_seed_too():
    search = GridSearchCV(
        RandomForestClassifier(4), {"max_depth": [1, 3]}, cv=StratifiedKFold(2, shuffle=True)
    )
    assert_same(rounds_of(search), rounds_of(search))
    assert search.cv.random_state is None


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
def test_a_new_class_lets_a_warm_model_begin_anew(model):
    two = np.concatenate([ONE_CLASS, np.flatnonzero(Y == 1)[:5]])
    learner = sw.ActiveLearner(
        model, X, initial=two, per_round=5, retrain="warm", random_state=0, classes=[0, 1, 2]
    )
    learner.tell(learner.ask(), Y[learner.ask()])
    third = np.flatnonzero(Y == 2)[:5]
    learner.tell(third, Y[third])
    np.testing.assert_array_equal(learner.model[0].classes_, [0, 1, 2])
    learner.tell(learner.ask(), Y[learner.ask()])


def test_what_its_owner_does_to_a_model_does_not_matter():
    model = forest()
    rounds = sw.active_learning(model, X, Y, **SHORT, **EXAM)
    found = [next(rounds)]
    model.set_params(max_depth=1, n_estimators=1)
    assert_same(found + list(rounds), rounds_of())


def test_a_function_that_returns_nothing_is_told_so():
    with pytest.raises(sw.InvalidInput, match="must return the trained model"):
        next(sw.active_learning(lambda X, y, seed: None, X, Y, **SHORT))


@pytest.mark.usefixtures("one_torch_thread")
def test_numbers_that_are_no_indices_are_refused_for_networks():
    import torch

    model = sw.DeepEnsemble(lambda: torch.nn.Linear(4, 3), 2, epochs=1)
    two = np.concatenate([ONE_CLASS, np.flatnonzero(Y == 1)[:5]])
    with pytest.raises(sw.InvalidInput, match="the model knows a class 0; the classes are"):
        next(sw.active_learning(model, X.astype("f4"), Y + 1, initial=two, random_state=0))


def test_a_model_that_speaks_of_other_classes_is_refused():
    def encoded(X: Any, y: Any, seed: int) -> Any:
        return RandomForestClassifier(3, random_state=seed).fit(X, y == y.max())

    learner = sw.ActiveLearner(encoded, X, initial=12)
    with pytest.raises(sw.InvalidInput, match="the model does not know the label 3"):
        learner.tell(learner.ask(), Y[learner.ask()] + 1 + (Y[learner.ask()] > 0))
    assert learner.rounds == []


def test_one_class_alone_costs_nothing():
    assert [r.loss for r in rounds_of(y=np.zeros(100, int), y_test=np.zeros(50, int))] == [0.0] * 4


def test_a_model_that_cannot_learn_one_class_says_what_to_do():
    learner = sw.ActiveLearner([LogisticRegression()], X, initial=ONE_CLASS)
    with pytest.raises(ValueError, match="at least 2 classes") as caught:
        learner.tell(learner.ask(), Y[learner.ask()])
    assert "can be told together" in caught.value.__notes__[0]
    both = np.concatenate([ONE_CLASS, np.flatnonzero(Y == 1)[:2]])
    assert learner.tell(both, Y[both]).n_labelled == 7


def test_rules_of_a_fixed_number_of_classes_need_to_know_them():
    for fixed in ({"rule": COSTS}, {"task_loss": COSTS, **EXAM}, {"rule": "beta:1,2"}):
        with pytest.raises(sw.InvalidInput, match="pass classes="):
            sw.ActiveLearner(forest(), X, **fixed)
    learner = sw.ActiveLearner(forest(), X, rule=COSTS, classes=[0, 1, 2], initial=ONE_CLASS)
    learner.tell(learner.ask(), Y[learner.ask()])
    assert len(learner.ask()) == 10


# -- rows and labels ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pool", [{"input_ids": X}, "text", b"text", {1, 2}, iter([1])], ids=lambda x: type(x).__name__
)
def test_rows_that_cannot_be_taken_by_number(pool):
    with pytest.raises(sw.InvalidInput, match="X_pool must"):
        sw.ActiveLearner(forest(), pool)


@pytest.mark.parametrize("label", ["a\0", 2**70, 2**63], ids=["null", "huge", "unsigned"])
def test_labels_that_would_not_be_kept_as_they_are(label):
    learner = sw.ActiveLearner(forest(), X, initial=2)
    other = "a" if isinstance(label, str) else -1
    with pytest.raises(sw.InvalidInput, match=r"labels are too large"):
        learner.tell([0, 1], [other, label])


def test_masked_labels_are_refused():
    learner = sw.ActiveLearner(forest(), X, initial=3)
    with pytest.raises(sw.InvalidInput, match="labels are a masked array"):
        learner.tell([0, 1, 2], np.ma.array([0, 1, 1], mask=[0, 1, 0]))


def test_a_round_leaves_the_arrays_of_others_alone():
    rows = np.arange(3)
    one = sw.Round(0, rows, [1, 2, 3], None, 3, None)
    rows[0] = 7
    assert one.rows.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        one.rows[0] = 1
    assert replace(one, model=None).labels.tolist() == [1, 2, 3]


# -- runs that are compared -----------------------------------------------------------------------


def test_runs_are_compared_at_the_numbers_of_labels_that_all_have_come_to():
    runs = {
        "fast": [rounds_of(per_round=8, budget=36, random_state=s) for s in range(2)],
        "slow": [rounds_of(per_round=4, budget=20, random_state=s) for s in range(2)],
    }
    shared = {
        name: [[r.loss for r in run if r.n_labelled in (12, 20)] for run in several]
        for name, several in runs.items()
    }
    found, expected = (sw.compare(task="active", runs=given) for given in (runs, shared))
    assert str(found) == str(expected)
    runs["slow"] = [[replace(r, n_labelled=r.n_labelled + 1) for r in run] for run in runs["slow"]]
    with pytest.raises(sw.InvalidInput, match=r"no number of labels in common.*13"):
        sw.compare(task="active", runs=runs)


# -- several at once ------------------------------------------------------------------------------


def test_threads_that_tell_at_once_do_not_spoil_the_state(tmp_path):
    options = {"initial": 12, "per_round": 8, "random_state": 0, "state": tmp_path / "s.json"}
    learner = sw.ActiveLearner([GaussianNB()], X, component="total", **options)
    learner.tell(learner.ask(), Y[learner.ask()])
    refused = []

    def work() -> None:
        for _ in range(4):
            try:
                rows = learner.ask()
                learner.tell(rows, Y[rows])
            except sw.InvalidInput as error:
                refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(learner.rounds) + len(refused) == 17
    assert len(set(learner.labelled.tolist())) == len(learner.labelled)
    assert [r.index for r in learner.rounds] == list(range(len(learner.rounds)))
    again = sw.ActiveLearner([GaussianNB()], X, component="total", **options)
    assert_same(again.rounds, learner.rounds)


def test_of_two_learners_on_one_file_only_one_can_save(tmp_path):
    for attempt in range(5):
        path = tmp_path / f"{attempt}.json"
        two = [
            sw.ActiveLearner([GaussianNB()], X, component="total", random_state=0, state=path)
            for _ in range(2)
        ]
        barrier, saved, refused = threading.Barrier(2), [], []

        def work(i: int, two=two, barrier=barrier, saved=saved, refused=refused) -> None:
            barrier.wait()
            try:
                two[i].tell(range(20 * i, 20 * i + 20), Y[20 * i : 20 * i + 20])
                saved.append(i)
            except sw.InvalidInput as error:
                refused.append(str(error))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(saved) == 1
        assert "changed by another run" in refused[0]
        again = sw.ActiveLearner([GaussianNB()], X, component="total", random_state=0, state=path)
        np.testing.assert_array_equal(again.labelled, np.arange(20) + 20 * saved[0])


def test_what_another_thread_tells_meanwhile_counts():
    """A batch, or a model, that was made for fewer labels is not kept."""
    told = []

    def train(X: Any, y: Any, seed: int) -> Any:
        if len(told) == 1:  # while the model is trained again, others tell
            told.append(None)
            thread = threading.Thread(target=lambda: told.append(learner.tell(*told[0])))
            thread.start()
            thread.join()
        return [GaussianNB().fit(X, y)]

    learner = sw.ActiveLearner(train, X, component="total", random_state=0)
    learner.tell(learner.ask(), Y[learner.ask()])
    rows = learner.ask()
    learner._model = learner._asked = None  # as if it were read from a state
    told.append((rows, Y[rows]))
    asked = learner.ask()
    assert not set(asked.tolist()) & set(learner.labelled.tolist())
    assert learner.model is told[2].model


def test_a_disk_that_is_full_for_a_while(tmp_path, monkeypatch):
    learner = sw.ActiveLearner(forest(), X, **SHORT, state=tmp_path / "s.json")
    rows = learner.ask()
    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError("full")))
            with pytest.raises(OSError, match="full"):
                learner.tell(rows, Y[rows])
    assert learner.tell(rows, Y[rows]).n_labelled == 12


# -- the same settings in another process ---------------------------------------------------------

SETTINGS = """
import sys
from functools import partial
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from scorewise.acquire._fingerprints import describe, digest
import numpy as np

class Settings:
    def __init__(self): self.words, self.depth = {"aa", "bb", "cc", "dd"}, 3

def make(): pass
def train(X, y, seed, **options): pass

things = np.empty(2, dtype=object)
things[:] = [{"aa", "bb", "cc"}, Settings()]
words = {"setosa", "versicolor", "virginica", "flower"}
print(describe(partial(train, make=make, settings=Settings(), words={"aa", "bb", "cc"})))
print(describe(make_pipeline(CountVectorizer(vocabulary=words), RandomForestClassifier(3))))
print(describe(VotingClassifier([("a", RandomForestClassifier()), ("b", make_pipeline("drop"))])))
print(digest(things), digest([[1, 2], [3]]), digest(np.eye(2)))
"""


def test_descriptions_are_the_same_in_every_process():
    found = {
        subprocess.run(
            [sys.executable, "-c", SETTINGS],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert " at 0x" not in found.pop()


def test_what_differs_is_described_otherwise():
    class Own:
        def __init__(self, base: Any) -> None:
            self.base = base

        def fit(self, X: Any, y: Any) -> None: ...

    assert describe(Own(LogisticRegression(C=1))) != describe(Own(LogisticRegression(C=10)))
    assert describe(partial(print, LogisticRegression(C=1))) != describe(
        partial(print, LogisticRegression(C=10))
    )
    days = [pd.DataFrame({"t": pd.to_datetime([day]), "x": [1.0]}) for day in ("2020", "2021")]
    assert digest(days[0]) != digest(days[1])
    numbers = [np.array([Decimal(text)], dtype=object) for text in ("1.5", "2.5")]
    assert digest(numbers[0]) != digest(numbers[1])


@pytest.mark.parametrize("name", ["pipeline", "voting"])
def test_processors_and_seeds_of_parts_do_not_matter(tmp_path: Path, name: str):
    def make(**options: Any) -> Any:
        part = RandomForestClassifier(3, **options)
        if name == "voting":
            return VotingClassifier([("a", part), ("b", GaussianNB())], voting="soft")
        return make_pipeline(StandardScaler(), part)

    path = tmp_path / "s.json"
    first = rounds_of(make(), state=path)
    assert_same(rounds_of(make(n_jobs=1, verbose=0, random_state=3), state=path), first)
    with pytest.raises(sw.InvalidInput, match="another model"):
        rounds_of(make(max_depth=2), state=path)
