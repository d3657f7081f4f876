"""Members one at a time: the decomposition in memory O(N·K), mergeable across workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise import validate
from scorewise._array import Array, Namespace, difference, namespace, smallest
from scorewise.decompose import Decomposition, RuleLike, named_rules
from scorewise.errors import InvalidInput
from scorewise.receive import receive
from scorewise.rules import DecisionRule, ScoringRule


@dataclass(frozen=True)
class _State:
    """What the members so far come to.

    The mean is kept as ``anchor + deviation``, the anchor being the heaviest member so far: what
    members have in common never enters a difference, so identical members leave exact zeros.
    """

    weight: Array  # (...), in float64: the members' total weight
    anchor_weight: Array  # (...), in float64
    anchor: Array  # (..., K)
    deviation: Array  # (..., K): θ̄ − anchor
    aleatoric: tuple[Array, ...]  # (...) per rule: E H(θ)
    spread: tuple[Array, ...]  # per rule: EU (...), or mean regrets (..., R) of a decision rule

    @property
    def mean(self) -> Array:
        return namespace(self.anchor).maximum(self.anchor + self.deviation, 0.0)


class Accumulator:
    """Decompose members that arrive one at a time.

    Use it when all members together do not fit in memory, or live on several workers. Follows
    (W₁+W₂)·EU = W₁EU₁ + W₂EU₂ + W₁D(μ, μ₁) + W₂D(μ, μ₂), which holds for every rule.

    Parameters
    ----------
    rule : str, ScoringRule, or several in a list or a mapping
        As for :func:`scorewise.decompose`.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> acc = sw.Accumulator(["log", "zero-one"])
    >>> for member in np.array([[[0.9, 0.1]], [[0.1, 0.9]]]):
    ...     acc.update(member)
    >>> acc.result()["zero-one"].epistemic
    array([0.4])
    """

    def __init__(self, rule: RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike]) -> None:
        self._rules = named_rules(rule)
        self._single = isinstance(rule, str | ScoringRule)
        self._state: _State | None = None
        self.n_members = 0

    def __repr__(self) -> str:
        rules = ", ".join(repr(rule) for rule in self._rules.values())
        return f"Accumulator([{rules}], {self.n_members} members)"

    def update(
        self,
        member_probs: Any,
        weight: Any = 1.0,
        *,
        class_axis: int = -1,
        from_logits: bool = False,
        normalize: bool = False,
        check: bool = True,
    ) -> None:
        """Add one member's predictions for all instances.

        Parameters
        ----------
        member_probs : array (..., K)
            Probabilities, or logits with ``from_logits=True``.
        weight : float or array (...)
            The member's weight, in all or in each instance; not negative.
        class_axis, from_logits, normalize, check
            As for :func:`scorewise.decompose`.

        Raises
        ------
        InvalidInput
            If the predictions, their shape or the weight do not fit; nothing is then added.
        """

        def layout(ndim: int, name: str) -> validate.Layout:
            return validate.moved_classes(ndim, class_axis, name)

        theta = receive(
            member_probs, layout, from_logits=from_logits, normalize=normalize, check=check
        ).probabilities()
        xp = namespace(theta)
        w = validate.member_weight(xp, weight, theta, check=check)
        rules = list(self._rules.values())
        for rule in rules:
            rule.check_classes(theta.shape[-1])
        if self._state is not None:
            _check_same_instances(self._state, theta)
        member = _State(
            weight=w,
            anchor_weight=w,
            anchor=theta + 0.0,  # a copy: the caller may reuse its buffer
            deviation=xp.zeros_like(theta),
            aleatoric=tuple(rule._entropy(xp, theta) for rule in rules),
            spread=tuple(
                rule._regret(xp, theta)
                if isinstance(rule, DecisionRule)
                else xp.zeros_like(theta[..., 0])
                for rule in rules
            ),
        )
        self._state = member if self._state is None else _merge(xp, rules, self._state, member)
        self.n_members += 1

    def merge(self, other: Accumulator) -> None:
        """Add the members of another accumulator of the same instances and rules.

        Parameters
        ----------
        other : Accumulator
            Of other members; it is left as it is.

        Raises
        ------
        InvalidInput
            If its rules or instances differ; nothing is then added.
        """
        if not isinstance(other, Accumulator) or other._rules != self._rules:
            raise InvalidInput(f"cannot merge {other!r} into {self!r}: the rules must be the same")
        if other is self:
            raise InvalidInput("cannot merge an accumulator into itself: its members count once")
        if other._state is None:
            return
        if self._state is None:
            self._state = other._state
        else:
            _check_same_instances(self._state, other._state.anchor)
            xp = namespace(self._state.anchor)
            self._state = _merge(xp, list(self._rules.values()), self._state, other._state)
        self.n_members += other.n_members

    def result(self) -> Decomposition | dict[str, Decomposition]:
        """The decomposition of all members so far, as :func:`scorewise.decompose` gives it.

        Raises
        ------
        InvalidInput
            If no member was added, or an instance has only members of weight 0.
        """
        state = self._state
        if state is None:
            raise InvalidInput("no member was added yet; call update first")
        xp = namespace(state.anchor)
        validate.some_weight(state.weight)
        mean = state.mean
        results = {
            name: Decomposition(
                rule._entropy(xp, mean),
                aleatoric,
                rule._least_regret(xp, spread) if isinstance(rule, DecisionRule) else spread,
            )
            for (name, rule), aleatoric, spread in zip(
                self._rules.items(), state.aleatoric, state.spread, strict=True
            )
        }
        return results[""] if self._single else results


def _check_same_instances(state: _State, theta: Array) -> None:
    validate.same_library(state.anchor, theta)
    if tuple(state.anchor.shape) != tuple(theta.shape):
        raise InvalidInput(
            f"members have shape {tuple(state.anchor.shape)} so far, this one "
            f"{tuple(theta.shape)}; all must be of the same instances and classes"
        )
    if state.anchor.dtype != theta.dtype:
        raise InvalidInput(
            f"members have dtype {state.anchor.dtype} so far, this one {theta.dtype}; "
            "convert them to the same"
        )


def _merge(xp: Namespace, rules: list[ScoringRule], one: _State, two: _State) -> _State:
    """Both sets of members as one."""
    with np.errstate(all="ignore"):  # an infinite sum is refused when the result is asked for
        weight = one.weight + two.weight
        scale = xp.where(weight > 0, weight, 1.0)
        share = xp.astype(two.weight / scale, one.anchor.dtype)  # of the second set
        rest = xp.astype(one.weight / scale, one.anchor.dtype)
    # μ₂ − μ₁
    step = difference(xp, two.anchor, one.anchor) + (two.deviation - one.deviation)
    lighter = one.anchor_weight < two.anchor_weight
    swap = lighter[..., None]
    anchor = xp.where(swap, two.anchor, one.anchor)
    merged = _State(
        weight=weight,
        anchor_weight=xp.where(lighter, two.anchor_weight, one.anchor_weight),
        anchor=anchor,
        deviation=xp.where(
            swap,
            two.deviation - rest[..., None] * step,
            one.deviation + share[..., None] * step,
        ),
        aleatoric=(),
        spread=(),
    )
    mean, first, second = merged.mean, one.mean, two.mean
    # What one set thinks possible stays so, however small its weight: divergences are finite.
    mean = xp.where((mean > 0) | ((first == 0) & (second == 0)), mean, smallest(xp, mean))

    def spread(rule: ScoringRule, a: Array, b: Array) -> Array:
        if isinstance(rule, DecisionRule):
            wide_share, wide_rest = share[..., None], rest[..., None]
            return wide_rest * a + wide_share * b
        # A set without weight moves nothing, however far away it is.
        to_first = rule._divergence(xp, mean, first, -share[..., None] * step)
        to_second = rule._divergence(xp, mean, second, rest[..., None] * step)
        return rule._settled(
            xp,
            rest * xp.where(rest > 0, a + to_first, 0.0)
            + share * xp.where(share > 0, b + to_second, 0.0),
            mean,
        )

    return replace(
        merged,
        aleatoric=tuple(
            rest * a + share * b for a, b in zip(one.aleatoric, two.aleatoric, strict=True)
        ),
        spread=tuple(
            spread(rule, a, b) for rule, a, b in zip(rules, one.spread, two.spread, strict=True)
        ),
    )
