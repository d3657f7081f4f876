"""The networks of the paper, and images in the form that they take.

The paper trains an MLP, a LeNet and a ResNet18, each a body and a head, and takes a pretrained
EfficientNetV2-S and a vision transformer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from scorewise_paper.datasets import Rows

_IMAGES = 256  # in a batch; the next batch is decoded while one is used
_THREADS = min(8, os.cpu_count() or 1)  # that decode

# EfficientNetV2, by stage
_EXPANSIONS = (1, 4, 4, 4, 6, 6)
_STRIDES = (1, 2, 2, 2, 1, 2)  # of a stage's first block
_FUSED = 3  # stages whose blocks begin with a plain convolution
_EPSILON = 1e-3  # of the batch norms
_DROPOUT = 0.2


# -- trained here ----------------------------------------------------------------------------------


class NetworkWithHead(nn.Module):
    """A body that computes features, dropout, and a linear head that turns them into logits.

    The paper's members are draws from dropout before the last layer; rate 0 means no dropout.
    """

    def __init__(self, body: nn.Module, width: int, n_classes: int, dropout: float) -> None:
        super().__init__()
        self.body = body
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, n_classes)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits ``(n, K)``; with ``mask``, the features that dropout retains are given."""
        values = self.body(x)
        rate = self.dropout.p
        retained = self.dropout(values) if mask is None else values * mask / (1 - rate)
        logits: Tensor = self.head(retained)
        return logits


def mlp(
    n_features: int, n_classes: int, *, wide: bool = True, dropout: float = 0.5
) -> NetworkWithHead:
    """Return the paper's multilayer perceptron, for grey images.

    "An input layer with 784 features with ReLU activations followed by a hidden layer with 100
    features": read literally there is a layer as wide as the image (``wide``) before the one of
    100; read otherwise, the input itself is meant.
    """
    first = [nn.Linear(n_features, n_features), nn.ReLU()] if wide else []
    hidden = [nn.Linear(n_features, 100), nn.ReLU()]
    return NetworkWithHead(nn.Sequential(nn.Flatten(), *first, *hidden), 100, n_classes, dropout)


def lenet(n_channels: int, side: int, n_classes: int, *, dropout: float = 0.5) -> NetworkWithHead:
    """Return the paper's convolutional network, after LeNet5, for colour images."""
    left = ((side - 4) // 2 - 4) // 2
    body = nn.Sequential(
        nn.Conv2d(n_channels, 32, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * left * left, 800),
        nn.ReLU(),
    )
    return NetworkWithHead(body, 800, n_classes, dropout)


def resnet18(n_classes: int, *, dropout: float = 0.0, width: int = 64) -> NetworkWithHead:
    """Return a ResNet18 for small images: its first layer has 3×3 filters and no pooling."""
    stages: list[nn.Module] = []
    before = width
    for i in range(4):
        after = width * 2**i
        stages += [
            _ResidualBlock(before, after, stride=1 if i == 0 else 2),
            _ResidualBlock(after, after, stride=1),
        ]
        before = after
    body = nn.Sequential(
        _plain_convolution(3, width, 3, stride=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return NetworkWithHead(body, before, n_classes, dropout)


class _ResidualBlock(nn.Module):
    """Two convolutions, and a shortcut around them."""

    def __init__(self, before: int, after: int, *, stride: int) -> None:
        super().__init__()
        self.first = _plain_convolution(before, after, 3, stride)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = _plain_convolution(after, after, 3, 1)
        self.second_norm = nn.BatchNorm2d(after)
        same_shape = stride == 1 and before == after
        self.around = (
            nn.Identity()
            if same_shape
            else nn.Sequential(_plain_convolution(before, after, 1, stride), nn.BatchNorm2d(after))
        )

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.around(x))


def _plain_convolution(before: int, after: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride=stride, padding=size // 2, bias=False)


def features(network: NetworkWithHead, x: Tensor, *, batch: int = 1000) -> Tensor:
    """Return the body's features of images ``(n, channels, height, width)``, in evaluation mode."""
    body = network.body.eval()
    with torch.inference_mode():
        return torch.cat([body(part).float() for part in x.split(batch)])


def dropout_probabilities(
    values: Tensor, head: nn.Linear, n_draws: int, rate: float, draws: torch.Generator
) -> Tensor:
    """Return probabilities ``(n, n_draws, K)`` of a head over features, by dropout.

    A draw drops the same features of all rows, so it is one network.
    """
    with torch.inference_mode():
        masks = torch.rand(n_draws, values.shape[1], device=values.device, generator=draws) >= rate
        weights = head.weight * masks[:, None] / (1 - rate)  # (draws, K, width)
        logits = torch.einsum("nw,dkw->ndk", values, weights) + head.bias
        return logits.softmax(-1)


# -- EfficientNetV2 --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """Widths and depths of an EfficientNetV2; those of the small one (S) by default."""

    stem: int = 24
    widths: tuple[int, ...] = (24, 48, 64, 128, 160, 256)
    depths: tuple[int, ...] = (2, 4, 4, 6, 9, 15)
    last: int = 1280
    n_classes: int = 1000


class EfficientNet(nn.Module):
    """EfficientNetV2 (Tan and Le, 2021), with parameters named as torchvision names them.

    Stochastic depth, which matters in training alone, is left out. torchvision's own class is not
    used because torchvision can only be imported with its own build of torch.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        before = shape.stem
        layers: list[nn.Module] = [_convolution(3, before, 3, stride=2)]
        for stage, (after, depth) in enumerate(zip(shape.widths, shape.depths, strict=True)):
            block = _FusedBlock if stage < _FUSED else _Block
            expansion, stride = _EXPANSIONS[stage], _STRIDES[stage]
            first = block(before, after, expansion, stride)
            others = (block(after, after, expansion, 1) for _ in range(depth - 1))
            layers.append(nn.Sequential(first, *others))
            before = after
        layers.append(_convolution(before, shape.last, 1))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Dropout(_DROPOUT), nn.Linear(shape.last, shape.n_classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``(n, K)`` of images ``(n, 3, height, width)``."""
        logits: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return logits


def shape_of(weights: Mapping[str, Tensor]) -> Shape:
    """Return the shape of the network that has these weights."""
    stages = [
        [name for name in weights if name.startswith(f"features.{stage}.")]
        for stage in range(1, len(_STRIDES) + 1)
    ]
    depths = tuple(len({name.split(".")[2] for name in names}) for names in stages)
    # the last vector of a block belongs to the batch norm after its last convolution
    ends = ([name for name in names if name.endswith(".running_mean")][-1] for names in stages)
    last, n_classes = f"features.{len(stages) + 1}.0.weight", "classifier.1.weight"
    return Shape(
        stem=len(weights["features.0.0.weight"]),
        widths=tuple(len(weights[name]) for name in ends),
        depths=depths,
        last=len(weights[last]),
        n_classes=len(weights[n_classes]),
    )


class _Shortcut(nn.Module):
    """A block, with a shortcut around it where input and output have the same shape."""

    def __init__(self, before: int, after: int, stride: int, *layers: nn.Module) -> None:
        super().__init__()
        self.block = nn.Sequential(*layers)
        self.same_shape = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        values: Tensor = self.block(x)
        return values + x if self.same_shape else values


class _FusedBlock(_Shortcut):
    """A convolution to more channels, and another back."""

    def __init__(self, before: int, after: int, expansion: int, stride: int) -> None:
        inner = before * expansion
        layers = (
            [_convolution(before, after, 3, stride=stride)]
            if expansion == 1
            else [
                _convolution(before, inner, 3, stride=stride),
                _convolution(inner, after, 1, active=False),
            ]
        )
        super().__init__(before, after, stride, *layers)


class _Block(_Shortcut):
    """A convolution to more channels, one within each channel, weights for channels, and back."""

    def __init__(self, before: int, after: int, expansion: int, stride: int) -> None:
        inner = before * expansion
        super().__init__(
            before,
            after,
            stride,
            _convolution(before, inner, 1),
            _convolution(inner, inner, 3, stride=stride, groups=inner),
            _SqueezeExcitation(inner, max(1, before // 4)),
            _convolution(inner, after, 1, active=False),
        )


class _SqueezeExcitation(nn.Module):
    """Channels weighted by their means over the image."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.activation = nn.SiLU()
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        weights: Tensor = self.fc2(self.activation(self.fc1(self.avgpool(x)))).sigmoid()
        return weights * x


def _convolution(
    before: int, after: int, size: int, *, stride: int = 1, groups: int = 1, active: bool = True
) -> nn.Sequential:
    """Return a convolution with a batch norm, and an activation unless ``active`` is False."""
    layers = [
        nn.Conv2d(before, after, size, stride, padding=size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after, eps=_EPSILON),
    ]
    return nn.Sequential(*layers, *([nn.SiLU()] if active else []))


# -- images ----------------------------------------------------------------------------------------


def normalized(images: Tensor, mean: Sequence[float], deviation: Sequence[float]) -> Tensor:
    """Return images of bytes as numbers, normalised channel by channel."""
    centre, scale = (
        torch.tensor(x, device=images.device)[:, None, None] for x in (mean, deviation)
    )
    scaled: Tensor = (images.float() / 255 - centre) / scale
    return scaled.contiguous(memory_format=torch.channels_last)


def square_batches(rows: Rows, chosen: np.ndarray, side: int) -> Iterator[Tensor]:
    """Yield batches of bytes ``(n, 3, side, side)``: the centre of each image, resized."""
    parts = [chosen[i : i + _IMAGES] for i in range(0, len(chosen), _IMAGES)]
    if isinstance(rows.x, np.ndarray):
        for part in parts:
            yield _resized(torch.from_numpy(rows.x[part]), side)
        return

    def decoded(i: int) -> Tensor:
        return _resized(torch.from_numpy(rows.x[i]).movedim(-1, 0)[None], side)

    with ThreadPoolExecutor(_THREADS) as pool:
        decoding: Iterator[Tensor] | None = None
        for part in parts:
            ready, decoding = decoding, pool.map(decoded, part.tolist())
            if ready is not None:
                yield torch.cat(list(ready))
        if decoding is not None:
            yield torch.cat(list(decoding))


def _resized(images: Tensor, side: int) -> Tensor:
    """Return images with the shorter side resized to ``side`` and the longer cropped to it.

    This is what torchvision does.
    """
    height, width = images.shape[2:]
    if (height, width) == (side, side):
        return images
    shape = [int(side * n / min(height, width)) for n in (height, width)]
    resized = functional.interpolate(
        images.float(), shape, mode="bilinear", antialias=True, align_corners=False
    )
    top, left = (round((n - side) / 2) for n in shape)
    middle = resized[:, :, top : top + side, left : left + side]
    return middle.round().clamp(0, 255).to(torch.uint8)
