"""Clusters: the processes of this machine, or a scheduler at an address, whose workers are checked.

Results must not depend on which worker computes a partition. So every worker must have the same
version of scorewise, the same Python and the same major versions of NumPy and pyarrow.
"""

from __future__ import annotations

import platform
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from scorewise import _validate as validate
from scorewise._text import quoted
from scorewise._threads import processors
from scorewise._version import __version__
from scorewise.errors import InvalidInput, ScorewiseError

if TYPE_CHECKING:
    from distributed import Client

Scheduler = Any  # "local", "local:N", "tcp://HOST:PORT" or a distributed.Client

_LOCAL = re.compile(r"local(?::([0-9]+))?")
_ADDRESS = re.compile(r"[a-z]+://.+")
_SHARE = 0.9  # of the memory of this machine, for all workers together
_LOOK_EVERY = 5.0  # seconds between looks for workers
_watched: set[str] = set()  # clients whose workers are looked for


@contextmanager
def cluster(scheduler: Scheduler = "local") -> Iterator[Client]:
    """Yield a client of a Dask cluster whose workers can compute the same as this process.

    Use it to pass one cluster to several functions, rather than start one for each. If all workers
    are gone meanwhile, a warning says so, as work then waits for others.

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
        If there is no scheduler at the address. It is tried for 30 seconds, which Dask's setting
        ``distributed.comm.timeouts.connect`` changes.

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
        with _checked_workers(scheduler):
            yield scheduler
        return
    if local := _LOCAL.fullmatch(scheduler):
        n = processors() if local[1] is None else int(local[1])
        n_workers = validate.whole(n, "the number of workers after local:", at_least=1)
        with (
            _local_cluster(n_workers) as started,
            distributed.Client(started) as client,
            watching_workers(client),
        ):
            yield client
        return
    try:
        client = _interruptible_client()(scheduler, set_as_default=False)
    except (OSError, ValueError) as error:  # of the network, and of an address
        raise ScorewiseError(
            f"there is no Dask scheduler at {quoted(scheduler)}: {_first_line(error)}; start one "
            'by "dask scheduler", or use local:N for N processes of this machine'
        ) from None
    with client, _checked_workers(client):
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


def _interruptible_client() -> Any:
    """Return a class of clients that Ctrl-C ends at once, also while they connect."""

    class InterruptibleClient(_distributed().Client):  # type: ignore[misc]
        def start(self, **options: Any) -> None:
            try:
                super().start(**options)
            except KeyboardInterrupt:
                self.status = "closed"  # or it waits, when it is deleted, for what was begun
                raise

    return InterruptibleClient


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


# -- versions --------------------------------------------------------------------------------------


@contextmanager
def _checked_workers(client: Client) -> Iterator[None]:
    """Check workers first, and look for them in the block."""
    has_any = check_workers(client)
    if not has_any:
        warn_of_no_workers(client)
    with watching_workers(client, has_any=has_any):
        yield


def check_workers(client: Client) -> bool:
    """Raise unless all workers have the versions of this process; return whether there are any."""
    answers = _answers(client)
    for worker, there in answers.items():
        if isinstance(there, BaseException):
            raise InvalidInput(
                f"the worker {worker} could not say its versions: {_first_line(there)}"
            )
        _check_worker(worker, there)
    return bool(answers)


def blame_scheduler(client: Client) -> None:
    """Raise if graphs of tasks fail as the scheduler, which opens them, has another scorewise."""
    with reaching_scheduler():
        there = client.run_on_scheduler(_version_reader())
    _check_scorewise(f"scheduler {_address_of(client)}", "it runs", there)


def blame_workers(client: Client) -> None:
    """Raise if work fails as a worker that joined later has another environment."""
    for worker, there in _answers(client).items():
        if not isinstance(there, BaseException):  # others may have died
            _check_worker(worker, there)


def _answers(client: Client) -> dict[str, Any]:
    """Return the versions of each worker, or the error of asking it."""
    with reaching_scheduler():
        return dict(sorted(client.run(_version_reader(), on_error="return").items()))


def _address_of(client: Client) -> str:
    return "?" if client.scheduler is None else str(client.scheduler.address)


def warn_of_no_workers(client: Client) -> None:
    """Warn that no work is done until a worker is started."""
    address = _address_of(client)
    validate.warn(
        f"the scheduler at {address} has no workers; waiting for one: start some by "
        f'"dask worker {address}", where scorewise is installed'
    )


@contextmanager
def watching_workers(client: Client, *, has_any: bool = True) -> Iterator[None]:
    """Warn once, in the block, if all workers are gone and stay away.

    Work on a cluster waits for workers without a word. ``has_any`` says whether there are some at
    first, and is False if their lack is known.
    """
    if client.id in _watched:
        yield
        return
    ended = threading.Event()

    def look() -> None:
        had_workers, had_none = has_any, False
        while not ended.wait(_LOOK_EVERY):
            try:
                has_none = not client.nthreads()
            except Exception:  # the scheduler is lost, which the work itself reports
                return
            if has_none and had_none and had_workers:  # a restart takes less than that
                warn_of_no_workers(client)
            had_workers = not has_none or (had_workers and not had_none)
            had_none = has_none

    _watched.add(client.id)
    threading.Thread(target=look, name="scorewise-workers", daemon=True).start()
    try:
        yield
    finally:
        _watched.discard(client.id)
        ended.set()


def _check_worker(worker: str, there: dict[str, str | None]) -> None:
    name, here = f"worker {worker}", _version_reader()()
    _check_scorewise(name, "the worker runs", there)
    for package, n_parts in {"Python": 2, "NumPy": 1, "pyarrow": 1}.items():  # that matter
        if _beginning(there[package], n_parts) != _beginning(here[package], n_parts):
            raise _other_version(name, package, there, here)


def _check_scorewise(name: str, where: str, there: dict[str, str | None]) -> None:
    here = _version_reader()()
    if there["scorewise"] is None:
        raise InvalidInput(
            f"the {name} cannot import scorewise: install it where {where}, "
            f"pip install 'scorewise[dask]=={here['scorewise']}', and start it again"
        )
    if there["scorewise"] != here["scorewise"]:
        raise _other_version(name, "scorewise", there, here)


def _other_version(
    name: str, package: str, there: dict[str, str | None], here: dict[str, str | None]
) -> InvalidInput:
    return InvalidInput(
        f"the {name} has {package} {there[package]}, and this process {here[package]}; results "
        "could differ: use the same environment for both, and start it again"
    )


def _beginning(version: str | None, n: int) -> list[str] | None:
    return None if version is None else version.split(".")[:n]


def _version_reader() -> Callable[[], dict[str, str | None]]:
    """Return a function that workers without scorewise can run too, as it is sent by value."""

    def versions() -> dict[str, str | None]:
        import importlib
        import platform

        def version_of(module: str) -> str | None:
            try:
                return str(importlib.import_module(module).__version__)
            except ImportError:
                return None

        return {
            "scorewise": version_of("scorewise"),
            "Python": platform.python_version(),
            "NumPy": version_of("numpy"),
            "pyarrow": version_of("pyarrow"),
        }

    return versions


def check_own_version(version: str) -> None:
    """Raise, on a worker that joined later, if it has another version than the client."""
    if version != __version__:
        from distributed import get_worker

        raise ScorewiseError(
            f"the worker {get_worker().address} on {platform.node()} has scorewise "
            f"{__version__}, and the client {version}; use the same environment for both"
        )


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
