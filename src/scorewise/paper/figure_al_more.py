"""The appendix's figure of active learning on further sets; all else is as in Figure 2."""

from __future__ import annotations

from collections.abc import Sequence

from scorewise.paper.cells import Cell, Stored
from scorewise.paper.kinds import Choices
from scorewise.paper.learning_section import learning_section
from scorewise.paper.setup import Setup
from scorewise.paper.tables import Section

TITLE = "Appendix: active learning on further sets"
SETS = ("fashion-mnist", "organcmnist", "pathmnist")


def cells(setup: Setup) -> list[Cell]:
    """One for each set, measure (and random choice) and run."""
    from scorewise.paper.learning import learning_cells

    return [cell for data in SETS for cell in learning_cells(setup, data, Choices())]


def section(results: Sequence[Stored]) -> Section:
    """Errors of all measures, and whether zero-one is best."""
    measures = ("log", "brier", "zero-one", "spherical", "random")
    return learning_section(TITLE, results, SETS, measures, "figure-al-more")
