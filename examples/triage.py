"""Triage: one cost matrix gives the decision, the abstention, the review list and what to label.

    python examples/triage.py

A forest looks at tumours (the Wisconsin breast cancer data in scikit-learn). To operate on a benign
one costs 10, to send a malignant one home 100; a biopsy, which finds the truth, costs 4 for a
benign tumour and 6 for a malignant one, where days are lost.
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
BIOPSY = [6, 4]  # the last action: abstain from deciding by the pictures alone


def main() -> None:
    """Decide for new patients, and say what it rests on."""
    X, y = load_breast_cancer(return_X_y=True)
    X_old, X_new, y_old, y_new = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(X_old, y_old)
    members = sw.predict_samples(forest, X_new)

    decisions = sw.decide(members, COSTS, BIOPSY, action_names=ACTIONS)
    print("What to do, and what it is expected to cost:", decisions, sep="\n", end="\n\n")

    costs = decisions.rule.costs
    by_label = costs[y_new, members.mean.argmax(axis=-1)]  # column k is the right action for k
    without = sw.decide(members, COSTS)
    print("Mean cost per patient that came out:")
    print(f"  the most likely label     {by_label.mean():6.3f}")
    print(f"  the least costly action   {COSTS[y_new, without.action].mean():6.3f}")
    print(f"  ... with biopsies         {costs[y_new, decisions.action].mean():6.3f}", end="\n\n")

    print("The three patients whose expected cost is highest, to be reviewed first:")
    for row in np.argsort(-decisions.total, kind="stable")[:3]:
        name = decisions.action_names[decisions.action[row]]
        print(f"  patient {row}: {name}, expected cost {decisions.total[row]:.2f}")
    print()

    print("The three whose diagnosis the model would learn most from:")
    for row in sw.acquire(decisions.epistemic, 3, random_state=0):
        print(f"  patient {row}: knowing more is worth {decisions.epistemic[row]:.2f}")


if __name__ == "__main__":
    main()
