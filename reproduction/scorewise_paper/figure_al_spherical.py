"""The appendix's figure of active learning with the spherical loss: the learners of Figure 2."""

from __future__ import annotations

from collections.abc import Sequence

from scorewise_paper import figure_2
from scorewise_paper.learning import learning_section
from scorewise_paper.results import Stored
from scorewise_paper.sections import Section

EXPERIMENT, REVISION = figure_2.EXPERIMENT, figure_2.REVISION
cells, compute = figure_2.cells, figure_2.compute


def section(results: Sequence[Stored]) -> Section:
    """Return the errors of the spherical measure, beside zero-one and random choice."""
    measures = ("zero-one", "spherical", "random")
    return learning_section(results, EXPERIMENT, figure_2.SETS, measures, "figure-al-spherical")
