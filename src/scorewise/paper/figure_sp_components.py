"""The appendix's figure of the other components: rejecting by aleatoric and epistemic uncertainty.

The forests are those of Figure 1: "it is best to reject instances based on total uncertainty".
"""

from __future__ import annotations

from scorewise.paper import figure_1

TITLE = "Appendix: rejecting by aleatoric and epistemic uncertainty, CoverType"
cells = figure_1.cells
