"""Figure 2: active learning by epistemic uncertainty.

"A learner is trained on an initial (small) pool of labeled data and can then iteratively query
additional data": 50 rounds with the settings of the paper's table, a multilayer perceptron for grey
images and a LeNet for coloured ones, with dropout before the last layer, from which 20 members are
drawn. Every round trains a new network; its zero-one loss is that of the mean of its members.
Pixels are numbers from 0 to 1. All measures of a run begin with the same rows and the same network,
and learn with the same random numbers.

The paper does not say which sets are in which of its figures: here the first three of its table
make Figure 2, the others the appendix's. Nor does it name the optimizer or the size of batches, and
its description of the perceptron can be read in two ways: see :class:`learning.Choices` for our
choices; the alternatives are run on MNIST, to show how much they matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scorewise_paper import learning
from scorewise_paper.learning import Choices, learning_cells, learning_section
from scorewise_paper.results import Cell, Stored
from scorewise_paper.runs import Setup
from scorewise_paper.sections import Section

EXPERIMENT = "figure-2"
REVISION = 2  # raise it when the numbers change: results of another revision do not count
SETS = ("mnist", "tissuemnist", "bloodmnist")
OURS = Choices()
ALTERNATIVES = (replace(OURS, optimizer="sgd"), replace(OURS, batch=128), replace(OURS, wide=False))

compute = learning.compute


def cells(setup: Setup) -> list[Cell]:
    """Return a cell for each set, measure (random choice included) and run.

    The alternatives to our choices are run on MNIST.
    """
    settings = [(data, OURS) for data in SETS] + [(SETS[0], other) for other in ALTERNATIVES]
    return [
        cell
        for data, choices in settings
        for cell in learning_cells(setup, EXPERIMENT, REVISION, data, choices)
    ]


def section(results: Sequence[Stored]) -> Section:
    """Return the errors of the figure's measures, and whether zero-one is best."""
    measures = ("log", "brier", "zero-one", "random")
    return learning_section(results, EXPERIMENT, SETS, measures, EXPERIMENT)
