"""How fast is `decompose`? Ratios to one pass of `np.sum` over the same array, in one run.

    python benchmarks/decompose.py [--quick] [--write]

One pass computes total, aleatoric and epistemic uncertainty of the four rules of the paper. The
members are doubtful (independent), near-agreeing (logit noise 0.05) or one-hot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

import scorewise as sw
import textbook
from measuring import (
    N_MEMBERS,
    RULES,
    Others,
    Sheet,
    Work,
    fastest,
    fill_with_members,
    machine,
    options,
    peak_memory,
    write_between,
)
from scorewise.decompose import Decomposition

AT_MOST = {1_000: 2, 100: 3, 10: 5}  # times np.sum for K classes, DESIGN §6
AT_LEAST = 10  # times faster than the textbook, DESIGN §6
SHAPES = [(200_000_000 // (N_MEMBERS * k), N_MEMBERS, k) for k in AT_MOST]
DTYPES = ["float32", "float64"]
TWO_KINDS = ["doubtful", "near-agreeing"]
THREE_KINDS = [*TWO_KINDS, "one-hot"]

ROUNDS = 5
TEXTBOOK_ROUNDS = 2

PACKED, MEMBERS_FIRST, STRIDED, LOGITS, WEIGHTED = LAYOUTS = [
    "Probabilities (N, M, K)",
    "Probabilities (M, N, K)",
    "A strided view: every second member of (N, 2M, K)",
    "Logits (N, M, K)",
    "Probabilities (N, M, K) with weights (M,)",
]


@dataclass(frozen=True)
class Case:
    """What one row of the tables measures."""

    layout: str
    shape: tuple[int, int, int]
    dtype: str
    kind: str

    @property
    def at_most(self) -> int:
        """The time that DESIGN §6 allows, over np.sum."""
        allowed = AT_MOST[self.shape[-1]]
        allowed *= 2 if self.kind == "near-agreeing" else 1
        return allowed * (2 if self.layout == LOGITS else 1)

    @property
    def textbook_part(self) -> int:
        """The textbook is timed on one instance in so many: all where DESIGN §6 sets targets."""
        return 1 if self.layout == PACKED and self.dtype == "float32" else 10


@dataclass(frozen=True)
class Input:
    """The arguments of a decomposition."""

    array: np.ndarray
    member_axis: int
    weights: np.ndarray | None
    from_logits: bool

    def decompose(self) -> dict[str, Decomposition]:
        """What is measured."""
        return sw.decompose(self.array, RULES, **self._options())

    def path(self) -> str:
        """Which path it takes."""
        return sw.explain_kernel(self.array, RULES, **self._options()).path

    def _options(self) -> dict[str, Any]:
        return {
            "member_axis": self.member_axis,
            "weights": self.weights,
            "from_logits": self.from_logits,
        }

    def textbook(self, xp: ModuleType) -> list[Any]:
        """The straightforward version in NumPy or torch."""
        values, weights = xp.asarray(self.array), None
        if self.weights is not None:
            weights = xp.asarray(self.weights / self.weights.sum())
        return textbook.decompose(xp, values, self.member_axis, weights, self.from_logits)


@dataclass(frozen=True)
class Result:
    """One row of the tables: ratios, measured in one run."""

    case: Case
    over_sum: float
    over_packed_sum: float | None  # of a contiguous copy, where the array is a view
    over_numpy: float
    over_torch: float
    extra_memory: float

    @property
    def misses(self) -> list[str]:
        """The targets that are missed: the time, or the speed-up over NumPy or torch."""
        missed = {
            "time": self.over_sum > self.case.at_most,
            "NumPy": self.over_numpy < AT_LEAST,
            "torch": self.over_torch < AT_LEAST,
        }
        return [name for name, is_missed in missed.items() if is_missed]

    def cells(self) -> list[str]:
        """The row, in the order of the headings."""
        case = self.case
        about = "" if case.textbook_part == 1 else "≈ "
        packed = [] if self.over_packed_sum is None else [f"{self.over_packed_sum:.2f}"]
        return [
            "{:,} × {} × {:,}".format(*case.shape),
            case.dtype,
            case.kind,
            f"{self.over_sum:.2f}",
            *packed,
            f"{case.at_most}",
            f"{about}{self.over_numpy:.1f}",
            f"{about}{self.over_torch:.1f}",
            f"{self.extra_memory:.4f}",
            f"no: {', '.join(self.misses)}" if self.misses else "yes",
        ]


def all_cases(shrink: int) -> list[Case]:
    """All that is measured, with so many times fewer instances than in DESIGN §6."""
    return [
        Case(layout, (n // shrink, m, k), dtype, kind)
        for layout in LAYOUTS
        for n, m, k in SHAPES
        for dtype in (["float32"] if layout == WEIGHTED else DTYPES)
        for kind in (THREE_KINDS if layout == PACKED else TWO_KINDS)
    ]


def make(case: Case, n: int) -> Input:
    """Input of n instances, laid out in memory as the case wants it."""
    _, m, k = case.shape
    from_logits = case.layout == LOGITS
    if case.layout == MEMBERS_FIRST:
        array = np.empty((m, n, k), case.dtype)
        fill_with_members(np.moveaxis(array, 0, 1), case.kind)
        return Input(array, 0, None, False)
    if case.layout == STRIDED:
        memory = np.empty((n, 2 * m, k), case.dtype)
        fill_with_members(memory, case.kind)
        return Input(memory[:, ::2], 1, None, False)
    array = np.empty((n, m, k), case.dtype)
    fill_with_members(array, case.kind, from_logits)
    weights = np.arange(1, m + 1, dtype=case.dtype) if case.layout == WEIGHTED else None
    return Input(array, 1, weights, from_logits)


def measure(case: Case) -> Result:
    """All ratios of one case."""
    check_agreement(case)
    numpy_time, torch_time = textbook_times(case)
    data = make(case, case.shape[0])
    works: list[Work] = [data.decompose, data.array.sum]
    if case.layout == STRIDED:
        works.append(np.ascontiguousarray(data.array).sum)
    ours, floor, *packed = fastest(works, ROUNDS)
    return Result(
        case,
        over_sum=ours / floor,
        over_packed_sum=ours / packed[0] if packed else None,
        over_numpy=numpy_time / ours,
        over_torch=torch_time / ours,
        extra_memory=peak_memory(data.decompose) / data.array.nbytes,
    )


def check_agreement(case: Case) -> None:
    """Kernel and textbook compute the same numbers, to the latter's accuracy."""
    _, m, k = case.shape
    data = make(case, -(-(1 << 18) // (m * k)))
    if data.path() != "cpu":
        raise SystemExit(f"the fused kernel does not take {case}")
    ours = np.stack([part for d in data.decompose().values() for part in d])
    for xp in (np, torch):
        theirs = np.stack([np.asarray(part) for part in data.textbook(xp)])
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-4)


def textbook_times(case: Case) -> tuple[float, float]:
    """Seconds for all instances in NumPy and in torch, scaled up from a part of them."""
    part = case.textbook_part
    data = make(case, case.shape[0] // part)
    works: list[Work] = [
        partial(data.textbook, np),
        partial(data.textbook, torch),
        partial(on_one_thread, data),
    ]
    numpy_time, *torch_times = fastest(works, TEXTBOOK_ROUNDS)
    return part * numpy_time, part * min(torch_times)


def on_one_thread(data: Input) -> None:
    """The textbook in torch on one thread, much the faster where other work holds a core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    data.textbook(torch)
    torch.set_num_threads(threads)


def sheets(results: Sequence[Result]) -> list[Sheet]:
    """One table for each layout of the members in memory."""
    return [sheet(layout, [r for r in results if r.case.layout == layout]) for layout in LAYOUTS]


def sheet(layout: str, results: Sequence[Result]) -> Sheet:
    headings = [
        "N × M × K",
        "dtype",
        "members",
        "time / np.sum",
        *(["time / np.sum of a copy"] if layout == STRIDED else []),
        "at most",
        "speed-up over NumPy",
        "speed-up over torch",
        "memory / input",
        "met",
    ]
    return Sheet(layout, headings, [result.cells() for result in results], n_labels=3)


def summary(results: Sequence[Result]) -> str:
    """What was measured where, and how many rows met their targets."""
    misses = [name for result in results for name in result.misses]
    n = len(results)
    return (
        f"Measured on {machine()}. Of {n} rows, {n - misses.count('time')} stay within their time "
        f"over `np.sum`, {n - misses.count('NumPy')} are at least {AT_LEAST} times faster than the "
        f"straightforward NumPy version and {n - misses.count('torch')} than the torch version. "
        f"These two count by the best of {TEXTBOOK_ROUNDS} runs, `decompose` by the best of "
        f"{ROUNDS}; they ran on all instances or, where the speed-up has a ≈, on a tenth of them, "
        "with the time scaled up linearly."
    )


def main() -> None:
    chosen = options(__doc__)
    cases = all_cases(10 if chosen.quick else 1)
    others = Others()
    results = [measure(case) for case in track(cases, description="Measuring")]
    text = f"{summary(results)} {others}"
    console = Console(width=128)
    for table in sheets(results):
        console.print(table.rich())
    console.print(text)
    if chosen.write:
        tables = [table.markdown() for table in sheets(results)]
        write_between("table", "\n\n".join([text, *tables]))


if __name__ == "__main__":
    main()
