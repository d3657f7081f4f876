"""scorewise evaluate: evaluate labelled predictions for all tasks, and write the report."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from scorewise._files import file_digest
from scorewise._text import percent, significant
from scorewise.cli._app import (
    NOT_GUARANTEED,
    SUCCESS,
    AsJson,
    Confidence,
    Debug,
    Floor,
    InputPath,
    Normalize,
    OnBadRows,
    OODSource,
    OutputPath,
    PredictionsSource,
    Quarantine,
    Reading,
    Resamples,
    Rules,
    SchedulerAddress,
    Seed,
    TaskLoss,
    command,
    datasets_of,
    read_here,
    read_more,
    remedy_text,
)
from scorewise.cli._arguments import ALL_RULES, parse_loss, parse_rules
from scorewise.cli._screen import comparison_table, print_error, print_json, print_text, table
from scorewise.compare import Evaluation
from scorewise.compare import evaluate as evaluate_predictions
from scorewise.errors import InvalidInput
from scorewise.report import check_report, read_inputs, write_report
from scorewise.scale import evaluate_dataset

_REPORT = Path("report.html")  # which is left out where the libraries of the page are missing
_SHOWN = 6  # measures of a comparison on the screen


@command(
    "scorewise evaluate test.npz",
    "scorewise evaluate test.parquet --ood ood.parquet --task-loss brier",
    "scorewise evaluate test.npz --max-loss 0.03 --report out/report.html --figures out",
    "scorewise evaluate test.npz --inputs texts.csv",
    "scorewise evaluate answers.jsonl --class-names yes,no",
    "scorewise evaluate test.npz --task-loss costs.csv --no-report --json",
    "scorewise evaluate folder_of_parquet_files --scheduler local",
)
def evaluate(
    file: PredictionsSource,
    reading: Reading,
    ood: OODSource = None,
    task_loss: TaskLoss = "zero-one",
    rules: Rules = ALL_RULES,
    max_loss: Annotated[
        list[float] | None,
        typer.Option(metavar="LOSS", help="Mean loss to guarantee; may be repeated."),
    ] = None,
    confidence: Confidence = 0.95,
    floor: Floor = None,
    report: Annotated[
        Path, typer.Option(help="HTML file to write."), OutputPath(unless="no_report")
    ] = _REPORT,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    figures: Annotated[
        Path | None,
        typer.Option(help="Folder to write the figures to as PNG and SVG."),
        OutputPath(),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Inputs of the rows, for the report to show the most uncertain: images (.npz, "
            ".npy) or a CSV file with a column text.",
        ),
        InputPath(),
    ] = None,
    resamples: Resamples = 2000,
    seed: Seed = 0,
    normalize: Normalize = False,
    scheduler: SchedulerAddress = None,
    on_bad_rows: OnBadRows = "fail",
    quarantine: Quarantine = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Evaluate labelled predictions and write a report.

    Shows when to abstain and by which measure, how well out-of-distribution rows are detected, and
    whether the model is calibrated. FILE has labelled predictions for rows that were not used to
    fit the model. The report is one HTML file, which needs no network.

    With --scheduler, FILE and --ood are folders of Parquet files, which may be larger than this
    machine. Of more than 65,536 distinct scores, nearly equal ones count as tied; the notes say how
    exact the results are.

    Exit code 1: a mean loss of --max-loss cannot be guaranteed.
    """
    has_page = not no_report
    if has_page:
        report.parent.mkdir(parents=True, exist_ok=True)
        has_page = can_write_page(report, is_required=report != _REPORT)
    if figures is not None:
        if figures.exists() and not figures.is_dir():
            raise InvalidInput(f"{str(figures)!r} is a file; pass a folder for the figures")
        figures.mkdir(parents=True, exist_ok=True)
        if find_spec("matplotlib") is None:
            raise ImportError("--figures needs matplotlib: pip install 'scorewise[plots]'")
    settings: dict[str, Any] = {
        "rules": parse_rules(rules),
        "max_loss": max_loss or None,
        "confidence": confidence,
        "floor": floor,
        "n_resamples": resamples,
        "random_state": seed,
        "normalize": normalize,
        "progress": False if as_json else None,
    }
    shown_inputs = None
    if scheduler is None:
        predictions = read_here(file, reading, on_bad_rows, quarantine)
        if inputs is not None:
            shown_inputs = read_inputs(inputs, predictions.ids, n_rows=len(predictions))
        evaluation = evaluate_predictions(
            predictions,
            ood=None if ood is None else read_more(ood, reading, predictions),
            task_loss=parse_loss(task_loss, predictions),
            **settings,
        )
    else:
        if inputs is not None:
            raise InvalidInput("--inputs are those of a file, and cannot be with --scheduler")
        dataset, ood_dataset = datasets_of(file, ood, reading)
        loss = parse_loss(task_loss, dataset.empty(1))
        evaluation = evaluate_dataset(
            dataset,
            ood=ood_dataset,
            scheduler=scheduler,
            on_bad_rows=on_bad_rows,
            quarantine=quarantine,
            task_loss=loss,
            **settings,
        )
    written = []
    if has_page:
        sources = {"predictions": file, "out-of-distribution rows": ood, "inputs": inputs}
        provenance = {
            name: str(path)
            if scheduler
            else f"{Path(path).name}, SHA-256 {file_digest(Path(path))}"
            for name, path in sources.items()
            if path is not None
        }
        command_line = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        write_report(
            evaluation,
            report,
            title=f"How uncertain is {Path(file).name}?",
            provenance={**provenance, "command": command_line},
            inputs=shown_inputs,
        )
        written.append(report)
    if figures is not None:
        from scorewise.plots import save_figures

        written += save_figures(evaluation, figures)
    if as_json:
        print_json({**evaluation.to_dict(), "written": [str(path) for path in written]})
    else:
        show_evaluation(evaluation)
        print_text(*(f"Written to {path}" for path in written), wrap=False)
    certificates = evaluation.certificates
    if max_loss and not (certificates and all(c.coverage for c in certificates)):
        return NOT_GUARANTEED
    return SUCCESS


def _name_and_digest(path: Path) -> str:
    return f"{path.name}, SHA-256 {file_digest(path)}"


def can_write_page(path: Path, *, is_required: bool = False) -> bool:
    """Return whether the libraries of the page are installed; if not, print how to install them.

    Raises if the path is not valid, or if the page is required.
    """
    try:
        check_report(path)
    except ImportError as error:
        if is_required:
            raise
        print_error(f"No page is written: {error}.")
        return False
    return True


def show_evaluation(evaluation: Evaluation) -> None:
    """Print three sentences for every reader; then, for specialists, numbers and comparisons."""
    verdict = evaluation.sentences(remedy_text)
    print_text(*verdict.plain, *verdict.notes, "", "For the specialist:", *verdict.details, "")
    if evaluation.certificates:
        unit, confidence = evaluation.unit, percent(evaluation.confidence, ".12g")
        print_text(
            table(
                f"Risk guarantees, jointly with {confidence} confidence",
                [f"{unit.noun} at most", "accept", "observed", "where uncertainty is at most"],
                (
                    (
                        ", ".join(unit.format_exact(cert.max_loss) for cert in group),
                        percent(group[0].coverage) if group[0].coverage else "nothing",
                        unit.format(group[0].loss) if group[0].coverage else "",
                        significant(group[0].threshold) if group[0].coverage else "",
                    )
                    for group in evaluation.guarantees
                ),
            )
        )
    comparisons = [evaluation.comparison]
    if evaluation.ood is not None:
        comparisons.append(evaluation.ood.comparison)
    for comparison in comparisons:
        print_text(comparison_table(comparison, _SHOWN))
        if len(comparison.standings) > _SHOWN:
            print_text(f"… and {len(comparison.standings) - _SHOWN} more measures.")
        print_text(*comparison.on_recommended())
