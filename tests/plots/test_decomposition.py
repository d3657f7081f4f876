"""Totals and their parts, in bars."""

import numpy as np
import pytest

import scorewise as sw
from plots_support import draw, legend_texts, predictions
from scorewise.decompose import Decomposition
from scorewise.plots import DecompositionDisplay

pytestmark = pytest.mark.usefixtures("no_screen")


def test_parts_are_stacked_in_rising_order_of_the_total():
    probs, _ = predictions()
    display = draw(DecompositionDisplay.from_predictions(probs, "log"))
    d = sw.decompose(probs, "log")
    order = np.argsort(d.total)
    assert np.array_equal(display.total, d.total[order])
    assert np.array_equal(display.epistemic, d.epistemic[order])
    lower, upper = (display.patches_[part].get_data() for part in ("aleatoric", "epistemic"))
    assert np.allclose(lower.values, display.aleatoric)
    assert np.allclose(upper.baseline, display.aleatoric)
    assert np.allclose(upper.values - upper.baseline, display.epistemic)
    assert display.patches_["epistemic"].get_hatch()  # distinguishable in grey
    assert display.ax_.get_ylabel() == "expected log loss (nats)"
    assert [text.split(":")[0] for text in legend_texts(display.ax_)] == [
        "total",
        "epistemic",
        "aleatoric",
    ]


def test_many_rows_become_means_of_neighbours():
    total = np.random.default_rng(0).uniform(size=10**6)
    display = draw(DecompositionDisplay(Decomposition(total, 0.25 * total, 0.75 * total)))
    display.figure_.canvas.draw()
    values, edges, _ = display.line_.get_data()
    assert len(values) <= 200
    assert np.isclose(np.sum(values * np.diff(edges)), total.mean())
    assert "1,000,000 predictions" in display.ax_.get_xlabel()
    assert "neighbours" in display.ax_.get_xlabel()


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_instances_of_any_shape_and_ties(shape):
    part = np.full(shape, 0.25)
    display = draw(DecompositionDisplay(Decomposition(2 * part, part, part)))
    display.figure_.canvas.draw()
    assert display.total.tolist() == [0.5] * part.size


def test_bad_decompositions_are_refused():
    with pytest.raises(sw.InvalidInput, match="only a Decomposition"):
        DecompositionDisplay([0.1, 0.2])
    inf = np.array([0.1, np.inf])
    with pytest.raises(sw.InvalidInput, match=r"total\[1\] is inf; it must be finite"):
        DecompositionDisplay(Decomposition(inf, inf, inf))
