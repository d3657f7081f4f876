"""Calibrations in tests: simulated members with labels, and maps with given numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import scorewise as sw
from scorewise.calibrate import Calibration, MethodScore
from support import softmax


def draw_labels(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels (n,) by probabilities (n, K)."""
    return (p.cumsum(axis=-1) > rng.uniform(size=(len(p), 1))).argmax(axis=-1)


def scaled(p: np.ndarray, weights: Any, bias: Any = 0.0) -> np.ndarray:
    """softmax(W z + b) of the centred logarithms z, for a number, a diagonal or a matrix W."""
    weights, z = np.asarray(weights), np.log(p)
    z = z - z.mean(axis=-1, keepdims=True)
    return softmax((z @ weights.T if weights.ndim == 2 else z * weights) + bias)


def simulated(
    n: int, k: int, weights: Any = 1.0, bias: Any = 0.0, *, seed: int = 0, m: int = 4
) -> tuple[sw.Samples, np.ndarray]:
    """Members, and labels by the mean of the members scaled by W and b."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, 1, k)) + 0.5 * rng.normal(size=(n, m, k))
    samples = sw.Samples(logits, from_logits=True)
    return samples, draw_labels(scaled(samples.mean, weights, bias), rng)


def calibration_by(weights: Any, bias: Any, floor: float = 1e-9) -> Calibration:
    """The calibration with this W, a number, a diagonal or a matrix, and this b."""
    weights, bias = np.asarray(weights, dtype=float), np.asarray(bias, dtype=float)
    method = ("temperature", "vector", "matrix")[weights.ndim]
    scores = tuple(MethodScore(name, 1.0, 0.0, (0.0, 0.0)) for name in ("none", method))
    unit = sw.get_rule("log").unit
    return Calibration(
        method=method,
        weights=weights,
        bias=bias,
        floor=floor,
        class_names=None,
        chosen_by="log",
        scores=scores,
        task_loss="log",
        task_scores=scores,
        unit=unit,
        n_rows=2,
        mixed_share=0.0,
        row_digests=(),
        all_rows_digest="",
    )


def calibration_to(target: Any) -> Calibration:
    """The calibration that predicts the same p̂ in every row."""
    return calibration_by(np.zeros(len(target)), np.log(target))
