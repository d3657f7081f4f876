"""Figure 1: the loss of the accepted rows when rows are rejected by total uncertainty.

"For CoverType, we train a Random Forest" with "20 trees and a maximum depth of 5" and otherwise
scikit-learn's defaults. "The CoverType and Poker Hand datasets do not have a dedicated train-test
split, hence we use a 70 % - 30 % split." For each of three runs a new forest is fitted and 10,000
test rows are drawn. The spherical loss is the appendix's.

The paper does not define the log loss of a row for whose class all trees predict probability 0.
Here such a probability counts as the machine epsilon, as in scikit-learn; the results show how many
such rows there are, and the effect of a larger floor. All runs share one data set. The tables show
the first three runs; the claims are tested on all runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise_paper.rejection import compute_forests, forest_cells, rejection_section
from scorewise_paper.results import Cell, Stored
from scorewise_paper.runs import Setup
from scorewise_paper.sections import Section, groups

EXPERIMENT = "figure-1"
REVISION = 1  # raise it when the numbers change: results of another revision do not count
DATA, TREES, DEPTH = "covtype", 20, 5

compute = compute_forests


def cells(setup: Setup) -> list[Cell]:
    """Return a cell for each run, which is one forest."""
    return forest_cells(setup, EXPERIMENT, REVISION, DATA, trees=TREES, depth=DEPTH)


def section(results: Sequence[Stored]) -> Section:
    """Return areas and curves, and whether the rule of the task's own loss is best."""
    return rejection_section(groups(results, EXPERIMENT, DATA), ("total",), EXPERIMENT)
