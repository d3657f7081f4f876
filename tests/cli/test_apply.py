"""``scorewise apply``: drift, and policies that do not fit or are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import scorewise as sw
from cli_support import (
    NAMES,
    PREDICTIONS,
    from_json,
    run,
    sample_members,
    sample_predictions,
    sentence_of,
    succeeded,
)
from support import write_keys


def test_drift_is_a_warning_and_exit_code_1(here: Path):
    certified = succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    assert "95 % confidence" in " ".join(certified.stdout.split())
    sw.write_predictions("new.npz", sample_predictions(200, seed=4, sharp=5.0))
    result = succeeded(run("apply", "policy.json", "new.npz"), 1)
    said = " ".join(result.stdout.split())
    assert said.startswith("WARNING: new inputs do not look like the certification data")
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


@pytest.mark.parametrize(
    ("name", "value"),
    [("guarantee", "none"), ("rule", "brier"), ("metadata", {}), ("class_names", None)],
)
def test_an_edited_policy_is_refused_and_nothing_is_written(name: str, value: Any, here: Path):
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    stored = json.loads(Path("policy.json").read_text())
    Path("policy.json").write_text(json.dumps(stored | {name: value}))
    said = sentence_of(run("apply", "policy.json", "test.npz"))
    assert f"{name}" in said
    assert "does not match its digest" in said
    assert not Path("decisions.parquet").exists()


def test_a_threshold_written_over_is_refused(here: Path):
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    text = Path("policy.json").read_text()
    threshold = json.loads(text)["certificate"]["threshold"]
    Path("policy.json").write_text(text.replace(f'"threshold": {threshold}', '"threshold": 1e308'))
    said = sentence_of(run("apply", "policy.json", "test.npz"))
    assert "certificate.threshold does not match its digest" in said


def test_class_names_may_be_stated(here: Path):
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    sw.write_predictions("bare.npz", PREDICTIONS.probs)
    assert "no class names" in sentence_of(run("apply", "policy.json", "bare.npz"))
    succeeded(run("apply", "policy.json", "bare.npz", "--class-names", ",".join(NAMES)))
    wrong = run("apply", "policy.json", "bare.npz", "--class-names", ",".join(NAMES[::-1]))
    assert "class 0 is called 'ill' here and 'healthy' in the policy" in sentence_of(wrong)


def test_the_same_rows_in_another_dtype_are_decided_alike_or_refused(here: Path):
    single = PREDICTIONS.probs.astype("float32")
    options = {"labels": PREDICTIONS.labels, "class_names": NAMES}
    sw.write_predictions("single.npz", single, **options)
    sw.write_predictions("double.npz", PREDICTIONS.probs, **options)
    succeeded(run("certify", "double.npz", "--max-loss", "0.2"))
    said = sentence_of(run("apply", "policy.json", "single.npz"))
    assert "these predictions are float32, and the policy was certified on float64" in said
    assert "certify again on float32 predictions" in said
    succeeded(run("certify", "single.npz", "--max-loss", "0.2"))
    decisions = []
    for name in ("single", "double"):
        succeeded(run("apply", "policy.json", f"{name}.npz", "--out", f"{name}.csv"))
        decisions.append(Path(f"{name}.csv").read_text())
    assert decisions[0] == decisions[1]


# -- signatures ------------------------------------------------------------------------------------


@pytest.fixture
def keys(here: Path) -> None:
    """The files key.pem and public.pem."""
    write_keys(here)


def test_only_a_signed_policy_passes_with_a_public_key(keys: None):
    succeeded(run("certify", "test.npz", "--max-loss", "0.2"))
    said = sentence_of(run("apply", "policy.json", "test.npz", "--public-key", "public.pem"))
    assert "'policy.json' is not signed; leave out --public-key if you trust the source" in said
    succeeded(run("certify", "test.npz", "--max-loss", "0.2", "--signing-key", "key.pem"))
    succeeded(run("apply", "policy.json", "test.npz", "--public-key", "public.pem"))
    said = sentence_of(run("apply", "policy.json", "test.npz", "--public-key", "key.pem"))
    assert "not an Ed25519 public key" in said


def test_keys_are_never_overwritten(keys: None):
    options = ("--max-loss", "0.2", "--signing-key", "key.pem", "--out", "key.pem")
    before = Path("key.pem").read_bytes(), Path("public.pem").read_bytes()
    assert "key.pem" in sentence_of(run("certify", "test.npz", *options))
    Path("public.csv").write_bytes(before[1])
    succeeded(run("certify", "test.npz", *options[:4]))
    same = ("--public-key", "public.csv", "--out", "public.csv")
    assert "public.csv" in sentence_of(run("apply", "policy.json", "test.npz", *same))
    assert Path("key.pem").read_bytes() == before[0]
    assert Path("public.csv").read_bytes() == before[1]
