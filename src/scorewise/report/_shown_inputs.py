"""The inputs of the rows, images or texts, for the page to show the most uncertain of them."""

from __future__ import annotations

import csv
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from scorewise._array import to_numpy
from scorewise._text import quoted, quoted_names
from scorewise.errors import InvalidFile, InvalidInput

Inputs = np.ndarray | list[str]  # images (N, H, W) or (N, H, W, C), or texts

_ID_NAMES = {"id", "ids", "row", "row_id", "sample_id", "index"}
_TEXT_NAMES = {"text", "texts"}
_IMAGE_NAMES = {"images", "image", "inputs", "x"}
_CHANNELS = {1: 0, 3: 2, 4: 6}  # PNG's colour type, by the number of channels
_MOST_PIXELS = 160  # along a side of a thumbnail


# -- read ------------------------------------------------------------------------------------------


def read_inputs(path: str | PathLike[str], ids: Any = None, *, n_rows: int | None = None) -> Inputs:
    r"""Return the inputs of all rows from a file: images, or texts.

    Images are an array ``(N, H, W)`` or ``(N, H, W, C)`` in an ``.npy`` or ``.npz`` file. Texts are
    the column ``text`` of a CSV file, or its only column besides the ids.

    Parameters
    ----------
    path : path
    ids : array (N,), optional
        The ids of the predictions; the rows of the file are put in this order. If only one of
        the two has ids, these must be the numbers of the rows, from 0.
    n_rows : int, optional
        The number of rows of the predictions, to check that each has an input.

    Returns
    -------
    array or list of str
        For ``inputs`` of :func:`scorewise.write_report`.

    Raises
    ------
    InvalidFile
        If the file has no images or texts, an id is missing, or only one of file and predictions
        has ids.
    InvalidInput
        If there are not ``n_rows`` inputs, or the array has no images.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from scorewise.report import read_inputs
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.csv"
    >>> _ = path.write_text("id,text\n7,a late train\n3,no train\n")
    >>> read_inputs(path, ids=[3, 7])
    ['no train', 'a late train']
    """
    path = Path(path)
    readers: dict[str, Callable[[Path], tuple[Inputs, Any]]] = {
        ".csv": _read_csv,
        ".npz": _read_npz,
        ".npy": _read_npy,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidFile(
            f"{path.name!r} has no inputs that can be shown; save images as .npz or .npy, or texts "
            "as .csv"
        )
    try:
        inputs, own_ids = reader(path)
    except InvalidInput:
        raise
    except ValueError as error:  # of NumPy, such as for Python objects
        raise InvalidFile(
            f"{path.name!r} cannot be read: {error}; save images as numbers"
        ) from None
    if ids is None and own_ids is None:
        return inputs if n_rows is None else checked_inputs(inputs, n_rows)
    if own_ids is None:
        own_ids = _row_numbers(ids, path.name, "the predictions have ids, and the inputs have none")
    elif ids is None:
        ids = _row_numbers(own_ids, path.name, "the inputs have ids, and the predictions have none")
    inputs = _in_order(inputs, own_ids, ids, path.name)
    return inputs if n_rows is None else checked_inputs(inputs, n_rows)


def _row_numbers(ids: Any, file_name: str, problem: str) -> list[str]:
    """Return the numbers of the rows, which are the missing ids if the other ids are these."""
    numbers = [str(i) for i in range(len(ids))]
    if sorted(map(str, ids)) != sorted(numbers):
        raise InvalidFile(
            f"{file_name!r}: {problem}, so the rows cannot be matched; give both the same ids "
            "(a column or array 'ids'), or none where the rows are in the same order"
        )
    return numbers


def _in_order(inputs: Inputs, own_ids: Any, ids: Any, file_name: str) -> Inputs:
    """Return the inputs in the order of ``ids``."""
    places = {str(own_id): i for i, own_id in enumerate(own_ids)}
    if len(places) < len(own_ids):
        raise InvalidFile(f"{file_name!r} has an id twice")
    rows = [places.get(str(name), -1) for name in ids]
    if -1 in rows:
        raise InvalidFile(f"{file_name!r} has no input for row {rows.index(-1)} of the predictions")
    return inputs[rows] if isinstance(inputs, np.ndarray) else [inputs[i] for i in rows]


def _read_csv(path: Path) -> tuple[list[str], list[str] | None]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            file.seek(0)
            separator = max(",;\t", key=header.count)
            heading, *lines = [line for line in csv.reader(file, delimiter=separator) if line]
    except (csv.Error, UnicodeDecodeError, ValueError) as error:
        raise InvalidFile(f"{path.name!r} is not a valid CSV file: {error}") from None
    names = [name.strip().lower() for name in heading]
    for i, line in enumerate(lines):
        if len(line) != len(heading):
            raise InvalidFile(
                f"{path.name!r} has {len(line)} columns in row {i}, not {len(heading)}; put texts "
                "that contain separators in quotes"
            )
    others = [k for k, name in enumerate(names) if name not in _ID_NAMES]
    texts = [k for k in others if names[k] in _TEXT_NAMES] or others
    if len(texts) != 1:
        raise InvalidFile(
            f"{path.name!r} has the columns {quoted_names(heading)}; call the one to show 'text'"
        )
    ids = next((k for k, name in enumerate(names) if name in _ID_NAMES), None)
    return [line[texts[0]] for line in lines], None if ids is None else [x[ids] for x in lines]


def _read_npz(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    with np.load(path) as archive:
        ids = next((name for name in archive.files if name.lower() in _ID_NAMES), None)
        others = [name for name in archive.files if name != ids]
        images = [name for name in others if name.lower() in _IMAGE_NAMES] or others
        if len(images) != 1:
            raise InvalidFile(
                f"{path.name!r} has the arrays {quoted_names(archive.files)}; call the one to show "
                "'images'"
            )
        return archive[images[0]], None if ids is None else archive[ids]


def _read_npy(path: Path) -> tuple[np.ndarray, None]:
    return np.load(path, mmap_mode="r"), None


# -- check -----------------------------------------------------------------------------------------


def checked_inputs(inputs: Any, n_rows: int) -> Inputs:
    """Return images as an array with channels last, or texts as a list; one for each row."""
    if isinstance(inputs, str | PathLike):
        raise InvalidInput(f"inputs is {quoted(str(inputs))}; pass read_inputs(path) for a file")
    if isinstance(next(iter(inputs), ""), str):
        texts = list(inputs)
        wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
        if wrong is not None:
            raise InvalidInput(f"inputs[{wrong}] is no text, but the others are")
        _check_length(len(texts), n_rows)
        return texts
    if not hasattr(inputs, "dtype"):
        raise InvalidInput("inputs must be an array of images (N, H, W) or (N, H, W, C), or texts")
    values = to_numpy(inputs)
    if values.ndim == 4 and values.shape[-1] not in _CHANNELS and values.shape[1] in _CHANNELS:
        values = np.moveaxis(values, 1, -1)  # as torch has them
    is_image = values.ndim == 3 or (values.ndim == 4 and values.shape[-1] in _CHANNELS)
    if not is_image or 0 in values.shape[1:] or values.dtype.kind not in "buif":
        raise InvalidInput(
            f"inputs have shape {values.shape} and dtype {values.dtype}; images are numbers "
            "(N, H, W) or (N, H, W, C) with 1, 3 or 4 channels"
        )
    _check_length(len(values), n_rows)
    return values


def _check_length(n: int, n_rows: int) -> None:
    if n != n_rows:
        raise InvalidInput(f"there are {n:,} inputs for {n_rows:,} rows; pass one for each row")


# -- show ------------------------------------------------------------------------------------------


def image_uris(images: np.ndarray, rows: Sequence[int]) -> list[str]:
    """Return thumbnails of these rows as PNG in data URIs.

    Bytes are shown as they are, other numbers from 0 to 1 if they are, else from the smallest to
    the largest among these rows.
    """
    thumbnails = [_thumbnail(np.asarray(images[i])) for i in rows]
    if images.dtype != np.uint8 and thumbnails:
        low = min(0.0, *(float(x.min()) for x in thumbnails))
        high = max(1.0, *(float(x.max()) for x in thumbnails))
        thumbnails = [255 * (x - low) / (high - low) for x in thumbnails]
    return [
        f"data:image/png;base64,{b64encode(_png(np.rint(x).astype(np.uint8))).decode()}"
        for x in thumbnails
    ]


def _thumbnail(image: np.ndarray) -> np.ndarray:
    """Return an image (h, w, C) of at most ``_MOST_PIXELS`` a side, by the means of blocks."""
    pixels = np.atleast_3d(image).astype(np.float64)
    if not np.isfinite(pixels).all():
        raise InvalidInput("an input has values that are not finite, which no image can show")
    side = -(-max(pixels.shape[:2]) // _MOST_PIXELS)
    for axis in (0, 1):
        starts = np.arange(0, pixels.shape[axis], side)
        sizes = np.diff(np.append(starts, pixels.shape[axis]))
        sums = np.add.reduceat(pixels, starts, axis=axis)
        pixels = sums / np.expand_dims(sizes, axis=(1 - axis, 2))
    return pixels


def _png(pixels: np.ndarray) -> bytes:
    """Encode bytes (h, w, C) as PNG."""
    height, width, channels = pixels.shape
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))  # each begins with "no filter"
    head = struct.pack(">IIBBBBB", width, height, 8, _CHANNELS[channels], 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
