"""scorewise compare: which uncertainty measure works best on your own predictions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from scorewise.cli._app import (
    AsJson,
    Confidence,
    Debug,
    Floor,
    Normalize,
    OnBadRows,
    OODSource,
    PredictionsSource,
    Quarantine,
    Reading,
    Resamples,
    Rules,
    SchedulerAddress,
    Seed,
    TaskLoss,
    command,
    datasets_of,
    read_here,
    read_more,
)
from scorewise.cli._arguments import ALL_RULES, parse_loss, parse_rules
from scorewise.cli._screen import comparison_table, print_json, print_text
from scorewise.compare import advise
from scorewise.compare import compare as compare_measures
from scorewise.errors import InvalidInput
from scorewise.scale import compare_dataset


@command(
    "scorewise compare test.parquet --task selective --task-loss zero-one",
    "scorewise compare test.npz --task-loss log --floor 1e-6",
    "scorewise compare test.npz --task ood --ood ood.npz",
    "scorewise compare folder_of_parquet_files --scheduler local",
)
def compare(
    file: PredictionsSource,
    reading: Reading,
    task: Annotated[
        str,
        typer.Option(
            metavar="TASK", help="abstain (selective) or ood (out-of-distribution detection)."
        ),
    ] = "selective",
    task_loss: TaskLoss = "zero-one",
    ood: OODSource = None,
    rules: Rules = ALL_RULES,
    floor: Floor = None,
    confidence: Confidence = 0.95,
    resamples: Resamples = 2000,
    seed: Seed = 0,
    normalize: Normalize = False,
    scheduler: SchedulerAddress = None,
    on_bad_rows: OnBadRows = "fail",
    quarantine: Quarantine = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Rank uncertainty measures on your own rows.

    Compares every rule and component, with paired intervals. The metric for abstaining is the area
    under the loss-rejection curve (AULC, lower is better), for OOD detection the AUROC. Measures
    that do not differ significantly from the best are marked.

    With --scheduler, FILE and --ood are folders of Parquet files, which may be larger than this
    machine.
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
    settings: dict[str, Any] = {
        "task": task,
        "rules": parse_rules(rules),
        "floor": floor,
        "confidence": confidence,
        "n_resamples": resamples,
        "random_state": seed,
        "progress": False if as_json else None,
        "normalize": normalize,
    }
    if scheduler is None:
        predictions = read_here(file, reading, on_bad_rows, quarantine)
        comparison = compare_measures(
            predictions,
            task_loss=parse_loss(task_loss, predictions),
            ood=None if ood is None else read_more(ood, reading, predictions),
            **settings,
        )
    else:
        dataset, ood_dataset = datasets_of(file, ood, reading)
        loss = parse_loss(task_loss, dataset.empty(1))
        comparison = compare_dataset(
            dataset,
            ood=ood_dataset,
            scheduler=scheduler,
            on_bad_rows=on_bad_rows,
            quarantine=quarantine,
            task_loss=loss,
            **settings,
        )
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_text(comparison_table(comparison), *comparison.notes)
