"""Expected loss against incurred loss."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from scorewise._text import percent
from scorewise.calibrate import LossCalibration, loss_calibration
from scorewise.errors import InvalidInput
from scorewise.plots.style import (
    BLUE,
    GREY,
    Axes,
    Figure,
    add_legend,
    axes_for,
    despine,
    loss_label,
)
from scorewise.rules import Unit

_LARGEST_RATIO = 4.0  # of the two axes' ranges; beyond it, a shared range would flatten the points


class CalibrationDisplay:
    """The expected loss of predictions against the loss that they incurred, in bins.

    Use it to see whether the total uncertainty is calibrated. Points above the diagonal show
    predictions that incurred more loss than expected: there the model is overconfident.

    Parameters
    ----------
    calibration : LossCalibration
        Made by :func:`scorewise.loss_calibration`.
    loss_name : str or Unit
        Name of the loss on the axes; the ``unit`` of a rule has one.

    Attributes
    ----------
    calibration : LossCalibration
    limits : pair of (float, float)
        The ranges of the two axes.
    errors : array (2, B)
        Lengths of the intervals below and above the incurred losses.
    ax_, figure_
        The Axes and the Figure that were drawn on, once ``plot`` was called.
    points_ : ErrorbarContainer
        The bins.
    diagonal_ : AxLine
        Where calibrated predictions lie.

    Raises
    ------
    InvalidInput
        If ``calibration`` is not a LossCalibration.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from matplotlib.figure import Figure
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.5, 1, 2000)  # of the class that is predicted
    >>> wrong = rng.uniform(size=2000) > p
    >>> display = sw.plots.CalibrationDisplay.from_losses(wrong, 1 - p, loss_name="zero-one loss")
    >>> display.plot(Figure().subplots()).ax_.get_xlabel()
    'mean expected zero-one loss (total uncertainty)'
    """

    ax_: Axes
    figure_: Figure
    points_: Any
    diagonal_: Any

    def __init__(self, calibration: LossCalibration, loss_name: str | Unit = "loss") -> None:
        if not isinstance(calibration, LossCalibration):
            raise InvalidInput(
                "only a LossCalibration can be drawn; make one with sw.loss_calibration, or use "
                "CalibrationDisplay.from_losses"
            )
        self.calibration = calibration
        self.loss_name = loss_name

    @classmethod
    def from_losses(
        cls,
        losses: Any,
        total: Any,
        n_bins: int = 10,
        confidence: float = 0.95,
        loss_name: str | Unit = "loss",
    ) -> Self:
        """Return the display of incurred losses and of the total uncertainties (expected losses).

        Parameters
        ----------
        losses, total, n_bins, confidence
            As for :func:`scorewise.loss_calibration`.
        loss_name : str or Unit
            Name of the loss on the axes.

        Returns
        -------
        CalibrationDisplay

        Raises
        ------
        InvalidInput
            If the two differ in length, are empty or not finite.
        """
        return cls(loss_calibration(losses, total, n_bins, confidence), loss_name)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw a point with its interval for every bin, and the diagonal.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        CalibrationDisplay
            This display.
        """
        self.figure_, (self.ax_,) = axes_for(ax, (5.4, 5.4))
        calibration = self.calibration
        x_range, y_range = self.limits
        self.diagonal_ = self.ax_.axline((0, 0), slope=1, color=GREY, linestyle="--", zorder=1)
        self.points_ = self.ax_.errorbar(
            calibration.bin_expected,
            calibration.bin_incurred,
            yerr=self.errors,
            fmt="o",
            markersize=5.5,
            color=BLUE,
            ecolor=BLUE,
            elinewidth=1.4,
            capsize=3,
        )
        self.ax_.set(xlim=x_range, ylim=y_range)
        if x_range == y_range:
            self.ax_.set_aspect("equal")
        self._name_axes()
        confidence = percent(calibration.confidence, ".6g")
        add_legend(
            self.ax_,
            [self.points_, self.diagonal_],
            [
                f"{_bins(calibration.bin_count)}, {confidence} intervals",
                "calibrated (above: overconfident; below: underconfident)",
            ],
            loc="upper left",
            fontsize="small",
            framealpha=0.9,
        )
        return self

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The ranges of the two axes: the same, unless the data would shrink to a line in it."""
        calibration = self.calibration
        ends = np.r_[calibration.bin_incurred, calibration.bin_low, calibration.bin_high]
        x_range = _span(calibration.bin_expected)
        y_range = _span(ends[np.isfinite(ends)])
        widths = [high - low for low, high in (x_range, y_range)]
        if max(widths) > _LARGEST_RATIO * min(widths):
            return _with_room(x_range, 0.05), _with_room(y_range, 0.25)
        both = _with_room((min(x_range[0], y_range[0]), max(x_range[1], y_range[1])), 0.18)
        return both, both

    @property
    def errors(self) -> np.ndarray:
        """The lengths (2, B) of the intervals below and above the incurred losses, in the axes."""
        calibration = self.calibration
        _, y_range = self.limits
        low, high = (
            np.clip(ends, *y_range) for ends in (calibration.bin_low, calibration.bin_high)
        )
        return np.stack([calibration.bin_incurred - low, high - calibration.bin_incurred])

    def _name_axes(self) -> None:
        calibration = self.calibration
        loss = loss_label(self.loss_name)
        self.ax_.set_xlabel(f"mean expected {loss} (total uncertainty)", parse_math=False)
        self.ax_.set_ylabel(f"mean incurred {loss}", parse_math=False)
        low, high = calibration.gap_interval
        between = f" [{low:+.3g}, {high:+.3g}]" if np.isfinite(low) else ""
        verdict = "no sign of miscalibration" if calibration.is_calibrated else "miscalibrated"
        self.ax_.set_title(
            "Is the expected loss calibrated?\n"
            f"incurred − expected: {calibration.gap:+.3g}{between}\n"
            f"calibration error {calibration.calibration_error:.2g}; {verdict} "
            f"(p = {calibration.p_value:.2g})",
            fontsize="medium",
        )
        despine(self.ax_)


def _bins(counts: np.ndarray) -> str:
    """The number of bins and their size."""
    least, most = int(np.min(counts)), int(np.max(counts))
    if most == 1:
        return f"{len(counts)} predictions"
    size = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"{len(counts)} {'bin' if len(counts) == 1 else 'bins'} of {size} predictions"


def _span(values: np.ndarray) -> tuple[float, float]:
    low, high = float(np.min(values)), float(np.max(values))
    if low == high:
        room = 0.1 * abs(low) or 0.1
        return low - room, high + room
    return low, high


def _with_room(span: tuple[float, float], above: float) -> tuple[float, float]:
    """A range with a margin, and room for the legend at its upper end."""
    low, high = span
    return low - 0.05 * (high - low), high + above * (high - low)
