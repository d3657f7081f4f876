"""scorewise label: which rows to label next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._progress import bar
from scorewise.acquire import METHODS, acquire, acquire_batch
from scorewise.cli._app import AsJson, ClassNames, Debug, Normalize, Predicted, Seed, command
from scorewise.cli._arguments import loss_of, names_of
from scorewise.cli._screen import print_json, say, table
from scorewise.decompose import named_rules, rule_name
from scorewise.errors import InvalidInput
from scorewise.io import (
    UNLABELLED,
    Predictions,
    check_table_path,
    column_name,
    decomposed_chunks,
    described,
    digest,
    pyarrow,
    read_predictions,
    row_names,
    write_table,
)

_SHOWN = 20  # rows of a table on the screen


@command(
    "scorewise label pool.parquet -n 100",
    "scorewise label pool.npz -n 50 --method power --out next.csv",
    "scorewise label pool.npz -n 10 --method joint",
)
def label(
    file: Predicted,
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="Number of rows to select.")] = 10,
    rule: Annotated[
        str, typer.Option(help="Scoring rule, or a CSV file with a cost matrix.")
    ] = "zero-one",
    component: Annotated[str, typer.Option(help="total, aleatoric or epistemic.")] = "epistemic",
    method: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(METHODS)}, or joint: the batch of the largest joint gain, for which "
            "all of FILE must fit in memory."
        ),
    ] = "top",
    out: Annotated[
        Path | None,
        typer.Option(help="A .csv, .parquet or .arrow file; by default, prints a table."),
    ] = None,
    seed: Seed = 0,
    class_names: ClassNames = None,
    normalize: Normalize = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Select the rows to label next: those where a label reduces uncertainty most.

    The theory recommends epistemic uncertainty under zero-one. Rows of the largest scores are often
    alike; "power" and "joint" select a more diverse batch. If some rows are labelled and others are
    not, only the unlabelled ones are selected.
    """
    if out is not None:
        check_table_path(out, file)
    predictions = read_predictions(file, names_of(class_names))
    loss = loss_of(rule, predictions)
    labelled = _labelled(predictions)
    if method == "joint":
        if component != "epistemic":
            raise InvalidInput("--method joint needs --component epistemic")
        batch = acquire_batch(
            predictions.checked(normalize=normalize),
            n,
            loss,
            random_state=seed,
            labelled=labelled,
            progress=False if as_json else None,
        )
        chosen, scores, name = batch.rows, batch.gains, f"joint_gain_{rule_name(loss)}"
    else:
        scores, name = _scores(predictions, loss, component, normalize, as_json)
        chosen = acquire(scores, n, method, random_state=seed, labelled=labelled)
        scores = scores[chosen]
    ids = predictions.ids
    names = [int(i) for i in chosen] if ids is None else ids[chosen].tolist()
    if out is not None:
        told = {**described(predictions, file), "sha256": digest(file), "method": method}
        write_table(out, [_table(chosen, ids, name, scores)], told)
    if as_json:
        print_json({"rows": chosen.tolist(), "ids": names, name: np.asarray(scores).tolist()})
        return
    if labelled is not None:
        say(f"{int(labelled.sum()):,} rows have a label already and are left out.")
    shown = list(zip(range(1, n + 1), names, chosen.tolist(), scores, strict=True))[:_SHOWN]
    say(
        table(
            f"Rows to label next ({method})",
            ["", "id" if ids is not None else "row", *["row"] * (ids is not None), name],
            ((rank, i, *[row] * (ids is not None), f"{s:.4f}") for rank, i, row, s in shown),
            n_names=2,
        )
    )
    if n > _SHOWN and out is None:
        say(f"… and {n - _SHOWN} more; --out next.csv writes all of them.")
    if out is not None:
        say(f"Written to {out}")


def _labelled(predictions: Predictions) -> np.ndarray | None:
    """Which rows have a label, where some have none."""
    labels = predictions.labels
    if labels is None or not (labels == UNLABELLED).any() or (labels == UNLABELLED).all():
        return None
    return np.asarray(labels != UNLABELLED)


def _scores(
    predictions: Predictions, loss: Any, component: str, normalize: bool, quiet: bool
) -> tuple[np.ndarray, str]:
    validate.choice(component, "component", ("total", "aleatoric", "epistemic"))
    rules = named_rules({rule_name(loss): loss})
    found = []
    with bar("scoring", len(predictions), False if quiet else None) as advance:
        for _, part, (result,) in decomposed_chunks(predictions, rules, normalize=normalize):
            found.append(to_numpy(getattr(result, component)))
            advance(len(part))
    return np.concatenate(found), column_name(rule_name(loss), component)


def _table(rows: np.ndarray, ids: np.ndarray | None, name: str, scores: np.ndarray) -> Any:
    columns = {"row": rows}
    if ids is not None:
        columns |= dict([row_names(ids[rows], 0, len(rows))])
    return pyarrow().record_batch(columns | {name: np.asarray(scores)})
