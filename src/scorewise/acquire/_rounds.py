"""What a round of active learning was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise.errors import InvalidInput


@dataclass(frozen=True, eq=False, repr=False)
class Round:
    """A model trained on the labels so far; made by :func:`scorewise.active_learning`.

    Attributes
    ----------
    index : int
        0 for the initial set.
    rows : integer array (b,)
        Rows of the pool that were labelled for this round.
    labels : array (b,)
    scores : array (b,) or None
        How much each was worth when it was chosen; None where nobody asked the model.
    n_labelled : int
        Labels in all.
    loss : float or None
        The mean loss on the test rows, where there are some.
    stop : "budget", "target", "plateau" or None
        Why this is the last round, if it is.
    model : fitted model or None
        None in rounds that were read from a saved state; ``dataclasses.replace(one, model=None)``
        lets go of it.
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
class Stopping:
    """When it is enough."""

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
    ) -> Stopping:
        """Of checked arguments, for a pool of so many rows."""
        if budget is None:
            budget = n_rows
        elif validate.whole(budget, "budget", at_least=1) > n_rows:
            raise InvalidInput(f"the budget is {budget} labels, and the pool has {n_rows} rows")
        if target_loss is not None:
            validate.number(target_loss, "target_loss")
        if patience is not None:
            validate.whole(patience, "patience", at_least=1)
        if validate.number(tolerance, "tolerance") < 0:
            raise InvalidInput(f"tolerance must not be below 0, and is {tolerance}")
        if not has_loss and (target_loss is not None or patience is not None):
            raise InvalidInput("target_loss and patience look at the loss: pass X_test and y_test")
        return cls(int(budget), target_loss, patience, tolerance)

    def reason(self, n_labelled: int, losses: Sequence[float | None]) -> str | None:
        """Why to stop after these rounds, or None."""
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


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """Rows or labels of several rounds, in one array."""
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def learning_curve(runs: Sequence[Sequence[Round]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of labels (T,) that all of R runs have come to, and the losses there (R, T)."""
    by_labels = [{one.n_labelled: one.loss for one in run} for run in runs]
    shared = sorted(set.intersection(*(set(run) for run in by_labels)))
    if not shared:
        raise InvalidInput(f"the runs of {name!r} have no number of labels in common")
    losses = [[run[n] for n in shared] for run in by_labels]
    if any(loss is None for run in losses for loss in run):
        raise InvalidInput(f"the rounds of {name!r} have no losses; pass X_test and y_test")
    return np.array(shared), np.array(losses, dtype=np.float64)


def paired_curves(runs: Mapping[str, Sequence[Sequence[Round]]]) -> dict[str, np.ndarray]:
    """Losses (R, T) of every measure, at the numbers of labels that all runs have come to."""
    curves = {name: learning_curve(several, name) for name, several in runs.items()}
    shared = [n for n, _ in curves.values()]
    labels = shared[0][np.all([np.isin(shared[0], n) for n in shared], axis=0)]
    if not len(labels):
        found = {name: n.tolist() for name, (n, _) in curves.items()}
        raise InvalidInput(f"runs have no number of labels in common: {found}")
    return {name: losses[:, np.isin(n, labels)] for name, (n, losses) in curves.items()}


def are_rounds(runs: Any) -> bool:
    """Whether these are runs, each a sequence of rounds."""
    if not isinstance(runs, list | tuple) or not runs:
        return False
    several = all(isinstance(run, list | tuple) and run for run in runs)
    return several and all(isinstance(one, Round) for run in runs for one in run)
