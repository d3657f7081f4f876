"""Second-order predictions: distributions Q over the class probabilities θ.

:class:`Samples` holds the members of an ensemble or the draws of a posterior, :class:`Dirichlet`
the parameters of a Dirichlet. Both have a mean θ̄ and compute expectations over θ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    as_dtype_of,
    at_least,
    cached_property,
    difference,
    distance_from_one,
    dtype_name,
    host_view,
    ignoring_errors,
    is_jax,
    is_small_in_host_memory,
    is_traced,
    map_blocks,
    mean_members,
    minus,
    namespace,
    needs_gradient,
    one_hot,
    side_by_side,
    smallest,
    smallest_normal,
    sum_members,
    to_float64,
    to_numpy,
    working_precision,
)
from scorewise._fields import checked_classes
from scorewise._inputs import InputOptions, RawPredictions, StoredAs, classes_last, raw_members
from scorewise._notebook import TextInNotebooks
from scorewise._numerics import sum_of_others
from scorewise._text import quoted_names
from scorewise.errors import InvalidInput

__all__ = ["Dirichlet", "Samples", "StoredAs", "binary", "by_label"]


def binary(p: Any) -> Array:
    """Return two-class probabilities from the probability of class 1.

    Use it for models that report one number per row, such as a sigmoid.

    Parameters
    ----------
    p : array (...)
        Probability of class 1.

    Returns
    -------
    array (..., 2)
        ``[1 - p, p]`` along a new last axis.

    Raises
    ------
    InvalidInput
        If an entry is NaN or outside [0, 1].

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.binary([0.25, 1.0])
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    p = validate.floating(p, "p")
    xp = namespace(p)
    validate.unit_interval(xp, p, "p")
    return xp.stack([1 - p, p], axis=-1)


class Samples(TextInNotebooks):
    """A second-order distribution that consists of weighted members.

    Use it to check predictions once and decompose them several times; :func:`scorewise.decompose`
    also takes plain arrays.

    Parameters
    ----------
    probs : array (..., M, K), or list of M arrays (..., K)
        Member probabilities, or logits with ``from_logits=True`` (-inf masks a class). A list of
        arrays or data frames is a list of members.
    weights : array (M,) or (..., M), optional
        Member weights, in any scale; equal by default.
    member_axis, class_axis : int
        Where members and classes are in ``probs``; moved without a copy.
    from_logits, normalize, check : bool
        Take a softmax; rescale rows to sum to 1; raise for bad input (the default).
    class_names : sequence of K labels, optional
        The labels of the classes as in ``y``, strings or numbers, in the order of the class axis.

    Attributes
    ----------
    probs : array (..., M, K)
        Member probabilities, in float32 or float64.
    weights : array (M,) or (..., M), or None
        Member weights that sum to 1.
    classes_ : array (K,) or None
        The labels of the classes; None if they are not known.
    stored_as : StoredAs
        The dtype of the array that was passed, and whether it held logits.

    Raises
    ------
    InvalidInput
        If a row is not a probability distribution, or the weights do not fit.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> q = sw.Samples([[0.9, 0.1], [0.5, 0.5]], weights=[3, 1])
    >>> q
    Samples(2 members, 2 classes, batch (), float64, weighted)
    >>> q.mean
    array([0.8, 0.2])

    Rows are indexed, and the classes stay with them:

    >>> first, second = [[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]  # (N, K) each
    >>> q = sw.Samples([np.array(first), np.array(second)], class_names=["cat", "dog"])
    >>> q.shape, q[1:].classes_[q[1].mean.argmax()]
    ((2, 2, 2), np.str_('dog'))
    """

    probs: Array
    weights: Array | None
    stored_as: StoredAs
    classes_: np.ndarray | None
    _least = -math.inf  # a bound of the probabilities from below, if a check has read it

    def __init__(
        self,
        probs: Any,
        weights: Any = None,
        *,
        member_axis: int = -2,
        class_axis: int = -1,
        from_logits: bool = False,
        normalize: bool = False,
        check: bool = True,
        class_names: Any = None,
    ) -> None:
        options = InputOptions(member_axis, class_axis, from_logits, normalize, check, class_names)
        raw = raw_members(probs, options)
        raw.warn_of_many_members()
        self.probs, self.weights = raw.probabilities(), raw.normalized_weights(weights)
        self.stored_as, self.classes_ = raw.stored_as(weights), raw.classes

    @classmethod
    def of(cls, raw: RawPredictions, weights: Any = None) -> Samples:
        """Return the samples of ``raw`` members with these ``weights``, checked."""
        probs, normalized_weights = raw.probabilities(), raw.normalized_weights(weights)
        return cls._trusted(probs, normalized_weights, raw.stored_as(weights), raw.classes)

    @classmethod
    def _trusted(
        cls, probs: Array, weights: Array | None, stored_as: StoredAs, classes: np.ndarray | None
    ) -> Samples:
        samples = object.__new__(cls)
        samples.probs, samples.weights = probs, weights
        samples.stored_as, samples.classes_ = stored_as, classes
        return samples

    @classmethod
    def map_blocks(
        cls,
        work: Callable[..., list[Array]],
        raw: RawPredictions,
        weights: Any,
        *rows: Array,
        parts: int = 1,
    ) -> list[Array]:
        """Return the arrays that ``work`` returns for raw members, checked block by block.

        ``raw`` and ``weights`` are as for :meth:`of`. ``work`` takes the samples of a block, and
        its part of the ``rows``, arrays ``(..., R)``; ``parts`` are as for :meth:`by_blocks`.
        """
        raw.check_logits()
        w, stored_as = raw.normalized_weights(weights), raw.stored_as(weights)
        xp = namespace(raw.values)

        def of_block(index: tuple[slice, ...]) -> list[Array]:
            values = side_by_side(xp, raw.values[(*index, ...)] if index else raw.values)
            block = raw
            if values is not raw.values:
                starts = (*(rows.start for rows in index), *(0,) * (raw.values.ndim - len(index)))
                block = raw.block(values, raw.layout.absolute(starts))
            samples = cls._trusted(block.rows(), _rows_of(w, index), stored_as, raw.classes)
            if block.must_sum_to_one:
                samples.off, samples._least = block.check_rows(samples.probs, samples.sums)
            return work(samples, *(x[(*index, ...)] for x in rows))

        return map_blocks(of_block, raw.values, parts=parts)

    def raw(self) -> RawPredictions:
        """Return the members as kernels take them, without a second check."""
        layout = classes_last(self.probs.ndim, "probs")
        return RawPredictions(self.probs, layout, check=False, classes=self.classes_)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (..., M, K) of the probabilities."""
        return tuple(self.probs.shape)

    def __len__(self) -> int:
        if len(self.shape) == 2:
            raise TypeError("Samples of one row have no length")
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Samples:
        if len(self.shape) == 2 or isinstance(rows, tuple):
            raise IndexError("Samples are indexed by rows; index .probs by members and classes")
        index = (rows, ...) if isinstance(rows, slice) else rows  # as the array API asks for
        weights = self.weights
        if weights is not None and weights.ndim > 1:
            weights = weights[index]
        return Samples._trusted(self.probs[index], weights, self.stored_as, self.classes_)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(to_numpy(self.probs), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        *batch, m, k = self.probs.shape
        weighted = ", weighted" if self.weights is not None else ""
        kind = dtype_name(self.probs)
        return f"Samples({m} members, {k} classes, batch {tuple(batch)}, {kind}{weighted})"

    @property
    def n_classes(self) -> int:
        """The number of classes K."""
        return int(self.probs.shape[-1])

    @cached_property
    def anchor(self) -> Array:
        """The heaviest member, ``(..., K)``, from which deviations are measured.

        Averages of deviations are exactly 0 where members are identical, and a heavy anchor keeps
        small averages of unequal weights from cancelling.
        """
        if self.weights is None:
            return self.probs[..., 0, :]
        xp = namespace(self.probs)
        heaviest = one_hot(xp, xp.argmax(self.weights, axis=-1), self.weights.shape[-1])
        return xp.sum(xp.where(heaviest[..., None], self.probs, 0.0), axis=-2)

    @cached_property
    def _shift_and_deviations(self) -> tuple[Array, Array]:
        from_anchor = difference(namespace(self.probs), self.probs, self.anchor[..., None, :])
        shift = self.average(from_anchor)
        return shift, minus(from_anchor, shift[..., None, :])

    @property
    def shift(self) -> Array:
        """The difference θ̄ − anchor, ``(..., K)``, exactly 0 where members are identical."""
        return self._shift_and_deviations[0]

    @property
    def deviations(self) -> Array:
        """The deviations θ − θ̄, ``(..., M, K)``, accurate even where θ̄ is rounded.

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.Samples([[0.75, 0.25], [0.25, 0.75]]).deviations
        array([[ 0.25, -0.25],
               [-0.25,  0.25]])
        """
        return self._shift_and_deviations[1]

    @cached_property
    def mean(self) -> Array:
        """The mean θ̄ = E_Q θ, ``(..., K)``; the members themselves where they are identical."""
        xp = namespace(self.probs)
        mean = self.anchor + self.shift
        if self._least > 0 or smallest(xp, mean) > 0:
            return mean
        mean = at_least(xp, mean, 0.0)
        # A class that is possible for a weighted member stays possible, so that D(θ̄, θ) is finite.
        possible = self.probs > 0
        if self.weights is not None:
            possible = possible & (self.weights > 0)[..., None]
        return xp.where((mean > 0) | ~xp.any(possible, axis=-2), mean, smallest_normal(xp, mean))

    @cached_property
    def plain_mean(self) -> Array:
        """The mean ``(..., K)`` by a plain sum: accurate, but not exact for identical members."""
        return self.average(self.probs)

    @cached_property
    def sums(self) -> Array:
        """The sums of the members' probabilities, ``(..., M)``: 1 up to rounding."""
        with ignoring_errors(self.probs):  # those of unchecked members may overflow
            return namespace(self.probs).sum(self.probs, axis=-1)

    @cached_property
    def off(self) -> float | None:
        """How far a sum is from 1, at most; None where values cannot be read."""
        return distance_from_one(namespace(self.probs), self.sums)

    def where(self, mask: Array) -> Samples:
        """Return the instances at which the boolean ``mask`` ``(...)`` is true, along one axis."""
        w = self.weights
        w = w if w is None or w.ndim == 1 else w[mask]
        probs = side_by_side(namespace(self.probs), self.probs[mask])
        return Samples._trusted(probs, w, self.stored_as, self.classes_)

    def few_on_host(self) -> Samples:
        """Return few rows in host memory as NumPy arrays, whose operations start faster."""
        if not is_small_in_host_memory(self.probs):
            return self
        w = None if self.weights is None else host_view(self.weights)
        return Samples._trusted(host_view(self.probs), w, self.stored_as, self.classes_)

    def in_float64(self) -> Samples:
        """Return the samples in float64, where the library has it."""
        xp = namespace(self.probs)
        w = self.weights
        if w is not None:
            w = to_float64(xp, w)
            w = w / xp.sum(w, axis=-1, keepdims=True)
        probs = to_float64(xp, self.probs)
        return Samples._trusted(probs, w, self.stored_as, self.classes_)

    def average(self, values: Array) -> Array:
        """Return E_Q of ``values`` per member, ``(..., M)`` or ``(..., M, R)``, as ``probs`` are.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> q = sw.Samples([[0.9, 0.1], [0.5, 0.5]], weights=[3, 1])
        >>> float(q.average(np.array([0.0, 1.0])))
        0.25
        """
        xp = namespace(values)
        axis = -2 if values.ndim == self.probs.ndim else -1
        if self.weights is None:
            return mean_members(xp, values, axis)
        w = self.weights if axis == -1 else self.weights[..., None]
        # Members of weight 0 do not count, even where their value is infinite.
        return sum_members(xp, w * xp.where(w > 0, values, 0.0), axis)

    def expect(self, f: Callable[[Array], Array]) -> Array:
        """Return E_Q f(θ), for ``f`` from ``(..., M, K)`` to ``(..., M)`` or ``(..., M, R)``.

        Examples
        --------
        >>> import scorewise as sw
        >>> q = sw.Samples([[0.9, 0.1], [0.5, 0.5]])
        >>> float(q.expect(lambda theta: theta.max(axis=-1)))
        0.7
        """
        return self.average(f(self.probs))

    def by_blocks(
        self, work: Callable[..., list[Array]], *rows: Array, parts: int = 1
    ) -> list[Array]:
        """Return the arrays that ``work`` returns, computed on blocks that fit a cache.

        Parameters
        ----------
        work : callable
            From the samples of a block, and its part of the rows, to a list of arrays.
        *rows : array (..., R)
            Other values of the same instances.
        parts : int
            With many temporaries, the number of parts of such a block to work on.

        Returns
        -------
        list of arrays (..., R)

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> samples = sw.Samples(np.full((4, 3, 2), 0.5))
        >>> samples.by_blocks(lambda block: [block.mean[..., 0]])
        [array([0.5, 0.5, 0.5, 0.5])]
        """
        xp = namespace(self.probs)

        def of_block(index: tuple[slice, ...]) -> list[Array]:
            if not index:
                return work(self, *rows)
            probs = side_by_side(xp, self.probs[(*index, ...)])
            weights = _rows_of(self.weights, index)
            block = Samples._trusted(probs, weights, self.stored_as, self.classes_)
            return work(block, *(x[(*index, ...)] for x in rows))

        return map_blocks(of_block, self.probs, parts=parts)


@validate.takes_options_of(Samples)
def by_label(predictions: Any, names: Any = None, **options: Any) -> dict[Any, Samples]:
    """Return the samples of each label of a multi-label problem, by the names of the labels.

    Use it for what takes rows ``(N, M, 2)``, such as a policy or an evaluation for each label.
    :func:`scorewise.decompose` takes all labels at once.

    Parameters
    ----------
    predictions : array (N, L, M, 2) or Samples
        Probabilities of L labels, each a problem of two classes; ``member_axis=1`` for
        ``(N, M, L, 2)``.
    names : sequence of L labels, optional
        Names of the labels; 0 to L − 1 by default.
    **options
        Options of :class:`scorewise.Samples`: ``weights``, ``member_axis``, ``from_logits``, …

    Returns
    -------
    dict
        From the name of a label to its Samples ``(N, M, 2)``.

    Raises
    ------
    InvalidInput
        If the shape is another, or there are not L different names.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.full((5, 3, 2), 0.5))  # 5 rows, 3 members, 2 labels
    >>> sw.by_label(probs, ["spam", "urgent"], member_axis=1)["urgent"]
    Samples(3 members, 2 classes, batch (5,), float64)
    """
    is_samples = isinstance(predictions, Samples)
    if is_samples and options:
        raise InvalidInput(f"{', '.join(options)}: pass to Samples(...), not together with Samples")
    samples = predictions if is_samples else Samples(predictions, **options)
    shape = samples.shape
    if len(shape) != 4 or shape[-1] != 2:
        raise InvalidInput(
            f"the predictions have shape {shape} with members before classes; those of several "
            "labels have (N, L, M, 2), which scorewise.binary makes of the probabilities (N, L, M)"
        )
    labels = range(shape[1]) if names is None else list(names)
    if len(labels) != shape[1] or len(set(labels)) != shape[1]:
        raise InvalidInput(
            f"there are {shape[1]} labels, and names are {quoted_names(map(str, labels))}; each "
            "label needs a name of its own"
        )
    w = samples.weights
    return {
        name: Samples._trusted(
            samples.probs[:, j, ...],
            w if w is None or w.ndim == 1 else w[:, j, ...],
            samples.stored_as,
            samples.classes_,
        )
        for j, name in enumerate(labels)
    }


def _rows_of(weights: Array | None, index: tuple[slice, ...]) -> Array | None:
    """Return the weights of a block of instances; those of all instances may be the same."""
    return weights if weights is None or weights.ndim == 1 else weights[(*index, ...)]


class Dirichlet(TextInNotebooks):
    """A Dirichlet distribution over class probabilities.

    Use it for evidential and prior networks, and for counts.

    Parameters
    ----------
    alpha : array (..., K)
        Positive parameters, from 1e-100 to 1e100; for evidence e, α = e + 1.
    check : bool
        Raise for bad input (the default).
    class_names : sequence of K labels, optional
        The labels of the classes as in ``y``, which become ``classes_``.

    Raises
    ------
    InvalidInput
        If a parameter is not positive, finite and within that range.

    Examples
    --------
    >>> import scorewise as sw
    >>> q = sw.Dirichlet([8.0, 1.0, 1.0])
    >>> q.mean
    array([0.8, 0.1, 0.1])
    >>> round(float(sw.decompose(q, "brier").epistemic), 4)
    0.0309
    """

    alpha: Array
    classes_: np.ndarray | None
    n_draws = 8192  #: number of points that :meth:`estimate` averages over

    def __init__(self, alpha: Any, *, check: bool = True, class_names: Any = None) -> None:
        alpha = validate.floating(alpha, "alpha")
        xp = namespace(alpha)
        self.alpha = working_precision(xp, alpha)
        validate.class_count(alpha.shape, "alpha")
        self.classes_ = checked_classes(class_names, alpha.shape[-1])
        if check:
            validate.concentrations(self.alpha)

    def __repr__(self) -> str:
        *batch, k = self.alpha.shape
        return f"Dirichlet({k} classes, batch {tuple(batch)}, {dtype_name(self.alpha)})"

    @property
    def n_classes(self) -> int:
        """The number of classes K."""
        return int(self.alpha.shape[-1])

    @cached_property
    def concentration(self) -> Array:
        """The concentration α₀ = Σ_k α_k, ``(...)``."""
        return namespace(self.alpha).sum(self.alpha, axis=-1)

    @cached_property
    def alpha_of_others(self) -> Array:
        """The sum α₀ − α_k of the other parameters, ``(..., K)``, with all digits.

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.Dirichlet([10.0, 1e-20]).alpha_of_others
        array([1.e-20, 1.e+01])
        """
        return sum_of_others(namespace(self.alpha), self.alpha)

    @cached_property
    def mean(self) -> Array:
        """The mean θ̄ = α/α₀, ``(..., K)``."""
        return self.alpha / self.concentration[..., None]

    @cached_property
    def missing(self) -> Array:
        """The probability 1 − θ̄_k of the other classes, ``(..., K)``, with all digits.

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.Dirichlet([1.0, 1e-20]).missing
        array([1.e-20, 1.e+00])
        """
        return self.alpha_of_others / self.concentration[..., None]

    @cached_property
    def surprise(self) -> Array:
        """The surprise −log θ̄_k, ``(..., K)``, with all digits where θ̄_k is close to 1.

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.Dirichlet([1.0, 1e-20]).surprise.round(30)
        array([1.00000000e-20, 4.60517019e+01])
        """
        return namespace(self.alpha).log1p(self.alpha_of_others / self.alpha)

    @property
    def is_rare(self) -> Array:
        """Whether α_k is so small that :meth:`estimate` may miss class k, boolean ``(..., K)``."""
        return self.alpha < 0.01

    def in_float64(self, *, on_host: bool) -> Dirichlet:
        """Return the distribution in float64, which sums need.

        With ``on_host``, JAX arrays become NumPy arrays, which always have float64.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> sw.Dirichlet(np.ones(3, dtype=np.float32)).in_float64(on_host=True)
        Dirichlet(3 classes, batch (), float64)
        """
        if on_host and is_jax(self.alpha) and not is_traced(self.alpha):
            values = self._values()
        else:
            values = to_float64(namespace(self.alpha), self.alpha)
        return Dirichlet(values, check=False, class_names=self.classes_)

    def integrate(self, f: Callable[[np.ndarray], np.ndarray]) -> Array:
        """Return the values of ``f``, a NumPy function of the parameters ``(..., K)``.

        Use it in a rule that integrates numerically; it raises for arrays with gradients.

        Examples
        --------
        >>> import scorewise as sw
        >>> float(sw.Dirichlet([2.0, 3.0]).integrate(lambda alpha: alpha.sum(axis=-1)))
        5.0
        """
        return as_dtype_of(namespace(self.alpha), f(self._values()), self.alpha)

    def _values(self) -> np.ndarray:
        if needs_gradient(self.alpha) or is_traced(self.alpha):
            raise InvalidInput(
                "this rule has no closed form for a Dirichlet; it is integrated numerically on the "
                "host, which cannot be differentiated or traced: pass detached values of alpha"
            )
        return to_numpy(self.alpha).astype(np.float64)

    def expect(self, f: Callable[[Array], Array]) -> Array:
        """Return E_Q f(θ) by quasi-Monte-Carlo, for ``f`` from ``(B, m, K)`` to ``(B, m)``.

        Use it for a quantity of your own; most rules have closed forms.

        Examples
        --------
        >>> import scorewise as sw
        >>> q = sw.Dirichlet([1.0, 1.0])
        >>> round(float(q.expect(lambda theta: theta.max(axis=-1))), 3)
        0.75
        """
        return self.estimate(lambda theta, center: f(theta))[0]

    def estimate(self, f: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
        """Return E_Q f(θ, θ̄) by quasi-Monte-Carlo with 8,192 draws, and its standard error.

        Parameters
        ----------
        f : callable
            From θ ``(B, m, K)`` and the mean ``(B, 1, K)`` of each instance to ``(B, m)`` or
            ``(B, m, R)``.

        Returns
        -------
        estimate, standard_error : arrays (...) or (..., R)

        Examples
        --------
        >>> import scorewise as sw
        >>> value, error = sw.Dirichlet([1.0, 1.0]).estimate(lambda theta, mean: theta.max(axis=-1))
        >>> bool(abs(value - 0.75) < 4 * error)
        True
        """
        xp = namespace(self.alpha)
        *batch, k = self.alpha.shape
        mean = xp.reshape(self.mean, (-1, 1, k))

        def values(theta: np.ndarray, rows: slice) -> np.ndarray:
            result = f(as_dtype_of(xp, theta, self.alpha), mean[rows, ...])
            return to_numpy(result).astype(np.float64)

        estimate, error = (
            as_dtype_of(xp, x.reshape((*batch, *x.shape[1:])), self.alpha)
            for x in _simulate(values, self._values().reshape(-1, k))
        )
        return estimate, error


# -- expectations over a Dirichlet by quasi-Monte-Carlo -------------------------------------------

_REPEATS = 8  # Sobol sequences
_POINTS = Dirichlet.n_draws // _REPEATS  # of a sequence, a power of 2
_DRAWN_ELEMENTS = 1 << 22


def _simulate(
    f: Callable[[np.ndarray, slice], np.ndarray], alpha: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return E f(θ) for θ ~ Dirichlet(α) and its standard error, for parameters ``(B, K)``.

    ``f`` takes points ``(b, n, K)`` and the rows that they are for, and returns ``(b, n)`` or
    ``(b, n, R)``. Independently scrambled Sobol sequences give the estimate and, by their spread,
    its error, which is at least the effect of the rounding of the points on f.
    """
    k = alpha.shape[-1]
    sequences = _sobol(k)
    rows = max(1, _DRAWN_ELEMENTS // (_POINTS * k))
    estimates, errors = [], []
    for start in range(0, max(len(alpha), 1), rows):
        block = slice(start, min(start + rows, len(alpha)))
        means = np.stack([f(_points(alpha[block], u), block).mean(axis=1) for u in sequences])
        noise = np.abs(f(_rounded_mean(alpha[block]), block)).max(axis=1)
        estimates.append(means.mean(axis=0))
        errors.append(np.maximum(means.std(axis=0, ddof=1) / np.sqrt(_REPEATS), noise))
    return np.concatenate(estimates), np.concatenate(errors)


def _sobol(k: int) -> list[np.ndarray]:
    from scipy.stats import qmc  # half a second to import, so only where it is used

    rng = np.random.default_rng(0)
    sequences = (qmc.Sobol(k, scramble=True, rng=rng) for _ in range(_REPEATS))
    # Points on the edge of the cube have infinite quantiles.
    return [np.clip(s.random(_POINTS), 2.0**-53, 1 - 2.0**-53) for s in sequences]


def _points(alpha: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Return θ ``(B, n, K)`` for parameters ``(B, K)`` and uniforms ``(n, K)``: normalised gammas.

    Gamma quantiles of small parameters underflow, so they are normalised by their logarithms.
    """
    from scipy.special import gammaincinv, gammaln

    a = alpha[:, None, :]
    with np.errstate(divide="ignore"):
        log_g = np.log(gammaincinv(a, uniforms))
    # P(a, x) = x^a / Γ(a + 1) near 0
    lower_tail = (np.log(uniforms) + gammaln(a + 1)) / a
    return _normalised(np.where(log_g < -200, lower_tail, log_g))


def _rounded_mean(alpha: np.ndarray) -> np.ndarray:
    """The mean, moved in two directions by the rounding error of a point, ``(B, 2, K)``."""
    log_alpha = np.log(alpha)[:, None, :]
    off = 4 * np.finfo(float).eps * (1 + np.abs(log_alpha))
    sign = (-1.0) ** np.arange(alpha.shape[-1])
    return _normalised(np.concatenate([log_alpha + sign * off, log_alpha - sign * off], axis=1))


def _normalised(log_masses: np.ndarray) -> np.ndarray:
    masses = np.exp(log_masses - log_masses.max(axis=-1, keepdims=True))
    return np.asarray(masses / masses.sum(axis=-1, keepdims=True))
