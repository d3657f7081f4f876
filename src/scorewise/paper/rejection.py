"""Selective prediction: the loss of what is accepted, for every loss, rule and component."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scorewise._progress import bar
from scorewise.curves import rejection_curve
from scorewise.decompose import COMPONENTS, RULES, decompose
from scorewise.losses import task_losses
from scorewise.paper.cells import Cell, Result
from scorewise.paper.kinds import FORESTS
from scorewise.paper.setup import Setup, drawn_rows, labels_of

POINTS = 100  # of a curve that is kept
# A forest can be certain and wrong, which the log loss makes infinite; the paper does not say how
# it counts that. Here as scikit-learn does, which takes the rounding of 1 for 0; and, to show how
# much that matters, by a larger floor.
FLOOR, LARGER_FLOOR = float(np.finfo(np.float64).eps), 1e-6
LARGER_LOG = f"log (floor {LARGER_FLOOR:g})"
LOSSES = {**{rule: (rule, FLOOR) for rule in RULES}, LARGER_LOG: ("log", LARGER_FLOOR)}


def rejection_numbers(probs: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Areas and curves: by task loss, then component, then the rule that measures it.

    A curve has the loss of the most certain 1 %, 2 %, … of the rows.
    """
    parts = decompose(probs, list(RULES))
    kept = -(-len(y) * np.arange(1, POINTS + 1) // POINTS) - 1
    aulc: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    for loss, (own, floor) in LOSSES.items():
        losses = task_losses(probs, y, own, floor=floor)
        found = {
            component: {
                rule: rejection_curve(losses, getattr(parts[rule], component)) for rule in RULES
            }
            for component in COMPONENTS
        }
        aulc[loss] = {
            component: {rule: curve.aulc for rule, curve in by_rule.items()}
            for component, by_rule in found.items()
        }
        curves[loss] = {
            component: {rule: curve.loss[kept].round(5) for rule, curve in by_rule.items()}
            for component, by_rule in found.items()
        }
    mean = probs.mean(1)
    return {
        "rows": len(y),
        "accuracy": float((mean.argmax(1) == y).mean()),
        "certain_and_wrong": float((mean[np.arange(len(y)), y] == 0).mean()),
        "aulc": aulc,
        "curves": curves,
    }


def forest_cells(setup: Setup, data: str, *, trees: int, depth: int) -> list[Cell]:
    """A forest for each run, all else being scikit-learn's defaults."""
    return [
        Cell(
            FORESTS,
            {
                "data": data,
                "trees": trees,
                "depth": depth,
                "run": run,
                **setup.protocol.sizes("test_rows", "train_rows"),
                "sets": setup.described((data, "train"), (data, "test")),
            },
        )
        for run in range(setup.protocol.runs)
    ]


def compute_forests(setup: Setup, wanted: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Cells in parallel, through whatever joblib is told to use."""
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=setup.n_jobs, return_as="generator_unordered")
    with bar("forests", len(wanted), setup.progress) as advance:
        for done in parallel(delayed(_forest)(setup, cell) for cell in wanted):
            yield done
            advance(1)


def _forest(setup: Setup, cell: Cell) -> tuple[Cell, Result]:
    from sklearn.ensemble import RandomForestClassifier

    from scorewise.models import predict_samples

    started = time.perf_counter()
    setting = cell.setting
    run = setting["run"]
    train = setup.load(setting["data"], "train", run)
    test = setup.load(setting["data"], "test", run)
    chosen = drawn_rows(test, setting["test_rows"], run)
    x, y = test.x[chosen], labels_of(test)[chosen]
    forest = RandomForestClassifier(
        n_estimators=setting["trees"], max_depth=setting["depth"], random_state=run
    )
    most = setting["train_rows"]
    forest.fit(train.x[:most], labels_of(train)[:most])
    probs = _all_classes(
        np.asarray(predict_samples(forest, x).probs), forest.classes_, train.n_classes
    )
    return cell, Result(
        rejection_numbers(probs, y), {"probs": probs, "y": y}, time.perf_counter() - started
    )


def _all_classes(probs: np.ndarray, classes: np.ndarray, n_classes: int) -> np.ndarray:
    """Probability 0 for the classes that a small training set lacks."""
    found = np.zeros((*probs.shape[:-1], n_classes))
    found[..., classes] = probs
    return found
