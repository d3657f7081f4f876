"""``scorewise label``: the rows of acquire."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import scorewise as sw
from cli_support import PREDICTIONS, from_json, run, sample_predictions, sentence_of, succeeded


def test_label_does_what_acquire_does(here: Path):
    scores = sw.decompose(PREDICTIONS.samples, "zero-one").epistemic
    result = from_json(run("label", "test.npz", "-n", "7", "--json"))
    top = sw.acquire(scores, 7)
    assert result == {
        "rows": top.tolist(),
        "ids": PREDICTIONS.ids[top].tolist(),
        "epistemic_zero-one": scores[top].tolist(),
    }
    args = ("--method", "power", "--seed", "4", "--rule", "log", "--component", "total")
    result = from_json(run("label", "test.npz", "-n", "7", *args, "--json"))
    total = sw.decompose(PREDICTIONS.samples, "log").total
    assert result["rows"] == sw.acquire(total, 7, "power", random_state=4).tolist()
    assert result["total_log"] == total[result["rows"]].tolist()
    result = from_json(run("label", "test.npz", "-n", "3", "--method", "joint", "--json"))
    batch = sw.acquire_batch(PREDICTIONS.samples, 3, "zero-one", random_state=0)
    assert result["rows"] == batch.rows.tolist()
    assert result["joint_gain_zero-one"] == batch.gains.tolist()


def test_label_as_a_table_and_as_a_file(here: Path):
    top = sw.acquire(sw.decompose(PREDICTIONS.samples, "zero-one").epistemic, 30)
    result = succeeded(run("label", "test.npz", "-n", "30"))
    lines = [line.split() for line in result.stdout.splitlines() if "row-" in line]
    assert [(int(rank), name, int(row)) for rank, name, row, _ in lines] == [
        (i + 1, f"row-{row}", row) for i, row in enumerate(top[:20].tolist())
    ]
    assert "and 10 more" in result.stdout
    succeeded(run("label", "test.npz", "-n", "30", "--out", "next.csv"))
    with Path("next.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [int(line["row"]) for line in written] == top.tolist()
    assert [line["id"] for line in written] == PREDICTIONS.ids[top].tolist()


def test_rows_with_a_label_are_left_out(here: Path):
    labels = np.where(np.arange(250) < 200, PREDICTIONS.labels, -1)
    sw.write_predictions("pool.parquet", PREDICTIONS.probs, labels=labels)
    result = succeeded(run("label", "pool.parquet", "-n", "50"))
    assert "200 rows have a label already" in result.stdout
    rows = from_json(run("label", "pool.parquet", "-n", "50", "--json"))["rows"]
    assert sorted(rows) == list(range(200, 250))
    assert "only 50 rows to choose 51 from" in sentence_of(run("label", "pool.parquet", "-n", "51"))


@pytest.mark.parametrize(("method", "remedy"), [("top", ""), ("joint", " --method top")])
def test_one_model_has_no_epistemic_uncertainty_to_select_by(method: str, remedy: str, here: Path):
    np.savez("one.npz", probs=PREDICTIONS.probs[:, 0])
    args = ("label", "one.npz", "--one-model", "-n", "4")
    sentence = sentence_of(run(*args, "--method", method))
    assert sentence.startswith("'one.npz' has one member, so the epistemic uncertainty of every")
    assert f"use --component total{remedy}, or predictions of several members" in sentence
    rows = from_json(run(*args, "--component", "total", "--json"))["rows"]
    assert rows == sw.acquire(sw.decompose(PREDICTIONS.probs[:, :1], "zero-one").total, 4).tolist()


def test_label_for_a_target_does_what_acquire_for_does(here: Path):
    target = sample_predictions(60, seed=9)
    sw.write_predictions("target.npz", target)
    pair = (PREDICTIONS.samples, target.samples)
    args = ("label", "test.npz", "--target", "target.npz", "-n", "7", "--json")
    for options, rule, method in (
        ((), "zero-one", "power"),
        (("--method", "power"), "zero-one", "power"),
        (("--method", "top", "--rule", "log"), "log", "top"),
        (("--method", "joint", "--rule", "log"), "log", "joint"),
    ):
        result = from_json(run(*args, *options))
        batch = sw.acquire_for(*pair, rule, 7, 0, method=method)
        assert result["rows"] == batch.indices.tolist()
        assert result["ids"] == PREDICTIONS.ids[batch.indices].tolist()
        kind = "joint" if method == "joint" else "adjusted"
        assert result[f"{kind}_target_gain_{rule}"] == batch.scores.tolist()
    assert "adjusted_target_gain_zero-one" in succeeded(run(*args[:-1])).stdout


def test_a_target_of_other_members_or_with_another_component_is_refused(here: Path):
    sw.write_predictions("target.npz", PREDICTIONS.probs[:, :3])
    args = ("label", "test.npz", "--target", "target.npz")
    assert "4 members and 'target.npz' 3; both must be" in sentence_of(run(*args))
    sentence = sentence_of(run(*args, "--component", "total"))
    assert "--target needs --component epistemic" in sentence
