"""scorewise certify: an uncertainty threshold with a risk guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from scorewise._files import check_output_path
from scorewise._tables import input_metadata
from scorewise.abstain import certify as certify_predictions
from scorewise.calibrate import load_calibration
from scorewise.cli._app import (
    NOT_GUARANTEED,
    SUCCESS,
    AsJson,
    CalibrationFile,
    Confidence,
    Debug,
    Floor,
    InputPath,
    Normalize,
    OnBadRows,
    OutputPath,
    PredictionsSource,
    Quarantine,
    Reading,
    SchedulerAddress,
    TaskLoss,
    command,
    refuse_without_scheduler,
)
from scorewise.cli._arguments import parse_loss
from scorewise.cli._screen import print_json, print_text
from scorewise.io import read_predictions
from scorewise.scale import Dataset, certify_dataset


@command(
    "scorewise certify held_out.npz --max-loss 0.05 --confidence 0.95 --out policy.json",
    "scorewise certify held_out.npz --task-loss log --floor 1e-6 --max-loss 0.3",
    "scorewise certify held_out.npz --task-loss costs.csv --max-loss 2.5",
    "scorewise certify held_out.npz --calibration calibration.json --max-loss 0.05",
    "scorewise certify held_out.npz --max-loss 0.05 --signing-key key.pem",
    "scorewise certify folder_of_parquet_files --max-loss 0.05 --scheduler local",
)
def certify(
    file: PredictionsSource,
    reading: Reading,
    max_loss: Annotated[
        float,
        typer.Option(
            metavar="LOSS", help="Largest mean loss of accepted rows (the risk) to guarantee."
        ),
    ],
    confidence: Confidence = 0.95,
    task_loss: TaskLoss = "zero-one",
    floor: Floor = None,
    calibration: CalibrationFile = None,
    out: Annotated[Path, typer.Option(help="The policy, a JSON file."), OutputPath()] = (
        Path("policy.json")
    ),
    signing_key: Annotated[
        Path | None,
        typer.Option(
            metavar="PEM", help="Sign the policy with this Ed25519 private key (scorewise[sign])."
        ),
        InputPath(),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Let a policy that accepts no row replace one that accepts some."
        ),
    ] = False,
    normalize: Normalize = False,
    scheduler: SchedulerAddress = None,
    on_bad_rows: OnBadRows = "fail",
    quarantine: Quarantine = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Find the uncertainty threshold that guarantees a mean loss.

    The threshold accepts as many rows as the guarantee allows. FILE has labelled predictions for
    rows that were used neither to fit the model nor to choose the measure. Rows are accepted by the
    total uncertainty under the loss itself, after --calibration, which must have been fitted on
    other rows. The guarantee holds for finite samples and for new rows from the same distribution;
    "scorewise apply" uses it. With --scheduler, FILE is a folder of Parquet files; of more than
    1,000,000 rows, a uniform random sample is used, for which the guarantee holds as well.

    Exit code 1: nothing can be guaranteed (the policy then accepts no row). Such a policy does not
    replace an older one that accepts some rows, unless --replace is used (exit code 2).
    """
    check_output_path(out)
    options: dict[str, Any] = {
        "max_loss": max_loss,
        "confidence": confidence,
        "floor": floor,
        "calibration": None if calibration is None else load_calibration(calibration),
        "normalize": normalize,
    }
    if scheduler is not None:
        dataset = Dataset.of(file, **reading)
        policy = certify_dataset(
            dataset,
            task_loss=parse_loss(task_loss, dataset.empty()),
            scheduler=scheduler,
            on_bad_rows=on_bad_rows,
            quarantine=quarantine,
            progress=False if as_json else None,
            **options,
        )
    else:
        refuse_without_scheduler(file, on_bad_rows, quarantine=quarantine)
        predictions = read_predictions(file, **reading)
        policy = certify_predictions(
            predictions,
            task_loss=parse_loss(task_loss, predictions),
            metadata=input_metadata(Path(file), predictions.shape),
            **options,
        )
    if not as_json:
        print_text(str(policy))
    policy.save(out, signing_key=signing_key, replace=replace)
    if as_json:
        # all but the calibration and its rows, which the file has
        content = policy.to_dict()
        print_json({name: x for name, x in content.items() if not name.startswith("calibration")})
    else:
        print_text(f"Written to {out}", wrap=False)
    return SUCCESS if policy.certificate.coverage else NOT_GUARANTEED
