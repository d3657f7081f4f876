"""Displays for matplotlib: each stores arrays, and ``plot`` draws them on Axes.

matplotlib is imported when something is drawn: ``pip install 'scorewise[plots]'``.
:mod:`scorewise.plots.style` has the colours and helpers for figures of your own.
"""

from scorewise.plots import style
from scorewise.plots._calibration import CalibrationDisplay
from scorewise.plots._comparison import ComparisonDisplay
from scorewise.plots._curves import LearningCurveDisplay, RejectionCurveDisplay
from scorewise.plots._decisions import DecisionDisplay
from scorewise.plots._decomposition import DecompositionDisplay, SimplexDisplay
from scorewise.plots._figures import save_figures
from scorewise.plots._ood import OODDisplay

__all__ = [
    "CalibrationDisplay",
    "ComparisonDisplay",
    "DecisionDisplay",
    "DecompositionDisplay",
    "LearningCurveDisplay",
    "OODDisplay",
    "RejectionCurveDisplay",
    "SimplexDisplay",
    "save_figures",
    "style",
]
