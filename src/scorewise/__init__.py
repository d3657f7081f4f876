"""Measure how uncertain a classifier is, in the units of the loss its user incurs.

Every proper scoring rule splits predictive uncertainty into total = aleatoric + epistemic. For
abstaining use the total of your own loss, for out-of-distribution detection the epistemic
uncertainty under log, for active learning that under zero-one.
"""

from typing import TYPE_CHECKING

from scorewise import rules
from scorewise._lazy import lazy_names
from scorewise._losses import task_losses
from scorewise._threads import get_num_threads, set_num_threads
from scorewise._version import __version__ as __version__
from scorewise.abstain import certify, certify_threshold, load_policy
from scorewise.accumulate import Accumulator
from scorewise.acquire import acquire, acquire_batch, acquire_for
from scorewise.aggregate import aggregate
from scorewise.calibrate import fit_calibration, load_calibration, loss_calibration
from scorewise.compare import advise, compare, evaluate
from scorewise.curves import augrc, aulc, rejection_curve
from scorewise.decide import decide
from scorewise.decompose import (
    decompose,
    explain_kernel,
    label_wise,
    pairwise_epistemic,
    reverse_epistemic,
)
from scorewise.detect import ood_metrics
from scorewise.distributions import Dirichlet, Samples, binary, by_label
from scorewise.errors import ImproperRule, InvalidInput, ScorewiseError
from scorewise.io import read_logprobs, read_predictions, score_file, write_predictions
from scorewise.models import explain_model, predict_samples
from scorewise.rules import get_rule, rule_from_entropy, rule_from_loss_vector
from scorewise.testing import check_kernel, check_rule

if TYPE_CHECKING:
    from scorewise import plots
    from scorewise.abstain import SelectiveClassifier
    from scorewise.acquire import ActiveLearner, active_learning
    from scorewise.detect import OODDetector
    from scorewise.models import (
        BootstrapEnsemble,
        DeepEnsemble,
        LaplaceClassifier,
        fit_laplace,
        predict_dirichlet,
        segment,
    )
    from scorewise.report import write_report

__all__ = [
    "Accumulator",
    "ActiveLearner",
    "BootstrapEnsemble",
    "DeepEnsemble",
    "Dirichlet",
    "ImproperRule",
    "InvalidInput",
    "LaplaceClassifier",
    "OODDetector",
    "Samples",
    "ScorewiseError",
    "SelectiveClassifier",
    "acquire",
    "acquire_batch",
    "acquire_for",
    "active_learning",
    "advise",
    "aggregate",
    "augrc",
    "aulc",
    "binary",
    "by_label",
    "certify",
    "certify_threshold",
    "check_kernel",
    "check_rule",
    "compare",
    "decide",
    "decompose",
    "evaluate",
    "explain_kernel",
    "explain_model",
    "fit_calibration",
    "fit_laplace",
    "get_num_threads",
    "get_rule",
    "label_wise",
    "load_calibration",
    "load_policy",
    "loss_calibration",
    "ood_metrics",
    "pairwise_epistemic",
    "plots",
    "predict_dirichlet",
    "predict_samples",
    "read_logprobs",
    "read_predictions",
    "rejection_curve",
    "reverse_epistemic",
    "rule_from_entropy",
    "rule_from_loss_vector",
    "rules",
    "score_file",
    "segment",
    "set_num_threads",
    "task_losses",
    "write_predictions",
    "write_report",
]

# What needs scikit-learn, torch, laplace-torch, matplotlib or Jinja2 is imported when first used.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ActiveLearner": "scorewise.acquire",
        "BootstrapEnsemble": "scorewise.models",
        "DeepEnsemble": "scorewise.models",
        "LaplaceClassifier": "scorewise.models",
        "OODDetector": "scorewise.detect",
        "SelectiveClassifier": "scorewise.abstain",
        "active_learning": "scorewise.acquire",
        "fit_laplace": "scorewise.models",
        "plots": "scorewise.plots",
        "predict_dirichlet": "scorewise.models",
        "segment": "scorewise.models",
        "write_report": "scorewise.report",
    },
)
