"""Choose what to label next: scores to choices, batches, and rounds of active learning."""

from typing import TYPE_CHECKING

from scorewise._lazy import lazy_names
from scorewise.acquire._batches import JointBatch, acquire_batch
from scorewise.acquire._choose import METHODS, acquire
from scorewise.acquire._rounds import Round, are_rounds, learning_curve, paired_curves

if TYPE_CHECKING:
    from scorewise.acquire._learner import ActiveLearner
    from scorewise.acquire._loop import active_learning

__all__ = [
    "METHODS",
    "ActiveLearner",
    "JointBatch",
    "Round",
    "acquire",
    "acquire_batch",
    "active_learning",
    "are_rounds",
    "learning_curve",
    "paired_curves",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"ActiveLearner": "scorewise.acquire._learner", "active_learning": "scorewise.acquire._loop"},
)
