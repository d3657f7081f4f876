"""How unsure is a classifier, in the currency of the loss its user pays?

Every proper scoring rule splits predictive uncertainty into total = aleatoric + epistemic. For
abstaining use the total of your own loss, for out-of-distribution detection the epistemic part
under log, for active learning the epistemic part under zero-one.
"""

from scorewise import rules
from scorewise.accumulate import Accumulator
from scorewise.checks import check_kernel, check_rule
from scorewise.curves import aulc
from scorewise.decompose import (
    Decomposition,
    decompose,
    explain_kernel,
    label_wise,
    pairwise_epistemic,
    reverse_epistemic,
)
from scorewise.distributions import Dirichlet, Samples, binary
from scorewise.errors import ImproperRule, InvalidInput, KernelMismatch, ScorewiseError
from scorewise.kernels import get_num_threads, set_num_threads
from scorewise.rules import ScoringRule, get_rule
from scorewise.rules.custom import rule_from_entropy, rule_from_loss_vector

__version__ = "0.1.0"

__all__ = [
    "Accumulator",
    "Decomposition",
    "Dirichlet",
    "ImproperRule",
    "InvalidInput",
    "KernelMismatch",
    "Samples",
    "ScorewiseError",
    "ScoringRule",
    "aulc",
    "binary",
    "check_kernel",
    "check_rule",
    "decompose",
    "explain_kernel",
    "get_num_threads",
    "get_rule",
    "label_wise",
    "pairwise_epistemic",
    "reverse_epistemic",
    "rule_from_entropy",
    "rule_from_loss_vector",
    "rules",
    "set_num_threads",
]
