"""Table 1: detecting images that are not of CIFAR-10, by epistemic uncertainty.

"We train a ResNet18 model on the CIFAR-10 dataset": 100 epochs of stochastic gradient descent with
learning rate 0.001, momentum 0.9, weight decay 5e-4 and a cosine schedule, with random crops and
flips; all images, in and out of distribution, are normalised by CIFAR-10's channels. The members
are 20 draws from dropout before the last layer, an ensemble of 5, or 20 draws from a Laplace
approximation of the last layer; 10,000 instances of each test set, three runs. The appendix's table
of the spherical loss is included.

Where the paper is silent: batches of 128, and the rows that do not fill the last batch of an epoch
are left out; the dropout networks were trained with dropout and are not the ensemble's; a draw
from dropout drops the same units for all images; the Laplace approximation, with laplace-torch's
prior precision of 1, is around the ensemble's first network and fitted to the training images,
neither cropped nor flipped. On a GPU training is in bfloat16, on a CPU in single precision;
predictions are in single precision.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise_paper import cifar
from scorewise_paper.detection import detection_section
from scorewise_paper.results import Cell, Stored
from scorewise_paper.runs import Setup
from scorewise_paper.sections import Section

EXPERIMENT = "table-1"
REVISION = 1  # raise it when the numbers change: results of another revision do not count
DATA = "cifar-10"
SETS = ("cifar-100", "places365", "svhn")
STAND_IN = "tiny-imagenet-32"  # real images too, used where a set of the paper is missing
METHODS = ("dropout", "ensemble", "laplace")

compute = cifar.compute


def cells(setup: Setup) -> list[Cell]:
    """Return a cell for each run, method and available set."""
    available = [name for name in SETS if setup.has(name, "test")]
    if len(available) < len(SETS) and setup.has(STAND_IN, "test"):
        available.append(STAND_IN)
    setup.gaps.pop(STAND_IN, None)  # the paper does not need it
    if not setup.has(DATA) or not available:
        return []
    return cifar.cifar_cells(setup, EXPERIMENT, REVISION, METHODS, available)


def section(results: Sequence[Stored]) -> Section:
    """Return the paper's AUROCs beside ours, those of the spherical loss included."""
    return detection_section(
        results,
        EXPERIMENT,
        DATA,
        sets=SETS,
        methods=METHODS,
        tables=("tab:ood", "tab:ood-spherical"),
    )
