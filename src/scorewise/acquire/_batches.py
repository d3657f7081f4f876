"""Batches of rows that complement each other: BatchBALD for every scoring rule."""

from __future__ import annotations

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
from scorewise.acquire._greedy import (
    GreedySearch,
    Outcomes,
    samples_of_common_members,
    weighted_members,
)
from scorewise.decompose import decompose
from scorewise.distributions import Samples
from scorewise.rules import RuleLike, ScoringRule, get_rule

_ROUNDING = 64  # units in the last place below which a gain counts as 0


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
    samples = samples_of_common_members(receive_rows(predictions, "predictions", options))
    rule = get_rule(rule).for_classes(samples.classes_)
    candidates = unlabelled_rows(len(samples.probs), labelled)
    n = check_batch_size(n, len(candidates))
    validate.whole(n_outcomes, "n_outcomes", at_least=1)
    rng = generator(seed_of(random_state))
    candidates = rng.permutation(candidates)  # so that ties are broken at random
    probs, prior = weighted_members(samples)
    # float64 for all, so that rounding errors do not look like gains
    probs = probs[candidates].astype(np.float64)
    search = GreedySearch(
        probs, prior, _OwnUncertainty(samples, probs, prior, rule), n_outcomes, rng
    )
    with bar("choosing", n, progress) as advance:
        for _ in range(n):
            search.choose()
            advance(1)
    return JointBatch(
        candidates[search.chosen], np.array(search.gains), np.array(search.starts), search.is_exact
    )


class _OwnUncertainty:
    """E_y EU(row | y): the epistemic uncertainty that a row still has once labels are known."""

    can_rise = False

    def __init__(
        self, samples: Samples, probs: np.ndarray, prior: np.ndarray, rule: ScoringRule
    ) -> None:
        self._samples, self._probs, self._rule = samples, probs, rule
        self.size = probs.shape[-1]
        total, _, self.initial_gains = self._decompose(probs, prior)
        self._entropies, _, _ = self._decompose(probs[:, :, None], np.ones(1))  # (N, M)
        in_library = in_library_of_rule(rule, probs[:1], samples)
        precision = np.finfo(to_numpy(in_library).dtype).eps
        self._rounding = _ROUNDING * float(precision * np.abs(total).max())

    def gains(self, rows: np.ndarray, outcomes: Outcomes) -> np.ndarray:
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
