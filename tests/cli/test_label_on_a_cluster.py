"""``scorewise label --scheduler``: the rows of a folder, as a table, a file and JSON."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import scorewise as sw
from scale_support import N_PARTITIONS, random_members, write_dataset

COMMAND = [sys.executable, "-c", "from scorewise.cli import app; app(prog_name='scorewise')"]


def label(folder, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "label", "in", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", env=os.environ, check=False
    )


def test_rows_of_all_files_as_json_as_a_file_and_as_a_table(tmp_path):
    write_dataset(tmp_path / "in")
    probs = np.concatenate([random_members(i) for i in range(N_PARTITIONS)])
    expected = sw.acquire(sw.decompose(probs, "log").total, 25)
    names = [f"{row // 40}-{row % 40}" for row in expected]
    options = ["-n", "25", "--rule", "log", "--component", "total", "--scheduler", "local:1"]

    result = label(tmp_path, *options, "--out", "next.csv", "--json")
    assert result.returncode == 0, result.stderr
    output = json.loads(result.stdout)
    assert output["ids"] == names
    assert output["rows"] == [row % 40 for row in expected.tolist()]
    assert output["files"] == [f"day-{row // 40}.parquet" for row in expected]
    with (tmp_path / "next.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [line["id"].strip("'") for line in written] == names  # which looks like a date
    assert list(written[0]) == ["partition", "file", "row", "id", "total_log"]

    shown = label(tmp_path, *options).stdout
    assert "320 rows" in shown
    assert "in 8 files" in shown
    assert names[0] in shown
    assert "and 5 more" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "joint"], "--method joint needs all rows in one place"),
        (["--method", "softrank"], "--method softrank needs all rows in one place"),
        (["--target", "in/day-0.parquet"], "--target needs all rows in one place"),
    ],
)
def test_what_needs_all_rows_in_one_place_is_refused(tmp_path, arguments, message):
    write_dataset(tmp_path / "in")
    result = label(tmp_path, "--scheduler", "local:1", *arguments)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())
