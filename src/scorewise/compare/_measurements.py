"""Decompositions, losses and scores of predictions, computed once for all that use them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._mean_losses import (
    expected_of_mean,
    finite_losses_of_mean,
    mean_in_float64,
    total_of_mean,
)
from scorewise.compare._advise import measure_name
from scorewise.decompose import COMPONENTS, Decomposition, decompose
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.rules import ScoringRule, zero_one

_SCREENED_ROWS = 2_000  # enough to distinguish most orders at little cost
_ROUNDING = 64  # units in the last place by which a computed measure may be wrong


@dataclass(frozen=True, eq=False)
class Measurements:
    """Predictions of one set of rows and their uncertainty under several rules.

    All decompositions come from one pass over the members, and everything that compares or
    evaluates these rows reads them here.

    Attributes
    ----------
    predictions : Samples or Dirichlet
        Of n rows.
    decompositions : dict of ScoringRule to Decomposition
    """

    predictions: Samples | Dirichlet
    decompositions: Mapping[ScoringRule, Decomposition]

    @classmethod
    def of(cls, predictions: Samples | Dirichlet, rules: Iterable[ScoringRule]) -> Measurements:
        """The measurements of these rows under all rules; a rule that occurs twice counts once."""
        by_key = {str(i): rule for i, rule in enumerate(dict.fromkeys(rules))}
        results = decompose(predictions, by_key)
        return cls(predictions, {rule: results[key] for key, rule in by_key.items()})

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.mean)

    @cached_property
    def mean(self) -> np.ndarray:
        """θ̄, ``(n, K)``, in float64: so a policy is certified by the same losses and totals."""
        return mean_in_float64(self.predictions)

    def scores(self, rule: ScoringRule, component: str) -> np.ndarray:
        """One component of the uncertainty under a rule that was measured, ``(n,)``."""
        return to_numpy(getattr(self.decompositions[rule], component))

    def task_losses(self, rule: ScoringRule, y: Any, floor: float | None) -> TaskLosses:
        """The losses that the mean predictions incur for labels ``y``."""
        losses = finite_losses_of_mean(self.mean, y, rule, floor)
        return TaskLosses(
            losses, expected_of_mean(self.mean, rule, floor), total_of_mean(self.mean, rule)
        )

    def measures(
        self, rules: Mapping[str, ScoringRule], components: Sequence[str], *, baselines: bool
    ) -> list[Measure]:
        """Every component under every rule, by the names of the rules, and the baselines."""
        for component in components:
            validate.choice(component, "components", COMPONENTS)
        measures = [
            self._measure(name, rule, component)
            for name, rule in rules.items()
            for component in components
        ]
        return measures + (self._baselines() if baselines else [])

    def _measure(self, name: str, rule: ScoringRule, component: str) -> Measure:
        order = None
        if component == "total":
            order = rule.total_order(self.predictions.n_classes)
        least = 0.0 if component == "epistemic" else 1.0
        return _computed(measure_name(name, component), self.scores(rule, component), least, order)

    def _baselines(self) -> list[Measure]:
        """Max-softmax, margin, and the variation ratio where there are members to vote."""
        k = self.predictions.n_classes
        top = np.sort(self.mean, axis=-1)
        by_largest = zero_one.total_order(k)
        margin = 1 - (top[:, -1] - top[:, -2])
        baselines = [
            _computed("max-softmax", 1 - top[:, -1], 1.0, by_largest),
            _computed("margin", margin, 1.0, by_largest if k == 2 else None),
        ]
        if isinstance(self.predictions, Samples):
            votes = to_numpy(self.predictions.probs).argmax(axis=-1)
            weights = self.predictions.weights
            shares = 1 / votes.shape[-1] if weights is None else to_numpy(weights)
            most = np.max([np.sum((votes == j) * shares, axis=-1) for j in range(k)], axis=0)
            baselines.append(_computed("variation ratio", 1 - most, 1.0))
        return baselines


@dataclass(frozen=True, eq=False)
class TaskLosses:
    """Losses and uncertainties of labelled rows under the task's loss.

    Attributes
    ----------
    losses : array (n,)
        The losses that the mean predictions incurred; finite.
    expected : array (n,)
        The expected losses of the mean predictions.
    totals : array (n,)
        The total uncertainty, rounded to be compared with a threshold.
    """

    losses: np.ndarray
    expected: np.ndarray
    totals: np.ndarray


@dataclass(frozen=True, eq=False)
class Measure:
    """A name and a score per row; larger is more uncertain.

    ``rounding`` (n,) is how far a score may be from its true value. Measures of the same ``order``
    rank rows alike by a theorem, however they were rounded.
    """

    name: str
    scores: np.ndarray
    rounding: np.ndarray
    order: Hashable | None = None

    def followed_by(self, other: Measure) -> Measure:
        """The same measure of these rows and of further rows."""
        return Measure(
            self.name,
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.rounding, other.rounding]),
            self.order,
        )


def own_measures(
    scores: Mapping[str, Any] | None, sizes: Mapping[str, int], others: Sequence[Measure]
) -> list[Measure]:
    """The user's own scores: an array for one set of rows, a pair for two sets."""
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
        own = np.concatenate(vectors)
        measures.append(Measure(str(name), own, np.zeros(len(own))))
    return measures


def _computed(name: str, values: Any, least: float, order: Hashable | None = None) -> Measure:
    """A measure with rounding errors relative to its size, or to ``least`` where that is larger."""
    scores = to_numpy(values)
    unit = _ROUNDING * float(np.finfo(scores.dtype).eps)
    scores = validate.vector(scores, name)
    return Measure(name, scores, unit * np.maximum(np.abs(scores), least), order)


# -- measures that order rows alike ---------------------------------------------------------------


def first_of_same_order(measures: Sequence[Measure]) -> dict[str, str]:
    """By the name of each measure: the first measure that orders the rows as it does."""
    first: dict[str, str] = {}
    leaders: list[Measure] = []
    for measure in measures:
        leader = next((other for other in leaders if _same_order(other, measure)), measure)
        if leader is measure:
            leaders.append(measure)
        first[measure.name] = leader.name
    return first


def _same_order(a: Measure, b: Measure) -> bool:
    """Whether two measures order all rows alike, by a theorem or up to rounding."""
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
    """Whether the second measure rises wherever the first does, and is tied where that is."""
    x, y, rounding = first.scores[rows], second.scores[rows], second.rounding[rows]
    # tied rows of the first in falling order of the second: if they differ there, it falls
    order = np.lexsort((-y, x))
    y = y[order]
    highest = np.maximum.accumulate(y)
    with np.errstate(invalid="ignore"):  # ∞ − ∞ of equal scores
        return not np.any(highest - y > rounding[order])
