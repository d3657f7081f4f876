"""Shared by all commands: the application, exit codes, common options, error messages."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from scorewise._files import check_no_link, check_not_input
from scorewise._text import cut, quoted, quoted_names
from scorewise._version import __version__
from scorewise.abstain import load_policy
from scorewise.cli._arguments import COSTS_SUFFIX, parse_names, parse_tokens
from scorewise.cli._screen import print_error
from scorewise.errors import InvalidInput, Remedy, ScorewiseError, ScorewiseWarning
from scorewise.io import Predictions, prediction_suffixes, read_predictions
from scorewise.scale import Dataset

SUCCESS, NOT_GUARANTEED, BAD_INPUT, BUG, INTERRUPTED = 0, 1, 2, 70, 130

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_KEYWORD = inspect.Parameter.KEYWORD_ONLY

Command = TypeVar("Command", bound=Callable[..., Any])
Marker = TypeVar("Marker")


@dataclass(frozen=True)
class InputPath:
    """Marks an option as a path that the command reads, in ``Annotated``.

    Attributes
    ----------
    suffix : str
        Only values that end in it are paths.
    """

    suffix: str = ""


@dataclass(frozen=True)
class OutputPath:
    """Marks an option as a path that the command writes to, in ``Annotated``.

    ``FILE`` in its default stands for FILE's name without its suffix. Without pyarrow, a default
    ``.parquet`` becomes ``.csv``.

    Attributes
    ----------
    unless : str, optional
        Name of the option that switches this output off.
    folder_with : str, optional
        Name of the option with which this output is a folder: its default has no suffix then.
    """

    unless: str | None = None
    folder_with: str | None = None


# -- options of several commands ------------------------------------------------------------

PredictionsFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help=f"Predictions: {', '.join(prediction_suffixes())}, or a folder of Parquet files.",
    ),
    InputPath(),
]
PredictionsSource = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help=f"Predictions: {', '.join(prediction_suffixes())}, or a folder of Parquet files. With "
        "--scheduler, a folder or an address such as s3://bucket/folder.",
    ),
    InputPath(),
]
OODSource = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Predictions for out-of-distribution rows; with --scheduler, a folder or an address.",
    ),
    InputPath(),
]
SourceOut = Annotated[
    str,
    typer.Option(
        metavar="PATH",
        help="A .parquet, .arrow or .csv file; without pyarrow, .csv by default. With --scheduler, "
        "a new folder or an address.",
    ),
    OutputPath(folder_with="scheduler"),
]
SchedulerAddress = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Work on a Dask cluster, a file of the folder FILE at a time: tcp://HOST:PORT of its "
        "scheduler, local for a process on each processor here, or local:N for N processes.",
    ),
]
OnBadRows = Annotated[
    Literal["fail", "quarantine"],
    typer.Option(
        help="With --scheduler: stop at an invalid row or file, or write it to a file of its own "
        "with the reason."
    ),
]
Quarantine = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="With --on-bad-rows quarantine: a folder, or an address, for invalid rows.",
    ),
    OutputPath(),
]
Restart = Annotated[
    bool,
    typer.Option(
        "--restart",
        help="With --scheduler: remove what earlier runs have written to the folder first.",
    ),
]
TableOut = Annotated[
    Path,
    typer.Option(help="A .parquet, .arrow or .csv file; without pyarrow, .csv by default."),
    OutputPath(),
]
TaskLoss = Annotated[
    str,
    typer.Option(
        metavar="LOSS",
        help="Loss that a prediction incurs: zero-one, log, brier, spherical, tsallis:1.5, "
        "top-k:5, … or a CSV file with a cost matrix.",
    ),
    InputPath(COSTS_SUFFIX),
]
Rules = Annotated[
    str, typer.Option(metavar="RULE,…", help="Scoring rules to measure uncertainty by.")
]
Floor = Annotated[
    float | None,
    typer.Option(help="Lower limit of probabilities in the loss; the log loss needs one."),
]
Confidence = Annotated[float, typer.Option(help="Confidence of guarantees and intervals.")]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        metavar="FILE",
        help='Calibrate the predictions first, as "scorewise calibrate" wrote to this file.',
    ),
    InputPath(),
]
Resamples = Annotated[
    int, typer.Option(metavar="N", min=100, help="Number of bootstrap resamples.")
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Random seed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]

# -- options of all commands that read predictions -------------------------------------------------

_READING = "Reading predictions"  # the heading of these options in the help


Normalize = Annotated[
    bool,
    typer.Option(
        "--normalize", help="Rescale probabilities that do not sum to 1.", rich_help_panel=_READING
    ),
]


Reading = dict[str, Any]  # the arguments of read_predictions that these options set


def _reading(
    class_names: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Names of the classes in the order of the predictions, where FILE has none; of a "
            ".jsonl file, the answers that are classes.",
            rich_help_panel=_READING,
        ),
    ] = None,
    probs: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Array or column of the predictions, or the beginning of several columns' names.",
            rich_help_panel=_READING,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Array, column or field of the labels.", rich_help_panel=_READING
        ),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            "--id-column",
            metavar="NAME",
            help="Array, column or field of the ids.",
            rich_help_panel=_READING,
        ),
    ] = None,
    logits: Annotated[
        bool, typer.Option("--logits", help="Predictions are logits.", rich_help_panel=_READING)
    ] = False,
    member_axis: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=2,
            help="Axis of the members in the array: 0 for (M, N, K), 1 for (N, M, K), the default.",
            rich_help_panel=_READING,
        ),
    ] = None,
    one_model: Annotated[
        bool,
        typer.Option(
            "--one-model",
            help="Predictions (N, K) are those of one model.",
            rich_help_panel=_READING,
        ),
    ] = False,
    labels_are: Annotated[
        Literal["names", "indices"] | None,
        typer.Option(
            help="What whole numbers are that may be names of classes or indices.",
            rich_help_panel=_READING,
        ),
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=TOKEN,…",
            help="Of a .jsonl file: tokens that mean a class, if not its name; may be repeated.",
            rich_help_panel=_READING,
        ),
    ] = None,
    missing: Annotated[
        Literal["other", "refuse", "renormalize"] | None,
        typer.Option(
            help='Of a .jsonl file: keep the probability of no class as the class "other", refuse '
            "more than 1 % of it, or rescale the rest.",
            rich_help_panel=_READING,
        ),
    ] = None,
    id_separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Of a .jsonl file: text between row and member in ids such as row-17/prompt-2.",
            rich_help_panel=_READING,
        ),
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Of a .jsonl file: position of the token that answers; 0, the first, by default, "
            "-1 for the last.",
            rich_help_panel=_READING,
        ),
    ] = None,
) -> Reading:
    return {
        "class_names": parse_names(class_names),
        "probs": probs,
        "labels": labels,
        "ids": ids,
        "from_logits": logits or None,
        "member_axis": member_axis,
        "one_model": one_model,
        "labels_are": labels_are,
        "tokens": parse_tokens(tokens),
        "missing": missing,
        "id_separator": id_separator,
        "position": position,
    }


def read_here(
    file: str, reading: Reading, on_bad_rows: str = "fail", quarantine: str | None = None
) -> Predictions:
    """Return the predictions of a file or a folder of this machine; raise for a cluster's options.

    Those are as for :func:`refuse_without_scheduler`.
    """
    refuse_without_scheduler(file, on_bad_rows, quarantine=quarantine)
    return read_predictions(file, **reading)


def datasets_of(file: str, ood: str | None, reading: Reading) -> tuple[Dataset, Dataset | None]:
    """Return the data sets of a command; of out-of-distribution rows, labels are not used."""
    dataset = Dataset.of(file, **reading)
    if ood is None:
        return dataset, None
    return dataset, Dataset.of(ood, **reading | {"labels": None, "ids": None})


def read_more(path: str | Path, reading: Reading, predictions: Predictions) -> Predictions:
    """Return the predictions for further rows, by the same members and classes.

    Their labels and ids are not used, so they need not be in the file.
    """
    refuse_without_scheduler(str(path))
    others = read_predictions(path, **reading | {"labels": None, "ids": None})
    names = (quoted(getattr(source.path, "name", None)) for source in (predictions, others))
    file_name, other_name = names
    for axis, noun in ((1, "members"), (2, "classes")):
        if others.shape[axis] != predictions.shape[axis]:
            raise InvalidInput(
                f"{file_name} has {predictions.shape[axis]} {noun} and {other_name} "
                f"{others.shape[axis]}; both must be predictions of the same model"
            )
    if predictions.class_names and others.class_names not in {None, predictions.class_names}:
        raise InvalidInput(
            f"{file_name} has the classes {quoted_names(predictions.class_names)} and {other_name} "
            f"{quoted_names(others.class_names or ())}; both must have the same, in the same order"
        )
    return others


class CommandWithSections(TyperCommand):
    """A command whose help has a section of its own for the options of reading."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, by section."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], _READING: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                heading = getattr(parameter, "rich_help_panel", None)
                sections[heading or ("Arguments" if is_argument else "Options")].append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"scorewise {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Measure how uncertain a classifier is, in units of the loss that its predictions incur.

    Start with "scorewise demo". Then, with predictions of your own (N rows, M members, K classes):
    "scorewise evaluate test.npz" shows when to abstain, "scorewise score" measures every row,
    "scorewise label" selects what to label next.

    Exit codes: 0 success, 1 no guarantee, 2 wrong usage or input, 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # replaces characters that the terminal lacks
            stream.reconfigure(errors="replace")


def command(*examples: str) -> Callable[[Command], Callable[..., None]]:
    """Decorate the function of a command: examples in its help, errors in one sentence.

    No option that is an :class:`OutputPath` may be the path of an input or of another output. A
    parameter ``reading: Reading`` adds the options of ``read_predictions``, and gets them.
    """

    def decorate(function: Command) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        of_reading = inspect.signature(_reading, eval_str=True).parameters
        reads = "reading" in signature.parameters

        @functools.wraps(function)
        def run(context: typer.Context, **options: Any) -> None:
            try:
                with _shown_warnings():
                    if reads:
                        if "policy_file" not in options:
                            refuse_policy(Path(options["file"]))
                        values = {name: options.pop(name) for name in of_reading}
                        options["reading"] = _reading(**values)
                    code = function(**_with_checked_outputs(function, options, context))
            except KeyboardInterrupt:
                resumes = options.get("scheduler") is not None and any(
                    marker.folder_with == "scheduler" for _, marker in _marked(function, OutputPath)
                )
                advice = (
                    "Repeat the command to resume" if resumes else "No file was written in part"
                )
                print_error(f"Interrupted. {advice}.")
                raise typer.Exit(INTERRUPTED) from None
            except (ScorewiseError, OSError, ImportError, MemoryError) as error:
                if options.get("debug"):
                    traceback.print_exc()
                print_error(f"Error: {_sentence(error)}", color="red")
                raise typer.Exit(BAD_INPUT) from None
            except Exception:
                traceback.print_exc()
                print_error("This is a bug in scorewise: please report it.")
                raise typer.Exit(BUG) from None
            raise typer.Exit(code or SUCCESS)

        shown = "\n".join(f"  {line}" for line in examples)
        run.__doc__ = f"{inspect.getdoc(function)}\n\n\b\nExamples:\n{shown}"
        context = inspect.Parameter("context", _KEYWORD, annotation=typer.Context)
        parameters = [context]
        for name, parameter in signature.parameters.items():
            parameters += of_reading.values() if name == "reading" else [parameter]
        # typer passes what this declares
        vars(run)["__signature__"] = inspect.Signature(
            [parameter.replace(kind=_KEYWORD) for parameter in parameters]
        )
        return run

    return decorate


# -- outputs ---------------------------------------------------------------------------------------


def _with_checked_outputs(
    function: Callable[..., Any], options: dict[str, Any], context: typer.Context
) -> dict[str, Any]:
    """Return the options with default outputs; raise if an output is an input or another output."""
    values = [(options[name], marker.suffix) for name, marker in _marked(function, InputPath)]
    inputs = [
        Path(value)
        for value, suffix in values
        if value is not None and str(value).lower().endswith(suffix) and os.path.exists(value)
    ]
    paths: list[Path] = []
    for name, marker in _marked(function, OutputPath):
        value = options[name]
        if value is None or (marker.unless and options[marker.unless]) or is_address(value):
            continue
        path = Path(value)
        source = context.get_parameter_source(name)
        if source is not None and source.name == "DEFAULT":  # nobody chose its name
            if "file" in options:
                path = Path(str(path).replace("FILE", Path(options["file"]).stem))
            if marker.folder_with and options[marker.folder_with] is not None:
                path = path.with_suffix("")
            elif path.suffix == ".parquet" and find_spec("pyarrow") is None:
                path = path.with_suffix(".csv")
            options[name] = path if isinstance(value, Path) else str(path)
            check_no_link(path)
        for input_path in inputs:
            check_not_input(path, input_path)
        if path.resolve() in [other.resolve() for other in paths]:
            raise InvalidInput(f"{str(path)!r} is the path of two outputs; choose another for one")
        paths.append(path)
    return options


def is_address(value: object) -> bool:
    """Return whether an argument is an address on another machine, rather than a path."""
    return "://" in str(value)


def refuse_without_scheduler(
    file: str, on_bad_rows: str = "fail", restart: bool = False, quarantine: str | None = None
) -> None:
    """Raise for an address, and for options, that only a cluster can work with."""
    if is_address(file):
        raise InvalidInput(
            f"{file!r} is an address, which needs a cluster; add --scheduler local for processes "
            "of this machine"
        )
    options = {
        f"--on-bad-rows {on_bad_rows}": on_bad_rows != "fail",
        "--restart": restart,
        "--quarantine": quarantine is not None,
    }
    for option, is_set in options.items():
        if is_set:
            raise InvalidInput(
                f"{option} needs a cluster; add --scheduler local for processes of this machine"
            )


def _marked(function: Callable[..., Any], kind: type[Marker]) -> Iterator[tuple[str, Marker]]:
    """The names of the options that are marked as inputs or as outputs, with their markers."""
    for name, hint in get_type_hints(function, include_extras=True).items():
        for marker in getattr(hint, "__metadata__", ()):
            if isinstance(marker, kind):
                yield name, marker


# -- errors and warnings ---------------------------------------------------------------------------


@contextmanager
def _shown_warnings() -> Iterator[None]:
    """Print each warning of scorewise once, as a sentence on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ScorewiseWarning)
        show_others = warnings.showwarning
        shown = set()

        def show(message: Any, category: type[Warning], *args: Any, **options: Any) -> None:
            if not issubclass(category, ScorewiseWarning):
                show_others(message, category, *args, **options)
            elif str(message) not in shown:
                shown.add(str(message))
                print_error(f"Warning: {message.render(remedy_text)}")

        warnings.showwarning = show
        yield


def refuse_policy(file: Path) -> None:
    """Raise if a file that should have predictions is a policy."""
    if file.suffix.lower() != ".json":
        return
    try:
        load_policy(file)
    except (ScorewiseError, OSError, ImportError):
        return
    raise InvalidInput(
        f'{file.name!r} is a policy, written by "scorewise certify"; FILE must have predictions'
    )


# Arguments of the library and the command-line options for them.
_OPTIONS = {
    "abstain_cost": "--abstain-cost",
    "class_names": "--class-names",
    "data": "--data-column",
    "field": "--field",
    "floor": "--floor",
    "from_logits": "--logits",
    "id_separator": "--id-separator",
    "ids": "--id-column",
    "labels": "--labels",
    "labels_are": "--labels-are",
    "member_axis": "--member-axis",
    "method": "--method",
    "missing": "--missing",
    "model": "--model",
    "normalize": "--normalize",
    "on_bad_rows": "--on-bad-rows",
    "one_model": "--one-model",
    "position": "--position",
    "probs": "--probs",
    "public_key": "--public-key",
    "quarantine": "--quarantine",
    "question": "--question",
    "replace": "--replace",
    "restart": "--restart",
    "rules": "--rules",
    "tokens": "--tokens",
}


def remedy_text(remedy: Remedy) -> str:
    """A remedy for the command line: the option instead of the argument; empty if there is none."""
    if remedy.argument == "y":
        return (
            'put them in the same file, as an array or column "labels" '
            '(np.savez("test.npz", probs=…, labels=…)), or use --labels NAME if it has one'
        )
    if remedy.argument == "probs" and remedy.value is ...:
        return ""  # an array, and the option takes the name of one
    if remedy.argument == "from_logits" and remedy.value is False:
        return "leave out --logits, or use --probs logits if that is the name of the array"
    option = _OPTIONS.get(remedy.argument)
    if option is None:
        return ""
    if remedy.value is None or remedy.value is False:
        return f"leave out {option} {remedy.effect}".rstrip()
    if remedy.value is ...:  # the value is the user's to choose
        return f"use {option}, {remedy.effect}".rstrip(", ")
    values = remedy.value if isinstance(remedy.value, range | tuple) else [remedy.value]
    value = "" if remedy.value is True else f" {quote(','.join(map(str, values)))}"
    also = "" if remedy.also is None else remedy_text(remedy.also).removeprefix("use")
    return f"use {option}{value}{also} {remedy.effect}".rstrip()


def _sentence(error: BaseException) -> str:
    """An error in one sentence, with advice for the command line."""
    if isinstance(error, ScorewiseError):
        return error.render(remedy_text)
    if isinstance(error, MemoryError):
        return "there is not enough memory; evaluate fewer rows"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.strerror}: {cut(str(error.filename), 200)}"
    return cut(str(error), 2000)
