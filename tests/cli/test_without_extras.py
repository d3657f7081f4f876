"""Commands where optional libraries are not installed."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from packaging.requirements import Requirement
from pyarrow import csv

import scorewise as sw
from cli_support import HANG, PREDICTIONS
from scorewise.decompose import COMPONENTS

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
OPTIONAL = [
    Requirement(text).name
    for extra, texts in tomllib.loads(PROJECT.read_text())["project"][
        "optional-dependencies"
    ].items()
    if extra not in {"all", "dev"}
    for text in texts
    if not text.startswith("scorewise")
]

HIDE = """
import json, sys
from importlib.machinery import PathFinder
hidden, commands = json.loads(sys.argv[1])
find = PathFinder.find_spec.__func__
def find_visible(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in hidden else find(cls, name, path, target)
PathFinder.find_spec = classmethod(find_visible)
from typer.testing import CliRunner
from scorewise.cli import app
results = []
for command in commands:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, command.split())
    results.append([result.exit_code, result.stdout, result.stderr, repr(result.exception)])
print(json.dumps(results))
"""


def without(hidden: list[str], *commands: str) -> Iterator[tuple[int, str, str, str]]:
    """What commands say where some libraries are not installed."""
    process = subprocess.run(
        [sys.executable, "-c", HIDE, json.dumps([hidden, commands])],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert process.returncode == 0, process.stderr
    yield from json.loads(process.stdout)


def test_the_base_installation_reads_and_writes_csv_and_npz(here: Path):
    sw.write_predictions("test.parquet", PREDICTIONS)
    sw.write_predictions("test.safetensors", PREDICTIONS)
    sw.write_predictions("test.csv", PREDICTIONS)
    needing = {
        "score test.parquet": "io",
        "evaluate test.parquet --no-report": "io",
        "label test.safetensors": "io",
        "decide test.npz --costs costs.csv --out d.arrow": "io",
        "evaluate test.npz --resamples 100 --report mine.html": "report",
        "evaluate test.npz --resamples 100 --no-report --figures f": "plots",
        "certify test.npz --max-loss 0.2 --signing-key key.pem --json": "sign",
    }
    without_page = ["evaluate test.npz --resamples 100", "demo --trees 2"]
    others = [
        "certify test.npz --max-loss 0.2 --out made.json",
        "apply made.json test.csv",
        "label test.npz --out l.csv",
        "label test.csv --json",
        "compare test.npz --resamples 100",
        "advise ood",
        "score --help",
        "score test.csv",
        "decide test.npz --costs costs.csv",
    ]
    hidden = [*OPTIONAL, "pandas", "polars"]
    results = list(without(hidden, *others, *needing, *without_page))
    for command in without_page[::-1]:
        code, stdout, stderr, error = results.pop()
        assert code == 0, (command, error)
        assert "If the model passes on" in stdout, command
        assert "html" not in stdout, command
        assert stderr.startswith("No page is written: the report needs jinja2: pip install")
    for command, (code, _, stderr, error) in zip(others, results, strict=False):
        assert (code, stderr) == (0, ""), (command, error)
    for (command, extra), (code, stdout, stderr, error) in zip(
        needing.items(), results[len(others) :], strict=True
    ):
        assert (code, stdout) == (2, ""), (command, error)
        assert stderr.startswith("Error: "), command
        assert f"pip install 'scorewise[{extra}]'" in stderr
        assert stderr.count("\n") == 1
    assert not list(Path().rglob("*.html"))
    scores = csv.read_csv("test-scores.csv")
    result = sw.decompose(PREDICTIONS.samples, ["log", "zero-one"])
    for rule, parts in result.items():
        for component, values in zip(COMPONENTS, parts, strict=True):
            np.testing.assert_array_equal(scores[f"{component}_{rule}"], values)
    for name in ("decisions.csv", "test-decisions.csv"):
        assert csv.read_csv(name).num_rows == len(PREDICTIONS)
