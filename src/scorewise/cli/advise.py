"""scorewise advise and scorewise compare: which measure to use, in theory and in practice."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scorewise import _validate as validate
from scorewise._labelled import Labelled, members_of
from scorewise.cli._app import (
    AsJson,
    ClassNames,
    Confidence,
    Debug,
    Floor,
    Normalize,
    Predicted,
    Rules,
    Seed,
    TaskLoss,
    command,
)
from scorewise.cli._arguments import ALL_RULES, loss_of, names_of, rules_of
from scorewise.cli._screen import comparison_table, print_json, say
from scorewise.compare import advise as theory
from scorewise.compare import compare as evidence
from scorewise.errors import InvalidInput
from scorewise.io import read_predictions


@command(
    "scorewise advise selective --task-loss brier",
    "scorewise advise ood",
    "scorewise advise active --json",
)
def advise(
    task: Annotated[
        str, typer.Argument(help="selective (abstain), ood (foreign rows) or active (labels).")
    ],
    task_loss: TaskLoss = "zero-one",
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say which uncertainty to use for a task, by the theory, and why.

    "scorewise compare" has the evidence on your own predictions.
    """
    found = theory(task, loss_of(task_loss))
    if as_json:
        print_json({**asdict(found), "measure": found.measure})
    else:
        say(str(found))


@command(
    "scorewise compare test.parquet --task selective --task-loss zero-one",
    "scorewise compare test.npz --task-loss log --floor 1e-6",
    "scorewise compare test.npz --task ood --ood foreign.npz",
)
def compare(
    file: Predicted,
    task: Annotated[str, typer.Option(help="selective (abstain) or ood (foreign rows).")] = (
        "selective"
    ),
    task_loss: TaskLoss = "zero-one",
    ood: Annotated[Path | None, typer.Option(help="Predictions for foreign rows.")] = None,
    rules: Rules = ALL_RULES,
    floor: Floor = None,
    confidence: Confidence = 0.95,
    resamples: Annotated[int, typer.Option(min=100, help="Of the bootstrap.")] = 2000,
    seed: Seed = 0,
    class_names: ClassNames = None,
    normalize: Normalize = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Rank every rule and component on your own rows, with paired intervals.

    Abstaining is judged by the area under the loss-rejection curve (AULC, lower is better), telling
    foreign rows by the AUROC. Measures that cannot be told from the best are named as such.
    """
    if task == "active":
        raise InvalidInput(
            "active learning is compared by repeated runs, which predictions alone are not; see "
            "scorewise.active_learning and scorewise.compare in Python"
        )
    validate.choice(task, "--task", ("selective", "ood"))
    if (task == "ood") != (ood is not None):
        raise InvalidInput("--task ood and --ood, predictions for foreign rows, go together")
    predictions = read_predictions(file, names_of(class_names))
    options = {"normalize": normalize}
    loss = loss_of(task_loss, predictions)
    labels = None
    if task == "selective":
        rows = Labelled.of(predictions, None, None, None, options)
        samples, labels = rows.samples, rows.labels
    else:
        samples = members_of(predictions, "predictions", options)
    foreign = None
    if ood is not None:
        foreign = members_of(read_predictions(ood, names_of(class_names)), "ood", options)
    found = evidence(
        samples,
        labels,
        task,
        loss,
        rules=rules_of(rules),
        ood=foreign,
        floor=floor,
        confidence=confidence,
        n_resamples=resamples,
        random_state=seed,
        progress=False if as_json else None,
    )
    if as_json:
        print_json(found.to_dict())
    else:
        say(comparison_table(found), *found.notes)
