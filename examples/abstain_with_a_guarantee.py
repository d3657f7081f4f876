"""Abstain, with a guarantee
=========================

A random forest reads handwritten digits and may leave some of them to a person. Of the digits that
it reads, at most 2 % shall be wrong: not in some old test, but with 95 % confidence among new
digits of the same kind.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw

X, X_new, y, y_new = train_test_split(*load_digits(return_X_y=True), random_state=0)
forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0)

# %%
# ``SelectiveClassifier`` holds out a part of the rows, fits the forest on the others, and certifies
# a threshold on the rows that it held out.

model = sw.SelectiveClassifier(forest, max_loss=0.02, random_state=0).fit(X, y)
print(model.certificate_)

# %%
# New digits are accepted or left to a person. ``predict`` would label all of them.

labels = model.predict_or_abstain(X_new, abstain=-1)
accepted = labels >= 0
wrong = model.predict(X_new) != y_new
print(f"{accepted.mean():.1%} of {len(y_new)} new digits are accepted.")
print(f"Wrong among all digits: {wrong.mean():.1%}")
print(f"Wrong among the accepted: {wrong[accepted].mean():.1%}")

# %%
# What each share of abstentions buys, and where the certificate puts the threshold:

curve = sw.rejection_curve(wrong, model.uncertainty(X_new))
display = sw.plots.RejectionCurveDisplay({"total zero-one": curve}, sw.rules.zero_one.unit).plot()
red, n_rejected = sw.plots.style.VERMILION, (~accepted).sum()
display.ax_.axvline(1 - accepted.mean(), color=red, linestyle="--")
display.ax_.annotate(" certified threshold", (1 - accepted.mean(), 0.03), color=red)
display.ax_.set_title(
    f"Leaving {n_rejected} of {len(y_new)} digits to a person removes "
    f"{wrong[~accepted].sum()} of {wrong.sum()} errors"
)
sw.plots.style.percent_axis(display.ax_.yaxis)

# %%
# The digits with the largest uncertainty are hard for people, too.

figure, axes = plt.subplots(2, 6, figsize=(6.4, 3), layout="constrained")
for ax, row in zip(axes.flat, model.uncertainty(X_new).argsort()[::-1], strict=False):
    ax.imshow(X_new[row].reshape(8, 8), cmap="gray_r")
    ax.axis("off")
    ax.text(0.5, -0.02, f"is a {y_new[row]}", transform=ax.transAxes, ha="center", va="top")
figure.suptitle("The twelve most uncertain digits")
