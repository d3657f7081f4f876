"""Names, proportions and tables as text."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice

_SHOWN_NAMES = 8  # of a list in a message
PERCENT = " %"  # what follows a number of percent, also along an axis


def percent(share: float, form: str = ".3g") -> str:
    """Return a proportion as a percentage; only exact values are shown as 0 % or 100 %.

    Examples
    --------
    >>> percent(0.0512), percent(0.5, ".1f"), percent(0.0001, ".1f"), percent(0.99999)
    ('5.12 %', '50.0 %', '0.01 %', 'more than 99.9 %')
    """
    number = format(100 * share, form)
    if 0 < share < 1e-6:
        return f"less than 0.0001{PERCENT}"
    if share > 0 == float(number):
        return percent(share)
    if share < 1 and float(number) == 100:
        return f"more than 99.9{PERCENT}"
    return number + PERCENT


def significant(value: float) -> str:
    """Return a number in three significant digits, for people.

    Examples
    --------
    >>> significant(0.63965), significant(0.6), significant(100.2), significant(12345.6)
    ('0.640', '0.600', '100', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")


def aligned(table: Sequence[Sequence[str]], n_names: int = 1) -> str:
    """Return a table as lines; the first ``n_names`` columns are names, the others numbers."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < n_names else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    )


def quoted(value: object, width: int = 80) -> str:
    """Return the repr of a name or a value for a message, of at most ``width`` characters.

    Use it for everything that a message quotes from files and arguments.

    Examples
    --------
    >>> print(quoted("cat"), quoted("a" * 10_000_000, 12))
    'cat' 'aaaa…aaaaa'
    """
    return cut(repr(value), width)


def quoted_names(names: Iterable[object]) -> str:
    """Return the first names of several for a message, in quotes.

    Examples
    --------
    >>> print(quoted_names(["cat", "dog"]), quoted_names("abcdefghijk"), quoted_names([]))
    'cat', 'dog' 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', … nothing
    """
    shown = [quoted(name) for name in islice(names, _SHOWN_NAMES + 1)]
    shown[_SHOWN_NAMES:] = ["…"] * (len(shown) > _SHOWN_NAMES)
    return ", ".join(shown) or "nothing"


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return the question for the known name that is most like a word, or nothing.

    Examples
    --------
    >>> did_you_mean("Epistemc", ["total", "aleatoric", "epistemic"])
    "did you mean 'epistemic'? "
    >>> did_you_mean("tuesday", ["total", "aleatoric", "epistemic"])
    ''
    """
    by_lower_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(str(word).strip().lower()[:200], by_lower_case, n=1)
    return f"did you mean {by_lower_case[close[0]]!r}? " if close else ""


def shape_text(shape: Sequence[int]) -> str:
    """Return the numbers of rows, members and classes in words.

    Examples
    --------
    >>> shape_text((12_000, 1, 3))
    '12,000 rows, 1 member, 3 classes'
    """
    n, m, k = shape
    return f"{counted(n, 'row')}, {counted(m, 'member')}, {k:,} classes"


def one_line(error: BaseException) -> str:
    r"""Return the message of an error of another library on one line, without a full stop.

    Examples
    --------
    >>> one_line(OSError("Unexpected end of stream.\nA page was expected."))
    'Unexpected end of stream; A page was expected'
    """
    lines = [line.strip().rstrip(".;:") for line in str(error).splitlines()]
    return "; ".join(filter(None, lines)) or type(error).__name__


def counted(n: int, noun: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"


def left_out_text(n_rows: int, n_files: int) -> str:
    """Return the numbers of rows and files of a data set that are left out, in words.

    Examples
    --------
    >>> left_out_text(65, 1), left_out_text(0, 2)
    ('65 invalid rows and 1 unreadable file', '2 unreadable files')
    """
    numbers = {"invalid row": n_rows, "unreadable file": n_files}
    return " and ".join(counted(n, noun) for noun, n in numbers.items() if n)


def cut(text: str, width: int) -> str:
    """Return the text, or its two ends if it has more than ``width`` characters.

    Examples
    --------
    >>> cut("resnet50-deterministic-seed-17", 12)
    'resne…eed-17'
    """
    return text if len(text) <= width else f"{text[: width // 2 - 1]}…{text[-(width // 2) :]}"


def shorten(text: object, width: int = 40) -> str:
    """Return the text on one line of at most ``width`` characters.

    The middle of a longer text is replaced by an ellipsis, because names often differ at their end.

    Examples
    --------
    >>> shorten("a  name")
    'a name'
    >>> shorten("resnet50-deterministic-seed-17", 12)
    'resne…eed-17'
    """
    line = " ".join(str(text).split())
    return cut(line, width)
