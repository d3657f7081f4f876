"""The result of a comparison of measures, and its simultaneous intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from scorewise._notebook import display, frame, html
from scorewise._text import aligned, percent
from scorewise.calibrate import LossCalibration
from scorewise.compare._calibrating import CalibrationEffect
from scorewise.compare._influence import Estimate, root_of_covariance

VERDICTS = {
    "best": "best here",
    "indistinguishable": "indistinguishable from the best",
    "worse": "worse than the best",
}
METRICS = {"aulc": "AULC", "auroc": "AUROC"}
TASK_NAMES = {"selective": "Abstaining", "ood": "OOD detection", "active": "Active learning"}

_ROUNDING = 1e-12  # of a metric
_FEWEST_DEGREES = 2.0  # of freedom, of a standard error
_FEWEST_RESAMPLES = 20_000  # for the quantile of the largest t


@dataclass(frozen=True)
class Standing:
    """The rank of one measure in a comparison, with its distance from the best.

    Attributes
    ----------
    name : str
    value : float
        Its metric.
    distance_to_best : float
        Distance from the best, 0 or more.
    low, high : float
        Interval of ``distance_to_best``, at the comparison's confidence for all measures together.
    p_value : float
        P-value of the hypothesis that the measure is as good as the best, corrected for all pairs.
    verdict : str
        ``"best"``, ``"indistinguishable"`` from the best, or ``"worse"``.
    same_order_as : str, optional
        An earlier measure that orders all rows alike, and so has the same numbers.
    standard_error : float
        Of ``distance_to_best``; 0 for the best.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> comparison = sw.compare(probs, y, rules="log", baselines=False, random_state=0)
    >>> for row in comparison.standings:
    ...     print(f"{row.name}: {row.value:.3f}, {row.verdict}")
    total zero-one: 0.077, best
    total log: 0.077, indistinguishable
    aleatoric log: 0.077, indistinguishable
    epistemic log: 0.423, worse
    """

    name: str
    value: float
    distance_to_best: float
    low: float
    high: float
    p_value: float
    verdict: str
    same_order_as: str | None = None
    standard_error: float = 0.0


@dataclass(frozen=True, repr=False)
class Comparison:
    """Measures from the best to the worst; made by :func:`scorewise.compare`.

    Attributes
    ----------
    task, task_loss : str
    metric : str
        ``"aulc"``, ``"auroc"`` or ``"mean loss"``.
    standings : tuple of Standing
        From the best to the worst.
    confidence : float
    recommended : str
        The measure that theory recommends.
    calibration : LossCalibration or None
        Of the task's loss, for ``"selective"``; miscalibration may explain why the recommended
        measure is not the best.
    calibrating : CalibrationEffect or None
        What calibrating first would change, for ``"selective"``; None for few rows.
    error_bound : float
        The largest error of a metric, where rows of nearly equal uncertainty were counted as tied;
        0 in memory.
    remarks : tuple of str
        What was computed from a sample or from groups of the rows, in sentences.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> comparison = sw.compare(probs, y, rules="log", random_state=0)
    >>> comparison.best, comparison["epistemic log"].verdict
    ('total zero-one', 'worse')
    >>> print(comparison.notes[0])
    Theory recommends total zero-one: it is the best of the 7 measures here.
    """

    task: str
    task_loss: str
    metric: str
    standings: tuple[Standing, ...]
    confidence: float
    recommended: str = ""
    calibration: LossCalibration | None = field(default=None, compare=False)
    calibrating: CalibrationEffect | None = field(default=None, compare=False)
    error_bound: float = 0.0
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @property
    def best(self) -> str:
        """The name of the best measure."""
        return self.standings[0].name

    @property
    def indistinguishable(self) -> list[str]:
        """The best measure and all that are indistinguishable from it."""
        return [row.name for row in self.standings if row.low <= 0]

    @property
    def metric_name(self) -> str:
        """The metric as it is written in a heading or on an axis."""
        return METRICS.get(self.metric, self.metric)

    @property
    def notes(self) -> tuple[str, ...]:
        """The rank of the recommended measure, what calibrating would change, and remarks."""
        effect = () if self.calibrating is None else (self.calibrating.sentence(),)
        return (*self.on_recommended(), *effect, *self.remarks)

    def on_recommended(self, name_text: Callable[[str], str] = str) -> tuple[str, ...]:
        """Return the rank of the recommended measure, with names as ``name_text`` renders them."""
        recommended, best = name_text(self.recommended), name_text(self.best)
        row = next((row for row in self.standings if row.name == self.recommended), None)
        if not self.recommended:
            return ()
        if row is None:
            return (f"Theory recommends {recommended}, which was not compared.",)
        if row.low <= 0:
            n = len(self.standings)
            of_all = f"the best of the {n} measures here" if n > 1 else "the only measure here"
            other = "" if row.distance_to_best == 0 else f"indistinguishable from {best}, "
            return (f"Theory recommends {recommended}: it is {other}{of_all}.",)
        worse = (
            f"Theory recommends {recommended}, but here {best} is better by "
            f"{row.distance_to_best:.4g} [{row.low:.4g}, {row.high:.4g}]."
        )
        if self.calibration is None:
            return (worse,)
        if self.calibration.is_calibrated:
            return worse, f"Miscalibration does not explain it: {self.calibration}."
        return worse, f"Miscalibration may explain it: {self.calibration}."

    def __getitem__(self, name: str) -> Standing:
        for row in self.standings:
            if row.name == name:
                return row
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison in lists, numbers and strings."""
        return {
            "task": self.task,
            "task_loss": self.task_loss,
            "metric": self.metric,
            "standings": [asdict(row) for row in self.standings],
            "confidence": self.confidence,
            "recommended": self.recommended,
            "error_bound": self.error_bound,
            "notes": list(self.notes),
        }

    def to_frame(self, library: str | None = None) -> Any:
        """Return a data frame of the standings, from the best to the worst.

        Parameters
        ----------
        library : "pandas" or "polars", optional
            By default pandas, or polars where pandas is not installed.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame

        Raises
        ------
        ImportError
            Without pandas and polars.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> probs = np.random.default_rng(0).dirichlet([1, 1], size=(50, 3))
        >>> comparison = sw.compare(probs, [0] * 50, rules=["log"], baselines=False)
        >>> comparison.to_frame()["name"].tolist()
        ['total zero-one', 'total log', 'aleatoric log', 'epistemic log']
        """
        return frame([asdict(row) for row in self.standings], library)

    def plot(self, ax: Any = None) -> Any:
        """Draw the distance of each measure to the best, and return the display.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        scorewise.plots.ComparisonDisplay
        """
        return display("ComparisonDisplay", self).plot(ax)

    @property
    def title(self) -> str:
        """The task and the metric, and whether a lower or a higher value is better."""
        loss = f" of the {self.task_loss} loss" if self.task == "selective" else ""
        better = "higher" if self.metric == "auroc" else "lower"
        return f"{TASK_NAMES[self.task]}, by {self.metric_name}{loss} ({better} is better)"

    def table(self) -> list[tuple[str, str, str, str]]:
        """Return a heading and a row for each measure: name, verdict, metric, distance."""
        heading = f"distance [{percent(self.confidence, '.6g')} interval]"
        return [
            ("measure", "verdict", self.metric_name, heading),
            *(
                (
                    row.name,
                    f"same order as {row.same_order_as}" if row.same_order_as else row.verdict,
                    f"{row.value:.4f}",
                    f"{row.distance_to_best:.4f} [{row.low:.4f}, {row.high:.4f}]",
                )
                for row in self.standings
            ),
        ]

    def __repr__(self) -> str:
        return "\n".join([self.title, aligned(self.table(), n_names=2), *self.notes])

    def _repr_html_(self) -> str:
        return html(self.title, self.table(), *self.notes, n_names=2)


def rank(
    names: Sequence[str],
    values: np.ndarray,
    contrasts: Contrasts,
    first: Mapping[str, str],
    *,
    higher_is_better: bool,
) -> tuple[Standing, ...]:
    """Return the standings of the measures ``names``, and of those that order rows as they do.

    ``first`` maps each measure to the one of ``names`` that has the same order.
    """
    # of measures that differ by rounding only, the one listed first is ranked first
    rounded = np.round(values / max(float(np.max(np.abs(values))), np.finfo(float).tiny), 12)
    order = np.argsort(-rounded if higher_is_better else rounded, kind="stable")
    best = order[0]
    rows = []
    for i in order:
        distance = float(abs(values[i] - values[best]))
        standard_error = float(contrasts.standard_errors[i, best]) * (i != best)
        half_width = contrasts.critical * standard_error
        same_order = [name for name, leader in first.items() if leader == names[i]]
        for name in same_order:
            if i == best and name == names[i]:
                verdict = "best"
            else:
                verdict = "indistinguishable" if distance <= half_width else "worse"
            rows.append(
                Standing(
                    name,
                    float(values[i]),
                    distance,
                    float(distance - half_width),
                    float(distance + half_width),
                    float(contrasts.p_values[i, best]),
                    verdict,
                    names[i] if name != names[i] else None,
                    standard_error,
                )
            )
    return tuple(rows)


# -- intervals that hold for all pairs of measures at once -----------------------------------------


@dataclass(frozen=True)
class Contrasts:
    """Standard errors and p-values of the difference of any two of m measures.

    They are corrected for all pairs, so the best measure may be picked by the same data.
    """

    standard_errors: np.ndarray  # (m, m)
    critical: float  # standard errors on either side of a difference
    p_values: np.ndarray  # (m, m), corrected for the number of pairs


def contrasts_by_influence(
    estimates: Sequence[Estimate], confidence: float, n_resamples: int, rng: np.random.Generator
) -> Contrasts:
    """Return contrasts of m metrics of the same rows, by :func:`contrasts_by_root`."""
    return contrasts_by_root(
        np.array([estimate.value for estimate in estimates]),
        root_of_covariance(np.stack([estimate.influence for estimate in estimates], axis=1)),
        estimates[0].effective_rows,
        confidence,
        n_resamples,
        rng,
    )


def contrasts_by_root(
    values: np.ndarray,
    root: np.ndarray,
    effective_rows: float,
    confidence: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> Contrasts:
    """Return contrasts of m metrics of the same rows, by max-T and a multiplier bootstrap.

    A resample gives every row a normal weight. The metrics of resamples are then normal, with the
    covariance of the influences, so they are drawn without a pass over the rows. The largest t of
    all pairs corrects for the number of pairs and uses how they depend on each other. It is divided
    by a random χ, as standard errors from few rows are themselves uncertain.

    Parameters
    ----------
    values : array (m,)
        The metrics.
    root : array (r, m)
        R with RᵀR their covariance; see :func:`root_of_covariance`.
    effective_rows : float
        As in ``Estimate``.
    confidence, n_resamples, rng
        Of the intervals, and of the resamples.
    """
    from scipy.special import ndtri

    n_resamples = max(n_resamples, _FEWEST_RESAMPLES)
    errors = np.linalg.norm(root[:, :, None] - root[:, None, :], axis=0)
    least = _beyond_rounding(np.zeros_like(errors), values)
    differ = errors > least  # pairs that are equal in all resamples do not count
    if effective_rows < 1:  # too few for a standard error: no difference is certain
        errors = np.maximum(errors, np.abs(values[:, None] - values))
    degrees = max(effective_rows - 1, _FEWEST_DEGREES)
    errors = np.maximum(errors * np.sqrt((degrees + 1) / degrees), least)
    drawn = rng.normal(size=(n_resamples, len(root))) @ root
    largest = np.zeros(n_resamples)
    for i in range(len(values)):
        t = np.abs(drawn[:, i : i + 1] - drawn[:, i:]) / errors[i, i:] * differ[i, i:]
        largest = np.maximum(largest, t.max(axis=1))
    largest *= np.sqrt((degrees + 1) / rng.chisquare(degrees, n_resamples))
    observed = np.abs(values[:, None] - values) / errors
    n_larger = n_resamples - np.searchsorted(np.sort(largest), observed)
    # at least that of a single pair, where nothing varies
    critical = max(np.quantile(largest, confidence), ndtri((1 + confidence) / 2))
    return Contrasts(errors, float(critical), (1 + n_larger) / (1 + n_resamples))


def contrasts_by_runs(results: np.ndarray, confidence: float) -> Contrasts:
    """Return contrasts from the metrics of R paired runs (R, m), by Student's t and Bonferroni.

    Runs are too few to be resampled.
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
    """Return standard errors, each at least as large as the rounding error of the values."""
    least = _ROUNDING * float(np.max(np.abs(values))) + float(np.finfo(float).tiny)
    return np.asarray(np.maximum(errors, least))
