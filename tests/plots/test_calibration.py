"""Expected against incurred loss."""

import numpy as np
import pytest

import scorewise as sw
from plots_support import draw, legend_texts
from scorewise.plots import CalibrationDisplay

pytestmark = pytest.mark.usefixtures("no_screen")


def test_bins_are_drawn_with_their_intervals():
    rng = np.random.default_rng(0)
    total = rng.uniform(0, 0.5, 500)
    wrong = rng.uniform(size=500) < total
    display = draw(CalibrationDisplay.from_losses(wrong, total, n_bins=5, loss_name="$loss"))
    expected = sw.loss_calibration(wrong, total, n_bins=5)
    point, _, (bars,) = display.points_.lines
    assert np.array_equal(point.get_xdata(), expected.bin_expected)
    assert np.array_equal(point.get_ydata(), expected.bin_incurred)
    assert np.allclose(
        [bar[:, 1] for bar in bars.get_segments()], np.c_[expected.bin_low, expected.bin_high]
    )
    assert display.ax_.get_aspect() == 1
    assert display.ax_.get_xlim() == display.ax_.get_ylim()
    assert f"{expected.gap:+.3g}" in display.ax_.get_title()
    assert "no sign of miscalibration" in display.ax_.get_title()
    assert legend_texts(display.ax_)[0] == "5 bins of 100 predictions, 95 % intervals"
    assert display.ax_.get_ylabel() == "mean incurred $loss"


def test_miscalibration_is_named_in_the_title():
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
