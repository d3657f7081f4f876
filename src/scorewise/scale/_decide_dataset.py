"""The least costly action for every row of a data set, on a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._notebook import TextInNotebooks
from scorewise._tables import Columns, row_column
from scorewise._text import aligned
from scorewise.decide import decide
from scorewise.decompose import COMPONENTS
from scorewise.io import Predictions, read_predictions
from scorewise.scale._cluster import Scheduler
from scorewise.scale._dataset import Dataset
from scorewise.scale._job import OutputFolder, write_partitions


@dataclass(frozen=True, repr=False)
class DecidedDataset(OutputFolder, TextInNotebooks):
    """The folder written by :func:`scorewise.scale.decide_dataset`.

    Attributes
    ----------
    path : str
        Of the folder.
    n_rows, n_partitions : int
    resumed : int
        Number of partitions that an earlier, interrupted run has written.
    columns : tuple of str
    action_names : tuple of str
    quarantined : list of dict
        As in :class:`scorewise.scale.ScoredDataset`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import decide_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> sw.write_predictions(folder / "in/a.parquet", probs)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     decided = decide_dataset(
    ...         folder / "in", [[0, 5], [20, 0]], folder / "out", scheduler=client
    ...     )
    >>> decided.n_rows, decided.action_names, [row["rows"] for row in decided.by_action()]
    (200, ('0', '1'), [100, 100])
    """

    action_names: tuple[str, ...]
    _by_action: list[dict[str, Any]]

    def by_action(self) -> list[dict[str, Any]]:
        """Return how often each action is chosen, and its mean expected costs there.

        It is what :meth:`scorewise.decide.Decisions.by_action` returns for rows in memory.
        """
        return self._by_action

    def __repr__(self) -> str:
        heading = ["action", "rows", "cost", "aleatoric", "epistemic"]
        lines = [
            [row["action"], f"{row['rows']:,}", *(f"{row[c]:.4g}" for c in COMPONENTS)]
            for row in self._by_action
            if row["rows"]
        ]
        table = aligned([heading, *lines])
        return "\n".join([table, *self.quarantine_lines(), f"Written to {self.path}"])


@dataclass(frozen=True)
class ActionWork:
    """The actions for rows, as columns of a table; for ``write_partitions``."""

    costs: Any
    abstain_cost: Any
    action_names: Sequence[str] | None
    normalize: bool
    shown_costs: Mapping[str, Any]  # as JSON can hold them

    names = COMPONENTS
    fields = frozenset({"ids"})
    by = "action"

    def settings(self) -> dict[str, Any]:
        """Return the costs and names of the actions."""
        return {**self.shown_costs, "normalize": self.normalize}

    def columns(self, chunk: Predictions, first_row: int) -> Columns:
        """Return the action and its expected cost, with its parts."""
        samples = chunk.chunk_samples(first_row, normalize=self.normalize)
        decisions = decide(samples, self.costs, self.abstain_cost, action_names=self.action_names)
        names = np.array(decisions.action_names, dtype=object)
        return {
            **row_column(chunk.ids, first_row, len(chunk)),
            "action": names[to_numpy(decisions.action)],
            **{name: to_numpy(getattr(decisions, name)) for name in COMPONENTS},
        }

    def counts(self, columns: Columns) -> dict[str, np.ndarray]:
        """Return no counts: the summary of each action has its number of rows."""
        return {}


@validate.takes_options_of(read_predictions)
def decide_dataset(
    dataset: str | os.PathLike[str] | Dataset,
    costs: Any,
    out: str | os.PathLike[str],
    *,
    abstain_cost: Any = None,
    action_names: Sequence[str] | None = None,
    normalize: bool = False,
    scheduler: Scheduler = "local",
    on_bad_rows: str = "fail",
    restart: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **reading: Any,
) -> DecidedDataset:
    """Write the action of least expected cost for every row of a folder, and return a summary.

    Use it where :func:`scorewise.decide` takes too long or needs too much memory. Actions and costs
    are the same.

    Parameters
    ----------
    dataset : str, path or Dataset
        As for :func:`scorewise.scale.score_dataset`.
    costs : array (K, A), data frame, or cost matrix of :func:`scorewise.rules.cost_matrix`
        As for :func:`scorewise.decide`.
    out : str or path
        As for :func:`scorewise.scale.score_dataset`. Columns are ``id``, or ``partition`` and
        ``row``, and ``action``, ``total``, ``aleatoric`` and ``epistemic``.
    abstain_cost : float or array (K,), optional
        The cost of abstaining, which becomes one more action.
    action_names : sequence of str, optional
        As for :func:`scorewise.decide`.
    normalize : bool
        Rescale probabilities to sum to 1.
    scheduler, on_bad_rows, restart, storage_options, progress, **reading
        As for :func:`scorewise.scale.score_dataset`.

    Returns
    -------
    DecidedDataset

    Raises
    ------
    InvalidInput
        If the costs do not fit the classes, and as for :func:`scorewise.scale.score_dataset`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import decide_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "new").mkdir()
    >>> sw.write_predictions(folder / "new/a.parquet", [[[0.9, 0.1]], [[0.2, 0.8]]])
    >>> costs = sw.rules.cost_matrix([[0, 5], [20, 0]], actions=["dismiss", "treat"])
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     decided = decide_dataset(folder / "new", costs, folder / "out", scheduler=client)
    >>> [(row["action"], row["rows"]) for row in decided.by_action()]
    [('dismiss', 1), ('treat', 1)]
    """
    source = Dataset.of(dataset, storage_options=storage_options, **reading)
    trial = decide(source.empty(1).samples, costs, abstain_cost, action_names=action_names)
    shown = {"costs": trial.rule.costs.tolist(), "actions": list(trial.action_names)}
    written = write_partitions(
        source,
        ActionWork(costs, abstain_cost, action_names, normalize, shown),
        out,
        scheduler=scheduler,
        on_bad_rows=on_bad_rows,
        restart=restart,
        storage_options=storage_options,
        task="decide",
        progress=progress,
    )
    by_action = []
    for name in trial.action_names:
        group = written.groups.get(name)
        n_rows = group["total"].n if group else 0
        means = {c: group[c].mean if group else np.nan for c in COMPONENTS}
        by_action.append({"action": name, "rows": n_rows, **means})
    return DecidedDataset(**written.shared(), action_names=trial.action_names, _by_action=by_action)
