"""scorewise score: the uncertainty of every row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    PredictionsFile,
    Reading,
    Rules,
    TableOut,
    command,
)
from scorewise.cli._arguments import ALL_RULES, parse_rules
from scorewise.cli._screen import print_error, print_json, print_text
from scorewise.io import score_file


@command(
    "scorewise score test.parquet --rules log,zero-one --out U.parquet",
    "scorewise score folder_of_parquet_files --out U.parquet",
    "scorewise score test.npz --calibration calibration.json",
    "scorewise score test.npy --rules tsallis:1.5,top-k:5 --out U.csv",
)
def score(
    file: PredictionsFile,
    reading: Reading,
    rules: Rules = ALL_RULES,
    calibration: CalibrationFile = None,
    out: TableOut = Path("FILE-scores.parquet"),
    normalize: Normalize = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard the progress of an interrupted run.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Compute total, aleatoric and epistemic uncertainty of every row.

    Memory does not grow with FILE. To resume an interrupted run, repeat the command; the result is
    the same, byte for byte. The columns are the ids and, for each rule, total_RULE, aleatoric_RULE
    and epistemic_RULE; the metadata has the version, the rules and the digest of FILE.
    """
    try:
        result = score_file(
            file,
            parse_rules(rules),
            out,
            **reading,
            calibration=None if calibration is None else load_calibration(calibration),
            normalize=normalize,
            resume=not restart,
            progress=False if as_json else None,
        )
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
    calibrated = "" if calibration is None else f", calibrated by {calibration.name}"
    print_text(f"{result.n_rows:,} rows scored{calibrated}: {', '.join(result.columns)}.")
    print_text(f"Written to {result.path}", wrap=False)
    return SUCCESS
