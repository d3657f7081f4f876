"""Members of one boosted model: its boosting sequence, truncated and resampled.

A boosted model predicts from a score, the sum of what its iterations add. The sequence of
iterations is cut into 50 segments. A member stops at one of them, in the second half, and what
comes before is a bootstrap: the first segment, and as many of the others as there are, drawn with
replacement. Members agree where every segment says the same, and disagree where a few decide.

All members together need each tree once, in 50 calls of most libraries. For 5,000 rows or more, 20
of them cost 1 to 2 predictions of LightGBM and scikit-learn, 2 to 3 of XGBoost and about 30 of
CatBoost, which predicts fastest.

Members are no samples of a posterior: an iteration corrects those before it, and a member may lack
some of them. They have three quarters of the iterations on average, so that their probabilities
are less extreme than the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from scorewise._random import generator
from scorewise.errors import InvalidInput
from scorewise.models._samplers import Committee, Member, SamplingOptions

_MAX_SEGMENTS = 50
_MIN_ITERATIONS = 10

SEVERAL_LABELS = (
    "was trained on several labels at once; sklearn.multioutput.MultiOutputClassifier fits a model "
    "for each label"
)


@dataclass(frozen=True)
class BoostedModel:
    """A fitted boosted model as a sum over its iterations.

    Attributes
    ----------
    name : str
        For messages, such as ``"LGBMClassifier"``.
    classes : array (K,)
        The labels, in the order of the scores.
    n_iterations : int
        Number of iterations that the model predicts with.
    increments : callable
        From rows and edges ``0 = e_0 < … < e_S`` to what the iterations from ``e_s`` to
        ``e_{s+1}`` add to the scores ``(n, J)``, for each s. The first has the initial score too.
        J is 1, the score of the second of two classes, or K.
    slope : float
        The log-odds of two classes per unit of score, if J is 1.
    only_whole : str
        How it was trained, if parts of its iterations are therefore no model; otherwise empty.
    """

    name: str
    classes: np.ndarray
    n_iterations: int
    increments: Callable[[Any, list[int]], Iterator[np.ndarray]]
    slope: float = 1.0
    only_whole: str = ""

    def scores(self, rows: Any) -> np.ndarray:
        """Return the scores ``(n, J)`` of the whole model."""
        return next(self.increments(rows, [0, self.n_iterations]))

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probabilities ``(n, K)`` of scores ``(n, J)``."""
        from scipy.special import softmax

        if scores.shape[-1] > 1:
            return softmax(scores, axis=-1)
        probs = np.concatenate([scores, -scores], axis=-1)  # 1 / (1 + exp(z)), in place
        probs *= self.slope
        with np.errstate(over="ignore"):  # the probability is 0
            np.exp(probs, out=probs)
        probs += 1
        return np.divide(1, probs, out=probs)


def truncated_models(model: BoostedModel, options: SamplingOptions) -> Committee:
    """Return truncated and resampled sequences of a model as a committee."""
    if model.only_whole:
        raise InvalidInput(
            f"{model.name} was trained {model.only_whole}, so that parts of its iterations are no "
            "model; train gradient boosted trees, or use several such models: in a list, or fitted "
            "by scorewise.BootstrapEnsemble"
        )
    if model.n_iterations < _MIN_ITERATIONS:
        raise InvalidInput(
            f"{model.name} has too few boosting iterations: {model.n_iterations}. Its members lack "
            f"some of them, which needs at least {_MIN_ITERATIONS}. Train it with a smaller "
            "learning rate and more iterations, or fit several by scorewise.BootstrapEnsemble"
        )
    n_segments = min(model.n_iterations, _MAX_SEGMENTS)
    edges = np.linspace(0, model.n_iterations, n_segments + 1).round().astype(int).tolist()
    counts = _draw_counts(n_segments, options)

    def scores(rows: Any) -> np.ndarray:
        total: Any = None
        for of_members, increment in zip(counts.T, model.increments(rows, edges), strict=True):
            if total is None:
                total = np.zeros((options.n_draws, *increment.shape))
            for count in np.unique(of_members[of_members > 0]):
                term = count * increment
                for m in np.flatnonzero(of_members == count):
                    total[m] += term  # in place; half of the counts are 0
        return np.moveaxis(total, 0, 1)

    return committee_of_scores(model, scores, "draw", options.n_draws)


def _draw_counts(n_segments: int, options: SamplingOptions) -> np.ndarray:
    """Return how often each member has each segment ``(M, S)``."""
    rng = generator(options.seed)
    counts = np.zeros((options.n_draws, n_segments))
    counts[:, 0] = 1
    stops = np.linspace(n_segments, n_segments / 2, options.n_draws, endpoint=False)
    for row, stop in zip(counts, stops.round().astype(int), strict=True):
        n_others = stop - 1
        row[1:stop] = rng.multinomial(n_others, np.full(n_others, 1 / n_others))
    return counts


def committee_of_scores(
    model: BoostedModel, scores: Callable[[Any], np.ndarray], kind: str, n_members: int
) -> Committee:
    """Return the committee whose members' scores ``(n, M, J)`` are computed together."""
    members = tuple(
        Member(
            f"{kind} {m} ({model.name})",
            partial(_probabilities_of_member, model, m),
            decision_function=partial(_scores_of_member, m),
        )
        for m in range(n_members)
    )
    return Committee(members, model.classes, scores)


def _probabilities_of_member(model: BoostedModel, m: int, scores: np.ndarray) -> np.ndarray:
    return model.probabilities(scores[:, m])


def _scores_of_member(m: int, scores: np.ndarray) -> np.ndarray:
    """Return what scikit-learn calls a decision function: one axis for two classes."""
    return scores[:, m, 0] if scores.shape[-1] == 1 else scores[:, m]


def whole_models(models: Sequence[BoostedModel]) -> Committee:
    """Return boosted models as a committee, each of them a member; classes are aligned by label."""
    from scorewise.models.sklearn._ensembles import align

    classes = max((model.classes for model in models), key=len)

    def member(i: int, model: BoostedModel) -> Member:
        name = f"member {i} ({model.name})"
        return Member(name, partial(_predict, model), align(model.classes, classes, name))

    return Committee(tuple(map(member, range(len(models)), models)), classes)


def _predict(model: BoostedModel, rows: Any) -> np.ndarray:
    return model.probabilities(model.scores(rows))


def as_columns(scores: Any) -> np.ndarray:
    """Return scores as ``(n, J)``, in double precision."""
    scores = np.asarray(scores, dtype=np.float64)
    return scores.reshape(len(scores), -1)
