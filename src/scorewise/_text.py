"""Shortening of names for display."""

from __future__ import annotations


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
    return line if len(line) <= width else f"{line[: width // 2 - 1]}…{line[-(width // 2) :]}"
