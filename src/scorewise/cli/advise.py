"""scorewise advise: which uncertainty measure to use, by the theory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from scorewise.cli._app import AsJson, Debug, TaskLoss, command
from scorewise.cli._arguments import parse_loss
from scorewise.cli._screen import print_json, print_text
from scorewise.compare import advise as advise_measure


@command(
    "scorewise advise abstain --task-loss brier",
    "scorewise advise ood",
    "scorewise advise active --json",
)
def advise(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="abstain (selective), ood (out-of-distribution detection) or label (active).",
        ),
    ],
    task_loss: TaskLoss = "zero-one",
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the uncertainty measure that theory recommends.

    Prints the measure for a task, the reason, and when the advice may not hold.
    "scorewise compare" ranks the measures on your own predictions.
    """
    advice = advise_measure(task, parse_loss(task_loss))
    if as_json:
        print_json({**asdict(advice), "measure": advice.measure})
    else:
        print_text(str(advice))
