"""The appendix's figure for CIFAR-10, where all measures of total uncertainty order nearly alike.

"The cumulative probability of the top-2 classes across the test instances is 0.989 ± 0.042, which
explains the similar behavior for the uncertainty measures." The paper does not name the method;
this is the ensemble of five ResNets, those of Table 1.
"""

from __future__ import annotations

from scorewise.paper.cells import Cell
from scorewise.paper.setup import Setup

TITLE = "Appendix: rejecting by total uncertainty, CIFAR-10"


def cells(setup: Setup) -> list[Cell]:
    """An ensemble for each run."""
    from scorewise.paper.cifar import DATA, rejection_cells

    return rejection_cells(setup, "ensemble") if setup.has(DATA) else []
