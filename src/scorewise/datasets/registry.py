"""What is known of a data set: its publisher's files and checksums, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

# From the files of a split, the name of the split and the number of classes: x, y and, where the
# files tell them, the names of the classes.
Parsed = tuple[Any, np.ndarray | None, tuple[str, ...] | None]
Parser = Callable[[list[Path], str, int], Parsed]


@dataclass(frozen=True)
class Source:
    """One file that a publisher offers.

    Attributes
    ----------
    path : str
        Where it is put, under the data folder.
    url : str or None
        None where the publisher asks for a registration first.
    checksum : str
        Such as ``"sha256:…"`` or ``"md5:…"``.
    size : int or None
        In bytes, where it is published.
    mirrors : tuple of str
        Other addresses of the same file.
    unpacked : mapping of str to str
        Of an archive: which of its folders and files go where, under the data folder.
    of_tars : bool
        An archive of tars, each of which becomes a folder.
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
        """Of the file, without folders."""
        return self.path.rpartition("/")[2]

    def brings(self, path: str) -> bool:
        """Whether it is this file, packed or not, or what is unpacked from it."""
        return path in (self.path, self.path.removesuffix(".gz")) or any(
            path == put or path.startswith(f"{put}/") for put in self.unpacked.values()
        )


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set; made by :func:`scorewise.datasets.describe`.

    Attributes
    ----------
    name, title : str
        For programs, and for people.
    licence, home : str
        The publisher's words, and page.
    folder : str
        Where it lives, under the data folder.
    n_classes : int
        0 for a set that is only ever out of distribution.
    class_names : tuple of str or None
    files : tuple of Source
        What is downloaded.
    splits : mapping of str to tuple of str
        Which files and folders each split is read from.
    checksums : mapping of str to str
        Of files as they lie in the folder, where they are known.
    is_pooled : bool
        The publisher has no split, so that all rows are pooled and split 70/30 by a seed.
    by_hand : str
        How to get it, where that takes a registration.
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

    @property
    def parts(self) -> tuple[str, ...]:
        """All files and folders that are read, for any split."""
        return tuple(dict.fromkeys(path for paths in self.splits.values() for path in paths))

    def checksum_of(self, path: str) -> str | None:
        """The official checksum of a file as it lies in the folder."""
        plain = {source.path: source.checksum for source in self.files if not source.unpacked}
        return self.checksums.get(path) or plain.get(path)

    def source_of(self, path: str) -> Source | None:
        """What brings a file or folder."""
        return next((source for source in self.files if source.brings(path)), None)

    def lacking(self, root: Path) -> list[Source]:
        """Files without an address that nobody has put there."""
        return [x for x in self.files if x.url is None and not (root / x.path).exists()]

    def steps_by_hand(self, root: Path, sources: Sequence[Source]) -> str:
        """How to get files that have no address."""
        files = [source.name + self._purpose(source) for source in sources]
        put = f", put {' and '.join(files)}" if files else ""
        return f"{self.by_hand}{put} in {root / self.folder}"

    def _purpose(self, source: Source) -> str:
        """Which splits it is for, in brackets, unless for all."""
        splits = [split for split, parts in self.splits.items() if any(map(source.brings, parts))]
        return "" if len(splits) == len(self.splits) else f" (for {', '.join(splits)})"
