"""Threads for kernels that release the GIL: one pool per process, made on first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path

from scorewise import _validate as validate

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # quota and period in microseconds; the quota may be "max"
_LIMITS = ("SCOREWISE_NUM_THREADS", "OMP_NUM_THREADS", "OMP_THREAD_LIMIT")

_num_threads: int | None = None
_pools: dict[int, ThreadPoolExecutor] = {}  # by number of threads; at most one pool
_lock = threading.Lock()


def set_num_threads(n: int | None) -> None:
    """Set the number of threads that process a large array.

    Use it where several processes or threads share the processors. By default a thread runs on each
    processor that this process may use, or fewer if ``SCOREWISE_NUM_THREADS``, ``OMP_NUM_THREADS``
    or ``OMP_THREAD_LIMIT`` is smaller. Results do not depend on it.

    Parameters
    ----------
    n : int or None
        From 1 on, or None for the default.

    Raises
    ------
    InvalidInput
        If ``n`` is neither.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.set_num_threads(1)
    >>> sw.get_num_threads()
    1
    >>> sw.set_num_threads(None)
    """
    global _num_threads
    _num_threads = None if n is None else validate.whole(n, "the number of threads", at_least=1)


def get_num_threads() -> int:
    """Return the number of threads that process a large array.

    Use it to see the effect of :func:`scorewise.set_num_threads` and of the environment.

    Returns
    -------
    int

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.get_num_threads() >= 1
    True
    """
    if _num_threads is not None:
        return _num_threads
    values = [os.environ.get(name, "").partition(",")[0].strip() for name in _LIMITS]
    limits = [int(text) for text in values if text.isdecimal() and int(text)]
    return min([processors(), *limits])


def processors() -> int:
    """The number of processors this process may use, by its affinity and its container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no quota, or not in this format
        quota, period = _QUOTA.read_text().split()
        count = min(count, max(1, round(int(quota) / int(period))))
    return count


def run_in_threads(tasks: Iterable[Callable[[], bool]], n_threads: int) -> bool:
    """Return whether all tasks return true, run in parallel on ``n_threads`` threads."""
    return run_in_stages([tasks], n_threads)


def run_in_stages(stages: Iterable[Iterable[Callable[[], bool]]], n_threads: int) -> bool:
    """Return whether all tasks return true, each stage run when all of the one before it were.

    The calling thread is one of ``n_threads``. None of them waits for a task that no thread has
    begun, so that several callers may share the pool.
    """
    work = _Stages([list(tasks) for tasks in stages])
    if n_threads == 1 or work.most_tasks <= 1:
        return all(task() for tasks in work.stages for task in tasks)
    helpers = min(n_threads, work.most_tasks) - 1
    futures = [_executor(n_threads).submit(work.run) for _ in range(helpers)]
    try:
        work.run()
        work.wait()
    except BaseException:  # an interrupt: no thread may go on when the caller does
        work.stop()
        wait([future for future in futures if not future.cancel()])
        raise
    for future in futures:
        future.cancel()
    work.clear()  # a cancelled call stays in the queue of a busy pool, and would keep the tasks
    return work.is_done()


class _Stages:
    """Tasks in stages, of which threads take one after the other."""

    def __init__(self, stages: list[list[Callable[[], bool]]]) -> None:
        self.stages = stages
        self.most_tasks = max(map(len, stages), default=0)
        self._stage = self._next = self._n_running = 0
        self._is_stopped = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def run(self) -> None:
        """Run tasks until there are no more, or one of them failed."""
        while (task := self._take()) is not None:
            succeeded, error = False, None
            try:
                succeeded = task()
            except BaseException as raised:  # the caller raises it
                error = raised
            with self._changed:
                self._n_running -= 1
                self._is_stopped |= not succeeded
                self._error = self._error or error
                self._changed.notify_all()

    def _take(self) -> Callable[[], bool] | None:
        with self._changed:
            while not self._is_stopped and self._stage < len(self.stages):
                tasks = self.stages[self._stage]
                if self._next < len(tasks):
                    self._next += 1
                    self._n_running += 1
                    return tasks[self._next - 1]
                if self._n_running:
                    self._changed.wait()
                else:
                    self._stage, self._next = self._stage + 1, 0
            return None

    def wait(self) -> None:
        """Wait for the tasks that still run."""
        with self._changed:
            self._changed.wait_for(lambda: not self._n_running)

    def stop(self) -> None:
        """Let no thread take another task."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def clear(self) -> None:
        """Drop all tasks, and what they hold."""
        with self._changed:
            self.stages.clear()

    def is_done(self) -> bool:
        """Return whether all tasks succeeded; raise what one of them raised."""
        if self._error is not None:
            raise self._error
        return not self._is_stopped


class _BlasLimit:
    """A thread that limits BLAS to one thread, as long as there are callers that want it.

    Only the thread that sets a limit can lift it, and callers end in any order.
    """

    def __init__(self) -> None:
        self._n_callers = 0
        self._is_set, self._is_done = threading.Event(), threading.Event()
        self._holder: threading.Thread | None = None

    def _hold(self) -> None:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, "blas"):
            self._is_set.set()
            self._is_done.wait()

    def add_caller(self) -> None:
        """Set the limit, if this is the first caller."""
        with _lock:
            self._n_callers += 1
            if self._n_callers == 1:
                self._is_set.clear()
                self._is_done.clear()
                self._holder = threading.Thread(target=self._hold, daemon=True)
                self._holder.start()
                self._is_set.wait()

    def remove_caller(self) -> None:
        """Lift the limit, if this was the last caller."""
        with _lock:
            self._n_callers -= 1
            if self._n_callers == 0 and self._holder is not None:
                self._is_done.set()
                self._holder.join()


_blas_limit = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS start no threads, which would only wait for each other in small products.

    The limit holds for the whole process until the last of several callers is done.
    """
    limit = _blas_limit  # a forked child has another
    limit.add_caller()
    try:
        yield
    finally:
        limit.remove_caller()


def _executor(n_threads: int) -> ThreadPoolExecutor:
    """The threads that work besides the calling one, for all callers together."""
    with _lock:
        if n_threads not in _pools:
            _pools.clear()  # running tasks finish, then their threads end
            _pools[n_threads] = ThreadPoolExecutor(n_threads - 1, thread_name_prefix="scorewise")
        return _pools[n_threads]


def _reset_after_fork() -> None:
    """Drop the pools in a forked child, which has none of its parent's threads."""
    global _lock, _blas_limit
    _lock = threading.Lock()
    _blas_limit = _BlasLimit()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
