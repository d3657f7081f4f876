"""``scorewise advise``: the advice of the function."""

from __future__ import annotations

from pathlib import Path

import pytest

import scorewise as sw
from cli_support import from_json, run, succeeded
from scorewise.io import read_cost_matrix


@pytest.mark.parametrize(
    ("task", "loss"),
    [
        ("selective", "brier"),
        ("ood", "zero-one"),
        ("active", "zero-one"),
        ("abstain", "costs.csv"),
        ("label", "0-1"),
    ],
)
def test_advise_does_what_the_function_does(task: str, loss: str, here: Path):
    expected = sw.advise(task, read_cost_matrix(Path(loss)) if loss == "costs.csv" else loss)
    result = from_json(run("advise", task, "--task-loss", loss, "--json"))
    assert (result["rule"], result["component"]) == (expected.rule, expected.component)
    assert result["measure"] == expected.measure
    said = " ".join(succeeded(run("advise", task, "--task-loss", loss)).stdout.split())
    assert said == " ".join(str(expected).split())
