"""Draw the picture of the README and of the front page: what the demo shows.

Run it when the demo changes: `python docs/overview.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from scorewise.cli.demo import evaluate_forest
from scorewise.compare import Evaluation
from scorewise.plots import LearningCurveDisplay, RejectionCurveDisplay, style


def draw_rejection(evaluation: Evaluation, ax: Axes) -> None:
    """The error of accepted predictions, if the most uncertain are rejected."""
    measure = "total zero-one"
    curves = {measure: evaluation.distinct_curves[measure]}
    display = RejectionCurveDisplay(curves, evaluation.unit)
    display.plot(ax, show_oracle=False)
    ax.get_legend().remove()
    ax.annotate("random order", (0.14, curves[measure].loss[-1]), ha="right", va="bottom")
    style.percent_axis(ax.yaxis)
    ax.set(title="When should it abstain?", ylabel="error of accepted digits")
    ax.set(xlabel="share rejected, most uncertain first", xticks=np.linspace(0, 0.15, 4))


def draw_ood(evaluation: Evaluation, ax: Axes) -> None:
    """Epistemic uncertainty of the digits that the forest knows, and of those that it does not."""
    assert evaluation.ood is not None
    ood = evaluation.ood
    edges = np.histogram_bin_edges([*ood.u_in, *ood.u_out], bins=20)
    for u, color, label in (
        (ood.u_in, style.BLUE, "fitted on them (0 to 7)"),
        (ood.u_out, style.VERMILION, "never seen (8 and 9)"),
    ):
        shares = np.histogram(u, edges)[0] / len(u)
        ax.stairs(shares, edges, fill=True, alpha=0.35, color=color)
        ax.stairs(shares, edges, color=color, linewidth=1.5, label=label)
    ax.set(title="Which inputs are out of distribution?", ylabel="share of digits")
    ax.set(xlabel="epistemic uncertainty (log)")
    style.percent_axis(ax.yaxis)
    ax.legend(loc="upper left", frameon=False, title=f"AUROC {ood.metrics.auroc:.2f}")
    ax.set_ylim(0, 1.35 * ax.get_ylim()[1])


def draw_learning(evaluation: Evaluation, ax: Axes) -> None:
    """The error by the number of labels, chosen by uncertainty and at random."""
    assert evaluation.learning is not None
    LearningCurveDisplay(evaluation.learning.curves, evaluation.unit).plot(ax)
    ax.get_legend().set_title(None)
    style.percent_axis(ax.yaxis)
    ax.set(title="Which inputs should be labelled next?", ylabel="error", ylim=(0, None))


def main() -> None:
    """Run the demo, and draw its three answers beside each other."""
    evaluation, _, _ = evaluate_forest(n_trees=100, random_state=0, progress=None)
    figure, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    for draw, ax in zip((draw_rejection, draw_ood, draw_learning), axes, strict=True):
        draw(evaluation, ax)
        style.despine(ax)
    figure.savefig(Path(__file__).parent / "_static" / "overview.png", dpi=100)


if __name__ == "__main__":
    main()
