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
from scorewise.abstain import Policy, load_policy
from scorewise.cli._app import (
    NOT_GUARANTEED,
    SUCCESS,
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
    refuse_policy,
    refuse_without_scheduler,
)
from scorewise.cli._screen import print_error, print_json, print_text
from scorewise.errors import InvalidInput
from scorewise.io import read_predictions
from scorewise.scale import AppliedDataset, apply_to_dataset


@command(
    "scorewise apply policy.json new.parquet --out decisions.parquet",
    "scorewise apply policy.json new.npz --out decisions.csv --json",
    "scorewise apply policy.json new.npz --public-key public.pem",
    "scorewise apply policy.json folder_of_parquet_files --scheduler local --out decisions",
)
def apply(
    policy_file: Annotated[
        Path,
        typer.Argument(metavar="POLICY", help='File written by "scorewise certify".'),
        InputPath(),
    ],
    file: PredictionsSource,
    reading: Reading,
    out: SourceOut = "decisions.parquet",
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
    scheduler: SchedulerAddress = None,
    on_bad_rows: OnBadRows = "fail",
    restart: Restart = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Accept each row or abstain, as a certified policy decides.

    The columns are the ids, the prediction, its uncertainty, and whether to accept it. No labels
    are needed. Uncertainties are compared with those of the certification data, to detect drift.
    A policy that was edited is refused. With --scheduler, FILE is a folder of Parquet files, and a
    file is written for each of them; to resume an interrupted run, repeat the command.

    Exit code 1: the rows differ from the certification data, so that the guarantee may not hold
    for them, or no row is valid, or the policy guarantees nothing.
    """
    path = Path(file)
    if policy_file.suffix.lower() != ".json" and path.suffix.lower() == ".json":
        raise InvalidInput(
            f"the policy comes first: scorewise apply {quote(file)} {quote(str(policy_file))}"
        )
    refuse_policy(path)
    if scheduler is not None:
        policy = load_policy(policy_file, public_key=public_key)
        applied = apply_to_dataset(
            policy,
            file,
            out,
            false_alarm_rate=false_alarm_rate,
            normalize=normalize,
            scheduler=scheduler,
            on_bad_rows=on_bad_rows,
            restart=restart,
            progress=False if as_json else None,
            **reading,
        )
        is_like_before = applied.drift is not None and not applied.drift
        is_guaranteed = policy.certificate.coverage > 0 and is_like_before
        _print_dataset(applied, policy, is_guaranteed, as_json)
        return SUCCESS if is_guaranteed else NOT_GUARANTEED
    refuse_without_scheduler(file, on_bad_rows, restart)
    check_table_path(Path(out))
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
    metadata = {**input_metadata(path, predictions.shape), "guarantee": str(policy)}
    write_table(Path(out), columns, metadata)
    if as_json:
        print_json(
            {
                "path": out,
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


def _print_dataset(
    applied: AppliedDataset, policy: Policy, is_guaranteed: bool, as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "path": applied.path,
                "n_rows": applied.n_rows,
                "n_partitions": applied.n_partitions,
                "n_accepted": applied.n_accepted,
                "resumed": applied.resumed,
                "quarantined": applied.quarantined,
                "guaranteed": is_guaranteed,
                "drift": None if applied.drift is None else asdict(applied.drift),
                "uncertainty": applied.uncertainty.to_dict(),
                "guarantee": str(policy),
            }
        )
        return
    if applied.drift:
        print_text(f"WARNING: {applied.drift}")
    print_text(str(policy))
    print_text(f"{applied.accepted_text()}.")
    for line in applied.quarantine_lines():
        print_error(f"{line}.")
    if applied.drift is not None and not applied.drift:
        print_text(f"No sign of drift: {applied.drift}")
    print_text(f"Written to {applied.path}", wrap=False)
