"""Table 1: telling images that are not of CIFAR-10, by epistemic uncertainty.

"We train a ResNet18 model on the CIFAR-10 dataset": 100 epochs of stochastic gradient descent with
learning rate 0.001, momentum 0.9, weight decay 5e-4 and a cosine schedule, with random crops and
flips; all images, in and out of distribution, are normalised by CIFAR-10's channels. The members
are 20 draws from dropout before the last layer, an ensemble of 5, or 20 draws from a Laplace
approximation of the last layer; 10,000 instances of each test set, three runs. The appendix's table
of the spherical loss is in here too.

Where the paper is silent: batches of 128, and the rows that do not fill the last of an epoch are
left out; the networks of dropout were trained with it and are others than the ensemble's; a draw
from dropout thins the network once, for all images; the Laplace approximation, with laplace-torch's
prior precision of 1, is around the ensemble's first network and fitted to the training images as
they are, neither cropped nor flipped. On a GPU training is in bfloat16, on a CPU in single
precision; predictions are in single precision.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise.paper.cells import Cell, Stored
from scorewise.paper.detection_section import detection_section
from scorewise.paper.kinds import RESNET_OOD
from scorewise.paper.setup import Setup
from scorewise.paper.tables import Section

TITLE = "Table 1: detecting what is not CIFAR-10, by epistemic uncertainty"
DATA = "cifar-10"
SETS = ("cifar-100", "places365", "svhn")
STAND_IN = "tiny-imagenet-32"  # real images too, for where a set of the paper cannot be had
METHODS = ("dropout", "ensemble", "laplace")


def cells(setup: Setup) -> list[Cell]:
    """One for each set that is there, method and run."""
    from scorewise.paper.cifar import ood_cells

    there = [name for name in SETS if setup.has(name, "test")]
    if len(there) < len(SETS) and setup.has(STAND_IN, "test"):
        there.append(STAND_IN)
    setup.gaps.pop(STAND_IN, None)  # nobody asked for it
    return ood_cells(setup, there, METHODS) if setup.has(DATA) else []


def section(results: Sequence[Stored]) -> Section:
    """The paper's AUROCs beside ours, with those of the spherical loss."""
    return detection_section(
        TITLE,
        results,
        RESNET_OOD,
        DATA,
        sets=SETS,
        methods=METHODS,
        papers=("tab:ood", "tab:ood-spherical"),
    )
