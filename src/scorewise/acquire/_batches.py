"""Batches of rows that complement each other: BatchBALD for every scoring rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._losses import in_library_of_rule
from scorewise._progress import bar
from scorewise._random import generator, seed_of
from scorewise._rows import receive_rows
from scorewise.acquire._choose import check_batch_size, unlabelled_rows
from scorewise.decompose import decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.rules import RuleLike, ScoringRule, get_rule

_BLOCK = 1 << 21  # conditional predictions that are computed at a time
_ROUNDING = 64  # units in the last place below which a gain counts as 0
_SAME = 1e-6  # tolerance: matrix products round copies of a row differently
_NEGLIGIBLE_GAIN = 0.01  # of the initial gain of a row


@dataclass(frozen=True, eq=False)
class JointBatch:
    """Rows to label together; made by :func:`scorewise.acquire_batch`.

    Attributes
    ----------
    rows : integer array (n,)
        Indices in the order of choice.
    gains : array (n,)
        The expected epistemic uncertainty of each row once the labels of the rows before it (since
        the last restart) are known, in the units of the rule's loss. Under log their sum is the
        mutual information of all labels and the model. Estimates, if outcomes are sampled.
    starts : integer array (s,)
        Positions in ``rows`` at which the search (re)started, beginning with 0. It restarts when
        the rows chosen before leave almost no gain to any other row, or only copies of them are
        left. From there on rows are chosen as in a new batch.
    is_exact : bool
        Whether all joint outcomes of the labels were enumerated, rather than a sample of them.
    """

    rows: np.ndarray
    gains: np.ndarray
    starts: np.ndarray
    is_exact: bool


@validate.takes_options_of(Samples)
def acquire_batch(
    predictions: Any,
    n: int,
    rule: RuleLike = "zero-one",
    random_state: Any = None,
    *,
    labelled: Any = None,
    n_outcomes: int = 1000,
    progress: bool | None = None,
    **options: Any,
) -> JointBatch:
    """Return a batch of rows to label together, chosen so that they complement each other.

    Use it where the pool has many rows that are alike, so that the labels of the rows with the
    highest scores are redundant. A label changes the weights of the members by Bayes' rule. The
    gain of a row is its expected epistemic uncertainty under the new weights, E_y EU(row | y), for
    any scoring rule. Under log this is BatchBALD (Kirsch et al., 2019). Rows are chosen greedily.
    Labels of other rows never raise a gain, so only the rows that may still be the best are
    computed again.

    Rows for which every member predicts the same (within 1e-6) count as copies: a copy of a chosen
    row is chosen only once there are no other rows.

    Parameters
    ----------
    predictions : array (N, M, K) or Samples
        Predictions for the pool, by the same M members in all rows.
    n : int
        Number of rows to choose.
    rule : str or ScoringRule
        The loss in whose units gains are measured.
    random_state : int, RandomState or Generator, optional
        Seed of the order of ties, and of the outcomes where they are sampled.
    labelled : array of int, or of bool (N,), optional
        Rows that already have a label, by index or as a mask; they are never returned.
    n_outcomes : int
        The largest number of joint outcomes of the labels to enumerate; where there are more, this
        many are sampled.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **options
        Those of :class:`scorewise.Samples`: ``weights``, ``from_logits``, …

    Returns
    -------
    JointBatch

    Raises
    ------
    InvalidInput
        If fewer than ``n`` rows have no label, or the predictions have no members in common, or
        a single one.

    Examples
    --------
    Two members disagree about two rows, and the pool holds each of them twice:

    >>> import numpy as np, scorewise as sw
    >>> a, b = [[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2], [0.3, 0.7]]
    >>> pool = np.array([a, a, b, b])
    >>> batch = sw.acquire_batch(pool, 2, "log", random_state=1)
    >>> batch.rows
    array([0, 2])
    >>> batch.gains.round(3)
    array([0.275, 0.069])
    >>> sw.acquire(sw.decompose(pool, "log").epistemic, 2, random_state=1)
    array([0, 1])
    """
    samples = _samples_of_common_members(receive_rows(predictions, "predictions", options))
    rule = get_rule(rule).for_classes(samples.classes_)
    candidates = unlabelled_rows(len(samples.probs), labelled)
    n = check_batch_size(n, len(candidates))
    validate.whole(n_outcomes, "n_outcomes", at_least=1)
    rng = generator(seed_of(random_state))
    candidates = rng.permutation(candidates)  # so that ties are broken at random
    search = _GreedySearch(samples, candidates, rule, n_outcomes, rng)
    with bar("choosing", n, progress) as advance:
        for _ in range(n):
            search.choose()
            advance(1)
    return JointBatch(
        candidates[search.chosen], np.array(search.gains), np.array(search.starts), search.is_exact
    )


def _samples_of_common_members(predictions: Any) -> Samples:
    """The predictions; raises unless all rows have the same members with the same weights."""
    if not isinstance(predictions, Samples):
        raise InvalidInput(
            "a joint batch needs members that are the same models in all rows, which a Dirichlet "
            "does not have: use sw.acquire"
        )
    if predictions.weights is not None and predictions.weights.ndim > 1:
        raise InvalidInput("members must have the same weights (M,) in all rows")
    if predictions.shape[-2] == 1:
        raise InvalidInput(
            "the predictions have one member, so the gain of every row is 0; pass those of several "
            "members, such as a scorewise.BootstrapEnsemble, or use scorewise.acquire with the "
            "total uncertainty"
        )
    return predictions


class _GreedySearch:
    """The greedy choice: rows chosen so far, and an upper bound of the gain of every other row."""

    def __init__(
        self,
        samples: Samples,
        candidates: np.ndarray,
        rule: ScoringRule,
        n_outcomes: int,
        rng: np.random.Generator,
    ) -> None:
        self._samples, self._rule = samples, rule
        self._n_outcomes, self._rng = n_outcomes, rng
        probs = to_numpy(samples.probs)[candidates]
        weights = np.ones(probs.shape[1]) if samples.weights is None else to_numpy(samples.weights)
        has_weight = weights > 0
        # float64 for all, so that rounding errors do not look like gains
        self._probs = probs[:, has_weight].astype(np.float64)
        prior = weights[has_weight].astype(np.float64)
        self._prior = prior / prior.sum()
        total, _, self._initial_gains = self._decompose(self._probs, self._prior)
        self._entropies, _, _ = self._decompose(self._probs[:, :, None], np.ones(1))  # (N, M)
        in_library = in_library_of_rule(rule, self._probs[:1], self._samples)
        precision = np.finfo(to_numpy(in_library).dtype).eps
        self._rounding = _ROUNDING * float(precision * np.abs(total).max())
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
        self._outcomes: _AllOutcomes | _SampledOutcomes = _AllOutcomes(
            self._prior[None], np.ones(1)
        )
        self._upper_bounds = self._initial_gains.copy()

    def choose(self) -> None:
        """Choose the first row of the largest gain."""
        if not self._is_eligible.any():  # only copies are left
            self._is_copy[:] = False
            self._start()
        self._condition_on_last_choice()
        best = self._best()
        negligible = _NEGLIGIBLE_GAIN * self._initial_gains[self._is_eligible].max()
        if self._upper_bounds[best] < negligible and self._is_exhausted():
            self._start()
            best = self._best()
        self.chosen.append(best)
        self.gains.append(float(self._upper_bounds[best]))
        self._is_unchosen[best] = False
        self._is_copy |= _equals(self._probs, self._probs[best])

    @property
    def _is_eligible(self) -> np.ndarray:
        """Whether each row may be chosen now."""
        return self._is_unchosen & ~self._is_copy

    def _best(self) -> int:
        """The first row of the largest gain, whose upper bound is then exact."""
        best = -1
        for block in self._blocks(self._upper_bounds):
            if best >= 0:
                block = block[self._upper_bounds[block] > self._upper_bounds[best]]
            if not len(block):
                break
            self._update(block)
            first = block[np.argmax(self._upper_bounds[block])]
            if best < 0 or self._upper_bounds[first] > self._upper_bounds[best]:
                best = int(first)
        return best

    def _is_exhausted(self) -> bool:
        """Return whether every row has lost nearly all of its initial gain."""
        positive = self._initial_gains > 0
        remaining = np.divide(
            self._upper_bounds,
            self._initial_gains,
            out=np.zeros_like(self._initial_gains),
            where=positive,
        )
        for block in self._blocks(remaining):
            if (remaining[block] < _NEGLIGIBLE_GAIN).all():
                break
            self._update(block)
            least = _NEGLIGIBLE_GAIN * self._initial_gains[block]
            if (positive[block] & (self._upper_bounds[block] >= least)).any():
                return False
        return True

    def _blocks(self, priorities: np.ndarray) -> Iterator[np.ndarray]:
        """Yield eligible rows in falling order of priority, in blocks that fit in a cache."""
        rows = np.flatnonzero(self._is_eligible)
        rows = rows[np.argsort(-priorities[rows], kind="stable")]
        size = max(1, _BLOCK // (len(self._outcomes.probabilities) * self._probs.shape[-1]))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def _update(self, rows: np.ndarray) -> None:
        """Replace the upper bounds of rows by their gains."""
        if self.starts[-1] < len(self.chosen):  # else no label is known, and bounds are exact
            gains = self._gains(rows, self._outcomes)
            self._upper_bounds[rows] = np.minimum(gains, self._upper_bounds[rows])

    def _condition_on_last_choice(self) -> None:
        """Add the label of the last row to the outcomes: enumerated while few, then sampled."""
        if self.starts[-1] == len(self.chosen):
            return
        outcomes, probs = self._outcomes, self._probs
        n_after = len(outcomes.probabilities) * probs.shape[-1]
        if isinstance(outcomes, _AllOutcomes) and n_after > self._n_outcomes:
            earlier = self.chosen[self.starts[-1] : -1]
            outcomes = _SampledOutcomes.of(probs[earlier], self._prior, self._n_outcomes, self._rng)
            self.is_exact = False
        self._outcomes = outcomes.after(probs[self.chosen[-1]])

    def _gains(self, rows: np.ndarray, outcomes: _AllOutcomes | _SampledOutcomes) -> np.ndarray:
        """Return E_y EU(row | y): the mean's expected entropy, less the members' mean entropy."""
        # with the outcomes' mean predictions as members, AU is E_y H(mean | y)
        _, total, _ = self._decompose(outcomes.weights @ self._probs[rows], outcomes.probabilities)
        aleatoric = self._entropies[rows] @ (outcomes.probabilities @ outcomes.weights)
        gains = np.asarray(total - aleatoric)
        # gains within rounding are exactly 0, so that such rows stay tied
        return np.where(np.abs(gains) > self._rounding, gains, 0.0)

    def _decompose(self, probs: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
        """Return total, aleatoric and epistemic in float64."""
        probs = in_library_of_rule(self._rule, probs, self._samples)
        samples = Samples(probs, weights, check=False)
        return [to_numpy(part).astype(np.float64) for part in decompose(samples, self._rule)]


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
