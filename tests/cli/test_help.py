"""Help of all commands: examples run, every option is explained, wrong usage."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scorewise as sw
from answers_support import write_answers
from cli_support import (
    COMMANDS,
    FAST,
    PREDICTIONS,
    parse_json,
    run,
    sample_members,
    sample_predictions,
    succeeded,
)
from support import write_keys


def examples() -> list[Any]:
    """All examples of all commands' help."""
    result = []
    for name in COMMANDS:
        text = succeeded(run(name, "--help")).stdout
        lines = re.findall(r"^ +(scorewise .*)$", text.partition("Examples:")[2], re.MULTILINE)
        assert len(lines) >= 2, name
        result += lines
    return result


@pytest.mark.usefixtures("quick_demo")
@pytest.mark.parametrize("line", examples())
def test_the_examples_run(line: str, here: Path):
    for name in ("test.parquet", "held_out.npz", "other_held_out.npz", "new.npz", "new.parquet"):
        sw.write_predictions(name, PREDICTIONS)
    sw.write_predictions("third.npz", sample_predictions(250, seed=8))
    succeeded(run("calibrate", "third.npz", "--method", "vector"))
    sw.write_predictions("folder_of_parquet_files", PREDICTIONS)
    np.save("test.npy", sample_members(50, k=6)[0])
    for name in ("ood.npz", "ood.parquet"):
        sw.write_predictions(name, sample_predictions(60, seed=5, sharp=3.0))
    for name in ("pool.npz", "pool.parquet"):
        sw.write_predictions(name, PREDICTIONS.probs, ids=PREDICTIONS.ids)
    sw.write_predictions("target.npz", sample_predictions(60, seed=9))
    write_answers(Path("answers.jsonl"), sample_predictions(k=2), ["yes", "no"])
    write_keys(here)
    succeeded(run("certify", "held_out.npz", "--max-loss", "0.2", "--signing-key", "key.pem"))
    command, _, printed_to = line.partition(" > ")
    program, *args = shlex.split(command)
    assert program == "scorewise"
    if "evaluate" in args or "compare" in args:
        args += FAST
    if "certify" in args:  # these rows certify less than the policy that is there
        args.append("--replace")
    result = run(*args)
    # a loss of other data may not be guaranteed on these
    succeeded(result, 1 if result.exit_code == 1 and "--max-loss" in args else 0)
    if "--json" in args:
        parse_json(result.stdout)
    if "--out" in args:
        assert Path(args[args.index("--out") + 1]).exists()
    assert printed_to in ("", "demo.json")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_on_the_screen_and_explains_every_option(name: str):
    text = succeeded(run(name, "-h", COLUMNS="80")).stdout
    assert text == succeeded(run(name, "--help", COLUMNS="80")).stdout
    options = text.partition("Options:")[2]
    for option in re.findall(r"^  (--[a-z-]+)", options, re.MULTILINE):
        assert re.search(
            rf"{option}(, --n)?( (<.*?>|[A-Z,…]+))? {{2,}}\S|{option} .*\n +\S", options
        )
    for word in ("--json", "--debug", "Examples:"):
        assert word in text
    said = [line for line in text.splitlines() if not line.strip().startswith("scorewise ")]
    assert max(map(len, said)) <= 80


def test_without_a_command_there_is_help(here: Path):
    result = run()
    assert result.exit_code == 2
    for name in COMMANDS:
        (summary,) = re.findall(rf"^  {name} +(.*)$", result.output, re.MULTILINE)
        assert summary.endswith("."), summary
        assert not summary.endswith("..."), "it is cut"
    assert "Exit codes: 0 success, 1 no guarantee, 2 wrong usage or input" in result.output
    assert succeeded(run("--version")).stdout == f"scorewise {sw.__version__}\n"


@pytest.mark.parametrize(
    "args",
    [
        "nonsense",
        "score",
        "score test.npz --nonsense",
        "label test.npz -n 0",
        "certify test.npz",
        "certify test.npz --max-loss much",
        "demo --trees 1",
        "evaluate test.npz --resamples 5",
        "label test.npz --seed -1",
        "decide test.npz",
        "advise",
        "apply policy.json",
        "score test.npz again.npz",
    ],
)
def test_wrong_usage_is_exit_code_2(args: str, here: Path):
    result = run(*args.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error: " in result.stderr
    assert "for help" in result.stderr
