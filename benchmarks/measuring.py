"""What the benchmarks share: members to measure on, clocks, and tables to show."""

from __future__ import annotations

import os
import platform
import time
import tracemalloc
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

RULES = ["log", "brier", "zero-one", "spherical"]
N_MEMBERS = 20

HERE = Path(__file__).parent
README = HERE / "README.md"

_BLOCK = 4_000_000  # numbers that are drawn; larger arrays repeat them

Work = Callable[[], object]


def draw_logits(kind: str, n: int, m: int, k: int) -> np.ndarray:
    """Logits (n, m, k) of doubtful (independent), near-agreeing or one-hot members."""
    rng = np.random.default_rng(0)
    if kind == "one-hot":
        hot = np.eye(k, dtype=bool)[rng.integers(k, size=(n, m))]
        return np.where(hot, 0.0, -np.inf)
    noise = {"doubtful": 2.0, "near-agreeing": 0.05}[kind]
    return 2 * rng.normal(size=(n, 1, k)) + noise * rng.normal(size=(n, m, k))


def softmax(logits: np.ndarray) -> np.ndarray:
    masses = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(masses / masses.sum(axis=-1, keepdims=True))


def fill_with_members(array: np.ndarray, kind: str, logits: bool = False) -> None:
    """Fill an array or view (N, M, K); a block of instances is drawn once and repeated."""
    n, m, k = array.shape
    block = draw_logits(kind, min(n, max(1, _BLOCK // (m * k))), m, k)
    block = (block if logits else softmax(block)).astype(array.dtype)
    for start in range(0, n, len(block)):
        array[start : start + len(block)] = block[: n - start]


def fastest(works: Sequence[Work], rounds: int) -> list[float]:
    """The shortest time of each, in seconds; they take turns, so that noise falls on all alike."""
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for i, work in enumerate(works):
            start = time.perf_counter()
            work()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def peak_memory(work: Work) -> int:
    """The most memory that Python and NumPy held at once beyond what they had, in bytes."""
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def machine() -> str:
    """The type of the processor and the number of cores that this process may use."""
    lines = []
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    usable = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {len(usable)} cores"


class Others:
    """How busy other processes keep the machine from now on: they spoil what is measured."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._busy = _busy_elsewhere()

    def share(self) -> float:
        """Of all cores' time since the start, what others had, as far as the system tells."""
        elapsed = time.perf_counter() - self._start
        return max(0.0, _busy_elsewhere() - self._busy) / (elapsed * (os.cpu_count() or 1))

    def __str__(self) -> str:
        return f"Other work took {100 * self.share():.0f} % of the machine meanwhile."


def _busy_elsewhere() -> float:
    """Seconds that all cores have worked since the machine started, but not for this process.

    Nor for those that it started and waited for.
    """
    if not Path("/proc/stat").exists():
        return 0.0
    first, *_ = Path("/proc/stat").read_text().splitlines()
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(int, first.split()[1:])
    ticks = user + nice + system + irq + softirq + steal
    children = os.times().children_user + os.times().children_system
    return ticks / os.sysconf("SC_CLK_TCK") - time.process_time() - children


@dataclass(frozen=True)
class Sheet:
    """A table for the console and for Markdown; cells that start with "no:" are shown in red."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_labels: int  # leading columns that hold text, not numbers

    def rich(self) -> Table:
        """The table for the console."""
        table = Table(title=self.title, title_justify="left")
        for i, heading in enumerate(self.headings):
            is_label = i < self.n_labels
            table.add_column(heading, justify="left" if is_label else "right", no_wrap=is_label)
        for row in self.rows:
            table.add_row(*(f"[red]{c}[/]" if c.startswith("no:") else c for c in row))
        return table

    def markdown(self) -> str:
        """The table below a heading."""
        n_numbers = len(self.headings) - self.n_labels
        rules = ["---"] * self.n_labels + ["---:"] * n_numbers
        lines = ["| " + " | ".join(row) + " |" for row in [self.headings, rules, *self.rows]]
        return "\n".join([f"### {self.title}", "", *lines])


def write_between(marker: str, text: str, path: Path = README) -> None:
    """Replace what stands between ``<!-- marker -->`` and ``<!-- /marker -->``."""
    before, start, rest = path.read_text(encoding="utf-8").partition(f"<!-- {marker} -->")
    _, end, after = rest.partition(f"<!-- /{marker} -->")
    if not (start and end):
        raise SystemExit(f"{path.name} has no <!-- {marker} --> … <!-- /{marker} -->")
    path.write_text(f"{before}{start}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def options(description: str | None, parts: Sequence[str] = ()) -> Namespace:
    """The options of all benchmarks; one of several parts may be run alone."""
    parser = ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="about a tenth of the work")
    parser.add_argument("--write", action="store_true", help="put the tables into the README")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="CHECKOUT",
        help="another checkout of scorewise, which decompose.py measures beside this one",
    )
    if parts:
        parser.add_argument("--only", choices=parts, help="run one part, and write its tables")
    chosen = parser.parse_args()
    if chosen.quick and chosen.write:
        parser.error("the README holds measurements at full size: leave out --quick or --write")
    return chosen
