"""Scoring rules, one file per structure.

``log``, ``brier``, ``zero_one``, ``spherical`` and ``rps`` are rules; ``tsallis``,
``pseudospherical``, ``top_k``, ``cost_matrix``, ``quadratic``, ``weighted_log`` and ``beta``
make a rule from its parameters.
"""

from scorewise.rules._custom import rule_from_entropy, rule_from_loss_vector
from scorewise.rules._decision import CostMatrix, ZeroOne, cost_matrix, top_k, zero_one
from scorewise.rules._names import DEFAULT_RULES, RuleLike, get_rule, get_rules, rule_from_json
from scorewise.rules._norm import Pseudospherical, Spherical, pseudospherical, spherical
from scorewise.rules._quadratic import quadratic, rps
from scorewise.rules._rule import DecisionRule, ScoringRule, Unit
from scorewise.rules._separable import Brier, Log, Tsallis, brier, log, tsallis, weighted_log
from scorewise.rules._two_class import beta

__all__ = [
    "DEFAULT_RULES",
    "Brier",
    "CostMatrix",
    "DecisionRule",
    "Log",
    "Pseudospherical",
    "RuleLike",
    "ScoringRule",
    "Spherical",
    "Tsallis",
    "Unit",
    "ZeroOne",
    "beta",
    "brier",
    "cost_matrix",
    "get_rule",
    "get_rules",
    "log",
    "pseudospherical",
    "quadratic",
    "rps",
    "rule_from_entropy",
    "rule_from_json",
    "rule_from_loss_vector",
    "spherical",
    "top_k",
    "tsallis",
    "weighted_log",
    "zero_one",
]
