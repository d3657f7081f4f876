"""Folders of images, which are decoded one by one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scorewise.datasets.damage import checked_labels, content, damage_told
from scorewise.datasets.registry import Parsed
from scorewise.errors import CorruptData

SUFFIXES = (".jpg", ".jpeg", ".png")
_MOST_TEXT = 256 << 20


class ImageFiles(Sequence[Any]):
    """Images in files, decoded when they are asked for: ``files[i]`` is uint8 (height, width, 3).

    Attributes
    ----------
    paths : tuple of pathlib.Path

    Examples
    --------
    >>> from scorewise import datasets
    >>> files = datasets.ImageFiles(["a.jpg", "b.jpg"])
    >>> len(files), files.paths[1].name
    (2, 'b.jpg')
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        self.paths = tuple(Path(path) for path in paths)

    def __repr__(self) -> str:
        return f"ImageFiles({len(self)} files)"

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: Any) -> Any:
        """One image; several, as files, where ``i`` is a slice."""
        if isinstance(i, slice):
            return ImageFiles(self.paths[i])
        try:
            from PIL import Image
        except ImportError:
            raise ImportError(
                "reading images needs Pillow: pip install 'scorewise[images]'"
            ) from None
        with damage_told(self.paths[i]), Image.open(self.paths[i]) as image:
            return np.array(image.convert("RGB"))


def listed(folder: Path) -> dict[str, int]:
    """The files of a folder and their sizes, by their names in it; hidden ones do not count."""
    found = {}
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                path = os.path.join(place, name)
                found[os.path.relpath(path, folder).replace(os.sep, "/")] = os.path.getsize(path)
    return found


def places365(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Read images as a list has them, line by line: a name and a number."""
    folder, labels, categories = paths
    named = [line.rsplit(" ", 1) for line in _lines(labels)]
    names = [line.rsplit(" ", 1)[0] for line in _lines(categories)]
    with damage_told(labels):
        y = np.array([int(number) for _, number in named], dtype=np.int64)
    files = _files(folder, [name for name, _ in named])
    return files, checked_labels(y, n_classes, labels), tuple(names)


def food101(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Read images by class folder, as the lists in meta have them."""
    folder, meta = paths
    names = _lines(meta / "classes.txt")
    number = {name: i for i, name in enumerate(names)}
    chosen = _lines(meta / f"{split}.txt")
    y = _numbered([line.split("/")[0] for line in chosen], number, meta / f"{split}.txt")
    files = _files(folder, [f"{line}.jpg" for line in chosen])
    return files, checked_labels(y, n_classes, meta / "classes.txt"), tuple(names)


def imagenet(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Read images; classes are ordered by their WordNet ids.

    Training images lie in folders that are called by these ids. The others are labelled by a list,
    in the order of their names, whatever folders they are in.
    """
    folder, devkit = paths
    meta, truth = devkit / "meta.mat", devkit / "ILSVRC2012_validation_ground_truth.txt"
    classes = _imagenet_classes(meta)
    found = _images(folder)
    if split == "train":
        number = {str(wordnet): i for i, wordnet in enumerate(classes["WNID"])}
        y = _numbered([name.split("/")[0] for name in found], number, folder)
    else:
        found.sort(key=lambda name: name.rpartition("/")[2])
        number = {str(told): i for i, told in enumerate(classes["ILSVRC2012_ID"])}
        y = _numbered(_lines(truth), number, truth)
        if len(found) != len(y):
            raise CorruptData(f"{folder} has {len(found):,} images, and {truth} {len(y):,} labels")
    names = tuple(str(words) for words in classes["words"])
    return ImageFiles(folder / name for name in found), checked_labels(y, n_classes, meta), names


def _imagenet_classes(meta: Path) -> np.ndarray:
    """Those of the tree that are no groups of others, in the order of their WordNet ids."""
    from scipy.io import loadmat

    with damage_told(meta):
        synsets = loadmat(meta, squeeze_me=True, variable_names=("synsets",))["synsets"]
        leaves: np.ndarray = synsets[synsets["num_children"].astype(int) == 0]
        return leaves[np.argsort(leaves["WNID"].astype(str), kind="stable")]


def unlabelled(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """All images of a folder, in the order of their names, without labels."""
    (folder,) = paths
    return ImageFiles(folder / name for name in _images(folder)), None, None


def _images(folder: Path) -> list[str]:
    """The names of all images of a folder, in their order."""
    found = [name for name in listed(folder) if name.lower().endswith(SUFFIXES)]
    if not found:
        raise CorruptData(f"{folder} has no images")
    return found


def _lines(path: Path) -> list[str]:
    with damage_told(path):
        lines = content(path, _MOST_TEXT).decode().split("\n")
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise CorruptData(f"{path} is empty")
    return found


def _numbered(classes: list[str], number: dict[str, int], path: Path) -> np.ndarray:
    """Classes by their numbers."""
    for row, name in enumerate(classes):
        if name not in number:
            raise CorruptData(f"{path} has {name!r} in row {row}, which is no class")
    return np.array([number[name] for name in classes], dtype=np.int64)


def _files(folder: Path, names: list[str]) -> ImageFiles:
    """Those of the folder, and only those, that a list has."""
    there = listed(folder)
    for name in names:
        if name not in there:
            raise CorruptData(f"{folder} has no image {name!r}, which its list has")
    return ImageFiles(folder / name for name in names)
