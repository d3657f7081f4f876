"""The jackknife: bias and standard errors of a decomposition, by leaving out members."""

from __future__ import annotations

from collections.abc import Sequence

from scorewise import _validate as validate
from scorewise._array import Array, Namespace, at_least
from scorewise._numerics import square_root, sum_of_others
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.rules import ScoringRule

_MOST_CANCELLED = 0.125  # what may be left of θ̄ without a sum of the other members


class Jackknife:
    """The weighted jackknife, which leaves out one member m of weight w at a time.

    T₋ₘ is a quantity without member m and ψ_m = (1 − w_m)(T − T₋ₘ) its influence. The bias is
    −Σψ; the variance Σ(ψ_m − w_m Σψ)²/(1 − w_m). With equal weights both are Quenouille's and
    Tukey's. θ̄₋ₘ − θ̄ = −w(θ_m − θ̄)/(1 − w) is used as it is, so that nothing cancels, and θ̄₋ₘ
    is a sum of the other members where it is so small that little would be left of θ̄.
    """

    def __init__(self, xp: Namespace, samples: Samples, rule: ScoringRule) -> None:
        self.xp, self.samples, self.rule = xp, samples, rule
        self.weight = xp.ones_like(samples.probs[..., 0]) / samples.probs.shape[-2]
        if samples.weights is not None:
            self.weight = samples.weights * xp.ones_like(self.weight)
        self.rest = sum_of_others(xp, self.weight)  # 1 − w, accurate also where w is almost 1
        self.center = samples.mean[..., None, :]
        self.deviation = samples.deviations
        shift = -(self.deviation / self.rest[..., None]) * self.weight[..., None]
        self.mean = self._others(at_least(xp, self.center + shift, 0.0))  # θ̄₋ₘ
        self.excess = rule._divergence(xp, self.center, self.mean, shift)  # D(θ̄, θ̄₋ₘ)

    def _others(self, mean: Array) -> Array:
        """Return θ̄₋ₘ from θ̄ plus a shift, with the digits that cancelled."""
        xp = self.xp
        shares = xp.matrix_transpose(self.weight[..., None] * self.samples.probs)
        others = xp.matrix_transpose(sum_of_others(xp, shares)) / self.rest[..., None]
        return xp.where(mean < _MOST_CANCELLED * self.center, others, mean)

    def bias(self) -> Array:
        """Return the bias of the plug-in EU: how much too small it is in expectation."""
        return self.xp.sum(self.rest * self.excess, axis=-1)

    def errors(self, entropies: Array, total: Array, aleatoric: Array, eu: Array) -> list[Array]:
        """Return the standard errors of the three components."""
        xp, w, center = self.xp, self.weight, self.center
        left_out_total = self.rule._entropy(self.xp, self.mean)
        divergence = self.rule._divergence(self.xp, center, self.samples.probs, self.deviation)
        return [
            self._error(self.rest * (total[..., None] - left_out_total)),
            self._error(w * (entropies - aleatoric[..., None])),
            # A member of weight 0 has no influence, even at an infinite divergence.
            self._error(
                w * xp.where(w > 0, divergence - eu[..., None], 0.0) + self.rest * self.excess
            ),
        ]

    def _error(self, influence: Array) -> Array:
        deviations = influence - self.weight * self.xp.sum(influence, axis=-1, keepdims=True)
        scaled = deviations / self.xp.sqrt(self.rest)  # before it is squared, as rest may be tiny
        return square_root(self.xp, self.xp.sum(scaled**2, axis=-1))


def check_jackknife(n_members: int, rules: Sequence[ScoringRule], unbiased: bool) -> None:
    """Raise for a single member, and for rules whose bias the jackknife does not correct."""
    validate.require_two_members(n_members)
    non_smooth = next((rule for rule in rules if not rule.jackknife_reduces_bias), None)
    if unbiased and non_smooth is not None:
        raise InvalidInput(
            f"unbiased=True makes estimates worse for {non_smooth!r}: the jackknife assumes a "
            "smooth rule, and a decision jumps; use the plain estimate, or a smooth rule such as "
            "'log' or 'brier'"
        )
