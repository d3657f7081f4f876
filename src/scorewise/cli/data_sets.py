"""scorewise datasets: real data sets, from their publishers to this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from scorewise import datasets as library
from scorewise.cli._app import FINE, NOT_GUARANTEED, AsJson, Debug, command
from scorewise.cli._screen import print_json, say, table
from scorewise.datasets.states import OFFICIAL, splits_here

datasets = typer.Typer(
    name="datasets",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Fetch, verify and find real data sets.\n\n"
    'Start with "scorewise datasets list". Files come from their publishers and are checked; they '
    "are put in --data-dir, else in the folder that the variable SCOREWISE_DATA names, else in "
    "your cache folder.",
)

Names = Annotated[
    list[str], typer.Argument(metavar="NAME", help='As "scorewise datasets list" has them.')
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Where data sets live; $SCOREWISE_DATA, else your cache folder."
    ),
]


@command("scorewise datasets list", "scorewise datasets list --data-dir ~/data --json")
def list_(data_dir: DataDir = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """List the data sets that are known, which of them are here, and how to get the others.

    Whether what is here is official is what "scorewise datasets verify" finds out.
    """
    known = [library.describe(name) for name in library.names()]
    root = library.data_folder(data_dir)
    if as_json:
        print_json([_told(one, root) for one in known])
        return
    rows = ((one.name, _here(one, root), _how_to_get(one), one.licence) for one in known)
    say(
        table(f"Data sets in {root}", ["name", "here", "to get it", "licence"], rows, n_names=4),
        "  scorewise datasets fetch NAME    gets one, or says what to do by hand",
        "  scorewise datasets verify        checks whether what is here is official",
    )


def _here(one: library.DataSet, root: Path) -> str:
    found = splits_here(one, root)
    return "yes" if len(found) == len(one.splits) else f"{', '.join(found)} only" if found else "no"


def _how_to_get(one: library.DataSet) -> str:
    if one.by_hand:
        return "by hand"
    sizes = [file.size for file in one.files]
    return "fetch" if None in sizes else f"fetch {sum(filter(None, sizes)) / 1e6:,.0f} MB"


def _told(one: library.DataSet, root: Path) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "licence": one.licence,
        "home": one.home,
        "splits": list(one.splits),
        "n_classes": one.n_classes,
        "folder": root / one.folder,
        "here": splits_here(one, root),
        "by_hand": one.by_hand,
        "files": [
            {"path": file.path, "url": file.url, "checksum": file.checksum, "size": file.size}
            for file in one.files
        ],
    }


@command(
    "scorewise datasets fetch mnist",
    "scorewise datasets fetch covtype poker-hand --data-dir ~/data",
)
def fetch(names: Names, data_dir: DataDir = None, debug: Debug = False) -> None:
    """Download data sets from their publishers, verify and unpack them.

    What is here and official is not downloaded again. A download that is cut off goes on when the
    same command is run again. A file here that is not official is kept beside the official one,
    under a name that ends in .not-official. ImageNet asks for a registration: what to put where is
    then told.
    """
    for name in names:
        library.describe(name)
    for name in names:
        folder = library.fetch(name, data_dir)
        say(f"{library.describe(name).title}, licence: {library.describe(name).licence}")
        say(f"Written to {folder}")


@command("scorewise datasets verify mnist", "scorewise datasets verify --json")
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Those that are here, unless named.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Compare the files of data sets with the official checksums.

    A file is official, not official, missing, or corrupt: it was official when it was fetched, and
    has changed since.

    Exit code 1: a file is not official.
    """
    chosen = names or [name for name in library.names() if library.folder(name, data_dir).is_dir()]
    found = {name: library.verify(name, data_dir) for name in chosen}
    if as_json:
        print_json({name: [asdict(one) for one in states] for name, states in found.items()})
    elif not found:
        say(f"There are no data sets in {library.data_folder(data_dir)}.")
    else:
        for states in found.values():
            for one in states:
                why = f": {one.message}" if one.message else ""
                say(f"  {one.state}: {one.path}{why}")
    is_fine = all(one.state == OFFICIAL for states in found.values() for one in states)
    return FINE if is_fine else NOT_GUARANTEED


@command("scorewise datasets path mnist", 'ls "$(scorewise datasets path mnist)"')
def path(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help='As "scorewise datasets list" has them.')
    ],
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Print the folder of a data set, whether it is there or not."""
    typer.echo(library.folder(name, data_dir))


for _name, _command in {"list": list_, "fetch": fetch, "verify": verify, "path": path}.items():
    datasets.command(_name)(_command)
