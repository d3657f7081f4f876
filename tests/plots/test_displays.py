"""What all displays have in common: where they draw, and that everything can be read."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import scorewise as sw
from plots_support import COSTS, GAINS, HOSTILE, comparison, curve, curves, decisions, predictions
from scorewise.plots import (
    CalibrationDisplay,
    ComparisonDisplay,
    DecisionDisplay,
    DecompositionDisplay,
    LearningCurveDisplay,
    OODDisplay,
    RejectionCurveDisplay,
    SimplexDisplay,
)
from scorewise.plots.style import line_style

pytestmark = pytest.mark.usefixtures("no_screen")


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
        "simplex": SimplexDisplay(probs[0], "log"),
        "learning": LearningCurveDisplay(curves(), "zero-one loss"),
        "learning, one run": LearningCurveDisplay({"a": curve(1), "b": curve(1)}),
        "decisions": DecisionDisplay(decisions()),
        "decisions with gains": DecisionDisplay(decisions(GAINS)),
    }


def hostile_displays():
    """Names with dollar signs, underscores, line breaks, and of great length."""
    probs, _ = predictions()
    u = {name: np.arange(4) for name in HOSTILE}
    costs = np.hstack([COSTS, [[100] * 3] * 2])
    return {
        "hostile rejection": RejectionCurveDisplay.from_uncertainty([0, 1, 0, 1], u),
        "hostile comparison": ComparisonDisplay(comparison(HOSTILE[:3] + HOSTILE[4:])),
        "hostile simplex": SimplexDisplay(probs[0], "log", HOSTILE[-3:]),
        "hostile learning": LearningCurveDisplay(curves(HOSTILE), HOSTILE[-1]),
        "hostile decisions": DecisionDisplay(decisions(costs, action_names=HOSTILE), HOSTILE[-1]),
    }


NAMES = list(displays())


def axes_of(display):
    return display.axes_ if isinstance(display, OODDisplay) else (display.ax_,)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_own_figure", [False, True])
def test_every_display_is_drawn_on_passed_axes_or_a_new_figure(name, is_own_figure, tmp_path):
    display, figure = displays()[name], Figure(figsize=(9, 4))
    callers = figure.subplots(1, 2 if name == "ood" else 1)
    assert display.plot(None if is_own_figure else callers) is display
    assert len(plt.get_fignums()) == (1 if is_own_figure else 0)
    assert (display.figure_ is figure) == (not is_own_figure)
    for ax in axes_of(display):
        assert ax.figure is display.figure_
        assert ax.get_title()
        if name != "simplex":
            assert ax.get_xlabel()
    display.figure_.savefig(tmp_path / "figure.png")
    image = plt.imread(tmp_path / "figure.png")
    assert image[..., :3].std() > 0.02  # not blank


@pytest.mark.parametrize("name", NAMES)
def test_neighbouring_axes_are_left_alone(name):
    display, figure = displays()[name], Figure()
    axes = figure.subplots(1, 3)
    display.plot(axes[:2] if name == "ood" else axes[0])
    assert axes_of(display)[0] is axes[0]
    assert not axes[2].has_data()


@pytest.mark.parametrize("name", NAMES)
def test_only_axes_can_be_drawn_on(name):
    with pytest.raises(sw.InvalidInput, match="matplotlib Axes can be drawn on"):
        displays()[name].plot("here")


@pytest.mark.parametrize("name", [*NAMES, *hostile_displays()])
def test_nothing_is_cut_off_and_no_two_texts_overlap(name):
    display = (displays() | hostile_displays())[name].plot()
    display.figure_.canvas.draw()
    width, height = display.figure_.canvas.get_width_height()
    for ax in display.figure_.axes:
        texts = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        texts += [] if ax.get_legend() is None else ax.get_legend().get_texts()
        if "decisions" in name:
            texts += ax.get_yticklabels()
        boxes = [t.get_window_extent() for t in texts if t.get_text() and t.get_visible()]
        for i, box in enumerate(boxes):
            assert box.x0 >= -1
            assert box.y0 >= -1
            assert box.x1 <= width + 1
            assert box.y1 <= height + 1
            assert not any(box.overlaps(other) for other in boxes[:i])


def test_importing_the_displays_does_not_import_matplotlib():
    code = "import sys, scorewise as sw; sw.plots.OODDisplay; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'scorewise\[plots\]'"):
        displays()["rejection"].plot()


def test_the_loss_is_named_by_a_string_or_by_the_unit_of_a_rule():
    for loss_name, label in (("my\nloss", "my loss"), (sw.rules.log.unit, "log loss (nats)")):
        display = LearningCurveDisplay(curves(), loss_name).plot(Figure().subplots())
        assert display.ax_.get_ylabel() == label


def test_no_two_of_30_lines_look_alike():
    looks = [line_style(i) for i in range(30)]
    assert len({(look["color"], str(look["linestyle"])) for look in looks}) == 30
    assert len({str(look["linestyle"]) for look in looks[:6]}) == 6
