"""A data set as arrays, with what is to be said of it."""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise.datasets.folders import data_folder
from scorewise.datasets.known import describe
from scorewise.datasets.registry import DataSet
from scorewise.datasets.states import MISSING, OFFICIAL, FileState, state_of
from scorewise.errors import CorruptData, MissingData


@dataclass(frozen=True, eq=False)
class Rows:
    """A split of a data set; made by :func:`scorewise.datasets.load`.

    Attributes
    ----------
    x : array or ImageFiles
        Images as uint8 (n, channels, height, width), tables as float64 (n, features), large images
        as files that are decoded one by one.
    y : int64 array (n,) or None
        Classes 0 to K − 1; None where the set has none.
    class_names : tuple of str or None
    name, split : str
    official : bool
        Every file that was read is the publisher's.
    note : str
        What to print beside every result; empty where the files are official.
    digest : str
        SHA-256 over the digests of the files that were read.
    n_classes : int
    """

    x: Any
    y: np.ndarray | None
    class_names: tuple[str, ...] | None
    name: str
    split: str
    official: bool
    note: str
    digest: str
    n_classes: int

    def __repr__(self) -> str:
        told = f", {self.note}" if self.note else ""
        return f"Rows({self.name}, {self.split}, {len(self):,} rows, K = {self.n_classes}{told})"

    def __len__(self) -> int:
        return len(self.x)


def load(
    name: str,
    split: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    as_is: bool = False,
    seed: int = 0,
) -> Rows:
    """Read a split of a data set that was fetched before.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    split : {"train", "test", "val"}
        Where the publisher's test labels are secret, "test" is its validation split. CoverType and
        Poker Hand have none: all their rows are pooled, and 70 % drawn for training.
    data_dir : path, optional
        As for :func:`data_folder`.
    as_is : bool
        Take files that are not the official ones. ``note`` then says so, and ``official`` is False.
    seed : int
        Which 70 % are drawn, where rows are pooled; the same on every machine.

    Returns
    -------
    Rows

    Raises
    ------
    MissingData
        A file is not there; the message says how to get it.
    CorruptData
        A file is not the official one, or cannot be read.

    Examples
    --------
    >>> from scorewise import datasets
    >>> datasets.load("covtype", "train", data_dir="no-such-folder")
    Traceback (most recent call last):
    scorewise.errors.MissingData: CoverType is not in no-such-folder (covtype.data is missing); ...
    """
    known = describe(name)
    validate.choice(split, "split", known.splits)
    validate.whole(seed, "seed", 0)
    root = data_folder(data_dir)
    states = [state_of(known, part, root) for part in known.splits[split]]
    _refuse(known, states, root, data_dir, as_is)
    x, y, names = known.parse([found.path for found in states], split, known.n_classes)
    note = _note(known, states, len(x))
    if known.is_pooled and y is not None:
        chosen = split_by_seed(len(x), split, seed)
        x, y = x[chosen], y[chosen]
    lines = "".join(f"{found.digest}  {found.path.name}\n" for found in states)
    return Rows(
        x=x,
        y=y,
        class_names=names or known.class_names,
        name=name,
        split=split,
        official=not note,
        note=note,
        digest=hashlib.sha256(lines.encode()).hexdigest(),
        n_classes=known.n_classes,
    )


def split_by_seed(n: int, split: str, seed: int) -> np.ndarray:
    """Which rows of a pooled set are in a split: 70 % are for training.

    Parameters
    ----------
    n : int
        Rows of the set.
    split : {"train", "test"}
    seed : int
        The same on every machine.

    Returns
    -------
    integer array
        Their places, in random order.

    Examples
    --------
    >>> from scorewise import datasets
    >>> datasets.split_by_seed(10, "test", seed=0)
    array([0, 8, 1])
    """
    order = np.random.default_rng(seed).permutation(n)
    cut = n * 7 // 10
    return order[:cut] if split == "train" else order[cut:]


def _refuse(
    known: DataSet,
    states: list[FileState],
    root: Path,
    data_dir: str | os.PathLike[str] | None,
    as_is: bool,
) -> None:
    missing = [found.path for found in states if found.state == MISSING]
    if missing:
        raise MissingData(
            f"{known.title} is not in {root} ({missing[0].name} is missing); "
            f"{_how_to_get(known, missing, root, data_dir)}"
        )
    for found in states:
        if found.state != OFFICIAL and not as_is:
            raise CorruptData(
                f"{found.path} is not the official file: it {found.message}; pass as_is=True to "
                "take it as it is"
            )


def _how_to_get(
    known: DataSet, missing: list[Path], root: Path, data_dir: str | os.PathLike[str] | None
) -> str:
    if not known.files:
        return known.steps_by_hand(root, [])
    parts = [path.relative_to(root).as_posix() for path in missing]
    by_hand = [x for x in known.lacking(root) if any(map(x.brings, parts))]
    first = f"{known.steps_by_hand(root, by_hand)}, and then " if by_hand else ""
    where = "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"
    return f"{first}get it with: scorewise datasets fetch {known.name}{where}"


def _note(known: DataSet, states: list[FileState], rows: int) -> str:
    """What to say beside every result from files that are not official."""
    wrong = [found.path.name for found in states if found.state != OFFICIAL]
    if not wrong:
        return ""
    what = "a stand-in without an official file"
    if known.files:
        what = f"not the official {'file' if len(states) == 1 else ', '.join(wrong)}"
    return f"{known.title}, {rows:,} rows, {what}"
