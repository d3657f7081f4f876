"""Names and numbers as the page shows them; no name is trusted."""

from __future__ import annotations

import html
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from scorewise._text import shorten
from scorewise.compare import loss_text, promise_text, share_text

WIDTH = 40  # characters of a name that are shown
FULL = 200  # of it that are kept at all, for those who ask
NOTHING = "–"  # where there is no number
_SENTENCE = 2000  # characters of a sentence
_RIGHT_TO_LEFT = {"R", "AL", "AN"}
_DIRECTIONS = set("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_DIGITS = 6  # of a number in a figure


def clean(text: object, width: int = FULL) -> str:
    """One line without control characters, the middle left out where it is long."""
    line = shorten(text, width)
    return "".join("�" if _is_control(char) else char for char in line)


def shown(text: object, width: int = WIDTH) -> str:
    """A name within a sentence: short, and in a direction of its own."""
    name = clean(text, width)
    if any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in name):
        return f"\u2068{name}\u2069"
    return name


def label(text: object, width: int = WIDTH) -> str:
    """A name for Plotly, which would read tags and entities in it."""
    return escaped(shown(text, width))


def escaped(text: str) -> str:
    """Text for Plotly that is fit to be shown already."""
    return html.escape(text, quote=False)


def tamed(sentence: str, names: Iterable[str]) -> str:
    """A sentence in which the given names are as they are shown."""
    sentence = clean(sentence, len(sentence))
    for name in sorted(names, key=len, reverse=True):
        written = clean(name, len(name))
        if shown(name) != written:
            sentence = sentence.replace(written, shown(name))
    return _unbroken(shorten(sentence, _SENTENCE))


def loss(value: float | None, is_share: bool) -> str:
    """A mean loss, in per cent where it is a share."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return _unbroken(loss_text(value, is_share)).replace("-", "−")


def promise(value: float, is_share: bool) -> str:
    """A mean loss that is promised, and so not rounded."""
    return _unbroken(promise_text(value, is_share))


def share(value: float | None) -> str:
    """A share in per cent."""
    return NOTHING if value is None or not math.isfinite(value) else _unbroken(share_text(value))


def loss_cell(value: float | None, is_share: bool) -> str:
    """A mean loss in a column, with as many decimals as its neighbours."""
    if value is None or not math.isfinite(value):
        return NOTHING
    fixed = f"{100 * value:.2f} %" if is_share else f"{value:.4f}"
    return _unbroken(fixed.replace("-", "−")) if _is_seen(fixed, value) else loss(value, is_share)


def share_cell(value: float | None) -> str:
    """A share in a column, with as many decimals as its neighbours."""
    if value is None or not math.isfinite(value):
        return NOTHING
    fixed = f"{100 * value:.1f} %"
    return _unbroken(fixed) if _is_seen(fixed, value) else share(value)


def number(value: float | None, form: str = ".4g") -> str:
    """A number in few digits."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return format(value, form).replace("-", "−")


def count(n: int, what: str, whats: str | None = None) -> str:
    """So many of something."""
    return f"{n:,} {what if n == 1 else whats or what + 's'}"


def decimals(values: Iterable[float]) -> int:
    """How many tell the largest of these in three digits, so that a column is aligned."""
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    return min(6, max(2, 3 - math.ceil(math.log10(largest)))) if largest > 0 else 3


def flat(values: Mapping[Any, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Names and values of a mapping, of those within it too."""
    found: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found += flat(value, f"{name} · ")
        elif isinstance(value, list | tuple):
            found.append((name, ", ".join(map(str, value)) or NOTHING))
        else:
            found.append((name, NOTHING if value is None else str(value)))
    return found


def data_of(value: Any) -> Any:
    """What JSON can hold: no arrays, no NaN, no digits that nobody sees."""
    if isinstance(value, Mapping):
        return {str(key): data_of(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [data_of(one) for one in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def json_in_html(value: Any) -> str:
    """JSON that no parser of HTML takes for anything else."""
    text = json.dumps(data_of(value), allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _is_control(char: str) -> bool:
    # half a character cannot be written, and a direction would leak into what follows
    return char in _DIRECTIONS or unicodedata.category(char) in {"Cc", "Cs"}


def _is_seen(fixed: str, value: float) -> bool:
    """Whether fixed decimals do not make nothing of something, nor all of nearly all."""
    some, all_of_it = re.search("[1-9]", fixed), fixed == "100.0 %"
    return (some is not None or value == 0) and (not all_of_it or value == 1)


def _unbroken(text: str) -> str:
    return text.replace(" %", "\u00a0%")
