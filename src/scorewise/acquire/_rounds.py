"""Rounds of active learning: results, stopping rules and learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._notebook import TextInNotebooks
from scorewise.errors import InvalidInput, Remedy

TEST_ROWS = Remedy("X_test", ..., "with y_test, to measure the loss on")


@dataclass(frozen=True, eq=False, repr=False)
class Round(TextInNotebooks):
    """One round of active learning: rows were labelled, and a model trained on all labels so far.

    Made by :func:`scorewise.active_learning` and by :meth:`scorewise.ActiveLearner.tell`.

    Attributes
    ----------
    index : int
        0 for the round of the initial rows.
    rows : integer array (b,)
        Rows of the pool that were labelled in this round.
    labels : array (b,)
        Their labels.
    scores : array (b,) or None
        The scores by which they were chosen; None where no model chose them.
    n_labelled : int
        Number of labels so far, those of earlier rounds included.
    loss : float or None
        The mean loss on the test rows; None without test rows.
    stop : "budget", "target", "plateau" or None
        Why this is the last round; None if it is not.
    model : fitted model or None
        None in rounds that were read from a saved state.
        ``dataclasses.replace(finished, model=None)`` frees its memory.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = np.eye(9), np.arange(9) % 3
    >>> options = {"initial": 3, "per_round": 2, "budget": 5, "random_state": 0}
    >>> first, last = sw.active_learning(RandomForestClassifier(10), X, y, **options)
    >>> first.n_labelled, last.n_labelled, last.stop
    (3, 5, 'budget')
    >>> last
    Round(1: 5 labels, stopped by budget)
    """

    index: int
    rows: np.ndarray
    labels: np.ndarray
    scores: np.ndarray | None
    n_labelled: int
    loss: float | None
    stop: str | None = None
    model: Any = None

    def __post_init__(self) -> None:
        for name in ("rows", "labels", "scores"):
            if getattr(self, name) is not None:
                own = np.array(getattr(self, name))
                own.flags.writeable = False
                object.__setattr__(self, name, own)

    def __repr__(self) -> str:
        loss = "" if self.loss is None else f", loss {self.loss:.4g}"
        stop = f", stopped by {self.stop}" if self.stop else ""
        return f"Round({self.index}: {self.n_labelled} labels{loss}{stop})"


@dataclass(frozen=True)
class StoppingRule:
    """When active learning stops: at a budget, a target loss, or where the loss no longer falls."""

    budget: int
    target_loss: float | None
    patience: int | None
    tolerance: float

    @classmethod
    def of(
        cls,
        budget: int | None,
        target_loss: float | None,
        patience: int | None,
        tolerance: float,
        n_rows: int,
        *,
        has_loss: bool,
    ) -> StoppingRule:
        """The rule of checked arguments, for a pool of ``n_rows``."""
        if budget is None:
            budget = n_rows
        elif validate.whole(budget, "budget", at_least=1) > n_rows:
            raise InvalidInput(f"the budget is {budget} labels, but the pool has {n_rows} rows")
        if target_loss is not None:
            validate.number(target_loss, "target_loss")
        if patience is not None:
            validate.whole(patience, "patience", at_least=1)
        if validate.number(tolerance, "tolerance") < 0:
            raise InvalidInput(f"tolerance is {tolerance}; it must not be negative")
        if not has_loss and (target_loss is not None or patience is not None):
            raise InvalidInput("target_loss and patience need a loss to watch", TEST_ROWS)
        return cls(int(budget), target_loss, patience, tolerance)

    def reason(self, n_labelled: int, losses: Sequence[float | None]) -> str | None:
        """Return why to stop after rounds with these losses, or None."""
        known = [loss for loss in losses if loss is not None]
        if self.target_loss is not None and known[-1] <= self.target_loss:
            return "target"
        if n_labelled >= self.budget:
            return "budget"
        if self.patience is not None and len(known) > self.patience:
            before, since = known[: -self.patience], known[-self.patience :]
            if min(since) >= min(before) - self.tolerance:
                return "plateau"
        return None


def concatenate(parts: list[np.ndarray]) -> np.ndarray:
    """Return rows or labels of several rounds in one array, which may be empty."""
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def learning_curves(
    runs: Mapping[str, Sequence[Sequence[Round]]],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the learning curve of every measure, from repeated runs of active learning.

    Use it for tables and plots of your own; :class:`scorewise.plots.LearningCurveDisplay` draws
    the curves, and :func:`scorewise.compare` compares them.

    Parameters
    ----------
    runs : mapping of str to lists of runs
        By the measure that chose the rows, R runs, each a list of :class:`Round`.

    Returns
    -------
    dict of str to (integer array (T,), array (R, T))
        The numbers of labels that all runs of the measure reached, and the losses there.

    Raises
    ------
    InvalidInput
        If ``runs`` is no such mapping, runs share no number of labels, or rounds have no losses.

    Examples
    --------
    >>> from scorewise.acquire import Round, learning_curves
    >>> run = [Round(i, [i], [0], None, n_labelled=10 * i, loss=1 / i) for i in (1, 2)]
    >>> learning_curves({"random": [run, run]})["random"]
    (array([10, 20]), array([[1. , 0.5], [1. , 0.5]]))
    """
    if not isinstance(runs, Mapping):
        raise InvalidInput(
            "runs must be a mapping of the name of each measure to a list of runs, not "
            f"{type(runs).__name__}; write runs={{'random': [list(sw.active_learning(…)), …], …}}"
        )
    return {name: _learning_curve(repeats, name) for name, repeats in runs.items()}


def _learning_curve(runs: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    if not _is_list_of_runs(runs):
        raise InvalidInput(
            f"runs[{name!r}] must be a list of runs, each a list of rounds, such as "
            "[list(sw.active_learning(…)), …]"
        )
    by_labels = [{finished.n_labelled: finished.loss for finished in run} for run in runs]
    shared = sorted(set.intersection(*(set(run) for run in by_labels)))
    if not shared:
        raise InvalidInput(f"the runs of {name!r} have no number of labels in common")
    losses = [[run[n] for n in shared] for run in by_labels]
    if any(loss is None for run in losses for loss in run):
        raise InvalidInput(f"the rounds of {name!r} have no losses", TEST_ROWS)
    return np.array(shared), np.array(losses, dtype=np.float64)


def _is_list_of_runs(runs: Any) -> bool:
    """Return whether this is a non-empty list of runs, each a non-empty list of :class:`Round`."""
    if not isinstance(runs, list | tuple) or not runs:
        return False
    are_lists = all(isinstance(run, list | tuple) and run for run in runs)
    return are_lists and all(isinstance(item, Round) for run in runs for item in run)
