"""Commands where optional libraries are not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import scorewise as sw
from cli_support import HANG, PREDICTIONS

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


def test_without_pyarrow(here: Path):
    sw.write_predictions("test.parquet", PREDICTIONS)
    sw.write_predictions("test.safetensors", PREDICTIONS)
    sw.write_predictions("test.csv", PREDICTIONS)
    needing = [
        "score test.npz",
        "score test.parquet",
        "label test.npz --out next.csv",
        "decide test.npz --costs costs.csv",
        "evaluate test.parquet",
        "label test.safetensors",
        "apply policy.json test.npz",
    ]
    others = [
        "certify test.npz --max-loss 0.2",
        "label test.npz",
        "label test.csv --json",
        "compare test.npz --resamples 100",
        "advise ood",
        "score --help",
        "evaluate test.npz --resamples 100",
    ]
    results = list(without(["pyarrow", "safetensors"], *others, *needing))
    for command, (code, _, stderr, error) in zip(others, results, strict=False):
        assert (code, stderr) == (0, ""), (command, error)
    for command, (code, stdout, stderr, error) in zip(needing, results[len(others) :], strict=True):
        assert (code, stdout) == (2, ""), (command, error)
        assert stderr.startswith("Error: "), command
        assert "pip install 'scorewise[io]'" in stderr
        assert stderr.count("\n") == 1


def test_without_plotly_jinja_matplotlib_and_cryptography(here: Path):
    needing = {
        "evaluate test.npz --resamples 100 --report mine.html": "report",
        "evaluate test.npz --resamples 100 --no-report --figures f": "plots",
        "certify test.npz --max-loss 0.2 --signing-key key.pem": "sign",
    }
    without_page = ["evaluate test.npz --resamples 100", "demo --trees 2"]
    others = [
        "evaluate test.npz --no-report --resamples 100",
        "score test.npz --rules log",
        "certify test.npz --max-loss 0.2",
    ]
    hidden = ["plotly", "jinja2", "matplotlib", "cryptography"]
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
        assert f"pip install 'scorewise[{extra}]'" in stderr
        assert stderr.count("\n") == 1
    assert not list(Path().rglob("*.html"))
