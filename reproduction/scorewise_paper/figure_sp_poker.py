"""The appendix's figure for Poker Hand: rejecting by all three components.

A forest of "20 trees and a maximum depth of 20"; the published training and testing files are
pooled and split 70 to 30, as in the paper. "These results show the same behavior as for the
CoverType dataset."
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise_paper.rejection import compute_forests, forest_cells, rejection_section
from scorewise_paper.results import Cell, Stored
from scorewise_paper.runs import Setup
from scorewise_paper.sections import COMPONENTS, Section, groups

EXPERIMENT = "figure-sp-poker"
REVISION = 1  # raise it when the numbers change: results of another revision do not count
DATA, TREES, DEPTH = "poker-hand", 20, 20

compute = compute_forests


def cells(setup: Setup) -> list[Cell]:
    """Return a cell for each run, which is one forest."""
    return forest_cells(setup, EXPERIMENT, REVISION, DATA, trees=TREES, depth=DEPTH)


def section(results: Sequence[Stored]) -> Section:
    """Return areas and curves, and whether the rule of the task's own loss is best."""
    return rejection_section(groups(results, EXPERIMENT, DATA), COMPONENTS, EXPERIMENT)
