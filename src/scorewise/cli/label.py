"""scorewise label: which rows to label next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from scorewise import _validate as validate
from scorewise._fields import UNLABELLED
from scorewise._numerics import ten_digits
from scorewise._tables import check_table_path, input_metadata, write_table
from scorewise._text import counted, shape_text
from scorewise._version import __version__
from scorewise.acquire import (
    METHODS,
    acquire,
    acquire_batch,
    acquire_for,
    check_label_tasks,
    default_method,
    label_tools,
    write_label_tasks,
)
from scorewise.cli._app import (
    AsJson,
    Debug,
    InputPath,
    Normalize,
    OnBadRows,
    OutputPath,
    PredictionsSource,
    Quarantine,
    Reading,
    SchedulerAddress,
    Seed,
    command,
    read_more,
    refuse_without_scheduler,
)
from scorewise.cli._arguments import COSTS_SUFFIX, parse_loss
from scorewise.cli._screen import print_json, print_text, table
from scorewise.decompose import COMPONENTS
from scorewise.errors import InvalidInput
from scorewise.io import Predictions, TextColumn, read_predictions, row_uncertainties
from scorewise.rules import get_rules
from scorewise.scale import Dataset, RowsToLabel, label_dataset

_SHOWN = 20  # rows of a table on the screen


@command(
    "scorewise label pool.parquet -n 100",
    "scorewise label pool.npz -n 50 --method power --out next.csv",
    "scorewise label pool.npz -n 10 --method joint",
    "scorewise label pool.npz --target target.npz -n 100",
    "scorewise label pool.parquet --format label-studio --data texts.csv --data-column text "
    "--out tasks.json",
    "scorewise label folder_of_parquet_files -n 10 --scheduler local --out next.csv",
)
def label(
    file: PredictionsSource,
    reading: Reading,
    n: Annotated[
        int, typer.Option("-n", "--n", metavar="N", min=1, help="Number of rows to select.")
    ] = 10,
    rule: Annotated[
        str,
        typer.Option(metavar="RULE", help="Scoring rule, or a CSV file with a cost matrix."),
        InputPath(COSTS_SUFFIX),
    ] = "zero-one",
    component: Annotated[
        str, typer.Option(metavar="COMPONENT", help="total, aleatoric or epistemic.")
    ] = "epistemic",
    method: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help=f"{', '.join(METHODS)}, or joint: the batch of the largest joint gain, for which "
            "all of FILE must fit in memory. By default top, and power with --target.",
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Predictions by the same members for a sample of the inputs that the model will "
            "meet: rows whose labels lower its uncertainty. Both files must fit in memory.",
        ),
        InputPath(),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .csv, .parquet or .arrow file, or the .json or .csv file of --format; by "
            "default, prints a table."
        ),
        OutputPath(),
    ] = None,
    tool: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="TOOL",
            help=f"Write what a labelling tool imports: {', '.join(label_tools())}. Tasks have the "
            "predicted label, its probability and the score.",
        ),
    ] = None,
    data_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column, array or field with what annotators see: texts, or paths or URLs of "
            "images. Only csv does without.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with that column and the ids; by default, the file of predictions itself.",
        ),
        InputPath(),
    ] = None,
    field: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the data in the tool: of the tag Text or Image of Label Studio, the "
            "field of Argilla, or the column of csv; by default, that of the data column.",
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the tag Choices of Label Studio, by default sentiment for the field "
            "text and choice for the field image; or of the question of Argilla, by default label.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help='Name of the model in Label Studio and Argilla; by default "scorewise".',
        ),
    ] = None,
    seed: Seed = 0,
    normalize: Normalize = False,
    scheduler: SchedulerAddress = None,
    on_bad_rows: OnBadRows = "fail",
    quarantine: Quarantine = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Select the rows to label next.

    A label helps most where it reduces uncertainty most. Theory recommends epistemic
    uncertainty under zero-one. Rows of the largest scores are often alike; "power" and "joint"
    select a more diverse batch. If some rows are labelled and others are not, only the unlabelled
    ones are selected. If much of FILE has little to do with the inputs that the model will meet,
    pass predictions for a sample of these inputs as --target. With --format, the selected rows are
    written as tasks for a labelling tool.

    With --scheduler, FILE is a folder of Parquet files, of which each worker scores some. The rows
    have the names of their files. --target, --format and the methods joint and softrank need the
    rows in one place.
    """
    if method is None:
        method = default_method(has_target=target is not None)
    validate.choice(method, "--method", (*METHODS, "joint"))
    validate.choice(component, "--component", COMPONENTS)
    names_in_tool = {"field": field or data_column, "question": question, "model": model}
    if data is not None and data_column is None:
        raise InvalidInput("--data needs --data-column, the column that annotators are to see")
    if tool is None:
        _refuse_tool_options(data_column=data_column, **names_in_tool)
        if out is not None:
            check_table_path(out)
    else:
        validate.choice(tool, "--format", label_tools())
        if out is None:
            raise InvalidInput("--format needs --out, the file to write")
        check_label_tasks(out, tool, has_data=data_column is not None, **names_in_tool)
    if scheduler is not None:
        _refuse_on_cluster(method, target=target, format=tool)
        chosen_rows = label_dataset(
            dataset := Dataset.of(file, **reading),
            n,
            parse_loss(rule, dataset.empty()),
            component=component,
            method=method,
            random_state=seed,
            scheduler=scheduler,
            on_bad_rows=on_bad_rows,
            quarantine=quarantine,
            normalize=normalize,
            progress=False if as_json else None,
        )
        _print_rows_of_files(chosen_rows, dataset, method, out, as_json=as_json)
        return
    refuse_without_scheduler(file, on_bad_rows, quarantine=quarantine)
    path_of_file = Path(file)
    predictions = read_predictions(path_of_file, **reading)
    texts = None
    if data_column is not None:
        own_ids = {name: reading[name] for name in ("ids", "id_separator")}
        texts = TextColumn(data or path_of_file, data_column, predictions, **own_ids)
    if predictions.shape[1] == 1 and component == "epistemic":
        other_method = " --method top" if method == "joint" else ""
        raise InvalidInput(
            f"{path_of_file.name!r} has one member, so the epistemic uncertainty of every row is "
            f"0; use --component total{other_method}, or predictions of several members, such as "
            "those of scorewise.BootstrapEnsemble"
        )
    loss = parse_loss(rule, predictions)
    [loss_name] = get_rules(loss)
    labelled = _labelled(predictions)
    progress = False if as_json else None
    if target is not None:
        if component != "epistemic":
            raise InvalidInput("--target needs --component epistemic")
        pool, targets = (
            source.to_samples(normalize=normalize)
            for source in (predictions, read_more(target, reading, predictions))
        )
        kind = "joint" if method == "joint" else "adjusted"
        score_name = f"{kind}_target_gain_{loss_name}"
        chosen = acquire_for(
            pool, targets, loss, n, seed, method=method, labelled=labelled, progress=progress
        )
        rows, scores = chosen.indices, chosen.scores
    elif method == "joint":
        if component != "epistemic":
            raise InvalidInput("--method joint needs --component epistemic")
        batch = acquire_batch(
            predictions.to_samples(normalize=normalize),
            n,
            loss,
            random_state=seed,
            labelled=labelled,
            progress=progress,
        )
        rows, scores, score_name = batch.rows, batch.gains, f"joint_gain_{loss_name}"
    else:
        uncertainty = row_uncertainties(
            predictions, loss, component, normalize=normalize, progress=progress
        )
        # to ten digits, so that rows which differ by rounding alone are tied
        rows = acquire(ten_digits(uncertainty), n, method, random_state=seed, labelled=labelled)
        scores, score_name = uncertainty[rows], f"{component}_{loss_name}"
    columns = {"row": rows}
    if predictions.ids is not None:
        columns["id"] = predictions.ids[rows]
    columns[score_name] = np.asarray(scores)
    ids = columns.get("id", rows)
    if out is not None and tool is not None:
        write_label_tasks(
            out,
            tool,
            predictions.take(rows),
            ids,
            loss,
            data=None if texts is None else texts.take(rows),
            scores=scores,
            measure=score_name,
            normalize=normalize,
            **names_in_tool,
        )
    elif out is not None:
        metadata = {**input_metadata(path_of_file, predictions.shape), "method": method}
        write_table(out, columns, metadata)
    if as_json:
        path = {} if out is None else {"path": out}
        print_json(
            {**path, "rows": rows.tolist(), "ids": ids.tolist(), score_name: scores.tolist()}
        )
        return
    print_text(f"Read {shape_text(predictions.shape)}.")
    if labelled is not None:
        print_text(f"{_labelled_text(int(labelled.sum()))}.")
    _print_rows(columns, score_name, method, out)


def _print_rows(
    columns: Mapping[str, np.ndarray], score_name: str, method: str, out: Path | None
) -> None:
    """Print the first of the selected rows."""
    names = [name for name in ("id", "file", "row") if name in columns]
    scores = columns[score_name]
    shown = [columns[name][:_SHOWN].tolist() for name in names]
    shown.append([f"{score:.4f}" for score in scores[:_SHOWN]])
    print_text(
        table(
            f"Rows to label next ({method})",
            ["", *names, score_name],
            ((i, *cells) for i, cells in enumerate(zip(*shown, strict=True), 1)),
            n_names=2,
        )
    )
    if len(scores) > _SHOWN and out is None:
        print_text(f"… and {len(scores) - _SHOWN} more; --out next.csv writes all of them.")
    if out is not None:
        print_text(f"Written to {out}", wrap=False)


def _labelled_text(n: int) -> str:
    if n == 1:
        return "1 row has a label already and is left out"
    return f"{n:,} rows have a label already and are left out"


def _refuse_on_cluster(method: str, **options: object) -> None:
    """Raise for what needs all rows in one place."""
    if method in {"joint", "softrank"}:
        raise InvalidInput(
            f"--method {method} needs all rows in one place; leave out --scheduler, or use "
            "--method power"
        )
    for name, value in options.items():
        if value is not None:
            raise InvalidInput(f"--{name} needs all rows in one place; leave out --scheduler")


def _print_rows_of_files(
    chosen: RowsToLabel, dataset: Dataset, method: str, out: Path | None, *, as_json: bool
) -> None:
    """Write and print the selected rows of a data set."""
    columns = chosen.columns()
    shape = (chosen.n_rows, *dataset.members_and_classes)
    if out is not None:
        rows, members, classes = shape
        size = {"rows": rows, "members": members, "classes": classes}
        if chosen.n_left_out or chosen.n_files_left_out:
            size["rows_left_out"] = chosen.n_left_out
            size["files_left_out"] = chosen.n_files_left_out
        about = {"version": __version__, "input": dataset.address, **size, "method": method}
        write_table(out, columns, about)
    if as_json:
        path = {} if out is None else {"path": out}
        ids = {} if chosen.ids is None else {"ids": chosen.ids.tolist()}
        print_json(
            {
                **path,
                "files": chosen.files,
                "rows": chosen.rows.tolist(),
                "n_left_out": chosen.n_left_out,
                "n_files_left_out": chosen.n_files_left_out,
                **ids,
                chosen.score_name: chosen.scores.tolist(),
            }
        )
        return
    n_files = len(dataset) - chosen.n_files_left_out
    print_text(f"Read {shape_text(shape)} in {counted(n_files, 'file')}.")
    if chosen.n_labelled:
        print_text(f"{_labelled_text(chosen.n_labelled)}.")
    _print_rows(columns, chosen.score_name, method, out)


def _refuse_tool_options(**options: object) -> None:
    """Raise if there is an option of a labelling tool, and no tool."""
    for name, value in options.items():
        if value is not None:
            option = name.replace("_", "-")
            raise InvalidInput(f"--{option} is for --format, which names the labelling tool")


def _labelled(predictions: Predictions) -> np.ndarray | None:
    """Return which rows have a label, or None if all have one or none has one."""
    labels = predictions.labels
    if labels is None or not (labels == UNLABELLED).any() or (labels == UNLABELLED).all():
        return None
    return np.asarray(labels != UNLABELLED)
