"""Differences between all pairs of measures, with intervals that hold for all of them at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit


@dataclass(frozen=True)
class Contrasts:
    """What is known of the difference of any two of m measures.

    As every pair is allowed for, the best measure may be picked by the same data.
    """

    standard_errors: np.ndarray  # (m, m)
    critical: float  # standard errors on either side of a difference
    p_values: np.ndarray  # (m, m), corrected for the number of pairs


def by_resampling(values: np.ndarray, drawn: np.ndarray, confidence: float) -> Contrasts:
    """From the metrics (m,) and those of resamples (B, m): the largest t of all pairs is resampled.

    Taking the quantile of the largest (max-T) corrects for the number of pairs and knows how they
    depend on each other, so that it costs less than Bonferroni's correction.
    """
    differences = drawn[:, :, None] - drawn[:, None, :]
    errors = differences.std(axis=0, ddof=1)
    spread = np.abs(differences - differences.mean(axis=0))
    largest = np.max(spread / np.where(errors > 0, errors, np.inf), axis=(1, 2))
    observed = _in_errors(np.abs(values[:, None] - values), errors)
    beaten = np.count_nonzero(largest[:, None, None] >= observed, axis=0)
    return Contrasts(
        errors, float(np.quantile(largest, confidence)), (1 + beaten) / (1 + len(largest))
    )


def by_runs(results: np.ndarray, confidence: float) -> Contrasts:
    """From the metrics of R runs (R, m), paired by run: Student's t, corrected by Bonferroni.

    Runs are few, too few to be resampled.
    """
    n_runs, m = results.shape
    n_pairs = max(1, m * (m - 1) // 2)
    differences = results[:, :, None] - results[:, None, :]
    errors = differences.std(axis=0, ddof=1) / np.sqrt(n_runs)
    t = _in_errors(np.abs(differences.mean(axis=0)), errors)
    return Contrasts(
        errors,
        float(stdtrit(n_runs - 1, 1 - (1 - confidence) / (2 * n_pairs))),
        np.minimum(1.0, 2 * n_pairs * stdtr(n_runs - 1, -t)),
    )


def _in_errors(differences: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Differences in standard errors; one that never varied is beyond doubt, or none at all."""
    beyond = np.where(differences > 0, np.inf, 0.0)
    return np.where(errors > 0, differences / np.where(errors > 0, errors, 1.0), beyond)
