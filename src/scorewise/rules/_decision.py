"""Decision rules, H(p) = min_a ⟨c_a, p⟩: zero-one, top-k and cost matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Any, final

import numpy as np

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    Namespace,
    as_dtype_of,
    at_least,
    cached_property,
    difference,
    eps,
    has_fixed_shapes,
    is_frame,
    is_recorded,
    kth_largest,
    matmul,
    namespace,
    one_hot,
    plus,
    times,
    to_float64,
)
from scorewise._fields import class_text, names_classes
from scorewise._numerics import allowed_error, log1p_minus, polynomial
from scorewise._text import did_you_mean, quoted, quoted_names
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.rules._rule import (
    BY_LARGEST,
    DecisionRule,
    RuleBySum,
    ScoringRule,
    Unit,
    number_above,
    register,
)
from scorewise.rules.structures import Costs, LargestClasses

_EXACT_PARTS = 4  # of a block, as exact products need ten arrays of the size of its members
_MEAN_ERROR_UNITS = 64  # rounding errors of a mean's entries, relative, at most


def _excess(xp: Namespace, p: Array, q: Array) -> Array:
    """Return (p − q)⁺, exactly 0 where the two are equal, also for a compiler."""
    return at_least(xp, difference(xp, p, q), 0.0)


class _LargestClassesRule(RuleBySum, DecisionRule):
    """Rules that depend on whether the label is among the k largest classes.

    With t the k-th largest entry of p, the regret of choosing the set S is

        Σ_{j∉S} (p_j − t)⁺ + Σ_{j∈S} (t − p_j)⁺,

    a sum of terms that are never negative, and additive over members.
    """

    k: int
    is_symmetric = True

    @property
    def unit(self) -> Unit:
        return Unit(f"top-{self.k} error", is_proportion=True)

    def check_classes(self, n_classes: int) -> None:
        if self.k > n_classes:
            raise InvalidInput(f"{self!r} needs at least {self.k} classes, not {n_classes}")

    def _largest_loss(self, corners: np.ndarray) -> float:
        return 1.0 if self.k < len(corners) else 0.0

    def total_order(self, n_classes: int) -> Hashable | None:
        return BY_LARGEST if self.k == 1 else None  # with k = K = 2 all totals are 0

    def _is_chosen(self, xp: Namespace, p: Array) -> Array:
        """Return which entries are the k largest, ``(..., K)``; ties go to the first index."""
        if self.k == 1:
            return one_hot(xp, xp.argmax(p, axis=-1), p.shape[-1])
        order = xp.argsort(p, axis=-1, descending=True, stable=True)
        return xp.argsort(order, axis=-1, stable=True) < self.k

    def _losses(self, xp: Namespace, p: Array) -> Array:
        return xp.astype(~self._is_chosen(xp, p), p.dtype)

    def _entropy_by_sum(self, xp: Namespace, p: Array, total: Array) -> Array:
        if self.k == 1:
            return total - xp.max(p, axis=-1)
        threshold = kth_largest(xp, p, self.k)
        others = xp.sum(xp.where(p < threshold, p, 0.0), axis=-1)
        n_tied = xp.sum(xp.astype(p >= threshold, p.dtype), axis=-1) - self.k
        return others + n_tied * threshold[..., 0]

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> float:
        return unit

    def _epistemic(self, xp: Namespace, samples: Samples) -> Array:
        p, mean = samples.probs, samples.plain_mean
        if self.k == 1 or p.ndim == 2 or is_recorded(p) or has_fixed_shapes(p):
            return super()._epistemic(xp, samples)
        # The k largest classes of the mean are the best choice, unless rounding decides which.
        lowest = kth_largest(xp, mean, self.k)
        next_lower = kth_largest(xp, mean, min(self.k + 1, p.shape[-1]))
        is_open = (lowest - next_lower <= _MEAN_ERROR_UNITS * eps(xp, mean) * lowest)[..., 0]
        epistemic = self._mean_regret(xp, samples, mean >= lowest)
        if bool(xp.any(is_open)):
            epistemic[is_open] = super()._epistemic(xp, samples.where(is_open))
        return epistemic

    def _epistemic_of(
        self, xp: Namespace, samples: Samples, q: Array, epistemic: Callable[[], Array]
    ) -> Array:
        return self._mean_regret(xp, samples, self._is_chosen(xp, q))

    def _mean_regret(self, xp: Namespace, samples: Samples, chosen: Array) -> Array:
        """Return the mean regret of the same k classes, ``(..., K)``, for all members."""
        p = samples.probs
        side = 1 - 2 * xp.astype(chosen, p.dtype)[..., None, :]
        excess = times(difference(xp, p, self._threshold(xp, p)), side)
        return samples.average(xp.sum(at_least(xp, excess, 0.0), axis=-1))

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return self._regret_of_choice(xp, self._regret(xp, p), self._is_chosen(xp, q))

    def _threshold(self, xp: Namespace, p: Array) -> Array:
        """Return the k-th largest entry, ``(..., 1)``."""
        return xp.max(p, axis=-1, keepdims=True) if self.k == 1 else kth_largest(xp, p, self.k)

    def _regret(self, xp: Namespace, p: Array) -> Array:
        threshold = self._threshold(xp, p)
        if self.k == 1:
            return _excess(xp, threshold, p)
        return xp.concat([_excess(xp, threshold, p), _excess(xp, p, threshold)], axis=-1)

    def _least_regret(self, xp: Namespace, mean_regret: Array) -> Array:
        if self.k == 1:
            return xp.min(mean_regret, axis=-1)
        n = mean_regret.shape[-1] // 2
        gain = mean_regret[..., n:] - mean_regret[..., :n]
        return self._regret_of_choice(xp, mean_regret, self._is_chosen(xp, gain))

    def _regret_of_choice(self, xp: Namespace, regret: Array, chosen: Array) -> Array:
        """The regret of a choice: chosen classes below the threshold, and others above it."""
        if self.k == 1:
            return xp.sum(xp.where(chosen, regret, 0.0), axis=-1)
        n = regret.shape[-1] // 2
        return xp.sum(xp.where(chosen, regret[..., :n], regret[..., n:]), axis=-1)

    def _dirichlet_total(self, xp: Namespace, q: Dirichlet) -> Array:
        others = xp.sort(q.alpha, axis=-1)[..., : q.n_classes - self.k]
        return xp.sum(others, axis=-1) / q.concentration

    def _dirichlet_excess(self, xp: Namespace, q: Dirichlet, p: Array) -> Array:
        # regrets of α, not of θ̄, which is rounded
        return self._divergence(xp, p, q.alpha, q.alpha) / q.concentration

    def _dirichlet_parts(
        self, xp: Namespace, q: Dirichlet, total: Array
    ) -> tuple[Array, Array, None]:
        parts = q.integrate(lambda alpha: _expected_parts(alpha, self.k))
        return parts[..., 0], parts[..., 1], None


@final
@dataclass(frozen=True, eq=False, repr=False)
class ZeroOne(_LargestClassesRule):
    """ℓ(p, y) = 1 − [argmax p = y]: 1 if the label is wrong.

    Use its total uncertainty to abstain when you care about errors, its epistemic uncertainty to
    choose what to label next. Proper, but not strictly: EU is 0 where all members prefer the same
    class.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.zero_one.loss([[0.6, 0.4], [0.1, 0.9]], [1, 1])
    array([1., 0.])
    """

    family = "zero_one"
    k = 1
    structure = LargestClasses(1)

    @property
    def unit(self) -> Unit:
        return Unit("error", is_proportion=True)


@final
@dataclass(frozen=True, eq=False, repr=False)
class TopK(_LargestClassesRule):
    """See :func:`top_k`."""

    k: int
    family = "top_k"

    @cached_property
    def structure(self) -> LargestClasses:  # type: ignore[override]
        return LargestClasses(self.k)

    def __post_init__(self) -> None:
        k = number_above(0, self.k, "k of top_k")
        if isinstance(self.k, bool) or k != int(k):
            raise InvalidInput(f"k of top_k must be a whole number from 1 on, not {quoted(self.k)}")
        object.__setattr__(self, "k", int(k))


@final
@dataclass(frozen=True, eq=False, repr=False)
class CostMatrix(DecisionRule):
    """A rule of costs by class and action, which :func:`scorewise.rules.cost_matrix` makes.

    Parameters
    ----------
    costs : array (K, A) or data frame
        ``costs[y, a]`` is the cost of action ``a`` when ``y`` is true.
    actions : sequence of str, optional
        Names of the actions, stored as a tuple.
    class_names : sequence, optional
        The classes of the rows, stored as a tuple.
    rows_in_order : bool
        Whether rows without names are in the order of the classes although the actions are not.

    Examples
    --------
    >>> import scorewise as sw
    >>> rule = sw.rules.cost_matrix([[0, 5], [50, 0]], ["dismiss", "treat"])
    >>> isinstance(rule, sw.rules.CostMatrix), rule.actions
    (True, ('dismiss', 'treat'))
    """

    costs: np.ndarray  # from any array or data frame
    actions: Sequence[str] | None = None  # stored as a tuple
    class_names: Sequence[str] | None = None  # of the rows, stored as a tuple
    rows_in_order: bool = False
    family = "cost_matrix"

    def __post_init__(self) -> None:
        columns, index = None, None
        values: Any = self.costs
        if is_frame(values):
            values, columns, index = _read_frame(values)
        costs = validate.read_only_array(values, "the cost matrix", ndim=2)
        if costs.shape[0] < 2 or costs.shape[1] < 1:
            raise InvalidInput(
                f"the cost matrix has shape {costs.shape}; it needs a row for each of K ≥ 2 "
                "classes and a column for each action"
            )
        rows = _checked_names(index, len(costs), "class", "classes")
        class_names = _checked_names(self.class_names, len(costs), "class", "classes")
        if rows is not None and class_names is not None and rows != class_names:
            raise InvalidInput(
                f"the rows of the costs are for the classes {quoted_names(rows)}, and class_names "
                f"are {quoted_names(class_names)}; name the classes once"
            )
        class_names = class_names or rows
        actions = columns if self.actions is None else self.actions
        if actions is None and costs.shape[0] == costs.shape[1]:
            actions = class_names  # each action predicts a class
        actions = _checked_names(actions, costs.shape[1], "action", "actions")
        for name, value in (("costs", costs), ("actions", actions), ("class_names", class_names)):
            object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        return "cost-matrix"

    @property
    def unit(self) -> Unit:
        return Unit("cost")

    def _largest_loss(self, corners: np.ndarray) -> float:
        return float(np.max(self.costs))

    def n_predictions(self, n_classes: int) -> int:
        return int(self.costs.shape[1])

    def prediction_names(self, class_names: Sequence[str]) -> tuple[str, ...]:
        if self.actions is not None:
            return tuple(self.actions)
        n = self.costs.shape[1]
        return tuple(class_names) if len(class_names) == n else tuple(map(str, range(n)))

    @property
    def never_negative(self) -> bool:  # type: ignore[override]
        """Whether no cost is negative."""
        return bool((self.costs >= 0).all())

    def _parameters(self) -> tuple[Any, ...]:
        if self.rows_in_order:
            return self.costs, self.actions, self.class_names, True
        if self.class_names is not None:
            return self.costs, self.actions, self.class_names
        return (self.costs,) if self.actions is None else (self.costs, self.actions)

    def to_json(self) -> str | dict[str, Any]:
        content = super().to_json()
        for name in ("class_names", "rows_in_order"):
            if not getattr(self, name):  # a policy of an earlier version has no such field
                del content[name]  # type: ignore[union-attr]
        return content

    def check_classes(self, n_classes: int) -> None:
        if self.class_names is not None and self.class_names != _numbers(len(self.costs)):
            raise InvalidInput(
                f"the costs name their classes, such as {quoted(self.class_names[0])}, and here "
                "the order of the classes is not known; pass rule.for_classes(names), with the "
                "names in the order of the predictions"
            )
        validate.same_classes(n_classes, len(self.costs), "this cost matrix")

    def for_classes(self, classes: Iterable[Any] | None) -> CostMatrix:
        labels = None if classes is None else [class_text(label) for label in classes]
        actions = [action for action in self.actions or () if action in (labels or ())]
        are_permuted = labels is not None and actions != labels and set(actions) == set(labels)
        if self.class_names is not None:
            names = self._names_in_order(labels)
            costs = self.costs[[self.class_names.index(name) for name in names]]
            return CostMatrix(costs, self.actions, rows_in_order=are_permuted)
        if are_permuted and not self.rows_in_order:
            raise InvalidInput(
                f"the actions of the costs are the classes in another order, "
                f"{quoted_names(actions)}, and the rows have no names, so that their order is not "
                "known; name the class of each row (in class_names of cost_matrix, the index of a "
                "data frame or the first column of a file), or pass rows and columns in the order "
                f"of the classes, {quoted_names(labels or ())}"
            )
        return self

    def _names_in_order(self, labels: list[str] | None) -> Sequence[str]:
        """Return the names of the rows in the order of the classes, or their numbers from 0."""
        names = self.class_names or ()
        numbers = _numbers(len(names))
        if set(names) == set(numbers) and not set(names) & set(labels or ()):
            validate.same_classes(len(labels or names), len(names), "this cost matrix")
            return numbers
        if labels is None:
            raise InvalidInput(
                f"the costs name their classes, such as {quoted(names[0])}, and the predictions do "
                "not",
                Remedy("class_names", ..., "the names in the order of the predictions"),
            )
        unknown = next((name for name in names if name not in labels), None)
        if unknown is not None:
            hint = did_you_mean(unknown, labels)
            if set(labels) == set(self.actions or ()):
                hint = "rows are classes and columns actions: transpose the costs; "
            raise InvalidInput(
                f"the costs have a row for {quoted(unknown)}, and there is no such class; {hint}"
                f"the classes are {quoted_names(labels)}"
            )
        missing = next((label for label in labels if label not in names), None)
        if missing is not None:
            raise InvalidInput(f"the costs have no row for the class {quoted(missing)}")
        return labels

    @cached_property
    def structure(self) -> Costs:  # type: ignore[override]
        """The form of its entropy, by which kernels compute it."""
        return Costs(self.costs)

    @cached_property
    def _excess_costs(self) -> np.ndarray:
        """The excess cost of each action over the best action for the class."""
        return np.asarray(self.costs - self.costs.min(axis=1, keepdims=True))

    def _epistemic(self, xp: Namespace, samples: Samples) -> Array:
        return self._mean_regret(xp, samples)

    def _epistemic_of(
        self, xp: Namespace, samples: Samples, q: Array, epistemic: Callable[[], Array]
    ) -> Array:
        return self._mean_regret(xp, samples, self._predict(xp, q))

    def _mean_regret(self, xp: Namespace, samples: Samples, *action: Array) -> Array:
        """Return the mean regret of an action ``(...)``, or of the best one if none is passed."""
        arrays = (samples.probs, *action)
        if any(map(is_recorded, arrays)) or has_fixed_shapes(samples.probs):
            return self._exact_mean_regret(xp, samples, *action)
        # Most rows need no exact products: their members agree, or EU is much larger than rounding.
        mean_regret, is_open = self._rounded_mean_regret(xp, samples, *action)
        if not bool(xp.any(is_open)):
            return mean_regret
        rows = samples
        if not bool(xp.all(is_open)):
            rows, action = samples.where(is_open), tuple(a[is_open] for a in action)
        [exact] = rows.by_blocks(
            lambda block, *action: [self._exact_mean_regret(xp, block, *action)],
            *action,
            parts=_EXACT_PARTS,
        )
        if rows is samples:
            return exact
        mean_regret[is_open] = exact
        return mean_regret

    def _exact_mean_regret(self, xp: Namespace, samples: Samples, *action: Array) -> Array:
        return self._regret_of(xp, samples.average(self._regret(xp, samples.probs)), *action)

    def _regret_of(self, xp: Namespace, regret: Array, *action: Array) -> Array:
        """Return of regrets ``(..., A)`` that of an action, or the least if none is passed."""
        if not action:
            return xp.min(regret, axis=-1)
        return xp.take_along_axis(regret, action[0][..., None], axis=-1)[..., 0]

    def _rounded_mean_regret(
        self, xp: Namespace, samples: Samples, *action: Array
    ) -> tuple[Array, Array]:
        """Return the mean regret by plain products, and whether it may lack digits."""
        regret, errors = self._rounded_regret(xp, samples.probs)
        mean_regret = self._regret_of(xp, samples.average(regret), *action)
        error = samples.average(xp.max(errors, axis=-1))
        may_be_best = xp.min(plus(regret, times(errors, -1.0)), axis=-2) <= 0  # of a member
        n_best = xp.sum(xp.astype(may_be_best, xp.int32), axis=-1)
        agree = (mean_regret == 0) & (n_best == 1)
        is_open = ~(agree | (mean_regret > error / allowed_error(xp, samples.probs)))
        return xp.astype(mean_regret, samples.probs.dtype), is_open

    def _rounded_regret(self, xp: Namespace, p: Array) -> tuple[Array, Array]:
        """Return regrets in float64, ``(..., A)``, and how far from the exact ones they may be."""
        wide = to_float64(xp, p)
        expected = matmul(xp, wide, as_dtype_of(xp, self._excess_costs, wide))
        del wide  # its memory is free for what follows
        lowest = xp.min(expected, axis=-1, keepdims=True)
        regret = expected - lowest
        return regret, times(plus(expected, lowest), (4 + p.shape[-1]) * eps(xp, expected))

    def _regret(self, xp: Namespace, p: Array) -> Array:
        wide = to_float64(xp, p)
        expected = matmul(xp, wide, as_dtype_of(xp, self._excess_costs, wide))
        best = one_hot(xp, xp.argmin(expected, axis=-1), expected.shape[-1])
        regret = 0.0 * expected
        for cost in self._expected_parts(xp, wide):
            regret = regret + (cost - xp.sum(xp.where(best, cost, 0.0), axis=-1, keepdims=True))
        regret = regret - xp.min(regret, axis=-1, keepdims=True)
        # Costs that differ by less than their own rounding errors are tied, so that equal rows
        # lead to the same action however a library orders the sums of a matrix product.
        tolerance = (4 + p.shape[-1]) * eps(xp, wide) * 2.0 ** (4 - 2 * _slice_bits(xp, wide))
        tied = regret <= tolerance * (expected + xp.min(expected, axis=-1, keepdims=True))
        return xp.astype(xp.where(tied, 0.0, regret), p.dtype)

    def _expected_parts(self, xp: Namespace, p: Array) -> tuple[Array, Array, Array]:
        """Return pᵀC as a sum of three parts, ``(..., A)``, of which the first two are exact.

        Both factors are cut into slices of few bits, whose products and sums lose nothing, so the
        small difference of two large expected costs keeps its digits.
        """
        scale = 2.0 ** math.ceil(math.log2(max(float(np.abs(self.costs).max()), 1e-300)))
        a, b, c = _slices(xp, p)
        x, y, z = (scale * s for s in _slices(xp, as_dtype_of(xp, self.costs / scale, p)))
        return (
            matmul(xp, a, x),
            matmul(xp, a, y) + matmul(xp, b, x),
            matmul(xp, b, y) + matmul(xp, a + b, z) + matmul(xp, c, x + y + z),
        )

    def _least_regret(self, xp: Namespace, mean_regret: Array) -> Array:
        return self._regret_of(xp, mean_regret)

    def action_of_members(self, samples: Samples) -> Array:
        """Return a*(θ̄), ``(...)``, the first of the actions with the least mean regret.

        Actions that are tied for every member stay tied despite the rounding of the mean.

        Parameters
        ----------
        samples : Samples (..., M, K)

        Returns
        -------
        integer array (...)

        Examples
        --------
        >>> import scorewise as sw
        >>> members = sw.Samples([[[0.99, 0.01], [0.9, 0.1]], [[0.6, 0.4], [1.0, 0.0]]])
        >>> sw.rules.cost_matrix([[0, 1], [10, 0]]).action_of_members(members)
        array([0, 1])
        """
        xp = namespace(samples.probs)

        def first_best(block: Samples) -> list[Array]:
            regret = block.average(self._regret(xp, block.probs))
            excess = regret - xp.min(regret, axis=-1, keepdims=True)
            is_best = excess <= 4 * eps(xp, regret) * regret
            return [xp.argmax(xp.astype(is_best, xp.int8), axis=-1)]

        return samples.by_blocks(first_best)[0]

    def _predict(self, xp: Namespace, p: Array) -> Array:
        """Return a*(p), the first of the cheapest actions."""
        return xp.argmin(self._regret(xp, p), axis=-1)

    def _losses(self, xp: Namespace, p: Array) -> Array:
        by_action = as_dtype_of(xp, np.ascontiguousarray(self.costs.T), p)
        action = self._predict(xp, p)
        rows = xp.take(by_action, xp.reshape(action, (-1,)), axis=0)
        return xp.reshape(rows, p.shape)

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        return xp.min(matmul(xp, p, as_dtype_of(xp, self.costs, p)), axis=-1)

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> float:
        return unit * float(np.abs(self.costs).max())

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        return self._regret_of(xp, self._regret(xp, p), self._predict(xp, q))

    def _dirichlet_parts(
        self, xp: Namespace, q: Dirichlet, total: Array
    ) -> tuple[Array, Array, Array | None]:
        def regret_and_hit(theta: Array, center: Array) -> Array:
            regret = self._regret(xp, theta)
            return xp.concat([regret, xp.astype(regret > 0, regret.dtype)], axis=-1)

        n = self.costs.shape[1]
        means, errors = q.estimate(regret_and_hit)
        best = one_hot(xp, xp.argmin(means[..., :n], axis=-1), n)

        def of_best(values: Array) -> Array:
            return xp.sum(xp.where(best, values, 0.0), axis=-1)

        epistemic, error = of_best(means[..., :n]), of_best(errors[..., :n])
        hits = of_best(means[..., n:])
        # Where few draws have any regret, the next draw might have the largest.
        next_draw = of_best(as_dtype_of(xp, self._excess_costs.max(axis=0) / q.n_draws, means))
        error = error + xp.where(hits * q.n_draws < 50, next_draw, 0.0)
        return self._without(xp, total, epistemic), epistemic, error


def _read_frame(frame: Any) -> tuple[Any, list[Any] | None, list[str] | None]:
    """Return the costs of a data frame, the names of its columns, and the classes of its rows.

    The classes are in its index, or in its first column. Names are None where they are numbers
    that the library gave: 0, 1, … in order. Where the columns are these numbers in another order,
    those of the index are names too.
    """
    values = np.asarray(frame.to_numpy())
    columns, n = list(frame.columns), len(values)
    actions = None if _are_positions(columns) else columns
    index = getattr(frame, "index", range(n))
    classes: list[str] | None = [class_text(label) for label in index]
    if _are_positions(list(index)):
        if columns and names_classes(columns[0], values[:, 0].tolist()):
            classes = [class_text(label) for label in values[:, 0]]
            values, actions = values[:, 1:], actions and actions[1:]
        elif hasattr(index, "start") and (actions is None or not _are_numbers(columns)):
            classes = None  # a range, which pandas gives to rows without names
    elif _are_numbers(list(index)):
        actions = columns
    if values.dtype == object:  # columns of several types
        values = np.array(values.tolist())
    return values, actions, classes


def _are_positions(labels: list[Any]) -> bool:
    """Return whether labels are 0, 1, …, as a library numbers what has no names."""
    has_bools = any(isinstance(label, bool | np.bool_) for label in labels)
    return labels == list(range(len(labels))) and not has_bools


def _are_numbers(labels: list[Any]) -> bool:
    """Return whether labels are the integers 0, 1, … in any order."""
    return all(isinstance(label, Integral) for label in labels) and _are_positions(sorted(labels))


def _numbers(n: int) -> tuple[str, ...]:
    """Return the numbers of n classes as text."""
    return tuple(map(str, range(n)))


def _checked_names(names: Any, n: int, singular: str, plural: str) -> tuple[str, ...] | None:
    """Return the names of rows or columns of a cost matrix, all different."""
    if names is None:
        return None
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InvalidInput(f"{quoted(names)} must be a sequence of names, one per {singular}")
    texts = tuple(class_text(name) for name in names)
    if len(texts) != n:
        raise InvalidInput(f"{len(texts)} {singular} names for {n} {plural}")
    duplicate = validate.first_repeated(texts)
    if duplicate is not None:
        raise InvalidInput(
            f"two {plural} are called {quoted(duplicate)}; give each a different name"
        )
    return texts


def _slice_bits(xp: Namespace, x: Array) -> int:
    """Return how many bits a slice has, so that sums of products of two slices are exact."""
    return 20 if eps(xp, x) < 1e-10 else 8


def _slices(xp: Namespace, x: Array) -> tuple[Array, Array, Array]:
    """Return x, at most 1 in size, as two slices and a remainder."""
    unit = 2.0 ** _slice_bits(xp, x)
    first = xp.round(x * unit) / unit
    second = xp.round((x - first) * unit * unit) / (unit * unit)
    return first, second, x - first - second


zero_one = register(ZeroOne())


@register
def top_k(k: int) -> ScoringRule:
    """Return the rule ℓ(p, y) = 1 − [y among the k largest of p]: 1 if y is not in a short list.

    H(p) = 1 − Σ of the k largest; D(q, p) = Σ of the k largest of p − Σ_{j∈top-k(q)} p_j.

    Parameters
    ----------
    k : int
        Length of the list.

    Returns
    -------
    ScoringRule

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.rules.top_k(2).loss_vector([0.5, 0.1, 0.4])
    array([0., 1., 0.])
    """
    return TopK(k)


@register
def cost_matrix(
    costs: Any,
    actions: Sequence[str] | None = None,
    class_names: Sequence[Any] | None = None,
    rows_in_order: bool = False,
) -> ScoringRule:
    """Return the rule ℓ(p, y) = C[y, a*(p)], with a*(p) the action of least expected cost.

    H(p) = min_a (pᵀC)_a, and EU is the expected value of perfect information about θ. An abstain
    or defer action is just another column. Every argument that takes a rule also takes the costs
    alone, as a list of lists, an array or a data frame.

    Parameters
    ----------
    costs : array (K, A) or data frame
        ``costs[y, a]`` is the cost of action ``a`` when ``y`` is true, for any number of actions.
        Negative costs (gains) are accepted: every law holds for them, only totals may then be
        negative. Infinite costs and NaN raise, because ∞ − ∞ would leave EU undefined;
        forbid an action with a cost that is large and finite. The columns of a data frame are the
        names of the actions. Its index, or a first column of names, has the classes.
    actions : sequence of str, optional
        Names of the actions.
    class_names : sequence, optional
        The classes of the rows. Rows are then put in the order of the classes of the predictions,
        by name, and predictions whose classes are not known are refused. Without names, rows are
        in the order of the classes; where the actions are the classes in another order, that is
        not certain, and the matrix is refused.
    rows_in_order : bool
        Whether rows without names are in the order of the classes although the actions are not.

    Returns
    -------
    ScoringRule

    Raises
    ------
    InvalidInput
        If a cost is not a finite number, or the names do not fit.

    Examples
    --------
    >>> import scorewise as sw
    >>> triage = sw.rules.cost_matrix([[0, 5, 1], [50, 0, 1]], ["dismiss", "treat", "refer"])
    >>> triage.entropy([[0.99, 0.01], [0.9, 0.1]])
    array([0.5, 1. ])

    A data frame is read by its names, whatever the order of its rows:

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"dismiss": [50, 0], "treat": [0, 5]}, index=["ill", "healthy"])
    >>> samples = sw.Samples([[[0.99, 0.01], [0.97, 0.03]]], class_names=["healthy", "ill"])
    >>> sw.decide(samples, frame)
    action   rows  cost  aleatoric  epistemic
    dismiss     1     1          1          0
    """
    return CostMatrix(costs, actions, class_names, rows_in_order)


# -- top-k under a Dirichlet -----------------------------------------------------------------------

_STEP = 1 / 12  # of √x, in which every gamma distribution is about ½ wide
_BLOCK_ELEMENTS = 1 << 20


def _expected_parts(alpha: np.ndarray, k: int) -> np.ndarray:
    """Return AU and EU of top-k, ``(..., 2)``, for θ ~ Dirichlet(α ``(..., K)``).

    EU is E[Σ k largest of θ − Σ_{j∈S} θ_j], with S the k largest α. θ is a vector of independent
    gammas G_j divided by their independent sum, so with B the number of j ∈ S below x and A the
    number of j ∉ S above x the regret is (1/α₀)∫ E min(A, B) dx, and E min(A, B) is
    Σ_{i=1..k} P(A ≥ i)·P(B ≥ i). AU is TU − EU, or where EU is most of TU, (1/α₀)∫ E (N − k)⁺ dx
    with N the number of all j above x. All terms are positive; nothing cancels.
    """
    rows = alpha.reshape(-1, alpha.shape[-1])
    ordered = -np.sort(-rows, axis=-1)
    result = np.zeros((len(rows), 2))
    if k < rows.shape[-1]:
        pivot = ordered[:, k - 1]
        for grid, chosen in ((_near_pivot, pivot >= 100), (_from_zero, pivot < 100)):
            index = np.flatnonzero(chosen)
            nodes = len(grid(pivot[index[:1]])[0][0]) if len(index) else 1
            size = max(1, _BLOCK_ELEMENTS // (nodes * rows.shape[-1]))
            for start in range(0, len(index), size):
                block = index[start : start + size]
                result[block] = _integrated_parts(ordered[block], *grid(pivot[block]), k)
    return result.reshape((*alpha.shape[:-1], 2))


def _integrated_parts(
    alpha: np.ndarray, x: np.ndarray, beyond: np.ndarray, dx: np.ndarray, k: int
) -> np.ndarray:
    """Return AU and EU, ``(B, 2)``, for sorted parameters ``(B, K)`` at nodes ``(B, J)``."""
    concentration = alpha.sum(axis=-1)
    # x − α_j is more accurate than x, which matters where α is large
    gap = beyond[..., None] + (alpha[:, k - 1, None] - alpha)[:, None, :]
    nodes = np.stack(np.broadcast_arrays(alpha[:, None, :], x[..., None], gap))
    below = _gamma_tail(*nodes[..., :k], upper=False)
    above = _gamma_tail(*nodes[..., k:], upper=True)
    overlap = (_at_least(below, k) * _at_least(above, k)).sum(axis=-1)
    epistemic = (overlap * dx).sum(axis=-1) / concentration
    aleatoric = alpha[:, k:].sum(axis=-1) / concentration - epistemic
    direct = np.flatnonzero(aleatoric < epistemic)
    if len(direct):
        first = _gamma_tail(*nodes[:, direct, :, :k], upper=True)
        surplus = _expected_surplus(np.concatenate([first, above[direct]], axis=-1), k)
        aleatoric[direct] = (surplus * dx[direct]).sum(axis=-1) / concentration[direct]
    return np.stack([aleatoric, epistemic], axis=-1)


def _near_pivot(pivot: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return trapezoid nodes x, x − pivot and weights for a large pivot: even steps of √x.

    Below √pivot − 10 no class of S is left under x, above √pivot + 8 no other class is over it
    (to within 1e-40).
    """
    root = np.sqrt(pivot)[:, None]
    step = np.maximum(np.arange(-120, 96) * _STEP, -root)
    return (root + step) ** 2, step * (2 * root + step), 2 * (root + step) * _STEP


def _from_zero(pivot: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for a small pivot, whose integrand x^α meets 0: x = exp(2t − 2exp(−t))."""
    step = _STEP / 4
    t = np.arange(-432, 140) * step
    x = np.exp(2 * t - 2 * np.exp(-t))
    beyond = x - pivot[:, None]
    x, dx = (np.broadcast_to(y, beyond.shape) for y in (x, x * (2 + 2 * np.exp(-t)) * step))
    return x, beyond, dx


def _gamma_tail(a: np.ndarray, x: np.ndarray, gap: np.ndarray, *, upper: bool) -> np.ndarray:
    """Return P(G > x) or P(G ≤ x) for G ~ Gamma(a), to a few units of rounding; gap is x − a.

    For large a, where scipy loses digits, by Temme's uniform expansion: with ½η² = μ − log(1 + μ)
    and μ = gap/a, it is ½erfc(±η√(a/2)) ± e^{−aη²/2}/√(2πa)·Σ_k c_k(η)a^{−k}.
    """
    from scipy.special import erfc, gammainc, gammaincc

    large = a >= 1000
    tail = (gammaincc if upper else gammainc)(np.where(large, 1.0, a), x)
    if large.any():
        a, mu = a[large], np.maximum(gap[large] / a[large], -0.9)
        half = -log1p_minus(np, mu)  # η²/2
        eta = np.sign(mu) * np.sqrt(2 * half)
        side = 1.0 if upper else -1.0
        near = np.clip(eta, -0.5, 0.5)  # beyond, the correction vanishes
        series = polynomial(1 / a, [polynomial(near, c) for c in _temme_coefficients()])
        edge = np.exp(-a * half) / np.sqrt(2 * np.pi * a) * series
        tail[large] = erfc(side * eta * np.sqrt(a / 2)) / 2 + side * edge
    return np.asarray(np.clip(tail, 0.0, 1.0))


@lru_cache
def _temme_coefficients(orders: int = 5, terms: int = 16) -> tuple[tuple[float, ...], ...]:
    """Return coefficients of c_k(η) in powers of η (Temme 1979; DLMF 8.12)."""
    n = terms + 2 * orders
    inverse = [0.0, 1.0]  # of 1 + μ in powers of η
    for i in range(2, n + 2):
        products = sum(j * inverse[j] * inverse[i - j + 1] for j in range(2, i))
        inverse.append((inverse[i - 1] - products) / (i + 1))
    first = [-1 / 3] + [(i + 2) * inverse[i + 2] for i in range(1, n)]
    stirling = [1.0, 1 / 12, 1 / 288, -139 / 51840, -571 / 2488320]
    by_order = [first]
    for k in range(1, orders):
        before = by_order[-1]
        by_order.append(
            [(-1) ** k * stirling[k] * first[i] + (i + 2) * before[i + 2] for i in range(n - 2 * k)]
        )
    return tuple(tuple(c[:terms]) for c in by_order)


def _at_least(chances: np.ndarray, k: int) -> np.ndarray:
    """Return P(N ≥ i), i = 1..k, for N the number of successes with these chances (last axis)."""
    if k == 1:
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(np.log1p(-chances).sum(axis=-1, keepdims=True)))
    *_, counts = _counts(chances, k)
    return np.cumsum(counts[..., :0:-1], axis=-1)[..., ::-1]


def _expected_surplus(chances: np.ndarray, k: int) -> np.ndarray:
    """Return E (N − k)⁺: a success adds 1 to it if there were k before."""
    surplus = np.zeros(chances.shape[:-1])
    for j, counts in zip(range(chances.shape[-1]), _counts(chances, k), strict=False):
        surplus += chances[..., j] * counts[..., k]
    return surplus


def _counts(chances: np.ndarray, k: int) -> Iterator[np.ndarray]:
    """Yield P(N = 0), …, P(N = k − 1), P(N ≥ k) for the first 0, 1, … of these chances.

    It is the same array each time.
    """
    counts = np.zeros((*chances.shape[:-1], k + 1))
    counts[..., 0] = 1
    yield counts
    for j in range(chances.shape[-1]):
        c = chances[..., j, None]
        moved = counts[..., :-1] * c
        counts[..., :-1] *= 1 - c
        counts[..., 1:] += moved
        yield counts
