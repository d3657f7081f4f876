"""How fast are curves, certificates and comparisons? Ratios measured in one run.

    python benchmarks/curves.py [--quick] [--write]

Curves and certificates are compared with the one sort that they need, comparisons with drawing
rows again and computing every metric of them.
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
COMPARE_SECONDS = 20  # for 12 measures, 2,000 resamples
N_RESAMPLES = 2_000

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


def measure_comparison(task: str, n: int, n_redrawn: int) -> Cells:
    """Compare 12 measures, and redraw rows so often that standard errors can be compared."""
    probs, ood = members(n, 1.0, 0), members(n, 0.5, 1)
    y = np.random.default_rng(2).integers(10, size=n)
    others = {"ood": ood} if task == "ood" else {"y": y}
    ours = partial(
        sw.compare,
        probs,
        task=task,
        baselines=False,
        n_resamples=N_RESAMPLES,
        random_state=0,
        progress=False,
        **others,
    )
    inside, outside = (
        sw.decompose(p, ["log", "brier", "zero-one", "spherical"]) for p in (probs, ood)
    )
    measures = {
        f"{part} {rule}": np.r_[getattr(inside[rule], part), getattr(outside[rule], part)]
        for rule in inside
        for part in ("total", "aleatoric", "epistemic")
    }
    losses, is_out = sw.task_losses(probs, y), np.repeat([0, 1], n)
    drawn: dict[str, list[float]] = {name: [] for name in measures}

    def redraw() -> None:
        rng = np.random.default_rng(0)
        for _ in range(n_redrawn):
            rows = rng.integers(n, size=n)
            both = np.r_[rows, n + rng.integers(n, size=n)]
            for name, scores in measures.items():
                drawn[name].append(
                    roc_auc_score(is_out[both], scores[both])
                    if task == "ood"
                    else sw.aulc(losses[rows], scores[rows])
                )

    seconds, redrawing = fastest([ours, redraw], rounds=1)
    redrawing *= N_RESAMPLES / n_redrawn
    comparison = ours()
    ratios = [
        row.standard_error / np.std(np.subtract(drawn[row.name], drawn[comparison.best]), ddof=1)
        for row in comparison.standings
        if row.standard_error
    ]
    share = seconds / COMPARE_SECONDS
    return [
        task,
        f"{len(measures)} measures, {n:,} rows" + (" + as many OOD" if task == "ood" else ""),
        f"≈ {redrawing / seconds:,.0f}",
        f"{np.median(ratios):.2f}",
        f"{100 * share:.0f} %",
        "yes" if share <= 1 else f"no: {100 * share:.0f} % of {COMPARE_SECONDS} s",
    ]


def main() -> None:
    chosen = options(__doc__)
    sizes = (10_000, 1_000_000) if chosen.quick else (10_000, 1_000_000, 10_000_000)
    comparisons = [(2_000, 100)] if chosen.quick else [(10_000, 200), (200_000, 100)]
    by_rows: list[Callable[[], Cells]] = [
        partial(measure_rows, size, tied=tied) for size in sizes for tied in (False, True)
    ]
    by_task: list[Callable[[], Cells]] = [
        partial(measure_comparison, task, n, n_redrawn)
        for n, n_redrawn in comparisons
        for task in ("selective", "ood")
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
            f"Comparisons, {N_RESAMPLES:,} resamples",
            [
                "task",
                "size",
                "speed-up over redrawing rows",
                "standard errors over those of redrawn rows, median",
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
