"""A cost matrix: uncertainty in the money, time or harm that a decision costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, Namespace, as_dtype_of, eps, matmul, namespace, one_hot, widest
from scorewise._simulation import N_DRAWS
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.rules._rule import DecisionRule, ScoringRule, frozen_array, register


@final
@dataclass(frozen=True, eq=False, repr=False)
class CostMatrix(DecisionRule):
    """See :func:`cost_matrix`."""

    costs: np.ndarray
    actions: Sequence[str] | None = None  # kept as a tuple
    family = "cost_matrix"

    def __post_init__(self) -> None:
        costs = frozen_array(self.costs, "the cost matrix", ndim=2)
        if costs.shape[0] < 2 or costs.shape[1] < 1:
            raise InvalidInput(
                f"the cost matrix has shape {costs.shape}; it needs a row for each of K ≥ 2 "
                "classes and a column for each action"
            )
        object.__setattr__(self, "costs", costs)
        if self.actions is not None:
            if isinstance(self.actions, str | bytes) or not isinstance(self.actions, Iterable):
                raise InvalidInput(f"{self.actions!r} must be a sequence of names, one per action")
            actions = tuple(str(a) for a in self.actions)
            if len(actions) != costs.shape[1]:
                raise InvalidInput(f"{len(actions)} action names for {costs.shape[1]} actions")
            twice = next((a for i, a in enumerate(actions) if a in actions[:i]), None)
            if twice is not None:
                raise InvalidInput(f"two actions are called {twice!r}; give each a name of its own")
            object.__setattr__(self, "actions", actions)

    @property
    def name(self) -> str:
        return "cost-matrix"

    @property
    def never_negative(self) -> bool:  # type: ignore[override]
        """Whether no cost is negative."""
        return bool((self.costs >= 0).all())

    def _parameters(self) -> tuple[Any, ...]:
        return (self.costs,) if self.actions is None else (self.costs, self.actions)

    def check_classes(self, n_classes: int) -> None:
        validate.same_classes(n_classes, len(self.costs), "this cost matrix")

    @cached_property
    def _opportunity(self) -> np.ndarray:
        """What each action costs beyond the best action for the class: the same regrets."""
        return np.asarray(self.costs - self.costs.min(axis=1, keepdims=True))

    def _regret(self, xp: Namespace, p: Array) -> Array:
        wide = widest(xp, p)
        expected = matmul(xp, wide, as_dtype_of(xp, self._opportunity, wide))
        best = one_hot(xp, xp.argmin(expected, axis=-1), expected.shape[-1])
        regret = 0.0 * expected
        for cost in self._expected_parts(xp, wide):
            regret = regret + (cost - xp.sum(xp.where(best, cost, 0.0), axis=-1, keepdims=True))
        regret = regret - xp.min(regret, axis=-1, keepdims=True)
        # Costs that differ by less than their own rounding errors are tied, so that equal rows
        # decide alike however a library orders the sums of a matrix product.
        unit = (4 + p.shape[-1]) * eps(xp, wide) * 2.0 ** (4 - 2 * _slice_bits(xp, wide))
        tied = regret <= unit * (expected + xp.min(expected, axis=-1, keepdims=True))
        return xp.astype(xp.where(tied, 0.0, regret), p.dtype)

    def _expected_parts(self, xp: Namespace, p: Array) -> tuple[Array, Array, Array]:
        """pᵀC as a sum of three parts, ``(..., A)``, of which the first two are exact.

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
        return xp.min(mean_regret, axis=-1)

    def action(self, p: Any) -> Array:
        """a*(p), the index of the least costly action, ``(...)``.

        Parameters
        ----------
        p : array (..., K)

        Examples
        --------
        >>> import scorewise as sw
        >>> sw.rules.cost_matrix([[0, 1], [10, 0]]).action([[0.95, 0.05], [0.8, 0.2]])
        array([0, 1])
        """
        xp, p = self._admit(p)
        return self._action(xp, p)

    def action_of_members(self, samples: Samples) -> Array:
        """a*(θ̄), ``(...)``, the first of those whose regret is least over the members.

        What ties for every member is tied, though the mean was rounded.

        Examples
        --------
        >>> import scorewise as sw
        >>> members = sw.Samples([[[0.99, 0.01], [0.9, 0.1]], [[0.6, 0.4], [1.0, 0.0]]])
        >>> sw.rules.cost_matrix([[0, 1], [10, 0]]).action_of_members(members)
        array([0, 1])
        """
        xp = namespace(samples.probs)

        def first(block: Samples) -> list[Array]:
            regret = block.average(self._regret(xp, block.probs))
            behind = regret - xp.min(regret, axis=-1, keepdims=True)
            is_best = behind <= 4 * eps(xp, regret) * regret
            return [xp.argmax(xp.astype(is_best, xp.int8), axis=-1)]

        return samples.by_blocks(first)[0]

    def _action(self, xp: Namespace, p: Array) -> Array:
        """a*(p), the first of the cheapest actions."""
        return xp.argmin(self._regret(xp, p), axis=-1)

    def _losses(self, xp: Namespace, p: Array) -> Array:
        by_action = as_dtype_of(xp, np.ascontiguousarray(self.costs.T), p)
        action = self._action(xp, p)
        rows = xp.take(by_action, xp.reshape(action, (-1,)), axis=0)
        return xp.reshape(rows, p.shape)

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        return xp.min(matmul(xp, p, as_dtype_of(xp, self.costs, p)), axis=-1)

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        action = self._action(xp, q)[..., None]
        return xp.take_along_axis(self._regret(xp, p), action, axis=-1)[..., 0]

    def _dirichlet_epistemic(self, xp: Namespace, q: Dirichlet) -> tuple[Array, Array | None]:
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
        # Where few draws would decide otherwise, one more might, and regret as much as it can.
        one_draw = of_best(as_dtype_of(xp, self._opportunity.max(axis=0) / N_DRAWS, means))
        return epistemic, error + xp.where(hits * N_DRAWS < 50, one_draw, 0.0)


def _slice_bits(xp: Namespace, x: Array) -> int:
    """Bits of a slice, such that products of two and sums of many of them are exact."""
    return 20 if eps(xp, x) < 1e-10 else 8


def _slices(xp: Namespace, x: Array) -> tuple[Array, Array, Array]:
    """x, at most 1 in size, in two slices and what is left."""
    unit = 2.0 ** _slice_bits(xp, x)
    first = xp.round(x * unit) / unit
    second = xp.round((x - first) * unit * unit) / (unit * unit)
    return first, second, x - first - second


@register
def cost_matrix(costs: Any, actions: Sequence[str] | None = None) -> ScoringRule:
    """ℓ(p, y) = C[y, a*(p)] with a*(p) the action of least expected cost: decisions in money.

    H(p) = min_a (pᵀC)_a, and EU is the expected value of perfect information about θ. An abstain
    or defer action is just one more column.

    Parameters
    ----------
    costs : array (K, A)
        ``costs[y, a]`` is the cost of action ``a`` when ``y`` is true, for any number of actions.
        Negative costs (gains) are accepted: every law holds for them, only totals may then be
        negative. Infinite costs and NaN are refused, because ∞ − ∞ would leave EU undefined;
        forbid an action with a cost that is large and finite.
    actions : sequence of str, optional
        Names of the actions.

    Examples
    --------
    >>> import scorewise as sw
    >>> triage = sw.rules.cost_matrix([[0, 5, 1], [50, 0, 1]], ["dismiss", "treat", "refer"])
    >>> triage.entropy([[0.99, 0.01], [0.9, 0.1]])
    array([0.5, 1. ])
    """
    return CostMatrix(costs, actions)
