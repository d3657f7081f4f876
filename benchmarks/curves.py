"""How fast are curves, certificates and comparisons? Ratios measured in one run.

    python benchmarks/curves.py [--quick] [--write]

Curves and certificates are compared with the one sort that they need, comparisons with resampling
rows and computing every metric again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.metrics import roc_auc_score

import scorewise as sw
from measuring import (
    Others,
    Sheet,
    Work,
    draw_logits,
    fastest,
    machine,
    options,
    softmax,
    write_between,
)

CURVE_SECONDS = 5  # "a few", for 10 million rows
COMPARE_SECONDS = 20  # for 12 measures, 2,000 resamples, 10,000 rows
N_NAIVE = 20  # resamples that the naive way is measured on, and scaled up from

Cells = list[str]


def rows_like_the_theory(n: int, *, tied: bool, binary: bool) -> tuple[np.ndarray, np.ndarray]:
    """Losses and uncertainties of n rows whose mean loss is 0.02 + 0.4 u²."""
    rng = np.random.default_rng(0)
    u = rng.uniform(size=n)
    mean = 0.02 + 0.4 * u**2
    losses = rng.uniform(size=n) < mean if binary else rng.beta(4 * mean, 4 * (1 - mean))
    return losses.astype(float), np.round(u, 3) if tied else u


def curve(losses: np.ndarray, uncertainty: np.ndarray) -> None:
    """The whole curve and every area."""
    whole = sw.rejection_curve(losses, uncertainty)
    _ = whole.aulc, whole.augrc, whole.normalized_aulc, whole.normalized_augrc


def measure_rows(n: int, *, tied: bool) -> Cells:
    losses, u = rows_like_the_theory(n, tied=tied, binary=True)
    spread, _ = rows_like_the_theory(n, tied=tied, binary=False)
    works: list[Work] = [
        partial(np.argsort, u),
        partial(curve, losses, u),
        partial(sw.certify_threshold, losses, u, 0.08, 0.9),
        partial(sw.certify_threshold, spread, u, 0.08, 0.9),
    ]
    sort, *ours = fastest(works, rounds=1 if n > 1_000_000 else 3)
    share = ours[0] / CURVE_SECONDS
    return [
        f"{n:,}",
        "1,001" if tied else "all",
        *(f"{time / sort:.1f}" for time in ours),
        f"{100 * share:.0f} %" if n >= 10_000_000 else "",
        "yes" if share <= 1 else f"no: {100 * share:.0f} % of {CURVE_SECONDS} s",
    ]


def members(n: int, spread: float, seed: int) -> np.ndarray:
    logits = draw_logits("doubtful", n, 20, 10)
    return softmax(logits * spread + np.random.default_rng(seed).normal(size=logits.shape) / 9)


def measure_comparison(task: str, n: int, n_resamples: int) -> Cells:
    probs, ood = members(n, 1.0, 0), members(n, 0.5, 1)
    y = np.random.default_rng(2).integers(10, size=n)
    others = {"ood": ood} if task == "ood" else {"y": y}
    ours = partial(
        sw.compare,
        probs,
        task=task,
        baselines=False,
        n_resamples=n_resamples,
        random_state=0,
        progress=False,
        **others,
    )
    inside, outside = (
        sw.decompose(p, ["log", "brier", "zero-one", "spherical"]) for p in (probs, ood)
    )
    measures = [
        np.r_[getattr(inside[rule], part), getattr(outside[rule], part)]
        for rule in inside
        for part in ("total", "aleatoric", "epistemic")
    ]
    losses, is_out = sw.task_losses(probs, y), np.repeat([0, 1], n)

    def naive() -> None:
        rng = np.random.default_rng(0)
        for _ in range(N_NAIVE):
            rows = rng.integers(n, size=n)
            both = np.r_[rows, n + rng.integers(n, size=n)]
            for scores in measures:
                if task == "ood":
                    roc_auc_score(is_out[both], scores[both])
                else:
                    sw.aulc(losses[rows], scores[rows])

    seconds, naive_seconds = fastest([ours, naive], rounds=1)
    naive_seconds *= n_resamples / N_NAIVE
    share = seconds / COMPARE_SECONDS
    sizes = f"{len(measures)} measures, {n_resamples:,} resamples, {n:,} rows"
    return [
        task,
        sizes + (" + as many OOD" if task == "ood" else ""),
        f"≈ {naive_seconds / seconds:.1f}",
        f"{100 * share:.0f} %",
        "yes" if share <= 1 else f"no: {100 * share:.0f} % of {COMPARE_SECONDS} s",
    ]


def main() -> None:
    chosen = options(__doc__)
    sizes = (10_000, 1_000_000) if chosen.quick else (10_000, 1_000_000, 10_000_000)
    n, n_resamples = (2_000, 400) if chosen.quick else (10_000, 2_000)
    by_rows: list[Callable[[], Cells]] = [
        partial(measure_rows, size, tied=tied) for size in sizes for tied in (False, True)
    ]
    by_task: list[Callable[[], Cells]] = [
        partial(measure_comparison, task, n, n_resamples) for task in ("selective", "ood")
    ]
    others = Others()
    cells = [measure() for measure in track([*by_rows, *by_task], description="Measuring")]
    sheets = [
        Sheet(
            "Curves and certificates: time over one np.argsort of the uncertainties",
            [
                "rows",
                "distinct",
                "rejection curve and areas",
                "certificate, 0/1 losses",
                "certificate, other losses",
                f"curve's share of {CURVE_SECONDS} s",
                "met",
            ],
            cells[: len(by_rows)],
            2,
        ),
        Sheet(
            "Comparisons",
            [
                "task",
                "size",
                "speed-up over resampling rows",
                f"share of {COMPARE_SECONDS} s",
                "met",
            ],
            cells[len(by_rows) :],
            2,
        ),
    ]
    text = f"Measured on {machine()}. {others}"
    console = Console(width=128)
    for sheet in sheets:
        console.print(sheet.rich())
    console.print(text)
    if chosen.write:
        write_between("curves", "\n\n".join([text, *(sheet.markdown() for sheet in sheets)]))


if __name__ == "__main__":
    main()
