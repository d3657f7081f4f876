"""The appendix's figure of the other components: rejecting by aleatoric and epistemic uncertainty.

The forests are those of Figure 1: "it is best to reject instances based on total uncertainty".
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise_paper import figure_1
from scorewise_paper.rejection import rejection_section
from scorewise_paper.results import Stored
from scorewise_paper.sections import Section, groups

EXPERIMENT, REVISION = figure_1.EXPERIMENT, figure_1.REVISION
cells, compute = figure_1.cells, figure_1.compute


def section(results: Sequence[Stored]) -> Section:
    """Return areas and curves, and whether total uncertainty is better."""
    forests = groups(results, EXPERIMENT, figure_1.DATA)
    return rejection_section(forests, ("aleatoric", "epistemic"), "figure-sp-components")
