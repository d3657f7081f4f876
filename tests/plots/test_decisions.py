"""The costs of actions, in bars."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import scorewise as sw
from plots_support import COSTS, GAINS, HOSTILE, decisions, legend_texts, render
from scorewise.decide import Decisions
from scorewise.decompose import Decomposition
from scorewise.plots import DecisionDisplay
from scorewise.plots.style import BLUE
from support import members

pytestmark = pytest.mark.usefixtures("no_screen")


def tick_labels(display):
    return [text.get_text() for text in display.ax_.get_yticklabels()]


@pytest.mark.parametrize("costs", [COSTS, GAINS, -np.abs(GAINS), np.zeros((2, 2))])
def test_bars_are_the_mean_parts_of_the_rows_with_the_action(costs):
    d = decisions(costs)
    display = render(DecisionDisplay(d))
    taken = np.unique(d.action)
    aleatoric, epistemic = (display.bars_[part].patches for part in ("aleatoric", "epistemic"))
    assert len(aleatoric) == len(epistemic) == len(taken)
    marks = display.totals_.get_segments()
    left, right = display.ax_.get_xlim()
    for action, lower, upper, mark in zip(taken, aleatoric, epistemic, marks, strict=True):
        here = d.action == action
        assert np.isclose(lower.get_y() + lower.get_height() / 2, action)
        assert np.isclose(upper.get_y() + upper.get_height() / 2, action)
        assert lower.get_x() == 0
        assert np.isclose(lower.get_width(), d.aleatoric[here].mean())
        assert np.isclose(upper.get_x(), d.aleatoric[here].mean())
        assert np.isclose(upper.get_width(), d.epistemic[here].mean())
        assert np.allclose(mark[:, 0], d.total[here].mean())
        assert np.isclose(upper.get_x() + upper.get_width(), mark[0, 0])
        # where both bars lie on the same side of 0, the upper must not hide the lower
        assert (upper.get_height() < lower.get_height()) == (lower.get_width() < 0)
        assert left <= min(0, lower.get_width())
        assert right > max(0, mark[0, 0])


def test_actions_stand_in_the_order_of_the_matrix_with_their_rows():
    probs = [[[0.9, 0.1], [0.8, 0.2]], [[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.2, 0.8]]]
    names = ["wait", "never", "act"]
    display = render(
        DecisionDisplay.from_predictions(
            probs, [[0, 9, 1], [2, 9, 0]], 5, cost_name="hours", action_names=names
        )
    )
    assert tick_labels(display) == [
        "wait\n2 rows (66.7 %)",
        "never\n0 rows",
        "act\n1 row (33.3 %)",
        "abstain\n0 rows",
    ]
    bottom, top = display.ax_.get_ylim()
    assert top < 0 < 3 < bottom
    assert display.n_rows.tolist() == [2, 0, 1, 0]
    assert np.isnan(display.total).tolist() == [False, True, False, True]
    assert len(display.bars_["aleatoric"]) == 2
    assert display.ax_.get_xlabel() == "mean expected hours where taken"


def test_parts_differ_without_colour():
    display = render(DecisionDisplay(decisions()))
    assert all(bar.get_hatch() for bar in display.bars_["epistemic"])
    assert not any(bar.get_hatch() for bar in display.bars_["aleatoric"])
    assert to_hex(display.bars_["aleatoric"][0].get_facecolor()) == BLUE.lower()
    assert [text.split(":")[0] for text in legend_texts(display.ax_)] == [
        "aleatoric",
        "epistemic",
        "total",
    ]


@pytest.mark.parametrize("n_actions", [1, 3, 12])
@pytest.mark.parametrize("has_axes", [True, False])
def test_the_legend_hides_no_bar(n_actions, has_axes):
    costs = np.random.default_rng(0).uniform(-1, 1, (2, n_actions))
    costs[:, 0] = -1  # the first bar, below the legend, is the longest
    display = DecisionDisplay(decisions(costs))
    display.plot(Figure(figsize=(6.4, 4.8)).subplots() if has_axes else None)
    display.figure_.canvas.draw()
    legend = display.ax_.get_legend().get_window_extent()
    for part in display.bars_.values():
        assert not any(legend.overlaps(bar.get_window_extent()) for bar in part)


@pytest.mark.parametrize("shape", [(), (1,), (4, 15), (2, 5, 6)])
def test_decisions_of_any_shape(shape):
    n = int(np.prod(shape))
    probs = members(60, 5, 2)[:n]
    display = render(DecisionDisplay.from_predictions(probs.reshape(*shape, 5, 2), COSTS))
    flat = DecisionDisplay.from_predictions(probs, COSTS)
    assert np.array_equal(display.n_rows, flat.n_rows)
    assert np.allclose(display.total, flat.total, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_decisions_of_tensors(dtype):
    probs = torch.asarray(members(60, 5, 2, concentration=0.7), dtype=dtype).requires_grad_()
    display = render(DecisionDisplay.from_predictions(probs, COSTS))
    expected = DecisionDisplay(decisions())
    assert np.array_equal(display.n_rows, expected.n_rows)
    assert np.allclose(display.epistemic, expected.epistemic, rtol=1e-4, equal_nan=True)


def test_hostile_actions_are_shown_as_they_are():
    costs = np.random.default_rng(0).uniform(size=(2, 6))
    display = render(DecisionDisplay(decisions(costs, action_names=HOSTILE), "$cost_"))
    names = [label.split("\n")[0] for label in tick_labels(display)]
    assert names[:4] == ["$x_", "_hidden", "$a$ b^{", "two lines"]
    assert len(set(names)) == len(HOSTILE)
    assert max(map(len, names)) <= 30
    assert not any(text.get_parse_math() for text in display.ax_.get_yticklabels())
    assert display.ax_.get_xlabel() == "mean expected $cost_ where taken"
    assert not display.ax_.xaxis.label.get_parse_math()


def test_objects_that_are_no_decisions_are_refused():
    d = decisions()
    with pytest.raises(sw.InvalidInput, match="only Decisions can be drawn"):
        DecisionDisplay(Decomposition(d.total, d.aleatoric, d.epistemic))
    inf = np.full_like(d.total, np.inf)
    with pytest.raises(sw.InvalidInput, match=r"aleatoric\[0\] is inf; it must be finite"):
        DecisionDisplay(Decisions(d.action, d.total, inf, inf, d.action_names, d.rule))
    none = np.empty(0, dtype=int)
    with pytest.raises(sw.InvalidInput, match="empty"):
        DecisionDisplay(Decisions(none, none, none, none, d.action_names, d.rule))
    with pytest.raises(sw.InvalidInput, match="cost matrix"):
        DecisionDisplay.from_predictions(members(3, 2, 3), COSTS)
