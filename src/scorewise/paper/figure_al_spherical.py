"""The appendix's figure of active learning with the spherical loss: the learners of Figure 2."""

from __future__ import annotations

from scorewise.paper import figure_2

TITLE = "Appendix: active learning with the spherical loss"
cells = figure_2.cells
