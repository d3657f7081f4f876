"""The formats of the publishers: tables, small images in one file, folders of large images."""

from __future__ import annotations

import gzip
import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scorewise_paper.errors import CorruptData, ScorewiseError

# From the files of a split, the split's name and the number of classes to x, y and, where the files
# contain them, the names of the classes.
Parsed = tuple[Any, np.ndarray | None, tuple[str, ...] | None]
Parser = Callable[[list[Path], str, int], Parsed]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")
_IDX_IMAGES, _IDX_LABELS = 0x803, 0x801
_MNIST_SIDE = 28
_CIFAR_PIXELS = 3 * 32 * 32


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the errors of a damaged file into CorruptData that names it."""
    try:
        yield
    except (ScorewiseError, MemoryError, ImportError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk failed, not the file
            raise
        raise CorruptData(f"{path} cannot be read, so it is damaged: {error}") from None


def _content(path: Path) -> bytes:
    """Return all bytes of a file, unpacked if its name ends in .gz."""
    with reading(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return bytes(file.read())


def _checked_labels(values: np.ndarray, n_classes: int, path: Path, first: int = 0) -> np.ndarray:
    """Return class numbers from 0 on; the file counts from ``first``."""
    if values.dtype.kind not in "iu":
        raise CorruptData(f"{path} has labels of {values.dtype}")
    labels = values.astype(np.int64) - first
    wrong = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if wrong.size:
        row = int(wrong[0])
        raise CorruptData(
            f"{path} has the label {int(labels[row]) + first} in row {row}; labels are "
            f"{first} to {first + n_classes - 1}"
        )
    return labels


def _require_same_length(images: int, labels: int, path: Path) -> None:
    if images != labels:
        raise CorruptData(f"{path} has {labels:,} labels for {images:,} images")


# -- tables ----------------------------------------------------------------------------------------


def table(
    paths: list[Path], split: str, n_classes: int, *, columns: int, first_label: int
) -> Parsed:
    """Parse comma-separated integers whose last column is the label; files are pooled."""
    parts = [_numbers(path, columns) for path in paths]
    labels = [
        _checked_labels(part[:, -1], n_classes, path, first_label)
        for part, path in zip(parts, paths, strict=True)
    ]
    x = np.concatenate([part[:, :-1] for part in parts]).astype(np.float64)
    return x, np.concatenate(labels), None


def _numbers(path: Path, columns: int) -> np.ndarray:
    text = _content(path)
    if not text.strip():
        raise CorruptData(f"{path} is empty")
    with reading(path):
        lines = io.TextIOWrapper(io.BytesIO(text), "ascii")
        with warnings.catch_warnings(action="error"):  # NumPy warns of fractions, and truncates
            values = np.loadtxt(lines, np.int32, delimiter=",", comments=None, ndmin=2)
    if values.shape[1] != columns:
        raise CorruptData(f"{path} has {values.shape[1]} columns instead of {columns}")
    return values


def keel(
    paths: list[Path], split: str, n_classes: int, *, columns: int, classes: Sequence[str] = ()
) -> Parsed:
    """Parse KEEL's format: comma-separated values, the class last, with or without a header.

    The header lists the values of each categorical column, and a value becomes its number in that
    list. Without a header all columns but the last are numbers, and ``classes`` lists those of the
    last one.
    """
    (path,) = paths
    lines = _lines(path)
    rows = [line.split(",") for line in lines if not line.startswith("@")]
    for number, row in enumerate(rows):
        if len(row) != columns:
            raise CorruptData(f"{path} has {len(row)} columns instead of {columns} in row {number}")
    listed_values = [_listed_values(x) for x in lines if x.lower().startswith("@attribute ")]
    if not listed_values:
        listed_values = [*[()] * (columns - 1), tuple(classes)]
    if len(listed_values) != columns or not rows:
        raise CorruptData(f"{path} describes {len(listed_values)} columns in {len(rows):,} rows")
    *features, labels = (
        _column(values, listed, path)
        for values, listed in zip(zip(*rows, strict=True), listed_values, strict=True)
    )
    y = _checked_labels(labels.astype(np.int64), n_classes, path)
    return np.column_stack(features), y, listed_values[-1]


def _listed_values(line: str) -> tuple[str, ...]:
    """Return the values of a categorical column from its line of the header; none for numbers."""
    _, brace, listed = line.partition("{")
    return tuple(value.strip() for value in listed.rstrip("} ").split(",")) if brace else ()


def _column(values: Sequence[str], listed: Sequence[str], path: Path) -> np.ndarray:
    """Return a column as numbers: those of its listed values, or the numbers that it has."""
    if listed:
        number = {value: i for i, value in enumerate(listed)}
        names = [value.strip() for value in values]
        return _numbered(names, number, path, "value that is listed").astype(np.float64)
    with reading(path):
        column = np.array(values, dtype=np.float64)
    if not np.isfinite(column).all():
        raise CorruptData(f"{path} has a number that is not finite")
    return column


# -- small images in one file ----------------------------------------------------------------------


def idx(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Parse MNIST's format: a file of images, and one of labels."""
    images = _idx_array(paths[0], _IDX_IMAGES, (_MNIST_SIDE, _MNIST_SIDE))
    labels = _idx_array(paths[1], _IDX_LABELS, ())
    _require_same_length(len(images), len(labels), paths[1])
    return images[:, None], _checked_labels(labels, n_classes, paths[1]), None


def _idx_array(path: Path, magic: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array whose header has a magic number, its length and the shape of its items."""
    data = _content(path)
    header = np.frombuffer(data[: 4 * (2 + len(shape))], ">u4") if len(data) >= 8 else np.empty(0)
    if header.size < 2 or header[0] != magic:
        raise CorruptData(f"{path} does not begin as an IDX file with the number {magic:#x} does")
    item_shape = tuple(int(n) for n in header[2:])
    if item_shape != shape:
        raise CorruptData(f"{path} has images of {item_shape} instead of {shape} pixels")
    rows, start = int(header[1]), 4 * header.size
    expected = start + rows * int(np.prod(shape, dtype=np.int64))
    if len(data) != expected:
        raise CorruptData(f"{path} has {len(data):,} bytes instead of {expected:,}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(rows, *shape).copy()


def cifar(paths: list[Path], split: str, n_classes: int, *, label_bytes: int) -> Parsed:
    """Parse records of label bytes, of which the last is the class, and 3 × 32 × 32 pixels."""
    length = label_bytes + _CIFAR_PIXELS
    images, labels = [], []
    for path in paths:
        data = _content(path)
        if not data or len(data) % length:
            raise CorruptData(
                f"{path} has {len(data):,} bytes, which are not whole records of {length:,}"
            )
        records = np.frombuffer(data, np.uint8).reshape(-1, length)
        labels.append(_checked_labels(records[:, label_bytes - 1], n_classes, path))
        images.append(records[:, label_bytes:])
    return np.concatenate(images).reshape(-1, 3, 32, 32), np.concatenate(labels), None


def svhn(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Parse a MAT file with X (32, 32, 3, n) and y (n, 1), where label 10 is the digit 0."""
    from scipy.io import loadmat

    (path,) = paths
    with reading(path):
        arrays = loadmat(path, variable_names=("X", "y"))
        x, y = arrays["X"], arrays["y"].reshape(-1)
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3):
        raise CorruptData(f"{path} has X of {x.dtype} {x.shape} instead of uint8 (32, 32, 3, n)")
    _require_same_length(x.shape[-1], len(y), path)
    labels = _checked_labels(y, n_classes, path, first=1) + 1
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), labels % 10, None


def npz(
    paths: list[Path],
    split: str,
    n_classes: int,
    *,
    images: str,
    labels: str,
    side: int,
    channels_last: bool = False,
) -> Parsed:
    """Parse an .npz file; ``images`` and ``labels`` are names of arrays, with ``{split}``."""
    (path,) = paths
    with reading(path), path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        x, y = (arrays[name.format(split=split)] for name in (images, labels))
    if x.ndim == 3:  # grey
        x = x[:, None]
    elif channels_last and x.ndim == 4:
        x = x.transpose(0, 3, 1, 2)
    has_shape = x.ndim == 4 and x.shape[1] in (1, 3) and x.shape[2:] == (side, side)
    if x.dtype != np.uint8 or not has_shape:
        raise CorruptData(f"{path} has images of {x.dtype} {x.shape}, not {side} × {side}")
    _require_same_length(len(x), y.size, path)
    return np.ascontiguousarray(x), _checked_labels(y.reshape(-1), n_classes, path), None


# -- folders of large images -----------------------------------------------------------------------


class ImageFiles(Sequence[Any]):
    """Images in files, decoded on access: ``files[i]`` is a uint8 array (height, width, 3).

    Attributes
    ----------
    paths : tuple of pathlib.Path

    Examples
    --------
    >>> from scorewise_paper import datasets
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
        """Return an image, or ImageFiles where ``i`` is a slice."""
        if isinstance(i, slice):
            return ImageFiles(self.paths[i])
        with reading(self.paths[i]), Image.open(self.paths[i]) as image:
            return np.array(image.convert("RGB"))


def listed(folder: Path) -> dict[str, int]:
    """The sizes of a folder's files by their names in it; hidden files do not count."""
    sizes = {}
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                path = os.path.join(place, name)
                sizes[os.path.relpath(path, folder).replace(os.sep, "/")] = os.path.getsize(path)
    return sizes


def places365(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Parse a list of images, line by line: a name and a class number."""
    folder, labels, categories = paths
    lines = [line.rsplit(" ", 1) for line in _lines(labels)]
    names = [line.rsplit(" ", 1)[0] for line in _lines(categories)]
    with reading(labels):
        y = np.array([int(number) for _, number in lines], dtype=np.int64)
    files = _files(folder, [name for name, _ in lines])
    return files, _checked_labels(y, n_classes, labels), tuple(names)


def labelled(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Parse a folder of images, which a CSV file lists: the columns ``file`` and ``label``."""
    folder, labels = paths
    header, *lines = _lines(labels)
    if header != "file,label" or not lines:
        raise CorruptData(f"{labels} does not list images after the line 'file,label'")
    pairs = [line.rsplit(",", 1) for line in lines]
    with reading(labels):
        y = np.array([int(number) for _, number in pairs], dtype=np.int64)
    return _files(folder, [name for name, _ in pairs]), _checked_labels(y, n_classes, labels), None


def food101(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Parse a folder of images for each class; the lists in ``meta`` name the images of a split."""
    folder, meta = paths
    names = _lines(meta / "classes.txt")
    number = {name: i for i, name in enumerate(names)}
    lines = _lines(meta / f"{split}.txt")
    y = _numbered([line.split("/")[0] for line in lines], number, meta / f"{split}.txt")
    files = _files(folder, [f"{line}.jpg" for line in lines])
    return files, _checked_labels(y, n_classes, meta / "classes.txt"), tuple(names)


def imagenet(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Parse ImageNet; its classes are in the order of their WordNet ids.

    Training images lie in folders named after these ids. Validation images are labelled by a list,
    in the order of their names, in any folder.
    """
    folder, devkit = paths
    meta, truth = devkit / "meta.mat", devkit / "ILSVRC2012_validation_ground_truth.txt"
    classes = _imagenet_classes(meta)
    images = _images(folder)
    if split == "train":
        number = {str(wordnet): i for i, wordnet in enumerate(classes["WNID"])}
        y = _numbered([name.split("/")[0] for name in images], number, folder)
    else:
        images.sort(key=lambda name: name.rpartition("/")[2])
        number = {str(class_id): i for i, class_id in enumerate(classes["ILSVRC2012_ID"])}
        y = _numbered(_lines(truth), number, truth)
        if len(images) != len(y):
            raise CorruptData(f"{folder} has {len(images):,} images, and {truth} {len(y):,} labels")
    names = tuple(str(words) for words in classes["words"])
    return ImageFiles(folder / name for name in images), _checked_labels(y, n_classes, meta), names


def _imagenet_classes(meta: Path) -> np.ndarray:
    """The leaves of the tree of classes, in the order of their WordNet ids."""
    from scipy.io import loadmat

    with reading(meta):
        synsets = loadmat(meta, squeeze_me=True, variable_names=("synsets",))["synsets"]
        leaves: np.ndarray = synsets[synsets["num_children"].astype(int) == 0]
        return leaves[np.argsort(leaves["WNID"].astype(str), kind="stable")]


def unlabelled(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Parse all images of a folder, in the order of their names, without labels."""
    (folder,) = paths
    return ImageFiles(folder / name for name in _images(folder)), None, None


def _images(folder: Path) -> list[str]:
    """The names of all images of a folder, in order."""
    names = [name for name in listed(folder) if name.lower().endswith(IMAGE_SUFFIXES)]
    if not names:
        raise CorruptData(f"{folder} has no images")
    return names


def _lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    with reading(path):
        lines = [line.strip() for line in _content(path).decode().split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise CorruptData(f"{path} is empty")
    return lines


def _numbered(
    names: list[str], number: dict[str, int], path: Path, kind: str = "class"
) -> np.ndarray:
    """Return the numbers of classes, or of the values of a column."""
    for row, name in enumerate(names):
        if name not in number:
            raise CorruptData(f"{path} has {name!r} in row {row}, which is no {kind}")
    return np.array([number[name] for name in names], dtype=np.int64)


def _files(folder: Path, names: list[str]) -> ImageFiles:
    """Return the images that a list names, which must be in the folder."""
    available = listed(folder)
    for name in names:
        if name not in available:
            raise CorruptData(f"{folder} has no image {name!r}, which its list names")
    return ImageFiles(folder / name for name in names)


FORMATS: dict[str, Callable[..., Parsed]] = {
    parse.__name__: parse
    for parse in (
        table,
        keel,
        idx,
        cifar,
        svhn,
        npz,
        places365,
        labelled,
        food101,
        imagenet,
        unlabelled,
    )
}
