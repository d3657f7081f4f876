"""How unlikely are losses as small as these, if their true mean were as large as allowed?

Both functions take losses in a given order and give a p-value for each prefix asked for: the
probability, at most, of losses so small among that many independent ones of mean ``level``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

PValues = Callable[[np.ndarray, np.ndarray, float, float], np.ndarray]

_BETS = 40  # sizes of a bet, from a thousandth of the largest that cannot ruin
_SMALLEST_BET, _LARGEST_BET = 1e-3, 0.99
_NARROW, _WIDE = 0.7, 20.0  # how far a good bet may be from that for the largest variance
_TYPICAL_CAPITAL = np.log(10)  # at which the bets are meant to be good: confidence 0.9


def binomial(losses: np.ndarray, sizes: np.ndarray, level: float, copies: float) -> np.ndarray:
    """Exact p-values for losses of 0 and 1.

    Parameters
    ----------
    losses : array (n,)
        In order.
    sizes : array of int (k,)
        Lengths of the prefixes, from 1 to n.
    level : float
        The mean that is tested, above 0 and below 1.
    copies : float
        As if every loss had been seen so many times.

    Returns
    -------
    array (k,)
    """
    from scipy.special import betainc

    errors = np.cumsum(losses)[sizes - 1] * copies
    return np.asarray(betainc(np.maximum(sizes * copies - errors, 1e-9), errors + 1, 1 - level))


def betting(losses: np.ndarray, sizes: np.ndarray, level: float, copies: float) -> np.ndarray:
    """P-values for losses from 0 to 1, by the wealth of who bets that they are smaller.

    With bets of size λ the wealth is Π (1 + λ(level − loss)), of mean at most 1 if the losses'
    means are at least ``level``; so is that of a mixture of λ, and a wealth of 1/δ has at most the
    probability δ (Waudby-Smith and Ramdas, 2024). Bets are of fixed sizes, so that the order of
    the losses does not matter; the mixture is over those that suit the length of the prefix.

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
    for bet in bets:
        taken = (bet >= lowest) & (bet <= highest)
        growth = np.cumsum(np.log(1 + bet * (level - losses)))[sizes - 1] * copies
        log_wealth = np.logaddexp(log_wealth, np.where(taken, growth, -np.inf))
        n_bets += taken
    return np.asarray(np.exp(np.minimum(0.0, np.log(n_bets) - log_wealth)))
