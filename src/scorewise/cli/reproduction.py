"""scorewise reproduce: the paper's figures and tables, one command each."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from scorewise.cli._app import AsJson, Debug, command
from scorewise.cli._screen import print_json, say, say_on_stderr
from scorewise.errors import InvalidInput
from scorewise.paper import EXPERIMENTS, QUICK, Protocol, Setup, Store, run, write_page

_ALL, _REPORT = "all", "report"
# How CUDA, torch on the CPU and joblib say that there is too little memory.
_TOO_LITTLE = ("out of memory", "can't allocate memory", "unexpectedly terminated")


@command(
    "scorewise reproduce figure-1 --data-dir data",
    "scorewise reproduce table-1 --device cuda --results results",
    "scorewise reproduce all --quick --as-is",
    "scorewise reproduce report --results results --out docs",
)
def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help=f"{', '.join(EXPERIMENTS)}; all: whatever the data at hand allow; report: the "
            "page of results beside the published numbers.",
        ),
    ],
    results: Annotated[
        Path, typer.Option(help="Folder of results; what is there is not computed again.")
    ] = Path("reproduction"),
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of the data sets; $SCOREWISE_DATA or the user's cache folder."),
    ] = None,
    as_is: Annotated[
        bool,
        typer.Option(
            "--as-is", help="Take data files that are not the official ones; results are marked."
        ),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version, to see that all works; is marked.")
    ] = False,
    runs: Annotated[int | None, typer.Option(min=1, help="Repetitions; the paper has 3.")] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Passes of networks over their training data; is marked."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of active learning; is marked.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="For networks: cpu, cuda; the fastest there is.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Forests at a time; -1 for as many as there are cores.")
    ] = None,
    weights_dir: Annotated[
        Path | None, typer.Option(help="Folder of pretrained weights; weights in the data folder.")
    ] = None,
    out: Annotated[Path, typer.Option(help="report: the folder to write the page to.")] = Path(
        "reproduction-report"
    ),
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run an experiment of the paper on real data, and keep every result as it comes.

    A run that was cut off goes on where it stopped: give the same command again. Networks want a
    GPU; forests do not. "scorewise datasets list" tells which data are there and how to get others.
    """
    if experiment == _REPORT:
        _report(results, out, as_json)
        return
    if jobs == 0:
        raise InvalidInput("--jobs is how many at a time, or -1 for as many as there are cores")
    if experiment not in (_ALL, *EXPERIMENTS):
        known = ", ".join((*EXPERIMENTS, _ALL, _REPORT))
        raise InvalidInput(f"there is no experiment {experiment!r}; there are {known}")
    names = EXPERIMENTS if experiment == _ALL else (experiment,)
    sizes = {"runs": runs, "epochs": epochs, "rounds": rounds}
    given = {name: size for name, size in sizes.items() if size is not None}
    setup = Setup(
        Store(results),
        replace(QUICK if quick else Protocol(), **given),
        data_dir,
        as_is,
        device,
        jobs,
        weights_dir,
        progress=False if as_json else None,
    )
    try:
        outcome = run(names, setup)
    except KeyboardInterrupt:
        say_on_stderr(f"What is finished is in {results}; the same command goes on from there.")
        raise
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(x in str(error) for x in _TOO_LITTLE):
            raise
        raise InvalidInput(
            "there is not enough memory (of the GPU, where one is used); what is finished is kept: "
            "give the same command again on a larger machine, or with fewer --jobs"
        ) from error
    if as_json:
        print_json({"results": results, **asdict(outcome)})
        return
    for message in outcome.damaged:
        say_on_stderr(f"{message}; it was computed again.")
    for message in outcome.gaps.values():
        say_on_stderr(f"Left out: {message}")
    say(
        f"{outcome.cells} cells, {outcome.computed} of them computed now, in {results}. For the "
        f"page: scorewise reproduce report --results {results}"
    )


def _report(results: Path, out: Path, as_json: bool) -> None:
    written = write_page(results, out)
    found: dict[str, Any] = {"written": [str(path) for path in written]}
    if as_json:
        print_json(found)
    else:
        say(f"Wrote {written[0]}")
