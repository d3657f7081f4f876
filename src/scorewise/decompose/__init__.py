"""Total = aleatoric + epistemic, for any scoring rule and any second-order prediction."""

from scorewise.decompose._decompose import (
    COMPONENTS,
    RULES,
    Decomposition,
    Explanation,
    RuleLike,
    array_path,
    decompose,
    decompose_raw,
    explain_kernel,
    named_rules,
    rule_name,
)
from scorewise.decompose._members import Members
from scorewise.decompose._related import label_wise, pairwise_epistemic, reverse_epistemic

__all__ = [
    "COMPONENTS",
    "RULES",
    "Decomposition",
    "Explanation",
    "Members",
    "RuleLike",
    "array_path",
    "decompose",
    "decompose_raw",
    "explain_kernel",
    "label_wise",
    "named_rules",
    "pairwise_epistemic",
    "reverse_epistemic",
    "rule_name",
]
