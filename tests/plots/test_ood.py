"""Scores in and out of distribution: histograms and the ROC curve."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import scorewise as sw
from plots_support import MOST_POINTS, draw, legend_texts
from scorewise.plots import OODDisplay

pytestmark = pytest.mark.usefixtures("no_screen")


def test_the_roc_has_the_area_and_the_mark_of_the_metrics():
    rng = np.random.default_rng(0)
    u_in, u_out = rng.normal(size=300).round(1), rng.normal(1, size=200).round(1)
    display = draw(OODDisplay.from_scores(u_in, u_out, confidence=0.9, score_name="_s$"))
    metrics = sw.ood_metrics(u_in, u_out, 0.9)
    assert np.isclose(np.trapezoid(display.tpr, display.fpr), metrics.auroc)
    assert np.isclose(display.lines_["fpr95"].get_xdata()[0], metrics.fpr95)
    assert display.lines_["fpr95"].get_ydata()[0] >= 0.95
    low, high = metrics.auroc_interval
    roc, detected, chance = legend_texts(display.axes_[1])
    assert roc == f"AUROC {metrics.auroc:.3f}\n(90 % interval {low:.3f} to {high:.3f})"
    assert detected == f"95 % detected: {100 * metrics.fpr95:.1f} % false alarms"
    assert chance == "chance: AUROC 0.5"
    assert display.axes_[0].get_xlabel() == "_s$"


def test_histograms_share_bins_and_hold_every_row():
    display = draw(OODDisplay.from_scores([0.1, 0.2, 0.3, 5], [2.0, 3, 4]))
    inside, outside = (display.histograms_[key].get_data() for key in ("in", "out"))
    assert np.array_equal(inside.edges, outside.edges)
    assert np.isclose(inside.values.sum(), 1)
    assert np.isclose(outside.values.sum(), 1)


def test_exact_zeros_stand_apart():
    tiny = np.full(100, 1e-9)
    display = draw(OODDisplay.from_scores(np.r_[np.zeros(300), tiny, 1.0], np.r_[tiny, 0.5]))
    shares, edges, _ = display.histograms_["in"].get_data()
    assert np.isclose(shares[0], 300 / 401)
    assert shares[1] == 0  # a gap
    assert np.isclose(shares[2], 100 / 401)
    assert edges[1] < 0 == edges[2]
    texts = legend_texts(display.axes_[0])
    assert texts[0] == "in-distribution: 401 rows, 74.8 % exactly 0"
    assert texts[1].endswith("0.0 % exactly 0")
    assert display.axes_[0].get_ylim()[1] > shares[0]


@pytest.mark.parametrize("value", [0.0, 0.7, -3.0])
def test_scores_that_are_all_equal_are_chance(value):
    display = draw(OODDisplay.from_scores([value] * 3, [value] * 2))
    display.figure_.canvas.draw()
    assert display.fpr.tolist() == display.tpr.tolist() == [0, 1]
    assert legend_texts(display.axes_[1])[0].startswith("AUROC 0.500")


def test_one_row_each():
    display = draw(OODDisplay.from_scores([0.2], [0.8]))
    display.figure_.canvas.draw()
    assert display.fpr.tolist() == [0, 0, 1]
    assert display.tpr.tolist() == [0, 1, 1]


def test_a_million_scores_are_drawn_with_few_vertices():
    u = np.random.default_rng(0).uniform(size=10**6)
    display = OODDisplay.from_scores(u[: 10**5], u[10**5 :])
    draw(display).figure_.canvas.draw()
    x, y = display.lines_["roc"].get_data()
    assert len(x) <= MOST_POINTS
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)


def test_bad_scores_are_refused():
    with pytest.raises(sw.InvalidInput, match=r"u_out\[1\] is inf; it must be finite"):
        OODDisplay.from_scores([0.1], [0.1, np.inf])
    with pytest.raises(sw.InvalidInput, match="u_in is empty"):
        OODDisplay([], [0.1])
    with pytest.raises(sw.InvalidInput, match="bins"):
        OODDisplay([0.2], [0.1]).plot(bins=0)
    with pytest.raises(sw.InvalidInput, match="2 matplotlib Axes"):
        OODDisplay([0.2], [0.1]).plot(Figure().subplots(1, 3))
