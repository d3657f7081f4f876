"""Triage: one cost matrix decides, abstains, orders reviews and chooses what to label.

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
BIOPSY = [6, 4]  # by class; the abstain action


def main() -> None:
    """Decide for new patients, and compare the costs."""
    X, y = load_breast_cancer(return_X_y=True)
    X_old, X_new, y_old, y_new = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(X_old, y_old)
    members = sw.predict_samples(forest, X_new)

    decisions = sw.decide(members, COSTS, BIOPSY, action_names=ACTIONS)
    print("Actions and their expected costs:", decisions, sep="\n", end="\n\n")

    costs = decisions.rule.costs
    by_label = costs[y_new, members.mean.argmax(axis=-1)]  # column k is the right action for k
    without = sw.decide(members, COSTS)
    print("Mean cost per patient, with the true classes:")
    print(f"  the most likely label     {by_label.mean():6.3f}")
    print(f"  the least costly action   {COSTS[y_new, without.action].mean():6.3f}")
    print(f"  ... with biopsies         {costs[y_new, decisions.action].mean():6.3f}", end="\n\n")

    print("The three patients whose expected cost is highest, to be reviewed first:")
    for row in np.argsort(-decisions.total, kind="stable")[:3]:
        name = decisions.action_names[decisions.action[row]]
        print(f"  patient {row}: {name}, expected cost {decisions.total[row]:.2f}")
    print()

    print("The three patients whose diagnosis is most useful as a label:")
    for row in sw.acquire(decisions.epistemic, 3, random_state=0):
        print(f"  patient {row}: learning θ saves {decisions.epistemic[row]:.2f}")


if __name__ == "__main__":
    main()
