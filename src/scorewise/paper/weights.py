"""Pretrained networks: their published weights, found, verified and loaded, never downloaded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from scorewise.datasets import data_folder
from scorewise.datasets.damage import damage_told
from scorewise.datasets.states import digests
from scorewise.errors import CorruptData, MissingData
from scorewise.paper.efficientnet import EfficientNet, shape_of
from scorewise.paper.images import normalized
from scorewise.paper.setup import Setup


@dataclass(frozen=True)
class Network:
    """A network in two: a body that finds features in images, and a linear head."""

    body: nn.Module
    head: nn.Linear
    side: int  # of the images that it wants, in pixels
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def normalized(self, images: Tensor) -> Tensor:
        """Bytes to numbers around 0, as in the network's training."""
        return normalized(images, self.mean, self.deviation)


@dataclass(frozen=True)
class Found:
    """Weights as they lie in a folder."""

    path: Path
    digest: str
    official: bool


@dataclass(frozen=True)
class Published:
    """Weights that somebody has published.

    Parameters
    ----------
    title : str
        For people.
    files : tuple of str
        Where they are put, under the folder of weights; the last holds the weights.
    url : str
        What the files' names come after.
    sha256 : str
        How the digest of the weights begins; empty where none is known.
    read : callable
        From the path of the weights to the network.
    """

    title: str
    files: tuple[str, ...]
    url: str
    sha256: str
    read: Callable[[Path], Network]

    def find(self, setup: Setup) -> Found:
        """Where the weights are, and whether they are the published ones.

        Raises
        ------
        MissingData
            If a file is not there.
        CorruptData
            If they are others, or nobody knows, and ``setup.as_is`` is not set.
        """
        root = setup.weights_dir or data_folder(setup.data_dir) / "weights"
        paths = [root / file for file in self.files]
        missing = [path for path in paths if not path.is_file()]
        if missing:
            steps = " and ".join(f"{self.url}/{path.name} to {path}" for path in missing)
            raise MissingData(f"the weights of {self.title} are not there; download {steps}")
        found = [digests(path)["sha256"] for path in paths]
        official = bool(self.sha256) and found[-1].startswith(self.sha256)
        if not official and not setup.as_is:
            known = f"that of the official file begins with {self.sha256}"
            raise CorruptData(
                f"{paths[-1]} is not known to be the official file: it has the sha256 {found[-1]}, "
                f"and {known if self.sha256 else 'no official one is known'}; pass as_is=True to "
                "take it as it is"
            )
        together = hashlib.sha256("".join(found).encode()).hexdigest()
        return Found(paths[-1], found[0] if len(found) == 1 else together, official)

    def load(self, found: Found, n_classes: int, device: torch.device) -> Network:
        """The network on a device, in evaluation mode.

        Raises
        ------
        CorruptData
            If the weights cannot be read, or are those of a network for other classes.
        """
        with damage_told(found.path):
            network = self.read(found.path)
        if network.head.out_features != n_classes:
            raise CorruptData(
                f"{found.path} is of a network for {network.head.out_features} classes, and there "
                f"are {n_classes}"
            )
        network.body.to(device, memory_format=torch.channels_last).eval()
        network.head.to(device).eval()
        return network


def _efficientnet(path: Path) -> Network:
    """As torchvision saves it; how wide and deep it is follows from the weights."""
    weights = torch.load(path, map_location="cpu", weights_only=True)
    whole = EfficientNet(shape_of(weights))
    whole.load_state_dict(weights)
    body = nn.Sequential(whole.features, whole.avgpool, nn.Flatten())
    head = cast(nn.Linear, whole.classifier[1])
    return Network(body, head, 384, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class _FirstToken(nn.Module):
    """What a vision transformer says of the whole image."""

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.transformer(x).last_hidden_state[:, 0]
        return found


def _vision_transformer(path: Path) -> Network:
    """As transformers saves it, with ``config.json`` beside."""
    try:
        from transformers import ViTForImageClassification
    except ImportError:
        raise ImportError(
            "the network for Food-101 needs transformers: pip install 'scorewise[paper]'"
        ) from None
    whole: Any
    with _no_bars():
        whole, told = ViTForImageClassification.from_pretrained(
            str(path.parent),
            local_files_only=True,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    if told["missing_keys"] or told["mismatched_keys"]:
        raise CorruptData(f"{path} has not all the weights that config.json speaks of")
    side = int(whole.config.image_size)
    return Network(_FirstToken(whole.vit), whole.classifier, side, (0.5,) * 3, (0.5,) * 3)


@contextmanager
def _no_bars() -> Iterator[None]:
    """Without those of transformers, which would be drawn into ours."""
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
    "imagenet": Published(
        "EfficientNetV2-S",
        ("efficientnet_v2_s-dd5fe13b.pth",),
        "https://download.pytorch.org/models",
        "dd5fe13b",
        _efficientnet,
    ),
    "food101": Published(
        "the vision transformer for Food-101",
        ("vit-base-food101/config.json", "vit-base-food101/model.safetensors"),
        "https://huggingface.co/nateraw/vit-base-food101/resolve/main",
        "",
        _vision_transformer,
    ),
}
