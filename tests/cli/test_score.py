"""``scorewise score``: the numbers of decompose, in every kind of file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import scorewise as sw
from cli_support import PREDICTIONS, from_json, run, run_process, sentence_of, succeeded, table_of


@pytest.mark.parametrize("out", ["U.parquet", "U.arrow", "U.csv"])
@pytest.mark.parametrize(
    "source",
    [
        "test.npz",
        "test.parquet",
        "test",
        "test.csv",
        "test.arrow",
        "test.safetensors",
        "test.feather",
    ],
)
def test_score_writes_what_decompose_gives(source: str, out: str, here: Path):
    sw.write_predictions(source, PREDICTIONS)
    printed = from_json(
        run("score", source, "--rules", "log,zero-one,tsallis:1.5", "--out", out, "--json")
    )
    result = table_of(here / out)
    expected = sw.decompose(PREDICTIONS.samples, ["log", "zero-one", "tsallis:1.5"])
    columns = [
        f"{part}_{rule}" for rule in expected for part in ("total", "aleatoric", "epistemic")
    ]
    assert result.column_names == printed["columns"] == ["id", *columns]
    assert result["id"].to_pylist() == PREDICTIONS.ids.tolist()
    for name in columns:
        part, rule = name.split("_")
        np.testing.assert_array_equal(result[name].to_numpy(), getattr(expected[rule], part))
    assert (printed["n_rows"], printed["rows"], printed["members"], printed["classes"]) == (
        250,
        250,
        4,
        3,
    )
    assert (printed["version"], printed["input"], printed["resumed"]) == (sw.__version__, source, 0)
    assert list(printed["rules"]) == ["log", "zero-one", "tsallis:1.5"]
    if source != "test":
        assert printed["sha256"] == hashlib.sha256(Path(source).read_bytes()).hexdigest()
    if out != "U.csv":
        inside = json.loads(result.schema.metadata[b"scorewise"])
        assert inside == {key: printed[key] for key in inside}
        assert set(inside) >= {"version", "rules", "sha256", "input"}
    assert sorted(p.name for p in here.iterdir() if p.name.startswith(".")) == []


def test_score_in_words_and_the_default_output(here: Path):
    result = succeeded(run("score", "test.npz"))
    assert "250 rows scored: id, total_log, aleatoric_log" in result.stdout
    assert "Written to test-scores.parquet" in result.stdout
    assert result.stderr == ""
    assert pq.read_metadata("test-scores.parquet").num_rows == 250


def test_rows_without_ids_are_numbered_and_ids_may_be_numbers(here: Path):
    np.save("test.npy", PREDICTIONS.probs)
    succeeded(run("score", "test.npy", "--rules", "log", "--out", "U.parquet"))
    assert pq.read_table("U.parquet")["row"].to_pylist() == list(range(250))
    sw.write_predictions("test.parquet", PREDICTIONS.probs, ids=np.arange(250) * 7)
    succeeded(run("score", "test.parquet", "--rules", "log", "--out", "U.parquet"))
    assert pq.read_table("U.parquet")["id"].to_pylist() == [7 * i for i in range(250)]


def test_logits_and_weights_count(here: Path):
    rng = np.random.default_rng(0)
    logits, weights = rng.normal(size=(40, 4, 3)), rng.random((40, 4)) + 0.1
    sw.write_predictions("test.npz", logits=logits, weights=weights)
    succeeded(run("score", "test.npz", "--rules", "brier", "--out", "U.parquet", "--normalize"))
    samples = sw.Samples(logits, weights, from_logits=True)
    expected = sw.decompose(samples, "brier").epistemic
    np.testing.assert_allclose(pq.read_table("U.parquet")["epistemic_brier"], expected, rtol=1e-13)
    chosen = from_json(run("label", "test.npz", "--rule", "brier", "-n", "3", "--json"))
    assert chosen["rows"] == sw.acquire(sw.decompose(samples, "brier").epistemic, 3).tolist()


def test_normalize_rescales(here: Path):
    np.save("test.npy", PREDICTIONS.probs * 3)
    assert "--normalize" in sentence_of(run("score", "test.npy"))
    succeeded(run("score", "test.npy", "--rules", "log", "--out", "U.parquet", "--normalize"))
    expected = sw.decompose(sw.Samples(PREDICTIONS.probs * 3, normalize=True), "log").total
    np.testing.assert_allclose(pq.read_table("U.parquet")["total_log"], expected, rtol=1e-13)


def test_the_result_is_not_put_among_the_input(here: Path):
    sw.write_predictions("folder", PREDICTIONS)
    for _ in range(2):
        run("score", "folder", "--out", "folder/U.parquet")
        assert len(sw.read_predictions("folder")) == 250


def test_paths_are_not_broken_by_the_width_of_the_screen(here: Path):
    long = here / ("folder of a long name " * 5) / ("and another " * 8)
    long.mkdir(parents=True)
    result = run_process("score", "test.npz", "--rules", "log", "--out", long / "U.parquet")
    assert result.returncode == 0
    assert f"Written to {long / 'U.parquet'}" in result.stdout.splitlines()
