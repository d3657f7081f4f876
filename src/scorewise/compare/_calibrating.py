"""What calibrating first would change for abstaining, by predictions for rows left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scorewise._array import namespace
from scorewise._inputs import apply_floor
from scorewise._losses import expected_of_mean, losses_of_mean, total_of_mean
from scorewise._random import generator
from scorewise._text import percent
from scorewise.calibrate import cross_calibrate
from scorewise.compare._influence import Estimate, aulc
from scorewise.compare._measures import RowUncertainties, TaskLosses
from scorewise.curves import Curve, rejection_curve
from scorewise.rules import Unit

_FEWEST_ROWS = 50  # fewer cannot show what calibrating would change
_MOST_CLASSES = 100_000  # whose probabilities can all be above the floor of a calibration
_MOST_NUMBERS, _MANY_ROWS = 200_000, 1000  # of mean predictions that are calibrated, in seconds


@dataclass(frozen=True, eq=False)
class CalibrationEffect:
    """What calibrating the probabilities first would change for abstaining.

    Every row is calibrated by a map that was fitted on the rows of other folds (cross-fitted). Rows
    are accepted by the total uncertainty of the task's loss, the same share of each fold, as folds
    have different maps. Of many rows, some are drawn at random.

    Attributes
    ----------
    method : "none", "temperature", "vector" or "matrix"
        What :func:`scorewise.fit_calibration` would choose; ``"none"`` changes nothing.
    before, after : Curve
        Rejection curves; their thresholds are ranks within a fold.
    gain : float
        By how much the AULC would fall.
    gain_interval : tuple of float
        Confidence interval of the gain.
    expected_before, expected_after : float
        Mean expected loss of all rows.
    changed_share : float
        Proportion of rows for which another class, or action of a cost matrix, would be chosen.
    n_rows, n_drawn : int
        Number of rows, and of those that were calibrated.
    unit : Unit
        The unit of the losses.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> effect = sw.compare(probs, y, task_loss="log", random_state=0).calibrating
    >>> effect.method, effect.gain > 0, effect.helps
    ('matrix', True, True)
    """

    method: str
    before: Curve
    after: Curve
    gain: float
    gain_interval: tuple[float, float]
    expected_before: float
    expected_after: float
    changed_share: float
    n_rows: int
    n_drawn: int
    unit: Unit

    @property
    def helps(self) -> bool:
        """Whether the AULC would fall beyond chance."""
        return self.gain_interval[0] > 0

    @property
    def harms(self) -> bool:
        """Whether the AULC would rise beyond chance."""
        return self.gain_interval[1] < 0

    @property
    def curves(self) -> dict[str, Curve]:
        """The rejection curves by their names in figures."""
        return {"as it is": self.before, f"after {self.method} scaling": self.after}

    def sentence(self) -> str:
        """Return a sentence: whether calibrating first would help, and by how much."""
        if self.method == "none":
            return (
                "Calibrating first would not help here: cross-validation leaves the probabilities "
                "as they are."
            )
        drawn = f" on {self.n_drawn:,} rows" if self.n_drawn < self.n_rows else ""
        low, high = self.gain_interval
        change = (
            f"{self.method} scaling would change the AULC of abstaining from "
            f"{self.before.aulc:.4g} to {self.after.aulc:.4g}, a gain of {self.gain:.2g} "
            f"[{low:.2g}, {high:.2g}] (cross-fitted{drawn}), {self._losses()}."
        )
        if self.helps:
            return f"Calibrate first (scorewise.fit_calibration, or scorewise calibrate): {change}"
        if self.harms:
            return f"Calibrating first would do harm to abstaining here: {change}"
        return f"Calibrating first makes no clear difference to abstaining here: {change}"

    def _losses(self) -> str:
        expected_before, expected_after, incurred_before, incurred_after = (
            self.unit.format(float(loss))
            for loss in (
                self.expected_before,
                self.expected_after,
                self.before.loss[-1],
                self.after.loss[-1],
            )
        )
        decisions = "no decision"
        if self.changed_share:
            decisions = f"{percent(self.changed_share)} of the decisions"
        return (
            f"the expected {self.unit.noun} from {expected_before} to {expected_after}, the "
            f"incurred one from {incurred_before} to {incurred_after}, and {decisions}"
        )


def effect_of_calibrating(
    rows: RowUncertainties, losses: TaskLosses, confidence: float
) -> CalibrationEffect | None:
    """Return what calibrating first would change; None for too few rows or labels to tell."""
    n, n_classes = rows.mean.shape
    if n < _FEWEST_ROWS or n_classes > _MOST_CLASSES or len(np.unique(losses.labels)) < 2:
        return None
    rule, like = losses.rule, rows.predictions
    drawn = generator(0).permutation(n)[: drawn_to_calibrate(n_classes)]
    mean, labels = rows.mean[drawn], losses.labels[drawn]
    method, calibrated, fold = cross_calibrate(mean, labels, rule, like=like)
    incurred, expected = losses.incurred[drawn], losses.expected[drawn]
    total = rows.scores(rule, "total")[drawn]
    incurred_after, expected_after, total_after = incurred, expected, total
    if method != "none":
        incurred_after = losses_of_mean(calibrated, labels, rule, losses.floor, like=like)
        expected_after = expected_of_mean(calibrated, rule, losses.floor, like=like)
        total_after = total_of_mean(calibrated, rule, like)
    ranks, ranks_after = (_ranks_within_folds(x, fold) for x in (total, total_after))
    before, after = aulc(incurred, ranks), aulc(incurred_after, ranks_after)
    return CalibrationEffect(
        method,
        rejection_curve(incurred, ranks),
        rejection_curve(incurred_after, ranks_after),
        before.value - after.value,
        _interval_of_difference(before, after, confidence),
        float(np.mean(expected)),
        float(np.mean(expected_after)),
        float(np.mean(_decisions(mean, losses) != _decisions(calibrated, losses))),
        n,
        len(drawn),
        rule.unit,
    )


def drawn_to_calibrate(n_classes: int) -> int:
    """Return the largest number of rows that are calibrated to see what it would change."""
    return max(_MANY_ROWS, _MOST_NUMBERS // n_classes)


def _decisions(mean: np.ndarray, losses: TaskLosses) -> np.ndarray:
    """Return the class or action that is chosen for each row."""
    prediction = apply_floor(mean, losses.floor)
    return np.asarray(losses.rule._predict(namespace(prediction), prediction))


def _ranks_within_folds(scores: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Return the rank of each score among those of its fold, between 0 and 1; ties share one."""
    ranks = np.empty(len(scores))
    for i in np.unique(fold):
        _, place, counts = np.unique(scores[fold == i], return_inverse=True, return_counts=True)
        ranks[fold == i] = (np.cumsum(counts) - counts / 2)[place] / len(place)
    return ranks


def _interval_of_difference(
    first: Estimate, second: Estimate, confidence: float
) -> tuple[float, float]:
    """Return the confidence interval of the difference of two metrics on the same rows."""
    from scipy.special import stdtrit

    difference = first.value - second.value
    error = float(np.linalg.norm(first.influence - second.influence))
    half = float(stdtrit(max(first.effective_rows - 1, 1), (1 + confidence) / 2)) * error
    return difference - half, difference + half
