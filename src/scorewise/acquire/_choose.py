"""Choose the rows to label next by a score of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import is_dask
from scorewise._lazy import at_scale
from scorewise._random import generator, seed_of
from scorewise._text import counted
from scorewise.errors import InvalidInput, Remedy

METHODS = ("top", "power", "softmax", "softrank", "random")
JOINT = "joint"  # a batch whose rows complement each other, which scores alone cannot find
_SMALLEST_COLDNESS = 1e-100  # a smaller one lets the noise overflow


def acquire(
    scores: Any,
    n: int,
    method: str = "top",
    random_state: Any = None,
    *,
    labelled: Any = None,
    coldness: float = 1.0,
) -> np.ndarray:
    """Return the indices of the rows to label next, chosen by a score of each row.

    Use it with the epistemic uncertainty under zero-one (see :func:`scorewise.advise`), or
    with that of :func:`scorewise.decide`, in your own costs. The largest scores often belong to
    rows that are alike, whose labels are redundant. The stochastic methods
    (Kirsch et al., 2023) make a batch more diverse at almost no cost;
    :func:`scorewise.acquire_batch` takes into account what rows have in common.

    Parameters
    ----------
    scores : array (N,)
        The value of a label for each row; larger is better, NaN is an error. A pool larger than
        memory is a Dask array, such as the components of :func:`scorewise.decompose` of one: its
        scores stay on the workers, and n rows of each chunk are compared. The chances are the
        same. The rows depend on the seed, and not on the chunks; they differ from those of the
        same scores in NumPy. ``"softrank"`` keeps the scores in the memory of the workers, 16
        bytes each, and reads them several times to find the rows of the ranks that it draws.
    n : int
        Number of rows to choose.
    method : "top", "power", "softmax", "softrank" or "random"
        ``"top"`` takes the largest scores; ties are broken at random. The others draw rows without
        replacement, one after the other, with probabilities proportional to ``s**coldness``
        (scores of 0 come last), ``exp(coldness * s)``, ``rank**-coldness`` (rank 1 is the largest
        score), or with equal probabilities.
    random_state : int, RandomState or Generator, optional
        Seed of the draws and of the order of ties.
    labelled : array of int, or of bool (N,), optional
        Rows that already have a label, by index or as a mask; they are never returned.
    coldness : float
        Positive. The larger it is, the closer the stochastic methods are to ``"top"``.

    Returns
    -------
    integer array (n,)
        Indices of distinct rows, in the order of choice.

    Raises
    ------
    InvalidInput
        If fewer than ``n`` rows have no label, a score is NaN, or a score is negative under
        ``"power"``.

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
    preference = Preference.of(method, coldness)
    if is_dask(scores):
        return _acquire_lazily(scores, n, preference, random_state, labelled)
    scores = validate.vector(scores, "scores", may_be_empty=True)
    candidates = unlabelled_rows(len(scores), labelled)
    n = check_batch_size(n, len(candidates))
    rng = generator(seed_of(random_state))
    keys = _sort_keys(scores[candidates], preference, rng)
    return np.asarray(candidates[_largest(keys, n, rng)])


def default_method(*, has_target: bool) -> str:
    """Return how rows are chosen by their scores, unless a method is passed.

    Without a target, those of the largest scores. With one, rows are drawn in proportion to their
    adjusted gains: the largest gains often belong to rows that say the same about the target, and
    where pool and target are of the same kind, a batch of them can be worse than random rows.

    Parameters
    ----------
    has_target : bool
        Whether the scores are gains for a target; see :func:`scorewise.acquire_for`.

    Returns
    -------
    str
        One of ``METHODS``.

    Examples
    --------
    >>> from scorewise.acquire import default_method
    >>> default_method(has_target=False), default_method(has_target=True)
    ('top', 'power')
    """
    return "power" if has_target else "top"


def _acquire_lazily(
    scores: Any, n: Any, preference: Preference, random_state: Any, labelled: Any
) -> np.ndarray:
    """As acquire, for a Dask array, whose scores stay on the workers."""
    validate.known_chunks(scores, "scores")
    if scores.ndim != 1:
        raise InvalidInput(f"scores has {scores.ndim} dimensions; it must be a vector (n,)")
    n_rows = scores.shape[0]
    rows = np.zeros(0, np.int64)
    if labelled is not None:
        rows = np.sort(validate.rows(labelled, n_rows, "labelled"))
    n = check_batch_size(n, n_rows - len(rows))
    chosen = at_scale("acquire_rows")(scores, n, preference, seed_of(random_state), rows)
    return np.asarray(chosen)


def unlabelled_rows(n_rows: int, labelled: Any) -> np.ndarray:
    """The indices of the rows that have no label."""
    has_label = np.zeros(n_rows, dtype=bool)
    if labelled is not None:
        has_label[validate.rows(labelled, n_rows, "labelled")] = True
    return np.flatnonzero(~has_label)


def check_coldness(coldness: Any) -> float:
    """The coldness as a float, if it is positive."""
    value = validate.number(coldness, "coldness")
    if value < _SMALLEST_COLDNESS:
        raise InvalidInput(f"coldness must be above 0, and at least 1e-100, not {coldness!r}")
    return value


def check_batch_size(n: Any, n_candidates: int) -> int:
    """Return the number of rows to choose; raises unless there are as many candidates.

    Parameters
    ----------
    n : int
        Number of rows to choose, at least 1.
    n_candidates : int
        Number of rows that may be chosen.

    Returns
    -------
    int

    Raises
    ------
    InvalidInput
        If ``n`` is no whole number above 0, or larger than ``n_candidates``.

    Examples
    --------
    >>> from scorewise.acquire import check_batch_size
    >>> check_batch_size(2, n_candidates=5)
    2
    >>> check_batch_size(9, n_candidates=5)
    Traceback (most recent call last):
    scorewise.errors.InvalidInput: there are only 5 rows to choose 9 from
    """
    size = validate.whole(n, "n", at_least=1)
    if not n_candidates:
        raise InvalidInput("there are no unlabelled rows to choose from")
    if size > n_candidates:
        raise InvalidInput(f"there are only {counted(n_candidates, 'row')} to choose {n} from")
    return size


@dataclass(frozen=True)
class Preference:
    """How a method of :func:`scorewise.acquire` prefers rows to others, by their scores.

    Use it to choose from scores that are not all in one place: the rows with the n largest keys
    are those that :func:`scorewise.acquire` draws, with the same chances.

    Attributes
    ----------
    method : str
        One of ``METHODS``.
    coldness : float

    Examples
    --------
    >>> import numpy as np
    >>> from scorewise.acquire import Preference
    >>> scores, noise = np.array([0.2, 0.4, 0.3]), np.random.default_rng(0).gumbel(size=3)
    >>> keys = Preference.of("power", coldness=2).keys(scores, 0.4, noise)
    >>> np.argsort(-keys)[:2]  # two rows to label
    array([2, 1])
    """

    method: str
    coldness: float

    @classmethod
    def of(cls, method: str, coldness: float = 1.0) -> Preference:
        """Return the preference of a method.

        Parameters
        ----------
        method, coldness
            As for :func:`scorewise.acquire`.

        Returns
        -------
        Preference

        Raises
        ------
        InvalidInput
            If the method is not known, or the coldness is not positive.
        """
        return cls(validate.choice(method, "method", METHODS), check_coldness(coldness))

    def check(self, smallest: float) -> None:
        """Raise InvalidInput if the method cannot weigh ``smallest``, the smallest score."""
        if self.method == "power" and smallest < 0:
            raise InvalidInput(
                f"the smallest score is {smallest:.6g}; method='power' needs scores of at least 0",
                Remedy("method", "softmax", "for scores of any sign"),
                Remedy("method", "softrank", "to use only their order"),
            )

    def keys(self, scores: np.ndarray, top: float, noise: np.ndarray) -> np.ndarray:
        """Return sort keys, of which the largest are chosen; a draw without replacement.

        Parameters
        ----------
        scores : array (n,)
            Of some rows; under softrank their ranks: 1, 2, … from the largest score of all rows on.
        top : float
            The largest finite score of all rows.
        noise : array (n,)
            Gumbel noise, for each row its own.

        Returns
        -------
        array (n,)
        """
        match self.method:
            case "top":
                return scores
            case "random":
                return noise
            case "power":
                with np.errstate(divide="ignore"):
                    log_weights = np.log(scores)
            case "softmax":
                # relative to the largest, so that the noise is not lost in rounding
                with np.errstate(over="ignore"):
                    log_weights = scores - top if np.isfinite(top) else scores
            case _:
                log_weights = -np.log(scores)
        return np.asarray(log_weights + noise / self.coldness)


def _sort_keys(scores: np.ndarray, preference: Preference, rng: np.random.Generator) -> np.ndarray:
    """Return sort keys, of which the n largest are chosen."""
    match preference.method:
        case "top":
            return scores
        case "random":
            return rng.random(len(scores))
        case "softrank":  # ties are in random order
            order = np.lexsort((rng.random(len(scores)), -scores))
            scores = np.empty(len(scores))
            scores[order] = np.arange(1, len(scores) + 1)
    preference.check(float(scores.min()))
    top = np.max(scores, initial=-np.inf, where=np.isfinite(scores))
    return preference.keys(scores, float(top), rng.gumbel(size=len(scores)))


def _largest(keys: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """The indices of the n largest keys, in falling order; ties are in random order."""
    nth = np.partition(keys, len(keys) - n)[len(keys) - n]
    above, tied = np.flatnonzero(keys > nth), np.flatnonzero(keys == nth)
    order = above[np.lexsort((rng.random(len(above)), -keys[above]))]
    return np.concatenate([order, rng.choice(tied, n - len(above), replace=False)])
