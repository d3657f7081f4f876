"""The experiments, small: all of them through the command, cut off, killed, side by side."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from paper_support import (
    SCOREWISE,
    SMALL,
    contents,
    killed_once,
    made,
    part_of,
    refused,
    reproduce,
    started,
    write_data,
)
from scorewise import datasets
from scorewise.datasets import known
from scorewise.paper import EXPERIMENTS, Cell, Result, Store, learning, run, work
from scorewise.paper.setup import shortened

pytestmark = pytest.mark.usefixtures("one_torch_thread")
PRETRAINED = ("table-imagenet", "table-food101")
HERE = [name for name in EXPERIMENTS if name not in PRETRAINED]
PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def grey(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return part_of(root, tmp_path_factory.mktemp("grey"), "mnist", "fashion-mnist", "organcmnist")


# -- all of them -----------------------------------------------------------------------------------


def test_every_experiment_runs_and_is_marked(root: Path, tmp_path: Path):
    def outcome(name: str) -> Any:
        given = ("--quick", "--as-is", "--data-dir", root, "--results", tmp_path, "--json")
        found = reproduce(name, *given, "--runs", 1)
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    cells = {name: outcome(name) for name in HERE}
    assert {name: (one["cells"], one["computed"]) for name, one in cells.items()} == {
        "figure-1": (1, 1),
        "figure-sp-components": (1, 0),
        "figure-sp-poker": (1, 1),
        "figure-sp-cifar10": (1, 1),
        "table-1": (9, 9),
        "figure-2": (30, 30),
        "figure-al-more": (15, 15),
        "figure-al-spherical": (30, 0),
    }
    whole = outcome("all")
    assert (whole["cells"], whole["computed"]) == (57, 0)  # and nothing twice
    assert {"imagenet", "food101"} <= set(whole["gaps"])
    assert len(list(tmp_path.glob("*.json"))) == 57
    for stored in Store(tmp_path).results():
        assert shortened(stored.cell.setting)
        assert not any(one["official"] for one in stored.cell.setting["sets"].values())
        assert stored.made["seconds"] > 0
    assert not any((tmp_path / "unfinished").iterdir())
    for name in PRETRAINED:
        text = refused(reproduce(name, "--quick", "--as-is", "--data-dir", root))
        assert "scorewise datasets fetch" in text or "weights" in text


def test_what_the_command_says(root: Path, tmp_path: Path):
    given = ("figure-1", "--quick", "--as-is", "--data-dir", root, "--results", tmp_path)
    assert " ".join(reproduce(*given).stdout.split()).startswith(
        f"2 cells, 2 of them computed now, in {tmp_path}. For the page: scorewise reproduce report"
    )
    path = next(tmp_path.glob("*run1*.json"))
    path.write_text(path.read_text()[:-9])
    found = reproduce(*given)
    assert "2 cells, 1 of them computed now" in " ".join(found.stdout.split())
    assert f"{path.name} is damaged: it cannot be read; it was computed again." in " ".join(
        found.stderr.split()
    )


def test_cells_side_by_side_are_the_same(root: Path, tmp_path: Path):
    protocol = replace(SMALL, runs=3)
    for jobs in (1, 2):
        run(["figure-1"], made(root, tmp_path / str(jobs), protocol, n_jobs=jobs))
    assert len(contents(tmp_path / "1")) == 3
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_a_stand_in_is_taken_for_what_is_missing(root: Path, tmp_path: Path):
    some = part_of(root, tmp_path / "data", "cifar-10-batches-bin", "svhn", "tiny-imagenet-32")
    setup = made(some, tmp_path / "results", replace(SMALL, runs=1))
    outcome = run(["table-1"], setup)
    assert (outcome.cells, sorted(outcome.gaps)) == (6, ["cifar-100", "places365"])
    taken = {one.cell.setting["ood"] for one in setup.store.results()}
    assert taken == {"svhn", "tiny-imagenet-32"}


def test_a_stand_in_that_may_not_be_taken_is_left_alone(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    some = part_of(root, tmp_path / "data", "cifar-10-batches-bin", "svhn", "tiny-imagenet-32")
    for name in ("cifar-10", "svhn"):
        digests = {
            one.path.relative_to(some).as_posix(): f"sha256:{one.digest}"
            for one in datasets.verify(name, some)
            if one.digest
        }
        monkeypatch.setitem(
            known._SETS, name, replace(datasets.describe(name), checksums=digests, files=())
        )
    setup = made(some, tmp_path / "results", replace(SMALL, runs=1), as_is=False)
    assert run(["table-1"], setup).cells == 3


# -- learning curves -------------------------------------------------------------------------------


def learned(
    data: Path, results: Path, monkeypatch: pytest.MonkeyPatch, **sizes: int
) -> tuple[dict[tuple[str, int], Any], dict[tuple[str, int], list[np.ndarray]]]:
    """Curves and the rows of each round, by measure and run."""
    rows: list[np.ndarray] = []
    fit = learning.Stack.fit

    def seen(self: Any, these: torch.Tensor, *given: Any) -> None:
        rows.append(these.numpy().copy())
        fit(self, these, *given)

    monkeypatch.setattr(learning.Stack, "fit", seen)
    setup = made(data, results, replace(SMALL, **sizes))
    cells = learning.learning_cells(setup, "mnist", learning.Choices())
    names = {cell.key: (cell.setting["measure"], cell.setting["run"]) for cell in cells}
    curves = {names[cell.key]: found.numbers for cell, found in learning.compute(setup, cells)}
    return curves, {name: [each[i] for each in rows] for i, name in enumerate(names.values())}


def test_learning_curves(grey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    curves, rows = learned(grey, tmp_path, monkeypatch)
    measures = ("log", "brier", "zero-one", "spherical", "random")
    assert set(curves) == {(measure, run) for measure in measures for run in (0, 1)}
    for name, numbers in curves.items():
        assert list(numbers["labels"]) == [12, 24, 36]
        assert len(numbers["error"]) == 3
        assert all(0 <= error <= 1 for error in numbers["error"])
        for before, after in zip(rows[name], rows[name][1:], strict=False):
            assert np.array_equal(after[: len(before)], before)
        asked = rows[name][-1]
        assert len(asked) == len(set(asked.tolist())) == 36
        assert set(asked.tolist()) <= set(range(80))
    for number in (0, 1):
        first = {tuple(rows[measure, number][0]) for measure in measures}
        assert len(first) == 1
        chosen = {measure: set(rows[measure, number][1].tolist()) for measure in measures}
        assert all(chosen["random"] != chosen[one] for one in measures if one != "random")
    assert tuple(rows["log", 0][0]) != tuple(rows["log", 1][0])


@pytest.mark.parametrize("rounds", [2, 4])
def test_a_pool_that_is_used_up(
    rounds: int, grey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    curves, rows = learned(
        grey, tmp_path, monkeypatch, runs=1, train_rows=30, budget=12, rounds=rounds
    )
    for name, numbers in curves.items():
        assert [len(each) for each in rows[name]] == [12, 24, 30, 30, 30][: rounds + 1]
        assert len(numbers["error"]) == rounds + 1
        assert sorted(rows[name][-1]) == list(range(30))


def test_a_pool_that_is_used_up_has_no_more_labels(
    grey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    curves, _ = learned(grey, tmp_path, monkeypatch, runs=1, train_rows=30, budget=12)
    assert list(curves["log", 0]["labels"]) == [12, 24, 30]


# -- cut off ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(root: Path, grey: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The results of a whole run, by experiment, each made once."""
    found: dict[str, dict[str, Any]] = {}

    def results(name: str) -> dict[str, Any]:
        if name not in found:
            folder = tmp_path_factory.mktemp("undisturbed")
            args, data, _ = KILLED[name]
            given = ("--data-dir", grey if data == "grey" else root, "--results", folder)
            assert reproduce(*args, *given).exit_code == 0
            found[name] = contents(folder)
        return found[name]

    return results


COMMON = ("--quick", "--as-is", "--device", "cpu")
# What is run, on what data, and after which files have appeared it is killed.
KILLED: dict[str, tuple[tuple[object, ...], str, list[str]]] = {
    "forests": (("figure-1", *COMMON, "--runs", 12), "all", ["members/*", "*.json"]),
    "learning": (("figure-al-more", *COMMON, "--rounds", 3), "grey", ["unfinished/*", "*.json"]),
    "resnets": (
        ("figure-sp-cifar10", *COMMON, "--runs", 1, "--epochs", 11),
        "all",
        ["unfinished/*", "networks/*"],
    ),
}


@pytest.mark.parametrize("name", KILLED)
def test_killed_and_started_again(
    name: str, root: Path, grey: Path, tmp_path: Path, undisturbed: Any
):
    expected = undisturbed(name)
    args, data, moments = KILLED[name]
    given = (*args, "--data-dir", grey if data == "grey" else root, "--results", tmp_path)
    for moment in moments:  # one after another, on the same folder
        killed_once(started(*given), lambda pattern=moment: any(tmp_path.glob(pattern)))
        there = contents(tmp_path)
        assert len(there) < len(expected)
        assert all(expected[cell] == numbers for cell, numbers in there.items())
    before = len(contents(tmp_path))
    found = reproduce(*given, "--json")
    assert found.exit_code == 0, found.output
    outcome = json.loads(found.stdout)
    assert outcome["computed"] == len(expected) - before
    assert outcome["damaged"] == []
    assert contents(tmp_path) == expected


def test_killed_before_anything_is_there(root: Path, tmp_path: Path, undisturbed: Any):
    args, _, _ = KILLED["forests"]
    given = (*args, "--data-dir", root, "--results", tmp_path)
    process = started(*given)
    time.sleep(0.3)
    killed_once(process, lambda: True)
    assert reproduce(*given).exit_code == 0
    assert contents(tmp_path) == undisturbed("forests")


@pytest.mark.parametrize("after", [1, 14, 7])
def test_cut_off_while_learners_are_written(
    after: int, grey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Any
):
    """Ten learn together: what was written must not change what the others come to."""
    args, _, _ = KILLED["learning"]
    given = (*args, "--data-dir", grey, "--results", tmp_path)
    write, done = Store.write, []

    def cut_off(self: Store, cell: Cell, result: Result) -> None:
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(cell)
        write(self, cell, result)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", cut_off)
        found = reproduce(*given)
    assert found.exit_code == 130
    told = " ".join(found.stderr.split())
    assert f"What is finished is in {tmp_path}; the same command goes on from there." in told
    assert len(contents(tmp_path)) == after
    again = reproduce(*given)
    assert again.exit_code == 0
    assert "Left out: PathMNIST is not in" in again.stderr
    assert contents(tmp_path) == undisturbed("learning")


def test_two_at_once(root: Path, grey: Path, tmp_path: Path, undisturbed: Any):
    for name in ("forests", "learning"):
        args, data, _ = KILLED[name]
        given = (*args, "--data-dir", grey if data == "grey" else root)
        both = [started(*given, "--results", tmp_path / name) for _ in range(2)]
        for process in both:
            _, said = process.communicate(timeout=60)
            assert process.returncode == 0, said
        assert contents(tmp_path / name) == undisturbed(name)


# -- bad input -------------------------------------------------------------------------------------


def test_what_cannot_be_is_said_in_a_sentence(root: Path, tmp_path: Path):
    given = ("--quick", "--as-is", "--data-dir", root, "--results", tmp_path / "results")
    assert "there is no experiment 'figure-9'; there are figure-1," in refused(
        reproduce("figure-9", *given)
    )
    assert "cannot be used" in refused(reproduce("table-1", *given, "--device", "cuda"))
    assert "cannot be used" in refused(reproduce("figure-2", *given, "--device", "abacus"))
    nothing = ("--quick", "--data-dir", tmp_path, "--results", tmp_path / "results")
    told = refused(reproduce("figure-1", *nothing))
    assert told.count("scorewise datasets fetch covtype --data-dir") == 1
    for name in ("figure-2", "table-1", "all"):
        assert "scorewise datasets fetch" in refused(reproduce(name, *nothing))
    told = refused(reproduce("figure-1", "--quick", "--data-dir", root))
    assert "is not the official file" in told
    assert "--as-is" in told
    for option in ("--runs", "--epochs", "--rounds"):
        assert reproduce("figure-1", *given, option, 0).exit_code == 2
    assert not list((tmp_path / "results").glob("*.json"))


@pytest.mark.parametrize("name", ["figure-1", "figure-2", "figure-sp-cifar10"])
def test_results_that_cannot_be_written(name: str, root: Path, tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    for results in (tmp_path / "file", "/proc/no-such-folder"):  # where even root may not write
        given = ("--quick", "--as-is", "--data-dir", root, "--results", results)
        assert str(results) in refused(reproduce(name, *given, "--runs", 1))
    assert (tmp_path / "file").read_text() == "mine"


def test_results_that_cannot_be_written_are_noticed_before_work_is_done(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setitem(work.COMPUTED_BY, "forest-rejection", ("no_such_module", "compute"))
    given = ("--quick", "--as-is", "--data-dir", root, "--results", tmp_path / "file")
    assert "no_such_module" not in refused(reproduce("figure-1", *given))


def test_no_jobs(root: Path, tmp_path: Path):
    given = ("--quick", "--as-is", "--data-dir", root, "--results", tmp_path, "--jobs", 0)
    assert reproduce("figure-1", *given).exit_code == 2


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        pytest.param(
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 GB")
        ),
    ],
)
def test_too_little_memory(
    error: Exception, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*given: Any) -> None:
        raise error

    monkeypatch.setattr("scorewise.paper.rejection.compute_forests", fail)
    given = ("--quick", "--as-is", "--data-dir", root, "--results", tmp_path)
    assert "not enough memory" in (told := refused(reproduce("figure-1", *given)))
    assert "what is finished is kept" in told


def test_missing_extras(root: Path, tmp_path: Path):
    (tmp_path / "torch.py").write_text(
        """raise ModuleNotFoundError("No module named 'torch'", name="torch")"""
    )
    process = subprocess.run(
        [SCOREWISE, "reproduce", "figure-2", "--quick", "--as-is", "--data-dir", root],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        timeout=60,
    )
    assert process.returncode == 2, process.stderr
    assert process.stderr.startswith("Error: ")
    assert "scorewise[" in process.stderr


# -- the real data ---------------------------------------------------------------------------------


@pytest.mark.real_data
def test_the_numbers_in_the_documentation_are_made_again(tmp_path: Path):
    published, data = PROJECT / "docs/reproduction/results", PROJECT / ".data"
    if not published.is_dir() or not (data / "covtype").is_dir():
        pytest.skip("the real data sets are not in .data, or results not in the documentation")
    given = ("figure-1", "--as-is", "--data-dir", data, "--results", tmp_path, "--runs", 1)
    assert reproduce(*given).exit_code == 0
    ((name, (found, _)),) = contents(tmp_path).items()
    expected = json.loads((published / name).read_text())["result"]
    assert found.keys() == expected.keys()
    assert found["accuracy"] == pytest.approx(expected["accuracy"], abs=1e-9)
    for loss, by_component in expected["aulc"].items():
        for component, by_rule in by_component.items():
            assert found["aulc"][loss][component] == pytest.approx(by_rule, abs=1e-9)
