"""Samplers: a fitted model, ready to return the probabilities of its members.

Most ensembles are a :class:`Committee`: members that can be called one by one. Its sampler calls
them in threads, a chunk of rows at a time, and checks their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from scorewise import _validate as validate
from scorewise._estimators import count_rows, select_rows
from scorewise._inputs import add_missing_classes
from scorewise._random import generator
from scorewise._threads import get_num_threads, run_in_threads
from scorewise._validate import SUM_TOLERANCE
from scorewise.errors import InvalidInput, Remedy

DEFAULT_DRAWS = 20  # of a stochastic model, as in the paper

# Numbers per chunk. Each chunk reads every tree again; other members' results are held twice.
_TREES_CHUNK, _CHUNK = 1 << 24, 1 << 22
_FEW = 1 << 17  # rows times members below which starting threads takes longer than the work


@dataclass(frozen=True)
class SamplingOptions:
    """The options of :func:`scorewise.predict_samples` that concern sampling.

    Attributes
    ----------
    n_samples : int, optional
        Number of members or draws; None for all members, or 20 draws of a stochastic model.
    seed : int
        Seed of the subset or of the draws. The same seed must give the same members.
    device, dropout, output
        As in :func:`scorewise.predict_samples`, for adapters that take them.

    Examples
    --------
    >>> from scorewise.models import SamplingOptions
    >>> SamplingOptions().n_draws, SamplingOptions(n_samples=5).n_draws
    (20, 5)
    >>> SamplingOptions().choose_members(3), len(SamplingOptions(n_samples=5).choose_members(100))
    ([0, 1, 2], 5)
    """

    n_samples: int | None = None
    seed: int = 0
    device: Any = None
    dropout: Any = "all"
    output: str | None = None

    @property
    def n_draws(self) -> int:
        """The number of draws from a stochastic model."""
        if self.n_samples is None:
            return DEFAULT_DRAWS
        return validate.whole(self.n_samples, "n_samples", at_least=1)

    def choose_members(self, n_members: int) -> list[int]:
        """Return the indices of all ``n_members``, or of a random subset, in rising order."""
        if self.n_samples is None:
            return list(range(n_members))
        size = validate.whole(self.n_samples, "n_samples", at_least=1)
        if size > n_members:
            raise InvalidInput(
                f"n_samples={size}, but the model has {n_members} members",
                Remedy("n_samples", None, "for all of them"),
            )
        return sorted(generator(self.seed).choice(n_members, size, replace=False).tolist())


_first_row: ContextVar[int] = ContextVar("first_row", default=0)


@contextmanager
def rows_from(first_row: int) -> Iterator[None]:
    """Return a context in which messages number the rows of X from ``first_row`` on.

    Use it where X is a part of more rows. It is for samplers that start inside.

    Parameters
    ----------
    first_row : int
        The number of the first row of X.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import numpy as np
    >>> from scorewise.models import SamplingOptions, member_sampler, rows_from
    >>> members = [lambda X: np.full((len(X), 2), 0.6)]
    >>> sampler = member_sampler(members, ["no", "yes"], SamplingOptions())
    >>> with rows_from(1000):
    ...     next(sampler.chunks(np.zeros((3, 4)), None))
    Traceback (most recent call last):
    scorewise.errors.InvalidInput: member 0 returns probabilities for row 1000 that sum to 1.2, ...
    """
    token = _first_row.set(first_row)
    try:
        yield
    finally:
        _first_row.reset(token)


def number_of_first_row() -> int:
    """Return the number of the first row of X in messages, as :func:`rows_from` sets it."""
    return _first_row.get()


class Sampler(Protocol):
    """The interface of samplers, which adapters make from models.

    Attributes
    ----------
    n_members : int
        Number M of members or draws that it returns.
    weights : array (M,) or None
        Weights of the members; None where they are equal.

    Examples
    --------
    A sampler of a model that returns the probabilities of all its members at once:

    >>> import numpy as np
    >>> class JointSampler:
    ...     weights = None
    ...     def __init__(self, predict_all, n_members):
    ...         self.predict_all, self.n_members = predict_all, n_members
    ...     def n_rows(self, X): return len(X)
    ...     def chunks(self, X, batch_size):
    ...         size = batch_size or 1000
    ...         for start in range(0, max(len(X), 1), size):
    ...             yield self.predict_all(X[start : start + size])
    >>> sampler = JointSampler(lambda X: np.full((len(X), 5, 2), 0.5), 5)
    >>> [chunk.shape for chunk in sampler.chunks(np.zeros((3, 4)), 2)]
    [(2, 5, 2), (1, 5, 2)]
    """

    n_members: int
    weights: np.ndarray | None

    def n_rows(self, X: Any) -> int | None:
        """Return the number of rows of ``X``, or None if it is not known beforehand."""

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """Yield all members' probabilities ``(n, M, K)`` of the first rows of ``X``, the next, ….

        Those of multi-label models are ``(n, L, M, 2)``. ``batch_size`` is the number of rows per
        chunk; None lets the sampler choose. A member is one function: a row's probabilities do not
        depend on its chunk. A chunk may be overwritten when the next is taken.
        """


@runtime_checkable
class TensorSampler(Sampler, Protocol):
    """A sampler of torch modules, whose chunks may stay on their device."""

    def tensors(self, X: Any, batch_size: int | None) -> Generator[Any]:
        """Yield the chunks as ``chunks`` does, as tensors where they are computed."""


# -- committees -----------------------------------------------------------------------------------


def _unchanged(X: Any) -> Any:
    return X


@dataclass(frozen=True)
class Member:
    """One classifier of a committee.

    Attributes
    ----------
    name : str
        For messages, such as ``"member 3 (GaussianNB)"``.
    predict : callable
        From prepared rows to the probabilities ``(n, k)`` of the member's classes, or ``(n, L, 2)``
        of L labels.
    columns : array (k,), optional
        Indices of the member's classes among the committee's; None for all of them.
    decision_function : callable, optional
        From prepared rows to scores, where the member has one.
    is_tree : bool
        Whether ``predict`` writes float64 probabilities that need no check into ``out=``.
    """

    name: str
    predict: Callable[..., np.ndarray]
    columns: np.ndarray | None = None
    decision_function: Callable[[Any], np.ndarray] | None = None
    is_tree: bool = False


@dataclass(frozen=True)
class Committee:
    """Members with the same classes, called with the same prepared rows.

    Attributes
    ----------
    members : tuple of Member
    classes : array (K,)
        The labels, in the order of the probabilities.
    prepare : callable
        From rows as the user has them to rows as members take them.
    weights : array (M,), optional
        Weights of the members; None where they are equal.
    n_labels : int, optional
        Number L of labels, each with these classes, of a multi-label model.
    """

    members: tuple[Member, ...]
    classes: np.ndarray
    prepare: Callable[[Any], Any] = _unchanged
    weights: np.ndarray | None = None
    n_labels: int | None = None

    def subset(self, indices: Sequence[int]) -> Committee:
        """Return the committee of some members."""
        return replace(
            self,
            members=tuple(self.members[i] for i in indices),
            weights=None if self.weights is None else self.weights[list(indices)],
        )


def member_sampler(
    members: Sequence[Callable[[Any], Any]],
    classes: Any,
    options: SamplingOptions,
    weights: Any = None,
) -> Sampler:
    """Return a sampler of members that are functions, for a user-defined :class:`Adapter`.

    Use it where each member can be called with some rows. Members are called in threads and with
    a chunk of rows at a time, and their outputs are checked. For a stochastic model, make
    ``options.n_draws`` functions from ``options.seed``; each must be the same function for all
    rows.

    Parameters
    ----------
    members : sequence of callables
        Each takes rows ``(n, ...)`` and returns probabilities ``(n, K)``.
    classes : array (K,)
        The labels, in the order of the probabilities.
    options : SamplingOptions
        Those passed to the adapter; ``n_samples`` selects a random subset.
    weights : array (M,), optional
        Weights of the members.

    Returns
    -------
    Sampler

    Examples
    --------
    >>> import numpy as np
    >>> from scorewise.models import SamplingOptions, member_sampler
    >>> always = [lambda X, p=p: np.tile([1 - p, p], (len(X), 1)) for p in (0.2, 0.9)]
    >>> sampler = member_sampler(always, ["no", "yes"], SamplingOptions())
    >>> next(sampler.chunks(np.zeros((3, 4)), None)).shape
    (3, 2, 2)
    """
    if not members:
        raise InvalidInput("there are no members to sample from")
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        _check_weights(weights, len(members))
    calls = tuple(Member(f"member {i}", predict) for i, predict in enumerate(members))
    return CommitteeSampler.of(Committee(calls, np.asarray(classes), weights=weights), options)


class CommitteeSampler:
    """Calls the members of a committee, some rows at a time."""

    def __init__(self, committee: Committee) -> None:
        self.committee = committee
        self.n_members = len(committee.members)
        self.weights = committee.weights
        if self.weights is not None:
            _check_weights(self.weights, self.n_members)
        self._are_trees = all(member.is_tree for member in committee.members)
        self._n_classes = len(committee.classes)
        self._labels = () if committee.n_labels is None else (committee.n_labels,)

    @classmethod
    def of(cls, committee: Committee, options: SamplingOptions) -> CommitteeSampler:
        """Return the sampler of the members that the options select."""
        return cls(committee.subset(options.choose_members(len(committee.members))))

    def n_rows(self, X: Any) -> int:
        """Return the number of rows of X."""
        return count_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """Yield all members' probabilities ``(n, M, K)`` of consecutive rows."""
        from scipy.sparse import issparse

        if self._n_classes < 2:
            raise InvalidInput("the model has only one class, so that no prediction is uncertain")
        n, m = self.n_rows(X), self.n_members
        if n == 0:
            yield np.empty((0, *self._labels, m, self._n_classes))
        X = X.tocsr() if issparse(X) else X
        chunk = _TREES_CHUNK if self._are_trees else _CHUNK
        size = batch_size or max(1, chunk // math.prod((*self._labels, m, self._n_classes)))
        first = number_of_first_row()
        for start in range(0, n, size):
            rows = X if size >= n else select_rows(X, slice(start, start + size))
            prepared = call_named(self.committee.prepare, rows, "the model", first + start)
            yield self._predict(prepared, first + start, min(size, n - start))

    def _predict(self, rows: Any, start: int, n: int) -> np.ndarray:
        from sklearn.utils.parallel import Parallel, delayed

        members = self.committee.members
        n_threads = 1 if n * len(members) < _FEW else get_num_threads()
        if self._are_trees:
            probs = np.empty((n, *self._labels, len(members), self._n_classes))

            def write(i: int) -> bool:
                members[i].predict(rows, out=probs[..., i, :])
                return True

            run_in_threads((partial(write, i) for i in range(len(members))), n_threads)
            return probs
        # Other members may run any code; scikit-learn's Parallel passes its settings to threads.
        parallel = Parallel(n_jobs=n_threads, require="sharedmem")
        results = parallel(delayed(self._predict_one)(member, rows, start, n) for member in members)
        for result in results:
            if isinstance(result, InvalidInput):
                raise result
        return np.stack(results, axis=-2)

    def _predict_one(
        self, member: Member, rows: Any, start: int, n: int
    ) -> np.ndarray | InvalidInput:
        """Return a member's probabilities, or its error: that of the first member is raised."""
        try:
            probs = np.asarray(call_named(member.predict, rows, member.name))
            n_known = self._n_classes if member.columns is None else len(member.columns)
            check_member(probs, (n, *self._labels, n_known), member.name, start)
        except InvalidInput as error:
            return error
        return add_missing_classes(probs, member.columns, self._n_classes)


# -- user-defined samplers, and samplers inside other models --------------------------------------


def checked(sampler: Sampler) -> Sampler:
    """Return the sampler with checks of its chunks; those of a committee are checked already."""
    return sampler if isinstance(sampler, CommitteeSampler) else _CheckedSampler(sampler)


class _CheckedSampler:
    """A user-defined sampler, whose chunks must be probabilities of its members."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self.n_members = validate.whole(sampler.n_members, "n_members", at_least=1)
        self.weights = sampler.weights
        if self.weights is not None:
            self.weights = np.asarray(self.weights, dtype=np.float64)
            _check_weights(self.weights, self.n_members)

    def n_rows(self, X: Any) -> int | None:
        """Return the number of rows of X, or None if it is not known."""
        return self._sampler.n_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """Yield the chunks of the sampler."""
        start = number_of_first_row()
        with closing(self._sampler.chunks(X, batch_size)) as chunks:
            for chunk in chunks:
                probs = np.asarray(chunk)
                if probs.ndim != 3 or probs.shape[1] != self.n_members or probs.shape[2] < 2:
                    raise InvalidInput(
                        f"the sampler returns shape {probs.shape}; it must be (rows, "
                        f"{self.n_members}, classes)"
                    )
                for m in range(self.n_members):
                    check_member(probs[:, m], (len(probs), probs.shape[2]), f"member {m}", start)
                start += len(probs)
                yield probs


class PreparedSampler:
    """A sampler whose rows are transformed first, as in a pipeline."""

    def __init__(self, sampler: Sampler, prepare: Callable[[Any], Any]) -> None:
        self.n_members = sampler.n_members
        self.weights = sampler.weights
        self._sampler = sampler
        self._prepare = prepare

    def n_rows(self, X: Any) -> int:
        """Return the number of rows of X."""
        return count_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """Yield the chunks of the sampler for the transformed rows."""
        rows = call_named(self._prepare, X, "the model", number_of_first_row())
        yield from self._sampler.chunks(rows, batch_size)


class WidenedSampler:
    """A sampler for more classes than its members have; the others get probability 0.

    ``columns`` are the indices of the members' classes among all.
    """

    def __init__(self, sampler: Sampler, columns: np.ndarray, n_classes: int) -> None:
        self.n_members = sampler.n_members
        self.weights = sampler.weights
        self._sampler = sampler
        self._columns = columns
        self._n_classes = n_classes

    def n_rows(self, X: Any) -> int | None:
        """Return the number of rows of X, or None if it is not known."""
        return self._sampler.n_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """Yield the chunks of the sampler, with all classes."""
        with closing(self._sampler.chunks(X, batch_size)) as chunks:
            for chunk in chunks:
                yield add_missing_classes(chunk, self._columns, self._n_classes)


def prepared_sampler(sampler: Sampler, prepare: Callable[[Any], Any]) -> Sampler:
    """Return the sampler for rows that are transformed first; a committee does so by chunks."""
    if not isinstance(sampler, CommitteeSampler):
        return PreparedSampler(sampler, prepare)
    committee = sampler.committee
    return CommitteeSampler(replace(committee, prepare=lambda X: committee.prepare(prepare(X))))


def committee_of(sampler: Sampler, classes: np.ndarray) -> Committee:
    """Return the members of any sampler as a committee."""
    if isinstance(sampler, CommitteeSampler):
        return sampler.committee

    def predict(X: Any) -> np.ndarray:
        with closing(sampler.chunks(X, None)) as chunks:
            return np.concatenate([chunk.copy() for chunk in chunks])

    return joint_committee(predict, sampler.n_members, classes, sampler.weights)


def joint_committee(
    predict: Callable[[Any], np.ndarray],
    n_members: int,
    classes: np.ndarray,
    weights: np.ndarray | None = None,
) -> Committee:
    """Return a committee from a function from rows to all members' probabilities ``(n, M, K)``.

    The preparation of rows computes them, and each member picks its part.
    """

    def pick(m: int, probs: np.ndarray) -> np.ndarray:
        return probs[:, m]

    members = (Member(f"member {m}", partial(pick, m)) for m in range(n_members))
    return Committee(tuple(members), classes, predict, weights)


def mean_of(sampler: Sampler, X: Any) -> np.ndarray:
    """Return θ̄ of all members ``(N, K)``, computed by chunks."""
    weights = sampler.weights

    def mean(chunk: np.ndarray) -> np.ndarray:
        if weights is None:
            return chunk.mean(axis=-2)
        return np.average(chunk, axis=-2, weights=weights)

    with closing(sampler.chunks(X, None)) as chunks:
        return np.concatenate([mean(chunk) for chunk in chunks])


# -- checks ---------------------------------------------------------------------------------------


def call_named(function: Callable[[Any], Any], rows: Any, name: str, start: int = 0) -> Any:
    """Return the function's result; errors name the member and the first row."""
    try:
        return function(rows)
    except InvalidInput as error:
        if start:
            raise InvalidInput(
                f"{error.problem} (in the rows from {start} on)", *error.remedies
            ) from error
        raise
    except ValueError as error:
        raise InvalidInput(f"{name} fails on X: {error}") from error
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise InvalidInput(f"{name} fails on X: {type(error).__name__}: {error}") from error


def _check_weights(weights: np.ndarray, n_members: int) -> None:
    """Raise unless the weights are one finite number per member, none negative, not all 0."""
    if weights.shape != (n_members,):
        raise InvalidInput(f"weights has shape {weights.shape}; it must be ({n_members},)")
    if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
        raise InvalidInput(
            f"the members have weights {weights.tolist()}; they must be finite, not negative and "
            "not all 0"
        )


def check_member(probs: np.ndarray, shape: tuple[int, ...], name: str, start: int) -> None:
    """Raise unless rows, of this shape, are distributions; the message names member and row.

    The shape is ``(n, K)``, or ``(n, L, 2)`` for several labels.
    """
    if probs.dtype.name not in SUM_TOLERANCE:
        raise InvalidInput(f"{name} returns dtype {probs.dtype}; probabilities are floats")
    if probs.shape != shape:
        n_rows, *labels, n_classes = shape
        of_labels = f", {labels[0]} labels" if labels else ""
        raise InvalidInput(
            f"{name} returns shape {probs.shape}; for {n_rows} rows{of_labels} and its {n_classes} "
            f"classes it must be {shape}"
        )
    with np.errstate(all="ignore"):
        sums = probs @ np.ones(shape[-1], probs.dtype)  # sum is slow over few classes
        is_right = np.abs(sums - 1) <= SUM_TOLERANCE[probs.dtype.name]
        if is_right.all() and probs.min(initial=0) >= 0:
            return
        wrong = ~(is_right & (probs.min(-1) >= 0))
    place = np.unravel_index(np.argmax(wrong), wrong.shape)
    row = probs[place]
    where = f"row {start + place[0]}" + "".join(f", label {j}" for j in place[1:])
    if not np.isfinite(row).all():
        k = int(np.argmax(~np.isfinite(row)))
        problem = f"returns {row[k]} for {where}, class {k}"
    elif (row < 0).any():
        k = int(np.argmax(row < 0))
        problem = f"returns {row[k]:.6g} for {where}, class {k}, which is negative"
    else:
        problem = f"returns probabilities for {where} that sum to {sums[place]:.9g}, not 1"
    raise InvalidInput(f"{name} {problem}; predict_proba must return probabilities")
