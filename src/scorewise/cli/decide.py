"""scorewise decide: the least costly action for every row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from scorewise._array import to_numpy
from scorewise._progress import bar
from scorewise.cli._app import AsJson, ClassNames, Debug, Normalize, Predicted, command
from scorewise.cli._arguments import names_of
from scorewise.cli._screen import print_json, say, table
from scorewise.decide import Decisions
from scorewise.decide import decide as decided
from scorewise.io import (
    Predictions,
    check_table_path,
    described,
    digest,
    pyarrow,
    read_costs,
    read_predictions,
    row_names,
    write_table,
)


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
    file: Predicted,
    costs: Annotated[
        Path, typer.Option(help="CSV file: a line of action names, then a line for each class.")
    ],
    abstain_cost: Annotated[
        float | None, typer.Option(help="Cost of abstaining, whatever the true class.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A .parquet, .arrow or .csv file; FILE-decisions.parquet by default."),
    ] = None,
    class_names: ClassNames = None,
    normalize: Normalize = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Choose the action of least expected cost for every row.

    Columns are the ids, the action, its expected cost (total), the part that remains even under
    perfect information about the class probabilities (aleatoric), and the value of that information
    (epistemic): the most that a second opinion or a label is worth.
    """
    out = Path(f"{file.stem}-decisions.parquet") if out is None else out
    check_table_path(out, file, costs)
    predictions = read_predictions(file, names_of(class_names))
    matrix, actions = read_costs(costs, predictions.class_names)
    parts = []
    with bar("deciding", len(predictions), False if as_json else None) as advance:
        for _, part, samples in predictions.checked_chunks(normalize=normalize):
            parts.append(decided(samples, matrix, abstain_cost, action_names=actions))
            advance(len(part))
    told = {
        **described(predictions, file),
        "sha256": digest(file),
        "costs": matrix.tolist(),
        "actions": list(parts[0].action_names),
        "abstain_cost": abstain_cost,
    }
    batch = _table(parts, predictions)
    write_table(out, [batch], told)
    summary = _summary(parts)
    if as_json:
        print_json({"path": str(out), "n_rows": batch.num_rows, "summary": summary, **told})
        return
    say(
        table(
            "Actions and their mean expected costs",
            ["action", "rows", "cost", "aleatoric", "epistemic"],
            ((s["action"], f"{s['rows']:,}", *(f"{s[c]:.4g}" for c in _COSTS)) for s in summary),
        ),
        f"Written to {out}",
    )


_COSTS = ("total", "aleatoric", "epistemic")


def _joined(parts: list[Decisions], name: str) -> np.ndarray:
    return np.concatenate([to_numpy(getattr(part, name)) for part in parts])


def _table(parts: list[Decisions], predictions: Predictions) -> Any:
    action = _joined(parts, "action")
    name, ids = row_names(predictions.ids, 0, len(action))
    names = np.array(parts[0].action_names, dtype=object)[action]
    pa = pyarrow()
    costs = {cost: _joined(parts, cost) for cost in _COSTS}
    return pa.record_batch({name: ids, "action": pa.array(names, pa.string()), **costs})


def _summary(parts: list[Decisions]) -> list[dict[str, Any]]:
    """How often each action is taken, and what it costs on average."""
    action = _joined(parts, "action")
    found = []
    for index, name in enumerate(parts[0].action_names):
        here = action == index
        if here.any():
            means = {cost: float(_joined(parts, cost)[here].mean()) for cost in _COSTS}
            found.append({"action": name, "rows": int(here.sum()), **means})
    return found
