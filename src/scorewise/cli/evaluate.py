"""scorewise evaluate: everything that labelled predictions tell, and the report."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

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
    Rules,
    Seed,
    TaskLoss,
    command,
    in_the_shell,
)
from scorewise.cli._arguments import ALL_RULES, loss_of, names_of, rules_of
from scorewise.cli._screen import comparison_table, print_json, say, table
from scorewise.compare import Evaluation, loss_text, promise_text, share_text
from scorewise.compare import evaluate as evaluated
from scorewise.errors import InvalidInput
from scorewise.io import check_file_path, digest, read_predictions
from scorewise.report import check_report, write_report

_SHOWN = 6  # measures of a comparison


@command(
    "scorewise evaluate test.npz",
    "scorewise evaluate test.parquet --ood foreign.parquet --task-loss brier",
    "scorewise evaluate test.npz --max-loss 0.03 --report out/report.html --figures out",
    "scorewise evaluate test.npz --task-loss costs.csv --no-report --json",
)
def evaluate(
    file: Predicted,
    ood: Annotated[Path | None, typer.Option(help="Predictions for foreign rows.")] = None,
    task_loss: TaskLoss = "zero-one",
    rules: Rules = ALL_RULES,
    max_loss: Annotated[
        list[float] | None, typer.Option(help="Mean loss to promise; may be given more than once.")
    ] = None,
    confidence: Confidence = 0.95,
    floor: Floor = None,
    report: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no page.")] = False,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the figures as PNG and SVG too.")
    ] = None,
    resamples: Annotated[int, typer.Option(min=100, help="Of the bootstrap.")] = 2000,
    seed: Seed = 0,
    class_names: ClassNames = None,
    normalize: Normalize = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Tell when to abstain, by which measure, what is foreign, and whether the model is honest.

    FILE has labelled predictions for rows that the model has not seen. The page that is written
    explains itself, and opens anywhere without a network.

    Exit code 1: a loss asked for by --max-loss cannot be promised.
    """
    if not no_report:
        report.parent.mkdir(parents=True, exist_ok=True)
        check_report(report)
        check_file_path(report, file, *([ood] if ood else []))
    if figures is not None:
        if figures.exists() and not figures.is_dir():
            raise InvalidInput(f"{str(figures)!r} is a file; give a folder for the figures")
        figures.mkdir(parents=True, exist_ok=True)
        if find_spec("matplotlib") is None:
            raise ImportError("--figures needs matplotlib: pip install 'scorewise[plots]'")
    predictions = read_predictions(file, names_of(class_names))
    foreign = None if ood is None else read_predictions(ood, names_of(class_names))
    found = evaluated(
        predictions,
        ood=foreign,
        task_loss=loss_of(task_loss, predictions),
        rules=rules_of(rules),
        max_loss=max_loss or None,
        confidence=confidence,
        floor=floor,
        n_resamples=resamples,
        random_state=seed,
        normalize=normalize,
        progress=False if as_json else None,
    )
    written = []
    if not no_report:
        inputs = {"predictions": file, "foreign rows": ood}
        provenance = {
            name: f"{path.name}, SHA-256 {digest(path)}"
            for name, path in inputs.items()
            if path is not None
        }
        typed = [Path(sys.argv[0]).name, *sys.argv[1:]]
        write_report(
            found,
            report,
            title=f"How sure is {file.name}?",
            provenance={**provenance, "command": shlex.join(typed)},
        )
        written.append(report)
    if figures is not None:
        from scorewise.plots import save_figures

        written += save_figures(found, figures)
    if as_json:
        print_json({**found.to_dict(), "written": [str(path) for path in written]})
    else:
        show(found)
        say(*(f"Written to {path}" for path in written))
    met = not max_loss or (found.certificates and all(one.coverage for one in found.certificates))
    return FINE if met else BROKEN_PROMISE


def show(found: Evaluation) -> None:
    """The verdict, the certificates and the comparisons."""
    say(*map(in_the_shell, found.verdict), "")
    if found.certificates:
        say(
            table(
                f"Promises, together with {promise_text(found.confidence, True)} confidence",
                [
                    f"{found.loss_name} at most",
                    "accept",
                    "observed",
                    "where uncertainty is at most",
                ],
                (
                    (
                        promise_text(one.max_loss, found.is_share),
                        share_text(one.coverage) if one.coverage else "nothing",
                        loss_text(one.loss, found.is_share) if one.coverage else "",
                        f"{one.threshold:.10g}" if one.coverage else "",
                    )
                    for one in found.certificates
                ),
            )
        )
    for one in [found.comparison, *([found.ood.comparison] if found.ood is not None else [])]:
        say(comparison_table(one, _SHOWN))
        if len(one.standings) > _SHOWN:
            say(f"… and {len(one.standings) - _SHOWN} measures more.")
        say(*one.notes)
