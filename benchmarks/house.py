"""How large is the code, and how many files does a reader open to follow a call?

    python benchmarks/house.py

Counts modules, lines and public names, and the source files that run during ``sw.decompose`` and
during ``scorewise evaluate`` with out-of-distribution rows and a report. Says what importing
scorewise takes, as a multiple of importing NumPy and scipy.special.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from typer.testing import CliRunner

import scorewise as sw
from scorewise.cli import app

SRC = Path(sw.__file__).parent
RULES = ["log", "brier", "zero-one", "spherical"]


def files_run(work: Callable[[], object]) -> list[str]:
    """The source files of scorewise whose functions are called by ``work``."""
    names: set[str] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(SRC) and frame.f_code.co_name != "<module>":
            names.add(str(path.relative_to(SRC)))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(names)


def evaluate(folder: Path) -> None:
    """Run ``scorewise evaluate`` on the files in the folder."""
    arguments = [
        "evaluate",
        folder / "test.npz",
        "--ood",
        folder / "ood.npz",
        "--resamples",
        100,
        "--report",
        folder / "report.html",
    ]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output


def import_seconds(module: str) -> float:
    """The processor time of an import in a new process, the least of five."""
    code = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    run = [sys.executable, "-c", code]
    return min(float(subprocess.check_output(run, text=True)) for _ in range(5))


def main() -> None:
    """Print the counts."""
    sources = list(SRC.rglob("*.py"))
    lines = sum(len(path.read_text().splitlines()) for path in sources)
    print(f"{len(sources)} modules, {lines:,} lines, {len(sw.__all__)} public names")

    own, floor = import_seconds("scorewise"), import_seconds("numpy, scipy.special")
    print(f"import scorewise: {own:.2f} s, {own / floor:.1f} times NumPy and scipy.special alone")

    probs = np.random.default_rng(0).dirichlet(np.ones(4), size=(5000, 20))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        labels = probs[:1000].mean(axis=1).argmax(axis=1)
        sw.write_predictions(folder / "test.npz", probs[:1000], labels=labels)
        sw.write_predictions(folder / "ood.npz", probs[1000:2000])
        flows: dict[str, Callable[[], object]] = {
            "sw.decompose": lambda: sw.decompose(probs, RULES),
            "scorewise evaluate": lambda: evaluate(folder),
        }
        for title, work in flows.items():
            work()  # the first call compiles and imports
            names = files_run(work)
            print(f"{title}: {len(names)} files\n  {', '.join(names)}")


if __name__ == "__main__":
    main()
