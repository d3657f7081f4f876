"""Saved predictions and the command line
======================================

The model runs elsewhere, in another program or on another machine, and only its predictions are at
hand, in files. Three commands make decisions of them, without a line of Python: ``evaluate`` says
how good they are, ``certify`` puts a threshold into a file, and ``apply`` applies it to new
predictions as they arrive.
"""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw

# %%
# Somewhere, a forest is trained. Only the probabilities of its members are saved, for three
# sets of digits, the first of which has labels. In the third, the camera has become dirty.

X, X_later, y, y_later = train_test_split(
    *load_digits(return_X_y=True), test_size=900, random_state=0
)
forest = RandomForestClassifier(50, min_samples_leaf=3, random_state=0).fit(X, y)
samples = sw.predict_samples(forest, X_later)
dirt = np.random.default_rng(0).normal(scale=5, size=(450, 64))
dirty = sw.predict_samples(forest, np.clip(X_later[450:] + dirt, 0, 16))

folder = Path(tempfile.mkdtemp())
names = {"class_names": forest.classes_}
sw.write_predictions(folder / "held_out.npz", samples[:450], labels=y_later[:450], **names)
sw.write_predictions(folder / "new.npz", samples[450:], ids=np.arange(450), **names)
sw.write_predictions(folder / "dirty.npz", dirty, ids=np.arange(450), **names)
print(sw.read_predictions(folder / "held_out.npz"))


# %%
# Files of another program are read, too: NumPy, Parquet, Arrow, CSV, safetensors. From here on, all
# is done by commands. This function runs one, as a terminal would.


def run(command):
    """Print a command, what it prints, and the code with which it exits."""
    scorewise = [sys.executable, "-c", "from scorewise.cli import app; app()"]
    result = subprocess.run(
        [*scorewise, *command.split()[1:]], cwd=folder, capture_output=True, text=True
    )
    print(f"$ {command}\n{result.stdout}{result.stderr}exit code {result.returncode}\n")


# %%
# How good is the model, and when should it abstain? ``report.html`` has the answers with pictures.

run("scorewise evaluate held_out.npz")

# %%
# A policy accepts rows of which at most 3 % are wrong, with 95 % confidence. Its file is what you
# deploy.

run("scorewise certify held_out.npz --max-loss 0.03 --out policy.json")

# %%
# It is applied to each new file, and the decisions are a table.

run("scorewise apply policy.json new.npz --out decisions.csv")
with (folder / "decisions.csv").open() as file:
    for line in list(file)[:5]:
        print(line, end="")

# %%
# The policy keeps the uncertainties on which it was certified, so it notices that the camera became
# dirty. The exit code stops a pipeline.

run("scorewise apply policy.json dirty.npz --out decisions_dirty.csv")


# %%
# The uncertainties in the files show what the command noticed:


def column(name, path):
    """Return a column of numbers of a CSV file."""
    with path.open() as file:
        return np.array([float(row[name]) for row in csv.DictReader(file)])


threshold = sw.load_policy(folder / "policy.json").certificate.threshold
uncertainties = {
    "certification data": sw.decompose(samples[:450], "zero-one").total,
    "new": column("uncertainty", folder / "decisions.csv"),
    "new, with a dirty camera": column("uncertainty", folder / "decisions_dirty.csv"),
}
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for i, (name, u) in enumerate(uncertainties.items()):
    look = sw.plots.style.line_style(i)
    ax.ecdf(u, label=f"{name}: {np.mean(u <= threshold):.0%} accepted", **look)
ax.axvline(threshold, color="black", linewidth=0.8)
ax.annotate("threshold ", (threshold, 0.04), ha="right")
ax.set(xlabel="total uncertainty (zero-one)", ylabel="share of rows at most this uncertain")
ax.set_title("Like the certification data, or not: the policy notices")
ax.set(xlim=(0, 0.9), ylim=(0, 1.35), yticks=np.linspace(0, 1, 6))
sw.plots.style.percent_axis(ax.yaxis)
ax.legend(loc="upper left")
sw.plots.style.despine(ax)
