"""scorewise calibrate: a calibration of the probabilities, fitted on held-out rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from scorewise._files import check_output_path
from scorewise.calibrate import METHODS, fit_calibration
from scorewise.cli._app import (
    SUCCESS,
    AsJson,
    Debug,
    Normalize,
    OnBadRows,
    OutputPath,
    PredictionsSource,
    Quarantine,
    Reading,
    SchedulerAddress,
    Seed,
    TaskLoss,
    command,
    refuse_without_scheduler,
)
from scorewise.cli._arguments import parse_loss
from scorewise.cli._screen import print_json, print_text
from scorewise.io import read_predictions
from scorewise.scale import Dataset, calibrate_dataset


@command(
    "scorewise calibrate held_out.npz --out calibration.json",
    "scorewise score test.parquet --calibration calibration.json",
    "scorewise certify other_held_out.npz --calibration calibration.json --max-loss 0.05",
    "scorewise calibrate folder_of_parquet_files --scheduler local",
)
def calibrate(
    file: PredictionsSource,
    reading: Reading,
    method: Annotated[
        str, typer.Option(metavar="NAME", help=f"auto, {', '.join(METHODS[:-1])} or {METHODS[-1]}.")
    ] = "auto",
    task_loss: TaskLoss = "log",
    floor: Annotated[
        float,
        typer.Option(metavar="P", help="Smallest mean probability before the logarithm is taken."),
    ] = 1e-6,
    cv: Annotated[int, typer.Option(metavar="N", min=2, help="Folds of the cross-validation.")] = 5,
    out: Annotated[Path, typer.Option(help="The calibration, a JSON file."), OutputPath()] = (
        Path("calibration.json")
    ),
    seed: Seed = 0,
    normalize: Normalize = False,
    scheduler: SchedulerAddress = None,
    on_bad_rows: OnBadRows = "fail",
    quarantine: Quarantine = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Fit a calibration of the probabilities on held-out rows.

    The total uncertainty under a loss is the loss that will be incurred only if the probabilities
    are calibrated. FILE has labelled predictions for rows that were not used to fit the model. The
    mean of the members is calibrated by temperature, vector or matrix scaling, whichever
    cross-validation shows to be worth it; it may be best to leave the predictions as they are.

    Use other rows to certify or evaluate what is calibrated. With --scheduler, FILE is a folder of
    Parquet files; of more than 100,000 rows, a uniform random sample is fitted.
    """
    check_output_path(out)
    options: dict[str, Any] = {
        "method": method,
        "cv": cv,
        "floor": floor,
        "random_state": seed,
        "progress": False if as_json else None,
        "normalize": normalize,
    }
    if scheduler is not None:
        dataset = Dataset.of(file, **reading)
        loss = parse_loss(task_loss, dataset.empty())
        calibration = calibrate_dataset(
            dataset,
            task_loss=loss,
            scheduler=scheduler,
            on_bad_rows=on_bad_rows,
            quarantine=quarantine,
            **options,
        )
    else:
        refuse_without_scheduler(file, on_bad_rows, quarantine=quarantine)
        predictions = read_predictions(file, **reading)
        loss = parse_loss(task_loss, predictions)
        calibration = fit_calibration(predictions, task_loss=loss, **options)
    calibration.save(out)
    if as_json:
        content = calibration.to_dict()
        long = ("weights", "bias", "row_digests")  # which the file has
        print_json({name: x for name, x in content.items() if name not in long})
    else:
        print_text(str(calibration))
        print_text(f"Written to {out}", wrap=False)
    return SUCCESS
