"""Which uncertainty measure to use: by theory (advise), by your data (compare, evaluate)."""

from scorewise.compare._advise import Advice, advise
from scorewise.compare._calibrating import CalibrationEffect
from scorewise.compare._compare import compare
from scorewise.compare._comparison import VERDICTS, Comparison, Standing
from scorewise.compare._evaluate import evaluate
from scorewise.compare._evaluation import (
    ActionSummary,
    ClassSummary,
    Evaluation,
    LearningEvaluation,
    OODEvaluation,
    UncertainRow,
)
from scorewise.compare._verdict import Note, Verdict

# isort: split
# what scorewise.scale computes with, on rows that do not fit one machine; not for users
from scorewise.compare._advise import advise_ood as advise_ood
from scorewise.compare._calibrating import drawn_to_calibrate as drawn_to_calibrate
from scorewise.compare._calibrating import effect_of_calibrating as effect_of_calibrating
from scorewise.compare._compare import BootstrapSettings as BootstrapSettings
from scorewise.compare._compare import Rules as Rules
from scorewise.compare._compare import comparison_of as comparison_of
from scorewise.compare._compare import refuse_unused as refuse_unused
from scorewise.compare._compare import require_measures as require_measures
from scorewise.compare._compare import rules_for as rules_for
from scorewise.compare._compare import selective_measures as selective_measures
from scorewise.compare._comparison import contrasts_by_root as contrasts_by_root
from scorewise.compare._evaluate import ClassSums as ClassSums
from scorewise.compare._evaluate import accepted_by_class as accepted_by_class
from scorewise.compare._evaluate import action_counts as action_counts
from scorewise.compare._evaluate import action_summary as action_summary
from scorewise.compare._evaluate import certificates_of as certificates_of
from scorewise.compare._evaluate import learning_of as learning_of
from scorewise.compare._evaluate import simplex_rows as simplex_rows
from scorewise.compare._evaluate import uncertain_rows_of as uncertain_rows_of
from scorewise.compare._evaluation import choose_headline as choose_headline
from scorewise.compare._influence import AulcOfGroups as AulcOfGroups
from scorewise.compare._influence import AurocOfGroups as AurocOfGroups
from scorewise.compare._influence import root_of_covariance as root_of_covariance
from scorewise.compare._measures import Measure as Measure
from scorewise.compare._measures import RowUncertainties as RowUncertainties
from scorewise.compare._measures import TaskLosses as TaskLosses
from scorewise.compare._measures import first_of_same_order as first_of_same_order
from scorewise.compare._measures import own_measures as own_measures

__all__ = [
    "VERDICTS",
    "ActionSummary",
    "Advice",
    "CalibrationEffect",
    "ClassSummary",
    "Comparison",
    "Evaluation",
    "LearningEvaluation",
    "Note",
    "OODEvaluation",
    "Standing",
    "UncertainRow",
    "Verdict",
    "advise",
    "compare",
    "evaluate",
]
