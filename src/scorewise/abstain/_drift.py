"""Do new inputs still look like those that a promise was made for?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, repr=False)
class Drift:
    """What a comparison of new uncertainties with those of the calibration data found.

    Attributes
    ----------
    has_drifted : bool
        Whether they differ by more than chance: ``p_value <= false_alarm_rate``.
    p_value : float
        Of the two-sample Kolmogorov-Smirnov test, conservative where uncertainties are tied.
    false_alarm_rate : float
        How often inputs that have not changed would be called changed, at most.
    mean_before, mean_now : float
        Mean uncertainty of the calibration data and of the new inputs.
    n_now : int
        How many new inputs were looked at.
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
        compared = (
            f"mean uncertainty {self.mean_now:.4g} of {self.n_now:,} new inputs, "
            f"{self.mean_before:.4g} of the calibration data, p = {self.p_value:.2g}"
        )
        if self.has_drifted:
            return (
                "new inputs do not look like the calibration data, so the promise does not hold "
                f"for them: {compared}."
            )
        return f"new inputs look like the calibration data: {compared}."


def compare_with_calibration(before: np.ndarray, now: np.ndarray, false_alarm_rate: float) -> Drift:
    """Test whether uncertainties could come from where those of the calibration data came from."""
    from scipy.stats import ks_2samp

    with warnings.catch_warnings():
        # for large samples the exact p-value may overflow; the asymptotic one is as good there
        warnings.simplefilter("ignore", RuntimeWarning)
        p_value = float(ks_2samp(before, now).pvalue)
    return Drift(
        p_value <= false_alarm_rate,
        p_value,
        false_alarm_rate,
        float(np.mean(before)),
        float(np.mean(now)),
        len(now),
    )
