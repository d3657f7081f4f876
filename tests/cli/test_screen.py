"""What reaches terminals, pipes and files: names of all kinds, closed pipes, full disks."""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import scorewise as sw
from cli_support import (
    FAST,
    HANG,
    HOSTILE,
    NASTY,
    PREDICTIONS,
    SCOREWISE,
    assert_harmless,
    from_json,
    parse_json,
    run,
    run_process,
    sample_predictions,
    sentence_of,
    succeeded,
    table_of,
)
from scorewise.cli import app


@pytest.mark.parametrize(
    "args",
    [
        "score hostile.npz",
        "label hostile.npz -n 9",
        "label hostile.npz -n 3 --method joint",
        "evaluate hostile.npz --resamples 100 --no-report",
        "compare hostile.npz --resamples 100",
        "certify hostile.npz --max-loss 0.2",
        "decide hostile.npz --costs hostile.csv",
        "evaluate hostile.npz --task-loss hostile.csv --resamples 100 --no-report",
        "certify hostile.npz --max-loss 1.9 --task-loss hostile.csv",
        "advise selective --task-loss hostile.csv",
    ],
)
def test_names_never_reach_the_terminal_raw(args: str, hostile: Path):
    result = succeeded(run(*args.split()))
    assert result.stderr == ""
    assert_harmless(result.stdout)
    assert len(result.stdout) < 5000
    colored = run(*args.split(), NO_COLOR="", FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert "RED" not in colored or "\x1b[31mRED" not in colored
    assert_harmless(re.sub(r"\x1b\[[\d;]*m", "", colored))


def test_markup_is_shown_as_it_is(hostile: Path):
    assert "[red]" in run("label", "hostile.npz", "-n", "50").stdout
    assert "[blue]go[/blue]" in run("decide", "hostile.npz", "--costs", "hostile.csv").stdout


def test_names_are_whole_in_files_and_json(hostile: Path):
    ids = sw.read_predictions("hostile.npz").ids.tolist()
    for out in ("U.parquet", "U.arrow"):
        succeeded(run("score", "hostile.npz", "--rules", "log", "--out", out))
        assert table_of(Path(out))["id"].to_pylist() == ids
    succeeded(run("score", "hostile.npz", "--rules", "log", "--out", "U.csv"))
    with Path("U.csv").open(newline="", encoding="utf-8") as file:
        # an apostrophe keeps a spreadsheet from taking control characters for anything but text
        assert [line["id"].removeprefix("'") for line in csv.DictReader(file)] == ids
    succeeded(run("certify", "hostile.npz", "--max-loss", "0.2"))
    printed = from_json(run("apply", "policy.json", "hostile.npz", "--json"))
    assert printed["n_rows"] == 250
    assert set(table_of(Path("decisions.parquet"))["prediction"].to_pylist()) <= set(HOSTILE)
    result = from_json(run("label", "hostile.npz", "--json"))
    assert result["ids"] == [ids[row] for row in result["rows"]]


@pytest.mark.parametrize(
    "args", ["apply policy.json hostile.npz", "decide hostile.npz --costs costs.csv"]
)
def test_names_in_complaints_are_harmless(args: str, hostile: Path):
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    result = run(*args.split())
    sentence_of(result)
    assert_harmless(result.stderr)


@pytest.mark.parametrize(
    "args", ["apply policy.json hostile.npz", pytest.param("decide hostile.npz --costs costs.csv")]
)
def test_names_in_complaints_are_cut(args: str, hostile: Path):
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    assert len(sentence_of(run(*args.split()))) < 1000


def test_file_names_are_names_too(here: Path):
    name = f"{NASTY[:16]} [red]x ü.npz"
    Path("test.npz").rename(name)
    for args in (
        ("score", name),
        ("label", name, "-n", "2"),
        ("certify", name, "--max-loss=0.3"),
        ("evaluate", name, *FAST),
    ):
        assert_harmless(succeeded(run(*args)).stdout)
    missing = run("score", "\x1b[31mno.npz")
    sentence_of(missing)
    assert_harmless(missing.stderr)
    result = from_json(run("score", name, "--out", "U.parquet", "--json"))
    assert result["input"] == name


def test_from_another_folder_with_spaces_and_letters_of_all_kinds(here: Path):
    folder = here / "my räksmörgås 日本"
    folder.mkdir()
    data, elsewhere = folder / "tést data.parquet", here / "else where"
    elsewhere.mkdir()
    sw.write_predictions(data, PREDICTIONS)
    relative = os.path.relpath(data, elsewhere)
    result = run_process(
        "score",
        relative,
        "--rules",
        "log",
        "--out",
        f"../{folder.name}/Ü.csv",
        "--json",
        cwd=elsewhere,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert parse_json(result.stdout)["input"] == "tést data.parquet"
    assert (folder / "Ü.csv").is_file()
    result = run_process("certify", relative, "--max-loss", "0.3", cwd=elsewhere)
    assert (result.returncode, result.stderr) == (0, "")
    assert (elsewhere / "policy.json").is_file()


def test_results_go_to_stdout_and_messages_to_stderr(here: Path):
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    sw.write_predictions("new.npz", sample_predictions(200, seed=4, sharp=5.0))
    result = run_process("apply", "policy.json", "new.npz")
    assert result.returncode == 1
    assert "WARNING" in result.stdout
    assert "rows accepted" in result.stdout
    result = run_process("evaluate", "test.npz", "--max-loss", "0.001", *FAST, "--json")
    assert (result.returncode, result.stderr) == (1, "")
    assert parse_json(result.stdout)["written"] == ["report.html"]
    assert "scorewise evaluate test.npz --max-loss 0.001" in Path("report.html").read_text()
    result = run_process("label", "test.npz", "-n")
    assert (result.returncode, result.stdout) == (2, "")


def test_paths_and_commands_are_not_wrapped_on_a_narrow_terminal(here: Path):
    long = "a-file-name-that-is-longer-than-the-terminal-is-wide.parquet"
    lines = run("score", "test.npz", "--out", long, COLUMNS="40").stdout.splitlines()
    assert f"Written to {long}" in lines
    assert max(map(len, lines[:-1])) <= 40


def test_a_pipe_that_closes_early_is_no_accident(here: Path):
    line = f"{shlex.quote(str(SCOREWISE))} label test.npz -n 200 --json | head -c 5"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=HANG)
    assert result.stdout == '{"row'
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_a_pipe_that_closes_early_keeps_the_exit_code(
    extra: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch
):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(SystemExit) as stopped:
            app(["certify", "test.npz", "--max-loss", "0.0001", *extra])
    assert stopped.value.code == 1
    assert Path("policy.json").is_file()


def test_a_full_disk_behind_stdout_is_reported(here: Path):
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([SCOREWISE, "label", "test.npz"], stdout=full, stderr=-1, text=True)
    assert result.returncode == 2
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_terminal_that_cannot_show_every_letter(here: Path):
    result = run_process(
        "label", "test.npz", "-n", "30", env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert "Traceback" not in result.stderr
    assert result.returncode == 0
