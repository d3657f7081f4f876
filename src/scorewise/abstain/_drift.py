"""Do new inputs still look like the certification data?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from scorewise._notebook import TextInNotebooks

_FEW = 10_000  # rows for which SciPy computes the exact p-value


@dataclass(frozen=True, repr=False)
class Drift(TextInNotebooks):
    """A comparison of new uncertainties with those of the certification data.

    Made by :meth:`scorewise.abstain.Policy.apply` and
    :meth:`scorewise.SelectiveClassifier.check_drift`. It is True in an ``if`` where inputs have
    drifted.

    Attributes
    ----------
    has_drifted : bool
        Whether they differ by more than chance: ``p_value <= false_alarm_rate``.
    p_value : float
        P-value of the two-sample Kolmogorov-Smirnov test, conservative where uncertainties are
        tied.
    false_alarm_rate : float
        How often unchanged inputs are reported as changed, at most.
    mean_before, mean_now : float
        Mean uncertainty of the certification data and of the new inputs.
    n_now : int
        Number of new inputs.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.linspace(0.01, 0.4, 200))[:, None]
    >>> policy = sw.certify(probs, np.zeros(200, int), max_loss=0.1)
    >>> drift = policy.check_drift(np.linspace(0.2, 0.5, 50))
    >>> if drift:
    ...     print(drift)
    new inputs do not look like the certification data, so the guarantee may not hold for them:
    mean uncertainty 0.35 of 50 new inputs, 0.205 of the certification data, p = 4.9e-09.
    """

    has_drifted: bool
    p_value: float
    false_alarm_rate: float
    mean_before: float
    mean_now: float
    n_now: int

    def __bool__(self) -> bool:
        return self.has_drifted

    def __repr__(self) -> str:
        numbers = (
            f"mean uncertainty {self.mean_now:.4g} of {self.n_now:,} new inputs, "
            f"{self.mean_before:.4g} of the certification data, p = {self.p_value:.2g}"
        )
        if self.has_drifted:
            return (
                "new inputs do not look like the certification data, so the guarantee may not "
                f"hold for them: {numbers}."
            )
        return f"new inputs look like the certification data: {numbers}."


def count_between(before: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return how many new uncertainties are below, at and between those of the calibration.

    Counts of several sets of rows may be added, so that rows need not be in memory together.

    Examples
    --------
    >>> count_between(np.array([0.1, 0.4, 0.4]), np.array([0.0, 0.1, 0.2, 0.3, 0.9]))
    array([1, 1, 2, 0, 1])
    """
    points = np.unique(before)
    at_or_below = np.searchsorted(points, now, side="right")
    is_at = (at_or_below > 0) & (points[at_or_below - 1] == now)
    return np.bincount(2 * at_or_below - is_at, minlength=2 * len(points) + 1)


def compare_with_calibration(
    before: np.ndarray, counts: np.ndarray, mean_now: float, false_alarm_rate: float
) -> Drift:
    """Return a test of whether new uncertainties are distributed as those of the calibration.

    ``counts`` are those of :func:`count_between`. They determine the statistic of Kolmogorov and
    Smirnov exactly: between two points of the calibration, one distribution function is constant,
    and the other rises, so that the distance is largest at an end.
    """
    n_now = int(counts.sum())
    p_value = _p_value(before, counts, n_now)
    return Drift(
        p_value <= false_alarm_rate,
        p_value,
        false_alarm_rate,
        float(np.mean(before)),
        mean_now,
        n_now,
    )


def _p_value(before: np.ndarray, counts: np.ndarray, n_now: int) -> float:
    from scipy.stats import ks_2samp, kstwo

    points, counts_before = np.unique(before, return_counts=True)
    if max(n_now, len(before)) <= _FEW:
        # values at the same places among the points have the same statistic
        now = np.repeat(np.arange(len(counts)), counts)
        same_before = np.repeat(2 * np.arange(len(points)) + 1, counts_before)
        with warnings.catch_warnings():
            # the exact p-value may overflow; the asymptotic p-value is as good there
            warnings.simplefilter("ignore", RuntimeWarning)
            return float(ks_2samp(same_before, now).pvalue)
    share_now = np.cumsum(counts)[:-1] / n_now  # below and at each point
    at_before = np.cumsum(counts_before)
    share_before = np.stack([at_before - counts_before, at_before], axis=-1).ravel() / len(before)
    distance = float(np.abs(share_now - share_before).max())
    larger, smaller = sorted((float(len(before)), float(n_now)), reverse=True)
    return float(np.clip(kstwo.sf(distance, np.round(larger * smaller / (larger + smaller))), 0, 1))
