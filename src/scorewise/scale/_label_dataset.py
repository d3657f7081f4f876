"""Rows to label next, chosen from a folder of predictions by the workers of a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._fields import UNLABELLED
from scorewise._numerics import ten_digits
from scorewise._progress import bar
from scorewise._random import seed_of
from scorewise.acquire import Preference, check_batch_size
from scorewise.decompose import COMPONENTS
from scorewise.errors import InvalidInput, Remedy
from scorewise.io import RowScores, read_predictions, row_uncertainties
from scorewise.rules import RuleLike, ScoringRule, get_rule, get_rules
from scorewise.scale._acquire import TIES, BestRows, gumbel_noise, merge_best, random_words
from scorewise.scale._cluster import Scheduler, cluster
from scorewise.scale._dataset import Dataset, Partition
from scorewise.scale._job import map_in_order
from scorewise.scale._labels import suggesting_quarantine
from scorewise.scale._quarantine import LeftOut, Quarantine

# a row of a data set
_ROW = np.dtype([("partition", np.int64), ("row", np.int64), ("score", np.float64), ("id", object)])


@dataclass(frozen=True, eq=False)
class RowsToLabel:
    """Rows of a data set to label next; made by :func:`label_dataset`.

    Attributes
    ----------
    partitions : integer array (n,)
        Numbers of the files.
    files : tuple of str
        Names of the files, one for each row.
    rows : integer array (n,)
        Numbers of the rows in their files.
    ids : array (n,) or None
    scores : array (n,)
    score_name : str
        Such as ``"epistemic_zero-one"``.
    n_rows : int
        Number of valid rows of the data set.
    n_labelled : int
        How many of them have a label and were left out.
    n_left_out, n_files_left_out : int
        Number of invalid rows, and of files that cannot be read, that were set aside.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import label_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> sw.write_predictions(folder / "in/a.parquet", probs)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     chosen = label_dataset(folder / "in", 2, "log", random_state=0, scheduler=client)
    >>> chosen.files, chosen.rows < 100, chosen.score_name
    (('a.parquet', 'a.parquet'), array([ True,  True]), 'epistemic_log')
    >>> list(chosen.columns())
    ['partition', 'file', 'row', 'epistemic_log']
    """

    partitions: np.ndarray
    files: tuple[str, ...]
    rows: np.ndarray
    ids: np.ndarray | None
    scores: np.ndarray
    score_name: str
    n_rows: int
    n_labelled: int
    n_left_out: int = 0
    n_files_left_out: int = 0

    def columns(self) -> dict[str, Any]:
        """Return the columns of a table of these rows."""
        ids = {} if self.ids is None else {"id": self.ids}
        where = {"partition": self.partitions, "file": np.array(self.files), "row": self.rows}
        return {**where, **ids, self.score_name: self.scores}


@validate.takes_options_of(read_predictions)
def label_dataset(
    dataset: str | os.PathLike[str] | Dataset,
    n: int,
    rule: RuleLike = "zero-one",
    *,
    component: str = "epistemic",
    method: str = "top",
    random_state: Any = None,
    coldness: float = 1.0,
    scheduler: Scheduler = "local",
    normalize: bool = False,
    on_bad_rows: str = "fail",
    quarantine: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **reading: Any,
) -> RowsToLabel:
    """Return the rows of a folder of Parquet files to label next, chosen on a cluster.

    Use it for a pool that is larger than one machine. Each file is scored by a worker, which
    returns its n best rows. The chances are those of :func:`scorewise.acquire`. The rows depend on
    the seed, and not on the workers.

    Parameters
    ----------
    dataset : str, path or Dataset
        A folder of Parquet files, or an address of one that all workers can read. If some rows
        have a label and others have none, only the others are chosen.
    n : int
        Number of rows to choose.
    rule : rule
        As for :func:`scorewise.decompose`.
    component : {"total", "aleatoric", "epistemic"}
    method : "top", "power", "softmax" or "random"
        As for :func:`scorewise.acquire`. ``"softrank"`` needs the ranks among all rows.
    random_state : int, RandomState or Generator, optional
    coldness : float
    scheduler : str or distributed.Client
        As for :func:`scorewise.scale.cluster`.
    normalize : bool
        Rescale probabilities to sum to 1.
    on_bad_rows : {"fail", "quarantine"}
        Whether the first invalid row stops the run, or all of them are written to the folder
        ``quarantine``, with reasons, and left out. That takes a pass over all rows before.
    quarantine : str or path, optional
        A folder for invalid rows, new or from such passes, for ``"quarantine"``. It has a folder
        for each check of a data set, which is not repeated.
    storage_options : dict, optional
        Options of the filesystem.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **reading
        As for :func:`scorewise.read_predictions`.

    Returns
    -------
    RowsToLabel
        In the order of choice.

    Raises
    ------
    InvalidInput
        If a row is invalid, unless such rows are set aside, or fewer than n rows have no label.
        Messages name file and row.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import label_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rng = np.random.default_rng(0)
    >>> for name in ("monday", "tuesday"):
    ...     sw.write_predictions(folder / f"{name}.parquet", rng.dirichlet(np.ones(3), (100, 5)))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     chosen = label_dataset(folder, 3, random_state=0, scheduler=client)
    >>> chosen.files
    ('tuesday.parquet', 'tuesday.parquet', 'tuesday.parquet')
    """
    source = Dataset.of(dataset, storage_options=storage_options, **reading)
    validate.choice(component, "component", COMPONENTS)
    preference = Preference.of(method, coldness)
    n = validate.whole(n, "n", at_least=1)
    if method == "softrank":
        raise InvalidInput(
            "softrank needs the rank of each score among those of all files",
            Remedy("method", "power", "for weights that are powers of the scores"),
        )
    one_rule, [name] = get_rule(rule), get_rules(rule)
    RowScores({name: one_rule}, normalize).check_classes(source.empty())
    if source.members_and_classes[0] == 1 and component == "epistemic":
        raise InvalidInput(
            "there is one member, so the epistemic uncertainty of every row is 0",
            Remedy("component", "total", "for that of single predictions"),
        )
    request = _Request(
        source.for_workers(), one_rule, component, normalize, preference, n, seed_of(random_state)
    )
    parts: list[_PartitionRows] = []
    bad_rows = Quarantine.of(on_bad_rows, quarantine, storage_options, progress)
    with cluster(scheduler) as client:
        source, left_out = bad_rows.valid_rows(
            client,
            source,
            normalize=normalize,
            fields=frozenset({"labels", "ids"}),
            is_labelled=False,
        )
        with (
            bar("label: partitions", len(source.partitions), progress) as advance,
            closing(
                map_in_order(
                    client,
                    _best_of_partition,
                    source.partitions,
                    request,
                    task="label",
                    on_done=lambda: advance(1),
                )
            ) as results,
        ):
            for _, part in results:
                if isinstance(part, InvalidInput):
                    raise part
                parts = [_PartitionRows.merged([*parts, part], request)]
    score_name = f"{component}_{name}"
    return _chosen(parts[0], source, n, preference, score_name, left_out)


def _chosen(
    best: _PartitionRows,
    source: Dataset,
    n: int,
    preference: Preference,
    score_name: str,
    left_out: LeftOut,
) -> RowsToLabel:
    is_pool = 0 < best.n_labelled < best.n_rows  # otherwise labels are no reason to leave out rows
    n_labelled = best.n_labelled if is_pool else 0
    check_batch_size(n, best.n_rows - n_labelled)
    candidates = best.unlabelled if is_pool else best.all
    preference.check(candidates.smallest)
    rows = candidates.rows
    names = {partition.number: partition.name for partition in source.partitions}
    return RowsToLabel(
        rows["partition"],
        tuple(names[i] for i in rows["partition"].tolist()),
        rows["row"],
        np.array(rows["id"].tolist()) if "ids" in source.fields else None,
        rows["score"],
        score_name,
        best.n_rows,
        n_labelled,
        left_out.n_rows,
        left_out.n_files,
    )


@dataclass(frozen=True)
class _Request:
    """What every partition needs to choose its best rows."""

    dataset: Dataset
    rule: ScoringRule
    component: str
    normalize: bool
    preference: Preference
    n: int
    seed: int


@dataclass(frozen=True)
class _PartitionRows:
    """The best rows of some partitions, among all rows and among those without a label."""

    n_rows: int
    n_labelled: int
    all: BestRows
    unlabelled: BestRows

    @classmethod
    def merged(cls, parts: list[_PartitionRows], request: _Request) -> _PartitionRows:
        """Return the best rows of all parts."""
        return cls(
            sum(part.n_rows for part in parts),
            sum(part.n_labelled for part in parts),
            merge_best([part.all for part in parts], request.n, request.preference),
            merge_best([part.unlabelled for part in parts], request.n, request.preference),
        )


def _best_of_partition(partition: Partition, request: _Request) -> _PartitionRows | InvalidInput:
    """Return the best rows of a partition; or its error, as it would be the same another time."""
    try:
        with suggesting_quarantine():
            predictions = request.dataset.read(partition)
            n_rows = len(predictions)
            scores = np.zeros(0)
            if n_rows:
                scores = row_uncertainties(
                    predictions,
                    request.rule,
                    request.component,
                    normalize=request.normalize,
                    progress=False,
                )
            labels, ids = predictions.labels, predictions.ids
    except InvalidInput as error:
        return error
    rows = np.empty(n_rows, _ROW)
    rows["partition"], rows["score"] = partition.number, scores
    rows["row"] = partition.row_numbers(n_rows)
    rows["id"] = None if ids is None else ids
    has_label = np.zeros(n_rows, bool) if labels is None else labels != UNLABELLED
    # to ten digits, so that rows which differ by rounding alone are tied
    keys = ten_digits(scores)
    own_seed = request.seed, partition.number
    noise = gumbel_noise(own_seed, 0, n_rows)
    ties = random_words(own_seed, TIES, 0, n_rows)

    def best(among: np.ndarray) -> BestRows:
        some = BestRows.of(rows[among], keys[among], noise[among], ties[among])
        return some.best(request.n, request.preference)

    return _PartitionRows(
        n_rows, int(has_label.sum()), best(np.ones(n_rows, bool)), best(~has_label)
    )
