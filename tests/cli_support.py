"""The command line in tests: running it, reading what it prints, predictions to run it on."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import typer.testing
from click.testing import Result
from typer.testing import CliRunner

import scorewise as sw
from scorewise.cli import app, demo
from scorewise.compare import Evaluation
from scorewise.io import Predictions

# typer builds the commands of an app anew for each run, which takes longer than most runs.
typer.testing._get_command = functools.cache(typer.testing._get_command)

COMMANDS = [
    "demo",
    "evaluate",
    "score",
    "calibrate",
    "certify",
    "apply",
    "label",
    "decide",
    "advise",
    "compare",
]

NAMES = ["healthy", "doubtful", "ill"]

COSTS = ",dismiss,wait,treat\nill,50,20,0\nhealthy,0,1,5\ndoubtful,4,2,3\n"  # in another order

FAST = ("--resamples", "100")
HANG = 600  # seconds after which a process is taken for hanging

SCOREWISE = Path(sys.executable).with_name("scorewise")


def run(*args: object, **env: str) -> Result:
    """A command in this process, with what is not a mistake of the user raised."""
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1", **env})
    result = runner.invoke(app, [*map(str, args)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_process(*args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The real command."""
    return subprocess.run(
        [SCOREWISE, *map(str, args)], capture_output=True, text=True, timeout=HANG, **options
    )


def succeeded(result: Result, code: int = 0) -> Result:
    assert result.exit_code == code, result.output
    return result


def parse_json(text: str) -> Any:
    """One JSON document in one line, without NaN."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert text.endswith("\n")
    assert text.count("\n") == 1
    return json.loads(text, parse_constant=refuse)


def from_json(result: Result, code: int = 0) -> Any:
    succeeded(result, code)
    assert result.stderr == ""
    return parse_json(result.stdout)


def sentence_of(result: Result) -> str:
    """The complaint about a mistake: one sentence, on stderr, and no trace of Python."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    text = " ".join(result.stderr.split())
    assert text.startswith("Error: ")
    assert len(text) > 20
    return text.removeprefix("Error: ")


def sample_members(n: int = 250, m: int = 4, k: int = 3, seed: int = 0, sharp: float = 0.3) -> Any:
    """Members that mean what they say, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, sharp), size=n)
    labels = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    probs = truth[:, None] * np.exp(rng.normal(scale=0.5, size=(n, m, k))) + 1e-9
    return probs / probs.sum(axis=-1, keepdims=True), labels


def sample_predictions(n: int = 250, seed: int = 0, **options: Any) -> sw.io.Predictions:
    probs, labels = sample_members(n, seed=seed, **options)
    names = NAMES if probs.shape[-1] == 3 else None
    ids = [f"row-{i}" for i in range(n)]
    return sw.io.Predictions(probs, labels=labels, ids=ids, class_names=names)


PREDICTIONS = sample_predictions()


def table_of(path: Path) -> pa.Table:
    if path.suffix == ".csv":
        return pyarrow.csv.read_csv(path)
    if path.suffix == ".parquet":
        return pq.read_table(path)
    return pa.ipc.open_file(str(path)).read_all()


@functools.cache
def small_demo() -> tuple[Evaluation, Predictions, Predictions]:
    """The demo with few trees, and few runs of active learning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "N_RUNS", 2)
        patch.setattr(demo, "N_LABELS", 40)
        return demo.evaluate_forest(4, 0, progress=False)


NASTY = "\x1b[31mRED\x1b[0m [red]markup[/red] \x07\x9b31m\x08\r"

HOSTILE = [f"{NASTY}\nnew line", "b\u202ebidi\u2066", f"c[bold]{'n' * 10_000}"]


def assert_harmless(text: str) -> None:
    wrong = {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
    assert not wrong
