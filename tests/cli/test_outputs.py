"""Outputs: none is also an input or another output, and no link is followed unasked."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from itertools import permutations
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer

import scorewise as sw
from cli_support import COMMANDS, FAST, PREDICTIONS, run, sample_predictions, sentence_of, succeeded
from scorewise.cli import app

# A valid value for every input, by the name of its parameter.
INPUTS = {
    "file": "test.parquet",
    "ood": "ood.npz",
    "target": "ood.npz",
    "costs": "costs.csv",
    "inputs": "texts.csv",
    "data": "texts.csv",
    "task_loss": "costs.csv",
    "rule": "costs.csv",
    "policy_file": "policy.json",
    "calibration": "calibration.json",
    "signing_key": "key.pem",
    "public_key": "key.pem",
}
NO_PATHS = {  # text
    *("task", "rules", "component", "method", "reading", "scheduler"),
    *("tool", "data_column", "field", "question", "model"),
}
REQUIRED = {"certify": ["--max-loss", "20"], "evaluate": FAST, "compare": FAST}


GROUP = typer.main.get_command(app)


def hints(command: str) -> dict[str, Any]:
    """The types of the parameters that are a path or a text, with what they are marked as."""
    function = inspect.unwrap(GROUP.commands[command].callback)
    types = get_type_hints(function)
    return {
        name: hint
        for name, hint in get_type_hints(function, include_extras=True).items()
        if name != "return" and {Path, str} & {types[name], *get_args(types[name])}
    }


def marked(command: str, kind: str) -> set[str]:
    """The parameters that are marked as an InputPath or an OutputPath."""
    return {
        name
        for name, hint in hints(command).items()
        if kind in {type(marker).__name__ for marker in getattr(hint, "__metadata__", ())}
    }


def parameters(command: str) -> dict[str, Any]:
    """The parameters of a command that take a path."""
    names = marked(command, "InputPath") | marked(command, "OutputPath")
    return {p.name: p for p in GROUP.commands[command].params if p.name in names}


def arguments(command: str, values: dict[str, str]) -> list[str]:
    args = [command, *REQUIRED.get(command, [])]
    for name, parameter in parameters(command).items():
        if parameter.param_type_name == "argument":
            args.append(values.get(name, INPUTS[name]))
        elif name in values or parameter.required:
            args += [parameter.opts[-1], values.get(name, INPUTS.get(name, ""))]
    return args


def pairs(*, of_outputs: bool) -> list[tuple[str, str, str]]:
    return [
        (command, first, second)
        for command in COMMANDS
        for first, second in permutations(parameters(command), 2)
        if first in marked(command, "OutputPath")
        and (second in marked(command, "OutputPath")) == of_outputs
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the inputs, made once."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("test.npz", "test.parquet", "ood.npz"):
            sw.write_predictions(name, PREDICTIONS)
        succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
        sw.write_predictions("other.npz", sample_predictions(seed=1))
        succeeded(run("calibrate", "other.npz"))
        Path("key.pem").write_text("a key")
    return folder


@pytest.fixture
def inputs(here: Path, made: Path) -> Path:
    shutil.copytree(made, here, dirs_exist_ok=True)
    return here


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_path_is_marked_as_an_input_or_an_output(command):
    is_marked = marked(command, "InputPath") ^ marked(command, "OutputPath")
    assert hints(command).keys() - NO_PATHS == is_marked
    assert marked(command, "InputPath") <= INPUTS.keys()


@pytest.mark.parametrize("how", ["itself", "symbolic link", "hard link", "other path"])
@pytest.mark.parametrize(("command", "output", "source"), pairs(of_outputs=False))
def test_an_input_is_not_an_output(command, output, source, how, inputs: Path):
    path = INPUTS[source]
    values = {source: path, output: path}
    if how == "symbolic link":
        values[output] = f"link{Path(path).suffix}"
        os.symlink(path, values[output])
    elif how == "hard link":
        values[output] = f"link{Path(path).suffix}"
        os.link(path, values[output])
    elif how == "other path":
        Path("folder").mkdir()
        values[output] = f"folder/../{path}"
    before = contents(inputs)
    sentence = sentence_of(run(*arguments(command, values)))
    assert "is, or is in, the input" in sentence
    assert contents(inputs) == before


@pytest.mark.parametrize(("command", "first", "second"), pairs(of_outputs=True))
def test_two_outputs_have_different_paths(command, first, second, inputs: Path):
    before = contents(inputs)
    sentence = sentence_of(run(*arguments(command, {first: "new", second: "./new"})))
    assert "is the path of two outputs" in sentence
    assert contents(inputs) == before


@pytest.mark.parametrize(
    ("args", "out"),
    [
        ("score test.parquet --rules log", "log/scores.parquet"),
        ("certify test.parquet --task-loss brier --max-loss 0.9", "brier/policy.json"),
        ("label test.parquet --rule log --method top", "top/next.csv"),
    ],
)
def test_a_folder_of_the_name_of_a_rule_is_no_input(args, out, inputs: Path):
    Path(out).parent.mkdir()
    succeeded(run(*args.split(), "--out", out))
    assert Path(out).is_file()


def test_a_report_is_not_a_figure(inputs: Path):
    before = contents(inputs)
    args = ["evaluate", "test.npz", "--report", "figures/rejection.png", "--figures", "figures"]
    assert "an HTML page; call it 'rejection.html'" in sentence_of(run(*args))
    assert contents(inputs) == before


def test_a_file_that_an_input_folder_links_to_is_not_an_output(inputs: Path):
    Path("in").mkdir()
    shutil.copy("test.parquet", "elsewhere.parquet")
    Path("in/a.parquet").symlink_to(inputs / "elsewhere.parquet")
    before = contents(inputs)
    for args in (["score", "in"], ["apply", "policy.json", "in"]):
        assert "the input" in sentence_of(run(*args, "--out", "elsewhere.parquet"))
    with pytest.raises(sw.InvalidInput, match="the input"):
        sw.score_file("in", ["log"], "elsewhere.parquet")
    assert contents(inputs) == before


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ("score test.parquet", "test-scores.parquet"),
        ("decide test.parquet --costs costs.csv", "test-decisions.parquet"),
        ("certify test.parquet --max-loss 0.2", "policy.json"),
        ("apply p.json test.parquet", "decisions.parquet"),
        ("evaluate test.parquet", "report.html"),
        ("demo", "out"),
        ("demo", "out/evaluation.json"),
        ("demo", "out/digits.npz"),
        ("evaluate test.parquet --no-report --figures out --resamples 100", "out/rejection.svg"),
    ],
)
@pytest.mark.usefixtures("quick_demo")
def test_a_link_of_a_name_that_nobody_chose_is_not_followed(args, name, inputs: Path):
    Path("policy.json").rename("p.json")
    precious = inputs / "precious"
    if name == "out":
        precious.mkdir()
    else:
        precious.write_text("years of work")
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).symlink_to(precious)
    before = contents(inputs)
    assert "is a link, and its target would be replaced" in sentence_of(run(*args.split()))
    after = contents(inputs)
    assert {path: after[path] for path in before} == before
    assert Path(name).is_symlink()


def test_a_link_that_the_user_names_is_followed(inputs: Path):
    Path("elsewhere").mkdir()
    Path("U.parquet").symlink_to("elsewhere/U.parquet")
    succeeded(run("score", "test.parquet", "--out", "U.parquet"))
    assert Path("U.parquet").is_symlink()
    assert Path("elsewhere/U.parquet").is_file()


def test_a_link_of_the_default_name_that_the_user_names_is_followed(inputs: Path):
    Path("policy.json").rename("real.json")
    Path("policy.json").symlink_to("real.json")
    before = Path("real.json").read_bytes()
    succeeded(run("certify", "test.parquet", "--max-loss", "0.3", "--out", "policy.json"))
    assert Path("policy.json").is_symlink()
    assert Path("real.json").read_bytes() != before


def test_file_stands_for_the_name_of_the_input_only_in_a_default(inputs: Path):
    succeeded(run("score", "test.parquet", "--out", "FILE-scores.parquet"))
    assert Path("FILE-scores.parquet").is_file()
    assert not Path("test-scores.parquet").exists()
    succeeded(run("score", "test.parquet"))
    assert Path("test-scores.parquet").is_file()


def test_tables_are_csv_by_default_without_pyarrow(here: Path, monkeypatch: pytest.MonkeyPatch):
    succeeded(run("certify", "test.npz", "--max-loss", "0.3"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for line, name in (
        ("score test.npz", "test-scores.csv"),
        ("decide test.npz --costs costs.csv", "test-decisions.csv"),
        ("apply policy.json test.npz", "decisions.csv"),
    ):
        assert f"Written to {name}" in succeeded(run(*line.split())).stdout
        assert Path(name).is_file()
    assert "need pyarrow" in sentence_of(run("score", "test.npz", "--out", "a.parquet"))
