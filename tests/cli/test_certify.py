"""``scorewise certify``: the policy of the function, in a file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from cli_support import (
    FAST,
    NAMES,
    PREDICTIONS,
    from_json,
    run,
    sample_predictions,
    sentence_of,
    succeeded,
    table_of,
)
from scorewise.io import read_cost_matrix
from support import as_json


def test_a_loss_that_cannot_be_guaranteed_is_exit_code_1(here: Path):
    result = run("evaluate", "test.npz", *FAST, "--no-report", "--max-loss", "0.001")
    succeeded(result, 1)
    assert "nothing" in result.stdout
    both = ("--max-loss", "0.3", "--max-loss", "0.001")
    from_json(run("evaluate", "test.npz", *FAST, "--no-report", *both, "--json"), 1)
    assert (
        from_json(run("certify", "test.npz", "--max-loss", "0.02", "--json"), 1)["certificate"][
            "coverage"
        ]
        == 0
    )
    nothing = run("apply", "policy.json", "test.npz")
    succeeded(nothing, 1)
    assert "0 of 250 rows accepted" in nothing.stdout
    assert not any(pq.read_table("decisions.parquet")["accept"].to_pylist())
    assert from_json(run("apply", "policy.json", "test.npz", "--json"), 1)["guaranteed"] is False


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (("--max-loss", "0.2"), {"max_loss": 0.2}),
        (("--max-loss", "0.3", "--confidence", "0.8"), {"max_loss": 0.3, "confidence": 0.8}),
        (
            ("--max-loss", "0.9", "--task-loss", "log", "--floor", "1e-3"),
            {"max_loss": 0.9, "task_loss": "log", "floor": 1e-3},
        ),
        (("--max-loss", "8", "--task-loss", "costs.csv"), {"max_loss": 8, "task_loss": "costs"}),
    ],
)
@pytest.mark.parametrize("out", ["decisions.parquet", "decisions.csv"])
def test_certify_and_apply_do_what_the_functions_do(
    args: tuple[str, ...], options: dict[str, Any], out: str, here: Path
):
    if options.get("task_loss") == "costs":
        options = {**options, "task_loss": read_cost_matrix(Path("costs.csv")).for_classes(NAMES)}
    result = from_json(run("certify", "test.npz", *args, "--json"))
    metadata = result.pop("metadata")
    policy = sw.certify(PREDICTIONS, **options)
    expected = as_json(policy.to_dict())
    del expected["calibration"], expected["calibration_uncertainty"]
    del expected["calibration_losses"]
    del expected["metadata"]
    assert result == expected
    assert metadata["sha256"] == hashlib.sha256(Path("test.npz").read_bytes()).hexdigest()
    assert json.loads(Path("policy.json").read_text())["metadata"] == metadata

    new = sample_predictions(120, seed=9)
    sw.write_predictions("new.parquet", new)
    applied = from_json(run("apply", "policy.json", "new.parquet", "--out", out, "--json"))
    result = policy.apply(new)
    table = table_of(here / out)
    assert table.column_names == ["id", "prediction", "uncertainty", "accept"]
    assert table["id"].to_pylist() == new.ids.tolist()
    np.testing.assert_array_equal(table["uncertainty"], result.uncertainty)
    np.testing.assert_array_equal(table["accept"].to_pylist(), result.accepted)
    names = [result.prediction_names[i] for i in result.prediction]
    assert table["prediction"].to_pylist() == names
    assert set(names) <= ({"dismiss", "wait", "treat"} if "costs.csv" in args else set(NAMES))
    assert applied["n_accepted"] == result.accepted.sum() > 0
    assert applied["drift"]["p_value"] == result.drift.p_value
    assert (applied["guaranteed"], applied["drift"]["has_drifted"]) == (True, False)
    words = succeeded(run("apply", "policy.json", "new.parquet", "--out", out))
    assert f"{int(result.accepted.sum())} of 120 rows accepted" in words.stdout
    assert words.stderr == ""


def test_a_policy_does_not_take_the_place_of_a_folder(here: Path):
    precious = here / "results" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("the only copy")
    result = run("certify", "test.npz", "--max-loss", "0.2", "--out", "results")
    assert precious.is_file()
    assert "is a folder" in sentence_of(result)


def test_a_policy_needs_a_folder(here: Path):
    said = sentence_of(run("certify", "test.npz", "--max-loss", "0.2", "--out", "no/policy.json"))
    assert "there is no folder 'no'" in said
    assert "partial" not in said


def test_a_policy_that_accepts_nothing_replaces_a_good_one_only_with_replace(here: Path):
    succeeded(run("certify", "test.npz", "--max-loss", "0.3"))
    before = Path("policy.json").read_bytes()
    refused = succeeded(run("certify", "test.npz", "--max-loss", "0.02"), 2)
    assert "use --replace" in refused.stderr
    assert Path("policy.json").read_bytes() == before
    succeeded(run("certify", "test.npz", "--max-loss", "0.02", "--replace"), 1)
    assert Path("policy.json").read_bytes() != before
