"""How unsure is a classifier, in the currency of the loss its user pays?

Every proper scoring rule splits predictive uncertainty into total = aleatoric + epistemic. For
abstaining use the total of your own loss, for out-of-distribution detection the epistemic part
under log, for active learning the epistemic part under zero-one.
"""

import typing

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
from scorewise.models import predict_dirichlet, predict_samples
from scorewise.rules import ScoringRule, get_rule
from scorewise.rules.custom import rule_from_entropy, rule_from_loss_vector

if typing.TYPE_CHECKING:
    from scorewise.models.bootstrap import BootstrapEnsemble
    from scorewise.models.deep import DeepEnsemble
    from scorewise.models.laplace import fit_laplace

__version__ = "0.1.0"

__all__ = [
    "Accumulator",
    "BootstrapEnsemble",
    "Decomposition",
    "DeepEnsemble",
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
    "fit_laplace",
    "get_num_threads",
    "get_rule",
    "label_wise",
    "pairwise_epistemic",
    "predict_dirichlet",
    "predict_samples",
    "reverse_epistemic",
    "rule_from_entropy",
    "rule_from_loss_vector",
    "rules",
    "set_num_threads",
]

# What needs scikit-learn, torch or laplace-torch is imported when it is first used.
_LAZY = {
    "BootstrapEnsemble": ("scorewise.models.bootstrap", None),
    "DeepEnsemble": ("scorewise.models.deep", "torch"),
    "fit_laplace": ("scorewise.models.laplace", "laplace"),
}


def __getattr__(name: str) -> typing.Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'scorewise' has no attribute {name!r}")
    from importlib import import_module

    module, extra = _LAZY[name]
    try:
        found = globals()[name] = getattr(import_module(module), name)
        return found
    except ModuleNotFoundError as error:
        if extra is None:
            raise
        raise ImportError(
            f"scorewise.{name} needs {error.name}: pip install 'scorewise[{extra}]'"
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
