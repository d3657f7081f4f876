"""Measures of uncertainty for each row, computed once for all that compare them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._losses import (
    comparable_decompositions,
    expected_of_mean,
    finite_losses_of_mean,
    mean_in_float64,
)
from scorewise._numerics import ten_digits
from scorewise.compare._advise import measure_name
from scorewise.decompose import COMPONENTS, Decomposition
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.rules import ScoringRule, zero_one

_SCREENED_ROWS = 2_000  # enough to distinguish most orders at little cost
_LAST_DIGIT = 1e-9  # the tenth digit of a score, relative to the score
_ROUNDING = 1e-14  # of a number up to 1, such as 1 − max p


@dataclass(frozen=True, eq=False)
class RowUncertainties:
    """Predictions of one set of rows, their mean and their uncertainty under several rules.

    The members are decomposed once, and everything that compares or evaluates these rows reads the
    results here. They are rounded to ten digits as in :func:`scorewise.certify`, so that rows which
    are tied at a threshold are tied everywhere.

    Attributes
    ----------
    predictions : Samples or Dirichlet
        Of n rows.
    mean : array (n, K)
        θ̄, in float64.
    by_rule : dict of ScoringRule to Decomposition
    """

    predictions: Samples | Dirichlet
    mean: np.ndarray
    by_rule: Mapping[ScoringRule, Decomposition]

    @classmethod
    def of(cls, predictions: Samples | Dirichlet, rules: Iterable[ScoringRule]) -> RowUncertainties:
        """Return the uncertainties under all rules; a rule that occurs twice counts once."""
        distinct = list(dict.fromkeys(rules))
        mean = mean_in_float64(predictions)
        decompositions = comparable_decompositions(predictions, mean, distinct)
        return cls(predictions, mean, dict(zip(distinct, decompositions, strict=True)))

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.mean)

    def scores(self, rule: ScoringRule, component: str) -> np.ndarray:
        """Return one component of the uncertainty under one of the rules, ``(n,)``."""
        return np.asarray(getattr(self.by_rule[rule], component))

    def task_losses(
        self, rule: ScoringRule, labels: np.ndarray, floor: float | None, first_row: int = 0
    ) -> TaskLosses:
        """Return the losses of the mean predictions; errors number rows from ``first_row`` on."""
        return TaskLosses(
            rule,
            labels,
            floor,
            finite_losses_of_mean(
                self.mean, labels, rule, floor, like=self.predictions, first_row=first_row
            ),
            ten_digits(expected_of_mean(self.mean, rule, floor, like=self.predictions)),
        )

    def measures(
        self, rules: Mapping[str, ScoringRule], components: Sequence[str], *, baselines: bool
    ) -> list[Measure]:
        """Return every component under every rule, by the names of the rules, and baselines."""
        for component in components:
            validate.choice(component, "components", COMPONENTS)
        measures = [
            self._measure(name, rule, component)
            for name, rule in rules.items()
            for component in components
        ]
        return measures + (self._baselines() if baselines else [])

    def _measure(self, rule_name: str, rule: ScoringRule, component: str) -> Measure:
        name, scores = measure_name(rule_name, component), self.scores(rule, component)
        scores = validate.vector(scores, name)
        if component == "epistemic":  # also the smallest values have their digits
            return Measure(name, scores, rounding=0.0)
        is_total = component == "total"
        return Measure(
            name, scores, rule.total_order(self.predictions.n_classes) if is_total else None
        )

    def _baselines(self) -> list[Measure]:
        """Return max-softmax, margin, and the variation ratio where members can vote."""
        k = self.predictions.n_classes
        top = np.sort(self.mean, axis=-1)
        by_largest = zero_one.total_order(k)
        margin = 1 - (top[:, -1] - top[:, -2])
        baselines = [
            Measure("max-softmax", ten_digits(1 - top[:, -1]), by_largest),
            Measure("margin", ten_digits(margin), by_largest if k == 2 else None),
        ]
        if isinstance(self.predictions, Samples):
            votes = to_numpy(self.predictions.probs).argmax(axis=-1)
            weights = self.predictions.weights
            shares = 1 / votes.shape[-1] if weights is None else to_numpy(weights)
            most = np.max([np.sum((votes == j) * shares, axis=-1) for j in range(k)], axis=0)
            baselines.append(Measure("variation ratio", ten_digits(1 - most)))
        return baselines


@dataclass(frozen=True, eq=False)
class TaskLosses:
    """Losses of labelled rows under the task's loss.

    Attributes
    ----------
    rule : ScoringRule
        The task's loss.
    labels : integer array (n,)
    floor : float or None
        The smallest probability that counts in the loss.
    incurred : array (n,)
        The losses that the mean predictions incurred; finite.
    expected : array (n,)
        The expected losses of the mean predictions, to ten digits.
    """

    rule: ScoringRule
    labels: np.ndarray
    floor: float | None
    incurred: np.ndarray
    expected: np.ndarray


@dataclass(frozen=True, eq=False)
class Measure:
    """A name and a score per row; larger is more uncertain.

    Measures of the same ``order`` rank rows alike by a theorem. ``rounding`` is the absolute error
    of scores that are computed from numbers up to 1, ``last_digit`` the relative error of scores
    that are rounded.
    """

    name: str
    scores: np.ndarray
    order: Hashable | None = None
    rounding: float = _ROUNDING
    last_digit: float = _LAST_DIGIT

    def followed_by(self, other: Measure) -> Measure:
        """Return the same measure of these rows and of further rows."""
        return replace(self, scores=np.concatenate([self.scores, other.scores]))


def own_measures(
    scores: Mapping[str, Any] | None, sizes: Mapping[str, int], others: Sequence[Measure]
) -> list[Measure]:
    """Return measures from the user's own scores: an array for one set of rows, a pair for two."""
    taken = {measure.name for measure in others}
    if not isinstance(scores or {}, Mapping):
        raise InvalidInput("scores must map the name of each score to its values")
    measures = []
    for name, values in (scores or {}).items():
        if name in taken:
            raise InvalidInput(f"scores has {name!r}, but another measure already has this name")
        parts = [values] if len(sizes) == 1 else values
        if len(sizes) > 1 and (not isinstance(values, list | tuple) or len(values) != len(sizes)):
            raise InvalidInput(
                f"scores[{name!r}] must be a pair: the scores of in-distribution rows, and those "
                "of out-of-distribution rows"
            )
        vectors = [validate.vector(part, f"scores[{name!r}]") for part in parts]
        for vector, (rows, size) in zip(vectors, sizes.items(), strict=True):
            if len(vector) != size:
                raise InvalidInput(
                    f"scores[{name!r}] has {len(vector)} entries for {size} rows ({rows})"
                )
        measures.append(Measure(str(name), np.concatenate(vectors), rounding=0.0, last_digit=0.0))
    return measures


# -- measures that order rows alike ---------------------------------------------------------------


def first_of_same_order(measures: Sequence[Measure]) -> dict[str, str]:
    """Return, by the name of each measure, the first measure that orders the rows as it does."""
    first: dict[str, str] = {}
    leaders: list[Measure] = []
    for measure in measures:
        leader = next((other for other in leaders if _same_order(other, measure)), measure)
        if leader is measure:
            leaders.append(measure)
        first[measure.name] = leader.name
    return first


def _same_order(a: Measure, b: Measure) -> bool:
    """Return whether two measures order all rows alike, by a theorem or up to rounding."""
    if a.order is not None and a.order == b.order:
        return True
    n = len(a.scores)
    screened = np.linspace(0, n - 1, min(n, _SCREENED_ROWS)).astype(int)
    return all(
        _never_falls(first, second, rows)
        for rows in (screened, slice(None))  # most orders differ in the screened rows already
        for first, second in ((a, b), (b, a))
    )


def _never_falls(first: Measure, second: Measure, rows: Any) -> bool:
    """Return whether the second measure never falls where the first rises or is tied."""
    x, y = first.scores[rows], second.scores[rows]
    # rows tied in the first are put in falling order of the second, so that a difference between
    # them shows as a fall
    y = y[np.lexsort((-y, x))]
    highest = np.maximum.accumulate(y)
    with np.errstate(invalid="ignore"):  # ∞ − ∞ of equal scores
        return not np.any(highest - y > second.last_digit * np.abs(y) + second.rounding)
