"""scorewise compare: which uncertainty measure works best on your own predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scorewise.cli._app import (
    AsJson,
    Confidence,
    Debug,
    Floor,
    InputPath,
    Normalize,
    PredictionsFile,
    Reading,
    Resamples,
    Rules,
    Seed,
    TaskLoss,
    command,
    read_more,
)
from scorewise.cli._arguments import ALL_RULES, parse_loss, parse_rules
from scorewise.cli._screen import comparison_table, print_json, print_text
from scorewise.compare import advise
from scorewise.compare import compare as compare_measures
from scorewise.errors import InvalidInput
from scorewise.io import read_predictions


@command(
    "scorewise compare test.parquet --task selective --task-loss zero-one",
    "scorewise compare test.npz --task-loss log --floor 1e-6",
    "scorewise compare test.npz --task ood --ood ood.npz",
)
def compare(
    file: PredictionsFile,
    reading: Reading,
    task: Annotated[
        str,
        typer.Option(
            metavar="TASK", help="abstain (selective) or ood (out-of-distribution detection)."
        ),
    ] = "selective",
    task_loss: TaskLoss = "zero-one",
    ood: Annotated[
        Path | None, typer.Option(help="Predictions for out-of-distribution rows."), InputPath()
    ] = None,
    rules: Rules = ALL_RULES,
    floor: Floor = None,
    confidence: Confidence = 0.95,
    resamples: Resamples = 2000,
    seed: Seed = 0,
    normalize: Normalize = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Rank uncertainty measures on your own rows.

    Compares every rule and component, with paired intervals. The metric for abstaining is the area
    under the loss-rejection curve (AULC, lower is better), for OOD detection the AUROC. Measures
    that do not differ significantly from the best are marked.
    """
    task = advise(task).task
    if task == "active":
        raise InvalidInput(
            "active learning is compared by repeated runs, not by predictions; see "
            "scorewise.active_learning and scorewise.compare in Python"
        )
    if (task == "ood") != (ood is not None):
        raise InvalidInput(
            "--task ood and --ood, predictions for out-of-distribution rows, go together"
        )
    predictions = read_predictions(file, **reading)
    comparison = compare_measures(
        predictions,
        task=task,
        task_loss=parse_loss(task_loss, predictions),
        rules=parse_rules(rules),
        ood=None if ood is None else read_more(ood, reading, predictions),
        floor=floor,
        confidence=confidence,
        n_resamples=resamples,
        random_state=seed,
        progress=False if as_json else None,
        normalize=normalize,
    )
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_text(comparison_table(comparison), *comparison.notes)
