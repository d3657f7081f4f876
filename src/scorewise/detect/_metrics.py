"""Metrics of out-of-distribution (OOD) detection, with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._notebook import html
from scorewise._progress import bar
from scorewise._random import generator, seed_of
from scorewise._text import percent

METRICS = ("auroc", "aupr_out", "aupr_in", "fpr95")

Interval = tuple[float, float]

_BATCH = 1 << 21  # rows that are drawn at a time


@dataclass(frozen=True, repr=False)
class OODMetrics:
    """How well uncertainty separates OOD rows; made by :func:`scorewise.ood_metrics`.

    Attributes
    ----------
    auroc : float
        Probability that an OOD row is more uncertain than an in-distribution row; ties count half.
    aupr_out, aupr_in : float
        Average precision with OOD rows as the positive class, and with in-distribution rows.
    fpr95 : float
        False positive rate at a true positive rate of at least 95 %.
    intervals : dict
        By metric: DeLong's interval of ``auroc``; bootstrap intervals of the others with
        ``n_resamples``.
    confidence : float
        Confidence of each interval.
    n_in, n_out : int
        Number of in-distribution and of OOD rows.
    error_bounds : dict
        By metric, how much it can differ from that of the rows themselves, where rows of nearly
        equal uncertainty were counted as tied; empty otherwise.

    Examples
    --------
    >>> import scorewise as sw
    >>> metrics = sw.ood_metrics([0.1, 0.2, 0.2, 0.4], [0.2, 0.5, 0.9, 0.7])
    >>> metrics.auroc, metrics.n_out
    (0.875, 4)
    >>> print(metrics)
    auroc 0.875 [0.384, 0.987], aupr_out 0.893, aupr_in 0.825, fpr95 0.750
    """

    auroc: float
    aupr_out: float
    aupr_in: float
    fpr95: float
    intervals: dict[str, Interval]
    confidence: float
    n_in: int
    n_out: int
    error_bounds: dict[str, float] = field(default_factory=dict)

    @property
    def auroc_interval(self) -> Interval:
        """The interval of the AUROC, by DeLong's method."""
        return self.intervals["auroc"]

    def __repr__(self) -> str:
        return ", ".join(" ".join(filter(None, row)) for row in self._rows())

    def _repr_html_(self) -> str:
        heading = ("metric", "value", f"{percent(self.confidence, '.6g')} interval")
        return html([heading, *self._rows()])

    def _rows(self) -> list[tuple[str, str, str]]:
        """For each metric its name, its value and its interval, if there is one."""
        intervals = {
            name: f"[{low:.3f}, {high:.3f}]" for name, (low, high) in self.intervals.items()
        }
        return [(x, f"{getattr(self, x):.3f}", intervals.get(x, "")) for x in METRICS]


def ood_metrics(
    u_in: Any,
    u_out: Any,
    confidence: float = 0.95,
    *,
    n_resamples: int = 0,
    random_state: Any = None,
    progress: bool | None = None,
) -> OODMetrics:
    """Return AUROC, AUPR and FPR at 95 % TPR of detecting OOD rows by their uncertainty.

    Use it to compare detectors. Tied scores count half (scores that are all equal give an AUROC of
    0.5).

    Parameters
    ----------
    u_in : array (n,)
        Uncertainties of in-distribution rows.
    u_out : array (m,)
        Uncertainties of OOD rows, the positive class.
    confidence : float
        Confidence of the intervals.
    n_resamples : int
        Bootstrap resamples for intervals of AUPR and FPR95; 1,000 are usual.
    random_state : int, RandomState or Generator, optional
        Seed of the resamples.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.

    Returns
    -------
    OODMetrics

    Raises
    ------
    InvalidInput
        If either array is empty or holds NaN.

    Examples
    --------
    >>> import scorewise as sw
    >>> m = sw.ood_metrics([0.1, 0.2, 0.2, 0.4], [0.2, 0.5, 0.9, 0.7])
    >>> m.auroc, m.fpr95
    (0.875, 0.75)
    >>> sw.ood_metrics([0, 0, 0], [0, 0]).auroc
    0.5
    """
    scores_in, scores_out = validate.vector(u_in, "u_in"), validate.vector(u_out, "u_out")
    confidence = validate.proportion(confidence, "confidence")
    n_resamples = validate.whole(n_resamples, "n_resamples", at_least=0)
    _, codes = np.unique(np.r_[scores_in, scores_out], return_inverse=True)
    code_in, code_out = codes[: len(scores_in)], codes[len(scores_in) :]
    n_codes = int(codes.max()) + 1
    c_in, c_out = (np.bincount(code, minlength=n_codes)[None] for code in (code_in, code_out))
    values: dict[str, Any] = {
        name: float(value[0]) for name, value in _metrics_of_counts(c_in, c_out).items()
    }
    intervals = {"auroc": _delong(c_in[0], c_out[0], values["auroc"], confidence)}
    if n_resamples:
        seed = seed_of(random_state)
        drawn = _metrics_of_resamples(code_in, code_out, n_codes, n_resamples, seed, progress)
        intervals |= _quantiles(drawn, confidence)
    return OODMetrics(
        **values,
        intervals=intervals,
        confidence=confidence,
        n_in=len(scores_in),
        n_out=len(scores_out),
    )


def _metrics_of_resamples(
    code_in: np.ndarray,
    code_out: np.ndarray,
    n_codes: int,
    n_resamples: int,
    seed: int,
    progress: bool | None,
) -> list[dict[str, np.ndarray]]:
    """Return the metrics of bootstrap resamples; each set of rows is resampled by itself."""
    rngs = generator(seed, 0), generator(seed, 1)
    batch = max(1, _BATCH // (len(code_in) + len(code_out)))
    parts = []
    with bar("resampling", n_resamples, progress) as advance:
        for start in range(0, n_resamples, batch):
            n_drawn = min(batch, n_resamples - start)
            counts = (
                _counts(code[rng.integers(len(code), size=(n_drawn, len(code)))], n_codes)
                for code, rng in zip((code_in, code_out), rngs, strict=True)
            )
            parts.append(_metrics_of_counts(*counts))
            advance(n_drawn)
    return parts


def ood_metrics_of_counts(
    c_in: np.ndarray,
    c_out: np.ndarray,
    is_tied: np.ndarray,
    confidence: float,
    n_resamples: int,
    seed: int,
    progress: bool | None = None,
) -> OODMetrics:
    """Return the metrics of rows in groups of equal or nearly equal scores.

    A resample gives every row a random weight. The sums of the weights of groups are multinomial,
    so they are drawn without the rows.

    Parameters
    ----------
    c_in, c_out : integer arrays (G,)
        Number of in-distribution and of OOD rows in each group, in rising order of the score.
    is_tied : array of bool (G,)
        Whether all scores of a group are equal.
    confidence, n_resamples, seed, progress
        Of the intervals, and of the resamples.
    """
    values: dict[str, Any] = {
        name: float(value[0]) for name, value in _metrics_of_counts(c_in[None], c_out[None]).items()
    }
    intervals = {"auroc": _delong(c_in, c_out, values["auroc"], confidence)}
    n_in, n_out = int(c_in.sum()), int(c_out.sum())
    rngs = generator(seed, 0), generator(seed, 1)
    batch = max(1, _BATCH // len(c_in))
    parts = []
    with bar("resampling", n_resamples, progress) as advance:
        for start in range(0, n_resamples, batch):
            n_drawn = min(batch, n_resamples - start)
            drawn = (
                rng.multinomial(counts.sum(), counts / counts.sum(), size=n_drawn)
                for counts, rng in zip((c_in, c_out), rngs, strict=True)
            )
            parts.append(_metrics_of_counts(*drawn))
            advance(n_drawn)
    intervals |= _quantiles(parts, confidence)
    bounds = {} if is_tied.all() else _error_bounds(c_in, c_out, is_tied)
    return OODMetrics(
        **values,
        intervals=intervals,
        confidence=confidence,
        n_in=n_in,
        n_out=n_out,
        error_bounds=bounds,
    )


def _quantiles(parts: list[dict[str, np.ndarray]], confidence: float) -> dict[str, Interval]:
    """Return bootstrap intervals from the metrics of resamples; AUROC has DeLong's."""
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    intervals = {}
    for name in METRICS[1:] if parts else ():
        low, high = np.quantile(np.concatenate([part[name] for part in parts]), tails)
        intervals[name] = (float(low), float(high))
    return intervals


def auroc_error(c_in: np.ndarray, c_out: np.ndarray, is_tied: np.ndarray) -> float:
    """Return by how much the AUROC can change if the rows of groups that are not tied are ordered.

    The arguments are those of :func:`ood_metrics_of_counts`.
    """
    pairs = np.where(is_tied, 0.0, c_in * (c_out / 2))
    return float(np.sum(pairs) / c_in.sum() / c_out.sum())


def _error_bounds(c_in: np.ndarray, c_out: np.ndarray, is_tied: np.ndarray) -> dict[str, float]:
    """Return by how much metrics can change if the rows of groups that are not tied are ordered.

    For the average precision, the i-th positive of a group has at best all positives and at worst
    all negatives of the group before it.
    """
    n_in, n_out = int(c_in.sum()), int(c_out.sum())
    from_in, from_out = (np.cumsum(c[::-1])[::-1] for c in (c_in, c_out))
    last = int(np.flatnonzero(20 * from_out >= 19 * n_out)[-1])
    precision_errors = {}
    for name, positives, negatives, true, false in (
        ("aupr_out", c_out, c_in, from_out, from_in),
        ("aupr_in", c_in, c_out, np.cumsum(c_in), np.cumsum(c_out)),
    ):
        true_before, false_before = true - positives, false - negatives
        best = true / np.maximum(true + false_before, 1)
        worst = (true_before + 1) / (true_before + false + 1)
        ranges = np.where(is_tied | (positives == 0), 0.0, np.maximum(best - worst, 0.0))
        precision_errors[name] = float(np.sum(positives * ranges)) / int(positives.sum())
    return {
        "auroc": auroc_error(c_in, c_out, is_tied),
        **precision_errors,
        "fpr95": 0.0 if is_tied[last] else float(c_in[last]) / n_in,
    }


def _counts(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """Return the count of each code in each row of ``codes``."""
    n_rows = len(codes)
    shifted = codes + n_codes * np.arange(n_rows)[:, None]
    return np.bincount(shifted.ravel(), minlength=n_rows * n_codes).reshape(n_rows, n_codes)


def _metrics_of_counts(c_in: np.ndarray, c_out: np.ndarray) -> dict[str, np.ndarray]:
    """Return the metrics from the number of rows with each score, in rising order, ``(B, G)``."""
    n_in, n_out = c_in.sum(axis=1), c_out.sum(axis=1)
    up_to_in, up_to_out = np.cumsum(c_in, axis=1), np.cumsum(c_out, axis=1)
    # the number of rows that a threshold at each score reports as OOD
    from_in, from_out = n_in[:, None] - up_to_in + c_in, n_out[:, None] - up_to_out + c_out
    reaches_95 = 20 * from_out >= 19 * n_out[:, None]
    last = reaches_95.shape[1] - 1 - np.argmax(reaches_95[:, ::-1], axis=1)
    return {
        "auroc": np.sum(c_out * (up_to_in - c_in / 2), axis=1) / n_in / n_out,
        "aupr_out": _average_precision(c_out, from_out, from_out + from_in),
        "aupr_in": _average_precision(c_in, up_to_in, up_to_in + up_to_out),
        "fpr95": np.take_along_axis(from_in, last[:, None], axis=1)[:, 0] / n_in,
    }


def _average_precision(
    positives: np.ndarray, true_positives: np.ndarray, predicted: np.ndarray
) -> np.ndarray:
    weighted = positives * true_positives / np.maximum(predicted, 1)
    return np.asarray(np.sum(weighted, axis=1) / positives.sum(axis=1))


def _delong(c_in: np.ndarray, c_out: np.ndarray, auroc: float, confidence: float) -> Interval:
    """Return DeLong's interval, on the logit scale so that it stays between 0 and 1."""
    n_in, n_out = int(c_in.sum()), int(c_out.sum())
    n_smaller = min(n_in, n_out)
    if np.count_nonzero(c_in) == np.count_nonzero(c_out) == 1 or auroc in (0.0, 1.0):
        # no pair contradicts the others; the limit is that of Clopper and Pearson for 0 of n
        limit = 1 - ((1 - confidence) / 2) ** (1 / n_smaller)
        return auroc - limit * auroc, auroc + limit * (1 - auroc)
    if n_smaller < 2:
        return (0.0, 1.0)
    from scipy.special import expit, logit, ndtri

    placements_out = (np.cumsum(c_in) - c_in / 2) / n_in  # per OOD row
    placements_in = (n_out - np.cumsum(c_out) + c_out / 2) / n_out  # per in-distribution row
    variance = (
        np.sum(c_out * (placements_out - auroc) ** 2) / (n_out - 1) / n_out
        + np.sum(c_in * (placements_in - auroc) ** 2) / (n_in - 1) / n_in
    )
    half = ndtri((1 + confidence) / 2) * np.sqrt(variance) / (auroc * (1 - auroc))
    return float(expit(logit(auroc) - half)), float(expit(logit(auroc) + half))
