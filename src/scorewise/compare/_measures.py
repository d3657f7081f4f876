"""All measures that take part in a comparison, and which of them order rows alike."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise import rules as scoring_rules
from scorewise._array import to_numpy
from scorewise.compare._advise import measure_name
from scorewise.decompose import COMPONENTS, RuleLike, decompose, named_rules
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput

_SCREENED = 2_000  # rows that tell most orders apart at little cost
_ROUNDING = 64  # units in the last place that computing a measure may have cost


@dataclass(frozen=True, eq=False)
class Measure:
    """A name and a score per row; larger is more uncertain.

    ``rounding`` (n,) is how far from its score a row's true one may be; measures of the same
    ``order`` rank rows alike by a theorem, however they were rounded.
    """

    name: str
    scores: np.ndarray
    rounding: np.ndarray
    order: Hashable | None = None

    def followed_by(self, other: Measure) -> Measure:
        """The same measure of further rows."""
        return Measure(
            self.name,
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.rounding, other.rounding]),
            self.order,
        )


def measures_of(
    predictions: Samples | Dirichlet,
    rules: Iterable[RuleLike] | Mapping[str, RuleLike],
    components: Sequence[str],
    *,
    baselines: bool,
) -> list[Measure]:
    """Every component under every rule, and what people use without any."""
    for component in components:
        validate.choice(component, "components", COMPONENTS)
    named = named_rules(rules)
    found = []
    for name, result in decompose(predictions, named).items():
        for component in components:
            order = None
            if component == "total":
                order = named[name].total_order(predictions.n_classes)
            least = 0.0 if component == "epistemic" else 1.0
            scores = getattr(result, component)
            found.append(_computed(measure_name(name, component), scores, least, order))
    return found + _baselines(predictions) * baselines


def _baselines(predictions: Samples | Dirichlet) -> list[Measure]:
    top = np.sort(to_numpy(predictions.mean), axis=-1)
    largest = scoring_rules.zero_one.total_order(predictions.n_classes)
    margin = 1 - (top[:, -1] - top[:, -2])
    found = [
        _computed("max-softmax", 1 - top[:, -1], 1.0, largest),
        _computed("margin", margin, 1.0, largest if predictions.n_classes == 2 else None),
    ]
    if isinstance(predictions, Samples):
        votes = to_numpy(predictions.probs).argmax(axis=-1)
        weights = predictions.weights
        shares = 1 / votes.shape[-1] if weights is None else to_numpy(weights)
        classes = range(predictions.n_classes)
        most = np.max([np.sum((votes == k) * shares, axis=-1) for k in classes], axis=0)
        found.append(_computed("variation ratio", 1 - most, 1.0))
    return found


def own_measures(
    scores: Mapping[str, Any] | None, sizes: Mapping[str, int], others: Sequence[Measure]
) -> list[Measure]:
    """The user's own scores: of one set of rows, or a pair for two sets."""
    found = []
    taken = {measure.name for measure in others}
    if not isinstance(scores or {}, Mapping):
        raise InvalidInput("scores must map the name of each score to its values")
    for name, given in (scores or {}).items():
        if name in taken:
            raise InvalidInput(f"scores has {name!r}, and a measure is called so already")
        parts = [given] if len(sizes) == 1 else given
        if len(sizes) > 1 and (not isinstance(given, list | tuple) or len(given) != len(sizes)):
            raise InvalidInput(
                f"scores[{name!r}] must be a pair: of the rows in distribution, and of the foreign"
            )
        vectors = [validate.vector(part, f"scores[{name!r}]") for part in parts]
        for vector, (rows, size) in zip(vectors, sizes.items(), strict=True):
            if len(vector) != size:
                raise InvalidInput(
                    f"scores[{name!r}] has {len(vector)} entries for {size} rows ({rows})"
                )
        own = np.concatenate(vectors)
        found.append(Measure(str(name), own, np.zeros(len(own))))
    return found


def learning_curves(values: Any, name: str) -> np.ndarray:
    """Finite losses of repeated runs, ``(R, T)``."""
    curves = np.asarray(validate.real(values, f"runs[{name!r}]", to_numpy), dtype=np.float64)
    if curves.ndim != 2 or curves.shape[0] < 2 or not curves.shape[1]:
        raise InvalidInput(
            f"runs[{name!r}] has shape {curves.shape}; it must be (R, T), of at least two runs"
        )
    validate.loss_vector(curves.ravel(), f"runs[{name!r}].ravel()")
    return curves


def _computed(name: str, values: Any, least: float, order: Hashable | None = None) -> Measure:
    """A measure with rounding errors relative to its size, or to ``least`` where that is larger."""
    scores = to_numpy(values)
    unit = _ROUNDING * float(np.finfo(scores.dtype).eps)
    scores = validate.vector(scores, name)
    return Measure(name, scores, unit * np.maximum(np.abs(scores), least), order)


def same_order(a: Measure, b: Measure) -> bool:
    """Whether two measures order all rows alike, by a theorem or up to rounding."""
    if a.order is not None and a.order == b.order:
        return True
    some = np.linspace(0, len(a.scores) - 1, min(len(a.scores), _SCREENED)).astype(int)
    return all(
        _never_falls(first, second, rows)
        for rows in (some, slice(None))  # most orders differ in some rows already
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


def alike(measures: Sequence[Measure]) -> dict[str, str]:
    """For each measure, the first one that orders the rows as it does: itself, or an earlier."""
    first: dict[str, str] = {}
    leaders: list[Measure] = []
    for measure in measures:
        leader = next((other for other in leaders if same_order(other, measure)), measure)
        if leader is measure:
            leaders.append(measure)
        first[measure.name] = leader.name
    return first
