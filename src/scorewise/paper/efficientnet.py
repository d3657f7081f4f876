"""EfficientNetV2-S (Tan and Le, 2021), with parameters named as torchvision names them.

Stochastic depth, which is for training alone, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

_EXPANSIONS = (1, 4, 4, 4, 6, 6)  # by stage
_STRIDES = (1, 2, 2, 2, 1, 2)  # of a stage's first block
_FUSED = 3  # stages whose blocks begin with a plain convolution
_EPSILON = 1e-3  # of the batch norms
_DROPOUT = 0.2


@dataclass(frozen=True)
class Shape:
    """How wide and deep the network is; that of the small one (S) unless told."""

    stem: int = 24
    widths: tuple[int, ...] = (24, 48, 64, 128, 160, 256)
    depths: tuple[int, ...] = (2, 4, 4, 6, 9, 15)
    last: int = 1280
    n_classes: int = 1000


class EfficientNet(nn.Module):
    """Six stages of convolutions between a stem and a head: ``features``, then ``classifier``."""

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
        """Logits ``(n, K)`` of images ``(n, 3, height, width)``."""
        logits: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return logits


def shape_of(weights: Mapping[str, Tensor]) -> Shape:
    """The shape of the network that these weights, by name, are of."""
    stages = [
        [name for name in weights if name.startswith(f"features.{stage}.")]
        for stage in range(1, len(_STRIDES) + 1)
    ]
    depths = tuple(len({name.split(".")[2] for name in names}) for names in stages)
    # the last vector of a block is of the batch norm after its last convolution
    ends = ([name for name in names if name.endswith(".running_mean")][-1] for names in stages)
    last, n_classes = f"features.{len(stages) + 1}.0.weight", "classifier.1.weight"
    return Shape(
        stem=len(weights["features.0.0.weight"]),
        widths=tuple(len(weights[name]) for name in ends),
        depths=depths,
        last=len(weights[last]),
        n_classes=len(weights[n_classes]),
    )


class _Around(nn.Module):
    """A block, with a way around it where what goes in looks like what comes out."""

    def __init__(self, before: int, after: int, stride: int, *layers: nn.Module) -> None:
        super().__init__()
        self.block = nn.Sequential(*layers)
        self.alike = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.block(x)
        return found + x if self.alike else found


class _FusedBlock(_Around):
    """A convolution to more channels, and one back."""

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


class _Block(_Around):
    """To more channels, a convolution of each on its own, a weight for each, and back."""

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
    """Channels weighted by what all of the image has in them."""

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
    """With a batch norm, and the activation unless told."""
    layers = [
        nn.Conv2d(before, after, size, stride, padding=size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after, eps=_EPSILON),
    ]
    return nn.Sequential(*layers, *([nn.SiLU()] if active else []))
