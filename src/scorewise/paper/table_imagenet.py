"""The appendix's table of ImageNet: telling images that are none of it, by epistemic uncertainty.

"We use the EfficientNetV2S implementation from PyTorch which was pre-trained on ImageNet"; images
are resized and cut to 384 × 384 pixels as its weights want them. The members are 20 draws from
dropout before the last layer, or from a Laplace approximation of it; 10,000 instances of each test
set (of ImageNet its validation images), 2,000 where ImageNet-O is told, three runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise.paper.cells import Cell, Stored
from scorewise.paper.detection_section import detection_section
from scorewise.paper.kinds import PRETRAINED_OOD
from scorewise.paper.setup import Setup
from scorewise.paper.tables import Section

TITLE = "Table: detecting what is not ImageNet, by epistemic uncertainty"
DATA = "imagenet"
METHODS = ("dropout", "laplace")
SETS = ("imagenet-o", "cifar-100", "places365", "svhn")


def cells(setup: Setup) -> list[Cell]:
    """One for each set that is there, method and run."""
    from scorewise.paper.pretrained import ood_cells

    return ood_cells(setup, DATA, SETS)


def section(results: Sequence[Stored]) -> Section:
    """The paper's AUROCs beside ours."""
    return detection_section(
        TITLE,
        results,
        PRETRAINED_OOD,
        DATA,
        sets=SETS,
        methods=METHODS,
        papers=("tab:app-ood-imagenet",),
    )
