"""Out-of-distribution detection: how well a measure of uncertainty tells strange images."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise.decompose import COMPONENTS, RULES, decompose
from scorewise.detect import ood_metrics


def detection_numbers(inside: np.ndarray, outside: np.ndarray) -> dict[str, Any]:
    """AUROC by component and rule, of members ``(n, M, K)`` in and out of distribution.

    For the epistemic uncertainty, which the paper's tables are about, also the false alarms where
    95 % of what is strange is told.
    """
    parts = [decompose(members, list(RULES)) for members in (inside, outside)]
    found = {
        component: {
            rule: ood_metrics(*(getattr(part[rule], component) for part in parts)) for rule in RULES
        }
        for component in COMPONENTS
    }
    return {
        "rows": [len(inside), len(outside)],
        "auroc": {
            component: {rule: metrics.auroc for rule, metrics in by_rule.items()}
            for component, by_rule in found.items()
        },
        "fpr95": {rule: metrics.fpr95 for rule, metrics in found["epistemic"].items()},
    }
