"""The main job in small: a forest on the digits that ship with scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scorewise._files import replacing
from scorewise._json import dumps
from scorewise._progress import bar
from scorewise.acquire import Round, active_learning
from scorewise.compare import Evaluation, evaluate
from scorewise.io import Predictions, write_predictions
from scorewise.models import predict_samples

FOREIGN = (8, 9)  # digits that the forest never sees
_QUERIES: dict[str, dict[str, Any]] = {
    # drawn by power rather than taken from the top, so that a batch is not much alike
    "epistemic zero-one": {"rule": "zero-one", "component": "epistemic", "method": "power"},
    "random": {"method": "random"},
}
_RUNS = 4  # of active learning, for each way to choose
_LABELS = {"initial": 20, "per_round": 20, "budget": 240}


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demo found.

    Attributes
    ----------
    predictions : Predictions
        Of the forest, for digits of the kinds it knows, with labels and ids.
    foreign : Predictions
        For digits of the kinds it has never seen.
    evaluation : Evaluation
        All three tasks: abstaining, foreign digits, what to label.
    n_train, n_trees : int
    """

    predictions: Predictions
    foreign: Predictions
    evaluation: Evaluation
    n_train: int
    n_trees: int

    def write(self, folder: Path) -> list[Path]:
        """The report, the evaluation and the predictions, each file whole or not at all."""
        from scorewise.report import write_report

        folder.mkdir(parents=True, exist_ok=True)
        page, numbers, own, foreign = (
            folder / name
            for name in ("report.html", "evaluation.json", "digits.npz", "foreign.npz")
        )
        write_predictions(own, self.predictions)
        write_predictions(foreign, self.foreign)
        with replacing(numbers) as partial:
            partial.write_text(dumps(self.evaluation.to_dict(), indent=1) + "\n")
        write_report(
            self.evaluation,
            page,
            title="How sure is a forest about handwritten digits?",
            provenance={
                "data": "the handwritten digits of scikit-learn, 8 × 8 pixels",
                "model": f"a forest of {self.n_trees} trees, fitted on {self.n_train} digits from "
                "0 to 7; 8 and 9 are foreign to it",
                "labels": f"{_RUNS} runs of active learning for each way to choose",
            },
        )
        return [page, numbers, own, foreign]


def run_demo(n_trees: int = 100, random_state: int = 0, progress: bool | None = None) -> DemoResult:
    """Fit a forest on some digits, and ask how sure it is about others, known and foreign.

    Parameters
    ----------
    n_trees : int
        Members of the forest.
    random_state : int
        Seed of the split, of the forest and of all that follows.
    progress : bool, optional
        Show a bar; on terminals unless told.
    """
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    data = load_digits()
    is_foreign = np.isin(data.target, FOREIGN)
    known = np.flatnonzero(~is_foreign)
    train, test = train_test_split(
        known, test_size=0.5, stratify=data.target[known], random_state=random_state
    )
    # Leaves of several digits, so that trees give probabilities rather than votes.
    forest = RandomForestClassifier(
        n_trees, min_samples_leaf=3, n_jobs=-1, random_state=random_state
    )
    with bar("the demo", 2 + _RUNS * len(_QUERIES), progress) as advance:
        forest.fit(data.data[train], data.target[train])
        names = [str(digit) for digit in forest.classes_]

        def predicted(rows: np.ndarray, labels: np.ndarray | None) -> Predictions:
            samples = predict_samples(forest, data.data[rows])
            return Predictions(samples.probs, labels=labels, ids=rows, class_names=names)

        own = predicted(test, np.searchsorted(forest.classes_, data.target[test]))
        foreign = predicted(np.flatnonzero(is_foreign), None)
        advance(1)
        runs: dict[str, list[list[Round]]] = {name: [] for name in _QUERIES}
        for seed in range(random_state, random_state + _RUNS):
            for name, query in _QUERIES.items():
                options = {
                    **_LABELS,
                    **query,
                    "X_test": data.data[test],
                    "y_test": data.target[test],
                    "random_state": seed,
                }
                rounds = active_learning(
                    RandomForestClassifier(50), data.data[train], data.target[train], **options
                )
                runs[name].append(list(rounds))
                advance(1)
        found = evaluate(own, ood=foreign, runs=runs, random_state=random_state)
        advance(1)
    return DemoResult(own, foreign, found, len(train), n_trees)
