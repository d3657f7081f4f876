"""Do new inputs still look like the certification data?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from scorewise._notebook import TextInNotebooks


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
                "new inputs do not look like the certification data, so the guarantee does not "
                f"hold for them: {numbers}."
            )
        return f"new inputs look like the certification data: {numbers}."


def compare_with_calibration(before: np.ndarray, now: np.ndarray, false_alarm_rate: float) -> Drift:
    """Return a test of whether new uncertainties are distributed as those of the calibration."""
    from scipy.stats import ks_2samp

    with warnings.catch_warnings():
        # for large samples the exact p-value may overflow; the asymptotic p-value is as good there
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
