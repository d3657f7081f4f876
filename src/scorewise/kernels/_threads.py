"""Threads for kernels that leave Python's lock: one pool per process, made when first needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from scorewise import _validate as validate

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # microseconds of how many, or "max"
_LIMITS = ("SCOREWISE_NUM_THREADS", "OMP_NUM_THREADS", "OMP_THREAD_LIMIT")

_chosen: int | None = None
_pools: dict[int, ThreadPoolExecutor] = {}  # by their number of threads; at most one
_lock = threading.Lock()


def set_num_threads(n: int | None) -> None:
    """How many threads work on one large array at a time.

    Use it where several processes or threads share the processors; by default all that this process
    may use do, or fewer where ``SCOREWISE_NUM_THREADS``, ``OMP_NUM_THREADS`` or
    ``OMP_THREAD_LIMIT`` says so. Results do not depend on it.

    Parameters
    ----------
    n : int or None
        From 1 on, or None for the default.

    Raises
    ------
    InvalidInput
        If it is neither.

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.set_num_threads(1)
    >>> sw.get_num_threads()
    1
    >>> sw.set_num_threads(None)
    """
    global _chosen
    _chosen = None if n is None else validate.whole(n, "the number of threads", at_least=1)


def get_num_threads() -> int:
    """How many threads work on one large array at a time.

    Use it to see what :func:`scorewise.set_num_threads` and the environment have come to.

    Returns
    -------
    int

    Examples
    --------
    >>> import scorewise as sw
    >>> sw.get_num_threads() >= 1
    True
    """
    if _chosen is not None:
        return _chosen
    said = [os.environ.get(name, "").partition(",")[0].strip() for name in _LIMITS]
    limits = [int(text) for text in said if text.isdecimal() and int(text)]
    return min([_processors(), *limits])


def _processors() -> int:
    """How many processors this process may use, by its affinity and its container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no quota, or none that is said this way
        quota, period = _QUOTA.read_text().split()
        count = min(count, max(1, round(int(quota) / int(period))))
    return count


def run(tasks: Iterable[Callable[[], bool]], n_threads: int) -> bool:
    """Whether all tasks came out true; side by side, on so many threads."""
    tasks = list(tasks)
    if n_threads == 1 or len(tasks) == 1:
        return all(task() for task in tasks)
    return all(_executor(n_threads).map(lambda task: task(), tasks))


def _executor(n_threads: int) -> ThreadPoolExecutor:
    with _lock:
        if n_threads not in _pools:
            _pools.clear()  # what still runs there goes on, and its threads end after it
            _pools[n_threads] = ThreadPoolExecutor(n_threads, thread_name_prefix="scorewise")
        return _pools[n_threads]


def _forget() -> None:
    """A forked child has none of its parent's threads, and must not wait for their lock."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
