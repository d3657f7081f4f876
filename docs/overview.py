"""Draw the picture of the README and of the front page: what the demo shows.

`make overview` runs it.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib import pyplot as plt

from scorewise import plots
from scorewise.cli.demo import evaluate_forest


def main() -> None:
    """Run the demo, and draw its three answers beside each other."""
    evaluation, _, _ = evaluate_forest(n_trees=100, random_state=0, progress=None)
    ood, learning = evaluation.ood, evaluation.learning
    assert ood is not None
    assert learning is not None
    figure, ((upper, left), (lower, right)) = plt.subplots(
        2, 2, figsize=(11, 7.6), layout="constrained"
    )
    total = {"total zero-one": evaluation.distinct_curves["total zero-one"]}
    plots.RejectionCurveDisplay(total, evaluation.unit).plot(upper)
    plots.OODDisplay(ood.u_in, ood.u_out, ood.metrics, ood.score_name).plot((left, right))
    plots.LearningCurveDisplay(learning.curves, evaluation.unit).plot(lower)
    upper.set_title("When should it abstain?")
    left.set_title("Which inputs are out of distribution?")
    lower.set_title("Which inputs should be labelled next?")
    right.set_title("How well are they separated?")
    figure.savefig(Path(__file__).parent / "_static" / "overview.png", dpi=100)


if __name__ == "__main__":
    main()
