"""Members or chunks one at a time: the decomposition in memory O(N·K)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scorewise import _validate as validate
from scorewise._array import Array, namespace
from scorewise._receive import Options, receive, receive_members
from scorewise.accumulate._state import Chunks, State, merge, of_member
from scorewise.decompose import Decomposition, RuleLike, named_rules
from scorewise.errors import InvalidInput
from scorewise.rules import DecisionRule, ScoringRule


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
        self._state: State | None = None
        self.n_members = 0

    @property
    def dtype(self) -> Any:
        """In which precision members are accumulated; None before the first."""
        return None if self._state is None else self._state.anchor.dtype

    @property
    def mean(self) -> Array:
        """θ̄ of the members so far, ``(..., K)``.

        Raises
        ------
        InvalidInput
            If no member was added.
        """
        return self._filled().mean

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
        self._add(of_member(xp, theta, w, rules), 1)

    def update_chunks(
        self,
        chunks: Iterable[Any],
        weights: Any = None,
        *,
        n_instances: int | None = None,
        from_logits: bool = False,
        normalize: bool = False,
        check: bool = True,
    ) -> None:
        """Add several members for all instances, which arrive a chunk of instances at a time.

        Use it for predictions that are too many for memory: each chunk goes through the fused
        kernel and is forgotten.

        Parameters
        ----------
        chunks : iterable of arrays (n, M, K)
            All M members of the first n instances, of the next n, and so on.
        weights : array (M,), optional
            Member weights; 1 unless given.
        n_instances : int, optional
            How many there are in all, if known, so that memory is allocated once.
        from_logits, normalize, check
            As for :func:`scorewise.decompose`.

        Raises
        ------
        InvalidInput
            If the predictions do not fit each other or what was added before. Nothing is then
            added, nor where ``chunks`` itself raises.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(1000, 20))
        >>> acc = sw.Accumulator("log")
        >>> acc.update_chunks(probs[i : i + 100] for i in range(0, 1000, 100))
        >>> bool(np.allclose(acc.result().epistemic, sw.decompose(probs, "log").epistemic))
        True
        """
        options = Options(from_logits=from_logits, normalize=normalize, check=check)
        gathered = Chunks(self._rules, weights, n_instances)
        if self._state is not None and n_instances not in {None, self._state.anchor.shape[0]}:
            raise InvalidInput(
                f"there are {self._state.anchor.shape[0]} instances so far, not {n_instances}"
            )
        for chunk in chunks:
            gathered.add(receive_members(chunk, options))
        state = gathered.state()
        if self._state is not None:
            _check_same_instances(self._state, state.anchor)
        self._add(state, gathered.n_members)

    def _add(self, state: State, n_members: int) -> None:
        if self._state is not None:
            xp = namespace(state.anchor)
            state = merge(xp, list(self._rules.values()), self._state, state)
        self._state = state
        self.n_members += n_members

    def _filled(self) -> State:
        if self._state is None:
            raise InvalidInput("no member was added yet; call update first")
        return self._state

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
        if self._state is not None:
            _check_same_instances(self._state, other._state.anchor)
        self._add(other._state, other.n_members)

    def result(self) -> Decomposition | dict[str, Decomposition]:
        """The decomposition of all members so far, as :func:`scorewise.decompose` gives it.

        Raises
        ------
        InvalidInput
            If no member was added, or an instance has only members of weight 0.
        """
        state = self._filled()
        xp = namespace(state.anchor)
        validate.some_weight(state.weight)
        totals = state.totals(list(self._rules.values()))
        results = {
            name: Decomposition(
                total,
                aleatoric,
                rule._least_regret(xp, spread) if isinstance(rule, DecisionRule) else spread,
            )
            for (name, rule), total, aleatoric, spread in zip(
                self._rules.items(), totals, state.aleatoric, state.spread, strict=True
            )
        }
        return results[""] if self._single else results


def _check_same_instances(state: State, theta: Array) -> None:
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
