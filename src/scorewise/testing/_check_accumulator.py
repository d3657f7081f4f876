"""A check of the states of accumulators, to which a kernel adds members one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from scorewise._array import Array
from scorewise._inputs import RawPredictions
from scorewise._members import Members
from scorewise.decompose import COMPONENTS
from scorewise.distributions import Samples
from scorewise.errors import KernelMismatch
from scorewise.kernels import AccumulatingKernel, AccumulatorState
from scorewise.rules import DecisionRule, ScoringRule
from scorewise.testing._kernel_cases import (
    ALLOWED,
    Case,
    allowed_error,
    by_formulas,
    compare,
    is_exact,
)


def check_accumulator(
    kernel: AccumulatingKernel, rules: Sequence[ScoringRule], case: Case, rng: np.random.Generator
) -> None:
    """Raise if a state of the members so far differs from the array path's components of them."""
    if kernel.MOST_RULES < 1:
        raise KernelMismatch(f"MOST_RULES is {kernel.MOST_RULES}; it must be at least 1")
    check = _AccumulatorCheck(kernel, rules[: kernel.MOST_RULES], case)
    check.check_states(rng)
    check.check_load(rng)


class _AccumulatorCheck:
    def __init__(
        self, kernel: AccumulatingKernel, rules: Sequence[ScoringRule], case: Case
    ) -> None:
        self.kernel, self.rules, self.case = kernel, rules, case
        self.raw = case.members().raw
        *batch, self.n_members, n_classes = self.raw.values.shape
        self.shape = (*batch, n_classes)
        self.weights = np.ones(self.n_members) if case.weights is None else case.weights
        self.relative, self.absolute = ALLOWED[str(case.array.dtype)]

    def error(self, text: str) -> KernelMismatch:
        return KernelMismatch(f"{text}: {self.case}")

    # -- members as a state takes them ------------------------------------------------------------

    def new_state(self, rules: Sequence[ScoringRule]) -> AccumulatorState:
        state = self.kernel.new_state(self.shape, self.case.dtype, rules)
        if tuple(state.shape) != self.shape:
            raise self.error(f"a new state has shape {state.shape} in place of {self.shape}")
        return state

    def member(self, m: int) -> RawPredictions:
        return replace(self.raw, values=self.raw.values[..., m, :])

    def shares(self, m: int) -> Callable[[int, int], np.ndarray]:
        """Return the shares of member m, as AccumulatorState.add takes them."""
        w, before = self.weights[..., m], self.weights[..., :m]
        total = before.sum(axis=-1) + w
        scale = np.where(total > 0, total, 1.0)
        is_heaviest = before.max(axis=-1, initial=-1.0) < w  # as the first member is
        shares = np.stack([w / scale, before.sum(axis=-1) / scale, is_heaviest])
        shares = shares.reshape(3, -1).astype(self.case.dtype)
        return lambda start, stop: shares if shares.shape[1] == 1 else shares[:, start:stop]

    def add(self, state: AccumulatorState, members: range) -> None:
        for m in members:
            if not state.add(self.member(m), self.shares(m)):
                raise self.error(f"a state declines the valid member {m}")

    def cut(self, rng: np.random.Generator) -> int:
        """Return a number of members of which one has weight for each instance."""
        has_weight = (np.cumsum(self.weights, axis=-1) > 0).reshape(-1, self.n_members).all(axis=0)
        return int(rng.integers(np.argmax(has_weight), self.n_members)) + 1

    def first(self, n: int) -> Samples:
        """Return the first n members as the array path reads them."""
        weights = None if self.case.weights is None else self.weights[..., :n]
        # Not checked again: logits of a single row may sum to 1 by chance.
        raw = replace(self.raw, values=self.raw.values[..., :n, :], check=False)
        return Members(raw, weights).samples

    # -- checks -----------------------------------------------------------------------------------

    def check_states(self, rng: np.random.Generator) -> None:
        """Compare some of the members, and then all, with the array path's."""
        state, n = self.new_state(self.rules), self.cut(rng)
        self.add(state, range(n - 1))
        self.check_memory(state, n - 1)
        self.compare_with(state, n, "after {} members")
        self.check_mean(state, n)
        self.check_regrets(state, n)
        self.check_invalid(state, rng)
        self.add(state, range(n, self.n_members))
        self.compare_with(state, self.n_members, "after all {} members")

    def check_load(self, rng: np.random.Generator) -> None:
        """The same, for a state that takes over the statistics of the first members."""
        rules = [rule for rule in self.rules if _has_state(rule)]
        if not rules:
            return
        n = self.cut(rng)
        samples = self.first(n)
        parts = [by_formulas(samples, rule) for rule in rules]
        aleatoric = [np.array(part) for _, part, _ in parts]
        states = [
            np.array(rule._state_of_members(np, samples, epistemic))
            for rule, (_, _, epistemic) in zip(rules, parts, strict=True)
        ]
        # Members that the paths normalise differ by rounding, and are then not identical.
        is_mixed = self.case.is_rescaled and n < self.n_members
        state = self.new_state(rules)
        anchor, deviation = np.array(samples.anchor), np.array(samples.shift)
        state.load(anchor, deviation, aleatoric, states)
        _overwrite([anchor, deviation, *aleatoric, *states])
        self.compare_with(state, n, "after {} members were loaded", rules)
        self.add(state, range(n, self.n_members))
        text = f"after {{}} members, {n} of them loaded"
        self.compare_with(state, self.n_members, text, rules, is_mixed=is_mixed)

    def compare_with(
        self,
        state: AccumulatorState,
        n: int,
        text: str,
        rules: Sequence[ScoringRule] | None = None,
        *,
        is_mixed: bool = False,
    ) -> None:
        """Compare the components of a state with those of the first n members."""
        rules = self.rules if rules is None else rules
        detail = ", " + text.format(n)
        components = state.components()
        if [len(three) for three in components] != [3] * len(rules):
            raise self.error(f"a state does not return three components for each rule{detail}")
        samples = self.first(n)
        # The identity that accumulators use holds for sums of 1, and half precision has others.
        more_allowed = 32 * np.abs(samples.in_float64().sums - 1).max(axis=-1)
        for rule, three in zip(rules, components, strict=True):
            for values in three:
                if str(values.dtype) != self.case.dtype:
                    raise self.error(
                        f"a state returns {values.dtype} in place of {self.case.dtype}{detail}"
                    )
            references = dict(zip(COMPONENTS, by_formulas(samples, rule), strict=True))
            allowed = {
                name: allowed_error(self.case, name, reference)
                for name, reference in references.items()
            }
            allowed["epistemic"] = allowed["epistemic"] + more_allowed * references["epistemic"]
            if is_mixed:
                allowed["epistemic"] += self.shape[-1] * (8 * self.absolute) ** 2
            by_name = dict(zip(COMPONENTS, three, strict=True))
            exact = is_exact(self.case, rule) and not is_mixed
            compare(repr(rule), by_name, references, allowed, self.case, detail, exact=exact)

    def check_memory(self, state: AccumulatorState, m: int) -> None:
        """Add a member, and overwrite its array and all arrays that the state returns."""
        own = np.array(self.raw.values[..., m, :])
        if not state.add(replace(self.raw, values=own), self.shares(m)):
            raise self.error(f"a state declines the valid member {m}")
        before = _everything(state, len(self.rules))
        _overwrite([own, *_everything(state, len(self.rules))])
        after = _everything(state, len(self.rules))
        if not _are_equal(before, after):
            raise self.error("a state changes with an array of its caller")

    def check_mean(self, state: AccumulatorState, n: int) -> None:
        samples, weights = self.first(n), self.weights[..., :n]
        anchor, deviation = state.anchor, state.deviation
        for name, values in (("anchor", anchor), ("deviation", deviation)):
            if values.shape != self.shape or str(values.dtype) != self.case.dtype:
                raise self.error(f"the {name} of a state is {values.shape} of {values.dtype}")
        theta = samples.probs
        tiny = float(np.finfo(self.case.dtype).tiny)  # below which a softmax may be 0
        noise = self.relative * theta + 4 * tiny if self.case.is_rescaled else 0.0
        is_member = (np.abs(anchor[..., None, :] - theta) <= noise).all(axis=-1)
        is_heaviest = weights == weights.max(axis=-1, keepdims=True)
        is_zero = (anchor == 0).all(axis=-1)
        if not ((is_member & is_heaviest).any(axis=-1) | is_zero).all():
            raise self.error(f"the anchor of a state is none of the heaviest of {n} members, nor 0")
        reference = samples.in_float64().mean
        mean = anchor.astype(np.float64) + deviation
        wrong = ~(np.abs(mean - reference) <= self.relative * reference + self.absolute)
        if self.case.kind == "identical":
            wrong |= deviation != 0
        if wrong.any():
            index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            raise self.error(
                f"anchor + deviation of a state is {mean[index]} at {list(map(int, index))}, and "
                f"the mean of {n} members {reference[index]}"
            )

    def check_regrets(self, state: AccumulatorState, n: int) -> None:
        samples = self.first(n)
        for i, rule in enumerate(self.rules):
            regrets = state.regrets(i)
            if not isinstance(rule, DecisionRule):
                if regrets is not None and _has_state(rule):
                    raise self.error(f"a state has regrets under {rule!r}, which is no decision")
                continue
            reference = rule._state_of_members(np, samples, np.zeros(self.shape[:-1]))
            if regrets is None or regrets.shape != reference.shape:
                shape = None if regrets is None else regrets.shape
                raise self.error(f"regrets under {rule!r} are {shape}, not {reference.shape}")
            rounding = 4 * self.absolute * (1 + np.max(reference, initial=0.0))
            with np.errstate(invalid="ignore"):
                is_right = np.abs(regrets - reference) <= self.relative * reference + rounding
            if not is_right.all():
                index = np.unravel_index(int(np.argmax(~is_right)), reference.shape)
                raise self.error(
                    f"{rule!r} regrets{list(map(int, index))} are {regrets[index]} by the kernel, "
                    f"{reference[index]} by the array path, after {n} members"
                )

    def check_invalid(self, state: AccumulatorState, rng: np.random.Generator) -> None:
        invalid = np.array(self.raw.values[..., 0, :])
        if not invalid.size:
            return
        before = _everything(state, len(self.rules))
        value = self.case.spoil(invalid, rng)
        if state.add(replace(self.raw, values=invalid), self.shares(0)):
            raise self.error(f"a state does not detect an entry of {value}")
        if not _are_equal(before, _everything(state, len(self.rules))):
            raise self.error(f"a state changes with a member that it declines, with {value}")


def _has_state(rule: ScoringRule) -> bool:
    """Return whether the array path has the epistemic state of a rule, which may be loaded."""
    structure = rule.structure
    return isinstance(rule, DecisionRule) or structure is None or structure.name != "decision"


def _everything(state: AccumulatorState, n_rules: int) -> list[Array]:
    """Return all arrays of a state."""
    regrets: Iterator[Array | None] = (state.regrets(i) for i in range(n_rules))
    components = [x for three in state.components() for x in three]
    return [*components, state.anchor, state.deviation, *(x for x in regrets if x is not None)]


def _overwrite(arrays: Sequence[np.ndarray]) -> None:
    for array in arrays:
        if array.flags.writeable:
            array[...] = np.nan


def _are_equal(first: Sequence[Array], second: Sequence[Array]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
