"""Top-k truncation of member probabilities, and what is left to know of the uncertainty.

For each row, the k classes with the largest mean θ̄ keep their probabilities, and one more class
has the sum of the other K − k: the rest. ``docs/scale.md`` proves the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._notebook import TextInNotebooks
from scorewise._text import quoted, shape_text
from scorewise.decompose import Decomposition, decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.io._predictions import Predictions
from scorewise.rules import RuleLike, ScoringRule, get_rule
from scorewise.rules.structures import LargestClasses, Norm, Separable

_BLOCK_BYTES = 32 << 20  # of a block of rows with all classes, in float64
_MOST_CONVEX = 2.0  # power up to which the divergence of a separable rule is jointly convex
# How much more than n times the smallest probability of a class that is stored the n others may
# have: half precision rounds by less.
_ROUNDING = 1e-2


@dataclass(frozen=True, eq=False, repr=False)
class TruncatedPredictions(TextInNotebooks):
    """Predictions of k classes of each row and of all others together.

    :func:`scorewise.io.truncate` returns one. The predictions are stored by
    :func:`scorewise.write_predictions` and decomposed like any others; the classes are needed only
    to know which they were.

    Attributes
    ----------
    predictions : Predictions
        Member probabilities ``(N, M, k + 1)``, the last class being the rest, with ids and weights.
        Labels are columns: 0 to k − 1, k for a class of the rest, −1 for no label.
    classes : integer array (N, k)
        The class of each column, the most likely one first.
    n_classes : int
        The number of classes K before.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> truncated = sw.io.truncate(np.full((5, 3, 1000), 1 / 1000), 10)
    >>> truncated
    TruncatedPredictions(5 rows, 3 members, 1,000 classes, of which 10 are stored, float64)
    >>> truncated.predictions.shape, truncated.classes.shape
    ((5, 3, 11), (5, 10))
    """

    predictions: Predictions
    classes: np.ndarray
    n_classes: int

    def __repr__(self) -> str:
        n, m, k = self.predictions.shape
        return (
            f"TruncatedPredictions({shape_text((n, m, self.n_classes))}, of which {k - 1} are "
            f"stored, {self.predictions.dtype})"
        )


def truncate(
    predictions: Any, k: int, *, weights: Any = None, dtype: Any = None
) -> TruncatedPredictions:
    """Return the probabilities of the k most likely classes of each row, and of the rest.

    Use it where all K classes are too many to store: ``(N, M, K)`` becomes ``(N, M, k + 1)``. The
    k classes are those with the largest mean θ̄ and are the same for all members of a row, so that
    members can still be compared. :func:`scorewise.io.truncation_bounds` says between which values
    the uncertainty of the complete predictions is.

    Parameters
    ----------
    predictions : array (N, M, K), Samples or Predictions
        A part of a file, such as ``chunks()`` yields, or all rows.
    k : int
        From 1 to K − 1.
    weights : array (M,) or (N, M), optional
        Member weights of an array.
    dtype : numpy dtype, optional
        Of the stored probabilities, such as ``"float16"``; by default that of the predictions.

    Returns
    -------
    TruncatedPredictions

    Raises
    ------
    InvalidInput
        If the predictions are invalid, or k does not fit.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = np.array([[[0.5, 0.1, 0.3, 0.1], [0.6, 0.1, 0.2, 0.1]]])  # (1, 2, 4)
    >>> truncated = sw.io.truncate(probs, 2)
    >>> truncated.classes, truncated.predictions.probs
    (array([[0, 2]]), array([[[0.5, 0.3, 0.2],
            [0.6, 0.2, 0.2]]]))
    >>> truncated
    TruncatedPredictions(1 row, 2 members, 4 classes, of which 2 are stored, float64)
    """
    complete = _as_predictions(predictions, weights)
    n, _, n_classes = complete.shape
    k = validate.whole(k, "k", at_least=1)
    if k >= n_classes:
        raise InvalidInput(
            f"k is {k}, and there are {n_classes} classes: store them all, or choose a smaller k"
        )
    samples = complete.samples
    probs, mean = to_numpy(samples.probs), to_numpy(samples.mean)
    classes = np.argsort(-mean, axis=-1, kind="stable")[:, :k]
    is_rest = np.ones((n, 1, n_classes), dtype=bool)
    np.put_along_axis(is_rest, classes[:, None, :], False, axis=-1)
    rest = np.sum(probs, axis=-1, where=is_rest, dtype=np.float64, keepdims=True)
    largest = np.take_along_axis(probs, classes[:, None, :], axis=-1)
    stored_as = complete.dtype if dtype is None else np.dtype(dtype)
    stored = Predictions(
        np.concatenate([largest, rest], axis=-1).astype(stored_as),
        labels=_columns_of(complete.labels, classes),
        ids=complete.ids,
        weights=complete.weights,
    )
    return TruncatedPredictions(stored, classes, n_classes)


def _as_predictions(predictions: Any, weights: Any) -> Predictions:
    if isinstance(predictions, Predictions | Samples):
        if weights is not None:
            raise InvalidInput(
                f"weights: cannot be passed with {type(predictions).__name__}, which have their own"
            )
        if isinstance(predictions, Predictions):
            return predictions
        return Predictions(to_numpy(predictions.probs), weights=predictions.weights)
    return Predictions(predictions, weights=weights)


def _columns_of(labels: np.ndarray | None, classes: np.ndarray) -> np.ndarray | None:
    """Return the column of each label, k for the rest."""
    if labels is None:
        return None
    matches = classes == labels[:, None]
    columns = np.where(matches.any(axis=-1), matches.argmax(axis=-1), classes.shape[-1])
    return np.where(labels < 0, labels, columns)


def truncation_bounds(
    truncated: Any, rule: RuleLike, *, n_classes: int | None = None
) -> tuple[Decomposition, Decomposition]:
    """Return the lowest and the highest uncertainty that the complete predictions can have.

    Use it to choose k on a sample of rows, and to know which rows to trust. Each component of
    :func:`scorewise.decompose` of the complete predictions is between the two, up to the rounding
    of what is stored. Both are equal where the rest has no probability. For log, Brier and Tsallis
    with β ≤ 2, and for zero-one and top-k, no bound of a total or aleatoric value can be better for
    all completions of a row; zero-one and top-k totals are exact. The bounds take about as long as
    decomposing the complete predictions.

    Parameters
    ----------
    truncated : TruncatedPredictions, or Predictions, Samples or array (N, M, k + 1)
        Predictions as :func:`scorewise.io.truncate` returns or a file has them: the k classes with
        the largest mean, and the rest as the last class.
    rule : rule or str
        A rule that treats all classes alike: log, Brier, zero-one, spherical, Tsallis,
        pseudo-spherical or top-k.
    n_classes : int, optional
        The number of classes K of the complete predictions, if ``truncated`` does not have it.

    Returns
    -------
    low, high : Decomposition
        Arrays ``(N,)`` in float64.

    Raises
    ------
    InvalidInput
        If the rule treats classes differently, is top-k with more classes than are stored, or if
        the stored classes cannot be those with the largest mean.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = np.array([[[0.90, 0.04, 0.03, 0.03], [0.80, 0.10, 0.05, 0.05]]])
    >>> low, high = sw.io.truncation_bounds(sw.io.truncate(probs, 2), "log")
    >>> true = sw.decompose(probs, "log")
    >>> bool(low.total[0] <= true.total[0] <= high.total[0])
    True
    >>> low.epistemic.round(4), true.epistemic.round(4), high.epistemic.round(4)
    (array([0.0106]), array([0.0106]), array([0.0636]))
    """
    samples, n_classes = _stored(truncated, n_classes)
    rule = get_rule(rule)
    n_stored = samples.n_classes - 1
    _check_rule(rule, n_stored)
    n_rest = n_classes - n_stored
    parts = [
        _bounds_of_block(samples[rows], rule, n_rest, samples[rows].mean)
        for rows in _blocks(samples, n_classes)
    ]
    low, high = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    return Decomposition(*low), Decomposition(*high)


def _stored(truncated: Any, n_classes: int | None) -> tuple[Samples, int]:
    """Return the checked members in float64, and K."""
    if isinstance(truncated, TruncatedPredictions):
        if n_classes not in {None, truncated.n_classes}:
            raise InvalidInput(
                f"n_classes is {n_classes}, and the predictions had {truncated.n_classes} classes"
            )
        n_classes, truncated = truncated.n_classes, truncated.predictions
    if n_classes is None:
        raise InvalidInput(
            "how many classes the rest stands for is not known: pass n_classes, the number of all"
        )
    samples = _as_predictions(truncated, None).samples.in_float64()
    n_stored = samples.n_classes - 1
    if validate.whole(n_classes, "n_classes", at_least=2) <= n_stored:
        raise InvalidInput(
            f"n_classes is {n_classes}, and {n_stored} classes are stored, with the rest as the "
            "last one; it must be the number of all classes, which is larger"
        )
    mean = to_numpy(samples.mean)
    most = (n_classes - n_stored) * mean[:, :-1].min(axis=-1)
    wrong = np.flatnonzero(mean[:, -1] > most + _ROUNDING)
    if len(wrong):
        row = int(wrong[0])
        raise InvalidInput(
            f"row {row}: the rest has a mean of {mean[row, -1]:.3g}, and {n_classes - n_stored} "
            f"classes below the smallest of the others can have {most[row]:.3g} together; store "
            "the classes with the largest mean, as scorewise.io.truncate does, and check n_classes",
            index=(row,),
        )
    return samples, n_classes


def _check_rule(rule: ScoringRule, n_stored: int) -> None:
    structure = rule.structure
    if not (rule.is_symmetric and isinstance(structure, Separable | Norm | LargestClasses)):
        raise InvalidInput(
            f"{quoted(rule.name)} has no bounds for truncated predictions: they need a rule of the "
            "package that treats all classes alike, such as log, brier, zero-one or spherical"
        )
    if isinstance(structure, LargestClasses) and structure.k > n_stored:
        raise InvalidInput(
            f"{quoted(rule.name)} needs {structure.k} classes, and {n_stored} are stored; truncate "
            f"to {structure.k} or more"
        )


def _blocks(samples: Samples, n_classes: int) -> Iterator[slice]:
    """Yield slices of rows that fit the memory with all classes; one if there are no rows."""
    n, m, _ = samples.shape
    step = max(1, _BLOCK_BYTES // (m * n_classes * 8))
    for start in range(0, max(1, n), step):
        yield slice(start, start + step)


def _bounds_of_block(
    samples: Samples, rule: ScoringRule, n_rest: int, mean: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest components, ``(3, N)`` each."""
    structure = rule.structure
    low = np.stack(list(decompose(samples, rule)))  # the rest in one class
    spread = decompose(_completed(samples, _spread(samples, n_rest)), rule)
    high = np.stack(list(spread))
    low[0] = decompose(Samples(_packed(mean, n_rest)[:, None], check=False), rule).total
    if isinstance(structure, LargestClasses):
        low[0] = high[0]  # the largest means are stored
    is_jointly_convex = isinstance(structure, Separable) and structure.power <= _MOST_CONVEX
    if is_jointly_convex or isinstance(structure, LargestClasses):
        low[2] = spread.epistemic
    else:
        low[2] = np.maximum(0.0, low[0] - high[1])
    high[2] = high[0] - low[1]
    if not isinstance(structure, LargestClasses):
        apart = decompose(_completed(samples, _one_class_per_member(samples)), rule)
        high[2] = np.minimum(high[2], apart.epistemic)
        low[1] = np.maximum(low[1], low[0] - high[2])
    is_exact = (mean[:, -1] == 0) | (n_rest == 1)
    high = np.where(is_exact, low, np.maximum(low, high))
    return low, high


def _completed(samples: Samples, rest: np.ndarray) -> Samples:
    """Return the members with these classes ``(N, M, R)`` in place of the rest."""
    probs = np.concatenate([samples.probs[..., :-1], rest], axis=-1)
    return Samples(probs, samples.weights, check=False)


def _spread(samples: Samples, n_rest: int) -> np.ndarray:
    """Return the rest of each member, spread evenly over its classes."""
    rest = samples.probs[..., -1:] / n_rest
    return np.broadcast_to(rest, (*rest.shape[:-1], n_rest))


def _one_class_per_member(samples: Samples) -> np.ndarray:
    """Return the rest of each member in a class of its own, ``(N, M, M)``."""
    return np.asarray(samples.probs[..., -1:] * np.eye(samples.shape[-2]))


def _packed(mean: np.ndarray, n_rest: int) -> np.ndarray:
    """Return the mean with the rest in as few classes as can be.

    None of them has more than the smallest mean of a stored class.
    """
    most = mean[:, :-1].min(axis=-1, keepdims=True)
    rest = np.clip(mean[:, -1:] - most * np.arange(n_rest), 0.0, most)
    return np.concatenate([mean[:, :-1], rest], axis=-1)
