"""How unsure is a classifier, in the currency of the loss its user pays?

Every proper scoring rule splits predictive uncertainty into total = aleatoric + epistemic. For
abstaining use the total of your own loss, for out-of-distribution detection the epistemic part
under log, for active learning the epistemic part under zero-one.
"""

import typing

from scorewise import rules
from scorewise._version import __version__ as __version__
from scorewise.accumulate import Accumulator
from scorewise.checks import check_kernel, check_rule
from scorewise.curves import Curve, augrc, aulc, rejection_curve
from scorewise.decompose import (
    Decomposition,
    decompose,
    explain_kernel,
    label_wise,
    pairwise_epistemic,
    reverse_epistemic,
)
from scorewise.distributions import Dirichlet, Samples, binary
from scorewise.errors import (
    CorruptData,
    FetchFailed,
    ImproperRule,
    InvalidInput,
    KernelMismatch,
    MissingData,
    ScorewiseError,
)
from scorewise.io import Predictions, read_predictions, write_predictions
from scorewise.kernels import get_num_threads, set_num_threads
from scorewise.models import predict_dirichlet, predict_samples
from scorewise.rules import ScoringRule, get_rule
from scorewise.rules.custom import rule_from_entropy, rule_from_loss_vector
from scorewise.scoring import Scored, score_file
from scorewise.tasks.acquire import acquire
from scorewise.tasks.active.rounds import Round
from scorewise.tasks.advise import Advice, advise
from scorewise.tasks.batches import JointBatch, acquire_batch
from scorewise.tasks.calibration import LossCalibration, loss_calibration
from scorewise.tasks.certify import Certificate, certify_threshold
from scorewise.tasks.compare import compare
from scorewise.tasks.comparison import Comparison, Standing
from scorewise.tasks.decide import Decisions, decide
from scorewise.tasks.drift import Drift
from scorewise.tasks.evaluate import evaluate
from scorewise.tasks.evaluation import Evaluation
from scorewise.tasks.gates import Gate, Gated, certify
from scorewise.tasks.losses import task_losses
from scorewise.tasks.ood import OODMetrics, ood_metrics
from scorewise.tasks.temperature import Temperature, fit_temperature

if typing.TYPE_CHECKING:
    from scorewise.models.bootstrap import BootstrapEnsemble
    from scorewise.models.deep import DeepEnsemble
    from scorewise.models.laplace import fit_laplace
    from scorewise.plots.calibration import CalibrationDisplay
    from scorewise.plots.comparison import ComparisonDisplay
    from scorewise.plots.decisions import DecisionDisplay
    from scorewise.plots.decomposition import DecompositionDisplay
    from scorewise.plots.figures import save_figures
    from scorewise.plots.learning import LearningCurveDisplay
    from scorewise.plots.ood import OODDisplay
    from scorewise.plots.rejection import RejectionCurveDisplay
    from scorewise.plots.simplex import SimplexDisplay
    from scorewise.report.page import write_report
    from scorewise.tasks.active.learner import ActiveLearner
    from scorewise.tasks.active.loop import active_learning
    from scorewise.tasks.detector import OODDetector
    from scorewise.tasks.recalibration import LossRecalibrator
    from scorewise.tasks.selective import SelectiveClassifier

__all__ = [
    "Accumulator",
    "ActiveLearner",
    "Advice",
    "BootstrapEnsemble",
    "CalibrationDisplay",
    "Certificate",
    "Comparison",
    "ComparisonDisplay",
    "CorruptData",
    "Curve",
    "DecisionDisplay",
    "Decisions",
    "Decomposition",
    "DecompositionDisplay",
    "DeepEnsemble",
    "Dirichlet",
    "Drift",
    "Evaluation",
    "FetchFailed",
    "Gate",
    "Gated",
    "ImproperRule",
    "InvalidInput",
    "JointBatch",
    "KernelMismatch",
    "LearningCurveDisplay",
    "LossCalibration",
    "LossRecalibrator",
    "MissingData",
    "OODDetector",
    "OODDisplay",
    "OODMetrics",
    "Predictions",
    "RejectionCurveDisplay",
    "Round",
    "Samples",
    "Scored",
    "ScorewiseError",
    "ScoringRule",
    "SelectiveClassifier",
    "SimplexDisplay",
    "Standing",
    "Temperature",
    "acquire",
    "acquire_batch",
    "active_learning",
    "advise",
    "augrc",
    "aulc",
    "binary",
    "certify",
    "certify_threshold",
    "check_kernel",
    "check_rule",
    "compare",
    "decide",
    "decompose",
    "evaluate",
    "explain_kernel",
    "fit_laplace",
    "fit_temperature",
    "get_num_threads",
    "get_rule",
    "label_wise",
    "loss_calibration",
    "ood_metrics",
    "pairwise_epistemic",
    "predict_dirichlet",
    "predict_samples",
    "read_predictions",
    "rejection_curve",
    "reverse_epistemic",
    "rule_from_entropy",
    "rule_from_loss_vector",
    "rules",
    "save_figures",
    "score_file",
    "set_num_threads",
    "task_losses",
    "write_predictions",
    "write_report",
]

# What needs scikit-learn, torch, laplace-torch, matplotlib or Jinja2 is imported when first used.
_LAZY = {
    "ActiveLearner": ("scorewise.tasks.active.learner", None),
    "BootstrapEnsemble": ("scorewise.models.bootstrap", None),
    "CalibrationDisplay": ("scorewise.plots.calibration", "plots"),
    "ComparisonDisplay": ("scorewise.plots.comparison", "plots"),
    "DecisionDisplay": ("scorewise.plots.decisions", "plots"),
    "DecompositionDisplay": ("scorewise.plots.decomposition", "plots"),
    "DeepEnsemble": ("scorewise.models.deep", "torch"),
    "LearningCurveDisplay": ("scorewise.plots.learning", "plots"),
    "LossRecalibrator": ("scorewise.tasks.recalibration", None),
    "OODDetector": ("scorewise.tasks.detector", None),
    "OODDisplay": ("scorewise.plots.ood", "plots"),
    "RejectionCurveDisplay": ("scorewise.plots.rejection", "plots"),
    "SelectiveClassifier": ("scorewise.tasks.selective", None),
    "SimplexDisplay": ("scorewise.plots.simplex", "plots"),
    "active_learning": ("scorewise.tasks.active.loop", None),
    "save_figures": ("scorewise.plots.figures", "plots"),
    "write_report": ("scorewise.report.page", "report"),
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
