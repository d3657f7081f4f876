"""What annotators see of rows of predictions: texts, or paths or URLs of images."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._text import did_you_mean, quoted, quoted_names
from scorewise.errors import InvalidInput
from scorewise.io._formats import format_of, require_extra
from scorewise.io._predictions import Predictions, with_file_name
from scorewise.io._read_options import ANSWER_IDS, name_of


class TextColumn:
    r"""A column of texts, or of paths or URLs, for the rows of predictions.

    Use it to show rows to annotators, with :func:`scorewise.acquire.write_label_tasks`. The column
    is in the file of the predictions or in another one, whose rows are matched by id, or by their
    order if neither has ids. Parquet and Arrow files may be larger than memory.

    Parameters
    ----------
    path : str or path
        A ``.csv``, ``.parquet``, ``.arrow``, ``.npz`` or ``.jsonl`` file, or a folder of Parquet
        files.
    column : str
        The name of the column, array or field.
    predictions : Predictions
        Of all rows, as :func:`scorewise.read_predictions` returned them.
    ids : str, optional
        The column of the ids, if there is one of this name; otherwise ``custom_id``, ``ids``,
        ``id``, ``row_id`` or ``sample_id``.
    id_separator : str, optional
        What separates row and member in the ids of answers from which the predictions come.

    Raises
    ------
    InvalidInput
        If there is no such column, or rows cannot be matched.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.csv"
    >>> _ = path.write_text("id,text\n7,a late train\n3,no train\n")
    >>> predictions = sw.io.Predictions(np.full((2, 3, 2), 0.5), ids=[3, 7])
    >>> sw.io.TextColumn(path, "text", predictions).take([1, 0])
    ['a late train', 'no train']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        column: str,
        predictions: Predictions,
        *,
        ids: str | None = None,
        id_separator: str | None = None,
    ) -> None:
        self._path, self._column, self._predictions = Path(path), column, predictions
        file_format = format_of(self._path)
        name = self._path.name
        if file_format.table is None:
            raise InvalidInput(f"{name!r} has no columns of text; a .csv or .parquet file may")
        try:
            with require_extra(file_format, self._path):
                self._table = file_format.table(self._path)
            names = self._table.names
            if (repeated := validate.first_repeated(names)) is not None:
                raise InvalidInput(f"there are two columns {quoted(repeated)}")
            if column not in names:
                raise InvalidInput(
                    f"there is no column {quoted(column)}, only {quoted_names(names)}; "
                    f"{did_you_mean(column, names)}".rstrip("; ")
                )
            own_path = predictions.path
            is_own = own_path is not None and own_path.resolve() == self._path.resolve()
            id_column = ids if ids in names else name_of(names, ANSWER_IDS, None)
            if is_own and (predictions.ids is None or not file_format.has_answers):
                id_column = None  # the rows are those of the predictions, with or without ids
            elif (id_column is None) != (predictions.ids is None):
                raise InvalidInput(
                    "either it or the predictions have ids, and not both, so rows cannot be "
                    "matched; give both the same ids, or none if the rows are in the same order"
                )
        except InvalidInput as error:
            raise with_file_name(error, name) from None
        self._id_column, self._separator = id_column, id_separator if is_own else None

    def take(self, rows: Any) -> list[str]:
        """Return the texts of some rows.

        Parameters
        ----------
        rows : integer array (n,)
            Numbers of rows, from 0, in any order.

        Raises
        ------
        InvalidInput
            If a row has no text, or the file does not have the rows of the predictions.
        """
        numbers: list[int] = np.asarray(rows).tolist()
        ids = self._predictions.ids
        try:
            if self._id_column is None or ids is None:
                return _texts_of(numbers, self._by_number(), "row")
            return _texts_of([str(ids[i]) for i in numbers], self._by_id(self._id_column), "id")
        except InvalidInput as error:
            raise with_file_name(error, self._path.name) from None

    def _by_number(self) -> Iterator[tuple[int, Any]]:
        """Yield each row's number and value; raise at the end if there are more or fewer rows."""
        n, n_rows = 0, len(self._predictions)
        for n, (value,) in enumerate(self._table.rows([self._column]), 1):
            yield n - 1, value
        if n != n_rows:
            raise InvalidInput(f"it has {n:,} rows, and the predictions have {n_rows:,}")

    def _by_id(self, id_column: str) -> Iterator[tuple[str, Any]]:
        """Yield each row's id, without the member that follows the separator, and its value."""
        for row_id, value in self._table.rows([id_column, self._column]):
            text = str(row_id)
            yield text.rpartition(self._separator)[0] if self._separator else text, value


def _texts_of(
    keys: Sequence[int] | Sequence[str], values: Iterator[tuple[Any, Any]], noun: str
) -> list[str]:
    """Return the texts with these keys, from pairs of a key and a value."""
    wanted = set(keys)
    texts: dict[Any, Any] = {}
    for key, value in values:
        if key in wanted and texts.setdefault(key, value) != value:
            raise InvalidInput(f"the {noun} {quoted(key)} has two texts")
    for key in keys:
        if key not in texts:
            raise InvalidInput(f"there is no {noun} {quoted(key)}")
        if not isinstance(texts[key], str) or not texts[key]:
            raise InvalidInput(
                f"{noun} {quoted(key)} has {quoted(texts[key])} where its text, path or URL should "
                "be"
            )
    return [texts[key] for key in keys]
