"""Areas under rejection curves: losses and scores in, numbers out; no rule is known here."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise import validate


def aulc(losses: Any, uncertainty: Any) -> float:
    """Area under the loss-rejection curve: the mean loss of the accepted, over all coverages.

    Use it to compare measures for abstaining: lower is better, and the total uncertainty of the
    loss itself is the best order there is (Proposition 4.1 of the paper).

    AULC = (1/n) Σ_{k=1..n} (1/k) Σ_{j≤k} loss_π(j), the most certain first. Tied uncertainties
    count as their expected value over random orders, so the order of the rows never matters.

    Parameters
    ----------
    losses : array (n,)
        What each prediction cost.
    uncertainty : array (n,)
        What to order them by; rows of the least uncertainty are accepted first.

    Raises
    ------
    InvalidInput
        If the two differ in length, are empty, or hold NaN.

    Examples
    --------
    >>> import scorewise as sw
    >>> round(sw.aulc([0, 0, 1], [0.1, 0.2, 0.9]), 4)
    0.1111
    >>> round(sw.aulc([0, 0, 1], [0.5, 0.5, 0.5]), 4)
    0.3333
    """
    loss, score = validate.losses_and_scores(losses, uncertainty, "uncertainty")
    order = np.argsort(score, kind="stable")
    loss, score = loss[order], score[order]
    starts = np.flatnonzero(np.r_[True, score[1:] != score[:-1]])
    sizes = np.diff(np.r_[starts, len(score)])
    expected = np.repeat(np.add.reduceat(loss, starts) / sizes, sizes)
    return float(np.mean(np.cumsum(expected) / np.arange(1, len(expected) + 1)))
