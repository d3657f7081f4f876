"""How fast is `decompose`? Ratios to one pass of `np.sum` over the same array, in one run.

    python benchmarks/decompose.py [--quick] [--write] [--against CHECKOUT]

Four rules together, each rule alone, the jackknife and related measures, members one at a time, few
classes and small arrays. With --against, all calls are timed in another checkout of scorewise, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

import scorewise as sw
import textbook
from calls import LAYOUTS, LOGITS, MEMBERS_FIRST, PACKED, STRIDED, WEIGHTED, Call, OtherVersion
from measuring import (
    N_MEMBERS,
    RULES,
    Others,
    Sheet,
    Work,
    fastest,
    machine,
    options,
    peak_memory,
    write_between,
)

# Times np.sum for K classes, and the goal beyond; DESIGN §6. Between 2 and 10 classes as for 2.
AT_MOST = {1_000: (1.2, 1.0), 100: (2, 1.6), 10: (3, 2.5), 2: (6, 4)}
AT_LEAST = 10  # times faster than the textbook
LARGE = 200_000_000  # numbers, as DESIGN has them; other dtypes and layouts have half of it
ROUNDS = 5
TEXTBOOK_ROUNDS = 2
TEXTBOOK_SHARE = 10  # the textbook is timed on one instance in so many

FOUR = tuple(RULES)
COSTS = "cost matrix, 5 actions"
ALONE = [
    "log",
    "brier",
    "zero-one",
    "spherical",
    "tsallis:1.5",
    "pseudospherical:3",
    "top-k:5",
    COSTS,
    "quadratic",
    "rps",
    "weighted log",
]
OF_TWO_CLASSES = ["beta:0,0", "beta:0.5,2", "beta:-0.5,-0.3"]
# Times log alone: 3, but for these; beta has closed forms for the first two.
AT_MOST_ALONE = {"top-k:5": 5, "beta:0,0": 10, "beta:0.5,2": 10, "beta:-0.5,-0.3": 30}
SMOOTH = ["log", "brier", "spherical", "tsallis:1.5", "pseudospherical:3", "weighted log"]
RELATED = [
    *(("unbiased=True", rule) for rule in SMOOTH),
    *(("standard_errors=True", rule) for rule in [*SMOOTH, "zero-one", COSTS]),
    *(("predictor=", rule) for rule in [*SMOOTH, "zero-one", "top-k:5", COSTS]),
    *(("pairwise_epistemic", rule) for rule in SMOOTH),
    ("reverse_epistemic", "log"),
    ("label_wise", "log"),
    ("decide", COSTS),
    ("task_losses", "log"),
]
MIDDLE = [(20_000, N_MEMBERS, 100), (200_000, N_MEMBERS, 10)]
SMALL = {(1, 20, 10): 3, (64, 20, 100): 1, (1_000, 20, 10): 1}  # at most so many times NumPy


@dataclass(frozen=True)
class Measured:
    """A call, and how long it took in this version and, if there is one, in the other."""

    call: Call
    ours: float
    theirs: float | None

    def cells(self, unit: float) -> list[str]:
        """Both times over a unit."""
        theirs = "" if self.theirs is None else ratio(self.theirs / unit)
        return [ratio(self.ours / unit), theirs]


def ratio(x: float) -> str:
    return f"{x:.2f}" if x < 100 else f"{x:.0f}"


def shape_cell(call: Call) -> str:
    return "{:,} × {} × {:,}".format(*call.shape)


def met(ours: float, at_most: float | None) -> str:
    if at_most is None:
        return ""
    return "yes" if ours <= at_most else "no: time"


@dataclass(frozen=True)
class Bench:
    """Measures calls, with another version where there is one."""

    shrink: int  # so many times fewer instances
    other: OtherVersion | None

    def size(self, call: Call) -> Call:
        """The call on fewer instances."""
        n, m, k = call.shape
        return replace(call, shape=(max(1, n // self.shrink), m, k))

    def theirs(self, call: Call) -> float | None:
        """Seconds of the call in the other version, if there is one."""
        return None if self.other is None else self.other.seconds(call)

    # -- four rules together ----------------------------------------------------------------------

    def four_rules(self) -> Iterator[Sheet]:
        """Four rules together: a table for each layout of the members in memory."""
        for layout in LAYOUTS:
            calls = [self.size(call) for call in four_rule_calls(layout)]
            rows = [self.four_rules_row(call) for call in track(calls, layout[:40])]
            headings = [
                "N × M × K",
                "dtype",
                "members",
                "time / np.sum",
                "other version / np.sum",
                *(["time / np.sum of a copy"] if layout == STRIDED else []),
                "at most (goal)",
                *(["speed-up over NumPy", "over torch"] if layout == PACKED else []),
                "memory / input",
                "met",
            ]
            yield Sheet(f"Four rules: {layout}", headings, rows, n_labels=3)

    def four_rules_row(self, call: Call) -> list[str]:
        """One row, with all its ratios."""
        check_agreement(call)
        textbook_seconds = textbook_times(call) if call.layout == PACKED else []
        work = call.prepare()
        array, _ = call.members()
        works: list[Work] = [work, array.sum]
        if call.layout == STRIDED:
            works.append(np.ascontiguousarray(array).sum)
        ours, floor, *copy = fastest(works, ROUNDS)
        speed_ups = [time / ours for time in textbook_seconds]
        at_most, goal = (factor(call) * number for number in targets(call.shape[-1]))
        names = ["time"] if ours / floor > at_most else []
        too_slow = [speed_up < AT_LEAST for speed_up in speed_ups]
        names += [name for name, slow in zip(("NumPy", "torch"), too_slow, strict=False) if slow]
        return [
            shape_cell(call),
            call.dtype,
            call.kind,
            *Measured(call, ours, self.theirs(call)).cells(floor),
            *(ratio(ours / time) for time in copy),
            f"{at_most:g} ({goal:g})",
            *(f"≈ {speed_up:.1f}" for speed_up in speed_ups),
            f"{peak_memory(work) / array.nbytes:.4f}",
            f"no: {', '.join(names)}" if names else "yes",
        ]

    # -- against log alone ------------------------------------------------------------------------

    def rules_alone(self) -> Sheet:
        """Every rule, over log on the same members."""
        calls = [
            Call((rule,), shape, kind=kind)
            for shape in MIDDLE
            for kind in ("doubtful", "near-agreeing")
            for rule in ALONE
        ]
        calls += [Call((rule,), (200_000, N_MEMBERS, 2)) for rule in ["log", *OF_TWO_CLASSES]]
        return self.against_log("Each rule alone", "rule", calls)

    def related(self) -> Sheet:
        """What else is computed of members, over log."""
        calls = [
            Call((rule,), shape, action=action) for shape in MIDDLE for action, rule in RELATED
        ]
        return self.against_log("The jackknife and related measures", "call", calls)

    def against_log(self, title: str, label: str, calls: Sequence[Call]) -> Sheet:
        """A table of calls, over log on the same members."""
        rows = [self.against_log_row(self.size(call)) for call in track(calls, title)]
        headings = [label, "N × M × K", "members", "time / np.sum", "other version / np.sum"]
        return Sheet(title, [*headings, "time / log alone", "at most", "met"], rows, n_labels=3)

    def against_log_row(self, call: Call) -> list[str]:
        """One row of it."""
        (rule,) = call.rules
        log = replace(call, rules=("log",), action="decompose")
        array, _ = call.members()
        ours, log_time, floor = fastest([call.prepare(), log.prepare(), array.sum], ROUNDS)
        theirs = self.theirs(call) if call.kind == "doubtful" else None
        at_most: float | None = AT_MOST_ALONE.get(rule, 3)
        if rule == "quadratic" and call.shape[-1] > 10:
            at_most = None  # bound by K² products
        return [
            f"{rule}" if call.action == "decompose" else f"{call.action}, {rule}",
            shape_cell(call),
            call.kind,
            *Measured(call, ours, theirs).cells(floor),
            ratio(ours / log_time),
            f"{at_most:g}" if at_most else "",
            met(ours / log_time, at_most),
        ]

    # -- members one at a time --------------------------------------------------------------------

    def one_at_a_time(self) -> Sheet:
        """Members that an accumulator gets one at a time, over all of them at once."""
        arrivals = [
            (MEMBERS_FIRST, "doubtful"),  # as they come from models
            (MEMBERS_FIRST, "near-agreeing"),
            (PACKED, "doubtful"),  # views of an array that has them all
        ]
        calls = [
            self.size(Call(rules, shape, kind=kind, layout=layout, action="Accumulator.update"))
            for shape in MIDDLE
            for layout, kind in arrivals
            for rules in (("log",), FOUR)
        ]
        rows = []
        for call in track(calls, "One at a time"):
            stacked = replace(call, action="decompose")
            array, _ = call.members()
            ours, together, floor = fastest([call.prepare(), stacked.prepare(), array.sum], ROUNDS)
            rows.append(
                [
                    ", ".join(call.rules),
                    shape_cell(call),
                    call.kind,
                    "contiguous" if call.layout == MEMBERS_FIRST else "strided",
                    *Measured(call, ours, self.theirs(call)).cells(floor),
                    ratio(ours / together),
                    "3",
                    met(ours / together, 3),
                ]
            )
        headings = ["rules", "N × M × K", "members", "in memory"]
        headings += ["time / np.sum", "other version / np.sum"]
        headings += ["time / decompose of all members", "at most", "met"]
        return Sheet("Accumulator.update, one member at a time", headings, rows, n_labels=4)

    # -- small arrays -----------------------------------------------------------------------------

    def small(self) -> Sheet:
        """Small arrays, over the formulas in NumPy."""
        rows = []
        for shape, at_most in SMALL.items():
            for dtype in ("float32", "float64"):
                call = Call(("log",), shape, dtype, action="decompose by one rule")
                array, _ = call.members()
                plain = partial(textbook.decompose, np, array, entropies=[textbook.log_entropy])
                repeats = max(1, 200_000 // array.size)
                works = [partial(repeat, work, repeats) for work in (call.prepare(), plain)]
                ours, formulas = fastest(works, 20)
                theirs = self.theirs(call)
                times = Measured(call, ours / repeats, theirs).cells(formulas / repeats)
                rows.append(
                    [shape_cell(call), dtype, *times, f"{at_most}", met(ours / formulas, at_most)]
                )
        headings = ["N × M × K", "dtype", "time / NumPy formulas", "other version / NumPy formulas"]
        return Sheet("Small arrays, log alone", [*headings, "at most", "met"], rows, n_labels=2)


def repeat(work: Work, times: int) -> None:
    for _ in range(times):
        work()


def four_rule_calls(layout: str) -> list[Call]:
    """All that is measured in a layout."""
    series = [("float32", "doubtful"), ("float32", "near-agreeing"), ("float64", "doubtful")]
    classes = list(AT_MOST)
    if layout == PACKED:
        series[2:2] = [("float32", "one-hot")]
        series += [("float64", "near-agreeing")]
        classes = [1_000, 100, 10, 5, 4, 3, 2]
    if layout == WEIGHTED:
        series = series[:1]
    calls = []
    for k in classes:
        for dtype, kind in series if k in AT_MOST else series[:2]:
            size = LARGE if layout == PACKED and dtype == "float32" and k in AT_MOST else LARGE // 2
            calls.append(Call(FOUR, (size // (N_MEMBERS * k), N_MEMBERS, k), dtype, kind, layout))
    return calls


def targets(k: int) -> tuple[float, float]:
    """Times np.sum, and the goal beyond."""
    return AT_MOST[max(known for known in AT_MOST if known <= k)]


def factor(call: Call) -> int:
    """How much more is allowed than for probabilities of doubtful members."""
    return (2 if call.kind == "near-agreeing" else 1) * (2 if call.layout == LOGITS else 1)


def textbook_of(call: Call, xp: ModuleType) -> list[Any]:
    """The straightforward version in NumPy or torch."""
    array, arguments = call.members()
    weights = arguments.get("weights")
    return textbook.decompose(
        xp,
        xp.asarray(array),
        0 if call.layout == MEMBERS_FIRST else 1,
        None if weights is None else xp.asarray(weights / weights.sum()),
        call.layout == LOGITS,
    )


def check_agreement(call: Call) -> None:
    """Kernel and textbook compute the same numbers, to the latter's accuracy."""
    _, m, k = call.shape
    few = replace(call, shape=(-(-(1 << 18) // (m * k)), m, k))
    array, arguments = few.members()
    if sw.explain_kernel(array, FOUR, **arguments).path != "cpu":
        raise SystemExit(f"the fused kernel does not take {call}")
    ours = np.stack([part for d in sw.decompose(array, FOUR, **arguments).values() for part in d])
    for xp in (np, torch):
        theirs = np.stack([np.asarray(part) for part in textbook_of(few, xp)])
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-4)


def textbook_times(call: Call) -> list[float]:
    """Seconds for all instances in NumPy and in torch, scaled up from a part of them."""
    n, m, k = call.shape
    part = replace(call, shape=(-(-n // TEXTBOOK_SHARE), m, k))
    works: list[Work] = [
        partial(textbook_of, part, np),
        partial(textbook_of, part, torch),
        partial(on_one_thread, part),
    ]
    numpy_time, *torch_times = fastest(works, TEXTBOOK_ROUNDS)
    return [TEXTBOOK_SHARE * numpy_time, TEXTBOOK_SHARE * min(torch_times)]


def on_one_thread(call: Call) -> None:
    """The textbook in torch on one thread, much the faster where other work holds a core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    textbook_of(call, torch)
    torch.set_num_threads(threads)


def summary(sheets: Sequence[Sheet]) -> str:
    """What was measured where, and how many rows met their targets."""
    verdicts = [row[-1] for sheet in sheets for row in sheet.rows if row[-1]]
    n_met = sum(verdict == "yes" for verdict in verdicts)
    n_slow = sum("time" in verdict for verdict in verdicts)
    return (
        f"Measured on {machine()}. Of {len(verdicts)} rows with a target, {n_met} meet all, and "
        f"{len(verdicts) - n_slow} that of time. `decompose` counts by the best of {ROUNDS} runs, "
        f"the straightforward versions by the best of {TEXTBOOK_ROUNDS} on a tenth of the "
        "instances, with the time scaled up (≈)."
    )


def main() -> None:
    chosen = options(__doc__)
    others = Others()
    with OtherVersion(chosen.against) if chosen.against else nullcontext() as other:
        bench = Bench(10 if chosen.quick else 1, other)
        sheets = [
            *bench.four_rules(),
            bench.rules_alone(),
            bench.related(),
            bench.one_at_a_time(),
            bench.small(),
        ]
    text = f"{summary(sheets)} {others}"
    console = Console(width=140)
    for table in sheets:
        console.print(table.rich())
    console.print(text)
    if chosen.write:
        write_between("table", "\n\n".join([text, *(table.markdown() for table in sheets)]))


if __name__ == "__main__":
    main()
