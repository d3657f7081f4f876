"""The appendix's figure for CIFAR-10, where all measures of total uncertainty order nearly alike.

"The cumulative probability of the top-2 classes across the test instances is 0.989 ± 0.042, which
explains the similar behavior for the uncertainty measures." The paper does not name the method;
here it is the ensemble of five ResNets, those of Table 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise_paper import cifar
from scorewise_paper.published import published
from scorewise_paper.rejection import rejection_section
from scorewise_paper.results import Cell, Stored
from scorewise_paper.runs import Setup
from scorewise_paper.sections import Section, groups

EXPERIMENT = "figure-sp-cifar10"
REVISION = 1  # raise it when the numbers change: results of another revision do not count
DATA = "cifar-10"

compute = cifar.compute


def cells(setup: Setup) -> list[Cell]:
    """Return a cell for each run, which is one ensemble."""
    return cifar.cifar_cells(setup, EXPERIMENT, REVISION, ("ensemble",)) if setup.has(DATA) else []


def section(results: Sequence[Stored]) -> Section:
    """Return areas and curves, and the probability of the two most probable classes."""
    settings = groups(results, EXPERIMENT, DATA)
    papers = "{:.3f} ± {:.3f}".format(*published("fig:app-sp-tu-cifar10")["top_2_mass"])
    masses = [
        f"The two most probable classes together have, over the test images of run "
        f"{stored.cell.setting['run']}, {stored.numbers['top_2_mass']:.3f} ± "
        f"{stored.numbers['top_2_mass_sd']:.3f} (the paper: {papers})."
        for group in settings[:1]
        for stored in group.select()
    ]
    return rejection_section(settings, ("total",), EXPERIMENT, masses)
