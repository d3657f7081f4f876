"""The greedy choice of rows that complement each other, by what a label is worth after others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from scorewise._array import to_numpy
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput

_BLOCK = 1 << 21  # conditional predictions that are computed at a time
_SAME = 1e-6  # tolerance: matrix products round copies of a row differently
_NEGLIGIBLE_GAIN = 0.01  # of the initial gain of a row


def samples_of_common_members(predictions: Any) -> Samples:
    """The predictions; raises unless all rows have the same members with the same weights."""
    if not isinstance(predictions, Samples):
        raise InvalidInput(
            "the value of a label for other rows needs members that are the same models in all "
            "rows, which a Dirichlet does not have: use scorewise.acquire"
        )
    if predictions.weights is not None and predictions.weights.ndim > 1:
        raise InvalidInput(
            "members must have the same weights (M,) in all rows, as they are the same models"
        )
    weights = predictions.weights
    n_members = predictions.shape[-2] if weights is None else (to_numpy(weights) > 0).sum()
    if n_members == 1:
        with_weight = "" if predictions.shape[-2] == 1 else " with a positive weight"
        raise InvalidInput(
            f"the predictions have one member{with_weight}, so the gain of every row is 0; pass "
            "those of several members, such as a scorewise.BootstrapEnsemble, or use "
            "scorewise.acquire with the total uncertainty"
        )
    return predictions


def weighted_members(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """The members ``(N, M, K)`` that have weight, in NumPy, and their weights in float64."""
    probs = to_numpy(samples.probs)
    weights = np.ones(probs.shape[1]) if samples.weights is None else to_numpy(samples.weights)
    has_weight = weights > 0
    prior = weights[has_weight].astype(np.float64)
    return probs if has_weight.all() else probs[:, has_weight], prior / prior.sum()


class Objective(Protocol):
    """What the label of a row is worth, alone and once the labels of other rows are known.

    Attributes
    ----------
    initial_gains : array (N,)
        Before any label is known.
    can_rise : bool
        Whether labels of other rows may raise a gain.
    size : int
        The numbers that the gain of a row under one outcome needs.
    """

    initial_gains: np.ndarray
    can_rise: bool
    size: int

    def gains(self, rows: np.ndarray, outcomes: Outcomes) -> np.ndarray:
        """Return the expected gains of rows once the labels with these outcomes are known."""


class GreedySearch:
    """The greedy choice: rows chosen so far, and the gain of every other row when last computed.

    ``probs`` are members ``(N, M, K)`` in float64. Where gains cannot rise, those of earlier steps
    are upper bounds, and the choice is that of the largest gain. Otherwise a row whose gain has
    risen is noticed only if its last gain was above the largest of the others. From each start
    until the next, only the ``n_listed`` rows of the largest initial gains are considered. The next
    is, at the latest, when the labels leave fewer than ``least_members``.
    """

    def __init__(
        self,
        probs: np.ndarray,
        prior: np.ndarray,
        objective: Objective,
        n_outcomes: int,
        rng: np.random.Generator,
        n_listed: int | None = None,
        least_members: int = 0,
    ) -> None:
        self._probs, self._prior, self._objective = probs, prior, objective
        self._n_outcomes, self._rng = n_outcomes, rng
        self._n_listed = len(probs) if n_listed is None else n_listed
        self._least_members = least_members
        self._is_unchosen = np.ones(len(probs), dtype=bool)
        self._is_copy = ~self._is_unchosen
        self.chosen: list[int] = []
        self.gains: list[float] = []
        self.starts: list[int] = []
        self.is_exact = True
        self._start()

    def _start(self) -> None:
        """Start a new batch that ignores the labels of the rows chosen so far."""
        self.starts.append(len(self.chosen))
        self._outcomes: Outcomes = outcomes_without_labels(self._prior)
        self._gains = self._objective.initial_gains.copy()
        self._is_listed = np.zeros(len(self._probs), dtype=bool)
        rows = np.flatnonzero(self._is_unchosen & ~self._is_copy)
        order = np.argsort(-self._gains[rows], kind="stable")
        self._is_listed[rows[order[: self._n_listed]]] = True

    def choose(self) -> None:
        """Choose the first row of the largest gain."""
        if not self._is_eligible.any():  # only copies are left, or rows that are not listed
            if not (self._is_unchosen & ~self._is_copy).any():
                self._is_copy[:] = False
            self._start()
        self._condition_on_last_choice()
        if self._n_effective_members < self._least_members and self._knows_labels:
            self._start()
        best = self._best()
        negligible = _NEGLIGIBLE_GAIN * self._objective.initial_gains[self._is_eligible].max()
        if self._gains[best] < negligible and self._is_exhausted():
            self._start()
            best = self._best()
        self.chosen.append(best)
        self.gains.append(float(self._gains[best]))
        self._is_unchosen[best] = False
        self._is_copy |= _equals(self._probs, self._probs[best])

    @property
    def _knows_labels(self) -> bool:
        """Whether a row was chosen since the last start."""
        return self.starts[-1] < len(self.chosen)

    @property
    def _n_effective_members(self) -> float:
        """The effective number of members after the labels, 1/Σw² with the expected squares."""
        return 1 / float(
            self._outcomes.probabilities @ np.square(self._outcomes.weights).sum(axis=1)
        )

    @property
    def _is_eligible(self) -> np.ndarray:
        """Whether each row may be chosen now."""
        return self._is_unchosen & ~self._is_copy & self._is_listed

    def _best(self) -> int:
        """The first row of the largest gain, which is then that under the present outcomes."""
        best = -1
        for block in self._blocks(self._gains):
            if best >= 0:
                block = block[self._gains[block] > self._gains[best]]
            if not len(block):
                break
            self._update(block)
            first = block[np.argmax(self._gains[block])]
            if best < 0 or self._gains[first] > self._gains[best]:
                best = int(first)
        return best

    def _is_exhausted(self) -> bool:
        """Return whether every row has lost nearly all of its initial gain."""
        initial = self._objective.initial_gains
        positive = initial > 0
        remaining = np.divide(self._gains, initial, out=np.zeros_like(initial), where=positive)
        for block in self._blocks(remaining):
            if (remaining[block] < _NEGLIGIBLE_GAIN).all():
                break
            self._update(block)
            least = _NEGLIGIBLE_GAIN * initial[block]
            if (positive[block] & (self._gains[block] >= least)).any():
                return False
        return True

    def _blocks(self, priorities: np.ndarray) -> Iterator[np.ndarray]:
        """Yield eligible rows in falling order of priority, in blocks that fit in a cache."""
        rows = np.flatnonzero(self._is_eligible)
        rows = rows[np.argsort(-priorities[rows], kind="stable")]
        size = max(1, _BLOCK // (len(self._outcomes.probabilities) * self._objective.size))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def _update(self, rows: np.ndarray) -> None:
        """Compute the gains of rows under the present outcomes."""
        if not self._knows_labels:
            return
        gains = self._objective.gains(rows, self._outcomes)
        can_rise = self._objective.can_rise
        self._gains[rows] = gains if can_rise else np.minimum(gains, self._gains[rows])

    def _condition_on_last_choice(self) -> None:
        """Add the label of the last row to the outcomes: enumerated while few, then sampled."""
        if not self._knows_labels:
            return
        outcomes, probs = self._outcomes, self._probs
        n_after = len(outcomes.probabilities) * probs.shape[-1]
        if isinstance(outcomes, _AllOutcomes) and n_after > self._n_outcomes:
            earlier = self.chosen[self.starts[-1] : -1]
            outcomes = _SampledOutcomes.of(probs[earlier], self._prior, self._n_outcomes, self._rng)
            self.is_exact = False
        self._outcomes = outcomes.after(probs[self.chosen[-1]])


def _equals(probs: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return which rows have the same predictions of all members as this row, up to rounding."""
    is_same = np.asarray(np.abs(probs[:, 0, 0] - row[0, 0]) <= _SAME)  # most differ here already
    is_same[is_same] = (np.abs(probs[is_same] - row) <= _SAME).all(axis=(1, 2))
    return is_same


@dataclass(frozen=True, eq=False)
class _AllOutcomes:
    """Every joint outcome of some labels.

    ``weights`` (S, M) are the members' weights after each outcome, ``probabilities`` (S,) its
    probability.
    """

    weights: np.ndarray
    probabilities: np.ndarray

    def after(self, row: np.ndarray) -> _AllOutcomes:
        """The outcomes with the label of a row ``(M, K)`` as well."""
        joint = self.weights[:, None, :] * row.T  # (S, K, M)
        probabilities = self.probabilities[:, None] * joint.sum(axis=-1)
        is_possible = probabilities > 0
        weights = joint[is_possible]
        return _AllOutcomes(
            weights / weights.sum(axis=1, keepdims=True),
            probabilities[is_possible] / probabilities.sum(),
        )


@dataclass(frozen=True, eq=False)
class _SampledOutcomes:
    """A sample of the joint outcomes of some labels.

    Outcome s is drawn from the member with index ``drawn_from[s]``.
    """

    drawn_from: np.ndarray
    weights: np.ndarray
    probabilities: np.ndarray
    rng: np.random.Generator

    @classmethod
    def of(
        cls, rows: np.ndarray, prior: np.ndarray, n_outcomes: int, rng: np.random.Generator
    ) -> _SampledOutcomes:
        # stratified over the members, which lowers the variance
        positions = (np.arange(n_outcomes) + rng.random(n_outcomes)) / n_outcomes
        drawn_from = np.searchsorted(np.cumsum(prior)[:-1], positions, side="right")
        weights = np.repeat(prior[None], n_outcomes, axis=0)
        sampled = cls(drawn_from, weights, np.full(n_outcomes, 1 / n_outcomes), rng)
        for row in rows:
            sampled = sampled.after(row)
        return sampled

    def after(self, row: np.ndarray) -> _SampledOutcomes:
        """The outcomes with the label of a row ``(M, K)`` as well."""
        cumulative = np.cumsum(row, axis=1)[self.drawn_from]
        drawn = self.rng.random(len(self.drawn_from)) * cumulative[:, -1]
        labels = (drawn[:, None] >= cumulative).sum(axis=1)
        joint = self.weights * row.T[labels]
        weights = joint / joint.sum(axis=1, keepdims=True)
        return _SampledOutcomes(self.drawn_from, weights, self.probabilities, self.rng)


Outcomes = _AllOutcomes | _SampledOutcomes


def outcomes_without_labels(prior: np.ndarray) -> Outcomes:
    """The single outcome of no labels: members with their prior weights ``(M,)``."""
    return _AllOutcomes(prior[None], np.ones(1))
