"""One logistic regression: its coefficients are drawn from their posterior, instead of fitted anew.

    python examples/logistic_regression.py

A regression is fitted to 100 patients (the Wisconsin breast cancer data in scikit-learn). Draws of
its coefficients are compared with a bootstrap of 20 fits: on other patients, and on patients whose
features are multiplied by random numbers, as if they were measured wrongly.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scorewise as sw


def main() -> None:
    """Say what the members of the models are, and how good their uncertainty is."""
    X, y = load_breast_cancer(return_X_y=True)
    X_old, X_new, y_old, y_new = train_test_split(X, y, train_size=100, stratify=y, random_state=0)
    wrong = X_new * np.random.default_rng(0).normal(1, 0.5, X_new.shape[1])
    regression = make_pipeline(StandardScaler(), LogisticRegression())
    print(sw.explain_model(regression))

    for model in (
        sw.LaplaceClassifier(regression),
        sw.BootstrapEnsemble(regression, 20, random_state=0),
    ):
        model.fit(X_old, y_old)
        print("", sw.explain_model(model), sep="\n")
        members, wrong_members = (
            sw.predict_samples(model, rows, random_state=0) for rows in (X_new, wrong)
        )
        epistemic, epistemic_of_wrong = (
            sw.decompose(samples, "log").epistemic for samples in (members, wrong_members)
        )
        auroc = sw.ood_metrics(epistemic, epistemic_of_wrong).auroc
        print(f"Epistemic uncertainty detects wrong measurements with AUROC {auroc:.2f}.")
        total = sw.decompose(members, "zero-one").total
        errors = sw.task_losses(members, y_new, "zero-one")
        curve = sw.rejection_curve(errors, total)
        print(f"The error of accepted patients, averaged over all coverages, is {curve.aulc:.2%}.")
        loss = sw.task_losses(members, y_new, "log").mean()
        print(f"The mean prediction has a log loss of {loss:.3f}.")


if __name__ == "__main__":
    main()
