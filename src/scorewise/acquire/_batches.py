"""Batches of rows that complement each other: BatchBALD for every scoring rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import is_dask, to_numpy
from scorewise._inputs import InputOptions
from scorewise._losses import in_library_of_rule
from scorewise._members import Members
from scorewise._progress import bar
from scorewise._random import generator, seed_of
from scorewise._rows import receive_rows
from scorewise.acquire._choose import acquire, check_batch_size, unlabelled_rows
from scorewise.acquire._greedy import (
    GreedySearch,
    Outcomes,
    samples_of_common_members,
    weighted_members,
)
from scorewise.decompose import decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.rules import RuleLike, ScoringRule, get_rule

_SHORT_LIST = 1000  # rows of a pool that is larger than memory, at least
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

    Examples
    --------
    >>> import scorewise as sw
    >>> a, b = [[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2], [0.3, 0.7]]
    >>> batch = sw.acquire_batch([a, a, b, b], 4, "log", random_state=1)
    >>> batch.rows, batch.starts  # the last two rows are copies
    (array([0, 2, 1, 3]), array([0, 2]))
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
    n_candidates: int | None = None,
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
        Predictions for the pool, by the same M members in all rows. A pool larger than memory is a
        Dask array, of which a short list is gathered; see ``n_candidates``.
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
    n_candidates : int, optional
        Choose from a short list: that many rows with the largest epistemic uncertainty of their
        own. By default all rows; of a Dask array 1000, or 10·n if that is more. The batch is then
        the best of the list: a row that is not on it is never chosen, although it may complement
        the others better. Predictions of a Dask array are computed twice, for the scores and for
        the list.
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
    validate.whole(n_outcomes, "n_outcomes", at_least=1)
    seed = seed_of(random_state)
    is_lazy = is_dask(getattr(predictions, "probs", predictions))
    if is_lazy or n_candidates is not None:
        pool = (_lazy_pool if is_lazy else _pool)(predictions, options)
        rows = _short_list(pool, n, rule, seed, labelled, n_candidates)
        # a list of all rows is the pool, with its results
        batch = acquire_batch(
            _gathered(pool, rows), n, rule, seed, n_outcomes=n_outcomes, progress=progress
        )
        return replace(batch, rows=rows[batch.rows])
    samples = samples_of_common_members(receive_rows(predictions, "predictions", options))
    rule = get_rule(rule).for_classes(samples.classes_)
    candidates = unlabelled_rows(len(samples.probs), labelled)
    n = check_batch_size(n, len(candidates))
    rng = generator(seed)
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


# -- a short list ---------------------------------------------------------------------------------


def _pool(predictions: Any, options: dict[str, Any]) -> Members:
    """Return the members of a pool in memory."""
    samples = samples_of_common_members(receive_rows(predictions, "predictions", options))
    return Members.of(samples, None, InputOptions())


def _lazy_pool(predictions: Any, options: dict[str, Any]) -> Members:
    """Return the members of a pool that is a Dask array."""
    rest = {name: value for name, value in options.items() if name != "weights"}
    members = Members.of(predictions, options.get("weights"), InputOptions(**rest))
    if members.raw.values.ndim != 3:
        raise InvalidInput(
            f"predictions have shape {tuple(members.raw.values.shape)}; they must be rows (N, M, K)"
        )
    return members


def _short_list(
    pool: Members, n: Any, rule: RuleLike, seed: int, labelled: Any, n_candidates: Any
) -> np.ndarray:
    """Return the rows without a label whose own epistemic uncertainty is largest, in order."""
    n_rows = pool.raw.values.shape[0]
    has_label = np.zeros(0) if labelled is None else validate.rows(labelled, n_rows, "labelled")
    n_unlabelled = n_rows - len(has_label)
    n = check_batch_size(n, n_unlabelled)
    size = max(_SHORT_LIST, 10 * n) if n_candidates is None else n_candidates
    size = min(validate.whole(size, "n_candidates", at_least=n), n_unlabelled)
    scores = decompose(pool, get_rule(rule)).epistemic
    rows = acquire(scores, size, random_state=generator(seed, 1), labelled=labelled)
    return np.sort(rows)


def _gathered(pool: Members, rows: np.ndarray) -> Samples:
    """Return the samples of some rows, in memory."""
    if not is_dask(pool.raw.values):
        return pool.samples[rows]
    weights = pool.weights
    if weights is not None:
        weights = to_numpy(weights if weights.ndim == 1 else weights[rows])
    return Samples.of(replace(pool.raw, values=pool.raw.values[rows].compute()), weights)


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
