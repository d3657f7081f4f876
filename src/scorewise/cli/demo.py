"""scorewise demo: all three tasks on the digits that ship with scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
import typer

from scorewise._files import replacing
from scorewise._json import dumps
from scorewise._progress import bar
from scorewise.cli._app import AsJson, Debug, command
from scorewise.cli._screen import print_json, say
from scorewise.cli.evaluate import show_evaluation
from scorewise.compare import Evaluation
from scorewise.compare import evaluate as evaluate_predictions
from scorewise.io import Predictions, write_predictions
from scorewise.report import check_report, write_report

OOD_DIGITS = (8, 9)  # which the forest never sees
_QUERIES: dict[str, dict[str, Any]] = {
    # drawn by power rather than taken from the top, so that the rows of a batch differ
    "epistemic zero-one": {"rule": "zero-one", "component": "epistemic", "method": "power"},
    "random": {"method": "random"},
}


@command(
    "scorewise demo", "scorewise demo --trees 500 --seed 7", "scorewise demo --json > demo.json"
)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("out"),
    trees: Annotated[int, typer.Option(min=2, help="Number of trees in the forest.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Random seed.")] = 0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Fit a random forest on handwritten digits and run all three tasks on it.

    When should it abstain? Does it detect digits of classes that it has never seen? Which digits
    should be labelled next? Compares the uncertainty measures. Writes a report (report.html) and
    the predictions, to try the other commands on.
    """
    out.mkdir(parents=True, exist_ok=True)
    check_report(out / "report.html")
    result = run_demo(trees, seed, progress=False if as_json else None)
    page, _, digits, ood = written = result.write(out)
    if as_json:
        print_json({**result.evaluation.to_dict(), "written": [str(path) for path in written]})
        return
    say(
        f"A forest of {trees} trees was fitted on {result.n_train} digits from 0 to 7. It predicts "
        f"{len(result.predictions)} others, and {len(result.ood)} digits 8 and 9, which are out of "
        "distribution: it has never seen them.\n"
    )
    show_evaluation(result.evaluation)
    digits_file, ood_file = quote(str(digits)), quote(str(ood))
    say(
        "",
        f"Written to {page}: open it in a browser. Next steps:",
        f"  scorewise evaluate {digits_file} --ood {ood_file} --task-loss brier",
        f"  scorewise certify {digits_file} --max-loss 0.02",
        f"  scorewise label {digits_file} -n 5",
        wrap=False,
    )


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Results of the demo.

    Attributes
    ----------
    predictions : Predictions
        Of the forest for held-out digits of the classes that it was fitted on, with labels and ids.
    ood : Predictions
        For digits of the classes that it has never seen.
    evaluation : Evaluation
        All three tasks: abstaining, OOD detection, active learning.
    n_train, n_trees, n_runs : int
        Digits for fitting, members of the forest, runs of active learning for each query.
    """

    predictions: Predictions
    ood: Predictions
    evaluation: Evaluation
    n_train: int
    n_trees: int
    n_runs: int

    def write(self, folder: Path) -> list[Path]:
        """Write the report, the evaluation and the predictions; return their paths."""
        page, numbers, digits, ood = paths = [
            folder / name for name in ("report.html", "evaluation.json", "digits.npz", "ood.npz")
        ]
        folder.mkdir(parents=True, exist_ok=True)
        write_predictions(digits, self.predictions)
        write_predictions(ood, self.ood)
        with replacing(numbers) as partial:
            partial.write_text(dumps(self.evaluation.to_dict(), indent=1) + "\n")
        write_report(
            self.evaluation,
            page,
            title="How certain is a random forest about handwritten digits?",
            provenance={
                "data": "the handwritten digits of scikit-learn, 8 × 8 pixels",
                "model": f"a forest of {self.n_trees} trees, fitted on {self.n_train} digits from "
                "0 to 7; 8 and 9 are out of distribution",
                "labels": f"{self.n_runs} runs of active learning for each query",
            },
        )
        return paths


def run_demo(
    n_trees: int = 100,
    random_state: int = 0,
    progress: bool | None = None,
    n_runs: int = 4,
    budget: int = 240,
) -> DemoResult:
    """Fit a forest on the digits 0 to 7, and evaluate it on others and on 8 and 9.

    Parameters
    ----------
    n_trees : int
        Members of the forest.
    random_state : int
        Seed of the split, of the forest and of all that follows.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals only.
    n_runs : int
        Runs of active learning, for each query.
    budget : int
        Labels of a run.
    """
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    from scorewise.acquire import active_learning
    from scorewise.models import predict_samples

    data = load_digits()
    is_ood = np.isin(data.target, OOD_DIGITS)
    in_distribution = np.flatnonzero(~is_ood)
    train, test = train_test_split(
        in_distribution,
        test_size=0.5,
        stratify=data.target[in_distribution],
        random_state=random_state,
    )
    # Leaves of several digits, so that trees give probabilities rather than votes.
    forest = RandomForestClassifier(
        n_trees, min_samples_leaf=3, n_jobs=-1, random_state=random_state
    )

    def predict(rows: np.ndarray, labels: np.ndarray | None) -> Predictions:
        samples = predict_samples(forest, data.data[rows])
        names = [str(digit) for digit in forest.classes_]
        return Predictions(samples.probs, labels=labels, ids=rows, class_names=names)

    with bar("the demo", 2 + n_runs * len(_QUERIES), progress) as advance:
        forest.fit(data.data[train], data.target[train])
        predictions = predict(test, np.searchsorted(forest.classes_, data.target[test]))
        ood = predict(np.flatnonzero(is_ood), None)
        advance(1)
        runs: dict[str, list[Any]] = {name: [] for name in _QUERIES}
        for seed in range(random_state, random_state + n_runs):
            for name, query in _QUERIES.items():
                rounds = active_learning(
                    RandomForestClassifier(50),
                    data.data[train],
                    data.target[train],
                    X_test=data.data[test],
                    y_test=data.target[test],
                    random_state=seed,
                    initial=20,
                    per_round=20,
                    budget=budget,
                    **query,
                )
                runs[name].append(list(rounds))
                advance(1)
        evaluation = evaluate_predictions(
            predictions, ood=ood, runs=runs, random_state=random_state
        )
        advance(1)
    return DemoResult(predictions, ood, evaluation, len(train), n_trees, n_runs)
