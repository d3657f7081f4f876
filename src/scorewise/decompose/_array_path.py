"""The array path: a rule's own formulas on arrays of any library, some instances at a time.

It is the reference that kernels are compared with, and serves what they do not: other libraries and
devices, gradients, and rules that users define.

The epistemic component is the mean divergence, which keeps its digits where members nearly agree.
Where they do not, TU − AU has the same digits and is much faster to compute, so only the rows where
it would lose digits are computed from divergences.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise import _validate as validate
from scorewise._array import (
    Array,
    Namespace,
    as_dtype_of,
    ends,
    eps,
    has_fixed_shapes,
    ignoring_errors,
    is_recorded,
    is_small_on_device,
    namespace,
)
from scorewise._inputs import InputOptions
from scorewise._members import Members
from scorewise._numerics import allowed_error
from scorewise.decompose._jackknife import Jackknife
from scorewise.distributions import Samples
from scorewise.kernels import Extras
from scorewise.rules import ScoringRule

_PARTS = 4  # of a block, for rules whose divergences need much memory
_ERROR_UNITS = 8  # rounding errors of 1 that TU − AU may have; up to 6.3 were measured


def components_by_arrays(
    members: Members | Samples, rules: Sequence[ScoringRule], extras: Extras
) -> list[Array]:
    """Return all components of all rules by the rules' own formulas, without a kernel.

    Use it as the reference that a kernel is compared with.

    Parameters
    ----------
    members : Samples (..., M, K)
        Also members that are not checked yet, as :func:`scorewise.decompose` has them.
    rules : sequence of ScoringRule
    extras : Extras
        What follows the three components of each rule.

    Returns
    -------
    list of arrays (...)
        Total, aleatoric and epistemic uncertainty and the extras, in the order of the rules.

    Raises
    ------
    InvalidInput
        If the members are invalid, or fewer than two have weight, which the jackknife needs.

    Examples
    --------
    >>> import scorewise as sw
    >>> from scorewise.decompose import components_by_arrays
    >>> samples = sw.Samples([[[0.9, 0.1], [0.5, 0.5]]])
    >>> components_by_arrays(samples, [sw.rules.brier], sw.kernels.Extras())
    [array([0.42]), array([0.34]), array([0.08])]
    """
    members = Members.of(members, None, InputOptions())
    if extras.jackknife:
        weights = members.raw.normalized_weights(members.weights)
        validate.require_two_weighted_members(weights, members.raw.layout)
    predictor = () if extras.predictor is None else (extras.predictor,)
    return members.by_blocks(
        lambda block, *q: [x for rule in rules for x in _components(block, rule, extras, *q)],
        *predictor,
        parts=max([1, *(rule.n_block_parts for rule in rules)]),
    )


def _components(
    samples: Samples, rule: ScoringRule, extras: Extras, q: Array | None = None
) -> list[Array]:
    """Return the three components of a rule, of the mean or of predictions q, and the extras."""
    xp = namespace(samples.probs)
    entropies = rule._entropy_by_sum(xp, samples.probs, samples.sums)
    aleatoric = samples.average(entropies)
    if is_small_on_device(samples.probs) and not is_recorded(aleatoric):
        # one formula for all rows, as nothing takes longer than to wait for which of them need it
        total = None
    else:
        total = rule._entropy(xp, samples.plain_mean)

    def epistemic_of_mean() -> Array:
        if total is None:
            return rule._epistemic(xp, samples)
        return _epistemic(xp, samples, rule, (total, aleatoric), allowed_error(xp, total))

    if q is not None:
        epistemic = rule._epistemic_of(xp, samples, q, epistemic_of_mean)
        return [aleatoric + epistemic, aleatoric, epistemic]
    epistemic = epistemic_of_mean()
    components = [aleatoric + epistemic if total is None else total, aleatoric, epistemic]
    if extras.reverse:
        components.append(_reverse(xp, samples, rule))
    if extras.jackknife:
        estimates = Jackknife(xp, samples, rule)
        if extras.standard_errors:
            components += estimates.errors(entropies, *components)
        if extras.unbiased:
            components[2] = epistemic + estimates.bias()
            components[0] = aleatoric + components[2]
    return components


def _reverse(xp: Namespace, samples: Samples, rule: ScoringRule) -> Array:
    """Return E_Q D(θ, θ̄)."""
    mean = samples.mean[..., None, :] + 0 * samples.probs
    return samples.average(rule._divergence(xp, samples.probs, mean, -samples.deviations))


def _epistemic(
    xp: Namespace,
    samples: Samples,
    rule: ScoringRule,
    total_and_aleatoric: tuple[Array, Array],
    tolerance: float,
) -> Array:
    """Return EU: TU − AU, or the mean divergence in rows where the difference loses digits."""
    total, aleatoric = total_and_aleatoric
    if samples.off is None or is_recorded(aleatoric):
        return rule._epistemic(xp, samples)  # one formula for all rows, with the right gradient
    unit = _ERROR_UNITS * eps(xp, total)
    with ignoring_errors(total):
        error = rule._difference_error(xp, samples.plain_mean, total, unit, samples.off)
        if error is None:
            return rule._epistemic(xp, samples)
        difference = total - aleatoric
        margin = difference - error / tolerance
    least, most = ends(xp, margin)
    if least > 0:
        return difference
    if not most > 0:
        return _mean_divergence(xp, samples, rule, tolerance)
    sure = margin > 0
    if has_fixed_shapes(samples.probs):
        return xp.where(sure, difference, _mean_divergence(xp, samples, rule, tolerance))
    difference[~sure] = _mean_divergence(xp, samples.where(~sure), rule, tolerance)
    return difference


def _mean_divergence(xp: Namespace, samples: Samples, rule: ScoringRule, tolerance: float) -> Array:
    """Return EU by divergences, of few rows in host memory by NumPy."""
    rows = samples.few_on_host() if rule.runs_on_any_library else samples
    [epistemic] = rows.by_blocks(
        lambda block: [_accurate_epistemic(namespace(block.probs), block, rule, tolerance)],
        parts=_PARTS if rule.needs_much_memory else 1,
    )
    return epistemic if rows is samples else as_dtype_of(xp, epistemic, samples.probs)


def _accurate_epistemic(
    xp: Namespace, samples: Samples, rule: ScoringRule, tolerance: float
) -> Array:
    """Return EU where TU − AU loses digits: the mean divergence, or TU − AU in float64."""
    wide = samples.in_float64() if rule.has_slow_divergence else samples
    if wide.probs.dtype == samples.probs.dtype:
        return rule._epistemic(xp, samples)
    total = rule._entropy(xp, wide.plain_mean)
    aleatoric = wide.average(rule._entropy_by_sum(xp, wide.probs, wide.sums))
    epistemic = _epistemic(xp, wide, rule, (total, aleatoric), tolerance)
    return xp.astype(epistemic, samples.probs.dtype)
