"""Members of an ImageNet-sized model on a GPU: accumulated as they are drawn, or stacked first.

A head with dropout (2,048 features, 1,000 classes) predicts 50,000 rows 20 times, under the four
rules of the paper. Run ``python benchmarks/gpu_imagenet.py``; ``--quick`` is a small run, which
also works without a GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import scorewise as sw

RULES = ["log", "brier", "zero-one", "spherical"]


@dataclass(frozen=True)
class Size:
    """Rows, members, features and classes."""

    rows: int = 50_000
    members: int = 20
    features: int = 2048
    classes: int = 1000


QUICK = Size(rows=300, members=5, features=16, classes=10)


@dataclass(frozen=True)
class Row:
    """A way to the components of all rows, and the memory of the GPU beyond X and head."""

    way: str
    seconds: float
    peak_bytes: int
    largest_difference: float | None  # from the first way, of any component; None: other draws


def imagenet(size: Size | None = None, repeats: int = 3) -> list[Row]:
    """Return a row for each way; the first one accumulates members as they are drawn."""
    size = size or Size()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(size.features, size.classes)).to(device)
    nn.init.normal_(head[1].weight, std=3 / size.features**0.5)
    X = torch.randn(size.rows, size.features, device=device)
    on_host = X.cpu().numpy()

    def accumulated(X: Any) -> Any:
        into = sw.Accumulator(RULES)
        return sw.predict_samples(head, X, size.members, 0, into=into).result()

    def stacked() -> Any:
        samples = sw.predict_samples(head, on_host, size.members, 0)
        return sw.decompose(samples, RULES)

    def stacked_on_device() -> Any:
        return sw.decompose(drawn_by_torch(head, X, size.members), RULES, member_axis=0)

    ways: dict[str, Callable[[], Any]] = {
        "into=Accumulator, X on the device": lambda: accumulated(X),
        "into=Accumulator, X in host memory": lambda: accumulated(on_host),
        "predict_samples, then decompose": stacked,
        "stacked by torch on the device, then decompose": stacked_on_device,
    }
    rows, first = [], None
    for way, work in ways.items():
        seconds, peak, results = timed(work, device, repeats)
        first = first or results
        is_other = work is stacked_on_device
        rows.append(Row(way, seconds, peak, None if is_other else difference(first, results)))
    return rows


def drawn_by_torch(head: nn.Module, X: Tensor, n_members: int) -> Tensor:
    """Return members (M, N, K) as one would draw them without scorewise: other draws."""
    head.train()
    with torch.no_grad():
        members = torch.stack([head(X).softmax(-1) for _ in range(n_members)])
    head.eval()
    return members


def timed(
    work: Callable[[], Any], device: torch.device, repeats: int
) -> tuple[float, int, dict[str, np.ndarray]]:
    """Return the best time after one run, the most memory of the device, and the results."""
    is_cuda = device.type == "cuda"
    seconds, peak = [], 0
    for i in range(repeats + 1):
        if is_cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        start = time.perf_counter()
        results = work()
        if is_cuda:
            torch.cuda.synchronize()
            peak = max(peak, torch.cuda.max_memory_allocated() - before)
        if i:  # the first run compiles
            seconds.append(time.perf_counter() - start)
        arrays = {name: [to_numpy(x) for x in results[name]] for name in RULES}
        del results
    return min(seconds), peak, {name: np.stack(parts) for name, parts in arrays.items()}


def to_numpy(x: Any) -> np.ndarray:
    return x.cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)


def difference(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> float:
    return max(float(np.abs(first[name] - second[name]).max()) for name in RULES)


def print_table(rows: list[Row]) -> None:
    print("| way | seconds | memory of the GPU in GB | largest difference |")
    print("| --- | ---: | ---: | ---: |")
    for row in rows:
        change = row.largest_difference
        shown = "other draws" if change is None else f"{change:.1e}"
        print(f"| {row.way} | {row.seconds:.3f} | {row.peak_bytes / 1e9:.2f} | {shown} |")


if __name__ == "__main__":
    print_table(imagenet(QUICK if "--quick" in sys.argv else None))
