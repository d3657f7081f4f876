"""Learning curves of active learning."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from sklearn.linear_model import LogisticRegression

import scorewise as sw
from plots_support import HOSTILE, curve, curves, legend_texts, render
from scorewise.acquire import Round
from scorewise.plots import LearningCurveDisplay
from scorewise.plots.style import BLUE, COLORS, GREY

pytestmark = pytest.mark.usefixtures("no_screen")


def run_of(losses, step=10):
    """Rounds with these losses, after each of ``step`` labels more."""
    nothing = np.empty(0, dtype=int)
    return [Round(i, nothing, nothing, None, step * (i + 1), loss) for i, loss in enumerate(losses)]


def band_limits(band):
    """Lower and upper edge of a band, by x."""
    vertices = band.get_paths()[0].vertices
    xs = np.unique(vertices[:, 0])
    return np.transpose(
        [(y.min(), y.max()) for y in (vertices[vertices[:, 0] == x, 1] for x in xs)]
    )


def test_lines_are_means_and_bands_one_standard_deviation_either_side():
    display = render(LearningCurveDisplay(curves(), "zero-one loss"))
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
    display = render(LearningCurveDisplay(curves()))
    baseline = display.lines_["random"]
    assert baseline.get_color() == GREY
    assert baseline.get_linestyle() == "--"
    assert to_hex(display.bands_["random"].get_facecolor()[0]) == GREY.lower()
    others = [line.get_color() for name, line in display.lines_.items() if name != "random"]
    assert others == list(COLORS[:4])
    for name, line in display.lines_.items():
        assert to_hex(display.bands_[name].get_facecolor()[0]) == line.get_color().lower()
    alike = render(LearningCurveDisplay({"Random": curve()}))
    assert alike.lines_["Random"].get_color() == BLUE


def test_the_legend_has_the_order_in_which_the_lines_end():
    heights = {"low": 0.1, "high": 0.9, "random": 0.5}
    display = LearningCurveDisplay({name: ([1, 2], [[1, h]]) for name, h in heights.items()})
    assert legend_texts(render(display).ax_) == ["high", "random", "low"]


def test_one_run_has_no_band_and_the_legend_says_so():
    display = render(LearningCurveDisplay({"a": curve(1)}))
    assert display.bands_ == {}
    assert display.ax_.get_legend().get_title().get_text() == "one run, so no band"
    display = render(LearningCurveDisplay({"a": curve(1), "b": curve(3)}))
    assert list(display.bands_) == ["b"]
    assert sorted(legend_texts(display.ax_)) == ["a (one run)", "b (3 runs)"]
    assert "where there are several" in display.ax_.get_legend().get_title().get_text()


def test_one_number_of_labels_shows():
    display = render(LearningCurveDisplay({"a": ([10], [[0.2], [0.4]])}))
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
    display = render(LearningCurveDisplay.from_rounds(runs, "log loss"))
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
    display = render(LearningCurveDisplay.from_rounds({"random": runs}))
    assert display.lines_["random"].get_xdata().tolist() == [10, 20, 30]
    expected = [np.mean([run[t].loss for run in runs]) for t in range(3)]
    assert np.allclose(display.lines_["random"].get_ydata(), expected)


def test_hostile_measures_are_shown_as_they_are():
    display = render(LearningCurveDisplay(curves(HOSTILE), "$loss_"))
    shown = legend_texts(display.ax_)
    assert {"$x_", "_hidden", "$a$ b^{", "two lines"} < set(shown)
    assert len(set(shown)) == len(HOSTILE)
    assert max(map(len, shown)) <= 30
    assert not any(text.get_parse_math() for text in display.ax_.get_legend().get_texts())
    assert display.ax_.get_ylabel() == "$loss_"
    assert not display.ax_.yaxis.label.get_parse_math()


def test_tensors_can_be_drawn():
    n_labelled, losses = curve(3)
    tensors = torch.asarray(n_labelled), torch.asarray(losses).requires_grad_()
    line = render(LearningCurveDisplay({"a": tensors})).lines_["a"]
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
def test_objects_that_are_no_rounds_are_refused(bad, message):
    with pytest.raises(sw.InvalidInput, match=message):
        LearningCurveDisplay.from_rounds(bad)
