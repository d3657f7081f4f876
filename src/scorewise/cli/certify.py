"""scorewise certify and scorewise apply: a threshold with a promise, and its use."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from scorewise.abstain import Gate, Gated
from scorewise.abstain import certify as certified
from scorewise.cli._app import (
    BROKEN_PROMISE,
    FINE,
    AsJson,
    ClassNames,
    Confidence,
    Debug,
    Floor,
    Normalize,
    Predicted,
    TaskLoss,
    command,
)
from scorewise.cli._arguments import loss_of, names_of
from scorewise.cli._screen import print_json, say
from scorewise.io import (
    Predictions,
    check_file_path,
    check_table_path,
    described,
    digest,
    pyarrow,
    read_predictions,
    row_names,
    write_table,
)


@command(
    "scorewise certify held_out.npz --max-loss 0.05 --confidence 0.95 --out cert.json",
    "scorewise certify held_out.npz --task-loss log --floor 1e-6 --max-loss 0.3",
    "scorewise certify held_out.npz --task-loss costs.csv --max-loss 2.5",
)
def certify(
    file: Predicted,
    max_loss: Annotated[float, typer.Option(help="The mean loss that may be paid, at most.")],
    confidence: Confidence = 0.95,
    task_loss: TaskLoss = "zero-one",
    floor: Floor = None,
    out: Annotated[Path, typer.Option(help="The certificate, a JSON file.")] = Path("cert.json"),
    class_names: ClassNames = None,
    normalize: Normalize = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Find the largest share to accept whose mean loss is promised.

    FILE has labelled predictions for rows that neither the model nor the choice of the measure has
    seen. Rows are accepted by the total uncertainty of the loss itself. The promise holds for
    finite samples, and for new rows like these; "scorewise apply" uses it on them.

    Exit code 1: nothing can be promised (the certificate then accepts nothing).
    """
    check_file_path(out, file)
    predictions = read_predictions(file, names_of(class_names))
    loss = loss_of(task_loss, predictions)
    told = {**described(predictions, file), "sha256": digest(file)}
    gate = certified(
        predictions,
        max_loss=max_loss,
        confidence=confidence,
        task_loss=loss,
        floor=floor,
        told=told,
        normalize=normalize,
    )
    gate.write(out)
    if as_json:
        print_json(gate.to_dict())
    else:
        say(str(gate), f"Written to {out}")
    return FINE if gate.certificate.coverage else BROKEN_PROMISE


@command(
    "scorewise apply cert.json new.parquet --out decisions.parquet",
    "scorewise apply cert.json new.npz --out decisions.csv --json",
)
def apply(
    certificate: Annotated[
        Path, typer.Argument(metavar="CERTIFICATE", help='What "scorewise certify" has made.')
    ],
    file: Predicted,
    out: Annotated[Path, typer.Option(help="A .parquet, .arrow or .csv file.")] = (
        Path("decisions.parquet")
    ),
    false_alarm_rate: Annotated[
        float, typer.Option(help="How often unchanged inputs may be called changed.")
    ] = 0.05,
    class_names: ClassNames = None,
    normalize: Normalize = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Accept or abstain, row by row, as a certificate promises.

    Columns are the ids, the prediction, its uncertainty, and whether to accept it. No labels are
    needed. The uncertainties are compared with those the promise rests on.

    Exit code 1: the rows are unlike those, so that the promise does not hold for them, or the
    certificate promises nothing.
    """
    check_table_path(out, file, certificate)
    gate = Gate.read(certificate)
    predictions = read_predictions(file, names_of(class_names))
    gated = gate.apply(
        predictions,
        normalize=normalize,
        false_alarm_rate=false_alarm_rate,
        progress=False if as_json else None,
    )
    told = {**described(predictions, file), "sha256": digest(file), "promise": str(gate)}
    write_table(out, [_table(gated, predictions)], told)
    promised = gate.certificate.coverage > 0
    if as_json:
        print_json(
            {
                "path": str(out),
                "n_rows": len(gated.accept),
                "n_accepted": int(gated.accept.sum()),
                "promised": promised,
                "promise": str(gate),
                "drift": asdict(gated.drift),
                **told,
            }
        )
    else:
        if gated.drift:
            say(f"WARNING: {gated.drift}")
        say(str(gate))
        kept = int(gated.accept.sum())
        say(f"{kept:,} of {len(gated.accept):,} rows accepted ({kept / len(gated.accept):.1%}).")
        if not gated.drift:
            say(f"No sign of drift: {gated.drift}")
        say(f"Written to {out}")
    return FINE if promised and not gated.drift else BROKEN_PROMISE


def _table(gated: Gated, predictions: Predictions) -> Any:
    name, ids = row_names(predictions.ids, 0, len(gated.accept))
    predicted = np.array(gated.prediction_names, dtype=object)[gated.prediction]
    pa = pyarrow()
    return pa.record_batch(
        {
            name: ids,
            "prediction": pa.array(predicted, pa.string()),
            "uncertainty": gated.uncertainty,
            "accept": gated.accept,
        }
    )
