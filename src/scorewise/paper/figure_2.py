"""Figure 2: active learning by epistemic uncertainty.

"A learner is trained on an initial (small) pool of labeled data and can then iteratively query
additional data": 50 rounds with the settings of the paper's table, a multilayer perceptron for grey
images and a LeNet for coloured ones, with dropout before the last layer, from which 20 members are
drawn. Every round trains a new network; its zero-one loss is that of the mean of its members.
Pixels are numbers from 0 to 1. All measures of a run begin with the same rows and the same network,
and learn with the same random numbers.

The paper does not say which sets are in which of its figures: here the first three of its table
make Figure 2, the others the appendix's. Nor does it name the optimizer or the size of batches, and
its description of the perceptron can be read in two ways: see :class:`kinds.Choices` for what we
took; the alternatives are run on MNIST, to show how much they matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scorewise.paper.cells import Cell, Stored
from scorewise.paper.kinds import Choices
from scorewise.paper.learning_section import learning_section
from scorewise.paper.setup import Setup
from scorewise.paper.tables import Section

TITLE = "Figure 2: active learning by epistemic uncertainty"
SETS = ("mnist", "tissuemnist", "bloodmnist")


def cells(setup: Setup) -> list[Cell]:
    """One for each set, measure (and random choice) and run; then the alternatives on MNIST."""
    from scorewise.paper.learning import learning_cells

    ours = Choices()
    others = (replace(ours, optimizer="sgd"), replace(ours, batch=128), replace(ours, wide=False))
    found = [cell for data in SETS for cell in learning_cells(setup, data, ours)]
    return found + [cell for other in others for cell in learning_cells(setup, SETS[0], other)]


def section(results: Sequence[Stored]) -> Section:
    """Errors of the figure's measures, and whether zero-one is best."""
    return learning_section(
        TITLE, results, SETS, ("log", "brier", "zero-one", "random"), "figure-2"
    )
