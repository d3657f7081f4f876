"""One logistic regression
=======================

A logistic regression has no members, but its coefficients have a posterior. ``LaplaceClassifier``
draws them from it after a single fit. Here are 100 patients of the Wisconsin breast cancer data.
The draws are compared with a bootstrap of 20 fits: on other patients, and on patients whose
features are multiplied by random numbers, as if they were measured wrongly.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scorewise as sw

X, y = load_breast_cancer(return_X_y=True)
X_old, X_new, y_old, y_new = train_test_split(X, y, train_size=100, stratify=y, random_state=0)
X_wrong = X_new * np.random.default_rng(0).normal(1, 0.5, X_new.shape[1])
regression = make_pipeline(StandardScaler(), LogisticRegression())
print(sw.explain_model(regression))

# %%
# Both are estimators of scikit-learn. ``sw.explain_model`` says what their members are.

models = {
    "posterior": sw.LaplaceClassifier(regression),
    "bootstrap": sw.BootstrapEnsemble(regression, 20, random_state=0),
}
members, wrong_members = {}, {}
for name, model in models.items():
    model.fit(X_old, y_old)
    print(sw.explain_model(model))
    members[name] = sw.predict_samples(model, X_new, random_state=0)
    wrong_members[name] = sw.predict_samples(model, X_wrong, random_state=0)

# %%
# How much do the members doubt a patient? Each dot is one. Nearly all patients that were measured
# wrongly stand out by the draws from the posterior; the fits of the bootstrap agree about many.

figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained", sharey=True)
for ax, name in zip(axes, models, strict=True):
    epistemic = sw.decompose(members[name], "log").epistemic
    epistemic_of_wrong = sw.decompose(wrong_members[name], "log").epistemic
    metrics = sw.ood_metrics(epistemic, epistemic_of_wrong)
    shown = {
        "measured rightly": (members[name], epistemic, "o", sw.plots.style.BLUE),
        "measured wrongly": (
            wrong_members[name],
            epistemic_of_wrong,
            "x",
            sw.plots.style.VERMILION,
        ),
    }
    for label, (samples, u, marker, color) in shown.items():
        p = samples.mean[:, 1]
        ax.plot(p, u, marker, color=color, markersize=4, alpha=0.6, label=label)
    ax.set_title(f"{name}: AUROC {metrics.auroc:.2f}")
    ax.set_xlabel("probability that the tumour is benign")
    sw.plots.style.percent_axis(ax.xaxis)
    sw.plots.style.despine(ax)
axes[0].set_ylabel("epistemic uncertainty (log)")
axes[1].legend()
figure.suptitle("Epistemic uncertainty detects wrong measurements")

# %%
# The price: draws are too wide where there are few rows for each coefficient, here 100 rows for 31.
# So the mean of the draws is less certain than that of the bootstrap, and its log loss larger. Both
# order patients about equally well for abstaining.

for name, samples in members.items():
    errors = sw.task_losses(samples, y_new, "zero-one")
    curve = sw.rejection_curve(errors, sw.decompose(samples, "zero-one").total)
    log_loss = sw.task_losses(samples, y_new, "log").mean()
    print(f"{name}: log loss {log_loss:.3f}, ", end="")
    print(f"mean error of accepted patients over all coverages {curve.aulc:.2%}")
