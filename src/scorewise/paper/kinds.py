"""The kinds of cells, and what we chose where the paper is silent; known without torch."""

from __future__ import annotations

from dataclasses import dataclass

FORESTS = "forest-rejection"
LEARNING = "active-learning"
RESNET_OOD = "resnet-ood"
RESNET_REJECTION = "resnet-rejection"
PRETRAINED_OOD = "pretrained-ood"

# Who computes cells of a kind: a module, which may need torch, and its function.
COMPUTED_BY = {
    FORESTS: ("scorewise.paper.rejection", "compute_forests"),
    LEARNING: ("scorewise.paper.learning", "compute"),
    RESNET_OOD: ("scorewise.paper.cifar", "compute"),
    RESNET_REJECTION: ("scorewise.paper.cifar", "compute"),
    PRETRAINED_OOD: ("scorewise.paper.pretrained", "compute"),
}


@dataclass(frozen=True)
class Choices:
    """How small networks learn, as far as the paper does not say.

    Parameters
    ----------
    optimizer : "adam" or "sgd"
        The paper gives a learning rate only; "sgd" has momentum 0.9.
    batch : int
        Rows per step.
    wide : bool
        Whether the MLP has a first layer as wide as the image (see :func:`networks.mlp`).
    """

    optimizer: str = "adam"
    batch: int = 64
    wide: bool = True

    def __str__(self) -> str:
        names = {"adam": "Adam", "sgd": "SGD with momentum 0.9"}
        wide = "" if self.wide else ", no 784-wide layer"
        return f"{names[self.optimizer]}, batches of {self.batch}{wide}"
