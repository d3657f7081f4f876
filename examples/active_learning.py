"""Fewer labels
============

Labels cost money. Active learning asks for those that a model learns most from: of the rows about
whose class its members disagree. Is that better than random rows, and by how much? Runs with
several seeds answer it.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import scorewise as sw

X, y = load_digits(return_X_y=True)
forest = RandomForestClassifier(30, min_samples_leaf=3)
options = {"initial": 30, "per_round": 30, "budget": 300, "X_test": X[1000:], "y_test": y[1000:]}

# %%
# Rows are drawn in proportion to their epistemic uncertainty under the zero-one loss: ``"power"``.
# The rows with the very largest values are often alike, so that their labels say the same.


def run(method, seed):
    """Return the rounds of one run."""
    rounds = sw.active_learning(
        forest, X[:1000], y[:1000], method=method, random_state=seed, **options
    )
    return list(rounds)


methods = {"drawn by disagreement": "power", "random": "random"}
runs = {name: [run(method, s) for s in range(6)] for name, method in methods.items()}
print(runs["drawn by disagreement"][0][-1])
print(sw.compare(task="active", runs=runs))

# %%
# The error after each round, with a band of one standard deviation over the runs:

display = sw.plots.LearningCurveDisplay.from_rounds(runs, sw.rules.zero_one.unit).plot()
chosen, at_random = (display.means[name].mean() for name in runs)
display.ax_.set_title(
    f"Mean error {chosen:.1%} with chosen labels, {at_random:.1%} with random ones"
)
sw.plots.style.percent_axis(display.ax_.yaxis)

# %%
# The first digits that a model with 30 labels asks for:

labelled = np.arange(30)
forest.set_params(random_state=0).fit(X[labelled], y[labelled])
disagreement = sw.decompose(sw.predict_samples(forest, X[:1000]), "zero-one").epistemic
figure, axes = plt.subplots(1, 8, figsize=(6.4, 1.4), layout="constrained")
rows = sw.acquire(disagreement, 8, "power", labelled=labelled, random_state=0)
for ax, row in zip(axes, rows, strict=True):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
    ax.axis("off")
figure.suptitle("The trees disagree about the class of these digits")
