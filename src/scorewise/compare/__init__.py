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
