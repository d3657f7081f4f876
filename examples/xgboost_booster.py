"""Boosted trees: XGBoost
======================

Is the uncertainty of one model worth as much as that of ten? A native ``Booster`` of XGBoost stops
early on held-out digits, and ``sw.predict_samples`` makes 20 members of it. They are compared with
ten models of as many iterations, each fitted to a bootstrap sample of the same digits.
"""

import xgboost
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import scorewise as sw

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
X_fit, X_stop, y_fit, y_stop = train_test_split(X_train, y_train, test_size=0.2, random_state=0)
settings = {"objective": "multi:softprob", "num_class": 10, "max_depth": 3, "nthread": 1}
booster = xgboost.train(
    settings,
    xgboost.DMatrix(X_fit, y_fit),
    num_boost_round=100,
    evals=[(xgboost.DMatrix(X_stop, y_stop), "stop")],
    early_stopping_rounds=5,
    verbose_eval=False,
)
print(sw.explain_model(booster))

# %%
# ``X`` is what the booster takes: a ``DMatrix``, or an array. Iterations after the best one are not
# used.

n_rounds = booster.best_iteration + 1
classifier = xgboost.XGBClassifier(n_estimators=n_rounds, max_depth=3, n_jobs=1)
ensemble = sw.BootstrapEnsemble(classifier, 10, random_state=0).fit(X_fit, y_fit)
members = {
    "one booster": sw.predict_samples(booster, xgboost.DMatrix(X_test), random_state=0),
    "ten models": sw.predict_samples(ensemble, X_test),
}

# %%
# Both are decomposed in the same way, and order the digits by the probability of an error.

curves = {}
for name, samples in members.items():
    errors = sw.task_losses(samples, y_test, "zero-one")
    curves[name] = sw.rejection_curve(errors, sw.decompose(samples, "zero-one").total)
    print(f"{name}: error of all digits {curves[name].loss[-1]:.2%}, ", end="")
    print(f"of the most certain 90 % {curves[name].loss_at(0.9):.2%}")
display = sw.plots.RejectionCurveDisplay(curves, sw.rules.zero_one.unit)
display.plot(show_oracle=False, show_random=False)
display.ax_.set_title("Abstaining with the members of one booster and of ten models")
sw.plots.style.percent_axis(display.ax_.yaxis)

# %%
# The *size* of the epistemic part is another matter: members of one model share most of their
# trees. Ten fits say more about it.

for name, samples in members.items():
    parts = sw.decompose(samples, "log")
    print(f"{name}: epistemic {parts.epistemic.mean():.3f} of total {parts.total.mean():.3f}")
