"""Is the uncertainty calibrated? The expected loss against the incurred loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._groups import Moments, SortedRows
from scorewise._notebook import TextInNotebooks, display
from scorewise.rules import Unit

_ROUNDING = 1e-6  # of a total, which may be a little below 0 or above 1


@dataclass(frozen=True, eq=False, repr=False)
class LossCalibration(TextInNotebooks):
    """Expected against incurred loss, in loss units; made by :func:`scorewise.loss_calibration`.

    Attributes
    ----------
    expected, incurred : float
        Mean expected loss (total uncertainty), and mean incurred loss.
    gap_interval : tuple of float
        Confidence interval of ``incurred - expected``.
    calibration_error : float
        The root of the mean squared gap over the bins, corrected for the bias
        that noise adds to squares; 0 where the gaps are no larger than noise.
    p_value : float
        P-value of the hypothesis that the expected loss equals the total for every total.
    bin_expected, bin_incurred : arrays (B,)
        Means within bins of equal mass, in rising order of the total.
    bin_low, bin_high : arrays (B,)
        Confidence intervals of ``bin_incurred``, each with that confidence.
    bin_count : array (B,)
        Number of rows per bin.
    confidence : float
        Confidence of the intervals and of ``is_calibrated``.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> total = np.tile([0.1, 0.3], 100)
    >>> wrong = np.arange(200) % 5 == 0
    >>> calibration = sw.loss_calibration(wrong, total)
    >>> round(calibration.expected, 3), calibration.incurred, calibration.is_calibrated
    (0.2, 0.2, True)
    >>> calibration.bin_expected, calibration.bin_incurred
    (array([0.1, 0.3]), array([0.2, 0.2]))
    """

    expected: float
    incurred: float
    gap_interval: tuple[float, float]
    calibration_error: float
    p_value: float
    bin_expected: np.ndarray
    bin_incurred: np.ndarray
    bin_low: np.ndarray
    bin_high: np.ndarray
    bin_count: np.ndarray
    confidence: float

    @property
    def gap(self) -> float:
        """The gap ``incurred - expected``: above 0 if overconfident, below 0 if underconfident."""
        return self.incurred - self.expected

    @property
    def is_calibrated(self) -> bool:
        """Whether the rows show no miscalibration: ``p_value > 1 - confidence``."""
        return self.p_value > 1 - self.confidence

    def __repr__(self) -> str:
        low, high = self.gap_interval
        verdict = "no sign of miscalibration" if self.is_calibrated else "miscalibrated"
        return (
            f"expected loss {self.expected:.4g}, incurred {self.incurred:.4g} "
            f"(gap {self.gap:+.4g} [{low:+.4g}, {high:+.4g}]); calibration error "
            f"{self.calibration_error:.4g}; {verdict} (p = {self.p_value:.2g})"
        )

    def plot(self, ax: Any = None, loss_name: str | Unit = "loss") -> Any:
        """Draw the incurred loss of each bin against the expected loss, and return the display.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.
        loss_name : str or Unit
            Name of the loss on the axes; the ``unit`` of a rule has one.

        Returns
        -------
        scorewise.plots.CalibrationDisplay

        Examples
        --------
        >>> import scorewise as sw
        >>> from matplotlib.figure import Figure
        >>> calibration = sw.loss_calibration([0, 1, 0, 1], [0.1, 0.6, 0.3, 0.8])
        >>> calibration.plot(Figure().subplots(), "error").ax_.get_ylabel()
        'mean incurred error'
        """
        return display("CalibrationDisplay", self, loss_name).plot(ax)


def loss_calibration(
    losses: Any, total: Any, n_bins: int = 10, confidence: float = 0.95
) -> LossCalibration:
    """Return a comparison of the expected loss of predictions with the loss that they incurred.

    Use it to check whether uncertainty is calibrated, in the units of your own loss: the total
    uncertainty under a loss is the expected loss of a calibrated model.

    Calibration is tested without bins. Sorted by the total, the cumulative sums of loss − total
    behave like a Brownian motion if each term has mean 0, and the test statistic is their largest
    absolute value (as in Arrieta-Ibarra et al., 2022). Losses of 0 and 1 are assumed to have the
    variance that the total implies, other losses their own. The test is asymptotic; where only a
    few rows incur a large loss, it is a rough guide.

    Parameters
    ----------
    losses : array (n,)
        Losses of the rows, such as ``sw.task_losses(probs, y, "brier")``; finite.
    total : array (n,)
        Total uncertainty under the same loss, such as ``sw.decompose(probs, "brier").total``.
    n_bins : int
        Number of bins of equal mass; fewer where totals are tied or rows few.
    confidence : float
        Confidence of the intervals and of ``is_calibrated``.

    Returns
    -------
    LossCalibration

    Raises
    ------
    InvalidInput
        If the two differ in length, are empty or not finite.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.5, 1, 2000)  # probability of the predicted class
    >>> wrong = rng.uniform(size=2000) > p
    >>> print(sw.loss_calibration(wrong, 1 - p))
    expected loss 0.2505, incurred 0.247 (gap -0.003543 [-0.02145, +0.01437]); calibration error 0;
    no sign of miscalibration (p = 0.94)
    >>> print(sw.loss_calibration(wrong, (1 - p) / 2))  # overconfident
    expected loss 0.1253, incurred 0.247 (gap +0.1217 [+0.1036, +0.1399]); calibration error
    0.1372; miscalibrated (p = 1e-63)
    """
    loss, expected = validate.losses_and_scores(losses, total, "total")
    expected = validate.finite(expected, "total")
    confidence = validate.proportion(confidence, "confidence")
    n_bins = validate.whole(n_bins, "n_bins", at_least=1)
    rows = SortedRows.of(expected)
    values = calibration_values(loss, expected)[:, rows.order]
    return calibration_of_groups(
        Moments.of(values, rows.starts),
        (values.min(axis=1), values.max(axis=1)),
        n_bins,
        confidence,
    )


def calibration_values(losses: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return what :func:`calibration_of_groups` needs of rows, ``(5, n)``.

    The incurred loss, the expected loss, their gap, and, of losses of 0 and 1, the variance that
    the expected loss implies. The last is 0 in all rows if all losses are 0 or 1.
    """
    chance = np.clip(expected, 0.0, 1.0)
    gap = losses - expected
    return np.stack([losses, expected, gap, chance * (1 - chance), losses * (1 - losses)])


def calibration_of_groups(
    groups: Moments, limits: tuple[np.ndarray, np.ndarray], n_bins: int, confidence: float
) -> LossCalibration:
    """Return the calibration of rows in groups of equal expected loss.

    Parameters
    ----------
    groups : Moments
        Of the values of :func:`calibration_values`, in rising order of the expected loss.
    limits : two arrays (5,)
        The smallest and the largest of each of these values.
    n_bins, confidence
        As for :func:`loss_calibration`.
    """
    smallest, largest = limits
    is_binary = bool(smallest[4] == largest[4] == 0)
    starts = _bin_starts(groups.sizes, n_bins)
    averaged = Moments(groups.sizes, groups.sums[:3], groups.squares[:3])
    bins = averaged.merged(starts)
    overall = bins.merged(np.array([0]))
    sizes, n = bins.sizes, int(overall.sizes[0])
    bin_loss, bin_expected, mean_gap = bins.mean
    own_error, _, error_of_mean = bins.error_of_mean
    # the noise of a bin with a single row is estimated from all rows
    error_of_mean = np.where(sizes > 1, error_of_mean, np.sqrt(overall.squares[2] / n))
    squared = np.sum(sizes * (mean_gap**2 - error_of_mean**2)) / n
    low, high = (
        _binomial_interval(bin_loss * sizes, sizes, confidence)
        if is_binary
        else _student_interval(bin_loss, own_error, sizes, confidence)
    )
    incurred, expected, _ = overall.mean[:, 0]
    gap_low, gap_high = _student_interval(
        overall.mean[2], overall.error_of_mean[2], overall.sizes, confidence
    )
    return LossCalibration(
        expected=float(expected),
        incurred=float(incurred),
        gap_interval=(float(gap_low[0]), float(gap_high[0])),
        calibration_error=float(np.sqrt(max(0.0, squared))),
        p_value=_p_value(groups, smallest, largest, is_binary),
        bin_expected=bin_expected,
        bin_incurred=bin_loss,
        bin_low=low,
        bin_high=high,
        bin_count=sizes,
        confidence=confidence,
    )


def _bin_starts(sizes: np.ndarray, n_bins: int) -> np.ndarray:
    """Return the first groups of bins of about equal mass; tied rows stay together."""
    rows = np.cumsum(sizes)
    starts = np.unique(np.linspace(0, rows[-1], n_bins, endpoint=False).astype(int))
    return np.unique(np.searchsorted(rows, starts, side="right"))


def _student_interval(
    means: np.ndarray, errors: np.ndarray, sizes: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import stdtrit

    half = stdtrit(np.maximum(sizes - 1, 1), (1 + confidence) / 2) * errors
    half = np.where(sizes > 1, half, np.inf)
    return means - half, means + half


def _binomial_interval(
    hits: np.ndarray, sizes: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of Clopper and Pearson for a proportion."""
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), sizes - hits + 1, tail), 0.0)
    rest = np.maximum(sizes - hits, 1)
    return low, np.where(hits < sizes, betaincinv(hits + 1, rest, 1 - tail), 1.0)


def _p_value(groups: Moments, smallest: np.ndarray, largest: np.ndarray, is_binary: bool) -> float:
    """Return the p-value of the largest cumulative sum of gaps at the ends of groups."""
    _, expected, gaps, chance_variance, _ = groups.sums
    greatest = float(np.max(np.abs(np.cumsum(gaps))))
    if is_binary and smallest[1] >= -_ROUNDING and largest[1] <= 1 + _ROUNDING:
        variance = float(np.sum(chance_variance))
    else:
        # plus two gaps of the largest size: large losses may have failed to occur by chance
        squares = groups.squares[2] + groups.sizes * groups.mean[2] ** 2
        variance = float(np.sum(squares) + 2 * max(abs(smallest[2]), abs(largest[2])) ** 2)
    if greatest <= 1e-7 * float(np.sum(np.abs(expected))):  # the gaps may be rounding alone
        return 1.0
    if variance == 0:
        return 0.0
    return _exceedance(greatest / np.sqrt(variance))


def _exceedance(x: float) -> float:
    """Return P(sup |B| > x) for a Brownian motion B on [0, 1]."""
    from scipy.special import ndtr

    if x < 0.3:  # the series below converges slowly, to 1
        return 1.0
    j = np.arange(100)
    return float(min(1.0, 4 * np.sum((-1.0) ** j * ndtr(-(2 * j + 1) * x))))
