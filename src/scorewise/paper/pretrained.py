"""Networks that others have trained, asked by dropout and Laplace what is none of their images.

Only the last layer is uncertain: the features before it are computed once for each set of images,
in evaluation mode, and kept with the results. The Laplace approximation is fitted to the features
of all training images, or of ``train_rows`` of them drawn at random, where that is given; it is the
same in all runs, as the network is. Members are not kept: those of ImageNet would take 20 GB, and
they follow from the features.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from scorewise import datasets
from scorewise._files import replacing
from scorewise._progress import bar
from scorewise.datasets import Rows
from scorewise.errors import CorruptData, MissingData
from scorewise.models import predict_samples
from scorewise.paper.cells import Cell, Result
from scorewise.paper.detection import detection_numbers
from scorewise.paper.images import squares
from scorewise.paper.kinds import PRETRAINED_OOD
from scorewise.paper.setup import Setup, drawn_rows
from scorewise.paper.weights import PUBLISHED, Found

DROPOUT = 0.5
_FEW_ROWS = {"imagenet-o": 2_000}  # where the paper has fewer than elsewhere, also in distribution
_BATCH = 1000  # rows of features asked at a time
_KEPT_TOGETHER = 20_000  # rows of features in a file


def ood_cells(setup: Setup, data: str, sets: Sequence[str]) -> list[Cell]:
    """One for each set that is there, method and run; none without the network and its data."""
    there = [name for name in sets if setup.has(name, "test")]
    inside = setup.has(data, "test")
    try:
        weights = PUBLISHED[data].find(setup)
    except (MissingData, CorruptData) as error:
        setup.gaps[PUBLISHED[data].title] = str(error)
        return []
    if not inside:
        return []
    methods = ("dropout", "laplace") if _has_training(setup, data) else ("dropout",)
    return [
        Cell(PRETRAINED_OOD, _setting(setup, weights, data, name, method, run))
        for run in range(setup.protocol.runs)
        for method in methods
        for name in there
    ]


def _has_training(setup: Setup, data: str) -> bool:
    """Whether there are images to fit a Laplace approximation to; if not, that is a gap."""
    try:
        setup.load(data, "train")
    except (MissingData, CorruptData) as error:
        setup.gaps[f"{data}/train"] = f"to fit a Laplace approximation to: {error}"
        return False
    return True


def _setting(
    setup: Setup, weights: Found, data: str, ood: str, method: str, run: int
) -> dict[str, Any]:
    protocol = setup.protocol
    read = [(data, "test"), (ood, "test")]
    setting: dict[str, Any] = {
        "data": data,
        "ood": ood,
        "method": method,
        "run": run,
        "weights": {"digest": weights.digest, "official": weights.official},
        **protocol.sizes("test_rows", "samples"),
    }
    if ood in _FEW_ROWS:
        setting["test_rows"] = min(protocol.test_rows, _FEW_ROWS[ood])
        setting["papers"] = {"test_rows": _FEW_ROWS[ood]}
    if method == "laplace":
        setting |= protocol.sizes("train_rows")
        read.append((data, "train"))
    return {**setting, "sets": setup.described(*read)}


def compute(setup: Setup, wanted: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Network by network."""
    for data in sorted({cell.setting["data"] for cell in wanted}):
        cells = [cell for cell in wanted if cell.setting["data"] == data]
        asked = _Asked(setup, data, [cell.setting for cell in cells])
        for cell in cells:
            began = time.perf_counter()
            numbers = asked.answer(cell.setting)
            seconds = time.perf_counter() - began
            yield cell, Result(numbers, {}, seconds, str(setup.torch_device))


class _Asked:
    """A network, and what it says."""

    def __init__(self, setup: Setup, data: str, settings: Sequence[Mapping[str, Any]]) -> None:
        self.setup, self.data = setup, data
        self.device = setup.torch_device
        self.found = PUBLISHED[data].find(setup)
        n_classes = datasets.describe(data).n_classes
        self.network = PUBLISHED[data].load(self.found, n_classes, self.device)
        self.most_rows = max(setting["test_rows"] for setting in settings)
        self.train_rows = next((x["train_rows"] for x in settings if "train_rows" in x), None)

    def answer(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Accuracy, and how well each measure tells what is strange."""
        inside, outside = (self._members(setting, name) for name in (self.data, setting["ood"]))
        rows = self.setup.load(self.data, "test")
        y = np.asarray(rows.y)[drawn_rows(rows, setting["test_rows"], setting["run"])]
        accuracy = float((inside.mean(1).argmax(1) == y).mean())
        return {"accuracy": accuracy, **detection_numbers(inside, outside)}

    def _members(self, setting: Mapping[str, Any], name: str) -> np.ndarray:
        """Probabilities ``(n, M, K)``, in double precision."""
        rows, run = self.setup.load(name, "test"), setting["run"]
        chosen = drawn_rows(rows, self.most_rows, run)  # those of every cell begin with the same
        x = self._features(rows, chosen)[: setting["test_rows"]]
        head = nn.Sequential(nn.Dropout(DROPOUT), self.network.head)
        said = predict_samples(
            head if setting["method"] == "dropout" else self._laplace,
            torch.from_numpy(x),
            n_samples=setting["samples"],
            random_state=run,
            batch_size=_BATCH,
            device=self.device,
            progress=False,
        )
        return np.asarray(said.probs).astype(np.float64)

    @cached_property
    def _laplace(self) -> Any:
        """A Gaussian over the last layer."""
        from scorewise.models import fit_laplace

        rows = self.setup.load(self.data, "train")
        chosen = np.sort(drawn_rows(rows, self.train_rows, 0))
        head = nn.Sequential(nn.Identity(), self.network.head)
        found, y = self._features(rows, chosen), np.asarray(rows.y)[chosen]
        return fit_laplace(head, found, y, device=self.device, progress=False)

    def _features(self, rows: Rows, chosen: np.ndarray) -> np.ndarray:
        """What the body finds in the chosen rows, read from files or computed and kept there."""
        ordered = np.sort(chosen)  # runs that draw all rows of a set have the same files
        parts = np.split(ordered, range(_KEPT_TOGETHER, len(ordered), _KEPT_TOGETHER))
        with bar(f"features of {rows.name}", len(ordered), self.setup.progress) as advance:
            found = []
            for part in parts:
                path = self._path(rows, part)
                kept = _kept(path, (len(part), self.network.head.in_features))
                if kept is None:
                    kept = self._computed(rows, part)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with replacing(path) as partial, partial.open("wb") as file:
                        np.save(file, kept)
                found.append(kept)
                advance(len(part))
        return np.concatenate(found)[np.searchsorted(ordered, chosen)]

    def _computed(self, rows: Rows, chosen: np.ndarray) -> np.ndarray:
        network = self.network
        with torch.inference_mode():
            found = [
                network.body(network.normalized(batch.to(self.device))).cpu()
                for batch in squares(rows, chosen, network.side)
            ]
        features: np.ndarray = torch.cat(found).numpy()
        return features

    def _path(self, rows: Rows, chosen: np.ndarray) -> Path:
        """The same for the same network, images and rows."""
        told = hashlib.sha256(f"{self.found.digest} {rows.digest} ".encode())
        told.update(chosen.astype("<i8").tobytes())
        name = f"{self.data}-{rows.name}-{rows.split}-{told.hexdigest()[:16]}.npy"
        return self.setup.store.folder / "features" / name


def _kept(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    """Features from a file; None where there are none, or not as they were written."""
    try:
        found: np.ndarray = np.load(path, allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return found if found.shape == shape and found.dtype == np.float32 else None
