"""Format names and numbers for the page; names are cleaned and escaped."""

from __future__ import annotations

import html
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from scorewise._json import plain
from scorewise._text import PERCENT, percent, shorten, significant
from scorewise.rules import Unit

NAME_WIDTH = 40  # characters of a name in a sentence
CELL_WIDTH = 200  # characters of a name in a table or a card, where it wraps
SENTENCE_WIDTH = 800  # characters of a sentence, names included
MISSING = "–"  # where there is no number
_RIGHT_TO_LEFT = {"R", "AL", "AN"}
_DIRECTIONS = set("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_DIGITS = 6  # of a number in a figure


# -- names -----------------------------------------------------------------------------------------


def clean(text: object, width: int = CELL_WIDTH) -> str:
    """The text on one line of at most ``width`` characters, without control characters."""
    return "".join("�" if _is_control(char) else char for char in shorten(text, width))


def name_text(text: object, width: int = NAME_WIDTH) -> str:
    """A name within a sentence: short, and isolated from the text direction of the sentence."""
    name = clean(text, width)
    if any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in name):
        return f"\u2068{name}\u2069"
    return name


def plotly_name(text: object, width: int = NAME_WIDTH) -> str:
    """A name for Plotly, which would interpret tags and entities in it."""
    return plotly_text(name_text(text, width))


def plotly_text(text: str) -> str:
    """Return text for Plotly; its names are already rendered by :func:`name_text`."""
    return html.escape(text, quote=False)


def sentence_text(sentence: str) -> str:
    """A sentence with rendered names; a number stays on the same line as its unit."""
    return _unbroken(clean(sentence, SENTENCE_WIDTH))


# -- numbers ---------------------------------------------------------------------------------------


def loss_text(value: float | None, unit: Unit) -> str:
    """A mean loss in its unit."""
    if value is None or not math.isfinite(value):
        return MISSING
    return _unbroken(unit.format(value)).replace("-", "−")


def exact_text(value: float, unit: Unit) -> str:
    """A guaranteed mean loss, which is not rounded."""
    return _unbroken(unit.format_exact(value))


def share_text(value: float | None, form: str = ".3g") -> str:
    """A proportion as a percentage."""
    return MISSING if value is None or not math.isfinite(value) else _unbroken(percent(value, form))


def loss_cell(value: float | None, unit: Unit) -> str:
    """A mean loss in a column, with as many decimals as its neighbours."""
    if value is None or not math.isfinite(value):
        return MISSING
    return _unbroken(unit.format_fixed(value)).replace("-", "−")


def number(value: float | None, form: str = ".4g") -> str:
    """A number in few digits."""
    if value is None or not math.isfinite(value):
        return MISSING
    return format(value, form).replace("-", "−")


def threshold(value: float) -> str:
    """A threshold in three significant digits."""
    return significant(value).replace("-", "−")


def count(n: int, noun: str, plural: str | None = None) -> str:
    """A number of things, such as "1 row" or "1,200 rows"."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals show the largest of these in three digits, to align a column."""
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    return min(6, max(2, 3 - math.ceil(math.log10(largest)))) if largest > 0 else 3


# -- data ------------------------------------------------------------------------------------------


def flattened(values: Mapping[Any, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return names and values of a mapping and of the mappings within it."""
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            pairs += flattened(value, f"{name} · ")
        elif isinstance(value, list | tuple):
            pairs.append((name, ", ".join(map(str, value)) or MISSING))
        else:
            pairs.append((name, MISSING if value is None else str(value)))
    return pairs


def json_in_html(value: Any) -> str:
    """Return JSON without characters that an HTML parser could read as markup."""
    text = json.dumps(plain(value, _DIGITS), allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _is_control(char: str) -> bool:
    # a lone surrogate cannot be encoded; a direction mark would affect the text after it
    return char in _DIRECTIONS or unicodedata.category(char) in {"Cc", "Cs"}


def _unbroken(text: str) -> str:
    return text.replace(PERCENT, "\u00a0%")
