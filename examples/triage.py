"""Triage: decide, abstain, order reviews and choose what to label by one cost matrix.

    python examples/triage.py

A forest classifies tumours (the Wisconsin breast cancer data in scikit-learn). Operating on a
benign tumour costs 10, sending a patient with a malignant one home costs 100. A biopsy reveals the
truth; it costs 4 for a benign tumour and 6 for a malignant one, as treatment is delayed.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw

ACTIONS = ["operate", "send home", "biopsy"]
COSTS = np.array(
    [
        [0, 100],  # malignant
        [10, 0],  # benign
    ]
)
BIOPSY = [6, 4]  # by class; to abstain is to take a biopsy


def main() -> None:
    """Decide for new patients, and compare the costs."""
    X, y = load_breast_cancer(return_X_y=True)
    X_old, X_new, y_old, y_new = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(X_old, y_old)
    members = sw.predict_samples(forest, X_new)

    decisions = sw.decide(members, COSTS, BIOPSY, action_names=ACTIONS)
    print("Actions and their expected costs:", decisions, sep="\n", end="\n\n")

    costs = decisions.rule.costs
    label_costs = costs[y_new, members.mean.argmax(axis=-1)]  # column k is the right action for k
    no_biopsies = sw.decide(members, COSTS)
    print("Mean cost per patient, by their true classes, if we choose")
    print(f"  the action for the most likely class   {label_costs.mean():6.3f}")
    print(
        f"  the action of least expected cost      {COSTS[y_new, no_biopsies.action].mean():6.3f}"
    )
    print(f"  the same, and biopsies are possible    {costs[y_new, decisions.action].mean():6.3f}")
    print()

    print("The three patients whose expected cost is highest, to be reviewed first:")
    for row in np.argsort(-decisions.total, kind="stable")[:3]:
        name = decisions.action_names[decisions.action[row]]
        print(f"  patient {row}: {name}, expected cost {decisions.total[row]:.2f}")
    print()

    print("The three patients whose diagnoses are most useful as labels:")
    for row in sw.acquire(decisions.epistemic, 3, random_state=0):
        print(f"  patient {row}: knowing θ would save {decisions.epistemic[row]:.2f}")


if __name__ == "__main__":
    main()
