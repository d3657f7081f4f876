"""What does a Dask cluster cost, and what does a second worker gain? Ratios of runs by turns.

    python benchmarks/scale.py [--quick] [--write]

A folder of Parquet files of 50 MB each, 10 GB in all, is generated in a temporary folder. The
command `scorewise score` reads it in one process, and with `--scheduler local:N` on a cluster of N
worker processes, with one kernel thread each. What is compared with one process runs on one core,
client, scheduler and worker together.
"""

from __future__ import annotations

import os
import shutil
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
from measuring import (
    N_MEMBERS,
    RULES,
    Others,
    Sheet,
    fill_with_members,
    machine,
    options,
    write_between,
)

N_CLASSES = 10
ROUNDS = 2
OVERHEAD_AT_MOST = 0.15
MEMORY_GROWTH_AT_MOST = 1.1
_LOOK = 0.05  # seconds between two looks at the processes

PLAIN, ONE_CORE, ONE, TWO = "one process", "local:1, one core", "local:1", "local:2"


@dataclass(frozen=True)
class Run:
    """What a command took: seconds, those of processors, and bytes resident at once, at most."""

    seconds: float
    processor: float
    client: int
    worker: int


def generate(folder: Path, n_files: int, file_bytes: int) -> int:
    """Files of predictions, all different, and the number of rows in each."""
    rows = file_bytes // (N_MEMBERS * N_CLASSES * 4)
    probs = np.empty((rows, N_MEMBERS, N_CLASSES), np.float32)
    fill_with_members(probs, "doubtful")
    folder.mkdir()
    for i in track(range(n_files), description="generating", console=Console(stderr=True)):
        ids = np.arange(i * rows, (i + 1) * rows)
        sw.write_predictions(folder / f"part-{i:03d}.parquet", np.roll(probs, i, axis=0), ids=ids)
    return rows


def fewer_files(folder: Path, n_files: int) -> Path:
    """A folder with the first files of another, which are not copied."""
    few = folder.with_name(f"{folder.name}-{n_files}")
    few.mkdir()
    for file in sorted(folder.iterdir())[:n_files]:
        os.link(file, few / file.name)
    return few


def command(name: str, folder: Path, out: Path) -> list[str]:
    """The command that scores a folder."""
    scorewise = str(Path(sys.executable).with_name("scorewise"))
    scored = [scorewise, "score", str(folder), "--rules", ",".join(RULES), "--out"]
    if name == PLAIN:
        return [*scored, str(out / "U.parquet")]
    return [*scored, str(out / "U"), "--scheduler", name.partition(",")[0]]


def timed(name: str, folder: Path) -> Run:
    """Run a command to its end, with one kernel thread in each process."""
    out = Path(tempfile.mkdtemp(dir=folder.parent))
    cores = os.sched_getaffinity(0)
    is_on_one_core = name in {PLAIN, ONE_CORE}
    client, worker, began = 0, 0, time.perf_counter()
    try:
        os.sched_setaffinity(0, {min(cores)} if is_on_one_core else cores)
        process = subprocess.Popen(
            command(name, folder, out),
            stdout=subprocess.DEVNULL,
            env={**os.environ, "SCOREWISE_NUM_THREADS": "1"},
        )
        os.sched_setaffinity(0, cores)
        pid = 0
        while not pid:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)  # with all its descendants
            client = max(client, resident(process.pid))
            worker = max([worker, *map(resident, descendants(process.pid))])
            time.sleep(_LOOK)
        seconds = time.perf_counter() - began
    finally:
        os.sched_setaffinity(0, cores)
        shutil.rmtree(out)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{name} failed")
    return Run(seconds, used.ru_utime + used.ru_stime, client, worker)


def resident(pid: int) -> int:
    """The most memory of a process that was resident at once so far, in bytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    peaks = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return 1024 * int(peaks[0]) if peaks else 0


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have started."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(status.parent.name)] = int(fields[1])
    children: list[int] = []
    new = [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        children += new
    return children


def measure(folders: Sequence[Path], rounds: int) -> dict[tuple[str, Path], Run]:
    """The fastest run of each command on each folder, and the largest peaks; they take turns."""
    works = [(name, folder) for name in (PLAIN, ONE_CORE, ONE, TWO) for folder in folders]
    runs: dict[tuple[str, Path], list[Run]] = {work: [] for work in works}
    for _ in range(rounds):
        for work in track(works, description="measuring", console=Console(stderr=True)):
            runs[work].append(timed(*work))
    return {
        work: Run(
            min(run.seconds for run in of_work),
            min(run.processor for run in of_work),
            max(run.client for run in of_work),
            max(run.worker for run in of_work),
        )
        for work, of_work in runs.items()
    }


def verdict(is_met: bool) -> str:
    """A cell that says whether a target is met."""
    return "yes" if is_met else "no: missed"


def sheets(runs: dict[tuple[str, Path], Run], few: Path, many: Path, rows: int) -> list[Sheet]:
    """Ratios of times and of memory, and rows per second."""
    n_few, n_many = (len(list(folder.iterdir())) for folder in (few, many))

    def seconds(name: str) -> tuple[float, float]:
        """Of the whole run, and for each further partition."""
        run_of_few, run_of_many = runs[name, few].seconds, runs[name, many].seconds
        return run_of_many, (run_of_many - run_of_few) / (n_many - n_few)

    def ratios(name: str, other: str) -> list[float]:
        pairs = zip(seconds(name), seconds(other), strict=True)
        of_processors = runs[name, many].processor / runs[other, many].processor
        return [*(of_name / of_other for of_name, of_other in pairs), of_processors]

    overhead, speed_up = ratios(ONE_CORE, PLAIN), ratios(ONE, TWO)
    times = [
        [
            "time, local:1 / one process, on one core",
            *(f"{x:.2f}" for x in overhead),
            verdict(overhead[0] <= 1 + OVERHEAD_AT_MOST),
        ],
        ["speed, local:2 / local:1", *(f"{x:.2f}" for x in speed_up[:2]), "", ""],
    ]
    memory = []
    for role in ("client", "worker"):
        peaks = [getattr(runs[ONE, folder], role) for folder in (few, many)]
        growth = peaks[1] / peaks[0]
        is_met = growth <= MEMORY_GROWTH_AT_MOST
        memory.append([role, *(f"{x / 1e6:.0f}" for x in peaks), f"{growth:.2f}", verdict(is_met)])
    cores = {PLAIN: 1, ONE_CORE: 1, TWO: 2}
    speeds = [
        [
            name,
            f"{rows / seconds(name)[1] / n:,.0f}",
            f"{rows * n_many / seconds(name)[0] / n:,.0f}",
        ]
        for name, n in cores.items()
    ]
    title = f"{n_many} partitions of {rows:,} rows, {N_MEMBERS} members and {N_CLASSES} classes"
    peaks_title = [f"MB, {n} partitions" for n in (n_few, n_many)]
    return [
        Sheet(title, ["", "whole run", "per partition", "processor time", "met"], times, 1),
        Sheet("Memory, local:1", ["", *peaks_title, "ratio", "met"], memory, 1),
        Sheet(
            "Rows per second and core, four rules", ["", "per partition", "whole run"], speeds, 1
        ),
    ]


def main() -> None:
    chosen = options(__doc__)
    others = Others()
    n_files, file_bytes = (20, 5_000_000) if chosen.quick else (200, 50_000_000)
    with tempfile.TemporaryDirectory() as temporary:
        many = Path(temporary) / "predictions"
        rows = generate(many, n_files, file_bytes)
        few = fewer_files(many, n_files // 4)
        runs = measure([few, many], 1 if chosen.quick else ROUNDS)
        made = sheets(runs, few, many, rows)
    text = (
        f"Measured on {machine()}; the fastest of {ROUNDS} runs of each, by turns, each a new "
        "process. A whole run includes imports and the start of the cluster; the time per "
        "partition is the difference of two runs over the difference in partitions. The targets "
        f"are an overhead of {OVERHEAD_AT_MOST:.0%} for the whole run, and memory that grows by at "
        f"most {MEMORY_GROWTH_AT_MOST - 1:.0%} with four times as many partitions. {others}"
    )
    for sheet in made:
        Console().print(sheet.rich())
    Console().print(text)
    if chosen.write:
        write_between("scale", "\n\n".join([text, *(sheet.markdown() for sheet in made)]))


if __name__ == "__main__":
    main()
