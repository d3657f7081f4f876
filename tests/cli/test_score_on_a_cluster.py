"""scorewise score --scheduler: folders, messages and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pandas as pd
import pytest

import scorewise as sw
from scale_support import (
    N_PARTITIONS,
    N_ROWS,
    contents,
    local_cluster,
    random_members,
    wait_until,
    write_dataset,
)

COMMAND = [sys.executable, "-c", "from scorewise.cli import app; app(prog_name='scorewise')"]
RULES = ["--rules", "log"]


def score(folder, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "score", "in", *RULES, *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", env=os.environ, check=False
    )


def make_bad(partition: int, probs) -> None:
    if partition == 3:
        probs[17] = 2


def test_a_bad_row_stops_the_run_and_quarantine_goes_on(tmp_path):
    write_dataset(tmp_path / "in", change=make_bad)
    stopped = score(tmp_path, "--scheduler", "local:1")
    assert stopped.returncode == 2
    message = " ".join(stopped.stderr.split())
    assert "'day-3.parquet': row 17 (row 17 of row group 0)" in message
    assert "use --on-bad-rows quarantine to set invalid rows aside" in message

    quarantine = ["--scheduler", "local:1", "--on-bad-rows", "quarantine"]
    result = score(tmp_path, *quarantine, "--json")
    assert result.returncode == 0, result.stderr
    output = json.loads(result.stdout)
    assert output["n_rows"] == N_PARTITIONS * N_ROWS - 1
    assert output["quarantined"][0]["input"] == "day-3.parquet"
    assert output["path"] == str(tmp_path / "in-scores")
    assert len(pd.read_parquet(tmp_path / "in-scores")) == output["n_rows"]

    repeated = score(tmp_path, *quarantine)
    assert f"{N_PARTITIONS} files were scored by an earlier run" in repeated.stdout
    assert "1 invalid row of 1 file is in _quarantine" in " ".join(repeated.stderr.split())


def test_a_scheduler_at_an_address_does_the_work(tmp_path):
    write_dataset(tmp_path / "in")
    with local_cluster(n_workers=1) as client:
        result = score(tmp_path, "--scheduler", client.scheduler.address, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["n_rows"] == N_PARTITIONS * N_ROWS
    assert not result.stderr


def test_ctrl_c_says_how_to_resume(tmp_path):
    write_dataset(tmp_path / "in")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with local_cluster(n_workers=0) as client:  # nobody does the work
        address = client.scheduler.address
        command = [*COMMAND, "score", "in", *RULES, "--scheduler", address]
        with subprocess.Popen(command, cwd=tmp_path, encoding="utf-8", **pipes) as process:
            wait_until(lambda: client.cluster.scheduler.tasks or process.poll() is not None)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "Interrupted. Repeat the command to resume."
    assert score(tmp_path, "--scheduler", "local:1", "--out", "fresh").returncode == 0
    assert score(tmp_path, "--scheduler", "local:1").returncode == 0
    assert contents(tmp_path / "in-scores") == contents(tmp_path / "fresh")


@pytest.mark.parametrize("command", ["label -n 5", "calibrate"])
def test_ctrl_c_does_not_promise_to_resume_where_commands_start_again(tmp_path, command):
    write_dataset(tmp_path / "in", labels=True)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    name, *options = command.split()
    with local_cluster(n_workers=0) as client:  # nobody does the work
        scheduler = client.cluster.scheduler
        arguments = [*COMMAND, name, "in", *options, "--scheduler", scheduler.address]
        with subprocess.Popen(arguments, cwd=tmp_path, encoding="utf-8", **pipes) as process:
            wait_until(lambda: scheduler.tasks or process.poll() is not None)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "Interrupted. No file was written in part." in errors
    assert "resume" not in errors


def test_apply_says_that_all_rows_are_quarantined(tmp_path):
    write_dataset(tmp_path / "in", change=lambda _, probs: probs.fill(2))
    probs = random_members(100, 500)
    sw.certify(probs, probs.mean(axis=1).argmax(axis=-1), max_loss=0.1).save(
        tmp_path / "policy.json"
    )
    options = ["--scheduler", "local:1", "--on-bad-rows", "quarantine"]
    for show in ([], ["--json"]):
        arguments = [*COMMAND, "apply", "policy.json", "in", *options, *show]
        result = subprocess.run(
            arguments, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
        )
        assert result.returncode == 1, result.stderr
        if show:
            output = json.loads(result.stdout)
            assert (output["n_rows"], output["drift"], output["guaranteed"]) == (0, None, False)
        else:
            assert "No row is valid, so none is accepted." in result.stdout
            assert "320 invalid rows of 8 files" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheduler", "cluster"], "the scheduler must be 'local', 'local:N'"),
        (["--on-bad-rows", "quarantine"], "needs a cluster; add --scheduler local"),
        (["--scheduler", "local", "--out", "U.parquet"], "is the name of a file"),
        (["--scheduler", "local", "--out", "in/out"], "the input"),
    ],
)
def test_wrong_options_are_errors(tmp_path, arguments, message):
    write_dataset(tmp_path / "in")
    result = score(tmp_path, *arguments)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_an_address_needs_a_cluster(tmp_path):
    command = [*COMMAND, "score", "s3://bucket/in"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert result.returncode == 2
    assert b"'s3://bucket/in' is an address, which needs a" in result.stderr


def test_apply_and_decide_work_on_a_cluster(tmp_path):
    write_dataset(tmp_path / "in")
    probs = random_members(100, 500)
    sw.certify(probs, probs.mean(axis=1).argmax(axis=-1), max_loss=0.1).save(
        tmp_path / "policy.json"
    )
    (tmp_path / "costs.csv").write_text("class,wait,act\n0,0,1\n1,2,0\n2,2,0\n")
    for command, folder, key in (
        (["apply", "policy.json", "in"], "decisions", "n_accepted"),
        (["decide", "in", "--costs", "costs.csv"], "in-decisions", "summary"),
    ):
        arguments = [*COMMAND, *command, "--scheduler", "local:1", "--json"]
        result = subprocess.run(
            arguments, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
        )
        assert result.returncode == 0, result.stderr
        output = json.loads(result.stdout)
        assert output["path"] == str(tmp_path / folder)
        assert key in output
        assert len(pd.read_parquet(tmp_path / folder)) == N_PARTITIONS * N_ROWS
