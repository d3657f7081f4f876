"""Gradients of the components, in closed form.

Under a proper rule the loss vector is the gradient of the entropy along the simplex (Savage). With
weights w that sum to 1, the gradients with respect to the probabilities θ_m of a member are

    w_m·ℓ(θ̄, ·) of TU,   w_m·ℓ(θ_m, ·) of AU,   w_m·[ℓ(θ̄, ·) − ℓ(θ_m, ·)] of EU.

Only differences within a row count: a constant of a row points out of the simplex, and vanishes
behind a softmax or a division by the sum. Where an entropy has a kink, as at a tie of decisions,
the loss vector of the first of them is a supergradient. The slope of p log p is infinite at 0: a
probability below the smallest normal number counts as that number, so that the gradient is finite,
and behind a softmax 0.

Second derivatives are those of these formulas, which torch then records.

The backward pass needs nothing of the forward pass but the members. So the components are computed
of values alone, by the path that they would take without a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from scorewise import kernels
from scorewise._array import (
    Array,
    Namespace,
    at_least,
    copied,
    dot,
    is_array,
    is_differentiated_backwards,
    is_recorded,
    is_writable,
    minus,
    namespace,
    of_largest,
    plus,
    smallest_normal,
    times,
    with_backward,
)
from scorewise._inputs import RawPredictions
from scorewise._members import Members
from scorewise.distributions import Samples
from scorewise.kernels import Extras, differentiates
from scorewise.rules import ScoringRule


def gradient_is_closed_form(members: Members, extras: Extras) -> bool:
    """Return whether torch needs a gradient of the members, and it is computed in closed form."""
    if not is_differentiated_backwards(members.raw.values) or extras:
        return False
    return not (is_array(members.weights) and is_recorded(members.weights))


def detached(members: Members) -> Members:
    """Return the members as values alone, of which no operation is recorded."""
    return _with_values(members, members.raw.values.detach())


def _with_values(members: Members, values: Array) -> Members:
    return Members(replace(members.raw, values=values), members.weights)


def components_with_gradient(
    members: Members,
    rules: Sequence[ScoringRule],
    compute: Callable[[Members, Sequence[ScoringRule], Extras], list[Array]],
) -> list[Array]:
    """Return the components that ``compute`` returns of values alone, with their gradient.

    Until the backward pass torch stores the members, perhaps elsewhere. So the functions here hold
    none of them, and a copy of the weights, which the caller may change.
    """
    members_without_values = Members(
        replace(members.raw, values=members.raw.values.detach().new_empty(0)),
        None if members.weights is None else copied(members.weights),
    )

    def components(values: Array) -> list[Array]:
        return compute(_with_values(members_without_values, values), rules, Extras())

    def gradient(values: Array, upstream: Sequence[Array | None]) -> Array:
        return _gradient(_with_values(members_without_values, values), rules, upstream)

    return with_backward(members.raw.values, components, gradient)


def _gradient(
    members: Members, rules: Sequence[ScoringRule], upstream: Sequence[Array | None]
) -> Array:
    """Return the gradient of all rules, by a kernel that of the rules that it supports."""
    raw, weights = members.raw, members.weights
    kernel = kernels.pick(raw, weights)
    if not differentiates(kernel):
        return gradient_by_arrays(raw, weights, rules, upstream)
    is_fused = [kernel.supports(r, Extras()) and kernel.supports_gradient(r) for r in rules]
    fused, others = _split(rules, upstream, is_fused)
    gradient = kernel.gradient(raw, weights, *fused) if fused[0] else None
    if gradient is None:
        return gradient_by_arrays(raw, weights, rules, upstream)
    return plus(gradient, gradient_by_arrays(raw, weights, *others)) if others[0] else gradient


_Part = tuple[list[ScoringRule], list[Array | None]]


def _split(
    rules: Sequence[ScoringRule], upstream: Sequence[Array | None], is_first: Sequence[bool]
) -> tuple[_Part, _Part]:
    """Return the rules that are first and the others, with the upstream of their components."""
    parts: tuple[_Part, _Part] = ([], []), ([], [])
    for i, (rule, first) in enumerate(zip(rules, is_first, strict=True)):
        part_rules, part_upstream = parts[0 if first else 1]
        part_rules.append(rule)
        part_upstream += upstream[3 * i : 3 * i + 3]
    return parts


def gradient_by_arrays(
    raw: RawPredictions,
    weights: Any,
    rules: Sequence[ScoringRule],
    upstream: Sequence[Array | None],
) -> Array:
    """Return the gradient of a scalar with respect to the members, by the rules' own formulas.

    Use it as the reference that a kernel is compared with.

    Parameters
    ----------
    raw : RawPredictions (..., M, K)
        Members as the caller passed them, such as ``samples.raw()``. They are not checked.
    weights : array (M,) or (..., M), or None
        Member weights as the caller passed them.
    rules : sequence of ScoringRule
    upstream : sequence of arrays (...) or None
        The scalar's derivatives with respect to total, aleatoric and epistemic uncertainty of each
        rule, one after the other; None for those that are 0.

    Returns
    -------
    array (..., M, K)
        Of the dtype of ``raw.values``. Only differences within a row count; it is 0 for the row's
        largest probability.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.decompose import gradient_by_arrays
    >>> raw = sw.Samples([[[0.9, 0.1], [0.6, 0.4]]]).raw()
    >>> gradient_by_arrays(raw, None, [sw.rules.brier], [None, None, np.ones(1)]).round(3)
    array([[[ 0. , -0.3],
            [ 0. ,  0.3]]])
    """
    raw = replace(raw, check=False)
    xp = namespace(raw.values)
    gradient = xp.empty_like(raw.values) if is_writable(raw.values) else None
    used = [g for g in upstream if g is not None]

    def of_block(samples: Samples, values: Array, *rows: Array) -> list[Array]:
        remaining = iter(rows)
        own = [None if g is None else next(remaining)[..., None, None] for g in upstream]
        p = samples.probs
        slope = _slope(xp, samples, rules, own)
        if raw.from_logits or raw.normalize:
            slope = plus(slope, -dot(xp, slope, p)[..., None])
        if raw.from_logits:
            slope = times(slope, p)
        elif raw.normalize:
            slope = times(slope, 1 / xp.sum(values, axis=-1, keepdims=True, dtype=p.dtype))
        w = samples.weights
        slope = times(slope, 1 / p.shape[-2] if w is None else w[..., None])
        if slope.dtype != values.dtype:
            slope = _in_dtype_of(xp, slope, p, values)
        if gradient is None:
            return [slope]
        next(remaining)[...] = slope
        return []

    whole = [] if gradient is None else [gradient]
    parts = max([1, *(rule.n_block_parts for rule in rules)])
    joined = Samples.map_blocks(of_block, raw, weights, raw.values, *used, *whole, parts=parts)
    return joined[0] if gradient is None else gradient


def _in_dtype_of(xp: Namespace, slope: Array, p: Array, values: Array) -> Array:
    """Return a gradient in the dtype of the values, finite also at a probability of 0."""
    info = xp.finfo(values.dtype)
    limited = xp.clip(slope, float(info.min), float(info.max))
    is_tiny = p < float(info.smallest_normal)
    return xp.astype(xp.where(is_tiny, limited, slope), values.dtype)


def _slope(
    xp: Namespace, samples: Samples, rules: Sequence[ScoringRule], upstream: Sequence[Array | None]
) -> Array:
    """Return the gradient with respect to the probabilities, for members of weight 1.

    It is 0 for the largest probability of a row. The gradient behind a softmax is p·(v − ⟨v, p⟩),
    which would cancel where that probability is close to 1.
    """
    tiny = smallest_normal(xp, samples.probs)
    p, q = at_least(xp, samples.probs, tiny), at_least(xp, samples.mean, tiny)[..., None, :]
    of_mean, of_members = 0 * q, 0 * p
    for i, rule in enumerate(rules):
        total, aleatoric, epistemic = upstream[3 * i : 3 * i + 3]
        if total is not None:
            of_mean = plus(of_mean, total * rule._entropy_gradient(xp, q))
        if aleatoric is not None:
            term = rule._entropy_gradient(xp, p)
            of_members = plus(of_members, times(term, aleatoric))
        if epistemic is not None:
            change = rule._gradient_change(xp, q, p, samples.deviations)
            of_members = plus(of_members, times(change, epistemic))
    slope = plus(of_members, of_mean)
    return minus(slope, of_largest(xp, slope, samples.probs))
