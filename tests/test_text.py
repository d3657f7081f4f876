"""Names for display: on one line, and not too long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scorewise._text import shorten


def test_long_names_that_differ_at_either_end_stay_apart():
    names = ["a" + 100 * "x", "b" + 100 * "x", 100 * "x" + "a", 100 * "x" + "b"]
    assert len({shorten(name) for name in names}) == 4


@given(st.text(), st.integers(4, 60))
def test_a_shortened_name_is_one_line_of_at_most_its_width(text: str, width: int):
    line = shorten(text, width)
    assert len(line) <= width
    assert line == line.strip()
    assert len(line.splitlines()) <= 1


def test_short_names_keep_their_words():
    assert shorten("two\nlines") == "two lines"
