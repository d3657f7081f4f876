"""Medical triage with costs
=========================

A forest classifies tumours (the Wisconsin breast cancer data). Operating on a benign tumour costs
10, sending a patient with a malignant one home costs 100. A biopsy reveals the truth. It costs 4
for a benign tumour and 6 for a malignant one, as treatment is delayed. One cost matrix decides who
is operated on, who has a biopsy, and whose diagnosis is worth most.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw

# %%
# ``sw.decide`` takes the action of least expected cost. The biopsy is the action of abstaining, so
# its costs stand apart.

costs = np.array([[0, 100], [10, 0]])  # rows: malignant, benign; columns: operate, send home
actions = ["operate", "send home", "biopsy"]

X, y = load_breast_cancer(return_X_y=True)  # class 0 is malignant, 1 is benign
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(X, y)
members = sw.predict_samples(forest, X_new)
decisions = sw.decide(members, costs, abstain_cost=[6, 4], action_names=actions)
print(decisions)

# %%
# Which action is taken depends on the probability that the tumour is malignant. The most probable
# class would be another decision: it sends patients home up to a probability of 50 %.

p = np.linspace(0, 1, 1001)
expected = sw.binary(1 - p) @ decisions.rule.costs  # of each action; class 0 has probability p
malignant = members.mean[:, 0]
figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for i, action in enumerate(actions):
    ax.plot(p, expected[:, i], label=action, **sw.plots.style.line_style(i))
    taken = decisions.action == i
    look = {"marker": "os^"[i], "linestyle": "", "color": sw.plots.style.COLORS[i]}
    ax.plot(malignant[taken], decisions.total[taken], markersize=5, alpha=0.5, **look)
ax.set(xlabel="probability that the tumour is malignant", ylabel="expected cost")
n_biopsies = (decisions.action == 2).sum()
ax.set(ylim=(-0.3, 10.3), title=f"{n_biopsies} of {len(X_new)} patients have a biopsy")
sw.plots.style.percent_axis(ax.xaxis)
ax.legend(loc="upper right")
sw.plots.style.despine(ax)

# %%
# What did these patients cost, by their true classes? Compare three ways to choose the action.

cost_of = decisions.rule.costs[y_new]  # of each patient and action
policies = {
    "the most probable class": members.mean.argmax(axis=-1),
    "the least expected cost": sw.decide(members, costs).action,
    "the same, with biopsies": decisions.action,
}
mean_costs = {
    name: cost_of[np.arange(len(X_new)), action].mean() for name, action in policies.items()
}
for name, cost in mean_costs.items():
    print(f"{name}: {cost:.2f} per patient")

figure, ax = plt.subplots(figsize=(6.4, 2.2), layout="constrained")
bars = ax.barh(list(mean_costs), list(mean_costs.values()), color=sw.plots.style.BLUE)
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.invert_yaxis()
first, *_, last = mean_costs.values()
ax.set(xlabel="mean cost of a patient", title=f"Costs and biopsies save {1 - last / first:.0%}")
sw.plots.style.despine(ax)

# %%
# The expected cost has two parts. The epistemic one would be saved if the true probabilities were
# known before acting: it is the most that better probabilities, such as those of another model, can
# be worth. What reveals the true class, such as a biopsy, can also save the aleatoric part.

sw.plots.DecisionDisplay(decisions).plot().ax_.set_title("Where the costs come from")
review = np.argsort(-decisions.total, kind="stable")[:3]
second_opinion = sw.acquire(decisions.epistemic, 3, random_state=0)
print("The largest expected costs, to be reviewed first:")
for row in review:
    action = actions[decisions.action[row]]
    print(f"  patient {row}: {action}, expected cost {decisions.total[row]:.2f}")
print("The diagnoses that are most useful as labels:")
for row in second_opinion:
    print(f"  patient {row}: knowing the probabilities would save {decisions.epistemic[row]:.2f}")
