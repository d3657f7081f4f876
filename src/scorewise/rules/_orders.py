"""Which totals order rows alike, by theorems."""

from __future__ import annotations

from scorewise.rules._rule import ScoringRule

LARGEST = "largest probability"

_SYMMETRIC = {"log", "brier", "zero_one", "spherical", "tsallis", "pseudospherical"}


def is_symmetric(rule: ScoringRule) -> bool:
    """Whether all classes count alike: then two-class totals follow the larger probability."""
    return rule.family in _SYMMETRIC


def norm_exponent(rule: ScoringRule) -> float | None:
    """α, where the total falls with the norm ‖θ̄‖_α; None for other rules."""
    match rule.family:
        case "brier" | "spherical":
            return 2.0
        case "tsallis" | "pseudospherical":
            return float(rule._parameters()[0])
    return None


def order_of_total(rule: ScoringRule, n_classes: int) -> str | None:
    """What alone decides the order of the totals; None where no theorem says so."""
    if rule.family == "zero_one" or (n_classes == 2 and is_symmetric(rule)):
        return LARGEST
    exponent = norm_exponent(rule)
    return None if exponent is None else f"norm {exponent!r}"
