"""The appendix's table for Food-101: detecting images that show no food, by epistemic uncertainty.

A vision transformer "pre-trained on Imagenet21K and fine-tuned on Food101", Hugging Face's
nateraw/vit-base-food101, for images of 224 × 224 pixels. The members are 20 draws from dropout
before the last layer, or from a Laplace approximation of it; 10,000 instances of each test set,
three runs.

Where the paper is silent: of images that are not square, the centre is used.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise_paper import pretrained
from scorewise_paper.detection import detection_section
from scorewise_paper.results import Cell, Stored
from scorewise_paper.runs import Setup
from scorewise_paper.sections import Section

EXPERIMENT = "table-food101"
REVISION = 2  # raise it when the numbers change: results of another revision do not count
DATA = "food101"
METHODS = ("dropout", "laplace")
SETS = ("cifar-100", "places365", "svhn")

compute = pretrained.compute


def cells(setup: Setup) -> list[Cell]:
    """Return a cell for each run, method and available set."""
    return pretrained.pretrained_cells(setup, EXPERIMENT, REVISION, DATA, SETS)


def section(results: Sequence[Stored]) -> Section:
    """Return the paper's AUROCs beside ours."""
    return detection_section(
        results,
        EXPERIMENT,
        DATA,
        sets=SETS,
        methods=METHODS,
        tables=("tab:app-ood-food101",),
        needs_weights=True,
    )
