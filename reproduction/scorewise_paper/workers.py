"""Cells that this process computes, or the workers of a Dask cluster.

A forest is one task. Networks that learn side by side are one task too: they need a device, so a
worker takes one such group at a time. A task whose worker is lost is computed by another. Groups
write their checkpoints into the folder of results, if workers can reach it, so that the other
worker continues from there; otherwise it begins again.
"""

from __future__ import annotations

import pickle
import platform
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import uuid4

from joblib import Parallel, delayed

from scorewise_paper._files import marked, progress_bar
from scorewise_paper.errors import CorruptData, InvalidInput, MissingData, ScorewiseError
from scorewise_paper.results import Cell, Result, Store
from scorewise_paper.runs import Setup

Computed = TypeVar("Computed")
ComputeGroup = Callable[[Setup, Sequence[Cell]], Iterator[tuple[Cell, Result]]]

_LOOK_EVERY = 0.1  # seconds between looks for workers that are free
_IS_COMPUTING = threading.Lock()  # a group of networks, in this process


def in_parallel(
    setup: Setup, function: Callable[..., Computed], cells: Sequence[Cell], *columns: Sequence[Any]
) -> Iterator[Computed]:
    """Yield what a function returns for cells, in the order in which they finish.

    It is called with the setup, a cell, and the value of the cell in each of the ``columns``. The
    scheduler of the setup passes cells to its workers; without one, joblib's configuration decides.
    Not joblib's backend for Dask: it waits forever if workers die or lack a package.

    Raises
    ------
    InvalidInput
        If a worker lacks a package or has another version of it.
    MissingData, CorruptData
        If a worker lacks the data, or has others; the message names the worker.
    ScorewiseError
        If there is no scheduler at the address, or workers die.

    Examples
    --------
    >>> from scorewise_paper import Setup
    >>> from scorewise_paper.results import Cell
    >>> from scorewise_paper.workers import in_parallel
    >>> cells = [Cell("figure-1", 1, {"run": run}) for run in range(3)]
    >>> def next_run(setup, cell):
    ...     return cell.setting["run"] + 1
    >>> sorted(in_parallel(Setup("results"), next_run, cells))
    [1, 2, 3]
    """
    if not cells:
        return
    calls = [(cell, *values) for cell, *values in zip(cells, *columns, strict=True)]
    if setup.scheduler is None:
        parallel = Parallel(n_jobs=setup.n_jobs, return_as="generator_unordered")
        yield from parallel(delayed(function)(setup, *call) for call in calls)
        return
    from scorewise.scale import cluster

    with cluster(setup.scheduler) as client, _clear_errors(client, __package__):
        from distributed import as_completed

        sent = partial(_cell_on_worker, function, _without_cluster(setup))
        futures = [_submitted(client, sent, *call) for call in calls]
        for future in as_completed(futures, loop=client.loop):
            yield future.result()


def in_groups(
    setup: Setup,
    compute: ComputeGroup,
    groups: Sequence[Sequence[Cell]],
    forget: Callable[[Setup, Sequence[Cell]], None] = lambda setup, cells: None,
) -> Iterator[tuple[Cell, Result]]:
    """Yield the results of groups of cells whose networks learn side by side on a device.

    In this process one group after the other; on the scheduler of the setup each worker takes one
    at a time. Results do not depend on that.

    Parameters
    ----------
    setup : Setup
    compute : callable
        Yields the results of a group, for a setup whose folders and device are those of the
        process that computes. Sent by its name.
    groups : sequence of sequences of Cell
    forget : callable
        Called for a group when all of its results are used, to remove its checkpoints.

    Yields
    ------
    cell : Cell
    result : Result

    Raises
    ------
    InvalidInput
        If a worker lacks a package, or has another version of it, or lacks the device.
    MissingData, CorruptData
        If a worker lacks the data, or has others; the message names the worker.
    ScorewiseError
        If there is no scheduler at the address, or workers die.
    """
    if setup.scheduler is None:
        for group in groups:
            yield from compute(setup, group)
            forget(setup, group)
        return
    from scorewise.scale import cluster

    with (
        cluster(setup.scheduler) as client,
        _clear_errors(client, __package__, "torch"),
        closing(_results_of_groups(client, setup, compute, groups)) as results,
    ):
        for group, computed in results:
            yield from computed
            forget(setup, group)


def _results_of_groups(
    client: Any, setup: Setup, compute: ComputeGroup, groups: Sequence[Sequence[Cell]]
) -> Generator[tuple[Sequence[Cell], list[tuple[Cell, Result]]], None, None]:
    """Yield each group with its results; no worker gets a second group before its first is done."""
    waiting = deque(enumerate(groups))
    running: dict[Any, tuple[str, int]] = {}  # by future: the worker's address, and the group
    locks = setup.store.folder / ".locks"
    with marked(locks / "run") as mark, _shown_progress(client, setup, len(groups)) as topic:
        task = _GroupTask(compute, _without_cluster(setup), mark.absolute(), topic)
        try:
            while waiting or running:
                for address in _free_workers(client, running.values()) if waiting else ():
                    number, group = waiting.popleft()
                    future = _submitted(
                        client,
                        task,
                        number,
                        group,
                        workers=[address],
                        allow_other_workers=True,  # if this one is lost
                    )
                    running[future] = address, number
                    if not waiting:
                        break
                finished = [future for future in running if future.done()]
                for future in finished:
                    _, number = running.pop(future)
                    yield groups[number], future.result()
                if not finished:
                    time.sleep(_LOOK_EVERY)
        finally:
            if client.status == "running":
                client.cancel([*running])


def _submitted(client: Any, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the future of a call, as bytes for a worker: the scheduler may lack its packages."""
    import cloudpickle
    from toolz import compose

    call = compose(methodcaller("__call__"), pickle.loads)
    packed = cloudpickle.dumps(partial(function, *arguments))
    return client.submit(call, packed, pure=False, key=f"scorewise-paper-{uuid4().hex}", **options)


def _free_workers(client: Any, running: Iterable[tuple[str, int]]) -> list[str]:
    """Return the addresses of workers without a group."""
    return sorted(client.nthreads().keys() - {address for address, _ in running})


@contextmanager
def _shown_progress(client: Any, setup: Setup, n_groups: int) -> Iterator[str]:
    """Show a bar of groups, and yield the topic under which workers report their steps."""
    topic = f"scorewise-paper-{uuid4().hex}"
    shares = [0.0] * n_groups
    report = setup.progress if callable(setup.progress) else None
    shown = False if report else setup.progress
    with progress_bar("groups of networks", n_groups, shown, unit_scale=True) as bar:

        def show(event: tuple[float, dict[str, Any]]) -> None:
            step = event[1]
            if report is not None:
                report(step["task"], step["done"], step["total"])
                return
            share = step["done"] / max(1, step["total"])
            shares[step["group"]] = min(1.0, max(shares[step["group"]], share))
            bar.set_postfix_str(f"{step['task']}: {step['done']} of {step['total']}", refresh=False)
            bar.update(min(sum(shares), n_groups) - bar.n)

        client.subscribe_topic(topic, show)
        try:
            yield topic
        finally:
            if client.status == "running":
                client.unsubscribe_topic(topic)


def _without_cluster(setup: Setup) -> Setup:
    """Return the setup for another process, with whole paths."""
    weights_dir = None if setup.weights_dir is None else setup.weights_dir.absolute()
    store = Store(setup.store.folder.absolute())
    return replace(
        setup, store=store, weights_dir=weights_dir, scheduler=None, progress=False, gaps={}
    )


@contextmanager
def _clear_errors(client: Any, *packages: str) -> Iterator[None]:
    """Raise a clear error if workers lack packages or die, or the scheduler is lost."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    again = "Finished results are stored: run the same again"
    try:
        _check_packages(client, *packages)
        try:
            yield
        except ImportError:  # of a worker that joined later
            _check_packages(client, *packages)
            raise
    except KilledWorker as error:
        raise ScorewiseError(
            f"workers of the cluster died, perhaps for lack of memory: {error} {again}, with more "
            "memory for each worker"
        ) from None
    except (CancelledError, CommClosedError):
        raise ScorewiseError(
            f"the scheduler was lost, or has cancelled the work. {again}"
        ) from None


def _check_packages(client: Any, *names: str) -> None:
    """Raise unless all workers can import packages: this one, and those that its cells need."""

    def problem() -> tuple[str, str] | None:  # sent by value, as a worker may lack this module
        for name in names:
            try:
                __import__(name)
            except ImportError as error:
                return name, str(error)
        return None

    for worker, found in client.run(problem).items():
        if found is not None:
            name, text = found
            raise InvalidInput(
                f"the worker {worker} cannot import {name}: {text}; install ./reproduction where "
                "the worker runs, and start it again"
            )


# -- on a worker -----------------------------------------------------------------------------------


def _cell_on_worker(
    function: Callable[..., Computed], setup: Setup, cell: Cell, *values: Any
) -> Computed:
    """Return what a function returns for a cell."""
    with _naming_worker():
        _check_data(setup, cell)
        return function(setup, cell, *values)


@dataclass(frozen=True)
class _GroupTask:
    """The work on groups; ``mark`` is a file in the client's folder of results, during its run."""

    compute: ComputeGroup
    setup: Setup
    mark: Path
    topic: str

    def __call__(self, number: int, cells: Sequence[Cell]) -> list[tuple[Cell, Result]]:
        """Return the results of a group, in the precision in which they are stored."""
        with _IS_COMPUTING, self._reachable_store() as store, _naming_worker():
            setup = replace(self.setup, store=store, progress=self._report(number))
            for cell in cells:
                _check_data(setup, cell)
            return [(cell, result.compact()) for cell, result in self.compute(setup, cells)]

    @contextmanager
    def _reachable_store(self) -> Iterator[Store]:
        """Yield the client's folder of results, or one for this task if it cannot be reached."""
        if self.mark.is_file():
            yield self.setup.store
            return
        with TemporaryDirectory() as folder:
            yield Store(folder)

    def _report(self, number: int) -> Callable[[str, int, int], None]:
        from distributed import get_worker

        worker = get_worker()
        key = worker.get_current_task()

        def report(task: str, done: int, total: int) -> None:
            step = {"group": number, "task": task, "done": done, "total": total}
            worker.log_event(self.topic, step)
            own = worker.state.tasks.get(key)
            if own is None or own.state == "cancelled":
                raise ScorewiseError("the run that these cells belong to has ended")

        return report


def _check_data(setup: Setup, cell: Cell) -> None:
    """Raise unless the data are those for which the cell was made."""
    for name, described in cell.setting["sets"].items():
        data, split = name.split("/")
        here = setup.described((data, split))[name]
        if here["digest"] != described["digest"]:
            raise CorruptData(f"{name} has other content than where the command was given")


@contextmanager
def _naming_worker() -> Iterator[None]:
    """Name the worker in errors about what it lacks, and say what to do."""
    from distributed import get_worker

    try:
        yield
    except (MissingData, CorruptData, InvalidInput) as error:
        where = f"the worker {get_worker().address} on {platform.node()}"
        advice = (
            "; workers read data sets and weights at the same path as the command"
            if isinstance(error, MissingData | CorruptData)
            else ""
        )
        raise type(error)(f"{where}: {error.problem}{advice}", *error.remedies) from None
