"""The main job in small: a forest on the digits that ship with scikit-learn."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scorewise.curves import aulc
from scorewise.decompose import COMPONENTS, RULES, decompose
from scorewise.models import predict_samples
from scorewise.tasks.losses import task_losses


@dataclass(frozen=True)
class Digit:
    """One test image and how unsure the forest is about it."""

    index: int
    label: int
    predicted: int
    kind: str  # "clear" or "doubtful"
    image: list[list[int]]  # 8 × 8, from 0 to 16
    uncertainty: dict[str, dict[str, float]]  # rule -> component -> value


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Attributes
    ----------
    digits : list of Digit
        A few clear and a few doubtful ones.
    areas : dict
        ``areas[task_loss][rule][component]``: the area under the loss-rejection curve when
        the rows are accepted in the order of that measure.
    accuracy : float
        Of the forest, on the test images.
    n_train, n_test, n_trees : int
    """

    digits: list[Digit]
    areas: dict[str, dict[str, dict[str, float]]]
    accuracy: float
    n_train: int
    n_test: int
    n_trees: int

    def best(self, task_loss: str) -> tuple[str, str]:
        """The rule and the component of the smallest area."""
        areas = self.areas[task_loss]
        return min(
            ((rule, part) for rule in RULES for part in COMPONENTS),
            key=lambda measure: areas[measure[0]][measure[1]],
        )

    def write(self, folder: Path) -> Path:
        """Write ``demo.json``, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "demo.json"
        partial = folder / ".demo.json.partial"
        partial.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        os.replace(partial, path)
        return path


def run_demo(n_trees: int = 100, n_examples: int = 3, random_state: int = 0) -> DemoResult:
    """Fit a forest on half of the digits and ask how unsure it is about the other half.

    Parameters
    ----------
    n_trees : int
        Members of the forest.
    n_examples : int
        How many clear and how many doubtful digits to describe.
    random_state : int
        Seed of the split and of the forest.
    """
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    data = load_digits()
    rows = np.arange(len(data.target))
    train, test = train_test_split(
        rows, test_size=0.5, stratify=data.target, random_state=random_state
    )
    # Leaves of several digits, so that trees give probabilities rather than votes.
    forest = RandomForestClassifier(
        n_trees, min_samples_leaf=5, n_jobs=-1, random_state=random_state
    )
    forest.fit(data.data[train], data.target[train])
    samples = predict_samples(forest, data.data[test])
    labels = data.target[test]

    results = decompose(samples, RULES)
    theta_bar = samples.mean
    order = np.argsort(results["log"].total, kind="stable")
    n_examples = min(n_examples, len(order) // 2)
    picked = [(i, "clear") for i in order[:n_examples]]
    picked += [(i, "doubtful") for i in order[-n_examples:]]
    digits = [
        Digit(
            index=int(test[i]),
            label=int(labels[i]),
            predicted=int(theta_bar[i].argmax()),
            kind=kind,
            image=data.images[test[i]].astype(int).tolist(),
            uncertainty={
                rule: {part: float(getattr(results[rule], part)[i]) for part in COMPONENTS}
                for rule in RULES
            },
        )
        for i, kind in picked
    ]
    losses = {
        # trees may be sure, and wrong: without a floor the log loss would be infinite
        task: task_losses(samples, labels, task, floor=1e-6 if task == "log" else None)
        for task in RULES
    }
    areas = {
        task: {
            rule: {part: aulc(losses[task], getattr(results[rule], part)) for part in COMPONENTS}
            for rule in RULES
        }
        for task in RULES
    }
    accuracy = float(np.mean(theta_bar.argmax(axis=-1) == labels))
    return DemoResult(digits, areas, accuracy, len(train), len(test), n_trees)
