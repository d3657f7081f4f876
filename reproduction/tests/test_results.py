"""Results and how they are stored: keys, revisions, damage, members, and the numbers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

import scorewise as sw
from paper_support import SMALL, contents, part_of, setup_for, write_data
from scorewise_paper import (
    EXPERIMENTS,
    QUICK,
    Cell,
    Protocol,
    Result,
    Setup,
    Store,
    experiment,
    is_stale,
    run,
)
from scorewise_paper.detection import detection_numbers
from scorewise_paper.errors import DamagedResult, InvalidInput
from scorewise_paper.rejection import FLOOR, POINTS, rejection_numbers
from scorewise_paper.runs import shortened

pytestmark = pytest.mark.usefixtures("one_torch_thread")
RULES = ("log", "brier", "zero-one", "spherical")
COMPONENTS = ("total", "aleatoric", "epistemic")
SETTING = {"data": "covtype", "trees": 20, "run": 1, "sets": {"a": {"rows": 3}}, "most": None}
CELL = Cell("figure-1", 1, SETTING)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


# -- keys ------------------------------------------------------------------------------------------


def test_keys_are_the_same_on_every_machine():
    assert CELL.key == "f6e2893b9996bb4d"
    assert CELL.name == f"figure-1-covtype-run1-{CELL.key}"
    assert Cell("figure-1", 1, dict(reversed(SETTING.items()))).key == CELL.key
    assert Cell("figure-1", 1, json.loads(json.dumps(SETTING))).key == CELL.key


@pytest.mark.parametrize(
    "change",
    [
        {"data": "poker"},
        {"trees": 21},
        {"trees": 20.5},
        {"trees": "20"},
        {"run": 2},
        {"sets": {"a": {"rows": 4}}},
        {"sets": {"b": {"rows": 3}}},
        {"most": 0},
        {"more": None},
    ],
)
def test_keys_differ_where_a_setting_does(change: dict[str, Any]):
    assert Cell("figure-1", 1, {**SETTING, **change}).key != CELL.key


def test_keys_differ_by_experiment_and_revision():
    assert Cell("other", 1, SETTING).key != CELL.key
    assert Cell("figure-1", 2, SETTING).key != CELL.key


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("figure-1", ("test_rows", "train_rows")),
        ("figure-2", ("train_rows", "samples", "epochs", "rounds", "budget")),
        ("figure-sp-cifar10", ("test_rows", "train_rows", "samples", "epochs", "width")),
        ("table-1", ("test_rows", "train_rows", "samples", "epochs", "width")),
        ("alignment", ("test_rows", "train_rows")),
    ],
)
def test_every_size_makes_other_cells(name: str, sizes: tuple[str, ...], root: Path):
    def keys(protocol: Protocol) -> set[str]:
        cells = experiment(name).cells(setup_for(root, Path("nowhere"), protocol))
        assert len({cell.key for cell in cells}) == len(cells)
        return {cell.key for cell in cells}

    first = keys(SMALL)
    for size in sizes:
        assert not first & keys(replace(SMALL, **{size: getattr(SMALL, size) + 1})), size
    assert first < keys(replace(SMALL, runs=3))  # more runs leave the first ones as they are


def test_other_data_make_other_cells(root: Path, tmp_path: Path):
    other = write_data(tmp_path, 91, 41)
    for name in ("figure-1", "figure-2", "table-1"):
        keys = [
            {cell.key for cell in experiment(name).cells(setup_for(data, tmp_path))}
            for data in (root, other)
        ]
        assert not keys[0] & keys[1]


# -- the store -------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "results")
    made.write(CELL, Result({"area": 0.25, "curve": np.array([0.5, 1.0])}, seconds=1.23456))
    return made


def test_written_results_are_read(store: Store):
    (stored,) = store.results("figure-1")
    assert stored.numbers == {"area": 0.25, "curve": [0.5, 1.0]}
    assert stored.cell.key == CELL.key
    assert stored.provenance["seconds"] == 1.235
    assert stored.provenance["device"] == "cpu"
    versions = set(stored.provenance["versions"])
    assert {"scorewise", "python", "numpy", "scikit-learn", "torch"} <= versions
    assert stored.provenance["finished"].endswith("+00:00")
    assert stored.cell.setting["run"] == 1  # the seed
    assert store.results("figure-2") == []


def test_an_experiment_has_one_file_with_a_line_for_each_result(store: Store):
    for number in (10, 2, 0):
        store.write(Cell("figure-1", 1, {**SETTING, "run": number}), Result({"area": number}))
    store.write(Cell("figure-2", 1, SETTING), Result({}))
    files = [path.name for path in store.folder.iterdir() if path.is_file()]
    assert sorted(files) == ["figure-1.jsonl", "figure-2.jsonl"]
    lines = (store.folder / "figure-1.jsonl").read_text().splitlines()
    assert [json.loads(line)["setting"]["run"] for line in lines] == [0, 1, 2, 10]


DAMAGE = [
    lambda text: text.replace("0.25", "0.26"),
    lambda text: text.replace('"seconds": 1.235', '"seconds": 1.0'),
    lambda text: text.replace("covtype", "mnist"),
    lambda text: text.replace('"revision": 1', '"revision": 2'),
    lambda text: text[: len(text) // 2],
    lambda text: text[:-3],
    lambda text: "[]",
    lambda text: "null",
    lambda text: "{}",
    lambda text: text.replace("0.25", "NaN"),
    lambda text: text.rstrip() + "x",
    lambda text: "\0" * 50,
    lambda text: "[" * 100_000,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_line_is_named_and_does_not_count(damage: Any, store: Store):
    other = Cell("figure-1", 1, {**SETTING, "run": 0})
    store.write(other, Result({"area": 1}))
    path = store.folder / "figure-1.jsonl"
    first, second = path.read_text().splitlines(keepends=True)
    path.write_text(first + damage(second))
    results, (message,) = store.read("figure-1")
    assert [stored.cell.key for stored in results] == [other.key]
    assert message.startswith("line 2 of figure-1.jsonl is damaged: ")
    with pytest.raises(DamagedResult, match=r"line 2 of figure-1.jsonl .*; run figure-1 again"):
        store.results("figure-1")
    store.write(CELL, Result({"area": 0.25}))  # which mends it
    assert len(store.results("figure-1")) == 2


def test_bytes_that_are_no_text_are_damage(store: Store):
    (store.folder / "figure-1.jsonl").write_bytes(b"\xff\xfe\x80")
    assert store.read("figure-1") == (
        [],
        ["line 1 of figure-1.jsonl is damaged: it cannot be read"],
    )


def test_a_line_of_another_experiment_is_damage(store: Store):
    (store.folder / "figure-1.jsonl").rename(store.folder / "figure-2.jsonl")
    with pytest.raises(DamagedResult, match="it is a result of figure-1"):
        store.results("figure-2")


def test_a_folder_that_does_not_exist_has_no_results(tmp_path: Path):
    with pytest.raises(InvalidInput, match="there is no folder of results"):
        Store(tmp_path / "none").results("figure-1")


def test_writing_that_fails_leaves_the_file_as_it_was(store: Store):
    path = store.folder / "figure-1.jsonl"
    before = path.read_text()
    for numbers in ({"area": object()}, {"area": float("nan")}):
        with pytest.raises((TypeError, ValueError)):
            store.write(CELL, Result(numbers))
    assert path.read_text() == before
    assert [x.name for x in store.folder.iterdir() if x.is_file()] == ["figure-1.jsonl"]


def test_several_who_write_at_once_lose_nothing(store: Store):
    def write(number: int) -> None:
        cell = Cell("figure-1", 1, {**SETTING, "run": number})
        Store(store.folder).write(cell, Result({"area": number}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert [x.numbers["area"] for x in store.results("figure-1")] == [*range(40)]


# -- revisions -------------------------------------------------------------------------------------


def test_results_of_another_revision_are_stale_and_computed_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    setup = setup_for(root, tmp_path)
    run("figure-1", setup)
    assert not any(is_stale(x.cell) for x in setup.store.results("figure-1"))
    monkeypatch.setattr(experiment("figure-1"), "REVISION", 2)
    assert all(is_stale(x.cell) for x in setup.store.results("figure-1"))
    assert run("figure-1", setup).computed == SMALL.runs
    stored = setup.store.results("figure-1")  # in the place of the stale ones
    assert [(x.cell.revision, x.cell.setting["run"]) for x in stored] == [(2, 0), (2, 1)]
    assert run("figure-1", setup).computed == 0


def test_every_experiment_states_its_revision():
    for name in EXPERIMENTS:
        module = experiment(name)
        assert isinstance(module.REVISION, int)
        assert experiment(module.EXPERIMENT).REVISION == module.REVISION


# -- runs ------------------------------------------------------------------------------------------


def test_nothing_is_computed_twice_and_nothing_mixed(root: Path, tmp_path: Path):
    setup = setup_for(root, tmp_path)
    first = run(["figure-1", "figure-sp-components"], setup)
    assert (first.cells, first.computed, first.damaged, first.gaps) == (2, 2, [], {})
    path = tmp_path / "figure-1.jsonl"
    before = path.read_bytes()
    assert run(["figure-1"], setup_for(root, tmp_path)).computed == 0
    assert path.read_bytes() == before
    other = run(["figure-1"], setup_for(root, tmp_path, replace(SMALL, test_rows=20)))
    assert (other.cells, other.computed) == (2, 2)
    assert set(before.splitlines()) < set(path.read_bytes().splitlines())
    more = run(["figure-1"], setup_for(root, tmp_path, replace(SMALL, runs=3)))
    assert (more.cells, more.computed) == (3, 1)
    stored = contents(tmp_path)
    fresh = run(["figure-1"], setup_for(root, tmp_path / "fresh", replace(SMALL, runs=3)))
    assert fresh.computed == 3
    assert all(stored[name] == numbers for name, numbers in contents(tmp_path / "fresh").items())


def damage_lines(results: Path, text: str) -> int:
    """Damage all lines that contain a text; their number."""
    n = 0
    for path in results.glob("*.jsonl"):
        lines = path.read_text().splitlines()
        n += sum(text in line for line in lines)
        path.write_text("".join(x[: len(x) // 2 if text in x else None] + "\n" for x in lines))
    return n


@pytest.mark.parametrize("name", ["figure-1", "figure-sp-cifar10"])
def test_a_damaged_result_is_named_and_computed_again(name: str, root: Path, tmp_path: Path):
    run([name], setup_for(root, tmp_path))
    before = contents(tmp_path)
    assert damage_lines(tmp_path, '"run": 1,') == 1
    outcome = run([name], setup_for(root, tmp_path))
    assert outcome.computed == 1
    assert outcome.damaged == [f"line 2 of {name}.jsonl is damaged: it cannot be read"]
    assert contents(tmp_path) == before
    assert run([name], setup_for(root, tmp_path)).damaged == []


def test_a_damaged_learner_is_computed_again_alike(root: Path, tmp_path: Path):
    digits = part_of(root, tmp_path / "data", "mnist")
    assert run(["figure-2"], setup_for(digits, tmp_path)).computed == 40
    before = contents(tmp_path)
    assert damage_lines(tmp_path, '"measure": "log", "run": 1}') == 4
    assert len(run(["figure-2"], setup_for(digits, tmp_path)).damaged) == 4
    assert contents(tmp_path) == before


def test_a_corrupt_checkpoint_is_ignored(root: Path, tmp_path: Path):
    digits = part_of(root, tmp_path / "data", "mnist")
    setup = setup_for(digits, tmp_path, replace(SMALL, runs=1))
    cells = experiment("figure-2").cells(setup)
    interrupted = iter(experiment("figure-2").compute(setup, cells))
    next(interrupted)  # the checkpoint is deleted when all results are written
    (checkpoint,) = (tmp_path / "unfinished").iterdir()
    checkpoint.write_bytes(b"garbage")
    assert run(["figure-2"], setup).computed == 20


def test_a_corrupt_network_is_trained_again(root: Path, tmp_path: Path):
    setup = setup_for(root, tmp_path, replace(SMALL, runs=1))
    run(["figure-sp-cifar10"], setup)
    before = contents(tmp_path)
    for path in [*(tmp_path / "networks").iterdir(), *tmp_path.glob("*.jsonl")]:
        path.write_bytes(path.read_bytes()[:100])
    run(["figure-sp-cifar10"], setup)
    assert contents(tmp_path) == before


def test_members_that_are_damaged_are_computed_again(root: Path, tmp_path: Path):
    run(["figure-1"], setup_for(root, tmp_path))
    path = next((tmp_path / "members").iterdir())
    path.write_bytes(path.read_bytes()[:-30])
    again = run(["figure-1"], setup_for(root, tmp_path))
    assert again.computed == 1
    assert path.name in again.damaged[0]


def test_members_may_be_thrown_away(root: Path, tmp_path: Path):
    run(["figure-1"], setup_for(root, tmp_path))
    next((tmp_path / "members").iterdir()).unlink()
    assert run(["figure-1"], setup_for(root, tmp_path)).computed == 0


# -- members ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def done(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Setup:
    setup = setup_for(root, tmp_path_factory.mktemp("results"), replace(SMALL, runs=1))
    run(["figure-1", "figure-sp-poker", "table-1", "figure-sp-cifar10"], setup)
    return setup


def test_members_reproduce_the_numbers(done: Setup):
    kinds = set()
    for stored in [x for name in EXPERIMENTS for x in done.store.results(name)]:
        kinds.add(stored.cell.experiment)
        path = done.store.members_path(stored.cell)
        predictions = sw.read_predictions(path)
        probs = np.asarray(predictions.probs, np.float64)
        probs /= probs.sum(-1, keepdims=True)
        numbers = stored.numbers
        accuracy = np.mean(probs.mean(1).argmax(1) == predictions.labels)
        assert accuracy == pytest.approx(numbers["accuracy"], abs=0.04)
        if "aulc" in numbers:
            again = rejection_numbers(probs, predictions.labels)["aulc"]
            areas = [
                (again[a][b][c], numbers["aulc"][a][b][c])
                for a in RULES
                for b in COMPONENTS
                for c in RULES
            ]
        else:
            with np.load(path) as arrays:
                outside = arrays["outside"].astype(np.float64)
            outside /= outside.sum(-1, keepdims=True)
            again = detection_numbers(probs, outside)["auroc"]
            areas = [(again[b][c], numbers["auroc"][b][c]) for b in COMPONENTS for c in RULES]
        # networks that hardly learned hardly disagree, by little more than what is rounded away
        close = 0.01 if "trees" in stored.cell.setting else 0.1
        np.testing.assert_allclose(*np.transpose(areas), atol=close)
    assert kinds == {"figure-1", "figure-sp-poker", "table-1", "figure-sp-cifar10"}


def test_results_say_how_they_are_shortened(root: Path):
    def words(name: str, protocol: Protocol) -> set[str]:
        cells = experiment(name).cells(setup_for(root, Path("nowhere"), protocol))
        return {shortened(cell.setting) for cell in cells}

    for name in EXPERIMENTS:
        assert words(name, Protocol()) <= {""}
        assert words(name, replace(Protocol(), runs=1)) <= {""}
        assert all(words(name, QUICK))
    assert words("figure-1", SMALL) == {"test rows: 30 instead of 10,000, training rows: 80"}
    assert words("figure-2", replace(Protocol(), rounds=3)) == {"rounds: 3 instead of 50"}
    epochs = {"epochs: 3 instead of 50", "epochs: 3 instead of 100"}
    assert words("figure-2", replace(Protocol(), epochs=3)) == epochs


# -- numbers ---------------------------------------------------------------------------------------


def brute_force(losses: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Mean loss of the k most certain rows; rows that are tied are accepted in a random order."""
    means = []
    for k in range(1, len(losses) + 1):
        last = np.sort(scores)[k - 1]
        sure, tied = losses[scores < last], losses[scores == last]
        means.append((sure.sum() + (k - len(sure)) * tied.mean()) / k)
    return np.array(means)


def losses_of(probs: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    mean = probs.mean(1)
    rows = np.arange(len(y))
    own, norm = mean[rows, y], np.linalg.norm(mean, axis=1)
    return {
        "log": -np.log(np.maximum(own, FLOOR)),
        "brier": ((mean - np.eye(mean.shape[1])[y]) ** 2).sum(1),
        "zero-one": (mean.argmax(1) != y).astype(float),
        "spherical": 1 - own / norm,
    }


def members(n: int, m: int, k: int, seed: int = 0, concentration: float = 1.0) -> np.ndarray:
    """Random members (n, m, k)."""
    return np.random.default_rng(seed).dirichlet(np.full(k, concentration), (n, m))


@pytest.mark.parametrize("n", [1, 2, 37, 64])
@pytest.mark.parametrize("coarse", [False, True])
def test_rejection_numbers_by_brute_force(n: int, coarse: bool):
    probs = members(n, 4, 3, seed=n)
    if coarse:  # many rows are tied, some probabilities are 0
        probs = np.eye(3)[probs.argmax(-1)]
    y = np.random.default_rng(n).integers(0, 3, n)
    numbers = rejection_numbers(probs, y)
    assert numbers["rows"] == n
    mean = probs.mean(1)
    assert numbers["certain_and_wrong"] == np.mean(mean[np.arange(n), y] == 0)
    losses = losses_of(probs, y)
    points = [int(np.ceil(n * i / POINTS)) - 1 for i in range(1, POINTS + 1)]
    for loss in RULES:
        for rule in RULES:
            parts = sw.decompose(probs, rule)
            for component in COMPONENTS:
                expected = brute_force(losses[loss], np.asarray(getattr(parts, component)))
                area = numbers["aulc"][loss][component][rule]
                assert area == pytest.approx(expected.mean(), abs=1e-9)
                curve = numbers["curves"][loss][component][rule]
                np.testing.assert_allclose(curve, expected[points], atol=1e-5)
    if not coarse and n > 2:
        whole = numbers["curves"]["log"]["total"]["log"][-1]
        assert whole == pytest.approx(log_loss(y, mean, labels=[0, 1, 2]), abs=1e-5)


def test_points_of_curves_are_where_they_should():
    probs, y = members(150, 4, 3), np.random.default_rng(0).integers(0, 3, 150)
    curve = rejection_numbers(probs, y)["curves"]["brier"]["total"]["log"]
    whole = brute_force(losses_of(probs, y)["brier"], np.asarray(sw.decompose(probs, "log").total))
    points = [-(-150 * i // POINTS) - 1 for i in range(1, POINTS + 1)]
    np.testing.assert_allclose(curve, whole[points], atol=1e-5)


def test_detection_numbers_by_scikit_learn():
    inside, outside = members(80, 5, 4, concentration=0.3), members(50, 5, 4, seed=1)
    outside[:5] = inside[:5]  # some are tied
    numbers = detection_numbers(inside, outside)
    strange = np.r_[np.zeros(80), np.ones(50)]
    assert numbers["rows"] == [80, 50]
    for rule in RULES:
        both = sw.decompose(np.concatenate([inside, outside]), rule)
        for component in COMPONENTS:
            expected = roc_auc_score(strange, np.asarray(getattr(both, component)))
            assert numbers["auroc"][component][rule] == pytest.approx(expected, abs=1e-12)
        scores = np.asarray(both.epistemic)
        threshold = np.sort(scores[80:])[::-1][int(np.ceil(0.95 * 50)) - 1]
        assert numbers["fpr95"][rule] == pytest.approx(np.mean(scores[:80] >= threshold))


# -- runs that are killed --------------------------------------------------------------------------

MEMBERS = Result({"area": 0.7}, members={"probs": np.full((4, 3, 2), 0.5)})
KILLED = """
import os, signal, sys
import numpy as np
from scorewise_paper import Cell, Result, Store

def breaks_off(file, **arrays):
    file.write(b"half of a file")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

np.savez_compressed = breaks_off
members = {"probs": np.full((4, 3, 2), 0.5)}
Store(sys.argv[1]).write(Cell("figure-1", 1, {"data": "covtype", "run": 1}), Result({}, members))
"""


def test_what_a_killed_run_leaves_is_removed_by_the_next(tmp_path: Path):
    process = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert len(list(tmp_path.rglob("*.partial"))) == 1
    cell = Cell("figure-1", 1, {"data": "covtype", "run": 1})
    store = Store(tmp_path)
    theirs = store.members_path(cell).with_name(f".{cell.name}.npz.0a1b2c3d.partial") / "thesis.txt"
    theirs.parent.mkdir()
    theirs.write_text("years of work")
    store.write(cell, MEMBERS)
    assert list(tmp_path.rglob("*.partial")) == [theirs.parent]
    assert theirs.read_text() == "years of work"


def test_a_run_does_not_remove_what_another_is_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store, save = Store(tmp_path), np.savez_compressed

    def saves(file: Any, **arrays: Any) -> None:
        monkeypatch.setattr(np, "savez_compressed", save)
        file.write(b"")
        store.write(CELL, MEMBERS)  # meanwhile, by another process
        save(file, **arrays)

    monkeypatch.setattr(np, "savez_compressed", saves)
    store.write(CELL, MEMBERS)
    assert [store.members_problem(stored) for stored in store.results("figure-1")] == [None]
    assert not list(tmp_path.rglob("*.partial"))
