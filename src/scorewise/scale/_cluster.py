"""Clusters: the processes of this machine, or a scheduler at an address, whose workers are checked.

Results must not depend on which worker computes a partition. So every worker must have the same
version of scorewise, the same Python and the same major versions of NumPy and pyarrow. Workers are
compared before any work is sent; one that joins later compares itself, by a plugin of Dask, and
leaves before it computes anything.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scorewise import _validate as validate
from scorewise._text import quoted
from scorewise._threads import processors
from scorewise.errors import InvalidInput, ScorewiseError

if TYPE_CHECKING:
    from distributed import Client

Scheduler = Any  # "local", "local:N", "tcp://HOST:PORT" or a distributed.Client

_LOCAL = re.compile(r"local(?::([0-9]+))?")
_ADDRESS = re.compile(r"[a-z]+://.+")
_SHARE = 0.9  # of the memory of this machine, for all workers together
_LOOK_EVERY = 5.0  # seconds between looks for workers

# By package: the version, and the part of it that must be the same; None if it cannot be imported.
Versions = dict[str, tuple[str | None, str | None]]


@contextmanager
def cluster(scheduler: Scheduler = "local") -> Iterator[Client]:
    """Yield a client of a Dask cluster whose workers can compute the same as this process.

    Use it to pass one cluster to several functions, rather than start one for each. A worker that
    joins in the block and cannot compute the same gets no work and is closed; a warning names it.
    If all workers are gone meanwhile, a warning says so, as work then waits for others.

    Parameters
    ----------
    scheduler : str or distributed.Client
        ``"local"`` starts a process for each processor that this process may use, ``"local:N"``
        starts N; each computes in one thread, and they end with the block. ``"tcp://HOST:PORT"`` or
        ``"tls://HOST:PORT"`` is the address of a scheduler. A client is yielded as it is, and not
        closed.

    Yields
    ------
    distributed.Client

    Raises
    ------
    InvalidInput
        If a worker lacks scorewise or has another version of it, of Python, NumPy or pyarrow; the
        message names the worker and both versions.
    ScorewiseError
        If there is no scheduler at the address, or another program. It is tried for 30 seconds,
        which Dask's setting ``distributed.comm.timeouts.connect`` changes.

    Examples
    --------
    >>> from distributed import Client
    >>> from scorewise.scale import cluster
    >>> with Client(processes=False, dashboard_address=":0") as started, cluster(started) as client:
    ...     print(client.submit(sum, [1, 2]).result())
    3
    """
    distributed = _distributed()
    check_scheduler(scheduler)
    if isinstance(scheduler, distributed.Client):
        with checked_workers(scheduler):
            yield scheduler
        return
    if local := _LOCAL.fullmatch(scheduler):
        n = processors() if local[1] is None else int(local[1])
        n_workers = validate.whole(n, "the number of workers after local:", at_least=1)
        with (
            _local_cluster(n_workers) as started,
            distributed.Client(started) as client,
            checked_workers(client),
        ):
            yield client
        return
    try:
        client = _client_class()(scheduler, set_as_default=False)
    except Exception as error:  # of the network, of an address, or of what another program answers
        # what another program answers may begin with the length of a message of exabytes
        what = "another program answers" if isinstance(error, MemoryError) else _first_line(error)
        raise ScorewiseError(
            f"there is no Dask scheduler at {quoted(scheduler)}: {what}; start one by "
            '"dask scheduler", or use local:N for N processes of this machine'
        ) from None
    with client, checked_workers(client):
        yield client


def check_scheduler(scheduler: Scheduler) -> None:
    """Raise unless it is a client, or a text that names a cluster."""
    if isinstance(scheduler, _distributed().Client):
        return
    is_known = isinstance(scheduler, str) and any(
        form.fullmatch(scheduler) for form in (_LOCAL, _ADDRESS)
    )
    if not is_known:
        raise InvalidInput(
            f"the scheduler must be 'local', 'local:N', the address of a Dask scheduler such as "
            f"'tcp://HOST:8786', or a distributed.Client, not {quoted(scheduler)}"
        )


def _distributed() -> Any:
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise ImportError(f"clusters need {error.name}: pip install 'scorewise[dask]'") from error
    return distributed


def _client_class() -> Any:
    """Return a class of clients that end at once if they cannot connect, or at Ctrl-C meanwhile."""

    class ImpatientClient(_distributed().Client):  # type: ignore[misc]
        def start(self, **options: Any) -> None:
            try:
                super().start(**options)
            except BaseException:
                self.status = "closed"  # or it waits, when it is deleted, for what was begun
                raise

    return ImpatientClient


@contextmanager
def _local_cluster(n_workers: int) -> Iterator[Any]:
    """Yield a cluster of processes on this machine, with one kernel thread each."""
    distributed = _distributed()
    import dask.config
    from distributed.system import MEMORY_LIMIT

    # in the environment before a process starts: its logging is set up when Dask is imported
    name = "distributed.nanny.pre-spawn-environ"
    environment = {"SCOREWISE_NUM_THREADS": "1", "DASK_LOGGING__DISTRIBUTED": "critical"}
    with ExitStack() as stack:
        with (
            dask.config.set({name: {**dask.config.get(name), **environment}}),
            _ignoring_interrupts(),
        ):
            started = distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                memory_limit=int(_SHARE * MEMORY_LIMIT / n_workers),
            )
            stack.enter_context(started)
        yield started


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C in the block, and for good in processes that are started in it.

    A cluster that is half started cannot be closed. A terminal sends Ctrl-C to all processes, but
    workers are ended by their client.
    """
    if threading.current_thread() is not threading.main_thread():  # others cannot set a handler
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler or signal.default_int_handler)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# -- workers ---------------------------------------------------------------------------------------


@dataclass
class _Check:
    """The check of a client's workers, which blocks share that run at the same time."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    n_blocks: int = 0
    started: ExitStack = field(default_factory=ExitStack)


_checks: WeakKeyDictionary[Client, _Check] = WeakKeyDictionary()
_checks_lock = threading.Lock()


@contextmanager
def checked_workers(client: Client) -> Iterator[None]:
    """Let only workers with the versions of this process compute in the block.

    Raises if one of those that are there has others. Work on a cluster waits for workers, and says
    nothing: so there is a warning if there are none, or if all are gone in the block and stay away.
    """
    with _checks_lock:
        check = _checks.setdefault(client, _Check())
    with check.lock:
        if check.n_blocks == 0:
            with ExitStack() as stack:
                stack.enter_context(_closing_other_workers(client))
                has_any = _check_workers(client)
                if not has_any:
                    _warn_of_no_workers(client)
                stack.enter_context(_looking_for_workers(client, has_any))
                check.started = stack.pop_all()
        check.n_blocks += 1
    try:
        yield
    finally:
        with check.lock:
            check.n_blocks -= 1
            if check.n_blocks == 0:
                check.started.close()


def _check_workers(client: Client) -> bool:
    """Raise unless all workers have the versions of this process; return whether there are any."""
    with reaching_scheduler():
        answers = client.run(_version_reader(), on_error="return")
    for worker, there in sorted(answers.items()):
        if isinstance(there, OSError) and _is_gone(client, worker):
            continue
        if isinstance(there, BaseException):
            raise InvalidInput(
                f"the worker {worker} could not say its versions: {_first_line(there)}"
            )
        if problem := _problem_of_worker(worker, there):
            raise InvalidInput(problem)
    return bool(answers)


def _is_gone(client: Client, worker: str) -> bool:
    """Return whether a worker that did not answer has died, which the scheduler sees soon."""
    for _ in range(20):
        with reaching_scheduler():
            if worker not in client.nthreads():
                return True
        time.sleep(_LOOK_EVERY / 20)
    return False


@contextmanager
def _closing_other_workers(client: Client) -> Iterator[None]:
    """Close workers that join in the block with other versions, and warn of each."""
    import cloudpickle

    prefix = "scorewise-"
    name = f"{prefix}{client.id}"

    def warn(event: tuple[float, dict[str, Any]]) -> None:
        worker, there = event[1]["worker"], event[1]["versions"]
        validate.warn(f"{_problem_of_worker(worker, there)}; it was closed, and got no work")

    packed = cloudpickle.dumps(_same_versions_plugin(client.id, name))

    # Client.register_plugin would send it to the workers that are there too, and fail if one dies.
    def add(dask_scheduler: Any) -> None:
        plugins = dask_scheduler.worker_plugins
        for other in [x for x in plugins if x.startswith(prefix)]:
            if other.removeprefix(prefix) not in dask_scheduler.clients:  # it was killed
                del plugins[other]
        plugins[name] = packed

    def remove(dask_scheduler: Any) -> None:
        dask_scheduler.worker_plugins.pop(name, None)

    with reaching_scheduler():
        client.subscribe_topic(name, warn)
        client.run_on_scheduler(add)
    try:
        yield
    finally:
        if client.status == "running":
            with suppress(OSError, ScorewiseError), reaching_scheduler():
                client.unsubscribe_topic(name)
                client.run_on_scheduler(remove)


@contextmanager
def _looking_for_workers(client: Client, has_any: bool) -> Iterator[None]:
    """Warn once, in the block, if all workers are gone and stay away."""
    ended = threading.Event()

    def look() -> None:
        had_workers, had_none = has_any, False
        while not ended.wait(_LOOK_EVERY):
            try:
                has_none = not client.nthreads()
            except Exception:  # the scheduler is lost, which the work itself reports
                return
            if has_none and had_none and had_workers:  # a restart takes less than that
                _warn_of_no_workers(client)
            had_workers = not has_none or (had_workers and not had_none)
            had_none = has_none

    threading.Thread(target=look, name="scorewise-workers", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _warn_of_no_workers(client: Client) -> None:
    """Warn that no work is done until a worker is started."""
    address = _address_of(client)
    validate.warn(
        f"the scheduler at {address} has no workers; waiting for one: start some by "
        f'"dask worker {address}", where scorewise is installed'
    )


def blame_scheduler(client: Client) -> None:
    """Raise if graphs of tasks fail as the scheduler, which opens them, has another scorewise."""
    with reaching_scheduler():
        there = client.run_on_scheduler(_version_reader())
    of_scorewise = {"scorewise": there["scorewise"]}
    if problem := _problem_of(f"scheduler {_address_of(client)}", "it runs", of_scorewise):
        raise InvalidInput(problem)


def _address_of(client: Client) -> str:
    return "?" if client.scheduler is None else str(client.scheduler.address)


# -- versions --------------------------------------------------------------------------------------


def _problem_of_worker(worker: str, there: Versions) -> str | None:
    """Return how a worker's versions differ from those of this process; None if they do not."""
    return _problem_of(f"worker {worker}", "the worker runs", there)


def _problem_of(name: str, where: str, there: Versions) -> str | None:
    here = _version_reader()()
    if there["scorewise"][0] is None:
        return (
            f"the {name} cannot import scorewise: install it where {where}, "
            f"pip install 'scorewise[dask]=={here['scorewise'][0]}', and start it again"
        )
    for package, (version, part) in there.items():
        if part != here[package][1]:
            return (
                f"the {name} has {package} {version}, and this process {here[package][0]}; results "
                "could differ: use the same environment for both, and start it again"
            )
    return None


# What workers without scorewise can run is sent by value: a function makes it, and it uses nothing
# else of this module.


def _version_reader() -> Callable[[], Versions]:
    """Return a function that returns the versions of the process that it runs in."""

    def versions() -> Versions:
        import importlib
        import platform

        def version_of(module: str, n_parts: int | None = None) -> tuple[str | None, str | None]:
            try:
                version = str(importlib.import_module(module).__version__)
            except Exception:  # it is damaged, or a folder of that name
                return None, None
            return version, ".".join(version.split(".")[:n_parts])

        python = platform.python_version_tuple()
        return {
            "scorewise": version_of("scorewise"),
            "Python": (".".join(python), ".".join(python[:2])),
            "NumPy": version_of("numpy", 1),
            "pyarrow": version_of("pyarrow", 1),
        }

    return versions


def _same_versions_plugin(client_id: str, topic: str) -> Any:
    """Return a plugin by which a worker with other versions than this process closes itself.

    It tells the client so by an event. After a client was killed its plugin does nothing.
    """
    from distributed import Status, WorkerPlugin

    read = _version_reader()
    here = read()

    class SameVersions(WorkerPlugin):  # type: ignore[misc]
        async def setup(self, worker: Any) -> None:
            import cloudpickle

            def has_client(dask_scheduler: Any) -> bool:
                return client_id in dask_scheduler.clients

            there = read()
            differ = [package for package in here if there[package][1] != here[package][1]]
            if not differ:
                return
            packed = cloudpickle.dumps(has_client)
            answer = await worker.scheduler.run_function(function=packed)
            if not answer["result"]:
                return
            worker.log_event(topic, {"worker": worker.address, "versions": there})
            # Tasks that have been sent to it are not begun, and given to another worker.
            worker.status = Status.closing_gracefully
            await worker.scheduler.retire_workers(
                workers=[worker.address], close_workers=True, remove=True, stimulus_id=topic
            )
            versions = (f"{x} {there[x][0]} instead of {here[x][0]}" for x in differ)
            raise RuntimeError(  # in the worker's log
                f"this worker is closed, because its versions differ: {', '.join(versions)}"
            )

    return SameVersions()


@contextmanager
def reaching_scheduler() -> Iterator[None]:
    """Raise a clear error if the scheduler is lost."""
    from asyncio import CancelledError as AsyncCancelledError
    from concurrent.futures import CancelledError

    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    try:
        yield
    except (CancelledError, AsyncCancelledError, ClosedClientError, CommClosedError) as error:
        raise ScorewiseError(
            f"the scheduler was lost, or has cancelled the work ({_first_line(error)}); start it "
            "again and repeat the command"
        ) from None
