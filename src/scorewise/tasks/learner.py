"""Active learning by hand: ask which rows to label, tell their labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from scorewise import validate
from scorewise._random import entropy_of, generator
from scorewise.decompose import RuleLike
from scorewise.errors import InvalidInput
from scorewise.models.bootstrap import indexable
from scorewise.tasks.judge import Judge, numbered
from scorewise.tasks.querying import Exam, Query, check_among, initial_rows
from scorewise.tasks.rounds import Round, Stopping
from scorewise.tasks.saved import StateFile, digest, identity
from scorewise.tasks.training import RETRAIN, check_trainable, describe, fitted

_FIT, _CHOOSE, _PREDICT = range(3)  # what random numbers of a round are for


class ActiveLearner:
    """Active learning for people who label by hand: ``ask`` for rows, ``tell`` their labels.

    Use it where labels come from somewhere else than an array; :func:`scorewise.active_learning`
    is the same with an oracle. Each ``tell`` is a round: the model is trained on all labels so far
    and judged on the test rows.

    Parameters
    ----------
    model : estimator with ``fit``, list of such, or function
        Whatever :func:`scorewise.predict_samples` understands once it is trained: a forest, a
        :class:`BootstrapEnsemble`, a :class:`DeepEnsemble`, a list of classifiers; or a function
        ``train(X, y, seed)`` that returns a trained model, such as a module with dropout. Every
        ``random_state`` in it gets a seed. It is left as it was.
    X_pool : array, sparse matrix, frame, list or tensor (N, ...)
        Rows that may be labelled.
    initial : int or integer array
        The rows that are asked for first: so many at random, or these.
    strata : array (N,), optional
        Groups of the pool's rows. The random initial rows are then from each in proportion, and
        from each at least one if there is room.
    per_round : int
        How many rows to ask for in each further round.
    rule : str or ScoringRule
        Whose uncertainty to query by; zero-one learns fastest in the paper's experiments.
    component : "total", "aleatoric" or "epistemic"
        Which part of it.
    method : "top", "power", "softmax", "softrank", "random" or "joint"
        As for :func:`scorewise.acquire`; ``"random"`` is the baseline, and ``"joint"`` is
        :func:`scorewise.acquire_batch`.
    coldness : float
        Of the stochastic methods.
    budget : int, optional
        Labels in all, the initial ones too; the whole pool unless given.
    target_loss : float, optional
        Stop when the loss is not above it.
    patience : int, optional
        Stop when the loss has not fallen in so many rounds,
    tolerance : float
        by more than this.
    X_test, y_test : rows and labels, optional
        What the loss is measured on.
    task_loss : str or ScoringRule
        The loss that is paid.
    floor : float, optional
        The smallest probability that counts in it; see :func:`scorewise.task_losses`.
    classes : array (K,), optional
        All labels that there are; others are refused. Whatever was told unless given.
    retrain : "scratch" or "warm"
        Train a new model in each round, or go on from the last one: with estimators that have
        ``warm_start``, and with functions ``train(X, y, seed, previous)``.
    n_samples, device
        As for :func:`scorewise.predict_samples`.
    random_state : int, RandomState or Generator, optional
        Seed. The same seed gives the same initial rows and the same seeds of models, whatever is
        queried by, so that runs are paired.
    state : path, optional
        A JSON file to keep the labels and rounds in, saved after each round. If it is there, the
        work goes on from it, to the same result as if it had never stopped.

    Attributes
    ----------
    rounds : list of Round
        Those that are finished, without their models.
    labelled : integer array (n,)
        Rows that have labels, in the order in which they were told.
    labels : array (n,)
    model : fitted model
        Of the last round; trained again where that was read from a saved state.
    stop : str or None
        Why it is enough, if it is: ``"budget"``, ``"target"`` or ``"plateau"``.

    Raises
    ------
    InvalidInput
        If something does not fit, or the state was saved with another pool or other settings.

    Examples
    --------
    >>> import scorewise as sw
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = sw.ActiveLearner(
    ...     RandomForestClassifier(20), X, initial=9, per_round=3, random_state=0,
    ...     X_test=X, y_test=y,
    ... )
    >>> rows = learner.ask()
    >>> learner.tell(rows, y[rows])  # look at them, label them, tell
    Round(0: 9 labels, loss 0.04)
    >>> rows = learner.ask()
    >>> len(rows)
    3
    """

    def __init__(
        self,
        model: Any,
        X_pool: Any,
        *,
        initial: Any = 20,
        strata: Any = None,
        per_round: int = 10,
        rule: RuleLike = "zero-one",
        component: str = "epistemic",
        method: str = "top",
        coldness: float = 1.0,
        budget: int | None = None,
        target_loss: float | None = None,
        patience: int | None = None,
        tolerance: float = 0.0,
        X_test: Any = None,
        y_test: Any = None,
        task_loss: RuleLike = "zero-one",
        floor: float | None = None,
        classes: Any = None,
        retrain: str = "scratch",
        n_samples: int | None = None,
        device: Any = None,
        random_state: Any = None,
        state: Any = None,
    ) -> None:
        self._is_warm = validate.choice(retrain, "retrain", RETRAIN) == "warm"
        check_trainable(model, retrain)
        self._untrained = model
        self._X = indexable(X_pool)
        self._n_rows = _num_samples(self._X)
        if not self._n_rows:
            raise InvalidInput("the pool is empty: there are no unlabelled rows")
        self._classes = None if classes is None else np.unique(validate.names(classes, "classes"))
        self._query = Query.of(rule, component, method, coldness)
        self._exam = Exam.of(X_test, y_test, task_loss, floor)
        if self._classes is not None:
            self._check_rules(len(self._classes))
            if self._exam is not None:
                check_among(self._classes, self._exam.y, "y_test")
        self._stopping = Stopping.of(
            budget, target_loss, patience, tolerance, self._n_rows, has_loss=self._exam is not None
        )
        self._per_round = validate.whole(per_round, "per_round", at_least=1)
        self._initial = self._checked_initial(initial)
        self._strata = (
            np.zeros(self._n_rows) if strata is None
            else validate.names(strata, "strata", self._n_rows)
        )  # fmt: skip
        self._options = {"n_samples": n_samples, "device": device, "progress": False}
        self._rounds: list[Round] = []
        self._model: Any = None
        self._asked: tuple[np.ndarray, np.ndarray | None] | None = None
        self._entropy, self._state = entropy_of(random_state), None
        if state is not None:
            exam = self._exam
            settings = {
                "pool": digest(self._X),
                "model": describe(model),
                "initial": digest(np.asarray(initial)),
                "strata": digest(strata),
                "per_round": per_round,
                "rule": identity(self._query.rule),
                "component": component,
                "method": method,
                "coldness": coldness,
                "test rows": exam and digest(exam.X),
                "test labels": exam and digest(exam.y),
                "task_loss": exam and identity(exam.rule),
                "floor": floor,
                "classes": None if self._classes is None else self._classes.tolist(),
                "retrain": retrain,
                "n_samples": n_samples,
            }
            self._state = StateFile(state, settings)
            self._restore(is_seeded=random_state is not None)

    # -- what was asked for -----------------------------------------------------------------------

    def _checked_initial(self, initial: Any) -> int | np.ndarray:
        budget = self._stopping.budget
        if np.ndim(initial):
            rows = validate.rows(initial, self._n_rows, "initial")
            count = len(rows)
        else:
            rows, count = initial, validate.whole(initial, "initial", at_least=1)
        if not 0 < count <= budget:
            raise InvalidInput(
                f"initial asks for {count} rows; the budget is {budget} labels in all"
            )
        return rows

    def _check_rules(self, n_classes: int) -> None:
        self._query.rule.check_classes(n_classes)
        if self._exam is not None:
            self._exam.rule.check_classes(n_classes)

    # -- what is known ----------------------------------------------------------------------------

    @property
    def rounds(self) -> list[Round]:
        """The rounds that are finished, without their models."""
        return list(self._rounds)

    @property
    def labelled(self) -> np.ndarray:
        """Rows that have labels, ``(n,)``, in the order in which they were told."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(r.rows for r in self._rounds)])

    @property
    def labels(self) -> np.ndarray:
        """Their labels, ``(n,)``."""
        return _joined([r.labels for r in self._rounds])

    @property
    def budget(self) -> int:
        """Labels in all."""
        return self._stopping.budget

    @property
    def stop(self) -> str | None:
        """Why it is enough, or None."""
        return self._rounds[-1].stop if self._rounds else None

    @property
    def model(self) -> Any:
        """The model of the last round.

        Raises
        ------
        InvalidInput
            If nothing was told yet.
        """
        if not self._rounds:
            raise InvalidInput("there is no model yet: label the rows of ask(), and tell")
        if self._model is None:
            # A model that goes on from the one before needs all of them again.
            first = 0 if self._is_warm else len(self._rounds) - 1
            for index in range(first, len(self._rounds)):
                with self._in_round(index, "training again"):
                    self._model = self._trained(self._rounds[: index + 1], self._model)
        return self._model

    # -- ask and tell -----------------------------------------------------------------------------

    def ask(self) -> np.ndarray:
        """Which rows to label now; the same until something is told.

        Returns
        -------
        integer array (n,)
            Indices of rows of the pool, the most valuable first.

        Raises
        ------
        InvalidInput
            If the budget is spent, or no row is without a label.

        Examples
        --------
        See :class:`ActiveLearner`.
        """
        if self._asked is None:
            self._asked = self._initial_rows() if not self._rounds else self._next_rows()
        return self._asked[0].copy()

    def _initial_rows(self) -> tuple[np.ndarray, None]:
        if isinstance(self._initial, np.ndarray):
            return self._initial, None
        seed = self._seed(0, _CHOOSE)
        return initial_rows(self._initial, self._strata, seed), None

    def _next_rows(self) -> tuple[np.ndarray, np.ndarray | None]:
        index, labelled = len(self._rounds), self.labelled
        free = np.setdiff1d(np.arange(self._n_rows), labelled)
        if not len(free):
            raise InvalidInput("all rows of the pool have labels: there is nothing left to ask")
        left = self.budget - len(labelled)
        if not left:
            raise InvalidInput(f"the budget of {self.budget} labels is spent")
        with self._in_round(index, "choosing rows"):
            places, scores = self._query.choose(
                self.model, _safe_indexing(self._X, free), min(self._per_round, left),
                self._known_classes(self.labels), self._predicting(index),
                self._seed(index, _CHOOSE),
            )  # fmt: skip
        return free[places], scores

    def tell(self, rows: Any, labels: Any) -> Round:
        """Train on these labels too, and see how good the model is.

        Labels of a part of the rows that were asked for, or of others, are welcome. If anything
        goes wrong, nothing has changed, in memory or on disk.

        Parameters
        ----------
        rows : integer array (n,)
            Indices of rows of the pool that have no label yet.
        labels : array (n,)
            Their labels: numbers, names, or booleans.

        Returns
        -------
        Round

        Raises
        ------
        InvalidInput
            If a row has a label already, a label is none of the classes, or the budget is exceeded.
        """
        rows = validate.rows(rows, self._n_rows, "rows")
        if not len(rows):
            raise InvalidInput("there are no rows; tell at least one label")
        given = validate.names(labels, "labels", len(rows))
        self._check_new(rows, given)
        scores = self._scores_of(rows)
        index, n_labelled = len(self._rounds), len(self.labelled) + len(rows)
        finished = Round(index, rows, given, scores, n_labelled, None)
        with self._in_round(index, "training"):
            previous = self.model if self._is_warm and self._rounds else None
            model = self._trained([*self._rounds, finished], previous)
            loss = self._loss(model, _joined([self.labels, given]), index)
        losses = [*(r.loss for r in self._rounds), loss]
        finished = replace(finished, loss=loss, stop=self._stopping.reason(n_labelled, losses))
        self._save([*self._rounds, finished])
        self._rounds.append(finished)
        self._model, self._asked = model, None
        return replace(finished, model=model)

    def _scores_of(self, rows: np.ndarray) -> np.ndarray | None:
        """What rows were worth when they were asked for, if all of them were."""
        asked, scores = self._asked or (rows, None)
        place = {row: i for i, row in enumerate(asked.tolist())}
        if scores is None or not place.keys() >= set(rows.tolist()):
            return None
        return scores[[place[row] for row in rows.tolist()]]

    def _check_new(self, rows: np.ndarray, labels: np.ndarray) -> None:
        known = np.isin(rows, self.labelled)
        if known.any():
            place = int(np.argmax(known))
            raise InvalidInput(f"rows[{place}] is {rows[place]}, which has a label already")
        left = self.budget - len(self.labelled)
        if len(rows) > left:
            raise InvalidInput(
                f"these are {len(rows)} labels; {left} are left of the budget of {self.budget}"
            )
        if self._rounds and self.labels.dtype.kind != labels.dtype.kind:
            raise InvalidInput(
                f"labels are of dtype {labels.dtype}, those before of {self.labels.dtype}"
            )
        if self._classes is not None:
            check_among(self._classes, labels, "labels")

    # -- training ---------------------------------------------------------------------------------

    def _trained(self, rounds: list[Round], previous: Any) -> Any:
        """A model of the labels of these rounds, which knows no fewer classes than they do."""
        index = len(rounds) - 1
        rows = np.concatenate([r.rows for r in rounds])
        y = _joined([r.labels for r in rounds])
        seed = self._seed(index, _FIT)
        model = fitted(self._untrained, _safe_indexing(self._X, rows), y, seed, previous)
        judge = Judge.of(model, self._query.rule, "total", self._predicting(index), y)
        if judge.classes is None:
            mean, _ = judge(_safe_indexing(self._X, rows[:1]))
            numbered(mean.shape[-1], self._known_classes(y))
        return model

    def _loss(self, model: Any, y: np.ndarray, index: int) -> float | None:
        if self._exam is None:
            return None
        return self._exam.loss(model, self._known_classes(y), self._predicting(index))

    def _known_classes(self, y: np.ndarray) -> np.ndarray:
        """All classes, as far as they are known."""
        if self._classes is not None:
            return self._classes
        return np.unique(y) if self._exam is None else np.union1d(y, self._exam.y)

    def _seed(self, index: int, purpose: int) -> int:
        return int(generator(self._entropy, index, purpose).integers(2**31 - 1))

    def _predicting(self, index: int) -> dict[str, Any]:
        return self._options | {"random_state": self._seed(index, _PREDICT)}

    @contextmanager
    def _in_round(self, index: int, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            error.add_note(
                f"This happened while {what} in round {index} of active learning; the labels and "
                f"the state of the {len(self._rounds)} rounds before are as they were."
            )
            raise

    # -- on disk ----------------------------------------------------------------------------------

    def _save(self, rounds: list[Round]) -> None:
        if self._state is None:
            return
        saved = [
            {
                "rows": r.rows.tolist(),
                "labels": r.labels.tolist(),
                "scores": None if r.scores is None else r.scores.tolist(),
                "loss": r.loss,
            }
            for r in rounds
        ]
        self._state.write(self._entropy, saved)

    def _restore(self, *, is_seeded: bool) -> None:
        """Go on from a saved state, or begin one."""
        assert self._state is not None
        found = self._state.read()
        if found is None:
            self._save([])  # what cannot be written to is found before any work is done
            return
        entropy, saved = found
        if is_seeded and entropy != self._entropy:
            raise InvalidInput(
                "the state was saved with another random_state; give the same, or none"
            )
        self._entropy = entropy
        n_saved = sum(len(one["rows"]) for one in saved)
        if n_saved > self.budget:
            raise InvalidInput(
                f"the state has {n_saved} labels already, more than the budget of {self.budget}"
            )
        for one in saved:
            rows = np.asarray(one["rows"], dtype=np.int64)
            labels = validate.names(one["labels"], "labels", len(rows))
            self._check_new(rows, labels)
            scores = None if one["scores"] is None else np.asarray(one["scores"], dtype=np.float64)
            losses = [*(r.loss for r in self._rounds), one["loss"]]
            n_labelled = len(self.labelled) + len(rows)
            stop = self._stopping.reason(n_labelled, losses)
            index = len(self._rounds)
            self._rounds.append(Round(index, rows, labels, scores, n_labelled, one["loss"], stop))


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Labels of several rounds, in one array."""
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
