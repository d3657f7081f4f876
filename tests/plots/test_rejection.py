"""Rejection curves: what is drawn is what was computed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import scorewise as sw
from plots_support import HOSTILE, MOST_POINTS, draw, legend_texts
from scorewise.plots import RejectionCurveDisplay

pytestmark = pytest.mark.usefixtures("no_screen")


def test_rejection_curves_are_the_curves():
    losses, u = [0, 1, 0, 1], [0.1, 0.4, 0.2, 0.3]
    display = RejectionCurveDisplay.from_uncertainty(losses, {"a": u}, "zero-one loss")
    line = draw(display).lines_["a"]
    assert np.array_equal(line.get_xdata(), [0.75, 0.5, 0.25, 0])
    assert np.allclose(line.get_ydata(), [0, 0, 1 / 3, 0.5])
    assert np.allclose(display.random_.get_ydata(), 0.5)
    assert np.allclose(display.oracle_.get_ydata(), [0, 0, 1 / 3, 0.5])
    assert legend_texts(display.ax_) == ["a: 0.208", "best possible: 0.208", "random order: 0.5"]
    assert display.ax_.get_ylabel() == "mean zero-one loss of accepted predictions"


@pytest.mark.parametrize(
    ("view", "heights", "area"),
    [("accuracy", [1, 1, 2 / 3, 0.5], "0.208"), ("generalized", [0, 0, 0.25, 0.5], "0.125")],
)
def test_other_views(view, heights, area):
    display = RejectionCurveDisplay.from_uncertainty([0, 1, 0, 1], [0.1, 0.4, 0.2, 0.3])
    display.plot(Figure().subplots(), view=view, show_oracle=False, show_random=False)
    assert np.allclose(display.lines_["uncertainty"].get_ydata(), heights)
    assert display.oracle_ is None
    assert display.random_ is None
    assert legend_texts(display.ax_) == [f"uncertainty: {area}"]


def test_references_of_accuracy_are_accuracies():
    display = RejectionCurveDisplay.from_uncertainty([0, 1, 0, 1], [0.4, 0.1, 0.2, 0.3])
    display.plot(Figure().subplots(), view="accuracy")
    assert np.allclose(display.oracle_.get_ydata(), [1, 1, 2 / 3, 0.5])
    assert np.allclose(display.random_.get_ydata(), 0.5)


def test_references_can_be_chosen():
    display = RejectionCurveDisplay.from_uncertainty([0, 1, 0, 1], {"total": [0.1, 0.4, 0.2, 0.3]})
    display.plot(Figure().subplots(), show_oracle=False)
    assert display.oracle_ is None
    assert [text.split(":")[0] for text in legend_texts(display.ax_)] == ["total", "random order"]


def test_hostile_names_are_shown_as_they_are():
    u = {name: np.arange(4) for name in HOSTILE}
    display = RejectionCurveDisplay.from_uncertainty([0, 1, 0, 1], u, "$loss_").plot()
    display.figure_.canvas.draw()
    shown = legend_texts(display.ax_)
    assert shown[:3] == ["$x_: 0.333", "_hidden: 0.333", "$a$ b^{: 0.333"]
    assert len(set(shown)) == len(HOSTILE) + 2
    assert not any(text.get_parse_math() for text in display.ax_.get_legend().get_texts())
    assert display.ax_.get_ylabel() == "mean $loss_ of accepted predictions"


def shown_names(names: list[str]) -> list[str]:
    """The names in the legend, without the areas that follow them."""
    u = {name: np.arange(4) for name in names}
    display = RejectionCurveDisplay.from_uncertainty([0, 1, 0, 1], u)
    display.plot(Figure().subplots(), show_oracle=False, show_random=False)
    return [text.rpartition(":")[0] for text in legend_texts(display.ax_)]


def test_long_names_that_differ_at_either_end_stay_apart():
    names = ["a" + 100 * "x", "b" + 100 * "x", 100 * "x" + "a", 100 * "x" + "b"]
    assert len(set(shown_names(names))) == 4


@settings(max_examples=25)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=8, unique=True))
def test_a_name_is_one_line_of_at_most_30_characters(names):
    shown = shown_names(names)
    assert len(shown) == len(names)
    for name, line in zip(names, shown, strict=True):
        words = " ".join(name.split())
        assert line == words if len(words) <= 30 else len(line) <= 30
        assert line == line.strip()
        assert len(line.splitlines()) <= 1


def test_a_noisy_end_does_not_set_the_limits():
    losses = np.r_[500.0, np.ones(999)]
    display = draw(RejectionCurveDisplay.from_uncertainty(losses, np.arange(1000)))
    assert display.lines_["uncertainty"].get_ydata().max() == 500
    low, high = display.ax_.get_ylim()
    assert low <= 0
    assert 1.499 < high < 30


def test_a_million_rows_are_drawn_with_few_vertices():
    rng = np.random.default_rng(0)
    losses, u = rng.uniform(size=10**6), rng.uniform(size=10**6)
    display = RejectionCurveDisplay.from_uncertainty(losses, u)
    draw(display).figure_.canvas.draw()
    x, y = display.lines_["uncertainty"].get_data()
    assert len(x) <= MOST_POINTS
    assert x[[0, -1]].tolist() == [1 - 1e-6, 0]
    assert np.isclose(y[-1], losses.mean())


def test_infinite_uncertainties_are_just_the_largest():
    line = draw(RejectionCurveDisplay.from_uncertainty([0, 1], [0.5, np.inf])).lines_["uncertainty"]
    assert line.get_ydata().tolist() == [0, 0.5]


@pytest.mark.parametrize("u", [[0.3], [0.3, 0.3, 0.3]])
def test_one_row_and_ties_can_be_drawn(u):
    display = draw(RejectionCurveDisplay.from_uncertainty(np.ones(len(u)), u))
    display.figure_.canvas.draw()
    line = display.lines_["uncertainty"]
    assert np.array_equal(line.get_ydata(), np.ones(len(u)))
    assert (line.get_marker() == "o") == (len(u) == 1)  # a line of one point would not show
    low, high = display.ax_.get_ylim()
    assert low < 1 < high


def test_bad_curves_are_refused():
    curve, other = sw.rejection_curve([0, 1], [0, 1]), sw.rejection_curve([1, 1], [0, 1])
    with pytest.raises(sw.InvalidInput, match="one or more names"):
        RejectionCurveDisplay({})
    with pytest.raises(sw.InvalidInput, match="is not a Curve"):
        RejectionCurveDisplay({"a": [0, 1]})
    with pytest.raises(sw.InvalidInput, match="uncertainty"):
        RejectionCurveDisplay.from_uncertainty([0, 1], {"a": [np.nan, 1]})
    with pytest.raises(sw.InvalidInput, match="view"):
        RejectionCurveDisplay({"a": curve}).plot(view="risk")
    with pytest.raises(sw.InvalidInput, match="0 or 1"):
        RejectionCurveDisplay.from_uncertainty([0.5, 1], [0, 1]).plot(view="accuracy")
    both = RejectionCurveDisplay({"a": curve, "b": other})
    with pytest.raises(sw.InvalidInput, match="same losses"):
        both.plot()
    assert not plt.get_fignums()  # what is refused leaves no empty figure behind
    both.plot(Figure().subplots(), show_oracle=False, show_random=False)
    assert list(both.lines_) == ["a", "b"]
