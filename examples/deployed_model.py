"""Which inputs does the deployed model get wrong?
===============================================

A forest is accurate, but too large for the device that reads digits. A small tree, fitted to the
forest's probabilities, runs there. At night the forest looks at what the device has read. How wrong
is the tree, and which readings should a person correct? No labels of the new digits are needed:
``predictor=`` gives the risk of the prediction that is deployed, in place of the mean's.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor

import scorewise as sw

X, X_new, y, y_new = train_test_split(*load_digits(return_X_y=True), test_size=0.4, random_state=0)
X_fit, X_held, y_fit, y_held = train_test_split(X, y, random_state=0)
forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0).fit(X_fit, y_fit)
small = DecisionTreeRegressor(max_leaf_nodes=60, random_state=0)
small.fit(X_fit, forest.predict_proba(X_fit))
deployed = small.predict(X_new)  # (n, K), what the device has read

# %%
# The members of the forest judge the tree, so they are calibrated first, on held-out rows. Then the
# mean total is the error of the tree that one should expect. The labels of the new digits, which
# one would not have, say how right that is.

calibration = sw.fit_calibration(sw.predict_samples(forest, X_held), y_held)
samples = calibration.transform(sw.predict_samples(forest, X_new))
risk = sw.decompose(samples, "zero-one", predictor=deployed)
wrong = deployed.argmax(axis=-1) != y_new
print(f"Error of the tree: expected {risk.total.mean():.1%}, incurred {wrong.mean():.1%}")
print(f"Error of the forest: {sw.task_losses(samples, y_new).mean():.1%}")

# %%
# The epistemic part is what the forest would save: large where the tree is wrong about what the
# members know. A person who corrects readings in this order finds the errors soon. The tree's own
# doubt finds them later.

orders = {
    "total zero-one of the tree's prediction": risk.total,
    "epistemic zero-one of the tree's prediction": risk.epistemic,
    "the tree's own 1 − max p": 1 - deployed.max(axis=-1),
}
n = len(y_new)
reviewed = np.arange(n + 1) / n
figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for i, (name, scores) in enumerate(orders.items()):
    corrected = np.r_[0, np.cumsum(wrong[np.argsort(-scores, kind="stable")])] / wrong.sum()
    ax.plot(reviewed, corrected, label=name, **sw.plots.style.line_style(i))
    print(f"{name}: the first fifth has {corrected[n // 5]:.0%} of the errors")
ax.plot([0, 1], [0, 1], ":", color=sw.plots.style.GREY, label="random order")
ax.set(xlabel="share of readings that a person corrects", ylabel="share of errors found")
ax.set_title("The forest knows where the tree is wrong")
sw.plots.style.percent_axis(ax.xaxis)
sw.plots.style.percent_axis(ax.yaxis)
ax.legend(loc="lower right")
sw.plots.style.despine(ax)

# %%
# The readings to correct first:

figure, axes = plt.subplots(1, 6, figsize=(6.4, 1.9), layout="constrained")
for ax, row in zip(axes, np.argsort(-risk.epistemic), strict=False):
    ax.imshow(X_new[row].reshape(8, 8), cmap="gray_r")
    ax.axis("off")
    labels = f"tree {deployed[row].argmax()}, forest {samples.mean[row].argmax()}"
    ax.text(0.5, -0.02, labels, transform=ax.transAxes, ha="center", va="top", fontsize="small")
figure.suptitle("The forest is sure that the tree is wrong about these digits")

# sphinx_gallery_thumbnail_number = 1
