"""Which measure to use: what theory recommends, and what your own data say."""

from scorewise.compare._advise import Advice, advise
from scorewise.compare._compare import compare
from scorewise.compare._comparison import Comparison, Standing
from scorewise.compare._evaluate import evaluate
from scorewise.compare._evaluation import (
    ClassSummary,
    DoubtfulRow,
    Evaluation,
    ForeignRows,
    LabelsBought,
)
from scorewise.compare._verdicts import loss_text, promise_text, share_text

__all__ = [
    "Advice",
    "ClassSummary",
    "Comparison",
    "DoubtfulRow",
    "Evaluation",
    "ForeignRows",
    "LabelsBought",
    "Standing",
    "advise",
    "compare",
    "evaluate",
    "loss_text",
    "promise_text",
    "share_text",
]
