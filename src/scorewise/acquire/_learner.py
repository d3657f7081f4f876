"""Active learning in rounds: with labels by hand (ask, tell), or from an array (an oracle)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._estimators import indexable
from scorewise._progress import bar
from scorewise._random import seed_of
from scorewise.acquire._rounds import Round, StoppingRule, concatenate
from scorewise.acquire._state import StateFile
from scorewise.acquire._steps import (
    RETRAIN,
    HeldOutLoss,
    LearningSteps,
    RowSelection,
    check_initial,
    check_rows,
    check_trainable,
    untrained_copy,
)
from scorewise.errors import InvalidInput, Remedy
from scorewise.rules import RuleLike

_FINISHING = threading.Lock()  # rounds are added by one thread at a time


class ActiveLearner:
    """Active learning with labels by hand: ``ask`` returns rows, ``tell`` takes their labels.

    Use it where labels do not come from an array; :func:`scorewise.active_learning` does the same
    with an oracle. Each ``tell`` is a round: the model is trained on all labels so far, and its
    loss is measured on the test rows.

    Parameters
    ----------
    model : estimator with ``fit``, list of such, or function
        Anything that :func:`scorewise.predict_samples` supports once it is trained: a forest, a
        :class:`BootstrapEnsemble`, a :class:`DeepEnsemble`, a list of classifiers; or a function
        ``train(X, y, seed)`` that returns a trained model, such as a module with dropout. Every
        ``random_state`` in it is seeded. The model itself is not changed.
    X_pool : array, sparse matrix, frame, list or tensor (N, ...)
        Rows that may be labelled.
    initial : int or integer array
        The number of rows to label first, which are drawn at random, or their indices.
    strata : array (N,), optional
        Groups of the pool's rows. Random initial rows are then drawn from each group in proportion,
        at least one from each if ``initial`` allows.
    per_round : int
        Number of rows to label in each further round.
    rule : str or ScoringRule
        The rule whose uncertainty scores the rows; zero-one did best in the paper's
        experiments.
    component : "total", "aleatoric" or "epistemic"
        The component of the uncertainty that scores the rows.
    method : "top", "power", "softmax", "softrank", "random" or "joint", optional
        As for :func:`scorewise.acquire`; ``"random"`` is the baseline, and ``"joint"`` is
        :func:`scorewise.acquire_batch`. With a target, as for :func:`scorewise.acquire_for`. By
        default ``"top"``, and ``"power"`` with a target, whose largest gains can be worse than
        random rows.
    coldness : float
        As for :func:`scorewise.acquire`, for the stochastic methods.
    target : rows (T, ...), optional
        A sample of the inputs that the model will meet, without labels. Rows are then chosen by
        how much their labels lower the total uncertainty of the target, by
        :func:`scorewise.acquire_for`. Use it, with ``method="top"``, where most of the pool is
        known to be of another kind. Where pool and target are of one kind, prefer epistemic
        uncertainty under ``"zero-one"`` with ``method="power"`` and no target. Where you do not
        know, both are safe: in the project's benchmark neither was worse than random rows, without
        ``method="top"``. Pool and target are predicted with
        one seed, so that a stochastic model has the same draws for both. ``"random"`` takes no
        account of it.
    budget : int, optional
        Largest number of labels, the initial ones included; by default the whole pool.
    target_loss : float, optional
        Stop when the loss is at most this.
    patience : int, optional
        Stop when the loss has not fallen by more than ``tolerance`` in this many rounds.
    tolerance : float
        By how much the loss must fall to count as progress.
    X_test, y_test : rows and labels, optional
        Rows to measure the loss on.
    task_loss : str or ScoringRule
        The loss that is measured.
    floor : float, optional
        The smallest probability that counts in it; see :func:`scorewise.task_losses`.
    classes : array (K,), optional
        All labels that can occur; others are refused. By default the labels seen so far.
    retrain : "scratch" or "warm"
        Train a new model in each round, or continue from the last one. The latter works with
        estimators that have ``warm_start`` and with functions ``train(X, y, seed, previous=None)``.
        Forests and other ensembles cannot continue. If a label is of a new class, a new model is
        trained.
    n_samples, device
        As for :func:`scorewise.predict_samples`.
    random_state : int, RandomState or Generator, optional
        Seed. The same seed gives the same initial rows and the same seeds of models for every rule,
        component and method, so that runs are paired.
    state : path, optional
        A JSON file in which labels and rounds are saved after each round. If it exists, the run
        continues from it, with the same result as if it had never stopped. A file that was saved
        with another pool or other settings is refused. Functions are identified by their name, so
        that a bug in one can be fixed between two runs.

    Attributes
    ----------
    rounds : list of Round
        The finished rounds, without their models.
    labelled : integer array (n,)
        Rows that have labels, in the order in which they were labelled.
    labels : array (n,)
        Their labels.
    model : fitted model
        The model of the last round; trained again if that round was read from a saved state.
    stop : "budget", "target", "plateau" or None
        Why the run has stopped; None if it has not.

    Raises
    ------
    InvalidInput
        If arguments do not fit each other, or the state was saved with another pool or other
        settings.

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
    >>> learner.tell(rows, y[rows])  # after labelling these rows
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
        method: str | None = None,
        coldness: float = 1.0,
        target: Any = None,
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
        n_rows = check_rows(X, "X_pool")
        held_out = HeldOutLoss.of(X_test, y_test, task_loss, floor)
        self._stopping = StoppingRule.of(
            budget, target_loss, patience, tolerance, n_rows, has_loss=held_out is not None
        )
        if n_samples is not None:
            n_samples = validate.whole(n_samples, "n_samples", at_least=1)
        selection = RowSelection.of(rule, component, method, coldness, target)
        selection.check_members(model)
        self._steps = LearningSteps(
            untrained_copy(model),
            X,
            n_rows,
            check_initial(initial, n_rows, self.budget),
            np.zeros(n_rows) if strata is None else validate.class_labels(strata, "strata", n_rows),
            validate.whole(per_round, "per_round", at_least=1),
            selection,
            held_out,
            None if classes is None else np.unique(validate.class_labels(classes, "classes")),
            retrain,
            {"n_samples": n_samples, "device": device},
            seed_of(random_state),
        )
        self._rounds: list[Round] = []
        self._model: Any = None
        self._next: tuple[np.ndarray, np.ndarray | None] | None = None  # rows to label, scores
        self._state = None if state is None else StateFile(state, self._steps.settings())
        self._restore(is_seeded=random_state is not None)

    def _restore(self, *, is_seeded: bool) -> None:
        """Continue from a saved state, or begin one."""
        if self._state is None:
            return
        saved = self._state.read(self._steps.n_rows)
        if saved is None:
            self._state.begin(self._steps.seed)
            return
        seed, rounds = saved
        if is_seeded and seed != self._steps.seed:
            raise InvalidInput(
                "the state was saved with another random_state; use the same",
                Remedy("random_state", None, "to use the saved one"),
            )
        if any((finished.loss is None) != (self._steps.held_out is None) for finished in rounds):
            raise InvalidInput("a round of the state lacks a loss, or has one without test rows")
        if rounds and rounds[-1].n_labelled > self.budget:
            raise InvalidInput(
                f"the state has {rounds[-1].n_labelled} labels already, more than the budget of "
                f"{self.budget}"
            )
        for finished in rounds:
            validate.same_kind(rounds[0].labels, finished.labels, "labels")
            self._steps.check_labels(finished.labels)
        self._rounds = [self._with_reason_to_stop(rounds[: i + 1]) for i in range(len(rounds))]
        self._steps = replace(self._steps, seed=seed)

    # -- results so far --------------------------------------------------------------------------

    @property
    def rounds(self) -> list[Round]:
        """The finished rounds, without their models."""
        return list(self._rounds)

    @property
    def labelled(self) -> np.ndarray:
        """The rows that have labels, ``(n,)``, in the order in which they were labelled."""
        return concatenate([finished.rows for finished in self._rounds])

    @property
    def labels(self) -> np.ndarray:
        """The labels of these rows, ``(n,)``."""
        return concatenate([finished.labels for finished in self._rounds])

    @property
    def budget(self) -> int:
        """The largest number of labels."""
        return self._stopping.budget

    @property
    def stop(self) -> str | None:
        """The reason why the run has stopped, or None."""
        return self._rounds[-1].stop if self._rounds else None

    @property
    def model(self) -> Any:
        """The model of the last round.

        Raises
        ------
        InvalidInput
            Before the first round.
        """
        if not self._rounds:
            raise InvalidInput("there is no model yet: label the rows of ask(), then call tell")
        with _FINISHING:
            rounds, model = self._rounds, self._model
        if model is None:
            # warm models continue from each other, so that all are needed again
            for index in range(0 if self._steps.is_warm else len(rounds) - 1, len(rounds)):
                with self._note_on_error(index, "training again"):
                    model = self._steps.train(rounds[: index + 1], model)
            with _FINISHING:
                if self._rounds is rounds:
                    self._model = model
        return model

    # -- ask and tell -----------------------------------------------------------------------------

    def ask(self) -> np.ndarray:
        """Return the rows to label now; the same ones until ``tell`` is called.

        Returns
        -------
        integer array (n,)
            Indices of rows of the pool, the most valuable first.

        Raises
        ------
        InvalidInput
            If the budget is used up, or all rows have labels.

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
        upcoming = self._next
        while upcoming is None:
            before = self._rounds
            chosen = self._next_rows() if before else (self._steps.first_rows(), None)
            with _FINISHING:
                if self._rounds is before:  # else another thread may have labelled these rows
                    self._next = chosen
                upcoming = self._next
        return upcoming[0].copy()

    def _next_rows(self) -> tuple[np.ndarray, np.ndarray | None]:
        n_labelled = self._rounds[-1].n_labelled
        if n_labelled == self._steps.n_rows:
            raise InvalidInput("all rows of the pool have labels: no row is left to label")
        if n_labelled == self.budget:
            raise InvalidInput(f"the budget of {self.budget} labels is used up")
        with self._note_on_error(len(self._rounds), "choosing rows"):
            return self._steps.next_rows(self.model, self._rounds, self.budget - n_labelled)

    def tell(self, rows: Any, labels: Any) -> Round:
        """Add labels, train the model on all labels so far, and return the finished round.

        The rows may be a part of those of ``ask``, or others. If an error occurs, nothing has
        changed in memory or on disk.

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
            If a row already has a label, a label is none of the classes, or the budget is exceeded.

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
        steps, before = self._steps, self._rounds
        rows = validate.rows(rows, steps.n_rows, "rows")
        labels = validate.class_labels(labels, "labels", len(rows))
        self._check_rows(rows)
        self._check_labels(labels)
        index, n_labelled = len(before), len(self.labelled) + len(rows)
        rounds = [*before, Round(index, rows, labels, self._scores_of(rows), n_labelled, None)]
        with self._note_on_error(index, "training"):
            previous = self.model if steps.is_warm and before else None
            model = steps.train(rounds, previous)
        with self._note_on_error(index, "measuring the loss"):
            loss = steps.loss(model, rounds)
        finished = self._with_reason_to_stop([*before, replace(rounds[-1], loss=loss)])
        rounds[-1] = finished
        with _FINISHING:
            if self._rounds is not before:
                raise InvalidInput("another thread added labels meanwhile; call tell again")
            if self._state is not None:
                with self._note_on_error(index, "saving"):
                    self._state.write(steps.seed, rounds)
            self._rounds, self._model, self._next = rounds, model, None
        return replace(finished, model=model)

    def _check_rows(self, rows: np.ndarray) -> None:
        labelled = self.labelled
        if not len(rows):
            raise InvalidInput("rows is empty; pass at least one labelled row")
        has_label = np.isin(rows, labelled)
        if has_label.any():
            place = int(np.argmax(has_label))
            raise InvalidInput(f"rows[{place}] is {rows[place]}, which has a label already")
        left = self.budget - len(labelled)
        if len(rows) > left:
            raise InvalidInput(
                f"{len(rows)} labels are more than the {left} left of the budget of {self.budget}"
            )

    def _check_labels(self, labels: np.ndarray) -> None:
        self._steps.check_labels(labels)
        if self._rounds:
            validate.same_kind(self.labels, labels, "labels")

    def _scores_of(self, rows: np.ndarray) -> np.ndarray | None:
        """The scores by which rows were chosen, if all of them were."""
        chosen, scores = self._next or (rows, None)
        place = {row: i for i, row in enumerate(chosen.tolist())}
        if scores is None or not place.keys() >= set(rows.tolist()):
            return None
        return scores[[place[row] for row in rows.tolist()]]

    def _with_reason_to_stop(self, rounds: list[Round]) -> Round:
        """The last of these rounds, with the reason to stop if there is one."""
        reason = self._stopping.reason(
            rounds[-1].n_labelled, [finished.loss for finished in rounds]
        )
        return replace(rounds[-1], stop=reason)

    @contextmanager
    def _note_on_error(self, index: int, activity: str) -> Iterator[None]:
        """Add to an error when it occurred, and that nothing is lost."""
        try:
            yield
        except Exception as error:
            error.add_note(
                f"This happened while {activity} in round {index} of active learning; the labels "
                f"and the state of the {len(self._rounds)} rounds before are unchanged."
            )
            raise


@validate.takes_options_of(ActiveLearner)
def active_learning(
    model: Any,
    X_pool: Any,
    y_oracle: Any,
    *,
    stratified: bool = True,
    progress: bool | None = None,
    **options: Any,
) -> Iterator[Round]:
    """Return a generator of rounds: train, choose rows, take their labels from an oracle, repeat.

    Use it to find out how few labels are enough, and by which measure to choose them. Another run
    with ``method="random"`` and the same ``random_state`` is the baseline: it has the same initial
    rows and the same seeds of models. To label by hand, use
    :class:`scorewise.ActiveLearner`, which does the same without an oracle.

    Parameters
    ----------
    model, X_pool
        As for :class:`scorewise.ActiveLearner`.
    y_oracle : array (N,)
        Labels of all rows of the pool. A row's label is used only after the row is chosen, except
        for ``stratified``.
    stratified : bool
        Whether random initial rows are drawn from each class in proportion, at least one from each
        if ``initial`` allows. With False, they are drawn from the whole pool.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **options
        Those of :class:`scorewise.ActiveLearner`: ``initial``, ``per_round``, ``rule``,
        ``component``, ``method``, ``target``, ``budget``, ``target_loss``, ``patience``,
        ``X_test``, ``y_test``, ``task_loss``, ``retrain``, ``random_state``, ``state``, …

    Returns
    -------
    iterator of Round
        The first round is that of the initial rows. With a saved ``state``, its rounds come first,
        without their models.

    Raises
    ------
    InvalidInput
        As :class:`scorewise.ActiveLearner` does, or if the oracle contradicts the labels of a saved
        state.

    Examples
    --------
    >>> import scorewise as sw
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> rounds = sw.active_learning(
    ...     RandomForestClassifier(30), X[:1000], y[:1000], initial=50, per_round=50, budget=150,
    ...     X_test=X[1000:], y_test=y[1000:], random_state=0,
    ... )
    >>> for finished in rounds:
    ...     print(finished)
    Round(0: 50 labels, loss 0.3061)
    Round(1: 100 labels, loss 0.1844)
    Round(2: 150 labels, loss 0.1543, stopped by budget)
    """
    X_pool = indexable(X_pool)
    y = validate.class_labels(y_oracle, "y_oracle", check_rows(X_pool, "X_pool"))
    if stratified:
        options = {"strata": y} | options
    if options.get("classes") is not None:
        validate.known_labels(validate.class_labels(options["classes"], "classes"), y, "y_oracle")
    elif options.get("y_test") is not None:
        y_test = validate.class_labels(options["y_test"], "y_test")
        validate.same_kind(y, y_test, "y_test")
        unknown = np.setdiff1d(y_test, y)
        if len(unknown):
            raise InvalidInput(
                f"y_test has the label {unknown[0]}, which y_oracle never has",
                Remedy("classes", ..., "all labels that can occur"),
            )
        options["classes"] = y
    else:
        options["classes"] = y
    learner = ActiveLearner(model, X_pool, **options)
    for saved in learner.rounds:
        if not np.array_equal(y[saved.rows], saved.labels):
            raise InvalidInput(
                f"y_oracle does not agree with the labels that were saved in round {saved.index}"
            )
    return _rounds(learner, y, progress)


def _rounds(learner: ActiveLearner, y: np.ndarray, progress: bool | None) -> Iterator[Round]:
    """The rounds of a saved state, then new ones until the learner stops."""
    with bar("labelling", learner.budget, progress) as advance:
        for saved in learner.rounds:
            advance(len(saved.rows))
            yield saved
            if saved.stop:
                return
        while True:
            rows = learner.ask()
            finished = learner.tell(rows, y[rows])
            advance(len(rows))
            yield finished
            if finished.stop:
                return
