"""Certified thresholds: a guarantee on the mean loss of the rows that a threshold accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, overload

import numpy as np

from scorewise import _validate as validate
from scorewise._notebook import TextInNotebooks
from scorewise._numerics import ten_digits
from scorewise._text import percent
from scorewise.abstain._drift import Drift
from scorewise.errors import InvalidInput
from scorewise.rules import Unit

_LOSS = Unit("loss")  # where the losses are bare numbers
_RATIO = 1.5  # each start of the search is at this multiple of the rank before
_ROUNDING = 1e-4  # of losses computed from float32 probabilities, relative to their bound
_PRECISION = 1e-4  # of the bound, relative to max_loss
_N_THINNED = 20_000  # rows from which the number of further rows is computed
_MOST_COPIES = 2**32  # of the certification data; needing more means that no number helps


@dataclass(frozen=True, repr=False)
class Certificate(TextInNotebooks):
    """A threshold and its risk guarantee; made by :func:`scorewise.certify_threshold`.

    On new data like the certification data, the mean loss where ``uncertainty <= threshold`` is at
    most ``max_loss``. At most a proportion 1 − ``confidence`` of calibration sets gives a threshold
    for which this is false.

    Attributes
    ----------
    threshold : float
        The largest uncertainty of the accepted certification rows; −inf where nothing could be
        certified. ``accepts`` compares with it: other uncertainties may differ in the last digits.
    coverage : float
        Proportion of the certification data that it accepts.
    bound : float
        Upper confidence limit of the loss at this threshold alone, at most ``max_loss``; NaN where
        nothing could be certified.
    loss : float
        Mean loss of the accepted certification data; NaN where there are none.
    max_loss, confidence : float
        The guarantee: the largest mean loss, and its confidence.
    n_calibration : int
        Number of certification rows.
    n_more_rows : int, optional
        Number of further rows that would be needed at the observed losses, where nothing could be
        certified; None where a threshold was certified, or no number of rows would help.
    unit : Unit
        The unit of the losses, in which the certificate is printed.
    drift : Drift, optional
        The last check whether new inputs still look like the certification data.
    fewest_rows : int
        The number of rows that would certify a threshold if none incurred a loss; with fewer, no
        losses do.

    Examples
    --------
    >>> import scorewise as sw
    >>> cert = sw.certify_threshold([0] * 190 + [1] * 10, range(200), max_loss=0.02)
    >>> cert.threshold, cert.coverage, cert.loss
    (189.0, 0.95, 0.0)
    >>> cert.guarantee
    'a mean loss of at most 0.02 with 95 % confidence'
    >>> cert.accepts([150, 199])
    array([ True, False])
    """

    threshold: float
    coverage: float
    bound: float
    loss: float
    max_loss: float
    confidence: float
    n_calibration: int
    n_more_rows: int | None = None
    unit: Unit = _LOSS
    drift: Drift | None = field(default=None, compare=False)
    fewest_rows: int = 1

    @classmethod
    def of(
        cls,
        losses: Any,
        uncertainty: Any,
        max_loss: float,
        confidence: float,
        *,
        loss_bound: float,
        unit: Unit,
    ) -> Certificate:
        """Return the certificate of one group, as :func:`scorewise.certify_threshold` does.

        It does not warn, for callers that show the certificate themselves.

        Parameters
        ----------
        losses, uncertainty, max_loss, confidence, loss_bound, unit
            As for :func:`scorewise.certify_threshold`.

        Returns
        -------
        Certificate
        """
        return _certificate(
            *_checked(losses, uncertainty, max_loss, confidence, loss_bound), unit=unit
        )

    def accepts(self, uncertainty: Any) -> np.ndarray:
        """Return whether each row is accepted.

        Uncertainties are rounded to ten digits, as those of the certification rows were, so that
        rounding errors do not decide about tied rows.

        Parameters
        ----------
        uncertainty : array (n,)
            Computed in float64: in float32, tied rows differ in more than the last of ten digits.
            :meth:`scorewise.abstain.Policy.apply` decides alike in both.

        Returns
        -------
        array of bool (n,)
        """
        scores = validate.vector(uncertainty, "uncertainty", may_be_empty=True)
        tied_or_less = ten_digits(scores) <= ten_digits(self.threshold)
        return np.asarray(tied_or_less & (self.coverage > 0))

    def __repr__(self) -> str:
        return f"{self._sentence()} WARNING: {self.drift}" if self.has_drifted else self._sentence()

    @property
    def has_drifted(self) -> bool:
        """Whether new inputs did not look like the certification data in the last check."""
        return self.drift is not None and self.drift.has_drifted

    @property
    def has_too_few_rows(self) -> bool:
        """Whether there are so few rows that not even losses of 0 certify a threshold."""
        return self.n_calibration < self.fewest_rows

    @property
    def guarantee(self) -> str:
        """The guarantee in words: "a mean loss of at most 0.05 with 95 % confidence"."""
        return (
            f"a mean {self.unit.noun} of at most {self.unit.format_exact(self.max_loss)} with "
            f"{percent(self.confidence, '.12g')} confidence"
        )

    def _sentence(self) -> str:
        is_single = self.n_calibration == 1
        rows = f"{self.n_calibration:,} certification row{'s' * (not is_single)}"
        if self.coverage:
            noun, max_loss = self.unit.noun, self.unit.format_exact(self.max_loss)
            return (
                f"Accept where uncertainty <= {self.threshold:.6g}: "
                f"{percent(self.coverage, '.1f')} of {rows}, with a mean {noun} of "
                f"{self.unit.format(self.loss)}. The mean {noun} of new rows that are accepted is "
                f"at most {max_loss}, with {percent(self.confidence, '.12g')} confidence."
            )
        if self.n_more_rows is None and self.has_too_few_rows:
            advice = f"at least {self.fewest_rows:,} are needed, even if none incurs a loss"
        elif self.n_more_rows is None:
            advice = (
                "more of them may not help at the losses observed: allow a larger loss, or use a "
                "better model or measure"
            )
        else:
            advice = f"at the losses observed, about {self.n_more_rows:,} more would be needed"
        verb = "does" if is_single else "do"
        return f"Nothing can be accepted: {rows} {verb} not certify {self.guarantee}; {advice}."


@overload
def certify_threshold(
    losses: Any,
    uncertainty: Any,
    max_loss: float,
    confidence: float = ...,
    *,
    loss_bound: float = ...,
    groups: None = ...,
    unit: Unit = ...,
) -> Certificate: ...
@overload
def certify_threshold(
    losses: Any,
    uncertainty: Any,
    max_loss: float,
    confidence: float = ...,
    *,
    loss_bound: float = ...,
    groups: Any,
    unit: Unit = ...,
) -> dict[Any, Certificate]: ...
def certify_threshold(
    losses: Any,
    uncertainty: Any,
    max_loss: float,
    confidence: float = 0.95,
    *,
    loss_bound: float = 1.0,
    groups: Any = None,
    unit: Unit = _LOSS,
) -> Certificate | dict[Any, Certificate]:
    """Return the largest threshold whose mean loss is certified to be at most ``max_loss``.

    Use it on held-out data, which were used neither to fit the model nor to choose the measure, to
    decide from which uncertainty on to abstain.

    Thresholds are tested in a fixed sequence, from the most certain row on. Each test is against
    "the true mean loss of what this threshold accepts is above ``max_loss``", and the search stops
    where a test fails. Only the first threshold that is too large can then cause an error, so no
    correction for the number of thresholds is needed, as Bonferroni's would be.

    Few rows give weak evidence. The search therefore starts again at a few ranks fixed beforehand,
    each 1.5 times the rank before. The starts share 1 − ``confidence`` equally, and a search that
    has not failed adds the next share to its own.

    The tests are exact binomial tests for losses of 0 and 1, and betting tests otherwise. Both hold
    for finite samples. A threshold accepts all tied rows. The search is exact without ties; with
    ties, simulations show no more errors than 1 − ``confidence``.

    Uncertainties are compared to ten digits, here and by ``Certificate.accepts``. Rows with equal
    votes are then tied whatever their rounding errors, if uncertainties were computed in float64.
    For float32 predictions use :func:`scorewise.certify`, which averages members in float64.

    Parameters
    ----------
    losses : array (n,)
        Losses of the rows, from 0 to ``loss_bound`` (or above it by rounding, up to 1e-4).
    uncertainty : array (n,)
        Uncertainties of the same rows.
    max_loss : float
        The largest mean loss to allow, above 0 and below ``loss_bound``.
    confidence : float
        Confidence of the guarantee, above 0 and below 1.
    loss_bound : float
        The largest loss that can occur, on any data: 1 for zero-one and spherical, 2 for Brier,
        −log(floor) for a floored log loss.
    groups : array (n,), optional
        Names of groups. Each group gets its own certificate, each with that confidence.
    unit : Unit, optional
        The unit in which certificates are printed: that of the losses' rule, ``rule.unit``.

    Returns
    -------
    Certificate, or dict of group to Certificate
        Coverage 0 and threshold −inf where nothing can be certified; ``n_more_rows`` is the
        number of further rows that may help.

    Warns
    -----
    ScorewiseWarning
        If there are so few rows that nothing could be certified even if none incurred a loss.

    Raises
    ------
    InvalidInput
        If the losses are not within their bound, lengths differ, or the target is impossible.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> u = rng.uniform(size=1000)
    >>> wrong = rng.uniform(size=1000) < 0.02 + 0.4 * u**2
    >>> cert = sw.certify_threshold(wrong, u, max_loss=0.08, confidence=0.9)
    >>> print(cert)
    Accept where uncertainty <= 0.424106: 39.7 % of 1,000 certification rows, with a mean loss of
    0.05793. The mean loss of new rows that are accepted is at most 0.08, with 90 % confidence.
    >>> cert.accepts([0.1, 0.9])
    array([ True, False])
    >>> print(sw.certify_threshold([0] * 99 + [1], [0] * 100, max_loss=0.03))
    Nothing can be accepted: 100 certification rows do not certify a mean loss of at most 0.03 with
    95 % confidence; at the losses observed, about 179 more would be needed.
    """
    loss, score, *guarantee = _checked(losses, uncertainty, max_loss, confidence, loss_bound)
    if groups is None:
        certificate = _certificate(loss, score, *guarantee, unit=unit)
        warn_if_too_few_rows([certificate])
        return certificate
    names = validate.groups(groups, len(loss))
    certificates = {
        name: _certificate(loss[names == name], score[names == name], *guarantee, unit=unit)
        for name in np.unique(names).tolist()
    }
    warn_if_too_few_rows(list(certificates.values()))
    return certificates


def warn_if_too_few_rows(certificates: Sequence[Certificate]) -> None:
    """Warn if there are so few rows that not even losses of 0 could certify a threshold.

    Parameters
    ----------
    certificates : sequence of Certificate
        Of one call, with the same guarantee: that of all rows, or those of groups.
    """
    first = certificates[0]
    sizes = [c.n_calibration for c in certificates if c.has_too_few_rows]
    if not sizes:
        return
    rows = f"{min(sizes):,} certification row{'s' * (min(sizes) != 1)}"
    if len(certificates) > 1:
        rows = f"{len(sizes)} of {len(certificates)} groups have too few rows: {rows}"
    validate.warn(
        f"{rows} cannot certify {first.guarantee}, even if none incurs a loss, so nothing is "
        f"accepted; at least {first.fewest_rows:,} are needed"
    )


def _checked(
    losses: Any, uncertainty: Any, max_loss: float, confidence: float, loss_bound: float
) -> tuple[np.ndarray, np.ndarray, float, float, float]:
    """Return the arguments, with losses up to their bound."""
    loss, score = validate.losses_and_scores(losses, uncertainty, "uncertainty")
    bound = validate.number(loss_bound, "loss_bound")
    if bound <= 0:
        raise InvalidInput(f"loss_bound is {bound:g}; the largest loss must be above 0")
    wrong = (loss < 0) | (loss > bound * (1 + _ROUNDING))
    if wrong.any():
        index = int(np.argmax(wrong))
        raise InvalidInput(
            f"losses[{index}] is {loss[index]:.6g}; losses must be from 0 to loss_bound={bound:g}, "
            "the largest loss that can occur (2 for Brier, -log(floor) for a floored log loss)"
        )
    max_loss = validate.number(max_loss, "max_loss")
    if not 0 < max_loss < bound:
        raise InvalidInput(
            f"a mean loss of at most {max_loss:g} cannot be certified; the limit must be above 0 "
            f"and below {bound:g}, the largest loss"
        )
    confidence = validate.proportion(confidence, "confidence")
    return np.minimum(loss, bound), score, max_loss, confidence, bound


def _certificate(
    loss: np.ndarray,
    score: np.ndarray,
    max_loss: float,
    confidence: float,
    loss_bound: float,
    *,
    unit: Unit,
) -> Certificate:
    ranked = _Ranked.of(loss / loss_bound, score)
    search = _Search(max_loss / loss_bound, 1 - confidence)
    accepted, level = search.largest_accepted(ranked)
    certify = partial(
        Certificate,
        max_loss=max_loss,
        confidence=confidence,
        n_calibration=len(loss),
        unit=unit,
        fewest_rows=int(search.fewest()),
    )
    if not accepted:
        return certify(-np.inf, 0.0, np.nan, np.nan, n_more_rows=search.n_more_rows(ranked))
    return certify(
        float(np.sort(score)[accepted - 1]),
        accepted / len(loss),
        search.bound(ranked, accepted, level) * loss_bound,
        float(np.mean(ranked.losses[:accepted])) * loss_bound,
    )


@dataclass(frozen=True)
class _Ranked:
    """Calibration data from the most certain row on, with losses divided by the largest loss."""

    losses: np.ndarray
    scores: np.ndarray
    p_values: Callable[[np.ndarray, np.ndarray, float, float], np.ndarray]

    @classmethod
    def of(cls, losses: np.ndarray, scores: np.ndarray) -> _Ranked:
        """Return the data in rising order of the scores to ten digits, with a test for them.

        Tied rows are in rising order of their losses, so that the order of the rows does not matter
        to the last digit.
        """
        scores = ten_digits(scores)
        order = np.lexsort((losses, scores))
        is_binary = bool(np.all((losses == 0) | (losses == 1)))
        return cls(losses[order], scores[order], _binomial if is_binary else _betting)

    def thinned(self, n: int) -> _Ranked:
        """Return about n of the rows, evenly along the ranks."""
        step = -(-len(self.losses) // n)
        rows = slice(step // 2, None, step)
        return replace(self, losses=self.losses[rows], scores=self.scores[rows])

    @property
    def ends(self) -> np.ndarray:
        """Number of rows that each threshold accepts, with all tied rows."""
        return np.flatnonzero(np.r_[self.scores[1:] != self.scores[:-1], True]) + 1


@dataclass(frozen=True)
class _Search:
    """The fixed-sequence search, for losses divided by the largest loss.

    Why it holds. Let R(t) be the true mean loss of what is accepted up to t, and a the first
    threshold of a stretch where R is above ``level``. To accept a threshold of the stretch, the
    search must have passed a test in it although R is above ``level`` there.

    1. The search started before a. Then it has passed the test at a. Given the number of rows up to
       a and all rows beyond, the rows up to a are independent draws with a mean loss of at least
       ``level``, so the p-value at a is valid.
    2. The search started within the stretch. Then it has passed the test at its start. Going down
       from the least certain row, the start is a stopping time: the rows up to it are independent
       draws from below the next row, so the p-value at the start is valid.

    The ranks alone decide which case applies to each start, so the shares of ``delta`` that can be
    spent add up to ``delta``. Without ties this is exact. With ties the ranks of starts and the
    losses are not quite independent, mostly in the conservative direction; simulations support
    that case.
    """

    level: float  # max_loss / loss_bound
    delta: float  # 1 - confidence

    def fewest(self, n_starts: int = 1) -> float:
        """Return the number of rows that certify a threshold if all losses are 0."""
        return float(math.ceil(math.log(self.delta / n_starts) / math.log1p(-self.level)))

    def starts(self, n: float) -> np.ndarray:
        """Return the ranks at which the search starts, each 1.5 times the one before."""
        # More starts need more rows; there are never 200, which bounds their number from below.
        n_starts = 1 + max(0, int(math.log(n / self.fewest(200), _RATIO)))
        while self.fewest(n_starts + 1) * _RATIO**n_starts <= n:
            n_starts += 1
        starts = np.floor(self.fewest(n_starts) * _RATIO ** np.arange(n_starts))
        return np.asarray(starts[starts <= n])

    def _places(self, ends: np.ndarray, copies: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of thresholds at which the search starts, with shares of ``delta``.

        With ``copies`` each row counts that many times.
        """
        n = int(ends[-1])
        starts = np.ceil(np.round(self.starts(n * copies) / copies, 9))
        share = self.delta / max(1, len(starts))
        if copies > 1 and len(starts):  # the losses of few rows are a poor estimate for more
            trusted = starts[starts >= min(self.fewest(), n)]
            starts = trusted if len(trusted) else starts[-1:]
        # A start is at the last threshold that accepts no more rows than its rank, or at the first.
        places = np.maximum(np.searchsorted(ends, starts, side="right") - 1, 0)
        places, n_starts = np.unique(places, return_counts=True)
        return places, n_starts * share

    def certifies(self, ranked: _Ranked, ends: np.ndarray, copies: float) -> bool:
        """Return whether any threshold would pass if each row counted ``copies`` times.

        Until one start passes, all before it have failed, so each has its own share only.
        """
        places, shares = self._places(ends, copies)
        if not len(places):
            return False
        p_values = ranked.p_values(ranked.losses, ends[places], self.level, copies)
        return bool((p_values <= shares).any())

    def largest_accepted(self, ranked: _Ranked) -> tuple[int, float]:
        """Return the largest number of rows that can be accepted, and the level of its test."""
        ends = ranked.ends
        places, shares = self._places(ends, 1.0)
        if not len(places):
            return 0, 0.0
        first_start = places[0]
        p_values = np.full(len(ends), np.nan)
        p_values[first_start:] = ranked.p_values(ranked.losses, ends[first_start:], self.level, 1.0)
        accepted, level_of_last_pass, level = 0, 0.0, 0.0
        next_starts = np.r_[places[1:], len(ends)]
        for start, next_start, share in zip(places, next_starts, shares, strict=True):
            level += share
            failures = np.flatnonzero(~(p_values[start:next_start] <= level))
            n_passed = int(failures[0]) if len(failures) else int(next_start - start)
            if n_passed:
                accepted, level_of_last_pass = int(ends[start + n_passed - 1]), level
            if len(failures):
                level = 0.0
        return accepted, level_of_last_pass

    def n_more_rows(self, ranked: _Ranked) -> int | None:
        """Return how many further rows like these would certify a threshold, or None."""
        n, thinned = len(ranked.losses), ranked.thinned(_N_THINNED)
        ends = thinned.ends

        def certify(rows: int) -> bool:
            return self.certifies(thinned, ends, rows / len(thinned.losses))

        too_few, enough = n, 2 * n
        while not certify(enough):
            too_few, enough = enough, 2 * enough
            if enough > _MOST_COPIES * n:
                return None
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            too_few, enough = (too_few, middle) if certify(middle) else (middle, enough)
        return enough - n

    def bound(self, ranked: _Ranked, accepted: int, level: float) -> float:
        """Return the smallest mean that the accepted losses reject at this level."""
        losses, size = ranked.losses[:accepted], np.array([accepted])
        not_rejected, rejected = float(np.mean(losses)), self.level
        while rejected - not_rejected > _PRECISION * self.level:
            middle = (not_rejected + rejected) / 2
            if ranked.p_values(losses, size, middle, 1.0)[0] <= level:
                rejected = middle
            else:
                not_rejected = middle
        return rejected


# -- p-values of mean losses -----------------------------------------------------------------------
#
# Both functions take losses in order and return a p-value for each prefix, of the hypothesis that
# these are independent losses with a mean of at least ``level``.

_BETS = np.geomspace(1e-3, 0.99, 40)  # sizes of bets; with the largest, wealth stays above 0
_BLOCK = 1 << 16  # numbers that are computed at a time
_NARROW, _WIDE = 0.7, 20.0  # range of bets around the best one for the largest variance
_TYPICAL_CAPITAL = np.log(10)  # the bets are chosen for a confidence of about 0.9


def _binomial(losses: np.ndarray, sizes: np.ndarray, level: float, copies: float) -> np.ndarray:
    """Return exact p-values for losses of 0 and 1.

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


def _betting(losses: np.ndarray, sizes: np.ndarray, level: float, copies: float) -> np.ndarray:
    """Return p-values for losses from 0 to 1, from the wealth of bets against a mean of ``level``.

    With bets of size λ the wealth is Π (1 + λ(level − loss)). Its mean is at most 1 if the mean
    loss is at least ``level``, also for a mixture of λ, so a wealth of 1/δ has at most the
    probability δ (Waudby-Smith and Ramdas, 2024). The sizes of bets are fixed, so the order of the
    losses does not matter. The mixture is over the sizes that suit the length of the prefix.

    Parameters
    ----------
    losses, sizes, level, copies
        As for ``_binomial``.

    Returns
    -------
    array (k,)
    """
    bets = _BETS / (1 - level)
    # The best bet on n losses of variance v ≤ level(1 − level) is about sqrt(2 log(1/δ) / (n v)).
    typical_bet = np.sqrt(2 * _TYPICAL_CAPITAL / (sizes * copies * level * (1 - level)))
    lowest, highest = (
        np.minimum(_NARROW * typical_bet, bets[-1]),
        np.maximum(_WIDE * typical_bet, bets[0]),
    )
    log_wealth, n_bets = np.full(len(sizes), -np.inf), np.zeros(len(sizes))
    bets = bets[(bets >= lowest.min()) & (bets <= highest.max())]
    step = max(1, _BLOCK // len(losses))
    for start in range(0, len(bets), step):
        block = bets[start : start + step, None]
        in_range = (block >= lowest) & (block <= highest)
        growth = np.cumsum(np.log(1 + block * (level - losses)), axis=1)[:, sizes - 1] * copies
        growth = np.where(in_range, growth, -np.inf)
        log_wealth = np.logaddexp.reduce(np.concatenate([log_wealth[None], growth]), axis=0)
        n_bets += in_range.sum(axis=0)
    return np.asarray(np.exp(np.minimum(0.0, np.log(n_bets) - log_wealth)))
