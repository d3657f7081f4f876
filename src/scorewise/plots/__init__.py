"""Displays for matplotlib: each stores arrays, and ``plot`` draws them on Axes.

matplotlib is imported when something is drawn: ``pip install 'scorewise[plots]'``.
"""

from scorewise.plots._calibration import CalibrationDisplay
from scorewise.plots._comparison import ComparisonDisplay
from scorewise.plots._curves import LearningCurveDisplay, RejectionCurveDisplay, steady_coverage
from scorewise.plots._decisions import DecisionDisplay
from scorewise.plots._decomposition import DecompositionDisplay, SimplexDisplay
from scorewise.plots._figures import displays_of, save_figures
from scorewise.plots._ood import OODDisplay
from scorewise.plots._style import (
    BLUE,
    COLORS,
    GREY,
    VERMILLION,
    add_legend,
    axes_for,
    despine,
    line_style,
    percent_axis,
)

__all__ = [
    "BLUE",
    "COLORS",
    "GREY",
    "VERMILLION",
    "CalibrationDisplay",
    "ComparisonDisplay",
    "DecisionDisplay",
    "DecompositionDisplay",
    "LearningCurveDisplay",
    "OODDisplay",
    "RejectionCurveDisplay",
    "SimplexDisplay",
    "add_legend",
    "axes_for",
    "despine",
    "displays_of",
    "line_style",
    "percent_axis",
    "save_figures",
    "steady_coverage",
]
