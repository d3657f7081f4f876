"""The uncertainty of every row of a data set, computed on a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scorewise import _validate as validate
from scorewise._notebook import TextInNotebooks
from scorewise._text import aligned, counted
from scorewise.io import RowScores, read_predictions
from scorewise.rules import RuleLike, get_rules
from scorewise.scale._cluster import Scheduler
from scorewise.scale._dataset import Dataset
from scorewise.scale._job import OutputFolder, write_partitions
from scorewise.scale._summary import ColumnSummary, summary_table


@dataclass(frozen=True, repr=False)
class ScoredDataset(OutputFolder, TextInNotebooks):
    """The folder written by :func:`scorewise.scale.score_dataset`.

    Attributes
    ----------
    path : str
        Of the folder.
    n_rows : int
        Number of rows that were scored.
    n_partitions : int
    resumed : int
        Number of partitions that were scored by an earlier, interrupted run.
    columns : tuple of str
    quarantined : list of dict
        For each partition with rows that are set aside: ``partition``, ``input``, ``rows``, and
        ``file``, ``reasons``, ``unread`` or ``reason``, as in
        :class:`scorewise.scale.WrittenPartitions`.
    summary : dict of str to ColumnSummary
        For each column of scores: mean, quantiles, …

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import score_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> sw.write_predictions(folder / "in/a.parquet", probs)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     scored = score_dataset(folder / "in", "log", folder / "out", scheduler=client)
    >>> scored.n_rows, scored.columns[-1], scored.quarantined
    (200, 'epistemic_log', [])
    >>> round(scored.summary["total_log"].mean, 3)
    0.555
    """

    summary: dict[str, ColumnSummary]

    def __repr__(self) -> str:
        lines = [f"{self.size_text()} scored, in {self.path}"]
        if self.resumed:
            lines.append(self.resumed_text())
        return "\n".join([*lines, *self.quarantine_lines(), aligned(self.table())])

    def resumed_text(self) -> str:
        """Return how many files an earlier run has scored, without a full stop."""
        were = "was" if self.resumed == 1 else "were"
        return f"{counted(self.resumed, 'file')} {were} scored by an earlier run"

    def table(self) -> list[list[str]]:
        """Return means and quantiles of the columns of scores as text, with a heading."""
        return summary_table(self.summary)


@validate.takes_options_of(read_predictions)
def score_dataset(
    dataset: str | os.PathLike[str] | Dataset,
    rules: RuleLike | Iterable[RuleLike] | Mapping[str, RuleLike],
    out: str | os.PathLike[str],
    *,
    scheduler: Scheduler = "local",
    calibration: Any = None,
    normalize: bool = False,
    on_bad_rows: str = "fail",
    restart: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **reading: Any,
) -> ScoredDataset:
    """Write the uncertainty of every row of a folder of Parquet files, and return a summary.

    Use it where :func:`scorewise.score_file` takes too long on one machine. Scores are the same.
    Each file is a partition, for which one file is written. If anything dies, repeat the call:
    finished partitions are not computed again, and the folder is the same in the end, byte for
    byte.

    Parameters
    ----------
    dataset : str, path or Dataset
        A folder of Parquet files, or an address of one on any filesystem of ``fsspec``, such as
        ``s3://bucket/folder``, that all workers can read.
    rules : str, ScoringRule, or several in a list or a mapping
        As for :func:`scorewise.decompose`.
    out : str or path
        A new or empty folder, or an address, that all workers can write to. The scores of the file
        17 are in ``part-00017.parquet``. Its columns are ``id``, or ``partition`` and ``row`` where
        the input has no ids, and one for each rule and component, such as ``total_log``. The
        summary is in ``_manifest/summary.json``.
    scheduler : str or distributed.Client
        ``"local"`` for a process on each processor, ``"local:N"`` for N processes, the address of
        a Dask scheduler such as ``"tcp://HOST:8786"``, or a client.
    calibration : Calibration, optional
        Made by :func:`scorewise.fit_calibration`; the members are transformed by it first.
    normalize : bool
        Rescale probabilities to sum to 1.
    on_bad_rows : {"fail", "quarantine"}
        What to do about rows that are not probabilities and files that cannot be read. ``"fail"``
        stops and names the file, the row and the reason; what is finished stays. ``"quarantine"``
        writes such rows to ``_quarantine/part-00017.parquet``, with a column ``reason``, and
        scores the others. Of a damaged file, the row groups that can be read are scored.
    restart : bool
        Remove the outputs of an earlier run in the folder first.
    storage_options : dict, optional
        Options of the filesystem of both folders, such as credentials.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **reading
        As for :func:`scorewise.read_predictions`: ``class_names``, ``ids``, …

    Returns
    -------
    ScoredDataset

    Raises
    ------
    InvalidInput
        If the input is invalid; the message names file, row group, row and member. If the folder
        ``out`` has files that scorewise did not put there, was written with other settings, or is
        being written to by another run; nothing in it is changed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import score_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "predictions").mkdir()
    >>> rng = np.random.default_rng(0)
    >>> for name in ("monday", "tuesday"):
    ...     probs = rng.dirichlet(np.ones(3), size=(100, 5))
    ...     sw.write_predictions(folder / "predictions" / f"{name}.parquet", probs)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     scored = score_dataset(
    ...         folder / "predictions", "zero-one", folder / "scores", scheduler=client
    ...     )
    >>> scored.n_rows, scored.n_partitions
    (200, 2)
    >>> scored.columns
    ('partition', 'row', 'total_zero-one', 'aleatoric_zero-one', 'epistemic_zero-one')
    """
    source = Dataset.of(dataset, storage_options=storage_options, **reading)
    scores = RowScores(get_rules(rules), normalize, calibration)
    scores.check_classes(source.empty())
    written = write_partitions(
        source,
        scores,
        out,
        scheduler=scheduler,
        on_bad_rows=on_bad_rows,
        restart=restart,
        resumable=scores.has_settings,
        storage_options=storage_options,
        task="score",
        progress=progress,
    )
    return ScoredDataset(**written.shared(), summary=written.summary)
