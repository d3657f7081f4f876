"""Evaluate and compare predictions in Dask arrays, and in folders of Parquet files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise.compare import (
    BootstrapSettings,
    Comparison,
    Evaluation,
    Note,
    Rules,
    advise,
    learning_of,
    refuse_unused,
)
from scorewise.decompose import COMPONENTS
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.io import read_predictions
from scorewise.rules import DEFAULT_RULES, RuleLike
from scorewise.scale._blocks import RowBlocks
from scorewise.scale._cluster import Scheduler, cluster
from scorewise.scale._dataset import Dataset
from scorewise.scale._quarantine import Quarantine
from scorewise.scale._ranks import N_BINS
from scorewise.scale._tree import SPLIT_EVERY
from scorewise.scale._two_passes import (
    SAMPLE_SIZE,
    Precision,
    compare_blocks,
    compare_ood_blocks,
    evaluate_blocks,
)


@validate.takes_options_of(Samples)
def compare(
    probs: Any,
    y: Any = None,
    task: str = "selective",
    task_loss: RuleLike = "zero-one",
    *,
    rules: Rules = DEFAULT_RULES,
    components: str | Sequence[str] = COMPONENTS,
    ood: Any = None,
    scores: Mapping[str, Any] | None = None,
    runs: None = None,
    baselines: bool = True,
    floor: float | None = None,
    labels_are: str | None = None,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    random_state: Any = None,
    progress: bool | None = None,
    n_bins: int = N_BINS,
    max_certification_rows: int = SAMPLE_SIZE,
    split_every: int = SPLIT_EVERY,
    **options: Any,
) -> Comparison:
    """Return uncertainty measures ranked for a task, for predictions in a Dask array.

    :func:`scorewise.compare` calls it for Dask arrays; call it to set the precision. The numbers
    are those of rows in memory as long as no measure has more than ``n_bins`` distinct scores. Of
    more, nearly equal scores count as tied, and ``error_bound`` of the result states by how much
    the metric of any measure can differ.

    Parameters
    ----------
    probs : Dask array (n, M, K)
        Predictions, in blocks of rows.
    y : Dask or NumPy array (n,)
        Labels, for the task ``"selective"``.
    task, task_loss, rules, components
        As for :func:`scorewise.compare`.
    ood : Dask array (m, M, K)
        Predictions of out-of-distribution rows, for the task ``"ood"``.
    scores : mapping of str to array (n,), optional
        Your own scores, of Dask or of NumPy; for ``"ood"`` pairs of arrays (n,) and (m,).
    runs : None
        Runs of active learning are compared in memory.
    baselines, floor, labels_are, confidence, n_resamples, random_state, progress
        As for :func:`scorewise.compare`.
    n_bins : int
        The largest number of distinct scores that are distinguished, per measure.
    max_certification_rows : int
        The largest number of rows in samples for figures.
    split_every : int
        How many results are merged at a time.
    **options
        Those of :class:`scorewise.Samples`.

    Returns
    -------
    Comparison

    Raises
    ------
    InvalidInput
        If an argument that the task needs is missing, or arguments do not fit each other.

    Examples
    --------
    >>> import dask.array as da, numpy as np, scorewise as sw
    >>> from scorewise import scale
    >>> probs = np.random.default_rng(0).dirichlet([1, 1], size=(50, 3))
    >>> lazy = da.from_array(probs, chunks=(20, 3, 2))
    >>> comparison = scale.compare(lazy, [0] * 50, rules=["log"], baselines=False)
    >>> comparison.best == sw.compare(probs, [0] * 50, rules=["log"], baselines=False).best
    True
    """
    advice = advise(task, task_loss)
    task = advice.task
    if task == "active" or runs is not None:
        raise InvalidInput("active learning is compared by repeated runs, not by a Dask array")
    refuse_unused(task, **({"floor": floor} if task == "ood" else {"ood": ood}))
    bootstrap = BootstrapSettings.of(confidence, n_resamples, random_state, progress)
    precision = Precision.of(n_bins, max_certification_rows, split_every)
    names = [components] if isinstance(components, str) else list(dict.fromkeys(components))
    chosen: dict[str, Any] = {
        "components": names,
        "baselines": baselines,
        "own": list(scores or {}),
    }
    if task == "ood":
        scores_in, scores_out = _of_both_sets(scores)
        blocks_in = RowBlocks.of(probs, "probs", options, scores=scores_in)
        blocks_out = RowBlocks.of(ood, "ood", _options_of_ood(ood, options), scores=scores_out)
        return compare_ood_blocks(blocks_in, blocks_out, rules, bootstrap, precision, **chosen)
    if y is None:
        raise InvalidInput("task='selective' needs labels", Remedy("y", ..., "those of the rows"))
    blocks = RowBlocks.of(probs, "probs", options, y=y, labels_are=labels_are, scores=scores)
    return compare_blocks(blocks, task_loss, rules, floor, bootstrap, precision, **chosen)


def _of_both_sets(scores: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the user's scores of in-distribution rows, and those of OOD rows."""
    for name, pair in (scores or {}).items():
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InvalidInput(
                f"scores[{name!r}] must be a pair: the scores of in-distribution rows, and those "
                "of out-of-distribution rows"
            )
    first, second = ({name: pair[i] for name, pair in (scores or {}).items()} for i in (0, 1))
    return first, second


def _options_of_ood(ood: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of out-of-distribution rows; Samples have weights of their own."""
    if isinstance(ood, Samples):
        return {name: value for name, value in options.items() if name == "class_names"}
    if np.ndim(options.get("weights", 0)) == 2:
        remedy = Remedy("ood", ..., "as Samples with weights of their own")
        raise InvalidInput("weights are those of the in-distribution rows", remedy)
    return options


@validate.takes_options_of(Samples)
def evaluate(
    predictions: Any,
    y: Any = None,
    *,
    ood: Any = None,
    task_loss: RuleLike = "zero-one",
    rules: Rules = DEFAULT_RULES,
    max_loss: float | Sequence[float] | None = None,
    confidence: float = 0.95,
    floor: float | None = None,
    loss_bound: float | None = None,
    runs: Mapping[str, Any] | None = None,
    ids: Any = None,
    labels_are: str | None = None,
    n_uncertain: int = 10,
    n_resamples: int = 2000,
    random_state: Any = 0,
    progress: bool | None = None,
    n_bins: int = N_BINS,
    max_certification_rows: int = SAMPLE_SIZE,
    split_every: int = SPLIT_EVERY,
    **options: Any,
) -> Evaluation:
    """Return an evaluation of labelled predictions in a Dask array.

    :func:`scorewise.evaluate` calls it for Dask arrays; call it to set the precision. The numbers
    are those of rows in memory as long as no measure has more than ``n_bins`` distinct scores and
    there are at most ``max_certification_rows`` rows. Otherwise ``notes`` of the result state what
    was computed from groups or from a sample, and ``aulc_error`` of a curve how exact its area is.

    Each block is decomposed once. Between the passes some eight bytes per row and measure stay on
    the workers, 150 bytes per row by default.

    Parameters
    ----------
    predictions : Dask array (n, M, K)
        Predictions, in blocks of rows.
    y : Dask or NumPy array (n,)
        Labels.
    ood : Dask array (m, M, K), optional
        Predictions of out-of-distribution rows.
    task_loss, rules, max_loss, confidence, floor, loss_bound, runs
        As for :func:`scorewise.evaluate`.
    ids : Dask or NumPy array (n,), optional
        Names of the rows.
    labels_are, n_uncertain, n_resamples, random_state, progress
        As for :func:`scorewise.evaluate`.
    n_bins : int
        The largest number of distinct scores that are distinguished, per measure.
    max_certification_rows : int
        Of more rows, certificates are computed from a uniform random sample of this size, from
        which they are valid too; so are the uncertainties that figures show.
    split_every : int
        How many results are merged at a time.
    **options
        Those of :class:`scorewise.Samples`.

    Returns
    -------
    Evaluation
        Its ``uncertainty``, ``ood.u_in`` and ``ood.u_out`` are those of the sample.

    Raises
    ------
    InvalidInput
        If labels are missing, or arguments do not fit each other.

    Examples
    --------
    >>> import dask.array as da, numpy as np, scorewise as sw
    >>> from scorewise import scale
    >>> probs = da.random.default_rng(0).uniform(size=(400, 5, 3), chunks=(100, 5, 3))
    >>> y = np.arange(400) % 3
    >>> evaluation = scale.evaluate(probs, y, normalize=True, n_resamples=200)
    >>> evaluation.n_rows, evaluation.curves["total log"].aulc_error
    (400, 0.0)
    """
    bootstrap = BootstrapSettings.of(confidence, n_resamples, random_state, progress)
    precision = Precision.of(n_bins, max_certification_rows, split_every)
    learning = learning_of(runs, task_loss, bootstrap.confidence)
    if y is None:
        raise InvalidInput("the predictions have no labels", Remedy("y", ..., "labels of the rows"))
    blocks = RowBlocks.of(predictions, "predictions", options, y=y, ids=ids, labels_are=labels_are)
    blocks_out = None
    if ood is not None:
        blocks_out = RowBlocks.of(ood, "ood", _options_of_ood(ood, options))
    return replace(
        evaluate_blocks(
            blocks,
            blocks_out,
            task_loss,
            rules,
            bootstrap,
            precision,
            max_loss=max_loss,
            floor=floor,
            loss_bound=loss_bound,
            n_uncertain=validate.whole(n_uncertain, "n_uncertain", at_least=0),
        ),
        learning=learning,
    )


@validate.takes_options_of(read_predictions)
def compare_dataset(
    dataset: str | os.PathLike[str] | Dataset,
    task: str = "selective",
    task_loss: RuleLike = "zero-one",
    *,
    ood: str | os.PathLike[str] | Dataset | None = None,
    scheduler: Scheduler = "local",
    rules: Rules = DEFAULT_RULES,
    components: str | Sequence[str] = COMPONENTS,
    baselines: bool = True,
    floor: float | None = None,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    random_state: Any = None,
    normalize: bool = False,
    on_bad_rows: str = "fail",
    quarantine: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    n_bins: int = N_BINS,
    **reading: Any,
) -> Comparison:
    """Return uncertainty measures ranked for a task, for a folder of Parquet files.

    Use it where :func:`scorewise.compare` takes too long, or too much memory, on one machine.

    Parameters
    ----------
    dataset : str, path or Dataset
        A folder of Parquet files with predictions, local or at any address of ``fsspec``; for
        ``"selective"`` with labels.
    task, task_loss
        As for :func:`scorewise.compare`.
    ood : str, path or Dataset, optional
        Such a folder of out-of-distribution rows, for ``"ood"``.
    scheduler : str or distributed.Client
        As for :func:`scorewise.scale.cluster`.
    rules, components, baselines, floor, confidence, n_resamples, random_state
        As for :func:`scorewise.compare`.
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
    n_bins : int
        The largest number of distinct scores that are distinguished, per measure; of more, nearly
        equal ones count as tied.
    **reading
        As for :func:`scorewise.read_predictions`: ``labels``, ``class_names``, …

    Returns
    -------
    Comparison

    Raises
    ------
    InvalidInput
        If a row is invalid, unless such rows are set aside, with the name of the file, or
        arguments do not fit each other.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import compare_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> sw.write_predictions(folder / "in/a.parquet", probs, labels=y)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     comparison = compare_dataset(folder / "in", rules="log", scheduler=client)
    >>> comparison.best, comparison["epistemic log"].verdict
    ('total zero-one', 'worse')
    """
    advice = advise(task, task_loss)
    if advice.task == "active":
        raise InvalidInput("active learning is compared by repeated runs, not by predictions")
    if (advice.task == "ood") != (ood is not None):
        raise InvalidInput("task='ood' and predictions for out-of-distribution rows go together")
    bootstrap = BootstrapSettings.of(confidence, n_resamples, random_state, progress)
    precision = Precision.of(n_bins, SAMPLE_SIZE, SPLIT_EVERY)
    names = [components] if isinstance(components, str) else list(dict.fromkeys(components))
    chosen: dict[str, Any] = {"components": names, "baselines": baselines}
    datasets = _datasets(dataset, ood, storage_options, reading)
    bad_rows = Quarantine.of(on_bad_rows, quarantine, storage_options, progress)
    with cluster(scheduler) as client, client.as_current():
        fields = frozenset({"labels"} if ood is None else ())
        blocks, blocks_out, remarks = _valid_blocks(
            client, *datasets, bad_rows, normalize=normalize, fields=fields
        )
        if blocks_out is None:
            comparison = compare_blocks(
                blocks, task_loss, rules, floor, bootstrap, precision, **chosen
            )
        else:
            comparison = compare_ood_blocks(
                blocks, blocks_out, rules, bootstrap, precision, **chosen
            )
    return replace(comparison, remarks=(*comparison.remarks, *remarks))


@validate.takes_options_of(read_predictions)
def evaluate_dataset(
    dataset: str | os.PathLike[str] | Dataset,
    *,
    ood: str | os.PathLike[str] | Dataset | None = None,
    scheduler: Scheduler = "local",
    task_loss: RuleLike = "zero-one",
    rules: Rules = DEFAULT_RULES,
    max_loss: float | Sequence[float] | None = None,
    confidence: float = 0.95,
    floor: float | None = None,
    loss_bound: float | None = None,
    n_uncertain: int = 10,
    n_resamples: int = 2000,
    random_state: Any = 0,
    normalize: bool = False,
    on_bad_rows: str = "fail",
    quarantine: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    n_bins: int = N_BINS,
    max_certification_rows: int = SAMPLE_SIZE,
    **reading: Any,
) -> Evaluation:
    """Return an evaluation of the labelled predictions in a folder of Parquet files.

    Use it where :func:`scorewise.evaluate` takes too long, or too much memory, on one machine.

    Parameters
    ----------
    dataset : str, path or Dataset
        A folder of Parquet files with labelled predictions, local or at any address of ``fsspec``.
    ood : str, path or Dataset, optional
        Such a folder of out-of-distribution rows.
    scheduler : str or distributed.Client
        As for :func:`scorewise.scale.cluster`.
    task_loss, rules, max_loss, confidence, floor, loss_bound
        As for :func:`scorewise.evaluate`.
    n_uncertain, n_resamples, random_state
        As for :func:`scorewise.evaluate`.
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
    n_bins : int
        The largest number of distinct scores that are distinguished, per measure; of more, nearly
        equal ones count as tied.
    max_certification_rows : int
        Of more rows, certificates are computed from a uniform random sample of this size, from
        which they are valid too; so are the uncertainties that figures show.
    **reading
        As for :func:`scorewise.read_predictions`: ``labels``, ``class_names``, …

    Returns
    -------
    Evaluation

    Raises
    ------
    InvalidInput
        If a row is invalid, unless such rows are set aside, with the name of the file, or
        arguments do not fit each other.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import evaluate_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> sw.write_predictions(folder / "in/a.parquet", probs, labels=y)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     evaluation = evaluate_dataset(folder / "in", scheduler=client)
    >>> evaluation.n_rows, evaluation.loss
    (200, 0.25)
    >>> print(evaluation.verdict.abstain)
    If the model passes on the 50 % of cases it is least sure of, 0 % of the rest are wrong instead
    of 25 %; on new cases like these at most 5 % of the answers will be wrong, with 95 % confidence.
    """
    bootstrap = BootstrapSettings.of(confidence, n_resamples, random_state, progress)
    precision = Precision.of(n_bins, max_certification_rows, SPLIT_EVERY)
    n_uncertain = validate.whole(n_uncertain, "n_uncertain", at_least=0)
    datasets = _datasets(dataset, ood, storage_options, reading)
    bad_rows = Quarantine.of(on_bad_rows, quarantine, storage_options, progress)
    with cluster(scheduler) as client, client.as_current():
        blocks, blocks_out, remarks = _valid_blocks(
            client, *datasets, bad_rows, normalize=normalize, fields=frozenset({"labels", "ids"})
        )
        evaluation = evaluate_blocks(
            blocks,
            blocks_out,
            task_loss,
            rules,
            bootstrap,
            precision,
            max_loss=max_loss,
            floor=floor,
            loss_bound=loss_bound,
            n_uncertain=n_uncertain,
        )
    notes = [Note(remark.removesuffix(".")) for remark in remarks]
    return replace(evaluation, notes=(*evaluation.notes, *notes))


def _valid_blocks(
    client: Any,
    rows: Dataset,
    rows_out: Dataset | None,
    bad_rows: Quarantine,
    *,
    normalize: bool,
    fields: frozenset[str],
) -> tuple[RowBlocks, RowBlocks | None, tuple[str, ...]]:
    """Return the blocks of one or two data sets, and what is said of rows that are left out.

    ``fields`` of the first are read; of the second only the members.
    """

    def blocks_of(
        dataset: Dataset, name: str, fields: frozenset[str]
    ) -> tuple[RowBlocks, tuple[str, ...]]:
        valid, left_out = bad_rows.valid_rows(
            client, dataset, normalize=normalize, fields=fields, is_labelled="labels" in fields
        )
        blocks = RowBlocks.of_dataset(valid, name, normalize=normalize, fields=fields)
        return blocks, left_out.remarks

    blocks, remarks = blocks_of(rows, "predictions", fields)
    if rows_out is None:
        return blocks, None, remarks
    blocks_out, more = blocks_of(rows_out, "ood", frozenset())
    return blocks, blocks_out, tuple(dict.fromkeys((*remarks, *more)))


def _datasets(
    dataset: Any, ood: Any, storage_options: Mapping[str, Any] | None, reading: dict[str, Any]
) -> tuple[Dataset, Dataset | None]:
    """Return the data sets at two addresses; of the optional second, labels are not read."""
    options = {"storage_options": storage_options, **reading}
    rows = Dataset.of(dataset, **{} if isinstance(dataset, Dataset) else options)
    if ood is None or isinstance(ood, Dataset):
        return rows, ood
    return rows, Dataset.of(ood, **options | {"labels": None, "ids": None})
