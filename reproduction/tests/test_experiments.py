"""The experiments, small: all of them through the command, cut off, killed, side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from paper_support import (
    SMALL,
    contents,
    killed_once,
    part_of,
    refused,
    reproduce,
    setup_for,
    started,
    write_data,
)
from scorewise_paper import EXPERIMENTS, Cell, Result, Store, datasets, learning, run
from scorewise_paper.errors import InvalidInput
from scorewise_paper.runs import shortened

pytestmark = pytest.mark.usefixtures("one_torch_thread")
PRETRAINED = ("table-imagenet", "table-food101")
HERE = [name for name in EXPERIMENTS if name not in PRETRAINED]
PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def grey(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return part_of(root, tmp_path_factory.mktemp("grey"), "mnist", "fashion-mnist", "organcmnist")


# -- all of them -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::scorewise.errors.ScorewiseWarning")  # of so few rows
def test_every_experiment_runs_and_is_marked(root: Path, tmp_path: Path):
    def outcome(name: str) -> Any:
        options = ("--quick", "--as-is", "--data-dir", root, "--results", tmp_path, "--json")
        result = reproduce(name, *options, "--runs", 1)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    cells = {name: outcome(name) for name in HERE}
    assert {
        name: (outcome_of["cells"], outcome_of["computed"]) for name, outcome_of in cells.items()
    } == {
        "figure-1": (1, 1),
        "figure-sp-components": (1, 0),
        "figure-sp-poker": (1, 1),
        "figure-sp-cifar10": (1, 1),
        "table-1": (9, 9),
        "figure-2": (30, 30),
        "figure-al-more": (15, 15),
        "figure-al-spherical": (30, 0),
        "alignment": (11, 11),  # ten forests, and the ensemble that is stored
    }
    whole = outcome("all")
    assert (whole["cells"], whole["computed"]) == (68, 0)  # and nothing twice
    assert {"imagenet", "food101"} <= set(whole["gaps"])
    every = [stored for name in EXPERIMENTS for stored in Store(tmp_path).results(name)]
    assert len(every) == 68
    for stored in every:
        assert shortened(stored.cell.setting)
        assert not any(described["official"] for described in stored.cell.setting["sets"].values())
        assert stored.provenance["seconds"] > 0
    assert not any((tmp_path / "unfinished").iterdir())
    for name in PRETRAINED:
        text = refused(reproduce(name, "--quick", "--as-is", "--data-dir", root))
        assert "scorewise-paper datasets fetch" in text or "weights" in text
    # and each is drawn beside its results
    figures = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert {"figure-1", "figure-sp-components", "figure-sp-poker", "figure-sp-cifar10"} <= figures
    assert {"figure-2-mnist", "figure-al-more-pathmnist", "figure-al-spherical-mnist"} <= figures
    assert "alignment" in figures
    assert {path.stem for path in tmp_path.glob("*.md")} == set(HERE)
    assert "AUROC of epistemic uncertainty" in (tmp_path / "table-1.md").read_text()


def test_the_command_says_what_it_did(root: Path, tmp_path: Path):
    args = ("figure-1", "--quick", "--as-is", "--data-dir", root, "--results", tmp_path)
    assert reproduce(*args).stdout.splitlines() == [
        f"2 results are in {tmp_path}; computed now: 2.",
        f"Wrote {tmp_path / 'figure-1.md'}",
        f"Wrote {tmp_path / 'figures/figure-1.svg'}",
    ]
    path = tmp_path / "figure-1.jsonl"
    path.write_text(path.read_text()[:-9])
    result = reproduce(*args)
    assert "computed now: 1." in result.stdout
    message = "line 2 of figure-1.jsonl is damaged: it cannot be read; it does not count.\n"
    assert result.stderr == message


def test_help_lists_every_experiment():
    text = reproduce("--help").stdout
    for name in (*EXPERIMENTS, "all", "report", "datasets"):
        assert f"\n  {name} " in text
        assert "Examples:" in reproduce(name, "--help").stdout or name == "datasets"


def test_cells_side_by_side_are_the_same(root: Path, tmp_path: Path):
    protocol = replace(SMALL, runs=3)
    for jobs in (1, 2):
        run(["figure-1"], setup_for(root, tmp_path / str(jobs), protocol, n_jobs=jobs))
    assert len(contents(tmp_path / "1")) == 3
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_a_stand_in_is_taken_for_what_is_missing(root: Path, tmp_path: Path):
    some = part_of(root, tmp_path / "data", "cifar-10-batches-bin", "svhn", "tiny-imagenet-32")
    setup = setup_for(some, tmp_path / "results", replace(SMALL, runs=1))
    outcome = run(["table-1"], setup)
    assert (outcome.cells, sorted(outcome.gaps)) == (6, ["cifar-100", "places365"])
    taken = {stored.cell.setting["ood"] for stored in setup.store.results("table-1")}
    assert taken == {"svhn", "tiny-imagenet-32"}


def test_a_stand_in_that_may_not_be_taken_is_left_alone(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    some = part_of(root, tmp_path / "data", "cifar-10-batches-bin", "svhn", "tiny-imagenet-32")
    for name in ("cifar-10", "svhn"):
        digests = {
            state.path.relative_to(some).as_posix(): f"sha256:{state.digest}"
            for state in datasets.verify(name, some)
            if state.digest
        }
        monkeypatch.setitem(
            datasets.DATA_SETS, name, replace(datasets.describe(name), checksums=digests, files=())
        )
    setup = setup_for(some, tmp_path / "results", replace(SMALL, runs=1), as_is=False)
    assert run(["table-1"], setup).cells == 3


# -- learning curves -------------------------------------------------------------------------------


def learned(
    data: Path, results: Path, monkeypatch: pytest.MonkeyPatch, **sizes: int
) -> tuple[dict[tuple[str, int], Any], dict[tuple[str, int], list[np.ndarray]]]:
    """Curves and the rows of each round, by measure and run."""
    rows: list[np.ndarray] = []
    fit = learning.Stack.fit

    def seen(self: Any, these: torch.Tensor, *args: Any) -> None:
        rows.append(these.numpy().copy())
        fit(self, these, *args)

    monkeypatch.setattr(learning.Stack, "fit", seen)
    setup = setup_for(data, results, replace(SMALL, **sizes))
    cells = learning.learning_cells(setup, "figure-2", 1, "mnist", learning.Choices())
    names = {cell.key: (cell.setting["measure"], cell.setting["run"]) for cell in cells}
    curves = {names[cell.key]: result.numbers for cell, result in learning.compute(setup, cells)}
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
        labelled = rows[name][-1]
        assert len(labelled) == len(set(labelled.tolist())) == 36
        assert set(labelled.tolist()) <= set(range(80))
    for number in (0, 1):
        first = {tuple(rows[measure, number][0]) for measure in measures}
        assert len(first) == 1
        chosen = {measure: set(rows[measure, number][1].tolist()) for measure in measures}
        assert all(
            chosen["random"] != chosen[measure] for measure in measures if measure != "random"
        )
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
    by_name: dict[str, dict[str, Any]] = {}

    def results(name: str) -> dict[str, Any]:
        if name not in by_name:
            folder = tmp_path_factory.mktemp("undisturbed")
            args, data, _ = KILLED[name]
            options = ("--data-dir", grey if data == "grey" else root, "--results", folder)
            assert reproduce(*args, *options).exit_code == 0
            by_name[name] = contents(folder)
        return by_name[name]

    return results


COMMON = ("--quick", "--as-is", "--device", "cpu")
# What is run, on what data, and after which files have appeared it is killed.
KILLED: dict[str, tuple[tuple[object, ...], str, list[str]]] = {
    "forests": (("figure-1", *COMMON, "--runs", 12), "all", ["members/*", "*.jsonl"]),
    "learning": (("figure-al-more", *COMMON, "--rounds", 3), "grey", ["unfinished/*", "*.jsonl"]),
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
    options = (*args, "--data-dir", grey if data == "grey" else root, "--results", tmp_path)
    for moment in moments:  # one after another, on the same folder
        killed_once(started(*options), lambda pattern=moment: any(tmp_path.glob(pattern)))
        stored = contents(tmp_path)
        assert len(stored) < len(expected)
        assert all(expected[cell] == numbers for cell, numbers in stored.items())
    before = len(contents(tmp_path))
    result = reproduce(*options, "--json")
    assert result.exit_code == 0, result.output
    outcome = json.loads(result.stdout)
    assert outcome["computed"] == len(expected) - before
    assert outcome["damaged"] == []
    assert contents(tmp_path) == expected


def test_killed_before_anything_is_there(root: Path, tmp_path: Path, undisturbed: Any):
    args, _, _ = KILLED["forests"]
    results = tmp_path / "results"
    options = (*args, "--data-dir", root, "--results", results)
    killed_once(started(*options), results.exists)
    assert contents(results) == {}
    assert reproduce(*options).exit_code == 0
    assert contents(results) == undisturbed("forests")


@pytest.mark.parametrize("after", [1, 14, 7])
def test_cut_off_while_learners_are_written(
    after: int, grey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Any
):
    """Ten learn together: what was written must not change what the others come to."""
    args, _, _ = KILLED["learning"]
    options = (*args, "--data-dir", grey, "--results", tmp_path)
    write, done = Store.write, []

    def cut_off(self: Store, cell: Cell, result: Result) -> None:
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(cell)
        write(self, cell, result)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", cut_off)
        result = reproduce(*options)
    assert result.exit_code == 130
    message = " ".join(result.stderr.split())
    assert (
        f"Finished results are in {tmp_path}. Interrupted. To continue, run the same command again"
        in message
    )
    assert len(contents(tmp_path)) == after
    again = reproduce(*options)
    assert again.exit_code == 0
    assert "Left out: PathMNIST is not in" in again.stderr
    assert contents(tmp_path) == undisturbed("learning")


def test_two_at_once(root: Path, grey: Path, tmp_path: Path, undisturbed: Any):
    for name in ("forests", "learning"):
        args, data, _ = KILLED[name]
        options = (*args, "--data-dir", grey if data == "grey" else root)
        both = [started(*options, "--results", tmp_path / name) for _ in range(2)]
        for process in both:
            _, errors = process.communicate(timeout=600)
            assert process.returncode == 0, errors
        assert contents(tmp_path / name) == undisturbed(name)


# -- bad input -------------------------------------------------------------------------------------


def test_impossible_options_are_refused_in_a_sentence(root: Path, tmp_path: Path):
    options = ("--quick", "--as-is", "--data-dir", root, "--results", tmp_path / "results")
    assert "No such command 'figure-9'" in reproduce("figure-9", *options).stderr
    with pytest.raises(InvalidInput, match=r"no experiment 'figure-9'; there are figure-1,"):
        run("figure-9", setup_for(root, tmp_path))
    assert "cannot be used" in refused(reproduce("table-1", *options, "--device", "cuda"))
    assert "cannot be used" in refused(reproduce("figure-2", *options, "--device", "abacus"))
    nothing = ("--quick", "--data-dir", tmp_path, "--results", tmp_path / "results")
    message = refused(reproduce("figure-1", *nothing))
    assert message.count("scorewise-paper datasets fetch covtype --data-dir") == 1
    for name in ("figure-2", "table-1", "all"):
        assert "scorewise-paper datasets fetch" in refused(reproduce(name, *nothing))
    message = refused(reproduce("figure-1", "--quick", "--data-dir", root))
    assert "is not the official file" in message
    assert "--as-is" in message
    for option in ("--runs", "--epochs", "--rounds"):
        assert reproduce("figure-1", *options, option, 0).exit_code == 2
    assert not list((tmp_path / "results").glob("*.jsonl"))


@pytest.mark.parametrize("name", ["figure-1", "figure-2", "figure-sp-cifar10"])
def test_results_that_cannot_be_written(name: str, root: Path, tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    for results in (tmp_path / "file", "/proc/no-such-folder"):  # where even root may not write
        options = ("--quick", "--as-is", "--data-dir", root, "--results", results)
        assert str(results) in refused(reproduce(name, *options, "--runs", 1))
    assert (tmp_path / "file").read_text() == "mine"


def test_results_that_cannot_be_written_are_noticed_before_work_is_done(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr("scorewise_paper.figure_1.compute", None)
    options = ("--quick", "--as-is", "--data-dir", root, "--results", tmp_path / "file")
    assert str(tmp_path / "file") in refused(reproduce("figure-1", *options))


def test_no_jobs(root: Path, tmp_path: Path):
    options = ("--quick", "--as-is", "--data-dir", root, "--results", tmp_path, "--jobs", 0)
    assert reproduce("figure-1", *options).exit_code == 2


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
    def fail(*args: Any) -> None:
        raise error

    monkeypatch.setattr("scorewise_paper.figure_1.compute", fail)
    options = ("--quick", "--as-is", "--data-dir", root, "--results", tmp_path)
    assert "not enough memory" in (message := refused(reproduce("figure-1", *options)))
    assert "finished results are stored" in message


# -- the real data ---------------------------------------------------------------------------------


@pytest.mark.real_data
def test_the_committed_numbers_are_computed_again(tmp_path: Path):
    data, expected = PROJECT / ".data", Store(PROJECT / "reproduction/results")
    if not (data / "covtype").is_dir():
        pytest.skip("the real data sets are not in .data")
    args = ("figure-1", "--as-is", "--data-dir", data, "--results", tmp_path, "--runs", 1)
    assert reproduce(*args).exit_code == 0
    (computed,) = Store(tmp_path).results("figure-1")
    (committed,) = [x for x in expected.results("figure-1") if x.cell.key == computed.cell.key]
    assert computed.numbers.keys() == committed.numbers.keys()
    assert computed.numbers["accuracy"] == pytest.approx(committed.numbers["accuracy"], abs=1e-9)
    for loss, by_component in committed.numbers["aulc"].items():
        for component, by_rule in by_component.items():
            # the last digits of an uncertainty decide the order of rows that are almost tied
            assert computed.numbers["aulc"][loss][component] == pytest.approx(by_rule, abs=1e-5)
