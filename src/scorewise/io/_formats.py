"""Which file is read and written how."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from scorewise._files import replacing
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.io._predictions import Predictions, with_name

# By suffix: a module with read(path, class_names) and write(predictions, path), and the extra that
# it needs. A path without a suffix is a folder of Parquet files.
_FORMATS = {
    ".npz": ("_npz", None),
    ".npy": ("_npy", None),
    ".csv": ("_csv", None),
    ".parquet": ("_parquet", "io"),
    ".arrow": ("_arrow_ipc", "io"),
    ".feather": ("_arrow_ipc", "io"),
    ".safetensors": ("_safetensors", "io"),
    "": ("_parquet_folder", "io"),
}


def read_predictions(
    path: str | os.PathLike[str], class_names: Sequence[str] | None = None
) -> Predictions:
    """Predictions from a file, or from a folder of Parquet files.

    Use it for whatever was saved: what it is follows from the name.

    ==================  ============================================================================
    ``.npz``            arrays ``probs`` (N, M, K) or ``logits``; optionally ``labels``, ``ids``,
                        ``class_names``, ``weights``
    ``.npy``            one array (N, M, K) of probabilities
    ``.parquet``        a column ``probs`` or ``logits`` of tensors (``arrow.fixed_shape_tensor``)
                        or of nested lists, or one column per member and class, such as
                        ``probs_0_1`` or ``tree3_cat``; optionally ``labels``, ``ids``, ``weights``
    ``.arrow``          the same as an Arrow file (or ``.feather``)
    a folder            Parquet files, in the order of their names
    ``.csv``            one column per member and class, for small things
    ``.safetensors``    tensors named as in ``.npz``
    ==================  ============================================================================

    Nothing is ever unpickled. Parquet and Arrow files, and NPY and NPZ that are not compressed, are
    read as far as rows are asked for, by ``chunks()``: files larger than memory will do.

    Parameters
    ----------
    path : str or path
    class_names : sequence of str, optional
        Names of the classes, in the order of the predictions, where the file has none: labels may
        then be names.

    Returns
    -------
    Predictions

    Raises
    ------
    InvalidInput
        If the file is not what it should be; the message says what is wrong and where.
    FileNotFoundError
        If there is none.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.npz"
    >>> sw.write_predictions(path, np.full((4, 3, 2), 0.5), labels=[0, 1, 1, 0], ids=list("abcd"))
    >>> kept = sw.read_predictions(path)
    >>> kept
    Predictions(4 rows, 3 members, 2 classes, float64, with labels, ids)
    >>> kept.ids[kept.labels == 1]
    array(['b', 'c'], dtype=object)
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    read = _module("" if path.is_dir() else path.suffix, path).read
    try:
        by_hand = None if class_names is None else tuple(str(name) for name in class_names)
        source, names, weights = read(path, by_hand)
        if by_hand is not None and names != by_hand:
            raise InvalidInput("class_names are given, and the file has others of its own")
        return Predictions.of(source, names, weights, path.name)
    except InvalidInput as error:
        raise with_name(error, path.name) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path.name!r} is damaged: {error}") from None


def write_predictions(
    path: str | os.PathLike[str],
    probs: Any = None,
    *,
    labels: Any = None,
    ids: Any = None,
    class_names: Sequence[str] | None = None,
    weights: Any = None,
    logits: Any = None,
) -> None:
    """Write predictions to a file, whole or not at all.

    Use it to keep what a model said; :func:`scorewise.read_predictions` gives back exactly that.
    Rows that come from a file themselves are copied a part at a time to Parquet, Arrow, CSV and
    NPY, so that files larger than memory can be converted.

    Parameters
    ----------
    path : str or path
        Its suffix decides what is written; see :func:`scorewise.read_predictions`. Without a
        suffix, a folder of Parquet files.
    probs : array (N, M, K), Samples or Predictions
        Member probabilities, or all of it.
    labels, ids, class_names, weights, logits
        As for :class:`scorewise.Predictions`.

    Raises
    ------
    InvalidInput
        If the predictions do not fit each other or the kind of file.
    OSError
        If the file cannot be written; what was there before is then still there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> sw.write_predictions(folder / "test.npy", np.full((4, 3, 2), 0.5))
    >>> sw.write_predictions(folder / "test.parquet", sw.read_predictions(folder / "test.npy"))
    >>> sw.read_predictions(folder / "test.parquet").shape
    (4, 3, 2)
    """
    path = Path(path)
    beside = {
        "labels": labels,
        "ids": ids,
        "class_names": class_names,
        "weights": weights,
        "logits": logits,
    }
    given = [name for name, value in beside.items() if value is not None]
    if isinstance(probs, Predictions):
        if given:
            raise InvalidInput(f"{', '.join(given)}: the predictions have their own already")
        kept = probs
    elif isinstance(probs, Samples):
        if weights is not None:
            raise InvalidInput("weights: the Samples have their own already")
        kept = Predictions(probs.probs, **beside | {"weights": probs.weights})
    else:
        kept = Predictions(probs, **beside)
    write = _module(path.suffix, path).write
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    if path.is_dir():
        _check_folder(path)
    with replacing(path, folder=not path.suffix) as partial:
        write(kept, partial)


def _check_folder(path: Path) -> None:
    """Refuse to put anything in the place of a folder that holds more than Parquet files."""
    if path.suffix:
        raise InvalidInput(f"{str(path)!r} is a folder; a file cannot take its place")
    other = next((x for x in path.iterdir() if x.suffix != ".parquet" or x.is_dir()), None)
    if other is not None:
        raise InvalidInput(
            f"the folder {str(path)!r} holds {other.name!r}, and would be replaced; choose another"
        )


def _module(suffix: str, path: Path) -> Any:
    """The module for a kind of file."""
    if suffix.lower() not in _FORMATS:
        known = ", ".join(name for name in _FORMATS if name)
        raise InvalidInput(
            f"{path.name!r} is no kind of file that is known; predictions are in {known}, or in a "
            "folder of Parquet files"
        )
    name, extra = _FORMATS[suffix.lower()]
    try:
        return import_module(f"scorewise.io.{name}")
    except ModuleNotFoundError as error:
        if extra is None:
            raise
        needed = f"files like {path.name!r} need {error.name}: pip install 'scorewise[{extra}]'"
        raise ImportError(needed) from error
