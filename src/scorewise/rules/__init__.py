"""Scoring rules, one file per structure.

``log``, ``brier``, ``zero_one``, ``spherical`` and ``rps`` are rules; ``tsallis``,
``pseudospherical``, ``top_k``, ``cost_matrix``, ``quadratic``, ``weighted_log`` and ``beta``
make a rule from its parameters.
"""

# "import x as x" exports x, for type checkers too.
from scorewise.rules._custom import rule_from_entropy as rule_from_entropy
from scorewise.rules._custom import rule_from_loss_vector as rule_from_loss_vector
from scorewise.rules._decision import CostMatrix as CostMatrix
from scorewise.rules._decision import ZeroOne as ZeroOne
from scorewise.rules._decision import cost_matrix as cost_matrix
from scorewise.rules._decision import top_k as top_k
from scorewise.rules._decision import zero_one as zero_one
from scorewise.rules._names import DEFAULT_RULES as DEFAULT_RULES
from scorewise.rules._names import RuleLike as RuleLike
from scorewise.rules._names import get_rule as get_rule
from scorewise.rules._names import get_rules as get_rules
from scorewise.rules._names import is_single_rule as is_single_rule
from scorewise.rules._names import rule_from_json as rule_from_json
from scorewise.rules._norm import Pseudospherical as Pseudospherical
from scorewise.rules._norm import Spherical as Spherical
from scorewise.rules._norm import pseudospherical as pseudospherical
from scorewise.rules._norm import spherical as spherical
from scorewise.rules._quadratic import quadratic as quadratic
from scorewise.rules._quadratic import rps as rps
from scorewise.rules._rule import DecisionRule as DecisionRule
from scorewise.rules._rule import ScoringRule as ScoringRule
from scorewise.rules._rule import Unit as Unit
from scorewise.rules._separable import Brier as Brier
from scorewise.rules._separable import Log as Log
from scorewise.rules._separable import Tsallis as Tsallis
from scorewise.rules._separable import brier as brier
from scorewise.rules._separable import log as log
from scorewise.rules._separable import tsallis as tsallis
from scorewise.rules._separable import weighted_log as weighted_log
from scorewise.rules._two_class import beta as beta
