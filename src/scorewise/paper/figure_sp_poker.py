"""The appendix's figure for Poker Hand: rejecting by all three components.

A forest of "20 trees and a maximum depth of 20"; the published training and testing files are
pooled and split 70 to 30, as the paper does. "These results show the same behavior as for the
CoverType dataset."
"""

from __future__ import annotations

from scorewise.paper.cells import Cell
from scorewise.paper.rejection import forest_cells
from scorewise.paper.setup import Setup

TITLE = "Appendix: rejecting by all three components, Poker Hand"
DATA, TREES, DEPTH = "poker-hand", 20, 20


def cells(setup: Setup) -> list[Cell]:
    """A forest for each run."""
    return forest_cells(setup, DATA, trees=TREES, depth=DEPTH) if setup.has(DATA) else []
