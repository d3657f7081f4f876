"""Measures with their distance to the best."""

import numpy as np
import pytest

import scorewise as sw
from plots_support import HOSTILE, comparison, draw, legend_texts, predictions
from scorewise.compare import Comparison
from scorewise.plots import ComparisonDisplay

pytestmark = pytest.mark.usefixtures("no_screen")


def test_intervals_are_those_of_the_standings_best_on_top():
    display = draw(ComparisonDisplay(comparison()))
    point, _, (bar,) = display.intervals_["close"].lines
    assert (point.get_xdata()[0], point.get_ydata()[0]) == (0.01, 2)
    assert np.allclose(bar.get_segments()[0][:, 0], [-0.01, 0.03])
    bottom, top = display.ax_.get_ylim()
    assert top < 0 < 4 < bottom
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == [
        "best one",
        "twin = best one",
        "close",
        "far",
        "far twin = far",
    ]
    assert display.ax_.get_xlabel() == (
        "AULC (mean loss over all coverages), distance to the best\n"
        "(best: 0.1; simultaneous 95 % intervals)"
    )


def test_verdicts_differ_without_colour():
    display = draw(ComparisonDisplay(comparison()))
    looks = {}
    for name, drawn in display.intervals_.items():
        point, _, (bar,) = drawn.lines
        is_hollow = point.get_markerfacecolor() == "white"
        looks[name] = (point.get_marker(), is_hollow, bar.get_linestyle()[0][1] is None)
    assert looks == {
        "best one": ("D", False, True),
        "twin": ("o", False, False),
        "close": ("o", False, True),
        "far": ("o", True, True),
        "far twin": ("o", True, False),  # as bad as the one whose order it shares
    }
    assert legend_texts(display.ax_) == [
        "best here",
        "indistinguishable from the best",
        "worse than the best",
        "same order as the measure after “=”",
    ]


def test_the_legend_explains_only_what_occurs():
    alone = Comparison("ood", "", "auroc", comparison().standings[:1], 0.9)
    display = draw(ComparisonDisplay(alone))
    display.figure_.canvas.draw()
    assert legend_texts(display.ax_) == ["best here"]
    assert display.ax_.get_xlabel().startswith("AUROC, distance to the best")


def test_hostile_measures_are_shown_as_they_are():
    display = ComparisonDisplay(comparison(HOSTILE[:3] + HOSTILE[4:])).plot()
    display.figure_.canvas.draw()
    labels = display.ax_.get_yticklabels()
    assert [text.get_text() for text in labels[:3]] == ["$x_", "_hidden = $x_", "$a$ b^{"]
    assert not any(text.get_parse_math() for text in labels)
    assert max(len(text.get_text()) for text in labels) <= 50


def test_a_comparison_can_be_made_on_the_way():
    probs, y = predictions()
    options = {"rules": ["log"], "n_resamples": 100, "random_state": 0, "baselines": False}
    display = ComparisonDisplay.from_predictions(probs, y, **options)
    assert display.comparison == sw.compare(probs, y, **options)
    with pytest.raises(sw.InvalidInput, match="only a Comparison"):
        ComparisonDisplay([0.1])
