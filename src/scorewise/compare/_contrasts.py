"""Differences between all pairs of measures, with intervals that hold for all of them at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ROUNDING = 1e-12  # of a metric
_FEWEST_DEGREES = 2.0  # of freedom, of a standard error
_N_NORMAL = 20_000  # draws, for the quantile of the largest t


@dataclass(frozen=True)
class Contrasts:
    """What is known of the difference of any two of m measures.

    As every pair is allowed for, the best measure may be picked by the same data.
    """

    standard_errors: np.ndarray  # (m, m)
    critical: float  # standard errors on either side of a difference
    p_values: np.ndarray  # (m, m), corrected for the number of pairs


def by_resampling(
    values: np.ndarray,
    drawn: np.ndarray,
    confidence: float,
    effective_rows: float,
    rng: np.random.Generator,
) -> Contrasts:
    """From the metrics (m,) and those of resamples (B, m), by the largest t of all pairs (max-T).

    Its distribution is that of t variables with the covariance of the resamples: it corrects for
    the number of pairs, and knows how they depend on each other. The resamples themselves would not
    do, as measures that differ in few rows have heavy tails, which others would pay for; nor would
    normal variables, as standard errors from few rows are themselves uncertain.
    """
    from scipy.special import ndtri

    spread = drawn - drawn.mean(axis=0)
    # not by the eigenvalues of the covariance, which would lose half of the digits
    _, sizes, axes = np.linalg.svd(spread / np.sqrt(len(drawn) - 1), full_matrices=False)
    normal = (rng.normal(size=(_N_NORMAL, len(sizes))) * sizes) @ axes
    degrees = max(effective_rows - 1, _FEWEST_DEGREES)
    errors = (drawn[:, :, None] - drawn[:, None, :]).std(axis=0, ddof=1)
    least = _beyond_rounding(np.zeros_like(errors), values)
    differ = errors > least  # pairs that are equal in all resamples say nothing about the others
    errors = np.maximum(errors * np.sqrt((degrees + 1) / degrees), least)
    largest = np.zeros(_N_NORMAL)
    for i in range(len(values)):
        t = np.abs(normal[:, i : i + 1] - normal[:, i:]) / errors[i, i:] * differ[i, i:]
        largest = np.maximum(largest, t.max(axis=1))
    largest *= np.sqrt((degrees + 1) / rng.chisquare(degrees, _N_NORMAL))
    observed = np.abs(values[:, None] - values) / errors
    n_beaten = _N_NORMAL - np.searchsorted(np.sort(largest), observed)
    # where nothing varies, as for one pair
    critical = max(np.quantile(largest, confidence), ndtri((1 + confidence) / 2))
    return Contrasts(errors, float(critical), (1 + n_beaten) / (1 + _N_NORMAL))


def by_runs(results: np.ndarray, confidence: float) -> Contrasts:
    """From the metrics of R runs (R, m), paired by run: Student's t, corrected by Bonferroni.

    Runs are few, too few to be resampled.
    """
    from scipy.special import stdtr, stdtrit

    n_runs, m = results.shape
    n_pairs = max(1, m * (m - 1) // 2)
    differences = results[:, :, None] - results[:, None, :]
    errors = differences.std(axis=0, ddof=1) / np.sqrt(n_runs)
    errors = _beyond_rounding(errors, results)
    t = np.abs(differences.mean(axis=0)) / errors
    return Contrasts(
        errors,
        float(stdtrit(n_runs - 1, 1 - (1 - confidence) / (2 * n_pairs))),
        np.minimum(1.0, 2 * n_pairs * stdtr(n_runs - 1, -t)),
    )


def _beyond_rounding(errors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Standard errors of at least what rounding does to the values themselves."""
    least = _ROUNDING * float(np.max(np.abs(values))) + float(np.finfo(float).tiny)
    return np.asarray(np.maximum(errors, least))
