"""The networks that the paper trains: an MLP, a LeNet and a ResNet18, each a body and a head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Headed(nn.Module):
    """A body that finds features, dropout, and a linear head that turns them into logits.

    Dropout before the last layer is what the paper draws from; where it is 0 the network has none.
    """

    def __init__(self, body: nn.Module, width: int, n_classes: int, dropout: float) -> None:
        super().__init__()
        self.body = body
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, n_classes)

    def forward(self, x: Tensor, kept: Tensor | None = None) -> Tensor:
        """Logits ``(n, K)``; ``kept`` says which features are, where dropout is drawn elsewhere."""
        found = self.body(x)
        rate = self.dropout.p
        thinned = self.dropout(found) if kept is None else found * kept / (1 - rate)
        logits: Tensor = self.head(thinned)
        return logits


def mlp(n_features: int, n_classes: int, *, wide: bool = True, dropout: float = 0.5) -> Headed:
    """The paper's multilayer perceptron, for grey images.

    "An input layer with 784 features with ReLU activations followed by a hidden layer with 100
    features": read to the letter there is a layer as wide as the image (``wide``) before the one
    of 100; read otherwise, the input itself is meant.
    """
    first = [nn.Linear(n_features, n_features), nn.ReLU()] if wide else []
    hidden = [nn.Linear(n_features, 100), nn.ReLU()]
    return Headed(nn.Sequential(nn.Flatten(), *first, *hidden), 100, n_classes, dropout)


def lenet(n_channels: int, side: int, n_classes: int, *, dropout: float = 0.5) -> Headed:
    """The paper's convolutional network, after LeNet5, for colour images."""
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
    return Headed(body, 800, n_classes, dropout)


def resnet18(n_classes: int, *, dropout: float = 0.0, width: int = 64) -> Headed:
    """ResNet18 in its form for small images: a first layer of 3×3 filters, and no pooling there."""
    stages: list[nn.Module] = []
    before = width
    for i in range(4):
        after = width * 2**i
        stages += [_Block(before, after, stride=1 if i == 0 else 2), _Block(after, after, stride=1)]
        before = after
    body = nn.Sequential(
        _convolution(3, width, 3, stride=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return Headed(body, before, n_classes, dropout)


class _Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, before: int, after: int, *, stride: int) -> None:
        super().__init__()
        self.first = _convolution(before, after, 3, stride)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = _convolution(after, after, 3, 1)
        self.second_norm = nn.BatchNorm2d(after)
        alike = stride == 1 and before == after
        self.around = (
            nn.Identity()
            if alike
            else nn.Sequential(_convolution(before, after, 1, stride), nn.BatchNorm2d(after))
        )

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.around(x))


def _convolution(before: int, after: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride=stride, padding=size // 2, bias=False)


def features(network: Headed, x: Tensor, *, batch: int = 1000) -> Tensor:
    """What the body finds in images ``(n, channels, height, width)``, in evaluation mode."""
    body = network.body.eval()
    with torch.inference_mode():
        return torch.cat([body(part).float() for part in x.split(batch)])


def thinned(
    found: Tensor, head: nn.Linear, n_draws: int, rate: float, draws: torch.Generator
) -> Tensor:
    """Probabilities ``(n, n_draws, K)`` of a head over features, by dropout.

    A draw leaves out the same features of all rows: it is one network, thinned.
    """
    with torch.inference_mode():
        kept = torch.rand(n_draws, found.shape[1], device=found.device, generator=draws) >= rate
        weights = head.weight * kept[:, None] / (1 - rate)  # (draws, K, width)
        logits = torch.einsum("nw,dkw->ndk", found, weights) + head.bias
        return logits.softmax(-1)
