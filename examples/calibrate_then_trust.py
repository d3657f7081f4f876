"""Calibrate, then trust
=====================

Total uncertainty is the loss that a prediction is expected to incur. Naive Bayes counts evidence
that comes twice as two pieces of evidence, so it expects far too little. Held-out rows show that,
and a calibration repairs it.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import scorewise as sw

X, X_new, y, y_new = train_test_split(*load_digits(return_X_y=True), test_size=0.4, random_state=0)
X_fit, X_held, y_fit, y_held = train_test_split(X, y, test_size=0.5, random_state=0)
bayes = sw.BootstrapEnsemble(GaussianNB(var_smoothing=0.01), 20, random_state=0)
bayes.fit(X_fit, y_fit)
held_out, new = (sw.predict_samples(bayes, x) for x in (X_held, X_new))

# %%
# The calibration is fitted on held-out rows. It takes the simplest method that is about as good as
# the best by cross-validation.

calibration = sw.fit_calibration(held_out, y_held)
print(calibration)

# %%
# On new digits, expected and incurred errors are compared before and after.

checks = {
    name: sw.loss_calibration(sw.task_losses(q, y_new), sw.decompose(q, "zero-one").total)
    for name, q in {"as it is": new, "calibrated": calibration.transform(new)}.items()
}
for name, check in checks.items():
    print(f"{name}: {check}")

# %%
# Points above the diagonal are rows in which the model errs more often than it expects. Calibrated,
# it also makes fewer errors, as matrix scaling may change labels.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.8), layout="constrained")
for ax, (name, check) in zip(axes, checks.items(), strict=True):
    sw.plots.CalibrationDisplay(check, sw.rules.zero_one.unit).plot(ax)
    ax.set(xlim=(-0.02, 0.8), ylim=(-0.02, 0.95))
    ax.get_legend().remove()
    ax.set_title(f"{name}: expects {check.expected:.1%} errors, makes {check.incurred:.1%}")
