"""The appendix's figure for Poker Hand: rejecting by all three components.

A forest of "20 trees and a maximum depth of 20"; the published training and testing files are
pooled and split 70 to 30, as the paper does. "These results show the same behavior as for the
CoverType dataset."
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise.decompose import COMPONENTS
from scorewise.paper.cells import Cell, Stored
from scorewise.paper.kinds import FORESTS
from scorewise.paper.rejection import forest_cells
from scorewise.paper.rejection_section import rejection_section
from scorewise.paper.results import groups
from scorewise.paper.setup import Setup
from scorewise.paper.tables import Section

TITLE = "Appendix: rejecting by all three components, Poker Hand"
DATA, TREES, DEPTH = "poker-hand", 20, 20


def cells(setup: Setup) -> list[Cell]:
    """A forest for each run."""
    return forest_cells(setup, DATA, trees=TREES, depth=DEPTH) if setup.has(DATA) else []


def section(results: Sequence[Stored]) -> Section:
    """Areas and curves, and whether the rule of the task's own loss is best."""
    found = groups(results, FORESTS, DATA)
    return rejection_section(TITLE, found, COMPONENTS, "figure-sp-poker")
