"""The state of active learning on disk: killed, resumed, and never mistaken for another."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
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
    assert_same,
    at,
    files_in,
    forest,
    rounds_of,
    train,
)

# -- killed ----------------------------------------------------------------------------------------


# One process is forked for each run, as importing takes longest. Each kills itself at its moment.
CHILD = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import scorewise as sw
from active_support import EXAM, SHORT, X, Y, at

def run(moment, options, state):
    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    replace, writes = os.replace, []
    def watched(*paths):
        writes.append(paths)
        if moment == "before saving" and len(writes) == 4:  # an empty state was the first
            die()
        replace(*paths)
        if moment == "after saving" and len(writes) == 4:
            die()
    os.replace = watched
    options = SHORT | EXAM | options
    for _ in sw.active_learning(at(moment, die), X, Y, state=state, **options):
        pass

pids = []
for task in {tasks!r}:
    pids.append(os.fork())
    if not pids[-1]:
        try:
            run(*task)
        finally:
            os._exit(1)
assert all(os.waitpid(pid, 0)[1] == signal.SIGKILL for pid in pids)
"""

KILLED = {
    "scratch fitting": ("fitting", {}),
    "scratch choosing": ("choosing", {"method": "softrank", "random_state": None}),
    "scratch before saving": ("before saving", {"random_state": None}),
    "warm judging": ("judging", {"retrain": "warm", "method": "joint"}),
    "warm fitting": ("fitting", {"retrain": "warm", "random_state": None}),
    "warm after saving": ("after saving", {"retrain": "warm"}),
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """States of runs that were killed, by name."""
    states = {name: tmp_path_factory.mktemp("killed") / "s.json" for name in KILLED}
    tasks = [
        (moment, {"rule": "brier"} | options, str(states[name]))
        for name, (moment, options) in KILLED.items()
    ]
    code = CHILD.format(tests=str(Path(__file__).parents[1]), tasks=tasks)
    subprocess.run([sys.executable, "-c", code], check=True)
    return states


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_run_continues_to_the_same_result(killed, name):
    moment, options = KILLED[name]
    options = {"rule": "brier"} | options
    state = json.loads(killed[name].read_text())
    assert len(state["rounds"]) == (3 if moment == "after saving" else 2)
    stray = [path.name for path in killed[name].parent.iterdir() if "partial" in path.name]
    assert len(stray) == (moment in {"before saving", "after saving"})
    expected = rounds_of(train, **(options | {"random_state": state["seed"]}))
    learner = sw.ActiveLearner(
        train, X, strata=Y, classes=[0, 1, 2], state=killed[name], **(SHORT | EXAM | options)
    )
    np.testing.assert_array_equal(learner.ask(), expected[len(state["rounds"])].rows)
    actual = rounds_of(train, state=killed[name], **options)
    assert_same(actual, expected)
    assert [r.model is None for r in actual] == [r < len(state["rounds"]) for r in range(4)]
    assert os.listdir(killed[name].parent) == ["s.json"]
    assert_same(rounds_of(train, state=killed[name], **options), expected)


# -- resumed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, None, 2**80])
@pytest.mark.parametrize("retrain", ["scratch", "warm"])
@pytest.mark.parametrize("n_before", [0, 1, 2, 3, 4])
def test_a_run_continues_after_any_round_to_the_same_result(tmp_path, n_before, retrain, seed):
    options = {"retrain": retrain, "random_state": seed, "state": tmp_path / "s.json"}
    begun = sw.active_learning(train, X, Y, **(SHORT | EXAM | options))
    assert list(files_in(tmp_path)) == ["s.json"], (
        "a path that cannot be written is refused at once"
    )
    before = [next(begun) for _ in range(n_before)]
    begun.close()
    actual = rounds_of(train, **options)
    assert_same(actual[:n_before], before)
    seed = json.loads((tmp_path / "s.json").read_text())["seed"]
    assert_same(actual, rounds_of(train, retrain=retrain, random_state=seed))
    assert list(files_in(tmp_path)) == ["s.json"]


def test_labels_are_read_back_unchanged(tmp_path):
    for i, names in enumerate((["ü", "a", 'b\n"'], [False, True, True], [3.0, -1.0, 2.0])):
        y, y_test = np.array(names)[Y], np.array(names)[Y_TEST]
        options = {"y": y, "y_test": y_test, "state": str(tmp_path / f"{i}.json")}
        assert_same(rounds_of(**options), rounds_of(**options))
        assert_same(rounds_of(**options), rounds_of(y=y, y_test=y_test))


def test_the_model_of_a_saved_round_is_trained_again(tmp_path):
    path = tmp_path / "s.json"
    calls = []
    for retrain in ("scratch", "warm"):

        def counted(X: Any, y: Any, seed: int, previous: Any = (None, None)) -> Any:
            calls.append(len(y))
            return train(X, y, seed, previous)

        path.unlink(missing_ok=True)
        options = {"state": path, "retrain": retrain}
        last = rounds_of(counted, **options)[-1].model
        calls.clear()
        learner = sw.ActiveLearner(
            counted, X, strata=Y, classes=[0, 1, 2], **(SHORT | EXAM | options)
        )
        assert calls == []
        np.testing.assert_array_equal(learner.model[1].w_, last[1].w_)
        assert calls == ([30] if retrain == "scratch" else [12, 20, 28, 30])
        assert learner.model is learner.model
        assert learner.stop == "budget"
        assert (len(learner.labelled), learner.rounds[-1].model) == (30, None)


def test_the_model_is_the_last_one_after_an_error(tmp_path):
    path = tmp_path / "s.json"
    options = SHORT | EXAM | {"state": path, "retrain": "warm", "strata": Y, "classes": [0, 1, 2]}
    learner = sw.ActiveLearner(train, X, **options)
    for _ in range(3):
        rows = learner.ask()
        learner.tell(rows, Y[rows])
    broken = [True]

    def interrupted() -> None:
        if broken:
            broken.pop()
            raise KeyboardInterrupt

    again = sw.ActiveLearner(at("fitting", interrupted), X, **options)
    with pytest.raises(KeyboardInterrupt):
        _ = again.model
    np.testing.assert_array_equal(again.model[0].w_, learner.model[0].w_)


def test_budget_and_stopping_may_change_between_runs(tmp_path):
    path = tmp_path / "s.json"
    short = rounds_of(state=path, budget=28)
    assert short[-1].stop == "budget"
    longer = rounds_of(budget=44)
    assert_same(rounds_of(state=path, budget=44), longer)
    with pytest.raises(sw.InvalidInput, match="44 labels already"):
        rounds_of(state=path, budget=43)
    before = files_in(tmp_path)
    target = longer[1].loss
    reached = rounds_of(state=path, budget=44, target_loss=target)
    first = next(r.index for r in longer if r.loss <= target)
    assert (len(reached), reached[-1].stop) == (first + 1, "target")
    assert rounds_of(state=path, budget=44, patience=1, tolerance=9)[-1].stop == "plateau"
    assert files_in(tmp_path) == before
    assert rounds_of(state=path, budget=None)[-1].n_labelled == 100


# -- another configuration -------------------------------------------------------------------------


MIXED = np.r_[X[:1] + 1e-9, X[1:]]


OTHER = {
    "pool": {"X": MIXED},
    "dtype": {"X": X.astype(np.float32)},
    "order": {"X": np.ascontiguousarray(X[:, ::-1])},
    "kind of model": {"model": sw.BootstrapEnsemble(DecisionTreeClassifier(), 5)},
    "parameters": {"model": RandomForestClassifier(5, min_samples_leaf=3)},
    "list of models": {"model": [forest()]},
    "function": {"model": train},
    "initial": {"initial": 11},
    "initial rows": {"initial": np.arange(12)},
    "strata": {"stratified": False},
    "per_round": {"per_round": 9},
    "rule": {"rule": "brier"},
    "costs": {"rule": COSTS},
    "component": {"component": "total"},
    "method": {"method": "power"},
    "coldness": {"coldness": 2.0},
    "target": {"target": X_TEST},
    "test rows": {"X_test": X_TEST[::-1]},
    "test labels": {"y_test": Y_TEST[::-1]},
    "no tests": {"X_test": None, "y_test": None},
    "task loss": {"task_loss": "brier"},
    "floor": {"floor": 1e-3},
    "classes": {"classes": [0, 1, 2, 3]},
    "n_samples": {"n_samples": 3},
    "seed": {"random_state": 1},
    "oracle": {"y": np.where(np.arange(100) % 2, Y, 2 - Y), "strata": Y},
}


@pytest.mark.parametrize("name", OTHER)
def test_the_state_of_another_configuration_is_refused(tmp_path, name):
    options = (
        {"state": tmp_path / "s.json", "strata": Y}
        if "strata" in OTHER[name]
        else {"state": tmp_path / "s.json"}
    )
    rounds_of(**options)
    before = files_in(tmp_path)
    options = {"model": forest(), "X": X, "y": Y} | SHORT | EXAM | options | OTHER[name]
    model, pool, y = (options.pop(key) for key in ("model", "X", "y"))
    with pytest.raises(sw.InvalidInput, match=r"another|does not agree"):
        sw.active_learning(model, pool, y, **options)
    assert files_in(tmp_path) == before


def test_costs_that_print_alike_are_distinguished(tmp_path):
    costs = np.random.default_rng(0).uniform(size=(3, 60))
    other = costs.copy()
    other[1, 30] += 1e-9
    rounds_of(rule=sw.rules.cost_matrix(costs), state=tmp_path / "s.json")
    rounds_of(rule=sw.rules.cost_matrix(costs.copy()), state=tmp_path / "s.json")
    with pytest.raises(sw.InvalidInput, match="another rule"):
        rounds_of(rule=sw.rules.cost_matrix(other), state=tmp_path / "s.json")


def test_the_state_of_another_target_is_refused(tmp_path):
    state = tmp_path / "s.json"
    rounds_of(state=state, target=X_TEST)
    assert_same(rounds_of(state=state, target=X_TEST.copy()), rounds_of(target=X_TEST))
    for target in (X_TEST[:-1], None):
        with pytest.raises(sw.InvalidInput, match="was saved with another target"):
            rounds_of(state=state, target=target)


def test_a_state_with_the_largest_gains_for_a_target_does_not_continue_by_default(tmp_path):
    """The default under a target was "top" once."""
    state = tmp_path / "s.json"
    rounds_of(state=state, target=X_TEST, method="top", budget=20)
    with pytest.raises(sw.InvalidInput, match="another method \\('top', not 'power'\\)"):
        rounds_of(state=state, target=X_TEST)
    assert_same(
        rounds_of(state=state, target=X_TEST, method="top"), rounds_of(target=X_TEST, method="top")
    )


def test_the_state_of_another_kind_of_training_is_refused(tmp_path):
    rounds_of(train, state=tmp_path / "s.json")
    with pytest.raises(sw.InvalidInput, match="retrain \\('scratch', not 'warm'\\)"):
        rounds_of(train, state=tmp_path / "s.json", retrain="warm")


def first_columns(X: Any) -> Any:
    return X.iloc[:, :4].to_numpy() if hasattr(X, "iloc") else X


@pytest.mark.parametrize("kind", ["frame", "sparse", "list", "tensor", "fortran"])
def test_the_same_pool_is_recognised(tmp_path, kind):

    made = {
        "frame": lambda: pd.DataFrame(X, columns=list("efgh")).assign(
            word="a", when=pd.Timestamp(0)
        ),
        "sparse": lambda: sp.csr_matrix(X),
        "list": X.tolist,
        "tensor": lambda: torch.as_tensor(X),
        "fortran": lambda: np.asfortranarray(X),
    }[kind]
    model = make_pipeline(FunctionTransformer(first_columns), DecisionTreeClassifier(max_depth=2))
    options = {"state": tmp_path / "s.json", "component": "total", "X_test": made()}
    first = rounds_of(model, made(), y_test=Y, **options)
    assert_same(rounds_of(model, made(), y_test=Y, **options), first)
    if kind == "sparse":
        moved = made()
        moved.indices = moved.indices[::-1].copy()
        with pytest.raises(sw.InvalidInput, match="another pool"):
            rounds_of(model, moved, y_test=Y, **options)


def configured(pool: Any, path: Path, model: Any = None) -> None:
    """Begin a state with this pool and model, or continue one; nothing is labelled."""
    model = forest() if model is None else model
    sw.ActiveLearner(model, pool, initial=1, state=path, method="random")


def assert_distinguished(path: Path, *configurations: dict[str, Any]) -> None:
    """The state of the first configuration is accepted for itself, and refused for the others."""
    first, *others = configurations
    path.unlink(missing_ok=True)
    configured(path=path, **({"pool": X} | first))
    configured(path=path, **({"pool": X} | first))
    for other in others:
        with pytest.raises(sw.InvalidInput, match="was saved with another"):
            configured(path=path, **({"pool": X} | other))


def test_pools_of_other_dtypes_and_shapes_are_distinguished(tmp_path):
    arrays = [np.zeros(4), np.zeros(4, dtype=int), np.zeros((2, 2)), np.zeros((4, 1))]
    assert_distinguished(tmp_path / "s.json", *({"pool": array} for array in arrays))
    assert_distinguished(tmp_path / "s.json", {"pool": ["ab", "c"]}, {"pool": ["a", "bc"]})


def test_functions_are_recognised_by_name(tmp_path):
    models = [make_pipeline(FunctionTransformer(lambda X: X), forest()) for _ in range(2)]
    runs = [rounds_of(model, state=tmp_path / "s.json") for model in models]
    assert_same(*runs)


@pytest.mark.parametrize("seeds", [(0, 1), (np.random.RandomState(0), np.random.RandomState(0))])
def test_seeds_within_a_model_are_ignored(tmp_path, seeds):
    expected = rounds_of(sw.BootstrapEnsemble(DecisionTreeClassifier(), 2))
    for seed in seeds:
        model = sw.BootstrapEnsemble(DecisionTreeClassifier(random_state=seed), 2)
        assert_same(rounds_of(model, state=tmp_path / "s.json"), expected)


def test_rows_may_have_different_sizes(tmp_path):
    def lengths(X: Any, y: Any, seed: int) -> Any:
        return DecisionTreeClassifier(random_state=seed).fit([[len(x)] for x in X], y)

    pool = [np.ones(1 + i % 5) for i in range(100)]
    options = {"X_test": None, "y_test": None, "method": "random"}
    assert_same(
        rounds_of(lengths, pool, state=tmp_path / "s.json", **options),
        rounds_of(lengths, pool, **options),
    )


def test_pools_of_large_objects_are_distinguished(tmp_path):
    first, second = np.empty(2, dtype=object), np.empty(2, dtype=object)
    first[:] = second[:] = [np.zeros(5000), np.zeros(5000)]
    second[1] = (np.arange(5000) == 2500).astype(float)
    assert_distinguished(tmp_path / "s.json", {"pool": first}, {"pool": second})


def test_the_state_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun = sw.active_learning(forest(), X, Y, **SHORT, **EXAM, state="s.json")
    next(begun)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    next(begun)
    assert not files_in(tmp_path / "other")


def test_partial_functions_with_other_arguments_are_refused(tmp_path):
    def deep(X: Any, y: Any, seed: int, depth: int) -> Any:
        return [DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(X, y)]

    rounds_of(partial(deep, depth=1), state=tmp_path / "s.json", budget=20)
    with pytest.raises(sw.InvalidInput, match="another model"):
        rounds_of(partial(deep, depth=3), state=tmp_path / "s.json", budget=20)


@pytest.mark.parametrize(
    "option",
    [
        {"per_round": np.int64(8)},
        {"coldness": np.float32(1)},
        {"n_samples": np.int64(5)},
        {"floor": np.float32(0.01)},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_may_be_numpy_scalars(tmp_path, option):
    assert_same(rounds_of(state=tmp_path / "s.json", **option), rounds_of(**option))


CONFIGURATIONS = """
import sys
from functools import partial
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
import numpy as np
import scorewise as sw

class Settings:
    def __init__(self): self.words, self.depth = {"aa", "bb", "cc", "dd"}, 3

def make(): pass
def train(X, y, seed, **options): pass

things = np.empty(2, dtype=object)
things[:] = [{"aa", "bb", "cc"}, Settings()]
words = {"setosa", "versicolor", "virginica", "flower"}
models = [
    partial(train, make=make, settings=Settings(), words={"aa", "bb", "cc"}),
    make_pipeline(CountVectorizer(vocabulary=words), RandomForestClassifier(3)),
    VotingClassifier([("a", RandomForestClassifier()), ("b", make_pipeline("drop"))]),
]
configurations = [(model, np.eye(2)) for model in models]
configurations += [(models[0], pool) for pool in (things, [[1, 2], [3]])]
for i, (model, pool) in enumerate(configurations):
    sw.ActiveLearner(model, pool, initial=1, state=f"{sys.argv[1]}/{i}.json")
"""


def test_a_configuration_is_known_again_in_every_process(tmp_path):
    for hash_seed in ("1", "2"):  # sets have another order
        subprocess.run(
            [sys.executable, "-c", CONFIGURATIONS, str(tmp_path)],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
        )
    states = files_in(tmp_path)
    assert len(states) == 5
    assert not any(b" at 0x" in content for content in states.values())


def test_models_and_pools_that_differ_within_are_distinguished(tmp_path):
    class Own:
        def __init__(self, base: Any) -> None:
            self.base = base

        def fit(self, X: Any, y: Any) -> None: ...

    path = tmp_path / "s.json"
    bases = [LogisticRegression(C=1), LogisticRegression(C=10)]
    assert_distinguished(path, *({"model": Own(base)} for base in bases))
    assert_distinguished(path, *({"model": partial(print, base)} for base in bases))
    days = [pd.DataFrame({"t": pd.to_datetime([day]), "x": [1.0]}) for day in ("2020", "2021")]
    assert_distinguished(path, *({"pool": day} for day in days))
    numbers = [np.array([Decimal(text)], dtype=object) for text in ("1.5", "2.5")]
    assert_distinguished(path, *({"pool": number} for number in numbers))


@pytest.mark.parametrize("name", ["pipeline", "voting"])
def test_numbers_of_jobs_and_seeds_within_a_model_are_ignored(tmp_path: Path, name: str):
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


# -- not a state -----------------------------------------------------------------------------------


def refuses(path: Path, content: bytes, **options: Any) -> None:
    path.write_bytes(content)
    with pytest.raises(sw.InvalidInput):
        rounds_of(state=path, **options)
    assert files_in(path.parent) == {path.name: content}


def test_files_that_are_no_state_are_refused_and_unchanged(tmp_path):
    path = tmp_path / "s.json"
    rounds_of(state=path)
    content = path.read_bytes()
    for size in (0, 1, len(content) // 2, len(content) - 1):
        refuses(path, content[:size])
    for other in (
        b"{}",
        b"[]",
        b"null",
        b"3",
        b'"format"',
        b"\xff\xfe\x00",
        b'{"format": 4}',
        b'{"format": 3}',
        content + b"x",
        b'{"format": 3, "seed": null}',
        content.replace(b'"format": 3', b'"format": 2'),
        content.replace(b'"rounds"', b'"round"'),
        content.replace(b'"loss"', b'"l"'),
        content.replace(b'"settings": {', b'"settings": {}, "x": {'),
    ):
        refuses(path, other)
    path.write_bytes(content)
    assert_same(rounds_of(state=path), rounds_of())


CORRUPT = {
    "labels of other classes": {"labels": [9] * 8},
    "fewer labels": {"labels": [0]},
    "labels of words": {"labels": ["a"] * 8},
    "rows twice": {"rows": None},  # those of round 0
}


CRASH = {
    "rows of words": {"rows": ["a"] * 8},
    "rows null": {"rows": 0},
    "rows beyond": {"rows": list(range(200, 208))},
    "rows below": {"rows": list(range(-8, 0))},
    "rows broken": {"rows": 0.5},
    "rows huge": {"rows": [2**70] * 8},
    "scores too few": {"scores": [0.1]},
    "scores of words": {"scores": ["a"] * 8},
    "loss missing": {"loss": None},
    "loss of words": {"loss": "small"},
    "seed below 0": {"seed": -1},
    "seed infinite": {"seed": float("inf")},
}


@pytest.mark.parametrize("name", [*CORRUPT, *CRASH])
def test_a_state_with_invalid_rounds_is_refused(tmp_path, name):
    path = tmp_path / "s.json"
    begun = sw.active_learning(forest(), X, Y, **SHORT, **EXAM, state=path)
    first, _ = next(begun), next(begun)
    saved, change = json.loads(path.read_text()), (CORRUPT | CRASH)[name]
    if name == "rows twice":
        change = {"rows": first.rows[:8].tolist(), "labels": first.labels[:8].tolist()}
    if name == "rows broken":
        change = {"rows": [row + 0.5 for row in saved["rounds"][1]["rows"]]}
    (saved if "seed" in change else saved["rounds"][1]).update(change)
    del saved["sha256"]
    digest = hashlib.sha256(json.dumps(saved, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(saved | {"sha256": digest}))
    with pytest.raises(sw.InvalidInput) as caught:
        sw.ActiveLearner(
            forest(),
            X,
            strata=Y,
            classes=[0, 1, 2],
            state=path,
            target_loss=0.0,
            **(SHORT | EXAM | {"random_state": None}),
        )
    assert "digest" not in str(caught.value)


def test_a_state_with_a_changed_label_is_refused(tmp_path):
    path = tmp_path / "s.json"
    next(sw.active_learning(forest(), X, Y, **SHORT, **EXAM, state=path))
    saved = json.loads(path.read_text())
    label = saved["rounds"][0]["labels"][0]
    saved["rounds"][0]["labels"][0] = (label + 1) % 3  # as valid as before
    content = json.dumps(saved).encode()
    path.write_bytes(content)
    with pytest.raises(sw.InvalidInput, match="does not match its digest: it has been damaged"):
        rounds_of(state=path)
    assert files_in(tmp_path) == {path.name: content}


def test_a_file_of_brackets_is_refused(tmp_path):
    refuses(tmp_path / "s.json", b"[" * 100_000)


def test_paths_that_cannot_be_files_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    before = files_in(tmp_path)
    for path in (tmp_path, tmp_path / "file" / "s.json", tmp_path / "no" / "s.json", "", 3, b"s"):
        with pytest.raises(sw.InvalidInput, match="state"):
            rounds_of(state=path)
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("name", ["n" * 300, "n" * 250, "a\0b"], ids=["long", "longish", "zero"])
def test_file_names_that_cannot_be_written_are_refused(tmp_path, name):
    with pytest.raises(sw.InvalidInput, match="state"):
        rounds_of(state=tmp_path / name)


def test_a_read_only_folder_is_refused_at_once(tmp_path, monkeypatch):
    def denied(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_bytes", denied)
    with pytest.raises(sw.InvalidInput, match="state"):
        sw.ActiveLearner(forest(), X, state=tmp_path / "s.json")


def test_a_state_that_another_run_changed_is_not_overwritten(tmp_path):
    path = tmp_path / "s.json"
    first, second = (
        sw.ActiveLearner(forest(), X, strata=Y, classes=[0, 1, 2], state=path, **SHORT, **EXAM)
        for _ in range(2)
    )
    rows = first.ask()
    first.tell(rows, Y[rows])
    before = files_in(tmp_path)
    with pytest.raises(sw.InvalidInput, match="changed by another run"):
        second.tell(rows, Y[rows])
    assert second.rounds == []
    assert files_in(tmp_path) == before
    first.tell(first.ask(), Y[first.ask()])
    path.unlink()
    with pytest.raises(sw.InvalidInput, match="is gone"):
        first.tell(first.ask(), Y[first.ask()])
    assert files_in(tmp_path) == {}
    assert len(first.rounds) == 2


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "s.json"
    link.symlink_to(tmp_path / "real" / "s.json")
    assert_same(rounds_of(state=link), rounds_of(state=str(link)))
    assert link.is_symlink()
    assert list(files_in(tmp_path / "real")) == ["s.json"]
