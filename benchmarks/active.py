"""What is active learning worth, and what does it cost? On digits, with a small network.

    python benchmarks/active.py [--quick] [--write] [--only learning | target]

Learning curves of every epistemic measure of the paper and of random acquisition, over paired
seeds: each seed has a split, initial rows and networks of its own, the same for all measures. Then
the time that choosing takes: scores against one sort of them, joint batches against computing every
row again.

Then labels for a target: the error on digits 3, 5 and 8, which are an eighth of a pool of all
digits, and that on all digits, of which the pool is a sample. And the time of the gains, against
their formula in NumPy.
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
from scipy.stats import t
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
    peak_memory,
    softmax,
    write_between,
)
from scorewise.acquire import Round, target_gains

INITIAL, PER_ROUND, BUDGET = 20, 20, 300

# options of active learning, by the name of the curve
QUERIES: dict[str, dict[str, Any]] = {rule: {"rule": rule} for rule in RULES} | {
    "zero-one, power": {"rule": "zero-one", "method": "power"},
    "zero-one, joint": {"rule": "zero-one", "method": "joint"},
    "random": {"method": "random"},
}

# of labels for a target: queries with one, and others to compare
TARGET_INITIAL, TARGET_PER_ROUND, TARGET_BUDGET = 20, 10, 60
RELEVANT, N_RELEVANT, N_TARGET = (3, 5, 8), 180, 100
TARGET_QUERIES: dict[str, dict[str, Any]] = {
    "random": {"method": "random"},
    "epistemic log": {"rule": "log"},
    "epistemic zero-one": {"rule": "zero-one"},
    "epistemic zero-one, power": {"rule": "zero-one", "method": "power"},
    "epistemic zero-one, joint": {"rule": "zero-one", "method": "joint"},
    "target log (default)": {"rule": "log", "has_target": True},
    "target zero-one (default)": {"rule": "zero-one", "has_target": True},
    "target log, top": {"rule": "log", "method": "top", "has_target": True},
    "target zero-one, top": {"rule": "zero-one", "method": "top", "has_target": True},
    "target log, joint": {"rule": "log", "method": "joint", "has_target": True},
    "target zero-one, joint": {"rule": "zero-one", "method": "joint", "has_target": True},
    **{
        f"target {rule}, joint, 100 draws": {
            "rule": rule,
            "method": "joint",
            "has_target": True,
            "n_samples": 100,
        }
        for rule in ("log", "zero-one")
    },
}
POOLS = ("an eighth is relevant", "like the target")

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


# -- labels for a target --------------------------------------------------------------------------


def split_for_target(pool: str, seed: int) -> tuple[np.ndarray, ...]:
    """Rows of the pool with labels, a target without, and test rows with labels."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(X))
    is_relevant = np.isin(y[order], RELEVANT) if pool == POOLS[0] else np.full(len(X), True)
    relevant, others = order[is_relevant], order[~is_relevant]
    target, rest = relevant[:N_TARGET], relevant[N_TARGET:]
    n_in_pool = N_RELEVANT if len(others) else len(rest) // 2
    rows, test = np.concatenate([rest[:n_in_pool], others]), rest[n_in_pool:]
    return X[rows], y[rows], X[target], X[test], y[test]


def error_on_target(pool: str, name: str, seed: int) -> float:
    """The error on test rows with all labels, in a run with a split and networks of its own."""
    torch.set_num_threads(1)
    X_pool, y_pool, target, X_test, y_test = split_for_target(pool, seed)
    query = dict(TARGET_QUERIES[name])
    *_, last = sw.active_learning(
        train,
        X_pool,
        y_pool,
        stratified=False,  # which rows of a pool are relevant is not known
        X_test=X_test,
        y_test=y_test,
        initial=TARGET_INITIAL,
        per_round=TARGET_PER_ROUND,
        budget=TARGET_BUDGET,
        random_state=seed,
        progress=False,
        target=target if query.pop("has_target", False) else None,
        **query,
    )
    assert last.loss is not None
    return last.loss


def below_random(errors: np.ndarray, random: np.ndarray) -> str:
    """The mean difference over paired seeds, with its 95 % t interval."""
    gain = random - errors
    half_width = t.ppf(0.975, len(gain) - 1) * gain.std(ddof=1) / np.sqrt(len(gain))
    return f"{gain.mean():+.3f} [{gain.mean() - half_width:+.3f}, {gain.mean() + half_width:+.3f}]"


def learn_for_target(n_runs: int) -> Sheet:
    cells = [(p, name, seed) for p in POOLS for name in TARGET_QUERIES for seed in range(n_runs)]
    work = Parallel(n_jobs=2, return_as="generator")(
        delayed(error_on_target)(*cell) for cell in cells
    )
    losses = dict(zip(cells, track(work, "Learning for a target", len(cells)), strict=True))
    get_reusable_executor().shutdown()
    errors = {
        (p, name): np.array([losses[p, name, seed] for seed in range(n_runs)])
        for p in POOLS
        for name in TARGET_QUERIES
    }
    rows = [
        [
            name,
            *(
                cell
                for p in POOLS
                for cell in (
                    f"{errors[p, name].mean():.3f} ± {errors[p, name].std(ddof=1):.3f}",
                    "" if name == "random" else below_random(errors[p, name], errors[p, "random"]),
                )
            ),
        ]
        for name in TARGET_QUERIES
    ]
    headings = [cell for p in POOLS for cell in (f"pool: {p}", "below random [95 %]")]
    title = f"Error on the target's kind at {TARGET_BUDGET} labels, {n_runs} seeds (± one sd)"
    return Sheet(title, ["measure", *headings], rows, 1)


def plain_target_gains(pool: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The gains under log by their formula, one row of the pool at a time."""
    mean = target.mean(axis=1)
    total = -np.sum(mean * np.log(mean), axis=-1).mean()
    gains = np.empty(len(pool))
    for i, row in enumerate(pool):
        chances = row.mean(axis=0)
        after = np.einsum("my,tmk->ytk", row / row.sum(axis=0), target)
        gains[i] = total - chances @ -np.sum(after * np.log(after), axis=-1).mean(axis=-1)
    return gains


def measure_target(n: int, n_target: int) -> Cells:
    pool, target = (softmax(draw_logits("doubtful", size, 20, 10)) for size in (n, n_target))
    ours = partial(target_gains, pool, target, "log", progress=False)
    plain = partial(plain_target_gains, pool, target)
    np.testing.assert_allclose(ours(), plain(), rtol=1e-8)
    adjusted = partial(ours, adjusted=True, random_state=0)
    times = fastest([ours, plain, adjusted], rounds=3)
    memory = peak_memory(ours) / (8 * n * n_target * 100)
    name = f"{n:,} rows, {n_target:,} of the target, 20 members, 10 classes"
    return [
        name,
        f"{times[1] / times[0]:.1f}",
        f"{100 * memory:.2g} %",
        f"{times[2] / times[0]:.2f}",
    ]


def report_target(*, quick: bool, write: bool) -> None:
    """Show what labels for a target are worth, and how long their gains take."""
    others = Others()
    sizes = ((500, 100),) if quick else ((10_000, 100), (2_000, 1_000))
    sheets = [
        learn_for_target(2 if quick else 20),
        Sheet(
            "Gains for a target under log: speed-up over their formula in NumPy, memory over that "
            "of all conditional predictions, and time of adjusted gains over that of gains",
            ["pool", "speed-up", "memory", "adjusted"],
            [measure_target(*size) for size in sizes],
            1,
        ),
    ]
    show(sheets, [f"Measured on {machine()}. {others}"])
    if write:
        text = f"Measured on {machine()}. {others}"
        write_between("target", "\n\n".join([text, *(sheet.markdown() for sheet in sheets)]))
        write_between("target", sheets[0].markdown(), HERE.parent / "docs" / "labels.md")


def show(sheets: list[Sheet], texts: list[str]) -> None:
    console = Console(width=128)
    for sheet in sheets:
        console.print(sheet.rich())
    console.print(*texts, sep="\n\n")


def report_learning(*, quick: bool, write: bool) -> None:
    """Show what active learning is worth, and how long choosing takes."""
    n_runs, budget = (2, 80) if quick else (10, BUDGET)
    n_scores = (1_000_000,) if quick else (1_000_000, 10_000_000)
    sizes = ((500, 5),) if quick else ((1_000, 10), (5_000, 10))
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
    show(sheets, [comparison, text])
    if write:
        display = sw.plots.LearningCurveDisplay.from_rounds(runs, "zero-one loss").plot()
        display.figure_.savefig(HERE / "active.png", dpi=120)
        body = [text, *(sheet.markdown() for sheet in sheets), f"```\n{comparison}\n```"]
        write_between("active", "\n\n".join(body))
        write_between("digits", learning.markdown(), HERE.parent / "docs" / "labels.md")


def main() -> None:
    chosen = options(__doc__, parts=("learning", "target"))
    if chosen.only in {None, "learning"}:
        report_learning(quick=chosen.quick, write=chosen.write)
    if chosen.only in {None, "target"}:
        report_target(quick=chosen.quick, write=chosen.write)


if __name__ == "__main__":
    main()
