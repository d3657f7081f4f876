"""User-defined rules, from a loss vector or from a concave entropy."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    Namespace,
    all_finite,
    dot,
    eps,
    ignoring_errors,
    is_array,
    namespace,
)
from scorewise._numerics import sum_product
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.rules._rule import ScoringRule


def _largest_finite(xp: Namespace, values: Array) -> Array:
    """The largest finite size along the last axis."""
    finite = values if all_finite(xp, values) else xp.where(xp.isfinite(values), values, 0.0)
    return xp.max(xp.abs(finite), axis=-1)


def _clip_rounding_to_zero(xp: Namespace, value: Array, size: Array) -> Array:
    """Replace negative values within rounding of 0 by 0; truly negative (improper) values stay.

    A user's function may have rounded at the size of the largest number it returned.
    """
    return xp.where((value < 0) & (value >= -64 * eps(xp, value) * size), 0.0, value)


def _is_zero(xp: Namespace, d: Array) -> Array:
    """Return whether all entries of the last axis are 0."""
    return xp.sum(xp.abs(d), axis=-1) == 0  # faster than a condition on each entry


class _CustomRule(ScoringRule):
    label: str
    family = "custom"
    never_negative = False
    runs_on_any_library = False  # a user's function is written for the user's arrays

    @property
    def name(self) -> str:
        return self.label

    def _result(
        self, function: Callable[[Array], Any], p: Array, shape: tuple[int, ...], subject: str
    ) -> Array:
        """The result of a user's function of ``p``; raises unless it is an array of this shape."""
        subject = f"{subject} of rule {self.label!r}"
        try:
            values = function(p)
        except (TypeError, AttributeError) as error:
            raise InvalidInput(
                f"{subject} fails on a {type(p).__name__}: {type(error).__name__}: {error}; pass "
                "predictions of the library that the rule is written for"
            ) from error
        if not is_array(values) or namespace(values) is not namespace(p):
            raise InvalidInput(
                f"{subject} is a {type(values).__name__}; it must be a {type(p).__name__}, as p is"
            )
        if tuple(values.shape) != tuple(shape):
            raise InvalidInput(f"{subject} has shape {tuple(values.shape)}; it must be {shape}")
        return validate.real(values, subject, lambda x: x)

    @abc.abstractmethod
    def _divergence_and_scale(
        self, xp: Namespace, q: Array, p: Array, d: Array
    ) -> tuple[Array, Array]:
        """Return D(q, p) by the formulas, exactly 0 for d = 0, and the size of its terms."""

    def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
        value = _clip_rounding_to_zero(xp, *self._divergence_and_scale(xp, q, p, d))
        return xp.where(_is_zero(xp, d), 0.0, value)

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> Array:
        # The divergence adds up the same losses, so it is no more accurate where EU is larger.
        return unit * (xp.abs(total) + _largest_finite(xp, self._losses(xp, mean)))

    def _clip_rounding(self, xp: Namespace, epistemic: Array, mean: Array) -> Array:
        return _clip_rounding_to_zero(xp, epistemic, _largest_finite(xp, self._losses(xp, mean)))

    def _epistemic(self, xp: Namespace, samples: Samples) -> Array:
        # Rows of low precision sum to 1 only roughly, so single divergences may fall below 0.
        q = samples.mean[..., None, :]
        d = samples.deviations
        value, size = self._divergence_and_scale(xp, q, samples.probs, d)
        value = xp.where(_is_zero(xp, d), 0.0, value)
        return _clip_rounding_to_zero(xp, samples.average(value), xp.max(size, axis=-1))


@final
@dataclass(frozen=True, eq=False, repr=False)
class FromLossVector(_CustomRule):
    """See :func:`rule_from_loss_vector`."""

    function: Callable[[Array], Array]
    label: str

    def __repr__(self) -> str:
        return f"rule_from_loss_vector(name={self.label!r})"

    def _losses(self, xp: Namespace, p: Array) -> Array:
        return self._result(self.function, p, p.shape, "the loss vector")

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        return sum_product(xp, p, self._losses(xp, p))

    def _divergence_and_scale(
        self, xp: Namespace, q: Array, p: Array, d: Array
    ) -> tuple[Array, Array]:
        at_q, at_p = self._losses(xp, q), self._losses(xp, p)
        with ignoring_errors(at_p):
            change = at_q - at_p
        if not all_finite(xp, change):  # 0 · ∞ is 0
            change = xp.where(p > 0, at_q, 0.0) - xp.where(p > 0, at_p, 0.0)
        return sum_product(xp, p, change), _largest_finite(xp, at_q) + _largest_finite(xp, at_p)


@final
@dataclass(frozen=True, eq=False, repr=False)
class FromEntropy(_CustomRule):
    """See :func:`rule_from_entropy`."""

    function: Callable[[Array], Array]
    gradient: Callable[[Array], Array]
    label: str

    def __repr__(self) -> str:
        return f"rule_from_entropy(name={self.label!r})"

    def _slope(self, p: Array) -> Array:
        return self._result(self.gradient, p, p.shape, "the gradient")

    def _losses(self, xp: Namespace, p: Array) -> Array:
        slope = self._slope(p)
        return (self._entropy(xp, p) - sum_product(xp, p, slope))[..., None] + slope

    def _entropy(self, xp: Namespace, p: Array) -> Array:
        return self._result(self.function, p, p.shape[:-1], "the entropy")

    def _difference_error(
        self, xp: Namespace, mean: Array, total: Array, unit: float, off: float
    ) -> Array:
        return unit * (2 * xp.abs(total) + _largest_finite(xp, self._slope(mean)))

    def _divergence_and_scale(
        self, xp: Namespace, q: Array, p: Array, d: Array
    ) -> tuple[Array, Array]:
        # H(q) − H(p) + ⟨p − q, ∇H(q)⟩; where p and q are both 0 an infinite slope does not matter
        start, end, slope = self._entropy(xp, q), self._entropy(xp, p), self._slope(q)
        if all_finite(xp, slope):
            tangent = dot(xp, d, slope)
        else:
            tangent = xp.sum(xp.where(d == 0, 0.0, d * xp.where(d == 0, 0.0, slope)), axis=-1)
        return start - end + tangent, xp.abs(start) + xp.abs(end) + _largest_finite(xp, slope)


def _check_callable(fn: Any, name: str) -> None:
    if not callable(fn):
        raise InvalidInput(f"{name} must be a function of probabilities, not {fn!r}")


def rule_from_loss_vector(fn: Callable[[Array], Array], *, name: str) -> ScoringRule:
    """Return a rule from its loss vector ℓ(p, ·), from which H and D follow.

    Use it for a loss of your own, and :func:`scorewise.check_rule` to see whether it is proper.

    Parameters
    ----------
    fn : callable
        From probabilities ``(..., K)`` to losses ``(..., K)``, in the caller's array library.
    name : str
        The name of the rule in results.

    Returns
    -------
    ScoringRule

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> half_brier = sw.rule_from_loss_vector(
    ...     lambda p: (1 + (p**2).sum(-1, keepdims=True)) / 2 - p, name="half-brier")
    >>> float(half_brier.entropy([0.5, 0.5]))
    0.25
    """
    _check_callable(fn, "fn")
    return FromLossVector(fn, name)


def rule_from_entropy(
    H: Callable[[Array], Array], gradient: Callable[[Array], Array], *, name: str
) -> ScoringRule:
    """Return a rule from a concave entropy, by Savage: ℓ(p, ·) = H(p) + ∇H(p) − ⟨p, ∇H(p)⟩.

    Use it to turn any concave measure of spread into a proper scoring rule.

    Parameters
    ----------
    H : callable
        From probabilities ``(..., K)`` to ``(...)``.
    gradient : callable
        From probabilities ``(..., K)`` to ∇H ``(..., K)``, in any extension of H off the simplex.
    name : str
        The name of the rule in results.

    Returns
    -------
    ScoringRule

    Examples
    --------
    >>> import scorewise as sw
    >>> gini = sw.rule_from_entropy(lambda p: 1 - (p**2).sum(-1), lambda p: -2 * p, name="gini")
    >>> sw.check_rule(gini, n_classes=3)
    """
    _check_callable(H, "H")
    _check_callable(gradient, "gradient")
    return FromEntropy(H, gradient, name)
