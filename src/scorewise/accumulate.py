"""Decompose members that arrive one at a time, or in chunks, in memory O(N·K)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise import kernels
from scorewise._array import (
    Array,
    Namespace,
    as_dtype_of,
    blocks,
    difference,
    dtype_name,
    empty_rows,
    in_host_memory,
    is_compiled,
    is_on_device,
    is_recorded,
    is_writable,
    namespace,
    on_device_of,
    smallest,
    smallest_normal,
    to_float64,
    to_numpy,
    working_precision,
)
from scorewise._inputs import InputOptions, RawPredictions, raw_members, raw_predictions
from scorewise._members import Members
from scorewise.decompose import Decomposition, Decompositions, decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, ScorewiseError
from scorewise.kernels import AccumulatorState, Extras, Kernel
from scorewise.rules import DecisionRule, RuleLike, ScoringRule, get_rules, is_single_rule

__all__ = ["Accumulator"]

_DEVICE_BLOCKS = 8  # of instances, in which a member on a device is added


class Accumulator:
    """The decomposition of members that arrive one at a time, in memory O(N·K).

    Use it when all members together do not fit in memory, or are on several workers. It follows
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
        self._rules = get_rules(rule)
        self._single = is_single_rule(rule)
        # A kernel accumulates the rules that it supports, and the array path the others.
        self._fused: _Fused | None = None
        self._summary: _Summary | None = None
        self._is_changing = False  # and still is after an interrupt
        self.n_members = 0

    @property
    def dtype(self) -> Any:
        """The precision in which members are accumulated; None before the first."""
        if self._fused is not None:
            return self._fused.like.dtype
        return None if self._summary is None else self._summary.anchor.dtype

    @property
    def weight(self) -> Array:
        """The total weight of the members so far, ``(...)``, in float64.

        Raises
        ------
        InvalidInput
            If no member was added.
        """
        self._require_whole()
        return self._filled().weight if self._fused is None else self._fused.weight

    @property
    def mean(self) -> Array:
        """The mean θ̄ of the members so far, ``(..., K)``.

        Raises
        ------
        InvalidInput
            If no member was added.
        """
        self._require_whole()
        if self._fused is None:
            return self._filled().mean
        state = self._fused.state
        return self._fused.to_library(_mean(state.anchor, state.deviation))

    def __repr__(self) -> str:
        rules = ", ".join(repr(rule) for rule in self._rules.values())
        return f"Accumulator([{rules}], {self.n_members} members)"

    def __copy__(self) -> Accumulator:
        return deepcopy(self)  # a member is added in place

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
            The member's weight, one number or one per instance; not negative.
        class_axis, from_logits, normalize, check
            As for :func:`scorewise.decompose`.

        Raises
        ------
        InvalidInput
            If the predictions, their shape or the weight do not fit; nothing is then added.
        ScorewiseError
            After an update that was interrupted, which may have added some instances only.
        """
        self._require_whole()

        def layout(ndim: int, name: str) -> validate.Layout:
            return validate.layout_of_member(ndim, class_axis, name)

        raw = raw_predictions(
            member_probs, layout, from_logits=from_logits, normalize=normalize, check=check
        )
        for rule in self._rules.values():
            rule.check_classes(raw.values.shape[-1])
        if self._update_by_kernel(raw, weight) or self._update_on_device(raw, weight):
            return
        theta = raw.probabilities()
        xp = namespace(theta)
        w = validate.member_weight(xp, weight, theta, check=check)
        self._check_same_instances(theta.shape, theta)
        self._add(_summary_of_member(xp, theta, w, list(self._rules.values())), 1)

    def _update_by_kernel(self, raw: RawPredictions, weight: Any) -> bool:
        """Return whether a kernel added a member; the array path adds, or refuses, any other."""
        array = None if np.isscalar(weight) else weight
        kernel = None if is_compiled(raw.values) else kernels.pick(raw, array)
        if kernel is None or not (self._fused or self._is_on_host()):
            return False
        xp, shape = namespace(raw.values), tuple(raw.values.shape)
        like = xp.zeros_like(working_precision(xp, raw.values[..., :0]))
        self._check_same_instances(shape, like)
        fused = self._fused or self._new_fused(kernel, shape, like)
        if fused is None:
            return False
        raw.check_logits()
        w = validate.member_weight_on_host(weight, shape[:-1], check=raw.check)
        others = [name for name in self._rules if name not in fused.names]
        summary = None
        if others:
            rules = [self._rules[name] for name in others]
            theta = raw.probabilities()
            w_of_each = validate.member_weight(xp, weight, theta, check=False)
            summary = _summary_of_member(xp, theta, w_of_each, rules)
            if self._summary is not None:
                summary = _merge(xp, rules, self._part_of_summary(others), summary)
        self._is_changing = True
        is_added = fused.add(raw, w)
        if is_added:
            self._fused, self._summary = fused, summary
            self.n_members += 1
        self._is_changing = False
        return is_added

    def _update_on_device(self, raw: RawPredictions, weight: Any) -> bool:
        """Return whether a member on a device was added, in place and some instances at a time."""
        values = raw.values
        if not is_on_device(values) or is_recorded(values) or values.ndim == 1:
            return False
        xp, before = namespace(values), self._summary
        like = working_precision(xp, values[:0])
        w = validate.member_weight(xp, weight, values, check=raw.check)
        self._check_same_instances(values.shape, like)
        if self._fused is not None or (before is not None and not before.is_writable):
            return False
        raw.check_logits()
        indices = list(blocks(values, 0, _DEVICE_BLOCKS))
        members = [raw.block(values[i], (0 if i is ... else i[0].start,)) for i in indices]
        for member in members:  # nothing is added if one is invalid
            theta = member.rows()
            if member.must_sum_to_one:
                member.check_rows(theta, xp.sum(theta, axis=-1))
        rules = list(self._rules.values())
        parts = []
        for i, member in zip(indices, members, strict=True):
            part = _summary_of_member(xp, replace(member, check=False).rows(), w[i], rules)
            if before is not None:
                rows = before.of(itemgetter(i))
                part = _merge(xp, rules, rows, part)
                self._is_changing = True
                part = rows.filled_with(part)
            parts.append(part)
        if before is None:
            self._summary = _summary_of_rows(parts)
        else:
            self._summary = before.with_small_arrays_of(parts)
        self._is_changing = False
        self.n_members += 1
        return True

    def _is_on_host(self) -> bool:
        """Return whether the summary, if any, is in host memory, where a kernel may go on."""
        summary = self._summary
        if summary is None:
            return True
        arrays = summary.weight, summary.anchor, summary.deviation, *summary.aleatoric
        return all(in_host_memory(x) for x in (*arrays, *summary.states))

    def _new_fused(self, kernel: Kernel, shape: tuple[int, ...], like: Array) -> _Fused | None:
        """Return the members so far under the rules that a kernel accumulates; None without any."""
        if not kernels.accumulates(kernel):
            return None
        names = [name for name, rule in self._rules.items() if kernel.supports(rule, Extras())]
        names = names[: kernel.MOST_RULES]
        if self._summary is not None:
            names = [name for name in names if _can_go_on(self._rules[name])]
        if not names:
            return None
        state = kernel.new_state(shape, dtype_name(like), [self._rules[name] for name in names])
        fused = _Fused(tuple(names), state, like)
        if self._summary is not None:
            fused.load(self._part_of_summary(names))
        return fused

    def _part_of_summary(self, names: Sequence[str]) -> _Summary:
        """Return the summary under some of the rules that it has."""
        summary = self._filled()
        present = [n for n in self._rules if self._fused is None or n not in self._fused.names]
        places = [present.index(name) for name in names]
        return replace(
            summary,
            aleatoric=tuple(summary.aleatoric[i] for i in places),
            states=tuple(summary.states[i] for i in places),
        )

    def update_members(
        self,
        predictions: Any,
        weights: Any = None,
        *,
        member_axis: int = -2,
        class_axis: int = -1,
        from_logits: bool = False,
        normalize: bool = False,
        check: bool = True,
    ) -> None:
        """Add several members at once, with their predictions for all instances.

        Use it for members that come in groups, such as those of a worker; it takes less time than
        one after the other.

        Parameters
        ----------
        predictions : array (..., M, K), list of M arrays (..., K), or Samples
            As for :func:`scorewise.decompose`.
        weights : array (M,) or (..., M), optional
            Member weights, in the scale of all other members; 1 by default. Those of an instance
            may all be 0. Those of Samples sum to 1.
        member_axis, class_axis, from_logits, normalize, check
            As for :func:`scorewise.decompose`.

        Raises
        ------
        InvalidInput
            If the predictions, their shape or the weights do not fit; nothing is then added.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(1000, 20))
        >>> acc = sw.Accumulator("log")
        >>> acc.update_members(probs[:, :15])
        >>> acc.update_members(probs[:, 15:])
        >>> bool(np.allclose(acc.result().epistemic, sw.decompose(probs, "log").epistemic))
        True
        """
        self._require_whole()
        options = InputOptions(member_axis, class_axis, from_logits, normalize, check)
        members = Members.of(predictions, weights, options)
        members.fit_rules(self._rules.values())
        summary = _summary_of_members(members.raw, members.weights, self._rules)
        self._check_same_instances(summary.anchor.shape, summary.anchor)
        self._add(summary, members.raw.values.shape[-2])

    def update_chunks(
        self,
        chunks: Iterable[Any],
        weights: Any = None,
        *,
        n_instances: int | None = None,
        from_logits: bool = False,
        normalize: bool = False,
        check: bool = True,
        on_host: bool = False,
    ) -> None:
        """Add several members whose instances arrive in chunks.

        Use it for predictions that do not fit in memory: each chunk goes through the fused kernel
        and is not stored.

        Parameters
        ----------
        chunks : iterable of arrays (n, M, K)
            All M members of the first n instances, of the next n, and so on.
        weights : array (M,), optional
            Member weights; all 1 by default.
        n_instances : int, optional
            Number of all instances, if known; memory is then allocated once.
        from_logits, normalize, check
            As for :func:`scorewise.decompose`.
        on_host : bool
            Accumulate in host memory, in NumPy, whatever the library and the device of the chunks.
            Each is decomposed where it is; only statistics of the size of one member are copied.

        Raises
        ------
        InvalidInput
            If the chunks do not fit each other or the members added before. Nothing is then
            added, nor if ``chunks`` itself raises.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(1000, 20))
        >>> acc = sw.Accumulator("log")
        >>> acc.update_chunks(probs[i : i + 100] for i in range(0, 1000, 100))
        >>> bool(np.allclose(acc.result().epistemic, sw.decompose(probs, "log").epistemic))
        True
        """
        self._require_whole()
        options = InputOptions(from_logits=from_logits, normalize=normalize, check=check)
        reader = _ChunkReader(self._rules, weights, n_instances, on_host=on_host)
        n_before = self._shape()[:1]
        if n_before and n_instances not in {None, *n_before}:
            raise InvalidInput(f"there are {n_before[0]} instances so far, not {n_instances}")
        for chunk in chunks:
            reader.add(raw_members(chunk, options))
        summary = reader.summary()
        self._check_same_instances(summary.anchor.shape, summary.anchor)
        self._add(summary, reader.n_members)

    def _add(self, summary: _Summary, n_members: int) -> None:
        """Add members under all rules; their instances are the same as before."""
        before = self._whole_summary()
        if before is not None:
            xp = namespace(summary.anchor)
            summary = _merge(xp, list(self._rules.values()), before, summary)
        self._fused, self._summary = None, summary
        self.n_members += n_members

    def _whole_summary(self) -> _Summary | None:
        """Return the summary of the members so far under all rules; None before the first."""
        if self._fused is None:
            return self._summary
        by_rule = self._fused.statistics(self._rules)
        if self._summary is not None:
            others = [name for name in self._rules if name not in self._fused.names]
            arrays = zip(self._summary.aleatoric, self._summary.states, strict=True)
            by_rule |= dict(zip(others, arrays, strict=True))
        return self._fused.summary([by_rule[name] for name in self._rules])

    def _require_whole(self) -> None:
        """Raise if an update was interrupted: instances may have different members."""
        if self._is_changing:
            raise ScorewiseError("an update was interrupted halfway; fill a new Accumulator")

    def _shape(self) -> tuple[int, ...]:
        """The shape of members so far, ``(..., K)``; empty before the first."""
        if self._fused is not None:
            return self._fused.state.shape
        return () if self._summary is None else tuple(self._summary.anchor.shape)

    def _check_same_instances(self, shape: Sequence[int], like: Array) -> None:
        """Raise unless a member of this shape fits those so far; ``like`` has its dtype."""
        before = self._shape()
        if not before:
            return
        example = self._fused.like if self._fused is not None else self._filled().anchor
        validate.same_library(example, like)
        if before != tuple(shape):
            raise InvalidInput(
                f"members have shape {before} so far, this one {tuple(shape)}; all must be of the "
                "same instances and classes"
            )
        if example.dtype != like.dtype:
            raise InvalidInput(
                f"members have dtype {example.dtype} so far, this one {like.dtype}; "
                "convert them to the same"
            )

    def _filled(self) -> _Summary:
        if self._summary is None:
            raise InvalidInput("no member was added yet; call update first")
        return self._summary

    def merge(self, other: Accumulator, *, check_rules: bool = True) -> None:
        """Add the members of another accumulator of the same instances and rules.

        Parameters
        ----------
        other : Accumulator
            It is not changed.
        check_rules : bool
            Raise unless the rules are equal. ``False`` compares their names only. Use it for rules
            made from functions of your own and accumulators that were filled by other processes:
            each process has its own copy of a function, and no copy equals another.

        Raises
        ------
        InvalidInput
            If its rules or instances differ; nothing is then added.
        """
        # in the same order, as the statistics are
        is_same = isinstance(other, Accumulator) and (
            list(other._rules.values()) == list(self._rules.values())
            if check_rules
            else list(other._rules) == list(self._rules)
        )
        if not is_same:
            raise InvalidInput(f"cannot merge {other!r} into {self!r}: the rules must be the same")
        if other is self:
            raise InvalidInput("cannot merge an accumulator into itself: its members count once")
        self._require_whole()
        other._require_whole()
        summary = other._whole_summary()
        if summary is None:
            return
        self._check_same_instances(summary.anchor.shape, summary.anchor)
        self._add(_owned(summary), other.n_members)

    def empty(self) -> Accumulator:
        """Return an accumulator under the same rules, without members.

        Examples
        --------
        >>> import scorewise as sw
        >>> acc = sw.Accumulator("log")
        >>> acc.update([[0.9, 0.1]])
        >>> acc.empty()
        Accumulator([log], 0 members)
        """
        other = Accumulator(self._rules)
        other._single = self._single
        return other

    def merge_rows(self, parts: Sequence[Accumulator]) -> None:
        """Add members whose instances are spread over several accumulators.

        Use it where each worker has all members of some rows. Rules are compared by their names.

        Parameters
        ----------
        parts : sequence of Accumulator
            Of the same members of consecutive instances: the first n, the next, and so on. They
            are not changed.

        Raises
        ------
        InvalidInput
            If the parts have different members, rules, classes or precision, or other instances
            together than the members so far; nothing is then added.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(1000, 20))
        >>> acc, first, rest = (sw.Accumulator("log") for _ in range(3))
        >>> first.update_members(probs[:300])
        >>> rest.update_members(probs[300:])
        >>> acc.merge_rows([first, rest])
        >>> bool(np.allclose(acc.result().total, sw.decompose(probs, "log").total))
        True
        """
        self._require_whole()
        if not parts:
            raise InvalidInput("there are no parts; pass at least one accumulator")
        summaries = []
        for part in parts:
            part._require_whole()
            summary = part._whole_summary()
            if list(part._rules) != list(self._rules) or part.n_members != parts[0].n_members:
                raise InvalidInput(
                    f"{part!r} is not of the rules of {self!r} and the members of {parts[0]!r}"
                )
            if summary is None:
                raise InvalidInput(f"{part!r} has no members; update it first")
            summaries.append(summary)
        first = summaries[0].anchor
        for summary in summaries:
            anchor = summary.anchor
            if anchor.shape[1:] != first.shape[1:] or anchor.dtype != first.dtype:
                raise InvalidInput(
                    f"a part has members {tuple(anchor.shape)} of {anchor.dtype}, the first "
                    f"{tuple(first.shape)} of {first.dtype}; all must be alike"
                )
        whole = _owned(_summary_of_rows(summaries))
        self._check_same_instances(whole.anchor.shape, whole.anchor)
        self._add(whole, parts[0].n_members)

    def result(self) -> Decomposition | Decompositions:
        """Return the decomposition of all members so far, as :func:`scorewise.decompose` does.

        Raises
        ------
        InvalidInput
            If no member was added, or an instance has only members of weight 0.
        """
        self._require_whole()
        by_rule: dict[str, Decomposition] = {}
        if self._fused is not None:
            by_rule |= self._fused.results()
        if self._fused is None or self._summary is not None:
            others = [name for name in self._rules if name not in by_rule]
            results = self._filled().results([self._rules[name] for name in others])
            by_rule |= dict(zip(others, results, strict=True))
        if self._single:
            return next(iter(by_rule.values()))
        return Decompositions((name, by_rule[name]) for name in self._rules)


# -- the members so far, accumulated by a kernel ---------------------------------------------------


def _can_go_on(rule: ScoringRule) -> bool:
    """Return whether a kernel finds the regrets that it needs in the epistemic state of a rule."""
    structure = rule.structure
    return isinstance(rule, DecisionRule) or structure is None or structure.name != "decision"


class _Fused:
    """The members so far under rules that a kernel accumulates, in host memory."""

    def __init__(self, names: tuple[str, ...], state: AccumulatorState, like: Array) -> None:
        self.names = names
        self.state = state
        self.like = like  # an empty array of the members' library, device and precision
        # One number each, as long as no member has a weight for each instance.
        self._weight = np.asarray(0.0)
        self._anchor_weight = np.asarray(-1.0)  # so that the first member is heavier

    def add(self, raw: RawPredictions, weight: np.ndarray) -> bool:
        """Add a member with its weight, one number or one for each instance.

        Return False, and add nothing, if it is no prediction.
        """
        if not self.state.add(raw, partial(self._shares, weight)):
            return False
        # New arrays only if these were one number: arrays of another accumulator are never here.
        larger = weight.ndim > self._weight.ndim
        sums, heaviest = (None, None) if larger else (self._weight, self._anchor_weight)
        wide = np.dtype(np.float64)
        with np.errstate(all="ignore"):  # result() raises for an infinite sum
            self._weight = np.asarray(np.add(self._weight, weight, out=sums, dtype=wide))
        heaviest = np.maximum(self._anchor_weight, weight, out=heaviest, dtype=wide)
        self._anchor_weight = np.asarray(heaviest)
        return True

    def _shares(self, weight: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Return the shares of a new member, as AccumulatorState.add takes them."""
        dtype = dtype_name(self.like)
        if weight.ndim == self._weight.ndim == 0:  # without arrays, which take longer
            own, others = float(weight), float(self._weight)
            total = own + others if own + others > 0 else 1.0
            heavier = float(self._anchor_weight < weight)
            return np.array([[own / total], [others / total], [heavier]], dtype)
        arrays = (weight, self._weight, self._anchor_weight)
        w, before, heaviest = (x.reshape(-1)[start:stop] if x.ndim else x for x in arrays)
        shares = np.empty((3, stop - start), dtype)
        with np.errstate(all="ignore"):
            scale = before + w
            scale = np.where(scale > 0, scale, 1.0)
            shares[0], shares[1], shares[2] = w / scale, before / scale, heaviest < w
        return shares

    def to_library(self, values: np.ndarray) -> Array:
        """Return an array that nobody else has, in the library and precision of the members."""
        xp = namespace(self.like)
        return values[()] if xp is namespace(values) else as_dtype_of(xp, values, self.like)

    def results(self) -> dict[str, Decomposition]:
        """Return the decompositions by the names of the rules."""
        components = self.state.components()
        validate.require_positive_weight(np.broadcast_to(self._weight, self.state.shape[:-1]))
        return {
            name: Decomposition(*(self.to_library(x) for x in three))
            for name, three in zip(self.names, components, strict=True)
        }

    def statistics(self, rules: Mapping[str, ScoringRule]) -> dict[str, tuple[Array, Array]]:
        """Return E H(θ) and the epistemic state by the names of the rules."""
        components = self.state.components()
        by_rule = {}
        for i, (name, (_, aleatoric, epistemic)) in enumerate(
            zip(self.names, components, strict=True)
        ):
            regrets = self.state.regrets(i) if isinstance(rules[name], DecisionRule) else None
            state = epistemic if regrets is None else regrets
            by_rule[name] = self.to_library(aleatoric), self.to_library(state)
        return by_rule

    def summary(self, statistics: Sequence[tuple[Array, Array]]) -> _Summary:
        """Return the summary with these statistics under each rule."""
        return _Summary(
            weight=self.weight,
            anchor_weight=self._of_each(self._anchor_weight),
            anchor=self.to_library(self.state.anchor),
            deviation=self.to_library(self.state.deviation),
            aleatoric=tuple(aleatoric for aleatoric, _ in statistics),
            states=tuple(state for _, state in statistics),
        )

    @property
    def weight(self) -> Array:
        """The total weight of the members, ``(...)``, a new array."""
        return self._of_each(self._weight)

    def _of_each(self, weight: np.ndarray) -> Array:
        """Return a weight of every instance, ``(...)``, in the library of the members."""
        wide = np.broadcast_to(weight, self.state.shape[:-1]).copy()
        return on_device_of(namespace(self.like), wide, self.like)

    def load(self, summary: _Summary) -> None:
        """Take over the members of a summary in host memory, under the same rules."""
        self._weight = to_numpy(summary.weight).astype(np.float64)
        self._anchor_weight = to_numpy(summary.anchor_weight).astype(np.float64)
        self.state.load(
            to_numpy(summary.anchor),
            to_numpy(summary.deviation),
            [to_numpy(x) for x in summary.aleatoric],
            [to_numpy(x) for x in summary.states],
        )


# -- the summary of the members so far ------------------------------------------------------------


@dataclass(frozen=True)
class _Summary:
    """Statistics of the members so far, which can be merged and decomposed.

    The mean is stored as ``anchor + deviation``, the anchor being the heaviest member so far, so
    that identical members leave exact zeros.
    """

    weight: Array  # (...), in float64: the members' total weight
    anchor_weight: Array  # (...), in float64
    anchor: Array  # (..., K)
    deviation: Array  # (..., K): θ̄ − anchor
    aleatoric: tuple[Array, ...]  # (...) per rule: E H(θ)
    # epistemic states per rule: EU (...), or numbers (..., R) that EU follows from
    states: tuple[Array, ...]

    @property
    def mean(self) -> Array:
        """The mean θ̄, ``(..., K)``."""
        return _mean(self.anchor, self.deviation)

    @property
    def is_writable(self) -> bool:
        """Whether its arrays can be written to, where they are."""
        arrays = self.anchor, self.deviation, *self.states
        return all(is_on_device(x) and is_writable(x) for x in arrays)

    def of(self, change: Callable[[Array], Array]) -> _Summary:
        """Return the summary with each array changed."""
        return _Summary(
            weight=change(self.weight),
            anchor_weight=change(self.anchor_weight),
            anchor=change(self.anchor),
            deviation=change(self.deviation),
            aleatoric=tuple(map(change, self.aleatoric)),
            states=tuple(map(change, self.states)),
        )

    # Results share memory with small arrays, ``(...)``, so only the others are written to.

    def filled_with(self, other: _Summary) -> _Summary:
        """Return another summary of the same instances, its large arrays in the memory of this one.

        Large are the anchor and the deviation, ``(n, ..., K)``, and states ``(n, ..., R)``.
        """

        def filled(own: Array, values: Array) -> Array:
            if own.ndim < self.anchor.ndim:
                return values
            if values is not own:
                own[...] = values
            return own

        return replace(
            other,
            anchor=filled(self.anchor, other.anchor),
            deviation=filled(self.deviation, other.deviation),
            states=tuple(map(filled, self.states, other.states)),
        )

    def with_small_arrays_of(self, parts: Sequence[_Summary]) -> _Summary:
        """Return the summary with its large arrays ``(N, ..., K)``, and the small ones of parts.

        The parts are of n instances each, N together; their arrays ``(n, ...)`` are joined.
        """
        xp, ndim = namespace(self.anchor), self.anchor.ndim

        def joined(own: Array, pieces: Iterable[Array]) -> Array:
            return own if own.ndim == ndim else xp.concat(list(pieces))

        def each(own: Sequence[Array], pieces: Iterable[Sequence[Array]]) -> tuple[Array, ...]:
            return tuple(map(joined, own, zip(*pieces, strict=True)))

        return replace(
            self,
            weight=joined(self.weight, (part.weight for part in parts)),
            anchor_weight=joined(self.anchor_weight, (part.anchor_weight for part in parts)),
            aleatoric=each(self.aleatoric, (part.aleatoric for part in parts)),
            states=each(self.states, (part.states for part in parts)),
        )

    def results(self, rules: Sequence[ScoringRule]) -> list[Decomposition]:
        """Return the decompositions; raise if an instance has only members of weight 0."""
        xp = namespace(self.anchor)
        validate.require_positive_weight(self.weight)
        return [
            Decomposition(total, aleatoric, rule._epistemic_of_state(xp, state))
            for rule, total, aleatoric, state in zip(
                rules, self.totals(rules), self.aleatoric, self.states, strict=True
            )
        ]

    def totals(self, rules: Sequence[ScoringRule]) -> list[Array]:
        """Return H(θ̄) under each rule, ``(...)``, some instances at a time."""
        xp = namespace(self.anchor)
        by_block = []
        for rows in blocks(self.anchor, 0):
            mean = _mean(self.anchor[rows], self.deviation[rows])
            by_block.append([rule._entropy(xp, mean) for rule in rules])
        return _concatenate(xp, by_block)


def _owned(summary: _Summary) -> _Summary:
    """Return a summary of another accumulator, copied if members may be added in place."""
    return summary.of(lambda x: x + 0) if summary.is_writable else summary


def _mean(anchor: Array, deviation: Array) -> Array:
    return namespace(anchor).maximum(anchor + deviation, 0.0)


def _concatenate(xp: Namespace, by_chunk: Sequence[Sequence[Array]]) -> list[Array]:
    """Return each array of all chunks, concatenated along the instances."""
    if len(by_chunk) == 1:
        return list(by_chunk[0])
    return [xp.concat(arrays) for arrays in zip(*by_chunk, strict=True)]


def _summary_of_member(
    xp: Namespace, theta: Array, weight: Array, rules: Sequence[ScoringRule]
) -> _Summary:
    """Return the summary of a single member's predictions ``(..., K)``."""
    return _Summary(
        weight=weight,
        anchor_weight=weight,
        anchor=theta + 0.0,  # a copy: the caller may reuse its buffer
        deviation=xp.zeros_like(theta),
        aleatoric=tuple(rule._entropy(xp, theta) for rule in rules),
        states=tuple(rule._state_of_member(xp, theta) for rule in rules),
    )


class _ChunkReader:
    """Members whose instances arrive in chunks ``(n, M, K)``, summarised one after the other.

    Memory is allocated once if the number of instances is known and arrays can be written to.
    """

    def __init__(
        self,
        rules: Mapping[str, ScoringRule],
        weights: Any,
        n_instances: int | None,
        *,
        on_host: bool,
    ) -> None:
        if n_instances is not None:
            validate.whole(n_instances, "n_instances", at_least=0)
        self._rules = rules
        self._weights: np.ndarray | None = None
        if weights is not None:
            self._weights = validate.real(weights, "weights", to_numpy).astype(np.float64)
        self._expected = n_instances
        self._on_host = on_host
        self._first: Array | None = None
        self._n_instances = 0
        self._statistics_by_chunk: list[list[Array]] = []
        self._whole: list[Array] = []

    @property
    def n_members(self) -> int:
        """The number of members M."""
        return 0 if self._first is None else int(self._first.shape[-2])

    def add(self, raw: RawPredictions) -> None:
        """Add the next instances."""
        self._check_fits(raw.values)
        raw = raw.block(raw.values, (self._n_instances,))
        statistics = _statistics_by_kernel(raw, self._weights, self._rules)
        if statistics is None:  # no kernel, or no predictions: the error says where
            statistics = _chunk_statistics(Samples.of(raw, self._weights), self._rules)
        if self._on_host:
            statistics = [to_numpy(x) for x in statistics]
        start, n = self._n_instances, raw.values.shape[0]
        self._n_instances += n
        if self._expected is None or not all(map(is_writable, statistics)):
            self._statistics_by_chunk.append(statistics)
            return
        if not self._whole:
            self._whole = [empty_rows(x, self._expected) for x in statistics]
        if self._n_instances <= self._expected:
            for whole, of_chunk in zip(self._whole, statistics, strict=True):
                whole[start : start + n] = of_chunk

    def _check_fits(self, values: Array) -> None:
        """Raise unless all chunks have the same members, library and precision."""
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
        first, shape = tuple(self._first.shape[1:]), tuple(values.shape[1:])
        if shape != first or values.dtype != self._first.dtype:
            raise InvalidInput(
                f"the chunk from instance {self._n_instances} on has {shape} members and classes "
                f"of {values.dtype}, the first {first} of {self._first.dtype}; all must be alike"
            )

    def summary(self) -> _Summary:
        """Return the summary of all chunks."""
        if self._first is None:
            raise InvalidInput("there are no chunks; pass at least one, of shape (n, M, K)")
        if self._expected not in {None, self._n_instances}:
            raise InvalidInput(
                f"n_instances={self._expected}, but the chunks have {self._n_instances} instances"
            )
        weights = np.ones(self.n_members) if self._weights is None else self._weights
        statistics = self._whole
        if not statistics:
            first_xp = namespace(self._statistics_by_chunk[0][0])
            statistics = _concatenate(first_xp, self._statistics_by_chunk)
        anchor, deviation, *values = statistics
        ones = namespace(anchor).ones_like(to_float64(namespace(anchor), anchor[..., 0]))
        return _Summary(
            weight=ones * float(weights.sum()),
            anchor_weight=ones * float(weights.max()),
            anchor=anchor,
            deviation=deviation,
            aleatoric=tuple(values[: len(self._rules)]),
            states=tuple(values[len(self._rules) :]),
        )


def _summary_of_rows(parts: Sequence[_Summary]) -> _Summary:
    """Return the summary of the instances of all parts, which have the same members."""
    xp = namespace(parts[0].anchor)

    def joined(values: Callable[[_Summary], Sequence[Array]]) -> list[Array]:
        return _concatenate(xp, [values(part) for part in parts])

    weight, anchor_weight, anchor, deviation = joined(
        lambda part: (part.weight, part.anchor_weight, part.anchor, part.deviation)
    )
    return _Summary(
        weight=weight,
        anchor_weight=anchor_weight,
        anchor=anchor,
        deviation=deviation,
        aleatoric=tuple(joined(lambda part: part.aleatoric)),
        states=tuple(joined(lambda part: part.states)),
    )


def _summary_of_members(
    raw: RawPredictions, weights: Any, rules: Mapping[str, ScoringRule]
) -> _Summary:
    """Return the summary of members ``(..., M, K)``, all of whose weights may be 0."""
    w = totals = heaviest = None
    if weights is not None:
        w = validate.checked_weights(weights, raw.values, raw.layout, check=raw.check)
        xp = namespace(w)
        totals, heaviest = xp.sum(w, axis=-1), xp.max(w, axis=-1)
        # members without weight have a mean, too; it does not count once they are merged
        w = xp.where(totals[..., None] > 0, w, 1.0)
    statistics = None
    if w is None or (isinstance(w, np.ndarray) and w.ndim == 1):
        statistics = _statistics_by_kernel(raw, w, rules)
    if statistics is None:
        statistics = _chunk_statistics(Samples.of(raw, w), rules)
    anchor, deviation, *values = statistics
    xp = namespace(anchor)
    ones = xp.ones_like(to_float64(xp, anchor[..., 0]))
    if totals is None:
        totals, heaviest = ones * raw.values.shape[-2], ones
    else:
        totals, heaviest = (ones * on_device_of(xp, x, anchor) for x in (totals, heaviest))
    return _Summary(
        weight=totals,
        anchor_weight=heaviest,
        anchor=anchor,
        deviation=deviation,
        aleatoric=tuple(values[: len(rules)]),
        states=tuple(values[len(rules) :]),
    )


def _statistics_by_kernel(
    raw: RawPredictions, weights: np.ndarray | None, rules: Mapping[str, ScoringRule]
) -> list[Array] | None:
    """Return the statistics as _chunk_statistics does, by a kernel that accumulates.

    A softmax then has the same rounding errors as that of a member added on its own.
    """
    kernel = None if is_compiled(raw.values) else kernels.pick(raw, None)
    if kernel is None or not kernels.accumulates(kernel) or raw.values.ndim != 3:
        return None
    if len(rules) > kernel.MOST_RULES:
        return None
    if not all(kernel.supports(rule, Extras()) for rule in rules.values()):
        return None
    n, n_members, n_classes = raw.values.shape
    weights = np.ones(n_members) if weights is None else weights
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        return None
    raw.check_logits()
    xp = namespace(raw.values)
    like = xp.zeros_like(working_precision(xp, raw.values[:0, 0, :]))
    dtype = dtype_name(like)
    state = kernel.new_state((n, n_classes), dtype, list(rules.values()))
    fused = _Fused(tuple(rules), state, like)
    before = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
    heaviest = np.concatenate([[-1.0], np.maximum.accumulate(weights)[:-1]])
    scale = np.where(before + weights > 0, before + weights, 1.0)
    shares = np.stack([weights / scale, before / scale, heaviest < weights])
    if not fused.state.add_all(raw, shares.astype(dtype)):
        return None
    both = fused.statistics(rules).values()
    means = [fused.to_library(x) for x in (fused.state.anchor, fused.state.deviation)]
    return [*means, *(aleatoric for aleatoric, _ in both), *(state for _, state in both)]


def _chunk_statistics(samples: Samples, rules: Mapping[str, ScoringRule]) -> list[Array]:
    """Return anchor and deviation, then E H(θ) and then the epistemic state under each rule."""
    xp = namespace(samples.probs)

    def anchor_and_shift(block: Samples) -> list[Array]:
        return [
            block.anchor + 0.0,
            block.average(difference(xp, block.probs, block.anchor[..., None, :])),
        ]

    means = samples.by_blocks(anchor_and_shift)
    results = decompose(samples, rules)
    states = [
        rule._state_of_members(xp, samples, results[name].epistemic) for name, rule in rules.items()
    ]
    return [*means, *(results[name].aleatoric for name in rules), *states]


def _merge(xp: Namespace, rules: list[ScoringRule], first: _Summary, second: _Summary) -> _Summary:
    """The summary of both sets of members together, by the merge identity."""
    with np.errstate(all="ignore"):  # result() raises for an infinite sum
        weight = first.weight + second.weight
        scale = xp.where(weight > 0, weight, 1.0)
        share = xp.astype(second.weight / scale, first.anchor.dtype)  # of the second set
        rest = xp.astype(first.weight / scale, first.anchor.dtype)
    # μ₂ − μ₁
    step = difference(xp, second.anchor, first.anchor) + (second.deviation - first.deviation)
    lighter = first.anchor_weight < second.anchor_weight
    anchor, deviation = first.anchor, first.deviation + share[..., None] * step
    if is_recorded(step) or bool(xp.any(lighter)):
        swap = lighter[..., None]
        anchor = xp.where(swap, second.anchor, anchor)
        deviation = xp.where(swap, second.deviation - rest[..., None] * step, deviation)
    merged = _Summary(
        weight=weight,
        anchor_weight=xp.where(lighter, second.anchor_weight, first.anchor_weight),
        anchor=anchor,
        deviation=deviation,
        aleatoric=(),
        states=(),
    )
    mean, mean_1, mean_2 = merged.mean, first.mean, second.mean
    if not smallest(xp, mean) > 0:
        # A class that is possible in a set with weight stays possible: divergences are finite.
        is_possible = (mean_1 > 0) & (rest > 0)[..., None]
        is_possible = is_possible | ((mean_2 > 0) & (share > 0)[..., None])
        mean = xp.where((mean > 0) | ~is_possible, mean, smallest_normal(xp, mean))
    return replace(
        merged,
        aleatoric=tuple(
            rest * a + share * b for a, b in zip(first.aleatoric, second.aleatoric, strict=True)
        ),
        states=tuple(
            rule._merge_states(xp, (a, b), (rest, share), mean, (mean_1, mean_2), step)
            for rule, a, b in zip(rules, first.states, second.states, strict=True)
        ),
    )
