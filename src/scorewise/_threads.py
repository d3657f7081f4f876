"""Threads for kernels that release the GIL: one pool per process, made on first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
    return min([_processors(), *limits])


def _processors() -> int:
    """The number of processors this process may use, by its affinity and its container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no quota, or not in this format
        quota, period = _QUOTA.read_text().split()
        count = min(count, max(1, round(int(quota) / int(period))))
    return count


def run_in_threads(tasks: Iterable[Callable[[], bool]], n_threads: int) -> bool:
    """Return whether all tasks return true, run in parallel on ``n_threads`` threads."""
    tasks = list(tasks)
    if len(tasks) == 1:
        return tasks[0]()
    if n_threads == 1:
        return all(task() for task in tasks)
    return all(_executor(n_threads).map(lambda task: task(), tasks))


def _executor(n_threads: int) -> ThreadPoolExecutor:
    with _lock:
        if n_threads not in _pools:
            _pools.clear()  # running tasks finish, then their threads end
            _pools[n_threads] = ThreadPoolExecutor(n_threads, thread_name_prefix="scorewise")
        return _pools[n_threads]


def _reset_after_fork() -> None:
    """Drop the pools in a forked child, which has none of its parent's threads."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
