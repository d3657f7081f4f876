"""The appendix's figure of active learning on further sets; otherwise as Figure 2."""

from __future__ import annotations

from collections.abc import Sequence

from scorewise_paper import learning
from scorewise_paper.learning import Choices, learning_cells, learning_section
from scorewise_paper.results import Cell, Stored
from scorewise_paper.runs import Setup
from scorewise_paper.sections import Section

EXPERIMENT = "figure-al-more"
REVISION = 2  # raise it when the numbers change: results of another revision do not count
SETS = ("fashion-mnist", "organcmnist", "pathmnist")

compute = learning.compute


def cells(setup: Setup) -> list[Cell]:
    """Return a cell for each set, measure (random choice included) and run."""
    return [
        cell
        for data in SETS
        for cell in learning_cells(setup, EXPERIMENT, REVISION, data, Choices())
    ]


def section(results: Sequence[Stored]) -> Section:
    """Return the errors of all measures, and whether zero-one is best."""
    measures = ("log", "brier", "zero-one", "spherical", "random")
    return learning_section(results, EXPERIMENT, SETS, measures, EXPERIMENT)
