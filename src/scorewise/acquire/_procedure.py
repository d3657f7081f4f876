"""All that a run of active learning does, but keep count of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from scorewise import _validate as validate
from scorewise._random import generator
from scorewise.acquire._fingerprints import describe, digest, identity
from scorewise.acquire._querying import Exam, Query, initial_rows
from scorewise.acquire._rounds import Round, joined
from scorewise.acquire._training import fitted
from scorewise.errors import InvalidInput
from scorewise.models import MemberPredictor, known_classes, numbered_classes

_FIT, _CHOOSE, _PREDICT = range(3)  # what random numbers of a round are for
_MANY = 100_003  # classes that only a rule of any number can score


@dataclass(frozen=True, eq=False)
class Procedure:
    """How rows are chosen, a model is trained and examined; the same for the same seed."""

    model: Any  # as it is before training
    X: Any
    n_rows: int
    initial: int | np.ndarray
    strata: np.ndarray
    per_round: int
    query: Query
    exam: Exam | None
    classes: np.ndarray | None
    retrain: str
    options: dict[str, Any]  # of predict_samples
    entropy: int = 0

    def __post_init__(self) -> None:
        """Rules, test labels and classes must fit each other."""
        try:
            n_classes = _MANY if self.classes is None else len(self.classes)
            self.query.rule.check_classes(n_classes)
            if self.exam is not None:
                self.exam.rule.check_classes(n_classes)
        except InvalidInput as error:
            if self.classes is None:
                raise InvalidInput(
                    f"pass classes=, as a rule is of a fixed number ({error})"
                ) from None
            raise
        if self.classes is not None and self.exam is not None:
            self.exam.check_floor(len(self.classes))
            validate.among(self.classes, self.exam.y, "y_test")

    def settings(self) -> dict[str, Any]:
        """All that the rounds depend on, but the seed."""
        query, exam = self.query, self.exam
        return {
            "pool": digest(self.X),
            "model": describe(self.model),
            "initial": digest(np.asarray(self.initial)),
            "strata or oracle": digest(self.strata),
            "per_round": self.per_round,
            "rule": identity(query.rule),
            "component": query.component,
            "method": query.method,
            "coldness": query.coldness,
            "test rows": exam and digest(exam.X),
            "test labels": exam and digest(exam.y),
            "task_loss": exam and identity(exam.rule),
            "floor": exam and exam.floor,
            "classes": None if self.classes is None else self.classes.tolist(),
            "retrain": self.retrain,
            "n_samples": self.options["n_samples"],
        }

    @property
    def is_warm(self) -> bool:
        """Whether a model goes on from that of the round before."""
        return self.retrain == "warm"

    def check_labels(self, labels: np.ndarray) -> None:
        """Refuse labels that are none of the classes, or no such thing as they are."""
        if self.classes is not None:
            validate.among(self.classes, labels, "labels")
        elif self.exam is not None:
            validate.same_kind(self.exam.y, labels, "labels")

    def first_rows(self) -> np.ndarray:
        """The rows to begin with."""
        if isinstance(self.initial, np.ndarray):
            return self.initial
        return initial_rows(self.initial, self.strata, self._seed(0, _CHOOSE))

    def next_rows(
        self, model: Any, rounds: list[Round], n: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """At most n rows that are to be labelled after these rounds, and what each is worth."""
        free = np.setdiff1d(np.arange(self.n_rows), joined([one.rows for one in rounds]))
        classes = self._known_classes(joined([one.labels for one in rounds]))
        index = len(rounds)
        places, scores = self.query.choose(
            model,
            _safe_indexing(self.X, free),
            min(self.per_round, n),
            classes,
            self._predicting(index),
            self._seed(index, _CHOOSE),
        )
        return free[places], scores

    def trained(self, rounds: list[Round], previous: Any) -> Any:
        """A model of the labels of these rounds, which can be asked what will be asked."""
        index = len(rounds) - 1
        rows, y = joined([one.rows for one in rounds]), joined([one.labels for one in rounds])
        X, seed = _safe_indexing(self.X, rows), self._seed(index, _FIT)
        try:
            model = fitted(self.model, X, y, seed, previous)
        except Exception as error:
            if len(np.unique(y)) == 1:
                error.add_note(
                    "All labels so far are of one class, which not every model can learn; labels "
                    "of further rows can be told together with these."
                )
            raise
        component = "total" if self.query.method == "random" else self.query.component
        predictor = MemberPredictor.of(
            model, self.query.rule, component, self._predicting(index), y
        )
        if predictor.classes is None:
            mean, _ = predictor(_safe_indexing(X, [0]))
            numbered_classes(mean.shape[-1], self._known_classes(y))
        else:
            self._check_model(known_classes(model), y)
        return model

    def _check_model(self, known: np.ndarray | None, y: np.ndarray) -> None:
        """Refuse a model that speaks of other classes than the labels do."""
        assert known is not None
        unknown = np.setdiff1d(y, known)
        if len(unknown):
            raise InvalidInput(f"the model does not know the label {unknown[0]}; it knows {known}")
        strange = known[~np.isin(known, known if self.classes is None else self.classes)]
        if len(strange):
            raise InvalidInput(
                f"the model knows a class {strange[0]}; the classes are {self.classes}"
            )

    def loss(self, model: Any, rounds: list[Round]) -> float | None:
        """What the model of the last of these rounds pays on the test rows."""
        if self.exam is None:
            return None
        classes = self._known_classes(joined([one.labels for one in rounds]))
        return self.exam.loss(model, classes, self._predicting(len(rounds) - 1))

    def _known_classes(self, y: np.ndarray) -> np.ndarray:
        """All classes, as far as they are known."""
        if self.classes is not None:
            return self.classes
        return np.unique(y) if self.exam is None else np.union1d(y, self.exam.y)

    def _seed(self, index: int, purpose: int) -> int:
        return int(generator(self.entropy, index, purpose).integers(2**31 - 1))

    def _predicting(self, index: int) -> dict[str, Any]:
        return self.options | {"random_state": self._seed(index, _PREDICT)}
