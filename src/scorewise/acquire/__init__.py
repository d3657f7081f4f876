"""Choose rows to label next: by scores, in batches, for a target, in rounds of active learning."""

from typing import TYPE_CHECKING

from scorewise._lazy import lazy_names
from scorewise.acquire._batches import JointBatch, acquire_batch
from scorewise.acquire._choose import METHODS, Preference, acquire, check_batch_size, default_method
from scorewise.acquire._label_tasks import check_label_tasks, label_tools, write_label_tasks
from scorewise.acquire._rounds import Round, learning_curves
from scorewise.acquire._targets import TargetBatch, acquire_for, target_gains

if TYPE_CHECKING:
    from scorewise.acquire._learner import ActiveLearner, active_learning

__all__ = [
    "METHODS",
    "ActiveLearner",
    "JointBatch",
    "Preference",
    "Round",
    "TargetBatch",
    "acquire",
    "acquire_batch",
    "acquire_for",
    "active_learning",
    "check_batch_size",
    "check_label_tasks",
    "default_method",
    "label_tools",
    "learning_curves",
    "target_gains",
    "write_label_tasks",
]

# Rounds train models, which needs scikit-learn.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ActiveLearner": "scorewise.acquire._learner",
        "active_learning": "scorewise.acquire._learner",
    },
)
