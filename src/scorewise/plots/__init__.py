"""Displays: they store arrays and draw them on given Axes."""

from scorewise.plots._calibration import CalibrationDisplay
from scorewise.plots._comparison import ComparisonDisplay
from scorewise.plots._decisions import DecisionDisplay
from scorewise.plots._decomposition import DecompositionDisplay
from scorewise.plots._figures import save_figures
from scorewise.plots._learning import LearningCurveDisplay
from scorewise.plots._ood import OODDisplay, shared_edges, shares_of
from scorewise.plots._rejection import RejectionCurveDisplay
from scorewise.plots._simplex import SimplexDisplay
from scorewise.plots._style import (
    BLUE,
    COLORS,
    GREY,
    VERMILLION,
    axes_for,
    legend,
    line_look,
    percent,
    tidy,
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
    "axes_for",
    "legend",
    "line_look",
    "percent",
    "save_figures",
    "shared_edges",
    "shares_of",
    "tidy",
]
