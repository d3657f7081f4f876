"""scorewise demo: all three tasks on the digits that ship with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
import typer

from scorewise._files import check_no_link, replacing
from scorewise._json import dumps
from scorewise._progress import bar
from scorewise.cli._app import AsJson, Debug, OutputPath, command
from scorewise.cli._screen import print_json, print_text
from scorewise.cli.evaluate import can_write_page, show_evaluation
from scorewise.compare import Evaluation
from scorewise.compare import evaluate as evaluate_predictions
from scorewise.io import Predictions, write_predictions
from scorewise.report import write_report

OOD_DIGITS = (8, 9)  # which the forest never sees
N_RUNS = 4  # of active learning, for each query
N_LABELS = 240  # of a run
_QUERIES: dict[str, dict[str, Any]] = {
    # drawn by power rather than taken from the top, so that the rows of a batch differ
    "epistemic zero-one": {"rule": "zero-one", "component": "epistemic", "method": "power"},
    "random": {"method": "random"},
}


@command(
    "scorewise demo", "scorewise demo --trees 500 --seed 7", "scorewise demo --json > demo.json"
)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results."), OutputPath()] = Path("out"),
    trees: Annotated[
        int, typer.Option(metavar="N", min=2, help="Number of trees in the forest.")
    ] = 100,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**31, help="Random seed.")] = 0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Evaluate a random forest on handwritten digits.

    Shows when the forest should abstain, whether it detects digits of classes that it has never
    seen, and by which measure to choose the digits to label next. Writes a report (report.html),
    its numbers (evaluation.json), and the predictions, to try the other commands on.
    """
    from sklearn.datasets import load_digits

    out.mkdir(parents=True, exist_ok=True)
    page, numbers, digits_file, ood_file = written = [
        out / name for name in ("report.html", "evaluation.json", "digits.npz", "ood.npz")
    ]
    for path in written:
        check_no_link(path)
    has_page = can_write_page(page)
    if not has_page:
        written.remove(page)
    evaluation, predictions, ood = evaluate_forest(trees, seed, progress=False if as_json else None)
    write_predictions(digits_file, predictions)
    write_predictions(ood_file, ood)
    with replacing(numbers) as partial:
        partial.write_text(dumps(evaluation.to_dict(), indent=1) + "\n")
    if has_page:
        write_report(
            evaluation,
            page,
            title="How certain is a random forest about handwritten digits?",
            provenance={
                "data": "the handwritten digits of scikit-learn, 8 × 8 pixels",
                "model": f"a forest of {trees} trees, fitted on half of the digits from 0 to 7; 8 "
                "and 9 are out of distribution",
                "labels": f"{N_RUNS} runs of active learning for each query",
            },
            inputs=load_digits().images[predictions.ids],
        )
    if as_json:
        print_json({**evaluation.to_dict(), "written": [str(path) for path in written]})
        return
    print_text(
        f"A forest of {trees} trees was fitted on half of the digits from 0 to 7. It predicts the "
        f"other {len(predictions)}, and {len(ood)} digits 8 and 9, which are out of distribution: "
        "it has never seen them.\n"
    )
    show_evaluation(evaluation)
    digits_name, ood_name = quote(str(digits_file)), quote(str(ood_file))
    print_text(
        "",
        f"Written to {page}: open it in a browser. Next steps:" if has_page else "Next steps:",
        f"  scorewise evaluate {digits_name} --ood {ood_name} --task-loss brier",
        f"  scorewise certify {digits_name} --max-loss 0.02",
        f"  scorewise label {digits_name} -n 5",
        wrap=False,
    )


def evaluate_forest(
    n_trees: int, random_state: int, progress: bool | None
) -> tuple[Evaluation, Predictions, Predictions]:
    """Fit a forest on half of the digits 0 to 7, and evaluate it on the others and on 8 and 9.

    Returns the evaluation, and the predictions for the digits in and out of distribution.
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

    with bar("the demo", 2 + N_RUNS * len(_QUERIES), progress) as advance:
        forest.fit(data.data[train], data.target[train])
        predictions = predict(test, np.searchsorted(forest.classes_, data.target[test]))
        ood = predict(np.flatnonzero(is_ood), None)
        advance(1)
        runs: dict[str, list[Any]] = {name: [] for name in _QUERIES}
        for seed in range(random_state, random_state + N_RUNS):
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
                    budget=N_LABELS,
                    **query,
                )
                runs[name].append(list(rounds))
                advance(1)
        evaluation = evaluate_predictions(
            predictions, ood=ood, runs=runs, random_state=random_state
        )
        advance(1)
    return evaluation, predictions, ood
