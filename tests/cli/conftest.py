"""Fixtures of the tests of the command line."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import scorewise as sw
from cli_support import COSTS, HOSTILE, NASTY, PREDICTIONS, small_demo
from scorewise.cli import demo


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Large arrays compile the kernel after an installation, with a message on stderr."""
    for dtype in ("float32", "float64"):
        sw.decompose(np.full((1 << 16, 2, 2), 0.5, dtype), "log")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with predictions and costs."""
    monkeypatch.chdir(tmp_path)
    sw.write_predictions("test.npz", PREDICTIONS)
    Path("costs.csv").write_text(COSTS)
    lines = [f"{row_id},<b>text {i}</b>\n" for i, row_id in enumerate(PREDICTIONS.ids)]
    Path("texts.csv").write_text("".join(["id,text\n", *lines]))
    return tmp_path


@pytest.fixture
def quick_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command with a demo that has been run already."""
    result = small_demo()
    monkeypatch.setattr(demo, "evaluate_forest", lambda trees, seed, progress: result)


@pytest.fixture
def hostile(here: Path) -> Path:
    ids = np.array([HOSTILE[i % 3] + str(i) for i in range(250)], dtype=object)
    options = {"labels": PREDICTIONS.labels, "ids": ids, "class_names": HOSTILE}
    sw.write_predictions("hostile.npz", PREDICTIONS.probs, **options)
    with Path("hostile.csv").open("w", newline="") as file:
        rows = [
            ["", f"act {NASTY}", "[blue]go[/blue]"],
            *([name, i, 1] for i, name in enumerate(HOSTILE)),
        ]
        csv.writer(file).writerows(rows)
    return here
