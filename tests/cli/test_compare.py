"""``scorewise compare``: the comparison of the function."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

import scorewise as sw
from cli_support import FAST, PREDICTIONS, SCOREWISE, from_json, run, sample_predictions, succeeded
from support import as_json


@pytest.mark.parametrize("task", ["selective", "ood"])
def test_compare_does_what_the_function_does(task: str, here: Path):
    ood = sample_predictions(60, seed=5, sharp=3.0)
    sw.write_predictions("ood.npz", ood)
    args = ("--ood", "ood.npz") if task == "ood" else ("--task-loss", "brier")
    result = from_json(run("compare", "test.npz", "--task", task, *args, *FAST, "--json"))
    expected = sw.compare(
        PREDICTIONS.samples,
        PREDICTIONS.labels if task == "selective" else None,
        task,
        "zero-one" if task == "ood" else "brier",
        n_resamples=100,
        random_state=0,
        ood=ood.samples if task == "ood" else None,
        rules=["log", "brier", "zero-one", "spherical"],
    )
    assert result == as_json(expected.to_dict())
    shown = succeeded(run("compare", "test.npz", "--task", task, *args, *FAST)).stdout
    order = [row.name for row in expected.standings]
    lines = [line.strip() for line in shown.splitlines()]
    assert [
        next(n for n in order if re.match(rf"{re.escape(n)}  ", line))
        for line in lines
        if any(re.match(rf"{re.escape(n)}  ", line) for n in order)
    ] == order


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_a_reader_that_stops_early_is_exit_code_0(how: list[str], here: Path):
    command = shlex.join([str(SCOREWISE), "compare", "test.npz", *FAST, *how])
    result = subprocess.run(
        ["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
