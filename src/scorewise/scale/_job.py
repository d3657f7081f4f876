"""Work on the partitions of a data set: resumed, retried, and with bad rows set aside.

Two functions run work on a cluster, and both take partitions in a sliding window, so that neither
the client nor the scheduler holds more for more partitions.

:func:`map_in_order` yields ``function(partition, *arguments)`` of each partition, in their order.
Use it where the result is small and merged, such as a histogram, and no file is written.

:func:`write_partitions` writes one Parquet file per partition, with the columns of a :class:`Work`.

The heart is one idempotent task per partition. If the manifest has an entry for the partition, made
with these settings from this version of the input, and the digest of the output is that of the
entry, then the task returns the entry. Otherwise it computes the output and writes it, then the
entry. A task can be run twice, by two workers at once, or after a crash of anything: the output is
the same. So there is no other code for resuming.

Workers may still compute tasks of a run whose client was killed. In a newer run, the same number
can mean another file. So each run puts a token in the folder, and a task checks before it puts a
file in place that the token is that of its run. The client reads all entries again at the end.
"""

from __future__ import annotations

import json
import pickle
import re
import traceback
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import numpy as np

from scorewise import _validate as validate
from scorewise._files import file_digest
from scorewise._json import dumps
from scorewise._progress import bar
from scorewise._tables import Columns, write_arrow
from scorewise._text import counted
from scorewise._version import __version__
from scorewise.errors import InvalidInput, Remedy, ScorewiseError
from scorewise.io import Predictions, predictions_of_table
from scorewise.scale._cluster import (
    Scheduler,
    check_scheduler,
    checked_workers,
    cluster,
    reaching_scheduler,
)
from scorewise.scale._dataset import Dataset, Partition, is_local, open_filesystem
from scorewise.scale._store import (
    QUARANTINE,
    RESTART,
    SETTINGS,
    SUMMARY,
    Store,
    digest_of,
    entry_name,
    output_name,
    quarantine_name,
)
from scorewise.scale._summary import ColumnSummary, MergedSummary, summarize
from scorewise.scale._tree import workers_died

if TYPE_CHECKING:
    from distributed import Client

ON_BAD_ROWS = ("fail", "quarantine")

_RETRIES = 3  # of a task that raised, such as for a network that was down
_LOST = 3  # times that a partition is submitted again after its workers died
_PER_THREAD = 3  # partitions that are submitted at a time
_READERS = 16  # threads that read entries
_SHOWN = 3  # files of a message
# Parts of a problem that differ between rows: the file and the row, indices, numbers and texts.
_PLACE = re.compile(r"""^(('[^']*'|"[^"]*"): )?(row \d+ \([^)]*\)(, member \d+)?:? )?""")
_INDEX = re.compile(r"\[[\d, ]+\]")
_VALUE = re.compile(r"""-?\b\d[\d,.]*(?:e[+-]?\d+)?\b|'[^']*'|"[^"]*\"""")
_AHEAD = 256  # partitions by which the fastest may be ahead of the slowest, at least


class Work(Protocol):
    """What is computed for the rows of each partition by :func:`write_partitions`.

    Any object with these attributes and methods that can be pickled. It may also have ``by``, the
    name of a column of text: the numbers are then summarised for each of its values too. With
    ``writes_rows = False`` no columns are written, but for the rows that are quarantined.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import Dataset, write_partitions
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> sw.write_predictions(folder / "in/a.parquet", probs)
    >>> class Confidence:
    ...     names, fields = ("confidence",), frozenset()
    ...     def settings(self):
    ...         return {"task": "confidence"}
    ...     def columns(self, chunk, first_row):
    ...         return {"confidence": chunk.chunk_samples(first_row).mean.max(axis=-1)}
    ...     def counts(self, columns):
    ...         return {"sure": np.array([(columns["confidence"] > 0.8).sum()])}
    >>> dataset = Dataset.of(folder / "in")
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     written = write_partitions(dataset, Confidence(), folder / "out", scheduler=client)
    >>> written.columns, written.counts, round(written.summary["confidence"].mean, 3)
    (('confidence',), {'sure': array([100])}, 0.7)
    """

    @property
    def names(self) -> Sequence[str]:
        """The columns of numbers that the summary describes."""

    @property
    def fields(self) -> frozenset[str]:
        """The fields of a chunk that are needed besides the members, such as ``{"ids"}``."""

    def settings(self) -> dict[str, Any]:
        """Return whatever the output depends on, as JSON can hold it.

        Outputs of an earlier run with other settings are not continued.
        """

    def columns(self, chunk: Predictions, first_row: int) -> Columns:
        """Return the columns for the rows of a chunk, by their names.

        Parameters
        ----------
        chunk : Predictions
            Some rows of a partition.
        first_row : int
            The number of its first row in the partition; where errors have an index, it counts from
            there.

        Returns
        -------
        dict of str to array (n,)
        """

    def counts(self, columns: Columns) -> Mapping[str, np.ndarray]:
        """Return whole numbers that are added over all chunks and partitions, by name.

        Parameters
        ----------
        columns : dict of str to array (n,)
            What :meth:`columns` returned for a chunk.

        Returns
        -------
        dict of str to integer array
        """


# -- on the client: a sliding window ---------------------------------------------------------------


def map_in_order(
    client: Client,
    function: Callable[..., Any],
    partitions: Sequence[Partition],
    *arguments: Any,
    task: str = "partition",
    on_done: Callable[[], None] = lambda: None,
) -> Generator[tuple[Partition, Any], None, None]:
    """Yield each partition with ``function(partition, *arguments)``, computed on the workers.

    Partitions are yielded in their order. Memory does not grow with their number: a few are
    submitted at a time, and results are released as they are yielded. Tasks of workers that die
    are run again.

    Parameters
    ----------
    client : distributed.Client
    function : callable
        Picklable; running it twice must do no harm.
    partitions : sequence of Partition
    *arguments : object
        Picklable; sent to each worker once.
    task : str
        Name of the tasks on Dask's dashboard.
    on_done : callable
        Called for each partition that is computed, in any order.

    Yields
    ------
    partition : Partition
    result : object
        What the function returned for it.

    Raises
    ------
    ScorewiseError
        If the function raised an error, which is the cause, several workers died while they
        computed a partition, or the scheduler is lost. Only errors of the system are tried again.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import Dataset, map_in_order
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> for name in ("monday", "tuesday"):
    ...     sw.write_predictions(folder / f"in/{name}.parquet", probs)
    >>> dataset = Dataset.of(folder / "in")
    >>> def n_rows(partition, dataset):
    ...     return len(dataset.read(partition))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     for partition, n in map_in_order(client, n_rows, dataset.partitions, dataset):
    ...         print(partition.name, n)
    monday.parquet 200
    tuesday.parquet 200
    """
    waiting = deque(enumerate(partitions))
    results: dict[int, Any] = {}  # those that are done before an earlier one
    next_index = 0
    call = _Call(function, arguments)
    with checked_workers(client), closing(_SubmittedPartitions(client, call, task)) as window:
        while waiting or window.submitted:
            size = window.size()
            ahead = next_index + max(_AHEAD, 4 * size)
            while waiting and len(window.submitted) < size and waiting[0][0] < ahead:
                window.submit(*waiting.popleft())
            for index, result in window.next_result():
                results[index] = result
                on_done()
            while next_index in results:
                yield partitions[next_index], results.pop(next_index)
                next_index += 1


class _SubmittedPartitions:
    """The partitions that are submitted to a cluster and not done.

    Attributes
    ----------
    submitted : dict
        From futures to the index and the partition.
    """

    def __init__(self, client: Client, call: _Call, task: str) -> None:
        import cloudpickle
        from distributed import as_completed

        self._client = client
        self._run = f"scorewise-{task}-{uuid4().hex[:8]}"
        self._n_lost: dict[int, int] = {}  # times that the workers of a partition died
        self.submitted: dict[Any, tuple[int, Partition]] = {}
        # with results, as these are computed again, too, if their worker dies
        self._completed = as_completed(loop=client.loop, with_results=True, raise_errors=False)
        # As bytes, since the scheduler opens what it passes on, and may have no scorewise. As a
        # task rather than scattered data: the scheduler runs it again if its worker dies.
        with reaching_scheduler():
            self._shared = client.submit(
                pickle.loads,
                cloudpickle.dumps(call),
                key=f"{self._run}-work",
                retries=_RETRIES,
                pure=False,
            )

    def size(self) -> int:
        """Return how many partitions may be submitted at a time; workers come and go."""
        with reaching_scheduler():
            n_threads: int = sum(self._client.nthreads().values())
        return _PER_THREAD * max(1, n_threads)

    def submit(self, index: int, partition: Partition) -> None:
        """Submit a partition, again if its workers died."""
        import cloudpickle
        from dask.utils import apply

        packed = cloudpickle.dumps(partition)
        key = f"{self._run}-{partition.number}-{self._n_lost.get(index, 0)}"
        with reaching_scheduler():
            future = self._client.submit(
                apply, self._shared, [packed], key=key, retries=_RETRIES, pure=False
            )
        self.submitted[future] = index, partition
        self._completed.add(future)

    def next_result(self) -> Iterator[tuple[int, Any]]:
        """Yield the index and the result of a partition that is done; none if its workers died."""
        from distributed import KilledWorker

        future, result = next(self._completed)
        index, partition = self.submitted.pop(future)
        try:
            with reaching_scheduler():
                if future.status in ("error", "cancelled"):
                    future.result()  # raises
        except KilledWorker as error:
            self._n_lost[index] = self._n_lost.get(index, 0) + 1
            if self._n_lost[index] > _LOST:
                raise ScorewiseError(
                    f"{partition.name!r}: {workers_died('this partition', error)}"
                ) from None
            self.submit(index, partition)
            return
        except OSError as error:
            raise OSError(f"{partition.name!r}: {error}; repeat the command") from error
        except ScorewiseError:  # the scheduler is lost
            raise
        except Exception as error:  # not of the function: a worker cannot even begin
            raise ScorewiseError(f"{partition.name!r}: {_text_of(error)}") from error
        if isinstance(result, _Raised):
            if isinstance(result.error, ScorewiseError):
                raise result.error
            raise ScorewiseError(f"{partition.name!r}: {result.text}") from result.error
        self._n_lost.pop(index, None)
        yield index, result

    def close(self) -> None:
        """Cancel what is not done, unless the scheduler is lost."""
        if self._client.status == "running":
            with suppress(ScorewiseError), reaching_scheduler():
                self._client.cancel([*self.submitted, self._shared])


@dataclass(frozen=True)
class _Call:
    """A call of a function with a partition, which comes as bytes, and what all calls share."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self, packed: bytes) -> Any:
        """Return the result, or the error if trying again would not help."""
        try:
            return self.function(pickle.loads(packed), *self.arguments)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            return _Raised(_text_of(error), _picklable(error))


@dataclass(frozen=True)
class _Raised:
    """The error of a call, which is returned so that Dask does not try again."""

    text: str
    error: Exception


def _picklable(error: Exception) -> Exception:
    """Return the error, or one that can be sent, with the traceback on the worker as a note."""
    import cloudpickle

    note = "On the worker:\n" + "".join(traceback.format_exception(error))
    with suppress(Exception):
        error.add_note(note)
        if type(pickle.loads(cloudpickle.dumps(error))) is type(error):
            return error
    other = RuntimeError(_text_of(error))
    other.add_note(note)
    return other


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


# -- on the client: outputs ------------------------------------------------------------------------


@dataclass(frozen=True)
class OutputFolder:
    """A folder with a file for each partition: what the results of all work on a data set share."""

    path: str
    n_rows: int
    n_partitions: int
    resumed: int
    columns: tuple[str, ...]
    quarantined: list[dict[str, Any]]

    @property
    def n_quarantined(self) -> int:
        """The number of rows that are set aside, as far as it is known."""
        return sum(x["rows"] for x in self.quarantined)

    def size_text(self) -> str:
        """Return the numbers of rows and files in words."""
        return f"{counted(self.n_rows, 'row')} of {counted(self.n_partitions, 'file')}"

    def quarantine_lines(self) -> list[str]:
        """Return sentences, without full stops, about rows and files that are quarantined."""
        return quarantine_lines(self.quarantined)

    def shared(self) -> dict[str, Any]:
        """Return the fields that all such results have, by their names."""
        return {x.name: getattr(self, x.name) for x in fields(OutputFolder)}


@dataclass(frozen=True)
class WrittenPartitions(OutputFolder):
    """The output of :func:`write_partitions`.

    Attributes
    ----------
    path : str
        Of the folder.
    n_rows, n_partitions : int
        Written; rows that are quarantined, and files that cannot be read, are not among them.
    resumed : int
        Number of partitions that an earlier run has written.
    columns : tuple of str
    quarantined : list of dict
        For each partition with bad rows: ``partition``, ``input`` and ``rows``, the number of rows
        that are set aside. If some are invalid: their ``file``, and in ``reasons`` how many rows
        each reason has. If row groups could not be read: in ``unread`` the ``first_row``, the
        number of ``rows`` and the ``reason`` of each. If no row could be read: its ``reason``.
    summary : dict of str to ColumnSummary
    counts : dict of str to array
    groups : dict of str to dict of str to ColumnSummary
        The summary of the rows of each value of the column ``by``, if the work has one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import Dataset, write_partitions
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> sw.write_predictions(folder / "in/a.parquet", probs)
    >>> dataset, work = Dataset.of(folder / "in"), sw.io.RowScores({"log": sw.get_rule("log")})
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     written = write_partitions(dataset, work, folder / "out", scheduler=client)
    >>> written.n_rows, written.n_partitions, written.resumed
    (200, 1, 0)
    >>> written.columns
    ('partition', 'row', 'total_log', 'aleatoric_log', 'epistemic_log')
    """

    summary: dict[str, ColumnSummary]
    counts: dict[str, np.ndarray] = field(repr=False)
    groups: dict[str, dict[str, ColumnSummary]]


def write_partitions(
    dataset: Dataset,
    work: Work,
    out: Any,
    *,
    scheduler: Scheduler = "local",
    on_bad_rows: str = "fail",
    restart: bool = False,
    resumable: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    task: str = "score",
    progress: bool | None = None,
) -> WrittenPartitions:
    """Write the columns of each partition to a file in the folder ``out``, and return a summary.

    Use it for work of your own on a cluster that gives a row of output for each row.
    :func:`scorewise.scale.score_dataset` and others use it.

    Parameters
    ----------
    dataset : Dataset
    work : Work
    out : str or path
        A new or empty folder, or one that an earlier run with the same settings has written to:
        its finished partitions are not computed again. It has ``part-00017.parquet`` for partition
        17, and in ``_manifest`` an entry for each partition, settings and summary.
    scheduler : str or distributed.Client
        As for :func:`scorewise.scale.cluster`.
    on_bad_rows : {"fail", "quarantine"}
        Whether a row that is invalid stops the run, or is written to
        ``_quarantine/part-00017.parquet`` with its reason.
    restart : bool
        Whether to remove the outputs of an earlier run first.
    resumable : bool
        Whether the settings identify the work; otherwise outputs of an earlier run are refused.
    storage_options : dict, optional
        Of the filesystem of ``out``.
    task : str
        A verb, for messages.
    progress : bool, optional
        Whether to show a progress bar.

    Returns
    -------
    WrittenPartitions
        Number of rows and partitions, summary of the columns, and what is quarantined.

    Raises
    ------
    InvalidInput
        If a row is invalid, the settings differ, another run writes to the folder, or it has files
        that scorewise did not put there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from distributed import Client
    >>> from scorewise.scale import Dataset, write_partitions
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "in").mkdir()
    >>> probs = sw.binary(np.repeat([[0.05, 0.25], [0.5, 0.6]], 100, axis=0))
    >>> sw.write_predictions(folder / "in/a.parquet", probs)
    >>> dataset, work = Dataset.of(folder / "in"), sw.io.RowScores({"log": sw.get_rule("log")})
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     first, again = (
    ...         write_partitions(dataset, work, folder / "out", scheduler=client) for _ in range(2)
    ...     )
    >>> first.resumed, again.resumed  # finished partitions are not computed again
    (0, 1)
    >>> sorted(path.name for path in (folder / "out").glob("*.parquet"))
    ['part-00000.parquet']
    """
    validate.choice(on_bad_rows, "on_bad_rows", ON_BAD_ROWS)
    check_scheduler(scheduler)
    store = Store.at(out, storage_options)
    _check_not_in_input(store, dataset)
    trial = dataset.empty(1)
    columns = work.columns(trial, 0)  # raises if the work does not fit these classes
    settings = settings_of(dataset, work)
    n_partitions = len(dataset.partitions)
    with store.locked() as names:
        if not resumable and not restart and SETTINGS in names:
            raise InvalidInput(
                f"the folder {store.shown!r} has outputs of an earlier run, and user-defined rules "
                "may have changed since; choose another folder",
                RESTART,
            )
        earlier = {*store.prepare(names, settings, restart=restart, n_partitions=n_partitions)}
        merged = _MergedEntries(work.names)
        # Workers of a run that was killed may still put a file in place. Of the files that are
        # there at the end, digests are computed again.
        n_passes = 2 if store.has_unfinished_run(names) else 1
        with (
            store.run() as token,
            cluster(scheduler) as client,
            bar(f"{task}: partitions", n_passes * n_partitions, progress) as advance,
        ):
            recipe = _Recipe(
                dataset.for_workers(), work, store, json.loads(dumps(settings)), on_bad_rows, token
            )
            for i in range(n_passes):
                entries = map_in_order(
                    client, _run, dataset.partitions, recipe, task=task, on_done=lambda: advance(1)
                )
                with closing(entries):
                    for partition, entry in entries:
                        if isinstance(entry, BaseException):
                            raise entry
                        if not entry["exists"]:
                            earlier.discard(partition.number)
                        if i == n_passes - 1:
                            merged.add(entry, is_resumed=partition.number in earlier)
            _check_entries(store, merged.digests)
            result = merged.result(store.shown, tuple(_with_partition(columns, 0)))
            store.write_json(SUMMARY, _summary(result))
        store.flush()
    return result


def settings_of(dataset: Dataset, work: Work) -> dict[str, Any]:
    """Return whatever the outputs of work on a data set depend on, besides its files."""
    return {
        "version": __version__,
        "source": dataset.address,
        "read": dict(sorted(dataset.reading.items())),
        **work.settings(),
    }


def _check_entries(store: Store, digests: Mapping[int, str]) -> None:
    """Raise unless the entries of the folder, by partition, are those that were merged.

    A task of an earlier run may have passed its own check just before this run began.
    """
    with ThreadPoolExecutor(_READERS) as threads:
        entries = threads.map(store.read_json, map(entry_name, digests))
        for (number, digest), entry in zip(digests.items(), entries, strict=True):
            if not isinstance(entry, dict) or entry.get("sha256") != digest:
                raise ScorewiseError(
                    f"{entry_name(number)!r} in {store.shown!r} was changed or removed by another "
                    "process while this run wrote to the folder, such as by a worker of a run that "
                    "was killed; repeat the command to compute what was changed again"
                )


def _check_not_in_input(store: Store, dataset: Dataset) -> None:
    out, source = (f"{_real_path(x).rstrip('/')}/" for x in (store, dataset))
    if out.startswith(source) or source.startswith(out):
        raise InvalidInput(
            f"{store.shown!r} is, or is in, or holds, the input {dataset.address!r}; write to "
            "another folder"
        )


def _real_path(folder: Store | Dataset) -> str:
    """The address of a folder; on this machine, the path that links lead to."""
    filesystem, path = open_filesystem(folder.address, folder.storage_options)
    return Path(path).resolve().as_posix() if is_local(filesystem) else folder.address


class _MergedEntries:
    """The summary of all partitions, whose entries are added in their order.

    Attributes
    ----------
    digests : dict of int to str
        The digest of the entry of each partition.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._summaries = {name: MergedSummary() for name in names}
        self._groups: dict[str, dict[str, MergedSummary]] = {}
        self._counts: dict[str, np.ndarray] = {}
        self._n_rows = self._n_partitions = self._n_resumed = 0
        self._quarantined: list[dict[str, Any]] = []
        self.digests: dict[int, str] = {}

    def add(self, entry: Mapping[str, Any], *, is_resumed: bool) -> None:
        """Add the entry of the next partition."""
        self.digests[entry["partition"]] = entry["sha256"]
        self._n_partitions += "reason" not in (entry["quarantine"] or ())  # the file can be read
        self._n_resumed += is_resumed
        self._n_rows += entry["rows"]
        for name, summary in entry["summary"].items():
            self._summaries[name].add(summary)
        for group, summaries in entry["groups"].items():
            merged = self._groups.setdefault(group, {x: MergedSummary() for x in self._names})
            for name, summary in summaries.items():
                merged[name].add(summary)
        for name, counts in entry["counts"].items():
            total = self._counts.setdefault(name, np.zeros(counts["size"], np.int64))
            total[counts["index"]] += np.array(counts["count"], np.int64)
        if entry["quarantine"] is not None:
            numbers = {"partition": entry["partition"], "input": entry["input"]}
            self._quarantined.append(numbers | entry["quarantine"])

    def result(self, path: str, columns: tuple[str, ...]) -> WrittenPartitions:
        """Return the summary."""
        return WrittenPartitions(
            path,
            self._n_rows,
            self._n_partitions,
            self._n_resumed,
            columns,
            self._quarantined,
            _results(self._summaries),
            self._counts,
            {group: _results(summaries) for group, summaries in sorted(self._groups.items())},
        )


def _results(summaries: Mapping[str, MergedSummary]) -> dict[str, ColumnSummary]:
    return {name: summary.result() for name, summary in summaries.items()}


def _summary(written: WrittenPartitions) -> dict[str, Any]:
    """What is written to ``summary.json``; it does not depend on how often the run was resumed."""
    return {
        "version": __version__,
        "partitions": written.n_partitions,
        "rows": written.n_rows,
        "columns": {name: summary.to_dict() for name, summary in written.summary.items()},
        "groups": {
            group: {name: summary.to_dict() for name, summary in summaries.items()}
            for group, summaries in written.groups.items()
        },
        "counts": written.counts,
        "quarantined_rows": sum(x["rows"] for x in written.quarantined),
        "quarantined_reasons": reasons_of(written.quarantined),
        "quarantined": written.quarantined,
    }


def quarantine_lines(
    quarantined: Sequence[Mapping[str, Any]], folder: str = QUARANTINE
) -> list[str]:
    """Return sentences, without full stops, about rows and files that are quarantined."""
    with_invalid = [x for x in quarantined if "file" in x]
    unread = [group for x in quarantined for group in x.get("unread", ())]
    unread_files = [x for x in quarantined if "reason" in x]
    lines = []
    if with_invalid:
        n_rows = sum(sum(x["reasons"].values()) for x in with_invalid)
        kinds = reasons_of({"reasons": x["reasons"]} for x in with_invalid)
        reasons = [f"{n:,}: {reason}" for reason, n in kinds.items()]
        more = [f"{counted(len(reasons) - _SHOWN, 'more reason')}"] if len(reasons) > _SHOWN else []
        lines.append(
            f"{counted(n_rows, 'invalid row')} of {counted(len(with_invalid), 'file')} "
            f"{'is' if n_rows == 1 else 'are'} in {folder} ({'; '.join(reasons[:_SHOWN] + more)})"
        )
    lines += [
        f"{counted(x['rows'], 'row')} could not be read: {x['reason']}" for x in unread[:_SHOWN]
    ]
    if len(unread) > _SHOWN:
        more_groups = counted(len(unread) - _SHOWN, "more row group")
        lines.append(f"{more_groups} could not be read; see {SUMMARY}")
    lines += [f"{x['input']!r} could not be read: {x['reason']}" for x in unread_files[:_SHOWN]]
    if len(unread_files) > _SHOWN:
        more_files = counted(len(unread_files) - _SHOWN, "more file")
        lines.append(f"{more_files} could not be read; see {SUMMARY}")
    return lines


def reasons_of(quarantined: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many rows are quarantined for each reason, the most frequent first."""
    total: Counter[str] = Counter()
    for entry in quarantined:
        total.update(entry.get("reasons", {}))
        for group in entry.get("unread", ()):
            total[kind_of_problem(group["reason"])] += group["rows"]
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def kind_of_problem(problem: str) -> str:
    """Return the problem of a row without its place and values, which differ between rows.

    Examples
    --------
    >>> from scorewise.scale._job import kind_of_problem
    >>> kind_of_problem("'a.parquet': row 3 (row 3 of row group 0): probs[3, 1] sums to 6.0, not 1")
    'probs sums to …, not …'
    """
    return _VALUE.sub("…", _INDEX.sub("", _PLACE.sub("", problem)))


# -- on a worker: one partition --------------------------------------------------------------------


@dataclass(frozen=True)
class _Recipe:
    """What all tasks of a run share."""

    dataset: Dataset
    work: Work
    store: Store
    settings: Mapping[str, Any]
    on_bad_rows: str
    token: str  # of the run


def _run(partition: Partition, recipe: _Recipe) -> dict[str, Any] | ScorewiseError:
    """Return the entry of a partition, whose output is there; or what is wrong with the input.

    An error is returned rather than raised, as trying again would not help.
    """
    try:
        task = _PartitionTask(partition, recipe)
        entry = task.valid_entry()
        if entry is not None:
            return entry | {"exists": True}
        return task.write() | {"exists": False}
    except InvalidInput as error:
        remedy = Remedy("on_bad_rows", "quarantine", "to set invalid rows aside")
        return type(error)(error.problem, *error.remedies, remedy, index=error.index)
    except ScorewiseError as error:
        return error


class _CannotBeRead(Exception):
    """A row group of a partition is damaged, or none of the rows can be read.

    Attributes
    ----------
    reason : str
    rows : range
        The rows of the group; none if it is the file that cannot be read.
    n_rows : int
        Of the file, as far as it is known.
    """

    def __init__(self, reason: str, rows: range = range(0), n_rows: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.rows, self.n_rows = reason, rows, n_rows


class _PartitionTask:
    """The output of one partition and its entry in the manifest."""

    def __init__(self, partition: Partition, recipe: _Recipe) -> None:
        self._partition, self._recipe = partition, recipe
        self._store, self._work = recipe.store, recipe.work
        self._settings_sha256 = digest_of(recipe.settings)

    # -- entries -----------------------------------------------------------------------------------

    def valid_entry(self) -> dict[str, Any] | None:
        """Return the entry, if its files are there and undamaged; None if there is work to do."""
        partition = self._partition
        entry: Any = self._store.read_json(entry_name(partition.number))
        if not isinstance(entry, dict):
            return None
        content = {name: value for name, value in entry.items() if name != "sha256"}
        if entry.get("sha256") != digest_of(content):
            return None
        is_same = (entry["input"], entry["input_version"], entry["settings_sha256"]) == (
            partition.name,
            partition.version,
            self._settings_sha256,
        )
        if not is_same or (entry["quarantine"] and self._recipe.on_bad_rows == "fail"):
            return None
        for name, digest in entry["files"].items():
            if self._store.digest(name) != digest:
                return None
        valid: dict[str, Any] = entry
        return valid

    def write(self) -> dict[str, Any]:
        """Compute the output, write it and then its entry, and return the entry."""
        files: dict[str, str] = {}
        number = self._partition.number
        numbers = _Numbers(self._work)
        quarantine: dict[str, Any] | None = None
        try:
            rows, numbers, digest = self._write_readable_rows()
            if digest is not None:
                files[output_name(number)] = digest
            if rows.bad or rows.unread:
                n_unread = sum(map(len, rows.unread))
                quarantine = {"rows": len(rows.bad) + n_unread}
            if quarantine and rows.bad:
                name = quarantine_name(number)
                files[name] = self._write_quarantine(name, rows.bad)
                reasons = dict(sorted(Counter(map(kind_of_problem, rows.bad.values())).items()))
                quarantine |= {"file": name, "reasons": reasons}
            if quarantine and rows.unread:
                quarantine["unread"] = [
                    {"first_row": group.start, "rows": len(group), "reason": reason}
                    for group, reason in rows.unread.items()
                ]
        except _CannotBeRead as error:
            quarantine = {"rows": error.n_rows, "reason": error.reason}
        self._check_is_current()
        stale = {output_name(number), quarantine_name(number)} - {*files}
        self._store.remove(sorted(stale))
        entry = {
            "partition": number,
            "input": self._partition.name,
            "input_version": self._partition.version,
            "settings_sha256": self._settings_sha256,
            "files": files,
            "quarantine": quarantine,
            **numbers.result(),
        }
        entry = dict(json.loads(dumps(entry)))
        entry["sha256"] = digest_of(entry)
        with self._store.writing(entry_name(number)) as path:
            path.write_text(dumps(entry, indent=1) + "\n", encoding="utf-8")
            self._check_is_current()
        return entry

    def _check_is_current(self) -> None:
        """Raise if the run of this task has ended, or another has begun since it was killed."""
        if not self._store.has_run(self._recipe.token):
            raise ScorewiseError(
                f"the run that this task belongs to no longer writes to {self._store.shown!r}"
            )

    # -- outputs -----------------------------------------------------------------------------------

    def _write_readable_rows(self) -> tuple[_GoodRows, _Numbers, str | None]:
        """Write the output of all row groups that can be read; raises if there is none.

        A file is read again where it seems corrupt, as a network may have failed.
        """
        unread: dict[range, str] = {}
        tried = set()
        while True:
            try:
                return self._write_output(unread)
            except _CannotBeRead as error:
                if error.rows not in tried and not is_local(self._recipe.dataset.filesystem):
                    tried.add(error.rows)
                    continue
                unread[error.rows] = error.reason
                if sum(map(len, unread)) == error.n_rows:
                    raise

    def _write_output(self, unread: Mapping[range, str]) -> tuple[_GoodRows, _Numbers, str | None]:
        """Write the columns of all good rows; return the rows, their numbers and the digest.

        There is no digest for work that writes no rows. ``unread`` are left out, with reasons.
        """
        rows = _GoodRows(self._partition, self._recipe, unread)
        numbers = _Numbers(self._work)
        number = self._partition.number

        def batches() -> Iterator[Columns]:
            for columns in rows:
                numbers.add(columns)
                yield _with_partition(columns, number)

        if not getattr(self._work, "writes_rows", True):
            for _ in batches():
                continue
            return rows, numbers, None
        metadata = {"input": self._partition.name, **self._recipe.settings}
        with self._store.writing(output_name(number)) as path:
            every = batches()
            write_arrow(path, ".parquet", next(every), every, metadata)
            digest = file_digest(path)
            self._check_is_current()
        return rows, numbers, digest

    def _write_quarantine(self, name: str, bad: Mapping[int, str]) -> str:
        """Write bad rows with all their columns and the reason; return the digest."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = self._recipe.dataset.read_rows(self._partition, np.array([*bad]))
        partitions = [self._partition.number] * len(bad)
        columns = {"partition": partitions, "row": [*bad], "reason": [*bad.values()]}
        for column, values in columns.items():
            while column in table.column_names:
                column = f"scorewise_{column}"
            table = table.append_column(column, pa.array(values))
        with self._store.writing(name) as path:
            pq.write_table(table, path)
            digest = file_digest(path)
            self._check_is_current()
        return digest


def _with_partition(columns: Columns, number: int) -> dict[str, np.ndarray]:
    """The columns, where rows without ids also have the number of their partition."""
    if "row" not in columns:
        return dict(columns)
    return {"partition": np.full(len(columns["row"]), number), **columns}


class _Numbers:
    """The summary and counts of a partition, whose columns are added a chunk at a time."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._by: str | None = getattr(work, "by", None)
        self._chunks: list[dict[str, np.ndarray]] = []
        self._counts: dict[str, np.ndarray] = {}
        self._n_rows = 0

    def add(self, columns: Columns) -> None:
        """Add a chunk."""
        self._n_rows += len(next(iter(columns.values())))
        names = [*self._work.names, *([] if self._by is None else [self._by])]
        self._chunks.append({name: columns[name] for name in names})
        for name, numbers in self._work.counts(columns).items():
            self._counts[name] = numbers + self._counts.get(name, np.int64(0))

    def result(self) -> dict[str, Any]:
        """Return what the entry says about the rows."""
        names = [*self._chunks[0]] if self._chunks else []
        columns = {name: np.concatenate([x[name] for x in self._chunks]) for name in names}
        groups: Any = () if self._by is None or not columns else columns.pop(self._by)
        return {
            "rows": self._n_rows,
            "summary": {name: summarize(values) for name, values in columns.items()},
            "groups": {
                group: {
                    name: summarize(values[groups == group]) for name, values in columns.items()
                }
                for group in sorted(set(groups))
            },
            "counts": {
                name: {"size": len(x), "index": np.flatnonzero(x), "count": x[x != 0]}
                for name, x in self._counts.items()
            },
        }


class _GoodRows:
    """The columns of the good rows of a partition, a chunk at a time.

    Attributes
    ----------
    bad : dict of int to str
        The bad rows that were met so far, in rising order, with reasons.
    unread : mapping of range to str
        The rows of damaged row groups, in rising order, with reasons.
    """

    def __init__(self, partition: Partition, recipe: _Recipe, unread: Mapping[range, str]) -> None:
        self._partition, self._dataset, self._work = partition, recipe.dataset, recipe.work
        self._sets_aside = recipe.on_bad_rows == "quarantine"
        self.bad: dict[int, str] = {}
        self.unread = unread
        try:
            self._predictions = self._dataset.read(partition)
        except InvalidInput as error:
            if self._sets_aside:
                raise _CannotBeRead(error.problem) from None
            raise

    def __iter__(self) -> Iterator[Columns]:
        n = len(self._predictions)
        ends = [*(group.start for group in self.unread), n]
        starts = [0, *(group.stop for group in self.unread)]
        has_columns = False
        for start, stop in zip(starts, ends, strict=True):
            for columns in self._good_columns(start, stop):
                has_columns = True
                yield columns
        if has_columns:
            return
        if n:  # all rows are bad: the output has no rows
            empty = self._work.columns(self._dataset.empty(1), 0)
            yield {name: values[:0] for name, values in empty.items()}
        else:
            [chunk] = self._chunks(self._predictions, 0, 0)
            yield self._columns(chunk, 0)

    def _good_columns(self, row: int, stop: int) -> Iterator[Columns]:
        """Yield the columns of the good rows from ``row`` to ``stop``."""
        while row < stop:
            try:
                for chunk in self._chunks(self._predictions, row, stop):
                    columns = self._columns(chunk, row)
                    row += len(chunk)
                    yield columns
            except InvalidInput:
                if not self._sets_aside:
                    raise
                group = self._row_group(row)
                end = min(group.stop, row + self._predictions.rows_of_chunk)
                yield from self._searched(row, end, group)
                row = end

    def _chunks(self, predictions: Predictions, start: int, stop: int) -> Iterator[Predictions]:
        fields = predictions.member_fields | self._work.fields
        return predictions.chunks(start=start, stop=stop, fields=fields)

    def _columns(self, chunk: Predictions, first_row: int) -> Columns:
        try:
            return self._work.columns(chunk, first_row)
        except InvalidInput as error:
            raise self._predictions.with_location(error) from None

    def _row_group(self, row: int) -> range:
        """The rows of the row group of a row; chunks lie within row groups."""
        bounds = [0, *self._predictions.row_group_starts, len(self._predictions)]
        i = bisect_right(bounds, row)
        return range(bounds[i - 1], bounds[i])

    def _searched(self, first: int, stop: int, group: range) -> Iterator[Columns]:
        """Yield the columns of the good rows of a chunk with bad ones, which are recorded."""
        try:
            table = self._dataset.read_rows(self._partition, np.arange(first, stop))
            predictions = predictions_of_table(
                table, self._predictions, first, **self._dataset.reading
            )
        except InvalidInput as error:
            raise _CannotBeRead(error.problem, group, len(self._predictions)) from None

        def search(start: int, stop: int) -> Iterator[Columns]:
            """Halve a range with bad rows until each is alone."""
            try:
                (chunk,) = self._chunks(predictions, start, stop)
                yield self._columns(chunk, first + start)
            except InvalidInput as error:
                if stop - start == 1:
                    self.bad[first + start] = error.problem
                    return
                middle = (start + stop) // 2
                yield from search(start, middle)
                yield from search(middle, stop)

        yield from search(0, stop - first)
