"""Flag inputs that are out of distribution
========================================

A scanner feeds some sheets sideways. The digits on them are unlike all that the forest has learned,
but it gives each a label. ``OODDetector`` gives each a p-value instead, so that you choose how many
false alarms to allow.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw

images, digits = load_digits(return_X_y=True)
is_sideways = np.random.default_rng(0).random(450) < 0.25


def scanned(random_state):
    """Return training rows with their labels, and 450 new rows, some of them sideways."""
    X, X_new, y, _ = train_test_split(images, digits, test_size=450, random_state=random_state)
    turned = np.rot90(X_new[is_sideways].reshape(-1, 8, 8), axes=(1, 2))
    X_new[is_sideways] = turned.reshape(-1, 64)
    return X, X_new, y


# %%
# No sideways digit is needed to fit the detector. It holds out a part of the rows, and a p-value is
# the share of these that are at least as uncertain as the new one. Members disagree on unusual
# inputs, so the measure is epistemic uncertainty under the log loss.

X, X_new, y = scanned(random_state=0)
forest = ExtraTreesClassifier(100, min_samples_leaf=2, random_state=0)
detector = sw.OODDetector(forest, false_alarm_rate=0.05, random_state=0).fit(X, y)
p_values = detector.p_values(X_new)
detector.is_outlier(X_new)  # p-values up to 5 %
flagged = detector.is_outlier(X_new, false_discovery_rate=0.1)  # Benjamini–Hochberg
print(f"{flagged.sum()} of {len(X_new)} digits are flagged; {is_sideways.sum()} are sideways.")

# %%
# Benjamini and Hochberg's rule flags all digits up to the last p-value below the line.

order = np.argsort(p_values)
rank = np.arange(1, len(order) + 1)
figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
looks = {"upright": ("o", sw.plots.style.BLUE), "sideways": ("x", sw.plots.style.VERMILION)}
for (name, (marker, color)), rows in zip(looks.items(), (~is_sideways, is_sideways), strict=True):
    shown = rows[order]
    ax.plot(rank[shown], p_values[order][shown], marker, color=color, markersize=4, label=name)
ax.plot(rank, 0.1 * rank / len(rank), color="black", label="Benjamini–Hochberg, 10 %")
ax.set(xlabel="rank of the p-value", ylabel="p-value", xlim=(0, 200), ylim=(-0.005, 0.2))
ax.set_title(f"{flagged[is_sideways].mean():.0%} of the sideways digits are flagged")
ax.legend()
sw.plots.style.despine(ax)

# %%
# Both rates hold on average over held-out and new digits, so a single split may be above them. A
# false-alarm rate is the share of upright digits that are flagged; a false discovery rate is the
# share of flagged digits that are upright.

rates = []
for random_state in range(6):
    X, X_new, y = scanned(random_state)
    detector.fit(X, y)
    by_rate = detector.is_outlier(X_new)
    by_discovery = detector.is_outlier(X_new, false_discovery_rate=0.1)
    rates.append((by_rate[~is_sideways].mean(), np.mean(~is_sideways[by_discovery])))
alarms, discoveries = np.mean(rates, axis=0)
print(f"Six splits: false-alarm rate {alarms:.1%} (5 % allowed), ", end="")
print(f"false discovery rate {discoveries:.1%} (10 % allowed)")

# %%
# Who knows which digits are sideways can see how well the measure separates them.

u = detector.uncertainty(X_new)
display = sw.plots.OODDisplay.from_scores(
    u[~is_sideways], u[is_sideways], score_name="epistemic uncertainty (log)"
).plot()
display.figure_.suptitle(f"Sideways digits are detected with AUROC {display.metrics.auroc:.2f}")
