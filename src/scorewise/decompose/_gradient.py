"""Gradients of the components, in closed form.

Under a proper rule the loss vector is the gradient of the entropy along the simplex (Savage). With
weights w that sum to 1, the gradients with respect to the probabilities θ_m of a member are

    w_m·ℓ(θ̄, ·) of TU,   w_m·ℓ(θ_m, ·) of AU,   w_m·[ℓ(θ̄, ·) − ℓ(θ_m, ·)] of EU.

Only differences within a row count: a constant of a row points out of the simplex, and vanishes
behind a softmax or a division by the sum. Where an entropy has a kink, as at a tie of decisions,
the loss vector of the first of them is a subgradient. The slope of p log p is infinite at 0: a
probability below the smallest normal number counts as that number, so that the gradient is finite,
and behind a softmax 0.

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
    has_own_backward,
    is_array,
    is_recorded,
    namespace,
    plus,
    smallest_normal,
    times,
    with_backward,
)
from scorewise._inputs import RawPredictions
from scorewise._members import Members
from scorewise.decompose._array_path import components_by_arrays
from scorewise.distributions import Samples
from scorewise.kernels import Extras, differentiates
from scorewise.rules import ScoringRule


def have_own_gradient(members: Members, extras: Extras) -> bool:
    """Return whether torch needs a gradient of the members, and it is computed in closed form."""
    if not has_own_backward(members.raw.values) or extras:
        return False
    return not (is_array(members.weights) and is_recorded(members.weights))


def of_values(members: Members) -> Members:
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
    without = Members(
        replace(members.raw, values=members.raw.values.detach().new_empty(0)),
        None if members.weights is None else copied(members.weights),
    )
    return with_backward(
        members.raw.values,
        lambda values: compute(_with_values(without, values), rules, Extras()),
        lambda values, upstream: _gradient(_with_values(without, values), rules, upstream),
        lambda values: components_by_arrays(_with_values(without, values), rules, Extras()),
    )


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
        Of the dtype of ``raw.values``. Only differences within a row count.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.decompose import gradient_by_arrays
    >>> raw = sw.Samples([[[0.9, 0.1], [0.5, 0.5]]]).raw()
    >>> gradient_by_arrays(raw, None, [sw.rules.brier], [None, None, np.ones(1)]).round(3)
    array([[[ 0.2, -0.2],
            [-0.2,  0.2]]])
    """
    raw = replace(raw, check=False)
    xp = namespace(raw.values)
    gradient = xp.empty_like(raw.values)
    used = [g for g in upstream if g is not None]

    def of_block(samples: Samples, values: Array, gradient: Array, *used: Array) -> list[Array]:
        parts = iter(used)
        own = [None if g is None else next(parts)[..., None, None] for g in upstream]
        slope = _slope(xp, samples, rules, own)
        p = samples.probs
        if raw.from_logits or raw.normalize:
            slope = plus(slope, -dot(xp, slope, p)[..., None])
        if raw.from_logits:
            slope = times(slope, p)
        elif raw.normalize:
            slope = times(slope, 1 / xp.sum(values, axis=-1, keepdims=True, dtype=p.dtype))
        w = samples.weights
        gradient[...] = times(slope, 1 / p.shape[-2] if w is None else w[..., None])
        return []

    Samples.map_blocks(of_block, raw, weights, raw.values, gradient, *used)
    return gradient


def _slope(
    xp: Namespace, samples: Samples, rules: Sequence[ScoringRule], upstream: Sequence[Array | None]
) -> Array:
    """Return the gradient with respect to the probabilities, for members of weight 1."""
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
    return plus(of_members, of_mean)
