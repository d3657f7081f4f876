"""Total = aleatoric + epistemic, for any scoring rule and any second-order prediction."""

from scorewise.decompose.engine import RuleLike, decompose, named_rules, rule_name
from scorewise.decompose.explain import Explanation, explain_kernel
from scorewise.decompose.related import label_wise, pairwise_epistemic, reverse_epistemic
from scorewise.decompose.result import COMPONENTS, RULES, Decomposition

__all__ = [
    "COMPONENTS",
    "RULES",
    "Decomposition",
    "Explanation",
    "RuleLike",
    "decompose",
    "explain_kernel",
    "label_wise",
    "named_rules",
    "pairwise_epistemic",
    "reverse_epistemic",
    "rule_name",
]
