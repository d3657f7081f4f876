"""The appendix's table for ImageNet: detecting images that are not of it, by epistemic uncertainty.

"We use the EfficientNetV2S implementation from PyTorch which was pre-trained on ImageNet"; images
are resized and cropped to 384 × 384 pixels as its weights require. The members are 20 draws from
dropout before the last layer, or from a Laplace approximation of it; 10,000 instances of each test
set (of ImageNet its validation images), 2,000 against ImageNet-O, three runs.

Where ImageNet is missing, a folder of its validation images stands in for it, and where the weights
are missing, EfficientNet-Lite0 (images of 224 × 224 pixels) stands in for EfficientNetV2-S; see
:mod:`pretrained` for its Laplace approximation. Both are marked in every result.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise_paper import pretrained
from scorewise_paper.detection import detection_section
from scorewise_paper.results import Cell, Stored
from scorewise_paper.runs import Setup
from scorewise_paper.sections import Section

EXPERIMENT = "table-imagenet"
REVISION = 2  # raise it when the numbers change: results of another revision do not count
DATA = "imagenet"
STAND_IN = "imagenet-val-800"  # real images too, used where ImageNet is missing
METHODS = ("dropout", "laplace")
SETS = ("imagenet-o", "cifar-100", "places365", "svhn")

compute = pretrained.compute


def cells(setup: Setup) -> list[Cell]:
    """Return a cell for each run, method and available set."""
    return pretrained.pretrained_cells(setup, EXPERIMENT, REVISION, DATA, SETS, STAND_IN)


def section(results: Sequence[Stored]) -> Section:
    """Return the paper's AUROCs beside ours."""
    return detection_section(
        results,
        EXPERIMENT,
        DATA,
        STAND_IN,
        sets=SETS,
        methods=METHODS,
        tables=("tab:app-ood-imagenet",),
        needs_weights=True,
    )
