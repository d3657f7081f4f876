"""Batches whose rows do not teach the same: BatchBALD for every scoring rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import namespace, on_device_of, to_numpy
from scorewise._progress import bar
from scorewise._random import entropy_of, generator
from scorewise.acquire._choose import batch_size, unlabelled
from scorewise.decompose import RuleLike, decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.losses import receive_rows
from scorewise.rules import ScoringRule, get_rule

_BLOCK = 1 << 21  # predictions given outcomes, at a time
_ROUNDING = 64  # units in the last place that a gain may be off
_ALIKE = 1e-6  # matrix products give copies of a row answers that differ a little
_EXHAUSTED = 0.01  # of what a row is worth alone: then nothing is left of it


@dataclass(frozen=True, eq=False)
class JointBatch:
    """Rows to label together; made by :func:`scorewise.acquire_batch`.

    Attributes
    ----------
    rows : integer array (n,)
        The first choice first.
    gains : array (n,)
        The epistemic uncertainty that is left in each row once the labels of the rows before it
        (since the last of ``starts``) are known, in the units of the rule's loss. Under log their
        sum is the mutual information of all labels and the model. Estimates, if sampled.
    starts : integer array (s,)
        Where in ``rows`` the search (re)started, from 0: once the labels before tell all members
        apart, nothing is left to gain, and what follows is chosen as if the batch began there. So
        it is where only copies are left.
    is_exact : bool
        Whether all joint outcomes were counted, or a sample of them.
    """

    rows: np.ndarray
    gains: np.ndarray
    starts: np.ndarray
    is_exact: bool


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
    """Rows to label together: each is chosen for what the labels of the others leave open.

    Use it where the pool has many rows alike, so that the top scores ask one question again and
    again. A label tells members apart, by Bayes' rule; what a row is still worth is its expected
    epistemic uncertainty afterwards, E_y EU(row | y), for any scoring rule. Under log this is
    BatchBALD (Kirsch et al., 2019). Labels of others never add to it, so it is enough to look again
    at the rows that may still be the best.

    Rows to which every member gives the same answer (within 1e-6) count as copies with one label: a
    copy of a chosen row is not chosen while there are others.

    Parameters
    ----------
    predictions : array (N, M, K) or Samples
        Of the pool, by members that are the same models in all rows.
    n : int
        How many rows.
    rule : str or ScoringRule
        In whose currency.
    random_state : int, RandomState or Generator, optional
        Seed of the order of ties, and of the outcomes where they are sampled.
    labelled : array of int, or of bool (N,), optional
        Rows that have a label already, by index or as a mask; they are never returned.
    n_outcomes : int
        As many joint outcomes of the labels are counted exactly; where there are more, so many are
        sampled.
    progress : bool, optional
        Show a bar; on terminals and for long work unless told.
    **options
        Those of :class:`scorewise.Samples`: ``weights``, ``from_logits``, …

    Returns
    -------
    JointBatch

    Raises
    ------
    InvalidInput
        If there are not so many rows to choose from, or the predictions have no common members.

    Examples
    --------
    Two members disagree about two rows, each of which is there twice:

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
    rule = get_rule(rule)
    samples = _common_members(receive_rows(predictions, "predictions", options))
    free = unlabelled(len(samples.probs), labelled)
    n = batch_size(n, len(free))
    validate.whole(n_outcomes, "n_outcomes", at_least=1)
    rng = generator(entropy_of(random_state))
    free = rng.permutation(free)  # the first of tied rows is then any of them
    search = _Search(samples, free, rule, n_outcomes, rng)
    with bar("choosing", n, progress) as advance:
        for _ in range(n):
            search.choose()
            advance(1)
    return JointBatch(
        free[search.chosen], np.array(search.gains), np.array(search.starts), search.is_exact
    )


def _common_members(predictions: Any) -> Samples:
    if not isinstance(predictions, Samples):
        raise InvalidInput(
            "what rows have in common is known only where the same members answer all of them; a "
            "Dirichlet says nothing about it: use sw.acquire"
        )
    if predictions.weights is not None and predictions.weights.ndim > 1:
        raise InvalidInput("members must have the same weights (M,) in all rows")
    return predictions


class _Search:
    """The greedy choice: rows chosen so far, and the most that each other can still be worth."""

    def __init__(
        self,
        samples: Samples,
        rows: np.ndarray,
        rule: ScoringRule,
        n_outcomes: int,
        rng: np.random.Generator,
    ) -> None:
        self._like, self._rule = samples.probs, rule
        self._n_outcomes, self._rng = n_outcomes, rng
        probs = to_numpy(samples.probs)[rows]
        weights = np.ones(probs.shape[1]) if samples.weights is None else to_numpy(samples.weights)
        counts = weights > 0  # members without weight say nothing
        # all in one precision, or differences of it would pass for gains
        self._probs, prior = probs[:, counts].astype(np.float64), weights[counts].astype(np.float64)
        self._prior = prior / prior.sum()
        total, _, self._alone = self._decomposed(self._probs, self._prior)
        self._entropies, _, _ = self._decomposed(self._probs[:, :, None], np.ones(1))  # (N, M)
        precision = np.finfo(to_numpy(self._in_library(self._probs[:1])).dtype).eps
        self._unit = _ROUNDING * float(precision * np.abs(total).max())
        self._is_free = np.ones(len(probs), dtype=bool)
        self._is_copy = ~self._is_free
        self.chosen: list[int] = []
        self.gains: list[float] = []
        self.starts: list[int] = []
        self.is_exact = True
        self._start()

    def _start(self) -> None:
        """Begin anew, as if the rows chosen so far were not to be labelled."""
        self.starts.append(len(self.chosen))
        self._outcomes: _Counted | _Sampled = _Counted(self._prior[None], np.ones(1))
        self._most = self._alone.copy()

    def choose(self) -> None:
        """Take the first row of the largest gain."""
        if not self._may_be.any():  # only copies are left
            self._is_copy[:] = False
            self._start()
        self._learn()
        best = self._best()
        if self._most[best] < _EXHAUSTED * self._alone[self._may_be].max() and self._is_over():
            self._start()
            best = self._best()
        self.chosen.append(best)
        self.gains.append(float(self._most[best]))
        self._is_free[best] = False
        self._is_copy |= _alike(self._probs, self._probs[best])

    @property
    def _may_be(self) -> np.ndarray:
        """Which rows may be chosen now."""
        return self._is_free & ~self._is_copy

    def _best(self) -> int:
        """The first row of the largest gain, which is then known."""
        best = -1
        for block in self._blocks(self._most):
            if best >= 0:  # the labels of others leave at most this to a row
                block = block[self._most[block] > self._most[best]]
            if not len(block):
                break
            self._look_at(block)
            first = block[np.argmax(self._most[block])]
            if best < 0 or self._most[first] > self._most[best]:
                best = int(first)
        return best

    def _is_over(self) -> bool:
        """Whether no row keeps more than a trifle of what it is worth alone."""
        worth = self._alone > 0
        kept = np.divide(self._most, self._alone, out=np.zeros_like(self._alone), where=worth)
        for block in self._blocks(kept):
            if (kept[block] < _EXHAUSTED).all():
                break
            self._look_at(block)
            if (worth[block] & (self._most[block] >= _EXHAUSTED * self._alone[block])).any():
                return False
        return True

    def _blocks(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Rows that may be chosen, the largest first, as many at a time as fit in a cache."""
        rows = np.flatnonzero(self._may_be)
        rows = rows[np.argsort(-order[rows], kind="stable")]
        size = max(1, _BLOCK // (len(self._outcomes.chances) * self._probs.shape[-1]))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def _look_at(self, rows: np.ndarray) -> None:
        """Learn what rows are still worth."""
        if self.starts[-1] < len(self.chosen):  # else no label is known, and that is all they are
            self._most[rows] = np.minimum(self._gains(rows, self._outcomes), self._most[rows])

    def _learn(self) -> None:
        """The outcomes of the last label too: counted while they are few, sampled beyond."""
        if self.starts[-1] == len(self.chosen):
            return
        outcomes, probs = self._outcomes, self._probs
        n_after = len(outcomes.chances) * probs.shape[-1]
        if isinstance(outcomes, _Counted) and n_after > self._n_outcomes:
            earlier = self.chosen[self.starts[-1] : -1]
            outcomes = _Sampled.of(probs[earlier], self._prior, self._n_outcomes, self._rng)
            self.is_exact = False
        self._outcomes = outcomes.after(probs[self.chosen[-1]])

    def _gains(self, rows: np.ndarray, outcomes: _Counted | _Sampled) -> np.ndarray:
        """E_y EU(row | y): the entropy of the mean, less the mean entropy of members."""
        # the outcomes' predictions are members of their own: E_y H(mean | y) is what they leave
        _, total, _ = self._decomposed(outcomes.shares @ self._probs[rows], outcomes.chances)
        aleatoric = self._entropies[rows] @ (outcomes.chances @ outcomes.shares)
        gains = np.asarray(total - aleatoric)
        # what is only rounding is nothing, so that such rows stay tied
        return np.where(np.abs(gains) > self._unit, gains, 0.0)

    def _decomposed(self, probs: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
        """Total, aleatoric, epistemic."""
        parts = decompose(Samples(self._in_library(probs), weights, check=False), self._rule)
        return [to_numpy(part).astype(np.float64) for part in parts]

    def _in_library(self, probs: np.ndarray) -> Any:
        """The same in the library that an own rule is written for."""
        if self._rule.any_library:
            return probs
        return on_device_of(namespace(self._like), probs, self._like)


def _alike(probs: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Which rows all members answer as this one, but for how sums were rounded."""
    alike = np.asarray(np.abs(probs[:, 0, 0] - row[0, 0]) <= _ALIKE)  # most differ here already
    alike[alike] = (np.abs(probs[alike] - row) <= _ALIKE).all(axis=(1, 2))
    return alike


@dataclass(frozen=True, eq=False)
class _Counted:
    """Every joint outcome of some labels: what it makes of the members' weights.

    ``shares`` (S, M) are the weights after each outcome, ``chances`` (S,) its probability.
    """

    shares: np.ndarray
    chances: np.ndarray

    def after(self, row: np.ndarray) -> _Counted:
        """With the label of a row ``(M, K)`` as well."""
        joint = self.shares[:, None, :] * row.T  # (S, K, M)
        chances = self.chances[:, None] * joint.sum(axis=-1)
        possible = chances > 0
        shares = joint[possible]
        return _Counted(
            shares / shares.sum(axis=1, keepdims=True), chances[possible] / chances.sum()
        )


@dataclass(frozen=True, eq=False)
class _Sampled:
    """Joint outcomes of some labels, each drawn from one member, its author."""

    authors: np.ndarray
    shares: np.ndarray
    chances: np.ndarray
    rng: np.random.Generator

    @classmethod
    def of(
        cls, rows: np.ndarray, prior: np.ndarray, n_outcomes: int, rng: np.random.Generator
    ) -> _Sampled:
        # spread over the members, so that their shares vary little
        places = (np.arange(n_outcomes) + rng.random(n_outcomes)) / n_outcomes
        authors = np.searchsorted(np.cumsum(prior)[:-1], places, side="right")
        shares = np.repeat(prior[None], n_outcomes, axis=0)
        sampled = cls(authors, shares, np.full(n_outcomes, 1 / n_outcomes), rng)
        for row in rows:
            sampled = sampled.after(row)
        return sampled

    def after(self, row: np.ndarray) -> _Sampled:
        """With the label of a row ``(M, K)`` as well, as each author would give it."""
        cumulative = np.cumsum(row, axis=1)[self.authors]
        drawn = self.rng.random(len(self.authors)) * cumulative[:, -1]
        labels = (drawn[:, None] >= cumulative).sum(axis=1)
        joint = self.shares * row.T[labels]
        shares = joint / joint.sum(axis=1, keepdims=True)
        return _Sampled(self.authors, shares, self.chances, self.rng)
