"""Cells and how they are kept: keys, damage, other configurations, members, and their numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

import scorewise as sw
from paper_support import SMALL, contents, made, part_of, write_data
from scorewise.errors import InvalidInput
from scorewise.paper import QUICK, Cell, DamagedCell, Protocol, Result, Setup, Store, run
from scorewise.paper.detection import detection_numbers
from scorewise.paper.figure_2 import cells as figure_2_cells
from scorewise.paper.rejection import FLOOR, POINTS, rejection_numbers
from scorewise.paper.setup import shortened
from scorewise.paper.work import EXPERIMENTS, experiment
from support import members

pytestmark = pytest.mark.usefixtures("one_torch_thread")
RULES = ("log", "brier", "zero-one", "spherical")
COMPONENTS = ("total", "aleatoric", "epistemic")
SETTING = {"data": "covtype", "trees": 20, "run": 1, "sets": {"a": {"rows": 3}}, "most": None}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


# -- keys ------------------------------------------------------------------------------------------


def test_keys_are_the_same_on_every_machine():
    cell = Cell("forest-rejection", SETTING)
    assert cell.key == "34b9954efe8b2b18"
    assert cell.name == f"forest-rejection-covtype-run1-{cell.key}"
    assert Cell("forest-rejection", dict(reversed(SETTING.items()))).key == cell.key
    assert Cell("forest-rejection", json.loads(json.dumps(SETTING))).key == cell.key


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
    assert Cell("forest-rejection", {**SETTING, **change}).key != (
        Cell("forest-rejection", SETTING).key
    )


def test_keys_differ_by_kind():
    assert Cell("other", SETTING).key != Cell("forest-rejection", SETTING).key


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("figure-1", ("test_rows", "train_rows")),
        ("figure-2", ("train_rows", "samples", "epochs", "rounds", "budget")),
        ("figure-sp-cifar10", ("test_rows", "train_rows", "samples", "epochs", "width")),
        ("table-1", ("test_rows", "train_rows", "samples", "epochs", "width")),
    ],
)
def test_every_size_makes_other_cells(name: str, sizes: tuple[str, ...], root: Path):
    def keys(protocol: Protocol) -> set[str]:
        found = experiment(name).cells(made(root, Path("nowhere"), protocol))
        assert len({cell.key for cell in found}) == len(found)
        return {cell.key for cell in found}

    first = keys(SMALL)
    for size in sizes:
        assert not first & keys(replace(SMALL, **{size: getattr(SMALL, size) + 1})), size
    assert first < keys(replace(SMALL, runs=3))  # more runs leave the first ones as they are


def test_other_data_make_other_cells(root: Path, tmp_path: Path):
    other = write_data(tmp_path, 91, 41)
    for name in ("figure-1", "figure-2", "table-1"):
        keys = [
            {cell.key for cell in experiment(name).cells(made(data, tmp_path))}
            for data in (root, other)
        ]
        assert not keys[0] & keys[1]


# -- the store -------------------------------------------------------------------------------------


CELL = Cell("made", SETTING)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "results")
    found.write(CELL, Result({"area": 0.25, "curve": np.array([0.5, 1.0])}, seconds=1.23456))
    return found


def test_what_is_written_is_read(store: Store):
    found = store.read(CELL)
    assert found.numbers == {"area": 0.25, "curve": [0.5, 1.0]}
    assert found.cell.key == CELL.key
    assert found.made["seconds"] == 1.235
    assert found.made["device"] == "cpu"
    assert {"scorewise", "python", "numpy", "scikit-learn", "torch"} <= set(found.made["versions"])
    assert found.made["finished"].endswith("+00:00")
    assert found.cell.setting["run"] == 1  # the seed
    assert store.read(Cell("made", {**SETTING, "run": 2})) is None
    assert [one.cell.key for one in store.results()] == [CELL.key]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("0.25", "0.26"),
        lambda text: text.replace('"seconds": 1.235', '"seconds": 1.0').replace("1.235", "1.0"),
        lambda text: text.replace("covtype", "mnist"),
        lambda text: text[: len(text) // 2],
        lambda text: text[:-3],
        lambda text: "",
        lambda text: "[]",
        lambda text: "null",
        lambda text: "{}",
        lambda text: text.replace("0.25", "NaN"),
        lambda text: text + "x",
        lambda text: "\0" * 50,
    ],
)
def test_what_is_damaged_is_refused(damage: Any, store: Store):
    path = store.path(CELL)
    before = path.read_text()
    path.write_text(damage(before))
    assert path.read_text() != before
    with pytest.raises(DamagedCell, match=rf"{CELL.name}.json is damaged"):
        store.read(CELL)
    with pytest.raises(DamagedCell):
        list(store.results())


def test_bytes_that_are_no_text_are_refused(store: Store):
    store.path(CELL).write_bytes(b"\xff\xfe\x80")
    with pytest.raises(DamagedCell, match="cannot be read"):
        store.read(CELL)


def test_the_result_of_another_cell_is_refused(store: Store):
    other = Cell("made", {**SETTING, "trees": 3})
    store.path(CELL).rename(store.path(other))
    with pytest.raises(DamagedCell, match="holds the result of another setting"):
        store.read(other)


def test_a_folder_that_is_not_there_has_no_results(tmp_path: Path):
    with pytest.raises(InvalidInput, match="there is no folder of results"):
        list(Store(tmp_path / "none").results())


def test_writing_that_fails_leaves_what_was_there(store: Store):
    before = store.path(CELL).read_text()
    with pytest.raises(TypeError):
        store.write(CELL, Result({"area": object()}))
    assert store.path(CELL).read_text() == before
    assert [path.name for path in store.folder.iterdir()] == [store.path(CELL).name]


# -- runs ------------------------------------------------------------------------------------------


def test_nothing_is_computed_twice_and_nothing_mixed(root: Path, tmp_path: Path):
    setup = made(root, tmp_path)
    first = run(["figure-1", "figure-sp-components"], setup)
    assert (first.cells, first.computed, first.damaged, first.gaps) == (2, 2, [], {})
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert run(["figure-1"], made(root, tmp_path)).computed == 0
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    other = run(["figure-1"], made(root, tmp_path, replace(SMALL, test_rows=20)))
    assert (other.cells, other.computed) == (2, 2)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    more = run(["figure-1"], made(root, tmp_path, replace(SMALL, runs=3)))
    assert (more.cells, more.computed) == (3, 1)
    kept = contents(tmp_path)
    fresh = run(["figure-1"], made(root, tmp_path / "fresh", replace(SMALL, runs=3)))
    assert fresh.computed == 3
    assert all(kept[name] == numbers for name, numbers in contents(tmp_path / "fresh").items())


@pytest.mark.parametrize("name", ["figure-1", "figure-sp-cifar10"])
def test_a_corrupt_cell_is_computed_again_and_told(name: str, root: Path, tmp_path: Path):
    run([name], made(root, tmp_path))
    before = contents(tmp_path)
    path = sorted(tmp_path.glob("*.json"))[1]
    path.write_text(path.read_text().replace('"rows"', '"cows"', 1))
    found = run([name], made(root, tmp_path))
    assert found.computed == 1
    assert found.damaged == [f"{path.name} is damaged: its content does not have its digest"]
    assert contents(tmp_path) == before
    path.write_text("{")
    other = made(root, tmp_path, replace(SMALL, runs=1))
    assert run([name], other).damaged == []  # not its business


def test_a_corrupt_learner_is_computed_again_alike(root: Path, tmp_path: Path):
    digits = part_of(root, tmp_path / "data", "mnist")
    assert run(["figure-2"], made(digits, tmp_path)).computed == 40
    before = contents(tmp_path)
    for path in tmp_path.glob("*-log-run1-*.json"):
        path.write_text("")
    assert len(run(["figure-2"], made(digits, tmp_path)).damaged) == 4
    assert contents(tmp_path) == before


def test_a_corrupt_checkpoint_is_left_aside(root: Path, tmp_path: Path):
    setup = made(part_of(root, tmp_path / "data", "mnist"), tmp_path, replace(SMALL, runs=1))
    (tmp_path / "unfinished").mkdir()
    for cell in figure_2_cells(setup):
        alike = {k: v for k, v in cell.setting.items() if k not in {"measure", "run"}}
        key = Cell(cell.kind, {**alike, "run": "all"}).key
        setup.store.checkpoint_path(f"{cell.kind}-{key}").write_bytes(b"garbage")
    assert run(["figure-2"], setup).computed == 20


def test_a_corrupt_network_is_trained_again(root: Path, tmp_path: Path):
    setup = made(root, tmp_path, replace(SMALL, runs=1))
    run(["figure-sp-cifar10"], setup)
    before = contents(tmp_path)
    for path in [*(tmp_path / "networks").iterdir(), *tmp_path.glob("*.json")]:
        path.write_bytes(path.read_bytes()[:100])
    run(["figure-sp-cifar10"], setup)
    assert contents(tmp_path) == before


def test_members_that_are_damaged_are_computed_again(root: Path, tmp_path: Path):
    run(["figure-1"], made(root, tmp_path))
    path = next((tmp_path / "members").iterdir())
    path.write_bytes(path.read_bytes()[:-30])
    again = run(["figure-1"], made(root, tmp_path))
    assert again.computed == 1
    assert path.name in again.damaged[0]


def test_members_may_be_thrown_away(root: Path, tmp_path: Path):
    run(["figure-1"], made(root, tmp_path))
    next((tmp_path / "members").iterdir()).unlink()
    assert run(["figure-1"], made(root, tmp_path)).computed == 0


# -- what is kept can be looked at again -----------------------------------------------------------


@pytest.fixture(scope="module")
def done(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Setup:
    setup = made(root, tmp_path_factory.mktemp("results"), replace(SMALL, runs=1))
    run(["figure-1", "figure-sp-poker", "table-1", "figure-sp-cifar10"], setup)
    return setup


def test_members_reproduce_the_numbers(done: Setup):
    kinds = set()
    for stored in done.store.results():
        kinds.add(stored.cell.kind)
        path = done.store.members_path(stored.cell)
        found = sw.read_predictions(path)
        probs = np.asarray(found.probs, np.float64)
        probs /= probs.sum(-1, keepdims=True)
        numbers = stored.numbers
        accuracy = np.mean(probs.mean(1).argmax(1) == found.labels)
        assert accuracy == pytest.approx(numbers["accuracy"], abs=0.04)
        if "aulc" in numbers:
            again = rejection_numbers(probs, found.labels)["aulc"]
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
        close = 0.01 if stored.cell.kind == "forest-rejection" else 0.1
        np.testing.assert_allclose(*np.transpose(areas), atol=close)
    assert kinds == {"forest-rejection", "resnet-ood", "resnet-rejection"}


def test_results_say_how_they_are_shortened(root: Path):
    def told(name: str, protocol: Protocol) -> set[str]:
        cells = experiment(name).cells(made(root, Path("nowhere"), protocol))
        return {shortened(cell.setting) for cell in cells}

    for name in EXPERIMENTS:
        assert told(name, Protocol()) <= {""}
        assert told(name, replace(Protocol(), runs=1)) <= {""}
        assert all(told(name, QUICK))
    assert told("figure-1", SMALL) == {"test rows: 30 instead of 10,000, training rows: 80"}
    assert told("figure-2", replace(Protocol(), rounds=3)) == {"rounds: 3 instead of 50"}
    epochs = {"epochs: 3 instead of 50", "epochs: 3 instead of 100"}
    assert told("figure-2", replace(Protocol(), epochs=3)) == epochs


# -- numbers ---------------------------------------------------------------------------------------


def brute_force(losses: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Mean loss of the k most certain rows; rows that are tied are accepted in a random order."""
    found = []
    for k in range(1, len(losses) + 1):
        last = np.sort(scores)[k - 1]
        sure, tied = losses[scores < last], losses[scores == last]
        found.append((sure.sum() + (k - len(sure)) * tied.mean()) / k)
    return np.array(found)


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


@pytest.mark.parametrize("n", [1, 2, 37, 64])
@pytest.mark.parametrize("coarse", [False, True])
def test_rejection_numbers_by_brute_force(n: int, coarse: bool):
    probs = members(n, 4, 3, seed=n)
    if coarse:  # many rows are tied, some probabilities are 0
        probs = np.eye(3)[probs.argmax(-1)]
    y = np.random.default_rng(n).integers(0, 3, n)
    found = rejection_numbers(probs, y)
    assert found["rows"] == n
    mean = probs.mean(1)
    assert found["certain_and_wrong"] == np.mean(mean[np.arange(n), y] == 0)
    losses = losses_of(probs, y)
    kept = [int(np.ceil(n * i / POINTS)) - 1 for i in range(1, POINTS + 1)]
    for loss in RULES:
        for rule in RULES:
            parts = sw.decompose(probs, rule)
            for component in COMPONENTS:
                expected = brute_force(losses[loss], np.asarray(getattr(parts, component)))
                area = found["aulc"][loss][component][rule]
                assert area == pytest.approx(expected.mean(), abs=1e-9)
                curve = found["curves"][loss][component][rule]
                np.testing.assert_allclose(curve, expected[kept], atol=1e-5)
    if not coarse and n > 2:
        whole = found["curves"]["log"]["total"]["log"][-1]
        assert whole == pytest.approx(log_loss(y, mean, labels=[0, 1, 2]), abs=1e-5)


def test_points_of_curves_are_where_they_should():
    probs, y = members(150, 4, 3), np.random.default_rng(0).integers(0, 3, 150)
    curve = rejection_numbers(probs, y)["curves"]["brier"]["total"]["log"]
    whole = brute_force(losses_of(probs, y)["brier"], np.asarray(sw.decompose(probs, "log").total))
    kept = [-(-150 * i // POINTS) - 1 for i in range(1, POINTS + 1)]
    np.testing.assert_allclose(curve, whole[kept], atol=1e-5)


def test_detection_numbers_by_scikit_learn():
    inside, outside = members(80, 5, 4, concentration=0.3), members(50, 5, 4, seed=1)
    outside[:5] = inside[:5]  # some are tied
    found = detection_numbers(inside, outside)
    strange = np.r_[np.zeros(80), np.ones(50)]
    assert found["rows"] == [80, 50]
    for rule in RULES:
        both = sw.decompose(np.concatenate([inside, outside]), rule)
        for component in COMPONENTS:
            expected = roc_auc_score(strange, np.asarray(getattr(both, component)))
            assert found["auroc"][component][rule] == pytest.approx(expected, abs=1e-12)
        scores = np.asarray(both.epistemic)
        threshold = np.sort(scores[80:])[::-1][int(np.ceil(0.95 * 50)) - 1]
        assert found["fpr95"][rule] == pytest.approx(np.mean(scores[:80] >= threshold))
