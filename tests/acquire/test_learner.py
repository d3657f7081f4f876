"""Active learning by hand and with an oracle: what it returns, refuses, and survives."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import scorewise as sw
from active_support import (
    EXAM,
    SHORT,
    X_TEST,
    Y_TEST,
    Softmax,
    X,
    Y,
    assert_same,
    at,
    files_in,
    forest,
    rounds_of,
    train,
)
from scorewise.acquire import Round


def test_costs_by_name_are_put_in_the_order_of_the_classes():
    costs = np.array([[0, 1, 5], [2, 0, 1], [1, 3, 0]])
    named = sw.rules.cost_matrix(costs[::-1], list("abc"), class_names=[2, 1, 0])
    aligned = sw.rules.cost_matrix(costs, list("abc"))
    for method in ("top", "joint"):
        runs = [
            rounds_of(rule=rule, task_loss=rule, classes=[0, 1, 2], method=method)
            for rule in (named, aligned)
        ]
        assert_same(*runs)
    with pytest.raises(sw.InvalidInput, match="pass classes="):
        sw.ActiveLearner(train, X, rule=sw.rules.cost_matrix(costs, class_names=list("abc")))


# -- by hand ---------------------------------------------------------------------------------------


def by_hand(learner: sw.ActiveLearner) -> list[Round]:
    rounds = []
    while not learner.stop:
        rows = learner.ask()
        np.testing.assert_array_equal(learner.ask(), rows)
        rounds.append(learner.tell(rows, Y[rows]))
    return rounds


@pytest.mark.parametrize("retrain", ["scratch", "warm"])
@pytest.mark.parametrize("method", ["top", "softrank", "joint", "random"])
def test_by_hand_gives_the_rounds_of_an_oracle(method, retrain):
    options = {"method": method, "retrain": retrain, "rule": "brier", "classes": [0, 1, 2]}
    learner = sw.ActiveLearner(train, X, strata=Y, **SHORT, **EXAM, **options)
    rounds = by_hand(learner)
    assert_same(rounds, rounds_of(train, **options))
    assert_same(learner.rounds, rounds)
    assert all(r.model is None for r in learner.rounds)
    assert all(r.model is not None for r in rounds)
    assert learner.model is rounds[-1].model
    np.testing.assert_array_equal(learner.labelled, np.concatenate([r.rows for r in rounds]))
    np.testing.assert_array_equal(learner.labels, Y[learner.labelled])
    with pytest.raises(sw.InvalidInput, match="budget of 30"):
        learner.ask()
    free = np.setdiff1d(np.arange(100), learner.labelled)
    with pytest.raises(sw.InvalidInput, match="the 0 left"):
        learner.tell(free[:1], Y[free[:1]])


def test_labels_of_fewer_or_other_rows_are_accepted():
    learner = sw.ActiveLearner(forest(50), X, rule="log", **SHORT, **EXAM)
    own_copy = learner.ask()
    own_copy[:] = 0
    rows = learner.ask()
    assert len(set(rows.tolist())) == 12
    first = learner.tell(rows[::-1][:10], Y[rows[::-1][:10]])
    assert (first.n_labelled, first.scores) == (10, None)
    np.testing.assert_array_equal(learner.labelled, rows[::-1][:10])
    rows = learner.ask()
    others = {k: v for k, v in (SHORT | EXAM).items() if k != "initial"}
    whole = sw.ActiveLearner(forest(50), X, rule="log", initial=first.rows, **others)
    whole.tell(whole.ask(), Y[first.rows])
    np.testing.assert_array_equal(whole.ask(), rows)
    expected = whole.tell(rows, Y[rows])
    assert len(set(expected.scores[[1, 0, 3]])) == 3
    part = learner.tell(rows[[1, 0, 3]], Y[rows[[1, 0, 3]]])
    np.testing.assert_array_equal(part.scores, expected.scores[[1, 0, 3]])
    rest = np.setdiff1d(np.arange(100), [*learner.labelled, *learner.ask()])[:2]
    others = np.r_[learner.ask()[:1], rest]
    assert learner.tell(others, Y[others]).scores is None
    mask = np.zeros(100, dtype=bool)
    mask[learner.ask()[:2]] = True
    masked = learner.tell(mask, Y[mask])
    np.testing.assert_array_equal(masked.rows, np.flatnonzero(mask))
    assert masked.scores is not None
    assert masked.n_labelled == 18 == len(learner.labelled)
    assert learner.tell(learner.ask(), Y[learner.ask()]).n_labelled == 26
    assert len(learner.ask()) == 4


def test_changing_a_round_does_not_change_the_learner():
    learner = sw.ActiveLearner(forest(), X, **SHORT)
    rows = learner.ask()
    first = learner.tell(rows, Y[rows])
    for array in (first.rows, first.labels, learner.rounds[0].rows):
        if array.flags.writeable:
            array[:] = 0
    np.testing.assert_array_equal(learner.labelled, rows)
    np.testing.assert_array_equal(learner.labels, Y[rows])


def test_a_new_learner_has_no_labels_and_no_model():
    learner = sw.ActiveLearner(forest(), X, initial=100)
    assert (learner.rounds, learner.stop, learner.budget) == ([], None, 100)
    assert len(learner.labelled) == len(learner.labels) == 0
    with pytest.raises(sw.InvalidInput, match="no model yet"):
        _ = learner.model
    learner.tell(np.arange(100), Y)
    with pytest.raises(sw.InvalidInput, match="no row is left"):
        learner.ask()


@pytest.mark.parametrize("y", [Y, Y.astype(str), Y == 1], ids=["int64", "str_", "bool_"])
def test_labels_may_be_a_list_of_scalars(y):
    learner = sw.ActiveLearner(forest(), X, initial=20, random_state=0)
    rows = learner.ask()
    learner.tell([row for row in rows], [y[row] for row in rows])  # noqa: C416
    np.testing.assert_array_equal(learner.labels, y[rows])


@pytest.mark.parametrize(
    ("rows", "labels", "match"),
    [
        ([], [], "rows is empty"),
        ([1, 1], [0, 0], "twice"),
        ([100], [0], "100 rows"),
        ([-1], [0], "100 rows"),
        ([1.5], [0], "indices"),
        (3, 0, "indices"),
        ([1, 2], [0], "1 labels for 2 rows"),
        ([1], 0, "must be a list of labels"),
        ([1], [3], r"labels\[0\] is 3"),
        ([1, 2], [0, None], r"labels\[1\] is None"),
        ([1, 2], [0.0, np.nan], r"labels\[1\] is nan"),
        ([1, 2], [0, "a"], "several types"),
        ([1, 2], [0, True], "several types"),
        ([1, 2], ["0", "1"], "labels"),
        ([1, 2], [0.0, 1.0], "dtype"),
        ([1, 2], [[0], [1]], r"labels\[0\] is \[0\]"),
        (np.arange(31), Y[:31], "the 18 left|label already"),
    ],
)
def test_invalid_labels_are_refused_and_change_nothing(tmp_path, rows, labels, match):
    learner = sw.ActiveLearner(
        forest(), X, **SHORT, **EXAM, classes=[0, 1, 2], state=tmp_path / "s.json"
    )
    first = np.setdiff1d(np.arange(100), [1, 2])[-12:]
    learner.tell(first, Y[first])
    rows_to_label, before = learner.ask(), files_in(tmp_path)
    with pytest.raises(sw.InvalidInput, match=match):
        learner.tell(rows, labels)
    assert files_in(tmp_path) == before
    assert len(learner.rounds) == 1
    np.testing.assert_array_equal(learner.ask(), rows_to_label)
    with pytest.raises(sw.InvalidInput, match="has a label already"):
        learner.tell([1, first[3]], [0, 0])


@pytest.mark.parametrize("label", ["a\0", 2**70, 2**63], ids=["null", "huge", "unsigned"])
def test_labels_that_an_array_would_change_are_refused(label):
    learner = sw.ActiveLearner(forest(), X, initial=2)
    other = "a" if isinstance(label, str) else -1
    with pytest.raises(sw.InvalidInput, match=r"labels are too large"):
        learner.tell([0, 1], [other, label])


def test_masked_labels_are_refused():
    learner = sw.ActiveLearner(forest(), X, initial=3)
    with pytest.raises(sw.InvalidInput, match="labels are a masked array"):
        learner.tell([0, 1, 2], np.ma.array([0, 1, 1], mask=[0, 1, 0]))


# -- what is refused -------------------------------------------------------------------------------


class Net:
    """What a torch module looks like."""

    def forward(self, X: Any) -> Any: ...

    def __call__(self, X: Any) -> Any: ...


BAD = {
    "budget above pool": ({"budget": 101}, "100 rows"),
    "budget below initial": ({"budget": 11}, "initial asks for 12"),
    "budget 0": ({"budget": 0}, "budget"),
    "initial 0": ({"initial": 0}, "initial"),
    "no initial rows": ({"initial": []}, "initial"),
    "initial twice": ({"initial": [1, 1]}, "twice"),
    "initial outside": ({"initial": [100]}, "100 rows"),
    "initial a word": ({"initial": "all"}, "initial"),
    "per_round 0": ({"per_round": 0}, "per_round"),
    "strata": ({"strata": [1, 2]}, "strata"),
    "rule": ({"rule": "nope"}, "nope"),
    "component": ({"component": "both"}, "component"),
    "method": ({"method": "best"}, "method"),
    "joint total": ({"method": "joint", "component": "total"}, "joint"),
    "coldness": ({"coldness": 0}, "coldness"),
    "total with a target": ({"target": X, "component": "total"}, "lower its total uncertainty"),
    "no rows of a target": ({"target": X[:0]}, "target is empty"),
    "target a number": ({"target": 3}, "target has no rows"),
    "target without tests": ({"X_test": None, "y_test": None, "target_loss": 0.1}, "X_test"),
    "patience without tests": ({"X_test": None, "y_test": None, "patience": 1}, "X_test"),
    "patience 0": ({"patience": 0}, "patience"),
    "target nan": ({"target_loss": float("nan")}, "target_loss"),
    "tolerance": ({"tolerance": -0.1}, "tolerance"),
    "X_test alone": ({"y_test": None}, "belong together"),
    "y_test alone": ({"X_test": None}, "belong together"),
    "y_test short": ({"y_test": Y_TEST[:-1]}, "y_test"),
    "y_test nan": ({"y_test": np.where(Y_TEST, np.nan, 0.0)}, "y_test"),
    "no test rows": ({"X_test": X_TEST[:0], "y_test": []}, "empty"),
    "costs of 2": ({"rule": sw.rules.cost_matrix([[0, 1], [1, 0]])}, "classes"),
    "loss of 2": ({"task_loss": sw.rules.cost_matrix([[0, 1], [1, 0]])}, "classes"),
    "retrain": ({"retrain": "cold"}, "retrain"),
    "warm forest": ({"retrain": "warm"}, "scratch"),
    "warm trees": ({"model": [DecisionTreeClassifier()], "retrain": "warm"}, "no warm_start"),
    "warm pipeline": (
        {"model": make_pipeline(StandardScaler(), forest()), "retrain": "warm"},
        "old members",
    ),
    "module": ({"model": Net()}, "train"),
    "modules": ({"model": [Net()]}, "train"),
    "no model": ({"model": None}, "NoneType"),
    "empty list": ({"model": []}, "empty"),
    "class": ({"model": RandomForestClassifier}, "is a class"),
    "classes": ({"model": [GaussianNB()], "classes": [0, 1]}, "y_oracle"),
    "classes of tests": ({"y_test": [7] * 50, "classes": [0, 1, 2]}, "y_test"),
    "seed": ({"random_state": -1}, "random_state"),
    "seed of words": ({"random_state": "a"}, "random_state"),
    "oracle short": ({"y": Y[:-1]}, "100 rows"),
    "oracle nan": ({"y": np.where(Y == 1, np.nan, 1.0)}, "y_oracle"),
    "oracle none": ({"y": [None, *Y[1:].tolist()]}, r"y_oracle\[0\] is None"),
    "oracle mixed": ({"y": ["a", *Y[1:].tolist()]}, "several types"),
    "oracle wide": ({"y": np.eye(3)[Y]}, "y_oracle"),
    "empty pool": ({"X": X[:0], "y": []}, "empty"),
    "state a number": ({"state": 3}, "path"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_arguments_are_refused_before_a_state_is_written(tmp_path, name):
    changed, match = BAD[name]
    options = {"state": tmp_path / "s.json", "model": forest(), "X": X, "y": Y} | SHORT | EXAM
    options |= changed
    model, pool, y = (options.pop(key) for key in ("model", "X", "y"))
    with pytest.raises(sw.InvalidInput, match=match):
        sw.active_learning(model, pool, y, **options)
    assert files_in(tmp_path) == {}


LATE = {"floor": {"task_loss": "log", "floor": 0.5}, "n_samples": {"n_samples": 0}}


@pytest.mark.parametrize("name", LATE)
def test_invalid_floors_and_sample_sizes_are_refused_before_labelling(name):
    options = SHORT | EXAM | LATE[name]
    with pytest.raises(sw.InvalidInput):
        sw.ActiveLearner(forest(), X, classes=[0, 1, 2], **options)


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        ("oracle", "bool"),
        ("oracle", "float"),
        ("tests", "bool"),
        ("tests", "str"),
        ("by hand", "bool"),
        ("by hand", "float"),
        ("by hand", "str"),
        ("classes", "bool"),
        ("classes", "float"),
    ],
)
def test_labels_of_another_type_than_test_labels_are_refused(way, kind):
    y = Y.astype(kind)
    if way == "oracle":
        with pytest.raises(sw.InvalidInput):
            sw.active_learning(forest(), X, y, **SHORT, **EXAM)
        return
    if way == "tests":
        with pytest.raises(sw.InvalidInput):
            sw.active_learning(forest(), X, Y, **SHORT, X_test=X_TEST, y_test=Y_TEST.astype(kind))
        return
    known = {"classes": [0, 1, 2]} if way == "classes" else EXAM
    learner = sw.ActiveLearner(forest(), X, **SHORT, **known)
    rows = learner.ask()
    with pytest.raises(sw.InvalidInput):
        learner.tell(rows, y[rows])


def test_test_labels_in_another_coding_than_the_oracle_are_refused():
    exam = {"X_test": X, "y_test": Y + 1}
    with pytest.raises(sw.InvalidInput, match=r"y_test has the label 3, .* pass classes="):
        sw.active_learning(forest(), X, Y, **exam)
    sw.active_learning(forest(), X, Y, classes=range(4), **exam)


def test_ensembles_cannot_be_trained_warm():
    with pytest.raises(sw.InvalidInput, match="scratch"):
        sw.ActiveLearner(sw.BootstrapEnsemble(MLPClassifier(), 2), X, retrain="warm")


@pytest.mark.parametrize("pool", [None, 3, np.array(1.0)])
def test_a_pool_without_rows_is_refused(pool):
    with pytest.raises(sw.InvalidInput):
        sw.ActiveLearner(forest(), pool)


# -- errors in the middle --------------------------------------------------------------------------


class Oops(Exception):
    pass


def once(error: type[BaseException] = Oops) -> Any:
    """Raises the first time."""
    left = [error("in the middle")]

    def raises() -> None:
        if left:
            raise left.pop()

    return raises


@pytest.mark.parametrize("retrain", ["scratch", "warm"])
@pytest.mark.parametrize("moment", ["fitting", "choosing", "judging"])
@pytest.mark.parametrize("error", [Oops, KeyboardInterrupt])
def test_an_error_changes_nothing(tmp_path, moment, retrain, error):
    options = {"retrain": retrain, "rule": "brier"}
    expected = rounds_of(train, **options)
    path = tmp_path / "s.json"
    learner = sw.ActiveLearner(
        at(moment, once(error)),
        X,
        strata=Y,
        classes=[0, 1, 2],
        state=path,
        **SHORT,
        **EXAM,
        **options,
    )
    actual = [learner.tell(rows, Y[rows]) for rows in (learner.ask() for _ in range(2))]
    before = files_in(tmp_path)
    with pytest.raises(error) as caught:
        learner.tell(learner.ask(), Y[learner.ask()])
    if error is Oops:
        what = {"choosing": "choosing rows", "fitting": "training"}.get(
            moment, "measuring the loss"
        )
        assert f"while {what} in round 2" in caught.value.__notes__[0]
        assert "2 rounds before" in caught.value.__notes__[0]
    assert files_in(tmp_path) == before
    assert len(learner.rounds) == 2
    actual += [learner.tell(rows, Y[rows]) for rows in (learner.ask() for _ in range(2))]
    assert_same(actual, expected)
    assert list(files_in(tmp_path)) == ["s.json"]
    restored = list(sw.active_learning(train, X, Y, state=path, **SHORT, **EXAM, **options))
    assert_same(restored, expected)


def test_an_error_changes_nothing_for_functions_that_train_in_place():
    class Interrupted(Softmax):
        def predict_proba(self, X: Any) -> np.ndarray:
            if len(X) == len(X_TEST) and pending:
                raise pending.pop()
            return super().predict_proba(X)

    pending: list[Exception] = []

    def in_place(X: Any, y: Any, seed: int, previous: Any = None) -> Any:
        models = previous or [Interrupted(seed), Interrupted(seed + 1)]
        for model in models:
            model.before = model if previous else None
            model.fit(X, y)
            model.before = None
        return models

    def run(fails: bool) -> float:
        learner = sw.ActiveLearner(
            in_place, X, retrain="warm", task_loss="brier", classes=[0, 1, 2], **SHORT, **EXAM
        )
        learner.tell(learner.ask(), Y[learner.ask()])
        rows = learner.ask()
        if fails:
            pending.append(Oops())
            with pytest.raises(Oops):
                learner.tell(rows, Y[rows])
        return learner.tell(rows, Y[rows]).loss

    assert run(fails=True) == run(fails=False)


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "s.json"
    rounds = sw.active_learning(forest(), X, Y, state=path, **SHORT, **EXAM)
    actual = [next(rounds)]
    learner = sw.ActiveLearner(
        forest(), X, strata=Y, classes=[0, 1, 2], state=path, **SHORT, **EXAM
    )
    before = files_in(tmp_path)
    with monkeypatch.context() as patch:
        full = OSError(28, "No space left on device")

        def fail(*_: Any) -> None:
            raise full

        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="No space"):
            learner.tell(learner.ask(), Y[learner.ask()])
        with pytest.raises((OSError, sw.InvalidInput)):
            sw.ActiveLearner(forest(), X, state=tmp_path / "other.json")
    assert files_in(tmp_path) == before, "nothing is left behind"
    assert len(learner.rounds) == 1
    actual += [learner.tell(rows, Y[rows]) for rows in (learner.ask() for _ in range(3))]
    assert_same(actual, rounds_of())


def test_a_disk_that_is_full_for_a_while(tmp_path, monkeypatch):
    learner = sw.ActiveLearner(forest(), X, **SHORT, state=tmp_path / "s.json")
    rows = learner.ask()
    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError("full")))
            with pytest.raises(OSError, match="full"):
                learner.tell(rows, Y[rows])
    assert learner.tell(rows, Y[rows]).n_labelled == 12


# -- several threads -------------------------------------------------------------------------------


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


def test_labels_that_another_thread_tells_meanwhile_count(tmp_path):
    """A choice, or a model, that was made for fewer labels is dropped."""
    meanwhile, finished = [], []

    def train(X: Any, y: Any, seed: int) -> Any:
        if meanwhile:
            rows = meanwhile.pop()
            thread = threading.Thread(target=lambda: finished.append(second.tell(rows, Y[rows])))
            thread.start()
            thread.join()
        return [GaussianNB().fit(X, y)]

    options = {"component": "total", "random_state": 0, "state": tmp_path / "s.json"}
    first = sw.ActiveLearner(train, X, **options)
    first.tell(first.ask(), Y[first.ask()])
    second = sw.ActiveLearner(train, X, **options)
    meanwhile.append(first.ask())  # labelled while the second trains its model again
    rows = second.ask()
    assert not set(rows.tolist()) & set(second.labelled.tolist())
    assert len(second.labelled) == 30
    assert second.model is finished[0].model


# -- progress bars ---------------------------------------------------------------------------------


def test_the_progress_bar_is_shown_on_request(capsys):
    assert_same(rounds_of(progress=True), rounds_of(progress=False))
    shown = capsys.readouterr().err
    assert "labelling" in shown
    assert "predicting" not in shown
    rounds_of(progress=False)
    assert capsys.readouterr().err == ""


def test_several_progress_bars_do_not_disturb_each_other(capsys):
    expected = rounds_of(progress=False)
    runs = [sw.active_learning(forest(), X, Y, progress=True, **SHORT, **EXAM) for _ in range(3)]
    abandoned = runs.pop()
    next(abandoned)
    pairs = list(zip(*runs, strict=True))
    for rounds in zip(*pairs, strict=True):
        assert_same(list(rounds), expected)
    abandoned.close()
    assert_same(rounds_of(progress=True), expected)
    assert "labelling" in capsys.readouterr().err
