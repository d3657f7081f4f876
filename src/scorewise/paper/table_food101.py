"""The appendix's table of Food-101: telling images of no food, by epistemic uncertainty.

A vision transformer "pre-trained on Imagenet21K and fine-tuned on Food101", Hugging Face's
nateraw/vit-base-food101, for images of 224 × 224 pixels. The members are 20 draws from dropout
before the last layer, or from a Laplace approximation of it; 10,000 instances of each test set,
three runs.

Where the paper is silent: of images that are no squares, the middle is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise.paper.cells import Cell, Stored
from scorewise.paper.detection_section import detection_section
from scorewise.paper.kinds import PRETRAINED_OOD
from scorewise.paper.setup import Setup
from scorewise.paper.tables import Section

TITLE = "Table: detecting what is not Food-101, by epistemic uncertainty"
DATA = "food101"
METHODS = ("dropout", "laplace")
SETS = ("cifar-100", "places365", "svhn")


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
        papers=("tab:app-ood-food101",),
    )
