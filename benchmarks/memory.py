"""How much memory does a decomposition of members that do not fit take? Run by `models.py`.

    python benchmarks/memory.py rows N
    python benchmarks/memory.py pixels SIDE

A process of its own, so that its peak is that of this work alone: 50 generated classifiers answer
for N rows and 100 classes in float32, and `predict_samples` decomposes them on the way; or
`segment` decomposes 20 draws of a network with 19 classes for SIDE × SIDE pixels, with losses.
Prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

import scorewise as sw
from measuring import RULES, softmax

N_CLASSES = 100
N_MEMBERS = 50
N_FEATURES = 8
N_DRAWS, N_PIXEL_CLASSES = 20, 19

_ROWS = 2_000  # at a time where members only answer


@dataclass(frozen=True)
class Footprint:
    """What decomposing the members of N rows took."""

    n: int
    start: int  # bytes resident before
    peak: int  # at most
    seconds: float
    generating: float  # seconds in which the members answer and nobody listens

    @property
    def predictions(self) -> int:
        """Bytes of all members' predictions, which are never held together."""
        return self.n * N_MEMBERS * N_CLASSES * np.dtype(np.float32).itemsize


@dataclass(frozen=True)
class ImageFootprint:
    """What segmenting an image took, in bytes as above."""

    side: int
    start: int
    peak: int

    @property
    def predictions(self) -> int:
        """Bytes of all members' predictions, which are never held together."""
        return self.side**2 * N_DRAWS * N_PIXEL_CLASSES * np.dtype(np.float32).itemsize


class Generated(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose weights are drawn, not learnt: softmax(X W)."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self) -> Generated:
        """Draw."""
        drawn = np.random.default_rng(self.seed).normal(size=(N_FEATURES, N_CLASSES))
        self.weights_ = drawn.astype(np.float32)
        self.classes_ = np.arange(N_CLASSES)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) in float32."""
        return softmax(X @ self.weights_)


def measure(n: int) -> Footprint:
    """Decompose, then let the same members answer alone."""
    members = [Generated(seed).fit() for seed in range(N_MEMBERS)]
    X = np.random.default_rng(0).normal(size=(n, N_FEATURES)).astype(np.float32)
    warm_up(members, X)
    start, began = peak_resident(), time.perf_counter()
    accumulator = sw.predict_samples(members, X, into=sw.Accumulator(RULES))
    assert isinstance(accumulator, sw.Accumulator)
    decompositions = accumulator.result()
    seconds, peak = time.perf_counter() - began, peak_resident()
    check(decompositions, members, X)
    return Footprint(n, start, peak, seconds, generate(members, X))


def warm_up(members: list[Generated], X: np.ndarray) -> None:
    """Load the compiled code (or compile it, the first time on a machine)."""
    sw.predict_samples(members, X[:1_000], into=sw.Accumulator(RULES))


def check(decompositions: Any, members: list[Generated], X: np.ndarray) -> None:
    """Raises if the last rows, decomposed with all members at once, give other numbers."""
    few = slice(len(X) - 100, len(X))
    probs = np.stack([member.predict_proba(X[few]) for member in members], axis=1)
    for name, parts in sw.decompose(probs, RULES).items():
        for part, whole in zip(parts, decompositions[name], strict=True):
            np.testing.assert_allclose(whole[few], part, rtol=1e-3, atol=1e-5)


def generate(members: list[Generated], X: np.ndarray) -> float:
    """Seconds in which members answer for all rows, with as many threads as predict_samples."""
    began = time.perf_counter()
    with ThreadPoolExecutor(sw.get_num_threads()) as pool:
        for start in range(0, len(X), _ROWS):
            rows = X[start : start + _ROWS]
            list(pool.map(lambda member, rows=rows: member.predict_proba(rows), members))
    return time.perf_counter() - began


def measure_image(side: int) -> ImageFootprint:
    """Segment an image by a small network with dropout."""
    import torch
    from torch import nn

    network = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()),
        *(nn.Dropout2d(0.3), nn.Conv2d(32, N_PIXEL_CLASSES, 1)),
    )
    image, y = torch.rand(3, side, side), torch.randint(N_PIXEL_CLASSES, (side, side))
    sw.segment(network, image[:, :32, :32], RULES)
    start = peak_resident()
    sw.segment(network, image, RULES, N_DRAWS, 0, y=y)
    return ImageFootprint(side, start, peak_resident())


def peak_resident() -> int:
    """The most memory of this process that was resident at once so far, in bytes.

    On Linux not from getrusage: what it tells of a new process can be that of its parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def footprint(n: int) -> Footprint:
    """The same, measured in a new process."""
    return Footprint(**_in_new_process("rows", n))


def image_footprint(side: int) -> ImageFootprint:
    """That of an image, measured in a new process."""
    return ImageFootprint(**_in_new_process("pixels", side))


def _in_new_process(kind: str, size: int) -> dict[str, Any]:
    command = [sys.executable, __file__, kind, str(size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    fields: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return fields


if __name__ == "__main__":
    size = int(sys.argv[2])
    done = measure_image(size) if sys.argv[1] == "pixels" else measure(size)
    print(json.dumps(asdict(done)))
