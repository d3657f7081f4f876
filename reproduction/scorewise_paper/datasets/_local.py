"""Data sets on this machine: where they are, whether they are official, and their arrays."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pooch

from scorewise_paper.datasets._known import DataSet, describe
from scorewise_paper.datasets._parsers import IMAGE_SUFFIXES, listed
from scorewise_paper.errors import CorruptData, InvalidInput, MissingData, Remedy

VARIABLE = "SCOREWISE_DATA"
OFFICIAL, NOT_OFFICIAL, MISSING, CORRUPT = "official", "not official", "missing", "corrupt"

_MANIFEST = ".scorewise.json"  # beside the files of a verified archive
_BLOCK = 8 << 20


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of all data sets; it is not created.

    Parameters
    ----------
    data_dir : path, optional
        The folder itself. The default is the environment variable ``SCOREWISE_DATA``, and without
        that the user's cache folder.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    InvalidInput
        If it is a file.

    Examples
    --------
    >>> from scorewise_paper import datasets
    >>> datasets.data_folder("my-data").name
    'my-data'
    """
    chosen = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    folder = Path(pooch.os_cache("scorewise") if chosen is None else chosen).expanduser()
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"the data folder {str(folder)!r} is no folder")
    return folder


def folder(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of a data set, whether it exists or not.

    Parameters
    ----------
    name : str
        A name of :func:`names`.
    data_dir : path, optional
        As for :func:`data_folder`.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> from scorewise_paper import datasets
    >>> datasets.folder("cifar-10", "my-data").as_posix()
    'my-data/cifar-10-batches-bin'
    """
    data_set = describe(name)
    return root_of(data_set, data_folder(data_dir)) / data_set.folder


def root_of(data_set: DataSet, root: Path) -> Path:
    """Return the folder that the paths of a set's files start from.

    It is the data folder. A set of a package whose files are not there is read from where the
    package is installed, without importing it.
    """
    if not data_set.package or any((root / part).exists() for part in data_set.parts):
        return root
    spec = find_spec(data_set.package.replace("-", "_"))
    places = (spec and spec.submodule_search_locations) or ()
    return next((Path(place).parent for place in places), root)


# -- is it official? -------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileState:
    """Whether a file or folder is official; made by :func:`scorewise_paper.datasets.verify`.

    Attributes
    ----------
    path : pathlib.Path
    state : str
        ``"official"``, ``"not official"``, ``"missing"``, or ``"corrupt"``: it was official when
        it was downloaded, and has changed since.
    digest : str or None
        SHA-256 of the file; of a folder, that of the names and sizes of its files.
    message : str
        The reason, in a phrase; empty where it is official.
    """

    path: Path
    state: str
    digest: str | None
    message: str


def verify(name: str, data_dir: str | os.PathLike[str] | None = None) -> tuple[FileState, ...]:
    """Return the states of a data set's files, compared with the official checksums.

    Parameters
    ----------
    name : str
        A name of :func:`names`.
    data_dir : path, optional
        As for :func:`data_folder`.

    Returns
    -------
    tuple of FileState
        One for each file or folder that is read.

    Examples
    --------
    >>> from scorewise_paper import datasets
    >>> [file.state for file in datasets.verify("covtype", "no-such-folder")]
    ['missing']
    """
    data_set = describe(name)
    root = data_folder(data_dir)
    return tuple(state_of(data_set, part, root) for part in data_set.parts)


def state_of(data_set: DataSet, part: str, root: Path) -> FileState:
    """Return the state of a file, packed or not; of two forms, that of the official one."""
    root = root_of(data_set, root)
    forms = _forms(part, root)
    if not forms:
        return FileState(root / part, MISSING, None, "is missing")
    states = [_state(data_set, path, root) for path in forms]
    return next((state for state in states if state.state == OFFICIAL), states[0])


def available_splits(data_set: DataSet, root: Path) -> tuple[str, ...]:
    """Return the splits of which all files are available, official or not.

    Parameters
    ----------
    data_set : DataSet
    root : pathlib.Path
        The data folder.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from pathlib import Path
    >>> from scorewise_paper import datasets
    >>> datasets.available_splits(datasets.describe("mnist"), Path("no-such-folder"))
    ()
    """
    root = root_of(data_set, root)
    return tuple(
        split
        for split, parts in data_set.splits.items()
        if all(_forms(part, root) for part in parts)
    )


def _forms(part: str, root: Path) -> list[str]:
    """Return the existing forms of a file: unpacked, packed."""
    return [path for path in (part, f"{part}.gz") if (root / path).exists()]


def _state(data_set: DataSet, path: str, root: Path) -> FileState:
    file = root / path
    if file.is_dir():
        return _folder_state(data_set, path, file)
    digests = digests_of(file)
    expected = data_set.checksum_of(path)
    recorded = _manifest(data_set, path, file.parent).get(file.name)
    packed = ", only that of the packed file" if data_set.checksum_of(f"{path}.gz") else ""
    if expected is not None:
        kind, value = expected.split(":")
        is_official = digests[kind] == value
        message = f"has the {kind} {digests[kind]}, and the official file {value}"
    elif recorded is not None:
        is_official = digests["sha256"] == recorded[1]
        message = f"has the sha256 {digests['sha256']}, and had {recorded[1]} when it was fetched"
    else:
        is_official = False
        message = f"has the sha256 {digests['sha256']}, and no official one is known{packed}"
    state = OFFICIAL if is_official else NOT_OFFICIAL if recorded is None else CORRUPT
    return FileState(file, state, digests["sha256"], "" if is_official else message)


def _folder_state(data_set: DataSet, path: str, folder: Path) -> FileState:
    """Return the state of a folder: are its files those that were unpacked?

    Names and sizes are compared, and the digests of files that are no images.
    """
    sizes = listed(folder)
    lines = "".join(f"{name} {size}\n" for name, size in sizes.items())
    digest = hashlib.sha256(lines.encode()).hexdigest()
    recorded = _manifest(data_set, path, folder)
    if not recorded:
        message = "was not unpacked by scorewise-paper, so there is nothing to compare it with"
        return FileState(folder, NOT_OFFICIAL, digest, message)
    for name in sorted(set(sizes) | set(recorded)):
        if name not in sizes:
            problem = f"lacks {name}"
        elif name not in recorded:
            problem = f"has {name}, which the official archive lacks"
        elif sizes[name] != recorded[name][0] or (
            recorded[name][1] and digests_of(folder / name)["sha256"] != recorded[name][1]
        ):
            problem = f"has {name}, which has changed since it was fetched"
        else:
            continue
        return FileState(folder, CORRUPT, digest, problem)
    return FileState(folder, OFFICIAL, digest, "")


def digests_of(path: Path) -> dict[str, str]:
    """Return the SHA-256 and MD5 of a file, computed again only if it has changed."""
    status = path.stat()
    return _digests_of(path, status.st_ino, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _digests_of(path: Path, *stamp: int) -> dict[str, str]:
    hashes = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            for each in hashes.values():
                each.update(block)
    return {kind: each.hexdigest() for kind, each in hashes.items()}


def write_manifest(folder: Path, checksum: str) -> None:
    """Record the sizes of the files of a verified archive, and the digests of all but images."""
    files = {
        name: [
            size,
            None if name.lower().endswith(IMAGE_SUFFIXES) else digests_of(folder / name)["sha256"],
        ]
        for name, size in listed(folder).items()
    }
    (folder / _MANIFEST).write_text(json.dumps({"checksum": checksum, "files": files}))


def _manifest(data_set: DataSet, path: str, folder: Path) -> dict[str, Any]:
    """Return the recorded files of the archive that a folder was unpacked from, or nothing."""
    source = data_set.source_of(path)
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        is_ours = source is not None and manifest["checksum"] == source.checksum
        return dict(manifest["files"]) if is_ours else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


# -- arrays ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rows:
    """A split of a data set; made by :func:`scorewise_paper.datasets.load`.

    Attributes
    ----------
    x : array or ImageFiles
        Small images as uint8 (n, channels, height, width), tables as float64 (n, features), large
        images as files that are decoded on access.
    y : int64 array (n,) or None
        Classes 0 to K − 1; None where the set has no labels.
    class_names : tuple of str or None
    name, split : str
    official : bool
        Whether all files that were read are the publisher's.
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
        note = f", {self.note}" if self.note else ""
        return f"Rows({self.name}, {self.split}, {len(self):,} rows, K = {self.n_classes}{note})"

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
    """Return a split of a data set that is in the data folder or in an installed package.

    Parameters
    ----------
    name : str
        A name of :func:`names`.
    split : {"train", "test", "val"}
        Where the publisher's test labels are secret, "test" is its validation split. CoverType,
        Poker Hand and the tables of packages have no splits: all their rows are pooled, and 70 %
        are drawn for training.
    data_dir : path, optional
        As for :func:`data_folder`.
    as_is : bool
        Use files that are not official; ``note`` names them, and ``official`` is False.
    seed : int
        Which 70 % are drawn, where rows are pooled; the same on every machine.

    Returns
    -------
    Rows

    Raises
    ------
    MissingData
        If a file is missing; the message says how to get it.
    CorruptData
        If a file is not the official one, or cannot be read.

    Examples
    --------
    >>> from scorewise_paper import datasets
    >>> datasets.load("covtype", "train", data_dir="no-such-folder")
    Traceback (most recent call last):
    scorewise_paper.errors.MissingData: CoverType is not in no-such-folder (covtype.data is ...
    """
    data_set = describe(name)
    if split not in data_set.splits:
        splits = ", ".join(data_set.splits)
        raise InvalidInput(f"{name} has no split {split!r}; its splits are {splits}")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"seed must be a whole number of at least 0, not {seed!r}")
    root = data_folder(data_dir)
    states = [state_of(data_set, part, root) for part in data_set.splits[split]]
    _require_usable(data_set, states, root, data_dir, as_is)
    x, y, names = data_set.parse([state.path for state in states], split, data_set.n_classes)
    note = _note(data_set, states, len(x))
    if data_set.is_pooled and y is not None:
        chosen = split_by_seed(len(x), split, seed)
        x, y = x[chosen], y[chosen]
    lines = "".join(f"{state.digest}  {state.path.name}\n" for state in states)
    return Rows(
        x=x,
        y=y,
        class_names=names or data_set.class_names,
        name=name,
        split=split,
        official=not note,
        note=note,
        digest=hashlib.sha256(lines.encode()).hexdigest(),
        n_classes=data_set.n_classes,
    )


def split_by_seed(n: int, split: str, seed: int) -> np.ndarray:
    """Return which rows of a pooled set are in a split: 70 % are for training.

    Parameters
    ----------
    n : int
        Rows of the set.
    split : {"train", "test"}
    seed : int
        The split is the same on every machine.

    Returns
    -------
    integer array
        Their indices, in random order.

    Examples
    --------
    >>> from scorewise_paper import datasets
    >>> datasets.split_by_seed(10, "test", seed=0)
    array([0, 8, 1])
    """
    order = np.random.default_rng(seed).permutation(n)
    cut = n * 7 // 10
    return order[:cut] if split == "train" else order[cut:]


def _require_usable(
    data_set: DataSet,
    states: list[FileState],
    root: Path,
    data_dir: str | os.PathLike[str] | None,
    as_is: bool,
) -> None:
    missing = [state.path for state in states if state.state == MISSING]
    if missing:
        package = data_set.package
        nor = f", and the package {package} is not installed" if package else ""
        raise MissingData(
            f"{data_set.title} is not in {root} ({missing[0].name} is missing){nor}; "
            f"{_how_to_get(data_set, missing, root, data_dir)}"
        )
    for state in states:
        if state.state != OFFICIAL and not as_is:
            raise CorruptData(
                f"{state.path} is not the official file: it {state.message}",
                Remedy("as_is", True, "to use it as it is"),
            )


def _how_to_get(
    data_set: DataSet, missing: list[Path], root: Path, data_dir: str | os.PathLike[str] | None
) -> str:
    if not data_set.files:
        return data_set.steps_by_hand(root, [])
    parts = [path.relative_to(root).as_posix() for path in missing]
    by_hand = [x for x in data_set.missing_by_hand(root) if any(map(x.provides, parts))]
    first = f"{data_set.steps_by_hand(root, by_hand)}, and then " if by_hand else ""
    where = "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"
    return f"{first}get it with: scorewise-paper datasets fetch {data_set.name}{where}"


def _note(data_set: DataSet, states: list[FileState], rows: int) -> str:
    """Return what to print beside every result from files that are not official."""
    wrong = [state.path.name for state in states if state.state != OFFICIAL]
    if not wrong:
        return ""
    description = "a stand-in without an official file"
    if not data_set.is_stand_in:
        description = f"not the official {'file' if len(states) == 1 else ', '.join(wrong)}"
    return f"{data_set.title}, {rows:,} rows, {description}"
