"""scorewise decide: the least costly action for every row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

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
    PredictionsFile,
    Reading,
    TableOut,
    command,
)
from scorewise.cli._arguments import parse_costs
from scorewise.cli._screen import print_json, print_text, table
from scorewise.decide import decide as decide_samples
from scorewise.decompose import COMPONENTS
from scorewise.io import read_predictions


@command(
    "scorewise decide test.parquet --costs costs.csv",
    "scorewise decide test.npz --costs costs.csv --abstain-cost 1 --out decisions.csv",
    "",
    "costs.csv has a line for each class and a column for each action:",
    "  ,dismiss,treat",
    "  healthy,0,5",
    "  ill,50,0",
)
def decide(
    file: PredictionsFile,
    reading: Reading,
    costs: Annotated[
        Path,
        typer.Option(help="CSV file: a line of action names, then a line for each class."),
        InputPath(),
    ],
    abstain_cost: Annotated[
        float | None, typer.Option(help="Cost of abstaining, the same for all classes.")
    ] = None,
    out: TableOut = Path("FILE-decisions.parquet"),
    normalize: Normalize = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Choose the action of least expected cost for every row.

    The columns are the ids, the action, its expected cost (total), the part that remains even under
    perfect information about the class probabilities (aleatoric), and the value of that information
    (epistemic): an upper bound on the value of a second opinion or a label.
    """
    check_table_path(out)
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
        **input_metadata(file, predictions.shape),
        "costs": matrix.costs.tolist(),
        "actions": list(action_names),
        "abstain_cost": abstain_cost,
    }
    write_table(out, columns, metadata)
    summary = [row for row in decisions.by_action() if row["rows"]]
    if as_json:
        print_json({"path": str(out), "n_rows": len(action), "summary": summary, **metadata})
        return
    print_text(f"Read {shape_text(predictions.shape)}.")
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
    if predictions.shape[1] == 1:
        print_text(
            "There is one member, so epistemic is 0 in every row: it says nothing about the value "
            "of a second opinion or a label."
        )
    print_text(f"Written to {out}", wrap=False)
