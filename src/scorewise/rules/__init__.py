"""Scoring rules, one file per structure.

``log``, ``brier``, ``zero_one``, ``spherical`` and ``rps`` are rules; ``tsallis``,
``pseudospherical``, ``top_k``, ``cost_matrix``, ``quadratic``, ``weighted_log`` and ``beta``
make a rule from its parameters.
"""

from scorewise.rules._custom import rule_from_entropy, rule_from_loss_vector
from scorewise.rules._decision import CostMatrix, ZeroOne
from scorewise.rules._decision import cost_matrix as cost_matrix
from scorewise.rules._decision import top_k as top_k
from scorewise.rules._decision import zero_one as zero_one
from scorewise.rules._names import get_rule, rule_from_json
from scorewise.rules._norm import Pseudospherical, Spherical
from scorewise.rules._norm import pseudospherical as pseudospherical
from scorewise.rules._norm import spherical as spherical
from scorewise.rules._quadratic import quadratic as quadratic
from scorewise.rules._quadratic import rps as rps
from scorewise.rules._rule import DecisionRule, ScoringRule, Unit
from scorewise.rules._separable import Brier, Log, Tsallis
from scorewise.rules._separable import brier as brier
from scorewise.rules._separable import log as log
from scorewise.rules._separable import tsallis as tsallis
from scorewise.rules._separable import weighted_log as weighted_log
from scorewise.rules._two_class import beta as beta

__all__ = [
    "Brier",
    "CostMatrix",
    "DecisionRule",
    "Log",
    "Pseudospherical",
    "ScoringRule",
    "Spherical",
    "Tsallis",
    "Unit",
    "ZeroOne",
    "get_rule",
    "rule_from_entropy",
    "rule_from_json",
    "rule_from_loss_vector",
]
