"""The paper, reproduced: its experiments on real data, kept beside its published numbers.

Hofman, Sale and Hüllermeier, "Uncertainty Quantification with Proper Scoring Rules: Adjusting
Measures to Prediction Tasks". One file is one experiment; ``scorewise reproduce`` runs them.
"""

from scorewise.paper.cells import Cell, DamagedCell, Result, Store, Stored
from scorewise.paper.page import write_page
from scorewise.paper.setup import QUICK, Protocol, Setup
from scorewise.paper.work import EXPERIMENTS, Outcome, run

__all__ = [
    "EXPERIMENTS",
    "QUICK",
    "Cell",
    "DamagedCell",
    "Outcome",
    "Protocol",
    "Result",
    "Setup",
    "Store",
    "Stored",
    "run",
    "write_page",
]
