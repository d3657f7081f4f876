"""Boosted trees: LightGBM
=======================

A boosted model is one long sum of trees, so it seems to have no members that could disagree. But
parts of the sum predict as well. ``sw.predict_samples`` makes 20 members of one fitted LightGBM
model, without another fit. They say which digits to leave to a person, and that eights and nines
are of no class that the model knows.
"""

import lightgbm
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import scorewise as sw

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X[y < 8], y[y < 8], random_state=0)
X_unknown = X[y >= 8]
model = lightgbm.LGBMClassifier(n_estimators=30, verbose=-1).fit(X_train, y_train)
print(sw.explain_model(model))

# %%
# The members are predictions like those of any ensemble.

known = sw.predict_samples(model, X_test, random_state=0)
unknown = sw.predict_samples(model, X_unknown, random_state=0)
print(known)

# %%
# **Which digits should a person read?** Those of the largest total uncertainty under the zero-one
# loss, the probability of an error.

errors = sw.task_losses(known, y_test, "zero-one")
curve = sw.rejection_curve(errors, sw.decompose(known, "zero-one").total)
print(f"Error of all digits: {curve.loss[-1]:.2%}")
print(f"Error of the most certain 90 %: {curve.loss_at(0.9):.2%}")
display = sw.plots.RejectionCurveDisplay({"total zero-one": curve}, sw.rules.zero_one.unit).plot()
display.ax_.set_title(f"The most certain 90 % have an error of {curve.loss_at(0.9):.1%}")
sw.plots.style.percent_axis(display.ax_.yaxis)

# %%
# **Are there digits of unknown classes?** The model learned 0 to 7 and calls every 8 and 9 one of
# these. For boosted trees, total uncertainty under the log loss often detects such inputs better
# than its epistemic part.

parts = {
    name: [getattr(sw.decompose(q, "log"), name) for q in (known, unknown)]
    for name in ("total", "epistemic")
}
for name, (u_in, u_out) in parts.items():
    print(f"{name} log: {sw.ood_metrics(u_in, u_out)}")
display = sw.plots.OODDisplay.from_scores(*parts["total"], score_name="total uncertainty (log)")
display.plot()
display.figure_.suptitle(f"Eights and nines are detected with AUROC {display.metrics.auroc:.2f}")

# %%
# A ``Booster`` of LightGBM is taken in the same way, as are models of XGBoost, CatBoost and
# scikit-learn. If few rows are at hand, or the size of the epistemic part matters, prefer several
# fits: ``sw.BootstrapEnsemble(lightgbm.LGBMClassifier())``.

# sphinx_gallery_thumbnail_number = 2
