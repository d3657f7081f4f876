"""scorewise decide: the least costly action for every row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from scorewise._array import to_numpy
from scorewise._progress import bar
from scorewise._tables import check_table_path, input_metadata, row_column, write_table
from scorewise._text import shape_text
from scorewise.cli._app import (
    AsJson,
    Debug,
    InputPath,
    Normalize,
    OnBadRows,
    PredictionsSource,
    Reading,
    Restart,
    SchedulerAddress,
    SourceOut,
    command,
    refuse_without_scheduler,
)
from scorewise.cli._arguments import parse_costs
from scorewise.cli._screen import print_error, print_json, print_text, table
from scorewise.decide import decide as decide_samples
from scorewise.decompose import COMPONENTS
from scorewise.io import read_predictions
from scorewise.scale import DecidedDataset, decide_dataset


@command(
    "scorewise decide test.parquet --costs costs.csv",
    "scorewise decide test.npz --costs costs.csv --abstain-cost 1 --out decisions.csv",
    "scorewise decide folder_of_parquet_files --costs costs.csv --scheduler local",
    "",
    "costs.csv has a line for each class and a column for each action:",
    "  ,dismiss,treat",
    "  healthy,0,5",
    "  ill,50,0",
)
def decide(
    file: PredictionsSource,
    reading: Reading,
    costs: Annotated[
        Path,
        typer.Option(help="CSV file: a line of action names, then a line for each class."),
        InputPath(),
    ],
    abstain_cost: Annotated[
        float | None, typer.Option(help="Cost of abstaining, the same for all classes.")
    ] = None,
    out: SourceOut = "FILE-decisions.parquet",
    normalize: Normalize = False,
    scheduler: SchedulerAddress = None,
    on_bad_rows: OnBadRows = "fail",
    restart: Restart = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Choose the action of least expected cost for every row.

    The columns are the ids, the action, its expected cost (total), the part that remains even under
    perfect information about the class probabilities (aleatoric), and the value of that information
    (epistemic): an upper bound on the value of a second opinion or a label. With --scheduler, FILE
    is a folder of Parquet files, and a file is written for each of them; to resume an interrupted
    run, repeat the command.
    """
    if scheduler is not None:
        decided = decide_dataset(
            file,
            parse_costs(costs),
            out,
            abstain_cost=abstain_cost,
            normalize=normalize,
            scheduler=scheduler,
            on_bad_rows=on_bad_rows,
            restart=restart,
            progress=False if as_json else None,
            **reading,
        )
        _print_dataset(decided, as_json)
        return
    refuse_without_scheduler(file, on_bad_rows, restart)
    check_table_path(Path(out))
    predictions = read_predictions(file, **reading)
    matrix = parse_costs(costs, predictions)
    parts = []
    with bar("deciding", len(predictions), False if as_json else None) as advance:
        for _, part, samples in predictions.sample_chunks(normalize=normalize):
            parts.append(decide_samples(samples, matrix, abstain_cost))
            advance(len(part))
    action, total, aleatoric, epistemic = (
        np.concatenate([to_numpy(getattr(part, name)) for part in parts])
        for name in ("action", *COMPONENTS)
    )
    decisions = replace(
        parts[0], action=action, total=total, aleatoric=aleatoric, epistemic=epistemic
    )
    action_names = decisions.action_names
    columns = {
        **row_column(predictions.ids, 0, len(action)),
        "action": np.array(action_names, dtype=object)[action],
        "total": total,
        "aleatoric": aleatoric,
        "epistemic": epistemic,
    }
    metadata = {
        **input_metadata(Path(file), predictions.shape),
        "costs": matrix.costs.tolist(),
        "actions": list(action_names),
        "abstain_cost": abstain_cost,
    }
    write_table(Path(out), columns, metadata)
    summary = [row for row in decisions.by_action() if row["rows"]]
    if as_json:
        print_json({"path": out, "n_rows": len(action), "summary": summary, **metadata})
        return
    print_text(f"Read {shape_text(predictions.shape)}.")
    _print_actions(summary)
    if predictions.shape[1] == 1:
        print_text(
            "There is one member, so epistemic is 0 in every row: it says nothing about the value "
            "of a second opinion or a label."
        )
    print_text(f"Written to {out}", wrap=False)


def _print_actions(summary: list[dict[str, Any]]) -> None:
    print_text(
        table(
            "Actions and their mean expected costs",
            ["action", "rows", "cost", "aleatoric", "epistemic"],
            (
                (row["action"], f"{row['rows']:,}", *(f"{row[c]:.4g}" for c in COMPONENTS))
                for row in summary
            ),
        )
    )


def _print_dataset(decided: DecidedDataset, as_json: bool) -> None:
    summary = [row for row in decided.by_action() if row["rows"]]
    if as_json:
        print_json(
            {
                "path": decided.path,
                "n_rows": decided.n_rows,
                "n_partitions": decided.n_partitions,
                "resumed": decided.resumed,
                "quarantined": decided.quarantined,
                "summary": summary,
                "actions": decided.action_names,
            }
        )
        return
    print_text(f"{decided.size_text()} decided.")
    for line in decided.quarantine_lines():
        print_error(f"{line}.")
    _print_actions(summary)
    print_text(f"Written to {decided.path}", wrap=False)
