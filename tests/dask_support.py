"""A cluster of Dask for tests: real processes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, LocalCluster


@contextmanager
def two_processes() -> Iterator[Client]:
    """Two workers, each a process with one thread."""
    # port 0 is any that is free, so that tests can run side by side
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
