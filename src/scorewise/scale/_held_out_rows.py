"""Calibrations and policies from the labelled rows of a data set, read on a cluster.

Both come from a few numbers per row, which the client gathers. Where there are more rows than help,
it gathers those of a uniform random sample. A guarantee from such a sample is as valid as one from
all rows, since rows of the sample are independent draws too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._inputs import StoredAs
from scorewise._losses import mean_in_float64
from scorewise._numerics import evenly_spaced
from scorewise._progress import bar
from scorewise._random import seed_of
from scorewise._rows import LabelAgreement, LabelledSamples
from scorewise._version import __version__
from scorewise.abstain import (
    Policy,
    certify_rows,
    check_calibration,
    check_other_rows,
    numbers_to_certify,
    warn_if_too_few_rows,
)
from scorewise.calibrate import Calibration, fit_mean_calibration, n_rows_to_try, warn_if_unrelated
from scorewise.decompose import COMPONENTS
from scorewise.errors import InvalidInput
from scorewise.io import read_predictions
from scorewise.rules import RuleLike, ScoringRule, get_rule
from scorewise.scale._cluster import Scheduler, cluster
from scorewise.scale._dataset import Dataset, Partition
from scorewise.scale._job import map_in_order
from scorewise.scale._labels import check_numbering, sample_chunks
from scorewise.scale._quarantine import Quarantine
from scorewise.scale._sample import RowSample

_MOST_CERTIFIED = 1_000_000  # rows, of two numbers each
_MOST_CALIBRATED = 100_000  # rows, of K numbers each
_MOST_NUMBERS = 1 << 26  # of mean predictions
_MOST_TRIED_FILES = 20  # of which the share of mixed rows is taken
_LABELS = frozenset({"labels"})
_ROWS = 1 << 40  # more than a partition has; keys of rows are numbers of all partitions

RowNumbers = Callable[[LabelledSamples], dict[str, np.ndarray]]


@validate.takes_options_of(read_predictions)
def certify_dataset(
    dataset: str | os.PathLike[str] | Dataset,
    *,
    max_loss: float,
    confidence: float = 0.95,
    task_loss: RuleLike = "zero-one",
    component: str = "total",
    floor: float | None = None,
    loss_bound: float | None = None,
    calibration: Calibration | None = None,
    normalize: bool = False,
    max_rows: int = _MOST_CERTIFIED,
    random_state: Any = 0,
    scheduler: Scheduler = "local",
    on_bad_rows: str = "fail",
    quarantine: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **reading: Any,
) -> Policy:
    """Return a policy that is certified on the labelled rows of a folder of Parquet files.

    Use it where :func:`scorewise.certify` takes too long on one machine, or memory is short. Up to
    ``max_rows`` rows give the same policy. Of more rows, a uniform random sample is used: the
    guarantee holds as stated, and more rows would hardly raise the coverage.

    Parameters
    ----------
    dataset : str, path or Dataset
        A folder of Parquet files with labels, or an address of one, for rows that were used neither
        to fit the model nor to choose the measure.
    max_loss, confidence, task_loss, component, floor, loss_bound, calibration
        As for :func:`scorewise.certify`.
    normalize : bool
        Rescale probabilities to sum to 1.
    max_rows : int
        Largest number of certification rows. The policy stores two numbers of each.
    random_state : int, RandomState or Generator, optional
        Seed of the sample.
    scheduler : str or distributed.Client
        As for :func:`scorewise.scale.cluster`.
    on_bad_rows : {"fail", "quarantine"}
        Whether the first invalid row stops the run, or all of them are written to the folder
        ``quarantine``, with reasons, and left out. That takes a pass over all rows before.
    quarantine : str or path, optional
        A folder for invalid rows, new or from such passes, for ``"quarantine"``. It has a folder
        for each check of a data set, which is not repeated.
    storage_options : dict, optional
        Options of the filesystem of the folder, such as credentials.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **reading
        As for :func:`scorewise.read_predictions`: ``class_names``, ``labels``, …

    Returns
    -------
    Policy
        Its ``metadata`` has the number of all valid rows, a digest of the names and versions of the
        files, and what was left out. The guarantee is for rows that are valid.

    Raises
    ------
    InvalidInput
        If a row is invalid or has no label, unless such rows are set aside; the message names
        file, row group and row.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import certify_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "held_out"
    >>> folder.mkdir()
    >>> rng = np.random.default_rng(0)
    >>> for name in ("monday", "tuesday"):
    ...     truth = rng.dirichlet(np.full(3, 0.2), size=1000)
    ...     y = (truth.cumsum(axis=-1) > rng.uniform(size=(1000, 1))).argmax(axis=-1)
    ...     sw.write_predictions(folder / f"{name}.parquet", truth[:, None], labels=y)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     policy = certify_dataset(folder, max_loss=0.1, scheduler=client)
    >>> policy.certificate.n_calibration, policy.metadata["rows"]
    (2000, 2000)
    """
    source = _labelled_dataset(dataset, storage_options, reading)
    component = validate.choice(component, "component", COMPONENTS)
    check_calibration(calibration)
    rule = _rule_for(source, task_loss)
    numbers = _CertificationNumbers(rule, component, floor, calibration)
    size = validate.whole(max_rows, "max_rows", at_least=1)
    bad_rows = Quarantine.of(on_bad_rows, quarantine, storage_options, progress)
    with cluster(scheduler) as client:
        source, left_out = bad_rows.valid_rows(
            client, source, normalize=normalize, fields=_LABELS, is_labelled=True
        )
        sample, stored_as = _sample_of_rows(
            client, source, numbers, normalize, size, seed_of(random_state), "certify", progress
        )
    check_other_rows(calibration, sample.columns)
    n_members, n_classes = source.members_and_classes
    policy = certify_rows(
        sample.columns["loss"],
        sample.columns["uncertainty"],
        rule,
        max_loss=max_loss,
        confidence=confidence,
        component=component,
        floor=floor,
        loss_bound=loss_bound,
        n_members=n_members,
        n_classes=n_classes,
        stored_as=stored_as,
        class_names=source.class_names,
        calibration=calibration,
        n_left_out=left_out.n_rows,
        n_files_left_out=left_out.n_files,
        metadata=_metadata(source, sample) | ({"left_out": left_out.to_dict()} if left_out else {}),
    )
    warn_if_too_few_rows([policy.certificate])
    return policy


@validate.takes_options_of(read_predictions)
def calibrate_dataset(
    dataset: str | os.PathLike[str] | Dataset,
    *,
    method: str = "auto",
    task_loss: RuleLike = "log",
    cv: int = 5,
    floor: float = 1e-6,
    normalize: bool = False,
    max_rows: int = _MOST_CALIBRATED,
    random_state: Any = 0,
    scheduler: Scheduler = "local",
    on_bad_rows: str = "fail",
    quarantine: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **reading: Any,
) -> Calibration:
    """Return a calibration that is fitted on the labelled rows of a folder of Parquet files.

    Use it where :func:`scorewise.fit_calibration` takes too long on one machine, or memory is
    short. Workers compute the mean predictions, of which a uniform random sample is fitted: a
    calibration has few parameters, so more rows would not change it.

    Parameters
    ----------
    dataset : str, path or Dataset
        A folder of Parquet files with labels, or an address of one, for rows that were not used to
        fit the model.
    method, task_loss, cv, floor
        As for :func:`scorewise.fit_calibration`.
    normalize : bool
        Rescale probabilities to sum to 1.
    max_rows : int
        Largest number of rows in the sample; fewer for more than 671 classes, so that they take
        half a gigabyte.
    random_state : int, RandomState or Generator, optional
        Seed of the sample and of the folds.
    scheduler : str or distributed.Client
        As for :func:`scorewise.scale.cluster`.
    on_bad_rows : {"fail", "quarantine"}
        Whether the first invalid row stops the run, or all of them are written to the folder
        ``quarantine``, with reasons, and left out. That takes a pass over all rows before.
    quarantine : str or path, optional
        A folder for invalid rows, new or from such passes, for ``"quarantine"``. It has a folder
        for each check of a data set, which is not repeated.
    storage_options : dict, optional
        Options of the filesystem of the folder, such as credentials.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **reading
        As for :func:`scorewise.read_predictions`: ``class_names``, ``labels``, …

    Returns
    -------
    Calibration
        Its ``n_rows`` is the size of the sample. The share of mixed rows is that of rows of 20
        files.

    Raises
    ------
    InvalidInput
        If a row is invalid or has no label, unless such rows are set aside; the message names
        file, row group and row.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import calibrate_dataset
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "held_out"
    >>> folder.mkdir()
    >>> rng = np.random.default_rng(0)
    >>> for name in ("monday", "tuesday"):
    ...     truth = rng.dirichlet(np.ones(3), size=500)
    ...     y = (truth.cumsum(axis=-1) > rng.uniform(size=(500, 1))).argmax(axis=-1)
    ...     overconfident = truth**3 / (truth**3).sum(axis=-1, keepdims=True)
    ...     sw.write_predictions(folder / f"{name}.parquet", overconfident[:, None], labels=y)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     calibration = calibrate_dataset(folder, scheduler=client)
    >>> calibration.method, calibration.n_rows
    ('temperature', 1000)
    """
    source = _labelled_dataset(dataset, storage_options, reading)
    rule = _rule_for(source, task_loss)
    n_members, n_classes = source.members_and_classes
    most = validate.whole(max_rows, "max_rows", at_least=2)
    size, seed = min(most, max(2, _MOST_NUMBERS // n_classes)), seed_of(random_state)
    bad_rows = Quarantine.of(on_bad_rows, quarantine, storage_options, progress)
    with cluster(scheduler) as client:
        source, left_out = bad_rows.valid_rows(
            client, source, normalize=normalize, fields=_LABELS, is_labelled=True
        )
        sample, _ = _sample_of_rows(
            client, source, _mean_predictions, normalize, size, seed, "calibrate", progress
        )
        mean, labels = sample.columns["mean"], sample.columns["label"]
        calibration = fit_mean_calibration(
            mean,
            labels,
            rule,
            method=method,
            cv=cv,
            floor=floor,
            class_names=source.class_names,
            seed=seed,
            progress=progress,
        )
        warn_if_unrelated(mean, labels, calibration)
        chosen = evenly_spaced(len(source), _MOST_TRIED_FILES)
        n_rows = -(-n_rows_to_try(n_members, n_classes) // len(chosen))
        with closing(
            map_in_order(
                client,
                _mixed_rows,
                [source.partitions[i] for i in chosen],
                source.for_workers(),
                calibration,
                normalize,
                n_rows,
                task="calibrate",
            )
        ) as results:
            is_mixed = np.concatenate([mixed for _, mixed in results])
    return replace(
        calibration,
        mixed_share=float(is_mixed.mean()),
        n_left_out=left_out.n_rows,
        n_files_left_out=left_out.n_files,
    )


def _labelled_dataset(
    dataset: str | os.PathLike[str] | Dataset,
    storage_options: Mapping[str, Any] | None,
    reading: dict[str, Any],
) -> Dataset:
    source = Dataset.of(dataset, storage_options=storage_options, **reading)
    source.require_labels()
    return source


def _rule_for(source: Dataset, task_loss: RuleLike) -> ScoringRule:
    rule = get_rule(task_loss).for_classes(source.class_names)
    rule.check_classes(source.members_and_classes[1])
    return rule


def _metadata(source: Dataset, sample: RowSample) -> dict[str, Any]:
    versions = "".join(f"{p.name}\n{p.version}\n" for p in source.partitions)
    n_members, n_classes = source.members_and_classes
    return {
        "version": __version__,
        "input": source.address,
        "partitions": len(source),
        "rows": sample.n_rows,
        "members": n_members,
        "classes": n_classes,
        "versions_sha256": hashlib.sha256(versions.encode()).hexdigest(),
    }


# -- numbers of rows, computed on a worker ---------------------------------------------------------


class _CertificationNumbers:
    """The loss and the uncertainty of each row, to be sent to workers."""

    def __init__(self, *settings: Any) -> None:
        self._settings = settings  # of numbers_to_certify

    def __call__(self, rows: LabelledSamples) -> dict[str, np.ndarray]:
        return numbers_to_certify(rows, *self._settings)


def _mean_predictions(rows: LabelledSamples) -> dict[str, np.ndarray]:
    return {"mean": mean_in_float64(rows.samples), "label": rows.labels}


def _mixed_rows(
    partition: Partition, dataset: Dataset, calibration: Calibration, normalize: bool, n_rows: int
) -> np.ndarray:
    """Return which of the first rows of a partition have members that must be mixed."""
    predictions = dataset.read(partition)
    n_rows = min(n_rows, len(predictions))
    first, *_ = predictions.chunks(max(1, n_rows), stop=n_rows, fields=predictions.member_fields)
    return calibration.mixed_rows(first.to_samples(normalize=normalize))


class _Merged:
    """A sample of all rows that are added, merged now and then."""

    def __init__(self) -> None:
        self._parts: list[RowSample] = []

    def add(self, sample: RowSample) -> None:
        """Add the sample of further rows."""
        self._parts.append(sample)
        if sum(map(len, self._parts)) > 2 * sample.size:
            self._parts = [self.result()]

    def result(self) -> RowSample:
        """Return the sample of all rows so far."""
        first, *others = self._parts
        return first.merge(*others)


@dataclass(frozen=True, eq=False)
class _PartitionSample:
    """The sample of a partition, how it is stored, and how often its labels are predicted."""

    sample: RowSample
    stored_as: StoredAs
    agreement: LabelAgreement


def _sample_of_partition(
    partition: Partition,
    dataset: Dataset,
    numbers_of: RowNumbers,
    normalize: bool,
    size: int,
    seed: int,
) -> _PartitionSample | InvalidInput | None:
    """Return the sample of a partition; None if it has no rows.

    An error is returned rather than raised, as trying again would not help.
    """
    merged, stored_as = _Merged(), None
    agreement: LabelAgreement | None = None
    names = dataset.class_names or tuple(map(str, range(dataset.members_and_classes[1])))
    try:
        for first, chunk, samples in sample_chunks(dataset, partition, normalize):
            assert chunk.labels is not None
            rows = LabelledSamples(samples, chunk.labels, None, names)
            key = partition.number * _ROWS + first
            merged.add(RowSample.of(numbers_of(rows), size, seed, key))
            stored_as = samples.stored_as
            agreement = _added(agreement, _agreement_of(rows))
    except InvalidInput as error:
        return error
    if stored_as is None or agreement is None:
        return None
    return _PartitionSample(merged.result(), stored_as, agreement)


def _agreement_of(rows: LabelledSamples) -> LabelAgreement:
    return LabelAgreement.of(mean_in_float64(rows.samples).argmax(axis=-1), rows.labels)


def _added(agreement: LabelAgreement | None, other: LabelAgreement) -> LabelAgreement:
    return other if agreement is None else agreement + other


def _sample_of_rows(
    client: Any,
    dataset: Dataset,
    numbers_of: RowNumbers,
    normalize: bool,
    size: int,
    seed: int,
    task: str,
    progress: bool | None,
) -> tuple[RowSample, StoredAs]:
    """Return the numbers of a random sample of all rows, and how the predictions are stored."""
    merged, stored_as = _Merged(), None
    agreement: LabelAgreement | None = None
    arguments = dataset.for_workers(), numbers_of, normalize, size, seed
    with (
        bar(f"{task}: partitions", len(dataset), progress) as advance,
        closing(
            map_in_order(
                client,
                _sample_of_partition,
                dataset.partitions,
                *arguments,
                task=task,
                on_done=lambda: advance(1),
            )
        ) as results,
    ):
        for _, result in results:
            if isinstance(result, InvalidInput):
                raise result
            if result is not None:
                merged.add(result.sample)
                stored_as = result.stored_as
                agreement = _added(agreement, result.agreement)
    if stored_as is None or agreement is None:
        raise InvalidInput(f"{dataset.address!r} has no rows")
    check_numbering(agreement, dataset)
    return merged.result(), stored_as
