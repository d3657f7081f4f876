"""A check of the gradients that a kernel computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scorewise._array import Array, namespace
from scorewise.decompose import gradient_by_arrays
from scorewise.distributions import Samples
from scorewise.errors import KernelMismatch
from scorewise.kernels import DifferentiatingKernel
from scorewise.rules import DecisionRule, ScoringRule
from scorewise.testing._kernel_cases import ALLOWED, Case, margin

_OF_HALF = 2.0**-9, 2.0**-24  # rounding errors of a gradient in float16, as the members are
_ROUNDING_ERRORS = 8  # of a loss, of which the difference of two close members has fewer


def check_gradient(
    kernel: DifferentiatingKernel,
    rules: Sequence[ScoringRule],
    case: Case,
    rng: np.random.Generator,
) -> None:
    """Raise if a gradient is not that of the array path, or not 0 for identical members."""
    rules = [rule for rule in rules if kernel.supports_gradient(rule)]
    members = case.members()
    *shape, _, _ = members.raw.values.shape
    if not rules or not case.array.size:
        return
    upstream: list[Array | None] = []
    for _ in rules:
        used = rng.random(3) < (0.7, 0.7, 0.9) if rng.random() < 0.5 else (False, False, True)
        upstream += [rng.normal(size=shape).astype(case.dtype) if u else None for u in used]
    gradient = kernel.gradient(members.raw, members.weights, rules, upstream)
    if gradient is None:
        raise KernelMismatch(f"gradient declines valid predictions: {case}")
    if gradient.shape != members.raw.values.shape or gradient.dtype != case.array.dtype:
        raise KernelMismatch(
            f"gradient returns {gradient.shape} of {gradient.dtype} in place of "
            f"{members.raw.values.shape} of {case.array.dtype}: {case}"
        )
    only_epistemic = all(g is None for i, g in enumerate(upstream) if i % 3 < 2)
    if case.kind == "identical" and only_epistemic and np.any(gradient):
        raise KernelMismatch(f"gradient of epistemic is not 0 for identical members: {case}")
    unchecked = case.options | {"check": False}  # rows sum to 1 as those of their dtype do
    wide = replace(case, array=case.array.astype(np.float64), options=unchecked).members()
    reference = gradient_by_arrays(wide.raw, wide.weights, rules, upstream)
    _compare(gradient, reference, rules, upstream, case, wide.samples.probs)


def _compare(
    gradient: Array,
    reference: Array,
    rules: Sequence[ScoringRule],
    upstream: Sequence[Array | None],
    case: Case,
    wide: Array,
) -> None:
    """Raise at the first gradient that differs where no rounding error decides.

    ``wide`` are the members' probabilities in float64.
    """
    members = case.members()
    samples, values = members.samples, members.raw.values
    p = samples.probs
    relative, absolute = ALLOWED[str(case.array.dtype)]
    least = 0.0
    if case.array.dtype == np.float16:
        relative, least = _OF_HALF
    tiny = 4 * float(np.finfo(case.dtype).tiny)
    weights = np.full(p.shape[-2], 1 / p.shape[-2]) if samples.weights is None else samples.weights
    rounding = _rounding(rules, upstream, samples, case)[..., None, None]
    of_losses = absolute * rounding * weights[..., None]
    is_tied = np.zeros(p.shape[:-2], bool)
    for rule in rules:
        if isinstance(rule, DecisionRule):  # rounding errors choose among tied decisions
            for points in (p, samples.mean[..., None, :]):
                is_tied |= (margin(rule, points) < 64 * absolute).any(axis=-1)
    is_defined = (p >= tiny) & (samples.mean[..., None, :] >= tiny)
    is_defined |= case.options.get("from_logits", False)

    def compare(gradient: Array, reference: Array, allowed: Array, where: str) -> None:
        size = np.max(np.abs(reference), axis=-1, keepdims=True)
        allowed = least + relative * size + allowed
        wrong = ~(np.abs(gradient - reference) <= allowed) & is_defined
        wrong = ~np.isfinite(gradient) | (wrong & ~is_tied[..., None, None])
        if np.any(wrong):
            index = np.unravel_index(int(np.argmax(wrong)), reference.shape)
            raise KernelMismatch(
                f"gradient{list(map(int, index))}{where} is {gradient[index]} by the kernel, "
                f"{reference[index]} by the array path, under {rules}: {case}"
            )

    if not case.is_rescaled:  # only differences within a row count
        top = np.argmax(p, axis=-1)[..., None]
        of_top, reference_of_top = (
            np.take_along_axis(x, top, axis=-1) for x in (gradient, reference)
        )
        compare(gradient - of_top, reference - reference_of_top, of_losses, "")
    # Behind a softmax an error in class k counts by p_k·(1 − p_k), which sees lost digits where a
    # member is sure of a class.
    others = np.sum(wide, axis=-1, keepdims=True) - wide
    with np.errstate(invalid="ignore"):  # infinities are found above
        behind = _behind_softmax(gradient, values, p, case)
    reference = _behind_softmax(reference, values, wide, case)
    compare(behind, reference, 2 * wide * others * of_losses, " behind a softmax")


def _behind_softmax(gradient: Array, values: Array, p: Array, case: Case) -> Array:
    """Return the gradient with respect to logits of which the members are a softmax."""
    if case.options.get("from_logits"):
        return gradient
    if case.options.get("normalize"):
        return values * gradient
    return p * (gradient - np.sum(p * gradient, axis=-1, keepdims=True))


def _rounding(
    rules: Sequence[ScoringRule], upstream: Sequence[Array | None], samples: Samples, case: Case
) -> Array:
    """Return the rounding errors of the losses of each instance, ``(...)``, in those of 1."""
    xp = namespace(samples.probs)
    p = xp.maximum(samples.probs, np.finfo(case.dtype).tiny)
    errors = np.zeros(p.shape[:-2])
    for i, rule in enumerate(rules):
        size = 1 + np.abs(rule._entropy_gradient(xp, p)).max(axis=(-2, -1))
        for j, g in enumerate(upstream[3 * i : 3 * i + 3]):
            is_close = j == 2 and not case.is_rescaled
            if g is not None:
                errors += np.abs(g) * size * (1 if is_close else _ROUNDING_ERRORS)
    return errors
