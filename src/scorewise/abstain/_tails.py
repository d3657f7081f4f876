"""P-values of mean losses: exact binomial tests, and tests by betting.

Both functions take losses in order and return a p-value for each prefix, of the hypothesis that
these are independent losses with a mean of at least ``level``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

PValues = Callable[[np.ndarray, np.ndarray, float, float], np.ndarray]

_BETS = 40  # number of sizes of a bet; with the largest, wealth stays above 0
_BLOCK = 1 << 16  # numbers that are computed at a time
_SMALLEST_BET, _LARGEST_BET = 1e-3, 0.99
_NARROW, _WIDE = 0.7, 20.0  # range of bets around the best one for the largest variance
_TYPICAL_CAPITAL = np.log(10)  # the bets are chosen for a confidence of about 0.9


def binomial(losses: np.ndarray, sizes: np.ndarray, level: float, copies: float) -> np.ndarray:
    """Exact p-values for losses of 0 and 1.

    Parameters
    ----------
    losses : array (n,)
        Losses of 0 and 1, in order.
    sizes : array of int (k,)
        Lengths of the prefixes, from 1 to n.
    level : float
        The mean that is tested, above 0 and below 1.
    copies : float
        How many times each loss counts.

    Returns
    -------
    array (k,)
    """
    from scipy.special import betainc

    errors = np.cumsum(losses)[sizes - 1] * copies
    return np.asarray(betainc(np.maximum(sizes * copies - errors, 1e-9), errors + 1, 1 - level))


def betting(losses: np.ndarray, sizes: np.ndarray, level: float, copies: float) -> np.ndarray:
    """P-values for losses from 0 to 1, from the wealth of bets against a mean of ``level``.

    With bets of size λ the wealth is Π (1 + λ(level − loss)). Its mean is at most 1 if the mean
    loss is at least ``level``, also for a mixture of λ, so a wealth of 1/δ has at most the
    probability δ (Waudby-Smith and Ramdas, 2024). The sizes of bets are fixed, so the order of the
    losses does not matter. The mixture is over the sizes that suit the length of the prefix.

    Parameters
    ----------
    losses, sizes, level, copies
        As for :func:`binomial`.

    Returns
    -------
    array (k,)
    """
    bets = np.geomspace(_SMALLEST_BET, _LARGEST_BET, _BETS) / (1 - level)
    # The best bet on n losses of variance v ≤ level(1 − level) is about sqrt(2 log(1/δ) / (n v)).
    suited = np.sqrt(2 * _TYPICAL_CAPITAL / (sizes * copies * level * (1 - level)))
    lowest, highest = np.minimum(_NARROW * suited, bets[-1]), np.maximum(_WIDE * suited, bets[0])
    log_wealth, n_bets = np.full(len(sizes), -np.inf), np.zeros(len(sizes))
    bets = bets[(bets >= lowest.min()) & (bets <= highest.max())]
    step = max(1, _BLOCK // len(losses))
    for start in range(0, len(bets), step):
        block = bets[start : start + step, None]
        taken = (block >= lowest) & (block <= highest)
        growth = np.cumsum(np.log(1 + block * (level - losses)), axis=1)[:, sizes - 1] * copies
        growth = np.where(taken, growth, -np.inf)
        log_wealth = np.logaddexp.reduce(np.concatenate([log_wealth[None], growth]), axis=0)
        n_bets += taken.sum(axis=0)
    return np.asarray(np.exp(np.minimum(0.0, np.log(n_bets) - log_wealth)))
