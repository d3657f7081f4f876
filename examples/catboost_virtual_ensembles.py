"""Boosted trees: CatBoost
=======================

CatBoost calls the states of one boosted model during training its virtual ensemble, and returns
"data" and "total" uncertainty of it. These are the aleatoric and total uncertainty under the log
loss. The same members give both, and the epistemic part, in the units of any other loss, such as
errors.
"""

import numpy as np
from catboost import CatBoostClassifier
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import scorewise as sw

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
model = CatBoostClassifier(
    iterations=100, posterior_sampling=True, verbose=False, allow_writing_files=False, random_seed=0
)
model.fit(X_train, y_train)
print(sw.explain_model(model))

# %%
# Under the log loss the numbers are those of CatBoost.

samples = sw.predict_samples(model, X_test)
parts = sw.decompose(samples, "log")
data, total = model.virtual_ensembles_predict(
    X_test, prediction_type="TotalUncertainty", virtual_ensembles_count=10
).T
print(f"largest difference, aleatoric: {np.abs(parts.aleatoric - data).max():.0e}")
print(f"largest difference, total: {np.abs(parts.total - total).max():.0e}")

# %%
# **Which digits should a person read?** What counts are errors, so rows are ordered by the total
# uncertainty under zero-one, the probability of an error.

errors = sw.task_losses(samples, y_test, "zero-one")
curves = {
    f"total {rule}": sw.rejection_curve(errors, sw.decompose(samples, rule).total)
    for rule in ("zero-one", "log")
}
for name, curve in curves.items():
    accepted = f"of the most certain 90 % {curve.loss_at(0.9):.2%}"
    print(f"{name}: error of all digits {curve.loss[-1]:.2%}, {accepted}")
display = sw.plots.RejectionCurveDisplay(curves, sw.rules.zero_one.unit).plot()
display.ax_.set_title("Abstaining on a few digits avoids most errors")
sw.plots.style.percent_axis(display.ax_.yaxis)

# %%
# Without ``posterior_sampling=True`` or ``langevin=True`` the states are no samples of a posterior;
# ``sw.predict_samples`` then makes members as for the other libraries. Several CatBoost models in a
# list are one member each.
