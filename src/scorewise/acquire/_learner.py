"""Active learning by hand: ask which rows to label, tell their labels."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._random import entropy_of
from scorewise.acquire._procedure import Procedure
from scorewise.acquire._querying import Exam, Query, checked_initial, count_rows
from scorewise.acquire._rounds import Round, Stopping, joined
from scorewise.acquire._state import StateFile
from scorewise.acquire._training import RETRAIN, check_trainable, unchanging
from scorewise.decompose import RuleLike
from scorewise.errors import InvalidInput
from scorewise.models import indexable

_FINISHING = threading.Lock()  # a round is added by one thread at a time


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
        Stop when the loss has not fallen by more than ``tolerance`` in so many rounds.
    tolerance : float
        How much the loss must fall to count.
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
        ``warm_start`` (no forests or other ensembles; anew where a label shows a new class), and
        with functions ``train(X, y, seed, previous=None)``.
    n_samples, device
        As for :func:`scorewise.predict_samples`.
    random_state : int, RandomState or Generator, optional
        Seed. The same seed gives the same initial rows and the same seeds of models, whatever is
        queried by, so that runs are paired.
    state : path, optional
        A JSON file to keep the labels and rounds in, saved after each round. If it is there, the
        work goes on from it, to the same result as if it had never stopped. Functions are known by
        their name, so that one can be mended after a crash.

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
    Round(0: 9 labels, loss 0.05333)
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
        check_trainable(model, validate.choice(retrain, "retrain", RETRAIN))
        X = indexable(X_pool)
        n_rows = count_rows(X, "X_pool")
        exam = Exam.of(X_test, y_test, task_loss, floor)
        self._stopping = Stopping.of(
            budget, target_loss, patience, tolerance, n_rows, has_loss=exam is not None
        )
        if n_samples is not None:
            n_samples = validate.whole(n_samples, "n_samples", at_least=1)
        self._procedure = Procedure(
            unchanging(model),
            X,
            n_rows,
            checked_initial(initial, n_rows, self.budget),
            np.zeros(n_rows) if strata is None else validate.names(strata, "strata", n_rows),
            validate.whole(per_round, "per_round", at_least=1),
            Query.of(rule, component, method, coldness),
            exam,
            None if classes is None else np.unique(validate.names(classes, "classes")),
            retrain,
            {"n_samples": n_samples, "device": device},
            entropy_of(random_state),
        )
        self._rounds: list[Round] = []
        self._model: Any = None
        self._asked: tuple[np.ndarray, np.ndarray | None] | None = None
        self._state = None if state is None else StateFile(state, self._procedure.settings())
        self._restore(is_seeded=random_state is not None)

    def _restore(self, *, is_seeded: bool) -> None:
        """Go on from a saved state, or begin one."""
        if self._state is None:
            return
        found = self._state.read(self._procedure.n_rows)
        if found is None:
            self._state.begin(self._procedure.entropy)
            return
        entropy, rounds = found
        if is_seeded and entropy != self._procedure.entropy:
            raise InvalidInput("the state is of another random_state; give the same, or none")
        if any((one.loss is None) != (self._procedure.exam is None) for one in rounds):
            raise InvalidInput("a round of the state has no loss, or one that nothing measures")
        if rounds and rounds[-1].n_labelled > self.budget:
            raise InvalidInput(
                f"the state has {rounds[-1].n_labelled} labels already, more than the budget of "
                f"{self.budget}"
            )
        for one in rounds:
            validate.same_kind(rounds[0].labels, one.labels, "labels")
            self._procedure.check_labels(one.labels)
        self._rounds = [self._finished(rounds[: i + 1]) for i in range(len(rounds))]
        self._procedure = replace(self._procedure, entropy=entropy)

    # -- what is known ----------------------------------------------------------------------------

    @property
    def rounds(self) -> list[Round]:
        """The rounds that are finished, without their models."""
        return list(self._rounds)

    @property
    def labelled(self) -> np.ndarray:
        """Rows that have labels, ``(n,)``, in the order in which they were told."""
        return joined([one.rows for one in self._rounds])

    @property
    def labels(self) -> np.ndarray:
        """Their labels, ``(n,)``."""
        return joined([one.labels for one in self._rounds])

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
        with _FINISHING:
            rounds, model = self._rounds, self._model
        if model is None:
            # A model that goes on from the one before needs all of them again.
            for index in range(0 if self._procedure.is_warm else len(rounds) - 1, len(rounds)):
                with self._in_round(index, "training again"):
                    model = self._procedure.trained(rounds[: index + 1], model)
            with _FINISHING:
                if self._rounds is rounds:
                    self._model = model
        return model

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
        >>> import numpy as np, scorewise as sw
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> learner = sw.ActiveLearner(
        ...     RandomForestClassifier(), np.eye(9), initial=3, random_state=0
        ... )
        >>> rows = learner.ask()
        >>> len(rows), bool((rows == learner.ask()).all())
        (3, True)
        """
        asked = self._asked
        while asked is None:
            before = self._rounds
            found = self._next_rows() if before else (self._procedure.first_rows(), None)
            with _FINISHING:
                if self._rounds is before:  # else they may have labels by now
                    self._asked = found
                asked = self._asked
        return asked[0].copy()

    def _next_rows(self) -> tuple[np.ndarray, np.ndarray | None]:
        n_labelled = self._rounds[-1].n_labelled
        if n_labelled == self._procedure.n_rows:
            raise InvalidInput("all rows of the pool have labels: there is nothing left to ask")
        if n_labelled == self.budget:
            raise InvalidInput(f"the budget of {self.budget} labels is spent")
        with self._in_round(len(self._rounds), "choosing rows"):
            return self._procedure.next_rows(self.model, self._rounds, self.budget - n_labelled)

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

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> learner = sw.ActiveLearner(
        ...     RandomForestClassifier(), np.eye(9), initial=3, classes=["cat", "dog"]
        ... )
        >>> learner.tell([0, 4, 5], ["cat", "dog", "dog"])
        Round(0: 3 labels)
        """
        procedure, before = self._procedure, self._rounds
        rows = validate.rows(rows, procedure.n_rows, "rows")
        told = validate.names(labels, "labels", len(rows))
        self._check_rows(rows)
        self._check_labels(told)
        index, n_labelled = len(before), len(self.labelled) + len(rows)
        rounds = [*before, Round(index, rows, told, self._scores_of(rows), n_labelled, None)]
        with self._in_round(index, "training"):
            previous = self.model if procedure.is_warm and before else None
            model = procedure.trained(rounds, previous)
        with self._in_round(index, "measuring the loss"):
            loss = procedure.loss(model, rounds)
        rounds[-1] = finished = self._finished([*before, replace(rounds[-1], loss=loss)])
        with _FINISHING:
            if self._rounds is not before:
                raise InvalidInput("labels were told by another thread meanwhile; tell these again")
            if self._state is not None:
                with self._in_round(index, "saving"):
                    self._state.write(procedure.entropy, rounds)
            self._rounds, self._model, self._asked = rounds, model, None
        return replace(finished, model=model)

    def _check_rows(self, rows: np.ndarray) -> None:
        labelled = self.labelled
        if not len(rows):
            raise InvalidInput("there are no rows; tell at least one label")
        known = np.isin(rows, labelled)
        if known.any():
            place = int(np.argmax(known))
            raise InvalidInput(f"rows[{place}] is {rows[place]}, which has a label already")
        left = self.budget - len(labelled)
        if len(rows) > left:
            raise InvalidInput(
                f"these are {len(rows)} labels; {left} are left of the budget of {self.budget}"
            )

    def _check_labels(self, labels: np.ndarray) -> None:
        self._procedure.check_labels(labels)
        if self._rounds:
            validate.same_kind(self.labels, labels, "labels")

    def _scores_of(self, rows: np.ndarray) -> np.ndarray | None:
        """What rows were worth when they were asked for, if all of them were."""
        asked, scores = self._asked or (rows, None)
        place = {row: i for i, row in enumerate(asked.tolist())}
        if scores is None or not place.keys() >= set(rows.tolist()):
            return None
        return scores[[place[row] for row in rows.tolist()]]

    def _finished(self, rounds: list[Round]) -> Round:
        """The last of these rounds, with the reason to stop if there is one."""
        reason = self._stopping.reason(rounds[-1].n_labelled, [one.loss for one in rounds])
        return replace(rounds[-1], stop=reason)

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
