"""``scorewise apply``: drift, and policies that do not fit or are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import scorewise as sw
from cli_support import (
    PREDICTIONS,
    from_json,
    run,
    sample_members,
    sample_predictions,
    sentence_of,
    succeeded,
)


def test_drift_is_a_warning_and_exit_code_1(here: Path):
    certified = succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    assert "95 % confidence" in " ".join(certified.stdout.split())
    sw.write_predictions("new.npz", sample_predictions(200, seed=4, sharp=5.0))
    result = succeeded(run("apply", "policy.json", "new.npz"), 1)
    said = " ".join(result.stdout.split())
    assert said.startswith("WARNING: new inputs do not look like the calibration data")
    assert "Written to decisions.parquet" in result.stdout
    printed = from_json(run("apply", "policy.json", "new.npz", "--json"), 1)
    assert printed["drift"]["has_drifted"] is True
    tolerant = ("--false-alarm-rate", "1e-300")
    assert succeeded(run("apply", "policy.json", "new.npz", *tolerant)).stderr == ""


def test_a_policy_is_for_the_same_members_and_classes(here: Path):
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    sw.write_predictions("new.npz", sample_members(20, m=5)[0])
    assert "5 members and 3 classes" in sentence_of(run("apply", "policy.json", "new.npz"))
    sw.write_predictions("new.npz", PREDICTIONS.probs, class_names=["a", "b", "c"])
    assert "'a'" in sentence_of(run("apply", "policy.json", "new.npz"))
    assert not Path("decisions.parquet").exists()


DAMAGE: dict[str, Any] = {
    "kind": "other",
    "members": None,
    "certificate": {},
    "class_names": 5,
    "metadata": 5,
    "rule": 5,
    "calibration_uncertainty": [],
    "classes": 2,
}

WORSE: dict[str, Any] = {
    "members": "abc",
    "metadata": "ab",
    "rule": {"costs": [[1, 2], [3]], "actions": None},
    "certificate.threshold": "abc",
    "certificate.coverage": None,
    "certificate.max_loss": "x",
}


def apply_damaged(key: str, value: Any) -> Result:
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    stored = json.loads(Path("policy.json").read_text())
    outer, _, inner = key.partition(".")
    if inner:
        stored[outer][inner] = value
    else:
        stored[outer] = value
    Path("policy.json").write_text(json.dumps(stored))
    return run("apply", "policy.json", "test.npz")


@pytest.mark.parametrize("key", DAMAGE)
def test_a_damaged_policy_is_one_sentence(key: str, here: Path):
    sentence_of(apply_damaged(key, DAMAGE[key]))


@pytest.mark.parametrize("key", WORSE)
def test_a_policy_with_wrong_values_is_one_sentence(key: str, here: Path):
    sentence_of(apply_damaged(key, WORSE[key]))
