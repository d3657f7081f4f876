"""Active learning with an oracle: rounds of choosing rows, learning their labels, training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._progress import bar
from scorewise.acquire._learner import ActiveLearner
from scorewise.acquire._querying import count_rows
from scorewise.acquire._rounds import Round
from scorewise.errors import InvalidInput
from scorewise.models import indexable


def active_learning(
    model: Any,
    X_pool: Any,
    y_oracle: Any,
    *,
    stratified: bool = True,
    progress: bool | None = None,
    **options: Any,
) -> Iterator[Round]:
    """Train, choose what to label next, train again: a generator of rounds.

    Use it to learn how few labels are enough, and by which measure to choose them. Run it once with
    ``method="random"`` and the same ``random_state``, and you have the baseline for it:
    the same initial rows, the same seeds of models. People who label by hand use
    :class:`scorewise.ActiveLearner`, which does the same without knowing labels beforehand.

    Parameters
    ----------
    model, X_pool
        As for :class:`scorewise.ActiveLearner`.
    y_oracle : array (N,)
        Labels of all rows of the pool. A row's label is used once it is chosen, but for
        ``stratified``.
    stratified : bool
        Whether the random initial rows are from each class in proportion, at least one if there is
        room; otherwise they are from all rows alike, as where nobody knows the classes.
    progress : bool, optional
        Show a bar; on terminals and for long work unless told.
    **options
        Those of :class:`scorewise.ActiveLearner`: ``initial``, ``per_round``, ``rule``,
        ``component``, ``method``, ``budget``, ``target_loss``, ``patience``, ``X_test``,
        ``y_test``, ``task_loss``, ``retrain``, ``random_state``, ``state``, …

    Returns
    -------
    iterator of Round
        The first is of the initial rows. With a saved ``state`` its rounds come first, as they
        were, then the further ones.

    Raises
    ------
    InvalidInput
        As :class:`scorewise.ActiveLearner` does, or if the oracle does not agree with the labels
        of a saved state.

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
    y = validate.names(y_oracle, "y_oracle", count_rows(X_pool, "X_pool"))
    if stratified:
        options = {"strata": y} | options
    if options.get("classes") is not None:
        validate.among(validate.names(options["classes"], "classes"), y, "y_oracle")
    elif options.get("y_test") is not None:
        tested = validate.names(options["y_test"], "y_test")
        validate.same_kind(y, tested, "y_test")
        options["classes"] = np.union1d(y, tested)
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
