"""Displays: what they store, what they draw, and on which Axes."""

import subprocess
import sys
import time

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import scorewise as sw
from scorewise import _numerics
from scorewise.compare import Comparison, Standing
from scorewise.plots import _style as style
from scorewise.plots._calibration import CalibrationDisplay
from scorewise.plots._comparison import ComparisonDisplay
from scorewise.plots._decomposition import DecompositionDisplay
from scorewise.plots._ood import OODDisplay
from scorewise.plots._rejection import RejectionCurveDisplay
from scorewise.plots._simplex import SimplexDisplay

HOSTILE = ["$x_", "_hidden", "$a$ b^{", "n" * 150 + "a" * 50, "n" * 150 + "b" * 50]


pytestmark = pytest.mark.usefixtures("no_screen")


def predictions(n=60, m=5, k=3):
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.full(k, 0.7), size=(n, m)), rng.integers(k, size=n)


def standing(name, behind, half, verdict, same=None):
    return Standing(name, 0.1 + behind, behind, behind - half, behind + half, 0.5, verdict, same)


def comparison(names=("best one", "twin", "close", "far", "far twin")):
    a, b, c, d, e = names
    rows = (
        standing(a, 0.0, 0.0, "best"),
        standing(b, 0.0, 0.0, "indistinguishable", a),
        standing(c, 0.01, 0.02, "indistinguishable"),
        standing(d, 0.05, 0.02, "worse"),
        standing(e, 0.05, 0.02, "worse", d),
    )
    return Comparison("selective", "zero-one", "aulc", rows, 0.95)


def displays():
    probs, y = predictions()
    d = sw.decompose(probs, "zero-one")
    losses = sw.task_losses(probs, y, "zero-one")
    return {
        "rejection": RejectionCurveDisplay.from_uncertainty(losses, {"total": d.total}),
        "decomposition": DecompositionDisplay(d),
        "ood": OODDisplay.from_scores(d.total[:30], d.total[30:] + 0.1),
        "comparison": ComparisonDisplay(comparison()),
        "calibration": CalibrationDisplay.from_losses(losses, d.total),
        "simplex": SimplexDisplay.from_predictions(probs[0], "log"),
    }


NAMES = list(displays())


def draw(display, *, on_given=True):
    """The display on Axes of a figure that pyplot does not know, or on its own figure."""
    if not on_given:
        return display.plot()
    is_pair = isinstance(display, OODDisplay)
    figure = Figure(figsize=(9, 4))
    return display.plot(figure.subplots(1, 2) if is_pair else figure.subplots())


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def boxes(figure, texts):
    figure.canvas.draw()
    return [text.get_window_extent() for text in texts]


# -- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("on_given", [True, False])
def test_every_display_is_rendered_where_it_was_asked_to(name, on_given, tmp_path):
    display = displays()[name]
    assert draw(display, on_given=on_given) is display
    assert len(plt.get_fignums()) == (0 if on_given else 1)
    axes = display.axes_ if name == "ood" else (display.ax_,)
    assert all(ax.figure is display.figure_ for ax in axes)
    for ax in axes:
        assert ax.get_title()
        if name != "simplex":
            assert ax.get_xlabel()
    display.figure_.savefig(tmp_path / "figure.png")
    image = plt.imread(tmp_path / "figure.png")
    assert image[..., :3].std() > 0.02  # not blank


@pytest.mark.parametrize("name", NAMES)
def test_a_given_axes_is_used_and_its_neighbour_is_not(name):
    display, figure = displays()[name], Figure()
    axes = figure.subplots(1, 3)
    display.plot(axes[:2] if name == "ood" else axes[0])
    assert (display.axes_[0] if name == "ood" else display.ax_) is axes[0]
    assert not axes[2].has_data()


@pytest.mark.parametrize("name", NAMES)
def test_only_axes_can_be_drawn_on(name):
    with pytest.raises(sw.InvalidInput, match="matplotlib Axes can be drawn on"):
        displays()[name].plot("here")


def hostile_displays():
    probs, _ = predictions()
    u = {name: np.arange(4) for name in HOSTILE}
    return {
        "hostile rejection": RejectionCurveDisplay.from_uncertainty([0, 1, 0, 1], u),
        "hostile comparison": ComparisonDisplay(comparison(HOSTILE)),
        "hostile simplex": SimplexDisplay(probs[0], "log", HOSTILE[-3:]),
    }


@pytest.mark.parametrize("name", [*NAMES, *hostile_displays()])
def test_nothing_is_cut_off_and_no_two_texts_overlap(name):
    display = draw({**displays(), **hostile_displays()}[name], on_given=False)
    display.figure_.canvas.draw()
    width, height = display.figure_.canvas.get_width_height()
    for ax in display.figure_.axes:
        texts = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        texts += [] if ax.get_legend() is None else ax.get_legend().get_texts()
        found = boxes(display.figure_, [t for t in texts if t.get_text() and t.get_visible()])
        for i, box in enumerate(found):
            assert box.x0 >= -1
            assert box.y0 >= -1
            assert box.x1 <= width + 1
            assert box.y1 <= height + 1
            assert not any(box.overlaps(other) for other in found[:i])


def test_importing_the_displays_does_not_import_matplotlib():
    code = "import sys, scorewise.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'scorewise\[plots\]'"):
        displays()["rejection"].plot()


def test_no_two_of_30_lines_look_alike():
    looks = [style.line_style(i) for i in range(30)]
    assert len({(look["color"], str(look["linestyle"])) for look in looks}) == 30
    assert len({str(look["linestyle"]) for look in looks[:6]}) == 6


# -- rejection ------------------------------------------------------------------------------------


def test_rejection_curves_are_the_curves():
    losses, u = [0, 1, 0, 1], [0.1, 0.4, 0.2, 0.3]
    display = RejectionCurveDisplay.from_uncertainty(losses, {"a": u}, "zero-one loss")
    line = draw(display).lines_["a"]
    assert np.array_equal(line.get_xdata(), [0.75, 0.5, 0.25, 0])
    assert np.allclose(line.get_ydata(), [0, 0, 1 / 3, 0.5])
    assert np.allclose(display.random_.get_ydata(), 0.5)
    assert np.allclose(display.oracle_.get_ydata(), [0, 0, 1 / 3, 0.5])
    assert legend_texts(display.ax_) == ["a: 0.208", "best possible: 0.208", "random: 0.5"]
    assert display.ax_.get_ylabel() == "mean zero-one loss of the accepted"


@pytest.mark.parametrize(
    ("view", "heights", "area"),
    [("accuracy", [1, 1, 2 / 3, 0.5], "0.208"), ("generalized", [0, 0, 0.25, 0.5], "0.188")],
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
    display = displays()["rejection"]
    display.plot(Figure().subplots(), show_oracle=False)
    assert display.oracle_ is None
    assert [text.split(":")[0] for text in legend_texts(display.ax_)] == ["total", "random"]


def test_hostile_names_are_shown_as_they_are():
    u = {name: np.arange(4) for name in HOSTILE}
    display = draw(
        RejectionCurveDisplay.from_uncertainty([0, 1, 0, 1], u, "$loss_"), on_given=False
    )
    display.figure_.canvas.draw()
    shown = legend_texts(display.ax_)
    assert shown[:3] == ["$x_: 0.333", "_hidden: 0.333", "$a$ b^{: 0.333"]
    assert len(set(shown)) == len(HOSTILE) + 2
    assert not any(text.get_parse_math() for text in display.ax_.get_legend().get_texts())
    assert display.ax_.get_ylabel() == "mean $loss_ of the accepted"


def test_a_noisy_end_does_not_set_the_limits():
    losses = np.r_[500.0, np.ones(999)]
    display = draw(RejectionCurveDisplay.from_uncertainty(losses, np.arange(1000)))
    assert display.lines_["uncertainty"].get_ydata().max() == 500
    low, high = display.ax_.get_ylim()
    assert low <= 0
    assert 1.499 < high < 30


def test_a_million_rows_are_drawn_fast_with_few_vertices():
    rng = np.random.default_rng(0)
    losses, u = rng.uniform(size=10**6), rng.uniform(size=10**6)
    display = RejectionCurveDisplay.from_uncertainty(losses, u)
    start = time.perf_counter()
    draw(display).figure_.canvas.draw()
    assert time.perf_counter() - start < 3
    x, y = display.lines_["uncertainty"].get_data()
    assert len(x) <= _numerics.MOST_POINTS
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
    with pytest.raises(sw.InvalidInput, match="is no Curve"):
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


# -- decomposition --------------------------------------------------------------------------------


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
    assert display.patches_["epistemic"].get_hatch()  # told apart in grey
    assert display.ax_.get_ylabel() == "expected log loss (nats)"
    assert [text.split(":")[0] for text in legend_texts(display.ax_)] == [
        "total",
        "epistemic",
        "aleatoric",
    ]


def test_many_rows_become_means_of_neighbours():
    total = np.random.default_rng(0).uniform(size=10**6)
    start = time.perf_counter()
    display = draw(DecompositionDisplay(sw.Decomposition(total, 0.25 * total, 0.75 * total)))
    display.figure_.canvas.draw()
    assert time.perf_counter() - start < 3
    values, edges, _ = display.line_.get_data()
    assert len(values) <= 200
    assert np.isclose(np.sum(values * np.diff(edges)), total.mean())
    assert "1,000,000 predictions" in display.ax_.get_xlabel()
    assert "neighbours" in display.ax_.get_xlabel()


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_instances_of_any_shape_and_ties(shape):
    part = np.full(shape, 0.25)
    display = draw(DecompositionDisplay(sw.Decomposition(2 * part, part, part)))
    display.figure_.canvas.draw()
    assert display.total.tolist() == [0.5] * part.size


def test_bad_decompositions_are_refused():
    with pytest.raises(sw.InvalidInput, match="only a Decomposition"):
        DecompositionDisplay([0.1, 0.2])
    inf = np.array([0.1, np.inf])
    with pytest.raises(sw.InvalidInput, match=r"total\[1\] is inf; it must be finite"):
        DecompositionDisplay(sw.Decomposition(inf, inf, inf))


# -- out of distribution --------------------------------------------------------------------------


def test_the_roc_has_the_area_and_the_mark_of_the_metrics():
    rng = np.random.default_rng(0)
    u_in, u_out = rng.normal(size=300).round(1), rng.normal(1, size=200).round(1)
    display = draw(OODDisplay.from_scores(u_in, u_out, confidence=0.9, score_name="_s$"))
    metrics = sw.ood_metrics(u_in, u_out, 0.9)
    assert np.isclose(np.trapezoid(display.tpr, display.fpr), metrics.auroc)
    assert np.isclose(display.lines_["fpr95"].get_xdata()[0], metrics.fpr95)
    assert display.lines_["fpr95"].get_ydata()[0] >= 0.95
    low, high = metrics.auroc_interval
    roc, found, chance = legend_texts(display.axes_[1])
    assert roc == f"AUROC {metrics.auroc:.3f}\n(90% interval {low:.3f} to {high:.3f})"
    assert found == f"95% found: {metrics.fpr95:.1%} false alarms"
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
    assert texts[0] == "familiar (in distribution): 401 rows, 74.8% of them exactly 0"
    assert texts[1].endswith("0.0% of them exactly 0")
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
    start = time.perf_counter()
    draw(display).figure_.canvas.draw()
    assert time.perf_counter() - start < 3
    x, y = display.lines_["roc"].get_data()
    assert len(x) <= _numerics.MOST_POINTS
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


# -- comparison -----------------------------------------------------------------------------------


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
        "AULC, the mean loss over all shares rejected, behind the best\n"
        "(best: 0.1; 95% intervals, all together)"
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
        "orders all rows as the one named",
    ]


def test_the_legend_explains_only_what_occurs():
    alone = Comparison("ood", "", "auroc", comparison().standings[:1], 0.9)
    display = draw(ComparisonDisplay(alone))
    display.figure_.canvas.draw()
    assert legend_texts(display.ax_) == ["best here"]
    assert display.ax_.get_xlabel().startswith("AUROC behind the best")


def test_hostile_measures_are_shown_as_they_are():
    display = draw(ComparisonDisplay(comparison(HOSTILE)), on_given=False)
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


# -- calibration ----------------------------------------------------------------------------------


def test_bins_are_drawn_with_their_intervals():
    rng = np.random.default_rng(0)
    total = rng.uniform(0, 0.5, 500)
    wrong = rng.uniform(size=500) < total
    display = draw(CalibrationDisplay.from_losses(wrong, total, n_bins=5, loss_name="$loss"))
    found = sw.loss_calibration(wrong, total, n_bins=5)
    point, _, (bars,) = display.points_.lines
    assert np.array_equal(point.get_xdata(), found.bin_predicted)
    assert np.array_equal(point.get_ydata(), found.bin_realized)
    assert np.allclose(
        [bar[:, 1] for bar in bars.get_segments()], np.c_[found.bin_low, found.bin_high]
    )
    assert display.ax_.get_aspect() == 1
    assert display.ax_.get_xlim() == display.ax_.get_ylim()
    assert f"{found.gap:+.3g}" in display.ax_.get_title()
    assert "no sign of miscalibration" in display.ax_.get_title()
    assert legend_texts(display.ax_)[0] == "5 bins of 100 predictions, 95% intervals"
    assert display.ax_.get_ylabel() == "mean $loss that was paid"


def test_a_model_that_is_too_sure_is_called_so():
    losses = np.tile([0.0, 1.0], 200)
    display = draw(CalibrationDisplay.from_losses(losses, np.linspace(0, 0.1, 400)))
    assert "miscalibrated (p" in display.ax_.get_title()
    assert "+0.45" in display.ax_.get_title()


def test_unlike_ranges_are_not_forced_into_a_square():
    losses = np.linspace(0, 100, 50)
    display = draw(CalibrationDisplay.from_losses(losses, np.linspace(0.1, 0.2, 50)))
    assert display.ax_.get_aspect() == "auto"
    low, high = display.ax_.get_xlim()
    assert high - low < 0.2


@pytest.mark.parametrize("losses", [[0.5], [0.5, 0.5, 0.5], [0.5, 0.7]])
def test_intervals_without_end_stay_on_the_axes(losses):
    display = draw(CalibrationDisplay.from_losses(losses, losses))
    display.figure_.canvas.draw()
    assert np.isfinite(display.ax_.get_ylim()).all()
    _, _, (bars,) = display.points_.lines
    assert np.isfinite(bars.get_segments()).all()


def test_bad_calibrations_are_refused():
    with pytest.raises(sw.InvalidInput, match="only a LossCalibration"):
        CalibrationDisplay([0.1, 0.2])
    with pytest.raises(sw.InvalidInput, match=r"total\[0\] is inf"):
        CalibrationDisplay.from_losses([0.1, 0.2], [np.inf, 0.2])


# -- simplex --------------------------------------------------------------------------------------


def test_members_and_mean_lie_where_they_belong():
    probs = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1 / 3, 1 / 3, 1 / 3]])
    display = draw(SimplexDisplay.from_predictions(probs, "zero-one", ["$a_", "_b", "c" * 200]))
    corners = [[0, 0], [1, 0], [0.5, 0.75**0.5]]
    assert np.allclose(display.points_.get_offsets(), [*corners, np.mean(corners, axis=0)])
    assert np.allclose(display.mean_.get_offsets(), [np.mean(corners, axis=0)])
    assert np.isclose(display.total, 2 / 3)
    assert np.isclose(display.total, display.aleatoric + display.epistemic)
    names = display.ax_.texts
    assert [text.get_text() for text in names[:2]] == ["$a_", "_b"]
    assert len(names[2].get_text()) <= 20
    assert not any(text.get_parse_math() for text in names)
    for text, corner in zip(names, corners, strict=True):
        assert np.allclose(text.get_position(), corner, atol=0.05)
    assert display.colorbar_.ax.get_ylabel() == "total uncertainty: expected error"


def test_level_sets_are_those_of_the_rule():
    contours = {
        rule: draw(SimplexDisplay([[0.2, 0.3, 0.5]], rule)).contours_ for rule in ("log", "brier")
    }
    highest = {rule: found.zmax for rule, found in contours.items()}
    assert np.isclose(highest["log"], np.log(3))
    assert np.isclose(highest["brier"], 2 / 3)


def test_the_colorbar_can_be_left_out():
    figure = Figure()
    display = SimplexDisplay([[0.2, 0.3, 0.5]]).plot(figure.subplots(), colorbar=False)
    assert display.colorbar_ is None
    assert len(figure.axes) == 1


def test_weights_move_the_mean():
    samples = sw.Samples([[1.0, 0, 0], [0, 1, 0]], weights=[3, 1])
    assert SimplexDisplay(samples).mean.tolist() == [0.75, 0.25, 0]


def test_many_members_are_few_points():
    probs = np.random.default_rng(0).dirichlet([1, 1, 1], size=10**5)
    display = draw(SimplexDisplay(probs))
    assert len(display.points_.get_offsets()) <= _numerics.MOST_POINTS
    assert np.allclose(display.mean, probs.mean(axis=0))


@pytest.mark.parametrize(
    ("probs", "options", "message"),
    [
        ([[0.5, 0.5]], {}, "three classes"),
        (np.full((2, 4), 0.25), {}, "three classes"),
        (np.full((2, 2, 3), 1 / 3), {}, "one instance"),
        ([[0.5, 0.6, 0.7]], {}, "sum"),
        ([[0.2, 0.3, 0.5]], {"class_names": ["a", "b"]}, "three names"),
        ([[0.2, 0.3, 0.5]], {"class_names": "abc"}, "three names"),
        ([[0.2, 0.3, 0.5]], {"rule": "beta:1,1"}, "2"),
    ],
)
def test_what_no_triangle_shows_is_refused(probs, options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        SimplexDisplay.from_predictions(probs, **options)
