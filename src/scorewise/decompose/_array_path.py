"""The array path: a rule's own formulas on arrays of any library, some instances at a time.

It is the reference that kernels are compared with, and serves what they do not: other libraries and
devices, gradients, and rules that users define.
"""

from __future__ import annotations

from collections.abc import Sequence

from scorewise import _validate as validate
from scorewise._array import Array, namespace
from scorewise._members import Members
from scorewise.decompose._jackknife import Jackknife
from scorewise.distributions import Samples
from scorewise.kernels import JackknifeOptions
from scorewise.rules import ScoringRule


def components_by_arrays(
    members: Members, rules: Sequence[ScoringRule], jackknife: JackknifeOptions
) -> list[Array]:
    """Return all components of all rules, in the order of the rules."""
    samples = members.samples
    if jackknife:
        validate.require_two_weighted_members(samples.weights, members.raw.layout)
    return samples.by_blocks(
        lambda block: [x for rule in rules for x in _components(block, rule, jackknife)]
    )


def _components(samples: Samples, rule: ScoringRule, jackknife: JackknifeOptions) -> list[Array]:
    """Return the three components of a rule, and their standard errors if requested."""
    xp = namespace(samples.probs)
    entropies = rule._entropy(xp, samples.probs)
    total = rule._entropy(xp, samples.mean)
    aleatoric = samples.average(entropies)
    epistemic = rule._epistemic(xp, samples)
    components = [total, aleatoric, epistemic]
    if jackknife:
        estimates = Jackknife(xp, samples, rule)
        if jackknife.standard_errors:
            components += estimates.errors(entropies, *components)
        if jackknife.unbiased:
            components[2] = epistemic + estimates.bias()
            components[0] = aleatoric + components[2]
    return components
