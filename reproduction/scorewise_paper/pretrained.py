"""Pretrained networks, sampled by dropout and Laplace on images in and out of distribution.

Only the last layer is uncertain: the features before it are computed once for each set of images,
in evaluation mode, and stored with the results. The Laplace approximation is fitted to the features
of all training images, or of ``train_rows`` of them drawn at random; it is the same in all runs, as
the network is. Members are not stored: those of ImageNet would take 20 GB, and they follow from the
features.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from scorewise import fit_laplace, predict_samples
from scorewise_paper import datasets
from scorewise_paper._files import progress_bar, replacing
from scorewise_paper.datasets import Rows
from scorewise_paper.detection import detection_numbers
from scorewise_paper.errors import CorruptData, MissingData, Remedy
from scorewise_paper.networks import EfficientNet, normalized, shape_of, square_batches
from scorewise_paper.results import Cell, Result
from scorewise_paper.runs import Setup, drawn_rows

DROPOUT = 0.5
FEWER_ROWS = {"imagenet-o": 2_000}  # sets of which the paper draws fewer, in distribution too
FEATURES_IN_A_FILE = 20_000  # rows
_BATCH = 1000  # rows of features in a batch of predictions


# -- weights ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """A network in two parts: a body that computes features of images, and a linear head."""

    body: nn.Module
    head: nn.Linear
    side: int  # of the images that it takes, in pixels
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def normalized(self, images: Tensor) -> Tensor:
        """Return images normalised as in the network's training."""
        return normalized(images, self.mean, self.deviation)


@dataclass(frozen=True)
class Weights:
    """Weights on this machine, and whether they are the published ones."""

    path: Path
    digest: str
    official: bool


@dataclass(frozen=True)
class PublishedWeights:
    """Published weights; they are verified, and never downloaded.

    Parameters
    ----------
    title : str
        The name in messages.
    files : tuple of str
        Where they are stored, under the folder of weights; the last file holds the weights.
    url : str
        The address of their folder.
    sha256 : str
        The weights' digest, or the beginning that is published; empty where none is known.
    read : callable
        From the path of the weights to the network.
    """

    title: str
    files: tuple[str, ...]
    url: str
    sha256: str
    read: Callable[[Path], Network]

    def locate(self, setup: Setup) -> Weights:
        """Return the weights in the folder of weights.

        Raises
        ------
        MissingData
            If a file is missing.
        CorruptData
            If they are not known to be the published ones, and ``setup.as_is`` is not set.

        Warns
        -----
        UserWarning
            If only the beginning of the digest is published, and that agrees.
        """
        root = setup.weights_dir or datasets.data_folder(setup.data_dir) / "weights"
        paths = [root / file for file in self.files]
        missing = [path for path in paths if not path.is_file()]
        if missing:
            steps = " and ".join(f"{self.url}/{path.name} to {path}" for path in missing)
            raise MissingData(f"the weights of {self.title} are missing; download {steps}")
        digests = [datasets.digests_of(path)["sha256"] for path in paths]
        official = bool(self.sha256) and digests[-1].startswith(self.sha256)
        if not official and not setup.as_is:
            known = f"that of the official file begins with {self.sha256}"
            raise CorruptData(
                f"{paths[-1]} is not known to be the official file: it has the sha256 "
                f"{digests[-1]}, and {known if self.sha256 else 'no official one is known'}",
                Remedy("as_is", True, "to use it as it is"),
            )
        if official and len(self.sha256) < len(digests[-1]):
            warnings.warn(
                f"only the first {len(self.sha256)} digits of the sha256 of the official "
                f"{paths[-1].name} are published; they agree with those of {digests[-1]}, which "
                "does not prove that it is the official file",
                stacklevel=2,
            )
        together = hashlib.sha256("".join(digests).encode()).hexdigest()
        return Weights(paths[-1], digests[0] if len(digests) == 1 else together, official)

    def load(self, weights: Weights, n_classes: int, device: torch.device) -> Network:
        """Return the network on a device, in evaluation mode.

        Raises
        ------
        CorruptData
            If the weights cannot be read, or belong to a network for other classes.
        """
        with datasets.reading(weights.path):
            network = self.read(weights.path)
        if network.head.out_features != n_classes:
            raise CorruptData(
                f"{weights.path} belongs to a network for {network.head.out_features} classes, and "
                f"there are {n_classes}"
            )
        network.body.to(device, memory_format=torch.channels_last).eval()
        network.head.to(device).eval()
        return network


def _efficientnet(path: Path) -> Network:
    """Return a network as torchvision saves it; its widths and depths follow from the weights."""
    weights = torch.load(path, map_location="cpu", weights_only=True)
    whole = EfficientNet(shape_of(weights))
    whole.load_state_dict(weights)
    body = nn.Sequential(whole.features, whole.avgpool, nn.Flatten())
    head = cast(nn.Linear, whole.classifier[1])
    return Network(body, head, 384, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class _FirstToken(nn.Module):
    """A vision transformer's feature of the whole image."""

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, x: Tensor) -> Tensor:
        token: Tensor = self.transformer(x).last_hidden_state[:, 0]
        return token


def _vision_transformer(path: Path) -> Network:
    """Return a network as transformers saves it, with ``config.json`` in the same folder."""
    from transformers import ViTForImageClassification

    whole: Any
    with _without_bars():
        whole, loading = ViTForImageClassification.from_pretrained(
            str(path.parent),
            local_files_only=True,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    if loading["missing_keys"] or loading["mismatched_keys"]:
        raise CorruptData(f"{path} lacks weights that config.json requires")
    side = int(whole.config.image_size)
    return Network(_FirstToken(whole.vit), whole.classifier, side, (0.5,) * 3, (0.5,) * 3)


@contextmanager
def _without_bars() -> Iterator[None]:
    """Hide the progress bars of transformers, which would break ours."""
    from transformers.utils import logging

    bars: Any = logging  # which has not all its types
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


# By the data that the networks were trained on.
PUBLISHED = {
    "imagenet": PublishedWeights(
        "EfficientNetV2-S",
        ("efficientnet_v2_s-dd5fe13b.pth",),
        "https://download.pytorch.org/models",
        "dd5fe13b",
        _efficientnet,
    ),
    "food101": PublishedWeights(
        "the vision transformer for Food-101",
        ("vit-base-food101/config.json", "vit-base-food101/model.safetensors"),
        "https://huggingface.co/nateraw/vit-base-food101/resolve/main",
        "",
        _vision_transformer,
    ),
}


# -- results ---------------------------------------------------------------------------------------


def pretrained_cells(
    setup: Setup, experiment: str, revision: int, data: str, sets: Sequence[str]
) -> list[Cell]:
    """Return a cell for each run, method and available set; none without network or data."""
    available = [name for name in sets if setup.has(name, "test")]
    has_data = setup.has(data, "test")
    try:
        weights = PUBLISHED[data].locate(setup)
    except (MissingData, CorruptData) as error:
        setup.gaps[PUBLISHED[data].title] = error
        return []
    if not has_data:
        return []
    methods = ("dropout", "laplace") if _has_training(setup, data) else ("dropout",)
    return [
        Cell(experiment, revision, _setting(setup, weights, data, name, method, run))
        for run in range(setup.protocol.runs)
        for method in methods
        for name in available
    ]


def _has_training(setup: Setup, data: str) -> bool:
    """Return whether there are images to fit a Laplace approximation to; if not, note the gap."""
    try:
        setup.load(data, "train")
    except (MissingData, CorruptData) as error:
        purpose = f"the Laplace approximation needs training images: {error.problem}"
        setup.gaps[f"{data}/train"] = type(error)(purpose, *error.remedies)
        return False
    return True


def _setting(
    setup: Setup, weights: Weights, data: str, ood: str, method: str, run: int
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
    if ood in FEWER_ROWS:
        setting["test_rows"] = min(protocol.test_rows, FEWER_ROWS[ood])
        setting["papers"] = {"test_rows": FEWER_ROWS[ood]}
    if method == "laplace":
        setting |= protocol.sizes("train_rows")
        read.append((data, "train"))
    return {**setting, "sets": setup.described(*read)}


def compute(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Yield the results of cells, network by network."""
    for data in sorted({cell.setting["data"] for cell in cells}):
        of_network = [cell for cell in cells if cell.setting["data"] == data]
        predictor = Predictor(setup, data, [cell.setting for cell in of_network])
        for cell in of_network:
            began = time.perf_counter()
            numbers = predictor.numbers(cell.setting)
            seconds = time.perf_counter() - began
            yield cell, Result(numbers, {}, seconds, str(setup.torch_device))


class Predictor:
    """A pretrained network, its features of images, and the members that follow from them."""

    def __init__(self, setup: Setup, data: str, settings: Sequence[Mapping[str, Any]]) -> None:
        self.setup, self.data = setup, data
        self.device = setup.torch_device
        self.weights = PUBLISHED[data].locate(setup)
        n_classes = datasets.describe(data).n_classes
        self.network = PUBLISHED[data].load(self.weights, n_classes, self.device)
        self.most_rows = max(setting["test_rows"] for setting in settings)
        self.train_rows = next((x["train_rows"] for x in settings if "train_rows" in x), None)

    def numbers(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Return the accuracy, and how well each measure detects out-of-distribution images."""
        members_in, members_out = (
            self._members(setting, name) for name in (self.data, setting["ood"])
        )
        rows = self.setup.load(self.data, "test")
        y = np.asarray(rows.y)[drawn_rows(rows, setting["test_rows"], setting["run"])]
        accuracy = float((members_in.mean(1).argmax(1) == y).mean())
        return {"accuracy": accuracy, **detection_numbers(members_in, members_out)}

    def _members(self, setting: Mapping[str, Any], name: str) -> np.ndarray:
        """Return probabilities ``(n, M, K)`` in double precision."""
        rows, run = self.setup.load(name, "test"), setting["run"]
        chosen = drawn_rows(rows, self.most_rows, run)  # the first rows are the same for every cell
        x = self.features(rows, chosen)[: setting["test_rows"]]
        head = nn.Sequential(nn.Dropout(DROPOUT), self.network.head)
        samples = predict_samples(
            head if setting["method"] == "dropout" else self._laplace,
            torch.from_numpy(x),
            n_samples=setting["samples"],
            random_state=run,
            batch_size=_BATCH,
            device=self.device,
            progress=False,
        )
        return np.asarray(samples.probs).astype(np.float64)

    @cached_property
    def _laplace(self) -> Any:
        """A Gaussian over the last layer."""
        rows = self.setup.load(self.data, "train")
        chosen = np.sort(drawn_rows(rows, self.train_rows, 0))
        head = nn.Sequential(nn.Identity(), self.network.head)
        x, y = self.features(rows, chosen), np.asarray(rows.y)[chosen]
        return fit_laplace(head, x, y, device=self.device, progress=False)

    def features(self, rows: Rows, chosen: np.ndarray) -> np.ndarray:
        """Return the body's features of the chosen rows; they are computed once and stored."""
        ordered = np.sort(chosen)  # runs that draw all rows of a set share its files
        parts = np.split(ordered, range(FEATURES_IN_A_FILE, len(ordered), FEATURES_IN_A_FILE))
        with progress_bar(f"features of {rows.name}", len(ordered), self.setup.progress) as bar:
            values = []
            for part in parts:
                path = self._path(rows, part)
                features = _stored(path, (len(part), self.network.head.in_features))
                if features is None:
                    features = self._computed(rows, part)
                    with replacing(path) as partial, partial.open("wb") as file:
                        np.save(file, features)
                values.append(features)
                bar.update(len(part))
        return np.concatenate(values)[np.searchsorted(ordered, chosen)]

    def _computed(self, rows: Rows, chosen: np.ndarray) -> np.ndarray:
        network = self.network
        with torch.inference_mode():
            batches = [
                network.body(network.normalized(batch.to(self.device))).cpu()
                for batch in square_batches(rows, chosen, network.side)
            ]
        features: np.ndarray = torch.cat(batches).numpy()
        return features

    def _path(self, rows: Rows, chosen: np.ndarray) -> Path:
        """The file of features, named by the network, the images and the rows."""
        digest = hashlib.sha256(f"{self.weights.digest} {rows.digest} ".encode())
        digest.update(chosen.astype("<i8").tobytes())
        name = f"{self.data}-{rows.name}-{rows.split}-{digest.hexdigest()[:16]}.npy"
        return self.setup.store.folder / "features" / name


def _stored(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    """Return features from a file; None if it is missing or damaged."""
    try:
        features: np.ndarray = np.load(path, allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return features if features.shape == shape and features.dtype == np.float32 else None
