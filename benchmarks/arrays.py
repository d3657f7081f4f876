"""How fast is the array path? Ratios to the textbook formulas in the same library, in one run.

    python benchmarks/arrays.py [--quick] [--write]

The array path serves what no kernel does, so kernels are switched off here. The textbook computes
total and aleatoric uncertainty and their difference, and checks nothing. Each side runs on one
thread. The target is three times its time. Memory is what is held besides the input, of NumPy in
float32; the target is a tenth of a large input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import scorewise as sw
import textbook
from measuring import (
    Others,
    Sheet,
    fastest,
    fill_with_members,
    machine,
    options,
    peak_memory,
    write_between,
)
from scorewise.kernels import KERNELS

AT_MOST = 3  # times the textbook
MEMORY = 0.1  # of a large input
SMALL = [(64, 20, 100), (1_000, 20, 10)]
LARGE = [(5_000, 20, 100), (50_000, 20, 10)]
LIBRARIES = [("NumPy", "float32"), ("NumPy", "float64"), ("torch", "float32"), ("torch", "float64")]
SECONDS = 0.1  # for which the two take turns, at least twice

Array = Any
Entropy = Callable[[ModuleType, Array], Array]


@dataclass(frozen=True)
class Rule:
    """A rule, and its entropy as people write it in NumPy or torch."""

    name: str
    rule: Any
    entropy: Entropy


def rules(k: int) -> list[Rule]:
    """The rules of k classes that are measured."""
    rng = np.random.default_rng(0)
    root, costs, weights = rng.normal(size=(k, k)), rng.uniform(0, 3, (k, 5)), rng.uniform(1, 3, k)
    matrix = root @ root.T / k

    def own_losses(p: Array) -> Array:
        return -(torch if isinstance(p, torch.Tensor) else np).log(p + 1e-30)

    def own_entropy(p: Array) -> Array:
        return 1 - (p * p).sum(-1)

    def like(xp: ModuleType, values: np.ndarray, p: Array) -> Array:
        return xp.asarray(values, dtype=p.dtype)

    def ranked_probability(xp: ModuleType, p: Array) -> Array:
        below = xp.cumsum(p, -1)
        return xp.sum(below * (1 - below), -1)

    def top_five(xp: ModuleType, p: Array) -> Array:
        if xp is torch:
            return 1 - torch.topk(p, 5).values.sum(-1)
        return 1 - np.partition(p, k - 5)[..., -5:].sum(-1)

    def quadratic(xp: ModuleType, p: Array) -> Array:
        return p @ like(xp, np.diagonal(matrix).copy(), p) - xp.sum(p @ like(xp, matrix, p) * p, -1)

    def weighted_log(xp: ModuleType, p: Array) -> Array:
        logs = xp.log(p + xp.finfo(p.dtype).tiny)
        return -xp.sum(like(xp, weights, p) * p * logs, -1)

    return [
        Rule("log", "log", textbook.log_entropy),
        Rule("brier", "brier", textbook.brier_entropy),
        Rule("zero-one", "zero-one", textbook.zero_one_entropy),
        Rule("spherical", "spherical", textbook.spherical_entropy),
        Rule("tsallis:1.5", "tsallis:1.5", lambda xp, p: 2 * (1 - xp.sum(p**1.5, -1))),
        Rule(
            "pseudospherical:3", "pseudospherical:3", lambda xp, p: 1 - xp.sum(p**3, -1) ** (1 / 3)
        ),
        Rule("top-k:5", "top-k:5", top_five),
        Rule("five actions", costs, lambda xp, p: xp.amin(p @ like(xp, costs, p), -1)),
        Rule("quadratic", sw.rules.quadratic(matrix), quadratic),
        Rule("rps", "rps", ranked_probability),
        Rule("weighted log", sw.rules.weighted_log(weights), weighted_log),
        Rule(
            "own losses",
            sw.rule_from_loss_vector(own_losses, name="own losses"),
            lambda xp, p: xp.sum(p * own_losses(p), -1),
        ),
        Rule(
            "own entropy",
            sw.rule_from_entropy(own_entropy, lambda p: -2 * p, name="own entropy"),
            lambda xp, p: own_entropy(p),
        ),
    ]


def by_textbook(xp: ModuleType, probs: Array, entropy: Entropy) -> tuple[Array, Array, Array]:
    """Total, aleatoric and epistemic uncertainty of members (N, M, K)."""
    total, aleatoric = entropy(xp, xp.mean(probs, 1)), xp.mean(entropy(xp, probs), 1)
    return total, aleatoric, total - aleatoric


def ratio(rule: Rule, probs: Array) -> float:
    """The time of `decompose` over that of the textbook."""
    xp = torch if isinstance(probs, torch.Tensor) else np
    works = [lambda: sw.decompose(probs, rule.rule), lambda: by_textbook(xp, probs, rule.entropy)]
    rounds = max(2, min(100, int(SECONDS / sum(fastest(works, 1)))))
    ours, textbook_time = fastest(works, rounds)
    return ours / textbook_time


def judged(text: str, *, is_met: bool) -> str:
    """A cell that names a missed target."""
    return text if is_met else f"no: {text}"


def verdict(sheets: Sequence[Sheet]) -> str:
    """How many of the targets are met."""
    cells = [cell for sheet in sheets for row in sheet.rows for cell in row[sheet.n_labels :]]
    n_met = sum(not cell.startswith("no:") for cell in cells)
    return f'{n_met} of {len(cells)} numbers meet their targets; the others are marked by "no:".'


def measure(shape: tuple[int, int, int], kind: str) -> Sheet:
    """The table of one shape: rules by libraries."""
    members = {}
    for _, dtype in LIBRARIES:
        members[dtype] = np.empty(shape, dtype)
        fill_with_members(members[dtype], kind)
    rows = []
    for rule in track(rules(shape[-1]), description=f"{shape} {kind}", transient=True):
        row = [rule.name]
        for library, dtype in LIBRARIES:
            probs = members[dtype]
            times = ratio(rule, torch.from_numpy(probs) if library == "torch" else probs)
            row.append(judged(f"{times:.1f}", is_met=round(times, 1) <= AT_MOST))
        beside = peak_memory(partial(sw.decompose, members["float32"], rule.rule))
        held = beside / members["float32"].nbytes
        rows.append([*row, judged(f"{100 * held:.0f} %", is_met=held <= MEMORY or shape in SMALL)])
    headings = ["rule", *(f"{library} {dtype}" for library, dtype in LIBRARIES), "memory"]
    return Sheet(f"{shape}, {kind} members: time over the textbook", headings, rows, n_labels=1)


def main() -> None:
    """Measure, print, and write the tables into the README if asked to."""
    chosen = options(__doc__)
    KERNELS.clear()
    torch.set_num_threads(1)
    threadpool_limits(1)  # of matrix products in NumPy
    others = Others()
    cases = [(shape, "doubtful") for shape in (SMALL if chosen.quick else SMALL + LARGE)]
    if not chosen.quick:
        cases += [(shape, "near-agreeing") for shape in SMALL]
    sheets = [measure(*case) for case in cases]
    for sheet in sheets:
        Console().print(sheet.rich())
    text = f"Measured on {machine()}. {verdict(sheets)} {others}"
    print(text)
    if chosen.write:
        write_between("arrays", "\n\n".join([text, *(sheet.markdown() for sheet in sheets)]))


if __name__ == "__main__":
    main()
