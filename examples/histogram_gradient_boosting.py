"""Boosted trees: scikit-learn
===========================

``HistGradientBoostingClassifier`` takes missing values as they are. Does it know that it knows less
about a patient with missing measurements? The Wisconsin breast cancer data, with more and more of
the 30 measurements of new patients removed.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw

rng = np.random.default_rng(0)


def with_missing(X, share):
    """Return a copy in which this share of the measurements is missing."""
    return np.where(rng.random(X.shape) < share, np.nan, X)


X, y = load_breast_cancer(return_X_y=True)
X_old, X_new, y_old, y_new = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
X_old = with_missing(X_old, 0.3)  # so that the model has seen missing values
model = HistGradientBoostingClassifier(max_iter=50, random_state=0).fit(X_old, y_old)
print(sw.explain_model(model))

# %%
# Uncertainty under zero-one is the probability of an error that the model itself expects. It should
# grow with what is missing, as the errors do.

shares = np.linspace(0, 0.9, 10)
expected, epistemic, errors = [], [], []
for share in shares:
    samples = sw.predict_samples(model, with_missing(X_new, share), random_state=0)
    parts = sw.decompose(samples, "zero-one")
    expected.append(parts.total.mean())
    epistemic.append(parts.epistemic.mean())
    errors.append(sw.task_losses(samples, y_new, "zero-one").mean())
    print(f"{share:.0%} missing: expected {expected[-1]:.1%}, wrong {errors[-1]:.1%}")

ax = plt.figure(figsize=(5.6, 3.8), layout="constrained").subplots()
ax.plot(shares, errors, "o", color=sw.plots.style.VERMILION, label="errors")
ax.plot(shares, expected, color=sw.plots.style.BLUE, label="total uncertainty")
ax.plot(shares, epistemic, color=sw.plots.style.ORANGE, label="epistemic uncertainty")
ax.set(xlabel="share of the measurements that is missing", title="The model expects its errors")
ax.legend()
for axis in (ax.xaxis, ax.yaxis):
    sw.plots.style.percent_axis(axis)
sw.plots.style.despine(ax)

# %%
# ``GradientBoostingClassifier`` is taken in the same way. Its members, too, are the sequence of
# trees, truncated and resampled: no second fit is needed.
