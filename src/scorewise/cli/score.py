"""scorewise score: the uncertainty of every row."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from scorewise._text import shape_text
from scorewise.calibrate import load_calibration
from scorewise.cli._app import (
    INTERRUPTED,
    SUCCESS,
    AsJson,
    CalibrationFile,
    Debug,
    Normalize,
    OnBadRows,
    PredictionsSource,
    Reading,
    Rules,
    SchedulerAddress,
    SourceOut,
    command,
    refuse_without_scheduler,
)
from scorewise.cli._arguments import ALL_RULES, parse_rules
from scorewise.cli._screen import print_error, print_json, print_text, table
from scorewise.io import score_file
from scorewise.scale import ScoredDataset, score_dataset


@command(
    "scorewise score test.parquet --rules log,zero-one --out U.parquet",
    "scorewise score folder_of_parquet_files --out U.parquet",
    "scorewise score test.npz --calibration calibration.json",
    "scorewise score test.npy --rules tsallis:1.5,top-k:5 --out U.csv",
    "scorewise score folder_of_parquet_files --scheduler local --out U",
)
def score(
    file: PredictionsSource,
    reading: Reading,
    rules: Rules = ALL_RULES,
    calibration: CalibrationFile = None,
    out: SourceOut = "FILE-scores.parquet",
    normalize: Normalize = False,
    scheduler: SchedulerAddress = None,
    on_bad_rows: OnBadRows = "fail",
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            help="Discard the progress of an interrupted run; with --scheduler, all that earlier "
            "runs have written to the folder.",
        ),
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Compute total, aleatoric and epistemic uncertainty of every row.

    Memory does not grow with FILE. To resume an interrupted run, repeat the command; the result is
    the same, byte for byte. The columns are the ids and, for each rule, total_RULE, aleatoric_RULE
    and epistemic_RULE; the metadata has the version, the rules and the digest of FILE.

    With --scheduler, FILE is a folder of Parquet files, and the scores of each are written to a
    file in the folder PATH, which also has a summary. FILE and PATH may be addresses that all
    workers reach, such as s3://bucket/folder. Workers and files may fail: repeat the command, and
    what is finished is not computed again.
    """
    options: dict[str, Any] = {
        **reading,
        "calibration": None if calibration is None else load_calibration(calibration),
        "normalize": normalize,
        "progress": False if as_json else None,
    }
    calibrated = "" if calibration is None else f", calibrated by {calibration.name}"
    try:
        if scheduler is not None:
            where: dict[str, Any] = {
                "scheduler": scheduler,
                "on_bad_rows": on_bad_rows,
                "restart": restart,
            }
            dataset = score_dataset(file, parse_rules(rules), out, **where, **options)
            _print_dataset(dataset, calibrated, as_json)
            return SUCCESS
        refuse_without_scheduler(file, on_bad_rows)
        result = score_file(file, parse_rules(rules), out, resume=not restart, **options)
    except KeyboardInterrupt:
        print_error("Interrupted. Repeat the command to resume.")
        return INTERRUPTED
    if as_json:
        print_json(
            {
                "path": str(result.path),
                "n_rows": result.n_rows,
                "columns": result.columns,
                "resumed": result.resumed,
                **result.metadata,
            }
        )
        return SUCCESS
    shape = (result.metadata[name] for name in ("rows", "members", "classes"))
    print_text(f"Read {shape_text(tuple(shape))}.")
    if result.resumed:
        print_text(f"{result.resumed:,} rows were scored by an earlier run.")
    print_text(f"{result.n_rows:,} rows scored{calibrated}: {', '.join(result.columns)}.")
    print_text(f"Written to {result.path}", wrap=False)
    return SUCCESS


def _print_dataset(result: ScoredDataset, calibrated: str, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "path": result.path,
                "n_rows": result.n_rows,
                "n_partitions": result.n_partitions,
                "columns": result.columns,
                "resumed": result.resumed,
                "quarantined": result.quarantined,
                "summary": {name: x.to_dict() for name, x in result.summary.items()},
            }
        )
        return
    if result.resumed:
        print_text(f"{result.resumed_text()}.")
    print_text(f"{result.size_text()} scored{calibrated}.")
    for line in result.quarantine_lines():
        print_error(f"{line}.")
    heading, *rows = result.table()
    print_text(table("Uncertainty", heading, rows))
    print_text(f"Written to {result.path}", wrap=False)
