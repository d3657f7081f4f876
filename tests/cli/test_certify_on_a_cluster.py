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


READERS = {
    "calibrate": (),
    "certify": ("--max-loss", "0.4"),
    "compare": ("--resamples", "200"),
    "evaluate": ("--resamples", "200", "--no-report"),
    "label": ("--n", "3"),
}


@pytest.mark.parametrize("name", READERS)
def test_invalid_rows_are_set_aside_in_a_folder(name, scheduler, folder):
    probs = np.full((5, 4, 3), 1 / 3)
    probs[3] = 2
    sw.write_predictions(folder / "3.parquet", probs, labels=[0, 1, 2, 0, 1])
    options = (*READERS[name], "--scheduler", scheduler)
    stopped = sentence_of(run(name, "rows", *options))
    assert "'3.parquet': row 3 (row 3 of row group 0)" in stopped
    assert "use --on-bad-rows quarantine --quarantine FOLDER to set invalid rows aside" in stopped
    aside = ("--on-bad-rows", "quarantine", "--quarantine", "bad")
    result = run(name, "rows", *options, *aside)
    assert result.exit_code == 0, result.output
    [check] = Path("bad").iterdir()
    rows = f"1 invalid row of 1 file is in {check.resolve()}/_quarantine"
    warning = f"Warning: {rows} (1: probs sums to …, not …)"
    # without spaces, as lines may end within a long path
    assert warning.replace(" ", "") in "".join(result.stderr.split())
    assert (check / "_quarantine/part-00003.parquet").exists()
    if name == "certify":
        assert "1,204 valid rows, and holds for valid rows only; 1 invalid row was" in " ".join(
            result.stdout.split()
        )
    if name in {"compare", "evaluate"}:
        assert "for valid rows only; left out: 1 invalid row, see" in " ".join(
            result.stdout.split()
        )


@pytest.mark.parametrize("name", READERS)
def test_folder_for_invalid_rows_needs_a_cluster_and_the_other_option(name, scheduler, folder):
    options = READERS[name]
    alone = run(name, "rows", *options, "--quarantine", "bad")
    assert "--quarantine needs a cluster; add --scheduler local" in sentence_of(alone)
    both = ("--scheduler", scheduler)
    missing = run(name, "rows", *options, *both, "--on-bad-rows", "quarantine")
    assert "need a folder; use --quarantine, a new folder for them" in sentence_of(missing)
    unused = run(name, "rows", *options, *both, "--quarantine", "bad")
    assert "use --on-bad-rows quarantine to set them aside" in sentence_of(unused)
