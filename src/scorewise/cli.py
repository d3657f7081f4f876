"""The command line: thin commands over public functions."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import scorewise
from scorewise.decompose import COMPONENTS, RULES
from scorewise.demo import DemoResult, Digit, run_demo
from scorewise.errors import ScorewiseError

app = typer.Typer(
    help="How unsure is a classifier, in the currency of the loss its user pays?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"scorewise {scorewise.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Total = aleatoric + epistemic, for every proper scoring rule."""


@app.command(
    epilog="Examples:  scorewise demo  |  scorewise demo --trees 500 --seed 7  |  "
    "scorewise demo --json > demo.json"
)
def demo(
    out: Annotated[Path, typer.Option(help="Folder that the result is written to.")] = Path("out"),
    trees: Annotated[int, typer.Option(min=2, help="Trees of the forest.")] = 100,
    examples: Annotated[int, typer.Option(min=1, help="Digits of each kind to show.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and the forest.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    debug: Annotated[bool, typer.Option(help="Show the stack trace of an error.")] = False,
) -> None:
    """Fit a forest on handwritten digits and see how unsure it is, under four rules.

    Prints a few digits that the forest finds clear and a few that it doubts, each with its total,
    aleatoric and epistemic uncertainty, then which measure is the best guide for abstaining.
    """
    try:
        with Console(stderr=True).status("Fitting a forest on the digits …"):
            result = run_demo(n_trees=trees, n_examples=examples, random_state=seed)
        path = result.write(out)
    except (ScorewiseError, OSError) as error:
        if debug:
            raise
        Console(stderr=True).print(f"[red]Error:[/red] {error}")
        raise typer.Exit(2) from None
    if as_json:
        sys.stdout.write(json.dumps(asdict(result)) + "\n")
        return
    console = Console()
    console.print(
        f"A forest of {result.n_trees} trees, fitted on {result.n_train} digits, names "
        f"{result.accuracy:.1%} of {result.n_test} others right. How unsure is it?\n"
    )
    console.print(_digits_table(result.digits))
    console.print(
        "Total = aleatoric + epistemic, in units of the loss. Aleatoric doubt stays whatever is "
        "learnt; epistemic doubt is what knowing the true probabilities would remove.\n",
        style="dim",
    )
    console.print(_areas_table(result))
    console.print(
        "Mean loss over all rates of abstaining, lower is better; * marks the best measure for "
        "that loss. If the forest's probabilities were true, that would be the loss's own total.\n",
        style="dim",
    )
    console.print(f"Written to {path}")


def _digits_table(digits: list[Digit]) -> Table:
    table = Table(title="Clear and doubtful digits", title_justify="left")
    for heading in ("digit", "label", "named", "rule"):
        table.add_column(heading)
    for part in COMPONENTS:
        table.add_column(part, justify="right")
    for digit in digits:
        colour = "green" if digit.predicted == digit.label else "red"
        named = f"[{colour}]{digit.predicted}[/]"
        row = [f"{digit.kind} #{digit.index}", str(digit.label), named]
        for rule in RULES:
            cells = [f"{digit.uncertainty[rule][part]:.3f}" for part in COMPONENTS]
            table.add_row(*row, rule, *cells, end_section=rule == RULES[-1])
            row = ["", "", ""]
    return table


def _areas_table(result: DemoResult) -> Table:
    table = Table(title="Area under the loss-rejection curve (AULC)", title_justify="left")
    table.add_column("abstain by")
    for task in RULES:
        table.add_column(f"{task} loss", justify="right")
    best = {task: result.best(task) for task in RULES}
    for rule in RULES:
        for part in COMPONENTS:
            cells = []
            for task in RULES:
                shown = f"{result.areas[task][rule][part]:.4f}"
                chosen = best[task] == (rule, part)
                cells.append(f"[bold green]*{shown}[/]" if chosen else shown)
            table.add_row(f"{part} {rule}", *cells, end_section=part == COMPONENTS[-1])
    return table
