"""What active learning asks of a model: which rows to label, and what its mistakes cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from scorewise import _validate as validate
from scorewise._random import generator
from scorewise.acquire._batches import acquire_batch
from scorewise.acquire._choose import METHODS, acquire, checked_coldness
from scorewise.decompose import COMPONENTS, RuleLike
from scorewise.errors import InvalidInput
from scorewise.losses import losses_of_mean
from scorewise.models import Judge, indexable
from scorewise.rules import ScoringRule, get_rule

JOINT = "joint"


@dataclass(frozen=True)
class Query:
    """How rows are chosen: by what measure, and from the top or otherwise."""

    rule: ScoringRule
    component: str
    method: str
    coldness: float

    @classmethod
    def of(cls, rule: RuleLike, component: str, method: str, coldness: float) -> Query:
        """A query of checked arguments."""
        validate.choice(component, "component", COMPONENTS)
        validate.choice(method, "method", (*METHODS, JOINT))
        if method == JOINT and component != "epistemic":
            raise InvalidInput(
                f"method='joint' is about what members disagree on; it has no use for the "
                f"{component} component"
            )
        return cls(get_rule(rule), component, method, checked_coldness(coldness))

    def choose(
        self, model: Any, X: Any, n: int, classes: np.ndarray, options: dict[str, Any], seed: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Places of n rows of X, and what each is worth; None where that did not matter."""
        if self.method == "random":
            return acquire(np.zeros(_num_samples(X)), n, "random", seed), None
        judge = Judge.of(model, self.rule, self.component, options, classes)
        if judge.classes is not None and len(judge.classes) < 2:  # there is nothing to be unsure of
            return acquire(np.zeros(_num_samples(X)), n, "random", seed), None
        if self.method == JOINT:
            batch = acquire_batch(judge.samples(X), n, self.rule, seed)
            return batch.rows, batch.gains
        _, scores = judge(X)
        places = acquire(scores, n, self.method, seed, coldness=self.coldness)
        return places, scores[places]


@dataclass(frozen=True, eq=False)
class Exam:
    """Rows with labels on which a model is judged, and the loss that is paid there."""

    X: Any
    y: np.ndarray
    rule: ScoringRule
    floor: float | None

    @classmethod
    def of(cls, X: Any, y: Any, task_loss: RuleLike, floor: float | None) -> Exam | None:
        """An exam of checked arguments, where there are test rows."""
        rule = get_rule(task_loss)
        if X is None and y is None:
            return None
        if X is None or y is None:
            raise InvalidInput("X_test and y_test belong together; pass both or none")
        X = indexable(X)
        if floor is not None:
            floor = validate.share(floor, "floor")
        return cls(X, validate.names(y, "y_test", count_rows(X, "X_test")), rule, floor)

    def check_floor(self, n_classes: int) -> None:
        """Refuse a floor that leaves nothing to be predicted."""
        if self.floor is not None:
            validate.floor(self.floor, n_classes)

    def loss(self, model: Any, classes: np.ndarray, options: dict[str, Any]) -> float:
        """The mean loss of the mean prediction."""
        judge = Judge.of(model, self.rule, "total", options, classes)
        if judge.classes is not None and len(judge.classes) < 2:
            return 0.0
        mean, _ = judge(self.X)
        known = np.arange(mean.shape[-1]) if judge.classes is None else judge.classes
        losses = losses_of_mean(mean, np.searchsorted(known, self.y), self.rule, self.floor)
        return float(validate.loss_vector(losses).mean())


def count_rows(X: Any, name: str) -> int:
    """How many rows there are, at least one."""
    if not hasattr(X, "shape") and (isinstance(X, str | bytes) or not isinstance(X, Sequence)):
        raise InvalidInput(
            f"{name} must be rows that can be taken by number: an array, a frame, a sparse matrix, "
            f"a tensor or a list, not {type(X).__name__}"
        )
    try:
        n = int(_num_samples(X))
    except TypeError as error:
        raise InvalidInput(f"{name} must hold rows: {error}") from None
    if not n:
        raise InvalidInput(f"{name} is empty; there must be at least one row")
    return n


def checked_initial(initial: Any, n_rows: int, budget: int) -> int | np.ndarray:
    """How many rows to begin with, or which."""
    rows = validate.rows(initial, n_rows, "initial") if np.ndim(initial) else None
    count = validate.whole(initial, "initial", at_least=1) if rows is None else len(rows)
    if not 0 < count <= budget:
        raise InvalidInput(
            f"initial asks for {count} rows; the budget is {budget} labels in all, of a pool of "
            f"{n_rows} rows"
        )
    return count if rows is None else rows


def initial_rows(n: int, strata: np.ndarray, entropy: int) -> np.ndarray:
    """Rows to begin with: of each stratum in proportion, and at least one if there is room."""
    rng = generator(entropy)
    _, codes, counts = np.unique(strata, return_inverse=True, return_counts=True)
    quota = n * counts / len(codes)
    take = np.maximum(np.floor(quota), float(n >= len(counts)))
    chance = 1e-9 * rng.random(len(counts))  # decides where quotas are alike
    while take.sum() < n:
        take[np.argmax(quota - take + chance)] += 1
    while take.sum() > n:
        take[np.argmax(np.where(take > 1, take - quota + chance, -np.inf))] -= 1
    order = rng.permutation(len(codes))
    by_stratum = order[np.argsort(codes[order], kind="stable")]
    place = np.empty(len(codes))  # of a row among those of its stratum
    place[by_stratum] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[place[order] < take[codes[order]]]
