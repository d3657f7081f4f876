"""Bring your own rule
===================

To miss a malignant tumour is worse than a needless operation. How much worse? Nobody will say
exactly, but all agree that an operation is right from a probability of cancer between 5 % and 30 %
on. That is a loss of its own. Write it down, check that it is proper, and total, aleatoric and
epistemic uncertainty follow in its units.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw

# %%
# If the operation is right from the probability c on, a needless operation costs c and a missed
# tumour 1 − c. The loss is the mean of these costs over all c between 0.05 and 0.3. It needs the
# losses of both classes for a prediction p: a mean over the c that p leads to an operation for, or
# not.

LOW, HIGH = 0.05, 0.30


def losses(p):
    """Return the losses (..., 2) of p (..., 2): if the tumour is benign, and if it is malignant."""
    q = np.clip(p[..., 1], LOW, HIGH)
    needless = (q**2 - LOW**2) / 2
    missed = (HIGH - q) - (HIGH**2 - q**2) / 2
    return np.stack([needless, missed], axis=-1) / (HIGH - LOW)


rule = sw.rule_from_loss_vector(losses, name="operate from 5 to 30 %")
sw.check_rule(rule, n_classes=2)  # proper: no prediction beats the truth

# %%
# The check is worth it: a loss that looks as innocent may reward wrong probabilities. The log loss
# with a weight for each class does.

weighted = sw.rule_from_loss_vector(
    lambda p: -np.array([1.0, 5.0]) * np.log(p), name="weighted log"
)
try:
    with np.errstate(divide="ignore"):
        sw.check_rule(weighted, n_classes=2)
except sw.ImproperRule as error:
    print(error)

# %%
# The entropy is what a rule calls uncertain. This one is largest where the decision is open. Above
# 30 % it is a straight line: the operation is right in any case, so that it does not matter whether
# members say 50 % or 90 %.

p = np.linspace(0, 1, 501)
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for i, shown in enumerate([rule, sw.rules.zero_one, sw.rules.log]):
    entropy = shown.entropy(sw.binary(p))
    ax.plot(p, entropy / entropy.max(), label=shown.name, **sw.plots.style.line_style(i))
ax.axvspan(LOW, HIGH, color=sw.plots.style.GREY, alpha=0.15)
ax.set(xlabel="probability that the tumour is malignant", ylabel="entropy, scaled to 1")
ax.set_title("The entropy of the rule is largest near the decision")
sw.plots.style.percent_axis(ax.xaxis)
ax.legend(loc="lower center")
sw.plots.style.despine(ax)

# %%
# Everything that takes a rule takes this one.

X, y = load_breast_cancer(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, 1 - y, test_size=0.5, stratify=y, random_state=0)
forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(X, y)
samples = sw.predict_samples(forest, X_new)  # class 1 is malignant
incurred = sw.task_losses(samples, y_new, rule)
uncertainty = sw.decompose(samples, rule)
print(f"Expected loss {uncertainty.total.mean():.4f}, incurred {incurred.mean():.4f}")
for name, measure in {"own rule": rule, "zero-one": "zero-one", "log": "log"}.items():
    curve = sw.rejection_curve(incurred, sw.decompose(samples, measure).total)
    print(f"Patients ordered by the total under {name}: AULC {curve.aulc:.4f}")

# %%
# Whose diagnosis could change what is done? Each dot is a patient. The log loss finds disagreement
# wherever members disagree; the own rule only where it matters.

malignant = samples.mean[:, 1]
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained", sharex=True)
parts = {"log": sw.decompose(samples, "log").epistemic, rule.name: uncertainty.epistemic}
for ax, (name, epistemic) in zip(axes, parts.items(), strict=True):
    ax.axvspan(LOW, HIGH, color=sw.plots.style.GREY, alpha=0.15)
    ax.plot(malignant, epistemic, "o", color=sw.plots.style.BLUE, markersize=4, alpha=0.6)
    ax.set(xlabel="probability that the tumour is malignant", ylabel="epistemic uncertainty")
    ax.set_title(name)
    sw.plots.style.percent_axis(ax.xaxis)
    sw.plots.style.despine(ax)
figure.suptitle("Disagreement of members, and what it costs")
