"""The appendix's figure of active learning with the spherical loss: the learners of Figure 2."""

from __future__ import annotations

from collections.abc import Sequence

from scorewise.paper import figure_2
from scorewise.paper.cells import Stored
from scorewise.paper.learning_section import learning_section
from scorewise.paper.tables import Section

TITLE = "Appendix: active learning with the spherical loss"
cells = figure_2.cells


def section(results: Sequence[Stored]) -> Section:
    """Errors of the spherical measure, beside zero-one and random choice."""
    measures = ("zero-one", "spherical", "random")
    return learning_section(TITLE, results, figure_2.SETS, measures, "figure-al-spherical")
