"""The appendix's figure of active learning on further sets; all else is as in Figure 2."""

from __future__ import annotations

from scorewise.paper.cells import Cell
from scorewise.paper.setup import Setup

TITLE = "Appendix: active learning on further sets"


def cells(setup: Setup) -> list[Cell]:
    """One for each set, measure (and random choice) and run."""
    from scorewise.paper.learning import RANDOM, RULES, Choices, Plan, learning_cells

    plans = [
        Plan("fashion-mnist", initial=500, budget=500, lr=0.01, epochs=50),
        Plan("organcmnist", initial=200, budget=200, lr=0.01, epochs=50),
        Plan("pathmnist", initial=1000, budget=1000, lr=0.001, epochs=100),
    ]
    measures = (*RULES, RANDOM)
    return [cell for plan in plans for cell in learning_cells(setup, plan, measures, Choices())]
