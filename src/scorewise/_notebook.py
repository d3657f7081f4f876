"""Results in notebooks: as HTML, as data frames and as displays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, to_numpy
from scorewise.errors import InvalidInput

FRAME_LIBRARIES = ("pandas", "polars")

# In the elements themselves, as a style sheet would apply to the whole page. Colours are those of
# the page, light or dark.
_PARAGRAPH = "margin:.3em 0;max-width:60em"
_TABLE = "border-collapse:collapse;margin:.4em 0"
_CELL = "padding:.2em .7em;white-space:nowrap;font-variant-numeric:tabular-nums;text-align:"
_HEADING = f"font-weight:bold;border-bottom:1px solid;{_CELL}"

Table = Sequence[Sequence[str]]


class TextInNotebooks:
    """A result that is text: in a notebook, each of its lines is a paragraph."""

    def _repr_html_(self) -> str:
        return html(*str(self).splitlines())


def html(*parts: str | Table, n_names: int = 1) -> str:
    """Return paragraphs and tables as HTML; everything in them is escaped.

    The first row of a table is its heading; the first ``n_names`` columns are names, the others
    numbers, as in :func:`scorewise._text.aligned`.

    Examples
    --------
    >>> html("a < b")
    '<div style="overflow-x:auto"><p style="margin:.3em 0;max-width:60em">a &lt; b</p></div>'
    """
    content = "".join(
        f'<p style="{_PARAGRAPH}">{escape(part)}</p>'
        if isinstance(part, str)
        else _table(part, n_names)
        for part in parts
    )
    return f'<div style="overflow-x:auto">{content}</div>'


def _table(rows: Table, n_names: int) -> str:
    def line(cells: Sequence[str], tag: str, style: str) -> str:
        sides = ["left" if i < n_names else "right" for i in range(len(cells))]
        return "".join(
            f'<{tag} style="{style}{side}">{escape(cell)}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )

    heading, *body = rows
    lines = "".join(f"<tr>{line(cells, 'td', _CELL)}</tr>" for cells in body)
    return (
        f'<table style="{_TABLE}"><thead><tr>{line(heading, "th", _HEADING)}</tr></thead>'
        f"<tbody>{lines}</tbody></table>"
    )


def frame(content: Mapping[str, Array] | list[dict[str, Any]], library: str | None) -> Any:
    """Return a data frame of pandas, or of polars where that alone is installed.

    The content is a list of rows, or columns: arrays of any library with at most one axis.
    """
    if library is None:
        names = list(FRAME_LIBRARIES)
    else:
        names = [validate.choice(library, "library", FRAME_LIBRARIES)]
    for name in names:
        try:
            module = import_module(name)
        except ModuleNotFoundError:
            continue
        if isinstance(content, Mapping):
            content = {key: _column(values, key) for key, values in content.items()}
        return module.DataFrame(content)
    raise ImportError(f"to_frame needs {' or '.join(names)}: pip install {names[0]}")


def _column(values: Array, name: str) -> np.ndarray:
    array = np.atleast_1d(to_numpy(values))
    if array.ndim > 1:
        raise InvalidInput(
            f"{name} has shape {array.shape}, and a data frame has one row for each instance; "
            "reshape the predictions to (N, M, K) first"
        )
    return array


def display(name: str, *content: Any) -> Any:
    """Return a display of :mod:`scorewise.plots` by its name.

    Results find their displays here, as displays import results.
    """
    return getattr(import_module("scorewise.plots"), name)(*content)
