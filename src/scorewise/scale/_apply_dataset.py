"""A policy that accepts rows of a data set or abstains, on a cluster."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._json import dumps
from scorewise._notebook import TextInNotebooks
from scorewise._tables import Columns, row_column
from scorewise._text import counted, percent, quoted
from scorewise.abstain import Drift, Policy
from scorewise.errors import InvalidInput
from scorewise.io import Predictions, read_predictions
from scorewise.scale._cluster import Scheduler
from scorewise.scale._dataset import Dataset
from scorewise.scale._job import OutputFolder, write_partitions
from scorewise.scale._summary import ColumnSummary


@dataclass(frozen=True, repr=False)
class AppliedDataset(OutputFolder, TextInNotebooks):
    """The folder written by :func:`scorewise.scale.apply_to_dataset`.

    Attributes
    ----------
    path : str
        Of the folder.
    n_rows, n_partitions : int
    n_accepted : int
        Number of rows that the policy accepts.
    resumed : int
        Number of partitions that an earlier, interrupted run has written.
    columns : tuple of str
    drift : Drift or None
        Whether all rows together differ from the certification rows; None if all are quarantined.
    uncertainty : ColumnSummary
    quarantined : list of dict
        As in :class:`scorewise.scale.ScoredDataset`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import apply_to_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> sw.write_predictions(folder / "in/a.parquet", probs)
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> policy = sw.certify(probs, y, max_loss=0.1)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     applied = apply_to_dataset(policy, folder / "in", folder / "out", scheduler=client)
    >>> applied.accepted_text(), applied.drift.has_drifted
    ('100 of 200 rows accepted (50.0 %)', False)
    """

    n_accepted: int
    drift: Drift | None
    uncertainty: ColumnSummary

    def __repr__(self) -> str:
        drift = "" if self.drift is None else f"; {self.drift}"
        accepted = f"{self.accepted_text()}{drift}"
        return "\n".join([accepted, *self.quarantine_lines(), f"Written to {self.path}"])

    def accepted_text(self) -> str:
        """Return how many rows are accepted, as text without a full stop."""
        if not self.n_rows:
            return "No row is valid, so none is accepted"
        share = percent(self.n_accepted / self.n_rows, ".1f")
        return f"{self.n_accepted:,} of {counted(self.n_rows, 'row')} accepted ({share})"


@dataclass(frozen=True)
class PolicyWork:
    """What a policy decides about rows, as columns of a table; for ``write_partitions``."""

    policy: Policy
    normalize: bool

    names = ("uncertainty",)
    fields = frozenset({"ids"})

    @cached_property
    def _prediction_names(self) -> np.ndarray:
        return np.array(self.policy.prediction_names, dtype=object)

    def settings(self) -> dict[str, Any]:
        """Return the guarantee and the digest of the policy."""
        content = dumps(self.policy.to_dict()).encode()
        return {
            "guarantee": str(self.policy),
            "policy_sha256": hashlib.sha256(content).hexdigest(),
            "normalize": self.normalize,
        }

    def columns(self, chunk: Predictions, first_row: int) -> Columns:
        """Return the prediction, its uncertainty, and whether to accept it."""
        samples = chunk.chunk_samples(
            first_row, normalize=self.normalize, rounded_as=self.policy.stored_as
        )
        uncertainty, prediction = self.policy.decide_samples(samples)
        return {
            **row_column(chunk.ids, first_row, len(chunk)),
            "prediction": self._prediction_names[prediction],
            "uncertainty": uncertainty,
            "accept": self.policy.accepts(uncertainty),
        }

    def counts(self, columns: Columns) -> Mapping[str, np.ndarray]:
        """Return the number of accepted rows, and what the drift check needs."""
        return {
            "accepted": np.array([columns["accept"].sum()]),
            "drift": self.policy.drift_counts(columns["uncertainty"]),
        }


@validate.takes_options_of(read_predictions)
def apply_to_dataset(
    policy: Policy,
    dataset: str | os.PathLike[str] | Dataset,
    out: str | os.PathLike[str],
    *,
    false_alarm_rate: float = 0.05,
    normalize: bool = False,
    scheduler: Scheduler = "local",
    on_bad_rows: str = "fail",
    restart: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **reading: Any,
) -> AppliedDataset:
    """Write which rows of a folder of Parquet files a policy accepts, and return a summary.

    Use it where :meth:`scorewise.abstain.Policy.apply` takes too long or needs too much memory.
    Decisions are the same, and so is the check for drift, over the rows of all files together.

    Parameters
    ----------
    policy : Policy
        Made by :func:`scorewise.certify`, or read by :func:`scorewise.load_policy`.
    dataset : str, path or Dataset
        As for :func:`scorewise.scale.score_dataset`.
    out : str or path
        As for :func:`scorewise.scale.score_dataset`. Columns are ``id``, or ``partition`` and
        ``row``, and ``prediction``, ``uncertainty`` and ``accept``.
    false_alarm_rate : float
        How often unchanged inputs may be reported as changed.
    normalize : bool
        Rescale probabilities to sum to 1.
    scheduler, on_bad_rows, restart, storage_options, progress, **reading
        As for :func:`scorewise.scale.score_dataset`.

    Returns
    -------
    AppliedDataset

    Raises
    ------
    InvalidInput
        If members, classes or dtype are not those that the policy was certified for, and as for
        :func:`scorewise.scale.score_dataset`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import apply_to_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> probs = sw.binary(np.repeat([0.05, 0.4], 100))[:, None]
    >>> policy = sw.certify(probs, np.r_[np.zeros(100, int), np.arange(100) % 2], max_loss=0.1)
    >>> (folder / "new").mkdir()
    >>> for name in ("monday", "tuesday"):
    ...     sw.write_predictions(folder / "new" / f"{name}.parquet", probs)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     applied = apply_to_dataset(policy, folder / "new", folder / "out", scheduler=client)
    >>> applied.n_accepted, applied.n_rows
    (200, 400)
    """
    if not isinstance(policy, Policy):
        raise InvalidInput(
            f"policy must be a Policy, not {quoted(policy)}; scorewise.load_policy reads one from "
            "a file"
        )
    validate.proportion(false_alarm_rate, "false_alarm_rate")
    source = Dataset.of(dataset, storage_options=storage_options, **reading)
    policy.check_predictions(source.empty(1))
    written = write_partitions(
        source,
        PolicyWork(policy, normalize),
        out,
        scheduler=scheduler,
        on_bad_rows=on_bad_rows,
        restart=restart,
        storage_options=storage_options,
        task="apply",
        progress=progress,
    )
    if not written.n_rows and not written.quarantined:
        raise InvalidInput("there are no rows to decide about")
    uncertainty, drift = written.summary["uncertainty"], None
    if written.n_rows:
        counts = written.counts["drift"]
        drift = policy.drift_from_counts(counts, uncertainty.mean, false_alarm_rate)
    return AppliedDataset(
        **written.shared(),
        n_accepted=int(written.counts.get("accepted", np.zeros(1))[0]),
        drift=drift,
        uncertainty=uncertainty,
    )
