"""Detect inputs that are out of distribution."""

from typing import TYPE_CHECKING

from scorewise._lazy import lazy_names
from scorewise.detect._metrics import OODMetrics, ood_metrics
from scorewise.detect._metrics import auroc_error as auroc_error  # for scale
from scorewise.detect._metrics import ood_metrics_of_counts as ood_metrics_of_counts  # for scale

if TYPE_CHECKING:
    from scorewise.detect._detector import OODDetector

__all__ = ["OODDetector", "OODMetrics", "ood_metrics"]

__getattr__, __dir__ = lazy_names(__name__, {"OODDetector": "scorewise.detect._detector"})
