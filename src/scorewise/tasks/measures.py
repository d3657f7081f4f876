"""All measures that take part in a comparison, and which of them order rows alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import validate
from scorewise._array import to_numpy
from scorewise.decompose import COMPONENTS, RuleLike, decompose, named_rules
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.tasks.advise import measure_name

_SCREENED = 2_000  # rows that tell most orders apart at little cost
_ROUNDING = 64  # units in the last place that computing a measure may have cost


@dataclass(frozen=True, eq=False)
class Measure:
    """A name and a score per row; larger is more uncertain.

    ``rounding`` is how far equal scores may differ.
    """

    name: str
    scores: np.ndarray
    rounding: float = 0.0

    def followed_by(self, other: Measure) -> Measure:
        """The same measure of further rows."""
        scores = np.concatenate([self.scores, other.scores])
        return Measure(self.name, scores, max(self.rounding, other.rounding))


def received(predictions: Any, name: str) -> Samples | Dirichlet:
    """Predictions ``(n, M, K)`` of at least one row."""
    given = predictions if isinstance(predictions, Samples | Dirichlet) else Samples(predictions)
    shape = tuple(given.mean.shape)
    if len(shape) != 2 or not shape[0]:
        raise InvalidInput(f"{name} must be of n ≥ 1 rows, as in (n, M, K); its mean is {shape}")
    return given


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
    results = decompose(predictions, named_rules(rules))
    found = [
        _computed(measure_name(rule, component), getattr(result, component))
        for rule, result in results.items()
        for component in components
    ]
    return found + _baselines(predictions) * baselines


def _baselines(predictions: Samples | Dirichlet) -> list[Measure]:
    top = np.sort(to_numpy(predictions.mean), axis=-1)
    found = [
        _computed("max-softmax", 1 - top[:, -1]),
        _computed("margin", 1 - (top[:, -1] - top[:, -2])),
    ]
    if isinstance(predictions, Samples):
        probs = to_numpy(predictions.probs)
        votes, n_classes = probs.argmax(axis=-1), probs.shape[-1]
        weights = predictions.weights
        shares = 1 / votes.shape[-1] if weights is None else to_numpy(weights)
        most = np.max([np.sum((votes == k) * shares, axis=-1) for k in range(n_classes)], axis=0)
        found.append(_computed("variation ratio", 1 - most))
    return found


def own_measures(
    scores: Mapping[str, Any] | None, sizes: Mapping[str, int], others: Sequence[Measure]
) -> list[Measure]:
    """The user's own scores: of one set of rows, or a pair for two sets."""
    found = []
    taken = {measure.name for measure in others}
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
        found.append(Measure(str(name), np.concatenate(vectors)))
    return found


def learning_curves(values: Any, name: str) -> np.ndarray:
    """Finite losses of repeated runs, ``(R, T)``."""
    curves = np.asarray(values, dtype=np.float64)
    if curves.ndim != 2 or curves.shape[0] < 2 or not curves.shape[1]:
        raise InvalidInput(
            f"runs[{name!r}] has shape {curves.shape}; it must be (R, T), of at least two runs"
        )
    validate.loss_vector(curves.ravel(), f"runs[{name!r}].ravel()")
    return curves


def _computed(name: str, values: Any) -> Measure:
    scores = to_numpy(values)
    size = max(1.0, float(np.max(np.abs(scores))))
    rounding = _ROUNDING * float(np.finfo(scores.dtype).eps) * size
    return Measure(name, validate.vector(scores, name), rounding)


def same_order(a: Measure, b: Measure) -> bool:
    """Whether two measures order all rows alike, up to rounding."""
    rows = np.linspace(0, len(a.scores) - 1, min(len(a.scores), _SCREENED)).astype(int)
    return _never_falls(a, b, rows) and (
        len(rows) == len(a.scores) or _never_falls(a, b, slice(None))
    )


def _never_falls(a: Measure, b: Measure, rows: Any) -> bool:
    """Whether each rises wherever the other does, and is tied where the other is."""
    x, y = a.scores[rows], b.scores[rows]
    return all(
        # tied rows of the first in falling order of the second: if that differs, it falls
        bool(np.all(np.diff(second[np.lexsort((-second, first))]) >= -rounding))
        for first, second, rounding in ((x, y, b.rounding), (y, x, a.rounding))
    )


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
