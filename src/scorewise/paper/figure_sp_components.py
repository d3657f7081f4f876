"""The appendix's figure of the other components: rejecting by aleatoric and epistemic uncertainty.

The forests are those of Figure 1: "it is best to reject instances based on total uncertainty".
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise.paper import figure_1
from scorewise.paper.cells import Stored
from scorewise.paper.kinds import FORESTS
from scorewise.paper.rejection_section import rejection_section
from scorewise.paper.results import groups
from scorewise.paper.tables import Section

TITLE = "Appendix: rejecting by aleatoric and epistemic uncertainty, CoverType"
cells = figure_1.cells


def section(results: Sequence[Stored]) -> Section:
    """Areas and curves, and whether total uncertainty is better."""
    found = groups(results, FORESTS, figure_1.DATA)
    return rejection_section(TITLE, found, ("aleatoric", "epistemic"), "figure-sp-components")
