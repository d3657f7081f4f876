"""Figure 1: rejecting by total uncertainty on CoverType.

"We fit a RandomForest, an ensemble of decision trees, on the CoverType dataset", with "20 trees and
a maximum depth of 5" and otherwise scikit-learn's defaults. "The CoverType and Poker Hand datasets
do not have a dedicated train-test split, hence we use a 70 % - 30 % split." For each of three runs
a new forest is fitted and 10,000 test rows are drawn. The spherical loss is the appendix's.

The paper does not say what the log loss of a row costs to whose class all trees gave 0: here it
counts as if they had given the rounding of 1, as in scikit-learn; the results say how many such
rows there are, and what a larger floor would change. All runs share one data set: more of them than
three, if there are, serve to tell the claims, and the tables have the first three.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise.paper.cells import Cell, Stored
from scorewise.paper.kinds import FORESTS
from scorewise.paper.rejection import forest_cells
from scorewise.paper.rejection_section import rejection_section
from scorewise.paper.results import groups
from scorewise.paper.setup import Setup
from scorewise.paper.tables import Section

TITLE = "Figure 1: rejecting by total uncertainty, CoverType"
DATA, TREES, DEPTH = "covtype", 20, 5


def cells(setup: Setup) -> list[Cell]:
    """A forest for each run."""
    return forest_cells(setup, DATA, trees=TREES, depth=DEPTH) if setup.has(DATA) else []


def section(results: Sequence[Stored]) -> Section:
    """Areas and curves, and whether the rule of the task's own loss is best."""
    found = groups(results, FORESTS, DATA)
    return rejection_section(TITLE, found, ("total",), "figure-1")
