"""scorewise apply: accept rows or abstain, by a certificate."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from scorewise.abstain import Gate
from scorewise.cli._app import (
    FINE,
    NOT_GUARANTEED,
    AsJson,
    ClassNames,
    Debug,
    Normalize,
    PredictionsFile,
    command,
)
from scorewise.cli._arguments import parse_names
from scorewise.cli._screen import print_json, say
from scorewise.io import check_table_path, input_metadata, read_predictions, row_column, write_table


@command(
    "scorewise apply cert.json new.parquet --out decisions.parquet",
    "scorewise apply cert.json new.npz --out decisions.csv --json",
)
def apply(
    certificate: Annotated[
        Path, typer.Argument(metavar="CERTIFICATE", help='File written by "scorewise certify".')
    ],
    file: PredictionsFile,
    out: Annotated[Path, typer.Option(help="A .parquet, .arrow or .csv file.")] = (
        Path("decisions.parquet")
    ),
    false_alarm_rate: Annotated[
        float, typer.Option(help="Probability of reporting drift when there is none.")
    ] = 0.05,
    class_names: ClassNames = None,
    normalize: Normalize = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Accept each row or abstain, with the guarantee of a certificate.

    Columns are the ids, the prediction, its uncertainty, and whether to accept it. No labels are
    needed. Uncertainties are compared with those of the calibration data, to detect drift.

    Exit code 1: the rows differ from the calibration data, so that the guarantee does not hold for
    them, or the certificate guarantees nothing.
    """
    check_table_path(out, file, certificate)
    gate = Gate.read(certificate)
    predictions = read_predictions(file, parse_names(class_names))
    gated = gate.apply(
        predictions,
        normalize=normalize,
        false_alarm_rate=false_alarm_rate,
        progress=False if as_json else None,
    )
    n_rows, n_accepted = len(gated.accept), int(gated.accept.sum())
    is_guaranteed = gate.certificate.coverage > 0
    columns = {
        **row_column(predictions.ids, 0, n_rows),
        "prediction": np.array(gated.prediction_names, dtype=object)[gated.prediction],
        "uncertainty": gated.uncertainty,
        "accept": gated.accept,
    }
    metadata = {**input_metadata(predictions, file), "promise": str(gate)}
    write_table(out, columns, metadata)
    if as_json:
        print_json(
            {
                "path": str(out),
                "n_rows": n_rows,
                "n_accepted": n_accepted,
                "promised": is_guaranteed,
                "drift": asdict(gated.drift),
                **metadata,
            }
        )
    else:
        if gated.drift:
            say(f"WARNING: {gated.drift}")
        say(str(gate))
        say(f"{n_accepted:,} of {n_rows:,} rows accepted ({n_accepted / n_rows:.1%}).")
        if not gated.drift:
            say(f"No sign of drift: {gated.drift}")
        say(f"Written to {out}")
    return FINE if is_guaranteed and not gated.drift else NOT_GUARANTEED
