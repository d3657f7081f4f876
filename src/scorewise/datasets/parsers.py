"""Tables and small images, in the formats of their publishers."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from scorewise.datasets.damage import checked_labels, content, damage_told
from scorewise.datasets.registry import Parsed, Parser
from scorewise.errors import CorruptData

_MOST_BYTES = 1 << 30  # of what a file holds unpacked, far more than any set of ours
_IDX_IMAGES, _IDX_LABELS = 0x803, 0x801
_SIDE = 28  # of MNIST's images
_CIFAR_PIXELS = 3 * 32 * 32


def table(columns: int, first_label: int) -> Parser:
    """Numbers with commas between; the last column is the label. All files are pooled."""

    def parse(paths: list[Path], split: str, n_classes: int) -> Parsed:
        parts = [_numbers(path, columns) for path in paths]
        labels = [
            checked_labels(part[:, -1], n_classes, path, first_label)
            for part, path in zip(parts, paths, strict=True)
        ]
        x = np.concatenate([part[:, :-1] for part in parts]).astype(np.float64)
        return x, np.concatenate(labels), None

    return parse


def _numbers(path: Path, columns: int) -> np.ndarray:
    text = content(path, _MOST_BYTES)
    if not text.strip():
        raise CorruptData(f"{path} is empty")
    with damage_told(path):
        lines = io.TextIOWrapper(io.BytesIO(text), "ascii")
        with warnings.catch_warnings(action="error"):  # NumPy warns of fractions, and cuts them off
            found = np.loadtxt(lines, np.int32, delimiter=",", comments=None, ndmin=2)
    if found.shape[1] != columns:
        raise CorruptData(f"{path} has {found.shape[1]} columns instead of {columns}")
    return found


def idx(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Read MNIST's format: a file of images, and one of labels."""
    images = _idx_array(paths[0], _IDX_IMAGES, (_SIDE, _SIDE))
    labels = _idx_array(paths[1], _IDX_LABELS, ())
    _same_length(len(images), len(labels), paths[1])
    return images[:, None], checked_labels(labels, n_classes, paths[1]), None


def _idx_array(path: Path, magic: int, shape: tuple[int, ...]) -> np.ndarray:
    """Header: what it is, how many, and the shape of each, as 4 bytes with the highest first."""
    data = content(path, _MOST_BYTES)
    header = np.frombuffer(data[: 4 * (2 + len(shape))], ">u4") if len(data) >= 8 else np.empty(0)
    if header.size < 2 or header[0] != magic:
        raise CorruptData(f"{path} does not begin as an IDX file with the number {magic:#x} does")
    found = tuple(int(n) for n in header[2:])
    if found != shape:
        raise CorruptData(f"{path} has images of {found} instead of {shape} pixels")
    rows, start = int(header[1]), 4 * header.size
    expected = start + rows * int(np.prod(shape, dtype=np.int64))
    if len(data) != expected:
        raise CorruptData(f"{path} has {len(data):,} bytes instead of {expected:,}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(rows, *shape).copy()


def cifar(label_bytes: int) -> Parser:
    """Records of label bytes, of which the last counts, and 3 × 32 × 32 pixels."""
    length = label_bytes + _CIFAR_PIXELS

    def parse(paths: list[Path], split: str, n_classes: int) -> Parsed:
        images, labels = [], []
        for path in paths:
            data = content(path, _MOST_BYTES)
            if not data or len(data) % length:
                raise CorruptData(
                    f"{path} has {len(data):,} bytes, which is no number of records of {length:,}"
                )
            records = np.frombuffer(data, np.uint8).reshape(-1, length)
            labels.append(checked_labels(records[:, label_bytes - 1], n_classes, path))
            images.append(records[:, label_bytes:])
        return np.concatenate(images).reshape(-1, 3, 32, 32), np.concatenate(labels), None

    return parse


def svhn(paths: list[Path], split: str, n_classes: int) -> Parsed:
    """Read a MAT file with X (32, 32, 3, n) and y (n, 1), where 10 stands for the digit 0."""
    from scipy.io import loadmat

    (path,) = paths
    with damage_told(path):
        found = loadmat(path, variable_names=("X", "y"))
        x, y = found["X"], found["y"].reshape(-1)
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3):
        raise CorruptData(f"{path} has X of {x.dtype} {x.shape} instead of uint8 (32, 32, 3, n)")
    _same_length(x.shape[-1], len(y), path)
    labels = checked_labels(y, n_classes, path, first=1) + 1
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), labels % 10, None


def npz(names: Callable[[str], tuple[str, str]], side: int, channels_last: bool) -> Parser:
    """Images and labels in a .npz file, by the names that a split has there."""

    def parse(paths: list[Path], split: str, n_classes: int) -> Parsed:
        (path,) = paths
        x, y = _npz_arrays(path, names(split))
        if x.ndim == 3:  # grey
            x = x[:, None]
        elif channels_last and x.ndim == 4:
            x = x.transpose(0, 3, 1, 2)
        if (
            x.dtype != np.uint8
            or x.ndim != 4
            or x.shape[1] not in (1, 3)
            or x.shape[2:] != (side, side)
        ):
            raise CorruptData(f"{path} has images of {x.dtype} {x.shape}, not {side} × {side}")
        _same_length(len(x), y.size, path)
        labels = checked_labels(y.reshape(-1), n_classes, path)
        return np.ascontiguousarray(x), labels, None

    return parse


def _npz_arrays(path: Path, names: tuple[str, str]) -> list[np.ndarray]:
    """Arrays without pickled objects, which could do anything."""
    with damage_told(path):
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(info.file_size for info in archive.infolist())
        if unpacked > _MOST_BYTES:
            raise CorruptData(f"{path} would take {unpacked:,} bytes unpacked, which is too much")
        with np.load(path, allow_pickle=False) as arrays:
            return [arrays[name] for name in names]


def _same_length(images: int, labels: int, path: Path) -> None:
    if images != labels:
        raise CorruptData(f"{path} has {labels:,} labels for {images:,} images")
