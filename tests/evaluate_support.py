"""Predictions to evaluate, and losses to evaluate them under."""

from __future__ import annotations

from typing import Any

import scorewise as sw
from report_support import members
from scorewise.compare import Evaluation

QUICK = {"n_resamples": 100, "progress": False}
NAMES = ["well", "doubtful", "ill"]
ACTIONS = ["dismiss", "treat", "refer"]
TRIAGE = sw.rules.cost_matrix([[0, 5, 1], [50, 0, 1], [3, 3, 0]], ACTIONS)
MORE = sw.rules.cost_matrix([[0, 5, 1, 2], [50, 0, 1, 2], [3, 3, 1, 0]])
PROBS, Y = members(300, 3)
RIGHT = PROBS.mean(axis=1).argmax(axis=1)


def evaluate(probs: Any = PROBS, y: Any = Y, **options: Any) -> Evaluation:
    return sw.evaluate(probs, y, **QUICK | options)
