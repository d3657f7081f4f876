"""Trees that reduce the results of many tasks, and their computation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from scorewise.errors import ScorewiseError
from scorewise.scale._cluster import blame_scheduler, checked_workers, reaching_scheduler

SPLIT_EVERY = 8  # results that are merged at a time

Part = TypeVar("Part")


def reduce_by_groups(
    parts: Sequence[Part], merge: Callable[[list[Part]], Part], split_every: int = SPLIT_EVERY
) -> Part:
    """Return what is left when neighbours are merged a few at a time, again and again."""
    parts = list(parts)
    while len(parts) > 1:
        groups = [parts[i : i + split_every] for i in range(0, len(parts), split_every)]
        parts = [merge(group) if len(group) > 1 else group[0] for group in groups]
    return parts[0]


def merge_tree(
    parts: Sequence[Any], merge: Callable[[list[Any]], Any], split_every: int = SPLIT_EVERY
) -> Any:
    """Return the task whose result is what ``merge`` makes of the results of all tasks."""
    import dask

    return reduce_by_groups(parts, dask.delayed(merge), split_every)


def computed(*tasks: Any) -> tuple[Any, ...]:
    """Return the results of tasks, from the current scheduler of Dask.

    Raises
    ------
    InvalidInput
        If the scheduler or a worker lacks scorewise, or has another version of it.
    ScorewiseError
        If several workers died while they computed a task, or the scheduler is lost.
    """
    import dask

    with clear_errors():
        return tuple(dask.compute(*tasks))


def persisted(*tasks: Any) -> tuple[Any, ...]:
    """Return tasks whose results stay on the workers; raises as above."""
    import dask

    with clear_errors():
        return tuple(dask.persist(*tasks))


@contextmanager
def clear_errors() -> Iterator[None]:
    """Check workers, warn if none is left, and let errors of a cluster say what to do.

    Around several computations it checks workers once, and those that join in between.
    """
    import dask

    distributed = sys.modules.get("distributed")
    client = getattr(dask.base.get_scheduler(), "__self__", None)  # None: threads of this process
    if distributed is None or not isinstance(client, distributed.Client):
        yield
        return
    try:
        with reaching_scheduler(), checked_workers(client):
            yield
    except (ImportError, RuntimeError, distributed.KilledWorker) as error:
        blame_scheduler(client)
        if isinstance(error, distributed.KilledWorker):
            raise ScorewiseError(workers_died("these rows", error)) from None
        raise


def workers_died(what: str, error: Any) -> str:
    """Return what to do about distributed's KilledWorker."""
    return (
        f"all workers that computed {what} died, the last at {error.last_worker.address}; usually "
        "they were out of memory: start workers with more memory or fewer threads, and repeat the "
        "command"
    )
