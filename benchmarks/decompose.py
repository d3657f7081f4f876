"""How fast is `decompose`? Ratios to one pass of `np.sum` over the same array, in one run.

    python benchmarks/decompose.py [--quick]

One pass computes total, aleatoric and epistemic uncertainty of the four rules of the paper. The
members are doubtful (independent), near-agreeing (logit noise 0.05) or one-hot.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import scorewise as sw

RULES = ["log", "brier", "zero-one", "spherical"]
SHAPES = [(10_000, 20, 1_000), (100_000, 20, 100), (1_000_000, 20, 10)]
MEMBERS = ["doubtful", "near-agreeing", "one-hot"]


def make(kind: str, shape: tuple[int, int, int], dtype: str) -> np.ndarray:
    """Members (N, M, K) of one kind; a block of instances is made once and repeated."""
    n, m, k = shape
    rng = np.random.default_rng(0)
    block = min(n, 1_000)
    logits = 2 * rng.normal(size=(block, 1, k)) + np.zeros((1, m, 1))
    if kind == "doubtful":
        logits = logits + 2 * rng.normal(size=(block, m, k))
    elif kind == "near-agreeing":
        logits = logits + 0.05 * rng.normal(size=(block, m, k))
    else:
        logits = np.where(np.eye(k, dtype=bool)[rng.integers(k, size=(block, m))], 0.0, -np.inf)
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = (p / p.sum(axis=-1, keepdims=True)).astype(dtype)
    return np.concatenate([p] * (n // block))


def straightforward(probs: np.ndarray) -> list[np.ndarray]:
    """The textbook formulas, as people write them: EU = TU − AU, no checks."""
    entropies: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda p: -np.nansum(p * np.log(p), axis=-1),
        lambda p: 1 - (p * p).sum(axis=-1),
        lambda p: 1 - p.max(axis=-1),
        lambda p: 1 - np.sqrt((p * p).sum(axis=-1)),
    ]
    mean = probs.mean(axis=1)
    results = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for entropy in entropies:
            total, aleatoric = entropy(mean), entropy(probs).mean(axis=1)
            results += [total, aleatoric, total - aleatoric]
    return results


def best_of(work: Callable[[], object], repeats: int) -> float:
    """The fastest of a few runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_memory(work: Callable[[], object]) -> int:
    """The most memory that NumPy held at once beyond its input, in bytes."""
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the instances")
    quick = parser.parse_args().quick
    table = Table(title="All 4 rules × 3 components, array path")
    table.add_column("shape (N, M, K)")
    table.add_column("members")
    table.add_column("dtype")
    for heading in ("time / np.sum", "speed-up over textbook NumPy", "peak memory / input"):
        table.add_column(heading, justify="right")
    cases = [(shape, kind, "float32") for shape in SHAPES for kind in MEMBERS]
    cases += [(shape, "doubtful", "float64") for shape in SHAPES]
    for (n, m, k), kind, dtype in track(cases, description="Measuring"):
        shape = (n // 10 if quick else n, m, k)
        probs = make(kind, shape, dtype)
        floor = best_of(probs.sum, 5)
        ours = best_of(lambda p=probs: sw.decompose(p, RULES), 2)  # type: ignore[misc]
        textbook = best_of(lambda p=probs: straightforward(p), 1)  # type: ignore[misc]
        extra = peak_memory(lambda p=probs: sw.decompose(p, RULES)) / probs.nbytes  # type: ignore[misc]
        table.add_row(
            str(shape), kind, dtype, f"{ours / floor:.1f}", f"{textbook / ours:.2f}", f"{extra:.3f}"
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
