"""scorewise apply: accept rows or abstain, by a policy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated

import numpy as np
import typer

from scorewise._tables import check_table_path, input_metadata, row_column, write_table
from scorewise._text import percent, shape_text
from scorewise.abstain import load_policy
from scorewise.cli._app import (
    NOT_GUARANTEED,
    SUCCESS,
    AsJson,
    Debug,
    InputPath,
    Normalize,
    PredictionsFile,
    Reading,
    TableOut,
    command,
    refuse_policy,
)
from scorewise.cli._screen import print_json, print_text
from scorewise.errors import InvalidInput
from scorewise.io import read_predictions


@command(
    "scorewise apply policy.json new.parquet --out decisions.parquet",
    "scorewise apply policy.json new.npz --out decisions.csv --json",
    "scorewise apply policy.json new.npz --public-key public.pem",
)
def apply(
    policy_file: Annotated[
        Path,
        typer.Argument(metavar="POLICY", help='File written by "scorewise certify".'),
        InputPath(),
    ],
    file: PredictionsFile,
    reading: Reading,
    out: TableOut = Path("decisions.parquet"),
    false_alarm_rate: Annotated[
        float, typer.Option(help="Probability of reporting drift when there is none.")
    ] = 0.05,
    public_key: Annotated[
        Path | None,
        typer.Option(
            metavar="PEM",
            help="Refuse the policy unless it is signed with the private key of this Ed25519 "
            "public key (scorewise[sign]).",
        ),
        InputPath(),
    ] = None,
    normalize: Normalize = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Accept each row or abstain, as a certified policy decides.

    The columns are the ids, the prediction, its uncertainty, and whether to accept it. No labels
    are needed. Uncertainties are compared with those of the certification data, to detect drift.
    A policy that was edited is refused.

    Exit code 1: the rows differ from the certification data, so that the guarantee does not hold
    for them, or the policy guarantees nothing.
    """
    if policy_file.suffix.lower() != ".json" and file.suffix.lower() == ".json":
        raise InvalidInput(
            f"the policy comes first: scorewise apply {quote(str(file))} {quote(str(policy_file))}"
        )
    refuse_policy(file)
    check_table_path(out)
    policy = load_policy(policy_file, public_key=public_key)
    predictions = read_predictions(file, **reading)
    result = policy.apply(
        predictions,
        normalize=normalize,
        false_alarm_rate=false_alarm_rate,
        progress=False if as_json else None,
    )
    n_rows, n_accepted = len(result.accepted), int(result.accepted.sum())
    is_guaranteed = policy.certificate.coverage > 0 and not result.drift
    columns = {
        **row_column(predictions.ids, 0, n_rows),
        "prediction": np.array(result.prediction_names, dtype=object)[result.prediction],
        "uncertainty": result.uncertainty,
        "accept": result.accepted,
    }
    metadata = {**input_metadata(file, predictions.shape), "guarantee": str(policy)}
    write_table(out, columns, metadata)
    if as_json:
        print_json(
            {
                "path": str(out),
                "n_rows": n_rows,
                "n_accepted": n_accepted,
                "guaranteed": is_guaranteed,
                "drift": asdict(result.drift),
                **metadata,
            }
        )
    else:
        if result.drift:
            print_text(f"WARNING: {result.drift}")
        print_text(str(policy))
        print_text(f"Read {shape_text(predictions.shape)}.")
        share = percent(n_accepted / n_rows, ".1f")
        print_text(f"{n_accepted:,} of {n_rows:,} rows accepted ({share}).")
        if not result.drift:
            print_text(f"No sign of drift: {result.drift}")
        print_text(f"Written to {out}", wrap=False)
    return SUCCESS if is_guaranteed else NOT_GUARANTEED
