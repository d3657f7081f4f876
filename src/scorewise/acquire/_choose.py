"""Which rows to label next, from a score of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._random import entropy_of, generator
from scorewise.errors import InvalidInput

METHODS = ("top", "power", "softmax", "softrank", "random")


def acquire(
    scores: Any,
    n: int,
    method: str = "top",
    random_state: Any = None,
    *,
    labelled: Any = None,
    coldness: float = 1.0,
) -> np.ndarray:
    """The rows to label next, from how much each is worth.

    Use it with the epistemic uncertainty under zero-one (:func:`scorewise.advise` says why), or
    with that of :func:`scorewise.decide`, in your own costs. The largest scores often belong to
    rows that teach the same: the stochastic methods (Kirsch et al., 2023) keep a batch diverse for
    next to nothing, and :func:`scorewise.acquire_batch` looks at what rows have in common.

    Parameters
    ----------
    scores : array (N,)
        Larger is worth more; not NaN.
    n : int
        How many rows.
    method : "top", "power", "softmax", "softrank" or "random"
        The largest scores, ties broken at random; or draws without replacement, one after the
        other, with chances in proportion to ``s**coldness`` (scores of 0 come last),
        ``exp(coldness * s)``, ``rank**-coldness`` (rank 1 is the largest score), or all alike.
    random_state : int, RandomState or Generator, optional
        Seed of the draws and of the order of ties.
    labelled : array of int, or of bool (N,), optional
        Rows that have a label already, by index or as a mask; they are never returned.
    coldness : float
        Above 0; the larger, the more alike the stochastic methods are to the top.

    Returns
    -------
    integer array (n,)
        Indices of different rows, the first choice first.

    Raises
    ------
    InvalidInput
        If there are not so many rows to choose from, or a score is NaN (or negative, for power).

    Examples
    --------
    >>> import scorewise as sw
    >>> scores = [0.1, 0.4, 0.0, 0.3, 0.2]
    >>> sw.acquire(scores, 2)
    array([1, 3])
    >>> sw.acquire(scores, 2, labelled=[1])
    array([3, 4])
    >>> sw.acquire(scores, 3, "power", random_state=0)
    array([3, 1, 4])
    """
    scores = validate.vector(scores, "scores", may_be_empty=True)
    method = validate.choice(method, "method", METHODS)
    coldness = checked_coldness(coldness)
    free = unlabelled(len(scores), labelled)
    n = batch_size(n, len(free))
    rng = generator(entropy_of(random_state))
    keys = _keys(scores[free], method, coldness, rng)
    return np.asarray(free[_largest(keys, n, rng)])


def unlabelled(n_rows: int, labelled: Any) -> np.ndarray:
    """The indices of the rows that have no label."""
    taken = np.zeros(n_rows, dtype=bool)
    if labelled is not None:
        taken[validate.rows(labelled, n_rows, "labelled")] = True
    return np.flatnonzero(~taken)


def checked_coldness(coldness: Any) -> float:
    """A number above 0."""
    value = validate.number(coldness, "coldness")
    if value < 1e-100:  # noise of such a size has no meaning beside the scores
        raise InvalidInput(f"coldness must be above 0, and at least 1e-100, not {coldness!r}")
    return value


def batch_size(n: Any, n_free: int) -> int:
    """How many rows to choose, if there are so many."""
    size = validate.whole(n, "n", at_least=1)
    if not n_free:
        raise InvalidInput("there are no unlabelled rows to choose from")
    if size > n_free:
        raise InvalidInput(f"n={n} rows are asked for, and there are only {n_free} to choose from")
    return size


def _keys(scores: np.ndarray, method: str, coldness: float, rng: np.random.Generator) -> np.ndarray:
    """Numbers whose largest are the choice; Gumbel noise draws without replacement."""
    match method:
        case "top":
            return scores
        case "random":
            return rng.random(len(scores))
        case "power":
            if (scores < 0).any():
                raise InvalidInput(
                    f"the smallest score is {scores.min():.6g}; method='power' takes none below 0: "
                    "use 'softmax' or 'softrank'"
                )
            with np.errstate(divide="ignore"):
                worth = np.log(scores)
        case "softmax":
            # from the largest on, so that the noise is not lost beside large scores
            top = np.max(scores, initial=-np.inf, where=np.isfinite(scores))
            with np.errstate(over="ignore"):
                worth = scores - top if np.isfinite(top) else scores
        case _:
            # ranks 1, 2, ... from the largest score on, those of ties at random
            order = np.lexsort((rng.random(len(scores)), -scores))
            worth = np.empty(len(scores))
            worth[order] = -np.log1p(np.arange(len(scores)))
    return np.asarray(worth + rng.gumbel(size=len(scores)) / coldness)


def _largest(keys: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Where the n largest are, the largest first; in a random order where they are tied."""
    last = np.partition(keys, len(keys) - n)[len(keys) - n]
    above, tied = np.flatnonzero(keys > last), np.flatnonzero(keys == last)
    order = above[np.lexsort((rng.random(len(above)), -keys[above]))]
    return np.concatenate([order, rng.choice(tied, n - len(above), replace=False)])
