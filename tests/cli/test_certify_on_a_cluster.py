"""``scorewise calibrate`` and ``certify`` with --scheduler: what the functions return, in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import scorewise as sw
from cli_support import from_json, run, sentence_of, succeeded
from scale_support import local_cluster


@pytest.fixture(scope="module")
def scheduler():
    with local_cluster(n_workers=1, processes=False) as client:
        yield client.scheduler.address


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Overconfident predictions of 1,200 rows in three files."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(3, 0.3), size=1200)
    y = (truth.cumsum(axis=-1) > rng.uniform(size=(1200, 1))).argmax(axis=-1)
    probs = truth[:, None] ** 3 * np.exp(rng.normal(scale=0.2, size=(1200, 4, 3))) + 1e-9
    probs /= probs.sum(axis=-1, keepdims=True)
    (tmp_path / "rows").mkdir()
    for i, rows in enumerate(np.split(np.arange(1200), [500, 800])):
        sw.write_predictions(tmp_path / f"rows/{i}.parquet", probs[rows], labels=y[rows])
    return tmp_path / "rows"


def test_calibrate_and_certify_write_what_the_functions_return(scheduler, folder):
    predictions = sw.read_predictions(folder)
    succeeded(run("calibrate", "rows", "--scheduler", scheduler))
    calibration = sw.fit_calibration(predictions)
    written = sw.load_calibration("calibration.json")
    np.testing.assert_array_equal(written.weights, calibration.weights)
    result = from_json(
        run("certify", "rows", "--max-loss", "0.3", "--scheduler", scheduler, "--json")
    )
    assert (
        sw.load_policy("policy.json").certificate
        == sw.certify(predictions, max_loss=0.3).certificate
    )
    assert result["metadata"]["partitions"] == 3
    again = ("--calibration", "calibration.json", "--scheduler", scheduler, "--out", "other.json")
    refused = run("certify", "rows", "--max-loss", "0.3", *again)
    assert "was fitted on these rows or most of them" in sentence_of(refused)


def test_costs_are_those_of_the_classes_of_the_folder(scheduler, folder):
    Path("costs.csv").write_text(",keep,drop\n0,0,5\n1,3,0\n2,9,0\n")
    options = ("--task-loss", "costs.csv", "--max-loss", "1", "--scheduler", scheduler)
    succeeded(run("certify", "rows", *options))
    rule = sw.io.read_cost_matrix(Path("costs.csv"))
    expected = sw.certify(sw.read_predictions(folder), max_loss=1, task_loss=rule)
    assert sw.load_policy("policy.json").certificate == expected.certificate


@pytest.mark.parametrize("command", [("calibrate",), ("certify", "--max-loss", "0.3")])
def test_an_address_needs_a_scheduler(command, folder):
    name, *options = command
    result = run(name, "memory://rows", *options)
    assert "is an address, which needs a cluster; add --scheduler local" in sentence_of(result)
