"""How fast is `scorewise score`, and how much memory does it take? Ratios to pyarrow alone.

    python benchmarks/files.py [--quick] [--write]

A folder of Parquet files with 5 GB of predictions in float32 is generated in a temporary folder.
Then pyarrow reads it, and the command scores it, each in a process of its own, by turns: pyarrow
file by file as whole tables, and in batches that are dropped, the least that reading takes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

import scorewise as sw
from measuring import N_MEMBERS, Others, Sheet, fill_with_members, machine, options, write_between

N_CLASSES = 10
FILE_BYTES = 250_000_000
MEMORY_AT_MOST = 1e9  # bytes
SPEED_AT_LEAST = 0.5  # of pyarrow's
ROUNDS = 3
_LOOK = 0.02  # seconds between two looks at a process

_READ = {
    "pyarrow, whole tables": "for f in files: pq.read_table(f)",
    "pyarrow, batches": """
for f in files:
    with pq.ParquetFile(f) as file:
        for batch in file.iter_batches(40_000):
            pass""",
}
_RULES = ["log,zero-one", "log,brier,zero-one,spherical"]


@dataclass(frozen=True)
class Run:
    """What a process took."""

    seconds: float
    peak: int  # bytes that were resident at once, at most


def generate(folder: Path, n_files: int) -> int:
    """Files of predictions, and their bytes in all."""
    rows = FILE_BYTES // (N_MEMBERS * N_CLASSES * 4)
    probs = np.empty((rows, N_MEMBERS, N_CLASSES), np.float32)
    for i in track(range(n_files), description="generating", console=Console(stderr=True)):
        fill_with_members(probs, "doubtful")
        ids = np.arange(i * rows, (i + 1) * rows)
        sw.write_predictions(folder / f"part-{i:03d}.parquet", np.roll(probs, i, axis=0), ids=ids)
    return sum(file.stat().st_size for file in folder.iterdir())


def timed(command: Sequence[str]) -> Run:
    """Run a command to its end."""
    began, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(_LOOK)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command)[:80]} failed")
    return Run(seconds, peak)


def resident(pid: int) -> int:
    """The most memory of a process that was resident at once so far, in bytes.

    Not from getrusage, whose number for a new process begins with that of its parent.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    peaks = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return 1024 * int(peaks[0]) if peaks else 0


def read_by(code: str, folder: Path) -> list[str]:
    """The command that reads with pyarrow alone."""
    files = f"import pathlib, pyarrow.parquet as pq; files = sorted(pathlib.Path({str(folder)!r})"
    return [sys.executable, "-c", f"{files}.iterdir())\n{code}"]


def score_by(rules: str, folder: Path, out: Path) -> list[str]:
    """The command that scores."""
    scorewise = str(Path(sys.executable).with_name("scorewise"))
    return [scorewise, "score", str(folder), "--rules", rules, "--out", str(out)]


def measure(folder: Path, rounds: int) -> dict[str, Run]:
    """The fastest run of each, and the largest peak; they take turns."""
    own = folder.parent
    commands = {name: read_by(code, folder) for name, code in _READ.items()}
    commands |= {
        f"scorewise score, {rules}": score_by(rules, folder, own / "U.parquet") for rules in _RULES
    }
    all_runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in track(range(rounds), description="measuring", console=Console(stderr=True)):
        for name, command in commands.items():
            all_runs[name].append(timed(command))
    return {
        name: Run(min(run.seconds for run in runs), max(run.peak for run in runs))
        for name, runs in all_runs.items()
    }


def sheet(fastest: dict[str, Run], n_bytes: int) -> Sheet:
    """Speeds as ratios, memory in GB."""
    readers = list(_READ)
    rows = []
    for name, run in fastest.items():
        ratios = [fastest[reader].seconds / run.seconds for reader in readers]
        missed = []
        if name not in readers:
            if min(ratios) < SPEED_AT_LEAST:
                missed.append("speed")
            if run.peak > MEMORY_AT_MOST:
                missed.append("memory")
        verdict = "" if name in readers else f"no: {', '.join(missed)}" if missed else "yes"
        rows.append([name, *(f"{ratio:.2f}" for ratio in ratios), f"{run.peak / 1e9:.2f}", verdict])
    headings = ["", *(f"speed / {reader}" for reader in readers), "resident at most, GB", "met"]
    return Sheet(f"{n_bytes / 1e9:.1f} GB of Parquet files", headings, rows, 1)


def main() -> None:
    chosen = options(__doc__)
    others = Others()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "predictions"
        folder.mkdir()
        n_bytes = generate(folder, 2 if chosen.quick else 20)
        made = sheet(measure(folder, 1 if chosen.quick else ROUNDS), n_bytes)
    text = (
        f"Measured on {machine()}; the fastest of {ROUNDS} runs of each, by turns, each a new "
        f"process, start and imports included. The target is at least {SPEED_AT_LEAST} of the "
        f"speed at which pyarrow alone reads, and at most {MEMORY_AT_MOST / 1e9:.0f} GB resident. "
        f"{others}"
    )
    Console().print(made.rich(), text)
    if chosen.write:
        write_between("files", f"{text}\n\n{made.markdown()}")


if __name__ == "__main__":
    main()
