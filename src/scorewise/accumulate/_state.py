"""What members come to: enough to add more of them and to decompose all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    Namespace,
    blocks,
    difference,
    namespace,
    smallest,
    to_numpy,
    widest,
)
from scorewise._receive import Unchecked
from scorewise.decompose import decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.rules import DecisionRule, ScoringRule


@dataclass(frozen=True)
class State:
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
        """θ̄, ``(..., K)``."""
        return _mean(self.anchor, self.deviation)

    def totals(self, rules: Sequence[ScoringRule]) -> list[Array]:
        """H(θ̄) under each rule, ``(...)``, some instances at a time."""
        xp = namespace(self.anchor)
        pieces = []
        for rows in blocks(self.anchor, 0):
            mean = _mean(self.anchor[rows], self.deviation[rows])
            pieces.append([rule._entropy(xp, mean) for rule in rules])
        return _end_to_end(xp, pieces)


def _mean(anchor: Array, deviation: Array) -> Array:
    return namespace(anchor).maximum(anchor + deviation, 0.0)


def _end_to_end(xp: Namespace, pieces: Sequence[Sequence[Array]]) -> list[Array]:
    """Arrays of further instances, joined."""
    if len(pieces) == 1:
        return list(pieces[0])
    return [xp.concat(parts) for parts in zip(*pieces, strict=True)]


def of_member(xp: Namespace, theta: Array, weight: Array, rules: Sequence[ScoringRule]) -> State:
    """The state of one member's predictions ``(..., K)``."""
    return State(
        weight=weight,
        anchor_weight=weight,
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


class Chunks:
    """The state of members whose instances arrive in chunks ``(n, M, K)``, end to end.

    Memory is allocated once where the number of instances is known and NumPy holds them.
    """

    def __init__(
        self, rules: Mapping[str, ScoringRule], weights: Any, n_instances: int | None
    ) -> None:
        if n_instances is not None:
            validate.whole(n_instances, "n_instances", at_least=0)
        self._rules = rules
        self._weights: np.ndarray | None = None
        if weights is not None:
            self._weights = validate.real(weights, "weights", to_numpy).astype(np.float64)
        self._expected = n_instances
        self._first: Array | None = None
        self._n_instances = 0
        self._pieces: list[list[Array]] = []
        self._whole: list[np.ndarray] = []

    @property
    def n_members(self) -> int:
        """M."""
        return 0 if self._first is None else int(self._first.shape[-2])

    def add(self, given: Unchecked) -> None:
        """Take the next instances."""
        self._check_fits(given.values)
        given = given.block(given.values, (self._n_instances,))
        piece = _contents(Samples.of(given, self._weights), self._rules)
        start, n = self._n_instances, given.values.shape[0]
        self._n_instances += n
        if self._expected is None or not isinstance(piece[0], np.ndarray):
            self._pieces.append(piece)
            return
        if not self._whole:
            self._whole = [np.empty((self._expected, *x.shape[1:]), x.dtype) for x in piece]
        if self._n_instances <= self._expected:
            for whole, part in zip(self._whole, piece, strict=True):
                whole[start : start + n] = part

    def _check_fits(self, values: Array) -> None:
        """All chunks are of the same members, library and precision."""
        if values.ndim != 3:
            raise InvalidInput(f"a chunk has shape {tuple(values.shape)}; it must be (n, M, K)")
        if self._first is None:
            self._first = values[:0, ...]
            if self._weights is not None and self._weights.shape != (self.n_members,):
                raise InvalidInput(
                    f"weights have shape {self._weights.shape}; they must be ({self.n_members},), "
                    "the same for all instances"
                )
            for rule in self._rules.values():
                rule.check_classes(values.shape[-1])
        validate.same_library(self._first, values)
        first, own = tuple(self._first.shape[1:]), tuple(values.shape[1:])
        if own != first or values.dtype != self._first.dtype:
            raise InvalidInput(
                f"the chunk from instance {self._n_instances} on has {own} members and classes of "
                f"{values.dtype}, the first {first} of {self._first.dtype}; all must be alike"
            )

    def state(self) -> State:
        """All of them."""
        if self._first is None:
            raise InvalidInput("there are no chunks; pass at least one, of shape (n, M, K)")
        if self._expected not in {None, self._n_instances}:
            raise InvalidInput(
                f"n_instances={self._expected}, but the chunks have {self._n_instances} instances"
            )
        weights = np.ones(self.n_members) if self._weights is None else self._weights
        parts = self._whole or _end_to_end(namespace(self._first), self._pieces)
        anchor, deviation, *values = parts
        ones = namespace(anchor).ones_like(widest(namespace(anchor), anchor[..., 0]))
        return State(
            weight=ones * float(weights.sum()),
            anchor_weight=ones * float(weights.max()),
            anchor=anchor,
            deviation=deviation,
            aleatoric=tuple(values[: len(self._rules)]),
            spread=tuple(values[len(self._rules) :]),
        )


def _contents(samples: Samples, rules: Mapping[str, ScoringRule]) -> list[Array]:
    """Anchor, deviation, then E H(θ) under each rule, then the spread under each."""
    xp = namespace(samples.probs)
    deciding = {name: rule for name, rule in rules.items() if isinstance(rule, DecisionRule)}

    def work(block: Samples) -> list[Array]:
        regrets = [block.average(rule._regret(xp, block.probs)) for rule in deciding.values()]
        return [block.anchor + 0.0, block.shift, *regrets]

    anchor, shift, *regrets = samples.by_blocks(work)
    results = decompose(samples, rules)
    spread = {name: result.epistemic for name, result in results.items()}
    spread |= dict(zip(deciding, regrets, strict=True))
    return [anchor, shift, *(d.aleatoric for d in results.values()), *spread.values()]


def merge(xp: Namespace, rules: list[ScoringRule], one: State, two: State) -> State:
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
    merged = State(
        weight=weight,
        anchor_weight=xp.where(lighter, two.anchor_weight, one.anchor_weight),
        anchor=anchor,
        deviation=xp.where(
            swap, two.deviation - rest[..., None] * step, one.deviation + share[..., None] * step
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
