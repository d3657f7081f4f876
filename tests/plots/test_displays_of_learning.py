"""Displays of active learning and of decisions: what is drawn is what was computed."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

import scorewise as sw
from scorewise.plots import _style as style
from scorewise.plots._decisions import DecisionDisplay
from scorewise.plots._learning import LearningCurveDisplay
from support import members

HOSTILE = ["$x$", "_a", "two\nlines", "n" * 150 + "a" * 50, "n" * 150 + "b" * 50]
TRIAGE = [[0, 5, 1], [50, 0, 2]]
GAINS = [[-10, 30, -2], [40, -90, -2]]


pytestmark = pytest.mark.usefixtures("no_screen")


def curve(n_runs=5, n_rounds=15, seed=0):
    """Numbers of labels, and noisy losses that fall."""
    noise = np.random.default_rng(seed).uniform(0, 0.05, (n_runs, n_rounds))
    return 10 * np.arange(1, n_rounds + 1), 0.5 * 0.8 ** np.arange(n_rounds) + noise


def curves(names=("total", "epistemic", "random", "BALD", "entropy")):
    return {name: curve(seed=i) for i, name in enumerate(names)}


def run_of(losses, step=10):
    """Rounds with these losses, after each of ``step`` labels more."""
    nothing = np.empty(0, dtype=int)
    return [
        sw.Round(i, nothing, nothing, None, step * (i + 1), loss) for i, loss in enumerate(losses)
    ]


def decisions(costs=TRIAGE, **options):
    return sw.decide(members(60, 5, 2, concentration=0.7), costs, **options)


def displays():
    return {
        "learning": LearningCurveDisplay(curves(), "zero-one loss"),
        "one run": LearningCurveDisplay({"a": curve(1), "b": curve(1)}),
        "hostile learning": LearningCurveDisplay(curves(HOSTILE), HOSTILE[-1]),
        "decisions": DecisionDisplay(decisions()),
        "gains": DecisionDisplay(decisions(GAINS)),
        "hostile decisions": DecisionDisplay(
            decisions(np.hstack([TRIAGE, [[100] * 2] * 2]), action_names=HOSTILE), HOSTILE[-1]
        ),
    }


NAMES = list(displays())


def on_axes(display):
    """The display on Axes of a figure that pyplot does not know, rendered."""
    display.plot(Figure(figsize=(9, 5)).subplots()).figure_.canvas.draw()
    return display


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def tick_labels(display):
    return [text.get_text() for text in display.ax_.get_yticklabels()]


def band_limits(band):
    """Lower and upper edge of a band, by x."""
    vertices = band.get_paths()[0].vertices
    xs = np.unique(vertices[:, 0])
    return np.transpose(
        [(y.min(), y.max()) for y in (vertices[vertices[:, 0] == x, 1] for x in xs)]
    )


# -- both of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_off_and_no_two_texts_overlap(name):
    display = displays()[name]
    assert display.plot() is display
    assert plt.get_fignums() == [display.figure_.number]
    display.figure_.canvas.draw()
    width, height = display.figure_.canvas.get_width_height()
    ax = display.ax_
    texts = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.get_legend().get_texts()]
    low, high = sorted(ax.get_ylim())
    texts += [text for text in ax.get_yticklabels() if low <= text.get_position()[1] <= high]
    found = [text.get_window_extent() for text in texts if text.get_text()]
    for i, box in enumerate(found):
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= width + 1
        assert box.y1 <= height + 1
        assert not any(box.overlaps(other) for other in found[:i])


@pytest.mark.parametrize("name", NAMES)
def test_a_given_axes_is_used_and_its_neighbour_is_not(name):
    display, figure = displays()[name], Figure()
    given, neighbour = figure.subplots(1, 2)
    display.plot(given)
    assert display.ax_ is given
    assert display.figure_ is figure
    assert not neighbour.has_data()
    assert not plt.get_fignums()
    with pytest.raises(sw.InvalidInput, match="matplotlib Axes can be drawn on"):
        display.plot("here")


def test_importing_them_does_not_import_matplotlib():
    code = (
        "import scorewise.plots._learning, scorewise.plots._decisions, sys; "
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- learning curves ------------------------------------------------------------------------------


def test_lines_are_means_and_bands_one_standard_deviation_either_side():
    display = on_axes(LearningCurveDisplay(curves(), "zero-one loss"))
    assert list(display.lines_) == list(display.bands_) == list(curves())
    for name, (n_labelled, losses) in curves().items():
        mean, sd = losses.mean(axis=0), np.sqrt(losses.var(axis=0) * 5 / 4)
        assert np.array_equal(display.lines_[name].get_xdata(), n_labelled)
        assert np.allclose(display.lines_[name].get_ydata(), mean)
        assert np.allclose(band_limits(display.bands_[name]), [mean - sd, mean + sd])
        assert 0 < display.bands_[name].get_alpha() < 0.3
    assert display.ax_.get_xlabel() == "number of labels"
    assert display.ax_.get_ylabel() == "zero-one loss"
    title = display.ax_.get_legend().get_title().get_text()
    assert title == "mean of 5 runs\nband: ± one standard deviation\nof the runs"


def test_random_is_the_grey_dashed_baseline_wherever_it_stands():
    display = on_axes(LearningCurveDisplay(curves()))
    baseline = display.lines_["random"]
    assert baseline.get_color() == style.GREY
    assert baseline.get_linestyle() == "--"
    assert to_hex(display.bands_["random"].get_facecolor()[0]) == style.GREY.lower()
    others = [line.get_color() for name, line in display.lines_.items() if name != "random"]
    assert others == list(style.COLORS[:4])
    for name, line in display.lines_.items():
        assert to_hex(display.bands_[name].get_facecolor()[0]) == line.get_color().lower()
    alike = on_axes(LearningCurveDisplay({"Random": curve()}))
    assert alike.lines_["Random"].get_color() == style.BLUE


def test_the_legend_has_the_order_in_which_the_lines_end():
    heights = {"low": 0.1, "high": 0.9, "random": 0.5}
    display = LearningCurveDisplay({name: ([1, 2], [[1, h]]) for name, h in heights.items()})
    assert legend_texts(on_axes(display).ax_) == ["high", "random", "low"]


def test_one_run_has_no_band_and_the_legend_says_so():
    display = on_axes(LearningCurveDisplay({"a": curve(1)}))
    assert display.bands_ == {}
    assert display.ax_.get_legend().get_title().get_text() == "one run, so no band"
    display = on_axes(LearningCurveDisplay({"a": curve(1), "b": curve(3)}))
    assert list(display.bands_) == ["b"]
    assert sorted(legend_texts(display.ax_)) == ["a (one run)", "b (3 runs)"]
    assert "where there are several" in display.ax_.get_legend().get_title().get_text()


def test_one_number_of_labels_shows():
    display = on_axes(LearningCurveDisplay({"a": ([10], [[0.2], [0.4]])}))
    assert display.lines_["a"].get_marker() == "o"
    assert display.bands_["a"].get_linewidth()[0] > 0
    assert np.allclose(
        np.ravel(band_limits(display.bands_["a"])), 0.3 + np.array([-1, 1]) / 50**0.5
    )


def test_of_runs_of_unequal_length_only_what_they_share_is_drawn():
    runs = {
        "a": [run_of([0.5, 0.4, 0.3, 0.2]), run_of([0.7, 0.2])],
        "random": (run_of([0.6, 0.5, 0.4]), run_of([0.5, 0.1], step=20)),
    }
    display = on_axes(LearningCurveDisplay.from_rounds(runs, "log loss"))
    assert display.lines_["a"].get_xdata().tolist() == [10, 20]
    assert np.allclose(display.lines_["a"].get_ydata(), [0.6, 0.3])
    assert display.lines_["random"].get_xdata().tolist() == [20]
    assert display.curves["random"][1].tolist() == [[0.5], [0.5]]
    assert display.loss_name == "log loss"


def test_rounds_of_active_learning_are_drawn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = (X.sum(axis=1) > 0).astype(int)
    runs = [
        list(
            sw.active_learning(
                sw.BootstrapEnsemble(LogisticRegression(), 3, random_state=seed),
                X[:80],
                y[:80],
                initial=10,
                per_round=10,
                budget=30,
                X_test=X[80:],
                y_test=y[80:],
                method="random",
                random_state=seed,
            )
        )
        for seed in range(2)
    ]
    display = on_axes(LearningCurveDisplay.from_rounds({"random": runs}))
    assert display.lines_["random"].get_xdata().tolist() == [10, 20, 30]
    expected = [np.mean([run[t].loss for run in runs]) for t in range(3)]
    assert np.allclose(display.lines_["random"].get_ydata(), expected)


def test_hostile_measures_are_shown_as_they_are():
    display = on_axes(LearningCurveDisplay(curves(HOSTILE), "$loss_"))
    shown = legend_texts(display.ax_)
    assert {"$x$", "_a", "two lines"} < set(shown)
    assert len(set(shown)) == len(HOSTILE)
    assert max(map(len, shown)) <= 30
    assert not any(text.get_parse_math() for text in display.ax_.get_legend().get_texts())
    assert display.ax_.get_ylabel() == "$loss_"
    assert not display.ax_.yaxis.label.get_parse_math()


def test_tensors_can_be_drawn():
    n_labelled, losses = curve(3)
    tensors = torch.asarray(n_labelled), torch.asarray(losses).requires_grad_()
    line = on_axes(LearningCurveDisplay({"a": tensors})).lines_["a"]
    assert np.allclose(line.get_ydata(), losses.mean(axis=0))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([([1], [[1]])], "mapping of one or more names"),
        ({}, "mapping of one or more names"),
        ({"a": [1, 2, 3]}, r"curves\['a'\] must be a pair"),
        ({"a": 3}, r"curves\['a'\] must be a pair"),
        ({"a": ([1, 2], [0.5, 0.4])}, r"curves\['a'\]\[1\] has shape \(2,\)"),
        ({"a": ([1, 2], [[0.5, 0.4, 0.3]])}, r"has shape \(1, 3\).*T = 2"),
        ({"a": ([1, 2], np.empty((0, 2)))}, "one or more runs"),
        ({"a": ([1, 2], [[0.5, 0.4], [0.3]])}, "not a rectangular array"),
        ({"a": ([], np.empty((2, 0)))}, "empty"),
        ({"a": ([[1, 2]], [[0.5, 0.4]])}, "must be a vector"),
        ({"a": ([1, 2], [[0.5, 0.4], [0.3, np.nan]])}, r"curves\['a'\]\[1\]\[1\]\[1\] is nan"),
        ({"a": ([1, 2], [[0.5, np.inf]])}, r"\[1\] is inf; losses must be finite"),
        ({"a": ([1, np.inf], [[0.5, 0.4]])}, r"curves\['a'\]\[0\]\[1\] is inf"),
        ({"a": ([1, 1], [[0.5, 0.4]])}, "must rise"),
        ({"a": ([2, 1], [[0.5, 0.4]])}, "must rise"),
        ({"a": ([1, 2], [["x", "y"]])}, "must hold real numbers"),
    ],
)
def test_bad_curves_are_refused(bad, message):
    with pytest.raises(sw.InvalidInput, match=message):
        LearningCurveDisplay(bad)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([run_of([0.5])], "mapping"),
        ({}, "mapping of one or more names"),
        ({"a": run_of([0.5])}, "list of runs, each a list of rounds"),
        ({"a": []}, "list of runs, each a list of rounds"),
        ({"a": [[0.5, 0.4]]}, "list of runs, each a list of rounds"),
        ({"a": [[*run_of([0.5]), 0.4]]}, "list of runs, each a list of rounds"),
        ({"a": [iter(run_of([0.5]))]}, "list of runs, each a list of rounds"),
        ({"a": [run_of([0.5]), []]}, "list of runs, each a list of rounds"),
        ({"a": [run_of([0.5]), run_of([0.5], step=7)]}, "no number of labels in common"),
        ({"a": [run_of([None])]}, "have no losses"),
    ],
)
def test_what_is_no_round_is_refused(bad, message):
    with pytest.raises(sw.InvalidInput, match=message):
        LearningCurveDisplay.from_rounds(bad)


# -- decisions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("costs", [TRIAGE, GAINS, -np.abs(GAINS), np.zeros((2, 2))])
def test_bars_are_the_mean_parts_of_the_rows_with_the_action(costs):
    d = decisions(costs)
    display = on_axes(DecisionDisplay(d))
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
    display = on_axes(
        DecisionDisplay.from_predictions(
            probs, [[0, 9, 1], [2, 9, 0]], 5, cost_name="hours", action_names=names
        )
    )
    assert tick_labels(display) == [
        "wait\n2 rows (66.7%)",
        "never\n0 rows",
        "act\n1 row (33.3%)",
        "abstain\n0 rows",
    ]
    bottom, top = display.ax_.get_ylim()
    assert top < 0 < 3 < bottom
    assert display.n_rows.tolist() == [2, 0, 1, 0]
    assert np.isnan(display.total).tolist() == [False, True, False, True]
    assert len(display.bars_["aleatoric"]) == 2
    assert display.ax_.get_xlabel() == "mean expected hours, by action"


def test_parts_differ_without_colour():
    display = on_axes(DecisionDisplay(decisions()))
    assert all(bar.get_hatch() for bar in display.bars_["epistemic"])
    assert not any(bar.get_hatch() for bar in display.bars_["aleatoric"])
    assert to_hex(display.bars_["aleatoric"][0].get_facecolor()) == style.BLUE.lower()
    assert [text.split(":")[0] for text in legend_texts(display.ax_)] == [
        "aleatoric",
        "epistemic",
        "total",
    ]


@pytest.mark.parametrize("n_actions", [1, 3, 12])
@pytest.mark.parametrize("given", [True, False])
def test_the_legend_hides_no_bar(n_actions, given):
    costs = np.random.default_rng(0).uniform(-1, 1, (2, n_actions))
    costs[:, 0] = -1  # the first bar, below the legend, is the longest
    display = DecisionDisplay(decisions(costs))
    display.plot(Figure(figsize=(6.4, 4.8)).subplots() if given else None)
    display.figure_.canvas.draw()
    legend = display.ax_.get_legend().get_window_extent()
    for part in display.bars_.values():
        assert not any(legend.overlaps(bar.get_window_extent()) for bar in part)


@pytest.mark.parametrize("shape", [(), (1,), (4, 15), (2, 5, 6)])
def test_decisions_of_any_shape(shape):
    n = int(np.prod(shape))
    probs = members(60, 5, 2)[:n]
    display = on_axes(DecisionDisplay.from_predictions(probs.reshape(*shape, 5, 2), TRIAGE))
    flat = DecisionDisplay.from_predictions(probs, TRIAGE)
    assert np.array_equal(display.n_rows, flat.n_rows)
    assert np.allclose(display.total, flat.total, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_decisions_of_tensors(dtype):
    probs = torch.asarray(members(60, 5, 2, concentration=0.7), dtype=dtype).requires_grad_()
    display = on_axes(DecisionDisplay.from_predictions(probs, TRIAGE))
    expected = DecisionDisplay(decisions())
    assert np.array_equal(display.n_rows, expected.n_rows)
    assert np.allclose(display.epistemic, expected.epistemic, rtol=1e-4, equal_nan=True)


def test_hostile_actions_are_shown_as_they_are():
    costs = np.random.default_rng(0).uniform(size=(2, 5))
    display = on_axes(DecisionDisplay(decisions(costs, action_names=HOSTILE), "$cost_"))
    names = [label.split("\n")[0] for label in tick_labels(display)]
    assert names[:3] == ["$x$", "_a", "two lines"]
    assert len(set(names)) == len(HOSTILE)
    assert max(map(len, names)) <= 30
    assert not any(text.get_parse_math() for text in display.ax_.get_yticklabels())
    assert display.ax_.get_xlabel() == "mean expected $cost_, by action"
    assert not display.ax_.xaxis.label.get_parse_math()


def test_what_are_no_decisions_is_refused():
    d = decisions()
    with pytest.raises(sw.InvalidInput, match="only Decisions can be drawn"):
        DecisionDisplay(sw.Decomposition(d.total, d.aleatoric, d.epistemic))
    inf = np.full_like(d.total, np.inf)
    with pytest.raises(sw.InvalidInput, match=r"aleatoric\[0\] is inf; it must be finite"):
        DecisionDisplay(sw.Decisions(d.action, d.total, inf, inf, d.action_names, d.rule))
    none = np.empty(0, dtype=int)
    with pytest.raises(sw.InvalidInput, match="empty"):
        DecisionDisplay(sw.Decisions(none, none, none, none, d.action_names, d.rule))
    with pytest.raises(sw.InvalidInput, match="cost matrix"):
        DecisionDisplay.from_predictions(members(3, 2, 3), TRIAGE)
