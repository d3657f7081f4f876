"""Several labels per row
======================

Each picture shows two handwritten digits, one drawn over the other, and has ten labels: is this
digit in it? A forest is fitted on all labels at once. Which pictures should a person look at, and
which labels are in doubt?
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import scorewise as sw

images, digits = load_digits(return_X_y=True)
pairs = np.random.default_rng(0).integers(len(images), size=(4_000, 2))
X = images[pairs].max(axis=1)
y = np.zeros((len(pairs), 10), dtype=int)
np.put_along_axis(y, digits[pairs], 1, axis=1)  # y[i, k]: digit k is in picture i

forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0, n_jobs=2)
forest.fit(X[:2_000], y[:2_000])
X_new, y_new = X[2_000:], y[2_000:]
members = sw.predict_samples(forest, X_new)
print(members)

# %%
# Each label is a problem of its own, with two classes. ``sw.decompose`` takes all of them at once,
# and ``sw.aggregate`` makes the uncertainty of a picture from that of its labels. Its mean is the
# Hamming loss to expect.

labels = sw.decompose(members, "zero-one")  # of arrays (pictures, labels)
rows = sw.aggregate(labels, axis=-1)  # of arrays (pictures,)
losses = sw.aggregate(sw.task_losses(members, y_new, "zero-one"), axis=-1)
print(f"Hamming loss: {losses.mean():.3f}; expected, the mean total: {rows.total.mean():.3f}")

# %%
# Labels of one picture depend on each other, but pictures do not. So the threshold is certified for
# pictures: of those that are accepted, at most 7 % of the labels shall be wrong.

certificate = sw.certify_threshold(losses[:1_000], rows.total[:1_000], max_loss=0.07, loss_bound=1)
print(certificate)
accepted = certificate.accepts(rows.total[1_000:])
print(f"{accepted.mean():.0%} of other pictures are accepted, ", end="")
print(f"with a Hamming loss of {losses[1_000:][accepted].mean():.3f}.")

# %%
# The most certain and the most uncertain pictures, with the digits that are in them:

order = np.argsort(rows.total, kind="stable")
figure, axes = plt.subplots(2, 6, figsize=(6.4, 3), layout="constrained")
for ax, i in zip(axes.flat, [*order[:6], *order[-6:]], strict=True):
    ax.imshow(X_new[i].reshape(8, 8), cmap="gray_r")
    ax.axis("off")
    names = " and ".join(map(str, np.flatnonzero(y_new[i])))
    ax.text(0.5, -0.02, names, transform=ax.transAxes, ha="center", va="top")
figure.suptitle("Above the most certain pictures, below the most uncertain")

# %%
# ``sw.by_label`` takes the labels apart. This forest expects more errors than it makes, for all of
# them.

names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
errors, expected = {}, {}
for (digit, samples), truth in zip(sw.by_label(members, names).items(), y_new.T, strict=True):
    errors[digit] = sw.task_losses(samples, truth, "zero-one").mean()
    expected[digit] = sw.decompose(samples, "zero-one").total.mean()
    print(f"{digit:5}  error {errors[digit]:.3f}, expected {expected[digit]:.3f}")

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
places = np.arange(10)
ax.bar(places - 0.2, list(errors.values()), 0.4, color=sw.plots.style.BLUE, label="error")
ax.bar(
    places + 0.2,
    list(expected.values()),
    0.4,
    color=sw.plots.style.ORANGE,
    hatch="///",
    edgecolor="white",
    label="expected error, the mean total",
)
ax.set_xticks(places, names)
hardest = max(errors, key=errors.get)
ax.set(ylabel="share of pictures", title=f"The label {hardest} is wrong most often")
sw.plots.style.percent_axis(ax.yaxis)
ax.set_ylim(0, 0.22)
ax.legend()
sw.plots.style.despine(ax)
