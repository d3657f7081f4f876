"""Related measures of uncertainty that the literature compares the decomposition with."""

from __future__ import annotations

from typing import Any

from scorewise import _validate as validate
from scorewise import kernels
from scorewise._array import Array, namespace
from scorewise._inputs import InputOptions
from scorewise._members import Members
from scorewise._numerics import gini_terms
from scorewise.decompose._decompose import Decomposition, all_components
from scorewise.distributions import Samples
from scorewise.kernels import Extras
from scorewise.rules import ScoringRule, get_rule


@validate.takes_options_of(Samples)
def reverse_epistemic(probs: Any, rule: str | ScoringRule, **options: Any) -> Array:
    """Return E_Q D(θ, θ̄): the excess loss of predicting a single member when the mean is right.

    Use it to compare with work that measures disagreement in this direction. Infinite under log
    when a member gives 0 where another does not.

    Parameters
    ----------
    probs : array (..., M, K) or Samples
    rule : str or ScoringRule
    **options
        As for :class:`scorewise.Samples`: ``weights``, ``member_axis``, ``from_logits``, …

    Returns
    -------
    array (...)

    Examples
    --------
    >>> import scorewise as sw
    >>> round(float(sw.reverse_epistemic([[0.9, 0.1], [0.5, 0.5]], "brier")), 4)
    0.08
    """
    return _epistemic_and_reverse(probs, rule, options)[1]


@validate.takes_options_of(Samples)
def pairwise_epistemic(probs: Any, rule: str | ScoringRule, **options: Any) -> Array:
    """Return E D(θ, θ′) over two independent members: EU + E D(θ, θ̄).

    Use it to compare with work that measures disagreement between pairs (for log, the expected
    pairwise Kullback–Leibler divergence); infinite under log when a member gives 0.

    Parameters
    ----------
    probs : array (..., M, K) or Samples
    rule : str or ScoringRule
    **options
        As for :class:`scorewise.Samples`: ``weights``, ``member_axis``, ``from_logits``, …

    Returns
    -------
    array (...)

    Examples
    --------
    >>> import scorewise as sw
    >>> round(float(sw.pairwise_epistemic([[0.9, 0.1], [0.5, 0.5]], "brier")), 4)
    0.16
    """
    epistemic, reverse = _epistemic_and_reverse(probs, rule, options)
    return epistemic + reverse


@validate.takes_options_of(Samples)
def label_wise(probs: Any, **options: Any) -> Decomposition:
    """Return the variance decomposition of each class against the rest.

    Use it to see which class an instance's uncertainty is about. For class k, TU = θ̄(1 − θ̄),
    AU = E θ(1 − θ) and EU = Var θ; summed over classes they are Brier's.

    Parameters
    ----------
    probs : array (..., M, K) or Samples
    **options
        As for :class:`scorewise.Samples`: ``weights``, ``member_axis``, ``from_logits``, …

    Returns
    -------
    Decomposition
        Of arrays ``(..., K)``.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.label_wise([[0.9, 0.1, 0.0], [0.5, 0.5, 0.0]]).epistemic.round(4)
    array([0.04, 0.04, 0.  ])
    """

    def components(samples: Samples) -> list[Array]:
        xp = namespace(samples.probs)
        return [
            gini_terms(xp, samples.mean),
            samples.average(gini_terms(xp, samples.probs)),
            samples.average(samples.deviations**2),
        ]

    def by_kernel_or_arrays(members: Members) -> list[Array]:
        by_kernel = kernels.components_by_class(members.raw, members.weights)
        return members.by_blocks(components) if by_kernel is None else by_kernel

    members = _members(probs, **options)
    return Decomposition(*members.compute(by_kernel_or_arrays, 3, keep_classes=True))


def _members(probs: Any, weights: Any = None, **options: Any) -> Members:
    return Members.of(probs, weights, InputOptions(**options))


def _epistemic_and_reverse(
    probs: Any, rule: str | ScoringRule, options: dict[str, Any]
) -> tuple[Array, Array]:
    """Return EU and E D(θ, θ̄)."""
    members = _members(probs, **options)
    rules, extras = members.fit_rules([get_rule(rule)]), Extras(reverse=True)
    _, _, epistemic, reverse = members.compute(
        lambda m: all_components(m, rules, extras), extras.n_components
    )
    return epistemic, reverse
