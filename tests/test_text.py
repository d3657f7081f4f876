"""Names on one line that are not too long, and percentages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorewise._text import percent, shorten


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


@pytest.mark.parametrize(
    ("share", "form", "text"),
    [
        (0, ".3g", "0 %"),
        (1, ".3g", "100 %"),
        (0.5, ".3g", "50 %"),
        (0.0512, ".3g", "5.12 %"),
        (0.12345, ".3g", "12.3 %"),
        (1.2e-5, ".3g", "0.0012 %"),
        (1e-9, ".3g", "less than 0.0001 %"),
        (1 - 1e-9, ".3g", "more than 99.9 %"),
        (0, ".1f", "0.0 %"),
        (0.884, ".1f", "88.4 %"),
        (1.2e-5, ".1f", "0.0012 %"),
        (0.9999, ".1f", "more than 99.9 %"),
        (1, ".1f", "100.0 %"),
        (0.99999, ".12g", "99.999 %"),
    ],
)
def test_percentages(share, form, text):
    assert percent(share, form) == text


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.sampled_from([".3g", ".12g", ".1f"]))
def test_a_percentage_is_never_rounded_to_all_or_nothing(share, form):
    number = percent(share, form).removeprefix("less than ").removeprefix("more than ")
    assert 0 < float(number.removesuffix(" %")) < 100
    assert "e" not in number
