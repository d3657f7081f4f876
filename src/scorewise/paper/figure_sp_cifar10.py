"""The appendix's figure for CIFAR-10, where all measures of total uncertainty order nearly alike.

"The cumulative probability of the top-2 classes across the test instances is 0.989 ± 0.042, which
explains the similar behavior for the uncertainty measures." The paper does not name the method;
this is the ensemble of five ResNets, those of Table 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise.paper.cells import Cell, Stored
from scorewise.paper.kinds import RESNET_REJECTION
from scorewise.paper.published import published
from scorewise.paper.rejection_section import rejection_section
from scorewise.paper.results import groups
from scorewise.paper.setup import Setup
from scorewise.paper.tables import Section

TITLE = "Appendix: rejecting by total uncertainty, CIFAR-10"
DATA = "cifar-10"


def cells(setup: Setup) -> list[Cell]:
    """An ensemble for each run."""
    from scorewise.paper.cifar import rejection_cells

    return rejection_cells(setup, "ensemble") if setup.has(DATA) else []


def section(results: Sequence[Stored]) -> Section:
    """Areas and curves, and how much probability the two likeliest classes have."""
    found = groups(results, RESNET_REJECTION, DATA)
    papers = "{:.3f} ± {:.3f}".format(*published("fig:app-sp-tu-cifar10")["top_2_mass"])
    masses = [
        f"The two likeliest classes together have, over the test images of run "
        f"{one.cell.setting['run']}, {one.numbers['top_2_mass']:.3f} ± "
        f"{one.numbers['top_2_mass_sd']:.3f} (the paper: {papers})."
        for group in found[:1]
        for one in group.of()
    ]
    return rejection_section(TITLE, found, ("total",), "figure-sp-cifar10", masses)
