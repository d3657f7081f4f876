"""The registry of file formats, and reading and writing by the suffix of a path."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from scorewise._fields import class_text
from scorewise._files import check_output_path, replacing
from scorewise._text import quoted_names
from scorewise.distributions import Samples
from scorewise.errors import InvalidFile, InvalidInput, Remedy
from scorewise.io._predictions import Predictions, with_file_name
from scorewise.io._read_options import ReadOptions


@dataclass(frozen=True)
class TableReader:
    """The columns of a file with whatever is in them, texts and paths too.

    Attributes
    ----------
    names : sequence of str
        Of the columns.
    rows : callable
        ``rows(names)`` yields the values of some columns, a tuple for each row.
    """

    names: Sequence[str]
    rows: Callable[[Sequence[str]], Iterator[tuple[Any, ...]]]


@dataclass(frozen=True)
class FileFormat:
    """A file format: how predictions are read and written.

    Attributes
    ----------
    suffixes : tuple of str
        Of the files, such as ``(".parquet",)``; ``""`` is for folders.
    read : callable
        ``read(path, options)`` returns :class:`Predictions`, read as the user's
        :class:`ReadOptions` say.
    write : callable, optional
        ``write(predictions, path)`` writes a new file; nothing exists at the path. A format without
        it can only be read.
    extra : str, optional
        The optional dependencies of scorewise that it needs.
    is_ours : callable, optional
        Of a format of folders: ``is_ours(path)`` returns whether ``write`` has made a folder and
        nobody has added to it, so that it may be replaced.
    has_answers : bool
        Whether the file has answers of a text classifier: ``class_names`` are then what to look
        for in them, and not what the predictions must have.
    table : callable, optional
        ``table(path)`` returns a :class:`TableReader`, if files may have columns of text.
    """

    suffixes: tuple[str, ...]
    read: Callable[[Path, ReadOptions], Predictions]
    write: Callable[[Predictions, Path], None] | None = None
    extra: str | None = None
    is_ours: Callable[[Path], bool] | None = None
    has_answers: bool = False
    table: Callable[[Path], TableReader] | None = None


@cache
def _formats() -> dict[str, FileFormat]:
    """Return all formats by suffix: the entries of ``FORMATS`` in all modules ``_format_….py``.

    Such a module imports the library it needs, such as pyarrow, within its functions, so that the
    other formats can be used where that library is not installed.
    """
    folder = str(Path(__file__).parent)
    modules = [module.name for module in pkgutil.iter_modules([folder], "scorewise.io.")]
    return {
        suffix: file_format
        for name in modules
        if name.startswith("scorewise.io._format_")
        for file_format in import_module(name).FORMATS
        for suffix in file_format.suffixes
    }


def read_predictions(
    path: str | os.PathLike[str],
    class_names: Sequence[Any] | None = None,
    *,
    probs: str | None = None,
    labels: str | None = None,
    ids: str | None = None,
    from_logits: bool | None = None,
    member_axis: int | None = None,
    one_model: bool = False,
    labels_are: str | None = None,
    tokens: Mapping[Any, str | Sequence[str]] | None = None,
    missing: str | None = None,
    id_separator: str | None = None,
    position: int | None = None,
) -> Predictions:
    """Return the predictions in a file, or in a folder of Parquet files.

    The suffix of the path determines the format.

    ==================  ============================================================================
    ``.npz``            arrays ``probs`` (N, M, K) or ``logits``; optionally ``labels``, ``ids``,
                        ``class_names``, ``weights``
    ``.npy``            one array (N, M, K) of probabilities
    ``.parquet``        a column ``probs`` or ``logits`` of tensors (``arrow.fixed_shape_tensor``)
                        or of nested lists, or one column per member and class, such as
                        ``probs_0_1`` or ``tree3_cat``; optionally ``labels``, ``ids``, ``weights``
    ``.arrow``          the same as an Arrow file (or ``.feather``)
    a folder            Parquet files, in the order of their names
    ``.csv``            one column per member and class, for small files
    ``.safetensors``    tensors named as in ``.npz``
    ``.jsonl``          responses of LLMs with log-probabilities, or outputs of Hugging Face's
                        pipelines, as for :func:`scorewise.read_logprobs`; ``class_names`` are the
                        labels, ``labels`` and ``ids`` are fields of the lines
    ==================  ============================================================================

    Nothing is ever unpickled. Rows of Parquet and Arrow files, and of NPY and NPZ files that are
    not compressed, are read as they are used, by ``chunks()``, so that a file may be larger than
    memory.

    Parameters
    ----------
    path : str or path
    class_names : sequence of str or int, optional
        Names of the classes, in the order of the predictions, where the file has none: labels may
        then be names.
    probs, labels, ids : str, optional
        The array or column with the predictions, the labels and the ids; by default, one of the
        names above, or another that means the same (``preds``, ``y_true``, ``sample_id``). If there
        is one column per member and class, ``probs`` is what their names begin with.
    from_logits : bool, optional
        Whether the predictions are logits; by default, if they are called so. ``probs`` names
        probabilities, unless this is True.
    member_axis : int, optional
        The axis of the members in the array as stored: 0 for (M, N, K), 1 for (N, M, K), the
        default, 2 for (N, K, M). Arrays are not copied.
    one_model : bool
        Whether the predictions are those of one model, (N, K), without members.
    labels_are : {"names", "indices"}, optional
        What labels are that may be either: class names that are whole numbers, or class indices.
    tokens : mapping, optional
        Of ``.jsonl``: from classes to their tokens, where these differ from the names.
    missing, id_separator, position : optional
        Of ``.jsonl``, as for :func:`scorewise.read_logprobs`.

    Returns
    -------
    Predictions

    Raises
    ------
    InvalidInput
        If the contents are invalid, or can be read in more than one way; the message says what is
        wrong, where, and what to pass.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.npz"
    >>> sw.write_predictions(path, np.full((4, 3, 2), 0.5), labels=[0, 1, 1, 0], ids=list("abcd"))
    >>> predictions = sw.read_predictions(path)
    >>> predictions
    Predictions(4 rows, 3 members, 2 classes, float64, with labels, ids)
    >>> predictions.ids[predictions.labels == 1]
    array(['b', 'c'], dtype=object)
    >>> np.savez(path, preds=np.full((3, 4, 2), 0.5), targets=[0, 1, 1, 0])  # members first
    >>> sw.read_predictions(path, member_axis=0)
    Predictions(4 rows, 3 members, 2 classes, float64, with labels)
    """
    options = ReadOptions(
        None if class_names is None else tuple(map(class_text, class_names)),
        probs,
        labels,
        ids,
        from_logits,
        member_axis,
        one_model,
        labels_are,
        tokens,
        missing,
        id_separator,
        position,
    )
    return read_as(Path(path), options)


def read_as(path: Path, options: ReadOptions) -> Predictions:
    """Return the predictions in a file, read as the options say."""
    file_format = format_of(path)
    if not file_format.has_answers:
        refuse_answer_options(options, path.name)
    try:
        with require_extra(file_format, path):
            predictions = file_format.read(path, options)
    except InvalidInput as error:
        raise with_file_name(error, path.name) from None
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path.name!r} is damaged: {error}") from None
    if not file_format.has_answers:
        check_class_names(predictions, options.class_names, path.name)
    predictions.path, predictions.labels_are = path.absolute(), options.labels_are
    return predictions


def check_class_names(predictions: Predictions, names: Sequence[str] | None, file: str) -> None:
    """Raise if the file has other classes than the user says, or in another order."""
    if names is not None and predictions.class_names != names:
        raise InvalidFile(
            f"{file!r} has the classes {quoted_names(predictions.class_names or ())}, and "
            f"class_names are {quoted_names(names)}"
        )


def refuse_answer_options(options: ReadOptions, file: str) -> None:
    """Raise if the options are for responses, and the file has predictions."""
    for name in ("tokens", "missing", "id_separator", "position"):
        if getattr(options, name) is not None:
            raise InvalidInput(
                f"{name} is for answers of text classifiers in .jsonl files, and {file!r} has "
                "predictions",
                Remedy(name, None),
            )


def write_predictions(
    path: str | os.PathLike[str],
    probs: Any = None,
    *,
    labels: Any = None,
    ids: Any = None,
    class_names: Sequence[str] | None = None,
    weights: Any = None,
    logits: Any = None,
    labels_are: str | None = None,
) -> None:
    """Write predictions to a file, completely or not at all.

    :func:`scorewise.read_predictions` returns exactly what was written. Rows that come from a
    file are copied a chunk at a time to Parquet, Arrow, CSV and NPY, so that files larger than
    memory can be converted.

    Parameters
    ----------
    path : str or path
        Its suffix determines the format; see :func:`scorewise.read_predictions`. Without a suffix,
        a folder of Parquet files.
    probs : array (N, M, K), Samples or Predictions
        Member probabilities, or Predictions with all fields.
    labels, ids, class_names, weights, logits, labels_are
        As for :class:`scorewise.io.Predictions`.

    Raises
    ------
    InvalidInput
        If the fields do not fit each other or the format, or the path is in the folder that the
        rows are read from.
    OSError
        If the file cannot be written; an older file is then unchanged.

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
    others = {
        "labels": labels,
        "ids": ids,
        "class_names": class_names,
        "weights": weights,
        "logits": logits,
        "labels_are": labels_are,
    }
    if isinstance(probs, Predictions):
        passed = [name for name, value in others.items() if value is not None]
        if passed:
            raise InvalidInput(
                f"{', '.join(passed)}: cannot be passed with Predictions, which have their own"
            )
        predictions = probs
    elif isinstance(probs, Samples):
        if weights is not None:
            raise InvalidInput("weights: cannot be passed with Samples, which have their own")
        if class_names is None:
            others["class_names"] = probs.classes_
        predictions = Predictions(probs.probs, **others | {"weights": probs.weights})
    else:
        predictions = Predictions(probs, **others)
    file_format = _format_by_suffix(path.suffix, path)
    if file_format.write is None:
        raise InvalidInput(f"{path.suffix} files can only be read; write {path.stem}.parquet, …")
    is_folder = file_format.is_ours is not None
    check_output_path(path, is_folder=is_folder)
    if predictions.path is not None and predictions.path.resolve() in path.resolve().parents:
        raise InvalidInput(
            f"{str(path)!r} is in the input {str(predictions.path)!r}, which would have its rows "
            "twice; write to another folder"
        )
    with require_extra(file_format, path):
        if is_folder and path.is_dir():
            _check_replaceable(path, file_format)
        with replacing(path, folder=is_folder) as partial:
            file_format.write(predictions, partial)


def prediction_suffixes() -> tuple[str, ...]:
    """Return the suffixes of all file formats.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> import scorewise as sw
    >>> ".parquet" in sw.io.prediction_suffixes()
    True
    """
    return tuple(suffix for suffix in _formats() if suffix)


def _check_replaceable(path: Path, file_format: FileFormat) -> None:
    """Raise if a folder that would be replaced holds anything that scorewise did not write."""
    with suppress(InvalidFile):  # a file that cannot be read is not ours
        if file_format.is_ours is not None and file_format.is_ours(path):
            return
    raise InvalidInput(
        f"the folder {str(path)!r} would be replaced, and holds files that "
        "scorewise.write_predictions did not write; choose another"
    )


def format_of(path: Path) -> FileFormat:
    """Return the format of a file, or of a folder, that exists."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    return _format_by_suffix("" if path.is_dir() else path.suffix, path)


def _format_by_suffix(suffix: str, path: Path) -> FileFormat:
    file_format = _formats().get(suffix.lower())
    if file_format is None:
        raise InvalidFile(
            f"{path.name!r} has an unknown format; known are "
            f"{', '.join(prediction_suffixes())} and folders of Parquet files"
        )
    return file_format


@contextmanager
def require_extra(file_format: FileFormat, path: Path) -> Iterator[None]:
    """Raise ImportError with the command to install a missing library."""
    try:
        yield
    except ModuleNotFoundError as error:
        if file_format.extra is None:
            raise
        raise ImportError(
            f"files like {path.name!r} need {error.name}: "
            f"pip install 'scorewise[{file_format.extra}]'"
        ) from error
