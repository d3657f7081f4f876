"""The steps of a round of active learning: choose rows, train the model, measure its loss."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import BaseEnsemble, HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from scorewise import _validate as validate
from scorewise._estimators import check_kind, count_rows, indexable, set_seeds
from scorewise._held_out import MemberPredictor, numbered_classes
from scorewise._losses import finite_losses_of_mean
from scorewise._random import generator
from scorewise.acquire._batches import acquire_batch
from scorewise.acquire._choose import JOINT, METHODS, acquire, check_coldness, default_method
from scorewise.acquire._rounds import Round, concatenate
from scorewise.acquire._state import rows_digest, rule_text, stable_text
from scorewise.acquire._targets import acquire_for
from scorewise.decompose import COMPONENTS
from scorewise.errors import InvalidInput, Remedy
from scorewise.models import has_joint_rows, known_classes
from scorewise.rules import RuleLike, ScoringRule, get_rule

RETRAIN = ("scratch", "warm")
_SCRATCH = Remedy("retrain", "scratch", "to train a new model in each round")
_TRAIN, _CHOOSE, _PREDICT = range(3)  # purposes of a round's random numbers
_MANY_CLASSES = 100_003  # only rules for any number of classes accept it


# -- choose ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowSelection:
    """How rows are chosen: the uncertainty that scores them, and the method of choice."""

    rule: ScoringRule
    component: str
    method: str
    coldness: float
    target: Any = None  # rows whose uncertainty is to fall

    @classmethod
    def of(
        cls, rule: RuleLike, component: str, method: str | None, coldness: float, target: Any
    ) -> RowSelection:
        """The selection of checked arguments."""
        validate.choice(component, "component", COMPONENTS)
        if method is None:
            method = default_method(has_target=target is not None)
        validate.choice(method, "method", (*METHODS, JOINT))
        if method == JOINT and component != "epistemic":
            raise InvalidInput(
                "method='joint' chooses by epistemic uncertainty, not by the "
                f"{component} component",
                Remedy("component", "epistemic"),
            )
        if target is not None:
            if component != "epistemic":
                raise InvalidInput(
                    "with a target, rows are chosen by how much their labels lower its total "
                    f"uncertainty, not by their own {component} component",
                    Remedy("component", "epistemic"),
                )
            target = indexable(target)
            check_rows(target, "target")
        return cls(get_rule(rule), component, method, check_coldness(coldness), target)

    def check_members(self, model: Any) -> None:
        """Raise if rows are combined, and the members of the model do not allow that."""
        is_by_rows = self.method != JOINT and self.target is None
        if is_by_rows or self.method == "random" or has_joint_rows(model):
            return
        what = "method='joint'" if self.target is None else "a target"
        raise InvalidInput(
            f"the members of {type(model).__name__} have the right distribution in each row alone, "
            f"so that {what}, which combines rows, means nothing; wrap a classifier into "
            "scorewise.BootstrapEnsemble, or choose rows by their own scores"
        )

    def choose(
        self, model: Any, X: Any, n: int, classes: np.ndarray, options: dict[str, Any], seed: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the positions of n rows of X, and their scores (None if chosen at random)."""
        if self.method == "random":
            return acquire(np.zeros(_num_samples(X)), n, "random", seed), None
        predictor = MemberPredictor.of(model, self.rule, self.component, options, classes)
        # with one class no prediction is uncertain
        if predictor.classes is not None and len(predictor.classes) < 2:
            return acquire(np.zeros(_num_samples(X)), n, "random", seed), None
        if self.method != JOINT and self.target is None:
            scores = predictor.mean_predictions(X).uncertainty
            positions = acquire(scores, n, self.method, seed, coldness=self.coldness)
            return positions, scores[positions]
        self.check_members(model)
        samples = predictor.samples(X)
        if samples.shape[-2] == 1:  # a model that was fitted on a single class
            return acquire(np.zeros(len(samples)), n, "random", seed), np.zeros(n)
        if self.target is None:
            batch = acquire_batch(samples, n, predictor.rule, seed)
            return batch.rows, batch.gains
        target = predictor.samples(self.target)  # by the same seed, so of the same members
        chosen = acquire_for(
            samples, target, predictor.rule, n, seed, method=self.method, coldness=self.coldness
        )
        return chosen.indices, chosen.scores


def check_initial(initial: Any, n_rows: int, budget: int) -> int | np.ndarray:
    """The number of initial rows, or their indices."""
    rows = validate.rows(initial, n_rows, "initial") if np.ndim(initial) else None
    count = validate.whole(initial, "initial", at_least=1) if rows is None else len(rows)
    if not 0 < count <= budget:
        raise InvalidInput(
            f"initial asks for {count} rows, but the budget is {budget} labels in all, of a pool "
            f"of {n_rows} rows"
        )
    return count if rows is None else rows


def _stratified_rows(n: int, strata: np.ndarray, seed: int) -> np.ndarray:
    """Return random rows from each stratum in proportion, at least one of each if n allows."""
    rng = generator(seed)
    _, codes, counts = np.unique(strata, return_inverse=True, return_counts=True)
    quota = n * counts / len(codes)
    take = np.maximum(np.floor(quota), float(n >= len(counts)))
    tie_breaker = 1e-9 * rng.random(len(counts))
    while take.sum() < n:
        take[np.argmax(quota - take + tie_breaker)] += 1
    while take.sum() > n:
        take[np.argmax(np.where(take > 1, take - quota + tie_breaker, -np.inf))] -= 1
    order = rng.permutation(len(codes))
    by_stratum = order[np.argsort(codes[order], kind="stable")]
    position = np.empty(len(codes))  # of a row within its stratum
    position[by_stratum] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[position[order] < take[codes[order]]]


# -- train ----------------------------------------------------------------------------------------


def check_trainable(model: Any, retrain: str) -> None:
    """Refuse a model that cannot be trained in every round, before anything is labelled."""
    if isinstance(model, list | tuple):
        if not model:
            raise InvalidInput("the list of models is empty")
        for member in model:
            check_trainable(member, retrain)
        return
    check_kind(model)
    if not hasattr(model, "fit"):
        # calling a torch module predicts, it does not train
        if not callable(model) or hasattr(model, "forward"):
            raise InvalidInput(
                f"{type(model).__name__} cannot be trained by itself: pass a model with fit, a "
                "list of such, or a function train(X, y, seed) that returns a trained one"
            )
    elif retrain == "warm":
        _check_warm_start(model)


def _check_warm_start(model: Any) -> None:
    """Refuse a model whose second fit would not continue from the first."""
    if isinstance(model, Pipeline):
        _check_warm_start(model.steps[-1][1])
        return
    if isinstance(model, BaseEnsemble | HistGradientBoostingClassifier):
        raise InvalidInput(
            f"{type(model).__name__} does not train its old members again in a warm fit, so they "
            "would learn nothing from new labels",
            _SCRATCH,
        )
    if "warm_start" not in (model.get_params(deep=False) if hasattr(model, "get_params") else {}):
        raise InvalidInput(
            f"{type(model).__name__} has no warm_start; a function train(X, y, seed, "
            "previous=None) can continue from the model of the round before",
            _SCRATCH,
        )


def untrained_copy(model: Any) -> Any:
    """Return an untrained copy, which later changes do not affect; functions are not copied."""
    if isinstance(model, list | tuple):
        return [untrained_copy(member) for member in model]
    if not hasattr(model, "fit"):
        return model
    return clone(model) if hasattr(model, "get_params") else copy.deepcopy(model)


def _train_model(model: Any, X: Any, y: np.ndarray, seed: int, previous: Any = None) -> Any:
    """Return a model trained on these rows: a new one, or one that continues from the previous.

    Neither ``model`` nor ``previous`` is changed. Every ``random_state`` in the model is seeded. If
    the previous model was trained on other classes, a new one is trained.
    """
    if isinstance(model, list | tuple):
        before = [None] * len(model) if previous is None else previous
        seeds = generator(seed).integers(2**31 - 1, size=len(model)).tolist()
        return [
            _train_model(member, X, y, own_seed, earlier)
            for member, own_seed, earlier in zip(model, seeds, before, strict=True)
        ]
    if not hasattr(model, "fit"):
        trained = model(X, y, seed, *([] if previous is None else [copy.deepcopy(previous)]))
        if trained is None:
            raise InvalidInput("the function returned None; it must return the trained model")
        return trained
    if previous is not None and not np.array_equal(previous.classes_, np.unique(y)):
        previous = None
    trained = untrained_copy(model) if previous is None else copy.deepcopy(previous)
    if hasattr(trained, "get_params"):
        set_seeds(trained, generator(seed))
        if previous is not None:
            names = [n for n in trained.get_params() if n.rpartition("__")[2] == "warm_start"]
            trained.set_params(**dict.fromkeys(names, True))
    elif hasattr(trained, "random_state"):
        trained.random_state = seed
    trained.fit(X, y)
    return trained


# -- measure --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeldOutLoss:
    """Test rows with labels, and the loss that predictions incur on them."""

    X: Any
    y: np.ndarray
    rule: ScoringRule
    floor: float | None

    @classmethod
    def of(cls, X: Any, y: Any, task_loss: RuleLike, floor: float | None) -> HeldOutLoss | None:
        """The held-out loss of checked arguments; None without test rows."""
        rule = get_rule(task_loss)
        if X is None and y is None:
            return None
        if X is None or y is None:
            raise InvalidInput("X_test and y_test belong together; pass both or none")
        X = indexable(X)
        if floor is not None:
            floor = validate.proportion(floor, "floor")
        return cls(X, validate.class_labels(y, "y_test", check_rows(X, "X_test")), rule, floor)

    def check_floor(self, n_classes: int) -> None:
        """Raise if the floor is too large for this number of classes."""
        if self.floor is not None:
            validate.floor(self.floor, n_classes)

    def mean_loss(self, model: Any, classes: np.ndarray, options: dict[str, Any]) -> float:
        """Return the mean loss of the model's mean prediction."""
        predictor = MemberPredictor.of(model, self.rule, "total", options, classes)
        if predictor.classes is not None and len(predictor.classes) < 2:
            return 0.0
        mean = predictor.mean_predictions(self.X).mean
        known = np.arange(mean.shape[-1]) if predictor.classes is None else predictor.classes
        labels = np.searchsorted(known, self.y)
        return float(finite_losses_of_mean(mean, labels, predictor.rule, self.floor).mean())


def check_rows(X: Any, name: str) -> int:
    """Return the number of rows; raise if there are none, or if rows cannot be indexed."""
    if not hasattr(X, "shape") and (isinstance(X, str | bytes) or not isinstance(X, Sequence)):
        raise InvalidInput(
            f"{name} must be rows that can be indexed: an array, a frame, a sparse matrix, a "
            f"tensor or a list, not {type(X).__name__}"
        )
    n = count_rows(X, name)
    if not n:
        raise InvalidInput(f"{name} is empty; there must be at least one row")
    return n


# -- all of them ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LearningSteps:
    """The configuration of a run and the steps of its rounds, which depend on the seed alone."""

    model: Any  # as it is before training
    X: Any
    n_rows: int
    initial: int | np.ndarray
    strata: np.ndarray
    per_round: int
    selection: RowSelection
    held_out: HeldOutLoss | None
    classes: np.ndarray | None
    retrain: str
    options: dict[str, Any]  # of predict_samples
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise if rules, test labels and classes do not fit each other."""
        try:
            n_classes = _MANY_CLASSES if self.classes is None else len(self.classes)
            self.selection.rule.for_classes(self.classes).check_classes(n_classes)
            if self.held_out is not None:
                self.held_out.rule.for_classes(self.classes).check_classes(n_classes)
        except InvalidInput as error:
            if self.classes is None:
                raise InvalidInput(
                    f"a rule is made for a fixed number of classes ({error.problem})",
                    Remedy("classes", ..., "all labels that can occur"),
                ) from None
            raise
        if self.classes is not None and self.held_out is not None:
            self.held_out.check_floor(len(self.classes))
            validate.known_labels(self.classes, self.held_out.y, "y_test")

    def settings(self) -> dict[str, Any]:
        """Return everything that the rounds depend on, except the seed, as JSON."""
        selection, held_out = self.selection, self.held_out
        return {
            "pool": rows_digest(self.X),
            "model": stable_text(self.model),
            "initial": rows_digest(np.asarray(self.initial)),
            "strata or oracle": rows_digest(self.strata),
            "per_round": self.per_round,
            "rule": rule_text(selection.rule),
            "component": selection.component,
            "target": rows_digest(selection.target),  # before the method, whose default it decides
            "method": selection.method,
            "coldness": selection.coldness,
            "test rows": held_out and rows_digest(held_out.X),
            "test labels": held_out and rows_digest(held_out.y),
            "task_loss": held_out and rule_text(held_out.rule),
            "floor": held_out and held_out.floor,
            "classes": None if self.classes is None else self.classes.tolist(),
            "retrain": self.retrain,
            "n_samples": self.options["n_samples"],
        }

    @property
    def is_warm(self) -> bool:
        """Whether a model continues from that of the round before."""
        return self.retrain == "warm"

    def check_labels(self, labels: np.ndarray) -> None:
        """Raise if a label is none of the classes, or of another type than they are."""
        if self.classes is not None:
            validate.known_labels(self.classes, labels, "labels")
        elif self.held_out is not None:
            validate.same_kind(self.held_out.y, labels, "labels")

    def first_rows(self) -> np.ndarray:
        """The initial rows."""
        if isinstance(self.initial, np.ndarray):
            return self.initial
        return _stratified_rows(self.initial, self.strata, self._seed(0, _CHOOSE))

    def next_rows(
        self, model: Any, rounds: list[Round], n: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return at most n rows to label after these rounds, and their scores."""
        index = len(rounds)
        rows, y = _labelled(rounds)
        candidates = np.setdiff1d(np.arange(self.n_rows), rows)
        positions, scores = self.selection.choose(
            model,
            _safe_indexing(self.X, candidates),
            min(self.per_round, n),
            self._known_classes(y),
            self._prediction_options(index),
            self._seed(index, _CHOOSE),
        )
        return candidates[positions], scores

    def train(self, rounds: list[Round], previous: Any) -> Any:
        """Return a model trained on the labels of these rounds, checked for its classes."""
        index = len(rounds) - 1
        rows, y = _labelled(rounds)
        X = _safe_indexing(self.X, rows)
        try:
            model = _train_model(self.model, X, y, self._seed(index, _TRAIN), previous)
        except Exception as error:
            if len(np.unique(y)) == 1:
                error.add_note(
                    "All labels so far are of one class, which not every model can learn; add "
                    "labels of further rows to the same call of tell."
                )
            raise
        component = "total" if self.selection.method == "random" else self.selection.component
        options = self._prediction_options(index)
        predictor = MemberPredictor.of(model, self.selection.rule, component, options, y)
        if predictor.classes is None:
            mean = predictor.mean_predictions(_safe_indexing(X, [0])).mean
            numbered_classes(mean.shape[-1], self._known_classes(y))
        else:
            self._check_classes_of_model(known_classes(model), y)
        return model

    def _check_classes_of_model(self, known: np.ndarray | None, y: np.ndarray) -> None:
        """Raise if the model's classes do not fit the labels."""
        assert known is not None
        unknown = np.setdiff1d(y, known)
        if len(unknown):
            raise InvalidInput(f"label {unknown[0]} is none of the model's classes, {known}")
        if self.classes is not None:
            extra = np.setdiff1d(known, self.classes)
            if len(extra):
                raise InvalidInput(
                    f"the model has a class {extra[0]}, which is none of the classes {self.classes}"
                )

    def loss(self, model: Any, rounds: list[Round]) -> float | None:
        """The mean loss on the test rows of the model of the last of these rounds."""
        if self.held_out is None:
            return None
        _, y = _labelled(rounds)
        options = self._prediction_options(len(rounds) - 1)
        return self.held_out.mean_loss(model, self._known_classes(y), options)

    def _known_classes(self, y: np.ndarray) -> np.ndarray:
        """Return all classes: those of the run, or those that occur in labels and test labels."""
        if self.classes is not None:
            return self.classes
        return np.unique(y) if self.held_out is None else np.union1d(y, self.held_out.y)

    def _seed(self, index: int, purpose: int) -> int:
        return int(generator(self.seed, index, purpose).integers(2**31 - 1))

    def _prediction_options(self, index: int) -> dict[str, Any]:
        return self.options | {"random_state": self._seed(index, _PREDICT)}


def _labelled(rounds: list[Round]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels of all these rounds."""
    return (
        concatenate([finished.rows for finished in rounds]),
        concatenate([finished.labels for finished in rounds]),
    )
