"""Data sets, clusters and work that waits for a file, for the tests of ``scale/``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

import scorewise as sw
from scorewise.io import RowScores

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no tests

HANG = 120  # seconds after which a process is taken for hanging
N_PARTITIONS, N_ROWS, N_MEMBERS, N_CLASSES = 8, 40, 4, 3
RULES = ["log", "zero-one"]


def random_members(seed: int, n: int = N_ROWS) -> np.ndarray:
    """Probabilities (n, M, K) in float32."""
    members = np.random.default_rng(seed).dirichlet(np.ones(N_CLASSES), size=(n, N_MEMBERS))
    return members.astype(np.float32)


def write_dataset(
    folder: Path,
    *,
    ids: bool = True,
    labels: bool = False,
    change: Callable[[int, np.ndarray], Any] | None = None,
) -> Path:
    """A folder of files; the ids of a row are its partition and number: 3-17."""
    folder.mkdir()
    for i in range(N_PARTITIONS):
        probs = random_members(i)
        if change is not None:
            change(i, probs)
        names = [f"{i}-{row}" for row in range(len(probs))]
        path = folder / f"day-{i}.parquet"
        of_rows = np.arange(len(probs)) % N_CLASSES if labels else None
        sw.write_predictions(path, probs, labels=of_rows, ids=names if ids else None)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, by their relative names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of the last change of every output that is complete."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in sorted(folder.glob("*.parquet"))
    }


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait for another process or thread."""
    end = time.monotonic() + HANG
    while not is_true():
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.01)


@dataclass(frozen=True)
class HeldScores:
    """Scores whose work on one partition waits until there is a file ``go``.

    Meanwhile the file ``held`` has the number of the worker's process.
    """

    folder: Path
    partition: int
    scores: RowScores

    @property
    def names(self) -> list[str]:
        return self.scores.names

    @property
    def fields(self) -> frozenset[str]:
        return self.scores.fields

    def settings(self) -> dict[str, Any]:
        return self.scores.settings()

    def counts(self, columns: Any) -> dict[str, np.ndarray]:
        return self.scores.counts(columns)

    def columns(self, chunk: Any, first_row: int) -> Any:
        if len(chunk) and chunk.ids[0].startswith(f"{self.partition}-"):
            partial = self.folder / f"held.{os.getpid()}"
            partial.write_text(str(os.getpid()))
            partial.rename(self.folder / "held")
            wait_until((self.folder / "go").exists)
        return self.scores.columns(chunk, first_row)


def held_scores(folder: Path, partition: int) -> HeldScores:
    """Scores by the usual rules that wait at a partition."""
    folder.mkdir(exist_ok=True)
    return HeldScores(folder, partition, RowScores({name: sw.get_rule(name) for name in RULES}))


def held_process(folder: Path, run: Future[Any] | None = None) -> int:
    """The number of the process that waits in a run."""
    wait_until(lambda: (folder / "held").exists() or (run is not None and run.done()))
    if run is not None and run.done():
        run.result()
    return int((folder / "held").read_text())


def let_go(folder: Path) -> None:
    """Let all processes go on."""
    (folder / "go").touch()


@contextmanager
def local_cluster(n_workers: int = 2, *, processes: bool = True) -> Iterator[Any]:
    """A client of real processes with one thread each, or of threads."""
    from distributed import Client, LocalCluster

    started = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=processes,
        host="127.0.0.1" if processes else None,
        dashboard_address="127.0.0.1:0",
    )
    with started, Client(started) as client:
        yield client


def forget_scorewise() -> None:
    """Let this process, a worker, look as if scorewise was not installed."""
    import sys

    for name in [name for name in sys.modules if name.partition(".")[0] == "scorewise"]:
        del sys.modules[name]
    sys.modules["scorewise"] = None  # an import fails


@contextmanager
def scheduler_process(
    folder: Path, **options: Any
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler of its own and its address, with one worker process."""
    from distributed import Client

    file = folder / "scheduler.json"
    arguments = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--port", "0"]
    command = ("-m", "distributed.cli.dask_scheduler", *arguments, "--no-dashboard")
    with process(*command, **options) as scheduler:
        wait_until(lambda: file.exists() and bool(file.read_text()))
        address = json.loads(file.read_text())["address"]
        with worker_process(address):
            with Client(address) as probe:
                probe.wait_for_workers(1)
            yield scheduler, address


def worker_process(address: str, *, has_nanny: bool = False, **options: Any) -> Any:
    """A worker of its own with one thread."""
    arguments = [address, "--nthreads", "1", "--nanny" if has_nanny else "--no-nanny"]
    return process("-m", "distributed.cli.dask_worker", *arguments, "--no-dashboard", **options)


def other_scorewise(folder: Path, code: str) -> list[Path]:
    """The path of a module that processes import instead of scorewise."""
    (folder / "other").mkdir()
    (folder / "other/scorewise.py").write_text(code)
    return [folder / "other"]


@contextmanager
def process(*arguments: str, path: Sequence[Path] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Another process of Python, which is killed at the end; it finds modules in ``path`` first."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    paths = [*map(str, path), *filter(None, sys.path)]  # with the modules of the tests
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen([sys.executable, *arguments], env=environment, **quiet) as started:
        try:
            yield started
        finally:
            started.kill()
