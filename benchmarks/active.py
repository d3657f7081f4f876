"""What is active learning worth, and what does it cost? On digits, with a small network.

    python benchmarks/active.py [--quick] [--write]

Learning curves of every epistemic measure of the paper and of random acquisition, over paired
seeds: each seed has a split, initial rows and networks of its own, the same for all measures. Then
the time that choosing takes: scores against one sort of them, joint batches against computing every
row again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import scorewise as sw
from measuring import (
    HERE,
    RULES,
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
from scorewise.acquire import Round

INITIAL, PER_ROUND, BUDGET = 20, 20, 300

# options of active learning, by the name of the curve
QUERIES: dict[str, dict[str, Any]] = {rule: {"rule": rule} for rule in RULES} | {
    "zero-one, power": {"rule": "zero-one", "method": "power"},
    "zero-one, joint": {"rule": "zero-one", "method": "joint"},
    "random": {"method": "random"},
}

Cells = list[str]


def make_network() -> torch.nn.Module:
    """As the paper's for grey images: dropout before the last layer."""
    return torch.nn.Sequential(
        torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(100, 10)
    )


def train(X: np.ndarray, y: np.ndarray, seed: int) -> torch.nn.Module:
    """One network, with the paper's learning rate and epochs for MNIST."""
    ensemble = sw.DeepEnsemble(
        make_network,
        1,
        epochs=50,
        batch_size=32,
        lr=0.01,
        device="cpu",
        random_state=seed,
        progress=False,
    )
    return ensemble.fit(X, y).members_[0]


def run(name: str, seed: int, budget: int) -> list[Round]:
    """A run of one query: another split and other networks for each seed."""
    torch.set_num_threads(1)
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    X_pool, X_test, y_pool, y_test = train_test_split(
        X, y, test_size=797, stratify=y, random_state=seed
    )
    rounds = sw.active_learning(
        train,
        X_pool,
        y_pool,
        X_test=X_test,
        y_test=y_test,
        initial=INITIAL,
        per_round=PER_ROUND,
        budget=budget,
        random_state=seed,
        progress=False,
        **QUERIES[name],
    )
    return [replace(r, model=None) for r in rounds]


def with_spread(values: np.ndarray) -> str:
    return f"{values.mean():.4f} ± {values.std(ddof=1):.4f}"


def describe(name: str, losses: np.ndarray, random: np.ndarray, labels: np.ndarray) -> Cells:
    """A row of the table: mean losses, and how soon the loss of random labels is reached."""
    level = random[:, -1].mean()
    reached = labels[np.argmax(losses.mean(axis=0) <= level)]
    gain = random[:, -1] - losses[:, -1]
    return [
        name,
        with_spread(losses.mean(axis=1)),
        with_spread(losses[:, -1]),
        "" if name == "random" else with_spread(gain),
        f"{reached}" if losses.mean(axis=0).min() <= level else f"more than {labels[-1]}",
    ]


def learn(n_runs: int, budget: int) -> tuple[Sheet, str, dict[str, list[list[Round]]]]:
    cells = [(name, seed) for name in QUERIES for seed in range(n_runs)]
    work = Parallel(n_jobs=2, return_as="generator")(
        delayed(run)(name, seed, budget) for name, seed in cells
    )
    runs: dict[str, list[list[Round]]] = {name: [] for name in QUERIES}
    for (name, _), rounds in zip(cells, track(work, "Learning", len(cells)), strict=True):
        runs[name].append(rounds)
    get_reusable_executor().shutdown()  # so that its work counts as this process's
    losses = {
        name: np.array([[r.loss for r in rounds] for rounds in repeats])
        for name, repeats in runs.items()
    }
    labels = np.array([r.n_labelled for r in runs["random"][0]])
    rows = [describe(name, curve, losses["random"], labels) for name, curve in losses.items()]
    sheet = Sheet(
        f"Error on digits, {n_runs} seeds (± one standard deviation over seeds)",
        [
            "epistemic measure",
            f"mean from {INITIAL} to {budget} labels",
            f"at {budget} labels",
            f"below random at {budget}",
            f"labels to reach random's error at {budget}",
        ],
        rows,
        1,
    )
    named = {
        name if name == "random" else f"epistemic {name}": repeats for name, repeats in runs.items()
    }
    return sheet, str(sw.compare(task="active", runs=named)), named


def dense_joint(probs: np.ndarray, n: int, n_outcomes: int) -> list[int]:
    """The greedy batch under log, with every row computed again for every choice."""
    rng = np.random.default_rng(0)
    m, k = probs.shape[1:]
    authors = rng.integers(m, size=n_outcomes)
    shares = np.full((n_outcomes, m), 1 / m)
    aleatoric = -np.sum(probs * np.log(probs), axis=-1)
    chosen: list[int] = []
    for _ in range(n):
        gains = np.empty(len(probs))
        for i in range(0, len(probs), 100):
            mean = shares @ probs[i : i + 100]
            total = -np.sum(mean * np.log(mean), axis=-1).mean(axis=-1)
            gains[i : i + 100] = total - aleatoric[i : i + 100] @ shares.mean(axis=0)
        gains[chosen] = -1
        chosen.append(int(np.argmax(gains)))
        row = probs[chosen[-1]]
        drawn = [rng.choice(k, p=row[a]) for a in authors]
        shares = shares * row.T[drawn]
        shares /= shares.sum(axis=1, keepdims=True)
    return chosen


def measure_scores(n: int) -> Cells:
    scores = np.random.default_rng(0).random(n)
    works: list[Work] = [partial(np.argsort, scores)]
    works += [
        partial(sw.acquire, scores, 100, method, 0) for method in ("top", "power", "softrank")
    ]
    sort, *ours = fastest(works, rounds=3)
    return [f"{n:,}", *(f"{time / sort:.2f}" for time in ours)]


def measure_batches(n: int, n_batch: int) -> Cells:
    # as of a network: sure of most rows, members who differ in the others
    scale = np.random.default_rng(1).exponential(size=(n, 1, 1))
    logits = 3 * draw_logits("near-agreeing", n, 100, 10)
    logits += scale * np.random.default_rng(2).normal(size=logits.shape)
    probs = softmax(np.clip(logits, -12, 12))
    lazy = partial(sw.acquire_batch, probs, n_batch, "log", 0, progress=False)
    dense = partial(dense_joint, probs, n_batch, 1000)
    ours, theirs = fastest([lazy, dense], rounds=1)
    return [f"{n:,} rows, 100 members, 10 classes", f"{n_batch}", f"{theirs / ours:.1f}"]


def main() -> None:
    chosen = options(__doc__)
    n_runs, budget = (2, 80) if chosen.quick else (10, BUDGET)
    n_scores = (1_000_000,) if chosen.quick else (1_000_000, 10_000_000)
    sizes = ((500, 5),) if chosen.quick else ((1_000, 10), (5_000, 10))
    others = Others()
    learning, comparison, runs = learn(n_runs, budget)
    by_scores: list[Callable[[], Cells]] = [partial(measure_scores, n) for n in n_scores]
    by_batch: list[Callable[[], Cells]] = [partial(measure_batches, *size) for size in sizes]
    cells = [measure() for measure in track([*by_scores, *by_batch], description="Choosing")]
    sheets = [
        learning,
        Sheet(
            "Choosing 100 rows by their scores: time over one np.argsort of them",
            ["rows", "top", "power", "softrank"],
            cells[: len(by_scores)],
            1,
        ),
        Sheet(
            "Joint batches under log: speed-up over computing every row for every choice",
            ["pool", "batch", "speed-up"],
            cells[len(by_scores) :],
            1,
        ),
    ]
    text = f"Measured on {machine()}. {others}"
    console = Console(width=128)
    for sheet in sheets:
        console.print(sheet.rich())
    console.print(comparison, text, sep="\n\n")
    if chosen.write:
        display = sw.plots.LearningCurveDisplay.from_rounds(runs, "zero-one loss").plot()
        display.figure_.savefig(HERE / "active.png", dpi=120)
        body = [text, *(sheet.markdown() for sheet in sheets), f"```\n{comparison}\n```"]
        write_between("active", "\n\n".join(body))
        write_between("digits", learning.markdown(), HERE.parent / "docs" / "labels.md")


if __name__ == "__main__":
    main()
