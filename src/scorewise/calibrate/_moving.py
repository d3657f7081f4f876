"""Move the members of a row so that their mean becomes the calibrated prediction.

The members are scaled by class and renormalized, θ′_mk = r_m·θ_mk·v_k, with the factors v for which
their mean is the target (Sinkhorn, 1964). Of all members with this mean these are the closest to
the old ones in relative entropy, and their odds ratios θ_mk θ_nl / (θ_ml θ_nk) are the old ones.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from scorewise._threads import get_num_threads, run_in_threads

MIXED_SHARE = 0.01  # of the target, in members that are too certain to be scaled
_TOLERANCE = 1e-9  # relative, of the mean
_STEPS, _STEPS_IF_MIXED = 100, 300
_BLOCK_ELEMENTS = 1 << 17  # probabilities that are scaled at a time, which fit a cache


def move_members(
    probs: np.ndarray, weights: np.ndarray | None, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return members whose mean is the target, and which rows had to be mixed with it.

    Scaling cannot move a member that gives a class the probability 1. Rows in which it does not
    reach the target are first mixed with 1 % of the target. The last deviation is closed by mixing
    all members of a row with one distribution, so that the mean is exact in every row.

    Parameters
    ----------
    probs : array (n, M, K)
    weights : array (M,) or (n, M), or None
        Member weights that sum to 1.
    target : array (n, K)
        Positive probabilities.

    Returns
    -------
    array (n, M, K), array of bool (n,)
        The members, in the dtype of ``probs``.
    """
    n, m, k = probs.shape
    moved = np.empty((n, m, k), probs.dtype)
    is_mixed = np.zeros(n, bool)
    if weights is None:
        weights = np.full(m, 1 / m)
    weights = weights.astype(np.float64)
    # those of float32 sum to 1 in its digits only, and no scaling would reach the target
    by_row = np.broadcast_to(weights / weights.sum(axis=-1, keepdims=True), (n, m))

    def move(first: int, last: int) -> bool:
        rows = slice(first, last)
        block = probs[rows].astype(np.float64)
        moved[rows], is_mixed[rows] = _move_block(block, by_row[rows], target[rows])
        return True

    step = max(1, _BLOCK_ELEMENTS // (m * k))
    blocks = (partial(move, first, min(first + step, n)) for first in range(0, n, step))
    run_in_threads(blocks, get_num_threads())
    return moved, is_mixed


def _move_block(
    probs: np.ndarray, weights: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    # a class that no member considers has the same probability for all of them afterwards
    mean = _means(weights, probs)
    probs = np.where((mean > 0)[:, None], probs, target[:, None])
    scales, is_scaled = _class_scales(probs, weights, target, _STEPS)
    is_mixed = ~is_scaled
    if is_mixed.any():
        mixed_target = target[is_mixed]
        mixed = (1 - MIXED_SHARE) * probs[is_mixed] + MIXED_SHARE * mixed_target[:, None]
        probs[is_mixed] = mixed
        scales[is_mixed], _ = _class_scales(mixed, weights[is_mixed], mixed_target, _STEPS_IF_MIXED)
    moved = probs * scales[:, None]
    moved /= moved.sum(axis=-1, keepdims=True)
    # p̂ = (1 − share)·mean + share·c, with the smallest share for which c is a distribution
    mean = _means(weights, moved)
    own_share = np.minimum(1, np.min(target / np.maximum(mean, target / 2), axis=-1))[:, None]
    moved *= own_share[:, None]
    moved += np.maximum(target - own_share * mean, 0)[:, None]
    # members that are equal stay equal in all digits
    are_equal = np.all(probs == probs[:, :1], axis=(1, 2))
    moved[are_equal] = target[are_equal, None]
    return moved, is_mixed


def _means(weights: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Return the weighted means (n, K) of members (n, M, K)."""
    return np.asarray(np.matmul(weights[:, None], probs)[:, 0])


def _class_scales(
    probs: np.ndarray, weights: np.ndarray, target: np.ndarray, n_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors v (n, K) of the classes, and in which rows they reach the target."""
    scales, is_scaled = np.ones(target.shape), np.zeros(len(target), bool)
    rows = np.arange(len(target))
    current = np.ones(target.shape)
    with np.errstate(all="ignore"):  # factors overflow where no scaling reaches the target
        for _ in range(n_steps):
            by_member = weights / np.matmul(probs, current[..., None])[..., 0]
            sums = np.matmul(by_member[:, None], probs)[:, 0]
            error = np.max(np.abs(sums * current / target - 1), axis=-1)
            is_finite = np.isfinite(error)
            scales[rows[is_finite]] = current[is_finite]
            is_scaled[rows] = error <= _TOLERANCE
            open_rows = is_finite & (error > _TOLERANCE)
            if not open_rows.any():
                break
            if not open_rows.all():
                rows, probs, weights = rows[open_rows], probs[open_rows], weights[open_rows]
                target, sums = target[open_rows], sums[open_rows]
            current = target / sums
            current /= current.max(axis=-1, keepdims=True)
    return scales, is_scaled
