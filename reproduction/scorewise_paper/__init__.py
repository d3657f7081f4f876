"""The paper, reproduced: its experiments on real data, beside its published numbers.

Hofman, Sale and Hüllermeier, "Uncertainty Quantification with Proper Scoring Rules: Adjusting
Measures to Prediction Tasks". One file is one experiment; ``scorewise-paper`` runs and draws them.
"""

from scorewise_paper.page import write_page, write_sections
from scorewise_paper.results import Cell, Result, Store, Stored
from scorewise_paper.runs import (
    EXPERIMENTS,
    QUICK,
    Outcome,
    Protocol,
    Setup,
    experiment,
    is_stale,
    run,
)

__all__ = [
    "EXPERIMENTS",
    "QUICK",
    "Cell",
    "Outcome",
    "Protocol",
    "Result",
    "Setup",
    "Store",
    "Stored",
    "experiment",
    "is_stale",
    "run",
    "write_page",
    "write_sections",
]
